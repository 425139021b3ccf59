"""Multinomial logistic regression over blocks of columns, sparse ones beside dense ones, none of them copied.

    min over W, b    C Σ_i r_i (-log softmax(Σ_k X_k W_k + b)_{y_i})  +  ½ |W|²

scikit-learn's takes one table: the sparse words of a node beside some hundred dense columns have to be made all sparse
or all dense for it, which takes three to ten times as long as the products by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax

from kinfolk.errors import InputError

Array = NDArray[Any]
Blocks = Sequence[Any]  # tables (n, F_k), CSR or dense
ITERATIONS = 150
SETTLED = 1e-6  # the share of the loss that a step gains when it is the last
ABSENT = -60.0  # the score of a class that training never saw


@dataclass(frozen=True, eq=False)
class Softmax:
    """What was learned: weights (F, L) of all columns, block after block, and a bias (L,)."""

    weights: Array
    bias: Array

    @classmethod
    def fit(cls, blocks: Blocks, labels: Array, n_labels: int, c: float, counts: Array | None = None) -> Softmax:
        """`labels` (n,) from 0; `counts` (n,) how much each row counts; `c` as that of scikit-learn."""
        from scipy.optimize import minimize

        n, width = len(labels), sum(block.shape[1] for block in blocks)
        counts = np.ones(n) if counts is None else np.asarray(counts, np.float64)
        there = np.bincount(labels, minlength=n_labels) > 0
        rows, turned = np.arange(n), [transposed(block) for block in blocks]
        absent = np.where(there, 0.0, ABSENT)

        def loss(flat: Array) -> tuple[float, Array]:
            weights, bias = flat[:-n_labels].reshape(width, n_labels), flat[-n_labels:]
            scores = linear_scores(blocks, weights, bias + absent)
            scores -= scores.max(axis=1, keepdims=True)
            found = np.exp(scores)
            total = found.sum(axis=1)
            value = counts @ (np.log(total) - scores[rows, labels])
            found /= total[:, None]
            found[rows, labels] -= 1.0
            found *= counts[:, None]
            gradient, start = np.empty_like(flat), 0
            for block in turned:
                end = start + block.shape[0] * n_labels
                gradient[start:end] = np.asarray(block @ found.astype(block.dtype, copy=False)).ravel()
                start = end
            gradient[:-n_labels] = c * gradient[:-n_labels] + flat[:-n_labels]
            gradient[-n_labels:] = c * np.where(there, found.sum(axis=0), 0.0)
            return float(c * value + 0.5 * (flat[:-n_labels] @ flat[:-n_labels])), gradient

        start = np.zeros((width + 1) * n_labels)
        close = {"maxiter": ITERATIONS, "gtol": 1e-4 * max(c, 1.0), "ftol": SETTLED}
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options=close).x
        return cls(found[:-n_labels].reshape(width, n_labels), found[-n_labels:] + absent)

    def proba(self, blocks: Blocks) -> Array:
        """(n, L), each row summing to 1."""
        return np.asarray(softmax(linear_scores(blocks, self.weights, self.bias), axis=1))


def transposed(block: Any) -> Any:
    return sparse.csr_array(block.T) if sparse.issparse(block) else block.T


def linear_scores(blocks: Blocks, weights: Array, bias: Array) -> Array:
    """(n, L), Σ_k X_k W_k + b, of weights (F, L) of all columns."""
    n, start, width = blocks[0].shape[0] if len(blocks) else 0, 0, sum(block.shape[1] for block in blocks)
    if len(weights) != width:
        raise InputError(f"the weights are for {len(weights)} columns; the rows have {width}")
    scores = np.tile(np.asarray(bias, np.float64), (n, 1))
    for block in blocks:
        end = start + block.shape[1]
        part = weights[start:end]
        scores += block @ (part if sparse.issparse(block) else part.astype(block.dtype, copy=False))
        start = end
    return scores
