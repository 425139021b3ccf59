"""The paired t-test: as SciPy has it, and where there is nothing to divide by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from kinfolk.papers.harness import paired_t_test

SCORES = st.floats(0, 100).map(lambda score: round(score, 2))


@given(pairs=st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=8))
def test_it_is_the_paired_t_test_of_scipy(pairs: list[tuple[float, float]]):
    first, second = map(np.array, zip(*pairs, strict=True))
    assume(np.ptp(first - second) > 1e-6)
    found = paired_t_test(first, second)
    assert found == pytest.approx(stats.ttest_rel(first, second).pvalue, rel=1e-9)
    assert found == paired_t_test(second, first), "two-sided"
    assert found == paired_t_test(list(first), tuple(second))


def test_a_table_of_student_s():
    """Differences 1, 2, 3: mean 2, standard error 1/√3, so t = 2 √3 with 2 degrees of freedom."""
    t = 2 * np.sqrt(3)
    assert paired_t_test([1, 2, 3], [0, 0, 0]) == pytest.approx(1 - t / np.sqrt(2 + t**2))


@given(scores=st.lists(SCORES, min_size=2, max_size=8))
def test_equal_scores_tell_nothing_apart(scores: list[float]):
    assert paired_t_test(scores, scores) == 1.0


@given(scores=st.lists(st.integers(0, 99), min_size=2, max_size=8), more=st.integers(1, 9))
def test_the_same_difference_everywhere_is_certain(scores: list[int], more: int):
    assert paired_t_test([score + more for score in scores], scores) == 0.0


def test_a_single_pair_tells_nothing():
    assert np.isnan(paired_t_test([1.0], [2.0])) and np.isnan(paired_t_test([], []))


@pytest.mark.parametrize(("first", "second"), [([1, 2], [1]), ([[1, 2]], [[1, 2]]), (1.0, 1.0)])
def test_rows_of_other_folds(first: Any, second: Any):
    with pytest.raises(ValueError, match="expected two rows of scores of the same folds; got shapes"):
        paired_t_test(first, second)
