"""What is taken for what: counts of true against predicted labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.errors import InputError


@dataclass(frozen=True, eq=False)
class Confusion:
    """`counts` (L, L): true labels down, predicted ones across. Rates run from 0 to 1; without a count they are 0."""

    labels: tuple[str, ...]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.counts) / max(self.total, 1))

    @property
    def precision(self) -> NDArray[np.float64]:
        return np.asarray(np.diag(self.counts) / np.maximum(self.counts.sum(axis=0), 1))

    @property
    def recall(self) -> NDArray[np.float64]:
        return np.asarray(np.diag(self.counts) / np.maximum(self.counts.sum(axis=1), 1))

    @property
    def f1(self) -> NDArray[np.float64]:
        """2 · right / (true + predicted)."""
        both = self.counts.sum(axis=0) + self.counts.sum(axis=1)
        return np.asarray(2 * np.diag(self.counts) / np.maximum(both, 1))

    def merged(self, names: Sequence[str]) -> Confusion:
        """Labels of the same name taken together, in the order they first appear; `names` has one a label."""
        if len(names) != len(self.labels):
            raise InputError(f"expected a name for each of {len(self.labels)} labels; got {len(names)}")
        kept = {name: i for i, name in enumerate(dict.fromkeys(names))}
        to = np.array([kept[name] for name in names], np.int64)
        counts = np.zeros((len(kept), len(kept)), np.int64)
        np.add.at(counts, (to[:, None], to[None, :]), self.counts)
        return Confusion(tuple(kept), counts)

    def largest(self, most: int, rest: str = "(rest)") -> Confusion:
        """The `most` labels that occur most often, true or predicted, in their order; the others as one."""
        if len(self.labels) <= most:
            return self
        size = self.counts.sum(axis=0) + self.counts.sum(axis=1)
        kept = set(np.argsort(-size, kind="stable")[: most - 1].tolist())
        order = sorted(range(len(self.labels)), key=lambda i: i not in kept)  # stable: the rest comes last
        moved = Confusion(tuple(self.labels[i] for i in order), self.counts[np.ix_(order, order)])
        return moved.merged([name if i in kept else rest for i, name in zip(order, moved.labels, strict=True)])

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain numbers, ready for JSON."""
        return {"labels": list(self.labels), "counts": self.counts.tolist()}


def confusion(truth: ArrayLike, predicted: ArrayLike, labels: Sequence[str]) -> Confusion:
    """From label numbers, one an instance; those whose truth is -1 (not known) are left out."""
    true, guess, n = np.asarray(truth), np.asarray(predicted), len(labels)
    if true.shape != guess.shape or true.ndim != 1:
        raise InputError(f"expected one predicted label a true one, {true.shape}; got {guess.shape}")
    known = true != -1
    true, guess = true[known].astype(np.int64), guess[known].astype(np.int64)
    for codes in (true, guess):
        if len(codes) and not 0 <= codes.min() <= codes.max() < n:
            raise InputError(f"expected labels numbered 0 to {n - 1}; got {codes.min()} to {codes.max()}")
    return Confusion(tuple(labels), np.bincount(true * n + guess, minlength=n * n).reshape(n, n))
