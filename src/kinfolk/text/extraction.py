"""Token features: templates to a sparse table, with a vocabulary frozen after training.

Templates run on threads, each over whole columns of numbers. Features are numbered template by
template, within a template by first appearance, so rows of the table are sorted as they are built.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.data import Vocabulary, read_only
from kinfolk.core.kernels import njit, slot_of
from kinfolk.core.modelfile import Functions, ModelFile, fits, given_again
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.errors import ModelFileError, SettingError
from kinfolk.text import attributes
from kinfolk.text.attributes import document_start, lower, pos, prefix, shape, short_shape, suffix, word
from kinfolk.text.corpus import Corpus, starts_of
from kinfolk.text.dicts import DictFeatures
from kinfolk.text.quick import FEW_TOKENS, QuickRows
from kinfolk.text.templates import (
    Attribute,
    Conjunction,
    Elsewhere,
    Keys,
    Ngrams,
    PerToken,
    Template,
    TokenView,
    bag,
    elsewhere,
    ngrams,
)
from kinfolk.text.vectors import VectorColumns

# -- Hash tables from 64-bit keys to consecutive numbers, as nogil kernels -----------------------------
#
# A feature template turns each token into a key; a table (`core.kernels.slot_of`) turns keys into feature numbers.
# A key of -1 means "no feature here" and never enters a table. Ten times as fast as np.unique and
# np.searchsorted: 0.11 s against 1.13 s each, for the keys of the default templates on CoNLL-2003.

EMPTY = np.int32(-1)


@njit(nogil=True, cache=True)
def _number_keys(keys, slots, found, counts):
    """Number distinct keys by first appearance; returns how many. Fills found (keys) and counts."""
    n = 0
    for key in keys:
        if key < 0:
            continue
        at = slot_of(key, slots, found)
        if slots[at] < 0:
            slots[at] = n
            found[n] = key
            n += 1
        counts[slots[at]] += 1
    return n


@njit(nogil=True, cache=True)
def _number_few_keys(keys, numbers, found, counts):
    """The same, with a number for every possible key."""
    n = 0
    for key in keys:
        if key < 0:
            continue
        if numbers[key] < 0:
            numbers[key] = n
            found[n] = key
            n += 1
        counts[numbers[key]] += 1
    return n


@njit(nogil=True, cache=True)
def _insert(keys, slots):
    for number in range(len(keys)):
        slots[slot_of(keys[number], slots, keys)] = number


@njit(nogil=True, cache=True)
def _find(queries, keys, slots, offset, out):
    for i in range(len(queries)):
        number = slots[slot_of(queries[i], slots, keys)] if queries[i] >= 0 else -1
        out[i] = number + offset if number >= 0 else -1


def _capacity(n: int) -> int:
    return 1 << max(3, int(2 * n - 1).bit_length())


@dataclass(frozen=True, eq=False)
class KeyTable:
    """Distinct keys, numbered 0, 1, ... in the order given."""

    keys: NDArray[np.int64]
    slots: NDArray[np.int32]

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> KeyTable:
        slots = np.full(_capacity(len(keys)), EMPTY)
        _insert(keys, slots)
        return cls(keys, slots)

    @classmethod
    def learn(cls, keys: NDArray[np.integer], min_count: int) -> KeyTable:
        """The keys that occur at least `min_count` times, as they appear: the order depends on these tokens alone."""
        flat = keys.reshape(-1)
        top = int(flat.max(initial=-1)) + 1
        found, counts = np.empty(min(top, len(flat)), np.int64), np.zeros(min(top, len(flat)), np.int32)
        if top <= len(flat):  # few possible keys, as with a single attribute: each has its own slot
            n = _number_few_keys(flat, np.full(top, EMPTY), found, counts)
        else:
            n = _number_keys(flat, np.full(_capacity(len(flat)), EMPTY), found, counts)
        return cls.of(found[:n][counts[:n] >= min_count])

    def find(self, queries: NDArray[np.integer], offset: int = 0) -> NDArray[np.int32]:
        """`offset` plus the number of each key, -1 where it is not in the table."""
        out = np.empty(queries.shape, np.int32)
        _find(queries.reshape(-1), self.keys, self.slots, offset, out.reshape(-1))
        return out

    def __len__(self) -> int:
        return len(self.keys)


# -- extraction ------------------------------------------------------------------------------------

Templates = Iterable["str | Template | Attribute | Templates"]  # a str is the name of a set
CHUNKS = 32
RUN = 8_192  # tokens whose rows are a piece of work, about


def flatten(templates: Templates) -> list[Template]:
    """One flat list: windows (lists) are opened, a bare attribute stands for offset 0, repeats are dropped."""
    flat: dict[str, Template] = {}
    named: dict[str, Attribute | Template] = {}  # values are kept by name, so two things may not share one
    for item in templates if isinstance(templates, Iterable) and not isinstance(templates, str) else [templates]:
        if isinstance(item, Attribute):
            item = item[0]
        if isinstance(item, str) or not isinstance(item, Template | Iterable):
            raise SettingError.saying(
                f"a feature template was expected, such as word[-1] or bag(lower, -4, 4); got {item!r}"
            )
        for template in [item] if isinstance(item, Template) else flatten(item):
            flat.setdefault(str(template), template)
            parts: tuple[Attribute | Template, ...] = (template, *template.attributes())
            for part in parts:
                if named.setdefault(str(part), part) != part:
                    raise SettingError.saying(f"two different features are named {str(part)!r}: name them apart")
    return list(flat.values())


class TokenFeatures:
    """The feature set of a token model: `learn` on the training corpus, then `rows` for any corpus."""

    def __init__(self, templates: Templates, min_count: int = 1) -> None:
        if min_count < 1:
            raise SettingError("min_count", min_count, "1 or more")
        self.templates = flatten(templates)
        if not self.templates:
            raise SettingError.saying("no feature templates: give at least one, such as word[0]")
        self.min_count = min_count
        self.vocabularies: dict[str, Vocabulary] = {}
        self.tables: list[KeyTable] = []
        self._quick: QuickRows | None = None
        self.vectors: VectorColumns | None = None  # dense columns that come after them, put here by who has them

    @property
    def n_features(self) -> int:
        return self._n_keys + (0 if self.vectors is None else self.vectors.width)

    @property
    def _n_keys(self) -> int:
        return sum(len(table) for table in self.tables)

    def learn(self, corpus: Corpus, n_jobs: int = 1) -> sparse.csr_array:
        """Freeze the vocabulary on `corpus` and return its rows (n, F)."""
        self.renew({}, [])
        return self._assemble(self.learned(corpus, n_jobs), corpus.n_tokens, n_jobs)

    def renew(self, vocabularies: dict[str, Vocabulary], tables: list[KeyTable]) -> None:
        """With what is learned of a corpus."""
        self.vocabularies, self.tables, self._quick = vocabularies, tables, None

    def rows(self, corpus: Corpus, n_jobs: int = 1) -> sparse.csr_array:
        """Rows (n, F) of any corpus; features never met in training are left out."""
        if (few := self.few_rows(corpus)) is None:
            few = self._many_rows(corpus, n_jobs)
        indptr, indices = few
        ones = np.broadcast_to(np.float32(1), len(indices))  # every value is 1: one number stands for all
        if indptr[-1] < 2**31:
            indptr = indptr.astype(np.int32)
        return sparse.csr_array((ones, indices, indptr), shape=(corpus.n_tokens, self._n_keys))

    def few_rows(self, corpus: Corpus) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """The same as indptr and indices, where the corpus is small enough to be one piece of work; else None."""
        return None if corpus.n_tokens > FEW_TOKENS else self._ready().of(corpus)

    def rows_by_runs(self, corpus: Corpus, n_jobs: int) -> Callable[[int, int], tuple[Any, Any]]:
        """What gives indptr and indices of a run of sentences, the first and the one behind the last; threads may share
        it."""
        return self._ready().by_runs(corpus, n_jobs)

    def _many_rows(self, corpus: Corpus, n_jobs: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Of a corpus that is worth threads."""
        bounds, run = even_bounds(corpus.sentence_starts, -(-corpus.n_tokens // RUN)), self.rows_by_runs(corpus, n_jobs)
        parts = run_chunks(lambda k: run(int(bounds[k]), int(bounds[k + 1])), len(bounds) - 1, n_jobs)
        ends = starts_of([len(indices) for _, indices in parts])
        indptr, indices = np.zeros(corpus.n_tokens + 1, np.int64), np.empty(ends[-1], np.int32)
        tokens = corpus.sentence_starts[bounds]

        def put(k: int) -> None:
            np.add(parts[k][0][1:], ends[k], out=indptr[tokens[k] + 1 : tokens[k + 1] + 1])
            indices[ends[k] : ends[k + 1]] = parts[k][1]

        run_chunks(put, len(parts), n_jobs)
        return indptr, indices

    def _ready(self) -> QuickRows:
        if self._quick is None:
            self._quick = QuickRows(self)
        return self._quick

    def __getstate__(self) -> dict[str, Any]:
        """What words are remembered is not copied, nor sent elsewhere."""
        return {**self.__dict__, "_quick": None}

    def learned(self, corpus: Corpus, n_jobs: int) -> list[Keys]:
        """Vocabulary and tables of a corpus; the numbers of its features within each template, -1 = none."""
        view = TokenView(corpus, self.vocabularies, learning=True)
        view.prepare([a for template in self.templates for a in template.attributes()])

        def learned(i: int) -> tuple[KeyTable, Keys]:
            keys = self.templates[i].keys(view)
            table = KeyTable.learn(keys.keys, self.min_count)
            return table, Keys(table.find(keys.keys), keys.indptr)

        found = run_chunks(learned, len(self.templates), n_jobs)
        self.tables = [table for table, _ in found]
        return [numbers for _, numbers in found]

    def numbered(self, view: TokenView, templates: Sequence[int], n_jobs: int) -> list[Keys]:
        """Numbers of the features of some templates, each within its own, by what was learned before."""
        view.prepare([a for i in templates for a in self.templates[i].attributes()])
        if any(isinstance(self.templates[i], Elsewhere) for i in templates):
            view.other_occurrences  # noqa: B018 (worked out now, for all threads)

        def numbered(k: int) -> Keys:
            keys = self.templates[templates[k]].keys(view)
            return Keys(self.tables[templates[k]].find(keys.keys), keys.indptr)

        return run_chunks(numbered, len(templates), n_jobs)

    def _assemble(self, blocks: list[Keys], n: int, n_jobs: int, rising: bool = True) -> sparse.csr_array:
        """CSR from one block of numbers a template: count each row, then write block after block. `rising`: whether
        the features of a row are sorted, or stand in it as they appear."""
        bounds = np.linspace(0, n, CHUNKS + 1).astype(np.int64)
        offsets = starts_of([len(table) for table in self.tables])  # the first feature of each template
        parts = [(b.keys, _NO_RUNS if b.indptr is None else b.indptr) for b in blocks]
        indptr = np.zeros(n + 1, np.int64)

        def count(chunk: int) -> None:
            for numbers, runs in parts:
                _count(numbers, runs, bounds[chunk], bounds[chunk + 1], indptr)

        run_chunks(count, CHUNKS, n_jobs)
        np.cumsum(indptr, out=indptr)
        indices = np.empty(indptr[-1], np.int32)
        cursor = indptr[:-1].copy()

        def write(chunk: int) -> None:
            for (numbers, runs), offset in zip(parts, offsets, strict=False):
                _write(numbers, runs, offset, bounds[chunk], bounds[chunk + 1], rising, cursor, indices)

        run_chunks(write, CHUNKS, n_jobs)
        ones = np.broadcast_to(np.float32(1), len(indices))  # every value is 1: one number stands for all
        if indptr[-1] < 2**31:
            indptr = indptr.astype(np.int32)
        return sparse.csr_array((ones, indices, indptr), shape=(n, self._n_keys))

    def names(self) -> list[str]:
        """The name of every feature, for people: `lower[-1]=the & lower[0]=hague`."""
        view = TokenView(_NOTHING, self.vocabularies, learning=False)
        described = [
            template.describe(int(key), view)
            for template, table in zip(self.templates, self.tables, strict=True)
            for key in table.keys
        ]
        return described + ([] if self.vectors is None else self.vectors.feature_names())

    def spec(self) -> dict[str, Any]:
        return {"templates": [template.spec() for template in self.templates], "min_count": self.min_count}

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Sequence[str]]]:
        """What the model file keeps: arrays and string lists."""
        arrays = {"features.sizes": np.array([len(t) for t in self.tables], np.int64)}
        arrays["features.keys"] = np.concatenate([t.keys for t in self.tables]).astype(np.int64)
        strings: dict[str, Sequence[str]] = {f"values.{n}": v.names for n, v in self.vocabularies.items()}
        for attribute in self._attributes():
            if isinstance(attribute, attributes.Gazetteer):
                strings[f"gazetteer.{attribute.name}"] = sorted(attribute.entries)
            elif isinstance(attribute, attributes.Lookup):
                strings[f"lookup.{attribute.name}"] = [entry for pair in attribute.table.items() for entry in pair]
        columns, names = ({}, {}) if self.vectors is None else self.vectors.state()
        return {**arrays, **columns}, {**strings, **names}

    def _attributes(self) -> Iterator[Attribute]:
        """All that templates read, and what these are made of."""
        for template in self.templates:
            inner = (template.attribute,) if isinstance(template, Ngrams) else template.attributes()
            for attribute in inner:
                yield attribute
                while hasattr(attribute, "of"):
                    attribute = attribute.of
                    yield attribute

    def restore(self, arrays: Mapping[str, NDArray[Any]], strings: Mapping[str, Sequence[str]]) -> None:
        """Tables, templates and vocabularies have to be about the same features."""
        self._quick = None
        self.vocabularies = {
            name.removeprefix("values."): Vocabulary(v) for name, v in strings.items() if name.startswith("values.")
        }
        sizes, keys = arrays["features.sizes"], arrays["features.keys"]
        fits(sizes.dtype == keys.dtype == np.int64 and sizes.shape == (len(self.templates),) and keys.ndim == 1)
        fits(bool(((sizes >= 0) & (sizes <= len(keys))).all()) and int(sizes.sum()) == len(keys))
        tables, view = np.split(keys, np.cumsum(sizes)[:-1]), TokenView(_NOTHING, self.vocabularies, learning=False)
        for template, table in zip(self.templates, tables, strict=True):
            fits(not len(table) or (0 <= table.min() and int(table.max()) < template.n_keys(view)))
            fits(len(np.unique(table)) == len(table))
        self.tables = [KeyTable.of(table.copy()) for table in tables]
        self.vectors = VectorColumns.restored(arrays, strings)


_NOTHING = Corpus.from_sentences([])
_NO_RUNS = np.empty(0, np.int64)


@njit(nogil=True, cache=True)
def _is_repeat(flat, begin, at):
    """True if flat[at] stands earlier in the run that starts at `begin`."""
    for earlier in range(begin, at):
        if flat[earlier] == flat[at]:
            return True
    return False


@njit(nogil=True, cache=True)
def _count(numbers, runs, first, last, counts):
    """counts[row + 1] += how many distinct features the row has in this block.

    Row r of a table of width w is flat[r w : (r + 1) w]; of runs it is flat[runs[r] : runs[r + 1]].
    """
    flat = numbers.reshape(-1)
    width = len(flat) // max(1, len(counts) - 1)
    for row in range(first, last):
        begin, end = (runs[row], runs[row + 1]) if len(runs) else (row * width, (row + 1) * width)
        for at in range(begin, end):
            if flat[at] >= 0 and not _is_repeat(flat, begin, at):
                counts[row + 1] += 1


@njit(nogil=True, cache=True)
def _write(numbers, runs, offset, first, last, rising, cursor, indices):
    """Append the distinct features of each row, in rising order or as they appear."""
    flat = numbers.reshape(-1)
    width = len(flat) // max(1, len(cursor))
    for row in range(first, last):
        begin, end = (runs[row], runs[row + 1]) if len(runs) else (row * width, (row + 1) * width)
        start = cursor[row]
        for at in range(begin, end):
            if flat[at] >= 0 and not _is_repeat(flat, begin, at):
                place = cursor[row]
                while rising and place > start and indices[place - 1] > flat[at] + offset:  # insertion: runs are short
                    indices[place] = indices[place - 1]
                    place -= 1
                indices[place] = flat[at] + offset
                cursor[row] += 1


# -- Rows for several models of parts of one corpus ------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Every:
    """All features of a corpus, its rows as they appear, and (token, feature) for each time that a row has a feature
    once more."""

    features: TokenFeatures
    rows: sparse.csr_array
    again: tuple[NDArray[np.int64], NDArray[np.int32]]


Extra = NDArray[np.float32] | None


class _Kept(NamedTuple):
    """What a model has of all features: those of the tokens that it learned from, by new numbers, -1 = left out."""

    features: TokenFeatures
    every: _Every
    tokens: NDArray[np.integer]
    numbers: NDArray[np.int32]

    def of(self, features: TokenFeatures, tokens: NDArray[np.integer]) -> bool:
        """Whether other features would learn the same."""
        mine = self.features
        same = mine.min_count == features.min_count and mine.templates == features.templates
        return same and np.array_equal(self.tokens, tokens)


class SharedRows:
    """Features of a corpus, extracted once for models that are trained on parts of it, and asked about others.

    What a token has does not depend on other documents, so that rows of a part are some of those of the whole. Each
    model keeps the features that its own tokens have often enough, in the order in which these have them: it is the
    model that would have been trained on its part alone.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._made: list[_Every] = []
        self._kept: dict[int, _Kept] = {}

    def learn(
        self, features: TokenFeatures, tokens: NDArray[np.integer], n_jobs: int, extra: Extra = None
    ) -> sparse.csr_array:
        """As `TokenFeatures.learn` on the documents that these tokens are all of, with `extra` columns after them."""
        for one in self._kept.values():
            if one.of(features, tokens):  # as a level of a stack, after the one below
                features.renew(one.every.features.vocabularies, one.features.tables)
                self._kept[id(features)] = one._replace(features=features)
                return self.rows(features, tokens, extra)
        every = self._every(features, n_jobs)
        n, starts = every.rows.shape[1], starts_of([len(table) for table in every.features.tables])
        counts, order, ends = np.zeros(n, np.int64), np.empty(n, np.int32), starts[:-1].copy()
        _count_part(every.rows.indptr, every.rows.indices, tokens, starts, counts, order, ends)
        mine = np.zeros(self._corpus.n_tokens, bool)
        mine[tokens] = True
        counts += np.bincount(every.again[1][mine[every.again[0]]], minlength=n)
        numbers, tables, known = np.full(n, -1, np.int32), [], 0
        for table, start, end in zip(every.features.tables, starts, ends, strict=False):
            met = order[start:end]
            often = met[counts[met] >= features.min_count]
            numbers[often] = np.arange(known, known + len(often), dtype=np.int32)
            tables.append(KeyTable.of(table.keys[often - start]))
            known += len(often)
        features.renew(every.features.vocabularies, tables)
        self._kept[id(features)] = _Kept(features, every, tokens, numbers)
        return self.rows(features, tokens, extra)

    def knows(self, features: Any) -> bool:
        """Whether they were learned here."""
        return id(features) in self._kept

    def rows(self, features: TokenFeatures, tokens: NDArray[np.integer], extra: Extra = None) -> sparse.csr_array:
        """As `TokenFeatures.rows` of the documents that these tokens are all of, by features learned here, with `extra`
        columns after them; in one copy."""
        _, every, _, numbers = self._kept[id(features)]
        indptr, width = np.zeros(len(tokens) + 1, every.rows.indptr.dtype), features._n_keys
        most = int((every.rows.indptr[tokens + 1] - every.rows.indptr[tokens]).sum())
        beside = np.empty((len(tokens), 0), np.float32) if extra is None else extra
        indices = np.empty(most + np.count_nonzero(beside), np.int32)
        values = np.empty(0 if extra is None else len(indices), np.float32)
        told = read_only(beside), width, indptr, indices, values
        end = _take_part(every.rows.indptr, every.rows.indices, tokens, numbers, *told)
        values = np.broadcast_to(np.float32(1), end) if extra is None else values[:end]
        return sparse.csr_array((values, indices[:end], indptr), shape=(len(tokens), width + beside.shape[1]))

    def _every(self, features: TokenFeatures, n_jobs: int) -> _Every:
        for made in self._made:
            if made.features.templates == features.templates:
                return made
        found, n = TokenFeatures(features.templates), self._corpus.n_tokens
        blocks = found.learned(self._corpus, n_jobs)
        offsets, again = starts_of([len(table) for table in found.tables]), []
        for block, offset in zip(blocks, offsets, strict=False):
            if block.indptr is not None or block.keys.shape[1] > 1:
                runs = _NO_RUNS if block.indptr is None else block.indptr
                room = np.empty(block.keys.size, np.int64), np.empty(block.keys.size, np.int32)
                end = _repeats(block.keys, runs, n, offset, *room)
                again.append((room[0][:end].copy(), room[1][:end].copy()))
        nothing = np.empty(0, np.int64), np.empty(0, np.int32)
        tokens, numbers = (np.concatenate(parts) for parts in zip(nothing, *again, strict=True))
        self._made.append(_Every(found, found._assemble(blocks, n, n_jobs, rising=False), (tokens, numbers)))
        return self._made[-1]


@njit(nogil=True, cache=True)
def _repeats(numbers, runs, n, offset, tokens, features):
    """Each feature that stands in its row before; returns how many there are."""
    flat, end = numbers.reshape(-1), 0
    width = len(flat) // max(1, n)
    for row in range(n):
        begin, stop = (runs[row], runs[row + 1]) if len(runs) else (row * width, (row + 1) * width)
        for at in range(begin, stop):
            if flat[at] >= 0 and _is_repeat(flat, begin, at):
                tokens[end], features[end] = row, flat[at] + offset
                end += 1
    return end


@njit(nogil=True, cache=True)
def _count_part(indptr, indices, tokens, starts, counts, order, ends):
    """How many of the tokens have each feature, and those of template t, order[starts[t] : ends[t]], as they appear."""
    for token in tokens:
        template = 0
        for p in range(indptr[token], indptr[token + 1]):
            feature = indices[p]
            while feature >= starts[template + 1]:
                template += 1
            if counts[feature] == 0:
                order[ends[template]] = feature
                ends[template] += 1
            counts[feature] += 1


@njit(nogil=True, cache=True)
def _take_part(indptr, indices, tokens, numbers, extra, width, new_indptr, new_indices, values):
    """Rows of some tokens by new numbers of their features, -1 = left out, in rising order, and what is not 0 of extra
    columns from `width` on; returns where they end. `values`: of entries; empty: all are 1."""
    end = 0
    for i in range(len(tokens)):
        start = end
        for p in range(indptr[tokens[i]], indptr[tokens[i] + 1]):
            number = numbers[indices[p]]
            if number >= 0:
                place = end
                while place > start and new_indices[place - 1] > number:  # insertion: a template's run is short
                    new_indices[place] = new_indices[place - 1]
                    place -= 1
                new_indices[place] = number
                end += 1
        if len(values):
            values[start:end] = 1
        for c in range(extra.shape[1]):
            if extra[i, c] != 0:
                new_indices[end], values[end] = width + c, extra[i, c]
                end += 1
        new_indptr[i + 1] = end
    return end


# -- Feature sets for named entities: within the sentence, with the document, with the letters of words ---
#
# Every template stands for itself: those that read a column the corpus lacks may be left out.

SENTENCE: Templates = [
    # the word and its neighbours
    word[0],
    lower.window(-2, 2),
    lower[-1] & lower[0],
    lower[0] & lower[1],
    # how they are written
    shape.window(-1, 1),
    short_shape.window(-1, 1),
    short_shape[-1] & short_shape[0],
    short_shape[0] & short_shape[1],
    short_shape[-1] & short_shape[0] & short_shape[1],
    # how they begin and end
    [prefix(n)[0] for n in (1, 2, 3, 4, 5)],
    [suffix(n)[0] for n in (1, 2, 3, 4, 5)],
    prefix(4)[-1],
    prefix(4)[1],
    suffix(3)[-1],
    suffix(3)[1],
    # parts of speech
    pos.window(-2, 2),
    pos[-1] & pos[0],
    pos[0] & pos[1],
    # what the sentence is about
    bag(lower, -4, 4),
]

DOCUMENT: Templates = [
    SENTENCE,
    # what stands beside the other occurrences of this capitalised word in the document
    elsewhere(lower[-1]),
    elsewhere(lower[1]),
    elsewhere(pos[-1]),
    elsewhere(pos[0]),
    elsewhere(pos[1]),
    # the topic: reports of one sport open with the same word
    document_start & short_shape,
]

LETTERS: Templates = [
    DOCUMENT,
    # what an unknown word is made of: names of proteins, drugs, products
    ngrams(lower, 2, 4),
    # a longer phrase around
    lower[-3],
    lower[3],
    lower[-2] & lower[-1],
    lower[1] & lower[2],
    lower[-1] & lower[1],
    # the word and how its neighbours are written; how neighbours end
    lower[0] & short_shape[-1],
    lower[0] & short_shape[1],
    suffix(3)[-1] & suffix(3)[0],
    suffix(3)[0] & suffix(3)[1],
    suffix(3)[-1] & suffix(3)[0] & suffix(3)[1],
]


# -- Choosing a feature set by name, for the columns that a corpus has ---------------------------------

NAMED = {"sentence": SENTENCE, "document": DOCUMENT, "letters": LETTERS}


def for_corpus(templates: str | Templates, corpus: Corpus) -> list[Template]:
    """A named set without the templates whose columns are missing, also as a part of a list; others as they are.

    A template of the user's own that reads a missing column is an error when it is used.
    """

    def opened(item: Any) -> Any:
        if isinstance(item, str):
            return _named(item, corpus)
        if isinstance(item, Template) or not isinstance(item, Iterable):
            return item
        return [opened(one) for one in item]

    return flatten(opened(templates))


def _named(name: str, corpus: Corpus) -> list[Template]:
    if name not in NAMED:
        *others, last = map(repr, NAMED)
        raise SettingError("templates", name, f"{', '.join(others)} or {last}, or a list")
    return [t for t in flatten(NAMED[name]) if set(t.needs()) <= set(corpus.columns)]


# -- feature sets from model files ----------------------------------------------------------------------
#
# A user's functions are not in the file: it keeps their names, and they are passed in again.


def restored_features(
    file: ModelFile, functions: Functions, trusted: Collection[str] = ()
) -> TokenFeatures | DictFeatures:
    """The feature set that `spec` and `state` described, of templates or of feature dicts."""
    spec = file.header
    features: TokenFeatures | DictFeatures
    if spec.get("dicts"):
        features = DictFeatures(spec["min_count"])
    else:
        templates = [_template(template, functions, file.strings, trusted) for template in spec["templates"]]
        features = TokenFeatures(templates, spec["min_count"])
    features.restore(file.arrays, file.strings)
    return features


def _template(
    spec: Mapping[str, Any], functions: Functions, strings: Mapping[str, Sequence[str]], trusted: Collection[str]
) -> Template:
    """What `Template.spec` describes; `strings` has the entries of gazetteers and tables."""

    def attribute(spec: Mapping[str, Any]) -> Attribute:
        if "column" in spec:
            return attributes.Raw(spec["column"])
        if "kind" in spec:
            found = attributes.Derived(spec["kind"], tuple(spec["arguments"]), attribute(spec["of"]))
            if found.kind == "matches":
                attributes.check_pattern(found.arguments[1], trusted)
            return found
        if "function" in spec:
            return attributes.PerWord(spec["function"], given_again(spec["function"], functions, "a feature function"))
        if "document" in spec:
            return attributes.Context(spec["document"])
        if "lookup" in spec:
            entries = strings[f"lookup.{spec['lookup']}"]
            table = dict(zip(entries[::2], entries[1::2], strict=True))
            return attributes.Lookup(spec["lookup"], table, attribute(spec["of"]))
        if "gazetteer" in spec:
            entries = strings[f"gazetteer.{spec['gazetteer']}"]
            return attributes.Gazetteer(spec["gazetteer"], frozenset(entries), spec["ignore_case"])
        raise ModelFileError(f"the model uses a feature template this version does not know: {sorted(spec)}")

    if "bag" in spec:
        return bag(attribute(spec["bag"]), int(spec["first"]), int(spec["last"]))
    if "ngrams" in spec:
        return ngrams(attribute(spec["ngrams"]), int(spec["first"]), int(spec["last"]))
    if "per_token" in spec:
        return PerToken(spec["per_token"], given_again(spec["per_token"], functions, "a feature function"))
    inner = spec.get("elsewhere", spec)
    if "conjunction" not in inner:
        raise ModelFileError(f"the model uses a feature template this version does not know: {sorted(spec)}")
    conjunction = Conjunction(tuple((attribute(a), int(offset)) for a, offset in inner["conjunction"]))
    return Elsewhere(conjunction) if "elsewhere" in spec else conjunction
