"""A table of nodes and tables of links to what `Graph` is built of: ids are matched, rows stay in order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.ids import NodeIds, id_column
from kinfolk.core.labels import Classes, Coded
from kinfolk.core.table import Table, listed
from kinfolk.errors import SettingError
from kinfolk.graph.feature_columns import FeatureColumns, feature_table
from kinfolk.graph.links import LinkCollector, LinkRows, LinkRules, log

FLOAT = re.compile(r"-?\d+\.0+")
LONGEST_TITLE = 500  # characters; a text may be a whole page, and a title is only looked at


class NodeColumns(NamedTuple):
    """The parts that columns of the table of nodes play."""

    id: str | None = "id"
    label: str | None = None
    features: str | Sequence[str] | None = None
    text: str | Sequence[str] | None = None
    group: str | None = None
    missing: str = "refuse"

    def features_of(self) -> FeatureColumns:
        parts = {"id": self.id, "label": self.label, "group": self.group}
        taken = {column: part for part, column in parts.items() if column is not None}
        if len(taken) < sum(column is not None for column in parts.values()):
            raise SettingError(f"id, label and group must be three columns; got {', '.join(map(repr, parts.values()))}")
        return FeatureColumns(
            None if self.features is None else listed(self.features), listed(self.text), self.missing, taken
        )


class LinkColumns(NamedTuple):
    """The parts that columns of a table of links play."""

    source: str = "source"
    target: str = "target"
    relation: str | None = None
    weight: str | None = None


# -- nodes --------------------------------------------------------------------------------------------


def graph_parts(
    nodes: Table, edges: Iterable[tuple[str | None, Table]], columns: NodeColumns, ends: LinkColumns, rules: LinkRules
) -> dict[str, Any]:
    """Arguments of `Graph` for one table of nodes and tables of links, each with the name of its links or None."""
    if not nodes.n_rows:
        raise nodes.fault("no nodes: expected a row for each, found none")
    ids = NodeIds(nodes, columns.id)
    parts = node_parts(nodes, ids.names, columns)
    links = LinkCollector(nodes.n_rows, rules)
    for name, table in edges:
        if name is not None and ends.relation is not None:
            raise SettingError(f"the links of {table.name} are named {name!r} already; relation must be None")
        names = name if ends.relation is None else table.full_names(ends.relation, "relation")
        links.add(_link_rows(table, ids, ends), nodes.name, names)
        if not table.n_rows:
            log.warning("%s has no links", table.name)
    return {**parts, "relations": links.relations(nodes.name)}


def node_parts(nodes: Table, ids: Sequence[str], columns: NodeColumns) -> dict[str, Any]:
    """Arguments of `Graph` but its links."""
    which = columns.features_of()
    labels = _labels(nodes, columns.label)
    groups = None if columns.group is None else nodes.full_names(columns.group, "group")
    features, names = feature_table(nodes, ids, which)
    return {
        "features": features,
        "labels": labels,
        "ids": ids,
        "groups": groups,
        "feature_names": names,
        "titles": _titles(nodes, which.text),
    }


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


def _link_rows(table: Table, ids: NodeIds, ends: LinkColumns) -> LinkRows:
    given = [id_column(table, name, role) for name, role in ((ends.source, "source"), (ends.target, "target"))]
    source, target = (ids.find(column) for column in given)

    def end(row: int) -> str:
        column = given[0] if source[row] < 0 or target[row] >= 0 else given[1]
        return str(column.values[row])

    def remedy() -> str:
        return _mismatch(ids.names[0], [str(column.values[0]) for column in given], ends)

    return LinkRows(source, target, table.fault, table.place, end, remedy, link_weights(table, ends.weight))


def link_weights(table: Table, name: str | None) -> NDArray[np.float64] | None:
    if name is None:
        return None
    column = table.column(name, "weight")
    if column.kind not in ("whole", "number", "truth"):
        raise table.fault(f"column {name!r} (weight): expected numbers, got {column.told}; correct it or name another")
    weights: NDArray[np.float64] = column.values.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(weights))
    if len(wrong):
        got = "nothing" if np.isnan(weights[wrong[0]]) else weights[wrong[0]]
        remedy = "fill it in or leave the row out"
        raise table.fault(f"column {name!r} (weight): expected a finite number, got {got}; {remedy}", int(wrong[0]))
    return weights


def _mismatch(node: str, ends: Sequence[str], names: LinkColumns) -> str:
    """What to do where no id of one table is in the other."""
    told = f"a node is {node!r}, a link goes from {ends[0]!r} ({names.source!r}) to {ends[1]!r} ({names.target!r})"
    if bool(FLOAT.fullmatch(node)) != bool(FLOAT.fullmatch(ends[0])):
        return f"{told}: whole numbers were written as fractions in one of the tables; make them whole in both"
    if any(key != key.strip() for key in (node, *ends)):
        return f"{told}: take the blanks away from the ids"
    return f"{told}; do the tables belong together, and are these the columns with the ids?"
