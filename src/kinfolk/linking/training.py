"""Training of a pair model: local, ranking, and structured, where each round asks for what the clustering needs.

Round 0 learns the truth y*. Every later round decides pairs with the model so far (h*), clusters them (h'), works out
by the E-step which decisions y' would do, and learns those, starting from the weights so far (the M-step).
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.checkpoint import running
from kinfolk.core.training import Callback, Convergence, TrainingPlan
from kinfolk.inference.clustering import LARGEST, e_step, log_odds, missing_pairs, pairs_in_components
from kinfolk.learning.lbfgs import Watch, optimise
from kinfolk.linking.clusterers import Clusterer
from kinfolk.linking.mentions import Mentions, pair_keys
from kinfolk.linking.objective import Bias, PairObjective, Tilt, grouped_scores
from kinfolk.linking.pair_table import GroupedRows, PairRows, PairSet
from kinfolk.linking.ranking import RankingObjective
from kinfolk.linking.scores import Metric

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
BLOCK = 1 << 16  # numbers of a block, which stay in the processor's cache


@dataclass(frozen=True)
class Round:
    """One round of training. `scores` are metrics on the training data after clustering; the first one chooses."""

    number: int
    positives: int  # pairs that were to be learned as links
    scores: dict[str, float]
    convergence: Convergence

    @property
    def score(self) -> float:
        return next(iter(self.scores.values()), float("nan"))


@dataclass(frozen=True, eq=False)
class PairData:
    """Training pairs as distinct rows; `on` are the weights of each, `truth` is their labels, and `certainty` how
    certain each is, from 0.5 to 1; None: all are."""

    items: Mentions
    rows: PairRows
    on: GroupedRows
    truth: NDArray[np.int8]
    certainty: NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls,
        learned: PairSet,
        items: Mentions,
        labels: NDArray[np.int8],
        n_jobs: int,
        certainty: NDArray[np.float64] | None = None,
    ) -> PairData:
        rows = learned.rows(items, n_jobs)
        return cls(items, rows, GroupedRows.of(learned.weights_on(rows.codes), learned.n_weights), labels, certainty)

    def with_more(
        self,
        learned: PairSet,
        items: Mentions,
        labels: NDArray[np.int8],
        n_jobs: int,
        certainty: NDArray[np.float64] | None = None,
    ) -> PairData:
        """Those of items with more pairs: only these are compared."""
        before = self.items
        fresh = ~np.isin(pair_keys(items.left, items.right), pair_keys(before.left, before.right), assume_unique=True)
        added = learned.rows(replace(items, left=items.left[fresh], right=items.right[fresh]), n_jobs)
        row = np.empty(items.n_pairs, np.int32)
        row[~fresh], row[fresh] = self.rows.row, added.row + len(self.rows.codes)
        rows = PairRows(np.concatenate([self.rows.codes, added.codes]), row)  # some rows twice, which does no harm
        on = GroupedRows.of(learned.weights_on(rows.codes), learned.n_weights)
        return PairData(items, rows, on, labels, certainty)

    def yes_and_no(self, labels: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How much each pair counts as a match and as none, by labels 1, 0 and -1: with certainty c, c and 1 - c."""
        yes, no = (labels == 1).astype(np.float64), (labels == 0).astype(np.float64)
        if self.certainty is None:
            return yes, no
        c = self.certainty
        return c * yes + (1.0 - c) * no, c * no + (1.0 - c) * yes

    @property
    def n_weights(self) -> int:
        return self.on.n_weights

    def scores(self, weights: Array, n_jobs: int) -> NDArray[np.float64]:
        """Log-odds, one a pair."""
        return grouped_scores(weights, self.on, n_jobs)[self.rows.row]


def learned_shares(data: PairData) -> NDArray[np.float64]:
    """The share of training pairs for which each weight is on."""
    share = data.rows.counts / max(len(data.rows.row), 1)
    by_entry = [
        np.bincount(ids, share, minlength=len(on)) for ids, on in zip(data.on.ids, data.on.weights_on, strict=True)
    ]
    return data.on.spread(np.concatenate([np.empty(0), *by_entry]))


class PairTrainer:
    """Fits weights to labels of pairs; `centre` are those that the ridge draws to, 0 unless given."""

    MEMORY = TrainingPlan.memory

    def __init__(
        self,
        data: PairData,
        plan: TrainingPlan,
        bias: Bias | None,
        callback: Callback | None,
        centre: Array | None = None,
    ) -> None:
        self.data, self.plan, self._callback = data, plan, callback
        self.centre = np.zeros(data.n_weights) if centre is None else centre
        self._tilt = Tilt() if bias is None else bias.tilt
        nobody = np.zeros(len(data.truth), bool)
        self._biased = nobody if bias is None else bias.biased(data.items.right, data.truth)
        self._lean = 0.0 if bias is None else bias.lean
        self.began = time.perf_counter()

    def with_plan(self, plan: TrainingPlan) -> PairTrainer:
        """The same with another plan."""
        other = copy.copy(self)
        other.plan = plan
        return other

    def fit(self, labels: Array, start: Array) -> tuple[Array, Convergence]:
        plan, data = self.plan, self.data
        yes, no = data.yes_and_no(labels)
        refused, accepted, biased = map(data.rows.totals, (no, yes * ~self._biased, yes * self._biased))
        objective = PairObjective(data.on, refused, accepted, biased, self._tilt, plan.l2, plan.n_jobs, self.centre)
        return self._optimised(objective, start)

    def _optimised(self, objective: Any, start: Array) -> tuple[Array, Convergence]:
        watch = Watch(_Whole(), self.plan, None, self._callback, self.began)
        alone = replace(self.plan, n_jobs=1, memory=self.MEMORY)  # the weights are few: threads are for the rows
        return optimise(objective, start, alone, watch, time.perf_counter())

    def scores(self, weights: Array) -> NDArray[np.float64]:
        """Of every training pair."""
        return self.data.scores(weights, self.plan.n_jobs)

    def leaning(self, score: Array) -> Array:
        """Log-odds as the E-step sees them: those of biased pairs are higher."""
        return score + self._lean * self._biased if self._lean else score


class RankingTrainer(PairTrainer):
    """Fits weights to the true antecedents of every item; pairs labelled -1 are left out.

    An item's antecedents compete, which bends the loss more than a diagonal can tell: a longer memory of the optimiser
    saves a third of the iterations.
    """

    MEMORY = 60

    def fit(self, labels: Array, start: Array) -> tuple[Array, Convergence]:
        data, plan, used = self.data, self.plan, np.flatnonzero(labels >= 0)
        row, right, n = data.rows.row[used], data.items.right[used], data.items.n_items
        objective = RankingObjective(data.on, row, right, labels[used] == 1, n, plan.l2, plan.n_jobs)
        return self._optimised(objective, start)


class _Whole:
    """Weights are not divided into parts."""

    def split(self, flat: Array) -> Array:
        return flat


@dataclass(frozen=True, eq=False)
class Learned:
    """What a round learned, from which labels, its log-odds of all pairs, and the clusters of the pairs used."""

    labels: NDArray[np.int8]
    weights: Array
    convergence: Convergence
    score: NDArray[np.float64]
    cluster: Callable[[Array], Array]

    @cached_property
    def clusters(self) -> Array:
        return self.cluster(self.score)


def rounds_of(
    trainer: PairTrainer,
    clusterer: Clusterer,
    kind: str,
    rounds: int,
    used: NDArray[np.bool_] | None = None,
    local: tuple[Array, Convergence] | None = None,
) -> Iterator[Learned]:
    """The local round and up to `rounds` structured ones, fewer if a round asks for the decisions of the one before.

    used    the pairs that may be learned from; None: all
    local   what the local round is known to learn from them, which the clusterer has no part in
    """
    data, items = trainer.data, trainer.data.items
    mask = np.ones(len(data.truth), bool) if used is None else used
    chosen = np.flatnonzero(mask)

    def cluster(score: Array) -> Array:
        return clusters_of(items, sigmoid(score), clusterer, chosen)

    labels, weights = np.where(mask, data.truth, np.int8(-1)), trainer.centre
    for number in range(rounds + 1):
        weights, convergence = trainer.fit(labels, weights) if number or local is None else local
        found = Learned(labels, weights, convergence, trainer.scores(weights), cluster)
        yield found
        if number < rounds:
            wanted = np.full_like(labels, -1)
            e_step_of = partial(_wanted, trainer, clusterer.threshold, kind, found, chosen)
            wanted[mask] = running().step("E-step", labels).once(e_step_of)
            wanted[data.truth < 0] = -1  # of a pair whose truth is not known nothing is asked
            if np.array_equal(labels, wanted):
                log.info("round %d asks for the same decisions as the one before: settled", number + 1)
                return
            labels = wanted


def _wanted(trainer: PairTrainer, threshold: float, kind: str, found: Learned, used: Array) -> NDArray[np.int8]:
    """The E-step: y' of the pairs that are used, from the decisions of the model so far and their clusters."""
    items, truth = trainer.data.items, trainer.data.truth[used]
    left, right, leaning = items.left[used], items.right[used], trainer.leaning(found.score)
    clusters = found.clusters if leaning is found.score else found.cluster(leaning)
    together = (clusters[left] == clusters[right]).astype(np.int8)
    decided = (sigmoid(leaning[used]) > threshold).astype(np.int8)
    return e_step(kind, items.n_items, left, right, truth, decided, together, leaning[used])


def train_rounds(
    trainer: PairTrainer, clusterer: Clusterer, kind: str, rounds: int, measure: Callable[[Array], dict[str, float]]
) -> tuple[list[Array], list[Round]]:
    """The weights of every round, and how it went; `measure` takes clusters of the training items to scores."""
    report: list[Round] = []
    weights: list[Array] = []
    for number, found in enumerate(rounds_of(trainer, clusterer, kind, rounds)):
        weights.append(found.weights)
        scores = measure(found.clusters) if rounds else {}
        report.append(Round(number, int((found.labels == 1).sum()), scores, found.convergence))
        log.info("round %d: %.4f on the training data; %s", number, report[-1].score, found.convergence)
    return weights, report


def best_round(scores: Sequence[float], keep_local: bool, slack: float = 0.0) -> int:
    """The round with the highest score, by more than `slack` than an earlier one; the first if there is no other."""
    best = 0 if keep_local or len(scores) == 1 else 1
    for number in range(best + 1, len(scores)):
        if scores[number] > scores[best] + slack:
            best = number
    return best


def sigmoid(score: Array) -> NDArray[np.float64]:
    """1 / (1 + e^-s) without overflow."""
    return by_blocks(lambda s: np.exp(-np.logaddexp(0.0, -s)), score)


def by_blocks(function: Callable[[Array], Array], values: Array, out: Array | None = None) -> NDArray[np.float64]:
    """What a function of single numbers makes of many, a block at a time: of millions of pairs what it needs on the
    way would be several times as large as what it answers. `out`: where to put it, if at all, which may be `values`."""
    if values.ndim != 1 or len(values) <= BLOCK:
        return np.asarray(function(values), np.float64)
    out = np.empty(len(values)) if out is None else out
    for start in range(0, len(values), BLOCK):
        out[start : start + BLOCK] = function(values[start : start + BLOCK])
    return out


# -----------------------------------------------------------------------------------------------------
# The threshold of a clusterer and the round of training, chosen by models that have not seen the pairs they score.
#
# A model is far too sure of the pairs it was trained on, so a choice by its own scores would be wrong. Entities
# (or documents, where there are enough) are dealt into folds; model k learns from pairs without an item of fold k and
# scores the others; a pair across two folds has the mean of two such scores. Where bins end was learned from all
# training pairs, once.

# Thresholds that are tried, as log-odds: probabilities in steps of 5 %, and beyond them down to 0.25 % and up to 98 %.
LOG_ODDS = np.concatenate([np.arange(-6.0, -3.0, 0.5), log_odds(np.arange(1, 20) / 20), [3.5, 4.0]])
PARTS = 20  # of the jackknife
WIDTH = 1.28  # what a gain has to exceed, in standard errors: it is above 0 with 90 % confidence
AS_GOOD = 0.001  # scores this close, or within what one pair makes, are taken as equal


@dataclass(frozen=True)
class ThresholdChoice:
    """Scores of the thresholds tried; the gain of the best over the clusterer's own, and how uncertain it is."""

    own: float
    best: float
    tried: dict[float, float]
    gain: float
    half_width: float
    chosen: float

    def __str__(self) -> str:
        own = f"threshold {self.own:.3f} has {self.tried[self.own]:.4f} on unseen training pairs"
        if self.best == self.own:
            return f"{own}, the best of those tried"
        verdict = "taken" if self.chosen == self.best else "not enough to leave it"
        return f"{own}, {self.best:.3f} has {self.gain:+.4f} ± {self.half_width:.4f}: {verdict}"


def item_folds(items: Mentions, folds: int, seed: int | None) -> NDArray[np.int64]:
    """The fold of each item: by document if there are twice as many as folds, else by true cluster."""
    parts = items.groups if items.n_groups >= 2 * folds else items.clusters
    assert parts is not None
    distinct, inverse = np.unique(parts, return_inverse=True)
    dealt = np.random.default_rng(seed).permutation(len(distinct)) % folds
    return np.asarray(dealt[inverse], np.int64)


@dataclass(frozen=True, eq=False)
class Unseen:
    """What models say of training pairs that they have not seen: parts of the items, for every round log-odds of
    every pair, scores of antecedents to be averaged with, and each round's clusters."""

    part: NDArray[np.int64]
    log_odds: list[NDArray[np.float64]]
    ranked: NDArray[np.float64] | None
    clusters: list[Array]


def unseen_scores(
    trainer: PairTrainer,
    clusterer: Clusterer,
    kind: str,
    rounds: int,
    fold: Array,
    local: dict[int, tuple[Array, Convergence]] | None = None,
) -> list[NDArray[np.float64]]:
    """For every round, log-odds of every training pair, by models that saw no pair of one of its items.

    So none saw the pair itself; across two folds there are two models, each of which may have seen the other item.
    `local` remembers what the local round of each fold learns, for another call with other clusters.
    """
    known = {} if local is None else local
    items = trainer.data.items
    a, b = fold[items.left], fold[items.right]
    totals = np.zeros((rounds + 1, len(a)))
    times = np.zeros(len(a))
    for k in range(int(fold.max(initial=0)) + 1):
        unseen = (a == k) | (b == k)
        score = np.empty(0)
        for number, found in enumerate(rounds_of(trainer, clusterer, kind, rounds, ~unseen, known.get(k))):
            known.setdefault(k, (found.weights, found.convergence))
            score = found.score
            totals[number, unseen] += score[unseen]
        totals[number + 1 :, unseen] += score[unseen]  # settled: later rounds are the same
        times += unseen
    return list(totals / np.maximum(times, 1))


RIDGES = (1.0, 10.0, 100.0)


LARGE = 4.0  # true pairs a link of a tree over each entity, from which on stronger ridges are tried


def best_ridge(trainer: PairTrainer, clusterer: Clusterer, fold: Array) -> TrainingPlan:
    """The plan with the ridge of least log-loss of unseen pairs; stronger ones are tried as long as they are better.

    Pairs of a large entity say much the same: of n records there are n (n - 1) / 2, where n - 1 would tell all. So they
    promise more than they hold, and a stronger ridge than the first may be better; elsewhere none is tried.
    """
    data, known = trainer.data, trainer.data.truth >= 0
    links = data.items.n_items - len(np.unique(np.asarray(data.items.clusters)))
    if data.items.n_true_pairs < LARGE * links:
        return trainer.plan

    yes, no = data.yes_and_no(data.truth)

    def loss(plan: TrainingPlan) -> float:
        score = unseen_scores(trainer.with_plan(plan), clusterer, "nearest", 0, fold)[0]
        return float((yes * np.logaddexp(0.0, -score) + no * np.logaddexp(0.0, score))[known].mean())

    best = trainer.plan
    least = loss(best)
    for l2 in RIDGES[1:]:
        plan = replace(best, l2=l2)
        now = loss(plan)
        log.info("log-loss of unseen training pairs: %.5f with `l2=%g`, %.5f with %g", least, best.l2, now, l2)
        if now >= least:
            break
        best, least = plan, now
    return best


def clusters_of(
    items: Mentions, value: Array, clusterer: Clusterer, pairs: Any = slice(None), n_jobs: int = 1
) -> Array:
    """The clusters by the probabilities (or shares) of some of the pairs."""
    left, right = items.left[pairs], items.right[pairs]
    return clusterer.cluster(items.n_items, left, right, value[pairs], first_table=items.first_table, n_jobs=n_jobs)


def slack(items: Mentions) -> float:
    """By how much scores have to differ: what one pair makes, or AS_GOOD."""
    return max(AS_GOOD, 1.0 / max(items.n_true_pairs, 1))


def best_threshold(
    items: Mentions, value: Array, clusterer: Clusterer, metric: Metric, seed: int | None = 0, *, guarded: bool,
    n_jobs: int = 1,
) -> tuple[float, ThresholdChoice]:  # fmt: skip
    """The threshold, as a probability, by the metric of clusters; `value` of every pair is by models that never saw it.

    Of thresholds that are as good as the best, the one nearest to the clusterer's own is taken. `guarded`: the
    clusterer's own stays unless the best is better with 90 % confidence, by the jackknife below; the best of many
    thresholds always looks better on the pairs it was chosen by, and few entities say little.
    """
    own = float(clusterer.threshold)
    grid = [own, *(t for t in map(float, sigmoid(LOG_ODDS)) if abs(t - own) > 1e-9)]
    clusters = at_thresholds(items, value, clusterer, grid, n_jobs)
    tried = {t: metric(found) for t, found in clusters.items()}
    most = max(tried.values())
    good = np.array([t for t, value in tried.items() if value >= most - slack(items)])
    away = np.abs(log_odds(good) - log_odds(np.array([own])))
    best = own if own in good else float(good[away.argmin()])
    gain, error = gain_of(items, clusters[best], clusters[own], metric, seed) if best != own else (0.0, 0.0)
    chosen = best if not guarded or gain > WIDTH * error else own
    return chosen, ThresholdChoice(own, best, tried, gain, WIDTH * error, chosen)


def gain_of(items: Mentions, one: Array, other: Array, metric: Metric, seed: int | None) -> tuple[float, float]:
    """By how much the metric of clusters `one` exceeds that of `other`, and its standard error.

    The error is the jackknife's over PARTS parts of the entities (or documents): with g_k the gain without part k,
    e² = (K - 1) / K Σ_k (g_k - mean g)².
    """
    part = item_folds(items, PARTS, seed)
    gains = [metric(one, part != k) - metric(other, part != k) for k in range(int(part.max(initial=0)) + 1)]
    spread = np.array(gains) - np.mean(gains)
    return metric(one) - metric(other), float(np.sqrt((len(gains) - 1) / len(gains) * (spread @ spread)))


def at_thresholds(
    items: Mentions, value: Array, clusterer: Clusterer, thresholds: Sequence[float], n_jobs: int
) -> dict[float, Array]:
    """The clusters at each threshold; one after the other, as threads would wait for each other between kernels."""
    return {t: clusters_of(items, value, at_threshold(clusterer, t), n_jobs=n_jobs) for t in thresholds}


def at_threshold(clusterer: Clusterer, threshold: float) -> Clusterer:
    return type(clusterer)(**{**clusterer.get_params(), "threshold": threshold})


# -- Few labels, which move weights that were learned without -------------------------------------------


def before_labels(
    trainer: PairTrainer, clusterer: Clusterer, kind: str, rounds: int, keep_local: bool, guess: Metric
) -> Array:
    """The weights that guessed clusters teach, as they do without labels; the round is chosen by a metric of these."""
    weights, report = train_rounds(trainer, clusterer, kind, rounds, lambda clusters: {"pair_f1": guess(clusters)})
    return weights[best_round([one.score for one in report], keep_local)]


def still_to_learn(data: PairData, weights: Array, clusterer: Clusterer, n_jobs: int) -> PairData:
    """The training pairs with labels that move weights only where these are wrong.

    Labels that clusters get right although the pair model by itself does not are left out (-1), as in structured
    rounds: a look-alike that one-to-one matching keeps out, say, needs no lower log-odds, and learning some would cost
    true matches theirs. Labels that the pair model gets right too ask for no more than its own probability: they hold
    it in place and do not push. Two hundred random pairs, nearly all of them no matches, would else lower all log-odds,
    and a hesitant "0.7" those of matches that are clear. 0.5 says nothing.
    """
    items, truth, probability = data.items, data.truth, sigmoid(data.scores(weights, n_jobs))
    clusters = clusters_of(items, probability, clusterer)
    together = (clusters[items.left] == clusters[items.right]).astype(np.int8)
    alone = (probability > clusterer.threshold).astype(np.int8)
    given = np.ones(len(truth)) if data.certainty is None else data.certainty
    said = (together == truth) & (alone != truth) | (given == 0.5)
    own = np.where(truth == 1, probability, 1.0 - probability)
    certainty = np.where((together == truth) & (alone == truth), own, given)
    return replace(data, truth=np.where(said, np.int8(-1), truth), certainty=certainty)


# -- Closure of candidate pairs: what blocking left out inside likely clusters is compared too ---------

ROUNDS = 5  # pairs added may join clusters, whose pairs are missing then; nearly all come in the first round


def closed(
    items: Mentions, score: Array, decide: Callable[[Mentions], Array], threshold: float = 0.5, n_jobs: int = 1
) -> tuple[Mentions, NDArray[np.float64]]:
    """The items with more pairs, and the log-odds of all; `decide` gives those of the pairs of items."""
    found, scores = with_closure(items, score, decide, threshold, n_jobs)
    tell_closure(items.n_pairs, found.n_pairs)
    return found, scores


def tell_closure(candidates: int, compared: int) -> None:
    if compared > candidates:
        log.info("%s", closure_line(candidates, compared))


def with_closure(
    items: Mentions, score: Array, decide: Callable[[Mentions], Array], threshold: float = 0.5, n_jobs: int = 1
) -> tuple[Mentions, NDArray[np.float64]]:
    """As `closed`, without a word of it: of a part, where it is told of the whole."""
    added, their_score = left_out(items, score, decide, threshold, n_jobs)
    if not added.n_pairs:
        return items, score
    places = places_among(items.left, items.right, added)
    return with_added(items, added, places), np.insert(score, places, their_score)


def left_out(
    items: Mentions, score: Array, decide: Callable[[Mentions], Array], threshold: float = 0.5, n_jobs: int = 1
) -> tuple[Mentions, NDArray[np.float64]]:
    """The items with the pairs that closure adds to those they have, and the log-odds of these."""
    too_large = 0
    # Clusters lie within the components of pairs above the threshold, and so do the pairs that are added: components
    # stay what they are, and pairs between them have no part in it.
    probability = sigmoid(score)
    inside = pairs_in_components(items.n_items, items.left, items.right, probability, threshold)
    left, right, probability = items.left[inside], items.right[inside], probability[inside]
    del inside
    added, their_score, n_pairs = items.with_pairs(left[:0], right[:0]), score[:0], items.n_pairs
    for _ in range(ROUNDS):
        if n_pairs >= items.n_possible_pairs:
            break
        pairs = items.n_items, left, right, probability
        *missing, too_large = missing_pairs(*pairs, threshold, items.first_table or 0, n_jobs=n_jobs)
        if not len(missing[0]):
            break
        more = items.with_pairs(*missing)
        more_score = decide(more)
        n_pairs += more.n_pairs
        left, right, probability = _with_more((left, right, probability), more, sigmoid(more_score))
        *both, their_score = _with_more((added.left, added.right, their_score), more, more_score)
        added = replace(items, left=both[0], right=both[1])
    if too_large:
        message = "%d likely clusters have over %d records; pairs in them that blocking left out count as no"
        log.warning(message, too_large, LARGEST)
    return added, their_score


def with_added(items: Mentions, added: Mentions, places: Array) -> Mentions:
    """The items with the pairs of others among theirs."""
    left, right = np.insert(items.left, places, added.left), np.insert(items.right, places, added.right)
    return replace(items, left=left, right=right)


def _with_more(pairs: tuple[Array, Array, Array], added: Mentions, values: Array) -> tuple[Array, Array, Array]:
    """Left and right of pairs and a number of each, with others put into their places."""
    places = places_among(pairs[0], pairs[1], added)
    left, right, number = (
        np.insert(own, places, more) for own, more in zip(pairs, (added.left, added.right, values), strict=True)
    )
    return left, right, number


def places_among(left: Array, right: Array, added: Mentions) -> NDArray[np.int64]:
    """Where pairs belong among others: first by the right item, of whose pairs there are few, then by the left."""
    low, high = (np.searchsorted(right, added.right, side=side) for side in ("left", "right"))
    while (within := low < high).any():  # halved until nothing is left of any
        middle = (low + high) // 2
        before = within.copy()
        before[within] = left[middle[within]] < added.left[within]
        low = np.where(before, middle + 1, low)
        high = np.where(within & ~before, middle, high)
    return np.asarray(low, np.int64)


def closure_line(candidates: int, compared: int) -> str:
    """What closure did, in a line."""
    more = compared - candidates
    pairs = f"{more:,} pair{'s' * (more != 1)} inside likely clusters that blocking left out"
    share = f" ({100 * more / candidates:.1f} % more)" if candidates else ""  # rules alone may have made all
    return f"{pairs} {'are' if more != 1 else 'is'} compared too{share}"


def item_pairs(items: Mentions, given: Any) -> Any:
    """Pairs of item numbers from pairs of numbers or names; None stays None."""
    if given is None:
        return None
    numbers = [[items.number(one) for one in pair] for pair in np.asarray(given).tolist()]
    return np.array(numbers, np.int64).reshape(-1, 2)
