"""Stacking over the tokens of a corpus, with kinfolk's own token models (a CRF, most often) as bases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.relations import Neighbourhood
from kinfolk.collective.stacking import Ask, Instances, as_votes
from kinfolk.collective.templates import Company, set_known
from kinfolk.text.batch import Batch, Entity, entity_list, found_spans
from kinfolk.text.corpus import Corpus
from kinfolk.text.schemes import LabelCoding
from kinfolk.text.skip_edges import alone
from kinfolk.text.tagger import Tagger

Array = NDArray[Any]
FAINT = 0.02  # a chance below it is not told


@dataclass(eq=False)
class TokenInstances(Instances):
    """Tokens as `stacking` learns from them, whole documents at a time."""

    batch: Batch
    coding: LabelCoding
    base_alone: bool  # whether the base answers for documents of one sentence

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


class Part(NamedTuple):
    """Documents of a batch, by the numbers of their tokens, and the tagger that labels them."""

    tagger: Tagger
    batch: Batch
    tokens: Array


@dataclass(frozen=True, eq=False)
class TokenPredictor:
    """Trained levels, applied to one corpus. With `ceiling` neighbours give their true labels; with `base_alone` the
    base answers for documents of one sentence, which have no company beyond it."""

    taggers: Sequence[Tagger]
    templates: Company
    coding: LabelCoding
    ask: Ask
    ceiling: bool
    base_alone: bool
    n_jobs: int

    def parts(self, batch: Batch, forced: bool) -> list[Part]:
        """The batch as those see it who answer, together all of its tokens."""
        corpus, (base, last) = batch.corpus, (self.taggers[0], self.taggers[-1])
        by_base = alone(corpus) & (self.base_alone and last is not base)
        tokens = np.arange(corpus.n_tokens)
        if not by_base.any():
            return [Part(last, self.extended(batch, forced), tokens)]
        if by_base.all():
            return [Part(base, replace(batch, extra=None), tokens)]
        lonely = by_base[corpus.token_documents]
        few, most = np.flatnonzero(lonely), np.flatnonzero(~lonely)
        return [
            Part(base, _part(batch, few, None), few),
            Part(last, self.extended(_part(batch, most, None), forced), most),
        ]

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


class StackedDecoder:
    """Trained levels as one tagger asks its method."""

    def __init__(self, predictor: TokenPredictor) -> None:
        self.predictor, self.coding = predictor, predictor.coding
        self._made: tuple[Batch, bool, list[Part]] | None = None

    def paths(self, batch: Batch, forced: bool) -> NDArray[np.int32]:
        found = np.empty(batch.corpus.n_tokens, np.int32)
        for part in self._parts(batch, forced):
            found[part.tokens] = self._classes(part)[part.tagger._decoder().paths(part.batch, forced)]
        return found

    def marginals(self, batch: Batch, forced: bool) -> Array:
        table = np.zeros((batch.corpus.n_tokens, len(self.coding.classes)))
        for part in self._parts(batch, forced):
            table[part.tokens] = token_votes(part.tagger, part.batch, self.coding, forced)
        return table

    def entities(self, batch: Batch, path: NDArray[np.int32], forced: bool) -> list[Entity]:
        spans = found_spans(batch, self.coding, path)
        starts, confidence = np.array([span.start for span in spans], np.int64), np.empty(len(spans))
        for part in self._parts(batch, forced):
            own = np.argsort(self._classes(part))[np.searchsorted(np.sort(self._classes(part)), path[part.tokens])]
            entities = part.tagger._decoder().entities(part.batch, own.astype(np.int32), forced)
            confidence[np.isin(starts, part.tokens)] = [entity.confidence for entity in entities]
        return entity_list(batch, spans, confidence)

    def _classes(self, part: Part) -> NDArray[np.int32]:
        """The numbers of a tagger's classes among those of the model."""
        return self.coding.classes.encode(part.tagger.coding_.classes.names)

    def _parts(self, batch: Batch, forced: bool) -> list[Part]:
        """Made once for a batch, which is asked for labels and then for more."""
        if self._made is None or self._made[0] is not batch or self._made[1] != forced:
            made = self.predictor.parts(batch, forced)
            kept = [part._replace(batch=replace(part.batch, kept_rows={})) for part in made]
            self._made = batch, forced, kept
        return self._made[2]
