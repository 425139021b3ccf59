"""Graphs of networkx to what `Graph` is built of. It is not imported: a graph is known by what it can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from kinfolk.core.table import Ids, Table, TableColumn, check_distinct, id_name, object_column
from kinfolk.errors import InputError
from kinfolk.graph.array_graphs import EdgeColumns
from kinfolk.graph.link_features import link_columns
from kinfolk.graph.links import LinkCollector, LinkRows, LinkRules
from kinfolk.graph.node_features import NodeColumns
from kinfolk.graph.table_graphs import link_weights, node_parts

NAME = "graph"  # in messages
USUAL_LABEL = "label"


def networkx_parts(graph: Any, columns: NodeColumns, of_edges: EdgeColumns, rules: LinkRules) -> dict[str, Any]:
    """Arguments of `Graph`: attributes of nodes are columns, attributes of edges name and weigh them."""
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise InputError(f"expected a graph of networkx, got {type(graph).__module__}.{type(graph).__name__}")
    keys = list(graph.nodes)
    if not keys:
        raise InputError("no nodes: expected a graph with at least one, found none")
    nodes = _table([graph.nodes[key] for key in keys], lambda row: f"node {keys[row]!r}")
    ids = [id_name(key) or str(key) for key in keys]
    check_distinct(nodes, ids)
    if columns.label == USUAL_LABEL and USUAL_LABEL not in nodes.columns:
        columns = columns._replace(label=None)  # nothing is labelled yet
    number = {key: i for i, key in enumerate(keys)}
    parts = {**node_parts(nodes, ids, columns), "ids": Ids.of(ids, keys)}
    return _links(graph, number, of_edges, rules).made(parts, NAME)


def _links(graph: Any, number: Mapping[Any, int], of_edges: EdgeColumns, rules: LinkRules) -> LinkCollector:
    relation, weight, wanted = of_edges
    ends = list(graph.edges(data=True))
    # An edge without a weight weighs 1 where others have one, as networkx itself has it.
    edges = _table([data for _, _, data in ends], lambda row: f"edge {ends[row][0]!r} to {ends[row][1]!r}", {weight: 1})
    source, target = (np.fromiter((number[edge[i]] for edge in ends), np.int64, len(ends)) for i in (0, 1))
    weights = link_weights(edges, weight) if ends else None
    names = edges.full_names(relation, "relation") if ends and relation is not None else None
    links = LinkCollector(len(number), rules, wanted)
    columns = link_columns(edges, wanted)
    rows = LinkRows(source, target, edges.fault, edges.place, lambda row: str(ends[row][0]), str, weights, columns)
    links.add(rows, NAME, names)
    return links


def _table(
    given: Sequence[Mapping[Any, Any]], place: Callable[[int], str], usual: Mapping[Any, Any] | None = None
) -> Table:
    """A column for each attribute that anybody has, in order of appearance; `usual`, or None, where one has it not."""
    known = dict.fromkeys(key for attributes in given for key in attributes)
    columns = {str(key): partial(_column, given, key, (usual or {}).get(key)) for key in known}
    return Table(NAME, columns, len(given), place=place)


def _column(given: Sequence[Mapping[Any, Any]], key: Any, usual: Any) -> TableColumn:
    return object_column([attributes.get(key, usual) for attributes in given])
