"""Stacked models and dependency networks come back from their files as they were; forged ones are refused unopened."""

from __future__ import annotations

import io
import json
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import kinfolk as kf
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.errors import ModelFileError
from kinfolk.text.attributes import lower, shape
from small_world import TEST, TINY, TINY_LABELS, TRAIN

FILE = "m.kinfolk"
NAMES = ("ant", "bee", "cat")
Change = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], Any]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of linear algebra would only wait for each other on tables this small."""
    with threadpool_limits(1):
        yield


def a_graph(seed: int, n: int = 30, unknown: int = 0, **changed: Any) -> kf.Graph:
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % 3)
    X = np.round(rng.standard_normal((n, 3)) + np.eye(3)[codes], 2)
    table = np.where(rng.random((n, n)) < 0.1, rng.integers(1, 5, (n, n)) / 2, 0.0)
    links = {"r": sparse.csr_array(table - np.diag(np.diag(table))), "s": [(i, (i + 1) % n) for i in range(n)]}
    labels = [None if i < unknown else NAMES[y] for i, y in enumerate(codes)]
    return kf.Graph(**{"features": X, "labels": labels, "relations": links, "classes": NAMES, **changed})


GRAPH, OTHER, PARTLY = a_graph(0), a_graph(1), a_graph(2, unknown=12)


def stacked(base: Any = None, templates: Any = ("count:r",), **changed: Any) -> kf.StackedNodes:
    base = LogisticRegression() if base is None else base
    return kf.StackedNodes(**{"base": base, "templates": list(templates), "folds": 3, "n_jobs": 1, **changed})


def network(**changed: Any) -> kf.DependencyNetwork:
    settings = {"base": LogisticRegression(), "templates": ["proportion:r"], "burn_in": 2, "sweeps": 4, "n_jobs": 1}
    return kf.DependencyNetwork(**{**settings, **changed})


def come_back(model: Any, path: Path, *asked: Any, **options: Any) -> Any:
    """Saved and loaded; the answers to `asked` are the same, bit for bit."""
    model.save(path)
    loaded = kf.load_model(path, **options)
    assert type(loaded) is type(model) and loaded.classes_.tolist() == model.classes_.tolist()
    for graph in asked:
        for forced in (False, True):
            np.testing.assert_array_equal(loaded.predict_proba(graph, forced), model.predict_proba(graph, forced))
        np.testing.assert_array_equal(loaded.predict(graph), model.predict(graph))
        assert loaded.evaluate(graph) == model.evaluate(graph)
    return loaded


# -- nodes


BASES = {
    "logistic regression": LogisticRegression(C=0.5),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "boosting": HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=3, random_state=0),
    "forest": RandomForestClassifier(4, random_state=0, n_jobs=1),
    "naive bayes": GaussianNB(),
    "without probabilities": LinearSVC(),
}


@pytest.mark.parametrize("base", BASES.values(), ids=BASES.keys())
def test_any_base_comes_back(base: Any, tmp_path: Path):
    model = stacked(base, depth=2, folds=4, cross_fitting="paper").fit(GRAPH)
    loaded = come_back(model, tmp_path / FILE, OTHER, GRAPH)
    for one, two in zip(model.predict_levels(OTHER), loaded.predict_levels(OTHER), strict=True):
        np.testing.assert_array_equal(one, two)
    assert repr(loaded.base) == repr(base) and repr(loaded) == repr(model).replace("['count:r']", "[Count('r')]")
    assert repr(clone(loaded)) == repr(loaded)


def test_a_base_a_level_comes_back(tmp_path: Path):
    bases = [GaussianNB(), LogisticRegression(C=0.1), LogisticRegression(C=3.0)]
    loaded = come_back(stacked(bases, depth=2, folds=4).fit(GRAPH), tmp_path / FILE, OTHER)
    assert repr(loaded.base) == repr(bases)
    again = clone(loaded).fit(GRAPH)
    np.testing.assert_array_equal(again.predict_proba(OTHER), loaded.predict_proba(OTHER))


def test_a_model_of_fewer_levels_comes_back(tmp_path: Path):
    model = stacked(depth=2, folds=4).fit(GRAPH)
    for depth in (0, 1):
        come_back(model.at_depth(depth), tmp_path / FILE, OTHER, GRAPH)
    come_back(stacked(depth=0, templates=["count:r"]).fit(GRAPH), tmp_path / FILE, OTHER)
    come_back(stacked(depth=0).set_params(templates=None).fit(GRAPH), tmp_path / FILE, OTHER)


def test_a_fold_with_one_class_changes_nothing(tmp_path: Path):
    """A model of one class is a constant; what is kept is the model of all classes."""
    graph = GRAPH.with_labels(["ant"] * 20 + ["bee"] * 10)
    folds = np.repeat([0, 1, 1], 10)  # without fold 1 all are ants
    come_back(stacked(folds=folds, cross_fitting="paper").fit(graph), tmp_path / FILE, graph)


EVERY_KIND = [
    kf.Count("r"), kf.LogCount("r"), kf.Mean("r"), kf.Proportion("r | s"), kf.Exists("~r"), kf.Max("r @ s"),
    kf.Concat("r"), kf.Concat("s", slots=2, hard=True), kf.Mean("component(s)"), kf.Count("s", hard=True),
    kf.Mean("r", of="features"), kf.Count("s @ s", of="features"),
]  # fmt: skip


@pytest.mark.parametrize("thin", [False, True], ids=["dense", "sparse"])
def test_every_kind_of_template_comes_back(thin: bool, tmp_path: Path):
    graphs = [g.with_features(sparse.csr_array(g.features), "abc") if thin else g for g in (GRAPH, OTHER)]
    model = stacked(LogisticRegression(max_iter=2000), EVERY_KIND).fit(graphs[0])
    loaded = come_back(model, tmp_path / FILE, graphs[1])
    assert loaded.template_set_ == model.template_set_
    assert loaded.node_columns_ == (("a", "b", "c") if thin else 3)
    slots = [template.slots for template in loaded.templates if isinstance(template, kf.Concat)]
    assert slots == [int(np.diff(GRAPH.relations["r"].indptr).max()), 2]


def loudest(votes: Any, relations: Any) -> Any:
    return (relations["r"] @ votes).max(axis=1, keepdims=True)


def test_a_function_is_given_again(tmp_path: Path):
    model = stacked(templates=[loudest, kf.NeighbourFunction(lambda votes, r: r["s"] @ votes, "after"), kf.Mean("s")])
    model.fit(GRAPH)
    given = {"loudest": loudest, "after": lambda votes, relations: relations["s"] @ votes}
    come_back(model, tmp_path / FILE, OTHER, functions=given)
    with pytest.raises(ModelFileError, match=rf"{FILE}: .*'after'.*pass it in again"):
        kf.load_model(tmp_path / FILE, functions={"loudest": loudest})


@pytest.mark.parametrize("known", ["true", "crossfit", "ceiling"])
@pytest.mark.parametrize("own", [False, True])
def test_the_graph_trained_on_is_known_again(known: str, own: bool, tmp_path: Path):
    model = stacked(known=known, own=own, depth=2, folds=4).fit(PARTLY)
    loaded = come_back(model, tmp_path / FILE, PARTLY, OTHER)
    if known == "true":
        there, elsewhere = loaded.predict_proba(PARTLY), loaded.predict_proba(PARTLY, known="none")
        assert np.abs(there - elsewhere).max() > 1e-3, "neighbours with known labels make a difference"


@pytest.mark.parametrize(
    "changed",
    [
        {"features": False, "own": True},
        {"features": False, "templates": ["mean:r:features", "count:s"]},
        {"predictions": "label"},
        {"predictions": "sample", "samples": 3},
        {"cross_fitting": "paper"},
        {"cross_fitting": "none"},
        {"folds": np.arange(30) % 4},
        {"folds": np.int64(4), "random_state": np.int64(3)},
        {"random_state": None},
        {"split": "instance"},
    ],
    ids=repr,
)
def test_every_setting_comes_back(changed: dict[str, Any], tmp_path: Path):
    model = stacked(**changed).fit(GRAPH)
    loaded = come_back(model, tmp_path / FILE, OTHER, GRAPH)
    for name, value in changed.items():
        if name == "templates":
            value = list(model.template_set_.templates)
        elif name == "folds":
            value = 4  # given by instance: how many they are
        assert getattr(loaded, name) == value
    again = clone(loaded).fit(GRAPH)
    assert again.predict_proba(OTHER).shape == (30, 3)


def test_a_relational_and_an_empty_graph_may_be_asked(tmp_path: Path):
    model = stacked().fit(GRAPH.relational())
    loaded = come_back(model, tmp_path / FILE, OTHER.relational(), OTHER)
    assert loaded.predict_proba(kf.Graph(np.zeros((0, 3)), None, {"r": [], "s": []})).shape == (0, 3)


@pytest.mark.parametrize("mode", ["fast", "plain"])
def test_a_dependency_network_comes_back(mode: str, tmp_path: Path):
    templates = ["proportion:r", "exists:s", kf.Concat("r", slots=2), "mean:s:features"]
    model = network(mode=mode, templates=templates, chains=2, start="random").fit(PARTLY)
    loaded = come_back(model, tmp_path / FILE, PARTLY, OTHER)
    for one, two in zip(model.trace(OTHER, 3), loaded.trace(OTHER, 3), strict=True):
        np.testing.assert_array_equal(one, two)
    expected = {**model.get_params(deep=False), "templates": None, "base": None}
    assert {**loaded.get_params(deep=False), "templates": None, "base": None} == expected
    assert repr(loaded.base) == "LogisticRegression()" and list(loaded.templates) == list(model.template_set_.templates)
    again = clone(loaded).fit(PARTLY)
    np.testing.assert_array_equal(again.predict_proba(OTHER), model.predict_proba(OTHER))


def test_a_dependency_network_of_trees_comes_back(tmp_path: Path):
    forest = RandomForestClassifier(3, random_state=0, n_jobs=1)
    loaded = come_back(network(base=forest).fit(GRAPH), tmp_path / FILE, OTHER)
    assert repr(loaded.base) == repr(forest)


def test_a_loaded_model_may_be_saved_again(tmp_path: Path):
    for model in (stacked(known="true").fit(PARTLY), network().fit(PARTLY)):
        loaded = come_back(model, tmp_path / FILE, PARTLY)
        come_back(loaded, tmp_path / FILE, PARTLY)
        assert repr(kf.load_model(tmp_path / FILE, kind="nodes")) == repr(loaded)
        with pytest.raises(ModelFileError, match="expected a model of kind 'tokens'; this is of kind 'nodes'"):
            kf.load_model(tmp_path / FILE, kind="tokens")


# -- tokens


SOME = TRAIN.documents(0, 6)
PLAIN = {"templates": [lower[0], shape[0]], "n_jobs": 1, "tolerance": 1e-2}


def same_word(**changed: Any) -> Any:
    return kf.SameWord(**{"capitalised": False, "max_document_frequency": None, "most_recent": None, **changed})


def assert_same_tags(one: Any, other: Any, corpus: Any) -> None:
    assert one.predict(corpus) == other.predict(corpus)
    for a, b in zip(one.predict_proba(corpus), other.predict_proba(corpus), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.predict_entities(corpus) == other.predict_entities(corpus)
    assert one.predict(corpus, forced=True) == other.predict(corpus, forced=True)


TOKEN_MODELS: dict[str, dict[str, Any]] = {
    "CRF, default templates": {"base": kf.LinearChainCRF(**PLAIN), "templates": None},
    "MEMM, a window": {"base": kf.MEMM(**PLAIN), "templates": [kf.Window(2)]},
    "same word": {
        "base": kf.MaxEnt(**PLAIN),
        "templates": [kf.Mean(same_word()), kf.Max(kf.SameWord(max_document_frequency=3)), kf.Window(1)],
    },
    "two levels": {"base": kf.MEMM(**PLAIN), "templates": [kf.Window(1)], "depth": 2, "own": True},
    "a base a level": {"base": [kf.MaxEnt(**PLAIN), kf.LinearChainCRF(**PLAIN)], "templates": [kf.Window(1)]},
    "ceiling": {"base": kf.MaxEnt(**PLAIN), "templates": [kf.Window(1)], "known": "ceiling"},
    "labels": {"base": kf.MaxEnt(**PLAIN), "templates": [kf.Window(1)], "predictions": "label"},
    "alone": {"base": kf.MEMM(**PLAIN), "templates": [kf.Window(1)], "depth": 0},
}


@pytest.mark.parametrize("settings", TOKEN_MODELS.values(), ids=TOKEN_MODELS.keys())
def test_tokens_come_back(settings: dict[str, Any], tmp_path: Path):
    model = kf.StackedTagger(**{"depth": 1, "folds": 2, "cross_fitting": "paper", "n_jobs": 1, **settings}).fit(SOME)
    model.save(tmp_path / FILE)
    loaded = kf.load_model(tmp_path / FILE, kind="tokens")
    assert_same_tags(model, loaded, TEST)
    assert loaded.classes_.tolist() == model.classes_.tolist() and loaded.score(TEST) == model.score(TEST)
    bases = [one._bases() for one in (loaded, model)]
    assert list(map(type, bases[0])) == list(map(type, bases[1]))
    assert [base.tolerance for base in bases[0]] == [1e-2] * len(loaded.levels_)
    assert loaded.templates == list(model.template_set_.templates)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / FILE).read_bytes()


def test_tokens_of_dicts_come_back(tmp_path: Path):
    X = [[{"w": w, "n": float(len(w))} for w in sentence] for sentence in [*TINY, *TINY]]
    model = kf.StackedTagger(kf.MEMM(n_jobs=1), kf.Window(1), depth=1, folds=2, n_jobs=1).fit(
        X, [*TINY_LABELS, *TINY_LABELS]
    )
    model.save(tmp_path / FILE)
    loaded = kf.load_model(tmp_path / FILE)
    assert loaded.predict(X) == model.predict(X)
    for a, b in zip(loaded.predict_proba(X), model.predict_proba(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_rule_of_the_user_s_is_given_again(tmp_path: Path):
    def same_end(corpus: kf.Corpus) -> Any:
        words = corpus.columns["word"].strings()
        ends: dict[Any, int] = {}
        found = []
        for i, (word, document) in enumerate(zip(words, corpus.token_documents, strict=True)):
            key = (str(word)[-2:], document)
            if key in ends:
                found.append((i, ends[key]))
            ends[key] = i
        return np.array(found, np.int64).reshape(-1, 2)

    rule = kf.SkipFunction(same_end, "same end")
    model = kf.StackedTagger(kf.MaxEnt(**PLAIN), [kf.Count(rule)], depth=1, folds=2, n_jobs=1).fit(SOME)
    model.save(tmp_path / FILE)
    assert_same_tags(model, kf.load_model(tmp_path / FILE, functions={"same end": same_end}), TEST)
    with pytest.raises(ModelFileError, match=r"'same end'.*pass it in again"):
        kf.load_model(tmp_path / FILE)


@pytest.mark.filterwarnings("ignore:the weights of links")
def test_models_of_other_methods_still_come_back(tmp_path: Path):
    for model in (kf.LinkModel(n_jobs=1), kf.MixtureNodes(n_jobs=1, relations=["s"])):
        model.fit(GRAPH).save(tmp_path / FILE)
        loaded = kf.load_model(tmp_path / FILE)
        np.testing.assert_array_equal(loaded.predict_proba(OTHER), model.predict_proba(OTHER))
    crf = kf.LinearChainCRF(**PLAIN).fit(SOME)
    crf.save(tmp_path / FILE)
    assert kf.load_model(tmp_path / FILE).predict(TEST) == crf.predict(TEST)


# -- bases that skops does not know


class Nearest(ClassifierMixin, BaseEstimator):
    """The class whose mean is nearest."""

    def fit(self, X: Any, y: Any) -> Nearest:
        self.classes_ = np.unique(y)
        self.means_ = np.array([np.asarray(X)[y == c].mean(axis=0) for c in self.classes_])
        return self

    def predict_proba(self, X: Any) -> Any:
        table = np.exp(-((np.asarray(X)[:, None] - self.means_) ** 2).sum(axis=2)) + 1e-9
        return table / table.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def root(X: Any) -> Any:
    return np.sqrt(np.abs(X))


def test_a_class_of_one_s_own_has_to_be_trusted(tmp_path: Path):
    model = stacked(Nearest()).fit(GRAPH)
    model.save(tmp_path / FILE)
    name = f"{Nearest.__module__}.Nearest"
    with pytest.raises(ModelFileError) as refused:
        kf.load_model(tmp_path / FILE)
    told = str(refused.value)
    assert FILE in told and f"not known to be safe: {name}. If you trust the file" in told
    assert f"load_model(path, trusted=['{name}'])" in told
    with pytest.raises(ModelFileError, match=name):
        kf.load_model(tmp_path / FILE, trusted=["sklearn.linear_model._logistic.LogisticRegression", "Nearest"])
    loaded = come_back(model, tmp_path / FILE, OTHER, trusted=[name])
    assert isinstance(loaded.base, Nearest)


def test_every_type_that_is_not_trusted_is_named(tmp_path: Path):
    base = make_pipeline(FunctionTransformer(root), Nearest())
    network(base=base).fit(GRAPH).save(tmp_path / FILE)
    names = [f"{root.__module__}.{name}" for name in ("Nearest", "root")]
    for trusted, missing in (((), names), (names[:1], names[1:]), (names[1:], names[:1])):
        with pytest.raises(ModelFileError, match=rf"safe: {', '.join(missing)}\. If"):
            kf.load_model(tmp_path / FILE, trusted=trusted)
    assert kf.load_model(tmp_path / FILE, trusted=names).predict_proba(OTHER).shape == (30, 3)


def test_what_cannot_be_found_again_is_told(tmp_path: Path):
    class Here(Nearest):
        pass

    stacked(Here()).fit(GRAPH).save(tmp_path / FILE)
    with pytest.raises(ModelFileError, match=rf"{FILE}: .*Here"):
        kf.load_model(tmp_path / FILE, trusted=[f"{__name__}.Here"])


def test_what_skops_cannot_write_is_told(tmp_path: Path):
    class Counting(Nearest):
        def fit(self, X: Any, y: Any) -> Counting:
            self.numbers_ = (number for number in range(9))
            return super().fit(X, y)  # type: ignore[return-value]

    model = stacked(Counting()).fit(GRAPH)
    with pytest.raises(ModelFileError, match=r"Counting cannot be written by skops .*build the base of scikit-learn's"):
        model.save(tmp_path / FILE)
    assert list(tmp_path.iterdir()) == []


# -- files that are forged


def save_changed(saved: Path, path: Path, change: Change) -> None:
    """A file with all its checksums in order, and other content."""
    file = read_model_file(saved)
    change(file.header, file.arrays, file.strings)
    write_model_file(path, file.header, file.arrays, file.strings)


def forged(packed: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """A skops part with another schema."""
    with zipfile.ZipFile(io.BytesIO(packed.tobytes())) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(parts["schema.json"])
    schema = change(schema) or schema
    parts["schema.json"] = json.dumps(schema).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return np.frombuffer(out.getvalue(), np.uint8)


def json_node(value: Any) -> dict[str, Any]:
    return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(value),
            "is_json": True, "__id__": 1}  # fmt: skip


def node(module: str, name: str, loader: str, **more: Any) -> dict[str, Any]:
    return {"__class__": name, "__module__": module, "__loader__": loader, "__id__": 2, **more}


def tuple_node(*values: Any) -> dict[str, Any]:
    return node("builtins", "tuple", "TupleNode", content=[json_node(value) for value in values])


NO_DICT = node("builtins", "dict", "DictNode", content={}, key_types=node("builtins", "list", "ListNode", content=[]))


def evil_nodes(marker: Path) -> dict[str, dict[str, Any]]:
    command = f"touch {marker}"
    code = f"open({str(marker)!r}, 'w').close()"
    return {
        "posix.system": node("posix", "system", "ConstructorFromReduceNode", content=tuple_node(command)),
        "os.system": node("os", "system", "ObjectNode", content=json_node({})),
        "builtins.eval": node("builtins", "eval", "ConstructorFromReduceNode", content=tuple_node(code)),
        "builtins.exec": node("builtins", "exec", "FunctionNode"),
        "subprocess.Popen": node(
            "subprocess", "Popen", "ConstructorFromReduceNode", content=tuple_node(["touch", str(marker)])
        ),
        "importlib.import_module": node("importlib", "import_module", "TypeNode"),
        "functools.partial": node(
            "functools", "partial", "PartialNode",
            content={"func": node("os", "system", "FunctionNode"), "args": tuple_node(command), "kwds": NO_DICT,
                     "namespace": NO_DICT},
        ),
        "operator.methodcaller": node("operator", "methodcaller", "OperatorFuncNode", attrs=tuple_node("fit")),
        "marks_on_import.Base": node("marks_on_import", "Base", "ObjectNode", content=NO_DICT),
    }  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stacked") / FILE
    stacked(templates=["count:r", kf.Concat("r", slots=2)], known="true").fit(PARTLY).save(path)
    return path


@pytest.fixture(scope="module")
def saved_network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / FILE
    network(templates=["proportion:r", "exists:s"]).fit(PARTLY).save(path)
    return path


@pytest.mark.parametrize("where", ["whole", "solver", "coef_", "key"])
@pytest.mark.parametrize("what", evil_nodes(Path("x")))
def test_a_forged_base_is_refused_and_nothing_of_it_runs(
    what: str, where: str, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    marker = tmp_path / "it-ran"
    (tmp_path / "marks_on_import.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Base: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    evil = evil_nodes(marker)[what]

    def change(schema: dict[str, Any]) -> Any:
        if where == "whole":
            return {**evil, "protocol": schema["protocol"], "_skops_version": schema["_skops_version"]}
        if where == "key":
            schema["content"]["key_types"]["content"][0] = evil
        else:
            schema["content"]["content"][where] = evil
        return schema

    path = tmp_path / FILE
    save_changed(saved, path, lambda h, a, s: a.update({"level.1.skops": forged(a["level.1.skops"], change)}))
    with pytest.raises(ModelFileError, match=rf"{FILE}: the base holds types that are not known to be safe: .*{what}"):
        kf.load_model(path)
    with pytest.raises(ModelFileError, match=FILE):
        kf.load_model(path, trusted=["sklearn.linear_model._logistic.LogisticRegression", "builtins.list"])
    assert not marker.exists() and "marks_on_import" not in sys.modules


class Marks:
    """A pickle of it touches a file when it is opened."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


def test_no_pickle_is_opened(saved: Path, tmp_path: Path):
    marker = tmp_path / "it-ran"
    objects = np.empty(1, object)
    objects[0] = Marks(marker)
    stream = io.BytesIO()
    np.save(stream, objects, allow_pickle=True)

    def in_an_array(packed: Any) -> Any:
        with zipfile.ZipFile(io.BytesIO(packed.tobytes())) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, stream.getvalue() if name.endswith(".npy") else content)
        return np.frombuffer(out.getvalue(), np.uint8)

    for change in (in_an_array, lambda packed: np.frombuffer(pickle.dumps(Marks(marker)), np.uint8)):
        path = tmp_path / FILE
        save_changed(saved, path, lambda h, a, s, c=change: a.update({"level.0.skops": c(a["level.0.skops"])}))
        with pytest.raises(ModelFileError, match=FILE):
            kf.load_model(path)
    assert not marker.exists()


def test_a_file_with_one_bit_changed_is_refused(saved: Path, tmp_path: Path):
    whole = bytearray(saved.read_bytes())
    for at in np.random.default_rng(0).integers(0, len(whole), 40).tolist():
        changed = whole.copy()
        changed[at] ^= 1
        (tmp_path / FILE).write_bytes(changed)
        with pytest.raises(ModelFileError, match=FILE):
            kf.load_model(tmp_path / FILE)


def put(name: str, make: Callable[[Any], Any]) -> Change:
    return lambda h, a, s: a.update({name: make(a[name])})


def template(**spec: Any) -> Change:
    return lambda h, a, s: h["stacked"]["templates"].append(
        {"template": "Count", "relation": "s", "of": "predictions", "hard": False, **spec}
    )


NOT_A_BASE = lambda schema: {**json_node("hello"), "protocol": schema["protocol"], "_skops_version": "0"}  # noqa: E731
BROKEN: dict[str, Change] = {
    "no skops part is empty": put("level.1.skops", lambda a: a[:0]),
    "a skops part cut short": put("level.1.skops", lambda a: a[: len(a) // 2]),
    "a skops part that is none": put("level.1.skops", lambda a: np.arange(100, dtype=np.uint8)),
    "a skops part of numbers": put("level.1.skops", lambda a: np.linspace(0, 1, 9)),
    "a base that is a word": put("level.1.skops", lambda a: forged(a, NOT_A_BASE)),
    "no schema": put("level.1.skops", lambda a: forged(a, lambda schema: {"protocol": 2})),
    "no columns": lambda h, a, s: a.pop("level.0.columns"),
    "columns of other classes": put("level.0.columns", lambda a: a + 1),
    "columns below 0": put("level.0.columns", lambda a: a - 1),
    "no level": lambda h, a, s: h["stacked"].update(levels=0),
    "a level more": lambda h, a, s: h["stacked"].update(levels=3),
    "no memory": lambda h, a, s: a.pop("memory.nodes"),
    "no ids": lambda h, a, s: s.pop("memory.ids"),
    "an id twice": lambda h, a, s: s.update({"memory.ids": [s["memory.ids"][0]] * len(s["memory.ids"])}),
    "fewer ids than nodes": lambda h, a, s: s["memory.ids"].pop(),
    "looks of fewer nodes": put("memory.looks", lambda a: a[1:]),
    "votes of more levels": lambda h, a, s: h["memory"].update(votes=9),
    "no templates": lambda h, a, s: h["stacked"].pop("templates"),
    "templates that are none": lambda h, a, s: h["stacked"].update(templates=[1]),
    "a template of the future": template(template="Median"),
    "a relation that cannot be read": template(relation="r @"),
    "slots below 1": template(template="Concat", slots=0),
    "features that cannot be": template(template="Max", of="features"),
    "a window over nodes in words": template(template="Window", size="3"),
    "no stacked part": lambda h, a, s: h.pop("stacked"),
    "unused relations that are none": lambda h, a, s: h["stacked"].update(unused=None),
    "an unknown setting": lambda h, a, s: h["settings"].update(sweeps=3),
    "another method": lambda h, a, s: h.update(method="LinkModel"),
    "another kind": lambda h, a, s: h.update(kind="tokens"),
    "a kind of the future": lambda h, a, s: h.update(kind="mentions"),
}  # fmt: skip


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN.keys())
def test_parts_that_do_not_fit_are_refused(change: Change, saved: Path, tmp_path: Path):
    save_changed(saved, tmp_path / FILE, change)
    with pytest.raises(ModelFileError, match=FILE):
        kf.load_model(tmp_path / FILE)


UNSOUND: dict[str, Change] = {
    "votes of fewer classes": lambda h, a, s: h["stacked"].update(votes=1),
    "votes of more classes": lambda h, a, s: h["stacked"].update(votes=7),
    "a template more": template(),
    "slots without end": template(template="Concat", slots=10**10),
    "a base of other columns": lambda h, a, s: a.update({"level.1.skops": a["level.0.skops"]}),
    "fewer columns": put("level.1.columns", lambda a: a[:2]),
    "a class twice": put("level.1.columns", lambda a: np.zeros_like(a)),
    "no base for several classes": lambda h, a, s: a.pop("level.1.skops"),
    "nodes below 0": put("memory.nodes", lambda a: a - 100),
    "labels of other classes": put("memory.labels", lambda a: a + 3),
    "fewer labels than nodes": put("memory.labels", lambda a: a[1:]),
}  # fmt: skip


@pytest.mark.parametrize("which", ["saved", "saved_network"])
@pytest.mark.parametrize("change", UNSOUND.values(), ids=UNSOUND.keys())
def test_parts_that_would_lead_astray_are_refused(
    change: Change, which: str, request: pytest.FixtureRequest, tmp_path: Path
):
    """Not asked anything: kernels that follow such numbers would read and write memory not their own."""
    save_changed(request.getfixturevalue(which), tmp_path / FILE, change)
    with pytest.raises(ModelFileError, match=FILE):
        kf.load_model(tmp_path / FILE)


def test_levels_of_tokens_that_do_not_fit_are_refused(tmp_path: Path):
    kf.StackedTagger(kf.MEMM(**PLAIN), [kf.Window(1)], depth=1, folds=2, n_jobs=1).fit(SOME).save(tmp_path / FILE)
    changes: list[Change] = [
        lambda h, a, s: h["stacked"]["levels"][1].update(extra=0),
        lambda h, a, s: h["stacked"]["levels"][0].update(method="StackedNodes"),
        lambda h, a, s: h["stacked"]["levels"][0].pop("labels"),
        lambda h, a, s: h["stacked"].update(levels=[]),
        put("level.1.weights.node", lambda a: a[:-1]),
        put("level.0.weights.pair", lambda a: a[:-1]),
        lambda h, a, s: a.pop("level.0.weights.node"),
        lambda h, a, s: h["stacked"]["templates"].__setitem__(0, {"template": "Window", "size": 0}),
    ]  # fmt: skip
    for number, change in enumerate(changes):
        save_changed(tmp_path / FILE, tmp_path / f"changed{number}", change)
        with pytest.raises(ModelFileError, match=f"changed{number}"):
            kf.load_model(tmp_path / f"changed{number}")
