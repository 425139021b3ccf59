"""What a report has room for: which clusters, which of their items, which of their pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.linking.link_explanations import Split
from kinfolk.linking.mentions import Mentions

Array = NDArray[Any]


def spanning_pairs(n: int, left: Array, right: Array, probability: Array) -> NDArray[np.int64]:
    """The pairs of a maximum spanning forest, the least probable first; of equals the earlier is the stronger."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    order = np.argsort(-probability, kind="stable")
    rank = np.empty(len(order))
    rank[order] = np.arange(1, len(order) + 1)  # by rank no two pairs are equal, and none is 0, which means no pair
    tree = minimum_spanning_tree(csr_array((rank, (left, right)), shape=(n, n)))
    return np.asarray(order[np.sort(tree.data.astype(np.int64) - 1)[::-1]], np.int64)


def strengths(items: Mentions, probability: Array, clusters: Array) -> tuple[Array, Array]:
    """(weakest, nearest) of each cluster, numbered from 0: the probability of its weakest link (nan: it has none), and
    of the most probable candidate pair with an item of another cluster (nan: there is none)."""
    a, b = clusters[items.left], clusters[items.right]
    sizes = np.bincount(clusters)
    inside, across = np.flatnonzero(a == b), np.flatnonzero(a != b)
    tree = inside[spanning_pairs(items.n_items, items.left[inside], items.right[inside], probability[inside])]
    weakest, nearest = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
    np.minimum.at(weakest, a[tree], probability[tree])
    connected = np.bincount(a[tree], minlength=len(sizes)) == sizes - 1
    for side in (a, b):
        np.maximum.at(nearest, side[across], probability[across])
    return np.where(connected & (sizes > 1), weakest, np.nan), np.where(nearest >= 0, nearest, np.nan)


def shown_clusters(weakest: Array, nearest: Array, sizes: Array, most: int) -> list[int]:
    """By turns the most doubtful cluster, the largest, and the one that was most nearly joined to another."""
    rankings = [
        _rising(weakest),
        [int(c) for c in _rising(-sizes.astype(float)) if sizes[c] > 1],
        _rising(-nearest),
    ]
    chosen: dict[int, None] = {}
    for turn in range(max(map(len, rankings), default=0)):
        chosen |= dict.fromkeys(ranking[turn] for ranking in rankings if turn < len(ranking))
        if len(chosen) >= most:
            break
    return [*dict.fromkeys([*chosen, *range(len(sizes) if len(chosen) < most else 0)])][:most]


def _rising(values: Array) -> list[int]:
    """Numbers of the values that are there, the smallest first."""
    there = np.flatnonzero(~np.isnan(values))
    return [int(k) for k in there[np.argsort(values[there], kind="stable")]]


def shown_items(items: Mentions, split: Split, most: int, wanted: Sequence[int] = ()) -> Array:
    """Members, in order: those wanted, the ends of the weakest link, some of the smaller part, then the first ones."""
    own = {*split.members.tolist()}
    first = [int(item) for item in wanted if item in own]
    if split.weakest is not None and split.side is not None:
        first += [int(items.left[split.weakest]), int(items.right[split.weakest])]
        parts = sorted((split.members[split.side], split.members[~split.side]), key=len)
        first += parts[0][: most // 2].tolist()
    return np.array(sorted([*dict.fromkeys([*first, *split.members.tolist()])][:most]), np.int64)


def shown_pairs(items: Mentions, split: Split, probability: Array, shown: Array, most: int) -> Array:
    """Pairs among the items shown: the weakest link, what holds the parts together, the spanning tree from its weakest
    pair on, the pairs that the model doubts most, then the others."""
    there = np.isin(items.left[split.inside], shown) & np.isin(items.right[split.inside], shown)
    inside = split.inside[there]
    tree = inside[spanning_pairs(items.n_items, items.left[inside], items.right[inside], probability[inside])]
    weakest = [] if split.weakest is None else [split.weakest]
    holding = split.holding[np.isin(split.holding, inside)][: most // 3]
    doubted = inside[np.argsort(probability[inside], kind="stable")]
    order = [*weakest, *holding.tolist(), *tree.tolist(), *doubted.tolist()]
    chosen = np.array([*dict.fromkeys(order)][:most], np.int64)
    return chosen[np.argsort(-probability[chosen], kind="stable")]


def refused_pairs(items: Mentions, split: Split, probability: Array, most: int) -> Array:
    """The most probable candidate pairs with items of other clusters."""
    own = np.zeros(items.n_items, bool)
    own[split.members] = True
    across = np.flatnonzero(own[items.left] != own[items.right])
    return across[np.argsort(-probability[across], kind="stable")[:most]]
