"""Learning without labels: how far fields agree says which pairs are matches (`linking.fellegi_sunter`), and their
clusters then teach the pair model as true clusters would.

A field is one code a pair: 0 if a value is missing; 1 to 8 for the mean of its comparisons, each between 0 and 1;
above that for equal values, by how rare the value is. So agreement on a rare surname weighs more, and pairs repeat, as
rows of codes do. Clusters of the pairs above 0.5 are closed (pairs inside them that blocking left out are compared
too), and that the records of a cluster belong together is what the model learns next, with all its comparisons.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import InputError
from kinfolk.linking.clusterers import AverageLink, Clusterer, OneToOne
from kinfolk.linking.comparisons import DateDifference, NumberDifference
from kinfolk.linking.fellegi_sunter import FieldWeights, fellegi_sunter
from kinfolk.linking.mentions import Mentions, pair_keys
from kinfolk.linking.pair_table import distinct_rows
from kinfolk.linking.pairs import Answer, Comparison, Items, PairFeature, texts_of, where_known
from kinfolk.linking.rarity import LEVELS, ValueCounts
from kinfolk.linking.records import PairLabels
from kinfolk.linking.training import closed, sigmoid

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
ALIKE = 8  # levels of similarity
SIZE = 1 + ALIKE + LEVELS
MONTH = 30.0  # days at which two dates are half alike
STEEP, MIDDLE = 20.0, 0.75  # EM starts from 1 / (1 + e^-20 (a - 0.75)), a the mean agreement of a pair


def similarity(feature: Comparison, value: Array) -> Array:
    """Between 0 and 1, 1 for the same; NaN where a value is missing."""
    if isinstance(feature, DateDifference):
        return 1.0 / (1.0 + value / MONTH)
    if isinstance(feature, NumberDifference):
        return 1.0 - np.minimum(value, 1.0) if feature.relative else 1.0 / (1.0 + value)
    return np.clip(value, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Agreement:
    """Codes of pairs, one a field: `fields` with the comparisons of each that answer numbers."""

    fields: dict[str, list[Comparison]]

    @classmethod
    def of(cls, features: Sequence[PairFeature]) -> Agreement:
        """Comparisons of single fields; how they compare several at once says nothing new of them."""
        fields: dict[str, list[Comparison]] = {}
        for one in features:
            if isinstance(one, Comparison) and len(one.fields) == 1:
                own = fields.setdefault(one.fields[0], [])
                if one.columns[0].values is None and len(one.columns) == 1 and one.columns[0].words is None:
                    own.append(one)
        return cls(fields)

    def coder(self, items: Mentions) -> Callable[[Items, Items], NDArray[np.uint8]]:
        parts = [self._coder(items, name, own) for name, own in self.fields.items()]
        return lambda left, right: np.stack([part(left, right) for part in parts], axis=1)

    def _coder(self, items: Mentions, name: str, own: Sequence[Comparison]) -> Callable[[Items, Items], Array]:
        texts = texts_of(items, [name])
        rare = ValueCounts.of(texts, np.arange(items.n_items)).levels(texts.values)
        equal = np.append(1 + ALIKE + rare.astype(np.int64), 0)
        answers: list[tuple[Comparison, Answer]] = [(feature, feature.of(items)) for feature in own]

        def coded(left: Items, right: Items) -> Array:
            a, b, known = where_known(texts.codes, left, right)
            alike = np.zeros((2, len(a)))
            for feature, answer in answers:
                value = similarity(feature, answer(left, right)[:, 0])
                there = ~np.isnan(value)
                alike += np.where(there, value, 0.0), there
            mean = alike[0] / np.maximum(alike[1], 1.0)
            level = 1 + np.minimum(ALIKE - 1, (mean * ALIKE).astype(np.int64))
            return np.where(known, np.where(a == b, equal[a], level), 0).astype(np.uint8)

        return coded

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.full(len(self.fields), SIZE)


def first_guess(codes: Array) -> NDArray[np.float64]:
    """Where EM starts: pairs that agree closely on what both have."""
    known = codes > 0
    alike = np.where(codes > ALIKE, 1.0, (codes - 1.0) / ALIKE)
    mean = np.where(known, alike, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return sigmoid(STEEP * (mean - MIDDLE))


@dataclass(frozen=True, eq=False)
class Guess:
    """Items with the pairs that were compared and the clusters they were guessed to be in; the model of fields."""

    items: Mentions
    fields: dict[str, float]  # what each counts for
    weights: FieldWeights
    clusterer: Clusterer
    labelled: bool = False  # whether some pairs were known

    def __str__(self) -> str:
        matches = self.weights.share * 100
        less = [f"{name} {c:.2f}" for name, c in self.fields.items() if c < 0.75]
        again = f"; fields that repeat others count less: {', '.join(less)}" if less else ""
        return f"about {matches:.2g} % of the candidate pairs are matches, by how far their fields agree{again}"


def guessed(items: Mentions, features: Sequence[PairFeature], n_jobs: int, labels: PairLabels | None = None) -> Guess:
    """The clusters of items whose clusters are not known; `features` have learned. `labels`: of some of the pairs."""
    agreement = Agreement.of(features)
    if not agreement.fields:
        remedy = "compare fields, such as 'jaro_winkler(name)', or give clusters"
        raise InputError(f"without clusters a linker learns from comparisons of single fields: there is none; {remedy}")
    if not items.n_pairs:
        raise InputError("no candidate pair to learn from; choose wider blocking rules")
    known = PairLabels(*np.empty((3, 0), np.int32)) if labels is None else labels
    rows = distinct_rows(agreement.coder(items), items.left, items.right, agreement.sizes, n_jobs)
    at = rows.row[np.searchsorted(pair_keys(items.left, items.right), pair_keys(known.left, known.right))]
    no, yes = (np.bincount(at[known.match == answer], minlength=len(rows.codes)) for answer in (0, 1))
    weights = fellegi_sunter(rows.codes, rows.counts, agreement.sizes, first_guess(rows.codes), yes, no)
    if not weights.settled:
        log.info("EM did not settle in its iterations; the last one is taken")

    def decide(more: Mentions) -> Array:
        compared = distinct_rows(agreement.coder(more), more.left, more.right, agreement.sizes, n_jobs)
        return np.asarray(weights.scores(compared.codes)[compared.row])

    score = np.asarray(weights.scores(rows.codes)[rows.row])
    clusterer: Clusterer = OneToOne() if items.first_table is not None else AverageLink()
    if clusterer.every_pair:
        items, score = closed(items, score, decide)
    pairs = np.stack([known.left, known.right], axis=1)
    together, apart = (pairs[known.match == answer] for answer in (1, 0))
    probability, first = sigmoid(score), items.first_table
    clusters = clusterer.cluster(items.n_items, items.left, items.right, probability, together, apart, first)
    counts_for = dict(zip(agreement.fields, weights.counts_for.tolist(), strict=True))
    return Guess(replace(items, clusters=clusters), counts_for, weights, clusterer, labels is not None)
