"""Logistic regressions of several labels that do not exclude each other, over the same blocks of columns.

    min over W, b    C Σ_i Σ_l r_i log(1 + exp(-(2 y_il - 1) s_il))  +  ½ |W|²,      s = Σ_k X_k W_k + b

Each label is a problem of its own; together they share the products with the blocks, which is what takes the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from kinfolk.learning.softmax import ITERATIONS, SETTLED, Blocks, linear_scores, transposed

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Logistic:
    """What was learned: weights (F, L) of all columns, block after block, and a bias (L,)."""

    weights: Array
    bias: Array

    @classmethod
    def fit(cls, blocks: Blocks, marks: Array, c: float, counts: Array | None = None) -> Logistic:
        """`marks` (n, L) of 0 and 1; `counts` (n,) how much each row counts. A label that none or all of the rows have
        is told with a share that is nearly so, whatever the columns: that of half a row more of each."""
        from scipy.optimize import minimize

        n, n_labels = marks.shape
        width = sum(block.shape[1] for block in blocks)
        counts = np.ones(n) if counts is None else np.asarray(counts, np.float64)
        marks = np.asarray(marks, np.float64)
        number = counts @ marks
        share = (number + 0.5) / (counts.sum() + 1)
        varies = (number > 0) & (number < counts.sum())
        first = np.log(share / (1 - share))
        across = [transposed(block) for block in blocks]

        def loss(flat: Array) -> tuple[float, Array]:
            weights, bias = flat[:-n_labels].reshape(width, n_labels), flat[-n_labels:]
            said = linear_scores(blocks, weights, bias)
            value = counts @ (np.logaddexp(0, said) - marks * said) @ varies
            error = (expit(said) - marks) * counts[:, None] * varies
            gradient, start = np.empty_like(flat), 0
            for block in across:
                end = start + block.shape[0] * n_labels
                gradient[start:end] = np.asarray(block @ error.astype(block.dtype, copy=False)).ravel()
                start = end
            gradient[:-n_labels] = c * gradient[:-n_labels] + flat[:-n_labels]
            gradient[-n_labels:] = c * error.sum(axis=0)
            return float(c * value + 0.5 * (flat[:-n_labels] @ flat[:-n_labels])), gradient

        start = np.concatenate([np.zeros(width * n_labels), first])
        close = {"maxiter": ITERATIONS, "gtol": 1e-4 * max(c, 1.0), "ftol": SETTLED}
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options=close).x
        return cls(found[:-n_labels].reshape(width, n_labels), found[-n_labels:])

    def proba(self, blocks: Blocks) -> Array:
        """(n, L), each a probability of its own."""
        return np.asarray(expit(linear_scores(blocks, self.weights, self.bias)))
