"""Tags: what one tag says, and what each token is to its entity.

The letters of the four schemes come down to five roles, so everything that reads tags reads roles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.core.column import Column
from kinfolk.errors import InputError, SettingError

SCHEMES = ("IOB1", "BIO", "IOBES", "BILOU")
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
        uncut[1:-1] &= ~np.isin(self.roles[1:], [FIRST, ONLY]) & ~np.isin(self.roles[:-1], [LAST, ONLY])
        inside = self.roles != OUT
        self.touches = same[:-1]
        self.begins, self.ends = inside & ~uncut[:-1], inside & ~uncut[1:]


def parse(names: Sequence[str]) -> tuple[Ints, Ints, list[str]]:
    """Role and type number (-1 for O) of each label, and the types."""
    types: dict[str, int] = {}
    roles, numbers = np.zeros(len(names), np.int64), np.full(len(names), -1)
    for i, name in enumerate(names):
        match = TAG.fullmatch(name)
        if match is None:
            raise InputError(f"label {name!r} is not a tag; expected O or a tag such as B-PER")
        roles[i] = ROLES[match[1]]
        if match[1]:
            numbers[i] = types.setdefault(match[2] or "", len(types))
    return roles, numbers, list(types)


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
        raise SettingError(f"scheme must be one of {', '.join(SCHEMES)}; got {scheme!r}")
    return scheme
