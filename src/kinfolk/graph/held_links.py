"""Ids and links of tables in an engine, as in memory: where they are small enough to come into this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kinfolk.core.engine import ROW, Engine
from kinfolk.core.table import NodeIds, Table, frame_table
from kinfolk.graph.links_in_engine import edge_sources, head, is_csv, type_cells
from kinfolk.graph.table_graphs import TableParts, collected


@dataclass(frozen=True, eq=False)
class HeldLinks:
    """The ids of nodes, by row, and name -> CSR (n, n) of their relations."""

    ids: Sequence[str]
    relations: Mapping[str, Any]

    @classmethod
    def of(
        cls, engine: Engine, nodes: str, edges: Any, title: str, parts: TableParts, most_links: int | None, more: int
    ) -> HeldLinks | None:
        """`nodes`: a table of the engine, `title`: what it is called in messages, `more`: bytes that others need. None:
        it is more than the engine holds."""
        from kinfolk.graph.tables import capped

        room, id_ = engine.holds - more, parts.columns.id
        there = head(engine, nodes, title, ROW)
        if id_ is not None and id_ not in there.columns:
            there.column(id_, "id")  # says so
        held = engine.held(nodes, [ROW if id_ is None else id_], room) if room > 0 else None
        if held is None:
            return None
        room -= held.nbytes
        tables: list[tuple[str | None, Table]] = []
        for number, (name, source, called) in enumerate(edge_sources(edges)):
            table = f"kf_edges_{number}"
            links = _columns_of(engine, table, source, called, parts, room)
            if links is None:
                return None
            room -= links.nbytes
            tables.append((name, frame_table(links, called)))
            engine.drop(table)
        one = frame_table(held, title)
        ids = NodeIds(one, id_)
        relations = collected(one, ids, tables, parts.ends, parts.rules).relations(title)
        if most_links is not None:
            relations = {name: capped(links, ids.names, most_links) for name, links in relations.items()}
        return cls(ids.names, relations)


def _columns_of(engine: Engine, table: str, source: Any, title: str, parts: TableParts, room: int) -> Any:
    """Those that say where links lead, and of what kind and weight they are."""
    engine.drop(table)
    engine.view(source, table, ROW)
    ends = parts.ends
    if is_csv(source):
        type_cells(engine, table, {ends.source, ends.target, ends.relation, ROW})
    roles = {ends.source: "source", ends.target: "target", ends.relation: "relation", ends.weight: "weight"}
    there = head(engine, table, title, ROW)
    for name, role in roles.items():
        if name is not None and name not in there.columns:
            there.column(name, role)  # says so
    return engine.held(table, [name for name in roles if name is not None], room)
