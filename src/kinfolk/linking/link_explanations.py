"""Explanations of links and clusters, in the names of items and features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.column import Column
from kinfolk.errors import InputError
from kinfolk.linking.explain import ClusterExplanation, LinkExplanation, contributions, weakest_link
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pair_table import PairSet
from kinfolk.linking.training import sigmoid

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class PairShares:
    """score[k] = base + Σ shares[k], of pairs; `on` (m, K) are the weights the shares (m, K) come from."""

    base: float
    shares: NDArray[np.float64]
    on: NDArray[np.int32]
    score: NDArray[np.float64]


def pair_shares(
    learned: PairSet, weights: Array, shares: Array, items: Mentions, left: Array, right: Array
) -> PairShares:
    """Where the log-odds of pairs come from; `shares` is the share of training pairs for which each weight is on."""
    first, second = np.asarray(left, np.int32), np.asarray(right, np.int32)
    order = np.lexsort((first, second))  # features may count on the order of `Mentions`
    codes = learned.coder(items)(first[order], second[order])
    on = learned.weights_on(codes[np.argsort(order)])
    means = learned.column_means(shares * weights)
    return PairShares(float(means.sum()), weights[on] - means, on, weights[on].sum(axis=1))


def explain_link(
    learned: PairSet, weights: Array, shares: Array, items: Mentions, left: int | str, right: int | str
) -> LinkExplanation:
    """`shares` is the share of training pairs for which each weight is on."""
    low, high = two_items(items, left, right)
    found = pair_shares(learned, weights, shares, items, np.array([low]), np.array([high]))
    told = contributions(found.shares[0], found.on[0], learned.weight_names())
    score = float(found.score[0])
    values = () if items.corpus is not None else field_values(items, low, high, "-")
    return LinkExplanation(
        items.title(low), items.title(high), float(sigmoid(np.array(score))), score, found.base, told, values
    )


def field_values(items: Mentions, low: int, high: int, nothing: str = "") -> tuple[tuple[str, str, str], ...]:
    """What two records have in each field that both or either has; `nothing` stands for a missing value."""
    found = []
    for name in items.columns:
        values = [field_value(items, name, item) for item in (low, high)]
        if any(values):
            left, right = (short(value or nothing) for value in values)
            found.append((name, left, right))
    return tuple(found)


def field_value(items: Mentions, name: str, item: int) -> str | None:
    """What an item has in a field, as text."""
    column = items.columns[name]
    if isinstance(column, Column):
        return column.values[column.codes[item]] if column.codes[item] >= 0 else None
    return None if np.isnan(column[item]) else f"{column[item]:g}"


def short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


@dataclass(frozen=True, eq=False)
class Split:
    """A cluster, and where it would break first. Pairs are numbers of candidate pairs."""

    members: Array
    inside: Array  # pairs among the members
    weakest: int | None = None
    side: Array | None = None  # bool, one a member: on which side of the weakest link it is
    holding: Array = field(default_factory=lambda: np.empty(0, np.int64))  # accepted pairs between the sides


def split_of(items: Mentions, cluster: int, probability: Array, clusters: Array, threshold: float) -> Split:
    """The weakest link of a cluster; pairs above the threshold hold it together."""
    members = np.flatnonzero(clusters == cluster)
    inside = np.flatnonzero((clusters[items.left] == cluster) & (clusters[items.right] == cluster))
    left, right, p = items.left[inside], items.right[inside], probability[inside]
    weakest = weakest_link(members, left, right, p)
    if weakest is None:
        return Split(members, inside)
    pair, side = weakest
    one = np.isin(np.arange(items.n_items), members[side])
    crossing = np.flatnonzero((one[left] != one[right]) & (p > threshold))
    crossing = crossing[np.argsort(-p[crossing], kind="stable")]
    return Split(members, inside, int(inside[pair]), side, inside[crossing])


def explain_cluster(items: Mentions, split: Split, probability: Array) -> ClusterExplanation:
    """The same in the names of the items."""

    def named(numbers: Array) -> tuple[str, ...]:
        return tuple(items.title(int(i)) for i in numbers)

    names, weakest, side = named(split.members), split.weakest, split.side
    if weakest is None or side is None:
        return ClusterExplanation(names, None, None, (), ())
    ends = [named(np.array([items.left[k], items.right[k]])) for k in (weakest, *split.holding)]
    holding = tuple((a, b, float(probability[k])) for (a, b), k in zip(ends[1:], split.holding, strict=True))
    parts = named(split.members[side]), named(split.members[~side])
    return ClusterExplanation(names, (ends[0][0], ends[0][1]), float(probability[weakest]), parts, holding)


def two_items(items: Mentions, left: int | str, right: int | str) -> tuple[int, int]:
    """Numbers of two different items, the smaller first."""
    low, high = sorted((items.number(left), items.number(right)))
    if not 0 <= low < high < items.n_items:
        raise InputError(f"expected two different items among {items.n_items}, counted from 0; got {left} and {right}")
    return low, high


def one_item(items: Mentions, item: int | str) -> int:
    number = items.number(item)
    if not 0 <= number < items.n_items:
        raise InputError(f"expected an item among {items.n_items}, counted from 0; got {item!r}")
    return number
