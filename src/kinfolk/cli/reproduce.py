"""`kinfolk reproduce ID | all --data DIR [--report FILE] [--json FILE]`: tables and figures beside the papers'."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from kinfolk.cli.options import examples
from kinfolk.cli.output import Table, show
from kinfolk.errors import InputError, SettingError

REPRODUCE = examples(
    "kinfolk reproduce stacked-cora --data data",
    "kinfolk reproduce chain-conll --data data --json rows.json",
    "kinfolk reproduce all --data data --report experiments.html",
)

BY_MODULE = {
    "mixture": "chain-conll mop-conll mop-webkb",
    "stacking": "stacked-slif stacked-webkb stacked-cora stacked-citeseer stacked-genia stacked-aimed stacked-enron "
    "stacked-conll",
    "gibbs": "gibbs-speed gibbs-convergence",
    "structured": "slt-litbank slt-gum slt-records",
}
# experiment -> module and function in kinfolk.papers, loaded when it is run
EXPERIMENTS = {n: f"{module}.{n.replace('-', '_')}" for module, names in BY_MODULE.items() for n in names.split()}
FIGURES = ("gibbs-convergence",)


app = typer.Typer(rich_markup_mode=None)


@app.command(epilog=REPRODUCE)
def reproduce(
    experiment: Annotated[str, typer.Argument(help=f"One of: {', '.join(EXPERIMENTS)}; or all of them: all.")],
    data: Annotated[Path | None, typer.Option(help="Data folder; default $KINFOLK_DATA, else ../shared/data.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the rows as JSON.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Where to draw a figure; default the experiment's name with .png.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option("--report", help="Also write a page with tables and figures; of all: experiments.html."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="all: run anew what is kept from before.")] = False,
    jobs: Annotated[int, typer.Option(help="Threads; -1 = every core.")] = -1,
) -> None:
    """Run an experiment and print its table; or run all of them, and write one page."""
    if experiment not in {*EXPERIMENTS, "all"}:
        raise SettingError.saying(f"no experiment {experiment!r}; there are: {', '.join(EXPERIMENTS)}")
    named = data or os.environ.get("KINFOLK_DATA")
    folder = Path("../shared/data" if named is None else named)
    if not folder.is_dir():
        if named is None:
            raise SettingError.saying("reproduce needs the data of the papers; pass --data DIR or set KINFOLK_DATA")
        raise InputError("no such data folder; pass --data DIR or set KINFOLK_DATA", str(folder))
    if figure is not None and experiment not in FIGURES:
        why = "draws figures into its page" if experiment == "all" else "is a table, and draws no figure"
        raise SettingError.saying(f"{experiment} {why}; leave --figure out")
    if experiment == "all":
        _all(folder, page or Path("experiments.html"), json_file, jobs, again)
    elif again:
        raise SettingError.saying(f"{experiment} is run anew every time; --again is for all")
    else:
        _one(experiment, folder, page, json_file, figure or Path(f"{experiment}.png"), jobs)


def _one(name: str, data: Path, page: Path | None, json_file: Path | None, picture: Path, jobs: int) -> None:
    from kinfolk.papers import harness

    _check_writable(json_file, page, picture if name in FIGURES else None)
    run = harness.load(EXPERIMENTS[name])
    report = run(data, _log, jobs)
    _write_json(json_file, report.as_dict())
    if page is not None:
        _write(page, harness.page([harness.Result.of(report, harness.about(run))], name))
        _log(f"wrote {page}")
    if report.draw is not None:
        report.draw(picture)
        _log(f"drew {picture}")
    metrics = [key for key in report.shown if any(key in row for row in report.rows)]
    head, rows = ("data", "model", "split", *(key.replace("_", " ") for key in metrics), "paper"), []
    for row in report.rows:
        place = row["dataset"], row["model"], row["split"]
        paper = report.paper.get(place, {})
        figures = [harness.cell(row.get(key), key) for key in metrics]
        rows.append((*place, *figures, " ".join(f"{paper[key]:.1f}" for key in metrics if key in paper)))
    show([], Table(head, rows, words=3))
    typer.echo(f"{report.seconds:.0f} s")


def _all(data: Path, page: Path, json_file: Path | None, jobs: int, again: bool) -> None:
    """Every experiment; page and JSON are written anew after each, so that there is always what is known so far."""
    from kinfolk.papers import harness

    _check_writable(page, json_file)
    done, folder = [], page.with_suffix(".results")
    try:
        for result in harness.run_all(EXPERIMENTS, data, folder, _log, jobs, again):
            done.append(result)
            _write(page, harness.page(done))
            _write_json(json_file, {r.experiment: {"failed": r.fault} if r.fault else r.as_dict() for r in done})
    except KeyboardInterrupt:
        _log(f"interrupted; {len(done)} results are in {page}, and the same command goes on from there")
        raise typer.Exit(130) from None
    rows = [(r.experiment, harness.state(r), "" if r.fault else f"{r.seconds:.0f} s") for r in done]
    show([], Table(("experiment", "state", "time"), rows, words=2))
    _log(f"wrote {page}, and each result in {folder}")
    failed = [r for r in done if r.fault is not None]
    if failed:
        raise typer.Exit(2 if all(r.expected for r in failed) else 1)


def _log(line: str) -> None:
    typer.echo(line, err=True)


def _check_writable(*paths: Path | None) -> None:
    """Before the work, not after it."""
    from kinfolk.core.modelfile import check_writable

    for path in paths:
        if path is not None:
            check_writable(path)


def _write(path: Path, text: str) -> None:
    from kinfolk.core.files import write_utf8

    write_utf8(path, [text])


def _write_json(path: Path | None, content: dict[str, Any]) -> None:
    if path is not None:
        _write(path, json.dumps(content, indent=2, default=repr) + "\n")
