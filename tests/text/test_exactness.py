"""Probabilities, forced labels, k-best lists and confidences against a brute force over all labellings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinfolk as kf
import oracles
from kinfolk.errors import InputError
from kinfolk.text import schemes
from kinfolk.text.attributes import lower, shape
from kinfolk.text.batch import Batch
from small_world import MODELS, TEST, TRAIN, chain_of, constrained, is_valid, randomised

EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
SENTENCE = st.lists(st.sampled_from(["Kim", "Rome", "left", "the", "of", "unseen"]), min_size=1, max_size=4)
SEEDS = st.integers(0, 2**32 - 1)
TWO_TYPES = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]
_FITTED: dict[tuple[str, str], Any] = {}


def small_model(name: str, encoding: str = "BIO", **settings_: Any) -> Any:
    """Two types only, so that all labellings of four tokens can be listed."""
    key = (name, f"{encoding}{settings_}")
    if key not in _FITTED:
        rows = [["O" if t[2:] in ("ORG", "MISC") else t for t in row] for row in TRAIN.label_rows()]
        model = MODELS[name](templates=[lower[0], shape[0]], encoding=encoding, n_jobs=1, **settings_)
        _FITTED[key] = model.fit(TRAIN.rows()[:80], rows[:80])
    return _FITTED[key]


def drawn(name: str, seed: int, encoding: str = "BIO", **settings_: Any) -> Any:
    """Random weights of moderate size: nothing is certain, nothing ties."""
    return randomised(small_model(name, encoding, **settings_), seed, 0.7)


def sentence_of(words: list[str], labels: list[str | None] | None = None) -> kf.Corpus:
    return kf.Corpus.from_sentences([words], None if labels is None else [labels], scheme="BIO")


def chain_for(model: Any, corpus: kf.Corpus) -> tuple[np.ndarray, ...]:
    """The chain whose labellings have the model's probabilities: conditioned on validity for the CRF only."""
    chain = chain_of(model, corpus)
    return constrained(model, chain) if isinstance(model, kf.LinearChainCRF) else chain


@EVERY_MODEL
@settings(max_examples=12)
@given(words=SENTENCE, seed=SEEDS)
def test_probabilities_are_sums_over_labellings(name: str, words: list[str], seed: int):
    model, corpus = drawn(name, seed), sentence_of(words)
    np.testing.assert_allclose(
        model.predict_proba(corpus)[0], oracles.chain_node_marginals(*chain_for(model, corpus)), atol=1e-6
    )


@settings(max_examples=12)
@given(words=SENTENCE, seed=SEEDS)
def test_a_memm_is_what_its_definition_says(words: list[str], seed: int):
    """Scores to conditional probabilities by the oracle's own formula, not by the library's potentials."""
    model, corpus = drawn("MEMM", seed), sentence_of(words)
    (block,) = model._decoder().blocks(Batch.of(corpus), lambda block: block)
    scores = [np.asarray(part, np.float64) for part in (block.node, block.pair[0], block.start)]
    np.testing.assert_allclose(model.predict_proba(corpus)[0], oracles.memm_marginals(*scores), atol=1e-6)


@EVERY_MODEL
@settings(max_examples=12)
@given(words=SENTENCE, seed=SEEDS)
def test_predictions_are_the_best_valid_labelling(name: str, words: list[str], seed: int):
    model, corpus = drawn(name, seed), sentence_of(words)
    found = [list(model.classes_).index(label) for label in model.predict(corpus)[0]]
    if name == "MEMM posterior":
        allowed = schemes.transitions(model.coding_.classes.names, "BIO")
        table = oracles.chain_node_marginals(*chain_of(model, corpus))
        _, best = oracles.chain_max_expected_correct(table, *allowed)
        assert sum(table[t, k] for t, k in enumerate(found)) == pytest.approx(best, abs=1e-6)
    else:
        chain = constrained(model, chain_of(model, corpus))
        assert oracles.chain_score(*chain, found) == pytest.approx(oracles.chain_best(*chain)[1], abs=1e-5)


@EVERY_MODEL
@pytest.mark.filterwarnings("ignore::kinfolk.errors.DataWarning")  # tags that break the scheme are told when made
@settings(max_examples=20)
@given(words=SENTENCE, seed=SEEDS, data=st.data())
def test_forced_labels_stay_and_the_others_are_given_them(name: str, words: list[str], seed: int, data: st.DataObject):
    model = drawn(name, seed)
    labels = data.draw(st.lists(st.none() | st.sampled_from(TWO_TYPES), min_size=len(words), max_size=len(words)))
    corpus = sentence_of(words, labels)
    classes = list(model.classes_)
    codes = np.array([-1 if label is None else classes.index(label) for label in labels])
    allowed = oracles.known_labels_mask(codes, len(classes))
    valid = constrained(model, chain_of(model, corpus))
    if oracles.chain_log_partition(*valid, allowed) == -np.inf:
        with pytest.raises(InputError, match="labels given in sentence 0 break the tag scheme"):
            model.predict(corpus, forced=True)
        return
    found = model.predict(corpus, forced=True)[0]
    assert all(given is None or label == given for label, given in zip(found, labels, strict=True))
    assert is_valid([found], "BIO")
    if name != "MEMM posterior":
        score = oracles.chain_score(*valid, [classes.index(label) for label in found])
        assert score == pytest.approx(oracles.chain_best(*valid, allowed)[1], abs=1e-5)
    np.testing.assert_allclose(
        model.predict_proba(corpus, forced=True)[0],
        oracles.chain_node_marginals(*chain_for(model, corpus), allowed),
        atol=1e-6,
    )


@EVERY_MODEL
def test_labels_are_looked_at_only_when_forced(name: str):
    model = small_model(name)
    plain, labelled = sentence_of(["the", "Kim"]), sentence_of(["the", "Kim"], ["B-LOC", None])
    assert model.predict(labelled) == model.predict(plain)
    assert model.predict(labelled, forced=True)[0][0] == "B-LOC"
    np.testing.assert_array_equal(model.predict_proba(labelled)[0], model.predict_proba(plain)[0])
    assert model.predict(sentence_of(["the"], ["B-PER"]), forced=True) == [["B-PER"]]


@EVERY_MODEL
def test_forcing_one_label_moves_its_neighbours(name: str, fitted_models: Any):
    """A MaxEnt model knows of no neighbours; the others do."""
    rows = [[None] * len(row) for row in TEST.rows()]
    for row in rows:
        row[0] = "O"
    corpus = TEST.with_labels(kf.Column.from_strings(label for row in rows for label in row), "BIO")
    model = fitted_models[name]
    plain, given_first = model.predict_proba(TEST), model.predict_proba(corpus, forced=True)
    moved = max(np.abs(a[1:] - b[1:]).max(initial=0) for a, b in zip(plain, given_first, strict=True))
    assert (moved > 1e-3) == (name != "MaxEnt")
    assert all(table[0, list(model.classes_).index("O")] == pytest.approx(1) for table in given_first)


def test_forced_labels_of_another_scheme():
    """Whole labellings are rewritten; with gaps that cannot be done, and is said."""
    model = small_model("LinearChainCRF", "IOBES")
    whole = sentence_of(["Kim", "Kim"], ["B-PER", "I-PER"])
    assert model.predict(whole, forced=True) == [["B-PER", "I-PER"]]
    with pytest.raises(InputError, match=r"gaps cannot be rewritten from BIO to IOBES. Set `encoding='BIO'`"):
        model.predict(sentence_of(["Kim", "Kim"], ["B-PER", None]), forced=True)


@pytest.mark.parametrize("name", ["MEMM", "LinearChainCRF"])
@pytest.mark.parametrize("constrain", [True, False])
@settings(max_examples=12)
@given(words=SENTENCE, seed=SEEDS, k=st.integers(1, 8))
def test_k_best_lists_are_the_brute_force_s(name: str, constrain: bool, words: list[str], seed: int, k: int):
    model, corpus = drawn(name, seed, constrain=constrain), sentence_of(words)
    (found,) = model.predict_k_best(corpus, k)
    own = chain_of(model, corpus)
    ranked = constrained(model, own) if constrain else own
    log_z = oracles.chain_log_partition(*(ranked if name == "LinearChainCRF" else own))
    wanted = oracles.chain_k_best(*ranked, k)
    assert [log_p for _, log_p in found] == pytest.approx([score - log_z for _, score in wanted], abs=1e-5)
    classes = list(model.classes_)
    for labels, log_p in found:
        score = oracles.chain_score(*ranked, [classes.index(label) for label in labels])
        assert log_p == pytest.approx(score - log_z, abs=1e-5)


@pytest.mark.parametrize("name", ["MEMM", "LinearChainCRF"])
def test_k_best_lists_are_distinct_sorted_and_led_by_the_prediction(name: str, fitted_models: Any):
    model = fitted_models[name]
    lists = model.predict_k_best(TEST, 5)
    assert [best[0][0] for best in lists] == model.predict(TEST)
    for best in lists:
        log_p = [p for _, p in best]
        assert log_p == sorted(log_p, reverse=True) and sum(map(math.exp, log_p)) <= 1 + 1e-9
        assert len({tuple(labels) for labels, _ in best}) == len(best) == 5 or len(best[0][0]) == 1
        assert is_valid([labels for labels, _ in best], "BIO")


def test_k_best_is_all_there_is_when_k_is_large():
    model = small_model("LinearChainCRF")
    (found,) = model.predict_k_best(sentence_of(["Kim"]), 50)
    assert {tuple(labels) for labels, _ in found} == {("B-LOC",), ("B-PER",), ("O",)}
    assert sum(math.exp(log_p) for _, log_p in found) == pytest.approx(1)
    assert model.predict_k_best([["Kim"]], np.int64(2))[0] == found[:2]
    for k in (0, -1, 1.5, "2"):
        with pytest.raises(InputError, match="k must be a whole number of 1 or more"):
            model.predict_k_best([["Kim"]], k)


@EVERY_MODEL
@pytest.mark.parametrize("encoding", ["BIO", "IOBES"])
@settings(max_examples=12)
@given(words=st.lists(st.sampled_from(["Kim", "Rome", "left"]), min_size=1, max_size=3), seed=SEEDS)
def test_confidence_is_the_probability_of_the_very_entity(name: str, encoding: str, words: list[str], seed: int):
    model, corpus = drawn(name, seed, encoding), sentence_of(words)
    chain = chain_for(model, corpus)
    classes = list(model.classes_)
    follows = schemes.continuations(classes)
    for entity in model.predict_entities(corpus):
        size = entity.end - entity.start
        letters = "B" + "I" * (size - 1) if encoding == "BIO" else "S" if size == 1 else "B" + "I" * (size - 2) + "E"
        labels = [classes.index(f"{letter}-{entity.type}") for letter in letters]
        wanted = oracles.chain_span_probability(*chain, entity.start, labels, np.flatnonzero(follows[labels[-1]]))
        assert entity.confidence == pytest.approx(wanted, abs=1e-6)


def test_long_corpora_are_worked_through_in_blocks(fitted: Any, monkeypatch: pytest.MonkeyPatch):
    """Answers do not depend on where the blocks are cut."""
    from kinfolk.text import chain as decoder

    whole = (fitted.predict(TEST), fitted.predict_proba(TEST), fitted.predict_entities(TEST))
    monkeypatch.setattr(decoder, "BLOCK_TOKENS", 37)
    assert fitted.predict(TEST) == whole[0]
    for a, b in zip(fitted.predict_proba(TEST), whole[1], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    cut = fitted.predict_entities(TEST)
    assert [(e.sentence, e.start, e.text) for e in cut] == [(e.sentence, e.start, e.text) for e in whole[2]]
    assert [e.confidence for e in cut] == pytest.approx([e.confidence for e in whole[2]])
