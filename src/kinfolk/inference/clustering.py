"""From decisions about pairs to clusters: transitive closure and the links of antecedents, with constraints.

Items are 0 ... n - 1; pairs are (left, right) with left < right in order of right and then left; `probability` is that
of a pair being one. Clusters come back as int32 (n,), numbered in order of their first items. Constraints hold whatever
the probabilities say: pairs that must be together are joined first, no join puts together a pair that must not be, and
none makes a cluster larger than `max_size` (0: no limit). Should the two kinds contradict each other, `must_link` wins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit

Array = NDArray[Any]
NO_PAIRS = np.empty((0, 2), np.int32)


class Constraints(NamedTuple):
    must_link: NDArray[np.int32] = NO_PAIRS  # (m, 2) items
    cannot_link: NDArray[np.int32] = NO_PAIRS
    max_size: int = 0
    first_table: int = 0  # items of the first of two tables, whose pairs cross tables; 0: one table

    def partners(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Whom each item must not be with, as starts (n + 1,) and items."""
        both = np.concatenate([self.cannot_link, self.cannot_link[:, ::-1]]).astype(np.int32).reshape(-1, 2)
        order = np.argsort(both[:, 0], kind="stable")
        starts = np.searchsorted(both[order, 0], np.arange(n + 1))
        return starts.astype(np.int64), np.ascontiguousarray(both[order, 1])


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
    if len(rules.cannot_link) or rules.max_size:
        chosen = chosen[np.argsort(-probability[chosen], kind="stable")]
    return _joined(n, left[chosen], right[chosen], rules)


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
    rules = constraints or Constraints()
    parent, follow = _start(n, rules)
    starts, partners = rules.partners(n)
    size = np.bincount(_roots(parent), minlength=n).astype(np.int64)
    _link_once(parent, follow, size, a[order], b[order], starts, partners, rules.max_size)
    return numbered(_roots(parent))


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
    rules = constraints or Constraints()
    parent, follow = _start(n, rules)
    starts, partners = rules.partners(n)
    size = np.bincount(_roots(parent), minlength=n).astype(np.int64)
    sides = {"first": [(b, a)], "second": [(a, b)], "both": [(b, a), (a, b)]}[each]
    for other, own in sides:
        order = np.lexsort((other, -p, own))
        _link_once(parent, follow, size, other[order], own[order], starts, partners, rules.max_size)
    return numbered(_roots(parent))


def forest(n: int, left: Array, right: Array) -> NDArray[np.bool_]:
    """Which pairs, taken in order, join what was apart: a spanning forest, minimal if the pairs come by rising cost."""
    kept = np.zeros(len(left), np.bool_)
    _forest(np.arange(n, dtype=np.int32), left, right, kept)
    return kept


def _joined(n: int, left: Array, right: Array, rules: Constraints) -> NDArray[np.int32]:
    parent, follow = _start(n, rules)
    if not len(rules.cannot_link) and not rules.max_size:
        _join_all(parent, left, right)
    else:
        starts, partners = rules.partners(n)
        size = np.bincount(_roots(parent), minlength=n).astype(np.int64)
        _join_allowed(parent, follow, size, left, right, starts, partners, rules.max_size)
    return numbered(_roots(parent))


def _start(n: int, rules: Constraints) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Every item by itself but for must-links: the parent of each, and the next item of its cluster, in a ring."""
    parent, follow = np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32)
    must = np.asarray(rules.must_link, np.int32).reshape(-1, 2)
    for a, b in must:
        _unite(parent, follow, find(parent, a), find(parent, b))
    return parent, follow


def numbered(roots: Array) -> NDArray[np.int32]:
    """Clusters numbered in order of their first items."""
    _, first, inverse = np.unique(roots, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[inverse] if len(first) else np.empty(0, np.int32)


def _roots(parent: NDArray[np.int32]) -> NDArray[np.int32]:
    roots = np.empty_like(parent)
    _all_roots(parent, roots)
    return roots


@njit(nogil=True, cache=True)
def find(parent, i):
    """The root of an item; paths are halved on the way."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(nogil=True, cache=True)
def _all_roots(parent, roots):
    for i in range(len(parent)):
        roots[i] = find(parent, i)


@njit(nogil=True, cache=True)
def _unite(parent, follow, a, b):
    """Join two clusters by their roots: the smaller number becomes the root, the rings of members are tied together."""
    if a == b:
        return
    parent[max(a, b)] = min(a, b)
    follow[a], follow[b] = follow[b], follow[a]


@njit(nogil=True, cache=True)
def _join_all(parent, left, right):
    for k in range(len(left)):
        a, b = find(parent, left[k]), find(parent, right[k])
        if a != b:
            parent[max(a, b)] = min(a, b)


@njit(nogil=True, cache=True)
def _forest(parent, left, right, kept):
    for k in range(len(left)):
        a, b = find(parent, left[k]), find(parent, right[k])
        if a != b:
            parent[max(a, b)] = min(a, b)
            kept[k] = True


@njit(nogil=True, cache=True)
def _forbidden(parent, follow, a, b, starts, partners):
    """Whether a member of the cluster of a must not be with one of the cluster of b."""
    item = a
    while True:
        for k in range(starts[item], starts[item + 1]):
            if find(parent, partners[k]) == b:
                return True
        item = follow[item]
        if item == a:
            return False


@njit(nogil=True, cache=True)
def _joins(parent, follow, size, i, j, starts, partners, max_size):
    """Join the clusters of two items if the constraints allow; whether they are together afterwards."""
    a, b = find(parent, i), find(parent, j)
    if a == b:
        return True
    if max_size > 0 and size[a] + size[b] > max_size:
        return False
    small, large = (a, b) if size[a] <= size[b] else (b, a)
    if _forbidden(parent, follow, small, large, starts, partners):
        return False
    total = size[a] + size[b]
    _unite(parent, follow, a, b)
    size[min(a, b)] = total
    return True


@njit(nogil=True, cache=True)
def _join_allowed(parent, follow, size, left, right, starts, partners, max_size):
    for k in range(len(left)):
        _joins(parent, follow, size, left[k], right[k], starts, partners, max_size)


@njit(nogil=True, cache=True)
def _link_once(parent, follow, size, left, right, starts, partners, max_size):
    """Pairs come in order of right, the preferred antecedent first: the first that may be joined is taken."""
    done = -1
    for k in range(len(left)):
        if right[k] != done and _joins(parent, follow, size, left[k], right[k], starts, partners, max_size):
            done = right[k]
