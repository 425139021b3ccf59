"""The leak property: nothing an instance is told in training owes anything to its own label.

"strict" keeps it at every level. "paper" (Figure 2) keeps it where no link leads from one fold to another, at depth 1:
a neighbour's vote comes from a model that never saw the neighbour, but has seen everybody else. "none" never does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import kinfolk as kf
from kinfolk.collective.stacking import Ask, Training
from kinfolk.learning.crossfit import CrossFitting
from strategies import SEEDS

# -- whose labels are behind a vote, by running the training itself on sets of folds


@dataclass
class Traces:
    """Instances whose votes are sets of folds: those whose labels have a part in them, one column a fold."""

    fold: Any
    links: Any  # (n, n)
    revealed: Any
    rows: list[tuple[int, Any, Any]]  # level, instances and rows of every model that is trained

    def __post_init__(self) -> None:
        self.labels, self.n_votes, self.n_jobs = self.fold, int(self.fold.max()) + 1, 1

    def learn(self, level: int, index: Any, aggregates: Any) -> Any:
        self.rows.append((level, index, aggregates))
        behind = np.eye(self.n_votes)[self.fold[index]].max(axis=0)
        if aggregates is not None:
            behind = np.maximum(behind, aggregates.reshape(len(index), -1, self.n_votes).max(axis=(0, 1)))
        return behind

    def proba(self, behind: Any, index: Any, aggregates: Any) -> Any:
        table = np.tile(behind, (len(index), 1))
        if aggregates is not None:
            table = np.maximum(table, aggregates.reshape(len(index), -1, len(behind)).max(axis=1))
        return table

    def aggregates(self, votes: Any, own: Any, index: Any) -> Any:
        told = (self.links[index][:, :, None] * votes).max(axis=1, initial=0.0)
        return told if own is None else np.concatenate([told, own[index]], axis=1)


def traced(rng: Any, kind: str, depth: int, told: bool, own: bool, within: bool) -> tuple[Traces, list[Any], Any]:
    """The instances, the rows of the last models by level, and the estimate."""
    n_folds, n = depth + 2, 14
    fold = np.arange(n) % (n_folds + 1) - 1
    links = (rng.random((n, n)) < 0.3).astype(float)
    np.fill_diagonal(links, 0.0)
    if within:
        links *= (fold[:, None] == fold) | (fold < 0) | (fold[:, None] < 0)
    instances = Traces(fold, links, fold if told else np.full(n, -1), [])
    scheme = CrossFitting(kind, n_folds, told, not within, estimate=True)
    training = Training(instances, scheme, depth, Ask("proba", own, 0), lambda text: None).run()
    everyone = (fold >= 0).sum()
    final = [(index, rows) for _, index, rows in instances.rows if len(index) == everyone]
    assert len(final) == depth + 1
    return instances, final, training.estimate()


@pytest.mark.parametrize("depth", [1, 2, 3])
@settings(max_examples=10)
@given(seed=SEEDS, told=st.booleans(), own=st.booleans(), within=st.booleans())
def test_no_training_row_owes_anything_to_its_own_fold(depth: int, seed: int, told: bool, own: bool, within: bool):
    instances, final, estimate = traced(np.random.default_rng(seed), "strict", depth, told, own, within)
    for index, rows in final[1:]:
        sets = rows.reshape(len(index), -1, instances.n_votes).max(axis=1)
        assert not sets[np.arange(len(index)), instances.fold[index]].any()
        assert sets.any(), "or nothing would be told at all"
    labelled = np.flatnonzero(instances.fold >= 0)
    assert not estimate[labelled, instances.fold[labelled]].any(), "cross_fit is as honest"
    others = 1 - np.eye(instances.n_votes)[instances.fold[labelled]]
    assert (estimate[labelled] >= others).all(), "and learns from all others"


def test_what_the_other_kinds_do():
    """Sets of folds behind the rows of the last model: whether any row has its own among them."""

    def leaks(kind: str, depth: int, within: bool, own: bool = False) -> bool:
        fold = np.array([0, 1, 2, 3] * 3)
        links = (fold[:, None] == fold if within else np.ones((12, 12))) * (1.0 - np.eye(12))
        instances = Traces(fold, links, np.full(12, -1), [])
        scheme = CrossFitting(kind, 4, False, not within)
        Training(instances, scheme, depth, Ask("proba", own, 0), lambda text: None).run()
        index, rows = [(index, rows) for _, index, rows in instances.rows if len(index) == 12][-1]
        return bool(rows.reshape(12, -1, 4).max(axis=1)[np.arange(12), fold[index]].any())

    assert [leaks("none", depth, within) for depth in (1, 2) for within in (False, True)] == [True] * 4
    assert [leaks("paper", depth, False) for depth in (1, 2)] == [True, True]
    assert [leaks("paper", depth, True) for depth in (1, 2)] == [False, True]
    assert not any(leaks("strict", depth, within, own) for depth in (1, 2) for within in (False, True)
                   for own in (False, True))  # fmt: skip


# -- change a label, and look at what its instance is told


SEEN: list[tuple[Any, Any]] = []


class Spy(ClassifierMixin, BaseEstimator):
    """Remembers every row it is trained on; each label it saw has a part in all it says."""

    def fit(self, X: Any, y: Any) -> Spy:
        SEEN.append((np.array(X), np.array(y)))
        self.rows_, self.classes_ = np.array(X), np.unique(y)
        self.targets_ = (np.array(y)[:, None] == self.classes_).astype(float)
        return self

    def predict_proba(self, X: Any) -> Any:
        near = np.exp(-cdist(X[:, 1:], self.rows_[:, 1:]))  # the first column is the number of the node
        return near @ self.targets_ / near.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


CLASSES = ["a", "b"]
TEMPLATES: list[Any] = ["count:r", "mean:r @ r", ["exists:r | ~r", "max:r:hard"], "concat:~r", "proportion:r @ ~r"]


def told_to_nodes(model: Any, labels: Any, features: Any, relation: Any) -> list[dict[int, Any]]:
    """By level from 1 on: node -> what it is told when the last models are trained."""
    names = [None if y < 0 else CLASSES[y] for y in labels]
    graph = kf.Graph(features, names, {"r": sparse.csr_array(relation)}, classes=CLASSES)
    SEEN.clear()
    model.fit(graph)
    everyone = [X for X, _ in SEEN if len(X) == (labels >= 0).sum()]
    assert len(everyone) == model.depth + 1, "the model without hidden folds comes first at every level"
    return [{int(row[0]): row[3:] for row in X} for X in everyone[1:]]


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Any, Any, Any, Any]:
    """Features (the number of the node first), a relation, labels, folds."""
    n, unknown = draw(st.integers(10, 13)), draw(st.booleans())
    rng = np.random.default_rng(draw(SEEDS))
    labels = rng.permutation(np.arange(n) % 2)
    if unknown:
        labels[rng.permutation(n)[:3]] = -1
        labels[:4] = [0, 0, 1, 1]
    relation = np.where(rng.random((n, n)) < 0.4, rng.integers(1, 4, (n, n)), 0).astype(float)
    np.fill_diagonal(relation, 0)
    folds = np.zeros(n, np.int64)
    labelled = rng.permutation(np.flatnonzero(labels >= 0))
    folds[labelled] = np.arange(len(labelled)) % 4
    features = np.column_stack([np.arange(n), rng.standard_normal((n, 2))])
    return features, relation, labels, folds


def changes(model: Any, scene: Any, i: int) -> list[tuple[bool, bool]]:
    """By level: whether what i is told, and what any other is told, changes with i's label."""
    features, relation, labels, folds = scene
    model.set_params(folds=folds, n_jobs=1)
    other = labels.copy()
    other[i] = 1 - labels[i]
    before, after = (told_to_nodes(model, y, features, relation) for y in (labels, other))
    return [
        ((a[i] != b[i]).any(), any((a[j] != b[j]).any() for j in a if j != i))
        for a, b in zip(before, after, strict=True)
    ]


@pytest.mark.parametrize("known", ["crossfit", "true"])
@pytest.mark.parametrize("predictions", ["proba", "label", "sample"])
@pytest.mark.parametrize("depth", [1, 2])
@settings(max_examples=6)
@given(scene=scenes(), own=st.booleans(), templates=st.sampled_from(TEMPLATES), data=st.data())
def test_a_label_never_changes_what_its_own_instance_is_told(
    known: str, predictions: str, depth: int, scene: Any, own: bool, templates: Any, data: st.DataObject
):
    model = kf.StackedNodes(
        Spy(), templates, depth, predictions=predictions, known=known, own=own, cross_fitting="strict"
    )
    labelled = np.flatnonzero(scene[2] >= 0)
    i = int(data.draw(st.sampled_from(labelled.tolist())))
    for mine, _ in changes(model, scene, i):
        assert not mine


def test_the_spy_would_see_a_leak():
    """The same look at the other kinds, and at the others' rows under "strict", finds what is there."""
    rng, n = np.random.default_rng(0), 12
    relation = np.ones((n, n)) - np.eye(n)
    features = np.column_stack([np.arange(n), rng.standard_normal((n, 2))])
    scene = (features, relation, np.arange(n) % 2, np.arange(n) // 2 % 4)
    for known in ("crossfit", "true"):
        strict = kf.StackedNodes(Spy(), "count:r", 2, known=known)
        assert changes(strict, scene, 3) == [(False, True), (False, True)]
        assert changes(kf.StackedNodes(Spy(), "count:r", 2, known="crossfit", cross_fitting="none"), scene, 3) == [
            (True, True), (True, True),
        ]  # fmt: skip
    paper = kf.StackedNodes(Spy(), "count:r", 2, cross_fitting="paper")
    assert changes(paper, scene, 3) == [(True, True), (True, True)]
    told = kf.StackedNodes(Spy(), "count:r", 2, known="true", cross_fitting="paper")
    assert changes(told, scene, 3) == [(False, True), (False, True)], "all neighbours give true labels, and not mine"
    told.set_params(depth=1, own=True)
    assert changes(told, scene, 3) == [(False, True)], "nor am I told my own: that is a prediction"
    apart = (features, relation * (scene[3][:, None] == scene[3]), *scene[2:])
    assert changes(paper, apart, 3) == [(False, True), (True, True)], "within folds, depth 1 is right"


# -- labels that nothing can tell


PAIRS = 250
CHANCE = 4 * np.sqrt(0.25 / PAIRS)  # four standard deviations, were the two of a pair always right together


def twins(seed: int) -> kf.Graph:
    """Pairs of nodes with the same features, linked to each other and to others; labels are coins."""
    rng = np.random.default_rng(seed)
    features = np.repeat(rng.standard_normal((PAIRS, 2)), 2, axis=0)
    even = np.arange(0, 2 * PAIRS, 2)
    pairs = np.concatenate([np.stack([even, even + 1], axis=1), np.stack([even + 1, even], axis=1)])
    more = rng.integers(2 * PAIRS, size=(PAIRS, 2))
    links = np.unique(np.concatenate([pairs, more[more[:, 0] != more[:, 1]]]), axis=0)
    return kf.Graph(features, rng.integers(2, size=2 * PAIRS), {"r": links}, classes=CLASSES)


TWINS = twins(0)
HELD_OUT = np.random.default_rng(1).random(2 * PAIRS) < 0.5
BASES: dict[str, Any] = {"nearest": KNeighborsClassifier(1), "tree": DecisionTreeClassifier(random_state=0)}


def accuracies(base: str, **changed: Any) -> tuple[float, float]:
    """(of `cross_fit`, on nodes whose labels were not given); the second from half of the labels."""
    model = kf.StackedNodes(BASES[base], "count:r", **{"folds": 4, "n_jobs": 1, **changed})
    labels = TWINS.label_codes
    honest = model.cross_fit(TWINS).argmax(axis=1) == labels
    model.fit(TWINS, train=~HELD_OUT)
    return float(honest.mean()), float((model.predict_proba(TWINS).argmax(axis=1) == labels)[HELD_OUT].mean())


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("known", ["crossfit", "true"])
@pytest.mark.parametrize(("predictions", "own"), [("proba", False), ("label", True)])
def test_coins_stay_coins(base: str, depth: int, known: str, predictions: str, own: bool):
    for accuracy in accuracies(base, depth=depth, known=known, predictions=predictions, own=own):
        assert abs(accuracy - 0.5) < CHANCE


def test_draws_of_votes_leave_coins_coins():
    for accuracy in accuracies("nearest", depth=2, predictions="sample", samples=3):
        assert abs(accuracy - 0.5) < CHANCE


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_without_cross_fitting_coins_seem_foretold(base: str, depth: int):
    """What the test above would say of a leak: far above chance, and for new instances no better than chance."""
    honest, held_out = accuracies(base, depth=depth, cross_fitting="none")
    assert honest > (0.8 if depth else 0.7) and abs(held_out - 0.5) < CHANCE


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("own", [False, True])
def test_the_paper_s_cross_fitting_foretells_coins_too_where_links_cross_folds(base: str, own: bool):
    """A twin's vote comes from a model that has learned me by heart, and to it the twin is me. New instances, whom no
    model has seen, are still at chance."""
    honest, held_out = accuracies(base, known="crossfit", cross_fitting="paper", own=own)
    assert honest > 0.5 + 1.5 * CHANCE and abs(held_out - 0.5) < CHANCE
