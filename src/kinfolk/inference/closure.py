"""Closure: the pairs inside likely clusters that blocking left out, so that they can be compared too.

Average link counts a pair that was never compared as a "no". Where a cluster is certain but its records share few
keys, most of its pairs were never compared and the cluster falls apart. So records are first clustered generously
(mean over the compared pairs alone), the pairs missing inside those clusters are listed, and clustering runs again
once they have been compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.inference.agglomerate import agglomerate
from kinfolk.inference.clustering import Constraints

Array = NDArray[Any]
LARGEST = 200  # records of a cluster above which its pairs are left alone: they grow with the square


def missing_pairs(
    n: int,
    left: Array,
    right: Array,
    probability: Array,
    threshold: float = 0.5,
    first_table: int = 0,
    largest: int = LARGEST,
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Pairs within generous clusters that are not among the pairs given, in their order, and how many clusters were
    too large to look into."""
    clusters = agglomerate(n, left, right, probability, "compared", threshold, Constraints(first_table=first_table))
    sizes = np.bincount(clusters, minlength=1)
    looked_into = (sizes > 1) & (sizes <= largest)
    a, b = _pairs_inside(clusters, looked_into)
    if first_table:
        crossing = (a < first_table) & (b >= first_table)
        a, b = a[crossing], b[crossing]
    given = looked_into[clusters[left]] & (clusters[left] == clusters[right])
    wanted = _keys(a, b)
    missing = np.setdiff1d(wanted, _keys(left[given], right[given]), assume_unique=True)
    missing.sort()
    return (missing & 0xFFFFFFFF).astype(np.int32), (missing >> 32).astype(np.int32), int((sizes > largest).sum())


def _keys(left: Array, right: Array) -> NDArray[np.int64]:
    """One number a pair, in order of right and then left."""
    return (right.astype(np.int64) << 32) | left.astype(np.int64)


def _pairs_inside(clusters: Array, looked_into: Array) -> tuple[Array, Array]:
    """Every pair of items of the clusters looked into, the earlier item to the left."""
    order = np.argsort(clusters, kind="stable")
    order = order[looked_into[clusters[order]]]
    members = clusters[order]
    place = np.arange(len(order))
    begin = np.searchsorted(members, members, side="left")
    before = place - begin  # earlier items of the same cluster
    right = np.repeat(order, before)
    ends = np.cumsum(before)
    left = order[np.arange(len(right)) - np.repeat(ends - before, before) + np.repeat(begin, before)]
    return left, right
