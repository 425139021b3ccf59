"""Tables of others, in and out: what came in goes out as the same kind of table, with more columns.

pandas (its index kept), polars (eager or lazy), Arrow tables, record batches and streams, relations of DuckDB (answers
live on the same connection), dicts of lists, and whatever else narwhals knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinfolk.core.data import is_unknown
from kinfolk.core.files import is_path, read_among, try_folder, writing
from kinfolk.core.table import frame_table, in_memory, is_lists, object_column, written
from kinfolk.errors import InputError, SettingError

Values = Sequence[Any] | np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class OpenedFrame:
    """A table in memory, and the way back to what it came as.

    held   a frame of narwhals, or a dict of lists
    back   from such a frame to the kind of table that came
    """

    held: Any
    back: Callable[[Any], Any]
    name: str

    @property
    def columns(self) -> list[str]:
        return [str(one) for one in (self.held if isinstance(self.held, Mapping) else self.held.columns)]

    @property
    def readable(self) -> Any:
        """What `records_from_frames` takes; a stream, which can be read once only, was read already."""
        return self.held if isinstance(self.held, Mapping) else self.held.to_native()

    def check_free(self, given: bool = True, **wanted: str) -> None:
        """Refuse a new column of a name that is taken, or two of one name; `wanted`: setting -> the name it gives.

        given   whether the settings can give other names
        """
        if len({*wanted.values()}) < len(wanted):
            raise SettingError.saying(f"new columns must have different names; got {', '.join(wanted.values())}")
        for setting, name in wanted.items():
            if name in self.columns:
                free = next(one for k in range(1, len(self.columns) + 2) if (one := f"{name}_{k}") not in self.columns)
                remedy = f"rename it, or name the new one with `{setting}={free!r}`" if given else "rename it"
                taken = f"there is a column {name!r} already, and nothing is overwritten"
                raise InputError(f"{self.name}: {taken}; {remedy}")

    def with_columns(self, more: Mapping[str, Values]) -> Any:
        """The table as it came, with more columns."""
        if isinstance(self.held, Mapping):
            return self.back({**self.held, **more})
        import narwhals.stable.v2 as nw

        made = (_series(nw, name, values, self.held.implementation) for name, values in more.items())
        return self.back(self.held.with_columns(*made))

    def selected(self, names: Mapping[str, str]) -> Any:
        """Some columns under other names, as `records_from_frames` takes them; `names`: old -> new."""
        if isinstance(self.held, Mapping):
            return {new: self.held[old] for old, new in names.items()}
        return self.held.select(*names).rename(dict(names)).to_native()

    def made(self, columns: Mapping[str, Values]) -> Any:
        """Another table of the same kind."""
        if isinstance(self.held, Mapping):
            return self.back(columns)
        import narwhals.stable.v2 as nw

        library = self.held.implementation
        made = {name: _series(nw, name, values, library) for name, values in columns.items()}
        return self.back(nw.from_dict(made, backend=library))


def _series(nw: Any, name: str, values: Values, library: Any) -> Any:
    kind = np.asarray(values).dtype.kind if isinstance(values, np.ndarray) else "O"
    dtype = {"i": nw.Int64, "f": nw.Float64, "b": nw.Boolean}.get(kind, nw.String)  # empty ones too have a type
    plain = values.tolist() if kind == "b" and isinstance(values, np.ndarray) else values
    return nw.new_series(name, plain, dtype(), backend=library)


def opened(frame: Any, name: str) -> OpenedFrame:
    """The table of a user, read into memory."""
    if is_lists(frame):
        arrays = all(isinstance(one, np.ndarray) for one in frame.values())
        return OpenedFrame(frame, _as_arrays if arrays else _as_lists, name)
    known = from_stream(frame, name)
    whole = distinct_columns(known, name)
    if _is_of(frame, "duckdb"):
        return OpenedFrame(whole, lambda made: _relation(frame, made.to_arrow()), name)
    if known is not frame:
        as_it_came = _STREAMS.get(type(frame).__name__, lambda table: table)
        return OpenedFrame(whole, lambda made: as_it_came(made.to_arrow()), name)
    if _is_of(frame, "polars") and type(frame).__name__ == "LazyFrame":
        return OpenedFrame(whole, lambda made: made.to_native().lazy(), name)
    return OpenedFrame(whole, lambda made: made.to_native(), name)


def distinct_columns(frame: Any, name: str) -> Any:
    """A frame of narwhals in memory, no two of whose columns have one name."""
    from narwhals.exceptions import DuplicateError

    try:
        whole = in_memory(frame, name)
        names = [str(one) for one in whole.columns]
    except DuplicateError:
        raise InputError(f"{name}: two columns have the same name{_twice(frame)}; rename one of them") from None
    if len({*names}) < len(names):  # pandas tells 1 and "1" apart
        raise InputError(f"{name}: two columns have the same name{_twice(whole)}; rename one of them")
    return whole


def _twice(frame: Any) -> str:
    names = [str(one) for one in getattr(frame, "column_names", getattr(frame, "columns", ()))]
    twice = next((one for k, one in enumerate(names) if one in names[:k]), None)
    return "" if twice is None else f", {twice!r}"


def from_stream(frame: Any, name: str) -> Any:
    """A stream of Arrow batches (what has `__arrow_c_stream__` and no library of frames knows) as an Arrow table."""
    if not hasattr(frame, "__arrow_c_stream__") or _known(frame):
        return frame
    try:
        import pyarrow
    except ImportError:
        remedy = "pip install 'kinfolk[tables]'"
        raise InputError(
            f"{name}: a stream of Arrow, which needs pyarrow, and that is not installed: {remedy}"
        ) from None
    try:
        return pyarrow.table(frame)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        remedy = "a stream can be read once: make it anew, or give a table"
        raise InputError(f"{name}: the stream of Arrow cannot be read ({error}); {remedy}") from None


def _known(frame: Any) -> bool:
    """Whether narwhals knows it, which need not read it as a stream."""
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    try:
        nw.from_native(frame)
    except DuplicateError:
        return True
    except TypeError:
        return False
    return True


def _is_of(frame: Any, library: str) -> bool:
    return type(frame).__module__.partition(".")[0].strip("_") == library


def _as_lists(columns: Mapping[str, Values]) -> dict[str, Any]:
    return {name: one.tolist() if isinstance(one, np.ndarray) else one for name, one in columns.items()}


def _as_arrays(columns: Mapping[str, Values]) -> dict[str, Any]:
    return {name: np.asarray(one) for name, one in columns.items()}


def _relation(given: Any, kinfolk_rows: Any) -> Any:
    """On the connection of the relation that came, so that it joins with what is there; DuckDB finds the rows by the
    name they have here."""
    return given.query("kinfolk_given", "SELECT * FROM kinfolk_rows")


def _batch(table: Any) -> Any:
    return table.combine_chunks().to_batches()[0] if table.num_rows else _empty_batch(table.schema)


def _empty_batch(schema: Any) -> Any:
    import pyarrow

    return pyarrow.RecordBatch.from_pylist([], schema=schema)


# What goes out for what is no table of its own; other streams go out as Arrow tables.
_STREAMS: Mapping[str, Callable[[Any], Any]] = {
    "RecordBatchReader": lambda table: table.to_reader(),
    "RecordBatch": _batch,
}


# -- tables for engines ---------------------------------------------------------------------------------


def as_arrow(source: Any) -> Any:
    """A table of lists or of pandas as one of Arrow, with the values that memory sees: NaN among strings is missing,
    and categories are their values. Any other table as it is."""
    if isinstance(source, Mapping):
        frame_table(source, "the table")  # which looks at shapes
        columns: Mapping[str, Any] = source
    elif _is_of(source, "pandas") and hasattr(source, "iloc"):
        columns = {str(name): source.iloc[:, k] for k, name in enumerate(source.columns)}
    else:
        return source
    import pyarrow

    return pyarrow.table({str(name): _arrow_column(str(name), values) for name, values in columns.items()})


def _arrow_column(name: str, values: Any) -> Any:
    import pyarrow

    given = list(values) if isinstance(values, np.ndarray) and values.ndim > 1 else values
    with suppress(pyarrow.ArrowException, OverflowError):
        return pyarrow.array(given, from_pandas=True)
    listed = [None if is_unknown(value) else value for value in given]  # of several types, or members of an Enum
    texts = written(object_column(listed))
    if texts is None:
        kinds = " and ".join(sorted({type(value).__name__ for value in listed if value is not None}))
        raise InputError(f"the column {name!r} holds {kinds}, which no engine takes; turn it into strings")
    return pyarrow.array(texts, pyarrow.string())


# -- files ----------------------------------------------------------------------------------------------


def targets(frames: Sequence[Any], into: Any, read: Sequence[Any] = ()) -> list[Any]:
    """The files to write, one a table; None: a table of the kind that came. They can be written, and are none of those
    that are read: the tables, and what else is `read`."""
    if into is None:
        if any(is_path(one) for one in frames):
            raise SettingError("into", None, "the Parquet file to write, as the tables come from files")
        return [None] * len(frames)
    listed = [into] if is_path(into) else list(into)
    if len(listed) != len(frames):
        raise SettingError("into", into, f"{len(frames)} Parquet file{'s' * (len(frames) > 1)}, one a table")
    for path in map(os.fspath, listed):
        if not path.lower().endswith((".parquet", ".pq")):
            raise SettingError("into", path, "a name that ends in .parquet")
        folder, name = os.path.split(os.path.abspath(path))
        if "://" not in path and not os.path.isdir(folder):
            raise InputError(f"there is no folder {os.path.dirname(path)!r} to write {name!r} into; make it first")
        taken = read_among(path, [*frames, *read])
        if taken is not None:
            raise InputError(f"{path!r} would be written over what is read, {taken!r}; name another file to write")
        if "://" not in path:
            with writing(path):
                try_folder(folder)
    if len({os.path.realpath(path) for path in listed}) < len(listed):
        raise SettingError("into", into, "two different files")
    return listed
