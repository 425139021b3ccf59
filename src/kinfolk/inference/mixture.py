"""Mixture of parents for a whole data set: marginals, what each component predicts, loss and residuals, on threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import read_only
from kinfolk.core.kernels import FAST, Csr, log_sum, njit, softmax
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.errors import InputError

# -- The shape of a mixture of parents: who looks at whom, and an order in which everybody comes after his parents ---
#
# Each instance has components, the terms of its mixture: one an edge to a parent, and perhaps a start component,
# which looks at nobody. Components stand instance by instance; within one the start component comes first, then the
# edges relation by relation.

Array = NDArray[Any]
START = -1  # the "parent" and the "relation" of a start component


class Dag(NamedTuple):
    """C components of n instances.

    indptr        int64 (n + 1,), the components of each instance
    parent        int64 (C,), the instance looked at, or START
    relation      int64 (C,), number of the relation, or START
    edge          int64 (C,), row of the relation's list of edges, or START
    order         int64 (n,), instances with every parent before its children, group by group
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
    order = _order(indptr, parent[by], group_starts)
    return Dag(indptr, parent[by], relation[by], edge[by], order, group_starts)


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


# -- Exact inference in a mixture of parents (Rosenberg, Klein and Taskar, 2007), and the derivatives of its losses ---
#
# Each instance k is a mixture of what its components c say, and a component looks at one parent j at most:
#
#     p(y_k | parents) = Σ_c α_c p_c(y_k | y_j),      p_c(y | i) ∝ exp( T[i, y] + s[y] ),   s = scores of both ends
#
# so the marginals follow from those of the parents in one pass, parents first (section 2.3):
#
#     m_k = Σ_c α_c π_c,      π_c[y] = Σ_i m_j[i] p_c(y | i)
#
# With E = exp(T) and e = exp(s - max), p_c(y | i) = E[i, y] e[y] / Z[i] and Z = E e: L exponentials a component.
#
# The reverse sweep (section 3.2, appendix A) takes g_k = ∂loss/∂m_k from the last instance to the first:
#
#     ∂loss/∂m_j[i] += α_c c[i],                        c[i] = Σ_y p_c(y | i) g_k[y]
#     ∂loss/∂score[i, y] = α_c m_j[i] p_c(y | i) (g_k[y] - c[i])
#     ∂loss/∂α_c = Σ_y π_c[y] g_k[y]
#
# Losses:  marginal      -Σ_k w_k log m_k[y_k]
#          conditional   the same, where children see the known label of a parent instead of its marginal

TINY = 1e-200  # a smaller normaliser has lost its digits: that component is done again with logarithms
LEAST = 1e-300  # probability below which the logarithm is cut off
CHUNKS = 32
NO_ROWS = Csr(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0))


class Scores(NamedTuple):
    """What the log-linear models say, before it is normalised.

    ends   (S, L), scores of the ends of components: `Wiring` tells which row is whose
    pair   (R, L, L), T of each relation: [label of the parent, label of the child]
    start  (L,)
    rows   (G, L²), weights of features of label pairs
    """

    ends: Array
    pair: Array
    start: Array
    rows: Array


class Wiring(NamedTuple):
    """A Dag, and where in the scores its components find theirs.

    child_slot, parent_slot   int64 (C,), rows of `Scores.ends`; a parent_slot of -1: the parent's features are no part
    pair_rows                 features of label pairs, a row a component, or no rows
    """

    dag: Dag
    child_slot: NDArray[np.int64]
    parent_slot: NDArray[np.int64]
    pair_rows: Csr = NO_ROWS

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """Runs of whole groups, of about equal cost."""
        cost = self.dag.indptr[self.dag.group_starts]  # components before each group
        return list(pairwise(even_bounds(cost, CHUNKS).tolist())) if len(cost) > 1 else []


class Model(NamedTuple):
    """Scores as the kernels take them, in float64 but for those of the ends. T is less the best of its row, which
    changes no conditional."""

    ends: Array
    pair: Array
    exp_pair: Array
    start: Array
    rows: Array

    @classmethod
    def of(cls, scores: Scores) -> Model:
        pair = scores.pair.astype(np.float64)
        pair = pair - pair.max(axis=2, keepdims=True) if pair.size else pair
        rows = np.ascontiguousarray(scores.rows, np.float64)
        return cls(scores.ends, pair, np.exp(pair), scores.start.astype(np.float64), rows)


class Observed(NamedTuple):
    """labels int32 (n,), -1 unknown; weights (n,); clamp: children see a parent's known label, not its marginal."""

    labels: NDArray[np.int32]
    weights: Array
    clamp: bool


class Sweep(NamedTuple):
    """What the forward sweep leaves for the way back: marginals (n, L), and by component of the instances swept (.., L)

    predicted   π        local   e        share   belief / Z, or nan first: that component is done the slow way
    """

    marginals: Array
    predicted: Array
    local: Array
    share: Array


class Derivatives(NamedTuple):
    """Of the loss, by

    slope   (n, L)             marginals (zero before)
    ends    (S, L)             scores of ends
    gate    (C,)               logits of the mixing weights: α_c (∂loss/∂α_c - Σ α ∂loss/∂α)
    pair    (R, L, L)          T; what stands in `outer` lacks the factor E, common to all components
    start   (L,)               start scores
    rows    (G, L²)            label-pair weights
    """

    slope: Array
    ends: Array
    gate: Array
    pair: Array
    outer: Array
    start: Array
    rows: Array


class Scratch(NamedTuple):
    """Of one component: belief about its parent, c = E[g], derivative by s, Σ_i belief / Z c E, all (L,); and T and
    p(y | i) of one that has features of label pairs or scores beyond the fast way, (L, L)."""

    belief: Array
    expected: Array
    change: Array
    within: Array
    table: Array
    conditional: Array


@njit(nogil=True, cache=True)
def _scratch(n_labels):
    rows, tables = np.empty((4, n_labels)), np.empty((2, n_labels, n_labels))
    return Scratch(rows[0], rows[1], rows[2], rows[3], tables[0], tables[1])


@njit(nogil=True, cache=True)
def _entries(rows, c):
    """Where the features of label pairs of a component begin and end."""
    return (rows.indptr[c], rows.indptr[c + 1]) if len(rows.indptr) > 1 else (0, 0)


@njit(nogil=True, cache=True, fastmath=FAST)
def _local_scores(ends, child, parent, out):
    """Scores of both ends of a component, by their slots; returns the best."""
    top = -math.inf
    for y in range(len(out)):
        out[y] = ends[child, y]
        if parent >= 0:
            out[y] += ends[parent, y]
        top = max(top, out[y])
    return top


@njit(nogil=True, cache=True, fastmath=FAST)
def _predict(exp_pair, belief, local, top, share, out):
    """out[y] = Σ_i belief[i] p(y | i). Leaves e in `local` and belief / Z in `share`; False if a Z is too small."""
    n_labels = len(out)
    for y in range(n_labels):
        local[y] = math.exp(local[y] - top)
        out[y] = 0.0
    for i in range(n_labels):
        total = 0.0
        for y in range(n_labels):
            total += exp_pair[i, y] * local[y]
        if not total > TINY:
            return False
        share[i] = belief[i] / total
        for y in range(n_labels):
            out[y] += share[i] * exp_pair[i, y]
    for y in range(n_labels):
        out[y] *= local[y]
    return True


@njit(nogil=True, cache=True, fastmath=FAST)
def _predict_slowly(conditional, belief, out):
    for y in range(len(out)):
        out[y] = 0.0
    for i in range(len(out)):
        for y in range(len(out)):
            out[y] += belief[i] * conditional[i, y]


@njit(nogil=True, cache=True)
def _see(marginal, label, clamp, belief):
    """What children see of a parent: its marginal, or the label it is known to have."""
    for y in range(len(belief)):
        belief[y] = marginal[y]
        if clamp and label >= 0:
            belief[y] = 1.0 if y == label else 0.0


@njit(nogil=True, cache=True)
def _conditional(c, wiring, model, local, scratch):
    """p_c(y | i), from the scores of both ends and T: that of the relation, and the weights of the component's own
    features of label pairs. Works for scores of any size."""
    table, rows, n_labels = scratch.table, wiring.pair_rows, len(local)
    _local_scores(model.ends, wiring.child_slot[c], wiring.parent_slot[c], local)
    r = wiring.dag.relation[c]
    for i in range(n_labels):
        for y in range(n_labels):
            table[i, y] = model.pair[r, i, y]
    begin, end = _entries(rows, c)
    for p in range(begin, end):
        value = rows.values[p] if len(rows.values) else 1.0
        for i in range(n_labels):
            for y in range(n_labels):
                table[i, y] += value * model.rows[rows.indices[p], i * n_labels + y]
    for i in range(n_labels):
        for y in range(n_labels):
            table[i, y] += local[y]
        softmax(table[i], scratch.conditional[i])


@njit(nogil=True, cache=True)
def sweep_forward(wiring, model, alpha, observed, first, last, sweep, scratch):
    """Marginals of the instances at places first, ..., last - 1 of the order: whole groups."""
    dag, belief = wiring.dag, scratch.belief
    marginals, n_labels = sweep.marginals, sweep.marginals.shape[1]
    base = dag.indptr[first]  # whole groups: their components stand together
    for place in range(first, last):
        k = dag.order[place]
        for y in range(n_labels):
            marginals[k, y] = 0.0
        for c in range(dag.indptr[k], dag.indptr[k + 1]):
            at, j = c - base, dag.parent[c]
            local, share, predicted = sweep.local[at], sweep.share[at], sweep.predicted[at]
            top = _local_scores(model.ends, wiring.child_slot[c], wiring.parent_slot[c], local)
            if j < 0:
                for y in range(n_labels):
                    local[y] += model.start[y]
                softmax(local, predicted)
            else:
                _see(marginals[j], observed.labels[j], observed.clamp, belief)
                begin, end = _entries(wiring.pair_rows, c)
                if end > begin or not _predict(model.exp_pair[dag.relation[c]], belief, local, top, share, predicted):
                    share[0] = math.nan
                    _conditional(c, wiring, model, local, scratch)
                    _predict_slowly(scratch.conditional, belief, predicted)
            for y in range(n_labels):
                marginals[k, y] += alpha[c] * predicted[y]


@njit(nogil=True, cache=True, fastmath=FAST)
def _back(exp_pair, alpha, slope, at, sweep, outer, scratch):
    """The derivative by s and c[i] of one component; adds to `outer`, which lacks the factor E."""
    expected, change, within = scratch.expected, scratch.change, scratch.within
    predicted, local, share = sweep.predicted[at], sweep.local[at], sweep.share[at]
    n_labels = len(slope)
    for y in range(n_labels):
        within[y] = 0.0  # Σ_i belief[i] / Z[i] · c[i] · E[i, y]
    for i in range(n_labels):
        total, sum_ = 0.0, 0.0
        for y in range(n_labels):
            weight = exp_pair[i, y] * local[y]
            total += weight
            sum_ += weight * slope[y]
        expected[i] = sum_ / total
        part = share[i] * expected[i]
        for y in range(n_labels):
            within[y] += part * exp_pair[i, y]
    for i in range(n_labels):
        part = alpha * share[i]
        for y in range(n_labels):
            outer[i, y] += part * local[y] * (slope[y] - expected[i])
    for y in range(n_labels):
        change[y] = alpha * (slope[y] * predicted[y] - local[y] * within[y])


@njit(nogil=True, cache=True)
def _back_slowly(c, wiring, alpha, slope, scratch, out):
    """The same from the table of conditionals; adds to the derivatives by T and by features of label pairs."""
    rows, conditional, n_labels = wiring.pair_rows, scratch.conditional, len(slope)
    expected, change, pair = scratch.expected, scratch.change, out.pair[wiring.dag.relation[c]]
    begin, end = _entries(rows, c)
    change[:] = 0.0
    for i in range(n_labels):
        expected[i] = 0.0
        for y in range(n_labels):
            expected[i] += conditional[i, y] * slope[y]
        for y in range(n_labels):
            step = alpha * scratch.belief[i] * conditional[i, y] * (slope[y] - expected[i])
            change[y] += step
            pair[i, y] += step
            for p in range(begin, end):
                out.rows[rows.indices[p], i * n_labels + y] += step * (rows.values[p] if len(rows.values) else 1.0)


@njit(nogil=True, cache=True, fastmath=FAST)
def sweep_back(wiring, model, alpha, observed, first, last, sweep, scratch, out):
    """The loss of these instances; its derivatives are added to `out`."""
    dag, labels, change = wiring.dag, observed.labels, scratch.change
    n_labels = sweep.marginals.shape[1]
    base = dag.indptr[first]
    loss = 0.0
    for place in range(last - 1, first - 1, -1):
        k = dag.order[place]
        slope = out.slope[k]
        if labels[k] >= 0 and observed.weights[k] > 0:  # weight · -log p, and its derivative by p
            p = max(sweep.marginals[k, labels[k]], LEAST)
            loss -= observed.weights[k] * math.log(p)
            slope[labels[k]] -= observed.weights[k] / p
        mean = 0.0
        for c in range(dag.indptr[k], dag.indptr[k + 1]):
            at, j = c - base, dag.parent[c]
            by_alpha = 0.0
            for y in range(n_labels):
                by_alpha += sweep.predicted[at, y] * slope[y]
            out.gate[c] = alpha[c] * by_alpha
            mean += alpha[c] * by_alpha
            if j < 0:
                for y in range(n_labels):
                    change[y] = alpha[c] * sweep.predicted[at, y] * (slope[y] - by_alpha)
                    out.start[y] += change[y]
            else:
                r = dag.relation[c]
                if math.isnan(sweep.share[at, 0]):
                    _see(sweep.marginals[j], labels[j], observed.clamp, scratch.belief)
                    _conditional(c, wiring, model, sweep.local[at], scratch)
                    _back_slowly(c, wiring, alpha[c], slope, scratch, out)
                else:
                    _back(model.exp_pair[r], alpha[c], slope, at, sweep, out.outer[r], scratch)
                if not (observed.clamp and labels[j] >= 0):
                    for i in range(n_labels):
                        out.slope[j, i] += alpha[c] * scratch.expected[i]
                parent = wiring.parent_slot[c]
                if parent >= 0:
                    for y in range(n_labels):
                        out.ends[parent, y] += change[y]
            child = wiring.child_slot[c]
            for y in range(n_labels):
                out.ends[child, y] += change[y]
        for c in range(dag.indptr[k], dag.indptr[k + 1]):
            out.gate[c] -= alpha[c] * mean
    return loss


# -- a whole data set, on threads ---------------------------------------------------------------------


class Beliefs(NamedTuple):
    """marginals (n, L), and predicted (C, L): the distribution each component gives its instance."""

    marginals: Array
    predicted: Array


class MixtureResiduals(NamedTuple):
    """Loss, and its derivatives by the scores and by the logits of the mixing weights (C,)."""

    loss: float
    scores: Scores
    gate: Array


def uniform_weights(dag: Dag) -> Array:
    """(C,), 1 / (number of components of the instance)."""
    counts = np.diff(dag.indptr)
    return np.repeat(1.0 / np.maximum(counts, 1), counts)


def gated_weights(dag: Dag, logits: Array) -> Array:
    """(C,), the softmax of the logits among the components of each instance."""
    if not dag.n_components:
        return np.empty(0)
    counts, firsts = np.diff(dag.indptr), dag.indptr[:-1]  # every instance has a component
    weights = np.exp(logits - np.repeat(np.maximum.reduceat(logits, firsts), counts))
    return np.asarray(weights / np.repeat(np.add.reduceat(weights, firsts), counts))


def check_weights(dag: Dag, weights: Array) -> Array:
    """Mixing weights from outside: one a component, none negative, those of an instance sum to 1."""
    weights = np.asarray(weights, np.float64)
    if weights.shape != (dag.n_components,):
        raise InputError(f"expected {dag.n_components} mixing weights, one a component; got shape {weights.shape}")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise InputError(
            f"mixing weights must be finite and not negative; that of instance {dag.child[wrong[0]]} for parent "
            f"{dag.parent[wrong[0]]} is {weights[wrong[0]]:g}"
        )
    sums = np.add.reduceat(weights, dag.indptr[:-1]) if len(weights) else weights
    wrong = np.flatnonzero(np.abs(sums - 1) > 1e-6)
    if len(wrong):
        raise InputError(
            f"the mixing weights of an instance must sum to 1; those of instance {wrong[0]} sum to "
            f"{sums[wrong[0]]:.6g}. Divide them by their sum."
        )
    return weights


@njit(nogil=True, cache=True)
def _forward_chunk(wiring, model, alpha, observed, first, last, marginals, predicted):
    base, n_labels = wiring.dag.indptr[first], marginals.shape[1]
    size = wiring.dag.indptr[last] - base
    kept = np.empty((2, size, n_labels))
    sweep = Sweep(marginals, predicted[base : base + size], kept[0], kept[1])
    sweep_forward(wiring, model, alpha, observed, first, last, sweep, _scratch(n_labels))


@njit(nogil=True, cache=True)
def _both_ways(wiring, model, alpha, observed, first_group, last_group, marginals, out):
    """Forward and back, group by group. A group without labels that count has no loss, and is passed over."""
    indptr, group_starts, n_labels = wiring.dag.indptr, wiring.dag.group_starts, marginals.shape[1]
    largest = 0
    for g in range(first_group, last_group):
        largest = max(largest, indptr[group_starts[g + 1]] - indptr[group_starts[g]])
    kept = np.empty((3, largest, n_labels))
    sweep, scratch = Sweep(marginals, kept[0], kept[1], kept[2]), _scratch(n_labels)
    loss = 0.0
    for g in range(first_group, last_group):
        first, last = group_starts[g], group_starts[g + 1]
        counts = False
        for k in range(first, last):
            counts = counts or (observed.labels[k] >= 0 and observed.weights[k] > 0)
        if counts:
            sweep_forward(wiring, model, alpha, observed, first, last, sweep, scratch)
            loss += sweep_back(wiring, model, alpha, observed, first, last, sweep, scratch, out)
    for r in range(out.outer.shape[0]):
        for i in range(n_labels):
            for y in range(n_labels):
                out.pair[r, i, y] += out.outer[r, i, y] * model.exp_pair[r, i, y]
    return loss


def beliefs(
    wirings: Sequence[Wiring],
    scores: Scores,
    alphas: Sequence[Array],
    labels: NDArray[np.int32] | None = None,
    n_jobs: int = 1,
) -> list[Beliefs]:
    """Exact marginals for each wiring (each order of the same instances), orders and groups in parallel.

    With `labels` (-1 unknown), whoever looks at a labelled instance sees its label.
    """
    model = Model.of(scores)
    shapes = [(wiring.dag.n_instances, wiring.dag.n_components) for wiring in wirings]
    found = [Beliefs(*(np.empty((size, len(scores.start))) for size in shape)) for shape in shapes]
    tasks = [(w, *groups) for w, wiring in enumerate(wirings) for groups in wiring.chunks]

    def run(task: int) -> None:
        w, *groups = tasks[task]
        known = np.full(shapes[w][0], -1, np.int32) if labels is None else labels
        observed = Observed(read_only(known), np.empty(0), labels is not None)
        first, last = wirings[w].dag.group_starts[groups]
        _forward_chunk(wirings[w], model, alphas[w], observed, first, last, *found[w])

    run_chunks(run, len(tasks), n_jobs)
    return found


def residuals(
    wirings: Sequence[Wiring],
    scores: Scores,
    alphas: Sequence[Array],
    labels: NDArray[np.int32],
    weights: Array,
    clamp: bool,
    n_jobs: int = 1,
) -> list[MixtureResiduals]:
    """For each wiring (each order of the same instances) the loss and its derivatives.

    clamp   False: marginal log-likelihood L_M; True: conditional log-likelihood L_C
    """
    model, observed = Model.of(scores), Observed(read_only(labels), weights, clamp)
    tasks = [(w, *groups) for w, wiring in enumerate(wirings) for groups in wiring.chunks]
    shape, sums = (len(labels), len(scores.start)), [part.shape for part in (scores.pair, *scores[1:])]
    marginals = [np.empty(shape) for _ in wirings]
    outs = [
        Derivatives(np.zeros(shape), np.zeros_like(scores.ends), np.zeros(len(alpha)), *map(np.zeros, sums))
        for alpha in alphas
    ]

    def run(task: int) -> tuple[float, Derivatives]:
        w, first, last = tasks[task]
        own = Derivatives(*outs[w][:3], *map(np.zeros, sums))  # groups have rows of their own in the first three
        return _both_ways(wirings[w], model, alphas[w], observed, first, last, marginals[w], own), own

    losses = [0.0] * len(wirings)
    for (w, _, _), (loss, own) in zip(tasks, run_chunks(run, len(tasks), n_jobs), strict=True):
        losses[w] += loss
        for total, part in zip(outs[w][3:], own[3:], strict=True):
            total += part
    return [
        MixtureResiduals(loss, Scores(out.ends, out.pair, out.start, out.rows), out.gate)
        for loss, out in zip(losses, outs, strict=True)
    ]


# -- How probable whole spans of labels are under a mixture of parents ---------------------------------
#
# P(span) = E Π_t φ_t(Y_t), with φ_t the indicator of the label of t, and for the instance behind the span that of the
# labels that do not carry it on. The latest instance k of such a product follows one parent, so it can be taken out:
#
#     E φ_k(Y_k) Π_t φ_t(Y_t) = Σ_c α_c E ψ_c(Y_j) Π_t φ_t(Y_t),      ψ_c(i) = Σ_y p_c(y | i) φ_k(y)
#
# where j, the parent of c, may be among the t. So the set of instances never grows, it shrinks where two follow the
# same one, and E φ(Y_j) of a single instance is φ · m_j. Branches that reach the same set are added up in one table of
# its labels (L^m for m instances), the latest first; an instance that shares no ancestor with the others of its set is
# taken out by its marginal. All of this is exact. A span that would need more than WORK multiplications is given up:
# its instances outside count as independent of each other, an approximation that is marked as such,
#
#     P(span) ≈ Π_v Σ_c α_c ( p_c(l_v | l_j) if the parent j of c is in the span, else π_c(l_v) )
#
# A product over many instances leaves the range of float64: tables are scaled up on the way, and logarithms are kept.

WORK = 10_000_000  # multiplications a span
GROUP_WORK = 1_000_000_000  # and for all spans of a group, shared evenly: a group of a million instances ends, too
KEPT = 1 << 24  # numbers in the conditionals of a group that are kept; of a larger one they are worked out anew
SMALL = 1e-100  # tables whose largest number is below are scaled up
ROOM = 1 << 20  # numbers in the tables of a span
MOST_SETS, MOST_LIVE = 8192, 12
LARGE = 4096  # instances of a group beyond which nobody asks who shares an ancestor
# Of this type, as kernels are compiled once more for each plain number that they are given.
NOT_FIXED: Any = np.int64(-1)
NOBODY: Any = np.int64(-1)
USED, ALIVE, NUMBERS, DONE, GIVEN_UP = range(5)  # of `Sets.tally`


class LabelledSpan(NamedTuple):
    """Instances first, ..., first + len(labels) - 1 with these labels; `follower`: whether one more comes behind."""

    first: int
    labels: NDArray[np.integer]
    follower: bool


class SpanProbabilities(NamedTuple):
    """values (m,), whether each of them is exact (m,), and their logarithms (m,), finite where a value is too small for
    float64."""

    values: NDArray[np.float64]
    exact: NDArray[np.bool_]
    logs: NDArray[np.float64]


class Spans(NamedTuple):
    """All spans: labels of span s are labels[starts[s]:starts[s + 1]]; closing (m, L): which labels may follow."""

    first: NDArray[np.int64]
    starts: NDArray[np.int64]
    labels: NDArray[np.int64]
    follower: NDArray[np.bool_]
    closing: NDArray[np.bool_]


class Mixed(NamedTuple):
    """A mixture with what is known of it: rank (n,) of instances, marginals (n, L), labels (n,) that are certain."""

    wiring: Wiring
    model: Model
    alpha: Array
    rank: NDArray[np.int64]
    marginals: Array
    known: NDArray[np.int32]


class Ancestry(NamedTuple):
    """Of one group: its first instance; bits (size, words) of the ancestors of each and itself; conditionals of its
    components and whether they are there yet; room for a single one where they are too many to be kept."""

    first: int
    bits: NDArray[np.uint64]
    conditionals: Array
    there: NDArray[np.bool_]


class Sets(NamedTuple):
    """Sets of instances with a table over their labels.

    members   (MOST_SETS, MOST_LIVE) ranks, the latest first        size    (MOST_SETS,)
    table     (MOST_SETS,), where in `room` its L^size numbers are  after   (MOST_SETS,), the next set with this latest
    head      by the rank of the latest + 1, or 0 without any: the first set, -1: none
    product   as much room for one product of a table
    tally     sets in use, those with something left to take out, numbers in use, multiplications done, 1: given up
    """

    members: NDArray[np.int64]
    size: NDArray[np.int64]
    table: NDArray[np.int64]
    after: NDArray[np.int64]
    head: NDArray[np.int64]
    room: Array
    product: Array
    tally: NDArray[np.int64]


def mixture_span_probabilities(
    wiring: Wiring, scores: Scores, alpha: Array, found: Beliefs, spans: Sequence[LabelledSpan], continues: Array,
    known: NDArray[np.int32] | None = None, work: int = WORK, n_jobs: int = 1,
) -> SpanProbabilities:  # fmt: skip
    """The probability of each span. `continues` (L, L): True where label y behind label i carries a span on.

    known   labels that are certain, -1 for the others
    work    multiplications after which a span is approximated, less where a group has many spans
    """
    dag = wiring.dag
    labels = np.full(dag.n_instances, -1, np.int32) if known is None else known
    mixed = Mixed(wiring, Model.of(scores), alpha, dag.rank, found.marginals, labels)
    firsts = np.array([span.first for span in spans], np.int64)
    by_place, group = np.argsort(firsts, kind="stable"), np.searchsorted(dag.group_starts, firsts, side="right")
    limit = np.minimum(work, GROUP_WORK // np.maximum(1, np.bincount(group)))[group]
    values, logs, exact = np.empty(len(spans)), np.empty(len(spans)), np.ones(len(spans), bool)
    cuts = np.linspace(0, len(spans), min(len(spans), n_jobs) + 1).astype(int)

    def run(part: int) -> None:
        own = by_place[cuts[part] : cuts[part + 1]]
        here = _spans([spans[i] for i in own], continues)
        shares, scale = _exactly(mixed, here, limit[own])
        exact[own] = ~np.isnan(shares)
        _as_if_independent(mixed, found.predicted, here, shares, scale)
        with np.errstate(divide="ignore"):
            logs[own] = np.log(shares) + scale
        values[own] = np.where(scale == 0, shares, np.exp(logs[own]))

    run_chunks(run, len(cuts) - 1, n_jobs)
    return SpanProbabilities(values, exact, logs)


def _spans(spans: Sequence[LabelledSpan], continues: Array) -> Spans:
    labels = np.concatenate([np.empty(0, np.int64), *(span.labels for span in spans)]).astype(np.int64)
    starts = np.cumsum([0, *(len(span.labels) for span in spans)]).astype(np.int64)
    first = np.array([span.first for span in spans], np.int64)
    follower = np.array([span.follower for span in spans], bool)
    return Spans(first, starts, labels, follower, ~continues[labels[starts[1:] - 1]])


@njit(nogil=True, cache=True)
def _exactly(mixed, spans, limit):
    """(m,) and (m,): the probability of a span is value · exp(scale); nan where it would need more work than its
    limit. Spans stand in order of their first instance."""
    dag, n_labels = mixed.wiring.dag, mixed.marginals.shape[1]
    values, scale, sets = np.empty(len(spans.first)), np.empty(len(spans.first)), _no_sets(len(mixed.rank))
    fixed = np.full(len(mixed.rank), NOT_FIXED)  # by instance: the label it has in the span
    group, ancestry, scratch = -1, _ancestry(mixed, np.int64(0), np.int64(0)), _scratch(n_labels)
    for s in range(len(values)):
        first, labels = spans.first[s], spans.labels[spans.starts[s] : spans.starts[s + 1]]
        own = np.searchsorted(dag.group_starts, first, side="right") - 1
        if own != group:
            group, ancestry = own, _ancestry(mixed, dag.group_starts[own], dag.group_starts[own + 1])
        for v in range(len(labels)):
            fixed[first + v] = labels[v]
        values[s], scale[s] = _one_span(mixed, ancestry, spans, s, fixed, sets, scratch, limit[s])
        fixed[first : first + len(labels)] = NOT_FIXED
    return values, scale


@njit(nogil=True, cache=True)
def _no_sets(n_instances):
    members = np.empty((MOST_SETS, MOST_LIVE), np.int64)
    numbers = np.empty((3, MOST_SETS), np.int64)
    head = np.full(n_instances + 1, -1)
    return Sets(
        members, numbers[0], numbers[1], numbers[2], head, np.empty(ROOM), np.empty(ROOM), np.zeros(5, np.int64)
    )


@njit(nogil=True, cache=True)
def _ancestry(mixed, first, last):
    """Of the instances of a group. A known label depends on nobody."""
    dag, n_labels = mixed.wiring.dag, mixed.marginals.shape[1]
    size = last - first
    if size > LARGE:  # ancestors are not looked up
        size = 0
    n_components = dag.indptr[last] - dag.indptr[first]
    bits = np.zeros((size, (size + 63) // 64), np.uint64)
    for place in range(first, first + size):
        k = dag.order[place]
        if mixed.known[k] >= 0:
            continue
        bits[k - first, (k - first) // 64] |= np.uint64(1) << np.uint64((k - first) % 64)
        for c in range(dag.indptr[k], dag.indptr[k + 1]):
            if dag.parent[c] >= 0:
                for word in range(bits.shape[1]):
                    bits[k - first, word] |= bits[dag.parent[c] - first, word]
    kept = n_components if n_components * n_labels**2 <= KEPT else 1
    there = np.zeros(kept, np.bool_)
    return Ancestry(first, bits, np.empty((kept, n_labels, n_labels)), there)


@njit(nogil=True, cache=True, inline="always")
def _one_span(mixed, ancestry, spans, s, fixed, sets, scratch, work):
    """The probability of one span is value · exp(scale); nan if it would need too much work."""
    order, first, size = mixed.wiring.dag.order, spans.first[s], spans.starts[s + 1] - spans.starts[s]
    n_labels, last = mixed.marginals.shape[1], first + size + spans.follower[s]
    top, left, scale = 0, 0, 0.0  # the latest rank; how many instances of the span are still to be taken out
    for k in range(first, last):
        known = mixed.known[k]
        if known >= 0 and (fixed[k] != known if k < first + size else not spans.closing[s, known]):
            return 0.0, 0.0
        left += k < first + size and known < 0
        top = max(top, mixed.rank[k])
    _begin(mixed, sets, first + size, spans.follower[s], spans.closing[s])
    for place in range(top, -1, -1):
        k = order[place]
        if fixed[k] >= 0 and mixed.known[k] < 0:
            _take_fixed(mixed, ancestry, sets, k, fixed, scratch)
            scale += _scaled_up(sets, n_labels)
            left -= 1
        else:
            _take(mixed, ancestry, sets, place, left == 0, fixed, scratch)
        sets.tally[DONE] += 1
        if sets.tally[GIVEN_UP] or sets.tally[DONE] > work:
            _clear(sets)
            return math.nan, 0.0
        if left == 0 and sets.tally[ALIVE] == (sets.head[0] >= 0):
            break
    value = sets.room[sets.table[sets.head[0]]] if sets.head[0] >= 0 else 0.0
    _clear(sets)
    return value, scale


@njit(nogil=True, cache=True)
def _scaled_up(sets, n_labels):
    """Scales the tables of all sets by one factor, should they be small; the logarithm of what was taken out."""
    top = 0.0
    for number in range(sets.tally[USED]):
        if sets.size[number] >= 0:
            for r in range(sets.table[number], sets.table[number] + n_labels ** sets.size[number]):
                top = max(top, sets.room[r])
    if not 0.0 < top < SMALL:
        return 0.0
    for number in range(sets.tally[USED]):
        if sets.size[number] >= 0:
            for r in range(sets.table[number], sets.table[number] + n_labels ** sets.size[number]):
                sets.room[r] /= top
    return math.log(top)


@njit(nogil=True, cache=True)
def _begin(mixed, sets, behind, follower, closing):
    """The one set before anything is taken out: the follower, with the labels that it may have, or nobody."""
    soft = follower and mixed.known[behind] < 0
    number = _set_of(sets, sets.members[0], np.int64(0), mixed.rank[behind] if soft else NOBODY, len(closing))
    at = sets.table[number]
    sets.room[at] = 1.0
    if soft:
        for y in range(len(closing)):
            sets.room[at + y] = 1.0 if closing[y] else 0.0


@njit(nogil=True, cache=True)
def _set_of(sets, members, size, extra, n_labels):
    """The number of the set of these members and one more (-1: none), with a table of zeros if it is new; -1 if there
    is no room for it."""
    tally = sets.tally
    number, total = tally[USED], size + (extra >= 0)
    if number == MOST_SETS or total > MOST_LIVE or tally[NUMBERS] + n_labels**total > ROOM:
        tally[GIVEN_UP] = 1
        return -1
    own = sets.members[number]  # behind the last set: a place to try
    at = 0
    for m in range(size):
        if extra > members[m] and at == m:
            own[at] = extra
            at += 1
        own[at] = members[m]
        at += 1
    if at < total:
        own[at] = extra
    latest = own[0] + 1 if total else 0
    known = sets.head[latest]
    while known >= 0:
        same = sets.size[known] == total
        for m in range(total):
            same = same and sets.members[known, m] == own[m]
        if same:
            return known
        known = sets.after[known]
    sets.size[number], sets.table[number], sets.after[number] = total, tally[NUMBERS], sets.head[latest]
    sets.head[latest] = number
    sets.room[tally[NUMBERS] : tally[NUMBERS] + n_labels**total] = 0.0
    tally[USED], tally[ALIVE], tally[NUMBERS] = number + 1, tally[ALIVE] + 1, tally[NUMBERS] + n_labels**total
    return number


@njit(nogil=True, cache=True)
def _clear(sets):
    for number in range(sets.tally[USED]):
        if sets.size[number] >= 0:
            sets.head[sets.members[number, 0] + 1 if sets.size[number] else 0] = -1
    sets.tally[:] = 0


@njit(nogil=True, cache=True, inline="always")
def _take_fixed(mixed, ancestry, sets, k, fixed, scratch):
    """Take an instance of the span, with its label, out of every set."""
    dag, before = mixed.wiring.dag, sets.tally[USED]
    for number in range(before):
        if sets.size[number] >= 0:
            sets.head[sets.members[number, 0] + 1 if sets.size[number] else 0] = -1
    for number in range(before):
        if sets.size[number] >= 0:
            for c in range(dag.indptr[k], dag.indptr[k + 1]):
                _follow(mixed, ancestry, sets, number, c, fixed, fixed[k], scratch)
            _remove(sets, number)


@njit(nogil=True, cache=True, inline="always")
def _take(mixed, ancestry, sets, place, alone, fixed, scratch):
    """Take the instance at a place of the order out of the sets whose latest it is. `alone`: nothing but the members of
    a set is left, so that one who shares no ancestor with the others is independent of all."""
    dag, k = mixed.wiring.dag, mixed.wiring.dag.order[place]
    number = sets.head[place + 1]
    sets.head[place + 1] = -1
    while number >= 0:
        if alone and _is_independent(dag, ancestry, sets, number):
            _by_marginal(sets, number, mixed.marginals[k])
        else:
            for c in range(dag.indptr[k], dag.indptr[k + 1]):
                _follow(mixed, ancestry, sets, number, c, fixed, NOT_FIXED, scratch)
        _remove(sets, number)
        number = sets.after[number]


@njit(nogil=True, cache=True)
def _remove(sets, number):
    sets.size[number] = -1
    sets.tally[ALIVE] -= 1


@njit(nogil=True, cache=True)
def _is_independent(dag, ancestry, sets, number):
    """Whether the latest of a set shares no ancestor with the others."""
    if sets.size[number] > 1 and not len(ancestry.bits):
        return False
    own = dag.order[sets.members[number, 0]] - ancestry.first
    for m in range(1, sets.size[number]):
        other = dag.order[sets.members[number, m]] - ancestry.first
        for word in range(ancestry.bits.shape[1]):
            if ancestry.bits[own, word] & ancestry.bits[other, word]:
                return False
    return True


@njit(nogil=True, cache=True)
def _by_marginal(sets, number, marginal):
    """Sum the latest of a set out by its marginal."""
    n_labels, size = len(marginal), sets.size[number]
    target = _set_of(sets, sets.members[number, 1:], size - 1, NOBODY, n_labels)
    if target < 0:
        return
    n, source, at = n_labels ** (size - 1), sets.table[number], sets.table[target]
    sets.tally[DONE] += n * n_labels
    for y in range(n_labels):
        for r in range(n):
            sets.room[at + r] += marginal[y] * sets.room[source + y * n + r]


@njit(nogil=True, cache=True)
def _follow(mixed, ancestry, sets, number, c, fixed, label, scratch):
    """One branch of taking an instance out of a set: it follows component c. `label`: that of an instance of the span,
    which is no member of the set; else it is the latest member."""
    dag, n_labels, soft = mixed.wiring.dag, mixed.marginals.shape[1], label < 0
    if mixed.alpha[c] == 0:
        return
    j, rest = dag.parent[c], sets.size[number] - soft
    members = sets.members[number, 1:] if soft else sets.members[number]
    seen, live = NOT_FIXED, NOBODY  # the label its parent is known to have; the rank of one whose label is open
    if j < 0:
        seen = 0  # a start component has one row
    elif mixed.known[j] >= 0:
        seen = mixed.known[j]
    elif fixed[j] >= 0:
        seen = fixed[j]
    else:
        live = mixed.rank[j]
    axis = -1
    for m in range(rest):
        if members[m] == live:
            axis = m
    target = _set_of(sets, members, rest, NOBODY if axis >= 0 else live, n_labels)
    n = n_labels**rest
    sets.tally[DONE] += n * n_labels * (n_labels if soft else 1)
    if target < 0 or n * n_labels > len(sets.product):
        sets.tally[GIVEN_UP] = 1
        return
    table = _known_conditional(mixed, ancestry, c, scratch)
    _push_labels(sets, number, target, table, mixed.alpha[c], label, seen, axis, members, rest, live)


@njit(nogil=True, cache=True)
def _push_labels(sets, number, target, conditional, alpha, label, seen, axis, members, rest, live):
    """Add α Σ_y p(y | i) table[y, r] to the table of the target, at r with i beside it, or where r has label i already:
    r are labels of the others, i is that of the parent."""
    room, n_labels = sets.room, len(conditional)
    n, source, at = n_labels**rest, sets.table[number], sets.table[target]
    place = 0  # the axis of the parent in the target's table
    while place < rest and ((axis < 0 and members[place] > live) or place < axis):
        place += 1
    inner = n_labels ** (rest - place - (axis >= 0))  # how far apart its labels are there
    for i in range(n_labels):
        if seen >= 0 and i != seen:
            continue
        product = sets.product[:n]
        if label >= 0:
            for r in range(n):
                product[r] = alpha * conditional[i, label] * room[source + r]
        else:
            product[:] = 0.0
            for y in range(n_labels):
                share = alpha * conditional[i, y]
                for r in range(n):
                    product[r] += share * room[source + y * n + r]
        for r in range(n):
            if seen >= 0:
                room[at + r] += product[r]
            elif axis >= 0:
                if r // inner % n_labels == i:
                    room[at + r] += product[r]
            else:
                room[at + r // inner * inner * n_labels + i * inner + r % inner] += product[r]


@njit(nogil=True, cache=True)
def _known_conditional(mixed, ancestry, c, scratch):
    """(L, L), p_c(y | i), worked out once where there is room; a start component has one row."""
    kept = len(ancestry.there) > 1
    at = c - mixed.wiring.dag.indptr[ancestry.first] if kept else 0
    table = ancestry.conditionals[at]
    if not ancestry.there[at]:
        ancestry.there[at] = kept
        if mixed.wiring.dag.parent[c] < 0:
            _local_scores(mixed.model.ends, mixed.wiring.child_slot[c], -1, scratch.change)
            for y in range(len(table)):
                scratch.change[y] += mixed.model.start[y]
            softmax(scratch.change, table[0])
        else:
            _conditional(c, mixed.wiring, mixed.model, scratch.change, scratch)
            for i in range(len(table)):
                for y in range(len(table)):
                    table[i, y] = scratch.conditional[i, y]
    return table


@njit(nogil=True, cache=True)
def _as_if_independent(mixed, predicted, spans, shares, scale):
    """Fills in the spans that were given up (nan): a share of 1 and the logarithm of the probability as its scale."""
    scratch = _scratch(mixed.marginals.shape[1])
    for s in range(len(shares)):
        if math.isnan(shares[s]):
            log_p = _log_if_independent(mixed, predicted, spans, s, scratch)
            shares[s], scale[s] = (1.0, log_p) if log_p > -math.inf else (0.0, 0.0)


@njit(nogil=True, cache=True)
def _log_if_independent(mixed, predicted, spans, s, scratch):
    """log of the formula above, summed over the labels that may follow the span; a single one where nothing does."""
    dag, labels = mixed.wiring.dag, spans.labels[spans.starts[s] : spans.starts[s + 1]]
    first, size, follower = spans.first[s], len(labels), spans.follower[s]
    total = np.zeros(mixed.marginals.shape[1] if follower else 1)
    factor = np.empty(len(total))
    if follower:
        for y in range(len(total)):
            total[y] = 0.0 if spans.closing[s, y] else -math.inf
    for k in range(first, first + size + follower):
        behind = k == first + size
        if mixed.known[k] >= 0:
            for y in range(len(total)):
                if (y if behind else labels[k - first]) != mixed.known[k]:
                    total[y] = -math.inf
            continue
        factor[:] = 0.0
        for c in range(dag.indptr[k], dag.indptr[k + 1]):
            inside = dag.parent[c] - first
            within = dag.parent[c] >= 0 and 0 <= inside < size + follower
            if within:
                _conditional(c, mixed.wiring, mixed.model, scratch.change, scratch)
            for y in range(len(total)):
                own = y if behind else labels[k - first]
                if within:
                    factor[y] += mixed.alpha[c] * scratch.conditional[y if inside == size else labels[inside], own]
                else:
                    factor[y] += mixed.alpha[c] * predicted[c, own]
        for y in range(len(total)):
            total[y] += math.log(factor[y]) if factor[y] > 0 else -math.inf
    return log_sum(total)
