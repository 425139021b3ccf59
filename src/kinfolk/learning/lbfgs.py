"""Limited-memory BFGS with a diagonal start, and its L1 form (OWL-QN), lean enough for millions of weights.

The usual two-loop recursion runs over the memory 4m times. Here every direction is a combination

    d = Σ a_i s_i + H (Σ b_i y_i + c g),         H = diag(1 / curvature)

of the last m steps s_i, gradient changes y_i and the gradient g, so one pass takes all inner products, the
recursion runs on (2m + 1)² numbers, and one pass writes d (Chen, Wang and Zhou, 2014: vector-free L-BFGS).
H comes from the objective's own curvature where it is known: features range from one occurrence to every
token, and H evens that out. OWL-QN: Andrew and Gao, 2007.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.checkpoint import ALONE, running
from kinfolk.core.checkpoint import Step as Kept
from kinfolk.core.kernels import FAST, njit
from kinfolk.core.threads import run_chunks
from kinfolk.core.training import (
    Callback,
    Convergence,
    Progress,
    Stage,
    TrainingPlan,
    UntilStopped,
    warn_unless_converged,
)
from kinfolk.errors import InputError

# -- Passes over long vectors: inner products and combinations, in fixed chunks, on threads ------------
#
# Sums are taken chunk by chunk in float64 and added in chunk order: the same for every `n_jobs`. Within a
# chunk the kernels go block by block, so what is combined stays in cache.

Vector = NDArray[Any]
Table = NDArray[Any]  # (m, n): m vectors
CHUNKS = 32
BLOCK = 2048


class Pairs(NamedTuple):
    """The last m steps s and gradient changes y, (m, n) each, and the diagonal H (n,)."""

    steps: Table
    changes: Table
    inverse: Vector


@njit(nogil=True, cache=True, fastmath=FAST)
def _block_dot(a, b, begin, end):
    """Inner product over one block, in the precision of the vectors: blocks are short, their sum is float64."""
    total = a.dtype.type(0)
    for i in range(begin, end):
        total += a[i] * b[i]
    return np.float64(total)


@njit(nogil=True, cache=True, fastmath=FAST)
def _dots(table, vector, first, last, sums):
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        for j in range(len(table)):
            sums[j] += _block_dot(table[j], vector, begin, end)


@njit(nogil=True, cache=True, fastmath=FAST)
def _products(pairs, vector, other, first, last, sums):
    """sums[0, j] = steps_j · vector, sums[1, j] = changes_j · other, sums[2, j] = changes_j · inverse vector."""
    steps, changes, inverse = pairs
    weighted = np.empty(BLOCK, vector.dtype)
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        for i in range(begin, end):
            weighted[i - begin] = inverse[i] * vector[i]
        for j in range(len(steps)):
            sums[0, j] += _block_dot(steps[j], vector, begin, end)
            if len(other):
                sums[1, j] += _block_dot(changes[j], other, begin, end)
            sums[2, j] += _block_dot(changes[j, begin:end], weighted, 0, end - begin)


@njit(nogil=True, cache=True, fastmath=FAST)
def _combine(pairs, weights, gradient, first, last, out):
    steps, changes, inverse = pairs
    on_steps, on_changes, on_gradient = weights
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        for i in range(begin, end):
            out[i] = on_gradient * gradient[i]
        for j in range(len(changes)):
            for i in range(begin, end):
                out[i] += on_changes[j] * changes[j, i]
        for i in range(begin, end):
            out[i] *= inverse[i]
        for j in range(len(steps)):
            for i in range(begin, end):
                out[i] += on_steps[j] * steps[j, i]


@njit(nogil=True, cache=True, fastmath=FAST)
def _linear(a, scale, b, first, last, out):
    for i in range(first, last):
        out[i] = a[i] + scale * b[i]


def _over_chunks(task: Callable[[int, int], Any], n: int, n_jobs: int) -> list[Any]:
    bounds = np.linspace(0, n, CHUNKS + 1).astype(np.int64)
    return run_chunks(lambda c: task(bounds[c], bounds[c + 1]), CHUNKS, n_jobs)


def _over_elements(task: Callable[[int, int], Any], n: int, n_jobs: int) -> None:
    """Where no element depends on another there is nothing to add up, and one thread has no need of chunks."""
    if n_jobs <= 1 or n <= BLOCK:
        task(0, n)
    else:
        _over_chunks(task, n, n_jobs)


def dot(a: Vector, b: Vector, n_jobs: int) -> float:
    def part(first: int, last: int) -> float:
        sums = np.zeros(1)
        _dots(a[None], b, first, last, sums)
        return float(sums[0])

    return float(sum(_over_chunks(part, len(a), n_jobs)))


def products(pairs: Pairs, vector: Vector, other: Vector | None, n_jobs: int) -> NDArray[np.float64]:
    """In one pass (3, m): steps_j · vector, changes_j · other (0 without), changes_j · inverse vector."""
    by, m = np.empty(0, vector.dtype) if other is None else other, len(pairs.steps)

    def part(first: int, last: int) -> NDArray[np.float64]:
        sums = np.zeros((3, m))
        _products(pairs, vector, by, first, last, sums)
        return sums

    return np.asarray(sum(_over_chunks(part, len(vector), n_jobs), np.zeros((3, m))))


def linear(a: Vector, scale: float, b: Vector, n_jobs: int, out: Vector | None = None) -> Vector:
    """a + scale · b."""
    result = np.empty_like(a) if out is None else out
    number = a.dtype.type(scale)
    _over_elements(lambda first, last: _linear(a, number, b, first, last, result), len(a), n_jobs)
    return result


def combine(
    pairs: Pairs, on_steps: Vector, on_changes: Vector, on_gradient: float, gradient: Vector, n_jobs: int, out: Vector
) -> Vector:
    """out = Σ on_steps_j steps_j + inverse · (Σ on_changes_j changes_j + on_gradient · gradient)."""
    kind = gradient.dtype
    weights = on_steps.astype(kind), on_changes.astype(kind), kind.type(on_gradient)
    _over_elements(lambda first, last: _combine(pairs, weights, gradient, first, last, out), len(out), n_jobs)
    return out


def absolute_sum(vector: Vector) -> float:
    return float(np.abs(vector).sum(dtype=np.float64))


def pseudo_gradient(at: Vector, gradient: Vector, l1: float) -> Vector:
    """The steepest slope of f + l1 |w|₁: at zero, the nearer one-sided slope, or 0 if neither descends."""
    l1 = gradient.dtype.type(l1)
    shrunk = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0)
    return np.where(at == 0, shrunk, gradient + l1 * np.sign(at))


def keep_descent(direction: Vector, slope: Vector) -> None:
    """Zero the parts of a direction that do not go down the slope."""
    direction[direction * slope >= 0] = 0


# -- lbfgs -----------------------------------------------------------------------------------------

# loss_and_gradient(weights, gradient_out) -> loss; the smooth part of the objective, ridge included
Objective = Callable[[Vector, Vector], float]

SUFFICIENT_DECREASE = 1e-4
MAX_BACKTRACKS = 30
NEGLIGIBLE = 1e-3  # share of the tolerance
REFRESH = (5, 10, 20)  # iterations after which the curvature is taken anew: the start was far from the optimum


@dataclass(frozen=True)
class Iteration:
    """What a callback receives after each accepted step. `weights` is used again: copy it to keep it."""

    number: int
    objective: float
    gradient_norm: float
    step: float
    evaluations: int
    weights: Vector


@dataclass(frozen=True)
class Minimum:
    """Where the search ended and why. `status` is one of the words below.

    converged   the objective fell by less than the tolerance over the last `window` iterations,
                or the gradient is as good as zero
    limit       the iteration limit came first
    stopped     the callback asked to stop
    stalled     no step along the direction lowers the objective (rounding, or a faulty objective)
    """

    weights: Vector
    objective: float
    iterations: int
    evaluations: int
    status: str


class Memory:
    """The last m steps s and gradient changes y, oldest first, with their inner products."""

    def __init__(self, size: int, like: Vector) -> None:
        self._steps = np.empty((size, len(like)), like.dtype)
        self._changes = np.empty((size, len(like)), like.dtype)
        self.filled = 0
        self.step_change = np.zeros((size, size))  # s_i · y_j, by slot
        self.change_change = np.zeros((size, size))  # y_i · H y_j
        self._age = np.zeros(size, np.int64)
        self._clock = 0

    def forget(self) -> None:
        self.filled = 0

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        pairs = {"steps": self._steps[: self.filled], "changes": self._changes[: self.filled]}
        products = {"step_change": self.step_change, "change_change": self.change_change}
        return {**pairs, **products, "age": self._age, "clock": self._clock}

    def restore(self, kept: Mapping[str, Any]) -> None:
        self.filled = len(kept["steps"])
        self._steps[: self.filled], self._changes[: self.filled] = kept["steps"], kept["changes"]
        self.step_change, self.change_change = kept["step_change"], kept["change_change"]
        self._age, self._clock = kept["age"], kept["clock"]

    def pairs(self, inverse: Vector) -> Pairs:
        return Pairs(self._steps[: self.filled], self._changes[: self.filled], inverse)

    def add(
        self, after: Vector, before: Vector, gradient: Vector, old_gradient: Vector, inverse: Vector, n_jobs: int
    ) -> None:
        """Keep a pair if it has positive curvature s · y > 0, in the place of the oldest when full."""
        slot = self.filled if self.filled < len(self._steps) else int(self._age.argmin())
        step, change = self._steps[slot], self._changes[slot]
        linear(after, -1, before, n_jobs, out=step)
        linear(gradient, -1, old_gradient, n_jobs, out=change)
        if not dot(step, change, n_jobs) > 0:
            if slot < self.filled:  # what stood in the slot is overwritten
                self.forget()
            return
        self.filled = max(self.filled, slot + 1)
        self._clock += 1
        self._age[slot] = self._clock
        m = self.filled
        found = products(self.pairs(inverse), change, step, n_jobs)
        self.step_change[:m, slot], self.step_change[slot, :m] = found[:2]
        self.change_change[:m, slot] = self.change_change[slot, :m] = found[2]

    def weigh_anew(self, inverse: Vector, n_jobs: int) -> None:
        """Take the inner products y_i · H y_j for another H."""
        pairs = self.pairs(inverse)
        for slot in range(self.filled):
            self.change_change[: self.filled, slot] = products(pairs, pairs.changes[slot], None, n_jobs)[2]

    def direction(self, gradient: Vector, inverse: Vector, n_jobs: int, out: Vector) -> Vector:
        """-(approximate inverse Hessian) · gradient, by the two-loop recursion on coefficients."""
        m, pairs = self.filled, self.pairs(inverse)
        order = np.argsort(self._age[:m])  # oldest first
        sy, yy = self.step_change, self.change_change
        sg, _, yg = products(pairs, gradient, None, n_jobs)  # s_i · g, y_i · H g
        on_change, on_step, alpha = np.zeros(m), np.zeros(m), np.zeros(m)
        for i in order[::-1]:  # q = g + Σ on_change_j y_j
            alpha[i] = (sg[i] + sy[i, :m] @ on_change) / sy[i, i]
            on_change[i] -= alpha[i]
        scale = sy[order[-1], order[-1]] / yy[order[-1], order[-1]] if m else 1.0
        on_change *= scale
        for i in order:  # r = scale · H q + Σ on_step_j s_j
            projected = scale * yg[i] + yy[i, :m] @ on_change + on_step @ sy[:m, i]
            on_step[i] += alpha[i] - projected / sy[i, i]
        return combine(pairs, -on_step, -on_change, -scale, gradient, n_jobs, out)


def minimise(
    objective: Objective,
    weights: Vector,
    *,
    inverse_curvature: Callable[[], Vector] | None = None,
    l1: float = 0.0,
    max_iterations: int = 1000,
    tolerance: float = 1e-5,
    window: int = 5,
    memory: int = 3,
    first: float = 1.0,
    lengthening: float = math.inf,
    callback: Callable[[Iteration], bool | None] | None = None,
    n_jobs: int = 1,
    step: Kept = ALONE,
) -> Minimum:
    """Minimise objective(w) + l1 · |w|₁ from `weights` (left untouched).

    `inverse_curvature()` gives the diagonal H where the objective was just evaluated: at the start, and after
    the iterations of REFRESH. A memory of 3 pairs does as well as a longer one with it, at half the cost.
    `first`: the share of the first step that is tried first.

    Stops when the objective has fallen by less than `tolerance`, relative, over `window` iterations
    (a mean per iteration below tolerance / window cannot be noise of one lucky step).
    `lengthening`: for objectives that jump further out. So many times the last step is the longest that is tried, and
    steps that promise next to nothing are not: where the last one gained little, too, that is the end.
    `callback` may return True to stop. `step`: that of a checkpoint, which the search goes on from.
    """
    if step.finished:
        return Minimum(**step.kept)
    # Vectors are long: two points, two gradients and a direction are allocated once and take turns.
    points, gradients = np.empty((2, len(weights)), weights.dtype), np.empty((2, len(weights)), weights.dtype)
    direction = np.empty_like(weights)
    pairs = Memory(memory, weights)
    kept = step.kept
    if kept is None:
        at, gradient, done = weights, gradients[0], 0
        value = objective(at, gradient) + l1 * absolute_sum(at)
        inverse = np.ones_like(at) if inverse_curvature is None else inverse_curvature()
        if not math.isfinite(value):
            raise InputError(
                "the objective of training must be finite where it starts; it is not. Look for huge features and "
                "weights, and scale them down"
            )
        history, evaluations, length = [value], 1, math.inf
    else:
        done, evaluations, history, inverse = (kept[name] for name in ("number", "evaluations", "history", "inverse"))
        length = kept["length"]
        at, gradient, value = points[done % 2], gradients[done % 2], history[-1]
        at[:], gradient[:] = kept["at"], kept["gradient"]
        pairs.restore(kept["pairs"])
    del weights, kept  # so that they can go once `at` has moved on
    for number in range(done + 1, max_iterations + 1):
        slope = pseudo_gradient(at, gradient, l1) if l1 else gradient
        norm = math.sqrt(dot(slope, slope, n_jobs))
        if norm <= 1e-12 * max(1.0, abs(value)):
            return _ended(step, at, value, number - 1, evaluations, "converged")
        turn = number % 2
        search = _LineSearch(objective, at, value, slope, l1, n_jobs, points[turn], gradients[turn])
        if lengthening < math.inf:
            search.least = NEGLIGIBLE * tolerance * abs(value)
        first_step = 1.0 if pairs.filled or inverse_curvature is not None else min(1.0, 1.0 / norm)
        first_step *= first if number == 1 else 1.0
        first_step = min(first_step, lengthening * length)
        found = search.along(pairs.direction(slope, inverse, n_jobs, direction), first_step)
        if not found and pairs.filled:  # the memory may mislead: once more along the plain gradient
            pairs.forget()
            found = search.along(pairs.direction(slope, inverse, n_jobs, direction), min(1.0, 1.0 / norm))
        evaluations += search.evaluations
        if not found:
            fell = history[-2] - value if len(history) > 1 else math.inf
            little = search.gave_up and min(search.promised, fell) <= tolerance * abs(value)
            return _ended(step, at, value, number - 1, evaluations, "converged" if little else "stalled")
        before, old_gradient = at, gradient
        at, gradient, value, length = search.at, search.gradient, search.value, search.step
        history.append(value)
        last = len(history) > window and history[-1 - window] - value <= tolerance * abs(value)
        if not last:
            pairs.add(at, before, gradient, old_gradient, inverse, n_jobs)
            if inverse_curvature is not None and number in REFRESH:
                del inverse  # one long vector less while the new one is made
                inverse = inverse_curvature()
                pairs.weigh_anew(inverse, n_jobs)
        del before, old_gradient
        if callback and callback(Iteration(number, value, norm, search.step, evaluations, at)):
            return _ended(step, at, value, number, evaluations, "stopped")
        if last:
            return _ended(step, at, value, number, evaluations, "converged")
        step.keep(_standing, at, gradient, inverse, pairs, number, evaluations, history[-1 - window :], length)
    return _ended(step, at, value, max_iterations, evaluations, "limit")


def _standing(
    at: Vector, gradient: Vector, inverse: Vector, pairs: Memory, number: int, evaluations: int, history: list[float],
    length: float,
) -> dict[str, Any]:  # fmt: skip
    """Where a search stands after an iteration, as a checkpoint keeps it: all that the next one looks at."""
    counted = {"number": number, "evaluations": evaluations, "history": history, "length": length}
    return {"at": at, "gradient": gradient, "inverse": inverse, "pairs": pairs.state(), **counted}


def _ended(step: Kept, *found: Any) -> Minimum:
    minimum = Minimum(*found)
    step.finish(vars(minimum))
    return minimum


class _LineSearch:
    """Halve the step until the objective falls by a share of what the slope promises (Armijo)."""

    def __init__(
        self, objective: Objective, at: Vector, value: float, slope: Vector, l1: float, n_jobs: int,
        point: Vector, gradient: Vector,
    ) -> None:  # fmt: skip
        """From `at`; the point found and its gradient are written to `point` and `gradient`."""
        self._objective, self._from, self._value, self._slope = objective, at, value, slope
        self._l1, self._n_jobs = l1, n_jobs
        self.at, self.gradient = point, gradient
        self.value, self.step, self.evaluations = value, 0.0, 0
        self.least, self.gave_up = 0.0, False  # what promises to gain less is not tried; whether that was so
        self.promised = math.inf  # what the first step promised to gain

    def along(self, direction: Vector, step: float) -> bool:
        """True if a point was found; it then stands in at, value, gradient, step."""
        if self._l1:
            keep_descent(direction, self._slope)
            orthant = np.sign(np.where(self._from != 0, self._from, -self._slope))
        promised = dot(direction, self._slope, self._n_jobs)
        if not promised < 0:  # rounding in the memory: this way leads nowhere, or up
            return False
        for tried in range(MAX_BACKTRACKS):
            linear(self._from, step, direction, self._n_jobs, out=self.at)
            gain = step * promised
            if self._l1:
                self.at[self.at * orthant <= 0] = 0  # a step may not cross zero: the L1 slope flips there
                gain = dot(self.at - self._from, self._slope, self._n_jobs)
            if tried == 0:
                self.promised = -gain
            self.value = self._objective(self.at, self.gradient) + self._l1 * absolute_sum(self.at)
            self.evaluations += 1
            if self.value <= self._value + SUFFICIENT_DECREASE * gain:
                self.step = step
                return True
            step *= 0.5 if tried < 5 else 0.1
            if tried >= 5 and -gain < self.least:  # the objective jumps here, or there is nothing to gain
                self.gave_up = True
                return False
        return False


log = logging.getLogger("kinfolk")

# -- under watch: held-out data, callbacks, and an honest word at the end --------------------------------


class Shape(Protocol):
    """How a flat vector of weights falls apart."""

    def split(self, flat: Vector) -> Any: ...


class WithCurvature(Protocol):
    """A smooth objective with an estimate of its curvature."""

    def __call__(self, flat: Vector, gradient: Vector) -> float: ...

    def inverse_curvature(self) -> Vector: ...


def optimise(
    objective: WithCurvature, start: Vector, plan: TrainingPlan, watch: Watch, began: float
) -> tuple[Vector, Convergence]:
    """Weights that minimise the objective, or score best on held-out data, and how it went."""
    step = running().step(plan.stage, start)
    step.beside("watch", watch.state, watch.restore)
    found = minimise(
        objective,
        start,
        inverse_curvature=objective.inverse_curvature,
        memory=plan.memory,
        l1=plan.l1,
        max_iterations=0 if watch.stopped else plan.max_iterations,
        tolerance=plan.tolerance,
        first=plan.first,
        lengthening=plan.lengthening,
        callback=watch.after_iteration,
        n_jobs=plan.n_jobs,
        step=step,
    )
    return watch.finished(found, began)


class Watch:
    """Reports to the callback, scores the held-out data, and remembers the best weights."""

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
        self.best_weights: Vector | None = None
        self.stopped = False  # the callback said so
        self._before = 0.0  # seconds, in a run that was stopped

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        best = {"best_iteration": self.best_iteration, "best_weights": self.best_weights}
        curves = {"losses": self.losses, "objectives": self.objectives, "dev_scores": [*self.dev_scores.items()]}
        return {**best, **curves, "stopped": self.stopped, "seconds": self._seconds(self._began)}

    def restore(self, kept: Mapping[str, Any]) -> None:
        self.best_iteration, self.best_weights = kept["best_iteration"], kept["best_weights"]
        self.losses, self.objectives = kept["losses"], [(number, value) for number, value in kept["objectives"]]
        self.dev_scores, self.stopped = dict(kept["dev_scores"]), kept["stopped"]
        self._before = kept["seconds"]
        if self.stopped and isinstance(self._callback, UntilStopped):
            self._callback.stopped = True

    def _seconds(self, began: float) -> float:
        return self._before + time.perf_counter() - began

    def after_pass(self, number: int, loss: float) -> bool:
        self.losses.append(loss)
        return self._report("warm start", number, self.passes, loss, None)

    def after_iteration(self, iteration: Iteration) -> bool:
        n = iteration.number
        self.objectives.append((n, iteration.objective))
        score = self.score(n, iteration.weights) if n % self._plan.dev_every == 0 else None
        stop = self._report(self._plan.stage, n, self._plan.max_iterations, iteration.objective, score)
        return stop or self._out_of_patience(n)

    def score(self, n: int, weights: Vector) -> float | None:
        """Score the held-out data, if there is any and these weights are new; the best weights are kept."""
        if self._score is None or n in self.dev_scores:
            return None
        score = self.dev_scores[n] = self._score(self._shape.split(weights))
        if not self._plan.by_held_out:
            return score
        if self.best_iteration is None or score > self.dev_scores[self.best_iteration]:
            self.best_iteration, self.best_weights = n, weights.copy()
        return score

    def finished(self, found: Minimum, began: float) -> tuple[Vector, Convergence]:
        """The weights to keep, those found or the best on held-out data, and how it went."""
        if self.stopped:  # perhaps before the first iteration
            found = replace(found, status="stopped")
        self.score(found.iterations, found.weights)  # the last weights may be the best
        best = found.weights.copy() if self.best_weights is None else self.best_weights
        seconds, scores, number = self._seconds(began), self.dev_scores, self.best_iteration
        stage = Stage.of(self._plan.stage, found.status, seconds, self.objectives, self.losses, scores, number)
        ended = (found.status, found.objective, found.iterations, found.evaluations)
        convergence = Convergence(*ended, seconds, scores, number, (stage,))
        log.info("training %s", convergence)
        if self._plan.warns:
            warn_unless_converged(convergence, self._plan.stall)
        return best, convergence

    def _out_of_patience(self, n: int) -> bool:
        if self.best_iteration is None:
            return False
        return n - self.best_iteration >= self._plan.patience * self._plan.dev_every

    def _report(self, stage: str, n: int, limit: int, objective: float, score: float | None) -> bool:
        seconds = self._seconds(self._began)
        log.debug("%s %d: objective %.6g, %.2f s, held-out %s", stage, n, objective, seconds, score)
        if self._callback is None:
            return False
        self.stopped = bool(self._callback(Progress(stage, n, limit, objective, seconds, score)))
        return self.stopped
