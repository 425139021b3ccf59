"""Mixture of parents for a whole data set: marginals, what each component predicts, loss and residuals, on threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import FAST, njit
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.errors import InputError

# -- The shape of a mixture of parents: who looks at whom, and an order in which everybody comes after his parents ---
#
# Each instance has components, the terms of its mixture: one an edge to a parent, and perhaps a start component,
# which looks at nobody. Components stand instance by instance; within one the start component comes first, then the
# edges relation by relation.

Array = NDArray[Any]
START = -1  # the "parent" and the "relation" of a start component


@dataclass(frozen=True, eq=False)
class Dag:
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

    @cached_property
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
    edges: Sequence[Array],
    groups: Array,
    start: NDArray[np.bool_] | None = None,
    names: Sequence[str] | None = None,
) -> Dag:
    """Components of a list of relations, each an int array (E, 2) of (child, parent).

    groups  int (n,), rising; an edge may not leave its group
    start   bool (n,): who has a start component besides; those without any parent always have one
    """
    n = len(groups)
    lists = [np.asarray(e, np.int64).reshape(-1, 2) for e in edges]
    for r, pairs in enumerate(lists):
        _check_edges(pairs, groups, names[r] if names else str(r))
    child = np.concatenate([np.empty(0, np.int64), *(pairs[:, 0] for pairs in lists)])
    parent = np.concatenate([np.empty(0, np.int64), *(pairs[:, 1] for pairs in lists)])
    relation = np.repeat(np.arange(len(lists)), [len(pairs) for pairs in lists]).astype(np.int64)
    edge = np.concatenate([np.empty(0, np.int64), *(np.arange(len(pairs)) for pairs in lists)])
    begins = np.bincount(child, minlength=n) == 0
    if start is not None:
        begins |= start
    roots = np.flatnonzero(begins)
    nobody = np.full(len(roots), START, np.int64)
    columns = [np.concatenate(pair) for pair in ((nobody, parent), (nobody, relation), (nobody, edge))]
    child = np.concatenate([roots, child])
    by = np.lexsort((columns[0], columns[1], child))  # by instance, then relation (start first), then parent
    indptr = np.concatenate([[0], np.cumsum(np.bincount(child, minlength=n))]).astype(np.int64)
    group_starts = np.append(np.flatnonzero(np.diff(groups, prepend=-1)), n).astype(np.int64)
    parents = columns[0][by]
    order = _order(indptr, parents, group_starts)
    return Dag(indptr, parents, columns[1][by], columns[2][by], order, group_starts)


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
# With E = exp(T) and e = exp(s - max), p_c(y | i) = E[i, y] e[y] / Z[i] and Z = E e: L exponentials a component, not
# L².
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


@njit(nogil=True, cache=True)
def _own_table(pair, begin, end, rows, row_values, weights, out):
    """T of one component: its relation's table, and the label-pair weights of its own features begin, ..., end - 1."""
    n_labels = out.shape[0]
    for i in range(n_labels):
        for y in range(n_labels):
            out[i, y] = pair[i, y]
    for p in range(begin, end):
        value = row_values[p] if len(row_values) else 1.0
        at = 0
        for i in range(n_labels):
            for y in range(n_labels):
                out[i, y] += value * weights[rows[p], at]
                at += 1


@njit(nogil=True, cache=True)
def _softmax_rows(table, local, out):
    """out[i, y] = p(y | i) ∝ exp(table[i, y] + local[y]), whatever the size of the scores."""
    n_labels = out.shape[0]
    for i in range(n_labels):
        top = -math.inf
        for y in range(n_labels):
            top = max(top, table[i, y] + local[y])
        total = 0.0
        for y in range(n_labels):
            out[i, y] = math.exp(table[i, y] + local[y] - top)
            total += out[i, y]
        for y in range(n_labels):
            out[i, y] /= total


@njit(nogil=True, cache=True, fastmath=FAST)
def _local_scores(scores, child_slot, parent_slot, out):
    """Scores of both ends of a component; returns the best."""
    top = -math.inf
    for y in range(len(out)):
        out[y] = scores[child_slot, y]
        if parent_slot >= 0:
            out[y] += scores[parent_slot, y]
        top = max(top, out[y])
    return top


@njit(nogil=True, cache=True, fastmath=FAST)
def _predict_start(local, start, out):
    """out = softmax(start + local)."""
    top = -math.inf
    for y in range(len(out)):
        local[y] += start[y]
        top = max(top, local[y])
    total = 0.0
    for y in range(len(out)):
        out[y] = math.exp(local[y] - top)
        total += out[y]
    for y in range(len(out)):
        out[y] /= total


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
def _conditional(c, dag, model, local, table, out):
    """p_c(y | i), from the scores of both ends: for tables of their own, and for scores beyond the fast way."""
    relation, child_slot, parent_slot = dag[2], dag[4], dag[5]
    scores, pair, row_starts, rows, row_values, weights = model[0], model[1], model[4], model[5], model[6], model[7]
    _local_scores(scores, child_slot[c], parent_slot[c], local)
    begin, end = (row_starts[c], row_starts[c + 1]) if len(row_starts) > 1 else (0, 0)
    _own_table(pair[relation[c]], begin, end, rows, row_values, weights, table)
    _softmax_rows(table, local, out)


@njit(nogil=True, cache=True)
def sweep_forward(dag, model, first, last, labels, clamp, alpha, marginals, predicted, local, share):
    """Marginals (n, L) of the instances at places first, ..., last - 1 of the order: whole groups.

    dag     (indptr, parent, relation, order, child_slot, parent_slot)
    model   (scores (S, L), pair (R, L, L), exp_pair, start (L,), and features of label pairs: row_starts (C + 1,)
            or empty, rows, row_values, weights (G, L²))
    clamp   children see the known label of a parent instead of its marginal
    predicted, local, share   (components of these instances, L): π, e, and belief / Z, kept for the way back;
            share[c, 0] = nan marks a component that is done the slow way
    """
    indptr, parent, relation, order, child_slot, parent_slot = dag
    scores, exp_pair, start, row_starts = model[0], model[2], model[3], model[4]
    n_labels = marginals.shape[1]
    belief = np.empty(n_labels)
    table, conditional = np.empty((n_labels, n_labels)), np.empty((n_labels, n_labels))
    base = indptr[first]  # whole groups: their components stand together
    for place in range(first, last):
        k = order[place]
        for y in range(n_labels):
            marginals[k, y] = 0.0
        for c in range(indptr[k], indptr[k + 1]):
            at, j = c - base, parent[c]
            top = _local_scores(scores, child_slot[c], parent_slot[c], local[at])
            if j < 0:
                _predict_start(local[at], start, predicted[at])
            else:
                _see(marginals[j], labels[j], clamp, belief)
                own = len(row_starts) > 1 and row_starts[c + 1] > row_starts[c]
                if own or not _predict(exp_pair[relation[c]], belief, local[at], top, share[at], predicted[at]):
                    share[at, 0] = math.nan
                    _conditional(c, dag, model, local[at], table, conditional)
                    _predict_slowly(conditional, belief, predicted[at])
            for y in range(n_labels):
                marginals[k, y] += alpha[c] * predicted[at, y]


@njit(nogil=True, cache=True, fastmath=FAST)
def _back(exp_pair, alpha, slope, predicted, local, share, outer, change, told, within):
    """change[y] = ∂loss/∂s[y] and told[i] = c[i] of one component; adds to `outer`, which lacks the factor E."""
    n_labels = len(slope)
    for y in range(n_labels):
        within[y] = 0.0  # Σ_i belief[i] / Z[i] · c[i] · E[i, y]
    for i in range(n_labels):
        total, sum_ = 0.0, 0.0
        for y in range(n_labels):
            weight = exp_pair[i, y] * local[y]
            total += weight
            sum_ += weight * slope[y]
        told[i] = sum_ / total
        part = share[i] * told[i]
        for y in range(n_labels):
            within[y] += part * exp_pair[i, y]
    for i in range(n_labels):
        part = alpha * share[i]
        for y in range(n_labels):
            outer[i, y] += part * local[y] * (slope[y] - told[i])
    for y in range(n_labels):
        change[y] = alpha * (slope[y] * predicted[y] - local[y] * within[y])


@njit(nogil=True, cache=True)
def _back_slowly(conditional, belief, alpha, slope, begin, end, rows, row_values, pair_out, row_out, change, told):
    """The same from the table of conditionals; adds to the residuals of T and of the features of label pairs."""
    n_labels = len(slope)
    change[:] = 0.0
    for i in range(n_labels):
        told[i] = 0.0
        for y in range(n_labels):
            told[i] += conditional[i, y] * slope[y]
        for y in range(n_labels):
            step = alpha * belief[i] * conditional[i, y] * (slope[y] - told[i])
            change[y] += step
            pair_out[i, y] += step
            for p in range(begin, end):
                row_out[rows[p], i * n_labels + y] += step * (row_values[p] if len(row_values) else 1.0)


@njit(nogil=True, cache=True)
def _own_loss(probability, weight):
    """(weight · -log p, its derivative by p)."""
    p = max(probability, LEAST)
    return -weight * math.log(p), -weight / p


@njit(nogil=True, cache=True, fastmath=FAST)
def sweep_back(
    dag, model, first, last, labels, clamp, weights, alpha, marginals, predicted, local, share,
    slope, residual, outer, pair_residual, start_residual, row_residual, gate_residual,
):  # fmt: skip
    """Loss of these instances; its derivatives are added to

    slope (n, L)             by marginals (scratch, zero before)
    residual (S, L)          by scores of ends
    outer, pair_residual (R, L, L)  by T; what stands in `outer` lacks the factor E, common to all components
    start_residual (L,), row_residual (G, L²)   by start scores and label-pair weights
    gate_residual (C,)       by logits of the mixing weights: α_c (∂loss/∂α_c - Σ α ∂loss/∂α)
    """
    indptr, parent, relation, order, child_slot, parent_slot = dag
    exp_pair, row_starts, rows, row_values = model[2], model[4], model[5], model[6]
    n_labels = marginals.shape[1]
    belief, change, told, within = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    table, conditional = np.empty((n_labels, n_labels)), np.empty((n_labels, n_labels))
    base = indptr[first]  # whole groups: their components stand together
    loss = 0.0
    for place in range(last - 1, first - 1, -1):
        k = order[place]
        if labels[k] >= 0 and weights[k] > 0:
            own_loss, own_slope = _own_loss(marginals[k, labels[k]], weights[k])
            loss += own_loss
            slope[k, labels[k]] += own_slope
        mean = 0.0
        for c in range(indptr[k], indptr[k + 1]):
            at, j = c - base, parent[c]
            by_alpha = 0.0
            for y in range(n_labels):
                by_alpha += predicted[at, y] * slope[k, y]
            gate_residual[c] = alpha[c] * by_alpha
            mean += alpha[c] * by_alpha
            if j < 0:
                for y in range(n_labels):
                    change[y] = alpha[c] * predicted[at, y] * (slope[k, y] - by_alpha)
                    start_residual[y] += change[y]
            else:
                r = relation[c]
                if math.isnan(share[at, 0]):
                    _see(marginals[j], labels[j], clamp, belief)
                    _conditional(c, dag, model, local[at], table, conditional)
                    begin, end = (row_starts[c], row_starts[c + 1]) if len(row_starts) > 1 else (0, 0)
                    _back_slowly(
                        conditional, belief, alpha[c], slope[k], begin, end, rows, row_values,
                        pair_residual[r], row_residual, change, told,
                    )  # fmt: skip
                else:
                    _back(
                        exp_pair[r], alpha[c], slope[k], predicted[at], local[at], share[at],
                        outer[r], change, told, within,
                    )  # fmt: skip
                if not (clamp and labels[j] >= 0):
                    for i in range(n_labels):
                        slope[j, i] += alpha[c] * told[i]
                if parent_slot[c] >= 0:
                    for y in range(n_labels):
                        residual[parent_slot[c], y] += change[y]
            for y in range(n_labels):
                residual[child_slot[c], y] += change[y]
        for c in range(indptr[k], indptr[k + 1]):
            gate_residual[c] -= alpha[c] * mean
    return loss


# -----------------------------------------------------------------------------------------------------
# Mixture of parents for a whole data set: marginals, what each component predicts, loss and residuals, on threads.

CHUNKS = 32
NO_ROWS = (np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0))


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


@dataclass(frozen=True, eq=False)
class Wiring:
    """A Dag, and where in the scores its components find theirs.

    child_slot, parent_slot   int64 (C,), rows of `Scores.ends`; a parent_slot of -1: the parent's features are no part
    pair_rows                 CSR parts (indptr (C + 1,), indices, values) of features of label pairs, a row a component
    """

    dag: Dag
    child_slot: NDArray[np.int64]
    parent_slot: NDArray[np.int64]
    pair_rows: tuple[Array, Array, Array] = NO_ROWS
    _bounds: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        cost = self.dag.indptr[self.dag.group_starts]  # components before each group
        object.__setattr__(self, "_bounds", even_bounds(cost, CHUNKS) if len(cost) > 1 else np.zeros(1, np.int64))

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """Runs of whole groups, of about equal cost."""
        return list(pairwise(self._bounds.tolist()))

    def kernel_arrays(self) -> tuple[Array, ...]:
        dag = self.dag
        return dag.indptr, dag.parent, dag.relation, dag.order, self.child_slot, self.parent_slot


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


def _kernel_model(wiring: Wiring, scores: Scores) -> tuple[Array, ...]:
    """The scores as the kernels take them: T less the best of its row, which changes no conditional."""
    pair = scores.pair.astype(np.float64)
    pair = pair - pair.max(axis=2, keepdims=True) if pair.size else pair
    rows = np.ascontiguousarray(scores.rows, np.float64)
    return scores.ends, pair, np.exp(pair), scores.start.astype(np.float64), *wiring.pair_rows, rows


@njit(nogil=True, cache=True)
def _forward_chunk(dag, model, first, last, labels, clamp, alpha, marginals, predicted):
    base, n_labels = dag[0][first], marginals.shape[1]
    size = dag[0][last] - base
    local, share = np.empty((size, n_labels)), np.empty((size, n_labels))
    sweep_forward(dag, model, first, last, labels, clamp, alpha, marginals, predicted[base : base + size], local, share)


@njit(nogil=True, cache=True)
def _both_ways(
    dag, model, group_starts, first_group, last_group, labels, clamp, weights, alpha, marginals, slope, residual,
    pair_residual, start_residual, row_residual, gate_residual,
):  # fmt: skip
    """Forward and back, group by group. A group without labels that count has no loss, and is passed over."""
    indptr, n_labels = dag[0], marginals.shape[1]
    largest = 0
    for g in range(first_group, last_group):
        largest = max(largest, indptr[group_starts[g + 1]] - indptr[group_starts[g]])
    local, share, predicted = (
        np.empty((largest, n_labels)),
        np.empty((largest, n_labels)),
        np.empty((largest, n_labels)),
    )
    outer = np.zeros(pair_residual.shape)
    loss = 0.0
    for g in range(first_group, last_group):
        first, last = group_starts[g], group_starts[g + 1]
        counts = False
        for k in range(first, last):
            counts = counts or (labels[k] >= 0 and weights[k] > 0)
        if not counts:
            continue
        sweep_forward(dag, model, first, last, labels, clamp, alpha, marginals, predicted, local, share)
        loss += sweep_back(
            dag, model, first, last, labels, clamp, weights, alpha, marginals, predicted, local, share,
            slope, residual, outer, pair_residual, start_residual, row_residual, gate_residual,
        )  # fmt: skip
    exp_pair = model[2]
    for r in range(outer.shape[0]):
        for i in range(n_labels):
            for y in range(n_labels):
                pair_residual[r, i, y] += outer[r, i, y] * exp_pair[r, i, y]
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
    models = [_kernel_model(wiring, scores) for wiring in wirings]
    shapes = [(wiring.dag.n_instances, wiring.dag.n_components) for wiring in wirings]
    found = [Beliefs(*(np.empty((size, len(scores.start))) for size in shape)) for shape in shapes]
    tasks = [(w, first, last) for w, wiring in enumerate(wirings) for first, last in wiring.chunks]

    def run(task: int) -> None:
        w, *groups = tasks[task]
        wiring, (marginals, predicted) = wirings[w], found[w]
        known = np.full(len(marginals), -1, np.int32) if labels is None else labels
        first, last = wiring.dag.group_starts[groups]
        arrays, clamp = wiring.kernel_arrays(), labels is not None
        _forward_chunk(arrays, models[w], first, last, known, clamp, alphas[w], marginals, predicted)

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
    models = [_kernel_model(wiring, scores) for wiring in wirings]
    answers = [_empty(wiring, scores) for wiring in wirings]
    tasks = [(w, first, last) for w, wiring in enumerate(wirings) for first, last in wiring.chunks]
    shape = len(labels), len(scores.start)
    marginals, slopes = ([make(shape) for _ in wirings] for make in (np.empty, np.zeros))

    def run(task: int) -> tuple[float, Array, Array, Array]:
        w, first, last = tasks[task]
        wiring, (_, out, gate) = wirings[w], answers[w]
        pair, start, rows = np.zeros(out.pair.shape), np.zeros(out.start.shape), np.zeros(out.rows.shape)
        loss = _both_ways(
            wiring.kernel_arrays(), models[w], wiring.dag.group_starts, first, last,
            labels, clamp, weights, alphas[w], marginals[w], slopes[w], out.ends, pair, start, rows, gate,
        )  # fmt: skip
        return loss, pair, start, rows

    for (w, _, _), (loss, pair, start, rows) in zip(tasks, run_chunks(run, len(tasks), n_jobs), strict=True):
        _, out, gate = answers[w]
        for total, part in ((out.pair, pair), (out.start, start), (out.rows, rows)):
            total += part
        answers[w] = MixtureResiduals(answers[w].loss + loss, out, gate)
    return answers


def _empty(wiring: Wiring, scores: Scores) -> MixtureResiduals:
    zeros = Scores(np.zeros_like(scores.ends), *(np.zeros(part.shape) for part in scores[1:]))
    return MixtureResiduals(0.0, zeros, np.zeros(wiring.dag.n_components))


# -- How probable whole spans of labels are under a mixture of parents ---------------------------------
#
# For a span of labels l and the parents of its instances,
#
#     P(span) = Π_v Σ_c α_c ( p_c(l_v | l_j) if the parent j of c is in the span, else π_c(l_v) )
#
# with instances in order, and one last factor for what follows: any label that does not carry the span on. Parents
# outside the span count with their exact marginals and as independent of each other; so this is exact for a chain,
# where
# only one of them is outside, and an approximation (in practice a close one) where skip edges lead elsewhere.


class LabelledSpan(NamedTuple):
    """Instances first, ..., first + len(labels) - 1 with these labels; `follower`: whether one more comes behind."""

    first: int
    labels: NDArray[np.integer]
    follower: bool


def mixture_span_probabilities(
    wiring: Wiring, scores: Scores, alpha: Array, found: Beliefs, spans: Sequence[LabelledSpan], continues: Array,
    known: NDArray[np.int32] | None = None,
) -> NDArray[np.float64]:  # fmt: skip
    """The probability of each span. `continues` (L, L): True where label y behind label i carries a span on.

    known   labels that are certain, -1 for the others
    """
    return np.array([_one(wiring, scores, alpha, found, span, continues, known) for span in spans], np.float64)


def _one(
    wiring: Wiring, scores: Scores, alpha: Array, found: Beliefs, span: LabelledSpan, continues: Array,
    known: NDArray[np.int32] | None,
) -> float:  # fmt: skip
    dag, n_labels = wiring.dag, len(scores.start)
    size = len(span.labels)
    # One labelling of the span for each label that may follow it; a single one where nothing follows.
    after = np.flatnonzero(~continues[span.labels[-1]]) if span.follower else np.zeros(1, np.int64)
    labels = np.tile(np.append(span.labels, 0), (len(after), 1))
    labels[:, -1] = after
    product = np.ones(len(after))
    for offset in range(size + span.follower):
        k = span.first + offset
        own, factor = labels[:, offset], np.zeros(len(after))
        if known is not None and known[k] >= 0:
            product *= own == known[k]
            continue
        for c in range(dag.indptr[k], dag.indptr[k + 1]):
            inside = dag.parent[c] - span.first
            if dag.parent[c] >= 0 and 0 <= inside < size + span.follower:
                factor += alpha[c] * _span_conditional(wiring, scores, c, n_labels)[labels[:, inside], own]
            else:
                factor += alpha[c] * found.predicted[c, own]
        product *= factor
    return float(product.sum())


def _span_conditional(wiring: Wiring, scores: Scores, c: int, n_labels: int) -> Array:
    """(L, L), p_c(y | i) of one component."""
    table = scores.pair[wiring.dag.relation[c]].astype(np.float64) + scores.ends[wiring.child_slot[c]]
    if wiring.parent_slot[c] >= 0:
        table = table + scores.ends[wiring.parent_slot[c]]
    starts, rows, values = wiring.pair_rows
    if len(starts):
        here = slice(starts[c], starts[c + 1])
        table = table + (values[here] @ scores.rows[rows[here]].astype(np.float64)).reshape(n_labels, n_labels)
    table = np.exp(table - table.max(axis=1, keepdims=True))
    return np.asarray(table / table.sum(axis=1, keepdims=True))
