"""Any scikit-learn classifier behind one face: what it takes, what it says, in which order of classes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kinfolk.core.data import Classes
from kinfolk.errors import ModelFileError, SettingError
from kinfolk.graph.learners import (
    BINS,
    Learner,
    _check_children,
    in_few_values,
    restored_learner,
    takes_missing,
)

ROWS = np.random.default_rng(0).normal(size=(40, 3))
THREE = np.arange(40) % 3


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_log_linear_base_says_what_scikit_learn_says(n_classes: int, kind: Any):
    """Also of classes that are some of all there are: others have probability 0."""
    columns = np.array([0, 2, 3])[:n_classes]
    labels = columns[np.arange(40) % n_classes]
    rows = ROWS + 2 * labels[:, None] + 1  # so that the intercept is far from 0
    model = LogisticRegression().fit(rows, labels)
    assert abs(model.intercept_).min() > 0.1
    found = Learner.restored(model, columns, 5).log_linear(kind(rows), np.arange(40))
    np.testing.assert_allclose(found[:, columns], model.predict_proba(rows), atol=1e-12)
    np.testing.assert_array_equal(np.delete(found, columns, axis=1), 0)


@pytest.mark.parametrize(("base", "dense"), [(GaussianNB(), True), (LogisticRegression(), False)], ids=repr)
def test_sparse_rows_are_made_dense_for_those_alone_that_need_it(base: Any, dense: bool):
    learner = Learner.restored(base.fit(ROWS, THREE), np.arange(3), 3)
    assert learner.fills_in == dense
    np.testing.assert_allclose(learner.proba(sparse.csr_array(ROWS)), base.predict_proba(ROWS), atol=1e-12)
    assert not Learner.restored(None, np.array([1]), 3).fills_in


def test_missing_values_are_for_bases_that_say_so():
    assert takes_missing(HistGradientBoostingClassifier())
    assert takes_missing(make_pipeline(HistGradientBoostingClassifier()))
    assert not takes_missing(LogisticRegression())
    assert not takes_missing(make_pipeline(LogisticRegression(), HistGradientBoostingClassifier()))
    assert takes_missing(make_pipeline(StandardScaler(), LogisticRegression()))  # as its first step does
    assert not takes_missing(object())


@pytest.mark.parametrize("weights", [{"a": 2.0, "b": 1.0}, {0: 2.0, 1: 1.0}], ids=["labels", "codes"])
def test_weights_of_classes_go_by_label_or_by_code(weights: dict[Any, float]):
    learner = Learner(RandomForestClassifier(class_weight=weights), Classes.of(["a", "b"]))
    assert learner.estimator.class_weight == {0: 2.0, 1: 1.0}


def test_weights_of_numbers_go_by_label():
    learner = Learner(RandomForestClassifier(class_weight={10: 2.0, 20: 1.0}), Classes.of([10, 20]))
    assert learner.estimator.class_weight == {0: 2.0, 1: 1.0}
    with pytest.raises(SettingError, match="class_weight names 0, which is no label"):
        Learner(RandomForestClassifier(class_weight={0: 2.0}), Classes.of([10, 20]))


@pytest.mark.parametrize("n_values", [1, BINS - 1, BINS, BINS + 1, 3 * BINS])
def test_columns_of_few_values_stay_and_others_become_so(n_values: int):
    column = np.repeat(np.random.default_rng(1).permutation(n_values), 2)[:, None] / 7.0
    found = in_few_values(column)
    assert len(np.unique(found)) <= BINS and np.isin(found, column).all()
    if n_values <= BINS:
        np.testing.assert_array_equal(found, column)
    order = np.argsort(column[:, 0])
    assert (np.diff(found[order, 0]) >= 0).all()


@pytest.mark.parametrize("columns", [[3], [-1], [], [[0]], [0, 1]])
def test_a_single_class_of_a_file_has_to_be_there(columns: Any):
    """Without an estimator there is one class, and a number below that of classes."""
    file: Any = SimpleNamespace(arrays={"level.0.columns": np.array(columns, np.int64)})
    with pytest.raises(ModelFileError):
        restored_learner(file, 0, 3, ())


def test_every_class_of_a_file_may_be_the_single_one():
    for k in range(3):
        file: Any = SimpleNamespace(arrays={"level.0.columns": np.array([k])})
        np.testing.assert_array_equal(restored_learner(file, 0, 3, ()).columns, [k])


def test_no_node_of_a_tree_is_its_own_child():
    """Its ways down would not end, though every node but the first is the child of one."""
    left, right = np.array([2, 1, -1, -1, -1]), np.array([3, 4, -1, -1, -1])
    with pytest.raises(ModelFileError, match="a tree points outside itself"):
        _check_children(left, right, np.array([0, 1]), 5)
    left, right = np.array([1, 3, -1, -1, -1]), np.array([2, 4, -1, -1, -1])
    _check_children(left, right, np.array([0, 1]), 5)  # a sound one
