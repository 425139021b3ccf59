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

from kinfolk.core.kernels import njit, softmax

Array = NDArray[Any]


class Network(NamedTuple):
    """Whose scores the label of an instance has a part in, and which part.

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


class State(NamedTuple):
    """scores s (n, L) and their softmax, which is out of date where `stale` (n,); neighbours by table and label
    (n, B, L), for tables that ask whether there is any."""

    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    stale: NDArray[np.bool_]
    counts: NDArray[np.int64]


@njit(cache=True, nogil=True)
def _update(j, label, sign, network, state):
    """The scores of all who look at j, when it takes up (sign 1) or gives up (-1) a label."""
    for e in range(network.indptr[j], network.indptr[j + 1]):
        i, b = network.reader[e], network.table[e]
        w = network.weight[e] * sign
        if network.any_[b]:
            before = state.counts[i, b, label]
            state.counts[i, b, label] = before + sign
            if min(before, before + sign) > 0:
                continue
            w = sign
        for c in range(state.scores.shape[1]):
            state.scores[i, c] += w * network.tables[b, label, c]
        state.stale[i] = True


@njit(cache=True, nogil=True)
def _begin(labels, network, state):
    """The labels the chain begins with."""
    for j in range(len(labels)):
        _update(j, labels[j], 1, network, state)


@njit(cache=True, nogil=True)
def _sweep(labels, fixed, draws, network, state, sums):
    """One pass over all instances; `sums` gathers the conditionals each label was drawn from."""
    n_labels = state.scores.shape[1]
    for i in range(len(labels)):
        if fixed[i]:
            continue
        probabilities = state.probabilities[i]
        if state.stale[i]:
            softmax(state.scores[i], probabilities)
            state.stale[i] = False
        left, new = draws[i], n_labels - 1
        for c in range(n_labels):
            left -= probabilities[c]
            if left < 0.0:
                new = c
                break
        for c in range(n_labels):
            sums[i, c] += probabilities[c]
        old = labels[i]
        if new != old:
            _update(i, old, -1, network, state)
            _update(i, new, 1, network, state)
            labels[i] = new


class Chain:
    """A running chain: `labels` (n,) are where it stands. Fixed instances keep theirs."""

    def __init__(self, network: Network, labels: Array, fixed: Array, rng: np.random.Generator) -> None:
        self.network, self.fixed, self._rng = network, fixed, rng
        self.labels = labels.astype(np.int64)
        n, n_labels = network.own.shape
        counts = np.zeros((n, len(network.any_) if network.any_.any() else 0, n_labels), np.int64)
        self._state = State(network.own.astype(np.float64), np.empty((n, n_labels)), np.ones(n, bool), counts)
        _begin(self.labels, network, self._state)

    def sweep(self, sums: Array) -> None:
        """One pass; the conditional probabilities it drew from are added to `sums` (n, L)."""
        draws = self._rng.random(len(self.labels))
        _sweep(self.labels, self.fixed, draws, self.network, self._state, sums)
