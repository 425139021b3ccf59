"""Attributes: what can be said of one token, as a column of strings.

An attribute of a word (lower case, shape, affix) is worked out once a word type and spread to the
tokens by indexing. `word[-1]` is the attribute one token to the left; `word[-1] & word` conjoins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from re import _constants, _parser  # type: ignore[attr-defined]  # what a pattern consists of
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.errors import InputError, SettingError, UntrustedError
from kinfolk.text.corpus import Corpus, of_words, shifted
from kinfolk.text.templates import OUTSIDE, Attribute

Values = Sequence[str]
MaybeValues = Sequence[str | None]


@dataclass(frozen=True)
class Raw(Attribute):
    """A column as read from the file: `word`, `pos`, `chunk`, ..."""

    KEY: ClassVar[str] = "column"
    name: str

    def column(self, corpus: Corpus) -> Column:
        if self.name not in corpus.columns:
            raise InputError(
                f"a feature template reads column {self.name!r}, which the corpus does not have "
                f"(it has: {', '.join(corpus.columns)}). Name the columns when reading, or choose other templates."
            )
        return corpus.columns[self.name]

    def needs(self) -> tuple[str, ...]:
        return (self.name,)


class _Shapes(dict[int, str]):
    """Letters to X, x, digits to d, the rest as it is; for `str.translate`, which asks once a character."""

    def __missing__(self, code: int) -> str:
        character = shown = chr(code)
        if character.isdecimal():
            shown = "d"
        elif character.isalpha():
            shown = "X" if character.isupper() or character.istitle() else "x"
        self[code] = shown
        return shown


_SHAPES = _Shapes()


def _shape(values: Values) -> list[str]:
    """`McCall-9` is `XxXxxx-d`."""
    return [v.translate(_SHAPES) for v in values]


def _short_shape(values: Values) -> list[str]:
    """The shape with runs folded: `McCall-9` is `XxXx-d`."""
    shapes = _shape(values)
    folded = {shape: _RUN.sub(r"\1", shape) for shape in set(shapes)}
    return [folded[shape] for shape in shapes]


MATCHED = 1000  # characters of a value that a pattern is looked for in
LONGEST_PATTERN, MOST_RUNS = 1000, 4  # of a pattern that a file may hold: characters, repeats without a limit
_RUN = re.compile(r"(.)\1+")
_DIGIT = re.compile(r"\d")

# kind -> function from all distinct values to what is said of them; None = nothing to say.
_KINDS: dict[str, Callable[..., MaybeValues]] = {
    "lower": lambda values: [v.lower() for v in values],
    "folded": lambda values: [_DIGIT.sub("0", v.lower()) for v in values],
    "shape": _shape,
    "short_shape": _short_shape,
    "prefix": lambda values, n: [v[:n] if len(v) >= n else None for v in values],
    "suffix": lambda values, n: [v[-n:] if len(v) >= n else None for v in values],
    "capitalised": lambda values: ["yes" if is_capitalised(v) else None for v in values],
    "matches": lambda values, name, pattern: [name if re.search(pattern, v[:MATCHED]) else None for v in values],
}
SHORT_RUN = 10  # repeats up to here count for nothing
REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, getattr(_constants, "POSSESSIVE_REPEAT", None))
_ARGUMENTS = {"prefix": 1, "suffix": 1, "matches": 2}  # how many a kind takes; the others none


def is_capitalised(word: str) -> bool:
    return word[:1].isupper()


@dataclass(frozen=True)
class Derived(Attribute):
    """A built-in function of the value of another attribute, once for each distinct value."""

    kind: str
    arguments: tuple[Any, ...] = ()
    of: Attribute = Raw("word")

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise SettingError.saying(f"unknown attribute {self.kind!r}; known: {', '.join(sorted(_KINDS))}")
        if len(self.arguments) != _ARGUMENTS.get(self.kind, 0):
            raise SettingError.saying(
                f"{self.kind} takes {_ARGUMENTS.get(self.kind, 0)} arguments; got {self.arguments}"
            )
        if self.kind in ("prefix", "suffix"):
            (length,) = self.arguments
            if not isinstance(length, int) or length < 1:
                raise SettingError.saying(
                    f"the length of a prefix or suffix must be a whole number of 1 or more; got {length!r}"
                )
        elif self.kind == "matches":
            name, pattern = self.arguments
            if not isinstance(name, str) or not isinstance(pattern, str):
                raise SettingError.saying(f"matches takes a name and a pattern; got {name!r} and {pattern!r}")
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                raise SettingError.saying(f"matches({name!r}, ...): not a regular expression: {error}") from None

    def column(self, corpus: Corpus) -> Column:
        return _mapped(self.of.column(corpus), self.of_values)

    def of_values(self, values: Values) -> MaybeValues:
        """What is said of each value."""
        return _KINDS[self.kind](values, *self.arguments)

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "arguments": list(self.arguments), "of": self.of.spec()}

    def needs(self) -> tuple[str, ...]:
        return self.of.needs()

    def __str__(self) -> str:
        shown = [*map(str, self.arguments), *([] if self.of == word else [str(self.of)])]
        return f"{self.kind}({', '.join(shown)})" if shown else self.kind


def check_pattern(pattern: str, trusted: Collection[str]) -> None:
    """Raise an UntrustedError for a pattern of a model file that may take for ever to look for in a short word."""
    if pattern not in trusted and may_take_long(pattern):
        raise UntrustedError(f"words are matched by a pattern that may take for ever: {pattern[:200]!r}", [pattern])


def may_take_long(pattern: str) -> bool:
    """Whether there may be many ways to look for it: repeats or choices inside a repeat, as in (a+)+ or (a|aa)*; what
    was found before to be found again; many repeats one after the other."""
    if len(pattern) > LONGEST_PATTERN:
        return True
    runs, waiting = 0, [(_parser.parse(pattern), False)]
    while waiting:
        parts, repeated = waiting.pop()
        for kind, value in parts:
            if kind in (_constants.GROUPREF, _constants.GROUPREF_EXISTS):
                return True
            inner, again = [], repeated
            if kind in REPEATS:
                least, most, inside = value
                if repeated and least < most:
                    return True
                runs += most > SHORT_RUN and least < most
                inner, again = [inside], repeated or most > 1
            elif kind == _constants.BRANCH:
                if repeated and not _differ_at_once(value[1]):
                    return True
                inner = value[1]
            elif kind == _constants.SUBPATTERN:
                inner = [value[-1]]
            elif kind in (_constants.ASSERT, _constants.ASSERT_NOT):
                inner = [value[1]]
            elif kind == getattr(_constants, "ATOMIC_GROUP", None):
                inner = [value]
            waiting += [(one, again) for one in inner]
    return runs > MOST_RUNS


def _differ_at_once(choices: Sequence[Any]) -> bool:
    """Whether each begins with a letter of its own, so that there is one way to go."""
    first = [one[0] if len(one) else None for one in choices]
    letters = [value for kind, value in (one for one in first if one is not None) if kind == _constants.LITERAL]
    return len({*letters}) == len(first)


@dataclass(frozen=True)
class PerWord(Attribute):
    """A user's function of one word: returns a string, or None for nothing to say.

    Called once a distinct word. The model file keeps the name; the function is passed in again on load.
    """

    KEY: ClassVar[str] = "function"
    name: str
    function: Callable[[str], str | None]

    def column(self, corpus: Corpus) -> Column:
        return _mapped(corpus.columns["word"], lambda values: [self._call(v) for v in values])

    def _call(self, value: str) -> str | None:
        answer = self.function(value)
        if answer is not None and not isinstance(answer, str):
            raise SettingError.saying(
                f"feature function {self.name!r} must return a string or None; for {value!r} it returned {answer!r}"
            )
        return answer


def _mapped(column: Column, function: Callable[[Values], MaybeValues]) -> Column:
    """Apply a function of all distinct values and renumber: tokens follow by indexing."""
    types = Column.from_strings(function(column.values))
    return Column(np.append(types.codes, -1)[column.codes], types.values)  # the last is where code -1 points


def prefix(length: int, of: Attribute | None = None) -> Derived:
    """The first `length` characters; nothing for a shorter word."""
    return Derived("prefix", (length,), of or word)


def suffix(length: int, of: Attribute | None = None) -> Derived:
    """The last `length` characters; nothing for a shorter word."""
    return Derived("suffix", (length,), of or word)


def matches(name: str, pattern: str, of: Attribute | None = None) -> Derived:
    """Present (with value `name`) where the regular expression is found in the word."""
    return Derived("matches", (name, pattern), of or word)


column, per_word = Raw, PerWord  # as templates are written: column("lemma")[0], per_word("stem", stem)[0]
word, pos, chunk = Raw("word"), Raw("pos"), Raw("chunk")
lower, shape, short_shape = Derived("lower"), Derived("shape"), Derived("short_shape")
folded = Derived("folded")  # in lower case, every digit 0
capitalised = Derived("capitalised")


# -- attributes that read more than one token: the sentence, the run of capitals, the document --------------

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Context(Attribute):
    """A built-in function of the words of the whole corpus:

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

    KEY: ClassVar[str] = "document"
    name: str

    def __post_init__(self) -> None:
        if self.name not in _DOCUMENT_KINDS:
            raise SettingError.saying(f"unknown attribute {self.name!r}; known: {', '.join(sorted(_DOCUMENT_KINDS))}")

    def column(self, corpus: Corpus) -> Column:
        return _DOCUMENT_KINDS[self.name](corpus) if corpus.n_tokens else Column(np.empty(0, np.int32), ())


def _yes(mask: Mask) -> Column:
    return Column(np.where(mask, 0, -1), ("yes",))


def _all_caps(corpus: Corpus) -> Mask:
    starts = corpus.sentence_starts
    low = np.add.reduceat(of_words(corpus, lambda v: v != v.upper()), starts[:-1], dtype=np.int64)
    high = np.add.reduceat(of_words(corpus, lambda v: v != v.lower()), starts[:-1], dtype=np.int64)
    return np.repeat((low == 0) & (high > 0), np.diff(starts))


def _sentence_length(corpus: Corpus) -> Column:
    lengths = np.diff(corpus.sentence_starts)
    bins = np.searchsorted([1, 2, 3, 4, 8, 16], lengths).astype(np.int32)
    return Column(np.repeat(bins, lengths), ("1", "2", "3", "4", "5-8", "9-16", "more"))


def _run_ends(corpus: Corpus) -> tuple[Mask, Numbers, Numbers]:
    """Capitalised tokens, and for each of them the first and the last token of its run."""
    capital = of_words(corpus, is_capitalised)
    opens = np.zeros(corpus.n_tokens + 1, bool)
    opens[corpus.sentence_starts] = True
    opens[1:-1] |= capital[1:] != capital[:-1]
    starts = np.flatnonzero(opens)
    run = np.cumsum(opens[:-1]) - 1
    return capital, starts[run], starts[run + 1] - 1


def _run_word(corpus: Corpus, which: str) -> Column:
    capital, first, last = _run_ends(corpus)
    words = lower.column(corpus)
    at = {"first": first, "last": last, "before": first, "after": last}[which]
    found = shifted(words.codes + 1, corpus, {"before": -1, "after": 1}.get(which, 0))[at] - 1
    found[found < 0] = len(words.values)  # beyond the sentence
    return Column(np.where(capital, found, -1), (*words.values, OUTSIDE))


def _mid_sentence(corpus: Corpus) -> Mask:
    mask = ~_all_caps(corpus)
    mask[corpus.sentence_starts[:-1]] = False
    return mask


def _word_in_document(corpus: Corpus) -> Numbers:
    """A number for each pair of a document and a lower-cased word in it, from 0."""
    words = lower.column(corpus)
    pairs = corpus.token_documents.astype(np.int64) * len(words.values) + words.codes
    numbers: Numbers = np.unique(pairs, return_inverse=True)[1]
    return numbers


def _seen_elsewhere(corpus: Corpus, mask: Mask) -> Column:
    """Where another token of the document with the same word, whatever its case, is in the mask."""
    group = _word_in_document(corpus)
    counts = np.bincount(group, weights=mask)
    return _yes(counts[group] - mask > 0)


def _seen_capitalised(corpus: Corpus) -> Column:
    return _seen_elsewhere(corpus, of_words(corpus, is_capitalised) & _mid_sentence(corpus))


def _seen_lower(corpus: Corpus) -> Column:
    return _seen_elsewhere(corpus, of_words(corpus, lambda v: v != v.upper() and v == v.lower()))


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


_DOCUMENT_KINDS: dict[str, Callable[[Corpus], Column]] = {
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
run_first, run_last, run_before, run_after = map(Context, ("run_first", "run_last", "run_before", "run_after"))
seen_capitalised, seen_lower = Context("seen_capitalised"), Context("seen_lower")
document_case, document_start = Context("document_case"), Context("document_start")


# -- Tables of words: what somebody knows of them, such as their cluster or their stem ------------------------------


@dataclass(frozen=True)
class Lookup(Attribute):
    """What a table says of a word; nothing of words that are not in it. The model file keeps the table."""

    KEY: ClassVar[str] = "lookup"
    name: str
    table: Mapping[str, str] = field(repr=False, hash=False)
    of: Attribute = Raw("word")

    def column(self, corpus: Corpus) -> Column:
        return _mapped(self.of.column(corpus), self.of_values)

    def of_values(self, values: Values) -> MaybeValues:
        """What is said of each value."""
        return [self.table.get(value) for value in values]

    def spec(self) -> dict[str, Any]:
        return {**super().spec(), "of": self.of.spec()}

    def needs(self) -> tuple[str, ...]:
        return self.of.needs()


def lookup(name: str, table: Mapping[str, str], of: Attribute | None = None) -> Lookup:
    """An attribute from a table of words, such as clusters of words: `lookup("stem", {"genes": "gene"}, lower)`.

    of  what is looked up, by default the word
    """
    strange = [entry for pair in table.items() for entry in pair if not isinstance(entry, str)]
    if strange:
        raise InputError(f"lookup takes a table of strings to strings; got {strange[0]!r}")
    return Lookup(name, dict(table), of or word)


# -- Gazetteers: lists of known names as an attribute of tokens ----------------------------------------
#
# The longest entry that starts at a token wins; its tokens say B, I, ... or S for an entry of one word.
# Entries are kept in the model file, so tagging needs the list no more.


@dataclass(frozen=True)
class Gazetteer(Attribute):
    """Tokens inside an entry of the list, by place in the entry."""

    KEY: ClassVar[str] = "gazetteer"
    name: str
    entries: frozenset[str]
    ignore_case: bool = False

    def column(self, corpus: Corpus) -> Column:
        fold = str.lower if self.ignore_case else str
        phrases = {tuple(fold(entry).split(" ")) for entry in self.entries}
        longest = max(map(len, phrases), default=0)
        opening = {phrase[0] for phrase in phrases}
        marks: list[str | None] = []
        for sentence in corpus.rows():
            words = [fold(w) for w in sentence]
            at = 0
            while at < len(words):
                sizes = range(min(longest, len(words) - at), 0, -1) if words[at] in opening else ()
                size = next((n for n in sizes if tuple(words[at : at + n]) in phrases), 0)
                marks += ["B", *["I"] * (size - 2), "E"] if size > 1 else ["S" if size else None]
                at += max(size, 1)
        return Column.from_strings(marks)

    def spec(self) -> dict[str, Any]:
        return {**super().spec(), "ignore_case": self.ignore_case}

    def __str__(self) -> str:
        return f"gazetteer({self.name})"


def gazetteer(name: str, entries: Iterable[str], ignore_case: bool = False) -> Gazetteer:
    """An attribute from a list of names, each of one or more words separated by blanks."""
    if isinstance(entries, str):
        raise InputError("gazetteer takes a list of names; to read a file use kinfolk.read_gazetteer")
    kept = frozenset(" ".join(entry.split()) for entry in entries)
    return Gazetteer(name, kept - {""}, ignore_case)
