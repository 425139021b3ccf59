"""Dense columns beside sparse ones: products, objective and stochastic pass against one table with all columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kinfolk.collective.sequences import _squares
from kinfolk.core.beside import Beside, apart, beside
from kinfolk.core.data import ROWS, Relational, read_only
from kinfolk.errors import InputError
from kinfolk.inference.chain_losses import KINDS, Parts, Sequences, chain_residuals
from kinfolk.inference.chain_pass import Dense, run_epoch
from kinfolk.learning.loglinear import LogLinear
from kinfolk.learning.sparse import SparseRows
from strategies import SEEDS

quick = settings(max_examples=40, database=None)
SIZES = st.tuples(st.integers(0, 70), st.integers(0, 6), st.integers(1, 9))
Array = np.ndarray


def columns(seed: int, sizes: tuple[int, int, int]) -> tuple[Array, Array]:
    """Sparse (n, F) and dense (n, d) columns, both as arrays that float32 holds exactly."""
    rng = np.random.default_rng(seed)
    n, f, d = sizes
    table = rng.integers(-2, 3, (n, f)) * (rng.random((n, f)) < 0.4)
    return table.astype(np.float64), rng.standard_normal((n, d)).astype(np.float32)


@quick
@given(SEEDS, SIZES, st.integers(1, 5), st.sampled_from([np.float32, np.float64]))
def test_products_are_those_of_all_columns(seed: int, sizes: tuple[int, int, int], labels: int, kind: type) -> None:
    table, dense = columns(seed, sizes)
    rows, X = SparseRows(Beside(sp.csr_array(table), dense)), np.hstack([table, dense.astype(np.float64)])
    rng = np.random.default_rng(seed)
    weights, residuals = (rng.standard_normal((size, labels)).astype(kind) for size in X.shape[::-1])
    close = {"rtol": 0, "atol": 1e-10 if kind == np.float64 else 1e-4}
    assert_allclose(rows.scores(weights), X @ weights, **close)
    first, last = sorted(rng.integers(0, len(X) + 1, 2).tolist())
    assert_allclose(rows.run(first, last).scores(weights), X[first:last] @ weights, **close)
    for squared in (False, True):
        out = [np.full((X.shape[1], labels), np.nan, kind) for _ in range(2)]
        for jobs, one in enumerate(out, 1):
            rows.gradient(residuals, one, jobs, squared)
        assert_allclose(out[0], (X**2 if squared else X).T @ residuals, **close)
        assert_array_equal(*out)
    assert_array_equal(rows.scores(weights, 1), rows.scores(weights, 2))


def problem(seed: int, kind: str, dense_l2: float | None = None, together: bool = False) -> LogLinear:
    rng = np.random.default_rng(seed)
    table, dense = columns(seed, (23, 4, 5))
    labels = rng.integers(-1, 3, 23).astype(np.int32)
    residuals = chain_residuals(kind, labels, rng.uniform(0.5, 2, 23), np.array([0, 4, 5, 15, 23]))
    whole = sp.csr_array(np.hstack([table, dense])) if together else Beside(sp.csr_array(table), dense)
    return LogLinear(SparseRows(whole, np.float64), residuals, 3, l2=0.7, dense_l2=dense_l2)


@quick
@given(SEEDS, st.sampled_from(sorted(KINDS)), st.sampled_from([None, 0.0, 0.7, 5.0]))
def test_the_gradient_is_the_slope_of_the_objective(seed: int, kind: str, dense_l2: float | None) -> None:
    objective, rng = problem(seed, kind, dense_l2), np.random.default_rng(seed)
    at, slope, nothing = rng.standard_normal(objective.shape.size), *np.empty((2, objective.shape.size))
    value = objective(at, slope)
    way, step = rng.standard_normal(len(at)), 1e-5
    ahead, behind = objective(at + step * way, nothing), objective(at - step * way, nothing)
    assert_allclose((ahead - behind) / (2 * step), slope @ way, rtol=1e-5, atol=1e-5)
    own = objective.shape.split(at).node[4:]
    plain = problem(seed, kind)(at, nothing)
    assert_allclose(value - plain, 0 if dense_l2 is None else (dense_l2 - 0.7) / 2 * (own**2).sum(), atol=1e-8)


@quick
@given(SEEDS, st.sampled_from(sorted(KINDS)))
def test_value_gradient_and_curvature_are_those_of_all_columns(seed: int, kind: str) -> None:
    pair = problem(seed, kind), problem(seed, kind, together=True)
    at = np.random.default_rng(seed).standard_normal(pair[0].shape.size)
    slopes = np.empty((2, len(at)))
    values = [objective(at, slope) for objective, slope in zip(pair, slopes, strict=True)]
    assert_allclose(*values, rtol=1e-12)
    assert_allclose(*slopes, rtol=1e-9, atol=1e-10)
    assert_allclose(*(objective.inverse_curvature() for objective in pair), rtol=1e-9)


def test_the_curvature_has_the_ridge_of_dense_columns() -> None:
    plain, own = problem(0, "crf"), problem(0, "crf", 5.0)
    at = np.zeros(plain.shape.size)
    for objective in (plain, own):
        objective(at, np.empty_like(at))
    curvature = [objective.shape.split(1 / objective.inverse_curvature()) for objective in (plain, own)]
    assert_allclose(curvature[1].node[4:] - curvature[0].node[4:], 4.3, rtol=1e-6)
    assert_allclose(curvature[1].node[:4], curvature[0].node[:4])


@quick
@given(SEEDS, st.sampled_from(sorted(KINDS)), st.sampled_from([0.25, 1.0, 4.0]), st.sampled_from([0.0, 0.3]))
def test_an_epoch_is_that_of_columns_scaled_by_the_root_of_the_rate(
    seed: int, kind: str, rate: float, shrink: float
) -> None:
    """v = w / √r steps by η x √r where w steps by η r x, and shrinks by η λ where w shrinks by η r (λ / r)."""
    rng = np.random.default_rng(seed)
    table, dense = columns(seed, (12, 3, 4))
    starts = np.array([0, 3, 4, 12])
    sequences = Sequences.of(rng.integers(-1, 3, 12).astype(np.int32), rng.uniform(0.5, 2, 12), starts)
    order, rates, root = np.array([1, 0, 2, 0]), rng.uniform(0.05, 0.5, 4), np.sqrt(rate)
    whole = SparseRows(sp.csr_array(np.hstack([table, root * dense])), np.float64)
    rows = SparseRows(Beside(sp.csr_array(table), dense), np.float64)  # one type of arrays: a kernel a kind, not two
    node, pair, start = (rng.standard_normal(size) for size in ((7, 3), (3, 3), (3,)))
    scaled = np.concatenate([node[:3], node[3:] / root])
    kinds, losses = KINDS[kind], []
    for one, beside_, weights in (
        (rows, Dense(rows.dense, rate, shrink / rate), Parts(node, pair, start)),
        (whole, Dense(whole.dense, 1.0, 0.0), Parts(scaled, pair.copy(), start.copy())),
    ):
        losses.append(run_epoch(kinds, one.csr, beside_, sequences, weights, np.empty(0), order, rates, shrink))
    assert_allclose(*losses, rtol=1e-8)
    assert_allclose(node[:3], scaled[:3], rtol=1e-6, atol=1e-8)
    assert_allclose(node[3:], root * scaled[3:], rtol=1e-6, atol=1e-8)


@quick
@given(SEEDS, st.integers(1, 70), st.integers(0, 9))
def test_steps_go_by_squares_of_tokens_and_of_their_sums_over_sequences(seed: int, n: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    dense = columns(seed, (n, 0, width))[1]
    starts = np.unique([0, n, *rng.integers(0, n, 3)])
    sums = [part.sum(axis=0) for part in np.split(dense.astype(np.float64), starts[1:-1])]
    expected = (dense.astype(np.float64) ** 2).sum(), sum(float(one @ one) for one in sums)
    assert_allclose(_squares(read_only(dense), read_only(starts)), expected, rtol=1e-5, atol=1e-6)


def test_rows_are_taken_of_both_parts() -> None:
    table, dense = columns(1, (9, 3, 2))
    both = Beside(sp.csr_array(table), dense)
    for rows in (slice(2, 5), np.array([4, 4, 0]), np.array([], np.int64)):
        some = both[rows]
        assert some.shape == (len(dense[rows]), 5)
        assert_array_equal(some.sparse.toarray(), table[rows])
        assert_array_equal(some.dense, dense[rows])
    assert apart(both)[1] is dense
    assert beside(both.sparse, None) is both.sparse is beside(both.sparse, dense[:, :0])
    assert apart(both.sparse)[1].shape == (9, 0)
    assert Relational(both).n_features == 5


def test_dense_columns_of_instances_are_finite() -> None:
    table, dense = columns(1, (9, 3, 2))
    dense[4, 1] = np.nan
    with pytest.raises(InputError, match="instance 4 has nan in feature 1"):
        Relational(Beside(sp.csr_array(table), dense))
    many = np.zeros((2 * ROWS + 1, 2), np.float32)  # looked over a block at a time
    many[2 * ROWS, 1] = np.inf
    with pytest.raises(InputError, match=f"instance {2 * ROWS} has inf in feature 1"):
        Relational(Beside(sp.csr_array((len(many), 3)), many))
