"""Predicted entities, back to the characters they stand for."""

from __future__ import annotations

import dataclasses
import io

import numpy as np

import kinfolk as kf
from kinfolk.text import schemes
from kinfolk.text.batch import Batch, Confidence, Entity, entity_list
from kinfolk.text.standoff import Mark, Marked, fitted_corpus

TEXTS = ["IL-2 binds\nthe IL-2  receptor.", "", "We saw (TGF-β1)."]
MARKS = [[(0, 4), (15, 29)], [], [(8, 14)]]


def certain(n: int) -> Confidence:
    return Confidence(np.ones(n), np.ones(n, bool))


def marked() -> kf.Corpus:
    documents = [Marked(t, [Mark(a, b, "protein") for a, b in m]) for t, m in zip(TEXTS, MARKS, strict=True)]
    corpus, counts = fitted_corpus(documents)
    assert counts.kept == 3 and counts.widened == 0
    return corpus


def test_entities_of_the_marks_are_the_marks():
    corpus = marked()
    found = schemes.spans(corpus.labels, corpus.sentence_starts, "BIO")
    entities = entity_list(Batch.of(corpus), found, certain(len(found)))
    expected = [(d, a, b) for d, marks in enumerate(MARKS) for a, b in marks]
    assert [(e.document, e.start_char, e.end_char) for e in entities] == expected
    assert [TEXTS[e.document][e.start_char : e.end_char] for e in entities] == ["IL-2", "IL-2  receptor", "TGF-β1"]
    assert [e.text for e in entities] == ["IL-2", "IL-2 receptor", "TGF-β1"], "blanks only where there are some"
    assert [(e.sentence, e.start, e.end) for e in entities] == [(0, 0, 3), (0, 5, 9), (1, 3, 6)]


def test_a_model_that_learned_the_marks_gives_them_back():
    corpus = marked()
    model = kf.MaxEnt(l2=0.001, min_count=1, n_jobs=1).fit(corpus)
    entities = model.predict_entities(corpus)
    assert [(e.document, e.start_char, e.end_char) for e in entities] == [
        (d, a, b) for d, marks in enumerate(MARKS) for a, b in marks
    ]
    last = model.predict_entities(corpus.documents(2, 3))
    assert [(e.document, e.start_char, e.end_char) for e in last] == [(0, 8, 14)]
    text = "Then\n\nwe saw (TGF-β1)."
    (found,) = model.predict_entities(kf.read_text(io.StringIO(text), tokenise="fine"))
    assert found.document == 1 and text[found.start_char : found.end_char] == "TGF-β1", "characters of the file"


def test_without_offsets_there_are_no_characters():
    corpus = dataclasses.replace(marked(), offsets=None)
    found = schemes.spans(corpus.labels, corpus.sentence_starts, "BIO")
    first, *_ = entity_list(Batch.of(corpus), found, certain(len(found)))
    assert type(first) is Entity and first.text == "IL - 2"
    assert entity_list(Batch.of(corpus), [], certain(0)) == []


def test_words_may_hold_blanks():
    corpus = kf.Corpus.from_sentences([["New York", "City", "!"]])
    corpus = dataclasses.replace(corpus, offsets=[[0, 8], [9, 13], [13, 14]])
    (entity,) = entity_list(Batch.of(corpus), [schemes.Span(0, 3, "x")], certain(1))
    assert vars(entity) == dict(
        sentence=0, start=0, end=3, type="x", confidence=1.0, text="New York City!",
        document=0, start_char=0, end_char=14, exact=True,
    )  # fmt: skip
