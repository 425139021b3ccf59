"""Parquet and CSV files as tables of Arrow, in memory: what a glob names is one table; what is written is whole."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

from kinfolk.core.engine import check_columns
from kinfolk.core.files import replacing
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
    kinds = [{one.name: str(one.type) for one in table.schema} for table in tables]
    for name, own in zip(found[1:], kinds[1:], strict=True):
        check_columns(name, own, found[0], kinds[0])
    return pyarrow.concat_tables([table.select(list(kinds[0])) for table in tables])


def _read_file(name: str) -> Any:
    from pyarrow import csv, string

    ending = Path(name).suffix.lower()
    if ending in (".parquet", ".pq"):
        return sound_parquet(name, os.path.getsize(name), name)
    if ending not in (".csv", ".tsv"):
        raise InputError(f"{name!r}: expected .parquet or .csv files")
    parsing = csv.ParseOptions(delimiter="\t" if ending == ".tsv" else ",", newlines_in_values=True)
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
