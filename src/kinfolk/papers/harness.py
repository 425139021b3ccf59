"""Experiments one after the other, each kept in a file as soon as it is done: what was found is never lost.

A result that is there already is taken as it is, if the same version of kinfolk found it in the same data folder.
"""

from __future__ import annotations

import base64
import importlib
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinfolk import __version__
from kinfolk.core.files import write_utf8
from kinfolk.errors import KinfolkError
from kinfolk.papers.report import Report, Row, Tell

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


def run_one(name: str, module: str, data: Path, tell: Tell, jobs: int) -> Result:
    """Run an experiment; `module` is that of `kinfolk.papers` which does it."""
    found = importlib.import_module(f"kinfolk.papers.{module}")
    return Result.of(found.run(data, tell, jobs), about_of(found))


def about_of(module: Any) -> str:
    """The first paragraph of what a module says of itself."""
    return " ".join((module.__doc__ or "").strip().split("\n\n")[0].split())


def run_all(
    experiments: Mapping[str, str], data: Path, folder: Path, tell: Tell, jobs: int, again: bool
) -> Iterator[Result]:
    """Each experiment in turn, its result kept in `folder`. One that fails is a result with a `fault`."""
    folder.mkdir(exist_ok=True)
    for name, module in experiments.items():
        file = folder / f"{name}.json"
        known = None if again else _from_before(file, name, data)
        if known is not None:
            tell(f"{name}: kept from before in {file}; --again runs it anew")
            yield known
            continue
        tell(f"{name}: running")
        try:
            result = run_one(name, module, data, lambda line, name=name: tell(f"{name}: {line}"), jobs)  # type: ignore[misc]
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
