"""A fitted mixture of parents seen from the side of prediction, for tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.gate import LocalModel
from kinfolk.collective.joint import Sample
from kinfolk.collective.templates import set_known
from kinfolk.inference.mixture import beliefs
from kinfolk.inference.mixture_spans import LabelledSpan, mixture_span_probabilities
from kinfolk.learning.tables import TableWeights
from kinfolk.text import schemes
from kinfolk.text.batch import Batch, FeatureSet
from kinfolk.text.decoder import allowed_steps, most_expected
from kinfolk.text.entities import Entity, entity_list, found_spans
from kinfolk.text.labels import LabelCoding
from kinfolk.text.parents import Voice
from kinfolk.text.token_parents import TokenParents

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Direction:
    """One model of one direction: its rule for parents, its weights."""

    parents: TokenParents
    weights: TableWeights


@dataclass(frozen=True, eq=False)
class MixtureDecoder:
    """Marginals are the mean over directions; labels are read off them."""

    directions: tuple[Direction, ...]
    local: LocalModel | None
    features: FeatureSet
    pair_features: FeatureSet | None
    coding: LabelCoding
    constrain: bool
    n_jobs: int

    def samples(self, batch: Batch) -> Iterator[tuple[Direction, Sample]]:
        """For each direction the compiled tokens."""
        rows = batch.rows(self.features, self.n_jobs)
        pair_rows = None if self.pair_features is None else batch.rows(self.pair_features, self.n_jobs, pairs=True)
        doubt = None if self.local is None else self.local.doubt(rows, self.n_jobs)
        for direction in self.directions:
            sample, _, _ = direction.parents.compile(batch.corpus, rows, pair_rows, doubt)
            yield direction, sample

    def marginals(self, batch: Batch, forced: bool) -> Array:
        """(n, L). Forced labels are certain, and are seen by whoever looks at their token; others are not revised."""
        labels = self.coding.encode(batch.corpus, repair=False) if forced else None
        table = np.zeros((batch.corpus.n_tokens, len(self.coding.classes)))
        for direction, sample in self.samples(batch):
            table += sample.beliefs(direction.weights, labels, self.n_jobs)[0].marginals / len(self.directions)
        if labels is not None:
            set_known(table, labels)
        return table

    def paths(self, batch: Batch, forced: bool) -> NDArray[np.int32]:
        """The valid labelling with the greatest expected number of right labels; without `constrain`, the arg-max."""
        labels = self.coding.encode(batch.corpus, repair=False) if forced else None
        allowed = allowed_steps(self.coding, self.constrain)
        return most_expected(batch.corpus, self.marginals(batch, forced), allowed, labels, self.n_jobs)

    def entities(self, batch: Batch, path: NDArray[np.int32], forced: bool) -> list[Entity]:
        """The entities of a labelling, each with the probability that exactly it is there (mean over directions)."""
        labels = self.coding.encode(batch.corpus, repair=False) if forced else None
        found = found_spans(batch, self.coding, path)
        if not found:
            return []
        continues = schemes.continuations(self.coding.classes.names)
        ends = batch.corpus.sentence_starts[1:]
        last = ends[np.searchsorted(ends, [s.start for s in found], side="right")]
        spans = [
            LabelledSpan(s.start, path[s.start : s.end], bool(s.end < end)) for s, end in zip(found, last, strict=True)
        ]
        confidence = np.zeros(len(found))
        for direction, sample in self.samples(batch):
            wirings, scores = sample.wired.wirings, sample.scores(direction.weights, self.n_jobs)
            alphas = sample.alphas(direction.weights.gate)
            (known,) = beliefs(wirings, scores, alphas, labels, self.n_jobs)
            part = mixture_span_probabilities(wirings[0], scores, alphas[0], known, spans, continues, labels)
            confidence += part / len(self.directions)
        return entity_list(batch, found, confidence)

    def voices(self, batch: Batch, tokens: Sequence[int]) -> list[list[Voice]]:
        """Who speaks for each token, in every direction; weights of all sum to 1."""
        spoken: list[list[Voice]] = [[] for _ in tokens]
        for direction, sample in self.samples(batch):
            names = direction.parents.names
            for voices, own in zip(spoken, sample.voices(direction.weights, names, tokens, self.n_jobs), strict=True):
                voices += [replace(voice, weight=voice.weight / len(self.directions)) for voice in own]
        return spoken

    def long_edges(self, batch: Batch) -> list[tuple[int, int, str]]:
        """(token, token it looks at, relation) of all skip edges."""
        found = []
        for direction in self.directions:
            edges, _ = direction.parents.edges(batch.corpus)
            for name, pairs in zip(direction.parents.names[1:], edges[1:], strict=True):
                found += [(child, parent, name) for child, parent in pairs.tolist()]
        return found
