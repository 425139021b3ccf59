"""Explanations of links and clusters, in the names of items and features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.data.mentions import Mentions
from kinfolk.errors import InputError
from kinfolk.explain.links import ClusterExplanation, LinkExplanation, contributions, weakest_link
from kinfolk.features.pair_set import PairSet
from kinfolk.models.structured import sigmoid

Array = NDArray[Any]


def explain_link(
    learned: PairSet, weights: Array, shares: Array, items: Mentions, left: int, right: int
) -> LinkExplanation:
    """`shares` is the share of training pairs for which each weight is on."""
    low, high = _two(items, left, right)
    codes = learned.coder(items)(np.array([low], np.int32), np.array([high], np.int32))
    on = learned.weights_on(codes)[0]
    base, told = contributions(weights, on, learned.column_means(shares * weights), learned.weight_names())
    score = float(weights[on].sum())
    return LinkExplanation(items.title(low), items.title(high), float(sigmoid(np.array(score))), score, base, told)


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
