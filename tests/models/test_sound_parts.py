"""Forged estimators in a model file are refused before compiled code follows them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kinfolk.errors import ModelFileError
from kinfolk.models.sound_parts import check_sound
from kinfolk.models.stacked_files import _dumps, _loads

ROWS = np.random.default_rng(0).normal(size=(60, 3))
LABELS = np.arange(60) % 3


@pytest.mark.parametrize(
    "base",
    [
        HistGradientBoostingClassifier(max_iter=2),
        RandomForestClassifier(3, random_state=0),
        make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0)),
        KNeighborsClassifier(algorithm="brute"),
    ],
    ids=repr,
)
def test_sound_ones_are_themselves_again(base: Any):
    rows = sparse.csr_array(ROWS) if isinstance(base, KNeighborsClassifier) else ROWS
    fitted = base.fit(rows, LABELS)
    again = _loads(_dumps(fitted), ())
    np.testing.assert_array_equal(again.predict_proba(rows), fitted.predict_proba(rows))


@pytest.mark.parametrize(("field", "value"), [("left", 10_000), ("right", 0), ("left", 1 << 30)])
def test_boosted_trees_that_point_astray(field: str, value: int):
    model = HistGradientBoostingClassifier(max_iter=1).fit(ROWS, LABELS)
    nodes = model._predictors[0][0].nodes
    nodes[field][np.flatnonzero(nodes["is_leaf"] == 0)[0]] = value
    with pytest.raises(ModelFileError, match="a tree points outside itself"):
        _loads(_dumps(model), ())


@pytest.mark.parametrize(("field", "value"), [("left_child", 9999), ("right_child", 0), ("feature", 77)])
def test_trees_that_point_astray(field: str, value: int):
    forest = RandomForestClassifier(2, random_state=0).fit(ROWS, LABELS)
    tree = forest.estimators_[1].tree_
    state = tree.__getstate__()
    state["nodes"][field][0] = value
    tree.__setstate__(state)
    with pytest.raises(ModelFileError, match=r"a tree points outside itself|a feature that is not there"):
        check_sound(forest)


def test_sparse_matrices_that_point_astray():
    model = KNeighborsClassifier(algorithm="brute").fit(sparse.csr_array(ROWS), LABELS)
    model._fit_X.indices[0] = 500
    with pytest.raises(ModelFileError, match="a sparse matrix in the base is broken"):
        check_sound(model)
