"""Records in one table, or in two that are to be linked, as `Mentions` without pairs: blocking adds them.

Every column that nothing else is said of is a field. Two tables are matched by the names of their columns; one that
only one of them has is left out, with a warning. Texts are taken without blanks around them; an empty one is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.column import Column
from kinfolk.core.columns import Column as TableColumn
from kinfolk.core.columns import strings
from kinfolk.core.ids import NodeIds
from kinfolk.core.table import Table, frame_table, in_memory, is_lists, listed
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.mention_checks import Attribute
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.record_truth import RecordIds, clusters_in_ids, clusters_in_table, clusters_of_matches, numbered

log = logging.getLogger("kinfolk")
EXACT = 2**53  # whole numbers up to here are exact in float64


class RecordColumns(NamedTuple):
    """The parts that columns of records play."""

    id: str | None = "id"
    fields: str | Sequence[str] | None = None
    cluster: str | None = None  # of the records, or of the table of the truth if there is one
    cluster_from_id: str | None = None
    table: str | None = None
    match_columns: Sequence[str] | None = None
    truth_closure: str = "close"

    def roles(self, has_truth: bool) -> dict[str, str]:
        """column -> the part it plays, which no field can."""
        parts = {"id": self.id, "cluster": None if has_truth else self.cluster, "table": self.table}
        return {column: part for part, column in parts.items() if column is not None}

    def check(self, has_truth: bool) -> None:
        if self.cluster_from_id is not None and (has_truth or self.cluster is not None):
            raise SettingError("the truth is given twice: name either cluster_from_id, or cluster and truth")
        if self.match_columns is not None and (not has_truth or self.cluster is not None):
            raise SettingError("match_columns are columns of a truth of matches; give it as truth=..., without cluster")
        if self.match_columns is not None and (isinstance(self.match_columns, str) or len(self.match_columns) != 2):
            raise SettingError(f"match_columns must name two columns; got {self.match_columns!r}")


def records_from_frames(
    frame: Any,
    other: Any = None,
    *,
    id: str | None = "id",
    fields: str | Sequence[str] | None = None,
    cluster: str | None = None,
    cluster_from_id: str | None = None,
    table: str | None = None,
    truth: Any = None,
    match_columns: Sequence[str] | None = None,
    truth_closure: str = "close",
) -> Mentions:
    """The records in a data frame of pandas, polars, Arrow or another that narwhals knows, or in a dict of lists; no
    pairs yet.

    frame, other      one row a record. With `other` records of the first are to be linked with records of the second
    id                the column of ids, distinct within a table; None: the numbers of the rows
    fields            what is compared; default: all columns that nothing else is said of. Numbers stay numbers
    cluster           the column that names the true cluster of a record, missing = not known
    cluster_from_id   a regular expression whose one group is the cluster in an id; "febrl": r"rec-(\\d+)-"
    table             the column with two values that tells which of two tables a record is from, in place of `other`
    truth             a frame of all matches there are, for any other pair is taken for none: two columns of ids, of the
                      first and of the second table if there are two; or, with `cluster`, a frame of ids and clusters,
                      in which records it does not name are not known. Labels of some pairs go to `Linker.fit`
    match_columns     the two columns of `truth`; default: all it has
    truth_closure     "close": what follows from matches (a = b, b = c: a = c) is one too, with a warning; or "refuse"

    The names of the items are the ids; should two tables have some in common, "first:id" and "second:id".
    """
    columns = RecordColumns(id, fields, cluster, cluster_from_id, table, match_columns, truth_closure)
    given = [("first", _frame(frame, "records" if other is None else "first"))]
    given += [] if other is None else [("second", _frame(other, "second"))]
    return gathered(given, columns, truth is not None).mentions(None if truth is None else _frame(truth, "truth"))


def _frame(frame: Any, name: str) -> Table:
    """A frame whose dates are written out as strings."""
    if is_lists(frame):
        return frame_table({key: _days_written(values) for key, values in frame.items()}, name)
    import narwhals.stable.v2 as nw

    whole = in_memory(frame, name)
    table = frame_table(whole, name)

    def written(column: Any) -> Callable[[], TableColumn]:
        return lambda: TableColumn("text", whole.get_column(column).dt.to_string("%Y-%m-%d").to_list(), "dates")

    dates = {str(key): written(key) for key, dtype in whole.schema.items() if dtype in (nw.Date, nw.Datetime)}
    return Table(name, {**table.columns, **dates}, table.n_rows)


def _days_written(values: Sequence[Any]) -> Sequence[Any]:
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [f"{value:%Y-%m-%d}" if isinstance(value, date) else value for value in listed]


class Gathered(NamedTuple):
    """Records whose truth is yet to come."""

    ids: RecordIds
    names: Sequence[str]
    fields: dict[str, Attribute]
    columns: RecordColumns

    def mentions(self, truth: Table | None) -> Mentions:
        n = self.ids.n_records
        clusters = self._clusters(truth)
        none = np.empty(0, np.int32)
        first_table = len(self.ids.ids[0]) if len(self.ids.tables) == 2 else None
        return Mentions(self.fields, np.zeros(n, np.int32), none, none, clusters, self.names, None, first_table)

    def _clusters(self, truth: Table | None) -> NDArray[np.int32] | None:
        given = self.columns
        if truth is not None and given.cluster is not None:
            return clusters_in_table(self.ids, truth, given.id, given.cluster)
        if truth is not None:
            return clusters_of_matches(self.ids, truth, given.match_columns, given.truth_closure)
        if given.cluster is not None:
            return numbered([name for table in self.ids.tables for name in table.names(given.cluster, "cluster")])
        return None if given.cluster_from_id is None else clusters_in_ids(self.ids, given.cluster_from_id)


def gathered(tables: Sequence[tuple[str, Table]], columns: RecordColumns, has_truth: bool) -> Gathered:
    """The records of one or two tables, each with a word that tells it from the other."""
    columns.check(has_truth)
    if columns.table is not None:
        if len(tables) == 2:
            raise SettingError("table names a column that divides one table in two; there are two tables already")
        tables = _divided(tables[0][1], columns.table)
    ids = [NodeIds(table, columns.id).names for _, table in tables]
    own = [table for _, table in tables]
    return Gathered(
        RecordIds.of(own, ids), _names([word for word, _ in tables], ids), _fields(own, columns, has_truth), columns
    )


def _names(words: Sequence[str], ids: Sequence[Sequence[str]]) -> list[str]:
    if len(ids) == 2 and not set(ids[0]).isdisjoint(ids[1]):
        told = words if words[0] != words[1] else ("1", "2")
        return [f"{word}:{key}" for word, own in zip(told, ids, strict=True) for key in own]
    return [key for own in ids for key in own]


def _divided(table: Table, column: str) -> list[tuple[str, Table]]:
    """One table as two, by a column with two values; the one that comes first is the first."""
    names = table.full_names(column, "table")
    if not names:
        return [("first", table), ("second", table)]
    words = list(dict.fromkeys(names))
    if len(words) != 2:
        told = ", ".join(map(repr, words[:5])) or "none"
        raise table.fault(f"column {column!r} (table) must have two values, one a table; got {len(words)}: {told}")
    numbers = np.array([words.index(name) for name in names])
    return [(word, _some_rows(table, np.flatnonzero(numbers == side))) for side, word in enumerate(words)]


def _some_rows(table: Table, rows: NDArray[np.int64]) -> Table:
    def taken(make: Callable[[], TableColumn]) -> Callable[[], TableColumn]:
        def column() -> TableColumn:
            whole = make()
            values = whole.values
            if whole.kind == "text":
                values = [value or "" for piece in strings(whole) for value in piece]
            return whole._replace(values=[values[row] for row in rows] if isinstance(values, list) else values[rows])

        return column

    def place(row: int) -> str:
        return table.place(int(rows[row])).removeprefix(f"{table.name}, ")

    return Table(table.name, {name: taken(make) for name, make in table.columns.items()}, len(rows), place=place)


# -- fields -------------------------------------------------------------------------------------------


def _fields(tables: Sequence[Table], columns: RecordColumns, has_truth: bool) -> dict[str, Attribute]:
    made: dict[str, Attribute] = {}
    for name in _field_names(tables, columns, has_truth):
        values = _values([table.column(name, "fields") for table in tables], tables, name)
        known = (values.codes >= 0) if isinstance(values, Column) else ~np.isnan(values)
        made[name] = values
        if len(known) and not known.any():
            log.warning("%s: the field %r is empty in every record", tables[0].name, name)
    if not made:
        wanted = "expected at least one column besides ids and clusters"
        raise tables[0].fault(f"no fields to compare: {wanted}; name them with fields=...")
    return made


def _field_names(tables: Sequence[Table], columns: RecordColumns, has_truth: bool) -> Iterable[str]:
    roles = columns.roles(has_truth)
    if columns.fields is not None:
        for name in listed(columns.fields):
            if name in roles:
                raise SettingError(f"the field {name!r} is the {roles[name]} as well, which tells the answer; drop it")
        return dict.fromkeys(listed(columns.fields))
    shared = [name for name in tables[0].columns if all(name in table.columns for table in tables)]
    for table in tables:
        single = [name for name in table.columns if name not in shared and name not in roles]
        if single:
            told = "%s: the other table has no column %s, so it is left out; give both the same names to compare them"
            log.warning(told, table.name, " or ".join(map(repr, single)))
    return [name for name in shared if name not in roles]


def _values(given: Sequence[TableColumn], tables: Sequence[Table], name: str) -> Attribute:
    """One field of all tables: numbers if it holds numbers in each of them, else strings."""
    if all(column.kind in ("whole", "number") for column in given):
        numbers = np.concatenate([column.values.astype(np.float64) for column in given])
        if np.isinf(numbers).any():
            raise InputError(f"the field {name!r} holds an infinite number; make it missing or a text")
        if not any(column.kind == "whole" and (np.abs(column.values) > EXACT).any() for column in given):
            return numbers
    texts = (text for table in tables for text in table.names(name, "fields"))
    return Column.from_strings(None if text is None else text.strip() or None for text in texts)
