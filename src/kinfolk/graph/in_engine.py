"""Nodes of tables in an engine, labelled as `StackedNodes.predict_proba` labels them in memory.

    rows        nodes are numbered as they stand in their table, links lead from row to row (`graph.links_in_engine`)
    level 0     by the model, a run of nodes with their features at a time
    aggregates  of the votes of the level before, by GROUP BY over the links (`collective.aggregates_sql`)
    level k     by the model, a run of nodes with their features and aggregates at a time

Of the nodes nothing but a run is ever in memory. Labels that are known are found by the ids of nodes, as in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.aggregates_sql import (
    HARD,
    Links,
    check_templates,
    make_sums,
    received,
    related,
    sums,
)
from kinfolk.collective.stacking import as_votes
from kinfolk.collective.templates import Over, TemplateSet, set_known
from kinfolk.core.data import Vocabulary
from kinfolk.core.engine import ROW, Beside, Engine, quoted
from kinfolk.core.sending import Sent
from kinfolk.core.settings import whole
from kinfolk.core.table import frame_table, listed
from kinfolk.core.threads import resolve_jobs
from kinfolk.errors import DataWarning, InputError, SettingError, warn
from kinfolk.graph.graph import _warn_of_lacking, warn_by_position
from kinfolk.graph.learners import one_table, predict_in_blocks
from kinfolk.graph.links_in_engine import IDS, RelationTables, capped, check_ids, head, source_name
from kinfolk.graph.nodes import NONE, TRAIN, Memory, _warn_of_changed, check_relations
from kinfolk.graph.sources import INVERSE, LINK, LinkColumns, LinkRules, NodeColumns, feature_table
from kinfolk.graph.stacked import StackedNodes

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
NODES, KNOWN, TRAINED, VOTES = "kf_nodes", "kf_known", "kf_trained", "kf_votes"
CODE = "kf_code"  # the number of the class that is known of a node
CELLS, RUN_ROWS = 1_000_000, (4_096, 100_000)  # of a run of nodes: some tens of megabytes
LOOKED_AT = 50_000  # nodes whose features and neighbours are compared at a time


def predict_in(
    engine: Engine,
    model: StackedNodes,
    nodes: Any,
    edges: Any,
    *,
    id: str | None = "id",
    label: str | None = None,
    features: str | Sequence[str] | None = None,
    text: str | Sequence[str] | None = None,
    group: str | None = None,
    missing: str = "refuse",
    source: str = "source",
    target: str = "target",
    relation: str | None = None,
    weight: str | None = None,
    directed: bool | None = True,
    link: str = LINK,
    inverse: str | Mapping[str, str] | None = INVERSE,
    dangling: str = "drop",
    self_loops: str = "drop",
    duplicates: str = "merge",
    forced: bool = False,
    known: str = TRAIN,
    most_links: int | None = None,
    into: str = "kf_labels",
) -> None:
    """Make a table of every node's row `kf_row`, its `label`, and the probabilities `p0`, `p1`, ... of the classes in
    the order of `classes_`.

    nodes, edges   files and globs, frames, relations; `edges` also a list of these, or name -> links of that name
    forced, known  as in `StackedNodes.predict`: labels that nodes have are known, or those "train"ed on, or "none"
    most_links     at most so many links of a relation from each node, chosen by a hash of the ids; None: all
    into           the name of the table

    Everything else is as in `Graph.from_frames`.
    """
    rules = LinkRules(dangling, self_loops, duplicates, directed, link, inverse)
    columns = NodeColumns(id, label, features, text, group, missing)
    ends = LinkColumns(source, target, relation, weight)
    check_in_pieces(model, known, forced)
    used = model.template_set_.relation_names()
    graph = EngineGraph.of(engine, nodes, edges, columns, ends, rules, used, model.node_columns_, most_links)
    check_relations(SimpleNamespace(relations=graph.relations), *model.relations_used())  # type: ignore[arg-type]
    graph.check_features(model.node_columns_)
    votes = KnownNodes.of(graph, model, known, forced)
    Levels(graph, model, votes).run(into)
    graph.drop()


def check_in_pieces(model: StackedNodes, known: Any = TRAIN, forced: bool = False) -> None:
    """Refuse what looks at more than a run of nodes and sums over their links."""
    if not isinstance(model, StackedNodes):
        raise SettingError.saying(f"an engine predicts nodes by StackedNodes; got {type(model).__name__}")
    model._require_fitted()
    if model.predictions == "sample":
        remedy = "predict in memory, or train with `predictions='proba'`"
        raise SettingError("predictions", model.predictions, "'proba' or 'label' in an engine", remedy)
    if not isinstance(known, str) or known not in (TRAIN, NONE):
        remedy = "give the labels that are known in a column, by `label=...` and `forced=True`"
        raise SettingError("known", known, "'train' or 'none' in an engine", remedy)
    if forced and known != TRAIN:
        raise SettingError.saying("`forced=True` says that the labels of the graph are known: leave one of the two out")
    check_templates(model.template_set_.templates)


# -- a graph in an engine -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EngineGraph:
    """Tables of nodes and links. `there`: the columns of nodes, with their types; `fields`: those that make features;
    `relations`: name -> links, None for those that the model does not use."""

    engine: Engine
    columns: NodeColumns
    n: int
    title: str
    there: Mapping[str, Any]
    fields: Sequence[str]
    relations: Mapping[str, Links | None]

    @classmethod
    def of(
        cls, engine: Engine, nodes: Any, edges: Any, columns: NodeColumns, ends: LinkColumns, rules: LinkRules,
        used: Sequence[str] | None = None, known: Sequence[str] | int | None = None, most_links: int | None = None,
    ) -> EngineGraph:  # fmt: skip
        """`used`: the relations to make, `known`: the features to read; None: all."""
        if most_links is not None:
            whole(1).check("most_links", most_links)
        engine.drop(NODES)
        engine.view(nodes, NODES, ROW)
        title = source_name(nodes, "nodes")
        table = head(engine, NODES, title, ROW)
        chosen = [*columns.chosen(table), *listed(columns.text)]
        for name, part in [*((name, "features") for name in chosen), (columns.label, "label")]:
            if name is not None and name not in table.columns:
                table.column(name, part)  # says so
        n = engine.rows(f"SELECT count(*) FROM {NODES}")[0][0]
        if not n:
            raise table.fault("no nodes: expected a row for each, found none")
        _make_ids(engine, table, columns.id, n)
        there = {field.name: field.type for field in engine.arrow(f"SELECT * FROM {NODES} LIMIT 0").schema}
        links = RelationTables.of(engine, edges, ends, rules, title)
        made = links.relations(used)
        if most_links is not None:
            made = {name: one and capped(engine, name, one, most_links) for name, one in made.items()}
        wanted = chosen if known is None else _fields(chosen, known)
        return cls(engine, columns, int(n), title, there, wanted, made)

    def drop(self) -> None:
        """Remove what prediction no longer needs."""
        tables = [links.table for links in self.relations.values() if links is not None]
        self.engine.drop(NODES, IDS, KNOWN, TRAINED, *tables)

    def check_features(self, columns: Sequence[str] | int) -> None:
        """As in memory: features that the model knows and the table lacks count as 0, and a word is said of it."""
        if isinstance(columns, int):
            warn_by_position(columns, columns)
            return
        whole = [place for place, name in enumerate(columns) if _field_of(name, self.fields) is not None]
        _warn_of_lacking(columns, np.array(whole, np.int32), list(self.fields))

    @property
    def shown(self) -> list[str]:
        """The columns that a kernel needs to make features of, and to name nodes."""
        return list(dict.fromkeys((*self.fields, *([self.columns.id] if self.columns.id else []))))

    def id_of(self, row: int) -> str:
        found: str = self.engine.rows(f"SELECT concat(id, '') FROM {IDS} WHERE {ROW} = {row}")[0][0]
        return found


def _make_ids(engine: Engine, table: Any, column: str | None, n: int) -> None:
    """The table of ids, distinct, by row."""
    name = ROW if column is None else quoted(column)
    if column is not None:
        check_ids(engine, NODES, ROW, table, column, "id")
    engine.make(IDS, f"SELECT CAST({ROW} AS INT) AS {ROW}, {name} AS id FROM {NODES}")
    if column is None or engine.rows(f"SELECT count(DISTINCT id) FROM {IDS}")[0][0] == n:
        return
    rank = f"SELECT {ROW}, concat(id, '') AS id, min({ROW}) OVER (PARTITION BY id) AS first FROM {IDS}"
    query = f"SELECT {ROW}, id, first FROM ({rank}) WHERE {ROW} > first ORDER BY {ROW} LIMIT 1"
    row, key, first = engine.rows(query)[0]
    raise table.fault(
        f"ids must be distinct; {key!r} was in {table.place(int(first))} already: keep one of them", int(row)
    )


def _field_of(feature: str, there: Sequence[str]) -> str | None:
    """The column that a feature is made of: "age", "colour=red", "title:word", "age is missing"."""
    if feature in there:
        return feature
    begins = (name for name in there if feature.startswith((f"{name}=", f"{name}:")) or feature == f"{name} is missing")
    return next(begins, None)


def _fields(there: Sequence[str], columns: Sequence[str] | int) -> list[str]:
    """The columns that features of the model are made of; without names of its features, all."""
    if isinstance(columns, int):
        return list(there)
    needed = {_field_of(name, there) for name in columns}
    return [name for name in there if name in needed]


# -- features -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NodeFeatures:
    """The features of a run of nodes, in the columns that the model knows."""

    columns: NodeColumns
    fields: tuple[str, ...]
    title: str

    def of(self, run: Any, known: Sequence[str] | int) -> Any:
        """CSR or dense (m, F)."""
        if tuple(self.fields) == (tuple(known) if not isinstance(known, int) else self.fields):
            plain = _numbers(run, self.fields)
            if plain is not None:
                return plain
        text = [name for name in listed(self.columns.text) if name in self.fields]
        others = [name for name in self.fields if name not in text]
        which = NodeColumns(None, None, others, text, None, self.columns.missing)
        table = frame_table(run.select(list(self.fields)) if self.fields else run, self.title)
        ids: Any = _Ids(run, self.columns.id)
        table._place = lambda row: f"row {run.column(ROW)[row]}"
        rows, names = feature_table(table, ids, which)
        return _in_place(rows, names, known)


def _numbers(run: Any, fields: Sequence[str]) -> Array | None:
    """Dense float64 (m, F), column after column, where all are finite numbers; None otherwise."""
    import pyarrow

    columns = [run.column(name) for name in fields]
    plain = (pyarrow.types.is_integer(one.type) or pyarrow.types.is_floating(one.type) for one in columns)
    if not all(plain) or any(one.null_count for one in columns):
        return None
    table = np.empty((len(fields), run.num_rows))
    for i, one in enumerate(columns):
        table[i] = one.to_numpy()
    return table.T if np.isfinite(table).all() else None


@dataclass(frozen=True, eq=False)
class _Ids:
    """The ids of a run, made into strings when they are asked for."""

    run: Any
    column: str | None

    def __getitem__(self, row: int) -> str:
        return str(self.run.column(self.column or ROW)[int(row)].as_py())


def _in_place(rows: Any, names: Sequence[str], known: Sequence[str] | int) -> Any:
    """The features in the columns of the model; those it does not know are left out, those not here are 0."""
    if isinstance(known, int):
        if len(names) != known:
            raise InputError(
                f"expected {known} features, got {len(names)}, and without names columns cannot be matched; train the "
                "model on a graph with `feature_names=...`"
            )
        return rows
    if tuple(names) == tuple(known):
        return rows
    place = Vocabulary(known).encode(names)
    kept = np.flatnonzero(place >= 0)
    if sparse.issparse(rows):
        part = rows[:, kept]
        return sparse.csr_array((part.data, place[kept][part.indices], part.indptr), shape=(rows.shape[0], len(known)))
    found = np.zeros((len(rows), len(known)), rows.dtype)
    found[:, place[kept]] = rows[:, kept]
    return found


def feature_expressions(graph: EngineGraph, known: Sequence[str] | int, alias: str) -> list[str]:
    """Of each feature of the model an SQL expression, for sums over neighbours."""
    import pyarrow

    names = list(graph.fields) if isinstance(known, int) else list(known)
    made = []
    for name in names:
        field = _field_of(name, graph.fields)
        if field is None:
            made.append("0.0e0")
            continue
        kind, column = graph.there[field], f"{alias}.{quoted(field)}"
        text = not (pyarrow.types.is_integer(kind) or pyarrow.types.is_boolean(kind) or _is_number(kind))
        if field in listed(graph.columns.text) or (text and (field == name or isinstance(known, int))):
            remedy = "leave the template out, or predict in memory"
            raise SettingError("templates", f"features of {field!r}", "numbers or categories in an engine", remedy)
        missing = f"{column} IS NULL" + (f" OR concat({column}, '') = ''" if text else "")
        if pyarrow.types.is_floating(kind):
            missing = f"{column} IS NULL OR isnan({column})"
        if name == f"{field} is missing" and name != field:
            made.append(f"CASE WHEN {missing} THEN 1.0e0 ELSE 0.0e0 END")
        elif text:
            value = graph.engine.literal(name.removeprefix(f"{field}="))
            made.append(f"CASE WHEN concat({column}, '') = {value} THEN 1.0e0 ELSE 0.0e0 END")
        else:
            made.append(f"CASE WHEN {missing} THEN 0.0e0 ELSE CAST({column} AS DOUBLE) END")
    return made


def _is_number(kind: Any) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_floating(kind) or pyarrow.types.is_decimal(kind))


# -- labels that are known ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KnownNodes:
    """What is known of nodes.

    known    whether the table kf_known has the class of any
    reveals  whether neighbours see it
    keeps    whether it is the last word on the node
    given    how many levels have votes of nodes trained on, in tables kf_given_0, ...
    """

    known: bool
    reveals: bool
    keeps: bool
    given: int = 0

    @classmethod
    def of(cls, graph: EngineGraph, model: StackedNodes, known: str, forced: bool) -> KnownNodes:
        if forced or model.known_ == "ceiling":
            found = _labelled(graph, model, lenient=not forced)
            return cls(found, True, forced)
        if known == NONE or model.memory_ is None:
            if known == TRAIN:
                _warn_of_nobody(model)
            return cls(False, False, False)
        memory = model.memory_
        rows, which = TrainedNodes.of(memory, graph).again(SeenNodes.of(graph, model))  # type: ignore[arg-type]
        _keep_known(graph, model, rows, memory.labels[which])
        if not len(rows):
            _warn_of_nobody(model)
        if model.known_ == "true":
            return cls(bool(len(rows)), True, True)
        for level, votes in enumerate(memory.votes if len(rows) else ()):
            _fill(graph.engine, f"kf_given_{level}", {ROW: rows, **_numbered("g", votes[which].astype(np.float64))})
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


def _keep_known(graph: EngineGraph, model: StackedNodes, rows: Array, codes: Array) -> None:
    """Make the table of nodes trained on, and say how many there are."""
    _fill(graph.engine, KNOWN, {ROW: rows, CODE: codes.astype(np.int32)})
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


def _fill(engine: Engine, table: str, columns: Mapping[str, Any]) -> None:
    import pyarrow

    made = pyarrow.table(dict(columns))
    engine.fill(table, made.schema, [made])


def _numbered(prefix: str, table: Array) -> dict[str, Array]:
    return {f"{prefix}{c}": np.ascontiguousarray(table[:, c]) for c in range(table.shape[1])}


@dataclass(frozen=True, eq=False)
class TrainedNodes(Memory):
    """What a model remembers of its nodes, and where these are in an engine."""

    found: tuple[NDArray[np.int64], NDArray[np.int64]]

    @classmethod
    def of(cls, memory: Memory, graph: EngineGraph) -> TrainedNodes:  # type: ignore[override]
        engine = graph.engine
        _fill(engine, TRAINED, {"id": list(memory.ids), "which": np.arange(len(memory.ids))})
        query = f"SELECT i.{ROW} AS {ROW}, t.which AS which FROM {IDS} i JOIN {TRAINED} t ON t.id = concat(i.id, '')"
        both = engine.arrow(f"SELECT * FROM ({query}) ORDER BY {ROW}")
        rows, which = (both.column(name).to_numpy().astype(np.int64) for name in (ROW, "which"))
        known = (memory.ids, memory.nodes, memory.labels, memory.looks, memory.relations, memory.votes)
        return cls(*known, (rows, which))

    def with_the_same_id(self, ids: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.found


@dataclass(frozen=True, eq=False)
class SeenNodes:
    """Features, neighbours and ids of chosen nodes, asked of the engine when they are looked at."""

    graph: EngineGraph
    known: Sequence[str] | int
    ids: SeenIds

    @classmethod
    def of(cls, graph: EngineGraph, model: StackedNodes) -> SeenNodes:
        other = f"SELECT 1 FROM {IDS} WHERE concat(id, '') <> concat({ROW}, '') LIMIT 1"
        return cls(graph, model.node_columns_, SeenIds(graph.n, not graph.engine.rows(other), {}))

    @property
    def table(self) -> SeenFeatures:
        return SeenFeatures(self)

    @property
    def relations(self) -> SeenRelations:
        return SeenRelations(self)


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
            _fill(graph.engine, "kf_looked", {ROW: rows[start : start + LOOKED_AT]})
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
        _fill(engine, "kf_looked", {ROW: rows})
        both = f"FROM {self.links.table} l JOIN kf_looked k ON k.{ROW} = l.source"
        found = engine.arrow(f"SELECT l.source AS source, l.target AS target {both} ORDER BY l.source")
        around = f"SELECT DISTINCT l.target AS target {both}"
        named = f"SELECT i.{ROW}, concat(i.id, '') FROM {IDS} i JOIN ({around}) t ON t.target = i.{ROW}"
        for row, key in engine.rows(named):
            self.seen.ids.names[int(row)] = key
        engine.drop("kf_looked")
        source, target = (found.column(end).to_numpy() for end in ("source", "target"))
        starts = np.searchsorted(source, np.append(rows, rows[-1:] + 1)) if len(rows) else np.zeros(1, np.int64)
        return sparse.csr_array((np.ones(len(target)), target, starts), shape=(len(rows), self.seen.graph.n))


# -- levels ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums over one relation, of votes or of features: their table, and the columns that a kernel sees."""

    relation: str
    links: Links
    table: str
    columns: dict[str, str]

    @property
    def beside(self) -> Beside:
        return Beside(self.table, {f"{self.table}_{name}": name for name in self.columns}, 0.0)


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of a model over a graph in an engine, one after the other."""

    graph: EngineGraph
    model: StackedNodes
    known: KnownNodes

    def run(self, into: str) -> None:
        engine, last = self.graph.engine, len(self.model.levels_) - 1
        plan, fixed = ([], []) if not last else self._planned()
        for level in range(last + 1):
            if level == 1:
                for one in fixed:
                    make_sums(engine, one.table, one.links, NODES, one.columns)
            for one in plan if level else ():
                make_sums(engine, one.table, one.links, f"{VOTES}_{level - 1}", one.columns)
            sums_here = [*fixed, *plan] if level else []
            self._level(level, sums_here, into if level == last else f"{VOTES}_{level}")
            engine.drop(f"{VOTES}_{level - 1}", *(one.table for one in plan))
        own = {one.links.table for one in (*plan, *fixed)}
        engine.drop(*(one.table for one in fixed), *own, *(f"kf_given_{level}" for level in range(self.known.given)))

    def _planned(self) -> tuple[list[Sums], list[Sums]]:
        """What to add up over which links: of votes, and of features."""
        set_, named = self.model.template_set_, {k: v for k, v in self.graph.relations.items() if v is not None}
        links: dict[str, Links] = {}
        for template in set_.templates:
            assert isinstance(template, Over)
            key = str(template.rule)
            if key not in links:
                table = f"kf_path_{len(links)}"
                links[key] = related(self.graph.engine, template.rule, named, table)  # type: ignore[arg-type]
        plan, fixed = [], []
        for number, (key, found) in enumerate(links.items()):
            mine = [t for t in set_.of_predictions if isinstance(t, Over) and str(t.rule) == key]
            if mine:
                plan.append(Sums(key, found, f"kf_sums_{number}", sums(mine, found, set_.n_votes)))
            theirs = [t for t in set_.of_features if isinstance(t, Over) and str(t.rule) == key]
            if theirs:
                fixed.append(Sums(key, found, f"kf_fixed_{number}", self._feature_sums(found)))
        return plan, fixed

    def _feature_sums(self, links: Links) -> dict[str, str]:
        weight = "l.weight * " if links.weighted else ""
        found = {
            f"s{i}": f"sum({weight}({expression}))"
            for i, expression in enumerate(feature_expressions(self.graph, self.model.node_columns_, "v"))
        }
        return found | {"weight": "sum(l.weight)" if links.weighted else "CAST(count(*) AS DOUBLE)"}

    def _level(self, level: int, sums_here: Sequence[Sums], into: str) -> None:
        graph, n_votes, last = self.graph, len(self.model.labels_), level == len(self.model.levels_) - 1
        others = [one.beside for one in sums_here]
        if self.known.known and (self.known.keeps if last else self.known.reveals):
            others.append(Beside(KNOWN, {CODE: CODE}, -1))
        if level < self.known.given:
            others.append(Beside(f"kf_given_{level}", {f"kf_g{c}": f"g{c}" for c in range(n_votes)}))
        if level and self.model.own:
            others.append(Beside(f"{VOTES}_{level - 1}", {f"kf_o{c}": f"o{c}" for c in range(n_votes)}))
        features = NodeFeatures(graph.columns, tuple(graph.fields), graph.title)
        tables = {one.relation + " of features" * one.table.startswith("kf_fixed"): one.table for one in sums_here}
        kernel = NodeLevel(Sent(self.model), level, features, tables)
        width = len(graph.shown) + sum(len(one.columns) for one in others)
        n_rows = int(np.clip(CELLS // max(width, 1), *RUN_ROWS))
        graph.engine.map_with(NODES, graph.shown, others, kernel, into, kernel.schema, n_rows)


@dataclass(frozen=True, eq=False)
class NodeLevel:
    """What a level of a model says of a run of nodes: votes for the next level, or labels and probabilities.

    tables   relation, or relation of features -> the prefix of the sums over it
    """

    model: Sent
    level: int
    features: NodeFeatures
    tables: Mapping[str, str]

    @property
    def is_last(self) -> bool:
        return bool(self.level == len(self.model.model.levels_) - 1)

    @property
    def schema(self) -> Any:
        import pyarrow

        model = self.model.model
        n_votes = len(model.labels_)
        if self.is_last:
            labels = pyarrow.array(model.labels_.array().tolist()).type
            return pyarrow.schema([(ROW, "int64"), ("label", labels), *((f"p{c}", "float64") for c in range(n_votes))])
        own = [(f"o{c}", "float64") for c in range(n_votes)] if model.own else []
        votes = [(f"v{c}", "float64") for c in range(n_votes)]
        return pyarrow.schema([(ROW, "int32"), (HARD, "int32"), *votes, *own])

    def __call__(self, batch: Any) -> Any:
        import pyarrow

        model: StackedNodes = self.model.model
        run = pyarrow.Table.from_batches([batch]) if isinstance(batch, pyarrow.RecordBatch) else batch
        found = self._said(model, run)
        code = run.column(CODE).to_numpy() if CODE in run.schema.names else np.full(len(found), -1, np.int32)
        rows = run.column(ROW).to_numpy()
        if self.is_last:
            set_known(found, code)
            labels = pyarrow.array(model.labels_.array().tolist()).take(pyarrow.array(found.argmax(axis=1)))
            return pyarrow.table({ROW: rows, "label": labels, **_numbered("p", found)}, self.schema)
        votes = own = as_votes(found, model._ask, self.level, 0, 1)
        if "kf_g0" in run.schema.names:
            given = _stacked(run, [f"kf_g{c}" for c in range(found.shape[1])])
            votes = own = np.where(np.isnan(given), votes, given)
        if (code >= 0).any():
            votes = votes.copy()
            set_known(votes, code)
        hard = np.where(votes.any(axis=1), votes.argmax(axis=1), -1).astype(np.int32)
        mine = _numbered("o", own) if model.own else {}
        return pyarrow.table({ROW: rows.astype(np.int32), HARD: hard, **_numbered("v", votes), **mine}, self.schema)

    def _said(self, model: StackedNodes, run: Any) -> Array:
        """(m, L), the probabilities of this level."""
        learner, everyone, jobs = model.levels_[self.level], np.arange(run.num_rows), resolve_jobs(model.n_jobs)
        alone = self.features.of(run, model.node_columns_)
        if not self.level:
            return predict_in_blocks(learner, alone, everyone, None, jobs)
        parts = [alone] * model.features
        for template in model.template_set_.of_features:
            assert isinstance(template, Over)
            parts.append(self._received(template, alone.shape[1], run, f"{template.rule} of features"))
            if sparse.issparse(alone):
                parts[-1] = sparse.csr_array(parts[-1])
        wide = one_table(parts) if parts else np.zeros((run.num_rows, 0))
        block = self._aggregates(model.template_set_, run)
        if model.own:
            block = np.concatenate([block, _stacked(run, [f"kf_o{c}" for c in range(len(model.labels_))])], axis=1)
        return predict_in_blocks(learner, wide, everyone, block.__getitem__, jobs)

    def _aggregates(self, templates: TemplateSet, run: Any) -> Array:
        parts = [np.zeros((run.num_rows, 0))]
        for template in templates.of_predictions:
            assert isinstance(template, Over)
            parts.append(self._received(template, templates.n_votes, run, str(template.rule)))
        return np.concatenate(parts, axis=1)

    def _received(self, template: Over, n_votes: int, run: Any, sums_of: str) -> Array:
        prefix, width = self.tables[sums_of], n_votes if template.of == "features" else template.width(n_votes)
        out = np.empty((run.num_rows, width))
        received(template, n_votes, lambda name: run.column(f"{prefix}_{name}").to_numpy(), out)
        return out


def _stacked(run: Any, names: Sequence[str]) -> Array:
    """Columns of numbers side by side, NaN where there is none."""
    return np.stack([run.column(name).to_numpy().astype(np.float64) for name in names], axis=1)
