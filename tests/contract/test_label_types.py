"""Labels come back in the type they went in: through fit, predict, probabilities, scores and files."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import LabelEncoder

import kinfolk as kf
from kinfolk.core.data import label_name
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.errors import InputError, ModelFileError
from small_world import QUICK, TAGGERS

LABELLERS: dict[str, Callable[[], Any]] = {
    "MixtureNodes": lambda: kf.MixtureNodes(orders=2, predict_orders=2, **QUICK),
    "LinkModel": lambda: kf.LinkModel(training="pseudo", n_jobs=1),
    "StackedNodes": lambda: kf.StackedNodes(effort="fast", n_jobs=1),
    "levels": lambda: kf.StackedNodes(LogisticRegression(C=100), depth=1, folds=3, n_jobs=1),
    "DependencyNetwork": lambda: kf.DependencyNetwork(LogisticRegression(C=100), sweeps=5, burn_in=2, n_jobs=1),
}
LABELS: dict[str, list[Any]] = {
    "strings": ["b", "a", "10"],
    "whole numbers": [10, 2, -1],
    "numpy's": [np.int32(10), np.int32(2), np.int32(3)],
    "truth values": [True, False],
    "whole fractions": [2.0, 1.0, 10.0],
    "fractions": [0.5, 2.0, -0.25],
}
PLAIN = {"strings": str, "whole numbers": int, "numpy's": int, "truth values": bool}
EVERY_TYPE = pytest.mark.parametrize("name", LABELS)
WORDS = [[0, 1, 2, 0], [1], [2, 1], [0, 2, 1]] * 2  # each word has its own label


def sentences(labels: list[Any]) -> tuple[list[list[dict[str, str]]], list[list[Any]]]:
    X = [[{"w": "uvw"[i % len(labels)]} for i in row] for row in WORDS]
    return X, [[labels[i % len(labels)] for i in row] for row in WORDS]


def graph_of(labels: list[Any]) -> tuple[kf.Graph, list[Any]]:
    kinds = np.arange(24) % len(labels)
    y = [labels[i] for i in kinds]
    links = [(i, (i + len(labels)) % 24) for i in range(24)]
    graph = kf.Graph(
        3.0 * np.eye(3)[kinds], y, {"near": links}, classes=_in_order(labels), feature_names=["u", "v", "w"]
    )
    return graph, y


def _in_order(labels: list[Any]) -> list[Any]:
    return labels if isinstance(labels[0], Enum) else sorted(labels)


def saved(model: Any, folder: Path) -> Any:
    model.save(folder / "model.kinfolk")
    return kf.load_model(folder / "model.kinfolk")


def same_classes(model: Any, y: Any) -> bool:
    expected = LabelEncoder().fit(y).classes_
    return model.classes_.tolist() == expected.tolist() and (
        model.classes_.dtype.kind == ("O" if expected.dtype.kind == "U" else expected.dtype.kind)
    )


# -- tokens -------------------------------------------------------------------------------------------


@EVERY_TYPE
@pytest.mark.parametrize("new", TAGGERS.values(), ids=TAGGERS)
def test_tokens_are_labelled_in_the_type_they_were_trained_in(new: Any, name: str, tmp_path: Path):
    X, y = sentences(LABELS[name])
    model = new().fit(X, y)
    for one in (model, saved(model, tmp_path)):
        assert one.predict(X) == y and one.score(X, y) == 1 and one.evaluate(X, y)[1] == 100
        assert {type(label) for row in one.predict(X) for label in row} == {PLAIN.get(name, float)}
        assert same_classes(one, [label for row in y for label in row])
        best = [one.classes_[table.argmax(axis=1)].tolist() for table in one.predict_proba(X)]
        assert best == y


def test_forced_labels_and_lists_of_the_best_keep_the_type():
    X, y = sentences([10, 2, 3])
    crf = kf.LinearChainCRF(**QUICK).fit(X, y)
    assert [labels for labels, _ in crf.predict_k_best(X, 1)[0]] == y[:1]
    words = kf.Corpus.from_sentences([["u", "v"]] * 3, [[10, 2]] * 3)
    crf.fit(words)
    given = kf.Corpus.from_sentences([["v", "v"]], [[10, None]])
    assert crf.predict(given, forced=True) == [[10, 2]]
    assert crf.explain(words, document=0, token=0).label == 10
    assert crf.explain(words, document=0)[1].classes == (2, 10)


@pytest.mark.parametrize("keys", [{10: 5.0}, {np.int64(10): 5.0}, {10.0: 5.0}])
def test_classes_are_weighed_by_label(keys: dict[Any, float], tmp_path: Path):
    X, y = sentences([10, 2, 3])
    one, other = (kf.MaxEnt(class_weight=weight, **QUICK).fit(X, y) for weight in (keys, None))
    assert (one.predict_proba(X)[0] != other.predict_proba(X)[0]).any()
    again = saved(one, tmp_path)
    assert again.class_weight == {10: 5.0} and again.fit(X, y).predict(X) == y
    with pytest.raises(kf.KinfolkError, match="class_weight names 7, which is no label or type; there are 2, 3, 10"):
        kf.MaxEnt(class_weight={7: 1.0}).fit(X, y)


def test_labels_read_from_a_file_are_strings_and_are_still_known(tmp_path: Path):
    """A model of numbers is scored on a file, where the same labels are written down."""
    corpus = kf.Corpus.from_sentences([["u", "v", "w"]] * 4, [[10, 2, 3]] * 4)
    crf = kf.LinearChainCRF(**QUICK).fit(corpus)
    kf.write_conll(corpus, tmp_path / "test.conll", labels=crf.predict(corpus))
    read = kf.read_conll(tmp_path / "test.conll", columns=["word", "gold", "label"])
    assert read.label_rows()[0] == ["10", "2", "3"] and crf.score(read) == 1


def test_labels_of_two_types_are_refused_in_lists():
    with pytest.raises(InputError, match=r"labels must be of one type; got int \(1\) and str \('1'\)"):
        kf.MaxEnt().fit([[{"a": 1}, {"b": 1}]], [[1, "1"]])


def test_arrays_of_labels_are_taken():
    X, y = sentences([1, 2, 3])
    arrays = [np.array(row) for row in y]
    assert kf.MaxEnt(**QUICK).fit(X, arrays).predict(X) == y


def test_unknown_labels_stay_unknown():
    X, y = sentences([1, 2, 3])
    gaps = [[float("nan"), *row[1:]] if len(row) > 1 else row for row in y]
    model = kf.MaxEnt(**QUICK).fit(X, gaps)
    assert model.classes_.tolist() == [1, 2, 3] and model.score(X, gaps) == 1


def changed(file: Path, change: Callable[[dict[str, Any]], Any]) -> Any:
    """The model in a file, with another header."""
    parts = read_model_file(file)
    change(parts.header)
    write_model_file(file, parts.header, dict(parts.arrays), dict(parts.strings))
    return kf.load_model(file)


def test_a_model_file_without_a_type_has_strings(tmp_path: Path):
    """As files had before labels kept their type."""
    X, y = sentences([1, 2, 3])
    saved(kf.MaxEnt(**QUICK).fit(X, y), tmp_path)
    old = changed(tmp_path / "model.kinfolk", lambda header: header["labels"].pop("type"))
    assert old.predict(X) == [[str(label) for label in row] for row in y] and old.score(X, y) == 1


@pytest.mark.parametrize(("given", "message"), [
    ({"type": "complex"}, "labels of type 'complex' are not known; expected str, int, float, bool: upgrade kinfolk"),
    ({"type": "bool"}, "do not fit together"),
    ({"classes": ["1", "2", "three"]}, "do not fit together"),
    ({"classes": ["1", "2", "03"]}, "not of the type that the file says"),
])  # fmt: skip
def test_a_model_file_whose_labels_are_not_of_their_type(given: dict[str, Any], message: str, tmp_path: Path):
    saved(kf.MaxEnt(**QUICK).fit(*sentences([1, 2, 3])), tmp_path)
    with pytest.raises(ModelFileError, match=message):
        changed(tmp_path / "model.kinfolk", lambda header: header["labels"].update(given))


# -- members of an Enum -------------------------------------------------------------------------------


class Tag(Enum):
    FIRST, INNER, OUTSIDE = "B-PER", "I-PER", "O"


class Shade(str, Enum):  # noqa: UP042 (as people have them)
    DARK, LIGHT, RED = "dark", "light", "red"


class Number(IntEnum):
    TEN, TWO, ONE = 10, 2, 1


class Odd(Enum):
    PAIR, WORD, NUMBER = (1, 2), "w", 3


# Enum -> what its members are in a file: values where all of them are labels, else names
IN_FILES: dict[type[Enum], list[Any]] = {
    Tag: ["B-PER", "I-PER", "O"], Shade: ["dark", "light", "red"], Number: [1, 2, 10], Odd: ["NUMBER", "PAIR", "WORD"],
}  # fmt: skip
EVERY_ENUM = pytest.mark.parametrize("enum", IN_FILES, ids=lambda enum: enum.__name__)


def enum_sentences(enum: Any) -> tuple[list[list[dict[str, str]]], list[list[Any]]]:
    labels = list(enum)
    X = [[{"w": "uvw"[i]} for i in (0, 1, 2)], [{"w": "w"}, {"w": "u"}, {"w": "v"}], [{"w": "u"}]] * 2
    return X, [[labels["uvw".index(item["w"])] for item in row] for row in X]


@EVERY_ENUM
@pytest.mark.parametrize("new", TAGGERS.values(), ids=TAGGERS)
def test_members_of_an_enum_come_back_as_members(new: Any, enum: Any, tmp_path: Path):
    X, y = enum_sentences(enum)
    model = new().fit(X, y)
    for one in (model, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        found = one.predict(X)
        assert found == y and all(type(label) is enum for row in found for label in row) and one.score(X, y) == 1
        assert [*map(label_name, one.classes_)] == [*map(str, IN_FILES[enum])] and {*one.classes_} == {*enum}
        best = [one.classes_[table.argmax(axis=1)].tolist() for table in one.predict_proba(X)]
        assert best == y
    again = saved(model, tmp_path)
    plain = dict(zip((label_name(member) for member in model.classes_), IN_FILES[enum], strict=True))
    assert again.predict(X) == [[plain[label_name(label)] for label in row] for row in y], "a file keeps no class"
    assert again.classes_.tolist() == IN_FILES[enum] and again.score(X, y) == 1


def test_enums_of_tags_go_through_other_schemes():
    """Trained in another encoding, with a letter that the Enum lacks, and in a Corpus."""
    X, y = enum_sentences(Tag)
    assert kf.LinearChainCRF(encoding="IOBES", **QUICK).fit(X, y).predict(X) == y
    corpus = kf.Corpus.from_sentences([["Kim", "Lee", "left"]] * 3, [list(Tag)] * 3)
    assert corpus.scheme == "BIO" and corpus.label_rows()[0] == list(Tag)
    assert kf.Corpus.joined([corpus, corpus]).label_rows()[5] == list(Tag) == corpus[[1]].label_rows()[0]
    crf = kf.LinearChainCRF(**QUICK).fit(corpus)
    assert crf.predict(corpus) == [list(Tag)] * 3 and crf.explain(corpus, document=0, token=1).label is Tag.INNER
    assert kf.entity_scores(corpus, crf.predict(corpus)).f1 == 100
    short = Enum("Short", {"B": "B-PER", "O": "O"})
    model = kf.LinearChainCRF(**QUICK).fit([["Kim", "left"]] * 3, [[short.B, short.O]] * 3)
    assert model.predict([["Kim", "left"]]) == [[short.B, short.O]]
    assert model.classes_.tolist() == [short.B, "I-PER", short.O], "the scheme has a tag that the Enum lacks"


def test_members_are_weighed_named_and_scored_beside_their_values():
    X, y = enum_sentences(Shade)
    crf = kf.LinearChainCRF(class_weight={Shade.DARK: 2.0}, **QUICK).fit(X, y)
    assert (Shade.DARK, Shade.LIGHT) in crf.transition_features_
    assert crf.score(X, [[label.value for label in row] for row in y]) == 1
    mixed = kf.MaxEnt(**QUICK).fit(X, [[label.value if t else label for t, label in enumerate(row)] for row in y])
    assert {type(label) for row in mixed.predict(X) for label in row} == {str}, "a member that is a string is a string"
    with pytest.raises(InputError, match=r"labels must be of one type; got str .* and Odd"):
        kf.MaxEnt().fit(X, [[Odd.WORD if t else "w" for t in range(len(row))] for row in X])


def test_tables_hold_what_files_hold():
    crf = kf.LinearChainCRF(**QUICK).fit([["Kim", "left"]] * 3, [[Shade.DARK, Shade.RED]] * 3)
    table = pd.DataFrame({"word": ["Kim", "left"], "sentence": [0, 0], "document": ["a", "a"]})
    found = crf.tag(table)["label"].tolist()
    assert found == ["dark", "red"] and {*map(type, found)} == {str}


@EVERY_ENUM
def test_nodes_are_labelled_by_members(enum: Any):
    graph, y = graph_of(list(enum))
    for name in ("LinkModel", "levels"):
        model = LABELLERS[name]().fit(graph)
        found = model.predict(graph)
        assert found.tolist() == y and all(type(label) is enum for label in found) and model.score(graph) == 1
        assert model.explain(graph, node=3).label is y[3]


# -- nodes --------------------------------------------------------------------------------------------


@EVERY_TYPE
@pytest.mark.parametrize("new", LABELLERS.values(), ids=LABELLERS)
def test_nodes_are_labelled_in_the_type_they_were_trained_in(new: Any, name: str, tmp_path: Path):
    graph, y = graph_of(LABELS[name])
    model = new().fit(graph)
    for one in (model, saved(model, tmp_path)):
        assert (np.asarray(one.predict(graph)) == y).mean() == one.score(graph) == 1
        assert same_classes(one, y) and one.predict(graph).dtype == one.classes_.dtype
        assert (one.classes_[one.predict_proba(graph).argmax(axis=1)] == y).all()
        why = one.explain(graph, node=3)
        assert why.label == y[3] and type(why.label) is PLAIN.get(name, float)
        assert list(why.classes) == one.classes_.tolist() and str(why)


@pytest.mark.parametrize("new", LABELLERS.values(), ids=LABELLERS)
def test_known_labels_of_nodes_are_kept(new: Any):
    graph, y = graph_of([10, 2, 3])
    model = new().fit(graph)
    partly = graph.with_labels([label if i % 2 else None for i, label in enumerate(y)])
    other = kf.Graph(graph.features, [10] * 24, dict(graph.relations), feature_names=graph.feature_names)
    assert model.predict(partly, forced=True).tolist() == y and (model.predict(other, forced=True) == 10).all()


def test_classes_of_a_relational_are_labels():
    """Its labels are numbers of classes; answers are the classes themselves."""
    graph, y = graph_of([10, 2, 3])
    data = graph.relational()
    same = kf.Relational(data.features, data.labels, [2, 3, 10], dict(data.relations), data.groups)
    assert kf.LinkModel(training="pseudo", n_jobs=1).fit(same).predict(same).tolist() == y


@pytest.mark.parametrize("column", [
    pd.Series([10, 2] * 6), pd.Series([10, 2, None] * 4, dtype="Int64"), pd.Series([10.0, 2.0, None] * 4),
    pd.Series(pd.Categorical([10, 2, None] * 4)), pd.Series([True, False] * 6), pd.Series([0.5, 1.0] * 6),
    pd.Series([True, False, None] * 4, dtype="boolean"), pd.Series(["10", "2", None] * 4),
    pd.Series([1, None] * 6, dtype=object),
], ids=lambda column: f"{column.dtype}, {column.iloc[0]}")  # fmt: skip
def test_columns_of_tables_keep_their_type(column: pd.Series):
    nodes = pd.DataFrame({"id": range(12), "y": column, "x": np.arange(12) % 3 == 0, "z": np.arange(12) % 2 == 0})
    edges = pd.DataFrame({"source": range(11), "target": range(1, 12)})
    known = column.notna().to_numpy()
    buffer = io.BytesIO()
    nodes.to_parquet(buffer)
    buffer.seek(0)
    for graph in (kf.Graph.from_frames(nodes, edges, label="y"), kf.read_tables(buffer, _csv(edges), label="y")):
        wanted = [None if gap else label for label, gap in zip(column.astype(object), ~known, strict=True)]
        assert graph.labels == wanted
        if len(graph.classes) > 1:
            model = kf.LinkModel(l2=1e-4, n_jobs=1, training="piecewise").fit(graph)
            found = model.predict(graph)
            assert (found[known] == column[known].to_numpy(object)).mean() == model.score(graph)
            assert {type(one) for one in found.tolist()} == {type(graph.labels[0])}


def _csv(frame: pd.DataFrame) -> io.BytesIO:
    return io.BytesIO(frame.to_csv(index=False).encode())


def test_the_same_labels_from_csv_are_strings():
    nodes = pd.DataFrame({"id": range(4), "y": [10, 2, 10, 2], "x": [1.0, 0, 1, 0]})
    edges = pd.DataFrame({"source": [0], "target": [1]})
    typed, written = kf.Graph.from_frames(nodes, edges, label="y"), kf.read_tables(_csv(nodes), _csv(edges), label="y")
    assert typed.labels == [10, 2, 10, 2] and written.labels == ["10", "2", "10", "2"]
    model = kf.LinkModel(l2=1e-4, n_jobs=1).fit(typed)
    assert model.score(written) == model.score(typed) == 1, "labels are known by their names"


def test_a_column_of_two_types_is_refused():
    nodes = pd.DataFrame({"id": range(2), "y": pd.Series([1, "1"], dtype=object)})
    for column in (nodes["y"], pd.Categorical([1, "1"])):
        with pytest.raises(InputError, match=r"column 'y' \(label\): labels must be of one type, got .*; turn"):
            kf.Graph.from_frames(nodes.assign(y=column), pd.DataFrame({"source": [0], "target": [1]}), label="y")


def test_weights_of_classes_in_a_base_go_by_label():
    graph, _ = graph_of([1, 2, 3])
    by_label = LogisticRegression(class_weight={1: 1.0, 2: 1.0, 3: 50.0})
    model = kf.StackedNodes(by_label, depth=1, folds=3, n_jobs=1).fit(graph)
    assert model.levels_[0].estimator.class_weight == {0: 1.0, 1: 1.0, 2: 50.0}


@given(
    st.one_of(
        st.lists(st.integers(), min_size=2, max_size=4, unique=True),
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=4, unique=True),
        st.lists(st.text(st.characters(codec="utf-8"), max_size=4), min_size=2, max_size=4, unique=True),
        st.just([False, True]),
    )
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_labels_go_through_fit_predict_and_files(tmp_path: Path, labels: list[Any]):
    X = [[{f"w{i}": 1} for i in range(len(labels))]] * 3
    y = [list(labels)] * 3
    graph = kf.Graph(5.0 * np.eye(len(labels)), labels, {"r": []}, classes=sorted(labels))
    for new, data in ((kf.MaxEnt(**QUICK), (X, y)), (kf.LinkModel(**QUICK), (graph,))):
        model = new.fit(*data)
        model.save(tmp_path / "model.kinfolk")
        for one in (model, kf.load_model(tmp_path / "model.kinfolk")):
            found = one.predict(data[0])
            assert (found == y) if len(data) == 2 else (found.tolist() == labels)
            assert one.classes_.tolist() == sorted(labels) and one.score(*data) == 1
