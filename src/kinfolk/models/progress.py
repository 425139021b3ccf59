"""Progress of training on a terminal, with objective, held-out score, time and an honest guess at the rest."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kinfolk.models.training import Callback, Progress


@contextmanager
def observed(callback: Callback | None, verbose: int) -> Iterator[Callback | None]:
    """The user's callback and, if `verbose` and on a terminal, a line that is kept up to date."""
    if not verbose or not sys.stderr.isatty():
        yield callback
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=8, transient=True) as live:
        estimate = RemainingTime()

        def watch(progress: Progress) -> bool | None:
            live.update(line(progress, estimate(progress)))
            return None if callback is None else callback(progress)

        yield watch


def line(progress: Progress, remaining: float | None) -> str:
    """`optimise 12 · objective 2436.5 · held-out 89.31 · 2.1 s · about 1.3 s left`."""
    parts = [f"{progress.stage} {progress.iteration}", f"objective {progress.objective:.6g}"]
    if progress.dev_score is not None:
        parts.append(f"held-out {100 * progress.dev_score:.2f}")
    parts.append(f"{progress.seconds:.1f} s")
    if remaining is not None:
        parts.append(f"about {remaining:.0f} s left")
    return " · ".join(parts)


class RemainingTime:
    """Seconds until the tolerance is met, from how fast the improvements shrink.

    Improvements of a converging run fall geometrically: with the last ones d₁ > d₂ an iteration apart, the
    next is d₂²/d₁, and `tolerance` is met after log(tolerance / d₂) / log(d₂ / d₁) more.
    """

    def __init__(self, tolerance: float = 1e-4, span: int = 3) -> None:
        self._tolerance, self._span = tolerance, span
        self._history: list[tuple[float, float]] = []

    def __call__(self, progress: Progress) -> float | None:
        if progress.stage != "optimise":
            return None
        self._history.append((progress.objective, progress.seconds))
        if len(self._history) <= 2 * self._span:
            return None
        (a, _), (b, then), (c, now) = (self._history[-1 - i * self._span] for i in (2, 1, 0))
        first, last = (a - b) / abs(c or 1), (b - c) / abs(c or 1)
        if not 0 < last < first:
            return None
        rounds = math.log(self._tolerance / last) / math.log(last / first)
        per_round = (now - then) / 1.0
        return max(0.0, min(rounds, (progress.limit - progress.iteration) / self._span) * per_round)
