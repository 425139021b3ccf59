"""Whether a collective model beats its local model: the score of both, the interval, and what a model says of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kinfolk.errors import ModelFileError, SettingError
from kinfolk.learning.gain import Counted, Gain, check_units, folds_by_name, gain_of

counts = st.integers(0, 6).flatmap(lambda b: st.tuples(st.integers(0, b), st.just(b)))
units = st.lists(st.tuples(counts, counts), max_size=8)


def as_table(rows: list) -> np.ndarray:
    return np.array([[*local, *collective] for local, collective in rows], float).reshape(-1, 4)


def ratio(a: np.ndarray, b: np.ndarray) -> float:
    return 100 * a.sum() / b.sum() if b.sum() else 0.0


@given(units)
def test_scores_are_ratios_of_sums_and_the_gain_their_difference(rows: list):
    table = as_table(rows)
    found = gain_of(table, "accuracy", "nodes", 5)
    local, collective = ratio(table[:, 0], table[:, 1]), ratio(table[:, 2], table[:, 3])
    assert found.local == pytest.approx(local) and found.collective == pytest.approx(collective)
    assert found.gain == pytest.approx(collective - local)
    assert -100 <= found.lower <= found.gain <= found.upper <= 100 and found.n == len(rows)


@given(units, st.randoms(use_true_random=False))
def test_the_order_of_units_is_all_one(rows: list, random):
    other = rows.copy()
    random.shuffle(other)
    assert gain_of(as_table(rows), "accuracy", "nodes", 5) == gain_of(as_table(other), "accuracy", "nodes", 5)


def test_of_units_of_one_instance_it_is_the_paired_t_interval():
    rng = np.random.default_rng(1)
    local, collective = rng.integers(2, size=(2, 40))
    ones = np.ones(40)
    found = gain_of(np.stack([local, ones, collective, ones], axis=1), "accuracy", "nodes", 5)
    paired = stats.ttest_rel(collective, local).confidence_interval(0.95)
    assert (found.lower, found.upper) == pytest.approx((100 * paired.low, 100 * paired.high))


def test_the_interval_is_close_to_the_jackknife_that_leaves_out_a_unit():
    rng = np.random.default_rng(2)
    sizes = rng.integers(3, 30, 60)
    table = np.stack([rng.binomial(sizes, 0.7), sizes, rng.binomial(sizes, 0.8), sizes], axis=1).astype(float)
    found = gain_of(table, "accuracy", "documents", 5)

    def gain(rows: np.ndarray) -> float:
        return ratio(rows[:, 2], rows[:, 3]) - ratio(rows[:, 0], rows[:, 1])

    without = np.array([gain(np.delete(table, u, axis=0)) for u in range(60)])
    deviation = np.sqrt(59 / 60 * ((without - without.mean()) ** 2).sum())
    assert (found.upper - found.lower) / 2 == pytest.approx(stats.t.ppf(0.975, 59) * deviation, rel=0.05)


def test_the_interval_holds_the_truth_in_about_95_of_100_samples():
    """Documents of different length, in which both models are right together more often than by chance."""
    rng, held, runs, true_gain = np.random.default_rng(3), 0, 2000, 5.0
    for _ in range(runs):
        sizes = rng.integers(2, 40, 25)
        easy = rng.beta(8, 4, 25)
        both = rng.binomial(sizes, easy)  # right by both
        only = rng.binomial(sizes - both, 0.3)
        # the collective model is right about 5 % more of all, in expectation
        more = rng.binomial(sizes, 0.05)
        table = np.stack([both + only, sizes, both + only + more, sizes], axis=1).astype(float)
        found = gain_of(table, "accuracy", "documents", 5)
        held += found.lower <= true_gain <= found.upper
    assert 0.92 <= held / runs <= 0.975


def test_one_unit_says_nothing_and_none_at_all_does_not_either():
    assert not gain_of(np.array([[0.0, 5.0, 5.0, 5.0]]), "accuracy", "documents", 2).beats
    assert not Counted().gain("accuracy", "documents", 2).beats


def test_it_reads_as_a_sentence():
    found = Gain("entity F1", 80.0, 82.5, 2.5, 1.25, 3.75, 120, "documents", 5)
    said = "entity F1 +2.50 [1.25, 3.75] over the local model (80.00 to 82.50; cross-fitted, 5 folds of 120 documents)"
    assert str(found) == said and found.beats


@pytest.mark.parametrize(("bounds", "differing", "verdict"), [
    ((0.5, 2.0), 9, None),
    ((-1.0, 2.0), 9, "MixtureNodes is not shown to beat its local model"),
    ((0.0, 0.0), 9, "MixtureNodes is not shown to beat its local model"),
    ((0.0, 0.0), None, "MixtureNodes is not shown to beat its local model"),
    ((0.0, 0.0), 0, "MixtureNodes answers as its local model does"),
    ((-2.0, -0.5), 9, "MixtureNodes is worse than its local model"),
], ids=str)  # fmt: skip
def test_worse_the_same_and_unclear_are_told_apart(bounds: tuple[float, float], differing: int, verdict: str):
    middle = sum(bounds) / 2
    found = Gain("accuracy", 80.0, 80.0 + middle, middle, *bounds, 120, "nodes", 5, differing)
    assert found.verdict("MixtureNodes") == verdict
    assert str(found).endswith("5 folds of 120 nodes; no held-out answer differs)") == (differing == 0)


def test_a_file_gives_back_what_it_kept_and_nothing_else():
    found = Gain("entity F1", 80.0, 82.5, 2.5, 1.25, 3.75, 120, "documents", 5)
    assert (
        Gain.from_file(vars(found)) == found == Gain.from_file({k: v for k, v in vars(found).items() if v is not None})
    )
    for altered in ({"differing": -1}, {"lower": 9.0}, {"n": 0}, {"folds": 1}, {"metric": 3}, {"gain": "2.5"}):
        with pytest.raises(ModelFileError, match="do not fit together"):
            Gain.from_file({**vars(found), **altered})


@given(st.lists(st.integers(-1, 2), min_size=1, max_size=20), st.integers(2, 4), st.randoms(use_true_random=False))
def test_folds_go_by_name_not_by_place(labels: list[int], folds: int, random):
    places = list(range(len(labels)))
    random.shuffle(places)
    names = [f"n{i:02}" for i in range(len(labels))]
    one = folds_by_name(names, np.array(labels), None, folds, 0)
    other = folds_by_name([names[i] for i in places], np.array(labels)[places], None, folds, 0)
    assert other.tolist() == one[places].tolist()
    assert ((one < 0) == (np.array(labels) < 0)).all()


def test_more_folds_than_units_are_refused():
    with pytest.raises(SettingError, match=r"guard must be at most the number of labelled documents, 3; got 5; set"):
        check_units(5, 3, "documents")


def test_answers_that_differ_are_added_up_over_folds():
    counted = Counted()
    for differing in (2, 0, 3):
        counted.add(np.array([[1.0, 2.0]]), np.array([[2.0, 2.0]]), differing)
    found = counted.gain("accuracy", "documents", 3)
    assert (found.differing, found.n, found.local, found.collective) == (5, 3, 50.0, 100.0)


@pytest.mark.parametrize(("unit", "n", "few"), [("nodes", 99, True), ("nodes", 100, False), ("documents", 5, False)])
def test_few_nodes_are_told_and_few_documents_are_not(unit: str, n: int, few: bool):
    found = gain_of(np.tile([1.0, 1.0, 1.0, 1.0], (n, 1)), "accuracy", unit, 5)
    assert found.few == few and ("are few" in str(found)) == few


def test_as_many_folds_as_units_may_be_dealt():
    check_units(3, 3, "documents")
    with pytest.raises(
        SettingError, match=r"at most the number of labelled documents, 2; got 3; set `guard=2` or fewer"
    ):
        check_units(3, 2, "documents")
    with pytest.raises(SettingError, match=r"at most the number of labelled documents, 1; got 3; leave it out"):
        check_units(3, 1, "documents")
