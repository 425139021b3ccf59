"""The cosine of vectors that a user brings: embeddings of texts or pictures, one a record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.core.kernels import njit
from kinfolk.errors import InputError
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.nested import nested_column
from kinfolk.linking.pairs import Answer, Comparison, Items, Statistics, as_column, attribute

Array = NDArray[Any]
BETWEEN = re.compile(r"[\s,;]+")


@dataclass(frozen=True)
class Cosine(Comparison):
    """Σ_k a_k b_k / (|a| |b|) of the vectors that two items have, from -1 to 1; a vector of zeros is missing.

    The field holds lists of numbers, arrays (n, d) or, as files have them, texts: "[0.1, -0.2]", "0.1 -0.2". Every
    vector has to be of one length, that of training.
    """

    width: int | None = field(default=None, init=False, repr=False, compare=False)

    def of(self, items: Mentions) -> Answer:
        codes, vectors = vectors_of(items, self.field)
        if self.width is not None and vectors.shape[1] not in (0, self.width):
            got = f"these have {vectors.shape[1]}"
            raise InputError(f"{self.name}: the vectors of training have {self.width} numbers; {got}")
        length = np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=1))
        length[length == 0] = np.nan
        codes = np.where(np.isnan(length)[codes], -1, codes) if len(vectors) else np.full(len(codes), -1)

        def answer(left: Items, right: Items) -> Array:
            out = np.empty(len(left))
            _cosines(vectors, length, codes[left], codes[right], out)
            return as_column(out)

        return answer

    def learn(self, items: Mentions) -> Self:
        width = vectors_of(items, self.field)[1].shape[1]
        return self._knowing(width=width or None)

    def statistics(self) -> Statistics | None:
        return None if self.width is None else Statistics({"width": self.width}, {}, {})

    def with_statistics(self, kept: Statistics) -> Self:
        width = int(kept.numbers["width"])
        if width < 1:
            raise ValueError(f"{self.name}: expected vectors of one number at least")
        return self._knowing(width=width)


def vectors_of(items: Mentions, name: str) -> tuple[Array, NDArray[np.float32]]:
    """A row of vectors an item, -1 = none; and the vectors, float32 (m, d)."""
    column = attribute(items, name)
    if not isinstance(column, Column):
        if column.ndim == 2:
            return np.arange(len(column)), column
        if np.isnan(column).all():
            return np.full(len(column), -1), np.empty((0, 0), np.float32)
        raise InputError(f"the field {name!r} holds one number a record; cosine needs vectors, lists of numbers")
    first = {int(code): i for i, code in reversed([*enumerate(column.codes)])}
    ids = [items.name(first.get(code, 0)) for code in range(len(column.values))]
    rows = [_numbers(text, name, key) for text, key in zip(column.values, ids, strict=True)]
    made = nested_column(name, rows, ids) if any(rows) else np.empty((0, 0), np.float32)
    return (column.codes if len(made) else np.full(items.n_items, -1)), np.asarray(made, np.float32)


def _numbers(text: str, name: str, key: str) -> Sequence[float]:
    try:
        return [float(one) for one in BETWEEN.split(text.strip(" []()\n\t")) if one]
    except ValueError:
        wanted = "expected numbers divided by blanks or commas"
        raise InputError(f"the field {name!r} of {key!r} is no vector: {wanted}; got {text[:40]!r}") from None


@njit(nogil=True, cache=True)
def _cosines(vectors: Array, length: Array, a: Array, b: Array, out: Array) -> None:
    for i in range(len(a)):
        out[i] = np.nan
        if a[i] < 0 or b[i] < 0:
            continue
        total = 0.0
        for k in range(vectors.shape[1]):
            total += np.float64(vectors[a[i], k]) * np.float64(vectors[b[i], k])
        out[i] = max(-1.0, min(1.0, total / (length[a[i]] * length[b[i]])))
