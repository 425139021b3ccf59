"""Feature dicts as sklearn-crfsuite takes them."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.core.modelfile import ModelFile
from kinfolk.errors import InputError
from kinfolk.text.dicts import DictFeatures, check_items
from kinfolk.text.extraction import restored_features

NAMES = st.text("abc", min_size=1, max_size=2)
ITEMS = st.dictionaries(NAMES, st.floats(-9, 9, width=32) | st.booleans() | st.text("xy", max_size=1), max_size=4)
SEQUENCES = st.lists(st.lists(ITEMS, max_size=4), max_size=4)


def as_dicts(table: Any, names: list[str]) -> list[dict[str, float]]:
    """One dict a row, zeros that are stored included."""
    return [
        {names[j]: float(v) for j, v in zip(table.indices[a:b], table.data[a:b], strict=True)}
        for a, b in zip(table.indptr[:-1], table.indptr[1:], strict=True)
    ]


def one(item: Any) -> dict[str, float]:
    check_items([[item]])
    own = DictFeatures()
    table = own.learn([[item]])
    return as_dicts(table, own.names())[0]


KINDS = {
    "a string": ({"lower": "hague"}, {"lower:hague": 1}),
    "an empty string": ({"lower": ""}, {"lower:": 1}),
    "a number": ({"bias": 1.5, "n": 2, "neg": -3}, {"bias": 1.5, "n": 2, "neg": -3}),
    "zero": ({"n": 0.0}, {"n": 0}),
    "a numpy number": ({"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True)}, {"a": 0.5, "b": 3, "c": 1}),
    "a fraction": ({"half": Fraction(1, 2)}, {"half": 0.5}),
    "a decimal": ({"half": Decimal("0.5")}, {"half": 0.5}),
    "an array that holds one number and no dimension": ({"half": np.array(0.5)}, {"half": 0.5}),
    "bytes": ({"lower": "für".encode()}, {"lower:für": 1}),
    "true": ({"title": True}, {"title": 1}),
    "false": ({"title": False}, {}),
    "a list": ({"near": ["the", "in"]}, {"near:the": 1, "near:in": 1}),
    "a set": ({"near": {"the"}}, {"near:the": 1}),
    "a tuple": ({"near": ("the", "in")}, {"near:the": 1, "near:in": 1}),
    "an array of strings": ({"near": np.array(["the", "in"])}, {"near:the": 1, "near:in": 1}),
    "a list with repeats": ({"near": ["the", "the"]}, {"near:the": 2}),
    "a dict": ({"w": {"-1": "the", "len": 3.0, "up": True}}, {"w:-1:the": 1, "w:len": 3, "w:up": 1}),
    "a dict in a dict": ({"a": {"b": {"c": 2}}}, {"a:b:c": 2}),
    "a name that is no string": ({7: "x"}, {"7:x": 1}),
    "no name": ({None: "x", "n": 2}, {"None:x": 1, "n": 2}),
    "a list of names": (["bias", "cap"], {"bias": 1, "cap": 1}),
    "a tuple of names": (("bias",), {"bias": 1}),
    "nothing": ({}, {}),
    "two ways to one name": ({"a": "b", "a:b": 2.0}, {"a:b": 3}),
}


@pytest.mark.parametrize(("item", "expected"), KINDS.values(), ids=KINDS.keys())
def test_every_kind_of_value(item: Any, expected: dict[str, float]):
    assert one(item) == expected


@pytest.mark.parametrize("name", ["a string", "a number", "true", "a list", "a set", "bytes", "a decimal", "a dict"])
def test_values_mean_what_they_mean_to_crfsuite(name: str):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    assert [one(KINDS[name][0])] == pycrfsuite.ItemSequence([KINDS[name][0]]).items()


def test_the_order_of_names_does_not_depend_on_that_of_a_set():
    own = DictFeatures()
    own.learn([[{"near": {*"hgfedcba"}}, {*"zyxw"}]])
    assert own.names() == [*(f"near:{letter}" for letter in "abcdefgh"), *"wxyz"]


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, np.float64("nan"), 1e39, 10**400, Decimal("nan"), np.array(np.inf)]
)
def test_values_that_are_not_finite_are_named_with_their_place(value: Any):
    sequences = [[{"a": 1}], [{"a": 1}, {"a": 1, "deep": {"w": value}}]]
    with pytest.raises(InputError, match=r"sentence 1, token 1: .*finite.*'deep:w' is "):
        check_items(sequences)


class Tensor:
    """As torch has them: no sequence, and each of its parts a tensor again."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)
        self.shape, self.ndim = self.values.shape, self.values.ndim

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Any:
        return (Tensor(value) for value in self.values)

    def __float__(self) -> float:
        return float(self.values)


VECTORS = {
    "an array": (np.array([0.25, 0.5]), r"ndarray of shape \(2,\)"),
    "an array of whole numbers": (np.arange(3), r"ndarray of shape \(3,\)"),
    "a list": ([0.25, 0.5], "list of 2"),
    "a list that begins with a string": (["a", 0.5], "list of 2"),
    "a list of truth values": ([True, False], "list of 2"),
    "a tuple": ((0.25,), "tuple of 1"),
    "a tensor": (Tensor([0.25, 0.5]), r"Tensor of shape \(2,\)"),
    "a table": (np.zeros((2, 3)), r"ndarray of shape \(2, 3\)"),
}


@pytest.mark.parametrize(("vector", "told"), VECTORS.values(), ids=VECTORS.keys())
def test_a_vector_is_no_feature_and_what_to_give_instead_is_told(vector: Any, told: str):
    remedy = r"Give vectors apart .*`fit\(X, y, vectors=array\)`"
    for item, feature in (({"vec": vector}, "'vec'"), ({"a": {"vec": vector}}, "'a:vec'")):
        place = f"sentence 1, token 2: .*value of {feature}"
        with pytest.raises(InputError, match=f"{place}; got a vector: {told}. .*{remedy}"):
            check_items([[{}], [{}, {}, item]])
    with pytest.raises(InputError, match=f"sentence 0, token 1: .*got a vector: {told}. .*{remedy}"):
        check_items([[{}, vector]])


WRONG = {
    "none": ({"a": None}, "number, truth value, list of strings or dict as the value of 'a'; got None. Leave the fea"),
    "an object": ({"a": object()}, "got object"),
    "none in a list": ({"a": ["x", None]}, "value of 'a'; got list of 2 with None in it"),
    "a list in a list": ({"a": [["x"]]}, "value of 'a'; got list of 1 with list of 1 in it"),
    "pairs for a dict": ([("a", "x")], "expected a dict of features .*got list of 1 with tuple of 2 in it"),
    "what can be read but once": ({"a": iter(["x"])}, "can be read but once; make it a list"),
    "bytes that are no text": ({"a": b"\xff"}, "value of 'a'; got bytes that are not UTF-8"),
    "a string for a dict": ("word", "expected a dict of features or a list of strings; got str"),
    "a number for a dict": (3, r"expected a dict of features or a list of strings; got int \(3\)"),
}


@pytest.mark.parametrize(("item", "message"), WRONG.values(), ids=WRONG.keys())
def test_items_that_cannot_be_used_are_named_with_their_place(item: Any, message: str):
    with pytest.raises(InputError, match=f"sentence 1, token 2: .*{message}"):
        check_items([[{}], [{}, {}, item]])


@given(SEQUENCES, SEQUENCES, st.integers(1, 3))
def test_rows_are_the_items_less_what_training_hardly_saw(train: Any, test: Any, least: int):
    def plain(item: dict[str, Any]) -> dict[str, float]:
        row: dict[str, float] = {}
        for name, value in item.items():
            if isinstance(value, str):
                row[f"{name}:{value}"] = row.get(f"{name}:{value}", 0) + 1
            elif value is not False:
                row[name] = row.get(name, 0) + float(value)
        return row

    wanted = [plain(item) for sequence in train for item in sequence]
    kept = {name for row in wanted for name in row if sum(name in other for other in wanted) >= least}
    own = DictFeatures(min_count=least)
    table = own.learn(train)
    assert set(own.names()) == kept and table.shape == (len(wanted), len(kept)) and own.n_features == len(kept)
    assert as_dicts(table, own.names()) == [{n: v for n, v in row.items() if n in kept} for row in wanted]
    for sequences in (train, test):
        rows = [plain(item) for sequence in sequences for item in sequence]
        found = as_dicts(own.rows(sequences), own.names())
        assert found == [{n: v for n, v in row.items() if n in kept} for row in rows]


def test_a_rebuilt_set_gives_the_same_rows():
    own = DictFeatures(min_count=2)
    sequences = [[{"a": "x", "n": 2}, {"a": "x", "n": 3}], [{"b": ["p", "q"]}]]
    table = own.learn(sequences)
    arrays, strings = own.state()
    twin = restored_features(ModelFile(own.spec(), arrays, strings), {})
    assert twin.names() == own.names() == ["a:x", "n"]
    assert (twin.rows(sequences) != table).nnz == 0
