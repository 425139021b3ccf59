"""Tag schemes: entities written as one tag a token, and read back.

Every tag is O (outside) or a letter and a type, such as B-PER; a bare letter is an entity without a type.

    IOB1   I for every token, B only where an entity touches the one before it and has its type
    BIO    B for the first token, I for the others (also called IOB2)
    IOBES  as BIO, with E for the last token and S for an entity of one token
    BILOU  as IOBES, with L in place of E and U in place of S

Reading is conlleval's: lenient, and the same for all four, as no letter means two things. A chunk is a
run of tags of one type, cut before B, S, U, after E, S, L, U, and between sentences. An unknown label
(code -1) counts as O everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kinfolk.data.column import Column
from kinfolk.data.tags import (
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
)  # fmt: skip
from kinfolk.errors import InputError

__all__ = [
    "LETTERS", "SCHEMES", "Fault", "Span", "TagError",
    "check", "continuations", "convert", "detect", "spans", "tag", "transitions",
]  # fmt: skip

TOLERANCE = 0.01  # share of entities that may break the habit of the others before `detect` refuses


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

    The result is strictly valid whatever came in, so converting a scheme to itself repairs its tags.
    """
    tokens = Tokens(labels, sentence_starts, source)
    codes, values = _written(tokens, checked(target))
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


def check(labels: Column, sentence_starts: ArrayLike, scheme: str) -> Fault | None:
    """The first token whose tag breaks the scheme, or None. In IOB1 only a malformed tag is wrong."""
    strange = np.flatnonzero(_marked(labels, lambda name: not is_tag(name, scheme)))
    if len(strange):
        return Fault(int(strange[0]), not_a_tag(labels.values[labels.codes[strange[0]]], scheme))
    if scheme == "IOB1":
        return None
    names = (*labels.values, "O")  # the last one is where code -1 points
    follows, starts, stops = grammar(names, scheme)
    edges, codes = sentence_edges(sentence_starts, len(labels)), labels.codes
    broken = (edges[:-1] & ~starts[codes]) | (edges[1:] & ~stops[codes])
    broken[1:] |= ~edges[1:-1] & ~follows[codes[:-1], codes[1:]]
    if not broken.any():
        return None
    t = int(broken.argmax())
    if edges[t] and not starts[codes[t]]:
        return Fault(t, f"{names[codes[t]]} cannot start a sentence in {scheme}")
    if not edges[t] and not follows[codes[t - 1], codes[t]]:
        return Fault(t, f"{names[codes[t]]} cannot follow {names[codes[t - 1]]} in {scheme}")
    return Fault(t, f"{names[codes[t]]} cannot end a sentence in {scheme}")


def detect(labels: Column, sentence_starts: ArrayLike) -> str | None:
    """The scheme the labels are written in; None when they are not span tags (e.g. parts of speech).

    They are span tags when at least half of the tokens that are not O have the form of one; any other
    label is then a fault. E or S make it IOBES, L or U make it BILOU; otherwise it is IOB1 if entities
    that touch no other of their type open with I, BIO if they open with B. Up to 1 % of the entities may
    break the habit (two do in CoNLL-2003's eng.train); beyond that the scheme changes in mid-file, which
    is a `TagError` at the token where the second scheme is first seen.
    """
    if not _are_tags(labels):
        return None
    tokens = Tokens(labels, sentence_starts, "BIO")
    es = _marked(labels, lambda name: name.startswith(("E", "S")))
    lu = _marked(labels, lambda name: name.startswith(("L", "U")))
    if es.any() and lu.any():
        raise _change(labels, es, "IOBES", lu, "BILOU")
    if (closing := es | lu).any():
        scheme = "IOBES" if es.any() else "BILOU"
        opened, closed = np.isin(tokens.roles, [FIRST, ONLY]), np.isin(tokens.roles, [LAST, ONLY])
        broken = (tokens.begins & ~opened) | (tokens.ends & ~closed)
        if broken.sum() > TOLERANCE * (broken.sum() + closing.sum()):
            raise _change(labels, closing, scheme, broken, "BIO or IOB1")
        return scheme
    with_i, with_b = (tokens.begins & ~tokens.touches & (tokens.roles == role) for role in (IN, FIRST))
    if min(with_i.sum(), with_b.sum()) > TOLERANCE * (with_i.sum() + with_b.sum()):
        raise _change(labels, with_i, "IOB1", with_b, "BIO")
    return "IOB1" if with_i.sum() > with_b.sum() else "BIO"


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


def _change(labels: Column, one: Bools, one_name: str, other: Bools, other_name: str) -> TagError:
    """Both habits occur: the second begins at the later of their first tokens."""
    before, after = (one_name, other_name) if one.argmax() < other.argmax() else (other_name, one_name)
    token = int(max(one.argmax(), other.argmax()))
    name = labels.values[labels.codes[token]]
    return TagError(Fault(token, (
        f"the tag scheme changes here: {name!r} is {after}, the tags before are {before}. Write the file in "
        "one scheme, or pass scheme=... if it is intended (IOB1 takes entities opened by I and by B, None "
        "takes labels as they are)"
    )))  # fmt: skip
