"""A mixture of parents on nodes: graphs in random orders, relations that are a DAG, and what may be wrong with them."""

from __future__ import annotations

import logging
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from scipy import sparse, special

import kinfolk as kf
import mixture_oracle as oracle
from kinfolk.core.training import Progress
from kinfolk.errors import ConvergenceWarning, DataWarning, InputError, SettingError
from kinfolk.graph.nodes import Known, Nodes

TOKENS, LABELS = [["Kim", "left"]], [["B-PER", "O"]]


def web(n: int = 40, seed: int = 0, relations: tuple[str, ...] = ("cites",), **changed: Any) -> kf.Graph:
    """Pages of two kinds that mostly cite their own kind; features tell the kind of every other page only."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=n)
    X = (rng.random((n, 6)) < 0.3).astype(float)
    X[np.arange(n), kind] = 1
    X[::2, :2] = 1
    links = {}
    for name in relations:
        ends = rng.integers(n, size=(6 * n, 2))
        same = kind[ends[:, 0]] == kind[ends[:, 1]]
        kept = ends[(ends[:, 0] != ends[:, 1]) & (same | (rng.random(len(ends)) < 0.05))]
        links[name] = np.unique(kept, axis=0)
    parts = {"features": sparse.csr_array(X), "labels": [("dog", "cat")[k] for k in kind], "relations": links}
    return kf.Graph(**{**parts, "ids": [f"p{i} of {seed}" if seed else f"p{i}" for i in range(n)], **changed})


GRAPH, OTHER = web(), web(30, 1)


def mixture(**changed: Any) -> kf.MixtureNodes:
    return kf.MixtureNodes(**{"orders": 3, "predict_orders": 10, "n_jobs": 1, **changed})


@pytest.fixture(scope="module")
def fitted() -> kf.MixtureNodes:
    return mixture().fit(GRAPH)


def dag_of(pairs: Any, weights: Any = None, groups: Any = None, **more: Any) -> kf.Relational:
    """Six nodes; rows (child, parent)."""
    ends = np.array(pairs, int).reshape(-1, 2)
    data = np.ones(len(ends)) if weights is None else np.array(weights, float)
    links = {"p": sparse.csr_array((data, (ends[:, 0], ends[:, 1])), shape=(6, 6)), **more}
    return kf.Relational(np.random.default_rng(3).random((6, 3)), np.arange(6) % 2, ["a", "b"], links, groups)


CHAIN = [(1, 0), (2, 1), (2, 0), (5, 3)]


# -- graphs, put in random orders


def test_links_in_circles_are_learned_from(fitted: Any):
    assert list(fitted.classes_) == ["cat", "dog"]
    assert fitted.parents_.names == ("cites (outgoing)", "cites (incoming)")
    alone = mixture().fit(kf.Graph(GRAPH.features, GRAPH.labels, {"cites": []}))
    assert fitted.score(OTHER) > alone.score(kf.Graph(OTHER.features, OTHER.labels, {"cites": []})) + 0.1
    table = fitted.predict_proba(OTHER)
    assert table.shape == (30, 2) and (table >= 0).all()
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-9)
    assert fitted.predict(OTHER).tolist() == [fitted.classes_[k] for k in table.argmax(axis=1)]
    accuracy = fitted.evaluate(OTHER).accuracy
    assert accuracy == pytest.approx(100 * fitted.score(OTHER))


SETTINGS: list[dict[str, Any]] = [
    {},
    {"training": "separate"},
    {"training": "conditional", "everybody_starts": True},
    {"mixing": "learned"},
    {"mixing": "learned", "gate_folds": 0, "parent_features": "none"},
    {"training": "crossfit"},
    {"mixing": {"cites": 2, "start": 1}, "parent_features": "shared"},
    {"class_weight": "balanced", "l1": 0.01},
]


@pytest.mark.parametrize("settings_", SETTINGS, ids=repr)
def test_weights_do_not_depend_on_the_number_of_threads(settings_: Any):
    one, two = (mixture(**settings_, n_jobs=n, tolerance=0.1).fit(GRAPH) for n in (1, 2))
    a, b = one.weights_, two.weights_
    for x, y in zip([*a.tables, *a[1:]], [*b.tables, *b[1:]], strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(one.predict_proba(OTHER), two.predict_proba(OTHER))
    assert one.score(OTHER) > 0.6


def test_cross_fitted_training_of_nodes_keeps_the_weights_of_features_but_for_a_factor():
    separate, crossfit = (mixture(training=t).fit(GRAPH) for t in ("separate", "crossfit"))
    for before, after in zip(separate.weights_.tables, crossfit.weights_.tables, strict=True):
        factor = np.exp(np.log(np.abs(after[before != 0] / before[before != 0])).mean())
        np.testing.assert_allclose(after, factor * before, rtol=1e-4, atol=1e-6)
    assert (crossfit.weights_.pair != separate.weights_.pair).any() and crossfit.score(OTHER) > 0.6


def test_the_same_seed_gives_the_same_answer_and_another_seed_another(fitted: Any):
    again = mixture().fit(GRAPH)
    np.testing.assert_array_equal(again.predict_proba(OTHER), fitted.predict_proba(OTHER))
    np.testing.assert_array_equal(fitted.predict_proba(OTHER), fitted.predict_proba(OTHER))
    other = mixture(random_state=1).fit(GRAPH).predict_proba(OTHER)
    assert not np.array_equal(other, fitted.predict_proba(OTHER))
    np.testing.assert_allclose(other, fitted.predict_proba(OTHER), atol=0.25)
    assert mixture(random_state=None).fit(GRAPH).score(OTHER) > 0.6


def test_more_orders_give_steadier_answers(fitted: Any):
    def spread(orders: int) -> float:
        tables = []
        for seed in range(6):
            twin = mixture(predict_orders=orders, random_state=seed)
            vars(twin).update({k: v for k, v in vars(fitted).items() if k.endswith("_")})
            tables.append(twin.predict_proba(OTHER))
        return float(np.std(tables, axis=0).mean())

    assert spread(1) > 1.5 * spread(8) > 2 * spread(64)


def by_enumeration(fitted: Any, graph: kf.Graph, known: Any = None) -> np.ndarray:
    """The mean over orders, each order's DAG handed to the oracle; given labels that are `known` (n,), -1 for none."""
    nodes = Nodes.of(graph, fitted.node_columns_)
    sample = fitted._sample(nodes, Known(np.full(len(graph), -1) if known is None else known))
    weights, layout, n_labels = fitted.weights_, sample.layout, len(fitted.classes_)
    total = np.zeros((len(graph), n_labels))
    own = [np.asarray(t, np.float64) for t in weights.tables]
    numbers = range(len(layout.relations))
    parent = [layout.parent_table(r) for r in numbers]
    params = oracle.Parameters(
        [own[layout.child_table(r)] for r in numbers],
        [np.zeros((0, n_labels)) if t is None else own[t] for t in parent],
        list(weights.pair.astype(np.float64)),
        [np.zeros((0, n_labels, n_labels))] * len(numbers),
        own[layout.own_start_table],
        weights.start.astype(np.float64),
        np.zeros(0),
    )
    for wiring, alpha in zip(sample.wired.wirings, sample.alphas(weights.gate), strict=True):
        dag = wiring.dag
        relations = []
        for r in numbers:
            here = dag.relation == r
            edges = np.stack([dag.child[here], dag.parent[here]], axis=1)
            relations.append(oracle.Relation(edges, parent[r] is not None, np.zeros((len(edges), 0))))
        start = np.zeros(len(graph), bool)
        start[dag.child[dag.relation < 0]] = True
        nothing = np.zeros((dag.n_components, 0))
        world = oracle.World(
            nodes.rows.toarray().astype(float), n_labels, relations, start, np.zeros(len(graph), int),
            np.ones(len(graph)), nothing, alpha, np.zeros(len(graph), int),
        )  # fmt: skip
        if known is None:
            total += oracle.marginals(world, params)
            continue
        labellings, probability = oracle.joint(world, params)
        probability = probability * ((labellings == known) | (np.asarray(known) < 0)).all(axis=1)
        for c in range(n_labels):
            total[:, c] += (labellings == c).T @ probability / probability.sum()
    return total / len(sample.wired.wirings)


@pytest.mark.parametrize("settings_", [*SETTINGS[:4], SETTINGS[5]], ids=repr)
def test_marginals_are_the_mean_over_orders_of_sums_over_labellings(settings_: Any):
    model = mixture(**settings_, predict_orders=4).fit(GRAPH)
    small = web(8, 5)
    np.testing.assert_allclose(model.predict_proba(small), by_enumeration(model, small), atol=1e-5)


@pytest.mark.parametrize("settings_", [*SETTINGS[:4], SETTINGS[5]], ids=repr)
def test_given_known_labels_marginals_are_sums_over_the_labellings_that_have_them(settings_: Any):
    """Those trained on come first in every order, so the others are exactly conditioned on them."""
    small, train = web(8, 5), np.array([0, 2, 3, 7])
    model = mixture(**settings_, predict_orders=4).fit(GRAPH)
    model.memory_ = mixture(**settings_).fit(small, train=train).memory_
    known = np.full(8, -1, np.int32)
    known[train] = [{"cat": 0, "dog": 1}[small.labels[i]] for i in train]
    exact = by_enumeration(model, small, known)
    np.testing.assert_allclose(model.predict_proba(small), exact, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(small, known=train), exact, atol=1e-5)
    assert np.abs(exact - model.predict_proba(small, known="none")).max() > 0.01


def test_in_a_dag_a_known_label_is_seen_and_says_nothing_of_its_parents():
    """0 <- 1 <- 2, the middle one known."""
    data = dag_of([(1, 0), (2, 1)])
    model = mixture(max_iterations=50).fit(data)
    free, given = (model.predict_proba(data, known=known) for known in ("none", [1]))
    assert given[1, data.labels[1]] == 1
    np.testing.assert_array_equal(given[0], free[0])
    assert np.abs(given[2] - free[2]).max() > 1e-3


def test_everybody_may_start():
    plain, starting = mixture().fit(GRAPH), mixture(everybody_starts=True).fit(GRAPH)
    dag = starting._sample(Nodes.of(GRAPH), Known(np.full(len(GRAPH), -1))).wired.wirings[0].dag
    assert (np.bincount(dag.child[dag.relation < 0], minlength=len(GRAPH)) == 1).all()
    assert not np.array_equal(plain.predict_proba(OTHER), starting.predict_proba(OTHER))


def test_forced_labels_are_kept_and_seen(fitted: Any):
    labels = [y if i % 2 else None for i, y in enumerate(OTHER.labels)]
    some = OTHER.with_labels(labels)
    free, forced = fitted.predict_proba(some), fitted.predict_proba(some, forced=True)
    assert [y for y, known in zip(fitted.predict(some, forced=True), labels, strict=True) if known] == [
        y for y in labels if y
    ]
    assert (forced[1::2].max(axis=1) == 1).all() and np.abs(forced[::2] - free[::2]).max() > 0.01
    gold = OTHER.label_codes[::2]
    assert np.mean(forced[::2].argmax(axis=1) == gold) >= np.mean(free[::2].argmax(axis=1) == gold)


def test_links_across_groups_are_refused_with_advice():
    graph = web(groups=["north"] * 20 + ["south"] * 20)
    with pytest.raises(InputError, match=r"in group '(north|south)' to 'p.*' in group '.*: put both in one group"):
        mixture().fit(graph)


def test_groups_do_not_know_of_each_other(fitted: Any):
    one, two = web(12, 7), web(9, 8)
    links = sparse.block_diag([one.relations["cites"], two.relations["cites"]], format="csr")
    X = sparse.vstack([one.features, two.features])
    both = kf.Graph(X, one.labels + two.labels, {"cites": links}, groups=[0] * 12 + [1] * 9)
    many = mixture(predict_orders=400)
    vars(many).update({k: v for k, v in vars(fitted).items() if k.endswith("_")})
    apart = np.concatenate([many.predict_proba(one), many.predict_proba(two)])
    np.testing.assert_allclose(many.predict_proba(both), apart, atol=0.05)


# -- which relations, which nodes, which labels


def test_relations_may_be_chosen():
    graph = web(relations=("cites", "near"))
    model = mixture(relations=["near"]).fit(graph)
    assert model.parents_.links == ("near",)
    assert mixture().fit(graph).parents_.links == ("cites", "near")
    with pytest.raises(InputError, match=r"no relation 'far' here; there are: 'cites', 'near'"):
        mixture(relations=["near", "far"]).fit(graph)
    with pytest.raises(InputError, match=r"this graph has no relation, so no node has a neighbour.*relations=\[\]"):
        mixture().fit(kf.Graph(graph.features, graph.labels))


@pytest.mark.parametrize("settings_", [{}, {"mixing": "learned"}, {"training": "separate"}], ids=repr)
def test_no_relations_on_purpose(settings_: Any):
    model = mixture(relations=[], **settings_).fit(GRAPH)
    bare = kf.Graph(OTHER.features, OTHER.labels)
    np.testing.assert_array_equal(model.predict_proba(OTHER), model.predict_proba(bare))
    assert model.score(OTHER) > 0.4


def test_of_two_relations_that_are_each_other_s_reverse_one_is_used():
    links = GRAPH.relations["cites"]
    both = kf.Graph(GRAPH.features, GRAPH.labels, {"cites": links, "cited_by": links.T.tocsr()})
    model = mixture().fit(both)
    assert model.parents_.links == ("cites",)
    np.testing.assert_array_equal(model.predict_proba(both), mixture().fit(GRAPH).predict_proba(GRAPH))
    assert mixture(relations=["cites", "cited_by"]).fit(both).parents_.links == ("cites", "cited_by")


@pytest.mark.parametrize("wrong", ["cites", 3])
def test_relations_that_are_no_list_of_names(wrong: Any):
    with pytest.raises(SettingError, match="relations"):
        mixture(relations=wrong).fit(GRAPH)


def test_relations_that_come_and_go_at_prediction(caplog: pytest.LogCaptureFixture):
    graph = web(relations=("cites", "near"))
    model = mixture().fit(graph)
    told = "trained on the links 'cites' and 'near', and this graph has 'cites': 'near' is missing"
    for ask in (model.predict, model.score, model.known_nodes):
        with pytest.raises(InputError, match=told):
            ask(GRAPH)
    assert model.predict_proba(OTHER.with_relations({"near": []})).shape == (30, 2)
    caplog.clear()
    one = mixture().fit(GRAPH)
    with caplog.at_level(logging.WARNING, "kinfolk"):
        table = one.predict_proba(web(relations=("cites", "near")))
    assert "relation 'near' was not there in training, and is left out" in caplog.text
    np.testing.assert_array_equal(table, one.predict_proba(GRAPH))


def test_relations_left_out_by_choice_are_no_surprise(caplog: pytest.LogCaptureFixture):
    graph = web(relations=("cites", "near"))
    model = mixture(relations=["cites"]).fit(graph)
    with caplog.at_level(logging.WARNING, "kinfolk"):
        model.predict(graph, known="none")
    assert not caplog.records


def test_some_nodes_may_be_trained_on():
    labels = [y if i < 30 else None for i, y in enumerate(GRAPH.labels)]
    hidden = mixture().fit(GRAPH.with_labels(labels))
    for train in (np.arange(30), list(range(30)), np.arange(40) < 30, [i < 30 for i in range(40)]):
        model = mixture().fit(GRAPH, train=train)
        np.testing.assert_array_equal(model.predict_proba(GRAPH), hidden.predict_proba(GRAPH))
    only_cats = mixture().fit(GRAPH, train=np.flatnonzero(np.array(GRAPH.labels) == "cat"))
    assert list(only_cats.classes_) == ["cat"], "classes are those trained on"


@pytest.mark.parametrize("train", [[True, False], [99], [0.0, 1.0], np.ones((40, 1), bool),
                                   [-1, 0], [[0, 1], [2, 3]]])  # fmt: skip
def test_nodes_that_cannot_be_trained_on(train: Any):
    with pytest.raises(InputError, match="train must be 40 truth values, or a list of node numbers from 0 to 39"):
        mixture().fit(GRAPH, train=train)


def test_nothing_to_train_on():
    for graph, train in ((GRAPH.with_labels(None), None), (GRAPH, np.zeros(40, bool)), (GRAPH.subset([]), None)):
        with pytest.raises(InputError, match="none of the nodes to train on has one"):
            mixture().fit(graph, train=train)
    with pytest.raises(InputError, match="expected a Graph or a Relational; got list"):
        mixture().fit(TOKENS, train=[0])


def test_a_graph_brings_its_own_labels():
    with pytest.raises(InputError, match="a graph brings its own labels"):
        mixture().fit(GRAPH, GRAPH.labels)


def test_labels_beside_a_graph_are_not_ignored_when_scoring(fitted: Any):
    for call in (fitted.score, fitted.evaluate):
        with pytest.raises(InputError, match="a graph brings its own labels"):
            call(OTHER, ["cat"] * 30)


def test_labels_that_cannot_be_scored(fitted: Any, caplog: pytest.LogCaptureFixture):
    with pytest.raises(InputError, match="scoring needs labels, and this graph has none"):
        fitted.score(OTHER.with_labels(None))
    strange = OTHER.with_labels(["cow"] + OTHER.labels[1:], ["cat", "cow", "dog"])
    predicted = fitted.predict(strange)
    right = [p == y for p, y in zip(predicted, strange.labels, strict=True)]
    assert fitted.score(strange) == pytest.approx(np.mean(right)), "a label never seen is a miss"
    assert "labels that training never saw count as misses: 'cow'" in caplog.text
    with pytest.raises(InputError, match="'cow' of node 'p0 of 1'"):
        fitted.predict(strange, forced=True)
    assert len(fitted.predict(strange)) == 30, "labels are looked at only when asked"
    some = OTHER.with_labels([None] * 10 + OTHER.labels[10:])
    right = fitted.predict(OTHER)[10:] == np.array(OTHER.labels[10:])
    assert fitted.score(some) == pytest.approx(right.mean())


def test_classes_are_matched_by_name(fitted: Any):
    renumbered = OTHER.with_labels(OTHER.labels, ["dog", "emu", "cat"])
    assert fitted.score(renumbered) == fitted.score(OTHER)


# -- features


def test_features_are_matched_by_name():
    names = [f"f{i}" for i in range(6)]
    model = mixture().fit(web(feature_names=names))
    order = [3, 1, 5, 0, 2, 4]
    X = OTHER.features.toarray()
    shuffled = np.hstack([X[:, order], np.ones((30, 1))])
    other = kf.Graph(shuffled, OTHER.labels, OTHER.relations, feature_names=[*(names[i] for i in order), "new"])
    straight = kf.Graph(X, OTHER.labels, OTHER.relations, feature_names=names)
    np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(straight))
    fewer = kf.Graph(X[:, :5], OTHER.labels, OTHER.relations, feature_names=names[:5])
    blank = kf.Graph(X * [1, 1, 1, 1, 1, 0], OTHER.labels, OTHER.relations, feature_names=names)
    with pytest.warns(DataWarning, match="count as 0 in every node: 'f5'"):
        found = model.predict_proba(fewer)
    np.testing.assert_array_equal(found, model.predict_proba(blank))


def test_features_of_another_width(fitted: Any):
    narrow = kf.Graph(OTHER.features[:, :5], OTHER.labels, OTHER.relations)
    with pytest.raises(InputError, match="expected 6 features, got 5"):
        fitted.predict(narrow)
    with pytest.raises(InputError, match="trained on 6 features; got 5"):
        fitted.predict(narrow.relational())


def test_dense_and_sparse_features_are_the_same(fitted: Any):
    dense = kf.Graph(GRAPH.features.toarray(), GRAPH.labels, GRAPH.relations)
    np.testing.assert_array_equal(mixture().fit(dense).predict_proba(dense), fitted.predict_proba(GRAPH))


def test_graphs_of_nothing(fitted: Any):
    empty = GRAPH.subset([])
    assert len(fitted.predict(empty)) == 0 and fitted.predict_proba(empty).shape == (0, 2)
    single = GRAPH.subset([3])
    assert fitted.predict_proba(single).shape == (1, 2)
    none = mixture(mixing="learned").fit(kf.Graph(GRAPH.features, GRAPH.labels, {"cites": []}))
    assert none.predict_proba(OTHER).shape == (30, 2), "links that training never saw weigh nothing"


# -- relations that are a DAG


def test_a_dag_is_taken_as_it_is():
    data = dag_of(CHAIN)
    model = mixture().fit(data)
    assert model.parents_.names == ("p",) and not model.parents_.ordered
    seeds = [mixture(random_state=s, training="separate").fit(data).predict_proba(data) for s in (0, 1)]
    np.testing.assert_allclose(*seeds, atol=0.02)
    (wiring,) = model._sample(Nodes.of(data, 3), Known(np.full(len(data), -1))).wired.wirings
    told = zip(wiring.dag.child.tolist(), wiring.dag.parent.tolist(), strict=True)
    assert sorted((c, p) for c, p in told if p >= 0) == sorted(CHAIN)


def test_a_dag_that_is_none():
    with pytest.raises(InputError, match=r"a cycle: 0 -> 2 -> 1 -> 0 \(each looks at the next\)"):
        mixture().fit(dag_of([(1, 0), (2, 1), (0, 2)]))
    with pytest.raises(InputError, match=r"relation 'p': instance 1 is its own parent\. Take self loops out"):
        mixture().fit(dag_of([(1, 1)]))
    with pytest.raises(InputError, match=r"relation 'p' leads from '5' in group '1' to '0' in group '0'"):
        mixture().fit(dag_of([(5, 0)], groups=[0, 0, 0, 1, 1, 1]))
    two = dag_of([(1, 0)], q=sparse.csr_array(([1.0], ([0], [1])), shape=(6, 6)))
    with pytest.raises(InputError, match="a cycle: 0 -> 1 -> 0"):
        mixture().fit(two)


def test_weights_may_be_given():
    data = dag_of(CHAIN, [1, 0.25, 0.75, 1])
    model = mixture(mixing="given").fit(data)
    sample = model._sample(Nodes.of(data, 3), Known(np.full(len(data), -1)))
    assert sample.alphas(model.weights_.gate)[0].tolist() == [1, 1, 0.75, 0.25, 1, 1, 1]
    sure = mixture(mixing="given").fit(dag_of(CHAIN, [1, 1, 0, 1]))
    assert sure.predict_proba(data).shape == (6, 2)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -0.5, 1.5, 1], "that of instance 2 for parent 1 is -0.5"),
        ([1, 0.5, 0.6, 1], r"those of instance 2 sum to 1.1. Divide them by their sum"),
    ],
)
def test_weights_that_cannot_be_given(weights: Any, message: str):
    model = mixture(mixing="given")
    with pytest.raises(InputError, match=message):
        model.fit(dag_of(CHAIN, weights))
    fitted = model.fit(dag_of(CHAIN, [1, 0.5, 0.5, 1]))
    with pytest.raises(InputError, match=message):
        fitted.predict(dag_of(CHAIN, weights))


def test_weights_of_links_that_are_not_used_are_told():
    told = "the weights of links 'p' are not used by MixtureNodes; StackedNodes and DependencyNetwork use them"
    with pytest.warns(DataWarning, match=told):
        mixture().fit(dag_of(CHAIN, [1, 0.25, 0.75, 1]))
    mixture().fit(dag_of(CHAIN, [2, 2, 2, 0]))  # a stored zero is no link, and the others weigh the same
    mixture(relations=["q"]).fit(dag_of(CHAIN, [1, 2, 3, 4], q=dag_of(CHAIN).relations["p"]))


def test_given_weights_need_a_dag():
    with pytest.raises(InputError, match="`mixing='given'` needs relations that are a DAG"):
        mixture(mixing="given").fit(GRAPH)


def test_given_weights_and_a_start_for_everybody_do_not_go_together():
    with pytest.raises((SettingError, InputError), match="everybody_starts"):
        mixture(mixing="given", everybody_starts=True).fit(dag_of(CHAIN, [1, 0.5, 0.5, 1]))


def test_a_stored_zero_is_no_link():
    model = mixture().fit(dag_of(CHAIN))
    (only,) = model.explain(dag_of([*CHAIN, (4, 3)], [1, 1, 1, 1, 0]), node=4).contributions
    assert only.parent is None


def test_shares_of_relations():
    near = sparse.csr_array((np.ones(2), ([3, 2], [2, 0])), shape=(6, 6))
    data = dag_of(CHAIN, q=near)
    model = mixture(mixing={"p": 1, "q": 3}).fit(data)
    alpha = model._sample(Nodes.of(data, 3), Known(np.full(len(data), -1))).alphas(model.weights_.gate)[0]
    np.testing.assert_allclose(alpha, [1, 1, 0.125, 0.125, 0.75, 1, 1, 1])
    for shares, message in (({"p": 1}, "no weight for relation 'q'"), ({"p": 1, "q": 1, "r": 1}, "relation 'r'")):
        with pytest.raises(SettingError, match=message):
            mixture(mixing=shares).fit(data)


def test_shares_of_links_serve_both_directions():
    graph = web(relations=("cites", "near"))
    one = mixture(mixing={"cites": 2, "near": 1}).fit(graph)
    assert one.parents_.shares.tolist() == [2, 2, 1, 1, 1]
    sided = {"cites (outgoing)": 2, "cites (incoming)": 3, "near": 1, "start": 4}
    assert mixture(mixing=sided).fit(graph).parents_.shares.tolist() == [2, 3, 1, 1, 4]


def test_shares_of_links_with_names_alike():
    links = GRAPH.relations["cites"]
    graph = kf.Graph(GRAPH.features, GRAPH.labels, {"a": links, "a (x)": links})
    assert mixture(mixing={"a (x)": 5, "a": 1}).fit(graph).parents_.shares.tolist() == [1, 1, 5, 5, 1]


# -- training


def test_a_heavier_class_is_found_more_often():
    plain, heavy = (mixture(class_weight=w).fit(GRAPH).predict(OTHER) for w in (None, {"cat": 50.0}))
    assert (heavy == "cat").sum() > (plain == "cat").sum()
    assert mixture(class_weight="balanced").fit(GRAPH).score(OTHER) > 0.6
    with pytest.raises(SettingError, match="class_weight names 'cow'"):
        mixture(class_weight={"cow": 2.0}).fit(GRAPH)


def test_a_node_of_weight_zero_teaches_nothing():
    """Of two graphs side by side one has labels that lie."""
    liar = web(20, 9)
    lies = ["cat" if y == "dog" else "dog" for y in liar.labels]
    links = sparse.block_diag([GRAPH.relations["cites"], liar.relations["cites"]], format="csr")
    X, weights = sparse.vstack([GRAPH.features, liar.features]), [1.0] * 40 + [0.0] * 20
    honest, lying = (
        mixture(tolerance=1e-6).fit(kf.Graph(X, GRAPH.labels + y, {"cites": links}), sample_weight=weights)
        for y in ([None] * 20, lies)
    )
    np.testing.assert_allclose(honest.predict_proba(OTHER), lying.predict_proba(OTHER), atol=0.02)


@pytest.mark.parametrize("weights", [[1.0] * 3, [-1.0] * 40, [np.nan] * 40])
def test_sample_weights_that_cannot_be(weights: Any):
    with pytest.raises(InputError, match=r"sample_weight must (have one number a node .40.|be finite, not negative)"):
        mixture().fit(GRAPH, sample_weight=weights)


@pytest.mark.parametrize("weights", [["heavy"] * 40, [0.0] * 40])
def test_sample_weights_that_mean_nothing(weights: Any):
    with pytest.raises(InputError, match="sample_weight"):
        mixture().fit(GRAPH, sample_weight=weights)


def test_held_out_nodes_stop_training_and_keep_the_best_weights():
    model = mixture(dev_every=1, patience=2, tolerance=0, l2=0.001).fit(GRAPH, X_dev=OTHER)
    outcome = model.convergence_
    best = max(outcome.dev_scores.values())
    assert outcome.dev_scores[outcome.best_iteration] == best == pytest.approx(model.score(OTHER))
    assert outcome.status == "stopped" and outcome.iterations == outcome.best_iteration + 2


def test_held_out_nodes_with_a_label_never_seen(caplog: pytest.LogCaptureFixture):
    dev = OTHER.with_labels(["cow"] * 30, ["cow"])
    assert set(mixture(training="joint").fit(GRAPH, X_dev=dev).convergence_.dev_scores.values()) == {0.0}
    assert "count as misses: 'cow'" in caplog.text


@pytest.mark.parametrize("dev", [OTHER.with_labels(None), TOKENS], ids=["no labels", "tokens"])
def test_held_out_data_that_cannot_be_scored(dev: Any):
    with pytest.raises(InputError):
        mixture().fit(GRAPH, X_dev=dev)


def test_a_callback_may_stop():
    seen: list[Progress] = []

    def watch(progress: Progress) -> bool:
        seen.append(progress)
        return progress.stage == "joint" and progress.iteration == 2

    model = mixture().fit(GRAPH, callback=watch)
    assert model.convergence_.status == "stopped" and (seen[-1].stage, seen[-1].iteration) == ("joint", 2)
    assert {p.stage for p in seen} >= {"cites (outgoing)", "cites (incoming)", "start", "joint"}


def test_a_failed_fit_leaves_the_model_as_it_was(fitted: Any):
    model = mixture().fit(GRAPH)
    with pytest.raises(InputError):
        model.fit(dag_of([(1, 1)]))
    np.testing.assert_array_equal(model.predict_proba(OTHER), fitted.predict_proba(OTHER))


# -- nodes and tokens are not mixed up


def test_nodes_for_a_model_of_tokens_and_the_reverse(fitted: Any):
    tokens = kf.MixtureTagger(n_jobs=1).fit(TOKENS, LABELS)
    calls = (tokens.predict, tokens.predict_proba, tokens.score, tokens.evaluate)
    for call in (*calls, lambda X: tokens.explain(X, 0)):
        with pytest.raises(InputError, match="expected a Corpus or a list of sentences; got Graph"):
            call(GRAPH)
    calls = (fitted.predict, fitted.predict_proba, fitted.score, fitted.evaluate)
    for call in (*calls, lambda X: fitted.explain(X, 0)):
        with pytest.raises(InputError, match="expected a Graph or a Relational; got list"):
            call(TOKENS)


def test_a_relational_for_a_model_of_graphs_is_put_in_orders(fitted: Any):
    np.testing.assert_array_equal(fitted.predict_proba(OTHER.relational()), fitted.predict_proba(OTHER))


def test_a_relation_without_trained_edges_has_no_say():
    """Links that training had none of would predict uniformly, and take their share all the same."""
    features, labels = np.eye(4), ["a", "b", "a", "b"]
    model = mixture().fit(kf.Graph(features, labels, {"l": np.zeros((0, 2), int)}))
    linked = kf.Graph(features, labels, {"l": [(0, 1), (1, 2), (2, 3)]})
    alone = kf.Graph(features, labels, {"l": np.zeros((0, 2), int)})
    np.testing.assert_allclose(model.predict_proba(linked), model.predict_proba(alone))


def test_forced_labels_come_first_and_are_conditioned_on_exactly():
    """With the labelled nodes first in every order, a node whose neighbours are all labelled is a plain mixture of what
    they predict: no order changes it."""
    graph = kf.Graph(np.eye(5), ["a", "b", "a", "b", "a"], {"l": [(4, 0), (4, 1), (2, 4), (3, 4), (0, 1)]})
    model = mixture(training="separate", l2=0.1).fit(graph)
    partly = graph.with_labels(["a", "b", "a", "b", None])
    few, many = (model.set_params(predict_orders=n).predict_proba(partly, forced=True)[4] for n in (1, 20))
    np.testing.assert_allclose(few, many, atol=1e-12)


# -- orders weighed by known labels -----------------------------------------------------------------------


def small_trained(**settings) -> tuple[kf.MixtureNodes, kf.Graph]:
    rng = np.random.default_rng(4)
    kinds = rng.integers(2, size=40)
    links = sorted({(i, j) for i in range(40) for j in rng.choice(np.flatnonzero(kinds == kinds[i]), 2) if i != j})
    graph = kf.Graph(rng.normal(size=(40, 2)) + kinds[:, None], ["ab"[k] for k in kinds], {"near": np.array(links)})
    return kf.MixtureNodes(orders=4, predict_orders=20, tolerance=0.01, n_jobs=1, **settings).fit(graph), graph


def path_of_three() -> kf.Graph:
    """The end is known: the middle looks at it, or it looks at the middle."""
    return kf.Graph(np.zeros((3, 2)), [None, None, "b"], {"near": np.array([(0, 1), (1, 2)])})


def test_a_known_label_speaks_of_its_parents_where_orders_are_weighed():
    """By all six orders of three nodes, from the model's own conditionals."""
    model, _ = small_trained(evidence="weighed")
    model.set_params(predict_orders=2000)
    found = model.predict_proba(path_of_three(), forced=True)
    tables = {}
    for r, name in enumerate(model.parents_.names):
        tables[name] = special.softmax(model.weights_.pair[r].astype(float), axis=1)  # features are all 0
    start = special.softmax(model.weights_.start.astype(float))
    out, into = tables["near (outgoing)"], tables["near (incoming)"]
    expected = np.zeros((3, 2))
    for order in permutations(range(3)):
        rank = np.argsort(order)
        for labels in product(range(2), range(2), [1]):
            chance = 1.0
            for k in range(3):
                parents = [(out, j) for i, j in ((0, 1), (1, 2)) if i == k and rank[j] < rank[k]]
                parents += [(into, i) for i, j in ((0, 1), (1, 2)) if j == k and rank[i] < rank[k]]
                chance *= np.mean([t[labels[j], labels[k]] for t, j in parents]) if parents else start[labels[k]]
            expected[np.arange(3), labels] += chance
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), atol=0.02)


def test_without_known_labels_nothing_is_weighed():
    model, graph = small_trained()
    plain = model.predict_proba(graph, known="none")
    assert (model.set_params(evidence="weighed").predict_proba(graph, known="none") == plain).all()


def test_in_a_dag_a_known_child_speaks_of_its_parent_only_where_evidence_is_weighed():
    """Two nodes, the second looks at the first, and is known."""
    rng = np.random.default_rng(0)
    labels = np.repeat(rng.integers(2, size=30), 2)
    below = sparse.csr_array((np.ones(30), (np.arange(1, 60, 2), np.arange(0, 60, 2))), shape=(60, 60))
    data = kf.Relational(np.zeros((60, 1)), labels, ("a", "b"), {"under": below}, np.repeat(np.arange(30), 2))
    model = kf.MixtureNodes(n_jobs=1, parent_features="none", training="conditional").fit(data)
    pair = kf.Relational(
        np.zeros((2, 1)),
        np.array([-1, 1]),
        ("a", "b"),
        {"under": sparse.csr_array([[0.0, 0], [1, 0]])},
        np.zeros(2, int),
    )
    start = special.softmax(model.weights_.start.astype(float))
    table = special.softmax(model.weights_.pair[0].astype(float), axis=1)
    np.testing.assert_allclose(model.predict_proba(pair, forced=True)[0], start, atol=1e-6)
    bayes = start * table[:, 1] / (start @ table[:, 1])
    assert bayes[1] > 0.9
    np.testing.assert_allclose(
        model.set_params(evidence="weighed").predict_proba(pair, forced=True)[0], bayes, atol=1e-6
    )


def test_weighed_orders_are_kept_in_the_file_explained_and_the_same_for_all_threads(tmp_path, caplog):
    model, graph = small_trained(evidence="weighed")
    known = np.arange(40) < 6
    with caplog.at_level("INFO", "kinfolk"):
        found = model.predict_proba(graph, known=known)
    assert "orders weighed by known labels" in caplog.text and "effective number" in caplog.text
    model.save(tmp_path / "m")
    again = kf.load_model(tmp_path / "m").set_params(n_jobs=2)
    assert (again.predict_proba(graph, known=known) == found).all()
    said = model.explain(graph, node=20, known=known)
    assert said.label == model.classes_[found[20].argmax()]


def test_too_large_a_block_and_too_few_orders_are_said_once_each():
    """Twenty-four unknown nodes, all linked to all; and of two orders three never count."""
    model, _ = small_trained(evidence="weighed")
    links = [(i, j) for i in range(30) for j in range(i)]
    large = kf.Graph(np.zeros((30, 2)), ["a"] * 3 + [None] * 24 + ["b"] * 3, {"near": np.array(links)})
    model.set_params(predict_orders=2)
    for call in (model.predict, model.predict_proba, lambda X, forced: model.explain(X, 10, forced=forced)):
        with pytest.warns(ConvergenceWarning) as caught:
            call(large, forced=True)
        block, orders = (str(one.message) for one in caught)
        assert "more unknown ancestors than can be summed over" in block and "as few as" in orders
    with pytest.warns(ConvergenceWarning):
        found = model.predict_proba(large, forced=True)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-9)
