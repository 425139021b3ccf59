"""Spark: tables across machines, kernels in its Python workers.

A table is a view of Parquet files in a folder that all executors reach, written when it is made: what is made of it
later starts from the files, not from all that was done before. Kernels see whole units of work by `applyInArrow` on
groups: a run of pairs, and the records it needs.

Kernels travel with the model's bytes (`core.sending`) to workers that have kinfolk installed, and find compiled numba
functions where `NUMBA_CACHE_DIR` says, else beside kinfolk's sources: in local mode, where the driver has them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, final
from urllib.parse import unquote

from kinfolk.core.engine import (
    AT_A_TIME,
    ROW,
    Beside,
    Engine,
    EngineError,
    Kernel,
    Units,
    gaps,
    quoted,
    refuse_missing,
    rows_with,
)
from kinfolk.core.frames import as_arrow
from kinfolk.engines.spark_labelled import (
    CODECS,
    AnsweredRuns,
    Files,
    LabelledFiles,
    LabelledRuns,
    even_parts,
    runs_begin,
)
from kinfolk.errors import InputError, SettingError

INSTALL = "pip install 'kinfolk[spark]'"
READERS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}
PAIRS_AT_A_TIME = 250_000
LEAST_PAIRS = 10_000  # a run has this many before there are more runs than workers can take at once
KEPT_HERE = 1_000_000  # bytes: a smaller table of Arrow is part of the query's plan, and not written
WRITTEN_AT_ONCE = 64_000_000  # bytes
PLACE = "kf_place"  # of a row: the number of its partition, times 2^33, and its number there
IN_PARTITION = 1 << 33
IN_FILE = 1_000_000  # rows of an answer that are written to a file
BEGINNINGS = 1_000  # rows of which one that begins a unit is known before any is labelled
HELD = 1 << 27  # bytes of ids, links and votes that the driver puts in order, for which it takes six times as many
UNITS = ("string", "bigint", "int", "smallint", "tinyint")  # types whose values are the same where Arrow says so

SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",  # names are quoted as in other engines
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(AT_A_TIME),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(WRITTEN_AT_ONCE),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.autoBroadcastJoinThreshold": "32m",  # votes and ids of some hundred thousand nodes need no shuffle
    # what is small on the disk makes many pairs: all cores are to have some of it
    "spark.sql.files.openCostInBytes": "65536",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "64k",
}


@dataclass(frozen=True, eq=False)
class Stored:
    """The files of a table and their columns; `plain`: they are those of the table."""

    paths: tuple[str, ...]
    schema: Any
    plain: bool = True


@final
@dataclass(eq=False)
class Spark(Engine):
    """Tables of a Spark session; the engine opens a session of its own on the same context, so that names and settings
    of yours stay what they are.

    session   a SparkSession of PySpark 4.1 or newer; None: the one there is, or one that Spark's own settings make,
              local where they say nothing
    folder    where tables are written, which all executors reach, such as "hdfs:///tmp"; None: a temporary folder of
              this machine, which serves in local mode
    """

    holds: ClassVar[int] = HELD

    session: Any = None
    folder: str | Path | None = None
    _own: Any = field(default=None, init=False, repr=False)
    _here: str = field(default="", init=False, repr=False)
    _temporary: Any = field(default=None, init=False, repr=False)
    _tables: dict[str, Stored] = field(default_factory=dict, init=False, repr=False)
    _files: dict[str, Files] = field(default_factory=dict, init=False, repr=False)  # tables that are files of yours
    _asked: dict[str, tuple[str, LabelledFiles]] = field(default_factory=dict, init=False, repr=False)
    _later: dict[str, Callable[[], None]] = field(default_factory=dict, init=False, repr=False)  # views not yet made
    _n_written: int = field(default=0, init=False, repr=False)
    _n_ordered: int = field(default=0, init=False, repr=False)

    @property
    def own(self) -> Any:
        """The engine's session, made when it is first asked for."""
        if self._own is None:
            if self.session is None:
                self.session = usual_session()
            if not isinstance(self.session, _pyspark().SparkSession):
                remedy = "SparkSession.builder.master('local[2]').getOrCreate()"
                raise SettingError("session", self.session, "a SparkSession", remedy, "Spark")
            with self._told("the session"):
                context = self.session.sparkContext
                if self.folder is None and not context.master.startswith("local"):
                    expected = f"given with the master {context.master!r}: a place that all executors reach"
                    raise SettingError("folder", None, expected, "such as 'hdfs:///tmp'", "Spark")
                own = self.session.newSession()
                for name, value in SETTINGS.items():
                    own.conf.set(name, value)
                if self.folder is None:
                    self._temporary = tempfile.TemporaryDirectory(prefix="kinfolk-")
                    self._here = self._temporary.name
                else:
                    self._here = f"{str(self.folder).rstrip('/')}/kinfolk-{secrets.token_hex(8)}"
                self._own = own
        return self._own

    def close(self) -> None:
        """Drop the tables, and remove what was written."""
        if self._own is not None:
            with contextlib.suppress(EngineError), self._told("the session"):  # it may have ended
                for table in self._tables:
                    self.own.catalog.dropTempView(table)
                self._remove(self._here)
            if self._temporary is not None:
                self._temporary.cleanup()
            self._own = self._temporary = None
            self._tables, self._files, self._asked, self._later = {}, {}, {}, {}

    # -- tables ---------------------------------------------------------------------------------------

    def read(self, source: Any, table: str, row: str) -> None:
        if isinstance(source, str | Path):
            self._read_files(str(source), table, row)
            return
        with self._told("the records"):
            frame = source if self.is_own(source) else self._frame(_plain(_as_arrow(source)))
            stored = self._write(_with_place(_without_void(frame)))
            self._show_numbered(table, stored, row, first=True)
            if frame.rdd.getNumPartitions() < self._parallelism():
                self._spread(table)

    def view(self, source: Any, table: str, row: str) -> None:
        """Parquet files are read as they are: their rows have numbers in them, and files follow each other by name."""
        path = str(source) if isinstance(source, str | Path) else ""
        if READERS.get(Path(path).suffix.lower()) != "parquet":
            self.read(source, table, row)
            return
        with self._told(f"the files of {path!r}"), _quiet():
            frame, files = self._opened(path)
            self._forget(table)
            if files is not None:
                self._files[table] = files
            own = [quoted(name) for name in frame.columns]
            if len(frame.inputFiles() if files is None else files.places) == 1:
                frame.selectExpr(f"_metadata.row_index AS {quoted(row)}", *own).createOrReplaceTempView(table)
                return
            where = "regexp_replace(_metadata.file_path, '^file:/+', '/') AS kf_file"
            there = frame.selectExpr(*own, where, "_metadata.row_index AS kf_at")
            known = None if files is None else list(zip(files.places, files.begins, strict=False))
            begins = self._files_begin(there) if known is None else known
            beginnings = self.own.createDataFrame(begins, "kf_file string, kf_begin bigint").hint("broadcast")
            numbered = f"kf_begin + kf_at AS {quoted(row)}"
            there.join(beginnings, "kf_file").selectExpr(numbered, *own).createOrReplaceTempView(table)

    def _files_begin(self, rows: Any) -> list[tuple[str, int]]:
        before, begins = 0, []
        for name, n in sorted(rows.groupBy("kf_file").count().collect()):
            begins.append((name, before))
            before += n
        return begins

    def _read_files(self, path: str, table: str, row: str) -> None:
        """Rows are numbered by the names of their files, and in a file as they stand: Spark reads a file in blocks, in
        an order of its own, and the rows of a block one after the other."""
        with self._told(f"the files of {path!r}"):
            frame, _ = self._opened(path)
            own = [quoted(name) for name in frame.columns]
            where = ["_metadata.file_path AS kf_file", "_metadata.file_block_start AS kf_block"]
            stored = self._write(_with_place(frame.selectExpr(*own, *where)))
            self._show("kf_spark_raw", stored)
        blocks = self.arrow(
            f"SELECT kf_file, kf_block, min({PLACE}) AS begin, count(*) AS n FROM kf_spark_raw "
            "GROUP BY kf_file, kf_block"
        ).sort_by([("kf_file", "ascending"), ("kf_block", "ascending")])
        self.fill("kf_spark_blocks", *_beginnings(blocks))
        columns = ", ".join(f"r.{name}" for name in own)
        spread = f", REPARTITION({self._parallelism()})" if blocks.num_rows < self._parallelism() else ""
        self.make(
            table,
            f"SELECT /*+ BROADCAST(b){spread} */ b.shift + r.{PLACE} AS {quoted(row)}, {columns} "
            "FROM kf_spark_raw r JOIN kf_spark_blocks b ON b.kf_file = r.kf_file AND b.kf_block = r.kf_block",
        )
        self.drop("kf_spark_raw", "kf_spark_blocks")

    def _spread(self, table: str) -> None:
        """Let there be files for all cores."""
        self.make(table, f"SELECT /*+ REPARTITION({self._parallelism()}) */ * FROM {table}")

    def _opened(self, path: str) -> tuple[Any, Files | None]:
        """A DataFrame of files; and the files, where workers can do without Spark to read them."""
        kind = READERS.get(Path(path).suffix.lower())
        if kind is None:
            raise InputError(f"{path!r}: expected .parquet or .csv files, such as 'people/*.parquet'")
        try:
            return (self._opened_csv(path), None) if kind == "csv" else self._opened_parquet(path)
        except _pyspark().AnalysisException as error:
            if "PATH_NOT_FOUND" in str(error):
                message = f"there is no file {path!r}; give a path, or a glob such as 'people/*.parquet'"
                raise InputError(message) from None
            raise

    def _opened_csv(self, path: str) -> Any:
        between = "\t" if path.lower().endswith(".tsv") else ","
        return self.own.read.csv(path, sep=between, header=True, escape='"', multiLine=True, enforceSchema=False)

    def _opened_parquet(self, path: str) -> tuple[Any, Files | None]:
        """Of files of this machine Arrow tells the columns, for which Spark would need a job."""
        places = self.own.read.schema("kf_none string").parquet(path).inputFiles()
        if not places or not all(one.startswith("file:") for one in places):
            return self.own.read.option("mergeSchema", "://" in path).parquet(path), None
        files = Files.of(places)
        if not files.is_plain():
            return self.own.read.parquet(path), None
        frame = self.own.read.schema(_spark_schema(files.schema)).parquet(path)
        return frame, files if frame.columns == files.schema.names else None  # names of folders may tell more columns

    def make(self, table: str, query: str) -> None:
        with self._told("a query"):
            self._show(table, self._write(self._sql(query)))

    def make_in_order(self, table: str, query: str, by: str) -> None:
        self.make(table, query)  # rows are found by joins, and sorting them would cost another shuffle

    def make_turned(self, table: str, query: str, by: str) -> None:
        with self._told("a query"):
            self._sql(query).createOrReplaceTempView(table)
            self._forget(table)

    def in_order(self, shown: Sequence[str], source: str, row: str, n_rows: int) -> str:
        """Rows go to partitions by their numbers: a sort would ask the query twice, the first time for a sample."""
        with self._told("a query"):
            found = self._sql(f"SELECT {', '.join(shown)}, {row} AS {PLACE} FROM {source}")
            found = self._in_stretches(found, PLACE, n_rows)
            self._n_ordered += 1
            found.drop(PLACE).createOrReplaceTempView(f"kf_ordered_{self._n_ordered}")
        return f"SELECT * FROM kf_ordered_{self._n_ordered}"

    def arrange(self, table: str, query: str, key: str, columns: str) -> None:
        self.make(table, f"SELECT {columns} FROM (SELECT DISTINCT {key} FROM ({query}))")

    def add(self, table: str, query: str) -> None:
        if table not in self._tables or not self._tables[table].plain:
            self.make(table, f"SELECT * FROM {table} UNION ALL {query}")
            return
        with self._told("a query"):
            known, more = self._tables.pop(table), self._sql(query)
            more = more.toDF(*(one.name for one in known.schema))
            more = more.select(*(_column(one.name).cast(one.dataType).alias(one.name) for one in known.schema))
            self._show(table, Stored((*known.paths, *self._write(more).paths), known.schema))

    def drop(self, *tables: str) -> None:
        with self._told("a query"):
            for table in tables:
                self.own.catalog.dropTempView(table)
                self._forget(table)

    def number(self, table: str, query: str, by: str, number: str) -> None:
        with self._told("a query"):
            ordered = self._sql(f"SELECT * FROM ({query}) ORDER BY {by}")
            self._show_numbered(table, self._write(_with_place(ordered)), number, first=False)

    def fill(self, table: str, schema: Any, pieces: Iterable[Any]) -> None:
        """Small tables stay part of the plan, larger ones are written, some megabytes at a time."""
        paths: list[str] = []
        held = schema.empty_table()
        for piece in pieces:
            held = _joined(held, piece, schema)
            if held.nbytes >= WRITTEN_AT_ONCE:
                with self._told("a query"):
                    paths += self._write(self._frame(held)).paths
                held = schema.empty_table()
        with self._told("a query"):
            frame = self._frame(held)
            if paths or held.nbytes >= KEPT_HERE:
                written = self._write(frame)
                self._show(table, Stored((*paths, *written.paths), written.schema))
            else:
                self._forget(table)
                frame.createOrReplaceTempView(table)

    # -- answers --------------------------------------------------------------------------------------

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self._told("a query"):
            return [tuple(row) for row in self._sql(query).collect()]

    def arrow(self, query: str) -> Any:
        asked = dict(self._asked.values()).get(query)
        with self._told("a query"):
            return self._sql(query).toArrow() if asked is None else asked.gathered(self.own.sparkContext)

    def n_rows(self, table: str) -> int:
        files = self._files.get(table)
        return super().n_rows(table) if files is None else files.n_rows

    def held(self, table: str, columns: Sequence[str], most: int) -> Any:
        files = self._files.get(table)
        return super().held(table, columns, most) if files is None else files.held(columns, most)

    def handed_out(self, value: Any) -> Any:
        with self._told("a value that workers look at"):
            return self.own.sparkContext.broadcast(value)

    def batches(self, query: str, n_rows: int) -> Iterator[Any]:
        with self._told("a query"):
            stored = self._write(_with_place(self._sql(query)))
            table = f"kf_spark_answer_{self._n_written}"
            self._show_numbered(table, stored, "kf_number", first=False)
        n = int(self.rows(f"SELECT count(*) FROM {table}")[0][0])
        for start in range(0, n, n_rows):
            part = f"SELECT * FROM {table} WHERE kf_number >= {start} AND kf_number < {start + n_rows}"
            found = self.arrow(part).sort_by("kf_number").drop_columns(["kf_number"]).combine_chunks()
            yield from found.to_batches()
        self.drop(table)

    def is_own(self, source: Any) -> bool:
        return hasattr(source, "sparkSession")

    def frame(self, query: str) -> Any:
        with self._told("a query"):
            path = self._place()
            self._write_answer(query, path)
            return self.session.read.schema(self._sql(query).schema).parquet(path)

    def write(self, query: str, path: str | os.PathLike[str]) -> None:
        """A folder of Parquet files, in order of their names."""
        target, part = os.fspath(path), f"{os.fspath(path)}.{secrets.token_hex(4)}.part"
        with self._told(f"{target}"):
            try:
                self._write_answer(query, part)
                if os.path.isfile(target) or not self._moved(part, target):
                    raise InputError(f"{target!r} cannot be written: there is something else; name another")
            finally:
                self._remove(part)

    def _moved(self, one: str, target: str) -> bool:
        """Whether files are now where others were, or nothing was."""
        (system, source), (_, place), (_, aside) = (self._file(path) for path in (one, target, f"{one}.before"))
        if system.exists(place) and not system.rename(place, aside):
            return False
        done = bool(system.rename(source, place))
        if done:
            system.delete(aside, True)
        return done

    # -- kernels --------------------------------------------------------------------------------------

    def map(self, query: str, kernel: Callable[[Any], Any], into: str, schema: Any, n_rows: int = AT_A_TIME) -> None:
        def answers(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                yield from _cast(kernel(batch), schema).to_batches()

        with self._told("a kernel"), _quiet():
            self.own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(n_rows))
            self._show(into, self._write(self._sql(query).mapInArrow(answers, _spark_schema(schema))))
            self.own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(AT_A_TIME))

    def map_units(self, asked: Iterable[tuple[str, Units]], into: str, schema: Any) -> None:
        """Units go to partitions by their hashes; a partition is a table."""

        def answers_of(kernel: Units) -> Callable[[Iterator[Any]], Iterator[Any]]:
            def answers(batches: Iterator[Any]) -> Iterator[Any]:
                import pyarrow

                there = [batch for batch in batches if batch.num_rows]
                for found in kernel(pyarrow.Table.from_batches(there).combine_chunks()) if there else ():
                    yield from _cast(found, schema).to_batches()

            return answers

        with self._told("a kernel"), _quiet():
            kinds, nothing = _spark_schema(schema), self._frame(schema.empty_table())
            parts = (self._sql(query).repartition(_column("unit")).mapInArrow(answers_of(kernel), kinds)
                     for query, kernel in asked)  # fmt: skip
            self._show(into, self._write(functools.reduce(lambda one, other: one.union(other), parts, nothing)))

    def labelled(
        self, table: str, keep: Sequence[str], unit: str, columns: Sequence[str], kernel: Callable[[Any], Any],
        full: Sequence[str], into: str, schema: Any,
    ) -> str:  # fmt: skip
        """Units that begin in the same stretch of rows are a partition. Where the rows of every unit lie together, rows
        find their partition by their numbers, answers are in order, and nothing is worked out before the query is
        asked, in one pass; where they do not, units are joined to their rows, and answers put in order. Of files that
        workers can do without Spark to read, the answer is written without it too."""
        name, own = quoted(unit), list(dict.fromkeys([ROW, *keep, *columns, unit]))
        files = self._files.get(table)
        starts, n_rows, mixed, each = None if files is None else files.units_begin(unit, full), 0, False, ""
        if files is None or starts is None:
            files = None
            starts, n_rows, mixed, each = self._units_of(table, name, full)
        else:
            n_rows = files.n_rows
        simple = not mixed and self.columns(table)[unit] in UNITS
        n_runs = max(self._parallelism(), -(-n_rows // IN_FILE))
        stretch = -(-n_rows // n_runs) or 1
        labelled = LabelledRuns(tuple(own), len(keep) + 1, tuple(columns), unit if simple else None, kernel, schema)
        query = f"SELECT {', '.join(quoted(one) for one in [*keep, *schema.names])} FROM {into}"

        def show() -> None:
            shown = [f"t.{quoted(one)}" for one in own]
            if simple:
                runs, part = self._table(table).alias("t").selectExpr(*shown), _run_of(starts, n_runs, stretch)
            else:
                both = f"{table} t JOIN ({each}) u ON u.kf_unit = t.{name}"
                runs = self._sql(f"SELECT {', '.join(shown)}, u.unit AS unit FROM {both}")
                part = f"unit div {stretch}"
            runs = runs.repartitionById(n_runs, _expression(f"CAST({part} AS INT)"))
            runs = runs.sortWithinPartitions(*([] if simple else ["unit"]), ROW)
            kinds = type(runs.schema)([*runs.schema[: labelled.n_given], *_spark_schema(schema)])
            runs.mapInArrow(lambda batches: labelled(batches), kinds).createOrReplaceTempView(into)

        self._forget(into)
        if files is not None:
            self._asked[into] = query, LabelledFiles.of(files, labelled, starts, n_runs, stretch)
            self._later[into] = show
            return query
        with self._told("a kernel"), _quiet():
            show()
        if not mixed:
            return query
        self.make(into, f"SELECT * FROM {into}")
        return self.in_order([quoted(one) for one in [*keep, *schema.names]], into, ROW, n_rows)

    def _units_of(self, table: str, name: str, full: Sequence[str]) -> tuple[Any, int, bool, str]:
        """Rows that units begin with, the first of every thousand rows; how many rows there are, whether rows of units
        are mixed, and a query of all units. Refuses a row that has nothing where something has to be."""
        missing = ", ".join(f"min({gap}) AS kf_gap_{k}" for k, gap in enumerate(gaps(full)))
        ends = f"min({ROW}) AS unit, max({ROW}) - min({ROW}) + 1 - count(*) AS kf_between, count(*) AS kf_size"
        each = f"SELECT {name} AS kf_unit, {ends}, {missing} FROM {table} GROUP BY {name}"
        firsts = "".join(f", min(kf_gap_{k}) AS kf_gap_{k}" for k in range(len(full)))
        sums = f"min(unit) AS unit, max(kf_between) AS kf_between, sum(kf_size) AS kf_size{firsts}"
        found = self.arrow(f"SELECT {sums} FROM ({each}) GROUP BY unit div {BEGINNINGS}").to_pydict()
        at = (min((row for row in found[f"kf_gap_{k}"] if row is not None), default=None) for k in range(len(full)))
        refuse_missing(full, list(at))
        return sorted(found["unit"]), sum(found["kf_size"]), max(found["kf_between"], default=0) > 0, each

    def answered(
        self, table: str, keep: Sequence[str], new: Mapping[str, str], columns: Sequence[str], others: Sequence[Beside],
        kernel: Callable[[Any], Any], into: str, schema: Any, size: int, n_rows: int = AT_A_TIME,
    ) -> str:  # fmt: skip
        """A stretch of rows is a partition, which kernels label in order, and nothing is joined to their answers. Where
        nothing stands beside the rows of files that workers can do without Spark to read, so do they write them."""
        own, files = tuple(dict.fromkeys([ROW, *keep, *columns])), self._files.get(table)
        answered = AnsweredRuns(own, len(keep) + 1, dict(new), kernel, schema, n_rows)
        query = f"SELECT {', '.join(quoted(one) for one in [*keep, *new])} FROM {into}"

        def show() -> None:
            rows = self._in_stretches(self._sql(rows_with(table, own[1:], others)), ROW, size)
            kinds = {one.name: one for one in rows.schema}
            kinds = type(rows.schema)([*(kinds[one] for one in own[: len(keep) + 1]), *_spark_schema(answered.schema)])
            rows.mapInArrow(lambda batches: answered(batches), kinds).createOrReplaceTempView(into)

        self._forget(into)
        if files is not None and not others:
            parts = even_parts(files.n_rows, max(self._parallelism(), -(-files.n_rows // IN_FILE)))
            self._asked[into] = query, LabelledFiles(files, answered, parts)
            self._later[into] = show
            return query
        with self._told("a kernel"), _quiet():
            show()
        return query

    def _in_stretches(self, frame: Any, row: str, size: int) -> Any:
        """Rows in order of a column of their numbers, a stretch of it in every partition."""
        n_parts = max(self._parallelism(), -(-size // IN_FILE))
        part = _expression(f"CAST({row} div {-(-size // n_parts) or 1} AS INT)")
        return frame.repartitionById(n_parts, part).sortWithinPartitions(row)

    def units(
        self, pairs: str, records: str, columns: Sequence[str], kernel: Kernel, into: str, schema: Any, whole: bool
    ) -> None:
        """Pairs are written, runs of them numbered, and the records that a run needs are joined and grouped by it."""
        with self._told("a query"):
            self._show("kf_spark_pairs", self._write(_with_place(self._sql(pairs))))
        n_pairs, parallel = self.rows("SELECT count(*) FROM kf_spark_pairs")[0][0], self._parallelism()
        size = min(PAIRS_AT_A_TIME, max(LEAST_PAIRS, -(-n_pairs // (4 * parallel))))
        run = f"pmod(xxhash64(unit), {-(-n_pairs // size) or 1})" if whole else f"{PLACE} div {size}"
        given = f"SELECT {run} AS kf_run, low, high{', unit' if whole else ''} FROM kf_spark_pairs"
        rows = f"SELECT {run} AS kf_run, explode(array(low, high)) AS kf_needed FROM kf_spark_pairs"
        chosen = ", ".join(f"r.{quoted(name)}" for name in dict.fromkeys((ROW, *columns)))
        needed = f"SELECT k.kf_run AS kf_run, {chosen} FROM (SELECT DISTINCT * FROM ({rows})) k"
        needed += f" JOIN {records} r ON r.{ROW} = k.kf_needed"

        def answer(found: Any, wanted: Any) -> Any:
            run, its = found.drop_columns(["kf_run"]), wanted.drop_columns(["kf_run"])
            return _cast(kernel(its.sort_by(ROW), run.sort_by("unit") if whole else run), schema)

        with self._told("a kernel"), _quiet():
            parts = max(parallel, int(self.own.conf.get("spark.sql.shuffle.partitions")))
            left, right = (self._sql(one).repartition(parts, "kf_run").groupBy("kf_run") for one in (given, needed))
            self._show(into, self._write(left.cogroup(right).applyInArrow(answer, _spark_schema(schema))))
        self.drop("kf_spark_pairs")

    # -- words ----------------------------------------------------------------------------------------

    def columns(self, table: str) -> dict[str, str]:
        with self._told("a query"):
            return dict(self._table(table).dtypes)

    def is_text(self, kind: str) -> bool:
        return kind == "string"

    def literal(self, text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def is_ascii(self, text: str) -> str:
        return f"octet_length({text}) = char_length({text})"

    def replaced(self, text: str, pattern: str, by: str) -> str:
        return f"regexp_replace({text}, {self.literal(pattern)}, {self.literal(by)})"

    def matches(self, text: str, pattern: str) -> str:
        whole = rf"\A(?:{pattern})\z"  # $ would match before the end of a line
        return f"{text} RLIKE {self.literal(whole)}"

    def hashed(self, text: str) -> str:
        return f"xxhash64({text})"

    def words(self, text: str) -> str:
        return f"split({text}, ' ')"

    def listed(self, *items: str) -> str:
        return f"array({', '.join(items)})"

    def each(self, items: str) -> str:
        return f"explode({items})"

    def shared(self, left: str, right: str) -> str:
        return f"size(array_intersect({left}, {right}))"

    # -- files ----------------------------------------------------------------------------------------

    def _frame(self, table: Any) -> Any:
        """A DataFrame of an Arrow table."""
        with _quiet():
            return self.own.createDataFrame(table, _spark_schema(table.schema))

    def _sql(self, query: str) -> Any:
        """The answer to a query, which may look at what was put off."""
        self._make_up()
        return self.own.sql(query)

    def _table(self, table: str) -> Any:
        self._make_up()
        return self.own.table(table)

    def _make_up(self) -> None:
        while self._later:
            self._later.popitem()[1]()

    def _write(self, frame: Any) -> Stored:
        path = self._place()
        _writer(frame).parquet(path)
        return Stored((path,), frame.schema)

    def _place(self) -> str:
        assert self.own is not None and self._here, "there is a folder once the session is open"
        self._n_written += 1
        return f"{self._here}/{self._n_written}"

    def _write_answer(self, query: str, path: str) -> None:
        """What was asked of files is written by those who label them, where they reach the folder as they are."""
        asked = dict(self._asked.values()).get(query)
        codec = str(self.own.conf.get("spark.sql.parquet.compression.codec")).lower()
        if asked is None or codec not in CODECS or self._file(path)[0].getUri().getScheme() != "file":
            _writer(self._sql(query)).parquet(path)
        else:
            asked.write(self.own.sparkContext, unquote(self._file(path)[1].toUri().getPath()), codec)

    def _show(self, table: str, stored: Stored) -> None:
        """Let a table be these files; those it was go."""
        frame = self.own.read.schema(stored.schema).parquet(*stored.paths)
        frame.createOrReplaceTempView(table)
        self._forget(table)
        self._tables[table] = stored

    def _show_numbered(self, table: str, stored: Stored, number: str, first: bool) -> None:
        """Let a table be these files, with a column that numbers rows as their places are in order."""
        frame = self.own.read.schema(stored.schema).parquet(*stored.paths)
        partition = f"{PLACE} div {IN_PARTITION}"
        counts = {part: n for part, n in frame.groupBy(_expression(partition)).count().collect()}
        before, shifts = 0, []
        for part in range(max(counts, default=-1) + 1):
            shifts.append(f"{before - part * IN_PARTITION}L")
            before += counts.get(part, 0)
        shift = f"element_at(array({', '.join(shifts)}), CAST({partition} AS INT) + 1)" if shifts else "0L"
        own = [quoted(one.name) for one in stored.schema if one.name != PLACE]
        numbered = f"{PLACE} + {shift} AS {quoted(number)}"
        frame.selectExpr(*([numbered, *own] if first else [*own, numbered])).createOrReplaceTempView(table)
        self._forget(table)
        self._tables[table] = replace(stored, plain=False)

    def _forget(self, table: str) -> None:
        if table in self._tables:
            self._remove(*self._tables.pop(table).paths)
        self._files.pop(table, None)
        self._asked.pop(table, None)
        self._later.pop(table, None)

    def _remove(self, *paths: str) -> None:
        for one in paths:
            system, path = self._file(one)
            system.delete(path, True)

    def _file(self, path: str) -> tuple[Any, Any]:
        """The file system of a path, and the path there."""
        context = self.own.sparkContext
        made = context._jvm.org.apache.hadoop.fs.Path(path)
        return made.getFileSystem(context._jsc.hadoopConfiguration()), made

    def _parallelism(self) -> int:
        with self._told("the session"):
            return int(self.own.sparkContext.defaultParallelism)

    # -- errors ---------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Errors of Spark as errors of kinfolk."""
        _pyspark()
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError, OSError, AttributeError, AssertionError) as error:
            if self._ended():
                remedy = "start another, and give it to a new Spark(session)"
                raise EngineError(f"the Spark session has ended ({what}); {remedy}") from error
            if isinstance(error, AttributeError | AssertionError):
                raise
            raise _translated(error, what) from error

    def _ended(self) -> bool:
        try:
            context = self.session.sparkContext
            return context._jsc is None or bool(context._jsc.sc().isStopped())
        except Exception:  # the process of Spark does not answer
            return True


def _with_place(frame: Any) -> Any:
    """Rows with their places: partition and number there, which are in order but have gaps."""
    from pyspark.sql import functions as f

    return frame.withColumn(PLACE, f.monotonically_increasing_id())


def _run_of(starts: Sequence[int], n_runs: int, stretch: int) -> str:
    """An expression: the run of a row."""
    at = f"CAST({ROW} div {stretch} AS INT)"
    both = (", ".join(map(str, each)) for each in runs_begin(starts, n_runs, stretch))
    begins, before = (f"element_at(array({each}), {at} + 1)" for each in both)
    return f"CASE WHEN {ROW} < {begins} THEN {before} ELSE {at} END"


def _without_void(frame: Any) -> Any:
    """Columns that hold nothing, which files cannot keep, as columns of text."""
    void = {one.name: _column(one.name).cast("string") for one in frame.schema if one.dataType.typeName() == "void"}
    return frame.withColumns(void) if void else frame


def _writer(frame: Any) -> Any:
    """What writes a table: without dictionaries of numbers with fractions, which are seldom the same twice and take a
    third of the time of writing them."""
    fractions = [one.name for one in frame.schema if one.dataType.typeName() in ("double", "float")]
    return frame.write.options(**{f"parquet.enable.dictionary#{name}": "false" for name in fractions})


def _column(name: str) -> Any:
    from pyspark.sql import functions as f

    return f.col("`" + name.replace("`", "``") + "`")


def _expression(text: str) -> Any:
    from pyspark.sql import functions as f

    return f.expr(text)


def _beginnings(blocks: Any) -> tuple[Any, list[Any]]:
    """What to add to the places of a block's rows to number all rows, in order of the blocks; schema and table."""
    import numpy as np

    n, begin = (blocks.column(name).to_numpy() for name in ("n", "begin"))
    shift = np.cumsum(n) - n - begin
    made = blocks.select(["kf_file", "kf_block"]).append_column("shift", [shift])
    return made.schema, [made]


def _as_arrow(source: Any) -> Any:
    """Frames in memory as Arrow tables."""
    import pyarrow

    held = as_arrow(source.collect() if hasattr(source, "collect") else source)  # of polars, a lazy one
    if isinstance(held, pyarrow.Table | dict):
        return pyarrow.table(held)
    if type(held).__module__.partition(".")[0] == "pandas":
        return pyarrow.Table.from_pandas(held, preserve_index=False)
    if hasattr(held, "__arrow_c_stream__"):
        return pyarrow.table(held)
    expected = "files, a Spark DataFrame, Arrow, pandas, polars, or a dict of lists"
    raise InputError(f"expected {expected}; got {type(source).__name__}")


def _plain(table: Any) -> Any:
    """An Arrow table of types that Spark knows."""
    import pyarrow

    return table.cast(pyarrow.schema([one.with_type(_known_type(one.type)) for one in table.schema]))


def _known_type(kind: Any) -> Any:
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(kind):
        return _known_type(kind.value_type)
    if types.is_null(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return pyarrow.string()
    if types.is_unsigned_integer(kind):
        return pyarrow.int64()
    if types.is_float16(kind):
        return pyarrow.float32()
    if types.is_timestamp(kind):
        return pyarrow.timestamp("us", kind.tz)
    return pyarrow.date32() if types.is_date64(kind) else kind


def _joined(held: Any, piece: Any, schema: Any) -> Any:
    import pyarrow

    return pyarrow.concat_tables([held, _cast(piece, schema)])


def _cast(table: Any, schema: Any) -> Any:
    """What a kernel answered, in the columns and types that were agreed on."""
    return table.select(schema.names).cast(schema)


def _spark_schema(schema: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """PySpark looks at pandas where it is asked for Arrow too, and warns of versions it does not know."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def check_installed() -> None:
    """Refuse to begin where PySpark is not installed."""
    _pyspark()


def usual_session() -> Any:
    """The session there is, or one that Spark's own settings make (`spark-defaults.conf`), local where they say
    nothing. Workers run the Python of this process, unless `PYSPARK_PYTHON` names another."""
    builder = _pyspark().SparkSession.builder.config("spark.ui.showConsoleProgress", "false")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        with _quiet():
            return builder.getOrCreate()
    except Exception as error:  # what is wrong with Java or a cluster, in many types
        remedy = "Java 17 has to be installed, and its settings have to name a cluster that is there, or none"
        raise EngineError(f"Spark gives no session: {_first_line(error)}; {remedy}") from error


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _pyspark() -> Any:
    try:
        with _quiet():
            import pyspark.sql
            from pyspark.errors import AnalysisException
    except ImportError:
        raise InputError(f"the engine Spark needs pyspark, which is not installed: {INSTALL}") from None
    return _Names(pyspark.sql.SparkSession, AnalysisException)


@dataclass(frozen=True)
class _Names:
    SparkSession: Any
    AnalysisException: Any


def _translated(error: BaseException, what: str) -> Exception:
    text = str(error)
    if "CSV header does not conform" in text:
        said = " ".join(one.strip() for one in text.splitlines() if one.strip())
        said = said[said.index("CSV header") :].split(" SQLSTATE")[0]
        return InputError(f"{said}; files of a glob are one table")
    if "CANNOT_MERGE_SCHEMA" in text:
        return InputError(f"{what} have columns of different types; write them alike: {_line(text)}")
    if "No space left on device" in text:
        remedy = "give a `folder` with more room, and Spark's setting spark.local.dir"
        return EngineError(f"Spark ({what}): no space left on the disk; {remedy}")
    if "OutOfMemoryError" in text:
        remedy = "raise spark.driver.memory (local mode) or spark.executor.memory"
        return EngineError(f"Spark ({what}): out of memory; {remedy}")
    return EngineError(f"Spark ({what}): {_line(text)}")


def _line(text: str) -> str:
    """The line of a message that says what happened: of a Python worker's, the last of its traceback."""
    raised = re.findall(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Warning): .+$", text, re.MULTILINE)
    lines = [one for one in text.strip().splitlines() if one.strip()]
    return (raised[-1] if raised and "Traceback" in text else lines[0] if lines else "no message").strip()
