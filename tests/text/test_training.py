"""How models are trained: repeatable, watched, weighted, continued, stopped."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.core.data import Classes
from kinfolk.core.training import Progress
from kinfolk.errors import ConvergenceWarning, DataWarning, InputError, NotFittedError, SettingError
from kinfolk.text.attributes import capitalised, lower, shape, suffix, word
from kinfolk.text.batch import Batch, token_weights
from small_world import MODELS, TEST, TINY, TINY_LABELS, TRAIN, in_scheme

EVERY_MODEL = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
THREE = {name: make for name, make in MODELS.items() if name != "MEMM posterior"}  # trained as MEMM is
EVERY_METHOD = pytest.mark.parametrize("make", THREE.values(), ids=THREE.keys())
FEW = [word[0], lower.window(-1, 1), shape[0], suffix(2)[0], capitalised[0]]
SHORT = TRAIN.documents(0, 6)


def assert_same_weights(one: Any, other: Any) -> None:
    for a, b in zip(one.weights_, other.weights_, strict=True):
        np.testing.assert_array_equal(a, b)


# -- the same seed, the same answer


@EVERY_METHOD
@pytest.mark.parametrize("l1", [0.0, 0.05])
def test_weights_do_not_depend_on_the_number_of_threads(make: Any, l1: float):
    one, two, again = (make(templates=FEW, l1=l1, n_jobs=n, tolerance=0.1).fit(TRAIN) for n in (1, 2, 1))
    assert_same_weights(one, two)
    assert_same_weights(one, again)
    assert one.convergence_.objective == two.convergence_.objective


@EVERY_METHOD
def test_another_seed_ends_at_the_same_objective(make: Any):
    one, two = (make(templates=FEW, random_state=seed, tolerance=1e-7, n_jobs=1).fit(SHORT) for seed in (0, 1))
    assert one.convergence_.objective == pytest.approx(two.convergence_.objective, rel=1e-3)
    assert not np.array_equal(one.weights_.node, two.weights_.node), "the seed is used"


@EVERY_METHOD
def test_no_seed_is_allowed(make: Any):
    assert make(random_state=None, n_jobs=1).fit(TINY, TINY_LABELS).predict(TINY) == TINY_LABELS


# -- warm start


@pytest.mark.parametrize(
    ("make", "pairs"),
    [*((make, None) for make in THREE.values()), (kf.MEMM, [lower[0]]), (kf.LinearChainCRF, [lower[0]])],
    ids=[*THREE, "MEMM with pair features", "LinearChainCRF with pair features"],
)
def test_a_warm_start_goes_on_from_what_was_learned(make: Any, pairs: Any):
    settings = dict(templates=FEW, transition_templates=pairs, tolerance=1e-5, n_jobs=1)
    cold = make(**settings).fit(SHORT)
    warm = make(**settings, warm_start=True).fit(SHORT)
    assert_same_weights(cold, warm)
    objective = cold.convergence_.objective
    warm.fit(SHORT)
    assert warm.convergence_.iterations < cold.convergence_.iterations
    assert warm.convergence_.objective <= objective * (1 + 1e-6)
    assert warm.convergence_.objective == pytest.approx(objective, rel=1e-2)


def test_a_warm_start_finds_features_and_labels_by_their_names():
    first = kf.LinearChainCRF(templates=[word[0]], n_jobs=1, warm_start=True).fit(TINY, TINY_LABELS)
    old, names, classes = first.weights_, first.features_.names(), list(first.classes_)
    stop_at_once = lambda progress: True  # noqa: E731
    first.set_params(max_iterations=1)
    first.fit([["left", "Bonn", "Kim"]], [["O", "B-ORG", "B-PER"]], callback=stop_at_once)
    assert "word[0]=Bonn" in first.features_.names() and "B-ORG" in first.classes_
    moved = first.weights_.node[first.features_.names().index("word[0]=Kim")]
    before = old.node[names.index("word[0]=Kim")]
    kept = [(moved[list(first.classes_).index(c)], before[classes.index(c)]) for c in classes if c in first.classes_]
    assert max(abs(a - b) for a, b in kept) < 1.0 and np.corrcoef(*np.transpose(kept))[0, 1] > 0.9


def test_a_warm_start_copes_with_a_word_that_looks_like_the_edge():
    sentences = [["<outside>", "Kim"], ["Kim", "<outside>"]]
    model = kf.MaxEnt(templates=word.window(-1, 1), n_jobs=1, warm_start=True)
    for _ in range(2):
        model.fit(sentences, [["O", "B-PER"], ["B-PER", "O"]])
    assert model.predict(sentences) == [["O", "B-PER"], ["B-PER", "O"]]


# -- weights of classes and sentences


@EVERY_METHOD
def test_a_heavier_class_is_found_more_often(make: Any):
    plain = make(templates=FEW, n_jobs=1).fit(TRAIN).evaluate(TEST)[0].types["ORG"]
    heavy = make(templates=FEW, n_jobs=1, class_weight={"ORG": 20.0}).fit(TRAIN).evaluate(TEST)[0].types["ORG"]
    assert heavy.recall > plain.recall and heavy.predicted > plain.predicted


@EVERY_METHOD
def test_classes_may_be_balanced(make: Any):
    balanced = make(templates=FEW, n_jobs=1, class_weight="balanced", l2=1.0).fit(TRAIN)
    plain = make(templates=FEW, n_jobs=1, l2=1.0).fit(TRAIN)
    assert balanced.evaluate(TEST)[0].recall >= plain.evaluate(TEST)[0].recall - 2
    assert not np.array_equal(balanced.weights_.node, plain.weights_.node)


@EVERY_METHOD
def test_a_sentence_of_weight_zero_is_not_there(make: Any):
    settings = dict(templates=FEW, tolerance=1e-7, n_jobs=1)
    keep = np.arange(SHORT.n_sentences) % 3 > 0
    rows, labels = SHORT.rows(), SHORT.label_rows()
    without = make(**settings).fit(
        [r for r, k in zip(rows, keep, strict=True) if k], [y for y, k in zip(labels, keep, strict=True) if k]
    )
    weighted = make(**settings).fit(rows, labels, sample_weight=keep.astype(float))
    assert weighted.convergence_.objective == pytest.approx(without.convergence_.objective, rel=1e-3)


@EVERY_METHOD
def test_a_sentence_of_weight_two_is_there_twice(make: Any):
    settings = dict(templates=FEW, tolerance=1e-7, n_jobs=1)
    rows, labels = SHORT.rows()[:30], SHORT.label_rows()[:30]
    doubled = make(**settings).fit(rows + rows, labels + labels)
    weighted = make(**settings).fit(rows, labels, sample_weight=[2] * 30)
    assert weighted.convergence_.objective == pytest.approx(doubled.convergence_.objective, rel=1e-3)


def test_a_token_weighs_its_class_times_its_sentence():
    batch = Batch.of([["Kim", "left"], [], ["Rome"]], [["B-PER", "O"], [], ["?"]], None)
    classes, labels = Classes.of(["B-PER", "O"]), np.array([0, 1, -1], np.int32)
    given = ({"PER": 3.0}, [2.0, 7.0, 5.0])
    np.testing.assert_array_equal(token_weights(batch, labels, classes, *given), [3 * 2, 1 * 2, 1 * 5])
    np.testing.assert_array_equal(token_weights(batch, labels, classes, given[0], None), [3, 1, 1])
    np.testing.assert_array_equal(token_weights(batch, labels, classes, None, given[1]), [2, 2, 5])


SAMPLE_WEIGHTS = {
    "too few": ([1.0], "one number a sentence"),
    "negative": ([1.0, -1.0], "not negative"),
    "all zero": ([0.0, 0.0], "not all zero"),
    "nan": ([1.0, np.nan], "finite"),
    "words": (["a", "b"], "must hold numbers"),
}


@pytest.mark.parametrize(("weights", "message"), SAMPLE_WEIGHTS.values(), ids=SAMPLE_WEIGHTS.keys())
def test_sample_weights_that_cannot_be(weights: Any, message: str):
    with pytest.raises(InputError, match=message):
        kf.LinearChainCRF(n_jobs=1).fit(TINY, TINY_LABELS, sample_weight=weights)


# -- labels that are not known


@EVERY_METHOD
def test_unlabelled_sentences_change_nothing(make: Any):
    settings = dict(templates=FEW, tolerance=1e-7, n_jobs=1)
    rows, labels = SHORT.rows(), SHORT.label_rows()
    plain = make(**settings).fit(rows, labels)
    more = make(**settings).fit(rows + [["never", "labelled"]] * 20, labels + [[None, None]] * 20)
    assert more.convergence_.objective == pytest.approx(plain.convergence_.objective, rel=1e-3)
    assert more.predict(TEST.rows()[:40]) == plain.predict(TEST.rows()[:40])


@EVERY_METHOD
@pytest.mark.parametrize("scheme", ["BIO", "IOBES"])
def test_training_goes_on_with_gaps_in_the_labels(make: Any, scheme: str):
    corpus = in_scheme(TRAIN, scheme)
    gaps = [[None if (s + t) % 4 == 0 else y for t, y in enumerate(row)] for s, row in enumerate(corpus.label_rows())]
    column = kf.Column.from_strings(label for row in gaps for label in row)
    model = make(templates=FEW, n_jobs=1).fit(corpus.with_labels(column, scheme))
    assert model.score(TEST) > 0.4
    assert all(label is not None for row in model.predict(corpus) for label in row)


@pytest.mark.parametrize("scheme", ["IOB1", "BIO", "IOBES"])
def test_unknown_labels_at_random_leave_the_scheme_as_it_is(scheme: str):
    """Also of lists, where it has to be found; an entity that a gap cuts off goes on behind it."""
    corpus = in_scheme(SHORT, scheme)
    hidden = np.random.default_rng(0).random(corpus.n_tokens) < 0.3
    given = iter(hidden)
    labels = [[None if next(given) else y for y in row] for row in corpus.label_rows()]
    model = kf.LinearChainCRF(templates=FEW, n_jobs=1).fit(corpus.rows(), labels)
    assert model.coding_.outer == model.coding_.inner == scheme
    codes = model.coding_.encode(kf.Corpus.from_sentences(corpus.rows(), labels))
    names = np.array([*model.classes_, None], object)[codes].tolist()
    assert names == [y for row in labels for y in row], "no tag beside a gap is rewritten"


def test_slips_are_repaired_and_counted_for_lists_too():
    X = [["Kim", "Lee", "left"], [], ["the", "Hague", "slept"]] * 3
    y = [["B-PER", "I-PER", "O"], [], ["O", "I-LOC", "O"]] * 3
    with pytest.warns(
        DataWarning,
        match=r"^sentence 2, token 1: I-LOC cannot follow O in BIO. 3 tags break.*Repaired: 3 I-LOC after O",
    ) as told:
        model = kf.LinearChainCRF(n_jobs=1).fit(X, y)
    assert len(told) == 1 and told[0].filename == __file__
    assert model.predict(X[:3]) == [["B-PER", "I-PER", "O"], [], ["O", "B-LOC", "O"]]
    with pytest.warns(DataWarning, match="sentence 2, token 1"):
        assert model.score(X, y) == 1
    dicts = [[{"w": word} for word in sentence] for sentence in X]
    with pytest.warns(DataWarning, match="sentence 2, token 1"):
        assert kf.LinearChainCRF(n_jobs=1).fit(dicts, y).predict(dicts[2:3]) == [["O", "B-LOC", "O"]]
    with pytest.warns(DataWarning, match="sentence 2, token 1"):
        kf.Corpus.from_sentences(X, y)


def test_slips_are_repaired_beside_gaps_as_well():
    X, y = [["Kim", "Lee", "left", "the", "Hague"]], [[None, "I-PER", "O", "O", "I-LOC"]]
    with pytest.warns(DataWarning, match="1 tag breaks"):
        corpus = kf.Corpus.from_sentences(X, y, scheme="BIO")
    model = kf.LinearChainCRF(n_jobs=1).fit(corpus)
    codes = model.coding_.encode(corpus)
    assert [None if code < 0 else model.classes_[code] for code in codes] == [None, "I-PER", "O", "O", "B-LOC"]


def test_the_scheme_of_lists_may_be_named():
    X, y = [["Kim", "left"], ["Lee", "slept"]], [["I-PER", "O"], ["I-PER", "O"]]
    assert kf.LinearChainCRF(n_jobs=1).fit(X, y).coding_.outer == "IOB1"
    with pytest.warns(DataWarning, match="2 tags break"):
        model = kf.LinearChainCRF(scheme="BIO", n_jobs=1).fit(X, y)
    assert model.predict(X) == [["B-PER", "O"], ["B-PER", "O"]]
    odd = [["I-PER", "Q"], ["I-PER", "O"]]
    with pytest.raises(InputError, match=r"sentence 0, token 1: 'Q' is not a tag.*pass scheme=None"):
        kf.LinearChainCRF(n_jobs=1).fit(X, odd)
    model = kf.LinearChainCRF(scheme=None, n_jobs=1).fit(X, odd)
    assert model.predict(X) == odd and model.score(X, odd) == 1
    with pytest.raises(SettingError, match=r"LinearChainCRF\(scheme=...\) must be 'auto', 'IOB1', "):
        kf.LinearChainCRF(scheme="IOB2").fit(X, y)
    stacked = kf.StackedTagger(kf.LinearChainCRF(scheme=None, n_jobs=1), kf.Window(1), folds=2).fit(X, odd)
    assert stacked.coding_.outer is None and stacked.score(X, odd) >= 0


def test_gaps_and_another_encoding_do_not_go_together():
    corpus = kf.Corpus.from_sentences([["Kim", "Lee"]], [["B-PER", None]], scheme="BIO")
    with pytest.raises(InputError, match=r"gaps cannot be rewritten from BIO to IOBES"):
        kf.LinearChainCRF(encoding="IOBES", n_jobs=1).fit(corpus)


# -- more settings


@EVERY_METHOD
def test_the_lasso_makes_exact_zeros(make: Any):
    ridge, lasso, strong = (make(templates=FEW, l1=l1, n_jobs=1).fit(TRAIN) for l1 in (0.0, 0.1, 1.0))
    share = [float((m.weights_.node == 0).mean()) for m in (ridge, lasso, strong)]
    assert share[0] < 0.1 < 0.5 < share[1] < share[2] < 1
    assert lasso.score(TEST) > 0.4


@EVERY_METHOD
def test_a_stronger_ridge_makes_smaller_weights(make: Any):
    sizes = [np.abs(make(templates=FEW, l2=l2, n_jobs=1).fit(SHORT).weights_.node).sum() for l2 in (0.01, 1, 100)]
    assert sizes[0] > sizes[1] > sizes[2] > 0


@pytest.mark.parametrize("make", [kf.MEMM, kf.LinearChainCRF])
def test_features_of_label_pairs(make: Any):
    plain = make(templates=FEW, n_jobs=1).fit(TRAIN)
    pairs = make(templates=FEW, transition_templates=[shape[0], lower[-1]], n_jobs=1).fit(TRAIN)
    assert pairs.weights_.pair_features.shape == (pairs.pair_features_.n_features, 81)
    assert np.abs(pairs.weights_.pair_features).max() > 0.01
    assert pairs.convergence_.objective < plain.convergence_.objective, "more to explain the labels with"
    assert pairs.score(TEST) > plain.score(TEST) - 0.05
    two = make(templates=FEW, transition_templates=[shape[0], lower[-1]], n_jobs=2).fit(TRAIN)
    assert_same_weights(pairs, two)


def test_features_of_label_pairs_need_words():
    with pytest.raises(InputError, match="not feature dicts"):
        kf.MEMM(transition_templates=[lower[0]], n_jobs=1).fit([[{"w": "Kim"}]], [["B-PER"]])


@EVERY_METHOD
def test_min_count_leaves_out_rare_features(make: Any):
    all_of_them, frequent = (make(templates=FEW, min_count=n, n_jobs=1).fit(TRAIN) for n in (1, 3))
    assert frequent.features_.n_features < all_of_them.features_.n_features / 2
    assert frequent.score(TEST) > 0.4


# -- how training ends


@EVERY_METHOD
def test_the_end_of_training_is_told(make: Any):
    done = make(templates=FEW, n_jobs=1).fit(SHORT).convergence_
    assert done.status == "converged" and str(done).startswith(f"converged after {done.iterations} iterations")
    assert done.evaluations >= done.iterations > 0 and done.seconds > 0 and done.dev_scores == {}


@EVERY_METHOD
def test_the_limit_is_a_warning_at_the_line_that_called_fit(make: Any):
    with pytest.warns(ConvergenceWarning, match=r"the iteration limit.*Raise `max_iterations` or `tolerance`") as told:
        model = make(max_iterations=2, tolerance=0, n_jobs=1).fit(SHORT)
    assert [w.filename for w in told] == [__file__]
    assert model.convergence_.status == "limit" and model.convergence_.iterations == 2
    assert len(model.predict(TEST)) == TEST.n_sentences


@EVERY_METHOD
@pytest.mark.parametrize("stage", ["warm start", "optimise"])
def test_a_callback_is_told_and_may_stop(make: Any, stage: str):
    seen: list[Progress] = []

    def watch(progress: Progress) -> bool:
        seen.append(progress)
        return progress.stage == stage and progress.iteration == 3

    model = make(templates=FEW, n_jobs=1).fit(SHORT, callback=watch)
    assert model.convergence_.status == "stopped" and "stopped early" in str(model.convergence_)
    assert (seen[-1].stage, seen[-1].iteration) == (stage, 3), "one word is enough"
    assert model.convergence_.iterations == (3 if stage == "optimise" else 0)
    assert all(p.seconds >= 0 and np.isfinite(p.objective) and p.dev_score is None for p in seen)
    assert model.score(SHORT) > 0.5


@EVERY_MODEL
def test_held_out_data_keep_the_best_weights(make: Any):
    model = make(templates=FEW, dev_every=2, patience=3, tolerance=1e-7, l2=0.01, n_jobs=1)
    model.fit(SHORT, X_dev=TEST)
    outcome = model.convergence_
    assert list(outcome.dev_scores) == list(range(2, outcome.iterations + 1, 2))
    best = max(outcome.dev_scores.values())
    assert outcome.dev_scores[outcome.best_iteration] == best
    assert outcome.best_iteration == min(i for i, s in outcome.dev_scores.items() if s == best)
    assert model.score(TEST) == pytest.approx(best), "these are the weights that are kept"
    if outcome.status == "stopped":
        assert outcome.iterations - outcome.best_iteration == 6


def test_held_out_data_stop_training_when_patience_ends():
    model = kf.LinearChainCRF(templates=FEW, dev_every=1, patience=2, tolerance=0, l2=0.001, n_jobs=1)
    model.fit(SHORT, X_dev=TEST.rows(), y_dev=TEST.label_rows())
    outcome = model.convergence_
    assert outcome.status == "stopped" and outcome.iterations == outcome.best_iteration + 2
    assert f"weights of iteration {outcome.best_iteration} kept" in str(outcome)


@pytest.mark.parametrize(("dev", "message"), [
    ((TEST.with_labels(None, None), None), "scoring needs labels"),
    (([["a"]], [[None]]), "scoring needs labels"),
    (([["a"]], [["NN"]]), "the labels are no entity tags"),
])  # fmt: skip
def test_held_out_data_that_cannot_be_scored_are_refused_before_training(dev: Any, message: str):
    passes: list[Progress] = []
    with pytest.raises(InputError, match=message):
        kf.LinearChainCRF(n_jobs=1).fit(TRAIN, X_dev=dev[0], y_dev=dev[1], callback=passes.append)
    assert passes == []


class Interrupted(BaseException):
    """As KeyboardInterrupt, but ours."""


@EVERY_METHOD
def test_an_interrupted_fit_leaves_the_model_as_it_was(make: Any):
    def interrupt(progress: Progress) -> None:
        if progress.stage == "optimise":
            raise Interrupted

    fresh = make(n_jobs=1)
    with pytest.raises(Interrupted):
        fresh.fit(SHORT, callback=interrupt)
    assert not hasattr(fresh, "weights_") and not hasattr(fresh, "features_")
    model = make(n_jobs=1).fit(TINY, TINY_LABELS)
    with pytest.raises(Interrupted):
        model.fit(SHORT, callback=interrupt)
    assert model.predict(TINY) == TINY_LABELS and len(model.classes_) == 5


@EVERY_METHOD
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_huge_and_tiny_feature_values_end_in_finite_weights(make: Any, scale: float):
    X = [[{"w=" + w: scale, "bias": scale} for w in s] for s in SHORT.rows()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = make(n_jobs=1).fit(X, SHORT.label_rows())
    assert all(np.isfinite(part).all() for part in model.weights_)
    assert len(model.predict(X)) == len(X)


# -- weights by name ----------------------------------------------------------------------------------


@pytest.mark.parametrize("new", [kf.MaxEnt, kf.MEMM, kf.LinearChainCRF])
def test_weights_have_names_as_sklearn_crfsuite_gives_them(new: Any):
    X, y = [[{"w": "a"}, {"w": "b", "n": 0.5}]] * 2, [[1, 2]] * 2
    model = new(n_jobs=1, l1=0.05).fit(X, y)
    names, labels = model.features_.names(), model.classes_.tolist()
    assert model.state_features_ == {
        (name, label): float(weight)
        for name, row in zip(names, model.weights_.node, strict=True)
        for label, weight in zip(labels, row, strict=True)
        if weight
    }
    assert ("w:a", 1) in model.state_features_
    pairs = {(a, b): float(model.weights_.pair[i, j]) for i, a in enumerate(labels) for j, b in enumerate(labels)}
    assert model.transition_features_ == ({} if new is kf.MaxEnt else {k: w for k, w in pairs.items() if w})
    with pytest.raises(NotFittedError):
        _ = new().state_features_
