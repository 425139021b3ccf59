"""One column of a table, whatever library holds the table, as a plain array or as strings.

What a column may be is told by its kind:

    whole   int64 or uint64 array, nothing missing
    number  float64 array, NaN = missing
    truth   float64 array of 0 and 1, NaN = missing
    text    strings, None = missing; an empty string is missing too, as it is in a file
    mixed   a list of strings, numbers and truth values together, None = missing
    other   dates, lists and the rest, which no model takes as they are
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.labels import is_unknown

PIECE = 1 << 20  # strings made at a time: a column of ten million would fill a gigabyte


class Column(NamedTuple):
    kind: str
    values: Any
    told: str  # the type in the words of whoever holds the table, for messages
    type: str = "str"  # of its values as labels: one of `labels.TYPES`, or "mixed"


def series_column(series: Any) -> Column:
    """The column a narwhals series holds."""
    import narwhals.stable.v2 as nw

    dtype, told = series.dtype, str(series.dtype)
    if not len(series):  # without a value the type means little: pandas says object, polars null
        return Column("number", np.empty(0), told)
    if dtype == nw.String:
        return Column("text", series, told)
    if dtype in (nw.Categorical, nw.Enum):
        kind = series_column(series.cat.get_categories()).type
        if kind == "str":
            return Column("text", series.cast(nw.String), told)
        values = series.to_list()  # pandas, asked to cast them, writes 1.0 for 1 where a value is missing
        return Column("text", [None if is_unknown(value) else str(value) for value in values], told, kind)
    if dtype == nw.Object:
        return object_column(series.to_list())
    if dtype == nw.Boolean:
        return Column("truth", _with_gaps(series, False), told, "bool")
    if dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128):
        if series.null_count():
            return Column("number", _with_gaps(series, 0), told, "int")
        return Column("whole", _whole(series.to_numpy()), told, "int")
    if dtype.is_numeric():
        return Column("number", series.cast(nw.Float64).to_numpy().astype(np.float64), told, "float")
    if int(series.null_count()) == len(series):
        return Column("number", np.full(len(series), np.nan), told)
    return Column("other", None, told)


def _with_gaps(series: Any, fill: Any) -> NDArray[np.float64]:
    """float64 with NaN where the series has nothing. Arrow refuses to cast large numbers, so numpy does it."""
    values = series.fill_null(fill).to_numpy().astype(np.float64)
    values[series.is_null().to_numpy().astype(bool)] = np.nan
    return values  # type: ignore[no-any-return]


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.uint64 if values.dtype == np.uint64 else np.int64)


def object_column(values: Sequence[Any]) -> Column:
    """The column of Python objects: the kind that fits all that are not missing."""
    plain = [None if is_unknown(value) else value for value in values]
    types = {type(value) for value in plain} - {type(None)}
    told = " and ".join(sorted(one.__name__ for one in types)) or "nothing"
    if types and all(issubclass(one, str) for one in types):
        return Column("text", plain, told)
    if types and all(issubclass(one, bool | np.bool_) for one in types):
        return Column("truth", _floats(plain), told, "bool")
    if any(issubclass(one, bool | np.bool_) for one in types) or not all(
        issubclass(one, Real | Decimal) for one in types
    ):
        simple = all(issubclass(one, str | Real | np.bool_) for one in types)
        return Column("mixed", plain, told, "mixed") if simple else Column("other", None, told)
    kind = "int" if all(issubclass(one, Integral) for one in types) else "float"
    if types and None not in plain and kind == "int":
        try:
            return Column("whole", _whole(np.array(plain)), told, kind)
        except (OverflowError, TypeError):
            return Column("mixed", plain, told, kind)  # beyond 64 bits: good enough for an id
    return Column("number", _floats(plain), told, kind)


def _floats(values: Sequence[Any]) -> NDArray[np.float64]:
    return np.fromiter((np.nan if value is None else float(value) for value in values), np.float64, len(values))


def strings(column: Column) -> Iterator[list[str | None]]:
    """The strings of a text column in pieces, None where there is none or an empty one."""
    for start in range(0, len(column.values), PIECE):
        piece = column.values[start : start + PIECE]
        listed = piece if isinstance(piece, list) else piece.to_list()
        yield [value if isinstance(value, str) and value else None for value in listed]


def written(column: Column) -> list[str | None] | None:
    """Every value as it would be written down, None where it is missing; None if the column is of another kind.

    Numbers that are all whole are written as such: pandas makes 1.0 of 1 as soon as a value is missing.
    """
    if column.kind == "text":
        return [value for piece in strings(column) for value in piece]
    if column.kind == "whole":
        return list(map(str, column.values.tolist()))
    if column.kind == "truth":
        return [None if math.isnan(value) else str(bool(value)) for value in column.values.tolist()]
    if column.kind == "mixed":
        return [None if value is None or value == "" else str(value) for value in column.values]
    if column.kind == "number":
        values = column.values[~np.isnan(column.values)]
        known = bool(np.isfinite(values).all()) and bool((values == np.floor(values)).all())
        show = (lambda value: str(int(value))) if known else str
        return [None if math.isnan(value) else show(value) for value in column.values.tolist()]
    return None


def without_value(column: Column) -> NDArray[np.bool_]:
    """Where a column that is not `other` has nothing."""
    if column.kind == "whole":
        return np.zeros(len(column.values), bool)
    if column.kind in ("number", "truth"):
        return np.isnan(np.asarray(column.values, np.float64))
    pieces = strings(column) if column.kind == "text" else [written(column) or []]
    gaps = [np.fromiter((value is None for value in piece), bool, len(piece)) for piece in pieces]
    return np.concatenate([np.empty(0, bool), *gaps])
