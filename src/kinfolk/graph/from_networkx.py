"""Graphs of networkx to what `Graph` is built of. It is not imported: a graph is known by what it can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from kinfolk.core.columns import Column, object_column
from kinfolk.core.ids import check_distinct
from kinfolk.core.table import Table
from kinfolk.errors import InputError
from kinfolk.graph.frames import NodeColumns, link_weights, node_parts
from kinfolk.graph.links import LinkCollector, LinkRows, LinkRules

NAME = "graph"  # in messages
USUAL_LABEL = "label"


def networkx_parts(
    graph: Any, columns: NodeColumns, relation: str | None, weight: str | None, rules: LinkRules
) -> dict[str, Any]:
    """Arguments of `Graph`: attributes of nodes are columns, attributes of edges name and weigh them."""
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise InputError(f"expected a graph of networkx, got {type(graph).__module__}.{type(graph).__name__}")
    keys = list(graph.nodes)
    if not keys:
        raise InputError("no nodes: expected a graph with at least one, found none")
    nodes = _table([graph.nodes[key] for key in keys], lambda row: f"node {keys[row]!r}")
    ids = list(map(str, keys))
    check_distinct(nodes, ids)
    if columns.label == USUAL_LABEL and USUAL_LABEL not in nodes.columns:
        columns = columns._replace(label=None)  # nothing is labelled yet
    number = {key: i for i, key in enumerate(keys)}
    return {**node_parts(nodes, ids, columns), "relations": _relations(graph, number, relation, weight, rules)}


def _relations(
    graph: Any, number: Mapping[Any, int], relation: str | None, weight: str | None, rules: LinkRules
) -> dict[str, Any]:
    told = list(graph.edges(data=True))
    # An edge without a weight weighs 1 where others have one, as networkx itself has it.
    edges = _table([data for _, _, data in told], lambda row: f"edge {told[row][0]!r} to {told[row][1]!r}", {weight: 1})
    source, target = (np.fromiter((number[edge[i]] for edge in told), np.int64, len(told)) for i in (0, 1))
    weights = link_weights(edges, weight) if told else None
    names = edges.full_names(relation, "relation") if told and relation is not None else None
    links = LinkCollector(len(number), rules)
    rows = LinkRows(source, target, edges.fault, edges.place, lambda row: str(told[row][0]), str, weights)
    links.add(rows, NAME, names)
    return links.relations(NAME)


def _table(
    given: Sequence[Mapping[Any, Any]], place: Callable[[int], str], usual: Mapping[Any, Any] | None = None
) -> Table:
    """A column for each attribute that anybody has, in order of appearance; `usual`, or None, where one has it not."""
    known = dict.fromkeys(key for attributes in given for key in attributes)
    columns = {str(key): partial(_column, given, key, (usual or {}).get(key)) for key in known}
    return Table(NAME, columns, len(given), place=place)


def _column(given: Sequence[Mapping[Any, Any]], key: Any, usual: Any) -> Column:
    return object_column([attributes.get(key, usual) for attributes in given])
