"""Products of a sparse table with narrow dense ones, by rows and by columns, on threads.

    scores     S = X W      (n, K), one row of X at a time
    gradient   Xᵀ G         (F, K), one column of X at a time, from a CSC copy: no two threads write one cell

Each output cell is summed by one thread in a fixed order, so the result does not depend on `n_jobs`.

X may have dense columns D beside the sparse ones, with weights (d, K) below theirs. Their kernels run over rows of D
and of the weights turned round, (K, d): both in the order they lie in memory, which is what they take their time for
(for 300 columns and 9 labels 0.6 of the time of BLAS on one thread). Their gradient is a sum over fixed chunks of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.beside import apart
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


_ONES = read_only(np.empty(0, np.float32))


@njit(nogil=True, cache=True, fastmath=FAST)
def _add_dense(dense, turned, out, first, last):
    """out[r - first] += D[r] · turned[k] for each k, over rows r of D."""
    for row in range(first, last):
        for k in range(len(turned)):
            total = turned.dtype.type(0)
            for j in range(dense.shape[1]):
                total += dense[row, j] * turned[k, j]
            out[row - first, k] += total


TOGETHER = 4  # rows whose products are added to a gradient at once: a cell is read and written once for all


@njit(nogil=True, cache=True, fastmath=FAST)
def _turned_gradient(dense, residuals, squared, first, last, out):
    """out[k] += Σ_r residuals[r, k] · D[r] over some rows; with `squared`, of the squared entries of D."""
    width = dense.shape[1]
    row = first
    while row + TOGETHER <= last:
        a, b, c, d = dense[row], dense[row + 1], dense[row + 2], dense[row + 3]
        for k in range(len(out)):
            p, q = residuals[row, k], residuals[row + 1, k]
            r, s = residuals[row + 2, k], residuals[row + 3, k]
            if squared:
                for j in range(width):
                    out[k, j] += p * a[j] * a[j] + q * b[j] * b[j] + r * c[j] * c[j] + s * d[j] * d[j]
            else:
                for j in range(width):
                    out[k, j] += p * a[j] + q * b[j] + r * c[j] + s * d[j]
        row += TOGETHER
    for rest in range(row, last):
        for k in range(len(out)):
            share = residuals[rest, k]
            for j in range(width):
                out[k, j] += share * dense[rest, j] * (dense[rest, j] if squared else 1)


class SparseRows:
    """A sparse table (n, F), or one with dense columns beside it (n, F + d), ready for products in both directions.

    csr     int64 indptr (n + 1,), int32 indices (nnz,), float values (nnz,), or none: all ones
    dense   float32 (n, d), d = 0 where there are none

    All are read only, wherever they came from: kernels would be compiled anew for arrays that can be written to.
    """

    def __init__(self, matrix: Any, dtype: type = np.float32) -> None:
        self.n_rows, self.n_columns = matrix.shape
        matrix, dense = apart(matrix)
        self.dense = read_only(np.ascontiguousarray(dense))
        values = matrix.data.astype(dtype, copy=False)
        values = np.empty(0, dtype) if (values == 1).all() else values
        parts = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), values
        self.csr = Csr(*map(read_only, parts))
        self._row_bounds = even_bounds(self.csr.indptr, CHUNKS)
        self._by_column: tuple[Csr, NDArray[np.int64]] | None = None

    @classmethod
    def of_ones(cls, indptr: NDArray[np.int64], indices: NDArray[np.int32], n_columns: int) -> SparseRows:
        """A small table whose entries are all 1, worked on as one piece."""
        made = cls.__new__(cls)
        made.n_rows, made.n_columns = len(indptr) - 1, n_columns
        made.csr = Csr(read_only(indptr), read_only(indices), _ONES)
        made._row_bounds = np.array([0, made.n_rows] if made.n_rows else [0], np.int64)
        made._by_column = None
        made.dense = read_only(np.empty((made.n_rows, 0), np.float32))
        return made

    def run(self, first: int, last: int) -> SparseRows:
        """The rows first, ..., last - 1, worked on as one piece, without a copy."""
        made = SparseRows.__new__(SparseRows)
        made.n_rows, made.n_columns = last - first, self.n_columns
        made.csr = self.csr._replace(indptr=self.csr.indptr[first : last + 1])
        made._row_bounds = np.array([0, made.n_rows] if made.n_rows else [0], np.int64)
        made._by_column = None
        made.dense = self.dense[first:last]
        return made

    @property
    def n_sparse(self) -> int:
        """The sparse columns, which come first."""
        return int(self.n_columns - self.dense.shape[1])

    def _columns(self, n_jobs: int) -> tuple[Csr, NDArray[np.int64]]:
        """The rows of the transposed table, and chunks of them; made when first used.

        Each of a few chunks of rows counts its columns, so each knows where its entries go and threads can write.
        """
        if self._by_column is not None:
            return self._by_column
        csr, bounds = self.csr, even_bounds(self.csr.indptr, TRANSPOSE_CHUNKS)
        counts = np.zeros((len(bounds) - 1, self.n_sparse), np.int32 if len(csr.indices) < 2**31 else np.int64)

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

    def scores(self, weights: NDArray[Any], n_jobs: int = 1, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """X · weights, (n, K)."""
        if len(weights) < self.n_columns:  # the kernel does not look
            raise InputError(f"the weights are for {len(weights)} features; the rows have {self.n_columns}")
        bounds = self._row_bounds
        result = np.empty((self.n_rows, weights.shape[1]), weights.dtype) if out is None else out

        def multiply(chunk: int) -> None:
            _multiply(self.csr, weights, result, bounds[chunk], bounds[chunk + 1])

        run_chunks(multiply, len(bounds) - 1, n_jobs)
        if self.dense.shape[1]:
            self._add_dense_scores(weights[self.n_sparse :], result, n_jobs)
        return result

    def _add_dense_scores(self, weights: NDArray[Any], out: NDArray[Any], n_jobs: int) -> None:
        turned, cuts = np.ascontiguousarray(weights.T), _cuts(self.n_rows)

        def add(chunk: int) -> None:
            a, b = cuts[chunk], cuts[chunk + 1]
            _add_dense(self.dense, turned, out[a:b], a, b)

        run_chunks(add, CHUNKS, n_jobs)

    def gradient(self, residuals: NDArray[Any], out: NDArray[Any], n_jobs: int = 1, squared: bool = False) -> None:
        """out = Xᵀ · residuals, (F, K); with `squared`, of the squared entries of X."""
        columns, bounds = self._columns(n_jobs)
        if squared:
            columns = columns._replace(values=read_only(columns.values**2))

        def multiply(chunk: int) -> None:
            _multiply(columns, residuals, out, bounds[chunk], bounds[chunk + 1])

        run_chunks(multiply, len(bounds) - 1, n_jobs)
        if self.dense.shape[1]:
            out[self.n_sparse :] = self._dense_gradient(residuals, squared, n_jobs)

    def _dense_gradient(self, residuals: NDArray[Any], squared: bool, n_jobs: int) -> NDArray[Any]:
        cuts, shape = _cuts(self.n_rows), (residuals.shape[1], self.dense.shape[1])

        def part(chunk: int) -> NDArray[Any]:
            total = np.zeros(shape, residuals.dtype)
            _turned_gradient(self.dense, residuals, squared, cuts[chunk], cuts[chunk + 1], total)
            return total

        return sum(run_chunks(part, CHUNKS, n_jobs), np.zeros(shape)).T


def _cuts(n_rows: int) -> NDArray[np.int64]:
    return np.linspace(0, n_rows, CHUNKS + 1).astype(np.int64)
