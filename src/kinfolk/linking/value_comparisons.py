"""Comparisons of whole values: the same or not, numbers and dates apart, and a user's own function."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.column import Column
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.compared import (
    Comparison,
    as_column,
    distinct_pairs,
    first_items,
    joint_codes,
    number_codes,
    one_of,
    texts_of,
    where_known,
)
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import Answer, Items, PairColumn, PairFeature, Statistics, attribute, number_column

Array = NDArray[Any]
_NAMES = "january february march april may june july august september october november december".split()
MONTHS = {word: i for i, name in enumerate(_NAMES, 1) for word in (name, name[:3])} | {"sept": 9}
PIVOT = 69  # a year of two digits is 19.. from here on, 20.. below, as in strptime
YEAR_FIRST = re.compile(r"(\d{4})(?:([-/.])(\d{1,2})\2(\d{1,2})|(\d\d)(\d\d))(?:[T ].*)?")
YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d\d)(?: .*)?")
DAY_NAMED = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?[-./ ]*([a-z]+)\.?,?[-./ ]*(\d{4}|\d\d)")  # 3 March 1999, 3-Mar-99
MONTH_NAMED = re.compile(r"([a-z]+)\.? +(\d{1,2})(?:st|nd|rd|th)?,? +(\d{4}|\d\d)")  # March 3, 1999
YEAR_AND_MONTH = re.compile(r"(\d{4})[-/](\d{1,2})")  # 1999-03
MONTH_AND_YEAR = re.compile(r"(\d{1,2}|[a-z]+)\.?,?[-/ ]+(\d{4})")  # 3/1999, March 1999


@dataclass(frozen=True)
class Exact(Comparison):
    """1 if the values are the same, 0 if not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", (PairColumn(self.name, words=("different", "equal")),))

    def of(self, items: Mentions) -> Answer:
        texts = texts_of(items, self.fields, self.normalise)

        def answer(left: Items, right: Items) -> Array:
            a, b, known = where_known(texts.codes, left, right)
            return as_column(np.where(known, a == b, np.nan))

        return answer


@dataclass(frozen=True)
class NumberDifference(Comparison):
    """|x - y|; relative: |x - y| / max(|x|, |y|), 0 where both are 0. What is no number is missing."""

    relative: bool = False
    SETTINGS: ClassVar[tuple[str, ...]] = ("relative",)

    def __post_init__(self) -> None:
        one_of("NumberDifference: relative", self.relative, (False, True))
        super().__post_init__()

    @property
    def name(self) -> str:
        return f"number_difference({self.field}{', relative' if self.relative else ''})"

    def of(self, items: Mentions) -> Answer:
        values = number_column(items, self.field)
        values = np.where(np.isfinite(values), values, np.nan)

        def answer(left: Items, right: Items) -> Array:
            x, y = values[left], values[right]
            apart = np.abs(x - y)
            if self.relative:
                size = np.maximum(np.abs(x), np.abs(y))
                apart = np.divide(apart, size, out=apart, where=size > 0)
            return as_column(apart)

        return answer


@dataclass(frozen=True)
class DateDifference(Comparison):
    """Days between two dates, whichever is the earlier; what is no date is missing.

    A date that names a month alone (1999-12, 12/1999, Dec 1999) is compared by the month: both count as the first day
    of theirs. Years of two digits lie between 1969 and 2068.

    format   as in strptime. None: 1999-12-31 (with or without a time), 19991231, 31.12.1999, 31 Dec 1999, 31-Dec-99 and
             December 31, 1999. In 1/2/1999 the first number is the day if, in training, one above 12 stands there more
             often than in the second place, else the month; a comparison that has not learned it looks at the items at
             hand. With full stops it is the day, and a number above 12 is one anywhere.
    """

    format: str | None = None
    day_first: bool | None = field(default=None, init=False, repr=False, compare=False)
    SETTINGS: ClassVar[tuple[str, ...]] = ("format",)

    def __post_init__(self) -> None:
        if self.format is not None and (not isinstance(self.format, str) or "%" not in self.format):
            raise SettingError(f"DateDifference: format must be like '%d/%m/%Y' or None; got {self.format!r}")
        super().__post_init__()

    def of(self, items: Mentions) -> Answer:
        texts = texts_of(items, self.fields, normalise=False)
        days, months, whole = dates_of(texts.values, self.format, self.day_first)[texts.codes].T

        def answer(left: Items, right: Items) -> Array:
            by_day = whole[left] * whole[right] == 1
            apart = np.where(by_day, days[left] - days[right], months[left] - months[right])
            return as_column(np.abs(apart))

        return answer

    def learn(self, items: Mentions) -> Self:
        if self.format is not None:
            return self
        return self._that_knows(is_day_first(texts_of(items, self.fields, normalise=False).values))

    def statistics(self) -> Statistics | None:
        return None if self.day_first is None else Statistics({"day_first": self.day_first}, {}, {})

    def with_statistics(self, kept: Statistics) -> Self:
        return self._that_knows(bool(kept.numbers["day_first"]))

    def _that_knows(self, day_first: bool) -> Self:
        learned = replace(self)
        object.__setattr__(learned, "day_first", day_first)
        return learned


class Date(NamedTuple):
    """A day and the first of its month, counted from a fixed day; and whether the day is known: 1, or 0 for a month."""

    day: float
    month: float
    whole: float = 1.0


NO_DATE = Date(float("nan"), float("nan"))


def dates_of(texts: Sequence[str], format: str | None = None, day_first: bool | None = None) -> Array:
    """float64 (n + 1, 3), a `Date` for each text, NaN where it names none; the last, for code -1, is none."""
    if format is not None:
        found = [_by_format(text.strip(), format) for text in texts]
    else:
        first = is_day_first(texts) if day_first is None else day_first
        found = [_date(text.strip(), first) for text in texts]
    return np.array([*found, NO_DATE])


def is_day_first(texts: Sequence[str]) -> bool:
    """Whether the day stands before the month in most dates that can be read in one way only."""
    ends = Counter[bool]()
    for found in filter(None, (YEAR_LAST.fullmatch(text.strip()) for text in texts)):
        if found[2] != "." and (int(found[1]) > 12) != (int(found[3]) > 12):
            ends[int(found[1]) > 12] += 1
    return ends[True] > ends[False]


def _by_format(text: str, format: str) -> Date:
    try:
        found = datetime.strptime(text, format)
    except ValueError:
        return NO_DATE
    return _made(f"{found.year:04}", found.month, found.day)


def _date(text: str, day_first: bool) -> Date:
    if found := YEAR_FIRST.fullmatch(text):
        return _made(found[1], found[3] or found[5], found[4] or found[6])
    if found := YEAR_LAST.fullmatch(text):
        first, second = int(found[1]), int(found[3])
        is_day = second <= 12 and (day_first or found[2] == "." or first > 12)
        return _made(found[4], second if is_day else first, first if is_day else second)
    plain = text.lower()
    if found := DAY_NAMED.fullmatch(plain):
        return _made(found[3], MONTHS.get(found[2], 0), found[1])
    if found := MONTH_NAMED.fullmatch(plain):
        return _made(found[3], MONTHS.get(found[1], 0), found[2])
    if found := YEAR_AND_MONTH.fullmatch(plain):
        return _made(found[1], found[2])
    if found := MONTH_AND_YEAR.fullmatch(plain):
        return _made(found[2], found[1] if found[1].isdecimal() else MONTHS.get(found[1], 0))
    return NO_DATE


def _made(year: Any, month: Any, day: Any = None) -> Date:
    number = int(year)
    if len(str(year)) == 2:
        number += 1900 if number >= PIVOT else 2000
    try:
        first = date(number, int(month), 1).toordinal()
        whole = first if day is None else date(number, int(month), int(day)).toordinal()
    except ValueError:  # a thirteenth month
        return NO_DATE
    return Date(float(whole), float(first), float(day is not None))


# -- a user's function --------------------------------------------------------------------------------


@dataclass(frozen=True, init=False)
class PairFunction(PairFeature):
    """A user's comparison: `function(left, right)` takes two values and returns a number, or None for missing.

    With one field it is called with the two values (strings, or floats where the field holds numbers), never with a
    missing one; with several, with two tuples, None where a field is missing. It is called once a distinct pair of
    values, on several threads. The model file keeps the name (that of the function unless given); the function is
    passed in again on load.
    """

    function: Callable[[Any, Any], float | None]
    fields: tuple[str, ...]
    name: str
    columns: tuple[PairColumn, ...] = field(init=False, repr=False, compare=False)

    def __init__(
        self, function: Callable[[Any, Any], float | None], fields: str | Sequence[str], name: str | None = None
    ) -> None:
        if isinstance(function, type) or not callable(function):
            raise SettingError(f"PairFunction takes a function of two values; got {function!r}")
        listed = (fields,) if isinstance(fields, str) else tuple(fields)
        if not listed or not all(isinstance(one, str) and one for one in listed):
            raise SettingError(f"PairFunction takes the name of a field or a list of names; got {fields!r}")
        told = str(name or getattr(function, "__name__", type(function).__name__))
        values = {"function": function, "fields": listed, "name": told, "columns": (PairColumn(told),)}
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def of(self, items: Mentions) -> Answer:
        codes, values = _raw_values(items, self.fields)

        def compare(a: Array, b: Array) -> list[float]:
            return [self._number(values[p], values[q]) for p, q in zip(a.tolist(), b.tolist(), strict=True)]

        def answer(left: Items, right: Items) -> Array:
            a, b, known = where_known(codes, left, right)
            out = np.full(len(a), np.nan)
            out[known] = distinct_pairs(a[known], b[known], compare)
            return as_column(out)

        return answer

    def _number(self, left: Any, right: Any) -> float:
        try:
            given = self.function(left, right)
        except Exception as error:  # whatever a user's function raises, with what it was asked
            told = f"{type(error).__name__}: {error}"
            raise InputError(
                f"{self.name!r} failed for {left!r} and {right!r}: {told}; correct the function"
            ) from error
        if given is None:
            return float("nan")
        if not isinstance(given, Real | np.bool_) or np.isinf(float(given)):
            wanted = "must return a finite number, or None for missing"
            raise InputError(f"{self.name!r} {wanted}; got {given!r} for {left!r} and {right!r}")
        return float(given)

    def spec(self) -> dict[str, Any]:
        return {"comparison": "PairFunction", "name": self.name, "fields": list(self.fields)}


def _raw_values(items: Mentions, fields: Sequence[str]) -> tuple[Array, Sequence[Any]]:
    """A number an item for what it has in the fields, -1 = nothing at all; and the distinct values or tuples."""
    parts: list[tuple[Array, list[Any]]] = []
    for name in fields:
        column = attribute(items, name)
        if isinstance(column, Column):
            parts.append((column.codes, [*column.values, None]))
        else:
            codes, numbers = number_codes(column)
            parts.append((codes, [*numbers.tolist(), None]))
    if len(parts) == 1:
        return parts[0]
    joint, _ = joint_codes([codes for codes, _ in parts])
    return joint, [tuple(values[codes[i]] for codes, values in parts) for i in first_items(joint)]
