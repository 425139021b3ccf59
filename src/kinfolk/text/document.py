"""Attributes that read more than one token: the sentence, the run of capitals, the document.

    sentence_all_caps   the sentence has capitals and no lower-case letter, as headlines do
    sentence_length     1, 2, 3, 4, 5-8, 9-16, more
    run_before, run_after   the lower-cased words beside the run of capitalised words around the token
    run_first, run_last     the lower-cased first and last word of that run
    seen_capitalised    the word stands capitalised in mid-sentence at another place of the document
    seen_lower          the word stands in lower case at another place of the document
    document_case       the word in the case it mostly has in mid-sentence in the document
    document_start      the first word of the document

The words of a document are matched without regard to case. Mid-sentence means neither the first word
of a sentence nor within a sentence in capitals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.column import Column
from kinfolk.errors import SettingError
from kinfolk.text.attributes import lower
from kinfolk.text.corpus import Corpus
from kinfolk.text.templates import OUTSIDE, Attribute

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Context(Attribute):
    """A built-in function of the words of the whole corpus."""

    kind: str

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise SettingError(f"unknown attribute {self.kind!r}; known: {', '.join(sorted(_KINDS))}")

    def column(self, corpus: Corpus) -> Column:
        if not corpus.n_tokens:
            return Column(np.empty(0, np.int32), ())
        return _KINDS[self.kind](corpus)

    def spec(self) -> dict[str, Any]:
        return {"document": self.kind}

    def __str__(self) -> str:
        return self.kind


def _of_words(corpus: Corpus, test: Callable[[str], bool]) -> Mask:
    """Where a test of the word holds, called once a distinct word."""
    words = corpus.columns["word"]
    return np.array([test(v) for v in words.values], bool)[words.codes]


def _yes(mask: Mask) -> Column:
    return Column(np.where(mask, 0, -1).astype(np.int32), ("yes",))


def _lower_cased(corpus: Corpus) -> tuple[Numbers, tuple[str, ...]]:
    column = lower.column(corpus)
    return column.codes.astype(np.int64), column.values


def _is_capitalised(word: str) -> bool:
    return word[:1].isupper()


# The sentence


def _all_caps(corpus: Corpus) -> Mask:
    starts = corpus.sentence_starts
    low = np.add.reduceat(_of_words(corpus, lambda v: v != v.upper()), starts[:-1], dtype=np.int64)
    high = np.add.reduceat(_of_words(corpus, lambda v: v != v.lower()), starts[:-1], dtype=np.int64)
    return np.repeat((low == 0) & (high > 0), np.diff(starts))


def _sentence_length(corpus: Corpus) -> Column:
    lengths = np.diff(corpus.sentence_starts)
    bins = np.searchsorted([1, 2, 3, 4, 8, 16], lengths).astype(np.int32)
    return Column(np.repeat(bins, lengths), ("1", "2", "3", "4", "5-8", "9-16", "more"))


def _run_ends(corpus: Corpus) -> tuple[Mask, Numbers, Numbers]:
    """Capitalised tokens, and for each of them the first and the last token of its run."""
    capital = _of_words(corpus, _is_capitalised)
    opens = np.zeros(corpus.n_tokens + 1, bool)
    opens[corpus.sentence_starts] = True
    opens[1:-1] |= capital[1:] != capital[:-1]
    starts = np.flatnonzero(opens)
    run = np.cumsum(opens[:-1]) - 1
    return capital, starts[run], starts[run + 1] - 1


def _run_word(corpus: Corpus, which: str) -> Column:
    capital, first, last = _run_ends(corpus)
    codes, values = _lower_cased(corpus)
    at = {"first": first, "last": last, "before": first - 1, "after": last + 1}[which]
    lengths = np.diff(corpus.sentence_starts)
    inside = (at >= np.repeat(corpus.sentence_starts[:-1], lengths)) & (
        at < np.repeat(corpus.sentence_starts[1:], lengths)
    )
    found = np.where(inside, codes[np.where(inside, at, 0)], len(values))
    return Column(np.where(capital, found, -1).astype(np.int32), (*values, OUTSIDE))


# The document


def _mid_sentence(corpus: Corpus) -> Mask:
    mask = ~_all_caps(corpus)
    mask[corpus.sentence_starts[:-1]] = False
    return mask


def _word_in_document(corpus: Corpus) -> Numbers:
    """A number for each pair of a document and a lower-cased word in it, from 0."""
    codes, values = _lower_cased(corpus)
    pairs = corpus.token_documents.astype(np.int64) * len(values) + codes
    numbers: Numbers = np.unique(pairs, return_inverse=True)[1]
    return numbers


def _seen_elsewhere(corpus: Corpus, mask: Mask) -> Mask:
    """Where another token of the document with the same word, whatever its case, is in the mask."""
    group = _word_in_document(corpus)
    counts = np.bincount(group, weights=mask)
    seen: Mask = counts[group] - mask > 0
    return seen


def _seen_capitalised(corpus: Corpus) -> Column:
    return _yes(_seen_elsewhere(corpus, _of_words(corpus, _is_capitalised) & _mid_sentence(corpus)))


def _seen_lower(corpus: Corpus) -> Column:
    return _yes(_seen_elsewhere(corpus, _of_words(corpus, lambda v: v != v.upper() and v == v.lower())))


def _document_case(corpus: Corpus) -> Column:
    words, group = corpus.columns["word"], _word_in_document(corpus)
    tokens = np.flatnonzero(_mid_sentence(corpus))
    forms, counts = np.unique(group[tokens] * len(words.values) + words.codes[tokens], return_counts=True)
    by_count = np.argsort(counts, kind="stable")  # the most frequent form of a word is written last
    chosen = np.full(int(group.max()) + 1, -1, np.int64)
    chosen[forms[by_count] // len(words.values)] = forms[by_count] % len(words.values)
    known = chosen[group]
    return Column(np.where(known < 0, words.codes, known).astype(np.int32), words.values)


def _document_start(corpus: Corpus) -> Column:
    words = corpus.columns["word"]
    bounds = corpus.sentence_starts[corpus.document_starts]
    sizes = np.diff(bounds)
    return Column(np.repeat(words.codes[bounds[:-1][sizes > 0]], sizes[sizes > 0]), words.values)


_KINDS: dict[str, Callable[[Corpus], Column]] = {
    "sentence_all_caps": lambda corpus: _yes(_all_caps(corpus)),
    "sentence_length": _sentence_length,
    "run_first": lambda corpus: _run_word(corpus, "first"),
    "run_last": lambda corpus: _run_word(corpus, "last"),
    "run_before": lambda corpus: _run_word(corpus, "before"),
    "run_after": lambda corpus: _run_word(corpus, "after"),
    "seen_capitalised": _seen_capitalised,
    "seen_lower": _seen_lower,
    "document_case": _document_case,
    "document_start": _document_start,
}

sentence_all_caps, sentence_length = Context("sentence_all_caps"), Context("sentence_length")
run_first, run_last = Context("run_first"), Context("run_last")
run_before, run_after = Context("run_before"), Context("run_after")
seen_capitalised, seen_lower = Context("seen_capitalised"), Context("seen_lower")
document_case, document_start = Context("document_case"), Context("document_start")
