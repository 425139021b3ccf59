"""Products of a sparse table with narrow dense ones, by rows and by columns, on threads.

    scores     S = X W      (n, K), one row of X at a time
    gradient   Xᵀ G         (F, K), one column of X at a time, from a CSC copy: no two threads write one cell

Each output cell is summed by one thread in a fixed order, so the result does not depend on `n_jobs`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kinfolk.threads import even_bounds, run_chunks

CHUNKS = 32  # fixed pieces of work: enough to balance threads, few enough to cost nothing

# Reassociation lets short sums run in vector registers; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, fastmath=FAST)
def _multiply(indptr, indices, values, table, out, first, last):
    """out[r] = Σ_p values[p] · table[indices[p]] over the entries p of row r; no values means all ones."""
    width = table.shape[1]
    for row in range(first, last):
        for k in range(width):
            out[row, k] = 0
        if len(values) == 0:
            for p in range(indptr[row], indptr[row + 1]):
                column = indices[p]
                for k in range(width):
                    out[row, k] += table[column, k]
        else:
            for p in range(indptr[row], indptr[row + 1]):
                column, value = indices[p], values[p]
                for k in range(width):
                    out[row, k] += value * table[column, k]


@njit(nogil=True, cache=True)
def _transpose(indptr, indices, values, column_starts, rows, column_values):
    """CSR to CSC; column_starts holds the first place of each column and is moved along."""
    for row in range(len(indptr) - 1):
        for p in range(indptr[row], indptr[row + 1]):
            at = column_starts[indices[p]]
            rows[at] = row
            if len(values):
                column_values[at] = values[p]
            column_starts[indices[p]] = at + 1


class SparseRows:
    """A sparse table (n, F) ready for products in both directions.

    indptr   int64 (n + 1,)     indices  int32 (nnz,)     values  float (nnz,), or empty: all ones
    """

    def __init__(self, matrix: Any, dtype: type = np.float32) -> None:
        self.n_rows, self.n_columns = matrix.shape
        self.indptr = matrix.indptr.astype(np.int64)
        self.indices = matrix.indices.astype(np.int32, copy=False)
        values = matrix.data.astype(dtype, copy=False)
        self.values: NDArray[Any] = np.empty(0, dtype) if (values == 1).all() else values
        self._row_bounds = even_bounds(self.indptr, CHUNKS)

    @cached_property
    def _columns(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any], NDArray[np.int64]]:
        counts = np.bincount(self.indices, minlength=self.n_columns)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows = np.empty(len(self.indices), np.int32)
        values = np.empty(len(self.values), self.values.dtype)
        _transpose(self.indptr, self.indices, self.values, starts[:-1].copy(), rows, values)
        return starts, rows, values, even_bounds(starts, CHUNKS)

    def scores(
        self,
        weights: NDArray[Any],
        n_jobs: int = 1,
        out: NDArray[Any] | None = None,
        rows: tuple[int, int] | None = None,
    ) -> NDArray[Any]:
        """X · weights, (n, K); with `rows` only of the rows first, ..., last - 1."""
        first, last = rows or (0, self.n_rows)
        bounds = self._row_bounds if rows is None else first + even_bounds(self.indptr[first : last + 1], CHUNKS)
        result = np.empty((last - first, weights.shape[1]), weights.dtype) if out is None else out
        indptr = self.indptr[first:]  # so that the first row asked for is row 0 of the result

        def multiply(chunk: int) -> None:
            a, b = bounds[chunk] - first, bounds[chunk + 1] - first
            _multiply(indptr, self.indices, self.values, weights, result, a, b)

        run_chunks(multiply, len(bounds) - 1, n_jobs)
        return result

    def gradient(self, residuals: NDArray[Any], out: NDArray[Any], n_jobs: int = 1, squared: bool = False) -> None:
        """out = Xᵀ · residuals, (F, K); with `squared`, of the squared entries of X."""
        starts, rows, values, bounds = self._columns
        if squared:
            values = values * values

        def multiply(chunk: int) -> None:
            _multiply(starts, rows, values, residuals, out, bounds[chunk], bounds[chunk + 1])

        run_chunks(multiply, len(bounds) - 1, n_jobs)
