"""Labels that are known of nodes in an engine: those that their table has, or those of nodes trained on, which are
found by their ids and looked at as in memory (`graph.nodes.Memory`), a block of them at a time."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.aggregates_sql import Links
from kinfolk.core.data import Vocabulary
from kinfolk.core.engine import ROW, quoted
from kinfolk.core.table import frame_table
from kinfolk.errors import DataWarning, InputError, warn
from kinfolk.graph.engine_graph import NODES, EngineGraph, NodeFeatures, fill_table, numbered
from kinfolk.graph.links_in_engine import IDS
from kinfolk.graph.nodes import NONE, TRAIN, Memory, _warn_of_changed
from kinfolk.graph.stacked import StackedNodes

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
KNOWN, TRAINED = "kf_known", "kf_trained"
CODE = "kf_code"  # the number of the class that is known of a node
LOOKED_AT = 50_000  # nodes whose features and neighbours are compared at a time


@dataclass(frozen=True, eq=False)
class KnownNodes:
    """What is known of nodes.

    known    whether the table kf_known has the class of any
    reveals  whether neighbours see it
    keeps    whether it is the last word on the node
    given    how many levels have votes of nodes trained on, in tables kf_given_0, ...
    codes    (n,), the class that is known of each node, -1 for none; and
    votes    (n, L) of each level, NaN for others than nodes trained on: both where links are in this process, and none
             of these tables is made but the first
    """

    known: bool
    reveals: bool
    keeps: bool
    given: int = 0
    codes: Array | None = None
    votes: Sequence[Array] = ()

    def held(self, level: int, last: int) -> tuple[Array | None, Array | None]:
        """What a level sees of `codes` and of `votes`."""
        seen = self.keeps if level == last else self.reveals
        return self.codes if seen else None, self.votes[level] if level < len(self.votes) else None

    @classmethod
    def of(cls, graph: EngineGraph, model: StackedNodes, known: str, forced: bool) -> KnownNodes:
        if forced or model.known_ == "ceiling":
            found = _labelled(graph, model, lenient=not forced)
            return cls(found, True, forced, codes=_codes(graph) if found else None)
        if known == NONE or model.memory_ is None:
            if known == TRAIN:
                _warn_of_nobody(model)
            return cls(False, False, False)
        memory = model.memory_
        trained = memory if graph.held is not None else TrainedNodes.of(memory, graph)
        rows, which = trained.again(SeenNodes.of(graph, model))  # type: ignore[arg-type]
        _keep_known(graph, model, rows, memory.labels[which])
        if not len(rows):
            _warn_of_nobody(model)
        codes = _codes(graph) if len(rows) else None
        if model.known_ == "true":
            return cls(bool(len(rows)), True, True, codes=codes)
        if graph.held is not None:
            given = [_placed(rows, votes[which], graph.n) for votes in memory.votes] if len(rows) else []
            return cls(bool(len(rows)), False, True, codes=codes, votes=given)
        for level, votes in enumerate(memory.votes if len(rows) else ()):
            fill_table(graph.engine, f"kf_given_{level}", {ROW: rows, **numbered("g", votes[which].astype(np.float64))})
        return cls(bool(len(rows)), False, True, len(memory.votes) if len(rows) else 0)


def _warn_of_nobody(model: StackedNodes) -> None:
    if model.known_ == "true" and len(model.levels_) > 1:
        log.warning(
            "no node trained on is in this graph, so no neighbour's label is known, which the model was trained "
            "for; give known labels by `forced=True`, or train with `known='crossfit'`"
        )


def _labelled(graph: EngineGraph, model: StackedNodes, lenient: bool) -> bool:
    """Make the table of what nodes are labelled; one label the model does not know is an error, or left out."""
    if graph.columns.label is None:
        return False
    engine, column = graph.engine, quoted(graph.columns.label)
    there = f"SELECT {column} AS label, min({ROW}) AS {ROW} FROM {NODES} WHERE {column} IS NOT NULL GROUP BY {column}"
    found = engine.arrow(there)
    if not found.num_rows:
        return False
    names, _ = frame_table(found.select(["label"]), graph.title).labels("label")
    codes = model.labels_.encode([name if name is not None else "" for name in names])
    strange = [(row, name) for row, name, code in zip(found.column(ROW).to_pylist(), names, codes.tolist(), strict=True)
               if name is not None and code < 0]  # fmt: skip
    if strange and not lenient:
        row, name = min(strange)
        raise InputError(
            f"label {name!r} of node {graph.id_of(row)!r} was never seen in training; the model knows "
            f"{', '.join(model.labels_.names)}"
        )
    keep = [code >= 0 and name is not None for name, code in zip(names, codes, strict=True)]
    import pyarrow

    coded = pyarrow.table({"label": found.column("label"), CODE: codes}).filter(pyarrow.array(keep, "bool"))
    engine.fill("kf_codes", coded.schema, [coded])
    engine.make(
        KNOWN, f"SELECT n.{ROW} AS {ROW}, c.{CODE} AS {CODE} FROM {NODES} n JOIN kf_codes c ON c.label = n.{column}"
    )
    engine.drop("kf_codes")
    return bool(coded.num_rows)


def _codes(graph: EngineGraph) -> Array | None:
    """What the table of known labels has, by row, for a graph whose links are in this process."""
    if graph.held is None:
        return None
    found, codes = graph.engine.arrow(f"SELECT {ROW}, {CODE} FROM {KNOWN}"), np.full(graph.n, -1, np.int32)
    codes[found.column(ROW).to_numpy()] = found.column(CODE).to_numpy()
    return codes


def _placed(rows: Array, votes: Array, n: int) -> Array:
    table = np.full((n, votes.shape[1]), np.nan)
    table[rows] = votes
    return table


def _keep_known(graph: EngineGraph, model: StackedNodes, rows: Array, codes: Array) -> None:
    """Make the table of nodes trained on, and say how many there are."""
    fill_table(graph.engine, KNOWN, {ROW: rows, CODE: codes.astype(np.int32)})
    if not len(rows):
        return
    log.info(
        "known labels of %s of %s nodes are used; `known='none'` to predict without",
        f"{len(rows):,}", f"{graph.n:,}",
    )  # fmt: skip
    if len(rows) == graph.n:
        warn(
            "every node of this graph was trained on: what comes out are the labels that went in; `known='none'` gives "
            "what the model predicts for them",
            DataWarning,
        )
    if graph.columns.label is not None:
        column = quoted(graph.columns.label)
        query = f"SELECT n.{column} AS label, k.{CODE} AS {CODE} FROM {NODES} n JOIN {KNOWN} k ON k.{ROW} = n.{ROW}"
        counted = graph.engine.arrow(f"SELECT label, {CODE}, count(*) AS n FROM ({query}) GROUP BY label, {CODE}")
        names, _ = frame_table(counted.select(["label"]), graph.title).labels("label")
        often = counted.column("n").to_numpy()
        classes = Vocabulary(sorted({name for name in names if name is not None}))
        here = np.array([-1 if name is None else classes.get(name) for name in names], np.int32)
        seen = SimpleNamespace(classes=classes, labels=np.repeat(here, often))
        _warn_of_changed(seen, np.repeat(counted.column(CODE).to_numpy(), often), model.labels_.names)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class TrainedNodes(Memory):
    """What a model remembers of its nodes, and where these are in an engine."""

    found: tuple[NDArray[np.int64], NDArray[np.int64]]

    @classmethod
    def of(cls, memory: Memory, graph: EngineGraph) -> TrainedNodes:  # type: ignore[override]
        engine = graph.engine
        fill_table(engine, TRAINED, {"id": list(memory.ids), "which": np.arange(len(memory.ids))})
        query = f"SELECT i.{ROW} AS {ROW}, t.which AS which FROM {IDS} i JOIN {TRAINED} t ON t.id = concat(i.id, '')"
        both = engine.arrow(f"SELECT * FROM ({query}) ORDER BY {ROW}")
        rows, which = (both.column(name).to_numpy().astype(np.int64) for name in (ROW, "which"))
        known = (memory.ids, memory.nodes, memory.labels, memory.looks, memory.relations, memory.weighted, memory.votes)
        return cls(*known, (rows, which))

    def with_the_same_id(self, ids: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.found


@dataclass(frozen=True, eq=False)
class SeenNodes:
    """Features, neighbours and ids of chosen nodes, asked of the engine when they are looked at."""

    graph: EngineGraph
    known: Sequence[str] | int
    ids: SeenIds | Sequence[str]

    @classmethod
    def of(cls, graph: EngineGraph, model: StackedNodes) -> SeenNodes:
        if graph.held is not None:
            return cls(graph, model.node_columns_, graph.held.ids)
        other = f"SELECT 1 FROM {IDS} WHERE concat(id, '') <> concat({ROW}, '') LIMIT 1"
        return cls(graph, model.node_columns_, SeenIds(graph.n, not graph.engine.rows(other), {}))

    @property
    def table(self) -> SeenFeatures:
        return SeenFeatures(self)

    @property
    def relations(self) -> SeenRelations | Mapping[str, Any]:
        return SeenRelations(self) if self.graph.held is None else self.graph.held.relations


@dataclass(frozen=True, eq=False)
class SeenIds:
    """The ids of rows that were looked at; `numbered`: all ids are the numbers of rows."""

    n: int
    numbered: bool
    names: dict[int, str]

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self.n)) if self.numbered else iter(["-"])

    def __getitem__(self, row: int) -> str:
        return self.names[row]


@dataclass(frozen=True, eq=False)
class SeenFeatures:
    seen: SeenNodes

    def __getitem__(self, rows: NDArray[np.int64]) -> Any:
        graph, made = self.seen.graph, []
        features = NodeFeatures(graph.columns, tuple(graph.fields), graph.title)
        for start in range(0, max(len(rows), 1), LOOKED_AT):
            fill_table(graph.engine, "kf_looked", {ROW: rows[start : start + LOOKED_AT]})
            chosen = ", ".join(f"n.{quoted(name)}" for name in dict.fromkeys((ROW, *graph.shown)))
            query = f"SELECT {chosen} FROM {NODES} n JOIN kf_looked l ON l.{ROW} = n.{ROW} ORDER BY n.{ROW}"
            table = features.of(graph.engine.arrow(query).combine_chunks(), self.seen.known)
            made.append(sparse.csr_array(table))
        graph.engine.drop("kf_looked")
        return sparse.vstack(made, format="csr")


@dataclass(frozen=True, eq=False)
class SeenRelations:
    seen: SeenNodes

    def __getitem__(self, name: str) -> SeenLinks:
        links = self.seen.graph.relations[name]
        assert links is not None
        return SeenLinks(self.seen, links)


@dataclass(frozen=True, eq=False)
class SeenLinks:
    seen: SeenNodes
    links: Links

    def __getitem__(self, rows: NDArray[np.int64]) -> Any:
        engine = self.seen.graph.engine
        fill_table(engine, "kf_looked", {ROW: rows})
        both = f"FROM {self.links.table} l JOIN kf_looked k ON k.{ROW} = l.source"
        found = engine.arrow(f"SELECT l.source AS source, l.target AS target {both} ORDER BY l.source")
        around = f"SELECT DISTINCT l.target AS target {both}"
        named = f"SELECT i.{ROW}, concat(i.id, '') FROM {IDS} i JOIN ({around}) t ON t.target = i.{ROW}"
        assert isinstance(self.seen.ids, SeenIds)
        for row, key in engine.rows(named):
            self.seen.ids.names[int(row)] = key
        engine.drop("kf_looked")
        source, target = (found.column(end).to_numpy() for end in ("source", "target"))
        starts = np.searchsorted(source, np.append(rows, rows[-1:] + 1)) if len(rows) else np.zeros(1, np.int64)
        return sparse.csr_array((np.ones(len(target)), target, starts), shape=(len(rows), self.seen.graph.n))
