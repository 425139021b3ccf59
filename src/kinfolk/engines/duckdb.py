"""DuckDB: tables on the disk of this machine, larger than its memory."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from kinfolk.core.engine import (
    AT_A_TIME,
    NO_VALUE,
    ROW,
    Beside,
    Engine,
    EngineError,
    Kernel,
    Units,
    check_files,
    literal,
    quoted,
    runs_of,
)
from kinfolk.core.files import refuse_empty, replacing
from kinfolk.core.frames import as_arrow
from kinfolk.errors import InputError, SettingError

READERS = {".parquet": "read_parquet", ".pq": "read_parquet", ".csv": "read_csv", ".tsv": "read_csv"}
PAIRS_AT_A_TIME = 200_000  # runs of a million take two gigabytes
UNITS_AT_A_TIME = 1_000_000  # rows of blocks of records: some tens of megabytes
WRITTEN_AT_ONCE = 122_880  # rows that DuckDB keeps together: fewer are written twice
SIZE = re.compile(r"[1-9][0-9]*(\.[0-9]+)? ?[KMGT]i?B", re.IGNORECASE)
INSTALL = "pip install 'kinfolk[duckdb]'"


@final
@dataclass(eq=False)
class DuckDB(Engine):
    """Tables in a DuckDB database, by default one in a temporary folder that goes with the engine.

    memory_limit     what DuckDB itself may take, such as "500MB"; None: four fifths of the machine's
    temp_directory   where it puts what does not fit, and its own database; None: the temporary folder of the system
    database         a file to keep the tables in; None: a temporary one
    threads          None: all cores
    """

    memory_limit: str | None = None
    temp_directory: str | Path | None = None
    database: str | Path | None = None
    threads: int | None = None
    _connection: Any = field(default=None, init=False, repr=False)
    _folder: Any = field(default=None, init=False, repr=False)
    _n_answers: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.memory_limit is not None and not SIZE.fullmatch(str(self.memory_limit)):
            self._connected(":memory:", {"memory_limit": self.memory_limit}).close()  # DuckDB knows more ways

    @property
    def connection(self) -> Any:
        """The connection, made when it is first asked for."""
        if self._connection is None:
            parent = None if self.temp_directory is None else str(self.temp_directory)
            with _told("the temporary folder"):
                folder = tempfile.mkdtemp(prefix="kinfolk-", dir=parent)
            self._folder = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)  # where nobody closes it
            target = str(self.database) if self.database is not None else f"{folder}/tables.duckdb"
            given = {"memory_limit": self.memory_limit, "threads": self.threads}
            settings = {name: value for name, value in given.items() if value is not None}
            settings |= {"temp_directory": f"{folder}/spilled", "preserve_insertion_order": True}
            try:
                with _told("the database"):
                    self._connection = self._connected(target, settings)
            finally:
                if self._connection is None:
                    self.close()
        return self._connection

    def _connected(self, target: str, settings: dict[str, Any]) -> Any:
        duckdb = _duckdb()
        try:
            return duckdb.connect(target, config=settings)
        except (duckdb.InvalidInputException, duckdb.ParserException) as error:
            raise SettingError("memory_limit", self.memory_limit, "such as '500MB'", str(error)) from None

    def close(self) -> None:
        """Close the database, and remove a temporary one."""
        if self._connection is not None:
            self._connection.close()
        if self._folder is not None:
            self._folder()
        self._connection = self._folder = None

    def read(self, source: Any, table: str, row: str) -> None:
        numbered = f"SELECT row_number() OVER () - 1 AS {quoted(row)}, *"
        if isinstance(source, str | Path):
            self.make(table, f"{numbered} FROM {self._files(str(source))}")
            return
        with _told("the records"):
            held = source if not hasattr(source, "collect") else source.collect()  # of polars, a lazy one
            if _is_relation(held):
                held = held.to_arrow_reader() if hasattr(held, "to_arrow_reader") else held.fetch_record_batch()
            cursor = self.connection.cursor()
            cursor.register("kinfolk_given", as_arrow(held))
            cursor.execute(f"CREATE OR REPLACE TABLE {table} AS {numbered} FROM kinfolk_given")

    def view(self, source: Any, table: str, row: str) -> None:
        self.drop(table)
        reader = self._files(str(source)) if isinstance(source, str | Path) else ""
        if not reader.startswith("read_parquet"):
            self.read(source, table, row)
            return
        self.run(f"CREATE VIEW {table} AS SELECT row_number() OVER () - 1 AS {quoted(row)}, * FROM {reader}")

    def _files(self, path: str) -> str:
        """What reads a file, or all that a glob names, which have to have the same columns of the same types."""
        found = sorted(glob.glob(path, recursive=True))
        if not found:
            raise InputError(f"there is no file {path!r}; give a path, or a glob such as 'people/*.parquet'")
        for one in found:
            refuse_empty(one)
        kinds = {READERS.get(Path(one).suffix.lower()) for one in found}
        if kinds - {"read_parquet"} and kinds - {"read_csv"}:
            first = Path(found[0]).name
            raise InputError(f"{path!r}: expected .parquet or .csv files, one kind at a time; got {first!r}")
        reader = "read_csv" if kinds == {"read_csv"} else "read_parquet"
        options = ", all_varchar = true, header = true" if reader == "read_csv" else ""
        columns = [self.columns(f"SELECT * FROM {reader}({literal(one)}{options})") for one in found]
        check_files(found, columns)
        if any(kind in NO_VALUE for own in columns for kind in own.values()):
            options += ", union_by_name = true"  # else types are those of the first file
        return f"{reader}([{', '.join(map(literal, found))}]{options})"

    def run(self, statement: str) -> None:
        """Run a statement."""
        with _told("a query"):
            self.connection.execute(statement)

    def make(self, table: str, query: str) -> None:
        self.run(f"CREATE OR REPLACE TABLE {table} AS {query}")

    def make_passing(self, table: str, query: str) -> None:
        # of a million records with three keys, to compress takes as long as to make them
        self.run("SET force_compression = 'uncompressed'")
        try:
            self.make(table, query)
        finally:
            self.run("RESET force_compression")

    def add(self, table: str, query: str) -> None:
        self.run(f"INSERT INTO {table} {query}")

    def drop(self, *tables: str) -> None:
        for table in tables:
            of_that_name = f"SELECT table_type FROM information_schema.tables WHERE table_name = {literal(table)}"
            for (kind,) in self.rows(of_that_name):
                self.run(f"DROP {'VIEW' if kind == 'VIEW' else 'TABLE'} {table}")

    def number(self, table: str, query: str, by: str, number: str) -> None:
        self.make(table, f"SELECT *, row_number() OVER (ORDER BY {by}) - 1 AS {quoted(number)} FROM ({query})")

    def arrange(self, table: str, query: str, key: str, columns: str) -> None:
        # a sort and a look at the row before take half the time of DISTINCT and a sort
        before = f"SELECT {key}, lag({key}) OVER () AS kf_before FROM (SELECT {key} FROM ({query}) ORDER BY {key})"
        self.make(table, f"SELECT {columns} FROM ({before}) WHERE {key} IS DISTINCT FROM kf_before")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with _told("a query"):
            return list(self.connection.cursor().execute(query).fetchall())

    def arrow(self, query: str) -> Any:
        with _told("a query"):
            return self.connection.cursor().sql(query).to_arrow_table()

    def batches(self, query: str, n_rows: int) -> Iterator[Any]:
        with _told("a query"):
            reader = self.connection.cursor().sql(query).to_arrow_reader(n_rows)
        while True:
            with _told("a query"):
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield batch

    def map(self, query: str, kernel: Callable[[Any], Any], into: str, schema: Any, n_rows: int = AT_A_TIME) -> None:
        self._fill_ahead(into, schema, kernel, self.batches(query, n_rows))

    def map_units(self, asked: Iterable[tuple[str, Units]], into: str, schema: Any) -> None:
        def answers() -> Iterator[Any]:
            for query, kernel in asked:
                n_parts = -(-self.rows(f"SELECT count(*) FROM ({query})")[0][0] // UNITS_AT_A_TIME)
                for part in range(n_parts):
                    of_part = f"SELECT * FROM ({query}) WHERE unit % {n_parts} = {part}"
                    yield from kernel(self.arrow(query if n_parts == 1 else of_part))

        with ThreadPoolExecutor(1, thread_name_prefix="kinfolk-ahead") as thread:
            self.fill(into, schema, _ahead(answers(), thread))

    def map_with(
        self, table: str, columns: Sequence[str], others: Sequence[Beside], kernel: Callable[[Any], Any], into: str,
        schema: Any, n_rows: int = AT_A_TIME,
    ) -> None:  # fmt: skip
        # Other tables are in order of rows, so that a run of them is a short look; a join would hold them whole.
        shown = ", ".join(quoted(name) for name in dict.fromkeys((ROW, *columns)))
        batches = self.batches(f"SELECT {shown} FROM {table}", n_rows)
        self._fill_ahead(into, schema, kernel, (self._with(batch, others) for batch in batches))

    def _with(self, batch: Any, others: Sequence[Beside]) -> Any:
        """A batch with what other tables have of its rows."""
        import pyarrow

        run = pyarrow.Table.from_batches([batch])
        rows = run.column(ROW).to_numpy()
        if not len(rows):
            return run
        for one in others:
            asked = ", ".join(f"{column} AS {name}" for name, column in one.columns.items())
            within = f"WHERE {ROW} BETWEEN {rows.min()} AND {rows.max()}"
            found = self.arrow(f"SELECT {ROW} AS kf_found, {asked} FROM {one.table} {within}")
            for name, column in _placed(rows, found, one.absent).items():
                run = run.append_column(name, column)
        return run

    def _fill_ahead(self, into: str, schema: Any, kernel: Callable[[Any], Any], runs: Iterator[Any]) -> None:
        with ThreadPoolExecutor(1, thread_name_prefix="kinfolk-ahead") as thread:  # the next rows while these are done
            self.fill(into, schema, (kernel(run) for run in _ahead(runs, thread)))

    def fill(self, table: str, schema: Any, pieces: Iterable[Any]) -> None:
        cursor, begin = self.connection.cursor(), f"CREATE OR REPLACE TABLE {table} AS"
        for piece in itertools.chain([schema.empty_table()], _gathered(pieces, WRITTEN_AT_ONCE)):
            with _told("a query"):
                cursor.register("kinfolk_piece", piece)
                cursor.execute(f"{begin} SELECT * FROM kinfolk_piece")
                cursor.unregister("kinfolk_piece")
            begin = f"INSERT INTO {table}"

    def is_own(self, source: Any) -> bool:
        return _is_relation(source)

    def frame(self, query: str) -> Any:
        self._n_answers += 1
        table = f"kf_answer_{self._n_answers}"
        self.make(table, query)
        with _told("a query"):
            return self.connection.cursor().table(table)

    def write(self, query: str, path: str | os.PathLike[str]) -> None:
        target = Path(path)
        with _told(f"{target}"), replacing(target) as (part, _):
            into = f"TO {literal(str(part))} (FORMAT parquet, USE_TMP_FILE false)"
            self.connection.execute(f"COPY ({query}) {into}")

    def units(
        self, pairs: str, records: str, columns: Sequence[str], kernel: Kernel, into: str, schema: Any, whole: bool
    ) -> None:
        import numpy as np
        import pyarrow

        chosen = ", ".join(f"r.{quoted(name)}" for name in dict.fromkeys((ROW, *columns)))
        wanted = f"SELECT {chosen} FROM {records} r SEMI JOIN kinfolk_rows k ON r.{ROW} = k.{ROW} ORDER BY r.{ROW}"
        cursor = self.connection.cursor()
        together = f"SELECT * FROM ({pairs}) ORDER BY unit" if whole else pairs

        def answers() -> Iterator[Any]:
            # DuckDB cuts batches where its row groups end, and what is worked out once a record is once a run
            for run in runs_of(_larger(self.batches(together, PAIRS_AT_A_TIME), PAIRS_AT_A_TIME), whole):
                ends = [run.column(name).to_numpy() for name in ("low", "high")]
                rows = pyarrow.table({ROW: np.unique(np.concatenate(ends))})
                with _told("a query"):
                    cursor.register("kinfolk_rows", rows)
                    found = cursor.sql(wanted).to_arrow_table()
                yield kernel(found, run)

        self.fill(into, schema, answers())

    def columns(self, table: str) -> dict[str, str]:
        return {name: kind for name, kind, *_ in self.rows(f"DESCRIBE {table}")}

    def is_text(self, kind: str) -> bool:
        return kind == "VARCHAR"

    def is_ascii(self, text: str) -> str:
        return f"strlen({text}) = length({text})"

    def replaced(self, text: str, pattern: str, by: str) -> str:
        return f"regexp_replace({text}, {literal(pattern)}, {literal(by)}, 'g')"

    def matches(self, text: str, pattern: str) -> str:
        return f"regexp_full_match({text}, {literal(pattern)})"

    def hashed(self, text: str) -> str:
        return f"hash({text})"

    def words(self, text: str) -> str:
        return f"string_split({text}, ' ')"

    def listed(self, *items: str) -> str:
        return f"[{', '.join(items)}]"

    def each(self, items: str) -> str:
        return f"unnest({items})"

    def shared(self, left: str, right: str) -> str:
        return f"len(list_intersect({left}, {right}))"


def _placed(rows: Any, found: Any, absent: float | None) -> dict[str, Any]:
    """Columns of a table of Arrow at the places of rows; `kf_found` has those of its own."""
    import numpy as np
    import pyarrow

    there = found.column("kf_found").to_numpy()
    if not np.array_equal(there, rows):
        order = np.argsort(there, kind="stable")
        place = np.searchsorted(there[order], rows)
        place[place == len(there)] = -1
        here = np.flatnonzero(np.isin(rows, there))
        index = np.zeros(len(rows), np.int64)
        index[here] = order[place[here]]
        found = found.take(pyarrow.array(index, mask=np.isin(rows, there, invert=True)))
        if absent is not None:
            found = pyarrow.table(
                {name: column.fill_null(absent) for name, column in zip(found.column_names, found.columns, strict=True)}
            )
    return {name: found.column(name) for name in found.column_names if name != "kf_found"}


def _gathered(pieces: Iterable[Any], n_rows: int) -> Iterator[Any]:
    """Arrow tables of at least so many rows, but for the last."""
    import pyarrow

    held: list[Any] = []
    for piece in pieces:
        held.append(piece)
        if sum(one.num_rows for one in held) >= n_rows:
            yield pyarrow.concat_tables(held)
            held = []
    if held:
        yield pyarrow.concat_tables(held)


def _larger(batches: Iterable[Any], n_rows: int) -> Iterator[Any]:
    """Batches put together, as far as they have so many rows."""
    import pyarrow

    held: list[Any] = []
    for batch in batches:
        if held and sum(one.num_rows for one in held) + batch.num_rows > n_rows:
            yield from pyarrow.Table.from_batches(held).combine_chunks().to_batches()
            held = []
        held.append(batch)
    if held:
        yield from pyarrow.Table.from_batches(held).combine_chunks().to_batches()


def _ahead(items: Iterator[Any], thread: ThreadPoolExecutor) -> Iterator[Any]:
    """The items, the next of which is made in a thread while one is worked on."""
    none = object()
    following = thread.submit(next, items, none)
    while (item := following.result()) is not none:
        following = thread.submit(next, items, none)
        yield item


def _is_relation(source: Any) -> bool:
    return type(source).__module__.partition(".")[0].strip("_") == "duckdb"


def check_installed() -> None:
    """Refuse to begin where DuckDB is not installed."""
    _duckdb()


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise InputError(f"the engine DuckDB needs duckdb, which is not installed: {INSTALL}") from None
    return duckdb


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Errors of DuckDB and of the disk as errors of kinfolk."""
    duckdb = _duckdb()
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        remedy = "raise `memory_limit`, or give a `temp_directory` with more room"
        raise EngineError(f"DuckDB: {_line(error)}; {remedy}") from error
    except (duckdb.IOException, OSError) as error:
        raise EngineError(f"DuckDB cannot read or write ({what}): {_line(error)}") from error
    except duckdb.Error as error:
        raise EngineError(f"DuckDB ({what}): {_line(error)}") from error


def _line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
