"""Feature dicts as sklearn-crfsuite takes them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.errors import InputError
from kinfolk.features.dicts import DictFeatures
from kinfolk.features.rebuild import feature_set

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
    "true": ({"title": True}, {"title": 1}),
    "false": ({"title": False}, {}),
    "a list": ({"near": ["the", "in"]}, {"near:the": 1, "near:in": 1}),
    "a set": ({"near": {"the"}}, {"near:the": 1}),
    "a list with repeats": ({"near": ["the", "the"]}, {"near:the": 2}),
    "a dict": ({"w": {"-1": "the", "len": 3.0, "up": True}}, {"w:-1:the": 1, "w:len": 3, "w:up": 1}),
    "a dict in a dict": ({"a": {"b": {"c": 2}}}, {"a:b:c": 2}),
    "a name that is no string": ({7: "x"}, {"7:x": 1}),
    "a list of names": (["bias", "cap"], {"bias": 1, "cap": 1}),
    "a tuple of names": (("bias",), {"bias": 1}),
    "nothing": ({}, {}),
    "two ways to one name": ({"a": "b", "a:b": 2.0}, {"a:b": 3}),
}


@pytest.mark.parametrize(("item", "expected"), KINDS.values(), ids=KINDS.keys())
def test_every_kind_of_value(item: Any, expected: dict[str, float]):
    assert one(item) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan"), 1e39, 10**400])
def test_values_that_are_not_finite_are_named_with_their_place(value: Any):
    sequences = [[{"a": 1}], [{"a": 1}, {"a": 1, "deep": {"w": value}}]]
    with pytest.raises(InputError, match=r"finite.*sequence 1, item 1 has 'deep:w' = "):
        DictFeatures().learn(sequences)
    own = DictFeatures()
    own.learn([[{"a": 1}]])
    with pytest.raises(InputError, match="sequence 1, item 1"):
        own.rows(sequences)


WRONG = {
    "none": ({"a": None}, "expected a string, number, boolean, list or dict as the value of 'a'; got NoneType"),
    "an object": ({"a": object()}, "got object"),
    "a string for a dict": ("word", "expected a dict of features or a list of strings; got str"),
    "a number for a dict": (3, "expected a dict of features or a list of strings; got int"),
}


@pytest.mark.parametrize(("item", "message"), WRONG.values(), ids=WRONG.keys())
def test_items_that_cannot_be_used_are_named_with_their_place(item: Any, message: str):
    with pytest.raises(InputError, match=f"sequence 1, item 2: .*{message}"):
        DictFeatures().learn([[{}], [{}, {}, item]])


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
    twin = feature_set(own.spec(), {}, strings)
    twin.restore(arrays, strings)
    assert twin.names() == own.names() == ["a:x", "n"]
    assert (twin.rows(sequences) != table).nnz == 0
