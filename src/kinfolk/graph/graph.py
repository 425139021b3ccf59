"""Nodes with features, labels and typed links: the front of the node task.

Ids, class names and group names go in as they are; what comes out is the `Relational` the models work on. Everything
is checked once, when the graph is built, and the order of the nodes is the caller's. Tables and the graphs of other
libraries come in by `from_frames`, `from_networkx`, `from_scipy`, `from_pyg` and `from_dgl`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from types import MappingProxyType
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kinfolk.core.data import Classes, Coded, Relational, Vocabulary, label_names, read_only
from kinfolk.core.table import Ids, id_name
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.asked import asked_rows, rows_named, split_masks
from kinfolk.graph.some_nodes import SomeNodes
from kinfolk.graph.sources import GraphSources
from kinfolk.graph.table_graphs import GraphColumns
from kinfolk.graph.trained_columns import (
    check_kinds,
    check_widths,
    new_values,
    warn_by_position,
    warn_of_lacking,
    warn_of_new_values,
)

# -- What describes nodes, checked and numbered: labels, groups, ids, names, titles and links, for `Graph` ---
#
# Each function takes what the caller wrote and gives what `Relational` stores, or says which node is at fault.

log = logging.getLogger("kinfolk")
UNKNOWN = "-1"  # the label of nobody, where labels are numbers


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def _per_node(values: Any, n: int, what: str) -> list[Any]:
    given = [values] if isinstance(values, str) else list(values)
    if len(given) != n:
        raise InputError(f"{what} must have one entry a node ({n}); got {len(given)}")
    return given


def count_nodes(given: Iterable[Any], links: Iterable[Any]) -> int:
    """How many nodes there are, by the first thing that has one for each of them, or by a matrix of links."""
    for one in given:
        if isinstance(one, Coded):
            return len(one.codes)
        if hasattr(one, "__len__") and not isinstance(one, str):
            return len(one)
    for matrix in links:
        if sparse.issparse(matrix):
            return int(matrix.shape[0])
    raise InputError(
        "without features the labels, ids, groups, titles or a matrix of links have to show how many nodes there are; "
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


def _without_unknown(names: list[str | None], guessed: bool) -> list[str | None]:
    """The names with None in the place of -1, with a warning where that leaves 0 and 1: it may be meant as a label."""
    if UNKNOWN not in names:
        return names
    kept = [None if name == UNKNOWN else name for name in names]
    if guessed and {*kept} <= {None, "0", "1"}:
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


def checked_ids(ids: Iterable[Any] | Ids | None, n: int) -> Ids:
    if isinstance(ids, Ids) and len(ids.names) == n:
        return ids
    if ids is None:
        return Ids(tuple(map(str, range(n))), np.arange(n))
    given = _per_node(ids, n, "ids")
    first: dict[str, int] = {}
    for i, key in enumerate(given):
        name = id_name(key)
        if name is None:
            raise InputError(f"ids must be strings or whole numbers; node {i} has {key!r}: turn it into a string")
        if first.setdefault(name, i) != i:
            raise InputError(f"ids must be distinct; {name!r} is node {first[name]} and node {i}: keep one")
    return Ids.of(first, given)


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
        links = sparse.csr_array(given, copy=True)
        links = links if links.dtype.kind == "f" else links.astype(np.float64)
    else:
        edges = _checked_edges(name, given, n)
        distinct = np.unique(edges[:, 0] * n + edges[:, 1])
        source, target = np.divmod(distinct, n) if n else (distinct, distinct)
        repeated = len(edges) - len(distinct)
        links = sparse.csr_array((np.ones(len(distinct)), (source, target)), shape=(n, n))
    links.sum_duplicates()
    row = np.repeat(np.arange(n, dtype=links.indices.dtype), np.diff(links.indptr))
    loops = row == links.indices
    if self_loops == "refuse" and loops.any():
        node = int(row[loops][0])
        raise InputError(f"relation {name!r} links node {node} to itself; take it out or pass `self_loops='drop'`")
    if repeated or loops.any():
        dropped = int(loops.sum())
        log.warning("relation %r: %d self loops dropped, %d repeated links counted once", name, dropped, repeated)
    links.data[loops] = 0
    links.eliminate_zeros()
    return links


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


# -- graph -----------------------------------------------------------------------------------------

SELF_LOOPS = ("drop", "refuse")


class Graph(GraphSources):
    """n nodes, frozen once built.

    features       CSR or dense (n, F), numbers; None: nodes have none, and links and labels have to do. NaN is what is
                   missing: pools of candidates take it, and bases that do; no other model
    labels         one a node: strings, numbers or truth values, all of one type, None or NaN = unknown; whole numbers
                   are codes into `classes` where these are strings. -1 = unknown, unless `classes` has it as a label
    relations      name -> int (E, 2), rows (source, target), meaning that source looks at target: a pair given twice is
                   one link of weight 1; or name -> SciPy sparse (n, n), row = source, entries are weights (0 = no link)
    ids            distinct strings, whole numbers (known by what is written) or members of an Enum (known by their
                   values); `ids` has them as strings, `node_ids` as given. By default 0, 1, ...
    groups         name or number of the graph each node belongs to, in any order; numbered as they appear. Links may
                   cross groups.
    feature_names  F distinct strings: lets a trained model find its columns in another graph
    classes        all labels there may be; by default those in `labels`, sorted
    group_names    what the numbers in `groups` stand for
    titles         one string a node, None = none: what people read in reports. No model learns from them.
    masks          parts of a split, name -> truth values or numbers of nodes: `fit(graph, train=graph.masks["train"])`
    link_features  column of links -> where parts of its numbers end, None for strings, as `from_frames` sets it
    self_loops     "drop" them, with a warning, or "refuse" them
    """

    __slots__ = (
        "_given", "_grouped", "feature_names", "group_codes", "group_names", "group_order", "ids",
        "link_features", "masks", "node_ids", "titles",
    )  # fmt: skip

    _given: Relational
    _grouped: Relational | None
    ids: tuple[str, ...]
    """What nodes are known by, as strings."""
    node_ids: NDArray[Any]
    """(n,), the ids as they were given: whole numbers, or objects (strings, members of an Enum, names of networkx)."""
    group_codes: NDArray[np.int32]
    """int32 (n,), index into `group_names`."""
    group_order: NDArray[np.int64] | None
    """The nodes group after group, as `relational()` has them; None: they came so."""
    feature_names: tuple[str, ...] | None
    group_names: tuple[str, ...]
    titles: tuple[str, ...] | None
    masks: Mapping[str, NDArray[np.bool_]]
    """Parts of a split by name, truth values (n,) each; (n, k) where there are k splits."""
    link_features: Mapping[str, tuple[float, ...] | None]
    """Columns of links that were read, each with where parts of its numbers end: give it to `from_frames` as
    `link_features` to have another graph read alike."""

    def __init__(
        self,
        features: Any,
        labels: Sequence[Any] | ArrayLike | Coded | None = None,
        relations: Mapping[str, Any] | None = None,
        ids: Iterable[Any] | None = None,
        groups: Sequence[str | int] | ArrayLike | None = None,
        feature_names: Iterable[str] | None = None,
        classes: Iterable[Any] | None = None,
        group_names: Iterable[str] | None = None,
        titles: Iterable[str | None] | None = None,
        masks: Mapping[str, Any] | None = None,
        link_features: Mapping[str, Sequence[float] | None] | None = None,
        *,
        self_loops: str = "drop",
    ) -> None:
        if self_loops not in SELF_LOOPS:
            raise SettingError("self_loops", self_loops, f"one of {', '.join(SELF_LOOPS)}")
        if features is None:
            features = np.zeros((count_nodes((labels, ids, groups, titles), (relations or {}).values()), 0))
        table = features if sparse.issparse(features) else np.asarray(features)
        if table.ndim != 2:
            raise InputError(f"features must be a table (n, F), one row a node; got shape {table.shape}")
        n, width = table.shape
        codes, known = coded_labels(labels, n, classes)
        numbers, names = coded_groups(groups, n, group_names)
        links = {name: checked_links(name, given, n, self_loops) for name, given in (relations or {}).items()}
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 (frozen below)
        order = group_order(numbers)
        put("_given", Relational(table, codes, known, links, numbers if order is None else None, True))
        put("_grouped", self._given if order is None else None)
        put("group_codes", read_only(numbers))
        put("group_order", order)
        known_by, given = checked_ids(ids, n)
        put("ids", known_by)
        put("node_ids", read_only(given))
        put("feature_names", None if feature_names is None else checked_names(feature_names, width))
        put("group_names", names)
        put("titles", checked_titles(titles, n))
        put("masks", MappingProxyType(split_masks(masks or {}, self.ids)))
        cuts = {str(name): None if cut is None else tuple(cut) for name, cut in (link_features or {}).items()}
        put("link_features", MappingProxyType(cuts))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Graph is frozen: build a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Graph is frozen: it keeps {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and sent to other processes by building it anew, so the copy is read-only too."""
        return Graph, self._parts(self._coded)

    def _parts(self, labels: Coded) -> tuple[Any, ...]:
        names = (self.feature_names, None, self.group_names, self.titles, dict(self.masks), dict(self.link_features))
        return self.features, labels, dict(self.relations), Ids(self.ids, self.node_ids), self.group_codes, *names

    @property
    def _coded(self) -> Coded:
        return Coded(self.label_codes, self.classes)

    @property
    def features(self) -> Any:
        """CSR or dense (n, F), read-only."""
        return self._given.features

    @property
    def relations(self) -> Mapping[str, Any]:
        """Name -> CSR (n, n); row i lists the nodes that i looks at."""
        return self._given.relations

    @property
    def classes(self) -> Classes:
        """The labels there may be: in their own type when iterated over, as strings in `names`."""
        return self._given.classes

    @property
    def label_codes(self) -> NDArray[np.int32]:
        """int32 (n,), index into `classes`, -1 = unknown."""
        return self._given.labels

    @property
    def labels(self) -> list[Any]:
        """One label a node, of the type it came in; None where it is unknown."""
        table = [*self.classes, None]
        return [table[code] for code in self.label_codes]

    @property
    def n_nodes(self) -> int:
        return self._given.n_instances

    @property
    def n_features(self) -> int:
        return self._given.n_features

    @property
    def n_groups(self) -> int:
        return len(self.group_names)

    def relational(self) -> Relational:
        """What the models work on: the same nodes, those of one group together; see `group_order`."""
        if self._grouped is None:
            given, order = self._given, self.group_order
            links = {name: table[order][:, order] for name, table in given.relations.items()}
            parts = (given.features[order], given.labels[order], given.classes, links, self.group_codes[order])
            object.__setattr__(self, "_grouped", Relational(*parts, missing=True))  # made once
        assert self._grouped is not None
        return self._grouped

    def with_labels(self, labels: Sequence[Any] | ArrayLike | None, classes: Iterable[Any] | None = None) -> Graph:
        """The same nodes with other labels; the classes stay unless they are given or there were none."""
        known = self.classes if classes is None and len(self.classes) else classes
        return Graph(*self._parts(coded_labels(labels, self.n_nodes, known)))

    def labels_at(self, nodes: ArrayLike, labels: Sequence[Any] | ArrayLike | None = None) -> Graph:
        """The same graph with the labels of these nodes alone, a mask (n,) or indices: for searches.

        labels   one for each of these nodes, in the place of those the graph has
        """
        rows = checked_rows(nodes, self.n_nodes)
        new = self._coded._replace(codes=self.label_codes[rows]) if labels is None else self._looked_up(labels, rows)
        codes = np.full(self.n_nodes, -1, np.int32)
        codes[rows] = new.codes
        return Graph(*self._parts(new._replace(codes=codes)))

    def _looked_up(self, labels: Any, rows: NDArray[np.int64]) -> Coded:
        """Labels of some nodes, among the classes of the graph where all of them are; sorted, as scorers expect."""
        given = _per_node(_one_column(labels, len(rows)), len(rows), "labels")
        names, kind = label_names(given)
        known = kind == self.classes.type and all(name is None or name in self.classes for name in names)
        classes = Classes.sorted(self.classes.names, kind) if known else None
        return coded_labels(given, len(rows), classes)

    def nodes_at(self, nodes: Any = None) -> SomeNodes:
        """Some nodes, for scikit-learn to cut into folds: by truth values, numbers or ids; None: all labelled ones.

        cross_val_score(model, graph.nodes_at(), cv=kf.GraphSplit(graph)): a model trained on some nodes sees the whole
        graph with the labels of these alone, and answers for the nodes it is asked for.
        """
        rows = np.flatnonzero(self.label_codes >= 0) if nodes is None else asked_rows(nodes, self.ids)
        return SomeNodes(self, rows)

    def numbers_of(self, ids: Iterable[Any]) -> NDArray[np.int64]:
        """The numbers of nodes by their ids: strings, whole numbers or members of an Enum, never numbers of rows."""
        return rows_named([ids] if isinstance(ids, str) else list(ids), self.ids, "ids")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise InputError(
            "a graph is no array, and scikit-learn cannot cut it into folds: its nodes are linked. Search over its "
            "nodes, as in cross_val_score(model, graph.nodes_at(), cv=kf.GraphSplit(graph)); the graph stays whole, "
            "and the nodes of a fold lend their labels"
        )

    def with_features(self, features: Any, feature_names: Iterable[str] | None = None) -> Graph:
        """The same nodes with other features."""
        _, *parts = self._parts(self._coded)
        parts[4] = feature_names
        return Graph(features, *parts)

    def with_relations(self, relations: Mapping[str, Any]) -> Graph:
        """The same nodes with these relations too, or in the place of those of the same name; [] is one without links.

        Given as to `Graph`.
        """
        parts = list(self._parts(self._coded))
        parts[2] = {**parts[2], **relations}
        return Graph(*parts)

    def with_masks(self, split: Mapping[str, Any]) -> Graph:
        """The same graph with `masks` for these parts of a split too, name -> truth values, numbers or ids of nodes, as
        OGB's `get_idx_split()` gives them."""
        parts = list(self._parts(self._coded))
        parts[-2] = {**self.masks, **split_masks(split, self.ids)}
        return Graph(*parts)

    def with_nodes(
        self,
        features: Any,
        relations: Mapping[str, Any] | None = None,
        ids: Iterable[Any] | None = None,
        labels: Sequence[Any] | ArrayLike | None = None,
        groups: Sequence[str | int] | ArrayLike | None = None,
        feature_names: Iterable[str] | None = None,
        titles: Iterable[str | None] | None = None,
    ) -> Graph:
        """New nodes behind those of this graph, which keep their place; a model trained before knows these again.

        features       (m, F), the same columns as in the graph unless both have names
        relations      name -> new links of a relation the graph has: pairs (source, target) of ids, or of numbers in
                       the grown graph, where new nodes are numbered from `len(graph)` on; or a SciPy sparse matrix
                       (n + m, n + m). Inverses are links of their own.
        ids            m ids that the graph does not have; may be left out where it has none of its own
        labels         None: unknown
        groups         needed where the graph has several

        The new nodes are in none of the graph's masks. From tables: `with_frames`.
        """
        from kinfolk.graph.growing import with_nodes

        return with_nodes(self, features, relations, ids, labels, groups, feature_names, titles)

    def with_frames(self, nodes: Any, edges: Any, **columns: Unpack[GraphColumns]) -> Graph:
        """New nodes from a table, with their links from another, behind those of this graph, as in `with_nodes`.

        nodes     new nodes alone, with the columns that the features of the graph were made of
        edges     links among new nodes, and between these and the others, by id
        columns   as in `Graph.from_frames`, and as the graph was made: id=, label=, link=, inverse=, directed=, ...
        """
        from kinfolk.graph.growing import with_frames

        return with_frames(self, nodes, edges, columns)

    def subset(self, nodes: ArrayLike) -> Graph:
        """The nodes of a mask (n,) or of a list of indices, in that order, with the links among them."""
        rows = checked_rows(nodes, self.n_nodes)
        return Graph(
            self.features[rows],
            self._coded._replace(codes=self.label_codes[rows]),
            {name: links[rows][:, rows] for name, links in self.relations.items()},
            self._ids_at(rows),
            self.group_codes[rows],
            self.feature_names,
            None,
            self.group_names,
            None if self.titles is None else [self.titles[i] for i in rows],
            {name: mask[rows] for name, mask in self.masks.items()},
            self.link_features,
        )

    def _ids_at(self, rows: NDArray[np.int64]) -> Ids:
        names = checked_ids([self.ids[i] for i in rows], len(rows)).names  # a node twice is refused
        return Ids(names, self.node_ids[rows])

    def feature_rows(self, columns: Sequence[str] | int) -> Any:
        """The features with the columns of another graph: its names, or how many it has if it has no names.

        Columns it does not know are left out, columns only it has are zero. Without names on both sides columns
        are matched by place, so their numbers have to agree.
        """
        if isinstance(columns, int | np.integer) or self.feature_names is None:
            width = columns if isinstance(columns, int | np.integer) else len(columns)
            if width != self.n_features:
                raise InputError(
                    f"expected {width} features, got {self.n_features}, and without names on both sides columns "
                    "cannot be matched; build both graphs with `feature_names=...`"
                )
            if self.feature_names is None:
                warn_by_position(columns, width)
            return self.features
        if columns is self.feature_names or tuple(columns) == self.feature_names:
            return self.features
        check_widths(columns, self.feature_names)
        check_kinds(columns, self.feature_names)
        place = Vocabulary(columns).encode(self.feature_names)
        kept = np.flatnonzero(place >= 0)
        warn_of_lacking(columns, place[kept], self.feature_names)
        for column, new in new_values(columns, self.feature_names).items():
            has = np.asarray((self.features[:, new] != 0).sum(axis=1)).ravel() > 0
            warn_of_new_values(column, [self.feature_names[i] for i in new], int(has.sum()), self.n_nodes)
        if sparse.issparse(self.features):
            part = self.features[:, kept]
            arrays = (part.data, place[kept][part.indices], part.indptr)
            return sparse.csr_array(arrays, shape=(self.n_nodes, len(columns)))
        rows = np.zeros((self.n_nodes, len(columns)), self.features.dtype)
        rows[:, place[kept]] = self.features[:, kept]
        return rows

    def __len__(self) -> int:
        return self.n_nodes

    def __repr__(self) -> str:
        links = ", ".join(f"{name} {r.nnz}" for name, r in self.relations.items()) or "none"
        return (
            f"Graph({self.n_nodes} nodes, {self.n_features} features, {len(self.classes)} classes, "
            f"relations: {links}, {self.n_groups} groups)"
        )
