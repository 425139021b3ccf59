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
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.inference.chain import Potentials, exp_table, forward_scaled, log_backward, log_forward, log_sum, step_back
from kinfolk.inference.numeric import FAST

# -- Expected counts of a chain: how often each label and each pair of labels is expected, by forward-backward ---


@njit(nogil=True, cache=True, fastmath=FAST)
def add_expectations(scores, pair, exp_pair, start, exp_start, scale, residual, pair_residual, start_residual, work):
    """Add scale · p(k at t) to residual, scale · p(i, k at t) to pair_residual; return log Z."""
    table, rows, outer = work
    alpha, local = table[0], table[1]
    beta, message = rows[0], rows[1]
    m, n_labels = scores.shape
    log_z = forward_scaled(scores, np.int64(0), m, exp_pair, exp_start, np.ones(n_labels), alpha, local)
    if math.isnan(log_z):
        return _add_log_expectations(scores, pair, start, scale, residual, pair_residual, start_residual)
    for k in range(n_labels):
        beta[k] = 1.0
    for t in range(m - 1, -1, -1):
        for k in range(n_labels):
            if alpha[t, k] == 0:  # out of reach, so beta is of no use and free to overflow
                beta[k] = 0.0
            residual[t, k] += scale * alpha[t, k] * beta[k]
            message[k] = local[t, k] * beta[k]
        if t == 0:
            for k in range(n_labels):
                start_residual[k] += scale * exp_start[k] * message[k]
        elif len(pair) == 1:  # p(i, k) = alpha_i · exp_pair_ik · message_k: the factor exp_pair waits for the end
            for i in range(n_labels):
                weight = scale * alpha[t - 1, i]
                for k in range(n_labels):
                    outer[i, k] += weight * message[k]
            step_back(exp_pair[0], message, beta)
        else:
            for i in range(n_labels):
                weight = scale * alpha[t - 1, i]
                for k in range(n_labels):
                    pair_residual[t, i, k] += weight * exp_pair[t, i, k] * message[k]
            step_back(exp_pair[t], message, beta)
    return log_z


@njit(nogil=True, cache=True)
def _add_log_expectations(scores, pair, start, scale, residual, pair_residual, start_residual):
    """The slow twin, for scores beyond the scaled recursion."""
    m, n_labels = scores.shape
    zeros = np.zeros(n_labels)
    alpha, beta = np.empty((m, n_labels)), np.empty((m, n_labels))
    log_z = log_forward(scores, np.int64(0), m, pair, start, zeros, alpha)
    log_backward(scores, np.int64(0), m, pair, zeros, beta)
    for t in range(m):
        at = t if len(pair) > 1 else 0
        for k in range(n_labels):
            p = math.exp(alpha[t, k] + beta[t, k] - log_z)
            residual[t, k] += scale * p
            if t == 0:
                start_residual[k] += scale * p
                continue
            for i in range(n_labels):
                joint = math.exp(alpha[t - 1, i] + pair[at, i, k] + scores[t, k] + beta[t, k] - log_z)
                pair_residual[at, i, k] += scale * joint
    return log_z


# -- What a chain model expects minus what the data show: the heart of every gradient ------------------

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


# -- Loss and residuals of a whole corpus of chains, in fixed chunks, on threads -----------------------

Array = NDArray[Any]
CHUNKS = 32


class Residuals(NamedTuple):
    """Derivatives of the loss by node scores (n, L), pair scores (1 or n, L, L) and start scores (L,)."""

    loss: float
    node: Array
    pair: Array
    start: Array


@njit(nogil=True, cache=True)
def _chunk(
    kind, node, labels, weights, pair, exp_pair, start, exp_start, starts, longest, first_seq, last_seq,
    residual, pair_residual, start_residual,
):  # fmt: skip
    work = workspace(longest, node.shape[1])
    loss = 0.0
    for s in range(first_seq, last_seq):
        a, b = starts[s], starts[s + 1]
        c, d = (a, b) if len(pair) > 1 else (np.int64(0), np.int64(1))
        loss += sequence_residuals(
            kind, node[a:b], labels[a:b], weights[a:b], pair[c:d], exp_pair[c:d], start, exp_start,
            residual[a:b], pair_residual[c:d], start_residual, work,
        )  # fmt: skip
    if len(pair) == 1:
        add_outer(work[2], exp_pair, pair_residual)
    return loss


def chain_residuals(
    kind: str, labels: Array, weights: Array, starts: NDArray[np.int64], n_jobs: int = 1
) -> Callable[[Array, Array, Array], Residuals]:
    """A function of (node scores, pair scores, start scores) for one corpus.

    kind     "maxent", "memm" or "crf"
    labels   int (n,), -1 = unknown       weights  float (n,), one a token      starts  (S + 1,)
    The node residuals are written into one array that is used again at the next call.
    """
    bounds = even_bounds(starts, CHUNKS)
    longest = int(np.diff(starts).max(initial=1))
    code = KINDS[kind]
    kept: dict[str, Array] = {}

    def evaluate(node: Array, pair: Array, start: Array) -> Residuals:
        residual = kept.get("node")
        if residual is None or residual.dtype != node.dtype:
            residual = kept["node"] = np.empty_like(node)
        shared = len(pair) == 1
        pair, start = pair.astype(np.float64), start.astype(np.float64)
        exp_pair, exp_start = exp_table(pair), exp_table(start)
        pair_residual = np.zeros(pair.shape)

        def run(chunk: int) -> tuple[float, Array, Array]:
            mine = np.zeros(pair.shape) if shared else pair_residual
            start_residual = np.zeros(len(start))
            loss = _chunk(
                code, node, labels, weights, pair, exp_pair, start, exp_start, starts, longest,
                bounds[chunk], bounds[chunk + 1], residual, mine, start_residual,
            )  # fmt: skip
            return loss, mine, start_residual

        parts = run_chunks(run, len(bounds) - 1, n_jobs)
        if shared:
            pair_residual = sum((part[1] for part in parts), pair_residual)
        start_residual = sum((part[2] for part in parts), np.zeros(len(start)))
        return Residuals(float(sum(part[0] for part in parts)), residual, pair_residual, start_residual)

    return evaluate


# -- A locally normalised chain (MEMM) written as the potentials of a chain ----------------------------
#
#     p(y | x) = p(y_1 | x) Π p(y_t | y_{t-1}, x),     p(k | i, x) ∝ exp(node[t, k] + pair[i, k])
#
# With log p as pair scores, every question asked of a chain can be asked of a MEMM: its log-partition is 0,
# its marginals are the forward pass of the paper, and conditioning on forced labels looks both ways.


@njit(nogil=True, cache=True)
def _tables(node, pair, start, starts, first_seq, last_seq, first_scores, tables):
    for s in range(first_seq, last_seq):
        a, b = starts[s], starts[s + 1]
        c, d = (a, b) if len(pair) > 1 else (np.int64(0), np.int64(1))
        log_conditionals(node[a:b], pair[c:d], start, first_scores[a], tables[a:b])


def conditional_potentials(
    node: NDArray[Any], pair: NDArray[Any], start: NDArray[Any], starts: NDArray[np.int64], n_jobs: int = 1
) -> Potentials:
    """Potentials (node (n, L), a table a token (n, L, L)) whose sum over labellings is 1."""
    n, n_labels = node.shape
    first_scores, tables = np.zeros((n, n_labels)), np.zeros((max(n, 2), n_labels, n_labels))
    pair, start = np.asarray(pair, np.float64), np.asarray(start, np.float64)
    bounds = even_bounds(starts, CHUNKS)

    def run(chunk: int) -> None:
        _tables(node, pair, start, starts, bounds[chunk], bounds[chunk + 1], first_scores, tables)

    run_chunks(run, len(bounds) - 1, n_jobs)
    return Potentials.of(first_scores, tables, starts)
