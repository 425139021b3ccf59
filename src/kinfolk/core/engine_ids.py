"""Ids in a table that an engine holds: refused where memory refuses them, in the same words."""

from __future__ import annotations

from collections.abc import Callable

from kinfolk.core.engine import Engine, quoted
from kinfolk.core.table import Table, TableColumn, check_id_type, frame_table, missing_ids, repeated_id


def head(engine: Engine, table: str, name: str, *but: str) -> Table:
    """The columns of a table, each with one value to know its type by, read when it is asked for."""

    def column(one: str) -> Callable[[], TableColumn]:
        return lambda: frame_table(engine.arrow(f"SELECT {quoted(one)} FROM {table} LIMIT 1"), name).column(one, one)

    return Table(name, {one: column(one) for one in engine.columns(table) if one not in but}, 0)


def check_ids(engine: Engine, table: str, row: str, named: Table, column: str, role: str) -> None:
    """Refuse a column of ids that is not there, has another type, or misses some; `named`: its `head`."""
    kind, name = named.column(column, role), quoted(column)
    missing = f"{name} IS NULL"
    if engine.is_text(engine.columns(table)[column]):
        missing += f" OR {name} = ''"
    if kind.type == "float":
        missing += f" OR isnan(CAST({name} AS DOUBLE))"
    count, first = engine.rows(f"SELECT count(*), min({row}) FROM {table} WHERE {missing}")[0]
    known = engine.arrow(f"SELECT {name} FROM {table} WHERE NOT ({missing}) LIMIT 1")
    if known.num_rows and kind.kind != "text":
        kind = frame_table(known, named.name).column(column, role)
        check_id_type(named, column, role, kind, int(first) if count else None)
    if count:
        raise missing_ids(named, column, role, int(first), int(count))


def check_distinct_ids(engine: Engine, table: str, row: str, named: Table, column: str) -> None:
    """Refuse an id that stands in two rows."""
    name = quoted(column)
    if not engine.rows(f"SELECT 1 FROM {table} GROUP BY {name} HAVING count(*) > 1 LIMIT 1"):
        return
    rank = f"SELECT {row}, CAST({name} AS STRING) AS id, min({row}) OVER (PARTITION BY {name}) AS first FROM {table}"
    at, key, first = engine.rows(f"SELECT {row}, id, first FROM ({rank}) WHERE {row} > first ORDER BY {row} LIMIT 1")[0]
    raise repeated_id(named, str(key), int(first), int(at))
