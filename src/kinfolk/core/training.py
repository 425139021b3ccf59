"""From an objective to weights: L-BFGS, watched on held-out data, with an honest word at the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from numpy.typing import NDArray

from kinfolk.core.history import STATUSES, Stage, renamed, thinned
from kinfolk.errors import ConvergenceWarning, warn
from kinfolk.learning.lbfgs import Iteration, minimise

log = logging.getLogger("kinfolk")
Array = NDArray[Any]


class Shape(Protocol):
    """How a flat vector of weights falls apart."""

    def split(self, flat: Array) -> Any: ...


class Objective(Protocol):
    """A smooth objective with an estimate of its curvature."""

    def __call__(self, flat: Array, gradient: Array) -> float: ...

    def inverse_curvature(self) -> Array: ...


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


class UntilStopped:
    """A callback that, once it has said stop, says so to every stage that follows."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self.stopped = False

    def __call__(self, progress: Progress) -> bool:
        self.stopped = self.stopped or bool(self._callback(progress))
        return self.stopped


@dataclass(frozen=True)
class Convergence:
    """How training ended. `status`: converged, limit, stopped (by a callback or by held-out patience), stalled.

    `stages` tell how it went, iteration by iteration; a model file keeps them, with at most 200 points of each curve.
    """

    status: str
    objective: float
    iterations: int
    evaluations: int
    seconds: float
    dev_scores: dict[int, float] = field(default_factory=dict)
    best_iteration: int | None = None
    stages: tuple[Stage, ...] = ()

    def brief(self) -> dict[str, Any]:
        """How it ended, in five words."""
        return {name: getattr(self, name) for name in ("status", "objective", "iterations", "evaluations", "seconds")}

    def for_file(self) -> dict[str, Any]:
        """What a model file keeps of it."""
        scores = thinned(list(self.dev_scores.items()), self.best_iteration)
        return {
            **self.brief(),
            "dev_scores": [list(point) for point in scores],
            "best_iteration": self.best_iteration,
            "stages": [stage.for_file() for stage in self.stages],
        }

    @classmethod
    def from_file(cls, told: Mapping[str, Any]) -> Convergence:
        """From what a model file keeps; older files have no curves."""
        kept = dict(told)
        scores = {int(iteration): float(score) for iteration, score in kept.pop("dev_scores", ())}
        stages = tuple(Stage.from_file(stage) for stage in kept.pop("stages", ()))
        return cls(**kept, dev_scores=scores, stages=stages)

    def after(self, stages: Sequence[Stage]) -> Convergence:
        """The same with what went before it."""
        return replace(self, stages=(*stages, *self.stages))

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


def combined(outcomes: Sequence[Convergence], form: Sequence[str] | str = "{}") -> Convergence:
    """Of several trainings: the sums, and the status of the one that went worst; nothing to train is converged.

    `form` is how their stages are called, as "separate {}", or one such form each where there are several.
    """
    if not outcomes:
        return Convergence("converged", 0.0, 0, 0, 0.0)
    worst = max(outcomes, key=lambda o: STATUSES.index(o.status))
    if len(outcomes) == 1:
        return worst if not isinstance(form, str) else replace(worst, stages=renamed(worst.stages, form))
    total = [sum(getattr(o, name) for o in outcomes) for name in ("objective", "iterations", "evaluations", "seconds")]
    forms = [form] * len(outcomes) if isinstance(form, str) else form
    stages = [renamed(outcome.stages, own) for outcome, own in zip(outcomes, forms, strict=True)]
    return Convergence(worst.status, *total).after([stage for part in stages for stage in part])


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
    stage: str = "optimise"  # what a callback is told is going on
    warns: bool = True  # whether an end without convergence is a warning
    stall: str = "Usually harmless: rounding. Scale down very large feature values if accuracy is poor."


def optimise(
    objective: Objective, start: Array, plan: TrainingPlan, watch: Watch, began: float
) -> tuple[Array, Convergence]:
    """Weights that minimise the objective, or score best on held-out data, and how it went."""
    found = minimise(
        objective,
        start,
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
    seconds = time.perf_counter() - began
    stage = Stage.of(
        plan.stage, found.status, seconds, watch.objectives, watch.losses, watch.dev_scores, watch.best_iteration
    )
    convergence = Convergence(
        found.status,
        found.objective,
        found.iterations,
        found.evaluations,
        seconds,
        watch.dev_scores,
        watch.best_iteration,
        (stage,),
    )
    log.info("training %s", convergence)
    if plan.warns:
        warn_unless_converged(convergence, plan.stall)
    return best, convergence


def warn_unless_converged(convergence: Convergence, stall: str = TrainingPlan.stall) -> None:
    """`stall`: what to say where no step lowers the objective."""
    if convergence.status in ("limit", "stalled"):
        remedy = "Raise max_iterations or tolerance." if convergence.status == "limit" else stall
        message = f"training {convergence}. {remedy}"
        warn(message, ConvergenceWarning)


class Watch:
    """Tells the callback, scores the held-out data, and remembers the best weights."""

    def __init__(
        self,
        shape: Shape,
        plan: TrainingPlan,
        score_dev: Callable[[Any], float] | None,
        callback: Callback | None,
        began: float,
    ) -> None:
        self._shape, self._plan, self._score, self._callback = shape, plan, score_dev, callback
        self._began = began
        self.passes = 0  # how many the warm start has at most
        self.losses: list[float] = []  # of each of them
        self.objectives: list[tuple[int, float]] = []  # after each iteration
        self.dev_scores: dict[int, float] = {}
        self.best_iteration: int | None = None
        self.best_weights: Array | None = None
        self.stopped = False  # the callback said so

    def after_pass(self, number: int, loss: float) -> bool:
        self.losses.append(loss)
        return self._tell("warm start", number, self.passes, loss, None)

    def after_iteration(self, iteration: Iteration) -> bool:
        n = iteration.number
        self.objectives.append((n, iteration.objective))
        score = self.score(n, iteration.weights) if n % self._plan.dev_every == 0 else None
        stop = self._tell(self._plan.stage, n, self._plan.max_iterations, iteration.objective, score)
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
