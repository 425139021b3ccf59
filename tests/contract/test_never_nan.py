"""No label is ever read off probabilities that are not numbers: what leads to them is refused, in training and in
prediction alike, and should they come all the same there is an error in the place of an answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import kinfolk as kf
from kinfolk.errors import InputError

N = 12
KIND = np.arange(N) % 2
OWN = np.round(np.eye(2)[KIND] + np.random.default_rng(0).normal(0, 0.3, (N, 2)), 2)
RELATIONS = {"r": [(i, (i + 2) % N) for i in range(N)]}


def a_graph(features: Any = OWN, **parts: Any) -> kf.Graph:
    return kf.Graph(features, ["ant" if k == 0 else "bee" for k in KIND], RELATIONS, **parts)


def spoiled(value: float, thin: bool = False, at: int = 3) -> kf.Graph:
    table = OWN.copy()
    table[at, 1] = value
    return a_graph(sparse.csr_array(table) if thin else table, ids=[f"n{i}" for i in range(N)])


SINGLE_PRECISION: dict[str, Callable[[], Any]] = {
    "mixture of parents": lambda: kf.MixtureNodes(orders=2, predict_orders=2, n_jobs=1),
    "learned weights": lambda: kf.MixtureNodes(orders=2, predict_orders=2, mixing="learned", n_jobs=1),
    "link model": lambda: kf.LinkModel(l2=1.0, n_jobs=1),
}
DOUBLE_PRECISION: dict[str, Callable[[], Any]] = {
    "pool": lambda: kf.StackedNodes(LogisticRegression(), effort="fast", n_jobs=1),
    "stacked": lambda: kf.StackedNodes(LogisticRegression(), depth=1, folds=3, n_jobs=1),
    "dependency network": lambda: kf.DependencyNetwork(LogisticRegression(), sweeps=2, burn_in=0, n_jobs=1),
    "dependency network, plain": lambda: kf.DependencyNetwork(
        LogisticRegression(), sweeps=2, burn_in=0, mode="plain", n_jobs=1
    ),
}
ASKED: dict[str, Callable[[Any, kf.Graph], Any]] = {
    "predict": lambda model, graph: model.predict(graph),
    "predict_proba": lambda model, graph: model.predict_proba(graph),
    "evaluate": lambda model, graph: model.evaluate(graph),
    "explain": lambda model, graph: model.explain(graph, node=0),
}


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    return {name: make().fit(spoiled(0.5)) for name, make in {**SINGLE_PRECISION, **DOUBLE_PRECISION}.items()}


# -- nodes


@pytest.mark.parametrize("name", SINGLE_PRECISION)
@pytest.mark.parametrize("thin", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("value", [1.1e12, -1e20, 1e39, -1e300])
def test_features_too_large_are_refused_in_training_and_in_prediction(
    name: str, thin: bool, value: float, trained: dict[str, Any]
):
    told = re.escape(f"feature values must be finite and lie within ±1e+12; node 'n3' has {value:g}. Scale them down")
    graph = spoiled(value, thin)
    with pytest.raises(InputError, match=told):
        SINGLE_PRECISION[name]().fit(graph)
    for asked in ASKED.values():
        with pytest.raises(InputError, match=told):
            asked(trained[name], graph)


@pytest.mark.parametrize("name", SINGLE_PRECISION)
def test_features_within_bounds_have_probabilities(name: str, trained: dict[str, Any]):
    table = trained[name].predict_proba(spoiled(1e12))
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("name", DOUBLE_PRECISION)
@pytest.mark.parametrize("value", [1e13, 1e39, 1e300])
def test_what_double_precision_holds_has_probabilities(name: str, value: float, trained: dict[str, Any]):
    table = trained[name].predict_proba(spoiled(value))
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in DOUBLE_PRECISION if name != "pool"])  # which has no templates
def test_features_that_leave_double_precision_when_added_up_are_refused(name: str):
    """Each is a number, their sum over neighbours is none: the base refuses it in training, so does prediction."""
    model = DOUBLE_PRECISION[name]().set_params(templates=["count:r:features", "proportion:r"])
    other = kf.Graph(np.full((3, 2), 1.7e308), ["ant", "bee", None], {"r": [(0, 1), (0, 2), (1, 2), (1, 0), (2, 0)]})
    with np.errstate(all="ignore"):
        model.fit(a_graph())
        for ask in ("predict", "predict_proba"):
            with pytest.raises(InputError, match=r"NaN.* no label"):
                getattr(model, ask)(other)
        with pytest.raises(InputError, match=r"NaN.* no label"):
            model.explain(other, node=0)


class Clueless(ClassifierMixin, BaseEstimator):
    """Has no probability for rows whose first feature is large."""

    def fit(self, X: Any, y: Any) -> Clueless:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X: Any) -> Any:
        table = np.full((len(X), len(self.classes_)), 1 / len(self.classes_))
        table[np.asarray(X)[:, 0] > 100] = np.nan
        return table


class CluelessMargin(LinearSVC):
    def decision_function(self, X: Any) -> Any:
        return np.where(np.asarray(X)[:, 0] > 100, np.nan, 0.5)


@pytest.mark.parametrize("base", [Clueless(), CluelessMargin()], ids=["probabilities", "decision values"])
@pytest.mark.parametrize("make", [partial(kf.StackedNodes, depth=1), kf.DependencyNetwork], ids=["levels", "network"])
@pytest.mark.filterwarnings("ignore:2 of 12 nodes .* no longer have their features")
def test_a_base_that_gives_no_probability_is_told(base: Any, make: Any, caplog: pytest.LogCaptureFixture):
    model = make(base, n_jobs=1).fit(a_graph())
    odd = OWN.copy()
    odd[[2, 5], 0] = 1000
    for ask in ("predict", "predict_proba", "score"):
        with pytest.raises(InputError, match=rf"{type(base).__name__} gave NaN .* 2 rows; no label"):
            getattr(model, ask)(a_graph(odd))


class Puzzled(LogisticRegression):
    """Tells labels apart, but has no probability for rows whose first feature is large."""

    def predict_proba(self, X: Any) -> Any:
        table = super().predict_proba(X)
        table[np.asarray(X)[:, 0] > 100] = np.nan
        return table


@pytest.mark.filterwarnings("ignore:2 of 12 nodes .* no longer have their features")
def test_a_base_of_a_pool_that_gives_no_probability_is_told():
    model = kf.StackedNodes(Puzzled(), effort="fast", n_jobs=1).fit(a_graph())
    model.pool_.weights["features"] = 1.0
    odd = OWN.copy()
    odd[[2, 5], 0] = 1000
    for ask in ("predict", "predict_proba", "score"):
        with pytest.raises(InputError, match=r"Puzzled gave NaN .* 2 rows; no label"):
            getattr(model, ask)(a_graph(odd))


@pytest.mark.parametrize("name", [*SINGLE_PRECISION, "dependency network"])
@pytest.mark.parametrize("ask", ASKED)
def test_weights_that_are_no_numbers_label_no_node(name: str, ask: str):
    model = {**SINGLE_PRECISION, **DOUBLE_PRECISION}[name]().fit(a_graph())
    if name == "dependency network":
        model.conditional_.estimator.coef_[:] = np.nan
        model.conditional_.__dict__.pop("softmax", None)
    else:
        weights = model.weights_
        weights.start[:] = np.nan
        for table in weights.tables:
            table[:] = np.nan
    with pytest.raises(InputError, match="NaN"), np.errstate(all="ignore"):
        ASKED[ask](model, a_graph())


# -- tokens

ITEMS = [[{"w": 1.0}, {"c": 1.0, "w": 0.5}], [{"c": 2.0}]]
TAGS = [["B-PER", "O"], ["O"]]
TAGGERS: dict[str, Callable[[], Any]] = {
    "MaxEnt": lambda: kf.MaxEnt(n_jobs=1),
    "MEMM": lambda: kf.MEMM(n_jobs=1),
    "MEMM posterior": lambda: kf.MEMM(decode="posterior", n_jobs=1),
    "LinearChainCRF": lambda: kf.LinearChainCRF(n_jobs=1),
    "MixtureTagger": lambda: kf.MixtureTagger(n_jobs=1),
    "SkipChainCRF": lambda: kf.SkipChainCRF(n_jobs=1),
}


@pytest.fixture(scope="module")
def taggers() -> dict[str, Any]:
    return {name: make().fit(ITEMS, TAGS) for name, make in TAGGERS.items()}


@pytest.mark.parametrize("name", TAGGERS)
@pytest.mark.parametrize("value", [1.1e12, 1e30, 1e39, np.float32(3e38)])
def test_values_of_dicts_are_held_to_the_same_bounds(name: str, value: float, taggers: dict[str, Any]):
    items = [[{"w": 1.0}], [{"c": 1.0}, {"w": value}]]
    told = r"sentence 1, token 1: feature values must be finite and lie within ±1e\+12; 'w' is .*\. Scale them"
    with pytest.raises(InputError, match=told):
        TAGGERS[name]().fit(items, [["O"], ["O", "B-PER"]])
    for ask in ("predict", "predict_proba", "predict_entities"):
        with pytest.raises(InputError, match=told):
            getattr(taggers[name], ask)(items)


@pytest.mark.parametrize("name", TAGGERS)
def test_weights_that_are_no_numbers_tag_no_token(name: str):
    model = TAGGERS[name]().fit(ITEMS, TAGS)
    parts = model.weights_ if hasattr(model.weights_, "start") else model.weights_[0]
    for part in (parts.node,) if hasattr(parts, "node") else parts.tables:
        part[:] = np.nan
    for ask in ("predict", "predict_proba", "predict_entities"):
        with pytest.raises(InputError, match="NaN"), np.errstate(all="ignore"):
            getattr(model, ask)(ITEMS)


# -- records


def people(scale: float, n: int = 40) -> Any:
    rng = np.random.default_rng(0)
    entity = np.repeat(np.arange(n // 2), 2)
    frame = pd.DataFrame({
        "id": [f"p{i}" for i in range(n)], "name": [f"n{e % 5}" for e in entity],
        "size": scale * (entity + 0.01 * rng.normal(size=n)), "entity": entity,
    })  # fmt: skip
    return kf.records_from_frames(frame, cluster="entity")


@pytest.mark.parametrize("scale", [1e6, 1e38, 1e300])
@pytest.mark.filterwarnings("ignore:the trained model gives all 140 pairs")  # beyond float32 all differences are one
def test_numbers_of_records_may_be_of_any_size_in_training_and_in_prediction(scale: float):
    make = lambda: kf.Linker([kf.NumberDifference("size"), kf.Exact("name")], blocking=["key(name)"], n_jobs=1)  # noqa: E731
    near, far = people(1.0), people(scale)
    for trained_on in (near, far):
        model = make().fit(trained_on)
        for asked in (near, far):
            probability = model.predict_proba(asked)
            assert ((probability >= 0) & (probability <= 1)).all()
            assert len(model.predict(asked)) == 40


def test_no_cluster_comes_of_a_probability_that_is_no_number():
    items = people(1.0)
    model = kf.Linker([kf.NumberDifference("size")], blocking=["key(name)"], n_jobs=1).fit(items)
    probability = model.predict_proba(items)
    probability[3] = np.nan
    with pytest.raises(InputError, match=r"1 of the .* pairs has NaN for a probability"):
        model.cluster(model.candidates(items), probability)
    with pytest.raises(InputError, match="2 of the 3 pairs have NaN for a probability"):
        kf.SingleLink().cluster(3, np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([0.9, np.nan, np.nan]))
