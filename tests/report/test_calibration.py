"""Bins, calibration error and Brier score against their definitions, spelled out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.errors import InputError
from kinfolk.report.scores import brier_score, calibration

PROBABILITIES = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
ANSWERS = st.lists(st.tuples(PROBABILITIES, st.booleans()), min_size=1, max_size=60)


@given(ANSWERS, st.integers(1, 12))
def test_bins_hold_every_answer_once_and_equal_ones_together(answers, bins: int):
    found = calibration([p for p, _ in answers], [right for _, right in answers], bins)
    assert 1 <= len(found.counts) <= bins and found.counts.sum() == len(answers)
    assert (found.lowest <= found.highest).all() and (found.highest[:-1] < found.lowest[1:]).all()
    error = 0.0
    for b in range(len(found.counts)):
        inside = [(p, right) for p, right in answers if found.lowest[b] <= p <= found.highest[b]]
        assert len(inside) == found.counts[b]
        mean, share = (sum(x[k] for x in inside) / len(inside) for k in (0, 1))
        assert found.predicted[b] == pytest.approx(mean) and found.observed[b] == pytest.approx(share)
        error += len(inside) / len(answers) * abs(mean - share)
    assert found.error == pytest.approx(error)
    assert found.brier == pytest.approx(sum((p - right) ** 2 for p, right in answers) / len(answers))


@given(st.permutations(range(20)), st.integers(1, 20))
def test_bins_of_different_answers_are_of_equal_count(order, bins: int):
    found = calibration(np.array(order) / 20, np.zeros(20, bool), bins)
    assert len(found.counts) == bins and found.counts.max() - found.counts.min() <= 1


@given(ANSWERS, st.randoms(use_true_random=False))
def test_the_order_of_answers_means_nothing(answers, random):
    shuffled = random.sample(answers, len(answers))
    one, other = (calibration(*map(np.array, zip(*part, strict=True))) for part in (answers, shuffled))
    assert one.counts.tolist() == other.counts.tolist() and one.error == pytest.approx(other.error)


def test_perfect_probabilities_have_no_error():
    found = calibration([0.25] * 4 + [1.0] * 2, [1, 0, 0, 0, 1, 1])
    assert found.error == 0 and found.observed.tolist() == [0.25, 1.0]
    assert found.as_dict()["counts"] == [4, 2]


def test_no_answers_no_bins():
    found = calibration([], [])
    assert len(found.counts) == 0 and found.error == 0 and found.brier == 0


@given(st.integers(1, 4).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(-1, n), min_size=1, max_size=8))))
def test_brier_over_classes_is_its_definition(drawn):
    n, labels = drawn
    table = np.random.default_rng(len(labels)).dirichlet(np.ones(n), len(labels))
    known = [
        sum((table[i, k] - (k == label)) ** 2 for k in range(n)) + (label == n)
        for i, label in enumerate(labels)
        if label >= 0
    ]
    assert brier_score(table, labels) == pytest.approx(np.mean(known) if known else 0.0)


@pytest.mark.parametrize(
    ("probability", "right", "bins"),
    [([0.5], [True, False], 10), ([1.5], [True], 10), ([float("nan")], [True], 10), ([0.5], [True], 0)],
)
def test_what_makes_no_sense_is_refused(probability, right, bins: int):
    with pytest.raises(InputError, match="expected"):
        calibration(probability, right, bins)
    with pytest.raises(InputError, match="expected"):
        brier_score([0.5], [0])
