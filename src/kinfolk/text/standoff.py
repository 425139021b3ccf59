"""Texts with names marked by characters, made into a corpus with BIO labels and offsets.

Labels can say less than marks do, so some marks are changed or lost, and the log says how many:

    nested       inside another mark, or the same again: the outermost is kept
    blank        holds no token
    divided      begins in one sentence and ends in another: left out, as sentences are labelled one by one
    overlapping  shares a token with a longer mark, or with one as long before it: left out
    widened      begins or ends inside a token: kept, for the whole token
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from kinfolk.core.data import Column
from kinfolk.core.files import about
from kinfolk.errors import InputError
from kinfolk.text.corpus import Corpus, starts_of
from kinfolk.text.schemes import tag
from kinfolk.text.tokenise import Ints, pieces, sentence_spans, token_spans

log = logging.getLogger("kinfolk")


class Mark(NamedTuple):
    """Characters start, ..., end - 1 of a text are a name of this type."""

    start: int
    end: int
    type: str


@dataclass(frozen=True)
class Marked:
    """A document: its text, its names (None: not known), and where its sentences are (None: found in the text)."""

    text: str
    marks: Sequence[Mark] | None
    sentences: Sequence[tuple[int, int]] | Ints | None = None


@dataclass
class MarkCounts:
    """What became of the marks; see the top of this module."""

    marks: int = 0
    nested: int = 0
    blank: int = 0
    divided: int = 0
    overlapping: int = 0
    widened: int = 0

    @property
    def kept(self) -> int:
        return self.marks - self.nested - self.blank - self.divided - self.overlapping

    def __str__(self) -> str:
        changed = [f"{getattr(self, f.name)} {f.name}" for f in fields(self)[1:] if getattr(self, f.name)]
        return f"{self.kept} of {self.marks} names are labelled ({', '.join(changed) or 'none changed'})"


def standoff_corpus(documents: Iterable[Marked], source: str | None = None, tokenise: str = "fine") -> Corpus:
    """A corpus of the documents; says in the log what could not be labelled as it was marked."""
    with about(source):
        corpus, counts = fitted_corpus(documents, source, tokenise)
    if counts.kept < counts.marks or counts.widened:
        log.warning("%s: %s", source or "marked text", counts)
    return corpus


def fitted_corpus(
    documents: Iterable[Marked], source: str | None = None, tokenise: str = "fine"
) -> tuple[Corpus, MarkCounts]:
    """The corpus, and what became of the marks. Offsets count the characters of each document's text."""
    counts, known = MarkCounts(), False
    words: list[str] = []
    labels: list[str | None] = []
    offsets: list[Ints] = [np.empty((0, 2), np.int64)]
    sentence_lengths: list[Ints] = [np.empty(0, np.int64)]
    per_document: list[int] = []
    for number, document in enumerate(documents):
        spans, lengths = _tokens(document, number, tokenise)
        words += pieces(document.text, spans)
        labels += _tags(document, number, spans, lengths, counts)
        offsets.append(spans)
        sentence_lengths.append(lengths)
        per_document.append(len(lengths))
        known |= document.marks is not None
    corpus = Corpus(
        {"word": Column.from_strings(words)},
        starts_of(np.concatenate(sentence_lengths)),
        starts_of(per_document),
        Column.from_strings(labels) if known else None,
        "BIO" if known else None,
        source,
        offsets=np.concatenate(offsets),
    )
    return corpus, counts


def checked_mark(text: str, mark: Mark, said: str | None, name: str | None = None, line: int | None = None) -> Mark:
    """The mark, once it lies in the text and holds what the file says it does, blanks aside."""
    if not 0 <= mark.start < mark.end <= len(text):
        raise InputError(f"expected 0 <= start < end <= {len(text)}; got {mark.start} to {mark.end}", name, line)
    held = text[mark.start : mark.end]
    if said is not None and said.split() != held.split():
        reason = f"characters {mark.start} to {mark.end} are {held!r}, but the file says {said!r}"
        raise InputError(f"{reason}; offsets count characters from 0, the end exclusive", name, line)
    return mark


def _tokens(document: Marked, number: int, tokenise: str) -> tuple[Ints, Ints]:
    """Where the tokens are, and how many each sentence has; sentences without any are dropped."""
    text = document.text
    sentences = sentence_spans(text) if document.sentences is None else document.sentences
    edges = np.asarray(sentences, np.int64).reshape(-1)  # start, end, start, end, ...
    if len(edges) and (edges[0] < 0 or edges[-1] > len(text) or (np.diff(edges) < 0).any()):
        raise InputError(f"document {number}: sentences must follow each other within {len(text)} characters")
    found = [token_spans(text[start:end], tokenise) + start for start, end in edges.reshape(-1, 2).tolist()]
    lengths = np.array([len(spans) for spans in found if len(spans)], np.int64)
    return np.concatenate([np.empty((0, 2), np.int64), *found]), lengths


def _tags(document: Marked, number: int, spans: Ints, lengths: Ints, counts: MarkCounts) -> list[str | None]:
    """The labels of the document's tokens."""
    if document.marks is None:
        return [None] * len(spans)
    for mark in document.marks:
        if not 0 <= mark.start < mark.end <= len(document.text):
            raise InputError(f"document {number}: {mark} is empty or leaves the {len(document.text)} characters")
    starts = starts_of(lengths)
    placed = _placed(_outermost(document.marks, counts), spans, starts, counts)
    counts.widened += sum(bool(spans[a, 0] < mark.start or spans[b - 1, 1] > mark.end) for a, b, mark in placed)
    return tag(((first, last, mark.type) for first, last, mark in placed), starts, "BIO").strings()


def _outermost(marks: Sequence[Mark], counts: MarkCounts) -> list[Mark]:
    """The marks that lie in no other, by where they begin."""
    kept: list[Mark] = []
    reach = -1
    for mark in sorted(marks, key=lambda mark: (mark.start, -mark.end)):  # stable: of equal ones the first
        if mark.end > reach:
            kept.append(mark)
            reach = mark.end
    counts.marks += len(marks)
    counts.nested += len(marks) - len(kept)
    return kept


def _placed(marks: Sequence[Mark], spans: Ints, sentences: Ints, counts: MarkCounts) -> list[tuple[int, int, Mark]]:
    """The marks that can be labelled, each with its first token and the one behind its last."""
    (starts, ends), borders = spans.T.tolist(), sentences.tolist()
    taken: set[int] = set()
    placed = []
    for mark in sorted(marks, key=lambda mark: mark.start - mark.end):  # the longest first
        first, last = bisect_right(ends, mark.start), bisect_left(starts, mark.end)
        if first >= last:
            counts.blank += 1
        elif bisect_right(borders, first) != bisect_right(borders, last - 1):
            counts.divided += 1
        elif not taken.isdisjoint(range(first, last)):
            counts.overlapping += 1
        else:
            taken.update(range(first, last))
            placed.append((first, last, mark))
    return placed
