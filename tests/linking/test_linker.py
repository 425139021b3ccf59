"""Linker on small generated worlds: what it learns, round by round, with every clusterer, bias and constraint."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import kinfolk as kf
import linkage_oracle as oracle
from kinfolk.core.modelfile import read_model_file, write_model_file
from kinfolk.errors import InputError, ModelFileError, NotFittedError, SettingError
from kinfolk.inference.clustering import E_STEPS
from kinfolk.linking.clusterers import CLUSTERERS
from kinfolk.linking.explain import weakest_link
from kinfolk.linking.mentions import pairs_within
from kinfolk.linking.objective import FORMS
from kinfolk.linking.scores import METRICS, all_scores, pairs_after, pairs_before

FILE = "m.kinfolk"
FEATURES = ["exact(name)", "jaro_winkler(name)", "exact(city)"]
SYLLABLES = "an be cor dul es fi gar ho im ja ku lo mar ne os per".split()


@functools.cache
def world(seed: int = 0, entities: int = 14, noise: float = 0.3, tables: int = 1) -> kf.Mentions:
    """Records of persons, some with a typo in the name or without a city; with two tables one record in each."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[int, int, str, str | None]] = []
    for entity in range(entities):
        name = "".join(rng.choice(SYLLABLES, 3)) + " " + "".join(rng.choice(SYLLABLES, 2))
        city = str(rng.choice(["Rome", "Oslo", "Lima"]))
        for copy in range(2 if tables == 2 else int(rng.integers(1, 5))):
            told = list(name)
            while rng.random() < noise:
                told[int(rng.integers(len(told)))] = str(rng.choice(list("abcdefgh")))
            where = None if rng.random() < 0.1 else city if rng.random() > noise / 2 else "Paris"
            rows.append((copy if tables == 2 else 0, entity, "".join(told), where))
    order = rng.permutation(len(rows))
    rows = sorted((rows[k] for k in order), key=lambda row: row[0])
    columns = {"name": kf.Column.from_strings(r[2] for r in rows), "city": kf.Column.from_strings(r[3] for r in rows)}
    first = sum(row[0] == 0 for row in rows) if tables == 2 else None
    left, right = pairs_within(np.zeros(len(rows), np.int32))
    if first is not None:
        across = (left < first) & (right >= first)
        left, right = left[across], right[across]
    return kf.Mentions(
        columns, np.zeros(len(rows), np.int32), left, right, clusters=[r[1] for r in rows], first_table=first
    )


def linker(**changed: Any) -> kf.Linker:
    own = {"features": FEATURES, "conjunctions": "all", "clusterer": kf.SingleLink(), "n_jobs": 1}
    return kf.Linker(**{**own, **changed})


@functools.cache
def fitted(**changed: Any) -> kf.Linker:
    return linker(**changed).fit(world())


@pytest.fixture(scope="module")
def model() -> kf.Linker:
    return fitted()


# -- what it learns -----------------------------------------------------------------------------------


def test_it_learns(model: kf.Linker):
    fresh = world(1)
    assert model.score(world()) > 0.8 and model.score(fresh) > 0.7
    probability = model.predict_proba(fresh)
    assert probability.shape == (fresh.n_pairs,) and probability.dtype == np.float64
    assert probability[fresh.pair_labels == 1].mean() > 0.6 > 0.2 > probability[fresh.pair_labels == 0].mean()
    np.testing.assert_allclose(np.log(probability) - np.log1p(-probability), model.decision_function(fresh), atol=1e-9)
    clusters = model.predict(fresh)
    assert clusters.dtype == np.int32 and clusters.shape == (fresh.n_items,)
    np.testing.assert_array_equal(clusters, kf.SingleLink().cluster(
        fresh.n_items, fresh.left, fresh.right, probability))  # fmt: skip


def test_local_training_is_one_round():
    local = fitted(training="local")
    assert len(local.rounds_) == 1 and local.best_round_ == 0 and local.rounds_[0].number == 0
    assert local.rounds_[0].positives == (world().pair_labels == 1).sum()
    assert local.convergence_ is local.rounds_[0].convergence and local.convergence_.status == "converged"


def test_local_weights_are_the_optimum():
    """The gradient of the oracle's objective, by finite differences, is 0."""
    items = world(2, entities=5)
    local = linker(training="local", tolerance=1e-12, conjunctions=None).fit(items)
    learned = local.pair_set_
    on = learned.weights_on(learned.coder(items)(items.left, items.right))
    features = np.zeros((items.n_pairs, learned.n_weights))
    features[np.arange(items.n_pairs)[:, None], on] = 1
    none = np.zeros(items.n_pairs, bool)

    def value(weights: Any) -> float:
        return oracle.biased_objective(weights, features, items.pair_labels, none, 1.0, "weight", 1.0)

    best = value(local.weights_)
    assert best == pytest.approx(local.convergence_.objective, rel=1e-9)
    for k in range(learned.n_weights):
        step = 1e-4 * (np.arange(learned.n_weights) == k)
        assert abs(value(local.weights_ + step) - value(local.weights_ - step)) / 2e-4 < 1e-3


@pytest.mark.parametrize("e_step", E_STEPS)
@pytest.mark.parametrize("keep_local", [True, False])
@pytest.mark.parametrize("seed", [21, 25])
def test_rounds(e_step: str, keep_local: bool, seed: int):
    """In world 25 structured training is better, by any E-step; in world 21 it is not."""
    noisy = world(seed, entities=20, noise=0.6)
    many = linker(e_step=e_step, rounds=4, keep_local=keep_local, features=FEATURES[1:]).fit(noisy)
    story = many.rounds_
    assert [r.number for r in story] == list(range(len(story))) and 2 <= len(story) <= 5
    assert story[0].positives == (noisy.pair_labels == 1).sum() > story[1].positives
    scores = [r.score for r in story]
    allowed = range(len(story)) if keep_local else range(1, len(story))
    assert many.best_round_ == max(allowed, key=lambda k: (scores[k], -k)), "the first of the best"
    assert many.score(noisy) == pytest.approx(scores[many.best_round_])
    assert many.convergence_ is story[many.best_round_].convergence
    assert (max(scores[1:]) > scores[0]) == (seed == 25)


def test_a_world_that_is_easily_told_settles_at_once():
    """Every decision is right, so the E-step asks for the truth again; then the local round is all there is."""
    easy = world(4, noise=0.0)
    for keep_local in (True, False):
        sure = linker(e_step="exact", rounds=5, keep_local=keep_local, l2=0.01).fit(easy)
        if sure.score(easy) == 1:
            assert len(sure.rounds_) <= 2
        assert np.abs(sure.weights_).max() > 0.5


def test_the_metric_chooses_the_round():
    noisy = world(3, noise=0.6)
    for name in METRICS:
        told = linker(select=name, rounds=2).fit(noisy)
        assert told.score(noisy) == pytest.approx(max(r.score for r in told.rounds_)), name


def test_structured_rounds_ask_for_fewer_links():
    """Links that closure brings about need not be learned."""
    noisy = world(3, noise=0.6)
    told = linker(e_step="spanning", rounds=1).fit(noisy)
    assert told.rounds_[1].positives < told.rounds_[0].positives


CHOSEN = {name: cls for name, cls in CLUSTERERS.items() if name not in ("OneToOne", "OneToMany", "ClusterSum")}


@pytest.mark.parametrize("e_step", E_STEPS)
@pytest.mark.parametrize("clusterer", CHOSEN.values(), ids=CHOSEN.keys())
def test_every_clusterer_with_every_e_step(clusterer: Any, e_step: str):
    told = linker(clusterer=clusterer(), e_step=e_step, rounds=2).fit(world())
    assert told.score(world(1)) > 0.5
    limited = linker(clusterer=clusterer(max_size=2), rounds=1).fit(world())
    assert np.bincount(limited.predict(world(1))).max() == 2


@pytest.mark.parametrize("e_step", E_STEPS)
def test_one_to_one(e_step: str):
    two, fresh = world(5, tables=2), world(6, tables=2)
    told = linker(clusterer=kf.OneToOne(), e_step=e_step, rounds=2).fit(two)
    matched = linker(clusterer=kf.OneToMany(), e_step=e_step, rounds=2).fit(two)
    assert matched.score(two) > 0.5
    clusters = told.predict(fresh)
    for side in (clusters[: fresh.first_table], clusters[fresh.first_table :]):
        assert len(set(side.tolist())) == len(side), "no record shares its cluster with one of its own table"
    assert told.score(fresh) > 0.8
    with pytest.raises(SettingError, match="OneToOne is for pairs across two tables"):
        linker(clusterer=kf.OneToOne()).fit(world())


def test_documents_of_mentions():
    """Coreference features are the default where there is a text."""
    sentences = [["Then", "John", "saw", "a", "dog"], ["He", "fed", "the", "dog"], ["It", "liked", "John"]]
    words = [w for s in sentences for w in s]
    starts = np.cumsum([0, *map(len, sentences)])
    corpus = kf.Corpus(
        {"word": kf.Column.from_strings(words * 4)},
        np.concatenate([[0], *(12 * d + starts[1:] for d in range(4))]),
        np.arange(0, 13, 3),
    )
    spans = [(1, 2), (3, 5), (5, 6), (7, 9), (9, 10), (11, 12)]
    items = kf.Mentions.from_groups(
        np.repeat(np.arange(4), 6),
        {"text": kf.Column.from_strings(" ".join(words[a:b]) for a, b in spans * 4)},
        clusters=np.concatenate([2 * d + np.array([0, 1, 0, 1, 1, 0]) for d in range(4)]),
        corpus=corpus,
        spans=np.concatenate([12 * d + np.array(spans) for d in range(4)]),
    )
    told = kf.Linker(n_jobs=1).fit(items.take_groups([0, 1, 2]))
    assert told.score(items.take_groups([3])) == 1.0
    assert [f.spec() for f in told.pair_set_.features] == [{"coreference": 1}] and len(told.pair_set_.joined) > 10


def test_comparisons_are_chosen_where_nobody_named_them():
    told = kf.Linker(n_jobs=1).fit(world())
    assert told.score(world(1)) > 0.7
    names = [column.name for column in told.pair_set_.columns]
    assert "jaro_winkler(name)" in names and "exact(city)" in names


# -- bias ---------------------------------------------------------------------------------------------


def recall(factor: float, form: str, kind: str = "all") -> float:
    noisy = world(7, entities=20, noise=0.7)
    told = linker(training="local", bias=kf.Bias(kind, factor, form), conjunctions=None).fit(noisy)
    return told.evaluate(noisy)["pairs before"]["recall"]


@pytest.mark.parametrize("form", ["weight", "margin", "exponent"])
def test_bias_raises_recall(form: str):
    found = [recall(factor, form) for factor in (1.0, 2.0, 5.0, 20.0)]
    assert found == sorted(found) and found[-1] > found[0] + 0.02


def test_a_factor_on_the_true_label_alone_lowers_recall():
    found = [recall(factor, "factor") for factor in (1.0, 2.0, 5.0, 20.0)]
    assert found == sorted(found, reverse=True) and found[-1] < found[0] - 0.1


def test_bias_of_the_closest_pairs_alone():
    found = [recall(factor, "weight", "closest") for factor in (1.0, 3.0, 30.0)]
    assert found == sorted(found) and found[-1] > found[0]


def test_a_factor_on_both_labels_cancels():
    for score, label in itertools.product((-2.0, 0.3, 4.0), (0, 1)):
        both, plain = (oracle.biased_potentials(score, label, biased, 3.0, "both") for biased in (True, False))
        assert both[label] / sum(both) == pytest.approx(plain[label] / sum(plain))
    without = linker(training="local").fit(world())
    for form in FORMS:  # a factor of 1 is none
        np.testing.assert_allclose(
            linker(training="local", bias=kf.Bias(factor=1.0, form=form)).fit(world()).weights_,
            without.weights_,
            atol=1e-12,
        )


@pytest.mark.parametrize("kind", ["all", "closest"])
@pytest.mark.parametrize("form", FORMS)
def test_every_bias_in_structured_training(kind: str, form: str):
    told = linker(bias=kf.Bias(kind, 1.5, form), rounds=2).fit(world())
    assert told.score(world()) > 0.7


# -- constraints --------------------------------------------------------------------------------------


def test_must_and_cannot_link(model: kf.Linker):
    items = world(1)
    free = model.predict(items)
    apart = next((i, j) for i, j in itertools.combinations(range(items.n_items), 2) if free[i] != free[j])
    joined = next((i, j) for i, j in itertools.combinations(range(items.n_items), 2) if free[i] == free[j])
    told = model.predict(items, must_link=[apart], cannot_link=[joined])
    assert told[apart[0]] == told[apart[1]] and told[joined[0]] != told[joined[1]]
    with pytest.raises(SettingError, match="free of items that `must_link` puts together"):
        model.predict(items, must_link=[apart], cannot_link=[apart[::-1]])
    with pytest.raises(SettingError, match="`must_link` must hold pairs"):
        model.predict(items, must_link=[(0, items.n_items)])
    np.testing.assert_array_equal(model.predict(items, must_link=[], cannot_link=[]), free)


def test_max_size(model: kf.Linker):
    items = world(1)
    small = clone(model).set_params(clusterer=kf.SingleLink(max_size=2)).fit(world())
    assert np.bincount(small.predict(items)).max() == 2
    with pytest.raises(SettingError, match="`must_link` makes a cluster of 3"):
        small.predict(items, must_link=[(0, 1), (1, 2)])


# -- truth that is not known --------------------------------------------------------------------------


def test_items_of_unknown_cluster_are_left_out():
    items = world()
    hidden = np.random.default_rng(0).random(items.n_items) < 0.3
    clusters = np.where(hidden, -1, items.clusters)
    partly = kf.Mentions(items.columns, items.groups, items.left, items.right, clusters=clusters)
    one, other = linker().fit(partly), linker().fit(items.take(~hidden))
    np.testing.assert_array_equal(one.weights_, other.weights_)
    assert one.predict(partly).shape == (items.n_items,), "but they are linked"
    assert 0 <= one.score(partly) <= 1


def test_scores_before_and_after(model: kf.Linker):
    items = world(1)
    told = model.evaluate(items)
    probability, clusters = model.predict_proba(items), model.predict(items)
    truth = items.clusters
    every = list(itertools.combinations(range(items.n_items), 2))
    linked = {(i, j) for i, j in every if clusters[i] == clusters[j]}
    true = {(i, j) for i, j in every if truth[i] == truth[j]}
    assert told["pairs"]["recall"] == pytest.approx(len(linked & true) / len(true))
    assert told["pairs"]["precision"] == pytest.approx(len(linked & true) / len(linked))
    before = {(i, j) for i, j, p in zip(items.left, items.right, probability, strict=True) if p > 0.5}
    assert told["pairs before"]["recall"] == pytest.approx(len(before & true) / len(true))
    assert {"clusters", "muc", "b_cubed"} <= set(told)
    assert model.score(items) == pytest.approx(told["pairs"]["f1"])


def test_scores_of_two_tables_count_pairs_across():
    items = world(5, tables=2)
    clusters = np.zeros(items.n_items, np.int32)
    told = pairs_after(items, clusters)
    first, second = items.first_table, items.n_items - items.first_table
    assert (told.pairs, told.true_positives, told.false_negatives) == (first * second, items.n_true_pairs, 0)
    assert set(all_scores(items, clusters)) == {"pairs", "clusters"}


def test_true_pairs_that_are_no_candidates_are_missed():
    items = world().with_pairs(world().left[:10], world().right[:10])
    told = pairs_before(items, np.ones(10, bool))
    found = int((items.pair_labels == 1).sum())
    assert told.true_positives == found and told.false_negatives == items.n_true_pairs - found


# -- mistakes -----------------------------------------------------------------------------------------


def changed(items: kf.Mentions, **told: Any) -> kf.Mentions:
    base = {"columns": items.columns, "groups": items.groups, "left": items.left, "right": items.right}
    return kf.Mentions(**{**base, "clusters": items.clusters, **told})


BAD_ITEMS: dict[str, tuple[Callable[[], Any], str]] = {
    "no mentions": (lambda: [1, 2], r"expected Mentions .*; got list"),
    "nothing known": (lambda: changed(world(), clusters=np.full(world().n_items, -1)), "no candidate pair to learn"),
    "no pairs": (lambda: world().with_pairs([], []), "no candidate pair to learn from; choose wider blocking rules"),
    "one item": (
        lambda: world().take([0]),
        "training needs pairs of items, and there are none in a table of one record",
    ),
    "nobody": (lambda: world().take([]), "training needs pairs of items, and there are none in an empty table"),
    "no true pair": (
        lambda: changed(world(), clusters=np.arange(world().n_items)),
        r"none of \d+ candidate pairs is a true link",
    ),
    "no false pair": (
        lambda: changed(world(), clusters=np.zeros(world().n_items)),
        r"none of \d+ candidate pairs is two different entities",
    ),
    "no such column": (lambda: changed(world(), columns={}), "no column 'name' to compare; the items have none"),
}


@pytest.mark.parametrize(("items", "message"), BAD_ITEMS.values(), ids=BAD_ITEMS.keys())
def test_items_that_nothing_can_be_learned_from(items: Callable[[], Any], message: str):
    with pytest.raises(InputError, match=message):
        linker().fit(items())


BAD_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"training": "global"}, r"\(training=...\) must be 'local', 'structured', 'ranking' or 'combined'; got 'global'"),
    ({"e_step": "viterbi"}, r"\(e_step=...\) must be 'nearest', 'spanning' or 'exact'"),
    ({"binning": "equal"}, r"\(binning=...\) must be 'learned' or 'quantile'"),
    ({"rounds": 0}, r"\(rounds=...\) must be a whole number of 1 or more"),
    ({"rounds": 1.5}, r"\(rounds=...\) must be a whole number of 1 or more"),
    ({"l2": -1}, r"\(l2=...\) must be 'auto' or 0, or a number from"),
    ({"l2": float("nan")}, r"\(l2=...\) must be 'auto' or 0, or a number from"),
    ({"select": "f1"}, "no metric 'f1'; there are pair_f1"),
    ({"bias": 1.5}, r"\(bias=...\) must be Bias.*, or None"),
    ({"bias": kf.Bias("some")}, "the kind of a bias must be one of all, closest"),
    ({"bias": kf.Bias(form="both")}, "the form of a bias must be one of weight"),
    ({"bias": kf.Bias(factor=0)}, "the factor of a bias must be a number above 0"),
    ({"bias": kf.Bias(factor=float("inf"))}, "the factor of a bias must be a number above 0"),
    ({"clusterer": "single"}, r"clusterer must be 'auto', SingleLink\(\), AverageLink\(\)"),
    ({"clusterer": kf.SingleLink(threshold=2)}, r"SingleLink\(threshold=...\) must be a number from 0 to below 1"),
    ({"bins": 0}, r"\(bins=...\) must be a whole number from 1 to 200"),
    ({"conjunctions": [("exact(name)", "age")]}, "no column 'age' for a conjunction"),
    ({"conjunctions": "some"}, "conjunctions must be"),
    ({"features": ["exact(name)", "exact(name)"]}, "two comparisons are named"),
    ({"features": []}, "at least one comparison"),
    ({"features": ["sounds_like(name)"]}, "cannot read the comparison"),
    ({"n_jobs": 0}, r"\(n_jobs=...\) must be a positive number"),
    ({"folds": 1}, r"\(folds=...\) must be 'auto' or a whole number of 2 or more, or None"),
]


@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS, ids=[str(s) for s, _ in BAD_SETTINGS])
def test_wrong_settings(settings: dict[str, Any], message: str):
    with pytest.raises(SettingError, match=message):
        linker(**settings).fit(world())


def test_a_model_that_is_not_trained():
    for ask in ("predict", "predict_proba", "decision_function", "score", "evaluate"):
        with pytest.raises(NotFittedError, match="not trained yet"):
            getattr(linker(), ask)(world())
    with pytest.raises(NotFittedError):
        linker().explain(world(), 0, 1)
    with pytest.raises(NotFittedError):
        linker().save("nowhere")


def test_fit_that_fails_leaves_the_model_as_it_was():
    told = linker().fit(world())
    before, probability = dict(vars(told)), told.predict_proba(world(1))
    told.set_params(conjunctions=[("exact(name)", "age")])
    with pytest.raises(SettingError):
        told.fit(world(2))
    told.set_params(conjunctions="all", clusterer=kf.SingleLink(threshold=3))
    with pytest.raises(SettingError):
        told.fit(world(2))

    def interrupt(progress: Any) -> bool:
        raise KeyboardInterrupt

    told.set_params(clusterer=before["clusterer"])
    with pytest.raises(KeyboardInterrupt):
        told.fit(world(2), callback=interrupt)
    assert {name: id(value) for name, value in vars(told).items()} == {n: id(v) for n, v in before.items()}
    np.testing.assert_array_equal(told.predict_proba(world(1)), probability)
    fresh = linker()
    with pytest.raises(InputError):
        fresh.fit(world().take([]))
    with pytest.raises(NotFittedError):
        fresh.predict(world())


def test_a_callback_may_stop_training():
    seen: list[Any] = []
    told = linker(rounds=3).fit(world(), callback=lambda progress: bool(seen.append(progress)) or len(seen) >= 2)
    assert told.convergence_.status == "stopped" and len(seen) == 2 and np.isfinite(told.weights_).all()


def test_items_without_pairs_get_those_of_the_blocking(model: kf.Linker):
    bare = changed(world(1), left=[], right=[])
    assert model.candidates(bare).n_pairs == bare.n_possible_pairs
    np.testing.assert_array_equal(model.predict(bare), model.predict(kf.block(bare)))
    assert model.evaluate(bare) == model.evaluate(kf.block(bare))
    assert model.predict(world(1).take([])).shape == (0,)
    ruled = linker(blocking="key(name[:1])").fit(bare)
    assert ruled.candidates(bare).n_pairs == kf.block(bare, "key(name[:1])").n_pairs < bare.n_possible_pairs
    with pytest.raises(InputError, match="expected a probability for each of"):
        ruled.cluster(bare, np.zeros(3))
    with pytest.raises(InputError, match="no true clusters to compare with"):
        model.score(changed(world(1), clusters=None))


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch):
    from kinfolk.linking import objective as pairs
    from kinfolk.linking import pair_table as pair_rows

    monkeypatch.setattr(pair_rows, "CHUNK", 100)
    monkeypatch.setattr(pairs, "ROWS", 16)
    one, two = (linker(n_jobs=n_jobs, bias=kf.Bias()).fit(world()) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.weights_, two.weights_)
    np.testing.assert_array_equal(one.predict_proba(world(1)), two.predict_proba(world(1)))
    np.testing.assert_array_equal(one.predict(world(1)), two.predict(world(1)))


def test_settings_the_way_scikit_learn_keeps_them(model: kf.Linker):
    told = linker(clusterer=kf.AverageLink(0.4), bias=kf.Bias("closest"))
    params = told.get_params()
    assert params["clusterer__threshold"] == 0.4 and params["bias"] == kf.Bias("closest")
    copy = clone(told)
    assert copy.clusterer is not told.clusterer and copy.clusterer.threshold == 0.4
    assert repr(copy) == repr(told) and "AverageLink(threshold=0.4)" in repr(told)
    assert told.set_params(clusterer__threshold=0.7).clusterer.threshold == 0.7
    with pytest.raises(SettingError, match="has no setting 'depth'"):
        told.set_params(depth=3)
    np.testing.assert_array_equal(clone(model).fit(world()).weights_, model.weights_)


def test_a_threshold_chosen_on_unseen_pairs():
    told = linker(folds=3, rounds=1).fit(world(3, noise=0.6))
    assert 0 < told.clusterer_.threshold < 1
    p = told.predict_proba(world(1))
    items = world(1)
    expected = kf.SingleLink(told.clusterer_.threshold).cluster(items.n_items, items.left, items.right, p)
    np.testing.assert_array_equal(told.predict(items), expected)
    assert fitted().clusterer_.threshold == 0.5


def test_rounds_may_be_looked_at():
    told = linker(rounds=2).fit(world(3, noise=0.6))
    for r in told.rounds_:
        then = told.at_round(r.number)
        assert then.score(world(3, noise=0.6)) == pytest.approx(r.score) and then.convergence_ is r.convergence
    with pytest.raises(SettingError, match="expected a round of this training"):
        told.at_round(9)


# -- why ----------------------------------------------------------------------------------------------


def test_explanations_add_up(model: kf.Linker):
    items = world(1)
    scores = model.decision_function(items)
    for k in range(0, items.n_pairs, 37):
        i, j = int(items.left[k]), int(items.right[k])
        told = model.explain(items, j, i)
        assert told == model.explain(items, i, j)
        assert told.base + sum(one.share for one in told.contributions) == pytest.approx(told.score)
        assert told.score == pytest.approx(scores[k]) and told.probability == pytest.approx(
            1 / (1 + np.exp(-scores[k]))
        )
        sizes = [abs(one.share) for one in told.contributions]
        assert sizes == sorted(sizes, reverse=True)
        assert len(sizes) == len(model.pair_set_.columns) + len(model.pair_set_.joined)
    on_average = [
        model.explain(world(), int(i), int(j)).score for i, j in zip(world().left, world().right, strict=True)
    ]
    assert told.base == pytest.approx(np.mean(on_average))
    assert "a pair in training, on average" in str(told)


def test_explanations_of_pairs_that_are_no_candidates(model: kf.Linker):
    few = world(1).with_pairs([0], [1])
    assert model.explain(few, 2, 3) == model.explain(world(1), 2, 3)
    for wrong in ((0, 0), (-1, 2), (0, few.n_items)):
        with pytest.raises(InputError, match="expected two different items"):
            model.explain(few, *wrong)


def test_the_weakest_link_beside_the_oracle():
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(2, 6))
        every = [(i, j) for j in range(n) for i in range(j) if rng.random() < 0.7]
        left, right = np.array(every, np.int32).reshape(-1, 2).T
        p = rng.integers(1, 16, len(every)) / 16
        found = weakest_link(np.arange(n), left, right, p)
        try:
            strength, splits = oracle.weakest_link(left, right, p, range(n))
        except ValueError:
            assert found is None
            continue
        pair, side = found
        assert p[pair] == strength
        sides = frozenset(frozenset(np.flatnonzero(chosen).tolist()) for chosen in (side, ~side))
        assert (every[pair], sides) in splits


def test_explain_cluster(model: kf.Linker):
    items = world(1)
    p, clusters = model.predict_proba(items), model.predict(items)
    seen = 0
    for item in range(items.n_items):
        members = np.flatnonzero(clusters == clusters[item])
        told = model.explain_cluster(items, item)
        assert told.items == tuple(map(str, members))
        assert told == model.explain_cluster(items, item, p, clusters)
        if len(members) == 1:
            assert told.weakest is None and told.parts == () and "weakest" not in str(told)
            continue
        if len(members) > 5:
            continue
        seen += 1
        strength, splits = oracle.weakest_link(items.left, items.right, p, members)
        link = tuple(map(int, told.weakest))
        sides = frozenset(frozenset(map(int, part)) for part in told.parts)
        assert told.probability == pytest.approx(strength) and (link, sides) in splits
        assert all(q > 0.5 for _, _, q in told.holding)
        assert [q for *_, q in told.holding] == sorted((q for *_, q in told.holding), reverse=True)
        # refuse what holds the parts together, and they are apart
        named = {(int(a), int(b)) for a, b, _ in told.holding}
        less = p.copy()
        less[[k for k, pair in enumerate(zip(items.left, items.right, strict=True)) if pair in named]] = 0
        after = model.cluster(items, less)
        one, other = (next(iter(side)) for side in sides)
        assert after[one] != after[other] and "weakest link" in str(told)
    assert seen > 3


def test_a_cluster_of_must_links_alone_has_no_weakest_link(model: kf.Linker):
    few = world(1).with_pairs([0], [1])
    clusters = model.predict(few, must_link=[(2, 3)])
    told = model.explain_cluster(few, 3, clusters=clusters)
    assert told.items == ("2", "3") and told.weakest is None and told.holding == ()


def test_an_item_that_is_not_there_has_no_cluster(model: kf.Linker):
    for wrong in (-1, world(1).n_items):
        with pytest.raises(InputError, match="expected an item among"):
            model.explain_cluster(world(1), wrong)


# -- files --------------------------------------------------------------------------------------------


def alike(one: str | None, other: str | None) -> float:
    return float(bool(one) and bool(other) and one[0] == other[0])


KEPT: dict[str, dict[str, Any]] = {
    "plain": {},
    "local": {"training": "local"},
    "no conjunctions": {"conjunctions": None},
    "some conjunctions": {"conjunctions": [("exact(name)", "exact(city)")]},
    "bias and clusterer": {
        "bias": kf.Bias("closest", np.float64(2.0), "margin"),
        "clusterer": kf.BestLink(0.4, 5, "closest"),
    },
    "default comparisons": {"features": None},
    "another metric": {"select": "b_cubed_f1", "e_step": "exact", "keep_local": False, "l2": np.float64(0.5)},
    "a threshold of its own": {"folds": 2, "rounds": np.int64(1)},
    "quantiles": {"binning": "quantile", "bins": 3},
}


@pytest.mark.parametrize("settings", KEPT.values(), ids=KEPT.keys())
def test_a_linker_comes_back_as_it_was(settings: dict[str, Any], tmp_path: Path):
    told, fresh = linker(**settings).fit(world()), world(1)
    told.save(tmp_path / FILE)
    loaded = kf.load_model(tmp_path / FILE, kind="mentions")
    assert type(loaded) is kf.Linker
    np.testing.assert_array_equal(loaded.predict_proba(fresh), told.predict_proba(fresh))
    np.testing.assert_array_equal(loaded.predict(fresh), told.predict(fresh))
    assert loaded.explain(fresh, 0, 1) == told.explain(fresh, 0, 1)
    assert loaded.explain_cluster(fresh, 0) == told.explain_cluster(fresh, 0)
    assert loaded.best_round_ == told.best_round_ and str(loaded.convergence_) == str(told.convergence_)
    assert [vars(r) for r in loaded.rounds_] == [vars(r) for r in told.rounds_]
    assert loaded.bias == told.bias and repr(loaded.clusterer) == repr(told.clusterer_)
    assert loaded.pair_set_.weight_names() == told.pair_set_.weight_names()
    objects = {"features", "blocking", "clusterer", "conjunctions"}  # come back as what they became
    assert all(v == told.get_params()[k] for k, v in loaded.get_params(deep=False).items() if k not in objects)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / FILE).read_bytes()
    np.testing.assert_array_equal(loaded.fit(world()).weights_, told.weights_)
    with pytest.raises(ModelFileError, match=FILE):
        kf.load_model(tmp_path / FILE, kind="tokens")


def test_functions_are_given_again(tmp_path: Path):
    told = linker(features=["exact(name)", kf.PairFunction(alike, "name", "alike")]).fit(world())
    told.save(tmp_path / FILE)
    loaded = kf.load_model(tmp_path / FILE, functions={"alike": alike})
    np.testing.assert_array_equal(loaded.predict_proba(world(1)), told.predict_proba(world(1)))
    with pytest.raises(ModelFileError, match=rf"{FILE}: .*'alike'"):
        kf.load_model(tmp_path / FILE)


@pytest.fixture(scope="module")
def saved(model: kf.Linker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("linkers") / FILE
    linker(bias=kf.Bias(), clusterer=kf.SingleLink()).fit(world()).save(path)
    return path


@pytest.fixture(scope="module")
def saved_coreference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("linkers") / FILE
    corpus = kf.Corpus({"word": kf.Column.from_strings("John saw him and her".split())}, [0, 5], [0, 1])
    spans = np.array([(0, 1), (2, 3), (4, 5)])
    items = kf.Mentions.from_groups([0, 0, 0], {}, clusters=[0, 0, 1], corpus=corpus, spans=spans)
    kf.Linker(n_jobs=1, conjunctions=None).fit(items).save(path)
    return path


Change = Callable[[Any, Any, Any], Any]
DAMAGE: dict[str, Change] = {
    "no linker": lambda h, a, s: h.pop("linker"),
    "no weights": lambda h, a, s: a.pop("weights"),
    "weights too few": lambda h, a, s: a.update(weights=a["weights"][1:]),
    "shares too few": lambda h, a, s: a.update(shares=a["shares"][1:]),
    "no edges": lambda h, a, s: a.pop("edges.1"),
    "edges that fall": lambda h, a, s: a.update({"edges.1": np.array([2.0, 1.0])}),
    "edges too many": lambda h, a, s: a.update({"edges.1": np.append(a["edges.1"], 9.0)}),
    "a column missing": lambda h, a, s: h["linker"]["columns"].pop(),
    "a column of another name": lambda h, a, s: s["column_names"].__setitem__(0, "exact(age)"),
    "a feature missing": lambda h, a, s: h["linker"]["features"].pop(),
    "a feature of the future": lambda h, a, s: h["linker"]["features"].__setitem__(0, {"comparison": "Sound"}),
    "a feature that is none": lambda h, a, s: h["linker"]["features"].__setitem__(0, 3),
    "joined beyond the last": lambda h, a, s: h["linker"]["joined"].__setitem__(0, [0, 9]),
    "joined below the first": lambda h, a, s: h["linker"]["joined"].__setitem__(0, [-1, 0]),
    "a conjunction missing": lambda h, a, s: h["linker"]["joined"].pop(),
    "a clusterer of the future": lambda h, a, s: h["linker"].update(clusterer=["Spectral", {}]),
    "a clusterer's setting": lambda h, a, s: h["linker"].update(clusterer=["SingleLink", {"depth": 3}]),
    "a bias of the future": lambda h, a, s: h["linker"]["bias"].update(more=1),
    "no rounds": lambda h, a, s: h["linker"].update(rounds=[]),
    "a round that was not": lambda h, a, s: h["linker"].update(best_round=99),
    "a setting of the future": lambda h, a, s: h["settings"].update(depth=3),
    "another kind": lambda h, a, s: h.update(kind="tokens", method="MaxEnt"),
    "values of a binned column": lambda h, a, s: (
        h["linker"]["columns"].__setitem__(1, len(a["edges.1"]) + 2),
        s.update({"values.1": [str(k) for k in range(len(a.pop("edges.1")) + 2)]}),
    ),
}
OF_COREFERENCE: dict[str, Change] = {
    "fewer values": lambda h, a, s: (
        s["values.25"].pop(), h["linker"]["columns"].__setitem__(25, 3), a.update(weights=a["weights"][:-1])
    ),
    "other values": lambda h, a, s: s["values.2"].reverse(),
    "values in bins": lambda h, a, s: (
        h["linker"]["columns"].__setitem__(25, None), s.pop("values.25"), a.update({"edges.25": np.array([1.0, 2.0])})
    ),
}  # fmt: skip


def altered(path: Path, change: Change, into: Path) -> Path:
    file = read_model_file(path)
    header, arrays, strings = file.header, dict(file.arrays), dict(file.strings)
    change(header, arrays, strings)
    write_model_file(into / FILE, header, arrays, strings)
    return into / FILE


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE.keys())
def test_parts_that_do_not_fit_together(change: Change, saved: Path, tmp_path: Path):
    path = altered(saved, change, tmp_path)
    with pytest.raises(ModelFileError, match=str(path)) as caught:
        kf.load_model(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", OF_COREFERENCE.values(), ids=OF_COREFERENCE.keys())
def test_values_that_the_features_do_not_have(change: Change, saved_coreference: Path, tmp_path: Path):
    """Their codes would be numbers of weights that are not there."""
    kf.load_model(saved_coreference)
    with pytest.raises(ModelFileError, match="do not fit together"):
        kf.load_model(altered(saved_coreference, change, tmp_path))


def test_a_file_cut_or_altered_is_refused(saved: Path, tmp_path: Path):
    whole = saved.read_bytes()
    for at in np.random.default_rng(0).integers(0, len(whole), 20).tolist():
        (tmp_path / FILE).write_bytes(whole[:at])
        with pytest.raises(ModelFileError, match=FILE):
            kf.load_model(tmp_path / FILE)
        turned = bytearray(whole)
        turned[at] ^= 1
        (tmp_path / FILE).write_bytes(turned)
        with pytest.raises(ModelFileError, match=FILE):
            kf.load_model(tmp_path / FILE)


# -- by name ------------------------------------------------------------------------------------------


def named(seed: int) -> kf.Mentions:
    items = world(seed)
    return changed(items, names=[f"r{i}" for i in range(items.n_items)])


def test_items_are_given_by_name_or_by_number(model: kf.Linker):
    items = named(1)
    assert model.explain(items, "r3", "r5") == model.explain(items, 3, 5)
    assert model.explain_cluster(items, "r3") == model.explain_cluster(items, 3)
    apart = [["r0", f"r{j}"] for j in range(1, 5)]
    by_name, by_number = (
        model.predict(items, cannot_link=apart),
        model.predict(items, cannot_link=[[0, j] for j in range(1, 5)]),
    )
    np.testing.assert_array_equal(by_name, by_number)
    assert len(set(by_name[[0, 1]])) == 2
    with pytest.raises(InputError, match="no item named 'x'; names look like 'r0'"):
        model.explain(items, "x", "r1")
    with pytest.raises(InputError, match="the items have no names"):
        model.explain(world(1), "r0", "r1")


def test_an_explanation_shows_both_records(model: kf.Linker):
    told = model.explain(named(1), 0, 1)
    assert told.values[0][0] == "name" and f"name: {told.values[0][1]} | {told.values[0][2]}" in str(told)


def test_another_clusterer_after_training(model: kf.Linker):
    items = world(1)
    p = model.predict_proba(items)
    expected = kf.SingleLink(0.9).cluster(items.n_items, items.left, items.right, p)
    np.testing.assert_array_equal(model.cluster(items, p, clusterer=kf.SingleLink(0.9)), expected)


def test_items_with_no_pair_on_purpose_stay_apart(model: kf.Linker):
    bare = changed(world(1), left=[], right=[], blocked=True)
    assert model.predict(bare).tolist() == list(range(bare.n_items)) and model.predict_proba(bare).shape == (0,)
    with pytest.raises(InputError, match="no candidate pair to learn from"):
        linker().fit(bare)


def test_items_tell_what_they_are():
    items = world(1)
    assert len(items) == items.n_items
    assert repr(items).startswith(f"<{items.n_items} records; columns name, ") and "candidate pairs" in repr(items)
    assert "no candidate pairs yet" in repr(changed(items, left=[], right=[]))
    more = items.with_columns(
        tag=["a", None] * (items.n_items // 2) + ["b"] * (items.n_items % 2), size=range(items.n_items)
    )
    assert more.columns["tag"].strings()[:2] == ["a", None] and more.columns["size"][1] == 1.0
    with pytest.raises(InputError, match="column 'tag' must hold strings or numbers"):
        items.with_columns(tag=[object()] * items.n_items)
