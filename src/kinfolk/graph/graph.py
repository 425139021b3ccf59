"""Nodes with features, labels and typed links: the front of the node task.

Ids, class names and group names go in as they are; what comes out is the `Relational` the models work on. Everything
is checked once, when the graph is built, and the order of the nodes is the caller's. Tables and the graphs of other
libraries come in by `from_frames`, `from_networkx`, `from_scipy` and `from_pyg`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kinfolk.core.data import Relational, read_only
from kinfolk.core.labels import Classes, Coded
from kinfolk.core.vocabulary import Vocabulary
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.data_nodes import (
    checked_ids,
    checked_links,
    checked_names,
    checked_rows,
    checked_titles,
    coded_groups,
    coded_labels,
    count_nodes,
    group_order,
)
from kinfolk.graph.sources import GraphSources

log = logging.getLogger("kinfolk")
SELF_LOOPS = ("drop", "refuse")


def _tell_lacking(columns: Sequence[str], found: NDArray[np.int32], given: Sequence[str]) -> None:
    """A word or a category that is not there is nothing odd; a number that is missing in every node is."""
    if len(columns) and not len(found):
        raise InputError(
            f"none of the model's {len(columns)} features is here: it knows {columns[0]!r}, this graph has "
            f"{', '.join(map(repr, given[:3])) or 'none'}; build both graphs from the same columns"
        )
    there = {*found.tolist()}
    lacking = [name for i, name in enumerate(columns) if i not in there and not {*name} & {"=", ":"}]
    if lacking:
        log.warning("features that are not here count as 0: %s", ", ".join(lacking[:5]) + ("..." * (len(lacking) > 5)))


class Graph(GraphSources):
    """n nodes, frozen once built.

    features       CSR or dense (n, F), finite numbers; None: nodes have none, and links and labels have to do
    labels         one a node: strings, numbers or truth values, all of one type, None or NaN = unknown; whole numbers
                   are codes into `classes` where these are strings. -1 = unknown, unless `classes` has it as a label
    relations      name -> int (E, 2), rows (source, target), meaning that source looks at target: a pair told twice is
                   one link of weight 1; or name -> SciPy sparse (n, n), row = source, entries are weights (0 = no link)
    ids            distinct strings or whole numbers (kept as strings); by default "0", "1", ...
    groups         name or number of the graph each node belongs to, in any order; numbered as they appear. Links may
                   cross groups.
    feature_names  F distinct strings: lets a trained model find its columns in another graph
    classes        all labels there may be; by default those in `labels`, sorted
    group_names    what the numbers in `groups` stand for
    titles         one string a node, None = none: what people read in reports. No model learns from them.
    self_loops     "drop" them, with a warning, or "refuse" them
    """

    __slots__ = ("_given", "_grouped", "feature_names", "group_codes", "group_names", "group_order", "ids", "titles")

    _given: Relational
    _grouped: Relational | None
    ids: tuple[str, ...]
    group_codes: NDArray[np.int32]
    """int32 (n,), index into `group_names`."""
    group_order: NDArray[np.int64] | None
    """The nodes group after group, as `relational()` has them; None: they came so."""
    feature_names: tuple[str, ...] | None
    group_names: tuple[str, ...]
    titles: tuple[str, ...] | None

    def __init__(
        self,
        features: Any,
        labels: Sequence[Any] | ArrayLike | Coded | None = None,
        relations: Mapping[str, Any] | None = None,
        ids: Iterable[str | int] | None = None,
        groups: Sequence[str | int] | ArrayLike | None = None,
        feature_names: Iterable[str] | None = None,
        classes: Iterable[Any] | None = None,
        group_names: Iterable[str] | None = None,
        titles: Iterable[str | None] | None = None,
        *,
        self_loops: str = "drop",
    ) -> None:
        if self_loops not in SELF_LOOPS:
            raise SettingError(f"self_loops must be one of {', '.join(SELF_LOOPS)}; got {self_loops!r}")
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
        put("_given", Relational(table, codes, known, links, numbers if order is None else None))
        put("_grouped", self._given if order is None else None)
        put("group_codes", read_only(numbers))
        put("group_order", order)
        put("ids", checked_ids(ids, n))
        put("feature_names", None if feature_names is None else checked_names(feature_names, width))
        put("group_names", names)
        put("titles", checked_titles(titles, n))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Graph is frozen: build a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Graph is frozen: it keeps {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and sent to other processes by building it anew, so the copy is read-only too."""
        return Graph, self._parts(self._coded)

    def _parts(self, labels: Coded) -> tuple[Any, ...]:
        names = (self.feature_names, None, self.group_names, self.titles)
        return self.features, labels, dict(self.relations), self.ids, self.group_codes, *names

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
            object.__setattr__(self, "_grouped", Relational(*parts))  # made once
        assert self._grouped is not None
        return self._grouped

    def with_labels(
        self, labels: Sequence[Any] | ArrayLike | None, classes: Iterable[Any] | None = None
    ) -> Graph:
        """The same nodes with other labels; the classes stay unless they are given or there were none."""
        known = self.classes if classes is None and len(self.classes) else classes
        return Graph(*self._parts(coded_labels(labels, self.n_nodes, known)))

    def labels_at(self, nodes: ArrayLike) -> Graph:
        """The same graph with the labels of these nodes alone, a mask (n,) or indices: for searches."""
        hidden = np.ones(self.n_nodes, bool)
        hidden[checked_rows(nodes, self.n_nodes)] = False
        return Graph(*self._parts(self._coded._replace(codes=np.where(hidden, -1, self.label_codes))))

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise InputError(
            "a graph is no array, and scikit-learn cannot cut it into folds: its nodes are linked. Search over numbers "
            "of nodes, as in cross_val_score(make_pipeline(FunctionTransformer(graph.labels_at), model), "
            "np.arange(len(graph))); the graph stays whole, and the nodes of a fold lend their labels"
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

    def subset(self, nodes: ArrayLike) -> Graph:
        """The nodes of a mask (n,) or of a list of indices, in that order, with the links among them."""
        rows = checked_rows(nodes, self.n_nodes)
        return Graph(
            self.features[rows],
            self._coded._replace(codes=self.label_codes[rows]),
            {name: links[rows][:, rows] for name, links in self.relations.items()},
            [self.ids[i] for i in rows],
            self.group_codes[rows],
            self.feature_names,
            None,
            self.group_names,
            None if self.titles is None else [self.titles[i] for i in rows],
        )

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
                    "cannot be matched; build both graphs with feature_names=..."
                )
            return self.features
        if columns is self.feature_names or tuple(columns) == self.feature_names:
            return self.features
        place = Vocabulary(columns).encode(self.feature_names)
        kept = np.flatnonzero(place >= 0)
        _tell_lacking(columns, place[kept], self.feature_names)
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
