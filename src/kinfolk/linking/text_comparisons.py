"""How alike two strings are, character by character: Jaro-Winkler for names, edit similarity where there are typos."""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.linking.compared import Comparison, as_column, distinct_pairs, texts_of, where_known
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import Answer, Items
from kinfolk.linking.strings import BITS, WORTHWHILE, Letters, edit_similarities, jaro_winkler_similarities, letters_of

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
MOST = 2_000  # characters of a text that are looked at: the time goes with their square, a fifth of a millisecond here


@dataclass(frozen=True)
class _Characters(Comparison):
    """A similarity of strings, from 0 to 1; the same string is 1 without being looked at.

    Of longer strings the first 2,000 characters are compared; comparisons of tokens suit such texts better.
    """

    def learn(self, items: Mentions) -> Self:
        values = texts_of(items, self.fields, self.normalise).values
        long = sum(len(text) > MOST for text in values)
        if long:
            told = "%s: %d of %d texts have more than %s characters and are compared by the first %s"
            remedy = f"for long texts take token_overlap({self.field}) or tfidf_cosine({self.field})"
            log.warning(f"{told}; {remedy}", self.name, long, len(values), f"{MOST:,}", f"{MOST:,}")
        return self

    def of(self, items: Mentions) -> Answer:
        texts = texts_of(items, self.fields, self.normalise)
        if any(len(text) > MOST for text in texts.values):
            texts = texts.renamed([text[:MOST] for text in texts.values])
        letters = letters_of(texts.values)
        lengths = np.diff(letters.starts)

        def answer(left: Items, right: Items) -> Array:
            a, b, known = where_known(texts.codes, left, right)
            out = np.full(len(a), np.nan)
            out[known & (a == b)] = 1.0
            asked = np.flatnonzero(known & (a != b))
            a, b = a[asked], b[asked]
            long = self._is_long(lengths[a], lengths[b])
            found = np.empty(len(asked))
            found[~long] = self._short(letters, a[~long], b[~long])
            found[long] = distinct_pairs(a[long], b[long], lambda p, q: self._long(texts.values, p, q))
            out[asked] = found
            return as_column(out)

        return answer

    def _long(self, values: Any, a: Array, b: Array) -> Array:
        """By rapidfuzz, for strings that are too long for the kernel."""
        from rapidfuzz.process import cpdist

        left, right = ([values[code] for code in codes.tolist()] for codes in (a, b))
        return np.asarray(cpdist(left, right, scorer=self._scorer(), dtype=np.float64))

    @abstractmethod
    def _is_long(self, left: Array, right: Array) -> Array:
        """Which pairs of lengths the kernel does not take."""

    @abstractmethod
    def _short(self, letters: Letters, a: Array, b: Array) -> Array: ...

    @abstractmethod
    def _scorer(self) -> Any: ...


@dataclass(frozen=True)
class JaroWinkler(_Characters):
    """Jaro-Winkler similarity: made for names of persons, where the first letters are seldom wrong."""

    def _is_long(self, left: Array, right: Array) -> Array:
        return np.maximum(left, right) > WORTHWHILE

    def _short(self, letters: Letters, a: Array, b: Array) -> Array:
        out = np.empty(len(a))
        jaro_winkler_similarities(*letters, a, b, out)
        return out

    def _scorer(self) -> Any:
        from rapidfuzz.distance import JaroWinkler as Scorer

        return Scorer.normalized_similarity


@dataclass(frozen=True)
class Edit(_Characters):
    """1 - d/n with n the length of the longer string and d the insertions, deletions, changes and swaps of neighbours
    that lead from one to the other (Damerau-Levenshtein, each place edited once)."""

    def _is_long(self, left: Array, right: Array) -> Array:
        return np.minimum(left, right) > BITS

    def _short(self, letters: Letters, a: Array, b: Array) -> Array:
        out = np.empty(len(a))
        edit_similarities(*letters, a, b, out)
        return out

    def _scorer(self) -> Any:
        from rapidfuzz.distance import OSA

        return OSA.normalized_similarity
