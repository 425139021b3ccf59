"""A model comes back from its file as it was; a file that does not fit together ends in a ModelFileError."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_world import MODELS, TEST, TINY, TINY_LABELS, TRAIN

import kinfolk as kf
from kinfolk.errors import ModelFileError
from kinfolk.features.attributes import lower, matches, per_word, prefix, shape, word
from kinfolk.features.document import seen_capitalised
from kinfolk.features.gazetteer import gazetteer
from kinfolk.features.templates import bag, elsewhere, per_token
from kinfolk.io.modelfile import read_model_file, write_model_file

FILE = "m.kinfolk"


def assert_same_answers(one: Any, other: Any, corpus: Any) -> None:
    assert one.predict(corpus) == other.predict(corpus)
    for a, b in zip(one.predict_proba(corpus), other.predict_proba(corpus), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.predict_entities(corpus) == other.predict_entities(corpus)
    if hasattr(one, "predict_k_best"):
        assert one.predict_k_best(corpus, 3) == other.predict_k_best(corpus, 3)


def test_a_model_comes_back_as_it_was(fitted: Any, tmp_path: Path):
    fitted.save(tmp_path / FILE)
    loaded = kf.load_model(tmp_path / FILE)
    assert type(loaded) is type(fitted) and loaded.get_params() == fitted.get_params()
    assert_same_answers(fitted, loaded, TEST)
    assert list(loaded.classes_) == list(fitted.classes_) and loaded.columns_ == fitted.columns_
    assert loaded.features_.names() == fitted.features_.names()
    assert str(loaded.convergence_) == str(fitted.convergence_)
    assert loaded.score(TEST) == fitted.score(TEST)


def test_the_same_model_gives_the_same_bytes(fitted: Any, tmp_path: Path):
    for name in ("one", "two"):
        fitted.save(tmp_path / name)
    kf.load_model(str(tmp_path / "one")).save(tmp_path / "three")
    assert len({(tmp_path / name).read_bytes() for name in ("one", "two", "three")}) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "three", "two"], "no temporary file is left"


def first_letters(sentence: list[dict[str, str]], at: int) -> list[str]:
    return [token["word"][0] for token in sentence[max(0, at - 1) : at + 1]]


def stem(text: str) -> str | None:
    return text[:4].lower() if len(text) > 4 else None


FUNCTIONS = {"stem": stem, "letters": first_letters}
RICH = [
    word[0] & shape[-1], bag(lower, -2, 2), elsewhere(lower[1]), prefix(2, of=lower)[0], matches("n", r"\d")[0],
    seen_capitalised[0], gazetteer("places", ["Rome", "New York"], ignore_case=True)[0],
    per_word("stem", stem)[-1], per_token("letters", first_letters),
]  # fmt: skip


def test_every_kind_of_template_comes_back(tmp_path: Path):
    pairs = [shape[0], gazetteer("verbs", ["said", "left"])[0], per_word("stem", stem)[0]]
    model = kf.LinearChainCRF(templates=RICH, transition_templates=pairs, n_jobs=1, class_weight={"PER": 2.0})
    model.fit(TRAIN.documents(0, 6)).save(tmp_path / FILE)
    loaded = kf.load_model(tmp_path / FILE, functions=FUNCTIONS)
    assert_same_answers(model, loaded, TEST)
    assert list(map(str, loaded.templates)) == list(map(str, model.features_.templates))
    assert loaded.class_weight == {"PER": 2.0}
    for given in ({}, {"stem": stem}):
        missing = "letters" if given else "stem"
        with pytest.raises(ModelFileError, match=rf"{FILE}: .*'{missing}'.*pass it in again"):
            kf.load_model(tmp_path / FILE, functions=given)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_a_model_of_dicts_comes_back(make: Any, tmp_path: Path):
    X = [[{"w": w, "n": float(len(w)), "é": True} for w in s] for s in TINY]
    model = make(n_jobs=1).fit(X, TINY_LABELS)
    model.save(tmp_path / FILE)
    assert_same_answers(model, kf.load_model(tmp_path / FILE), X)


@pytest.mark.parametrize("scheme", ["IOB1", "IOBES", None])
def test_labels_come_back_in_their_scheme(scheme: str | None, tmp_path: Path):
    labels = {"IOB1": [["I-PER", "I-PER", "O", "I-LOC"], ["O", "O"]],
              "IOBES": [["B-PER", "E-PER", "O", "S-LOC"], ["O", "O"]],
              None: [["NN", "NN", "VB", "NN"], ["PR", "VB"]]}[scheme]  # fmt: skip
    kf.MEMM(n_jobs=1).fit(TINY, labels).save(tmp_path / FILE)
    assert kf.load_model(tmp_path / FILE).predict(TINY) == labels


def test_a_loaded_model_goes_on_training(tmp_path: Path):
    model = kf.LinearChainCRF(templates=[lower[0], shape[0]], n_jobs=1, warm_start=True, tolerance=1e-5)
    model.fit(TRAIN.documents(0, 6)).save(tmp_path / FILE)
    loaded = kf.load_model(tmp_path / FILE).fit(TRAIN.documents(0, 6))
    assert loaded.convergence_.iterations < model.convergence_.iterations
    assert loaded.convergence_.objective <= model.convergence_.objective * (1 + 1e-6)


def test_saving_replaces_whole_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A full disk at the last moment leaves the old model, and nothing else."""
    one = kf.MaxEnt(n_jobs=1).fit(TINY, TINY_LABELS)
    one.save(tmp_path / FILE)
    before = (tmp_path / FILE).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelFileError, match=r"m\.kinfolk: No space left on device: free some space"):
        kf.MaxEnt(n_jobs=1, l2=5.0).fit(TINY, TINY_LABELS).save(tmp_path / FILE)
    assert (tmp_path / FILE).read_bytes() == before and list(tmp_path.iterdir()) == [tmp_path / FILE]


def test_places_that_cannot_be_saved_to_or_loaded_from(tmp_path: Path):
    model = kf.MaxEnt(n_jobs=1).fit(TINY, TINY_LABELS)
    for path in (tmp_path / "no" / "such" / FILE, tmp_path):
        with pytest.raises(ModelFileError, match=str(path)):
            model.save(path)
        with pytest.raises(ModelFileError, match=str(path)):
            kf.load_model(path)
    assert list(tmp_path.iterdir()) == []


# -- files that are cut, altered or do not fit together


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / FILE
    gazette = gazetteer("places", ["Rome"])
    kf.LinearChainCRF(templates=[lower[0], prefix(2)[1], bag(lower, -1, 1), gazette[0]], n_jobs=1).fit(
        TINY, TINY_LABELS
    ).save(path)
    return path


def test_a_file_cut_anywhere_is_refused(saved: Path, tmp_path: Path):
    whole = saved.read_bytes()
    for size in [*range(0, len(whole), max(1, len(whole) // 40)), len(whole) - 1]:
        (tmp_path / FILE).write_bytes(whole[:size])
        with pytest.raises(ModelFileError, match=FILE):
            kf.load_model(tmp_path / FILE)


def test_a_file_with_one_bit_changed_is_refused(saved: Path, tmp_path: Path):
    whole = bytearray(saved.read_bytes())
    for at in np.random.default_rng(0).integers(0, len(whole), 60).tolist():
        changed = whole.copy()
        changed[at] ^= 1
        (tmp_path / FILE).write_bytes(changed)
        with pytest.raises(ModelFileError, match=FILE):
            kf.load_model(tmp_path / FILE)


def _template(spec: dict[str, Any]) -> Callable[[Any, Any, Any], None]:
    return lambda header, arrays, strings: header["features"]["templates"].__setitem__(0, spec)


def _derived(kind: str, *arguments: Any) -> Callable[[Any, Any, Any], None]:
    attribute = {"kind": kind, "arguments": list(arguments), "of": {"column": "word"}}
    return _template({"conjunction": [[attribute, 0]]})


CHANGES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "another method": lambda h, a, s: h.update(method="SkipChainCRF"),
    "no method": lambda h, a, s: h.pop("method"),
    "an unknown setting": lambda h, a, s: h["settings"].update(depth=3),
    "settings of a wrong kind": lambda h, a, s: h.update(settings=[1]),
    "no weights": lambda h, a, s: a.pop("weights.node"),
    "weights of another shape": lambda h, a, s: a.update({"weights.node": a["weights.node"][:-1]}),
    "a class missing": lambda h, a, s: h["labels"]["classes"].pop(),
    "a class twice": lambda h, a, s: h["labels"]["classes"].__setitem__(0, "O"),
    "no labels": lambda h, a, s: h.pop("labels"),
    "no keys": lambda h, a, s: a.pop("node.features.keys"),
    "fewer keys": lambda h, a, s: a.update({"node.features.keys": a["node.features.keys"][1:]}),
    "no gazetteer": lambda h, a, s: s.pop("node.gazetteer.places"),
    "no templates": lambda h, a, s: h["features"].update(templates=[]),
    "a template of the future": _template({"trigram": 1}),
    "a template that is none": _template([1, 2]),  # type: ignore[arg-type]
    "an attribute of the future": _template({"conjunction": [[{"sound": 1}, 0]]}),
    "a kind of the future": _derived("sound"),
    "an argument too many": _derived("lower", 1),
    "a prefix without length": _derived("prefix"),
    "a prefix of no length": _derived("prefix", 0),
    "a broken pattern": _derived("matches", "x", "("),
    "an offset that is no number": _template({"conjunction": [[{"column": "word"}, "x"]]}),
    "a bag without end": _template({"bag": {"column": "word"}, "first": -1, "last": None}),
    "a function that nobody gave": _template({"per_token": "mine"}),
    "convergence of the future": lambda h, a, s: h["convergence"].update(more=1),
    "a model of another kind": lambda h, a, s: h.update(kind="nodes"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_parts_that_do_not_fit_together(change: Any, saved: Path, tmp_path: Path):
    """Well-formed files with a true checksum, made by another hand or a later version."""
    file = read_model_file(saved)
    header, arrays, strings = file.header, dict(file.arrays), dict(file.strings)
    change(header, arrays, strings)
    write_model_file(tmp_path / FILE, header, arrays, strings)
    with pytest.raises(ModelFileError, match=str(tmp_path / FILE)) as caught:
        kf.load_model(tmp_path / FILE)
    assert "\n" not in str(caught.value)


def test_a_model_of_a_newer_version_says_to_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from kinfolk.io import modelfile

    newer = modelfile.FORMAT_VERSION + 1
    monkeypatch.setattr(modelfile, "FORMAT_VERSION", newer)
    kf.MaxEnt(n_jobs=1).fit(TINY, TINY_LABELS).save(tmp_path / FILE)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match=rf"format {newer}; this is kinfolk .*upgrade kinfolk"):
        kf.load_model(tmp_path / FILE)
