"""Exact inference in a mixture of parents (Rosenberg, Klein and Taskar, 2007), and the derivatives of its losses.

Each instance k is a mixture of what its components c say, and a component looks at one parent j at most:

    p(y_k | parents) = Σ_c α_c p_c(y_k | y_j),      p_c(y | i) ∝ exp( T[i, y] + s[y] ),   s = scores of both ends

so the marginals follow from those of the parents in one pass, parents first (section 2.3):

    m_k = Σ_c α_c π_c,      π_c[y] = Σ_i m_j[i] p_c(y | i)

With E = exp(T) and e = exp(s - max), p_c(y | i) = E[i, y] e[y] / Z[i] and Z = E e: L exponentials a component.

The reverse sweep (section 3.2, appendix A) takes g_k = ∂loss/∂m_k from the last instance to the first:

    ∂loss/∂m_j[i] += α_c c[i],                        c[i] = Σ_y p_c(y | i) g_k[y]
    ∂loss/∂score[i, y] = α_c m_j[i] p_c(y | i) (g_k[y] - c[i])
    ∂loss/∂α_c = Σ_y π_c[y] g_k[y]

Losses:  marginal      -Σ_k w_k log m_k[y_k]
         conditional   the same, where children see the known label of a parent instead of its marginal
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import read_only
from kinfolk.core.kernels import FAST, Csr, njit, softmax
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.errors import InputError
from kinfolk.inference.dag import Dag

Array = NDArray[Any]

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
def scratch_of(n_labels):
    rows, tables = np.empty((4, n_labels)), np.empty((2, n_labels, n_labels))
    return Scratch(rows[0], rows[1], rows[2], rows[3], tables[0], tables[1])


@njit(nogil=True, cache=True)
def _entries(rows, c):
    """Where the features of label pairs of a component begin and end."""
    return (rows.indptr[c], rows.indptr[c + 1]) if len(rows.indptr) > 1 else (0, 0)


@njit(nogil=True, cache=True, fastmath=FAST)
def local_scores(ends, child, parent, out):
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
def conditional_of(c, wiring, model, local, scratch):
    """p_c(y | i), from the scores of both ends and T: that of the relation, and the weights of the component's own
    features of label pairs. Works for scores of any size."""
    table, rows, n_labels = scratch.table, wiring.pair_rows, len(local)
    local_scores(model.ends, wiring.child_slot[c], wiring.parent_slot[c], local)
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
            top = local_scores(model.ends, wiring.child_slot[c], wiring.parent_slot[c], local)
            if j < 0:
                for y in range(n_labels):
                    local[y] += model.start[y]
                softmax(local, predicted)
            else:
                _see(marginals[j], observed.labels[j], observed.clamp, belief)
                begin, end = _entries(wiring.pair_rows, c)
                if end > begin or not _predict(model.exp_pair[dag.relation[c]], belief, local, top, share, predicted):
                    share[0] = math.nan
                    conditional_of(c, wiring, model, local, scratch)
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
                    conditional_of(c, wiring, model, sweep.local[at], scratch)
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
    sweep_forward(wiring, model, alpha, observed, first, last, sweep, scratch_of(n_labels))


@njit(nogil=True, cache=True)
def _both_ways(wiring, model, alpha, observed, first_group, last_group, marginals, out):
    """Forward and back, group by group. A group without labels that count has no loss, and is passed over."""
    indptr, group_starts, n_labels = wiring.dag.indptr, wiring.dag.group_starts, marginals.shape[1]
    largest = 0
    for g in range(first_group, last_group):
        largest = max(largest, indptr[group_starts[g + 1]] - indptr[group_starts[g]])
    kept = np.empty((3, largest, n_labels))
    sweep, scratch = Sweep(marginals, kept[0], kept[1], kept[2]), scratch_of(n_labels)
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
