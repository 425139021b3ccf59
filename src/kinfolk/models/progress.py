"""A progress bar of training on a terminal: objective, held-out score, time, and an honest guess at the rest."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kinfolk.models.optimise import Callback, Progress, UntilStopped

WINDOW = 5  # iterations between the objectives that the tolerance compares


@contextmanager
def observed(callback: Callback | None, verbose: int, tolerance: float) -> Iterator[UntilStopped | None]:
    """The user's callback and, if `verbose` and on a terminal, a bar that is kept up to date. Once stopped, training
    is stopped, however many stages it has."""
    if not verbose or not sys.stderr.isatty():
        yield None if callback is None else UntilStopped(callback)
        return
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
        remaining, told = RemainingTime(tolerance), Description()

        def watch(progress: Progress) -> bool | None:
            left = remaining(progress)
            share = None if left is None else progress.seconds / max(progress.seconds + left, 1e-9)
            eta = "" if left is None else f"about {left:.0f} s left"
            bar.update(task, description=told(progress), completed=share, eta=eta)
            return None if callback is None else callback(progress)

        yield UntilStopped(watch)


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
