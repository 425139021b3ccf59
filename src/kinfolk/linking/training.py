"""Training of a pair model: local, and structured, where each round asks for what the clustering after it needs.

Round 0 learns the truth y*. Every later round decides pairs with the model so far (h*), clusters them (h'), works out
by the E-step which decisions y' would do, and learns those, starting from the weights so far (the M-step).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.training import Callback, Convergence, TrainingPlan, Watch, optimise
from kinfolk.inference.e_steps import e_step
from kinfolk.linking.bias import Bias
from kinfolk.linking.clusterers import Clusterer
from kinfolk.linking.grouped_rows import GroupedRows
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.objective import PairObjective, Tilt, grouped_scores
from kinfolk.linking.pair_rows import PairRows

log = logging.getLogger("kinfolk")
Array = NDArray[Any]


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
    """Training pairs as distinct rows; `on` are the weights of each."""

    items: Mentions
    rows: PairRows
    on: GroupedRows
    truth: NDArray[np.int8]

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
    """Fits weights to labels of pairs."""

    def __init__(self, data: PairData, plan: TrainingPlan, bias: Bias | None, callback: Callback | None) -> None:
        self.data, self.plan, self._callback = data, plan, callback
        self._tilt = Tilt() if bias is None else bias.tilt
        nobody = np.zeros(len(data.truth), bool)
        self._biased = nobody if bias is None else bias.biased(data.items.right, data.truth)
        self._lean = 0.0 if bias is None else bias.lean
        self.began = time.perf_counter()

    def fit(self, labels: Array, start: Array) -> tuple[Array, Convergence]:
        rows, linked = self.data.rows, labels == 1
        refused, accepted, biased = (
            rows.totals(chosen.astype(np.float64))
            for chosen in (labels == 0, linked & ~self._biased, linked & self._biased)
        )
        plan, data = self.plan, self.data
        objective = PairObjective(data.on, refused, accepted, biased, self._tilt, plan.l2, plan.n_jobs)
        watch = Watch(_Whole(), plan, None, self._callback, self.began)
        alone = replace(plan, n_jobs=1)  # the weights are few: threads are for the rows
        return optimise(objective, start, alone, watch, time.perf_counter())

    def leaning(self, score: Array) -> Array:
        """Log-odds as the E-step sees them: those of biased pairs are higher."""
        return score + self._lean * self._biased if self._lean else score


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
    left, right = items.left[chosen], items.right[chosen]

    def cluster(score: Array) -> Array:
        return clusterer.cluster(items.n_items, left, right, sigmoid(score[chosen]), first_table=items.first_table)

    labels, weights = np.where(mask, data.truth, np.int8(-1)), np.zeros(data.n_weights)
    for number in range(rounds + 1):
        weights, convergence = trainer.fit(labels, weights) if number or local is None else local
        found = Learned(labels, weights, convergence, data.scores(weights, trainer.plan.n_jobs), cluster)
        yield found
        if number < rounds:
            wanted = np.full_like(labels, -1)
            wanted[mask] = _wanted(trainer, clusterer.threshold, kind, found, chosen)
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
    """The weights of every round and their story; `measure` takes clusters of the training items to scores."""
    story: list[Round] = []
    weights: list[Array] = []
    for number, found in enumerate(rounds_of(trainer, clusterer, kind, rounds)):
        weights.append(found.weights)
        scores = measure(found.clusters) if rounds else {}
        story.append(Round(number, int((found.labels == 1).sum()), scores, found.convergence))
        log.info("round %d: %.4f on the training data; %s", number, story[-1].score, found.convergence)
    return weights, story


def best_round(scores: Sequence[float], keep_local: bool, slack: float = 0.0) -> int:
    """The round with the highest score, by more than `slack` than an earlier one; the first if there is no other."""
    best = 0 if keep_local or len(scores) == 1 else 1
    for number in range(best + 1, len(scores)):
        if scores[number] > scores[best] + slack:
            best = number
    return best


def sigmoid(score: Array) -> NDArray[np.float64]:
    """1 / (1 + e^-s) without overflow."""
    return np.exp(-np.logaddexp(0.0, -score))  # type: ignore[no-any-return]
