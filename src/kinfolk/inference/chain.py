"""Chains: exact inference (log-partition, marginals, best and k-best labellings, spans), and the losses of MaxEnt, MEMM
and CRF with their residuals.

All kernels stand in this one file because they call each other: the losses run the recursions, the stochastic pass the
losses. Many sequences at once: `starts` (S + 1,) cuts the n tokens into sequences of at least one token.
Potentials: node (n, L), pair (L, L) or (n, L, L), start (L,), end (L,), logarithms, -inf
forbids. For a table a token, pair[t] holds the step from t - 1 to t (unused at a first token).
Sequences are independent, so chunks of them run on threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import FAST, njit
from kinfolk.core.threads import even_bounds, run_chunks

# -- Recursions over one sequence, as nogil kernels that call each other -------------------------------
#
# A sequence of m tokens with L labels has potentials
#
#     node   (m, L)         score of a label at a token
#     pair   (1 or n, L, L) score of a label after another; one table for all tokens, or one a token
#     start  (L,)           score of the first label
#     end    (L,)           score of the last label
#
# all as logarithms; -inf forbids. With `one table for all`, pair[0] serves every token; else pair[t].
#
# The scaled recursions work on exponentials and rescale at every token; they cost L exponentials a
# token. They report failure (NaN) when a token's total leaves the range of float64, or when a label's share
# becomes so faint that float64 would lose it, though later tokens may speak for it (labels that exclude each
# other for good). The caller then turns to the logarithmic recursions, which lose nothing.

# Totals outside (TINY, 1 / TINY) are too near the ends of float64 to go on with.
TINY = 1e-200

# A factor or a share in (0, FAINT) is not carried on as a float: a later factor might make it count, and the
# product of two must stay above the least float64.
FAINT = 1e-140
FAINT_SINGLE = 1e-30  # what is below may have lost digits in float32

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


# -- many sequences, on threads ------------------------------------------------------------------------

Array = NDArray[Any]
CHUNKS = 32


class Potentials(NamedTuple):
    """A batch of chains. `pair` has shape (1, L, L) for one table, (n, L, L) for a table a token."""

    node: Array
    pair: Array
    start: Array
    end: Array
    starts: NDArray[np.int64]

    @classmethod
    def of(
        cls, node: Array, pair: Array, starts: Array, start: Array | None = None, end: Array | None = None
    ) -> Potentials:
        zeros = np.zeros(node.shape[1])
        table = np.ascontiguousarray(pair, np.float64)
        return cls(
            np.ascontiguousarray(node, np.float64),
            table if table.ndim == 3 else table[None],
            zeros if start is None else np.asarray(start, np.float64),
            zeros if end is None else np.asarray(end, np.float64),
            np.asarray(starts, np.int64),
        )

    @property
    def chunks(self) -> NDArray[np.int64]:
        return even_bounds(self.starts, CHUNKS)


def _longest(starts: NDArray[np.int64]) -> int:
    return int(np.diff(starts).max(initial=1))


# -- sums ---------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True, fastmath=FAST)
def _marginals(node, pair, exp_pair, start, exp_start, end, exp_end, starts, longest, first_seq, last_seq, out, log_z):
    n_labels = node.shape[1]
    alpha, local = np.empty((longest, n_labels)), np.empty((longest, n_labels))
    beta, message = np.empty(n_labels), np.empty(n_labels)
    for s in range(first_seq, last_seq):
        first, m = starts[s], starts[s + 1] - starts[s]
        log_z[s] = forward_scaled(node, first, m, exp_pair, exp_start, exp_end, alpha, local)
        if math.isnan(log_z[s]):
            log_z[s] = _log_marginals(node, first, m, pair, start, end, out)
            continue
        for k in range(n_labels):
            beta[k] = 1.0
        for t in range(m - 1, -1, -1):
            for k in range(n_labels):
                if alpha[t, k] == 0:  # out of reach, so beta is of no use and free to overflow
                    beta[k] = 0.0
                out[first + t, k] = alpha[t, k] * beta[k]
                message[k] = local[t, k] * beta[k]
            if t > 0:
                step_back(exp_pair[first + t if len(exp_pair) > 1 else 0], message, beta)


@njit(nogil=True, cache=True)
def _log_marginals(node, first, m, pair, start, end, out):
    """The slow twin of the scaled recursion, for scores beyond its range."""
    n_labels = node.shape[1]
    alpha, beta = np.empty((m, n_labels)), np.empty((m, n_labels))
    log_z = log_forward(node, first, m, pair, start, end, alpha)
    log_backward(node, first, m, pair, end, beta)
    for t in range(m):
        for k in range(n_labels):
            out[first + t, k] = math.exp(alpha[t, k] + beta[t, k] - log_z) if log_z > -math.inf else math.nan
    return log_z


class ChainMarginals(NamedTuple):
    """node (n, L): p(label at token); log_partition (S,): one a sequence, -inf if nothing is allowed."""

    node: Array
    log_partition: NDArray[np.float64]


def marginals(potentials: Potentials, n_jobs: int = 1) -> ChainMarginals:
    """Posterior of every label at every token, and log Z of every sequence. NaN where nothing is allowed."""
    p, bounds = potentials, potentials.chunks
    out, log_z = np.empty(p.node.shape), np.empty(len(p.starts) - 1)
    exp_pair, exp_start, exp_end = exp_table(p.pair), exp_table(p.start), exp_table(p.end)
    longest = _longest(p.starts)

    def run(chunk: int) -> None:
        _marginals(
            p.node,
            p.pair,
            exp_pair,
            p.start,
            exp_start,
            p.end,
            exp_end,
            p.starts,
            longest,
            bounds[chunk],
            bounds[chunk + 1],
            out,
            log_z,
        )

    run_chunks(run, len(bounds) - 1, n_jobs)
    return ChainMarginals(out, log_z)


# -- maximum ------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _viterbi(node, pair, start, end, starts, longest, first_seq, last_seq, path, scores):
    n_labels = node.shape[1]
    best, back = np.empty((longest, n_labels)), np.zeros((longest, n_labels), np.int32)
    for s in range(first_seq, last_seq):
        first, m = starts[s], starts[s + 1] - starts[s]
        scores[s] = best_path(node, first, m, pair, start, end, best, back, path)


def viterbi(potentials: Potentials, n_jobs: int = 1) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The best labelling (n,) and its score for every sequence; -1 and -inf where nothing is allowed."""
    p, bounds, longest = potentials, potentials.chunks, _longest(potentials.starts)
    path, scores = np.empty(len(p.node), np.int32), np.empty(len(p.starts) - 1)

    def run(chunk: int) -> None:
        _viterbi(p.node, p.pair, p.start, p.end, p.starts, longest, bounds[chunk], bounds[chunk + 1], path, scores)

    run_chunks(run, len(bounds) - 1, n_jobs)
    return path, scores


@njit(nogil=True, cache=True)
def _k_best(node, pair, start, end, first, m, k_best, paths, scores):
    """List Viterbi: the k best prefixes for each label at each token. Returns how many labellings exist.

    A prefix is (label, rank); its predecessor is coded as label · k + rank.
    """
    n_labels = node.shape[1]
    best = np.full((m, n_labels * k_best), -math.inf)
    back = np.full((m, n_labels * k_best), -1, np.int32)
    for k in range(n_labels):
        best[0, k * k_best] = start[k] + node[first, k]
    candidates = np.empty(n_labels * k_best)
    for t in range(1, m):
        table = pair[first + t if len(pair) > 1 else 0]
        for k in range(n_labels):
            for c in range(n_labels * k_best):
                candidates[c] = best[t - 1, c] + table[c // k_best, k]
            order = np.argsort(-candidates)
            for rank in range(k_best):
                if candidates[order[rank]] == -math.inf:
                    break
                best[t, k * k_best + rank] = candidates[order[rank]] + node[first + t, k]
                back[t, k * k_best + rank] = order[rank]
    for c in range(n_labels * k_best):
        candidates[c] = best[m - 1, c] + end[c // k_best]
    order = np.argsort(-candidates)
    found = 0
    for rank in range(k_best):
        at = order[rank]
        if candidates[at] == -math.inf:
            break
        scores[rank] = candidates[at]
        for t in range(m - 1, -1, -1):
            paths[rank, t] = at // k_best
            at = back[t, at]
        found += 1
    return found


def k_best(potentials: Potentials, k: int, n_jobs: int = 1) -> list[tuple[NDArray[np.int32], NDArray[np.float64]]]:
    """For every sequence its k best labellings (≤ k, m) and their scores, falling; fewer if fewer exist."""
    p, bounds = potentials, potentials.chunks

    def run(chunk: int) -> list[tuple[NDArray[np.int32], NDArray[np.float64]]]:
        answers = []
        for s in range(bounds[chunk], bounds[chunk + 1]):
            first, m = int(p.starts[s]), int(p.starts[s + 1] - p.starts[s])
            paths, scores = np.empty((k, m), np.int32), np.empty(k)
            found = _k_best(p.node, p.pair, p.start, p.end, first, m, k, paths, scores)
            answers.append((paths[:found], scores[:found]))
        return answers

    return [answer for chunk in run_chunks(run, len(bounds) - 1, n_jobs) for answer in chunk]


# -- Exact probabilities of whole spans under a chain --------------------------------------------------
#
#     P(y_a..y_b = given labels, and what follows does not continue the span)
#
# by the constrained forward-backward of Culotta and McCallum (2004): the weight of all labellings that
# agree with the span, over the weight of all labellings.


@njit(nogil=True, cache=True)
def _span_probabilities(node, pair, start, end, starts, sequence, first_token, last_token, labels, continues, out):
    """Spans stand in sentence order; alpha and beta are worked out once a sequence that has any."""
    n_labels = node.shape[1]
    done = -1
    alpha, beta = np.empty((1, n_labels)), np.empty((1, n_labels))
    log_z, at = 0.0, 0
    terms = np.empty(n_labels)
    for i in range(len(sequence)):
        s = sequence[i]
        first, m = starts[s], starts[s + 1] - starts[s]
        if s != done:
            alpha, beta = np.empty((m, n_labels)), np.empty((m, n_labels))
            log_z = log_forward(node, first, m, pair, start, end, alpha)
            log_backward(node, first, m, pair, end, beta)
            done = s
        a, b = first_token[i] - first, last_token[i] - first
        # alpha at the first token, then one step a token inside the span
        weight = alpha[a, labels[at]]
        for t in range(a + 1, b + 1):
            before, here = labels[at + t - a - 1], labels[at + t - a]
            weight += pair[first + t if len(pair) > 1 else 0][before, here] + node[first + t, here]
            if t == m - 1:
                weight += end[here]
        final = labels[at + b - a]
        if b < m - 1:  # what follows: any label that does not continue the span
            table = pair[first + b + 1 if len(pair) > 1 else 0]
            for k in range(n_labels):
                terms[k] = -math.inf
                if not continues[final, k]:
                    terms[k] = table[final, k] + node[first + b + 1, k] + beta[b + 1, k]
                    if b + 1 == m - 1:
                        terms[k] += end[k]
            weight += log_sum(terms)
        out[i] = math.exp(weight - log_z)
        at += b - a + 1


def span_probabilities(
    potentials: Potentials,
    sequence: NDArray[np.integer],
    first_token: NDArray[np.integer],
    last_token: NDArray[np.integer],
    labels: NDArray[np.integer],
    continues: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Probability of each span, of tokens first..last (both included, global offsets) in its sequence.

    labels     the labels of all spans, one after the other
    continues  (L, L), True where label k behind a span that ends in label i would carry the span on
    """
    p, out = potentials, np.empty(len(sequence))
    as_int = lambda array: np.asarray(array, np.int64)  # noqa: E731
    _span_probabilities(
        p.node, p.pair, p.start, p.end, p.starts,
        as_int(sequence), as_int(first_token), as_int(last_token), as_int(labels), continues, out,
    )  # fmt: skip
    return out


def expected_correct(
    node_marginals: NDArray[Any], starts: NDArray[np.integer], allowed: NDArray[np.bool_],
    start: NDArray[np.bool_], end: NDArray[np.bool_],
) -> Potentials:  # fmt: skip
    """Potentials whose best labelling is the valid one with the greatest expected number of right labels.

    The expectation of right labels is Σ_t p(y_t), a sum of node scores, so Viterbi over the marginals with
    forbidden steps at -inf finds the maximum.
    """
    forbid = lambda mask: np.where(mask, 0.0, -np.inf)  # noqa: E731
    return Potentials.of(node_marginals, forbid(allowed), starts, forbid(start), forbid(end))


# -- What a chain model expects minus what the data show: the heart of every gradient ------------------
#
# For a loss that is a function of scores, a residual is its derivative by one score:
#
#     maxent   -log p(y_t | x)                     p(k at t) - [y_t = k]
#     memm     -log p(y_t | y_{t-1}, x)            p(k at t | y_{t-1}) - [y_t = k]
#     crf      log Z - score(y)                    p(k at t) - [y_t = k], and likewise for pairs
#
# A label of -1 is unknown. The loss of a partly labelled sequence is -log of the total probability of all
# labellings that agree with what is known; its residual is the expectation over all labellings minus the
# expectation over those (for the MEMM, over conditionals). Token weights multiply the loss of a token (maxent,
# memm); a loss that is of a whole sequence (crf, or memm with unknown labels) is multiplied by the mean
# weight of its labelled tokens.
#
# The kernels see one sequence: node (m, L), labels and weights (m,), pair (1 or m, L, L), start (L,). They write the
# node residuals (m, L) and add to those of pairs (1 or m, L, L) and start (L,).

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


# -- One stochastic pass over sequences: scores, residuals and update fused in a kernel ----------------
#
#     w ← (1 - η λ) w - η · (gradient of one sequence),      λ = l2 / (number of sequences)
#
# The shrinking is kept in one factor, w = scale · v, so a step touches only the features of its tokens; tokens
# that the model already has right (all residuals below NEGLIGIBLE) are passed over.

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
