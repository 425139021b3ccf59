"""Stacked graphical learning: beside brute force, as a sampler, with all sorts of bases and data, and over tokens."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import kinfolk as kf
import stacked_oracle as oracle
from kinfolk.collective.stacking import Ask, as_votes
from kinfolk.errors import DataWarning, InputError, NotFittedError, SettingError
from kinfolk.graph import learners
from kinfolk.text.batch import Batch
from kinfolk.text.calibration import LOOSE
from kinfolk.text.extraction import TokenFeatures, for_corpus
from small_world import TINY, TINY_LABELS, with_sizes
from strategies import SEEDS

CLASSES = ["ant", "bee", "cat"]


class Ridge(ClassifierMixin, BaseEstimator):
    """Least squares to one column a class, squashed: a closed form, so the same rows give the same model."""

    def __init__(self, l2: float = 1.0) -> None:
        self.l2 = l2

    def _table(self, X: Any) -> Any:
        dense = X.toarray() if sparse.issparse(X) else np.asarray(X, float)
        return np.hstack([np.ones((len(dense), 1)), dense])

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Ridge:
        A = self._table(X)
        self.classes_, codes = np.unique(y, return_inverse=True)
        weighted = A.T if sample_weight is None else A.T * sample_weight
        targets = np.eye(len(self.classes_))[codes]
        self.weights_ = np.linalg.solve(weighted @ A + self.l2 * np.eye(A.shape[1]), weighted @ targets)
        return self

    def predict_proba(self, X: Any) -> Any:
        return softmax(3 * self._table(X) @ self.weights_, axis=1)

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def learn(rows: Any, labels: Any, base: Any = None, L: int = len(CLASSES)) -> oracle.Predict:
    """A base as the oracle takes it: a column for every class, a constant where there is one class only."""
    present = np.unique(labels)
    model = None if len(present) < 2 else clone(base or Ridge()).fit(rows, labels)

    def predict(rows: Any) -> Any:
        table = np.zeros((len(rows), L))
        table[:, present] = 1.0 if model is None else model.predict_proba(rows) if len(rows) else 0.0
        return table

    return predict


AGGREGATES: dict[str, Callable[[Any, Any], Any]] = {
    "count:r": oracle.count,
    "mean:r:hard": lambda r, votes: oracle.mean(r, oracle.as_votes(votes, "label") * votes.any(axis=1)[:, None]),
    "proportion:~r": lambda r, votes: oracle.proportion(r.T, votes),
    "max:r | ~r": lambda r, votes: oracle.maximum(np.maximum(r, r.T), votes),
    "exists:r @ r": lambda r, votes: oracle.exists(oracle.compose(r, r), votes),
}


@dataclass
class World:
    """A small graph; labels -1 are unknown, and every class is known somewhere."""

    features: Any
    relation: Any
    labels: Any
    folds: Any
    name: str = "here"

    @property
    def graph(self) -> kf.Graph:
        names = [None if y < 0 else CLASSES[y] for y in self.labels]
        ids = [f"{self.name} {i}" for i in range(len(names))]
        return kf.Graph(self.features, names, {"r": sparse.csr_array(self.relation)}, ids, classes=CLASSES)

    def kept(self, table: Any) -> Any:
        """Known labels are the last word on their nodes."""
        return np.where((self.labels >= 0)[:, None], np.eye(len(CLASSES))[self.labels], table)

    def aggregate(self, template: str) -> Any:
        return functools.partial(AGGREGATES[template], self.relation)


def a_world(rng: np.random.Generator, n: int, n_folds: int, unknown: bool) -> World:
    relation = np.where(rng.random((n, n)) < 0.35, rng.integers(1, 5, (n, n)) / 2, 0.0)
    np.fill_diagonal(relation, 0.0)
    labels, order = rng.integers(3, size=n), rng.permutation(n)
    labels[order[:3]] = [0, 1, 2]
    if unknown:  # but not those that are needed
        later = order[max(3, n_folds) :]
        labels[later[rng.random(len(later)) < 0.6]] = -1
    folds = np.zeros(n, np.int64)
    folds[order] = np.arange(n) % n_folds  # every fold has somebody
    return World(rng.standard_normal((n, 2)), relation, labels, folds)


@st.composite
def worlds(draw: st.DrawFn, n_folds: int = 2, n: int = 6) -> World:
    unknown, seed = draw(st.booleans()), draw(SEEDS)
    return a_world(np.random.default_rng(seed), draw(st.integers(n, n + 4)), n_folds, unknown)


# never the training graph itself, which a model would know again
OTHERS = worlds().map(lambda world: replace(world, name="there"))


def stacked(base: Any = None, **changed: Any) -> kf.StackedNodes:
    return kf.StackedNodes(**{"base": base or Ridge(), "depth": 1, "folds": 4, "n_jobs": 1, **changed})


# -- the paper's figures


@pytest.mark.parametrize("predictions", ["proba", "label"])
@pytest.mark.parametrize("known", ["crossfit", "true"])
@settings(max_examples=20)
@given(world=worlds(), other=OTHERS, depth=st.integers(0, 2), template=st.sampled_from(list(AGGREGATES)))
def test_it_is_the_paper_s(predictions: str, known: str, world: World, other: World, depth: int, template: str):
    model = stacked(
        templates=template, depth=depth, predictions=predictions, known=known, cross_fitting="paper", folds=world.folds
    )
    levels = oracle.learn_stacked(
        learn, world.features, world.labels, world.aggregate(template), [world.folds] * (depth + 1), depth,
        predictions, known,
    )  # fmt: skip
    np.testing.assert_allclose(model.cross_fit(world.graph), levels[depth].crossfit, atol=1e-9)
    model.fit(world.graph)
    predicts = [level.predict for level in levels]
    tables = None if known == "true" else [level.crossfit for level in levels]
    here = oracle.predict_stacked(
        predicts, world.features, world.aggregate(template), predictions, world.labels, tables
    )  # fmt: skip
    for graph in (world.graph, world.graph.with_labels(None)):
        found = model.predict_levels(graph)
        assert len(found) == depth + 1
        for table, true in zip(found, [*here[:-1], world.kept(here[-1])], strict=True):
            np.testing.assert_allclose(table, true, atol=2e-6)
    there = oracle.predict_stacked(predicts, other.features, other.aggregate(template), predictions)
    for table, true in zip(model.predict_levels(other.graph), there, strict=True):
        np.testing.assert_allclose(table, true, atol=1e-9)
    forced = oracle.predict_stacked(predicts, other.features, other.aggregate(template), predictions, other.labels)
    marked = other.labels >= 0
    forced[-1][marked] = np.eye(3)[other.labels[marked]]
    np.testing.assert_allclose(model.predict_proba(other.graph, forced=True), forced[-1], atol=1e-9)


@settings(max_examples=15)
@given(world=worlds(), other=OTHERS, predictions=st.sampled_from(["proba", "label"]), depth=st.integers(1, 2))
def test_own_predictions_are_more_columns(world: World, other: World, predictions: str, depth: int):
    def beside(world: World) -> Any:
        return lambda votes: np.hstack([oracle.count(world.relation, votes), votes])

    model = stacked(depth=depth, predictions=predictions, known="crossfit", cross_fitting="paper", own=True)
    model.set_params(folds=world.folds).fit(world.graph)
    args = (world.features, world.labels, beside(world), [world.folds] * depth, depth, predictions)
    levels = oracle.learn_stacked(learn, *args)
    predicts = [level.predict for level in levels]
    here = oracle.predict_stacked(
        predicts, world.features, beside(world), predictions, world.labels, [level.crossfit for level in levels]
    )
    np.testing.assert_allclose(model.predict_proba(world.graph), world.kept(here[-1]), atol=2e-6)
    there = oracle.predict_stacked(predicts, other.features, beside(other), predictions)
    np.testing.assert_allclose(model.predict_proba(other.graph), there[-1], atol=1e-9)


@settings(max_examples=15)
@given(world=worlds(n_folds=4), other=OTHERS, depth=st.integers(0, 2), template=st.sampled_from(list(AGGREGATES)))
def test_the_ceiling_is_told_every_true_label(world: World, other: World, depth: int, template: str):
    everyone = replace(world, labels=np.abs(world.labels))
    train = world.labels >= 0
    model = stacked(templates=template, depth=depth, known="ceiling").fit(everyone.graph, train=train)
    votes = np.eye(3)[everyone.labels]
    rows = np.hstack([world.features, world.aggregate(template)(votes)]) if depth else world.features
    predict = learn(rows[train], world.labels[train])
    np.testing.assert_allclose(model.predict_proba(everyone.graph), predict(rows), atol=1e-9)
    full = replace(other, labels=np.abs(other.labels))
    rows = np.hstack([full.features, full.aggregate(template)(np.eye(3)[full.labels])]) if depth else full.features
    np.testing.assert_allclose(model.predict_proba(full.graph), predict(rows), atol=1e-9)


# -- strict cross-fitting, from its definition


class Twin:
    """M(k, H), V(k, H) and rows as `learning.crossfit` defines them, one instance at a time."""

    def __init__(self, world: World, template: str, predictions: str, told: bool, own: bool) -> None:
        self.world, self.aggregate, self.predictions = world, world.aggregate(template), predictions
        self.told, self.own = told, own
        self.fold = np.where(world.labels >= 0, world.folds, -1)
        self.model, self.votes, self.said = map(functools.cache, (self.model, self.votes, self.said))  # type: ignore

    def model(self, k: int, hidden: frozenset[int]) -> oracle.Predict:
        index = [i for i, fold in enumerate(self.fold) if fold >= 0 and fold not in hidden]
        rows = []
        for i in index:
            strict = not hidden or self.told
            rows.append(self.row(k, i, hidden | {int(self.fold[i])} if strict else hidden))
        return learn(np.array(rows), self.world.labels[index])

    def said(self, k: int, j: int, hidden: frozenset[int]) -> Any:
        """The probabilities of j by whoever may speak for it."""
        fold = int(self.fold[j])
        voter = hidden if fold < 0 or fold in hidden else hidden | {fold}
        return self.model(k, voter)(self.row(k, j, voter)[None])[0]

    def votes(self, k: int, hidden: frozenset[int]) -> Any:
        table = []
        for j, label in enumerate(self.world.labels):
            if self.told and label >= 0 and self.fold[j] not in hidden:
                table.append(np.eye(3)[label])
            else:
                table.append(oracle.as_votes(self.said(k, j, hidden)[None], self.predictions)[0])
        return np.array(table)

    def row(self, k: int, i: int, votes: frozenset[int]) -> Any:
        if k == 0:
            return self.world.features[i]
        parts = [self.world.features[i], self.aggregate(self.votes(k - 1, votes))[i]]
        if self.own:
            parts.append(oracle.as_votes(self.said(k - 1, i, votes)[None], self.predictions)[0])
        return np.concatenate(parts)


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 2])
@settings(max_examples=8)
@given(
    world=worlds(n_folds=4), other=OTHERS, template=st.sampled_from(list(AGGREGATES)),
    predictions=st.sampled_from(["proba", "label"]), own=st.booleans(), within=st.booleans(),
)  # fmt: skip
def test_strict_cross_fitting_is_as_defined(
    told: bool, depth: int, world: World, other: World, template: str, predictions: str, own: bool, within: bool
):
    if within:  # links lead to another fold by way of unlabelled nodes only, if at all
        fold = np.where(world.labels >= 0, world.folds, -1)
        world.relation *= (fold[:, None] == fold) | (fold[:, None] < 0) | (fold < 0)
    known = "true" if told else "crossfit"
    model = stacked(templates=template, depth=depth, predictions=predictions, known=known, own=own, folds=world.folds)
    twin, nothing, n = Twin(world, template, predictions, told, own), frozenset(), len(world.labels)
    honest = [twin.said(depth, j, nothing) for j in range(n)]
    np.testing.assert_allclose(model.cross_fit(world.graph), honest, atol=1e-9)
    model.fit(world.graph)
    here = [twin.model(depth, nothing)(twin.row(depth, i, nothing)[None])[0] for i in range(n)]
    # where labels are told, what a labelled node thinks of itself is not kept
    asked = world.labels < 0 if told and own else np.full(n, True)
    np.testing.assert_allclose(model.predict_proba(world.graph)[asked], world.kept(here)[asked], atol=2e-6)
    there = twin.model(0, nothing)(other.features)
    for k in range(1, depth + 1):
        votes = oracle.as_votes(there, predictions)
        rows = [other.features, other.aggregate(template)(votes), *([votes] if own else [])]
        there = twin.model(k, nothing)(np.hstack(rows))
    np.testing.assert_allclose(model.predict_proba(other.graph), there, atol=1e-9)


# -- the idealised learner, which samples


def test_votes_are_drawn_as_often_as_they_are_probable():
    table = np.tile([[0.2, 0.0, 0.5, 0.3], [0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]], (4000, 1))
    votes = as_votes(table, Ask("sample", False, 0), 1)
    assert set(np.unique(votes)) == {0.0, 1.0} and (votes.sum(axis=1) == 1).all()
    shares = np.array([votes[k::3].mean(axis=0) for k in range(3)])
    np.testing.assert_array_equal(shares[1:], table[1:3])
    np.testing.assert_allclose(shares[0], table[0], atol=4 * 0.5 / 4000**0.5)
    np.testing.assert_array_equal(as_votes(table, Ask("sample", False, 0), 1), votes)
    np.testing.assert_array_equal(as_votes(table, Ask("proba", False, 0), 1), table)
    np.testing.assert_array_equal(as_votes(table, Ask("label", False, 0), 1), oracle.as_votes(table, "label"))


def test_every_model_draws_for_itself():
    """One stream for two models, or for folds and draws, would make votes agree that have nothing to do with each
    other; numpy's seeds [5] and [5, 0, 0] are the same."""
    table = np.full((64, 2), 0.5)
    places = [(level, *hidden) for level in (0, 1) for hidden in [(), (0,), (1,), (0, 1), (0, 2), (0, 1, 2)]]
    drawn = {tuple(as_votes(table, Ask("sample", False, 5), *place)[:, 0]) for place in places}
    assert len(drawn) == len(places)
    assert tuple((np.random.default_rng(5).random(64) < 0.5).astype(float)) not in drawn


@pytest.mark.parametrize("own", [False, True])
def test_samples_average_to_inhomogeneous_gibbs_marginals(own: bool):
    rng = np.random.default_rng(3)
    world = a_world(rng, 60, 5, False)
    world.relation *= world.labels[:, None] == world.labels  # neighbours matter
    world.features += np.eye(3)[world.labels][:, :2]
    samples = 2000
    model = stacked(depth=2, predictions="sample", known="crossfit", folds=world.folds, samples=samples, own=own)
    model.fit(world.graph)
    small = replace(a_world(rng, 3, 2, False), name="there")
    start = model.levels_[0].proba(small.features)

    def conditional(k: int) -> oracle.Conditional:
        def of_node(i: int, labels: Any) -> Any:
            votes = np.eye(3)[labels]
            row = [small.features[i], oracle.count(small.relation, votes)[i], *([votes[i]] if own else [])]
            return model.levels_[k].proba(np.concatenate(row)[None])[0]

        return of_node

    true = oracle.inhomogeneous(start, [conditional(1), conditional(2)])
    found = model.predict_levels(small.graph)
    np.testing.assert_allclose(found[0], start, atol=1e-12)
    for k in (1, 2):
        marginals = oracle.marginals(true[k], 3, 3)
        np.testing.assert_allclose(found[k], marginals, atol=4 * 0.5 / samples**0.5)
        assert np.abs(marginals - start).max() > 0.05, "or nothing would be seen"


class Grid(ClassifierMixin, BaseEstimator):
    """Maximum likelihood over a list of thetas; columns x, and from level 1 on the votes for 0 and for 1."""

    def __init__(self, grid: Any = ()) -> None:
        self.grid = grid

    def _one(self, X: Any, theta: oracle.Theta) -> Any:
        b, w, c = theta
        return expit(b + w * X[:, 0] + (c * (X[:, 2] - X[:, 1]) if X.shape[1] > 1 else 0.0))

    def fit(self, X: Any, y: Any) -> Grid:
        self.classes_ = np.array([0, 1])
        likelihoods = []
        for theta in self.grid:
            one = self._one(X, theta)
            likelihoods.append(np.log(np.where(y == 1, one, 1 - one)).mean())
        self.chosen_ = int(np.flatnonzero(likelihoods >= max(likelihoods) - 1e-12)[0])
        return self

    def predict_proba(self, X: Any) -> Any:
        one = self._one(X, self.grid[self.chosen_])
        return np.stack([1 - one, one], axis=1)

    def predict(self, X: Any) -> Any:
        return self.predict_proba(X).argmax(axis=1)


def copies_of(world: oracle.TinyWorld, copies: int, seed: int) -> kf.Graph:
    """A sample: graphs drawn from the world, each a group."""
    rng, n = np.random.default_rng(seed), world.x.shape[1]
    which = rng.choice(len(world.x), copies, p=world.x_probability)
    pi = world.pi / world.pi.sum(axis=1, keepdims=True)
    labellings = oracle.enumerate_labellings(n, 2)
    y = np.concatenate([labellings[rng.choice(len(labellings), p=pi[x])] for x in which])
    links = sparse.block_diag([sparse.csr_array(world.relation)] * copies, format="csr")
    groups = np.repeat(np.arange(copies), n)
    return kf.Graph(world.x[which].reshape(-1, 1), y, {"r": links}, groups=groups, classes=["no", "yes"])


def is_clear(world: oracle.TinyWorld, levels: list[oracle.IdealLevel], margin: float) -> bool:
    """Whether every level prefers its choice by a margin to all that are not the same function."""
    labellings = [None, *oracle.enumerate_labellings(world.x.shape[1], 2)]

    def table(g: int, level: int) -> Any:
        seen = labellings[:1] if level == 0 else labellings[1:]
        return [oracle.node_probability(world, world.grid[g], x, i, votes)[1]
                for x in range(len(world.x)) for i in range(world.x.shape[1]) for votes in seen]  # fmt: skip

    return all(
        level.criteria[level.chosen] - value > margin or table(g, k) == table(level.chosen, k)
        for k, level in enumerate(levels)
        for g, value in enumerate(level.criteria)
    )


@settings(max_examples=8)
@given(SEEDS, st.integers(1, 2))
def test_each_level_is_greedy(seed: int, depth: int):
    """What is true of Theorem 1; see the docstring of the oracle."""
    levels = oracle.check_greedy(oracle.random_world(np.random.default_rng(seed), depth=depth), depth)
    assert len(levels) == depth + 1


def test_theorem_1_does_not_hold_to_the_letter():
    marginal = oracle.literal_failures(oracle.marginal_counterexample(), 1)
    assert {(f.level, f.direction, f.chosen, f.better) for f in marginal} == {
        (1, "reverse", 0, 1),
        (1, "forward", 0, 1),
    }
    direction = oracle.literal_failures(oracle.direction_counterexample(), 0)
    assert [(f.level, f.direction, f.chosen, f.better) for f in direction] == [(0, "reverse", 0, 2)]


def clear_worlds(number: int) -> list[oracle.TinyWorld]:
    """Some that a sample can tell, and the counterexamples."""
    found = [oracle.marginal_counterexample(), oracle.direction_counterexample()]
    seed = 0
    while len(found) < number + 2:
        world = oracle.random_world(np.random.default_rng(seed), depth=2)
        levels = oracle.learn_idealised(world, 2)
        if is_clear(world, levels, 0.1) and len({level.chosen for level in levels}) > 1:
            found.append(world)
        seed += 1
    return found


@pytest.mark.parametrize("world", clear_worlds(4), ids=["marginal", "direction", "1", "2", "3", "4"])
def test_a_large_sample_teaches_what_the_idealised_learner_learns(world: oracle.TinyWorld):
    graph = copies_of(world, 2500, 0)
    model = stacked(Grid(world.grid), depth=2, predictions="sample").fit(graph)
    ideal = oracle.learn_idealised(world, 2)
    assert [level.estimator.chosen_ for level in model.levels_] == [level.chosen for level in ideal]


# -- a larger world, and scikit-learn's manners


def web(n: int = 60, seed: int = 0, names: tuple[str, ...] = ("cat", "dog"), **changed: Any) -> kf.Graph:
    """Pages that mostly cite their own kind; features do not tell the kind of every third."""
    rng, L = np.random.default_rng(seed), len(names)
    kind = rng.integers(L, size=n)
    X = (rng.random((n, L + 4)) < 0.3).astype(float)
    X[:, :L] = np.eye(L)[kind]
    X[::3, :L] = 1
    ends = rng.integers(n, size=(6 * n, 2))
    same = kind[ends[:, 0]] == kind[ends[:, 1]]
    links = np.unique(ends[(ends[:, 0] != ends[:, 1]) & (same | (rng.random(len(ends)) < 0.05))], axis=0)
    parts = {"features": sparse.csr_array(X), "labels": [names[k] for k in kind], "relations": {"cites": links}}
    return kf.Graph(**{**parts, "ids": [f"p{i} of {seed}" if seed else f"p{i}" for i in range(n)], **changed})


GRAPH, OTHER = web(), web(60, 1)
LR = LogisticRegression


def partly(graph: kf.Graph, every: int = 2) -> kf.Graph:
    """The same with a label for one node in so many."""
    return graph.with_labels([y if i % every == 0 else None for i, y in enumerate(graph.labels)])


@pytest.mark.parametrize(
    "base", [LR(), Ridge(), GaussianNB(), DecisionTreeClassifier(random_state=0), LR(class_weight="balanced"),
             LR(class_weight={0: 3.0, 1: 0.5}), make_pipeline(StandardScaler(with_mean=False), LR())],
    ids=repr,
)  # fmt: skip
def test_depth_0_is_the_base(base: Any):
    model = stacked(base, depth=0).fit(GRAPH)
    thin = not isinstance(base, GaussianNB)
    rows, others = (g.features if thin else g.features.toarray() for g in (GRAPH, OTHER))
    alone = clone(base).fit(rows, GRAPH.label_codes)
    np.testing.assert_allclose(model.predict_proba(OTHER), alone.predict_proba(others), rtol=1e-12)
    assert model.predict(OTHER).tolist() == [model.classes_[k] for k in alone.predict(others)]
    assert model.score(OTHER) == pytest.approx(alone.score(others, OTHER.label_codes))
    bare = kf.Graph(GRAPH.features, GRAPH.labels)
    np.testing.assert_array_equal(stacked(base, depth=0).fit(bare).predict_proba(OTHER), model.predict_proba(OTHER))


@pytest.mark.parametrize("cross_fitting", ["strict", "paper"])
@pytest.mark.parametrize("predictions", ["proba", "label", "sample"])
def test_neighbours_are_worth_having(cross_fitting: str, predictions: str):
    base = LR() if predictions == "proba" else Ridge()
    alone = stacked(base, depth=0).fit(GRAPH)
    model = stacked(base, cross_fitting=cross_fitting, predictions=predictions).fit(GRAPH)
    assert model.score(OTHER) > alone.score(OTHER) + 0.02
    table = model.predict_proba(OTHER)
    assert table.shape == (60, 2) and (table >= 0).all()
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-9)
    assert model.predict(OTHER).tolist() == [model.classes_[k] for k in table.argmax(axis=1)]
    accuracy = model.evaluate(OTHER).accuracy
    assert accuracy == pytest.approx(100 * model.score(OTHER))
    honest = model.cross_fit(GRAPH)
    np.testing.assert_allclose(honest.sum(axis=1), 1, atol=1e-9)
    assert (honest.argmax(axis=1) == GRAPH.label_codes).mean() > alone.score(OTHER) - 0.05


def test_labels_in_the_graph_are_told_to_neighbours():
    half = partly(GRAPH)
    model = stacked().fit(half)
    assert model.known_ == "true" and stacked().fit(GRAPH).known_ == "crossfit"
    hidden = np.array([y is None for y in half.labels])

    def right(table: Any) -> float:
        return float((table.argmax(axis=1) == GRAPH.label_codes)[hidden].mean())

    told, alone = right(model.predict_proba(half)), right(stacked(depth=0).fit(half).predict_proba(half))
    assert told > alone + 0.05
    np.testing.assert_array_equal(model.predict_proba(GRAPH), model.predict_proba(half))
    np.testing.assert_array_equal(model.predict_proba(half.with_labels(None)), model.predict_proba(half))
    np.testing.assert_array_equal(stacked().fit(GRAPH, train=~hidden).predict_proba(half), model.predict_proba(half))
    numbers = np.flatnonzero(~hidden)
    np.testing.assert_array_equal(stacked().fit(GRAPH, train=numbers).predict_proba(half), model.predict_proba(half))
    forced = model.predict(half, forced=True)
    assert [y for y, known in zip(forced, ~hidden, strict=True) if known] == [y for y in half.labels if y is not None]


def test_a_model_for_known_labels_says_so_where_none_is_known(caplog: pytest.LogCaptureFixture):
    model = stacked().fit(partly(GRAPH))
    model.predict(GRAPH)
    model.predict(OTHER, forced=True)
    assert not caplog.records
    model.predict(OTHER)
    assert "no node trained on is in this graph, so no neighbour's label is known" in caplog.text


def test_settings_are_scikit_learn_s():
    model = stacked(LR(C=2.0), depth=2, folds=np.arange(60) % 4)
    twin = clone(model)
    assert twin is not model and twin.base is not model.base and twin.base.C == 2.0
    np.testing.assert_array_equal(twin.folds, model.folds)
    assert model.get_params()["base__C"] == 2.0 and "base__C" not in model.get_params(deep=False)
    assert twin.set_params(base__C=0.5, depth=1) is twin
    assert (twin.base.C, twin.depth, model.base.C) == (0.5, 1, 2.0)
    twin.set_params(base=make_pipeline(StandardScaler(with_mean=False), LR()), base__logisticregression__C=7.0)
    assert twin.get_params()["base__logisticregression__C"] == 7.0
    for wrong in ({"levels": 2}, {"bass__C": 1.0}):
        with pytest.raises(SettingError, match="StackedNodes has no setting"):
            model.set_params(**wrong)
    with pytest.raises(ValueError, match="Invalid parameter 'D'"):
        model.set_params(base__D=1.0)
    assert "LogisticRegression(C=2.0)" in repr(model) and "depth=2" in repr(model) and "samples" not in repr(model)
    with pytest.raises(NotFittedError, match="not trained yet"):
        model.predict(GRAPH)


def test_c_of_the_base_matters():
    tables = [stacked(LR()).set_params(base__C=C).fit(GRAPH).predict_proba(OTHER) for C in (1e-4, 1.0)]
    assert np.abs(tables[0] - 0.5).max() < 0.1 < np.abs(tables[1] - 0.5).max()


def test_nothing_is_learned_by_cross_fit_nor_kept_of_a_failure():
    model = stacked()
    model.cross_fit(GRAPH)
    assert not hasattr(model, "levels_")
    model.fit(GRAPH)
    before = model.predict_proba(OTHER)
    with pytest.raises(InputError):
        model.fit(GRAPH.with_labels(["cat"] * 60))
    np.testing.assert_array_equal(model.predict_proba(OTHER), before)


# -- weights


@settings(max_examples=10)
@given(worlds(n_folds=4), OTHERS, SEEDS, st.integers(0, 1), st.sampled_from(["crossfit", "true"]))
def test_a_weight_is_so_many_of_a_kind(world: World, other: World, seed: int, depth: int, known: str):
    """Copies look at whom the original looks at, and nobody looks at them."""
    n = len(world.labels)
    weights = np.random.default_rng(seed).integers(1, 4, n)
    where = np.concatenate([np.arange(n), np.repeat(np.arange(n), weights - 1)])
    relation = np.zeros((len(where), len(where)))
    relation[:, :n] = world.relation[where]
    many = World(world.features[where], relation, world.labels[where], world.folds[where])
    for base in (Ridge(), make_pipeline("passthrough", Ridge())):
        weighted = stacked(base, depth=depth, folds=world.folds, known=known).fit(world.graph, sample_weight=weights)
        repeated = stacked(depth=depth, folds=many.folds, known=known).fit(many.graph)
        for a, b in zip(weighted.predict_levels(other.graph), repeated.predict_levels(other.graph), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


def test_weights_of_one_are_no_weights():
    plain = stacked().fit(GRAPH).predict_proba(OTHER)
    np.testing.assert_allclose(stacked().fit(GRAPH, sample_weight=np.ones(60)).predict_proba(OTHER), plain, atol=1e-6)
    cats = 1 + 9.0 * np.array([y == "cat" for y in GRAPH.labels])
    assert stacked().fit(GRAPH, sample_weight=cats).predict_proba(OTHER)[:, 0].mean() > plain[:, 0].mean() + 0.05
    honest = stacked().cross_fit(GRAPH, sample_weight=cats)
    assert honest[:, 0].mean() > stacked().cross_fit(GRAPH)[:, 0].mean() + 0.05


@pytest.mark.parametrize(
    ("weights", "message"),
    [(np.ones(3), r"one number a node \(60\)"), (["a"] * 60, "must hold numbers"), (-np.ones(60), "not negative"),
     (np.zeros(60), "not all zero"), (np.full(60, np.nan), "finite")],
    ids=["few", "words", "negative", "zero", "nan"],
)  # fmt: skip
def test_wrong_weights_are_told(weights: Any, message: str):
    with pytest.raises(InputError, match=message):
        stacked().fit(GRAPH, sample_weight=weights)


def test_a_base_that_takes_no_weights_is_told():
    for base in (KNeighborsClassifier(1), make_pipeline(StandardScaler(with_mean=False), KNeighborsClassifier(1))):
        with pytest.raises(SettingError, match="KNeighborsClassifier takes no sample_weight; choose another base"):
            stacked(base).fit(GRAPH, sample_weight=np.ones(60))


# -- bases of all sorts


def test_every_level_may_have_its_own_base():
    bases = [LR(), GaussianNB(), DecisionTreeClassifier(max_depth=3, random_state=0)]
    model = stacked(bases, depth=2).fit(GRAPH)
    assert [type(level.estimator) for level in model.levels_] == list(map(type, bases))
    assert not any(hasattr(base, "classes_") for base in bases), "the bases given are never fitted themselves"
    assert model.score(OTHER) > 0.7
    with pytest.raises(SettingError, match=r"one, or a list of depth \+ 1 = 2; got 3"):
        stacked(bases, depth=1).fit(GRAPH)


@pytest.mark.parametrize(
    "base", [HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=2), GaussianNB()], ids=repr
)
def test_sparse_features_are_made_dense_for_bases_that_need_it(base: Any):
    templates = ["count:cites", "mean:cites:features"]
    dense = [kf.Graph(g.features.toarray(), g.labels, g.relations, g.ids) for g in (GRAPH, OTHER)]
    with threadpool_limits(1):
        models = [stacked(base, templates=templates, folds=2, known="true").fit(g) for g in (GRAPH, dense[0])]
        tables = [model.predict_proba(g) for model in models for g in (OTHER, dense[1])]
    for table in tables[1:]:
        np.testing.assert_allclose(table, tables[0], rtol=1e-6)


def wide_graph(n: int = 300, width: int = 2_000) -> kf.Graph:
    """Few words of many; the first two tell the class."""
    rng = np.random.default_rng(0)
    kind = np.arange(n) % 2
    words = np.concatenate([kind[:, None], rng.integers(2, width, (n, 4))], axis=1)
    X = sparse.csr_array((np.ones(5 * n), (np.repeat(np.arange(n), 5), words.ravel())), shape=(n, width))
    links = [(i, (i + 2) % n) for i in range(n)]
    return kf.Graph(X, [("cat", "dog")[k] for k in kind], {"cites": links})


class LookedAt(GaussianNB):
    """Keeps the numbers of rows it was ever given at once."""

    seen: list[int] = []  # noqa: RUF012 (of all clones)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LookedAt:
        assert isinstance(X, np.ndarray)
        self.seen.append(len(X))
        return super().fit(X, y, sample_weight)

    def predict_proba(self, X: Any) -> Any:
        self.seen.append(len(X))
        return super().predict_proba(X)


def test_a_sparse_table_is_made_dense_in_parts(monkeypatch: pytest.MonkeyPatch):
    """The rows to train on, and some rows at a time to predict: never the table as a whole, which may not fit."""
    graph, few = wide_graph(), np.arange(40)
    thin, full = (stacked(GaussianNB(), folds=3).fit(g, train=few) for g in (graph, filled(graph)))
    monkeypatch.setattr("kinfolk.core.threads.DENSE_LIMIT", 50 * 2_010 * 8)
    monkeypatch.setattr("kinfolk.graph.learners.DENSE_BLOCK", 50 * 2_010 * 8)
    LookedAt.seen.clear()
    model = stacked(LookedAt(), folds=3).fit(graph, train=few)
    np.testing.assert_allclose(model.predict_proba(graph), full.predict_proba(filled(graph)), atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(graph), thin.predict_proba(graph), atol=1e-9)
    assert max(LookedAt.seen) <= 50
    with pytest.raises(
        InputError,
        match=r"LookedAt takes no sparse rows.* 300 of them with 2,00\d columns take 0\.00447 GiB .*TruncatedSVD",
    ):
        stacked(LookedAt(), folds=3).fit(graph)


def filled(graph: kf.Graph) -> kf.Graph:
    return graph.with_features(graph.features.toarray())


def test_a_pipeline_that_begins_with_fewer_columns_takes_sparse_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kinfolk.core.threads.DENSE_LIMIT", 0)
    graph = wide_graph()
    trees = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2)
    with threadpool_limits(1):
        model = stacked(make_pipeline(TruncatedSVD(5, random_state=0), trees), folds=3).fit(graph)
        assert model.predict(graph).shape == (300,)
        with pytest.raises(InputError, match="Pipeline takes no sparse rows"):
            stacked(make_pipeline(MaxAbsScaler(), trees), folds=3).fit(graph)


def test_dense_and_sparse_features_are_the_same_to_a_base_that_takes_both():
    dense = [kf.Graph(g.features.toarray(), g.labels, g.relations, g.ids) for g in (GRAPH, OTHER)]
    templates = ["count:cites", "mean:cites @ cites:features"]
    one = stacked(templates=templates).fit(GRAPH)
    two = stacked(templates=templates).fit(dense[0])
    np.testing.assert_allclose(one.predict_proba(OTHER), two.predict_proba(dense[1]), atol=1e-12)
    np.testing.assert_allclose(one.predict_proba(dense[1]), two.predict_proba(OTHER), atol=1e-12)


class Names(ClassifierMixin, BaseEstimator):
    """Predicts labels, and no more."""

    def fit(self, X: Any, y: Any) -> Names:
        self.inner_ = Ridge().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.inner_.predict(X)


@pytest.mark.parametrize("names", [("cat", "dog"), ("cat", "dog", "eel")], ids=["two", "three"])
def test_a_base_without_probabilities_gives_what_it_has(names: tuple[str, ...], caplog: pytest.LogCaptureFixture):
    graph, other = web(60, 0, names), web(60, 1, names)
    model = stacked(LinearSVC()).fit(graph)
    assert "LinearSVC gives no probabilities; its decision values" in caplog.text
    said = LinearSVC().fit(graph.features, graph.label_codes).decision_function(other.features)
    true = softmax(said, axis=1) if len(names) > 2 else np.stack([expit(-said), expit(said)], axis=1)
    np.testing.assert_allclose(model.predict_levels(other)[0], true, atol=1e-6)
    assert model.score(other) > 0.7 and stacked(make_pipeline(LinearSVC())).fit(graph).score(other) > 0.7
    caplog.clear()
    only = stacked(Names()).fit(kf.Graph(graph.features.toarray(), graph.labels, graph.relations))
    assert "Names gives no probabilities; its labels alone" in caplog.text
    table = only.predict_levels(other)[0]
    assert set(np.unique(table)) == {0.0, 1.0} and (table.sum(axis=1) == 1).all()
    assert (
        table.argmax(axis=1).tolist() == Ridge().fit(graph.features, graph.label_codes).predict(other.features).tolist()
    )


def test_probabilities_need_no_word(caplog: pytest.LogCaptureFixture):
    stacked().fit(GRAPH)
    stacked(LinearSVC(), depth=0).fit(GRAPH)
    assert not caplog.records


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (None, "base is missing"),
        (LR, r"it is a class: call it, as in LogisticRegression\(\)"),
        (LinearRegression(), "must be a classifier.*got LinearRegression"),
        ("logistic", "must be a scikit-learn classifier"),
        (StandardScaler(), "must be a scikit-learn classifier"),
        (kf.MaxEnt(), "must be a scikit-learn classifier; got .*; for the tokens of a corpus"),
        ([LR(), kf.MaxEnt()], "got MaxEnt"),
        ([LR(), LinearRegression()], "must be a classifier.*got LinearRegression"),
    ],
    ids=["none", "class", "regressor", "string", "transformer", "tagger", "one tagger", "one regressor"],
)
def test_what_is_no_base_is_told(base: Any, message: str):
    with pytest.raises(SettingError, match=message):
        kf.StackedNodes(base, depth=1).fit(GRAPH)


# -- few classes, few instances


def test_one_class_is_nothing_to_tell_apart():
    for depth in (0, 1):
        with pytest.raises(InputError, match="all training labels are 'cat': there is nothing to tell apart"):
            stacked(depth=depth).fit(GRAPH.with_labels(["cat"] * 60))
    with pytest.raises(InputError, match="training needs labels"):
        stacked().fit(GRAPH.with_labels(None))


def test_fewer_instances_than_folds():
    first = [GRAPH.labels.index("cat"), GRAPH.labels.index("dog"), 59]
    few = GRAPH.with_labels([y if i in first else None for i, y in enumerate(GRAPH.labels)])
    with pytest.raises(InputError, match=r"`folds=4` needs as many .*; there are 3: set `folds=3` or fewer"):
        stacked().fit(few)
    assert stacked(folds=3).fit(few).predict_proba(few).shape == (60, 2)
    assert stacked(depth=0).fit(few).predict_proba(few).shape == (60, 2)
    grouped = web(groups=[0] * 30 + [1] * 30)
    with pytest.raises(InputError, match="`folds=4` needs as many labelled groups; there are 2"):
        stacked(split="group").fit(grouped)
    with pytest.raises(SettingError, match=r"`depth=3` with strict cross-fitting hides 3 folds at a time.*folds"):
        stacked(depth=3, folds=3, known="true").fit(GRAPH)


def test_a_fold_may_lack_a_class_and_another_all_but_one():
    """The folds of cats: without them their models know dogs and eels only, without the rest cats only."""
    labels = ["cat", "cat", "dog", "eel", "dog", "eel"]
    links = [(i, j) for i in range(6) for j in range(6) if i != j]
    graph = kf.Graph(np.eye(6), labels, {"r": links})
    for folds in ([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 1, 1]):
        model = stacked(folds=folds, cross_fitting="paper")
        honest = model.cross_fit(graph)
        assert (honest[:2, 0] == 0).all(), "nobody without the fold has seen a cat"
        np.testing.assert_allclose(honest.sum(axis=1), 1)
        if max(folds) == 1:
            assert (honest[2:, 0] == 1).all()
        np.testing.assert_allclose(model.fit(graph).predict_proba(graph).sum(axis=1), 1)


@pytest.mark.parametrize("cross_fitting", ["strict", "paper", "none"])
def test_folds_by_group(cross_fitting: str):
    parts = [web(20, seed) for seed in range(4)]
    links = sparse.block_diag([g.relations["cites"] for g in parts], format="csr")
    X = sparse.vstack([g.features for g in parts])
    graph = kf.Graph(X, [y for g in parts for y in g.labels], {"cites": links}, groups=np.repeat(range(4), 20))
    model = stacked(cross_fitting=cross_fitting).fit(graph)
    by_group = model.folds_.reshape(4, 20)
    assert (by_group == by_group[:, :1]).all() and sorted(by_group[:, 0]) == [0, 1, 2, 3]
    apart = stacked(cross_fitting=cross_fitting, split="instance").fit(graph)
    assert any(len(set(row)) > 1 for row in apart.folds_.reshape(4, 20)) and apart.folds_.max() == 3
    assert (model.cross_fit(graph).argmax(axis=1) == graph.label_codes).mean() > 0.7


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        (1, "folds must be 2 or more; got 1"),
        (0, "folds must be 2 or more"),
        ([0, 1], r"one fold an instance \(60\)"),
        (2.5, "folds must be a number"),
        ("5", "folds must be a number"),
        ([0] * 60, "two or more must hold labels"),
        ([-1, 0] * 30, "numbered from 0"),
    ],
    ids=repr,
)
def test_wrong_folds_are_told(folds: Any, message: str):
    for depth in (1, None):
        with pytest.raises(SettingError, match=message):
            stacked(folds=folds, depth=depth).fit(GRAPH)


def test_folds_that_are_not_set_are_five():
    assert {*stacked(folds=None).fit(GRAPH).folds_.tolist()} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize(
    "wrong",
    [{"depth": -1}, {"depth": 1.0}, {"depth": True}, {"predictions": "hard"}, {"own": 1}, {"features": 0},
     {"known": "yes"}, {"cross_fitting": "loose"}, {"split": "node"}, {"samples": 0}, {"random_state": -1},
     {"n_jobs": 0}],
    ids=repr,
)  # fmt: skip
def test_a_wrong_setting_is_named(wrong: dict[str, Any]):
    with pytest.raises(SettingError, match=next(iter(wrong))):
        stacked(**wrong).fit(GRAPH)


# -- graphs of all sorts


def test_a_relation_may_be_missing(caplog: pytest.LogCaptureFixture):
    with pytest.raises(InputError, match="there is no relation 'site' here; there are: 'cites'"):
        stacked(templates="count:site").fit(GRAPH)
    with pytest.raises(InputError, match="this graph has no relation"):
        stacked().fit(kf.Graph(GRAPH.features, GRAPH.labels))
    model = stacked().fit(GRAPH)
    assert not caplog.records
    bare = kf.Graph(OTHER.features, OTHER.labels)
    with pytest.raises(InputError, match=r"on the links 'cites', and this graph has none: 'cites' is missing"):
        model.predict_proba(bare)
    lonely = kf.Graph(OTHER.features, OTHER.labels, {"cites": []})
    np.testing.assert_array_equal(model.predict_proba(bare.with_relations({"cites": []})), model.predict_proba(lonely))
    more = kf.Graph(OTHER.features, OTHER.labels, {**OTHER.relations, "likes": [(0, 1)]})
    np.testing.assert_array_equal(model.predict_proba(more), model.predict_proba(OTHER))
    assert "relation 'likes' was not there in training, and is left out" in caplog.text


def test_columns_are_found_by_name_or_by_number():
    names = [f"w{i}" for i in range(6)]
    model = stacked().fit(web(feature_names=names))
    turned = kf.Graph(
        OTHER.features[:, ::-1], OTHER.labels, OTHER.relations, OTHER.ids, feature_names=names[::-1]
    )  # fmt: skip
    with pytest.warns(DataWarning, match="columns are taken by position"):
        by_position = model.predict_proba(OTHER)
    np.testing.assert_allclose(model.predict_proba(turned), by_position, atol=1e-12)
    with pytest.raises(InputError, match="expected 6 features, got 5"):
        model.predict(kf.Graph(OTHER.features[:, :5], OTHER.labels, OTHER.relations))
    with pytest.raises(InputError, match="expected a Graph or a Relational; got list"):
        model.predict([["Kim"]])


def test_unknown_labels(caplog: pytest.LogCaptureFixture):
    model = stacked().fit(GRAPH)
    strange = OTHER.with_labels(["eel", *OTHER.labels[1:]], ["cat", "dog", "eel"])
    with pytest.raises(
        InputError, match="label 'eel' of node 'p0 of 1' was never seen in training; the model knows cat, dog"
    ):
        model.predict(strange, forced=True)
    right = (model.predict(OTHER) == np.array(OTHER.labels))[1:].sum()
    assert model.score(strange) == pytest.approx(right / 60) and "count as misses: 'eel'" in caplog.text
    with pytest.raises(InputError, match="scoring needs labels"):
        model.score(OTHER.with_labels(None))
    with pytest.raises(InputError, match="brings its own labels"):
        model.score(OTHER, OTHER.labels)
    with pytest.raises(InputError, match="brings its own labels"):
        stacked().fit(GRAPH, GRAPH.labels)


def test_classes_are_those_in_training_in_the_order_of_the_graph():
    graph = GRAPH.with_labels(GRAPH.labels, ["eel", "dog", "cat"])
    model = stacked().fit(graph)
    assert model.classes_.tolist() == ["dog", "cat"]
    np.testing.assert_allclose(
        model.predict_proba(OTHER)[:, ::-1], stacked().fit(GRAPH).predict_proba(OTHER), atol=1e-4
    )


def test_a_relational_is_a_graph_too():
    model = stacked().fit(GRAPH.relational())
    np.testing.assert_array_equal(model.predict_proba(OTHER), stacked().fit(GRAPH).predict_proba(OTHER))
    np.testing.assert_array_equal(model.predict_proba(OTHER.relational()), model.predict_proba(OTHER))
    np.testing.assert_array_equal(model.cross_fit(GRAPH.relational()), model.cross_fit(GRAPH))
    with pytest.raises(InputError, match="trained on 6 features; got 2"):
        model.predict(kf.Relational(np.zeros((1, 2)), None, (), {"cites": sparse.csr_array((1, 1))}))


@pytest.mark.parametrize("dense", [False, True])
def test_nothing_is_a_graph_too(dense: bool):
    empty = np.zeros((0, 6))
    nothing = kf.Graph(empty if dense else sparse.csr_array(empty), None, {"cites": []})
    for predictions in ("proba", "label", "sample"):
        model = stacked(predictions=predictions, own=True, templates=["count:cites", "mean:cites:features"])
        model.fit(GRAPH)
        assert model.predict(nothing).tolist() == [] and model.predict_proba(nothing).shape == (0, 2)
    for templates in ("count:cites", "concat:cites", "max:cites @ cites"):
        without_links = kf.Graph(GRAPH.features, GRAPH.labels, {"cites": []})
        assert stacked(templates=templates).fit(without_links).predict_proba(OTHER).shape == (60, 2)
    with pytest.raises(InputError, match="training needs labels"):
        stacked().fit(nothing)


def test_who_has_no_neighbours_goes_by_himself():
    """Zeros are what it is told, so its row is its own features and zeros at every level."""
    loner = kf.Graph(OTHER.features, OTHER.labels, {"cites": [(0, 1), (1, 2)]})
    model = stacked(depth=2).fit(GRAPH)
    rows = sparse.hstack([OTHER.features, sparse.csr_array((60, 2))]).tocsr()
    for k, table in enumerate(model.predict_levels(loner)[1:], 1):
        np.testing.assert_allclose(table[2:], model.levels_[k].proba(rows)[2:], atol=1e-12)
        assert np.abs(table[:2] - model.levels_[k].proba(rows)[:2]).max() > 1e-3


def test_features_of_neighbours_stand_beside_from_level_1_on():
    model = stacked(depth=2, templates=[kf.Mean("cites", "features"), kf.Count("cites")]).fit(GRAPH)
    assert [len(level.estimator.weights_) - 1 for level in model.levels_] == [6, 14, 14]
    assert model.template_set_.names(["cat", "dog"], ["x"]) == ["mean(cites) x", "count(cites) cat", "count(cites) dog"]
    only = stacked(templates=kf.Mean("cites", "features")).fit(GRAPH)
    mean = [oracle.mean(g.relations["cites"].toarray(), g.features.toarray()) for g in (GRAPH, OTHER)]
    wide = [np.hstack([g.features.toarray(), m]) for g, m in zip((GRAPH, OTHER), mean, strict=True)]
    true = Ridge().fit(wide[0], GRAPH.label_codes).predict_proba(wide[1])
    np.testing.assert_allclose(only.predict_proba(OTHER), true, atol=1e-9)


@settings(max_examples=10)
@given(world=worlds(), other=OTHERS, depth=st.integers(0, 2), template=st.sampled_from(list(AGGREGATES)))
def test_levels_may_go_by_what_they_are_told_alone(world: World, other: World, depth: int, template: str):
    model = stacked(templates=template, depth=depth, features=False, cross_fitting="paper", known="crossfit")
    model.set_params(folds=world.folds).fit(world.graph)
    predict = [learn(world.features[world.labels >= 0], world.labels[world.labels >= 0])]
    full, labelled = predict[0](world.features), world.labels >= 0
    seen = oracle.cross_fitted(learn, world.features, world.labels, world.folds, full)
    there = predict[0](other.features)
    for _ in range(depth):
        rows = world.aggregate(template)(seen)
        last = learn(rows[labelled], world.labels[labelled])
        seen = oracle.cross_fitted(learn, rows, world.labels, world.folds, last(rows))
        there = last(other.aggregate(template)(there))
    np.testing.assert_allclose(model.predict_proba(other.graph), there, atol=1e-9)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("dense", [False, True])
def test_a_large_graph_is_predicted_block_by_block(n_jobs: int, dense: bool, monkeypatch: pytest.MonkeyPatch):
    mine: list[Any] = ["count:cites", "mean:cites:features", lambda votes, relations: relations["cites"].T @ votes]
    model = stacked(templates=mine, own=True, depth=2, n_jobs=n_jobs).fit(GRAPH)
    table = OTHER.features.toarray() if dense else OTHER.features
    other = kf.Graph(table, OTHER.labels, OTHER.relations)
    whole = [model.predict_levels(graph) for graph in (GRAPH, other)]
    honest = model.cross_fit(GRAPH)
    monkeypatch.setattr(learners, "BLOCK_ROWS", 7)
    for graph, levels in zip((GRAPH, other), whole, strict=True):
        for a, b in zip(model.predict_levels(graph), levels, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)
    np.testing.assert_allclose(model.cross_fit(GRAPH), honest, atol=1e-12)


@pytest.mark.parametrize("kind", ["count", "mean", "proportion", "max", "exists", "concat"])
def test_hard_votes_are_labels(kind: str):
    hard = stacked(templates=f"{kind}:cites:hard", depth=2).fit(GRAPH)
    labels = stacked(templates=f"{kind}:cites", depth=2, predictions="label").fit(GRAPH)
    np.testing.assert_array_equal(hard.predict_proba(OTHER), labels.predict_proba(OTHER))


def test_a_function_is_a_template():
    by_function = stacked(templates=lambda votes, relations: relations["cites"] @ votes).fit(GRAPH)
    np.testing.assert_allclose(by_function.predict_proba(OTHER), stacked().fit(GRAPH).predict_proba(OTHER), atol=1e-9)
    with pytest.raises(InputError, match="must return one row of numbers an instance"):
        stacked(templates=lambda votes, relations: votes[:3]).fit(GRAPH)


# -- threads and seeds


@pytest.mark.parametrize(
    "changed", [{}, {"depth": 2, "own": True}, {"predictions": "sample"}, {"known": "true", "cross_fitting": "paper"}],
    ids=repr,
)  # fmt: skip
def test_the_same_seed_gives_the_same_answer_whatever_the_threads(changed: dict[str, Any]):
    models = [stacked(**changed, n_jobs=jobs).fit(GRAPH) for jobs in (1, 2, 1)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.folds_, models[0].folds_)
        for graph in (OTHER, GRAPH):
            np.testing.assert_array_equal(model.predict_proba(graph), models[0].predict_proba(graph))
        np.testing.assert_array_equal(model.cross_fit(GRAPH), models[0].cross_fit(GRAPH))
    other = stacked(**changed, random_state=1).fit(GRAPH)
    assert (other.folds_ != models[0].folds_).any()
    np.testing.assert_allclose(other.predict_proba(OTHER), models[0].predict_proba(OTHER), atol=0.35)


def test_no_seed_will_do():
    model = stacked(random_state=None, predictions="sample", samples=3).fit(GRAPH)
    assert model.predict_proba(OTHER).shape == (60, 2)


def test_levels_are_told_of(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "kinfolk"):
        stacked(verbose=1, folds=3).fit(GRAPH)
        assert [record.message.split(" in ")[0] for record in caplog.records] == [
            "level 0 of 1: 7 models", "level 1 of 1: 1 models",
        ]  # fmt: skip
        caplog.clear()
        stacked(folds=3).fit(GRAPH)
    assert not caplog.records


# -- tokens


def words_alone(corpus: kf.Corpus) -> kf.Corpus:
    """Without parts of speech, as plain sentences come."""
    return replace(corpus, columns={"word": corpus.columns["word"]})


TRAIN, TEST = map(words_alone, kf.newswire_split(8, 4))
PLAIN = {"n_jobs": 1, "tolerance": 1e-3}
TOKENS: dict[str, Any] = {"depth": 1, "folds": 2, "n_jobs": 1}


@pytest.fixture(scope="module")
def tagger() -> kf.StackedTagger:
    return kf.StackedTagger(kf.LinearChainCRF(**PLAIN), **TOKENS).fit(TRAIN)


def test_tokens_have_the_manners_of_a_tagger(tagger: Any):
    rows, tables = tagger.predict(TEST), tagger.predict_proba(TEST)
    assert [len(row) for row in rows] == [len(table) for table in tables] == np.diff(TEST.sentence_starts).tolist()
    for row, table in zip(rows, tables, strict=True):
        np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-6)
        assert table.shape[1] == len(tagger.classes_) and set(row) <= set(tagger.classes_)
    entities, accuracy = tagger.evaluate(TEST)
    assert entities is not None and tagger.score(TEST) == pytest.approx(entities.f1 / 100) and accuracy > 80
    alone = kf.LinearChainCRF(**PLAIN).fit(TRAIN)
    assert tagger.score(TEST) > alone.score(TEST), "the other occurrences of a word help"
    found = tagger.predict_entities(TEST)
    assert len(found) == sum(label.startswith("B") for row in rows for label in row)
    words = TEST.rows()
    assert tagger.predict(words) == tagger.predict(kf.Corpus.from_sentences(words)), "each sentence a document"
    assert tagger.predict([[], words[0], []]) == [[], tagger.predict([words[0]])[0], []]
    assert tagger.predict([]) == [] and tagger.predict_proba([]) == []
    with pytest.raises(InputError, match="training needs labels"):
        clone(tagger).fit(TEST.with_labels(None, None))


def test_known_tags_are_kept_and_told_to_the_neighbours(tagger: Any):
    gold = TEST.label_rows()
    assert tagger.predict(TEST, forced=True) == gold
    half = kf.Corpus.from_sentences(
        TEST.rows(), [row if s % 2 else [None] * len(row) for s, row in enumerate(gold)], scheme="BIO",
        documents=np.diff(TEST.document_starts).tolist(),
    )  # fmt: skip
    forced, free = tagger.predict(half, forced=True), tagger.predict(half)
    assert forced[1::2] == gold[1::2] and free == tagger.predict(TEST)

    def right(rows: list[list[str]]) -> int:
        return sum(
            a == b for got, true in zip(rows[::2], gold[::2], strict=True) for a, b in zip(got, true, strict=True)
        )

    assert right(forced) > right(free), "what is known of a word here is told to the word there"


def spoken(table: Any) -> Any:
    """What a token tells of its label: nothing of chances below 2 in 100."""
    return np.where(table < 0.02, 0.0, table)


def test_hard_votes_of_tokens_are_labels():
    model = kf.StackedTagger(kf.MaxEnt(**PLAIN), [kf.Count(kf.SameWord(), hard=True)], **TOKENS)
    hard, labels = model, clone(model).set_params(templates=[kf.Count(kf.SameWord())], predictions="label")
    one, two = (np.concatenate(m.fit(TRAIN.documents(0, 4)).predict_proba(TEST)) for m in (hard, labels))
    np.testing.assert_array_equal(one, two)


def as_dicts(corpus: kf.Corpus, aggregates: Any = None) -> list[list[dict[str, Any]]]:
    """Features of tokens by hand, with what they are told as more features."""
    rows, t = [], 0
    for words in corpus.rows():
        row = []
        for word in words:
            told = {} if aggregates is None else {f"told {c}": float(v) for c, v in enumerate(aggregates[t]) if v}
            row.append({"word": word.lower(), "title": word.istitle(), "end": word[-2:], **told})
            t += 1
        rows.append(row)
    return rows


def test_stacking_a_crf_is_the_crf_on_what_its_neighbours_would_say():
    """By hand, with the public face alone: documents in two folds, marginals of the other half, the window."""
    train, test = TRAIN.documents(0, 6), TEST.documents(0, 2)
    sentences = train.token_documents[train.sentence_starts[:-1]] % 2
    dicts, labels = as_dicts(train), train.label_rows()
    precise = {"n_jobs": 1, "tolerance": 1e-6, "l2": 1.0}

    def crf(rows: Any, gold: Any) -> kf.LinearChainCRF:
        return kf.LinearChainCRF(**precise).fit(rows, gold)

    base = crf(dicts, labels)
    classes = base.classes_.tolist()
    votes: list[Any] = [None] * len(dicts)
    for fold in (0, 1):
        inside, outside = np.flatnonzero(sentences == fold), np.flatnonzero(sentences != fold)
        helper = crf([dicts[s] for s in outside], [labels[s] for s in outside])
        where = [classes.index(c) for c in helper.classes_]
        for s, table in zip(inside, helper.predict_proba([dicts[s] for s in inside]), strict=True):
            votes[s] = np.zeros((len(table), len(classes)))
            votes[s][:, where] = table
    told = oracle.window(spoken(np.concatenate(votes)), train.token_sentences.tolist(), 2)
    last = crf(as_dicts(train, told), labels)
    said = np.concatenate(base.predict_proba(as_dicts(test)))
    asked = oracle.window(spoken(said), test.token_sentences.tolist(), 2)
    true = last.predict_proba(as_dicts(test, asked))

    model = kf.StackedTagger(
        kf.LinearChainCRF(**precise), templates=kf.Window(2), folds=sentences, n_jobs=1
    ).fit(dicts, labels)  # fmt: skip
    found = model.predict_proba(as_dicts(test))
    assert model.template_set_.width == 4 * len(classes) and len(found) == test.n_sentences
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(true), atol=0.02)
    moved = np.abs(np.concatenate(true) - said).max()
    assert moved > 0.2, "or nothing would be seen"


def test_documents_without_labels_change_nothing():
    """They are predicted, and nobody looks at them."""
    small = TRAIN.documents(0, 4)
    gold = [row if d < 4 else [None] * len(row) for row, d in
            zip(TRAIN.label_rows(), TRAIN.token_documents[TRAIN.sentence_starts[:-1]], strict=True)]  # fmt: skip
    some = kf.Corpus.from_sentences(TRAIN.rows(), gold, scheme="BIO", documents=np.diff(TRAIN.document_starts).tolist())
    model = kf.StackedTagger(kf.MaxEnt(**PLAIN), templates=[kf.Window(1), kf.SameWord(max_document_frequency=None)])
    model.set_params(n_jobs=1, folds=[0, 0, 1, 1, 0, 0, 0, 0]).fit(some)
    assert set(model.folds_[some.token_documents >= 4]) == {-1}
    alone = clone(model).set_params(folds=[0, 0, 1, 1]).fit(small)
    for a, b in zip(model.predict_proba(TEST), alone.predict_proba(TEST), strict=True):
        np.testing.assert_allclose(a, b, atol=0.02)


@pytest.mark.parametrize("base", [kf.MaxEnt, kf.MEMM])
def test_other_taggers_are_bases_too(base: Any):
    small = TRAIN.documents(0, 4)
    model = kf.StackedTagger(base(**PLAIN), **TOKENS, predictions="label", own=True).fit(small)
    assert model.predict(TEST) and len(model.levels_) == 2 and isinstance(model.levels_[1], base)
    assert model.score(small) > 0.9


def test_honest_predictions_for_training_documents():
    small = TRAIN.documents(0, 6)
    model = kf.StackedTagger(kf.MaxEnt(**PLAIN), folds=3, n_jobs=1)
    honest = model.cross_fit(small)
    np.testing.assert_allclose(honest.sum(axis=1), 1, atol=1e-6)
    model.fit(small)
    gold = np.array(small.labels.strings())
    right = float((model.classes_[honest.argmax(axis=1)] == gold).mean())
    fitted, held_out = (model.evaluate(corpus)[1] / 100 for corpus in (small, TEST))
    assert right < fitted and abs(right - held_out) < 0.1
    helper = kf.MaxEnt(n_jobs=1, tolerance=LOOSE).fit(small.select([1, 2, 3, 4, 5]))
    marginals = helper.predict_proba(small.select([0]))
    alone = kf.StackedTagger(kf.MaxEnt(**PLAIN), depth=0, folds=[0, 1, 1, 1, 1, 1], n_jobs=1).cross_fit(small)
    np.testing.assert_allclose(alone[: len(np.concatenate(marginals))], np.concatenate(marginals), atol=1e-9)


def test_a_fold_may_lack_a_type_of_entity():
    words = [["Kim", "saw", "Rome"], ["Kim", "left"], ["Oslo", "left"], ["in", "Rome"]]
    gold = [["B-PER", "O", "B-LOC"], ["B-PER", "O"], ["B-LOC", "O"], ["O", "B-LOC"]]
    model = kf.StackedTagger(kf.MaxEnt(**PLAIN), depth=0, folds=[0, 0, 1, 1], n_jobs=1)
    honest, classes = model.cross_fit(words, gold), model.fit(words, gold).classes_.tolist()
    helper = kf.MaxEnt(n_jobs=1, tolerance=LOOSE).fit(words[2:], gold[2:])
    assert "B-PER" in classes and helper.classes_.tolist() == ["B-LOC", "I-LOC", "O"]
    said = np.concatenate(helper.predict_proba(words[:2]))
    np.testing.assert_allclose(honest[:5, [classes.index(c) for c in helper.classes_]], said, atol=1e-9)
    np.testing.assert_allclose(honest[:5, [classes.index("B-PER"), classes.index("I-PER")]], 0)
    model.set_params(depth=1, templates=kf.Window(1))
    assert model.fit(words, gold).predict([["Kim"]]) == [["B-PER"]]


def test_the_ceiling_of_tokens_is_told_every_true_tag():
    small, gold = TRAIN.documents(0, 4), TEST.labels.strings()
    model = kf.StackedTagger(kf.MaxEnt(**PLAIN), templates=kf.Window(1), known="ceiling", **TOKENS).fit(small)
    classes = model.classes_.tolist()
    votes = np.eye(len(classes))[[classes.index(y) for y in gold]]
    told = oracle.window(spoken(votes), TEST.token_sentences.tolist(), 1).astype(np.float32)
    true = model.levels_[1].predict_proba(Batch(TEST, extra=told))
    for a, b in zip(model.predict_proba(TEST), true, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    assert model.evaluate(TEST)[1] > 0


def test_weights_of_sentences():
    small = TRAIN.documents(0, 4)
    heavy = np.ones(small.n_sentences)
    heavy[: int(small.document_starts[1])] = 6.0
    base = kf.MaxEnt(n_jobs=1, tolerance=1e-5)
    model = kf.StackedTagger(base, depth=1, folds=[0, 1, 0, 1], n_jobs=1, templates=kf.Window(1))
    plain, weighted = (clone(model).fit(small, sample_weight=w) for w in (np.ones(small.n_sentences), heavy))
    unweighted = clone(model).fit(small)
    for a, b in zip(plain.predict_proba(TEST), unweighted.predict_proba(TEST), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    many = clone(model).set_params(folds=[0, 1, 0, 1, *[0] * 5]).fit(small.select([0, 1, 2, 3, *[0] * 5]))
    found, true = (np.concatenate(m.predict_proba(TEST)) for m in (weighted, many))
    np.testing.assert_allclose(found, true, atol=0.01)
    assert np.abs(found - np.concatenate(plain.predict_proba(TEST))).max() > 0.05
    with pytest.raises(InputError, match="one number a sentence"):
        clone(model).fit(small, sample_weight=[1.0])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"base": LR()}, "a kinfolk tagger such as .*; got LogisticRegression.*StackedNodes"),
        ({"known": "true"}, "must be 'crossfit' or 'ceiling'; got 'true'"),
        ({"folds": 1}, "folds must be 2 or more"),
        ({"folds": [0, 1]}, r"one fold an instance \(8\)"),
        ({"base": [kf.MaxEnt()]}, r"a list of depth \+ 1 = 2; got 1"),
    ],
    ids=repr,
)
def test_wrong_settings_for_tokens_are_told(changed: dict[str, Any], message: str):
    with pytest.raises((SettingError, InputError), match=message):
        kf.StackedTagger(**{"base": kf.MaxEnt(**PLAIN), "n_jobs": 1, **changed}).fit(TRAIN)


def test_wrong_tokens_are_told(tagger: Any):
    crf = kf.StackedTagger(kf.MaxEnt(**PLAIN), **TOKENS)
    with pytest.raises(InputError, match="there is no relation 'cites' here; there are: none"):
        clone(crf).set_params(templates="count:cites").fit(TRAIN)
    with pytest.raises(InputError, match="was given feature dicts"):
        tagger.predict([[{"w": "Kim"}]])


# -- what stacking asks of a corpus and of a batch


@given(st.lists(st.lists(st.integers(1, 3), max_size=3), max_size=4), st.data())
def test_chosen_documents_are_a_corpus_of_their_own(documents: list[list[int]], data: st.DataObject):
    lengths = [n for document in documents for n in document]
    words = [[f"w{s}.{t}" for t in range(n)] for s, n in enumerate(lengths)]
    labels = [[None if (s + t) % 3 == 0 else "B-X" for t in range(n)] for s, n in enumerate(lengths)]
    corpus = with_sizes(kf.Corpus.from_sentences(words, labels, scheme="BIO"), documents)
    total = sum(lengths)
    where = np.stack([np.arange(total), np.arange(total) + 1], axis=1)
    corpus = replace(corpus, source="a.txt", lines=np.arange(total, dtype=np.int32), offsets=where)
    assert corpus.token_sentences.tolist() == [s for s, n in enumerate(lengths) for _ in range(n)]
    assert corpus.token_sentences.dtype == np.int32
    chosen = data.draw(st.lists(st.integers(0, len(documents) - 1), max_size=5) if documents else st.just([]))
    part = corpus.select(np.array(chosen, np.int64))
    singles = [corpus.documents(d, d + 1) for d in chosen]
    assert part.n_documents == len(chosen) and (part.scheme, part.source) == ("BIO", "a.txt")
    assert part.rows() == [row for one in singles for row in one.rows()]
    assert part.label_rows() == [row for one in singles for row in one.label_rows()]
    assert part.lines.tolist() == [line for one in singles for line in one.lines.tolist()]
    assert part.offsets.tolist() == [pair for one in singles for pair in one.offsets.tolist()]
    assert np.diff(part.document_starts).tolist() == [one.n_sentences for one in singles]
    assert part.select(range(len(chosen))).rows() == part.rows()


def test_documents_that_are_not_there_cannot_be_chosen():
    corpus = kf.Corpus.from_sentences([["a"], ["b"]])
    for wrong in ([2], [0, -1], [5, 0]):
        with pytest.raises(InputError, match="documents are numbered 0 to 1; got"):
            corpus.select(wrong)
    assert corpus.select([]).n_tokens == 0 and corpus.with_labels(None, None).select([1]).rows() == [["b"]]


def test_extra_columns_stand_beside_the_features_of_tokens():
    corpus = kf.Corpus.from_sentences(TINY, TINY_LABELS)
    extra = np.arange(12, dtype=np.float32).reshape(6, 2)
    templates = for_corpus("sentence", corpus)
    features = TokenFeatures(templates, 1)
    plain = Batch(corpus).learn(features, 1).toarray()
    wide = Batch(corpus, extra=extra)
    np.testing.assert_array_equal(wide.rows(features, 1).toarray(), np.hstack([plain, extra]))
    np.testing.assert_array_equal(wide.rows(features, 1, pairs=True).toarray(), plain)
    kept = replace(wide, kept_rows={})
    np.testing.assert_array_equal(kept.rows(features, 1).toarray(), kept.rows(features, 1).toarray())
    nothing = Batch(corpus.select([]), extra=extra[:0])
    assert nothing.rows(features, 1).shape == (0, plain.shape[1] + 2)
    assert nothing.rows(features, 1, pairs=True).shape == (0, plain.shape[1])
    again = TokenFeatures(templates, 1)
    np.testing.assert_array_equal(wide.learn(again, 1).toarray(), np.hstack([plain, extra]))
