"""Corpus and Column: from lists and back, cut by documents, checked when built."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import pickle
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import kinfolk.text.corpus
from kinfolk import Column, Corpus
from kinfolk.errors import InputError

WORDS = [["Kim", "met", "Lee"], ["He", "left"], ["END"]]
LABELS = [["B-PER", "O", "B-PER"], ["O", None], ["O"]]
STRINGS = st.lists(st.none() | st.text(max_size=3), max_size=20)
SENTENCES = st.lists(st.lists(st.text(max_size=3), max_size=4), max_size=8)


def small() -> Corpus:
    pos = [["NNP", "VBD", "NNP"], ["PRP", "VBD"], ["NN"]]
    corpus = Corpus.from_sentences(WORDS, LABELS, [2, 1], "BIO", pos=pos)
    return dataclasses.replace(corpus, document_starts=np.array([0, 2, 2, 3]))


@given(STRINGS)
def test_a_column_gives_back_its_strings(strings: list[str | None]):
    column = Column.from_strings(strings)
    assert column.strings() == strings and len(column) == len(strings)
    assert list(column.values) == list(dict.fromkeys(s for s in strings if s is not None))
    assert column.codes.dtype == np.int32


@given(STRINGS, st.integers(0, 20), st.integers(0, 20))
def test_a_slice_of_a_column(strings: list[str | None], start: int, stop: int):
    assert Column.from_strings(strings).slice(start, stop).strings() == strings[start:stop]


def test_column_codes_are_checked_and_read_only():
    for codes in ([2], [-2], [[0]]):
        with pytest.raises(InputError, match="codes must be one row of numbers from -1 to 1"):
            Column(np.array(codes), ("a", "b"))
    column = Column(np.array([0, -1]), ("a",))
    with pytest.raises(ValueError, match="read-only"):
        column.codes[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        column.values = ("b",)


def test_components_for_spacy_say_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "spacy.language", None)  # as where spaCy is not installed
    with pytest.raises(ImportError, match=r"not installed: pip install 'kinfolk\[spacy\]'"):
        runpy.run_path(str(Path(kinfolk.text.corpus.__file__).with_name("spacy.py")))


def test_a_corpus_is_a_sequence_of_documents():
    corpus = small()
    assert len(corpus) == 3 and [one.rows() for one in corpus] == [WORDS[:2], [], WORDS[2:]]
    assert corpus[0].rows() == corpus[-3].rows() == corpus[np.int64(0)].rows() == WORDS[:2]
    assert corpus[0].n_documents == 1 and corpus[0].scheme == "BIO" and corpus[0].rows("pos")[1] == ["PRP", "VBD"]
    for chosen in ([2, 0], np.array([2, 0]), [-1, 0], slice(None, None, -2)):
        assert corpus[chosen].rows() == [*WORDS[2:], *WORDS[:2]] and len(corpus[chosen]) == 2
    assert corpus[[True, False, False]].rows() == WORDS[:2] and len(corpus[[]]) == 0
    array = np.asarray(corpus)
    assert array.shape == (3,) and array[2].rows() == WORDS[2:]
    assert Corpus.joined(list(corpus)).label_rows() == corpus.label_rows()
    for wrong in (3, -4):
        with pytest.raises(IndexError, match=f"there are 3 documents; asked for number {wrong}"):
            corpus[wrong]
    with pytest.raises(InputError, match="documents are numbered 0 to 2; got 0 to 7"):
        corpus[[0, 7]]
    with pytest.raises(InputError, match="expected numbers of documents, or a truth value for each of the 3"):
        corpus[[True, False]]


def test_only_strings_make_a_column():
    with pytest.raises(InputError, match="expected strings; got 7, a int"):
        Column.from_strings(["a", 7])


@given(SENTENCES, st.data())
def test_sentences_go_in_and_come_out(sentences: list[list[str]], data: st.DataObject):
    """Empty sentences are dropped, their documents kept; each sentence of a document in its order."""
    label = st.none() | st.sampled_from("OX")
    labels = [data.draw(st.lists(label, min_size=len(s), max_size=len(s))) for s in sentences]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sentences)), max_size=4)))
    bounds = [0, *cuts, len(sentences)]
    sizes = [b - a for a, b in itertools.pairwise(bounds)]
    assume(len(sizes) != len(sentences))  # which may be numbers of documents
    corpus = Corpus.from_sentences(sentences, labels, sizes, upper=[[w.upper() for w in s] for s in sentences])
    kept = [s for s in sentences if s]
    assert corpus.rows() == kept and corpus.rows("upper") == [[w.upper() for w in s] for s in kept]
    assert corpus.label_rows() == [row for row in labels if row]
    assert (corpus.n_documents, corpus.n_sentences) == (len(sizes), len(kept))
    assert len(corpus) == corpus.n_documents and corpus.n_tokens == sum(map(len, kept))
    expected_documents = [d for d in range(len(sizes)) for s in sentences[bounds[d] : bounds[d + 1]] for _ in s]
    assert corpus.token_documents.tolist() == expected_documents
    for d in range(len(sizes)):
        alone = corpus.documents(d, d + 1)
        assert alone.rows() == [s for s in sentences[bounds[d] : bounds[d + 1]] if s]
        assert alone.n_documents == 1


def test_without_documents_each_sentence_is_one():
    corpus = Corpus.from_sentences(WORDS)
    assert corpus.n_documents == corpus.n_sentences == 3
    assert corpus.labels is None and corpus.label_rows() == [[None] * 3, [None] * 2, [None]]


@pytest.mark.parametrize("documents", [["a", "a", "b"], [4, 4, 9], np.array([0, 0, 1]), [2, 1], np.array(list("xxy"))])
def test_documents_by_size_or_by_the_document_of_each_sentence(documents: Any):
    assert Corpus.from_sentences(WORDS, documents=documents).document_starts.tolist() == [0, 2, 3]


def test_a_column_of_pandas_holds_sentences():
    corpus = Corpus.from_sentences(pd.Series(WORDS, index=[3, 1, 2]), documents=pd.Series([4, 4, 9]))
    assert corpus.rows() == WORDS and corpus.n_documents == 2


def test_documents_of_sentences_are_nested_too_deep():
    with pytest.raises(InputError, match=r"nested one level too deep: .* Flatten them, "):
        Corpus.from_sentences([WORDS, WORDS])


def test_nothing_is_a_corpus_too():
    corpus = Corpus.from_sentences([])
    assert (corpus.n_tokens, corpus.n_sentences, corpus.n_documents) == (0, 0, 0)
    assert corpus.rows() == [] and corpus.token_documents.tolist() == []


def placed() -> Corpus:
    """With all that a reader of text tells."""
    offsets = np.array([[0, 3], [4, 7], [8, 11], [12, 14], [15, 19], [0, 3]])
    return dataclasses.replace(small(), source="a.txt", lines=np.arange(6, dtype=np.int32), offsets=offsets)


def test_cutting_by_documents_keeps_everything_that_belongs():
    corpus = placed()
    tail = corpus.documents(1, 3)
    assert tail.rows() == [["END"]] and tail.rows("pos") == [["NN"]] and tail.label_rows() == [["O"]]
    assert (tail.n_documents, tail.scheme, tail.source) == (2, "BIO", "a.txt")
    assert tail.lines is not None and tail.lines.tolist() == [5]
    assert tail.offsets is not None and tail.offsets.tolist() == [[0, 3]]
    assert corpus.documents(0, 3).rows() == corpus.rows()
    assert corpus.documents(2, 2).n_tokens == 0


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (-1, 2), (2, 1)])
def test_documents_that_are_not_there(start: int, stop: int):
    with pytest.raises(InputError, match=f"documents go from 0 to 3; asked for {start} to {stop}"):
        small().documents(start, stop)


def test_other_labels_for_the_same_tokens():
    corpus = small().with_labels(Column.from_strings("abcabc"), None)
    assert corpus.label_rows() == [["a", "b", "c"], ["a", "b"], ["c"]] and corpus.scheme is None
    assert corpus.rows("pos") == small().rows("pos")
    assert small().with_labels(None, None).labels is None
    assert small().with_labels(None, None).offsets is None
    assert placed().with_labels(None, None).offsets.tolist() == placed().offsets.tolist()


def test_repr_tells_the_sizes():
    assert repr(small()) == "Corpus(3 documents, 3 sentences, 6 tokens, columns word, pos, scheme BIO)"


FROM_SENTENCES = {
    "labels of another length": (dict(labels=[["O"], ["O", "O"], ["O"]]), "'labels' must have the same"),
    "a column with a sentence missing": (dict(pos=[["X"] * 3, ["X"] * 2]), "'pos' must have the same"),
    "documents that do not add up": (dict(documents=[1, 1]), "sizes that add up to 3 sentences, .* got 2: 1, 1. Leave"),
    "a document of negative size": (dict(documents=[4, -1]), "add up to 3 sentences, .* got 2: 4, -1"),
    "documents of two types": (dict(documents=["a", 1, 1]), "add up to 3 sentences, or a name .* got 3: 'a', 1, 1"),
    "too few names of documents": (dict(documents=["a", "b"]), "for each of the 3; got 2: 'a', 'b'"),
    "a document in two places": (dict(documents=["a", "b", "a"]), "those of 'a' come in several places: sort them"),
    "a number in two places": (dict(documents=[7, 8, 7]), "those of 7 come in several places"),
    "a word that is missing": (dict(pos=[["X", None, "X"], ["X"] * 2, ["X"]]), "'pos' lacks a value at token 1"),
    "vectors for words": (dict(pos=[[[0.5]] * 3, [[0.5]] * 2, [[0.5]]]), r"expected strings; got \[0.5\], a list"),
    "numbers for words": (dict(pos=[[1, 2, 3], [4, 5], [6]]), "expected strings; got 1"),
}


@pytest.mark.parametrize(("more", "message"), FROM_SENTENCES.values(), ids=FROM_SENTENCES.keys())
def test_lists_that_do_not_fit(more: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        Corpus.from_sentences(WORDS, **more)


def test_a_string_is_no_sentence():
    with pytest.raises(InputError, match="a sentence is a list of words; got a string"):
        Corpus.from_sentences(["Kim left"])


WORD = Column.from_strings(["a", "b", "c"])
PARTS = {
    "no words": (dict(columns={"pos": WORD}), "needs a column named 'word'; got pos"),
    "no columns": (dict(columns={}), "needs a column named 'word'; got none"),
    "a shorter column": (
        dict(columns={"word": WORD, "pos": WORD.slice(0, 2)}),
        "'pos' has 2 tokens, column 'word' has 3",
    ),
    "fewer labels": (dict(labels=WORD.slice(0, 1)), r"'\(labels\)' has 1 tokens"),
    "an empty sentence": (dict(sentence_starts=[0, 2, 2, 3]), "at least one token"),
    "sentences that end early": (dict(sentence_starts=[0, 2]), "sentence_starts must rise from 0 to 3"),
    "sentences that start late": (dict(sentence_starts=[1, 3]), "sentence_starts must rise"),
    "falling sentences": (dict(sentence_starts=[0, 3, 1, 3]), "sentence_starts must rise"),
    "no starts": (dict(sentence_starts=[]), "sentence_starts must rise"),
    "documents beyond the sentences": (dict(document_starts=[0, 3]), "document_starts must rise from 0 to 2"),
    "too few lines": (dict(lines=np.array([1], np.int32)), "one line number a token"),
    "too few offsets": (dict(offsets=[[0, 1]]), r"each token \(3, 2\); got int64 of shape \(1, 2\)"),
    "starts without ends": (dict(offsets=[0, 1, 2]), r"start and end of each token .* shape \(3,\)"),
    "offsets that are no whole numbers": (dict(offsets=[[0, 0.5]] * 3), "whole numbers.* got float64"),
    "a token before the text": (dict(offsets=[[0, 1], [-1, 2], [2, 3]]), "token 1 goes from -1 to 2"),
    "a token that ends before it starts": (dict(offsets=[[0, 1], [1, 2], [3, 2]]), "token 2 goes from 3 to 2"),
}


@pytest.mark.parametrize(("changed", "message"), PARTS.values(), ids=PARTS.keys())
def test_parts_that_do_not_fit(changed: dict[str, Any], message: str):
    parts: dict[str, Any] = dict(columns={"word": WORD}, sentence_starts=[0, 2, 3], document_starts=[0, 2])
    with pytest.raises(InputError, match=message):
        Corpus(**{**parts, **changed})


def test_a_corpus_is_frozen():
    corpus = placed()
    with pytest.raises(dataclasses.FrozenInstanceError):
        corpus.scheme = None
    with pytest.raises(TypeError):
        corpus.columns["more"] = WORD
    for array in (corpus.sentence_starts, corpus.document_starts, corpus.columns["word"].codes, corpus.offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_copies_are_equal_and_frozen_too(way: Any):
    corpus = placed()
    twin = way(corpus)
    assert twin.rows() == corpus.rows() and twin.rows("pos") == corpus.rows("pos")
    assert twin.label_rows() == corpus.label_rows() and repr(twin) == repr(corpus)
    assert twin.source == "a.txt" and twin.lines.tolist() == list(range(6))
    assert twin.offsets.tolist() == corpus.offsets.tolist()
    with pytest.raises(ValueError, match="read-only"):
        twin.columns["word"].codes[0] = 0
