"""What people who come from scikit-learn expect of every model: clone, settings, pipelines, grids, notebooks."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

import kinfolk as kf
from kinfolk.errors import SettingError
from kinfolk.models.settings import Settings

HOSTILE = "<script>alert('gotcha')</script>"
LOOSE: dict[str, Any] = {"n_jobs": 1, "tolerance": 0.01}
CORPUS = kf.generate_newswire(6)
PEOPLE = kf.generate_customers(80, seed=1)


def small_graph() -> kf.Graph:
    rng = np.random.default_rng(0)
    kinds = np.arange(36) % 3
    near = (rng.random((36, 36)) < 0.15) & (kinds[:, None] == kinds) & ~np.eye(36, dtype=bool)
    return kf.Graph(
        np.eye(3)[kinds] + rng.normal(0, 0.5, (36, 3)), ["abc"[i] for i in kinds], {"near": np.argwhere(near)}
    )


GRAPH = small_graph()

# name -> a new model, and data to train it on
MODELS: dict[str, tuple[Callable[[], Any], Any]] = {
    "MaxEnt": (lambda: kf.MaxEnt(**LOOSE), CORPUS),
    "MEMM": (lambda: kf.MEMM(**LOOSE), CORPUS),
    "LinearChainCRF": (lambda: kf.LinearChainCRF(**LOOSE), CORPUS),
    "SkipChainCRF": (lambda: kf.SkipChainCRF(**LOOSE), CORPUS),
    "MixtureOfParents": (lambda: kf.MixtureOfParents(**LOOSE), CORPUS),
    "MixtureOfParents, nodes": (lambda: kf.MixtureOfParents(orders=2, predict_orders=2, **LOOSE), GRAPH),
    "LinkModel": (lambda: kf.LinkModel(**LOOSE), GRAPH),
    "StackedGraphical": (lambda: kf.StackedGraphical(kf.LinearChainCRF(**LOOSE), folds=2, n_jobs=1), CORPUS),
    "StackedGraphical, nodes": (lambda: kf.StackedGraphical(LogisticRegression(), folds=3, n_jobs=1), GRAPH),
    "DependencyNetwork": (lambda: kf.DependencyNetwork(LogisticRegression(), sweeps=5, burn_in=2, n_jobs=1), GRAPH),
    "Linker": (lambda: kf.Linker(blocking=["key(postcode)"], n_jobs=1), PEOPLE),
}
EVERY_MODEL = pytest.mark.parametrize(("new", "data"), MODELS.values(), ids=MODELS)


def same(a: Any, b: Any) -> bool:
    return repr(a) == repr(b)


def test_no_model_is_left_out():
    public = {name for name in kf.__all__ if inspect.isclass(kind := getattr(kf, name)) and issubclass(kind, Settings)}
    models = {name for name in public if hasattr(getattr(kf, name), "fit")}
    assert models == {name.partition(",")[0] for name in MODELS}


@EVERY_MODEL
def test_clone_and_settings(new: Callable[[], Any], data: Any):
    model = new()
    copied = clone(model)
    assert type(copied) is type(model) and copied is not model and same(copied, model)
    settings = model.get_params(deep=False)
    assert settings.keys() == set(inspect.signature(type(model).__init__).parameters) - {"self"}
    assert settings.keys() <= model.get_params().keys()
    assert copied.set_params(**settings) is copied and same(copied.get_params(deep=False), settings)
    with pytest.raises(SettingError, match="no setting 'penalty'"):
        model.set_params(penalty=1)
    assert same(copy.deepcopy(model), model)


@EVERY_MODEL
def test_what_is_learned_is_seen_and_not_cloned(new: Callable[[], Any], data: Any):
    model = new()
    assert isinstance(model.__sklearn_tags__(), Tags)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    before = repr(model)
    assert model.fit(data) is model and repr(model) == before, "training leaves the settings alone"
    check_is_fitted(model)
    assert 0 <= model.score(data) <= 1
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(model))


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
    kf.LinearChainCRF(class_weight={HOSTILE: 2.0}), kf.StackedGraphical(LogisticRegression(class_weight=Hostile())),
    kf.Linker(blocking=[HOSTILE]), kf.MixtureOfParents(templates=HOSTILE),
    make_pipeline(FunctionTransformer(), kf.LinkModel(relations=[HOSTILE])),
], ids=lambda model: type(model).__name__)  # fmt: skip
def test_text_in_settings_is_escaped(model: Any):
    shown = model._repr_html_()
    assert "<script>alert" not in shown and "&lt;script&gt;alert" in shown


def test_settings_of_the_base():
    for model in (kf.StackedGraphical(LogisticRegression()), kf.DependencyNetwork(LogisticRegression())):
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


@pytest.mark.parametrize(("model", "setting"), [
    (kf.LinearChainCRF(**LOOSE), "l2"), (kf.MixtureOfParents(**LOOSE), "l2"), (kf.SkipChainCRF(**LOOSE), "l2"),
    (kf.StackedGraphical(kf.LinearChainCRF(**LOOSE), folds=2, n_jobs=1), "base__l2"),
], ids=lambda value: value if isinstance(value, str) else type(value).__name__)  # fmt: skip
def test_documents_are_searched_whole(model: Any, setting: str):
    """X are numbers of documents, and the first step takes those of the corpus, with all columns."""
    search = GridSearchCV(
        Pipeline([("corpus", FunctionTransformer(CORPUS.select)), ("model", model)]),
        {f"model__{setting}": [0.1, 1000.0]}, cv=KFold(2),
    ).fit(np.arange(CORPUS.n_documents))  # fmt: skip
    assert search.best_params_ == {f"model__{setting}": 0.1}
    by_hand = clone(model).set_params(**{setting: 0.1}).fit(CORPUS.documents(3, 6)).score(CORPUS.documents(0, 3))
    assert search.cv_results_["split0_test_score"][0] == by_hand


def test_records_are_searched_by_cluster():
    model = make_pipeline(FunctionTransformer(PEOPLE.take), kf.Linker(blocking=["key(postcode)"], n_jobs=1))
    search = GridSearchCV(model, {"linker__l2": [0.1, 1.0]}, cv=GroupKFold(2), error_score="raise")
    search.fit(np.arange(len(PEOPLE)), groups=PEOPLE.clusters)
    assert (search.cv_results_["mean_test_score"] > 0.5).all()


@pytest.mark.parametrize("model", [
    kf.LinkModel(**LOOSE), kf.MixtureOfParents(orders=2, predict_orders=2, **LOOSE),
    kf.StackedGraphical(LogisticRegression(), folds=3, n_jobs=1),
    kf.DependencyNetwork(LogisticRegression(), sweeps=5, burn_in=2, n_jobs=1),
], ids=lambda model: type(model).__name__)  # fmt: skip
def test_nodes_are_searched_in_their_graph(model: Any):
    """X are numbers of nodes, and the first step hides the labels of all others: only these are learned and scored."""

    def labels_of(nodes: Any) -> kf.Graph:
        kept = {*nodes.tolist()}
        return GRAPH.with_labels([label if i in kept else None for i, label in enumerate(GRAPH.labels)])

    scores = cross_val_score(make_pipeline(FunctionTransformer(labels_of), model), np.arange(36), cv=KFold(2))
    by_hand = clone(model).fit(labels_of(np.arange(18, 36))).score(labels_of(np.arange(18)))
    assert scores[0] == by_hand and (scores > 0.3).all()


@pytest.mark.parametrize("data", [CORPUS, GRAPH, PEOPLE], ids=lambda data: type(data).__name__)
def test_data_goes_to_other_processes(data: Any):
    """A grid with n_jobs sends the pipeline there, and `clone` copies it."""
    for again in (copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
        assert type(again) is type(data) and repr(again) == repr(data)
    if data is PEOPLE:
        again = pickle.loads(pickle.dumps(PEOPLE))
        assert again.names == PEOPLE.names and (again.clusters == PEOPLE.clusters).all()
        assert {n: c.strings() for n, c in again.columns.items()} == {n: c.strings() for n, c in PEOPLE.columns.items()}
