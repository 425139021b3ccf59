"""Jaro-Winkler and edit similarity of many pairs of short strings: nogil kernels over characters as numbers.

The numbers are those of rapidfuzz, which takes a list of Python strings for each side: of 190,000 pairs of surnames
(7.8 characters) its `process.cpdist` takes 46 and 50 ms of one thread, these kernels 27 and 22; of addresses (14.6) 55
and 62 ms, these 69 and 44; of full names (22) 71 and 67 ms, these 182 and 105. So longer strings than SHORT go there.
One string, the pattern, fits into the bits of a word: seen[c] has a bit for each of its places with character c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit

Array = NDArray[Any]
BITS = 64
SHORT = 16  # characters, beyond which rapidfuzz is the faster
ONE, ZERO, ALL = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)


class Letters(NamedTuple):
    """Strings one after the other: string s is letters[starts[s]:starts[s + 1]], characters numbered from 0."""

    letters: Array  # int32
    starts: Array  # int64
    n_letters: int


def letters_of(strings: Sequence[str]) -> Letters:
    points = np.frombuffer("".join(strings).encode("utf-32-le", "surrogatepass"), np.uint32)
    alphabet, letters = np.unique(points, return_inverse=True)
    starts = np.zeros(len(strings) + 1, np.int64)
    np.cumsum([len(text) for text in strings], out=starts[1:])
    return Letters(letters.astype(np.int32), starts, len(alphabet))


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
def edit_similarities(letters: Array, starts: Array, n_letters: int, a: Array, b: Array, out: Array) -> None:
    """1 - d/longer, d = insertions, deletions, changes and swaps of neighbours (optimal string alignment).

    Hyyrö's bit-parallel columns; the shorter string, of at most 64 characters, is the pattern. D0 marks the rows where
    the diagonal does not rise, VP and VN those where the column rises and falls.
    """
    seen = np.zeros(n_letters, np.uint64)
    for i in range(len(a)):
        s, t = a[i], b[i]
        if starts[s + 1] - starts[s] > starts[t + 1] - starts[t]:
            s, t = t, s
        first, last = starts[s], starts[s + 1]
        _mark(letters, first, last, seen)
        distance, top = last - first, ONE << np.uint64(last - first - 1)
        vp, vn, d0, before = ALL, ZERO, ZERO, ZERO
        for p in range(starts[t], starts[t + 1]):
            here = seen[letters[p]]
            swap = (((~d0) & here) << ONE) & before
            d0 = (((here & vp) + vp) ^ vp) | here | vn | swap
            hp, hn = vn | ~(d0 | vp), d0 & vp
            if hp & top:
                distance += 1
            if hn & top:
                distance -= 1
            hp = (hp << ONE) | ONE
            hn = hn << ONE
            vp, vn, before = hn | ~(d0 | hp), hp & d0, here
        _clear(letters, first, last, seen)
        out[i] = 1.0 - distance / (starts[t + 1] - starts[t])


@njit(nogil=True, cache=True)
def jaro_winkler_similarities(letters: Array, starts: Array, n_letters: int, a: Array, b: Array, out: Array) -> None:
    """J = (m/|s| + m/|t| + (m - x)/m)/3 with m common characters not further apart than half the longer string, x half
    of those out of order; above 0.7 it is J + 0.1 l (1 - J), l = the first characters alike, at most 4.

    Both strings have at most 64 characters: matched[s] and matched[t] are words of bits.
    """
    seen = np.zeros(n_letters, np.uint64)
    for i in range(len(a)):
        s, t = starts[a[i]], starts[b[i]]
        n_s, n_t = starts[a[i] + 1] - s, starts[b[i] + 1] - t
        reach = max(max(n_s, n_t) // 2 - 1, 0)
        _mark(letters, s, s + n_s, seen)
        in_s, in_t, common = ZERO, ZERO, 0
        for p in range(min(n_t, n_s + reach)):
            low, high = max(0, p - reach), min(n_s, p + reach + 1)  # places in s within reach
            window = (ALL >> np.uint64(BITS - (high - low))) << np.uint64(low)
            free = seen[letters[t + p]] & window & ~in_s
            if free:
                in_s |= free & (~free + ONE)  # the first free place
                in_t |= ONE << np.uint64(p)
                common += 1
        _clear(letters, s, s + n_s, seen)
        if common == 0:
            out[i] = 0.0
            continue
        misplaced, p, q = 0, 0, 0
        for _ in range(common):
            while not (in_s >> np.uint64(p)) & ONE:
                p += 1
            while not (in_t >> np.uint64(q)) & ONE:
                q += 1
            if letters[s + p] != letters[t + q]:
                misplaced += 1
            p += 1
            q += 1
        jaro = (common / n_s + common / n_t + (common - misplaced // 2) / common) / 3.0
        if jaro > 0.7:
            prefix = 0
            while prefix < min(4, n_s, n_t) and letters[s + prefix] == letters[t + prefix]:
                prefix += 1
            jaro += 0.1 * prefix * (1.0 - jaro)
        out[i] = jaro
