"""Several models of the same answers, pooled into one by weights that their cross-fitted probabilities choose.

    p(y) ∝ exp( Σ_c w_c log p_c(y) ),   w_c >= 0

Weights minimise the log-loss of the labels by probabilities of models that have not seen them, and are drawn to π,
those of the mixture Σ_c π_c p_c of greatest likelihood (by EM):

    Σ_i r_i (-log p(y_i))  +  λ/2 √n |w - π|²

The weights of a mixture are few and steady; that of the log-linear pool may add up to more or less than 1, which makes
the probabilities sharper or milder and so calibrates them. With few labels π decides, with many the log-loss.

Of several labels that do not exclude each other every label of a node is a case of its own, with the same weights. Of
numbers m_c, centred so that 0 is their mean, the pool is linear, and so is its calibration: weights that add up to less
than 1 draw answers to the mean.

    m = Σ_c w_c m_c,   w_c >= 0:      Σ_i r_i (y_i - m_i)² / (2 σ²)  +  λ/2 √n |w - π|²

with π the weights on the simplex of the least squared error, and σ² that error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LEAST = 1e-5  # probability that a model gives a label at the least: what it rules out others may still bring in
PULL = 0.5  # λ
ROUNDS = 300  # of EM at the most
NEGLIGIBLE = 0.03  # weights below it are 0: whoever has one need not be asked


def log_probabilities(table: Array) -> Array:
    """(n, L), none below log LEAST."""
    return np.asarray(np.log(np.maximum(table, LEAST, dtype=np.float64)))


def pooled(tables: Sequence[Array], weights: Sequence[float] | Array) -> Array:
    """(n, L), the pool of tables of probabilities (n, L), one a model."""
    scores = np.zeros(tables[0].shape)
    for table, weight in zip(tables, weights, strict=True):
        scores += weight * log_probabilities(table)
    scores -= scores.max(axis=1, keepdims=True, initial=-np.inf)
    found = np.exp(scores, out=scores)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def mixture_weights(likelihood: Array, counts: Array) -> Array:
    """(C,), summing to 1: those of the mixture under which n labels, the i-th counted `counts[i]` times, are most
    probable. `likelihood` (n, C) has what each model gives the label."""
    n_models = likelihood.shape[1]
    weights = np.full(n_models, 1 / n_models)
    for _ in range(ROUNDS):
        shares = likelihood * weights
        shares *= (counts / shares.sum(axis=1))[:, None]
        before, weights = weights, shares.sum(axis=0) / counts.sum()
        if np.abs(weights - before).max() < 1e-6:
            break
    return weights


def pool_weights(tables: Sequence[Array], labels: Array, counts: Array | None = None, pull: float = PULL) -> Array:
    """(C,), the weights of the pool: `tables` of cross-fitted probabilities (n, L), one a model; labels (n,). Those
    that are negligible are 0; where that leaves none, those of the mixture."""
    found, prior = fitted_weights(tables, labels, counts, pull)
    weights = np.where(found < NEGLIGIBLE, 0.0, found)
    return weights if weights.any() else prior


def fitted_weights(
    tables: Sequence[Array], labels: Array, counts: Array | None = None, pull: float = PULL
) -> tuple[Array, Array]:
    """(C,) and (C,): the weights where the loss is lowest, and π."""
    from scipy.optimize import minimize

    n, rows = len(labels), np.arange(len(labels))
    counts = np.ones(n) if counts is None else np.asarray(counts, np.float64) * (n / np.sum(counts))
    logs = np.stack([log_probabilities(table) for table in tables])
    true = logs[:, rows, labels]
    prior = mixture_weights(np.exp(true.T), counts)
    pull = pull * np.sqrt(n)

    def loss(weights: Array) -> tuple[float, Array]:
        scores = np.tensordot(weights, logs, 1)
        scores -= scores.max(axis=1, keepdims=True)
        found = np.exp(scores)
        total = found.sum(axis=1)
        found *= (counts / total)[:, None]
        away = weights - prior
        value = counts @ (np.log(total) - scores[rows, labels]) + pull / 2 * (away @ away)
        return float(value), np.tensordot(logs, found, 2) - true @ counts + pull * away

    found = minimize(loss, prior, jac=True, bounds=[(0.0, None)] * len(tables), method="L-BFGS-B")
    return np.asarray(found.x), prior


# -- labels that do not exclude each other --------------------------------------------------------------


def pooled_marks(tables: Sequence[Array], weights: Sequence[float] | Array) -> Array:
    """(n, L), the pool of tables of probabilities (n, L) that need not sum to 1: each is one of two, p and 1 - p."""
    from scipy.special import expit

    scores = np.zeros(tables[0].shape)
    for table, weight in zip(tables, weights, strict=True):
        scores += weight * (log_probabilities(table) - log_probabilities(1 - np.asarray(table, np.float64)))
    return np.asarray(expit(scores))


def mark_weights(tables: Sequence[Array], marks: Array, counts: Array | None = None, pull: float = PULL) -> Array:
    """(C,), the weights of such a pool, the same for every label: of `tables` (n, L) and what is true (n, L)."""
    of_two = [np.stack([1 - flat, flat], axis=1) for flat in (np.asarray(one, np.float64).ravel() for one in tables)]
    counts = None if counts is None else np.repeat(counts, marks.shape[1])
    return pool_weights(of_two, np.asarray(marks, np.int64).ravel(), counts, pull)


# -- numbers ------------------------------------------------------------------------------------------


def pooled_numbers(tables: Sequence[Array], weights: Sequence[float] | Array) -> Array:
    """(n, 1), of tables (n, 1) of centred numbers."""
    found = np.zeros(tables[0].shape)
    for table, weight in zip(tables, weights, strict=True):
        found += weight * np.asarray(table, np.float64)
    return found


def number_weights(tables: Sequence[Array], values: Array, counts: Array | None = None, pull: float = PULL) -> Array:
    """(C,), the weights of a pool of numbers: `tables` (n, 1), cross-fitted, and what is true (n,), all centred. Those
    that are negligible are 0; where that leaves none, those on the simplex."""
    found, prior = fitted_number_weights(tables, values, counts, pull)
    weights = np.where(found < NEGLIGIBLE, 0.0, found)
    return weights if weights.any() else prior


def fitted_number_weights(
    tables: Sequence[Array], values: Array, counts: Array | None = None, pull: float = PULL
) -> tuple[Array, Array]:
    """(C,) and (C,): the weights where the loss is lowest, and π."""
    from scipy.optimize import nnls

    n, n_models = len(values), len(tables)
    counts = np.ones(n) if counts is None else np.asarray(counts, np.float64) * (n / np.sum(counts))
    said = np.concatenate([np.asarray(table, np.float64) for table in tables], axis=1)
    gram, aim = (said * counts[:, None]).T @ said, (said * counts[:, None]).T @ values
    prior = simplex_weights(said, values, counts)
    error = max(float(counts @ np.square(values - said @ prior)) / n, 1e-12)
    pull = pull * np.sqrt(n)
    root = np.linalg.cholesky(gram / error + pull * np.eye(n_models))  # |Rᵀ w - R⁻¹ t|² is the loss but for a constant
    return nnls(root.T, np.linalg.solve(root, aim / error + pull * prior))[0], prior


def simplex_weights(said: Array, values: Array, counts: Array) -> Array:
    """(C,), not negative and adding up to 1: the mixture of columns of `said` (n, C) with the least squared error, and
    of all that have it about the most even one."""
    from scipy.optimize import nnls

    n_models = said.shape[1]
    away = (said - values[:, None]) * np.sqrt(counts)[:, None]  # |Σ_c π_c (m_c - y)|² where π adds up to 1
    gram = away.T @ away
    size = max(float(np.trace(gram)) / n_models, 1e-300)
    gram = gram / size + 1e-6 * np.eye(n_models)
    root = np.linalg.cholesky(gram)
    firm = np.concatenate([root.T, np.full((1, n_models), 1e3)])
    found = nnls(firm, np.append(np.zeros(n_models), 1e3))[0]
    return np.asarray(found / found.sum())
