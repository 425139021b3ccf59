"""Loss and residuals of a whole corpus of chains, in fixed chunks, on threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.inference.chain_losses import KINDS, add_outer, sequence_residuals, workspace
from kinfolk.inference.lattice import exp_table

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
