"""Records in one table, or in two that are to be linked, as `Mentions` without pairs: blocking adds them.

Every column that nothing else is said of is a field. Two tables are matched by the names of their columns; one that
only one of them has is left out, with a warning. Texts are taken without blanks around them; an empty one is missing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import combinations
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.arrow_files import globbed, one_table
from kinfolk.core.data import Column, is_unknown
from kinfolk.core.engine import check_files
from kinfolk.core.files import Source, checked_utf8, read_bytes
from kinfolk.core.frames import distinct_columns, from_stream
from kinfolk.core.table import (
    PARQUET_MAGIC,
    NodeIds,
    Table,
    TableColumn,
    cells_of,
    coded_strings,
    csv_table,
    divider_of,
    first_line,
    frame_table,
    id_column,
    is_lists,
    listed,
    object_column,
    parquet_frame,
    strings,
    written,
)
from kinfolk.core.threads import release_free_memory
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.chains import connected
from kinfolk.linking.mentions import Attribute, Mentions
from kinfolk.linking.nested import is_nested, nested_column
from kinfolk.linking.pair_labels import PairLabels, label_of, pair_labels

log = logging.getLogger("kinfolk")

# -----------------------------------------------------------------------------------------------------
# Which records are the same: from a column of clusters, from their ids, or from a table of matches or of clusters.

Array = NDArray[Any]
CLOSURES = ("close", "refuse")
PATTERNS = {"febrl": r"rec-(\d+)-"}  # rec-12-org, rec-12-dup-0
NOT_KNOWN = -1
WHOLE = re.compile(r"-?\d+")
FEW = 0.25  # of the records: a list of matches that names fewer may be a sample, not all there are
OF_SCORES = re.compile("match|score|prob|label|weight|same|link|similar|confidence", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class RecordIds:
    """The ids of one table, or of two whose records are numbered one after the other."""

    tables: Sequence[Table]
    ids: Sequence[Sequence[str]]

    @cached_property
    def numbers(self) -> Sequence[Mapping[str, int]]:
        """One a table: id -> record. Made when first asked for, which only a table of the truth does."""
        firsts = np.cumsum([0, *map(len, self.ids)]).tolist()
        return [{key: first + i for i, key in enumerate(own)} for own, first in zip(self.ids, firsts, strict=False)]

    def __contains__(self, key: object) -> bool:
        return any(key in own for own in self.numbers)

    @property
    def n_records(self) -> int:
        return sum(map(len, self.ids))

    def in_table(self, side: int, key: str, truth: Table, row: int) -> int:
        """The record of an id that belongs to one of the tables."""
        found = self.numbers[side].get(key)
        if found is not None:
            return found
        first = "the ids of the first table belong into the first column"
        remedy = first if key in self else "correct it or take the row out"
        raise truth.fault(f"no record of {self.tables[side].name} has the id {key!r}; {remedy}", row)

    def anywhere(self, key: str, truth: Table, row: int) -> int:
        """The record of an id, whichever table has it."""
        found = [own[key] for own in self.numbers if key in own]
        if len(found) == 1:
            return found[0]
        if found:
            remedy = "make ids distinct, or give the truth as matches, a column a table"
            raise truth.fault(f"both tables have a record with the id {key!r}; {remedy}", row)
        raise truth.fault(f"no record has the id {key!r}; correct it or take the row out", row)

    def name(self, record: int) -> str:
        return [key for own in self.ids for key in own][record]


def numbered(names: Sequence[str | None]) -> NDArray[np.int32]:
    """Clusters by name as numbers, missing = not known."""
    numbers: dict[str | None, int] = {None: NOT_KNOWN}
    return np.array([numbers.setdefault(name, len(numbers) - 1) for name in names], np.int32)


def clusters_named(names: Sequence[str | None]) -> NDArray[np.int32]:
    """Clusters by the names in columns; where all are whole numbers -1 is not known, as `Mentions.clusters` has it."""
    whole = all(WHOLE.fullmatch(name) for name in {*names} if name is not None)
    return numbered([None if whole and name == str(NOT_KNOWN) else name for name in names])


def clusters_in_ids(ids: RecordIds, pattern: str) -> NDArray[np.int32]:
    """The part of each id that a pattern captures."""
    try:
        compiled = re.compile(PATTERNS.get(pattern, pattern))
    except (re.error, TypeError) as error:
        raise SettingError("cluster_from_id", pattern, "a regular expression", f"({error})") from None
    if compiled.groups != 1:
        wanted = "must have one group in brackets, which is the cluster, such as r'rec-(\\d+)-'"
        raise SettingError.saying(f"cluster_from_id {wanted}; {pattern!r} has {compiled.groups}")
    names: list[str | None] = []
    for table, own in zip(ids.tables, ids.ids, strict=True):
        for row, key in enumerate(own):
            found = compiled.match(key)
            if found is None or not found[1]:
                raise table.fault(f"`cluster_from_id={compiled.pattern!r}` finds no cluster in the id {key!r}", row)
            names.append(found[1])
    return numbered(names)


def clusters_in_table(ids: RecordIds, truth: Table, id: str | None, cluster: str) -> NDArray[np.int32]:
    """A table of ids and clusters; records it does not name are not known."""
    others = [name for name in truth.columns if name != cluster]
    column = id if id in truth.columns or len(others) != 1 else others[0]
    keys = truth.full_names(column or "id", "id")
    names: list[str | None] = [None] * ids.n_records
    placed: dict[int, int] = {}
    for row, (key, name) in enumerate(zip(keys, truth.answers(cluster, "cluster"), strict=True)):
        record = ids.anywhere(key, truth, row)
        if placed.setdefault(record, row) != row:
            before = truth.place(placed[record])
            raise truth.fault(f"the record {key!r} was in {before} already; keep one of the rows", row)
        names[record] = name
    return clusters_named(names)


# -- matches ------------------------------------------------------------------------------------------


def clusters_of_matches(ids: RecordIds, truth: Table, columns: Sequence[str] | None, closure: str) -> NDArray[np.int32]:
    """A table of all pairs of ids that are the same: any other pair is none, and a record without any is by itself."""
    if closure not in CLOSURES:
        raise SettingError("truth_closure", closure, "'close' or 'refuse'")
    named = list(truth.columns) if columns is None else list(columns)
    if len(named) != 2:
        listed = ", ".join(map(repr, truth.columns))
        labels = "; if a column says yes or no, it is a table of labels, for fit: `pairs=...`" if len(named) > 2 else ""
        remedy = f"name two with `match_columns=...`{labels}"
        raise truth.fault(f"expected two columns with the ids of matches, got {listed}; {remedy}")
    for name in truth.columns:
        if name not in named:
            _check_says_yes(truth, name)
    for name in named:
        if truth.n_rows:
            id_column(truth, name, "match_columns")
    sides = [truth.full_names(name, "match_columns") for name in named]
    last = len(ids.tables) - 1
    found = [
        (ids.in_table(0, a, truth, row), ids.in_table(last, b, truth, row))
        for row, (a, b) in enumerate(zip(*sides, strict=True))
    ]
    pairs = np.array(found, np.int64).reshape(-1, 2)
    alone = int(np.count_nonzero(pairs[:, 0] == pairs[:, 1]))
    if alone:
        log.warning("%s: %d rows match a record with itself and are left out", truth.name, alone)
    if len(pairs) == alone:
        log.warning("%s has no matches: every record is taken for a cluster of its own", truth.name)
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    _warn_of_few(pairs, ids, truth)
    clusters = connected(pairs[:, 0], pairs[:, 1], ids.n_records)
    _check_closed(pairs, clusters, ids, truth, closure)
    return clusters


def _check_says_yes(truth: Table, name: str) -> None:
    """Refuse a column beside the ids that says of some rows that they are no matches, or gives them a score."""
    cells = written(truth.column(name, "truth")) or []
    labels = {cell: NOT_KNOWN if cell is None else label_of(cell) for cell in set(cells)}
    rows = [str(row) for row in range(len(cells) + 1)]
    if None in labels.values() or cells in (rows[:-1], rows[1:]) or not any(cells):
        return  # words, numbers of rows, or nothing at all
    scores = any(isinstance(label, float) for label in labels.values())
    others = [row for row, cell in enumerate(cells) if labels[cell] != 1]
    if not others or (scores and not OF_SCORES.search(name)):
        return
    wrong = f"says {cells[others[0]] or ''!r}, so this is no match, like {len(others) - 1:,} other rows"
    remedy = "make it yes or no and give" if scores else "give"
    as_labels = f"{remedy} the table to fit as labels of pairs, `pairs=...`"
    raise truth.fault(f"the column {name!r} {wrong}; leave out such rows and the column, or {as_labels}", others[0])


def _warn_of_few(pairs: Array, ids: RecordIds, truth: Table) -> None:
    """A list of some matches makes all others non-matches: say so where it names few records."""
    sizes = np.array([len(own) for own in ids.ids])
    named = np.unique(pairs)
    side = (named >= sizes[0]).astype(np.int64) if len(sizes) == 2 else np.zeros(len(named), np.int64)
    shares = np.bincount(side, minlength=len(sizes)) / np.maximum(sizes, 1)
    if len(pairs) and shares.max() < FEW:
        log.warning(
            "%s: %s matches name %s of %s records, and every other pair is taken for none; "
            "if there are more matches, label some pairs yes and some no and give them to fit, `pairs=...`",
            *(truth.name, f"{len(pairs):,}", f"{len(named):,}", f"{ids.n_records:,}"),
        )


def _check_closed(pairs: Array, clusters: Array, ids: RecordIds, truth: Table, closure: str) -> None:
    """Say, or refuse, that matches imply others: if a = b and b = c, then a = c."""
    n_first = len(ids.ids[0])
    across = len(ids.tables) == 2
    sizes = np.bincount(clusters)
    ours = np.bincount(clusters[:n_first], minlength=len(sizes))
    implied = ours * (sizes - ours) if across else sizes * (sizes - 1) // 2
    lacking = implied - np.bincount(clusters[pairs[:, 0]], minlength=len(sizes))
    added = int(lacking.sum())
    if not added:
        return
    cluster = int(np.flatnonzero(lacking)[0])
    members = np.flatnonzero(clusters == cluster).tolist()
    given = set(map(tuple, pairs[clusters[pairs[:, 0]] == cluster].tolist()))
    possible = (pair for pair in combinations(members, 2) if not across or pair[0] < n_first <= pair[1])
    a, b = next(pair for pair in possible if pair not in given)
    lack = f"{ids.name(a)!r} and {ids.name(b)!r} match by way of others but are not listed, and so with {added:,} pairs"
    if closure == "refuse":
        raise InputError(f'{truth.name}: {lack}; list them, or take them for matches with truth_closure="close"')
    log.warning("%s: %s; they are taken for matches", truth.name, lack)


# -- records ---------------------------------------------------------------------------------------

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
            raise SettingError.saying("the truth is given twice: name either cluster_from_id, or cluster and truth")
        if self.match_columns is not None and (not has_truth or self.cluster is not None):
            raise SettingError.saying(
                "`match_columns` are columns of a truth of matches; give it as `truth=...`, without cluster"
            )
        if self.match_columns is not None and (isinstance(self.match_columns, str) or len(self.match_columns) != 2):
            raise SettingError.saying(f"`match_columns` must name two columns; got {self.match_columns!r}")


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
    """The records in a data frame of pandas, polars, Arrow (a stream too), DuckDB or another that narwhals knows, or in
    a dict of lists; no pairs yet.

    frame, other      one row a record. With `other` records of the first are to be linked with records of the second
    id                the column of ids, distinct within a table; None: the numbers of the rows
    fields            what is compared; default: all columns that nothing else is said of. Numbers stay numbers
    cluster           the column that names the true cluster of a record; not known: missing or, among whole numbers,
                      -1
    cluster_from_id   a regular expression whose one group is the cluster in an id; "febrl": r"rec-(\\d+)-"
    table             the column with two values that says which of two tables a record is from, in place of `other`
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
    return _mentions(given, columns, None if truth is None else lambda ids: _frame(truth, "truth"))


def _frame(frame: Any, name: str, path: str | None = None) -> Table:
    """A frame, of a file if there is a path, whose dates are written out as strings; columns of lists and of vectors
    are of the kind "nested"."""
    if is_lists(frame):
        lists = {key: values for key, values in frame.items() if is_nested(values)}
        flat = {key: [None] * len(one) if key in lists else _days_written(one) for key, one in frame.items()}
        return _with_nested(frame_table(flat, name), lists, lambda values: values)
    import narwhals.stable.v2 as nw

    whole = distinct_columns(from_stream(frame, name), name)
    dates = [key for key, dtype in whole.schema.items() if dtype in (nw.Date, nw.Datetime)]
    days = whole.with_columns(*(whole.get_column(key).dt.to_string("%Y-%m-%d") for key in dates))
    series = {key: whole.get_column(key) for key, dtype in whole.schema.items() if dtype in (nw.List, nw.Array)}
    objects = {key: whole.get_column(key) for key, dtype in whole.schema.items() if dtype == nw.Object}
    series |= {key: one for key, one in objects.items() if is_nested(one.to_list())}
    table = _with_nested(frame_table(days, name, path), series, lambda one: one.to_list())
    return _with_dates(table, {key: one for key, one in objects.items() if key not in series})


def _with_nested(table: Table, nested: Mapping[Any, Any], values: Callable[[Any], Any]) -> Table:
    """A table with columns of lists in their places."""

    def made(one: Any) -> Callable[[], TableColumn]:
        return lambda: TableColumn("nested", values(one), "list")

    return table.with_columns({str(key): made(one) for key, one in nested.items()})


def _with_dates(table: Table, objects: Mapping[Any, Any]) -> Table:
    """A table with columns of Python objects, in which dates may be, in their places."""

    def made(one: Any) -> Callable[[], TableColumn]:
        return lambda: object_column(_days_written(one.to_list()))

    return table.with_columns({str(key): made(one) for key, one in objects.items()})


def _days_written(values: Sequence[Any]) -> Sequence[Any]:
    """Dates of Python and NumPy as strings; other values as they are."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        days = values.astype("datetime64[D]").astype(str).tolist()
        return [None if day == "NaT" else day for day in days]
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [value.isoformat()[:10] if isinstance(value, date) and not is_unknown(value) else value for value in listed]


def _mentions(
    tables: Sequence[tuple[str, Table]], columns: RecordColumns, truth: Callable[[RecordIds], Table] | None
) -> Mentions:
    """The records of one or two tables, each with a word that names it; `truth` is read once the ids are known."""
    columns.check(truth is not None)
    if columns.table is not None:
        if len(tables) == 2:
            raise SettingError.saying(
                "table names a column that divides one table in two; there are two tables already"
            )
        tables = _divided(tables[0][1], columns.table)
    own = [table for _, table in tables]
    ids = RecordIds(own, [NodeIds(table, columns.id).names for table in own])
    names = _names([word for word, _ in tables], ids.ids)
    fields = _fields(own, columns, truth is not None, names)
    clusters = _clusters(ids, columns, None if truth is None else truth(ids))
    groups, none = np.zeros(ids.n_records, np.int32), np.empty(0, np.int32)
    first_table = len(ids.ids[0]) if len(tables) == 2 else None
    release_free_memory()  # what was read, before it was known to be what others had
    return Mentions(fields, groups, none, none, clusters, names, None, first_table)


def _clusters(ids: RecordIds, given: RecordColumns, truth: Table | None) -> NDArray[np.int32] | None:
    if truth is not None and given.cluster is not None:
        return clusters_in_table(ids, truth, given.id, given.cluster)
    if truth is not None:
        return clusters_of_matches(ids, truth, given.match_columns, given.truth_closure)
    if given.cluster is not None:
        columns = (table.answers(given.cluster, "cluster") for table in ids.tables)
        return clusters_named([name for column in columns for name in column])
    return None if given.cluster_from_id is None else clusters_in_ids(ids, given.cluster_from_id)


def _names(words: Sequence[str], ids: Sequence[Sequence[str]]) -> list[str]:
    if len(ids) == 2 and not set(ids[0]).isdisjoint(ids[1]):
        prefixes = words if words[0] != words[1] else ("1", "2")
        return [f"{word}:{key}" for word, own in zip(prefixes, ids, strict=True) for key in own]
    return [key for own in ids for key in own]


def _divided(table: Table, column: str) -> list[tuple[str, Table]]:
    """One table as two, by a column with two values; the one that comes first is the first."""
    names = table.full_names(column, "table")
    if not names:
        return [("first", table), ("second", table)]
    words = list(dict.fromkeys(names))
    if len(words) != 2:
        got = f"{len(words)}: {', '.join(map(repr, words[:5])) or 'none'}"
        raise table.fault(f"column {column!r} (table) must have two values, one a table; got {got}")
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


def _fields(
    tables: Sequence[Table], columns: RecordColumns, has_truth: bool, ids: Sequence[str]
) -> dict[str, Attribute]:
    made: dict[str, Attribute] = {}
    for name in _field_names(tables, columns, has_truth):
        values = _values([table.column(name, "fields") for table in tables], tables, name, ids)
        known = (values.codes >= 0) if isinstance(values, Column) else ~np.isnan(values)
        made[name] = values
        if len(known) and not known.any():
            log.warning("%s: the field %r is empty in every record", tables[0].name, name)
    if not made:
        wanted = "expected at least one column besides ids and clusters"
        raise tables[0].fault(f"no fields to compare: {wanted}; name them with `fields=...`")
    return made


def _field_names(tables: Sequence[Table], columns: RecordColumns, has_truth: bool) -> Iterable[str]:
    roles = columns.roles(has_truth)
    if columns.fields is not None:
        for name in listed(columns.fields):
            if name in roles:
                wrong = f"is the {roles[name]} as well, which gives the answer away"
                raise SettingError.saying(f"the field {name!r} {wrong}; drop it")
        return dict.fromkeys(listed(columns.fields))
    shared = [name for name in tables[0].columns if all(name in table.columns for table in tables)]
    for table in tables:
        single = [name for name in table.columns if name not in shared and name not in roles]
        if single:
            log.warning(
                "%s: the other table has no column %s, so it is left out; give both the same names to compare them",
                *(table.name, " or ".join(map(repr, single))),
            )
    return [name for name in shared if name not in roles]


def _values(given: Sequence[TableColumn], tables: Sequence[Table], name: str, ids: Sequence[str]) -> Attribute:
    """One field of all tables: lists or vectors if it holds such, numbers if it holds numbers in each of them, else
    strings."""
    if any(column.kind == "nested" for column in given):
        return _nested(given, tables, name, ids)
    if all(column.kind in ("whole", "number") for column in given):
        numbers = np.concatenate([column.values.astype(np.float64) for column in given])
        if np.isinf(numbers).any():
            raise InputError(f"the field {name!r} holds an infinite number; make it missing or a text")
        if not any(column.kind == "whole" and (np.abs(column.values) > EXACT).any() for column in given):
            return numbers
    return Column.joined([_texts(column, table, name) for column, table in zip(given, tables, strict=True)])


def _texts(given: TableColumn, table: Table, name: str) -> Column:
    """The strings of a field. What Arrow holds it numbers itself: only distinct strings become objects of Python."""
    coded = coded_strings(given)
    if coded is None:
        return Column.from_strings(
            None if text is None else text.strip() or None for text in table.names(name, "fields")
        )
    codes, distinct = coded
    stripped = Column.from_strings(None if text is None else text.strip() or None for text in distinct)
    return Column(np.append(stripped.codes, np.int32(-1))[codes], stripped.values)


def _nested(given: Sequence[TableColumn], tables: Sequence[Table], name: str, ids: Sequence[str]) -> Attribute:
    if len(given) == 1 and isinstance(given[0].values, np.ndarray):
        return nested_column(name, given[0].values, ids)
    rows: list[Any] = []
    for column, table in zip(given, tables, strict=True):
        if column.kind == "nested":
            rows += list(column.values)
        else:  # one value a record, where the other table has several
            rows += [None if text is None else [text] for text in table.names(name, "fields")]
    return nested_column(name, rows, ids)


# -- Records on disk: CSV with any delimiter, packed or not, or Parquet; one table or two, with or without truth ---

DELIMITERS = "\t,;|"  # tried in this order


def read_records(
    source: Source,
    other: Source | None = None,
    *,
    id: str | None = "id",
    truth: Source | None = None,
    cluster: str | None = None,
    cluster_from_id: str | None = None,
    fields: str | Sequence[str] | None = None,
    table: str | None = None,
    match_columns: Sequence[str] | None = None,
    truth_closure: str = "close",
    delimiter: str | None = None,
    header: Sequence[str] | None = None,
) -> Mentions:
    """The records in one file, or in two that are to be linked; no pairs yet: `block` adds them.

    source, other  path, "-" for standard input or an open file; gzip is unpacked. A glob, "people/*.csv", names files
                   that are one table, in order of their names
    truth          a file of all matches there are, for any other pair is taken for none: two columns of ids, with or
                   without a line of names; or, with `cluster`, one of ids and clusters, whose columns are named `id`
                   and `cluster`
    delimiter      what divides the cells of CSV files; None: tab, comma, semicolon or |, as the first line shows
    header         names of the columns of `source` and `other`, if their first line does not have them

    Everything else is as in `records_from_frames`. Cells are texts as they are written ("0800" stays), without blanks
    around them; an empty one is missing. Parquet files need pyarrow: pip install 'kinfolk[tables]'.
    """
    files = [file for file in (source, other, truth) if file is not None]
    if sum(isinstance(file, str) and file == "-" for file in files) > 1:
        raise SettingError.saying("only one of the files can be standard input; name the others")
    columns = RecordColumns(id, fields, cluster, cluster_from_id, table, match_columns, truth_closure)
    tables = [_table(file, delimiter, header) for file in (source, other) if file is not None]
    stems = [PurePath(one.name).name.partition(".")[0] or one.name for one in tables]  # data/abt.csv.gz -> abt
    named = cluster is not None or match_columns is not None

    def truth_of(ids: RecordIds) -> Table:
        assert truth is not None
        return _table(truth, delimiter, ids=None if named else ids)

    return _mentions(list(zip(stems, tables, strict=True)), columns, None if truth is None else truth_of)


def read_pair_labels(
    source: Source,
    items: Mentions,
    *,
    left: str | None = None,
    right: str | None = None,
    match: str | None = None,
    delimiter: str | None = None,
) -> PairLabels:
    """A file of pairs of ids with yes, no or nothing, as `Linker.fit` takes them; with or without a line of names."""
    named = not (left is None and right is None and match is None)
    ids = {name.rpartition(":")[2] for name in items.names or ()} | set(items.names or ())
    return pair_labels(items, _table(source, delimiter, ids=None if named else ids), left, right, match)


def _table(
    source: Source,
    delimiter: str | None,
    header: Sequence[str] | None = None,
    ids: Container[str] | None = None,
) -> Table:
    """A file as a table, or all that a glob names. A first line with one of `ids` is a row, without names; None: its
    columns are named."""
    found = globbed(source)
    read = [read_bytes(one) for one in found] if found else [read_bytes(source)]
    packed = [(data, name) for data, name in read if data.startswith(PARQUET_MAGIC)]
    if 0 < len(packed) < len(read):
        first, other = packed[0][1], next(name for data, name in read if not data.startswith(PARQUET_MAGIC))
        raise InputError(f"{str(source)!r}: {first} is Parquet and {other} is not; give one kind at a time")
    if packed:
        name = str(source) if found else packed[0][1]
        frames = [parquet_frame(*one) for one in packed]
        return _frame(one_table(frames, [one for _, one in packed]), name, name)
    tables = [_csv(data, name, delimiter, header, ids) for data, name in read]
    return _one_after_the_other(tables, str(source)) if len(tables) > 1 else tables[0]


def _one_after_the_other(tables: Sequence[Table], name: str) -> Table:
    """Tables of texts, of the files of a glob, as one."""
    check_files([table.name for table in tables], [dict.fromkeys(table.columns, "text") for table in tables])

    def made(column: str) -> Callable[[], TableColumn]:
        return lambda: TableColumn(
            "text", [one for table in tables for one in table.columns[column]().values], "strings"
        )

    starts = np.cumsum([0, *(table.n_rows for table in tables)])

    def place(row: int) -> str:
        at = int(np.searchsorted(starts, row, side="right")) - 1
        return tables[at].place(row - int(starts[at]))

    return Table(name, {column: made(column) for column in tables[0].columns}, int(starts[-1]), place=place)


def _csv(
    data: bytes, name: str, delimiter: str | None, header: Sequence[str] | None, ids: Container[str] | None
) -> Table:
    if header is not None and (isinstance(header, str) or len(set(header)) < len(header) or not all(header)):
        raise SettingError("header", header, "a list of distinct names of columns")
    text = checked_utf8(data, name)
    divider = divider_of(text, delimiter, DELIMITERS)
    if ids is not None:
        first = cells_of(first_line(text), divider, name)
        if any(cell.strip() in ids for cell in first):
            header = [f"column {i}" for i in range(1, len(first) + 1)]
    return csv_table(text, name, None, divider, header)
