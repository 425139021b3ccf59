"""What a Linker gains by training for clusters, cross-fitted; pair F1 by sums over items."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import GainWarning, SettingError
from kinfolk.linking.gain import _folds, unit_counts
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.scores import pairs_after

BLOCKING = ["key(postcode)", "key(surname)"]
PEOPLE = kf.generate_customers(120, seed=1)
rows = st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=10)


@given(rows, st.booleans())
def test_sums_over_items_are_pair_f1(found: list[tuple[int, int, int]], two_tables: bool):
    truth, clusters, unit = (np.array(column) for column in zip(*found, strict=True))
    if not (truth >= 0).any():
        return
    nobody = np.zeros(0, np.int32)
    first = len(found) // 2 if two_tables else None
    items = Mentions({}, np.zeros(len(found), np.int32), nobody, nobody, truth, first_table=first)
    scores = pairs_after(items, clusters)
    together = 2 * scores.true_positives + scores.false_positives + scores.false_negatives
    a, b = unit_counts(items, clusters, unit).sum(axis=0)
    assert (a / 4, b / 2) == (scores.true_positives, together)


def linker(**settings: object) -> kf.Linker:
    return kf.Linker(blocking=BLOCKING, n_jobs=1, tolerance=0.01, guard=2).set_params(**settings)


def test_of_records_clusters_are_the_units():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GainWarning)
        gain = linker().fit(PEOPLE).gain_
    assert gain is not None and (gain.metric, gain.unit) == ("pair F1", "clusters")
    assert gain.n == len(np.unique(PEOPLE.clusters)) and gain.local > 50


def test_a_linker_that_decides_pairs_has_nothing_to_measure_and_that_is_said():
    with pytest.warns(GainWarning, match="^`guard=2` has nothing to compare: `training='local'` is the local model"):
        assert linker(training="local").fit(PEOPLE).gain_ is None


def test_fewer_documents_than_folds_are_said():
    """Four documents: each is a unit for up to four folds, beyond that true clusters are."""
    nobody = np.zeros(0, np.int32)
    documents = Mentions({}, np.repeat(np.arange(4), 4), nobody, nobody, np.arange(16) // 2)
    assert _folds(documents, 4, 0)[0] == "documents"
    with pytest.warns(GainWarning, match="`guard=5` needs as many documents; got 4: true clusters are dealt"):
        assert _folds(documents, 5, 0)[0] == "clusters"
    assert _folds(PEOPLE, 5, 0)[0] == "clusters", "a table of records has no documents, and nothing to say"


def test_labelled_pairs_alone_are_refused():
    names = PEOPLE.names
    assert names is not None and PEOPLE.clusters is not None
    same = [(names[i], names[j], PEOPLE.clusters[i] == PEOPLE.clusters[j]) for i in range(30) for j in range(i)]
    with pytest.raises(SettingError, match="needs true clusters"):
        linker().fit(replace(PEOPLE, clusters=None), pairs=same)


@pytest.mark.parametrize("training", ["structured", "ranking", "combined"])
def test_the_local_model_has_its_threshold_chosen_and_the_clusterer_of_the_model(training: str):
    """By hand: both models on the other folds, both answers for a fold, pairs of all folds together."""
    model = linker(training=training, clusterer=kf.AverageLink())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GainWarning)
        gain = model.fit(PEOPLE).gain_
    _, fold = _folds(PEOPLE, 2, 0)
    settings = {"guard": None, "clusterer": kf.AverageLink()}
    for expected, more in ((gain.local, {"training": "local", "folds": 5}), (gain.collective, {"training": training})):
        right = together = 0
        for number in range(2):
            held = PEOPLE.take(fold == number)
            scores = pairs_after(held, linker(**settings, **more).fit(PEOPLE.take(fold != number)).predict(held))
            right += 2 * scores.true_positives
            together += 2 * scores.true_positives + scores.false_positives + scores.false_negatives
        assert expected == pytest.approx(100 * right / together)
