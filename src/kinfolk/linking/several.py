"""Comparisons of fields with several values a record: what the two values that are most alike are like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.errors import SettingError
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.nested import SEPARATOR, values_in
from kinfolk.linking.pairs import (
    Answer,
    Comparison,
    Items,
    PairColumn,
    PairFeature,
    Statistics,
    distinct_pairs,
    entities_of,
    texts_of,
    where_known,
)

Array = NDArray[Any]
AT_ONCE = 1 << 20  # pairs of values compared at a time


class Several(NamedTuple):
    """Item i has the values indices[starts[c]:starts[c + 1]] with c = codes[i], -1: none."""

    codes: Array
    starts: Array
    indices: Array
    values: list[str]


@dataclass(frozen=True)
class AnyOf(PairFeature):
    """The best answer of a comparison over the values that two items have in a field: `AnyOf(Exact("phone"))` says
    whether they share one, `AnyOf(JaroWinkler("alias"))` how alike the two most alike are.

    separator   what divides values in a text; None: the field holds lists

    Best is the largest answer, of differences the smallest; of `Rarity` that of the rarest value shared.
    """

    comparison: Comparison
    separator: str | None = None
    columns: tuple[PairColumn, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        one = self.comparison
        if not isinstance(one, Comparison) or len(one.fields) != 1 or type(one).__name__ == "Cosine":
            raise SettingError.saying(f"AnyOf takes a comparison of one field, such as Exact('phone'); got {one!r}")
        if self.separator is not None and (not isinstance(self.separator, str) or not self.separator.strip()):
            raise SettingError("separator", self.separator, "what divides values, such as ';', or None", owner="AnyOf")
        divided = "" if self.separator is None else f", {self.separator}"
        column = PairColumn(f"any_of({one.name}{divided})", one.columns[0].values, one.columns[0].words)
        object.__setattr__(self, "columns", (column,))

    @property
    def fields(self) -> tuple[str, ...]:
        return self.comparison.fields

    @property
    def name(self) -> str:
        return self.columns[0].name

    def of(self, items: Mentions) -> Answer:
        several = several_of(items, self.fields[0], self.separator)
        alone = self.comparison.of(_table(self.fields[0], np.arange(len(several.values)), several.values))
        coded = self.columns[0].values is not None
        nearest = np.fmin if type(self.comparison).__name__.endswith("Difference") else np.fmax

        def answer(left: Items, right: Items) -> Array:
            a, b, known = where_known(several.codes, left, right)
            out = np.full(len(a), 0.0 if coded else np.nan)
            out[known] = distinct_pairs(a[known], b[known], lambda p, q: _best(several, alone, nearest, p, q))
            return out.astype(np.uint8 if coded else np.float64)[:, None]

        return answer

    def spec(self) -> dict[str, Any]:
        return {"comparison": "AnyOf", "of": self.comparison.spec(), "separator": self.separator}

    def learn(self, items: Mentions) -> Self:
        """Every value is an item of its own, of the same entity as the others of its record."""
        several = several_of(items, self.fields[0], self.separator)
        owner = np.flatnonzero(several.codes >= 0)
        rows = several.codes[owner]
        count = np.diff(several.starts)[rows]
        places = np.repeat(several.starts[rows] - np.cumsum(count) + count, count) + np.arange(count.sum())
        entities = np.unique(np.repeat(entities_of(items)[owner], count), return_inverse=True)[1]
        table = _table(self.fields[0], several.indices[places], several.values, entities.astype(np.int32))
        return type(self)(self.comparison.learn(table), self.separator)

    def statistics(self) -> Statistics | None:
        return self.comparison.statistics()

    def with_statistics(self, kept: Statistics) -> Self:
        return type(self)(self.comparison.with_statistics(kept), self.separator)


def several_of(items: Mentions, name: str, separator: str | None = None) -> Several:
    """The values of each item."""
    texts = texts_of(items, [name], normalise=False)
    rows = [values_in(text, separator or SEPARATOR) for text in texts.values]
    numbers: dict[str, int] = {}
    indices = [numbers.setdefault(value, len(numbers)) for row in rows for value in row]
    starts = np.cumsum([0, *map(len, rows)])
    empty = np.append(np.diff(starts) == 0, True)
    codes = np.where(empty[texts.codes], -1, texts.codes)
    return Several(codes, starts, np.array(indices, np.int64), list(numbers))


def holds_lists(items: Mentions, name: str) -> bool:
    """Whether a field came as lists."""
    column = items.columns[name]
    return isinstance(column, Column) and any(SEPARATOR in text for text in column.values)


def each_value(items: Mentions, name: str) -> Mentions:
    """The values of all items, each once, as items."""
    several = several_of(items, name)
    return _table(name, np.arange(len(several.values)), several.values)


def _table(name: str, codes: Array, values: list[str], clusters: Array | None = None) -> Mentions:
    none = np.empty(0, np.int32)
    column = Column(codes.astype(np.int32), tuple(values))
    return Mentions({name: column}, np.zeros(len(codes), np.int32), none, none, clusters)


def _best(several: Several, alone: Answer, nearest: Any, p: Array, q: Array) -> NDArray[np.float64]:
    """Of rows p and q the best answer over all pairs of their values; rows have one value at least."""
    n_p, n_q = np.diff(several.starts)[p], np.diff(several.starts)[q]
    out, ends = np.empty(len(p)), np.cumsum(n_p * n_q)
    start = 0
    while start < len(p):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + AT_ONCE, side="right")))
        size = (n_p * n_q)[start:stop]
        first = np.cumsum(size) - size
        place = np.arange(size.sum()) - np.repeat(first, size)
        wide = np.repeat(n_q[start:stop], size)
        left = several.indices[np.repeat(several.starts[p[start:stop]], size) + place // wide]
        right = several.indices[np.repeat(several.starts[q[start:stop]], size) + place % wide]
        found = alone(left.astype(np.int32), right.astype(np.int32))[:, 0].astype(np.float64)
        out[start:stop] = nearest.reduceat(found, first)
        start = stop
    return out
