"""A table of nodes and tables of links to what `Graph` is built of: ids are matched, rows stay in order."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Classes, Coded
from kinfolk.core.table import NodeIds, Table, frame_table, id_column, is_lists, listed
from kinfolk.errors import SettingError
from kinfolk.graph.link_features import Wanted, check_named, link_columns
from kinfolk.graph.links import LinkCollector, LinkRows, LinkRules
from kinfolk.graph.node_features import NodeColumns, feature_table

log = logging.getLogger("kinfolk")
FLOAT = re.compile(r"-?\d+\.0+")
LONGEST_TITLE = 500  # characters; a text may be a whole page, and a title is only looked at


class LinkColumns(NamedTuple):
    """The parts that columns of a table of links play."""

    source: str = "source"
    target: str = "target"
    relation: str | None = None
    weight: str | None = None
    link_features: Wanted = None


class GraphColumns(TypedDict, total=False):
    """What columns of tables of nodes and of links are, and what becomes of links: the arguments of
    `Graph.from_frames`, which says what each of them means."""

    id: str | None
    label: str | None
    features: str | Sequence[str] | None
    text: str | Sequence[str] | None
    group: str | None
    missing: str
    source: str
    target: str
    relation: str | None
    weight: str | None
    link_features: Wanted
    directed: bool | None
    link: str
    inverse: str | Mapping[str, str] | None
    dangling: str
    self_loops: str
    duplicates: str


class TableParts(NamedTuple):
    """The same, by what they are about."""

    columns: NodeColumns
    ends: LinkColumns
    rules: LinkRules

    @classmethod
    def of(cls, given: GraphColumns) -> TableParts:
        """Of those that were given; a name that is none of them is refused as Python refuses it."""
        strange = next((name for name in given if name not in GraphColumns.__annotations__), None)
        if strange is not None:
            known = ", ".join(GraphColumns.__annotations__)
            raise TypeError(f"unexpected keyword argument {strange!r}; columns and links are said by {known}")
        own = {kind: {name: one for name, one in given.items() if name in kind.__annotations__} for kind in PARTS}
        return cls(*(kind(**own[kind]) for kind in PARTS))


PARTS: tuple[Any, ...] = (NodeColumns, LinkColumns, LinkRules)


# -- nodes --------------------------------------------------------------------------------------------


def graph_parts(
    nodes: Table, edges: Iterable[tuple[str | None, Table]], columns: NodeColumns, ends: LinkColumns, rules: LinkRules
) -> dict[str, Any]:
    """Arguments of `Graph` for one table of nodes and tables of links, each with the name of its links or None."""
    if not nodes.n_rows:
        raise nodes.fault("no nodes: expected a row for each, found none")
    ids = NodeIds(nodes, columns.id)
    parts = {**node_parts(nodes, ids.names, columns), "ids": ids.ids}
    return collected(nodes, ids, edges, ends, rules).made(parts, nodes.name)


def collected(
    nodes: Table, ids: NodeIds, edges: Iterable[tuple[str | None, Table]], ends: LinkColumns, rules: LinkRules
) -> LinkCollector:
    """The links of tables, each with the name of its links or None."""
    links, edges = LinkCollector(nodes.n_rows, rules, ends.link_features), list(edges)
    named = len(edges) > 1 and all(name is not None for name, _ in edges)
    if named:
        check_named(ends.link_features, [table for _, table in edges])
    for name, table in edges:
        if name is not None and ends.relation is not None:
            raise SettingError.saying(f"the links of {table.name} are named {name!r} already; relation must be None")
        names = name if ends.relation is None else table.full_names(ends.relation, "relation")
        links.add(link_rows(table, ids, ends, named), nodes.name, names)
        if not table.n_rows:
            log.warning("%s has no links", table.name)
    return links


def node_parts(nodes: Table, ids: Sequence[str], columns: NodeColumns) -> dict[str, Any]:
    """Arguments of `Graph` but its links."""
    columns.chosen(nodes)  # mistakes in what columns are come first
    labels = _labels(nodes, columns.label)
    groups = None if columns.group is None else nodes.full_names(columns.group, "group")
    features, names = feature_table(nodes, ids, columns)
    parts = {"features": features, "labels": labels, "ids": ids, "groups": groups, "feature_names": names}
    return {**parts, "titles": _titles(nodes, listed(columns.text))}


def _labels(table: Table, column: str | None) -> Coded:
    """Labels, -1 = unknown, and the classes: sorted, as numbers if all of them are numbers."""
    if column is None:
        return Coded(np.full(table.n_rows, -1, np.int32), Classes(()))
    names, kind = table.labels(column)
    found = {name for name in names if name is not None}
    classes = Classes(_in_order(found)) if kind == "str" else Classes.sorted(found, kind)
    return Coded.of(names, classes)


def _in_order(names: Iterable[str]) -> list[str]:
    """Strings that all hold numbers go by their size."""
    plain = sorted(names)
    try:
        numbers = [float(name) for name in plain]
    except ValueError:
        return plain
    return [plain[i] for i in np.argsort(numbers, kind="stable")]


def _titles(table: Table, text: Sequence[str]) -> list[str] | None:
    """The texts of each node as they are written, for people to read; None without columns of text."""
    if not text:
        return None
    written = (table.names(name, "text") for name in text)
    return [", ".join(filter(None, texts))[:LONGEST_TITLE] for texts in zip(*written, strict=True)]


# -- links --------------------------------------------------------------------------------------------


def link_rows(table: Table, ids: NodeIds, ends: LinkColumns, several: bool = False) -> LinkRows:
    """Of a table of links; `several`: whether there are others, which may have the features that this one has not."""
    given = [id_column(table, name, role) for name, role in ((ends.source, "source"), (ends.target, "target"))]
    source, target = (ids.find(column) for column in given)

    def end(row: int) -> str:
        column = given[0] if source[row] < 0 or target[row] >= 0 else given[1]
        return str(column.values[row])

    def remedy() -> str:
        return _mismatch(ids.names[0], [str(column.values[0]) for column in given], ends)

    weights, columns = link_weights(table, ends.weight), link_columns(table, ends.link_features, several)
    return LinkRows(source, target, table.fault, table.place, end, remedy, weights, columns)


def link_weights(table: Table, name: str | None) -> NDArray[np.float64] | None:
    if name is None:
        return None
    column = table.column(name, "weight")
    if column.kind not in ("whole", "number", "truth"):
        raise table.fault(f"column {name!r} (weight): expected numbers, got {column.dtype}; correct it or name another")
    weights: NDArray[np.float64] = column.values.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(weights))
    if len(wrong):
        got = "nothing" if np.isnan(weights[wrong[0]]) else weights[wrong[0]]
        remedy = "fill it in or leave the row out"
        raise table.fault(f"column {name!r} (weight): expected a finite number, got {got}; {remedy}", int(wrong[0]))
    return weights


def _mismatch(node: str, ends: Sequence[str], names: LinkColumns) -> str:
    """What to do where no id of one table is in the other."""
    seen = f"a node is {node!r}, a link goes from {ends[0]!r} ({names.source!r}) to {ends[1]!r} ({names.target!r})"
    if bool(FLOAT.fullmatch(node)) != bool(FLOAT.fullmatch(ends[0])):
        return f"{seen}: whole numbers were written as fractions in one of the tables; make them whole in both"
    if any(key != key.strip() for key in (node, *ends)):
        return f"{seen}: take the blanks away from the ids"
    return f"{seen}; do the tables belong together, and are these the columns with the ids?"


def edge_tables(edges: Any) -> list[tuple[str | None, Table]]:
    """One data frame, a list of them, or name -> frame."""
    if isinstance(edges, Mapping) and not is_lists(edges):
        return [(name, frame_table(frame, f"edges[{name!r}]")) for name, frame in edges.items()]
    if isinstance(edges, list | tuple):
        return [(None, frame_table(frame, f"edges[{i}]")) for i, frame in enumerate(edges)]
    return [(None, frame_table(edges, "edges"))]
