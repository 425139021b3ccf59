"""Citation networks as LINQS gives them out (Cora, CiteSeer, WebKB): one file of nodes, one of links.

    content  <id> TAB <feature> TAB ... TAB <class>, one node a line; class ? is unknown
    cites    <cited> <citing>, tab or blanks between them; the link goes from right to left

A line of zeros and ones is read as bytes, any other cell by cell; either may be packed with gzip.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.files import Source, read_utf8
from kinfolk.errors import InputError
from kinfolk.graph.graph import Graph
from kinfolk.graph.links import LinkCollector, LinkRows, LinkRules

log = logging.getLogger("kinfolk")

UNKNOWN = b"?"
TAB, ZERO, ONE = b"\t"[0], b"0"[0], b"1"[0]

Cells = tuple[NDArray[np.int64], NDArray[np.float32]]  # columns that are not zero, and what is in them


class _Content(NamedTuple):
    name: str
    ids: list[str]
    lines: list[int]
    labels: list[str | None]
    cells: list[Cells]
    width: int


def read_linqs(
    content: Source | Sequence[Source],
    cites: Source | Sequence[Source],
    link: str = "cites",
    inverse: str | None = "cited_by",
    *,
    dangling: str = "drop",
) -> Graph:
    """Read a graph; of several graphs (the schools of WebKB) give two lists of files in the same order.

    link, inverse  names of the relations: row i of `link` lists whom i cites, row i of `inverse` by whom it is cited;
                   inverse=None leaves that out
    dangling       links that have an end not in the content of their graph: "drop" or "refuse"

    Each content file is a group, named by the file without its suffixes. Dropped links, links from a node to itself
    and repeated ones among them, are counted in one warning. Ids are strings; features have no names.
    """
    rules = LinkRules(dangling=dangling, link=link, inverse=inverse)
    node_files, link_files = _listed(content), _listed(cites)
    if len(node_files) != len(link_files) or not node_files:
        got = f"{len(node_files)} of nodes and {len(link_files)} of links"
        raise InputError(f"expected a file of links for each file of nodes, in the same order; got {got}")
    tables = [_read_content(file) for file in node_files]
    _check_together(tables)
    links, start = LinkCollector(sum(len(table.ids) for table in tables), rules), 0
    for table, file in zip(tables, link_files, strict=True):
        links.add(_read_links(file, table, start), table.name)
        start += len(table.ids)
    return Graph(
        _rows(tables),
        [label for table in tables for label in table.labels],
        links.relations("the content"),
        ids=[key for table in tables for key in table.ids],
        groups=np.repeat(np.arange(len(tables)), [len(table.ids) for table in tables]),
        feature_names=None if tables[0].width else (),
        group_names=[_stem(table.name) for table in tables],
    )


def _listed(files: Source | Sequence[Source]) -> list[Source]:
    return list(files) if isinstance(files, list | tuple) else [files]  # type: ignore[list-item]


def _stem(name: str) -> str:
    return PurePath(name.removesuffix(".gz")).stem or name


# -- nodes --------------------------------------------------------------------------------------------


def _read_content(source: Source) -> _Content:
    data, name = read_utf8(source)
    table, width = _Content(name, [], [], [], [], 0), -1
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        key, _, rest = line.rstrip(b"\r ").partition(b"\t")
        cells, _, label = rest.rpartition(b"\t")
        if width < 0:
            width = rest.count(b"\t")
        row = _binary_row(cells, width)
        if row is None:
            row = _number_row(line, cells, rest, width, table, number)
        key, label = key.strip(), label.strip()
        if not key or not label:
            what = "an id before the first tab" if not key else "a class after the last tab (? if it is not known)"
            raise InputError(f"expected {what}, got an empty cell; fill it", name, number)
        table.ids.append(key.decode())
        table.lines.append(number)
        table.labels.append(None if label == UNKNOWN else label.decode())
        table.cells.append(row)
    if not table.ids:
        raise InputError("no nodes: expected a line <id> TAB features TAB <class> for each, found none", name)
    return table._replace(width=width)


def _binary_row(cells: bytes, width: int) -> Cells | None:
    """A line of zeros and ones with a tab between each two; None if it is anything else."""
    if len(cells) != 2 * width - 1:
        return None
    raw = np.frombuffer(cells, np.uint8)
    digits = raw[::2]
    if not ((digits == ZERO) | (digits == ONE)).all() or not (raw[1::2] == TAB).all():
        return None
    columns = np.flatnonzero(digits == ONE)
    return columns, np.ones(len(columns), np.float32)


def _number_row(line: bytes, cells: bytes, rest: bytes, width: int, table: _Content, number: int) -> Cells:
    """Any numbers; what is wrong with the line is found here."""
    if b"\t" not in line or rest.count(b"\t") != width:
        wanted = "expected columns <id>, features, <class> with tabs between them"
        if table.lines:
            wanted = f"expected {width + 2} columns (id, {width} features, class) as in line {table.lines[0]}"
        got = line.rstrip(b"\r").count(b"\t") + 1
        raise InputError(f"{wanted}, got {got}; complete the line, with a tab between columns", table.name, number)
    values = np.zeros(width, np.float32)
    listed = cells.split(b"\t") if width else []
    try:
        with np.errstate(over="ignore"):
            values[:] = np.array(listed, np.bytes_).astype(np.float64)
    except ValueError:
        values[:] = [_number(cell) for cell in listed]
    strange = np.flatnonzero(~np.isfinite(values))
    if len(strange):
        what = f"got {listed[strange[0]].decode()!r} in column {strange[0] + 2}"
        raise InputError(f"expected a number as feature, {what}; correct it", table.name, number)
    columns = np.flatnonzero(values)
    return columns, values[columns]


def _number(cell: bytes) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan


def _check_together(tables: Sequence[_Content]) -> None:
    """Ids and names of groups are distinct over all files, and the features are as many."""
    seen: dict[str, tuple[str, int]] = {}
    names: dict[str, str] = {}
    for table in tables:
        for key, line in zip(table.ids, table.lines, strict=True):
            name, first = seen.setdefault(key, (table.name, line))
            if (name, first) != (table.name, line):
                before = f"line {first}" if name == table.name else f"{name}, line {first}"
                raise InputError(
                    f"ids must be distinct; {key!r} was in {before} already: keep one of them", table.name, line
                )
        if table.width != tables[0].width:
            wanted = f"expected {tables[0].width} features as in {tables[0].name}, got {table.width}"
            raise InputError(f"{wanted}; graphs read together need the same features", table.name, table.lines[0])
        if _stem(table.name) in names:
            other = names[_stem(table.name)]
            raise InputError(f"the group would be named as that of {other} is; rename one of the files", table.name)
        names[_stem(table.name)] = table.name


def _rows(tables: Sequence[_Content]) -> sparse.csr_array:
    cells = [row for table in tables for row in table.cells]
    starts = np.cumsum([0, *(len(columns) for columns, _ in cells)])
    columns, values = (np.concatenate(parts) for parts in zip(*cells, strict=True))
    return sparse.csr_array((values, columns.astype(np.int32), starts), shape=(len(cells), tables[0].width))


# -- links --------------------------------------------------------------------------------------------


def _read_links(source: Source, table: _Content, start: int) -> LinkRows:
    """Links between nodes of one content file, whose nodes are numbered from `start`."""
    data, name = read_utf8(source)
    text = data.split(b"\n")
    rows = [line.split() for line in text]
    widths = np.fromiter(map(len, rows), np.int64, len(rows))
    for i in np.flatnonzero((widths != 0) & (widths != 2)):
        rows[i] = [cell.strip() for cell in text[i].strip().split(b"\t")]  # an id may hold blanks where tabs divide
        if len(rows[i]) != 2 or not all(rows[i]):
            wanted = "expected two ids, <cited> <citing>, with a tab or blanks between them"
            raise InputError(f"{wanted}, got {widths[i]}; correct the line", name, int(i) + 1)
    lines = np.flatnonzero(widths)
    if not len(lines):
        log.warning("%s has no links", name)
    number = {key.encode(): i for i, key in enumerate(table.ids, start)}
    ends = np.fromiter((number.get(cell, -1) for row in rows for cell in row), np.int64, 2 * len(lines)).reshape(-1, 2)

    def fault(message: str, row: int | None) -> InputError:
        return InputError(message, name, None if row is None else int(lines[row]) + 1)

    def end(row: int) -> str:
        cited, citing = rows[lines[row]]
        return str(citing if cited in number else cited, "utf-8")

    place = lambda row: f"{name}, line {lines[row] + 1}"  # noqa: E731
    return LinkRows(ends[:, 1], ends[:, 0], fault, place, end, lambda: "do the files belong together?")
