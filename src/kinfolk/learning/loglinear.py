"""The log-linear objective: scores from weights, a loss of the scores, a ridge on the weights.

    node scores   S = X W            (n, L)
    pair scores   T, or T + Z U      (L, L) for all tokens, or (n, L, L) when there are features Z of label pairs
    start scores  a                  (L,)

    objective(W, a, T, U) = loss(S, pair, a) + l2 / 2 · (|W|² + |a|² + |T|² + |U|²)

Weights V of dense columns, the last rows of W, have a ridge of their own: dense_l2 / 2 · |V|² in the place of
l2 / 2 · |V|².

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
from kinfolk.core.memory import check_memory
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
    def tables(self) -> TableShape:
        """The same as one table of a single relation."""
        return TableShape((self.features,), self.labels, 1, self.pair_features)

    @property
    def size(self) -> int:
        return self.tables.size

    def split(self, flat: Array) -> Weights:
        (node,), start, (pair,), rows, _ = self.tables.split(flat)
        return Weights(node, start, pair, rows)


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


HELD = 13  # vectors of weights that training holds at once: points, gradients, a direction, the memory, a curvature


def no_weights(shape: Shape | TableShape) -> NDArray[np.float32]:
    """A flat vector of zeros to start from; an error where there is no memory to train as many weights."""
    of = shape.tables if isinstance(shape, Shape) else shape
    check_memory(
        4.0 * HELD * of.size,
        f"the model would have {of.size:,} weights, {sum(of.features):,} features for each of {of.labels:,} labels, "
        "and those of label pairs",
        "Leave out rare features (`min_count`), merge labels, or take a machine with more memory",
    )
    return np.zeros(of.size, np.float32)


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
        self, blocks: Sequence[SparseRows], shape: TableShape, loss: Loss, l2: float, gate_l2: float, n_jobs: int = 1,
        dense_l2: float | None = None,
    ) -> None:  # fmt: skip
        """`dense_l2`: None: as `l2`."""
        self.blocks, self._shape, self.loss = blocks, shape, loss
        self.dense_l2 = l2 if dense_l2 is None else dense_l2
        self.shape: Any = shape  # how a caller may split the weights
        self.l2, self.gate_l2, self.n_jobs = l2, gate_l2, n_jobs
        self._cuts = np.cumsum([0, *(block.n_rows for block in blocks)]).tolist()
        self._scores: Array | None = None
        self._residuals: Array | None = None
        self._pair_curvature: tuple[Array, Array] | None = None

    def scores(self, weights: TableWeights, out: Array | None = None) -> Array:
        """(S, L), table after table."""
        like = weights.start.dtype
        scores = np.empty((self._cuts[-1], self._shape.labels), like) if out is None else out
        for block, table, first, last in self._parts(weights.tables):
            block.scores(table, self.n_jobs, out=scores[first:last])
        return scores

    def _parts(self, tables: list[Array]) -> list[tuple[SparseRows, Array, int, int]]:
        return list(zip(self.blocks, tables, self._cuts[:-1], self._cuts[1:], strict=True))

    def _dense(self, tables: list[Array]) -> list[Array]:
        """The weights of dense columns."""
        return [table[block.n_sparse :] for block, table in zip(self.blocks, tables, strict=True) if block.dense.size]

    def __call__(self, flat: Array, gradient: Array) -> float:
        weights, out = self._shape.split(flat), self._shape.split(gradient)
        if self._scores is None or self._scores.dtype != flat.dtype:
            self._scores = self.scores(weights)
        else:
            self.scores(weights, self._scores)
        answer = self.loss(self._scores, weights)
        self._residuals, self._pair_curvature = answer.ends, answer.curvature
        for block, table, first, last in self._parts(out.tables):
            block.gradient(answer.ends[first:last], table, self.n_jobs)
        with np.errstate(over="ignore"):  # a sum beyond float32 becomes infinite, along which no step leads on
            out.start[:], out.pair[:], out.rows[:], out.gate[:] = answer.start, answer.pair, answer.rows, answer.gate
        gate = weights.gate.astype(np.float64)
        vectors.linear(gradient, self.l2, flat, self.n_jobs, out=gradient)
        out.gate[:] = answer.gate + self.gate_l2 * gate
        square = vectors.dot(flat, flat, self.n_jobs) - float(gate @ gate)
        value = answer.loss + 0.5 * self.l2 * square + 0.5 * self.gate_l2 * float(gate @ gate)
        beyond = self.dense_l2 - self.l2
        for own, slope in zip(self._dense(weights.tables), self._dense(out.tables), strict=True):
            slope += np.asarray(beyond, slope.dtype) * own
            value += 0.5 * beyond * float((own.astype(np.float64) ** 2).sum())
        return value

    def inverse_curvature(self) -> Array:
        """1 / (an estimate of the diagonal of the Hessian) where the objective was last evaluated.

        The variance of label k at a token is p(1 - p); its residual r is p or p - 1, and |r|(1 - |r|) is the same
        number. In a mixture it stands for the variance of a label. Other weights get an even share of the total.
        """
        assert self._residuals is not None and self._scores is not None, "evaluate the objective first"
        # Both arrays are written anew by the next evaluation, so they serve as scratch: no memory for this.
        size = np.abs(self._residuals, out=self._residuals)
        variance = np.subtract(1, size, out=self._scores)
        variance *= size
        np.maximum(variance, 0, out=variance)
        self._residuals = None
        n, diagonal = self._shape.labels, np.empty(self._shape.size, size.dtype)
        parts = self._shape.split(diagonal)
        for block, table, first, last in self._parts(parts.tables):
            block.gradient(variance[first:last], table, self.n_jobs, squared=True)
        diagonal[sum(self._shape.features) * n :] = variance.sum() / (n * n)
        if self._pair_curvature is not None:
            for part, known in zip((parts.pair, parts.rows), self._pair_curvature, strict=True):
                np.maximum(part, known, out=part)  # pairs that are all but ruled out have next to none of their own
        diagonal += self.l2
        for own in self._dense(parts.tables):
            own += self.dense_l2 - self.l2
        diagonal[self._shape.size - self._shape.gate :] += self.gate_l2
        if self.l2 == 0 or self.dense_l2 == 0:
            diagonal += diagonal.mean() * 1e-3 + 1e-6
        return np.reciprocal(diagonal, out=diagonal)


class LogLinear(Tables):
    """That of chains: one table, whose rows are tokens, with a table of label pairs and their features."""

    def __init__(
        self, rows: SparseRows, residuals: ResidualFunction, n_labels: int, pair_rows: SparseRows | None = None,
        l2: float = 1.0, n_jobs: int = 1, dense_l2: float | None = None,
    ) -> None:  # fmt: skip
        shape = Shape(rows.n_columns, n_labels, pair_rows.n_columns if pair_rows else 0)

        def loss(scores: Array, weights: TableWeights) -> Answer:
            pair = weights.pair  # (1, L, L) shared, or (n, L, L) when there are features of label pairs
            if pair_rows is not None:
                pair = pair + pair_rows.scores(weights.rows, n_jobs).reshape(-1, n_labels, n_labels)
            value, node, by_pair, start = residuals(scores, pair, weights.start)
            by_row = np.empty_like(weights.rows)
            if pair_rows is not None:
                pair_rows.gradient(by_pair.reshape(len(by_pair), -1).astype(by_row.dtype), by_row, n_jobs)
            return Answer(value, node, by_pair.sum(axis=0), start, by_row, weights.gate)

        super().__init__([rows], shape.tables, loss, l2, 0.0, n_jobs, dense_l2)
        self.shape = shape


class SomeAtZero:
    """An objective some of whose weights are no weights: it has no slope along them, so a search that starts at 0 there
    stays there."""

    def __init__(self, objective: Tables, at_zero: NDArray[np.bool_]) -> None:
        self.objective, self.at_zero, self.shape = objective, np.flatnonzero(at_zero), objective.shape

    def __call__(self, flat: Array, gradient: Array) -> float:
        value = self.objective(flat, gradient)
        gradient[self.at_zero] = 0
        return value

    def inverse_curvature(self) -> Array:
        return self.objective.inverse_curvature()


# -- A warm start from an earlier fit: weights found again by the names of features and labels ---------


class NamedWeights(NamedTuple):
    weights: Any  # Weights of a chain model, or one TableWeights a direction
    features: dict[str, int]
    pair_features: dict[str, int]
    classes: Classes


def named_weights(model: Any) -> NamedWeights:
    """The weights of a fitted model with the names that give them meaning."""
    pairs = model.pair_features_
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
    flat = no_weights(shape)
    node, start, pair, rows = before.weights
    pairs = model.pair_features_
    named = _rows(before.pair_features, [] if pairs is None else pairs.names())
    old, new = TableWeights([node], start, pair[None], rows, np.zeros(0)), shape.tables.split(flat)
    _carry_over(
        old, new, _labels(before, model.coding_.classes), _rows(before.features, model.features_.names()), named
    )
    return flat


def _labels(before: NamedWeights, classes: Classes) -> tuple[Array, Array]:
    """Numbers of the labels that both have: now, and before."""
    old = before.classes.encode(classes.names)
    return np.flatnonzero(old >= 0), old[old >= 0]


def _carry_over(
    old: TableWeights, new: TableWeights, labels: tuple[Array, Array], features: Array, pair_features: Array
) -> None:
    """Old weights into new ones. `features` and `pair_features`: for each of the new, which of the old it is, or -1."""
    (here, there), known = labels, np.flatnonzero(features >= 0)
    for table, old_table in zip(new.tables, old.tables, strict=True):
        table[np.ix_(known, here)] = old_table[np.ix_(features[known], there)]
    new.start[here] = old.start[there]
    relations = np.arange(len(new.pair))
    new.pair[np.ix_(relations, here, here)] = old.pair[np.ix_(relations, there, there)]
    known = np.flatnonzero(pair_features >= 0)
    square, old_square = (one.rows.reshape(-1, len(one.start), len(one.start)) for one in (new, old))
    square[np.ix_(known, here, here)] = old_square[np.ix_(pair_features[known], there, there)]
    new.gate[:] = old.gate


def inherit_mixture(
    before: NamedWeights, direction: int, names: list[str], classes: Classes, shape: TableShape
) -> TableWeights | None:
    """The same for a mixture of parents; None if its old weights are of another make (other relations)."""
    if direction >= len(before.weights):
        return None
    old, new = before.weights[direction], shape.split(no_weights(shape))
    sizes = [[len(w.tables), len(w.pair), len(w.rows), len(w.gate)] for w in (old, new)]
    if sizes[0] != sizes[1]:
        return None
    features = _rows(before.features, names)
    _carry_over(old, new, _labels(before, classes), features, np.arange(len(new.rows)))
    return new
