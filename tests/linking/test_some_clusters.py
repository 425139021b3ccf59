"""Clusters that are known for all, some or a few of the records, and labelled pairs beside them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.linking.pair_labels import PairLabels, pair_labels
from kinfolk.linking.some_clusters import clusters_and_pairs, few_known, labels_of_clusters

FIELDS = ["jaro_winkler(surname)", "jaro_winkler(given_name)", "edit(date_of_birth)", "exact(postcode)"]


def people(n_known: int) -> tuple[kf.Mentions, kf.Mentions]:
    """Customers, and the same with the clusters of the first records alone."""
    rules = ["key(postcode)", "key(surname[:2] + given_name[:1])", "key(date_of_birth)"]
    items = kf.block(kf.generate_customers(400, seed=1), rules)
    return items, replace(items, clusters=np.where(np.arange(items.n_items) < n_known, items.clusters, -1))


def linker(**more) -> kf.Linker:
    return kf.Linker(FIELDS, n_jobs=1, **more)


def test_clusters_of_a_few_records_move_what_is_learned_without_labels() -> None:
    items, some = people(40)
    model = linker().fit(some)
    assert few_known(some) and model.learned_from_ == "some clusters" and model.score(items) > 0.9
    labels, name = labels_of_clusters(some), items.name
    ends = zip(labels.left.tolist(), labels.right.tolist(), labels.match.tolist(), strict=True)
    pairs = [(name(a), name(b), yes) for a, b, yes in ends]
    alone = linker().fit(replace(items, clusters=None), pairs=pairs)
    assert alone.learned_from_ == "pairs" and model.weights_.tobytes() == alone.weights_.tobytes()


def test_clusters_of_many_records_teach_by_themselves() -> None:
    for known in (250, 10**6):
        _, some = people(known)
        assert not few_known(some) and linker(training="local").fit(some).learned_from_ == "clusters"


def test_clusters_and_pairs_both_teach() -> None:
    items, some = people(40)
    later = np.flatnonzero((items.left >= 40) & (items.pair_labels >= 0))[:10]
    pairs = [
        (items.name(int(items.left[k])), items.name(int(items.right[k])), bool(items.pair_labels[k])) for k in later
    ]
    model = linker().fit(some, pairs=pairs)
    assert model.learned_from_ == "some clusters and pairs" and model.score(items) > 0.9


def test_clusters_that_pairs_contradict_are_named_and_right(caplog: pytest.LogCaptureFixture) -> None:
    items, some = people(40)
    k = int(np.flatnonzero(some.pair_labels == 0)[0])
    a, b = items.name(int(items.left[k])), items.name(int(items.right[k]))
    wrong, right = (linker(training="local").fit(some, pairs=[(a, b, yes)]) for yes in (True, False))
    assert (
        f"contradict each other: '{a}' = '{b}', but '{a}' ≠ '{b}'; clusters win against 1 labelled pair" in caplog.text
    )
    assert wrong.weights_.tobytes() == right.weights_.tobytes()


def test_few_others_are_as_bad_as_few_matches() -> None:
    """Of entities drawn at random, hardly any two look alike: nearly all candidate pairs among them match."""
    n = 1300
    left = np.arange(0, n, 2)
    clusters = np.where(np.arange(n) < 600, np.arange(n) // 2, -1)
    some = kf.Mentions({}, np.zeros(n), left, left + 1, clusters=clusters)
    more = some.with_pairs(np.append(left, np.arange(0, 400)), np.append(left + 1, np.arange(2, 402)))
    assert few_known(some) and (some.pair_labels == 1).sum() == 300
    assert not few_known(more) and (more.pair_labels == 0).sum() == 400


# -- Enough clusters, and pairs --------------------------------------------------------------------------


def said(items: kf.Mentions, chosen: Any, truth: Any) -> list[tuple[str, str, Any]]:
    """Labels of candidate pairs."""
    ends = zip(
        items.left[chosen].tolist(), items.right[chosen].tolist(), np.asarray(truth)[chosen].tolist(), strict=True
    )
    return [(items.name(a), items.name(b), y) for a, b, y in ends]


@pytest.mark.parametrize("training", ["structured", "combined"])
def test_where_all_clusters_are_known_pairs_change_nothing(training: str, caplog: pytest.LogCaptureFixture) -> None:
    items, _ = people(0)
    alone = linker(training=training).fit(items)
    some = said(items, slice(0, 300, 3), items.pair_labels)
    for wrong in (False, True):
        pairs = [(a, b, 1 - y if wrong and k < 2 else y) for k, (a, b, y) in enumerate(some)]
        caplog.clear()
        model = linker(training=training).fit(items, pairs=pairs)
        assert model.learned_from_ == "clusters" and model.weights_.tobytes() == alone.weights_.tobytes()
        assert repr(model.clusterer_) == repr(alone.clusterer_)
        a, b, _ = some[0]
        named = f"contradict each other: '{a}' = '{b}', but '{a}' ≠ '{b}'; clusters win against 2 labelled pairs"
        assert (named in caplog.text) == wrong and ("contradict" in caplog.text) == wrong


def test_pairs_of_two_known_records_change_nothing() -> None:
    _, some = people(250)
    pairs = said(some, np.flatnonzero(some.pair_labels >= 0)[::4], some.pair_labels)
    alone, model = linker(training="local").fit(some), linker(training="local").fit(some, pairs=pairs)
    assert model.learned_from_ == "clusters" and model.weights_.tobytes() == alone.weights_.tobytes()


def test_a_yes_puts_a_record_into_the_cluster_of_another() -> None:
    """Then it is learned from like any other: as if its cluster had been given."""
    items, some = people(250)
    known, clusters = np.asarray(some.clusters) >= 0, np.array(some.clusters)
    joins = (items.pair_labels == 1) & (known[items.left] != known[items.right])
    pairs = said(items, np.flatnonzero(joins), items.pair_labels)
    for side in (items.left[joins], items.right[joins]):
        clusters[side] = np.asarray(items.clusters)[side]
    given_ = linker().fit(replace(items, clusters=clusters))
    model = linker().fit(some, pairs=pairs)
    assert model.learned_from_ == "clusters and pairs" and (clusters >= 0).sum() > known.sum()
    assert model.weights_.tobytes() == given_.weights_.tobytes() and repr(model.clusterer_) == repr(given_.clusterer_)


@pytest.mark.parametrize("say", [bool, lambda yes: 0.9 if yes else 0.2])
def test_labels_of_records_without_known_clusters_teach_too(say: Any) -> None:
    items, some = people(250)
    away = np.flatnonzero((items.left >= 250) & (items.right >= 250))
    pairs = [(a, b, say(y)) for a, b, y in said(items, away[::2], items.pair_labels)]
    alone, model = linker().fit(some), linker().fit(some, pairs=pairs)
    assert alone.learned_from_ == "clusters" and model.learned_from_ == "clusters and pairs"
    assert not np.array_equal(alone.shares_, model.shares_) and model.score(items) > 0.95


def test_clusters_of_which_none_is_known_are_none() -> None:
    items, some = people(0)
    pairs = said(items, slice(0, 60), items.pair_labels)
    models = [linker(training="local").fit(one, pairs=pairs) for one in (some, replace(items, clusters=None))]
    assert {model.learned_from_ for model in models} == {"pairs"}
    assert models[0].weights_.tobytes() == models[1].weights_.tobytes()


# Oracle: every partition of the items that clusters and labels allow.


def partitions(n: int) -> Iterator[list[int]]:
    if n == 0:
        yield []
        return
    for rest in partitions(n - 1):
        for own in range(max(rest, default=-1) + 2):
            yield [*rest, own]


def allowed(clusters: list[int], pairs: dict[tuple[int, int], int]) -> list[list[int]]:
    n = len(clusters)
    known = {
        (i, j): int(clusters[i] == clusters[j])
        for j in range(n)
        for i in range(j)
        if min(clusters[i], clusters[j]) >= 0
    }
    facts = [*known.items(), *pairs.items()]
    return [one for one in partitions(n) if all((one[i] == one[j]) == yes for (i, j), yes in facts)]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[int], dict[tuple[int, int], int]]:
    n = draw(st.integers(2, 6))
    clusters = draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))
    ends = [(i, j) for j in range(n) for i in range(j)]
    return clusters, draw(st.dictionaries(st.sampled_from(ends), st.integers(0, 1), max_size=6))


class Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@given(worlds())
def test_labels_are_what_every_allowed_partition_says(world: tuple[list[int], dict[tuple[int, int], int]]) -> None:
    clusters, pairs = world
    n = len(clusters)
    ends = [(i, j) for j in range(n) for i in range(j)]
    items = kf.Mentions({}, np.zeros(n), *np.array(ends).T, clusters=clusters)
    order = sorted(pairs, key=lambda pair: pair[::-1])
    left, right = (np.array([pair[side] for pair in order], np.int32) for side in (0, 1))
    heard = Heard()
    log = logging.getLogger("kinfolk")
    log.addHandler(heard)
    try:
        both = clusters_and_pairs(items, PairLabels(left, right, np.array([pairs[pair] for pair in order], np.int8)))
    finally:
        log.removeHandler(heard)
    labels = dict(zip(ends, both.labels(both.items).tolist(), strict=True))
    found = allowed(clusters, pairs)
    if allowed([-1] * n, pairs):  # else labels contradict each other without clusters, which is told elsewhere
        assert bool(heard.lines) == (not found)
    for (i, j), label in labels.items():
        if min(clusters[i], clusters[j]) >= 0:
            assert label == (clusters[i] == clusters[j]), "clusters are right"
        elif found:
            together = {one[i] == one[j] for one in found}
            assert (label == 1) == (together == {True})
            assert label != 0 or together == {False}
            assert label >= 0 or (i, j) not in pairs
    taught = both.taught()
    kept = [i for i in range(n) if clusters[i] >= 0 or any(i in pair for pair in pairs)]
    own = zip(taught.items.left.tolist(), taught.items.right.tolist(), strict=True)
    again = dict(zip(own, taught.labels(taught.items).tolist(), strict=True))
    if found:
        assert again == {(kept.index(i), kept.index(j)): labels[i, j] for i, j in ends if {i, j} <= {*kept}}


def test_a_contradiction_through_other_records_is_named(caplog: pytest.LogCaptureFixture) -> None:
    left, right = np.array([(i, j) for j in range(5) for i in range(j)]).T
    items = kf.Mentions({}, np.zeros(5), left, right, clusters=[0, 0, 1, -1, -1], names=list("abcde"))
    both = clusters_and_pairs(items, pair_labels(items, [("a", "d", 1), ("d", "c", 1), ("e", "c", 1)]))
    assert "'a' = 'd' = 'c', but 'a' ≠ 'c'; clusters win against 3 labelled pairs" in caplog.text
    assert both.n_labels == 0 and both.items.clusters.tolist() == [0, 0, 1, -1, -1]
    caplog.clear()
    both = clusters_and_pairs(items, pair_labels(items, [("a", "d", 1), ("d", "b", 0), ("d", "e", 0.7)]))
    assert "'d' = 'a' = 'b', but 'b' ≠ 'd'" in caplog.text or "'b' = 'a' = 'd', but 'b' ≠ 'd'" in caplog.text
    assert both.items.clusters.tolist() == [0, 0, 1, 0, 2] and both.known.tolist() == [True, True, True, True, False]
    assert len(both.extra) == 1 and both.extra.certainty.tolist() == [0.7]
