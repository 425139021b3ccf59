"""The log-linear objective of a mixture: several tables of weights, whose scores stand one below the other.

    ends   S_b = X_b W_b      (rows of table b, L), stacked: (S, L)
    pair   T                  (R, L, L), one a relation
    start  a                  (L,)
    rows   U                  (G, L²), weights of features of label pairs
    gate   γ                  (D,), weights of the features that mixing weights depend on

    objective = loss(S, T, a, U, γ) + l2 / 2 · (|W|² + |T|² + |a|² + |U|²) + gate_l2 / 2 · |γ|²

The loss and its derivatives come from outside. A ridge on γ draws the mixing weights towards uniform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.learning import vectors
from kinfolk.learning.sparse import SparseRows

Array = NDArray[Any]


class TableWeights(NamedTuple):
    """Views into one flat vector: tables (F_b, L), start (L,), pair (R, L, L), rows (G, L²), gate (D,)."""

    tables: list[Array]
    start: Array
    pair: Array
    rows: Array
    gate: Array


@dataclass(frozen=True)
class TableShape:
    """Sizes of the weights: features of each table, labels, relations, features of label pairs, of the gate."""

    features: tuple[int, ...]
    labels: int
    relations: int
    rows: int = 0
    gate: int = 0

    @property
    def size(self) -> int:
        n = self.labels
        return sum(self.features) * n + n + self.relations * n * n + self.rows * n * n + self.gate

    def split(self, flat: Array) -> TableWeights:
        n = self.labels
        sizes = [*(f * n for f in self.features), n, self.relations * n * n, self.rows * n * n]
        *tables, start, pair, rows, gate = np.split(flat, np.cumsum(sizes))
        return TableWeights(
            [table.reshape(f, n) for table, f in zip(tables, self.features, strict=True)],
            start, pair.reshape(-1, n, n), rows.reshape(-1, n * n), gate,
        )  # fmt: skip

    def join(self, weights: TableWeights, dtype: Any = np.float32) -> Array:
        """One flat vector of given parts."""
        parts = (*weights.tables, *weights[1:])
        return np.concatenate([np.zeros(0, dtype), *(np.asarray(part, dtype).reshape(-1) for part in parts)])


class Answer(NamedTuple):
    """Loss, and its derivatives by the stacked scores, pair, start, rows and gate; where it is known, an estimate of
    the second derivatives by pair and rows."""

    loss: float
    ends: Array
    pair: Array
    start: Array
    rows: Array
    gate: Array
    curvature: tuple[Array, Array] | None = None


# (stacked scores, weights) -> Answer
Loss = Callable[[Array, TableWeights], Answer]


class Tables:
    """Callable as objective(weights, gradient_out) -> value."""

    def __init__(
        self, blocks: Sequence[SparseRows], shape: TableShape, loss: Loss, l2: float, gate_l2: float, n_jobs: int = 1
    ) -> None:
        self.blocks, self.shape, self.loss = blocks, shape, loss
        self.l2, self.gate_l2, self.n_jobs = l2, gate_l2, n_jobs
        self._cuts = np.cumsum([0, *(block.n_rows for block in blocks)]).tolist()
        self._scores: Array | None = None
        self._residuals: Array | None = None
        self._pair_curvature: tuple[Array, Array] | None = None

    def scores(self, weights: TableWeights, out: Array | None = None) -> Array:
        """(S, L), table after table."""
        like = weights.start.dtype
        scores = np.empty((self._cuts[-1], self.shape.labels), like) if out is None else out
        for block, table, first, last in self._parts(weights.tables):
            block.scores(table, self.n_jobs, out=scores[first:last])
        return scores

    def _parts(self, tables: list[Array]) -> list[tuple[SparseRows, Array, int, int]]:
        return list(zip(self.blocks, tables, self._cuts[:-1], self._cuts[1:], strict=True))

    def __call__(self, flat: Array, gradient: Array) -> float:
        weights, out = self.shape.split(flat), self.shape.split(gradient)
        if self._scores is None or self._scores.dtype != flat.dtype:
            self._scores = self.scores(weights)
        else:
            self.scores(weights, self._scores)
        answer = self.loss(self._scores, weights)
        self._residuals, self._pair_curvature = answer.ends, answer.curvature
        for block, table, first, last in self._parts(out.tables):
            block.gradient(answer.ends[first:last], table, self.n_jobs)
        out.start[:], out.pair[:], out.rows[:], out.gate[:] = answer.start, answer.pair, answer.rows, answer.gate
        gate = weights.gate.astype(np.float64)
        vectors.linear(gradient, self.l2, flat, self.n_jobs, out=gradient)
        out.gate[:] = answer.gate + self.gate_l2 * gate
        square = vectors.dot(flat, flat, self.n_jobs) - float(gate @ gate)
        return answer.loss + 0.5 * self.l2 * square + 0.5 * self.gate_l2 * float(gate @ gate)

    def inverse_curvature(self) -> Array:
        """1 / (an estimate of the diagonal of the Hessian) where the objective was last evaluated.

        As for a single softmax, |r| (1 - |r|) of a residual r stands for the variance of a label.
        """
        assert self._residuals is not None, "evaluate the objective first"
        size = np.minimum(np.abs(self._residuals), 1)
        variance = size * (1 - size)
        n, diagonal = self.shape.labels, np.empty(self.shape.size, size.dtype)
        parts = self.shape.split(diagonal)
        for block, table, first, last in self._parts(parts.tables):
            block.gradient(variance[first:last], table, self.n_jobs, squared=True)
        rest = sum(self.shape.features) * n
        diagonal[rest:] = variance.sum() / (n * n)
        if self._pair_curvature is not None:
            for part, known in zip((parts.pair, parts.rows), self._pair_curvature, strict=True):
                np.maximum(part, known, out=part)  # pairs that are all but ruled out have next to none of their own
        diagonal += self.l2
        diagonal[self.shape.size - self.shape.gate :] += self.gate_l2
        if self.l2 == 0:
            diagonal += diagonal.mean() * 1e-3 + 1e-6
        return np.reciprocal(diagonal, out=diagonal)
