"""The pairs of whole blocks of records, as an engine hands them out: rows with numbers of their keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.engine import ROW
from kinfolk.core.kernels import njit

Array = NDArray[Any]
AT_ONCE = 1_000_000  # pairs looked at together; those of one record are never divided
NONE = 0  # in place of the number of a key that a record has not


def pairs_schema() -> Any:
    """The schema of pairs."""
    import pyarrow

    return pyarrow.schema([("low", "int64"), ("high", "int64")])


@dataclass(frozen=True)
class PairsOfBlocks:
    """The pairs of records of the same `unit`, but for those that share a key of a rule before.

    before   the columns of numbers of these rules' keys, of which none is NONE
    first    how many rows, from the start, are of the first of two tables, whose pairs cross them; None: one table
    base     how many rows, from the start, are of a base: pairs have another record
    """

    before: tuple[str, ...]
    first: int | None = None
    base: int = 0

    def __call__(self, table: Any) -> Iterator[Any]:
        import pyarrow

        rows, units = np.array(table.column(ROW)), np.array(_numbers(table.column("unit")))
        codes = np.empty((len(self.before), len(rows)), np.int64)
        for k, name in enumerate(self.before):
            codes[k] = _numbers(table.column(name))
        if (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows)
            rows, units, codes = rows[order], units[order], codes[:, order]
        first = -1 if self.first is None else self.first
        members, low, high = _partners(rows, units, np.argsort(units), first, self.base)
        rows, codes = rows[members], np.ascontiguousarray(codes[:, members])
        begin = 0
        while begin < len(members):
            lows, highs, begin = _spread(rows, codes, low, high, begin, AT_ONCE)
            if len(lows):
                yield pyarrow.table({"low": lows, "high": highs}, pairs_schema())


def _numbers(column: Any) -> Array:
    numbers: Array = column.fill_null(NONE).to_numpy().view(np.int64)
    return numbers


@njit(nogil=True, cache=True)
def _partners(rows: Array, units: Array, order: Array, first: int, base: int) -> tuple[Array, Array, Array]:
    """Places of the records in blocks of two or more, block by block and in order of rows; and of each its partners, a
    range of what is answered that lies before it. `order` sorts `units`."""
    n, kept = len(order), 0
    members = np.empty(n, np.int64)
    low, high = np.empty(n, np.int64), np.empty(n, np.int64)
    start, following = 0, units[order[0]] if n else 0
    while start < n:
        unit, end = following, start + 1
        while end < n:
            following = units[order[end]]
            if following != unit:
                break
            end += 1
        if end - start > 1:
            block = members[kept : kept + end - start]
            block[:] = order[start:end]
            _put_in_order(block)
            begin, ours = kept, 0
            for place in block:
                row = rows[place]
                low[kept], high[kept] = begin, begin
                if first >= 0:
                    if row < first:
                        ours += 1
                    else:
                        high[kept] = begin + ours
                elif row >= base:
                    high[kept] = kept
                kept += 1
        start = end
    return members[:kept], low[:kept], high[:kept]


@njit(nogil=True, cache=True)
def _put_in_order(places: Array) -> None:
    if len(places) > 20:
        places.sort()
        return
    for i in range(1, len(places)):
        place, j = places[i], i
        while j > 0 and places[j - 1] > place:
            places[j] = places[j - 1]
            j -= 1
        places[j] = place


@njit(nogil=True, cache=True)
def _spread(rows: Array, codes: Array, low: Array, high: Array, begin: int, most: int) -> tuple[Array, Array, int]:
    """Pairs of the records from `begin` on, and where to go on: after those that have `most` pairs together."""
    total, end = 0, begin
    while end < len(rows) and total < most:
        total += high[end] - low[end]
        end += 1
    lows, highs = np.empty(total, np.int64), np.empty(total, np.int64)
    n = 0
    for right in range(begin, end):
        for left in range(low[right], high[right]):
            known = False
            for rule in range(len(codes)):
                if codes[rule, left] == codes[rule, right] and codes[rule, left] != 0:
                    known = True
                    break
            if not known:
                lows[n], highs[n] = rows[left], rows[right]
                n += 1
    return lows[:n], highs[:n], end
