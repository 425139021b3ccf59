"""Rows of sparse features with dense columns beside them, neither made into the other.

Words of a token make a sparse row, an embedding a dense one. As one sparse table 300 dense columns would take twelve
bytes a number in the place of four, and be read entry by entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


@dataclass(frozen=True, eq=False)
class Beside:
    """A table (n, F + d): CSR (n, F), then dense float32 (n, d)."""

    sparse: sparse.csr_array
    dense: NDArray[np.float32]

    @property
    def shape(self) -> tuple[int, int]:
        return self.sparse.shape[0], self.sparse.shape[1] + self.dense.shape[1]

    @property
    def dtype(self) -> Any:
        return self.sparse.dtype

    def __getitem__(self, rows: Any) -> Beside:
        """Some rows, by a slice or by their numbers."""
        return Beside(self.sparse[rows], self.dense[rows])


Table = Any  # a CSR, or one with dense columns beside it


def beside(table: sparse.csr_array, dense: NDArray[np.float32] | None) -> Table:
    """The sparse table alone where there are no dense columns."""
    return table if dense is None or not dense.shape[1] else Beside(table, dense)


def apart(table: Table) -> tuple[sparse.csr_array, NDArray[np.float32]]:
    """The sparse table, and the dense columns (n, d); d = 0 where there are none."""
    if isinstance(table, Beside):
        return table.sparse, table.dense
    return table, np.empty((table.shape[0], 0), np.float32)
