"""Training on nodes of tables in an engine: the labelled ones, and the neighbours whose predictions these receive.

    labelled      all nodes with a label, or as many as are asked for, by a hash of their ids: the same ones whatever
                  the order of the table and the engine
    neighbours    within depth times the longest path of a template: what a level receives of the one before, and that
                  of the one before it
    links         those among these nodes; of hubs at most so many, by a hash too

That graph is trained on in memory. Where no number is limited, labelled nodes receive what they receive in the whole
graph, and the model is the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.aggregates_sql import Links, check_templates
from kinfolk.collective.relations import Relation
from kinfolk.collective.templates import Over, as_templates
from kinfolk.core.engine import ROW, Engine, quoted
from kinfolk.core.settings import whole
from kinfolk.core.table import frame_table
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.engine_graph import NODES, EngineGraph
from kinfolk.graph.graph import Graph
from kinfolk.graph.links_in_engine import IDS, is_text
from kinfolk.graph.stacked import NO_POOL, StackedNodes
from kinfolk.graph.table_graphs import GraphColumns, TableParts, node_parts

log = logging.getLogger("kinfolk")
SAMPLE, FRONT = "kf_sample", "kf_front"


def fit_in(
    engine: Engine,
    model: StackedNodes,
    nodes: Any,
    edges: Any,
    *,
    sample: int | None = None,
    most_links: int | None = None,
    seed: int = 0,
    **columns: Unpack[GraphColumns],
) -> StackedNodes:
    """Train a model on the labelled nodes of tables in an engine, and their neighbours.

    sample       at most so many labelled nodes, chosen by a hash of their ids; the labels of others are as good as
                 unknown, as by `fit(graph, train=...)`. None: all
    most_links   at most so many links of a relation from each node, chosen by a hash of the ids; None: all. Give
                 `predict_in` the same number.
    seed         of the choice of labelled nodes
    columns      everything else, as in `Graph.from_frames`; the column of labels is "label" unless it is named
    """
    parts = TableParts.of({"label": "label", **columns})
    graph, chosen = sampled_graph(engine, model, nodes, edges, parts, sample, most_links, seed)
    return model.fit(graph, train=chosen)


def sampled_graph(
    engine: Engine, model: StackedNodes, nodes: Any, edges: Any, parts: TableParts, sample: int | None,
    most_links: int | None, seed: int,
) -> tuple[Graph, NDArray[np.bool_]]:  # fmt: skip
    """What a model is trained on, in memory, and which of its nodes were chosen."""
    if not isinstance(model, StackedNodes):
        raise SettingError.saying(f"an engine trains StackedNodes; got {type(model).__name__}")
    if model.pools:
        raise SettingError.saying(NO_POOL)
    if sample is not None:
        whole(1).check("sample", sample)
    used, steps, turned = _reach(model)
    graph = EngineGraph.of(engine, nodes, edges, parts, used, None, most_links)
    _choose(graph, sample, seed)
    hops = [links for links in graph.relations.values() if links is not None]
    for _ in range(steps):
        _spread(engine, hops, turned)
    _add_unlabelled(graph)
    found = _in_memory(graph)
    graph.drop_links()
    engine.drop(NODES, SAMPLE, FRONT)
    return found


def _reach(model: StackedNodes) -> tuple[list[str] | None, int, bool]:
    """The relations that templates name, None for all; how many links away the last level looks; and whether any link
    is turned round."""
    if not model.n_levels:
        return [], 0, False
    if model.templates is None:
        return None, model.n_levels, False
    templates = as_templates(model.templates)
    check_templates(templates)
    rules = [one.rule for one in templates if isinstance(one, Over) and isinstance(one.rule, Relation)]
    names = list(dict.fromkeys(name for rule in rules for name in rule.names()))
    return names, max(map(_length, rules)) * model.n_levels, any("~" in str(rule) for rule in rules)


def _length(relation: Relation) -> int:
    """The links of its longest path."""
    if not relation.parts:
        return 1
    return sum(map(_length, relation.parts)) if relation.name == "@" else max(map(_length, relation.parts))


def _choose(graph: EngineGraph, sample: int | None, seed: int) -> None:
    """Make the table of labelled nodes to train on."""
    engine, labelled = graph.engine, f"WHERE NOT ({_unlabelled(graph)})"
    n_labelled = engine.rows(f"SELECT count(*) FROM {NODES} n {labelled}")[0][0]
    if not n_labelled:
        raise InputError("training needs labels, and none of the nodes has one")
    chosen = f"SELECT n.{ROW} AS {ROW} FROM {NODES} n {labelled}"
    if sample is not None and sample < n_labelled:
        log.info("training on %s of %s labelled nodes, chosen by a hash of their ids", f"{sample:,}", f"{n_labelled:,}")
        hashed = f"SELECT n.{ROW} AS {ROW}, md5(concat('{int(seed)}:', i.id)) AS kf_hash FROM {NODES} n"
        hashed += f" JOIN {IDS} i ON i.{ROW} = n.{ROW} {labelled}"
        chosen = f"SELECT {ROW} FROM ({hashed}) ORDER BY kf_hash, {ROW} LIMIT {sample}"
    engine.make(FRONT, chosen)
    engine.make(SAMPLE, f"SELECT {ROW}, true AS chosen FROM {FRONT}")


def _unlabelled(graph: EngineGraph) -> str:
    """An expression over nodes `n`."""
    column = str(graph.columns.label)
    empty = f"n.{quoted(column)} IS NULL"
    return f"{empty} OR trim(n.{quoted(column)}) = ''" if is_text(graph.engine, NODES, column) else empty


def _add_unlabelled(graph: EngineGraph) -> None:
    """One node without a label, if there is any: that there are decides what "auto" trains for."""
    first = f"SELECT min(n.{ROW}) AS {ROW} FROM {NODES} n WHERE {_unlabelled(graph)}"
    there = f"SELECT {ROW} FROM {SAMPLE}"
    graph.engine.add(SAMPLE, f"SELECT {ROW}, false FROM ({first}) WHERE {ROW} IS NOT NULL AND {ROW} NOT IN ({there})")


def _spread(engine: Engine, hops: Sequence[Links], turned: bool) -> None:
    """Add whom the nodes that came last look at; if links are `turned`, either way."""
    ways = [("source", "target"), *([("target", "source")] * turned)]
    parts = [
        f"SELECT l.{there} AS {ROW} FROM {one.table} l JOIN {FRONT} f ON f.{ROW} = l.{here}"
        for one in hops
        for here, there in ways
    ]
    reached = f"SELECT DISTINCT {ROW} FROM ({' UNION ALL '.join(parts)})"
    new = f"SELECT r.{ROW} AS {ROW} FROM ({reached}) r LEFT JOIN {SAMPLE} s ON s.{ROW} = r.{ROW} WHERE s.{ROW} IS NULL"
    engine.make(FRONT, new)
    engine.add(SAMPLE, f"SELECT {ROW}, false FROM {FRONT}")


def _in_memory(graph: EngineGraph) -> tuple[Graph, NDArray[np.bool_]]:
    """The nodes of the sample in order, with the links among them, and which of them were chosen."""
    engine, columns = graph.engine, graph.columns
    shown = ", ".join(f"n.{quoted(name)}" for name in graph.there)
    both = f"FROM {NODES} n JOIN {SAMPLE} s ON s.{ROW} = n.{ROW} ORDER BY n.{ROW}"
    table = engine.arrow(f"SELECT {shown}, s.chosen AS kf_chosen {both}")
    rows, chosen = (table.column(name).to_numpy() for name in (ROW, "kf_chosen"))
    ids = table.column(ROW if columns.id is None else columns.id).to_pylist()
    log.info("training on a graph of %s of %s nodes", f"{len(rows):,}", f"{graph.n:,}")
    parts = node_parts(frame_table(table.drop_columns([ROW, "kf_chosen"]), graph.title), [*map(str, ids)], columns)
    return Graph(**parts, relations=dict(_relations(graph, rows))), chosen.astype(bool)


def _relations(graph: EngineGraph, rows: Any) -> Iterator[tuple[str, Any]]:
    for name, links in graph.relations.items():
        if links is None:  # no template names it
            yield name, sparse.csr_array((len(rows), len(rows)))
            continue
        both = f"JOIN {SAMPLE} a ON a.{ROW} = l.source JOIN {SAMPLE} b ON b.{ROW} = l.target"
        weight = "l.weight" if links.weighted else "1.0e0"
        found = graph.engine.arrow(
            f"SELECT l.source AS source, l.target AS target, {weight} AS weight FROM {links.table} l {both}"
        )
        source, target = (np.searchsorted(rows, found.column(end).to_numpy()) for end in ("source", "target"))
        ends = (found.column("weight").to_numpy().astype(np.float64), (source, target))
        yield name, sparse.csr_array(ends, shape=(len(rows), len(rows)))
