"""Comparisons of two records: of whole values, characters, tokens and vectors; how they are written, and chosen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.core.modelfile import given_again
from kinfolk.errors import InputError, ModelFileError, SettingError
from kinfolk.linking.dates import DateDifference, dates_of
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import (
    Answer,
    Comparison,
    Items,
    PairColumn,
    PairFeature,
    Statistics,
    as_column,
    distinct_pairs,
    first_items,
    joint_codes,
    normalised,
    number_codes,
    number_column,
    one_of,
    plain_attribute,
    texts_of,
    where_known,
    written_kind,
)
from kinfolk.linking.rarity import Rarity
from kinfolk.linking.several import AnyOf, each_value, holds_lists
from kinfolk.linking.strings import Edit, JaroWinkler
from kinfolk.linking.tokens import NUMBER, Numbers, SharedCodes, TfidfCosine, TokenOverlap, codes_in
from kinfolk.linking.vectors import Cosine

# -- Comparisons of whole values: the same or not, numbers apart, and a user's own function ---

Array = NDArray[Any]


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
            with np.errstate(over="ignore"):  # as far apart as can be
                apart = np.abs(x - y)
            if self.relative:
                size = np.maximum(np.abs(x), np.abs(y))
                apart = np.divide(apart, size, out=apart, where=size > 0)
                apart = np.minimum(apart, 2.0)  # numbers of two signs, whose difference may be beyond float64
            return as_column(apart)

        return answer


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
        column = plain_attribute(items, name)
        if isinstance(column, Column):
            parts.append((column.codes, [*column.values, None]))
        else:
            codes, numbers = number_codes(column)
            parts.append((codes, [*numbers.tolist(), None]))
    if len(parts) == 1:
        return parts[0]
    joint = joint_codes([codes for codes, _ in parts])
    return joint, [tuple(values[codes[i]] for codes, values in parts) for i in first_items(joint)]


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
    training, and ask about a part of a table only with all candidates of its items, or with the best values of these
    (`Mentions.bests`). Pairs that are compared beyond the candidates are measured by the candidates.
    """

    comparison: PairFeature
    columns: tuple[PairColumn, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        one = self.comparison.columns if isinstance(self.comparison, PairFeature) else ()
        if len(one) != 1 or one[0].values is not None:
            raise SettingError.saying(
                f"BestOf takes a comparison of one number, such as TfidfCosine('name'); got {self.comparison!r}"
            )
        name = f"best_of({self.comparison.columns[0].name})"
        object.__setattr__(self, "columns", (PairColumn(name), PairColumn(f"{name}, both")))

    def of(self, items: Mentions) -> Answer:
        answer, name = self.comparison.of(items), self.comparison.columns[0].name
        best = items.bests[name] if items.bests and name in items.bests else best_values(answer, items)

        def gaps(left: Items, right: Items) -> NDArray[np.float64]:
            value = answer(left, right)[:, 0]
            below = np.stack([np.minimum(value - best[left], 0.0), np.minimum(value - best[right], 0.0)])
            return np.stack([below.max(axis=0), below.min(axis=0)], axis=1)

        return gaps

    def spec(self) -> dict[str, Any]:
        return {"comparison": "BestOf", "of": self.comparison.spec()}

    def learn(self, items: Mentions) -> Self:
        return type(self)(self.comparison.learn(items))

    def notes(self, items: Mentions, low: int, high: int) -> tuple[str, ...]:
        return self.comparison.notes(items, low, high)

    def statistics(self) -> Statistics | None:
        return self.comparison.statistics()

    def with_statistics(self, kept: Statistics) -> Self:
        return type(self)(self.comparison.with_statistics(kept))


def best_values(answer: Answer, items: Mentions) -> NDArray[np.float64]:
    """The best value among the pairs of each item; -inf where none is known."""
    best = np.full(items.n_items, -np.inf)
    for start in range(0, items.n_pairs, CHUNK):
        part = slice(start, start + CHUNK)
        value = answer(items.left[part], items.right[part])[:, 0]
        for side in (items.left[part], items.right[part]):
            np.fmax.at(best, side, value)  # a missing value is none
    return best


def within_best_of(features: Iterable[PairFeature]) -> dict[str, PairFeature]:
    """The comparisons within `BestOf`, by the names of their columns."""
    return {one.comparison.columns[0].name: one.comparison for one in features if isinstance(one, BestOf)}


def with_bests(items: Mentions, features: Iterable[PairFeature]) -> Mentions:
    """The items, whose pairs are all candidates, as they are before pairs are added or left out."""
    if items.bests is not None:
        return items
    found = {name: best_values(one.of(items), items) for name, one in within_best_of(features).items()}
    return replace(items, bests=found) if found else items


# -- Comparisons as a set: how they are written, and made again from a model file ----------------------

KINDS: dict[str, type[Comparison]] = {
    kind.__name__: kind
    for kind in (
        Exact, Rarity, JaroWinkler, Edit, TokenOverlap, TfidfCosine, NumberDifference, DateDifference, SharedCodes,
        Numbers, Cosine,
    )
}  # fmt: skip
BY_NAME = {written_kind(name): kind for name, kind in KINDS.items()}
WRITTEN = (
    "exact(suburb), rarity(surname), jaro_winkler(surname), token_overlap(name, containment), "
    "tfidf_cosine(name + description, 3), number_difference(price, relative), "
    "date_difference(born, %d/%m/%Y), cosine(embedding), any_of(exact(phone), ;) or exact(code, raw)"
)
LOOKED_AT = 10_000  # distinct values that show what a field holds,
CHARACTERS = 5_000_000  # of no more than so many characters in all
SHOWING = 10_000  # characters of a value that show how many digits and codes it has
LONG = 200  # characters of a value, on average, beyond which it is a text of words: edits cost the square of them


def parse_comparison(text: str) -> PairFeature:
    """KIND(FIELD[, SETTING][, raw]) or KIND:FIELD[:SETTING][:raw]; KIND is a class in small letters, as in the names
    of columns. Several fields of tfidf_cosine are joined by +. best_of(...) and any_of(...[, SEPARATOR]) stand around
    another comparison."""
    if inner := re.fullmatch(r"\s*best[_-]of\s*\((.*)\)\s*", text, re.IGNORECASE):
        return BestOf(parse_comparison(inner[1]))
    if inner := re.fullmatch(r"\s*any[_-]of\s*\((.*?\))\s*(?:,\s*(\S+)\s*)?\)\s*", text, re.IGNORECASE):
        return AnyOf(parse_comparison(inner[1]), inner[2])  # type: ignore[arg-type]
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
    if kind == "AnyOf":
        return AnyOf(rebuilt_comparison(spec["of"], functions), spec["separator"])  # type: ignore[arg-type]
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
    up to three words       the same, Jaro-Winkler, typos; shared words, of all and of the shorter, if there are several
    longer texts            shared words, tf-idf of words and of characters; typos up to fifteen words
    over 200 characters     no typos, whatever it holds: tf-idf of characters in their place
    texts with numbers      shared numbers; shared codes where letters and digits come together
    lists of texts          the best of these over the values of both
    vectors                 their cosine

    and, where several fields hold words, tf-idf over all of them; with two tables, and where true clusters have two
    records at most, also how a pair compares with the other candidates of its records. A field with one value alone is
    left out.
    """
    chosen: list[PairFeature] = []
    wordy = []
    for name, column in items.columns.items():
        if not isinstance(column, Column) and column.ndim > 1:
            chosen.append(Cosine(name))
        elif holds_lists(items, name):
            chosen += [AnyOf(one) for one in _for_field(name, each_value(items, name))[0]]
        else:
            own, of_words = _for_field(name, items)
            chosen += own
            wordy += [name] * of_words
    if len(wordy) > 1:
        chosen.append(TfidfCosine(wordy))
    if wordy and (items.first_table is not None or items.in_pairs):  # then a record has few partners, often one
        chosen += [BestOf(TfidfCosine(wordy)), BestOf(TfidfCosine(wordy, 3))]
    if not chosen:
        raise InputError("no field with two different values, so there is nothing to compare records by; add fields")
    return chosen


def _for_field(name: str, items: Mentions) -> tuple[list[Comparison], bool]:
    """What suits a field, and whether it holds words."""
    texts = texts_of(items, [name], normalise=False)
    if len(texts.values) < 2:
        return [], False
    values = _some_of(texts.values)
    numbers = number_column(items, name)[texts.codes >= 0]
    if np.mean(~np.isnan(dates_of(values)[:-1, 0])) >= 0.8:
        return [Exact(name), DateDifference(name), Edit(name)], False
    if np.mean(~np.isnan(numbers)) >= 0.9 and not _is_long(values):
        return _for_numbers(name, values), False
    if _digit_share(values) >= 0.5:
        typos = TfidfCosine(name, 3) if _is_long(values) else Edit(name)
        return [Exact(name), typos, Numbers(name)], False
    return _for_words(name, values), True


def _for_numbers(name: str, values: Sequence[str]) -> list[Comparison]:
    digits = [value.strip() for value in values if value.strip().isdecimal()]
    sizes = np.array([len(value) for value in digits] or [0])
    usual = np.bincount(sizes).argmax()
    fixed = len(digits) >= 0.9 * len(values) and usual >= 4 and np.mean(sizes == usual) >= 0.9
    years = np.mean([len(value) == 4 and "1500" <= value <= "2100" for value in digits] or [False]) >= 0.95
    if fixed and not years:  # post codes, numbers of insurance: how far apart they are means nothing
        return [Exact(name), Edit(name)]
    return [Exact(name), NumberDifference(name, relative=not years), Edit(name)]


def _for_words(name: str, values: Sequence[str]) -> list[Comparison]:
    long = _is_long(values)
    words = np.inf if long else float(np.mean([len(normalised(value).split()) for value in values]))
    if words <= 3.5:
        chosen: list[Comparison] = [Exact(name), JaroWinkler(name), Edit(name)]
        chosen += [TokenOverlap(name), TokenOverlap(name, "containment")] if words > 1.3 else []
    else:
        chosen = [TokenOverlap(name), TokenOverlap(name, "containment"), TfidfCosine(name), TfidfCosine(name, 3)]
        chosen += [Edit(name)] if words <= 15 else []
    if np.mean([NUMBER.search(value) is not None for value in values]) >= 0.2:
        chosen.append(Numbers(name))
    if np.mean([any(not code.isdecimal() for code in codes_in(value[:SHOWING])) for value in values]) >= 0.2:
        chosen.append(SharedCodes(name))
    return chosen


def _some_of(values: Sequence[str]) -> Sequence[str]:
    sizes = np.cumsum([len(value) for value in values[:LOOKED_AT]])
    return values[: max(2, int(np.searchsorted(sizes, CHARACTERS)))]


def _is_long(values: Sequence[str]) -> bool:
    return bool(np.mean([len(value) for value in values]) > LONG)


def _digit_share(values: Sequence[str]) -> float:
    """Digits among all letters and digits."""
    text = "".join(value[:SHOWING] for value in values)
    return sum(map(str.isdecimal, text)) / max(1, sum(map(str.isalnum, text)))
