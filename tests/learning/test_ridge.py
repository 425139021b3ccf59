"""Ridge and logistic regressions over blocks, beside those of scikit-learn over one table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as Peer

from kinfolk.learning.logistic import Logistic
from kinfolk.learning.ridge import STRENGTHS, Ridge


def blocks(seed: int = 0, n: int = 150) -> tuple[list[Any], Any]:
    """A dense one of single precision beside a sparse one; and all as one table."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, 5)).astype(np.float32) + 3
    words = sparse.csr_array((rng.random((n, 8)) < 0.2).astype(float))
    return [table, words], np.concatenate([table, words.todense()], axis=1)


@pytest.mark.parametrize("c", [0.01, 0.5, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_beside_scikit_learn(c: float, weighted: bool):
    given, table = blocks()
    rng = np.random.default_rng(1)
    y, counts = table @ rng.normal(size=13) + rng.normal(size=150), rng.random(150) if weighted else None
    found, peer = Ridge.fit(given, y, c, counts), Peer(1 / c).fit(table, y, sample_weight=counts)
    np.testing.assert_allclose(found.weights[:, 0], peer.coef_, atol=2e-3)
    np.testing.assert_allclose(found.predict(given)[:, 0], peer.predict(table), atol=2e-3)


def test_the_strength_is_chosen_by_rows_held_back():
    """Strong where nothing is to be learned, weak where all is; and then it is that ridge."""
    given, table = blocks()
    rng = np.random.default_rng(2)
    clear, shrunk = table @ rng.normal(size=13), []
    for noise in rng.normal(size=(8, 150)):
        free, found = Ridge.fit(given, noise, STRENGTHS[-1]), Ridge.chosen(given, noise, 1.0)
        shrunk.append(np.linalg.norm(found.weights) / np.linalg.norm(free.weights))
        peers = [Peer(1 / c).fit(table, noise).coef_ for c in STRENGTHS]
        assert min(np.abs(found.weights[:, 0] - peer).max() for peer in peers) < 2e-3
    assert np.mean(shrunk) < 0.5
    np.testing.assert_allclose(Ridge.chosen(given, clear, 1.0).predict(given)[:, 0], clear, atol=0.2)
    again = Ridge.chosen(given, clear, 1.0)
    np.testing.assert_array_equal(again.weights, Ridge.chosen(given, clear, 1.0).weights)


def test_nothing_to_go_by():
    empty = [np.zeros((4, 0), np.float32)]
    found = Ridge.chosen(empty, np.array([1.0, 2.0, 3.0, 6.0]), 1.0).predict(empty)
    np.testing.assert_allclose(found[:, 0], 3.0)
    marks = np.array([[1, 0], [0, 0], [0, 0], [0, 0]])
    np.testing.assert_allclose(Logistic.fit(empty, marks, 1.0).proba(empty)[0], [0.25, 0.1], atol=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_logistic_beside_scikit_learn(weighted: bool):
    given, table = blocks()
    rng = np.random.default_rng(3)
    score = table @ rng.normal(size=(13, 3)) + rng.normal(size=(150, 3))
    marks = (score > np.median(score, axis=0)).astype(int)
    marks[:, 2] = 1  # told with certainty, or nearly
    counts = rng.random(150) + 0.1 if weighted else None
    found = Logistic.fit(given, marks, 0.5, counts).proba(given)
    for k in range(2):
        peer = LogisticRegression(C=0.5, max_iter=1000, tol=1e-6).fit(table, marks[:, k], sample_weight=counts)
        np.testing.assert_allclose(found[:, k], peer.predict_proba(table)[:, 1], atol=0.02)
    assert len({*found[:, 2]}) == 1 and 0.99 < found[0, 2] < 1


def test_few_rows_have_the_middle_of_the_strengths():
    given, table = blocks(n=9)
    y = table @ np.arange(13.0)
    found, peer = Ridge.chosen(given, y, 2.0), Ridge.fit(given, y, 2.0 * STRENGTHS[len(STRENGTHS) // 2])
    np.testing.assert_array_equal(found.weights, peer.weights)
    found = Ridge.chosen(given, y, 2.0, strengths=(4.0, 0.25, 1.0))
    np.testing.assert_array_equal(found.weights, Ridge.fit(given, y, 0.5).weights)
