"""Training log-linear models of sequences (MaxEnt, MEMM, CRF): a stochastic warm start, then L-BFGS."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.checkpoint import running
from kinfolk.core.data import BOUNDS, LARGEST_VALUE
from kinfolk.core.threads import release_free_memory
from kinfolk.core.training import Callback, Convergence, TrainingPlan
from kinfolk.errors import InputError
from kinfolk.inference.chain import KINDS, Dense, Parts, Sequences, chain_residuals, run_epoch
from kinfolk.learning.lbfgs import Watch, optimise
from kinfolk.learning.loglinear import LogLinear, SomeAtZero, Weights, no_weights
from kinfolk.learning.sparse import SparseRows
from kinfolk.learning.warm_start import warm_start

Array = NDArray[Any]

# -- From chains to weights: a stochastic warm start, then L-BFGS --------------------------------------

log = logging.getLogger("kinfolk")

WARM_PASSES = 16
# A warm-start step moves the score of a token by about this many times its residual: by its sparse features, and by the
# dense columns beside them.
SCORE_STEP = 3.0
DENSE_STEP = 3.0


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
    """Weights that minimise the objective of `kind` ("maxent", "memm", "crf"), and how it went.

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
    start = _starting_point(kind, data, objective, plan, watch) if initial is None else initial
    if at_zero is not None:
        objective, start = SomeAtZero(objective, at_zero), np.where(at_zero, start.dtype.type(0), start)
    return optimise(objective, start, plan, watch, began)


def _starting_point(kind: str, data: TrainingData, objective: LogLinear, plan: TrainingPlan, watch: Watch) -> Array:
    """Weights after a few stochastic passes, or zeros with a lasso, which wants them.

    Zeros also if the passes end worse than knowing nothing, as with huge feature values.
    """
    zeros = no_weights(objective.shape)
    if plan.l1 > 0:
        return zeros
    watch.passes = WARM_PASSES
    n = len(data.starts) - 1
    _, indices, values = data.rows.csr
    squares = (values.astype(np.float64) ** 2).sum() if len(values) else len(indices)
    mean_square = squares / max(1, data.rows.n_rows)
    shrink = plan.l2 / n
    rate = min(1.0, SCORE_STEP / max(mean_square, 1e-12))
    dense = _dense_steps(data, rate, objective.dense_l2 / n)
    sequences = Sequences.of(data.labels, data.token_weights, data.starts)
    step = running().step("warm start")
    step.beside("watch", watch.state, watch.restore)
    largest_weight = max(1.0, float(data.token_weights.max()))

    def epoch(flat: Array, order: Array, rates: Array) -> float:
        part = objective.shape.split(flat)
        weights = Parts(part.node, part.pair, part.start)
        return float(run_epoch(KINDS[kind], data.rows.csr, dense, sequences, weights, order, rates, shrink))

    warmed = warm_start(
        epoch,
        zeros,
        n,
        shrink=shrink,
        rate=rate / largest_weight,
        passes=WARM_PASSES,
        rng=np.random.default_rng(plan.seed),
        n_jobs=plan.n_jobs,
        callback=watch.after_pass,
        step=step,
    )
    release_free_memory()
    knowing_nothing = data.token_weights[data.labels >= 0].sum() * np.log(data.n_labels)
    met = watch.losses
    return warmed if met and met[-1] < knowing_nothing and np.isfinite(warmed).all() else zeros


def _dense_steps(data: TrainingData, rate: float, shrink: float) -> Dense:
    """Dense columns with a step size for them, as a multiple of `rate`; no step shrinks weights by more than half.

    Tokens of a sequence that have much of their columns in common (in the extreme, a vector of their document) step
    together, so that the score of one moves by Σ_s x_t · x_s in the place of |x_t|²; on average over tokens that is
    |Σ_t x_t|² a sequence.
    """
    columns, n = data.rows.dense, max(1, data.rows.n_rows)
    sums = np.add.reduceat(columns, data.starts[:-1]) if columns.size else columns
    moved = max(float(np.einsum("ij,ij->", part, part, dtype=np.float64)) / n for part in (columns, sums))
    step = min(1.0, DENSE_STEP / max(moved, 1e-12))
    step = min(step, 0.5 / shrink) if shrink > 0 else step
    return Dense(columns, step / rate, shrink)
