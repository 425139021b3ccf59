"""Gibbs sampling in a dependency network whose conditionals are log-linear.

P(y_i = c | x, y of the neighbours) ∝ exp s_i[c], with

    s_i[c] = own_i[c] + Σ_{e: i looks at j} w_e · T_b[y_j, c]     b the table of link e
                      + Σ_b Σ_l [some neighbour by b has label l] T_b[l, c]    for tables that ask whether any has it

A sweep visits the instances in order, each seeing the newest labels of the others. `own` never changes, so it is a
given; s is kept up to date when a label changes, and the probabilities of an instance are worked out anew only when
its s changed. Once the chain has settled few labels change, and a sweep costs little more than a random number each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit

Array = NDArray[Any]


class Network(NamedTuple):
    """Who hears of a change, and what it does to him.

    own      (n, L) scores of the instances' own features
    indptr   (n + 1,) links by the one who is looked at: those of j are indptr[j] to indptr[j + 1]
    reader   (E,) who looks
    table    (E,) which table of scores
    weight   (E,) w_e
    tables   (B, L, L), row l: what a neighbour with label l adds to the scores
    any_     (B,) bool, tables that ask whether any neighbour has the label
    """

    own: NDArray[np.float64]
    indptr: NDArray[np.int64]
    reader: NDArray[np.int64]
    table: NDArray[np.int64]
    weight: NDArray[np.float64]
    tables: NDArray[np.float64]
    any_: NDArray[np.bool_]


@njit(cache=True, nogil=True)
def _tell(j, label, sign, indptr, reader, table, weight, tables, any_, counts, scores, stale):
    """Everyone who looks at j hears that it takes up (sign 1) or gives up (-1) a label."""
    for e in range(indptr[j], indptr[j + 1]):
        i, b = reader[e], table[e]
        w = weight[e] * sign
        if any_[b]:
            before = counts[i, b, label]
            counts[i, b, label] = before + sign
            if min(before, before + sign) > 0:
                continue
            w = sign
        for c in range(scores.shape[1]):
            scores[i, c] += w * tables[b, label, c]
        stale[i] = True


@njit(cache=True, nogil=True)
def _tell_all(labels, indptr, reader, table, weight, tables, any_, counts, scores, stale):
    """The labels the chain begins with."""
    for j in range(len(labels)):
        _tell(j, labels[j], 1, indptr, reader, table, weight, tables, any_, counts, scores, stale)


@njit(cache=True, nogil=True)
def _refresh(i, scores, chances):
    """chances[i] = softmax of scores[i]."""
    top = scores[i].max()
    total = 0.0
    for c in range(scores.shape[1]):
        chances[i, c] = np.exp(scores[i, c] - top)
        total += chances[i, c]
    for c in range(scores.shape[1]):
        chances[i, c] /= total


@njit(cache=True, nogil=True)
def _sweep(labels, fixed, draws, indptr, reader, table, weight, tables, any_, counts, scores, stale, chances, sums):
    """One pass over all instances; `sums` gathers the conditionals each label was drawn from."""
    n_labels = scores.shape[1]
    for i in range(len(labels)):
        if fixed[i]:
            continue
        if stale[i]:
            _refresh(i, scores, chances)
            stale[i] = False
        left, new = draws[i], n_labels - 1
        for c in range(n_labels):
            left -= chances[i, c]
            if left < 0.0:
                new = c
                break
        for c in range(n_labels):
            sums[i, c] += chances[i, c]
        old = labels[i]
        if new != old:
            _tell(i, old, -1, indptr, reader, table, weight, tables, any_, counts, scores, stale)
            _tell(i, new, 1, indptr, reader, table, weight, tables, any_, counts, scores, stale)
            labels[i] = new


class Chain:
    """A running chain: `labels` (n,) are where it stands. Fixed instances keep theirs."""

    def __init__(self, network: Network, labels: Array, fixed: Array, rng: np.random.Generator) -> None:
        self.network, self.fixed, self._rng = network, fixed, rng
        self.labels = labels.astype(np.int64)
        n, n_labels = network.own.shape
        self._scores = network.own.astype(np.float64)
        self._counts = np.zeros((n, len(network.any_) if network.any_.any() else 0, n_labels), np.int64)
        self._stale = np.ones(n, bool)
        self._chances = np.empty((n, n_labels))
        _tell_all(self.labels, *network[1:], self._counts, self._scores, self._stale)

    def sweep(self, sums: Array) -> None:
        """One pass; the conditional probabilities it drew from are added to `sums` (n, L)."""
        draws = self._rng.random(len(self.labels))
        state = (self._counts, self._scores, self._stale, self._chances)
        _sweep(self.labels, self.fixed, draws, *self.network[1:], *state, sums)
