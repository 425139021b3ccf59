"""Nodes of tables in an engine, labelled as `StackedNodes.predict_proba` labels them in memory.

    rows     nodes are numbered as they stand in their table, links lead from row to row
    levels   over links in the engine (`graph.links_in_engine`, `graph.levels_in_engine`); or, where the engine would
             sooner have ids and links in this process and they are small, over links that are as in memory
             (`graph.held_links`, `graph.held_in_engine`)

Labels that are known are found by the ids of nodes, as in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Unpack

from kinfolk.collective.aggregates_sql import check_templates
from kinfolk.core.engine import Engine
from kinfolk.errors import SettingError
from kinfolk.graph.engine_graph import NODES, EngineGraph
from kinfolk.graph.held_in_engine import HeldLevels, may_be_held
from kinfolk.graph.known_in_engine import KNOWN, TRAINED, KnownNodes
from kinfolk.graph.levels_in_engine import Levels
from kinfolk.graph.nodes import NONE, TRAIN, check_relations, warn_of_other_weights
from kinfolk.graph.stacked import NO_POOL, StackedNodes
from kinfolk.graph.table_graphs import GraphColumns, TableParts

LABELS = "kf_labels"
VOTE = 8  # bytes


def predict_in(
    engine: Engine,
    model: StackedNodes,
    nodes: Any,
    edges: Any,
    *,
    forced: bool = False,
    known: str = TRAIN,
    most_links: int | None = None,
    into: str = LABELS,
    **columns: Unpack[GraphColumns],
) -> None:
    """Make a table of every node's row `kf_row`, its `label`, and the probabilities `p0`, `p1`, ... of the classes in
    the order of `classes_`.

    nodes, edges   files and globs, frames, relations; `edges` also a list of these, or name -> links of that name
    forced, known  as in `StackedNodes.predict`: labels that nodes have are known, or those "train"ed on, or "none"
    most_links     at most so many links of a relation from each node, chosen by a hash of the ids; None: all
    into           the name of the table
    columns        everything else, as in `Graph.from_frames`
    """
    with levels_of(engine, model, nodes, edges, TableParts.of(columns), forced, known, most_links) as levels:
        levels.make(into)
    engine.drop(NODES)


@contextmanager
def levels_of(
    engine: Engine, model: StackedNodes, nodes: Any, edges: Any, parts: TableParts, forced: bool, known: Any,
    most_links: int | None,
) -> Iterator[Levels]:  # fmt: skip
    """The levels of a model over tables, which are there meanwhile; that of the nodes stays, for who wants it."""
    check_in_pieces(model, known, forced)
    used = model.template_set_.relation_names()
    hold = VOTE * len(model.labels_) * (1 + model.own) if may_be_held(model) else None
    graph = EngineGraph.of(engine, nodes, edges, parts, used, model.node_columns_, most_links, hold)
    check_relations(SimpleNamespace(relations=graph.relations), *model.relations_used())  # type: ignore[arg-type]
    if model.memory_ is not None:
        warn_of_other_weights(graph.weighs(), model.memory_.weighted)
    graph.check_features(model.node_columns_)
    kind = Levels if graph.held is None else HeldLevels
    levels = kind(graph, model, KnownNodes.of(graph, model, known, forced))
    yield levels
    levels.drop()
    graph.drop_links()
    engine.drop(KNOWN, TRAINED)


def check_in_pieces(model: StackedNodes, known: Any = TRAIN, forced: bool = False) -> None:
    """Refuse what looks at more than a run of nodes and sums over their links."""
    if not isinstance(model, StackedNodes):
        raise SettingError.saying(f"an engine predicts nodes by StackedNodes; got {type(model).__name__}")
    model._require_fitted()
    if model.pool_ is not None:
        raise SettingError.saying(NO_POOL)
    if model.predictions == "sample":
        remedy = "predict in memory, or train with `predictions='proba'`"
        raise SettingError("predictions", model.predictions, "'proba' or 'label' in an engine", remedy)
    if not isinstance(known, str) or known not in (TRAIN, NONE):
        remedy = "give the labels that are known in a column, by `label=...` and `forced=True`"
        raise SettingError("known", known, "'train' or 'none' in an engine", remedy)
    if forced and known != TRAIN:
        raise SettingError.saying("`forced=True` says that the labels of the graph are known: leave one of the two out")
    check_templates(model.template_set_.templates)
