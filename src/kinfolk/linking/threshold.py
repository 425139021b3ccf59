"""The threshold of a clusterer and the round of training, chosen by models that have not seen the pairs they score.

A model is far too sure of the pairs it was trained on, so a choice by its own scores would be wrong. Entities
(or documents, where there are enough) are dealt into folds; model k learns from pairs that touch no item of fold k and
scores those that do; a pair across two folds has the mean of two such scores. Where bins end was learned from all
training pairs, once: what little that tells is not kept from the models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.training import Convergence
from kinfolk.inference.correlation import log_odds
from kinfolk.linking.clusterers import Clusterer
from kinfolk.linking.link_scores import Metric
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.training import PairTrainer, rounds_of, sigmoid

Array = NDArray[Any]
LOG_ODDS = np.arange(-6.0, 4.1, 0.5)
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

    def __str__(self) -> str:
        told = f"threshold {self.own:.3f} has {self.tried[self.own]:.4f} on unseen training pairs"
        if self.best == self.own:
            return f"{told}, the best of those tried"
        verdict = "taken" if self.gain > self.half_width else "not enough to leave it"
        return f"{told}, {self.best:.3f} has {self.gain:+.4f} ± {self.half_width:.4f}: {verdict}"


def item_folds(items: Mentions, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each item: by document if there are twice as many as folds, else by true cluster."""
    parts = items.groups if items.n_groups >= 2 * folds else items.clusters
    assert parts is not None
    distinct, inverse = np.unique(parts, return_inverse=True)
    dealt = np.random.default_rng(seed).permutation(len(distinct)) % folds
    return np.asarray(dealt[inverse], np.int64)


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
        asked = (a == k) | (b == k)
        score = np.empty(0)
        for number, found in enumerate(rounds_of(trainer, clusterer, kind, rounds, ~asked, known.get(k))):
            known.setdefault(k, (found.weights, found.convergence))
            score = found.score
            totals[number, asked] += score[asked]
        totals[number + 1 :, asked] += score[asked]  # settled: later rounds are the same
        times += asked
    return list(totals / np.maximum(times, 1))


def unseen_score(items: Mentions, score: Array, clusterer: Clusterer, metric: Metric) -> float:
    pairs = items.n_items, items.left, items.right, sigmoid(score)
    return metric(clusterer.cluster(*pairs, first_table=items.first_table))


def slack(items: Mentions) -> float:
    """By how much scores have to differ: what one pair makes, or AS_GOOD."""
    return max(AS_GOOD, 1.0 / max(items.n_true_pairs, 1))


def best_threshold(
    items: Mentions, score: Array, clusterer: Clusterer, metric: Metric, seed: int = 0
) -> tuple[float, ThresholdChoice]:
    """The threshold, as a probability, by the metric of clusters of unseen scores.

    The clusterer's own stays unless another is better with 90 % confidence, by the jackknife below: the best of
    many thresholds always looks better on the pairs it was chosen by, and few entities say little. Of thresholds
    that are as good as the best, the one nearest to the clusterer's own is taken.
    """
    own = float(clusterer.threshold)
    grid = [own, *(t for t in map(float, sigmoid(LOG_ODDS)) if abs(t - own) > 1e-9)]
    pairs = items.n_items, items.left, items.right, sigmoid(score)
    clusters = {t: at_threshold(clusterer, t).cluster(*pairs, first_table=items.first_table) for t in grid}
    tried = {t: metric(found) for t, found in clusters.items()}
    most = max(tried.values())
    good = np.array([t for t, value in tried.items() if value >= most - slack(items)])
    away = np.abs(log_odds(good) - log_odds(np.array([own])))
    best = own if own in good else float(good[away.argmin()])
    gain, error = _gain(items, clusters[best], clusters[own], metric, seed) if best != own else (0.0, 0.0)
    chosen = best if gain > WIDTH * error else own
    return chosen, ThresholdChoice(own, best, tried, gain, WIDTH * error)


def _gain(items: Mentions, one: Array, other: Array, metric: Metric, seed: int) -> tuple[float, float]:
    """By how much the metric of clusters `one` exceeds that of `other`, and its standard error.

    The error is the jackknife's over PARTS parts of the entities (or documents): with g_k the gain without part k,
    e² = (K - 1) / K Σ_k (g_k - mean g)².
    """
    part = item_folds(items, PARTS, seed)
    gains = [metric(one, part != k) - metric(other, part != k) for k in range(int(part.max(initial=0)) + 1)]
    spread = np.array(gains) - np.mean(gains)
    return metric(one) - metric(other), float(np.sqrt((len(gains) - 1) / len(gains) * (spread @ spread)))


def at_threshold(clusterer: Clusterer, threshold: float) -> Clusterer:
    return type(clusterer)(**{**clusterer.get_params(), "threshold": threshold})
