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

The kernels see one sequence: node (m, L), labels and weights (m,), pair (1 or m, L, L), start (L,). They write the
node residuals (m, L) and add to those of pairs (1 or m, L, L) and start (L,).
"""

from __future__ import annotations

import math

import numpy as np

from kinfolk.core.kernels import njit
from kinfolk.inference.counts import add_expectations
from kinfolk.inference.lattice import log_backward, log_forward, log_sum
from kinfolk.inference.numeric import FAST

MAXENT, MEMM, CRF = 0, 1, 2
KINDS = {"maxent": MAXENT, "memm": MEMM, "crf": CRF}


@njit(nogil=True, cache=True)
def workspace(longest, n_labels):
    """Scratch of one thread: alpha, local, node scores (longest, L); beta, message (L,); outer sums (L, L)."""
    table = np.empty((3, longest, n_labels))
    return table, np.empty((2, n_labels)), np.zeros((n_labels, n_labels))


@njit(nogil=True, cache=True)
def sequence_residuals(
    kind, node, labels, weights, pair, exp_pair, start, exp_start, residual, pair_residual, start_residual, work
):
    """The loss of one sequence; fills and adds to its residuals.

    With one pair table for all tokens, a crf leaves part of the pair residuals in the workspace: `add_outer`.
    """
    if kind == MAXENT:
        return _maxent(node, labels, weights, residual)
    if kind == MEMM:
        return _memm(node, labels, weights, pair, start, residual, pair_residual, start_residual, work)
    return _crf(node, labels, weights, pair, exp_pair, start, exp_start, residual, pair_residual, start_residual, work)


@njit(nogil=True, cache=True)
def add_outer(outer, exp_pair, pair_residual):
    """Give the sums of alpha · message their common factor exp_pair, and clear them."""
    for i in range(outer.shape[0]):
        for k in range(outer.shape[1]):
            if outer[i, k] != 0:
                pair_residual[0, i, k] += outer[i, k] * exp_pair[0, i, k]
                outer[i, k] = 0


@njit(nogil=True, cache=True)
def _mean_weight(labels, weights):
    """(mean weight of the labelled tokens, number of labelled tokens)."""
    total, known = 0.0, 0
    for t in range(len(labels)):
        if labels[t] >= 0:
            total += weights[t]
            known += 1
    return total / max(known, 1), known


@njit(nogil=True, cache=True)
def _forbid_others(scores, labels):
    """Forbid all but the known label where a label is known."""
    for t in range(len(labels)):
        if labels[t] >= 0:
            for k in range(scores.shape[1]):
                if k != labels[t]:
                    scores[t, k] = -math.inf


# -- maxent -------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True, fastmath=FAST)
def _maxent(node, labels, weights, residual):
    n_labels = node.shape[1]
    loss = 0.0
    for t in range(len(node)):
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


# -- crf ----------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True, fastmath=FAST)
def _crf(node, labels, weights, pair, exp_pair, start, exp_start, residual, pair_residual, start_residual, work):
    m, n_labels = node.shape
    weight, known = _mean_weight(labels, weights)
    scores = work[0][2, :m]
    for t in range(m):
        for k in range(n_labels):
            residual[t, k] = 0
            scores[t, k] = node[t, k]
    if known == 0 or weight == 0:
        return 0.0
    log_z = add_expectations(
        scores, pair, exp_pair, start, exp_start, weight, residual, pair_residual, start_residual, work
    )
    if known < m:
        _forbid_others(scores, labels)
        log_agreeing = add_expectations(
            scores, pair, exp_pair, start, exp_start, -weight, residual, pair_residual, start_residual, work
        )
        return weight * (log_z - log_agreeing)
    gold = start[labels[0]]
    start_residual[labels[0]] -= weight
    for t in range(m):
        label = labels[t]
        gold += scores[t, label]
        residual[t, label] -= weight
        if t > 0:
            at = t if len(pair) > 1 else 0
            gold += pair[at, labels[t - 1], label]
            pair_residual[at, labels[t - 1], label] -= weight
    return weight * (log_z - gold)


# -- memm ---------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True, fastmath=FAST)
def _memm(node, labels, weights, pair, start, residual, pair_residual, start_residual, work):
    m, n_labels = node.shape
    mean_weight, known = _mean_weight(labels, weights)
    if known < m:
        return _memm_partial(node, labels, mean_weight, known, pair, start, residual, pair_residual, start_residual)
    p = work[1][0]
    loss = 0.0
    for t in range(m):
        label, weight = labels[t], weights[t]
        at = t if len(pair) > 1 else 0
        row = start if t == 0 else pair[at, labels[t - 1]]
        top = -math.inf
        for k in range(n_labels):
            p[k] = node[t, k] + row[k]
            top = max(top, p[k])
        score, total = p[label], 0.0
        for k in range(n_labels):
            p[k] = math.exp(p[k] - top)
            total += p[k]
        loss += weight * (top + math.log(total) - score)
        out = start_residual if t == 0 else pair_residual[at, labels[t - 1]]
        for k in range(n_labels):
            p[k] *= weight / total
        p[label] -= weight
        for k in range(n_labels):
            residual[t, k] = p[k]
            out[k] += p[k]
    return loss


@njit(nogil=True, cache=True)
def log_conditionals(node, pair, start, log_start, log_pair):
    """log p(y_t | y_{t-1}, x) as tables (m, L, L), and log p(y_1 | x) as (L,).

    A label that nothing may follow keeps a row of -inf.
    """
    m, n_labels = node.shape
    for k in range(n_labels):
        log_start[k] = start[k] + node[0, k]
    total = log_sum(log_start)
    if total > -math.inf:
        log_start -= total
    for t in range(1, m):
        table = pair[t if len(pair) > 1 else 0]
        for i in range(n_labels):
            for k in range(n_labels):
                log_pair[t, i, k] = table[i, k] + node[t, k]
            total = log_sum(log_pair[t, i])
            if total > -math.inf:
                log_pair[t, i] -= total


@njit(nogil=True, cache=True)
def _memm_partial(node, labels, weight, known, pair, start, residual, pair_residual, start_residual):
    """-log Σ_{y agrees} Π p(y_t | y_{t-1}). With q the posterior over labellings that agree,

    residual of (i, k at t) = q(i at t-1) · p(k | i) - q(i, k at t)
    """
    m, n_labels = node.shape
    residual[:] = 0
    if known == 0 or weight == 0:
        return 0.0
    log_start, log_pair = np.empty(n_labels), np.zeros((max(m, 2), n_labels, n_labels))
    log_conditionals(node, pair, start, log_start, log_pair)
    agree, zeros = np.zeros((m, n_labels)), np.zeros(n_labels)
    _forbid_others(agree, labels)
    alpha, beta = np.empty((m, n_labels)), np.empty((m, n_labels))
    log_q = log_forward(agree, np.int64(0), m, log_pair, log_start, zeros, alpha)
    log_backward(agree, np.int64(0), m, log_pair, zeros, beta)
    for k in range(n_labels):
        change = weight * (math.exp(log_start[k]) - math.exp(alpha[0, k] + beta[0, k] - log_q))
        residual[0, k] += change
        start_residual[k] += change
    for t in range(1, m):
        at = t if len(pair) > 1 else 0
        for i in range(n_labels):
            q_before = math.exp(alpha[t - 1, i] + beta[t - 1, i] - log_q)
            for k in range(n_labels):
                joint = math.exp(alpha[t - 1, i] + log_pair[t, i, k] + agree[t, k] + beta[t, k] - log_q)
                change = weight * (q_before * math.exp(log_pair[t, i, k]) - joint)
                residual[t, k] += change
                pair_residual[at, i, k] += change
    return -weight * log_q
