"""Comparisons as a set: how they are written, made again from a model file, and chosen for fields nobody spoke of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kinfolk.errors import InputError, ModelFileError, SettingError
from kinfolk.linking.best_of import BestOf
from kinfolk.linking.compared import Comparison, normalised, texts_of, written_kind
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import PairFeature, number_column
from kinfolk.linking.text_comparisons import Edit, JaroWinkler
from kinfolk.linking.token_comparisons import Numbers, SharedCodes, TfidfCosine, TokenOverlap, codes_in, numbers_in
from kinfolk.linking.value_comparisons import DateDifference, Exact, NumberDifference, PairFunction, dates_of
from kinfolk.text.skip_edges import given_again

__all__ = [
    "BestOf",
    "DateDifference",
    "Edit",
    "Exact",
    "JaroWinkler",
    "NumberDifference",
    "Numbers",
    "PairFunction",
    "SharedCodes",
    "TfidfCosine",
    "TokenOverlap",
    "as_comparisons",
    "default_comparisons",
    "parse_comparison",
    "rebuilt_comparison",
]

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
        raise SettingError(f"cannot read the comparison {text!r}; write it as {WRITTEN}{known}")
    arguments = [_setting(kind, word, text) for word in settings]
    field: Any = [one.strip() for one in given[0].split("+")] if kind is TfidfCosine else given[0]
    return kind(field, *arguments, normalise=not raw)


def _setting(kind: type[Comparison], word: str, text: str) -> Any:
    if kind is TfidfCosine and word.isdecimal():
        return int(word)
    if kind is NumberDifference and word in ("relative", "absolute"):
        return word == "relative"
    if kind in (TfidfCosine, NumberDifference):
        raise SettingError(f"cannot read {word!r} in the comparison {text!r}; write it as {WRITTEN}")
    return word


def as_comparisons(given: Any) -> list[PairFeature]:
    """One comparison or a list of them; a string is read by `parse_comparison`."""
    found: list[PairFeature] = []
    for item in given if isinstance(given, list | tuple) else [given]:
        feature = parse_comparison(item) if isinstance(item, str) else item
        if not isinstance(feature, PairFeature):
            raise SettingError(f"a comparison was expected, such as Exact('suburb') or {WRITTEN!r}; got {item!r}")
        names = {column.name for other in found for column in other.columns}
        twice = next((column.name for column in feature.columns if column.name in names), None)
        if twice is not None:
            raise SettingError(f"two comparisons are named {twice!r}; leave one out, or name functions apart")
        found.append(feature)
    if not found:
        raise SettingError("expected at least one comparison, such as Exact('suburb')")
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
    told = "".join(values)
    return sum(map(str.isdecimal, told)) / max(1, sum(map(str.isalnum, told)))
