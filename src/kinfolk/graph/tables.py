"""Nodes in a user's tables, in and out: trained on, and given back with their labels, in memory or in an engine.

What comes out is the table of nodes as it came, its rows in their order and all its columns kept, with new ones beside
them. Both ways give the same answers: limits of links and samples of labelled nodes go by hashes of ids, which know
nothing of where a table is or how it is sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.engine import ROW, Engine
from kinfolk.core.files import is_path
from kinfolk.core.frames import OpenedFrame, Values, opened, targets
from kinfolk.core.settings import whole
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.graph import Graph
from kinfolk.graph.link_features import cut_as_before, remembered_cuts
from kinfolk.graph.table_graphs import GraphColumns, TableParts
from kinfolk.graph.trained_columns import columns_as_trained

Array = NDArray[Any]
ENGINE = "give the model an engine: `model.set_params(engine=kf.DuckDB())`"


@dataclass(frozen=True)
class NewColumns:
    """The names of the columns that labels and probabilities come in; `each`: a probability of every class."""

    predicted: str
    probability: str
    each: bool

    def names(self, classes: Sequence[str]) -> list[str]:
        """Of the probabilities."""
        return [f"{self.probability}_{name}" for name in classes] if self.each else [self.probability]

    def check_free(self, taken: Sequence[str], classes: Sequence[str], table: str) -> None:
        """Refuse a name that is taken, or two columns of one name."""
        wanted = [self.predicted, *self.names(classes)]
        if len({*wanted}) < len(wanted):
            raise SettingError.saying(f"new columns must have different names; got {', '.join(wanted)}")
        for name in wanted:
            if name in taken:
                setting = "predicted" if name == self.predicted else "probability"
                remedy = f"rename it, or name the new one with `{setting}=...`"
                raise InputError(f"{table}: there is a column {name!r} already, and nothing is overwritten; {remedy}")

    def of(self, table: Array, classes: Any) -> dict[str, Values]:
        """Of probabilities (n, L), in the order of the classes."""
        labels = classes.array()[table.argmax(axis=1)]
        found: dict[str, Values] = {self.predicted: labels if labels.dtype.kind in "ifb" else labels.tolist()}
        columns = table.T if self.each else [table.max(axis=1)]
        return found | {name: np.array(one) for name, one in zip(self.names(classes.names), columns, strict=True)}

    def columns(self, classes: Sequence[str]) -> dict[str, str]:
        """Name -> column of an answer with `label` and `p0`, `p1`, ..., or `best`, the largest of these."""
        values = [f"p{c}" for c in range(len(classes))] if self.each else ["best"]
        return {self.predicted: "label", **dict(zip(self.names(classes), values, strict=True))}


# -- learning -------------------------------------------------------------------------------------------


def fit_tables(
    model: Any, nodes: Any, edges: Any, sample: int | None, most_links: int | None, columns: GraphColumns
) -> Any:
    """What `StackedNodes.fit_tables` does."""
    if in_engine(model):
        from kinfolk.graph.training_in_engine import fit_in

        seed = 0 if model.random_state is None else int(model.random_state)
        fit_in(model.engine, model, nodes, edges, sample=sample, most_links=most_links, seed=seed, **columns)
        model.reading_ = _remembered(columns)
        return model
    for limit, value in (("sample", sample), ("most_links", most_links)):
        if value is not None:
            whole(1).check(limit, value)
    graph = _graph(nodes, edges, {"label": "label", **columns}, most_links)
    chosen = None if sample is None else sampled(graph, sample, 0 if model.random_state is None else model.random_state)
    fitted = model.fit(graph, train=chosen)
    fitted.reading_ = _remembered(columns) | remembered_cuts(graph.link_features)
    return fitted


def _remembered(columns: GraphColumns) -> dict[str, Any]:
    """What a model keeps of how links were read, in the words of the shell: what nobody would notice if it were left
    out later, as a relation of another name would be."""
    weight = {"weight": columns["weight"]} if columns.get("weight") is not None else {}
    return weight | ({"undirected": True} if columns.get("directed") is False else {})


def _as_read(columns: GraphColumns, reading: Mapping[str, Any]) -> GraphColumns:
    """The columns, with what the model keeps of those of links where nothing else is said."""
    kept: dict[str, Any] = {"weight": reading["weight"]} if "weight" in reading else {}
    kept |= {"directed": False} if reading.get("undirected") else {}
    return cast(GraphColumns, kept | columns)


def sampled(graph: Graph, sample: int, seed: int) -> NDArray[np.bool_]:
    """At most so many labelled nodes, those whose ids hash lowest, as an engine chooses them."""
    labelled = np.flatnonzero(graph.label_codes >= 0)
    hashed = [_hash(f"{int(seed)}:{graph.ids[i]}") for i in labelled.tolist()]
    chosen = np.zeros(graph.n_nodes, bool)
    chosen[labelled[np.argsort(hashed, kind="stable")[:sample]]] = True
    return chosen


def with_most_links(graph: Graph, most: int) -> Graph:
    """The graph with at most so many links of a relation from each node, by a hash of both ids, as in an engine."""
    return graph.with_relations({name: capped(links, graph.ids, most) for name, links in graph.relations.items()})


def capped(links: Any, ids: Sequence[str], most: int) -> Any:
    """CSR with at most so many links from each node."""
    kept = np.ones(links.nnz, bool)
    for hub in np.flatnonzero(np.diff(links.indptr) > most).tolist():
        span = slice(links.indptr[hub], links.indptr[hub + 1])
        hashed = [_hash(f"{ids[hub]}>{ids[other]}") for other in links.indices[span].tolist()]
        kept[span][np.argsort(hashed, kind="stable")[most:]] = False
    starts = np.concatenate([[0], np.cumsum(kept)])[links.indptr]
    return sparse.csr_array((links.data[kept], links.indices[kept], starts), shape=links.shape)


def _hash(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


# -- prediction -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What is asked of tables: whose labels are known, how many links count, and the form of the answer."""

    forced: bool
    known: Any
    most_links: int | None
    new: NewColumns
    into: Any


def predict_tables(model: Any, nodes: Any, edges: Any, asked: Asked, columns: GraphColumns) -> Any:
    """What `StackedNodes.predict_tables` answers."""
    columns = _as_read(columns, getattr(model, "reading_", {}))
    if in_engine(model):
        return _predicted_in(model.engine, model, nodes, edges, asked, TableParts.of(columns))
    if asked.into is not None:
        raise SettingError("into", asked.into, "None in memory", ENGINE)
    _refuse_files(nodes, edges)
    held, names = opened(nodes, "nodes"), model.labels_.names
    asked.new.check_free(held.columns, names, "nodes")
    read = cut_as_before(columns.get("link_features"), getattr(model, "reading_", {}))
    graph = _graph(
        held.readable, edges, {**_needed(model, held.columns, columns), "link_features": read}, asked.most_links
    )
    return held.with_columns(asked.new.of(model.predict_proba(graph, asked.forced, asked.known), model.labels_))


def _needed(model: Any, there: Sequence[str], columns: GraphColumns) -> GraphColumns:
    """The columns, with those of features that the model knows where none are named: others are not looked at."""
    found = columns_as_trained(TableParts.of(columns).columns, model.node_columns_, there)
    return {**columns, "features": found.features, "text": found.text, "missing": found.missing}


def _predicted_in(engine: Engine, model: Any, nodes: Any, edges: Any, asked: Asked, parts: TableParts) -> Any:
    from kinfolk.graph.engine_graph import NODES
    from kinfolk.graph.in_engine import LABELS, check_in_pieces, levels_of

    check_in_pieces(model, asked.known, asked.forced)
    (target,) = targets([nodes], asked.into, _several(edges))
    held = None if target is not None or is_path(nodes) or engine.is_own(nodes) else opened(nodes, "nodes")
    classes, new = model.labels_, asked.new
    if held is not None:
        new.check_free(held.columns, classes.names, "nodes")
    source, rules = nodes if held is None else held.readable, (asked.forced, asked.known, asked.most_links)
    try:
        with levels_of(engine, model, source, edges, parts, *rules) as levels:
            if held is not None:
                levels.make(LABELS)
                return _beside(engine, LABELS, held, new, classes)
            taken = [name for name in engine.columns(NODES) if name != ROW]
            new.check_free(taken, classes.names, "nodes")
            query = levels.query(taken, new.columns(classes.names), LABELS)
            if target is None:
                return engine.frame(query)
            engine.write(query, target)
            return target
    finally:
        engine.drop(NODES, LABELS)


def _beside(engine: Engine, labels: str, held: OpenedFrame, new: NewColumns, classes: Any) -> Any:
    """The frame that came, with labels."""
    columns = [f"p{c}" for c in range(len(classes))]
    found = engine.arrow(f"SELECT {', '.join(columns)} FROM {labels} ORDER BY {ROW}")
    return held.with_columns(new.of(np.stack([found.column(one).to_numpy() for one in columns], axis=1), classes))


# -- both -----------------------------------------------------------------------------------------------


def in_engine(model: Any) -> bool:
    return model.engine is not None and not model.engine.in_memory


def _graph(nodes: Any, edges: Any, columns: GraphColumns, most_links: int | None) -> Graph:
    _refuse_files(nodes, edges)
    graph = Graph.from_frames(nodes, edges, **columns)
    if most_links is None:
        return graph
    whole(1).check("most_links", most_links)
    return with_most_links(graph, most_links)


def _refuse_files(nodes: Any, edges: Any) -> None:
    """What an engine alone reads."""
    path = next((one for one in (nodes, *_several(edges)) if is_path(one)), None)
    if path is not None:
        raise InputError(f"expected a table; got the path {str(path)!r}; use `kf.read_tables`, or {ENGINE}")


def _several(edges: Any) -> list[Any]:
    """The tables of links that were given: one, a list of them, or some by the names of relations."""
    several = list(edges.values()) if isinstance(edges, dict) else edges
    return list(several) if isinstance(several, list | tuple) else [several]
