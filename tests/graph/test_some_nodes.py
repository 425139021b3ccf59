"""Some nodes of a graph: answers and scores for these alone, and folds of them for scikit-learn."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

import kinfolk as kf
from kinfolk.errors import DataWarning, InputError, KinfolkError, SettingError

N = 60
TRAIN = np.arange(N) % 3 > 0
MODELS: dict[str, Callable[[], Any]] = {
    "stacked": lambda: kf.StackedNodes(LogisticRegression(), depth=1, folds=2, n_jobs=1),
    "dependency network": lambda: kf.DependencyNetwork(LogisticRegression(), burn_in=2, sweeps=5, n_jobs=1),
    "mixture": lambda: kf.MixtureNodes(l2=1.0, orders=2, predict_orders=3, n_jobs=1),
    "link": lambda: kf.LinkModel(l2=1.0, n_jobs=1),
}


def web(n: int = N, seed: int = 0, order: Any = None, groups: Any = None, ids: Any = None) -> kf.Graph:
    """Weak features, strong links; rows in another order where one is given."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=n)
    features = np.eye(3)[kind] + rng.normal(size=(n, 3))
    ends = rng.integers(n, size=(8 * n, 2))
    pairs = np.unique(ends[(kind[ends[:, 0]] == kind[ends[:, 1]]) & (ends[:, 0] != ends[:, 1])], axis=0)
    order = np.arange(n) if order is None else np.asarray(order)
    names = np.array([f"p{i}" for i in range(n)] if ids is None else ids, object)
    pairs = np.argsort(order)[pairs]
    return kf.Graph(
        features[order], np.array(["ash", "birch", "cedar"])[kind][order].tolist(),
        {"cites": pairs, "cited_by": pairs[:, ::-1]}, names[order].tolist(),
        None if groups is None else np.asarray(groups)[order].tolist(),
    )  # fmt: skip


GRAPH = web()


@pytest.fixture(scope="module", params=list(MODELS))
def model(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param]().fit(GRAPH, train=TRAIN)


# -- answers and scores for some nodes ----------------------------------------------------------------


def test_answers_for_the_nodes_asked_for_in_their_order(model: Any):
    numbers = np.array([7, 3, 44, 7])
    whole, labels = model.predict_proba(GRAPH), model.predict(GRAPH)
    for nodes in (numbers, numbers.tolist(), pd.Series(numbers), [f"p{i}" for i in numbers]):
        assert (model.predict_proba(GRAPH, nodes=nodes) == whole[numbers]).all()
        assert (model.predict(GRAPH, nodes=nodes) == labels[numbers]).all()
    assert (model.predict(GRAPH, nodes=~TRAIN) == labels[~TRAIN]).all()
    assert (model.predict(GRAPH.nodes_at(numbers)) == labels[numbers]).all()
    assert model.predict(GRAPH, nodes=[]).shape == (0,) and model.predict_proba(GRAPH, nodes=[]).shape == (0, 3)


def test_only_the_nodes_asked_for_count(model: Any):
    some = ~TRAIN & (np.arange(N) < 30)
    right = (model.predict(GRAPH) == np.array(GRAPH.labels))[some]
    assert model.score(GRAPH, nodes=some) == pytest.approx(right.mean())
    assert model.score(GRAPH, nodes=np.flatnonzero(some)) == pytest.approx(right.mean())
    scores = model.evaluate(GRAPH, nodes=some | TRAIN)
    assert scores.nodes == some.sum(), "the nodes trained on are known, and do not count"
    assert model.score(GRAPH.nodes_at(some)) == pytest.approx(right.mean())


def test_nodes_trained_on_are_scored_where_no_others_are_asked_for(model: Any):
    with pytest.warns(DataWarning, match="every node with a label was trained on"):
        found = model.score(GRAPH, nodes=TRAIN)
    without = model.predict(GRAPH, known="none", nodes=TRAIN) == np.array(GRAPH.labels)[TRAIN]
    assert found == pytest.approx(without.mean())


def test_a_graph_in_groups_keeps_the_order_asked_for():
    graph = web(groups=["u", "v"] * (N // 2))
    model = MODELS["stacked"]().fit(graph, train=TRAIN)
    assert (model.predict(graph, nodes=[5, 0, 8]) == model.predict(graph)[[5, 0, 8]]).all()
    right = (model.predict(graph) == np.array(graph.labels))[~TRAIN]
    assert model.score(graph, nodes=~TRAIN) == pytest.approx(right.mean())


WRONG: dict[str, tuple[Any, str]] = {
    "a shorter mask": (TRAIN[:5], "nodes must be 60 truth values, .* got a mask of 5: build it for this graph"),
    "a mask of 0 and 1": (TRAIN.astype(int), "nodes looks like a mask of 0 and 1: give truth values"),
    "two columns": (np.stack([TRAIN, TRAIN], axis=1), r"got an array of shape \(60, 2\): choose one column"),
    "a number too many": ([0, N], "nodes: 60 is no number of a node, from 0 to 59"),
    "nobody's id": (["p1", "p99"], "nodes: there is no node 'p99' in this graph; correct the id"),
    "fractions": (np.array([0.5]), "got an array of float64"),
    "one id": ("p1", r"several nodes, .* got 'p1': \['p1'\]\?"),
}


@pytest.mark.parametrize(("nodes", "message"), WRONG.values(), ids=list(WRONG))
def test_nodes_that_cannot_be_asked_for(nodes: Any, message: str):
    model = MODELS["link"]().fit(GRAPH, train=TRAIN)
    for ask in (model.predict, model.predict_proba, model.score, model.evaluate):
        with pytest.raises(InputError, match=message):
            ask(GRAPH, nodes=nodes)


def test_what_cannot_be_scored():
    model = MODELS["link"]().fit(GRAPH, train=TRAIN)
    with pytest.raises(InputError, match="none of the nodes asked for has one; name others"):
        model.score(GRAPH.labels_at(TRAIN), nodes=~TRAIN)
    with pytest.raises(InputError, match="X names the nodes already"):
        model.predict(GRAPH.nodes_at([1]), nodes=[2])
    with pytest.raises(InputError, match="a graph brings its own labels"):
        model.score(GRAPH, GRAPH.labels)


@pytest.mark.parametrize("argument", ["train", "known"])
def test_masks_and_ids_of_other_arguments(argument: str):
    model = MODELS["link"]()
    ask: Any = model.fit if argument == "train" else model.fit(GRAPH, train=TRAIN).predict
    with pytest.raises(InputError, match=f"{argument} must be 60 truth values, .* got a mask of 59: build it for"):
        ask(GRAPH, **{argument: TRAIN[1:]})
    with pytest.raises(InputError, match=f"{argument}: there is no node 'q' in this graph"):
        ask(GRAPH, **{argument: ["p1", "q"]})
    by_id = MODELS["link"]().fit(GRAPH, train=[f"p{i}" for i in np.flatnonzero(TRAIN)])
    assert (by_id.predict_proba(GRAPH) == MODELS["link"]().fit(GRAPH, train=TRAIN).predict_proba(GRAPH)).all()


# -- ids ----------------------------------------------------------------------------------------------


class Paper(Enum):
    FIRST = "one"
    SECOND = "two"
    THIRD = 3


def test_ids_of_any_kind_are_found():
    graph = web(3, ids=[10, np.int64(20), 30])
    assert graph.ids == ("10", "20", "30")
    for ids in ([30, 10], [np.int64(30), np.int64(10)], np.array([30, 10]), ["30", "10"]):
        assert graph.numbers_of(ids).tolist() == [2, 0] and graph.nodes_at(ids).numbers.tolist() == [2, 0]
    named = web(3, ids=list(Paper))
    assert named.ids == ("one", "two", "3")
    assert named.numbers_of([Paper.THIRD, "one", Paper.SECOND, 3]).tolist() == [2, 0, 1, 2]
    assert named.nodes_at([Paper.SECOND]).ids == ["two"]


def test_ids_of_enums_in_tables():
    links = {"source": [Paper.FIRST], "target": [Paper.THIRD]}
    graph = kf.Graph.from_frames(pd.DataFrame({"id": list(Paper), "x": [1.0, 2.0, 3.0]}), pd.DataFrame(links))
    assert graph.ids == ("one", "two", "3") and graph.relations["links_to"].toarray()[0, 2] == 1


def test_a_number_that_could_be_two_nodes_is_refused():
    ids = list(range(1, N + 1))
    graph = web(ids=ids)
    model = MODELS["link"]().fit(graph, train=TRAIN)
    with pytest.raises(InputError, match=r"nodes: 3 is the number of node '4' and the id of node number 2; give ids"):
        model.predict(graph, nodes=[3, 5])
    with pytest.raises(InputError, match=r"node=3 is the number of node '4' and the id of another; .* `node='3'`"):
        model.explain(graph, node=3)
    assert (model.predict(graph, nodes=["3", "5"]) == model.predict(graph)[[2, 4]]).all()
    assert (model.predict(graph, nodes=graph.nodes_at(["3"]).ids) == model.predict(graph)[[2]]).all()
    assert (model.predict(graph, nodes=[0, 3]) == model.predict(graph)[[0, 3]]).all(), "no node has the id 0"
    assert model.explain(graph, node=N).node == N - 1, "an id alone"
    assert model.explain(graph, node=np.int64(N)).node == N - 1


def test_the_first_id_that_comes_again_is_named():
    with pytest.raises(InputError, match="ids must be distinct; '7' is node 1 and node 2: keep one"):
        kf.Graph(np.zeros((4, 1)), ids=[5, 7, "7", 5])
    with pytest.raises(InputError, match="ids must be distinct; 'one' is node 0 and node 1: keep one"):
        kf.Graph(np.zeros((2, 1)), ids=[Paper.FIRST, "one"])
    with pytest.raises(
        InputError, match=r"ids must be strings or whole numbers; node 1 has 0.5: turn it into a string"
    ):
        kf.Graph(np.zeros((2, 1)), ids=["a", 0.5])


# -- folds of nodes -----------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 4), st.booleans(), st.integers(0, 99), st.data())
def test_folds_divide_the_labelled_nodes(folds: int, stratify: bool, seed: int, data: Any):
    n = data.draw(st.integers(folds, 14))
    labels = data.draw(st.lists(st.sampled_from(["x", "y", None]), min_size=n, max_size=n))
    groups = data.draw(st.none() | st.lists(st.integers(0, 5), min_size=n, max_size=n))
    graph = kf.Graph(None, labels, {}, [f"n{i}" for i in range(n)], groups)
    labelled = [i for i in range(n) if labels[i] is not None]
    units = {groups[i] for i in labelled} if groups else set()
    cv = kf.GraphSplit(graph, folds, stratify, random_state=seed)
    if len(units if len(units) > 1 else labelled) < folds:
        with pytest.raises(InputError, match="needs as many"):
            next(cv.split())
        return
    parts = list(cv.split(graph.nodes_at()))
    assert cv.get_n_splits() == len(parts) == folds
    tested = [labelled[i] for _, test in parts for i in test]
    assert sorted(tested) == labelled
    for train, test in parts:
        assert sorted([*train, *test]) == list(range(len(labelled))) and len(test)
        if len(units) > 1 and groups:
            assert not {groups[labelled[i]] for i in train} & {groups[labelled[i]] for i in test}
        elif stratify:
            for kind in "xy":
                share = sum(labels[labelled[i]] == kind for i in test)
                assert abs(share - labels.count(kind) / folds) < 2
    order = data.draw(st.permutations(range(n)))
    other = graph.subset(np.array(order))
    there = list(kf.GraphSplit(other, folds, stratify, random_state=seed).split(other.nodes_at()))
    ids = [graph.nodes_at().ids, other.nodes_at().ids]
    for here, now in zip(parts, there, strict=True):
        assert {ids[0][i] for i in here[1]} == {ids[1][i] for i in now[1]}


def test_settings_of_a_split():
    groups = np.arange(N) % 4
    graph = web(groups=groups)
    for cv in (kf.GraphSplit(graph, 4), kf.GraphSplit(GRAPH, 4, groups=groups)):
        assert all(len({*groups[test]}) == 1 for _, test in cv.split())
    divided = next(kf.GraphSplit(graph, 4, groups=False).split())[1]
    assert len({*groups[divided]}) > 1
    mine = [test for _, test in kf.GraphSplit(GRAPH, 2).split(np.arange(N), groups=["u", "v"] * (N // 2))]
    assert all(len({*(test % 2)}) == 1 for test in mine)
    with pytest.raises(
        InputError, match=r"`folds=5` needs as many groups with labels; there are 4: set `folds=4` or .*"
    ):
        next(kf.GraphSplit(graph).split())
    with pytest.raises(SettingError, match="folds must be"):
        kf.GraphSplit(GRAPH, 1)
    with pytest.raises(SettingError, match="groups must be None"):
        kf.GraphSplit(GRAPH, groups=True)
    with pytest.raises(InputError, match="groups must have one entry a node"):
        kf.GraphSplit(GRAPH, groups=[1, 2])
    with pytest.raises(InputError, match="expected a Graph; got list"):
        kf.GraphSplit([1, 2])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="these nodes are of another graph"):
        next(kf.GraphSplit(GRAPH).split(web(30).nodes_at()))


def test_what_a_search_is_given():
    nodes = GRAPH.labels_at(TRAIN).nodes_at()
    assert len(nodes) == TRAIN.sum() and nodes.shape == (40,) and "40 of Graph(60 nodes" in repr(nodes)
    assert nodes.labels.tolist() == [label for label, kept in zip(GRAPH.labels, TRAIN, strict=True) if kept]
    assert nodes[[1, 0]].ids == ["p2", "p1"] and nodes[np.array([1, 0]), ...].ids == ["p2", "p1"]
    assert nodes[3].ids == [nodes.ids[3]] and nodes[:2].ids == ["p1", "p2"]
    assert pickle.loads(pickle.dumps(nodes)).ids == nodes.ids
    with pytest.raises(InputError, match="node 'p0' has no label; ask for nodes that have one"):
        _ = GRAPH.labels_at(TRAIN).nodes_at([0]).labels


def test_labels_of_a_search_are_those_given():
    nodes = GRAPH.nodes_at([3, 1])
    graph = nodes.labelled(["new", "ash"])
    assert (
        graph.labels[1] == "ash" and graph.labels[3] == "new" and sum(label is not None for label in graph.labels) == 2
    )
    assert nodes.labelled([7, 5]).classes.labels == (5, 7), "labels of another kind"
    with pytest.raises(InputError, match=r"labels must have one entry a node \(2\); got 1"):
        nodes.labelled(["ash"])
    with pytest.raises(InputError, match="a node is among these twice"):
        GRAPH.nodes_at([3, 3]).labelled(["ash", "birch"])


@pytest.mark.parametrize("name", list(MODELS))
def test_a_score_of_cross_validation_is_that_of_a_mask(name: str):
    """The oracle: train on a mask of the other folds, predict the graph, count the fold."""
    nodes, cv, truth = GRAPH.nodes_at(), kf.GraphSplit(GRAPH, 2), np.array(GRAPH.labels)
    by_hand = []
    for train, test in cv.split(nodes):
        fitted = MODELS[name]().fit(GRAPH.with_labels(np.where(np.isin(np.arange(N), train), truth, None)))
        by_hand.append((fitted.predict(GRAPH) == truth)[test].mean())
    for scoring in (None, "accuracy"):
        found = cross_val_score(MODELS[name](), nodes, nodes.labels, cv=cv, scoring=scoring)
        assert found == pytest.approx(by_hand)
    assert cross_val_score(MODELS[name](), nodes, cv=cv) == pytest.approx(by_hand)


def test_the_labels_of_a_fold_are_hidden():
    """Nobody could know labels without features and links; a leak would."""
    rng = np.random.default_rng(0)
    n = 80
    pairs = np.stack([np.arange(n), np.arange(n)[::-1]], axis=1)
    graph = kf.Graph(
        rng.normal(size=(n, 2)), rng.integers(2, size=n).tolist(), {"r": pairs}, [f"q{i}" for i in range(n)]
    )
    nodes = graph.nodes_at()
    assert 0.2 < cross_val_score(MODELS["stacked"](), nodes, nodes.labels, cv=kf.GraphSplit(graph, 4)).mean() < 0.8


def test_probabilities_and_predictions_of_scikit_learn():
    unsorted = kf.Graph(
        GRAPH.features, GRAPH.labels, dict(GRAPH.relations), GRAPH.ids, classes=["cedar", "ash", "birch"]
    )
    nodes, cv = unsorted.nodes_at(), kf.GraphSplit(unsorted, 2)
    loss = cross_val_score(MODELS["stacked"](), nodes, nodes.labels, cv=cv, scoring="neg_log_loss")
    assert (loss > -1.0).all(), "columns are those that the scorer thinks they are"
    answers = cross_val_predict(MODELS["stacked"](), nodes, nodes.labels, cv=cv)
    assert (answers == nodes.labels).mean() > 0.6


@pytest.mark.filterwarnings("ignore:every node:kinfolk.errors.DataWarning")
def test_a_search_over_settings():
    nodes, cv = GRAPH.nodes_at(), kf.GraphSplit(GRAPH, 2)
    grid = {"base__C": [1e-6, 1.0], "known": ["true", "crossfit"]}
    model = MODELS["stacked"]().set_params(folds=3)
    search = GridSearchCV(model, grid, cv=cv).fit(nodes, nodes.labels)
    assert len(search.cv_results_["params"]) == 4 and np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["base__C"] == 1.0
    assert search.best_estimator_.known_nodes(GRAPH).all() and search.predict(nodes[:3]).shape == (3,)


def test_a_search_over_a_pool():
    grid, nodes = {"effort": ["fast"], "base__C": [1.0]}, GRAPH.nodes_at()
    model = kf.StackedNodes(LogisticRegression(), n_jobs=1, folds=2)
    search = GridSearchCV(model, grid, cv=kf.GraphSplit(GRAPH, 2), refit=False)
    assert search.fit(nodes, nodes.labels).cv_results_["mean_test_score"][0] > 0.6


def test_a_graph_itself_says_what_to_do():
    with pytest.raises(KinfolkError, match=r"graph.nodes_at\(\), cv=kf.GraphSplit\(graph\)"):
        cross_val_score(MODELS["stacked"](), GRAPH, cv=2, error_score="raise")


def test_labels_that_no_node_trained_on_has_are_spoken_of(caplog: pytest.LogCaptureFixture):
    graph = kf.Graph(np.eye(4), ["x", "y", "x", "z"], {"r": [(0, 1), (2, 3)]})
    model = kf.StackedNodes(LogisticRegression(), depth=0, n_jobs=1).fit(graph, train=[0, 1, 2])
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith(
        "no node trained on has the label 'z', which 1 other node has: the model cannot give it; name"
    )
    assert model.classes_.tolist() == ["x", "y"]
    assert model.evaluate(graph).nodes == 1 and model.score(graph) == 0, "it counts as a miss"
