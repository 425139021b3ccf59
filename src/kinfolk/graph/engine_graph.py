"""Tables of nodes and links in an engine, as a graph: nodes are numbered as they stand, links lead from row to row, and
features are made of columns a run of nodes at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.aggregates_sql import Links
from kinfolk.core.data import Vocabulary
from kinfolk.core.engine import ROW, Engine, quoted
from kinfolk.core.settings import whole
from kinfolk.core.table import frame_table, listed
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.held_links import HeldLinks
from kinfolk.graph.links_in_engine import (
    IDS,
    RelationTables,
    capped,
    check_ids,
    head,
    is_csv,
    is_text,
    source_name,
    type_cells,
)
from kinfolk.graph.node_features import NodeColumns, feature_table
from kinfolk.graph.nodes import weighted_links
from kinfolk.graph.table_graphs import TableParts
from kinfolk.graph.trained_columns import (
    IS_MISSING,
    check_kinds,
    column_of,
    columns_as_trained,
    warn_by_position,
    warn_of_lacking,
    warn_of_new_values,
)

Array = NDArray[Any]
NODES, VALUES = "kf_nodes", "kf_values"
IN_MEMORY = "label these nodes in memory: `engine=None`"


@dataclass(frozen=True, eq=False)
class EngineGraph:
    """Tables of nodes and links. `there`: the columns of nodes, with their types; `fields`: those that make features;
    `relations`: name -> links, None for those that the model does not use; `spare`: tables these were made of; `held`:
    ids and links, where they are in this process."""

    engine: Engine
    columns: NodeColumns
    n: int
    title: str
    there: Mapping[str, Any]
    fields: Sequence[str]
    relations: Mapping[str, Links | None]
    spare: tuple[str, ...]
    held: HeldLinks | None = None

    @classmethod
    def of(
        cls, engine: Engine, nodes: Any, edges: Any, parts: TableParts, used: Sequence[str] | None = None,
        known: Sequence[str] | int | None = None, most_links: int | None = None, hold: int | None = None,
    ) -> EngineGraph:  # fmt: skip
        """`used`: the relations to make, `known`: the features to read; None: all. `hold`: ids and links may come into
        this process, where they and so many bytes a node are few."""
        columns = parts.columns
        if parts.ends.link_features is not None:
            raise SettingError("link_features", parts.ends.link_features, "None with an engine", IN_MEMORY)
        if most_links is not None:
            whole(1).check("most_links", most_links)
        engine.drop(NODES)
        engine.view(nodes, NODES, ROW)
        if known is not None:
            columns = columns_as_trained(columns, known, [one for one in engine.columns(NODES) if one != ROW])
        if is_csv(nodes):
            type_cells(engine, NODES, {columns.id, columns.label, columns.group, *listed(columns.text), ROW})
        title = source_name(nodes, "nodes")
        table = head(engine, NODES, title, ROW)
        chosen = [*columns.chosen(table), *listed(columns.text)]
        for name, part in [*((name, "features") for name in chosen), (columns.label, "label")]:
            if name is not None and name not in table.columns:
                table.column(name, part)  # says so
        n = engine.n_rows(NODES)
        if not n:
            raise table.fault("no nodes: expected a row for each, found none")
        there = {field.name: field.type for field in engine.arrow(f"SELECT * FROM {NODES} LIMIT 0").schema}
        wanted = chosen if known is None else _fields(chosen, known)
        held = HeldLinks.of(engine, NODES, edges, title, parts, most_links, hold * n) if hold is not None else None
        if held is not None:
            return cls(engine, columns, n, title, there, wanted, held.relations, (), held)
        _make_ids(engine, table, columns.id, n)
        links = RelationTables.of(engine, edges, parts.ends, parts.rules, title)
        made = every = links.relations(used)
        if most_links is not None:
            made = {name: one and capped(engine, name, one, most_links) for name, one in every.items()}
        spare = {one.table for one in every.values() if one} - {one.table for one in made.values() if one}
        return cls(engine, columns, n, title, there, wanted, made, tuple(spare))

    def drop_links(self) -> None:
        """Remove ids and links, which nobody needs once nodes are labelled."""
        if self.held is not None:
            return
        self.engine.drop(IDS, *(links.table for links in self.relations.values() if links is not None), *self.spare)

    def check_features(self, columns: Sequence[str] | int) -> None:
        """As in memory: features that the model knows and the table lacks count as 0, as do values it does not know,
        and a word is said of it."""
        if isinstance(columns, int):
            warn_by_position(columns, columns)
            return
        texts = [name for name in self.fields if name in self.there and is_text(self.engine, NODES, name)]
        check_kinds(columns, [f"{name}=" if name in texts else name for name in self.fields])
        whole = [place for place, name in enumerate(columns) if self._has(name)]
        warn_of_lacking(columns, np.array(whole, np.int32), list(self.fields))
        for field in texts:
            known = [name.removeprefix(f"{field}=") for name in columns if name.startswith(f"{field}=")]
            if known:
                self._warn_of_new_values(field, known)

    def _warn_of_new_values(self, field: str, known: Sequence[str]) -> None:
        fill_table(self.engine, VALUES, {"value": known})
        given = f"SELECT concat({quoted(field)}, '') AS value FROM {NODES}"
        new = f"SELECT g.value AS value, count(*) AS n FROM ({given}) g LEFT JOIN {VALUES} k ON k.value = g.value"
        new += " WHERE k.value IS NULL AND g.value <> '' GROUP BY g.value"
        n = self.engine.rows(f"SELECT sum(n) FROM ({new})")[0][0]
        if n:
            named = self.engine.rows(f"SELECT value FROM ({new}) ORDER BY value LIMIT 6")
            warn_of_new_values(field, [str(value) for (value,) in named], int(n), self.n)
        self.engine.drop(VALUES)

    def _has(self, feature: str) -> bool:
        """Whether there is a column of it: one of strings for a value or a word, one of numbers for a number."""
        field = _field(feature, self.fields)
        if field is None or feature not in (field, f"{field}{IS_MISSING}"):
            return field is not None
        return feature != field or not is_text(self.engine, NODES, field)

    @property
    def shown(self) -> list[str]:
        """The columns that a kernel needs to make features of, and to name nodes."""
        return list(dict.fromkeys((*self.fields, *([self.columns.id] if self.columns.id else []))))

    def weighs(self) -> dict[str, bool]:
        """Of the relations that are made and have links, whether any has another weight than 1."""
        if self.held is not None:
            return weighted_links(self.held.relations, list(self.held.relations))
        asked = {name: one.any_weighs(self.engine) for name, one in self.relations.items() if one is not None}
        return {name: weighs for name, weighs in asked.items() if weighs is not None}

    def id_of(self, row: int) -> str:
        if self.held is not None:
            return self.held.ids[row]
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


def _field(feature: str, there: Sequence[str]) -> str | None:
    """The column that a feature is made of."""
    found = column_of(feature, there)
    return None if found is None else found[0]


def _fields(there: Sequence[str], columns: Sequence[str] | int) -> list[str]:
    """The columns that features of the model are made of; without names of its features, all."""
    if isinstance(columns, int):
        return list(there)
    needed = {_field(name, there) for name in columns}
    return [name for name in there if name in needed]


def fill_table(engine: Engine, table: str, columns: Mapping[str, Any]) -> None:
    import pyarrow

    made = pyarrow.table(dict(columns))
    engine.fill(table, made.schema, [made])


def numbered(prefix: str, table: Array) -> dict[str, Array]:
    return {f"{prefix}{c}": np.ascontiguousarray(table[:, c]) for c in range(table.shape[1])}


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
        field = _field(name, graph.fields)
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
