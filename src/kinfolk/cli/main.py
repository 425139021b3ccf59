"""`kinfolk`: noun, then verb. Mistakes in the input end in one message and exit status 2."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import Annotated

import typer

from kinfolk import __version__
from kinfolk.cli import demo, reproduce, tokens
from kinfolk.errors import KinfolkError

app = typer.Typer(
    help="Label things by the company they keep.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(tokens.app, name="tokens")
app.command("demo")(demo.demo)
app.command("reproduce")(reproduce.reproduce)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"kinfolk {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log what happens to standard error.")] = False,
) -> None:
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, format="%(message)s", stream=sys.stderr)
    if not verbose:
        logging.getLogger("numba").setLevel(logging.WARNING)


def run() -> None:
    """Entry point of the command."""
    warnings.showwarning = lambda message, *_: typer.echo(f"warning: {message}", err=True)
    try:
        app()
    except KinfolkError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(2) from None
    except BrokenPipeError:  # the reader of our output went away, as `head` does: no fault of anybody
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except KeyboardInterrupt:
        typer.echo("interrupted; nothing was written", err=True)
        raise SystemExit(130) from None
    except MemoryError:
        typer.echo("error: out of memory; use fewer features (min_count) or less data at a time", err=True)
        raise SystemExit(2) from None
