"""A corpus seen through a vocabulary: attribute values as numbers, shifted by offsets.

While a feature set is learned the view numbers the values it meets; later it uses the frozen numbers,
and a value never met in training has none (-1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.column import Column
from kinfolk.core.kernels import njit
from kinfolk.core.vocabulary import Vocabulary
from kinfolk.text.corpus import Corpus

if TYPE_CHECKING:
    from kinfolk.text.templates import Attribute

MAX_OCCURRENCES = 20  # other occurrences of one word looked at: the nearest ones of a longer list


@njit(nogil=True, cache=True)
def _shift(codes, starts, offset, out):
    """out[t] = codes[t + offset] inside the sentence of t, 0 beyond it."""
    for s in range(len(starts) - 1):
        first, last = starts[s], starts[s + 1]
        for t in range(first, last):
            at = t + offset
            out[t] = codes[at] if first <= at < last else 0


class TokenView:
    """Codes of attributes for the tokens of one corpus.

    Codes run from 1; 0 stands for a position beyond the sentence, -1 for no (or an unknown) value.
    `vocabularies` maps str(attribute) to its values; it grows while `learning`, else it is only read.
    """

    def __init__(self, corpus: Corpus, vocabularies: dict[str, Vocabulary], learning: bool) -> None:
        self.corpus = corpus
        self.vocabularies = vocabularies
        self._learning = learning
        self._codes: dict[str, NDArray[np.int32]] = {}
        self._others: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    @property
    def n_tokens(self) -> int:
        return self.corpus.n_tokens

    def prepare(self, attributes: Sequence[Attribute]) -> None:
        """Work out the codes of all attributes, so that `codes` only reads and threads may share the view."""
        for attribute in attributes:
            self.unshifted_codes(attribute)

    def values(self, attribute: Attribute) -> Vocabulary:
        return self.vocabularies[str(attribute)]

    def radix(self, attribute: Attribute) -> int:
        """Number of codes: every value, and 0."""
        return len(self.vocabularies[str(attribute)]) + 1

    def encode(self, name: str, column: Column) -> NDArray[np.int32]:
        """Codes of a column in the vocabulary `name`, which is made here while learning."""
        if self._learning and name not in self.vocabularies:
            if len(set(column.values)) < len(column.values):  # two codes for one string: number them anew
                column = Column.from_strings(column.strings())
            self.vocabularies[name] = Vocabulary(column.values)
            return column.codes + (column.codes >= 0)  # values are numbered as in the column itself
        numbers = self.vocabularies[name].encode(column.values)
        # The entry behind the last value is where code -1 (no value) lands.
        table = np.concatenate([np.where(numbers < 0, -1, numbers + 1), [-1]]).astype(np.int32)
        return table[column.codes]

    def unshifted_codes(self, attribute: Attribute) -> NDArray[np.int32]:
        name = str(attribute)
        if name not in self._codes:
            self._codes[name] = self.encode(name, attribute.column(self.corpus))
        return self._codes[name]

    def codes(self, attribute: Attribute, offset: int) -> NDArray[np.int32]:
        codes = self.unshifted_codes(attribute)
        if offset == 0:
            return codes
        out = np.empty_like(codes)
        _shift(codes, self.corpus.sentence_starts, offset, out)
        return out

    @property
    def other_occurrences(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """CSR: for each capitalised token, the other tokens of its document with the same word."""
        if self._others is None:
            words = self.corpus.columns["word"]
            capital = np.array([v[:1].isupper() for v in words.values], bool)
            group = self.corpus.token_documents.astype(np.int64) * max(1, len(words.values)) + words.codes
            tokens = np.flatnonzero(capital[words.codes]) if len(words) else np.empty(0, np.int64)
            order = tokens[np.argsort(group[tokens], kind="stable")]
            self._others = _occurrence_lists(order, group, self.n_tokens)
        return self._others


def _occurrence_lists(
    order: NDArray[np.int64], group: NDArray[np.int64], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`order` lists tokens group by group; a group is a run in it."""
    runs = np.flatnonzero(np.diff(group[order], prepend=-1))  # where each run begins
    sizes = np.diff(np.append(runs, len(order)))
    counts = np.zeros(n + 1, np.int64)
    counts[order + 1] = np.repeat(np.minimum(sizes - 1, MAX_OCCURRENCES), sizes)
    indptr = np.cumsum(counts)
    others = np.empty(indptr[-1], np.int64)
    _list_others(order, runs, sizes, indptr, others)
    return indptr, others


@njit(nogil=True, cache=True)
def _list_others(order, runs, sizes, indptr, others):
    """The nearest occurrences around position i of a run: a window that slides with i."""
    for run in range(len(runs)):
        first, last = runs[run], runs[run] + sizes[run]
        for i in range(first, last):
            wanted = indptr[order[i] + 1] - indptr[order[i]]
            at = max(first, min(i - wanted // 2, last - wanted - 1))
            for slot in range(indptr[order[i]], indptr[order[i] + 1]):
                if at == i:
                    at += 1
                others[slot] = order[at]
                at += 1
