"""The dependency network: its conditional beside scikit-learn's, chains beside brute force, known labels, manners."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import kinfolk as kf
import stacked_oracle as oracle
from kinfolk.errors import DataWarning, InputError, NotFittedError, SettingError
from oracles import enumerate_labellings
from strategies import SEEDS

NAMES = ("ant", "bee", "cat")
SLOTS = 2
TEMPLATES: dict[str, Callable[[Any, Any], Any]] = {
    "count:r": oracle.count,
    "mean:r": oracle.mean,
    "proportion:r": oracle.proportion,
    "exists:r": oracle.exists,
    "max:r": oracle.maximum,
    "concat:r": lambda relation, votes: oracle.concat(relation, votes, SLOTS),
}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of linear algebra would only wait for each other on tables this small."""
    with threadpool_limits(1):
        yield


def template(text: str) -> Any:
    return kf.Concat("r", slots=SLOTS) if text == "concat:r" else text


def weights(rng: np.random.Generator, n: int, density: float = 0.25) -> Any:
    relation = np.where(rng.random((n, n)) < density, rng.integers(1, 5, (n, n)) / 2, 0.0)
    np.fill_diagonal(relation, 0.0)
    return relation


def a_graph(seed: int, n: int = 24, L: int = 3, unknown: float = 0.0, **changed: Any) -> kf.Graph:
    """Features tell the class of most; links are drawn at random. All classes are there."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % L) if n else np.zeros(0, int)
    X = np.round(rng.standard_normal((n, 2)) + 0.8 * np.eye(3)[codes][:, :2], 2)
    names = [None if rng.random() < unknown and i >= 3 * L else NAMES[y] for i, y in enumerate(codes)]
    parts = {"features": X, "labels": names, "relations": {"r": sparse.csr_array(weights(rng, n))}}
    return kf.Graph(**{**parts, "classes": NAMES[:L], **changed})


def network(base: Any = None, **changed: Any) -> kf.DependencyNetwork:
    return kf.DependencyNetwork(**{"base": base or LogisticRegression(), "n_jobs": 1, **changed})


def one_hot(codes: Any, L: int) -> Any:
    """(n, L), a row of zeros where a label is not known."""
    return np.vstack([np.eye(L), np.zeros(L)])[codes]


def rows_of(graph: kf.Graph, text: str, votes: Any) -> Any:
    return np.hstack([graph.features, TEMPLATES[text](graph.relations["r"].toarray(), votes)])


# -- learning


@pytest.mark.filterwarnings("ignore:count:kinfolk.errors.DataWarning")
@pytest.mark.parametrize("text", TEMPLATES)
@pytest.mark.parametrize("L", [2, 3])
def test_the_conditional_is_trained_on_true_labels_of_neighbours(text: str, L: int):
    graph = a_graph(1, L=L, unknown=0.3)
    known = np.flatnonzero(graph.label_codes >= 0)
    assert 0 < len(known) < graph.n_nodes
    model = network(templates=template(text)).fit(graph)
    rows, codes = rows_of(graph, text, one_hot(graph.label_codes, L))[known], graph.label_codes[known]
    expected = LogisticRegression().fit(rows, codes)
    np.testing.assert_allclose(model.conditional_.estimator.coef_, expected.coef_, atol=1e-5)
    np.testing.assert_allclose(model.conditional_.estimator.intercept_, expected.intercept_, atol=1e-5)
    alone = LogisticRegression().fit(graph.features[known], codes)
    np.testing.assert_allclose(model.local_.estimator.coef_, alone.coef_, atol=1e-5)
    assert model.classes_.tolist() == list(NAMES[:L])


def test_labels_outside_train_are_neither_learned_nor_told():
    graph, train = a_graph(2), np.arange(14)
    hidden = [name if i in train else None for i, name in enumerate(graph.labels)]
    one = network(burn_in=0, sweeps=5).fit(graph, train=train)
    other = network(burn_in=0, sweeps=5).fit(graph.with_labels(hidden))
    np.testing.assert_array_equal(one.conditional_.estimator.coef_, other.conditional_.estimator.coef_)
    np.testing.assert_array_equal(one.predict_proba(graph), other.predict_proba(graph))
    mask = np.isin(np.arange(graph.n_nodes), train)
    again = network().fit(graph, train=mask)
    np.testing.assert_array_equal(again.conditional_.estimator.coef_, one.conditional_.estimator.coef_)


def test_a_weight_counts_a_node_more_than_once():
    graph = a_graph(3)
    weight = np.random.default_rng(0).integers(1, 4, graph.n_nodes).astype(float)
    model = network(templates="count:r").fit(graph, sample_weight=weight)
    rows = rows_of(graph, "count:r", one_hot(graph.label_codes, 3))
    expected = LogisticRegression().fit(rows, graph.label_codes, sample_weight=weight)
    np.testing.assert_allclose(model.conditional_.estimator.coef_, expected.coef_, atol=1e-5)
    with pytest.raises(InputError, match="sample_weight"):
        network().fit(graph, sample_weight=weight[1:])


def test_without_templates_the_shares_of_labels_are_told_by_every_relation():
    rng = np.random.default_rng(4)
    links = {"r": sparse.csr_array(weights(rng, 24)), "s": sparse.csr_array(weights(rng, 24))}
    graph = a_graph(4, relations=links)
    model, told = network().fit(graph), network(templates=["proportion:r", "proportion:s"]).fit(graph)
    assert list(map(repr, model.template_set_.templates)) == ["Proportion('r')", "Proportion('s')"]
    np.testing.assert_array_equal(model.predict_proba(graph, known="none"), told.predict_proba(graph, known="none"))


def test_without_templates_weights_below_0_are_added_up():
    """A share of what adds up to 0 or less is none."""
    rng = np.random.default_rng(4)
    links = {"r": sparse.csr_array(weights(rng, 24)), "s": sparse.csr_array(-weights(rng, 24))}
    with pytest.warns(DataWarning, match="weights of links are below 0"):
        model = network().fit(a_graph(4, relations=links))
    assert list(map(repr, model.template_set_.templates)) == ["Proportion('r')", "Count('s')"]


def test_what_is_told_by_default_is_the_same_in_training_and_in_sampling():
    """A node with one labelled neighbour of six in training, and the same six, all labelled, in sampling."""
    star = [(0, j) for j in range(1, 7)]
    graph = kf.Graph(np.zeros((7, 1)), ["ant", "bee", None, None, None, None, None], {"r": star})
    model = network().fit(graph)
    world = model._ready(model._nodes(graph))
    few, all_ = one_hot(graph.label_codes, 2), one_hot(np.array([0, 1, 1, 1, 1, 1, 1]), 2)
    told = [world.template_set.rows(world.neighbourhood, votes, np.array([0]))[0].tolist() for votes in (few, all_)]
    assert told == [[0.0, 1.0], [0.0, 1.0]]


def papers(seed: int, n: int = 300, stray: float = 0.2) -> kf.Graph:
    """Eight links a node, those between topics thinned out to a share `stray`."""
    rng = np.random.default_rng(seed)
    topic, pairs = rng.integers(0, 3, n), rng.integers(0, n, (8 * n, 2))
    kept = (topic[pairs[:, 0]] == topic[pairs[:, 1]]) | (rng.random(8 * n) < stray)
    links = np.unique(pairs[kept & (pairs[:, 0] != pairs[:, 1])], axis=0)
    X = np.eye(3)[topic] + rng.normal(size=(n, 3))
    return kf.Graph(X, [NAMES[t] for t in topic], {"cites": links, "cited_by": links[:, ::-1]})


def gain_by_links(graph: kf.Graph, share: float, seed: int, base: Any, templates: Any = None) -> float:
    """Percent points that the links bring on nodes without a label."""
    train = np.random.default_rng(seed).random(graph.n_nodes) < share
    model, gold = network(base, templates=templates).fit(graph, train=train), np.array(graph.labels, object)
    alone = model.classes_[model.local_.proba(graph.features).argmax(axis=1)]
    return 100 * float(((model.predict(graph) == gold).astype(float) - (alone == gold))[~train].mean())


@pytest.mark.parametrize("share", [0.1, 0.33])
@pytest.mark.parametrize("stray", [0.2, 1.0], ids=["alike", "strangers"])
def test_by_default_few_labels_do_not_make_it_worse_than_its_base(share: float, stray: float):
    """Also where links say nothing. Sums, told of few neighbours in training and of all in sampling, lose much."""
    gains = [gain_by_links(papers(seed, stray=stray), share, seed, LogisticRegression()) for seed in range(4)]
    assert np.mean(gains) > (-1 if stray == 1 else 0)


def test_counts_lose_where_most_neighbours_have_no_label():
    counts = ["count:cites", "count:cited_by"]
    with pytest.warns(DataWarning, match=r"^count\(cites\), count\(cited_by\): \d+ of the \d+ links of training nodes"):
        gains = [gain_by_links(papers(seed), 0.1, seed, LogisticRegression(), counts) for seed in range(4)]
    assert np.mean(gains) < -3


@pytest.mark.data
@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_by_default_it_gains_on_papers_of_which_a_tenth_is_labelled(name: str, data_folder: Any):
    folder = data_folder / "nodes" / f"{name}_linqs"
    graph = kf.read_linqs(folder / f"{name}.content.gz", folder / f"{name}.cites")
    assert gain_by_links(graph, 0.1, 0, LogisticRegression(max_iter=1000)) > 0.5


@pytest.mark.parametrize(("text", "name"), [("count:r", r"count\(r\)"), ("log-count:r", r"logcount\(r\)")])
def test_sums_over_neighbours_some_of_whom_have_no_label_are_warned_of(text: str, name: str):
    graph = kf.Graph(np.eye(3), ["ant", "bee", None], {"r": [(0, 2), (1, 2), (0, 1), (2, 0)]})
    told = f"^{name}: 2 of the 3 links of training nodes lead to nodes without a label, .* Proportion .* in both$"
    with pytest.warns(DataWarning, match=told):
        network(templates=[text, "mean:r", "exists:r"], mode="plain").fit(graph)


def test_what_means_the_same_in_sampling_needs_no_warning():
    """All warnings are errors here."""
    graph = kf.Graph(np.eye(3), ["ant", "bee", None], {"r": [(0, 2), (1, 2), (0, 1), (2, 0)]})
    for templates in (None, "proportion:r", "mean:r:features"):
        assert network(templates=templates).fit(graph).predict(graph).shape == (3,)
    whole = graph.with_labels(["ant", "bee", "ant"])
    assert network(templates="count:r").fit(whole).predict(whole).shape == (3,)


def test_features_of_neighbours_stand_beside_in_both_modes():
    graph = a_graph(5)
    relation = graph.relations["r"].toarray()
    model = network(templates=["mean:r:features", "exists:r"], burn_in=0, sweeps=1).fit(graph)
    votes = one_hot(graph.label_codes, 3)
    wide = np.hstack([graph.features, oracle.mean(relation, graph.features)])
    rows = np.hstack([wide, oracle.exists(relation, votes)])
    expected = LogisticRegression().fit(rows, graph.label_codes)
    np.testing.assert_allclose(model.conditional_.estimator.coef_, expected.coef_, atol=1e-5)
    for mode in ("fast", "plain"):
        model.set_params(mode=mode)
        for i in (0, 7):
            asked = graph.with_labels([None if j == i else y for j, y in enumerate(graph.labels)])
            found = model.predict_proba(asked, forced=True)[i]
            np.testing.assert_allclose(found, expected.predict_proba(rows[i : i + 1])[0], atol=1e-5)


@pytest.mark.parametrize("mode", ["auto", "plain"])
def test_features_of_neighbours_alone_need_no_sampling(mode: str):
    """No label has a part in the conditional, so every sweep finds the same."""
    graph = a_graph(6)
    model = network(templates="mean:r:features", mode=mode, burn_in=0, sweeps=3).fit(graph)
    rows = np.hstack([graph.features, oracle.mean(graph.relations["r"].toarray(), graph.features)])
    expected = LogisticRegression().fit(rows, graph.label_codes).predict_proba(rows)
    np.testing.assert_allclose(model.predict_proba(graph, known="none"), expected, atol=1e-5)


# -- chains


_FITTED: dict[tuple[str, int], Any] = {}


def fitted(text: str, L: int) -> Any:
    if (text, L) not in _FITTED:
        _FITTED[text, L] = network(templates=template(text), burn_in=0, sweeps=1).fit(a_graph(7, L=L))
    return _FITTED[text, L]


@pytest.mark.filterwarnings("ignore:.*had weights in training")  # of a few links all may weigh 1
@pytest.mark.parametrize("text", TEMPLATES)
@pytest.mark.parametrize("L", [2, 3])
@settings(max_examples=8)
@given(seed=SEEDS, n=st.integers(1, 6))
def test_one_node_alone_is_drawn_from_the_conditional(text: str, L: int, seed: int, n: int):
    """All others keep their label, so the first sweep is P(y_i | x, y of the neighbours), in either mode."""
    model, other = fitted(text, L), a_graph(seed, n, L)
    at = seed % n
    asked = other.with_labels([None if i == at else y for i, y in enumerate(other.labels)])
    rows = rows_of(other, text, one_hot(other.label_codes, L))
    expected = model.conditional_.estimator.predict_proba(rows)[at]
    for mode in ("fast", "plain"):
        twin = clone(model).set_params(mode=mode)
        vars(twin).update({name: value for name, value in vars(model).items() if name.endswith("_")})
        table = twin.predict_proba(asked, forced=True)
        np.testing.assert_allclose(table[at], expected, atol=1e-9)
        kept = np.arange(n) != at
        np.testing.assert_array_equal(table[kept], one_hot(other.label_codes, L)[kept])


@pytest.mark.parametrize("text", ["count:r", "concat:r"])
def test_plain_sweeps_ask_the_conditional_for_all_nodes_at_once(text: str):
    """From the local model's labels: the first sweep is the conditional model's answer, to the last digit."""
    model, other = clone(fitted(text, 3)).set_params(mode="plain"), a_graph(8)
    model.fit(a_graph(7))
    start = model.local_.estimator.predict_proba(other.features).argmax(axis=1)
    rows = rows_of(other, text, one_hot(start, 3))
    np.testing.assert_allclose(model.predict_proba(other), model.conditional_.estimator.predict_proba(rows), atol=1e-12)


COPIES = 1500
TRIO = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [2.0, 0.0, 0.0]])


@pytest.fixture(scope="module")
def trio() -> tuple[kf.DependencyNetwork, kf.Graph]:
    """Many copies of three nodes that look at each other, and a conditional with weights set by hand."""
    links = sparse.block_diag([TRIO] * COPIES, format="csr")
    X = np.tile([[0.2], [-0.5], [0.1]], (COPIES, 1))
    graph = kf.Graph(X, None, {"r": sparse.csr_array(links)}, classes=["no", "yes"])
    small = kf.Graph(X[:6], ["no", "yes"] * 3, {"r": links[:6, :6]})
    model = network(templates="count:r", start="random").fit(small)
    model.conditional_.estimator.coef_ = np.array([[0.7, 0.6, -0.9]])
    model.conditional_.estimator.intercept_ = np.array([0.3])
    return model, graph


def trio_conditional(model: Any) -> oracle.Conditional:
    def conditional(i: int, labels: Any) -> Any:
        told = oracle.count(TRIO, np.eye(2)[labels])[i]
        return model.conditional_.estimator.predict_proba([[(0.2, -0.5, 0.1)[i], *told]])[0]

    return conditional


def labellings_before_each_sweep(model: Any, graph: kf.Graph, sweeps: int) -> Any:
    """(sweeps, 8): how often each labelling stood before a plain sweep. What a node is drawn from tells how its
    neighbours were labelled, and all three tell the labelling."""
    conditional = trio_conditional(model)
    told = np.array([[conditional(i, y)[1] for i in range(3)] for y in enumerate_labellings(3, 2)])
    total, found = np.zeros((3 * COPIES, 2)), []
    for number, mean in enumerate(model.trace(graph, sweeps, known="none"), 1):
        drawn_from = (number * mean - total)[:, 1].reshape(COPIES, 1, 3)
        total = number * mean
        distance = np.abs(drawn_from - told).max(axis=2)
        assert distance.min(axis=1).max() < 1e-9
        found.append(np.bincount(distance.argmin(axis=1), minlength=8))
    return np.array(found)


def test_plain_sweeps_are_definition_1(trio: tuple[kf.DependencyNetwork, kf.Graph]):
    """From random labels, all drawn at once given those of the sweep before."""
    model, graph = trio[0].set_params(mode="plain"), trio[1]
    conditional, initial = trio_conditional(model), np.full(8, 1 / 8)
    found = labellings_before_each_sweep(model, graph, 4)
    for sweeps in range(4):
        exact = oracle.after_sweeps(initial, oracle.synchronous_matrix(conditional, 3, 2), sweeps)
        assert stats.chisquare(found[sweeps], COPIES * exact).pvalue > 0.001
    others = oracle.after_sweeps(initial, oracle.sweep_matrix(conditional, 3, 2), 3)
    assert stats.chisquare(found[3], COPIES * others).pvalue < 1e-6, "sharp enough to tell one by one from all at once"


@pytest.mark.parametrize("mode", ["fast", "plain"])
def test_probabilities_are_the_mean_of_the_marginals_after_burn_in(mode: str, trio: Any):
    model, graph = trio
    model.set_params(mode=mode, burn_in=1, sweeps=2)
    matrix = oracle.sweep_matrix if mode == "fast" else oracle.synchronous_matrix
    step = matrix(trio_conditional(model), 3, 2)
    exact = oracle.averaged_marginals(np.full(8, 1 / 8), step, 3, 2, burn_in=1, sweeps=3)
    found = model.predict_proba(graph, known="none").reshape(COPIES, 3, 2)
    error = found.std(axis=0) / np.sqrt(COPIES)
    assert (np.abs(found.mean(axis=0) - exact) < 4 * error).all()


@pytest.mark.parametrize("mode", ["fast", "plain"])
@settings(max_examples=10)
@given(seed=SEEDS, burn_in=st.integers(0, 3), sweeps=st.integers(1, 4), chains=st.integers(1, 3))
def test_sweeps_after_burn_in_and_chains_are_averaged(mode: str, seed: int, burn_in: int, sweeps: int, chains: int):
    model, other = fitted("count:r", 3), a_graph(seed, 6)
    twin = clone(model).set_params(mode=mode, burn_in=burn_in, sweeps=sweeps, chains=chains, start="random")
    vars(twin).update({name: value for name, value in vars(model).items() if name.endswith("_")})
    means = []
    for chain in range(chains):
        told = [np.zeros((6, 3)), *twin.trace(other, burn_in + sweeps, chain=chain)]
        assert len(told) == 1 + burn_in + sweeps
        means.append(((burn_in + sweeps) * told[-1] - burn_in * told[burn_in]) / sweeps)
    np.testing.assert_allclose(twin.predict_proba(other), np.mean(means, axis=0), atol=1e-9)


@pytest.mark.parametrize("mode", ["fast", "plain"])
@pytest.mark.parametrize("told", ["nothing", "training labels", "forced"])
def test_the_trace_ends_at_the_prediction(mode: str, told: str):
    graph = a_graph(9)
    model = network(mode=mode, burn_in=0, sweeps=4).fit(graph, train=np.arange(15))
    forced = told == "forced"
    how = {"forced": forced, "known": "none" if told == "nothing" else "train"}
    asked = graph.with_labels([y if i < 8 else None for i, y in enumerate(graph.labels)]) if forced else graph
    tables = list(model.trace(asked, 4, **how))
    assert len(tables) == 4
    for table in tables:
        assert table.shape == (24, 3)
        np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-9)
    np.testing.assert_allclose(tables[-1], model.predict_proba(asked, **how), atol=1e-12)


def test_chains_go_their_own_ways():
    model, other = fitted("count:r", 3), a_graph(8)
    one, two, again = (list(model.trace(other, 3, chain=chain))[-1] for chain in (0, 1, 0))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, two)


def test_where_chains_begin():
    """In the first plain sweep, a node with one neighbour is drawn from what that one began with."""
    n = 400
    links = {"r": sparse.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))}
    graph = a_graph(10, n, relations=links)
    model = network(mode="plain", burn_in=0, sweeps=1).fit(graph)
    own = model.local_.estimator.predict_proba(graph.features).argmax(axis=1)
    given = [model.conditional_.estimator.predict_proba(rows_of(graph, "proportion:r", one_hot(np.full(n, y), 3)))
             for y in range(3)]  # fmt: skip

    def began(start: str, seed: int) -> Any:
        table = model.set_params(start=start, random_state=seed).predict_proba(graph, known="none")
        return np.roll(np.abs(np.array(given) - table).max(axis=2).argmin(axis=0), 1)

    np.testing.assert_array_equal(began("local", 0), own)
    random = began("random", 0)
    assert stats.chisquare(np.bincount(random)).pvalue > 0.001
    assert (random != began("random", 1)).any() and (random == began("random", 0)).all()


# -- labels that are known


def test_nodes_trained_on_keep_their_label_unless_they_are_asked_about():
    graph, train = a_graph(11), np.arange(16)
    truth = one_hot(graph.label_codes, 3)
    model = network(burn_in=0, sweeps=3).fit(graph, train=train)
    kept = model.predict_proba(graph)
    np.testing.assert_array_equal(kept[train], truth[train])
    assert (model.predict_proba(graph, known="none") > 0).all(), "everybody is drawn anew"
    np.testing.assert_array_equal(model.predict_proba(graph.with_labels(None)), kept)


@pytest.mark.parametrize("mode", ["fast", "plain"])
def test_kept_labels_are_told_to_the_neighbours(mode: str):
    """All but one kept: the one is the conditional's, given the true labels."""
    graph = a_graph(12)
    for i in (0, 5, 23):
        model = network(mode=mode, burn_in=2, sweeps=2).fit(graph, train=np.arange(24) != i)
        rows = rows_of(graph, "proportion:r", one_hot(graph.label_codes, 3))
        expected = model.conditional_.estimator.predict_proba(rows[i : i + 1])[0]
        np.testing.assert_allclose(model.predict_proba(graph)[i], expected, atol=1e-9)


def test_another_graph_has_known_labels_only_if_forced():
    model = network(burn_in=0, sweeps=3).fit(a_graph(13, unknown=0.3))
    other = a_graph(14, unknown=0.5)
    known = other.label_codes >= 0
    free, forced = model.predict_proba(other), model.predict_proba(other, forced=True)
    np.testing.assert_array_equal(free, model.predict_proba(other.with_labels(None)))
    np.testing.assert_array_equal(forced[known], one_hot(other.label_codes, 3)[known])
    assert (free > 0).all() and (forced[~known] > 0).all() and not np.array_equal(free[~known], forced[~known])
    labels = model.predict(other, forced=True)
    assert labels[known].tolist() == [y for y in other.labels if y is not None]
    strange = a_graph(14, classes=[*NAMES, "dog"]).with_labels(["dog"] + [None] * 23)
    with pytest.raises(InputError, match=r"label 'dog' of node '0' was never seen in training"):
        model.predict(strange, forced=True)


# -- modes


class Timid(LogisticRegression):
    """Never surer than half."""

    def predict_proba(self, X: Any) -> Any:
        return 0.5 * super().predict_proba(X) + 0.5 / len(self.classes_)


@pytest.mark.parametrize(
    ("base", "templates"),
    [
        (GaussianNB(), "count:r"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "count:r"),
        (Timid(), "count:r"),
        (LogisticRegression(), "log-count:r"),
        (LogisticRegression(), [lambda votes, relations: relations["r"] @ votes]),
    ],
    ids=["naive bayes", "pipeline", "timid", "log count", "function"],
)
def test_what_the_kernel_cannot_do_is_done_plainly_or_refused(base: Any, templates: Any):
    graph, other = a_graph(15), a_graph(16)
    tables = []
    for mode in ("auto", "plain"):
        tables.append(network(base, templates=templates, mode=mode, sweeps=5).fit(graph).predict_proba(other))
    np.testing.assert_array_equal(*tables)
    with pytest.raises(SettingError, match=r"`mode='fast'` needs LogisticRegression as base.*use `mode='plain'`"):
        network(base, templates=templates, mode="fast").fit(graph).predict(other)


def test_what_the_kernel_can_do_it_does():
    graph, other = a_graph(17, 40), a_graph(18)
    auto, fast, plain = (
        network(mode=mode, sweeps=5).fit(graph).predict_proba(other) for mode in ("auto", "fast", "plain")
    )
    np.testing.assert_array_equal(auto, fast)
    assert not np.array_equal(fast, plain), "one by one is not all at once"


CHOOSES_C = LogisticRegressionCV(Cs=[0.1, 1.0], cv=2, l1_ratios=(0.0,), scoring="accuracy", use_legacy_attributes=False)


@pytest.mark.parametrize("base", [Timid(), CHOOSES_C], ids=["timid", "chooses C"])
def test_who_is_like_a_logistic_regression_is_asked_all_the_same(base: Any):
    """Whichever mode it is, a node whose neighbours are known has the probabilities of its base."""
    graph = a_graph(18, 40)
    model = network(base, burn_in=0, sweeps=1).fit(graph)
    asked = graph.with_labels([None, *graph.labels[1:]])
    rows = rows_of(graph, "proportion:r", one_hot(graph.label_codes, 3))
    expected = model.conditional_.estimator.predict_proba(rows)[0]
    np.testing.assert_allclose(model.predict_proba(asked, forced=True)[0], expected, atol=1e-9)


def test_both_modes_agree_in_the_long_run_where_nothing_turns_in_circles():
    """Links that lead nowhere back: one by one or all at once, the stationary distribution is the same."""
    n = 12
    links = {"r": sparse.csr_array(np.triu(np.random.default_rng(0).random((n, n)) < 0.4, 1).astype(float))}
    graph = a_graph(19, n, relations=links)
    tables = [
        network(mode=mode, burn_in=20, sweeps=600, chains=2).fit(graph).predict_proba(graph, known="none")
        for mode in ("fast", "plain")
    ]
    np.testing.assert_allclose(*tables, atol=0.06)


# -- manners


def test_it_labels_better_than_its_base_where_links_tell():
    """Pages of two kinds that link to their own kind; the features tell only half of them."""

    def web(seed: int) -> kf.Graph:
        rng = np.random.default_rng(seed)
        kind = rng.integers(2, size=120)
        ends = rng.integers(120, size=(700, 2))
        ends = np.unique(ends[(kind[ends[:, 0]] == kind[ends[:, 1]]) & (ends[:, 0] != ends[:, 1])], axis=0)
        X = np.where(rng.random((120, 1)) < 0.5, np.eye(2)[kind], 0.5)
        return kf.Graph(X, [NAMES[k] for k in kind], {"links": ends})

    graph, other = web(0), web(1)
    model = network(templates="proportion:links").fit(graph)
    alone = LogisticRegression().fit(graph.features, graph.label_codes).score(other.features, other.label_codes)
    assert model.score(other) > alone + 0.1
    accuracy = model.evaluate(other).accuracy
    gold = np.array(other.labels)
    assert accuracy == pytest.approx(100 * (model.predict(other) == gold).mean())
    assert model.score(other) == pytest.approx(accuracy / 100)


def test_settings_are_scikit_learn_s():
    model = network(templates=["count:r"], sweeps=7)
    twin = clone(model)
    assert twin is not model and twin.base is not model.base
    assert repr(twin.get_params(deep=False)) == repr(model.get_params(deep=False))
    assert model.get_params()["base__C"] == 1.0
    graph = a_graph(20)
    weak = clone(model).set_params(base__C=0.01).fit(graph)
    assert weak.base.C == 0.01 and model.base.C == 1.0
    size = lambda m: np.abs(m.conditional_.estimator.coef_).sum()  # noqa: E731
    assert size(weak) < size(model.fit(graph))
    assert not hasattr(model.base, "coef_"), "the base given is left alone"
    assert repr(model) == "DependencyNetwork(base=LogisticRegression(), templates=['count:r'], sweeps=7, n_jobs=1)"


@pytest.mark.parametrize("mode", ["fast", "plain"])
def test_the_same_seed_gives_the_same_answer_whatever_the_threads(mode: str):
    graph, other = a_graph(21), a_graph(22)
    make = lambda **changed: network(mode=mode, chains=3, sweeps=4, **changed).fit(graph).predict_proba(other)  # noqa: E731
    one = make()
    np.testing.assert_array_equal(one, make(n_jobs=2))
    assert not np.array_equal(one, make(random_state=1))
    loose = make(random_state=None)
    np.testing.assert_allclose(loose.sum(axis=1), 1)


def test_a_relational_is_a_graph_too():
    graph, other = a_graph(23), a_graph(24)
    one, two = network(sweeps=4).fit(graph), network(sweeps=4).fit(graph.relational())
    np.testing.assert_array_equal(one.predict_proba(other), two.predict_proba(other.relational()))
    np.testing.assert_array_equal(one.predict(other), two.predict(other))
    assert one.score(other) == two.score(other.relational())
    with pytest.raises(InputError, match="trained on 2 features; got 1"):
        two.predict(kf.Relational(np.zeros((2, 1))))


def test_sparse_and_dense_features_are_the_same():
    graph, other = a_graph(25), a_graph(26)
    thin = graph.with_features(sparse.csr_array(graph.features))
    for base in (LogisticRegression(), GaussianNB()):  # the second takes dense ones only
        one, two = network(base, sweeps=4).fit(graph), network(base, sweeps=4).fit(thin)
        asked = other.with_features(sparse.csr_array(other.features))
        np.testing.assert_allclose(one.predict_proba(other), two.predict_proba(asked), atol=1e-3)


def test_a_relation_may_be_without_links(caplog: pytest.LogCaptureFixture):
    """Nodes then go without those neighbours; but it has to be there."""
    model = network(mode="plain", burn_in=0, sweeps=1).fit(a_graph(27))
    other = a_graph(28)
    bare = kf.Graph(other.features, other.labels, {"s": [(0, 1)]}, classes=NAMES)
    with pytest.raises(InputError, match="trained on the links 'r', and this graph has 's': 'r' is missing"):
        model.predict_proba(bare)
    bare = bare.with_relations({"r": []})
    with caplog.at_level(logging.WARNING, "kinfolk"):
        table = model.predict_proba(bare)
    assert "relation 's' was not there in training" in caplog.text
    rows = np.hstack([other.features, np.zeros((24, 3))])
    np.testing.assert_allclose(table, model.conditional_.estimator.predict_proba(rows), atol=1e-12)
    np.testing.assert_allclose(model.set_params(mode="fast").predict_proba(bare), table, atol=1e-9)


@pytest.mark.parametrize("mode", ["fast", "plain"])
def test_nobody_is_a_graph_too(mode: str):
    model = network(mode=mode, sweeps=2, burn_in=1).fit(a_graph(29))
    empty = a_graph(29, 0)
    assert model.predict_proba(empty).shape == (0, 3) and model.predict(empty).shape == (0,)
    assert [table.shape for table in model.trace(empty, 2)] == [(0, 3)] * 2
    lone = model.predict_proba(kf.Graph(np.zeros((1, 2)), None, {"r": []}))
    np.testing.assert_allclose(lone.sum(axis=1), 1)


def test_labels_that_are_not_known(caplog: pytest.LogCaptureFixture):
    model = network(sweeps=2).fit(a_graph(30))
    other = a_graph(31, classes=[*NAMES, "dog"])
    right = model.evaluate(other).accuracy
    strange = other.with_labels(["dog", *other.labels[1:]])
    with caplog.at_level(logging.WARNING, "kinfolk"):
        assert model.evaluate(strange).accuracy <= right
    assert "count as misses: 'dog'" in caplog.text
    with pytest.raises(InputError, match="scoring needs labels, and this graph has none"):
        model.score(other.with_labels(None))


def test_what_cannot_be_learned_from():
    graph = a_graph(32)
    with pytest.raises(InputError, match=r"all training labels are 'ant'.*Give labels of two classes"):
        network().fit(graph, train=np.flatnonzero(graph.label_codes == 0))
    with pytest.raises(InputError, match="training needs labels"):
        network().fit(graph.with_labels(None))
    with pytest.raises(InputError, match=r"this graph has no relation, so no node has a neighbour\. Give it links"):
        network().fit(kf.Graph(graph.features, graph.labels))
    with pytest.raises(InputError, match="there is no relation 's' here; there are: 'r'"):
        network(templates="count:s").fit(graph)
    with pytest.raises(InputError, match="a graph brings its own labels"):
        network().fit(graph, graph.labels)
    with pytest.raises(InputError, match="expected a Graph or a Relational; got list"):
        network().fit([[1.0]])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sweeps": 0}, "sweeps=.* must be a whole number from 1 to 100000; got 0"),
        ({"burn_in": -1}, "burn_in=.* must be a whole number from 0 to 100000; got -1"),
        ({"chains": 1.5}, "chains=.* got 1.5"),
        ({"start": "cold"}, "start=.* must be 'local' or 'random'; got 'cold'"),
        ({"mode": "slow"}, "mode=.* must be 'auto', 'fast' or 'plain'; got 'slow'"),
        ({"base": LogisticRegression}, r"base must be a scikit-learn classifier.*call it, as in Logistic\w+\(\)"),
        ({"templates": []}, "templates must name at least one"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_setting_is_named(wrong: dict[str, Any], message: str):
    with pytest.raises(SettingError, match=message):
        network(**wrong).fit(a_graph(33))
    with pytest.raises(SettingError, match=r"base must be a scikit-learn classifier, such as .*; got None"):
        kf.DependencyNetwork().fit(a_graph(33))


def test_nothing_is_kept_of_a_failure():
    model = network(DecisionTreeClassifier(max_depth=2, random_state=0), sweeps=2).fit(a_graph(34))
    before = model.predict_proba(a_graph(35))
    with pytest.raises(InputError):
        model.fit(a_graph(36).with_labels(None))
    np.testing.assert_array_equal(model.predict_proba(a_graph(35)), before)


@pytest.mark.parametrize("ask", ["predict", "predict_proba", "evaluate", "score", "save", "classes_", "trace"])
def test_it_has_to_be_trained_first(ask: str, tmp_path: Any):
    model, graph = network(), a_graph(37)
    with pytest.raises(NotFittedError, match="this DependencyNetwork is not trained yet: call fit"):
        if ask == "classes_":
            _ = model.classes_
        elif ask == "trace":
            next(model.trace(graph, 1))
        else:
            getattr(model, ask)(tmp_path / "m" if ask == "save" else graph)
