"""What comes in as sentences, and what goes out as answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import kinfolk as kf
from kinfolk.errors import InputError
from kinfolk.text.batch import Answers, Batch

ROWS = [["O", "B-PER"], ["O"]]


@pytest.mark.parametrize("answers", [ROWS, [["O"], ["O"]], [], [[]]], ids=["ragged", "even", "none", "empty"])
def test_answers_are_one_row_for_numpy_whatever_their_lengths(answers: list[list[str]]) -> None:
    for found in (np.asarray(Answers(answers)), np.asarray(Answers(answers), object)):
        assert found.shape == (len(answers),) and found.dtype == object and found.tolist() == answers
    assert np.asarray(Answers([1, 2]), float).tolist() == [1.0, 2.0]


class Words:
    """Features of a token: one column, which is 1."""

    n_features = 1

    def learn(self, corpus: Any, n_jobs: int) -> sparse.csr_array:
        return sparse.csr_array(np.ones((corpus.n_tokens, 1), np.float32))

    rows = learn


def test_extra_columns_stand_beside_features_of_tokens_and_not_of_pairs() -> None:
    plain: Any = Batch.of([["Kim", "left"], ["Rome"]])
    extra = np.array([[3, 4], [5, 6], [7, 8]], np.float32)
    batch, features = Batch(plain.corpus, extra=extra), Words()
    for ask in (batch.learn, batch.rows):
        np.testing.assert_array_equal(ask(features, 1).toarray(), np.column_stack([np.ones(3), extra]))
        np.testing.assert_array_equal(ask(features, 1, pairs=True).toarray(), np.ones((3, 1)))
    np.testing.assert_array_equal(plain.learn(features, 1).toarray(), np.ones((3, 1)))


def test_corpora_and_sentences_do_not_mix():
    corpus = kf.generate_newswire(1)
    with pytest.raises(InputError):
        kf.LinearChainCRF().fit([corpus, ["a", "b"]])
    with pytest.raises(InputError):
        kf.LinearChainCRF().fit([["a", "b"], corpus], [["O", "O"], ["O"]])
