"""Pairs labelled yes, no or not at all: what nobody said of a pair is not known, and teaches nothing."""

from __future__ import annotations

import functools
import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import kinfolk as kf
from kinfolk.errors import DataWarning, InputError, SettingError
from kinfolk.inference.clustering import E_STEPS
from kinfolk.linking.pair_labels import PairLabels, pair_labels

RULES = ["key(postcode)", "key(surname[:2] + given_name[:1])"]
FIELDS = ["jaro_winkler(surname)", "jaro_winkler(given_name)", "edit(date_of_birth)", "exact(postcode)"]


@functools.cache
def people(n: int = 400, seed: int = 1) -> kf.Mentions:
    """Customers with candidate pairs and the truth."""
    return kf.block(kf.generate_customers(n, seed=seed), RULES)


def unlabelled(items: kf.Mentions) -> kf.Mentions:
    return replace(items, clusters=None)


@functools.cache
def labels(n_yes: int, n_no: int, seed: int = 0) -> pd.DataFrame:
    """So many matches and others, of the candidates."""
    items, rng = people(), np.random.default_rng(seed)
    truth = items.pair_labels
    parts = [rng.choice(np.flatnonzero(truth == kind), n, replace=False) for kind, n in ((1, n_yes), (0, n_no))]
    chosen = rng.permutation(np.concatenate(parts))
    names = [[items.name(int(side[k])) for k in chosen] for side in (items.left, items.right)]
    return pd.DataFrame({"left": names[0], "right": names[1], "match": truth[chosen] == 1})


def linker(**settings: Any) -> kf.Linker:
    return kf.Linker(**{"features": FIELDS, "n_jobs": 1, **settings})


# -- learning -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("training", ["local", "structured"])
def test_a_few_labelled_pairs_are_enough_to_find_the_clusters(training: str):
    """Taken for a list of all matches, the same pairs teach that nearly every match is none."""
    items = people()
    told = linker(training=training).fit(unlabelled(items), pairs=labels(60, 60))
    assert told.score(items) > 0.9
    yes = labels(60, 60)[lambda frame: frame["match"]]
    number = {items.name(i): i for i in range(items.n_items)}
    closed = np.arange(items.n_items)
    for a, b in zip(yes["left"], yes["right"], strict=True):
        closed[closed == closed[number[b]]] = closed[number[a]]
    assert linker(training=training, clusterer=None).fit(replace(items, clusters=closed)).score(items) < 0.8


@pytest.mark.parametrize("n", [4, 8, 12, 18, 30])
def test_a_handful_of_labelled_pairs_will_do(n: int):
    scores = [
        linker().fit(unlabelled(people()), pairs=labels(n_yes, n - n_yes, seed)).score(people())
        for seed in range(2)
        for n_yes in (n // 2, n // 4)
    ]
    assert min(scores) > 0.6 and np.mean(scores) > 0.75


def always_alike(left: Any, right: Any) -> float:
    return 1.0


def test_a_model_that_tells_no_pairs_apart_is_warned_of():
    items = people().with_columns(same=["x"] * people().n_items)
    compared = [kf.PairFunction(always_alike, "same")]  # of which nothing is known without labels
    with pytest.warns(DataWarning, match="gives all .* pairs of the training data practically the same prob.* 0.5"):
        kf.Linker(compared, n_jobs=1).fit(unlabelled(items), pairs=labels(20, 20))


def test_labelled_pairs_move_what_is_learned_without_labels():
    """Labels against the clusters of the model without labels, which is where training begins."""
    items = unlabelled(people())
    before = linker(training="local").fit(items)
    clusters = before.predict(items)
    wrong = np.flatnonzero(clusters[items.left] == clusters[items.right])[:6]
    name = items.name
    pairs = [(name(int(items.left[k])), name(int(items.right[k])), False) for k in wrong]
    after = linker(training="local").fit(items, pairs=pairs)
    assert (before.learned_from_, after.learned_from_) == ("records", "pairs")
    assert (after.predict_proba(items)[wrong] < before.predict_proba(items)[wrong]).all()


def test_labels_that_clusters_get_right_already_leave_the_clusters():
    items = unlabelled(people())
    before = linker(training="local").fit(items)
    clusters = before.predict(items)
    right = [k for k in range(items.n_pairs) if clusters[items.left[k]] == clusters[items.right[k]]][:6]
    name = items.name
    pairs = [(name(int(items.left[k])), name(int(items.right[k])), True) for k in right]
    after = linker(training="local").fit(items, pairs=pairs)
    np.testing.assert_array_equal(after.predict(items), clusters)


@pytest.mark.parametrize("e_step", E_STEPS)
def test_structured_rounds_ask_for_labelled_pairs_alone(e_step: str):
    told = linker(e_step=e_step, rounds=3).fit(unlabelled(people()), pairs=labels(40, 80))
    assert all(one.positives <= 40 for one in told.rounds_)
    assert list(told.rounds_[0].scores) == ["pair_f1"] and told.score(people()) > 0.85


def test_the_threshold_is_chosen_by_labelled_pairs():
    told = linker(folds=3).fit(unlabelled(people()), pairs=labels(60, 120))
    assert 0 < told.clusterer_.threshold < 1 and told.score(people()) > 0.85


def test_labelled_pairs_that_are_no_candidates_teach_too(caplog: pytest.LogCaptureFixture):
    items, told = people(), labels(40, 80)
    few = items.with_pairs(items.left[:50], items.right[:50])
    known = pair_labels(items, told)
    lacking = (
        len(known)
        - np.isin(known.right.astype(int) * 10**6 + known.left, few.right.astype(int) * 10**6 + few.left).sum()
    )
    with caplog.at_level(logging.INFO, "kinfolk"):
        found = linker(training="local").fit(unlabelled(few), pairs=told)
    assert f"{lacking} of 120 labelled pairs are no candidates" in caplog.text and lacking > 90
    assert found.rounds_[0].positives <= 40 and found.predict_proba(few).shape == (50,)


def test_labels_of_two_tables():
    """The first id is of the first table, even where both have it."""
    names = ["anna bell", "bert cole", "carl dean", "dora eck", "emil fox", "fred gray"]
    one = pd.DataFrame({"id": range(6), "name": names})
    two = pd.DataFrame({"id": range(6), "name": [f"{name}s" for name in names[::-1]]})
    items = kf.records_from_frames(one, two)
    pairs = [(i, j, i + j == 5) for i in range(6) for j in range(6) if (i + j) % 2]
    found = pair_labels(items, pairs)
    assert [(a, b) for a, b, m in zip(found.left, found.right, found.match, strict=True) if m] == [
        (5, 6), (4, 7), (3, 8), (2, 9), (1, 10), (0, 11)
    ]  # fmt: skip
    told = kf.Linker(["jaro_winkler(name)"], training="local", n_jobs=1).fit(items, pairs=pairs)
    probability = told.predict_proba(items)
    assert told.candidates(items).n_pairs == len(probability) == 36
    apart = pd.DataFrame({"id": ["x", "y"], "name": ["a", "b"]})
    with pytest.raises(InputError, match="pairs, row 0: 'x' is no record of the first table; the ids of the first"):
        pair_labels(kf.records_from_frames(one, apart), [("x", 0, 1)])


# -- what is a label ----------------------------------------------------------------------------------

FIVE = kf.records_from_frames(pd.DataFrame({"id": list("abcde"), "v": list("vwxyz")}))
SAME: dict[str, list[Any]] = {
    "truth values": [True, False, None, True],
    "numbers": [1, 0, None, 1.0],
    "words": ["yes", " No ", "", "TRUE"],
    "words of others": ["match", "distinct", "unsure", "Match"],
    "written numbers": ["1", "0.0", None, "1.0"],
}


@pytest.mark.parametrize("match", SAME.values(), ids=SAME.keys())
@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table, list], ids=["pandas", "polars", "arrow", "list"]
)
def test_yes_no_and_not_known(make: Any, match: list[Any]):
    columns: dict[str, list[Any]] = {"left": ["a", "c", "a", "e"], "right": ["b", "b", "d", "d"], "match": match}
    if make is pl.DataFrame:
        make = functools.partial(pl.DataFrame, strict=False)
    pairs = list(zip(*columns.values(), strict=True)) if make is list else make(columns)
    found = pair_labels(FIVE, pairs)
    assert [found.left.tolist(), found.right.tolist(), found.match.tolist()] == [[0, 1, 3], [1, 2, 4], [1, 0, 1]]


def test_columns_by_name_by_habit_and_by_place():
    frame = pd.DataFrame({"note": ["x"], "match": [1], "right": ["b"], "left": ["a"]})
    assert pair_labels(FIVE, frame).match.tolist() == [1]
    splink = pd.DataFrame({"unique_id_l": ["a"], "unique_id_r": ["b"], "clerical_match_score": [0.0]})
    assert pair_labels(FIVE, splink).match.tolist() == [0]
    more = splink.assign(note="x")
    told = pair_labels(FIVE, more, left="unique_id_l", right="unique_id_r", match="clerical_match_score")
    assert told.match.tolist() == [0]
    with pytest.raises(
        InputError, match=r"expected the columns 'left', 'right' and 'match'.*name one with `left=\.\.\.`"
    ):
        pair_labels(FIVE, more)
    with pytest.raises(InputError, match=r"no column 'same' \(match\)"):
        pair_labels(FIVE, splink, match="same")
    with pytest.raises(SettingError, match="three columns"):
        pair_labels(FIVE, splink, match="unique_id_l")


def test_a_pair_said_twice_counts_once_and_never_with_itself(caplog: pytest.LogCaptureFixture):
    found = pair_labels(FIVE, [("a", "b", 1), ("b", "a", "yes"), ("c", "c", 1), ("d", "c", 0), ("d", "c", None)])
    assert isinstance(found, PairLabels) and len(found) == 2 and found.match.tolist() == [1, 0]
    assert "1 rows pair a record with itself" in caplog.text
    pair_labels(FIVE, [("a", "b", 1), ("b", "c", 1), ("a", "c", 0)])
    assert "pairs: labels contradict each other: 'a' = 'b' = 'c', but 'a' ≠ 'c'; no clusters fit" in caplog.text


def test_the_whole_chain_of_a_contradiction_is_named_and_the_no_is_left_out(caplog: pytest.LogCaptureFixture):
    yes = [("a", "b", 1), ("b", "c", 1), ("c", "d", 1)]
    found = pair_labels(FIVE, [*yes, ("d", "a", 0), ("e", "a", 0), ("b", "d", 0)])
    assert "'a' = 'b' = 'c' = 'd', but 'a' ≠ 'd', and 1 more such pair; no clusters fit" in caplog.text
    kept, alone = found.without_contradictions(5), pair_labels(FIVE, [*yes, ("e", "a", 0)])
    assert [kept.left.tolist(), kept.match.tolist()] == [alone.left.tolist(), alone.match.tolist()]
    against, without = (
        kf.Linker(["edit(v)"], n_jobs=1).fit(FIVE, pairs=[*yes, ("e", "a", 0), *more]) for more in ([("a", "d", 0)], [])
    )
    np.testing.assert_array_equal(against.weights_, without.weights_)


REFUSED: dict[str, tuple[Any, str]] = {
    "a score": ([("a", "b", 1), ("a", "c", 8.7)], "row 1: .*expected yes or no.*'8.7'; a score beyond 0 and 1 is no"),
    "a weight": ([("a", "b", "-3.5")], "a score beyond 0 and 1 is no label"),
    "a word": ([("a", "b", "perhaps")], "expected yes or no.*got 'perhaps'; write one of these"),
    "yes and no": ([("a", "b", 1), ("b", "a", 0)], "row 1: 'b' and 'a' are a match and none: pairs, row 0 says"),
    "an unknown id": ([("a", "q", 1)], "row 0: no record has the id 'q'; correct it or take the row out"),
    "a missing id": ([("a", None, 1)], "the id is missing"),
    "two of a row": ([("a", "b")], r"row 0: expected \(left id, right id, match\)"),
    "no table": ("labels.csv", "expected a table of pandas, polars, Arrow or DuckDB, got builtins.str"),
    "dates": (pd.DataFrame({"l": ["a"], "r": ["b"], "m": pd.to_datetime(["2020-01-01"])}), "expected yes or no, got"),
}  # fmt: skip


@pytest.mark.parametrize(("pairs", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_label(pairs: Any, message: str):
    with pytest.raises(InputError, match=message):
        pair_labels(FIVE, pairs)


ONE_SIDED = {
    "nothing known": ([("a", "b", None)], "no labelled pair says yes or no"),
    "no rows": ([], "no labelled pair says yes or no"),
}


@pytest.mark.parametrize(("pairs", "message"), ONE_SIDED.values(), ids=ONE_SIDED.keys())
def test_labels_that_teach_nothing(pairs: Any, message: str):
    with pytest.raises(InputError, match=message):
        kf.Linker(["edit(v)"]).fit(FIVE, pairs=pairs)


@pytest.mark.parametrize(("match", "message"), [
    (1, "all 2 labelled pairs are matches.*no matches too.*truth="),
    (0, "none of 2 labelled pairs is a match; label some that are"),
])  # fmt: skip
def test_one_answer_teaches_nothing_where_nothing_is_known_without_labels(match: int, message: str):
    pairs = [("a", "b", match), ("c", "d", match)]
    with pytest.raises(InputError, match=message):
        kf.Linker([kf.PairFunction(always_alike, "v")]).fit(FIVE, pairs=pairs)
    assert len(kf.Linker(["edit(v)"], n_jobs=1).fit(FIVE, pairs=pairs).predict(FIVE)) == 5


def test_a_metric_of_clusters_cannot_choose_the_round():
    with pytest.raises(SettingError, match="select must be 'pair_f1' or 'pair_accuracy' where labelled pairs teach"):
        linker(select="b_cubed_f1").fit(unlabelled(people()), pairs=labels(10, 10))


def test_mentions_of_a_text_have_clusters():
    corpus = kf.Corpus({"word": kf.Column.from_strings("John saw him".split())}, [0, 3], [0, 1])
    items = kf.Mentions.from_groups([0, 0], {}, clusters=[0, 0], corpus=corpus, spans=np.array([(0, 1), (2, 3)]))
    with pytest.raises(SettingError, match="pairs are labels of records"):
        kf.Linker().fit(items, pairs=[("0", "1", True)])


# -- scores -------------------------------------------------------------------------------------------


def test_scores_of_labelled_pairs(tmp_path: Any):
    items, told = people(), labels(60, 60)
    model, asked = linker().fit(unlabelled(items), pairs=told), labels(50, 150, seed=7)
    known = pair_labels(items, asked)
    scores = model.evaluate(unlabelled(items), pairs=asked)
    assert list(scores) == ["pairs before", "pairs"]
    clusters, yes = model.predict(items), known.match == 1
    together = clusters[known.left] == clusters[known.right]
    assert scores["pairs"]["recall"] == pytest.approx(together[yes].mean())
    assert scores["pairs"]["precision"] == pytest.approx(yes[together].mean()) and scores["pairs"]["pairs"] == 200
    number = {pair: k for k, pair in enumerate(zip(items.left.tolist(), items.right.tolist(), strict=True))}
    places = [number[pair] for pair in zip(known.left.tolist(), known.right.tolist(), strict=True)]
    linked = model.predict_proba(items)[places] > 0.5
    assert scores["pairs before"]["recall"] == pytest.approx(linked[yes].mean())
    none = model.evaluate(unlabelled(items.with_pairs([], [])), pairs=asked)
    assert none["pairs before"]["recall"] == none["pairs"]["recall"] == 0.0, "what is no candidate is not linked"
    with pytest.raises(SettingError, match="needs true clusters"):
        model.evaluate(items, tmp_path / "page.html", pairs=asked)
    with pytest.raises(InputError, match=r"no true clusters to compare with.*pairs=\.\.\."):
        model.evaluate(unlabelled(items))
