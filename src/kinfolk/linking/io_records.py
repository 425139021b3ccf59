"""Records on disk: CSV with any delimiter, packed or not, or Parquet; one table or two, with or without truth."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from pathlib import PurePath

from kinfolk.core.columns import Column, strings
from kinfolk.core.csvfiles import csv_table
from kinfolk.core.files import Source, read_bytes, read_utf8
from kinfolk.core.table import Table
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.files import PARQUET_MAGIC, parquet_table
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pair_labels import PairLabels, pair_labels
from kinfolk.linking.record_truth import RecordIds
from kinfolk.linking.records import RecordColumns, gathered

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

    source, other  path, "-" for standard input or an open file; gzip is unpacked
    truth          a file of all matches there are, for any other pair is taken for none: two columns of ids, with or
                   without a line of names; or, with `cluster`, one of ids and clusters, whose columns are named `id`
                   and `cluster`
    delimiter      what divides the cells of CSV files; None: tab, comma, semicolon or |, as the first line shows
    header         names of the columns of `source` and `other`, if their first line does not tell them

    Everything else is as in `records_from_frames`. Cells are texts as they are written ("0800" stays), without blanks
    around them; an empty one is missing. Parquet files need pyarrow: pip install 'kinfolk[tables]'.
    """
    files = [file for file in (source, other, truth) if file is not None]
    if sum(isinstance(file, str) and file == "-" for file in files) > 1:
        raise SettingError("only one of the files can be standard input; name the others")
    columns = RecordColumns(id, fields, cluster, cluster_from_id, table, match_columns, truth_closure)
    tables = [_read(file, delimiter, header) for file in (source, other) if file is not None]
    found = gathered([(_stem(one.name), one) for one in tables], columns, truth is not None)
    return found.mentions(None if truth is None else _truth(truth, delimiter, columns, found.ids))


def _stem(name: str) -> str:
    """data/abt.csv.gz -> abt, for ids that two files have in common."""
    return PurePath(name).name.partition(".")[0] or name


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
    return pair_labels(items, _pairs(source, delimiter, None if named else ids), left, right, match)


def _truth(source: Source, delimiter: str | None, columns: RecordColumns, ids: RecordIds) -> Table:
    named = columns.cluster is not None or columns.match_columns is not None
    return _pairs(source, delimiter, None if named else ids)


def _pairs(source: Source, delimiter: str | None, ids: Container[str] | None) -> Table:
    """A first line with the id of a record is a pair, not names; `ids` None: columns are asked for by name."""
    data, name = read_bytes(source)
    if ids is None or data.startswith(PARQUET_MAGIC):
        return _table(data, name, delimiter, None)
    first = _first_cells(data, name, delimiter)
    header = [f"column {i}" for i in range(1, len(first) + 1)] if any(cell in ids for cell in first) else None
    return _table(data, name, delimiter, header)


def _read(source: Source, delimiter: str | None, header: Sequence[str] | None) -> Table:
    data, name = read_bytes(source)
    return _table(data, name, delimiter, header)


def _table(data: bytes, name: str, delimiter: str | None, header: Sequence[str] | None) -> Table:
    if data.startswith(PARQUET_MAGIC):
        return parquet_table(data, name)
    text = _text(data, name)
    divider = _divider(text, delimiter)
    if header is None:
        return _stripped(csv_table(text, name, _Every(), divider), name, 0)
    if isinstance(header, str) or len(set(header)) < len(header) or not all(header):
        raise SettingError(f"header must be a list of distinct names of columns; got {header!r}")
    line = io.StringIO()
    csv.writer(line, delimiter=divider, lineterminator="\n").writerow(header)
    try:
        return _stripped(csv_table(line.getvalue().encode() + text, name, _Every(), divider), name, 1)
    except InputError as error:
        if error.line is None:
            raise
        told = str(error).removeprefix(f"{name}, line {error.line}: ").replace("in the first line", "in header")
        raise InputError(told, name, error.line - 1) from None


class _Every(Collection[str]):
    """All names there are: every column is kept as it is written."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _text(data: bytes, name: str) -> bytes:
    file = io.BytesIO(data)
    file.name = name  # type: ignore[attr-defined]
    return read_utf8(file)[0]


def _first_line(text: bytes) -> str:
    return text.lstrip(b"\r\n").partition(b"\n")[0].decode()


def _divider(text: bytes, given: str | None) -> str:
    if given is None:
        return next((one for one in DELIMITERS if one in _first_line(text)), ",")
    if len(given) != 1 or given in '"\r\n':
        raise SettingError(f"delimiter must be one character, and no quote or line end; got {given!r}")
    return given


def _first_cells(data: bytes, name: str, delimiter: str | None) -> list[str]:
    text = _text(data, name)
    cells = next(csv.reader([_first_line(text)], delimiter=_divider(text, delimiter)), [])
    return [cell.strip() for cell in cells]


def _stripped(table: Table, name: str, lines_added: int) -> Table:
    """The same table without blanks around names and cells."""
    columns: dict[str, Callable[[], Column]] = {}
    for title, make in table.columns.items():
        if title.strip() in columns:
            raise InputError(f"two columns are named {title.strip()!r}; rename one", name)
        if title.strip():
            columns[title.strip()] = _without_blanks(make)

    def line(row: int) -> int:
        return (table.fault("", row).line or 0) - lines_added

    return Table(name, columns, table.n_rows, path=name, line=line)


def _without_blanks(make: Callable[[], Column]) -> Callable[[], Column]:
    def column() -> Column:
        given = make()
        cells = [(cell or "").strip() for piece in strings(given) for cell in piece]
        return Column("text", cells, given.told)

    return column
