"""Sparse products against dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kinfolk.learning.sparse import SparseRows
from strategies import SEEDS

quick = settings(max_examples=100, database=None)

DTYPES = st.sampled_from([np.float32, np.float64])


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 60, max_columns: int = 20) -> np.ndarray:
    """Dense tables with empty rows and columns, of ones or of real numbers."""
    n, f = draw(st.integers(0, max_rows)), draw(st.integers(1, max_columns))
    density = draw(st.sampled_from([0.3, 0.05, 0.9, 0.0]))
    binary = draw(st.booleans())
    rng = np.random.default_rng(draw(SEEDS))
    table = np.ones((n, f)) if binary else rng.standard_normal((n, f))
    table[rng.random((n, f)) >= density] = 0
    table[rng.random(n) < 0.2] = 0
    table[:, rng.random(f) < 0.2] = 0
    return table


def gradient(rows: SparseRows, residuals: np.ndarray, **options: Any) -> np.ndarray:
    out = np.full((rows.n_columns, residuals.shape[1]), np.nan, residuals.dtype)
    rows.gradient(residuals, out, **options)
    return out


@quick
@given(tables(), st.integers(1, 5), DTYPES, DTYPES, SEEDS)
def test_products_equal_dense_ones(table: np.ndarray, K: int, dtype: type, kind: type, seed: int) -> None:
    """`dtype` of the table, `kind` of what it is multiplied with: they may differ."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((table.shape[1], K)).astype(kind)
    residuals = rng.standard_normal((len(table), K)).astype(kind)
    rows = SparseRows(sp.csr_matrix(table), dtype)
    X = table.astype(dtype)
    tolerance = {"rtol": 0, "atol": 1e-12 if dtype == kind == np.float64 else 1e-4}
    scores = rows.scores(weights)
    assert scores.dtype == kind
    assert_allclose(scores, X @ weights, **tolerance)
    assert_allclose(gradient(rows, residuals), X.T @ residuals, **tolerance)
    assert_allclose(gradient(rows, residuals, squared=True), (X**2).T @ residuals, **tolerance)
    assert_allclose(gradient(rows, residuals), X.T @ residuals, **tolerance)  # squaring left no trace


@quick
@given(tables(max_rows=200), st.integers(1, 3), DTYPES, SEEDS)
def test_threads_change_nothing(table: np.ndarray, K: int, dtype: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = SparseRows(sp.csr_matrix(table), dtype)
    weights, residuals = (rng.standard_normal((m, K)).astype(dtype) for m in table.shape[::-1])
    assert_array_equal(rows.scores(weights, 1), rows.scores(weights, 2))
    for squared in (False, True):
        one, two = (gradient(rows, residuals, n_jobs=jobs, squared=squared) for jobs in (1, 2))
        assert_array_equal(one, two)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (4, 3)])
def test_nothing_in_the_table(shape: tuple[int, int], dtype: type) -> None:
    rows = SparseRows(sp.csr_matrix(shape), dtype)
    assert_array_equal(rows.scores(np.ones((shape[1], 2), dtype)), np.zeros((shape[0], 2)))
    assert_array_equal(gradient(rows, np.ones((shape[0], 2), dtype)), np.zeros((shape[1], 2)))
    assert_array_equal(gradient(rows, np.ones((shape[0], 2), dtype), squared=True), np.zeros((shape[1], 2)))


def test_scores_into_a_given_array() -> None:
    rows = SparseRows(sp.csr_matrix(np.eye(3)[:2]), np.float64)
    weights, out = np.arange(6.0).reshape(3, 2), np.full((2, 2), np.nan)
    assert rows.scores(weights, out=out) is out
    assert_array_equal(out, weights[:2])


def test_ones_are_not_stored() -> None:
    assert len(SparseRows(sp.csr_matrix(np.eye(3))).csr.values) == 0
    assert len(SparseRows(sp.csr_matrix(2 * np.eye(3))).csr.values) == 3


def test_integers_and_booleans_are_numbers() -> None:
    table = np.array([[0, 2], [3, 0]])
    assert_array_equal(SparseRows(sp.csr_matrix(table)).scores(np.eye(2)), table)
    assert_array_equal(SparseRows(sp.csr_matrix(table > 0)).scores(np.eye(2)), table > 0)


def test_stored_zeros_and_sparse_arrays() -> None:
    table = sp.csr_array((np.array([0.0, 1.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    rows = SparseRows(table, np.float64)
    assert_array_equal(rows.scores(np.array([[5.0], [7.0]])), [[7.0]])
    assert_array_equal(gradient(rows, np.array([[2.0]])), [[0.0], [2.0]])


def test_the_table_is_left_untouched() -> None:
    table = sp.random(20, 10, 0.3, format="csr", random_state=np.random.default_rng(0))
    copy = table.copy()
    rows = SparseRows(table, np.float64)
    gradient(rows, np.ones((20, 1)), squared=True)
    assert (table != copy).nnz == 0
