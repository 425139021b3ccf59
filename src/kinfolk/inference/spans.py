"""Exact probabilities of whole spans under a chain.

    P(y_a..y_b = given labels, and what follows does not continue the span)

by the constrained forward-backward of Culotta and McCallum (2004): the weight of all labellings that
agree with the span, over the weight of all labellings.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.inference.chain import Potentials
from kinfolk.inference.lattice import log_backward, log_forward, log_sum


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
