"""Clusters that are known for a few of the records: their pairs are labels, which move what fields say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.linking.some_clusters import few_known, labels_of_clusters

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
    assert f"contradict each other: '{a}' = '{b}', but '{a}' ≠ '{b}'; 1 pairs in all" in caplog.text
    assert wrong.weights_.tobytes() == right.weights_.tobytes()
