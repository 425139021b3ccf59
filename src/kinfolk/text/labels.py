"""Labels in and out: the scheme of the data, the scheme the model works in, and the classes.

A model may work in another tag scheme than its data: files in IOB1 are trained as BIO, and predictions come
back in IOB1. Labels that are not spans (parts of speech) pass through as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.column import Column
from kinfolk.core.labels import Classes
from kinfolk.errors import InputError, SettingError
from kinfolk.text import schemes
from kinfolk.text.corpus import Corpus

log = logging.getLogger("kinfolk")
T = TypeVar("T", bound=Any)


def check_encoding(encoding: Any) -> None:
    if encoding != "auto" and encoding not in schemes.SCHEMES:
        raise SettingError(f"encoding must be 'auto' or one of {', '.join(schemes.SCHEMES)}; got {encoding!r}")


@dataclass(frozen=True)
class LabelCoding:
    """outer: scheme of the data and of predictions; inner: scheme of the classes (None: not spans)."""

    outer: str | None
    inner: str | None
    classes: Classes

    @classmethod
    def learn(cls, corpus: Corpus, encoding: str) -> LabelCoding:
        """From a training corpus; `encoding` is a scheme, or "auto": the data's own, BIO for IOB1 without gaps."""
        check_encoding(encoding)
        if corpus.labels is None or not (corpus.labels.codes >= 0).any():
            raise InputError("training needs labels, and this corpus has none", corpus.source)
        outer = corpus.scheme
        inner = outer if outer is None or encoding == "auto" else encoding
        if outer == "IOB1" and encoding == "auto" and (corpus.labels.codes >= 0).all():
            inner = "BIO"
        labels = _inner_labels(corpus, outer, inner)
        used = np.unique(labels.codes[labels.codes >= 0])
        names = _completed([labels.values[c] for c in used], inner)
        return cls(outer, inner, Classes.sorted(names, labels.type))

    def encode(self, corpus: Corpus, repair: bool = True) -> NDArray[np.int32]:
        """Class numbers (n,), -1 where the label is unknown. A label training never saw is an error.

        Tags that break their scheme are repaired, unless they are to be taken at their word.
        """
        labels = self._labels(corpus, repair)
        codes = self._numbers(labels)
        unseen = np.flatnonzero((codes < 0) & (labels.codes >= 0))
        if len(unseen):
            token = int(unseen[0])
            raise InputError(
                f"label {labels.values[labels.codes[token]]!r} was never seen in training; "
                f"the model knows {', '.join(self.classes.names)}. Train with it, or take it out of the file.",
                corpus.source, None if corpus.lines is None else int(corpus.lines[token]),
            )  # fmt: skip
        return codes

    def known(self, corpus: Corpus) -> NDArray[np.int32]:
        """Class numbers (n,), -1 where the label is unknown or training never saw it."""
        return self._numbers(self._labels(corpus, True))

    def gold(self, corpus: Corpus, tell: bool = False) -> Column:
        """Labels to compare predictions with: the classes first, then labels training never saw, which no prediction
        can be: they count as misses, which is told where asked for."""
        if corpus.labels is None or not (corpus.labels.codes >= 0).any():
            raise InputError("scoring needs labels, and there are none", corpus.source)
        labels = self._labels(corpus, True)
        codes, n = self._numbers(labels), len(self.classes)
        strange = np.unique(labels.codes[(codes < 0) & (labels.codes >= 0)])
        unseen = tuple(labels.values[i] for i in strange)
        if tell:
            tell_unseen(unseen)
        number = np.full(len(labels.values) + 1, -1, np.int32)
        number[strange] = np.arange(n, n + len(strange))
        return Column(np.where(codes < 0, number[labels.codes], codes), (*self.classes.names, *unseen))

    def _labels(self, corpus: Corpus, repair: bool) -> Column:
        """In the scheme of the model."""
        if corpus.labels is None:
            return Column(np.full(corpus.n_tokens, -1, np.int32), ())
        if corpus.scheme is None and self.inner is not None and (corpus.labels.codes >= 0).any():
            raise InputError(
                f"the labels are no entity tags, but the model was trained on {self.outer} tags; "
                "read the file with scheme='auto'", corpus.source,
            )  # fmt: skip
        as_they_are = not repair and corpus.scheme == self.inner
        return corpus.labels if as_they_are else _inner_labels(corpus, corpus.scheme, self.inner)

    def _numbers(self, labels: Column) -> NDArray[np.int32]:
        """Class numbers (n,), -1 where there is none."""
        return np.append(self.classes.encode(labels.values), np.int32(-1))[labels.codes]

    def as_written(self, answer: T) -> T:
        """An explanation, made with names, with labels of the type they were trained in."""
        if self.classes.type == "str":
            return answer
        label = self.classes[self.classes.get(answer.label)]
        return replace(answer, label=label, classes=self.classes.labels)  # type: ignore[type-var]

    def decode(self, codes: NDArray[np.integer], sentence_starts: NDArray[np.int64]) -> Column:
        """Labels as the data writes them."""
        column = Column(np.asarray(codes, np.int32), self.classes.names, self.classes.type)
        if self.inner is None or self.outer is None or self.inner == self.outer:
            return column
        return schemes.convert(column, sentence_starts, self.inner, self.outer)


def tell_unseen(names: Sequence[str]) -> None:
    if names:
        log.warning("labels that training never saw count as misses: %s", ", ".join(map(repr, names)))


def _inner_labels(corpus: Corpus, outer: str | None, inner: str | None) -> Column:
    """The labels in the scheme of the model, repaired where they break their own scheme.

    Partly labelled sentences cannot change their scheme: a gap hides whether an entity goes on.
    """
    assert corpus.labels is not None
    if inner is None or outer is None:
        return corpus.labels
    if outer == inner or (corpus.labels.codes >= 0).all():
        return schemes.convert(corpus.labels, corpus.sentence_starts, outer, inner)
    gap = int(corpus.labels.codes.argmin())
    raise InputError(
        f"a token has no label, and labels with gaps cannot be rewritten from {outer} to {inner}. "
        f"Set encoding={outer!r}, or write the file in {inner}.",
        corpus.source, None if corpus.lines is None else int(corpus.lines[gap]),
    )  # fmt: skip


def _completed(classes: list[str], scheme: str | None) -> set[str]:
    """The classes with every letter of each type: a type seen only as single tokens may yet be long."""
    if scheme is None:
        return set(classes)
    letters = schemes.LETTERS[scheme]
    names = {c[1:] for c in classes if c != "O"}  # "-PER", or "" for a bare letter
    return {"O", *(letter + name for name in names for letter in letters)}
