"""Training log-linear models of sequences (MaxEnt, MEMM, CRF): stochastic passes, then L-BFGS if the optimum is asked
for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import BOUNDS, LARGEST_VALUE, read_only
from kinfolk.core.kernels import Csr
from kinfolk.core.threads import release_free_memory
from kinfolk.core.training import Callback, Convergence, TrainingPlan
from kinfolk.errors import InputError
from kinfolk.inference.chain import KINDS, Dense, Parts, Sequences, chain_residuals, run_epoch
from kinfolk.learning.lbfgs import Minimum, Watch, optimise
from kinfolk.learning.loglinear import LogLinear, SomeAtZero, Weights
from kinfolk.learning.sparse import SparseRows
from kinfolk.learning.warm_start import warm_start

Array = NDArray[Any]

# -- From chains to weights: stochastic passes, which are all there is by default, then L-BFGS -----------

log = logging.getLogger("kinfolk")

# Chosen on held-out documents of the corpora of `benchmarks/stopping.py`: more passes score no higher, and make models
# surer of what they say than they should be.
PASSES = 8
STEP = 0.2  # η of `run_epoch`
MET = 0.1  # what the squared gradients of a feature begin with: its first step is STEP / MET^⅜ times its gradient
RIDGE_STEP = 0.05  # a visit shrinks weights by this share of l2 / (number of sequences)
DENSE_STEP = 3.0  # a step moves the score of a token by about this many times its residual, by its dense columns


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
    at_zero: NDArray[np.bool_] | None = None,
) -> tuple[Array, Convergence]:
    """Weights for the objective of `kind` ("maxent", "memm", "crf"), and how it went: those of a few stochastic passes,
    or, if the plan is not to end there, those that minimise it.

    at_zero   which weights are not learned and stay 0; None: all are learned
    """
    began = time.perf_counter()
    if not (data.labels >= 0).any():
        raise InputError("training needs at least one labelled token")
    largest = float(np.abs(data.rows.csr.values).max(initial=0.0))
    if largest > LARGEST_VALUE:
        raise InputError(f"{BOUNDS}; the largest is {largest:g}. Scale them down")
    release_free_memory()
    residuals = chain_residuals(kind, data.labels, data.token_weights, data.starts, plan.n_jobs)
    rows, pair_rows = data.rows, data.pair_rows
    objective: Any = LogLinear(rows, residuals, data.n_labels, pair_rows, plan.l2, plan.n_jobs, plan.dense_l2)
    watch = Watch(objective.shape, plan, score_dev, callback, began)
    early = plan.early and _passes_do(data, score_dev, at_zero, plan)
    start, learned = np.zeros(objective.shape.size, np.float32) if initial is None else initial, False
    if early or (initial is None and plan.l1 == 0):  # a lasso wants zeros to start from
        start, learned = _passed(kind, data, objective, plan, watch, start)
    if early and learned:
        return watch.finished(Minimum(start, watch.losses[-1], len(watch.losses), 0, "stopped"), began)
    if at_zero is not None:
        objective, start = SomeAtZero(objective, at_zero), np.where(at_zero, start.dtype.type(0), start)
    return optimise(objective, start, plan, watch, began)


def _passes_do(data: TrainingData, score_dev: Any, at_zero: Any, plan: TrainingPlan) -> bool:
    """Whether passes alone can learn all there is: they know of no lasso, no features of label pairs and no weights
    that stay 0, dense columns settle slowly in them, and held-out data say by themselves when to stop."""
    return data.pair_rows is None and not data.rows.dense.size and score_dev is None and at_zero is None and not plan.l1


def _passed(
    kind: str, data: TrainingData, objective: LogLinear, plan: TrainingPlan, watch: Watch, start: Array
) -> tuple[Array, bool]:
    """Weights after the passes, and whether anything was learned: if the passes end worse than knowing nothing, as with
    huge values in few rows, the weights are those of the start.

    Columns of features count by their root mean square, and weights of tokens by their mean, so that steps suit both.
    """
    n, known, watch.passes = len(data.starts) - 1, data.labels >= 0, PASSES
    mean = float(data.token_weights[known].mean())
    if not mean > 0:
        return start, False
    csr, scale = _evened(data.rows)
    shrink = min(RIDGE_STEP * plan.l2 / (n * mean), 0.5)
    dense = _dense_steps(data, objective.dense_l2 / (n * mean))
    sequences = Sequences.of(data.labels, data.token_weights / mean, data.starts)
    n_sparse = data.rows.n_sparse

    def scaled(flat: Array, by: Array | None) -> Array:
        made = flat.copy()
        if by is not None:
            objective.shape.split(made).node[:n_sparse] *= by[:, None]
        return made

    def epoch(flat: Array, squares: Array, order: Array) -> float:
        part = objective.shape.split(flat)
        weights = Parts(part.node, part.pair, part.start)
        return mean * float(run_epoch(KINDS[kind], csr, dense, sequences, weights, squares, order, STEP, shrink))

    warmed = warm_start(
        epoch,
        scaled(start, scale),
        np.full(n_sparse + 1, MET, np.float32),
        n,
        passes=PASSES,
        rng=np.random.default_rng(plan.seed),
        n_jobs=plan.n_jobs,
        callback=watch.after_pass,
    )
    release_free_memory()
    warmed = scaled(warmed, None if scale is None else 1 / scale)
    knowing_nothing = data.token_weights[known].sum() * np.log(data.n_labels)
    learned = bool(watch.losses) and watch.losses[-1] < knowing_nothing and bool(np.isfinite(warmed).all())
    return (warmed, True) if learned else (start, False)


def _evened(rows: SparseRows) -> tuple[Csr, Array | None]:
    """Sparse features with every column divided by the root mean square of its values, and what it was divided by;
    None: all values are 1."""
    _, indices, values = rows.csr
    if not len(values):
        return rows.csr, None
    squares = np.bincount(indices, values.astype(np.float64) ** 2, rows.n_sparse)
    scale = np.sqrt(squares / np.maximum(np.bincount(indices, minlength=rows.n_sparse), 1)).astype(values.dtype)
    scale[scale == 0] = 1
    return rows.csr._replace(values=read_only(values / scale[indices])), scale


def _dense_steps(data: TrainingData, shrink: float) -> Dense:
    """Dense columns with a step size for them, and what a step shrinks their weights by, half at most.

    Tokens of a sequence that have much of their columns in common (in the extreme, a vector of their document) step
    together, so that the score of one moves by Σ_s x_t · x_s in the place of |x_t|²; on average over tokens that is
    |Σ_t x_t|² a sequence.
    """
    columns, n = data.rows.dense, max(1, data.rows.n_rows)
    sums = np.add.reduceat(columns, data.starts[:-1]) if columns.size else columns
    moved = max(float(np.einsum("ij,ij->", part, part, dtype=np.float64)) / n for part in (columns, sums))
    step = min(1.0, DENSE_STEP / max(moved, 1e-12))
    step = min(step, 0.5 / shrink) if shrink > 0 else step
    return Dense(columns, step, step * shrink)
