"""What the parts of `Mentions` have to be, told with the first thing that is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.core.column import Column
from kinfolk.core.data import read_only
from kinfolk.errors import InputError

Attribute = Column | NDArray[np.float64]  # strings (code -1 = missing) or numbers (NaN = missing)


def checked_pairs(
    left: ArrayLike, right: ArrayLike, groups: NDArray[np.int32], first_table: int | None
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    a, b = np.asarray(left, np.int32), np.asarray(right, np.int32)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"left and right must be rows of one length; got {a.shape} and {b.shape}")
    if not len(a):
        return a, b
    if a.min() < 0 or b.max() >= len(groups) or (a >= b).any():
        wanted = f"expected left < right among {len(groups)} items"
        at = int(np.flatnonzero((a < 0) | (b >= len(groups)) | (a >= b))[0])
        raise InputError(f"pair {at} is ({a[at]}, {b[at]}): {wanted}; with_pairs() puts pairs in order")
    steps = np.diff(b)
    if (steps < 0).any() or ((steps == 0) & (np.diff(a) <= 0)).any():
        raise InputError("pairs must be in order of right and then left, each once; with_pairs() puts them in order")
    if (groups[a] != groups[b]).any():
        at = int(np.flatnonzero(groups[a] != groups[b])[0])
        raise InputError(f"pair ({a[at]}, {b[at]}) joins two groups; items of different documents are never compared")
    if first_table is not None and ((a >= first_table) | (b < first_table)).any():
        at = int(np.flatnonzero((a >= first_table) | (b < first_table))[0])
        raise InputError(f"pair ({a[at]}, {b[at]}) lies within one of the two tables; expected one item from each")
    return a, b


def checked_clusters(clusters: ArrayLike, groups: NDArray[np.int32]) -> NDArray[np.int32]:
    numbers = np.asarray(clusters, np.int32)
    if numbers.shape != groups.shape:
        raise InputError(f"expected a cluster for each of {len(groups)} items, -1 if not known; got {numbers.shape}")
    known = np.flatnonzero(numbers >= 0)
    first = np.full(int(numbers.max(initial=-1)) + 1, -1, np.int64)
    first[numbers[known[::-1]]] = known[::-1]
    astray = known[groups[first[numbers[known]]] != groups[known]]
    if len(astray):
        a, b = int(first[numbers[astray[0]]]), int(astray[0])
        raise InputError(f"items {a} and {b} share cluster {numbers[b]} but not the group; number clusters apart")
    return read_only(numbers)


def as_attribute(name: str, given: Any) -> Attribute:
    """A column of strings or of numbers, whatever it came as."""
    if isinstance(given, Column):
        return given
    values = np.asarray(given)
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    listed = list(given)
    if all(value is None or isinstance(value, str) for value in listed):
        return Column.from_strings(value or None for value in listed)
    if all(value is None or isinstance(value, int | float | np.number) for value in listed):
        return np.array([np.nan if value is None else float(value) for value in listed])
    raise InputError(f"column {name!r} must hold strings or numbers, None for missing; got {listed[:3]!r}")
