"""Pools of probabilities and their weights, beside plain loops (`pool_oracle`) and by the conditions of an optimum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pool_oracle as oracle
from kinfolk.learning.pooling import (
    LEAST,
    NEGLIGIBLE,
    PULL,
    fitted_number_weights,
    fitted_weights,
    mark_weights,
    mixture_weights,
    number_weights,
    pool_weights,
    pooled,
    pooled_marks,
)
from strategies import SEEDS

QUICK = settings(max_examples=20)


def a_pool(seed: int, n: int = 12, n_labels: int = 3, n_models: int = 3) -> tuple[list[Any], Any]:
    """What models say that know something of the labels, none of it below the least probability."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_labels, size=n)
    tables = []
    for knows in rng.uniform(0, 6, n_models):
        table = rng.dirichlet(np.ones(n_labels), n) + 0.02
        table[np.arange(n), labels] += knows * rng.random(n)
        tables.append(table / table.sum(axis=1, keepdims=True))
    return tables, labels


def lists(tables: list[Any]) -> list[oracle.Table]:
    return [table.tolist() for table in tables]


def likelihood(tables: list[Any], labels: Any) -> Any:
    return np.stack([table[np.arange(len(labels)), labels] for table in tables], axis=1)


def objective(tables: list[Any], labels: Any, weights: Any, prior: Any, counts: Any = None) -> float:
    """Σ_i r_i (-log p(y_i)) + λ/2 √n |w - π|², with counts r that are 1 on average; by loops."""
    n = len(labels)
    counts = np.ones(n) if counts is None else np.asarray(counts) * n / np.sum(counts)
    rows = oracle.pool_probabilities(lists(tables), list(weights))
    loss = -sum(r * math.log(row[y]) for r, row, y in zip(counts, rows, labels, strict=True))
    return loss + PULL / 2 * math.sqrt(n) * sum((w - p) ** 2 for w, p in zip(weights, prior, strict=True))


def prior_of(tables: list[Any], labels: Any, counts: Any = None) -> Any:
    return mixture_weights(likelihood(tables, labels), np.ones(len(labels)) if counts is None else np.asarray(counts))


def check_minimum(tables: list[Any], labels: Any, found: Any, counts: Any = None) -> None:
    """The slope is 0 along weights that are there, and does not fall along those that are 0: within what the search
    leaves."""
    prior, step = prior_of(tables, labels, counts), 1e-5
    for c, weight in enumerate(found):
        moved = np.eye(len(found))[c] * step
        slope = objective(tables, labels, found + moved, prior, counts)
        slope = (slope - objective(tables, labels, found - moved if weight > step else found, prior, counts)) / (
            (2 if weight > step else 1) * step
        )
        loose = 0.02 * len(labels)
        assert slope > -loose, (c, slope)
        assert weight < 1e-4 or slope < loose, (c, slope)


# -- pools


@QUICK
@given(seed=SEEDS, n=st.integers(1, 6), n_labels=st.integers(2, 4), n_models=st.integers(1, 4))
def test_a_pool_beside_loops(seed: int, n: int, n_labels: int, n_models: int):
    tables, _ = a_pool(seed, n, n_labels, n_models)
    weights = np.random.default_rng(seed).uniform(0, 3, n_models)
    np.testing.assert_allclose(
        pooled(tables, weights), oracle.pool_probabilities(lists(tables), weights.tolist()), atol=1e-12
    )


def test_what_one_rules_out_others_bring_in():
    """No probability counts for less than the least: logs are of 1e-5, not of 0."""
    found = pooled([np.array([[1.0, 0.0]]), np.array([[0.2, 0.8]])], [1.0, 1.0])
    raised = oracle.pool_probabilities([[[1.0, LEAST]], [[0.2, 0.8]]], [1.0, 1.0])
    np.testing.assert_allclose(found, raised, rtol=1e-12)
    assert 0 < found[0, 1] < 1e-3


def test_without_rows_or_weights():
    assert pooled([np.zeros((0, 3))], [1.0]).shape == (0, 3)
    np.testing.assert_allclose(pooled([np.array([[0.9, 0.1]])], [0.0]), [[0.5, 0.5]])


def test_tables_of_single_precision_are_pooled_in_double():
    tables, _ = a_pool(0)
    found = pooled([table.astype(np.float32) for table in tables], [1.0, 0.5, 0.2])
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, pooled(tables, [1.0, 0.5, 0.2]), atol=1e-6)


# -- mixtures


@QUICK
@given(seed=SEEDS, n=st.integers(1, 10), n_models=st.integers(1, 3))
def test_no_mixture_nearby_is_likelier(seed: int, n: int, n_models: int):
    """Beside the oracle's EM, which goes on for longer: of likelihoods that are nearly flat weights may differ."""
    tables, labels = a_pool(seed, n, n_models=n_models)
    found = mixture_weights(likelihood(tables, labels), np.ones(n))
    assert found.sum() == pytest.approx(1) and (found >= 0).all()
    reached = oracle.mixture_likelihood(lists(tables), labels.tolist(), found.tolist())
    longer = oracle.em_mixture(lists(tables), labels.tolist(), 1000)
    assert reached >= oracle.mixture_likelihood(lists(tables), labels.tolist(), longer) - 1e-3
    for other in oracle.simplex(n_models, 10):
        nearby = [0.9 * w + 0.1 * v for w, v in zip(found.tolist(), other, strict=True)]
        assert oracle.mixture_likelihood(lists(tables), labels.tolist(), nearby) <= reached + 1e-3


def test_a_mixture_where_the_optimum_is_inside():
    """Each of two models is right of its half: the weights are those of the oracle, to what is left of a step."""
    tables = [np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), np.array([[0.2, 0.8], [0.3, 0.7], [0.95, 0.05]])]
    labels = np.zeros(3, int)
    found = mixture_weights(likelihood(tables, labels), np.ones(3))
    np.testing.assert_allclose(found, oracle.em_mixture(lists(tables), [0, 0, 0]), atol=1e-3)


def test_a_label_counted_twice_is_two_labels():
    tables, labels = a_pool(3)
    counts = np.arange(12) % 3 + 1
    twice = np.repeat(np.arange(12), counts)
    found = mixture_weights(likelihood(tables, labels), counts)
    np.testing.assert_allclose(found, mixture_weights(likelihood(tables, labels)[twice], np.ones(len(twice))))


# -- weights of a pool


@QUICK
@given(seed=SEEDS, n=st.integers(2, 14), n_labels=st.integers(2, 3), n_models=st.integers(1, 3), counted=st.booleans())
def test_weights_are_at_the_minimum(seed: int, n: int, n_labels: int, n_models: int, counted: bool):
    tables, labels = a_pool(seed, n, n_labels, n_models)
    counts = np.random.default_rng(seed).uniform(0.1, 4, n) if counted else None
    check_minimum(tables, labels, fitted_weights(tables, labels, counts)[0], counts)


@pytest.mark.parametrize("seed", range(3))
def test_no_weights_on_a_grid_are_better(seed: int):
    tables, labels = a_pool(seed, n=10, n_models=2)
    prior = prior_of(tables, labels)
    penalty = oracle.squared(prior.tolist(), PULL / 2 / math.sqrt(10))  # of the mean: λ/2 √n / n
    found = pool_weights(tables, labels)
    _, best = oracle.best_on_grid(lists(tables), labels.tolist(), penalty, highest=3.0, steps=30)
    assert oracle.pool_loss(lists(tables), labels.tolist(), found.tolist(), penalty) <= best + 1e-5
    oracle.check_optimum(lists(tables), labels.tolist(), found.tolist(), penalty, within=1e-3)


@QUICK
@given(seed=SEEDS)
def test_the_order_of_candidates_does_not_matter(seed: int):
    tables, labels = a_pool(seed)
    order = np.random.default_rng(seed).permutation(3)
    found = pool_weights([tables[c] for c in order], labels)
    np.testing.assert_allclose(found, pool_weights(tables, labels)[order], atol=2e-2)


def test_a_candidate_there_twice_shares_its_weight():
    (one, other, _), labels = a_pool(1, n=40)
    found, _ = fitted_weights([one, other, one], labels)
    assert found[0] == pytest.approx(found[2], abs=1e-6)
    check_minimum([one, other, one], labels, found)


def test_one_candidate_is_calibrated():
    """Sure of itself and right three times of four: its probabilities become milder."""
    table, labels = np.tile([0.99, 0.01], (400, 1)), np.arange(400) % 4 // 3
    (weight,) = pool_weights([table], labels)
    assert 0 < weight < 1
    assert pooled([table], [weight])[0, 0] == pytest.approx(0.75, abs=0.03)


def test_who_only_guesses_has_little_weight():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=300)
    knows = np.where(labels[:, None] == np.arange(2), 0.8, 0.2)
    wrong = rng.random(300) < 0.2
    knows[wrong] = knows[wrong][:, ::-1]
    guesses = rng.dirichlet([1, 1], 300)
    found = pool_weights([knows, guesses], labels)
    assert found[0] > 0.8 and found[1] < 0.1


def test_weights_too_small_to_matter_are_none():
    right, wrong = np.tile([0.9, 0.1], (50, 1)), np.tile([0.1, 0.9], (50, 1))
    found = pool_weights([right, wrong], np.zeros(50, int))
    assert found[1] == 0 and found[0] > 1
    assert ((found == 0) | (found >= NEGLIGIBLE)).all()


def test_where_all_are_wrong_the_pool_says_something_yet():
    wrong = np.tile([0.01, 0.99], (30, 1))
    found = pool_weights([wrong, wrong], np.zeros(30, int))
    assert found.any() and np.isfinite(found).all()


def test_counts_are_relative():
    tables, labels = a_pool(5)
    counts = np.arange(12) + 1.0
    np.testing.assert_allclose(pool_weights(tables, labels, counts), pool_weights(tables, labels, 1000 * counts))


# -- numbers, and labels that do not exclude each other


def some_numbers(seed: int, n: int = 30, n_models: int = 2) -> tuple[list[Any], Any]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n)
    return [
        (values * rng.random() + rng.normal(size=n) * rng.uniform(0.2, 2))[:, None] for _ in range(n_models)
    ], values


def squared(tables: list[Any], values: Any, weights: Any) -> float:
    """Σ_i (y_i - Σ_c w_c m_c)², by loops."""
    return sum((y - sum(w * t[i, 0] for w, t in zip(weights, tables, strict=True))) ** 2 for i, y in enumerate(values))


@QUICK
@given(SEEDS)
def test_weights_of_numbers_beside_a_grid(seed: int):
    """No weights of a grid have a lower loss, and no mixture a lower error."""
    tables, values = some_numbers(seed)
    found, prior = fitted_number_weights(tables, values)
    assert (found >= 0).all() and (prior >= 0).all() and prior.sum() == pytest.approx(1)
    least = min(squared(tables, values, (share, 1 - share)) for share in np.linspace(0, 1, 21))
    error = squared(tables, values, prior)
    assert error <= least * (1 + 1e-3)

    def loss(weights: Any) -> float:
        away = sum((w - p) ** 2 for w, p in zip(weights, prior, strict=True))
        return squared(tables, values, weights) / (2 * error / len(values)) + PULL / 2 * math.sqrt(len(values)) * away

    grid = [(a, b) for a in np.linspace(0, 1.5, 16) for b in np.linspace(0, 1.5, 16)]
    assert loss(found) <= min(map(loss, grid)) + 1e-6


def test_models_that_say_the_same_share_their_weight():
    rng = np.random.default_rng(0)
    values = rng.normal(size=200)
    said = (values + 0.5 * rng.normal(size=200))[:, None]
    weights = number_weights([said, said, rng.normal(size=(200, 1))], values)
    assert weights[0] == pytest.approx(weights[1], rel=0.05) and 0.6 < weights.sum() < 1.1 and weights[2] < 0.1


def test_numbers_that_are_all_the_same_and_counts():
    zeros = [np.zeros((5, 1))] * 2
    assert np.isfinite(number_weights(zeros, np.zeros(5))).all()
    tables, values = some_numbers(1)
    twice = [np.concatenate([table, table[:10]]) for table in tables]
    counts = np.where(np.arange(30) < 10, 2.0, 1.0)
    found = fitted_number_weights(tables, values, counts)[1]
    expected = fitted_number_weights(twice, np.concatenate([values, values[:10]]))[1]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_marks_are_pooled_as_pairs_of_two():
    rng = np.random.default_rng(0)
    tables = [rng.uniform(0.05, 0.95, (6, 3)) for _ in range(2)]
    marks, weights = rng.integers(2, size=(6, 3)), [0.7, 0.6]
    pairs = [np.stack([1 - one.ravel(), one.ravel()], axis=1) for one in tables]
    np.testing.assert_allclose(pooled_marks(tables, weights).ravel(), pooled(pairs, weights)[:, 1])
    np.testing.assert_allclose(mark_weights(tables, marks), pool_weights(pairs, marks.ravel()))
