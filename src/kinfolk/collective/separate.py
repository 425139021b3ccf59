"""Separate training: each relation's model on its own edges, given the true label of the parent.

An edge is a row of a plain maxent problem: the features of the child, those of the parent, and the label of the parent
as a feature of its own, whose weights are the label-pair table T. The parts of the weights are then taken apart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.training import Callback, Convergence, TrainingPlan
from kinfolk.learning.sparse import SparseRows
from kinfolk.learning.training import TrainingData, train

Array = NDArray[Any]
RUN = 16  # rows that a stochastic step takes together


class EdgeModel(NamedTuple):
    """Weights of one relation: child (F, L), parent (F, L) or None, pair (L, L), rows (G, L²), start (L,)."""

    child: Array
    parent: Array | None
    pair: Array
    rows: Array
    start: Array


class EdgeData(NamedTuple):
    """What one relation is trained on.

    edges            int (E, 2), (child, parent); a parent of -1: a start component
    parent_features  "none", "own" or "shared"
    pair_rows        CSR (E, G), or None
    """

    edges: NDArray[np.int64]
    parent_features: str
    pair_rows: Any = None


def train_separately(
    rows: sparse.csr_array, labels: NDArray[np.int32], weights: Array, n_labels: int, data: EdgeData,
    plan: TrainingPlan, callback: Callback | None = None,
) -> tuple[EdgeModel, Convergence | None]:  # fmt: skip
    """The model of one relation; all zeros where none of its edges has a known label at both ends."""
    child, parent = data.edges.T
    known = np.flatnonzero((labels[child] >= 0) & ((parent < 0) | (labels[parent] >= 0)) & (weights[child] > 0))
    child, parent = child[known], parent[known]
    n_features, n_pairs = rows.shape[1], 0 if data.pair_rows is None else data.pair_rows.shape[1]
    # the label of the parent; a start component has one of its own
    before = np.where(parent < 0, n_labels, labels[parent]).astype(np.int32)
    parts = [_both_ends(rows, child, parent, data.parent_features), _one_hot(before, n_labels + 1)]
    if n_pairs:
        parts.append(_by_label(data.pair_rows[known], before, n_labels))
    wide = sparse.hstack(parts, format="csr", dtype=np.float32)
    flat, convergence = np.zeros((wide.shape[1], n_labels), np.float32), None
    if len(known):
        flat, convergence = train_maxent(wide, labels[child], weights[child], n_labels, plan, callback)
    own = data.parent_features == "own"
    cuts = np.cumsum([n_features, n_features * own, n_labels, 1])
    first, second, pair, start, paired = np.split(flat, cuts)
    paired = paired.reshape(n_pairs, n_labels * n_labels)
    return EdgeModel(first, second if own else None, pair, paired, start[0]), convergence


def train_maxent(
    rows: sparse.csr_array, labels: NDArray[np.int32], weights: Array, n_labels: int, plan: TrainingPlan,
    callback: Callback | None,
) -> tuple[Array, Convergence]:  # fmt: skip
    """Weights (F, L) of a plain maxent model of rows, each on its own."""
    starts = np.append(np.arange(0, len(labels), RUN), len(labels)).astype(np.int64)
    data = TrainingData(SparseRows(rows), None, labels, weights, starts, n_labels)
    flat, convergence = train("maxent", data, plan, None, None, callback)
    return flat[: rows.shape[1] * n_labels].reshape(-1, n_labels), convergence


def _both_ends(rows: sparse.csr_array, child: Array, parent: Array, how: str) -> sparse.csr_array:
    own = rows[child]
    if how == "none":
        return own
    nobody = sparse.csr_array((1, rows.shape[1]), dtype=rows.dtype)
    other = sparse.vstack([rows, nobody], format="csr")[np.where(parent < 0, rows.shape[0], parent)]
    return sparse.hstack([own, other], format="csr") if how == "own" else own + other


def _one_hot(codes: Array, width: int) -> sparse.csr_array:
    ones, starts = np.ones(len(codes), np.float32), np.arange(len(codes) + 1)
    return sparse.csr_array((ones, codes, starts), shape=(len(codes), width))


def _by_label(pair_rows: Any, before: Array, n_labels: int) -> sparse.csr_array:
    """Feature g of an edge whose parent has label i becomes feature (g, i); a start component has none."""
    table = sparse.csr_array(pair_rows, copy=True)
    repeated = np.repeat(before, np.diff(table.indptr))
    data = np.where(repeated < n_labels, table.data, 0)
    indices = table.indices * n_labels + np.minimum(repeated, n_labels - 1)
    return sparse.csr_array((data, indices, table.indptr), shape=(table.shape[0], table.shape[1] * n_labels))
