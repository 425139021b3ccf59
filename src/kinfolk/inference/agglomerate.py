"""Clusters grown by joining the two that are closest, over sparse pairs: average link, complete link, largest gain.

Closeness of clusters A and B, with p the value of a pair and 0 for pairs that are no candidates:

    average   Σ p / (|A| |B|)        complete   min p over all |A| |B| pairs        gain   Σ p

The two closest are joined as long as their closeness exceeds the threshold; ties go to the clusters whose first items
come first. A join makes a new cluster, whose neighbours are those of the two, found by walking their lists; a heap
holds every closeness, and entries about clusters that are gone are passed over.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kinfolk.inference.clusters import Constraints, find, numbered, single_link

Array = NDArray[Any]
KINDS = {"average": 0, "complete": 1, "gain": 2}


def agglomerate(
    n: int,
    left: Array,
    right: Array,
    value: Array,
    kind: str,
    threshold: float,
    constraints: Constraints | None = None,
) -> NDArray[np.int32]:
    """Clusters int32 (n,). For average and complete link a join needs a pair above the threshold, so clusters lie
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
    forbidden = start[np.asarray(rules.cannot_link, np.int64).reshape(-1, 2)]
    low, high = np.minimum(a, b)[apart], np.maximum(a, b)[apart]
    parent = _agglomerate(
        low, high, p[apart], first, sizes, forbidden, KINDS[kind], float(threshold), int(rules.max_size)
    )
    return numbered(parent[start])


@njit(nogil=True, cache=True)
def _closeness(kind, total, least, count, size_a, size_b):
    if kind == 0:
        return total / (size_a * size_b)
    if kind == 1:
        return least if count == size_a * size_b else 0.0
    return total


@njit(nogil=True, cache=True)
def _entry(closeness, first, a, b):
    """A heap entry: the closest first, then the clusters with the first items."""
    if first[a] > first[b]:
        a, b = b, a
    return (-closeness, first[a], first[b], a, b)


@njit(nogil=True, cache=True)
def _agglomerate(left, right, value, first_item, start_sizes, forbidden, kind, threshold, max_size):
    """The root of each starting cluster. A cluster's list holds, for each neighbour, sum, minimum and number of pairs,
    and the mark of a pair that must not be together; neighbours may have been joined since: `find` tells."""
    n = len(start_sizes)
    parent = np.arange(2 * n)
    size, first = np.zeros(2 * n, np.int64), np.zeros(2 * n, np.int64)
    size[:n], first[:n] = start_sizes, first_item
    alive = np.zeros(2 * n, np.bool_)
    alive[:n] = True
    n_pairs, n_all = len(left), len(left) + len(forbidden)
    # Lists of the first clusters, both directions of every pair, counted and then filled.
    begin, end = np.zeros(2 * n, np.int64), np.zeros(2 * n, np.int64)
    for k in range(n_all):
        a = left[k] if k < n_pairs else forbidden[k - n_pairs, 0]
        b = right[k] if k < n_pairs else forbidden[k - n_pairs, 1]
        end[a] += 1
        end[b] += 1
    place = 0
    for c in range(n):
        begin[c], place = place, place + end[c]
        end[c] = begin[c]
    neighbour, total = np.empty(2 * place + 16, np.int64), np.empty(2 * place + 16)
    least, count = np.empty(2 * place + 16), np.empty(2 * place + 16, np.int64)
    barred = np.zeros(2 * place + 16, np.bool_)
    for k in range(n_all):
        pair = k < n_pairs
        a = left[k] if pair else forbidden[k - n_pairs, 0]
        b = right[k] if pair else forbidden[k - n_pairs, 1]
        for one, other in ((a, b), (b, a)):
            at = end[one]
            neighbour[at] = other
            total[at] = value[k] if pair else 0.0
            least[at] = value[k] if pair else np.inf
            count[at] = 1 if pair else 0
            barred[at] = not pair
            end[one] += 1
    # Sums by neighbour, as must-links and repeated mention may give one neighbour several entries.
    heap = [(0.0, np.int64(-1), np.int64(-1), np.int64(-1), np.int64(-1))]
    heap.pop()
    slot = np.full(2 * n, -1, np.int64)
    used = place
    made = n
    fresh = 0  # clusters below this number have had their neighbours pushed
    while True:
        while fresh < made:
            if not alive[fresh]:
                fresh += 1
                continue
            c, write = fresh, begin[fresh]
            for at in range(begin[c], end[c]):  # entries of one neighbour become one
                d = find(parent, neighbour[at])
                if d == c:
                    continue
                if slot[d] < 0:
                    slot[d] = write
                    neighbour[write], total[write], least[write] = d, total[at], least[at]
                    count[write], barred[write] = count[at], barred[at]
                    write += 1
                else:
                    s = slot[d]
                    total[s] += total[at]
                    least[s] = min(least[s], least[at])
                    count[s] += count[at]
                    barred[s] = barred[s] or barred[at]
            end[c] = write
            for at in range(begin[c], end[c]):
                d = neighbour[at]
                slot[d] = -1
                if barred[at] or (d > c and c < n) or (max_size > 0 and size[c] + size[d] > max_size):
                    continue  # of the first clusters every pair is pushed once, by the later one
                close = _closeness(kind, total[at], least[at], count[at], size[c], size[d])
                if close > threshold:
                    heapq.heappush(heap, _entry(close, first, c, d))
            fresh += 1
        a = b = np.int64(-1)
        while len(heap) > 0:
            _, _, _, x, y = heapq.heappop(heap)
            if alive[x] and alive[y]:
                a, b = x, y
                break
        if a < 0:
            break
        alive[a] = alive[b] = False
        parent[a] = parent[b] = made
        alive[made] = True
        size[made], first[made] = size[a] + size[b], min(first[a], first[b])
        need = end[a] - begin[a] + end[b] - begin[b]
        if used + need > len(neighbour):
            grown = max(2 * len(neighbour), used + need)
            neighbour = np.concatenate((neighbour, np.empty(grown - len(neighbour), np.int64)))
            total = np.concatenate((total, np.empty(grown - len(total))))
            least = np.concatenate((least, np.empty(grown - len(least))))
            count = np.concatenate((count, np.empty(grown - len(count), np.int64)))
            barred = np.concatenate((barred, np.zeros(grown - len(barred), np.bool_)))
        begin[made] = used
        for old in (a, b):
            for at in range(begin[old], end[old]):
                neighbour[used], total[used], least[used] = neighbour[at], total[at], least[at]
                count[used], barred[used] = count[at], barred[at]
                used += 1
        end[made] = used
        made += 1
    roots = np.empty(n, np.int64)
    for c in range(n):
        roots[c] = find(parent, c)
    return roots
