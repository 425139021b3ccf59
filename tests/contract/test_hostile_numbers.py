"""Every model, every way in: numbers that are none, too large, too small, too many. An error of kinfolk's own or a
finite answer; the file beside this one, `test_never_nan.py`, has what the errors say."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from every_model import MODELS
from kinfolk.core import data, memory
from kinfolk.core.data import MOST_LABELS
from kinfolk.errors import InputError, KinfolkError
from kinfolk.learning.loglinear import Shape, no_weights

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of training that is loose, and of odd data
HOSTILE = [np.nan, np.inf, -1e308, 1e39, 1e12, 1e-320, -0.0]
VALUES = pytest.mark.parametrize("value", HOSTILE, ids=repr)
FEW = pytest.mark.parametrize("value", [np.nan, -1e308, 1e12, 1e-320], ids=repr)
RNG = np.random.default_rng(0)
N = 30
KIND = np.arange(N) % 3
OWN = np.eye(3)[KIND] + RNG.normal(0, 0.4, (N, 3))
LINKS = np.argwhere((KIND[:, None] == KIND) & (RNG.random((N, N)) < 0.3) & ~np.eye(N, dtype=bool))
WORDS = [["Kim", "said", f"w{s % 4}", "to", "Rome"] for s in range(8)]
TAGS = [["B-PER", "O", "O", "O", "B-LOC"]] * 8
LOOSE: dict[str, Any] = {"n_jobs": 1, "tolerance": 0.3}
TAGGERS: dict[str, Callable[[], Any]] = {
    "MaxEnt": lambda: kf.MaxEnt(**LOOSE),
    "MEMM": lambda: kf.MEMM(**LOOSE),
    "LinearChainCRF": lambda: kf.LinearChainCRF(**LOOSE),
    "SkipChainCRF": lambda: kf.SkipChainCRF(**LOOSE),
    "MixtureTagger": lambda: kf.MixtureTagger(**LOOSE),
    "StackedTagger": lambda: kf.StackedTagger(kf.LinearChainCRF(**LOOSE), folds=2, n_jobs=1),
}
OF_NODES: dict[str, Callable[[], Any]] = {
    "MixtureNodes": lambda: kf.MixtureNodes(orders=2, predict_orders=2, **LOOSE),
    "LinkModel": lambda: kf.LinkModel(**LOOSE),
    "StackedNodes": lambda: kf.StackedNodes(LogisticRegression(), effort="fast", n_jobs=1),
    "StackedNodes, levels": lambda: kf.StackedNodes(LogisticRegression(), depth=1, folds=3, n_jobs=1),
    "DependencyNetwork": lambda: kf.DependencyNetwork(LogisticRegression(), sweeps=3, burn_in=1, n_jobs=1),
    "NodeRegressor": lambda: kf.NodeRegressor(LogisticLike(), effort="fast", n_jobs=1),
    "MultiLabelNodes": lambda: kf.MultiLabelNodes(LogisticRegression(), effort="fast", n_jobs=1),
}


def LogisticLike() -> Any:
    from sklearn.linear_model import Ridge

    return Ridge()


def numbers(answer: Any) -> Any:
    """All floats in an answer."""
    if isinstance(answer, float | np.floating):
        yield float(answer)
    elif isinstance(answer, np.ndarray) and answer.dtype.kind == "f":
        yield from answer.ravel().tolist()
    elif isinstance(answer, dict):
        yield from (one for part in answer.values() for one in numbers(part))
    elif isinstance(answer, list | tuple | np.ndarray):
        yield from (one for part in answer for one in numbers(part))
    elif hasattr(answer, "confidence"):
        yield float(answer.confidence)


def well(ask: Callable[[], Any]) -> Any:
    """The answer, whose every number is finite; None where there is an error of kinfolk's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = ask()
        except KinfolkError as error:
            assert len(str(error)) > 20, "an error says what was expected, and what to do"
            return None
    assert all(map(np.isfinite, numbers(answer))), answer
    return answer


def test_every_model_is_tried():
    assert {*TAGGERS, *OF_NODES, "Linker"} == {*MODELS}


# -- tokens -------------------------------------------------------------------------------------------


@cache
def trained_on_vectors(name: str) -> Any:
    return TAGGERS[name]().fit(WORDS, TAGS, vectors=vectors(), documents=[2] * 4)


def vectors() -> Any:
    return np.random.default_rng(1).normal(size=(40, 2))


def ask_tagger(model: Any, X: Any, **beside: Any) -> None:
    for way in ("predict", "predict_proba", "predict_entities"):
        well(lambda: getattr(model, way)(X, **beside))  # noqa: B023 (called at once)
    if hasattr(model, "predict_k_best"):
        well(lambda: model.predict_k_best(X, 2, **beside))


@FEW
@pytest.mark.parametrize("name", TAGGERS)
def test_vectors_of_tokens(name: str, value: float):
    one, all_ = vectors(), vectors()
    one[7, 1] = value
    with np.errstate(all="ignore"):
        all_[:, 1] = value * np.where(np.arange(40) % 3, 1, -1)
    ask_tagger(trained_on_vectors(name), WORDS, vectors=one)
    model = well(lambda: TAGGERS[name]().fit(WORDS, TAGS, vectors=all_, documents=[2] * 4))
    if model is not None:
        ask_tagger(model, WORDS, vectors=all_)
        ask_tagger(model, WORDS, vectors=vectors())


@FEW
@pytest.mark.parametrize("name", TAGGERS)
def test_values_of_feature_dicts(name: str, value: float):
    items = [[{"w": word, "v": value if (s, t) == (1, 2) else 1.0} for t, word in enumerate(words)]
             for s, words in enumerate(WORDS)]  # fmt: skip
    model = well(lambda: TAGGERS[name]().fit(items, TAGS, words=WORDS, documents=[2] * 4))
    if model is not None:
        ask_tagger(model, items)


@FEW
@pytest.mark.parametrize("name", TAGGERS)
def test_weights_of_sentences(name: str, value: float):
    for weights in ([value, *[1.0] * 7], [value] * 8):
        model = well(lambda: TAGGERS[name]().fit(WORDS, TAGS, sample_weight=weights, documents=[2] * 4))  # noqa: B023
        if model is not None:
            ask_tagger(model, WORDS)


def test_weights_beyond_the_bounds_are_told_and_those_below_count_for_nothing():
    with pytest.raises(InputError, match=r"at most 1e\+09; sentence 2 has 1e\+308\. Divide all of them by the largest"):
        kf.MaxEnt(**LOOSE).fit(WORDS, TAGS, sample_weight=[1, 1, 1e308, 1, 1, 1, 1, 1])
    with pytest.raises(InputError, match="a number above 0"):
        kf.MaxEnt(**LOOSE).fit(WORDS, TAGS, sample_weight=[1e-320] * 8)
    faint, none = (
        kf.MaxEnt(**LOOSE).fit(WORDS, TAGS, sample_weight=[1.0] * 7 + [weight]).weights_.node for weight in (1e-320, 0)
    )
    np.testing.assert_array_equal(faint, none)


@pytest.mark.parametrize("name", TAGGERS)
def test_vectors_of_another_scale_than_in_training_are_told(name: str):
    small = 1e-25 * vectors()
    model = TAGGERS[name]().fit(WORDS, TAGS, vectors=small, documents=[2] * 4)
    ask_tagger(model, WORDS, vectors=small)
    with pytest.raises(InputError, match=r"of the scale they had in training; token 0 has .* column 0, where they dev"):
        model.predict(WORDS, vectors=vectors())


def test_a_column_too_faint_for_single_precision_counts_for_nothing():
    one = vectors()
    one[:, 1] = 1e-42 * (np.arange(40) % 3)
    faint = kf.MaxEnt(**LOOSE).fit(WORDS, TAGS, vectors=one).predict_proba(WORDS, vectors=one)
    one[:, 1] = 0.0
    none = kf.MaxEnt(**LOOSE).fit(WORDS, TAGS, vectors=one).predict_proba(WORDS, vectors=one)
    np.testing.assert_array_equal(np.concatenate(faint), np.concatenate(none))


# -- nodes --------------------------------------------------------------------------------------------


def a_graph(features: Any = OWN, weights: Any = None, name: str = "") -> kf.Graph:
    links: Any = LINKS
    if weights is not None:
        links = sparse.csr_array((weights, LINKS.T), shape=(N, N))
    labels: Any = (OWN[:, 0] + KIND).tolist() if name == "NodeRegressor" else ["abc"[k] for k in KIND]
    return kf.Graph(features, labels, {"near": links})


@cache
def trained_on_nodes(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return OF_NODES[name]().fit(a_graph(name=name))


def ask_nodes(model: Any, graph: kf.Graph) -> None:
    well(lambda: model.predict(graph, known="none"))
    for way in ("predict_proba", "score"):
        if hasattr(model, way):
            well(lambda: getattr(model, way)(graph))  # noqa: B023


@FEW
@pytest.mark.parametrize("name", OF_NODES)
def test_features_of_nodes(name: str, value: float):
    table, thin = OWN.copy(), value > 0
    table[4, 1] = value
    graph = well(lambda: a_graph(sparse.csr_array(table) if thin else table, name=name))
    if graph is not None:
        ask_nodes(trained_on_nodes(name), graph)
        model = well(lambda: OF_NODES[name]().fit(graph))
        if model is not None:
            ask_nodes(model, graph)


@pytest.mark.parametrize("value", [-1e12, 1e12, 1e-320], ids=repr)
@pytest.mark.parametrize("name", OF_NODES)
def test_weights_of_links(name: str, value: float):
    graph = well(lambda: a_graph(weights=np.full(len(LINKS), value), name=name))
    if graph is not None:
        ask_nodes(trained_on_nodes(name), graph)
        model = well(lambda: OF_NODES[name]().fit(graph))
        if model is not None:
            ask_nodes(model, graph)
            ask_nodes(model, a_graph(name=name))


@pytest.mark.parametrize("value", [1e9, 1e-320])
@pytest.mark.parametrize("name", OF_NODES)
def test_weights_of_nodes(name: str, value: float):
    model = well(lambda: OF_NODES[name]().fit(a_graph(name=name), sample_weight=[value] + [1.0] * (N - 1)))
    if model is not None:
        ask_nodes(model, a_graph(name=name))


def test_a_weight_of_a_link_that_is_too_large_is_told_with_its_ends():
    weights = np.ones(len(LINKS))
    weights[0] = 1e300
    with pytest.raises(
        InputError, match=rf"within ±1e\+12; relation 'near' has 1e\+300 from {LINKS[0, 0]} to {LINKS[0, 1]}"
    ):
        a_graph(weights=weights)


@VALUES
def test_targets_of_a_regressor(value: float):
    graph = kf.Graph(OWN, None, {"near": LINKS})
    for targets in ([value, *OWN[1:, 0]], [value * i for i in range(N)]):
        model = well(lambda: OF_NODES["NodeRegressor"]().fit(graph, targets))  # noqa: B023
        if model is not None:
            well(lambda: model.predict(graph))  # noqa: B023


def test_a_column_that_is_missing_everywhere_stops_no_tree():
    table = OWN.copy()
    table[:, 1] = np.nan
    graph = a_graph(table)
    model = kf.StackedNodes(effort="fast", n_jobs=1).fit(graph)
    np.testing.assert_allclose(model.predict_proba(graph, known="none").sum(axis=1), 1)
    np.testing.assert_allclose(model.predict_proba(a_graph(), known="none").sum(axis=1), 1)


def test_what_a_base_refuses_is_told():
    class Fussy(LogisticRegression):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            raise ValueError("X is not to my liking.")

    for model in (kf.StackedNodes(Fussy(), depth=1, folds=3, n_jobs=1), kf.DependencyNetwork(Fussy(), n_jobs=1)):
        with pytest.raises(InputError, match=r"the base Fussy refuses: X is not to my liking\. Look for"):
            model.fit(a_graph())


# -- probabilities given ------------------------------------------------------------------------------


@VALUES
def test_probabilities_given_of_nodes(value: float):
    said = 0.4 / 3 + 0.6 * np.eye(3)[KIND]
    said[3, 1] = value
    ask = lambda: kf.NodeLayer(n_jobs=1).fit(a_graph(), said, classes=list("abc")).predict_proba(a_graph(), said)  # noqa: E731
    well(ask)


@VALUES
def test_probabilities_given_of_tokens(value: float):
    corpus, classes = kf.Corpus.from_sentences(WORDS, TAGS, documents=[2] * 4), ["B-LOC", "B-PER", "O"]
    said = [0.1 + 0.7 * np.array([[tag == one for one in classes] for tag in tags]) for tags in TAGS]
    said[2][1] = [value, 1 - value, 0.0]
    well(lambda: kf.TokenLayer(n_jobs=1).fit(corpus, said, classes=classes).predict_proba(corpus, said))


# -- records ------------------------------------------------------------------------------------------


def people(sizes: Any = None, vectors: Any = None) -> kf.Mentions:
    import pandas as pd

    entity = np.repeat(np.arange(15), 2)
    columns = {"name": [f"n{e % 4}" for e in entity], "size": entity + 0.1 * (np.arange(30) % 2), "entity": entity}
    columns |= {} if sizes is None else {"size": sizes}
    columns |= {} if vectors is None else {"vector": list(vectors)}
    return kf.records_from_frames(pd.DataFrame({"id": [f"p{i}" for i in range(30)], **columns}), cluster="entity")


def ask_linker(fields: list[Any], train: Callable[[], Any], asked: Callable[[], Any]) -> None:
    model = well(lambda: kf.Linker([*fields, kf.Exact("name")], blocking=["key(name)"], n_jobs=1).fit(train()))
    if model is not None:
        for way in ("predict", "predict_proba", "score"):
            well(lambda: getattr(model, way)(asked()))  # noqa: B023


@VALUES
def test_numbers_and_vectors_of_records(value: float):
    sizes = np.arange(30.0) // 2
    sizes[3] = value
    for relative in (False, True):
        ask_linker([kf.NumberDifference("size", relative=relative)], lambda: people(sizes), people)
        ask_linker([kf.NumberDifference("size", relative=relative)], people, lambda: people(np.full(30, value)))
    table = np.random.default_rng(2).normal(size=(15, 3)).repeat(2, axis=0)
    table[5] = value
    ask_linker([kf.Cosine("vector")], lambda: people(vectors=table), lambda: people(vectors=table))


CLUSTERERS = [
    kf.SingleLink, kf.AverageLink, kf.CompleteLink, kf.BestLink, kf.ClusterSum, kf.Correlation, kf.OneToOne,
    kf.OneToMany,
]  # fmt: skip


@pytest.mark.parametrize("kind", CLUSTERERS)
def test_clusterers_given_scores(kind: Any):
    left, right = np.array([0, 0, 1, 3]), np.array([1, 2, 2, 4])
    for value in HOSTILE:
        for scores in ([0.9, value, 0.2, 0.5], [value] * 4):
            found = well(lambda: kind().cluster(5, left, right, np.array(scores)))  # noqa: B023
            assert found is None or (len(found) == 5 and found.min() >= 0)
    for wrong in ([0, 0, 1, 5], [0, 0, -1, 3], [0.0, 0.0, 1.0, 3.0]):
        with pytest.raises(InputError, match="left must be numbers of items, from 0 to 4; got"):
            kind().cluster(5, wrong, right, np.full(4, 0.5))
    with pytest.raises(InputError, match="one entry a pair"):
        kind().cluster(5, left, right, np.full(3, 0.5))


def test_numbers_of_two_signs_are_two_apart_however_large():
    items = people(np.where(np.arange(30) % 2, 1e308, -1e308))
    apart = kf.NumberDifference("size", relative=True).of(items)(np.array([0, 0]), np.array([1, 2]))
    assert apart.tolist() == [[2.0], [0.0]]


# -- many labels, much of everything ------------------------------------------------------------------


@pytest.mark.parametrize("name", [*TAGGERS, *OF_NODES])
def test_ten_thousand_labels(name: str):
    """As many as there are instances: most often ids in the place of labels."""
    n = 10_000
    told = rf"at most {MOST_LABELS:,} labels, .* got [12]0,00[01]\. Are these labels, and not ids\? Merge rare ones, or"
    if name == "MaxEnt":  # by itself each token has room for as many
        told = rf"{told} set `constrain=False`"
        words, tags = [["w"] * n], [[f"B-{i}" for i in range(n)]]
    elif name in TAGGERS:
        words, tags = [["w"] * 100] * 100, [[f"l{i}" for i in range(s, s + 100)] for s in range(0, n, 100)]
    if name in TAGGERS:
        with pytest.raises(InputError, match=told):
            TAGGERS[name]().fit(words, tags, documents=[len(words) // 2, len(words) - len(words) // 2][-len(words) :])
        return
    if name == "NodeRegressor":  # numbers, not labels
        return
    graph = kf.Graph(np.zeros((n, 1)), [f"l{i}" for i in range(n)], {"near": [(0, 1)]})
    with pytest.raises(InputError, match=told):
        OF_NODES[name]().fit(graph)


def test_tokens_by_themselves_may_have_more_labels(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(data, "MOST_LABELS", 20)
    labels = [[f"l{i}" for i in range(s, s + 10)] for s in range(0, 40, 10)]
    words = [[f"w{i % 3}" for i in range(10)]] * 4
    with pytest.raises(InputError, match="at most 20 labels"):
        kf.MEMM(**LOOSE).fit(words, labels)
    model = kf.MaxEnt(**LOOSE).fit(words, labels)
    assert len(model.classes_) == 40
    table = np.concatenate(model.predict_proba(words))
    np.testing.assert_allclose(table.sum(axis=1), 1)
    found = [model.classes_[k] for k in table.argmax(axis=1)]
    assert [one for row in model.predict(words) for one in row] == found


def test_weights_that_find_no_memory_are_told_before_they_are_made(monkeypatch: pytest.MonkeyPatch):
    assert len(no_weights(Shape(3, 2))) == 3 * 2 + 2 + 4
    with pytest.raises(
        InputError, match=r"10,000,000 features for each of 10,000 labels.* GB of memory, and there are"
    ):
        no_weights(Shape(10_000_000, 10_000))
    monkeypatch.setattr(memory, "available_memory", lambda: 100.0)
    with pytest.raises(InputError, match=r"12 weights.* takes 0\.0 GB"):
        no_weights(Shape(3, 2))
    with pytest.raises(InputError, match="Leave out rare features"):
        kf.MaxEnt(**LOOSE).fit(WORDS, TAGS)


def test_a_sentence_of_very_many_tokens():
    """In bounded memory and time, with a logarithm where a probability is too small for any float."""
    n = 9_000
    words = [[WORDS[i % 8][i % 5] for i in range(n)]]
    for name in ("MEMM", "MixtureTagger"):
        model = TAGGERS[name]().fit(WORDS, TAGS, documents=[2] * 4)
        assert len(well(lambda: model.predict_entities([words[0][:2_000]]))) > 0  # noqa: B023
        ((_, log_p),) = well(lambda: model.predict_k_best(words, 1))[0]  # noqa: B023
        assert -np.inf < log_p < 0


def test_more_links_than_there_is_memory_are_told_before_they_are_made():
    rule, corpus = kf.SameWord(capitalised=False, most_recent=None), kf.Corpus.from_sentences([["a"] * 1_000_000])
    with pytest.raises(
        InputError, match=r"499,999,500,000, as one stands in a document 1,000,000 times: .*most_recent=5"
    ):
        rule.learn(corpus).edges(corpus)
    few = kf.Corpus.from_sentences([["a"] * 5])
    assert len(rule.learn(few).edges(few)) == 10


def test_parents_in_a_circle_are_told():
    circle = kf.SkipFunction(lambda corpus: [(2, 1), (1, 2)])
    with pytest.raises(KinfolkError):
        kf.MixtureTagger(skip_edges=circle, **LOOSE).fit(WORDS, TAGS, documents=[8])
