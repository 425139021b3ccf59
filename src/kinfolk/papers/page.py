"""One page about experiments: their tables with the papers' figures beside them, and the figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinfolk import __version__
from kinfolk.papers.harness import Result
from kinfolk.papers.report import Row
from kinfolk.report.page import Part, report_html

DIGITS = {"p_value": 4}
LONG = 80  # rows; of longer tables that a figure shows already, only the last row of each model stands here


def page(results: Sequence[Result], title: str = "Experiments") -> str:
    """The page, whatever there is so far; several experiments have a table of contents before them."""
    parts = [overview(results)] if len(results) > 1 else []
    parts += [part for result in results for part in parts_of(result)]
    return report_html(title, parts, f"kinfolk {__version__}. Percentages; the papers' figures stand beside ours.")


def overview(results: Sequence[Result]) -> Part:
    rows = [[result.experiment, state(result), f"{result.seconds:.0f} s" * (not result.fault)] for result in results]
    return Part("table", "Overview", {"headings": ["experiment", "state", "time"], "rows": rows, "number": [2]})


def state(result: Result) -> str:
    if result.fault is not None:
        return f"failed: {result.fault}"
    return f"{len(result.rows)} rows" + (" (kept from before)" if result.from_before else "")


def parts_of(result: Result) -> list[Part]:
    """The figure, where there is one, and the table of an experiment; nothing of one that failed."""
    if result.fault is not None:
        return []
    parts = []
    if result.figure is not None:
        parts.append(Part("figure", result.experiment, {"image": result.figure, "note": result.about}))
    title = result.experiment if result.figure is None else f"{result.experiment}, in numbers"
    return [*parts, Part("table", title, _table(result))]


def _table(result: Result) -> dict[str, Any]:
    metrics = [key for key in result.shown if any(key in row for row in result.rows)]
    printed = [key for key in metrics if any(key in figures for figures in result.paper.values())]
    rows = _shown(result)
    headings = ["data", "model", "split"]
    for key in metrics:
        headings += [_words(key)] + ([f"paper: {_words(key)}"] if key in printed else [])
    note = [result.about] * (result.figure is None) + [f"{result.seconds:.0f} s."]
    if len(rows) < len(result.rows):
        note.append(f"The last row of each model; all {len(result.rows)} are in the JSON.")
    table = [_row(row, metrics, printed, result.paper) for row in rows]
    return {"headings": headings, "rows": table, "number": list(range(3, len(headings))), "note": " ".join(note)}


def _shown(result: Result) -> list[Row]:
    if len(result.rows) <= LONG or result.figure is None:
        return result.rows
    return list({(row["dataset"], row["model"]): row for row in result.rows}.values())


def _row(row: Row, metrics: Sequence[str], printed: Sequence[str], paper: Any) -> list[str]:
    place = row["dataset"], row["model"], row["split"]
    cells = [str(name) for name in place]
    for key in metrics:
        cells.append(_figure(row.get(key), key))
        if key in printed:
            cells.append(_figure(paper.get(place, {}).get(key), key, 1))
    return cells


def _figure(value: Any, metric: str, digits: int = 2) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.{DIGITS.get(metric, digits)}f}"


def _words(metric: str) -> str:
    return metric.replace("_", " ")
