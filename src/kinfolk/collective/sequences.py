"""Training log-linear models of sequences (MaxEnt, MEMM, CRF): a stochastic warm start, then L-BFGS."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import BOUNDS, LARGEST_VALUE
from kinfolk.core.kernels import njit
from kinfolk.core.threads import release_free_memory
from kinfolk.core.training import Callback, Convergence, TrainingPlan
from kinfolk.errors import InputError
from kinfolk.inference.chain_losses import KINDS, add_outer, chain_residuals, sequence_residuals, workspace
from kinfolk.learning.lbfgs import Watch, optimise
from kinfolk.learning.loglinear import LogLinear, Weights
from kinfolk.learning.sparse import SparseRows
from kinfolk.learning.warm_start import warm_start

Array = NDArray[Any]

# -- One stochastic pass over sequences: scores, residuals and update fused in a kernel ----------------
#
#     w ← (1 - η λ) w - η · (gradient of one sequence),      λ = l2 / (number of sequences)
#
# The shrinking is kept in one factor, w = scale · v, so a step touches only the features of its tokens; tokens
# that the model already has right (all residuals below NEGLIGIBLE) are passed over.

NEGLIGIBLE = 1e-4


@njit(nogil=True, cache=True)
def _update_row(indices, values, begin, end, change, table):
    for p in range(begin, end):
        feature = indices[p]
        value = values[p] if len(values) else 1
        for k in range(len(change)):
            table[feature, k] -= value * change[k]


@njit(nogil=True, cache=True)
def _score_row(indices, values, begin, end, table, out):
    for k in range(len(out)):
        out[k] = 0
    for p in range(begin, end):
        feature = indices[p]
        value = values[p] if len(values) else 1
        for k in range(len(out)):
            out[k] += value * table[feature, k]


@njit(nogil=True, cache=True)
def run_epoch(kind, indptr, indices, values, labels, weights, starts, order, longest, node, start, pair, rates, shrink):
    """Visit sequences in `order` with step sizes `rates`; changes node (F, L), start (L,), pair (L, L) in place.

    Returns the summed loss met on the way.
    """
    n_labels = node.shape[1]
    scores, residual = np.empty((longest, n_labels), node.dtype), np.empty((longest, n_labels), node.dtype)
    change = np.empty(n_labels, node.dtype)
    pair64, exp_pair = np.empty((1, n_labels, n_labels)), np.empty((1, n_labels, n_labels))
    pair_residual, start_residual = np.empty((1, n_labels, n_labels)), np.empty(n_labels)
    work = workspace(longest, n_labels)
    loss, scale = 0.0, 1.0
    for visit in range(len(order)):
        first, m = starts[order[visit]], starts[order[visit] + 1] - starts[order[visit]]
        for t in range(m):
            _score_row(indices, values, indptr[first + t], indptr[first + t + 1], node, scores[t])
            for k in range(n_labels):
                scores[t, k] *= scale
        for i in range(n_labels):
            start_residual[i] = 0.0
            for k in range(n_labels):
                pair64[0, i, k] = pair[i, k] * scale
                pair_residual[0, i, k] = 0.0
        start64 = start.astype(np.float64) * scale
        for i in range(n_labels):
            for k in range(n_labels):
                exp_pair[0, i, k] = np.exp(pair64[0, i, k])
        loss += sequence_residuals(
            kind, scores[:m], labels[first : first + m], weights[first : first + m], pair64, exp_pair,
            start64, np.exp(start64), residual[:m], pair_residual, start_residual, work,
        )  # fmt: skip
        add_outer(work[2], exp_pair, pair_residual)
        rate = rates[visit]
        scale *= 1 - rate * shrink
        step = rate / scale
        for i in range(n_labels):
            start[i] -= step * start_residual[i]
            for k in range(n_labels):
                pair[i, k] -= step * pair_residual[0, i, k]
        for t in range(m):
            largest = 0.0
            for k in range(n_labels):
                largest = max(largest, abs(residual[t, k]))
                change[k] = step * residual[t, k]
            if largest > NEGLIGIBLE:
                _update_row(indices, values, indptr[first + t], indptr[first + t + 1], change, node)
    for f in range(len(node)):
        for k in range(n_labels):
            node[f, k] *= scale
    for i in range(n_labels):
        start[i] *= scale
        for k in range(n_labels):
            pair[i, k] *= scale
    return loss


# -- From chains to weights: a stochastic warm start, then L-BFGS --------------------------------------

log = logging.getLogger("kinfolk")

WARM_PASSES = 16
# A warm-start step moves the score of a token by about this many times its residual.
SCORE_STEP = 3.0


@dataclass(frozen=True)
class TrainingData:
    """Rows of features, labels (-1 unknown), token weights and sequences of one corpus."""

    rows: SparseRows
    pair_rows: SparseRows | None
    labels: NDArray[np.int32]
    token_weights: Array
    starts: NDArray[np.int64]
    n_labels: int


def train(
    kind: str,
    data: TrainingData,
    plan: TrainingPlan,
    initial: Array | None,
    score_dev: Callable[[Weights], float] | None,
    callback: Callback | None,
) -> tuple[Array, Convergence]:
    """Weights that minimise the objective of `kind` ("maxent", "memm", "crf"), and how it went."""
    began = time.perf_counter()
    if not (data.labels >= 0).any():
        raise InputError("training needs at least one labelled token")
    largest = float(np.abs(data.rows.values).max(initial=0.0))
    if largest > LARGEST_VALUE:
        raise InputError(f"{BOUNDS}; the largest is {largest:g}. Scale them down")
    release_free_memory()
    residuals = chain_residuals(kind, data.labels, data.token_weights, data.starts, plan.n_jobs)
    objective = LogLinear(data.rows, residuals, data.n_labels, data.pair_rows, plan.l2, plan.n_jobs)
    watch = Watch(objective.shape, plan, score_dev, callback, began)
    start = _starting_point(kind, data, objective, plan, watch) if initial is None else initial
    return optimise(objective, start, plan, watch, began)


def _starting_point(kind: str, data: TrainingData, objective: LogLinear, plan: TrainingPlan, watch: Watch) -> Array:
    """Weights after a few stochastic passes, or zeros with a lasso, which wants them.

    Zeros also if the passes end worse than knowing nothing, as with huge feature values.
    """
    zeros = np.zeros(objective.shape.size, np.float32)
    if plan.l1 > 0:
        return zeros
    watch.passes = WARM_PASSES
    n = len(data.starts) - 1
    squares = data.rows.values.astype(np.float64) ** 2 if len(data.rows.values) else None
    mean_square = (len(data.rows.indices) if squares is None else squares.sum()) / max(1, data.rows.n_rows)
    shrink = plan.l2 / n
    longest = int(np.diff(data.starts).max())
    met: list[float] = []
    largest_weight = max(1.0, float(data.token_weights.max()))

    def epoch(flat: Array, order: Array, rates: Array) -> float:
        part, rows = objective.shape.split(flat), data.rows
        loss = run_epoch(
            KINDS[kind], rows.indptr, rows.indices, rows.values, data.labels, data.token_weights, data.starts,
            order, longest, part.node, part.start, part.pair, rates, shrink,
        )  # fmt: skip
        return float(loss)

    def after_pass(number: int, loss: float) -> bool:
        met.append(loss)
        return watch.after_pass(number, loss)

    warmed = warm_start(
        epoch,
        zeros,
        n,
        shrink=shrink,
        rate=min(1.0, SCORE_STEP / max(mean_square, 1e-12)) / largest_weight,
        passes=WARM_PASSES,
        rng=np.random.default_rng(plan.seed),
        n_jobs=plan.n_jobs,
        callback=after_pass,
    )
    release_free_memory()
    knowing_nothing = data.token_weights[data.labels >= 0].sum() * np.log(data.n_labels)
    return warmed if met and met[-1] < knowing_nothing and np.isfinite(warmed).all() else zeros
