"""The form every experiment reports in: rows of metrics, the paper's figures beside them, JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]  # "model", "dataset", "split", then metrics; percentages run 0-100
Tell = Callable[[str], None]  # where an experiment says what it is doing


@dataclass(frozen=True)
class Report:
    """What an experiment found. `paper` maps (dataset, model, split) to the metrics the paper prints; `shown` are the
    metrics of the printed table, in order (JSON has all); `draw` writes the figure, where there is one, to a file."""

    experiment: str
    rows: list[Row]
    seconds: float
    settings: dict[str, Any]
    shown: tuple[str, ...]
    paper: dict[tuple[str, str, str], dict[str, float]] = field(default_factory=dict)
    draw: Callable[[Path], None] | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "rows": self.rows,
            "seconds": self.seconds,
            "settings": self.settings,
        }
