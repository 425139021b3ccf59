"""A locally normalised chain (MEMM) written as the potentials of a chain.

    p(y | x) = p(y_1 | x) Π p(y_t | y_{t-1}, x),     p(k | i, x) ∝ exp(node[t, k] + pair[i, k])

With log p as pair scores, every question asked of a chain can be asked of a MEMM: its log-partition is 0,
its marginals are the forward pass of the paper, and conditioning on forced labels looks both ways.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.inference.chain import CHUNKS, Potentials
from kinfolk.inference.chain_losses import log_conditionals


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
