"""CSV files to tables, by the standard library's reader: what a column holds is told by all of its cells.

The first line names the columns; tabs, commas or semicolons divide cells, as that line shows; blank lines are skipped;
an empty cell is missing. A column whose other cells are all numbers holds numbers, one of true and false holds truth
values, any other strings. Columns of ids, labels and other names are kept as they are written.
"""

from __future__ import annotations

import csv
import io
import logging
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.columns import Column
from kinfolk.core.table import Table
from kinfolk.errors import InputError, SettingError

log = logging.getLogger("kinfolk")

DELIMITERS = "\t,;"  # tried in this order
ROWS = 512  # fewer than set the garbage collector going, which would then look through all cells read so far
TRUTH = {"true": 1.0, "false": 0.0}


def csv_table(data: bytes, name: str, as_written: Collection[str], delimiter: str | None = None) -> Table:
    """The table in a text; the columns `as_written` are strings whatever they look like."""
    divider = _divider(data, delimiter)
    with _long_cells():
        try:
            header, columns = _read(data, name, divider)
        except csv.Error as error:
            raise InputError(f"not a table: {error}; correct the quotes", name, _last_line(data, divider)) from None
    named = {title: column for title, column in zip(header, columns, strict=True) if title}
    if len(named) < len(header) and "" in header:
        # pandas writes its index so; the numbers of rows would be a feature
        log.warning("%s: column %d has no name and is left out", name, header.index("") + 1)
    line = partial(_line, data, divider)
    made = {
        title: partial(_strings, cells) if title in as_written else partial(_typed, cells, title, name, line)
        for title, cells in named.items()
    }
    return Table(name, made, len(columns[0]), path=name, line=line)


def _divider(data: bytes, given: str | None) -> str:
    if given is not None:
        if len(given) != 1 or given in '"\r\n':
            raise SettingError(f"delimiter must be one character, and no quote or line end; got {given!r}")
        return given
    first = data.lstrip().partition(b"\n")[0].decode()
    return next((one for one in DELIMITERS if one in first), ",")


def _records(data: bytes, divider: str) -> Any:
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    return csv.reader(text, delimiter=divider, strict=True)


@contextmanager
def _long_cells() -> Iterator[None]:
    """Texts may be longer than the reader's limit of 128 kB, which holds for the whole process."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _read(data: bytes, name: str, divider: str) -> tuple[list[str], list[list[str]]]:
    """Names of the columns, and their cells."""
    records = _records(data, divider)
    header = next((cells for cells in records if cells), None)
    if header is None:
        raise InputError("no columns: expected a line with their names, found nothing", name)
    twice = next((title for title in header if title and header.count(title) > 1), None)
    if twice is not None:
        raise InputError(f"two columns are named {twice!r}; rename one", name, records.line_num)
    columns: list[list[str]] = [[] for _ in header]
    while rows := list(islice(records, ROWS)):
        if set(map(len, rows)) != {len(header)}:
            rows = [cells for cells in rows if cells]
            for row, cells in enumerate(rows, len(columns[0])):
                if len(cells) != len(header):
                    wanted = f"expected {len(header)} cells, as many as columns in the first line"
                    what = f"{wanted}, got {len(cells)}; complete the line, and quote cells that hold {divider!r}"
                    if len(header) == 1:
                        what += ", or name the delimiter if it is not one of tab, comma and semicolon"
                    raise InputError(what, name, _line(data, divider, row))
        for column, added in zip(columns, zip(*rows, strict=True), strict=False):
            column.extend(added)
    return header, columns


def _line(data: bytes, divider: str, row: int) -> int:
    """The line in which a row begins. Found by reading again: it is asked for once, and quoted cells may hold lines."""
    records, before = _records(data, divider), 0
    with _long_cells():
        for cells in records:
            row -= bool(cells)
            if row < -1:  # the header is a row too
                break
            before = records.line_num
    return before + 1


def _last_line(data: bytes, divider: str) -> int:
    """The line at which the reader gives up."""
    records = _records(data, divider)
    try:
        for _ in records:
            pass
    except csv.Error:
        pass
    return int(records.line_num)


def _strings(cells: list[str]) -> Column:
    return Column("text", cells, "strings")


def _typed(cells: list[str], title: str, name: str, line: Callable[[int], int]) -> Column:
    numbers = _numbers(cells)
    if numbers is not None:
        return Column("number", numbers, "numbers")
    present = {cell for cell in cells if cell}
    if {cell.lower() for cell in present} <= TRUTH.keys():
        truth = (TRUTH[cell.lower()] if cell else np.nan for cell in cells)
        return Column("truth", np.fromiter(truth, np.float64, len(cells)), "truth values")
    strange = {cell for cell in present if _numbers([cell]) is None}
    if len(strange) < len(present) / 2:
        row = next(i for i, cell in enumerate(cells) if cell in strange)
        told = "%s, line %d: %r is no number, so column %r is taken for names, a feature each; empty the cell if it is "
        log.warning(told + "missing", name, line(row), cells[row], title)
    return Column("text", cells, "strings")


def _numbers(cells: list[str]) -> NDArray[np.float64] | None:
    """The cells as numbers, NaN where they are empty; None if one is no number."""
    try:
        values = np.fromiter((float(cell) if cell else np.nan for cell in cells), np.float64, len(cells))
    except ValueError:
        return None
    return None if any("_" in cell for cell in cells) else values  # Python allows 1_000, nobody else does
