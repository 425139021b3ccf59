"""Features of a few tokens in a fraction of a millisecond: the same rows as `TokenFeatures.rows`, by another way.

What a word says is remembered: the codes of its attributes, once a word type, also of words that training never met.
One kernel then makes the keys of all templates, looks them up and writes the rows. The general way runs template by
template over whole columns, in chunks for threads, which is quicker for large corpora and takes milliseconds for any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Vocabulary
from kinfolk.core.kernels import njit, slot_of
from kinfolk.text import attributes
from kinfolk.text.corpus import Corpus, starts_of
from kinfolk.text.templates import Attribute, Bag, Conjunction, Keys, Template, TokenView

if TYPE_CHECKING:
    from kinfolk.text.extraction import TokenFeatures

FEW_TOKENS = 2_000  # up to which the quick way is taken; beyond it threads pay
MOST_WORDS = 1 << 15  # word types that are remembered: some megabytes
MOST_KEYS = 2**62

# -- what is said of a word, remembered ----------------------------------------------------------------


def of_word(attribute: Attribute) -> Callable[[str], str | None] | None:
    """The attribute as a function of the word alone; None where it reads more, or is a function of the user's own,
    which might not say the same twice."""
    if isinstance(attribute, attributes.Raw):
        return (lambda word: word) if attribute.name == "word" else None
    if not isinstance(attribute, attributes.Derived | attributes.Lookup):
        return None
    inner = of_word(attribute.of)
    if inner is None:
        return None
    outer = attribute.of_value

    def both(word: str) -> str | None:
        value = inner(word)
        return None if value is None else outer(value)

    return both


class KnownWords:
    """Codes of attributes (room, A) of the words met so far, numbered as they came. Rows are written before their
    numbers are given out, so that threads may read while one adds."""

    def __init__(self, width: int) -> None:
        self.numbers: dict[str, int] = {}
        self.codes = np.empty((MOST_WORDS, width), np.int32)


class WordCodes:
    """Codes of attributes that are functions of a word."""

    def __init__(self, functions: Sequence[Callable[[str], str | None]], values: Sequence[Vocabulary]) -> None:
        self._functions = list(zip(functions, values, strict=True))
        self._known, self._lock = KnownWords(len(self._functions)), Lock()

    def of(self, words: Sequence[str]) -> NDArray[np.int32]:
        """(n, A)."""
        known = self._known
        try:
            numbers = [known.numbers[word] for word in words]
        except KeyError:
            with self._lock:
                known, numbers = self._learned(words)
        return known.codes[numbers]

    def _learned(self, words: Sequence[str]) -> tuple[KnownWords, list[int]]:
        if len(self._known.numbers) + len(words) > MOST_WORDS:
            self._known = KnownWords(len(self._functions))  # who reads the old ones has them still
        known = self._known
        for word in words:
            if word not in known.numbers:
                number = len(known.numbers)
                known.codes[number] = [self._code(word, *one) for one in self._functions]
                known.numbers[word] = number
        return known, [known.numbers[word] for word in words]

    @staticmethod
    def _code(word: str, function: Callable[[str], str | None], values: Vocabulary) -> int:
        """From 1; -1 for no value and for one that training never met."""
        value = function(word)
        number = -1 if value is None else values.get(value)
        return -1 if number < 0 else number + 1


# -- rows of all templates in one kernel ---------------------------------------------------------------


class Plan(NamedTuple):
    """Conjunctions and bags as numbers, template after template.

    terms    (T, 3)    attribute, offset, radix; of a bag attribute, first, last
    starts   (K + 1,)  of the terms of each template
    bags     (K,)      whether it is a bag
    first    (K,)      its first feature
    keys, slots        of all hash tables, one after the other; key_starts, slot_starts (K + 1,)
    """

    terms: Any
    starts: Any
    bags: Any
    first: Any
    keys: Any
    key_starts: Any
    slots: Any
    slot_starts: Any


@njit(nogil=True, cache=True)
def _put(indices, first, end, number):
    """A number into the rising run indices[first:end], unless it is there; returns the new end."""
    at = end
    while at > first and indices[at - 1] > number:
        at -= 1
    if at > first and indices[at - 1] == number:
        return end
    for i in range(end, at, -1):
        indices[i] = indices[i - 1]
    indices[at] = number
    return end + 1


@njit(nogil=True, cache=True)
def _few_rows(codes, sentences, plan, more, more_starts, indptr, indices):
    """Fill indptr (n + 1,) and indices, rising in each row; `more` are numbers of other templates' features, -1 = none,
    those of token t from more_starts[t] on."""
    terms, starts, bags, first_feature, all_keys, key_starts, all_slots, slot_starts = plan
    end = 0
    indptr[0] = 0
    for s in range(len(sentences) - 1):
        begin, stop = sentences[s], sentences[s + 1]
        for t in range(begin, stop):
            first = end
            for k in range(len(bags)):
                keys = all_keys[key_starts[k] : key_starts[k + 1]]
                slots = all_slots[slot_starts[k] : slot_starts[k + 1]]
                if bags[k]:
                    attribute = terms[starts[k], 0]
                    for at in range(max(begin, t + terms[starts[k], 1]), min(stop, t + terms[starts[k], 2] + 1)):
                        code = np.int64(codes[at, attribute])
                        if at != t and code > 0:
                            number = slots[slot_of(code, slots, keys)]
                            if number >= 0:
                                end = _put(indices, first, end, first_feature[k] + number)
                else:
                    key = np.int64(0)
                    for i in range(starts[k], starts[k + 1]):
                        at = t + terms[i, 1]
                        code = np.int64(codes[at, terms[i, 0]]) if begin <= at < stop else np.int64(0)
                        if code < 0:
                            key = np.int64(-1)
                            break
                        key = key * terms[i, 2] + code
                    if key >= 0:
                        number = slots[slot_of(key, slots, keys)]
                        if number >= 0:
                            end = _put(indices, first, end, first_feature[k] + number)
            for i in range(more_starts[t], more_starts[t + 1]):
                if more[i] >= 0:
                    end = _put(indices, first, end, more[i])
            indptr[t + 1] = end
    return end


class QuickRows:
    """A trained feature set, ready for a few tokens at a time."""

    def __init__(self, features: TokenFeatures) -> None:
        self.features = features
        view = TokenView(_NOTHING, features.vocabularies, learning=False)
        firsts = starts_of([len(table) for table in features.tables])
        simple = [i for i, template in enumerate(features.templates) if _fits(template, view)]
        self._others = [(i, int(firsts[i])) for i in range(len(features.templates)) if i not in simple]
        used = list({str(a): a for i in simple for a in features.templates[i].attributes()}.values())
        functions = [of_word(attribute) for attribute in used]
        by_word = [a for a, function in zip(used, functions, strict=True) if function is not None]
        self._by_column = [a for a, function in zip(used, functions, strict=True) if function is None]
        places = {str(attribute): j for j, attribute in enumerate([*by_word, *self._by_column])}
        self._words = WordCodes([f for f in functions if f is not None], [view.values(a) for a in by_word])
        terms = [_terms(features.templates[i], places, view) for i in simple]
        tables = [features.tables[i] for i in simple]
        self.plan = Plan(
            np.array([term for own in terms for term in own], np.int64).reshape(-1, 3),
            starts_of([len(own) for own in terms]),
            np.array([isinstance(features.templates[i], Bag) for i in simple], bool),
            firsts[simple],
            np.concatenate([np.empty(0, np.int64), *(table.keys for table in tables)]),
            starts_of([len(table.keys) for table in tables]),
            np.concatenate([np.empty(0, np.int32), *(table.slots for table in tables)]),
            starts_of([len(table.slots) for table in tables]),
        )
        for k, i in enumerate(simple):  # all look into the same memory
            features.tables[i] = replace(
                features.tables[i],
                keys=self.plan.keys[self.plan.key_starts[k] : self.plan.key_starts[k + 1]],
                slots=self.plan.slots[self.plan.slot_starts[k] : self.plan.slot_starts[k + 1]],
            )
        bags = self.plan.terms[self.plan.starts[:-1][self.plan.bags]]
        self._width = int((~self.plan.bags).sum() + (bags[:, 2] - bags[:, 1] + 1).sum())

    def of(self, corpus: Corpus) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """indptr (n + 1,) and feature numbers of the rows, rising within a row."""
        n, words = corpus.n_tokens, corpus.columns["word"]
        codes = self._words.of([words.values[code] for code in words.codes.tolist()])
        view = TokenView(corpus, self.features.vocabularies, learning=False)
        if self._by_column:
            codes = np.column_stack([codes, *(view.unshifted_codes(attribute) for attribute in self._by_column)])
        more, more_starts = _NONE, np.zeros(n + 1, np.int64)
        if self._others:
            more, more_starts = self._numbers(view, n)
        indptr, indices = np.empty(n + 1, np.int64), np.empty(n * self._width + len(more), np.int32)
        end = _few_rows(codes, corpus.sentence_starts, self.plan, more, more_starts, indptr, indices)
        return indptr, indices[:end]

    def _numbers(self, view: TokenView, n: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Features of templates that are neither conjunctions nor bags, those of a token together; -1 = none."""
        found = [(self.features.templates[i].keys(view), self.features.tables[i], first) for i, first in self._others]
        sizes = [_sizes(keys, n) for keys, _, _ in found]
        token = np.concatenate([np.repeat(np.arange(n), size) for size in sizes])
        numbers = np.concatenate([table.find(keys.keys.reshape(-1), first) for keys, table, first in found])
        return numbers[np.argsort(token, kind="stable")], starts_of(np.sum(sizes, axis=0))


_NOTHING = Corpus.from_sentences([])
_NONE = np.empty(0, np.int32)


def _sizes(keys: Keys, n: int) -> NDArray[np.int64]:
    return np.full(n, keys.keys.shape[1]) if keys.indptr is None else np.diff(keys.indptr)


def _fits(template: Template, view: TokenView) -> bool:
    if isinstance(template, Bag):
        return True
    room = 1
    for attribute in template.attributes():
        room *= view.radix(attribute)
    return isinstance(template, Conjunction) and room < MOST_KEYS  # else the general way says what is wrong


def _terms(template: Template, places: dict[str, int], view: TokenView) -> list[tuple[int, int, int]]:
    if isinstance(template, Bag):
        return [(places[str(template.attribute)], template.first, template.last)]
    assert isinstance(template, Conjunction)
    return [(places[str(attribute)], offset, view.radix(attribute)) for attribute, offset in template.terms]
