"""Explanations of links and clusters, in the names of items and features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.data.column import Column
from kinfolk.data.mentions import Mentions
from kinfolk.errors import InputError
from kinfolk.explain.links import ClusterExplanation, LinkExplanation, contributions, weakest_link
from kinfolk.features.pair_set import PairSet
from kinfolk.models.structured import sigmoid

Array = NDArray[Any]


def explain_link(
    learned: PairSet, weights: Array, shares: Array, items: Mentions, left: int | str, right: int | str
) -> LinkExplanation:
    """`shares` is the share of training pairs for which each weight is on."""
    low, high = _two(items, items.number(left), items.number(right))
    codes = learned.coder(items)(np.array([low], np.int32), np.array([high], np.int32))
    on = learned.weights_on(codes)[0]
    base, told = contributions(weights, on, learned.column_means(shares * weights), learned.weight_names())
    score = float(weights[on].sum())
    probability = float(sigmoid(np.array(score)))
    values = () if items.corpus is not None else _values(items, low, high)
    return LinkExplanation(items.title(low), items.title(high), probability, score, base, told, values)


def _values(items: Mentions, low: int, high: int) -> tuple[tuple[str, str, str], ...]:
    """What two records have in each field that both or either has."""
    found = []
    for name, column in items.columns.items():
        if isinstance(column, Column):
            told = [column.values[code] if code >= 0 else "-" for code in (column.codes[low], column.codes[high])]
        else:
            told = ["-" if np.isnan(value) else f"{value:g}" for value in (column[low], column[high])]
        if told != ["-", "-"]:
            found.append((name, _short(told[0]), _short(told[1])))
    return tuple(found)


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def explain_cluster(
    items: Mentions, item: int, probability: Array, clusters: Array, threshold: float
) -> ClusterExplanation:
    """The weakest link of the cluster of an item; pairs above the threshold hold it together."""
    if not 0 <= item < items.n_items:
        raise InputError(f"expected an item among {items.n_items}, counted from 0; got {item!r}")
    members = np.flatnonzero(clusters == clusters[item])
    inside = np.flatnonzero((clusters[items.left] == clusters[item]) & (clusters[items.right] == clusters[item]))
    left, right, p = items.left[inside], items.right[inside], probability[inside]
    names = tuple(items.title(int(i)) for i in members)
    weakest = weakest_link(members, left, right, p)
    if weakest is None:
        return ClusterExplanation(names, None, None, (), ())
    pair, side = weakest
    one = np.isin(np.arange(items.n_items), members[side])
    crossing = np.flatnonzero((one[left] != one[right]) & (p > threshold))
    crossing = crossing[np.argsort(-p[crossing], kind="stable")]
    holding = tuple((items.title(int(left[k])), items.title(int(right[k])), float(p[k])) for k in crossing)
    parts = tuple(tuple(items.title(int(i)) for i in members[chosen]) for chosen in (side, ~side))
    ends = (items.title(int(left[pair])), items.title(int(right[pair])))
    return ClusterExplanation(names, ends, float(p[pair]), parts, holding)


def _two(items: Mentions, left: int, right: int) -> tuple[int, int]:
    low, high = sorted((int(left), int(right)))
    if not 0 <= low < high < items.n_items:
        raise InputError(f"expected two different items among {items.n_items}, counted from 0; got {left} and {right}")
    return low, high
