"""From decisions about pairs to clusters: transitive closure and the links of antecedents, with constraints.

Items are 0 ... n - 1; pairs are (left, right) with left < right in order of right and then left; `probability` is that
of a pair being one. Clusters come back as int32 (n,), numbered in order of their first items. Constraints hold whatever
the probabilities say: pairs that must be together are joined first, no join puts together a pair that must not be, and
none makes a cluster larger than `max_size` (0: no limit). Should the two kinds contradict each other, `must_link` wins.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import read_only
from kinfolk.core.kernels import Csr, njit
from kinfolk.core.threads import even_bounds, run_chunks

Array = NDArray[Any]
NO_PAIRS = np.empty((0, 2), np.int32)


class Constraints(NamedTuple):
    must_link: NDArray[np.int32] = NO_PAIRS  # (m, 2) items
    cannot_link: NDArray[np.int32] = NO_PAIRS
    max_size: int = 0
    first_table: int = 0  # items of the first of two tables, whose pairs cross tables; 0: one table
    n_jobs: int = 1  # threads (a resolved number) for `agglomerate`; the clusters are the same for any

    def partners(self, n: int) -> Csr:
        """Whom each item must not be with."""
        both = np.concatenate([self.cannot_link, self.cannot_link[:, ::-1]]).astype(np.int32).reshape(-1, 2)
        order = np.argsort(both[:, 0], kind="stable")
        starts = np.searchsorted(both[order, 0], np.arange(n + 1))
        return Csr(starts.astype(np.int64), np.ascontiguousarray(both[order, 1]), np.empty(0))


class Partition(NamedTuple):
    """Clusters that joins change in place, within the constraints.

    parent    int32 (n,), towards the root of an item's cluster
    follow    int32 (n,), the next item of its cluster, in a ring
    size      int64 (n,), items of a cluster, at its root
    partners  whom each item must not be with
    max_size  items a cluster may have, 0: no limit
    """

    parent: NDArray[np.int32]
    follow: NDArray[np.int32]
    size: NDArray[np.int64]
    partners: Csr
    max_size: int

    @classmethod
    def of(cls, n: int, rules: Constraints) -> Partition:
        """Every item by itself but for must-links."""
        parent, follow = np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32)
        for a, b in np.asarray(rules.must_link, np.int32).reshape(-1, 2):
            _unite(parent, follow, find(parent, a), find(parent, b))
        size = np.bincount(_roots(parent), minlength=n).astype(np.int64)
        return cls(parent, follow, size, rules.partners(n), int(rules.max_size))

    @property
    def clusters(self) -> NDArray[np.int32]:
        return numbered(_roots(self.parent))


def _narrow(items: Array) -> NDArray[np.int32]:
    """Numbers of items in the one type that kernels are compiled for."""
    return np.asarray(items, np.int32)


def single_link(
    n: int,
    left: Array,
    right: Array,
    probability: Array,
    threshold: float = 0.5,
    constraints: Constraints | None = None,
) -> NDArray[np.int32]:
    """The transitive closure of the pairs above the threshold; under constraints the most probable pairs go first."""
    chosen = np.flatnonzero(probability > threshold)
    rules = constraints or Constraints()
    partition = Partition.of(n, rules)
    if len(rules.cannot_link) or rules.max_size:
        chosen = chosen[np.argsort(-probability[chosen], kind="stable")]
        _join_allowed(partition, _narrow(left[chosen]), _narrow(right[chosen]))
    else:
        _join(partition.parent, _narrow(left[chosen]), _narrow(right[chosen]))
    return partition.clusters


def best_link(
    n: int,
    left: Array,
    right: Array,
    probability: Array,
    kind: str = "best",
    threshold: float = 0.5,
    constraints: Constraints | None = None,
) -> NDArray[np.int32]:
    """Every item is joined to one antecedent above the threshold: the closest, or the most probable (ties: the
    closest).

    Where a constraint forbids that one, the next takes its place.
    """
    chosen = np.flatnonzero(probability > threshold)
    a, b, p = left[chosen], right[chosen], probability[chosen]
    order = np.lexsort((-a, b)) if kind == "closest" else np.lexsort((-a, -p, b))
    partition = Partition.of(n, constraints or Constraints())
    _link_once(partition, _narrow(a[order]), _narrow(b[order]))
    return partition.clusters


def cluster_sum(
    n: int, left: Array, right: Array, share: Array, threshold: float = 0.5, constraints: Constraints | None = None
) -> NDArray[np.int32]:
    """In order, every item joins the cluster whose members have the largest share together, if it exceeds `threshold`
    of what they and a new cluster have; `share` is that of each antecedent of an item, a new cluster has the rest.

    Where a constraint forbids that cluster, the next takes its place. An item that must be with an earlier one stays.
    """
    starts = np.searchsorted(right, np.arange(n + 1)).astype(np.int64)
    partition = Partition.of(n, constraints or Constraints())
    _join_largest(partition, starts, read_only(_narrow(left)), np.asarray(share, np.float64), float(threshold))
    return partition.clusters


def best_match(
    n: int,
    left: Array,
    right: Array,
    probability: Array,
    each: str = "both",
    threshold: float = 0.5,
    constraints: Constraints | None = None,
) -> NDArray[np.int32]:
    """Every item of one side of pairs across two tables is joined to its most probable partner above the threshold
    (ties: the first); `each`: the items to the left ("first"), to the right ("second"), or those of both.

    Where a constraint forbids that one, the next takes its place.
    """
    chosen = np.flatnonzero(probability > threshold)
    a, b, p = left[chosen], right[chosen], probability[chosen]
    partition = Partition.of(n, constraints or Constraints())
    sides = {"first": [(b, a)], "second": [(a, b)], "both": [(b, a), (a, b)]}[each]
    for other, own in sides:
        order = np.lexsort((other, -p, own))
        _link_once(partition, _narrow(other[order]), _narrow(own[order]))
    return partition.clusters


def forest(n: int, left: Array, right: Array) -> NDArray[np.bool_]:
    """Which pairs, taken in order, join what was apart: a spanning forest, minimal if the pairs come by rising cost."""
    return np.asarray(_join(np.arange(n, dtype=np.int32), left, right))


def numbered(roots: Array) -> NDArray[np.int32]:
    """Clusters numbered in order of their first items."""
    return np.asarray(_numbered(roots, np.full(int(roots.max(initial=-1)) + 1, -1, np.int32)))


@njit(nogil=True, cache=True)
def _numbered(roots, rank):
    found, n = np.empty(len(roots), np.int32), 0
    for i in range(len(roots)):
        if rank[roots[i]] < 0:
            rank[roots[i]] = n
            n += 1
        found[i] = rank[roots[i]]
    return found


@njit(nogil=True, cache=True)
def find(parent, i):
    """The root of an item; paths are halved on the way."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(nogil=True, cache=True)
def _roots(parent):
    roots = np.empty_like(parent)
    for i in range(len(parent)):
        roots[i] = find(parent, i)
    return roots


@njit(nogil=True, cache=True)
def _unite(parent, follow, a, b):
    """Join two clusters by their roots: the smaller number becomes the root, the rings of members are tied together."""
    if a == b:
        return
    parent[max(a, b)] = min(a, b)
    follow[a], follow[b] = follow[b], follow[a]


@njit(nogil=True, cache=True)
def _join(parent, left, right):
    """Join the clusters of all pairs; which pairs joined what was apart."""
    joined = np.zeros(len(left), np.bool_)
    for k in range(len(left)):
        a, b = find(parent, left[k]), find(parent, right[k])
        if a != b:
            parent[max(a, b)] = min(a, b)
            joined[k] = True
    return joined


@njit(nogil=True, cache=True)
def _forbidden(partition, a, b):
    """Whether a member of the cluster of a must not be with one of the cluster of b."""
    partners, item = partition.partners, a
    while True:
        for k in range(partners.indptr[item], partners.indptr[item + 1]):
            if find(partition.parent, partners.indices[k]) == b:
                return True
        item = partition.follow[item]
        if item == a:
            return False


@njit(nogil=True, cache=True)
def _joins(partition, i, j):
    """Join the clusters of two items if the constraints allow; whether they are together afterwards."""
    parent, size = partition.parent, partition.size
    a, b = find(parent, i), find(parent, j)
    if a == b:
        return True
    total = size[a] + size[b]
    if partition.max_size > 0 and total > partition.max_size:
        return False
    small, large = (a, b) if size[a] <= size[b] else (b, a)
    if _forbidden(partition, small, large):
        return False
    _unite(parent, partition.follow, a, b)
    size[min(a, b)] = total
    return True


@njit(nogil=True, cache=True)
def _join_allowed(partition, left, right):
    for k in range(len(left)):
        _joins(partition, left[k], right[k])


@njit(nogil=True, cache=True)
def _link_once(partition, left, right):
    """Pairs come in order of right, the preferred antecedent first: the first that may be joined is taken."""
    done = -1
    for k in range(len(left)):
        if right[k] != done and _joins(partition, left[k], right[k]):
            done = right[k]


@njit(nogil=True, cache=True)
def _join_largest(partition, starts, left, share, threshold):
    n = len(starts) - 1
    total, roots = np.zeros(n), np.empty(n, np.int64)
    for j in range(n):
        if find(partition.parent, j) != j:  # roots are the first items: it must be with an earlier one
            continue
        new, count = 1.0, 0
        for p in range(starts[j], starts[j + 1]):
            root = find(partition.parent, left[p])
            if total[root] == 0.0:
                roots[count] = root
                count += 1
            total[root] += share[p]
            new -= share[p]
        new = max(new, 0.0)
        while True:
            best = -1
            for k in range(count):
                if total[roots[k]] > 0.0 and (best < 0 or total[roots[k]] > total[best]):
                    best = roots[k]
            if best < 0 or total[best] <= threshold * (total[best] + new) or _joins(partition, best, j):
                break
            total[best] = 0.0
        for k in range(count):
            total[roots[k]] = 0.0


# -----------------------------------------------------------------------------------------------------
# Clusters grown by joining the two that are closest, over sparse pairs: average link, complete link, largest gain.
#
# Closeness of clusters A and B, with p the value of a pair and 0 for pairs that are no candidates:
#
#     average   Σ p / pairs of A x B          complete   min p over all pairs of A x B          gain   Σ p
#     compared  Σ p / candidate pairs of A x B
#
# Pairs of A x B are |A| |B|; of two tables only those that cross them, as no others can ever be compared.
#
# The two closest are joined as long as their closeness exceeds the threshold; ties go to the clusters whose first items
# come first. A join makes a new cluster, whose neighbours are those of the two, found by walking their lists; a heap
# holds every closeness, and entries about clusters that are gone are passed over.

AT_ONCE = 1 << 16  # pairs of whole components that are worked on together
MOST_CHUNKS = 1 << 15
BLOCK = 1 << 18  # pairs looked at together
KINDS = {"average": 0, "complete": 1, "gain": 2, "compared": 3}


def agglomerate(
    n: int, left: Array, right: Array, value: Array, kind: str, threshold: float, constraints: Constraints | None = None
) -> NDArray[np.int32]:
    """Clusters int32 (n,). For all kinds but gain a join needs a pair above the threshold, so clusters lie
    within the components of those pairs, and only pairs within components are worked with.
    """
    rules = constraints or Constraints()
    component = single_link(n, left, right, value, threshold, Constraints(rules.must_link))
    inside = together(component, left, right)
    start = single_link(n, left[:0], right[:0], value[:0], threshold, Constraints(rules.must_link))
    a, b, p = start[left[inside]], start[right[inside]], np.asarray(value, np.float64)[inside]
    del inside  # pairs are many: what is done with goes
    if len(rules.must_link):
        apart = a != b
        a, b, p = np.minimum(a, b)[apart], np.maximum(a, b)[apart], p[apart]
    first = _first_places(start)
    sizes = np.bincount(start).astype(np.int64)
    ours = np.bincount(start[: rules.first_table], minlength=len(sizes)).astype(np.int64)
    forbidden = start[np.asarray(rules.cannot_link, np.int64).reshape(-1, 2)]
    forbidden = forbidden[component[first[forbidden[:, 0]]] == component[first[forbidden[:, 1]]]]
    rule = JoinRule(KINDS[kind], float(threshold), int(rules.max_size), bool(rules.first_table))
    # Components know nothing of each other: they are worked through in chunks, in threads, and a chunk's lists are
    # short enough for the processor's cache. Within a chunk clusters and pairs are in the order of the whole.
    owner = component[first]
    count = np.bincount(owner[a], minlength=int(component.max(initial=-1)) + 1)
    bounds = even_bounds(np.concatenate([[0], np.cumsum(count)]), min(1 + len(a) // AT_ONCE, MOST_CHUNKS))
    n_chunks = len(bounds) - 1
    chunk = np.repeat(np.arange(n_chunks, dtype=np.int16), np.diff(bounds))[owner]
    members, own_pairs, own_forbidden = (_by_chunk(of, n_chunks) for of in (chunk, chunk[a], chunk[forbidden[:, 0]]))
    place = np.empty(len(first), np.int64)
    roots = np.arange(len(first))

    def work(k: int) -> None:
        own, mine = members(k), own_pairs(k)
        place[own] = np.arange(len(own))
        pairs = place[a[mine]], place[b[mine]], p[mine]
        found = _agglomerate(pairs, place[forbidden[own_forbidden(k)]], first[own], sizes[own], ours[own], rule)
        roots[own] = own[found]

    run_chunks(work, n_chunks, rules.n_jobs)
    return numbered(roots[start])


def pairs_in_components(
    n: int, left: Array, right: Array, probability: Array, threshold: float = 0.5
) -> NDArray[np.int64]:
    """Which pairs lie within the components of the pairs above the threshold."""
    return together(single_link(n, left, right, probability, threshold), left, right)


def together(clusters: Array, left: Array, right: Array) -> NDArray[np.int64]:
    """Which pairs are of one cluster; looked at in blocks, as they may be many."""
    parts = [np.empty(0, np.int64)]
    for start in range(0, len(left), BLOCK):
        part = slice(start, start + BLOCK)
        parts.append(np.flatnonzero(clusters[left[part]] == clusters[right[part]]) + start)
    return np.concatenate(parts)


def _by_chunk(chunk: Array, n_chunks: int) -> Callable[[int], Array]:
    """What belongs to each chunk, in its order."""
    order = np.argsort(chunk, kind="stable")
    starts = np.searchsorted(chunk[order], np.arange(n_chunks + 1))
    return lambda k: order[starts[k] : starts[k + 1]]


def _first_places(clusters: Array) -> NDArray[np.int64]:
    """The first item of each cluster, where these are numbered in order of their first items."""
    before = np.maximum.accumulate(clusters, dtype=np.int64) if len(clusters) else clusters.astype(np.int64)
    return np.flatnonzero(np.diff(before, prepend=-1))


class JoinRule(NamedTuple):
    """kind of closeness, by number; the threshold it must exceed; items a cluster may have (0: no limit); whether pairs
    cross two tables."""

    kind: int
    threshold: float
    max_size: int
    tables: bool


class Joining(NamedTuple):
    """n clusters, and at most as many that joins make, numbered on from n.

    parent      (2n,), the cluster that one was joined into
    alive       (2n,), False where it was
    size, ours  (2n,), items, and those of the first of two tables
    first       (2n,), the first item
    begin, end  (2n,), where its neighbours stand in an array of entries
    slot        (2n,), scratch: where the entry about a neighbour stands, else -1
    """

    parent: NDArray[np.int64]
    alive: NDArray[np.bool_]
    size: NDArray[np.int64]
    ours: NDArray[np.int64]
    first: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    slot: NDArray[np.int64]


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
def _pairs(clusters, a, b, tables):
    """Pairs of two clusters that can be compared."""
    size, ours = clusters.size, clusters.ours
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
def _first_lists(pairs, forbidden, clusters):
    """The entries of the first clusters, both directions of every pair: counted, then filled."""
    left, right, value = pairs
    begin, end = clusters.begin, clusters.end
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
def _compact(entries, c, clusters):
    """Entries of a cluster that are about the same neighbour by now become one."""
    begin, end, slot = clusters.begin, clusters.end, clusters.slot
    write = begin[c]
    for at in range(begin[c], end[c]):
        entry = entries[at]
        d = find(clusters.parent, entry.cluster)
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
def _push(heap, entries, c, clusters, rule):
    """Put the joins that cluster c may have onto the heap; of two first clusters the later one does it."""
    n, size = len(clusters.size) // 2, clusters.size
    for at in range(clusters.begin[c], clusters.end[c]):
        entry = entries[at]
        d = entry.cluster
        if entry.barred or (d > c and c < n) or (rule.max_size > 0 and size[c] + size[d] > rule.max_size):
            continue
        pairs = _pairs(clusters, c, d, rule.tables)
        if pairs == 0 or (rule.kind == 3 and entry.count == 0):
            continue
        close = _closeness(rule.kind, entry.total, entry.least, entry.count, pairs)
        if close > rule.threshold:
            heapq.heappush(heap, _entry(close, clusters.first, c, d))


@njit(nogil=True, cache=True)
def _agglomerate(pairs, forbidden, first_item, sizes, ours, rule):
    """Of each of the clusters to begin with the first that it ends up with."""
    n = len(sizes)
    numbers = np.zeros((5, 2 * n), np.int64)
    clusters = Joining(
        np.arange(2 * n), np.zeros(2 * n, np.bool_), numbers[0], numbers[1], numbers[2], numbers[3], numbers[4],
        np.full(2 * n, -1, np.int64),
    )  # fmt: skip
    parent, alive, begin, end = clusters.parent, clusters.alive, clusters.begin, clusters.end
    for c in range(n):  # whole slices as operands take numba a second longer to compile
        clusters.size[c], clusters.ours[c], clusters.first[c], alive[c] = sizes[c], ours[c], first_item[c], True
    entries, used = _first_lists(pairs, forbidden, clusters)
    heap = [(0.0, np.int64(-1), np.int64(-1), np.int64(-1), np.int64(-1))]
    heap.pop()
    for c in range(n):
        _compact(entries, c, clusters)
        _push(heap, entries, c, clusters, rule)
    made = n
    while len(heap) > 0:
        _, _, _, a, b = heapq.heappop(heap)
        if not (alive[a] and alive[b]):  # about a cluster that is gone
            continue
        alive[a] = alive[b] = False
        parent[a] = parent[b] = made
        alive[made] = True
        clusters.first[made] = min(clusters.first[a], clusters.first[b])
        for total in (clusters.size, clusters.ours):
            total[made] = total[a] + total[b]
        need = end[a] - begin[a] + end[b] - begin[b]
        if used + need > len(entries):
            grown = np.empty(max(2 * len(entries), used + need), _ENTRY)
            for at in range(used):
                grown[at] = entries[at]
            entries = grown
        begin[made] = used
        for old in (a, b):
            for at in range(begin[old], end[old]):
                entries[used] = entries[at]
                used += 1
        end[made] = used
        _compact(entries, made, clusters)
        used = end[made]
        _push(heap, entries, made, clusters, rule)
        made += 1
    roots, first = _roots(parent)[:n], np.full(2 * n, -1, np.int64)
    for c in range(n):
        if first[roots[c]] < 0:
            first[roots[c]] = c
        roots[c] = first[roots[c]]
    return roots


# -- Correlation clustering: clusters with the largest sum of log-odds within them, by joins and then single moves ---
#
#     gain(clusters) = Σ over candidate pairs within a cluster of (log-odds of the pair - log-odds of the threshold)
#
# Finding the largest is NP-hard. Joining the two clusters that gain most gives a start; then items move, one at a time,
# to the cluster (or to one of their own) where they gain most, and clusters are joined again, until neither helps: a
# local optimum.

SWEEPS = 100  # of moves; each raises the gain, so the limit is for rounding alone
ROUNDS = 20


def log_odds(probability: Array) -> NDArray[np.float64]:
    p = np.clip(np.asarray(probability, np.float64), 1e-15, 1 - 1e-15)
    return np.log(p) - np.log1p(-p)  # type: ignore[no-any-return]


def correlation_gain(clusters: Array, left: Array, right: Array, gain: Array) -> float:
    """The sum over pairs within clusters."""
    return float(gain[clusters[left] == clusters[right]].sum())


def correlation(
    n: int,
    left: Array,
    right: Array,
    probability: Array,
    threshold: float = 0.5,
    constraints: Constraints | None = None,
) -> NDArray[np.int32]:
    """Clusters that no single move of an item and no join of two clusters improves."""
    rules = constraints or Constraints()
    gain = log_odds(probability) - log_odds(np.array([threshold]))[0]
    fixed = np.zeros(n, bool)
    fixed[np.asarray(rules.must_link, np.int64).ravel()] = True  # items of must-links stay together by staying put
    clusters = agglomerate(n, left, right, gain, "gain", 0.0, rules)
    near, cannot = _neighbours(n, left, right, gain), rules.partners(n)
    best = correlation_gain(clusters, left, right, gain)
    for _ in range(ROUNDS):
        moved = clusters.astype(np.int64)
        _move(moved, fixed, near, cannot, int(rules.max_size), SWEEPS)
        held = Constraints(_chains(moved), rules.cannot_link, rules.max_size, n_jobs=rules.n_jobs)
        clusters = agglomerate(n, left, right, gain, "gain", 0.0, held)
        now = correlation_gain(clusters, left, right, gain)
        if now <= best + 1e-12 * max(1.0, abs(best)):
            break
        best = now
    return clusters


def _chains(clusters: Array) -> NDArray[np.int32]:
    """Must-links that hold clusters together: each item with the next of its cluster."""
    order = np.argsort(numbered(clusters), kind="stable").astype(np.int32)
    together = clusters[order[:-1]] == clusters[order[1:]]
    return np.stack([order[:-1][together], order[1:][together]], axis=1)


def _neighbours(n: int, left: Array, right: Array, gain: Array) -> Csr:
    """Both directions of every pair, with the gain as value."""
    a, b = np.concatenate([left, right]), np.concatenate([right, left])
    order = np.argsort(a, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(a, minlength=n))]).astype(np.int64)
    return Csr(starts, b[order].astype(np.int64), np.concatenate([gain, gain])[order])


@njit(nogil=True, cache=True)
def _move(cluster, fixed, near, cannot, max_size, sweeps):
    """Move items, in order, until a sweep moves none. Cluster numbers below n are in use or free."""
    starts, neighbours, gains = near
    n = len(cluster)
    size = np.zeros(n + 1, np.int64)
    for i in range(n):
        size[cluster[i]] += 1
    toward = np.zeros(n + 1)  # what an item gains in each cluster
    barred = np.zeros(n + 1, np.bool_)
    free = 0
    for _ in range(sweeps):
        moves = 0
        for i in range(n):
            if fixed[i]:
                continue
            for k in range(starts[i], starts[i + 1]):
                toward[cluster[neighbours[k]]] += gains[k]
            for k in range(cannot.indptr[i], cannot.indptr[i + 1]):
                barred[cluster[cannot.indices[k]]] = True
            here, best = cluster[i], toward[cluster[i]]
            to = here
            if best < -1e-12 and size[here] > 1:  # better alone
                while size[free] > 0:
                    free = (free + 1) % n
                to, best = free, 0.0
            for k in range(starts[i], starts[i + 1]):
                c = cluster[neighbours[k]]
                if c == here or barred[c] or (max_size > 0 and size[c] >= max_size):
                    continue
                if toward[c] > best + 1e-12:
                    to, best = c, toward[c]
            for k in range(starts[i], starts[i + 1]):
                toward[cluster[neighbours[k]]] = 0.0
            for k in range(cannot.indptr[i], cannot.indptr[i + 1]):
                barred[cluster[cannot.indices[k]]] = False
            if to != here:
                size[here] -= 1
                size[to] += 1
                cluster[i] = to
                moves += 1
        if moves == 0:
            return


# -- One-to-one: every record of two clean tables has at most one partner, with the largest log-odds of all partners ---


def one_to_one(
    n: int,
    left: Array,
    right: Array,
    probability: Array,
    threshold: float = 0.5,
    constraints: Constraints | None = None,
) -> NDArray[np.int32]:
    """The matching of largest Σ (log-odds - log-odds of the threshold) over pairs above the threshold.

    Exact, by the shortest-path algorithm for sparse assignment. Each left item may also take a partner of its own that
    stands for none, at gain 0, so a full assignment always exists. `must_link` pairs are partners whatever the others
    say. No item may be left in one pair and right in another.
    """
    rules = constraints or Constraints()
    must = np.asarray(rules.must_link, np.int64).reshape(-1, 2)
    barred = {tuple(sorted(map(int, pair))) for pair in np.asarray(rules.cannot_link).reshape(-1, 2)}
    taken = np.zeros(n, bool)
    taken[must.ravel()] = True
    gain = log_odds(probability) - log_odds(np.array([threshold]))[0]
    usable = (gain > 0) & ~taken[left] & ~taken[right]
    if barred:
        usable &= np.fromiter(
            ((int(a), int(b)) not in barred for a, b in zip(left, right, strict=True)), bool, len(left)
        )
    roots = single_link(n, must.min(axis=1), must.max(axis=1), np.ones(len(must)))
    a, b = left[usable], right[usable]
    if len(a) and rules.max_size != 1:
        partner = _assigned(a, b, gain[usable])
        roots[partner[:, 1]] = roots[partner[:, 0]]
    return numbered(roots)


def _assigned(left: Array, right: Array, gain: Array) -> Array:
    """Pairs (m, 2) of the best matching. Costs are (largest gain + 1) - gain, since a sparse matrix holds no zeros."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    rows, a = np.unique(left, return_inverse=True)
    columns, b = np.unique(right, return_inverse=True)
    dear = float(gain.max()) + 1.0
    alone = np.arange(len(rows))
    cost = np.concatenate([dear - gain, np.full(len(rows), dear)])
    ends = np.concatenate([a, alone]), np.concatenate([b, len(columns) + alone])
    where = tuple(end.astype(np.int32) for end in ends)  # older versions of SciPy match no other
    table = csr_array((cost, where), shape=(len(rows), len(columns) + len(rows)))
    row, column = min_weight_full_bipartite_matching(table)
    real = column < len(columns)
    return np.stack([rows[row[real]], columns[column[real]]], axis=1)


# -- The E-steps of structured local training: the labels of pairs that a local model should learn -----
#
# h* are the decisions of the local model, h' those after clustering, y* the truth, all 0 or 1 a pair. What comes back,
# y', asks the local model for no more than the clustering needs:
#
#     nearest    y' = h* where h' = y*, else y*                                      (Algorithm 2 of the paper)
#     spanning   y' = h* where h' = y*; of the true pairs that h' misses, those of a minimum spanning forest over all
#                true pairs are 1, with cost φ(0) for missed ones and 0 for the others (Algorithm 1)
#     exact      the most probable y' whose transitive closure is y*: true pairs that h* has, and the most probable
#                others that join what is still apart
#
# The first two may ask for too little: with h* joining 0-2 and 1-2 falsely, h' = y* on the true pair 0-1, which then
# stays 0 though nothing else holds it. "exact" is what Algorithm 1 stands for, and it always closes to the truth.

E_STEPS = ("nearest", "spanning", "exact")


def e_step(
    kind: str, n: int, left: Array, right: Array, truth: Array, decided: Array, clustered: Array, score: Array
) -> NDArray[np.int8]:
    """y' int8 (P,). `score` is log φ(1) - log φ(0): the lower φ(0), the higher it is: forests take high ones first."""
    right_after = clustered == truth
    if kind == "nearest":
        return np.where(right_after, decided, truth).astype(np.int8)
    true = np.flatnonzero(truth == 1)
    free = right_after[true] if kind == "spanning" else decided[true] == 1
    order = np.lexsort((-score[true], ~free))  # free pairs first, then by score; stable, so ties keep their order
    chosen = true[order][forest(n, left[true[order]], right[true[order]])]
    labels = np.where(right_after, decided, 0).astype(np.int8)
    if kind == "spanning":
        labels[chosen[~right_after[chosen]]] = 1
        return labels
    labels[:] = 0
    labels[true[free]] = 1
    labels[chosen] = 1
    return labels


# -- Closure: the pairs inside likely clusters that blocking left out, so that they can be compared too ---
#
# Average link counts a pair that was never compared as a "no". Where a cluster is certain but its records share few
# keys, most of its pairs were never compared and the cluster falls apart. So records are first clustered generously
# (mean over the compared pairs alone), the pairs missing inside those clusters are listed, and clustering runs again
# once they have been compared.

LARGEST = 200  # records of a cluster above which its pairs are left alone: they grow with the square


def missing_pairs(
    n: int,
    left: Array,
    right: Array,
    probability: Array,
    threshold: float = 0.5,
    first_table: int = 0,
    largest: int = LARGEST,
    n_jobs: int = 1,
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Pairs within generous clusters that are not among the pairs given, in their order, and how many clusters were
    too large to look into."""
    rules = Constraints(first_table=first_table, n_jobs=n_jobs)
    clusters = agglomerate(n, left, right, probability, "compared", threshold, rules)
    sizes = np.bincount(clusters, minlength=1)
    looked_into = (sizes > 1) & (sizes <= largest)
    a, b = _pairs_inside(clusters, looked_into)
    if first_table:
        crossing = (a < first_table) & (b >= first_table)
        a, b = a[crossing], b[crossing]
    given = together(clusters, left, right)
    given = given[looked_into[clusters[left[given]]]]
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
