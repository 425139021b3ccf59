"""The template language: attributes, offsets, conjunctions, bags, other occurrences.

    word[-1]                   the word to the left
    word.window(-2, 2)         five templates, one an offset
    lower[-1] & lower[0]       both together
    bag(lower, -4, 4)          the words near by, wherever they stand
    elsewhere(lower[1])        what follows *other* occurrences of this capitalised word in the document

A template gives each token zero or more whole-number keys. Within one template a key stands for one
tuple of attribute values: with attribute codes c in 0..r-1 (0 = beyond the sentence), the key of a
conjunction is the mixed-radix number ((c1 * r2) + c2) * r3 + c3 ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.column import Column
from kinfolk.errors import SettingError
from kinfolk.text.corpus import Corpus
from kinfolk.text.view import TokenView

OUTSIDE = "<outside>"  # how a position beyond the sentence is shown in feature names


class Keys(NamedTuple):
    """Keys of all tokens: a table (n, width), -1 = none; or, with `indptr` (n + 1,), runs of any length."""

    keys: NDArray[np.integer]
    indptr: NDArray[np.int64] | None = None


class Template:
    """Gives each token its keys, and names a key for people."""

    def keys(self, view: TokenView) -> Keys:
        raise NotImplementedError

    def describe(self, key: int, view: TokenView) -> str:
        raise NotImplementedError

    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes it reads, whose values are part of the frozen vocabulary."""
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        """A JSON description from which the template is rebuilt."""
        raise NotImplementedError

    def needs(self) -> tuple[str, ...]:
        """Names of the corpus columns it reads."""
        return tuple(name for attribute in self.attributes() for name in attribute.needs())


class Attribute:
    """Something a token has a value of, or lacks: maps a corpus to a Column of strings."""

    def column(self, corpus: Corpus) -> Column:
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        raise NotImplementedError

    def needs(self) -> tuple[str, ...]:
        """Names of the corpus columns it reads."""
        return ("word",)

    __iter__ = None  # __getitem__ alone would make an attribute an endless sequence

    def __getitem__(self, offset: int) -> Conjunction:
        if not isinstance(offset, int):
            raise SettingError(f"{self}[...] takes one offset such as -1; for several use .window(-2, 2)")
        return Conjunction(((self, offset),))

    def window(self, first: int, last: int) -> list[Conjunction]:
        """One template for each offset from `first` to `last`, both included."""
        if first > last:
            raise SettingError(f"{self}.window({first}, {last}) is empty: the first offset comes before the last")
        return [self[offset] for offset in range(first, last + 1)]

    def __and__(self, other: Attribute | Conjunction) -> Conjunction:
        return self[0] & other


@dataclass(frozen=True)
class Conjunction(Template):
    """Attributes at offsets, all together; absent where one of them has no value."""

    terms: tuple[tuple[Attribute, int], ...]

    def __and__(self, other: Attribute | Conjunction) -> Conjunction:
        if not isinstance(other, Attribute | Conjunction):
            return NotImplemented
        right = other[0] if isinstance(other, Attribute) else other
        return Conjunction(self.terms + right.terms)

    def attributes(self) -> tuple[Attribute, ...]:
        return tuple(attribute for attribute, _ in self.terms)

    def keys(self, view: TokenView) -> Keys:
        combined: NDArray[np.int64] | None = None
        room = 1
        for attribute, offset in self.terms:
            room *= view.radix(attribute)
            if room >= 2**62:
                raise SettingError(f"template {self} has more combinations than fit 62 bits: conjoin fewer attributes")
            codes = view.codes(attribute, offset)
            if combined is None:
                combined = codes.astype(np.int64)
            else:
                missing = (combined < 0) | (codes < 0)
                combined = combined * view.radix(attribute) + codes
                combined[missing] = -1
        assert combined is not None
        return Keys(combined[:, None])

    def describe(self, key: int, view: TokenView) -> str:
        parts = []
        for attribute, offset in reversed(self.terms):
            key, code = divmod(key, view.radix(attribute))
            value = OUTSIDE if code == 0 else view.values(attribute)[code - 1]
            parts.append(f"{attribute}[{offset}]={value}")
        return " & ".join(reversed(parts))

    def spec(self) -> dict[str, Any]:
        return {"conjunction": [[attribute.spec(), offset] for attribute, offset in self.terms]}

    def __str__(self) -> str:
        return " & ".join(f"{attribute}[{offset}]" for attribute, offset in self.terms)


@dataclass(frozen=True)
class Bag(Template):
    """The values of an attribute at any of the offsets first..last except 0, each once."""

    attribute: Attribute
    first: int
    last: int

    def attributes(self) -> tuple[Attribute, ...]:
        return (self.attribute,)

    def keys(self, view: TokenView) -> Keys:
        offsets = [o for o in range(self.first, self.last + 1) if o != 0]
        table = np.empty((view.n_tokens, len(offsets)), np.int64)
        for i, offset in enumerate(offsets):
            table[:, i] = view.codes(self.attribute, offset)
        table[table == 0] = -1
        return Keys(table)

    def describe(self, key: int, view: TokenView) -> str:
        return f"{self}={view.values(self.attribute)[key - 1]}"

    def spec(self) -> dict[str, Any]:
        return {"bag": self.attribute.spec(), "first": self.first, "last": self.last}

    def __str__(self) -> str:
        return f"bag({self.attribute}, {self.first}, {self.last})"


@dataclass(frozen=True)
class Elsewhere(Template):
    """A conjunction read at the *other* occurrences of the same capitalised word in the document."""

    inner: Conjunction

    def attributes(self) -> tuple[Attribute, ...]:
        return self.inner.attributes()

    def keys(self, view: TokenView) -> Keys:
        indptr, others = view.other_occurrences
        return Keys(self.inner.keys(view).keys[:, 0][others], indptr)

    def describe(self, key: int, view: TokenView) -> str:
        return f"elsewhere({self.inner.describe(key, view)})"

    def spec(self) -> dict[str, Any]:
        return {"elsewhere": self.inner.spec()}

    def __str__(self) -> str:
        return f"elsewhere({self.inner})"


@dataclass(frozen=True)
class PerToken(Template):
    """A user's function of a sentence and a position; returns any number of strings.

    `function(sentence, position)`: `sentence` is a list of dicts, one a token, column name -> value.
    """

    name: str
    function: Callable[[list[dict[str, str]], int], Iterable[str]]

    def attributes(self) -> tuple[Attribute, ...]:
        return ()

    def keys(self, view: TokenView) -> Keys:
        rows = self._rows(view.corpus)
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        column = Column.from_strings(s for row in rows for s in row)
        return Keys(view.encode(self.name, column).astype(np.int64), indptr)

    def _rows(self, corpus: Corpus) -> list[list[str]]:
        names, bounds = list(corpus.columns), corpus.sentence_starts.tolist()
        values = zip(*(c.strings() for c in corpus.columns.values()), strict=True)
        tokens = [dict(zip(names, token, strict=True)) for token in values]
        rows = []
        for a, b in pairwise(bounds):
            sentence = tokens[a:b]
            rows += [self._checked(self.function(sentence, i)) for i in range(b - a)]  # type: ignore[arg-type]
        return rows

    def _checked(self, answer: Iterable[str]) -> list[str]:
        listed = isinstance(answer, Iterable) and not isinstance(answer, str)
        strings = list(answer) if listed else []
        if not listed or not all(isinstance(s, str) for s in strings):
            raise SettingError(f"feature function {self.name!r} must return a list of strings; got {answer!r}")
        return list(dict.fromkeys(strings))

    def describe(self, key: int, view: TokenView) -> str:
        return f"{self.name}={view.vocabularies[self.name][key - 1]}"

    def spec(self) -> dict[str, Any]:
        return {"per_token": self.name}

    def __str__(self) -> str:
        return self.name


def bag(attribute: Attribute, first: int, last: int) -> Bag:
    """The values of `attribute` from offset `first` to `last`, without their places and without offset 0."""
    if not isinstance(attribute, Attribute):
        raise SettingError(f"bag takes an attribute, as in bag(lower, -4, 4); got {attribute}")
    if first > last or first == last == 0:
        raise SettingError(f"bag({attribute}, {first}, {last}) is empty: give a first and a last offset around 0")
    return Bag(attribute, first, last)


def elsewhere(template: Attribute | Conjunction) -> Elsewhere:
    """Read a template at the other occurrences of this capitalised word in the same document."""
    inner = template[0] if isinstance(template, Attribute) else template
    if not isinstance(inner, Conjunction):
        raise SettingError(f"elsewhere takes an attribute or a conjunction, as in elsewhere(lower[1]); got {inner}")
    return Elsewhere(inner)


def per_token(name: str, function: Callable[[list[dict[str, str]], int], Iterable[str]]) -> PerToken:
    """A user's function of a sentence and a position as a template."""
    return PerToken(name, function)
