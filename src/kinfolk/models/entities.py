"""Predicted entities, for people: where, what, and how sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.data import schemes
from kinfolk.data.column import Column
from kinfolk.models.batch import Batch
from kinfolk.models.labels import LabelCoding


@dataclass(frozen=True)
class Entity:
    """A predicted entity: tokens start, ..., end - 1 of one sentence; `confidence` is its exact probability."""

    sentence: int
    start: int
    end: int
    type: str
    confidence: float
    text: str


@dataclass(frozen=True)
class PlacedEntity(Entity):
    """An entity of a corpus with offsets: characters start_char, ..., end_char - 1 of the text of a document.

    Its `text` has blanks only where that text has some ("IL-2", not "IL - 2"), each run of them as one. A class of its
    own, so that entities of words without a text stay as they are, in files of JSON too.
    """

    document: int
    start_char: int
    end_char: int


def found_spans(batch: Batch, coding: LabelCoding, path: NDArray[np.int32]) -> list[schemes.Span]:
    """The entities of a labelling, by token offsets; none when labels are not spans."""
    if coding.inner is None:
        return []
    return schemes.spans(Column(path, coding.classes.names), batch.corpus.sentence_starts, coding.inner)


def entity_list(batch: Batch, found: Sequence[schemes.Span], confidence: NDArray[Any]) -> list[Entity]:
    """Entities with sentence numbers as the caller counts them (sentences without tokens included).

    Where the corpus has offsets, they are PlacedEntity: predictions led back to characters.
    """
    if not found:
        return []
    corpus = batch.corpus
    words = corpus.columns["word"].strings()
    sentence = np.searchsorted(corpus.sentence_starts, [s.start for s in found], side="right") - 1
    offset = corpus.sentence_starts[sentence].tolist()
    given = sentence if batch.filled is None else np.flatnonzero(batch.filled)[sentence]
    entities = [
        Entity(int(i), s.start - o, s.end - o, s.type, float(c), " ".join(map(str, words[s.start : s.end])))
        for i, o, s, c in zip(given, offset, found, confidence, strict=True)
    ]
    if corpus.offsets is None:
        return entities
    document = (np.searchsorted(corpus.document_starts, sentence, side="right") - 1).tolist()
    return [
        _placed(e, d, [str(word) for word in words[s.start : s.end]], corpus.offsets[s.start : s.end].tolist())
        for e, d, s in zip(entities, document, found, strict=True)
    ]


def _placed(entity: Entity, document: int, words: Sequence[str], place: Sequence[Sequence[int]]) -> PlacedEntity:
    """The entity with the characters of its tokens; no blank between words that touch."""
    gaps = ["", *("" if start == end else " " for (_, end), (start, _) in pairwise(place))]
    text = "".join(gap + word for gap, word in zip(gaps, words, strict=True))
    told = {**vars(entity), "text": text}
    return PlacedEntity(**told, document=document, start_char=place[0][0], end_char=place[-1][1])
