"""The training objective and its gradient, against lists of all labellings and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles as o
from kinfolk.inference.chain_losses import chain_residuals
from kinfolk.learning.loglinear import Answer, LogLinear, Shape, Tables, TableShape, TableWeights, _carry_over, _rows
from kinfolk.learning.sparse import SparseRows
from strategies import ChainDataset, chain_datasets

quick = settings(max_examples=100, database=None)
few = settings(max_examples=25, database=None)

KINDS = st.sampled_from(["maxent", "memm", "crf"])
RIDGES = st.sampled_from([1.0, 0.0, 0.1, 7.0])


class Problem(NamedTuple):
    """The same objective by the library and by enumeration, both of one flat vector."""

    objective: LogLinear
    enumerated: Callable[[o.FloatArray], float]
    flat: o.FloatArray


def problem(kind: str, data: ChainDataset, l2: float, dtype: type = np.float64, n_jobs: int = 1) -> Problem:
    F, L = data.W.shape
    G = 0 if data.U is None else len(data.U)
    lengths = [len(s["labels"]) for s in data.sequences]
    labels = np.concatenate([s["labels"] for s in data.sequences]).astype(np.int32)
    weights = np.repeat([s["weight"] for s in data.sequences], lengths)
    starts = np.cumsum([0, *lengths])
    X = np.concatenate([s["X"] for s in data.sequences])
    pair_rows = None
    if G:
        pair_rows = SparseRows(sp.csr_matrix(np.concatenate([s["Z"] for s in data.sequences])), dtype)  # type: ignore[misc]
    residuals = chain_residuals(kind, labels, weights, starts, n_jobs)
    objective = LogLinear(SparseRows(sp.csr_matrix(X), dtype), residuals, L, pair_rows, l2, n_jobs)

    def enumerated(flat: o.FloatArray) -> float:
        W, start, T, U = o.unflatten(flat, (F, L), (L,), (L, L), (G, L, L))
        given_U = U if G else None
        if kind == "maxent":
            loss = o.maxent_loss(X, labels, W, weights)
        elif kind == "memm":
            loss = o.memm_loss(data.sequences, W, T, start, given_U)
        else:
            loss = o.crf_loss(data.sequences, W, T, start, np.zeros(L), given_U)
        return loss + o.ridge(flat, l2)

    tables = [data.W, data.start, data.T] + ([data.U] if data.U is not None else [])
    return Problem(objective, enumerated, o.flatten(*tables))


@quick
@given(KINDS, chain_datasets(), RIDGES)
def test_value_equals_enumeration(kind: str, data: ChainDataset, l2: float) -> None:
    objective, enumerated, flat = problem(kind, data, l2)
    assert objective.shape.size == len(flat)
    value = objective(flat, np.empty_like(flat))
    assert_allclose(value, enumerated(flat), rtol=1e-10, atol=1e-10)


@few
@given(KINDS, chain_datasets(max_sequences=2, max_tokens=3), RIDGES)
def test_gradient_equals_finite_differences(kind: str, data: ChainDataset, l2: float) -> None:
    objective, enumerated, flat = problem(kind, data, l2)
    gradient = np.full_like(flat, np.nan)
    objective(flat, gradient)
    expected = o.finite_difference_gradient(enumerated, flat, step=1e-3)
    assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(expected).max()))


@quick
@given(KINDS, chain_datasets(), RIDGES)
def test_float32_is_a_rounding_of_float64(kind: str, data: ChainDataset, l2: float) -> None:
    exact, rough = (problem(kind, data, l2, dtype) for dtype in (np.float64, np.float32))
    flat = rough.flat.astype(np.float32)
    gradient, expected = np.empty_like(flat), np.empty_like(exact.flat)
    value = rough.objective(flat, gradient)
    assert gradient.dtype == np.float32
    assert_allclose(value, exact.objective(exact.flat, expected), rtol=1e-4, atol=1e-4)
    assert_allclose(gradient, expected, rtol=1e-3, atol=1e-3)


@few
@given(KINDS, chain_datasets(max_sequences=40, max_tokens=6), st.sampled_from([np.float32, np.float64]))
def test_threads_change_nothing(kind: str, data: ChainDataset, dtype: type) -> None:
    results = []
    for n_jobs in (1, 2):
        p = problem(kind, data, 0.5, dtype, n_jobs)
        flat = p.flat.astype(dtype)
        gradient = np.empty_like(flat)
        results.append((p.objective(flat, gradient), gradient, p.objective.inverse_curvature()))
    for one, two in zip(*results, strict=True):
        assert_array_equal(one, two)


@quick
@given(KINDS, chain_datasets(), RIDGES, st.sampled_from([np.float32, np.float64]))
def test_inverse_curvature_is_positive(kind: str, data: ChainDataset, l2: float, dtype: type) -> None:
    p = problem(kind, data, l2, dtype)
    for flat in (p.flat.astype(dtype), np.zeros(len(p.flat), dtype)):
        p.objective(flat, np.empty_like(flat))
        inverse = p.objective.inverse_curvature()
        assert inverse.shape == flat.shape
        assert inverse.dtype == dtype
        assert np.isfinite(inverse).all()
        assert (inverse > 0).all()
        if l2:
            assert (inverse <= (1 + 1e-6) / l2).all()


def test_inverse_curvature_of_maxent_is_exact_on_node_weights() -> None:
    """With all labels known and weights 1, p (1 - p) x² + l2 is the diagonal of the Hessian."""
    rng = np.random.default_rng(0)
    X, labels, l2 = rng.standard_normal((6, 2)), rng.integers(3, size=6).astype(np.int32), 0.7
    residuals = chain_residuals("maxent", labels, np.ones(6), np.array([0, 6]))
    objective = LogLinear(SparseRows(sp.csr_matrix(X), np.float64), residuals, 3, l2=l2)
    flat = rng.standard_normal(objective.shape.size)
    scores = X @ objective.shape.split(flat).node
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    expected = (X**2).T @ (p * (1 - p)) + l2
    objective(flat, np.empty_like(flat))
    assert_allclose(1 / objective.shape.split(objective.inverse_curvature()).node, expected, rtol=1e-12)


def test_weights_are_left_untouched_and_views_share_memory() -> None:
    shape = Shape(features=3, labels=2, pair_features=2)
    flat = np.arange(float(shape.size))
    parts = shape.split(flat)
    assert [part.shape for part in parts] == [(3, 2), (2,), (2, 2), (2, 4)]
    assert_array_equal(np.concatenate([part.ravel() for part in parts]), flat)
    parts.pair_features[1, 3] = -1
    assert flat[-1] == -1


@pytest.mark.parametrize("kind", ["maxent", "memm", "crf"])
def test_evaluation_has_no_memory(kind: str) -> None:
    """Values at one point do not depend on the points seen before."""
    rng = np.random.default_rng(5)
    labels, starts = np.array([0, 1, -1, 1], np.int32), np.array([0, 3, 4])
    rows, pair_rows = (SparseRows(sp.csr_matrix(rng.standard_normal((4, k))), np.float64) for k in (3, 2))
    objective = LogLinear(rows, chain_residuals(kind, labels, np.ones(4), starts), 2, pair_rows, 0.3)
    flat = rng.standard_normal(objective.shape.size)
    copy, first, again = flat.copy(), np.empty_like(flat), np.empty_like(flat)
    value = objective(flat, first)
    objective(rng.standard_normal(len(flat)), np.empty_like(flat))
    objective.inverse_curvature()
    assert objective(flat, again) == value
    assert_array_equal(first, again)
    assert_array_equal(flat, copy)


def test_scores_have_one_place_however_often_they_are_asked() -> None:
    """They are as long as the data: evaluations write into the same array, but for another kind of number."""
    rng, places = np.random.default_rng(6), []

    def loss(scores: o.FloatArray, weights: TableWeights) -> Answer:
        places.append(scores)
        return Answer(
            0.0, np.zeros_like(scores), *(np.zeros_like(part) for part in (weights.pair, *weights[1:2], *weights[3:]))
        )

    shape = TableShape((3,), 2, 1)
    objective = Tables([SparseRows(sp.csr_matrix(rng.standard_normal((4, 3))), np.float64)], shape, loss, 1.0, 1.0)
    for _ in range(3):
        flat = rng.standard_normal(shape.size)
        objective(flat, np.empty_like(flat))
    assert all(place is places[0] for place in places)


def test_features_that_were_not_there_before_inherit_nothing():
    """Weights go by the names of features: a new one begins at 0, and not with those of another."""
    numbers = _rows({"a": 0, "b": 1}, ["b", "new", "a"])
    assert numbers.tolist() == [1, -1, 0]

    def weights(table: np.ndarray) -> TableWeights:
        return TableWeights([table], np.zeros(2), np.zeros((1, 2, 2)), np.zeros((0, 4)), np.zeros(0))

    old, new = weights(np.array([[1.0, 2.0], [3.0, 4.0]])), weights(np.zeros((3, 2)))
    _carry_over(old, new, (np.arange(2), np.arange(2)), numbers, np.empty(0, np.int64))
    assert_array_equal(new.tables[0], [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]])
