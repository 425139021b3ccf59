"""`MultiLabelNodes`: any number of labels a node by a pool, from what it is given to files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold, cross_val_score
from sklearn.naive_bayes import GaussianNB

import kinfolk as kf
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.errors import DataWarning, InputError, ModelFileError, SettingError

N, NAMES = 120, ["blue", "green", "red"]
TRAIN = np.arange(N) % 2 == 0


def planted(seed: int = 0, linked: bool = True) -> tuple[kf.Graph, Any]:
    """Places on a map; each of three labels depends on a feature, and on where they are; or links between anybody."""
    rng = np.random.default_rng(seed)
    where = rng.random((N, 2))
    near = (((where[:, None] - where) ** 2).sum(axis=2) < 2.5 / N) & ~np.eye(N, dtype=bool)
    if not linked:
        other = rng.permutation(N)
        near = near[other][:, other]
    table = rng.normal(size=(N, 3))
    score = table + 4 * np.sin(where @ np.array([[6.0, 0.0, 4.0], [0.0, 6.0, 4.0]])) - 0.5
    marks = (rng.random((N, 3)) < 1 / (1 + np.exp(-score))).astype(int)
    return kf.Graph(table, None, {"near": np.argwhere(near)}, ids=[f"p{i}" for i in range(N)]), marks


GRAPH, Y = planted()
SETS = [{NAMES[k] for k in np.flatnonzero(row)} for row in Y]
SETTINGS: dict[str, dict[str, Any]] = {
    "fast": {},
    "best": {"effort": "best"},
    "base": {"base": GaussianNB()},
    "cross-fitted": {"known": "crossfit"},
}


def new(**changed: Any) -> kf.MultiLabelNodes:
    return kf.MultiLabelNodes(**{"effort": "fast", "n_jobs": 1, **changed})


@pytest.fixture(scope="module")
def trained() -> dict[str, kf.MultiLabelNodes]:
    return {name: new(**given).fit(GRAPH, Y, train=TRAIN) for name, given in SETTINGS.items()}


@pytest.fixture(params=list(SETTINGS))
def model(request: pytest.FixtureRequest, trained: dict[str, kf.MultiLabelNodes]) -> kf.MultiLabelNodes:
    return trained[request.param]


def log_loss(found: Any, truth: Any) -> float:
    found = np.clip(found, 1e-5, 1 - 1e-5)
    return float(-np.log(np.where(truth > 0, found, 1 - found)).mean())


# -- what it tells


def test_what_comes_out(model: kf.MultiLabelNodes):
    found, table = model.predict(GRAPH), model.predict_proba(GRAPH)
    assert found.shape == table.shape == (N, 3) and found.dtype == np.int64 and model.classes_.tolist() == [0, 1, 2]
    assert (table >= 0).all() and (table <= 1).all() and (found == (table >= 0.5)).all()
    np.testing.assert_array_equal(found[TRAIN], Y[TRAIN])
    alone = model.predict_proba(GRAPH, known="none")
    assert ((alone > 0) & (alone < 1)).all()
    assert model.score(GRAPH, Y) == pytest.approx(f1_score(Y[~TRAIN], found[~TRAIN], average="micro"))
    np.testing.assert_array_equal(model.predict_proba(GRAPH, nodes=["p7", "p0"]), table[[7, 0]])
    np.testing.assert_array_equal(model.predict(GRAPH.nodes_at([7, 0])), found[[7, 0]])


def test_neighbours_are_made_use_of(trained: dict[str, kf.MultiLabelNodes]):
    for name in ("fast", "best", "base"):
        model = trained[name]
        local = model.predict_candidates(GRAPH)["features"]
        assert log_loss(model.predict_proba(GRAPH)[~TRAIN], Y[~TRAIN]) < log_loss(local[~TRAIN], Y[~TRAIN]) - 0.03


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_links_that_say_nothing_do_no_harm(seed: int):
    graph, marks = planted(seed, linked=False)
    model = new().fit(graph, marks, train=TRAIN)
    local = model.predict_candidates(graph)["features"]
    found, truth = model.predict_proba(graph)[~TRAIN], marks[~TRAIN]
    worse = np.array([log_loss(a, y) - log_loss(b, y) for a, b, y in zip(found, local[~TRAIN], truth, strict=True)])
    assert worse.mean() < 2 * worse.std() / math.sqrt(len(worse)) + 1e-9


def test_candidates_make_the_answers(model: kf.MultiLabelNodes):
    """p / (1 - p) is the product of theirs to the power of their weights; by loops."""
    found = model.predict_candidates(GRAPH, known="none")
    carrying = {name: weight for name, weight in model.weights_.items() if weight}
    assert {*found} == {"features", *carrying}
    table = model.predict_proba(GRAPH, known="none")
    for i in range(0, N, 17):
        for k in range(3):
            odds = 1.0
            for name, weight in carrying.items():
                p = found[name][i, k]
                odds *= (max(p, 1e-5) / max(1 - p, 1e-5)) ** weight
            assert table[i, k] == pytest.approx(odds / (1 + odds), rel=1e-5)


def test_thresholds_and_a_guard(trained: dict[str, kf.MultiLabelNodes]):
    strict = new(threshold=0.8, guard=True).fit(GRAPH, Y, train=TRAIN)
    assert strict.predict(GRAPH)[~TRAIN].sum() < trained["fast"].predict(GRAPH)[~TRAIN].sum()
    assert strict.gain_ is not None and strict.gain_.metric == "micro-F1" and strict.gain_.n == TRAIN.sum()
    with pytest.raises(SettingError, match="threshold"):
        new(threshold=2.0).fit(GRAPH, Y)


# -- how labels come in


def variants() -> dict[str, Any]:
    half = np.where(TRAIN[:, None], Y, np.nan)
    holes: list[Any] = [row if mine else None for row, mine in zip(SETS, TRAIN, strict=True)]
    return {
        "array": half,
        "truth values": (Y > 0, TRAIN),
        "sparse": (sparse.csr_array(Y), TRAIN),
        "rows": [row.tolist() if mine else None for row, mine in zip(Y, TRAIN, strict=True)],
        "pandas": pd.DataFrame(half, columns=NAMES),
        "polars": (pl.DataFrame(Y, schema=NAMES), TRAIN),
        "sets": holes,
        "lists": [None if row is None else sorted(row) for row in holes],
        "series of sets": pd.Series(holes),
        "dict": {f"p{i}": SETS[i] for i in np.flatnonzero(TRAIN)},
    }


@pytest.mark.parametrize("name", variants())
def test_labels_come_in_many_forms(name: str, trained: dict[str, kf.MultiLabelNodes]):
    given, train = variants()[name] if isinstance(variants()[name], tuple) else (variants()[name], None)
    model = new().fit(GRAPH, given, train=train)
    np.testing.assert_allclose(model.predict_proba(GRAPH), trained["fast"].predict_proba(GRAPH), atol=1e-9)
    named = name in ("pandas", "polars", "sets", "lists", "series of sets", "dict")
    assert model.classes_.tolist() == (NAMES if named else [0, 1, 2])
    found = model.predict(GRAPH)
    if name in ("sets", "lists", "series of sets", "dict"):
        assert isinstance(found, list) and [found[i] for i in np.flatnonzero(TRAIN)] == [
            SETS[i] for i in np.flatnonzero(TRAIN)
        ]
        assert model.score(GRAPH, SETS) == pytest.approx(trained["fast"].score(GRAPH, Y))
    else:
        np.testing.assert_array_equal(found, trained["fast"].predict(GRAPH))


def test_columns_are_found_by_name():
    frame = pd.DataFrame(Y, columns=NAMES)
    model = new().fit(GRAPH, frame, train=TRAIN)
    assert model.score(GRAPH, frame[["red", "blue", "green"]]) == model.score(GRAPH, frame)
    with pytest.raises(InputError, match="no such column"):
        model.score(GRAPH, frame[["red", "blue"]])
    with pytest.raises(InputError, match="trained on 3 labels; got 2 columns"):
        model.score(GRAPH, Y[:, :2])


def test_labels_never_seen_count_as_misses():
    model = new().fit(GRAPH, SETS, train=TRAIN)
    more = [{*row, "purple"} for row in SETS]
    assert model.score(GRAPH, more) < model.score(GRAPH, SETS)
    with pytest.raises(InputError, match="never seen in training"):
        model.predict(GRAPH, known=more)


def test_known_labels_may_be_said(trained: dict[str, kf.MultiLabelNodes]):
    model, other = trained["fast"], planted(5)[0]
    said = np.where((np.arange(N) < 60)[:, None], 1.0, np.nan) * np.ones(3)
    found = model.predict_proba(other, known=said)
    assert (found[:60] == 1).all() and not np.allclose(found[60:], model.predict_proba(other, known="none")[60:])


def test_the_order_of_nodes_and_threads_are_all_one(trained: dict[str, kf.MultiLabelNodes]):
    order = np.random.default_rng(0).permutation(N)
    links = np.argsort(order)[np.transpose(GRAPH.relations["near"].nonzero())]
    other = kf.Graph(np.asarray(GRAPH.features)[order], None, {"near": links}, ids=[f"p{i}" for i in order])
    found = new(n_jobs=3).fit(other, Y[order], train=TRAIN[order]).predict_proba(other)
    np.testing.assert_allclose(found, trained["fast"].predict_proba(GRAPH)[order], atol=1e-5)
    again = new(n_jobs=3, effort="best").fit(GRAPH, Y, train=TRAIN)
    np.testing.assert_array_equal(again.predict_proba(GRAPH), trained["best"].predict_proba(GRAPH))


def test_scikit_learn_cuts_nodes_into_folds():
    scores = cross_val_score(new(), GRAPH.nodes_at(np.arange(N)), Y, cv=KFold(3, shuffle=True, random_state=0))
    assert len(scores) == 3 and np.median(scores) > 0.4  # in a fold the pool may not be shown to be better


# -- the smallest and the odd


def test_labels_that_nobody_or_everybody_has():
    given = np.concatenate([Y, np.zeros((N, 1), int), np.ones((N, 1), int)], axis=1)
    with pytest.warns(DataWarning, match=r"no node trained on has, or every one \('3', '4'\)") as told:
        model = new().fit(GRAPH, given, train=TRAIN)
    assert len(told) == 1
    table = model.predict_proba(GRAPH, known="none")
    assert len({*table[:, 3]}) == len({*table[:, 4]}) == 1
    assert table[0, 3] == pytest.approx(0.5 / 61) and table[0, 4] == pytest.approx(60.5 / 61)
    assert model.predict(GRAPH).shape == (N, 5)


def test_a_label_that_one_node_has():
    rare = np.zeros((N, 1), int)
    rare[4] = 1
    table = new().fit(GRAPH, np.concatenate([Y, rare], axis=1), train=TRAIN).predict_proba(GRAPH, known="none")
    assert np.isfinite(table).all() and table[:, 3].max() < 0.9


@pytest.mark.parametrize("effort", ["fast", "best"])
@pytest.mark.parametrize("features", [None, np.arange(6.0)[:, None], np.ones((6, 2))], ids=["none", "one", "constant"])
@pytest.mark.parametrize("links", [[], [(0, 1), (1, 2), (3, 4)]], ids=["no links", "links"])
@pytest.mark.filterwarnings("ignore::kinfolk.errors.DataWarning")
def test_small_graphs_get_probabilities(effort: str, features: Any, links: Any):
    graph = kf.Graph(features, [None] * 6, {"r": np.array(links, int).reshape(-1, 2)})
    for y in ([{"a"}, {"b"}, {"a", "b"}, None, None, None], [{"a"}, set(), None, None, None, None]):
        table = new(effort=effort).fit(graph, y).predict_proba(graph, known="none")
        assert ((table > 0) & (table < 1)).all()


def test_many_labels_and_sparse_columns():
    rng = np.random.default_rng(0)
    words = sparse.csr_array((rng.random((N, 100)) < 0.1).astype(float))
    marks = (rng.random((N, 30)) < 0.2).astype(int)
    model = new().fit(GRAPH.with_features(words), marks, train=TRAIN)
    assert not any("trees" in name for name in model.weights_)
    assert np.isfinite(model.predict_proba(GRAPH.with_features(words))).all()


BAD: dict[str, tuple[Any, str]] = {
    "all unknown": ([None] * N, r"training needs labels, and none of the nodes has any"),
    "nobody has any": (np.zeros((N, 2)), r"do not differ in their labels: none of them has any"),
    "all the same": ([{"a"}] * N, r"do not differ in their labels: all have the same"),
    "numbers": (np.full((N, 2), 3.0), r"node 'p0' has 3 in column 0"),
    "half": (np.array([[np.nan, 1.0]] * N), r"all labels are known, or none; node 'p0'"),
    "inf": (np.full((N, 2), np.inf), r"node 'p0' has inf"),
    "one each": (["a"] * N, r"node 'p0' has 'a': write \{'a'\}; .* StackedNodes"),
    "short": ([{"a"}], r"labels for each node \(120\); got 1"),
    "few rows": (np.ones((3, 2)), r"a row a node \(120\); got 3"),
    "ragged": ([[0, 1], [1]] * 60, r"of one length; node 'p1' has 1"),
    "a word": ("abc", r"got 'abc'"),
    "None inside": ([{"a", None}] * N, r"a label of a node is None"),
}


@pytest.mark.parametrize(("y", "told"), BAD.values(), ids=BAD)
def test_what_cannot_be_learned_from_is_refused(y: Any, told: str):
    with pytest.raises(InputError, match=told):
        new().fit(GRAPH, y)


def test_only_classifiers_are_bases():
    with pytest.raises(SettingError, match="a classifier"):
        new(base=Ridge()).fit(GRAPH, Y)


# -- files


def test_a_model_comes_back_from_its_file(model: kf.MultiLabelNodes, tmp_path: Path):
    model.save(tmp_path / "m")
    loaded = kf.load_model(tmp_path / "m", kind="nodes")
    assert type(loaded) is kf.MultiLabelNodes and loaded.weights_ == model.weights_
    assert (loaded.base is None) == (model.base is None)
    for known in ("train", "none"):
        np.testing.assert_array_equal(loaded.predict_proba(GRAPH, known=known), model.predict_proba(GRAPH, known=known))


def test_sets_come_back_as_sets(tmp_path: Path):
    model = new(base=LogisticRegression()).fit(GRAPH, SETS, train=TRAIN)
    model.save(tmp_path / "m")
    assert kf.load_model(tmp_path / "m").predict(GRAPH) == model.predict(GRAPH)


@pytest.mark.parametrize("broken", ["varied", "shares", "targets"])
def test_an_altered_file_is_refused(broken: str, trained: dict[str, kf.MultiLabelNodes], tmp_path: Path):
    trained["fast"].save(tmp_path / "m")
    file = read_model_file(tmp_path / "m")
    array = file.arrays[broken]
    file.arrays[broken] = {"varied": np.zeros(3, bool), "shares": array + 2, "targets": array + 1}[broken]
    write_model_file(tmp_path / "m", file.header, file.arrays, file.strings)
    with pytest.raises(ModelFileError):
        kf.load_model(tmp_path / "m")


def test_losses_are_what_they_say():
    """Of a base without opinion, the share of each label: beside the entropy, by hand."""
    graph = kf.Graph(None, [None] * N, {"r": np.empty((0, 2), int)})
    with pytest.warns(DataWarning, match="no node of this graph has a neighbour"):
        table = new().fit(graph, Y, train=TRAIN).predict_proba(graph, known="none")
    share = Y[TRAIN].mean(axis=0)
    np.testing.assert_allclose(table[0], share, atol=0.05)
    entropy = -sum(p * math.log(p) + (1 - p) * math.log(1 - p) for p in share) / 3
    assert log_loss(table[TRAIN], Y[TRAIN]) == pytest.approx(entropy, abs=0.02)
