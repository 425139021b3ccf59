"""Lists of names in text files, one entry a line."""

from __future__ import annotations

from pathlib import PurePath

from kinfolk.core.files import Source, read_utf8
from kinfolk.errors import InputError


def read_gazetteer(path: Source) -> list[str]:
    """The entries of a file: one a line, blank lines and lines that start with # left out."""
    data, name = read_utf8(path)
    lines = (" ".join(line.split()) for line in data.decode("utf-8").splitlines())
    entries = [line for line in lines if line and not line.startswith("#")]
    if not entries:
        raise InputError("no entries: expected one name a line", PurePath(name).as_posix())
    return entries
