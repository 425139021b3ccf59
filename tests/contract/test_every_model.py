"""One battery over all public models: settings, files, order, labels, threads, bad input."""

from __future__ import annotations

import copy
import inspect
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

import kinfolk as kf
from every_model import CORPUS, GRAPH, MODELS, PEOPLE
from kinfolk.core.settings import Settings
from kinfolk.errors import GainWarning, KinfolkError, SettingError
from kinfolk.errors import NotFittedError as NotTrainedError

EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
POOLED = ("NodeRegressor", "MultiLabelNodes")
OF_NODES = ("MixtureNodes", "LinkModel", "StackedNodes", "StackedNodes, levels", "DependencyNetwork", *POOLED)
OWN_FOLDS = tuple(name for name in MODELS if name.startswith("Stacked") or name in POOLED)
OF_SCIKIT_LEARN = (
    "StackedNodes",
    "StackedNodes, levels",
    "DependencyNetwork",
    *POOLED,
)  # skops numbers the parts of a base as they lie in memory
OF_TOKENS = tuple(name for name, (_, data) in MODELS.items() if data is CORPUS)


def new(name: str, **settings: Any) -> Any:
    return MODELS[name][0]().set_params(**settings)


@cache
def fitted(name: str) -> Any:
    """Not to be changed by a test."""
    return new(name).fit(MODELS[name][1])


def answers(model: Any, data: Any) -> list[Any]:
    """Labels, and every probability: a list that `==` compares."""
    tables = model.predict_proba(data) if hasattr(model, "predict_proba") else model.predict(data, known="none")
    numbers = [table.tolist() for table in tables] if isinstance(tables, list) else np.asarray(tables).tolist()
    return [list(model.predict(data)), numbers]


def same(a: Any, b: Any) -> bool:
    return repr(a) == repr(b)


def test_no_model_is_left_out():
    public = {name for name in kf.__all__ if inspect.isclass(kind := getattr(kf, name)) and issubclass(kind, Settings)}
    layers = {
        name for name in public if issubclass(getattr(kf, name), kf.CollectiveLayer)
    }  # they need probabilities too
    fitted = {name for name in public - layers if hasattr(getattr(kf, name), "fit")}
    assert fitted == {name.partition(",")[0] for name in MODELS}


# -- settings -----------------------------------------------------------------------------------------


@EVERY_MODEL
def test_clone_and_settings(name: str):
    model = new(name)
    copied = clone(model)
    assert type(copied) is type(model) and copied is not model and same(copied, model)
    settings = model.get_params(deep=False)
    assert settings.keys() == set(inspect.signature(type(model).__init__).parameters) - {"self"}
    assert settings.keys() <= model.get_params().keys()
    assert copied.set_params(**settings) is copied and same(copied.get_params(deep=False), settings)
    with pytest.raises(SettingError, match="no setting 'penalty'"):
        model.set_params(penalty=1)
    assert same(copy.deepcopy(model), model)


class Nonsense:
    def __repr__(self) -> str:
        return "Nonsense()"


SETTINGS = [(name, setting) for name in MODELS for setting in new(name).get_params(deep=False)]


@pytest.mark.parametrize("value", ["nonsense!", Nonsense()], ids=["a word", "an object"])
@pytest.mark.parametrize(("name", "setting"), SETTINGS, ids=[f"{name}-{setting}" for name, setting in SETTINGS])
def test_no_setting_takes_nonsense(name: str, setting: str, value: Any):
    with pytest.raises(SettingError) as refused:
        new(name, **{setting: value}).fit(MODELS[name][1])
    told = str(refused.value)
    assert setting.rstrip("s").replace("_", " ") in told.replace("_", " ") or repr(value) in told, told


RULED = [(name, setting) for name, setting in SETTINGS if (rule := new(name).DECLARED[setting].rule) is not None
         and not rule.holds("nonsense!")]  # fmt: skip


@pytest.mark.parametrize(("name", "setting"), RULED, ids=[f"{name}-{setting}" for name, setting in RULED])
def test_no_setting_takes_nonsense_once_the_model_is_trained(name: str, setting: str):
    model = copy.copy(fitted(name)).set_params(**{setting: "nonsense!"})
    for answer in [getattr(model, way) for way in ("predict", "predict_proba", "score") if hasattr(model, way)]:
        with pytest.raises(
            SettingError, match=rf"{name.partition(',')[0]}\({setting}=...\) must be .*; got 'nonsense!'"
        ):
            answer(MODELS[name][1])


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("LinearChainCRF", "outside_penalty", float("nan")),
        ("LinearChainCRF", "outside_penalty", 1e9),
        ("MixtureNodes", "predict_orders", 0),
        ("MixtureNodes", "evidence", "bogus"),
        ("DependencyNetwork", "sweeps", 0),
    ],
)
def test_a_setting_beyond_its_range_is_refused_once_the_model_is_trained(name: str, setting: str, value: Any):
    model = copy.copy(fitted(name))
    setattr(model, setting, value)
    with pytest.raises(SettingError, match=f"{setting}=...\\) must be"):
        model.predict(MODELS[name][1])


# -- fitting, files, order, threads -------------------------------------------------------------------


@EVERY_MODEL
def test_what_is_learned_is_seen_and_not_cloned(name: str):
    model, data = new(name), MODELS[name][1]
    assert isinstance(model.__sklearn_tags__(), Tags)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    before = repr(model)
    assert model.fit(data) is model and repr(model) == before, "training leaves the settings alone"
    check_is_fitted(model)
    assert 0 <= model.score(data) <= 1
    assert answers(model, data) == answers(fitted(name), data), "two runs give the same"
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(model))


@EVERY_MODEL
def test_threads_change_nothing(name: str):
    data = MODELS[name][1]
    assert answers(new(name, n_jobs=2).fit(data), data) == answers(fitted(name), data)


@EVERY_MODEL
def test_a_model_comes_back_from_its_file(name: str, tmp_path: Path):
    model, data = fitted(name), MODELS[name][1]
    model.save(tmp_path / "m")
    loaded = kf.load_model(tmp_path / "m")
    assert type(loaded) is type(model) and answers(loaded, data) == answers(model, data)
    became = {"templates", "skip_edges", "base", "features", "blocking", "clusterer", "bias", "conjunctions"}
    kept = {setting: value for setting, value in model.get_params(deep=False).items() if setting not in became}
    assert {setting: loaded.get_params()[setting] for setting in kept} == kept
    loaded.save(tmp_path / "again")
    assert name in OF_SCIKIT_LEARN or (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


# -- the gain over the local model --------------------------------------------------------------------

COLLECTIVE = tuple(name for name in MODELS if "guard" in new(name).get_params(deep=False))


@cache
def guarded(name: str, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GainWarning)  # of so few instances little can be shown
        guard = True if name in OWN_FOLDS else 2
        return new(name, guard=guard, **settings).fit(MODELS[name][1])


def test_every_collective_model_has_a_guard():
    assert {*MODELS} - {*COLLECTIVE} == {"MaxEnt", "MEMM", "LinearChainCRF"}


@pytest.mark.parametrize("name", COLLECTIVE)
def test_a_guarded_model_says_what_it_gains(name: str, tmp_path: Path):
    model, data = guarded(name), MODELS[name][1]
    gain = model.gain_
    assert isinstance(gain, kf.Gain) and gain.n > 1 and gain.lower <= gain.gain <= gain.upper
    assert gain.gain == pytest.approx(gain.collective - gain.local) and 0 <= gain.local <= 100
    assert answers(model, data) == answers(fitted(name), data), "a guard measures, and changes nothing"
    assert (fitted(name).gain_ is None) == (name != "StackedTagger"), "which chooses its depth by it"
    assert guarded(name, n_jobs=2).gain_ == gain
    model.save(tmp_path / "m")
    assert kf.load_model(tmp_path / "m").gain_ == gain


@pytest.mark.parametrize("name", [name for name in COLLECTIVE if name not in OWN_FOLDS])
def test_a_guard_of_more_folds_than_there_is_to_deal_is_refused(name: str):
    """Not of stacks and pools, which have folds of their own."""
    with pytest.raises(SettingError, match="guard must be at most the number of labelled"):
        new(name, guard=1000).fit(MODELS[name][1])


@pytest.mark.parametrize("name", OF_TOKENS)
def test_documents_in_another_order(name: str):
    order = [4, 0, 5, 2, 1, 3]
    labels, tables = answers(fitted(name), CORPUS)
    cuts = np.cumsum([0, *(document.n_sentences for document in CORPUS)])
    rows = [row for d in order for row in range(cuts[d], cuts[d + 1])]
    found, numbers = answers(fitted(name), CORPUS.select(order))
    assert found == [labels[row] for row in rows]
    for row, table in zip(rows, numbers, strict=True):
        np.testing.assert_allclose(table, tables[row], atol=1e-6)


@pytest.mark.parametrize("name", [name for name in OF_NODES if name not in ("MixtureNodes", "DependencyNetwork")])
def test_nodes_in_another_order(name: str):
    """Not of models that draw orders or samples by the place of a node."""
    order = np.random.default_rng(0).permutation(36)
    place = np.argsort(order)
    links = place[np.transpose(GRAPH.relational().relations["near"].nonzero())]
    other = kf.Graph(np.asarray(GRAPH.features)[order], [GRAPH.labels[i] for i in order], {"near": links})
    model = fitted(name)
    told = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    np.testing.assert_allclose(told(other, known="none"), told(GRAPH, known="none")[order], atol=1e-4)


def test_records_in_another_order():
    """By a clusterer to which it is all one which of two equal links comes first."""
    frame = pd.DataFrame({"id": PEOPLE.names, **{field: c.strings() for field, c in PEOPLE.columns.items()}})
    order = np.random.default_rng(0).permutation(len(frame))
    model = new("Linker", clusterer=kf.SingleLink()).fit(PEOPLE)
    one, other = (np.asarray(model.predict(kf.records_from_frames(rows))) for rows in (frame, frame.iloc[order]))
    assert len({*one.tolist()}) < len(one) and ((one[order][:, None] == one[order]) == (other[:, None] == other)).all()


# -- bad input ----------------------------------------------------------------------------------------

BAD = {"None": None, "a number": 3, "a string": "x", "nothing": [], "a dict": {}, "lists of None": [None],
       "an object": Nonsense()}  # fmt: skip


@EVERY_MODEL
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_what_is_no_data_is_refused(name: str, bad: Any):
    model = new(name)
    with pytest.raises(KinfolkError, match=r"\w+ \w+"):
        model.fit(bad)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    if bad != []:
        with pytest.raises(KinfolkError, match=r"\w+ \w+"):
            fitted(name).predict(bad)


@EVERY_MODEL
def test_nothing_is_predicted_before_fit(name: str):
    for method in ("predict", "predict_proba", "score", "save"):
        if not hasattr(new(name), method):
            continue
        with pytest.raises(NotTrainedError, match=f"this {type(new(name)).__name__} is not trained yet"):
            getattr(new(name), method)(MODELS[name][1] if method != "save" else "nowhere")


@EVERY_MODEL
def test_labels_are_needed_but_for_records(name: str):
    if name not in (*OF_TOKENS, *OF_NODES):
        assert new(name).fit(replace(PEOPLE, clusters=None)).learned_from_ == "records"
        return
    unlabelled: Any = GRAPH.with_labels([None] * 36)
    if name in OF_TOKENS:
        unlabelled = kf.Corpus.from_sentences(CORPUS.rows())
    with pytest.raises(KinfolkError, match=r"label|cluster|truth|numbers"):
        new(name).fit(unlabelled)
