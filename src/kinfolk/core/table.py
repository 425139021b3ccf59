"""A table of any origin: named columns, rows, and the place of a row for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from kinfolk.core.columns import Column, object_column, series_column, written
from kinfolk.core.labels import label_name, label_of
from kinfolk.errors import InputError


class Table:
    """Columns by name, made when they are asked for.

    name     "nodes", "edges" or the file it was read from: the first word of every message
    columns  name -> a function that makes the column
    path     the file, if it is one
    line     row -> its line in the file; or
    place    row -> where that is, in words; by default its number, from 0
    """

    def __init__(
        self,
        name: str,
        columns: Mapping[str, Callable[[], Column]],
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

    def column(self, name: str, role: str) -> Column:
        """The column that a setting, `role`, names."""
        if name not in self.columns:
            listed = ", ".join(map(repr, self.columns)) or "none at all"
            index = "; a pandas index becomes a column by reset_index()" if role == "id" and self._path is None else ""
            raise self.fault(f"no column {name!r} ({role}); the columns are {listed}: name one with {role}=...{index}")
        return self.columns[name]()

    def names(self, name: str, role: str) -> list[str | None]:
        """The values of a column as strings, None where there is none."""
        return self._written(self.column(name, role), name, role)

    def _written(self, column: Column, name: str, role: str) -> list[str | None]:
        listed = written(column)
        if listed is None:
            wanted = "expected strings, numbers or truth values"
            raise self.fault(f"column {name!r} ({role}): {wanted}, got {column.told}; turn it into strings")
        return listed

    def labels(self, name: str) -> tuple[list[str | None], str]:
        """The names of the labels in a column, None where there is none, and their type."""
        column = self.column(name, "label")
        if column.type == "mixed":
            remedy = "turn them all into one, such as strings"
            raise self.fault(f"column {name!r} (label): labels must be of one type, got {column.told}; {remedy}")
        listed, kind = self._written(column, name, "label"), column.type
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
        told = " ".join(str(error).split())
        raise InputError(f"{name}: two columns have the same name ({told}); rename one", path) from None
    columns = {str(one): _of_series(whole, one) for one in names}  # pandas may name columns with numbers
    return Table(name, columns, len(whole), path=path)


def is_lists(given: Any) -> bool:
    """Whether it is a table as Python has it: name -> values."""
    lists = isinstance(given, Mapping) and all(isinstance(one, list | tuple | np.ndarray) for one in given.values())
    return lists and len(given) > 0


def _of_lists(lists: Mapping[Any, Any], name: str) -> Table:
    shape = {key: values.shape for key, values in lists.items() if isinstance(values, np.ndarray) and values.ndim != 1}
    if shape:
        key, found = next(iter(shape.items()))
        raise InputError(f"{name}: column {key!r} must have one value a row; got an array of shape {found}")
    sizes = {key: len(values) for key, values in lists.items()}
    if len({*sizes.values()}) > 1:
        told = ", ".join(f"{key!r} has {size}" for key, size in sizes.items())
        raise InputError(f"{name}: every column must have a value for each row; {told}")
    return Table(name, {str(key): _of_list(values) for key, values in lists.items()}, max(sizes.values()))


def _of_list(values: Any) -> Callable[[], Column]:
    return lambda: object_column(values.tolist() if isinstance(values, np.ndarray) else list(values))


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


def _of_series(frame: Any, name: Any) -> Callable[[], Column]:
    return lambda: series_column(frame.get_column(name))


def listed(given: str | Iterable[str] | None) -> list[str]:
    """Names of columns, given one by one or as a single string."""
    return [given] if isinstance(given, str) else list(given or ())
