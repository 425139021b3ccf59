"""Gazetteers: lists of known names as an attribute of tokens.

The longest entry that starts at a token wins; its tokens say B, I, ... or S for an entry of one word.
Entries are kept in the model file, so tagging needs the list no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kinfolk.core.column import Column
from kinfolk.errors import InputError
from kinfolk.text.corpus import Corpus
from kinfolk.text.templates import Attribute


@dataclass(frozen=True)
class Gazetteer(Attribute):
    """Tokens inside an entry of the list, by place in the entry."""

    name: str
    entries: frozenset[str]
    ignore_case: bool = False

    def column(self, corpus: Corpus) -> Column:
        fold = str.lower if self.ignore_case else str
        phrases = {tuple(fold(entry).split(" ")) for entry in self.entries}
        longest = max(map(len, phrases), default=0)
        opening = {phrase[0] for phrase in phrases}
        marks: list[str | None] = []
        for sentence in corpus.rows():
            words = [fold(w) for w in sentence]
            at = 0
            while at < len(words):
                size = _longest_match(words, at, phrases, longest) if words[at] in opening else 0
                marks += _marks(size) if size else [None]
                at += max(size, 1)
        return Column.from_strings(marks)

    def spec(self) -> dict[str, Any]:
        return {"gazetteer": self.name, "ignore_case": self.ignore_case}

    def __str__(self) -> str:
        return f"gazetteer({self.name})"


def _longest_match(words: list[str], at: int, phrases: set[tuple[str, ...]], longest: int) -> int:
    for size in range(min(longest, len(words) - at), 0, -1):
        if tuple(words[at : at + size]) in phrases:
            return size
    return 0


def _marks(size: int) -> list[str | None]:
    return ["S"] if size == 1 else ["B", *["I"] * (size - 2), "E"]


def gazetteer(name: str, entries: Iterable[str], ignore_case: bool = False) -> Gazetteer:
    """An attribute from a list of names, each of one or more words separated by blanks."""
    if isinstance(entries, str):
        raise InputError("gazetteer takes a list of names; to read a file use kinfolk.read_gazetteer")
    kept = frozenset(" ".join(entry.split()) for entry in entries)
    return Gazetteer(name, kept - {""}, ignore_case)
