"""The link model: nodes alone without links, enumeration on forests, objectives, training, honesty, bad input."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import kinfolk as kf
import pairwise_oracle as oracle
from kinfolk.collective import pairwise
from kinfolk.collective.pairwise import PairTraining, pair_sample, train_pairwise
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.core.training import Progress, TrainingPlan
from kinfolk.errors import ConvergenceWarning, DataWarning, InputError, ModelFileError, NotFittedError, SettingError
from kinfolk.graph.nodes import Memory, Nodes
from kinfolk.inference.loopy import Propagation
from kinfolk.learning.loglinear import TableWeights
from oracles import finite_difference_gradient, ridge
from pairwise_oracle import pairwise_worlds

# weights that are drawn need not settle; tests of what is said look for it themselves
pytestmark = pytest.mark.filterwarnings("ignore:belief propagation did not settle")

TRAININGS = ("bethe", "pseudo", "piecewise")
SEEDS = st.integers(0, 2**32 - 1)


def web(n: int = 60, seed: int = 0, relations: tuple[str, ...] = ("cites",), **changed: Any) -> kf.Graph:
    """Pages of two kinds that mostly cite their own kind; features do not tell the kind of every third."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=n)
    X = (rng.random((n, 6)) < 0.3).astype(float)
    X[:, :2] = np.eye(2)[kind]
    X[::3, :2] = 1
    links = {}
    for name in relations:
        ends = rng.integers(n, size=(4 * n, 2))
        same = kind[ends[:, 0]] == kind[ends[:, 1]]
        kept = ends[(ends[:, 0] < ends[:, 1]) & (same | (rng.random(len(ends)) < 0.05))]
        links[name] = np.unique(kept, axis=0)
    parts = {"features": sparse.csr_array(X), "labels": [("dog", "cat")[k] for k in kind], "relations": links}
    return kf.Graph(**{**parts, "ids": [f"p{i} of {seed}" if seed else f"p{i}" for i in range(n)], **changed})


GRAPH, OTHER = web(), web(60, 1)


def link(**changed: Any) -> kf.LinkModel:
    """All weights are learned, until the tolerance, unless the test says otherwise."""
    return kf.LinkModel(**{"n_jobs": 1, "update": "all", "held_out": 0, **changed})


def fit(model: Any, *data: Any, **more: Any) -> Any:
    """Fitted, whatever the optimiser says of how it ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*(data or (GRAPH,)), **more)


def test_weights_of_links_that_are_not_used_are_told():
    weighed = GRAPH.relations["cites"] * sparse.csr_array(np.arange(1.0, 61.0)[:, None])
    with pytest.warns(DataWarning, match="the weights of links 'cites' are not used by LinkModel; StackedNodes"):
        fit(link(), GRAPH.with_relations({"cites": weighed}))


@pytest.fixture(scope="module")
def fitted() -> kf.LinkModel:
    return fit(link())


def with_weights(model: Any, weights: TableWeights, **changed: Any) -> Any:
    twin = type(model)(**{**model.get_params(), **changed})
    vars(twin).update({name: value for name, value in vars(model).items() if name.endswith("_")})
    twin.weights_ = weights
    return twin


def drawn(model: Any, seed: int, scale: float = 0.7, **changed: Any) -> Any:
    rng, w = np.random.default_rng(seed), model.weights_
    new = lambda part: (scale * rng.standard_normal(part.shape)).astype(np.float32)  # noqa: E731
    return with_weights(model, TableWeights([new(t) for t in w.tables], *map(new, w[1:])), **changed)


def assert_same_weights(one: Any, other: Any) -> None:
    a, b = one.weights_, other.weights_
    for x, y in zip([*a.tables, *a[1:]], [*b.tables, *b[1:]], strict=True):
        np.testing.assert_array_equal(x, y)


# -- without links it is a model of the nodes alone


def softmax(scores: Any) -> Any:
    table = np.exp(scores - scores.max(axis=1, keepdims=True))
    return table / table.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("relations", "training"),
    [
        ([], "bethe"),
        ([], "pseudo"),
        pytest.param(
            [], "piecewise",
        ),
        *((None, training) for training in TRAININGS),
    ],
)  # fmt: skip
def test_without_links_it_is_a_model_of_the_nodes_alone(relations: Any, training: str):
    graph = kf.Graph(GRAPH.features, GRAPH.labels, {"cites": []})
    precise = {"tolerance": 1e-9, "l2": 0.5}
    model = fit(link(relations=relations, training=training, **precise), graph)
    alone = fit(kf.MixtureNodes(relations=[], n_jobs=1, **precise), graph)
    w, table = model.weights_, model.predict_proba(graph, known="none")
    np.testing.assert_allclose(table, softmax(graph.features @ w.tables[0] + w.start), atol=1e-6)
    np.testing.assert_allclose(table, alone.predict_proba(graph, known="none"), atol=2e-3)
    assert model.convergence_.objective == pytest.approx(alone.convergence_.objective, rel=1e-4)
    assert not w.pair.any() and model.inference_report(OTHER if relations == [] else graph).converged.all()


def test_a_graph_without_relations_asks_for_a_choice():
    bare = kf.Graph(GRAPH.features, GRAPH.labels)
    with pytest.raises(InputError, match=r"this graph has no relation.*relations=\[\]"):
        link().fit(bare)
    assert fit(link(relations=[]), bare).score(bare) > 0.6


# -- on forests all is as enumeration says


def graph_of(world: oracle.PairwiseWorld, width: int = 3, labels: Any = None) -> kf.Graph:
    """The edges and groups of a world, with features of its own."""
    n, rng = len(world.node), np.random.default_rng([1, len(world.edges)])
    links = {f"r{r}": world.edges[world.relation == r] for r in range(len(world.pair))}
    X = rng.standard_normal((n, width)).astype(np.float32)
    return kf.Graph(X, labels, links, groups=[str(g) for g in world.groups], classes=["a", "b", "c"])


def world_of(model: Any, graph: kf.Graph, like: oracle.PairwiseWorld) -> oracle.PairwiseWorld:
    """The same edges with the scores that the weights of a model give."""
    w = model.weights_
    node = graph.features.astype(np.float64) @ w.tables[0].astype(np.float64) + w.start
    return replace(like, node=node, pair=w.pair.astype(np.float64), edge_scores=None, labels=like.labels % 3)


def three_classes(n_relations: int) -> Any:
    rng = np.random.default_rng(0)
    links = {f"r{r}": [(0, 1), (r, 4)] for r in range(n_relations)}
    data = kf.Graph(rng.standard_normal((6, 3)), list("abcabc"), links)
    names = [f"r{r}" for r in range(n_relations)]
    return fit(link(relations=names, max_iterations=1, damping=0.0, message_tolerance=1e-12), data)


_THREE: dict[int, Any] = {}


@pytest.mark.parametrize("schedule", ["sequential", "synchronous"])
@settings(max_examples=15)
@given(world=pairwise_worlds(tree=True, max_nodes=5), seed=SEEDS, data=st.data())
def test_on_forests_all_is_exact(schedule: str, world: oracle.PairwiseWorld, seed: int, data: Any):
    n, n_relations = len(world.node), len(world.pair)
    if n_relations not in _THREE:
        _THREE[n_relations] = three_classes(n_relations)
    model = drawn(_THREE[n_relations], seed, schedule=schedule)
    known = data.draw(st.lists(st.sampled_from([None, None, "a", "b", "c"]), min_size=n, max_size=n))
    graph = graph_of(world, labels=known)
    true = world_of(model, graph, world)
    np.testing.assert_allclose(model.predict_proba(graph), oracle.node_marginals(true), atol=1e-5)
    allowed = np.array([[y is None or y == c for c in "abc"] for y in known]).reshape(n, 3)
    true = replace(true, node=np.where(allowed, true.node, -np.inf))
    np.testing.assert_allclose(model.predict_proba(graph, forced=True), oracle.node_marginals(true), atol=1e-5)
    nodes, links = Nodes.of(graph), list(graph.relations)
    model.memory_ = Memory.of(nodes, nodes.labels, links)
    np.testing.assert_allclose(model.predict_proba(graph), oracle.node_marginals(true), atol=1e-5)
    assert model.inference_report(graph).converged.all()


def test_links_there_and_back_on_a_tree_are_exact():
    """An undirected tree, told as a symmetric matrix: what its nodes believe can be worked out exactly."""
    model = three_classes(1)
    pair = 1.5 * np.eye(3, dtype=np.float32)[None]
    model = with_weights(model, model.weights_._replace(tables=[0.7 * np.eye(3, dtype=np.float32)], pair=pair))
    tree, n = np.array([(i, i + 1) for i in range(5)]), 6
    X = np.random.default_rng(1).standard_normal((n, 3)).astype(np.float32)
    graph = kf.Graph(X, None, {"r0": np.vstack([tree, tree[:, ::-1]])}, classes=["a", "b", "c"])
    node = X.astype(np.float64) @ model.weights_.tables[0] + model.weights_.start
    both = (pair + pair.transpose(0, 2, 1)).astype(np.float64)
    zeros = np.zeros(n, np.int64)
    true = oracle.PairwiseWorld(node, tree, np.zeros(5, np.int64), both, None, zeros, zeros)
    np.testing.assert_allclose(model.predict_proba(graph), oracle.node_marginals(true), atol=1e-4)


# -- the objective that training goes by


def captured(sample: Any, labels: Any, weights: Any, n_labels: int, training: str, flat: Any, l2: float) -> Any:
    """Value and gradient at `flat` in double precision, as the optimiser would be given them."""
    caught = {}

    def catch(objective: Any, start: Any, plan: Any, watch: Any, began: float) -> Any:
        caught["objective"] = objective
        return start, None

    plan = TrainingPlan(l2, 0.0, 10, 1e-6, 5, 5, 0, 1, training)
    how = PairTraining(training, Propagation(tolerance=1e-12, limit=500))
    original, pairwise.optimise = pairwise.optimise, catch
    try:
        train_pairwise(sample, labels, weights, n_labels, how, sample.shape(n_labels).split(flat), plan, None, None)
    finally:
        pairwise.optimise = original
    gradient = np.zeros(len(flat))
    return caught["objective"](flat, gradient), gradient


def truth(world: oracle.PairwiseWorld, training: str) -> float:
    if training == "bethe":
        return oracle.loss(world)
    return -(oracle.pseudo_log_likelihood if training == "pseudo" else oracle.piecewise_log_likelihood)(world)


@pytest.mark.parametrize("training", TRAININGS)
@settings(max_examples=8)
@given(data=st.data(), seed=SEEDS, with_features=st.booleans())
def test_training_goes_by_the_exact_objective(training: str, data: Any, seed: int, with_features: bool):
    """Forests for bethe, all graphs for the others; start scores; features on edges of the last relation."""
    rng, bethe = np.random.default_rng(seed), training == "bethe"
    world = data.draw(pairwise_worlds(tree=bethe, unknown=bethe, max_nodes=4))
    if training == "piecewise":  # two edges between the same nodes are one factor of the library's, two of the oracle's
        pairs = np.sort(world.edges, axis=1)
        assume(len(np.unique(pairs, axis=0)) == len(pairs))
    by = np.argsort(world.relation, kind="stable")
    world = replace(world, edges=world.edges[by], relation=world.relation[by])
    (n, n_labels), R = world.node.shape, len(world.pair)
    edges = [world.edges[world.relation == r] for r in range(R)]
    Z = rng.standard_normal((len(edges[-1]), 2)).astype(np.float32).astype(np.float64)
    with_features = with_features and len(Z) > 0
    rows = [None] * (R - 1) + [sparse.csr_array(Z) if with_features else None]
    X = rng.standard_normal((n, 2)).astype(np.float32).astype(np.float64)
    starts = np.flatnonzero(rng.random(n) < 0.5)
    sample = pair_sample(sparse.csr_array(X), edges, rows, world.groups, starts)
    shape = sample.shape(n_labels)
    flat = 0.7 * rng.standard_normal(shape.size)

    def value(flat: Any) -> float:
        w = shape.split(flat)
        node = X @ w.tables[0]
        node[starts] += w.start
        extra = np.zeros((len(world.edges), n_labels, n_labels))
        if with_features:
            extra[world.relation == R - 1] = (Z @ w.rows).reshape(-1, n_labels, n_labels)
        return truth(replace(world, node=node, pair=w.pair, edge_scores=extra), training) + ridge(flat, 0.3)

    found, gradient = captured(sample, world.labels.astype(np.int32), np.ones(n), n_labels, training, flat, 0.3)
    assert found == pytest.approx(value(flat), rel=1e-8, abs=1e-8)
    np.testing.assert_allclose(gradient, finite_difference_gradient(value, flat), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("training", TRAININGS)
def test_a_group_counts_as_often_as_its_nodes_say(training: str):
    one, two = np.array([[0, 1], [1, 2]]), np.array([[3, 4]])
    X, labels = np.random.default_rng(0).standard_normal((5, 2)).astype(np.float32), np.array([0, 1, 0, 1, 1], np.int32)

    def value(edges: Any, nodes: slice, weights: Any) -> float:
        groups = np.array([0, 0, 0, 1, 1])[nodes]
        sample = pair_sample(sparse.csr_array(X[nodes]), [edges], [None], groups, np.empty(0, np.int64))
        flat = np.linspace(-1, 1, sample.shape(2).size)
        return captured(sample, labels[nodes], weights, 2, training, flat, 0.0)[0]

    both = value(np.vstack([one, two]), slice(0, 5), np.array([2.0, 2, 2, 0.5, 0.5]))
    apart = 2 * value(one, slice(0, 3), np.ones(3)) + 0.5 * value(two - 3, slice(3, 5), np.ones(2))
    assert both == pytest.approx(apart, rel=1e-9)


# -- training


@pytest.mark.parametrize("training", TRAININGS)
def test_training_starts_from_the_nodes_and_lowers_the_objective(training: str, monkeypatch: pytest.MonkeyPatch):
    caught, original = {}, pairwise.optimise

    def catch(objective: Any, start: Any, *more: Any) -> Any:
        caught.update(start=objective.shape.split(start.copy()), value=objective(start, np.zeros_like(start)))
        return original(objective, start, *more)

    monkeypatch.setattr(pairwise, "optimise", catch)
    model = fit(link(training=training))
    assert not caught["start"].pair.any() and np.abs(caught["start"].tables[0]).max() > 0.1
    assert model.convergence_.objective < caught["value"] and model.score(OTHER) > 0.7
    same = model.weights_.pair[0]
    assert same[0, 0] + same[1, 1] > same[0, 1] + same[1, 0] + 0.5, "kind links to kind"
    assert (model.training_report_ is None) == (training != "bethe")


def test_links_are_worth_having(fitted: Any):
    alone = fit(link(relations=[]))
    assert fitted.score(OTHER) > alone.score(OTHER) + 0.1
    table = fitted.predict_proba(OTHER)
    assert table.shape == (60, 2) and (table >= 0).all()
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-9)
    assert fitted.predict(OTHER).tolist() == [fitted.classes_[k] for k in table.argmax(axis=1)]
    accuracy = fitted.evaluate(OTHER).accuracy
    assert accuracy == pytest.approx(100 * fitted.score(OTHER))


@pytest.mark.parametrize("settings_", [*({"training": t} for t in TRAININGS), {"l1": 0.05, "damping": 0.0}], ids=repr)
def test_weights_do_not_depend_on_the_number_of_threads(settings_: Any):
    one, two = (fit(link(**settings_, n_jobs=n)) for n in (1, 2))
    assert_same_weights(one, two)
    np.testing.assert_array_equal(one.predict_proba(OTHER), two.predict_proba(OTHER))


def test_the_same_seed_gives_the_same_weights(fitted: Any):
    assert_same_weights(fit(link()), fitted)
    np.testing.assert_allclose(fit(link(random_state=7)).predict_proba(OTHER), fitted.predict_proba(OTHER), atol=0.05)
    dense = kf.Graph(GRAPH.features.toarray(), GRAPH.labels, GRAPH.relations)
    assert_same_weights(fit(link(), dense), fitted)


def test_held_out_data_keep_the_best_weights():
    model = fit(link(dev_every=1, patience=2, tolerance=0), GRAPH, X_dev=OTHER)
    outcome = model.convergence_
    best = max(outcome.dev_scores.values())
    assert outcome.dev_scores[outcome.best_iteration] == best == pytest.approx(model.score(OTHER))
    assert outcome.status == "stopped" and outcome.iterations == outcome.best_iteration + 2


@pytest.mark.parametrize("stage", ["warm start", "node model", "bethe"])
def test_a_callback_may_stop(stage: str):
    seen: list[Progress] = []

    def watch(progress: Progress) -> bool:
        seen.append(progress)
        return progress.stage == stage and progress.iteration == 2

    model = fit(link(tolerance=1e-8), callback=watch)
    assert model.convergence_.status == "stopped" and len(model.predict(OTHER)) == 60
    assert (seen[-1].stage, seen[-1].iteration) == (stage, 2), "one word is enough"


def test_the_limit_is_one_warning_at_the_line_that_called_fit():
    with pytest.warns(ConvergenceWarning, match=r"hit the iteration limit.*Raise `max_iterations") as told:
        model = link(max_iterations=2, tolerance=0).fit(GRAPH)
    assert [w.filename for w in told] == [__file__] and model.convergence_.status == "limit"


def test_an_interrupted_fit_leaves_the_model_as_it_was():
    def interrupt(progress: Progress) -> None:
        if progress.stage == "bethe":
            raise KeyError("stop")

    fresh = link()
    with pytest.raises(KeyError):
        fit(fresh, callback=interrupt)
    assert not hasattr(fresh, "weights_") and not hasattr(fresh, "links_")


# -- whether belief propagation settled is told

TWO = kf.Graph(
    sparse.vstack([GRAPH.features, OTHER.features, GRAPH.features[:3]]),
    GRAPH.labels + OTHER.labels + GRAPH.labels[:3],
    {"cites": sparse.block_diag([GRAPH.relations["cites"], OTHER.relations["cites"], sparse.csr_array((3, 3))])},
    groups=["one"] * 60 + ["two"] * 60 + ["three"] * 3,
)


def test_what_did_not_settle_is_told_once_a_call(fitted: Any, caplog: pytest.LogCaptureFixture):
    model = with_weights(fitted, fitted.weights_, max_rounds=1)
    for call in (model.predict, model.predict_proba, model.score, model.evaluate, lambda X: model.explain(X, 70)):
        with pytest.warns(ConvergenceWarning) as caught:
            call(TWO)
        (told,) = (str(one.message) for one in caught)
        assert told.startswith("belief propagation did not settle in 2 of 3 groups (0, 1; largest change")
        assert caught[0].filename == __file__
    report = model.inference_report(TWO)
    assert report.not_converged.tolist() == [0, 1] and report.rounds.tolist() == [1, 1, 1]
    calm = fitted.inference_report(TWO)
    assert calm.converged.all() and str(calm).startswith("belief propagation settled in 3 of 3 groups")
    caplog.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(TWO)
    assert not caplog.records


def test_training_that_did_not_settle_is_told_once(caplog: pytest.LogCaptureFixture):
    with pytest.warns(ConvergenceWarning) as caught:
        model = link(max_rounds=1).fit(TWO, callback=lambda progress: progress.stage == "bethe")
    told = [one for one in caught if "belief propagation did not settle in" in str(one.message)]
    assert len(model.training_report_.not_converged) and len(told) == 1
    assert fit(link(), TWO).training_report_.converged.all() and not caplog.records


def test_the_report_of_training_is_of_the_weights_that_were_kept(monkeypatch: pytest.MonkeyPatch):
    """Held-out data keep the first weights; belief propagation of the last ones is what is told."""
    scores = iter([0.0, 1.0, *[0.0] * 50])
    monkeypatch.setattr("kinfolk.graph.link_model.node_accuracy", lambda gold, beliefs: next(scores))
    model = fit(link(dev_every=1, patience=5, tolerance=0), GRAPH, X_dev=OTHER)
    assert model.convergence_.best_iteration == 1
    assert model.training_report_.change.tolist() == model.inference_report(GRAPH, known="none").change.tolist()


def test_training_ends_where_messages_no_longer_settle():
    """Links between unlike nodes as often as between like ones, features that say nothing: a loss of messages that
    never settle is no fixed point's."""
    rng = np.random.default_rng(0)
    ends = np.unique(np.sort(rng.integers(40, size=(400, 2)), axis=1), axis=0)
    kind = rng.integers(2, size=40)
    apart = ends[kind[ends[:, 0]] != kind[ends[:, 1]]]
    graph = kf.Graph(np.ones((40, 1)), [("dog", "cat")[k] for k in kind], {"links": apart})
    with pytest.warns(ConvergenceWarning, match="could not lower the objective further") as told:
        model = link(max_rounds=3, damping=0.0, l2=0.01).fit(graph)
    assert model.convergence_.status == "stalled" and model.convergence_.iterations < 5
    assert any("Belief propagation did not settle" in str(one.message) for one in told)


def test_damping_helps_where_messages_oscillate():
    """A complete graph of nodes that want to differ, with two labels."""
    edges = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    graph = kf.Graph([[0.1], [-0.2], [0.05], [-0.1]], list("abab"), {"r": edges})
    model = fit(link(max_iterations=1), graph)
    pair = np.array([[[-3.0, 3.0], [3.0, -3.0]]], np.float32)
    weights = model.weights_._replace(tables=[np.array([[1.0, 0.0]], np.float32)], pair=pair)
    wild = with_weights(model, weights, schedule="synchronous", damping=0.0)
    assert wild.inference_report(graph, known="none").not_converged.tolist() == [0]
    calm = with_weights(model, weights, schedule="synchronous", damping=0.7, max_rounds=3000)
    assert calm.inference_report(graph, known="none").converged.all()


# -- answers


@pytest.mark.parametrize("scale", [0.5, 5.0, 100.0])
def test_rows_of_probabilities_sum_to_one(scale: float, fitted: Any):
    for seed in range(5):
        table = drawn(fitted, seed, scale, max_rounds=20).predict_proba(OTHER)
        assert (table >= 0).all()
        np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-9)


def test_groups_do_not_know_of_each_other(fitted: Any):
    apart = np.concatenate([fitted.predict_proba(g, known="none") for g in (GRAPH, OTHER, GRAPH.subset([]))])
    np.testing.assert_allclose(fitted.predict_proba(TWO, known="none")[:120], apart, atol=1e-12)


def test_forced_labels_are_kept_and_seen_from_both_ends(fitted: Any):
    """0 -> 1 -> 2, the middle one known: both of its neighbours hear of it, with or against the link."""
    graph = kf.Graph(np.ones((4, 6)), [None, "cat", None, None], {"cites": [(0, 1), (1, 2)]}, classes=["cat", "dog"])
    free, forced = fitted.predict_proba(graph), fitted.predict_proba(graph, forced=True)
    assert forced[1].tolist() == [1, 0] and fitted.predict(graph, forced=True)[1] == "cat"
    assert (forced[[0, 2], 0] > free[[0, 2], 0] + 0.1).all()
    np.testing.assert_allclose(forced[3], free[3], atol=1e-12)
    np.testing.assert_array_equal(free, fitted.predict_proba(graph.with_labels(None)))


def test_forced_labels_are_kept_without_links():
    model = fit(link(relations=[]))
    assert model.predict(OTHER, forced=True).tolist() == OTHER.labels


def test_labels_of_some_nodes_help_the_others(fitted: Any):
    """Pages that say nothing, every other one with its label."""
    gold, known = np.array(OTHER.labels), [y if i % 2 else None for i, y in enumerate(OTHER.labels)]
    some = kf.Graph(np.zeros((60, 6)), known, OTHER.relations)
    free, forced = fitted.predict(some), fitted.predict(some, forced=True)
    assert (forced[1::2] == gold[1::2]).all() and (forced == gold)[::2].mean() > (free == gold)[::2].mean() + 0.2


@pytest.mark.parametrize("training", TRAININGS)
def test_unlabelled_nodes_take_part_as_neighbours(training: str):
    labels = [y if i < 40 else None for i, y in enumerate(GRAPH.labels)]
    hidden = fit(link(training=training), GRAPH.with_labels(labels))
    for train in (np.arange(40), np.arange(60) < 40):
        assert_same_weights(fit(link(training=training), train=train), hidden)
    assert hidden.score(OTHER) > 0.6
    only_cats = fit(link(training=training), train=np.flatnonzero(np.array(GRAPH.labels) == "cat"))
    assert list(only_cats.classes_) == ["cat"] and (only_cats.predict_proba(OTHER) == 1).all()


# -- weights of classes and nodes


def test_twice_the_weight_and_twice_the_ridge_are_the_same_model():
    one = fit(link(tolerance=1e-9))
    two = fit(link(tolerance=1e-9, l2=2.0), GRAPH, sample_weight=np.full(60, 2.0))
    np.testing.assert_allclose(two.predict_proba(OTHER), one.predict_proba(OTHER), atol=2e-3)


@pytest.mark.parametrize("training", ["pseudo", "piecewise"])
def test_a_heavier_class_is_found_more_often(training: str):
    plain = fit(link(training=training)).predict_proba(OTHER)
    heavy = fit(link(training=training, class_weight={"cat": 20.0, "dog": 1.0}, l2=10.5)).predict_proba(OTHER)
    assert heavy[:, 0].mean() > plain[:, 0].mean() + 0.03


@pytest.mark.parametrize("training", ["pseudo", "piecewise"])
def test_a_node_of_weight_zero_has_no_say(training: str):
    """Its label may be the test label that nobody is to look at."""
    weights = (np.arange(60) < 30).astype(float)
    turned = ["dog" if y == "cat" and i >= 30 else "cat" if i >= 30 else y for i, y in enumerate(GRAPH.labels)]
    one = fit(link(training=training), GRAPH, sample_weight=weights)
    other = fit(link(training=training), GRAPH.with_labels(turned), sample_weight=weights)
    if training == "piecewise":  # an edge counts as often as its ends on average
        np.testing.assert_allclose(one.weights_.tables[0], other.weights_.tables[0], atol=0.01)
    elif training == "pseudo":  # neighbours' labels are given
        assert one.score(GRAPH.subset(np.arange(30))) > 0.7
    else:
        np.testing.assert_allclose(one.predict_proba(OTHER), other.predict_proba(OTHER), atol=0.02)


# -- links on top of the nodes, learned for as long as nodes that were kept back are better with them

LINKS = {"update": "links", "held_out": 0.25}
SCHOOLS = web(groups=["north"] * 30 + ["south"] * 30, relations=()).with_relations(
    {"cites": [(i, j) for i, j in np.argwhere(GRAPH.relations["cites"].toarray()) if (i < 30) == (j < 30)]}
)


def nodes_alone(graph: kf.Graph = GRAPH) -> Any:
    return fit(link(relations=[]), graph)


@pytest.mark.parametrize("beliefs", ["bethe", "trw"])
def test_learning_links_leaves_the_nodes_as_they_are(beliefs: str):
    model, alone = fit(link(beliefs=beliefs, **{**LINKS, "held_out": 0})), nodes_alone()
    np.testing.assert_allclose(model.weights_.tables[0], alone.weights_.tables[0], atol=1e-2)
    assert np.abs(model.weights_.pair).max() > 0.1 and model.score(OTHER) > alone.score(OTHER)


@pytest.mark.parametrize("update", ["links", "all"])
def test_where_no_iteration_is_better_links_have_no_say(update: str, monkeypatch: pytest.MonkeyPatch):
    likes_none = lambda self, sample, known, labels: lambda found: -float(np.abs(found.pair).sum())  # noqa: E731
    monkeypatch.setattr(kf.LinkModel, "_kept_back_scorer", likes_none)
    model = fit(link(**{**LINKS, "update": update}))
    assert not model.weights_.pair.any() and model.convergence_.iterations == 0
    np.testing.assert_allclose(model.predict_proba(OTHER), nodes_alone().predict_proba(OTHER), atol=1e-2)


@pytest.mark.parametrize(("graph", "parts"), [(GRAPH, 4), (SCHOOLS, 2)], ids=["nodes", "graphs"])
@pytest.mark.parametrize("scores", ["cross-fitted", "own"])
def test_links_are_learned_for_as_long_as_kept_back_nodes_gain(graph: Any, parts: int, scores: str):
    model = fit(link(**LINKS, scores=scores), graph)
    curves = [dict(stage.held_out) for stage in model.convergence_.stages if stage.name == "kept back: bethe"]
    assert len(curves) == parts and model.convergence_.iterations == pairwise.best_steps(curves)
    assert_same_weights(fit(link(**LINKS, scores=scores, n_jobs=2), graph), model)


# -- relations


def test_relations_may_be_chosen():
    graph = web(relations=("cites", "near"))
    assert fit(link(relations=["near"]), graph).links_ == ("near",)
    both = fit(link(), graph)
    assert both.links_ == ("cites", "near") and both.weights_.pair.shape == (2, 2, 2)
    with pytest.raises(InputError, match=r"no relation 'far' here; there are: 'cites', 'near'"):
        link(relations=["far"]).fit(graph)


def test_of_two_relations_that_are_each_other_s_reverse_one_is_used(fitted: Any):
    links = GRAPH.relations["cites"]
    both = kf.Graph(GRAPH.features, GRAPH.labels, {"cites": links, "cited_by": links.T.tocsr()})
    model = fit(link(), both)
    assert model.links_ == ("cites",)
    assert_same_weights(model, fitted)


def test_relations_that_come_and_go_at_prediction(fitted: Any, caplog: pytest.LogCaptureFixture):
    model = fit(link(), web(relations=("cites", "near")))
    told = "trained on the links 'cites' and 'near', and this graph has 'cites': 'near' is missing"
    for ask in (model.predict, model.score, model.inference_report):
        with pytest.raises(InputError, match=told):
            ask(GRAPH)
    assert model.predict_proba(OTHER.with_relations({"near": []})).shape == (60, 2)
    caplog.clear()
    more = kf.Graph(GRAPH.features, None, {**GRAPH.relations, "new": [(0, 1)]})
    with caplog.at_level(logging.WARNING, "kinfolk"):
        table = fitted.predict_proba(more, known="none")
    assert "relation 'new' was not there in training, and is left out" in caplog.text
    np.testing.assert_array_equal(table, fitted.predict_proba(GRAPH, known="none"))
    caplog.clear()
    chosen = fit(link(relations=["cites"]), web(relations=("cites", "near")))
    chosen.predict(web(relations=("cites", "near")), known="none")
    assert not caplog.records, "left out by choice"


def test_links_across_groups_are_refused(fitted: Any):
    split = {"groups": ["north"] * 30 + ["south"] * 30}
    for call in (link().fit, fitted.predict, fitted.score):
        with pytest.raises(InputError, match=r"leads from '.*' in group '.*th' to '.*' in group '.*th'"):
            call(web(**split))


def relational(pairs: list[tuple[int, int]], data: Any = None) -> kf.Relational:
    ends = np.array(pairs).T
    links = sparse.csr_array((np.ones(len(pairs)) if data is None else data, tuple(ends)), shape=(4, 4))
    return kf.Relational(np.eye(4), [0, 1, 0, 1], ["a", "b"], {"p": links})


def test_a_relational_works_as_a_graph_does():
    data = relational([(1, 0), (2, 1), (3, 1)], [1.0, 0.0, 1.0])
    graph = kf.Graph(np.eye(4), list("abab"), {"p": [(1, 0), (3, 1)]})
    one, other = fit(link(), data), fit(link(), graph)
    assert_same_weights(one, other)
    np.testing.assert_array_equal(one.predict_proba(data), other.predict_proba(graph))


def test_self_loops_are_refused():
    for data in (relational([(0, 0), (1, 0)]), relational([(1, 0), (2, 2)])):
        with pytest.raises(InputError, match=r"itself|own|self loop"):
            fit(link(), data)


# -- data and settings that cannot be


def test_graphs_of_nothing(fitted: Any):
    empty = GRAPH.subset([])
    assert len(fitted.predict(empty)) == 0 and fitted.predict_proba(empty).shape == (0, 2)
    assert str(fitted.inference_report(empty)) == "belief propagation settled in 0 of 0 groups; nothing to do"
    single = GRAPH.subset([3])
    assert fitted.predict_proba(single).shape == (1, 2)
    assert fit(link(), kf.Graph([[1.0]], ["a"], {"r": []})).predict(kf.Graph([[1.0]], None, {"r": []})) == ["a"]


def test_one_class_only():
    graph = kf.Graph(np.eye(3), ["a"] * 3, {"r": [(0, 1), (1, 2), (2, 0)]})
    for training in TRAININGS:
        np.testing.assert_allclose(fit(link(training=training), graph).predict_proba(graph), 1)


def test_labels_that_cannot_be_scored_or_trained_on(fitted: Any):
    for call in (link().fit, fitted.score, fitted.evaluate):
        with pytest.raises(InputError, match="a graph brings its own labels"):
            call(GRAPH, GRAPH.labels)
    with pytest.raises(InputError, match="needs labels"):
        fitted.score(OTHER.with_labels(None))
    strange = OTHER.with_labels(["cow"] + OTHER.labels[1:], ["cat", "cow", "dog"])
    with pytest.raises(InputError, match=r"'cow' of node 'p0 of 1' was never seen in training"):
        fitted.predict(strange, forced=True)
    assert len(fitted.predict(strange)) == 60, "labels are looked at only when asked"
    missed = fitted.predict(OTHER)[0] == OTHER.labels[0]
    assert fitted.score(strange) == pytest.approx(fitted.score(OTHER) - missed / 60), "a miss"
    assert fitted.score(OTHER.with_labels(OTHER.labels, ["dog", "emu", "cat"])) == fitted.score(OTHER)
    for graph, train in ((GRAPH.with_labels(None), None), (GRAPH, np.zeros(60, bool)), (GRAPH.subset([]), None)):
        with pytest.raises(InputError, match="none of the nodes to train on has one"):
            link().fit(graph, train=train)
    with pytest.raises(InputError, match="train must be 60 truth values"):
        link().fit(GRAPH, train=[99])
    for weights in ([1.0], [-1.0] * 60, np.zeros(60), ["x"] * 60):
        with pytest.raises(InputError, match="sample_weight must"):
            link().fit(GRAPH, sample_weight=weights)


def test_held_out_data_without_labels_are_told_before_training():
    seen: list[Any] = []
    with pytest.raises(InputError, match="needs labels"):
        fit(link(), GRAPH, X_dev=OTHER.with_labels(None), callback=seen.append)
    assert not seen


@pytest.mark.parametrize("what", [[["Kim", "left"]], np.eye(3), None], ids=["sentences", "array", "nothing"])
def test_what_is_no_graph_is_told(what: Any, fitted: Any):
    for call in (link().fit, fitted.predict, fitted.score):
        with pytest.raises(InputError, match=r"[Gg]raph"):
            call(what)


def test_features_are_matched_by_name_or_number(fitted: Any):
    names = [f"f{i}" for i in range(6)]
    model, order, X = fit(link(), web(feature_names=names)), [3, 1, 5, 0, 2, 4], OTHER.features.toarray()
    straight = kf.Graph(X, None, OTHER.relations, feature_names=names)
    shuffled = kf.Graph(X[:, order], None, OTHER.relations, feature_names=[names[i] for i in order])
    np.testing.assert_allclose(model.predict_proba(shuffled), model.predict_proba(straight), atol=1e-6)
    with pytest.raises(InputError, match="expected 6 features, got 5"):
        fitted.predict(kf.Graph(X[:, :5], None, OTHER.relations))


BAD = {
    "training": ("joint", "'bethe', 'pseudo' or 'piecewise'; got 'joint'"),
    "relations": ("cites", "a list of names, or None; got 'cites'"),
    "schedule": ("random", "'sequential' or 'synchronous'; got 'random'"),
    "beliefs": ("mean field", "'bethe' or 'trw'; got 'mean field'"),
    "damping": (-0.1, "a number from 0 to below 1; got -0.1"),
    "max_rounds": (1.5, "a whole number from 1 to 100000; got 1.5"),
    "message_tolerance": ("small", "got 'small'"),
    "l2": (-1.0, "got -1.0"),
    "l1": (float("inf"), "got inf"),
    "tolerance": (None, "got None"),
    "max_iterations": (0, "a whole number of 1 or more"),
    "patience": (0, "a whole number of 1 or more"),
    "dev_every": (True, "a whole number of 1 or more"),
    "random_state": (-1, "a whole number of 0 or more, or None"),
}


@pytest.mark.parametrize("name", BAD)
def test_settings_that_cannot_be(name: str):
    value, message = BAD[name]
    model = link(**{name: value})
    with pytest.raises(SettingError) as caught:
        model.fit(GRAPH)
    assert str(caught.value).startswith(f"LinkModel({name}=...) must be ") and message in str(caught.value)
    assert not hasattr(model, "weights_")


def test_more_settings_that_cannot_be():
    for settings_, message in (
        ({"class_weight": {"cow": 1.0}}, "class_weight names 'cow'"),
        ({"class_weight": "even"}, "class_weight must be a dict"),
        ({"n_jobs": 0}, r"n_jobs=...\) must be a positive number"),
    ):
        with pytest.raises(SettingError, match=message):
            link(**settings_).fit(GRAPH)
    with pytest.raises(TypeError):
        kf.LinkModel(depth=3)
    with pytest.raises(SettingError, match="LinkModel has no setting 'warm_start'"):
        link().set_params(warm_start=True)
    assert repr(kf.LinkModel()) == "LinkModel()" and clone(link(damping=0.5)).damping == 0.5


def test_nothing_is_predicted_before_training():
    model = link()
    calls = (model.predict, model.predict_proba, model.score, model.evaluate, model.inference_report)
    for call in (*calls, lambda X: model.save("nowhere"), lambda X: model.classes_):
        with pytest.raises(NotFittedError, match="LinkModel is not trained yet"):
            call(GRAPH)


# -- files

FILE = "m.kinfolk"
SAVED: dict[str, tuple[dict[str, Any], Any]] = {
    "plain": ({}, GRAPH),
    "names": ({"training": "pseudo", "damping": np.float64(0.1)}, web(feature_names=["é", "f f", "", "x", "y", "z"])),
    "chosen": ({"relations": ["near"], "class_weight": {"cat": 2.0}}, web(relations=("cites", "near"))),
    "nodes alone": ({"relations": []}, GRAPH),
    "relational": ({"max_rounds": np.int64(50)}, relational([(1, 0), (2, 1)])),
}


@pytest.mark.parametrize(("settings_", "data"), SAVED.values(), ids=SAVED.keys())
def test_a_model_comes_back_as_it_was(settings_: Any, data: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    model = fit(link(**settings_), data)
    model.save(tmp_path / FILE)
    loaded = kf.load_model(tmp_path / FILE, kind="nodes")
    assert type(loaded) is kf.LinkModel and loaded.get_params() == model.get_params()
    for how in ({"known": "none"}, {"forced": True}):
        np.testing.assert_array_equal(loaded.predict_proba(data, **how), model.predict_proba(data, **how))
    assert list(loaded.classes_) == list(model.classes_) and str(loaded.convergence_) == str(model.convergence_)
    assert loaded.node_columns_ == model.node_columns_
    assert loaded.score(data, known="none") == model.score(data, known="none")
    assert not caplog.records, "relations left out by choice are known to be so"
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / FILE).read_bytes()
    assert_same_weights(fit(loaded, data), model)
    with pytest.raises(ModelFileError, match=FILE):
        kf.load_model(tmp_path / FILE, kind="tokens")


def _shorter(name: str) -> Any:
    return lambda header, arrays, strings: arrays.update({name: arrays[name][1:]})


CHANGES: dict[str, Any] = {
    **{f"{part} too short": _shorter(f"pairwise.{part}") for part in ("table", "start", "pair")},
    "rows of nothing": lambda h, a, s: a.update({"pairwise.rows": np.zeros((1, 4), np.float32)}),
    "no table": lambda h, a, s: a.pop("pairwise.table"),
    "no relations": lambda h, a, s: h.pop("relations"),
    "a link missing": lambda h, a, s: h["relations"].update(links=[]),
    "a feature missing": lambda h, a, s: s["columns"].pop(),
    "no columns": lambda h, a, s: s.pop("columns"),
    "columns by number": lambda h, a, s: h.update(columns=9),
    "a class missing": lambda h, a, s: h["labels"]["classes"].pop(),
    "a model of tokens": lambda h, a, s: h.update(method="SkipChainCRF"),
    "another method": lambda h, a, s: h.update(method="MixtureNodes"),
    "another kind": lambda h, a, s: h.update(kind="tokens"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / FILE
    fit(link(), web(feature_names=list("uvwxyz"))).save(path)
    return path


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_parts_that_do_not_fit_together(change: Any, saved: Path, tmp_path: Path):
    file = read_model_file(saved)
    header, arrays = file.header, dict(file.arrays)
    strings = {name: list(names) for name, names in file.strings.items()}
    change(header, arrays, strings)
    write_model_file(tmp_path / FILE, header, arrays, strings)
    with pytest.raises(ModelFileError, match=str(tmp_path / FILE)) as caught:
        kf.load_model(tmp_path / FILE)
    assert "\n" not in str(caught.value)
