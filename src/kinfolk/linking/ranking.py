"""Mention ranking with latent antecedents (Durrett and Klein, 2013): a mixture of parents learned over clusters.

Every item follows one of its antecedents or starts a cluster; which one is not known, only which would be right. With
s the score of a pair, G(j) the antecedents of j that are in its true cluster, and 0 the score of a new cluster,

    loss = Σ_j [ log(1 + Σ_i exp s_ij) - log N_j ] + ½ l2 |w|²,    N_j = Σ_{i in G(j)} exp s_ij, or 1 if there are none
    ∂ loss / ∂ s_ij = a_ij - [i in G(j)] exp s_ij / N_j            a_ij = exp s_ij / (1 + Σ_k exp s_kj)

Pairs with the same row of weights have the same score, so there is one exponential a distinct row; sums over the
antecedents of an item look it up, and derivatives are added up row by row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.inference.antecedents import CHUNKS, HIGHEST, item_starts
from kinfolk.linking.objective import BLOCK, ROWS, grouped_scores
from kinfolk.linking.pair_table import GroupedRows

Array = NDArray[Any]


class RankingObjective:
    """The loss above with its gradient.

    on           the weights that are on in each row
    row, right   of each pair its row and its later item, of n; pairs in order of right
    true         whether the pair is in one cluster
    """

    def __init__(
        self, on: GroupedRows, row: Array, right: Array, true: Array, n: int, l2: float, n_jobs: int = 1
    ) -> None:
        self.on, self.l2, self.n_jobs = on, l2, n_jobs
        starts = item_starts(n, right)
        self._items = PairsOfItems(starts, np.ascontiguousarray(row, np.int32), np.ascontiguousarray(true))
        self._item_bounds = even_bounds(starts, CHUNKS)
        order = np.argsort(row, kind="stable")
        row_starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=on.n_rows))]).astype(np.int64)
        self._rows = PairsOfRows(row_starts, (2 * right[order].astype(np.int64) + true[order]).astype(np.int32))
        self._inverse = np.zeros((n, 2))  # 1 / (1 + Σ exp s), and 1 / N where there are true antecedents
        self._odds = np.empty(0)  # exp s of each row

    def __call__(self, flat: Array, gradient: Array) -> float:
        score = grouped_scores(flat, self.on, self.n_jobs)
        shift = max(0.0, float(score.max(initial=0.0)) - HIGHEST)
        self._odds = np.exp(np.maximum(score - shift, -HIGHEST))
        bounds, new = self._item_bounds, np.exp(max(-shift, -HIGHEST))

        def chunk(c: int) -> float:
            return float(_loss(self._items, bounds[c], bounds[c + 1], self._odds, new, self._inverse))

        loss = sum(run_chunks(chunk, len(bounds) - 1, self.n_jobs))
        gradient[:] = self.l2 * flat + self._by_weight(False)
        return loss + 0.5 * self.l2 * float(flat @ flat)

    def inverse_curvature(self) -> Array:
        """1 / the second derivative by each weight alone, a (1 - a) of every pair, at the weights of the last call."""
        return np.asarray(1.0 / np.maximum(self.l2 + self._by_weight(True), 1e-8))

    def _by_weight(self, second: bool) -> Array:
        """First or second derivatives by the scores, added up by weight."""
        on = self.on

        def chunk(c: int) -> Array:
            part = slice(c * ROWS, (c + 1) * ROWS)
            found = np.zeros(int(on.starts[-1]))
            pairs = PairsOfRows(self._rows.starts[c * ROWS : (c + 1) * ROWS + 1], self._rows.partner)
            _derivatives(pairs, self._odds[part], self._inverse, on.starts, on.ids[:, part], second, found)
            return found

        total = np.zeros(int(on.starts[-1]))
        for found in run_chunks(chunk, -(-on.n_rows // ROWS), self.n_jobs):
            total += found
        return on.spread(total)


class PairsOfItems(NamedTuple):
    """The row of each pair, and whether it is true; those of item j are starts[j] ... starts[j + 1] - 1."""

    starts: NDArray[np.int64]
    row: NDArray[np.int32]
    true: NDArray[np.bool_]


class PairsOfRows(NamedTuple):
    """Twice the later item of each pair, and 1 more where it is true; those of row r are starts[r] ... as above."""

    starts: NDArray[np.int64]
    partner: NDArray[np.int32]


@njit(nogil=True, cache=True)
def _loss(pairs, first, last, odds, new, inverse):
    loss = 0.0
    for j in range(first, last):
        total, right = new, 0.0
        for p in range(pairs.starts[j], pairs.starts[j + 1]):
            e = odds[pairs.row[p]]
            total += e
            if pairs.true[p]:
                right += e
        known = pairs.starts[j] < pairs.starts[j + 1] and right > 0.0
        inverse[j, 0] = 1.0 / total
        inverse[j, 1] = 1.0 / right if known else 0.0
        loss += np.log(total) - np.log(right if known else new)
    return loss


@njit(nogil=True, cache=True)
def _derivatives(pairs, odds, inverse, starts, ids, second, found):
    """Adds the derivatives of some rows, all their pairs together, to the entries of each group, `found`."""
    derivative = np.empty(BLOCK)
    for block in range(0, ids.shape[1], BLOCK):
        m = min(BLOCK, ids.shape[1] - block)
        for r in range(m):
            e, total = odds[block + r], 0.0
            for p in range(pairs.starts[block + r], pairs.starts[block + r + 1]):
                j = pairs.partner[p] >> 1
                share = inverse[j, 0]
                if second:
                    total += share * (1.0 - e * share)
                else:
                    total += share - (pairs.partner[p] & 1) * inverse[j, 1]
            derivative[r] = e * total
        for g in range(ids.shape[0]):
            for r in range(m):
                found[starts[g] + ids[g, block + r]] += derivative[r]
