"""Hash tables from 64-bit keys to consecutive numbers, as nogil kernels.

A feature template turns each token into a key; a table turns keys into feature numbers. Open
addressing with linear probing; the capacity is a power of two at least twice the number of keys.
A key of -1 means "no feature here" and never enters a table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit

EMPTY = np.int32(-1)


@njit(nogil=True, cache=True)
def _slot(key, mask):
    """First place to look for a key: the high bits of a multiplicative hash."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return np.int64((mixed >> np.uint64(32)) & np.uint64(mask))


@njit(nogil=True, cache=True)
def _number_keys(keys, slots, found, counts):
    """Number distinct keys by first appearance; returns how many. Fills found (keys) and counts."""
    mask = len(slots) - 1
    n = 0
    for key in keys:
        if key < 0:
            continue
        at = _slot(key, mask)
        while slots[at] >= 0 and found[slots[at]] != key:
            at = (at + 1) & mask
        if slots[at] < 0:
            slots[at] = n
            found[n] = key
            n += 1
        counts[slots[at]] += 1
    return n


@njit(nogil=True, cache=True)
def _count_keys(keys, counts):
    for key in keys:
        if key >= 0:
            counts[key] += 1


@njit(nogil=True, cache=True)
def _insert(keys, slots):
    mask = len(slots) - 1
    for number in range(len(keys)):
        at = _slot(keys[number], mask)
        while slots[at] >= 0:
            at = (at + 1) & mask
        slots[at] = number


@njit(nogil=True, cache=True)
def _find(queries, keys, slots, offset, out):
    mask = len(slots) - 1
    for i in range(len(queries)):
        out[i] = -1
        if queries[i] < 0:
            continue
        at = _slot(queries[i], mask)
        while slots[at] >= 0:
            if keys[slots[at]] == queries[i]:
                out[i] = slots[at] + offset
                break
            at = (at + 1) & mask


def _capacity(n: int) -> int:
    return 1 << max(3, int(2 * n - 1).bit_length())


@dataclass(frozen=True, eq=False)
class KeyTable:
    """Distinct keys, numbered 0, 1, ... in the order given."""

    keys: NDArray[np.int64]
    slots: NDArray[np.int32]

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> KeyTable:
        slots = np.full(_capacity(len(keys)), EMPTY)
        _insert(keys, slots)
        return cls(keys, slots)

    @classmethod
    def learn(cls, keys: NDArray[np.integer], min_count: int) -> KeyTable:
        """The keys that occur at least `min_count` times: in rising order, or if they are sparse, as they appear."""
        flat = keys.reshape(-1)
        top = int(flat.max(initial=-1)) + 1
        if top <= len(flat):  # few possible keys, as with a single attribute: count them all
            counts = np.zeros(top, np.int32)
            _count_keys(flat, counts)
            return cls.of(np.flatnonzero(counts >= min_count).astype(np.int64))
        slots = np.full(_capacity(len(keys)), EMPTY)
        found = np.empty(len(keys), np.int64)
        counts = np.zeros(len(keys), np.int32)
        n = _number_keys(keys, slots, found, counts)
        if min_count <= 1:
            return cls.of(found[:n].copy())
        return cls.of(found[:n][counts[:n] >= min_count])

    def find(self, queries: NDArray[np.integer], offset: int = 0) -> NDArray[np.int32]:
        """`offset` plus the number of each key, -1 where it is not in the table."""
        out = np.empty(queries.shape, np.int32)
        _find(queries.reshape(-1), self.keys, self.slots, offset, out.reshape(-1))
        return out

    def __len__(self) -> int:
        return len(self.keys)
