"""Logistic regression over distinct rows with counts: yes-or-no decisions about pairs, some of them biased.

A row lists the weights that are on for it, one a column, so its score is s = Σ_m w[index[r, m]], the logarithm of
φ(1) / φ(0). With n₀, n₁ pairs of a row decided no and yes, and n_b yes under a bias,

    loss = Σ_r n₀ log(1 + eˢ) + n₁ log(1 + e⁻ˢ) + n_b · weight · log(1 + e^-(scale · s + shift)) + ½ l2 |w|²
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kinfolk.threads import run_chunks

ROWS = 1 << 14  # rows a chunk; chunks depend on the rows alone, so sums are the same for every number of threads
Array = NDArray[Any]


class Tilt(NamedTuple):
    """What a bias does to the likelihood of a biased pair: its weight, and scale and shift of its score."""

    weight: float = 1.0
    scale: float = 1.0
    shift: float = 0.0


class PairObjective:
    """The loss above with its gradient.

    index     int32 (R, M), the weights that are on in each row
    refused, accepted, biased   float64 (R,): n₀, n₁ and n_b
    """

    def __init__(
        self,
        index: NDArray[np.int32],
        n_weights: int,
        refused: Array,
        accepted: Array,
        biased: Array,
        tilt: Tilt,
        l2: float,
        n_jobs: int = 1,
    ) -> None:
        self.index, self.n_weights = index, n_weights
        self.counts = np.ascontiguousarray(np.stack([refused, accepted, biased], axis=1), np.float64)
        self.tilt = np.array(tilt, np.float64)
        self.l2, self.n_jobs = l2, n_jobs
        self._n_chunks = -(-len(index) // ROWS)
        self._last = np.zeros(n_weights)

    def __call__(self, flat: Array, gradient: Array) -> float:
        def chunk(c: int) -> tuple[float, Array]:
            rows = slice(c * ROWS, (c + 1) * ROWS)
            slope = np.zeros(self.n_weights)
            return _loss(flat, self.index[rows], self.counts[rows], self.tilt, slope), slope

        self._last[:] = flat
        loss = 0.5 * self.l2 * float(flat @ flat)
        gradient[:] = self.l2 * flat
        for part, slope in run_chunks(chunk, self._n_chunks, self.n_jobs):
            loss += part
            gradient += slope
        return loss

    def inverse_curvature(self) -> Array:
        """1 / the second derivative by each weight, at the weights of the last call."""

        def chunk(c: int) -> Array:
            rows = slice(c * ROWS, (c + 1) * ROWS)
            bend = np.zeros(self.n_weights)
            _curvature(self._last, self.index[rows], self.counts[rows], self.tilt, bend)
            return bend

        total = np.full(self.n_weights, self.l2)
        for bend in run_chunks(chunk, self._n_chunks, self.n_jobs):
            total += bend
        return np.asarray(1.0 / np.maximum(total, 1e-8))


def row_scores(weights: Array, index: NDArray[np.int32], n_jobs: int = 1) -> NDArray[np.float64]:
    """s of each row."""
    scores = np.empty(len(index))

    def chunk(c: int) -> None:
        rows = slice(c * ROWS, (c + 1) * ROWS)
        _score(weights, index[rows], scores[rows])

    run_chunks(chunk, -(-len(index) // ROWS), n_jobs)
    return scores


@njit(nogil=True, cache=True)
def _score(weights, index, scores):
    for r in range(index.shape[0]):
        total = 0.0
        for m in range(index.shape[1]):
            total += weights[index[r, m]]
        scores[r] = total


@njit(nogil=True, cache=True)
def _log1p_exp(x):
    """log(1 + eˣ) without overflow."""
    return x + np.log1p(np.exp(-x)) if x > 0 else np.log1p(np.exp(x))


@njit(nogil=True, cache=True)
def _sigmoid(x):
    if x >= 0:
        return 1.0 / (1.0 + np.exp(-x))
    e = np.exp(x)
    return e / (1.0 + e)


@njit(nogil=True, cache=True)
def _loss(weights, index, counts, tilt, slope):
    """The loss of some rows; adds its derivatives by the weights to `slope`."""
    weight, scale, shift = tilt[0], tilt[1], tilt[2]
    loss = 0.0
    for r in range(index.shape[0]):
        s = 0.0
        for m in range(index.shape[1]):
            s += weights[index[r, m]]
        refused, accepted, biased = counts[r, 0], counts[r, 1], counts[r, 2]
        p = _sigmoid(s)
        loss += refused * _log1p_exp(s) + accepted * _log1p_exp(-s)
        first = refused * p - accepted * (1.0 - p)
        if biased > 0:
            tilted = scale * s + shift
            loss += biased * weight * _log1p_exp(-tilted)
            first -= biased * weight * scale * _sigmoid(-tilted)
        for m in range(index.shape[1]):
            slope[index[r, m]] += first
    return loss


@njit(nogil=True, cache=True)
def _curvature(weights, index, counts, tilt, bend):
    """Adds the second derivatives by the weights, one by one, to `bend`."""
    weight, scale, shift = tilt[0], tilt[1], tilt[2]
    for r in range(index.shape[0]):
        s = 0.0
        for m in range(index.shape[1]):
            s += weights[index[r, m]]
        p, q = _sigmoid(s), _sigmoid(scale * s + shift)
        second = (counts[r, 0] + counts[r, 1]) * p * (1.0 - p) + counts[r, 2] * weight * scale * scale * q * (1.0 - q)
        for m in range(index.shape[1]):
            bend[index[r, m]] += second
