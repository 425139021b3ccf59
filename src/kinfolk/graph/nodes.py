"""What a model of nodes is given, in its two forms, brought to one: a Graph, or a Relational."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kinfolk.collective.relations import Neighbourhood, Relation
from kinfolk.collective.templates import Count, NeighbourTemplate, Over, TemplateSet, as_templates
from kinfolk.core.beside import Table, beside
from kinfolk.core.data import (
    BOUNDS,
    LARGEST_VALUE,
    NO_WEIGHT,
    Classes,
    Relational,
    class_weights,
    sample_weights,
    warn_unseen,
)
from kinfolk.core.modelfile import ModelFile, fits, names_in
from kinfolk.core.table import id_name
from kinfolk.errors import DataWarning, InputError, SettingError, warn
from kinfolk.graph.asked import check_length, check_no_flags, numbered, plain_array, rows_named
from kinfolk.graph.graph import Graph
from kinfolk.graph.learners import one_table
from kinfolk.graph.link_features import part_of, with_empty_parts
from kinfolk.graph.trained_columns import warn_by_position

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

    def told(self) -> tuple[Any, ...]:
        """All that models look at, for a digest."""
        known = self.labels, self.classes, dict(self.relations), self.groups, list(self.ids)
        return self.table, *known, self.feature_names, self.order

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
            if columns is not None:
                warn_by_position(columns, rows.shape[1])
        known = (data.labels, data.classes, data.relations, data.groups)
        return cls(rows, *known, ids, names, isinstance(X, Graph), data, titles, groups, order)

    @classmethod
    def by_ids(cls, X: Any) -> Nodes:
        """The same with rows in order of the names of groups and of ids, so that what is drawn and added up by row does
        not depend on the order of the table. Where no ids were given they are the numbers of rows, in order already.
        """
        nodes = cls.of(X)
        order, rank = (None, None) if not nodes.is_graph else _order_of_ids(X)
        if order is None or rank is None:
            return nodes
        links = {name: table[order][:, order] for name, table in X.relations.items()}
        groups = rank[X.group_codes][order]
        data = Relational(X.features[order], X.label_codes[order], X.classes, links, groups, True)
        ids, titles = (None if one is None else tuple(one[i] for i in order.tolist()) for one in (X.ids, X.titles))
        names = [X.group_names[g] for g in np.argsort(rank)]
        known = (data.labels, data.classes, data.relations, data.groups)
        return cls(data.features, *known, ids or (), X.feature_names, True, data, titles, names, order)

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

    def refuse_missing(self, whose: str) -> None:
        """Of a model, or a base, that takes no features that are missing."""
        values = self.table.data if sparse.issparse(self.table) else self.table
        if values.dtype.kind != "f" or not np.isnan(values).any():
            return
        cells = sparse.coo_array(self.table) if sparse.issparse(self.table) else None
        row, column = np.nonzero(np.isnan(self.table)) if cells is None else cells.coords
        gaps = np.arange(len(row)) if cells is None else np.flatnonzero(np.isnan(cells.data))
        first = gaps[0]
        raise InputError(
            f"features must be numbers for {whose}; {self.names[int(column[first])]!r} of node "
            f"{self.ids[int(row[first])]!r} is missing (NaN), as are {len(gaps):,} in all: fill them in, or leave it "
            "to a pool, StackedNodes(), or to a base that takes NaN, such as HistGradientBoostingClassifier()"
        )

    @cached_property
    def rows(self) -> sparse.csr_array:
        """The features as CSR of single precision, none of them too large for it."""
        self._check_size()
        return sparse.csr_array(self.table, dtype=np.float32)

    @cached_property
    def wide_rows(self) -> Table:
        """The same for products in which dense columns stay dense: where most entries are no zeros."""
        self._check_size()
        n, width = self.table.shape
        entries = self.table.nnz if sparse.issparse(self.table) else np.count_nonzero(self.table)
        if 2 * entries <= n * width:
            return self.rows
        full = self.table.astype(np.float32).toarray() if sparse.issparse(self.table) else self.table
        return beside(sparse.csr_array((n, 0), dtype=np.float32), np.ascontiguousarray(full, np.float32))

    def _check_size(self) -> None:
        values = self.table.data if sparse.issparse(self.table) else self.table
        if values.size and not (values.max() <= LARGEST_VALUE and values.min() >= -LARGEST_VALUE):
            entry = int((np.abs(values.ravel()) > LARGEST_VALUE).argmax())
            row = entry // self.table.shape[1]
            if sparse.issparse(self.table):
                row = int(np.searchsorted(self.table.indptr, entry, side="right")) - 1
            got = f"node {self.ids[row]!r} has {values.ravel()[entry]:g}"
            raise InputError(f"{BOUNDS}; {got}. Scale them down")

    @property
    def names(self) -> list[str]:
        """Of the features: as given, else their numbers."""
        return [str(i) for i in range(self.table.shape[1])] if self.feature_names is None else list(self.feature_names)

    @property
    def columns(self) -> Sequence[str] | int:
        return self.table.shape[1] if self.feature_names is None else self.feature_names

    def gold(self, classes: Classes, asked: NDArray[np.bool_] | bool = True) -> NDArray[np.int32]:
        """Labels to compare predictions with. One the model does not know cannot be right: it counts as a miss, of
        which a word is said where its node is `asked` for."""
        codes = self.codes(classes, lenient=True)
        unseen = (codes < 0) & (self.labels >= 0) & asked
        warn_unseen([self.classes.names[i] for i in np.unique(self.labels[unseen])])
        return np.where(unseen, np.int32(len(classes)), codes)

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
        """Nodes that the argument `what` names, by truth values, number or id, as truth values by row."""
        chosen, n = plain_array(given), len(self.labels)
        inside = np.zeros(n, bool)
        if chosen.ndim == 1 and chosen.dtype.kind in "OUT":  # ids
            inside[rows_named(chosen.tolist(), self.ids, what)] = True
            return inside
        if chosen.ndim == 1 and chosen.dtype.kind == "b":
            check_length(chosen, n, what)
        if chosen.dtype.kind in "iu":
            check_no_flags(chosen, n, what)
        is_mask = chosen.dtype == bool and chosen.shape == (n,)
        is_list = chosen.ndim == 1 and chosen.dtype.kind in "iu" and 0 <= chosen.min(initial=0)
        if not is_mask and not (is_list and chosen.max(initial=-1) < n):
            raise InputError(
                f"{what} must be {n} truth values, or a list of node numbers from 0 to {n - 1}, or of ids; got an "
                f"array of {chosen.dtype} of shape {chosen.shape}"
            )
        inside[chosen] = True
        return self.to_rows(inside)


def _order_of_ids(graph: Graph) -> tuple[NDArray[np.int64] | None, NDArray[np.int32] | None]:
    """The nodes in order of groups and ids, and of each group its place; None where they stand so. Shorter names come
    first, so that numbers go by their size."""
    n, names, ids = graph.n_nodes, graph.group_names, graph.ids
    rank = np.empty(len(names), np.int32)
    rank[sorted(range(len(names)), key=lambda g: (len(names[g]), names[g]))] = np.arange(len(names))
    groups = rank[graph.group_codes].tolist()
    order = np.array(sorted(range(n), key=lambda i: (groups[i], len(ids[i]), ids[i])), np.int64)
    return (None, None) if np.array_equal(order, np.arange(n)) else (order, rank)


def check_relations(nodes: Nodes, used: Sequence[str], not_used: Sequence[str]) -> Nodes:
    """Refuse a graph without the links that a model was trained on: its nodes would have no neighbours, and nobody
    would know. Of links that training never saw a word is said. What comes back has all that are used: links of a value
    that no link of this graph has are none."""
    there = with_empty_parts(nodes.relations, used)
    missing = [name for name in used if name not in there]
    if missing:
        here = " and ".join(map(repr, nodes.relations)) or "none"
        raise InputError(
            f"the model was trained on the links {' and '.join(map(repr, used))}, and this graph has {here}: "
            f"{missing[0]!r} is missing. {_remedy(missing[0])}"
        )
    for name in sorted(set(nodes.relations) - {*used, *not_used}):
        log.warning("relation %r was not there in training, and is left out", name)
    return nodes if len(there) == len(nodes.relations) else replace(nodes, relations=there)


def _remedy(relation: str) -> str:
    part = part_of(relation)
    if part is not None:
        return f"It is the links {part[0]!r} of one {part[1]!r}: build the graph with `link_features=[{part[1]!r}]`"
    return (
        "Name the links as in training, by `link=...` and `inverse=...`, or give an empty relation where there are no "
        "such links"
    )


def used_links(wanted: Sequence[str] | None, relations: Mapping[str, Any], ordered: bool) -> tuple[str, ...]:
    """The relations to use: those named, or all. Of two that are each other's reverse (cites, cited_by) one will do
    where both directions of a link are used anyway.
    """
    names = tuple(relations) if wanted is None else tuple(wanted)
    if wanted is None and ordered:
        kept: list[str] = []
        for name in names:
            if not any(_same_links(relations[name], relations[other].T) for other in kept):
                kept.append(name)
        names = tuple(kept)
    missing = [name for name in names if name not in relations]
    if missing:
        known = ", ".join(map(repr, relations)) or "none"
        raise InputError(f"there is no relation {missing[0]!r} here; there are: {known}")
    if not names and wanted is None:
        raise InputError(
            "this graph has no relation, so no node has a neighbour. Give it links; or set `relations=[]` for a model "
            "of the nodes alone"
        )
    return names


def _same_links(a: Any, b: Any) -> bool:
    return bool(a.nnz == b.nnz and (a.astype(bool) != sparse.csr_array(b).astype(bool)).nnz == 0)


def check_within_groups(nodes: Nodes, names: Sequence[str]) -> None:
    """Of models whose inference goes group by group: none of the relations named may lead out of one."""
    for name in names:
        links = nodes.relations[name]
        source = np.repeat(np.arange(len(nodes.labels)), np.diff(links.indptr))
        across = np.flatnonzero((nodes.groups[source] != nodes.groups[links.indices]) & (links.data != 0))
        if len(across):
            ends = (int(source[across[0]]), int(links.indices[across[0]]))
            groups = [int(nodes.groups[i]) for i in ends]
            named = [str(g) if nodes.group_names is None else nodes.group_names[g] for g in groups]
            a, b = (f"{nodes.ids[i]!r} in group {group!r}" for i, group in zip(ends, named, strict=True))
            raise InputError(
                f"relation {name!r} leads from {a} to {b}, and groups are the unit of inference: put both in one "
                "group, or leave the link out"
            )


def weighted_links(relations: Mapping[str, Any], names: Sequence[str]) -> dict[str, bool]:
    """Of the relations named that have links, whether any has another weight than 1."""
    links = {name: relations[name].data[relations[name].data != 0] for name in names if name in relations}
    return {name: bool((one != 1).any()) for name, one in links.items() if len(one)}


def warn_of_other_weights(now: Mapping[str, bool], trained: Mapping[str, bool]) -> None:
    """Of models that go by weights, where links have them and had none in training, or the other way round."""
    for was, change in (
        (True, "had weights in training, and all weigh 1 here"),
        (False, "all weighed 1 in training, and have weights here"),
    ):
        other = [name for name, weighted in trained.items() if weighted == was and now.get(name, was) != was]
        if other:
            named = " and ".join(map(repr, other))
            warn(f"the links {named} {change}: give them as in training, by `weight=...`", DataWarning)


def warn_unused_weights(nodes: Nodes, names: Sequence[str], model: str) -> None:
    """Of models to which a link is a link, whatever its weight."""
    weights = {name: nodes.relations[name].data[nodes.relations[name].data != 0] for name in names}
    unequal = [name for name, one in weights.items() if (one != one[:1]).any()]
    if unequal:
        listed = " and ".join(map(repr, unequal))
        warn(
            f"the weights of links {listed} are not used by {model}; StackedNodes and DependencyNetwork use them",
            DataWarning,
        )


def warn_of_negative(nodes: Nodes, used: Sequence[str]) -> None:
    """Of models that go by weights: what those below 0 do there, which nobody need have meant."""
    counts = {name: int((nodes.relations[name].data < 0).sum()) for name in used}
    below = [name for name, count in counts.items() if count]
    if below:
        shown = " and ".join(f"{counts[name]:,} of {nodes.relations[name].nnz:,} of {name!r}" for name in below[:2])
        shown += f" and {len(below) - 2} more relations" * (len(below) > 2)
        warn(
            f"weights of links are below 0 ({shown}): what such a neighbour says counts against its label, and may "
            "cancel what others say. Where the sign means nothing of the kind (refunds), give sizes, or weights from 0 "
            "on and the sign by `link_features`",
            DataWarning,
        )


def node_accuracy(gold: NDArray[np.int32], beliefs: Array) -> float:
    """Percent of the labelled nodes whose most probable label is right."""
    labelled = gold >= 0
    if not labelled.any():
        raise InputError("scoring needs labels, and this graph has none")
    return 100.0 * float((gold == beliefs.argmax(axis=1))[labelled].mean())


def no_labels_beside(y: Any) -> None:
    """Of the y that scikit-learn's habits bring along."""
    if y is not None:
        raise InputError("a graph brings its own labels: build it with `labels=...`, or use graph.with_labels(y)")


def node_number(nodes: Nodes, node: Any) -> int:
    """The row of a node given by id or number."""
    name, n = id_name(node), len(nodes.labels)
    row = next((i for i, key in enumerate(nodes.ids) if key == name), None) if name is not None else None
    if isinstance(node, str | Enum):
        if row is None:
            raise InputError(f"there is no node {node!r} in this graph")
        return row
    if name is None or (row is None and not 0 <= node < n):
        raise InputError(f"node must be an id or a number from 0, below the {n} nodes there are; got {node!r}")
    if not 0 <= node < n:
        assert row is not None
        return row
    by_number = nodes.row_of(int(node))
    if row not in (None, by_number):
        raise InputError(
            f"node={node} is the number of node {nodes.ids[by_number]!r} and the id of another; for the id write "
            f"`node='{node}'`, for the number `node={nodes.ids[by_number]!r}`"
        )
    return by_number


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


def warn_of_untrained(nodes: Nodes, classes: Classes) -> None:
    """Of labels that only nodes have which are not trained on: nobody can be given one."""
    there = nodes.classes.part(np.unique(nodes.labels[nodes.labels >= 0]))
    lacking = [name for name in there.names if name not in classes]
    if lacking:
        count = int(np.isin(nodes.labels, nodes.classes.encode(lacking)).sum())
        log.warning(
            "no node trained on has the label%s %s, which %s other node%s: the model cannot give it; name some of them "
            "in `train=...`, or take the label off them",
            *(
                "s" * (len(lacking) > 1),
                ", ".join(map(repr, lacking[:5])),
                f"{count:,}",
                "s have" if count > 1 else " has",
            ),
        )


def node_weights(nodes: Nodes, labels: Array, classes: Classes, class_weight: Any, sample_weight: Any) -> Array:
    """(n,), the weight of the class of a node times its own."""
    by_class = np.append(class_weights(labels, classes, class_weight), 1.0)[labels]
    if sample_weight is None:
        return by_class
    own = nodes.to_rows(sample_weights(sample_weight, len(labels), "node"))
    if not (own[labels >= 0] > 0).any():
        raise InputError(NO_WEIGHT)
    return np.asarray(by_class * own)


# -- Labels that are known when nodes are predicted, the same for every model of nodes -----------------
#
# Those of the nodes trained on are, wherever these nodes stand: a model keeps their ids and knows them again by these,
# in a graph that was sorted anew, that has grown, or that came from another file. Ids may coincide by accident (0, 1,
# 2, ... where none were given; p0, p1, p2, ... in two generated graphs). So the labels count only where the nodes look
# like those trained on, by features or by neighbours, more often than chance explains:
#
#     κ = (a - c) / (1 - c)        a  share of the nodes found again whose features or neighbours are the same
#                                  c  the same share, had the nodes been paired at random
#
# From κ = 0.9 on all are known; from ½ on only those that look so themselves; below ½ none. Features are brought up to
# date, and links are added, so either is enough. But where ids are the numbers of rows, features have to be the same:
# grids and chains of one size have the same neighbours by number, whatever they are of.

TRAIN, NONE = "train", "none"
SOME_ALIKE, ALL_ALIKE = 0.5, 0.9  # κ from which on nodes are known that look alike, and all
MOST_COMPARED = 1000  # nodes, evenly spread over those trained on
BLOCK_ROWS = 1 << 16  # rows of dense features that are looked at together


@dataclass(frozen=True, eq=False)
class Memory:
    """The nodes a model was trained on.

    ids        of these nodes
    nodes      the rows where they stood
    labels     numbers of their classes
    looks      uint64 (m, 2): numbers that stand for the features, and for the ids of the neighbours, of each
    relations  by which neighbours are meant
    weighted   of those that have links whether any had another weight than 1
    votes      (m, L) for each level but the last of stacking, cross-fitted; none where true labels are given
    """

    ids: tuple[str, ...]
    nodes: NDArray[np.int64]
    labels: NDArray[np.int32]
    looks: NDArray[np.uint64]
    relations: tuple[str, ...]
    weighted: Mapping[str, bool]
    votes: list[Array]

    @classmethod
    def of(
        cls, nodes: Nodes, labels: NDArray[np.int32], relations: Sequence[str], votes: Sequence[Array] = ()
    ) -> Memory:
        """`labels` (n,) by row, -1 for those not trained on; `votes` have the rows of the others."""
        rows = np.flatnonzero(labels >= 0)
        ids = tuple(nodes.ids[i] for i in rows.tolist())
        there, weighted = tuple(relations), weighted_links(nodes.relations, relations)
        return cls(ids, rows, labels[rows], looks(nodes, rows, relations), there, weighted, list(votes))

    def known(self, nodes: Nodes) -> NDArray[np.int32]:
        """(n,) by row, the labels of nodes trained on, -1 for the others."""
        found = np.full(len(nodes.labels), -1, np.int32)
        rows, which = self.again(nodes)
        found[rows] = self.labels[which]
        return found

    def scored(self, nodes: Nodes, asked: NDArray[np.bool_] | bool = True) -> Known:
        """The same where answers are scored, and nodes that are known do not count. If no others of those `asked` for,
        by row, have a label, those trained on are scored, but then their labels are not known."""
        found, labelled = self.known(nodes), (nodes.labels >= 0) & asked
        if not labelled.any() or (labelled & (found < 0)).any():
            return Known(found, trained=True)
        warn(
            "every node with a label was trained on: they are scored without their labels being known, and far too "
            "well; keep some back with `fit(graph, train=...)`",
            DataWarning,
        )
        return Known(np.full(len(labelled), -1, np.int32))

    @cached_property
    def _number(self) -> dict[str, int]:
        return {key: i for i, key in enumerate(self.ids)}

    def again(self, nodes: Nodes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of a graph in which nodes trained on stand, and which of them; none where it is another graph."""
        rows, which = self.with_the_same_id(nodes.ids)
        some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_COMPARED)).astype(np.int64))
        some = np.sort(np.argsort(which)[some])  # the same ones whatever the order of the graph
        compared = self._compared(nodes, rows[some], which[some])
        if compared is None or compared.likeness >= ALL_ALIKE:
            return rows, which
        taken = "they are taken for others, and {} known; give known labels by `forced=True`"
        if compared.likeness >= SOME_ALIKE:
            now = looks(nodes, rows, self.relations)
            alike = _same(self.looks[which], now)[:, compared.by].any(axis=1)
            number = f"{(~alike).sum():,} of {len(rows):,} nodes with ids of nodes trained on no longer have "
            warn(f"{number}{compared.named(' or ')}: {taken.format('their labels are not')}", DataWarning)
            return rows[alike], which[alike]
        if compared.share:
            percent = f"{100 * compared.share:.{0 if compared.share >= 0.01 else 1}f} %"
            part = f"only {percent} of them look like these by {compared.named(' or ')}"
        else:
            part = ("neither " if len(compared.by) == 2 else "not ") + compared.named(" nor ")
        message = f"{len(rows):,} nodes have ids of nodes trained on, but {part}: {taken.format('no label is')}"
        if numbered(nodes.ids):  # nobody's ids
            log.info("%s", message)
        else:
            warn(message, DataWarning)
        return rows[:0], which[:0]

    def with_the_same_id(self, ids: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows, and which of those trained on they are."""
        stood = self.nodes.tolist()
        if stood and stood[-1] < len(ids) and all(ids[i] == key for i, key in zip(stood, self.ids, strict=True)):
            return self.nodes, np.arange(len(stood))
        found = np.fromiter(map(self._number.get, ids, repeat(-1)), np.int64, len(ids))  # type: ignore[arg-type]
        rows = np.flatnonzero(found >= 0)
        return rows, found[rows]

    def _compared(self, nodes: Nodes, rows: NDArray[np.int64], which: NDArray[np.int64]) -> _Compared | None:
        """None where there is nothing to compare by."""
        now = looks(nodes, rows, self.relations)
        chance = [_chance(self.looks[:, i], now[:, i]) for i in range(2)]
        by = [i for i in range(2) if chance[i] < 1][: 1 if numbered(nodes.ids) else 2]
        seen = (self.looks[which] | now)[:, by].any(axis=1)  # a node that never had anything cannot be compared
        if not seen.any():
            return None
        share = float(_same(self.looks[which], now)[seen][:, by].any(axis=1).mean())
        others = float(np.prod([1 - chance[i] for i in by]))  # 1 - c
        return _Compared(by, share, 1 - (1 - share) / others)


class _Compared(NamedTuple):
    """How far nodes look like those trained on: by features (0) and neighbours (1), the share that do, and κ."""

    by: list[int]
    share: float
    likeness: float

    def named(self, between: str) -> str:
        return between.join(("their features", "their neighbours")[i] for i in self.by)


def _chance(before: NDArray[np.uint64], now: NDArray[np.uint64]) -> float:
    """The share of pairs, one of each drawn at random, that look the same and are not empty; 1 where all do: that says
    nothing."""
    values, codes = np.unique(np.concatenate([before, now]), return_inverse=True)
    parts = codes[: len(before)], codes[len(before) :]
    shares = (np.bincount(part, minlength=len(values)) / max(len(part), 1) for part in parts)
    return float((np.multiply(*shares) * (values != 0)).sum())


def _same(before: NDArray[np.uint64], now: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """(m, 2), whether features and neighbours are the same; no features and no neighbours are not: they say nothing."""
    return np.asarray((before == now) & (now != 0))


# -- looks --------------------------------------------------------------------------------------------


def looks(nodes: Nodes, rows: NDArray[np.int64], relations: Sequence[str]) -> NDArray[np.uint64]:
    """uint64 (m, 2) of nodes by row; equal for equal features in single precision, and for the same neighbours."""
    found = np.zeros((len(rows), 2), np.uint64)
    for start in range(0, len(rows), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        found[block, 0] = _of_features(nodes.table[rows[block]])
    found[:, 1] = _of_neighbours(nodes, rows, relations)
    return found


def _of_features(table: Any) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        cells = sparse.csr_array(table).astype(np.float32)
    numbers = _mixed(cells.data.view(np.uint32).astype(np.uint64) | (cells.indices.astype(np.uint64) << np.uint64(32)))
    return _row_sums(np.where(cells.data == 0, np.uint64(0), numbers), cells.indptr)


def _of_neighbours(nodes: Nodes, rows: NDArray[np.int64], relations: Sequence[str]) -> NDArray[np.uint64]:
    found = np.zeros(len(rows), np.uint64)
    for name in relations:
        try:
            links = nodes.relations[name][rows]
        except KeyError:  # in a model file that was altered
            wrong = f"the model remembers nodes by their links {name!r}, which are not among those it uses"
            raise InputError(f"{wrong}; save it again") from None
        around, place = np.unique(links.indices, return_inverse=True)
        ids = np.fromiter((crc32(nodes.ids[i].encode()) for i in around.tolist()), np.uint64, len(around))
        found += _row_sums(_mixed(ids | (np.uint64(crc32(name.encode())) << np.uint64(32)))[place], links.indptr)
    return found


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers that stand close become numbers far apart (splitmix64), so that rows differ in their sums."""
    x = numbers + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _row_sums(cells: NDArray[np.uint64], indptr: Array) -> NDArray[np.uint64]:
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(cells, dtype=np.uint64)])
    found: NDArray[np.uint64] = sums[indptr[1:]] - sums[indptr[:-1]]
    return found


# -- what is known ------------------------------------------------------------------------------------


class Known(NamedTuple):
    """Labels known when nodes are predicted: (n,) by row, -1 for none; and whether they are those of training."""

    labels: NDArray[np.int32]
    trained: bool = False

    @property
    def any(self) -> bool:
        return bool((self.labels >= 0).any())

    @property
    def or_none(self) -> NDArray[np.int32] | None:
        """The labels; None where none is known."""
        return self.labels if self.any else None

    def without(self, row: int) -> Known:
        """All but that of one node."""
        labels = self.labels.copy()
        labels[row] = -1
        return self._replace(labels=labels)


def known_labels(
    nodes: Nodes, classes: Classes, memory: Memory | None, known: Any, forced: bool, tell: bool = True
) -> Known:
    """What the arguments `known` and `forced` of a model's `predict` mean for a graph; `tell`: in a line of the log."""
    if forced and not (isinstance(known, str) and known == TRAIN):
        raise SettingError.saying("`forced=True` says that the labels of the graph are known: leave one of the two out")
    if forced:
        return Known(nodes.codes(classes))
    if not isinstance(known, str):
        found = nodes.codes(classes, nodes.mask(known, "known"))
        if not (found >= 0).any():
            raise InputError("`known=...` names nodes whose labels the graph has, and none of these has one")
        return Known(found)
    if known not in (TRAIN, NONE):
        raise SettingError("known", known, "'train', 'none', or truth values or numbers of nodes")
    if known == NONE or memory is None:
        return Known(np.full(len(nodes.labels), -1, np.int32), known == TRAIN)
    found = memory.known(nodes)
    if tell:
        _report_known(nodes, found, classes.names)
    return Known(found, trained=True)


def known_when_scored(
    nodes: Nodes, classes: Classes, memory: Memory | None, known: Any, asked: NDArray[np.bool_] | bool = True
) -> Known:
    """The same where answers are scored: nodes that are known do not count, nor do those not `asked` for."""
    if isinstance(known, str) and known == TRAIN and memory is not None:
        found = memory.scored(nodes, asked)
        _warn_of_changed(nodes, found.labels, classes.names)
        return found
    given, labelled = known_labels(nodes, classes, memory, known, False), (nodes.labels >= 0) & asked
    if labelled.any() and not (labelled & (given.labels < 0)).any():
        raise InputError("every node with a label is known, so none is left to score: name fewer in `known=...`")
    return given


def _report_known(nodes: Nodes, known: NDArray[np.int32], classes: Sequence[str]) -> None:
    """In one line how many labels are known; a warning where that is odd."""
    number, n = int((known >= 0).sum()), len(known)
    if not number:
        return
    log.info("known labels of %s of %s nodes are used; `known='none'` to predict without", f"{number:,}", f"{n:,}")
    if number == n:
        warn(
            "every node of this graph was trained on: what comes out are the labels that went in; `known='none'` gives "
            "what the model predicts for them",
            DataWarning,
        )
    _warn_of_changed(nodes, known, classes)


def _warn_of_changed(nodes: Nodes, known: NDArray[np.int32], classes: Sequence[str]) -> None:
    here = np.array([*nodes.classes.names, None], object)[nodes.labels]
    before = np.array([*classes, None], object)[known]
    changed = int(((known >= 0) & (nodes.labels >= 0) & (here != before)).sum())
    if changed:
        warn(
            f"{changed:,} nodes that were trained on have another label here; that of training is used. Train again, "
            "or have the labels of the graph with `forced=True`",
            DataWarning,
        )


# -- model files --------------------------------------------------------------------------------------


def put_memory(state: ModelFile, memory: Memory | None) -> None:
    """Add what a model file keeps of the nodes trained on."""
    state.header["memory"] = None
    if memory is not None:
        kept = {"relations": list(memory.relations), "weighted": dict(memory.weighted), "votes": len(memory.votes)}
        state.header["memory"] = kept
        state.arrays.update({f"memory.{name}": getattr(memory, name) for name in ("nodes", "labels", "looks")})
        state.arrays.update({f"memory.votes.{k}": votes for k, votes in enumerate(memory.votes)})
        state.strings["memory.ids"] = list(memory.ids)


def restored_memory(file: ModelFile, n_labels: int) -> Memory | None:
    header = file.header.get("memory")
    if header is None:
        if "memory" not in file.header:
            warn(
                f"{file.path} was written when models did not keep the ids of the nodes trained on: no label is known "
                "by itself. Train again, or give known labels by `forced=True`",
                DataWarning,
            )
        return None
    ids = tuple(file.strings["memory.ids"])
    nodes, labels, looks = (file.arrays[f"memory.{name}"] for name in ("nodes", "labels", "looks"))
    votes = [file.arrays[f"memory.votes.{k}"] for k in range(header["votes"])]
    fits(nodes.ndim == 1 and nodes.dtype.kind == "i" and (np.diff(nodes) > 0).all() and (nodes >= 0).all())
    fits(len(ids) == len(set(ids)) == len(nodes) and looks.dtype == np.uint64 and looks.shape == (len(nodes), 2))
    fits(labels.shape == nodes.shape and labels.dtype.kind == "i" and ((labels >= 0) & (labels < n_labels)).all())
    fits(all(table.shape == (len(nodes), n_labels) and np.isfinite(table).all() for table in votes))
    weighted = header.get("weighted", {})  # a file of before does not tell
    fits(isinstance(weighted, dict) and all(isinstance(one, bool) for one in weighted.values()))
    return Memory(ids, nodes, labels, looks, names_in(header["relations"]), weighted, votes)


# -- What models of nodes with templates share: a graph made ready for learning or inference -----------


class ReadyGraph(NamedTuple):
    """A graph ready for learning or inference. `alone` are the features of a node; `wide` what stands before the votes
    of its neighbours: these, unless only aggregates count, and what templates give of the neighbours' features."""

    nodes: Nodes
    neighbourhood: Neighbourhood
    template_set: TemplateSet
    alone: Any
    wide: Any

    @classmethod
    def of(
        cls, nodes: Nodes, templates: TemplateSet | Iterable[NeighbourTemplate], n_votes: int, features: bool,
        n_jobs: int,
    ) -> ReadyGraph:  # fmt: skip
        """Templates that are no set yet learn what they need to know of the graph; `features`: whether levels above the
        base see a node's own too."""
        n, paths = len(nodes.labels), nodes.data.paths
        neighbourhood = Neighbourhood(n, n_votes, nodes.relations, nodes.table, None, n_jobs, paths, nodes.order)
        if not isinstance(templates, TemplateSet):
            templates = TemplateSet.learn(templates, neighbourhood)
        parts = [nodes.table] * features + templates.fixed(neighbourhood)
        wide = one_table(parts) if parts else np.zeros((n, 0))
        return cls(nodes, neighbourhood, templates, nodes.table, wide)


def default_templates(given: Any, nodes: Nodes, kind: type[Over]) -> list[NeighbourTemplate]:
    """The templates given, or one of a kind for every relation; Count where links have weights below 0."""
    if given is not None:
        return as_templates(given)
    if not nodes.relations:
        raise InputError("this graph has no relation, so no node has a neighbour. Give it links")
    return [(Count if (links.data < 0).any() else kind)(Relation(name)) for name, links in nodes.relations.items()]
