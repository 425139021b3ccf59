"""What is told of nodes, checked and numbered: labels, groups, ids, names, titles and links, for `Graph`.

Each function takes what the caller wrote and gives what `Relational` stores, or says which node is at fault.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kinfolk.core.labels import Classes, Coded, label_names
from kinfolk.core.vocabulary import Vocabulary
from kinfolk.errors import InputError

log = logging.getLogger("kinfolk")
UNKNOWN = "-1"  # the label of nobody, where labels are numbers


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def _per_node(values: Any, n: int, what: str) -> list[Any]:
    given = [values] if isinstance(values, str) else list(values)
    if len(given) != n:
        raise InputError(f"{what} must have one entry a node ({n}); got {len(given)}")
    return given


def count_nodes(told: Iterable[Any], links: Iterable[Any]) -> int:
    """How many nodes there are, by the first thing that is told of each of them, or by a matrix of links."""
    for one in told:
        if isinstance(one, Coded):
            return len(one.codes)
        if hasattr(one, "__len__") and not isinstance(one, str):
            return len(one)
    for matrix in links:
        if sparse.issparse(matrix):
            return int(matrix.shape[0])
    raise InputError(
        "without features the labels, ids, groups, titles or a matrix of links have to tell how many nodes there are; "
        "got none of them"
    )


def _one_column(labels: Any, n: int) -> Any:
    """Labels (n,) as they are, or those of a table with one column (n, 1)."""
    shape = getattr(labels, "shape", None)
    if shape is None and isinstance(labels, list | tuple) and labels and isinstance(labels[0], list | tuple):
        shape = np.shape(np.asarray(labels, object))
    if shape is None or len(shape) == 1:
        return labels
    if tuple(shape) != (n, 1) or sparse.issparse(labels):
        raise InputError(
            f"labels must be one a node ({n},); got shape {tuple(shape)}: choose one column of several, or make labels "
            "of an indicator matrix, as by classes[matrix.argmax(axis=1)]"
        )
    log.info("labels of shape %s are taken as one column", tuple(shape))
    return np.asarray(labels, object)[:, 0]


def coded_labels(labels: Any, n: int, classes: Any) -> Coded:
    """Labels as numbers of the classes: looked up among them, or numbers already.

    Whole numbers are numbers of classes where the classes are strings, else labels. A label of -1 is unknown, as None
    and NaN are, unless it is among the classes given.
    """
    if isinstance(labels, Coded):
        return labels
    known = None if classes is None else Classes.of(classes)
    if labels is None:
        return Coded(np.full(n, -1, np.int32), Classes(()) if known is None else known)
    given = _per_node(_one_column(labels, n), n, "labels")
    if given and known is not None and known.type == "str" and all(map(_is_whole, given)):
        return Coded(np.array(given, np.int64), known)
    names, kind = label_names(given)
    if kind in ("int", "float") and (known is None or UNKNOWN not in known):
        names = _without_unknown(names, known is None)
    if known is None:
        known = Classes.sorted({name for name in names if name is not None}, kind)
    strange = next((i for i, name in enumerate(names) if name is not None and name not in known), None)
    if strange is not None:
        listed, got = ", ".join(known.names[:10]), f"node {strange} has the label {given[strange]!r}"
        raise InputError(f"{got}, not one of the classes ({listed}); add it to them")
    return Coded.of(names, known)


def _without_unknown(names: list[str | None], doubtful: bool) -> list[str | None]:
    """The names with None in the place of -1; where that leaves 0 and 1 it may be meant as a label, which is told."""
    if UNKNOWN not in names:
        return names
    kept = [None if name == UNKNOWN else name for name in names]
    if doubtful and {*kept} <= {None, "0", "1"}:
        log.warning("labels of -1 are taken as unknown; where -1 is a label, give classes=[-1, ...] with all labels")
    return kept


def coded_groups(groups: Any, n: int, group_names: Any) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Groups numbered in order of appearance, and their names."""
    if groups is None:
        return np.zeros(n, np.int32), ("0",) if n else ()
    given = _per_node(groups, n, "groups")
    strange = next((i for i, group in enumerate(given) if not (_is_whole(group) or isinstance(group, str))), None)
    if strange is not None:
        raise InputError(f"groups must be names or whole numbers; node {strange} has {given[strange]!r}")
    if group_names is not None:
        table = Vocabulary(group_names)
        wrong = next((i for i, g in enumerate(given) if not (_is_whole(g) and 0 <= g < len(table))), None)
        if wrong is not None:
            allowed = f"with group_names groups must be numbers from 0 to {len(table) - 1}"
            raise InputError(f"{allowed}; node {wrong} has {given[wrong]!r}")
        given = [table[g] for g in given]
    names = [str(group) for group in given]
    number = {name: g for g, name in enumerate(dict.fromkeys(names))}
    return np.fromiter((number[name] for name in names), np.int32, n), tuple(number)


def group_order(groups: NDArray[np.int32]) -> NDArray[np.int64] | None:
    """The nodes group after group, within a group as they came; None where they stand so already."""
    return np.argsort(groups, kind="stable") if (np.diff(groups) < 0).any() else None


def checked_ids(ids: Iterable[str | int] | None, n: int) -> tuple[str, ...]:
    if ids is None:
        return tuple(map(str, range(n)))
    given = _per_node(ids, n, "ids")
    first: dict[str, int] = {}
    for i, key in enumerate(given):
        if not (isinstance(key, str) or _is_whole(key)):
            raise InputError(f"ids must be strings or whole numbers; node {i} has {key!r}")
        if first.setdefault(str(key), i) != i:
            raise InputError(f"ids must be distinct; {str(key)!r} is node {first[str(key)]} and node {i}: keep one")
    return tuple(first)


def checked_names(names: Iterable[str], width: int) -> tuple[str, ...]:
    known = Vocabulary(names).names
    strange = next((name for name in known if not isinstance(name, str)), None)
    if strange is not None or len(known) != width:
        got = f"{len(known)} names" if strange is None else repr(strange)
        raise InputError(f"feature_names must be {width} strings, one a column of the features; got {got}")
    return known


def checked_titles(titles: Iterable[str | None] | None, n: int) -> tuple[str, ...] | None:
    """An empty string where a node has none."""
    if titles is None:
        return None
    given = ["" if title is None else title for title in _per_node(titles, n, "titles")]
    strange = next((i for i, title in enumerate(given) if not isinstance(title, str)), None)
    if strange is not None:
        got = f"node {strange} has {given[strange]!r}"
        raise InputError(f"titles must be strings, None where there is none; {got}: turn it into a string or None")
    return tuple(given)


def checked_rows(nodes: ArrayLike, n: int) -> NDArray[np.int64]:
    array = np.asarray(nodes if np.size(nodes) else np.empty(0, np.int64))
    if array.shape == (n,) and array.dtype.kind == "b":
        return np.flatnonzero(array)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"a subset needs a mask ({n},) or a list of indices; got {array.dtype} {array.shape}")
    if len(array) and not 0 <= array.min() <= array.max() < n:
        raise InputError(f"nodes are numbered from 0 to {n - 1}; asked for {array.min()} to {array.max()}")
    return array.astype(np.int64)


def checked_links(name: str, given: Any, n: int, self_loops: str) -> Any:
    """CSR (n, n) without self loops; what was left out is logged."""
    repeated = 0
    if sparse.issparse(given):
        if given.shape != (n, n) or given.dtype.kind not in "fiub":
            raise InputError(f"relation {name!r} must be numbers ({n}, {n}); got {given.dtype} {given.shape}")
        pairs = sparse.coo_array(sparse.csr_array(given))  # a copy, with repeated entries added up
        source, target = pairs.coords
        weights = pairs.data if pairs.dtype.kind == "f" else pairs.data.astype(np.float64)
    else:
        edges = _checked_edges(name, given, n)
        distinct = np.unique(edges[:, 0] * n + edges[:, 1])
        source, target = np.divmod(distinct, n) if n else (distinct, distinct)
        repeated, weights = len(edges) - len(distinct), np.ones(len(distinct))
    loops = source == target
    if self_loops == "refuse" and loops.any():
        node = int(source[loops][0])
        raise InputError(f"relation {name!r} links node {node} to itself; take the link out or pass self_loops='drop'")
    if repeated or loops.any():
        told = "relation %r: %d self loops dropped, %d repeated links counted once"
        log.warning(told, name, int(loops.sum()), repeated)
    kept = ~loops & (weights != 0)
    return sparse.csr_array((weights[kept], (source[kept], target[kept])), shape=(n, n))


def _checked_edges(name: str, given: Any, n: int) -> NDArray[np.int64]:
    edges = np.asarray(given if np.size(given) else np.empty((0, 2), np.int64))
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise InputError(
            f"relation {name!r} must be whole numbers (E, 2), rows (source, target), or a SciPy sparse matrix "
            f"({n}, {n}); got {edges.dtype} {edges.shape}"
        )
    outside = np.flatnonzero((edges < 0).any(axis=1) | (edges >= n).any(axis=1))
    if len(outside):
        row = int(outside[0])
        raise InputError(
            f"relation {name!r}, row {row}: link from {edges[row, 0]} to {edges[row, 1]}, but nodes are numbered from "
            f"0 to {n - 1}; add the node or leave out the {len(outside)} links that dangle"
        )
    return edges.astype(np.int64)
