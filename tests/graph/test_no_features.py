"""Graphs whose nodes have no features: links and known labels are all there is, and all models of nodes take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_limits

import kinfolk as kf
from kinfolk.errors import InputError

N = 90
KIND = np.arange(N) % 3
LABELS = [("ant", "bee", "cat")[k] for k in KIND]
TRAIN = np.random.default_rng(1).random(N) < 0.6


def links() -> Any:
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, N, (14 * N, 2))
    kept = (KIND[pairs[:, 0]] == KIND[pairs[:, 1]]) | (rng.random(len(pairs)) < 0.05)
    return np.unique(pairs[kept & (pairs[:, 0] != pairs[:, 1])], axis=0)


LINKS = links()
GRAPHS = {
    "none": kf.Graph(None, LABELS, {"r": LINKS, "back": LINKS[:, ::-1]}),
    "dense": kf.Graph(np.zeros((N, 0)), LABELS, {"r": LINKS, "back": LINKS[:, ::-1]}),
    "sparse": kf.Graph(sparse.csr_array((N, 0)), LABELS, {"r": LINKS, "back": LINKS[:, ::-1]}, feature_names=()),
}
TREES = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5)
MODELS: dict[str, Callable[[], Any]] = {
    "pool, trees": lambda: kf.StackedNodes(effort="fast", n_jobs=1),
    "pool": lambda: kf.StackedNodes(LogisticRegression(), effort="fast", n_jobs=1),
    "stacked": lambda: kf.StackedNodes(LogisticRegression(), depth=1, n_jobs=1),
    "stacked, two levels": lambda: kf.StackedNodes(LogisticRegression(), depth=2, own=True, n_jobs=1),
    "stacked, told alone": lambda: kf.StackedNodes(LogisticRegression(), depth=1, features=False, n_jobs=1),
    "stacked naive Bayes": lambda: kf.StackedNodes(GaussianNB(), depth=1, n_jobs=1),
    "stacked trees": lambda: kf.StackedNodes(TREES, depth=1, n_jobs=1),
    "network": lambda: kf.DependencyNetwork(LogisticRegression(), n_jobs=1),
    "network, plain": lambda: kf.DependencyNetwork(LogisticRegression(), mode="plain", sweeps=30, n_jobs=1),
    "network of trees": lambda: kf.DependencyNetwork(
        RandomForestClassifier(10, random_state=0), burn_in=5, sweeps=5, n_jobs=1
    ),
    "mixture of parents": lambda: kf.MixtureNodes(orders=3, predict_orders=10, n_jobs=1),
    "learned weights": lambda: kf.MixtureNodes(orders=3, predict_orders=10, mixing="learned", n_jobs=1),
    "link model": lambda: kf.LinkModel(l2=1.0, training="pseudo", n_jobs=1),
}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


@pytest.mark.parametrize("features", GRAPHS)
@pytest.mark.parametrize("name", MODELS)
def test_links_to_labelled_nodes_tell_the_label(name: str, features: str, tmp_path: Path):
    """Given the labels of the training nodes, most of the others are right: a guess would get a third."""
    graph = GRAPHS[features]
    model = MODELS[name]().fit(graph, train=TRAIN)
    partly = graph.with_labels([y if seen else None for y, seen in zip(LABELS, TRAIN, strict=True)])
    table = model.predict_proba(partly, forced=True)
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-6)
    answers = model.predict(partly, forced=True)
    assert (answers == np.array(LABELS))[~TRAIN].mean() > 0.7
    assert model.predict(graph).shape == (N,) and 0 <= model.score(graph) <= 1
    node = int(np.flatnonzero(~TRAIN)[0])
    assert model.explain(graph, node=node, report=tmp_path / "node.html").probability > 0
    model.save(tmp_path / "m.kinfolk")
    trusted = ["sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"]
    again = kf.load_model(tmp_path / "m.kinfolk", trusted=trusted if "trees" in name else ())
    np.testing.assert_array_equal(again.predict_proba(partly, forced=True), table)
    again.explain(graph, node=node)


@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_learns_links_from_labels_where_marginals_say_nothing(seed: int, caplog: pytest.LogCaptureFixture):
    """Trained jointly it would know that links tell something, but not what: alike or unlike."""
    rng = np.random.default_rng(seed)
    kind = np.arange(60) % 2
    pairs = [(i, j) for i, j in rng.integers(0, 60, (500, 2)).tolist() if i != j and kind[i] == kind[j]]
    relations = {"r": sorted({*pairs}), "back": sorted({(j, i) for i, j in pairs})}
    graph = kf.Graph(None, [("cat", "dog")[k] if i < 40 else None for i, k in enumerate(kind)], relations)
    model = kf.MixtureNodes(n_jobs=1).fit(graph)
    assert (model.predict(graph, forced=True) == np.array(["cat", "dog"])[kind])[40:].mean() > 0.9
    assert "nodes have no features, so links are learned from labels: `training='conditional'`" in caplog.text


def test_without_links_either_each_class_has_its_share():
    model = kf.StackedNodes(LogisticRegression(), depth=0, n_jobs=1)
    graph = kf.Graph(None, ["ant"] * 3 + ["bee"] * 1 + [None] * 2)
    np.testing.assert_allclose(model.fit(graph).predict_proba(graph, known="none"), [[0.75, 0.25]] * 6)
    weight = np.array([1.0, 1, 1, 5, 1, 1])
    shares = model.fit(graph, sample_weight=weight).predict_proba(graph, known="none")
    np.testing.assert_allclose(shares, [[3 / 8, 5 / 8]] * 6)


@pytest.mark.parametrize("name", MODELS)
def test_a_new_graph_may_have_features_by_name(name: str):
    """The model knows none of them."""
    model = MODELS[name]().fit(GRAPHS["sparse"], train=TRAIN)
    other = kf.Graph(np.ones((N, 1)), LABELS, {"r": LINKS, "back": LINKS[:, ::-1]}, feature_names=["height"])
    assert model.predict(other, forced=True).tolist() == LABELS


def test_features_cannot_be_made_up():
    seen = kf.Graph(np.eye(3)[KIND], LABELS, {"r": LINKS, "back": LINKS[:, ::-1]}, feature_names=["x", "y", "z"])
    model = kf.StackedNodes(LogisticRegression(), depth=1, n_jobs=1).fit(seen)
    with pytest.raises(InputError, match="none of the model's 3 features is here"):
        model.predict(GRAPHS["sparse"])


# -- where such graphs come from


NODES, EDGES = pd.DataFrame({"id": range(N), "topic": LABELS}), pd.DataFrame(LINKS, columns=["source", "target"])


def test_every_source_takes_nodes_without_features(tmp_path: Path):
    import networkx as nx

    NODES.to_csv(tmp_path / "nodes.csv", index=False)
    EDGES.to_csv(tmp_path / "edges.csv", index=False)
    drawn = nx.DiGraph(LINKS.tolist())
    nx.set_node_attributes(drawn, dict(enumerate(LABELS)), "topic")
    adjacency = sparse.csr_array((np.ones(len(LINKS)), LINKS.T), shape=(N, N))
    sources = [
        kf.Graph.from_frames(NODES, EDGES, label="topic"),
        kf.read_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", label="topic"),
        kf.Graph.from_networkx(drawn, label="topic"),
        kf.Graph.from_scipy(adjacency, None, LABELS),
        kf.Graph.from_pyg(SimpleNamespace(edge_index=LINKS.T, y=KIND)),
        kf.Graph.from_pyg(SimpleNamespace(edge_index=LINKS.T, y=KIND, num_nodes=N)),
    ]
    for graph in sources:
        assert graph.n_features == 0 and graph.n_nodes == N
        assert kf.StackedNodes(LogisticRegression(), depth=1, n_jobs=1).fit(graph, train=TRAIN).predict(
            graph
        ).shape == (N,)


def test_how_many_nodes_there_are_is_told_by_whatever_there_is():
    adjacency = sparse.csr_array((N, N))
    for parts in ({"labels": LABELS}, {"ids": range(N)}, {"relations": {"r": adjacency}}, {"titles": ["x"] * N}):
        graph = kf.Graph(None, **parts)
        assert graph.n_nodes == N and graph.n_features == 0
    with pytest.raises(InputError, match=r"without features the labels, ids, groups, titles or a matrix of links"):
        kf.Graph(None, relations={"r": [(0, 1)]})


def test_nothing_is_smoothed_where_there_is_nothing():
    assert kf.diffused(GRAPHS["none"], "r").n_features == 0
    assert kf.choose_alpha(GRAPHS["none"], "r", LogisticRegression(), n_jobs=1) == 1.0
