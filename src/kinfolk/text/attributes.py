"""Attributes: what can be said of one token, as a column of strings.

An attribute of a word (lower case, shape, affix) is worked out once a word type and spread to the
tokens by indexing. `word[-1]` is the attribute one token to the left; `word[-1] & word` conjoins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinfolk.core.column import Column
from kinfolk.errors import InputError, SettingError
from kinfolk.text.corpus import Corpus
from kinfolk.text.templates import Attribute

Values = Sequence[str]
MaybeValues = Sequence[str | None]


@dataclass(frozen=True)
class Raw(Attribute):
    """A column as read from the file: `word`, `pos`, `chunk`, ..."""

    name: str

    def column(self, corpus: Corpus) -> Column:
        if self.name not in corpus.columns:
            raise InputError(
                f"a feature template reads column {self.name!r}, which the corpus does not have "
                f"(it has: {', '.join(corpus.columns)}). Name the columns when reading, or choose other templates."
            )
        return corpus.columns[self.name]

    def spec(self) -> dict[str, Any]:
        return {"column": self.name}

    def needs(self) -> tuple[str, ...]:
        return (self.name,)

    def __str__(self) -> str:
        return self.name


def _shape(values: Values) -> list[str]:
    """Letters to X, x, digits to d, the rest as it is: `McCall-9` is `XxXxxx-d`."""
    return [v.translate(_ASCII_SHAPE) if v.isascii() else "".join(map(_shape_of, v)) for v in values]


def _shape_of(character: str) -> str:
    if character.isdecimal():
        return "d"
    if not character.isalpha():
        return character
    return "X" if character.isupper() or character.istitle() else "x"


def _short_shape(values: Values) -> list[str]:
    """The shape with runs folded: `McCall-9` is `XxXx-d`."""
    shapes = _shape(values)
    folded = {shape: _RUN.sub(r"\1", shape) for shape in set(shapes)}
    return [folded[shape] for shape in shapes]


_ASCII_SHAPE = {i: _shape_of(chr(i)) for i in range(128)}
_RUN = re.compile(r"(.)\1+")

# kind -> function from all distinct values to what is said of them; None = nothing to say.
_KINDS: dict[str, Callable[..., MaybeValues]] = {
    "lower": lambda values: [v.lower() for v in values],
    "shape": _shape,
    "short_shape": _short_shape,
    "prefix": lambda values, n: [v[:n] if len(v) >= n else None for v in values],
    "suffix": lambda values, n: [v[-n:] if len(v) >= n else None for v in values],
    "capitalised": lambda values: ["yes" if v[:1].isupper() else None for v in values],
    "matches": lambda values, name, pattern: _matching(values, name, pattern),
}


def _matching(values: Values, name: str, pattern: str) -> MaybeValues:
    fits = re.compile(pattern).search
    return [name if fits(v) else None for v in values]


@dataclass(frozen=True)
class Derived(Attribute):
    """A built-in function of the value of another attribute, once for each distinct value."""

    kind: str
    arguments: tuple[Any, ...] = ()
    of: Attribute = Raw("word")

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise SettingError(f"unknown attribute {self.kind!r}; known: {', '.join(sorted(_KINDS))}")

    def column(self, corpus: Corpus) -> Column:
        return _mapped(self.of.column(corpus), lambda values: _KINDS[self.kind](values, *self.arguments))

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "arguments": list(self.arguments), "of": self.of.spec()}

    def needs(self) -> tuple[str, ...]:
        return self.of.needs()

    def __str__(self) -> str:
        shown = [*map(str, self.arguments), *([] if self.of == word else [str(self.of)])]
        return f"{self.kind}({', '.join(shown)})" if shown else self.kind


@dataclass(frozen=True)
class PerWord(Attribute):
    """A user's function of one word: returns a string, or None for nothing to say.

    Called once a distinct word. The model file keeps the name; the function is passed in again on load.
    """

    name: str
    function: Callable[[str], str | None]

    def column(self, corpus: Corpus) -> Column:
        return _mapped(corpus.columns["word"], lambda values: [self._call(v) for v in values])

    def _call(self, value: str) -> str | None:
        answer = self.function(value)
        if answer is not None and not isinstance(answer, str):
            raise SettingError(
                f"feature function {self.name!r} must return a string or None; for {value!r} it returned {answer!r}"
            )
        return answer

    def spec(self) -> dict[str, Any]:
        return {"function": self.name}

    def __str__(self) -> str:
        return self.name


def _mapped(column: Column, function: Callable[[Values], MaybeValues]) -> Column:
    """Apply a function of all distinct values and renumber: tokens follow by indexing."""
    types = Column.from_strings(function(column.values))
    return Column(np.append(types.codes, -1)[column.codes], types.values)  # the last is where code -1 points


def column(name: str) -> Raw:
    """The column `name` of the corpus, as an attribute."""
    return Raw(name)


def prefix(length: int, of: Attribute | None = None) -> Derived:
    """The first `length` characters; nothing for a shorter word."""
    return Derived("prefix", (_checked_length(length),), of or word)


def suffix(length: int, of: Attribute | None = None) -> Derived:
    """The last `length` characters; nothing for a shorter word."""
    return Derived("suffix", (_checked_length(length),), of or word)


def _checked_length(length: int) -> int:
    if not isinstance(length, int) or length < 1:
        raise SettingError(f"the length of a prefix or suffix must be a whole number of 1 or more; got {length!r}")
    return length


def matches(name: str, pattern: str, of: Attribute | None = None) -> Derived:
    """Present (with value `name`) where the regular expression is found in the word."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise SettingError(f"matches({name!r}, ...): not a regular expression: {error}") from None
    return Derived("matches", (name, pattern), of or word)


def per_word(name: str, function: Callable[[str], str | None]) -> PerWord:
    """A user's function of a word as an attribute, called once a distinct word."""
    return PerWord(name, function)


word, pos, chunk = Raw("word"), Raw("pos"), Raw("chunk")
lower, shape, short_shape = Derived("lower"), Derived("shape"), Derived("short_shape")
capitalised = Derived("capitalised")
