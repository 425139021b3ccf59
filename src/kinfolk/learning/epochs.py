"""One stochastic pass over sequences: scores, residuals and update fused in a kernel.

    w ← (1 - η λ) w - η · (gradient of one sequence),      λ = l2 / (number of sequences)

The shrinking is kept in one factor, w = scale · v, so a step touches only the features of its tokens; tokens
that the model already has right (all residuals below NEGLIGIBLE) are passed over.
"""

from __future__ import annotations

import numpy as np

from kinfolk.core.kernels import njit
from kinfolk.inference.chain_losses import add_outer, sequence_residuals, workspace

NEGLIGIBLE = 1e-4


@njit(nogil=True, cache=True)
def _update_row(indices, values, begin, end, change, table):
    for p in range(begin, end):
        feature = indices[p]
        value = values[p] if len(values) else 1
        for k in range(len(change)):
            table[feature, k] -= value * change[k]


@njit(nogil=True, cache=True)
def _score_row(indices, values, begin, end, table, out):
    for k in range(len(out)):
        out[k] = 0
    for p in range(begin, end):
        feature = indices[p]
        value = values[p] if len(values) else 1
        for k in range(len(out)):
            out[k] += value * table[feature, k]


@njit(nogil=True, cache=True)
def run_epoch(kind, indptr, indices, values, labels, weights, starts, order, longest, node, start, pair, rates, shrink):
    """Visit sequences in `order` with step sizes `rates`; changes node (F, L), start (L,), pair (L, L) in place.

    Returns the summed loss met on the way.
    """
    n_labels = node.shape[1]
    scores, residual = np.empty((longest, n_labels), node.dtype), np.empty((longest, n_labels), node.dtype)
    change = np.empty(n_labels, node.dtype)
    pair64, exp_pair = np.empty((1, n_labels, n_labels)), np.empty((1, n_labels, n_labels))
    pair_residual, start_residual = np.empty((1, n_labels, n_labels)), np.empty(n_labels)
    work = workspace(longest, n_labels)
    loss, scale = 0.0, 1.0
    for visit in range(len(order)):
        first, m = starts[order[visit]], starts[order[visit] + 1] - starts[order[visit]]
        for t in range(m):
            _score_row(indices, values, indptr[first + t], indptr[first + t + 1], node, scores[t])
            for k in range(n_labels):
                scores[t, k] *= scale
        for i in range(n_labels):
            start_residual[i] = 0.0
            for k in range(n_labels):
                pair64[0, i, k] = pair[i, k] * scale
                pair_residual[0, i, k] = 0.0
        start64 = start.astype(np.float64) * scale
        for i in range(n_labels):
            for k in range(n_labels):
                exp_pair[0, i, k] = np.exp(pair64[0, i, k])
        loss += sequence_residuals(
            kind, scores[:m], labels[first : first + m], weights[first : first + m], pair64, exp_pair,
            start64, np.exp(start64), residual[:m], pair_residual, start_residual, work,
        )  # fmt: skip
        add_outer(work[2], exp_pair, pair_residual)
        rate = rates[visit]
        scale *= 1 - rate * shrink
        step = rate / scale
        for i in range(n_labels):
            start[i] -= step * start_residual[i]
            for k in range(n_labels):
                pair[i, k] -= step * pair_residual[0, i, k]
        for t in range(m):
            largest = 0.0
            for k in range(n_labels):
                largest = max(largest, abs(residual[t, k]))
                change[k] = step * residual[t, k]
            if largest > NEGLIGIBLE:
                _update_row(indices, values, indptr[first + t], indptr[first + t + 1], change, node)
    for f in range(len(node)):
        for k in range(n_labels):
            node[f, k] *= scale
    for i in range(n_labels):
        start[i] *= scale
        for k in range(n_labels):
            pair[i, k] *= scale
    return loss
