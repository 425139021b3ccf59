"""Vocabulary: names to numbers and back, frozen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk import Vocabulary
from kinfolk.errors import InputError

NAMES = st.lists(st.text(max_size=5), unique=True, max_size=20)


@given(NAMES, st.lists(st.text(max_size=5), max_size=10))
def test_numbers_and_names_are_inverse(names: list[str], others: list[str]):
    vocabulary = Vocabulary(names)
    assert list(vocabulary) == names == list(vocabulary.names) and len(vocabulary) == len(names)
    assert [vocabulary.get(name) for name in names] == list(range(len(names)))
    assert [vocabulary[i] for i in range(len(names))] == names
    asked = names + others
    codes = vocabulary.encode(asked)
    assert codes.dtype == np.int32
    assert codes.tolist() == [names.index(name) if name in names else -1 for name in asked]
    assert [name in vocabulary for name in asked] == [name in names for name in asked]


@given(NAMES, NAMES)
def test_equal_when_names_and_order_are(one: list[str], other: list[str]):
    assert (Vocabulary(one) == Vocabulary(other)) == (one == other)
    assert hash(Vocabulary(one)) == hash(Vocabulary(tuple(one)))
    assert Vocabulary(one) != one


def test_a_name_twice_is_refused():
    with pytest.raises(InputError, match="'B-PER' stands in it twice"):
        Vocabulary(["O", "B-PER", "I-PER", "B-PER"])


def test_nothing_can_be_added():
    vocabulary = Vocabulary(iter(["a", "b"]))
    with pytest.raises(AttributeError):
        vocabulary.extra = 1
    with pytest.raises(TypeError):
        vocabulary[0] = "c"
    assert vocabulary.get("c") == -1 and vocabulary.get("") == -1
    with pytest.raises(IndexError):
        vocabulary[2]


def test_repr_is_short():
    assert repr(Vocabulary("ab")) == "Vocabulary(['a', 'b'], 2 names)"
    assert repr(Vocabulary(map(str, range(1000)))) == "Vocabulary(['0', '1', '2', '3', '4', ...], 1000 names)"
