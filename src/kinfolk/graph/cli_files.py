"""The graph that a command names: tables, LINQS files or pages, as --format or by the names of the files."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinfolk.cli.options import given_options, given_settings, hushed, names_in
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.link_features import cut_as_before, is_aggregate
from kinfolk.graph.trained_columns import as_trained, check_kinds, column_of

if TYPE_CHECKING:
    from kinfolk.graph.graph import Graph


# -- columns by the features of a model -----------------------------------------------------------------


def all_as_trained(trained: Sequence[str], data: bytes, table: str, of_links: Sequence[str]) -> dict[str, Any]:
    """The settings that make a model's features of the table whose bytes are given; all of them have to be there, but
    for those that are made of columns of links."""
    columns = _names(data)
    if not columns:
        return {}
    trained = [feature for feature in trained if not is_aggregate(feature, of_links)]
    lacking = next((feature for feature in trained if column_of(feature, columns) is None), None)
    if lacking is not None:
        what = f"no column for the feature {lacking!r}, which the model was trained on"
        raise InputError(f"{what}; the columns are {', '.join(map(repr, columns))}", table)
    return as_trained(trained, columns)


def _names(data: bytes) -> dict[str, None]:
    """The columns of a table, in their order; none where reading it will tell what is wrong."""
    from kinfolk.core.table import DELIMITERS, PARQUET_MAGIC, long_cells

    if not data.startswith(PARQUET_MAGIC):
        text = io.StringIO(data.decode("utf-8-sig", "replace").lstrip(), newline="")
        first = text.readline()
        text.seek(0)
        rows = csv.reader(text, delimiter=next((one for one in DELIMITERS if one in first), ","))
        with long_cells():
            try:
                return dict.fromkeys(next(rows, []))
            except csv.Error:
                return {}
    try:
        from pyarrow import ArrowException, BufferReader, parquet
    except ImportError:
        return {}
    try:
        return dict.fromkeys(parquet.read_schema(BufferReader(data)).names)
    except (ArrowException, OSError):
        return {}


# -- cli files -------------------------------------------------------------------------------------


class Format(StrEnum):
    tables = "tables"
    linqs = "linqs"
    webkb = "webkb"


SUFFIXES = {
    ".csv": Format.tables, ".tsv": Format.tables, ".parquet": Format.tables, ".content": Format.linqs,
    ".cites": Format.linqs, ".tar": Format.webkb, ".tgz": Format.webkb,
}  # fmt: skip
# format -> the table options it has too
ALSO = {Format.linqs: ("--link", "--inverse", "--dangling"), Format.webkb: ()}

Nodes = Annotated[
    list[str],
    typer.Option(
        help="Table of nodes (CSV, TSV, Parquet); LINQS .content, may be repeated; or the folder or archive of WebKB."
    ),
]
Edges = Annotated[
    list[str] | None,
    typer.Option(
        help="Table of links, may be repeated, as NAME=FILE if links have names; or LINQS .cites, one for each --nodes."
    ),
]
GraphFormat = Annotated[Format | None, typer.Option(help="Default: as the names of the files tell.")]


@dataclass(frozen=True)
class TableOptions:
    """What the columns of tables are, and what becomes of their links. What training used is remembered."""

    label: Annotated[str | None, typer.Option(help="Tables: column of labels; an empty cell is unknown.")] = None
    id: Annotated[str | None, typer.Option(help="Tables: column of ids. Default: id.")] = None
    features: Annotated[
        str | None,
        typer.Option(help="Tables: columns of features, a,b,c. Default: all others; predicting, those trained on."),
    ] = None
    text: Annotated[
        str | None, typer.Option(help="Tables: columns of text, whose words are features. Predicting: as trained.")
    ] = None
    group: Annotated[str | None, typer.Option(help="Tables: column that names the graph or document of a node.")] = None
    missing: Annotated[
        str | None, typer.Option(help="Tables: features that are missing: refuse (default) or flag, a feature of it.")
    ] = None
    source: Annotated[str | None, typer.Option(help="Links: column of who looks. Default: source.")] = None
    target: Annotated[str | None, typer.Option(help="Links: column of who is looked at. Default: target.")] = None
    relation: Annotated[str | None, typer.Option(help="Links: column of their names.")] = None
    weight: Annotated[str | None, typer.Option(help="Links: column of their weights.")] = None
    link_features: Annotated[
        str | None, typer.Option(help="Links: columns of what else is told of them, e.g. amount,kind.")
    ] = None
    undirected: Annotated[bool | None, typer.Option("--undirected", help="Links: they go both ways.")] = None
    link: Annotated[
        str | None, typer.Option(help="Links: their name, if they have none. Default: links_to; LINQS: cites.")
    ] = None
    inverse: Annotated[
        list[str] | None,
        typer.Option(help="Links: name of the inverse, or NAME=INVERSE, may be repeated; none: no inverses."),
    ] = None
    dangling: Annotated[str | None, typer.Option(help="Links to no node: drop (default) or refuse.")] = None
    self_loops: Annotated[str | None, typer.Option(help="Links to oneself: drop (default) or refuse.")] = None
    duplicates: Annotated[str | None, typer.Option(help="Links given twice: merge (default) or refuse.")] = None


FEATURE_A_VALUE = "makes a feature of each"  # a warning for those who train: later there is nothing to choose
SETTINGS = tuple(one.name for one in fields(TableOptions))


def read_graph(
    nodes: Sequence[str],
    edges: Sequence[str] | None,
    format: Format | None,
    options: TableOptions,
    trained: Any = None,
    labels: bool = True,
) -> Graph:
    """The graph that the options name. `trained`: the model that is to label it, whose features are read, and whose
    options of training hold where no others are given; `labels`: whether they are needed."""
    import kinfolk

    files = [link_file(text) for text in edges or ()]
    form = format or _named_format(nodes, [file for _, file in files], options)
    _check_belongs(form, options)
    if trained is not None:
        options = _as_in_training(options, getattr(trained, "reading_", {}), form, files)
    if form is Format.tables:
        return _tables(nodes, files, options, trained, labels)
    if form is Format.webkb:
        if files:
            raise SettingError.saying("--edges is for tables and linqs; webkb finds the links in the pages")
        if len(nodes) != 1:
            raise SettingError.saying(f"--format webkb takes one --nodes, the folder or archive; got {len(nodes)}")
        return kinfolk.read_webkb(nodes[0])
    if not files:
        raise SettingError.saying("--format linqs needs --edges, the file of links (.cites), beside --nodes")
    if any(name is not None for name, _ in files):
        raise SettingError.saying("--edges NAME=FILE is for tables; the links of --format linqs are named by --link")
    names = {name: value for name, value in _settings(options).items() if name in ("link", "inverse", "dangling")}
    return kinfolk.read_linqs(list(nodes), [file for _, file in files], **names)


def table_settings(
    nodes: Sequence[str], edges: Sequence[str] | None, options: TableOptions, trained: Any = None, labels: bool = True
) -> tuple[str, Any, dict[str, Any]]:
    """The table of nodes, those of links, and arguments of `Graph.from_frames`, of files that an engine reads."""
    files = [link_file(text) for text in edges or ()]
    if trained is not None:
        options = _as_in_training(options, getattr(trained, "reading_", {}), Format.tables, files)
    settings = _checked_settings(nodes, files, options, labels)
    return nodes[0], _links(files, options), settings


def reading_of(options: TableOptions) -> dict[str, Any]:
    """What a model remembers of how its tables were read; its features it knows by name."""
    return {name: value for name, value in given_settings(options).items() if name not in ("features", "text")}


def _as_in_training(
    options: TableOptions, reading: Mapping[str, Any], form: Format, files: Sequence[tuple[str | None, str]]
) -> TableOptions:
    kept = {
        name: value
        for name, value in reading.items()
        if name in SETTINGS and getattr(options, name) in (None, [])
        if form is Format.tables or f"--{name}" in ALSO[form]
    }
    if any(name is not None for name, _ in files):
        kept.pop("link", None)  # the files name their links
    return replace(options, **kept)


def link_file(text: str) -> tuple[str | None, str]:
    """NAME=FILE or FILE of --edges; a file that is there is a file, whatever its name."""
    name, divider, file = text.partition("=")
    if not divider or os.path.exists(text) or not re.fullmatch(r"[^/\\]+", name) or not file:
        return None, text
    return name.strip(), file


def _named_format(nodes: Sequence[str], links: Sequence[str], options: TableOptions) -> Format:
    if nodes and os.path.isdir(nodes[0]):
        return Format.webkb
    for file in [*nodes, *links]:
        found = SUFFIXES.get(PurePath(file.removesuffix(".gz")).suffix.lower())
        if found is not None:
            return found
    if given_options(options):
        return Format.tables
    raise SettingError.saying(f"the name of {nodes[0]} does not tell what it is; say --format tables, linqs or webkb")


def _check_belongs(form: Format, options: TableOptions) -> None:
    if form is not Format.tables:
        strange = next((option for option in given_options(options) if option not in ALSO[form]), None)
        if strange is not None:
            raise SettingError.saying(f"{strange} is for tables; leave it out for --format {form}")


# -- tables -------------------------------------------------------------------------------------------


def _tables(
    nodes: Sequence[str],
    files: Sequence[tuple[str | None, str]],
    options: TableOptions,
    model: Any,
    labels: bool,
) -> Graph:
    from kinfolk.core.files import read_bytes
    from kinfolk.graph.files import read_tables

    trained: Sequence[str] | int | None = None if model is None else model.node_columns_
    settings = _checked_settings(nodes, files, options, labels)
    if "link_features" in settings:
        settings["link_features"] = cut_as_before(settings["link_features"], getattr(model, "reading_", {}))
    links = _links(files, options)
    data, name = read_bytes(nodes[0])
    by_name = trained is not None and not isinstance(trained, int) and not {"features", "text"} & settings.keys()
    if by_name:
        settings = {**all_as_trained(trained, data, name, settings.get("link_features", ())), **settings}  # type: ignore[arg-type]
    file = io.BytesIO(data)
    file.name = name
    with hushed(*([] if trained is None else [FEATURE_A_VALUE])):
        graph = read_tables(file, links, **settings)
    if by_name:
        check_kinds(trained, graph.feature_names or (), name)  # type: ignore[arg-type]
    return graph


def _checked_settings(
    nodes: Sequence[str], files: Sequence[tuple[str | None, str]], options: TableOptions, labels: bool
) -> dict[str, Any]:
    if len(nodes) != 1:
        raise SettingError.saying(f"--format tables takes one --nodes; got {len(nodes)}: join the tables, with --group")
    if not files:
        raise SettingError.saying("--format tables needs --edges, the table of links, beside --nodes")
    if labels and options.label is None:
        raise SettingError.saying("tables need --label, the column of labels")
    settings = _settings(options)
    if not labels:
        settings.pop("label", None)  # the table need not have it
    return settings


def _settings(options: TableOptions) -> dict[str, Any]:
    """The arguments of `read_tables` that were given."""
    settings = given_settings(options)
    for name in ("features", "text", "link_features"):
        if name in settings:
            settings[name] = names_in(settings[name])
    if settings.pop("undirected", False):
        settings["directed"] = False
    if "inverse" in settings:
        settings["inverse"] = _inverse(settings["inverse"])
    return settings


def _inverse(given: list[str]) -> str | dict[str, str] | None:
    pairs = [text.partition("=") for text in given]
    if all(divider for _, divider, _ in pairs):
        return {name.strip(): inverse.strip() for name, _, inverse in pairs}
    if len(given) > 1:
        raise SettingError.saying(f"--inverse may be repeated as NAME=INVERSE alone; got {' and '.join(given)}")
    return None if given[0] == "none" else given[0]


def _links(files: Sequence[tuple[str | None, str]], options: TableOptions) -> list[str] | Mapping[str, str]:
    """Files, or name -> file."""
    names = [name for name, _ in files if name is not None]
    if not names:
        return [file for _, file in files]
    if len(names) < len(files):
        raise SettingError.saying(f"give every --edges a name, as in {names[0]}=FILE, or none of them")
    if options.link is not None:
        raise SettingError.saying(f"--link names links without names, and these are named by --edges {names[0]}=FILE")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two --edges are named {twice!r}; put the links into one table, or name them apart")
    return {name: file for name, file in files if name is not None}
