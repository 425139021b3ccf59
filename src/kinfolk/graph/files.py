"""Graphs in tables on disk: CSV or TSV, packed or not, by the standard library, and Parquet by pyarrow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kinfolk.core.files import Source, checked_utf8, read_bytes
from kinfolk.core.table import PARQUET_MAGIC, Table, csv_table, listed, parquet_table
from kinfolk.errors import SettingError
from kinfolk.graph.graph import Graph
from kinfolk.graph.sources import INVERSE, LINK, LinkColumns, LinkRules, NodeColumns, graph_parts


def read_tables(
    nodes: Source,
    edges: Source | Sequence[Source] | Mapping[str, Source],
    *,
    id: str | None = "id",
    label: str | None = None,
    features: str | Sequence[str] | None = None,
    text: str | Sequence[str] | None = None,
    group: str | None = None,
    missing: str = "refuse",
    source: str = "source",
    target: str = "target",
    relation: str | None = None,
    weight: str | None = None,
    directed: bool | None = True,
    link: str = LINK,
    inverse: str | Mapping[str, str] | None = INVERSE,
    dangling: str = "drop",
    self_loops: str = "drop",
    duplicates: str = "merge",
    delimiter: str | None = None,
) -> Graph:
    """The graph in a file of nodes and one or more files of links, each a CSV or Parquet file with named columns.

    nodes      path, "-" for standard input or an open file; gzip is unpacked
    edges      the same; or a list of files; or name -> file, each with the links of one name
    delimiter  what divides the cells of CSV files; None: tab, comma or semicolon, as the first line shows

    Everything else is as in `Graph.from_frames`. In CSV files an empty cell is missing, ids and labels are as they are
    written, and a column of numbers or of true and false is known by its cells. Parquet files need pyarrow:
    pip install 'kinfolk[tables]'.
    """
    rules = LinkRules(dangling, self_loops, duplicates, directed, link, inverse)
    columns = NodeColumns(id, label, features, text, group, missing)
    ends = LinkColumns(source, target, relation, weight)
    files = _named(edges)
    if sum(isinstance(file, str) and file == "-" for file in (nodes, *(file for _, file in files))) > 1:
        raise SettingError.saying("only one of the files can be standard input; name the others")
    names = {name for name in (id, label, group, *listed(text)) if name is not None}
    node_table = _read(nodes, names, delimiter)
    ids = {name for name in (source, target, relation) if name is not None}
    tables = ((name, _read(file, ids, delimiter)) for name, file in files)
    return Graph(**graph_parts(node_table, tables, columns, ends, rules))


def _named(edges: Any) -> list[tuple[str | None, Source]]:
    if isinstance(edges, Mapping):
        return list(edges.items())
    return [(None, file) for file in (edges if isinstance(edges, list | tuple) else [edges])]


def _read(source: Source, as_written: Collection[str], delimiter: str | None) -> Table:
    data, name = read_bytes(source)
    if data.startswith(PARQUET_MAGIC):
        return parquet_table(data, name)
    return csv_table(checked_utf8(data, name), name, as_written, delimiter)
