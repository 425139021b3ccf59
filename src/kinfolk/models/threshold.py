"""The threshold of a clusterer, chosen on training data by models that have not seen the pairs they are asked about.

A model is far too sure of the pairs it was trained on, so a threshold chosen on its own scores would be wrong. Entities
(or documents, where there are enough) are dealt into folds; model k learns from pairs that touch no item of fold k and
scores those that do; a pair across two folds has the mean of two such scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.data.mentions import Mentions
from kinfolk.inference.correlation import log_odds
from kinfolk.models.clusterers import Clusterer
from kinfolk.models.structured import PairTrainer, sigmoid

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


def unseen_scores(trainer: PairTrainer, fold: Array, folds: int) -> NDArray[np.float64]:
    """Log-odds of every training pair by models that saw neither of its items."""
    data = trainer.data
    a, b = fold[data.items.left], fold[data.items.right]
    total, times = np.zeros(len(a)), np.zeros(len(a))
    start = np.zeros(data.n_weights)
    for k in range(folds):
        asked = (a == k) | (b == k)
        start, _ = trainer.fit(np.where(asked, -1, data.truth), start)
        total[asked] += data.scores(start, trainer.plan.n_jobs)[asked]
        times += asked
    return total / np.maximum(times, 1)


def best_threshold(
    items: Mentions, score: Array, clusterer: Clusterer, metric: Callable[[Array], float]
) -> tuple[float, dict[float, float]]:
    """The threshold, as a probability, whose clusters score best, and the score of each that was tried.

    Of thresholds that are as good as the best, the one nearest to the clusterer's own is taken: few pairs say little.
    """
    probability = sigmoid(score)
    tried = {}
    for threshold in sigmoid(LOG_ODDS):
        settings = {**clusterer.get_params(), "threshold": float(threshold)}
        clusters = type(clusterer)(**settings).cluster(items.n_items, items.left, items.right, probability)
        tried[float(threshold)] = metric(clusters)
    most = max(tried.values())
    slack = max(AS_GOOD, 1.0 / max(items.n_true_pairs, 1))
    good = np.array([threshold for threshold, value in tried.items() if value >= most - slack])
    away = np.abs(log_odds(good) - log_odds(np.array([clusterer.threshold])))
    return float(good[away.argmin()]), tried
