"""What Spark's workers do where rows are labelled: a run of rows at a time, none of which cuts a unit, from Spark or
from Parquet files that they read themselves.

Where the rows of every unit lie together, a run is a stretch of rows that begins with a unit. A worker that reads its
stretch and writes what it says of it spares Java's scan, a shuffle, and the way through Java and back; Spark places,
counts and repeats the work all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from kinfolk.core.engine import AT_A_TIME, ROW, check_columns, refuse_missing, runs_of
from kinfolk.core.files import replacing
from kinfolk.errors import InputError

CODECS = ("snappy", "zstd", "gzip", "none")  # which Spark and Arrow name alike


# -- Runs of rows -----------------------------------------------------------------------------------------


def runs_begin(starts: Sequence[int], n_runs: int, stretch: int) -> tuple[list[int], list[int]]:
    """Of every stretch of rows the one that its run begins with, and the run of rows before that.

    A run begins with the first row from its stretch on that is known to begin a unit (`starts`, in order); what comes
    before is of the last run that has begun.
    """
    import numpy as np

    first = np.arange(n_runs) * stretch
    begins = np.append(starts, n_runs * stretch).astype(np.int64)[np.searchsorted(starts, first)]
    return begins.tolist(), (np.searchsorted(begins, first) - 1).tolist()


def with_units(batches: Iterable[Any], place: int) -> Iterator[Any]:
    """Batches with a column `unit`: the first row of those, one after the other, that have the same in a column."""
    import numpy as np
    import pyarrow

    last = first = None
    for batch in batches:
        value, row = batch.column(place), batch.column(0).to_numpy()
        begins = _changes(value, first is not None, last)
        unit = np.maximum.accumulate(np.where(begins, row, -1 if begins[0] else first))
        last, first = value[-1].as_py(), unit[-1]
        yield batch.append_column("unit", pyarrow.array(unit))


def _changes(value: Any, after: bool, last: Any) -> Any:
    """Whether each value is another than the one before it; `last`: what stood before all, if anything did."""
    import numpy as np
    from pyarrow import compute

    begins = np.ones(len(value), bool)
    begins[0] = not after or value[0].as_py() != last
    begins[1:] = compute.not_equal(value[1:], value[:-1]).to_numpy(zero_copy_only=False)
    return begins


@dataclass(frozen=True, eq=False)
class LabelledRuns:
    """Batches of rows -> those with what a kernel says of them.

    names     of the columns of a batch: `kf_row`, those that are kept, and others
    n_given   as many of them are kept
    columns   those that the kernel sees, as kf_column_0, 1, ...
    unit      the column that names units; None: rows have the first row of theirs in a column `unit` already
    schema    of what the kernel answers
    """

    names: tuple[str, ...]
    n_given: int
    columns: tuple[str, ...]
    unit: str | None
    kernel: Callable[[Any], Any]
    schema: Any

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        there: Iterator[Any] = (batch for batch in batches if batch.num_rows)
        places = {f"kf_column_{k}": self.names.index(one) for k, one in enumerate(self.columns)}
        for run in runs_of(there if self.unit is None else with_units(there, self.names.index(self.unit)), whole=True):
            run = run.combine_chunks()
            seen = {"unit": run.column("unit"), ROW: run.column(0)} | {to: run.column(k) for to, k in places.items()}
            found = self.kernel(pyarrow.table(seen)).select(self.schema.names).cast(self.schema)
            given = [run.column(k) for k in range(self.n_given)] + found.columns
            yield from pyarrow.table(given, [*self.names[: self.n_given], *self.schema.names]).to_batches()


@dataclass(frozen=True, eq=False)
class AnsweredRuns:
    """Batches of rows -> those with what a kernel says of them, so many rows at a time.

    names     of the columns of a batch that are looked at: `kf_row`, those that are kept, and others
    n_given   as many of them are kept
    new       name -> column of the kernel's answer
    kernel    sees all columns of a batch, by their names
    answers   the schema of what it answers
    """

    names: tuple[str, ...]
    n_given: int
    new: Mapping[str, str]
    kernel: Callable[[Any], Any]
    answers: Any
    n_rows: int

    @property
    def schema(self) -> Any:
        import pyarrow

        return pyarrow.schema([self.answers.field(own).with_name(name) for name, own in self.new.items()])

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        names = [*self.names[: self.n_given], *self.new]
        for batch in batches:
            for start in range(0, batch.num_rows, self.n_rows):
                run = batch.slice(start, self.n_rows)
                found = self.kernel(run).select(self.answers.names).cast(self.answers)
                given = [run.column(name) for name in self.names[: self.n_given]]
                made = pyarrow.table([*given, *map(found.column, self.new.values())], names)
                yield from made.combine_chunks().to_batches()


def even_parts(n_rows: int, n_parts: int) -> tuple[tuple[int, int], ...]:
    """Stretches of rows, each with the row it begins with and the one it ends before."""
    size = -(-n_rows // n_parts) or 1
    return tuple((low, min(low + size, n_rows)) for low in range(0, n_rows, size)) or ((0, 0),)


# -- Files that workers read ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Files:
    """Parquet files of one table.

    places   their paths, escaped as in the addresses that Spark gives, in order of their names
    begins   the row that each begins with, and how many rows there are
    schema   Arrow's, of the first
    """

    places: tuple[str, ...]
    begins: tuple[int, ...]
    schema: Any

    @classmethod
    def of(cls, addresses: Iterable[str]) -> Files:
        """Refuses files whose columns differ."""
        import numpy as np

        places = sorted((re.sub("^file:/+", "/", one) for one in addresses), key=unquote)
        names = [unquote(one) for one in places]
        found = [_footer(name) for name in names]
        schemas = [one.schema.to_arrow_schema() for one in found]
        known = {one.name: str(one.type) for one in schemas[0]}
        for name, own in zip(names[1:], schemas[1:], strict=True):
            check_columns(name, {one.name: str(one.type) for one in own}, names[0], known)
        return cls(tuple(places), (0, *np.cumsum([one.num_rows for one in found]).tolist()), schemas[0])

    @property
    def names(self) -> list[str]:
        return [unquote(one) for one in self.places]

    @property
    def n_rows(self) -> int:
        return self.begins[-1]

    def batches(self, columns: Sequence[str], begin: int = 0, end: int | None = None) -> Iterator[Any]:
        """The rows from `begin` to before `end`, with their numbers in front."""
        import numpy as np
        import pyarrow

        end = self.n_rows if end is None else end
        for name, before, after in zip(self.names, self.begins, self.begins[1:], strict=False):
            if max(begin, before) >= min(end, after):
                continue
            for row, batch in _batches(name, columns, before, begin, end):
                low, high = max(begin - row, 0), min(end - row, batch.num_rows)
                if low < high:
                    rows = pyarrow.array(np.arange(row + low, row + high))
                    there = batch.slice(low, high - low)
                    yield pyarrow.RecordBatch.from_arrays([rows, *map(there.column, columns)], [ROW, *columns])

    def held(self, columns: Sequence[str], most: int) -> Any:
        """Columns of all rows, their number among them, as one table; None if they take more bytes."""
        import pyarrow

        size, found = 0, []
        for batch in self.batches([name for name in columns if name != ROW]):
            found.append(batch.select(list(columns)))
            size += found[-1].nbytes
            if size > most:
                return None
        kinds = pyarrow.schema([pyarrow.field(ROW, "int64"), *self.schema])
        return pyarrow.Table.from_batches(found, None if found else pyarrow.schema(map(kinds.field, columns)))

    def is_plain(self) -> bool:
        """Whether Arrow writes all columns as Spark would."""
        return all(_is_plain(one.type) for one in self.schema)

    def _refuse_gaps(self, full: Sequence[str]) -> None:
        """Refuse a row that has nothing in one of these columns."""
        for name in full:
            if self._may_lack(name):
                gap = next((row for batch in self.batches([name]) if (row := _first_gap(batch)) is not None), None)
                refuse_missing([name], [gap])

    def _may_lack(self, column: str) -> bool:
        if any(one.type.num_fields for one in self.schema):
            return True  # places of columns in files are others
        for name in self.names:
            metadata = _footer(name)
            place = metadata.schema.names.index(column)
            for group in range(metadata.num_row_groups):
                known = metadata.row_group(group).column(place).statistics
                if known is None or not known.has_null_count or known.null_count:
                    return True
        return False

    def units_begin(self, column: str, full: Sequence[str]) -> Any:
        """The rows that units begin with; None: rows of units do not lie together, or values are not the same for Spark
        wherever they are for Arrow. Refuses a row that has nothing where something has to be."""
        import numpy as np
        import pyarrow
        from pyarrow import compute, types

        kind = self.schema.field(column).type
        if not (types.is_string(kind) or types.is_large_string(kind) or types.is_signed_integer(kind)):
            return None
        self._refuse_gaps(full)
        rows, values, last = [np.empty(0, np.int64)], [pyarrow.array([], kind)], None
        for batch in self.batches([column]):
            value = batch.column(1)
            begins = _changes(value, last is not None, last)
            rows.append(batch.column(0).to_numpy()[begins])
            values.append(value.filter(pyarrow.array(begins)))
            last = value[-1].as_py()
            if compute.count_distinct(values[-1]).as_py() < len(values[-1]):
                return None
        return np.concatenate(rows) if _are_distinct(values) else None


def _footer(name: str) -> Any:
    from pyarrow import parquet

    with _readable(name):
        return parquet.read_metadata(name)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError) as error:
        raise InputError(f"{name}: cannot be read ({' '.join(str(error).split())})") from None


def _batches(name: str, columns: Sequence[str], before: int, begin: int, end: int) -> Iterator[tuple[int, Any]]:
    """Batches of a file, each with the number of its first row, from row groups with rows from `begin` to `end`."""
    from pyarrow import parquet

    with _readable(name), parquet.ParquetFile(name) as file:
        row = before
        for group in range(file.num_row_groups):
            after = row + file.metadata.row_group(group).num_rows
            if begin < after and row < end:
                for batch in file.iter_batches(AT_A_TIME, [group], columns, use_threads=False):
                    yield row, batch
                    row += batch.num_rows
            row = after


def _is_plain(kind: Any) -> bool:
    from pyarrow import types

    if types.is_list(kind):
        return _is_plain(kind.value_type)
    known = (types.is_string, types.is_large_string, types.is_signed_integer, types.is_boolean, types.is_date32)
    return any(one(kind) for one in (*known, types.is_float32, types.is_float64))


def _first_gap(batch: Any) -> int | None:
    column = batch.column(1)
    return int(batch.column(0)[column.is_null().index(True).as_py()].as_py()) if column.null_count else None


def _are_distinct(pieces: Sequence[Any]) -> bool:
    import pyarrow
    from pyarrow import compute

    return bool(compute.count_distinct(pyarrow.chunked_array(pieces)).as_py() == sum(map(len, pieces)))


# -- Files that workers write -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LabelledFiles:
    """Rows of files, labelled by those who read them, in files of a folder.

    parts   the row that each part begins with, and the one it ends before
    """

    files: Files
    labelled: LabelledRuns | AnsweredRuns
    parts: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, files: Files, labelled: LabelledRuns, starts: Any, n_runs: int, stretch: int) -> LabelledFiles:
        begins = [min(row, files.n_rows) for row in runs_begin(starts, n_runs, stretch)[0]]
        parts = [(low, high) for low, high in pairwise([*begins, files.n_rows]) if low < high]
        return cls(files, labelled, tuple(parts or [(0, 0)]))

    @property
    def schema(self) -> Any:
        import pyarrow

        kept = [self.files.schema.field(name) for name in self.labelled.names[1 : self.labelled.n_given]]
        return pyarrow.schema([*(one.with_nullable(True) for one in kept), *self.labelled.schema])

    def write(self, context: Any, folder: str, codec: str) -> None:
        """A part is a task of Spark. It takes its name when it is whole, so that another try finds nothing of it."""
        Path(folder).mkdir()
        tasks = list(enumerate(self.parts))
        context.parallelize(tasks, len(tasks)).foreach(lambda task: self._write_part(folder, codec, *task))
        for stray in Path(folder).glob(".*"):  # of a worker that was killed
            stray.unlink(missing_ok=True)
        (Path(folder) / "_SUCCESS").touch()  # as Spark leaves it

    def gathered(self, context: Any) -> Any:
        """The same as a table of this process."""
        import pyarrow

        parts = context.parallelize(self.parts, len(self.parts)).map(lambda rows: self._sent(rows)).collect()
        return pyarrow.concat_tables([pyarrow.ipc.open_stream(one).read_all() for one in parts])

    def _sent(self, rows: tuple[int, int]) -> bytes:
        import pyarrow

        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, self.schema) as writer:
            for batch in self._batches(rows):
                writer.write_batch(batch)
        return bytes(sink.getvalue())

    def _batches(self, rows: tuple[int, int]) -> Iterator[Any]:
        import pyarrow

        schema = self.schema
        for batch in self.labelled(self.files.batches(self.labelled.names[1:], *rows)):
            yield pyarrow.RecordBatch.from_arrays(batch.columns[1:], schema=schema)

    def _write_part(self, folder: str, codec: str, number: int, rows: tuple[int, int]) -> None:
        import pyarrow
        from pyarrow import parquet

        schema = self.schema
        coded = [one.name for one in schema if not pyarrow.types.is_floating(one.type)]  # as Spark's own writer here
        options = {"compression": codec, "use_dictionary": coded}
        with (
            replacing(Path(folder) / f"part-{number:05}.parquet", synced=False) as (_, stream),
            parquet.ParquetWriter(stream, schema, **options) as writer,
        ):
            for batch in self._batches(rows):
                writer.write_batch(batch)
