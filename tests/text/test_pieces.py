"""Word pieces to words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinfolk.errors import InputError, SettingError
from kinfolk.text.pieces import words_from_pieces

PIECES = np.array([[0.5, 0.5], [0.9, 0.1], [0.1, 0.9], [0.3, 0.7], [0.5, 0.5]])
IDS = [None, 0, 0, 1, None]


def test_a_word_is_its_first_piece_or_their_mean():
    assert words_from_pieces(PIECES, IDS).tolist() == [[0.9, 0.1], [0.3, 0.7]]
    np.testing.assert_allclose(words_from_pieces(PIECES, IDS, how="mean"), [[0.5, 0.5], [0.3, 0.7]])
    assert words_from_pieces(np.zeros((0, 2)), []).shape == (0, 2)


@pytest.mark.parametrize(
    ("ids", "n_words", "said"),
    [
        ([None, 0, 0, 2, None], None, "word 1 has no piece"),
        (IDS, 3, "word 2 has no piece .one of 1 of 3 words.*cut short"),
        (IDS, 1, "part of word 1, and there are 1"),
        ([0, 1], None, "each of 2 pieces; got .5, 2."),
    ],
)
def test_pieces_that_do_not_fit(ids: Any, n_words: int | None, said: str):
    with pytest.raises(InputError, match=said):
        words_from_pieces(PIECES, ids, n_words)


def test_how_is_one_of_two():
    with pytest.raises(SettingError, match="first"):
        words_from_pieces(PIECES, IDS, how="last")
