"""`kinfolk demo`: three generated worlds, each with and without the company, in one table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any

import typer

from kinfolk.cli.demo_report import write_demo_report
from kinfolk.cli.demo_worlds import SIZES, TINY, Comparison, demo_worlds
from kinfolk.cli.output import Table, show, show_json

ABOUT = (
    "tokens   names in newswire: clear where they are introduced, unclear where they come again",
    "nodes    topics of papers: by their titles, and by what they cite and what cites them",
    "records  customers who filled in a form several times, with typos and blanks",
)
TRY = (
    "kinfolk tokens train --train train.conll --model mop --mixing learned --out names.kinfolk",
    "kinfolk nodes train --nodes papers.csv --edges cites.csv --label topic --text title \\\n"
    "    --model stacked --depth 2 --out topics.kinfolk",
    "kinfolk mentions train --records customers.csv --cluster entity --block 'key(postcode)' \\\n"
    "    --block 'key(date_of_birth)' --folds 5 --out customers.kinfolk",
)
EXAMPLES = "(examples/newswire.py, examples/citations.py and examples/customers.py write such files)"


@dataclass(frozen=True)
class Summary:
    """One task over the seeds it was run with."""

    runs: Sequence[Comparison]

    @property
    def gains(self) -> list[float]:
        return [run.gain for run in self.runs]

    @property
    def spread(self) -> float:
        """The largest gain less the smallest."""
        return max(self.gains) - min(self.gains)

    @property
    def deviation(self) -> float:
        """The standard deviation of the gain; of a single run there is none."""
        return stdev(self.gains) if len(self.runs) > 1 else 0.0

    def mean(self, what: str) -> float:
        return fmean(getattr(run, what) for run in self.runs)

    def as_dict(self) -> dict[str, Any]:
        """For --json: scores and gains in percent, means over the seeds."""
        run = self.runs[0]
        return {
            "task": run.task,
            "measured": run.measured,
            "local": {"model": run.local, "score": self.mean("local_score")},
            "company": {"model": run.company, "score": self.mean("company_score")},
            "gain": self.mean("gain"),
            "gains": self.gains,
            "spread": self.spread,
            "standard_deviation": self.deviation,
            "seconds": self.mean("seconds"),
        }


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the worlds, and the first of several.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run, to see by how much gains differ.")] = 1,
    report: Annotated[Path, typer.Option(help="Page to write, about the first seed.")] = Path("kinfolk-demo.html"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Generate three small worlds, train with and without the company things keep, and show what it adds."""
    from kinfolk.core.modelfile import check_writable

    check_writable(report)
    _tell("getting ready: the first time, numeric kernels are compiled, which takes about a minute")
    demo_worlds(0, TINY)
    found: list[tuple[Comparison, ...]] = []
    for number in range(seed, seed + seeds):
        worlds = demo_worlds(number, SIZES, _tell)
        found.append(worlds.comparisons)
        if number == seed:
            write_demo_report(report, worlds)
    summaries = [Summary(runs) for runs in zip(*found, strict=True)]
    if as_json:
        tasks = [summary.as_dict() for summary in summaries]
        show_json({"seeds": [*range(seed, seed + seeds)], "tasks": tasks, "report": str(report)})
        return
    told = "What the company adds: scores in percent, on what the models have not seen"
    show([*ABOUT, "", told], _table(summaries))
    commands = [f"  {line}" for command in TRY for line in command.splitlines()]
    show(["", f"To look closer, open {report}", "", "On your own files:", *commands, EXAMPLES])


def _table(summaries: Sequence[Summary]) -> Table:
    several = len(summaries[0].runs) > 1
    over = ["mean gain", "max - min", "st. dev."] if several else ["gain"]
    head = ["task", "measured", "alone", "with company", "alone", "company", *over, "seconds"]
    rows = []
    for summary in summaries:
        run = summary.runs[0]
        figures = [f"{summary.mean('local_score'):.1f}", f"{summary.mean('company_score'):.1f}"]
        figures.append(f"{summary.mean('gain'):+.1f}")
        figures += [f"{summary.spread:.1f}", f"{summary.deviation:.1f}"] if several else []
        words = [run.task, run.measured, run.local, run.company]
        rows.append([*words, *figures, f"{summary.mean('seconds'):.1f}"])
    return Table(head, rows, words=4)


def _tell(text: str) -> None:
    """Progress, for somebody who is looking."""
    if sys.stderr.isatty():
        typer.echo(text, err=True)
