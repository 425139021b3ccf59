"""Stochastic passes, and the fused pass over sequences that they are made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kinfolk.inference.chain import KINDS, NEGLIGIBLE, Dense, Parts, Sequences, chain_residuals, run_epoch
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

    def epoch(self, kind: str, flat: Array, squares: Array, order: Array, rate: float, shrink: float) -> float:
        rows, part = self.rows, self.objective(kind, 0.0).shape.split(flat)
        weights = Parts(part.node, part.pair, part.start)
        sequences = Sequences.of(self.labels, self.weights, self.starts)
        none, visits = Dense(rows.dense, 1.0, 0.0), np.asarray(order, np.int64)
        return float(run_epoch(KINDS[kind], rows.csr, none, sequences, weights, squares, visits, rate, shrink))


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


def warmed(
    data: Toy, kind: str, seed: int = 0, n_jobs: int = 1, l2: float = 1.0, passes: int = 8, rate: float = 0.2
) -> Array:
    shrink = min(0.05 * l2 / data.n_sequences, 0.5)
    return warm_start(
        lambda mine, squares, order: data.epoch(kind, mine, squares, order, rate, shrink),
        np.zeros(data.objective(kind, l2).shape.size, data.dtype),
        data.squares(),
        data.n_sequences,
        passes=passes,
        rng=np.random.default_rng(seed),
        n_jobs=n_jobs,
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


@pytest.mark.parametrize("l2", [1.0, 10.0, 1e3, 1e6])
@pytest.mark.parametrize("sequences", [1, 2, 5])
def test_a_strong_ridge_keeps_weights_finite(l2: float, sequences: int) -> None:
    data = toy(3, sequences)
    weak, strong = (warmed(data, "crf", l2=strength) for strength in (0.0, l2))
    assert np.isfinite(strong).all() and (strong**2).sum() < (weak**2).sum()


def test_what_an_epoch_is_given_and_what_becomes_of_it() -> None:
    """Every sequence once a pass, each shard the same in every pass; weights of shards are averaged, their squared
    gradients added up; the answer is the mean over the last half of the passes."""
    calls: list[tuple[Array, float, float]] = []

    def epoch(weights: Array, squares: Array, order: Array) -> float:
        calls.append((np.sort(order), float(weights[0]), float(squares[0])))
        weights += len(calls)
        squares += 1
        return 10.0 * len(calls)

    told: list[tuple[int, float]] = []
    start, met = np.zeros(2), np.full(3, 0.5)
    found = warm_start(
        epoch, start, met, 7, passes=4, rng=np.random.default_rng(0),
        callback=lambda number, loss: told.append((number, loss)),
    )  # fmt: skip
    assert len(calls) == 4 * SHARDS
    assert_array_equal(np.sort(np.concatenate([order for order, _, _ in calls[:SHARDS]])), np.arange(7))
    for shard in range(SHARDS):
        for number in range(4):
            order, weight, square = calls[number * SHARDS + shard]
            assert_array_equal(order, calls[shard][0])
            assert weight == sum(1.5 + 2 * k for k in range(number)) and square == 0.5 + SHARDS * number
    after = np.cumsum([1.5 + 2 * k for k in range(4)])
    assert_array_equal(found, [after[2:].mean()] * 2)
    assert_array_equal(start, 0)
    assert_array_equal(met, 0.5)
    assert told == [(1, 30.0), (2, 70.0), (3, 110.0), (4, 150.0)]


@pytest.mark.parametrize(("last", "expected"), [(1, 1.0), (2, 2.0), (3, 3.0), (4, 3.5)])
def test_a_callback_may_stop(last: int, expected: float) -> None:
    """With the mean of the passes of the last half that were done, else the weights there are."""

    def epoch(weights: Array, squares: Array, order: Array) -> float:
        weights += 1
        return 0.0

    passes: list[int] = []
    found = warm_start(
        epoch, np.zeros(1), np.zeros(1), 4, passes=4, rng=np.random.default_rng(0),
        callback=lambda number, loss: passes.append(number) or number == last,
    )  # fmt: skip
    assert passes == list(range(1, last + 1)) and found[0] == expected


@pytest.mark.parametrize("n_sequences", [0, 1])
def test_fewer_sequences_than_shards(n_sequences: int) -> None:
    def epoch(weights: Array, squares: Array, order: Array) -> float:
        assert len(order) <= n_sequences
        return float(len(order))

    start = np.arange(3.0)
    found = warm_start(epoch, start, np.ones(2), n_sequences, passes=3, rng=np.random.default_rng(0))
    assert_allclose(found, start)
    assert found is not start


# ------------------------------------------------------------------------------------------------- run_epoch


def explicit_step(
    data: Toy, kind: str, flat: Array, squares: Array, s: int, rate: float, shrink: float
) -> tuple[Array, Array, float]:
    """Token by token, those with small residuals passed over: G_f += |g_f|², w_f ← w_f - rate · g_f / G_f^⅜, where all
    residuals are those of the weights before the sequence; label pairs and starts in one."""
    shape = data.objective(kind, 0.0).shape
    a, b = data.starts[s], data.starts[s + 1]
    w = shape.split(flat)
    residuals = chain_residuals(kind, data.labels[a:b], data.weights[a:b], np.array([0, b - a]))
    loss, node, pair, start = residuals(data.X[a:b] @ w.node, w.pair[None], w.start)
    flat, squares = (1 - shrink) * flat, squares.copy()
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
def test_epoch_equals_the_update_formula(
    kind: str, seed: int, visits: int, unknown: float, shrink: float, binary: bool
) -> None:
    rng = np.random.default_rng(seed)
    data = toy(seed, 4, unknown=unknown, binary=binary)
    flat = rng.choice([1.0, 5.0]) * rng.standard_normal(data.objective(kind, 0.0).shape.size)
    order, rate, squares = rng.integers(4, size=visits), rng.uniform(0.01, 0.5), data.squares(rng.uniform(0.01, 2))
    expected, total, sums = flat.copy(), 0.0, squares
    for s in order:
        expected, sums, loss = explicit_step(data, kind, expected, sums, s, rate, shrink)
        total += loss
    found = data.epoch(kind, flat, squares, order, rate, shrink)
    assert_allclose(found, total, rtol=1e-9, atol=1e-10)
    assert_allclose(flat, expected, rtol=1e-9, atol=1e-9)
    assert_allclose(squares, sums, rtol=1e-9, atol=1e-12)


@few
@given(KIND, SEEDS)
def test_epoch_in_float32(kind: str, seed: int) -> None:
    data = toy(seed, 4)
    flat = np.random.default_rng(seed).standard_normal(data.objective(kind, 0.0).shape.size)
    rough, single = flat.astype(np.float32), data._replace(dtype=np.float32)
    order = np.array([2, 0, 3, 1])
    loss = data.epoch(kind, flat, data.squares(), order, 0.2, 0.01)
    found = single.epoch(kind, rough, single.squares(), order, 0.2, 0.01)
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
    before, squares = flat.copy(), data.squares()
    assert data.epoch(kind, flat, squares, [0], 0.5, 0.0) == 0
    assert_array_equal(flat, before)
    assert_array_equal(squares, data.squares())
    assert data.epoch(kind, flat, squares, [0, 0], 0.5, 0.05) == 0
    assert_allclose(flat, 0.95 * 0.95 * before, rtol=1e-12)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_epoch_of_no_visits_changes_nothing(kind: str) -> None:
    data = toy(0, 2)
    flat = np.ones(data.objective(kind, 0.0).shape.size)
    assert data.epoch(kind, flat, data.squares(), [], 0.2, 0.5) == 0
    assert_array_equal(flat, 1)


@few
@given(SEEDS)
def test_huge_weights_take_the_slow_way(seed: int) -> None:
    """Scores beyond the scaled recursion inside an epoch."""
    data = toy(seed, 3)
    flat = 2000 * np.random.default_rng(seed).standard_normal(data.objective("crf", 0.0).shape.size)
    expected, total, sums = flat.copy(), 0.0, data.squares()
    for s in range(3):
        expected, sums, loss = explicit_step(data, "crf", expected, sums, s, 0.1, 0.001)
        total += loss
    assert_allclose(data.epoch("crf", flat, data.squares(), [0, 1, 2], 0.1, 0.001), total, rtol=1e-9)
    assert_allclose(flat, expected, rtol=1e-9, atol=1e-7)
