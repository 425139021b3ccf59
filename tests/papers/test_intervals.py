"""Intervals of figures: the bootstrap over documents and Student's t over folds, beside known cases."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kinfolk.papers.data import Conll, entity_counts, entity_f1
from kinfolk.papers.harness import Run, bootstrap, counted_row, each_fold, mean_row, spread, t_interval, table

COUNT = st.integers(0, 9)
TABLES = st.lists(st.tuples(COUNT, COUNT, COUNT), min_size=2, max_size=6)
SCORES = st.lists(st.floats(0, 100).map(lambda score: round(score, 2)), min_size=2, max_size=8)


def share(sums: np.ndarray) -> float:
    return float(sums[0] / sums[1]) if sums[1] else 0.0


def silent_run() -> Run:
    return Run(Path(), lambda line: None, 1)


# -- over documents ------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [[(1, 2), (3, 4)], [(0, 1), (5, 5), (2, 8)], [(1, 9), (7, 8), (2, 2), (0, 3)]])
def test_the_bootstrap_is_that_of_all_ways_to_draw(counts: list[tuple[int, int]]):
    """With as many documents all n^n ways to draw can be listed; a large sample has their quantiles."""
    ways = product(range(len(counts)), repeat=len(counts))
    every = sorted(share(np.sum([counts[i] for i in way], axis=0)) for way in ways)
    lower, upper = bootstrap(counts, share, rounds=20_000)
    assert every[int(0.022 * len(every))] - 1e-12 <= lower <= every[int(0.028 * len(every))] + 1e-12
    assert (
        every[int(0.972 * len(every))] - 1e-12 <= upper <= every[min(int(0.978 * len(every)), len(every) - 1)] + 1e-12
    )


def test_for_a_mean_of_many_documents_it_is_the_normal_interval():
    values = np.random.default_rng(0).normal(10, 2, 400)
    found = bootstrap(np.column_stack([values, np.ones(400)]), share, rounds=4000)
    assert found == pytest.approx(stats.norm.interval(0.95, values.mean(), values.std() / 20), abs=0.02)
    assert bootstrap(values, lambda sums: sums[0] / 400, rounds=4000) == pytest.approx(found, abs=1e-9)


@given(counts=TABLES, seed=st.integers(0, 3))
def test_the_same_seed_gives_the_same_interval_and_its_ends_are_in_order(counts: list[tuple[int, int, int]], seed: int):
    lower, upper = bootstrap(counts, entity_f1, seed, 50)
    assert (lower, upper) == bootstrap(counts, entity_f1, seed, 50)
    assert 0 <= lower <= upper


@given(counts=TABLES, more=st.integers(1, 5))
def test_a_difference_draws_the_same_documents_for_both(counts: list[tuple[int, int, int]], more: int):
    assert bootstrap(counts, entity_f1, rounds=50, beside=counts) == (0.0, 0.0)
    better = [(a + more, b, c) for a, b, c in counts]
    total = lambda sums: float(sums[0])  # noqa: E731
    assert bootstrap(better, total, rounds=50, beside=counts) == (more * len(counts), more * len(counts))
    assert bootstrap(better, total, rounds=50) != (more * len(counts), more * len(counts)) or not any(
        a for a, _, _ in counts
    )


def test_one_document_has_no_interval_and_other_documents_none_beside_it():
    assert np.isnan(bootstrap([(1, 2)], share)).all() and np.isnan(bootstrap(np.empty((0, 2)), share)).all()
    assert spread((float("nan"), float("nan"))) == {} == spread(t_interval([1.0]))
    with pytest.raises(ValueError, match="same documents; got shapes"):
        bootstrap([(1, 2), (3, 4)], share, beside=[(1, 2)])


def test_a_row_of_counts_has_its_interval_and_its_gain():
    run = silent_run()
    first = counted_row(run, ("d", "local", "test"), "f1", [(3, 5, 5), (2, 4, 4)], entity_f1)
    second = counted_row(run, ("d", "other", "test"), "f1", [(4, 5, 5), (3, 4, 4)], entity_f1, "local")
    assert first["f1"] == pytest.approx(500 / 9) and "gain" not in first
    assert first["lower"] == pytest.approx(50) and first["upper"] == pytest.approx(60)
    assert second["gain"] == pytest.approx(200 / 9)
    assert (second["gain_lower"], second["gain_upper"]) == (pytest.approx(20), pytest.approx(25))


# -- over folds ----------------------------------------------------------------------------------------


@given(scores=SCORES)
def test_over_folds_it_is_the_interval_of_the_t_test(scores: list[float]):
    """The interval of a difference holds 0 just where the test finds nothing at 5 %; ends as SciPy has them."""
    found = t_interval(scores)
    error = stats.sem(scores)
    if error > 1e-6:
        assert found == pytest.approx(stats.t.interval(0.95, len(scores) - 1, np.mean(scores), error))
        p_value = stats.ttest_1samp(scores, found[0]).pvalue
        assert p_value == pytest.approx(0.05)
    else:
        assert found == pytest.approx((np.mean(scores), np.mean(scores)))


def test_a_table_of_student_s():
    """1, 2, 3: mean 2, standard error 1/√3, and t of two degrees of freedom is 4.303."""
    assert t_interval([1, 2, 3]) == pytest.approx((2 - 4.3027 / np.sqrt(3), 2 + 4.3027 / np.sqrt(3)), abs=1e-4)
    row = mean_row("d", "m", [2, 4, 6], "f1", [1, 2, 3])
    assert row["f1"] == 4 and row["gain"] == 2
    assert (row["gain_lower"], row["gain_upper"]) == t_interval([1, 2, 3])


def test_means_of_folds_have_intervals_and_gains_over_the_first_model_or_the_one_named():
    found = {"a": [1.0, 2.0, 4.0], "b": [2.0, 3.0, 5.0], "c": [2.0, 2.0, 2.0]}
    *folds, a, b, c = table("d", ["1", "2", "3"], found, "b")
    assert len(folds) == 9 and not any("lower" in row for row in folds)
    assert "gain" not in a and b["gain"] == b["gain_lower"] == b["gain_upper"] == 1
    assert c["lower"] == c["upper"] == 2 and c["gain_lower"] < c["gain"] < c["gain_upper"]
    a, b, c = table("d", ["1", "2", "3"], found, "b", local="c")[-3:]
    assert "gain" not in c and a["gain"] == pytest.approx(1 / 3)
    single = table("d", ["1"], {name: scores[:1] for name, scores in found.items()}, "b")
    assert not any("lower" in row or "gain_lower" in row for row in single)


# -- rows of CoNLL-2003 --------------------------------------------------------------------------------


def test_counts_by_document_sum_to_what_the_model_says_of_itself(world, fitted):
    test, model = world[1], fitted
    scores, _ = model.evaluate(test)
    counts = entity_counts(test, model.predict(test))
    assert counts.shape == (test.n_documents, 3)
    assert counts.sum(axis=0).tolist() == [scores.correct, scores.predicted, scores.gold]
    for row, document in zip(counts, test, strict=True):
        own, _ = model.evaluate(document)
        assert row.tolist() == [own.correct, own.predicted, own.gold]


def test_rows_of_test_files_have_intervals(world, fitted_models):
    train, test = world
    data, run = Conll(train, test, test.documents(0, 5)), silent_run()
    local, chain = fitted_models["MaxEnt"], fitted_models["LinearChainCRF"]
    assert all("gain" not in row for row in data.rows(run, local, "local"))
    for row, part in zip(data.rows(run, chain, "chain", "local"), (data.testa, data.testb), strict=True):
        scores, _ = chain.evaluate(part)
        assert row["f1"] == pytest.approx(scores.f1) and row["recall"] == pytest.approx(scores.recall)
        assert row["lower"] <= row["f1"] <= row["upper"]
        assert row["gain"] == pytest.approx(scores.f1 - local.evaluate(part)[0].f1)
        assert row["gain_lower"] <= row["gain"] <= row["gain_upper"]
        assert 0 <= row["accuracy"] <= 100


@pytest.mark.parametrize(("jobs", "threads"), [(1, 1), (2, 1)])
def test_folds_come_back_in_order_whatever_process_they_ran_in(jobs: int, threads: int):
    task = lambda fold, n_jobs: (fold, n_jobs)  # noqa: E731
    assert list(each_fold(task, ["a", "b", "c"], jobs)) == [(fold, threads) for fold in "abc"]
    assert list(each_fold(task, [], jobs)) == []
