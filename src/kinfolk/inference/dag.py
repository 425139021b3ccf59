"""The shape of a mixture of parents: who looks at whom, and an order in which everybody comes after his parents.

Each instance has components, the terms of its mixture: one an edge to a parent, and perhaps a start component,
which looks at nobody. Components stand instance by instance; within one the start component comes first, then the
edges relation by relation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.errors import InputError

Array = NDArray[Any]
START = -1  # the "parent" and the "relation" of a start component


class Dag(NamedTuple):
    """C components of n instances.

    indptr        int64 (n + 1,), the components of each instance
    parent        int64 (C,), the instance looked at, or START
    relation      int64 (C,), number of the relation, or START
    edge          int64 (C,), row of the relation's list of edges, or START
    order         int64 (n,), instances with every parent before its children, group by group; none of `either_way`
    group_starts  int64 (groups + 1,), instances of group g are group_starts[g], ..., group_starts[g + 1] - 1
    """

    indptr: NDArray[np.int64]
    parent: NDArray[np.int64]
    relation: NDArray[np.int64]
    edge: NDArray[np.int64]
    order: NDArray[np.int64]
    group_starts: NDArray[np.int64]

    @property
    def n_instances(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_components(self) -> int:
        return len(self.parent)

    @property
    def child(self) -> NDArray[np.int64]:
        """(C,), the instance each component belongs to."""
        return np.repeat(np.arange(self.n_instances), np.diff(self.indptr))

    @property
    def rank(self) -> NDArray[np.int64]:
        """(n,), the place of each instance in `order`."""
        rank = np.empty(self.n_instances, np.int64)
        rank[self.order] = np.arange(self.n_instances)
        return rank


def build_dag(
    edges: Sequence[Array], groups: Array, start: NDArray[np.bool_] | None = None, names: Sequence[str] | None = None
) -> Dag:
    """Components of a list of relations, each an int array (E, 2) of (child, parent).

    groups  int (n,), rising; an edge may not leave its group
    start   bool (n,): who has a start component besides; those without any parent always have one
    """
    found = _components(edges, groups, start, names)
    return found._replace(order=_order(found.indptr, found.parent, found.group_starts))


def either_way(edges: Sequence[Array], groups: Array, names: Sequence[str] | None = None) -> Dag:
    """All components there can be, whatever the order: every edge, and a start component each. No DAG yet, so it has no
    order; `in_order` takes those of one."""
    return _components(edges, groups, np.ones(len(groups), bool), names)


def in_order(every: Dag, rank: NDArray[np.int64], start: NDArray[np.bool_]) -> tuple[Dag, NDArray[np.int64]]:
    """The DAG in which parents come before their children by `rank` (n,), and which of the components of `either_way`
    it has. `start` as in `build_dag`."""
    kept, indptr = _before(every.indptr, every.parent, rank, start)
    group = np.repeat(np.arange(len(every.group_starts) - 1), np.diff(every.group_starts))
    order = np.argsort(rank, kind="stable")
    order = order[np.argsort(group[order], kind="stable")] if len(every.group_starts) > 2 else order
    return Dag(indptr, every.parent[kept], every.relation[kept], every.edge[kept], order, every.group_starts), kept


@njit(nogil=True, cache=True)
def _before(indptr, parent, rank, start):
    """The first component of each instance is its start, which it keeps where it is to, or where no parent is left."""
    kept, starts, n = np.empty(len(parent), np.int64), np.empty(len(indptr), np.int64), 0
    for k in range(len(rank)):
        starts[k] = n
        first = n + 1
        n = first
        for c in range(indptr[k] + 1, indptr[k + 1]):
            if rank[parent[c]] < rank[k]:
                kept[n] = c
                n += 1
        if start[k] or n == first:
            kept[first - 1] = indptr[k]
        else:
            n -= 1
            for place in range(first - 1, n):
                kept[place] = kept[place + 1]
    starts[len(rank)] = n
    return kept[:n].copy(), starts


def _components(
    edges: Sequence[Array], groups: Array, start: NDArray[np.bool_] | None, names: Sequence[str] | None
) -> Dag:
    """Without an order."""
    n = len(groups)
    lists = [np.asarray(e, np.int64).reshape(-1, 2) for e in edges]
    for r, pairs in enumerate(lists):
        _check_edges(pairs, groups, names[r] if names else str(r))
    pairs = np.concatenate([np.empty((0, 2), np.int64), *lists])
    begins = np.bincount(pairs[:, 0], minlength=n) == 0
    if start is not None:
        begins |= start
    roots = np.flatnonzero(begins)
    nobody = np.full(len(roots), START, np.int64)
    child, parent = (np.concatenate(ends) for ends in ((roots, pairs[:, 0]), (nobody, pairs[:, 1])))
    relation = np.concatenate([nobody, *(np.full(len(rows), r) for r, rows in enumerate(lists))])
    edge = np.concatenate([nobody, *(np.arange(len(rows)) for rows in lists)])
    by = np.lexsort((parent, relation, child))  # by instance, then relation (start first), then parent
    indptr = np.concatenate([[0], np.cumsum(np.bincount(child, minlength=n))]).astype(np.int64)
    group_starts = np.append(np.flatnonzero(np.diff(groups, prepend=-1)), n).astype(np.int64)
    return Dag(indptr, parent[by], relation[by], edge[by], np.empty(0, np.int64), group_starts)


def _check_edges(pairs: Array, groups: Array, name: str) -> None:
    n = len(groups)
    if not len(pairs):
        return
    if pairs.min() < 0 or pairs.max() >= n:
        row = int(np.flatnonzero((pairs < 0).any(axis=1) | (pairs >= n).any(axis=1))[0])
        raise InputError(f"relation {name!r}: edge {row} is {tuple(pairs[row].tolist())}, but there are {n} instances")
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(loops):
        raise InputError(f"relation {name!r}: instance {pairs[loops[0], 0]} is its own parent. Take self loops out.")
    across = np.flatnonzero(groups[pairs[:, 0]] != groups[pairs[:, 1]])
    if len(across):
        child, parent = pairs[across[0]].tolist()
        raise InputError(
            f"relation {name!r}: instance {child} (group {groups[child]}) looks at instance {parent} (group "
            f"{groups[parent]}); edges must stay within a group. Put both in one group, or leave the edge out."
        )


def _order(indptr: Array, parent: Array, group_starts: Array) -> NDArray[np.int64]:
    """Instances as they stand, or from the end of each group, where that is an order; else a search for one."""
    n = len(indptr) - 1
    child = np.repeat(np.arange(n), np.diff(indptr))
    edges = parent >= 0
    if (parent[edges] < child[edges]).all():
        return np.arange(n)
    if (parent[edges] > child[edges]).all():
        group = np.repeat(np.arange(len(group_starts) - 1), np.diff(group_starts))
        return group_starts[group] + group_starts[group + 1] - 1 - np.arange(n)
    order = np.empty(n, np.int64)
    found = _search(indptr, parent, group_starts, order)
    if found < n:
        cycle = _find_cycle(indptr, parent, order[:found])
        raise InputError(
            f"the relations have a cycle: {' -> '.join(map(str, cycle))} (each looks at the next), so no order puts "
            "parents before children. Leave out an edge of it, or train on a Graph, which is put in random orders."
        )
    return order


@njit(nogil=True, cache=True)
def _search(indptr, parent, group_starts, order):
    """Depth first: an instance is placed once all its parents are. Returns how many could be placed."""
    n = len(indptr) - 1
    state = np.zeros(n, np.int8)  # 0 new, 1 waiting for a parent, 2 placed
    cursor, stack = indptr[:-1].copy(), np.empty(n, np.int64)
    placed = 0
    for g in range(len(group_starts) - 1):
        for first in range(group_starts[g], group_starts[g + 1]):
            if state[first]:
                continue
            stack[0], depth = first, 1
            state[first] = 1
            while depth:
                k = stack[depth - 1]
                if cursor[k] == indptr[k + 1]:
                    state[k] = 2
                    order[placed] = k
                    placed += 1
                    depth -= 1
                    continue
                j = parent[cursor[k]]
                cursor[k] += 1
                if j >= 0 and state[j] == 1:
                    return placed  # it waits for somebody who waits for it
                if j >= 0 and state[j] == 0:
                    state[j] = 1
                    stack[depth] = j
                    depth += 1
    return placed


def _find_cycle(indptr: Array, parent: Array, placed: Array) -> list[int]:
    """Take out whoever waits for nobody until none is left to take; who remains waits for one who remains."""
    done = np.zeros(len(indptr) - 1, bool)
    done[placed] = True
    child = np.repeat(np.arange(len(done)), np.diff(indptr))
    while True:
        waits = (parent >= 0) & ~done[parent]
        free = ~done & (np.bincount(child[waits], minlength=len(done)) == 0)
        if not free.any():
            break
        done |= free
    at, trail = int(np.flatnonzero(~done)[0]), []
    while at not in trail:
        trail.append(at)
        at = next(j for j in parent[indptr[at] : indptr[at + 1]].tolist() if j >= 0 and not done[j])
    return [*trail[trail.index(at) :], at]
