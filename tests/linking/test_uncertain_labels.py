"""Labels of pairs that are probabilities: p of a match and 1 - p of none, and never a certain word."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.core.training import TrainingPlan
from kinfolk.errors import InputError
from kinfolk.linking.objective import PairObjective, Tilt
from kinfolk.linking.pair_labels import PairLabels, pair_labels
from kinfolk.linking.pair_table import GroupedRows, PairRows
from kinfolk.linking.training import PairData, PairTrainer

FIVE = kf.records_from_frames(pd.DataFrame({"id": list("abcde"), "v": list("vwxyz")}))
PLAN = TrainingPlan(1e-6, 0.0, 500, 1e-12, 0, 1, None, 1)


def trainer(
    truth: list[int], certainty: list[float] | None, row: list[int], l2: float = 1e-6, **more: Any
) -> PairTrainer:
    """Pairs of rows with a weight each: the score of a pair is the weight of its row."""
    n, n_rows = len(truth), max(row) + 1
    items = kf.Mentions({}, np.zeros(2 * n, np.int32), np.arange(n), np.arange(n, 2 * n))
    codes = np.arange(n_rows, dtype=np.uint8)[:, None]
    on = GroupedRows.of(codes.astype(np.int32), n_rows)
    how = None if certainty is None else np.array(certainty)
    data = PairData(items, PairRows(codes, np.array(row, np.int32)), on, np.array(truth, np.int8), how)
    return PairTrainer(data, replace(PLAN, l2=l2), None, None, **more)


def log_odds(p: float) -> float:
    return float(np.log(p / (1 - p)))


# -- what they teach ----------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1)), min_size=1, max_size=8),
    st.lists(st.floats(-4, 4), min_size=3, max_size=3),
)
@settings(deadline=None, max_examples=50)
def test_the_loss_is_the_cross_entropy_and_its_slope_that_of_finite_differences(pairs, weights) -> None:
    """Against the definition, pair by pair, with no distinct rows and no counts."""
    row, p = [r for r, _ in pairs], np.array([p for _, p in pairs])
    own = trainer((p >= 0.5).astype(int).tolist(), np.maximum(p, 1 - p).tolist(), [*row])
    yes, no = own.data.yes_and_no(own.data.truth)
    counts = own.data.rows.totals(no), own.data.rows.totals(yes), np.zeros(len(own.data.rows.codes))
    objective = PairObjective(own.data.on, *counts, Tilt(), 0.5)
    w = np.array(weights[: len(own.data.rows.codes)])

    def expected(w: Any) -> float:
        scores = np.array([w[r] for r in row])
        right = 1 / (1 + np.exp(-scores))
        return float(-(p * np.log(right) + (1 - p) * np.log(1 - right)).sum() + 0.25 * (w @ w))

    gradient = np.empty(len(w))
    assert objective(w, gradient) == pytest.approx(expected(w), rel=1e-9, abs=1e-12)
    for k in range(len(w)):
        step = np.eye(len(w))[k] * 1e-5
        assert gradient[k] == pytest.approx((expected(w + step) - expected(w - step)) / 2e-5, abs=1e-5)


@pytest.mark.parametrize("p", [0.02, 0.3, 0.5, 0.7, 0.95])
def test_a_pair_comes_to_the_probability_it_is_given(p: float) -> None:
    own = trainer([int(p >= 0.5)], [max(p, 1 - p)], [0])
    weights, _ = own.fit(own.data.truth, np.zeros(1))
    assert weights[0] == pytest.approx(log_odds(p), abs=1e-3)


@given(st.floats(0.05, 0.95), st.floats(-4, 4))
@settings(deadline=None, max_examples=40)
def test_a_probability_draws_to_itself_and_never_past_it(p: float, start: float) -> None:
    """From where the model is: one half moves nothing away from one half, 0.7 nothing beyond 0.7."""
    own = trainer([int(p >= 0.5)], [max(p, 1 - p)], [0], l2=1.0, centre=np.array([start]))
    weights, _ = own.fit(own.data.truth, np.array([start]))
    low, high = sorted([start, log_odds(p)])
    assert low - 1e-6 <= weights[0] <= high + 1e-6
    still = trainer([int(p >= 0.5)], [max(p, 1 - p)], [0], l2=1.0, centre=np.array([log_odds(p)]))
    assert still.fit(still.data.truth, still.centre)[0][0] == pytest.approx(log_odds(p), abs=1e-6)


def test_three_of_four_raters_are_a_probability_of_three_quarters() -> None:
    one = trainer([1], [0.75], [0], l2=0.25)
    four = trainer([1, 1, 1, 0], None, [0, 0, 0, 0], l2=1.0)
    weights = [own.fit(own.data.truth, np.zeros(1))[0][0] for own in (one, four)]
    assert weights[0] == pytest.approx(weights[1], abs=1e-6)


def test_what_is_certain_is_learned_as_it_was() -> None:
    sure, before = (trainer([1, 0, 1, -1], how, [0, 1, 1, 0], l2=1.0) for how in ([1.0] * 4, None))
    assert (
        sure.fit(sure.data.truth, np.zeros(2))[0].tobytes() == before.fit(before.data.truth, np.zeros(2))[0].tobytes()
    )


# -- whole fits ---------------------------------------------------------------------------------------


def people() -> kf.Mentions:
    return kf.block(kf.generate_customers(300, seed=1), ["key(postcode)", "key(surname[:2] + given_name[:1])"])


def told(items: kf.Mentions, chosen: Any, say: Any) -> list[tuple[str, str, Any]]:
    truth, name = items.pair_labels, items.name
    return [(name(int(items.left[k])), name(int(items.right[k])), say(truth[k])) for k in chosen]


def linker(**more: Any) -> kf.Linker:
    fields = ["jaro_winkler(surname)", "jaro_winkler(given_name)", "edit(date_of_birth)", "exact(postcode)"]
    return kf.Linker(fields, n_jobs=1, **more)


@pytest.mark.parametrize("training", ["local", "structured"])
def test_ones_and_zeros_that_are_numbers_are_yes_and_no(training: str) -> None:
    items = people()
    bare, chosen = replace(items, clusters=None), np.random.default_rng(0).choice(items.n_pairs, 60, replace=False)
    words, numbers = (
        linker(training=training).fit(bare, pairs=told(items, chosen, say)) for say in (lambda yes: bool(yes), float)
    )
    assert words.weights_.tobytes() == numbers.weights_.tobytes()


def test_uncertain_labels_move_the_model_where_it_says_otherwise(caplog: pytest.LogCaptureFixture) -> None:
    """Wrong labels of pairs that are clear, a little uncertain and certain."""
    items = people()
    bare = replace(items, clusters=None)
    before = linker(training="local").fit(bare)
    clear = np.argsort(-before.predict_proba(items))[:8]
    with caplog.at_level(logging.INFO, "kinfolk"):
        half, no = (linker(training="local").fit(bare, pairs=told(items, clear, lambda _, p=p: p)) for p in (0.2, 0.0))
    assert "8 of 8 labels are probabilities" in caplog.text and half.learned_from_ == "pairs"
    was, now, least = (one.predict_proba(items)[clear].mean() for one in (before, half, no))
    assert max(now, least) < was - 0.3


def test_hesitant_labels_that_agree_with_the_model_do_it_no_harm() -> None:
    """A "0.7, probably" of what is clear already, and a "0.5", say nothing new."""
    items = people()
    bare = replace(items, clusters=None)
    before = linker().fit(bare)
    probability = before.predict_proba(items)
    clear = np.concatenate([np.argsort(-probability)[:15], np.argsort(probability)[:15]])
    for pairs in (told(items, clear[:15], lambda _: 0.7) + told(items, clear[15:], lambda _: 0.3),
                  told(items, clear, lambda _: 0.5)):  # fmt: skip
        after = linker().fit(bare, pairs=pairs).predict_proba(items)
        np.testing.assert_allclose(after, probability, atol=1e-6)


def test_only_certain_labels_put_records_together_for_certain() -> None:
    found = pair_labels(FIVE, [("a", "b", 0.9), ("b", "c", 1), ("a", "c", 0), ("d", "e", 0.3)])
    assert found.together.tolist() == [[1, 2]] and found.apart.tolist() == [[0, 2]]
    joined = found.joined(5)
    assert joined[1] == joined[2] != joined[0]
    assert found.match.tolist() == [1, 0, 1, 0], "in order of the second record"
    assert found.certainty.tolist() == [0.9, 1.0, 1.0, 0.7]


@pytest.mark.parametrize(("p", "yes"), [(0.5, 1), (0.4999, 0), (0.51, 1)])
def test_scores_of_labelled_pairs_take_one_half_for_yes(p: float, yes: int) -> None:
    assert pair_labels(FIVE, [("a", "b", p)]).match.tolist() == [yes]


def test_a_pair_said_twice_has_the_mean_unless_yes_and_no_are_said() -> None:
    found = pair_labels(FIVE, [("a", "b", 0.6), ("b", "a", 0.8), ("a", "c", 1), ("a", "c", 0.5), ("d", "e", 1)])
    assert isinstance(found, PairLabels) and found.probability is not None
    assert found.probability.tolist() == pytest.approx([0.7, 0.75, 1.0])
    with pytest.raises(InputError, match="row 2: 'b' and 'a' are a match and none: pairs, row 0 says otherwise"):
        pair_labels(FIVE, [("a", "b", 1), ("a", "b", 0.5), ("b", "a", 0)])


@pytest.mark.parametrize("wrong", [1.5, -0.2, 87, float("inf")])
def test_a_number_beyond_0_and_1_is_no_label(wrong: float) -> None:
    with pytest.raises(InputError, match=r"row 1: .*a probability between.*a score beyond 0 and 1 is no label"):
        pair_labels(FIVE, [("a", "b", 0.5), ("a", "c", wrong)])


def test_folds_with_uncertain_labels_choose_and_calibrate_by_what_is_certain() -> None:
    items = people()
    chosen = np.random.default_rng(2).choice(items.n_pairs, 120, replace=False)
    model = linker(training="local", folds=3).fit(
        replace(items, clusters=None), pairs=told(items, chosen, lambda yes: 0.8 if yes else 0.1)
    )
    assert model.calibration_.kind == "identity" and model.score(items) > 0.8


def test_labels_that_agree_with_what_is_learned_without_any_change_nothing():
    items = kf.generate_customers(300, seed=4)
    bare = replace(items, clusters=None)
    rules = ["key(id_number)", "key(postcode + surname[:2])", "sorted(surname, 8)"]
    alone = kf.Linker(blocking=rules, n_jobs=1).fit(bare)
    paired, clusters = alone.candidates(bare), alone.predict(bare)
    chosen = np.random.default_rng(0).choice(paired.n_pairs, 60, replace=False)
    agreeing = [(items.name(int(a)), items.name(int(b)), bool(clusters[a] == clusters[b]))
                for a, b in zip(paired.left[chosen], paired.right[chosen], strict=True)]  # fmt: skip
    moved = kf.Linker(blocking=rules, n_jobs=1).fit(bare, pairs=agreeing)
    assert moved.learned_from_ == "pairs"
    np.testing.assert_allclose(moved.weights_, alone.weights_, atol=1e-9)
    np.testing.assert_array_equal(moved.predict(bare), clusters)
