"""Probabilities of word pieces, as transformers give them, to probabilities of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.settings import one_of
from kinfolk.errors import InputError


def words_from_pieces(
    probabilities: Any, word_ids: Sequence[int | None], n_words: int | None = None, how: str = "first"
) -> NDArray[np.float64]:
    """(words, classes), from (pieces, classes) of one sentence.

    word_ids   the number of the word that a piece is part of, None for pieces of no word ([CLS], padding): what
               `encoding.word_ids()` of a fast tokenizer gives
    n_words    how many words the sentence has; None: as many as the pieces name
    how        "first": a word is what its first piece is, as most are trained; "mean": of its pieces
    """
    one_of("first", "mean").check("how", how)
    if hasattr(probabilities, "detach"):
        probabilities = probabilities.detach().cpu().numpy()
    table = np.asarray(probabilities, np.float64)
    if table.ndim != 2 or len(table) != len(word_ids):
        raise InputError(f"expected a row of probabilities for each of {len(word_ids)} pieces; got {table.shape}")
    word = np.array([-1 if one is None else one for one in word_ids], np.int64)
    n = int(word.max(initial=-1)) + 1 if n_words is None else n_words
    if (word >= n).any():
        raise InputError(f"a piece is part of word {word.max()}, and there are {n}: are these pieces of this sentence?")
    rows = np.flatnonzero(word >= 0)
    lost = np.setdiff1d(np.arange(n), word[rows])
    if len(lost):
        remedy = "the sentence was cut short; give the model shorter ones, or windows that overlap"
        raise InputError(f"word {lost[0]} has no piece (one of {len(lost)} of {n} words): {remedy}")
    if how == "first":
        first = rows[np.unique(word[rows], return_index=True)[1]]
        return table[first]
    total = np.zeros((n, table.shape[1]))
    np.add.at(total, word[rows], table[rows])
    return np.asarray(total / np.bincount(word[rows], minlength=n)[:, None])
