"""Which clusterer `clusterer="auto"` takes: by hand, with a guard, and of many pairs by a part of them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.linking import choosing
from kinfolk.linking.choosing import candidates_beside, choose_clusterer
from kinfolk.linking.supervision import supervision_of_clusters
from kinfolk.linking.training import sigmoid


def tables(n: int, several: int, seed: int, swapped: bool = False) -> kf.Mentions:
    """Two generated tables: people once, and Poisson(`several`) entries of each in the other."""
    items = kf.generate_customers(n * (several + 1), duplicates=several / (several + 1), seed=seed)
    once = np.zeros(items.n_items, bool)
    once[np.unique(items.clusters, return_index=True)[1]] = True
    order = np.argsort(once if swapped else ~once, kind="stable")
    columns = {name: column.take(order) for name, column in items.columns.items()}
    none = np.empty(0, np.int32)
    first = int((~once if swapped else once).sum())
    groups = np.zeros(items.n_items, np.int32)
    return kf.Mentions(columns, groups, none, none, items.clusters[order], first_table=first, blocked=False)


RULES = ["key(postcode)", "key(date_of_birth)", "key(surname)", "key(id_number)", "key(given_name + suburb)"]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("training", ["local", "structured"])
def test_many_records_to_one_are_found_by_default(training: str, swapped: bool):
    train, test = (tables(150, 2, seed, swapped) for seed in (0, 1))
    model = kf.Linker(blocking=RULES, training=training, n_jobs=1).fit(train)
    assert isinstance(model.clusterer_, kf.OneToMany)
    assert model.clusterer_.each == ("first" if swapped else "second")
    found = model.evaluate(test)["pairs"]
    assert found["recall"] >= 0.98 and found["precision"] >= 0.98


def test_one_to_many_is_the_exact_maximum_of_the_total_log_odds():
    """Beside every way to give each record of the first table one of the second, or none."""
    rng = np.random.default_rng(0)
    left, right = (np.array(side, np.int32) for side in zip(*itertools.product(range(3), range(3, 6)), strict=True))
    order = np.lexsort((left, right))
    left, right = left[order], right[order]
    for _ in range(30):
        p = rng.random(9)
        gain = {(a, b): np.log(q / (1 - q)) for a, b, q in zip(left.tolist(), right.tolist(), p, strict=True)}
        ways = itertools.product([None, 3, 4, 5], repeat=3)
        best = max(sum(gain[a, b] for a, b in enumerate(way) if b is not None) for way in ways)
        found = kf.OneToMany(each="first").cluster(6, left, right, p, first_table=3)
        assert sum(v for (a, b), v in gain.items() if found[a] == found[b]) == pytest.approx(best)


def test_a_file_of_before_keeps_its_clusterer(tmp_path: Path):
    """What is OneToMany now was called BestMatch."""
    items = tables(100, 2, 0)
    model = kf.Linker(blocking=RULES, training="local", clusterer=kf.OneToMany(0.4, each="second"), n_jobs=1).fit(items)
    model.save(tmp_path / "model")
    file = read_model_file(tmp_path / "model")
    header = file.header
    header["linker"]["clusterer"][0] = "BestMatch"
    del header["linker"]["auto"]
    write_model_file(tmp_path / "old", header, dict(file.arrays), dict(file.strings))
    old = kf.load_model(tmp_path / "old")
    assert repr(old.clusterer_) == repr(old.clusterer) == "OneToMany(threshold=0.4, each='second')"
    np.testing.assert_array_equal(old.predict(items), model.predict(items))


def test_a_model_file_remembers_that_the_clusterer_was_chosen(tmp_path: Path):
    model = kf.Linker(blocking=RULES, training="local", n_jobs=1).fit(tables(100, 2, 0))
    model.save(tmp_path / "model")
    again = kf.load_model(tmp_path / "model")
    assert again.clusterer == "auto" and again.folds == "auto"
    assert repr(again.clusterer_) == repr(model.clusterer_)


# -- the choice by hand -----------------------------------------------------------------------------------


def scored(entities: int, size: int, seed: int, noise: float) -> tuple[kf.Mentions, np.ndarray]:
    """Entities of so many records, all pairs; probabilities with noise in their log-odds."""
    n = entities * size
    left, right = (side.astype(np.int32) for side in np.triu_indices(n, 1))
    order = np.lexsort((left, right))
    left, right, truth = left[order], right[order], np.arange(n) // size
    items = kf.Mentions({}, np.zeros(n, np.int32), left, right, truth)
    score = np.where(truth[left] == truth[right], 2.0, -4.0) + np.random.default_rng(seed).normal(0, noise, len(left))
    return items, sigmoid(score)


def test_the_best_clusterer_is_taken_where_it_is_surely_better():
    """With noise in the pairs a chain of wrong ones joins everything; a mean over pairs does not."""
    items, probability = scored(30, 4, 0, 2.0)
    value = supervision_of_clusters(items).value("pair_f1")
    chosen, why = choose_clusterer(items, probability, [kf.SingleLink(), kf.AverageLink()], value)
    assert isinstance(chosen, kf.AverageLink) and why.gain > why.half_width > 0
    of = [value(one.cluster(items.n_items, items.left, items.right, probability)) for one in (chosen, why.usual)]
    assert of[0] - of[1] == pytest.approx(why.gain)
    assert "AverageLink" in str(why) and "taken" in str(why)


def test_the_usual_one_stays_where_others_are_as_good():
    items, probability = scored(30, 3, 0, 0.1)
    value = supervision_of_clusters(items).value("pair_f1")
    for usual, other in itertools.permutations([kf.SingleLink(), kf.AverageLink(), kf.CompleteLink()], 2):
        chosen, why = choose_clusterer(items, probability, [usual, other], value)
        assert repr(chosen) == repr(usual) and why.best is why.usual
        assert "the usual one, is taken" in str(why)


def test_few_entities_do_not_outvote_the_usual_one():
    """One pair more or less is not enough."""
    items, probability = scored(4, 2, 3, 2.5)
    value = supervision_of_clusters(items).value("pair_f1")
    candidates = [kf.AverageLink(), kf.SingleLink(), kf.CompleteLink(), kf.Correlation()]
    assert isinstance(choose_clusterer(items, probability, candidates, value)[0], kf.AverageLink)


def test_the_choice_of_many_pairs_is_by_whole_components(monkeypatch: pytest.MonkeyPatch):
    items, probability = scored(60, 4, 1, 0.2)
    assert choosing._drawn(items, probability, 0) == (None, slice(None)), "few enough"
    monkeypatch.setattr(choosing, "MOST_PAIRS", 2000)
    kept, _ = choosing._drawn(items, probability, 0)
    assert 0 < kept.sum() < items.n_items
    truth = np.asarray(items.clusters)
    assert set(truth[kept]).isdisjoint(truth[~kept]), "entities stay whole"
    value = supervision_of_clusters(items).value("pair_f1")
    whole = value(np.where(kept, truth, np.arange(len(truth)) + 1000), kept)
    assert whole == 1.0, "only what is drawn counts"
    assert isinstance(
        choose_clusterer(items, probability, [kf.AverageLink(), kf.SingleLink()], value)[0], kf.AverageLink
    )


# -- what is tried ----------------------------------------------------------------------------------------


def test_the_usual_one_comes_first_and_once():
    two = tables(50, 2, 0)
    for usual, items in ((kf.OneToMany(each="second"), two), (kf.AverageLink(), scored(4, 2, 0, 1.0)[0])):
        tried = list(map(repr, candidates_beside(usual, items)))
        assert tried[0] == repr(usual) and len(set(tried)) == len(tried) > 4


def test_one_table_is_never_linked_as_two():
    one = candidates_beside(kf.AverageLink(), scored(4, 2, 0, 1.0)[0])
    assert not any(isinstance(clusterer, kf.OneToOne | kf.OneToMany) for clusterer in one)


def test_with_labelled_pairs_alone_the_tables_show_who_has_several_partners():
    """The labels do not: other partners may not be labelled."""
    items = kf.block(tables(150, 2, 0), RULES)
    labels = [(int(a), int(b), int(y)) for a, b, y in zip(items.left, items.right, items.pair_labels, strict=True)]
    model = kf.Linker(training="local", n_jobs=1).fit(replace(items, clusters=None), pairs=labels[::5])
    assert repr(model.clusterer_) == "OneToMany(each='second')" and model.calibration_.kind == "identity"


def test_a_clusterer_that_is_given_stays_as_it_is():
    items = kf.block(kf.generate_customers(400, seed=0), RULES)
    given = kf.SingleLink(0.9)
    model = kf.Linker(training="local", clusterer=given, n_jobs=1).fit(items)
    assert model.clusterer_ is given and model.calibration_.kind == "identity"
