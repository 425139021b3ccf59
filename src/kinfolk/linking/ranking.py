"""Mention ranking with latent antecedents (Durrett and Klein, 2013): a mixture of parents learned over clusters.

Every item follows one of its antecedents or starts a cluster; which one is not known, only which would be right. With
s the score of a pair, G(j) the antecedents of j that are in its true cluster, and 0 the score of a new cluster,

    loss = Σ_j [ log(1 + Σ_i exp s_ij) - log N_j ] + ½ l2 |w|²,    N_j = Σ_{i in G(j)} exp s_ij, or 1 if there are none
    ∂ loss / ∂ s_ij = a_ij - [i in G(j)] exp s_ij / N_j            a_ij = exp s_ij / (1 + Σ_k exp s_kj)

Pairs with the same row of weights have the same score, so there is one exponential a distinct row. Antecedents of an
item with the same row count together: of LitBank's 3.4 million pairs 2.2 million (item, row) are left. Sums over the
antecedents of an item look the exponentials up, and derivatives are added up row by row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.inference.antecedents import CHUNKS, HIGHEST, item_starts
from kinfolk.linking.objective import BLOCK, ROWS
from kinfolk.linking.pair_table import GroupedRows

Array = NDArray[Any]


class Counted(NamedTuple):
    """Antecedents counted by item and row: those of item j (or of row r) are starts[j] ... starts[j + 1] - 1.

    other   their rows (or items)
    times   how many antecedents they are, and how many of them are true
    true
    """

    starts: NDArray[np.int64]
    other: NDArray[np.int32]
    times: NDArray[np.float32]
    true: NDArray[np.float32]


class Inverse(NamedTuple):
    """Of each item 1 / (1 + Σ exp s), and 1 / N where it has true antecedents."""

    total: NDArray[np.float64]
    right: NDArray[np.float64]


class Entries(NamedTuple):
    """As in GroupedRows, of some of the rows."""

    starts: NDArray[np.int64]
    ids: NDArray[np.uint16 | np.int32]


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
        self._items = _by_item(item_starts(n, right), np.asarray(row, np.int32), np.asarray(true), on.n_rows)
        self._rows = _turned(self._items, on.n_rows)
        self._item_bounds = even_bounds(self._items.starts, CHUNKS)
        self._inverse, self._odds = Inverse(np.zeros(n), np.zeros(n)), np.empty(on.n_rows)

    def __call__(self, flat: Array, gradient: Array) -> float:
        shift = self._set_odds(flat)
        bounds, new = self._item_bounds, np.exp(max(-shift, -HIGHEST))

        def chunk(c: int) -> float:
            return float(_loss(self._items, bounds[c], bounds[c + 1], self._odds, new, self._inverse))

        loss = sum(run_chunks(chunk, len(bounds) - 1, self.n_jobs))
        gradient[:] = self.l2 * flat + self._by_weight(False)
        return loss + 0.5 * self.l2 * float(flat @ flat)

    def inverse_curvature(self) -> Array:
        """1 / (l2 + Σ a (1 - a)) over the pairs for which each weight is on, at the weights of the last call."""
        return np.asarray(1.0 / np.maximum(self.l2 + self._by_weight(True), 1e-8))

    def _set_odds(self, weights: Array) -> float:
        """exp(s - shift) of every row; the shift, 0 unless scores are beyond HIGHEST."""
        on, odds, sums = self.on, self._odds, self.on.sums(weights)

        def score(c: int) -> float:
            part = slice(c * ROWS, (c + 1) * ROWS)
            return float(_scores(sums, Entries(on.starts, on.ids[:, part]), odds[part]))

        def exponential(c: int) -> None:
            part = odds[c * ROWS : (c + 1) * ROWS]
            part -= shift
            np.exp(np.maximum(part, -HIGHEST, out=part), out=part)

        chunks = -(-on.n_rows // ROWS)
        shift = max(0.0, max(run_chunks(score, chunks, self.n_jobs), default=0.0) - HIGHEST)
        run_chunks(exponential, chunks, self.n_jobs)
        return shift

    def _by_weight(self, second: bool) -> Array:
        """First or second derivatives by the scores, added up by weight."""
        on, rows = self.on, self._rows

        def chunk(c: int) -> Array:
            first, last = c * ROWS, (c + 1) * ROWS
            found, pairs = np.zeros(int(on.starts[-1])), rows._replace(starts=rows.starts[first : last + 1])
            entries = Entries(on.starts, on.ids[:, first:last])
            _derivatives(pairs, self._odds[first:last], self._inverse, entries, second, found)
            return found

        total = np.zeros(int(on.starts[-1]))
        for found in run_chunks(chunk, -(-on.n_rows // ROWS), self.n_jobs):
            total += found
        return on.spread(total)


def _by_item(starts: NDArray[np.int64], row: Array, true: Array, n_rows: int) -> Counted:
    """The antecedents of every item, those with the same row together."""
    ends, other = np.zeros_like(starts), np.empty(len(row), np.int32)
    count, right = np.zeros(len(row), np.float32), np.zeros(len(row), np.float32)
    n = _count_rows(starts, row, true, np.full(n_rows, -1, np.int64), Counted(ends, other, count, right))
    return Counted(ends, other[:n].copy(), count[:n].copy(), right[:n].copy())


def _turned(items: Counted, n_rows: int) -> Counted:
    """The same by row."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(items.other, minlength=n_rows))]).astype(np.int64)
    found = Counted(starts, np.empty_like(items.other), np.empty_like(items.times), np.empty_like(items.true))
    _turn(items, starts[:-1].copy(), found)
    return found


@njit(nogil=True, cache=True)
def _count_rows(starts, row, true, seen, out):
    """`seen` holds where each row was put last: if that is within the present item, the pair is added there."""
    n = 0
    for j in range(len(starts) - 1):
        first = n
        for p in range(starts[j], starts[j + 1]):
            at = seen[row[p]]
            if at < first:
                at = seen[row[p]] = n
                out.other[n] = row[p]
                n += 1
            out.times[at] += 1
            out.true[at] += true[p]
        out.starts[j + 1] = n
    return n


@njit(nogil=True, cache=True)
def _turn(items, at, out):
    for j in range(len(items.starts) - 1):
        for p in range(items.starts[j], items.starts[j + 1]):
            k = at[items.other[p]]
            out.other[k], out.times[k], out.true[k] = j, items.times[p], items.true[p]
            at[items.other[p]] += 1


@njit(nogil=True, cache=True)
def _loss(items, first, last, odds, new, inverse):
    loss = 0.0
    for j in range(first, last):
        total, right = new, 0.0
        for p in range(items.starts[j], items.starts[j + 1]):
            e = odds[items.other[p]]
            total += items.times[p] * e
            right += items.true[p] * e
        inverse.total[j] = 1.0 / total
        inverse.right[j] = 1.0 / right if right > 0.0 else 0.0
        loss += np.log(total) - np.log(right if right > 0.0 else new)
    return loss


@njit(nogil=True, cache=True)
def _scores(sums, entries, score):
    """s of some rows, and the highest; block by block, and within a block group by group, so that sums stay near."""
    highest, ids = -np.inf, entries.ids
    for block in range(0, ids.shape[1], BLOCK):
        stop = min(block + BLOCK, ids.shape[1])
        score[block:stop] = 0.0
        for g in range(ids.shape[0]):
            for r in range(block, stop):
                score[r] += sums[entries.starts[g] + ids[g, r]]
        for r in range(block, stop):
            highest = max(highest, score[r])
    return highest


@njit(nogil=True, cache=True)
def _derivatives(rows, odds, inverse, entries, second, found):
    """Adds the derivatives of some rows, all their pairs together, to the entries of each group, `found`."""
    derivative, ids = np.empty(BLOCK), entries.ids
    for block in range(0, ids.shape[1], BLOCK):
        m = min(BLOCK, ids.shape[1] - block)
        for r in range(m):
            e, total = odds[block + r], 0.0
            own = range(rows.starts[block + r], rows.starts[block + r + 1])
            if second:
                for p in own:
                    a = inverse.total[rows.other[p]]
                    total += rows.times[p] * a * (1.0 - e * a)
            else:
                for p in own:
                    j = rows.other[p]
                    total += rows.times[p] * inverse.total[j] - rows.true[p] * inverse.right[j]
            derivative[r] = e * total
        for g in range(ids.shape[0]):
            for r in range(m):
                found[entries.starts[g] + ids[g, block + r]] += derivative[r]
