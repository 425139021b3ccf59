"""Products of a sparse table with narrow dense ones, by rows and by columns, on threads.

    scores     S = X W      (n, K), one row of X at a time
    gradient   Xᵀ G         (F, K), one column of X at a time, from a CSC copy: no two threads write one cell

Each output cell is summed by one thread in a fixed order, so the result does not depend on `n_jobs`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import read_only
from kinfolk.core.kernels import FAST, Csr, njit
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.errors import InputError

TRANSPOSE_CHUNKS = 4
CHUNKS = 32  # fixed pieces of work: enough to balance threads, few enough to cost nothing


@njit(nogil=True, cache=True, fastmath=FAST)
def _multiply(rows, table, out, first, last):
    """out[r] = Σ_p values[p] · table[indices[p]] over the entries p of row r."""
    indptr, indices, values = rows
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
def _count_columns(rows, first, last, counts):
    for p in range(rows.indptr[first], rows.indptr[last]):
        counts[rows.indices[p]] += 1


@njit(nogil=True, cache=True)
def _transpose(rows, first, last, places, columns):
    """CSR to CSC for some rows; `places` holds where each column goes on, and is moved along."""
    for row in range(first, last):
        for p in range(rows.indptr[row], rows.indptr[row + 1]):
            at = places[rows.indices[p]]
            columns.indices[at] = row
            if len(rows.values):
                columns.values[at] = rows.values[p]
            places[rows.indices[p]] = at + 1


class SparseRows:
    """A sparse table (n, F) ready for products in both directions.

    csr   int64 indptr (n + 1,), int32 indices (nnz,), float values (nnz,), or none: all ones

    All are read only, wherever they came from: kernels would be compiled anew for arrays that can be written to.
    """

    def __init__(self, matrix: Any, dtype: type = np.float32) -> None:
        self.n_rows, self.n_columns = matrix.shape
        values = matrix.data.astype(dtype, copy=False)
        values = np.empty(0, dtype) if (values == 1).all() else values
        parts = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), values
        self.csr = Csr(*map(read_only, parts))
        self._row_bounds = even_bounds(self.csr.indptr, CHUNKS)
        self._by_column: tuple[Csr, NDArray[np.int64]] | None = None

    def _columns(self, n_jobs: int) -> tuple[Csr, NDArray[np.int64]]:
        """The rows of the transposed table, and chunks of them; made when first used.

        Each of a few chunks of rows counts its columns, so each knows where its entries go and threads can write.
        """
        if self._by_column is not None:
            return self._by_column
        csr, bounds = self.csr, even_bounds(self.csr.indptr, TRANSPOSE_CHUNKS)
        counts = np.zeros((len(bounds) - 1, self.n_columns), np.int32 if len(csr.indices) < 2**31 else np.int64)

        def count(chunk: int) -> None:
            _count_columns(csr, bounds[chunk], bounds[chunk + 1], counts[chunk])

        run_chunks(count, len(counts), n_jobs)
        starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0))]).astype(np.int64)
        places = np.cumsum(counts, axis=0, dtype=counts.dtype) - counts  # behind the entries of the chunks before
        places += starts[:-1].astype(counts.dtype)
        columns = Csr(starts, np.empty(len(csr.indices), np.int32), np.empty(len(csr.values), csr.values.dtype))

        def write(chunk: int) -> None:
            _transpose(csr, bounds[chunk], bounds[chunk + 1], places[chunk], columns)

        run_chunks(write, len(counts), n_jobs)
        self._by_column = Csr(*map(read_only, columns)), even_bounds(starts, CHUNKS)
        return self._by_column

    def scores(
        self,
        weights: NDArray[Any],
        n_jobs: int = 1,
        out: NDArray[Any] | None = None,
        rows: tuple[int, int] | None = None,
    ) -> NDArray[Any]:
        """X · weights, (n, K); with `rows` only of the rows first, ..., last - 1."""
        if len(weights) < self.n_columns:  # the kernel does not look
            raise InputError(f"the weights are for {len(weights)} features; the rows have {self.n_columns}")
        first, last = rows or (0, self.n_rows)
        part = self.csr._replace(indptr=self.csr.indptr[first:])  # so that the first row wanted is row 0 of the result
        bounds = self._row_bounds if rows is None else even_bounds(part.indptr[: last - first + 1], CHUNKS)
        result = np.empty((last - first, weights.shape[1]), weights.dtype) if out is None else out

        def multiply(chunk: int) -> None:
            _multiply(part, weights, result, bounds[chunk], bounds[chunk + 1])

        run_chunks(multiply, len(bounds) - 1, n_jobs)
        return result

    def gradient(self, residuals: NDArray[Any], out: NDArray[Any], n_jobs: int = 1, squared: bool = False) -> None:
        """out = Xᵀ · residuals, (F, K); with `squared`, of the squared entries of X."""
        columns, bounds = self._columns(n_jobs)
        if squared:
            columns = columns._replace(values=read_only(columns.values**2))

        def multiply(chunk: int) -> None:
            _multiply(columns, residuals, out, bounds[chunk], bounds[chunk + 1])

        run_chunks(multiply, len(bounds) - 1, n_jobs)
