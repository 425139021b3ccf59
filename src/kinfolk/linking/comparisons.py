"""Comparisons of two records: of whole values, characters, tokens and vectors; how they are written, and chosen."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import chain
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.core.kernels import njit
from kinfolk.core.modelfile import given_again
from kinfolk.errors import InputError, ModelFileError, SettingError
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import (
    Answer,
    Comparison,
    Items,
    PairColumn,
    PairFeature,
    Statistics,
    as_column,
    attribute,
    distinct_pairs,
    first_items,
    joint_codes,
    normalised,
    number_codes,
    number_column,
    one_of,
    texts_of,
    where_known,
    written_kind,
)
from kinfolk.linking.strings import SHORT, Letters, edit_similarities, jaro_winkler_similarities, letters_of

# -- Comparisons of whole values: the same or not, numbers and dates apart, and a user's own function ---

Array = NDArray[Any]
_NAMES = "january february march april may june july august september october november december".split()
MONTHS = {word: i for i, name in enumerate(_NAMES, 1) for word in (name, name[:3])} | {"sept": 9}
PIVOT = 69  # a year of two digits is 19.. from here on, 20.. below, as in strptime
# ways to write a date; of `first` and `second` one is the month, which of them is told by the others of the column
YEAR_LAST = re.compile(r"(?P<first>\d{1,2})(?P<sign>[-/.])(?P<second>\d{1,2})\2(?P<year>\d{4}|\d\d)(?: .*)?")
DATES = (
    re.compile(r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?:[t ].*)?"),
    re.compile(r"(?P<year>\d{4})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})(?:[t ].*)?"),
    YEAR_LAST,
    # 3 March 1999, 3-Mar-99
    re.compile(r"(?P<day>\d{1,2})(?:st|nd|rd|th)?[-./ ]*(?P<month>[a-z]+)\.?,?[-./ ]*(?P<year>\d{4}|\d\d)"),
    # March 3, 1999
    re.compile(r"(?P<month>[a-z]+)\.? +(?P<day>\d{1,2})(?:st|nd|rd|th)?,? +(?P<year>\d{4}|\d\d)"),
    re.compile(r"(?P<year>\d{4})[-/](?P<month>\d{1,2})"),  # 1999-03
    re.compile(r"(?P<month>\d{1,2}|[a-z]+)\.?,?[-/ ]+(?P<year>\d{4})"),  # 3/1999, March 1999
)


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
            raise SettingError("format", self.format, "like '%d/%m/%Y' or None", owner="DateDifference")
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
        return self._knowing(day_first=is_day_first(texts_of(items, self.fields, normalise=False).values))

    def statistics(self) -> Statistics | None:
        return None if self.day_first is None else Statistics({"day_first": self.day_first}, {}, {})

    def with_statistics(self, kept: Statistics) -> Self:
        return self._knowing(day_first=bool(kept.numbers["day_first"]))


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
        found = [_date(text.strip().lower(), first) for text in texts]
    return np.array([*found, NO_DATE])


def is_day_first(texts: Sequence[str]) -> bool:
    """Whether the day stands before the month in most dates that can be read in one way only."""
    ends = Counter[bool]()
    for found in filter(None, (YEAR_LAST.fullmatch(text.strip()) for text in texts)):
        if found["sign"] != "." and (int(found["first"]) > 12) != (int(found["second"]) > 12):
            ends[int(found["first"]) > 12] += 1
    return ends[True] > ends[False]


def _by_format(text: str, format: str) -> Date:
    try:
        found = datetime.strptime(text, format)
    except ValueError:
        return NO_DATE
    return _made(found.year, found.month, found.day)


def _date(text: str, day_first: bool) -> Date:
    found = next(filter(None, (pattern.fullmatch(text) for pattern in DATES)), None)
    if found is None:
        return NO_DATE
    parts = found.groupdict()
    if "first" in parts:
        ends = [int(parts["first"]), int(parts["second"])]
        is_day = ends[1] <= 12 and (day_first or parts["sign"] == "." or ends[0] > 12)
        parts["day"], parts["month"] = ends if is_day else ends[::-1]
    year, month = int(parts["year"]), parts["month"]
    if len(parts["year"]) == 2:
        year += 1900 if year >= PIVOT else 2000
    return _made(year, MONTHS.get(month, month), parts.get("day"))


def _made(year: int, month: Any, day: Any) -> Date:
    try:
        first = date(year, int(month), 1).toordinal()
        whole = first if day is None else date(year, int(month), int(day)).toordinal()
    except ValueError:  # a thirteenth month, or a word that is none
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
            raise SettingError.saying(f"PairFunction takes a function of two values; got {function!r}")
        listed = (fields,) if isinstance(fields, str) else tuple(fields)
        if not listed or not all(isinstance(one, str) and one for one in listed):
            raise SettingError.saying(f"PairFunction takes the name of a field or a list of names; got {fields!r}")
        title = str(name or getattr(function, "__name__", type(function).__name__))
        values = {"function": function, "fields": listed, "name": title, "columns": (PairColumn(title),)}
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
            reason = f"{type(error).__name__}: {error}; correct the function"
            raise InputError(f"{self.name!r} failed for {left!r} and {right!r}: {reason}") from error
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


# -----------------------------------------------------------------------------------------------------
# How alike two strings are, character by character: Jaro-Winkler for names, edit similarity where there are typos.

log = logging.getLogger("kinfolk")
MOST = 2_000  # characters of a text that are looked at: the time goes with their square, a fifth of a millisecond here


@dataclass(frozen=True)
class _Characters(Comparison):
    """A similarity of strings, from 0 to 1; the same string is 1 without being looked at.

    Of longer strings the first 2,000 characters are compared; comparisons of tokens suit such texts better.
    """

    KERNEL: ClassVar[Callable[..., None]]  # for short strings
    SCORER: ClassVar[str]  # of rapidfuzz, for the others

    def learn(self, items: Mentions) -> Self:
        values = texts_of(items, self.fields, self.normalise).values
        long = sum(len(text) > MOST for text in values)
        if long:
            remedy = f"for long texts take token_overlap({self.field}) or tfidf_cosine({self.field})"
            log.warning(
                "%s: %d of %d texts have more than %s characters and are compared by the first %s; %s",
                *(self.name, long, len(values), f"{MOST:,}", f"{MOST:,}", remedy),
            )
        return self

    def of(self, items: Mentions) -> Answer:
        texts = texts_of(items, self.fields, self.normalise)
        if any(len(text) > MOST for text in texts.values):
            texts = texts.renamed([text[:MOST] for text in texts.values])
        letters = letters_of(texts.values)
        is_long = np.diff(letters.starts) > SHORT

        def answer(left: Items, right: Items) -> Array:
            a, b, known = where_known(texts.codes, left, right)
            out = np.full(len(a), np.nan)
            out[known & (a == b)] = 1.0
            different = np.flatnonzero(known & (a != b))
            long = is_long[a[different]] | is_long[b[different]]
            for chosen, similarities in ((different[~long], self._short), (different[long], self._long)):
                out[chosen] = similarities(letters, texts.values, a[chosen], b[chosen])
            return as_column(out)

        return answer

    def _short(self, letters: Letters, values: Sequence[str], a: Array, b: Array) -> Array:
        out = np.empty(len(a))
        type(self).KERNEL(*letters, a, b, out)
        return out

    def _long(self, letters: Letters, values: Sequence[str], a: Array, b: Array) -> Array:
        from rapidfuzz import distance, process

        def similarities(p: Array, q: Array) -> Any:
            left, right = ([values[code] for code in codes.tolist()] for codes in (p, q))
            scorer = getattr(distance, self.SCORER).normalized_similarity
            return process.cpdist(left, right, scorer=scorer, dtype=np.float64)

        return distinct_pairs(a, b, similarities)


@dataclass(frozen=True)
class JaroWinkler(_Characters):
    """Jaro-Winkler similarity: made for names of persons, where the first letters are seldom wrong."""

    KERNEL: ClassVar[Callable[..., None]] = staticmethod(jaro_winkler_similarities)
    SCORER: ClassVar[str] = "JaroWinkler"


@dataclass(frozen=True)
class Edit(_Characters):
    """1 - d/n with n the length of the longer string and d the insertions, deletions, changes and swaps of neighbours
    that lead from one to the other (Damerau-Levenshtein, each place edited once)."""

    KERNEL: ClassVar[Callable[..., None]] = staticmethod(edit_similarities)
    SCORER: ClassVar[str] = "OSA"


# -- Comparisons of texts as sets of tokens, numbers or codes, and as vectors of weighted words or characters ---

OVERLAPS = ("jaccard", "containment")
JACCARD, CONTAINMENT, DOT = range(3)
CODE = re.compile(r"\w+(?:[-_]\w+)*")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
THOUSANDS = re.compile(r",(?=\d{3}(?!\d))")


class Bags(NamedTuple):
    """Row r holds the tokens indices[starts[r]:starts[r + 1]], rising, with their weights."""

    starts: Array
    indices: Array
    weights: Array


@njit(nogil=True, cache=True)
def _compare_rows(kind: int, starts: Array, indices: Array, weights: Array, a: Array, b: Array, out: Array) -> None:
    """Walk down two rows of rising tokens: shared / all, shared / smaller, or Σ w_a w_b. NaN: a row is -1 or empty."""
    for i in range(len(a)):
        out[i] = np.nan
        if a[i] < 0 or b[i] < 0:
            continue
        p, last_p, q, last_q = starts[a[i]], starts[a[i] + 1], starts[b[i]], starts[b[i] + 1]
        n_p, n_q = last_p - p, last_q - q
        if n_p == 0 or n_q == 0:
            continue
        shared, dot = 0, 0.0
        while p < last_p and q < last_q:
            x, y = indices[p], indices[q]
            if x == y:
                shared += 1
                dot += weights[p] * weights[q]
            p += x <= y
            q += y <= x
        if kind == JACCARD:
            out[i] = shared / (n_p + n_q - shared)
        elif kind == CONTAINMENT:
            out[i] = shared / min(n_p, n_q)
        else:
            out[i] = min(dot, 1.0)


def _answer(kind: int, codes: Array, bags: Bags) -> Answer:
    def answer(left: Items, right: Items) -> Array:
        out = np.empty(len(left))
        _compare_rows(kind, *bags, codes[left], codes[right], out)
        return as_column(out)

    return answer


def bags_of_tokens(rows: Iterable[Sequence[str]]) -> tuple[Bags, list[str]]:
    """Counts of tokens; and the distinct ones, by number: in order, so that a row has the same sum in any table."""
    from scipy.sparse import csr_array

    listed = list(rows)
    words = sorted(set(chain.from_iterable(listed)))
    numbers = dict(zip(words, range(len(words)), strict=True))
    starts = np.cumsum([0, *map(len, listed)], dtype=np.int64)
    tokens = np.fromiter(map(numbers.__getitem__, chain.from_iterable(listed)), np.int32, int(starts[-1]))
    counts = csr_array((np.ones(len(tokens), np.float32), tokens, starts), shape=(len(listed), len(words)))
    counts.sum_duplicates()
    return Bags(counts.indptr.astype(np.int64), counts.indices.astype(np.int32), counts.data), words


# -- sets ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Overlap(Comparison):
    """How many tokens two texts share, of all ("jaccard") or of the smaller text ("containment")."""

    kind: str = "jaccard"
    SETTINGS: ClassVar[tuple[str, ...]] = ("kind",)
    TOKENS: ClassVar[Callable[[str], Sequence[str]]] = staticmethod(str.split)
    RAW: ClassVar[bool] = False  # whether tokens are found in the text as it is written

    def __post_init__(self) -> None:
        one_of(f"{type(self).__name__}: kind", self.kind, OVERLAPS)
        super().__post_init__()

    def of(self, items: Mentions) -> Answer:
        texts = texts_of(items, self.fields, self.normalise and not self.RAW)
        bags, _ = bags_of_tokens(map(type(self).TOKENS, texts.values))
        return _answer(OVERLAPS.index(self.kind), texts.codes, bags)


@dataclass(frozen=True)
class TokenOverlap(_Overlap):
    """Shared words of all words of the two texts, |A ∩ B| / |A ∪ B|, or of the shorter one, |A ∩ B| / min(|A|, |B|)."""


def codes_in(text: str) -> list[str]:
    """Tokens with a digit, hyphens taken out: "Sony PS-LX350H" -> ["pslx350h"]."""
    tokens = (token.replace("-", "").replace("_", "") for token in CODE.findall(text.lower()))
    return [token for token in tokens if any(map(str.isdigit, token))]


@dataclass(frozen=True)
class SharedCodes(_Overlap):
    """Shared tokens that have a digit in them, such as model numbers; a text without any is missing."""

    kind: str = "containment"
    TOKENS: ClassVar[Callable[[str], Sequence[str]]] = staticmethod(codes_in)
    RAW: ClassVar[bool] = True


def numbers_in(text: str) -> list[str]:
    """The numbers in a text, each written in one way: "1,250.50" -> "1250.5"; 2,5 is read as 2.5."""
    found = (THOUSANDS.sub("", number).replace(",", ".") for number in NUMBER.findall(text))
    # 10.12.1999 has two points: not one number but three
    whole = chain.from_iterable(number.split(".") if number.count(".") > 1 else [number] for number in found)
    return [f"{float(number):.15g}" for number in whole]


@dataclass(frozen=True)
class Numbers(_Overlap):
    """Shared numbers in two texts; a text without any is missing."""

    TOKENS: ClassVar[Callable[[str], Sequence[str]]] = staticmethod(numbers_in)
    RAW: ClassVar[bool] = True


# -- vectors ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TokenCounts:
    """Of n entities with a text, how many have each token that two of them have at least."""

    n: int
    tokens: Sequence[str]
    counts: NDArray[np.int64]


@dataclass(frozen=True, init=False)
class TfidfCosine(Comparison):
    """Σ_t a_t b_t of two texts, where a_t = tf(t) (1 + log((1 + n)/(1 + df(t)))), scaled to length 1.

    field   one, or several whose texts are put together
    ngram   None: t are words; a number: all runs of so many characters, blanks included; a shorter text
            counts as missing

    n is the number of entities in training with a text, df(t) how many of them have t, 1 if none has: rare words count
    for more. All items of a true cluster are one entity, an item whose cluster is not known is one by itself: were
    words counted by item, those of an entity with many items would be common in training, and rare in a new table. A
    comparison that has not learned takes the items at hand.
    """

    ngram: int | None = None
    counted: TokenCounts | None = field(default=None, repr=False, compare=False)
    SETTINGS: ClassVar[tuple[str, ...]] = ("ngram",)

    def __init__(self, field: str | Sequence[str], ngram: int | None = None, *, normalise: bool = True) -> None:
        whole = isinstance(ngram, Integral) and not isinstance(ngram, bool)
        if ngram is not None and not (whole and 1 <= ngram <= 10):
            raise SettingError("ngram", ngram, "from 1 to 10, or None for words", owner="TfidfCosine")
        one = field if isinstance(field, str) else tuple(field)
        if not isinstance(one, str) and not (one and all(isinstance(name, str) and name for name in one)):
            raise SettingError.saying(f"TfidfCosine takes the name of a field or a list of names; got {field!r}")
        joined = one if isinstance(one, str) else one[0] if len(one) == 1 else " + ".join(one)
        object.__setattr__(self, "_fields", (one,) if isinstance(one, str) else one)
        for key, value in (("field", joined), ("ngram", ngram), ("normalise", normalise), ("counted", None)):
            object.__setattr__(self, key, value)
        super().__post_init__()

    @property
    def fields(self) -> tuple[str, ...]:
        return self._fields  # type: ignore[attr-defined,no-any-return]

    def spec(self) -> dict[str, Any]:
        return {**super().spec(), "field": list(self.fields)}

    def of(self, items: Mentions) -> Answer:
        texts, counted = texts_of(items, self.fields, self.normalise), self.counted
        bags, tokens = bags_of_tokens(map(self._tokens, texts.values))
        if counted is None:
            n, frequency = _entities_with(bags, len(tokens), texts.codes, np.arange(items.n_items))
        else:
            known = dict(zip(counted.tokens, counted.counts.tolist(), strict=True))
            n, frequency = counted.n, np.array([known.get(token, 1) for token in tokens], np.int64)
        return _answer(DOT, texts.codes, _weighted(bags, frequency, n))

    def _tokens(self, text: str) -> list[str]:
        if self.ngram is None:
            return text.split()
        padded = f" {text} "
        return [padded[start : start + self.ngram] for start in range(len(padded) - self.ngram + 1)]

    def learn(self, items: Mentions) -> Self:
        texts = texts_of(items, self.fields, self.normalise)
        bags, tokens = bags_of_tokens(map(self._tokens, texts.values))
        entities = np.arange(items.n_items)
        if items.clusters is not None:  # an item whose cluster is not known is an entity by itself
            entities = np.where(items.clusters >= 0, items.clusters, items.clusters.max(initial=-1) + 1 + entities)
        n, frequency = _entities_with(bags, len(tokens), texts.codes, entities)
        often = np.flatnonzero(frequency > 1)  # a token of one entity is as good as one that none has
        return self._knowing(counted=TokenCounts(n, [tokens[k] for k in often.tolist()], frequency[often]))

    def statistics(self) -> Statistics | None:
        known = self.counted
        return None if known is None else Statistics({"n": known.n}, {"counts": known.counts}, {"tokens": known.tokens})

    def with_statistics(self, kept: Statistics) -> Self:
        n, tokens, counts = int(kept.numbers["n"]), kept.strings["tokens"], kept.arrays["counts"]
        finite = len(set(tokens)) == len(tokens) and counts.shape == (len(tokens),) and counts.dtype == np.int64
        if not finite or (self.ngram is not None and any(len(token) != self.ngram for token in tokens)):
            raise ValueError(f"{self.name}: expected distinct tokens with a count each")
        if ((counts < 2) | (counts > n)).any():
            raise ValueError(f"{self.name}: expected counts from 2 to {n}, the number of entities")
        return self._knowing(counted=TokenCounts(n, tokens, counts))


def _entities_with(bags: Bags, n_tokens: int, codes: Array, entities: Array) -> tuple[int, NDArray[np.int64]]:
    """How many entities have a text, and how many have each token in any of theirs."""
    known = codes >= 0
    keys = np.unique(entities[known].astype(np.int64) << 32 | codes[known])  # an entity and one of its texts
    owner, text = keys >> 32, keys & 0xFFFFFFFF
    first, count = bags.starts[text], np.diff(bags.starts)[text]
    tokens = bags.indices[np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())]
    seen = np.unique(np.repeat(owner, count) << 32 | tokens) & 0xFFFFFFFF
    return len(np.unique(owner)), np.bincount(seen, minlength=n_tokens)


def _weighted(bags: Bags, frequency: Array, n: int) -> Bags:
    """tf-idf rows of length 1."""
    starts, indices, counts = bags
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    weights = counts * (1.0 + np.log((1.0 + n) / (1.0 + frequency)))[indices]
    length = np.sqrt(np.bincount(rows, weights**2, minlength=len(starts) - 1))
    return Bags(starts, indices, (weights / length[rows]).astype(np.float32))


# -----------------------------------------------------------------------------------------------------
# How a pair compares with the other candidates of its two items: whether it is the best match of either, or of both.
#
# A similarity of 0.6 means little by itself: it is a match if all other candidates are at 0.1, and none if one is at
# 0.9.

CHUNK = 1 << 18


@dataclass(frozen=True)
class BestOf(PairFeature):
    """How far the value of a comparison lies below the best among the candidates of either item.

    Two columns: the smaller of the two gaps (0: the best match of at least one item) and the larger (0: of both). The
    comparison must give more for what is more alike. Depends on the candidate pairs of the items: block them as in
    training, and ask about a part of a table only with all candidates of its items.
    """

    comparison: PairFeature
    columns: tuple[PairColumn, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.comparison, PairFeature) or len(self.comparison.columns) != 1:
            raise SettingError.saying(
                f"BestOf takes a comparison of one column, such as TfidfCosine('name'); got {self.comparison!r}"
            )
        name = f"best_of({self.comparison.columns[0].name})"
        object.__setattr__(self, "columns", (PairColumn(name), PairColumn(f"{name}, both")))

    def of(self, items: Mentions) -> Answer:
        answer = self.comparison.of(items)
        best = np.full(items.n_items, -np.inf)
        for start in range(0, items.n_pairs, CHUNK):
            part = slice(start, start + CHUNK)
            value = answer(items.left[part], items.right[part])[:, 0]
            for side in (items.left[part], items.right[part]):
                np.fmax.at(best, side, value)  # a missing value is none

        def gaps(left: Items, right: Items) -> NDArray[np.float64]:
            value = answer(left, right)[:, 0]
            below = np.stack([np.minimum(value - best[left], 0.0), np.minimum(value - best[right], 0.0)])
            return np.stack([below.max(axis=0), below.min(axis=0)], axis=1)

        return gaps

    def spec(self) -> dict[str, Any]:
        return {"comparison": "BestOf", "of": self.comparison.spec()}

    def learn(self, items: Mentions) -> Self:
        return type(self)(self.comparison.learn(items))

    def statistics(self) -> Statistics | None:
        return self.comparison.statistics()

    def with_statistics(self, kept: Statistics) -> Self:
        return type(self)(self.comparison.with_statistics(kept))


# -- Comparisons as a set: how they are written, and made again from a model file ----------------------

KINDS: dict[str, type[Comparison]] = {
    kind.__name__: kind
    for kind in (
        Exact, JaroWinkler, Edit, TokenOverlap, TfidfCosine, NumberDifference, DateDifference, SharedCodes, Numbers
    )
}  # fmt: skip
BY_NAME = {written_kind(name): kind for name, kind in KINDS.items()}
WRITTEN = (
    "exact(suburb), jaro_winkler(surname), token_overlap(name, containment), tfidf_cosine(name + description, 3), "
    "number_difference(price, relative), date_difference(born, %d/%m/%Y) or exact(code, raw)"
)
LOOKED_AT = 10_000  # distinct values that tell what a field holds,
CHARACTERS = 5_000_000  # of no more than so many characters in all
LONG = 200  # characters of a value, on average, beyond which it is a text of words: edits cost the square of them


def parse_comparison(text: str) -> PairFeature:
    """KIND(FIELD[, SETTING][, raw]) or KIND:FIELD[:SETTING][:raw]; KIND is a class in small letters, as in the names
    of columns. Several fields of tfidf_cosine are joined by +. best_of(...) stands around another comparison."""
    if inner := re.fullmatch(r"\s*best[_-]of\s*\((.*)\)\s*", text, re.IGNORECASE):
        return BestOf(parse_comparison(inner[1]))
    call = re.fullmatch(r"\s*([\w-]+)\s*\((.*)\)\s*", text)
    name, rest = (call[1], call[2].split(",")) if call else (text.partition(":")[0], text.split(":")[1:])
    kind = BY_NAME.get(name.strip().lower().replace("-", "_"))
    words = [word.strip() for word in rest]
    raw = len(words) > 1 and words[-1] == "raw"
    given, settings = words[:1], words[1:-1] if raw else words[1:]
    if kind is None or not given or not all(given) or len(settings) > len(kind.SETTINGS):
        known = f"; kinds are {', '.join(BY_NAME)}" if kind is None else ""
        raise SettingError.saying(f"cannot read the comparison {text!r}; write it as {WRITTEN}{known}")
    arguments = [_setting(kind, word, text) for word in settings]
    field: Any = [one.strip() for one in given[0].split("+")] if kind is TfidfCosine else given[0]
    return kind(field, *arguments, normalise=not raw)


def _setting(kind: type[Comparison], word: str, text: str) -> Any:
    if kind is TfidfCosine and word.isdecimal():
        return int(word)
    if kind is NumberDifference and word in ("relative", "absolute"):
        return word == "relative"
    if kind in (TfidfCosine, NumberDifference):
        raise SettingError.saying(f"cannot read {word!r} in the comparison {text!r}; write it as {WRITTEN}")
    return word


def as_comparisons(given: Any) -> list[PairFeature]:
    """One comparison or a list of them; a string is read by `parse_comparison`."""
    found: list[PairFeature] = []
    for item in given if isinstance(given, list | tuple) else [given]:
        feature = parse_comparison(item) if isinstance(item, str) else item
        if not isinstance(feature, PairFeature):
            raise SettingError.saying(
                f"a comparison was expected, such as Exact('suburb') or {WRITTEN!r}; got {item!r}"
            )
        names = {column.name for other in found for column in other.columns}
        twice = next((column.name for column in feature.columns if column.name in names), None)
        if twice is not None:
            raise SettingError.saying(f"two comparisons are named {twice!r}; leave one out, or name functions apart")
        found.append(feature)
    if not found:
        raise SettingError.saying("expected at least one comparison, such as Exact('suburb')")
    return found


def rebuilt_comparison(spec: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> PairFeature:
    """What `spec` describes; `functions` are a user's, by name."""
    kind = spec["comparison"]
    if kind == "BestOf":
        return BestOf(rebuilt_comparison(spec["of"], functions))
    if kind == "PairFunction":
        return PairFunction(given_again(spec["name"], functions, "a comparison"), spec["fields"], spec["name"])
    if kind not in KINDS:
        raise ModelFileError(f"the model uses a comparison this version does not know: {kind!r}")
    settings = {name: spec[name] for name in (*KINDS[kind].SETTINGS, "normalise")}
    return KINDS[kind](spec["field"], **settings)


# -- chosen by what the fields hold -------------------------------------------------------------------


def default_comparisons(items: Mentions) -> list[PairFeature]:
    """Comparisons for every field, by what it holds:

    dates                   the same, days apart, typos
    years, quantities       the same, difference, typos
    codes (mostly digits)   the same, typos; shared numbers where there are other signs between them
    up to three words       the same, Jaro-Winkler, typos; shared words where there are several
    longer texts            shared words, tf-idf of words and of characters; typos up to fifteen words
    over 200 characters     no typos, whatever it holds: tf-idf of characters in their place
    texts with numbers      shared numbers; shared codes where letters and digits come together

    and, where several fields hold words, tf-idf over all of them; with two tables also how a pair compares with the
    other candidates of its records. A field with one value alone tells nothing.
    """
    chosen: list[PairFeature] = []
    wordy = []
    for name in items.columns:
        texts = texts_of(items, [name], normalise=False)
        if len(texts.values) < 2:
            continue
        values = _some_of(texts.values)
        numbers = number_column(items, name)[texts.codes >= 0]
        if np.mean(~np.isnan(dates_of(values)[:-1, 0])) >= 0.8:
            chosen += [Exact(name), DateDifference(name), Edit(name)]
        elif np.mean(~np.isnan(numbers)) >= 0.9 and not _is_long(values):
            chosen += _for_numbers(name, values)
        elif _digit_share(values) >= 0.5:
            typos = TfidfCosine(name, 3) if _is_long(values) else Edit(name)
            chosen += [Exact(name), typos, Numbers(name)]
        else:
            wordy.append(name)
            chosen += _for_words(name, values)
    if len(wordy) > 1:
        chosen.append(TfidfCosine(wordy))
    if wordy and items.first_table is not None:  # in two tables a record has few partners, often one
        chosen += [BestOf(TfidfCosine(wordy)), BestOf(TfidfCosine(wordy, 3))]
    if not chosen:
        raise InputError("no field with two different values, so there is nothing to compare records by; add fields")
    return chosen


def _for_numbers(name: str, values: Sequence[str]) -> list[PairFeature]:
    digits = [value.strip() for value in values if value.strip().isdecimal()]
    sizes = np.array([len(value) for value in digits] or [0])
    usual = np.bincount(sizes).argmax()
    fixed = len(digits) >= 0.9 * len(values) and usual >= 4 and np.mean(sizes == usual) >= 0.9
    years = np.mean([len(value) == 4 and "1500" <= value <= "2100" for value in digits] or [False]) >= 0.95
    if fixed and not years:  # post codes, numbers of insurance: how far apart they are means nothing
        return [Exact(name), Edit(name)]
    return [Exact(name), NumberDifference(name, relative=not years), Edit(name)]


def _for_words(name: str, values: Sequence[str]) -> list[PairFeature]:
    words = float(np.mean([len(normalised(value).split()) for value in values]))
    if words <= 3.5 and not _is_long(values):
        chosen: list[PairFeature] = [Exact(name), JaroWinkler(name), Edit(name)]
        chosen += [TokenOverlap(name)] if words > 1.3 else []
    else:
        chosen = [TokenOverlap(name), TokenOverlap(name, "containment"), TfidfCosine(name), TfidfCosine(name, 3)]
        chosen += [Edit(name)] if words <= 15 and not _is_long(values) else []
    if np.mean([bool(numbers_in(value)) for value in values]) >= 0.2:
        chosen.append(Numbers(name))
    if np.mean([any(not code.isdecimal() for code in codes_in(value)) for value in values]) >= 0.2:
        chosen.append(SharedCodes(name))
    return chosen


def _some_of(values: Sequence[str]) -> Sequence[str]:
    sizes = np.cumsum([len(value) for value in values[:LOOKED_AT]])
    return values[: max(2, int(np.searchsorted(sizes, CHARACTERS)))]


def _is_long(values: Sequence[str]) -> bool:
    return bool(np.mean([len(value) for value in values]) > LONG)


def _digit_share(values: Sequence[str]) -> float:
    """Digits among all letters and digits."""
    text = "".join(values)
    return sum(map(str.isdecimal, text)) / max(1, sum(map(str.isalnum, text)))
