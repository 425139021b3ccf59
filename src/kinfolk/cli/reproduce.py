"""`kinfolk reproduce ID --data DIR [--json FILE]`: one table or figure, beside the paper's figures."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from kinfolk.errors import InputError, SettingError

DIGITS = {"p_value": 4}
WIDE = 160  # columns of a table that goes to a file: nothing is wrapped
# experiment -> its module in kinfolk.experiments, loaded when it is run
EXPERIMENTS = {
    "chain-conll": "chain_conll",
    "mop-conll": "mop_conll",
    "mop-webkb": "mop_webkb",
    "stacked-slif": "stacked_slif",
    "stacked-webkb": "stacked_webkb",
    "stacked-cora": "stacked_cora",
    "stacked-citeseer": "stacked_citeseer",
    "stacked-genia": "stacked_genia",
    "stacked-aimed": "stacked_aimed",
    "stacked-enron": "stacked_enron",
    "stacked-conll": "stacked_conll",
    "gibbs-speed": "gibbs_speed",
    "gibbs-convergence": "gibbs_convergence",
    "slt-litbank": "slt_litbank",
    "slt-gum": "slt_gum",
    "slt-records": "slt_records",
}
FIGURES = ("gibbs-convergence",)


def reproduce(
    experiment: Annotated[str, typer.Argument(help=f"One of: {', '.join(EXPERIMENTS)}.")],
    data: Annotated[Path | None, typer.Option(help="Data folder; default $KINFOLK_DATA, else ../shared/data.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the rows as JSON.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Where to draw a figure; default the experiment's name with .png.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1 = every core.")] = -1,
) -> None:
    """Run an experiment and print its table."""
    if experiment not in EXPERIMENTS:
        raise SettingError(f"no experiment {experiment!r}; there are: {', '.join(EXPERIMENTS)}")
    folder = data or Path(os.environ.get("KINFOLK_DATA", "../shared/data"))
    if not folder.is_dir():
        raise InputError("no such data folder; pass --data DIR or set KINFOLK_DATA", str(folder))
    from rich.console import Console
    from rich.table import Table

    from kinfolk.io.modelfile import check_writable
    from kinfolk.io.textfiles import write_utf8

    if figure is not None and experiment not in FIGURES:
        raise SettingError(f"{experiment} is a table, and draws no figure; leave --figure out")
    picture = figure or Path(f"{experiment}.png")
    for path in [json_file, picture if experiment in FIGURES else None]:
        if path is not None:
            check_writable(path)  # before the work, not after it
    module = importlib.import_module(f"kinfolk.experiments.{EXPERIMENTS[experiment]}")
    report = module.run(folder, lambda line: typer.echo(line, err=True), jobs)
    if json_file is not None:
        write_utf8(json_file, [json.dumps(report.as_dict(), indent=2, default=repr), "\n"])
    if report.draw is not None:
        report.draw(picture)
        typer.echo(f"drew {picture}", err=True)
    metrics = [key for key in report.shown if any(key in row for row in report.rows)]
    table = Table("data", "model", "split", *(name.replace("_", " ") for name in metrics), "paper")
    for row in report.rows:
        place = row["dataset"], row["model"], row["split"]
        paper = report.paper.get(place, {})
        figures = [_figure(row.get(key, ""), key) for key in metrics]
        table.add_row(*place, *figures, " ".join(f"{paper[k]:.1f}" for k in metrics if k in paper))
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)
    typer.echo(f"{report.seconds:.0f} s")


def _figure(value: float | str, metric: str) -> str:
    return value if isinstance(value, str) else f"{value:.{DIGITS.get(metric, 2)}f}"
