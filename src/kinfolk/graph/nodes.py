"""What a model of nodes is given, in its two forms, brought to one: a Graph, or a Relational."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kinfolk.core.data import Relational
from kinfolk.core.labels import Classes
from kinfolk.core.values import BOUNDS, LARGEST_VALUE
from kinfolk.errors import InputError
from kinfolk.graph.graph import Graph
from kinfolk.text.labels import tell_unseen
from kinfolk.text.scores import token_accuracy
from kinfolk.text.weighting import class_weights

log = logging.getLogger("kinfolk")
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Nodes:
    """A graph or a relational data set, brought to one form: features as given (CSR or dense), labels and classes,
    relations, groups, ids, titles if there are any.

    Rows stand group after group. `order` is the node of the caller's in each row, None where row i is node i: what
    comes in goes through `to_rows`, what goes out through `to_nodes`.
    """

    table: Any
    labels: NDArray[np.int32]
    classes: Classes
    relations: Any
    groups: NDArray[np.int32]
    ids: Sequence[str]
    feature_names: tuple[str, ...] | None
    is_graph: bool
    data: Relational
    titles: Sequence[str] | None
    group_names: Sequence[str] | None
    order: NDArray[np.int64] | None

    @classmethod
    def of(cls, X: Any, columns: Sequence[str] | int | None = None) -> Nodes:
        """`columns`: the features a trained model knows, by name or by number."""
        if not isinstance(X, Graph | Relational):
            raise InputError(f"expected a Graph or a Relational; got {type(X).__name__}")
        order, groups = None, None
        if isinstance(X, Graph):
            data, ids, names, titles = X.relational(), X.ids, X.feature_names, X.titles
            order, groups = X.group_order, X.group_names
            rows = data.features if columns is None else X.feature_rows(columns)
            if order is not None:
                rows = rows if columns is None else rows[order]
                ids = tuple(ids[i] for i in order)
                titles = None if titles is None else tuple(titles[i] for i in order)
        else:
            rows, data, names, titles = X.features, X, None, None
            ids = tuple(str(i) for i in range(len(X)))
            width = columns if isinstance(columns, int) or columns is None else len(columns)
            if width is not None and rows.shape[1] != width:
                raise InputError(f"the model was trained on {width} features; got {rows.shape[1]}")
        known = (data.labels, data.classes, data.relations, data.groups)
        return cls(rows, *known, ids, names, isinstance(X, Graph), data, titles, groups, order)

    def to_nodes(self, rows: Array) -> Array:
        """An array with an entry a row, in the order the nodes came in."""
        if self.order is None:
            return rows
        found = np.empty_like(rows)
        found[self.order] = rows
        return found

    def to_rows(self, values: Array) -> Array:
        """An array with an entry a node, as the caller gives it, in the order of the rows."""
        return values if self.order is None else values[self.order]

    def node_at(self, row: int) -> int:
        """The number of the node in a row, as the caller counts."""
        return row if self.order is None else int(self.order[row])

    def row_of(self, node: int) -> int:
        return node if self.order is None else int(np.flatnonzero(self.order == node)[0])

    @cached_property
    def rows(self) -> sparse.csr_array:
        """The features as CSR of single precision, none of them too large for it."""
        values = self.table.data if sparse.issparse(self.table) else self.table
        if values.size and not (values.max() <= LARGEST_VALUE and values.min() >= -LARGEST_VALUE):
            entry = int((np.abs(values.ravel()) > LARGEST_VALUE).argmax())
            row = entry // self.table.shape[1]
            if sparse.issparse(self.table):
                row = int(np.searchsorted(self.table.indptr, entry, side="right")) - 1
            got = f"node {self.ids[row]!r} has {values.ravel()[entry]:g}"
            raise InputError(f"{BOUNDS}; {got}. Scale them down")
        return sparse.csr_array(self.table, dtype=np.float32)

    @property
    def names(self) -> list[str]:
        """Of the features: as given, else their numbers."""
        return [str(i) for i in range(self.table.shape[1])] if self.feature_names is None else list(self.feature_names)

    @property
    def columns(self) -> Sequence[str] | int:
        return self.table.shape[1] if self.feature_names is None else self.feature_names

    def gold(self, classes: Classes) -> NDArray[np.int32]:
        """Labels to compare predictions with. One the model does not know cannot be right: it counts as a miss."""
        table = np.append(classes.encode(self.classes.names), np.int32(-1)).astype(np.int32)
        table[:-1][table[:-1] < 0] = len(classes)
        codes = table[self.labels]
        strange = np.unique(self.labels[codes == len(classes)])
        tell_unseen([self.classes.names[i] for i in strange])
        return codes

    def codes(
        self, classes: Classes, chosen: NDArray[np.bool_] | None = None, lenient: bool = False
    ) -> NDArray[np.int32]:
        """Labels as numbers of `classes`, of all or of those `chosen` by row; one the model does not know is an error,
        or if `lenient` unknown."""
        table = np.append(classes.encode(self.classes.names), np.int32(-1)).astype(np.int32)
        labels = self.labels if chosen is None else np.where(chosen, self.labels, -1)
        codes = table[labels]
        strange = np.flatnonzero((codes < 0) & (labels >= 0))
        if len(strange) and not lenient:
            name = self.classes.names[self.labels[strange[0]]]
            raise InputError(
                f"label {name!r} of node {self.ids[strange[0]]!r} was never seen in training; the model knows "
                f"{', '.join(classes.names)}"
            )
        return codes

    def only(self, train: ArrayLike | None) -> NDArray[np.int32]:
        """The labels of the nodes to train on, -1 for the others."""
        return self.labels if train is None else np.where(self.mask(train, "train"), self.labels, np.int32(-1))

    def mask(self, given: ArrayLike, what: str) -> NDArray[np.bool_]:
        """Nodes that the argument `what` names, by truth values or by number, as truth values by row."""
        chosen = np.asarray(given if np.size(given) else np.empty(0, np.int64))
        n = len(self.labels)
        if chosen.shape == (n,) and chosen.dtype.kind in "iu" and n > 2 and set(np.unique(chosen)) == {0, 1}:
            raise InputError(f"{what} looks like a mask of 0 and 1: give truth values ({what} == 1), or node numbers")
        is_mask = chosen.dtype == bool and chosen.shape == (n,)
        is_list = chosen.ndim == 1 and chosen.dtype.kind in "iu" and 0 <= chosen.min(initial=0)
        if not is_mask and not (is_list and chosen.max(initial=-1) < n):
            raise InputError(
                f"{what} must be {n} truth values, or a list of node numbers from 0 to {n - 1}; got an array of "
                f"{chosen.dtype} of shape {chosen.shape}"
            )
        inside = np.zeros(n, bool)
        inside[chosen] = True
        return self.to_rows(inside)


def check_relations(nodes: Nodes, used: Sequence[str], not_used: Sequence[str]) -> None:
    """Refuse a graph without the links that a model was trained on: its nodes would have no neighbours, and nobody
    would know. Of links that training never saw a word is said."""
    missing = [name for name in used if name not in nodes.relations]
    if missing:
        here = " and ".join(map(repr, nodes.relations)) or "none"
        raise InputError(
            f"the model was trained on the links {' and '.join(map(repr, used))}, and this graph has {here}: "
            f"{missing[0]!r} is missing. Name the links as in training, by link=... and inverse=..., or give an empty "
            "relation where there are no such links"
        )
    for name in sorted(set(nodes.relations) - {*used, *not_used}):
        log.warning("relation %r was not there in training, and is left out", name)


def check_within_groups(nodes: Nodes, names: Sequence[str]) -> None:
    """Of models whose inference goes group by group: none of the relations named may lead out of one."""
    for name in names:
        links = nodes.relations[name]
        source = np.repeat(np.arange(len(nodes.labels)), np.diff(links.indptr))
        across = np.flatnonzero((nodes.groups[source] != nodes.groups[links.indices]) & (links.data != 0))
        if len(across):
            ends = (int(source[across[0]]), int(links.indices[across[0]]))
            groups = [int(nodes.groups[i]) for i in ends]
            told = [str(g) if nodes.group_names is None else nodes.group_names[g] for g in groups]
            a, b = (f"{nodes.ids[i]!r} in group {group!r}" for i, group in zip(ends, told, strict=True))
            raise InputError(
                f"relation {name!r} leads from {a} to {b}, and groups are the unit of inference: put both in one "
                "group, or leave the link out"
            )


def node_accuracy(gold: NDArray[np.int32], beliefs: Array) -> float:
    """Percent of the labelled nodes whose most probable label is right."""
    if not (gold >= 0).any():
        raise InputError("scoring needs labels, and this graph has none")
    return token_accuracy(gold, beliefs.argmax(axis=1))


def no_labels_beside(y: Any) -> None:
    """Of the y that scikit-learn's habits bring along."""
    if y is not None:
        raise InputError("a graph brings its own labels: build it with labels=..., or use graph.with_labels(y)")


def node_number(nodes: Nodes, node: Any) -> int:
    """The row of a node given by id or number."""
    if isinstance(node, str):
        if node not in nodes.ids:
            raise InputError(f"there is no node {node!r} in this graph")
        return list(nodes.ids).index(node)
    n = len(nodes.labels)
    if not isinstance(node, int | np.integer) or isinstance(node, bool) or not 0 <= node < n:
        told = f"node must be an id or a number from 0, below the {n} nodes there are; got {node!r}"
        is_id = isinstance(node, int | np.integer) and str(node) in nodes.ids
        hint = f"; ids are strings: write node='{node}'; a number counts from 0" if is_id else ""
        raise InputError(told + hint)
    return nodes.row_of(int(node))


def training_labels(nodes: Nodes, train: Any) -> tuple[NDArray[np.int32], Classes]:
    """Labels of the nodes to train on, as numbers of the classes that occur among them."""
    labels = nodes.only(train)
    used = np.unique(labels[labels >= 0])
    if not len(used):
        raise InputError("training needs labels, and none of the nodes to train on has one")
    classes = nodes.classes.part(used)
    codes = np.full(len(nodes.classes) + 1, -1, np.int32)
    codes[used] = np.arange(len(used))
    return codes[labels], classes


def node_weights(nodes: Nodes, labels: Array, classes: Classes, class_weight: Any, sample_weight: Any) -> Array:
    """(n,), the weight of the class of a node times its own."""
    by_class = np.append(class_weights(labels, classes, class_weight), 1.0)[labels]
    if sample_weight is None:
        return by_class
    try:
        own = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError):
        raise InputError("sample_weight must hold numbers, one a node") from None
    if own.shape != labels.shape:
        raise InputError(f"sample_weight must have one number a node ({len(labels)}); got shape {own.shape}")
    own = nodes.to_rows(own)
    if not np.isfinite(own).all() or (own < 0).any() or not (own[labels >= 0] > 0).any():
        raise InputError("sample_weight must be finite, not negative, and not all zero")
    return np.asarray(by_class * own)
