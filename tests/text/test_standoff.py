"""Marked texts into labels, and from labels back to the characters that were marked."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk import Corpus
from kinfolk.errors import InputError, SettingError
from kinfolk.text import schemes
from kinfolk.text.standoff import Mark, MarkCounts, Marked, checked_mark, fitted_corpus, standoff_corpus


def back(corpus: Corpus) -> list[tuple[int, int, str]]:
    """The entities of the labels, by characters."""
    assert corpus.labels is not None and corpus.offsets is not None
    spans = schemes.spans(corpus.labels, corpus.sentence_starts, "BIO")
    return [(int(corpus.offsets[s.start, 0]), int(corpus.offsets[s.end - 1, 1]), s.type) for s in spans]


def fit(text: str, *marks: tuple[int, int, str], sentences=None) -> tuple[Corpus, MarkCounts]:
    return fitted_corpus([Marked(text, [Mark(*mark) for mark in marks], sentences)])


def test_marks_on_tokens_come_back_as_they_were():
    text = "IL-2 gene and NF-kappa B. The p50/p65 dimer."
    marks = [(0, 4, "protein"), (14, 24, "protein"), (30, 33, "protein"), (34, 37, "DNA")]
    corpus, counts = fit(text, *marks)
    assert back(corpus) == marks
    assert counts == MarkCounts(marks=4) and counts.kept == 4
    assert str(counts) == "4 of 4 names are labelled (none changed)"
    assert corpus.scheme == "BIO" and corpus.n_sentences == 2
    assert corpus.label_rows()[0] == ["B-protein", "I-protein", "I-protein", "O", "O"] + ["B-protein"] + [
        "I-protein"
    ] * 3 + ["O"]


@given(
    st.lists(st.tuples(st.text("aé3-( ", max_size=4), st.text("aZ9-", min_size=1, max_size=6), st.sampled_from("xy")))
)
def test_names_between_blanks_come_back(parts: list[tuple[str, str, str]]):
    """Touching names too, as each begins with B; the names are whole words, so no token is in two of them."""
    text, marks = "", []
    for before, name, kind in parts:
        text += before + " "
        marks.append(Mark(len(text), len(text) + len(name), kind))
        text += name + " "
    corpus, counts = fitted_corpus([Marked(text, marks, [(0, len(text))])])
    assert back(corpus) == marks and counts.kept == len(marks) and counts.widened == 0


@given(st.text("ab-. B\n", max_size=20), st.data())
def test_whatever_is_marked_every_mark_is_counted(text: str, data: st.DataObject):
    place = st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))
    marks = [Mark(a, b, "x") for a, b in data.draw(st.lists(place, max_size=6)) if a < b]
    corpus, counts = fitted_corpus([Marked(text, marks)])
    found = back(corpus)
    assert len(found) == counts.kept and counts.marks == len(marks)
    assert all(b <= c for (_, b, _), (c, _, _) in pairwise(found)), "they do not overlap"
    assert sum((a, b) not in {m[:2] for m in marks} for a, b, _ in found) <= counts.widened + sum(
        text[m.start : m.end] != text[m.start : m.end].strip() for m in marks
    )
    assert [text[a:b] for a, b in corpus.offsets.tolist()] == corpus.columns["word"].strings()


CHANGED = {
    "inside another": ([(0, 6, "x"), (0, 4, "x"), (3, 6, "y")], dict(nested=2), [(0, 6, "x")]),
    "the same twice": ([(0, 4, "x"), (0, 4, "y")], dict(nested=1), [(0, 4, "x")]),
    "overlapping, the longer": ([(0, 6, "x"), (5, 12, "y")], dict(overlapping=1), [(5, 12, "y")]),
    "overlapping, the first": ([(0, 6, "x"), (5, 11, "y")], dict(overlapping=1), [(0, 6, "x")]),
    "nested in what is lost": ([(0, 6, "x"), (0, 4, "x"), (5, 12, "y")], dict(nested=1, overlapping=1), [(5, 12, "y")]),
    "inside a token": ([(1, 2, "x")], dict(widened=1), [(0, 4, "x")]),
    "across a token's end": ([(3, 8, "x")], dict(widened=1), [(0, 11, "x")]),
    "two in one token": ([(0, 3, "x"), (3, 4, "y")], dict(overlapping=1, widened=1), [(0, 4, "x")]),
    "in two sentences": ([(5, 16, "x"), (0, 4, "y")], dict(divided=1), [(0, 4, "y")]),
    "blanks around": ([(4, 7, "x")], {}, [(5, 6, "x")]),
    "nothing but a blank": ([(4, 5, "x")], dict(blank=1), []),
}


@pytest.mark.parametrize(("marks", "changes", "left"), CHANGED.values(), ids=CHANGED.keys())
def test_marks_that_cannot_stay_as_they_are(marks, changes, left):
    text = "aaaa b cccc. Then d."  # tokens 0-4 5-6 7-11 11-12, 13-17 18-19 19-20
    corpus, counts = fit(text, *marks)
    assert counts == MarkCounts(marks=len(marks), **changes)
    assert back(corpus) == left


def test_the_log_tells_what_was_changed(caplog: pytest.LogCaptureFixture):
    document = Marked("aaaa b", [Mark(0, 3, "x"), Mark(1, 2, "x"), Mark(5, 6, "x")])
    with caplog.at_level(logging.WARNING, "kinfolk"):
        standoff_corpus([document], "some.xml")
        assert caplog.messages == ["some.xml: 2 of 3 names are labelled (1 nested, 1 widened)"]
        caplog.clear()
        standoff_corpus([Marked("aaaa b", [Mark(5, 6, "x")])])
        assert not caplog.messages


def test_documents_keep_their_own_offsets_and_empty_ones_their_place():
    documents = [Marked("Kim left", [Mark(0, 3, "p")]), Marked(" ", []), Marked("I saw Lee", [Mark(6, 9, "p")])]
    corpus, _ = fitted_corpus(documents, "some")
    assert corpus.document_starts.tolist() == [0, 1, 1, 2] and corpus.source == "some"
    assert back(corpus) == [(0, 3, "p"), (6, 9, "p")]
    assert back(corpus.documents(1, 3)) == [(6, 9, "p")]


def test_names_may_be_unknown():
    corpus, counts = fitted_corpus([Marked("Kim", None), Marked("Lee left", [Mark(0, 3, "")])])
    assert corpus.label_rows() == [[None], ["B", "O"]] and counts.marks == 1
    corpus, _ = fitted_corpus([Marked("Kim", None)])
    assert corpus.labels is None and corpus.scheme is None
    nothing, _ = fitted_corpus([])
    assert (nothing.n_documents, nothing.n_tokens) == (0, 0)


def test_sentences_may_be_given():
    corpus, counts = fit("ab cd. Ef", (0, 5, "x"), sentences=[(0, 4), (4, 4), (4, 5), (6, 7)])
    assert corpus.rows() == [["ab", "c"], ["d"]], "cut where the sentences are, the rest is left out"
    assert counts.divided == 1


@pytest.mark.parametrize("sentences", [[(0, 9)], [(-1, 2)], [(2, 4), (0, 2)], [(0, 3), (2, 4)]])
def test_sentences_must_fit_the_text(sentences):
    with pytest.raises(InputError, match="document 0: sentences must follow each other within 4 characters"):
        fit("abcd", sentences=sentences)


@pytest.mark.parametrize("mark", [(0, 5), (-1, 2), (2, 2), (3, 1)])
def test_marks_must_lie_in_the_text(mark):
    with pytest.raises(InputError, match=r"document 0: Mark.* is empty or leaves the 4 characters"):
        fit("abcd", (*mark, "x"))
    with pytest.raises(InputError, match=f"a.xml, line 7: expected 0 <= start < end <= 4; got {mark[0]} to {mark[1]}"):
        checked_mark("abcd", Mark(*mark, "x"), None, "a.xml", 7)


def test_marks_must_hold_what_the_file_says():
    assert checked_mark("a b\nc", Mark(0, 5, "x"), "a b c") == (0, 5, "x")
    with pytest.raises(InputError, match=r"characters 0 to 2 are 'ab', but the file says 'abc'.*end exclusive"):
        checked_mark("abcd", Mark(0, 2, "x"), "abc")


def test_another_way_to_tokenise():
    corpus, counts = fitted_corpus([Marked("IL-2-induced", [Mark(0, 4, "x")])], tokenise="words")
    assert corpus.rows() == [["IL-2-induced"]] and counts.widened == 1
    with pytest.raises(SettingError, match="one of blanks, words, penn, fine"):
        fitted_corpus([Marked("a", [])], tokenise="letters")
