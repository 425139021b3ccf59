"""Rules that bring pairs of records together: by keys, sorted neighbourhoods and rare tokens."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np

from kinfolk.errors import SettingError
from kinfolk.linking.candidates import Candidates, Limits, within_blocks, within_windows
from kinfolk.linking.compared import texts_of
from kinfolk.linking.keys import keys_of, parse_key
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.token_comparisons import bags_of_tokens

WRITTEN = "key(surname[:3] + suburb), sorted(surname, 5) or rare(name + description, 50)"


class Blocking(ABC):
    """A rule that brings pairs of items together. `str(rule)` is how `parse_rule` reads it."""

    normalise: bool

    @abstractmethod
    def candidates(self, items: Mentions, limits: Limits) -> Candidates: ...

    @abstractmethod
    def _written(self) -> str: ...

    def __str__(self) -> str:
        return self._written() if self.normalise else f"{self._written()[:-1]}, raw)"


@dataclass(frozen=True)
class Key(Blocking):
    """Items with the same key: a field, or an expression such as "surname[:3] + suburb" (see `key_expressions`).

    normalise   take fields in lower case, without accents and punctuation, as comparisons do
    """

    expression: str
    normalise: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        parse_key(self.expression)

    def candidates(self, items: Mentions, limits: Limits) -> Candidates:
        keys = keys_of(items, self.expression, self.normalise)
        known = np.flatnonzero(keys.codes >= 0)
        return within_blocks(items, keys.codes[known], known, keys.shown, str(self), limits)

    def _written(self) -> str:
        return f"key({self.expression})"


@dataclass(frozen=True)
class SortedNeighbourhood(Blocking):
    """Items less than `window` places apart when sorted by their keys, so that a typo late in a key does no harm.

    Items of the same key are in the order of the data; should there be more of them than the window holds, not all
    come together: add a Key of the same expression.
    """

    expression: str
    window: int = 5
    normalise: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        parse_key(self.expression)
        at_least("SortedNeighbourhood: window", self.window, 2)

    def candidates(self, items: Mentions, limits: Limits) -> Candidates:
        codes = keys_of(items, self.expression, self.normalise).codes
        return within_windows(items, codes, int(self.window))

    def _written(self) -> str:
        return f"sorted({self.expression}, {self.window})"


@dataclass(frozen=True, init=False)
class RareTokens(Blocking):
    """Items that share words few others have.

    fields          one or several; a word is the same in each of them
    max_frequency   words found in more items than this bring nobody together
    min_shared      so many such words must be shared
    """

    fields: tuple[str, ...]
    max_frequency: int
    min_shared: int
    normalise: bool

    def __init__(
        self, fields: str | Sequence[str], max_frequency: int = 50, min_shared: int = 1, *, normalise: bool = True
    ) -> None:
        listed = (fields,) if isinstance(fields, str) else tuple(fields)
        if not listed or not all(isinstance(one, str) and one for one in listed):
            raise SettingError(f"RareTokens takes the name of a field or a list of names; got {fields!r}")
        at_least("RareTokens: max_frequency", max_frequency, 2)
        at_least("RareTokens: min_shared", min_shared, 1)
        given = {"fields": listed, "max_frequency": max_frequency, "min_shared": min_shared, "normalise": normalise}
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def candidates(self, items: Mentions, limits: Limits) -> Candidates:
        texts = texts_of(items, self.fields, self.normalise)
        (starts, tokens, _), words = bags_of_tokens([text.split() for text in texts.values])
        rows = np.repeat(np.arange(len(texts.values)), np.diff(starts))
        frequency = np.bincount(tokens, texts.counts()[rows], minlength=len(words))
        rare = (frequency >= 2) & (frequency <= self.max_frequency)
        kept = rare[tokens]
        tokens, starts = tokens[kept], np.concatenate([[0], np.cumsum(kept)])[starts]
        known = np.flatnonzero(texts.codes >= 0)
        first, count = starts[texts.codes[known]], np.diff(starts)[texts.codes[known]]
        members = np.repeat(known, count)
        codes = tokens[np.repeat(first - np.cumsum(count) + count, count) + np.arange(len(members))]
        found = within_blocks(items, codes, members, words.__getitem__, str(self), limits)
        return replace(found, min_shared=int(self.min_shared))

    def _written(self) -> str:
        shared = "" if self.min_shared == 1 else f", {self.min_shared}"
        return f"rare({' + '.join(self.fields)}, {self.max_frequency}{shared})"


def at_least(what: str, value: Any, least: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise SettingError(f"{what} must be a whole number from {least} on; got {value!r}")


def parse_rule(text: str) -> Blocking:
    """key(EXPRESSION), sorted(EXPRESSION[, WINDOW]) or rare(FIELD + ...[, FREQUENCY[, SHARED]]), each with ", raw"."""
    call = re.fullmatch(r"\s*(\w+)\s*\((.*)\)\s*", text)
    kind, rest = (call[1].lower(), call[2]) if call else ("", "")
    rest, *words = re.split(r",(?=\s*(?:\d+|raw)\s*(?:,|$))", rest)
    settings = [word.strip() for word in words]
    normalise = settings[-1:] != ["raw"]
    numbers = [int(word) for word in settings if word != "raw"]
    most = {"key": 0, "sorted": 1, "rare": 2}
    if len(numbers) > most.get(kind, -1) or len(settings) - len(numbers) != (not normalise):
        raise SettingError(f"cannot read the rule {text!r}; write it as {WRITTEN}")
    if kind == "rare":
        return RareTokens([field.strip() for field in rest.split("+")], *numbers, normalise=normalise)
    if kind == "sorted":
        return SortedNeighbourhood(rest.strip(), *numbers, normalise=normalise)
    return Key(rest.strip(), normalise=normalise)


def as_rules(given: Any) -> list[Blocking]:
    """One rule or a list of them; a string is read by `parse_rule`."""
    rules = []
    for item in given if isinstance(given, list | tuple) else [given]:
        rule = parse_rule(item) if isinstance(item, str) else item
        if not isinstance(rule, Blocking):
            raise SettingError(f"a blocking rule was expected, such as Key('postcode') or {WRITTEN!r}; got {item!r}")
        rules.append(rule)
    if not rules:
        raise SettingError("expected at least one blocking rule, such as Key('postcode')")
    return rules
