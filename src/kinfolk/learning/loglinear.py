"""The log-linear objective: scores from weights, a loss of the scores, a ridge on the weights.

    node scores   S = X W            (n, L)
    pair scores   T, or T + Z U      (L, L) for all tokens, or (n, L, L) when features Z speak of label pairs
    start scores  a                  (L,)

    objective(W, a, T, U) = loss(S, pair, a) + l2 / 2 · (|W|² + |a|² + |T|² + |U|²)

The loss and its derivative by each score (the residuals) come from outside, so maxent, MEMM and CRF share
this file. The gradient by W is Xᵀ · (node residuals), by U it is Zᵀ · (pair residuals).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Classes
from kinfolk.learning import lbfgs as vectors
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


# -- The log-linear objective of a mixture: several tables of weights, whose scores stand one below the other ---
#
#     ends   S_b = X_b W_b      (rows of table b, L), stacked: (S, L)
#     pair   T                  (R, L, L), one a relation
#     start  a                  (L,)
#     rows   U                  (G, L²), weights of features of label pairs
#     gate   γ                  (D,), weights of the features that mixing weights depend on
#
#     objective = loss(S, T, a, U, γ) + l2 / 2 · (|W|² + |T|² + |a|² + |U|²) + gate_l2 / 2 · |γ|²
#
# The loss and its derivatives come from outside. A ridge on γ draws the mixing weights towards uniform.


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


# -- A warm start from an earlier fit: weights found again by the names of features and labels ---------


class NamedWeights(NamedTuple):
    weights: Any  # Weights of a chain model, or one TableWeights a direction
    features: dict[str, int]
    pair_features: dict[str, int]
    classes: Classes


def named_weights(model: Any) -> NamedWeights:
    """The weights of a fitted model with the names that give them meaning."""
    pairs = model.transition_features_
    return NamedWeights(
        model.weights_,
        _numbered(model.features_.names()),
        _numbered([] if pairs is None else pairs.names()),
        model.coding_.classes,
    )


def named_by(weights: Sequence[TableWeights], names: list[str], classes: Classes) -> NamedWeights:
    """Tables of weights, one a direction, with the names of features and the classes."""
    return NamedWeights(weights, _numbered(names), {}, classes)


def _numbered(names: list[str]) -> dict[str, int]:
    """Names are made for people: two features may share one (a word "<outside>"), and the last then counts."""
    return {name: i for i, name in enumerate(names)}


def _rows(before: dict[str, int], names: list[str]) -> NDArray[np.int64]:
    return np.array([before.get(name, -1) for name in names], np.int64)


def inherit(before: NamedWeights, model: Any, shape: Shape) -> NDArray[Any]:
    """A flat start for `model` (features and labels learned anew): old weights where names agree, else 0."""
    flat = np.zeros(shape.size, np.float32)
    new = shape.split(flat)
    old_class = before.classes.encode(model.coding_.classes.names)
    here, there = np.flatnonzero(old_class >= 0), old_class[old_class >= 0]
    rows = _rows(before.features, model.features_.names())
    known = np.flatnonzero(rows >= 0)
    new.node[np.ix_(known, here)] = before.weights.node[np.ix_(rows[known], there)]
    new.start[here] = before.weights.start[there]
    new.pair[np.ix_(here, here)] = before.weights.pair[np.ix_(there, there)]
    if model.transition_features_ is not None:
        rows = _rows(before.pair_features, model.transition_features_.names())
        known = np.flatnonzero(rows >= 0)
        n_new, n_old = shape.labels, len(before.classes)
        target = new.pair_features.reshape(-1, n_new, n_new)
        source = before.weights.pair_features.reshape(-1, n_old, n_old)
        target[np.ix_(known, here, here)] = source[np.ix_(rows[known], there, there)]
    return flat


def inherit_mixture(
    before: NamedWeights, direction: int, names: list[str], classes: Classes, shape: TableShape
) -> TableWeights | None:
    """The same for a mixture of parents; None if its old weights are of another make (other relations)."""
    if direction >= len(before.weights):
        return None
    old, new = before.weights[direction], shape.split(np.zeros(shape.size, np.float32))
    sizes = [[len(w.tables), len(w.pair), len(w.rows), len(w.gate)] for w in (old, new)]
    if sizes[0] != sizes[1]:
        return None
    old_class = before.classes.encode(classes.names)
    here, there = np.flatnonzero(old_class >= 0), old_class[old_class >= 0]
    rows = _rows(before.features, names)
    known = np.flatnonzero(rows >= 0)
    for table, old_table in zip(new.tables, old.tables, strict=True):
        table[np.ix_(known, here)] = old_table[np.ix_(rows[known], there)]
    new.start[here] = old.start[there]
    relations = np.arange(len(new.pair))
    new.pair[np.ix_(relations, here, here)] = old.pair[np.ix_(relations, there, there)]
    n_new, n_old, n_rows = shape.labels, len(before.classes), np.arange(len(new.rows))
    paired, old_paired = new.rows.reshape(-1, n_new, n_new), old.rows.reshape(-1, n_old, n_old)
    paired[np.ix_(n_rows, here, here)] = old_paired[np.ix_(n_rows, there, there)]
    new.gate[:] = old.gate
    return new
