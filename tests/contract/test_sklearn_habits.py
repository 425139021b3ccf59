"""What people who come from scikit-learn expect of every model: clone, settings, pipelines, grids, notebooks."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

import kinfolk as kf
from every_model import BLOCKING, CORPUS, GRAPH, LOOSE, MODELS, PEOPLE
from kinfolk.errors import InputError
from kinfolk.text.crfsuite import CRF

HOSTILE = "<script>alert('gotcha')</script>"
EVERY_MODEL = pytest.mark.parametrize(("new", "data"), MODELS.values(), ids=MODELS)


@EVERY_MODEL
def test_notebooks_show_it(new: Callable[[], Any], data: Any):
    model = new()
    shown = model._repr_mimebundle_(include=None, exclude=None)
    assert shown["text/plain"] == repr(model) and shown["text/html"].startswith("<style>")
    assert type(model).__name__ in shown["text/html"]
    with config_context(display="text"):
        assert model._repr_html_() is None and model._repr_mimebundle_().keys() == {"text/plain"}


class Hostile:
    def __repr__(self) -> str:
        return HOSTILE


@pytest.mark.parametrize("model", [
    kf.LinearChainCRF(class_weight={HOSTILE: 2.0}), kf.StackedNodes(LogisticRegression(class_weight=Hostile())),
    kf.Linker(blocking=[HOSTILE]), kf.MixtureTagger(templates=HOSTILE),
    make_pipeline(FunctionTransformer(), kf.LinkModel(relations=[HOSTILE])),
], ids=lambda model: type(model).__name__)  # fmt: skip
def test_text_in_settings_is_escaped(model: Any):
    shown = model._repr_html_()
    assert "<script>alert" not in shown and "&lt;script&gt;alert" in shown


def test_settings_of_the_base():
    for model in (kf.StackedNodes(LogisticRegression()), kf.DependencyNetwork(LogisticRegression())):
        assert model.get_params()["base__C"] == 1.0
        copied = clone(model.set_params(base__C=0.25))
        assert copied.base.C == 0.25 and copied.base is not model.base
        with pytest.raises(ValueError, match="Invalid parameter 'D'"):
            model.set_params(base__D=1)


# -- pipelines and grids ------------------------------------------------------------------------------


def as_dicts(sentences: list[list[str]]) -> list[list[dict[str, Any]]]:
    return [[{"lower": word.lower(), "capital": word[0].isupper()} for word in sentence] for sentence in sentences]


def test_a_tagger_is_the_last_step_of_a_pipeline():
    X, y = CORPUS.rows(), CORPUS.label_rows()
    pipeline = Pipeline([("features", FunctionTransformer(as_dicts)), ("crf", kf.LinearChainCRF(**LOOSE))]).fit(X, y)
    alone = kf.LinearChainCRF(**LOOSE).fit(as_dicts(X), y)
    assert pipeline.predict(X) == alone.predict(as_dicts(X)) and pipeline.score(X, y) == alone.score(as_dicts(X), y)
    assert "LinearChainCRF" in pipeline._repr_html_()
    assert clone(pipeline).set_params(crf__l2=7.0)["crf"].l2 == 7.0


def test_sentences_are_searched_by_document():
    """Sentences of a document stay on one side of a fold; each is then a document of its own to the model."""
    documents = CORPUS.token_documents[CORPUS.sentence_starts[:-1]]
    search = GridSearchCV(kf.LinearChainCRF(**LOOSE), {"l2": [0.1, 1000.0]}, cv=GroupKFold(2))
    search.fit(CORPUS.rows(), CORPUS.label_rows(), groups=documents)
    assert search.best_params_ == {"l2": 0.1} and search.predict(CORPUS.rows()[:3])


@pytest.mark.parametrize("sentences", [CORPUS.rows(), [row[:3] for row in CORPUS.rows() if len(row) > 2]],
                         ids=["of several lengths", "of one length"])  # fmt: skip
def test_sentences_are_predicted_across_folds(sentences: list[list[str]]):
    X, y = as_dicts(sentences), [["UP" if word[0].isupper() else "low" for word in row] for row in sentences]
    crf = kf.LinearChainCRF(**LOOSE)
    found = cross_val_predict(crf, X, y, cv=KFold(2))
    assert found.shape == (len(X),) and list(found) == y and all(type(row) is list for row in found)
    half = (len(X) + 1) // 2
    predicted = crf.fit(X[half:], y[half:]).predict(X[:half])
    assert predicted == y[:half] and isinstance(predicted, list) and predicted[0] == found[0]
    for answers in (predicted, crf.predict_proba(X), crf.predict_k_best(X, 2)):
        array = np.asarray(answers)
        assert array.shape == (len(answers),) and array.dtype == object and array[0] is answers[0]


def test_answers_are_lists_to_everybody_but_numpy():
    X, y = as_dicts([["Ann", "ran"], ["Bob"]]), [["U", "l"], ["U"]]
    found = kf.MaxEnt(**LOOSE).fit(X, y).predict(X)
    assert found == y and found + [[]] == [*y, []] and repr(found) == repr(y) and json.dumps(found) == json.dumps(y)
    assert copy.deepcopy(found) == y == pickle.loads(pickle.dumps(found))
    assert np.concatenate(found).tolist() == ["U", "l", "U"] and pd.Series(found).tolist() == y


@pytest.mark.parametrize(("model", "setting"), [
    (kf.LinearChainCRF(**LOOSE), "l2"), (kf.MixtureTagger(**LOOSE), "l2"),
    (kf.SkipChainCRF(n_jobs=1, tolerance=0.3), "l2"),
    (kf.StackedTagger(kf.LinearChainCRF(**LOOSE), folds=2, n_jobs=1), "base__l2"),
], ids=lambda value: value if isinstance(value, str) else type(value).__name__)  # fmt: skip
def test_documents_are_searched_whole(model: Any, setting: str):
    """A corpus is cut by document, with all columns; so are the answers."""
    search = GridSearchCV(model, {setting: [0.1, 1000.0]}, cv=KFold(2), error_score="raise").fit(CORPUS)
    assert search.best_params_ == {setting: 0.1} and search.predict(CORPUS) == search.best_estimator_.predict(CORPUS)
    by_hand = clone(model).set_params(**{setting: 0.1}).fit(CORPUS[3:])
    assert search.cv_results_["split0_test_score"][0] == by_hand.score(CORPUS[:3])
    found = cross_val_predict(search.best_estimator_, CORPUS, cv=KFold(2))
    assert found.shape == (6,)
    assert [labels for document in found[:3] for labels in document] == by_hand.predict(CORPUS[:3])
    assert [len(document) for document in found] == [document.n_sentences for document in CORPUS]


TAGGERS: dict[str, tuple[Any, str]] = {
    "MaxEnt": (kf.MaxEnt(**LOOSE), "l2"), "MEMM": (kf.MEMM(**LOOSE), "l2"),
    "LinearChainCRF": (kf.LinearChainCRF(**LOOSE), "l2"),
    "SkipChainCRF": (kf.SkipChainCRF(n_jobs=1, tolerance=0.3), "l2"),
    "MixtureTagger": (kf.MixtureTagger(**LOOSE), "l2"),
    "StackedTagger": (kf.StackedTagger(kf.LinearChainCRF(**LOOSE), folds=2, depth=1, n_jobs=1), "base__l2"),
    "CRF": (CRF(delta=0.01, n_jobs=1), "c2"),
}  # fmt: skip


@pytest.mark.parametrize(("model", "setting"), TAGGERS.values(), ids=TAGGERS)
def test_every_tagger_is_searched_over_feature_dicts(model: Any, setting: str):
    """Whole documents of dicts, each with its words; answers are the same in threads and in one."""
    half = 2 if isinstance(model, kf.StackedTagger) else 1  # which deals documents to folds of its own
    small = CORPUS[: 2 * half]
    sizes = np.diff(small.document_starts).tolist()
    corpus = kf.Corpus.from_sentences(small.rows(), small.label_rows(), sizes, features=as_dicts(small.rows()))
    scores = cross_val_score(model, corpus, cv=2, error_score="raise")
    with parallel_config(backend="threading"):
        assert cross_val_score(model, corpus, cv=2, n_jobs=2, error_score="raise").tolist() == scores.tolist()
    found = cross_val_predict(model, corpus, cv=KFold(2))
    by_hand = clone(model).fit(corpus[half:])
    assert [labels for document in found[:half] for labels in document] == by_hand.predict(corpus[:half])
    assert scores[0] == by_hand.score(corpus[:half])
    drawn = RandomizedSearchCV(model, {setting: [0.1]}, n_iter=1, cv=2, error_score="raise", random_state=0).fit(corpus)
    assert drawn.best_params_ == {setting: 0.1} and drawn.predict(corpus) == drawn.best_estimator_.predict(corpus)


def test_every_tagger_goes_to_other_processes():
    """One search over all of them, so that processes start once; trained there and sent back, they answer alike."""
    X, y = as_dicts(CORPUS[:2].rows()), CORPUS[:2].label_rows()
    pipeline, grid = Pipeline([("tagger", kf.MaxEnt())]), {"tagger": [model for model, _ in TAGGERS.values()]}
    alone, beside = (
        GridSearchCV(pipeline, grid, cv=KFold(2), n_jobs=n_jobs, error_score="raise", refit=n_jobs > 1).fit(X, y)
        for n_jobs in (1, 2)
    )
    assert (alone.cv_results_["mean_test_score"] == beside.cv_results_["mean_test_score"]).all()
    assert len(beside.predict(X)) == len(X)


def test_splitters_take_a_corpus():
    folds = list(GroupKFold(3).split(CORPUS, groups=[0, 0, 1, 1, 2, 2]))
    assert sorted(len(test) for _, test in folds) == [2, 2, 2]
    for train, test in folds:
        assert len(CORPUS[train]) == 4 and CORPUS[test].rows() == CORPUS.select(test).rows()
    train, test = train_test_split(CORPUS, test_size=2, random_state=0)
    crf = kf.LinearChainCRF(**LOOSE).fit(train)
    assert crf.score(test) == crf.score(kf.Corpus.joined(test)) and len(crf.predict(test)) == 2
    scores = cross_val_score(crf, CORPUS, cv=3, params={"sample_weight": np.ones(6)}, error_score="raise")
    assert len(scores) == 3 and (scores > 0).all()
    proba = cross_val_predict(crf, CORPUS, cv=2, method="predict_proba")
    assert proba.shape == (6,) and [len(table) for table in proba[5]] == [len(row) for row in CORPUS[5].rows()]


def test_a_number_for_each_document_of_a_list():
    crf = kf.LinearChainCRF(**LOOSE)
    by_document = crf.fit(list(CORPUS), sample_weight=[1, 2, 3, 1, 2, 3]).weights_.node
    each = np.repeat([1, 2, 3, 1, 2, 3], [document.n_sentences for document in CORPUS])
    assert (crf.fit(CORPUS, sample_weight=each).weights_.node == by_document).all()
    with pytest.raises(InputError, match=r"sample_weight must have one number a document \(6\); got \(2,\)"):
        crf.fit(list(CORPUS), sample_weight=[1, 2])


def test_documents_by_number_are_searched_in_a_pipeline():
    """X are numbers of documents, and the first step takes those of the corpus."""
    pipeline = Pipeline([("corpus", FunctionTransformer(CORPUS.select)), ("model", kf.LinearChainCRF(**LOOSE))])
    search = GridSearchCV(pipeline, {"model__l2": [0.1, 1000.0]}, cv=KFold(2)).fit(np.arange(len(CORPUS)))
    assert search.best_params_ == {"model__l2": 0.1}


def test_records_are_searched_by_cluster():
    model = make_pipeline(FunctionTransformer(PEOPLE.take), kf.Linker(blocking=BLOCKING, n_jobs=1))
    search = GridSearchCV(model, {"linker__l2": [0.1, 1.0]}, cv=GroupKFold(2), error_score="raise")
    search.fit(np.arange(len(PEOPLE)), groups=PEOPLE.clusters)
    assert (search.cv_results_["mean_test_score"] > 0.5).all()


@pytest.mark.parametrize("model", [
    kf.LinkModel(**LOOSE), kf.MixtureNodes(orders=2, predict_orders=2, **LOOSE),
    kf.StackedNodes(effort="fast", n_jobs=1), kf.StackedNodes(LogisticRegression(), depth=1, folds=3, n_jobs=1),
    kf.DependencyNetwork(LogisticRegression(), sweeps=5, burn_in=2, n_jobs=1),
], ids=lambda model: type(model).__name__)  # fmt: skip
def test_nodes_are_searched_in_their_graph(model: Any):
    """X are numbers of nodes, and the first step hides the labels of all others: only these are learned and scored."""
    scores = cross_val_score(make_pipeline(FunctionTransformer(GRAPH.labels_at), model), np.arange(36), cv=KFold(2))
    by_hand = clone(model).fit(GRAPH.labels_at(np.arange(18, 36))).score(GRAPH.labels_at(np.arange(18)))
    assert scores[0] == by_hand and (scores > 0.3).all()


@pytest.mark.parametrize("ask", [
    cross_val_score, cross_val_predict, lambda model, graph: GridSearchCV(model, {"levels": [1, 2]}).fit(graph),
])  # fmt: skip
def test_a_graph_says_how_it_is_searched(ask: Any):
    with pytest.raises(
        kf.KinfolkError, match=r"cannot cut it into folds.*graph.nodes_at\(\), cv=kf.GraphSplit\(graph\)"
    ):
        ask(kf.StackedNodes(LogisticRegression()), GRAPH)


def test_labels_of_some_nodes_alone():
    some = GRAPH.labels_at([3, 0])
    expected = [label if i in (0, 3) else None for i, label in enumerate(GRAPH.labels)]
    assert list(some.labels) == expected and some.classes == GRAPH.classes and some.ids == GRAPH.ids


@pytest.mark.parametrize("data", [CORPUS, GRAPH, PEOPLE], ids=lambda data: type(data).__name__)
def test_data_goes_to_other_processes(data: Any):
    """A grid with n_jobs sends the pipeline there, and `clone` copies it."""
    for again in (copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
        assert type(again) is type(data) and repr(again) == repr(data)
    if data is PEOPLE:
        again = pickle.loads(pickle.dumps(PEOPLE))
        assert again.names == PEOPLE.names and (again.clusters == PEOPLE.clusters).all()
        assert {n: c.strings() for n, c in again.columns.items()} == {n: c.strings() for n, c in PEOPLE.columns.items()}
