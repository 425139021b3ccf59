"""Records of one table or two in an engine, with columns that hold what they hold in memory: texts, numbers or lists.

A column's type decides, never the values of a piece of it: dates and truth values are written out, whole numbers that
are too large to be exact are texts, all other numbers are of double precision, as `records_from_frames` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.core.engine import ROW, Engine, literal, quoted
from kinfolk.core.engine_ids import check_distinct_ids, check_ids, head
from kinfolk.errors import InputError
from kinfolk.linking.mentions import Attribute, Mentions
from kinfolk.linking.nested import nested_column
from kinfolk.linking.records import EXACT


@dataclass(frozen=True)
class RecordTables:
    """Tables in an engine.

    given     as they came, each with a column `kf_row` that numbers its rows from 0
    records   all records, numbered on through both tables: `kf_row`, ids (of two tables with some in common "first:id"
              and "second:id"), and the fields as texts, numbers or lists
    sizes     how many records each has
    id        the column of ids; None: the numbers of the rows
    fields    what comparisons, blocking and rules look at
    """

    engine: Engine
    given: tuple[str, ...]
    records: str
    sizes: tuple[int, ...]
    id: str | None
    fields: tuple[str, ...]

    @property
    def first(self) -> int | None:
        """How many records are of the first of two tables; None: there is one."""
        return self.sizes[0] if len(self.sizes) == 2 else None

    @classmethod
    def read(
        cls,
        engine: Engine,
        sources: Sequence[Any],
        id: str | None,
        fields: Sequence[str] | None,
        words: tuple[str, ...] = ("first", "second"),
    ) -> RecordTables:
        """`fields` None: all columns that the tables have in common; `words` name two tables in messages."""
        words = ("records",) if len(sources) == 1 else words
        given = tuple(f"kf_given_{k}" for k in range(len(sources)))
        for source, table, word in zip(sources, given, words, strict=True):
            engine.read(source, table, ROW)
            _check_ids(engine, table, word, id)
        sizes = tuple(int(engine.rows(f"SELECT count(*) FROM {table}")[0][0]) for table in given)
        kinds = [_kinds(engine, table) for table in given]
        shared = [name for name in kinds[0] if all(name in own for own in kinds) and name not in (ROW, id)]
        chosen = tuple(shared if fields is None else fields)
        for own, word in zip(kinds, words, strict=True):
            lacking = next((name for name in chosen if name not in own), None)
            if lacking is not None:
                remedy = "the model compares by it: add the column, with missing values if need be"
                raise InputError(f"{word}: there is no column {lacking!r}; {remedy}")
        records = _records(engine, given, kinds, sizes, id, chosen)
        return cls(engine, given, records, sizes, id, chosen)


def _check_ids(engine: Engine, table: str, word: str, id: str | None) -> None:
    """Ids are there, none is missing, and no two are the same."""
    if id is None:
        return
    if id not in engine.columns(table):
        known = ", ".join(repr(one) for one in engine.columns(table) if one != ROW)
        raise InputError(f"{word}: there is no column {id!r} (id), only {known}; name it with `id=...`, or `id=None`")
    named = head(engine, table, word, ROW)
    if _kinds(engine, table)[id] != "date":  # records' dates are texts
        check_ids(engine, table, ROW, named, id, "id")
    check_distinct_ids(engine, table, ROW, named, id)


def _kinds(engine: Engine, table: str) -> dict[str, str]:
    """What each column holds: "text", "number", "whole", "truth", "date", "list", "nothing" or, in its own words,
    something else."""
    return {one.name: _kind(one.type) for one in engine.arrow(f"SELECT * FROM {table} LIMIT 0").schema}


def _kind(type_: Any) -> str:
    from pyarrow import types

    if types.is_dictionary(type_):
        return _kind(type_.value_type)
    if types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_):
        return "text"
    if types.is_integer(type_):
        return "whole"
    if types.is_floating(type_) or types.is_decimal(type_):
        return "number"
    if types.is_boolean(type_):
        return "truth"
    if types.is_date(type_) or types.is_timestamp(type_):
        return "date"
    if types.is_null(type_):
        return "nothing"
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return "list"
    return str(type_)


PLAIN = ("text", "list")


def _records(
    engine: Engine,
    given: Sequence[str],
    kinds: Sequence[dict[str, str]],
    sizes: Sequence[int],
    id: str | None,
    fields: Sequence[str],
) -> str:
    """The table of all records; where one table came that has nothing but texts, that is it."""
    if len(given) == 1 and all(kinds[0][name] in PLAIN for name in fields):
        return given[0]
    queries, offset, words = [], 0, [f"{literal(f'{word}:')} || " for word in ("first", "second")]
    if id is None or len(given) == 1 or not _in_common(engine, given, id):
        words = ["", ""]
    for k, (table, size) in enumerate(zip(given, sizes, strict=True)):
        columns = [f"{ROW} + {offset} AS {ROW}"]
        if id is not None and id not in fields:
            columns.append(f"{words[k]}CAST({quoted(id)} AS STRING) AS {quoted(id)}")
        for name in fields:
            others = {own[name] for own in kinds}
            columns.append(f"{_expression(engine, table, name, kinds[k][name], others)} AS {quoted(name)}")
        queries.append(f"SELECT {', '.join(columns)} FROM {table}")
        offset += size
    engine.make("kf_records", " UNION ALL ".join(queries))
    return "kf_records"


def _in_common(engine: Engine, given: Sequence[str], id: str) -> bool:
    a, b = (f"CAST({side}.{quoted(id)} AS STRING)" for side in "ab")
    return bool(engine.rows(f"SELECT 1 FROM {given[0]} a JOIN {given[1]} b ON {a} = {b} LIMIT 1"))


def _expression(engine: Engine, table: str, name: str, kind: str, kinds: set[str]) -> str:
    """A column as text, number or list; `kinds`: of the tables there are, which have to agree."""
    column = quoted(name)
    numbers = kinds <= {"whole", "number", "nothing"}
    if kind == "text":
        return column
    if kind == "date":
        return f"CAST(CAST({column} AS DATE) AS STRING)"
    if kind == "truth":
        return f"CASE WHEN {column} THEN 'True' WHEN NOT {column} THEN 'False' END"
    if kind == "nothing":
        return f"CAST(NULL AS {'DOUBLE' if numbers else 'STRING'})"
    if kind == "list" and kinds == {"list"}:
        return column
    if kind == "whole" and (not numbers or _inexact(engine, table, column)):
        return f"CAST({column} AS STRING)"
    if numbers:
        return f"CAST({column} AS DOUBLE)"
    what = f"{kind}s" if kind in ("number", "list") else f"values of the type {kind}"
    remedy = "make it text, or numbers, in every table"
    raise InputError(f"the column {name!r} holds {what}, which cannot be compared as it is; {remedy}")


def _inexact(engine: Engine, table: str, column: str) -> bool:
    return bool(engine.rows(f"SELECT 1 FROM {table} WHERE {column} > {EXACT} OR {column} < -{EXACT} LIMIT 1"))


# -- runs of records with pairs, as items -----------------------------------------------------------------


class RowNames(Sequence[str]):
    """Names of records for messages: the rows they have in the table."""

    def __init__(self, rows: NDArray[np.int64]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, item: Any) -> Any:
        return RowNames(self._rows[item]) if isinstance(item, slice) else f"row {self._rows[item]}"


BEST = "kf_best_"  # columns of best values, see `Mentions.bests`


def mentions_of(
    records: Any, pairs: Any, fields: Sequence[str], first: int | None, bests: Sequence[str] = ()
) -> tuple[Mentions, NDArray[np.int64]]:
    """Items of Arrow tables, and the order in which their pairs are those of the table.

    bests   the comparisons within `BestOf`, whose best values the records have as columns kf_best_0, kf_best_1, ...
    """
    rows = records.column(ROW).to_numpy()
    columns = {name: _attribute(name, records.column(name)) for name in fields}
    low, high = (np.searchsorted(rows, pairs.column(name).to_numpy()).astype(np.int32) for name in ("low", "high"))
    order = np.lexsort((low, high))
    first_table = None if first is None else int(np.searchsorted(rows, first))
    groups = np.zeros(len(rows), np.int32)
    found = {
        name: records.column(f"{BEST}{k}").fill_null(-np.inf).to_numpy().astype(np.float64)
        for k, name in enumerate(bests)
    }
    kept: dict[str, Any] = {
        "names": RowNames(rows),
        "first_table": first_table,
        "blocked": True,
        "bests": found or None,
    }
    made = Mentions(columns, groups, low[order], high[order], **kept)
    return made, order


def _attribute(name: str, column: Any) -> Attribute:
    """A column of Arrow as items have it: strings by number, without blanks around them; numbers; or lists."""
    import pyarrow

    kind = _kind(column.type)
    if kind == "number":
        return np.asarray(column.cast(pyarrow.float64()).fill_null(np.nan).to_numpy(), np.float64)
    if kind == "list":
        return nested_column(name, column.to_pylist())
    coded = column.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pyarrow.ChunkedArray) else coded
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    given = coded.dictionary.to_pylist()
    bare = [value.strip() for value in given]
    if bare == given and "" not in bare:
        return Column(codes, tuple(given))
    values = tuple(value for value in dict.fromkeys(bare) if value)
    numbers = {value: k for k, value in enumerate(values)}
    place = np.array([*(numbers.get(value, -1) for value in bare), -1], np.int32)
    return Column(place[codes], values)
