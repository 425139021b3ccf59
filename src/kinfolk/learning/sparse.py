"""Products of a sparse table with narrow dense ones, by rows and by columns, on threads.

    scores     S = X W      (n, K), one row of X at a time
    gradient   Xᵀ G         (F, K), one column of X at a time, from a CSC copy: no two threads write one cell

Each output cell is summed by one thread in a fixed order, so the result does not depend on `n_jobs`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.core.threads import even_bounds, run_chunks

TRANSPOSE_CHUNKS = 4
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
def _count_columns(indptr, indices, first, last, counts):
    for p in range(indptr[first], indptr[last]):
        counts[indices[p]] += 1


@njit(nogil=True, cache=True)
def _transpose(indptr, indices, values, first, last, places, rows, column_values):
    """CSR to CSC for some rows; `places` holds where each column goes on, and is moved along."""
    for row in range(first, last):
        for p in range(indptr[row], indptr[row + 1]):
            at = places[indices[p]]
            rows[at] = row
            if len(values):
                column_values[at] = values[p]
            places[indices[p]] = at + 1


class ByColumn(NamedTuple):
    """CSC: where columns start (F + 1,), the row of each entry, its value (none: all ones); chunks of columns."""

    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    values: NDArray[Any]
    bounds: NDArray[np.int64]


class SparseRows:
    """A sparse table (n, F) ready for products in both directions.

    indptr   int64 (n + 1,)     indices  int32 (nnz,)     values  float (nnz,), or empty: all ones
    """

    def __init__(self, matrix: Any, dtype: type = np.float32) -> None:
        self._by_column: ByColumn | None = None
        self.n_rows, self.n_columns = matrix.shape
        self.indptr = matrix.indptr.astype(np.int64)
        self.indices = matrix.indices.astype(np.int32, copy=False)
        values = matrix.data.astype(dtype, copy=False)
        self.values: NDArray[Any] = np.empty(0, dtype) if (values == 1).all() else values
        self._row_bounds = even_bounds(self.indptr, CHUNKS)

    def _columns(self, n_jobs: int) -> ByColumn:
        """The CSC copy, made when first asked for.

        Each of a few chunks of rows counts its columns, so each knows where its entries go and threads can write.
        """
        if self._by_column is not None:
            return self._by_column
        bounds = even_bounds(self.indptr, TRANSPOSE_CHUNKS)
        counts = np.zeros((len(bounds) - 1, self.n_columns), np.int32 if len(self.indices) < 2**31 else np.int64)

        def count(chunk: int) -> None:
            _count_columns(self.indptr, self.indices, bounds[chunk], bounds[chunk + 1], counts[chunk])

        run_chunks(count, len(counts), n_jobs)
        starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0))]).astype(np.int64)
        places = np.cumsum(counts, axis=0, dtype=counts.dtype) - counts  # behind the entries of the chunks before
        places += starts[:-1].astype(counts.dtype)
        rows, values = np.empty(len(self.indices), np.int32), np.empty(len(self.values), self.values.dtype)

        def write(chunk: int) -> None:
            first, last = bounds[chunk], bounds[chunk + 1]
            _transpose(self.indptr, self.indices, self.values, first, last, places[chunk], rows, values)

        run_chunks(write, len(counts), n_jobs)
        self._by_column = ByColumn(starts, rows, values, even_bounds(starts, CHUNKS))
        return self._by_column

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
        starts, rows, values, bounds = self._columns(n_jobs)
        if squared:
            values = values * values

        def multiply(chunk: int) -> None:
            _multiply(starts, rows, values, residuals, out, bounds[chunk], bounds[chunk + 1])

        run_chunks(multiply, len(bounds) - 1, n_jobs)
