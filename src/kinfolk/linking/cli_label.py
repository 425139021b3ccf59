"""`kinfolk records label`: ask for the labels that teach most, on a page or in the terminal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli.options import Jobs, counted_warnings, examples, refuse_overwriting
from kinfolk.cli.output import Table, printable
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.cli_files import (
    SourceOptions,
    check_fits,
    check_source,
    logged_as_it_goes,
    of_texts,
    read_by,
    read_items,
    with_candidates,
)

if TYPE_CHECKING:
    from kinfolk.linking.active import ActiveLinker, FieldPair, Question
    from kinfolk.linking.linker import Linker

RECORDS_LABEL = examples(
    "kinfolk records label customers.kinfolk --records new.csv -o answers.csv",
    "kinfolk records label customers.kinfolk --records new.csv -o answers.csv --terminal",
)
KEYS: dict[str, bool | None] = {"y": True, "n": False, "u": None}


def label(
    *,
    model: Annotated[
        Path | None, typer.Argument(help="Model file to begin with. Default: one learned without labels.")
    ] = None,
    source: SourceOptions,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="CSV file of the answers, a line each; one that is there goes on.")
    ],
    terminal: Annotated[bool, typer.Option("--terminal", help="Ask here, not on a page: y, n, u, b, q.")] = False,
    port: Annotated[int, typer.Option(help="Port of the page on this computer. Default: 0, any that is free.")] = 0,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Whether to open the page in a browser.")] = True,
    seed: Annotated[int, typer.Option(help="Seed of whatever is random.")] = 0,
    jobs: Jobs = -1,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")] = False,
) -> None:
    """Ask which records match, the pairs first that teach most.

    Every answer is on disk before the next question.

    The page is served to this computer alone, at an address that nobody else can guess. Ctrl-C ends it. The file of
    answers is what --pairs of train and evaluate takes.
    """
    from kinfolk.linking.active import ActiveLinker

    check_source(source)
    if source.documents is not None:
        raise SettingError.saying("label asks about records; give --records FILE")
    if terminal and "-" in (source.records, source.other):
        raise SettingError.saying("with --terminal the answers come from standard input; name a file of records")
    refuse_overwriting(output, "--output", *read_by(source), model)
    linker = _start(model, source, seed, jobs)
    items = read_items(source)
    if model is not None:
        check_fits(items, linker.pair_set_.features, linker.clusterer_)
    items, report = with_candidates(items, source, source.block or linker.blocking or (), jobs)
    if report is not None and not quiet:
        typer.echo(str(report), err=True)
    with logged_as_it_goes(not quiet), counted_warnings():
        loop = ActiveLinker(linker, items, output, background=not terminal, random_state=seed)
        with _until_interrupted(loop):
            if terminal:
                _ask_here(loop)
            else:
                _ask_on_page(loop, source, port, open_page)
    if not quiet:
        _say_what_was_answered(loop, output, source)


def _start(model: Path | None, source: SourceOptions, seed: int, jobs: int) -> Linker:
    from kinfolk.core.modelfile import load_model
    from kinfolk.linking.linker import Linker

    if model is None:
        return Linker(blocking=source.block or None, random_state=seed, n_jobs=jobs)
    found: Any = load_model(model, kind="mentions").set_params(n_jobs=jobs)
    if of_texts(found):
        raise SettingError.saying(f"{model} was trained on documents; label asks about records")
    if source.block:
        found.set_params(blocking=source.block)
    return found  # type: ignore[no-any-return]


@contextmanager
def _until_interrupted(loop: ActiveLinker) -> Iterator[None]:
    """Ctrl-C is how the page ends: no fault, and nothing to be lost."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("", err=True)
    finally:
        loop.close(wait=False)


def _say_what_was_answered(loop: ActiveLinker, output: Path, source: SourceOptions) -> None:
    counts = loop.counts
    told = ", ".join(f"{number} {word}" for word, number in counts.items())
    typer.echo(f"{sum(counts.values())} answers in {output}: {told}", err=True)
    lacking = [word for word in ("yes", "no") if not counts[word]]
    if lacking and sum(counts.values()):
        typer.echo(f"none of them is {' or '.join(lacking)}: go on until there are both", err=True)
    typer.echo(loop.estimate_in_words(), err=True)
    if sum(counts.values()):
        typer.echo(f"to learn from them: {_training_command(loop.linker, output, source)}", err=True)


def _training_command(linker: Linker, output: Path, source: SourceOptions) -> str:
    """What can be copied into a shell: the options that say what the records are, and the rules of the model."""
    from kinfolk.linking.blocking import as_rules

    rules = [] if linker.blocking is None else [str(rule) for rule in as_rules(linker.blocking)]
    named = {name: getattr(source, name) for name in ("records", "other", "id", "delimiter", "fields", "giant")}
    given = [(f"--{name}", value) for name, value in named.items() if value is not None]
    given += [("--max-pairs", source.max_pairs)] if source.max_pairs is not None else []
    given += [("--pairs", output), *(("--block", rule) for rule in rules), ("--out", output.with_suffix(".kinfolk"))]
    words = ["kinfolk", "records", "train", *(str(word) for option in given for word in option)]
    return shlex.join(words)


# -- on a page ----------------------------------------------------------------------------------------


def _ask_on_page(loop: ActiveLinker, source: SourceOptions, port: int, open_page: bool) -> None:
    import webbrowser

    from kinfolk.linking.label_server import LabelServer

    files = " and ".join(filter(None, (source.records, source.other)))
    server = LabelServer(loop, f"Records of {files}. Keys: y, n, u, and b for the answer before.", port)
    try:
        typer.echo(f"the page is at {server.address}", err=True)
        typer.echo("for this computer alone; Ctrl-C ends it, and every answer is kept", err=True)
        if open_page:
            webbrowser.open(server.address)
        server.serve()
    finally:
        server.release()


# -- in the terminal ----------------------------------------------------------------------------------


def _ask_here(loop: ActiveLinker) -> None:
    """A question, and a line with y, n, u, b or q; the end of input ends it too."""
    updates = loop.updates
    while True:
        question = loop.ask()
        if question is None:
            typer.echo("no pair is left to ask about")
            return
        for line in _lines(question, sys.stdout.isatty()):
            typer.echo(line)
        key = _key(lambda: typer.echo("match? y, n, u (unsure), b (back), q (quit): ", nl=False))
        if key in (None, "q"):
            return
        if key == "b":
            if loop.back() is None:
                typer.echo("there is no answer to take back")
            continue
        loop.tell(question, KEYS[str(key)])
        if loop.updates != updates:
            updates = loop.updates
            typer.echo(f"model updated; {loop.estimate_in_words()}")


def _key(prompt: Callable[[], None]) -> str | None:
    """One of the keys; None: the input has ended."""
    while True:
        prompt()
        try:
            line = sys.stdin.readline()
        except UnicodeDecodeError:
            raise InputError("answers must be y, n, u, b or q, in UTF-8", "<stdin>") from None
        if not line:
            typer.echo("")
            return None
        word = line.strip().lower()
        first = {"yes": "y", "no": "n", "unsure": "u", "back": "b", "quit": "q"}.get(word, word)
        if first in (*KEYS, "b", "q"):
            return first
        typer.echo(f"expected y, n, u, b or q; got {printable(word)!r}")


def _lines(question: Question, coloured: bool) -> Iterator[str]:
    """A table of the fields, an asterisk where they differ; such lines are bold on a terminal."""
    rows = [(_mark(one), one.name, one.left or "-", one.right or "-") for one in question.fields]
    head = ("", "", question.left, question.right)
    plain = Table(head, [[printable(cell) for cell in row] for row in rows], words=4)
    yield ""
    lines = list(plain.lines())
    yield lines[0]
    for line, one in zip(lines[1:], question.fields, strict=True):
        yield typer.style(line, bold=True) if coloured and one.differs else line


def _mark(one: FieldPair) -> str:
    return "*" if one.differs else ""
