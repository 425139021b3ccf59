"""Features of a pair of items: the interface, and the values of fields as they are compared."""

from __future__ import annotations

import copy
import dataclasses
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self
from weakref import ReferenceType, WeakKeyDictionary
from weakref import ref as ref_to

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.core.kernels import njit, slot_of
from kinfolk.errors import InputError, SettingError
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
    notes     what has to be said of how the values of two items are read; by default nothing
    statistics, with_statistics   what it learned, for a model file, None: nothing; and the feature that knows it again
    """

    columns: tuple[PairColumn, ...]

    @abstractmethod
    def of(self, items: Mentions) -> Answer: ...

    @abstractmethod
    def spec(self) -> dict[str, Any]: ...

    def learn(self, items: Mentions) -> Self:
        return self

    def notes(self, items: Mentions, low: int, high: int) -> tuple[str, ...]:
        """What a reader of an explanation of two items has to know of how their values are read."""
        return ()

    def statistics(self) -> Statistics | None:
        return None

    def with_statistics(self, kept: Statistics) -> Self:
        raise ValueError(f"{type(self).__name__} learns no statistics, but the file has some")


def number_column(items: Mentions, field: str) -> NDArray[np.float64]:
    """A column of numbers; strings are read as numbers, and what cannot be read is missing."""
    column = plain_attribute(items, field)
    if not isinstance(column, Column):
        return np.asarray(column, np.float64)
    return np.array([*map(_number, column.values), np.nan])[column.codes]


def attribute(items: Mentions, field: str) -> Any:
    if field not in items.columns:
        there = ", ".join(map(repr, items.columns)) or "none"
        raise InputError(f"no column {field!r} to compare; the items have {there}")
    return items.columns[field]


def plain_attribute(items: Mentions, field: str) -> Any:
    """A column of one value an item."""
    column = attribute(items, field)
    if not isinstance(column, Column) and column.ndim > 1:
        raise InputError(f"the field {field!r} holds vectors, which only cosine({field}) compares")
    return column


def _number(text: str) -> float:
    """1250.5 however it is written: 1,250.50, 1.250,50, 1250,5, $1250.5 or 1250,50 €. A comma alone before three digits
    parts thousands, unless there is nothing to part: 1,250 is 1250, and 0,125 an eighth. NaN for what is no number."""
    digits = text.strip(" \t$€£\xa0")
    whole, comma, rest = digits.rpartition(",")
    parts_thousands = "," in whole or (len(rest) == 3 and whole.strip("+-0") != "")
    is_decimal = comma and "." not in rest and ("." in whole or not parts_thousands)
    try:
        return float(f"{whole.replace('.', '')}.{rest}" if is_decimal else digits.replace(",", ""))
    except ValueError:
        return float("nan")


def entities_of(items: Mentions) -> NDArray[np.int64]:
    """A number an item: the items of a true cluster share it, one whose cluster is not known is an entity by itself."""
    alone = np.arange(items.n_items)
    if items.clusters is None:
        return alone
    return np.where(items.clusters >= 0, items.clusters, items.clusters.max(initial=-1) + 1 + alone)


# -- The values of a field as they are compared: each distinct one once, normalised, and a number an item ---

Array = NDArray[Any]
APOSTROPHES = re.compile("['’`´]")
ASCII = {code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)} | {ord("'"): "", ord("`"): ""}
ACCENTS = re.compile("[\u0300-\u036f]")  # of Latin, Greek and Cyrillic; marks of other scripts are letters


@dataclass(frozen=True)
class Comparison(PairFeature):
    """A number about the values that two items have in a field; NaN where one of them has none.

    normalise   compare texts in lower case, without accents and apostrophes, other punctuation as blanks, and runs of
                blanks as one; a text of nothing but punctuation is then missing. False: as they are written.
    """

    field: str
    normalise: bool = dataclasses.field(default=True, kw_only=True)
    columns: tuple[PairColumn, ...] = dataclasses.field(init=False, repr=False, compare=False)

    SETTINGS: ClassVar[tuple[str, ...]] = ()  # what the class adds, in the order of its arguments

    def __post_init__(self) -> None:
        if not isinstance(self.field, str) or not self.field:
            raise SettingError.saying(f"{type(self).__name__} takes the name of a field; got {self.field!r}")
        one_of(f"{type(self).__name__}: normalise", self.normalise, (True, False))
        object.__setattr__(self, "columns", (PairColumn(self.name),))

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields it looks at."""
        return (self.field,)

    @property
    def name(self) -> str:
        """As `parse_comparison` reads it: jaro_winkler(surname)."""
        given = {name: (getattr(self, name), type(self).__dataclass_fields__[name].default) for name in self.SETTINGS}
        shown = [str(value) for value, default in given.values() if value != default]
        raw = [] if self.normalise else ["raw"]
        return f"{written_kind(type(self).__name__)}({', '.join([' + '.join(self.fields), *shown, *raw])})"

    def _knowing(self, **learned: Any) -> Self:
        """The same comparison with what it learned of the training items."""
        made = copy.copy(self)
        for name, value in learned.items():
            object.__setattr__(made, name, value)
        return made

    def spec(self) -> dict[str, Any]:
        rest = {name: getattr(self, name) for name in (*self.SETTINGS, "normalise")}
        return {"comparison": type(self).__name__, "field": self.field, **rest}


def written_kind(name: str) -> str:
    """JaroWinkler -> jaro_winkler."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def one_of(what: str, value: Any, allowed: Sequence[Any]) -> None:
    if value not in allowed or isinstance(value, bool) not in {isinstance(one, bool) for one in allowed}:
        raise SettingError(what, value, f"one of {', '.join(map(repr, allowed))}")


# -- values -------------------------------------------------------------------------------------------


def normalised(text: str) -> str:
    """Lower case, no accents, words divided by one blank: "O'Neill,  Zoë" -> "oneill zoe"."""
    if text.isascii():
        return " ".join(text.translate(ASCII).split())
    plain = unicodedata.normalize("NFC", ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold())))
    plain = APOSTROPHES.sub("", plain)
    if plain.isascii():
        return " ".join(plain.translate(ASCII).split())
    # vowel signs of Indic scripts, category M, are no word characters to `re`
    return " ".join("".join(c if unicodedata.category(c)[0] in "LNM" else " " for c in plain).split())


@dataclass(frozen=True, eq=False)
class Texts:
    """Item i has the text `values[codes[i]]`, -1 = none. Values of one field are distinct, those of several (`parts`)
    are of different parts."""

    codes: NDArray[np.int32]
    values: Sequence[str]

    @property
    def parts(self) -> Together | None:
        """What the texts of several fields are put together of."""
        return self.values if isinstance(self.values, Together) else None

    def counts(self) -> Array:
        """How many items have each value."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))


class Together(Sequence[str]):
    """Texts put together of those of several fields, one after the other; they are made when they are asked for.

    fields   the texts of each field
    rows     int32 (texts, fields), which of them a text has, -1 = none
    """

    def __init__(self, fields: Sequence[Sequence[str]], rows: NDArray[np.int32]) -> None:
        self.fields, self.rows = fields, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [*Together(self.fields, self.rows[place])]
        row = self.rows[place].tolist()
        return " ".join(texts[code] for texts, code in zip(self.fields, row, strict=True) if code >= 0)

    def __iter__(self) -> Iterator[str]:
        fields = zip(self.fields, self.rows.T, strict=True)
        columns = (map([*texts, ""].__getitem__, codes.tolist()) for texts, codes in fields)
        return (" ".join(filter(None, row)) for row in zip(*columns, strict=True))


def texts_of(items: Mentions, fields: Sequence[str], normalise: bool = True) -> Texts:
    """What the items have in a field, or in several one after the other."""
    if len(fields) == 1:
        return _texts(items, fields[0], normalise)
    columns = [attribute(items, name) for name in fields]
    if not all(isinstance(column, Column) for column in columns):
        return _joined(items, fields, normalise)
    known = _TOGETHER.setdefault(columns[0], {})
    key = (normalise, *map(id, columns))
    if key in known and all(ref() is column for ref, column in zip(known[key][0], columns, strict=True)):
        return known[key][1]
    made = _joined(items, fields, normalise)
    if len(made.values) <= KEPT:
        known[key] = tuple(map(ref_to, columns)), made
    return made


def _joined(items: Mentions, fields: Sequence[str], normalise: bool) -> Texts:
    parts = [_texts(items, name, normalise) for name in fields]
    codes = joint_codes([part.codes for part in parts])
    first = first_items(codes)
    return Texts(codes, Together([part.values for part in parts], np.stack([part.codes[first] for part in parts], 1)))


# Several comparisons look at one field, in training and again in prediction: its texts are kept while the column is.
_KNOWN: WeakKeyDictionary[Column, dict[bool, Texts]] = WeakKeyDictionary()
# Those of several fields, by the first; where there are few, for only long ones take longer to make than to compare.
_TOGETHER: WeakKeyDictionary[Column, dict[Any, tuple[tuple[ReferenceType[Column], ...], Texts]]] = WeakKeyDictionary()
KEPT = 10_000


def _texts(items: Mentions, name: str, normalise: bool) -> Texts:
    column = plain_attribute(items, name)
    if not isinstance(column, Column):
        codes, numbers = number_codes(column)
        return Texts(codes, [f"{value:.15g}" for value in numbers.tolist()])
    known = _KNOWN.setdefault(column, {})
    if normalise not in known:
        clean = normalised if normalise else str.strip
        # a text that stays as it is stays the same object: nearly all do, and their copies would be as large again
        texts = tuple(own if (own := clean(text)) != text else text for text in column.values)
        known[normalise] = _renumbered(column.codes, column.values if texts == column.values else texts)
    return known[normalise]


def _renumbered(codes: Array, texts: Sequence[str]) -> Texts:
    """Numbers of distinct texts, -1 for empty ones, from numbers of texts that may be alike."""
    numbers: dict[str, int] = {}
    new = [numbers.setdefault(text, len(numbers)) if text else -1 for text in texts]
    if len(numbers) == len(texts):  # each is another, so they have their numbers already
        return Texts(codes, texts)
    return Texts(np.array([*new, -1], np.int32)[codes], list(numbers))


def number_codes(values: Array) -> tuple[NDArray[np.int32], Array]:
    """A number an item for its value, -1 = missing; and the distinct values."""
    distinct, codes = np.unique(values, return_inverse=True)  # NaN comes last, once
    known = int(np.count_nonzero(~np.isnan(distinct)))
    return np.where(codes < known, codes, -1).astype(np.int32), distinct[:known]


def joint_codes(parts: Sequence[Array]) -> NDArray[np.int32]:
    """One number for each combination of codes, in order of appearance.

    -1 counts as a code like others: an item that has none in every part gets -1.
    """
    joint = np.asarray(parts[0], np.int32)
    for codes in parts[1:]:
        joint = _number_pairs(joint, np.asarray(codes, np.int32), _empty_slots(len(joint)))
    return joint


def _empty_slots(n: int) -> NDArray[np.int32]:
    return np.full(1 << max(2 * n, 2).bit_length(), -1, np.int32)


@njit(nogil=True, cache=True)
def _number_pairs(a: Array, b: Array, slots: Array) -> Array:
    """Pairs of codes numbered in order of appearance, two of -1 as -1."""
    keys, numbers, n = np.empty(len(a), np.int64), np.empty(len(a), np.int32), 0
    for i in range(len(a)):
        if a[i] < 0 and b[i] < 0:
            numbers[i] = -1
            continue
        key = np.int64(a[i]) << 32 | (np.int64(b[i]) + 1)
        at = slot_of(key, slots, keys)
        if slots[at] < 0:
            slots[at] = n
            keys[n] = key
            n += 1
        numbers[i] = slots[at]
    return numbers


def first_items(codes: Array) -> Array:
    """Of each code from 0 on an item that has it; 0 where none has."""
    first = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    known = np.flatnonzero(codes >= 0)[::-1]
    first[codes[known]] = known
    return first


def as_column(answers: Array) -> Array:
    """float64 (m, 1), as a pair feature answers."""
    return np.asarray(answers, np.float64)[:, None]


def where_known(codes: Array, left: Items, right: Items) -> tuple[Array, Array, Array]:
    """Codes of both sides, and a mask of the pairs where neither is missing."""
    a, b = codes[left], codes[right]
    return a, b, (a >= 0) & (b >= 0)


def distinct_pairs(a: Array, b: Array, compare: Callable[[Array, Array], Any]) -> Array:
    """compare(p, q) for each distinct pair of codes, spread over all pairs."""
    keys, places = np.unique((a.astype(np.int64) << 32) | b, return_inverse=True)
    if not len(keys):
        return np.empty(0)
    return np.asarray(compare(keys >> 32, keys & 0xFFFFFFFF), np.float64)[places]
