"""What records are brought together by: a key put together from parts of fields, such as "surname[:3] + suburb".

    key    :=  part ("+" part)*
    part   :=  (field | function "(" part ")") slice*
    field  :=  a name, in quotes if it has blanks or signs in it
    slice  :=  "[" [number] ":" [number] "]", as in Python

Functions are lower, soundex, digits, first and last. A key lacks a value, and its item a block, as soon as one of its
parts is empty. Nothing is evaluated: an expression can only name what is listed here, and what is read is a tree of
fields, functions and slices, which an engine may put in words of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import SettingError
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import first_items, texts_of

Array = NDArray[Any]
WRITTEN = 'postcode, surname[:3] + suburb, soundex(surname) + digits(phone)[-4:] or first("given name")'
QUOTES = """a field with blanks or signs in its name goes in quotes, as in key("street (main)")"""
TOKEN = re.compile(r"""\s*(?:(?P<name>[^\W\d]\w*)|"(?P<double>[^"]+)"|'(?P<single>[^']+)'|(?P<sign>[()+]|\[[^]]*]))""")
SLICE = re.compile(r"\[\s*(-?\d+)?\s*:\s*(-?\d+)?\s*\]")
SOUNDS = {letter: code for code, group in enumerate(("bfpv", "cgjkqsxz", "dt", "l", "mn", "r"), 1) for letter in group}


def soundex(text: str) -> str:
    """The letter and three digits by which American archives file a name: "Robert" and "Rupert" are r163."""
    letters = [c for c in text.lower() if "a" <= c <= "z"]
    if not letters:
        return ""
    coded, before = letters[0], SOUNDS.get(letters[0], 0)
    for letter in letters[1:]:
        if letter in "hw":  # between two consonants they do not count, as vowels do
            continue
        code = SOUNDS.get(letter, 0)
        if code and code != before:
            coded += str(code)
        before = code
    return coded[:4].ljust(4, "0")


def _token(place: int) -> Callable[[str], str]:
    return lambda text: text.split()[place] if text.split() else ""


FUNCTIONS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "soundex": soundex,
    "digits": lambda text: "".join(filter(str.isdecimal, text)),
    "first": _token(0),
    "last": _token(-1),
}


@dataclass(frozen=True)
class Function:
    name: str

    def __call__(self, text: str) -> str:
        return FUNCTIONS[self.name](text)


@dataclass(frozen=True)
class Slice:
    start: int | None
    stop: int | None

    def __call__(self, text: str) -> str:
        return text[self.start : self.stop]


@dataclass(frozen=True)
class Part:
    field: str
    steps: tuple[Function | Slice, ...]  # from the inside out

    def of(self, text: str) -> str:
        for step in self.steps:
            text = step(text)
        return text.strip()


@dataclass(frozen=True, eq=False)
class Keys:
    """A number an item, -1 = no key. Numbers are in the order of the keys, the first part counting most."""

    codes: NDArray[np.int32]
    shown: Callable[[int], str]  # number -> the key in words


def parse_key(text: str) -> list[Part]:
    """The parts of an expression."""
    if not isinstance(text, str):
        raise SettingError.saying(f"a key is written as {WRITTEN}; got {text!r}")
    reader = _Reader(text)
    parts = [reader.part()]
    while reader.take("+"):
        parts.append(reader.part())
    if reader.rest():
        raise reader.fault("'+' or the end")
    return parts


class _Reader:
    """Python's `ast` reads the same but for fields whose names are keywords, such as class and from."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def rest(self) -> str:
        return self._text[self._at :].strip()

    def take(self, sign: str) -> bool:
        found = TOKEN.match(self._text, self._at)
        if found is None or found["sign"] != sign:
            return False
        self._at = found.end()
        return True

    def part(self) -> Part:
        found = TOKEN.match(self._text, self._at)
        if found is None or found["sign"]:
            raise self.fault("a field or a function")
        self._at = found.end()
        if found["name"] and self.take("("):
            if found["name"] not in FUNCTIONS:
                known = ", ".join(FUNCTIONS)
                no_such = f"no function {found['name']!r} in the key {self._text!r}; there are {known}"
                raise SettingError.saying(f"{no_such}; {QUOTES}")
            inner = self.part()
            if not self.take(")"):
                raise self.fault("')'")
            made = Part(inner.field, (*inner.steps, Function(found["name"])))
        else:
            made = Part(found["name"] or found["double"] or found["single"], ())
        while self.rest().startswith("["):
            made = Part(made.field, (*made.steps, self._slice()))
        return made

    def _slice(self) -> Slice:
        found = TOKEN.match(self._text, self._at)
        bounds = SLICE.fullmatch(found["sign"]) if found else None
        if found is None or bounds is None:
            raise self.fault("a slice such as [:3]")
        self._at = found.end()
        return Slice(*(None if bound is None else int(bound) for bound in bounds.groups()))

    def fault(self, wanted: str) -> SettingError:
        got = repr(self.rest()[:20]) if self.rest() else "the end"
        return SettingError.saying(
            f"cannot read the key {self._text!r}: expected {wanted}, got {got}; write it as {WRITTEN}; {QUOTES}"
        )


def keys_of(items: Mentions, expression: str, normalise: bool = True) -> Keys:
    """The key of every item; functions run once a distinct value."""
    parts = []
    joint, size, lacking = np.zeros(items.n_items, np.int64), 1, np.zeros(items.n_items, bool)
    for part in parse_key(expression):
        texts = texts_of(items, [part.field], normalise)
        found = [part.of(text) for text in texts.values]
        ordered = sorted({text for text in found if text})
        number = {text: i for i, text in enumerate(ordered)}
        codes = np.array([*(number.get(text, -1) for text in found), -1], np.int64)[texts.codes]
        lacking |= codes < 0
        if size > (1 << 62) // (len(ordered) + 1):  # numbered anew, so that they stay below the number of items
            joint, size = np.unique(joint, return_inverse=True)[1], items.n_items
        joint, size = joint * (len(ordered) + 1) + codes + 1, size * (len(ordered) + 1)
        parts.append((codes, ordered))
    keys = np.full(items.n_items, -1, np.int32)
    keys[~lacking] = np.unique(joint[~lacking], return_inverse=True)[1]

    def shown(code: int) -> str:
        item = first_items(keys)[code]
        return " + ".join(ordered[numbers[item]] for numbers, ordered in parts)

    return Keys(keys, shown)
