"""Predicted entities, for people: where, what, and how sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.data import schemes
from kinfolk.data.corpus import Column
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


def found_spans(batch: Batch, coding: LabelCoding, path: NDArray[np.int32]) -> list[schemes.Span]:
    """The entities of a labelling, by token offsets; none when labels are not spans."""
    if coding.inner is None:
        return []
    return schemes.spans(Column(path, coding.classes.names), batch.corpus.sentence_starts, coding.inner)


def entity_list(batch: Batch, found: Sequence[schemes.Span], confidence: NDArray[Any]) -> list[Entity]:
    """Entities with sentence numbers as the caller counts them (sentences without tokens included)."""
    if not found:
        return []
    words = batch.corpus.columns["word"].strings()
    sentence = np.searchsorted(batch.corpus.sentence_starts, [s.start for s in found], side="right") - 1
    offset = batch.corpus.sentence_starts[sentence].tolist()
    given = sentence if batch.filled is None else np.flatnonzero(batch.filled)[sentence]
    return [
        Entity(int(i), s.start - o, s.end - o, s.type, float(c), " ".join(map(str, words[s.start : s.end])))
        for i, o, s, c in zip(given, offset, found, confidence, strict=True)
    ]
