"""Forged estimators in a model file are refused before compiled code follows them.

Where a change would end the process, the attempt is made in a process of its own.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.semi_supervised import LabelPropagation
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from skops.io import dumps

import kinfolk as kf
from kinfolk.errors import ModelFileError, UntrustedError
from kinfolk.graph.learners import built, types_to_trust

ROWS = np.abs(np.random.default_rng(0).normal(size=(60, 3))).astype(np.float32)
LABELS = np.arange(60) % 3
TWO = LABELS % 2

LOGISTIC = LogisticRegression()
KNOWN = [
    LOGISTIC, LogisticRegressionCV(Cs=2, cv=2), RidgeClassifier(),
    SGDClassifier(loss="log_loss", random_state=0), Perceptron(random_state=0), LinearSVC(),
    GaussianNB(), MultinomialNB(), ComplementNB(), BernoulliNB(), CategoricalNB(), LinearDiscriminantAnalysis(),
    QuadraticDiscriminantAnalysis(), DummyClassifier(), MLPClassifier((4,), max_iter=200, tol=1, random_state=0),
    DecisionTreeClassifier(random_state=0), ExtraTreeClassifier(random_state=0),
    HistGradientBoostingClassifier(max_iter=2), RandomForestClassifier(3, random_state=0),
    ExtraTreesClassifier(3, random_state=np.random.RandomState(0)),
    GradientBoostingClassifier(n_estimators=2), GradientBoostingClassifier(n_estimators=2, init="zero"),
    GradientBoostingClassifier(n_estimators=2, loss="log_loss"), AdaBoostClassifier(n_estimators=2, random_state=0),
    BaggingClassifier(n_estimators=2, random_state=0), VotingClassifier([("a", LOGISTIC)], voting="soft"),
    StackingClassifier([("a", LOGISTIC)], cv=2), OneVsRestClassifier(LOGISTIC), OneVsOneClassifier(LOGISTIC),
    KNeighborsClassifier(algorithm="brute"), KNeighborsClassifier(3, algorithm="brute", weights="distance", p=1),
    SVC(), SVC(kernel="linear", class_weight="balanced"), NuSVC(nu=0.3),
    *(make_pipeline(step, LOGISTIC) for step in (
        StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler(), Normalizer(), PowerTransformer(),
        QuantileTransformer(n_quantiles=9), FunctionTransformer(np.log1p), SelectKBest(k=2), SelectFromModel(LOGISTIC),
        SimpleImputer(), VarianceThreshold(), PCA(2), TruncatedSVD(2), make_union(StandardScaler(), PCA(1)),
        ColumnTransformer([("a", StandardScaler(), [0, 1])], remainder="passthrough"),
    )),
]  # fmt: skip


def asked(model: Any, rows: Any) -> Any:
    return model.predict_proba(rows) if hasattr(model, "predict_proba") else model.decision_function(rows)


@pytest.mark.parametrize("base", KNOWN, ids=lambda base: re.sub(r" at 0x\w+", "", " ".join(repr(base).split())))
@pytest.mark.parametrize("labels", [LABELS, TWO], ids=["three classes", "two"])
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of defaults that scikit-learn is to change
def test_whole_ones_are_themselves_again(base: Any, labels: Any):
    fitted = clone(base).fit(ROWS, labels)
    np.testing.assert_array_equal(asked(built(dumps(fitted), ()), ROWS), asked(fitted, ROWS))
    assert types_to_trust(dumps(fitted)) == []


@pytest.mark.parametrize(
    "base",
    [SVC(), NuSVC(nu=0.3), KNeighborsClassifier(algorithm="brute"), RandomForestClassifier(3, random_state=0),
     GradientBoostingClassifier(n_estimators=2), make_pipeline(MaxAbsScaler(), SGDClassifier(random_state=0))],
    ids=repr,
)  # fmt: skip
def test_whole_ones_over_sparse_rows_are_themselves_again(base: Any):
    rows = sparse.csr_array(ROWS)
    fitted = base.fit(rows, LABELS)
    np.testing.assert_array_equal(asked(built(dumps(fitted), ()), rows), asked(fitted, rows))


UNCHECKED = [
    (LabelPropagation(), "sklearn.semi_supervised._label_propagation.LabelPropagation"),
    (SVC(kernel="precomputed"), "sklearn.svm._classes.SVC"),
    (
        KNeighborsClassifier(algorithm="brute", metric="canberra"),
        "sklearn.neighbors._classification.KNeighborsClassifier",
    ),
    (GradientBoostingClassifier(n_estimators=1, init=LOGISTIC), "sklearn.ensemble._gb.GradientBoostingClassifier"),
]  # fmt: skip


@pytest.mark.parametrize(("base", "name"), UNCHECKED, ids=[type(base).__name__ for base, _ in UNCHECKED])
def test_what_is_not_checked_has_to_be_trusted_by_name(base: Any, name: str):
    rows = ROWS @ ROWS.T
    data = dumps(base.fit(rows, LABELS))
    with pytest.raises(UntrustedError, match=rf"not known to be safe: {name}\..*trusted=\['{name}'\]"):
        built(data, ())
    assert types_to_trust(data) == [name]
    np.testing.assert_array_equal(asked(built(data, [name]), rows), asked(base, rows))


def test_boosting_over_categories_has_to_be_trusted_by_name():
    rows = np.column_stack([LABELS, ROWS]).astype(np.float64)
    model = HistGradientBoostingClassifier(max_iter=1, categorical_features=[0]).fit(rows, LABELS)
    own = f"{type(model).__module__}.HistGradientBoostingClassifier"
    with pytest.raises(UntrustedError, match="OrdinalEncoder"):
        built(dumps(model), ())
    names = types_to_trust(dumps(model))
    with pytest.raises(UntrustedError, match=f"categorical features, which is not known to be safe: {own}"):
        built(dumps(model), [name for name in names if name != own])
    again = built(dumps(model), names)
    np.testing.assert_array_equal(asked(again, rows), asked(model, rows))


# -- changes that compiled code would follow ----------------------------------------------------------


def forged(data: bytes, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> bytes:
    """With another schema or other members."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(parts["schema.json"])
    change(schema, parts)
    parts["schema.json"] = json.dumps(schema).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def found(schema: Any, loader: str) -> list[dict[str, Any]]:
    """All nodes of a kind."""
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else []
    own = [schema] if isinstance(schema, dict) and schema.get("__loader__") == loader else []
    return own + [one for part in inner for one in found(part, loader)]


def members_swapped(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
    """The nodes of a tree and the number of classes: NumPy makes no number of records, and ends the process."""
    nodes = found(schema, "TreeNode")[0]["content"]["content"]["nodes"]["file"]
    number = next(one["file"] for one in found(schema, "NdArrayNode") if one["__class__"] == "int64")
    parts[nodes], parts[number] = parts[number], parts[nodes]


def tree_told(part: str, value: Any) -> Callable[[dict[str, Any], dict[str, bytes]], None]:
    """Another number in the state of a tree, or in what it is made of."""

    def change(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
        for number, tree in enumerate(found(schema, "TreeNode")):
            made_of = dict(zip(("features", "classes", "outputs"), tree["__reduce__"]["args"]["content"], strict=True))
            node = made_of[part] if part in made_of else tree["content"]["content"][part]
            node.update(content=json.dumps(value), __id__=-1 - number)

    return change


def other_nodes(field: str, value: int) -> Callable[[dict[str, Any], dict[str, bytes]], None]:
    def change(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
        file = found(schema, "TreeNode")[0]["content"]["content"]["nodes"]["file"]
        nodes = np.load(io.BytesIO(parts[file]))
        nodes[field][0] = value
        np.save(out := io.BytesIO(), nodes)
        parts[file] = out.getvalue()

    return change


FOREST = dumps(RandomForestClassifier(2, random_state=0).fit(ROWS, LABELS))
TREES = {
    "members swapped": members_swapped,
    "no node": tree_told("node_count", 0),
    "more nodes": tree_told("node_count", 10**6),
    "more outputs": tree_told("outputs", 10**6),
    "fewer features": tree_told("features", 1),
    "less deep": tree_told("max_depth", 0),
    "a child that is not there": other_nodes("left_child", 9999),
    "a way without end": other_nodes("right_child", 0),
    "a child twice": other_nodes("right_child", 1),
    "a feature that is not there": other_nodes("feature", 77),
    "one feature too many": other_nodes("feature", ROWS.shape[1]),
    "a feature below 0": other_nodes("feature", -1),
}


def in_its_own_process(*programs: str) -> list[str]:
    """What is said of each file that is refused; fails if the process ends otherwise."""
    lines = ["from kinfolk.errors import ModelFileError"]
    for program in programs:
        lines += ["try:", f"    {program}", "except ModelFileError as error:", "    print(error, flush=True)"]
    ran = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr or f"ended by signal {-ran.returncode} after: {ran.stdout}"
    return ran.stdout.splitlines()


def test_a_tree_is_no_deeper_than_it_says():
    """By one level is too much: compiled code walks as far as it was told."""
    model = DecisionTreeClassifier(random_state=0).fit(ROWS, LABELS)
    depth = model.tree_.max_depth
    built(forged(dumps(model), tree_told("max_depth", depth)), ())
    with pytest.raises(ModelFileError, match="a tree is deeper than it says"):
        built(forged(dumps(model), tree_told("max_depth", depth - 1)), ())


def test_a_tree_has_values_for_its_classes():
    def fewer(schema: dict[str, Any], parts: dict[str, bytes]) -> None:
        file = found(schema, "TreeNode")[0]["content"]["content"]["values"]["file"]
        np.save(out := io.BytesIO(), np.load(io.BytesIO(parts[file]))[:, :, :2].copy())
        parts[file] = out.getvalue()

    model = DecisionTreeClassifier(random_state=0).fit(ROWS, LABELS)
    with pytest.raises(ModelFileError, match="a tree has values for other nodes"):
        built(forged(dumps(model), fewer), ())


def test_trees_that_lead_astray_are_not_built(tmp_path: Path):
    programs = []
    for i, change in enumerate(TREES.values()):
        (path := tmp_path / str(i)).write_bytes(forged(FOREST, change))
        programs.append(
            f"import pathlib, kinfolk.graph.learners as s; s.built(pathlib.Path({str(path)!r}).read_bytes(), ())"
        )
    told = dict(zip(TREES, in_its_own_process(*programs), strict=True))
    assert all("the file was altered or is broken" in one for one in told.values()), told


def put(model: Any, path: str, change: Callable[[Any], Any]) -> None:
    """Another attribute "a.0.b": b of the first of a, changed."""
    *outer, name = path.split(".")
    for step in outer:
        model = model[int(step)] if step.isdigit() else getattr(model, step)
    setattr(model, name, change(getattr(model, name, None)))


def flat(array: Any, value: Any) -> Any:
    """The first number of an array is another."""
    changed = array.copy()
    changed[(0,) * changed.ndim] = value
    return changed


BOOSTING, HIST = GradientBoostingClassifier(n_estimators=2, max_depth=1), HistGradientBoostingClassifier(max_iter=2)
NEAREST, LIBSVM = KNeighborsClassifier(algorithm="brute"), SVC()
CHANGES: list[tuple[Any, str, Callable[[Any], Any]]] = [
    (BOOSTING, "estimators_", lambda stages: np.hstack([stages] * 30)),
    (BOOSTING, "estimators_", lambda stages: stages[:, :1]),
    (BOOSTING, "init_.class_prior_", lambda prior: prior[:2]),
    (BOOSTING, "init_._strategy", lambda strategy: "uniform"),
    (BOOSTING, "n_features_in_", lambda width: 2),
    (BOOSTING, "estimators_.1.0.tree_", lambda tree: None),
    (HIST, "n_features_in_", lambda width: None),
    (HIST, "n_features_in_", lambda width: 1),
    (HIST, "_in_fit", lambda _: True),
    (HIST, "_predictors.0.0.nodes", lambda nodes: nodes[:1]),
    (HIST, "_bin_mapper.is_categorical_", lambda flags: ~flags),
    (NEAREST, "_y", lambda classes: classes[:5]),
    (NEAREST, "_y", lambda classes: flat(classes, 10**6)),
    (NEAREST, "_fit_X", lambda rows: rows[:, :1]),
    (NEAREST, "n_neighbors", lambda number: 10**6),
    (NEAREST, "classes_", lambda classes: classes[:1]),
    (LIBSVM, "_n_support", lambda counts: np.r_[counts, np.zeros(3000, np.int32)]),
    (LIBSVM, "_n_support", lambda counts: counts * 1000),
    (LIBSVM, "_n_support", lambda counts: flat(counts, -5)),
    (LIBSVM, "_n_support", lambda counts: np.array([-1, counts.sum() + 1 - counts[2], counts[2]], np.int32)),
    (LIBSVM, "_dual_coef_", lambda numbers: numbers[:1]),
    (LIBSVM, "_intercept_", lambda numbers: numbers[:1]),
    (LIBSVM, "support_vectors_", lambda vectors: vectors[:, :1].copy()),
    (LIBSVM, "_probA", lambda numbers: np.zeros(1)),
    (LIBSVM, "_sparse", lambda _: True),
    (LOGISTIC, "coef_", lambda numbers: numbers[:, :1]),
    (LOGISTIC, "intercept_", lambda numbers: numbers[:1]),
    (LOGISTIC, "n_features_in_", lambda width: 10**6),
    (LOGISTIC, "decision_function", lambda method: np.add),
    (GaussianNB(), "theta_", lambda numbers: np.zeros(3, [("a", "f8"), ("b", "i4")])),
    (RandomForestClassifier(2), "_validate_X_predict", lambda method: np.positive),
    (RandomForestClassifier(2), "estimators_.0.n_features_in_", lambda width: 2),
    (ExtraTreesClassifier(2), "estimators_.1.tree_", lambda tree: None),
]  # fmt: skip


@pytest.mark.parametrize(("base", "path", "change"), CHANGES, ids=[f"{type(b).__name__}.{p}" for b, p, _ in CHANGES])
def test_estimators_whose_parts_do_not_fit_are_refused(base: Any, path: str, change: Callable[[Any], Any]):
    model = clone(base).fit(ROWS, LABELS)
    put(model, path, change)
    with pytest.raises(ModelFileError, match=r"the file was altered or is broken|not known to be safe"):
        built(dumps(model), ())


@pytest.mark.parametrize("path", ["probability", "_effective_probability", "_n_support", "_dual_coef_"])
def test_support_vectors_over_sparse_rows_that_do_not_fit_are_refused(path: str):
    model = SVC().fit(sparse.csr_array(ROWS), LABELS)
    put(model, path, lambda found: True if "probability" in path else found[:1])
    with pytest.raises(ModelFileError, match="the file was altered or is broken"):
        built(dumps(model), ())


@pytest.mark.parametrize(("field", "value"), [("left", 10_000), ("right", 0), ("left", 1 << 30), ("feature_idx", 3)])
def test_boosted_trees_that_point_astray(field: str, value: int):
    model = HistGradientBoostingClassifier(max_iter=1).fit(ROWS, LABELS)
    nodes = model._predictors[0][0].nodes
    nodes[field][np.flatnonzero(nodes["is_leaf"] == 0)[0]] = value
    with pytest.raises(ModelFileError, match=r"a tree points outside itself|a feature that is not there"):
        built(dumps(model), ())


def test_sparse_matrices_that_point_astray():
    model = KNeighborsClassifier(algorithm="brute").fit(sparse.csr_array(ROWS), LABELS)
    model._fit_X.indices[0] = 500
    with pytest.raises(ModelFileError, match="a sparse matrix in the base is broken"):
        built(dumps(model), ())


# -- the same in whole model files, with the right checksum -------------------------------------------

GRAPH = kf.Graph(ROWS, [f"c{y}" for y in LABELS], {"r": [(i, (i + 3) % 60) for i in range(60)]})
ATTACKS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "too many columns of stages": (BOOSTING, "estimators_", lambda stages: np.hstack([stages] * 30)),
    "counts of support vectors": (LIBSVM, "_n_support", lambda counts: np.r_[counts, np.zeros(3000, np.int32)]),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_forged_model_file_ends_in_an_error_and_not_the_process(attack: str, tmp_path: Path):
    base, path, change = ATTACKS[attack]
    model = kf.StackedNodes(base, [kf.Count("r")], folds=3, n_jobs=1).fit(GRAPH)
    for level in model.levels_:
        put(level.estimator, path, change)
    model.save(tmp_path / "m.kinfolk")
    told = in_its_own_process(
        f"import kinfolk as kf; g = kf.Graph([[0.0] * 3] * 600, None, {{'r': []}}, classes=['c0', 'c1', 'c2']);"
        f" kf.load_model({str(tmp_path / 'm.kinfolk')!r}).predict(g)"
    )
    assert len(told) == 1 and "m.kinfolk: " in told[0] and "the file was altered or is broken" in told[0]
