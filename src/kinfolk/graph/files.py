"""Graphs in tables on disk: CSV or TSV, packed or not, by the standard library, and Parquet by pyarrow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Unpack

from kinfolk.core.files import Source, about, checked_utf8, read_bytes
from kinfolk.core.table import PARQUET_MAGIC, Table, csv_table, listed, parquet_table
from kinfolk.errors import SettingError
from kinfolk.graph.graph import Graph
from kinfolk.graph.table_graphs import GraphColumns, TableParts, graph_parts


def read_tables(
    nodes: Source,
    edges: Source | Sequence[Source] | Mapping[str, Source],
    *,
    delimiter: str | None = None,
    **columns: Unpack[GraphColumns],
) -> Graph:
    """The graph in a file of nodes and one or more files of links, each a CSV or Parquet file with named columns.

    nodes      path, "-" for standard input or an open file; gzip is unpacked
    edges      the same; or a list of files; or name -> file, each with the links of one name
    delimiter  what divides the cells of CSV files; None: tab, comma or semicolon, as the first line shows

    columns    everything else, as in `Graph.from_frames`: id=, label=, features=, text=, source=, ...

    In CSV files an empty cell is missing, ids and labels are as they are
    written, and a column of numbers or of true and false is known by its cells. Parquet files need pyarrow:
    pip install 'kinfolk[tables]'.
    """
    parts = TableParts.of(columns)
    files = _named(edges)
    if sum(isinstance(file, str) and file == "-" for file in (nodes, *(file for _, file in files))) > 1:
        raise SettingError.saying("only one of the files can be standard input; name the others")
    own, ends = parts.columns, parts.ends
    names = {name for name in (own.id, own.label, own.group, *listed(own.text)) if name is not None}
    node_table = _read(nodes, names, delimiter)
    ids = {name for name in (ends.source, ends.target, ends.relation) if name is not None}
    tables = ((name, _read(file, ids, delimiter)) for name, file in files)
    with about(node_table.name):
        return Graph(**graph_parts(node_table, tables, *parts))


def _named(edges: Any) -> list[tuple[str | None, Source]]:
    if isinstance(edges, Mapping):
        return list(edges.items())
    return [(None, file) for file in (edges if isinstance(edges, list | tuple) else [edges])]


def _read(source: Source, as_written: Collection[str], delimiter: str | None) -> Table:
    data, name = read_bytes(source)
    if data.startswith(PARQUET_MAGIC):
        return parquet_table(data, name)
    return csv_table(checked_utf8(data, name), name, as_written, delimiter)
