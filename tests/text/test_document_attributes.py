"""Attributes that read the sentence, the run of capitals and the document around a token."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinfolk import Corpus
from kinfolk.core.modelfile import ModelFile
from kinfolk.errors import SettingError
from kinfolk.text import attributes as document
from kinfolk.text.attributes import Context
from kinfolk.text.extraction import TokenFeatures, restored_features
from small_world import with_sizes

KINDS = sorted(document._DOCUMENT_KINDS)
WORDS = ["kim", "Kim", "KIM", "left", "Left", "9", "Rome", "ROME", "."]
DOCUMENTS = st.lists(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), max_size=3), min_size=1, max_size=3
)


def corpus_of(documents: list[list[list[str]]]) -> Corpus:
    sentences = [sentence for d in documents for sentence in d]
    return with_sizes(Corpus.from_sentences(sentences), documents)


def said(kind: str, *documents: list[str]) -> list[list[str | None]]:
    """What is said of each token; each document a list of sentences, words between blanks."""
    corpus = corpus_of([[sentence.split() for sentence in d] for d in documents])
    return corpus.with_labels(Context(kind).column(corpus), None).label_rows()


def test_a_sentence_in_capitals():
    assert said("sentence_all_caps", ["ROME WINS 3-2 !", "Rome wins", "3 - 2", "I"]) == [
        ["yes"] * 4, [None] * 2, [None] * 3, ["yes"],
    ]  # fmt: skip


def test_lengths_fall_into_bins():
    lengths = [1, 2, 3, 4, 5, 8, 9, 16, 17]
    rows = said("sentence_length", [" ".join("x" * n) for n in lengths])
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5-8", "5-8", "9-16", "9-16", "more"]
    assert all(len(set(row)) == 1 for row in rows)


def test_the_run_of_capitalised_words():
    text = ["the New York Times of Rome"]
    assert said("run_first", text) == [[None, "new", "new", "new", None, "rome"]]
    assert said("run_last", text) == [[None, "times", "times", "times", None, "rome"]]
    assert said("run_before", text) == [[None, "the", "the", "the", None, "of"]]
    assert said("run_after", text) == [[None, "of", "of", "of", None, "<outside>"]]


def test_a_run_ends_with_its_sentence():
    text = ["in Rome", "Kim left"]
    assert said("run_last", text) == [[None, "rome"], ["kim", None]]
    assert said("run_before", text) == [[None, "in"], ["<outside>", None]]
    assert said("run_after", text) == [[None, "<outside>"], ["left", None]]


def test_seen_capitalised_elsewhere_in_mid_sentence():
    assert said("seen_capitalised", ["Kim left", "then Kim left"]) == [["yes", None], [None, None, None]]
    assert said("seen_capitalised", ["kim KIM", "Kim"]) == [["yes", None], ["yes"]]
    first_words_only = said("seen_capitalised", ["Kim left", "Kim won", "KIM WON TOO"])
    assert first_words_only == [[None] * 2, [None] * 2, [None] * 3], "first words and headlines tell nothing"


def test_seen_in_lower_case_elsewhere():
    assert said("seen_lower", ["Left it", "he left"]) == [["yes", None], [None, None]]
    assert said("seen_lower", ["9 9"]) == [[None, None]], "what has no case is not in lower case"


def test_documents_are_worlds_of_their_own():
    assert said("seen_lower", ["Left"], ["he left"]) == [[None], [None, None]]
    assert said("seen_capitalised", ["Kim"], ["then Kim"]) == [[None], [None, None]]
    assert said("document_start", ["Soccer news", "more"], [], ["Rome"]) == [["Soccer"] * 2, ["Soccer"], ["Rome"]]


def test_the_case_a_word_mostly_has():
    rows = said("document_case", ["KIM WINS", "so Kim left Kim and kim", "WINS it"])
    assert rows[0] == ["Kim", "WINS"], "without one in mid-sentence the word stays as it is"
    assert rows[1] == ["so", "Kim", "left", "Kim", "and", "Kim"]


def test_an_unknown_kind_is_refused():
    with pytest.raises(SettingError, match="unknown attribute 'paragraph'; known: document_case"):
        Context("paragraph")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_offered_under_its_name(kind: str):
    assert getattr(document, kind) == Context(kind) and str(Context(kind)) == kind
    assert kind in (Context.__doc__ or "")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(documents=DOCUMENTS)
def test_a_document_is_described_the_same_alone_as_among_others(kind: str, documents: Any):
    corpus = corpus_of(documents)
    together = Context(kind).column(corpus).strings()
    alone = [
        value for d in range(corpus.n_documents) for value in Context(kind).column(corpus.documents(d, d + 1)).strings()
    ]
    assert together == alone


@settings(max_examples=25)
@given(DOCUMENTS)
def test_seen_elsewhere_by_a_plain_loop(documents: Any):
    corpus = corpus_of(documents)
    wanted = {"seen_capitalised": [], "seen_lower": []}
    for sentences in documents:
        places = [(s, i, w) for s, sentence in enumerate(sentences) for i, w in enumerate(sentence)]
        headline = [all(w == w.upper() for w in s) and any(w != w.lower() for w in s) for s in sentences]
        for s, i, own in places:
            others = [p for p in places if p[2].lower() == own.lower() and p[:2] != (s, i)]
            capital = any(w[0].isupper() and at > 0 and not headline[line] for line, at, w in others)
            small = any(w == w.lower() and w != w.upper() for _, _, w in others)
            wanted["seen_capitalised"].append("yes" if capital else None)
            wanted["seen_lower"].append("yes" if small else None)
    for kind, rows in wanted.items():
        assert Context(kind).column(corpus).strings() == rows


def test_templates_of_the_document_survive_a_file():
    own = TokenFeatures([Context(kind)[0] for kind in KINDS])
    corpus = corpus_of([[["KIM", "WINS"], ["So", "Kim", "left"]], [["Rome", "."]]])
    rows = own.learn(corpus)
    arrays, strings = own.state()
    twin = restored_features(ModelFile(json.loads(json.dumps(own.spec())), arrays, strings), {})
    assert rows.nnz > 20 and (twin.rows(corpus) != rows).nnz == 0


@pytest.mark.parametrize("kind", KINDS)
def test_no_tokens_nothing_to_say(kind: str):
    assert Context(kind).column(Corpus.from_sentences([])).strings() == []


@pytest.mark.parametrize("kind", KINDS)
def test_any_word_may_stand_in_the_text(kind: str):
    """Also one that looks like the sign for a position beyond the sentence."""
    corpus = corpus_of([[["<outside>", "Kim", "<outside>"]]])
    assert TokenFeatures([Context(kind)[0]]).learn(corpus).shape[0] == 3
