"""Ridge regression over blocks of columns, sparse ones beside dense ones, none of them copied or filled in.

    min over w, b    C Σ_i r_i (y_i - Σ_k x_ik · w_k - b)²  +  |w|²

by LSMR (Fong and Saunders, 2011) over the centred columns, which are never made: X w - (μ · w) is a product and a
number. How strong the ridge is, rows that are held back decide, from strong to weak: the search ends where they are
told worse, so that the slow and weak ones are seldom tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.learning.softmax import Blocks, linear_scores, transposed

Array = NDArray[Any]
ITERATIONS = 150
CLOSE = 1e-5  # of the products that a solution is made of
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # times C
PARTS = 5  # of the rows, of which one is held back
FEW, MANY = 10, 2_000  # rows below which none is held back, and from which on one part is enough; else each in turn


@dataclass(frozen=True, eq=False)
class Ridge:
    """What was learned: weights (F, 1) of all columns, block after block, and a bias (1,)."""

    weights: Array
    bias: Array

    @classmethod
    def fit(cls, blocks: Blocks, values: Array, c: float, counts: Array | None = None) -> Ridge:
        """`values` (n,); `counts` (n,) how much each row counts. No first guess: LSMR would draw weights to it."""
        from scipy.sparse.linalg import LinearOperator, lsmr

        n, width = len(values), sum(block.shape[1] for block in blocks)
        counts = np.ones(n) if counts is None else np.asarray(counts, np.float64)
        total, root = counts.sum(), np.sqrt(counts)
        centre = float(counts @ values / total)
        if not width:
            return cls(np.zeros((0, 1)), np.array([centre]))
        across = [transposed(block) for block in blocks]
        means = _added(across, counts) / total

        def product(weights: Array) -> Array:
            weights = weights.ravel()
            return np.asarray(root * (linear_scores(blocks, weights[:, None], np.zeros(1))[:, 0] - means @ weights))

        def back(rows: Array) -> Array:
            rows = root * rows.ravel()
            return np.asarray(_added(across, rows) - means * rows.sum())

        centred = LinearOperator((n, width), matvec=product, rmatvec=back, dtype=np.float64)
        aim = root * (values - centre)
        found = lsmr(centred, aim, c**-0.5, CLOSE, CLOSE, maxiter=ITERATIONS)[0]
        return cls(found[:, None], np.array([centre - means @ found]))

    @classmethod
    def chosen(
        cls, blocks: Blocks, values: Array, c: float, counts: Array | None = None, seed: int | None = 0,
        strengths: Sequence[float] = STRENGTHS,
    ) -> Ridge:  # fmt: skip
        """The same with C times that of the strengths by which rows held back are told best."""
        n, middle = len(values), strengths[len(strengths) // 2]
        counts = np.ones(n) if counts is None else np.asarray(counts, np.float64)
        part = np.empty(n, np.int64)
        part[np.random.default_rng(seed).permutation(n)] = np.arange(n) % PARTS
        held = [part == k for k in range(PARTS if n < MANY else 1)]
        if n < FEW or not all(counts[one].any() and counts[~one].any() for one in held):
            return cls.fit(blocks, values, c * middle, counts)
        splits = [([block[~one] for block in blocks], [block[one] for block in blocks], one) for one in held]
        best, least = middle, np.inf
        for strength in strengths:
            error = 0.0
            for inner, outer, one in splits:
                model = cls.fit(inner, values[~one], c * strength, counts[~one])
                error += float(counts[one] @ np.square(values[one] - model.predict(outer)[:, 0]))
            if error >= least:
                break
            best, least = strength, error
        return cls.fit(blocks, values, c * best, counts)

    def predict(self, blocks: Blocks) -> Array:
        """(n, 1)."""
        return linear_scores(blocks, self.weights, self.bias)


def _added(across: Sequence[Any], rows: Array) -> Array:
    """Xᵀ rows, block after block."""
    return np.concatenate([np.asarray(block @ rows.astype(block.dtype, copy=False), np.float64) for block in across])
