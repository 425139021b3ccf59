"""From an objective to weights: L-BFGS, watched on held-out data, with an honest word at the end."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.settings import NOT_NEGATIVE, Settings, setting, whole
from kinfolk.errors import ConvergenceWarning, warn

# -- How training went, iteration by iteration: curves short enough to be kept in a model file ---------

MOST = 200  # points kept of a curve: more cannot be distinguished on a screen
STATUSES = ("converged", "stopped", "stalled", "limit")  # from the best end of training to the worst
Points = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Stage:
    """One stage of training. Curves are points (iteration, value), thinned to MOST of them, first and last kept."""

    name: str
    status: str
    seconds: float
    objective: Points = ()  # what is minimised, after each iteration
    warm: tuple[float, ...] = ()  # the loss met in each stochastic pass before them
    held_out: Points = ()  # scores from 0 to 1
    best: int | None = None  # the iteration whose weights were kept for their held-out score

    @classmethod
    def of(
        cls, name: str, status: str, seconds: float, objective: Sequence[tuple[int, float]],
        warm: Sequence[float] = (), held_out: Mapping[int, float] | None = None, best: int | None = None,
    ) -> Stage:  # fmt: skip
        """From curves of any length."""
        scores = [] if held_out is None else list(held_out.items())
        curves = [tuple((i, _short(y)) for i, y in thinned(points, best)) for points in (objective, scores)]
        return cls(name, status, _short(seconds), curves[0], tuple(map(_short, warm)), curves[1], best)

    def for_file(self) -> dict[str, Any]:
        """As JSON can hold it; a curve is two lists side by side."""
        curves = {
            name: [list(column) for column in zip(*points, strict=True)]
            for name, points in (("objective", self.objective), ("held_out", self.held_out))
        }
        ended = {"name": self.name, "status": self.status, "seconds": self.seconds}
        return {**ended, **curves, "warm": list(self.warm), "best": self.best}

    @classmethod
    def from_file(cls, kept: Mapping[str, Any]) -> Stage:
        """The stage again; whatever does not look like one is a ValueError."""
        curves = {name: _points(kept[name]) for name in ("objective", "held_out")}
        if kept["status"] not in STATUSES:
            raise ValueError(f"expected one of {', '.join(STATUSES)}; got {kept['status']!r}")
        best = None if kept["best"] is None else int(kept["best"])
        warm = tuple(float(loss) for loss in kept["warm"])
        return cls(str(kept["name"]), kept["status"], float(kept["seconds"]), warm=warm, best=best, **curves)


def thinned(points: Sequence[tuple[int, float]], keep: int | None = None) -> Points:
    """At most MOST points of a curve, evenly; the first, the last and that of iteration `keep` are among them."""
    n = len(points)
    chosen = set(np.linspace(0, n - 1, min(n, MOST - 1)).round().astype(int).tolist())
    chosen |= {i for i, (iteration, _) in enumerate(points) if iteration == keep}
    return tuple((int(points[i][0]), float(points[i][1])) for i in sorted(chosen))


def renamed(stages: Iterable[Stage], form: str) -> tuple[Stage, ...]:
    """The stages with names of the given form, as "forward: {}"."""
    return tuple(replace(stage, name=form.replace("{}", stage.name)) for stage in stages)


def _points(columns: Any) -> Points:
    if not columns:
        return ()
    iterations, values = columns
    return tuple((int(i), float(v)) for i, v in zip(iterations, values, strict=True))


def _short(value: float) -> float:
    """Eight significant digits: curves are looked at."""
    return float(f"{value:.8g}") if math.isfinite(value) else 0.0


# -- training --------------------------------------------------------------------------------------

log = logging.getLogger("kinfolk")
Array = NDArray[Any]


@dataclass(frozen=True)
class Progress:
    """What a callback receives; it may return True to stop training with what there is."""

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

    `stages` have how it went, iteration by iteration; a model file keeps them, with at most 200 points of each curve.
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
    def from_file(cls, kept: Mapping[str, Any]) -> Convergence:
        """From what a model file keeps; older files have no curves."""
        scores = {int(iteration): float(score) for iteration, score in kept.get("dev_scores", ())}
        stages = tuple(Stage.from_file(stage) for stage in kept.get("stages", ()))
        return cls(**{**kept, "dev_scores": scores, "stages": stages})

    def after(self, stages: Sequence[Stage]) -> Convergence:
        """The same with what went before it."""
        return replace(self, stages=(*stages, *self.stages))

    def early(self) -> Convergence:
        """The same where the tolerance was meant to end training before the optimum."""
        return replace(self, status="stopped") if self.status == "converged" else self

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


USUAL = 1.5e-4  # tolerance, where an optimiser is to run and nothing else is said


@dataclass(kw_only=True, eq=False, repr=False)
class Optimised(Settings):
    """Abstract: a model whose weights an optimiser finds."""

    l2: float = setting(0.1, "strength of the ridge, l2/2 · |w|²", NOT_NEGATIVE)
    l1: float = setting(0.0, "strength of the lasso, l1 · |w|₁", NOT_NEGATIVE)
    class_weight: Mapping[Any, float] | str | None = setting(None, 'label or entity type -> weight, or "balanced"')
    max_iterations: int = setting(300, "limit of optimiser iterations", whole(1))
    tolerance: float = setting(USUAL, "stop when 5 iterations lowered the objective by less, relative", NOT_NEGATIVE)
    patience: int = setting(5, "held-out scores without a new best before stopping", whole(1))
    dev_every: int = setting(5, "iterations from one held-out score to the next", whole(1))


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
    stage: str = "optimise"  # its name in what a callback receives
    dense_l2: float | None = None  # the ridge on weights of dense columns; None: l2
    early: bool = False  # whether a few stochastic passes are all, where they can be
    passes: int | None = None  # how many, of a model whose like was trained by passes alone; None: as many as usual
    memory: int = 3  # steps that the optimiser remembers
    first: float = 1.0  # the first step of the optimiser, as a share of what its curvature promises
    lengthening: float = math.inf  # so many times the last step is the longest that is tried next
    by_held_out: bool = True  # whether held-out scores end training and choose the weights; else they are kept, no more
    warns: bool = True  # whether an end without convergence is a warning
    stall: str = "Usually harmless: rounding. Scale down very large feature values if accuracy is poor."

    @classmethod
    def of(cls, model: Any, n_jobs: int, stage: str = "optimise") -> TrainingPlan:
        """By the settings of a model."""
        tolerance = USUAL if isinstance(model.tolerance, str) else float(model.tolerance)
        limits = (model.max_iterations, tolerance, model.patience, model.dev_every)
        return cls(float(model.l2), float(model.l1), *limits, model.random_state, n_jobs, stage)


def warn_unless_converged(convergence: Convergence, stall: str = TrainingPlan.stall) -> None:
    """`stall`: what to say where no step lowers the objective."""
    if convergence.status in ("limit", "stalled"):
        remedy = "Raise `max_iterations` or `tolerance`." if convergence.status == "limit" else stall
        warn(f"training {convergence}. {remedy}", ConvergenceWarning)


# -- Progress where somebody is looking: a bar on a terminal, a line written over in a notebook, nothing in a pipe ---
#
# Objective, held-out score, time, and an honest guess at the rest.

WINDOW = 5  # iterations between the objectives that the tolerance compares
SECONDS = 0.5  # between two states of a notebook's line: each travels to the browser


def looking() -> str | None:
    """Who sees the standard error: a "terminal", a "notebook", or None: nobody right now."""
    stream = sys.stderr
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if stream is not None and (type(stream).__module__.split(".")[0] == "ipykernel" or hasattr(shell, "kernel")):
        return "notebook"
    try:
        return "terminal" if stream.isatty() else None
    except (AttributeError, ValueError):  # there is none, or it is closed
        return None


def speaker(verbose: int) -> Callable[[str], None]:
    """Writes a line: to the logger and, if `verbose`, to whom is looking."""
    if not verbose or looking() is None or log.isEnabledFor(logging.INFO):
        return log.info if verbose else log.debug

    def write(line: str) -> None:
        log.info(line)
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    return write


@contextmanager
def observed(callback: Callback | None, verbose: int, tolerance: float) -> Iterator[UntilStopped | None]:
    """The user's callback and, if `verbose` and somebody is looking, progress that is kept up to date. Once stopped,
    training is stopped, however many stages it has."""
    place = looking() if verbose else None
    if place is None:
        yield None if callback is None else UntilStopped(callback)
        return
    with _bar() if place == "terminal" else _line() as show:
        remaining, description = RemainingTime(tolerance), Description()

        def watch(progress: Progress) -> bool | None:
            show(description(progress), progress.seconds, remaining(progress))
            return None if callback is None else callback(progress)

        yield UntilStopped(watch)


Show = Callable[[str, float, float | None], None]  # what, seconds so far, seconds left


@contextmanager
def _bar() -> Iterator[Show]:
    """Of a terminal; it goes away at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    named, left_over = TextColumn("{task.description}"), TextColumn("{task.fields[eta]}")
    with Bar(
        named, BarColumn(bar_width=24), TimeElapsedColumn(), left_over, console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("training", total=1.0, eta="")

        def show(what: str, seconds: float, left: float | None) -> None:
            share = None if left is None else seconds / max(seconds + left, 1e-9)
            bar.update(task, description=what, completed=share, eta=_eta(left))

        yield show


@contextmanager
def _line() -> Iterator[Show]:
    """Of a notebook: a carriage return writes over what is there; the last state stays."""
    stream: Any = sys.stderr
    shown, newest, at = "", "", -math.inf

    def write(text: str) -> None:
        nonlocal shown, at
        stream.write("\r" + text.ljust(len(shown)))
        stream.flush()
        shown, at = text, time.monotonic()

    def show(what: str, seconds: float, left: float | None) -> None:
        nonlocal newest
        newest = " · ".join(filter(None, [what, f"{seconds:.1f} s", _eta(left)]))
        if time.monotonic() - at >= SECONDS:
            write(newest)

    try:
        yield show
    finally:
        if newest:
            write(newest)
            stream.write("\n")
            stream.flush()


def _eta(left: float | None) -> str:
    return "" if left is None else f"about {left:.0f} s left"


class Description:
    """`optimise 12 · objective 2436.5 · held-out score 89.31`; the held-out score stays until the next one."""

    def __init__(self) -> None:
        self._score: float | None = None

    def __call__(self, progress: Progress) -> str:
        self._score = self._score if progress.dev_score is None else progress.dev_score
        parts = [f"{progress.stage} {progress.iteration}", f"objective {progress.objective:.6g}"]
        if self._score is not None:
            parts.append(f"held-out score {100 * self._score:.2f}")
        return " · ".join(parts)


class RemainingTime:
    """Seconds until the tolerance is met, from how fast the improvements shrink; None while that is not known.

    Improvements of a converging run fall geometrically: with d₁ > d₂ over the last two windows, `tolerance`
    is met after log(tolerance / d₂) / log(d₂ / d₁) more windows, unless the iteration limit comes first.
    """

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._history: list[tuple[float, float]] = []

    def __call__(self, progress: Progress) -> float | None:
        if progress.stage != "optimise":
            return None
        self._history.append((progress.objective, progress.seconds))
        if len(self._history) <= 2 * WINDOW or self._tolerance <= 0:
            return None
        (a, _), (b, then), (c, now) = (self._history[-1 - i * WINDOW] for i in (2, 1, 0))
        first, last = (a - b) / abs(c or 1), (b - c) / abs(c or 1)
        if not 0 < last < first:
            return None
        windows = max(0.0, math.log(self._tolerance / last) / math.log(last / first))
        return min(windows, (progress.limit - progress.iteration) / WINDOW) * (now - then)
