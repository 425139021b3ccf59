"""Records with nothing set: closure of candidate pairs, the clusterer of two tables, blocking that misses."""

from __future__ import annotations

import functools
import logging
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import DataWarning, SettingError
from kinfolk.inference.clustering import LARGEST, missing_pairs
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.training import ROUNDS, places_among, sigmoid, with_closure
from kinfolk.papers.structured import halves

RULES = ["key(postcode)", "sorted(surname + given_name, 5)"]


@functools.cache
def customers(seed: int = 1, half: int = 0) -> Mentions:
    return halves(kf.generate_customers(1_000, seed=seed), 0)[half]


@functools.cache
def fitted(**settings: Any) -> kf.Linker:
    return kf.Linker(blocking=RULES, training="local", n_jobs=1, **{"clusterer": None, **settings}).fit(customers())


# -- closure ------------------------------------------------------------------------------------------


def test_pairs_that_blocking_left_out_inside_clusters_are_compared():
    test = customers(half=1)
    closed, plain = fitted(), fitted(closure=False)
    assert closed.score(test) > plain.score(test) + 0.005
    items, probability = closed.compared(test)
    candidates = closed.candidates(test)
    before = set(zip(candidates.left.tolist(), candidates.right.tolist(), strict=True))
    after = list(zip(items.left.tolist(), items.right.tolist(), strict=True))
    assert before < set(after), "the candidates and more"
    assert after == sorted(after, key=lambda pair: pair[::-1]), "in the order of Mentions"
    np.testing.assert_allclose(probability, closed.predict_proba(items), rtol=1e-12)
    np.testing.assert_array_equal(closed.cluster(items, probability), closed.predict(test))
    np.testing.assert_array_equal(closed.predict(items), closed.predict(test))
    assert closed.compared(items)[0].n_pairs == items.n_pairs, "nothing is missing any more"
    clusters = closed.predict(test)
    sizes = np.bincount(clusters)
    together = clusters[items.left] == clusters[items.right]
    assert together.sum() == (sizes * (sizes - 1) // 2).sum(), "every pair of a cluster was compared"


def test_without_closure_only_candidates_count():
    test = customers(half=1)
    model = fitted(closure=False)
    items, probability = model.compared(test)
    assert items.n_pairs == model.candidates(test).n_pairs
    np.testing.assert_array_equal(probability, model.predict_proba(test))


@pytest.mark.parametrize("clusterer", [kf.SingleLink(), kf.BestLink()])
def test_clusterers_that_do_not_look_at_all_pairs_need_no_closure(clusterer: Any):
    test = customers(half=1)
    model = fitted(clusterer=clusterer)
    assert model.compared(test)[0].n_pairs == model.candidates(test).n_pairs


def test_closure_is_told_in_a_line(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "kinfolk"):
        fitted().predict(customers(half=1))
    assert sum("inside likely clusters that blocking left out" in one.getMessage() for one in caplog.records) == 1


def test_evaluation_and_explanations_see_the_same_pairs():
    test, model = customers(half=1), fitted()
    items, _ = model.compared(test)
    found = model.evaluate(test)
    clusters = model.predict(test)
    assert found["pairs"]["f1"] == pytest.approx(model.score(test))
    told = model.explain_clusters(test, most=200)
    members = {frozenset(test.name(i) for i in np.flatnonzero(clusters == c)) for c in range(clusters.max() + 1)}
    assert told and {frozenset(one.items) for one in told} <= members
    assert items.n_pairs > model.candidates(test).n_pairs


def chain(*sizes: int) -> Mentions:
    """Entities of so many records, each with a name of its own; candidates are neighbours alone."""
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    names = kf.Column.from_strings(f"name {entity}" for entity in clusters)
    left = np.arange(len(clusters) - 1, dtype=np.int32)
    return kf.Mentions({"name": names}, np.zeros(len(clusters), np.int32), left, left + 1, clusters=clusters)


def test_clusters_too_large_to_look_into_are_told_of(caplog: pytest.LogCaptureFixture):
    model = kf.Linker(["exact(name)"], training="local", n_jobs=1).fit(chain(*[5] * 30))
    closed = model.predict(chain(LARGEST, 2))
    assert closed.max() == 1, "a chain of neighbours is one cluster once all pairs are compared"
    with caplog.at_level(logging.WARNING, "kinfolk"):
        model.predict(chain(LARGEST + 1, 2))
    assert f"over {LARGEST} records" in caplog.text


def test_closure_is_a_setting_that_is_checked_and_kept(tmp_path: Any):
    with pytest.raises(SettingError, match=r"closure=...\) must be True or False; got 'no'"):
        kf.Linker(closure="no").fit(customers())
    fitted(closure=False).save(tmp_path / "m.kinfolk")
    assert kf.load_model(tmp_path / "m.kinfolk").closure is False


def test_a_table_without_pairs_or_records():
    model = fitted()
    empty = customers(half=1).take(np.zeros(len(customers(half=1)), bool))
    assert model.predict(empty).tolist() == []
    assert model.predict(customers(half=1).take(np.arange(1))).tolist() == [0]


# -- two tables ---------------------------------------------------------------------------------------


@functools.cache
def orders(copies: int = 3, swapped: bool = False, seed: int = 0) -> Mentions:
    """Customers and their orders, `copies` for each: names with a slip each, and a town."""
    rng = np.random.default_rng(seed)
    syllables = "an be cor dul es fi gar ho im ja ku lo mar ne os per".split()
    customers, placed = [], []
    for entity in range(40):
        name = "".join(rng.choice(syllables, 4))
        town = str(rng.choice(["Rome", "Oslo", "Lima", "Bern"]))
        customers.append((name, town, entity))
        for _ in range(copies):
            at = int(rng.integers(len(name)))
            slip = name[:at] + str(rng.choice(list("xyz"))) + name[at + 1 :]
            placed.append((slip if rng.random() < 0.7 else name, town if rng.random() < 0.8 else "Kiel", entity))
    first, second = (customers, placed) if swapped else (placed, customers)
    rows = [*first, *second]
    left = np.tile(np.arange(len(first), dtype=np.int32), len(second))
    right = np.repeat(np.arange(len(first), len(rows), dtype=np.int32), len(first))
    columns = {"name": kf.Column.from_strings(r[0] for r in rows), "town": kf.Column.from_strings(r[1] for r in rows)}
    return kf.Mentions(
        columns, np.zeros(len(rows), np.int32), left, right, clusters=[r[2] for r in rows], first_table=len(first)
    )


@pytest.mark.parametrize(("swapped", "each"), [(False, "first"), (True, "second")])
def test_many_records_to_one_in_two_tables(swapped: bool, each: str):
    """Every order goes to its best customer; average link over all pairs lost a third of them."""
    model = kf.Linker(n_jobs=1).fit(orders(3, swapped))
    assert repr(model.clusterer_) == repr(kf.OneToMany(each=each))
    found = model.evaluate(orders(3, swapped, seed=1))["pairs"]
    assert found["recall"] > 0.95 and found["precision"] > 0.95


def test_two_tables_one_to_one():
    model = kf.Linker(n_jobs=1).fit(orders(1))
    assert isinstance(model.clusterer_, kf.OneToOne)
    clusters = model.predict(orders(1, seed=1))
    assert np.bincount(clusters).max() == 2


def test_several_on_both_sides_take_the_best_of_both():
    items = orders(2)
    twice = np.asarray(items.clusters) // 2  # two customers with two orders each become one entity
    model = kf.Linker(n_jobs=1).fit(
        kf.Mentions(items.columns, items.groups, items.left, items.right, twice, first_table=items.first_table)
    )
    assert repr(model.clusterer_) == repr(kf.OneToMany(each="both"))


# -- blocking that misses -----------------------------------------------------------------------------


def test_blocking_that_misses_true_pairs_is_warned_of_by_rule():
    told = r"blocking \(key\(phone\) [\d.]+ % by itself\) puts only [\d.]+ % .*add a rule"
    with pytest.warns(DataWarning, match=told):
        kf.Linker(blocking=["key(phone)"], training="local", n_jobs=1).fit(without_phones())


def test_candidates_that_come_with_the_items_are_told_of_by_the_rules_set():
    items = kf.block(without_phones(), ["key(phone)"])
    with pytest.warns(DataWarning, match=r"blocking puts only"):
        kf.Linker(training="local", n_jobs=1).fit(items)


def test_blocking_that_reaches_pairs_through_other_records_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kf.Linker(["exact(name)"], training="local", n_jobs=1).fit(chain(*[5] * 30))


@functools.cache
def without_phones() -> Mentions:
    """Customers of whom a third left their telephone number out."""
    items = customers()
    rng = np.random.default_rng(0)
    phones = [None if rng.random() < 0.34 else f"{entity // 2:06d}" for entity in np.asarray(items.clusters)]
    return items.with_columns(phone=kf.Column.from_strings(phones))


def test_a_few_labelled_pairs_do_not_show_that_tables_are_one_to_one():
    """Each order among the labelled has one customer, as far as is known."""
    items = orders(3)
    first = items.first_table
    pairs = [(i, first + i // 3, 1) for i in range(0, 60, 3)] + [(i, first + 39 - i // 3, 0) for i in range(0, 57, 3)]
    model = kf.Linker(n_jobs=1, training="local").fit(replace(items, clusters=None), pairs=pairs)
    assert repr(model.clusterer_) == repr(kf.OneToMany(each="first"))
    assert model.evaluate(orders(3, seed=1))["pairs"]["recall"] > 0.9


# -- closure beside its definition, with all pairs and no shortcuts ---------------------------------------


def some_items(n: int, first_table: int | None, pairs: list[tuple[int, int]]) -> Mentions:
    left, right = np.array(pairs, np.int32).reshape(-1, 2).T
    return Mentions({}, np.zeros(n, np.int32), left, right, first_table=first_table)


def in_order(pairs: Any) -> list[tuple[int, int]]:
    return sorted(pairs, key=lambda pair: pair[::-1])


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 12),
    share=st.floats(0, 1),
    tables=st.booleans(),
    threshold=st.sampled_from([0.2, 0.5, 0.8]),
    seed=st.integers(0, 2**32 - 1),
)
def test_closure_is_what_its_rounds_over_all_pairs_make(
    n: int, share: float, tables: bool, threshold: float, seed: int
):
    rng = np.random.default_rng(seed)
    first, log_odds = (n // 2 if tables else None), rng.normal(0, 2, (n, n))
    possible = [(i, j) for j in range(n) for i in range(j) if first is None or i < first <= j]
    items = some_items(n, first, [pair for pair in possible if rng.random() < share])
    found, score = with_closure(
        items, log_odds[items.left, items.right], lambda m: log_odds[m.left, m.right], threshold
    )
    known = {(int(i), int(j)) for i, j in zip(items.left, items.right, strict=True)}
    for _ in range(ROUNDS):
        pairs = some_items(n, first, in_order(known))
        given_now = n, pairs.left, pairs.right, sigmoid(log_odds[pairs.left, pairs.right])
        left, right, _ = missing_pairs(*given_now, threshold, first or 0)
        if not len(left):
            break
        known |= {(int(i), int(j)) for i, j in zip(left, right, strict=True)}
    assert list(zip(found.left.tolist(), found.right.tolist(), strict=True)) == in_order(known)
    np.testing.assert_array_equal(score, log_odds[found.left, found.right])


@settings(max_examples=60, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda p: p[0] < p[1])), st.integers(0, 1 << 30))
def test_places_among_others_keep_the_order(pairs: set[tuple[int, int]], seed: int):
    rng, listed = np.random.default_rng(seed), in_order(pairs)
    new = [bool(one) for one in rng.random(len(listed)) < 0.4]
    old = some_items(10, None, [pair for pair, is_new in zip(listed, new, strict=True) if not is_new])
    added = some_items(10, None, [pair for pair, is_new in zip(listed, new, strict=True) if is_new])
    places = places_among(old.left, old.right, added)
    both = (np.insert(getattr(old, side), places, getattr(added, side)).tolist() for side in ("left", "right"))
    assert list(zip(*both, strict=True)) == listed
