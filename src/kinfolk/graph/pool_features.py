"""What candidates of a pool look at of a node's own features X: columns of about one size, and few of them.

    R = X standardised, if there are few columns; else the first components of its unit rows, rare columns counting more

What is missing (NaN) is the mean of its column, beside a column that says so for each in which anything was.

Learned on all nodes of the training graph, whether anything is known of them or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[Any]
FEW_COLUMNS = 64  # up to which features are taken as they are
COMPONENTS = 256  # of many columns
MOST_ROWS = 50_000  # that a candidate is trained on
FARTHEST = 1e9  # of a standardised value: squares of it fit into single precision
HUGE = 1e100  # features beyond it are made smaller before they are squared


@dataclass(frozen=True, eq=False)
class Columns:
    """How features become R: learned on all nodes of the training graph, labelled or not.

    centre, scale   (F,), what is taken off a column and what it is multiplied by; sparse ones keep their zeros
    rarity          (F,), how much more a rare column of many counts
    components      (F, r), None where columns are few
    means           (G,), of the columns as they came, for what is missing; None: in training nothing was
    gaps            (F - G,), numbers of those in which anything was missing
    """

    centre: Array
    scale: Array
    rarity: Array
    components: Array | None
    means: Array | None = None
    gaps: Array | None = None

    @classmethod
    def learn(cls, table: Any, seed: int | None) -> Columns:
        rows = table if table.shape[0] <= 4 * MOST_ROWS else table[drawn(table.shape[0], 4 * MOST_ROWS, seed)]
        means = gaps = None
        if has_missing(rows):
            means, gaps = _means(rows), _gaps(rows)
            rows = without_gaps(rows, means, gaps)
        n, width = rows.shape
        if sparse.issparse(rows) and width > FEW_COLUMNS:
            rows = sparse.csr_array(rows, dtype=np.float64)
            there = np.bincount(rows.indices[rows.data != 0], minlength=width)
            unit = _unit(rows.data)
            squares = np.bincount(rows.indices, (rows.data / unit) ** 2, minlength=width)
            size = unit * np.sqrt(squares / np.maximum(there, 1))
            rarity = np.log((1 + n) / (1 + there)) + 1
            centre, scale = np.zeros(width), np.where(size > 0, 1 / np.where(size > 0, size, 1), 0.0)
        else:
            filled = np.asarray(rows.todense() if sparse.issparse(rows) else rows, np.float64)
            unit = _unit(filled)
            filled = filled if unit == 1.0 else filled / unit
            rarity = np.ones(width)
            spread = unit * filled.std(axis=0) if n else np.zeros(width)
            centre = unit * filled.mean(axis=0) if n else np.zeros(width)
            scale = np.where(spread > 1e-12 * np.maximum(np.abs(centre), 1), 1 / np.where(spread > 0, spread, 1), 0.0)
        found = cls(centre, scale, rarity, None, means, gaps)
        number = min(COMPONENTS, width - 1, n - 1)
        if width <= FEW_COLUMNS or number < 1:
            return found
        from sklearn.utils.extmath import randomized_svd

        _, _, axes = randomized_svd(found._wide(rows), number, random_state=seed)
        return replace(found, components=np.asarray(axes.T, np.float32))

    def plain(self, table: Any) -> Any:
        """(n, F): standardised, or of sparse columns scaled, which stay CSR."""
        return self._plain(self._filled(table))

    def _filled(self, table: Any) -> Any:
        """Without gaps; where training had none they are what the scaling makes 0."""
        if self.means is not None and self.gaps is not None:
            return without_gaps(table, self.means, self.gaps)
        return without_gaps(table, self.centre, np.empty(0, np.int64)) if has_missing(table) else table

    def _plain(self, table: Any) -> Any:
        if sparse.issparse(table) and not self.centre.any():
            with np.errstate(over="ignore"):
                rows = sparse.csr_array(sparse.csr_array(table, dtype=np.float64) @ sparse.diags_array(self.scale))
            np.clip(rows.data, -FARTHEST, FARTHEST, out=rows.data)
            return rows
        filled = np.asarray(table.todense() if sparse.issparse(table) else table, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = (filled - self.centre) * self.scale
        rows[:, self.scale == 0] = 0
        return np.clip(rows, -FARTHEST, FARTHEST, out=rows).astype(np.float32)

    def wide(self, table: Any) -> Any:
        """(n, F): the same; many columns by their rarity, with unit rows."""
        return self._wide(self._filled(table))

    def _wide(self, table: Any) -> Any:
        rows = self._plain(table)
        if rows.shape[1] <= FEW_COLUMNS:
            return rows
        if sparse.issparse(rows):
            return unit_rows(sparse.csr_array(rows @ sparse.diags_array(self.rarity)))
        return unit_rows(rows)

    def compact(self, wide: Any) -> Array:
        """R, (n, r), with entries of about 1."""
        if self.components is None:
            return np.asarray(wide.todense() if sparse.issparse(wide) else wide, np.float32)
        return np.asarray(wide @ (self.components * np.float32(np.sqrt(len(self.components.T)))), np.float32)


def has_missing(table: Any) -> bool:
    values = table.data if sparse.issparse(table) else table
    return bool(values.dtype.kind == "f" and np.isnan(values).any())


def _means(table: Any) -> Array:
    """(G,), of what is there, 0 where nothing is; of sparse columns the zeros count."""
    values = table.data if sparse.issparse(table) else table
    there = ~np.isnan(values)
    if sparse.issparse(table):
        gone = np.bincount(table.indices[~there], minlength=table.shape[1])
        total = np.bincount(table.indices[there], values[there], minlength=table.shape[1])
        return np.asarray(total / np.maximum(table.shape[0] - gone, 1))
    number = np.maximum(there.sum(axis=0), 1)
    return np.asarray((np.where(there, values, 0) / number).sum(axis=0))


def _gaps(table: Any) -> Array:
    if sparse.issparse(table):
        return np.unique(table.indices[np.isnan(table.data)]).astype(np.int64)
    return np.flatnonzero(np.isnan(table).any(axis=0))


def without_gaps(table: Any, means: Array, gaps: Array) -> Any:
    """(n, G + |gaps|): means in the place of what is missing, and a column of 0 and 1 for each of the `gaps`."""
    if sparse.issparse(table):
        table = sparse.csr_array(table, dtype=np.float64, copy=True)
        gone = np.isnan(table.data)
        flags = sparse.csr_array((gone.astype(np.float64), table.indices, table.indptr), table.shape)[:, gaps]
        table.data[gone] = means[table.indices[gone]]
        return sparse.csr_array(sparse.hstack([table, flags]))
    table = np.asarray(table, np.float64)
    gone = np.isnan(table)
    return np.concatenate([np.where(gone, means, table), gone[:, gaps]], axis=1)


def _unit(values: Array) -> float:
    """What values are measured in, so that their squares are numbers: 1 but for huge ones."""
    largest = float(max(values.max(initial=0), -values.min(initial=0)))
    return largest if largest > HUGE else 1.0


def unit_rows(table: Any) -> Any:
    """Every row divided by its length; those without anything stay so."""
    if sparse.issparse(table):
        size = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
        return sparse.csr_array(sparse.diags_array(1 / np.where(size > 0, size, 1)) @ table)
    size = np.sqrt(np.einsum("ij,ij->i", table, table, dtype=np.float64))
    return (table / np.where(size > 0, size, 1)[:, None]).astype(table.dtype)


def drawn(n: int, number: int, seed: int | None) -> Array:
    return np.sort(np.random.default_rng(seed).choice(n, number, replace=False))
