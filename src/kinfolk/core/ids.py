"""The ids of nodes in a table, and finding those that links name among them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.columns import Column, strings, without_value
from kinfolk.core.table import Table


class NodeIds:
    """The ids of a table of nodes, and where each stands; without a column of ids they are the numbers of the rows."""

    def __init__(self, table: Table, column: str | None) -> None:
        rows = Column("whole", np.arange(table.n_rows, dtype=np.int64), "numbers of rows")
        self._given = rows if column is None else id_column(table, column, "id")
        self.names = _as_strings(self._given)
        self._numbers: dict[str, int] | None = None
        check_distinct(table, self.names)

    def find(self, ids: Column) -> NDArray[np.int64]:
        """The row of each id, -1 where there is none."""
        own = self._given
        if own.kind == ids.kind == "whole" and own.values.dtype == ids.values.dtype:
            return _found_numbers(own.values, ids.values)
        if self._numbers is None:
            self._numbers = {key: i for i, key in enumerate(self.names)}
        get, pieces = self._numbers.get, strings(ids) if ids.kind == "text" else [_as_strings(ids)]
        found = [np.fromiter(map(get, piece, repeat(-1)), np.int64, len(piece)) for piece in pieces]  # type: ignore[arg-type]
        return np.concatenate([np.empty(0, np.int64), *found])


def check_distinct(table: Table, ids: Sequence[str]) -> None:
    """Refuse an id that stands in two rows."""
    if len(set(ids)) == len(ids):
        return
    first: dict[str, int] = {}
    row = next(i for i, key in enumerate(ids) if first.setdefault(key, i) != i)
    before = table.place(first[ids[row]])
    raise table.fault(f"ids must be distinct; {ids[row]!r} was in {before} already: keep one of them", row)


def id_column(table: Table, name: str, role: str) -> Column:
    """A column of ids: strings or whole numbers, none missing."""
    column = table.column(name, role)
    what = f"column {name!r} ({role})"
    if column.kind in ("truth", "other"):
        raise table.fault(f"{what}: ids must be strings or whole numbers, got {column.told}; turn them into strings")
    gaps = without_value(column)
    if column.kind == "number" and not gaps.all():
        example = column.values[~gaps][0]
        why = f", as pandas makes of whole numbers where one is missing (the first: {table.place(int(gaps.argmax()))})"
        remedy = ("leave out the rows without an id, then " if gaps.any() else "") + "turn it into int64 or strings"
        got = f"got fractional numbers like {example}{why if gaps.any() else ''}"
        raise table.fault(f"{what}: ids must be strings or whole numbers, {got}; {remedy}")
    if gaps.any():
        row, count = int(gaps.argmax()), int(gaps.sum())
        raise table.fault(f"{what}: the id is missing here and in {count - 1} other rows; leave these rows out", row)
    for row, value in enumerate(column.values if column.kind == "mixed" else ()):
        if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
            raise table.fault(f"{what}: ids must be strings or whole numbers, got {value!r}; turn it into one", row)
    return column


def _as_strings(ids: Column) -> list[str]:
    if ids.kind == "text":
        return [key for piece in strings(ids) for key in piece if key is not None]
    return list(map(str, ids.values.tolist() if ids.kind == "whole" else ids.values))


def _found_numbers(ids: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Where each of many numbers stands among `ids`, -1 = nowhere."""
    low, high = int(ids.min()), int(ids.max())
    if high - low <= 8 * len(ids) + 1024:  # numbers that lie close: a table of them is the quickest
        row = np.full(high - low + 1, -1, np.int64)
        row[(ids - ids.dtype.type(low)).astype(np.int64)] = np.arange(len(ids))
        inside = (wanted >= low) & (wanted <= high)
        return np.where(inside, row[np.where(inside, wanted - wanted.dtype.type(low), 0).astype(np.int64)], -1)
    order = np.argsort(ids)
    at = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    return np.where(ids[order][at] == wanted, order[at], -1)
