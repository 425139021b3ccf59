"""k best labellings of stacks and mixtures, and stacks that are stopped by held-out data."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.errors import InputError, SettingError
from kinfolk.inference import mixture_spans
from kinfolk.text.attributes import lower, word

SENTENCES = [["Kim", "Lee", "left"], ["Kim", "slept"], ["Rome", "fell"], ["the", "Rome", "of", "Kim"], ["Lee", "fell"]]
LABELS = [["B-P", "I-P", "O"], ["B-P", "O"], ["B-L", "O"], ["O", "B-L", "O", "B-P"], ["B-P", "O"]]
DOCUMENTS = [2, 2, 1]
NEW = kf.Corpus.from_sentences([["Lee", "of", "Rome"], ["Kim", "Lee"], ["Rome", "slept", "Rome"]], documents=[2, 1])
EVERYTHING = 1000
LOOSE = {"n_jobs": 1, "tolerance": 0.1, "templates": [word[0], lower[-1]]}
ANY_WORD = kf.SameWord(max_document_frequency=None, capitalised=False)


def trained(model):
    return model.fit(kf.Corpus.from_sentences(SENTENCES, LABELS, documents=DOCUMENTS))


def mixed(**settings):
    return trained(kf.MixtureTagger(**LOOSE, skip_edges=ANY_WORD, **settings))


def stacked(base, **settings):
    model = kf.StackedTagger(base, n_jobs=1, **{"folds": 3, "depth": 1, **settings})
    return trained(model)


def check_against_marginals(model, corpus=NEW):
    """All labellings of a sentence together have its marginals."""
    place = {label: i for i, label in enumerate(model.classes_)}
    for found, table in zip(model.predict_k_best(corpus, EVERYTHING), model.predict_proba(corpus), strict=True):
        assert len({tuple(labels) for labels, _ in found}) == len(found)
        marginals = np.zeros_like(table)
        for labels, log_p in found:
            marginals[range(len(labels)), [place[label] for label in labels]] += np.exp(log_p)
        np.testing.assert_allclose(marginals, table, atol=1e-9)


@pytest.mark.parametrize("base", [kf.LinearChainCRF, kf.MEMM, kf.MaxEnt])
def test_of_a_stack_they_are_those_of_its_last_level(base):
    model = stacked(base(**LOOSE, constrain=base is kf.LinearChainCRF))
    assert len(model.levels_) == 2 and model.alone_ == "base"
    check_against_marginals(model)
    found = model.predict_k_best(NEW, 4)
    assert [ways[0][0] for ways in found] == model.predict(NEW)
    assert all(log_p == sorted(log_p, reverse=True) for log_p in ([one for _, one in ways] for ways in found))
    assert all(len(ways) == 4 for ways in found)


@pytest.mark.parametrize("order", ["forward", "backward", "both"])
def test_of_a_mixture_probabilities_are_exact(order):
    check_against_marginals(mixed(order=order, constrain=False))


def test_of_a_mixture_they_are_the_valid_ones_with_most_expected_right_labels():
    model = mixed(order="both")
    names, k = list(model.classes_), 7
    found, tables, predicted = model.predict_k_best(NEW, k), model.predict_proba(NEW), model.predict(NEW)
    for ways, table, best in zip(found, tables, predicted, strict=True):
        assert ways[0][0] == best
        valid = [path for path in product(range(len(names)), repeat=len(table)) if _is_valid([names[i] for i in path])]
        sums = sorted((sum(table[t, i] for t, i in enumerate(path)) for path in valid), reverse=True)
        listed = [sum(table[t, names.index(label)] for t, label in enumerate(labels)) for labels, _ in ways]
        np.testing.assert_allclose(listed, sums[:k])
        assert all(_is_valid(labels) and log_p <= 0 for labels, log_p in ways)


def _is_valid(labels):
    before = ["O", *labels]
    return all(b[0] != "I" or a in (f"B{b[1:]}", b) for a, b in zip(before, labels, strict=False))


def test_forced_labels_are_kept():
    corpus = kf.Corpus.from_sentences([["Kim", "left"], ["Kim", "Lee"]], [["B-L", None], [None, None]], documents=[2])
    for model in (mixed(order="both"), stacked(kf.LinearChainCRF(**LOOSE))):
        first, second = model.predict_k_best(corpus, EVERYTHING, forced=True)
        assert {labels[0] for labels, _ in first} == {"B-L"} and len(first) == 4
        assert sum(np.exp(log_p) for _, log_p in first) == pytest.approx(1, abs=0.2), "given the label"
        assert len(second) > 4


def test_a_stack_of_mixtures_and_of_what_has_no_list():
    model = stacked(kf.MixtureTagger(**LOOSE, skip_edges=ANY_WORD))
    assert [ways[0][0] for ways in model.predict_k_best(NEW, 2)] == model.predict(NEW)
    loopy = stacked(kf.SkipChainCRF(**LOOSE))
    with pytest.raises(SettingError, match="k best"):
        loopy.predict_k_best(NEW, 2)


def test_what_takes_too_much_work_is_said_to_be_approximated(monkeypatch, caplog):
    model = mixed()
    model.predict_k_best(NEW, 2)
    assert not caplog.records
    monkeypatch.setattr(mixture_spans.mixture_span_probabilities, "__defaults__", (None, 0, 1))
    model.predict_k_best(NEW, 2)
    assert "approximated" in caplog.text


def test_odd_questions():
    for model in (mixed(), stacked(kf.LinearChainCRF(**LOOSE))):
        assert model.predict_k_best([], 2) == []
        assert model.predict_k_best([[], ["Kim"]], 1) == [[([], 0.0)], model.predict_k_best([["Kim"]], 1)[0]]
        for k in (0, -1, 1.5, "2"):
            with pytest.raises(InputError, match="whole number"):
                model.predict_k_best(NEW, k)


# -- held-out data of a stack --------------------------------------------------------------------------


def test_each_level_of_a_stack_is_scored_on_held_out_data():
    train, dev = kf.newswire_split(12, 6)
    base = kf.LinearChainCRF(n_jobs=1, tolerance=0.01, dev_every=2, patience=2)
    model = kf.StackedTagger(base, depth=1, folds=2, n_jobs=1).fit(train, X_dev=dev)
    for level in model.levels_:
        assert len(level.convergence_.dev_scores) > 1
        assert (
            max(level.convergence_.dev_scores.values())
            == level.convergence_.dev_scores[level.convergence_.best_iteration]
        )
    assert model.alone_ == "last" or dev.n_documents < dev.n_sentences
    best = model.levels_[1].convergence_.dev_scores[model.levels_[1].convergence_.best_iteration]
    assert model.score(dev) == pytest.approx(best), "the last level was scored with what it receives in prediction"
    rows, labels = dev.rows(), dev.label_rows()
    by_lists = kf.StackedTagger(base, depth=0, n_jobs=1).fit(train.rows(), train.label_rows(), X_dev=rows, y_dev=labels)
    assert by_lists.levels_[0].convergence_.dev_scores
    without = kf.StackedTagger(base, depth=1, folds=2, n_jobs=1).fit(train)
    assert not without.levels_[1].convergence_.dev_scores
    with pytest.raises(InputError, match="scoring needs labels"):
        model.fit(train, X_dev=dev.with_labels(None, None))
    assert model.score(dev) == pytest.approx(best), "it stays what it was"
