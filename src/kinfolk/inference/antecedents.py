"""A mixture of parents over clusters: every item follows one earlier item, its antecedent, or starts a cluster.

With s_ij the score of i as the antecedent of j, and 0 that of starting anew,

    a_ij = exp s_ij / (1 + Σ_k exp s_kj)               the share of antecedent i, k over the candidates of j
    P_jj = 1,   P_jk = Σ_i a_ij P_ik   for k < j       the probability that j and k are in one cluster

P is exact: items choose independently, so j is with k just where the item it follows is. Pairs are (left, right), left
< right, in order of right and then left. Items that no chain of candidate pairs joins are never together, so each such
part is worked out by itself: up to DENSE items with a full table; larger ones with what exceeds NEGLIGIBLE alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from kinfolk.core.data import read_only
from kinfolk.core.kernels import njit
from kinfolk.core.threads import even_bounds, run_chunks

Array = NDArray[Any]
DENSE = 1024  # items of a part with a full table: 8 MB, a tenth of a second
NEGLIGIBLE = 1e-6  # shares and probabilities that large parts leave out
HIGHEST = 600.0  # scores are shifted below, so that sums of exponentials stay within float64
CHUNKS = 64


class Shares(NamedTuple):
    """Of each pair the share of its left item among the antecedents of the right one; of each item that of none."""

    antecedent: NDArray[np.float64]
    new: NDArray[np.float64]


def item_starts(n: int, right: Array) -> NDArray[np.int64]:
    """(n + 1,): where the pairs of each item with its antecedents begin."""
    return np.searchsorted(right, np.arange(n + 1)).astype(np.int64)


def antecedent_shares(n: int, right: Array, score: Array) -> Shares:
    """a, from the scores of the pairs."""
    found = Shares(np.empty(len(score)), np.ones(n))
    _shares(item_starts(n, right), np.asarray(score, np.float64), found)
    return found


def together(n: int, left: Array, right: Array, share: Array, n_jobs: int = 1) -> NDArray[np.float64]:
    """P of each pair, from the shares of antecedents."""
    if not len(left):
        return np.empty(0)
    starts = item_starts(n, right)
    graph = sparse.coo_array((np.ones(len(left), np.int8), (left, right)), shape=(n, n))
    part = connected_components(graph, directed=False)[1]
    items = np.argsort(part, kind="stable").astype(np.int64)  # the items of each part side by side, in their order
    bounds = np.concatenate([[0], np.cumsum(np.bincount(part))]).astype(np.int64)
    place = np.empty(n, np.int64)
    place[items] = np.arange(n) - bounds[part[items]]
    pairs, out = Antecedents(starts, read_only(np.asarray(left, np.int32)), share), np.empty(len(left))
    sizes = np.diff(bounds)
    runs = even_bounds(np.concatenate([[0], np.cumsum(sizes**2 * np.minimum(sizes, DENSE))]), CHUNKS)

    def chunk(c: int) -> None:
        for k in range(runs[c], runs[c + 1]):
            own = items[bounds[k] : bounds[k + 1]]
            if len(own) > DENSE:
                _together_sparse(own, place, pairs, NEGLIGIBLE, out)
            elif len(own) > 1:
                _together(own, place, pairs, out)

    run_chunks(chunk, len(runs) - 1, n_jobs)
    return out


class Antecedents(NamedTuple):
    """The pairs of item j are starts[j] ... starts[j + 1] - 1."""

    starts: NDArray[np.int64]
    left: NDArray[np.int32]
    share: NDArray[np.float64]


@njit(nogil=True, cache=True)
def _shares(starts, score, found):
    for j in range(len(starts) - 1):
        highest = 0.0
        for p in range(starts[j], starts[j + 1]):
            highest = max(highest, score[p])
        new = np.exp(-highest)
        total = new
        for p in range(starts[j], starts[j + 1]):
            found.antecedent[p] = np.exp(score[p] - highest)
            total += found.antecedent[p]
        for p in range(starts[j], starts[j + 1]):
            found.antecedent[p] /= total
        found.new[j] = new / total


@njit(nogil=True, cache=True)
def _together(items, place, pairs, out):
    """With a full table of one part; its first items come first."""
    table = np.zeros((len(items), len(items)))
    for at in range(len(items)):
        j, own = items[at], table[at]
        for p in range(pairs.starts[j], pairs.starts[j + 1]):
            share = pairs.share[p]
            if share > 0.0:
                other = table[place[pairs.left[p]]]
                for k in range(at):
                    own[k] += share * other[k]
        own[at] = 1.0
        for k in range(at):
            table[k, at] = own[k]
        for p in range(pairs.starts[j], pairs.starts[j + 1]):
            out[p] = own[place[pairs.left[p]]]


@njit(nogil=True, cache=True)
def _together_sparse(items, place, pairs, least, out):
    """The same with a list of partners for each item, which holds probabilities above `least` alone."""
    n = len(items)
    head = np.full(n, -1, np.int64)  # the last entry of each item's list; each entry knows the one before
    capacity, used = 4 * n, 0
    partner, value, before = np.empty(capacity, np.int64), np.empty(capacity), np.empty(capacity, np.int64)
    total, touched = np.zeros(n), np.empty(n, np.int64)
    for at in range(n):
        j, count = items[at], 0
        for p in range(pairs.starts[j], pairs.starts[j + 1]):
            share, i = pairs.share[p], place[pairs.left[p]]
            if share <= least:
                continue
            if total[i] == 0.0:
                touched[count] = i
                count += 1
            total[i] += share  # i is with itself
            e = head[i]
            while e >= 0:
                k = partner[e]
                if total[k] == 0.0:
                    touched[count] = k
                    count += 1
                total[k] += share * value[e]
                e = before[e]
        for p in range(pairs.starts[j], pairs.starts[j + 1]):
            out[p] = max(total[place[pairs.left[p]]], pairs.share[p])  # never below what is followed at once
        if used + 2 * count > capacity:
            capacity = 2 * (used + 2 * count)
            partner, value, before = _longer(partner, capacity), _longer(value, capacity), _longer(before, capacity)
        for t in range(count):
            k = touched[t]
            if total[k] > least:
                for one, other in ((at, k), (k, at)):
                    partner[used], value[used], before[used] = other, total[k], head[one]
                    head[one] = used
                    used += 1
            total[k] = 0.0


@njit(nogil=True, cache=True)
def _longer(array, size):
    found = np.empty(size, array.dtype)
    for i in range(len(array)):
        found[i] = array[i]
    return found
