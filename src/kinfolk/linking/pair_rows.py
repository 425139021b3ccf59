"""Pairs as distinct rows of codes with a number a pair: pairs repeat, so training and scoring cost what the rows cost.

The codes of a row are packed into 64-bit words, and a hash table numbers the distinct rows in order of appearance.
Pairs are worked through in chunks, so what is held for all of them is one 32-bit number each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.core.threads import run_chunks

CHUNK = 1 << 17  # pairs at a time and thread


@dataclass(frozen=True, eq=False)
class PairRows:
    """codes: uint8 (R, K), the distinct rows; row: int32 (P,), the row of each pair."""

    codes: NDArray[np.uint8]
    row: NDArray[np.int32]

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.bincount(self.row, minlength=len(self.codes))

    def totals(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of a value given a pair, by row."""
        return np.asarray(np.bincount(self.row, weights, minlength=len(self.codes)), np.float64)


def distinct_rows(
    coded: Callable[[NDArray[np.int32], NDArray[np.int32]], NDArray[np.uint8]],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    sizes: Iterable[int],
    n_jobs: int = 1,
    tick: Callable[[int], None] = lambda done: None,
) -> PairRows:
    """The rows of all pairs; `sizes` are the numbers of values of the columns, `coded` gives uint8 (m, K).

    Chunks are coded in threads and numbered in their order, so the answer is the same for every `n_jobs`.
    """
    layout = _Layout(sizes)
    numbered = _Numbered(layout.n_words)
    row = np.empty(len(left), np.int32)
    n_chunks = -(-len(left) // CHUNK)

    def packed(chunk: int) -> NDArray[np.uint64]:
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        return layout.pack(coded(left[part], right[part]))

    for first in range(0, n_chunks, n_jobs):
        wave = run_chunks(lambda i, first=first: packed(first + i), min(n_jobs, n_chunks - first), n_jobs)  # type: ignore[misc]
        for chunk, words in enumerate(wave, first):
            numbered.add(words, row[chunk * CHUNK : (chunk + 1) * CHUNK])
        tick(min(len(left), (first + n_jobs) * CHUNK))
    return PairRows(layout.unpack(numbered.words), row)


class _Layout:
    """Where the code of each column stands among the bits of a row's words."""

    def __init__(self, sizes: Iterable[int]) -> None:
        bits = [max(int(size) - 1, 0).bit_length() for size in sizes]
        self.word: NDArray[np.int64] = np.zeros(len(bits), np.int64)
        self.shift: NDArray[np.uint64] = np.zeros(len(bits), np.uint64)
        self.mask = np.array([(1 << b) - 1 for b in bits], np.uint64)
        word = at = 0
        for column, width in enumerate(bits):
            if at + width > 64:
                word, at = word + 1, 0
            self.word[column], self.shift[column] = word, at
            at += width
        self.n_words = word + 1

    def pack(self, codes: NDArray[np.uint8]) -> NDArray[np.uint64]:
        words = np.zeros((len(codes), self.n_words), np.uint64)
        _pack(np.ascontiguousarray(codes), self.word, self.shift, words)
        return words

    def unpack(self, words: NDArray[np.uint64]) -> NDArray[np.uint8]:
        return ((words[:, self.word] >> self.shift) & self.mask).astype(np.uint8)


class _Numbered:
    """A growing open-addressed hash table of packed rows."""

    def __init__(self, n_words: int) -> None:
        self._slots = np.full(1 << 12, -1, np.int32)
        self._store = np.empty((1 << 11, n_words), np.uint64)
        self._n = 0

    @property
    def words(self) -> NDArray[np.uint64]:
        return self._store[: self._n]

    def add(self, words: NDArray[np.uint64], row: NDArray[np.int32]) -> None:
        """Number `words` (m, W) into `row` (m,)."""
        done = 0
        while True:
            done, self._n = _number(words, done, self._slots, self._store, self._n, row)
            if done == len(words):
                return
            self._grow()

    def _grow(self) -> None:
        self._store = np.concatenate([self._store, np.empty_like(self._store)])
        self._slots = np.full(2 * len(self._slots), -1, np.int32)
        _fill(self._store, self._n, self._slots)


@njit(nogil=True, cache=True)
def _pack(codes, word, shift, words):
    for i in range(codes.shape[0]):
        for k in range(codes.shape[1]):
            words[i, word[k]] |= np.uint64(codes[i, k]) << shift[k]


@njit(nogil=True, cache=True, inline="always")
def _hash(words, i):
    value = np.uint64(0x9E3779B97F4A7C15)
    for w in range(words.shape[1]):  # splitmix64's finaliser over each word
        value ^= words[i, w]
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value ^= value >> np.uint64(31)
    return value


@njit(nogil=True, cache=True)
def _number(words, done, slots, store, n, row):
    """Number rows from `done` on; stops when the store is full. Returns how far it came and how many rows there are."""
    mask = np.uint64(len(slots) - 1)
    for i in range(done, words.shape[0]):
        at = _hash(words, i) & mask
        while True:
            known = slots[at]
            if known < 0:
                if n == store.shape[0]:
                    return i, n
                store[n] = words[i]
                slots[at] = n
                row[i] = n
                n += 1
                break
            same = True
            for w in range(words.shape[1]):
                if store[known, w] != words[i, w]:
                    same = False
                    break
            if same:
                row[i] = known
                break
            at = (at + np.uint64(1)) & mask
    return words.shape[0], n


@njit(nogil=True, cache=True)
def _fill(store, n, slots):
    mask = np.uint64(len(slots) - 1)
    for i in range(n):
        at = _hash(store, i) & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = i
