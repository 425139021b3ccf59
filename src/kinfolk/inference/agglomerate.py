"""Clusters grown by joining the two that are closest, over sparse pairs: average link, complete link, largest gain.

Closeness of clusters A and B, with p the value of a pair and 0 for pairs that are no candidates:

    average   Σ p / pairs of A x B          complete   min p over all pairs of A x B          gain   Σ p
    compared  Σ p / candidate pairs of A x B

Pairs of A x B are |A| |B|; of two tables only those that cross them, as no others can ever be compared.

The two closest are joined as long as their closeness exceeds the threshold; ties go to the clusters whose first items
come first. A join makes a new cluster, whose neighbours are those of the two, found by walking their lists; a heap
holds every closeness, and entries about clusters that are gone are passed over.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.inference.clustering import Constraints, find, numbered, single_link

Array = NDArray[Any]
KINDS = {"average": 0, "complete": 1, "gain": 2, "compared": 3}


def agglomerate(
    n: int,
    left: Array,
    right: Array,
    value: Array,
    kind: str,
    threshold: float,
    constraints: Constraints | None = None,
) -> NDArray[np.int32]:
    """Clusters int32 (n,). For all kinds but gain a join needs a pair above the threshold, so clusters lie
    within the components of those pairs, and only pairs within components are worked with.
    """
    rules = constraints or Constraints()
    component = single_link(n, left, right, value, threshold, Constraints(rules.must_link))
    inside = component[left] == component[right]
    start = single_link(n, left[:0], right[:0], value[:0], threshold, Constraints(rules.must_link))
    a, b = start[left[inside]], start[right[inside]]
    p = np.asarray(value, np.float64)[inside]
    apart = a != b
    first = np.unique(start, return_index=True)[1].astype(np.int64) if n else np.empty(0, np.int64)
    sizes = np.bincount(start).astype(np.int64) if n else np.empty(0, np.int64)
    ours = np.zeros_like(sizes)
    if rules.first_table:
        ours = np.bincount(start[: rules.first_table], minlength=len(sizes)).astype(np.int64)
    forbidden = start[np.asarray(rules.cannot_link, np.int64).reshape(-1, 2)]
    low, high = np.minimum(a, b)[apart], np.maximum(a, b)[apart]
    parent = _agglomerate(
        low, high, p[apart], first, sizes, ours, forbidden, KINDS[kind], float(threshold), int(rules.max_size)
    )
    return numbered(parent[start])


@njit(nogil=True, cache=True)
def _closeness(kind, total, least, count, pairs):
    if kind == 0:
        return total / pairs
    if kind == 1:
        return least if count == pairs else 0.0
    if kind == 3:
        return total / count
    return total


@njit(nogil=True, cache=True)
def _pairs(size, ours, a, b, tables):
    """Pairs of two clusters that can be compared; `ours` are the items of the first of two tables."""
    if tables:
        return ours[a] * (size[b] - ours[b]) + ours[b] * (size[a] - ours[a])
    return size[a] * size[b]


@njit(nogil=True, cache=True)
def _entry(closeness, first, a, b):
    """A heap entry: the closest first, then the clusters with the first items."""
    if first[a] > first[b]:
        a, b = b, a
    return (-closeness, first[a], first[b], a, b)


# A cluster's neighbours are entries begin[c] ... end[c] - 1 of an array: the neighbour, the sum, minimum and number of
# pairs with it, and whether some pair of the two must not be together.
_ENTRY = np.dtype([("cluster", "i8"), ("total", "f8"), ("least", "f8"), ("count", "i8"), ("barred", "?")], align=True)


@njit(nogil=True, cache=True)
def _first_lists(left, right, value, forbidden, begin, end):
    """The entries of the first clusters, both directions of every pair: counted, then filled."""
    n = len(begin) // 2
    for k in range(len(left)):
        end[left[k]] += 1
        end[right[k]] += 1
    for k in range(len(forbidden)):
        end[forbidden[k, 0]] += 1
        end[forbidden[k, 1]] += 1
    place = 0
    for c in range(n):
        begin[c], place = place, place + end[c]
        end[c] = begin[c]
    entries = np.empty(2 * place + 16, _ENTRY)
    for k in range(len(left)):
        for one, other in ((left[k], right[k]), (right[k], left[k])):
            _put(entries, end[one], other, value[k], value[k], 1, False)
            end[one] += 1
    for k in range(len(forbidden)):
        for one, other in ((forbidden[k, 0], forbidden[k, 1]), (forbidden[k, 1], forbidden[k, 0])):
            _put(entries, end[one], other, 0.0, np.inf, 0, True)
            end[one] += 1
    return entries, place


@njit(nogil=True, cache=True)
def _put(entries, at, cluster, total, least, count, barred):
    entry = entries[at]
    entry.cluster, entry.total, entry.least, entry.count, entry.barred = cluster, total, least, count, barred


@njit(nogil=True, cache=True)
def _compact(entries, begin, end, c, parent, slot):
    """Entries of a cluster that are about the same neighbour by now become one."""
    write = begin[c]
    for at in range(begin[c], end[c]):
        entry = entries[at]
        d = find(parent, entry.cluster)
        if d == c:
            continue
        if slot[d] < 0:
            slot[d] = write
            _put(entries, write, d, entry.total, entry.least, entry.count, entry.barred)
            write += 1
        else:
            known = entries[slot[d]]
            known.total += entry.total
            known.least = min(known.least, entry.least)
            known.count += entry.count
            known.barred = known.barred or entry.barred
    end[c] = write
    for at in range(begin[c], end[c]):
        slot[entries[at].cluster] = -1


@njit(nogil=True, cache=True)
def _push(heap, entries, begin, end, c, n, size, ours, tables, first, kind, threshold, max_size):
    """Put the joins that cluster c may have onto the heap; of two first clusters the later one does it."""
    for at in range(begin[c], end[c]):
        entry = entries[at]
        d = entry.cluster
        if entry.barred or (d > c and c < n) or (max_size > 0 and size[c] + size[d] > max_size):
            continue
        pairs = _pairs(size, ours, c, d, tables)
        if pairs == 0 or (kind == 3 and entry.count == 0):
            continue
        close = _closeness(kind, entry.total, entry.least, entry.count, pairs)
        if close > threshold:
            heapq.heappush(heap, _entry(close, first, c, d))


@njit(nogil=True, cache=True)
def _agglomerate(left, right, value, first_item, start_sizes, start_ours, forbidden, kind, threshold, max_size):
    """The root of each starting cluster; the clusters that joins make are numbered on from n."""
    n = len(start_sizes)
    parent = np.arange(2 * n)
    size, first = np.zeros(2 * n, np.int64), np.zeros(2 * n, np.int64)
    size[:n], first[:n] = start_sizes, first_item
    ours = np.zeros(2 * n, np.int64)
    ours[:n] = start_ours
    tables = ours.sum() > 0
    alive = np.zeros(2 * n, np.bool_)
    alive[:n] = True
    begin, end = np.zeros(2 * n, np.int64), np.zeros(2 * n, np.int64)
    entries, used = _first_lists(left, right, value, forbidden, begin, end)
    slot = np.full(2 * n, -1, np.int64)
    heap = [(0.0, np.int64(-1), np.int64(-1), np.int64(-1), np.int64(-1))]
    heap.pop()
    for c in range(n):
        _compact(entries, begin, end, c, parent, slot)
        _push(heap, entries, begin, end, c, n, size, ours, tables, first, kind, threshold, max_size)
    made = n
    while len(heap) > 0:
        _, _, _, a, b = heapq.heappop(heap)
        if not (alive[a] and alive[b]):  # about a cluster that is gone
            continue
        alive[a] = alive[b] = False
        parent[a] = parent[b] = made
        alive[made] = True
        size[made], first[made] = size[a] + size[b], min(first[a], first[b])
        ours[made] = ours[a] + ours[b]
        need = end[a] - begin[a] + end[b] - begin[b]
        if used + need > len(entries):
            grown = np.empty(max(2 * len(entries), used + need), _ENTRY)
            grown[:used] = entries[:used]
            entries = grown
        begin[made] = used
        for old in (a, b):
            for at in range(begin[old], end[old]):
                entries[used] = entries[at]
                used += 1
        end[made] = used
        _compact(entries, begin, end, made, parent, slot)
        used = end[made]
        _push(heap, entries, begin, end, made, n, size, ours, tables, first, kind, threshold, max_size)
        made += 1
    roots = np.empty(n, np.int64)
    for c in range(n):
        roots[c] = find(parent, c)
    return roots
