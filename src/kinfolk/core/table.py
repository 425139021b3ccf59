"""A table of any origin: named columns, rows, and the place of a row for messages."""

from __future__ import annotations

import csv
import io
import logging
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from enum import Enum
from functools import partial
from itertools import islice, repeat
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import is_unknown, label_name, label_of
from kinfolk.core.files import most_unpacked, too_large
from kinfolk.errors import DataWarning, InputError, SettingError, warn

# -- One column of a table, whatever library holds the table, as a plain array or as strings -----------
#
# What a column may be, by its kind:
#
#     whole   int64 or uint64 array, nothing missing
#     number  float64 array, NaN = missing
#     truth   float64 array of 0 and 1, NaN = missing
#     text    strings, None = missing; an empty string is missing too, as it is in a file
#     mixed   a list of strings, numbers and truth values together, None = missing
#     lists   a list of lists or arrays, as embeddings come, None = missing; nothing is said of what is inside
#     other   dates and the rest, which no model takes as they are
#
# Members of an Enum count as their values.

PIECE = 1 << 20  # strings made at a time: a column of ten million would fill a gigabyte


class TableColumn(NamedTuple):
    kind: str
    values: Any
    dtype: str  # the type in the words of whoever holds the table, for messages
    type: str = "str"  # of its values as labels: one of `TYPES` of `core.data`, or "mixed"
    members: Sequence[Any] | None = None  # of a column in which members of an Enum stand, these


def series_column(series: Any) -> TableColumn:
    """The column a narwhals series holds."""
    import narwhals.stable.v2 as nw

    dtype, name = series.dtype, str(series.dtype)
    if not len(series):  # without a value the type means little: pandas says object, polars null
        return TableColumn("number", np.empty(0), name)
    if dtype == nw.String:
        return TableColumn("text", series, name)
    if dtype in (nw.Categorical, nw.Enum):
        kind = series_column(series.cat.get_categories()).type
        if kind == "str":
            return TableColumn("text", series.cast(nw.String), name)
        values = series.to_list()  # pandas, made to cast them, writes 1.0 for 1 where a value is missing
        return TableColumn("text", [None if is_unknown(value) else str(value) for value in values], name, kind)
    if dtype == nw.Object or (dtype in (nw.List, nw.Array) and int(series.null_count()) < len(series)):
        return object_column(series.to_list())
    if dtype == nw.Boolean:
        return TableColumn("truth", _with_gaps(series, False), name, "bool")
    if dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128):
        if series.null_count():
            return TableColumn("number", _with_gaps(series, 0), name, "int")
        return TableColumn("whole", _whole(series.to_numpy()), name, "int")
    if dtype.is_numeric():
        return TableColumn("number", series.cast(nw.Float64).to_numpy().astype(np.float64), name, "float")
    if int(series.null_count()) == len(series):
        return TableColumn("number", np.full(len(series), np.nan), name)
    return TableColumn("other", None, name)


def _with_gaps(series: Any, fill: Any) -> NDArray[np.float64]:
    """float64 with NaN where the series has nothing. Arrow refuses to cast large numbers, so numpy does it."""
    values = series.fill_null(fill).to_numpy().astype(np.float64)
    values[series.is_null().to_numpy().astype(bool)] = np.nan
    return values  # type: ignore[no-any-return]


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.uint64 if values.dtype == np.uint64 else np.int64)


def object_column(values: Sequence[Any]) -> TableColumn:
    """The column of Python objects: the kind that fits all that are not missing."""
    plain = [None if is_unknown(value) else value for value in values]
    types = {type(value) for value in plain} - {type(None)}
    names = " and ".join(sorted(one.__name__ for one in types)) or "nothing"
    if any(issubclass(one, Enum) for one in types):
        values = [one.value if isinstance(one, Enum) else one for one in plain]
        return object_column(values)._replace(dtype=names, members=plain)
    if types and all(_is_list(one) for one in types):
        return TableColumn("lists", plain, names)
    if types and all(issubclass(one, str) for one in types):
        return TableColumn("text", plain, names)
    if types and all(issubclass(one, bool | np.bool_) for one in types):
        return TableColumn("truth", _floats(plain), names, "bool")
    if any(issubclass(one, bool | np.bool_) for one in types) or not all(
        issubclass(one, Real | Decimal) for one in types
    ):
        simple = all(issubclass(one, str | Real | np.bool_) for one in types)
        return TableColumn("mixed", plain, names, "mixed") if simple else TableColumn("other", None, names)
    kind = "int" if all(issubclass(one, Integral) for one in types) else "float"
    if types and None not in plain and kind == "int":
        try:
            return TableColumn("whole", _whole(np.array(plain)), names, kind)
        except (OverflowError, TypeError):
            return TableColumn("mixed", plain, names, kind)  # beyond 64 bits: good enough for an id
    return TableColumn("number", _floats(plain), names, kind)


def _is_list(kind: type) -> bool:
    """Whether values of a type hold several: lists, arrays, tensors."""
    return issubclass(kind, list | tuple) or (hasattr(kind, "__array__") and hasattr(kind, "__len__"))


def _floats(values: Sequence[Any]) -> NDArray[np.float64]:
    return np.fromiter((np.nan if value is None else float(value) for value in values), np.float64, len(values))


def strings(column: TableColumn) -> Iterator[list[str | None]]:
    """The strings of a text column in pieces, None where there is none or an empty one."""
    for start in range(0, len(column.values), PIECE):
        piece = column.values[start : start + PIECE]
        listed = piece if isinstance(piece, list) else piece.to_list()
        yield [value if isinstance(value, str) and value else None for value in listed]


def coded_strings(column: TableColumn) -> tuple[NDArray[np.int32], list[str | None]] | None:
    """Of a text column that Arrow holds the number of each row's string, -1 = none, and the distinct strings in order
    of appearance; None: something else holds it."""
    native: Any = getattr(column.values, "to_native", lambda: None)()
    if column.kind != "text" or type(native).__module__.partition(".")[0] != "pyarrow":
        return None
    import pyarrow

    try:
        chunks = native.dictionary_encode().unify_dictionaries().chunks
    except (pyarrow.ArrowException, NotImplementedError):
        return None
    codes = [np.empty(0, np.int32), *(one.indices.fill_null(-1).to_numpy(zero_copy_only=False) for one in chunks)]
    distinct = chunks[0].dictionary.to_pylist() if chunks else []
    return np.concatenate(codes).astype(np.int32, copy=False), distinct


def written(column: TableColumn) -> list[str | None] | None:
    """Every value as it would be written down, None where it is missing; None if the column is of another kind.

    Numbers that are all whole are written as such: pandas makes 1.0 of 1 as soon as a value is missing.
    """
    if column.kind == "text":
        return [value for piece in strings(column) for value in piece]
    if column.kind == "whole":
        return list(map(str, column.values.tolist()))
    if column.kind == "truth":
        return [None if math.isnan(value) else str(bool(value)) for value in column.values.tolist()]
    if column.kind == "mixed":
        return [None if value is None or value == "" else str(value) for value in column.values]
    if column.kind == "number":
        values = column.values[~np.isnan(column.values)]
        known = bool(np.isfinite(values).all()) and bool((values == np.floor(values)).all())
        show = (lambda value: str(int(value))) if known else str
        return [None if math.isnan(value) else show(value) for value in column.values.tolist()]
    return None


def without_value(column: TableColumn) -> NDArray[np.bool_]:
    """Where a column that is not `other` has nothing."""
    if column.kind == "whole":
        return np.zeros(len(column.values), bool)
    if column.kind in ("number", "truth"):
        return np.isnan(np.asarray(column.values, np.float64))
    if column.kind == "lists":
        return np.fromiter((value is None for value in column.values), bool, len(column.values))
    pieces = strings(column) if column.kind == "text" else [written(column) or []]
    gaps = [np.fromiter((value is None for value in piece), bool, len(piece)) for piece in pieces]
    return np.concatenate([np.empty(0, bool), *gaps])


# -- table -----------------------------------------------------------------------------------------

NOTHING = ("NA", "N/A", "nan", "NaN", "NULL", "null", "None")  # what others write where nothing is known


class Table:
    """Columns by name, made when they are first used.

    name     "nodes", "edges" or the file it was read from: the first word of every message
    columns  name -> a function that makes the column
    path     the file, if it is one
    line     row -> its line in the file; or
    place    row -> where that is, in words; by default its number, from 0
    """

    def __init__(
        self,
        name: str,
        columns: Mapping[str, Callable[[], TableColumn]],
        n_rows: int,
        *,
        path: str | None = None,
        line: Callable[[int], int] | None = None,
        place: Callable[[int], str] | None = None,
    ) -> None:
        self.name = name
        self.columns = columns
        self.n_rows = n_rows
        self._path, self._line, self._place = path, line, place

    def with_columns(self, columns: Mapping[str, Callable[[], TableColumn]]) -> Table:
        """The same table with some columns made otherwise."""
        kept: Any = {"path": self._path, "line": self._line, "place": self._place}
        return Table(self.name, {**self.columns, **columns}, self.n_rows, **kept)

    def column(self, name: str, role: str) -> TableColumn:
        """The column that a setting, `role`, names."""
        if name not in self.columns:
            listed = ", ".join(map(repr, self.columns)) or "none at all"
            index = "; a pandas index becomes a column by reset_index()" if role == "id" and self._path is None else ""
            raise self.fault(
                f"no column {name!r} ({role}); the columns are {listed}: name one with `{role}=...`{index}"
            )
        return self.columns[name]()

    def names(self, name: str, role: str) -> list[str | None]:
        """The values of a column as strings, None where there is none."""
        return self._written(self.column(name, role), name, role)

    def _written(self, column: TableColumn, name: str, role: str) -> list[str | None]:
        listed = written(column)
        if listed is None:
            wanted = "expected strings, numbers or truth values"
            raise self.fault(f"column {name!r} ({role}): {wanted}, got {column.dtype}; turn it into strings")
        return listed

    def answers(self, name: str, role: str) -> list[str | None]:
        """The same of a column of labels or of clusters."""
        return self._answers(self.column(name, role), name, role)

    def _answers(self, column: TableColumn, name: str, role: str) -> list[str | None]:
        """Blanks alone are nothing. Words that often stand for nothing stay, as NA may be a name, with a warning."""
        listed = self._written(column, name, role)
        if column.kind != "text":
            return listed
        counts = Counter(one for one in listed if one in NOTHING)
        if counts:
            found = " and ".join(f"{one!r} in {n:,} row{'s' * (n > 1)}" for one, n in counts.items())
            taken = "is taken for a name" if len(counts) == 1 else "are taken for names"
            remedy = "leave such cells empty if nothing is known there"
            warn(f"{self.name}: column {name!r} ({role}): {found} {taken}; {remedy}", DataWarning)
        return [None if one is None or one.isspace() else one for one in listed]

    def labels(self, name: str) -> tuple[list[str | None], str]:
        """The names of the labels in a column, None where there is none, and their type."""
        column = self.column(name, "label")
        if column.type == "mixed":
            remedy = "turn them all into one, such as strings"
            raise self.fault(f"column {name!r} (label): labels must be of one type, got {column.dtype}; {remedy}")
        listed, kind = self._answers(column, name, "label"), column.type
        if kind == "str":
            return listed, kind
        named = {one: None if one is None else label_name(label_of(one, kind)) for one in {*listed}}  # 10.0 is 10
        return [named[one] for one in listed], kind

    def full_names(self, name: str, role: str) -> list[str]:
        """The same of a column in which nothing may be missing."""
        listed = self.names(name, role)
        if None in listed:
            row = listed.index(None)
            raise self.fault(f"no {role} in column {name!r}; fill it in or leave the row out", row)
        return [value for value in listed if value is not None]

    def place(self, row: int) -> str:
        if self._line is not None:
            return f"{self.name}, line {self._line(row)}"
        return f"{self.name}, row {row}" if self._place is None else f"{self.name}, {self._place(row)}"

    def fault(self, message: str, row: int | None = None) -> InputError:
        if row is not None and self._line is not None:
            return InputError(message, self.name, self._line(row))
        error = InputError(f"{self.name if row is None else self.place(row)}: {message}")
        error.path = self._path
        return error


def frame_table(frame: Any, name: str, path: str | None = None) -> Table:
    """The table in a data frame of pandas, polars, Arrow or whatever else narwhals knows, or in a dict of lists."""
    if is_lists(frame):
        return _of_lists(frame, name)
    from narwhals.exceptions import DuplicateError

    try:
        whole = in_memory(frame, name)
        names = list(whole.columns)
    except DuplicateError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{name}: two columns have the same name ({reason}); rename one", path) from None
    made = lambda one: lambda: series_column(whole.get_column(one))  # noqa: E731
    columns = {str(one): made(one) for one in names}  # pandas may name columns with numbers
    return Table(name, columns, len(whole), path=path)


def is_lists(given: Any) -> bool:
    """Whether it is a table as Python has it: name -> values."""
    lists = isinstance(given, Mapping) and all(isinstance(one, list | tuple | np.ndarray) for one in given.values())
    return lists and len(given) > 0


def _of_lists(lists: Mapping[Any, Any], name: str) -> Table:
    arrays = {key: values for key, values in lists.items() if isinstance(values, np.ndarray)}
    shape = {key: values.shape for key, values in arrays.items() if values.ndim not in (1, 2)}
    if shape:
        key, found = next(iter(shape.items()))
        raise InputError(f"{name}: column {key!r} must have one value or one list a row; got an array of shape {found}")
    sizes = {key: len(values) for key, values in lists.items()}
    if len({*sizes.values()}) > 1:
        found = ", ".join(f"{key!r} has {size}" for key, size in sizes.items())
        raise InputError(f"{name}: every column must have a value for each row; {found}")
    plain = lambda one: one.tolist() if isinstance(one, np.ndarray) and one.ndim == 1 else list(one)  # noqa: E731
    made = lambda one: lambda: object_column(plain(one))  # noqa: E731
    return Table(name, {str(key): made(values) for key, values in lists.items()}, max(sizes.values()))


def in_memory(frame: Any, name: str) -> Any:
    """The narwhals frame of a table; what is lazy, such as a relation of DuckDB, is collected."""
    import narwhals.stable.v2 as nw

    try:
        whole = nw.from_native(frame)
    except TypeError:
        wanted = "expected a table of pandas, polars, Arrow or DuckDB"
        got = f"{type(frame).__module__}.{type(frame).__name__}"
        raise InputError(f"{name}: {wanted}, got {got}; a dict of lists will do, {{'name': [...]}}") from None
    if not isinstance(whole, nw.LazyFrame):
        return whole
    try:
        return whole.collect()
    except ImportError as error:  # DuckDB hands over what Arrow holds
        raise InputError(f"{name}: to collect a lazy table {error}; pip install 'kinfolk[tables]'") from None


def listed(given: str | Iterable[str] | None) -> list[str]:
    """Names of columns, given one by one or as a single string."""
    return [given] if isinstance(given, str) else list(given or ())


# -- The ids of nodes in a table, and finding those that links name among them -------------------------


def id_name(key: Any) -> str | None:
    """What a node is known by: its id as a string, of a member of an Enum its value; None where it is no id."""
    plain = key.value if isinstance(key, Enum) else key
    if isinstance(plain, str):
        return str(plain)
    return str(int(plain)) if isinstance(plain, Integral) and not isinstance(plain, bool | np.bool_) else None


class Ids(NamedTuple):
    """Distinct ids: the strings that nodes are known by, and what was given, whole numbers or objects."""

    names: tuple[str, ...]
    given: NDArray[Any]

    @classmethod
    def of(cls, names: Iterable[str], given: Any) -> Ids:
        """`given` as an array: of whole numbers where all are, else of objects as they came."""
        if isinstance(given, np.ndarray) and given.dtype.kind in "iuO" and given.ndim == 1:
            return cls(tuple(names), given)
        listed = list(given)
        if all(isinstance(one, Integral) and not isinstance(one, bool | np.bool_ | Enum) for one in listed):
            numbers = np.array(listed, None if listed else np.int64)
            if numbers.dtype.kind in "iu":  # others are beyond 64 bits
                return cls(tuple(names), numbers)
        found = np.empty(len(listed), object)
        found[:] = listed
        return cls(tuple(names), found)

    def followed_by(self, others: Ids) -> Ids:
        parts = [self.given, others.given]
        if {part.dtype.kind for part in parts} != {parts[0].dtype.kind} or parts[0].dtype != parts[1].dtype:
            parts = [part.astype(object) for part in parts]
        return Ids((*self.names, *others.names), np.concatenate(parts))


class NodeIds:
    """The ids of a table of nodes, and where each stands; without a column of ids they are the numbers of the rows."""

    def __init__(self, table: Table, column: str | None) -> None:
        rows = TableColumn("whole", np.arange(table.n_rows, dtype=np.int64), "numbers of rows")
        self._given = rows if column is None else id_column(table, column, "id")
        self.names = _as_strings(self._given)
        self._numbers: dict[str, int] | None = None
        check_distinct(table, self.names)

    @property
    def ids(self) -> Ids:
        """With the values that the table has: whole numbers, members of an Enum, else strings."""
        own = self._given
        if own.members is not None:
            return Ids.of(self.names, own.members)
        if own.kind == "text":
            return Ids.of(self.names, [int(name) for name in self.names] if own.type == "int" else self.names)
        return Ids.of(self.names, own.values)

    def find(self, ids: TableColumn) -> NDArray[np.int64]:
        """The row of each id, -1 where there is none."""
        own = self._given
        if own.kind == ids.kind == "whole" and own.values.dtype == ids.values.dtype:
            return _found_numbers(own.values, ids.values)
        if self._numbers is None:
            self._numbers = {key: i for i, key in enumerate(self.names)}
        get, pieces = self._numbers.get, strings(ids) if ids.kind == "text" else [_as_strings(ids)]
        found = [np.fromiter(map(get, piece, repeat(-1)), np.int64, len(piece)) for piece in pieces]  # type: ignore[arg-type]
        return np.concatenate([np.empty(0, np.int64), *found])


def check_distinct(table: Table, ids: Sequence[str]) -> None:
    """Refuse an id that stands in two rows."""
    if len(set(ids)) == len(ids):
        return
    first: dict[str, int] = {}
    row = next(i for i, key in enumerate(ids) if first.setdefault(key, i) != i)
    raise repeated_id(table, ids[row], first[ids[row]], row)


def repeated_id(table: Table, key: str, first: int, row: int) -> InputError:
    before = table.place(first)
    return table.fault(f"ids must be distinct; {key!r} was in {before} already: keep one of them", row)


def id_column(table: Table, name: str, role: str) -> TableColumn:
    """A column of ids: strings or whole numbers, none missing."""
    column = table.column(name, role)
    gaps = np.zeros(0, bool) if column.kind == "other" else without_value(column)
    gap = int(gaps.argmax()) if gaps.any() else None
    if column.kind != "number" or not gaps.all():  # without a value the type means little
        check_id_type(table, name, role, column, gap)
    if gap is not None:
        raise missing_ids(table, name, role, gap, int(gaps.sum()))
    for row, value in enumerate(column.values if column.kind == "mixed" else ()):
        if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
            what = f"column {name!r} ({role})"
            raise table.fault(f"{what}: ids must be strings or whole numbers, got {value!r}; turn it into one", row)
    return column


def check_id_type(table: Table, name: str, role: str, column: TableColumn, gap: int | None) -> None:
    """Refuse ids of another type than strings and whole numbers; `gap`: the first row without one, None: there is
    none."""
    wanted = f"column {name!r} ({role}): ids must be strings or whole numbers"
    if column.kind in ("truth", "lists", "nested", "other"):
        raise table.fault(f"{wanted}, got {column.dtype}; turn them into strings")
    if column.kind == "number" and column.type != "int":
        example = column.values[~without_value(column)][0]
        why, remedy = "", "turn it into int64 or strings"
        if gap is not None:
            why = f", as pandas makes of whole numbers where one is missing (the first: {table.place(gap)})"
            remedy = f"leave out the rows without an id, then {remedy}"
        raise table.fault(f"{wanted}, got fractional numbers like {example}{why}; {remedy}")


def missing_ids(table: Table, name: str, role: str, row: int, count: int) -> InputError:
    what = f"column {name!r} ({role}): the id is missing here and in {count - 1} other rows"
    return table.fault(f"{what}; leave these rows out", row)


def _as_strings(ids: TableColumn) -> list[str]:
    if ids.kind == "text":
        return [key for piece in strings(ids) for key in piece if key is not None]
    return list(map(str, ids.values.tolist() if ids.kind == "whole" else ids.values))


def _found_numbers(ids: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Where each of many numbers stands among `ids`, -1 = nowhere."""
    low, high = int(ids.min()), int(ids.max())
    if high - low <= 8 * len(ids) + 1024:  # numbers that lie close: a table of them is the quickest
        row = np.full(high - low + 1, -1, np.int64)
        row[(ids - ids.dtype.type(low)).astype(np.int64)] = np.arange(len(ids))
        inside = (wanted >= low) & (wanted <= high)
        return np.where(inside, row[np.where(inside, wanted - wanted.dtype.type(low), 0).astype(np.int64)], -1)
    order = np.argsort(ids)
    at = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    return np.where(ids[order][at] == wanted, order[at], -1)


# -- CSV files to tables: what a column holds is decided by all of its cells ---------------------------
#
# The first line names the columns; tabs, commas or semicolons divide cells, as that line shows; blank lines count for
# nothing, an empty cell is missing. A column whose other cells are all numbers holds numbers, one of true and false
# holds truth values, any other strings. Columns of ids, labels and other names are kept as they are written.
#
# By the standard library's reader. That of pyarrow takes a fifth of the time (0.04 s for 0.22 s, 200,000 rows of four
# columns), but it is an extra, says of a broken row its cells and not its line, and lets a quote left open pass.

log = logging.getLogger("kinfolk")

DELIMITERS = "\t,;"  # tried in this order
ROWS = 512  # fewer than set the garbage collector going, which would then look through all cells read so far
QUOTES = "correct the quotes and line ends"
TRUTH = {"true": 1.0, "false": 0.0}


def csv_table(
    data: bytes,
    name: str,
    as_written: Collection[str] | None,
    delimiter: str | None = None,
    names: Sequence[str] | None = None,
) -> Table:
    """The table in a text; the columns `as_written` are strings whatever they look like; None: all of them are, without
    blanks around names and cells. `names` are those of the columns, if the first line has none."""
    divider = divider_of(data, delimiter)
    records = _records(data, divider)
    with long_cells():
        try:
            header, columns = _read(records, data, name, divider, as_written is None, names)
        except csv.Error as error:
            raise InputError(f"not a table: {error}; {QUOTES}", name, records.line_num) from None
    named = {title: column for title, column in zip(header, columns, strict=True) if title}
    if len(named) < len(header) and "" in header:
        # pandas writes its index so; the numbers of rows would be a feature
        log.warning("%s: column %d has no name and is left out", name, header.index("") + 1)
    line = partial(_line, data, divider, names is None)
    made = {
        title: partial(_strings, cells, as_written is None)
        if as_written is None or title in as_written
        else partial(_typed, cells, title, name, line)
        for title, cells in named.items()
    }
    return Table(name, made, len(columns[0]), path=name, line=line)


def divider_of(data: bytes, given: str | None, tried: str = DELIMITERS) -> str:
    """The delimiter that was given, or the first of those tried that the first line has."""
    if given is not None:
        if len(given) != 1 or given in '"\r\n':
            raise SettingError("delimiter", given, "one character, and no quote or line end")
        return given
    return next((one for one in tried if one in first_line(data)), ",")


def first_line(data: bytes) -> str:
    """Without its end, which may be a carriage return alone."""
    return re.split(rb"[\r\n]", data.lstrip(b"\r\n"), maxsplit=1)[0].decode()


def cells_of(line: str, divider: str, name: str) -> list[str]:
    """The cells of a line by itself."""
    with long_cells():
        try:
            return next(csv.reader([line], delimiter=divider), [])
        except csv.Error as error:
            raise InputError(f"not a table: {error}; {QUOTES}", name) from None


def _records(data: bytes, divider: str) -> Any:
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    return csv.reader(text, delimiter=divider, strict=True)


@contextmanager
def long_cells() -> Iterator[None]:
    """Texts may be longer than the reader's limit of 128 kB, which holds for the whole process."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _read(
    records: Any, data: bytes, name: str, divider: str, stripped: bool, names: Sequence[str] | None
) -> tuple[list[str], list[list[str]]]:
    """Names of the columns, and their cells."""
    header = next((cells for cells in records if cells), None) if names is None else list(names)
    if header is None:
        raise InputError("no columns: expected a line with their names, found nothing", name)
    header = [title.strip() for title in header] if stripped else header
    twice = next((title for title, n in Counter(header).items() if title and n > 1), None)
    if twice is not None:
        raise InputError(f"two columns are named {twice!r}; rename one", name, records.line_num)
    columns: list[list[str]] = [[] for _ in header]
    while rows := list(islice(records, ROWS)):
        if set(map(len, rows)) != {len(header)}:
            rows = [cells for cells in rows if cells]
            for row, cells in enumerate(rows, len(columns[0])):
                if len(cells) != len(header):
                    where = "the first line" if names is None else "header"
                    wanted = f"expected {len(header)} cells, as many as columns in {where}"
                    what = f"{wanted}, got {len(cells)}; complete the line, and quote cells that hold {divider!r}"
                    if len(header) == 1:
                        what += ", or name the delimiter if it is not one of tab, comma and semicolon"
                    raise InputError(what, name, _line(data, divider, names is None, row))
        for column, added in zip(columns, zip(*rows, strict=True), strict=False):
            column.extend(added)
    return header, columns


def _line(data: bytes, divider: str, has_header: bool, row: int) -> int:
    """The line in which a row begins. Found by reading again: it is needed once, and cells in quotes may hold lines."""
    records, before = _records(data, divider), 0
    with long_cells():
        for cells in records:
            row -= bool(cells)
            if row < -has_header:  # which is a row too
                break
            before = records.line_num
    return before + 1


def _strings(cells: list[str], stripped: bool) -> TableColumn:
    return TableColumn("text", [cell.strip() for cell in cells] if stripped else cells, "strings")


def _typed(cells: list[str], title: str, name: str, line: Callable[[int], int]) -> TableColumn:
    numbers = _numbers(cells)
    if numbers is not None:
        return TableColumn("number", numbers, "numbers")
    present = {cell for cell in cells if cell}
    if {cell.lower() for cell in present} <= TRUTH.keys():
        truth = (TRUTH[cell.lower()] if cell else np.nan for cell in cells)
        return TableColumn("truth", np.fromiter(truth, np.float64, len(cells)), "truth values")
    strange = {cell for cell in present if _numbers([cell]) is None}
    if len(strange) < len(present) / 2:
        row = next(i for i, cell in enumerate(cells) if cell in strange)
        taken = f"{cells[row]!r} is no number, so column {title!r} is taken for names, a feature each"
        log.warning("%s, line %d: %s; empty the cell if it is missing", name, line(row), taken)
    return TableColumn("text", cells, "strings")


def _numbers(cells: list[str]) -> NDArray[np.float64] | None:
    """The cells as numbers, NaN where they are empty; None if one is no number."""
    try:
        values = np.fromiter((float(cell) if cell else np.nan for cell in cells), np.float64, len(cells))
    except ValueError:
        return None
    return None if any("_" in cell for cell in cells) else values  # Python allows 1_000, nobody else does


# -- Parquet ------------------------------------------------------------------------------------------

PARQUET_MAGIC = b"PAR1"
LARGEST_RATIO = 64  # of what is unpacked to what is packed, in tables that are larger than the limit


def parquet_table(data: bytes, name: str) -> Table:
    return frame_table(parquet_frame(data, name), name, path=name)


def parquet_frame(data: bytes, name: str) -> Any:
    """The contents of a Parquet file as a table of Arrow."""
    try:
        from pyarrow import BufferReader
    except ImportError:
        remedy = "pip install 'kinfolk[tables]', or write the table as CSV"
        raise InputError(f"a Parquet file, which needs pyarrow, and that is not installed: {remedy}", name) from None
    return sound_parquet(BufferReader(data), len(data), name)


def sound_parquet(source: Any, packed: int, name: str) -> Any:
    """A table of Arrow whose sizes, offsets and strings were looked at: Arrow by itself takes any bytes for text."""
    from pyarrow import ArrowException, parquet

    try:
        check_unpacked(parquet.read_metadata(source), packed, name)
        table = parquet.read_table(source)
        table.validate(full=True)
    except InputError:
        raise
    except (ArrowException, OSError, UnicodeError, ValueError, TypeError, KeyError, IndexError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"Parquet data is truncated or damaged ({reason}); fetch it again", name) from None
    return table


def check_unpacked(metadata: Any, packed: int, name: str) -> None:
    """Refuse a file that promises far more than it holds: a run of a billion equal values takes a few bytes."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    sizes = [8 * one.num_rows * one.num_columns for one in groups] + [one.total_byte_size for one in groups]
    if min(sizes, default=0) < 0 or sum(sizes) > max(most_unpacked(), LARGEST_RATIO * packed):
        raise too_large("Parquet data unpack to", name)
