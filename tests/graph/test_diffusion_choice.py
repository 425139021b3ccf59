"""Whether to smooth features along links: chosen by cross-fitting, and left alone where it does not help."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.errors import InputError, SettingError

NEAR = "cites | cited_by"
BASE = LogisticRegression(max_iter=1000)


def words_and_links(seed: int, alike: bool, n: int = 400, **parts: Any) -> kf.Graph:
    """Words that tell the topic; links to one's own topic (weak words), or to any other (strong words)."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 4, n)
    typical = rng.dirichlet(np.full(60, 0.3), 4)
    each = (0.15 if alike else 0.6) * typical[topic] + (0.85 if alike else 0.4) / 60
    X = np.stack([np.minimum(1, rng.multinomial(12, p)) for p in each]).astype(float)
    pairs = rng.integers(0, n, (20 * n, 2))
    same = topic[pairs[:, 0]] == topic[pairs[:, 1]]
    pairs = np.unique(pairs[same if alike else ~same], axis=0)[rng.permutation(3 * n)]
    links = pairs[pairs[:, 0] != pairs[:, 1]]
    relations = {"cites": links, "cited_by": links[:, ::-1]}
    return kf.Graph(sparse.csr_array(X), [f"t{t}" for t in topic], relations, **parts)


def train_of(graph: kf.Graph, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random(graph.n_nodes) < 0.4


def accuracy(graph: kf.Graph, train: Any) -> float:
    model = kf.StackedNodes(BASE, depth=0, n_jobs=1).fit(graph, train=train)
    return float((model.predict(graph) == np.array(graph.labels, object))[~train].mean())


@pytest.mark.parametrize("seed", range(3))
def test_alike_neighbours_are_smoothed_over(seed: int, caplog: pytest.LogCaptureFixture):
    graph = words_and_links(seed, alike=True)
    train = train_of(graph)
    with caplog.at_level(logging.INFO, "kinfolk"):
        alpha = kf.choose_alpha(graph, NEAR, BASE, train, n_jobs=1)
    assert alpha < 1
    assert accuracy(kf.diffused(graph, NEAR, alpha), train) > accuracy(graph, train) + 0.1
    (told,) = caplog.messages
    assert told.startswith(f"smoothing along {NEAR}, 5 folds of {train.sum()} nodes: as given ")
    assert told.endswith(f"alpha {alpha:g} is chosen") and "alpha 0.1 +" in told and " ± " in told


@pytest.mark.parametrize("seed", range(3))
def test_unlike_neighbours_leave_features_as_they_are(seed: int, caplog: pytest.LogCaptureFixture):
    """So the answer is the local model's, to the last digit; smoothing all the same would lose much."""
    graph = words_and_links(seed, alike=False)
    train = train_of(graph)
    with caplog.at_level(logging.INFO, "kinfolk"):
        alpha = kf.choose_alpha(graph, NEAR, BASE, train, n_jobs=1)
    assert alpha == 1.0 and caplog.messages[-1].endswith("features are left as given")
    one, other = (
        kf.StackedNodes(BASE, depth=0, n_jobs=1).fit(g, train=train).predict_proba(g)
        for g in (graph, kf.diffused(graph, NEAR, alpha))
    )
    np.testing.assert_array_equal(one, other)
    assert accuracy(kf.diffused(graph, NEAR, 0.1), train) < accuracy(graph, train) - 0.03


def test_links_that_say_nothing_are_rarely_followed():
    """Differences within their standard error are none: where all is noise, features mostly stay."""
    rng = np.random.default_rng(0)
    chosen = []
    for seed in range(8):
        graph = words_and_links(seed, alike=False, n=200)
        links = {"cites": rng.integers(0, 200, (200, 2)), "cited_by": rng.integers(0, 200, (200, 2))}
        chosen.append(kf.choose_alpha(kf.Graph(graph.features, graph.labels, links), NEAR, BASE, n_jobs=1))
    assert sum(alpha == 1 for alpha in chosen) >= 7


def test_labels_outside_train_have_no_part():
    graph = words_and_links(1, alike=True)
    train = train_of(graph)
    wrong = graph.with_labels([y if kept else "t0" for y, kept in zip(graph.labels, train, strict=True)])
    one, other = (kf.choose_alpha(g, NEAR, BASE, np.flatnonzero(train), n_jobs=1) for g in (graph, wrong))
    assert one == other
    hidden = graph.with_labels([y if kept else None for y, kept in zip(graph.labels, train, strict=True)])
    assert kf.choose_alpha(hidden, NEAR, BASE, n_jobs=1) == one


class Said(ClassifierMixin, BaseEstimator):
    """Gives labels alone, and is right where the first feature is 1."""

    def fit(self, X: Any, y: Any) -> Said:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return (np.asarray(X)[:, 0] > 0.5).astype(int)


def test_any_classifier_will_do_and_only_given_alphas_are_tried(caplog: pytest.LogCaptureFixture):
    graph = words_and_links(2, alike=True, n=120)
    base = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    with caplog.at_level(logging.INFO, "kinfolk"):
        assert kf.choose_alpha(graph, NEAR, base, alphas=[0.3], folds=3, steps=2, n_jobs=1) in (0.3, 1.0)
    assert "3 folds of 120 nodes" in caplog.messages[-1] and "alpha 0.3" in caplog.messages[-1]
    assert "alpha 0.1" not in caplog.messages[-1]
    told = np.array([[1.0], [0.0]] * 4)
    pair = kf.Graph(told, ["no", "yes"] * 4, {"cites": [(0, 1)], "cited_by": [(1, 0)]}, classes=["yes", "no"])
    assert kf.choose_alpha(pair, NEAR, Said(), n_jobs=1) == 1.0


def test_whole_groups_are_held_out_wherever_their_nodes_stand(caplog: pytest.LogCaptureFixture):
    plain = words_and_links(3, alike=True, n=120)
    groups = np.array(["x", "y", "z"])[np.arange(120) % 3]
    mixed = kf.Graph(plain.features, plain.labels, dict(plain.relations), groups=groups)
    order = np.argsort(groups, kind="stable")
    with caplog.at_level(logging.INFO, "kinfolk"):
        kf.choose_alpha(mixed, NEAR, BASE, n_jobs=1)
        kf.choose_alpha(mixed.subset(order), NEAR, BASE, n_jobs=1)
    one, other = caplog.messages
    assert "3 folds of 120 nodes" in one and one == other


def test_mistakes_are_told():
    graph = words_and_links(4, alike=True, n=40)
    with pytest.raises(SettingError, match="folds must be a whole number of 2 or more; got 1"):
        kf.choose_alpha(graph, NEAR, BASE, folds=1)
    with pytest.raises(SettingError, match="base must be a scikit-learn classifier"):
        kf.choose_alpha(graph, NEAR, LogisticRegression)
    with pytest.raises(SettingError, match="alpha must be above 0 and at most 1; got 2"):
        kf.choose_alpha(graph, NEAR, BASE, alphas=[2.0])
    with pytest.raises(InputError, match="there is no relation 'likes'"):
        kf.choose_alpha(graph, "likes", BASE)
    with pytest.raises(InputError, match="training needs labels"):
        kf.choose_alpha(graph.with_labels(None), NEAR, BASE)
    with pytest.raises(InputError, match="nothing to tell apart"):
        kf.choose_alpha(graph, NEAR, BASE, train=[i for i, y in enumerate(graph.labels) if y == "t1"])
