"""Labels of every type: their names, their order, their type, and mixtures that are refused."""

from __future__ import annotations

import copy
import enum
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import LabelEncoder

from kinfolk import Column, Corpus, Graph, Relational, Vocabulary
from kinfolk.core.data import Classes, label_name, label_type
from kinfolk.errors import InputError

LABELS = st.one_of(
    st.lists(st.text(max_size=4)),
    st.lists(st.integers()),
    st.lists(st.booleans()),
    st.lists(st.floats(allow_nan=False)),
    st.lists(st.integers(-(2**31), 2**31 - 1).map(np.int32)),
    st.lists(st.floats(width=32, allow_nan=False).map(np.float32)),
    st.lists(st.booleans().map(np.bool_)),
    st.lists(st.text(max_size=4).map(np.str_)),
)


@given(LABELS, st.randoms(use_true_random=False))
def test_labels_come_back_as_they_went_in(labels: list[Any], random: Any):
    given = [None if random.random() < 0.2 else label for label in labels]
    column = Column.from_labels(given)
    assert column.labels() == given
    plain = {type(label) for label in column.labels() if label is not None}
    assert plain <= {{"str": str, "int": int, "float": float, "bool": bool}[column.type]}
    again = pickle.loads(pickle.dumps(column))
    assert again.labels() == given and again.type == column.type
    assert Column.joined([column.slice(0, 1), column]).labels() == given[:1] + given


@given(LABELS.filter(len))
def test_classes_are_sorted_as_scikit_learn_sorts_them(labels: list[Any]):
    classes = Classes.sorted({label_name(label) for label in labels}, label_type(labels))
    known = sorted(set(labels))
    assert list(classes) == known and [classes[i] for i in range(len(classes))] == known
    assert [classes.get(label) for label in known] == list(range(len(known)))
    array = classes.array()
    assert array.tolist() == known and array.ndim == 1
    if array.dtype != object:
        assert (array == LabelEncoder().fit(labels).classes_).all()
    assert copy.deepcopy(classes) == classes == pickle.loads(pickle.dumps(classes))


@pytest.mark.parametrize(("labels", "dtype"), [
    (["b", "a"], object), ([2, 10], np.int64), ([True, False], np.bool_), ([1.0, 2.0], np.float64),
    ([1, 2.5], np.float64), ([2**70, -1], object), ([], object),
])  # fmt: skip
def test_arrays_of_classes_have_the_type_of_the_labels(labels: list[Any], dtype: Any):
    assert Classes.of(labels).array().dtype == dtype and Classes.of(labels).array().tolist() == labels


def test_a_number_has_one_name():
    assert {label_name(one) for one in (1, 1.0, np.int8(1), np.float32(1))} == {"1"}
    assert [label_name(one) for one in (0.5, -3.0, True, np.bool_(False), 1e300)] == [
        "0.5", "-3", "True", "False", "1e+300",
    ]  # fmt: skip
    assert Classes.of(["1"]) == Vocabulary(["1"]) != Classes.of([1]) and Classes.of([1]) != Classes.of([1.0])


def test_members_of_an_enum_of_strings_are_strings():
    colour = enum.Enum("colour", {"RED": "red", "BLUE": "blue"}, type=str)
    column = Column.from_labels([colour.RED, colour.BLUE])
    assert column.values == ("red", "blue") and column.labels() == [colour.RED, colour.BLUE]


@pytest.mark.parametrize("gap", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT])
@pytest.mark.parametrize("label", ["a", 1, 1.5, True])
def test_what_is_missing_is_unknown(gap: Any, label: Any):
    assert Column.from_labels([gap, label, gap]).labels() == [None, label, None]
    assert Graph(np.eye(3), [gap, label, gap]).labels == [None, label, None]


MIXED = {
    "a number and a string": ([1, "1"], r"labels must be of one type; got int \(1\) and str \('1'\)"),
    "truth values and numbers": ([True, 1], r"got bool \(True\) and int \(1\): turn them all into one, such as"),
    "a list": (["a", ["b"]], r"labels must be strings, numbers or truth values, .* got \['b'\], a list"),
}


@pytest.mark.parametrize(("labels", "message"), MIXED.values(), ids=list(MIXED))
def test_labels_of_several_types_are_refused(labels: list[Any], message: str):
    for make in (
        lambda: Column.from_labels(labels),
        lambda: Corpus.from_sentences([["a", "b"]], [labels]),
        lambda: Graph(np.eye(2), labels),
        lambda: Relational(np.eye(2), classes=labels),
    ):
        with pytest.raises(InputError, match=message):
            make()


def test_corpora_with_labels_of_two_types_are_not_joined():
    one, other = (Corpus.from_sentences([["a"]], [[label]]) for label in (1, "1"))
    with pytest.raises(InputError, match="labels must be of one type; got int and str"):
        Corpus.joined([one, other])
    fraction = one.with_labels(Column.from_labels([2.5]), None)
    assert Corpus.joined([one, fraction]).label_rows() == [[1.0], [2.5]]


def test_a_corpus_keeps_the_type():
    corpus = Corpus.from_sentences([["a", "b"], ["c"]], [[2, None], [10]])
    assert corpus.scheme is None and corpus.label_rows() == [[2, None], [10]]
    for other in (corpus.documents(1, 2), corpus.select([1]), pickle.loads(pickle.dumps(corpus)).select([1])):
        assert other.label_rows() == [[10]] and type(other.label_rows()[0][0]) is int


# -- graphs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [
    [2, 10, 2, 3], np.array([2, 10, 2, 3]), np.array([2, 10, 2, 3], np.uint8), pd.Series([2, 10, 2, 3]),
    pd.Series([2, 10, 2, 3], dtype="Int64"), pd.Categorical([2, 10, 2, 3]),
], ids=lambda labels: type(labels).__name__)  # fmt: skip
def test_a_graph_keeps_whole_numbers(labels: Any):
    graph = Graph(np.eye(4), labels)
    assert graph.labels == [2, 10, 2, 3]
    assert list(graph.classes) == [2, 3, 10] and graph.classes.names == ("2", "3", "10")
    for other in (graph.subset([1, 0]), pickle.loads(pickle.dumps(graph)).subset([1, 0])):
        assert other.labels == [10, 2] and other.classes == graph.classes
    assert graph.with_features(np.eye(4)[:, :2]).labels == [2, 10, 2, 3]


def test_other_labels_for_a_graph_of_numbers_are_labels_not_codes():
    graph = Graph(np.eye(3), [1, 2, 0])
    assert graph.with_labels([2, 0, 1]).labels == [2, 0, 1]
    assert graph.with_labels([2, None, -1]).labels == [2, None, None]
    assert graph.with_labels(["a", "b", None], ["a", "b"]).labels == ["a", "b", None]
    with pytest.raises(InputError, match=r"node 1 has the label 7, not one of the classes \(0, 1, 2\)"):
        graph.with_labels([1, 7, 0])


def test_minus_one_is_unknown_unless_it_is_a_class(caplog: pytest.LogCaptureFixture):
    assert Graph(np.eye(3), [5, -1, 7]).labels == [5, None, 7] and not caplog.records
    assert Graph(np.eye(3), np.array([5.5, -1, 7])).labels == [5.5, None, 7.0] and not caplog.records
    assert Graph(np.eye(3), [1, -1, 0], classes=[-1, 0, 1]).labels == [1, -1, 0] and not caplog.records
    assert Graph(np.eye(3), [1, -1, 0]).labels == [1, None, 0]
    assert "labels of -1 are taken as unknown; where -1 is a label, give classes=[-1, ...]" in caplog.text


def test_codes_of_classes_that_are_names_stay_codes():
    assert Graph(np.eye(3), [1, -1, 0], classes=["no", "yes"]).labels == ["yes", None, "no"]
