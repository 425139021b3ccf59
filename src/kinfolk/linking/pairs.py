"""What may be asked about a pair of items: the interface every pair feature keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.column import Column
from kinfolk.errors import InputError
from kinfolk.linking.mentions import Mentions

Items = NDArray[np.int32]
Answer = Callable[[Items, Items], NDArray[Any]]  # left, right (m,) -> one row a pair


@dataclass(frozen=True)
class PairColumn:
    """One column of answers: codes that stand for `values`, or, without values, numbers yet to be put into bins."""

    name: str
    values: tuple[str, ...] | None = None
    words: tuple[str, str] | None = None  # of numbers that are 0 or 1: what the two are called


class Statistics(NamedTuple):
    """What a feature learned of the training items, as a model file keeps it."""

    numbers: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    strings: Mapping[str, Sequence[str]]


class PairFeature(ABC):
    """One or more columns about a pair. An instance holds settings, so one can be used for any items. What its answers
    take from the rest of the table, such as how rare a word is, is learned in training, so that a pair has the same
    answers in any table.

    columns   the columns it answers, either all with values or all without
    of        the work that is done once an item; returns a function from pairs to an array (m, columns):
              uint8 codes, or float64 numbers with NaN where an item lacks the attribute. It is called from several
              threads, for some hundred thousand pairs at a time, and must change nothing.
    spec      what a model file keeps of it
    learn     the same feature, knowing what it has to of the training items; by default itself
    statistics, with_statistics   what it learned, for a model file, None: nothing; and the feature that knows it again
    """

    columns: tuple[PairColumn, ...]

    @abstractmethod
    def of(self, items: Mentions) -> Answer: ...

    @abstractmethod
    def spec(self) -> dict[str, Any]: ...

    def learn(self, items: Mentions) -> Self:
        return self

    def statistics(self) -> Statistics | None:
        return None

    def with_statistics(self, kept: Statistics) -> Self:
        raise ValueError(f"{type(self).__name__} learns no statistics, but the file has some")


def number_column(items: Mentions, field: str) -> NDArray[np.float64]:
    """A column of numbers; strings are read as numbers, and what cannot be read is missing."""
    column = attribute(items, field)
    if not isinstance(column, Column):
        return np.asarray(column, np.float64)
    return np.array([*map(_number, column.values), np.nan])[column.codes]


def attribute(items: Mentions, field: str) -> Any:
    if field not in items.columns:
        there = ", ".join(map(repr, items.columns)) or "none"
        raise InputError(f"no column {field!r} to compare; the items have {there}")
    return items.columns[field]


def _number(text: str) -> float:
    try:
        return float(text.strip().replace(",", "").lstrip("$€£"))
    except ValueError:
        return float("nan")
