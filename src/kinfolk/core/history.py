"""How training went, iteration by iteration: curves short enough to be kept in a model file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

MOST = 200  # points kept of a curve: more cannot be told apart on a screen
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
        told: dict[str, Any] = {"name": self.name, "status": self.status, "seconds": self.seconds}
        for name, points in (("objective", self.objective), ("held_out", self.held_out)):
            told[name] = [list(column) for column in zip(*points, strict=True)]
        return {**told, "warm": list(self.warm), "best": self.best}

    @classmethod
    def from_file(cls, told: Mapping[str, Any]) -> Stage:
        """The stage again; whatever does not look like one is a ValueError."""
        curves = {name: _points(told[name]) for name in ("objective", "held_out")}
        if told["status"] not in STATUSES:
            raise ValueError(f"expected one of {', '.join(STATUSES)}; got {told['status']!r}")
        best = None if told["best"] is None else int(told["best"])
        warm = tuple(float(loss) for loss in told["warm"])
        return cls(str(told["name"]), told["status"], float(told["seconds"]), warm=warm, best=best, **curves)


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
