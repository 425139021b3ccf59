"""Which nodes are meant: truth values, numbers or ids, brought to numbers of nodes; and parts of a split, to masks.

Nothing is guessed. Truth values have to be as many as there are nodes; a whole number that could be the number of one
node and the id of another is refused, and so is an id that nobody has. Tensors are taken for the arrays they hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import starmap
from operator import eq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import read_only
from kinfolk.core.table import id_name
from kinfolk.errors import InputError

Array = NDArray[Any]


def plain_array(given: Any) -> Array:
    """A list, series or tensor as an array; one in which ids stand, strings or members of an Enum, as objects."""
    if hasattr(given, "detach"):
        given = given.detach().cpu().numpy()
    if hasattr(given, "__array__"):
        return np.asarray(given)
    listed = list(given)
    if not any(isinstance(one, str | Enum) for one in listed):
        return np.asarray(listed, None if listed else np.int64)
    found = np.empty(len(listed), object)
    found[:] = listed
    return found


def numbered(ids: Sequence[str]) -> bool:
    """Whether ids are the numbers of rows, as where none were given."""
    return all(starmap(eq, zip(ids, map(str, range(len(ids))), strict=True)))


def rows_named(names: Sequence[Any], ids: Sequence[str], what: str) -> NDArray[np.int64]:
    """Where nodes stand that are given by id: strings, whole numbers or members of an Enum."""
    place = {key: i for i, key in enumerate(ids)}
    found = np.fromiter((place.get(id_name(key), -1) for key in names), np.int64, len(names))  # type: ignore[arg-type]
    lost = np.flatnonzero(found < 0)
    if len(lost):
        some = f", one of {len(lost)}" * (len(lost) > 1)
        raise InputError(f"{what}: there is no node {names[int(lost[0])]!r} in this graph{some}; correct the id")
    return found


def asked_rows(given: Any, ids: Sequence[str], what: str = "nodes") -> NDArray[np.int64]:
    """The numbers of the nodes that the argument `what` names, in the order they are named in."""
    n = len(ids)
    if isinstance(given, str):
        raise InputError(f"{what} must be several nodes, by truth values, numbers or ids; got {given!r}: [{given!r}]?")
    values = plain_array(given)
    if values.ndim != 1:
        raise InputError(f"{what} must be a list; got an array of shape {values.shape}: choose one column of a mask")
    if values.dtype.kind == "b":
        check_length(values, n, what)
        return np.flatnonzero(values)
    if values.dtype.kind in "iu":
        check_no_flags(values, n, what)
        return numbers_or_ids(values, ids, what)
    if values.dtype.kind in "OUT":
        return rows_named(values.tolist(), ids, what)
    raise InputError(f"{what} must be {n} truth values, or numbers or ids of nodes; got an array of {values.dtype}")


def check_length(mask: Array, n: int, what: str) -> None:
    """Refuse truth values that are not one a node."""
    if len(mask) != n:
        wanted = f"{what} must be {n} truth values, or a list of node numbers from 0 to {n - 1}, or of ids"
        raise InputError(f"{wanted}; got a mask of {len(mask)}: build it for this graph, in the order of its nodes")


def check_no_flags(values: Array, n: int, what: str) -> None:
    """Refuse a mask that is written in numbers."""
    if values.shape == (n,) and n > 2 and {*np.unique(values).tolist()} == {0, 1}:
        raise InputError(f"{what} looks like a mask of 0 and 1: give truth values ({what} == 1), or node numbers")


def numbers_or_ids(values: Array, ids: Sequence[str], what: str) -> NDArray[np.int64]:
    """Whole numbers as numbers of nodes; as ids where they can only be that."""
    n = len(ids)
    inside = (values >= 0) & (values < n)
    if inside.all() and numbered(ids):
        return values.astype(np.int64)
    place = {key: i for i, key in enumerate(ids)}
    named = np.fromiter((place.get(str(value), -1) for value in values.tolist()), np.int64, len(values))
    if inside.all():
        other = np.flatnonzero(named != values)
        if len(other) and (named >= 0).all():
            one = int(values[other[0]])
            raise InputError(
                f"{what}: {one} is the number of node {ids[one]!r} and the id of node number {named[other[0]]}; give "
                f"ids as strings, '{one}', or find their numbers with graph.numbers_of(ids), and name nodes that are "
                "meant by number in a mask or by their ids"
            )
        return values.astype(np.int64)
    if (named >= 0).all():
        return named
    lost = values[(named < 0) & ~inside]
    got = int(lost[0]) if len(lost) else int(values[~inside][0])
    raise InputError(
        f"{what}: {got} is no number of a node, from 0 to {n - 1}, and not all of them are ids; correct it"
    )


# -- splits -------------------------------------------------------------------------------------------


def masks(graph: Any, split: Mapping[str, Any]) -> dict[str, NDArray[np.bool_]]:
    """Truth values (n,) for each part of a split, to be given to `fit(graph, train=...)` and `score(graph, nodes=...)`.

    graph   a Graph
    split   name -> truth values, numbers or ids of nodes, as OGB's `get_idx_split()` gives them; arrays or tensors
    """
    return split_masks(split, graph.ids)


def split_masks(split: Mapping[str, Any], ids: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    """Of truth values (n, k), as PyTorch Geometric has for k splits, a mask for each stays a column."""
    if not isinstance(split, Mapping):
        got = type(split).__name__
        raise InputError(f"a split must be a dict, name -> truth values, numbers or ids of nodes; got {got}")
    found = {}
    for name, part in split.items():
        values, what = plain_array(part), f"masks[{name!r}]"
        if values.dtype.kind == "b" and values.ndim == 2:
            check_length(values, len(ids), what)
            found[str(name)] = read_only(values.copy())
            continue
        if values.dtype.kind in "iu" and values.ndim == 1:  # of a split, numbers are numbers
            check_no_flags(values, len(ids), what)
            rows = _inside(values, len(ids), what)
        else:
            rows = asked_rows(values, ids, what)
        mask = np.zeros(len(ids), bool)
        mask[rows] = True
        found[str(name)] = read_only(mask)
    return found


def _inside(values: Array, n: int, what: str) -> NDArray[np.int64]:
    outside = values[(values < 0) | (values >= n)]
    if len(outside):
        raise InputError(f"{what}: nodes are numbered from 0 to {n - 1}; got {outside[0]}: is the split of this graph?")
    return values.astype(np.int64)
