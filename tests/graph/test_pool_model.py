"""`StackedNodes()` with nothing chosen: a pool of candidates, from fitting to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import kinfolk as kf
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.errors import DataWarning, GainWarning, InputError, KinfolkError, ModelFileError, SettingError
from kinfolk.learning.pooling import pooled

N, WIDE = 60, 70
KINDS = np.random.default_rng(1).integers(3, size=N)
TRAIN = np.arange(N) % 3 > 0


def web(order: Any = None, more: int = 0, labels: Any = None, features: Any = None, ids: str = "p") -> kf.Graph:
    """Words of which some tell the kind, and links among equals, one way and both; in another order, or with more
    nodes at the end, linked to the first."""
    rng = np.random.default_rng(2)
    words = (
        (rng.random((N, WIDE)) < 0.1) | ((np.arange(WIDE) % 9 == KINDS[:, None]) & (rng.random((N, WIDE)) < 0.4))
    ) * 1.0
    alike = KINDS[:, None] == KINDS
    cites = np.argwhere((rng.random((N, N)) < np.where(alike, 0.12, 0.01)) & ~np.eye(N, dtype=bool))
    near = np.argwhere((rng.random((N, N)) < np.where(alike, 0.06, 0.01)) & ~np.eye(N, dtype=bool))
    table = words if features is None else features
    names = ["abc"[k] for k in KINDS] if labels is None else labels
    if more:
        table = np.concatenate([table, table[:more]])
        names, cites = [*names, *[None] * more], np.concatenate([cites, [(N + i, i) for i in range(more)]])
    n = len(table)
    order = np.arange(n) if order is None else order
    place = np.argsort(order)
    near = np.concatenate([near, near[:, ::-1]])
    relations = {"cites": place[cites], "near": place[near]}
    return kf.Graph(
        sparse.csr_array(table[order]), [names[i] for i in order], relations, ids=[f"{ids}{i}" for i in order]
    )


def new(**changed: Any) -> kf.StackedNodes:
    return kf.StackedNodes(**{"effort": "fast", "n_jobs": 1, **changed})


GRAPH = web()
SETTINGS: dict[str, dict[str, Any]] = {
    "fast": {},
    "base": {"base": GaussianNB()},
    "cross-fitted": {"known": "crossfit"},
    "base, cross-fitted": {"base": GaussianNB(), "known": "crossfit", "effort": "best"},
}


@pytest.fixture(scope="module")
def trained() -> dict[str, kf.StackedNodes]:
    return {name: new(**given).fit(GRAPH, train=TRAIN) for name, given in SETTINGS.items()}


@pytest.fixture(params=list(SETTINGS))
def model(request: pytest.FixtureRequest, trained: dict[str, kf.StackedNodes]) -> kf.StackedNodes:
    return trained[request.param]


def small(labels: Any, links: Any = ((0, 1), (1, 2), (2, 3)), features: Any = None, **changed: Any) -> kf.Graph:
    n = len(labels)
    table = np.random.default_rng(0).normal(size=(n, 2)) if features is None else features
    return kf.Graph(table, list(labels), {"r": np.array(links, int).reshape(-1, 2)}, **changed)


def check(model: kf.StackedNodes, graph: kf.Graph) -> Any:
    table = model.predict_proba(graph, known="none")
    assert table.shape == (graph.n_nodes, len(model.classes_)) and (table >= 0).all()
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-9)
    assert model.predict(graph).shape == (graph.n_nodes,)
    return table


# -- what it is


def test_nothing_chosen_is_a_pool(model: kf.StackedNodes):
    assert model.pools and model.pool_ is not None and len({*model.folds_.tolist()} - {-1}) == 3
    assert model.weights_ and all(weight >= 0 for weight in model.weights_.values()) and any(model.weights_.values())
    assert model.known_ == ("true" if model.known == "auto" else "crossfit")
    assert (model.folds_ >= 0).tolist() == TRAIN.tolist()
    assert (model.predict(GRAPH) == np.array(GRAPH.labels))[~TRAIN].mean() > 0.7


def test_what_is_chosen_is_no_pool():
    levels = new(base=GaussianNB(), depth=1).fit(GRAPH, train=TRAIN)
    assert levels.pool_ is None and not levels.pools and len(levels.levels_) == 2
    with pytest.raises(SettingError, match="levels of one base, not a pool"):
        levels.predict_candidates(GRAPH)
    assert not new(templates=["count:cites"], base=GaussianNB()).pools


def test_candidates_make_the_answers(model: kf.StackedNodes):
    found = model.predict_candidates(GRAPH, known="none")
    carrying = {name: weight for name, weight in model.weights_.items() if weight}
    assert {*found} == {"features", *carrying}
    table = pooled([found[name] for name in carrying], list(carrying.values()))
    np.testing.assert_allclose(table, model.predict_proba(GRAPH, known="none"), atol=1e-9)
    local, together = model.predict_levels(GRAPH, known="none")
    np.testing.assert_array_equal(local, found["features"])
    np.testing.assert_allclose(together, table, atol=1e-9)


def test_a_local_candidate_without_weight_can_be_asked(trained: dict[str, kf.StackedNodes], tmp_path: Path):
    """It stands for what features say alone, also where the answers do without."""
    model = new(base=GaussianNB()).fit(GRAPH, train=TRAIN)
    assert model.pool_ is not None
    model.pool_.weights.update({name: float(name == "smooth features") for name in model.pool_.weights})
    model.save(tmp_path / "m")
    for one in (model, kf.load_model(tmp_path / "m")):
        assert one.predict_levels(GRAPH)[0].shape == (N, 3) and "features" in one.predict_candidates(GRAPH)
        assert one.explain(GRAPH, node=0).probability > 0
        np.testing.assert_array_equal(
            one.predict_candidates(GRAPH)["features"], trained["base"].predict_candidates(GRAPH)["features"]
        )


def test_an_explanation_names_every_candidate(model: kf.StackedNodes, tmp_path: Path):
    for node in (0, 1):
        told = model.explain(GRAPH, node=node, report=tmp_path / "node.html")
        alone, together = told.levels
        assert told.label in model.classes_ and told.probability == pytest.approx(together.distribution.max())
        for one in (alone, together):
            assert one.distribution.sum() == pytest.approx(1, abs=1e-6)
        named = [one.name for one in together.aggregates]
        for name, weight in model.weights_.items():
            assert (f"{name} (weight {weight:.2f})" in named) == (weight > 0)
        for one in together.aggregates:
            assert np.sum(one.values) == pytest.approx(1, abs=1e-5) and np.sum(one.without) == pytest.approx(1)
        assert all(name in str(told) for name in named) and (tmp_path / "node.html").stat().st_size > 1000
    unseen = int(np.flatnonzero(~TRAIN)[0])
    told = model.explain(GRAPH, node=unseen)
    np.testing.assert_allclose(told.levels[-1].distribution, model.predict_proba(GRAPH)[unseen], atol=1e-6)


def test_it_has_no_levels(model: kf.StackedNodes):
    with pytest.raises(SettingError, match="a pool has no levels"):
        model.at_depth(0)


# -- the same answers


@pytest.mark.parametrize("name", SETTINGS)
def test_threads_change_nothing(name: str, trained: dict[str, kf.StackedNodes]):
    other = new(**SETTINGS[name], **{"n_jobs": 2}).fit(GRAPH, train=TRAIN)
    assert other.weights_ == trained[name].weights_
    np.testing.assert_array_equal(other.predict_proba(GRAPH), trained[name].predict_proba(GRAPH))


def test_threads_leave_filters_of_warnings_alone():
    import warnings

    before = list(warnings.filters)
    new(base=LogisticRegression(), n_jobs=2).fit(GRAPH, train=TRAIN)
    assert list(warnings.filters) == before


@pytest.mark.parametrize("name", SETTINGS)
def test_the_order_of_rows_changes_nothing(name: str, trained: dict[str, kf.StackedNodes]):
    order = np.random.default_rng(3).permutation(N)
    other = web(order)
    table = trained[name].predict_proba(GRAPH)
    np.testing.assert_allclose(trained[name].predict_proba(other), table[order], atol=1e-5)
    again = new(**SETTINGS[name]).fit(other, train=TRAIN[order])
    np.testing.assert_array_equal(again.folds_, trained[name].folds_[order])
    np.testing.assert_allclose(again.predict_proba(other), table[order], atol=1e-5)


def test_the_order_of_rows_changes_no_stack():
    order = np.random.default_rng(3).permutation(N)
    one, other = (
        kf.StackedNodes(GaussianNB(), depth=1, n_jobs=1).fit(graph, train=train)
        for graph, train in ((GRAPH, TRAIN), (web(order), TRAIN[order]))
    )
    np.testing.assert_array_equal(other.folds_, one.folds_[order])


def test_a_file_keeps_it(model: kf.StackedNodes, tmp_path: Path):
    model.save(tmp_path / "m")
    again = kf.load_model(tmp_path / "m")
    assert again.weights_ == model.weights_ and again.known_ == model.known_ and again.pools
    kept = {name: value for name, value in model.get_params(deep=False).items() if name != "base"}
    assert {name: again.get_params(deep=False)[name] for name in kept} == kept
    for graph in (GRAPH, web(more=1), web(ids="q")):
        np.testing.assert_allclose(again.predict_proba(graph), model.predict_proba(graph), atol=1e-6)
    again.fit(GRAPH, train=TRAIN)
    np.testing.assert_allclose(again.predict_proba(GRAPH), model.predict_proba(GRAPH), atol=1e-6)


def test_one_more_node_changes_little(model: kf.StackedNodes):
    """It cites one node, whose row hears of it; those far away do not."""
    grown = web(more=1)
    before, after = model.predict_proba(GRAPH), model.predict_proba(grown)
    assert after.shape == (N + 1, 3) and np.abs(after[:N] - before).mean() < 0.05
    np.testing.assert_array_equal(model.known_nodes(grown)[:N], TRAIN)


def test_on_a_new_graph(model: kf.StackedNodes, caplog: pytest.LogCaptureFixture):
    found = model.predict_proba(web(ids="q"))
    np.testing.assert_allclose(found, model.predict_proba(GRAPH, known="none"), atol=1e-6)
    assert ("no node trained on is in this graph" in caplog.text) == (model.known_ == "true")


@pytest.mark.parametrize("links", ["none", "one way", "both ways", "one relation alone"])
def test_another_graph_has_the_same_columns(links: str, model: kf.StackedNodes):
    """Relations that are empty there, or happen to be their own reverse, are looked at as in training."""
    pairs = np.array({"none": [], "one way": [(0, 1), (2, 1)]}.get(links, [(0, 1), (1, 0)]), int).reshape(-1, 2)
    near = pairs if links != "one relation alone" else pairs[:0]
    other = kf.Graph(GRAPH.features[:4], [None] * 4, {"cites": pairs, "near": near}, ids=["w", "x", "y", "z"])
    assert check(model, other).shape == (4, 3)


def test_a_node_alone_is_known_again(model: kf.StackedNodes):
    seen = GRAPH.subset([1])
    assert model.known_nodes(seen).all() and model.predict(seen, known=[0]).tolist() == [GRAPH.labels[1]]


def test_forced_labels_are_kept(model: kf.StackedNodes):
    given = web(ids="q", labels=["abc"[k] if i % 2 else None for i, k in enumerate(KINDS)])
    found = model.predict(given, forced=True)
    assert found[1::2].tolist() == [label for label in given.labels if label is not None]


def test_an_estimate_without_a_held_out_part(model: kf.StackedNodes):
    found = clone(model).cross_fit(GRAPH, train=TRAIN)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-9)
    np.testing.assert_allclose(found[~TRAIN], model.predict_proba(GRAPH)[~TRAIN], atol=1e-6)
    labels = np.array(GRAPH.labels)
    labels[1] = "abc"[(KINDS[1] + 1) % 3]  # what it says and whom it is linked to speak for another
    assert clone(model).cross_fit(web(labels=labels.tolist()), train=TRAIN)[1].argmax() == KINDS[1]


# -- habits of scikit-learn


def test_clone_and_settings():
    model = new(base=GaussianNB(var_smoothing=1e-3), class_weight="balanced", random_state=3)
    copied = clone(model)
    assert copied.get_params()["base__var_smoothing"] == 1e-3 and copied.class_weight == "balanced"
    assert copied.depth is None and copied.folds is None and copied.pools
    assert not clone(model).set_params(depth=2).pools


def test_efforts_are_searched():
    pipeline = make_pipeline(FunctionTransformer(GRAPH.labels_at), new(base=GaussianNB()))
    grid = {"stackednodes__effort": ["fast", "best"]}
    search = GridSearchCV(pipeline, grid, cv=KFold(2), error_score="raise").fit(np.arange(N))
    assert (search.cv_results_["mean_test_score"] > 0.4).all()


def test_a_guard_measures_the_pool():
    with pytest.warns(GainWarning, match="The local model is its candidate 'features'"):
        blind = kf.Graph(GRAPH.features, GRAPH.labels, {"r": [(0, 1), (1, 0)]})
        new(base=GaussianNB(), guard=True).fit(blind, train=TRAIN)
    model = new(guard=True).fit(GRAPH, train=TRAIN)
    assert model.gain_ is not None and model.gain_.n == TRAIN.sum()
    with pytest.raises(SettingError, match="guard"):
        new(guard=5).fit(GRAPH, train=TRAIN)


# -- weights of nodes and classes


def test_weights_of_one_change_nothing(trained: dict[str, kf.StackedNodes]):
    again = new().fit(GRAPH, train=TRAIN, sample_weight=np.ones(N))
    np.testing.assert_allclose(again.predict_proba(GRAPH), trained["fast"].predict_proba(GRAPH), atol=1e-6)


def test_what_counts_more_is_found_more_often():
    rare = web(labels=["a" if k == 0 and i % 2 else "b" for i, k in enumerate(KINDS)])
    plain, heavy = (new(class_weight=one).fit(rare, train=TRAIN) for one in (None, {"a": 50.0, "b": 1.0}))
    share = [float(model.predict_proba(rare, known="none")[:, 0].mean()) for model in (plain, heavy)]
    assert share[1] > share[0]
    balanced = new(class_weight="balanced").fit(rare, train=TRAIN)
    assert balanced.predict_proba(rare, known="none")[:, 0].mean() > share[0]
    ones = np.where(np.array(rare.labels) == "a", 50.0, 1.0)
    by_node = new().fit(rare, train=TRAIN, sample_weight=ones)
    np.testing.assert_allclose(by_node.predict_proba(rare), heavy.predict_proba(rare), atol=1e-6)


@pytest.mark.parametrize("weight", [np.ones(3), -np.ones(N), np.zeros(N), ["x"] * N])
def test_weights_that_are_none_are_told(weight: Any):
    with pytest.raises(InputError, match="sample_weight must"):
        new().fit(GRAPH, train=TRAIN, sample_weight=weight)


# -- odd data


@pytest.mark.parametrize("train", [np.ones(5, bool), [N], np.arange(N) % 2], ids=["short", "beyond", "0 and 1"])
def test_a_mask_of_other_nodes_is_told(train: Any):
    with pytest.raises(InputError, match="train"):
        new().fit(GRAPH, train=train)


def test_one_class_is_told():
    with pytest.raises(KinfolkError, match=r"two|2|classes"):
        new().fit(small("aaaa"))
    with pytest.raises(InputError, match="none of the nodes to train on has one"):
        new().fit(small([None] * 4))


TOO_FEW = "labelled nodes are too few to weigh the candidates of a pool by"


@pytest.mark.parametrize("given", [{}, {"base": GaussianNB()}, {"effort": "best"}], ids=["fast", "base", "best"])
def test_without_links_features_are_used_and_it_is_said(given: Any):
    graph = small("ababab", links=())
    with (
        pytest.warns(DataWarning, match=TOO_FEW),
        pytest.warns(DataWarning, match="no node of this graph has a neighbour: only features"),
    ):
        model = new(**given).fit(graph)
    assert all(name.startswith("features") for name in model.weights_)
    check(model, graph)


def test_a_graph_without_relations():
    graph = kf.Graph(np.eye(4), list("abab"), {})
    with pytest.warns(DataWarning, match=TOO_FEW), pytest.warns(DataWarning, match="no node of this graph has a"):
        check(new().fit(graph), graph)


@pytest.mark.parametrize("given", [{}, {"base": GaussianNB()}], ids=["fast", "base"])
def test_two_labelled_nodes_are_enough(given: Any):
    graph = small(["a", "b", None, None])
    with pytest.warns(DataWarning, match=TOO_FEW):
        model = new(**given).fit(graph)
    assert max(model.folds_) == 1
    check(model, graph)


def test_no_features():
    graph = kf.Graph(None, [None if i % 3 == 0 else "abc"[k] for i, k in enumerate(KINDS)], GRAPH.relations)
    model = new(base=GaussianNB()).fit(graph)
    assert not any("smooth" in name for name in model.weights_)
    assert (model.predict(graph) == np.array(["abc"[k] for k in KINDS])).mean() > 0.6
    with pytest.warns(DataWarning, match=TOO_FEW), pytest.warns(DataWarning, match="no node of this graph has a"):
        check(new().fit(alone := kf.Graph(None, list("aab") * 2, {"r": []})), alone)


def test_a_label_that_only_others_have_is_no_class():
    labels = ["abc"[k] if i % 3 else "d" for i, k in enumerate(KINDS)]
    model = new().fit(web(labels=labels), train=TRAIN)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(web(labels=labels)) == 0


def test_a_class_with_one_node():
    labels = ["abc"[k] for k in KINDS]
    labels[1] = "once"
    model = new().fit(web(labels=labels), train=TRAIN)
    assert "once" in model.classes_.tolist()
    check(model, web(labels=labels))


def test_many_relations():
    rng = np.random.default_rng(0)
    relations = {f"r{i}": rng.integers(12, size=(6, 2)) for i in range(40)}
    graph = kf.Graph(rng.normal(size=(12, 2)), list("abc") * 4, relations)
    check(new(base=GaussianNB()).fit(graph), graph)


@pytest.mark.parametrize("value", [0.0, 7.0, 1e30, 1e300, 1.7e308])
@pytest.mark.parametrize("thin", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("width", [2, WIDE], ids=["few", "many"])
def test_constant_columns_and_huge_values(value: float, thin: bool, width: int):
    """Of logistic regressions of the pool's own, which standardise: no number of these is lost on the way."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(12, width))
    table[:, 0], table[3, 1], table[4, 1] = value, value, -value
    graph = small("ab" * 6, links=(), features=sparse.csr_array(table) if thin else table)
    with pytest.warns(DataWarning, match="no node of this graph has a neighbour"):
        model = new().fit(graph)
    assert np.isfinite(check(model, graph)).all()
    assert np.isfinite(check(model, small("ab" * 6, features=-graph.features))).all()


@pytest.mark.parametrize("weight", [1e-12, 1e12])
def test_links_of_any_weight(weight: float):
    pairs = GRAPH.relations["cites"]
    one, other = (
        kf.Graph(GRAPH.features, GRAPH.labels, {"cites": sparse.csr_array(pairs * size)}, ids=GRAPH.ids)
        for size in (1.0, weight)
    )
    found = [new().fit(graph, train=TRAIN).predict_proba(graph) for graph in (one, other)]
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_folds_of_several_graphs():
    """Whole graphs are hidden where all nodes have labels, nodes where some have none."""
    groups = np.arange(N) // 10
    graph = kf.Graph(
        GRAPH.features, GRAPH.labels, {"near": [(i, i + 1) for i in range(N - 1) if (i + 1) % 10]}, groups=groups
    )
    whole = new(base=GaussianNB()).fit(graph).folds_
    assert all(len({*whole[groups == g].tolist()}) == 1 for g in range(6))
    partly = new(base=GaussianNB()).fit(graph, train=TRAIN).folds_
    assert any(len({*partly[(groups == g) & TRAIN].tolist()}) > 1 for g in range(6))


# -- wrong settings


def test_bases_by_level_are_told():
    with pytest.raises(SettingError, match=r"one, of a pool; .*depth"):
        new(base=[GaussianNB(), GaussianNB()]).fit(GRAPH)


def test_there_is_no_ceiling():
    with pytest.raises(SettingError, match="a pool has no ceiling: set `depth=1` too"):
        new(known="ceiling").fit(GRAPH)


@pytest.mark.parametrize("given", [
    {"features": False}, {"own": True}, {"predictions": "sample"}, {"cross_fitting": "paper"},
], ids=lambda given: next(iter(given)))  # fmt: skip
def test_what_is_about_levels_is_told(given: Any):
    with pytest.raises(SettingError, match=rf"`{next(iter(given))}=.*` is about levels.*set `depth=1` too"):
        new(base=GaussianNB(), **given).fit(GRAPH)


def test_an_engine_does_not_hold_a_pool(trained: dict[str, kf.StackedNodes]):
    pytest.importorskip("duckdb")
    nodes, edges = {"id": [1, 2, 3], "label": ["a", "b", None]}, {"source": [1, 2], "target": [2, 3]}
    for model in (new(), new(base=GaussianNB())):
        with pytest.raises(SettingError, match=r"whole graph in memory.*levels of one base.*depth=1"):
            model.set_params(engine=kf.DuckDB()).fit_tables(nodes, edges)
    model = new(base=GaussianNB()).fit(GRAPH, train=TRAIN).set_params(engine=kf.DuckDB())
    with pytest.raises(SettingError, match=r"whole graph in memory.*levels of one base.*depth=1"):
        model.predict_tables(nodes, edges)


@pytest.mark.parametrize("what", ["weights", "candidates", "kinds", "scale"])
def test_an_altered_file_is_refused(what: str, trained: dict[str, kf.StackedNodes], tmp_path: Path):
    trained["fast"].save(tmp_path / "m")
    file = read_model_file(tmp_path / "m")
    header, arrays = file.header, dict(file.arrays)
    if what == "weights":
        header["pool"]["weights"]["features"] = -1.0
    elif what == "candidates":
        header["pool"]["candidates"][-1]["after"] = ["nobody"]
    elif what == "kinds":
        header["pool"]["kinds"][0][0] = "nothing"
    else:
        arrays["pool.scale"] = arrays["pool.scale"][:-1]
    write_model_file(tmp_path / "odd", header, arrays, file.strings)
    with pytest.raises(ModelFileError):
        kf.load_model(tmp_path / "odd")


# -- never much worse than the local model


def test_links_that_say_nothing_cost_little():
    """Random links and telling features: the pool is about as good as its local candidate."""
    rng, n = np.random.default_rng(4), 120
    kinds = rng.integers(2, size=n)
    table = rng.normal(size=(n, WIDE)) + 0.35 * kinds[:, None]
    train = np.arange(n) % 2 == 0
    graph = kf.Graph(table, ["ab"[k] for k in kinds], {"r": rng.integers(n, size=(3 * n, 2))})
    model = new().fit(graph, train=train)
    local, together = (one.argmax(axis=1) == kinds for one in model.predict_levels(graph))
    assert local[~train].mean() > 0.75
    assert together[~train].mean() >= local[~train].mean() - 0.08


def test_unlike_neighbours_tell_as_much_as_like_ones():
    """Features say nothing; of linked nodes one is "a", the other "b"."""
    rng, n = np.random.default_rng(5), 100
    kinds = np.arange(n) % 2
    pairs = rng.integers(n, size=(600, 2))
    pairs = pairs[kinds[pairs[:, 0]] != kinds[pairs[:, 1]]]
    graph = kf.Graph(rng.normal(size=(n, 2)), ["ab"[k] for k in kinds], {"r": pairs})
    train = rng.random(n) < 0.6
    model = new(base=LogisticRegression()).fit(graph, train=train)
    assert (model.predict(graph) == np.array(graph.labels))[~train].mean() > 0.9


def test_links_that_lost_their_weights_are_told():
    """What was learned of weights would mean something else."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(2, size=40)
    pairs = rng.integers(40, size=(120, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    nodes = {"id": list(range(40)), "label": kinds.tolist(), "x": (kinds + rng.normal(size=40)).tolist()}
    links = {
        "source": pairs[:, 0].tolist(),
        "target": pairs[:, 1].tolist(),
        "amount": (5 + rng.random(len(pairs))).tolist(),
    }
    with_weights = kf.Graph.from_frames(nodes, links, label="label", weight="amount", duplicates="merge")
    without = kf.Graph.from_frames(nodes, links, label="label", duplicates="merge")
    model = new(base=GaussianNB()).fit(with_weights, train=range(20))
    told = "'links_to' .*had weights in training, and have none here; give the same `weight="
    with pytest.warns(DataWarning, match=told):
        model.predict(without)


def test_levels_have_no_weights_of_candidates():
    model = kf.StackedNodes(GaussianNB(), depth=1).fit(GRAPH, train=TRAIN)
    assert not hasattr(model, "weights_")


def test_a_known_node_is_explained_as_one():
    model = new(base=GaussianNB()).fit(GRAPH, train=TRAIN)
    known = np.flatnonzero(model.known_nodes(GRAPH))
    assert model.explain(GRAPH, node=int(known[0])).source == "label"
