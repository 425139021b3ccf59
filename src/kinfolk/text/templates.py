"""The template language: attributes, offsets, conjunctions, bags, other occurrences, letters.

    word[-1]                   the word to the left
    word.window(-2, 2)         five templates, one an offset
    lower[-1] & lower[0]       both together
    bag(lower, -4, 4)          the words near by, wherever they stand
    elsewhere(lower[1])        what follows *other* occurrences of this capitalised word in the document
    ngrams(lower, 2, 4)        runs of two to four letters of the word, its ends marked

A template gives each token zero or more whole-number keys. Within one template a key stands for one
tuple of attribute values: with attribute codes c in 0..r-1 (0 = beyond the sentence), the key of a
conjunction is the mixed-radix number ((c1 * r2) + c2) * r3 + c3 ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column, Vocabulary
from kinfolk.errors import SettingError
from kinfolk.text.corpus import Corpus, of_words, shifted, starts_of

# -- A corpus seen through a vocabulary: attribute values as numbers, shifted by offsets ---------------
#
# While a feature set is learned the view numbers the values it meets; later it uses the frozen numbers,
# and a value never met in training has none (-1).

MAX_OCCURRENCES = 20  # other occurrences of one word looked at: the nearest ones of a longer list


class TokenView:
    """Codes of attributes for the tokens of one corpus.

    Codes run from 1; 0 stands for a position beyond the sentence, -1 for no (or an unknown) value.
    `vocabularies` maps str(attribute) to its values; it grows while `learning`, else it is only read.
    """

    def __init__(self, corpus: Corpus, vocabularies: dict[str, Vocabulary], learning: bool) -> None:
        self.corpus = corpus
        self.vocabularies = vocabularies
        self._learning = learning
        self._codes: dict[str, NDArray[np.int32]] = {}

    def prepare(self, attributes: Sequence[Attribute]) -> None:
        """Work out the codes of all attributes, so that `codes` only reads and threads may share the view."""
        for attribute in attributes:
            self.unshifted_codes(attribute)

    def values(self, attribute: Attribute) -> Vocabulary:
        return self.vocabularies[str(attribute)]

    def radix(self, attribute: Attribute) -> int:
        """Number of codes: every value, and 0."""
        return len(self.vocabularies[str(attribute)]) + 1

    def encode(self, name: str, column: Column) -> NDArray[np.int32]:
        """Codes of a column in the vocabulary `name`, which is made here while learning."""
        if self._learning and name not in self.vocabularies:
            if len(set(column.values)) < len(column.values):  # two codes for one string: number them anew
                column = Column.from_strings(column.strings())
            self.vocabularies[name] = Vocabulary(column.values)
            return column.codes + (column.codes >= 0)  # values are numbered as in the column itself
        numbers = self.vocabularies[name].encode(column.values)
        # The entry behind the last value is where code -1 (no value) lands.
        table = np.concatenate([np.where(numbers < 0, -1, numbers + 1), [-1]]).astype(np.int32)
        return table[column.codes]

    def unshifted_codes(self, attribute: Attribute) -> NDArray[np.int32]:
        name = str(attribute)
        if name not in self._codes:
            self._codes[name] = self.encode(name, attribute.column(self.corpus))
        return self._codes[name]

    def codes(self, attribute: Attribute, offset: int) -> NDArray[np.int32]:
        return shifted(self.unshifted_codes(attribute), self.corpus, offset)

    @cached_property
    def other_occurrences(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """CSR: for each capitalised token, the nearest other tokens of its document with the same word.

        In a list of tokens ordered by (document, word) a word is a run, and they are a window that slides along it.
        """
        words, n = self.corpus.columns["word"], self.corpus.n_tokens
        group = self.corpus.token_documents.astype(np.int64) * max(1, len(words.values)) + words.codes
        tokens = np.flatnonzero(of_words(self.corpus, lambda word: word[:1].isupper()))
        order = tokens[np.argsort(group[tokens], kind="stable")]
        sizes = np.unique(group[order], return_counts=True)[1]
        size, start = np.repeat(sizes, sizes), np.repeat(starts_of(sizes)[:-1], sizes)  # of the run at each place
        place, width = np.arange(len(order)), np.minimum(size - 1, MAX_OCCURRENCES)
        first = np.maximum(start, np.minimum(place - width // 2, start + size - width - 1))
        by_token = np.argsort(order)
        place, first, width = place[by_token], first[by_token], width[by_token]
        counts = np.zeros(n, np.int64)
        counts[tokens] = width
        indptr = starts_of(counts)
        at = np.arange(indptr[-1]) + np.repeat(first - starts_of(width)[:-1], width)
        return indptr, order[at + (at >= np.repeat(place, width))]  # a token is no other occurrence of itself


# -- templates -------------------------------------------------------------------------------------

FARTHEST = 200  # tokens from a token to what a template reads
LONGEST_RUN = 100  # characters
OUTSIDE = "<outside>"  # how a position beyond the sentence is shown in feature names


class Keys(NamedTuple):
    """Keys of all tokens: a table (n, width), -1 = none; or, with `indptr` (n + 1,), runs of any length."""

    keys: NDArray[np.integer]
    indptr: NDArray[np.int64] | None = None


class Template:
    """Gives each token its keys, and names a key for people."""

    def keys(self, view: TokenView) -> Keys:
        raise NotImplementedError

    def describe(self, key: int, view: TokenView) -> str:
        raise NotImplementedError

    def n_keys(self, view: TokenView) -> int:
        """Keys are below it."""
        raise NotImplementedError

    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes it reads, whose values are part of the frozen vocabulary."""
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        """A JSON description from which the template is rebuilt."""
        raise NotImplementedError

    def needs(self) -> tuple[str, ...]:
        """Names of the corpus columns it reads."""
        return tuple(name for attribute in self.attributes() for name in attribute.needs())


class Attribute:
    """Something a token has a value of, or lacks: maps a corpus to a Column of strings."""

    KEY: ClassVar[str]  # what a model file calls its kind
    name: str

    def column(self, corpus: Corpus) -> Column:
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        """A JSON description from which the attribute is rebuilt."""
        return {self.KEY: self.name}

    def needs(self) -> tuple[str, ...]:
        """Names of the corpus columns it reads."""
        return ("word",)

    __iter__ = None  # __getitem__ alone would make an attribute an endless sequence

    def __getitem__(self, offset: int) -> Conjunction:
        if not isinstance(offset, int):
            raise SettingError.saying(f"{self}[...] takes one offset such as -1; for several use .window(-2, 2)")
        return Conjunction(((self, offset),))

    def window(self, first: int, last: int) -> list[Conjunction]:
        """One template for each offset from `first` to `last`, both included."""
        if first > last:
            raise SettingError.saying(
                f"{self}.window({first}, {last}) is empty: the first offset comes before the last"
            )
        return [self[offset] for offset in range(first, last + 1)]

    def __and__(self, other: Attribute | Conjunction) -> Conjunction:
        return self[0] & other

    def __str__(self) -> str:
        return self.name


def _check_offset(attribute: Attribute, offset: Any) -> None:
    if not isinstance(offset, int) or abs(offset) > FARTHEST:
        raise SettingError.saying(f"{attribute}[{offset}]: an offset is a whole number from -{FARTHEST} to {FARTHEST}")


@dataclass(frozen=True)
class Conjunction(Template):
    """Attributes at offsets, all together; absent where one of them has no value."""

    terms: tuple[tuple[Attribute, int], ...]

    def __post_init__(self) -> None:
        if not self.terms:
            raise SettingError.saying("a conjunction of no attributes says nothing; name one")
        for attribute, offset in self.terms:
            _check_offset(attribute, offset)

    def __and__(self, other: Attribute | Conjunction) -> Conjunction:
        if not isinstance(other, Attribute | Conjunction):
            return NotImplemented
        right = other[0] if isinstance(other, Attribute) else other
        return Conjunction(self.terms + right.terms)

    def attributes(self) -> tuple[Attribute, ...]:
        return tuple(attribute for attribute, _ in self.terms)

    def n_keys(self, view: TokenView) -> int:
        return math.prod(view.radix(attribute) for attribute, _ in self.terms)

    def keys(self, view: TokenView) -> Keys:
        combined: NDArray[np.int64] | None = None
        room = 1
        for attribute, offset in self.terms:
            room *= view.radix(attribute)
            if room >= 2**62:
                raise SettingError.saying(
                    f"template {self} has more combinations than fit 62 bits: conjoin fewer attributes"
                )
            codes = view.codes(attribute, offset)
            if combined is None:
                combined = codes.astype(np.int64)
            else:
                missing = (combined < 0) | (codes < 0)
                combined = combined * view.radix(attribute) + codes
                combined[missing] = -1
        assert combined is not None
        return Keys(combined[:, None])

    def describe(self, key: int, view: TokenView) -> str:
        parts = []
        for attribute, offset in reversed(self.terms):
            key, code = divmod(key, view.radix(attribute))
            value = OUTSIDE if code == 0 else view.values(attribute)[code - 1]
            parts.append(f"{attribute}[{offset}]={value}")
        return " & ".join(reversed(parts))

    def spec(self) -> dict[str, Any]:
        return {"conjunction": [[attribute.spec(), offset] for attribute, offset in self.terms]}

    def __str__(self) -> str:
        return " & ".join(f"{attribute}[{offset}]" for attribute, offset in self.terms)


@dataclass(frozen=True)
class Bag(Template):
    """The values of an attribute at any of the offsets first..last except 0, each once."""

    attribute: Attribute
    first: int
    last: int

    def __post_init__(self) -> None:
        _check_offset(self.attribute, self.first)
        _check_offset(self.attribute, self.last)

    def attributes(self) -> tuple[Attribute, ...]:
        return (self.attribute,)

    def n_keys(self, view: TokenView) -> int:
        return view.radix(self.attribute)

    def keys(self, view: TokenView) -> Keys:
        offsets = [o for o in range(self.first, self.last + 1) if o != 0]
        table = np.empty((view.corpus.n_tokens, len(offsets)), np.int64)
        for i, offset in enumerate(offsets):
            table[:, i] = view.codes(self.attribute, offset)
        table[table == 0] = -1
        return Keys(table)

    def describe(self, key: int, view: TokenView) -> str:
        return f"{self}={view.values(self.attribute)[key - 1]}"

    def spec(self) -> dict[str, Any]:
        return {"bag": self.attribute.spec(), "first": self.first, "last": self.last}

    def __str__(self) -> str:
        return f"bag({self.attribute}, {self.first}, {self.last})"


@dataclass(frozen=True)
class Elsewhere(Template):
    """A conjunction read at the *other* occurrences of the same capitalised word in the document."""

    inner: Conjunction

    def attributes(self) -> tuple[Attribute, ...]:
        return self.inner.attributes()

    def n_keys(self, view: TokenView) -> int:
        return self.inner.n_keys(view)

    def keys(self, view: TokenView) -> Keys:
        indptr, others = view.other_occurrences
        return Keys(self.inner.keys(view).keys[:, 0][others], indptr)

    def describe(self, key: int, view: TokenView) -> str:
        return f"elsewhere({self.inner.describe(key, view)})"

    def spec(self) -> dict[str, Any]:
        return {"elsewhere": self.inner.spec()}

    def __str__(self) -> str:
        return f"elsewhere({self.inner})"


@dataclass(frozen=True)
class Ngrams(Template):
    """All runs of `first` to `last` characters of a value, ^ before its first and $ behind its last, each once.

    They are worked out once a distinct value, also of values that training never met.
    """

    attribute: Attribute
    first: int
    last: int

    def attributes(self) -> tuple[Attribute, ...]:
        return ()  # its values need no numbers: those of the runs are kept

    def n_keys(self, view: TokenView) -> int:
        return len(view.vocabularies[str(self)]) + 1

    def needs(self) -> tuple[str, ...]:
        return self.attribute.needs()

    def keys(self, view: TokenView) -> Keys:
        column = self.attribute.column(view.corpus)
        runs = [*map(self.of, column.values), []]  # the last is where code -1 (no value) points
        codes = view.encode(str(self), Column.from_strings(run for of_value in runs for run in of_value))
        sizes = np.array([len(of_value) for of_value in runs])
        starts, size = starts_of(sizes)[:-1][column.codes], sizes[column.codes]
        indptr = starts_of(size)
        return Keys(codes[np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], size)].astype(np.int64), indptr)

    def of(self, value: str) -> list[str]:
        """The runs of one value, shorter ones first."""
        marked = f"^{value}$"
        sizes = range(self.first, min(self.last, len(marked)) + 1)
        return list(dict.fromkeys(marked[i : i + n] for n in sizes for i in range(len(marked) - n + 1)))

    def describe(self, key: int, view: TokenView) -> str:
        return f"{self}={view.vocabularies[str(self)][key - 1]}"

    def spec(self) -> dict[str, Any]:
        return {"ngrams": self.attribute.spec(), "first": self.first, "last": self.last}

    def __str__(self) -> str:
        return f"ngrams({self.attribute}, {self.first}, {self.last})"


@dataclass(frozen=True)
class PerToken(Template):
    """A user's function of a sentence and a position; returns any number of strings.

    `function(sentence, position)`: `sentence` is a list of dicts, one a token, column name -> value.
    """

    name: str
    function: Callable[[list[dict[str, str]], int], Iterable[str]]

    def attributes(self) -> tuple[Attribute, ...]:
        return ()

    def n_keys(self, view: TokenView) -> int:
        return len(view.vocabularies[self.name]) + 1

    def keys(self, view: TokenView) -> Keys:
        rows = self._rows(view.corpus)
        indptr = starts_of([len(row) for row in rows])
        column = Column.from_strings(s for row in rows for s in row)
        return Keys(view.encode(self.name, column).astype(np.int64), indptr)

    def _rows(self, corpus: Corpus) -> list[list[str]]:
        names, bounds = list(corpus.columns), corpus.sentence_starts.tolist()
        values = zip(*(c.strings() for c in corpus.columns.values()), strict=True)
        tokens = [dict(zip(names, token, strict=True)) for token in values]
        rows = []
        for a, b in pairwise(bounds):
            sentence = tokens[a:b]
            rows += [self._checked(self.function(sentence, i)) for i in range(b - a)]  # type: ignore[arg-type]
        return rows

    def _checked(self, answer: Iterable[str]) -> list[str]:
        listed = isinstance(answer, Iterable) and not isinstance(answer, str)
        strings = list(answer) if listed else []
        if not listed or not all(isinstance(s, str) for s in strings):
            raise SettingError.saying(f"feature function {self.name!r} must return a list of strings; got {answer!r}")
        return list(dict.fromkeys(strings))

    def describe(self, key: int, view: TokenView) -> str:
        return f"{self.name}={view.vocabularies[self.name][key - 1]}"

    def spec(self) -> dict[str, Any]:
        return {"per_token": self.name}

    def __str__(self) -> str:
        return self.name


def bag(attribute: Attribute, first: int, last: int) -> Bag:
    """The values of `attribute` from offset `first` to `last`, without their places and without offset 0."""
    if not isinstance(attribute, Attribute):
        raise SettingError.saying(f"bag takes an attribute, as in bag(lower, -4, 4); got {attribute}")
    if first > last or first == last == 0:
        raise SettingError.saying(
            f"bag({attribute}, {first}, {last}) is empty: give a first and a last offset around 0"
        )
    return Bag(attribute, first, last)


def ngrams(attribute: Attribute, first: int, last: int) -> Ngrams:
    """Runs of `first` to `last` characters of the values of `attribute`, whose ends are marked by ^ and $."""
    if not isinstance(attribute, Attribute):
        raise SettingError.saying(f"ngrams takes an attribute, as in ngrams(lower, 2, 4); got {attribute}")
    if not 1 <= first <= last:
        raise SettingError.saying(
            f"ngrams({attribute}, {first}, {last}) is empty: give a least and a greatest length, of 1 or more"
        )
    if last > LONGEST_RUN:
        raise SettingError.saying(f"ngrams({attribute}, {first}, {last}): give lengths from 1 to {LONGEST_RUN}")
    return Ngrams(attribute, first, last)


def elsewhere(template: Attribute | Conjunction) -> Elsewhere:
    """Read a template at the other occurrences of this capitalised word in the same document."""
    inner = template[0] if isinstance(template, Attribute) else template
    if not isinstance(inner, Conjunction):
        raise SettingError.saying(
            f"elsewhere takes an attribute or a conjunction, as in elsewhere(lower[1]); got {inner}"
        )
    return Elsewhere(inner)


per_token = PerToken  # as templates are written: per_token("near", function)
