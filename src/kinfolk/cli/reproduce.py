"""`kinfolk reproduce ID | all --data DIR [--markdown FILE]`: tables and figures beside the papers', the page of all
results; `kinfolk reproduce --check-data DIR`: whether the data are those of the page."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from kinfolk.cli.options import check_going_on, examples
from kinfolk.cli.output import Table, show
from kinfolk.errors import InputError, SettingError

REPRODUCE = examples(
    "kinfolk reproduce stacked-cora --data data",
    "kinfolk reproduce chain-conll --data data --json rows.json",
    "kinfolk reproduce all --data data --report experiments.html",
    "kinfolk reproduce all --data data --markdown docs/results.md --readme README.md",
    "kinfolk reproduce --check-data data",
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
    experiments: Annotated[
        list[str] | None,
        typer.Argument(help=f"Of: {', '.join(EXPERIMENTS)}; or all of them: all.", metavar="EXPERIMENT"),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder; default $KINFOLK_DATA, else ../shared/data.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the rows as JSON.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Where to draw a figure; default the experiment's name with .png.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option("--report", help="Also write a page with tables and figures; of all: experiments.html."),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(help="Also write the page of all results kept beside it, in the folder of its name: Markdown."),
    ] = None,
    readme: Annotated[
        Path | None, typer.Option(help="With --markdown: write the figures of its excerpt of that page anew.")
    ] = None,
    check_data: Annotated[
        Path | None,
        typer.Option(help="Run nothing: compare sizes and SHA-256 of the files in this data folder (of all sets, or "
                          "those of the experiments named)."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Run anew what is kept from before.")] = False,
    jobs: Annotated[int, typer.Option(help="Threads; -1 = every core.")] = -1,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File that what is done so far of an experiment goes to: the same command, should it be "
                          "stopped, goes on from there. Of several each has its own, with its name behind this one."),
    ] = None,
) -> None:  # fmt: skip
    """Run an experiment and print its table; or run several or all of them, keep what they find, and write pages."""
    names = _names(experiments or [])
    if check_data is not None:
        return _check_data(check_data, names if experiments else None, markdown)
    if readme is not None and markdown is None:
        raise SettingError.saying("--readme takes an excerpt of the page of results; pass --markdown too")
    if not names and markdown is None:
        raise SettingError.saying(f"no experiment named; there are: {', '.join(EXPERIMENTS)}; or all")
    keeps = len(names) != 1 or markdown is not None or experiments == ["all"]
    if figure is not None and (keeps or names[0] not in FIGURES):
        why = "is a table, and draws no figure" if not keeps else "draws figures into its page"
        raise SettingError.saying(f"{' '.join(experiments or [])} {why}; leave --figure out")
    if not keeps and again:
        raise SettingError.saying(f"{names[0]} is run anew every time; --again is for all")
    check_going_on(checkpoint, json_file, figure, page, markdown, readme)
    if not keeps:
        figure = figure or Path(f"{names[0]}.png")
        return _one(names[0], _data_folder(data), page, json_file, figure, jobs, checkpoint)
    if page is None and markdown is None:
        page = Path("experiments.html")
    folder = _data_folder(data) if names else Path()
    _several(names, folder, Pages(page, markdown, readme, json_file), jobs, again, checkpoint)


def _names(experiments: list[str]) -> list[str]:
    strange = next((name for name in experiments if name not in {*EXPERIMENTS, "all"}), None)
    if strange is not None:
        raise SettingError.saying(f"no experiment {strange!r}; there are: {', '.join(EXPERIMENTS)}")
    return [name for name in EXPERIMENTS if name in experiments or "all" in experiments]


def _data_folder(data: Path | None) -> Path:
    named = data or os.environ.get("KINFOLK_DATA")
    folder = Path("../shared/data" if named is None else named)
    if not folder.is_dir():
        if named is None:
            raise SettingError.saying("reproduce needs the data of the papers; pass --data DIR or set KINFOLK_DATA")
        raise InputError("no such data folder; pass --data DIR or set KINFOLK_DATA", str(folder))
    return folder


def _check_data(data: Path, names: list[str] | None, markdown: Path | None) -> None:
    """A line a set; what is wrong with its files on standard error."""
    from kinfolk.papers import manifest

    if not data.is_dir():
        raise InputError("no such data folder", str(data))
    _check_writable(markdown)
    found = manifest.check(data, manifest.sets_of(names))
    for one in found:
        for fault in one.faults:
            _log(f"{one.data_set.name}: {fault}")
    show(
        [], Table(("set", "folder", "state"), [(one.data_set.name, one.data_set.folder, one.state) for one in found], 3)
    )
    if markdown is not None:
        _write(markdown, manifest.markdown())
    if any(one.state != "fine" for one in found):
        raise typer.Exit(1)


def _one(
    name: str, data: Path, page: Path | None, json_file: Path | None, picture: Path, jobs: int, checkpoint: Path | None
) -> None:
    from kinfolk.core.checkpoint import remove_checkpoint
    from kinfolk.papers import harness
    from kinfolk.papers.manifest import data_digest

    _check_writable(json_file, page, picture if name in FIGURES else None)
    run = harness.load(EXPERIMENTS[name])
    with harness.kept_on(checkpoint, name, EXPERIMENTS[name], "" if checkpoint is None else data_digest(name, data)):
        report = run(data, _log, jobs)
    _write_json(json_file, report.as_dict())
    if page is not None:
        _write(page, harness.page([harness.Result.of(report, harness.about(run))], name))
        _log(f"wrote {page}")
    if report.draw is not None:
        report.draw(picture)
        _log(f"drew {picture}")
    metrics = harness.metrics_of(report)
    gains = [key for key in metrics if any(harness.gain(report, row, key) for row in report.rows)]
    names = [*metrics, *(harness.gain_name(report, key) for key in gains), "paper"]
    rows = []
    for row in report.rows:
        place = row["dataset"], row["model"], row["split"]
        paper = report.paper.get(place, {})
        figures = [harness.figure(report, row, key) for key in metrics]
        figures += [harness.gain(report, row, key) for key in gains]
        rows.append((*place, *figures, " ".join(f"{paper[key]:.1f}" for key in metrics if key in paper)))
    head = ("data", "model", "split", *(name.replace("_", " ") for name in names))
    show([], Table(head, rows, words=3))
    typer.echo(f"{report.seconds:.0f} s")
    remove_checkpoint(checkpoint)


class Pages(NamedTuple):
    """What is written of several experiments, anew after each: there is always what is known so far."""

    report: Path | None
    markdown: Path | None
    readme: Path | None
    json: Path | None

    @property
    def folder(self) -> Path:
        """Where each result is kept: beside the page, in a folder of its name."""
        page = self.markdown or self.report
        assert page is not None
        return page.with_suffix("")

    def check(self) -> None:
        """Before the work, not after it."""
        from kinfolk.papers import evidence

        _check_writable(self.report, self.markdown, self.json)
        if self.readme is not None:
            evidence.refreshed(self.readme.read_text(encoding="utf-8"), {}, str(self.readme))

    def write(self, done: list[Any]) -> None:
        from kinfolk.papers import evidence, harness

        if self.report is not None:
            _write(self.report, harness.page(done))
        _write_json(self.json, {r.experiment: {"failed": r.fault} if r.fault else r.as_dict() for r in done})
        if self.markdown is None:
            return
        files = {name: harness.kept_result(self.folder / f"{name}.json") for name in EXPERIMENTS}
        kept = {name: result for name, result in files.items() if result is not None}
        _write(self.markdown, evidence.page(EXPERIMENTS, kept))
        if self.readme is not None:
            text = evidence.refreshed(self.readme.read_text(encoding="utf-8"), kept, str(self.readme))
            _write(self.readme, text)
            for row in evidence.strangers(kept):
                _log(f"{self.readme}: no such rows yet, of {row}")


def _several(
    names: list[str], data: Path, pages: Pages, jobs: int, again: bool, checkpoint: Path | None = None
) -> None:
    from kinfolk.papers import harness

    pages.check()
    done: list[Any] = []
    if not names:  # the pages alone, of what there is
        pages.write(done)
    try:
        listed = {n: EXPERIMENTS[n] for n in names}
        for result in harness.run_all(listed, data, pages.folder, _log, jobs, again, checkpoint):
            done.append(result)
            pages.write(done)
    except KeyboardInterrupt:
        _log(f"interrupted; {len(done)} results are in {pages.folder}, and the same command goes on from there")
        raise typer.Exit(130) from None
    rows = [(r.experiment, harness.state(r), "" if r.fault else f"{r.seconds:.0f} s") for r in done]
    show([], Table(("experiment", "state", "time"), rows, words=2))
    written = ", ".join(str(path) for path in (pages.report, pages.markdown, pages.readme) if path is not None)
    _log(f"wrote {written}, and each result in {pages.folder}")
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
