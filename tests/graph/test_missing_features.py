"""Features that are missing: pools fill them in, bases that take NaN get them as they are, all others refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import kinfolk as kf
from kinfolk.errors import InputError
from kinfolk.graph.pool_features import Columns

N = 60
TRAIN = np.arange(N) % 2 == 0


def world(wide: int = 3, gaps: bool = True) -> kf.Graph:
    """What is missing tells the kind: half of the first column, of one kind only."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(2, size=N)
    table = rng.normal(size=(N, wide))
    if gaps:
        table[(kinds == 1) & (rng.random(N) < 0.8), 0] = np.nan
    links = np.argwhere((rng.random((N, N)) < 0.05) & ~np.eye(N, dtype=bool))
    names = [f"f{i}" for i in range(wide)]
    return kf.Graph(table, ["ab"[k] for k in kinds], {"r": links}, feature_names=names)


GRAPH = world()


def test_a_graph_keeps_what_is_missing():
    assert np.isnan(GRAPH.features).any() and np.isnan(GRAPH.subset(np.arange(N)[::-1]).features).any()
    with pytest.raises(InputError, match="instance 0 has inf"):
        kf.Graph(np.array([[np.inf]]))


def test_columns_are_filled_with_means_beside_flags():
    table = np.array([[1.0, np.nan], [3.0, 4.0], [np.nan, 8.0], [5.0, 6.0]])
    learned = Columns.learn(table, 0)
    found = learned.plain(table)
    assert found.shape == (4, 4) and found[2, 0] == found[0, 1] == 0
    np.testing.assert_allclose(found[:, 2] > 0, [False, False, True, False])
    np.testing.assert_allclose(found[:, 3] > 0, [True, False, False, False])
    thin = Columns.learn(sparse.csr_array(table), 0)
    np.testing.assert_allclose(thin.plain(sparse.csr_array(table)), found, atol=1e-6)
    whole = Columns.learn(table[[1, 3]], 0)
    assert whole.plain(table).shape == (4, 2) and whole.plain(table)[2, 0] == 0


@pytest.mark.parametrize("effort", ["fast", "best"])
@pytest.mark.parametrize("wide", [3, 80])
def test_a_pool_fills_in(effort: str, wide: int, tmp_path: Path):
    graph = world(wide)
    model = kf.StackedNodes(effort=effort, n_jobs=1).fit(graph, train=TRAIN)
    table = model.predict_proba(graph, known="none")
    assert np.isfinite(table).all() and (wide > 3 or model.score(graph) > 0.65)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(kf.load_model(tmp_path / "m").predict_proba(graph, known="none"), table)
    assert np.isfinite(model.predict_proba(world(wide, gaps=False), known="none")).all()


def test_gaps_may_come_after_training():
    model = kf.StackedNodes(effort="fast", n_jobs=1).fit(world(gaps=False), train=TRAIN)
    assert np.isfinite(model.predict_proba(GRAPH, known="none")).all()


def test_sparse_features_may_be_missing():
    graph = world(80)
    thin = kf.Graph(sparse.csr_array(graph.features), graph.labels, dict(graph.relations))
    found = kf.StackedNodes(effort="fast", n_jobs=1).fit(thin, train=TRAIN).predict_proba(thin)
    assert np.isfinite(found).all()


BASES: dict[str, Any] = {
    "trees": HistGradientBoostingClassifier(max_iter=5),
    "imputer": make_pipeline(SimpleImputer(), LogisticRegression()),
}


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
@pytest.mark.parametrize("more", [{"effort": "fast"}, {"depth": 1, "folds": 3}], ids=["pool", "levels"])
def test_bases_that_take_what_is_missing_get_it(base: Any, more: Any):
    model = kf.StackedNodes(base, n_jobs=1, **more).fit(GRAPH, train=TRAIN)
    assert np.isfinite(model.predict_proba(GRAPH, known="none")).all()


def test_numbers_and_several_labels():
    y = np.random.default_rng(0).normal(size=N)
    base = HistGradientBoostingRegressor(max_iter=5)
    for model in (kf.NodeRegressor(effort="fast", n_jobs=1), kf.NodeRegressor(base, effort="fast", n_jobs=1)):
        assert np.isfinite(model.fit(GRAPH, y, train=TRAIN).predict(GRAPH)).all()
    labels = kf.MultiLabelNodes(effort="fast", n_jobs=1).fit(GRAPH, train=TRAIN)
    assert np.isfinite(labels.predict_proba(GRAPH)).all()


OTHERS: dict[str, Any] = {
    "mixture": kf.MixtureNodes(n_jobs=1),
    "network": kf.DependencyNetwork(LogisticRegression(), n_jobs=1),
    "links": kf.LinkModel(n_jobs=1),
    "levels": kf.StackedNodes(LogisticRegression(), depth=1, n_jobs=1),
    "pool": kf.StackedNodes(LogisticRegression(), n_jobs=1),
    "features of neighbours": kf.StackedNodes(BASES["trees"], [kf.Mean("r", of="features")], n_jobs=1),
    "several labels": kf.MultiLabelNodes(LogisticRegression(), n_jobs=1),
}


@pytest.mark.parametrize("model", OTHERS.values(), ids=OTHERS)
def test_all_others_refuse_with_a_remedy(model: Any):
    with pytest.raises(InputError, match=r"'f0' of node '\d+' is missing \(NaN\), as are \d+ in all: fill them in, or"):
        model.fit(GRAPH, train=TRAIN)


def test_a_trained_model_refuses_too():
    model = kf.StackedNodes(LogisticRegression(), depth=0, n_jobs=1).fit(world(gaps=False), train=TRAIN)
    with pytest.raises(InputError, match="must be numbers for LogisticRegression"):
        model.predict(GRAPH)
    with pytest.raises(InputError, match="smoothing along links"):
        kf.diffused(GRAPH, "r")
