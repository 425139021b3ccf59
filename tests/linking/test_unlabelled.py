"""Linkers that learn without labels: the mixture of fields by enumeration, and whole fits."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.linking.comparisons import as_comparisons, default_comparisons
from kinfolk.linking.fellegi_sunter import CodedRows, FieldWeights, counts_for, fellegi_sunter, field_terms
from kinfolk.linking.pairs import texts_of
from kinfolk.linking.scores import pairs_after
from kinfolk.linking.unlabelled import (
    ALIKE,
    SIZE,
    Agreement,
    across_unknown_tables,
    exchanged,
    field_matches,
    learned_weights,
    share_values,
)

RULES = ["key(id_number)", "key(date_of_birth + given_name[:1])", "key(postcode + surname[:2])", "sorted(surname, 8)"]


def customers(n: int = 600, seed: int = 0, **told: Any) -> kf.Mentions:
    return kf.block(kf.generate_customers(n, seed=seed, **told), RULES)


def bare(items: kf.Mentions) -> kf.Mentions:
    return replace(items, clusters=None)


# -- fields that are exchanged --------------------------------------------------------------------------

NAMES = st.sampled_from(["Ann", "Bo", "Cy", "Di", None])


def people(rows: list[tuple[str | None, str | None]]) -> kf.Mentions:
    given, surname = (kf.Column.from_strings(column) for column in zip(*rows, strict=True))
    groups = np.zeros(len(rows), np.int32)
    none = np.empty(0, np.int32)
    return kf.Mentions({"given": given, "surname": surname}, groups, none, none, blocked=False)


@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=6))
def test_exchanged_values_beside_a_loop_over_pairs(rows: list[tuple[str | None, str | None]]):
    items = people(rows)
    one, other = (texts_of(items, [name]) for name in ("given", "surname"))
    left, right = np.indices((len(rows), len(rows)), np.int32).reshape(2, -1)
    expected = [
        None not in (*rows[i], *rows[j]) and rows[i] == rows[j][::-1] and rows[i] != rows[j]
        for i, j in zip(left, right, strict=True)
    ]
    assert exchanged(one, other)(left, right).tolist() == expected


@pytest.mark.parametrize(
    ("given_names", "surnames", "expected"),
    [
        (["Ann", "Bo"], ["Li", "Wu"], False),
        (["Ann", "Bo"], ["Li", "Ann"], True),
        (["Ann", "Wu"], ["Wu", "Ann"], True),
        ([None, None], [None, None], False),
        (["Ann", *["Bo"] * 60], ["Ann", *["Li"] * 60], False),
        (["Ann", *["Bo"] * 30], ["Ann", *["Li"] * 30], True),
    ],
)
def test_fields_that_share_values(given_names: list[Any], surnames: list[Any], expected: bool):
    items = people(list(zip(given_names, surnames, strict=True)))
    one, other = (texts_of(items, [name]) for name in ("given", "surname"))
    assert share_values(one, other) == share_values(other, one) == expected


def test_exchanged_values_are_coded_as_if_they_stood_in_their_places():
    rows = [("Ann", "Wu"), ("Wu", "Ann"), ("Ann", "Wu"), ("Wu", "Li"), ("Ann", None)]
    items = people(rows)
    coder = Agreement.of(as_comparisons(["jaro_winkler(given)", "jaro_winkler(surname)"])).coder(items)
    code = {(i, j): coder(np.array([i]), np.array([j]))[0].tolist() for i in range(5) for j in range(5)}
    assert code[0, 1] == code[0, 2], "as equal names are"
    assert all(value > ALIKE for value in code[0, 1])
    assert code[0, 3][0] <= ALIKE and code[0, 3][1] <= ALIKE, "half an exchange is none"
    assert code[0, 4] == [code[0, 2][0], 0]


def test_records_whose_names_are_exchanged_are_linked_without_labels():
    """Those of a duplicate in three, where little else is compared."""
    items = customers(300, seed=3, swapped=0.3, typos=0.0)
    items = replace(items, columns={name: items.columns[name] for name in ("given_name", "surname", "postcode")})
    guess = field_matches(bare(items), default_comparisons(items), 1).guess()
    linker = kf.Linker(n_jobs=1).fit(bare(items))
    for clusters in (guess.items.clusters, linker.predict(items)):
        found = pairs_after(items, clusters)
        assert found.precision > 0.9 and found.recall > 0.9


# -- the mixture of fields ------------------------------------------------------------------------------


def drawn(n: int, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Codes of pairs of three fields, with the frequencies below, and which are matches."""
    match = rng.random(n) < share
    codes = np.zeros((n, 3), np.uint8)
    for k in range(3):
        codes[match, k] = rng.choice(4, int(match.sum()), p=M[k])
        codes[~match, k] = rng.choice(4, int((~match).sum()), p=U[k])
    return codes, match


M = [[0.1, 0.05, 0.15, 0.7], [0.2, 0.05, 0.05, 0.7], [0.0, 0.1, 0.3, 0.6]]
U = [[0.1, 0.7, 0.15, 0.05], [0.2, 0.6, 0.15, 0.05], [0.0, 0.8, 0.15, 0.05]]


def test_frequencies_that_codes_were_drawn_by_are_found_again():
    codes, match = drawn(200_000, 0.1, np.random.default_rng(0))
    rows, counts = np.unique(codes, axis=0, return_counts=True)
    start = (rows >= 2).mean(axis=1) * 0.9 + 0.05
    found = fellegi_sunter(CodedRows(rows, counts), np.array([4, 4, 4]), start)
    assert found.settled and found.share == pytest.approx(match.mean(), abs=0.01)
    for k in range(3):
        known_m, known_u = (np.array(of[k])[1:] / (1 - of[k][0]) for of in (M, U))
        np.testing.assert_allclose(found.terms[k][1:], np.log(known_m / known_u), atol=0.15)
        assert found.terms[k][0] == 0.0, "a missing value says nothing"


def test_scores_are_bayes_rule():
    """Beside the probability of both answers, multiplied out."""
    terms = [np.log(np.array([1.0, *np.divide(m[1:], u[1:])])) for m, u in zip(M, U, strict=True)]
    weights = FieldWeights(float(np.log(0.2 / 0.8)), terms, 0.2, np.ones(3), True)
    for codes in itertools.product(range(4), repeat=3):
        yes = 0.2 * np.prod([M[k][c] if c else 1.0 for k, c in enumerate(codes)])
        no = 0.8 * np.prod([U[k][c] if c else 1.0 for k, c in enumerate(codes)])
        assert weights.scores(np.array([codes]))[0] == pytest.approx(np.log(yes / no))


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 50), st.floats(0, 50)), min_size=1, max_size=12))
@settings(deadline=None, max_examples=60)
def test_closer_agreement_never_speaks_against_a_match(rows: list[tuple[int, float, float]]):
    codes, matches, others = (np.array(column) for column in zip(*rows, strict=True))
    terms = field_terms(codes.astype(np.int64), matches, others, 6)
    assert terms[0] == 0.0 and (np.diff(terms[1:]) >= -1e-9).all() and np.isfinite(terms).all()


def test_a_field_that_stands_there_twice_counts_once():
    codes, _ = drawn(50_000, 0.1, np.random.default_rng(1))
    twice = np.concatenate([codes, codes[:, :1]], axis=1)
    rows, counts = np.unique(twice, axis=0, return_counts=True)
    start = (rows[:, :3] >= 2).mean(axis=1) * 0.9 + 0.05
    found = fellegi_sunter(CodedRows(rows, counts), np.full(4, 4), start)
    assert found.counts_for[[0, 3]] == pytest.approx([0.5, 0.5], abs=0.02)
    assert (found.counts_for[1:3] > 0.95).all()


def test_what_all_candidates_agree_on_is_evidence_beside_pairs_drawn_at_random():
    """All candidates agree on the last field, as blocking by it makes them; of random pairs few do."""
    codes, _ = drawn(50_000, 0.1, np.random.default_rng(2))
    rows, counts = np.unique(codes, axis=0, return_counts=True)
    rows = np.concatenate([rows, np.full((len(rows), 1), 3, np.uint8)], axis=1)
    start, sizes = (rows[:, :3] >= 2).mean(axis=1) * 0.9 + 0.05, np.full(4, 4)
    alone = fellegi_sunter(CodedRows(rows, counts), sizes, start)
    assert alone.terms[3][3] == 0.0
    random = CodedRows(np.array([[1, 1, 1, 1], [1, 1, 1, 3]], np.uint8), np.array([95, 5]))
    beside = fellegi_sunter(CodedRows(rows, counts), sizes, start, random)
    # of nine others to a match, and one that is drawn, 9.05 of 10 agree
    assert beside.terms[3][3] == pytest.approx(np.log(10 / 9.05), abs=0.02)
    assert beside.share == pytest.approx(alone.share, rel=0.1), "it is the share among the candidates"


def test_a_start_that_finds_records_of_one_town_is_taken_back():
    """Candidates share a town or a name; town, postcode and state say the same thing."""
    rng = np.random.default_rng(4)
    match, town = rng.random(20_000) < 0.03, rng.random(20_000) < 0.3
    name = np.where(match, rng.choice([3, 2], 20_000, p=[0.9, 0.1]), rng.choice([1, 3], 20_000, p=[0.95, 0.05]))
    born = np.where(match, rng.choice([3, 1], 20_000, p=[0.9, 0.1]), rng.choice([1, 3], 20_000, p=[0.98, 0.02]))
    level = np.where(match | town, 3 + ALIKE, 1)
    codes = np.stack([np.where(name > 1, name + ALIKE, 1), np.where(born > 1, born + ALIKE, 1), level, level, level], 1)
    rows, counts = np.unique(codes.astype(np.uint8), axis=0, return_counts=True)
    random = CodedRows(np.array([[1, 1, 1, 1, 1], [1, 1, 11, 11, 11]], np.uint8), np.array([9000, 1000]))
    weights, left_out = learned_weights(CodedRows(rows, counts), random, 10_000_000, np.full(5, SIZE))
    found = weights.scores(codes) > 0
    assert 2 * (found & match).sum() / (found.sum() + match.sum()) > 0.9 and left_out < 1.0


def test_matches_that_differ_in_several_fields_at_once_count_one_difference():
    rng = np.random.default_rng(3)
    codes, match = drawn(50_000, 0.2, rng)
    other_edition = match & (rng.random(len(match)) < 0.3)
    codes[:, 1:] = 3
    codes[~match] = np.where(rng.random((int((~match).sum()), 3)) < 0.95, 1, 3)
    codes[other_edition, 1:] = 1
    rows, counts = np.unique(codes, axis=0, return_counts=True)
    start = (rows >= 2).mean(axis=1) * 0.9 + 0.05
    terms = fellegi_sunter(CodedRows(rows, counts), np.full(3, 4), start).terms
    by_row = np.stack([terms[k][rows[:, k]] for k in range(3)], axis=1)
    assert (np.log(0.3 / 0.95) < [terms[1][1], terms[2][1]]).all(), "less than each would count alone"
    assert counts_for(np.minimum(by_row[:, 1:], 0), counts * (rows[:, 0] > 1)) == pytest.approx([0.5, 0.5], abs=0.1)


# -- whole fits ---------------------------------------------------------------------------------------


def test_customers_are_found_without_labels(caplog: pytest.LogCaptureFixture):
    items = customers()
    model = kf.Linker(n_jobs=1).fit(bare(items))
    assert model.learned_from_ == "records" and model.score(items) > 0.97
    assert "no labels are given" in caplog.text and "ActiveLinker" in caplog.text
    other = customers(400, seed=1)
    assert model.score(other) > 0.95, "records it has not seen"


def test_clusters_of_the_records_have_no_part_in_it():
    """Other than for the log there is no way for a truth that is not given to get in."""
    items = customers(300)
    one, other = (kf.Linker(n_jobs=1).fit(bare(of)) for of in (items, items))
    np.testing.assert_array_equal(one.weights_, other.weights_)
    np.testing.assert_array_equal(one.predict(bare(items)), one.predict(items))


def test_a_table_without_duplicates_stays_as_it_is(caplog: pytest.LogCaptureFixture):
    items = customers(800, duplicates=0.0)
    model = kf.Linker(n_jobs=1).fit(bare(items))
    assert len(np.unique(model.predict(bare(items)))) == items.n_items
    assert "every record is a cluster of its own" in caplog.text or "Nothing is linked" in caplog.text


def test_small_tables_need_no_blocking_rules():
    """Then all pairs are candidates, and state, suburb and postcode agree together."""
    for seed in (1, 5):
        items = kf.generate_customers(300, seed=seed)
        assert kf.Linker(n_jobs=1).fit(replace(items, clusters=None)).score(items) > 0.97
    single = replace(kf.generate_customers(300, duplicates=0.0, seed=5), clusters=None)
    assert len(np.unique(kf.Linker(n_jobs=1).fit(single).predict(single))) == 300


def test_fields_that_repeat_others_do_no_harm(caplog: pytest.LogCaptureFixture):
    items = customers()
    given, surname = (items.columns[name].strings() for name in ("given_name", "surname"))
    whole = [" ".join(filter(None, both)) or None for both in zip(given, surname, strict=True)]
    model = kf.Linker(n_jobs=1).fit(bare(items.with_columns(name=whole, again=whole)))
    assert model.score(items.with_columns(name=whole, again=whole)) > 0.97
    assert "fields that repeat others count less" in caplog.text and "again 0." in caplog.text


def test_the_model_file_says_what_was_learned_from(tmp_path: Any):
    items = customers(300)
    kf.Linker(n_jobs=1).fit(bare(items)).save(tmp_path / "model")
    loaded = kf.load_model(tmp_path / "model")
    assert loaded.learned_from_ == "records"
    assert loaded.score(items) > 0.9


def test_nothing_to_compare_by_is_said():
    items = customers(50)
    function = kf.PairFunction(lambda a, b: 1.0, "surname", "same")
    with pytest.raises(kf.KinfolkError, match="without clusters a linker learns from comparisons of single fields"):
        kf.Linker([function], n_jobs=1).fit(bare(items))
    with pytest.raises(kf.KinfolkError, match="no candidate pair to learn from"):
        kf.Linker(n_jobs=1).fit(bare(items.with_pairs([], [])))


SEVERAL = {
    "nobody": ([], "OneToOne()"),
    "of the first": ([(0, 10), (1, 11)], "OneToMany(each='second')"),
    "of the second": ([(4, 6), (5, 7)], "OneToMany(each='first')"),
    "of both": ([(0, 10), (1, 11), (4, 6), (5, 7)], "OneToOne()"),
}


@pytest.mark.parametrize(("more", "clusterer"), SEVERAL.values(), ids=SEVERAL.keys())
def test_which_of_two_tables_has_several_partners(more: list[tuple[int, int]], clusterer: str):
    """Records 0 to 3 are the matches of 6 to 9; other pairs are as likely as most of these, though none is a best one.

    Where both tables have such pairs, they are taken for look-alikes.
    """
    pairs = sorted([(k, k + 6) for k in range(4)] + more, key=lambda pair: pair[::-1])
    items = kf.Mentions({}, np.zeros(12, np.int32), *np.array(pairs, np.int32).T, first_table=6)
    score = np.array([[6.0, 6.0, 6.0, 3.0][a] if b - a == 6 else 5.0 for a, b in pairs])
    assert repr(across_unknown_tables(items, score)) == clusterer
    assert repr(across_unknown_tables(items, score - 10)) == "OneToOne()", "no pair is likely"
