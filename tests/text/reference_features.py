"""Feature names the slow way: a dict a token, a loop a template, strings put together.

Templates are plain tuples here, and `build` turns one into kinfolk's own:

    ("at", ((attribute, offset), ...))   a conjunction; a window is several of these
    ("bag", attribute, first, last)
    ("elsewhere", ((attribute, offset), ...))
    ("ngrams", attribute, first, last)

An attribute is a tuple of its kind and arguments: ("lower",), ("prefix", 3), ("column", "pos"), ...
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kinfolk.text import attributes, templates

Token = dict[str, str]
Document = Sequence[Sequence[Token]]
SIMPLE = ("word", "lower", "shape", "short_shape", "capitalised")


def build(template: tuple[Any, ...]) -> Any:
    """The same template in kinfolk's language."""
    if template[0] == "bag":
        return templates.bag(_attribute(template[1]), *template[2:])
    if template[0] == "ngrams":
        return templates.ngrams(_attribute(template[1]), *template[2:])
    first, *others = (_attribute(a)[offset] for a, offset in template[1])
    for other in others:
        first = first & other
    return first if template[0] == "at" else templates.elsewhere(first)


def _attribute(attribute: tuple[Any, ...]) -> Any:
    kind, *arguments = attribute
    if kind in SIMPLE:
        return getattr(attributes, kind)
    return getattr(attributes, kind)(*arguments)


def features(template: tuple[Any, ...], document: Document, sentence: int, at: int) -> set[str]:
    """The names of the features that one template gives one token."""
    words = document[sentence]
    if template[0] == "at":
        return conjunction(template[1], words, at)
    if template[0] == "bag":
        _, attribute, first, last = template
        places = [at + offset for offset in range(first, last + 1) if offset != 0]
        values = {value(attribute, words[i]) for i in places if 0 <= i < len(words)}
        return {f"bag({name(attribute)}, {first}, {last})={v}" for v in values if v is not None}
    if template[0] == "ngrams":
        _, attribute, first, last = template
        text = value(attribute, words[at])
        if text is None:
            return set()
        letters = ["^", *text, "$"]
        runs = {"".join(letters[a:b]) for a in range(len(letters)) for b in range(a + 1, len(letters) + 1)}
        return {f"ngrams({name(attribute)}, {first}, {last})={run}" for run in runs if first <= len(run) <= last}
    own = words[at]["word"]
    if not own[:1].isupper():
        return set()
    found: set[str] = set()
    for s, other in enumerate(document):
        for i, token in enumerate(other):
            if token["word"] == own and (s, i) != (sentence, at):
                found |= {f"elsewhere({f})" for f in conjunction(template[1], other, i)}
    return found


def conjunction(terms: Sequence[tuple[tuple[Any, ...], int]], words: Sequence[Token], at: int) -> set[str]:
    parts = []
    for attribute, offset in terms:
        inside = 0 <= at + offset < len(words)
        found = value(attribute, words[at + offset]) if inside else "<outside>"
        if found is None:
            return set()
        parts.append(f"{name(attribute)}[{offset}]={found}")
    return {" & ".join(parts)}


def name(attribute: tuple[Any, ...]) -> str:
    kind, *arguments = attribute
    if kind == "column":
        return str(arguments[0])
    return f"{kind}({', '.join(map(str, arguments))})" if arguments else kind


def value(attribute: tuple[Any, ...], token: Token) -> str | None:
    """What the attribute says of a token; None for nothing."""
    kind, *arguments = attribute
    text = token["word"]
    if kind == "column":
        return token[arguments[0]]
    if kind == "prefix":
        return text[: arguments[0]] if len(text) >= arguments[0] else None
    if kind == "suffix":
        return text[len(text) - arguments[0] :] if len(text) >= arguments[0] else None
    if kind == "matches":
        return arguments[0] if re.search(arguments[1], text) else None
    if kind == "capitalised":
        return "yes" if text[:1].isupper() else None
    if kind == "short_shape":
        full = [shape_of(c) for c in text]
        return "".join(c for i, c in enumerate(full) if i == 0 or full[i - 1] != c)
    if kind == "shape":
        return "".join(map(shape_of, text))
    return {"word": text, "lower": text.lower()}[kind]


def shape_of(character: str) -> str:
    if character.isdecimal():
        return "d"
    if character.isalpha():
        return "x" if character == character.lower() and not character.istitle() else "X"
    return character
