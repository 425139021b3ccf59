"""Comparisons of strings by their characters: Jaro-Winkler for names, edit similarity where there are typos.

The answers are those of rapidfuzz, whose `process.cpdist` takes two lists of Python strings. Of 200,000 pairs of
strings with 8 characters it takes 39 ms (Jaro-Winkler) and 35 (edits) of one thread, the kernels below 8 and 6; with
20 characters 45 and 45, these 15 and 13; with 40 characters 53 and 63, these 26 and 26. In a kernel one string, the
pattern, fits into the bits of a word: seen[c] has a bit for each place with character c. So longer strings go there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self
from weakref import ReferenceType, WeakKeyDictionary
from weakref import ref as ref_to

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import Answer, Comparison, Items, Texts, as_column, distinct_pairs, texts_of, where_known
from kinfolk.linking.tokens import ranks

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
BITS = 64
AHEAD = 64  # pairs whose strings are fetched together
MOST = 2_000  # characters of a text that are looked at: the time goes with their square, a fifth of a millisecond here
ONE, ZERO, ALL = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True, eq=False)
class Letters:
    """Strings one after the other: string s is letters[starts[s]:starts[s + 1]], characters numbered from 0; of each
    string the first `MOST`."""

    letters: Array  # uint8, int32 where there are more
    starts: Array  # int64
    n_letters: int


# Two comparisons of a field look at the same letters, which are kept as long as one of them is.
_KNOWN: WeakKeyDictionary[Texts, ReferenceType[Letters]] = WeakKeyDictionary()


def letters_in(texts: Texts) -> Letters:
    known = _KNOWN.get(texts)
    found = None if known is None else known()
    if found is None:
        found = letters_of(texts.values)
        _KNOWN[texts] = ref_to(found)
    return found


def letters_of(strings: Sequence[str]) -> Letters:
    starts = np.zeros(len(strings) + 1, np.int64)
    sizes = np.fromiter(map(len, strings), np.int64, len(strings))
    if (sizes > MOST).any():
        strings, sizes = [text[:MOST] for text in strings], np.minimum(sizes, MOST)
    np.cumsum(sizes, out=starts[1:])
    whole = "".join(strings)
    if whole.isascii():
        points = np.frombuffer(whole.encode("ascii"), np.uint8)
    else:
        points = np.frombuffer(whole.encode("utf-32-le", "surrogatepass"), np.uint32)
    letters, n_letters = ranks(points)
    return Letters(letters.astype(np.uint8) if n_letters <= 256 else letters, starts, n_letters)


@njit(nogil=True, cache=True)
def _fetch(letters: Array, starts: Array, codes: Array, first: int) -> int:
    """Look at the ends of the next strings, all at once: what a pair has to wait for is then near already. The strings
    of millions of records are far from the processor, and one pair after the other would wait for each of its own."""
    seen = 0
    for i in range(first, min(first + AHEAD, len(codes))):
        start, end = starts[codes[i]], starts[codes[i] + 1]
        if start < end:
            seen += letters[start] + letters[end - 1]
    return seen


@njit(nogil=True, cache=True)
def _mark(letters: Array, first: int, last: int, seen: Array) -> None:
    bit = ONE
    for p in range(first, last):
        seen[letters[p]] |= bit
        bit <<= ONE


@njit(nogil=True, cache=True)
def _clear(letters: Array, first: int, last: int, seen: Array) -> None:
    for p in range(first, last):
        seen[letters[p]] = ZERO


@njit(nogil=True, cache=True)
def edit_similarities(letters: Array, starts: Array, n_letters: int, a: Array, b: Array, out: Array) -> int:
    """1 - d/longer, d = insertions, deletions, changes and swaps of neighbours (optimal string alignment).

    Hyyrö's bit-parallel columns; both strings have at most 64 characters, and the second is the pattern, as pairs come
    in runs that share it. D0 marks the rows where the diagonal does not rise, VP and VN those where the column rises
    and falls.
    """
    seen = np.zeros(n_letters, np.uint64)
    marked, fetched = -1, 0
    for i in range(len(a)):
        if i % AHEAD == 0:
            fetched += _fetch(letters, starts, a, i) + _fetch(letters, starts, b, i)
        s, t = b[i], a[i]
        first, last = starts[s], starts[s + 1]
        if s != marked:
            if marked >= 0:
                _clear(letters, starts[marked], starts[marked + 1], seen)
            _mark(letters, first, last, seen)
            marked = s
        distance, top = last - first, np.uint64(last - first - 1)
        vp, vn, d0, before = ALL, ZERO, ZERO, ZERO
        for p in range(starts[t], starts[t + 1]):
            here = seen[letters[p]]
            swap = (((~d0) & here) << ONE) & before
            d0 = (((here & vp) + vp) ^ vp) | here | vn | swap
            hp, hn = vn | ~(d0 | vp), d0 & vp
            distance += np.int64((hp >> top) & ONE) - np.int64((hn >> top) & ONE)
            hp = (hp << ONE) | ONE
            hn = hn << ONE
            vp, vn, before = hn | ~(d0 | hp), hp & d0, here
        out[i] = 1.0 - distance / max(last - first, starts[t + 1] - starts[t])
    return fetched


@njit(nogil=True, cache=True)
def jaro_winkler_similarities(letters: Array, starts: Array, n_letters: int, a: Array, b: Array, out: Array) -> int:
    """J = (m/|s| + m/|t| + (m - x)/m)/3 with m common characters not further apart than half the longer string, x half
    of those out of order; above 0.7 it is J + 0.1 l (1 - J), l = the first characters alike, at most 4.

    Both strings have at most 64 characters: the places of s that are matched are bits of a word, the characters of t
    that are matched are put aside in their order.
    """
    seen, shared = np.zeros(n_letters, np.uint64), np.empty(BITS, letters.dtype)
    fetched = 0
    for i in range(len(a)):
        if i % AHEAD == 0:
            fetched += _fetch(letters, starts, a, i) + _fetch(letters, starts, b, i)
        s, t = starts[a[i]], starts[b[i]]
        n_s, n_t = starts[a[i] + 1] - s, starts[b[i] + 1] - t
        reach = max(max(n_s, n_t) // 2 - 1, 0)
        _mark(letters, s, s + n_s, seen)
        in_s, common = ZERO, 0
        for p in range(min(n_t, n_s + reach)):
            low, high = max(0, p - reach), min(n_s, p + reach + 1)  # places in s within reach
            window = (ALL >> np.uint64(BITS - (high - low))) << np.uint64(low)
            letter = letters[t + p]
            free = seen[letter] & window & ~in_s
            in_s |= free & (~free + ONE)  # the first free place, if there is one
            shared[common] = letter
            common += int(free != ZERO)
        # Common characters of both in their order; nothing branches, as nothing can be foreseen.
        misplaced = 0
        for k in range(common):
            place = in_s & (~in_s + ONE)
            misplaced += int(seen[shared[k]] & place == ZERO)
            in_s ^= place
        _clear(letters, s, s + n_s, seen)
        if common == 0:
            out[i] = 0.0
            continue
        jaro = (common / n_s + common / n_t + (common - misplaced // 2) / common) / 3.0
        if jaro > 0.7:
            prefix = 0
            while prefix < min(4, n_s, n_t) and letters[s + prefix] == letters[t + prefix]:
                prefix += 1
            jaro += 0.1 * prefix * (1.0 - jaro)
        out[i] = jaro
    return fetched


# -- comparisons --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Characters(Comparison):
    """A similarity of strings, from 0 to 1; the same string is 1 without being looked at.

    Of longer strings the first 2,000 characters are compared; comparisons of tokens suit such texts better.
    """

    KERNEL: ClassVar[Callable[..., int]]  # for short strings
    SCORER: ClassVar[str]  # of rapidfuzz, for the others

    def learn(self, items: Mentions) -> Self:
        values = texts_of(items, self.fields, self.normalise).values
        long = sum(len(text) > MOST for text in values)
        if long:
            remedy = f"for long texts take token_overlap({self.field}) or tfidf_cosine({self.field})"
            log.warning(
                "%s: %d of %d texts have more than %s characters and are compared by the first %s; %s",
                *(self.name, long, len(values), f"{MOST:,}", f"{MOST:,}", remedy),
            )
        return self

    def of(self, items: Mentions) -> Answer:
        texts = texts_of(items, self.fields, self.normalise)
        letters = letters_in(texts)
        is_long = np.diff(letters.starts) > BITS

        def answer(left: Items, right: Items) -> Array:
            a, b, known = where_known(texts.codes, left, right)
            out = np.full(len(a), np.nan)
            out[known & (a == b)] = 1.0
            different = np.flatnonzero(known & (a != b))
            long = is_long[a[different]] | is_long[b[different]]
            for chosen, similarities in ((different[~long], self._short), (different[long], self._long)):
                if len(chosen):
                    out[chosen] = similarities(letters, texts.values, a[chosen], b[chosen])
            return as_column(out)

        return answer

    def _short(self, letters: Letters, values: Sequence[str], a: Array, b: Array) -> Array:
        out = np.empty(len(a))
        type(self).KERNEL(letters.letters, letters.starts, letters.n_letters, a, b, out)
        return out

    def _long(self, letters: Letters, values: Sequence[str], a: Array, b: Array) -> Array:
        from rapidfuzz import distance, process

        def similarities(p: Array, q: Array) -> Any:
            left, right = ([values[code][:MOST] for code in codes.tolist()] for codes in (p, q))
            scorer = getattr(distance, self.SCORER).normalized_similarity
            return process.cpdist(left, right, scorer=scorer, dtype=np.float64)

        return distinct_pairs(a, b, similarities)


@dataclass(frozen=True)
class JaroWinkler(_Characters):
    """Jaro-Winkler similarity: made for names of persons, where the first letters are seldom wrong."""

    KERNEL: ClassVar[Callable[..., int]] = staticmethod(jaro_winkler_similarities)
    SCORER: ClassVar[str] = "JaroWinkler"


@dataclass(frozen=True)
class Edit(_Characters):
    """1 - d/n with n the length of the longer string and d the insertions, deletions, changes and swaps of neighbours
    that lead from one to the other (Damerau-Levenshtein, each place edited once)."""

    KERNEL: ClassVar[Callable[..., int]] = staticmethod(edit_similarities)
    SCORER: ClassVar[str] = "OSA"
