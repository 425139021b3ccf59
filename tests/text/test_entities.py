"""Entity scores against conlleval's own loop, and against the figures of a paper."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import conlleval_oracle as oracle
import kinfolk as kf
from kinfolk.core.data import Column
from kinfolk.errors import InputError
from kinfolk.report.scores import Counts
from kinfolk.text.schemes import spans
from kinfolk.text.scores import EntityScores, span_scores, token_accuracy

TAGS = ["O", *(f"{letter}-{kind}" for letter in "BIESLU" for kind in ("PER", "LOC"))]
pairs = st.lists(st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), max_size=7), max_size=5)


def read(rows: list[list[str]]) -> list[tuple[int, int, str]]:
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return spans(Column.from_strings(tag for row in rows for tag in row), starts, "BIO")  # type: ignore[return-value]


@given(pairs, st.booleans())
def test_counts_are_those_of_conlleval(rows: list[list[tuple[str, str]]], alike: bool) -> None:
    gold = [[pair[0] for pair in row] for row in rows]
    guess = [[pair[i % 3 == 0 if alike else 1] for i, pair in enumerate(row)] for row in rows]
    scores, expected = span_scores(read(gold), read(guess)), oracle.count(gold, guess)
    assert (scores.gold, scores.predicted, scores.correct) == tuple(counter.total() for counter in expected)
    for name, counts in scores.types.items():
        assert (counts.gold, counts.predicted, counts.correct) == tuple(c[name] for c in expected)
    assert set(scores.types) == {name for counter in expected[:2] for name in counter if counter[name]}


@given(pairs)
def test_labels_are_read_as_conlleval_reads_them(rows: list[list[tuple[str, str]]]) -> None:
    """Lists of labels, sentences without tokens among them, in every scheme and in mixtures of several."""
    gold, guess = ([[pair[side] for pair in row] for row in rows] for side in (0, 1))
    scores, expected = kf.entity_scores(gold, guess), oracle.count(gold, guess)
    assert (scores.gold, scores.predicted, scores.correct) == tuple(counter.total() for counter in expected)
    assert kf.entity_scores([np.array(row) for row in gold], map(tuple, guess)) == scores
    assert kf.entity_scores([gold, gold], [guess, guess]).gold == 2 * scores.gold or not any(gold)


def test_labels_of_every_kind_of_answer() -> None:
    gold = [["B-PER", "I-PER", "O"], ["B-LOC"]]
    guess = [["S-PER", "S-PER", "O"], ["U-LOC"]]
    scores = kf.entity_scores(gold, guess)
    assert (scores.gold, scores.predicted, scores.correct) == (2, 3, 1) and scores.f1 == pytest.approx(40)
    assert scores.types["LOC"].f1 == 100 and "overall" in scores.table()
    corpus = kf.Corpus.from_sentences([["a", "b", "c"], ["d"]], gold, documents=[2])
    documents = np.empty(1, object)
    documents[0] = guess
    assert kf.entity_scores(corpus, guess) == kf.entity_scores(corpus, documents) == scores
    assert kf.entity_scores([["B-PER", None]], [["B-PER", "O"]]).f1 == 100
    assert kf.entity_scores([(0, 2, "PER"), (3, 4, "LOC")], iter([(3, 4, "LOC")])).correct == 1
    assert kf.entity_scores([], []).f1 == 0 and kf.entity_scores([(0, 1, "X")], []).gold == 1


LABELS: dict[str, tuple[Any, Any, str]] = {
    "one sentence": (["B-PER", "O"], ["B-PER", "O"], "gold: expected a list of labels for each sentence; got 'B-PER'"),
    "other sentences": ([["O"]], [["O"], ["O"]], "gold has 1 sentences, predicted has 2: give the same ones"),
    "other lengths": ([["O"], ["O"]], [["O"], []], "sentence 1 has 1 labels in gold, 0 in predicted"),
    "parts of speech": ([["NN"]], [["NN"]], "label 'NN' is no entity tag, such as B-PER or O; labels that are"),
    "numbers": ([[1, 2]], [[1, 2]], "label '1' is no entity tag"),
    "spans and labels": ([(0, 1, "PER")], [["B-PER"]], r"entities \(start, end, type\) on both sides; got \['B-PER'\]"),
    "a string": ("B-PER", "B-PER", "gold: expected a list of labels for each sentence, or a Corpus; got 'B-PER'"),
    "predicted entities": ([["O"]], [kf.entity_scores], "predicted: expected a list of labels for each sentence"),
}


@pytest.mark.parametrize(("gold", "guess", "message"), LABELS.values(), ids=list(LABELS))
def test_labels_that_cannot_be_compared(gold: Any, guess: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        kf.entity_scores(gold, guess)


def test_rates_by_hand() -> None:
    gold = [(0, 2, "PER"), (3, 4, "PER"), (5, 6, "LOC"), (8, 9, "LOC")]
    guess = [(0, 2, "PER"), (3, 4, "LOC"), (5, 6, "LOC"), (5, 7, "LOC"), (10, 11, "ORG")]
    scores = span_scores(gold, guess)
    assert (scores.precision, scores.recall, scores.f1) == (40.0, 50.0, pytest.approx(400 / 9))
    assert (scores.fp, scores.fn) == (60.0, 50.0)
    assert scores.types["PER"] == Counts(2, 1, 1)
    assert list(scores.types) == ["LOC", "ORG", "PER"]


def test_rates_of_the_mixture_of_parents_paper() -> None:
    """Its Figure 2 gives F1 89.8 with 9.0 % false positives and 11.4 % false negatives."""
    scores = Counts(gold=5942, predicted=5785, correct=5264)
    assert (round(scores.fp, 1), round(scores.fn, 1), round(scores.f1, 1)) == (9.0, 11.4, 89.8)


def test_zero_denominators_are_zero_as_in_conlleval() -> None:
    none = span_scores([], [])
    assert (none.precision, none.recall, none.f1, none.fp, none.fn) == (0.0, 0.0, 0.0, 100.0, 100.0)
    missed = span_scores([(0, 1, "X")], [])
    assert (missed.precision, missed.recall, missed.f1) == (0.0, 0.0, 0.0)


def test_a_span_given_twice_counts_once() -> None:
    one = EntityScores(1, 1, 1, {"X": Counts(1, 1, 1)})
    assert span_scores([(0, 1, "X"), (0, 1, "X")], [(0, 1, "X")]) == one


def test_plain_numbers_and_table() -> None:
    scores = span_scores([(0, 1, "PER"), (2, 3, "LOC")], [(0, 1, "PER")])
    plain = json.loads(json.dumps(scores.as_dict()))
    assert plain["f1"] == scores.f1 and plain["types"]["LOC"]["gold"] == 1
    assert scores.table().splitlines() == [
        "2 phrases; found: 1 phrases; correct: 1.",
        "          overall: precision: 100.00%; recall:  50.00%; FB1:  66.67  1",
        "              LOC: precision:   0.00%; recall:   0.00%; FB1:   0.00  0",
        "              PER: precision: 100.00%; recall: 100.00%; FB1: 100.00  1",
    ]


def test_token_accuracy_leaves_unknown_gold_out() -> None:
    assert token_accuracy([0, 1, -1, 2], [0, 2, -1, 2]) == pytest.approx(200 / 3)
    assert token_accuracy([], []) == 0.0
    assert token_accuracy([-1], [0]) == 0.0
    with pytest.raises(InputError, match=r"\(2,\); got \(1,\)"):
        token_accuracy([0, 1], [0])
