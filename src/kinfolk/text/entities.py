"""Entities, for people: those predicted, where, what, and how sure; and how many of them are right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.column import Column
from kinfolk.errors import InputError
from kinfolk.text import schemes
from kinfolk.text.batch import Batch
from kinfolk.text.corpus import Corpus
from kinfolk.text.labels import LabelCoding
from kinfolk.text.scores import EntityScores, span_scores
from kinfolk.text.tags import TAG


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


def entity_scores(gold: Any, predicted: Any) -> EntityScores:
    """Precision, recall and F1 over whole entities, in percent, as conlleval counts them; `types` has those of each.

    gold, predicted   a list of labels for each sentence, as `predict` gives them, or a Corpus; in any tag scheme, which
                      need not be the same: an entity is what conlleval reads as one, and an unknown label counts as O.
                      Lists of such for each document, as `cross_val_predict` gives them for a Corpus, are taken too. Or
                      entities as (start, end, type), with offsets into the same tokens.
    """
    both = [_told(name, given) for name, given in (("gold", gold), ("predicted", predicted))]
    if any(_is_span(things) for things in both):
        strange = next((one for things in both for one in things if not _is_span([one])), None)
        if strange is not None:
            raise InputError(f"expected entities (start, end, type) on both sides; got {strange!r}")
        return span_scores(*both)
    rows = [_sentences(name, things) for name, things in zip(("gold", "predicted"), both, strict=True)]
    if len(rows[0]) != len(rows[1]):
        raise InputError(f"gold has {len(rows[0])} sentences, predicted has {len(rows[1])}: give the same ones")
    for number, (true, guess) in enumerate(zip(*rows, strict=True)):
        if len(true) != len(guess):
            raise InputError(f"sentence {number} has {len(true)} labels in gold, {len(guess)} in predicted")
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows[0] if len(row)])]).astype(np.int64)
    return span_scores(*(schemes.spans(_tags(row), starts, "BIO") for row in rows))


def _told(name: str, given: Any) -> list[Any]:
    if isinstance(given, Corpus):
        return given.label_rows()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"{name}: expected a list of labels for each sentence, or a Corpus; got {given!r}")
    return list(given)


def _is_span(things: Sequence[Any]) -> bool:
    first = things[0] if things else None
    return isinstance(first, tuple) and len(first) == 3 and isinstance(first[0], Integral)


def _sentences(name: str, things: list[Any]) -> list[Any]:
    """The labels of each sentence; those of documents one after the other."""
    flat = next((one for one in things if isinstance(one, str) or not isinstance(one, Sequence | np.ndarray)), None)
    if flat is not None:
        told = f"{name}: expected a list of labels for each sentence; got {flat!r} in the place of a sentence"
        raise InputError(f"{told}. One sentence is a list of one: [labels]")
    nested = any(isinstance(label, list | np.ndarray) for row in things for label in row)
    return [sentence for document in things for sentence in document] if nested else things


def _tags(rows: list[Any]) -> Column:
    column = Column.from_labels(label for row in rows for label in row)
    strange = next((value for value in column.values if not TAG.fullmatch(value)), None)
    if strange is not None:
        remedy = "labels that are no spans are compared one by one, as by sklearn.metrics.accuracy_score"
        raise InputError(f"label {strange!r} is no entity tag, such as B-PER or O; {remedy}")
    return column
