"""Features for python-crfsuite: lists of strings, sentence by sentence, in plain Python.

Written as a careful user of python-crfsuite would: whatever depends on one word is worked out once a word type,
down to the finished string ("suffix(3)[-1]=ing"); a token only collects ready strings and joins conjunctions.
It follows a plan, a description of kinfolk's templates in plain lists (see `prepare.py`), and imports nothing
of kinfolk, so the process it runs in holds what such a user's process would hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OUTSIDE = "<outside>"

Value = str | None
Function = Callable[[Value], Value]
Sentence = Mapping[str, Sequence[str]]  # column -> one value a token

_RUN = re.compile(r"(.)\1+")


def _shape_of(character: str) -> str:
    if character.isdecimal():
        return "d"
    if not character.isalpha():
        return character
    return "X" if character.isupper() or character.istitle() else "x"


_ASCII_SHAPE = {i: _shape_of(chr(i)) for i in range(128)}


def _shape(value: str) -> str:
    return value.translate(_ASCII_SHAPE) if value.isascii() else "".join(map(_shape_of, value))


# What can be said of one value; None = nothing.
_OF_VALUE: dict[str, Callable[..., Value]] = {
    "lower": lambda v: v.lower(),
    "shape": _shape,
    "short_shape": lambda v: _RUN.sub(r"\1", _shape(v)),
    "prefix": lambda v, n: v[:n] if len(v) >= n else None,
    "suffix": lambda v, n: v[-n:] if len(v) >= n else None,
    "capitalised": lambda v: "yes" if v[:1].isupper() else None,
    "matches": lambda v, name, pattern: name if re.search(pattern, v) else None,
}
_ALWAYS = {"lower", "shape", "short_shape"}  # kinds that have something to say of every value


def _all_caps(words: Sequence[str]) -> list[Value]:
    capital = all(w == w.upper() for w in words) and any(w != w.lower() for w in words)
    return ["yes" if capital else None] * len(words)


def _length(words: Sequence[str]) -> list[Value]:
    n = len(words)
    return [str(n) if n <= 4 else "5-8" if n <= 8 else "9-16" if n <= 16 else "more"] * n


def _run_word(words: Sequence[str], which: str) -> list[Value]:
    """A word at the edge of the run of capitalised words that a token stands in."""
    out: list[Value] = [None] * len(words)
    first = 0
    while first < len(words):
        last = first
        while last + 1 < len(words) and words[last + 1][:1].isupper() == words[first][:1].isupper():
            last += 1
        if words[first][:1].isupper():
            at = {"first": first, "last": last, "before": first - 1, "after": last + 1}[which]
            word = words[at].lower() if 0 <= at < len(words) else OUTSIDE
            out[first : last + 1] = [word] * (last + 1 - first)
        first = last + 1
    return out


# What can be said of the tokens of one sentence.
_OF_SENTENCE: dict[str, Callable[[Sequence[str]], list[Value]]] = {
    "sentence_all_caps": _all_caps,
    "sentence_length": _length,
    "run_first": lambda words: _run_word(words, "first"),
    "run_last": lambda words: _run_word(words, "last"),
    "run_before": lambda words: _run_word(words, "before"),
    "run_after": lambda words: _run_word(words, "after"),
}


class _Table(dict[Value, Any]):
    """value -> what a function makes of it, worked out when first asked for."""

    def __init__(self, function: Callable[[Value], Any]) -> None:
        super().__init__()
        self.function = function

    def __missing__(self, value: Value) -> Any:
        answer = self[value] = self.function(value)
        return answer


@dataclass(frozen=True)
class _Term:
    """An attribute at an offset: where it is read, and how a value becomes a string."""

    column: str
    offset: int
    label: str
    function: Function
    optional: bool

    def text(self, value: Value) -> Value:
        found = self.function(value)
        return None if found is None else self.label + found


@dataclass
class _Shifted:
    """Ready strings of one or several terms that read the same column at the same offset."""

    column: str
    offset: int
    outside: Any
    table: _Table

    def of(self, columns: Mapping[str, Sequence[Value]], n: int) -> list[Any]:
        found = list(map(self.table.__getitem__, columns[self.column]))
        if self.offset < 0:
            return [self.outside] * min(-self.offset, n) + found[: max(0, n + self.offset)]
        if self.offset > 0:
            return found[self.offset :] + [self.outside] * min(self.offset, n)
        return found


@dataclass
class PeerFeatures:
    """`rows(sentence)`: one list of strings a token, for `Trainer.append` and `Tagger.tag`."""

    plan: Sequence[Mapping[str, Any]]
    singles: list[_Shifted] = field(init=False)
    joints: list[tuple[list[_Shifted], bool]] = field(init=False)
    bags: list[tuple[str, int, int, _Table, bool]] = field(init=False)
    computed: set[str] = field(init=False, default_factory=set)  # columns worked out a sentence

    def __post_init__(self) -> None:
        together: dict[tuple[str, int], list[_Term]] = {}
        self.joints, self.bags = [], []
        for template in self.plan:
            terms = [self._term(*term) for term in template["terms"]]
            if "bag" in template:
                first, last = template["bag"]
                self.bags.append((terms[0].column, first, last, _Table(terms[0].text), terms[0].optional))
            elif len(terms) == 1:
                together.setdefault((terms[0].column, terms[0].offset), []).append(terms[0])
            else:
                parts = [_Shifted(t.column, t.offset, t.label + OUTSIDE, _Table(t.text)) for t in terms]
                self.joints.append((parts, any(t.optional for t in terms)))
        self.singles = [_group(column, offset, terms) for (column, offset), terms in together.items()]

    def rows(self, sentence: Sentence) -> list[list[str]]:
        columns: dict[str, Sequence[Value]] = dict(sentence)
        for kind in self.computed:
            columns[kind] = _OF_SENTENCE[kind](sentence["word"])
        n = len(sentence["word"])
        rows: list[list[str]] = [[] for _ in range(n)]
        for single in self.singles:
            for row, texts in zip(rows, single.of(columns, n), strict=True):
                row += texts
        for parts, optional in self.joints:
            for row, texts in zip(rows, zip(*(part.of(columns, n) for part in parts), strict=True), strict=True):
                if not optional or None not in texts:
                    row.append(" & ".join(texts))
        for column, first, last, table, optional in self.bags:
            around = list(map(table.__getitem__, columns[column]))
            for t, row in enumerate(rows):
                row += _window(around, t, first, last, optional)
        return rows

    def _term(self, label: str, spec: Mapping[str, Any], offset: int) -> _Term:
        column, function, optional = _compiled(spec)
        if column in _OF_SENTENCE:
            self.computed.add(column)
        return _Term(column, offset, label, function, optional)


def _group(column: str, offset: int, terms: Sequence[_Term]) -> _Shifted:
    def texts(value: Value) -> tuple[str, ...]:
        return tuple(text for term in terms if (text := term.text(value)) is not None)

    return _Shifted(column, offset, tuple(term.label + OUTSIDE for term in terms), _Table(texts))


def _window(texts: Sequence[Value], t: int, first: int, last: int, optional: bool) -> Iterable[str]:
    """The distinct strings at offsets first..last from t, without t."""
    left = texts[max(0, t + first) : max(0, min(t, t + last + 1))]
    right = texts[max(t + 1, t + first) : max(0, t + last + 1)]
    found = dict.fromkeys([*left, *right])
    if optional:
        found.pop(None, None)
    return found  # type: ignore[return-value]


def _compiled(spec: Mapping[str, Any]) -> tuple[str, Function, bool]:
    """The column an attribute reads, its function of a value there, and whether it may have nothing to say."""
    if "column" in spec:
        return spec["column"], lambda value: value, False
    if spec.get("document") in _OF_SENTENCE:
        return spec["document"], lambda value: value, True
    if spec.get("kind") in _OF_VALUE:
        column, inner, optional = _compiled(spec["of"])
        kind, arguments = _OF_VALUE[spec["kind"]], spec["arguments"]

        def function(value: Value) -> Value:
            found = inner(value)
            return None if found is None else kind(found, *arguments)

        return column, function, optional or spec["kind"] not in _ALWAYS
    raise SystemExit(f"peer_features.py has no counterpart of the attribute {spec}: add one")
