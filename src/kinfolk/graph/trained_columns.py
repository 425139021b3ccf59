"""Columns of a table of nodes by the features a model was trained on, so that nobody has to name them again; and what
differs from those: columns that are missing, of another kind, of another width, and values that are new.

A feature tells its column: "age" is a number in column age, "colour=red" a value of colour, "title:word" a word in the
text of title, "vector[0]" a place in the lists of vector, and "age is missing" that nothing was there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.table import listed
from kinfolk.errors import DataWarning, InputError, warn
from kinfolk.graph.node_features import NodeColumns

IS_MISSING = " is missing"
PLACE = re.compile(r"(.*)\[\d+\]", re.DOTALL)


def column_of(feature: str, columns: Collection[str]) -> tuple[str, str] | None:
    """The column of a feature, and which setting names it, "features" or "text"; None: there is none."""
    if feature in columns:
        return feature, "features"
    present = feature.removesuffix(IS_MISSING)
    if present in columns:
        return present, "features"
    place = PLACE.fullmatch(present)
    if place is not None and place[1] in columns:
        return place[1], "features"
    for i in range(len(feature) - 1, -1, -1):  # of a column 'a' and a column 'a=b' the longer one
        if feature[i] in "=:" and feature[:i] in columns:
            return feature[:i], "text" if feature[i] == ":" else "features"
    return None


def as_trained(trained: Sequence[str], columns: Collection[str]) -> dict[str, Any]:
    """The settings features, text and missing that make a model's features of a table with these columns; features
    that have no column are left out."""
    found = dict.fromkeys(place for feature in trained if (place := column_of(feature, columns)) is not None)
    flagged = any(one not in columns and one.endswith(IS_MISSING) and column_of(one, columns) for one in trained)
    parts = {part: [column for column, one in found if one == part] for part in ("features", "text")}
    return {**parts, **({"missing": "flag"} if flagged else {})}


def columns_as_trained(given: NodeColumns, trained: Sequence[str] | int, columns: Sequence[str]) -> NodeColumns:
    """What the columns of a table are to a trained model: where features or text are not named, those it knows."""
    if isinstance(trained, int) or (given.features is not None and given.text is not None):
        return given
    named = {given.id, given.label, given.group, *listed(given.features), *listed(given.text)}
    found = as_trained(trained, [name for name in columns if name not in named])
    settings = {part: found[part] for part in ("features", "text") if getattr(given, part) is None}
    flagged = {"missing": "flag"} if as_trained(trained, columns).get("missing") else {}
    return given._replace(**settings, **flagged)


# -- what is not as it was in training -------------------------------------------------------------------


def _list_widths(names: Sequence[str]) -> dict[str, int]:
    """How many places the features of each list have, "vector[0]", "vector[1]", ..."""
    places = (name[:-1].rpartition("[") for name in names if name.endswith("]"))
    return dict(Counter(before for before, _, number in places if number.isdecimal()))


def check_widths(columns: Sequence[str], given: Sequence[str]) -> None:
    """Refuse lists of another width than a model knows: embeddings of another kind, whatever the name."""
    here = _list_widths(given)
    wrong = next((one for one in _list_widths(columns).items() if here.get(one[0], one[1]) != one[1]), None)
    if wrong is not None:
        name, width = wrong
        raise InputError(
            f"the lists of {name!r} have {here[name]} numbers, and had {width} in training; make them as they were "
            "made then, or train again"
        )


def warn_of_lacking(columns: Sequence[str], found: NDArray[np.int32], given: Sequence[str]) -> None:
    """A word or a category that is not there is nothing odd; a number that is missing in every node is."""
    if len(columns) and not len(found):
        raise InputError(
            f"none of the model's {len(columns)} features is here: it knows {columns[0]!r}, this graph has "
            f"{', '.join(map(repr, given[:3])) or 'none'}; build both graphs from the same columns"
        )
    there = {*found.tolist()}
    whole = (name for i, name in enumerate(columns) if i not in there and not {*name} & {"=", ":"})
    lacking = [name for name in whole if not name.endswith(" is missing")]  # where nothing is, no such column is made
    if lacking:
        named = ", ".join(map(repr, lacking[:5])) + ", ..." * (len(lacking) > 5)
        warn(
            f"features that the model was trained on are not here and count as 0 in every node: {named}; add these "
            "columns",
            DataWarning,
        )


def warn_by_position(columns: Sequence[str] | int, width: int) -> None:
    """Of features without names, for a model that was trained on names."""
    if not isinstance(columns, int | np.integer) and width:
        named = ", ".join(map(repr, columns[:3])) + ", ..." * (width > 3)
        warn(
            f"the model was trained on named features ({named}) and these have no names: columns are taken by "
            "position. Build the graph with `feature_names=...` to have them matched",
            DataWarning,
        )


def check_kinds(columns: Sequence[str], given: Sequence[str], table: str | None = None) -> None:
    """Refuse a column that held numbers in training and holds strings now, or the other way round: none of its
    features would be found."""
    before, now = {*columns}, {*given}
    numbers, strings = before - now, now - before
    for name in given:
        column, sign, _ = name.partition("=")
        if sign and column in numbers:
            raise InputError(f"column {column!r} held numbers in training, and holds strings here; correct it", table)
    for name in columns:
        column, sign, _ = name.partition("=")
        if sign and column in strings and column + IS_MISSING not in now:
            raise InputError(f"column {column!r} held strings in training, and holds numbers here; correct it", table)


def new_values(columns: Sequence[str], given: Sequence[str]) -> dict[str, list[int]]:
    """Of columns of strings that the model knows, the places of values that it does not know, "colour=red"."""
    before, found = {*columns}, dict[str, list[int]]()
    held = {column for column, sign, _ in (name.partition("=") for name in columns) if sign}
    for i, name in enumerate(given):
        column, sign, _ = name.partition("=")
        if sign and column in held and name not in before:
            found.setdefault(column, []).append(i)
    return found


def warn_of_new_values(column: str, values: Sequence[str], n: int, of: int) -> None:
    """Of n nodes that have one of these values, "colour=red", or just "red"."""
    shown = [value.removeprefix(f"{column}=") for value in values]
    named = ", ".join(map(repr, shown[:5])) + ", ..." * (len(shown) > 5)
    warn(
        f"{n:,} of {of:,} nodes have a value of {column!r} that training never saw ({named}), which counts as none: "
        "write values as they were written then, or train again",
        DataWarning,
    )
