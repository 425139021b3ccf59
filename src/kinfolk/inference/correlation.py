"""Correlation clustering: clusters with the largest sum of log-odds within them, by joins and then single moves.

    gain(clusters) = Σ over candidate pairs within a cluster of (log-odds of the pair - log-odds of the threshold)

Finding the largest is NP-hard. Joining the two clusters that gain most gives a start; then items move, one at a time,
to the cluster (or to one of their own) where they gain most, and clusters are joined again, until neither helps: a
local optimum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.inference.agglomerate import agglomerate
from kinfolk.inference.clustering import Constraints, numbered

Array = NDArray[Any]
SWEEPS = 100  # of moves; each raises the gain, so the limit is for rounding alone
ROUNDS = 20


def log_odds(probability: Array) -> NDArray[np.float64]:
    p = np.clip(np.asarray(probability, np.float64), 1e-15, 1 - 1e-15)
    return np.log(p) - np.log1p(-p)  # type: ignore[no-any-return]


def correlation_gain(clusters: Array, left: Array, right: Array, gain: Array) -> float:
    """The sum over pairs within clusters."""
    return float(gain[clusters[left] == clusters[right]].sum())


def correlation(
    n: int,
    left: Array,
    right: Array,
    probability: Array,
    threshold: float = 0.5,
    constraints: Constraints | None = None,
) -> NDArray[np.int32]:
    """Clusters that no single move of an item and no join of two clusters improves."""
    rules = constraints or Constraints()
    gain = log_odds(probability) - log_odds(np.array([threshold]))[0]
    fixed = np.zeros(n, bool)
    fixed[np.asarray(rules.must_link, np.int64).ravel()] = True  # items of must-links stay together by staying put
    starts, partners = rules.partners(n)
    clusters = agglomerate(n, left, right, gain, "gain", 0.0, rules)
    lists = _neighbours(n, left, right, gain)
    best = correlation_gain(clusters, left, right, gain)
    for _ in range(ROUNDS):
        moved = clusters.astype(np.int64)
        _move(moved, fixed, *lists, starts, partners, rules.max_size, SWEEPS)
        held = Constraints(_chains(moved), rules.cannot_link, rules.max_size)
        clusters = agglomerate(n, left, right, gain, "gain", 0.0, held)
        now = correlation_gain(clusters, left, right, gain)
        if now <= best + 1e-12 * max(1.0, abs(best)):
            break
        best = now
    return clusters


def _chains(clusters: Array) -> NDArray[np.int32]:
    """Must-links that hold clusters together: each item with the next of its cluster."""
    order = np.argsort(numbered(clusters), kind="stable").astype(np.int32)
    together = clusters[order[:-1]] == clusters[order[1:]]
    return np.stack([order[:-1][together], order[1:][together]], axis=1)


def _neighbours(n: int, left: Array, right: Array, gain: Array) -> tuple[Array, Array, Array]:
    """Both directions of every pair: starts (n + 1,), neighbours, gains."""
    a, b = np.concatenate([left, right]), np.concatenate([right, left])
    order = np.argsort(a, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(a, minlength=n))]).astype(np.int64)
    return starts, b[order].astype(np.int64), np.concatenate([gain, gain])[order]


@njit(nogil=True, cache=True)
def _move(cluster, fixed, starts, neighbours, gains, cannot_starts, cannot, max_size, sweeps):
    """Move items, in order, until a sweep moves none. Cluster numbers below n are in use or free."""
    n = len(cluster)
    size = np.zeros(n + 1, np.int64)
    for i in range(n):
        size[cluster[i]] += 1
    toward = np.zeros(n + 1)  # what an item gains in each cluster
    barred = np.zeros(n + 1, np.bool_)
    free = 0
    for _ in range(sweeps):
        moves = 0
        for i in range(n):
            if fixed[i]:
                continue
            for k in range(starts[i], starts[i + 1]):
                toward[cluster[neighbours[k]]] += gains[k]
            for k in range(cannot_starts[i], cannot_starts[i + 1]):
                barred[cluster[cannot[k]]] = True
            here, best = cluster[i], toward[cluster[i]]
            to = here
            if best < -1e-12 and size[here] > 1:  # better alone
                while size[free] > 0:
                    free = (free + 1) % n
                to, best = free, 0.0
            for k in range(starts[i], starts[i + 1]):
                c = cluster[neighbours[k]]
                if c == here or barred[c] or (max_size > 0 and size[c] >= max_size):
                    continue
                if toward[c] > best + 1e-12:
                    to, best = c, toward[c]
            for k in range(starts[i], starts[i + 1]):
                toward[cluster[neighbours[k]]] = 0.0
            for k in range(cannot_starts[i], cannot_starts[i + 1]):
                barred[cluster[cannot[k]]] = False
            if to != here:
                size[here] -= 1
                size[to] += 1
                cluster[i] = to
                moves += 1
        if moves == 0:
            return
