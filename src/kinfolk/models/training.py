"""From a relational data set to weights: a stochastic warm start, then L-BFGS, watched on held-out data."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import ConvergenceWarning, InputError
from kinfolk.inference.expectations import chain_residuals
from kinfolk.inference.residuals import KINDS
from kinfolk.learning.lbfgs import Iteration, minimise
from kinfolk.learning.loglinear import LogLinear, Weights
from kinfolk.learning.products import SparseRows
from kinfolk.learning.stochastic import warm_start
from kinfolk.memory import release_free_memory
from kinfolk.models.epochs import run_epoch

log = logging.getLogger("kinfolk")
Array = NDArray[Any]

WARM_PASSES = 16
LARGEST_VALUE = 1e12  # beyond it squares and sums of float32 scores lose all meaning
# A warm-start step moves the score of a token by about this many times its residual.
SCORE_STEP = 3.0


@dataclass(frozen=True)
class Progress:
    """What a callback is told; it may return True to stop training with what there is."""

    stage: str  # "warm start" or "optimise"
    iteration: int
    limit: int
    objective: float
    seconds: float
    dev_score: float | None = None


Callback = Callable[[Progress], bool | None]


@dataclass(frozen=True)
class Convergence:
    """How training ended. `status`: converged, limit, stopped (by a callback or by held-out patience), stalled."""

    status: str
    objective: float
    iterations: int
    evaluations: int
    seconds: float
    dev_scores: dict[int, float] = field(default_factory=dict)
    best_iteration: int | None = None

    def __str__(self) -> str:
        words = {
            "converged": "converged",
            "limit": "hit the iteration limit before the tolerance",
            "stopped": "stopped early",
            "stalled": "could not lower the objective further",
        }[self.status]
        best = "" if self.best_iteration is None else f"; weights of iteration {self.best_iteration} kept"
        return (
            f"{words} after {self.iterations} iterations ({self.seconds:.1f} s), objective {self.objective:.6g}{best}"
        )


@dataclass(frozen=True)
class TrainingData:
    """Rows of features, labels (-1 unknown), token weights and sequences of one corpus."""

    rows: SparseRows
    pair_rows: SparseRows | None
    labels: NDArray[np.int32]
    token_weights: Array
    starts: NDArray[np.int64]
    n_labels: int


@dataclass(frozen=True)
class TrainingPlan:
    """Settings of the optimiser."""

    l2: float
    l1: float
    max_iterations: int
    tolerance: float
    patience: int
    dev_every: int
    seed: int | None
    n_jobs: int


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
        raise InputError(
            f"feature values must lie within ±{LARGEST_VALUE:g}; the largest is {largest:g}. Scale them down."
        )
    if _kernels_are_cold():
        log.warning("first use: compiling numeric kernels, about half a minute; later runs load them from disk")
    release_free_memory()
    residuals = chain_residuals(kind, data.labels, data.token_weights, data.starts, plan.n_jobs)
    objective = LogLinear(data.rows, residuals, data.n_labels, data.pair_rows, plan.l2, plan.n_jobs)
    watch = _Watch(objective, plan, score_dev, callback, began)
    found = minimise(
        objective,
        _starting_point(kind, data, objective, plan, watch) if initial is None else initial,
        inverse_curvature=objective.inverse_curvature,
        l1=plan.l1,
        max_iterations=0 if watch.stopped else plan.max_iterations,
        tolerance=plan.tolerance,
        callback=watch.after_iteration,
        n_jobs=plan.n_jobs,
    )
    if watch.stopped:  # perhaps before the first iteration
        found = replace(found, status="stopped")
    watch.score(found.iterations, found.weights)  # the last weights may be the best
    best = found.weights.copy() if watch.best_weights is None else watch.best_weights
    convergence = Convergence(
        found.status,
        found.objective,
        found.iterations,
        found.evaluations,
        time.perf_counter() - began,
        watch.dev_scores,
        watch.best_iteration,
    )
    log.info("training %s", convergence)
    if found.status in ("limit", "stalled"):
        warnings.warn(f"training {convergence}. {_remedy(found.status)}", ConvergenceWarning, stacklevel=3)
    return best, convergence


def _kernels_are_cold() -> bool:
    """Whether the largest kernel is neither compiled in this process nor in numba's cache on disk."""
    folder = run_epoch.stats.cache_path
    return not run_epoch.signatures and (folder is None or not any(Path(folder).glob("epochs.run_epoch-*.nbi")))


def _remedy(status: str) -> str:
    if status == "limit":
        return "Raise max_iterations or tolerance."
    return "Usually harmless: rounding. Scale down very large feature values if accuracy is poor."


def _starting_point(kind: str, data: TrainingData, objective: LogLinear, plan: TrainingPlan, watch: _Watch) -> Array:
    """Weights after a few stochastic passes, or zeros with a lasso, which wants them.

    Zeros also if the passes end worse than knowing nothing, as with huge feature values.
    """
    zeros = np.zeros(objective.shape.size, np.float32)
    if plan.l1 > 0:
        return zeros
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


class _Watch:
    """Tells the callback, scores the held-out data, and remembers the best weights."""

    def __init__(
        self,
        objective: LogLinear,
        plan: TrainingPlan,
        score_dev: Callable[[Weights], float] | None,
        callback: Callback | None,
        began: float,
    ) -> None:
        self._shape, self._plan, self._score, self._callback = objective.shape, plan, score_dev, callback
        self._began = began
        self.dev_scores: dict[int, float] = {}
        self.best_iteration: int | None = None
        self.best_weights: Array | None = None
        self.stopped = False  # the callback said so

    def after_pass(self, number: int, loss: float) -> bool:
        return self._tell("warm start", number, WARM_PASSES, loss, None)

    def after_iteration(self, iteration: Iteration) -> bool:
        n = iteration.number
        score = self.score(n, iteration.weights) if n % self._plan.dev_every == 0 else None
        stop = self._tell("optimise", n, self._plan.max_iterations, iteration.objective, score)
        return stop or self._out_of_patience(n)

    def score(self, n: int, weights: Array) -> float | None:
        """Score the held-out data, if there is any and these weights are new; the best weights are kept."""
        if self._score is None or n in self.dev_scores:
            return None
        score = self.dev_scores[n] = self._score(self._shape.split(weights))
        if self.best_iteration is None or score > self.dev_scores[self.best_iteration]:
            self.best_iteration, self.best_weights = n, weights.copy()
        return score

    def _out_of_patience(self, n: int) -> bool:
        if self.best_iteration is None:
            return False
        return n - self.best_iteration >= self._plan.patience * self._plan.dev_every

    def _tell(self, stage: str, n: int, limit: int, objective: float, score: float | None) -> bool:
        seconds = time.perf_counter() - self._began
        log.debug("%s %d: objective %.6g, %.2f s, held-out %s", stage, n, objective, seconds, score)
        if self._callback is None:
            return False
        self.stopped = bool(self._callback(Progress(stage, n, limit, objective, seconds, score)))
        return self.stopped
