"""Explanations of nodes: levels as predicted, aggregates beside rows rebuilt by hand, neighbours, labels, pages."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import kinfolk as kf
from kinfolk.errors import InputError, KinfolkError
from kinfolk.graph.page import (
    MOST_DRAWN,
    Aggregate,
    Neighbour,
    Surroundings,
    level_answer,
    level_part,
    mixture_node_part,
    node_explanation,
)

NAMES = ("ant", "bee", "cat")
N = 40


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of linear algebra would only wait for each other on tables this small."""
    with threadpool_limits(1):
        yield


def a_graph(seed: int, lonely: int | None = None, unknown: float = 0.0, density: float = 0.12, **more: Any) -> kf.Graph:
    """Features tell the class of most; r is drawn at random with weights, s links equals."""
    rng = np.random.default_rng(seed)
    codes = np.arange(N) % 3
    features = rng.normal(size=(N, 4)) + np.eye(4)[codes]
    r = np.where(rng.random((N, N)) < density, rng.integers(1, 5, (N, N)) / 2, 0.0)
    s = (rng.random((N, N)) < 3 * density) & (codes[:, None] == codes)
    for links in (r, s):
        np.fill_diagonal(links, 0)
        if lonely is not None:
            links[lonely] = links[:, lonely] = 0
    labels = [None if rng.random() < unknown else NAMES[c] for c in codes]
    relations = {"r": sparse.csr_array(r), "s": sparse.csr_array(s.astype(float))}
    settings = {"ids": [f"n{i} of {seed}" if seed else f"n{i}" for i in range(N)], "classes": NAMES, **more}
    return kf.Graph(features, labels, relations, **settings)


def degree(votes: Any, relations: Any) -> Any:
    """A user's own rule, that says 1 without neighbours."""
    return 1.0 + (relations["s"] @ votes)


TRAIN, OTHER = a_graph(0), a_graph(1)
TEMPLATES = [
    "count:r",
    "mean:s:hard",
    kf.Exists("~r"),
    kf.Mean("s", of="features"),
    kf.NeighbourFunction(degree, "own rule"),
]


def stacked(base: Any = None, **settings: Any) -> Any:
    chosen = {"templates": TEMPLATES, "depth": 2, "folds": 3, "cross_fitting": "paper", "n_jobs": 1, **settings}
    return kf.StackedNodes(base or LogisticRegression(), **chosen).fit(TRAIN)


def hard(votes: Any) -> Any:
    return np.eye(3)[votes.argmax(axis=1)]


def blocks_by_hand(graph: kf.Graph, node: int, votes: Any, own: bool) -> dict[str, tuple[Any, Any]]:
    """Name -> (what the node is told, what it would be told without neighbours), columns in the order of a level."""
    x, r, s = graph.features, graph.relations["r"].toarray(), graph.relations["s"].toarray()
    n_linked = max(1, s[node].sum())
    found = {
        "mean(s) of features": (s[node] @ x / n_linked, np.zeros(4)),
        "count(r)": (r[node] @ votes, np.zeros(3)),
        "mean(s, hard)": (s[node] @ hard(votes) / n_linked, np.zeros(3)),
        "exists(~r)": (1 - np.prod(1 - votes[r[:, node] > 0], axis=0), np.zeros(3)),
        "own rule": (1 + s[node] @ votes, np.ones(3)),
    }
    return found | ({"own prediction": (votes[node], np.full(3, 1 / 3))} if own else {})


def asked(level: Any, own_features: Any, blocks: list[Any]) -> Any:
    return level.estimator.predict_proba(np.concatenate([own_features, *blocks])[None, :])[0]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize(
    "base", [LogisticRegression(), DecisionTreeClassifier(max_depth=4, random_state=0), GaussianNB()]
)
def test_aggregates_are_what_rows_rebuilt_by_hand_say(base: Any, features: bool, own: bool) -> None:
    model = stacked(base, features=features, own=own)
    tables = model.predict_levels(OTHER)
    for node in (0, 7, 39):
        answer = model.explain(OTHER, node=node)
        best = tables[-1][node].argmax()
        assert answer.label == NAMES[best] == model.predict(OTHER)[node]
        assert answer.levels[0].aggregates == () and answer.levels[0].together is None
        for k in (1, 2):
            level, x = answer.levels[k], OTHER.features[node] if features else np.zeros(0)
            by_hand = blocks_by_hand(OTHER, node, tables[k - 1], own)
            assert {one.name for one in level.aggregates} == {*by_hand}
            np.testing.assert_allclose(level.distribution, tables[k][node], atol=1e-12)
            for one in level.aggregates:
                said = by_hand[one.name][0]
                np.testing.assert_allclose(one.values[one.values != 0], said[said != 0], atol=1e-12)
                rows = [nothing if name == one.name else told for name, (told, nothing) in by_hand.items()]
                without = asked(model.levels_[k], x, rows)
                np.testing.assert_allclose(one.without, without, atol=1e-9)
                assert one.effect == pytest.approx(tables[k][node, best] - without[best], abs=1e-9)
            rows = [told if name == "own prediction" else nothing for name, (told, nothing) in by_hand.items()]
            np.testing.assert_allclose(level.without_all, asked(model.levels_[k], x, rows), atol=1e-9)


def test_sparse_features_say_the_same() -> None:
    model = stacked(templates=["count:r", "mean:s:features"])
    thin = OTHER.with_features(sparse.csr_array(OTHER.features))
    one, other = (model.explain(graph, node=5) for graph in (OTHER, thin))
    for a, b in zip(one.levels, other.levels, strict=True):
        assert [x.name for x in a.aggregates] == [x.name for x in b.aggregates]
        np.testing.assert_allclose([x.effect for x in a.aggregates], [x.effect for x in b.aggregates], atol=1e-6)


def test_what_does_not_count_does_not_move_the_answer() -> None:
    """A node without neighbours is told nothing, so that without it all stays as it is."""
    alone = a_graph(2, lonely=4)
    answer = stacked().explain(alone, node=4)
    assert answer.neighbours == ()
    for level in answer.levels[1:]:
        assert [one.effect for one in level.aggregates] == pytest.approx([0.0] * 5, abs=1e-12)
        assert level.together == pytest.approx(0.0, abs=1e-12)


def test_neighbours_with_what_they_told() -> None:
    model = stacked()
    tables, answer = model.predict_levels(OTHER), model.explain(OTHER, node="n3 of 1")
    assert (answer.node, answer.name) == (3, "n3 of 1")
    by = {name: {one.node for one in answer.neighbours if one.relation == name} for name in ("r", "s", "~r")}
    assert by["r"] == {*OTHER.relations["r"].indices[slice(*OTHER.relations["r"].indptr[3:5])].tolist()}
    assert by["~r"] == {*np.flatnonzero(OTHER.relations["r"].toarray()[:, 3]).tolist()}
    for one in answer.neighbours:
        np.testing.assert_allclose(one.votes, [tables[0][one.node], tables[1][one.node]])
        assert one.source == "prediction" and one.name == f"n{one.node} of 1"
        if one.relation == "r":
            assert one.weight == OTHER.relations["r"][3, one.node]


def test_depth_0_is_the_base_alone() -> None:
    model = stacked(depth=0)
    answer = model.explain(OTHER, node=1)
    assert len(answer.levels) == 1 and answer.levels[0].aggregates == ()
    np.testing.assert_allclose(answer.levels[0].distribution, model.predict_proba(OTHER)[1])
    assert all(one.votes.shape == (0, 3) for one in answer.neighbours)
    assert "nothing" in str(answer)


def test_sampled_votes_are_averaged_as_in_prediction() -> None:
    model = stacked(predictions="sample", samples=7)
    tables, answer = model.predict_levels(OTHER), model.explain(OTHER, node=2)
    for level, table in zip(answer.levels, tables, strict=True):
        np.testing.assert_allclose(level.distribution, table[2], atol=1e-12)
    best = NAMES.index(answer.label)
    for one in answer.levels[2].aggregates:
        assert one.effect == pytest.approx(tables[2][2, best] - one.without[best], abs=1e-12)
    assert all(np.allclose(7 * one.votes, np.round(7 * one.votes)) for one in answer.neighbours)


def test_who_tells_a_label_and_who_a_prediction() -> None:
    partly = a_graph(0, unknown=0.4)
    told = kf.StackedNodes(LogisticRegression(), "count:s", n_jobs=1).fit(partly).explain(partly, node=0)
    for one in told.neighbours:
        label = partly.labels[one.node]
        assert one.known == (label is not None)
        assert not one.known or (NAMES[one.votes[0].argmax()] == label and one.votes.max() == 1.0)
    assert {one.known for one in told.neighbours} == {True, False}
    model = kf.StackedNodes(LogisticRegression(), "count:s", n_jobs=1).fit(TRAIN)
    answer = model.explain(TRAIN, node=0)
    assert {one.source for one in answer.neighbours} == {"cross-fitted"} and answer.source == "cross-fitted"
    assert told.source == ("label" if partly.labels[0] else "prediction")
    assert "trained on its label" in str(answer)


def test_forced_labels_are_told_and_that_of_the_node_is_set_aside() -> None:
    model = stacked(templates="count:s", depth=1)
    answer = model.explain(OTHER, node=0, forced=True)
    assert all(one.known and one.votes[0, OTHER.label_codes[one.node]] == 1.0 for one in answer.neighbours)
    hidden = OTHER.with_labels([None, *OTHER.labels[1:]])
    np.testing.assert_allclose(answer.levels[-1].distribution, model.predict_proba(hidden, forced=True)[0])


@pytest.mark.parametrize("node", ["p17", 40, -1, None, True, 1.0])
def test_unknown_nodes_are_refused(node: Any) -> None:
    with pytest.raises(InputError, match="node"):
        stacked(templates="count:s", depth=1).explain(OTHER, node=node)


def test_a_number_names_the_same_node_as_its_id() -> None:
    model = stacked(templates="count:s", depth=1)
    assert str(model.explain(OTHER, node="n9 of 1")) == str(model.explain(OTHER, node=np.int64(9)))


def test_a_model_from_a_file_explains_the_same(tmp_path: Path) -> None:
    model = stacked(templates=["count:r", "mean:s:features"])
    model.save(tmp_path / "m.kinfolk")
    assert str(kf.load_model(tmp_path / "m.kinfolk").explain(OTHER, node=3)) == str(model.explain(OTHER, node=3))


@pytest.mark.parametrize("settings", [{}, {"chains": 2, "start": "random"}, {"mode": "plain"}, {"base": GaussianNB()}])
def test_dependency_networks_are_explained_on_the_sweeps_that_count(settings: dict[str, Any]) -> None:
    chosen = {"base": LogisticRegression(), "templates": ["count:r", "mean:s"], "sweeps": 30, "burn_in": 5, **settings}
    model = kf.DependencyNetwork(**chosen, n_jobs=1).fit(TRAIN)
    table = model.predict_proba(OTHER)
    for node in (0, 20, 39):
        answer = model.explain(OTHER, node=node)
        np.testing.assert_allclose(answer.levels[1].distribution, table[node], atol=1e-12)
        assert {one.name for one in answer.levels[1].aggregates} == {"count(r)", "mean(s)"}


def test_a_conditional_asked_by_hand() -> None:
    """One sweep from the local labels: the state is known, so rows can be rebuilt."""
    model = kf.DependencyNetwork(GaussianNB(), ["count:r", "mean:s"], sweeps=1, burn_in=0, n_jobs=1).fit(TRAIN)
    local = model.local_.estimator.predict_proba(OTHER.features)
    votes, node = hard(local), 11
    answer = model.explain(OTHER, node=node)
    np.testing.assert_allclose(answer.levels[0].distribution, local[node])
    r, s = (OTHER.relations[name].toarray()[node] for name in "rs")
    told = {"count(r)": r @ votes, "mean(s)": s @ votes / max(1, s.sum())}
    for one in answer.levels[1].aggregates:
        np.testing.assert_allclose(one.values, told[one.name])
        rows = [np.zeros(3) if name == one.name else value for name, value in told.items()]
        np.testing.assert_allclose(one.without, asked(model.conditional_, OTHER.features[node], rows), atol=1e-12)


def test_what_a_known_node_of_a_dependency_network_would_be() -> None:
    partly = a_graph(0, unknown=0.4)
    model = kf.DependencyNetwork(LogisticRegression(), "proportion:s", sweeps=20, burn_in=2, n_jobs=1).fit(partly)
    node = next(i for i, label in enumerate(partly.labels) if label is not None)
    answer = model.explain(partly, node=node)
    assert 0 < answer.probability < 1
    assert {one.known for one in answer.neighbours} == {True, False}


def without_links(graph: kf.Graph, node: int, names: str) -> kf.Graph:
    relations = {}
    for name, links in graph.relations.items():
        table = links.toarray()
        if name in names:
            table[node] = table[:, node] = 0
        relations[name] = sparse.csr_array(table)
    return kf.Graph(graph.features, graph.labels, relations, ids=graph.ids, classes=graph.classes)


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.filterwarnings("ignore:the weights of links .r. are not used")
def test_link_models_are_explained_by_links_cut(forced: bool) -> None:
    sparse_links = {"density": 0.03}
    train, test = a_graph(3, **sparse_links), a_graph(4, **sparse_links)
    model = kf.LinkModel(max_iterations=30, tolerance=1e-2, n_jobs=1, message_tolerance=1e-7).fit(train)
    node = int(np.argmax(np.diff(test.relations["s"].indptr)))
    hidden = test.with_labels([None if i == node else label for i, label in enumerate(test.labels)])
    answer = model.explain(test, node=node, forced=forced)
    np.testing.assert_allclose(answer.levels[1].distribution, model.predict_proba(hidden, forced)[node], atol=1e-5)
    for one in answer.levels[1].aggregates:
        cut = without_links(hidden, node, one.name.removeprefix("links(").removesuffix(")"))
        np.testing.assert_allclose(one.without, model.predict_proba(cut, forced)[node], atol=1e-5)
    apart = model.predict_proba(without_links(hidden, node, "rs"), forced)
    scores = test.features[node] @ model.weights_.tables[0] + model.weights_.start
    np.testing.assert_allclose(answer.levels[0].distribution, softmax(scores), atol=1e-5)
    np.testing.assert_allclose(answer.levels[1].without_all, apart[node], atol=1e-5)
    for one in answer.neighbours:
        np.testing.assert_allclose(one.votes[0], apart[one.node], atol=1e-5)
        assert one.known == forced


@pytest.mark.filterwarnings("ignore:the weights of links .r. are not used")
def test_a_node_without_links_in_a_link_model() -> None:
    model = kf.LinkModel(max_iterations=20, tolerance=1e-2, n_jobs=1).fit(a_graph(3, density=0.03))
    answer = model.explain(a_graph(2, lonely=4, density=0.03), node=4)
    assert answer.neighbours == () and answer.levels[1].aggregates == () and answer.levels[1].together is None
    np.testing.assert_allclose(answer.levels[0].distribution, answer.levels[1].distribution, atol=1e-6)


# -- pages --------------------------------------------------------------------------------------------


def test_a_page_is_written_beside_the_explanation(tmp_path: Path) -> None:
    model, path = stacked(templates="count:s", depth=1), tmp_path / "why.html"
    answer = model.explain(OTHER, node="n3 of 1", report=path)
    text = path.read_text(encoding="utf-8")
    assert f"<title>Why n3 of 1 is {answer.label}</title>" in text and "count(s)" in text


def test_a_page_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(KinfolkError, match="directory"):
        stacked(templates="count:s", depth=1).explain(OTHER, node="n3 of 1", report=tmp_path / "no" / "why.html")


def test_a_page_draws_so_many_and_counts_the_rest() -> None:
    crowd = kf.Graph(np.eye(N + 30)[:, :3], None, {"r": [(0, i) for i in range(1, N + 30)]}, classes=NAMES)
    table = np.tile([0.2, 0.5, 0.3], (N + 30, 1))
    model = kf.StackedNodes(LogisticRegression(), "count:r", n_jobs=1)
    labelled = crowd.with_labels([NAMES[i % 3] for i in range(N + 30)])
    answer = model.fit(labelled).explain(crowd, node=0)
    nodes = model._nodes(crowd)
    part = level_part(answer, Surroundings(nodes, NAMES, [table, table], None, nodes.relations))
    assert len(part.data["nodes"]) == 1 + MOST_DRAWN
    assert part.data["n_rest"] == len(part.data["rest"]) == N + 29 - MOST_DRAWN
    assert len({one["name"] for one in part.data["nodes"]} | {one[0] for one in part.data["rest"]}) == N + 30


def test_the_page_begins_with_a_summary_in_words() -> None:
    def lead(one: list[float], both: list[float]) -> str:
        told = [Aggregate("count(r)", "predictions", NAMES, np.ones(3), np.array(one))]
        own = level_answer("own features alone", np.array([0.2, 0.7, 0.1]), 0)
        level = level_answer("level 1", np.array([0.8, 0.1, 0.1]), 0, told, np.array(both))
        around = [Neighbour(1, "n1", "r", 1.0, np.ones((1, 3)), "prediction")]
        answer = node_explanation(0, "n0", NAMES, 0, [own, level], around, "label")
        table, nodes = np.ones((N, 3)), stacked(templates="count:r", depth=1)._nodes(OTHER)
        text = " ".join(level_part(answer, Surroundings(nodes, NAMES, [table, table], None, {})).data["lead"])
        return text.replace("\N{NO-BREAK SPACE}", " ")

    assert "(80.0 %). Own features alone say bee (70.0 %). With its neighbours" in lead(
        [0.1, 0.9, 0.0], [0.1, 0.9, 0.0]
    )
    other = "count(r): without it level 1 would say bee (90.0 %), and ant with 10.0 %."
    assert other in lead([0.1, 0.9, 0.0], [0.1, 0.9, 0.0])
    assert "would still say ant (60.0 %)." in lead([0.6, 0.4, 0.0], [0.1, 0.9, 0.0])
    assert "No aggregate alone" in lead([0.799, 0.2, 0.0], [0.1, 0.9, 0.0])
    assert lead([0.6, 0.4, 0.0], [0.1, 0.9, 0.0]).endswith("is known; it is set aside here.")


def test_no_relation_is_crowded_out() -> None:
    pairs = {"many": [(0, i) for i in range(1, 69)], "few": [(0, 69), (0, 68)]}
    labels = [NAMES[i % 3] for i in range(70)]
    graph = kf.Graph(np.eye(70)[:, :3], labels, pairs, classes=NAMES)
    model = kf.StackedNodes(LogisticRegression(), depth=1, n_jobs=1).fit(graph)
    answer = model.explain(graph, node=0)
    nodes = model._nodes(graph)
    part = level_part(answer, Surroundings(nodes, NAMES, model.predict_levels(graph), None, nodes.relations))
    assert {"68", "69"} <= {one["name"] for one in part.data["nodes"]}
    both = next(one for one in part.data["nodes"] if one["name"] == "68")
    assert {link["relation"] for link in both["links"]} == {0, 1}


@pytest.mark.filterwarnings("ignore:the weights of links .r. are not used")
def test_the_page_of_a_mixture_holds_exact_shares(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    model = kf.MixtureNodes(max_iterations=60, tolerance=1e-2, predict_orders=3, orders=2, n_jobs=1).fit(TRAIN)
    answer, table = model.explain(OTHER, node="n3 of 1"), model.predict_proba(OTHER)
    part = mixture_node_part(model._nodes(OTHER), answer, table)
    shares = part.data["shares"]
    assert sum(one["share"] for one in shares) + part.data["rest_share"] == pytest.approx(1.0)
    label = NAMES.index(answer.label)
    for one in shares:
        assert one["share"] == pytest.approx(one["weight"] * one["answer"] / table[3, label])
        if one["drawn"] is not None:
            assert part.data["nodes"][one["drawn"]]["name"] == one["name"]
