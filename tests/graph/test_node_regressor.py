"""`NodeRegressor`: numbers of nodes by a pool, from what it is given to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import KFold, cross_val_score

import kinfolk as kf
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.errors import DataWarning, GainWarning, InputError, ModelFileError, SettingError

N = 120
TRAIN = np.arange(N) % 2 == 0


def planted(seed: int = 0, linked: bool = True, n: int = N) -> tuple[kf.Graph, Any]:
    """Places on a map whose number depends on one of three features, and on where they are, which only links to those
    near by show; or links between anybody."""
    rng = np.random.default_rng(seed)
    where = rng.random((n, 2))
    near = (((where[:, None] - where) ** 2).sum(axis=2) < 2.5 / n) & ~np.eye(n, dtype=bool)
    if not linked:
        other = rng.permutation(n)
        near = near[other][:, other]
    table = rng.normal(size=(n, 3))
    y = 50 + 10 * (table[:, 0] + 2 * np.sin(6 * where[:, 0]) + 0.3 * rng.normal(size=n))
    return kf.Graph(table, None, {"near": np.argwhere(near)}, ids=[f"p{i}" for i in range(n)]), y


GRAPH, Y = planted()
SETTINGS: dict[str, dict[str, Any]] = {
    "fast": {},
    "best": {"effort": "best"},
    "base": {"base": Ridge()},
    "cross-fitted": {"known": "crossfit"},
}


def new(**changed: Any) -> kf.NodeRegressor:
    return kf.NodeRegressor(**{"effort": "fast", "n_jobs": 1, **changed})


@pytest.fixture(scope="module")
def trained() -> dict[str, kf.NodeRegressor]:
    return {name: new(**given).fit(GRAPH, Y, train=TRAIN) for name, given in SETTINGS.items()}


@pytest.fixture(params=list(SETTINGS))
def model(request: pytest.FixtureRequest, trained: dict[str, kf.NodeRegressor]) -> kf.NodeRegressor:
    return trained[request.param]


def r_squared(truth: Any, found: Any) -> float:
    return float(1 - ((truth - found) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())


# -- what it tells


def test_what_comes_out(model: kf.NodeRegressor):
    found = model.predict(GRAPH)
    assert found.shape == (N,) and found.dtype == np.float64
    np.testing.assert_array_equal(found[TRAIN], Y[TRAIN])
    assert model.known_nodes(GRAPH).tolist() == TRAIN.tolist()
    alone = model.predict(GRAPH, known="none")
    assert np.isfinite(alone).all() and (alone != Y).all()
    np.testing.assert_allclose(model.score(GRAPH, Y), r_squared(Y[~TRAIN], found[~TRAIN]))
    some = ["p7", "p0", "p31"]
    np.testing.assert_array_equal(model.predict(GRAPH, nodes=some), found[[7, 0, 31]])
    np.testing.assert_array_equal(model.predict(GRAPH.nodes_at([7, 0, 31])), found[[7, 0, 31]])
    assert len({*model.folds_.tolist()}) == 4 and (model.folds_ >= 0).tolist() == TRAIN.tolist()


def test_neighbours_are_made_use_of(model: kf.NodeRegressor):
    """Where places are not known, own features say all there is to say."""
    local = model.predict_candidates(GRAPH)["features"]
    assert model.score(GRAPH, Y) > r_squared(Y[~TRAIN], local[~TRAIN]) + (0.2 if model.known_ == "true" else -0.01)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_links_that_say_nothing_do_no_harm(seed: int):
    graph, y = planted(seed, linked=False)
    model = new().fit(graph, y, train=TRAIN)
    local = model.predict_candidates(graph)["features"]
    worse = ((model.predict(graph) - y) ** 2 - (local - y) ** 2)[~TRAIN]
    assert worse.mean() <= 2 * worse.std() / np.sqrt(len(worse)) + 1e-9


def test_candidates_make_the_answers(model: kf.NodeRegressor):
    """By their weights, around the mean of the numbers trained on; added up by loops."""
    found = model.predict_candidates(GRAPH)
    carrying = {name: weight for name, weight in model.weights_.items() if weight}
    assert {*found} == {"features", *carrying} and min(carrying.values()) > 0
    mean = Y[TRAIN].mean()
    expected = [mean + sum(w * (found[name][i] - mean) for name, w in carrying.items()) for i in range(N)]
    np.testing.assert_allclose(model.predict(GRAPH)[~TRAIN], np.array(expected)[~TRAIN], rtol=1e-6)


def test_where_the_pool_is_no_better_the_local_candidate_answers():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(60, 2))
    graph = kf.Graph(table, None, {"r": rng.integers(60, size=(150, 2))})
    y = 7 * table[:, 0] + rng.normal(size=60)
    model = new(base=LinearRegression()).fit(graph, y, train=np.arange(50))
    assert {name: weight for name, weight in model.weights_.items() if weight > 0} == {"features": 1.0}
    alone = LinearRegression().fit(table[:50], y[:50]).predict(table[50:])
    np.testing.assert_allclose(model.predict(graph)[50:], alone, rtol=1e-5)


def test_known_numbers_may_be_said(trained: dict[str, kf.NodeRegressor]):
    model, other = trained["fast"], planted(5)[0]
    alone = model.predict(other, known="none")
    said = np.where(np.arange(N) < 60, 80.0, np.nan)
    found = model.predict(other, known=said)
    assert (found[:60] == 80).all() and not np.allclose(found[60:], alone[60:])
    by_id = {f"p{i}": 80.0 for i in range(60)}
    np.testing.assert_array_equal(model.predict(other, known=by_id), found)


def test_a_guard_measures_the_gain():
    model = new(guard=True).fit(GRAPH, Y, train=TRAIN)
    assert model.gain_ is not None and model.gain_.metric == "R²" and model.gain_.beats and model.gain_.n == TRAIN.sum()
    graph, y = planted(1, linked=False)
    with pytest.warns(GainWarning, match=r"R² .* over the local model"):
        new(guard=3).fit(graph, y, train=TRAIN)
    with pytest.raises(SettingError, match=r"True or 3, the number of `folds`"):
        new(guard=4).fit(GRAPH, Y)


def test_all_nodes_trained_on():
    with pytest.warns(DataWarning, match="every node of this graph was trained on"):
        model = new().fit(GRAPH, Y)
        np.testing.assert_array_equal(model.predict(GRAPH), Y)
    assert model.known_ == "crossfit" and model.pool_.votes
    with pytest.warns(DataWarning, match="far too well"):
        assert 0 < model.score(GRAPH, Y) <= 1
    fresh, y = planted(9)
    named = kf.Graph(fresh.features, None, dict(fresh.relations), ids=[f"q{i}" for i in range(N)])
    assert not model.known_nodes(named).any() and np.isfinite(model.predict(named)).all() and model.score(named, y) < 1


# -- how numbers come in


def variants() -> dict[str, Any]:
    half = np.where(TRAIN, Y, np.nan)
    holes = [float(value) if mine else None for value, mine in zip(Y, TRAIN, strict=True)]
    return {
        "array": half,
        "list": holes,
        "column": half[:, None],
        "pandas": pd.Series(half, index=np.arange(N)[::-1]),
        "nullable": pd.Series(holes, dtype="Float64"),
        "polars": pl.Series(holes),
        "dict": {f"p{i}": float(Y[i]) for i in np.flatnonzero(TRAIN)},
    }


@pytest.mark.parametrize("name", variants())
def test_numbers_come_in_many_forms(name: str, trained: dict[str, kf.NodeRegressor]):
    found = new().fit(GRAPH, variants()[name]).predict(GRAPH)
    np.testing.assert_allclose(found, trained["fast"].predict(GRAPH), rtol=1e-9)


def test_the_order_of_nodes_is_all_one(trained: dict[str, kf.NodeRegressor]):
    order = np.random.default_rng(0).permutation(N)
    place = np.argsort(order)
    links = place[np.transpose(GRAPH.relations["near"].nonzero())]
    other = kf.Graph(np.asarray(GRAPH.features)[order], None, {"near": links}, ids=[f"p{i}" for i in order])
    found = new().fit(other, Y[order], train=TRAIN[order]).predict(other)
    np.testing.assert_allclose(found, trained["fast"].predict(GRAPH)[order], rtol=1e-6)
    np.testing.assert_allclose(trained["fast"].predict(other), trained["fast"].predict(GRAPH)[order], rtol=1e-5)


@pytest.mark.parametrize("size", [1e-80, 1e80])
def test_the_unit_of_numbers_is_all_one(size: float, trained: dict[str, kf.NodeRegressor]):
    found = new().fit(GRAPH, Y * size, train=TRAIN).predict(GRAPH)
    np.testing.assert_allclose(found / size, trained["fast"].predict(GRAPH), rtol=1e-4)


def test_threads_change_nothing(trained: dict[str, kf.NodeRegressor]):
    again = new(n_jobs=3, effort="best").fit(GRAPH, Y, train=TRAIN)
    np.testing.assert_array_equal(again.predict(GRAPH), trained["best"].predict(GRAPH))


def test_sample_weights_and_groups():
    counts = np.where(np.arange(N) < 60, 1.0, 0.0)
    model = new().fit(GRAPH, Y, sample_weight=counts, train=TRAIN)
    assert not np.allclose(model.predict(GRAPH), new().fit(GRAPH, Y, train=TRAIN).predict(GRAPH))
    grouped = kf.Graph(GRAPH.features, None, dict(GRAPH.relations), groups=(np.arange(N) // 20).tolist())
    folds = new().fit(grouped, Y).folds_
    assert all(len({*folds[20 * g : 20 * g + 20].tolist()}) == 1 for g in range(6))


def test_scikit_learn_cuts_nodes_into_folds():
    scores = cross_val_score(new(), GRAPH.nodes_at(np.arange(N)), Y, cv=KFold(3, shuffle=True, random_state=0))
    assert len(scores) == 3 and np.min(scores) > 0.2
    assert repr(clone(new(folds=4))) == repr(new(folds=4))


def test_labels_of_the_graph_that_are_numbers_will_do(trained: dict[str, kf.NodeRegressor]):
    found = new().fit(GRAPH.with_labels(Y.tolist()), train=TRAIN).predict(GRAPH)
    np.testing.assert_allclose(found, trained["fast"].predict(GRAPH))
    with pytest.raises(InputError, match=r"expected numbers, .* give them as y"):
        new().fit(GRAPH.with_labels(["a", "b"] * 60))


# -- the smallest and the odd


@pytest.mark.parametrize("effort", ["fast", "best"])
@pytest.mark.parametrize("features", [None, np.arange(6.0)[:, None], np.ones((6, 2))], ids=["none", "one", "constant"])
@pytest.mark.parametrize("links", [[], [(0, 1), (1, 2), (3, 4)]], ids=["no links", "links"])
@pytest.mark.filterwarnings("ignore::kinfolk.errors.DataWarning")
def test_small_graphs_get_finite_answers(effort: str, features: Any, links: Any):
    graph = kf.Graph(features, [None] * 6, {"r": np.array(links, int).reshape(-1, 2)})
    for y in ([1.0, 2.0, 3.0, None, None, None], [1.0, 5.0, None, None, None, None], [4.0] * 5 + [None]):
        model = new(effort=effort).fit(graph, y)
        found = model.predict(graph)
        assert np.isfinite(found).all()
        if y[0] == 4.0:
            np.testing.assert_allclose(found, 4.0)


def test_two_nodes():
    graph = kf.Graph(np.array([[0.0], [1.0]]), None, {"r": [(0, 1)]})
    assert np.isfinite(new().fit(graph, [1.0, 2.0]).predict(graph, known="none")).all()


def test_many_sparse_columns():
    rng = np.random.default_rng(0)
    words = sparse.random_array((N, 300), density=0.05, rng=rng, format="csr")
    model = new().fit(GRAPH.with_features(words), Y, train=TRAIN)
    assert np.isfinite(model.predict(GRAPH.with_features(words))).all()


BAD: dict[str, tuple[Any, str]] = {
    "all unknown": ([None] * N, "training needs numbers, and none of the nodes to train on has one"),
    "one": ([1.0] + [None] * (N - 1), "only one node to train on has one"),
    "inf": ([np.inf] + [1.0] * (N - 1), r"node 'p0' has inf: give NaN or None"),
    "huge": ([1e200] + [1.0] * (N - 1), "scale them down"),
    "words": (["a"] * N, "node 'p0' has 'a': for labels there are StackedNodes"),
    "objects": ([object()] * N, "y must be numbers, None or NaN where there is none; node 'p0' has"),
    "short": ([1.0, 2.0], r"one number a node \(120\); got 2"),
    "a table": (np.ones((N, 2)), r"got shape \(120, 2\): choose one column"),
    "a word": ("abc", "got 'abc'"),
    "another id": ({"nobody": 1.0}, "there is no node 'nobody'"),
}


@pytest.mark.parametrize(("y", "told"), BAD.values(), ids=BAD)
def test_what_cannot_be_learned_from_is_refused(y: Any, told: str):
    with pytest.raises(InputError, match=told):
        new().fit(GRAPH, y)


@pytest.mark.parametrize("base", [LogisticRegression(), Ridge, "ridge"], ids=["classifier", "class", "word"])
def test_only_regressors_are_bases(base: Any):
    with pytest.raises(SettingError, match=r"a regressor|a scikit-learn regressor"):
        new(base=base).fit(GRAPH, Y)


def test_a_base_sees_numbers_as_they_came():
    """Those of a Poisson regression are never below 0."""
    model = new(base=PoissonRegressor()).fit(GRAPH, np.maximum(Y, 0), train=TRAIN)
    assert (model.predict_candidates(GRAPH)["features"] > 0).all()


def test_bad_questions(trained: dict[str, kf.NodeRegressor]):
    model = trained["fast"]
    with pytest.raises(SettingError, match="known must be 'train', 'none'"):
        model.predict(GRAPH, known="all")
    with pytest.raises(InputError, match="nothing is known of any"):
        model.predict(GRAPH, known=[None] * N)
    with pytest.raises(InputError, match="scoring needs numbers"):
        model.score(GRAPH, [None] * N)
    with pytest.raises(InputError, match="none is left to score"):
        model.score(GRAPH, Y, known=Y)


# -- files


def test_a_model_comes_back_from_its_file(model: kf.NodeRegressor, tmp_path: Path):
    model.save(tmp_path / "m")
    loaded = kf.load_model(tmp_path / "m", kind="nodes")
    assert type(loaded) is kf.NodeRegressor and loaded.weights_ == model.weights_
    assert (loaded.base is None) == (model.base is None) and loaded.effort == model.effort
    for known in ("train", "none"):
        np.testing.assert_array_equal(loaded.predict(GRAPH, known=known), model.predict(GRAPH, known=known))


def test_folds_by_node_and_trees_of_the_user_come_back(tmp_path: Path):
    base = HistGradientBoostingRegressor(max_iter=3)
    model = new(base=base, folds=np.arange(N) % 2).fit(GRAPH, Y, train=np.arange(80))
    model.save(tmp_path / "m")
    loaded = kf.load_model(tmp_path / "m")
    assert loaded.folds == 2 and loaded.base.max_iter == 3
    np.testing.assert_array_equal(loaded.predict(GRAPH), model.predict(GRAPH))


@pytest.mark.parametrize("broken", ["scale", "targets", "weights"])
def test_an_altered_file_is_refused(broken: str, trained: dict[str, kf.NodeRegressor], tmp_path: Path):
    trained["fast"].save(tmp_path / "m")
    file = read_model_file(tmp_path / "m")
    if broken == "scale":
        file.header["number"]["scale"] = 0.0
    elif broken == "targets":
        file.arrays["targets"] = file.arrays["targets"][1:]
    else:
        file.arrays["pool.0.weights"] = file.arrays["pool.0.weights"][:, [0, 0]]
    write_model_file(tmp_path / "m", file.header, file.arrays, file.strings)
    with pytest.raises(ModelFileError):
        kf.load_model(tmp_path / "m")
