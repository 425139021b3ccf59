"""What an engine is to a model: it holds tables, joins and groups them, and hands out Arrow batches to compute on.

A model writes plain SQL (joins, windows, group-bys), in which the few functions that differ between engines are asked
of the engine, and gives kernels that take Arrow tables and answer another one. It never asks which engine it has.

A kernel may be sent to other processes: it is an object of a class at the top of a module, whose fields are plain
values, and models as `core.sending.Sent`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from kinfolk.core.settings import NONE, Rule
from kinfolk.errors import InputError, KinfolkError

ROW = "kf_row"  # the number of a row of a table, from 0
AT_A_TIME = 100_000  # rows
CELL = 8  # bytes of a number, and of a text beside its letters
Units = Callable[[Any], Iterable[Any]]  # an Arrow table of whole units -> tables of answers
Kernel = Callable[[Any, Any], Any]  # Arrow tables of records, in order of rows, and of pairs -> one of answers


class Beside(NamedTuple):
    """Columns of a table that a kernel sees beside those of another: name -> column, and what stands for none."""

    table: str
    columns: Mapping[str, str]
    absent: float | None = None

    def shown(self, alias: str) -> str:
        """As expressions of a SELECT."""
        absent = {int: f"{self.absent}", float: f"{self.absent!r}e0"}.get(type(self.absent), "NULL")
        return ", ".join(f"coalesce({alias}.{column}, {absent}) AS {name}" for name, column in self.columns.items())


ENGINE = Rule("an engine: Threads(), DuckDB(...) or Spark(session)", lambda value: hasattr(value, "in_memory")) | NONE


class EngineError(KinfolkError, RuntimeError):
    """An engine could not do what it was asked: too little room or memory, a session that ended."""


class Missing(InputError):
    """A row has nothing in a column that has to be filled."""

    def __init__(self, row: int, column: str) -> None:
        super().__init__(f"row {row} has no {column!r}; fill it in or leave the row out")
        self.row, self.column = row, column


@dataclass(frozen=True, eq=False)
class HandedOut:
    """A value that kernels look at, for engines whose kernels run in this process."""

    value: Any

    def destroy(self) -> None:
        """Let go of it."""


class Engine(ABC):
    """Abstract: where tables are and queries run. Models share one: a copy of a model has the same engine."""

    in_memory: ClassVar[bool] = False  # `engines.threads.Threads` has True
    holds: ClassVar[int] = 0  # bytes of columns that come into this process sooner than queries join and group them

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds: temporary tables, connections it opened."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def read(self, source: Any, table: str, row: str) -> None:
        """Make a table of a source: files and globs, frames, relations; `row`: a new column that numbers its rows."""

    def view(self, source: Any, table: str, row: str) -> None:
        """As `read`; files that a query can read as they are need not be copied."""
        self.read(source, table, row)

    @abstractmethod
    def make(self, table: str, query: str) -> None:
        """Make a table of the answer to a query, in the place of one of this name, which the query may read."""

    @abstractmethod
    def add(self, table: str, query: str) -> None:
        """Add the answer to a query to a table; its columns are taken in order."""

    @abstractmethod
    def drop(self, *tables: str) -> None:
        """Remove tables, if they are there."""

    @abstractmethod
    def number(self, table: str, query: str, by: str, number: str) -> None:
        """Make a table of the answer to a query with a new column that numbers its rows, from 0, in order of `by`,
        in which nothing is missing."""

    def make_passing(self, table: str, query: str) -> None:
        """As `make`, of a table that is read soon and then dropped: an engine may write it as it is, not compressed."""
        self.make(table, query)

    def make_in_order(self, table: str, query: str, by: str) -> None:
        """As `make`, with rows in an order by which an engine finds them faster; one that gains nothing by it need not
        sort."""
        self.make(table, f"{query} ORDER BY {by}")

    def make_turned(self, table: str, query: str, by: str) -> None:
        """As `make_in_order`, of a query that names the columns of one table otherwise, and no more; that table has to
        stay as long as this one."""
        self.make_in_order(table, query, by)

    def in_order(self, shown: Sequence[str], source: str, row: str, n_rows: int) -> str:
        """A query of named expressions over tables, in order of `row`, the numbers from 0 to `n_rows` - 1."""
        return f"SELECT {', '.join(shown)} FROM {source} ORDER BY {row}"

    def arrange(self, table: str, query: str, key: str, columns: str) -> None:
        """Make a table of expressions over the rows of a query, of which each value of `key` counts once, in its order
        as in `make_in_order`."""
        self.make(table, f"SELECT {columns} FROM (SELECT DISTINCT {key} FROM ({query})) ORDER BY {key}")

    @abstractmethod
    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The answer to a query that has few rows."""

    @abstractmethod
    def arrow(self, query: str) -> Any:
        """The answer as an Arrow table, where it is known to fit."""

    def n_rows(self, table: str) -> int:
        return int(self.rows(f"SELECT count(*) FROM {table}")[0][0])

    def held(self, table: str, columns: Sequence[str], most: int) -> Any:
        """Columns of a numbered table as an Arrow table, in order of `kf_row`; None if they take more bytes."""
        texts = [name for name in columns if self.is_text(self.columns(table)[name])]
        long = "".join(f" + coalesce(sum(length({quoted(name)})), 0)" for name in texts)
        if int(self.rows(f"SELECT {CELL * len(columns)} * count(*){long} FROM {table}")[0][0]) > most:
            return None
        shown = ", ".join(quoted(name) for name in dict.fromkeys((ROW, *columns)))
        return self.arrow(f"SELECT {shown} FROM {table}").sort_by(ROW).select(columns)

    def handed_out(self, value: Any) -> Any:
        """Something whose `value` kernels look at, wherever they are, until it is told to `destroy` it."""
        return HandedOut(value)

    @abstractmethod
    def batches(self, query: str, n_rows: int) -> Iterator[Any]:
        """The answer as Arrow batches of at most so many rows, one after the other."""

    @abstractmethod
    def fill(self, table: str, schema: Any, pieces: Iterable[Any]) -> None:
        """Make a table of Arrow tables of this schema, one after the other; there may be none."""

    def map(self, query: str, kernel: Callable[[Any], Any], into: str, schema: Any, n_rows: int = AT_A_TIME) -> None:
        """Make a table of what a kernel says of Arrow batches of at most so many rows of the answer to a query."""
        self.fill(into, schema, (kernel(batch) for batch in self.batches(query, n_rows)))

    @abstractmethod
    def map_units(self, asked: Iterable[tuple[str, Units]], into: str, schema: Any) -> None:
        """Make a table of what kernels say of units of work, those of the first query before those of the second.

        asked   queries with a column `unit`, a whole number that is not missing; and for each a kernel, which sees
                Arrow tables of its rows, in any order, all rows of a unit in the same table
        """

    def map_with(
        self, table: str, columns: Sequence[str], others: Sequence[Beside], kernel: Callable[[Any], Any], into: str,
        schema: Any, n_rows: int = AT_A_TIME,
    ) -> None:  # fmt: skip
        """Make a table of what a kernel says of runs of rows of a table, with what other tables have of these rows.

        columns   of the table, that the kernel sees beside `kf_row`
        others    tables with a column `kf_row` of their own, in its order, in which no row comes twice
        """
        self.map(rows_with(table, columns, others), kernel, into, schema, n_rows)

    def answered(
        self, table: str, keep: Sequence[str], new: Mapping[str, str], columns: Sequence[str], others: Sequence[Beside],
        kernel: Callable[[Any], Any], into: str, schema: Any, size: int, n_rows: int = AT_A_TIME,
    ) -> str:  # fmt: skip
        """A query that gives the rows of a table in order, with what a kernel says of each, which it is asked as by
        `map_with`; what it looks at has to stay until the query was asked.

        keep      columns of the table that are given
        new       name -> column of those that the kernel answers; one of these is `kf_row`
        into      a table that answers may be kept in while the query is asked
        size      rows of the table
        """
        self.map_with(table, columns, others, kernel, into, schema, n_rows)
        shown = [f"t.{quoted(name)} AS {quoted(name)}" for name in keep]
        shown += [f"a.{quoted(own)} AS {quoted(name)}" for name, own in new.items()]
        return self.in_order(shown, f"{table} t JOIN {into} a ON a.{ROW} = t.{ROW}", f"t.{ROW}", size)

    @abstractmethod
    def is_own(self, source: Any) -> bool:
        """Whether a source is a table of the engine's own kind, which `frame` gives back."""

    @abstractmethod
    def frame(self, query: str) -> Any:
        """The answer as a table of the engine's own kind, which stays as it is as long as the engine lives."""

    @abstractmethod
    def write(self, query: str, path: str | os.PathLike[str]) -> None:
        """Write the answer as Parquet, in order: all of it, or the path is as it was."""

    def labelled(
        self, table: str, keep: Sequence[str], unit: str, columns: Sequence[str], kernel: Callable[[Any], Any],
        full: Sequence[str], into: str, schema: Any,
    ) -> str:  # fmt: skip
        """A query that gives the rows of a table in order, with what a kernel says of each.

        keep      columns of the table that are given
        unit      the column that names units of work
        columns   those the kernel sees, as kf_column_0, kf_column_1, ... beside `kf_row` and `unit`, the first row of a
                  unit. It sees Arrow tables, of which none cuts a unit, in order of unit and row, and answers alike
        full      columns in which nothing may be missing (`Missing`), the unit among them
        into      a table that answers may be kept in while the query is asked
        schema    of the answers
        """
        import pyarrow

        missing = ", ".join(f"min({gap})" for gap in gaps(full))
        refuse_missing(full, self.rows(f"SELECT {missing} FROM {table}")[0])
        name = quoted(unit)
        firsts = f"SELECT {name} AS kf_unit, min({ROW}) AS unit FROM {table} GROUP BY {name}"
        shown = ", ".join(f"t.{quoted(one)} AS kf_column_{k}" for k, one in enumerate(columns))
        rows = f"SELECT u.unit AS unit, t.{ROW} AS {ROW}, {shown} FROM {table} t"
        rows += f" JOIN ({firsts}) u ON u.kf_unit = t.{name} ORDER BY u.unit, t.{ROW}"
        numbered = pyarrow.schema([pyarrow.field(ROW, pyarrow.int64()), *schema])
        runs = runs_of(self.batches(rows, AT_A_TIME), whole=True)
        self.fill(into, numbered, (kernel(run).add_column(0, ROW, run.column(ROW)) for run in runs))
        given = [f"t.{quoted(one)}" for one in keep] + [f"a.{quoted(one)}" for one in schema.names]
        n_rows = self.rows(f"SELECT count(*) FROM {table}")[0][0]
        return self.in_order(given, f"{table} t JOIN {into} a ON a.{ROW} = t.{ROW}", f"t.{ROW}", n_rows)

    @abstractmethod
    def units(
        self, pairs: str, records: str, columns: Sequence[str], kernel: Kernel, into: str, schema: Any, whole: bool
    ) -> None:
        """Make a table of what a kernel says of runs of pairs with their records.

        pairs     a query: `low` and `high`, rows of two records; and, if `whole`, `unit`: no run cuts one
        records   the table of the records, whose rows are numbered in `kf_row`
        columns   those the kernel sees, beside `kf_row`
        schema    of what it answers
        """

    @abstractmethod
    def columns(self, table: str) -> dict[str, str]:
        """Columns and their types, in the engine's words."""

    @abstractmethod
    def is_text(self, kind: str) -> bool:
        """Whether such a type holds strings."""

    # -- words that engines have of their own ---------------------------------------------------------

    def literal(self, text: str) -> str:
        """A string as a value in SQL."""
        return literal(text)

    @abstractmethod
    def is_ascii(self, text: str) -> str:
        """An expression: whether a string has nothing but ASCII in it."""

    @abstractmethod
    def replaced(self, text: str, pattern: str, by: str) -> str:
        """An expression: every match of a regular expression replaced."""

    @abstractmethod
    def matches(self, text: str, pattern: str) -> str:
        """An expression: whether a regular expression matches the whole string."""

    @abstractmethod
    def hashed(self, text: str) -> str:
        """An expression: a whole number of 64 bits for a string that is not missing, in any order."""

    @abstractmethod
    def words(self, text: str) -> str:
        """An expression: the list of words of a string that are divided by single blanks."""

    @abstractmethod
    def listed(self, *items: str) -> str:
        """An expression: a list of these."""

    @abstractmethod
    def each(self, items: str) -> str:
        """An expression in a SELECT: a row for every item of a list."""

    @abstractmethod
    def shared(self, left: str, right: str) -> str:
        """An expression: how many items two lists share, each without repetition."""


def quoted(name: str) -> str:
    """A column or table as a name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def rows_with(table: str, columns: Sequence[str], others: Sequence[Beside]) -> str:
    """A query of `kf_row` and columns of a table, with what other tables have of these rows."""
    shown = [f"t.{quoted(name)}" for name in dict.fromkeys((ROW, *columns))]
    shown += [one.shown(f"o{i}") for i, one in enumerate(others)]
    joins = (f" LEFT JOIN {one.table} o{i} ON o{i}.{ROW} = t.{ROW}" for i, one in enumerate(others))
    return f"SELECT {', '.join(shown)} FROM {table} t{''.join(joins)}"


def literal(text: str) -> str:
    """A string as a value in SQL."""
    return "'" + text.replace("'", "''") + "'"


def gaps(columns: Iterable[str]) -> list[str]:
    """Expressions: the number of a row in which a column has nothing, else nothing."""
    return [f"CASE WHEN {quoted(name)} IS NULL THEN {ROW} END" for name in columns]


def refuse_missing(columns: Sequence[str], rows: Sequence[int | None]) -> None:
    """Raise `Missing` for the first column that has nothing in a row."""
    for name, row in zip(columns, rows, strict=True):
        if row is not None:
            raise Missing(int(row), name)


NO_VALUE = ('"NULL"', "null", "void")  # types of columns without any value, in the words of DuckDB, Arrow, Spark


def check_files(names: Sequence[str], kinds: Sequence[Mapping[str, str]]) -> None:
    """Refuse files of a glob that differ; a column without any value in a file has whatever type it has elsewhere."""
    known = dict(kinds[0])
    for name, own in zip(names[1:], kinds[1:], strict=True):
        known |= {one: own[one] for one, kind in known.items() if kind in NO_VALUE and one in own}
        typed = {one: known.get(one, kind) if kind in NO_VALUE else kind for one, kind in own.items()}
        check_columns(name, typed, names[0], known)


def check_columns(name: str, own: dict[str, str], first: str, known: dict[str, str]) -> None:
    """Refuse a file that differs from the first of a glob."""
    lacking = next((one for one in known if one not in own), None)
    more = next((one for one in own if one not in known), None)
    other = next((one for one in known if own.get(one, known[one]) != known[one]), None)
    if lacking is not None:
        raise InputError(f"{name}: there is no column {lacking!r}, which {first} has; files of a glob are one table")
    if more is not None:
        raise InputError(f"{name}: there is a column {more!r}, which {first} has not; files of a glob are one table")
    if other is not None:
        raise InputError(
            f"{name}: the column {other!r} is {own[other]}, and in {first} it is {known[other]}; write both alike"
        )


def runs_of(batches: Iterable[Any], whole: bool) -> Iterator[Any]:
    """Arrow tables of batches; if `whole`, rows of one `unit`, which lie together, stay together."""
    import numpy as np
    import pyarrow

    kept: list[Any] = []
    for batch in batches:
        table = pyarrow.Table.from_batches([batch])
        if not whole:
            yield table
            continue
        unit = table.column("unit").to_numpy()
        cut = int(np.flatnonzero(np.diff(unit, prepend=unit[0] - 1))[-1])  # where the last unit begins
        same = bool(kept) and kept[-1].column("unit")[-1].as_py() == unit[0]
        if cut or not same:
            if kept and not same:
                yield pyarrow.concat_tables(kept)
                kept = []
            if cut:
                yield pyarrow.concat_tables([*kept, table.slice(0, cut)])
                kept = []
        kept.append(table.slice(cut))
    if kept:
        yield pyarrow.concat_tables(kept)
