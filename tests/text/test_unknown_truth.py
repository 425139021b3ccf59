"""Scores where the true labels of some tokens are not known: what cannot be judged is not counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import InputError

TAGS = ["O", "B-X", "I-X", "B-Y"]


def entities(row: list[Any]) -> list[tuple[int, int, str]]:
    """(start, end, type), token by token: what is no tag is O, and I without its like before it begins one."""
    found: list[tuple[int, int, str]] = []
    for t, tag in enumerate(row):
        if tag is None or tag == "O":
            continue
        letter, _, kind = tag.partition("-")
        if letter == "I" and found and found[-1][1:] == (t, kind):
            found[-1] = (found[-1][0], t + 1, kind)
        else:
            found.append((t, t + 1, kind))
    return found


@given(st.lists(st.tuples(st.sampled_from([*TAGS, None]), st.sampled_from(TAGS)), min_size=1, max_size=8))
def test_what_holds_an_unknown_token_is_left_out_with_what_is_in_its_place(rows: list[tuple[Any, str]]):
    gold, predicted = [one for one, _ in rows], [other for _, other in rows]
    truth, guess = entities(gold), entities(predicted)
    doubtful = [one for one in guess if None in gold[one[0] : one[1]]]

    def judged(spans: list[tuple[int, int, str]]) -> set[tuple[int, int, str]]:
        return {one for one in spans if one not in doubtful and all(b[1] <= one[0] or one[1] <= b[0] for b in doubtful)}

    found = kf.entity_scores([gold], [predicted])
    expected = len(judged(truth)), len(judged(guess)), len(judged(truth) & judged(guess))
    assert (found.gold, found.predicted, found.correct) == expected


def test_models_are_scored_alike():
    model = kf.LinearChainCRF(n_jobs=1).fit([["a"], ["b"]] * 3, [["B-X"], ["O"]] * 3)
    assert model.score([["a", "a"], ["b"]], [["B-X", None], ["O"]]) == 1.0
    scores, accuracy = model.evaluate([["a", "b", "a"]], [["B-X", "O", None]])
    assert scores is not None and (scores.f1, accuracy) == (100.0, 100.0)


def test_a_sentence_without_any_labels_is_told():
    for fails in (
        lambda: kf.MaxEnt(n_jobs=1).fit([["a"], ["b"]], [None, ["O"]]),
        lambda: kf.Corpus.from_sentences([["a"], ["b"]], [None, ["O"]]),
        lambda: kf.Corpus.from_sentences([None, ["a"]]),  # type: ignore[list-item]
    ):
        with pytest.raises(InputError, match=r"sentence 0 (has None in the place of|is None)"):
            fails()


@pytest.mark.parametrize(
    ("numbers", "sizes"),
    [
        ([0, 0, 1, 1, 2, 2], "as sizes give those of documents that have sentences alone"),
        ([1, 1, 0, 0, 2, 2], "as sizes give those of documents that have sentences alone"),
        ([0, 1, 2], "as sizes give those of documents that have sentences alone"),
        ([2, 0, 1], "as sizes give those of documents that have sentences alone"),
        ([1, 1, 1], "leave `documents` out if each sentence is a document"),
    ],
)
def test_numbers_of_documents_that_may_be_sizes_are_refused(numbers: list[int], sizes: str):
    words, labels = [["a"]] * len(numbers), [["O"]] * len(numbers)
    told = f"which could be both: as names give strings, .*{sizes}"
    with pytest.raises(InputError, match=told):
        kf.Corpus.from_sentences(words, documents=numbers)
    with pytest.raises(InputError, match=told):
        kf.LinearChainCRF(n_jobs=1).fit(words, labels, documents=numbers)
    names = list(map(str, numbers))
    assert kf.Corpus.from_sentences(words, documents=names).n_documents == len({*names})


def test_numbers_that_can_be_taken_in_one_way_alone_are():
    def lengths(n: int, documents: list[int]) -> list[int]:
        return np.diff(kf.Corpus.from_sentences([["a"]] * n, documents=documents).document_starts).tolist()

    assert lengths(6, [2, 2, 2]) == [2, 2, 2]
    assert lengths(3, [2, 2, 2]) == [3]
    assert lengths(4, [2, 0, 2, 0]) == [2, 0, 2, 0], "no names, which would be in several places"
    assert lengths(1, [1]) == [1]


def test_vectors_of_a_few_tokens_are_those_of_many():
    """Rows of a few tokens are made another way than those of many."""
    sentences = [["x"] * 5] * 60
    labels = [["O", "B-X", "O", "B-X", "O"], ["B-X", "O", "O", "O", "B-X"]] * 30
    corpus = kf.Corpus.from_sentences(sentences, labels, [2] * 30)
    vectors = [[4.0 * (label != "O")] for row in labels for label in row]
    for make in (kf.MaxEnt, kf.LinearChainCRF, kf.MixtureTagger, kf.SkipChainCRF):
        model = make(n_jobs=1, tolerance=0.1).fit(corpus.with_vectors(vectors))
        many = kf.Corpus.joined([corpus.with_vectors(vectors)] * 7)
        assert many.n_tokens > 2000 and model.predict(many)[:60] == model.predict(corpus.with_vectors(vectors))
