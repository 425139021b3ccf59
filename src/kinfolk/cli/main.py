"""`kinfolk`: noun, then verb. Mistakes in the input end in one message and exit status 2.

The statuses: 0 fine, 1 a fault of kinfolk itself, 2 a mistake in input or usage, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import warnings
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from kinfolk import __version__
from kinfolk.cli.options import examples, listen, shell_words
from kinfolk.errors import KinfolkError

# -- examples at the end of help pages -----------------------------------------------------------------

EXIT_STATUS = """\b
Exit status:
  0    all is well
  1    a fault of kinfolk itself, with a traceback: please report it
  2    a mistake in the input, the options or a file, in one line
  130  interrupted (Ctrl-C); nothing was written"""
COMPLETION = """\b
Completion of words with the Tab key:
  kinfolk --install-completion
  eval "$(_KINFOLK_COMPLETE=source_bash kinfolk)"    # or source_zsh, source_fish"""
KINFOLK = "\n\n".join(
    [
        examples(
            "kinfolk tokens train --train train.conll --out ner.kinfolk",
            "kinfolk tokens tag ner.kinfolk new.conll",
            "kinfolk nodes train --nodes papers.csv --edges cites.csv --label topic \\\n"
            "    --text title --model stacked --out papers.kinfolk",
            "kinfolk records train --records customers.csv --cluster entity \\\n"
            "    --block 'key(postcode)' --block 'key(date_of_birth)' --out customers.kinfolk",
            "kinfolk explain papers.kinfolk --nodes papers.csv --edges cites.csv --node p17",
            "kinfolk tokens train --help",
        ),
        EXIT_STATUS,
        COMPLETION,
    ]
)

NO_SHELL = "error: name the shell: _KINFOLK_COMPLETE=source_bash kinfolk, or source_zsh, or source_fish"

# command -> the module that has it, loaded when it is asked for, and what the help says of it
COMMANDS = {
    "tokens": ("kinfolk.text.cli", "Tag tokens: train a tagger, tag files, evaluate."),
    "nodes": ("kinfolk.graph.cli", "Label the nodes of a graph: train a model, predict, evaluate."),
    "records": ("kinfolk.linking.cli", "Link records or mentions: train, cluster, evaluate."),
    "explain": ("kinfolk.cli.explain", "Why this label, why this link: in words or as a page."),
    "demo": ("kinfolk.cli.demo", "Train on three small worlds, and write a page about them."),
    "warm": ("kinfolk.cli.warm", "Compile all kernels now, so that no later run has to."),
    "reproduce": ("kinfolk.cli.reproduce", "Run the experiments of the papers."),
}


class Guarded(TyperGroup):
    """Faults of the input, the disk or the user end in a message and a status, whatever runs underneath."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        found = get_command(import_module(COMMANDS[cmd_name][0]).app)
        found.name = cmd_name
        return found

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def make_context(self, *given: Any, **named: Any) -> Any:
        try:
            return super().make_context(*given, **named)
        except typer.Exit as ended:
            if ended.exit_code == 1:  # --install-completion or --show-completion, and no shell it knows
                _end(2, NO_SHELL)
            raise
        except OSError as error:  # --help and --version write too
            from shellingham import ShellDetectionFailure

            if isinstance(error, ShellDetectionFailure):  # typer 0.16 lets it through
                _end(2, NO_SHELL)
            _end_of_output(error)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KinfolkError as error:
            _end(2, f"error: {shell_words().error(error)}")
        except OSError as error:
            _end_of_output(error)
        except KeyboardInterrupt:
            _end(130, "interrupted; nothing was written")
        except MemoryError:
            _end(2, "error: out of memory; use fewer features (min_count) or less data at a time")


def _end(status: int, message: str | None = None) -> NoReturn:
    if message is not None:
        typer.echo(message, err=True)
    raise typer.Exit(status)


def _end_of_output(error: OSError) -> NoReturn:
    _drop_output()
    if isinstance(error, BrokenPipeError):  # the reader of our output went away, as `head` does: no fault of anybody
        _end(0)
    _end(2, f"error: {error.filename or 'standard output'}: {error.strerror or error}")


class Closed(io.RawIOBase):
    """The standard output of a process that was started without one: whoever writes to it gets an error."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> NoReturn:
        raise OSError(errno.EBADF, "it is closed; send it to a file or a pipe")


def _drop_output() -> None:
    """What is still to be flushed when the program ends would fail again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # not a file at all, as in tests
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    cls=Guarded,
    help="Label things by the company they keep.",
    epilog=KINFOLK,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"kinfolk {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log what happens to standard error.")] = False,
) -> None:
    listen(context, verbose)


def run() -> None:
    """Entry point of the command."""
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(Closed(), write_through=True)  # type: ignore[unreachable]
    warnings.showwarning = lambda message, *_: typer.echo(f"warning: {shell_words().text(str(message))}", err=True)
    try:
        app(prog_name="kinfolk")  # however it was started: `python -m kinfolk` is the same command
    except Exception as error:
        error.add_note("This is a fault of kinfolk. Please report it, with the command and the lines above.")
        raise
