"""Learning without labels: how far fields agree says which pairs are matches (`linking.fellegi_sunter`), and their
clusters then teach the pair model as true clusters would.

A field is one code a pair: 0 if a value is missing; 1 to 8 for the mean of its comparisons, each between 0 and 1;
above that for equal values, by how rare the value is. Values that stand in each other's field, as a given name and a
surname may, are equal, too. So agreement on a rare surname weighs more, and pairs repeat, as
rows of codes do. Clusters of the pairs above 0.5 are closed (pairs inside them that blocking left out are compared
too), and that the records of a cluster belong together is what the model learns next, with all its comparisons.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import InputError
from kinfolk.linking.choosing import ALONE
from kinfolk.linking.clusterers import AverageLink, Clusterer, OneToMany, OneToOne
from kinfolk.linking.comparisons import NumberDifference
from kinfolk.linking.dates import DateDifference
from kinfolk.linking.fellegi_sunter import CodedRows, FieldWeights, counts_for, fellegi_sunter
from kinfolk.linking.mentions import Mentions, pair_keys
from kinfolk.linking.pair_labels import PairLabels
from kinfolk.linking.pair_table import PairRows, distinct_rows
from kinfolk.linking.pairs import Answer, Comparison, Items, PairFeature, Texts, texts_of, where_known
from kinfolk.linking.rarity import LEVELS, ValueCounts
from kinfolk.linking.training import closed, sigmoid

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
ALIKE = 8  # levels of similarity
SIZE = 1 + ALIKE + LEVELS
MONTH = 30.0  # days at which two dates are half alike
TENTH = 0.1
SHARED = 0.03  # of the values of two fields, from which on they may be exchanged
STEEP, MIDDLES = 20.0, (0.75, 0.85, 0.95, 1.0)  # EM starts from 1 / (1 + e^-20 (a - 0.75)), a the mean agreement
CLOSEST_PAIRS = 10  # a record, by which EM learns where all pairs are candidates
# matches expected among pairs that are no candidates, for each candidate that is one: above it another start is tried
FEW_LEFT_OUT = 0.5


def similarity(feature: Comparison, value: Array) -> Array:
    """Between 0 and 1, 1 for the same; NaN where a value is missing."""
    if isinstance(feature, DateDifference):
        return 1.0 / (1.0 + value / MONTH)
    if isinstance(feature, NumberDifference):
        return 1.0 - np.minimum(value, 1.0) if feature.relative else 1.0 / (1.0 + value)
    return np.clip(value, 0.0, 1.0)


class FieldTexts(NamedTuple):
    """What the items have in a field, and the code of two that have the same, by value; 0 for none."""

    texts: Texts
    equal: NDArray[np.int64]

    @classmethod
    def of(cls, items: Mentions, name: str) -> FieldTexts:
        texts = texts_of(items, [name])
        rare = ValueCounts.of(texts, np.arange(items.n_items)).levels(texts.values)
        return cls(texts, np.append(1 + ALIKE + rare.astype(np.int64), 0))


def share_values(one: Texts, other: Texts) -> bool:
    """Whether of both fields at least SHARED of the values that items have occur in the other, too: then they hold the
    same kind of thing, and some items may have them exchanged, as a given name and a surname."""
    common = set(one.values) & set(other.values)
    for field in (one, other):
        here = np.fromiter((value in common for value in field.values), bool, len(field.values))
        counts = field.counts()
        if counts[here].sum() < max(SHARED * counts.sum(), 1.0):
            return False
    return True


def exchanged(one: Texts, other: Texts) -> Callable[[Items, Items], NDArray[np.bool_]]:
    """Of pairs, whether each item has in one field what the other has in the other, and not the same in both."""
    number = {value: k for k, value in enumerate(one.values)}
    names = np.array([number.get(value, len(number) + k) for k, value in enumerate(other.values)] + [-2], np.int64)
    first, second = one.codes.astype(np.int64), names[other.codes]  # missing: -1 and -2, which equal nothing

    def found(left: Items, right: Items) -> NDArray[np.bool_]:
        crosswise = (first[left] == second[right]) & (second[left] == first[right])
        return np.asarray(crosswise & (first[left] != first[right]), bool)

    return found


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
        texts = [FieldTexts.of(items, name) for name in self.fields]
        parts = [self._coder(items, of, own) for of, own in zip(texts, self.fields.values(), strict=True)]
        both = [(i, j) for i, j in combinations(range(len(texts)), 2) if share_values(texts[i].texts, texts[j].texts)]
        crossed = [(i, j, exchanged(texts[i].texts, texts[j].texts)) for i, j in both]

        def coded(left: Items, right: Items) -> NDArray[np.uint8]:
            codes = np.stack([part(left, right) for part in parts], axis=1)
            for i, j, found in crossed:
                rows = np.flatnonzero(found(left, right))
                for k in (i, j):  # as if they stood in their places
                    codes[rows, k] = texts[k].equal[texts[k].texts.codes[left[rows]]]
            return codes

        return coded

    def _coder(self, items: Mentions, of: FieldTexts, own: Sequence[Comparison]) -> Callable[[Items, Items], Array]:
        texts, equal = of
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


def learned_weights(pairs: CodedRows, drawn: CodedRows, n_left_out: int, sizes: Array) -> tuple[FieldWeights, float]:
    """EM from pairs that agree closely on what both have, and the matches that it expects among the pairs that are no
    candidates, for each candidate that it takes for one.

    Where these are many, it has found something else than matches, such as records of one town, and starts again from
    pairs that agree more closely, which is taken if it halves them. pairs: candidates; drawn: random pairs of the
    `n_left_out` others.
    """
    mean = mean_alike(pairs.codes, counts_for(alike(drawn.codes), drawn.counts))
    best: FieldWeights | None = None
    fewest = np.inf
    for middle in MIDDLES:
        weights = fellegi_sunter(pairs, sizes, sigmoid(STEEP * (mean - middle)), drawn)
        matches, others = (float(sigmoid(weights.scores(of.codes)) @ of.counts) for of in (pairs, drawn))
        left_out = n_left_out * others / max(float(drawn.counts.sum()), 1.0) / max(matches, 1.0)
        if best is None or left_out < fewest / 2:
            best, fewest = weights, left_out
        if fewest <= FEW_LEFT_OUT:
            break
    assert best is not None
    return best, fewest


def alike(codes: Array) -> NDArray[np.float64]:
    """From 0 to 1 for equal values."""
    return np.where(codes > ALIKE, 1.0, np.maximum(codes - 1.0, 0.0) / ALIKE)


def mean_alike(codes: Array, counts_for: Array | float = 1.0) -> NDArray[np.float64]:
    """The mean over the fields of rows that have a value; fields that repeat others may count less."""
    known = (codes > 0) * counts_for
    return np.asarray((known * alike(codes)).sum(axis=1) / np.maximum(known.sum(axis=1), 1e-12))


def closest(pairs: CodedRows, n: int) -> tuple[CodedRows, CodedRows]:
    """The rows of the n pairs that are most alike, and the others.

    Where all pairs are compared, those are for EM what blocking leaves otherwise: else nothing would be left by which
    it could be told that it has found something else than matches.
    """
    order = np.argsort(-mean_alike(pairs.codes), kind="stable")
    cut = int(np.searchsorted(np.cumsum(pairs.counts[order]), n, side="right"))
    near, far = (CodedRows(pairs.codes[rows], pairs.counts[rows]) for rows in (order[:cut], order[cut:]))
    return near, far


@dataclass(frozen=True, eq=False)
class Guess:
    """Items with the pairs that were compared and the clusters they were guessed to be in; the model of fields."""

    items: Mentions
    fields: dict[str, float]  # what each counts for
    weights: FieldWeights
    clusterer: Clusterer
    chance: float  # pairs that chance makes as close as the closest matches, for each of these
    left_out: float  # matches expected among pairs that are no candidates, for each that is one
    labelled: bool = False  # whether some pairs were known

    def __str__(self) -> str:
        matches = self.weights.share * 100
        less = [f"{name} {c:.2f}" for name, c in self.fields.items() if c < 0.75]
        again = f"; fields that repeat others count less: {', '.join(less)}" if less else ""
        return f"about {matches:.2g} % of the candidate pairs are matches, by how far their fields agree{again}"


@dataclass(frozen=True, eq=False)
class FieldMatches:
    """What fields say by themselves, whatever is labelled: items with the pairs compared and the log-odds of each; the
    other parts as in a `Guess`."""

    items: Mentions
    score: Array
    fields: dict[str, float]
    weights: FieldWeights
    clusterer: Clusterer
    chance: float
    left_out: float

    def guess(self, labels: PairLabels | None = None) -> Guess:
        """The clusters; `labels`, of some of the pairs and without contradictions, put records together and apart where
        they are certain."""
        items, together, apart = self.items, None, None
        if labels is not None:
            together, apart = labels.together, labels.apart
        compared = items.left, items.right, sigmoid(self.score)
        clusters = self.clusterer.cluster(items.n_items, *compared, together, apart, items.first_table)
        known = replace(items, clusters=clusters)
        return Guess(known, self.fields, self.weights, self.clusterer, self.chance, self.left_out, labels is not None)


class KeptMatches:
    """The same as `field_matches`, worked out once as long as it is asked for the same items."""

    def __init__(self) -> None:
        self._kept: FieldMatches | None = None
        self._of: Mentions | None = None

    def __call__(self, items: Mentions, features: Sequence[PairFeature], n_jobs: int) -> FieldMatches:
        if self._kept is None or self._of is not items:
            self._kept, self._of = field_matches(items, features, n_jobs), items
        return self._kept


def field_matches(items: Mentions, features: Sequence[PairFeature], n_jobs: int) -> FieldMatches:
    """Which items match by how far their fields agree; their clusters are not asked for."""
    features = [feature.learn(items) for feature in features]
    agreement = Agreement.of(features)
    if not agreement.fields:
        remedy = "compare fields, such as 'jaro_winkler(name)', or give clusters"
        raise InputError(f"without clusters a linker learns from comparisons of single fields: there is none; {remedy}")
    if not items.n_pairs:
        raise InputError("no candidate pair to learn from; choose wider blocking rules")
    codes = agreement.coder(items)
    rows = distinct_rows(codes, items.left, items.right, agreement.sizes, n_jobs)
    drawn, no_candidate = drawn_pairs(items, DRAWN)
    at_random = distinct_rows(codes, *drawn, agreement.sizes, n_jobs)
    of_others = np.bincount(at_random.row[no_candidate], minlength=len(at_random.codes))
    others = CodedRows(at_random.codes[of_others > 0], of_others[of_others > 0])
    pairs, n_others = CodedRows(rows.codes, rows.counts), items.n_possible_pairs - items.n_pairs
    every_pair = items.n_pairs > max(items.n_possible_pairs / 2, CLOSEST_PAIRS * items.n_items)  # or nearly all
    if every_pair:
        pairs, others = closest(pairs, CLOSEST_PAIRS * items.n_items)
        n_others = int(others.counts.sum())
    weights, left_out = learned_weights(pairs, others, n_others, agreement.sizes)
    matches = float(sigmoid(weights.scores(rows.codes)) @ rows.counts)
    weights = weights._replace(share=matches / items.n_pairs)
    if not weights.settled:
        log.info("EM did not settle in its iterations; the last one is taken")

    def decide(more: Mentions) -> Array:
        compared = distinct_rows(codes, more.left, more.right, agreement.sizes, n_jobs)
        return np.asarray(weights.scores(compared.codes)[compared.row])

    score = np.asarray(weights.scores(rows.codes)[rows.row])
    chance = by_chance(items, rows, at_random, weights)
    if every_pair and left_out > MANY_LEFT_OUT:  # most of what it found is not among the closest pairs
        chance = np.inf
    if chance > NO_EVIDENCE:
        score = np.minimum(score, -1.0)
    clusterer: Clusterer = AverageLink()
    if items.first_table is None:
        items, score = closed(items, score, decide, n_jobs=n_jobs)
    else:
        clusterer = across_unknown_tables(items, score)
    counted = dict(zip(agreement.fields, weights.counts_for.tolist(), strict=True))
    return FieldMatches(items, score, counted, weights, clusterer, chance, left_out)


# -- Is there a match at all? ---------------------------------------------------------------------------
#
# EM divides the pairs of any table in two, duplicates or not. What two records agree on by chance is known from pairs
# drawn at random: with p the share of them that agree on a field as closely as a pair does, the pair's surprise is
# S = -Σ_k c_k log p_k, and the distribution of S over all pairs, fields being independent, is a convolution. Of n
# possible pairs n · P(S >= t) are as close by chance; t is the surprise that the closest quarter of the matches exceed.

DRAWN = 100_000  # pairs
STEP = 0.25  # of S, where distributions are convolved
CLOSEST = 0.75
MANY = 0.01  # share of matches among all pairs
NO_EVIDENCE = 1 / 3  # by_chance above which nothing is linked,
WEAK = 0.02  # and above which it is warned
MANY_LEFT_OUT = 1.0  # matches left out by blocking, for each that is not, above which it is warned


def by_chance(items: Mentions, rows: PairRows, drawn: PairRows, weights: FieldWeights) -> float:
    """How many pairs chance makes as close as the closest quarter of the matches, for each that there is; 0 where there
    are no matches. rows: of the candidates; drawn: of random pairs."""
    matches = np.where(weights.scores(rows.codes) > 0, rows.counts, 0)
    if not matches.sum():
        return 0.0
    others = drawn.counts.astype(np.float64)
    if matches.sum() > MANY * items.n_possible_pairs:  # then matches are drawn too, and are no chance
        others *= 1.0 - sigmoid(weights.scores(drawn.codes))
    surprise, chance = np.zeros(len(rows.codes)), np.ones(1)
    for k, c in enumerate(weights.counts_for):
        own = np.bincount(drawn.codes[:, k], others, minlength=SIZE)
        closer = np.cumsum(own[:0:-1])[::-1]  # pairs that agree as closely as a code, or more
        of_code = np.append(0.0, -c * np.log((closer + 0.5) / (closer[0] + 1.0)))
        of_code = np.maximum(of_code, 0.0)
        surprise += of_code[rows.codes[:, k]]
        share = (own + 0.02) / (own + 0.02).sum()  # a code that was never drawn is not impossible
        chance = np.convolve(chance, np.bincount(np.rint(of_code / STEP).astype(np.int64), share))
    order = np.argsort(surprise)
    at = int(np.searchsorted(np.cumsum(matches[order]), CLOSEST * matches.sum()))
    t = surprise[order[min(at, len(order) - 1)]]
    expected = items.n_possible_pairs * chance[int(t / STEP) :].sum()
    return float(expected / max(rows.counts[surprise >= t].sum(), 1))


def drawn_pairs(items: Mentions, n: int) -> tuple[tuple[Items, Items], NDArray[np.bool_]]:
    """Random pairs, of two tables one of each, and which of them are no candidates."""
    rng, first = np.random.default_rng(0), items.first_table
    if first is None:
        a, b = rng.integers(0, items.n_items, (2, n))
    else:
        a, b = rng.integers(0, first, n), rng.integers(first, items.n_items, n)
    apart = a != b
    left, right = (end(a, b)[apart].astype(np.int32) for end in (np.minimum, np.maximum))
    keys, own = pair_keys(items.left, items.right), pair_keys(left, right)
    at = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
    return (left, right), keys[at] != own


# -- Two tables -----------------------------------------------------------------------------------------


def across_unknown_tables(items: Mentions, score: Array) -> Clusterer:
    """One to one, unless the records of one table alone have several partners that are as likely as matches are.

    Likely as matches: above the lowest tenth of the pairs that are the best of both their records. Where records of
    both tables have such partners, they are taken for look-alikes, as products of one maker are.
    """
    best = np.full(items.n_items, -np.inf)
    for side in (items.left, items.right):
        np.maximum.at(best, side, score)
    of_both = (score > 0) & (score >= np.maximum(best[items.left], best[items.right]))
    if not of_both.any():
        return OneToOne()
    likely = score >= np.quantile(score[of_both], TENTH)
    several = []
    for side in (items.left, items.right):
        partners = np.bincount(side[likely], minlength=items.n_items)
        several.append(float(np.mean(partners[side[of_both]] > 1)))
    log.info("%.0f %% of the first table's and %.0f %% of the second's matched records have several likely partners",
             *(100 * share for share in several))  # fmt: skip
    if (several[0] > ALONE) == (several[1] > ALONE):
        return OneToOne()
    return OneToMany(each="first" if several[1] > ALONE else "second")
