"""Columns of a table of nodes by the features a model was trained on, so that nobody has to name them again.

A feature tells its column: "age" is a number in column age, "colour=red" a value of colour, "title:word" a word in the
text of title, "vector[0]" a place in the lists of vector, and "age is missing" that nothing was there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from kinfolk.core.table import listed
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
