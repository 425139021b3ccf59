"""What neighbours say, added up: sums, means, shares, largest and "at least one", as products with a sparse relation.

Kernels release the GIL and run on threads over runs of rows of about equal numbers of links. Formulas are in
`templates`, which names them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.data import read_only
from kinfolk.core.kernels import Csr, njit
from kinfolk.core.threads import even_bounds, run_chunks

Array = NDArray[Any]
SUM, MEAN, SHARE, ANY, LARGEST = range(5)
CHUNKS = 64
EIGHT = 8  # doubles in a cache line
LEAST_WORK = 20_000  # links that are worth a thread of their own


@njit(cache=True, nogil=True)
def _add_up(mean, links, votes, rows, first, last, out):
    """out[r] = Σ_e w_e votes[j_e] over the links of rows[r], divided by Σ_e w_e if `mean`.

    Eight columns at a time, in variables of their own: rows of `votes` are padded to whole cache lines.
    """
    indptr, indices, weights = links
    width = out.shape[1]
    for r in range(first, last):
        i = rows[r]
        a, b = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        for at in range(0, width, EIGHT):
            t = np.uint64(at)
            s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = total = 0.0
            for e in range(a, b):
                w, j = weights[e], np.uint64(indices[e])
                total += w
                s0 += w * votes[j, t]
                s1 += w * votes[j, t + np.uint64(1)]
                s2 += w * votes[j, t + np.uint64(2)]
                s3 += w * votes[j, t + np.uint64(3)]
                s4 += w * votes[j, t + np.uint64(4)]
                s5 += w * votes[j, t + np.uint64(5)]
                s6 += w * votes[j, t + np.uint64(6)]
                s7 += w * votes[j, t + np.uint64(7)]
            scale = 1.0 / total if mean and total != 0.0 else 1.0
            sums = (s0, s1, s2, s3, s4, s5, s6, s7)
            for c in range(min(EIGHT, width - at)):
                out[r, at + c] = sums[c] * scale


@njit(cache=True, nogil=True)
def _compare(kind, links, votes, rows, first, last, out):
    """out[r] = the largest vote among the neighbours of rows[r], or 1 - Π (1 - v); 0 without any."""
    indptr, indices, _ = links
    width = votes.shape[1]
    for r in range(first, last):
        i = rows[r]
        a, b = indptr[i], indptr[i + 1]
        for c in range(width):
            out[r, c] = 1.0 if kind == ANY and b > a else 0.0
        if a == b:
            continue
        if kind == ANY:
            for e in range(a, b):
                for c in range(width):
                    out[r, c] *= 1.0 - votes[indices[e], c]
            for c in range(width):
                out[r, c] = 1.0 - out[r, c]
        else:
            for c in range(width):
                out[r, c] = votes[indices[a], c]
            for e in range(a + 1, b):
                for c in range(width):
                    out[r, c] = max(out[r, c], votes[indices[e], c])


def _csr(table: sparse.csr_array) -> Csr:
    """Its arrays, read only, wherever they came from: so kernels are compiled for one type of them."""
    return Csr(*map(read_only, (table.indptr, table.indices, table.data)))


def _runs(links: sparse.csr_array, rows: Array) -> Array:
    """Bounds of runs of rows with about the same number of links; a row itself counts as one."""
    cost = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(links.indptr[rows + 1] - links.indptr[rows] + 1, out=cost[1:])
    return even_bounds(cost, int(np.clip(cost[-1] // LEAST_WORK, 1, CHUNKS)))


def padded(votes: Array) -> Array:
    """The votes, with rows of whole cache lines behind them: what sums take fastest. Shared by all who add them up."""
    n, width = votes.shape
    if not _is_padded(votes):
        whole = np.zeros((n, -(-max(1, width) // EIGHT) * EIGHT), np.result_type(votes.dtype, np.float32))
        whole[:, :width] = votes
        votes = whole[:, :width]
    return votes


def _is_padded(votes: Array) -> bool:
    whole = votes.base
    return (
        isinstance(whole, np.ndarray) and whole.ndim == 2 and whole.flags.c_contiguous and whole.dtype == votes.dtype
        and len(whole) == len(votes) and whole.shape[1] % EIGHT == 0 and whole.ctypes.data == votes.ctypes.data
        and votes.strides == whole.strides and votes.dtype.kind == "f"
    )  # fmt: skip


def aggregate(kind: int, links: sparse.csr_array, votes: Array, rows: Array, out: Array, n_jobs: int) -> None:
    """Write the aggregate of `votes` (n, C) over the neighbours of `rows` into `out` (len(rows), C)."""
    bounds, csr = _runs(links, rows), _csr(links)
    adds = kind in (SUM, MEAN, SHARE)
    table = padded(votes).base if adds and votes.shape[1] else votes

    def run(chunk: int) -> None:
        first, last = bounds[chunk], bounds[chunk + 1]
        if adds:
            _add_up(kind == MEAN, csr, table, rows, first, last, out)
        else:
            _compare(kind, csr, table, rows, first, last, out)
        if kind == SHARE:  # of what was said, not of who might have spoken
            said = out[first:last].sum(axis=1, keepdims=True)
            np.divide(out[first:last], said, out=out[first:last], where=said != 0)

    run_chunks(run, len(bounds) - 1, n_jobs)


def lay_out(links: sparse.csr_array, votes: Array, rows: Array, slots: int, out: Array) -> None:
    """Write the votes of each row's first neighbours side by side into `out` (len(rows), slots · C); absent = 0."""
    near = links[rows]
    at = np.repeat(np.arange(len(rows)), np.diff(near.indptr))
    slot = np.arange(near.nnz) - near.indptr[at]
    kept = slot < slots
    out[:] = 0.0
    out.reshape(len(rows), slots, votes.shape[1])[at[kept], slot[kept]] = votes[near.indices[kept]]


def sparse_aggregate(kind: int, links: sparse.csr_array, table: sparse.csr_array, n_jobs: int) -> sparse.csr_array:
    """CSR (n, F), the SUM or MEAN of the rows of a sparse table over the neighbours, by their weights."""
    weights = links.data
    if kind == MEAN:
        totals = np.asarray(links.sum(axis=1)).ravel()
        scale = np.divide(1.0, totals, out=np.zeros(len(totals)), where=totals != 0)
        weights = weights * np.repeat(scale, np.diff(links.indptr))
    shares = sparse.csr_array((weights.astype(table.dtype), links.indices, links.indptr), shape=links.shape)
    bounds = even_bounds(links.indptr, CHUNKS)
    if n_jobs == 1 or len(bounds) < 2:
        return sparse.csr_array(shares @ table)
    parts = run_chunks(lambda k: shares[bounds[k] : bounds[k + 1]] @ table, len(bounds) - 1, n_jobs)
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


# -- Chosen rows of a table with dense columns put beside them, in one copy ----------------------------
#
# SciPy's hstack of the chosen rows and the columns takes 1.7 times as long (32,768 rows of 40 entries, 14 columns).


@njit(cache=True, nogil=True)
def _starts(indptr, index, block, out):
    """Where each row begins: its own entries, then those of the block that are not 0."""
    for r in range(len(index)):
        extra = 0
        for c in range(block.shape[1]):
            if block[r, c] != 0:
                extra += 1
        out[r + 1] = out[r] + indptr[index[r] + 1] - indptr[index[r]] + extra


@njit(cache=True, nogil=True)
def _fill(table, index, block, width, out):
    for r in range(len(index)):
        at = out.indptr[r]
        for e in range(table.indptr[index[r]], table.indptr[index[r] + 1]):
            out.indices[at] = table.indices[e]
            out.values[at] = table.values[e]
            at += 1
        for c in range(block.shape[1]):
            if block[r, c] != 0:
                out.indices[at] = width + c
                out.values[at] = block[r, c]
                at += 1


def run_of(table: Any, index: Array) -> Any:
    """table[index]; without a copy where these are all rows, or of a dense table a run of them."""
    n = len(index)
    if not n or index[-1] - index[0] != n - 1 or (np.diff(index) != 1).any():
        return side_by_side(table, index, np.zeros((n, 0))) if sparse.issparse(table) and n else table[index]
    if n == table.shape[0]:
        return table
    return table[index[0] : index[-1] + 1]


def side_by_side(table: Any, index: Array, block: Array | None) -> Any:
    """Rows `index` of a CSR or dense table (n, F), with the columns of `block` (m, q) after them."""
    if block is None:
        return run_of(table, index)
    n, width = len(index), table.shape[1]
    if not sparse.issparse(table):
        out = np.empty((n, width + block.shape[1]), np.result_type(table.dtype, np.float32))
        out[:, :width] = run_of(table, index)
        out[:, width:] = block
        return out
    starts = np.zeros(n + 1, table.indptr.dtype)
    _starts(table.indptr, index, block, starts)
    kind = np.result_type(table.dtype, np.float32)
    made = Csr(starts, np.empty(starts[-1], table.indices.dtype), np.empty(starts[-1], kind))
    _fill(_csr(table), index, block, width, made)
    return sparse.csr_array((made.values, made.indices, starts), shape=(n, width + block.shape[1]))
