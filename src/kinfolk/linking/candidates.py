"""Pairs that one blocking rule makes, as ranges that are spread out a piece at a time.

Items lie in a pool so that the partners of an item are a run of it. What a rule holds is one entry an item and run,
never the pairs themselves, so ten million pairs cost no more memory than the piece in work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.linking.compared import joint_codes
from kinfolk.linking.mentions import Mentions

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
NAMED = 3  # giant blocks that are warned of one by one


class Limits(NamedTuple):
    max_block: int  # pairs of a block that is warned of
    skip: bool  # and left out


@dataclass(frozen=True, eq=False)
class Candidates:
    """Entry e pairs the item right[e] with pool[low[e]:high[e]]; entries are in order of `right`.

    Pairs with right < left, and with two tables those within one of them, are left out when they come up; so are those
    that come up fewer than `min_shared` times.
    """

    pool: Array = field(repr=False)
    right: Array
    low: Array
    high: Array
    first_table: int | None
    min_shared: int = 1

    @property
    def total(self) -> int:
        """Pairs there are at most."""
        return int((self.high - self.low).sum())

    def costs(self, n_items: int) -> Array:
        """Pairs with each item to the right, at most."""
        return np.bincount(self.right, self.high - self.low, minlength=n_items)

    def pairs(self, first: int, last: int) -> Array:
        """int64 right << 32 | left of the pairs with first <= right < last, rising, each once."""
        here = slice(*np.searchsorted(self.right, (first, last)))
        low, count = self.low[here], (self.high - self.low)[here]
        ends = np.cumsum(count)
        left = self.pool[np.repeat(low - ends + count, count) + np.arange(ends[-1] if len(ends) else 0)]
        right = np.repeat(self.right[here], count)
        kept = left < right
        if self.first_table is not None:
            kept &= (left < self.first_table) & (right >= self.first_table)
        keys: Array = (right[kept].astype(np.int64) << 32) | left[kept]
        return distinct(keys, self.min_shared)


def distinct(keys: Array, least: int = 1) -> Array:
    """Those that come up so often, rising, each once; `keys` is sorted in place."""
    steps = np.diff(keys, prepend=-1)
    if (steps <= 0).any():  # a single key makes its pairs in order
        keys.sort()
        steps = np.diff(keys, prepend=-1)
    starts = np.flatnonzero(steps)
    if least > 1:
        starts = starts[np.diff(starts, append=len(keys)) >= least]
    return keys[starts] if len(starts) < len(keys) else keys


def within_blocks(
    items: Mentions, codes: Array, members: Array, shown: Callable[[int], str], rule: str, limits: Limits
) -> Candidates:
    """Pairs of items of one block: item members[e] is in block codes[e]. Blocks do not reach across groups."""
    blocks = codes if items.n_groups <= 1 else joint_codes([items.groups[members], codes])[0]
    order = np.lexsort((members, blocks))
    pool, blocks = members[order], blocks[order]
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    sizes = np.diff(starts, append=len(blocks))
    first = np.repeat(starts, sizes)
    if items.first_table is None:
        high = np.arange(len(pool))  # those before it
        pairs = sizes * (sizes - 1) // 2
    else:
        from_first = pool < items.first_table
        ours = np.add.reduceat(from_first.astype(np.int64), starts) if len(starts) else starts
        high = np.where(from_first, first, first + np.repeat(ours, sizes))
        pairs = ours * (sizes - ours)
    giant = np.flatnonzero(pairs > limits.max_block)
    if len(giant):
        named = codes[order]
        _warn(rule, [(shown(int(named[starts[b]])), int(sizes[b]), int(pairs[b])) for b in giant], limits)
        if limits.skip:
            high = np.where(np.repeat(pairs > limits.max_block, sizes), first, high)
    return _in_order(pool, pool, first, high, items.first_table)


def _warn(rule: str, blocks: list[tuple[str, int, int]], limits: Limits) -> None:
    blocks.sort(key=lambda block: -block[2])
    what = "it is left out" if limits.skip else 'narrow the rule, or leave such blocks out with giant="skip"'
    for key, size, pairs in blocks[:NAMED]:
        log.warning("%s: the block %r has %s items and makes %s pairs; %s", rule, key, f"{size:,}", f"{pairs:,}", what)
    if len(blocks) > NAMED:
        rest = sum(pairs for _, _, pairs in blocks[NAMED:])
        told = "%s: %s more blocks have over %s pairs each, together %s; %s"
        count = f"{len(blocks) - NAMED:,}"
        log.warning(told, rule, count, f"{limits.max_block:,}", f"{rest:,}", what.replace("it is", "they are"))


def within_windows(items: Mentions, codes: Array, window: int) -> Candidates:
    """Pairs of items less than `window` places apart in the order of their codes, each group for itself."""
    known = np.flatnonzero(codes >= 0)
    pool = known[np.lexsort((known, codes[known], items.groups[known]))]
    groups = items.groups[pool]
    place = np.arange(len(pool))
    begins, ends = np.searchsorted(groups, groups, "left"), np.searchsorted(groups, groups, "right")
    # an item is to the right of some on either side: both are looked at, and half of them dropped
    low = np.concatenate([np.maximum(place - window + 1, begins), place + 1])
    high = np.concatenate([place, np.minimum(place + window, ends)])
    return _in_order(pool, np.concatenate([pool, pool]), low, high, items.first_table)


def _in_order(pool: Array, right: Array, low: Array, high: Array, first_table: int | None) -> Candidates:
    kept = np.flatnonzero(high > low)
    order = kept[np.argsort(right[kept], kind="stable")]
    return Candidates(pool.astype(np.int32), right[order].astype(np.int32), low[order], high[order], first_table)
