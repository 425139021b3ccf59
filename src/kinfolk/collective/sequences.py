"""Training log-linear models of sequences (MaxEnt, MEMM, CRF): stochastic passes, then L-BFGS if the optimum is asked
for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.checkpoint import running
from kinfolk.core.data import BOUNDS, LARGEST_VALUE, read_only
from kinfolk.core.kernels import FAST, Csr, njit
from kinfolk.core.threads import release_free_memory
from kinfolk.core.training import Callback, Convergence, TrainingPlan
from kinfolk.errors import InputError
from kinfolk.inference.chain_losses import KINDS, Parts, Sequences, chain_residuals
from kinfolk.inference.chain_pass import Dense, run_epoch
from kinfolk.learning.lbfgs import Minimum, Watch, optimise
from kinfolk.learning.loglinear import LogLinear, SomeAtZero, Weights, no_weights
from kinfolk.learning.sparse import SparseRows
from kinfolk.learning.warm_start import warm_start

Array = NDArray[Any]

# -- From chains to weights: stochastic passes, which are all there is by default, then L-BFGS -----------

log = logging.getLogger("kinfolk")

WARM_PASSES = 16
# A warm-start step moves the score of a token by about this many times its residual: by its sparse features, and by the
# dense columns beside them.
SCORE_STEP = 3.0
DENSE_STEP = 3.0

# Passes that are all there is, chosen on held-out documents of the corpora of `benchmarks/stopping.py`: more of them
# score no higher, and make models surer of what they say than they should be.
PASSES = 8
# Of models that hide a fold, whose answers are what a level above learns from: on held-out fifths of eng.train and
# GENIA that level is as good as over models of 8 passes.
FEWER = 3
# Of a level above a base that passes were enough for: what it is told is right more often than not from the start.
ABOVE = 6
# With dense columns beside the features: so many passes, in which steps move the score of a token by these columns less
# than in plain descent; then L-BFGS, as long as five iterations halve the objective. It begins with so much of a step,
# as tokens have many features and the curvature knows each by itself: a whole one was halved twice. On three held-out
# fifths of eng.train with 300 columns a token F1 is 90.32 (the optimum: 89.62; steps of 3 and a tolerance of 0.3:
# 90.25, at 1.4 times the cost); shorter steps gain 0.15 there, and lose up to 1 on fewer tokens.
BEFORE_DENSE = 4
BESIDE_STEP = 1.0
OF_DENSE = 1.0
OF_FIRST = 0.25
STEP = 0.2  # η, of features whose squared gradients are kept
MET = 0.1  # what these begin with: the first step is STEP / MET^⅜ times the gradient
RIDGE = 0.25  # the share of l2 that shrinks weights: steps are longer than those of plain descent
# Where the last of them meets more than this share of the loss of the first, features are too few to learn the training
# data by heart, the optimum is no danger, and passes stay far from it. On held-out documents of five corpora passes
# were better where the share was up to 0.11 (the usual features), and worse by 0.8 to 8 points of F1 where it was from
# 0.24 on (words and shapes alone).
LEARNED = 0.15


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
    early, dense = plan.early and _passes_do(data, score_dev, at_zero, plan), bool(data.rows.dense.size)
    start = no_weights(objective.shape) if initial is None else initial
    few = replace(plan, passes=BEFORE_DENSE) if dense and plan.passes is None else plan
    passed = _passed(kind, data, objective, few, watch, start) if early else None
    if passed is not None:
        enough = initial is not None or plan.passes is not None or watch.losses[-1] <= LEARNED * watch.losses[0]
        if watch.stopped or (enough and not dense):
            return watch.finished(Minimum(passed, watch.losses[-1], len(watch.losses), 0, "stopped"), began)
        if enough:
            few = replace(plan, tolerance=OF_DENSE, first=OF_FIRST)
            found, convergence = optimise(objective, passed, few, watch, began)
            return found, convergence.early()
        watch.losses.clear()
    if initial is None and plan.l1 == 0 and (passed is not None or not early):  # a lasso wants zeros to start from
        warmed = _warmed(kind, data, objective, plan, watch)
        start = start if warmed is None else warmed
    if at_zero is not None:
        objective, start = SomeAtZero(objective, at_zero), np.where(at_zero, start.dtype.type(0), start)
    return optimise(objective, start, plan, watch, began)


def _passes_do(data: TrainingData, score_dev: Any, at_zero: Any, plan: TrainingPlan) -> bool:
    """Whether passes can learn all there is, alone or, with dense columns, which settle slowly in them, before a few
    iterations: they know of no lasso, no features of label pairs and no weights that stay 0, and held-out data say by
    themselves when to stop."""
    return data.pair_rows is None and score_dev is None and at_zero is None and not plan.l1


def _warmed(kind: str, data: TrainingData, objective: LogLinear, plan: TrainingPlan, watch: Watch) -> Array | None:
    """Weights near the optimum, after plain stochastic passes; None where they end worse than knowing nothing, as with
    huge feature values."""
    _, indices, values = data.rows.csr
    squares = (values.astype(np.float64) ** 2).sum() if len(values) else len(indices)
    rate = min(1.0, SCORE_STEP / max(squares / max(1, data.rows.n_rows), 1e-12))
    n, largest_weight = len(data.starts) - 1, max(1.0, float(data.token_weights.max()))
    dense = _dense_steps(data, DENSE_STEP, rate, objective.dense_l2 / n)
    passes = _Passes(kind, data.rows.csr, dense, data.token_weights)
    how: dict[str, Any] = {"shrink": plan.l2 / n, "rate": rate / largest_weight, "passes": WARM_PASSES}
    return passes.run(data, objective, plan, watch, no_weights(objective.shape), how)


def _passed(
    kind: str, data: TrainingData, objective: LogLinear, plan: TrainingPlan, watch: Watch, start: Array
) -> Array | None:
    """Weights that answer well, after passes whose steps are those of each feature; None as above. Columns of features
    count by their root mean square, and weights of tokens by their mean, so that steps suit both."""
    mean = float(data.token_weights[data.labels >= 0].mean())
    if not mean > 0:
        return None
    csr, scale = _evened(data.rows)
    n, n_sparse = (len(data.starts) - 1) * mean, data.rows.n_sparse
    dense = _dense_steps(data, BESIDE_STEP, STEP, objective.dense_l2 / n)
    passes = _Passes(kind, csr, dense, data.token_weights / mean, mean)
    met = np.full(n_sparse + 1, MET, np.float32)
    how: dict[str, Any] = {"shrink": RIDGE * plan.l2 / n, "rate": STEP, "squares": met}
    how["passes"] = PASSES if plan.passes is None else plan.passes
    begin = start.copy()
    if scale is not None:
        objective.shape.split(begin).node[:n_sparse] *= scale[:, None]
    found = passes.run(data, objective, plan, watch, begin, how)
    if found is not None and scale is not None:
        objective.shape.split(found).node[:n_sparse] /= scale[:, None]
    return found


@dataclass(frozen=True)
class _Passes:
    """Over sparse rows and dense columns, with weights of tokens, of which `unit` is that of the loss told."""

    kind: str
    csr: Csr
    dense: Dense
    token_weights: Array
    unit: float = 1.0

    def run(
        self, data: TrainingData, objective: LogLinear, plan: TrainingPlan, watch: Watch, start: Array,
        how: dict[str, Any],
    ) -> Array | None:  # fmt: skip
        """Weights after them; None if they end worse than knowing nothing."""
        sequences, watch.passes = Sequences.of(data.labels, self.token_weights, data.starts), how["passes"]

        def epoch(flat: Array, squares: Array, order: Array, rates: Array) -> float:
            part = objective.shape.split(flat)
            told = (self.csr, self.dense, sequences, Parts(part.node, part.pair, part.start), squares, order, rates)
            return self.unit * float(run_epoch(KINDS[self.kind], *told, how["shrink"]))

        step = running().step("warm start")
        step.beside("watch", watch.state, watch.restore)
        rng, n = np.random.default_rng(plan.seed), len(data.starts) - 1
        found = warm_start(epoch, start, n, **how, rng=rng, n_jobs=plan.n_jobs, callback=watch.after_pass, step=step)
        release_free_memory()
        knowing_nothing = data.token_weights[data.labels >= 0].sum() * np.log(data.n_labels)
        learned = watch.losses and watch.losses[-1] < knowing_nothing and np.isfinite(found).all()
        return found if learned else None


def _evened(rows: SparseRows) -> tuple[Csr, Array | None]:
    """Sparse features with every column divided by the root mean square of its values, and what it was divided by;
    None: all values are 1."""
    _, indices, values = rows.csr
    if not len(values):
        return rows.csr, None
    scale, evened = np.empty(rows.n_sparse, values.dtype), np.empty_like(values)
    _even(indices, values, np.zeros(rows.n_sparse), np.zeros(rows.n_sparse, np.int64), scale, evened)
    return rows.csr._replace(values=read_only(evened)), scale


@njit(nogil=True, cache=True)
def _even(indices, values, squares, times, scale, evened):  # type: ignore[no-untyped-def]
    for p in range(len(indices)):
        squares[indices[p]] += np.float64(values[p]) ** 2
        times[indices[p]] += 1
    for feature in range(len(scale)):
        scale[feature] = np.sqrt(squares[feature] / max(1, times[feature]))
        if scale[feature] == 0:
            scale[feature] = 1
    for p in range(len(indices)):
        evened[p] = values[p] / scale[indices[p]]


def _dense_steps(data: TrainingData, moves: float, rate: float, shrink: float) -> Dense:
    """Dense columns with a step size for them, as a multiple of `rate`, that moves the score of a token by `moves`
    times its residual; no step shrinks weights by more than half.

    Tokens of a sequence that have much of their columns in common (in the extreme, a vector of their document) step
    together, so that the score of one moves by Σ_s x_t · x_s in the place of |x_t|²; on average over tokens that is
    |Σ_t x_t|² a sequence.
    """
    columns, n = data.rows.dense, max(1, data.rows.n_rows)
    moved = max(_squares(columns, read_only(data.starts))) / n if columns.size else 0.0
    step = min(1.0, moves / max(moved, 1e-12))
    step = min(step, 0.5 / shrink) if shrink > 0 else step
    return Dense(columns, step / rate, shrink)


@njit(nogil=True, cache=True, fastmath=FAST)
def _squares(columns, starts):  # type: ignore[no-untyped-def]
    """Σ_t |x_t|² over tokens, and Σ |Σ_t x_t|² over sequences."""
    width = columns.shape[1]
    sums, own, together = np.empty(width, columns.dtype), 0.0, 0.0
    for s in range(len(starts) - 1):
        sums[:] = 0
        for t in range(starts[s], starts[s + 1]):
            square = columns.dtype.type(0)
            for j in range(width):
                square += columns[t, j] * columns[t, j]
                sums[j] += columns[t, j]
            own += square
        for j in range(width):
            together += np.float64(sums[j]) * np.float64(sums[j])
    return own, together
