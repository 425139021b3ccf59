"""The objective of pair decisions beside the definition, its gradient and curvature beside finite differences."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import linkage_oracle as oracle
from kinfolk.linking import objective as pairs
from kinfolk.linking.objective import FORMS, Bias, PairObjective, Tilt, grouped_scores, row_scores
from kinfolk.linking.pair_table import GroupedRows

EXAMPLES = settings(max_examples=60, deadline=None)
L2 = 0.7


class Decisions(NamedTuple):
    """Rows of weights that are on, one a column, with labels and bias; pairs repeat rows."""

    widths: list[int]
    index: np.ndarray  # (pairs, columns)
    labels: np.ndarray
    biased: np.ndarray
    weights: np.ndarray
    beta: float

    @property
    def features(self):
        """0/1 features, as the oracle takes them."""
        table = np.zeros((len(self.index), len(self.weights)))
        for row, on in zip(table, self.index, strict=True):
            row[on] = 1
        return table


@st.composite
def problems(draw, max_pairs=8):
    widths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    n = draw(st.integers(0, max_pairs))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    starts = np.concatenate([[0], np.cumsum(widths)])
    index = np.stack([rng.integers(a, b, n) for a, b in itertools.pairwise(starts)], axis=1)
    labels = rng.integers(2, size=n)
    biased = (rng.random(n) < 0.5) & (labels == 1)
    weights = draw(st.sampled_from([0.0, 1.0, 4.0])) * rng.normal(size=starts[-1])
    return Decisions(widths, index.astype(np.int32), labels, biased, weights, float(rng.choice([0.4, 1.0, 1.5, 3.0])))


def made(problem, tilt, n_jobs=1, grouped=True, l2=L2):
    """The objective over distinct rows with counts, or with a row a pair."""
    if grouped and len(problem.index):
        rows, row = np.unique(problem.index, axis=0, return_inverse=True)
        row = row.reshape(-1)
    else:
        rows, row = problem.index, np.arange(len(problem.index))

    def count(chosen):
        return np.bincount(row, chosen.astype(float), minlength=len(rows))

    linked = problem.labels == 1
    grouped = GroupedRows.of(np.ascontiguousarray(rows, np.int32), len(problem.weights))
    accepted, biased = count(linked & ~problem.biased), count(linked & problem.biased)
    return PairObjective(grouped, count(~linked), accepted, biased, tilt, l2, n_jobs)


def value(objective, weights):
    gradient = np.full(len(weights), np.nan)
    return objective(np.asarray(weights, float), gradient), gradient


def expected(problem, form):
    told = problem.features, problem.labels, problem.biased, problem.beta
    return oracle.biased_objective(problem.weights, *told, form, L2)


@pytest.mark.parametrize("form", FORMS)
@EXAMPLES
@given(problem=problems())
def test_the_loss_of_every_form_of_bias(problem, form):
    tilt = Bias(factor=problem.beta, form=form).tilt
    for grouped in (True, False):
        assert value(made(problem, tilt, grouped=grouped), problem.weights)[0] == pytest.approx(expected(problem, form))


@EXAMPLES
@given(problem=problems())
def test_a_factor_on_both_labels_cancels(problem):
    assert value(made(problem, Tilt()), problem.weights)[0] == pytest.approx(expected(problem, "both"))


@pytest.mark.parametrize("form", FORMS)
@EXAMPLES
@given(problem=problems())
def test_gradient_and_curvature(problem, form):
    objective = made(problem, Bias(factor=problem.beta, form=form).tilt)
    _, gradient = value(objective, problem.weights)
    curvature = 1 / objective.inverse_curvature()
    step = 1e-5
    for k in range(len(gradient)):
        ends = [problem.weights + sign * step * (np.arange(len(gradient)) == k) for sign in (1, -1)]
        (up, up_slope), (down, down_slope) = (value(objective, end) for end in ends)
        assert gradient[k] == pytest.approx((up - down) / (2 * step), abs=1e-6, rel=1e-6)
        assert curvature[k] == pytest.approx((up_slope[k] - down_slope[k]) / (2 * step), abs=1e-5, rel=1e-5)


@EXAMPLES
@given(problem=problems())
def test_counts_are_repetition(problem):
    tilt = Bias(factor=problem.beta, form="margin").tilt
    one, all_rows = (value(made(problem, tilt, grouped=grouped), problem.weights) for grouped in (True, False))
    assert one[0] == pytest.approx(all_rows[0])
    np.testing.assert_allclose(one[1], all_rows[1], atol=1e-12)


def test_threads_change_nothing(monkeypatch):
    monkeypatch.setattr(pairs, "ROWS", 64)
    rng = np.random.default_rng(0)
    n, width = 1000, 5
    index = (rng.integers(0, 7, (n, width)) + 7 * np.arange(width)).astype(np.int32)
    counts = rng.integers(0, 3, (3, n)).astype(float)
    weights = rng.normal(size=7 * width)
    told = []
    for n_jobs, limit in ((1, 20), (2, 20), (3, 20)):
        objective = PairObjective(GroupedRows.of(index, 7 * width, limit), *counts, Tilt(1.5, 2.0, 0.3), L2, n_jobs)
        loss, gradient = value(objective, weights)
        told.append((loss, *gradient, *objective.inverse_curvature(), *row_scores(weights, index, n_jobs)))
    assert told[0] == told[1] == told[2]
    np.testing.assert_allclose(told[0][-n:], weights[index].sum(axis=1))


@pytest.mark.parametrize("limit", [1, 7, 60, 10_000])
def test_groups_of_columns_are_the_rows_again(limit: int):
    rng = np.random.default_rng(1)
    index = (rng.integers(0, 7, (300, 6)) + 7 * np.arange(6)).astype(np.int32)
    rows = GroupedRows.of(index, 50, limit)
    assert rows.n_rows == 300 and all(len(on) <= max(limit, 7) for on in rows.weights_on)
    again = np.concatenate([on[ids] for on, ids in zip(rows.weights_on, rows.ids, strict=True)], axis=1)
    np.testing.assert_array_equal(again, index)
    weights, values = rng.normal(size=50), rng.normal(size=300)
    np.testing.assert_allclose(grouped_scores(weights, rows), weights[index].sum(axis=1))
    by_entry = np.concatenate(
        [np.bincount(ids, values, len(on)) for on, ids in zip(rows.weights_on, rows.ids, strict=True)]
    )
    expected = np.zeros(50)
    np.add.at(expected, index, values[:, None])
    np.testing.assert_allclose(rows.spread(by_entry), expected, atol=1e-12)


def test_no_rows():
    problem = Decisions([2], np.empty((0, 1), np.int32), np.empty(0, int), np.empty(0, bool), np.array([1.0, -2.0]), 1)
    objective = made(problem, Tilt())
    loss, gradient = value(objective, problem.weights)
    assert loss == pytest.approx(0.5 * L2 * 5) and gradient.tolist() == pytest.approx([L2, -2 * L2])
    np.testing.assert_allclose(objective.inverse_curvature(), 1 / L2)
    assert row_scores(problem.weights, problem.index).shape == (0,)


def test_certain_rows_overflow_nothing():
    index = np.array([[0], [1]], np.int32)
    objective = PairObjective(GroupedRows.of(index, 2), np.ones(2), np.ones(2), np.ones(2), Tilt(1.5, 1.0, -0.4), 0.0)
    loss, gradient = value(objective, [800.0, -900.0])
    assert loss == pytest.approx(800 + 900 + 1.5 * 900.4)
    assert gradient == pytest.approx([1.0, -1 - 1.5])
    assert np.isfinite(objective.inverse_curvature()).all()


def test_the_closest_true_pairs_are_biased():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(0, 7))
        entity = rng.integers(0, 3, n)
        told = [(i, j) for j in range(n) for i in range(j) if rng.random() < 0.7]
        left, right = np.array(told, np.int32).reshape(-1, 2).T
        truth = (entity[left] == entity[right]).astype(np.int8)
        found = Bias("closest").biased(right, truth)
        assert tuple(found.astype(int)) == oracle.closest_coreferent(left, right, truth)
        np.testing.assert_array_equal(Bias("all").biased(right, truth), truth == 1)


def test_tilts():
    assert Bias(factor=2.0).tilt == Tilt(weight=2.0)
    assert Bias(factor=2.0, form="exponent").tilt == Tilt(scale=2.0)
    assert Bias(factor=2.0, form="margin").tilt == Tilt(shift=-math.log(2))
    assert Bias(factor=2.0, form="factor").tilt == Tilt(shift=math.log(2))
    for form in FORMS:
        assert Bias(factor=1, form=form).tilt == Tilt()


@given(problem=problems(), variance=st.sampled_from([0.5, 1.0, 4.0]))
@settings(max_examples=20)
def test_a_prior_on_the_weights_of_both_labels_is_half_a_ridge_on_log_odds(problem, variance):
    """Mallet's objective, two weights a feature, is least at -w/2 and w/2, with the w of l2 = 1 / (2 variance)."""
    scores = lambda own: problem.features @ own  # noqa: E731
    n = len(problem.weights)

    def both_labels(flat):
        table = np.stack([scores(flat[:n]), scores(flat[n:])], axis=1)
        picked = table[np.arange(len(table)), problem.labels]
        return np.logaddexp.reduce(table, axis=1).sum() - picked.sum() + flat @ flat / (2 * variance)

    plain = problem._replace(biased=np.zeros(len(problem.labels), bool))
    objective = made(plain, Bias(factor=1.0).tilt, l2=1 / (2 * variance))
    w = optimize.minimize(lambda own: value(objective, own), np.zeros(n), jac=True, method="BFGS", tol=1e-9).x
    two = optimize.minimize(both_labels, np.zeros(2 * n), method="BFGS", tol=1e-9).x
    np.testing.assert_allclose(two[n:] - two[:n], w, atol=1e-4)
    assert both_labels(np.concatenate([-w / 2, w / 2])) == pytest.approx(value(objective, w)[0])
