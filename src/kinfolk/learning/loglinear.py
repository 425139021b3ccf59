"""The log-linear objective: scores from weights, a loss of the scores, a ridge on the weights.

    node scores   S = X W            (n, L)
    pair scores   T, or T + Z U      (L, L) for all tokens, or (n, L, L) when features Z speak of label pairs
    start scores  a                  (L,)

    objective(W, a, T, U) = loss(S, pair, a) + l2 / 2 · (|W|² + |a|² + |T|² + |U|²)

The loss and its derivative by each score (the residuals) come from outside, so maxent, MEMM and CRF share
this file. The gradient by W is Xᵀ · (node residuals), by U it is Zᵀ · (pair residuals).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.learning import vectors
from kinfolk.learning.sparse import SparseRows

Array = NDArray[Any]
# (node scores, pair scores, start scores) -> (loss, node residuals, pair residuals, start residuals)
ResidualFunction = Callable[[Array, Array, Array], tuple[float, Array, Array, Array]]


class Weights(NamedTuple):
    """Views into one flat vector: node (F, L), start (L,), pair (L, L), pair_features (G, L · L)."""

    node: Array
    start: Array
    pair: Array
    pair_features: Array


class Shape(NamedTuple):
    """Sizes of the weights: F features, L labels, G features of label pairs."""

    features: int
    labels: int
    pair_features: int = 0

    @property
    def size(self) -> int:
        f, n, g = self
        return f * n + n + n * n + g * n * n

    def split(self, flat: Array) -> Weights:
        f, n, g = self
        cuts = np.cumsum([f * n, n, n * n])
        node, start, pair, extra = np.split(flat, cuts)
        return Weights(node.reshape(f, n), start, pair.reshape(n, n), extra.reshape(g, n * n))


class LogLinear:
    """Callable as objective(weights, gradient_out) -> value."""

    def __init__(
        self,
        rows: SparseRows,
        residuals: ResidualFunction,
        n_labels: int,
        pair_rows: SparseRows | None = None,
        l2: float = 1.0,
        n_jobs: int = 1,
    ) -> None:
        self.rows, self.pair_rows, self.residuals = rows, pair_rows, residuals
        self.shape = Shape(rows.n_columns, n_labels, pair_rows.n_columns if pair_rows else 0)
        self.l2, self.n_jobs = l2, n_jobs
        self._scores: Array | None = None
        self._node_residuals: Array | None = None

    def pair_scores(self, weights: Weights) -> Array:
        """(1, L, L) shared, or (n, L, L) when there are features of label pairs."""
        n = self.shape.labels
        if self.pair_rows is None:
            return weights.pair[None]
        return self.pair_rows.scores(weights.pair_features, self.n_jobs).reshape(-1, n, n) + weights.pair

    def __call__(self, flat: Array, gradient: Array) -> float:
        weights, out = self.shape.split(flat), self.shape.split(gradient)
        if self._scores is None or self._scores.dtype != flat.dtype:
            self._scores = np.empty((self.rows.n_rows, self.shape.labels), flat.dtype)
        self.rows.scores(weights.node, self.n_jobs, out=self._scores)
        loss, node, pair, start = self.residuals(self._scores, self.pair_scores(weights), weights.start)
        self._node_residuals = node
        self.rows.gradient(node, out.node, self.n_jobs)
        out.start[:] = start
        out.pair[:] = pair.sum(axis=0)
        if self.pair_rows is not None:
            self.pair_rows.gradient(pair.reshape(len(pair), -1).astype(flat.dtype), out.pair_features, self.n_jobs)
        vectors.linear(gradient, self.l2, flat, self.n_jobs, out=gradient)
        return loss + 0.5 * self.l2 * vectors.dot(flat, flat, self.n_jobs)

    def inverse_curvature(self) -> Array:
        """1 / (an estimate of the diagonal of the Hessian) where the objective was last evaluated.

        The variance of label k at a token is p(1 - p); its residual r is p or p - 1, and |r|(1 - |r|) is
        the same number. Pair and start weights get an even share of the total variance.
        """
        assert self._node_residuals is not None, "evaluate the objective first"
        assert self._scores is not None
        # Both arrays are written anew by the next evaluation, so they serve as scratch: no memory for this.
        size = np.abs(self._node_residuals, out=self._node_residuals)
        variance = np.subtract(1, size, out=self._scores)
        variance *= size
        np.maximum(variance, 0, out=variance)
        self._node_residuals = None
        diagonal = np.empty(self.shape.size, size.dtype)
        self.rows.gradient(variance, self.shape.split(diagonal).node, self.n_jobs, squared=True)
        n = self.shape.labels
        diagonal[self.shape.features * n :] = variance.sum() / (n * n)
        diagonal += self.l2
        if self.l2 == 0:
            diagonal += diagonal.mean() * 1e-3 + 1e-6
        return np.reciprocal(diagonal, out=diagonal)
