"""Tag schemes: entities written as one tag a token, and read back.

Every tag is O (outside) or a letter and a type, such as B-PER; a bare letter is an entity without a type.

    IOB1   I for every token, B only where an entity touches the one before it and has its type
    BIO    B for the first token, I for the others (also called IOB2)
    IOBES  as BIO, with E for the last token and S for an entity of one token
    BILOU  as IOBES, with L in place of E and U in place of S

Reading is conlleval's: lenient, and the same for all four, as no letter means two things. A chunk is a
run of tags of one type, cut before B, S, U, after E, S, L, U, and between sentences. An unknown label
(code -1) counts as O where entities are read; what stands beside it may be part of an entity that is not told in
full, so it says nothing of the scheme and breaks none: in BIO, I-PER after an unknown label says that the label is
B-PER or I-PER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kinfolk.core.column import Column
from kinfolk.errors import InputError
from kinfolk.text.tags import (  # fmt: skip
    FIRST,
    IN,
    LAST,
    LETTERS,
    ONLY,
    SCHEMES,
    TAG,
    Bools,
    Ints,
    Tokens,
    checked,
    grammar,
    is_tag,
    not_a_tag,
    parse,
    sentence_edges,
)

__all__ = [
    "LETTERS", "SCHEMES", "Fault", "Span", "TagError",
    "continuations", "convert", "detect", "not_tags", "slips", "spans", "tag", "transitions",
]  # fmt: skip

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


def slips(labels: Column, sentence_starts: ArrayLike, scheme: str, found: bool = True) -> tuple[int, Fault] | None:
    """How many tags break the scheme, and the first of them; None if none does. Reading them repairs them.

    Letters of another scheme count. IOB1 takes entities opened by I and by B; where `detect` `found` it and more than
    1 % open with B without need, those count.
    """
    broken = _broken(labels, sentence_starts, scheme) | _marked(labels, lambda name: not is_tag(name, scheme))
    if scheme == "IOB1" and found:
        with_i, with_b = _opened(labels, sentence_starts)
        if with_b.sum() > TOLERANCE * (with_i.sum() + with_b.sum()):
            broken |= with_b
    if not broken.any():
        return None
    return int(broken.sum()), _fault(labels, sentence_starts, scheme, int(broken.argmax()))


def detect(labels: Column, sentence_starts: ArrayLike) -> str | None:
    """The scheme the labels are written in; None when they are not span tags (e.g. parts of speech).

    They are span tags when at least half of the tokens that are not O have the form of one; any other label is then a
    `TagError`. It is IOBES or BILOU if at least half of the entities end with E or S, L or U; otherwise it is IOB1 if
    more entities that touch no other of their type open with I than with B, else BIO. What stands beside an unknown
    label is not counted. Tags that do not follow the others are `slips`.
    """
    if not _are_tags(labels):
        return None
    tokens = Tokens(labels, sentence_starts, "BIO")
    es = _marked(labels, lambda name: name.startswith(("E", "S")))
    lu = _marked(labels, lambda name: name.startswith(("L", "U")))
    ended = tokens.ends & ~_beside_unknown(labels, sentence_starts)[1]
    if (es | lu).any() and 2 * (ended & (es | lu)).sum() >= ended.sum():
        return "IOBES" if es.sum() >= lu.sum() else "BILOU"
    with_i, with_b = (opened.sum() for opened in _opened(labels, sentence_starts))
    if with_i == with_b == 0:  # nothing to go by; BIO without any B would be odd
        return "IOB1" if (tokens.roles == IN).any() and not (tokens.roles == FIRST).any() else "BIO"
    return "IOB1" if with_i > with_b else "BIO"


def transitions(classes: Sequence[str], scheme: str | None) -> tuple[Bools, Bools, Bools]:
    """Which label may follow which, which may start and which may end a strictly valid sentence.

    Where a type lacks the letter that would open (or close) it, its other letters may do so, and where no
    label could stand alone nothing is forbidden: every label stays usable, every length has a tagging.
    """
    n = len(classes)
    if scheme is not None:
        for name in classes:
            if not is_tag(name, scheme):
                raise InputError(f"label {not_a_tag(name, scheme)}; or use no scheme")
        follows, starts, stops = grammar(classes, scheme, relaxed=True)
        if (starts & stops).any():
            return follows, starts, stops
    return np.ones((n, n), bool), np.ones(n, bool), np.ones(n, bool)


def continuations(classes: Sequence[str]) -> Bools:
    """(L, L), True where the second label would carry on an entity that stands in the first."""
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
    name, code = labels.values[labels.codes[token]], labels.codes[token]
    if not is_tag(name, scheme):
        return Fault(token, not_a_tag(name, scheme))
    follows, starts, _ = grammar(labels.values, scheme)
    edges, last = sentence_edges(sentence_starts, len(labels)), labels.codes[token - 1]
    if edges[token] and not starts[code]:
        return Fault(token, f"{name} cannot start a sentence in {scheme}")
    if not edges[token] and last >= 0 and not follows[last, code]:
        return Fault(token, f"{name} cannot follow {labels.values[last]} in {scheme}")
    return Fault(token, f"{name} cannot end a sentence in {scheme}")


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


def _are_tags(labels: Column) -> bool:
    """Whether these are span tags at all. Bare letters are only in company of O and of B or I."""
    used = {labels.values[code] for code in np.unique(labels.codes[labels.codes >= 0])}
    bare = "O" in used and not used.isdisjoint("BI")
    strange = _marked(labels, lambda name: not TAG.fullmatch(name) or (len(name) == 1 and name != "O" and not bare))
    tagged = (labels.codes >= 0) & ~strange & ~_marked(labels, lambda name: name == "O")
    if not used or strange.sum() > tagged.sum():
        return False
    if strange.any():
        token = int(strange.argmax())
        name = labels.values[labels.codes[token]]
        reason = f"{name!r} is not a tag, the labels around it are; expected O or a tag such as B-PER"
        raise TagError(Fault(token, f"{reason}. Correct it, or pass scheme=None to read labels as they are"))
    return True
