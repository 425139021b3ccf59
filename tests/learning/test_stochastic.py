"""Stochastic passes, plain and with squared gradients, and the fused pass over sequences that they are made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kinfolk.inference.chain_losses import KINDS, Parts, Sequences, chain_residuals
from kinfolk.inference.chain_pass import NEGLIGIBLE, Dense, run_epoch
from kinfolk.learning.loglinear import LogLinear
from kinfolk.learning.sparse import SparseRows
from kinfolk.learning.warm_start import SHARDS, warm_start
from strategies import SEEDS

quick = settings(max_examples=60, database=None)
few = settings(max_examples=20, database=None)

Array = np.ndarray
KIND = st.sampled_from(sorted(KINDS))


class Toy(NamedTuple):
    """A small corpus whose labels follow its features."""

    X: Array
    labels: Array
    weights: Array
    starts: Array
    n_labels: int
    dtype: type

    @property
    def n_sequences(self) -> int:
        return len(self.starts) - 1

    @property
    def rows(self) -> SparseRows:
        return SparseRows(sp.csr_matrix(self.X), self.dtype)

    def objective(self, kind: str, l2: float) -> LogLinear:
        residuals = chain_residuals(kind, self.labels, self.weights, self.starts)
        return LogLinear(self.rows, residuals, self.n_labels, l2=l2)

    def squares(self, first: float = 0.1) -> Array:
        """Squared gradients to begin with: one a feature, and one of label pairs."""
        return np.full(self.X.shape[1] + 1, first, self.dtype)

    def epoch(
        self, kind: str, flat: Array, order: Array, rates: Array, shrink: float, squares: Array | None = None
    ) -> float:
        rows, part = self.rows, self.objective(kind, 0.0).shape.split(flat)
        weights = Parts(part.node, part.pair, part.start)
        sequences = Sequences.of(self.labels, self.weights, self.starts)
        steps = np.asarray(rates, np.float64)
        none, met = Dense(rows.dense, 1.0, 0.0), np.empty(0, self.dtype) if squares is None else squares
        return float(run_epoch(KINDS[kind], rows.csr, none, sequences, weights, met, np.asarray(order), steps, shrink))


def toy(
    seed: int, sequences: int = 30, L: int = 3, F: int = 8, unknown: float = 0.0, dtype: type = np.float64,
    binary: bool = True,
) -> Toy:  # fmt: skip
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *rng.integers(1, 7, size=sequences)])
    n = int(starts[-1])
    X = np.ones((n, F)) if binary else rng.standard_normal((n, F))
    X[rng.random((n, F)) < 0.6] = 0
    labels = (X @ rng.standard_normal((F, L))).argmax(axis=1).astype(np.int32)
    labels[rng.random(n) < unknown] = -1
    return Toy(X, labels, np.repeat(rng.uniform(0.5, 2, size=sequences), np.diff(starts)), starts, L, dtype)


def warmed(data: Toy, kind: str, seed: int = 0, n_jobs: int = 1, l2: float = 1.0, **options: object) -> Array:
    shrink = l2 / data.n_sequences
    flat = np.zeros(data.objective(kind, l2).shape.size, data.dtype)
    return warm_start(
        lambda mine, met, order, rates: data.epoch(kind, mine, order, rates, shrink, met if len(met) else None),
        flat,
        data.n_sequences,
        shrink=shrink,
        rng=np.random.default_rng(seed),
        n_jobs=n_jobs,
        **options,  # type: ignore[arg-type]
    )


# ------------------------------------------------------------------------------------------------ warm_start


@few
@given(KIND, SEEDS, st.sampled_from([np.float32, np.float64]), st.integers(1, 12))
def test_a_seed_fixes_the_answer_for_any_number_of_threads(kind: str, seed: int, dtype: type, sequences: int) -> None:
    data = toy(seed, sequences, dtype=dtype)
    first = warmed(data, kind, seed, passes=3)
    assert first.dtype == dtype
    assert_array_equal(first, warmed(data, kind, seed, passes=3))
    assert_array_equal(first, warmed(data, kind, seed, n_jobs=2, passes=3))


def test_another_seed_is_another_path() -> None:
    data = toy(0)
    assert (warmed(data, "crf", 1) != warmed(data, "crf", 2)).any()


@few
@given(KIND, SEEDS, st.sampled_from([0.0, 0.3]), st.booleans())
def test_the_objective_falls_well_below_the_start(kind: str, seed: int, unknown: float, binary: bool) -> None:
    data, l2 = toy(seed, 40, unknown=unknown, binary=binary), 0.5
    objective = data.objective(kind, l2)
    flat = warmed(data, kind, seed, l2=l2)
    gradient = np.empty_like(flat)
    assert objective(flat, gradient) < 0.7 * objective(np.zeros_like(flat), gradient)


@pytest.mark.parametrize("l2", [1.0, 5.0, 10.0, 20.0, 1e3, 1e6])
@pytest.mark.parametrize("sequences", [1, 2, 5])
def test_a_strong_ridge_does_no_harm(l2: float, sequences: int) -> None:
    """Rate · shrink may reach 1, where a step would wipe out or turn round all weights."""
    data = toy(3, sequences)
    for rate in (0.1, 1.0):
        flat = warmed(data, "crf", l2=l2, rate=rate)
        assert np.isfinite(flat).all()
        objective, gradient = data.objective("crf", l2), np.empty_like(flat)
        if l2 >= 5:
            assert objective(flat, gradient) < 1.5 * objective(np.zeros_like(flat), gradient)


def test_what_an_epoch_is_given() -> None:
    """Every sequence once a pass, each shard the same in every pass; rates fall as documented."""
    calls: list[tuple[Array, Array]] = []

    def epoch(weights: Array, squares: Array, order: Array, rates: Array) -> float:
        calls.append((np.sort(order), rates.copy()))
        weights += len(calls)
        return 10.0 * len(calls)

    told: list[tuple[int, float]] = []
    start = np.zeros(2)
    found = warm_start(
        epoch, start, 7, shrink=0.5, rate=0.2, passes=2, rng=np.random.default_rng(0),
        callback=lambda number, loss: told.append((number, loss)),
    )  # fmt: skip
    assert len(calls) == 2 * SHARDS
    assert_array_equal(np.sort(np.concatenate([order for order, _ in calls[:SHARDS]])), np.arange(7))
    for (order, rates), (again, later) in zip(calls[:SHARDS], calls[SHARDS:], strict=True):
        assert_array_equal(order, again)
        assert_allclose(rates, 0.2 / (1 + 0.2 * 0.5 * np.arange(len(order))))
        assert_allclose(later, 0.2 / (1 + 0.2 * 0.5 * (4 + np.arange(len(order)))))
    assert_array_equal(found, [1.5 + 3.5] * 2)
    assert_array_equal(start, 0)
    assert told == [(1, 30.0), (2, 70.0)]


def test_squared_gradients_are_added_up_and_the_last_half_is_averaged() -> None:
    met, start = np.full(3, 0.5), np.zeros(1)
    seen: list[float] = []

    def epoch(weights: Array, squares: Array, order: Array, rates: Array) -> float:
        seen.append(float(squares[0]))
        weights += 1
        squares += 2
        return 0.0

    def answer(last: int) -> float:
        stop = {"callback": lambda number, loss: number == last}
        rng = np.random.default_rng(0)
        return float(warm_start(epoch, start, 6, shrink=0.0, passes=4, squares=met, rng=rng, **stop)[0])  # type: ignore[arg-type]

    assert answer(4) == 3.5
    assert seen == [0.5 + 2 * SHARDS * number for number in range(4) for _ in range(SHARDS)]
    assert_array_equal(met, 0.5)
    assert_array_equal(start, 0)
    assert [answer(last) for last in (1, 2, 3)] == [1, 2, 3], "of the last half what there is, else the last weights"


@few
@given(KIND, SEEDS)
def test_with_squared_gradients_threads_do_not_matter_either(kind: str, seed: int) -> None:
    data = toy(seed, 9, dtype=np.float32)
    one, two = (warmed(data, kind, seed, n_jobs=jobs, passes=3, squares=data.squares()) for jobs in (1, 2))
    assert_array_equal(one, two)
    assert (one != warmed(data, kind, seed, passes=3)).any()


def test_a_callback_may_stop() -> None:
    passes: list[int] = []
    warm_start(
        lambda weights, squares, order, rates: 0.0, np.zeros(1), 4, shrink=0.1, rng=np.random.default_rng(0),
        callback=lambda number, loss: passes.append(number) or number == 3,
    )  # fmt: skip
    assert passes == [1, 2, 3]


@pytest.mark.parametrize("n_sequences", [0, 1])
def test_fewer_sequences_than_shards(n_sequences: int) -> None:
    def epoch(weights: Array, squares: Array, order: Array, rates: Array) -> float:
        assert len(order) == len(rates) <= n_sequences
        return float(len(order))

    start = np.arange(3.0)
    found = warm_start(epoch, start, n_sequences, shrink=0.0, rng=np.random.default_rng(0))
    assert_array_equal(found, start)
    assert found is not start


# ------------------------------------------------------------------------------------------------- run_epoch


def explicit_step(data: Toy, kind: str, flat: Array, s: int, rate: float, shrink: float) -> tuple[Array, float]:
    """w ← (1 - rate · shrink) w - rate · (gradient of sequence s), tokens with small residuals passed over."""
    shape = data.objective(kind, 0.0).shape
    a, b = data.starts[s], data.starts[s + 1]
    w = shape.split(flat)
    residuals = chain_residuals(kind, data.labels[a:b], data.weights[a:b], np.array([0, b - a]))
    loss, node, pair, start = residuals(data.X[a:b] @ w.node, w.pair[None], w.start)
    node = np.where(np.abs(node).max(axis=1, keepdims=True) > NEGLIGIBLE, node, 0)
    gradient = np.concatenate([(data.X[a:b].T @ node).ravel(), start, pair[0].ravel()])
    return (1 - rate * shrink) * flat - rate * gradient, loss


@quick
@given(KIND, SEEDS, st.integers(1, 8), st.sampled_from([0.0, 0.4]), st.sampled_from([0.0, 0.3]), st.booleans())
def test_epoch_equals_the_update_formula(
    kind: str, seed: int, visits: int, unknown: float, shrink: float, binary: bool
) -> None:
    rng = np.random.default_rng(seed)
    data = toy(seed, 4, unknown=unknown, binary=binary)
    flat = rng.choice([1.0, 5.0]) * rng.standard_normal(data.objective(kind, 0.0).shape.size)
    order, rates = rng.integers(4, size=visits), rng.uniform(0.01, 0.5, size=visits)
    expected, total = flat.copy(), 0.0
    for s, rate in zip(order, rates, strict=True):
        expected, loss = explicit_step(data, kind, expected, s, rate, shrink)
        total += loss
    found = data.epoch(kind, flat, order, rates, shrink)
    assert_allclose(found, total, rtol=1e-9, atol=1e-10)
    assert_allclose(flat, expected, rtol=1e-9, atol=1e-9)


def damped_step(
    data: Toy, kind: str, flat: Array, squares: Array, s: int, rate: float, shrink: float
) -> tuple[Array, Array, float]:
    """Token by token, those with small residuals passed over: G_f += |g_f|², w_f ← w_f - rate · g_f / G_f^⅜, where all
    residuals are those of the weights before the sequence; label pairs and starts in one."""
    shape = data.objective(kind, 0.0).shape
    a, b = data.starts[s], data.starts[s + 1]
    w = shape.split(flat)
    residuals = chain_residuals(kind, data.labels[a:b], data.weights[a:b], np.array([0, b - a]))
    loss, node, pair, start = residuals(data.X[a:b] @ w.node, w.pair[None], w.start)
    flat, squares = (1 - rate * shrink) * flat, squares.copy()
    w = shape.split(flat)
    squares[-1] += (pair[0] ** 2).sum() + (start**2).sum()
    w.pair[:] -= rate * pair[0] / squares[-1] ** 0.375
    w.start[:] -= rate * start / squares[-1] ** 0.375
    for x, r in zip(data.X[a:b], node, strict=True):
        if np.abs(r).max() > NEGLIGIBLE:
            squares[:-1] += x**2 * (r**2).sum()
            w.node[:] -= rate * np.outer(x / squares[:-1] ** 0.375, r)
    return flat, squares, loss


@quick
@given(KIND, SEEDS, st.integers(1, 8), st.sampled_from([0.0, 0.4]), st.sampled_from([0.0, 0.3]), st.booleans())
def test_epoch_with_squared_gradients_equals_the_update_formula(
    kind: str, seed: int, visits: int, unknown: float, shrink: float, binary: bool
) -> None:
    rng = np.random.default_rng(seed)
    data = toy(seed, 4, unknown=unknown, binary=binary)
    flat = rng.choice([1.0, 5.0]) * rng.standard_normal(data.objective(kind, 0.0).shape.size)
    order, rate, squares = rng.integers(4, size=visits), rng.uniform(0.01, 0.5), data.squares(rng.uniform(0.01, 2))
    expected, total, sums = flat.copy(), 0.0, squares
    for s in order:
        expected, sums, loss = damped_step(data, kind, expected, sums, s, rate, shrink)
        total += loss
    found = data.epoch(kind, flat, order, np.full(visits, rate), shrink, squares)
    assert_allclose(found, total, rtol=1e-9, atol=1e-10)
    assert_allclose(flat, expected, rtol=1e-9, atol=1e-9)
    assert_allclose(squares, sums, rtol=1e-9, atol=1e-12)


@few
@given(KIND, SEEDS)
def test_epoch_in_float32(kind: str, seed: int) -> None:
    data = toy(seed, 4)
    flat = np.random.default_rng(seed).standard_normal(data.objective(kind, 0.0).shape.size)
    rough = flat.astype(np.float32)
    order, rates = np.array([2, 0, 3, 1]), np.full(4, 0.2)
    loss = data.epoch(kind, flat, order, rates, 0.05)
    found = data._replace(dtype=np.float32).epoch(kind, rough, order, rates, 0.05)
    assert_allclose(found, loss, rtol=1e-4, atol=1e-4)
    assert_allclose(rough, flat, rtol=1e-3, atol=1e-3)


@few
@given(KIND, SEEDS, st.sampled_from(["weight 0", "unknown"]))
def test_a_sequence_that_says_nothing_only_shrinks(kind: str, seed: int, why: str) -> None:
    data = toy(seed, 1)
    if why == "weight 0":
        data = data._replace(weights=np.zeros(len(data.labels)))
    else:
        data = data._replace(labels=np.full(len(data.labels), -1, np.int32))
    flat = np.random.default_rng(seed).standard_normal(data.objective(kind, 0.0).shape.size)
    before = flat.copy()
    assert data.epoch(kind, flat, [0], [0.5], 0.0) == 0
    assert_array_equal(flat, before)
    assert data.epoch(kind, flat, [0, 0], [0.5, 0.25], 0.1) == 0
    assert_allclose(flat, 0.95 * 0.975 * before, rtol=1e-12)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_epoch_of_no_visits_changes_nothing(kind: str) -> None:
    data = toy(0, 2)
    flat = np.ones(data.objective(kind, 0.0).shape.size)
    assert data.epoch(kind, flat, np.zeros(0, np.int64), [], 0.5) == 0
    assert_array_equal(flat, 1)


@few
@given(SEEDS)
def test_huge_weights_take_the_slow_way(seed: int) -> None:
    """Scores beyond the scaled recursion inside an epoch."""
    data = toy(seed, 3)
    flat = 2000 * np.random.default_rng(seed).standard_normal(data.objective("crf", 0.0).shape.size)
    expected, total = flat.copy(), 0.0
    for s in range(3):
        expected, loss = explicit_step(data, "crf", expected, s, 0.1, 0.01)
        total += loss
    assert_allclose(data.epoch("crf", flat, [0, 1, 2], [0.1] * 3, 0.01), total, rtol=1e-9)
    assert_allclose(flat, expected, rtol=1e-9, atol=1e-7)
