"""Columns of a table of nodes by the features a model was trained on, so that nobody has to name them again.

A feature tells its column: "age" is a number in column age, "colour=red" a value of colour, "title:word" a word in the
text of title, and "age is missing" that nothing was there.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from kinfolk.errors import InputError

if TYPE_CHECKING:
    from kinfolk.graph.graph import Graph

IS_MISSING = " is missing"


def as_trained(trained: Sequence[str], data: bytes, table: str) -> dict[str, Any]:
    """The settings features, text and missing that make a model's features of the table whose bytes are given."""
    columns = _names(data)
    if not columns:
        return {}
    found: dict[tuple[str, str], None] = {}
    flagged = False
    for feature in trained:
        place = _column(feature, columns)
        if place is None:
            what = f"no column for the feature {feature!r}, which the model was trained on"
            raise InputError(f"{what}; the columns are {', '.join(map(repr, columns))}", table)
        found[place] = None
        flagged |= feature not in columns and feature.endswith(IS_MISSING)
    parts = {part: [column for column, one in found if one == part] for part in ("features", "text")}
    return {**parts, **({"missing": "flag"} if flagged else {})}


def _column(feature: str, columns: Collection[str]) -> tuple[str, str] | None:
    """The column of a feature, and which setting names it."""
    if feature in columns:
        return feature, "features"
    if feature.endswith(IS_MISSING) and feature.removesuffix(IS_MISSING) in columns:
        return feature.removesuffix(IS_MISSING), "features"
    for i in range(len(feature) - 1, -1, -1):  # of a column 'a' and a column 'a=b' the longer one
        if feature[i] in "=:" and feature[:i] in columns:
            return feature[:i], "text" if feature[i] == ":" else "features"
    return None


def check_kinds(graph: Graph, trained: Sequence[str], columns: Sequence[str], table: str) -> None:
    """Refuse a column that held numbers in training and holds strings now, or the other way round: none of its
    features would be found."""
    before, now = set(trained), set(graph.feature_names or ())
    for column in columns:
        if column in before and column not in now:
            raise InputError(f"column {column!r} held numbers in training, and holds strings here; correct it", table)
        if column in now and column not in before and column + IS_MISSING not in now:
            raise InputError(f"column {column!r} held strings in training, and holds numbers here; correct it", table)


def _names(data: bytes) -> dict[str, None]:
    """The columns of a table, in their order; none where reading it will tell what is wrong."""
    from kinfolk.core.csvfiles import DELIMITERS
    from kinfolk.graph.files import PARQUET_MAGIC

    if not data.startswith(PARQUET_MAGIC):
        text = io.StringIO(data.decode("utf-8-sig", "replace").lstrip(), newline="")
        first = text.readline()
        text.seek(0)
        rows = csv.reader(text, delimiter=next((one for one in DELIMITERS if one in first), ","))
        return dict.fromkeys(next(rows, []))
    try:
        from pyarrow import ArrowException, BufferReader, parquet
    except ImportError:
        return {}
    try:
        return dict.fromkeys(parquet.read_schema(BufferReader(data)).names)
    except (ArrowException, OSError):
        return {}
