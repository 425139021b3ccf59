"""Chains: exact inference, that is log-partition, marginals, best and k-best labellings, spans; and MEMMs as chains.

Many sequences at once: `starts` (S + 1,) cuts the n tokens into sequences of at least one token. Sequences are
independent, so chunks of them run on threads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import read_only
from kinfolk.core.kernels import FAST, log_sum, njit
from kinfolk.core.threads import even_bounds, run_chunks

# -- Recursions over one sequence, as nogil kernels that call each other -------------------------------
#
# The scaled recursions work on exponentials and rescale at every token; they cost L exponentials a
# token. They report failure (NaN) when a token's total leaves the range of float64, or when a label's share
# becomes so faint that float64 would lose it, though later tokens may speak for it (labels that exclude each
# other for good). The caller then turns to the logarithmic recursions, which lose nothing.

Array = NDArray[Any]
CHUNKS = 32


class Chain(NamedTuple):
    """Scores of n tokens with L labels, as logarithms; -inf forbids.

    node   (n, L)           of a label at a token
    pair   (1 or n, L, L)   of a label after another: one table for all tokens, or pair[t] for the step to token t
    start  (L,)             of the first label of a sequence
    end    (L,)             of the last
    """

    node: Array
    pair: Array
    start: Array
    end: Array


class Factors(NamedTuple):
    """Exponentials of the pair, start and end scores, by `exp_table`."""

    pair: Array
    start: Array
    end: Array


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
def forward_scaled(node, first, m, factors, alpha, local):
    """Fill alpha (m, L), each row summing to 1, and local (m, L) with

        local[t, k] = exp(node[t, k] - max) / scale_t,   alpha[t] = (alpha[t-1] · exp(pair)) ∘ local[t]

    and return log Z, or NaN for failure. The end score is part of local[m-1].
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
                alpha[0, k] = factors.start[k]
        else:
            table = factors.pair[row if len(factors.pair) > 1 else 0]
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
                local[t, k] *= factors.end[k]
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
def log_forward(chain, first, m, alpha):
    """alpha[t, k] = log of the total weight of prefixes that end in label k at t; returns log Z."""
    node, pair, start, end = chain
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
def log_backward(chain, first, m, beta):
    """beta[t, k] = log of the total weight of what may follow label k at t (0 at the last token).

    The end score stands in alpha's last row and in the step from the last token here.
    """
    node, pair, _, end = chain
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
def best_path(chain, first, m, best, back, path):
    """Viterbi: fill path (m,) and return the score; -inf (and path -1) if every labelling is forbidden."""
    node, pair, start, end = chain
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


class Potentials(NamedTuple):
    """A batch of sequences, with the scores of a `Chain`."""

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
            read_only(np.asarray(starts, np.int64)),
        )

    @property
    def chain(self) -> Chain:
        return Chain(*self[:4])

    def chunks(self, n_jobs: int) -> NDArray[np.int64]:
        """Bounds of runs of sequences for threads; for one thread there is no need to cut."""
        return even_bounds(self.starts, CHUNKS if n_jobs > 1 else 1)

    @property
    def longest(self) -> int:
        return int(np.diff(self.starts).max(initial=1))


# -- sums ---------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True, fastmath=FAST)
def _marginals(chain, factors, starts, longest, first_seq, last_seq, out, log_z):
    n_labels = chain.node.shape[1]
    alpha, local = np.empty((longest, n_labels)), np.empty((longest, n_labels))
    beta, message = np.empty(n_labels), np.empty(n_labels)
    for s in range(first_seq, last_seq):
        first, m = starts[s], starts[s + 1] - starts[s]
        log_z[s] = forward_scaled(chain.node, first, m, factors, alpha, local)
        if math.isnan(log_z[s]):
            log_z[s] = _log_marginals(chain, first, m, out)
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
                step_back(factors.pair[first + t if len(factors.pair) > 1 else 0], message, beta)


@njit(nogil=True, cache=True)
def _log_marginals(chain, first, m, out):
    """The slow twin of the scaled recursion, for scores beyond its range."""
    n_labels = chain.node.shape[1]
    alpha, beta = np.empty((m, n_labels)), np.empty((m, n_labels))
    log_z = log_forward(chain, first, m, alpha)
    log_backward(chain, first, m, beta)
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
    chain, bounds, longest = potentials.chain, potentials.chunks(n_jobs), potentials.longest
    out, log_z = np.empty(chain.node.shape), np.empty(len(potentials.starts) - 1)
    factors = Factors(*map(exp_table, chain[1:]))

    def run(chunk: int) -> None:
        _marginals(chain, factors, potentials.starts, longest, bounds[chunk], bounds[chunk + 1], out, log_z)

    run_chunks(run, len(bounds) - 1, n_jobs)
    return ChainMarginals(out, log_z)


# -- maximum ------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _viterbi(chain, starts, longest, first_seq, last_seq, path, scores):
    n_labels = chain.node.shape[1]
    best, back = np.empty((longest, n_labels)), np.zeros((longest, n_labels), np.int32)
    for s in range(first_seq, last_seq):
        first, m = starts[s], starts[s + 1] - starts[s]
        scores[s] = best_path(chain, first, m, best, back, path)


def viterbi(potentials: Potentials, n_jobs: int = 1) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The best labelling (n,) and its score for every sequence; -1 and -inf where nothing is allowed."""
    chain, bounds, longest = potentials.chain, potentials.chunks(n_jobs), potentials.longest
    path, scores = np.empty(len(chain.node), np.int32), np.empty(len(potentials.starts) - 1)

    def run(chunk: int) -> None:
        _viterbi(chain, potentials.starts, longest, bounds[chunk], bounds[chunk + 1], path, scores)

    run_chunks(run, len(bounds) - 1, n_jobs)
    return path, scores


@njit(nogil=True, cache=True)
def _k_best(chain, first, m, k_best, paths, scores):
    """List Viterbi: the k best prefixes for each label at each token. Returns how many labellings exist.

    A prefix is (label, rank); its predecessor is coded as label · k + rank.
    """
    node, pair, start, end = chain
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
    chain, starts, bounds = potentials.chain, potentials.starts, potentials.chunks(n_jobs)

    def run(chunk: int) -> list[tuple[NDArray[np.int32], NDArray[np.float64]]]:
        answers = []
        for s in range(bounds[chunk], bounds[chunk + 1]):
            first, m = int(starts[s]), int(starts[s + 1] - starts[s])
            paths, scores = np.empty((k, m), np.int32), np.empty(k)
            found = _k_best(chain, first, m, k, paths, scores)
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
def _span_probabilities(chain, starts, spans, continues, out):
    """Spans stand in sentence order; alpha and beta are worked out once a sequence that has any."""
    node, pair, _, end = chain
    sequence, first_token, last_token, labels = spans
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
            log_z = log_forward(chain, first, m, alpha)
            log_backward(chain, first, m, beta)
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
    out = np.empty(len(sequence))
    spans = tuple(np.asarray(array, np.int64) for array in (sequence, first_token, last_token, labels))
    _span_probabilities(potentials.chain, potentials.starts, spans, continues, out)
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


# -- A locally normalised chain (MEMM) written as the potentials of a chain ----------------------------
#
#     p(y | x) = p(y_1 | x) Π p(y_t | y_{t-1}, x),     p(k | i, x) ∝ exp(node[t, k] + pair[i, k])
#
# With log p as pair scores, every question asked of a chain can be asked of a MEMM: its log-partition is 0,
# its marginals are the forward pass of the paper, and conditioning on forced labels looks both ways. Where all tokens
# share one table of pairs no table a token is made: log p(y | x) is a sum over tokens, and the normaliser of the step
# from label i at t stands with the score of i at t,
#
#     log p(y | x) = start[y_1] - log Z_1 + Σ_t pair[y_{t-1}, y_t] + Σ_t ( node[t, y_t] - log Z_{t+1}(y_t) )


@njit(nogil=True, cache=True)
def log_conditionals(chain, log_start, log_pair):
    """log p(y_t | y_{t-1}, x) as tables (m, L, L), and log p(y_1 | x) as (L,).

    A label that nothing may follow keeps a row of -inf.
    """
    node, pair, start, _ = chain
    m, n_labels = node.shape
    for k in range(n_labels):
        log_start[k] = start[k] + node[0, k]
    total = log_sum(log_start)
    if total > -math.inf:
        for k in range(n_labels):
            log_start[k] -= total
    for t in range(1, m):
        table = pair[t if len(pair) > 1 else 0]
        for i in range(n_labels):
            for k in range(n_labels):
                log_pair[t, i, k] = table[i, k] + node[t, k]
            total = log_sum(log_pair[t, i])
            if total > -math.inf:
                for k in range(n_labels):
                    log_pair[t, i, k] -= total


@njit(nogil=True, cache=True)
def _tables(chain, starts, first_seq, last_seq, first_scores, tables):
    node, pair, start, end = chain
    for s in range(first_seq, last_seq):
        a, b = starts[s], starts[s + 1]
        c, d = (a, b) if len(pair) > 1 else (np.int64(0), np.int64(1))
        log_conditionals(Chain(node[a:b], pair[c:d], start, end), first_scores[a], tables[a:b])


@njit(nogil=True, cache=True)
def _less_normalisers(chain, starts, first_seq, last_seq, out):
    """Node scores (n, L) less the log-normalisers of the steps from them; those of labels that nothing may follow stay
    as they are."""
    node, pair, start, _ = chain
    n_labels = node.shape[1]
    terms = np.empty(n_labels)
    for s in range(first_seq, last_seq):
        a, b = starts[s], starts[s + 1]
        for k in range(n_labels):
            terms[k] = start[k] + node[a, k]
        total = log_sum(terms)
        for t in range(a, b):
            for i in range(n_labels):
                out[t, i] = node[t, i]
                if t == a and total > -math.inf:
                    out[t, i] -= total
                if t + 1 < b:
                    for k in range(n_labels):
                        terms[k] = pair[0, i, k] + node[t + 1, k]
                    step = log_sum(terms)
                    if step > -math.inf:
                        out[t, i] -= step


def conditional_potentials(
    node: NDArray[Any], pair: NDArray[Any], start: NDArray[Any], starts: NDArray[np.int64], n_jobs: int = 1
) -> Potentials:
    """Potentials whose sum over labellings is 1; with a table a token (n, L, L) where `pair` has several."""
    n, n_labels = node.shape
    chain = Chain(node, np.asarray(pair, np.float64), np.asarray(start, np.float64), np.zeros(n_labels))
    bounds, scores, shared = even_bounds(starts, CHUNKS), np.zeros((n, n_labels)), len(pair) == 1
    tables = chain.pair if shared else np.zeros((max(n, 2), n_labels, n_labels))

    def run(chunk: int) -> None:
        if shared:
            _less_normalisers(chain, starts, bounds[chunk], bounds[chunk + 1], scores)
        else:
            _tables(chain, starts, bounds[chunk], bounds[chunk + 1], scores, tables)

    run_chunks(run, len(bounds) - 1, n_jobs)
    return Potentials.of(scores, tables, starts, chain.start if shared else None)
