"""Temperatures of taggers: probabilities as sure as they are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.errors import InputError, SettingError
from kinfolk.text.attributes import shape, word

TEMPLATES = [word[0], word[-1], shape[0]]


@pytest.fixture(scope="module")
def news() -> tuple[kf.Corpus, kf.Corpus]:
    return kf.newswire_split(24, 24, seed=3)


def loss(model: Any, corpus: kf.Corpus) -> float:
    """Of the true labels, each by itself."""
    labels, tables = model.coding_.known(corpus), np.concatenate(model.predict_proba(corpus))
    known = labels >= 0
    return float(-np.log(np.maximum(tables[known, labels[known]], 1e-9)).mean())


@pytest.mark.parametrize("kind", [kf.LinearChainCRF, kf.MEMM, kf.MaxEnt])
def test_a_temperature_is_the_weights_divided(kind: Any, news: tuple[kf.Corpus, kf.Corpus]):
    train, test = news
    plain = kind(templates=TEMPLATES, l2=0.01, n_jobs=1).fit(train)
    mild = kind(templates=TEMPLATES, l2=0.01, n_jobs=1, calibrate=True).fit(train)
    assert plain.temperature_ == 1.0 and mild.temperature_ > 1.0
    for one, other in zip(plain.weights_, mild.weights_, strict=True):
        np.testing.assert_allclose(one, other * mild.temperature_, rtol=1e-4, atol=1e-6)
    assert loss(mild, test) < loss(plain, test)
    if kind is kf.LinearChainCRF:
        assert mild.predict(test) == plain.predict(test), "the most probable labelling stays"


def test_no_temperature_nearby_is_better_on_held_out_folds(news: tuple[kf.Corpus, kf.Corpus]):
    """By folds made here, with models of their own."""
    train, _ = news
    model = kf.LinearChainCRF(templates=TEMPLATES, n_jobs=1, calibrate=True).fit(train)
    dealt = np.random.default_rng(0).permutation(train.n_documents) % 3
    totals = {0.9: 0.0, 1.0: 0.0, 1.1: 0.0}
    for k in range(3):
        other = kf.LinearChainCRF(templates=TEMPLATES, n_jobs=1, tolerance=0.02).fit(
            train.select(np.flatnonzero(dealt != k))
        )
        held_out, weights = train.select(np.flatnonzero(dealt == k)), other.weights_
        for factor in totals:
            by = model.temperature_ * factor
            other.weights_ = type(weights)(*(np.asarray(part / by, np.float32) for part in weights))
            totals[factor] += loss(other, held_out) * held_out.n_tokens
    assert totals[1.0] < totals[0.9] and totals[1.0] < totals[1.1]


@pytest.mark.parametrize("kind", [kf.MixtureTagger, kf.SkipChainCRF])
def test_models_with_skip_edges_are_calibrated(kind: Any, news: tuple[kf.Corpus, kf.Corpus], tmp_path: Any):
    train, test = (corpus.select(np.arange(6)) for corpus in news)
    settings = {"templates": TEMPLATES, "l2": 0.0001, "tolerance": 0.2, "n_jobs": 1}
    plain, mild = (kind(**settings, calibrate=calibrate).fit(train) for calibrate in (False, True))
    by = mild.temperature_
    assert by > 1 and plain.temperature_ == 1
    both = [model.weights_ if kind is kf.MixtureTagger else [model.weights_] for model in (plain, mild)]
    for one, other in zip(*both, strict=True):
        np.testing.assert_allclose(one.tables[0], other.tables[0] * by, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(one.pair, other.pair * by, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(one.gate, other.gate)
    assert loss(mild, test) < loss(plain, test)
    mild.save(tmp_path / "mild.kinfolk")
    again = kf.load_model(tmp_path / "mild.kinfolk")
    assert again.temperature_ == by and loss(again, test) == pytest.approx(loss(mild, test))


def test_a_penalty_of_o_finds_the_same_entities(news: tuple[kf.Corpus, kf.Corpus]):
    train, test = news
    plain, mild = (
        kf.LinearChainCRF(templates=TEMPLATES, l2=0.01, outside_penalty=2.0, n_jobs=1, calibrate=calibrate).fit(train)
        for calibrate in (False, True)
    )
    assert mild.temperature_ > 1 and mild.predict(test) == plain.predict(test)


def test_a_stack_is_calibrated_in_the_level_that_answers(news: tuple[kf.Corpus, kf.Corpus], tmp_path: Any):
    train, test = news
    base = kf.LinearChainCRF(templates=TEMPLATES, l2=0.01, n_jobs=1)
    plain = kf.StackedTagger(base, folds=2, n_jobs=1).fit(train)
    mild = kf.StackedTagger(base, folds=2, n_jobs=1, calibrate=True).fit(train)
    assert mild.levels_[-1].temperature_ > 1 and plain.levels_[-1].temperature_ == 1
    assert loss(mild, test) < loss(plain, test)
    assert mild.predict(test) == plain.predict(test), "what the base says to the level above stays as it was"
    single = kf.Corpus.from_sentences(*([list(rows) for rows in zip(*_sentences(test), strict=True)]))
    assert mild.alone_ == "base" and mild.alone_temperature_ > 1 and mild.levels_[0].temperature_ == 1
    sure = [np.concatenate(model.predict_proba(single)).max(axis=1).mean() for model in (mild, plain)]
    assert sure[0] < sure[1] and mild.predict(single) == plain.predict(single)
    mild.save(tmp_path / "mild.kinfolk")
    again = kf.load_model(tmp_path / "mild.kinfolk")
    assert again.calibrate and again.levels_[-1].temperature_ == mild.levels_[-1].temperature_
    assert again.alone_temperature_ == mild.alone_temperature_
    assert loss(again, test) == pytest.approx(loss(mild, test))


def _sentences(corpus: kf.Corpus) -> list[tuple[list[str], list[str]]]:
    """Words and labels of the first sentences, which become documents of their own."""
    starts, words = corpus.sentence_starts, corpus.columns["word"].strings()
    return [
        ([str(word) for word in words[starts[s] : starts[s + 1]]], labels)
        for s, labels in enumerate(corpus.label_rows()[:30])
    ]


def test_a_calibrated_base_is_made_milder_once(news: tuple[kf.Corpus, kf.Corpus]):
    train, _ = news
    base = kf.MaxEnt(templates=TEMPLATES, l2=0.01, n_jobs=1, calibrate=True)
    once = kf.MaxEnt(templates=TEMPLATES, l2=0.01, n_jobs=1, calibrate=True).fit(train)
    weights, by = once.weights_.node.copy(), once.temperature_
    once.make_milder(2 * by)
    np.testing.assert_allclose(once.weights_.node * 2, weights, rtol=1e-5, atol=1e-6)
    stack = kf.StackedTagger(base, folds=2, depth=0, n_jobs=1, calibrate=True).fit(train)
    assert stack.levels_[-1].temperature_ == pytest.approx(by, rel=0.02)
    np.testing.assert_allclose(stack.levels_[-1].weights_.node, weights, rtol=0.05, atol=1e-3)


def test_what_cannot_be_calibrated():
    alone = kf.Corpus.from_sentences([["a", "b"], ["b"]], [["X", "Y"], ["Y"]], [2])
    with pytest.raises(InputError, match="only one"):
        kf.MaxEnt(calibrate=True, n_jobs=1).fit(alone)
    news = kf.generate_newswire(4, seed=0)
    with pytest.raises(SettingError, match="calibrate"):
        kf.MaxEnt(calibrate="yes").fit(news)
