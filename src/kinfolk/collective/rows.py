"""Chosen rows of a table with dense columns put beside them, in one copy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.kernels import njit

Array = NDArray[Any]


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
def _fill(indptr, indices, data, index, block, width, starts, out_indices, out_data):
    for r in range(len(index)):
        at = starts[r]
        for e in range(indptr[index[r]], indptr[index[r] + 1]):
            out_indices[at] = indices[e]
            out_data[at] = data[e]
            at += 1
        for c in range(block.shape[1]):
            if block[r, c] != 0:
                out_indices[at] = width + c
                out_data[at] = block[r, c]
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
    indices, data = np.empty(starts[-1], table.indices.dtype), np.empty(starts[-1], kind)
    _fill(table.indptr, table.indices, table.data, index, block, width, starts, indices, data)
    return sparse.csr_array((data, indices, starts), shape=(n, width + block.shape[1]))
