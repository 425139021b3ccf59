"""What a chain model expects minus what the data show: losses of MaxEnt, MEMM and CRF with their residuals.

For a loss that is a function of scores, a residual is its derivative by one score:

    maxent   -log p(y_t | x)                     p(k at t) - [y_t = k]
    memm     -log p(y_t | y_{t-1}, x)            p(k at t | y_{t-1}) - [y_t = k]
    crf      log Z - score(y)                    p(k at t) - [y_t = k], and likewise for pairs

A label of -1 is unknown. The loss of a partly labelled sequence is -log of the total probability of all
labellings that agree with what is known; its residual is the expectation over all labellings minus the
expectation over those (for the MEMM, over conditionals). Token weights multiply the loss of a token (maxent,
memm); a loss that is of a whole sequence (crf, or memm with unknown labels) is multiplied by the mean
weight of its labelled tokens.

The kernels see one sequence: a Chain of m tokens, labels and weights (m,). They write the node residuals (m, L) and
add to those of pairs (1 or m, L, L) and start (L,).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import read_only
from kinfolk.core.kernels import FAST, njit, softmax
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.inference.chain import (
    CHUNKS,
    Chain,
    Factors,
    exp_table,
    forward_scaled,
    log_backward,
    log_conditionals,
    log_forward,
    step_back,
)

Array = NDArray[Any]

# A kind is a tuple of that many numbers: numba knows its length before it compiles, and leaves out the other kinds,
# which take as long to compile as the one that was asked for.
KINDS = {"maxent": (), "memm": (0,), "crf": (0, 0)}


class Parts(NamedTuple):
    """Weights, or derivatives of a loss by scores: of labels at tokens, of pairs of labels, of first labels."""

    node: Array
    pair: Array
    start: Array


class Sequences(NamedTuple):
    """labels int (n,), -1 = unknown; weights float (n,), one a token; starts (S + 1,); tokens of the longest."""

    labels: Array
    weights: Array
    starts: NDArray[np.int64]
    longest: int

    @classmethod
    def of(cls, labels: Array, weights: Array, starts: NDArray[np.int64]) -> Sequences:
        """All read only, wherever they came from: so kernels are compiled for one type of them."""
        longest = int(np.diff(starts).max(initial=1))
        return cls(read_only(labels), read_only(weights), read_only(starts), longest)


class Work(NamedTuple):
    """Scratch of one thread: alpha, local, node scores (longest, L); beta, message (L,); outer sums (L, L)."""

    alpha: Array
    local: Array
    scores: Array
    beta: Array
    message: Array
    outer: Array


@njit(nogil=True, cache=True)
def workspace(longest, n_labels):
    tables, rows = np.empty((3, longest, n_labels)), np.empty((2, n_labels))
    return Work(tables[0], tables[1], tables[2], rows[0], rows[1], np.zeros((n_labels, n_labels)))


# -- Expected counts of a chain: how often each label and each pair of labels is expected, by forward-backward ---


@njit(nogil=True, cache=True, fastmath=FAST)
def _add_expectations(chain, factors, scale, out, work):
    """Add scale · p(k at t) to the node residuals, scale · p(i, k at t) to those of pairs; return log Z."""
    alpha, local, beta, message, outer = work.alpha, work.local, work.beta, work.message, work.outer
    m, n_labels = chain.node.shape
    log_z = forward_scaled(chain.node, np.int64(0), m, factors, alpha, local)
    if math.isnan(log_z):
        return _add_log_expectations(chain, scale, out)
    for k in range(n_labels):
        beta[k] = 1.0
    for t in range(m - 1, -1, -1):
        for k in range(n_labels):
            if alpha[t, k] == 0:  # out of reach, so beta is of no use and free to overflow
                beta[k] = 0.0
            out.node[t, k] += scale * alpha[t, k] * beta[k]
            message[k] = local[t, k] * beta[k]
        if t == 0:
            for k in range(n_labels):
                out.start[k] += scale * factors.start[k] * message[k]
        elif len(factors.pair) == 1:  # p(i, k) = alpha_i · exp(pair_ik) · message_k: exp(pair) waits for the end
            for i in range(n_labels):
                weight = scale * alpha[t - 1, i]
                for k in range(n_labels):
                    outer[i, k] += weight * message[k]
            step_back(factors.pair[0], message, beta)
        else:
            for i in range(n_labels):
                weight = scale * alpha[t - 1, i]
                for k in range(n_labels):
                    out.pair[t, i, k] += weight * factors.pair[t, i, k] * message[k]
            step_back(factors.pair[t], message, beta)
    return log_z


@njit(nogil=True, cache=True)
def _add_log_expectations(chain, scale, out):
    """The slow twin, for scores beyond the scaled recursion."""
    scores, pair = chain.node, chain.pair
    m, n_labels = scores.shape
    alpha, beta = np.empty((m, n_labels)), np.empty((m, n_labels))
    log_z = log_forward(chain, np.int64(0), m, alpha)
    log_backward(chain, np.int64(0), m, beta)
    for t in range(m):
        at = t if len(pair) > 1 else 0
        for k in range(n_labels):
            p = math.exp(alpha[t, k] + beta[t, k] - log_z)
            out.node[t, k] += scale * p
            if t == 0:
                out.start[k] += scale * p
                continue
            for i in range(n_labels):
                joint = math.exp(alpha[t - 1, i] + pair[at, i, k] + scores[t, k] + beta[t, k] - log_z)
                out.pair[at, i, k] += scale * joint
    return log_z


@njit(nogil=True, cache=True)
def add_outer(outer, exp_pair, out):
    """Give the sums of alpha · message their common factor exp(pair), and clear them."""
    for i in range(outer.shape[0]):
        for k in range(outer.shape[1]):
            if outer[i, k] != 0:
                out[0, i, k] += outer[i, k] * exp_pair[0, i, k]
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
def maxent(node, labels, weights, residual):
    """A softmax of its own: the shared one takes rows and scales them once more, which took 1.5 times as long."""
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


@njit(nogil=True, cache=True, fastmath=FAST, inline="always")
def crf(chain, factors, labels, weights, out, work):
    pair = chain.pair
    m, n_labels = chain.node.shape
    weight, known = _mean_weight(labels, weights)
    scores = work.scores[:m]
    for t in range(m):
        for k in range(n_labels):
            out.node[t, k] = 0
            scores[t, k] = chain.node[t, k]
    if known == 0 or weight == 0:
        return 0.0
    copied = Chain(scores, pair, chain.start, chain.end)
    log_z = _add_expectations(copied, factors, weight, out, work)
    if known < m:
        _forbid_others(scores, labels)
        return weight * (log_z - _add_expectations(copied, factors, -weight, out, work))
    gold = chain.start[labels[0]]
    out.start[labels[0]] -= weight
    for t in range(m):
        label = labels[t]
        gold += scores[t, label]
        out.node[t, label] -= weight
        if t > 0:
            at = t if len(pair) > 1 else 0
            gold += pair[at, labels[t - 1], label]
            out.pair[at, labels[t - 1], label] -= weight
    return weight * (log_z - gold)


# -- memm ---------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True, fastmath=FAST)
def memm(chain, labels, weights, out, work):
    node, pair = chain.node, chain.pair
    m, n_labels = node.shape
    mean_weight, known = _mean_weight(labels, weights)
    if known < m:
        return _memm_partial(chain, labels, mean_weight, known, out)
    p = work.beta
    loss = 0.0
    for t in range(m):
        label, weight = labels[t], weights[t]
        at = t if len(pair) > 1 else 0
        row = chain.start if t == 0 else pair[at, labels[t - 1]]
        for k in range(n_labels):
            p[k] = node[t, k] + row[k]
        score = p[label]
        loss += weight * (softmax(p, p) - score)
        sums = out.start if t == 0 else out.pair[at, labels[t - 1]]
        for k in range(n_labels):
            change = weight * (p[k] - (k == label))
            out.node[t, k] = change
            sums[k] += change
    return loss


@njit(nogil=True, cache=True)
def _memm_partial(chain, labels, weight, known, out):
    """-log Σ_{y agrees} Π p(y_t | y_{t-1}). With q the posterior over labellings that agree,

    residual of (i, k at t) = q(i at t-1) · p(k | i) - q(i, k at t)
    """
    m, n_labels = chain.node.shape
    for t in range(m):
        for k in range(n_labels):
            out.node[t, k] = 0
    if known == 0 or weight == 0:
        return 0.0
    log_start, log_pair = np.empty(n_labels), np.zeros((max(m, 2), n_labels, n_labels))
    log_conditionals(chain, log_start, log_pair)
    agree = np.zeros((m, n_labels))
    _forbid_others(agree, labels)
    alpha, beta = np.empty((m, n_labels)), np.empty((m, n_labels))
    agreeing = Chain(agree, log_pair, log_start, np.zeros(n_labels))
    log_q = log_forward(agreeing, np.int64(0), m, alpha)
    log_backward(agreeing, np.int64(0), m, beta)
    for k in range(n_labels):
        change = weight * (math.exp(log_start[k]) - math.exp(alpha[0, k] + beta[0, k] - log_q))
        out.node[0, k] += change
        out.start[k] += change
    for t in range(1, m):
        at = t if len(chain.pair) > 1 else 0
        for i in range(n_labels):
            q_before = math.exp(alpha[t - 1, i] + beta[t - 1, i] - log_q)
            for k in range(n_labels):
                joint = math.exp(alpha[t - 1, i] + log_pair[t, i, k] + agree[t, k] + beta[t, k] - log_q)
                change = weight * (q_before * math.exp(log_pair[t, i, k]) - joint)
                out.node[t, k] += change
                out.pair[at, i, k] += change
    return -weight * log_q


# -- Loss and residuals of a whole corpus of chains, in fixed chunks, on threads -----------------------


class Residuals(NamedTuple):
    """Derivatives of the loss by node scores (n, L), pair scores (1 or n, L, L) and start scores (L,)."""

    loss: float
    node: Array
    pair: Array
    start: Array


@njit(nogil=True, cache=True, fastmath=FAST)
def _chunk(kind, chain, factors, sequences, first_seq, last_seq, out):
    node, pair, start, end = chain
    work = workspace(sequences.longest, node.shape[1])
    loss = 0.0
    for s in range(first_seq, last_seq):
        a, b = sequences.starts[s], sequences.starts[s + 1]
        c, d = (a, b) if len(pair) > 1 else (np.int64(0), np.int64(1))
        one = Chain(node[a:b], pair[c:d], start, end)
        exponentials = Factors(factors.pair[c:d], factors.start, factors.end)
        mine = Parts(out.node[a:b], out.pair[c:d], out.start)
        labels, weights = sequences.labels[a:b], sequences.weights[a:b]
        if len(kind) == 0:
            loss += maxent(one.node, labels, weights, mine.node)
        elif len(kind) == 1:
            loss += memm(one, labels, weights, mine, work)
        else:
            loss += crf(one, exponentials, labels, weights, mine, work)
    if len(pair) == 1:
        add_outer(work.outer, factors.pair, out.pair)
    return loss


def chain_residuals(
    kind: str, labels: Array, weights: Array, starts: NDArray[np.int64], n_jobs: int = 1
) -> Callable[[Array, Array, Array], Residuals]:
    """A function of (node scores, pair scores, start scores) for one corpus.

    kind     "maxent", "memm" or "crf"
    labels   int (n,), -1 = unknown       weights  float (n,), one a token      starts  (S + 1,)
    The node residuals are written into one array that is used again at the next call.
    """
    bounds, sequences = even_bounds(starts, CHUNKS), Sequences.of(labels, weights, starts)
    kept: dict[str, Array] = {}

    def evaluate(node: Array, pair: Array, start: Array) -> Residuals:
        residual = kept.get("node")
        if residual is None or residual.dtype != node.dtype:
            residual = kept["node"] = np.empty_like(node)
        shared = len(pair) == 1 and kind != "maxent"  # whose pairs have no say
        chain = Chain(node, pair.astype(np.float64), start.astype(np.float64), np.zeros(len(start)))
        factors = Factors(*map(exp_table, chain[1:]))
        pair_residual = np.zeros(pair.shape)

        def run(chunk: int) -> tuple[float, Parts]:
            out = Parts(residual, np.zeros(pair.shape) if shared else pair_residual, np.zeros(len(start)))
            return _chunk(KINDS[kind], chain, factors, sequences, bounds[chunk], bounds[chunk + 1], out), out

        parts = run_chunks(run, len(bounds) - 1, n_jobs)
        if shared:
            pair_residual = sum((out.pair for _, out in parts), pair_residual)
        start_residual = sum((out.start for _, out in parts), np.zeros(len(start)))
        return Residuals(float(sum(loss for loss, _ in parts)), residual, pair_residual, start_residual)

    return evaluate
