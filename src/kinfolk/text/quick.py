"""Rows of features of any corpus by a trained feature set: the same as when it was learned, by another way.

What a word says is remembered: the codes of its attributes, once a word type, also of words that training never met.
One kernel then makes the keys of all templates for some hundred tokens, looks them up, template after template so that
tables stay near, and writes the rows. Of a few tokens that takes a fraction of a millisecond; a large corpus is cut
into runs of sentences, each of which is a piece of work for a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Vocabulary, read_only
from kinfolk.core.kernels import njit, slot_of
from kinfolk.text import attributes
from kinfolk.text.corpus import Corpus, starts_of
from kinfolk.text.templates import Attribute, Bag, Conjunction, Keys, Template, TokenView

if TYPE_CHECKING:
    from kinfolk.text.extraction import TokenFeatures

FEW_TOKENS = 2_000  # up to which words are looked at one by one; beyond it word types are first, and threads pay
MOST_WORDS = 1 << 15  # word types that are remembered: some megabytes
MOST_KEYS = 2**62

# -- what is said of a word, remembered ----------------------------------------------------------------


Words = Sequence[str]
MaybeWords = Sequence[str | None]


def of_words(attribute: Attribute) -> Callable[[Words], MaybeWords] | None:
    """The attribute as a function of words alone; None where it reads more, or is a function of the user's own, which
    might not say the same twice."""
    if isinstance(attribute, attributes.Raw):
        return (lambda words: words) if attribute.name == "word" else None
    if not isinstance(attribute, attributes.Derived | attributes.Lookup):
        return None
    inner, outer = of_words(attribute.of), attribute.of_values
    if inner is None:
        return None

    def both(words: Words) -> MaybeWords:
        values = inner(words)
        if None not in values:
            return outer(values)  # type: ignore[arg-type]
        known = iter(outer([value for value in values if value is not None]))
        return [None if value is None else next(known) for value in values]

    return both


class KnownWords:
    """Codes of attributes (room, A) of the words met so far, numbered as they came. Rows are written before their
    numbers are given out, so that threads may read while one adds."""

    def __init__(self, width: int) -> None:
        self.numbers: dict[str, int] = {}
        self.codes = np.empty((MOST_WORDS, width), np.int32)


class WordCodes:
    """Codes of attributes that are functions of a word."""

    def __init__(self, functions: Sequence[Callable[[Words], MaybeWords]], values: Sequence[Vocabulary]) -> None:
        self._functions = list(zip(functions, values, strict=True))
        self.width = len(self._functions)
        self._known, self._lock = KnownWords(self.width), Lock()

    def of(self, words: Words) -> NDArray[np.int32]:
        """(n, A)."""
        known = self._known
        try:
            numbers = [known.numbers[word] for word in words]
        except KeyError:
            new = list(dict.fromkeys(words))
            if len(new) > MOST_WORDS // 2:
                return self._codes(words)
            with self._lock:
                known, numbers = self._learned(words, new)
        return known.codes[numbers]

    def _learned(self, words: Words, distinct: Words) -> tuple[KnownWords, list[int]]:
        if len(self._known.numbers) + len(distinct) > MOST_WORDS:
            self._known = KnownWords(len(self._functions))  # who reads the old ones has them still
        known = self._known
        new = [word for word in distinct if word not in known.numbers]
        first = len(known.numbers)
        known.codes[first : first + len(new)] = self._codes(new)
        known.numbers.update(zip(new, range(first, first + len(new)), strict=True))
        return known, [known.numbers[word] for word in words]

    def _codes(self, words: Words) -> NDArray[np.int32]:
        """From 1; -1 for no value and for one that training never met."""
        columns = [values.codes(function(words)) for function, values in self._functions]
        return np.array(columns, np.int32).reshape(len(self._functions), len(words)).T


# -- rows of all templates in one kernel ---------------------------------------------------------------


class Plan(NamedTuple):
    """Conjunctions and bags as numbers, template after template.

    terms    (T, 3)    attribute, offset, radix; of a bag attribute, first, last
    starts   (K + 1,)  of the terms of each template
    bags     (K,)      whether it is a bag
    places   (K + 1,)  of the features of a token that each template can have
    first    (K,)      its first feature
    keys, slots        of all hash tables, one after the other; key_starts, slot_starts (K + 1,)
    direct             of bags and of conjunctions of one attribute: the number of the feature of each code, -1 = none,
                       one template after the other; direct_starts (K + 1,)
    """

    terms: Any
    starts: Any
    bags: Any
    places: Any
    first: Any
    keys: Any
    key_starts: Any
    slots: Any
    slot_starts: Any
    direct: Any
    direct_starts: Any


class Others(NamedTuple):
    """Numbers of the features of other templates, -1 = none: numbers[starts[k, t] : starts[k, t + 1]] of token t."""

    numbers: NDArray[np.int32]
    starts: NDArray[np.int64]


BLOCK = 256  # tokens: what is known of them stays in the cache next to the processor


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
def _look_up(codes, plan, k, start, begins, stops, m, found):
    """Fill found (width, m) with numbers of features of template k for the tokens from `start` on, -1 = none;
    sentences of tokens go from `begins` to `stops`."""
    terms, starts = plan.terms, plan.starts
    direct = plan.direct[plan.direct_starts[k] : plan.direct_starts[k + 1]]
    if len(direct):
        attribute, offset, last, place = codes[terms[starts[k], 0]], terms[starts[k], 1], terms[starts[k], 1], 0
        if plan.bags[k]:
            last = terms[starts[k], 2]
        while offset <= last:
            if offset != 0 or not plan.bags[k]:
                for i in range(m):
                    at = start + i + offset
                    code = attribute[at] if begins[i] <= at < stops[i] else np.int32(0)
                    found[place, i] = direct[code] if code >= 0 else -1
                place += 1
            offset += 1
        return
    keys = plan.keys[plan.key_starts[k] : plan.key_starts[k + 1]]
    slots = plan.slots[plan.slot_starts[k] : plan.slot_starts[k + 1]]
    for i in range(m):
        key = np.int64(0)
        for term in range(starts[k], starts[k + 1]):
            at = start + i + terms[term, 1]
            code = np.int64(codes[terms[term, 0], at]) if begins[i] <= at < stops[i] else np.int64(0)
            if code < 0:
                key = np.int64(-1)
                break
            key = key * terms[term, 2] + code
        found[0, i] = slots[slot_of(key, slots, keys)] if key >= 0 else -1


@njit(nogil=True, cache=True)
def _rows(codes, sentences, plan, more, more_starts, first_token, indptr, indices):
    """Fill indptr (n + 1,) and indices, rising in each row, for n tokens with codes (A, n), whose sentences begin at
    `sentences`; returns how many there are. `more`, `more_starts`: as Others, of a corpus in which these are the tokens
    from `first_token` on."""
    n, n_templates = codes.shape[1], len(plan.bags)
    found = np.empty((plan.places[n_templates], min(n, BLOCK)), np.int32)
    begins, stops = np.empty(min(n, BLOCK), np.int64), np.empty(min(n, BLOCK), np.int64)
    end, sentence = 0, 0
    indptr[0] = 0
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        for i in range(m):
            while sentences[sentence + 1] <= start + i:
                sentence += 1
            begins[i], stops[i] = sentences[sentence], sentences[sentence + 1]
        for k in range(n_templates):
            _look_up(codes, plan, k, start, begins, stops, m, found[plan.places[k] : plan.places[k + 1]])
        for i in range(m):
            first = end
            for k in range(n_templates):
                for place in range(plan.places[k], plan.places[k + 1]):
                    if found[place, i] >= 0:
                        number = np.int32(plan.first[k] + found[place, i])
                        if plan.bags[k]:
                            end = _put(indices, first, end, number)
                        else:
                            indices[end] = number
                            end += 1
            token = first_token + start + i
            for k in range(len(more_starts)):
                for p in range(more_starts[k, token], more_starts[k, token + 1]):
                    if more[p] >= 0:
                        end = _put(indices, first, end, more[p])
            indptr[start + i + 1] = end
    return end


@njit(nogil=True, cache=True)
def _spread(tables, table_starts, sources, columns, first, out):
    """Codes (A, m) of the tokens from `first` on: of the attribute that goes by table j what stands there for the value
    that the token has in a column, or, where there is no table (-1), that value itself."""
    for a in range(len(out)):
        column, table = columns[sources[a]], table_starts[a]
        for i in range(out.shape[1]):
            value = column[first + i]
            out[a, i] = value if table < 0 else tables[table + value]


class QuickRows:
    """A trained feature set, ready for a few tokens at a time."""

    def __init__(self, features: TokenFeatures) -> None:
        self.features = features
        view = TokenView(_NOTHING, features.vocabularies, learning=False)
        firsts = starts_of([len(table) for table in features.tables])
        simple = [i for i, template in enumerate(features.templates) if _fits(template, view)]
        self._others = [(i, int(firsts[i])) for i in range(len(features.templates)) if i not in simple]
        used = list({str(a): a for i in simple for a in features.templates[i].attributes()}.values())
        functions = [of_words(attribute) for attribute in used]
        by_word = [a for a, function in zip(used, functions, strict=True) if function is not None]
        self._by_column = [a for a, function in zip(used, functions, strict=True) if function is None]
        places = {str(attribute): j for j, attribute in enumerate([*by_word, *self._by_column])}
        self._words = WordCodes([f for f in functions if f is not None], [view.values(a) for a in by_word])
        terms = [_terms(features.templates[i], places, view) for i in simple]
        tables = [features.tables[i] for i in simple]
        direct = [_direct(features.templates[i], features.tables[i].keys, view) for i in simple]
        self.plan = Plan(
            np.array([term for own in terms for term in own], np.int64).reshape(-1, 3),
            starts_of([len(own) for own in terms]),
            np.array([isinstance(features.templates[i], Bag) for i in simple], bool),
            starts_of([_width(features.templates[i]) for i in simple]),
            firsts[simple],
            np.concatenate([np.empty(0, np.int64), *(table.keys for table in tables)]),
            starts_of([len(table.keys) for table in tables]),
            np.concatenate([np.empty(0, np.int32), *(table.slots for table in tables)]),
            starts_of([len(table.slots) for table in tables]),
            np.concatenate([np.empty(0, np.int32), *direct]),
            starts_of([len(numbers) for numbers in direct]),
        )
        for k, i in enumerate(simple):  # all look into the same memory
            features.tables[i] = replace(
                features.tables[i],
                keys=self.plan.keys[self.plan.key_starts[k] : self.plan.key_starts[k + 1]],
                slots=self.plan.slots[self.plan.slot_starts[k] : self.plan.slot_starts[k + 1]],
            )

    def of(self, corpus: Corpus) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """indptr (n + 1,) and feature numbers of the rows of a few tokens, rising within a row."""
        words = corpus.columns["word"]
        codes = self._words.of([words.values[code] for code in words.codes.tolist()]).T
        view = TokenView(corpus, self.features.vocabularies, learning=False)
        if self._by_column:
            codes = np.concatenate([codes, [view.unshifted_codes(attribute) for attribute in self._by_column]])
        return self._made(np.ascontiguousarray(codes, np.int32), corpus.sentence_starts, self._numbers(view, 1), 0)

    def by_runs(self, corpus: Corpus, n_jobs: int) -> Callable[[int, int], tuple[Any, Any]]:
        """What gives the same for a run of whole sentences of any corpus, by number; threads may share it."""
        view, starts = TokenView(corpus, self.features.vocabularies, learning=False), corpus.sentence_starts
        words, n = corpus.columns["word"], corpus.n_tokens
        words = words if len(words.values) <= n else words.take(np.arange(n))
        columns, tables = [words.codes], [np.ascontiguousarray(self._words.of(words.values).T).ravel()]
        sources, table_starts = [0] * self._words.width, list(range(0, len(tables[0]), len(words.values)))
        for attribute in self._by_column:
            sources.append(len(columns))
            table_starts.append(-1)
            columns.append(view.unshifted_codes(attribute))
        where = tables[0], np.array(table_starts, np.int64), np.array(sources, np.int64), np.stack(columns)
        more = self._numbers(view, n_jobs)

        def run(first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
            own = starts[first : last + 1]
            codes = np.empty((len(sources), own[-1] - own[0]), np.int32)
            _spread(*where, own[0], codes)
            return self._made(codes, own - own[0], more, own[0])

        return run

    def _made(
        self, codes: NDArray[np.int32], sentences: NDArray[np.int64], more: Others, first: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Of tokens with codes (A, n), in a corpus from token `first` on."""
        n = codes.shape[1]
        others = int((more.starts[:, first + n] - more.starts[:, first]).sum())
        indptr, indices = np.empty(n + 1, np.int64), np.empty(n * int(self.plan.places[-1]) + others, np.int32)
        end = _rows(codes, read_only(sentences), self.plan, *more, first, indptr, indices)
        return indptr, indices[:end].copy()

    def _numbers(self, view: TokenView, n_jobs: int) -> Others:
        """Features of templates that are neither conjunctions nor bags."""
        if not self._others:
            return Others(_NONE, np.empty((0, view.corpus.n_tokens + 1), np.int64))
        found = self.features.numbered(view, [i for i, _ in self._others], n_jobs)
        sizes = starts_of([keys.keys.size for keys in found])
        starts = [_starts(keys, view.corpus.n_tokens) + size for keys, size in zip(found, sizes, strict=False)]
        numbers = [
            np.where(keys.keys < 0, -1, keys.keys + first).reshape(-1)
            for keys, (_, first) in zip(found, self._others, strict=True)
        ]
        return Others(np.concatenate(numbers).astype(np.int32), np.stack(starts))


_NOTHING = Corpus.from_sentences([])
_NONE = np.empty(0, np.int32)


def _starts(keys: Keys, n: int) -> NDArray[np.int64]:
    """(n + 1,), where the keys of each token begin."""
    return np.arange(n + 1) * keys.keys.shape[1] if keys.indptr is None else keys.indptr


def _width(template: Template) -> int:
    """How many features of it a token can have."""
    if isinstance(template, Bag):
        return template.last - template.first + (not template.first <= 0 <= template.last)
    return 1


def _direct(template: Template, keys: NDArray[np.int64], view: TokenView) -> NDArray[np.int32]:
    """The number of the feature of each code, where codes are keys; a bag knows no place beyond the sentence."""
    attributes = template.attributes()
    if len(attributes) > 1:
        return _NONE
    numbers = np.full(view.radix(attributes[0]), -1, np.int32)
    numbers[keys] = np.arange(len(keys), dtype=np.int32)
    if isinstance(template, Bag):
        numbers[0] = -1
    return numbers


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
