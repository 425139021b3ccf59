"""Exact inference on chains: log-partition, marginals, best and k-best labellings, span probabilities.

Many sequences at once: `starts` (S + 1,) cuts the n tokens into sequences of at least one token.
Potentials as in `lattice`: node (n, L), pair (L, L) or (n, L, L), start (L,), end (L,), logarithms, -inf
forbids. For a table a token, pair[t] holds the step from t - 1 to t (unused at a first token).
Sequences are independent, so chunks of them run on threads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.inference.lattice import best_path, exp_table, forward_scaled, log_backward, log_forward, step_back
from kinfolk.inference.numeric import FAST

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
