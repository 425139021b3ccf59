"""Gibbs sampling: a plain loop says the same, labellings come as often as the transition matrix says, and the tables of
a log-linear conditional are its own probabilities.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import kinfolk as kf
import stacked_oracle as oracle
from kinfolk.collective.relations import Neighbourhood
from kinfolk.collective.templates import TemplateSet, as_templates
from kinfolk.core.data import Classes
from kinfolk.graph.dependency import is_log_linear, network_of
from kinfolk.graph.learners import Learner
from kinfolk.inference.gibbs import Chain, Network
from oracles import enumerate_labellings
from strategies import SEEDS


class Link(NamedTuple):
    reader: int
    looked_at: int
    table: int
    weight: float


def network(own: Any, tables: Any, any_: list[bool], links: list[Link]) -> Network:
    """From a list of links in any order."""
    n, L = own.shape
    by = sorted(links, key=lambda link: link.looked_at)
    counts = np.bincount([link.looked_at for link in by], minlength=n) if by else np.zeros(n, np.int64)
    columns = [np.array([link[k] for link in by], np.int64) for k in (0, 2)]
    weight = np.array([link.weight for link in by], np.float64)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Network(own, starts, *columns, weight, np.asarray(tables, float).reshape(-1, L, L), np.array(any_, bool))


def links_of(net: Network) -> list[Link]:
    looked_at = np.repeat(np.arange(len(net.own)), np.diff(net.indptr))
    return [Link(*link) for link in zip(net.reader, looked_at, net.table, net.weight, strict=True)]


def scores(net: Network, labels: Any) -> Any:
    """The formula at the top of the module, link by link."""
    table = net.own.copy()
    heard = set()
    for i, j, b, w in links_of(net):
        if not net.any_[b]:
            table[i] += w * net.tables[b, labels[j]]
        elif (i, b, labels[j]) not in heard:
            heard.add((i, b, labels[j]))
            table[i] += net.tables[b, labels[j]]
    return table


@st.composite
def networks(draw: st.DrawFn, max_nodes: int = 5, impossible: bool = True) -> Network:
    """Links of any weight, some told twice, over tables that add up and tables that ask whether any; nobody looks at
    himself. Some labels may be impossible for everybody."""
    n, L = draw(st.integers(0, max_nodes)), draw(st.integers(1, 3))
    any_ = draw(st.lists(st.booleans(), max_size=4))
    density, scale = draw(st.sampled_from([0.0, 0.5, 1.0])), draw(st.sampled_from([1.0, 0.0, 5.0, 300.0]))
    without = draw(st.integers(0, L - 1)) if impossible else 0
    rng = np.random.default_rng(draw(SEEDS))
    links = [
        Link(i, j, b, float(rng.choice([1.0, 0.5, -1.5, rng.random()])))
        for b in range(len(any_)) for i in range(n) for j in range(n) for _ in range(2)
        if i != j and rng.random() < density / 2
    ]  # fmt: skip
    rng.shuffle(links)  # type: ignore[arg-type]
    own = scale * rng.standard_normal((n, L))
    own[:, :without] = -np.inf
    return network(own, rng.standard_normal((len(any_), L, L)), any_, [Link(*link) for link in links])


class Slow:
    """A chain that works out every score anew."""

    def __init__(self, net: Network, labels: Any, fixed: Any, rng: np.random.Generator) -> None:
        self.net, self.labels, self.fixed, self.rng = net, labels.copy(), fixed, rng

    def sweep(self, sums: Any) -> None:
        draws = self.rng.random(len(self.labels))
        for i in range(len(self.labels)):
            if not self.fixed[i]:
                chances = softmax(scores(self.net, self.labels)[i])
                sums[i] += chances
                self.labels[i] = min((np.cumsum(chances) <= draws[i]).sum(), len(chances) - 1)


def a_start(net: Network, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    n, L = net.own.shape
    return rng.integers(L, size=n), rng.random(n) < 0.25


@settings(max_examples=150)
@given(net=networks(), seed=SEEDS, sweeps=st.integers(0, 6))
def test_scores_kept_up_to_date_are_those_of_the_labels(net: Network, seed: int, sweeps: int):
    labels, fixed = a_start(net, seed)
    chain = Chain(net, labels, fixed, np.random.default_rng(seed))
    sums = np.zeros(net.own.shape)
    for _ in range(sweeps):
        chain.sweep(sums)
    np.testing.assert_allclose(chain._state.scores, scores(net, chain.labels), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(chain.labels[fixed], labels[fixed])
    np.testing.assert_allclose(sums.sum(axis=1), np.where(fixed, 0, sweeps), atol=1e-9)


@settings(max_examples=100)
@given(net=networks(), seed=SEEDS, sweeps=st.integers(1, 5))
def test_a_plain_loop_goes_the_same_way(net: Network, seed: int, sweeps: int):
    labels, fixed = a_start(net, seed)
    fast, slow = (kind(net, labels, fixed, np.random.default_rng(seed)) for kind in (Chain, Slow))
    for _ in range(sweeps):
        mine, theirs = np.zeros(net.own.shape), np.zeros(net.own.shape)
        fast.sweep(mine)
        slow.sweep(theirs)
        np.testing.assert_allclose(mine, theirs, atol=1e-9)
        np.testing.assert_array_equal(fast.labels, slow.labels)


@given(net=networks(), seed=SEEDS)
def test_the_labels_given_are_left_alone_and_the_same_seed_goes_the_same_way(net: Network, seed: int):
    labels, fixed = a_start(net, seed)
    before = labels.copy(), [part.copy() for part in net]
    ends = []
    for _ in range(2):
        chain, sums = Chain(net, labels, fixed, np.random.default_rng(seed)), np.zeros(net.own.shape)
        for _ in range(4):
            chain.sweep(sums)
        ends.append((chain.labels.tolist(), sums.tolist()))
    assert ends[0] == ends[1]
    np.testing.assert_array_equal(labels, before[0])
    for part, was in zip(net, before[1], strict=True):
        np.testing.assert_array_equal(part, was)


def test_a_label_without_any_chance_is_never_drawn():
    own = np.array([[-np.inf, 0.0, 0.0]] * 4)
    net = network(own, np.ones((1, 3, 3)), [False], [Link(0, 1, 0, 2.0), Link(1, 0, 0, -2.0)])
    chain, sums = Chain(net, np.zeros(4, int), np.zeros(4, bool), np.random.default_rng(0)), np.zeros((4, 3))
    seen = set()
    for _ in range(50):
        chain.sweep(sums)
        seen.update(chain.labels.tolist())
    assert seen == {1, 2} and not sums[:, 0].any()


def test_nobody_is_a_network_too():
    net = network(np.zeros((0, 2)), np.ones((1, 2, 2)), [True], [])
    chain, sums = Chain(net, np.zeros(0, int), np.zeros(0, bool), np.random.default_rng(0)), np.zeros((0, 2))
    chain.sweep(sums)
    assert chain.labels.shape == (0,) and sums.shape == (0, 2)


# -- as often as they should


TRIANGLE = network(
    np.array([[0.0, 0.4], [0.3, 0.0], [0.0, -0.2]]),
    [[[0.9, -0.5], [-0.8, 0.7]], [[0.6, -0.4], [-1.0, 1.0]]],
    [False, True],
    [Link(0, 1, 0, 1.0), Link(1, 0, 0, 2.0), Link(1, 2, 1, 1.0), Link(1, 0, 1, 1.0), Link(2, 0, 0, -1.0),
     Link(2, 1, 1, 1.0)],
)  # fmt: skip


def conditional(i: int, labels: Any) -> Any:
    return softmax(scores(TRIANGLE, labels)[i])


def counted(start: Any, sweeps: int, fixed: Any, runs: int = 4000) -> Any:
    """How often each of the 8 labellings stands at the end."""
    found, sums = np.zeros(8), np.zeros((3, 2))
    for seed in range(runs):
        chain = Chain(TRIANGLE, start, fixed, np.random.default_rng([seed, sweeps]))
        for _ in range(sweeps):
            chain.sweep(sums)
        found[4 * chain.labels[0] + 2 * chain.labels[1] + chain.labels[2]] += 1
    return found


def p_value(found: Any, expected: Any) -> float:
    possible = expected > 0
    assert not found[~possible].any()
    return float(stats.chisquare(found[possible], found.sum() * expected[possible]).pvalue)


@pytest.mark.parametrize("sweeps", [1, 2, 5])
def test_labellings_come_as_often_as_the_sweeps_say(sweeps: int):
    start, at = np.array([1, 0, 1]), 5
    found = counted(start, sweeps, np.zeros(3, bool))
    exact = oracle.after_sweeps(np.eye(8)[at], oracle.sweep_matrix(conditional, 3, 2), sweeps)
    assert p_value(found, exact) > 0.001
    others = [oracle.synchronous_matrix(conditional, 3, 2), oracle.sweep_matrix(conditional, 3, 2, [2, 1, 0])]
    for other in others:  # the test is sharp enough to tell them apart
        assert p_value(found, oracle.after_sweeps(np.eye(8)[at], other, sweeps)) < 1e-6


def test_labellings_with_one_fixed():
    fixed = np.array([False, True, False])
    kept = lambda i, labels: np.eye(2)[1] if i == 1 else conditional(i, labels)  # noqa: E731
    exact = oracle.after_sweeps(np.eye(8)[2], oracle.sweep_matrix(kept, 3, 2), 3)
    assert p_value(counted(np.array([0, 1, 0]), 3, fixed), exact) > 0.001


def test_in_the_long_run_conditionals_average_to_the_stationary_marginals():
    chain, sums = Chain(TRIANGLE, np.zeros(3, int), np.zeros(3, bool), np.random.default_rng(3)), np.zeros((3, 2))
    sweeps = 40_000
    for _ in range(sweeps):
        chain.sweep(sums)
    exact = oracle.marginals(oracle.stationary(oracle.sweep_matrix(conditional, 3, 2)), 3, 2)
    np.testing.assert_allclose(sums / sweeps, exact, atol=0.007)
    together = oracle.marginals(oracle.stationary(oracle.synchronous_matrix(conditional, 3, 2)), 3, 2)
    assert np.abs(sums / sweeps - together).max() > 0.015, "the order of visits matters here"


# -- a log-linear conditional as tables


AGGREGATES = {
    "count:r": oracle.count,
    "mean:r": oracle.mean,
    "proportion:r": oracle.proportion,
    "exists:r": oracle.exists,
    "max:r": oracle.maximum,
    "count:r:hard": oracle.count,
    "concat:r": lambda relation, votes: oracle.concat(relation, votes, 2),
    "count:r @ r": lambda relation, votes: oracle.count(oracle.compose(relation, relation), votes),
    "exists:r | ~r": lambda relation, votes: oracle.exists(np.maximum(relation, relation.T), votes),
}


def a_learner(rng: np.random.Generator, width: int, columns: list[int], n_labels: int) -> Learner:
    """Weights drawn at random, for the classes that are known."""
    rows = 1 if len(columns) == 2 else len(columns)
    learner = Learner(LogisticRegression(), Classes.of(map(str, range(n_labels))))
    learner.columns = np.array(columns)
    learner.estimator.classes_ = np.array(columns)
    learner.estimator.coef_ = rng.standard_normal((rows, width))
    learner.estimator.intercept_ = rng.standard_normal(rows)
    learner.estimator.n_features_in_ = width
    return learner


def as_template(text: str) -> Any:
    return kf.Concat("r", slots=2) if text.startswith("concat") else text


@settings(max_examples=60)
@given(
    names=st.lists(st.sampled_from(list(AGGREGATES)), min_size=1, max_size=3, unique=True),
    n=st.integers(0, 5),
    columns=st.sampled_from([[0, 1], [0, 1, 2], [0, 2], [1, 2]]),
    density=st.sampled_from([0.0, 0.5, 1.0]),
    sparse_features=st.booleans(),
    seed=SEEDS,
)
def test_tables_are_the_probabilities_of_the_conditional(
    names: list[str], n: int, columns: list[int], density: float, sparse_features: bool, seed: int
):
    rng, L = np.random.default_rng(seed), 2 if columns == [0, 1] else 3
    relation = np.where(rng.random((n, n)) < density, rng.integers(1, 7, (n, n)) / 2, 0.0)
    np.fill_diagonal(relation, 0)
    X = np.round(rng.standard_normal((n, 2)), 2)
    features = sparse.csr_array(X) if sparse_features else X
    neighbourhood = Neighbourhood(n, L, {"r": sparse.csr_array(relation)}, features)
    template_set = TemplateSet.learn(as_templates([as_template(name) for name in names]), neighbourhood)
    learner = a_learner(rng, 2 + template_set.width, columns, L)
    assert is_log_linear(learner, template_set)
    net = network_of(learner, template_set, neighbourhood, features)
    for labels in enumerate_labellings(n, L)[:: max(1, L**n // 20)]:
        rows = np.hstack([X, *(AGGREGATES[name](relation, np.eye(L)[labels]) for name in names)])
        expected = learner.proba(rows)
        np.testing.assert_allclose(softmax(scores(net, labels), axis=1), expected, atol=1e-9)
        for i in range(n):  # and so does the kernel, all others being fixed
            chain, sums = Chain(net, labels, np.arange(n) != i, np.random.default_rng(0)), np.zeros((n, L))
            chain.sweep(sums)
            np.testing.assert_allclose(sums[i], expected[i], atol=1e-9)


def test_what_cannot_be_written_as_tables():
    neighbourhood = Neighbourhood(3, 2, {"r": sparse.csr_array(np.eye(3, k=1))}, np.zeros((3, 1)))
    rows, codes = np.array([[0.0], [1.0], [2.0], [4.0]]), np.array([0, 0, 1, 1])
    classes, bases = Classes.of(["a", "b"]), (LogisticRegression(), GaussianNB())
    linear, other = (Learner(base, classes).fit(rows, codes, None) for base in bases)
    learned = lambda *templates: TemplateSet.learn(as_templates(list(templates)), neighbourhood)  # noqa: E731
    assert is_log_linear(linear, learned("count:r", "max:r", "mean:r:features"))
    assert not is_log_linear(other, learned("count:r"))
    assert not is_log_linear(linear, learned("count:r", "log-count:r"))
    assert not is_log_linear(linear, learned(lambda votes, relations: votes))
    assert not is_log_linear(linear, learned("mean:r:features")), "no label has a part in it"
