"""Columns with several values a record: lists of texts (aliases, phone numbers), and vectors (embeddings).

A list of texts is kept as one text with a sign between them that no keyboard writes; a column of vectors as float32
(n, d), with NaN in the row of a record that has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column, is_unknown
from kinfolk.errors import InputError

SEPARATOR = "\x1f"  # ASCII's unit separator


def is_nested(values: Any) -> bool:
    """Whether the values, or those that are known, are lists or arrays themselves."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values.ndim > 1
    known = (value for value in values if not _missing(value))
    first = next(known, None)
    return isinstance(first, list | tuple | np.ndarray)


def nested_column(name: str, values: Any, ids: Sequence[str] | None = None) -> Column | NDArray[np.float32]:
    """Lists of texts as a column of joined ones; lists of numbers, all of one length, as float32 (n, d).

    ids   the names of the records, for messages
    """
    if isinstance(values, np.ndarray) and values.dtype != object:
        return _array(name, values)
    rows = [[] if _missing(value) else list(value) for value in values]
    known = [one for row in rows for one in row if not is_unknown(one)]
    if known and all(isinstance(one, int | float | np.number) and not isinstance(one, bool) for one in known):
        return _vectors(name, rows, ids)
    strange = next((i for i, row in enumerate(rows) for one in row if not isinstance(one, str | None)), None)
    if strange is not None:
        got = f"{_place(strange, ids)} has {rows[strange][:3]!r}"
        raise InputError(f"column {name!r} must hold lists of texts, or of numbers (a vector); {got}")
    return Column.from_strings(_joined(row) for row in rows)


def values_in(text: str, separator: str = SEPARATOR) -> list[str]:
    """The values that stand in a text, without blanks around them; an empty one is none."""
    return [value for one in text.split(separator) if (value := one.strip())]


def _missing(value: Any) -> bool:
    return not isinstance(value, list | tuple | np.ndarray) and is_unknown(value)


def _joined(row: Sequence[str | None]) -> str | None:
    return SEPARATOR.join(value.strip() for value in row if value and value.strip()) or None


def _array(name: str, values: NDArray[Any]) -> NDArray[np.float32]:
    if values.ndim != 2 or values.dtype.kind not in "fiu" or not values.shape[1]:
        got = f"an array of shape {values.shape} and type {values.dtype}"
        raise InputError(f"column {name!r} must hold one value a record, or one vector: numbers (n, d); got {got}")
    return _without_half(values.astype(np.float32))


def _vectors(name: str, rows: Sequence[Sequence[Any]], ids: Sequence[str] | None) -> NDArray[np.float32]:
    sizes = np.array([len(row) for row in rows])
    first = int(np.flatnonzero(sizes)[0])
    other = np.flatnonzero((sizes > 0) & (sizes != sizes[first]))
    if len(other):
        got = f"{_place(first, ids)} has {sizes[first]} of them, {_place(int(other[0]), ids)} has {sizes[other[0]]}"
        remedy = "vectors must be of one length; write numbers that are values of their own as texts"
        raise InputError(f"column {name!r} holds lists of numbers, which are taken for vectors: {got}; {remedy}")
    made = np.full((len(rows), int(sizes[first])), np.nan, np.float32)
    with np.errstate(over="ignore"):  # infinite to single precision, and missing below
        for i in np.flatnonzero(sizes).tolist():
            made[i] = [np.nan if is_unknown(one) else one for one in rows[i]]
    return _without_half(made)


def _without_half(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """A vector that lacks a number, or has an infinite one, is missing."""
    vectors[~np.isfinite(vectors).all(axis=1)] = np.nan
    return vectors


def _place(row: int, ids: Sequence[str] | None) -> str:
    return f"record {row}" if ids is None else f"record {ids[row]!r}"
