"""Documents of one sentence: training on them is told of, and nobody loses by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.errors import DataWarning
from kinfolk.text.attributes import lower, shape, word
from small_world import TEST, TINY, TINY_LABELS, TRAIN

PLAIN: dict[str, Any] = dict(templates=[word[0], lower.window(-1, 1), shape[0]], n_jobs=1)
CRF = kf.LinearChainCRF(**PLAIN)


def apart(corpus: kf.Corpus, documents: int | None = None) -> kf.Corpus:
    """Every sentence a document; with a number only those of the first so many documents."""
    cut = corpus.n_sentences if documents is None else int(corpus.document_starts[documents])
    starts = np.concatenate([np.arange(cut), corpus.document_starts[corpus.document_starts >= cut]])
    return replace(corpus, document_starts=starts)


@pytest.fixture(scope="module")
def stacked() -> Any:
    return kf.StackedTagger(CRF, folds=3, n_jobs=1).fit(TRAIN)


def test_a_stack_without_neighbours_is_its_base_and_says_so():
    sentences = apart(TRAIN)
    told = (
        f"^{TRAIN.n_sentences} of {TRAIN.n_sentences} sentences of the training data are documents of their own: "
        "a token has no neighbours beyond its sentence, and the base alone is trained. Mark documents "
        r"\(-DOCSTART- .*documents=\.\.\.` in Corpus.from_sentences\), or name templates, such as Window\(3\), "
    )
    with pytest.warns(DataWarning, match=told) as warned:
        model = kf.StackedTagger(CRF, folds=3, n_jobs=1).fit(sentences)
    assert len(warned) == 1 and len(model.levels_) == 1
    alone = kf.LinearChainCRF(**PLAIN).fit(sentences)
    for found, expected in zip(model.predict_proba(TEST), alone.predict_proba(TEST), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert model.depth is None, "settings stay as they were given"


def test_templates_that_were_asked_for_are_used_even_there():
    sentences = apart(TRAIN.documents(0, 6))
    with pytest.warns(DataWarning, match="a token has no neighbours beyond its sentence. Mark documents"):
        model = kf.StackedTagger(CRF, [kf.Window(1), kf.SameWord()], folds=3, n_jobs=1).fit(sentences)
    assert len(model.levels_) == 2 and model.alone_ == "last"
    model = kf.StackedTagger(CRF, kf.Window(1), folds=3, n_jobs=1).fit(sentences)
    assert len(model.levels_) == 2, "a window asks for no more than the sentence, so there is nothing to tell"


def test_a_few_longer_documents_make_no_neighbours():
    nearly = apart(TRAIN, documents=TRAIN.n_documents - 1)
    with pytest.warns(DataWarning, match="the base alone is trained"):
        assert len(kf.StackedTagger(CRF, folds=3, n_jobs=1).fit(nearly).levels_) == 1
    half = apart(TRAIN, documents=TRAIN.n_documents * 2 // 3)
    model = kf.StackedTagger(CRF, depth=1, folds=3, n_jobs=1).fit(half)
    assert len(model.levels_) == 2 and model.alone_ == "last", "the level above has seen both kinds"


def test_the_base_answers_for_documents_of_one_sentence(stacked: Any):
    """A level that learned to count on neighbours takes the words of a lone sentence for rare ones."""
    base, sentences = stacked.at_depth(0), apart(TEST)
    assert stacked.alone_ == "base"
    assert stacked.predict(sentences) == stacked.predict(TEST.rows()) == base.predict(TEST)
    assert stacked.predict_entities(sentences) == base.predict_entities(sentences)
    assert stacked.score(sentences) == base.score(TEST)
    assert stacked.score(TEST) > base.score(TEST)


def test_each_document_is_answered_for_by_itself(stacked: Any):
    """Of a corpus of both kinds every document has the answer it has alone."""
    mixed = apart(TEST, documents=2)
    singles = [mixed.documents(d, d + 1) for d in range(mixed.n_documents)]
    assert stacked.predict(mixed) == [row for one in singles for row in stacked.predict(one)]
    tables = [table for one in singles for table in stacked.predict_proba(one)]
    for found, expected in zip(stacked.predict_proba(mixed), tables, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)
    found = stacked.predict_entities(mixed)
    assert [(e.sentence, e.start) for e in found] == sorted((e.sentence, e.start) for e in found)
    apart_found = [
        replace(e, sentence=e.sentence + int(mixed.document_starts[d]))
        for d, one in enumerate(singles) for e in stacked.predict_entities(one)
    ]  # fmt: skip
    assert [replace(e, confidence=0) for e in found] == [replace(e, confidence=0) for e in apart_found]
    np.testing.assert_allclose([e.confidence for e in found], [e.confidence for e in apart_found], atol=1e-12)
    _, accuracy = stacked.evaluate(mixed)
    right = [a == b for one in singles for a, b in zip(
        [y for row in stacked.predict(one) for y in row], [y for row in one.label_rows() for y in row], strict=True
    )]  # fmt: skip
    assert accuracy == pytest.approx(100 * np.mean(right))


def test_forced_labels_are_kept_in_both_kinds(stacked: Any):
    mixed = apart(TEST, documents=2)
    assert stacked.predict(mixed, forced=True) == mixed.label_rows()


def test_explanations_of_a_lone_sentence_are_those_of_the_base(stacked: Any):
    sentences = apart(TEST)
    assert str(stacked.explain(sentences, 3, 0)) == str(stacked.at_depth(0).explain(sentences, 3, 0))
    names = {c.feature for one in stacked.explain(TEST, 0) for c in one.contributions}
    assert any(name.startswith("count(same word)") for name in names)


def test_honest_predictions_are_the_base_s_there_too():
    corpus = apart(TRAIN, documents=1)
    folds = np.arange(corpus.n_documents) % 3
    model, base = (kf.StackedTagger(CRF, depth=depth, folds=folds.tolist(), n_jobs=1) for depth in (1, 0))
    both, alone = model.cross_fit(corpus), base.cross_fit(corpus)
    cut = int(corpus.sentence_starts[TRAIN.document_starts[1]])
    np.testing.assert_allclose(both[:cut], alone[:cut], atol=1e-12)
    assert np.abs(both[cut:] - alone[cut:]).max() > 0.01


def test_who_answers_is_kept_in_the_file(stacked: Any, tmp_path: Path):
    stacked.save(tmp_path / "m")
    again = kf.load_model(tmp_path / "m")
    assert again.alone_ == "base" and again.predict(TEST.rows()) == stacked.predict(TEST.rows())


# -- models with skip edges


@pytest.mark.parametrize("make", [kf.MixtureTagger, kf.SkipChainCRF])
def test_skip_edges_without_documents_are_told_in_one_line(make: Any):
    model = make(**PLAIN)
    told = "2 of 2 sentences of the training data are documents of their own: skip edges 'same word' join no two tokens"
    with pytest.warns(DataWarning, match=f"^{told} .*so they are not used. Mark documents") as warned:
        model.fit(TINY, TINY_LABELS)
    assert len(warned) == 1 and "\n" not in str(warned[0].message)
    with pytest.warns(DataWarning, match="skip edges stay within a document. Mark documents"):
        make(**PLAIN).fit([["Kim", "saw", "Kim"], ["Lee", "left"]], [["B-PER", "O", "B-PER"], ["B-PER", "O"]])
    dicts = [[{"w": word} for word in sentence] for sentence in TINY]
    with pytest.warns(
        DataWarning, match=r"Mark documents \(`words=\.\.\.` and `documents=\.\.\.` beside the feature dicts\)"
    ):
        make(n_jobs=1).fit(dicts, TINY_LABELS)
    told = r"^skip edges 'same word' join no two tokens of the training data.* SameWord\(capitalised=False\) joins"
    with pytest.warns(DataWarning, match=told):
        make(**PLAIN).fit(kf.Corpus.from_sentences(TINY, TINY_LABELS, documents=[len(TINY)]))
    make(skip_edges=None, **PLAIN).fit(TINY, TINY_LABELS)
