"""What is disturbed: commands in this process, on small files that are there without training anything."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import tarfile
import warnings
from collections.abc import Iterator
from pathlib import Path

NET = Path(__file__).parents[1] / "net" / "models.tar.xz"


def small_files(folder: Path) -> Path:
    """Models of every task and data to ask them about: crf.kinfolk, test.conll, linker.kinfolk, customers.csv, ..."""
    with tarfile.open(NET) as archive:
        archive.extractall(folder, filter="data")
    return folder


def command(*words: object) -> None:
    """A command in this process, which has nothing else to do afterwards."""
    from kinfolk.cli.main import run

    sys.argv = ["kinfolk", *map(str, words)]
    run()


class Refused(Exception):
    """A command that ended in a message and status 2."""


def kinfolk(*words: object) -> str:
    """A command in this process; what it wrote to standard output. Any other end than 0 or 2 is an error."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True), io.StringIO()
    with _as_a_program(["kinfolk", *map(str, words)]), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        from kinfolk.cli.main import run

        try:
            run()
        except SystemExit as end:
            assert end.code in (0, 2, None), f"status {end.code}: {err.getvalue()}"
            if end.code == 2:
                raise Refused(err.getvalue()) from None
    return out.buffer.getvalue().decode()  # type: ignore[attr-defined, no-any-return]


@contextlib.contextmanager
def _as_a_program(arguments: list[str]) -> Iterator[None]:
    before, handlers = (sys.argv, warnings.showwarning), list(logging.getLogger("kinfolk").handlers)
    sys.argv = arguments
    try:
        yield
    finally:
        sys.argv, warnings.showwarning = before
        logging.getLogger("kinfolk").handlers[:] = handlers
