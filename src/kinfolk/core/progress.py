"""Progress of training, where somebody is looking: a bar on a terminal, a line that is written over in a notebook, and
nothing in a pipe. Objective, held-out score, time, and an honest guess at the rest."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kinfolk.core.training import Callback, Progress, UntilStopped

log = logging.getLogger("kinfolk")
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
    """Tells a line: to the logger and, if `verbose`, to whom is looking."""
    if not verbose or looking() is None or log.isEnabledFor(logging.INFO):
        return log.info if verbose else log.debug

    def tell(line: str) -> None:
        log.info(line)
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    return tell


@contextmanager
def observed(callback: Callback | None, verbose: int, tolerance: float) -> Iterator[UntilStopped | None]:
    """The user's callback and, if `verbose` and somebody is looking, progress that is kept up to date. Once stopped,
    training is stopped, however many stages it has."""
    place = looking() if verbose else None
    if place is None:
        yield None if callback is None else UntilStopped(callback)
        return
    with _bar() if place == "terminal" else _line() as show:
        remaining, told = RemainingTime(tolerance), Description()

        def watch(progress: Progress) -> bool | None:
            show(told(progress), progress.seconds, remaining(progress))
            return None if callback is None else callback(progress)

        yield UntilStopped(watch)


Show = Callable[[str, float, float | None], None]  # what, seconds so far, seconds left


@contextmanager
def _bar() -> Iterator[Show]:
    """Of a terminal; it goes away at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[eta]}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
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
    """Seconds until the tolerance is met, from how fast the improvements shrink; None while that cannot be told.

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
