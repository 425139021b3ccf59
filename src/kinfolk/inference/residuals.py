"""What a chain model expects minus what the data show: the heart of every gradient.

For a loss that is a function of scores, a residual is its derivative by one score:

    maxent   -log p(y_t | x)                     p(k at t) - [y_t = k]
    memm     -log p(y_t | y_{t-1}, x)            p(k at t | y_{t-1}) - [y_t = k]
    crf      log Z - score(y)                    p(k at t) - [y_t = k], and likewise for pairs

A label of -1 is unknown. The loss of a partly labelled sequence is -log of the total probability of all
labellings that agree with what is known; its residual is the expectation over all labellings minus the
expectation over those (for the MEMM, over conditionals). Token weights multiply the loss of a token (maxent,
memm); a loss that is of a whole sequence (crf, or memm with unknown labels) is multiplied by the mean
weight of its labelled tokens.

Each `*_sequence` kernel handles the tokens [first, first + m) and adds to pair and start residuals.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from kinfolk.inference.floats import FAST
from kinfolk.inference.lattice import forward_scaled, log_backward, log_forward, log_sum, step_back


@njit(nogil=True, cache=True)
def workspace(longest, n_labels):
    """Scratch of one thread: alpha, local, clamped node scores (longest, L); beta, message (L,); outer sums (L, L)."""
    table = np.empty((3, longest, n_labels))
    return table, np.empty((2, n_labels)), np.zeros((n_labels, n_labels))


@njit(nogil=True, cache=True, fastmath=FAST)
def maxent_sequence(node, first, m, labels, weights, residual):
    n_labels = node.shape[1]
    loss = 0.0
    for t in range(first, first + m):
        label = labels[t]
        if label < 0:
            for k in range(n_labels):
                residual[t, k] = 0
            continue
        top = node[t, 0]
        for k in range(1, n_labels):
            top = max(top, node[t, k])
        total = 0.0
        for k in range(n_labels):
            residual[t, k] = math.exp(node[t, k] - top)
            total += residual[t, k]
        loss += weights[t] * (top + math.log(total) - node[t, label])
        for k in range(n_labels):
            residual[t, k] *= weights[t] / total
        residual[t, label] -= weights[t]
    return loss


@njit(nogil=True, cache=True)
def sequence_weight(labels, weights, first, m):
    """(mean weight of the labelled tokens, number of labelled tokens)."""
    total, known = 0.0, 0
    for t in range(first, first + m):
        if labels[t] >= 0:
            total += weights[t]
            known += 1
    return total / max(known, 1), known


# -- crf ----------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True, fastmath=FAST)
def _add_expectations(
    node,
    shift,
    first,
    m,
    pair,
    exp_pair,
    start,
    exp_start,
    scale,
    residual,
    pair_residual,
    start_residual,
    work,
):
    """Add scale · p(k at t) to residual, scale · p(i, k at t) to pair_residual; return log Z.

    `node` rows start at first + shift (a clamped copy starts at 0; pair tables are always by token).
    """
    table, rows, outer = work
    alpha, local = table[0], table[1]
    beta, message = rows[0], rows[1]
    n_labels = node.shape[1]
    shared = len(pair) == 1
    log_z = math.nan
    if shift == 0 or shared:
        log_z = forward_scaled(node, first + shift, m, exp_pair, exp_start, _ones(n_labels), alpha, local)
    if math.isnan(log_z):
        return _add_log_expectations(node, shift, first, m, pair, start, scale, residual, pair_residual, start_residual)
    for k in range(n_labels):
        beta[k] = 1.0
    for t in range(m - 1, -1, -1):
        row = first + t
        for k in range(n_labels):
            if alpha[t, k] == 0:  # out of reach, so beta is of no use and free to overflow
                beta[k] = 0.0
            residual[row, k] += scale * alpha[t, k] * beta[k]
            message[k] = local[t, k] * beta[k]
        if t == 0:
            for k in range(n_labels):
                start_residual[k] += scale * exp_start[k] * message[k]
        elif shared:  # p(i, k) = alpha_i · exp_pair_ik · message_k: the factor exp_pair waits for the end
            for i in range(n_labels):
                weight = scale * alpha[t - 1, i]
                for k in range(n_labels):
                    outer[i, k] += weight * message[k]
            step_back(exp_pair[0], message, beta)
        else:
            for i in range(n_labels):
                weight = scale * alpha[t - 1, i]
                for k in range(n_labels):
                    pair_residual[row, i, k] += weight * exp_pair[row, i, k] * message[k]
            step_back(exp_pair[row], message, beta)
    return log_z


@njit(nogil=True, cache=True)
def _ones(n):
    return np.ones(n)


@njit(nogil=True, cache=True)
def _add_log_expectations(node, shift, first, m, pair, start, scale, residual, pair_residual, start_residual):
    """The slow twin: for scores beyond the scaled recursion, and for clamped tokens with a table a token."""
    n_labels = node.shape[1]
    shared = len(pair) == 1
    tables = pair if shared else pair[first : first + m]
    scores = np.ascontiguousarray(node[first + shift : first + shift + m]).astype(np.float64)
    zeros = np.zeros(n_labels)
    alpha, beta = np.empty((m, n_labels)), np.empty((m, n_labels))
    log_z = log_forward(scores, 0, m, tables, start, zeros, alpha)
    log_backward(scores, 0, m, tables, zeros, beta)
    for t in range(m):
        row = first + t
        for k in range(n_labels):
            p = math.exp(alpha[t, k] + beta[t, k] - log_z)
            residual[row, k] += scale * p
            if t == 0:
                start_residual[k] += scale * p
                continue
            table = tables[0 if shared else t]
            for i in range(n_labels):
                joint = math.exp(alpha[t - 1, i] + table[i, k] + scores[t, k] + beta[t, k] - log_z)
                pair_residual[0 if shared else row, i, k] += scale * joint
    return log_z


@njit(nogil=True, cache=True)
def clamp(node, first, m, labels, clamped):
    """Copy the node scores of a sequence with all but the known label forbidden."""
    for t in range(m):
        label = labels[first + t]
        for k in range(node.shape[1]):
            clamped[t, k] = node[first + t, k] if label < 0 or label == k else -math.inf


@njit(nogil=True, cache=True, fastmath=FAST)
def crf_sequence(
    node,
    first,
    m,
    labels,
    weights,
    pair,
    exp_pair,
    start,
    exp_start,
    residual,
    pair_residual,
    start_residual,
    work,
):
    shared = len(pair) == 1
    weight, known = sequence_weight(labels, weights, first, m)
    for t in range(first, first + m):
        for k in range(node.shape[1]):
            residual[t, k] = 0
    if known == 0 or weight == 0:
        return 0.0
    log_z = _add_expectations(
        node,
        0,
        first,
        m,
        pair,
        exp_pair,
        start,
        exp_start,
        weight,
        residual,
        pair_residual,
        start_residual,
        work,
    )
    if known < m:
        clamped = work[0][2]
        clamp(node, first, m, labels, clamped)
        return weight * (
            log_z
            - _add_expectations(
                clamped, -first, first, m, pair, exp_pair, start, exp_start, -weight,
                residual, pair_residual, start_residual, work,
            )
        )  # fmt: skip
    gold = start[labels[first]]
    start_residual[labels[first]] -= weight
    for t in range(first, first + m):
        label = labels[t]
        gold += node[t, label]
        residual[t, label] -= weight
        if t > first:
            at = 0 if shared else t
            gold += pair[at, labels[t - 1], label]
            pair_residual[at, labels[t - 1], label] -= weight
    return weight * (log_z - gold)


# -- memm ---------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True, fastmath=FAST)
def memm_sequence(node, first, m, labels, weights, pair, start, residual, pair_residual, start_residual, work):
    n_labels = node.shape[1]
    shared = len(pair) == 1
    mean_weight, known = sequence_weight(labels, weights, first, m)
    if known < m:
        return _memm_partial(
            node, first, m, labels, mean_weight, known, pair, start, residual, pair_residual, start_residual
        )
    p = work[1][0]
    loss = 0.0
    for t in range(first, first + m):
        label, weight = labels[t], weights[t]
        row = start if t == first else pair[0 if shared else t, labels[t - 1]]
        top = -math.inf
        for k in range(n_labels):
            p[k] = node[t, k] + row[k]
            top = max(top, p[k])
        score, total = p[label], 0.0
        for k in range(n_labels):
            p[k] = math.exp(p[k] - top)
            total += p[k]
        loss += weight * (top + math.log(total) - score)
        out = start_residual if t == first else pair_residual[0 if shared else t, labels[t - 1]]
        for k in range(n_labels):
            p[k] *= weight / total
        p[label] -= weight
        for k in range(n_labels):
            residual[t, k] = p[k]
            out[k] += p[k]
    return loss


@njit(nogil=True, cache=True)
def log_conditionals(node, first, m, pair, start, log_start, log_pair):
    """log p(y_t | y_{t-1}, x) as tables (m, L, L), and log p(y_first | x) as (L,).

    A label that nothing may follow keeps a row of -inf.
    """
    n_labels = node.shape[1]
    for k in range(n_labels):
        log_start[k] = start[k] + node[first, k]
    total = log_sum(log_start)
    if total > -math.inf:
        log_start -= total
    for t in range(1, m):
        table = pair[first + t if len(pair) > 1 else 0]
        for i in range(n_labels):
            for k in range(n_labels):
                log_pair[t, i, k] = table[i, k] + node[first + t, k]
            total = log_sum(log_pair[t, i])
            if total > -math.inf:
                log_pair[t, i] -= total


@njit(nogil=True, cache=True)
def _memm_partial(node, first, m, labels, weight, known, pair, start, residual, pair_residual, start_residual):
    """-log Σ_{y agrees} Π p(y_t | y_{t-1}). With q the posterior over labellings that agree,

    residual of (i, k at t) = q(i at t-1) · p(k | i) - q(i, k at t)
    """
    n_labels = node.shape[1]
    shared = len(pair) == 1
    residual[first : first + m] = 0
    if known == 0 or weight == 0:
        return 0.0
    log_start, log_pair = np.empty(n_labels), np.zeros((max(m, 2), n_labels, n_labels))
    log_conditionals(node, first, m, pair, start, log_start, log_pair)
    agree, zeros = np.zeros((m, n_labels)), np.zeros(n_labels)
    clamp(np.zeros((m, n_labels)), 0, m, labels[first : first + m], agree)
    alpha, beta = np.empty((m, n_labels)), np.empty((m, n_labels))
    log_q = log_forward(agree, 0, m, log_pair, log_start, zeros, alpha)
    log_backward(agree, 0, m, log_pair, zeros, beta)
    for k in range(n_labels):
        change = weight * (math.exp(log_start[k]) - math.exp(alpha[0, k] + beta[0, k] - log_q))
        residual[first, k] += change
        start_residual[k] += change
    for t in range(1, m):
        for i in range(n_labels):
            q_before = math.exp(alpha[t - 1, i] + beta[t - 1, i] - log_q)
            for k in range(n_labels):
                joint = math.exp(alpha[t - 1, i] + log_pair[t, i, k] + agree[t, k] + beta[t, k] - log_q)
                change = weight * (q_before * math.exp(log_pair[t, i, k]) - joint)
                residual[first + t, k] += change
                pair_residual[0 if shared else first + t, i, k] += change
    return -weight * log_q
