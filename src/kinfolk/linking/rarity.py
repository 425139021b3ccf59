"""How rare a value is, and exact agreement split by it: two records that share a rare surname are more likely one
person than two that share a common one.

The level of a value with frequency f, the share of the entities in training that have it, is min(9, ⌊-log₄ f⌋): 0 for
a value that more than a quarter has, 9 for one that at most one in 4⁹ = 262,144 has. Levels stay few, so pairs repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import (
    Answer,
    Comparison,
    Items,
    PairColumn,
    Statistics,
    Texts,
    entities_of,
    texts_of,
    where_known,
)

Array = NDArray[Any]
LEVELS = 10
VALUES = (
    "missing",
    "different",
    "equal, of more than 1 in 4",
    *(f"equal, about 1 in {4**level:,}" for level in range(1, LEVELS - 1)),
    f"equal, of at most 1 in {4 ** (LEVELS - 1):,}",
)
DIFFERENT, EQUAL = 1, 2  # codes of Rarity; EQUAL + level


def rarity_levels(counts: Any, n: int) -> NDArray[np.uint8]:
    """min(9, ⌊-log₄(counts / n)⌋); halves of binary logarithms are exact where the share is a power of two."""
    share = np.maximum(n, 1) / np.maximum(np.asarray(counts, np.float64), 1.0)
    return np.asarray(np.clip(np.floor(np.log2(share) / 2), 0, LEVELS - 1), np.uint8)


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """Of n entities with a value, how many have each value that two of them have at least."""

    n: int
    values: Sequence[str]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Texts, entities: Array) -> ValueCounts:
        """`entities`: a number an item, the same for items of one entity, which count once."""
        known = texts.codes >= 0
        pairs = np.unique(entities[known].astype(np.int64) << 32 | texts.codes[known])
        counts = np.bincount(pairs & 0xFFFFFFFF, minlength=len(texts.values))
        often = np.flatnonzero(counts > 1)
        return cls(len(np.unique(entities[known])), [texts.values[k] for k in often.tolist()], counts[often])

    def levels(self, values: Sequence[str]) -> NDArray[np.uint8]:
        """Of each value; one that was not seen twice is as rare as the rarest that was."""
        known = dict(zip(self.values, self.counts.tolist(), strict=True))
        rarest = int(self.counts.min()) if len(self.counts) else 2
        return rarity_levels([known.get(value, rarest) for value in values], self.n)


@dataclass(frozen=True)
class Rarity(Comparison):
    """Whether the values are the same and, if so, how rare the value is: in ten levels, a weight each.

    How many entities have a value is counted in training, all items of a true cluster being one, and stays as it is;
    an unseen value, or one of a single entity, is as rare as the rarest that two have. A comparison that has not
    learned takes the items at hand.
    """

    counted: ValueCounts | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", (PairColumn(self.name, VALUES),))

    def of(self, items: Mentions) -> Answer:
        texts = texts_of(items, self.fields, self.normalise)
        counted = self.counted or ValueCounts.of(texts, np.arange(items.n_items))
        equal = np.append(EQUAL + counted.levels(texts.values), 0).astype(np.uint8)

        def answer(left: Items, right: Items) -> Array:
            a, b, known = where_known(texts.codes, left, right)
            return np.where(known, np.where(a == b, equal[a], DIFFERENT), 0).astype(np.uint8)[:, None]

        return answer

    def learn(self, items: Mentions) -> Self:
        texts = texts_of(items, self.fields, self.normalise)
        return self._knowing(counted=ValueCounts.of(texts, entities_of(items)))

    def statistics(self) -> Statistics | None:
        known = self.counted
        return None if known is None else Statistics({"n": known.n}, {"counts": known.counts}, {"values": known.values})

    def with_statistics(self, kept: Statistics) -> Self:
        n, values, counts = int(kept.numbers["n"]), kept.strings["values"], kept.arrays["counts"]
        if len(set(values)) != len(values) or counts.shape != (len(values),) or counts.dtype != np.int64:
            raise ValueError(f"{self.name}: expected distinct values with a count each")
        if ((counts < 2) | (counts > n)).any():
            raise ValueError(f"{self.name}: expected counts from 2 to {n}, the number of entities")
        return self._knowing(counted=ValueCounts(n, values, counts))
