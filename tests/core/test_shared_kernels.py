"""Kernels that all files share: sums of exponentials beside exact ones, hash tables beside dictionaries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.core.kernels import log_sum, slot_of, slot_of_row, softmax

SCORES = st.lists(st.floats(-2000, 2000), min_size=1, max_size=6)  # exp(2000) is beyond float64, exp(-2000) is nothing
WORDS = st.sampled_from([0, 1, 2, 3, 2**32, 2**63, 2**64 - 1]) | st.integers(0, 50)


def empty_slots(n: int) -> np.ndarray:
    """As few as are allowed, so that many keys want the same one."""
    return np.full(1 << (2 * n).bit_length(), -1)


def number_rows(rows: np.ndarray) -> None:
    """Each row is found where a dictionary says, or an empty slot is."""
    slots, known = empty_slots(len(rows)), np.empty_like(rows)
    numbers: dict[tuple[int, ...], int] = {}
    for i, row in enumerate(map(tuple, rows.tolist())):
        at = slot_of_row(rows, i, slots, known)
        assert slots[at] == numbers.get(row, -1)
        if row not in numbers:
            known[len(numbers)] = rows[i]
            slots[at] = numbers[row] = len(numbers)


@given(scores=SCORES)
def test_softmax_of_scores_beyond_what_exponentials_hold(scores: list[float]):
    shares = np.empty(len(scores))
    log_z = softmax(np.array(scores), shares)
    differences = [[math.exp(min(other - score, 700)) for other in scores] for score in scores]
    assert shares == pytest.approx([1 / math.fsum(row) for row in differences], rel=1e-9, abs=1e-300)
    assert log_z == pytest.approx(
        max(scores) + math.log(math.fsum(math.exp(s - max(scores)) for s in scores)), rel=1e-12
    )


@pytest.mark.parametrize("place", range(4))
def test_softmax_finds_the_largest_score_wherever_it_stands(place: int):
    scores = np.zeros(4)
    scores[place] = 1000.0
    assert softmax(scores, scores) == 1000.0  # in place
    assert scores.tolist() == np.eye(4)[place].tolist()


@given(values=st.lists(st.just(-math.inf) | st.floats(-2000, 2000), max_size=6))
def test_log_sum_of_masses_of_any_size(values: list[float]):
    top = max(values, default=-math.inf)
    expected = top if top == -math.inf else top + math.log(math.fsum(math.exp(value - top) for value in values))
    assert log_sum(np.array(values, float)) == pytest.approx(expected, rel=1e-12)


@given(keys=st.lists(st.integers(0, 20) | st.integers(0, 2**62), max_size=30))
def test_keys_have_the_numbers_that_a_dictionary_gives_them(keys: list[int]):
    slots, known = empty_slots(len(keys)), np.empty(len(keys), np.int64)
    numbers: dict[int, int] = {}
    for key in keys:
        at = slot_of(key, slots, known)
        assert slots[at] == numbers.get(key, -1)  # the empty slot of a new one
        if key not in numbers:
            known[len(numbers)] = key
            slots[at] = numbers[key] = len(numbers)


@given(width=st.integers(1, 4), data=st.data())
def test_rows_have_the_numbers_that_a_dictionary_gives_them(width: int, data: st.DataObject):
    number_rows(np.array(data.draw(st.lists(st.tuples(*[WORDS] * width), min_size=1, max_size=30)), np.uint64))


@pytest.mark.parametrize("place", range(3))
def test_rows_that_differ_in_one_word_are_several(place: int):
    rows = np.full((300, 3), 7, np.uint64)
    rows[:, place] = np.arange(300) % 200
    number_rows(rows)
