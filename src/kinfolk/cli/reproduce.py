"""`kinfolk reproduce ID | all --data DIR [--report FILE] [--json FILE]`: tables and figures beside the papers'."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from kinfolk.cli.options import examples
from kinfolk.cli.output import Table, show
from kinfolk.errors import InputError, SettingError

# -- examples at the end of help pages -----------------------------------------------------------------

REPRODUCE = examples(
    "kinfolk reproduce stacked-cora --data data",
    "kinfolk reproduce chain-conll --data data --json rows.json",
    "kinfolk reproduce all --data data --report experiments.html",
)

DIGITS = {"p_value": 4}
# experiment -> module and function in kinfolk.papers, loaded when it is run
EXPERIMENTS = {
    "chain-conll": "mixture.chain_conll",
    "mop-conll": "mixture.mop_conll",
    "mop-webkb": "mixture.mop_webkb",
    "stacked-slif": "stacking.stacked_slif",
    "stacked-webkb": "stacking.stacked_webkb",
    "stacked-cora": "stacking.stacked_cora",
    "stacked-citeseer": "stacking.stacked_citeseer",
    "stacked-genia": "stacking.stacked_genia",
    "stacked-aimed": "stacking.stacked_aimed",
    "stacked-enron": "stacking.stacked_enron",
    "stacked-conll": "stacking.stacked_conll",
    "gibbs-speed": "gibbs.gibbs_speed",
    "gibbs-convergence": "gibbs.gibbs_convergence",
    "slt-litbank": "structured.slt_litbank",
    "slt-gum": "structured.slt_gum",
    "slt-records": "structured.slt_records",
}
FIGURES = ("gibbs-convergence",)


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
        raise SettingError(f"no experiment {experiment!r}; there are: {', '.join(EXPERIMENTS)}")
    named = data or os.environ.get("KINFOLK_DATA")
    folder = Path("../shared/data" if named is None else named)
    if not folder.is_dir():
        if named is None:
            raise SettingError("reproduce needs the data of the papers; pass --data DIR or set KINFOLK_DATA")
        raise InputError("no such data folder; pass --data DIR or set KINFOLK_DATA", str(folder))
    from kinfolk.core.files import write_utf8
    from kinfolk.core.modelfile import check_writable
    from kinfolk.papers.harness import found

    if figure is not None and experiment not in FIGURES:
        why = "draws figures into its page" if experiment == "all" else "is a table, and draws no figure"
        raise SettingError(f"{experiment} {why}; leave --figure out")
    if experiment == "all":
        _all(folder, page or Path("experiments.html"), json_file, jobs, again)
        return
    if again:
        raise SettingError(f"{experiment} is run anew every time; --again is for all")
    picture = figure or Path(f"{experiment}.png")
    for path in [json_file, page, picture if experiment in FIGURES else None]:
        if path is not None:
            check_writable(path)  # before the work, not after it
    run = found(EXPERIMENTS[experiment])
    report = run(folder, lambda line: typer.echo(line, err=True), jobs)
    if json_file is not None:
        write_utf8(json_file, [json.dumps(report.as_dict(), indent=2, default=repr), "\n"])
    if page is not None:
        from kinfolk.papers.harness import Result, about_of
        from kinfolk.papers.harness import page as made

        write_utf8(page, [made([Result.of(report, about_of(run))], experiment)])
        typer.echo(f"wrote {page}", err=True)
    if report.draw is not None:
        report.draw(picture)
        typer.echo(f"drew {picture}", err=True)
    metrics = [key for key in report.shown if any(key in row for row in report.rows)]
    head, rows = ("data", "model", "split", *(name.replace("_", " ") for name in metrics), "paper"), []
    for row in report.rows:
        place = row["dataset"], row["model"], row["split"]
        paper = report.paper.get(place, {})
        figures = [_figure(row.get(key, ""), key) for key in metrics]
        rows.append((*place, *figures, " ".join(f"{paper[k]:.1f}" for k in metrics if k in paper)))
    show([], Table(head, rows, words=3))
    typer.echo(f"{report.seconds:.0f} s")


def _all(data: Path, page: Path, json_file: Path | None, jobs: int, again: bool) -> None:
    """Every experiment; page and JSON are written anew after each, so that there is always what is known so far."""
    from kinfolk.core.files import write_utf8
    from kinfolk.core.modelfile import check_writable
    from kinfolk.papers.harness import page as page_of
    from kinfolk.papers.harness import run_all, state

    for path in [page, json_file]:
        if path is not None:
            check_writable(path)
    done, folder = [], page.with_suffix(".results")
    try:
        for result in run_all(EXPERIMENTS, data, folder, lambda line: typer.echo(line, err=True), jobs, again):
            done.append(result)
            write_utf8(page, [page_of(done)])
            if json_file is not None:
                found = {r.experiment: {"failed": r.fault} if r.fault else r.as_dict() for r in done}
                write_utf8(json_file, [json.dumps(found, indent=2, default=repr), "\n"])
    except KeyboardInterrupt:
        typer.echo(f"interrupted; {len(done)} results are in {page}, and the same command goes on from there", err=True)
        raise typer.Exit(130) from None
    rows = [(r.experiment, state(r), "" if r.fault else f"{r.seconds:.0f} s") for r in done]
    show([], Table(("experiment", "state", "time"), rows, words=2))
    typer.echo(f"wrote {page}, and each result in {folder}", err=True)
    failed = [r for r in done if r.fault is not None]
    if failed:
        raise typer.Exit(2 if all(r.expected for r in failed) else 1)


def _figure(value: float | str, metric: str) -> str:
    return value if isinstance(value, str) else f"{value:.{DIGITS.get(metric, 2)}f}"
