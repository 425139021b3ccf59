"""Stacking over the tokens of a corpus, with kinfolk's own token models (a CRF, most often) as bases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.data.corpus import Corpus
from kinfolk.features.company import Company
from kinfolk.features.neighbourhood import Neighbourhood
from kinfolk.features.neighbours import set_known
from kinfolk.models.batch import Batch
from kinfolk.models.labels import LabelCoding
from kinfolk.models.stacking import Ask, Instances, as_votes
from kinfolk.models.tagger import Tagger

Array = NDArray[Any]
FAINT = 0.02  # a chance below it is not told


@dataclass(eq=False)
class TokenInstances(Instances):
    """Tokens as `stacking` learns from them, whole documents at a time."""

    batch: Batch
    coding: LabelCoding

    def learn(self, level: int, index: Array, company: Array | None) -> TokenLevel:
        part = _part(self.batch, index, company)
        sentences = self.batch.corpus.token_sentences[index]
        first = np.unique(sentences, return_index=True)[1]
        weights = None if self.weights is None else self.weights[index][np.sort(first)]
        return TokenLevel(self.clone(level).fit(part, sample_weight=weights), self)

    def clone(self, level: int) -> Tagger:
        base: Tagger = self.bases[level]
        settings = base.get_params()
        if self.coding.inner is not None:
            settings["encoding"] = self.coding.inner  # a part of the documents must not choose another
        return type(base)(**settings)

    def company(self, votes: Array, own: Array | None, index: Array) -> Array:
        return told_tokens(self.templates, self.hood, votes, own, index)


@dataclass(frozen=True, eq=False)
class TokenLevel:
    tagger: Tagger
    instances: TokenInstances

    def proba(self, index: Array, company: Array | None) -> Array:
        return token_votes(self.tagger, _part(self.instances.batch, index, company), self.instances.coding, False)


def _part(batch: Batch, index: Array, company: Array | None) -> Batch:
    """The documents that the tokens `index` are all of."""
    corpus = batch.corpus
    chosen = np.unique(corpus.token_documents[index])
    sentences = np.unique(corpus.token_sentences[index])
    items = None if batch.items is None else [batch.items[s] for s in sentences]
    return Batch(corpus.select(chosen), items, extra=None if company is None else company.astype(np.float32))


def told_tokens(templates: Company, hood: Neighbourhood, votes: Array, own: Array | None, index: Array) -> Array:
    """(m, q). Chances too small to matter count as none: most tokens then have little to tell, and rows stay short."""
    mine = None if own is None else np.where(own < FAINT, 0.0, own)
    return templates.rows(hood, np.where(votes < FAINT, 0.0, votes), index, mine)


def token_votes(tagger: Tagger, batch: Batch, coding: LabelCoding, forced: bool) -> Array:
    """(n, L) marginals, in the order of `coding`'s classes: a fold may lack some of them."""
    table = np.zeros((batch.corpus.n_tokens, len(coding.classes)))
    if batch.corpus.n_tokens:
        found = tagger._decoder().marginals(batch, forced)
        table[:, coding.classes.encode(tagger.coding_.classes.names)] = found
    return table


def true_votes(corpus: Corpus, coding: LabelCoding, table: Array) -> Array:
    """The votes with certainty where the corpus has a label that the model knows."""
    table = table.copy()
    set_known(table, coding.known(corpus))
    return table


@dataclass(frozen=True, eq=False)
class TokenPredictor:
    """Trained levels, applied to one corpus. With `ceiling` neighbours give their true labels."""

    taggers: Sequence[Tagger]
    templates: Company
    coding: LabelCoding
    ask: Ask
    ceiling: bool
    n_jobs: int

    def extended(self, batch: Batch, forced: bool, draw: int = 0) -> Batch:
        """The batch as the last level sees it."""
        corpus, n = batch.corpus, batch.corpus.n_tokens
        unlabelled = corpus.with_labels(None, None)
        hood = Neighbourhood(n, len(self.coding.classes), {}, corpus=unlabelled, n_jobs=self.n_jobs)
        current = replace(batch, kept_rows=None, extra=None)
        for level, tagger in enumerate(self.taggers[:-1]):
            table = token_votes(tagger, current, self.coding, forced)
            own = as_votes(table, self.ask, level, draw, 1)
            votes = true_votes(corpus, self.coding, own) if self.ceiling else own
            mine = own if self.ask.own else None
            company = told_tokens(self.templates, hood, votes, mine, np.arange(n))
            current = replace(current, extra=company.astype(np.float32))
        return current
