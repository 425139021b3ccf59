"""Experiments one after the other, each kept in a file as soon as it is done: what was found is never lost.

A result that is there already is taken as it is, if the same version of kinfolk found it in the same data folder.
"""

from __future__ import annotations

import base64
import importlib
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from kinfolk import __version__
from kinfolk.core.files import write_utf8
from kinfolk.errors import KinfolkError
from kinfolk.report.page import Part, report_html

# -- The form every experiment reports in: rows of metrics, the paper's figures beside them, JSON ------

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


# -- harness ---------------------------------------------------------------------------------------

log = logging.getLogger("kinfolk")


@dataclass(frozen=True)
class Result:
    """What is kept of an experiment: the report, its figure as the data: address of a PNG; or why there is none."""

    experiment: str
    about: str  # what it is, by its own words
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    paper: dict[tuple[str, str, str], dict[str, float]] = field(default_factory=dict)
    figure: str | None = None
    fault: str | None = None
    expected: bool = True  # whether the fault is one of the input, as data that are not there
    from_before: bool = False

    @classmethod
    def of(cls, report: Report, about: str) -> Result:
        figure = None if report.draw is None else _as_address(report.draw)
        told = (report.rows, report.seconds, report.settings, report.shown, report.paper)
        return cls(report.experiment, about, *told, figure)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        paper = [[*place, figures] for place, figures in self.paper.items()]
        names = ("experiment", "about", "rows", "seconds", "settings", "shown", "figure")
        return {"version": __version__, **{name: getattr(self, name) for name in names}, "paper": paper}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Result:
        paper = {(dataset, model, split): figures for dataset, model, split, figures in told["paper"]}
        names = ("experiment", "about", "rows", "seconds", "settings", "figure")
        kept = {name: told[name] for name in names}
        return cls(**kept, shown=tuple(told["shown"]), paper=paper, from_before=True)


def found(place: str) -> Callable[[Path, Tell, int], Report]:
    """The experiment at a place, "module.function" of `kinfolk.papers`."""
    module, _, function = place.rpartition(".")
    run: Callable[[Path, Tell, int], Report] = getattr(importlib.import_module(f"kinfolk.papers.{module}"), function)
    return run


def run_one(place: str, data: Path, tell: Tell, jobs: int) -> Result:
    run = found(place)
    return Result.of(run(data, tell, jobs), about_of(run))


def about_of(experiment: Any) -> str:
    """The first paragraph of what an experiment says of itself."""
    return " ".join((experiment.__doc__ or "").strip().split("\n\n")[0].split())


def run_all(
    experiments: Mapping[str, str], data: Path, folder: Path, tell: Tell, jobs: int, again: bool
) -> Iterator[Result]:
    """Each experiment in turn, its result kept in `folder`. One that fails is a result with a `fault`."""
    folder.mkdir(exist_ok=True)
    for name, place in experiments.items():
        file = folder / f"{name}.json"
        known = None if again else _from_before(file, name, data)
        if known is not None:
            tell(f"{name}: kept from before in {file}; --again runs it anew")
            yield known
            continue
        tell(f"{name}: running")
        try:
            result = run_one(place, data, lambda line, name=name: tell(f"{name}: {line}"), jobs)  # type: ignore[misc]
        except Exception as error:  # whatever is wrong with one, the others are run
            log.debug("%s failed", name, exc_info=True)
            expected = isinstance(error, KinfolkError | OSError)
            fault = str(error) if expected else f"{type(error).__name__}: {error}"
            tell(f"{name}: failed: {fault}")
            yield Result(name, "", fault=fault, expected=expected)
            continue
        told = {**result.as_dict(), "data": str(data.resolve())}
        write_utf8(file, [json.dumps(told, indent=2, default=repr), "\n"])
        yield result


def _from_before(file: Path, name: str, data: Path) -> Result | None:
    """What the file holds, if it is the answer to the same question; a damaged file holds nothing."""
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        same = (told["version"], told["data"], told["experiment"]) == (__version__, str(data.resolve()), name)
        return Result.from_dict(told) if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _as_address(draw: Callable[[Path], None]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure.png"
        draw(path)
        return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


# -- One page about experiments: their tables with the papers' figures beside them, and the figures ----

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


# -- Whether one model is better than another, by its scores on the same folds -------------------------


def paired_t_test(first: ArrayLike, second: ArrayLike) -> float:
    """The two-sided p-value of Student's t-test on the differences; 1 where all are zero, nan for a single pair.

    Folds share training data, so the test is a rough guide, as in the paper it is taken from.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"expected two rows of scores of the same folds; got shapes {a.shape} and {b.shape}")
    difference = a - b
    if len(a) < 2:
        return float("nan")
    spread = difference.std(ddof=1)
    if spread == 0:
        return 1.0 if difference[0] == 0 else 0.0
    t = difference.mean() / (spread / np.sqrt(len(a)))
    return float(2 * stats.t.sf(abs(t), len(a) - 1))
