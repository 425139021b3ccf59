"""Tag schemes: entities written as one tag a token, and read back.

Every tag is O (outside) or a letter and a type, such as B-PER; a bare letter is an entity without a type.

    IOB1   I for every token, B only where an entity touches the one before it and has its type
    BIO    B for the first token, I for the others (also called IOB2)
    IOBES  as BIO, with E for the last token and S for an entity of one token
    BILOU  as IOBES, with L in place of E and U in place of S

Reading is conlleval's: lenient, and the same for all four, as no letter means two things. A chunk is a
run of tags of one type, cut before B, S, U, after E, S, L, U, and between sentences. An unknown label
(code -1) counts as O where entities are read; what stands beside it may be part of an entity that is not given in
full, so it says nothing of the scheme and breaks none: in BIO, I-PER after an unknown label says that the label is
B-PER or I-PER.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.core.data import Classes, Column, read_only, warn_unseen
from kinfolk.core.modelfile import fits
from kinfolk.core.settings import SCHEMES
from kinfolk.errors import InputError, SettingError
from kinfolk.text.corpus import Corpus

# -- Tags: what one tag says, and what each token is to its entity -------------------------------------
#
# The letters of the four schemes come down to five roles, so everything that reads tags reads roles.

TAG = re.compile(r"O|([BIESLU])(?:-(.+))?")
LETTERS = {"IOB1": "IB", "BIO": "IB", "IOBES": "IBES", "BILOU": "IBLU"}  # inner, first, last, only
OUT, IN, FIRST, LAST, ONLY = range(5)  # what a letter does, whatever the scheme calls it
ROLES = {None: OUT, "I": IN, "B": FIRST, "E": LAST, "L": LAST, "S": ONLY, "U": ONLY}
# Roles that may open an entity, close one, and carry on from a B or I of their type.
_RULES = {
    "IOB1": ([OUT, IN], [OUT, IN, FIRST], [IN, FIRST]),
    "BIO": ([OUT, FIRST], [OUT, IN, FIRST], [IN]),
    "IOBES": ([OUT, FIRST, ONLY], [OUT, LAST, ONLY], [IN, LAST]),
    "BILOU": ([OUT, FIRST, ONLY], [OUT, LAST, ONLY], [IN, LAST]),
}

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Scores = NDArray[np.float64]
_OPENS, _CLOSES = (np.isin(np.arange(5), roles) for roles in ([FIRST, ONLY], [LAST, ONLY]))  # whatever stands beside


class Tokens:
    """What each token is to its entity: role and type of its tag, and whether it begins or ends one."""

    def __init__(self, labels: Column, sentence_starts: ArrayLike, scheme: str) -> None:
        checked(scheme)
        roles, types, self.names = parse([*labels.values, "O"])
        self.roles, self.types = roles[labels.codes], types[labels.codes]  # code -1 reads the last: O
        edges = sentence_edges(sentence_starts, len(labels))
        same = np.zeros(len(edges), bool)  # same[t]: tokens t - 1 and t stand together and share a type
        same[1:-1] = ~edges[1:-1] & (self.types[1:] == self.types[:-1])
        uncut = same.copy()
        uncut[1:-1] &= ~_OPENS[self.roles[1:]] & ~_CLOSES[self.roles[:-1]]
        inside = self.roles != OUT
        self.touches = same[:-1]
        self.begins, self.ends = inside & ~uncut[:-1], inside & ~uncut[1:]


def parse(names: Sequence[str]) -> tuple[Ints, Ints, list[str]]:
    """Role and type number (-1 for O) of each label, and the types."""
    roles, numbers, types = _parsed(tuple(names))
    return roles, numbers, list(types)


@lru_cache(64)
def _parsed(names: tuple[str, ...]) -> tuple[Ints, Ints, tuple[str, ...]]:
    types: dict[str, int] = {}
    roles, numbers = np.zeros(len(names), np.int64), np.full(len(names), -1)
    for i, name in enumerate(names):
        match = TAG.fullmatch(name)
        if match is None:
            raise InputError(f"label {name!r} is not a tag; expected O or a tag such as B-PER")
        roles[i] = ROLES[match[1]]
        if match[1]:
            numbers[i] = types.setdefault(match[2] or "", len(types))
    return read_only(roles), read_only(numbers), tuple(types)


def grammar(names: Sequence[str], scheme: str, relaxed: bool = False) -> tuple[Bools, Bools, Bools]:
    """Strict validity of tag pairs, first tags and last tags; `relaxed` is the rule of `transitions`."""
    roles, types, type_names = parse(names)
    opens, closes, continues = (np.isin(roles, able) for able in _RULES[scheme])
    continued = np.isin(roles, [FIRST, IN])
    if relaxed:
        for number in range(len(type_names)):
            own = types == number
            opens |= own & ~(own & opens & continued).any()
            closes |= own & ~(own & closes & continues).any()
    within = (types[:, None] == types) & continued[:, None] & continues
    return (closes[:, None] & opens) | within, opens, closes


def sentence_edges(sentence_starts: ArrayLike, n: int) -> Bools:
    """bool (n + 1,): whether a sentence starts at t (and so one ends at t - 1)."""
    starts = np.asarray(sentence_starts, np.int64)
    if not len(starts) or starts[-1] != n:
        raise InputError(f"sentence_starts must end with the number of labels, {n}; got {starts[-1:]}")
    edges = np.zeros(n + 1, bool)
    edges[starts] = True
    edges[0] = True
    return edges


def is_tag(name: str, scheme: str) -> bool:
    match = TAG.fullmatch(name)
    return match is not None and (match[1] is None or match[1] in LETTERS[checked(scheme)])


def not_a_tag(name: str, scheme: str) -> str:
    expected = ", ".join(f"{letter}-TYPE" for letter in LETTERS[scheme])
    return f"{name!r} is not a tag of {scheme}; expected O, {expected}"


def checked(scheme: str) -> str:
    if scheme not in SCHEMES:
        raise SettingError("scheme", scheme, f"one of {', '.join(SCHEMES)}")
    return scheme


# -- schemes ---------------------------------------------------------------------------------------

TOLERANCE = 0.01  # share of entities that may open with B in IOB1 where none touches them (two do in eng.train)


class Span(NamedTuple):
    """Tokens start, ..., end - 1 of the corpus are one entity of this type ("" = without a type)."""

    start: int
    end: int
    type: str


class Fault(NamedTuple):
    """A token whose tag is wrong, and why."""

    token: int
    reason: str


class TagError(InputError):
    """Labels that cannot be read as tags; `fault.token` lets a reader name the line."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"token {fault.token}: {fault.reason}")
        self.fault = fault


def spans(labels: Column, sentence_starts: ArrayLike, scheme: str) -> list[Span]:
    """The entities in order, read as conlleval reads them."""
    tokens = Tokens(labels, sentence_starts, scheme)
    first, last = np.flatnonzero(tokens.begins), np.flatnonzero(tokens.ends)
    names = map(tokens.names.__getitem__, tokens.types[first].tolist())
    return list(map(Span, first.tolist(), (last + 1).tolist(), names))


def convert(labels: Column, sentence_starts: ArrayLike, source: str, target: str) -> Column:
    """The same entities in another scheme; -1 stays -1.

    The result is strictly valid whatever came in, so converting a scheme to itself repairs its tags. Those beside an
    unknown label then stay as open towards it as they are.
    """
    tokens = Tokens(labels, sentence_starts, source)
    if source == checked(target):
        after, before = _beside_unknown(labels, sentence_starts)
        tokens.begins = np.where(after, np.isin(tokens.roles, [FIRST, ONLY]), tokens.begins)
        tokens.ends = np.where(before, np.isin(tokens.roles, [LAST, ONLY]), tokens.ends)
        tokens.touches = tokens.touches | after
    codes, values = _written(tokens, target)
    return _compact(np.where(labels.codes < 0, -1, codes), values)


def tag(entities: Iterable[tuple[int, int, str]], sentence_starts: ArrayLike, scheme: str) -> Column:
    """Tags for entities that neither overlap nor cross sentences; the inverse of `spans`."""
    starts = np.asarray(sentence_starts, np.int64)
    marks = ["O"] * int(starts[-1])
    for start, end, name in entities:
        inside = 0 <= start < end <= len(marks) and end <= starts[np.searchsorted(starts, start, "right")]
        if not inside or set(marks[start:end]) != {"O"}:
            raise InputError(f"entity {(start, end, name)} is empty, overlaps another or leaves its sentence")
        ending = f"-{name}" if name else ""
        marks[start:end] = ["B" + ending] + ["I" + ending] * (end - start - 1)
    return convert(Column.from_strings(marks), starts, "BIO", scheme)


def not_tags(labels: Column, scheme: str) -> Fault | None:
    """The first label that is no tag of the scheme, or None."""
    strange = np.flatnonzero(_marked(labels, lambda name: not is_tag(name, scheme)))
    if not len(strange):
        return None
    return Fault(int(strange[0]), not_a_tag(labels.values[labels.codes[strange[0]]], scheme))


class Slips(NamedTuple):
    """Tags that break their scheme: how many, the first of them, and how many of each kind, most often met first."""

    total: int
    first: Fault
    kinds: dict[str, int]

    def and_then(self, later: Slips) -> Slips:
        """Those of two parts of a corpus."""
        return Slips(self.total + later.total, self.first, _often_first(Counter(self.kinds) + Counter(later.kinds)))

    def in_words(self, most: int = 4) -> str:
        """2 I-LOC after O, 1 I-PER at the start of a sentence"""
        shown = [f"{count:,} {kind}" for kind, count in self.kinds.items()][:most]
        others = self.total - sum([*self.kinds.values()][:most])
        return ", ".join(shown) + (f", {others:,} others" if others else "")


def _often_first(kinds: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0])))


def slips(
    labels: Column, sentence_starts: ArrayLike, scheme: str, found: bool = True, all_labels: Evidence | None = None
) -> Slips | None:
    """The tags that break the scheme; None if none does. Reading them repairs them.

    Letters of another scheme count. IOB1 takes entities opened by I and by B; where `detect` `found` it and more than
    1 % open with B without need, those count: of these labels, or of `all_labels` that these are a part of.
    """
    broken = _broken(labels, sentence_starts, scheme) | _marked(labels, lambda name: not is_tag(name, scheme))
    if scheme == "IOB1" and found:
        known = Evidence.of(labels, sentence_starts) if all_labels is None else all_labels
        if known.mixed:
            broken |= _opened(labels, sentence_starts)[1]
    if not broken.any():
        return None
    first = _fault(labels, sentence_starts, scheme, int(broken.argmax()))
    return Slips(int(broken.sum()), first, _kinds(labels, sentence_starts, scheme, np.flatnonzero(broken)))


def _kinds(labels: Column, sentence_starts: ArrayLike, scheme: str, tokens: NDArray[np.int64]) -> dict[str, int]:
    """How many of these tags break the scheme in which way, asked once for each tag and what stands around it."""
    edges = sentence_edges(sentence_starts, len(labels))
    before = np.where(edges[tokens], len(labels.values), labels.codes[tokens - 1])
    around = np.stack([labels.codes[tokens], before, edges[tokens + 1]])
    _, asked, counts = np.unique(around, axis=1, return_index=True, return_counts=True)
    kinds: Counter[str] = Counter()
    for token, count in zip(tokens[asked].tolist(), counts.tolist(), strict=True):
        kinds[_broken_how(labels, edges, scheme, token)] += count
    return _often_first(kinds)


def detect(labels: Column, sentence_starts: ArrayLike) -> str | None:
    """The scheme the labels are written in; None when they are not span tags (e.g. parts of speech).

    They are span tags when at least half of the tokens that are not O have the form of one; any other label is then a
    `TagError`. It is IOBES or BILOU if at least half of the entities end with E or S, L or U; otherwise it is IOB1 if
    more entities that touch no other of their type open with I than with B, else BIO. What stands beside an unknown
    label is not counted. Tags that do not follow the others are `slips`.
    """
    return Evidence.of(labels, sentence_starts).scheme(labels)


@dataclass
class Evidence:
    """What a scheme is found by; that of two parts of a corpus adds up.

    counts          label -> tokens that have it
    ended, closed   entities whose end is seen, and those of them that end with E, S, L or U
    with_i, with_b  entities that touch no other of their type, opened by I and by B
    """

    counts: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    closed: int = 0
    with_i: int = 0
    with_b: int = 0

    @classmethod
    def of(cls, labels: Column, sentence_starts: ArrayLike) -> Evidence:
        known = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.values)).tolist()
        counts = Counter({name: count for name, count in zip(labels.values, known, strict=True) if count})
        if not all(map(TAG.fullmatch, counts)):
            return cls(counts)  # no tags; or there is an error, which these figures would not change
        tokens = Tokens(labels, sentence_starts, "BIO")
        letters = _marked(labels, lambda name: name.startswith(("E", "S", "L", "U")))
        ended = tokens.ends & ~_beside_unknown(labels, sentence_starts)[1]
        opened = (int(one.sum()) for one in _opened(labels, sentence_starts))
        return cls(counts, int(ended.sum()), int((ended & letters).sum()), *opened)

    def add(self, other: Evidence) -> None:
        self.counts.update(other.counts)
        self.ended, self.closed = self.ended + other.ended, self.closed + other.closed
        self.with_i, self.with_b = self.with_i + other.with_i, self.with_b + other.with_b

    @property
    def strange(self) -> set[str]:
        """Labels that are no tags. Bare letters are only beside O and B or I."""
        bare = "O" in self.counts and not self.counts.keys().isdisjoint("BI")
        return {one for one in self.counts if not TAG.fullmatch(one) or (len(one) == 1 and one != "O" and not bare)}

    @property
    def are_tags(self) -> bool:
        """Whether these are span tags at all; strange ones among them are then mistakes."""
        strange = self.strange
        odd = sum(self.counts[one] for one in strange)
        return bool(self.counts) and odd <= self.counts.total() - odd - self.counts["O"]

    @property
    def mixed(self) -> bool:
        """Whether too many entities of IOB1 open with B without need."""
        return self.with_b > TOLERANCE * (self.with_i + self.with_b)

    def scheme(self, labels: Column | None = None) -> str | None:
        """What `detect` says; of labels that are among these, a `TagError` for those that are no tags."""
        if not self.are_tags:
            return None
        if labels is not None:
            self.check(labels)
        starting = {letters: sum(n for one, n in self.counts.items() if one.startswith(letters))
                    for letters in (("E", "S"), ("L", "U"))}  # fmt: skip
        es, lu = starting.values()
        if es + lu and 2 * self.closed >= self.ended:
            return "IOBES" if es >= lu else "BILOU"
        if self.with_i == self.with_b == 0:  # nothing to go by; BIO without any B would be odd
            first = {one[:1] for one in self.counts}
            return "IOB1" if "I" in first and "B" not in first else "BIO"
        return "IOB1" if self.with_i > self.with_b else "BIO"

    def check(self, labels: Column) -> None:
        """Labels that are no tags, among tags, are mistakes."""
        strange = self.strange
        wrong = _marked(labels, lambda name: name in strange)
        if wrong.any():
            token = int(wrong.argmax())
            reason = f"{labels.values[labels.codes[token]]!r} is not a tag, the labels around it are; expected O or a "
            remedy = "tag such as B-PER. Correct it, or pass scheme=None to read labels as they are"
            raise TagError(Fault(token, reason + remedy))


def transitions(classes: Sequence[str], scheme: str | None) -> tuple[Bools, Bools, Bools]:
    """Which label may follow which, which may start and which may end a strictly valid sentence.

    Where a type lacks the letter that would open (or close) it, its other letters may do so, and where no
    label could stand alone nothing is forbidden: every label stays usable, every length has a tagging.
    """
    return _transitions(tuple(classes), scheme)


@lru_cache(64)
def _transitions(classes: tuple[str, ...], scheme: str | None) -> tuple[Bools, Bools, Bools]:
    n = len(classes)
    if scheme is not None:
        for name in classes:
            if not is_tag(name, scheme):
                raise InputError(f"label {not_a_tag(name, scheme)}; or use no scheme")
        follows, starts, stops = grammar(classes, scheme, relaxed=True)
        if (starts & stops).any():
            return read_only(follows), read_only(starts), read_only(stops)
    return read_only(np.ones((n, n), bool)), read_only(np.ones(n, bool)), read_only(np.ones(n, bool))


@lru_cache(64)
def barriers(classes: tuple[str, ...], scheme: str | None) -> tuple[Scores, Scores, Scores]:
    """The same as scores to add: 0 where it is allowed, -inf where not."""
    follows, starts, stops = (np.where(mask, 0.0, -np.inf) for mask in transitions(classes, scheme))
    return read_only(follows), read_only(starts), read_only(stops)


def continuations(classes: Sequence[str]) -> Bools:
    """(L, L), True where the second label would carry on an entity that stands in the first."""
    return _continuations(tuple(classes)).copy()  # kernels would be compiled anew for what cannot be written to


@lru_cache(64)
def _continuations(classes: tuple[str, ...]) -> Bools:
    roles, types, _ = parse(classes)
    open_ended, carries = np.isin(roles, [FIRST, IN]), np.isin(roles, [IN, LAST])
    return np.asarray((types[:, None] == types) & open_ended[:, None] & carries)


def _beside_unknown(labels: Column, sentence_starts: ArrayLike) -> tuple[Bools, Bools]:
    """Whether the label just before a token, and just behind it, in its sentence, is unknown."""
    unknown, edges = labels.codes < 0, sentence_edges(sentence_starts, len(labels))
    after, before = np.zeros(len(unknown), bool), np.zeros(len(unknown), bool)
    after[1:] = unknown[:-1] & ~edges[1:-1]
    before[:-1] = unknown[1:] & ~edges[1:-1]
    return after, before


def _opened(labels: Column, sentence_starts: ArrayLike) -> tuple[Bools, Bools]:
    """Tokens that open an entity which touches none of its type: with I, and with B."""
    tokens = Tokens(labels, sentence_starts, "BIO")
    clear = tokens.begins & ~tokens.touches & ~_beside_unknown(labels, sentence_starts)[0]
    return clear & (tokens.roles == IN), clear & (tokens.roles == FIRST)


def _broken(labels: Column, sentence_starts: ArrayLike, scheme: str) -> Bools:
    """Tokens whose tag the scheme does not allow in its place. In IOB1 every place is fine."""
    edges, codes = sentence_edges(sentence_starts, len(labels)), labels.codes
    broken = np.zeros(len(codes), bool)
    if scheme == "IOB1" or not len(codes):
        return broken
    follows, starts, stops = grammar((*labels.values, "O"), scheme)
    follows[-1], follows[:, -1], starts[-1], stops[-1] = True, True, True, True  # where code -1 points: it may be any
    broken |= (edges[:-1] & ~starts[codes]) | (edges[1:] & ~stops[codes])
    broken[1:] |= ~edges[1:-1] & ~follows[codes[:-1], codes[1:]]
    return broken


def _fault(labels: Column, sentence_starts: ArrayLike, scheme: str, token: int) -> Fault:
    """Why the tag of a token breaks the scheme."""
    name = labels.values[labels.codes[token]]
    if not is_tag(name, scheme):
        return Fault(token, not_a_tag(name, scheme))
    how = _broken_how(labels, sentence_edges(sentence_starts, len(labels)), scheme, token)
    for place, what in ((" at the start of a sentence", "start"), (" at the end of a sentence", "end")):
        if how.endswith(place):
            return Fault(token, f"{name} cannot {what} a sentence in {scheme}")
    return Fault(token, f"{name} cannot follow {how.removeprefix(name + ' after ')} in {scheme}")


def _broken_how(labels: Column, edges: Bools, scheme: str, token: int) -> str:
    """The kind of slip: the tag, and where it should not be."""
    code, last = labels.codes[token], labels.codes[token - 1]
    name = labels.values[code]
    if not is_tag(name, scheme):
        return f"{name}, no tag of {scheme}"
    follows, starts, _ = grammar(labels.values, scheme)
    if edges[token] and not starts[code]:
        return f"{name} at the start of a sentence"
    if not edges[token] and last >= 0 and not follows[last, code]:
        return f"{name} after {labels.values[last]}"
    return f"{name} at the end of a sentence"


def _written(tokens: Tokens, scheme: str) -> tuple[Ints, list[str]]:
    """Codes of the tags in a table of all that the scheme could write."""
    letters = LETTERS[scheme]
    begins = tokens.begins & tokens.touches if scheme == "IOB1" else tokens.begins
    shapes = (begins + 2 * tokens.ends) % len(letters)
    codes = np.where(tokens.types < 0, 0, 1 + len(letters) * tokens.types + shapes)
    tags = [f"{letter}-{name}" if name else letter for name in tokens.names for letter in letters]
    return codes, ["O", *tags]


def _compact(codes: Ints, values: Sequence[str]) -> Column:
    """The column with the values that occur, in order of appearance, as `Column.from_strings` has it."""
    first = np.full(len(values) + 1, len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # written backwards: the first appearance stays
    first[-1] = len(codes)
    used = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(codes))]
    renumbered = np.full(len(first), -1, np.int32)
    renumbered[used] = np.arange(len(used))
    return Column(renumbered[codes], tuple(values[i] for i in used))


def _marked(labels: Column, test: Callable[[str], bool]) -> Bools:
    """Per token, what `test` says of its label; asked once a label, False where none is known."""
    return np.array([*map(test, labels.values), False], bool)[labels.codes]


# -- Labels in and out: the scheme of the data, the scheme the model works in, and the classes ---------
#
# A model may work in another tag scheme than its data: files in IOB1 are trained as BIO, and predictions come
# back in IOB1. Labels that are not spans (parts of speech) pass through as they are.

log = logging.getLogger("kinfolk")


def check_encoding(encoding: Any) -> None:
    if encoding != "auto" and encoding not in SCHEMES:
        raise SettingError("encoding", encoding, f"'auto' or one of {', '.join(SCHEMES)}")


@dataclass(frozen=True)
class LabelCoding:
    """outer: scheme of the data and of predictions; inner: scheme of the classes (None: not spans)."""

    outer: str | None
    inner: str | None
    classes: Classes

    def to_state(self) -> dict[str, Any]:
        return {"outer": self.outer, "inner": self.inner, **self.classes.to_state()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> LabelCoding:
        fits({state["outer"], state["inner"]} <= {None, *SCHEMES})
        return cls(state["outer"], state["inner"], Classes.from_state(state))

    @classmethod
    def learn(cls, corpus: Corpus, encoding: str) -> LabelCoding:
        """From a training corpus; `encoding` is a scheme, or "auto": the data's own, BIO for IOB1 without gaps."""
        check_encoding(encoding)
        if corpus.labels is None or not corpus.is_labelled:
            raise InputError("training needs labels, and this corpus has none", corpus.source)
        outer = corpus.scheme
        inner = outer if outer is None or encoding == "auto" else encoding
        if outer == "IOB1" and encoding == "auto" and (corpus.labels.codes >= 0).all():
            inner = "BIO"
        labels = _inner_labels(corpus, outer, inner)
        used = np.unique(labels.codes[labels.codes >= 0])
        names = {labels.values[code] for code in used}
        if inner is not None:  # every letter of each type: one seen only as single tokens may yet be long
            types = {name[1:] for name in names if name != "O"}  # "-PER", or "" for a bare letter
            names = {"O", *(letter + name for name in types for letter in LETTERS[inner])}
        return cls(outer, inner, Classes.sorted(names, corpus.labels.type))

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
                *corpus.line_of(token),
            )
        return codes

    def known(self, corpus: Corpus) -> NDArray[np.int32]:
        """Class numbers (n,), -1 where the label is unknown or training never saw it."""
        return self._numbers(self._labels(corpus, True))

    def gold(self, corpus: Corpus, warns: bool = False) -> Column:
        """Labels to compare predictions with: the classes first, then labels training never saw, which no prediction
        can be: they count as misses, of which the log warns if `warns`."""
        if not corpus.is_labelled:
            raise InputError("scoring needs labels, and there are none", corpus.source)
        labels = self._labels(corpus, True)
        codes, n = self._numbers(labels), len(self.classes)
        strange = np.unique(labels.codes[(codes < 0) & (labels.codes >= 0)])
        unseen = tuple(labels.values[i] for i in strange)
        if warns:
            warn_unseen(unseen)
        number = np.full(len(labels.values) + 1, -1, np.int32)
        number[strange] = np.arange(n, n + len(strange))
        return Column(np.where(codes < 0, number[labels.codes], codes), (*self.classes.names, *unseen))

    def _labels(self, corpus: Corpus, repair: bool) -> Column:
        """In the scheme of the model."""
        if corpus.labels is None:
            return Column(np.full(corpus.n_tokens, -1, np.int32), ())
        if corpus.scheme is None and self.inner is not None and corpus.is_labelled:
            raise InputError(
                f"the labels are no entity tags, but the model was trained on {self.outer} tags; "
                "read the file with `scheme='auto'`", corpus.source,
            )  # fmt: skip
        as_they_are = not repair and corpus.scheme == self.inner
        return corpus.labels if as_they_are else _inner_labels(corpus, corpus.scheme, self.inner)

    def _numbers(self, labels: Column) -> NDArray[np.int32]:
        """Class numbers (n,), -1 where there is none."""
        return np.append(self.classes.encode(labels.values), np.int32(-1))[labels.codes]

    def decode(self, codes: NDArray[np.integer], sentence_starts: NDArray[np.int64]) -> Column:
        """Labels as the data writes them."""
        column = Column(np.asarray(codes, np.int32), self.classes.names, self.classes.type)
        if self.inner is None or self.outer is None or self.inner == self.outer:
            return column
        return replace(convert(column, sentence_starts, self.inner, self.outer), type=self.classes.type)


def _inner_labels(corpus: Corpus, outer: str | None, inner: str | None) -> Column:
    """The labels in the scheme of the model, repaired where they break their own scheme.

    Partly labelled sentences cannot change their scheme: a gap hides whether an entity goes on.
    """
    assert corpus.labels is not None
    if inner is None or outer is None:
        return corpus.labels
    if outer == inner or (corpus.labels.codes >= 0).all():
        return convert(corpus.labels, corpus.sentence_starts, outer, inner)
    gap = int(corpus.labels.codes.argmin())
    raise InputError(
        f"a token has no label, and labels with gaps cannot be rewritten from {outer} to {inner}. "
        f"Set `encoding={outer!r}`, or write the file in {inner}.",
        *corpus.line_of(gap),
    )
