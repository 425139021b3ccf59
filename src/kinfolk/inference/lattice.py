"""Recursions over one sequence, as nogil kernels that call each other.

A sequence of m tokens with L labels has potentials

    node   (m, L)         score of a label at a token
    pair   (1 or n, L, L) score of a label after another; one table for all tokens, or one a token
    start  (L,)           score of the first label
    end    (L,)           score of the last label

all as logarithms; -inf forbids. With `one table for all`, pair[0] serves every token; else pair[t].

The scaled recursions work on exponentials and rescale at every token; they cost L exponentials a
token. They report failure (NaN) when a token's total leaves the range of float64, or when a label's share
becomes so faint that float64 would lose it, though later tokens may speak for it (labels that exclude each
other for good). The caller then turns to the logarithmic recursions, which lose nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.inference.numeric import FAINT, FAINT_SINGLE, FAST, TINY

# -- scaled -------------------------------------------------------------------------------------------


def exp_table(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(scores), with NaN (failure) for scores that are allowed but too low for the scaled recursions."""
    with np.errstate(over="ignore"):  # infinity is failure, too
        factors = np.exp(scores)
    if factors.min(initial=1.0) < FAINT:
        factors[(factors < FAINT) & (scores > -np.inf)] = np.nan
    return factors


@njit(nogil=True, cache=True, fastmath=FAST)
def forward_scaled(node, first, m, exp_pair, exp_start, exp_end, alpha, local):
    """Fill alpha (m, L), each row summing to 1, and local (m, L) with

        local[t, k] = exp(node[t, k] - max) / scale_t,   alpha[t] = (alpha[t-1] · exp_pair) ∘ local[t]

    and return log Z, or NaN for failure. The end potential is part of local[m-1]. exp_pair, exp_start and
    exp_end are from `exp_table`.
    """
    n_labels = node.shape[1]
    reached = np.empty(n_labels)
    log_z = 0.0
    for t in range(m):
        row = first + t
        top = node[row, 0]
        for k in range(1, n_labels):
            top = max(top, node[row, k])
        if top == -math.inf:
            return math.nan
        for k in range(n_labels):
            local[t, k] = math.exp(node[row, k] - top)
            if local[t, k] < FAINT_SINGLE:  # beyond float32, should that be what the scores are
                local[t, k] = math.exp(np.float64(node[row, k]) - top)
        if t == 0:
            for k in range(n_labels):
                alpha[0, k] = exp_start[k]
        else:
            table = exp_pair[row if len(exp_pair) > 1 else 0]
            for k in range(n_labels):
                alpha[t, k] = 0.0
            for i in range(n_labels):
                weight = alpha[t - 1, i]
                for k in range(n_labels):
                    alpha[t, k] += weight * table[i, k]
        for k in range(n_labels):
            reached[k] = alpha[t, k]
            if local[t, k] < FAINT and reached[k] > 0 and node[row, k] > -math.inf:
                return math.nan
        if t == m - 1:
            for k in range(n_labels):
                local[t, k] *= exp_end[k]
        scale = 0.0
        for k in range(n_labels):
            alpha[t, k] *= local[t, k]
            scale += alpha[t, k]
        if not TINY < scale < 1 / TINY:
            return math.nan
        for k in range(n_labels):
            alpha[t, k] /= scale
            local[t, k] /= scale
        if t < m - 1:  # the last share is final: if it is faint, it may go
            for k in range(n_labels):
                if alpha[t, k] < FAINT and reached[k] > 0 and node[row, k] > -math.inf:
                    return math.nan
        log_z += top + math.log(scale)
    return log_z


@njit(nogil=True, cache=True, fastmath=FAST)
def step_back(table, message, beta):
    """beta[i] = Σ_j table[i, j] · message[j], with message = local ∘ (beta of the next token)."""
    n_labels = len(beta)
    for i in range(n_labels):
        total = 0.0
        for j in range(n_labels):
            total += table[i, j] * message[j]
        beta[i] = total


# -- logarithmic --------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def log_sum(values):
    """log Σ exp(values); -inf for no mass."""
    top = -math.inf
    for value in values:
        top = max(top, value)
    if top == -math.inf:
        return -math.inf
    total = 0.0
    for value in values:
        total += math.exp(value - top)
    return top + math.log(total)


@njit(nogil=True, cache=True)
def log_forward(node, first, m, pair, start, end, alpha):
    """alpha[t, k] = log of the total weight of prefixes that end in label k at t; returns log Z."""
    n_labels = node.shape[1]
    terms = np.empty(n_labels)
    for t in range(m):
        row = first + t
        table = pair[row if len(pair) > 1 else 0]
        for k in range(n_labels):
            if t == 0:
                alpha[0, k] = start[k] + node[row, k]
            else:
                for i in range(n_labels):
                    terms[i] = alpha[t - 1, i] + table[i, k]
                alpha[t, k] = log_sum(terms) + node[row, k]
    for k in range(n_labels):
        alpha[m - 1, k] += end[k]
    return log_sum(alpha[m - 1])


@njit(nogil=True, cache=True)
def log_backward(node, first, m, pair, end, beta):
    """beta[t, k] = log of the total weight of what may follow label k at t (0 at the last token).

    The end potential stands in alpha's last row and in the step from the last token here.
    """
    n_labels = node.shape[1]
    terms = np.empty(n_labels)
    for k in range(n_labels):
        beta[m - 1, k] = 0.0
    for t in range(m - 2, -1, -1):
        row = first + t + 1
        table = pair[row if len(pair) > 1 else 0]
        for i in range(n_labels):
            for k in range(n_labels):
                terms[k] = table[i, k] + node[row, k] + beta[t + 1, k]
                if t == m - 2:
                    terms[k] += end[k]
            beta[t, i] = log_sum(terms)


# -- maximum ------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def best_path(node, first, m, pair, start, end, best, back, path):
    """Viterbi: fill path (m,) and return the score; -inf (and path -1) if every labelling is forbidden."""
    n_labels = node.shape[1]
    for k in range(n_labels):
        best[0, k] = start[k] + node[first, k]
    for t in range(1, m):
        row = first + t
        table = pair[row if len(pair) > 1 else 0]
        for k in range(n_labels):
            best[t, k] = -math.inf
            back[t, k] = 0
        for i in range(n_labels):
            before = best[t - 1, i]
            for k in range(n_labels):
                score = before + table[i, k]
                if score > best[t, k]:
                    best[t, k] = score
                    back[t, k] = i
        for k in range(n_labels):
            best[t, k] += node[row, k]
    top, label = -math.inf, -1
    for k in range(n_labels):
        score = best[m - 1, k] + end[k]
        if score > top:
            top, label = score, k
    for t in range(m - 1, -1, -1):
        path[first + t] = label
        if label >= 0:
            label = back[t, label]
    return top
