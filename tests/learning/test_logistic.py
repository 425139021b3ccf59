"""Several labels at once: each the logistic regression that scikit-learn learns of it alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from kinfolk.learning.logistic import Logistic


def world(seed: int = 0, n: int = 60):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, 5))
    marks = (table @ rng.normal(size=(5, 3)) + rng.normal(0, 0.5, (n, 3)) + [0.0, 1.0, -1.0] > 0).astype(float)
    return table, marks, rng.integers(1, 4, n).astype(float)


@pytest.mark.parametrize("c", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("counted", [False, True])
def test_each_label_is_learned_as_scikit_learn_learns_it(c: float, counted: bool):
    table, marks, counts = world()
    blocks = [table[:, :2], sparse.csr_array(table[:, 2:])]
    found = Logistic.fit(blocks, marks, c, counts if counted else None)
    for k in range(3):
        alone = LogisticRegression(C=c, tol=1e-8, max_iter=1000).fit(table, marks[:, k], counts if counted else None)
        np.testing.assert_allclose(found.weights[:, k], alone.coef_[0], atol=0.02 * c**0.5)
        np.testing.assert_allclose(found.bias[k], alone.intercept_[0], atol=0.02 * c**0.5)
        np.testing.assert_allclose(found.proba(blocks)[:, k], alone.predict_proba(table)[:, 1], atol=5e-3)


def test_a_label_that_all_or_none_have_is_told_with_a_share_that_is_nearly_so():
    table, marks, _ = world()
    marks[:, 0], marks[:, 2] = 1.0, 0.0
    found = Logistic.fit([table], marks, 1.0).proba([table])
    np.testing.assert_allclose(found[:, 0], 60.5 / 61)
    np.testing.assert_allclose(found[:, 2], 0.5 / 61)
