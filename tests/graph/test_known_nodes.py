"""Labels of nodes trained on are known when a graph is predicted: one rule for all models, by the ids of the nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.errors import DataWarning, InputError, SettingError

N = 90
TRAIN = np.arange(N) % 3 > 0
NAMES = np.array(["ash", "birch", "cedar"])
MODELS: dict[str, Callable[[], Any]] = {
    "pool": lambda: kf.StackedNodes(effort="fast", n_jobs=1),
    "pool, cross-fitted": lambda: kf.StackedNodes(LogisticRegression(), known="crossfit", effort="fast", n_jobs=1),
    "stacked": lambda: kf.StackedNodes(LogisticRegression(), depth=1, folds=3, n_jobs=1),
    "stacked, cross-fitted": lambda: kf.StackedNodes(
        LogisticRegression(), depth=1, folds=3, known="crossfit", n_jobs=1
    ),
    "dependency network": lambda: kf.DependencyNetwork(LogisticRegression(), burn_in=5, sweeps=15, n_jobs=1),
    "mixture": lambda: kf.MixtureNodes(l2=1.0, orders=3, predict_orders=10, n_jobs=1),
    "link": lambda: kf.LinkModel(l2=30.0, n_jobs=1),
}
TELLING = [name for name in MODELS if "cross-fitted" not in name]  # a neighbour trained on gives its label


def web(seed: int = 0, n: int = N, ids: Any = "p", order: Any = None, **changed: Any) -> kf.Graph:
    """Weak features, strong links; rows in another order where one is given."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=n)
    features = np.eye(3)[kind] + rng.normal(size=(n, 3)) * 1.5
    ends = rng.integers(n, size=(8 * n, 2))
    same = (kind[ends[:, 0]] == kind[ends[:, 1]]) | (rng.random(len(ends)) < 0.1)
    pairs = np.unique(ends[same & (ends[:, 0] != ends[:, 1])], axis=0)
    names = None if ids is None else [f"{ids}{i}" for i in range(n)]
    parts: dict[str, Any] = {"features": features, "labels": NAMES[kind].tolist(), "ids": names, "pairs": pairs}
    parts.update(changed)
    pairs = parts.pop("pairs")
    if order is not None:
        pairs = np.argsort(order)[pairs]
        parts = {key: None if value is None else [value[i] for i in order] for key, value in parts.items()}
    return kf.Graph(**parts, relations={"cites": pairs, "cited_by": pairs[:, ::-1]})


GRAPH = web()


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    return {name: make().fit(GRAPH, train=TRAIN) for name, make in MODELS.items()}


@pytest.fixture(params=list(MODELS))
def model(request: pytest.FixtureRequest, trained: dict[str, Any]) -> Any:
    return trained[request.param]


@pytest.fixture(params=TELLING)
def telling(request: pytest.FixtureRequest, trained: dict[str, Any]) -> Any:
    return trained[request.param]


def right(model: Any, table: Any) -> float:
    """The share of the nodes not trained on that get their label."""
    return float((model.classes_[table.argmax(axis=1)] == np.array(GRAPH.labels))[~TRAIN].mean())


def test_labels_of_nodes_trained_on_are_known(telling: Any):
    some = GRAPH.with_labels([y if seen else None for y, seen in zip(GRAPH.labels, TRAIN, strict=True)])
    known = telling.predict_proba(GRAPH)
    np.testing.assert_array_equal(known, telling.predict_proba(some, forced=True), "as if they were given")
    np.testing.assert_array_equal(known, telling.predict_proba(GRAPH.with_labels(None)), "wherever they come from")
    np.testing.assert_array_equal(known, telling.predict_proba(GRAPH, known=TRAIN))
    np.testing.assert_array_equal(known, telling.predict_proba(GRAPH, known=np.flatnonzero(TRAIN)))
    without = telling.predict_proba(GRAPH, known="none")
    assert right(telling, known) > right(telling, without)


def test_a_known_label_is_the_answer(model: Any):
    table = model.predict_proba(GRAPH)
    assert (model.predict(GRAPH)[TRAIN] == np.array(GRAPH.labels)[TRAIN]).all()
    assert (table[TRAIN].max(axis=1) == 1).all() and (table[~TRAIN].max(axis=1) < 1).all()
    np.testing.assert_array_equal(model.known_nodes(GRAPH), TRAIN)
    assert not model.known_nodes(GRAPH, known="none").any()
    assert (model.predict_proba(GRAPH, known="none").max(axis=1) < 1).all()


def test_a_neighbour_that_is_cross_fitted_gives_its_cross_fitted_vote(trained: dict[str, Any]):
    model = trained["stacked, cross-fitted"]
    given = {one.source for one in model.explain(GRAPH, node=0).neighbours}
    assert "label" not in given and "cross-fitted" in given
    assert np.abs(model.predict_proba(GRAPH) - model.predict_proba(GRAPH, known=TRAIN))[~TRAIN].max() > 0.01


# -- known again by their ids -------------------------------------------------------------------------


def agree(model: Any, other: kf.Graph, ids: Any = GRAPH.ids) -> None:
    """The same nodes are known in another form of the graph."""
    known = dict(zip(other.ids, model.known_nodes(other), strict=True))
    assert [known[key] for key in ids] == [bool(TRAIN[GRAPH.ids.index(key)]) for key in ids]


def test_rows_may_be_permuted(model: Any):
    order = np.random.default_rng(1).permutation(N)
    moved = web(order=order)
    agree(model, moved)
    if not isinstance(model, kf.DependencyNetwork | kf.MixtureNodes):  # what these draw goes by the order of rows
        np.testing.assert_allclose(model.predict_proba(moved), model.predict_proba(GRAPH)[order], atol=1e-4)
    moved_back = model.predict_proba(moved)[np.argsort(order)]
    assert right(model, moved_back) == pytest.approx(right(model, model.predict_proba(GRAPH)), abs=0.1)


def test_columns_may_be_cast_nodes_added_and_left_out(model: Any):
    agree(model, GRAPH.with_features(GRAPH.features.astype(np.float32)))
    features = np.concatenate([GRAPH.features, np.zeros((1, 3))])
    links = {name: np.argwhere(table.toarray()).tolist() + [[N, 0]] for name, table in GRAPH.relations.items()}
    agree(model, kf.Graph(features, [*GRAPH.labels, None], links, [*GRAPH.ids, "new"]))
    few = np.array([2, 4, 6, 7, 50, 51])
    agree(model, GRAPH.subset(few), [GRAPH.ids[i] for i in few])


def test_features_may_be_brought_up_to_date_or_links_added(model: Any):
    agree(model, GRAPH.with_features(GRAPH.features + 1.0))
    other = web(3)
    agree(model, kf.Graph(GRAPH.features, GRAPH.labels, other.relations, GRAPH.ids))


def test_ids_that_coincide_by_accident_are_not_the_same_nodes(model: Any):
    other = web(7, n=60)
    told = "40 nodes have ids of nodes trained on, but neither their features nor their neighbours"
    with pytest.warns(DataWarning, match=told):
        assert not model.known_nodes(other).any()
    with pytest.warns(DataWarning, match=told):
        found = model.predict_proba(other)
    np.testing.assert_array_equal(found, model.predict_proba(other, known="none"))


def half_another(kept: int) -> kf.Graph:
    """The first nodes are those of GRAPH, with links among themselves; the others are those of another graph."""
    other = web(7)
    links = {name: table.tocoo() for name, table in GRAPH.relations.items()}
    pairs = {name: np.stack(one.coords, axis=1) for name, one in links.items()}
    own = {name: one[(one < kept).all(axis=1)] for name, one in pairs.items()}
    features = np.concatenate([GRAPH.features[:kept], other.features[kept:]])
    return kf.Graph(features, [*GRAPH.labels[:kept], *other.labels[kept:]], own, GRAPH.ids)


def test_where_ids_partly_coincide_only_nodes_that_look_the_same_are_known(model: Any):
    with pytest.warns(DataWarning, match="20 of 60 nodes with ids .* no longer have their feat.* their labels"):
        known = model.known_nodes(half_another(60))
    np.testing.assert_array_equal(known, TRAIN & (np.arange(N) < 60))


def test_where_few_nodes_look_the_same_it_is_told_how_few(model: Any):
    told = "60 nodes have ids of nodes trained on, but only 33 % of them look like these by their features or their"
    with pytest.warns(DataWarning, match=told):
        assert not model.known_nodes(half_another(30)).any()


def test_where_nearly_all_nodes_look_the_same_all_are_known(model: Any):
    np.testing.assert_array_equal(model.known_nodes(half_another(86)), TRAIN)


def test_nodes_with_nothing_to_look_at_do_not_stand_in_the_way():
    """They have neither features nor neighbours, in the graph trained on as later."""
    bare = kf.Graph(
        np.where(np.arange(N)[:, None] < 45, GRAPH.features, 0), GRAPH.labels, {"cites": [(0, 1)]}, GRAPH.ids
    )
    model = MODELS["dependency network"]().fit(bare, train=TRAIN)
    np.testing.assert_array_equal(model.known_nodes(bare), TRAIN)


def test_features_that_are_the_same_everywhere_tell_nothing():
    """Then neighbours do."""
    one, other = (web(seed, features=np.ones((N, 1))) for seed in (0, 7))
    model = MODELS["mixture"]().fit(one, train=TRAIN)
    np.testing.assert_array_equal(model.known_nodes(one), TRAIN)
    with pytest.warns(DataWarning, match="60 nodes have ids of nodes trained on, but not their neighbours: "):
        assert not model.known_nodes(other).any()


def test_a_graph_without_ids_is_known_by_the_numbers_of_its_rows(caplog: pytest.LogCaptureFixture):
    plain = web(ids=None)
    model = MODELS["link"]().fit(plain, train=TRAIN)
    np.testing.assert_array_equal(model.known_nodes(plain), TRAIN)
    moved = web(ids=None, order=np.random.default_rng(1).permutation(N))
    assert not model.known_nodes(moved).any() and not model.known_nodes(web(7, ids=None)).any()
    assert not caplog.records, "numbers of rows are nobody's ids"
    assert model.known_nodes(kf.Graph(plain.features, None, plain.relations)).sum() == TRAIN.sum()
    np.testing.assert_array_equal(model.known_nodes(plain.relational()), TRAIN)


def test_grids_of_one_size_are_not_the_same_graph():
    """Numbered by their rows, two of them have the same neighbours; each has features of its own."""
    ring = [(i, (i + 1) % N) for i in range(N)]
    one, other = (web(seed, ids=None, pairs=np.array(ring)) for seed in (0, 1))
    model = kf.StackedNodes(LogisticRegression(), depth=1, n_jobs=1).fit(one, train=TRAIN)
    assert model.known_nodes(one).sum() == TRAIN.sum() and not model.known_nodes(other).any()


def test_a_single_node_is_known_again(model: Any):
    seen = GRAPH.subset([1])
    assert model.known_nodes(seen).all() and model.predict(seen, known=[0]).tolist() == [GRAPH.labels[1]]


def test_other_ids_are_other_nodes(model: Any, caplog: pytest.LogCaptureFixture):
    assert not model.known_nodes(web(ids="q")).any() and not caplog.records


# -- what is told -------------------------------------------------------------------------------------


def test_how_many_are_known_is_told_in_a_line(model: Any, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "kinfolk"):
        model.predict(GRAPH)
    assert "known labels of 60 of 90 nodes are used; `known='none'` to predict without" in caplog.messages
    caplog.clear()
    model.predict(GRAPH)
    assert not caplog.records
    with pytest.warns(DataWarning, match="every node of this graph was trained on"):
        model.predict(GRAPH.subset(TRAIN))


def test_labels_that_changed_are_told(model: Any):
    changed = GRAPH.with_labels(["ash" if i < 6 else y for i, y in enumerate(GRAPH.labels)])
    other = sum(GRAPH.labels[i] != "ash" for i in range(6) if TRAIN[i])
    told = f"{other} nodes that were trained on have another label here; that of training is used"
    with pytest.warns(DataWarning, match=told):
        found = model.predict_proba(changed)
    np.testing.assert_array_equal(found, model.predict_proba(GRAPH))
    with pytest.warns(DataWarning, match=told):
        model.score(changed)


@pytest.mark.parametrize(
    ("known", "error", "message"),
    [
        ("true", SettingError, "known must be 'train', 'none', or truth values or numbers of nodes; got 'true'"),
        ([True, False], InputError, "known must be 90 truth values, or a list of node numbers from 0 to 89"),
        (TRAIN.astype(int), InputError, "known looks like a mask of 0 and 1"),
        ([], InputError, "none of these has one"),
    ],
)
def test_what_cannot_be_known(model: Any, known: Any, error: type, message: str):
    for ask in (model.predict, model.predict_proba, model.score, model.known_nodes):
        with pytest.raises(error, match=message):
            ask(GRAPH, known=known)
    with pytest.raises(SettingError, match="leave one of the two out"):
        model.predict(GRAPH, forced=True, known="none")


def test_only_the_labels_that_are_named_have_to_be_the_model_s(telling: Any):
    strange = GRAPH.with_labels(["elm", *GRAPH.labels[1:]], [*NAMES, "elm"])
    np.testing.assert_array_equal(telling.predict_proba(strange, known=TRAIN), telling.predict_proba(GRAPH))
    with pytest.raises(InputError, match="'elm' of node 'p0' was never seen in training"):
        telling.predict_proba(strange, known=[0])


# -- scores -------------------------------------------------------------------------------------------


def test_known_nodes_are_not_scored(model: Any):
    rest = GRAPH.with_labels([None if seen else y for y, seen in zip(GRAPH.labels, TRAIN, strict=True)])
    assert model.score(GRAPH) == model.score(rest) == pytest.approx(right(model, model.predict_proba(GRAPH)))
    assert model.evaluate(GRAPH).accuracy == pytest.approx(100 * model.score(GRAPH))
    some = np.arange(N) % 3 == 2
    table = model.predict_proba(GRAPH, known=some)
    expected = (model.classes_[table.argmax(axis=1)] == np.array(GRAPH.labels))[~some].mean()
    assert model.score(GRAPH, known=some) == pytest.approx(expected)
    unknown = model.classes_[model.predict_proba(GRAPH, known="none").argmax(axis=1)] == np.array(GRAPH.labels)
    assert model.score(GRAPH, known="none") == pytest.approx(unknown.mean())


def test_a_score_of_the_training_nodes_alone_is_one_without_their_labels(model: Any):
    seen = GRAPH.with_labels([y if known else None for y, known in zip(GRAPH.labels, TRAIN, strict=True)])
    with pytest.warns(DataWarning, match="every node with a label was trained on: they are scored without"):
        found = model.score(seen)
    assert found == model.score(seen, known="none") < 1
    with pytest.raises(InputError, match="every node with a label is known, so none is left to score"):
        model.score(seen, known=TRAIN)


def test_a_ceiling_is_scored_on_all_that_it_is_told():
    top = kf.StackedNodes(LogisticRegression(), depth=1, folds=3, known="ceiling", n_jobs=1).fit(GRAPH, train=TRAIN)
    expected = (top.classes_[top.predict_proba(GRAPH).argmax(axis=1)] == np.array(GRAPH.labels)).mean()
    assert top.score(GRAPH) == pytest.approx(expected) and not top.known_nodes(GRAPH).any()


@pytest.mark.parametrize("name", ["mixture", "link"])
def test_held_out_nodes_of_the_graph_trained_on_are_scored_with_what_is_known(name: str):
    """While it trains a model sees its held-out nodes as it will see them later."""
    dev = GRAPH.with_labels([None if seen else y for y, seen in zip(GRAPH.labels, TRAIN, strict=True)])
    model = MODELS[name]().set_params(dev_every=1).fit(GRAPH, X_dev=dev, train=TRAIN)
    kept = model.convergence_.dev_scores[model.convergence_.best_iteration]
    assert kept == pytest.approx(model.score(GRAPH)) and kept != pytest.approx(model.score(dev, known="none"))


# -- explanations -------------------------------------------------------------------------------------


def test_an_explanation_is_of_the_answer_with_what_is_known(telling: Any):
    node = int(np.flatnonzero(~TRAIN)[0])
    table = telling.predict_proba(GRAPH)
    answer = telling.explain(GRAPH, node=node)
    assert answer.probability == pytest.approx(table[node].max()) and answer.label == telling.predict(GRAPH)[node]
    without = telling.explain(GRAPH, node=node, known="none")
    assert without.probability == pytest.approx(telling.predict_proba(GRAPH, known="none")[node].max())
    if isinstance(telling, kf.MixtureNodes):
        parents = [one for one in answer.contributions if one.parent is not None]
        assert parents and {one.parent for one in parents} & {*np.flatnonzero(TRAIN).tolist()}
        for one in parents:
            known = bool(TRAIN[one.parent])
            assert (one.marginal.max() > 1 - 1e-9) == known
            assert not known or telling.classes_[one.marginal.argmax()] == GRAPH.labels[one.parent]
    else:
        assert {one.node: one.known for one in answer.neighbours} == {
            one.node: bool(TRAIN[one.node]) for one in answer.neighbours
        }
        assert not any(one.known for one in without.neighbours)


def test_the_label_of_the_node_itself_is_set_aside(telling: Any):
    node = int(np.flatnonzero(TRAIN)[0])
    assert telling.predict_proba(GRAPH)[node].max() == 1 > telling.explain(GRAPH, node=node).probability


# -- model files --------------------------------------------------------------------------------------


def test_they_are_known_after_a_model_was_saved(model: Any, tmp_path: Path):
    model.save(tmp_path / "m")
    again = kf.load_model(tmp_path / "m")
    for graph in (GRAPH, web(order=np.random.default_rng(1).permutation(N)), web(7, ids="q")):
        np.testing.assert_array_equal(again.predict_proba(graph), model.predict_proba(graph))
        np.testing.assert_array_equal(again.known_nodes(graph), model.known_nodes(graph))


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("pool")])  # which came later
def test_a_file_from_before_loads_and_knows_nobody(name: str, trained: dict[str, Any], tmp_path: Path):
    model = trained[name]
    model.save(tmp_path / "new")
    file = read_model_file(tmp_path / "new")
    header = {key: value for key, value in file.header.items() if key != "memory"}
    strings = {key: value for key, value in file.strings.items() if key != "memory.ids"}
    if isinstance(model, kf.DependencyNetwork):
        header["settings"]["known"] = "auto"
    if "stacked" in header:
        header["stacked"]["memory"] = {"fingerprint": "0", "votes": 0}
    write_model_file(tmp_path / "old", header, file.arrays, strings)
    with pytest.warns(DataWarning, match="was written when models did not keep the ids of the nodes trained on"):
        again = kf.load_model(tmp_path / "old")
    assert not again.known_nodes(GRAPH).any()
    np.testing.assert_array_equal(again.predict_proba(GRAPH), model.predict_proba(GRAPH, known="none"))
