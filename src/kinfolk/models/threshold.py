"""The threshold of a clusterer and the round of training, chosen by models that have not seen the pairs they score.

A model is far too sure of the pairs it was trained on, so a choice by its own scores would be wrong. Entities
(or documents, where there are enough) are dealt into folds; model k learns from pairs that touch no item of fold k and
scores those that do; a pair across two folds has the mean of two such scores. Where bins end was learned from all
training pairs, once: what little that tells is not kept from the models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.data.mentions import Mentions
from kinfolk.inference.correlation import log_odds
from kinfolk.models.clusterers import Clusterer
from kinfolk.models.optimise import Convergence
from kinfolk.models.structured import PairTrainer, rounds_of, sigmoid

Array = NDArray[Any]
LOG_ODDS = np.arange(-6.0, 4.1, 0.5)
AS_GOOD = 0.001  # scores this close, or within what one pair makes, are taken as equal


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


def unseen_score(items: Mentions, score: Array, clusterer: Clusterer, metric: Callable[[Array], float]) -> float:
    return metric(clusterer.cluster(items.n_items, items.left, items.right, sigmoid(score)))


def slack(items: Mentions) -> float:
    """By how much scores have to differ: what one pair makes, or AS_GOOD."""
    return max(AS_GOOD, 1.0 / max(items.n_true_pairs, 1))


def best_threshold(
    items: Mentions, score: Array, clusterer: Clusterer, metric: Callable[[Array], float]
) -> tuple[float, dict[float, float]]:
    """The threshold, as a probability, whose clusters score best, and the score of each that was tried.

    Of thresholds that are as good as the best, the one nearest to the clusterer's own is taken: few pairs say little.
    """
    tried = {}
    for threshold in map(float, sigmoid(LOG_ODDS)):
        tried[threshold] = unseen_score(items, score, at_threshold(clusterer, threshold), metric)
    most = max(tried.values())
    good = np.array([threshold for threshold, value in tried.items() if value >= most - slack(items)])
    away = np.abs(log_odds(good) - log_odds(np.array([clusterer.threshold])))
    return float(good[away.argmin()]), tried


def at_threshold(clusterer: Clusterer, threshold: float) -> Clusterer:
    return type(clusterer)(**{**clusterer.get_params(), "threshold": threshold})
