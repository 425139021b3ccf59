"""One stochastic pass over sequences: scores, residuals and update fused in a kernel.

w ← (1 - η λ) w - η · (gradient of one sequence),      λ = l2 / (number of sequences)

The shrinking is kept in one factor, w = scale · v, so a step touches only the features of its tokens; tokens
that the model already has right (all residuals below NEGLIGIBLE) are passed over. Weights of dense columns have
a step size and a ridge of their own, and with them a factor, and lie as (L, d) while the pass runs.

Where squared gradients are kept, steps of a feature shrink with the gradients g_f it has met at tokens so far,

    G_f ← G_f + |g_f|²,      w_f ← (1 - η λ) w_f - η g_f / G_f^⅜

so that rare features learn as much of a few tokens as frequent ones of many. With the exponent ½ this is AdaGrad
(Duchi, Hazan and Singer, 2011), with 0 plain descent; between them nothing is lost where either does better. Weights
of label pairs and of starts share one G.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import FAST, njit
from kinfolk.inference.chain import Chain, Factors
from kinfolk.inference.chain_losses import Parts, add_outer, crf, maxent, memm, workspace

Array = NDArray[Any]

NEGLIGIBLE = 1e-4


@njit(nogil=True, cache=True)
def _update_row(rows, t, change, table):
    for p in range(rows.indptr[t], rows.indptr[t + 1]):
        feature = rows.indices[p]
        value = rows.values[p] if len(rows.values) else 1
        for k in range(len(change)):
            table[feature, k] -= value * change[k]


@njit(nogil=True, cache=True)
def _damped(squares):
    """squares^⅜"""
    root = math.sqrt(math.sqrt(squares))
    return root * math.sqrt(root)


@njit(nogil=True, cache=True)
def _squared(start, pair):
    """Σ start² + Σ pair²; whole arrays as operands take numba half a second longer to compile."""
    of_start, of_pair = 0.0, 0.0
    for i in range(len(start)):
        of_start += start[i] * start[i]
    for i in range(pair.shape[1]):
        for k in range(pair.shape[2]):
            of_pair += pair[0, i, k] * pair[0, i, k]
    return of_start + of_pair


@njit(nogil=True, cache=True)
def _update_damped(rows, t, change, square, table, squares):
    """`change`: η · residual of the token; `square`: |residual|²."""
    for p in range(rows.indptr[t], rows.indptr[t + 1]):
        feature = rows.indices[p]
        value = rows.values[p] if len(rows.values) else table.dtype.type(1)
        squares[feature] += value * value * square
        step = table.dtype.type(value / _damped(squares[feature]))
        for k in range(len(change)):
            table[feature, k] -= step * change[k]


@njit(nogil=True, cache=True)
def _score_row(rows, t, table, out):
    for k in range(len(out)):
        out[k] = 0
    for p in range(rows.indptr[t], rows.indptr[t + 1]):
        feature = rows.indices[p]
        value = rows.values[p] if len(rows.values) else 1
        for k in range(len(out)):
            out[k] += value * table[feature, k]


class Dense(NamedTuple):
    """Dense columns beside sparse features, float32 (n, d): their step size as a multiple of that of the others, and
    their shrinking λ."""

    columns: Array
    rate: float
    shrink: float


@njit(nogil=True, cache=True, fastmath=FAST)
def _score_dense(columns, row, turned, scale, out):
    for k in range(len(turned)):
        total = turned.dtype.type(0)
        for j in range(turned.shape[1]):
            total += columns[row, j] * turned[k, j]
        out[k] += scale * total


@njit(nogil=True, cache=True, fastmath=FAST)
def _update_dense(columns, row, change, turned):
    for k in range(len(turned)):
        for j in range(turned.shape[1]):
            turned[k, j] -= change[k] * columns[row, j]


@njit(nogil=True, cache=True, fastmath=FAST)
def run_epoch(kind, rows, dense, sequences, weights, squares, order, rates, shrink):
    """Visit sequences in `order` with step sizes `rates`; changes the weights, Parts of (F + d, L), (L, L) and (L,), in
    place, and `squares`, G of each sparse feature and last that of label pairs, (F + 1,); empty: steps do not depend on
    it. `rows`: the sparse features of tokens, as Csr; `dense`: what is beside them.

    Returns the summed loss met on the way.
    """
    whole, pair, start = weights
    starts, n_labels, n_dense = sequences.starts, whole.shape[1], dense.columns.shape[1]
    node, turned, dense_scale = whole[: len(whole) - n_dense], whole[len(whole) - n_dense :].T.copy(), 1.0
    both = np.empty((2, sequences.longest, n_labels), node.dtype)
    scores, residual = both[0], both[1]
    change, tables = np.empty(n_labels, node.dtype), np.empty((3, 1, n_labels, n_labels))
    pair64, exp_pair, sums = tables[0], tables[1], Parts(residual, tables[2], np.empty(n_labels))
    zeros, ones, start64, exp_start = np.zeros(n_labels), np.ones(n_labels), np.empty(n_labels), np.empty(n_labels)
    work = workspace(sequences.longest, n_labels)
    loss, scale = 0.0, 1.0
    for visit in range(len(order)):
        first, last = starts[order[visit]], starts[order[visit] + 1]
        m = last - first
        for t in range(m):
            _score_row(rows, first + t, node, scores[t])
            for k in range(n_labels):
                scores[t, k] *= scale
            if n_dense:
                _score_dense(dense.columns, first + t, turned, node.dtype.type(dense_scale), scores[t])
        for i in range(n_labels):
            sums.start[i] = 0.0
            for k in range(n_labels):
                pair64[0, i, k] = pair[i, k] * scale
                exp_pair[0, i, k] = np.exp(pair64[0, i, k])
                sums.pair[0, i, k] = 0.0
            start64[i] = start[i] * scale
            exp_start[i] = np.exp(start64[i])
        chain, factors = Chain(scores[:m], pair64, start64, zeros), Factors(exp_pair, exp_start, ones)
        out = Parts(residual[:m], sums.pair, sums.start)
        labels, token_weights = sequences.labels[first:last], sequences.weights[first:last]
        if len(kind) == 0:
            loss += maxent(chain.node, labels, token_weights, out.node)
        elif len(kind) == 1:
            loss += memm(chain, labels, token_weights, out, work)
        else:
            loss += crf(chain, factors, labels, token_weights, out, work)
        add_outer(work.outer, exp_pair, sums.pair)
        rate = rates[visit]
        scale *= 1 - rate * shrink
        step = rate / scale
        dense_scale *= 1 - rate * dense.rate * dense.shrink
        dense_step, pair_step = rate * dense.rate / dense_scale, step
        if len(squares):
            squares[-1] += _squared(sums.start, sums.pair)
            pair_step = step / _damped(squares[-1])
        for i in range(n_labels):
            start[i] -= pair_step * sums.start[i]
            for k in range(n_labels):
                pair[i, k] -= pair_step * sums.pair[0, i, k]
        for t in range(m):
            largest, square = 0.0, node.dtype.type(0)
            for k in range(n_labels):
                largest = max(largest, abs(residual[t, k]))
                square += residual[t, k] * residual[t, k]
                change[k] = step * residual[t, k]
            if largest > NEGLIGIBLE:
                if len(squares):
                    _update_damped(rows, first + t, change, square, node, squares)
                else:
                    _update_row(rows, first + t, change, node)
                if n_dense:
                    for k in range(n_labels):
                        change[k] = dense_step * residual[t, k]
                    _update_dense(dense.columns, first + t, change, turned)
    for f in range(len(node)):
        for k in range(n_labels):
            node[f, k] *= scale
    for j in range(n_dense):
        for k in range(n_labels):
            whole[len(node) + j, k] = turned[k, j] * dense_scale
    for i in range(n_labels):
        start[i] *= scale
        for k in range(n_labels):
            pair[i, k] *= scale
    return loss
