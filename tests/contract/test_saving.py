"""A model comes back from its file as it was; a file that does not fit together ends in a ModelFileError."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.errors import InputError, ModelFileError
from kinfolk.text.attributes import gazetteer, lower, matches, per_word, prefix, seen_capitalised, shape, word
from kinfolk.text.templates import bag, elsewhere, per_token
from small_world import MODELS, TEST, TINY, TINY_LABELS, TRAIN

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
    from kinfolk.core import modelfile

    newer = modelfile.FORMAT_VERSION + 1
    monkeypatch.setattr(modelfile, "FORMAT_VERSION", newer)
    kf.MaxEnt(n_jobs=1).fit(TINY, TINY_LABELS).save(tmp_path / FILE)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match=rf"format {newer}; this is kinfolk .*upgrade kinfolk"):
        kf.load_model(tmp_path / FILE)


# -- mixtures of parents


def two_back(document: kf.Corpus) -> list[tuple[int, int]]:
    return [(k, k - 2) for k in range(2, document.n_tokens)]


def distance(corpus: kf.Corpus, child: Any, parent: Any) -> Any:
    return np.abs(child - parent) / 10


MINE: dict[str, Any] = {"near": two_back, "distance": distance, **FUNCTIONS}
OF_TOKENS: dict[str, dict[str, Any]] = {
    "plain": {},
    "both, gate, edge features": {"order": "both", "mixing": "learned", "edge_features": "default"},
    "backward, separate, shares": {"order": "backward", "training": "separate", "parent_features": "shared",
                                   "mixing": {"previous": 2, "same word": np.float64(1), "start": 3}},
    "gate of its own, conditional": {"mixing": "learned", "gate_folds": 0, "training": "conditional"},
    "chain": {"skip_edges": None, "transition_templates": [shape[0]], "encoding": "IOBES"},
    "settings of same word": {"skip_edges": kf.SameWord(False, np.int64(3), None), "parent_features": "none"},
    "document features": {"templates": "document", "constrain": False, "class_weight": {"PER": 2.0}},
    "functions": {"skip_edges": [kf.SameWord(), kf.SkipFunction(two_back, "near")],
                  "edge_features": ["same sentence", kf.edge_feature("distance", distance)],
                  "templates": [lower[0], per_word("stem", stem)[0]], "mixing": "learned"},
}  # fmt: skip


def mixture(**changed: Any) -> kf.MixtureTagger:
    return kf.MixtureTagger(**{"templates": [lower[0], shape[0]], "n_jobs": 1, **changed})


def node_mixture(**changed: Any) -> kf.MixtureNodes:
    return kf.MixtureNodes(**{"n_jobs": 1, "orders": 2, "predict_orders": 4, **changed})


@pytest.mark.parametrize("settings", OF_TOKENS.values(), ids=OF_TOKENS.keys())
def test_a_mixture_comes_back_as_it_was(settings: Any, tmp_path: Path):
    model = mixture(**settings).fit(TRAIN.documents(0, 4))
    model.save(tmp_path / FILE)
    loaded = kf.load_model(tmp_path / FILE, functions=MINE, kind="tokens")
    assert_same_answers(model, loaded, TEST.documents(0, 3))
    assert [p.names for p in loaded.parents_] == [p.names for p in model.parents_]
    assert str(loaded.explain(TEST, 0, 5)) == str(model.explain(TEST, 0, 5))
    assert list(loaded.classes_) == list(model.classes_) and str(loaded.convergence_) == str(model.convergence_)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / FILE).read_bytes()
    objects = {"templates", "transition_templates", "skip_edges", "edge_features"}  # come back as what they became
    assert all(loaded.get_params()[k] == v for k, v in model.get_params().items() if k not in objects)
    with pytest.raises(ModelFileError, match=FILE):
        kf.load_model(tmp_path / FILE, functions=MINE, kind="nodes")


@pytest.mark.parametrize("name", ["near", "distance", "stem"])
def test_functions_of_a_mixture_are_given_again(name: str, tmp_path: Path):
    mixture(**OF_TOKENS["functions"]).fit(TRAIN.documents(0, 2)).save(tmp_path / FILE)
    with pytest.raises(ModelFileError, match=rf"{FILE}: .*'{name}'.*pass it in again"):
        kf.load_model(tmp_path / FILE, functions={n: f for n, f in MINE.items() if n != name})


def test_a_loaded_mixture_may_be_trained_again(tmp_path: Path):
    settings = {"skip_edges": [kf.SkipFunction(two_back, "near")], "edge_features": ["same sentence"]}
    model = mixture(**settings).fit(TRAIN.documents(0, 4))
    model.save(tmp_path / FILE)
    loaded = kf.load_model(tmp_path / FILE, functions=MINE).fit(TRAIN.documents(0, 4))
    assert_same_answers(model, loaded, TEST.documents(0, 3))
    warm = kf.load_model(tmp_path / FILE, functions=MINE).set_params(warm_start=True).fit(TRAIN.documents(0, 4))
    assert warm.convergence_.iterations < model.convergence_.iterations


def test_a_mixture_of_dicts_comes_back(tmp_path: Path):
    X = [[{"w": w, "n": float(len(w))} for w in s] for s in TINY]
    model = mixture(order="both").fit(X, TINY_LABELS)
    model.save(tmp_path / FILE)
    assert_same_answers(model, kf.load_model(tmp_path / FILE), X)


def pages(**changed: Any) -> kf.Graph:
    X = np.random.default_rng(0).random((8, 3)).astype(np.float32)
    links = {"cites": [(0, 1), (1, 2), (2, 0), (3, 4), (5, 3)], "near": [(6, 7), (7, 0)]}
    return kf.Graph(**{"features": X, "labels": list("abababab"), "relations": links, **changed})


OF_NODES: dict[str, tuple[dict[str, Any], Any]] = {
    "plain": ({}, pages()),
    "names": ({}, pages(feature_names=["é", "f f", ""])),
    "gate": ({"mixing": "learned", "relations": ("near",)}, pages()),
    "shares": ({"mixing": {"cites": 1, "near": 2, "start": 3}, "everybody_starts": True}, pages()),
    "nodes alone": ({"relations": []}, pages()),
    "a dag with weights": (
        {"mixing": "given", "parent_features": "none", "training": "separate"},
        kf.Relational(np.eye(3), [0, 1, 0], ["a", "b"],
                      {"p": sparse.csr_array(([1, 0.25, 0.75], ([1, 2, 2], [0, 0, 1])), shape=(3, 3))}),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "data"), OF_NODES.values(), ids=OF_NODES.keys())
def test_a_mixture_of_nodes_comes_back_as_it_was(settings: Any, data: Any, tmp_path: Path):
    model = node_mixture(**settings).fit(data)
    model.save(tmp_path / FILE)
    loaded = kf.load_model(tmp_path / FILE, kind="nodes")
    np.testing.assert_array_equal(model.predict_proba(data), loaded.predict_proba(data))
    np.testing.assert_array_equal(model.predict_proba(data, forced=True), loaded.predict_proba(data, forced=True))
    assert str(model.explain(data, node=1)) == str(loaded.explain(data, node=1))
    assert loaded.node_columns_ == model.node_columns_
    with pytest.raises(InputError, match="expected a Graph or a Relational; got list"):
        loaded.predict(TINY)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / FILE).read_bytes()
    with pytest.raises(ModelFileError, match=FILE):
        kf.load_model(tmp_path / FILE, kind="tokens")


@pytest.fixture(scope="module")
def saved_mixtures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("mixtures")
    shares = {"mixing": {"cites": 1, "near": 2}}
    learned = {"mixing": "learned", "edge_features": ["same sentence"]}
    mixture(**learned).fit(TINY, TINY_LABELS).save(folder / "tokens")
    node_mixture(**shares).fit(pages(feature_names=["x", "y", "z"])).save(folder / "nodes")
    return {name: folder / name for name in ("tokens", "nodes")}


def _shorter(name: str) -> Callable[[Any, Any, Any], None]:
    return lambda header, arrays, strings: arrays.update({name: arrays[name][1:]})


def _rule(**changed: Any) -> Callable[[Any, Any, Any], None]:
    return lambda header, arrays, strings: header["mixture"]["parents"][0].update(changed)


ROWS = "mixture.0.table.0.rows"
OF_EITHER: dict[str, tuple[str, Callable[[Any, Any, Any], Any], Any]] = {
    "no mixture": ("tokens", lambda h, a, s: h.pop("mixture"), ()),
    "the other kind": ("tokens", lambda h, a, s: h.update(kind="nodes"), ()),
    "nodes as tokens": ("nodes", lambda h, a, s: h.update(kind="tokens"), ()),
    "a chain method": ("tokens", lambda h, a, s: h.update(method="MEMM"), ()),
    "a table missing": ("tokens", lambda h, a, s: a.pop("mixture.0.table.1.values"), ()),
    "a table too short": ("tokens", _shorter("mixture.0.table.0.values"), ()),
    "rows out of range": ("tokens", lambda h, a, s: a.update({ROWS: a[ROWS] + 99}), ()),
    "pairs of another shape": ("tokens", _shorter("mixture.0.pair"), ()),
    "a relation too many": ("tokens", _rule(skips=[{"same_word": {}}] * 2), ()),
    "skips of the future": ("tokens", _rule(skips=[{"same_sound": {}}]), ()),
    "a setting of the future": ("tokens", _rule(skips=[{"same_word": {"loud": 1}}]), ()),
    "edge features of the future": ("tokens", _rule(edge_features={"edge_features": [{"built_in": "sound"}]}), ()),
    "parent features of the future": ("tokens", _rule(parent_features="doubled"), ()),
    "no local model": ("tokens", lambda h, a, s: a.pop("mixture.local"), ()),
    "a local model of another width": ("tokens", _shorter("mixture.local"), ()),
    "a class missing": ("nodes", lambda h, a, s: h["labels"]["classes"].pop(), ()),
    "a feature missing": ("nodes", lambda h, a, s: s.update({"columns": ["x", "y"]}), ()),
    "no columns": ("nodes", lambda h, a, s: s.pop("columns"), ()),
    "a link missing": ("nodes", _rule(links=["cites"]), ()),
    "no parents": ("nodes", lambda h, a, s: h["mixture"].update(parents=[]), ()),
    "a gate too short": ("tokens", _shorter("mixture.0.gate"), ()),
    "shares too short": ("nodes", _shorter("mixture.0.shares"), ()),
}


@pytest.mark.parametrize(
    ("kind", "change"),
    [pytest.param(kind, change, marks=marks) for kind, change, marks in OF_EITHER.values()],
    ids=OF_EITHER.keys(),
)
def test_parts_of_a_mixture_that_do_not_fit_together(kind: str, change: Any, saved_mixtures: Any, tmp_path: Path):
    file = read_model_file(saved_mixtures[kind])
    header, arrays, strings = file.header, dict(file.arrays), dict(file.strings)
    change(header, arrays, strings)
    write_model_file(tmp_path / FILE, header, arrays, strings)
    with pytest.raises(ModelFileError, match=str(tmp_path / FILE)) as caught:
        kf.load_model(tmp_path / FILE)
    assert "\n" not in str(caught.value)


def test_a_mixture_cut_or_altered_is_refused(saved_mixtures: Any, tmp_path: Path):
    for path in saved_mixtures.values():
        whole = path.read_bytes()
        for size in range(0, len(whole), max(1, len(whole) // 10)):
            (tmp_path / FILE).write_bytes(whole[:size])
            with pytest.raises(ModelFileError, match=FILE):
                kf.load_model(tmp_path / FILE)
        for at in np.random.default_rng(0).integers(0, len(whole), 10).tolist():
            changed = bytearray(whole)
            changed[at] ^= 1
            (tmp_path / FILE).write_bytes(changed)
            with pytest.raises(ModelFileError, match=FILE):
                kf.load_model(tmp_path / FILE)


# -- settings of a file are checked as in fit ---------------------------------------------------------

GRAPH = kf.Graph(np.eye(2)[[0, 1] * 9], ["a", "b"] * 9, {"r": [(i, (i + 2) % 18) for i in range(18)]})
PEOPLE = kf.generate_customers(60, seed=1)


def learned(name: str) -> Any:
    """A small model of each kind."""
    if name == "tokens":
        return kf.LinearChainCRF(n_jobs=1).fit(TINY, TINY_LABELS)
    if name == "skip chain":
        return kf.SkipChainCRF(n_jobs=1, l2=1.0).fit(TINY, TINY_LABELS)
    if name == "link":
        return kf.LinkModel(n_jobs=1, l2=1.0).fit(GRAPH)
    if name == "mixture":
        return kf.MixtureNodes(n_jobs=1, l2=1.0).fit(GRAPH)
    if name == "stacked":
        return kf.StackedNodes(LogisticRegression(), [kf.Count("r")], folds=3, n_jobs=1).fit(GRAPH)
    if name == "network":
        return kf.DependencyNetwork(LogisticRegression(), [kf.Count("r")], n_jobs=1).fit(GRAPH)
    if name == "stacked tokens":
        return kf.StackedTagger(kf.MEMM(n_jobs=1), [kf.Window(1)], folds=2, n_jobs=1).fit(TINY * 4, TINY_LABELS * 4)
    return kf.Linker(blocking=["sorted(surname, 30)"], n_jobs=1, bias=kf.Bias()).fit(PEOPLE)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("settings")

    def file(name: str) -> Path:
        if not (folder / name).exists():
            learned(name).save(folder / name)
        return folder / name

    return file


BAD_SETTINGS: list[tuple[str, str, Any]] = [
    ("tokens", "l2", -1.0), ("tokens", "l1", "much"), ("tokens", "n_jobs", 0), ("tokens", "encoding", "BIOX"),
    ("tokens", "class_weight", "unbalanced"), ("tokens", "class_weight", {"PER": -1}), ("tokens", "constrain", "no"),
    ("tokens", "verbose", "loud"), ("tokens", "templates", "document"), ("tokens", "nothing", 1),
    ("skip chain", "damping", 2.0), ("skip chain", "training", "magic"), ("skip chain", "decode", "best"),
    ("link", "max_rounds", 0), ("link", "schedule", "whenever"), ("link", "relations", "r"),
    ("mixture", "mixing", "stirred"), ("mixture", "predict_orders", -3), ("mixture", "gate_folds", 1),
    ("stacked", "depth", -1), ("stacked", "folds", [1, 2]), ("stacked", "known", "all"), ("stacked", "base", "svm"),
    ("network", "sweeps", 0), ("network", "chains", 1.5), ("network", "mode", "wild"),
    ("linker", "rounds", 0), ("linker", "e_step", "guess"), ("linker", "bins", 10**9), ("linker", "select", "luck"),
    ("linker", "l2", None), ("linker", "training", "hard"), ("linker", "n_jobs", "all"),
]  # fmt: skip


@pytest.mark.parametrize(("which", "setting", "value"), BAD_SETTINGS, ids=[f"{w}-{s}" for w, s, _ in BAD_SETTINGS])
def test_settings_of_a_file_are_checked_as_in_fit(
    which: str, setting: str, value: Any, files: Callable[[str], Path], tmp_path: Path
):
    file = read_model_file(files(which))
    file.header["settings"][setting] = value
    write_model_file(tmp_path / FILE, file.header, file.arrays, file.strings)
    with pytest.raises(ModelFileError, match=rf"{FILE}: .*\b{setting}\b") as refused:
        kf.load_model(tmp_path / FILE)
    assert "altered" in str(refused.value) and "do not fit together" not in str(refused.value)


def test_settings_of_models_within_a_model_are_checked(files: Callable[[str], Path], tmp_path: Path):
    file = read_model_file(files("stacked tokens"))
    file.header["stacked"]["levels"][1]["settings"]["l2"] = -1
    write_model_file(tmp_path / FILE, file.header, file.arrays, file.strings)
    with pytest.raises(ModelFileError, match=rf"{FILE}: MEMM\(l2=...\) must be 0, or a number from"):
        kf.load_model(tmp_path / FILE)


@pytest.mark.parametrize(
    ("part", "told"),
    [({"bias": {"kind": "some", "factor": 1.5, "form": "weight"}}, "kind of a bias"),
     ({"clusterer": ["SingleLink", {"threshold": 7, "max_size": None}]}, "threshold=...\\) must be"),
     ({"clusterer": ["AverageLink", {"threshold": 0.5, "max_size": 0, "of": "probability"}]}, "max_size"),
     ({"clusterer": ["AverageLink", {"threshold": 0.5, "max_size": None, "of": "luck"}]}, "of=...\\) must be")],
    ids=["bias", "threshold", "size", "of"],
)  # fmt: skip
def test_settings_of_a_clusterer_and_a_bias_are_checked(
    part: dict[str, Any], told: str, files: Callable[[str], Path], tmp_path: Path
):
    file = read_model_file(files("linker"))
    file.header["linker"].update(part)
    write_model_file(tmp_path / FILE, file.header, file.arrays, file.strings)
    with pytest.raises(ModelFileError, match=rf"{FILE}: .*{told}"):
        kf.load_model(tmp_path / FILE)


def test_a_setting_that_an_older_file_lacks_is_the_default(files: Callable[[str], Path], tmp_path: Path):
    file = read_model_file(files("tokens"))
    del file.header["settings"]["encoding"], file.header["settings"]["verbose"]
    write_model_file(tmp_path / FILE, file.header, file.arrays, file.strings)
    assert kf.load_model(tmp_path / FILE).encoding == "auto"
