"""Exact inference in a mixture of parents (Rosenberg, Klein and Taskar, 2007), and the derivatives of its losses.

Each instance k is a mixture of what its components c say, and a component looks at one parent j at most:

    p(y_k | parents) = Σ_c α_c p_c(y_k | y_j),      p_c(y | i) ∝ exp( T[i, y] + s[y] ),   s = scores of both ends

so the marginals follow from those of the parents in one pass, parents first (section 2.3):

    m_k = Σ_c α_c π_c,      π_c[y] = Σ_i m_j[i] p_c(y | i)

With E = exp(T) and e = exp(s - max), p_c(y | i) = E[i, y] e[y] / Z[i] and Z = E e: L exponentials a component, not L².

The reverse sweep (section 3.2, appendix A) takes g_k = ∂loss/∂m_k from the last instance to the first:

    ∂loss/∂m_j[i] += α_c c[i],                        c[i] = Σ_y p_c(y | i) g_k[y]
    ∂loss/∂score[i, y] = α_c m_j[i] p_c(y | i) (g_k[y] - c[i])
    ∂loss/∂α_c = Σ_y π_c[y] g_k[y]

Losses:  marginal      -Σ_k w_k log m_k[y_k]
         conditional   the same, where children see the known label of a parent instead of its marginal
"""

from __future__ import annotations

import math

import numpy as np

from kinfolk.core.kernels import njit
from kinfolk.inference.numeric import FAST

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
