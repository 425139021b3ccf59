"""Parquet and CSV files as tables of Arrow, in memory: what a glob names is one table; what is written is whole."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kinfolk.core.engine import check_files
from kinfolk.core.files import is_path, refuse_empty, replacing
from kinfolk.core.table import sound_parquet
from kinfolk.errors import InputError

SPARK_COLUMNS = b"org.apache.spark.sql.parquet.row.metadata"


def read_files(path: str) -> Any:
    """The Parquet or CSV files that a path or a glob names, in order of their names, as one table of Arrow. Every
    column of CSV is of texts, and an empty cell is missing, as engines read them."""
    pyarrow = _pyarrow(path)
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise InputError(f"there is no file {path!r}; give a path, or a glob such as 'people/*.parquet'")
    tables = []
    for name in found:
        try:
            tables.append(_read_file(name))
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{name}: cannot be read ({' '.join(str(error).split())})") from None
    return one_table(tables, found)


def globbed(source: Any) -> list[str]:
    """The files that a glob names, in order of their names; none where the source is no glob, or there is a file of
    that very name."""
    if not is_path(source) or not glob.has_magic(os.fspath(source)) or os.path.exists(source):
        return []
    return sorted(glob.glob(os.fspath(source), recursive=True))


def one_table(tables: Sequence[Any], files: Sequence[str]) -> Any:
    """Tables of Arrow, of files with the same columns, as one. A column without any value has the type that it has in
    the others."""
    import pyarrow

    kinds = [{one.name: one.type for one in table.schema} for table in tables]
    check_files(files, [{name: str(type_) for name, type_ in own.items()} for own in kinds])
    typed = {name: type_ for own in kinds for name, type_ in own.items() if not pyarrow.types.is_null(type_)}
    alike = pyarrow.schema([(name, typed.get(name, type_)) for name, type_ in kinds[0].items()])
    chosen = (table.select(alike.names) for table in tables)
    return pyarrow.concat_tables([one if one.schema.equals(alike) else one.cast(alike) for one in chosen])


def _read_file(name: str) -> Any:
    from pyarrow import csv, string

    ending = Path(name).suffix.lower()
    if ending in (".parquet", ".pq"):
        return sound_parquet(name, os.path.getsize(name), name)
    if ending not in (".csv", ".tsv"):
        raise InputError(f"{name!r}: expected .parquet or .csv files")
    parsing = csv.ParseOptions(delimiter="\t" if ending == ".tsv" else ",", newlines_in_values=True)
    refuse_empty(name)
    with csv.open_csv(name, parse_options=parsing) as opening:
        columns = opening.schema.names
    texts = csv.ConvertOptions(
        column_types=dict.fromkeys(columns, string()), null_values=[""], strings_can_be_null=True
    )
    return csv.read_csv(name, parse_options=parsing, convert_options=texts)


def write_parquet(table: Any, path: str | os.PathLike[str]) -> None:
    """Write a table of Arrow: all of it, or the path is as it was."""
    pyarrow, target = _pyarrow(os.fspath(path)), Path(path)
    from pyarrow import parquet

    # what Spark notes of the columns of a file it wrote, and believes: columns that are added later are not in it
    noted = {name: value for name, value in (table.schema.metadata or {}).items() if name != SPARK_COLUMNS}
    try:
        with replacing(target) as (_, stream):
            parquet.write_table(table.replace_schema_metadata(noted), stream)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{os.fspath(path)!r} cannot be written: {' '.join(str(error).split())}") from None


def _pyarrow(path: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        remedy = "pip install 'kinfolk[tables]'"
        raise InputError(f"{path!r} needs pyarrow, which is not installed: {remedy}") from None
    return pyarrow
