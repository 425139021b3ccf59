"""Threshold and round by models that have not seen the pairs they score: folds, leaks, choices, a Linker with both."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
import linkage_oracle as oracle
from kinfolk.core.training import TrainingPlan
from kinfolk.inference.clustering import E_STEPS
from kinfolk.linking.calibration import calibrated
from kinfolk.linking.choosing import round_kept
from kinfolk.linking.comparisons import as_comparisons
from kinfolk.linking.mentions import pairs_within
from kinfolk.linking.objective import row_scores
from kinfolk.linking.pair_table import GroupedRows, PairSet, distinct_rows
from kinfolk.linking.supervision import supervision_of_clusters
from kinfolk.linking.training import (
    AS_GOOD,
    LOG_ODDS,
    PARTS,
    WIDTH,
    PairData,
    PairTrainer,
    Unseen,
    at_threshold,
    best_round,
    best_threshold,
    clusters_of,
    item_folds,
    rounds_of,
    sigmoid,
    slack,
    unseen_scores,
)

FEATURES = ["jaro_winkler(name)", "exact(city)"]
SYLLABLES = "an be cor dul es fi gar ho im ja ku lo mar ne os per".split()


@functools.cache
def world(seed: int = 0, entities: int = 16, noise: float = 0.5, documents: int = 1) -> kf.Mentions:
    """Records of persons with typos, some without a city; entities are dealt over documents."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[int, int, str, str | None]] = []
    for entity in range(entities):
        name = "".join(rng.choice(SYLLABLES, 3)) + " " + "".join(rng.choice(SYLLABLES, 2))
        city = str(rng.choice(["Rome", "Oslo", "Lima"]))
        for _ in range(int(rng.integers(1, 5))):
            told = list(name)
            while rng.random() < noise:
                told[int(rng.integers(len(told)))] = str(rng.choice(list("abcdefgh")))
            where = None if rng.random() < 0.1 else city if rng.random() > noise / 2 else "Paris"
            rows.append((entity % documents, entity, "".join(told), where))
    order = rng.permutation(len(rows))
    rows = sorted((rows[k] for k in order), key=lambda row: row[0])
    columns = {"name": kf.Column.from_strings(r[2] for r in rows), "city": kf.Column.from_strings(r[3] for r in rows)}
    groups = np.array([row[0] for row in rows], np.int32)
    return kf.Mentions(columns, groups, *pairs_within(groups), clusters=[r[1] for r in rows])


def one_document() -> kf.Mentions:
    """Structured training takes several rounds here, by any E-step."""
    return world(23, noise=0.6)


def several_documents() -> kf.Mentions:
    """Here too, and in parts of the documents; with three folds whole documents are left out, with four entities."""
    return world(8, entities=20, noise=0.75, documents=6)


def changed(items: kf.Mentions, clusters: Any) -> kf.Mentions:
    return kf.Mentions(items.columns, items.groups, items.left, items.right, clusters=clusters)


@functools.cache
def learned(items: kf.Mentions) -> PairSet:
    """Bins at quantiles, which do not follow labels."""
    return PairSet.learn(as_comparisons(FEATURES), items, binning="quantile", conjunctions="all")


def trainer(items: kf.Mentions, binned: PairSet, bias: kf.Bias | None = None, tolerance: float = 1e-4) -> PairTrainer:
    rows = distinct_rows(binned.coder(items), items.left, items.right, binned.sizes)
    on = GroupedRows.of(binned.weights_on(rows.codes), binned.n_weights)
    data = PairData(items, rows, on, items.pair_labels)
    return PairTrainer(data, TrainingPlan(1.0, 0.0, 200, tolerance, 0, 1, None, 1), bias, None)


def linker(**settings: Any) -> kf.Linker:
    own = {"features": FEATURES, "conjunctions": "all", "clusterer": kf.SingleLink(), "n_jobs": 1}
    return kf.Linker(**{**own, **settings})


# -- folds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folds", [2, 3, 5])
@pytest.mark.parametrize("documents", [1, 3, 5, 10])
def test_folds_never_split_a_cluster_or_with_enough_documents_a_document(documents: int, folds: int):
    items = world(1, entities=20, documents=documents)
    fold = item_folds(items, folds, 0)
    assert fold.shape == (items.n_items,) and fold.dtype == np.int64
    by_document = documents >= 2 * folds
    parts = items.groups if by_document else items.clusters
    for part in np.unique(parts):
        assert len(set(fold[parts == part].tolist())) == 1
    for cluster in np.unique(items.clusters):
        assert len(set(fold[items.clusters == cluster].tolist())) == 1, "no cluster crosses documents"
    first = [int(fold[np.flatnonzero(parts == part)[0]]) for part in np.unique(parts)]
    sizes = np.bincount(first, minlength=folds)
    assert sizes.max() - sizes.min() <= 1, "folds of equally many entities or documents"
    if not by_document and documents > 1:
        assert any(len(set(fold[items.groups == g].tolist())) > 1 for g in range(documents))


def test_folds_are_of_the_seed():
    items = world(1)
    one, same, other = (item_folds(items, 3, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_fewer_clusters_than_folds():
    few = changed(world(1), np.arange(world(1).n_items) % 2)
    fold = item_folds(few, 5, 0)
    assert sorted(set(fold.tolist())) == [0, 1]
    scores = unseen_scores(trainer(few, learned(few)), kf.SingleLink(), "nearest", 1, fold)
    assert len(scores) == 2 and np.isfinite(scores).all()


# -- scores of pairs that were not seen ---------------------------------------------------------------


LEAKS: dict[str, dict[str, Any]] = {
    "nearest": {},
    "spanning": {"kind": "spanning"},
    "exact": {"kind": "exact"},
    "average link": {"clusterer": kf.AverageLink(0.4)},
    "all biased": {"bias": kf.Bias("all", 3.0)},
    "closest biased": {"bias": kf.Bias("closest", 3.0, "margin")},
    "documents": {"items": several_documents, "folds": 3},
    "entities in documents": {"items": several_documents, "folds": 4},
}


@pytest.mark.parametrize("settings", LEAKS.values(), ids=LEAKS.keys())
def test_no_leak(settings: dict[str, Any]):
    """Whatever is said about the items of a fold among themselves, the scores of their pairs stay as they were."""
    items, folds, bias = settings.get("items", one_document)(), settings.get("folds", 3), settings.get("bias")
    kind, clusterer = settings.get("kind", "nearest"), settings.get("clusterer", kf.SingleLink())
    fold, binned, rounds = item_folds(items, folds, 0), learned(items), 3
    before = unseen_scores(trainer(items, binned, bias), clusterer, kind, rounds, fold)
    for k in range(folds):
        clusters = items.clusters.copy()
        for group in range(items.n_groups):  # one entity becomes many, several become one
            own = np.flatnonzero((fold == k) & (items.groups == group))
            fresh = 1000 + 100 * group
            clusters[own] = fresh + np.arange(len(own)) if len(set(clusters[own].tolist())) == 1 else fresh
        told = changed(items, clusters)
        after = unseen_scores(trainer(told, binned, bias), clusterer, kind, rounds, fold)
        a, b = fold[items.left], fold[items.right]
        flipped = told.pair_labels != items.pair_labels
        assert flipped.any() and ((a == k) & (b == k))[flipped].all()
        own = (a == k) & (b == k)
        for one, other in zip(before, after, strict=True):
            np.testing.assert_array_equal(one[own], other[own])
            assert (one[~own] != other[~own]).any(), "other folds have learned from them"


@pytest.mark.parametrize("kind", E_STEPS)
@pytest.mark.parametrize(("make", "folds"), [(one_document, 3), (several_documents, 3), (several_documents, 4)])
def test_scores_beside_models_of_the_other_folds(make: Callable[[], kf.Mentions], folds: int, kind: str):
    """Model k learns from the items outside fold k as if there were no others; across two folds the mean counts."""
    items, rounds = make(), 2
    fold, binned = item_folds(items, folds, 0), learned(items)
    found = unseen_scores(trainer(items, binned, tolerance=1e-10), kf.SingleLink(), kind, rounds, fold)
    index = binned.weights_on(binned.coder(items)(items.left, items.right))
    by_model = []
    for k in range(folds):
        others = items.take(fold != k)
        alone = trainer(others, binned, tolerance=1e-10)
        scores = [row_scores(one.weights, index, 1) for one in rounds_of(alone, kf.SingleLink(), kind, rounds)]
        by_model.append(scores + [scores[-1]] * (rounds + 1 - len(scores)))
    for number in range(rounds + 1):
        expected = [
            np.mean([by_model[k][number][pair] for k in {int(fold[i]), int(fold[j])}])
            for pair, (i, j) in enumerate(zip(items.left, items.right, strict=True))
        ]
        np.testing.assert_allclose(found[number], expected, atol=1e-3)


def test_the_local_round_is_the_first():
    items = several_documents()
    fold, told = item_folds(items, 3, 0), trainer(items, learned(items))
    local = unseen_scores(told, kf.SingleLink(), "nearest", 0, fold)
    many = unseen_scores(told, kf.SingleLink(), "nearest", 3, fold)
    assert len(local) == 1 and len(many) == 4
    np.testing.assert_array_equal(local[0], many[0])
    assert (many[1] != many[0]).any()


def test_rounds_that_settled_stay_as_they_are():
    """Folds settle after different rounds; each keeps its last scores."""
    items = several_documents()
    fold, told = item_folds(items, 3, 0), trainer(items, learned(items))
    found = np.array(unseen_scores(told, kf.SingleLink(), "nearest", 6, fold))
    lasts = set()
    for k in range(3):
        own = fold[items.left] == k
        alone = [one.score[own] for one in rounds_of(told, kf.SingleLink(), "nearest", 6, ~own)]
        lasts.add(len(alone) - 1)
        for number, scores in enumerate(found):
            np.testing.assert_array_equal(scores[own], alone[min(number, len(alone) - 1)])
    assert len(lasts) > 1 and max(lasts) < 6


def test_unseen_pairs_are_scored_with_less_certainty():
    items = world(4, noise=0.6)
    told = trainer(items, learned(items))
    seen = next(rounds_of(told, kf.SingleLink(), "nearest", 0)).score
    unseen = unseen_scores(told, kf.SingleLink(), "nearest", 0, item_folds(items, 3, 0))[0]
    true = items.pair_labels == 1
    assert np.where(true, seen, -seen).mean() > np.where(true, unseen, -unseen).mean()


# -- rounds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", E_STEPS)
def test_what_rounds_learn(kind: str):
    items = several_documents()
    told = trainer(items, learned(items))
    story = list(rounds_of(told, kf.SingleLink(), kind, 4))
    assert len(story) == 3, "the third round asks for what the second asked for"
    np.testing.assert_array_equal(story[0].labels, items.pair_labels)
    weights = np.zeros(told.data.n_weights)
    for one, following in itertools.pairwise(story):
        decided = (one.score > 0).astype(int).tolist()
        closed = oracle.closed_decisions(items.n_items, items.left, items.right, decided)
        if kind == "nearest":
            expected = oracle.nearest(items.pair_labels.tolist(), decided, closed)
            assert following.labels.tolist() == list(expected)
        if kind == "exact":
            assert oracle.recovers_truth(
                items.n_items, items.left, items.right, items.pair_labels.tolist(), following.labels.tolist()
            )
        assert (following.labels != one.labels).any()
    for one in story:
        weights, _ = told.fit(one.labels, weights)
        np.testing.assert_array_equal(one.weights, weights)
        np.testing.assert_array_equal(one.score, told.data.scores(weights, 1))


def test_pairs_that_are_not_used_have_no_label():
    items = one_document()
    used = np.random.default_rng(0).random(items.n_pairs) < 0.7
    for one in rounds_of(trainer(items, learned(items)), kf.SingleLink(), "nearest", 3, used):
        assert (one.labels[~used] == -1).all() and (one.labels[used] >= 0).all()
        assert one.score.shape == (items.n_pairs,)
    nothing = list(rounds_of(trainer(items, learned(items)), kf.SingleLink(), "nearest", 3, used & False))
    assert len(nothing) == 1, "without a pair to learn from there is nothing to ask for"
    np.testing.assert_array_equal(nothing[0].weights, 0)


@pytest.mark.parametrize(
    ("scores", "keep_local", "slack_", "expected"),
    [
        ([0.5], True, 0.0, 0),
        ([0.5], False, 0.0, 0),
        ([0.9, 0.5, 0.7], True, 0.0, 0),
        ([0.9, 0.5, 0.7], False, 0.0, 2),
        ([0.9, 0.5], False, 0.0, 1),
        ([0.5, 0.7, 0.7, 0.6], True, 0.0, 1),
        ([0.5, 0.7, 0.7, 0.6], False, 0.0, 1),
        ([0.5, 0.505, 0.6], True, 0.01, 2),
        ([0.5, 0.505, 0.6], False, 0.01, 2),
        ([0.5, 0.505, 0.509], True, 0.01, 0),
        ([0.1, 0.505, 0.509], False, 0.01, 1),
        ([0.5, 0.505, 0.6, 0.605], True, 0.01, 2),
        ([0.5, 0.505, 0.6, 0.605], True, 0.0, 3),
    ],
)
def test_best_round(scores: list[float], keep_local: bool, slack_: float, expected: int):
    assert best_round(scores, keep_local, slack_) == expected


def kept(items: kf.Mentions, rounds: list[Any], guarded: bool, keep_local: bool = True) -> int:
    value = supervision_of_clusters(items).value("pair_f1")
    unseen = Unseen(np.zeros(items.n_items, np.int64), [], None, rounds)
    return round_kept(items, unseen, len(rounds), keep_local, value, 0, guarded=guarded)


def test_a_gain_of_one_entity_is_not_enough_to_leave_the_local_round():
    items = world(1)
    entity = int(np.flatnonzero(np.bincount(items.clusters) == 3)[0])
    split = np.where(items.clusters == entity, 100 + np.arange(items.n_items), items.clusters)
    rounds = [split, items.clusters]
    assert kept(items, rounds, guarded=True) == 0, "what one entity says may be chance"
    assert kept(items, rounds, guarded=False) == 1, "asked for, the best one is kept"
    assert kept(items, rounds, guarded=True, keep_local=False) == 1, "nothing to stay with"


def test_a_round_that_is_better_beyond_doubt_is_kept():
    items = world(1)
    alone = np.arange(items.n_items)
    halves = np.where(alone % 2, items.clusters, 100 + items.clusters)
    assert kept(items, [alone, halves, items.clusters], guarded=True) == 2
    assert kept(items, [items.clusters, alone, halves], guarded=True) == 0
    assert kept(items, [], guarded=True) == 0, "local training has no rounds"


def test_the_default_keeps_the_local_round_unless_another_is_surely_better(monkeypatch: pytest.MonkeyPatch):
    """Both ways of asking for folds are guarded or not by themselves, with the same unseen pairs."""
    asked: list[bool] = []

    def watched(*of: Any, guarded: bool) -> int:
        asked.append(guarded)
        return 1

    monkeypatch.setattr("kinfolk.linking.linker.round_kept", watched)
    items = world(8, entities=30, noise=0.75)
    for folds in ("auto", 5):
        told = linker(folds=folds, clusterer="auto", rounds=2).fit(items)
        assert told.folds_ == 5 and told.best_round_ == 1
    assert asked == [True, False]


# -- the threshold ------------------------------------------------------------------------------------


def test_slack_is_what_one_pair_makes():
    items = world(1)
    assert slack(items) == 1 / items.n_true_pairs > AS_GOOD
    assert slack(changed(items, np.zeros(items.n_items))) == 1 / items.n_possible_pairs > AS_GOOD
    many = world(1, entities=30)
    assert slack(changed(many, np.zeros(many.n_items))) == AS_GOOD
    assert slack(changed(items, np.arange(items.n_items))) == 1.0


@pytest.mark.parametrize("own", [0.5, 0.3, 0.97, 0.001, 0.9999, 0.0])
def test_among_equals_the_clusterer_keeps_its_own(own: float):
    items = world(1)
    value: Any = lambda clusters, kept=None: 0.7  # noqa: E731
    chosen, choice = best_threshold(items, np.zeros(items.n_pairs), kf.SingleLink(own), value, guarded=True)
    assert set(choice.tried.values()) == {0.7} and len(choice.tried) == len(LOG_ODDS) + (own not in (0.3, 0.5))
    assert chosen == choice.best == own and choice.gain == 0
    assert "the best of those tried" in str(choice)


@pytest.mark.parametrize("own", [0.5, 0.05, 0.9])
def test_as_good_as_the_best(own: float):
    """Scores by number of clusters: what lies within the slack counts as equal, what lies below it does not."""
    items, rng = world(1), np.random.default_rng(0)
    score = 3 * rng.normal(size=items.n_pairs) - 3

    def value(clusters: Any, kept: Any = None) -> float:
        return 0.8 * slack(items) * (abs(int(clusters.max()) - 20) // 4 == 0) + 0.5 * (int(clusters.max()) > 8)

    chosen, choice = best_threshold(items, sigmoid(score), kf.SingleLink(own), value, guarded=True)
    for threshold, found in choice.tried.items():
        decided = [1 / (1 + math.exp(-s)) > threshold for s in score]
        clusters = oracle.single_link(items.n_items, items.left, items.right, decided)
        assert found == value(np.array(clusters))
        assert found == value(clusters_of(items, sigmoid(score), kf.SingleLink(threshold)))
    assert len(set(choice.tried.values())) == 3, "some are best, some within the slack, some below it"
    most = max(choice.tried.values())
    good = [threshold for threshold, found in choice.tried.items() if found >= most - slack(items)]
    nearest = min(good, key=lambda threshold: abs(math.log(threshold / (1 - threshold)) - math.log(own / (1 - own))))
    assert chosen == choice.best == nearest and 0 < len(good) < len(choice.tried)


def test_a_threshold_that_is_better_beyond_doubt_is_taken():
    items = world(1)
    score = np.where(items.pair_labels == 1, 2.2, 1.2)
    value = supervision_of_clusters(items).value("pair_f1")
    chosen, choice = best_threshold(items, sigmoid(score), kf.SingleLink(), value, guarded=True)
    assert choice.tried[chosen] == 1 and 1.2 <= math.log(chosen / (1 - chosen)) < 2.2
    assert chosen == pytest.approx(0.8), "the nearest to 0.5 of those that are right"
    assert choice.tried[0.5] < 0.5 and choice.gain > choice.half_width
    assert str(choice).endswith(": taken")


def test_a_gain_of_one_entity_is_not_enough_to_leave_the_own_threshold():
    """Its pairs are scored just below 0.5, and a lower threshold has nothing to lose on the pairs at hand."""
    items = world(1)
    true = np.flatnonzero(items.pair_labels == 1)
    sizes = np.bincount(items.clusters)
    entity = int(np.flatnonzero(sizes == 3)[0])
    alone = [pair for pair in true if items.clusters[items.left[pair]] == entity]
    score = np.where(items.pair_labels == 1, 3.0, -9.0)
    score[alone] = -0.3
    value = supervision_of_clusters(items).value("pair_f1")
    chosen, choice = best_threshold(items, sigmoid(score), kf.SingleLink(), value, guarded=True)
    assert choice.best < 0.43 and choice.tried[choice.best] == 1 > choice.tried[0.5]
    assert chosen == 0.5 and 0 < choice.gain < choice.half_width
    assert str(choice).endswith(": not enough to leave it")
    chosen, choice = best_threshold(items, sigmoid(score), kf.SingleLink(), value, guarded=False)
    assert chosen == choice.best < 0.43 and str(choice).endswith(": taken"), "asked for, the best one is taken"


def test_the_interval_of_a_gain_is_the_jackknife_s():
    """Beside a plain computation: leave out one part of the entities at a time."""
    items = world(3, entities=24, noise=0.6)
    rng = np.random.default_rng(1)
    score = np.where(items.pair_labels == 1, 1.0, -2.0) + rng.normal(0, 1.5, items.n_pairs)
    value = supervision_of_clusters(items).value("pair_f1")
    chosen, choice = best_threshold(items, sigmoid(score), kf.SingleLink(0.9), value, seed=4, guarded=True)
    parts = item_folds(items, PARTS, 4)
    clusters = [at_threshold(kf.SingleLink(), t).cluster(items.n_items, items.left, items.right, sigmoid(score))
                for t in (choice.best, 0.9)]  # fmt: skip
    gains = []
    for k in range(PARTS):
        kept = np.flatnonzero(parts != k)
        pairs = [(i, j) for i, j in itertools.combinations(kept, 2)]
        true = np.array([items.clusters[i] == items.clusters[j] for i, j in pairs])
        f1 = []
        for found in clusters:
            together = np.array([found[i] == found[j] for i, j in pairs])
            f1.append(2 * (true & together).sum() / (true.sum() + together.sum()))
        gains.append(f1[0] - f1[1])
    error = math.sqrt((PARTS - 1) / PARTS * sum((g - sum(gains) / PARTS) ** 2 for g in gains))
    assert choice.half_width == pytest.approx(WIDTH * error)
    assert choice.gain == pytest.approx(choice.tried[choice.best] - choice.tried[0.9])
    assert chosen == (choice.best if choice.gain > WIDTH * error else 0.9)


@pytest.mark.parametrize(
    "clusterer",
    [kf.SingleLink(0.3, 4), kf.AverageLink(0.3, 5, "log-odds"), kf.BestLink(0.3, kind="closest"), kf.Correlation(0.3)],
    ids=lambda clusterer: type(clusterer).__name__,
)
def test_another_threshold_and_all_else_as_it_was(clusterer: Any):
    other = at_threshold(clusterer, 0.75)
    assert type(other) is type(clusterer) and clusterer.threshold == 0.3
    assert other.get_params() == {**clusterer.get_params(), "threshold": 0.75}


# -- a Linker that chooses ----------------------------------------------------------------------------


@pytest.mark.parametrize("keep_local", [True, False])
@pytest.mark.parametrize("documents", [1, 6])
def test_a_linker_with_folds(documents: int, keep_local: bool):
    """The same by hand: folds, threshold of the local round, structured rounds by it, the best on unseen pairs; of its
    calibrated probabilities the threshold again."""
    items = world(5, entities=20, noise=0.6, documents=documents)
    told = linker(folds=3, rounds=3, keep_local=keep_local, clusterer=kf.AverageLink(0.6, 6)).fit(items)
    fold, value = item_folds(items, 3, 0), supervision_of_clusters(items).value("pair_f1")
    by_hand = trainer(items, told.pair_set_)
    local = unseen_scores(by_hand, kf.AverageLink(0.6, 6), "nearest", 0, fold)[0]
    threshold, _ = best_threshold(items, sigmoid(local), kf.AverageLink(0.6, 6), value, guarded=False)
    clusterer = kf.AverageLink(threshold, 6)
    unseen = unseen_scores(by_hand, clusterer, "nearest", 3, fold)
    scores = [value(clusters_of(items, sigmoid(s), clusterer)) for s in unseen]
    assert told.best_round_ == best_round(scores[: len(told.rounds_)], keep_local, slack(items))
    final = list(rounds_of(by_hand, clusterer, "nearest", 3))
    assert len(final) == len(told.rounds_) > 1
    np.testing.assert_array_equal(told.weights_, final[told.best_round_].weights)
    kept = unseen[told.best_round_]
    mapped = calibrated(kept, items.pair_labels == 1, item_folds(items, 10, 0)[items.left])
    np.testing.assert_array_equal(mapped.knots, told.calibration_.knots)
    threshold, _ = best_threshold(items, sigmoid(mapped(kept)), kf.AverageLink(0.6, 6), value, guarded=False)
    assert told.clusterer_.get_params() == {"threshold": threshold, "max_size": 6, "of": "probability"}
    assert told.clusterer.threshold == 0.6, "the setting is as it was"
    fresh = world(6, entities=20, noise=0.6)
    p = sigmoid(told.decision_function(fresh))
    np.testing.assert_array_equal(
        told.predict(fresh), told.clusterer_.cluster(fresh.n_items, fresh.left, fresh.right, p)
    )
    assert told.score(fresh) > 0.4


def test_local_training_with_folds_chooses_the_threshold_alone():
    items = world(5, entities=20, noise=0.6)
    local, many = (linker(folds=3, rounds=1, training=training).fit(items) for training in ("local", "structured"))
    assert local.clusterer_.threshold == many.clusterer_.threshold
    assert local.best_round_ == 0 and len(local.rounds_) == 1
    np.testing.assert_array_equal(local.weights_, many.at_round(0).weights_)


def test_the_same_seed_and_any_threads_give_the_same_model():
    items = world(5, noise=0.6)
    one, two = (linker(folds=3, rounds=2, n_jobs=n_jobs).fit(items) for n_jobs in (1, 2))
    assert (one.clusterer_.threshold, one.best_round_) == (two.clusterer_.threshold, two.best_round_)
    np.testing.assert_array_equal(one.weights_, two.weights_)


# -- average link of log-odds -------------------------------------------------------------------------


def slow_average(
    n: int, values: dict[tuple[int, int], float], least: float, must: Any, cannot: Any, most: int | None
) -> list[int]:
    """Join the two clusters with the largest mean, anew every time; what is no candidate counts as -8."""
    home = list(range(n))
    for a, b in must:
        home = [home[a] if home[i] == home[b] else home[i] for i in range(n)]
    while True:
        clusters = sorted([i for i in range(n) if home[i] == h] for h in set(home))
        best: tuple[float, list[int], list[int]] | None = None
        for first, second in itertools.combinations(clusters, 2):
            both = {*first, *second}
            if (most and len(both) > most) or any(a in both and b in both for a, b in cannot):
                continue
            told = [values.get((min(a, b), max(a, b)), -8.0) for a in first for b in second]
            mean = math.fsum(told) / len(told)
            if mean > least and (best is None or mean > best[0] + 1e-12):
                best = (mean, first, second)
        if best is None:
            numbers: dict[int, int] = {}
            return [numbers.setdefault(h, len(numbers)) for h in home]
        for i in best[2]:
            home[i] = home[best[1][0]]


@pytest.mark.parametrize("seed", range(25))
def test_average_link_of_log_odds_beside_the_reference(seed: int):
    """With constraints, sizes and pairs the model is sure of: log-odds beyond 8 count as 8."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 9))
    every = [(a, b) for b in range(n) for a in range(b)]
    pairs = [pair for pair in every if rng.random() < 0.75]
    left, right = np.array(pairs, np.int32).reshape(-1, 2).T
    logits = rng.normal(1, 5, len(pairs)) + np.where(rng.random(len(pairs)) < 0.1, rng.choice([-30, 30]), 0)
    values = {pair: min(max(float(g), -8.0), 8.0) for pair, g in zip(pairs, logits, strict=True)}
    must = [every[k] for k in rng.permutation(len(every))[: int(rng.integers(0, 2))]]
    cannot = [pair for pair in every if rng.random() < 0.1 and pair not in must]
    for threshold, most in ((0.5, None), (0.2, 3), (0.9, 4), (0.0, None)):
        least = math.log(threshold / (1 - threshold)) if threshold else -8.0
        found = kf.AverageLink(threshold, most, "log-odds").cluster(n, left, right, sigmoid(logits), must, cannot)
        assert found.tolist() == slow_average(n, values, least, must, cannot, most)


def test_a_pair_the_model_is_sure_of_counts_for_more():
    """Two pairs at 0.9999 and two at 0.2: a mean of 0.6 either way, but log-odds of 8 and -1.4 speak for joining."""
    left, right = np.array([0, 0, 1, 0, 1, 2], np.int32), np.array([1, 2, 2, 3, 3, 3], np.int32)
    p = np.array([0.99999, 0.2, 0.99999, 0.2, 0.2, 0.99999])
    assert kf.AverageLink(0.5).cluster(4, left, right, p).tolist() == [0, 0, 1, 1]
    assert kf.AverageLink(0.5, of="log-odds").cluster(4, left, right, p).tolist() == [0, 0, 0, 0]
