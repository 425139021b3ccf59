"""Records in a user's table, out in the same table with the cluster of each and how surely it belongs there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.frames import OpenedFrame, Values, opened
from kinfolk.core.table import frame_table
from kinfolk.errors import InputError, SettingError
from kinfolk.inference.clustering import together
from kinfolk.linking.blocking import as_rules, within
from kinfolk.linking.certain import as_certain
from kinfolk.linking.clusterers import ConstraintsError
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.records import records_from_frames

Array = NDArray[Any]
NAMED_BY = ("number", "id")


def membership(items: Mentions, probability: Array, clusters: Array) -> NDArray[np.float64]:
    """How surely each item belongs to its cluster, float64 (n,).

    With others in its cluster: the mean probability of its compared pairs with them (1 where none was compared, as it
    is there by a must-link). Alone: 1 minus the highest probability of any of its pairs (1 without pairs).
    """
    n = items.n_items
    inside = together(clusters, items.left, items.right)
    total, count, best = np.zeros(n), np.zeros(n), np.zeros(n)
    for side in (items.left, items.right):
        own = side[inside]
        total += np.bincount(own, probability[inside], minlength=n)
        count += np.bincount(own, minlength=n)
        np.maximum.at(best, side, probability)
    alone = np.bincount(clusters, minlength=1)[clusters] == 1 if n else np.empty(0, bool)
    return np.where(alone, 1.0 - best, np.where(count > 0, total / np.maximum(count, 1), 1.0))


def cluster_values(items: Mentions, clusters: Array, named_by: str = "number", ids: Array | None = None) -> Values:
    """What a column says of each item's cluster: a number, from 0 in order of first records; or its first item's id,
    which `ids` are where they are numbers."""
    check_named_by(named_by)
    first, numbers = np.unique(clusters, return_index=True, return_inverse=True)[1:]
    if named_by == "number":
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return rank[numbers]
    return [items.name(int(first[k])) for k in numbers] if ids is None else ids[first][numbers]


def whole_ids(items: Mentions, given: Sequence[OpenedFrame], id: str | None) -> NDArray[np.int64] | None:
    """The ids of all items where they are whole numbers by their type; None: they are texts, or two tables share some,
    so that the names of items are "first:1" and "second:1"."""
    if id is None:
        return None
    columns = [frame_table(one.readable, one.name).column(id, "id") for one in given]
    if any(column.kind != "whole" for column in columns):
        return None
    numbers = [int(one) for column in columns for one in column.values]
    fit = all(abs(one) < 1 << 63 for one in numbers)
    return np.array(numbers, np.int64) if fit and list(map(str, numbers)) == list(items.names or ()) else None


def check_named_by(named_by: str) -> None:
    if named_by not in NAMED_BY:
        raise SettingError("named_by", named_by, "'number' or 'id' (of the first record of a cluster)")


def fields_of(features: Sequence[Any], rules: Sequence[Any] = ()) -> list[str]:
    """The columns that comparisons and blocking rules look at, as far as they say so."""
    return list(dict.fromkeys(field for one in _fields_each(features, rules) for field in one))


def _fields_each(features: Sequence[Any], rules: Sequence[Any]) -> list[Sequence[str]]:
    inner = [getattr(feature, "comparison", feature) for feature in features]  # BestOf has one within
    asked = as_rules(list(rules)) if rules else []
    return [*(getattr(feature, "fields", ()) for feature in inner), *(rule.columns for rule in asked)]


def needed_fields(linker: Any) -> list[str] | None:
    """The columns a trained linker looks at; None: one of its comparisons or rules does not say, so all may be."""
    rules = [] if linker.blocking is None else as_rules(linker.blocking)
    features = [*linker.pair_set_.features, *as_certain(linker.rules)]
    return fields_of(features, rules) if all(_fields_each(features, rules)) else None


def records_for(linker: Any, frame: Any, other: Any, id: str | None) -> Mentions:
    """The records of one frame or two, with the columns that the linker needs."""
    needed = needed_fields(linker)
    try:
        return records_from_frames(frame, other, id=id, fields=needed)
    except InputError as error:
        lacking = next((name for name in needed or () if f"no column {name!r}" in str(error)), None)
        if lacking is None:
            raise
        remedy = "the model compares by it: add the column, with missing values if need be"
        raise InputError(f"{str(error).partition(';')[0]}; {remedy}") from None


@dataclass(frozen=True)
class Answer:
    """How clusters are given back: names of the new columns, what names clusters, and the Parquet file to write."""

    cluster: str
    probability: str
    named_by: str
    into: Any = None


def cluster_frame(
    linker: Any,
    frame: Any,
    other: Any,
    id: str | None,
    answer: Answer,
    pairs: bool,
    least: float,
    must_link: Any,
    cannot_link: Any,
    limit: int | None,
) -> Any:
    """What `Linker.cluster_frame` answers."""
    check_named_by(answer.named_by)
    if linker.engine is not None and not linker.engine.in_memory:
        from kinfolk.linking.in_engine import cluster_frame_in

        asked = {"pairs": pairs, "must_link": must_link is not None, "cannot_link": cannot_link is not None}
        beyond = next((name for name, one in asked.items() if one), None)
        if beyond is not None:
            raise SettingError.saying(f"`{beyond}` cannot be had from an engine; leave it out, or the engine")
        return cluster_frame_in(linker.engine, linker, frame, other, id, answer, limit)
    named, columns = answer.named_by, (answer.cluster, answer.probability)
    refuse_files((frame, other), answer.into)
    if not 0 <= least <= 1:
        raise SettingError("least", least, "a probability from 0 to 1")
    names = ("records",) if other is None else ("first", "second")
    given = [opened(one, name) for one, name in zip((frame, other), names, strict=False)]
    for one in given:
        one.check_free(cluster=columns[0], probability=columns[1])
    items = records_for(linker, given[0].readable, None if other is None else given[1].readable, id)
    try:
        paired, probability, clusters = linker.linked(_candidates(linker, items, limit), must_link, cannot_link)
    except ConstraintsError as error:
        raise ConstraintsError(*(items.name(int(one)) for one in error.items)) from None
    ids = whole_ids(items, given, id) if named == "id" else None
    values, surely = cluster_values(paired, clusters, named, ids), membership(paired, probability, clusters)
    cuts = [0, items.n_items] if items.first_table is None else [0, items.first_table, items.n_items]
    answers = [
        one.with_columns({columns[0]: values[a:b], columns[1]: surely[a:b]})
        for one, (a, b) in zip(given, pairwise(cuts), strict=True)
    ]
    made = answers[0] if other is None else tuple(answers)
    return (made, pair_frame(given[0], paired, probability, clusters, least)) if pairs else made


def _candidates(linker: Any, items: Mentions, limit: int | None) -> Mentions:
    return items if items.n_items < 2 else within(limit, items, linker.blocking, linker.n_jobs)


def refuse_files(frames: Sequence[Any], into: Any) -> None:
    """What an engine alone can do."""
    remedy = "give the linker an engine: `linker.set_params(engine=kf.DuckDB())`"
    path = next((one for one in frames if isinstance(one, str | PathLike)), None)
    if path is not None:
        raise InputError(f"expected a table; got the path {str(path)!r}; read it first, or {remedy}")
    if into is not None:
        raise SettingError("into", into, "None in memory", remedy)


def pair_frame(given: OpenedFrame, items: Mentions, probability: Array, clusters: Array, least: float = 0.0) -> Any:
    """The pairs compared, as a table of the kind that came: id_left, id_right, probability, together."""
    chosen = np.flatnonzero(probability >= least)
    left, right = items.left[chosen], items.right[chosen]
    return given.made(
        {
            "id_left": [items.name(i) for i in left.tolist()],
            "id_right": [items.name(i) for i in right.tolist()],
            "probability": np.asarray(probability[chosen], np.float64),
            "together": clusters[left] == clusters[right],
        }
    )
