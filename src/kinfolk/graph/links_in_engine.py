"""Tables of links in an engine to relations between rows of nodes, by the rules that `graph.links` has for memory.

Ids become rows by two joins; links with an end that is no node, from a node to itself, or repeated, are left out,
counted and told, or refused.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinfolk.collective.aggregates_sql import Links, make_links, reversed_links
from kinfolk.core.engine import ROW, Engine, quoted
from kinfolk.core.engine_ids import check_ids as check_ids
from kinfolk.core.engine_ids import head as head
from kinfolk.core.table import TRUTH, Table, is_lists
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.links import LeftOut, LinkRules
from kinfolk.graph.table_graphs import LinkColumns, _mismatch

log = logging.getLogger("kinfolk")
EDGE = "kf_edge"  # the number of a row of a table of links
LARGEST = "1.7976931348623157e308"
IDS = "kf_ids"  # of nodes: `kf_row` and `id`


def source_name(source: Any, otherwise: str) -> str:
    return str(source) if isinstance(source, str | Path) else otherwise


def is_text(engine: Engine, table: str, column: str) -> bool:
    return engine.is_text(engine.columns(table)[column])


# -- cells of CSV files ---------------------------------------------------------------------------------


def is_csv(source: Any) -> bool:
    return isinstance(source, str | Path) and Path(source).suffix.lower() in (".csv", ".tsv")


def type_cells(engine: Engine, table: str, as_written: Collection[str | None]) -> None:
    """Columns of a table of CSV files, which are strings, become numbers or truth values by all their cells, as they do
    in memory; those `as_written` stay strings."""
    made, changed = [], False
    for name, kind in engine.columns(table).items():
        cell = quoted(name)
        typed = _typed(engine, table, cell) if name not in as_written and engine.is_text(kind) else None
        changed |= typed is not None
        made.append(f"{typed or cell} AS {cell}")
    if changed:
        engine.make(table, f"SELECT {', '.join(made)} FROM {table}")


def _typed(engine: Engine, table: str, cell: str) -> str | None:
    """An expression for the cells of a column as numbers or as truth values; None: they are strings."""
    there, number = f"{cell} IS NOT NULL AND {cell} <> ''", f"TRY_CAST({cell} AS DOUBLE)"
    strange = f"{number} IS NULL OR {cell} LIKE '%#_%' ESCAPE '#'"  # DuckDB reads 1_000, memory does not
    words = f"lower({cell}) NOT IN ({', '.join(map(engine.literal, TRUTH))})"
    counted = (f"count(CASE WHEN {there} AND ({which}) THEN 1 END)" for which in (strange, words))
    no_numbers, no_truth = engine.rows(f"SELECT {', '.join(counted)} FROM {table}")[0]
    if not no_numbers:
        return f"CASE WHEN {there} THEN {number} END"
    if not no_truth:
        true = ", ".join(engine.literal(word) for word, value in TRUTH.items() if value)
        return f"CASE WHEN {there} THEN lower({cell}) IN ({true}) END"
    return None


# -- links ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EdgeTable:
    """A table of links in an engine; `name`: of all its links, or None."""

    engine: Engine
    table: str
    name: str | None
    ends: LinkColumns
    titled: Table

    @classmethod
    def of(cls, engine: Engine, number: int, name: str | None, source: Any, title: str, ends: LinkColumns) -> EdgeTable:
        table = f"kf_edges_{number}"
        engine.drop(table)
        engine.view(source, table, EDGE)
        if is_csv(source):
            type_cells(engine, table, {ends.source, ends.target, ends.relation, EDGE})
        made = cls(engine, table, name, ends, head(engine, table, title, EDGE))
        for column, role in ((ends.source, "source"), (ends.target, "target")):
            check_ids(engine, table, EDGE, made.titled, column, role)
        if name is not None and ends.relation is not None:
            raise SettingError.saying(f"the links of {title} are named {name!r} already; relation must be None")
        made._check_names()
        made._check_weights()
        return made

    @property
    def mapped(self) -> str:
        """The table of its links by rows of nodes, NULL where there is no such node."""
        return f"{self.table}_rows"

    def _check_names(self) -> None:
        if self.ends.relation is not None:
            self.titled.column(self.ends.relation, "relation")
            column = quoted(self.ends.relation)
            missing = f"{column} IS NULL OR concat({column}, '') = ''"
            first = self.engine.rows(f"SELECT min({EDGE}) FROM {self.table} WHERE {missing}")[0][0]
            if first is not None:
                what = f"no relation in column {self.ends.relation!r}; fill it in or leave the row out"
                raise self.titled.fault(what, int(first))

    def _check_weights(self) -> None:
        if self.ends.weight is None:
            return
        column = self.titled.column(self.ends.weight, "weight")
        what, kinds = f"column {self.ends.weight!r} (weight)", ("whole", "number", "truth")
        if column.kind not in kinds:
            raise self.titled.fault(f"{what}: expected numbers, got {column.dtype}; correct it or name another")
        weight = f"CAST({quoted(self.ends.weight)} AS DOUBLE)"
        wrong = f"{weight} IS NULL OR NOT abs({weight}) <= {LARGEST}"
        found = self.engine.rows(f"SELECT {EDGE}, {weight} FROM {self.table} WHERE {wrong} ORDER BY {EDGE} LIMIT 1")
        for row, value in found:
            got = "nothing" if value is None or value != value else value
            remedy = "fill it in or leave the row out"
            raise self.titled.fault(f"{what}: expected a finite number, got {got}; {remedy}", int(row))

    def names(self, usual: str) -> list[str]:
        """Of the relations of its links, in the order in which they appear."""
        if self.ends.relation is None:
            return [self.name or usual]
        text = f"concat({quoted(self.ends.relation)}, '')"
        query = f"SELECT {text} AS name, min({EDGE}) AS first FROM {self.table} GROUP BY {text} ORDER BY first"
        return [name for name, _ in self.engine.rows(query)]

    def joined(self, columns: str) -> str:
        """A query over its rows `e` with the nodes `a` and `b` at their ends."""
        own, made = self.engine, f"SELECT {columns} FROM {self.table} e"
        for end, node in ((self.ends.source, "a"), (self.ends.target, "b")):
            alike = is_text(own, self.table, end) == is_text(own, IDS, "id")
            left, right = f"{node}.id", f"e.{quoted(end)}"
            if not alike:  # 1 and "1" are the same
                left, right = f"concat({left}, '')", f"concat({right}, '')"
            made += f" LEFT JOIN {IDS} {node} ON {left} = {right}"
        return made

    def map(self) -> None:
        columns = f"a.{ROW} AS source, b.{ROW} AS target"
        if self.ends.weight is not None:
            columns += f", CAST(e.{quoted(self.ends.weight)} AS DOUBLE) AS weight"
        if self.ends.relation is not None:
            columns += f", concat(e.{quoted(self.ends.relation)}, '') AS relation"
        self.engine.make(self.mapped, self.joined(columns))

    def links(self, name: str, usual: str) -> str | None:
        """A query of those of one relation that join two different nodes; None if there are none."""
        if name not in self.names(usual):
            return None
        only = "" if self.ends.relation is None else f" AND relation = {self.engine.literal(name)}"
        weight = ", weight" * (self.ends.weight is not None)
        return f"SELECT source, target{weight} FROM {self.mapped} WHERE source <> target{only}"

    def first_lost(self) -> tuple[int, str]:
        """The first row with an end that is no node, and that end."""
        ends = f"e.{quoted(self.ends.source)}", f"e.{quoted(self.ends.target)}"
        lost = f"CASE WHEN a.{ROW} IS NULL THEN concat({ends[0]}, '') ELSE concat({ends[1]}, '') END"
        query = self.joined(f"e.{EDGE} AS place, {lost} AS lost") + f" WHERE a.{ROW} IS NULL OR b.{ROW} IS NULL"
        row, end = self.engine.rows(f"{query} ORDER BY place LIMIT 1")[0]
        return int(row), str(end)

    def first_loop(self) -> tuple[int, str]:
        id, query = f"concat(e.{quoted(self.ends.source)}, '')", f" WHERE a.{ROW} = b.{ROW}"
        query = self.joined(f"e.{EDGE} AS place, {id} AS id") + query
        row, end = self.engine.rows(f"{query} ORDER BY place LIMIT 1")[0]
        return int(row), str(end)

    def remedy(self) -> str:
        """What to do where no id of one table is in the other."""
        node = self.engine.rows(f"SELECT concat(id, '') FROM {IDS} ORDER BY {ROW} LIMIT 1")[0][0]
        ends = ", ".join(f"concat({quoted(end)}, '')" for end in (self.ends.source, self.ends.target))
        first = self.engine.rows(f"SELECT {ends} FROM {self.table} ORDER BY {EDGE} LIMIT 1")[0]
        return _mismatch(node, list(first), self.ends)


@dataclass
class RelationTables:
    """Relations of nodes in an engine, from as many tables of links as there are."""

    engine: Engine
    edges: list[EdgeTable]
    rules: LinkRules
    nodes: str  # where they come from, in words
    left_out: LeftOut = field(default_factory=LeftOut)

    @classmethod
    def of(cls, engine: Engine, edges: Any, ends: LinkColumns, rules: LinkRules, nodes: str) -> RelationTables:
        made = [
            EdgeTable.of(engine, i, name, source, title, ends)
            for i, (name, source, title) in enumerate(edge_sources(edges))
        ]
        tables = cls(engine, made, rules, nodes)
        for edge in made:
            edge.map()
            tables._check_ends(edge)
        return tables

    def _check_ends(self, edge: EdgeTable) -> None:
        """Refuse or count links that do not join two different nodes."""
        lost, loop = "source IS NULL OR target IS NULL", "source = target"
        each = ", ".join(f"count(CASE WHEN {which} THEN 1 END)" for which in (lost, loop))
        n, n_lost, n_loops = self.engine.rows(f"SELECT count(*), {each} FROM {edge.mapped}")[0]
        if not n:
            log.warning("%s has no links", edge.titled.name)
        if n_lost:
            if n_lost == n:
                what = f"none of the {n} links joins two nodes of {self.nodes}; {edge.remedy()}"
                raise edge.titled.fault(what)
            row, end = edge.first_lost()
            if self.rules.dangling == "refuse":
                what = f"{end!r} is not in {self.nodes}, and {n_lost} links have such an end"
                raise edge.titled.fault(f"{what}; add the nodes, or drop the links with `dangling='drop'`", row)
            self.left_out.dangling += n_lost
            self.left_out.first = self.left_out.first or f"{end!r} in {edge.titled.place(row)}"
        if n_loops:
            if self.rules.self_loops == "refuse":
                row, end = edge.first_loop()
                what = f"a link from {end!r} to itself, one of {n_loops}"
                raise edge.titled.fault(f"{what}; take them out, or drop them with `self_loops='drop'`", row)
            self.left_out.loops += n_loops

    def relations(self, wanted: Collection[str] | None) -> dict[str, Links | None]:
        """Name -> links of those wanted (None: all); None for others, which are not made. One warning counts what is
        left out."""
        found: dict[str, Links | None] = {}
        names = list(dict.fromkeys(name for edge in self.edges for name in edge.names(self.rules.link)))
        for number, name in enumerate(names):
            inverse = self.rules.inverse_of(name) if self.rules.directed is not False else None
            if self.rules.directed and wanted is not None and not {name, inverse} & {*wanted}:
                found |= {one: None for one in (name, inverse) if one is not None}
                continue
            links, both_ways = self._merged(name, f"kf_links_{number}")
            found[name] = links
            if not both_ways:
                inverse = self.rules.inverse_of(name)
                if inverse in names or inverse in found:
                    raise SettingError.saying(
                        f"two relations would be named {inverse!r}; name the inverses by `inverse={{...}}`"
                    )
                if inverse is not None:
                    table = f"kf_links_{number}_inverse"
                    needed = wanted is None or inverse in wanted
                    found[inverse] = reversed_links(self.engine, table, links) if needed else None
        self.engine.drop(*(edge.mapped for edge in self.edges))
        self.left_out.log(self.nodes)
        return found

    def _merged(self, name: str, table: str) -> tuple[Links, bool]:
        """The links of one name, each once, and whether they are one relation, both ways."""
        engine, weighted = self.engine, any(edge.ends.weight is not None for edge in self.edges)
        queries = (edge.links(name, self.rules.link) for edge in self.edges)
        query = " UNION ALL ".join(query for query in queries if query is not None)
        links = make_links(engine, table, query, weighted)
        came = engine.rows(f"SELECT count(*) FROM ({query})")[0][0]
        kept = f"(SELECT DISTINCT source, target FROM ({query}))" if weighted else table
        self._repeated(name, came - engine.rows(f"SELECT count(*) FROM {kept}")[0][0], weighted)
        if self.rules.directed:
            return links, False
        back = f"FROM {table} a {{}} {table} b ON b.source = a.target AND b.target = a.source"
        other = " OR b.weight <> a.weight" * weighted
        one_way = f"SELECT 1 {back.format('LEFT JOIN')} WHERE b.source IS NULL{other} LIMIT 1"
        both_ways = not engine.rows(one_way)
        if self.rules.directed is None or both_ways:
            return links, both_ways
        self._repeated(name, engine.rows(f"SELECT count(*) {back.format('JOIN')}")[0][0] // 2, weighted)
        weight = ", weight" * weighted
        turned = f"SELECT source, target{weight} FROM {table} UNION ALL SELECT target, source{weight} FROM {table}"
        made = make_links(engine, f"{table}_both", turned, weighted)
        engine.drop(table)
        return made, True

    def _repeated(self, name: str, count: int, weighted: bool) -> None:
        if count and self.rules.duplicates == "refuse":
            remedy = "take them out, or merge them with `duplicates='merge'`"
            raise InputError(f"links {name!r}: {count} were there before; {remedy}")
        self.left_out.added += count * weighted
        self.left_out.repeated += count * (not weighted)


def capped(engine: Engine, name: str, links: Links, most: int) -> Links:
    """At most so many links from each node, chosen by a hash of both ids, whatever the order of the links."""
    hubs = f"SELECT source, count(*) AS n FROM {links.table} GROUP BY source HAVING count(*) > {most}"
    n_hubs, largest = engine.rows(f"SELECT count(*), max(n) FROM ({hubs})")[0]
    if not n_hubs:
        return links
    log.info(
        "links %r: of %s nodes with more than %s, up to %s, only so many are used",
        name, f"{n_hubs:,}", f"{most:,}", f"{largest:,}",
    )  # fmt: skip
    columns = ", ".join(f"l.{one} AS {one}" for one in ("source", "target", *(["weight"] * links.weighted)))
    others = f"SELECT {columns} FROM {links.table} l LEFT JOIN ({hubs}) h ON h.source = l.source WHERE h.source IS NULL"
    rank = "row_number() OVER (PARTITION BY l.source ORDER BY md5(concat(a.id, '>', b.id)), l.target) AS kf_rank"
    ends = f"JOIN {IDS} a ON a.{ROW} = l.source JOIN {IDS} b ON b.{ROW} = l.target"
    ranked = f"SELECT {columns}, {rank} FROM {links.table} l JOIN ({hubs}) h ON h.source = l.source {ends}"
    plain = columns.replace("l.", "r.")
    kept = f"{others} UNION ALL SELECT {plain} FROM ({ranked}) r WHERE kf_rank <= {most}"
    table = f"{links.table}_capped"
    engine.make_in_order(table, f"SELECT * FROM ({kept})", "source, target")
    return Links(table, links.weighted)


def edge_sources(edges: Any) -> Iterator[tuple[str | None, Any, str]]:
    """Name or None, source, and what it is called in messages."""
    if isinstance(edges, Mapping) and not is_lists(edges):
        yield from ((name, source, source_name(source, f"edges[{name!r}]")) for name, source in edges.items())
    elif isinstance(edges, list | tuple):
        yield from ((None, source, source_name(source, f"edges[{i}]")) for i, source in enumerate(edges))
    else:
        yield None, edges, source_name(edges, "edges")
