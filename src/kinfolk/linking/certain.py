"""Rules that decide for certain, whatever the model says: `always("tax_number")`, `never("country")`.

Items with the same value in the fields of an `Always` are together, items with different known values in those of a
`Never` are apart; a missing value decides nothing. Clusters keep to it by must-links and cannot-links: of the pairs
that a `Never` forbids, no more than the clustering could join by way of others.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import InputError, SettingError
from kinfolk.linking.chains import connected, contradiction
from kinfolk.linking.clusterers import Clusterer
from kinfolk.linking.mentions import Mentions, pair_keys
from kinfolk.linking.pairs import joint_codes, texts_of
from kinfolk.linking.several import holds_lists

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
WRITTEN = "always(tax_number), never(country), always(surname + born) or always(code, raw)"
COMPARED = 200  # records with one value up to which all their pairs are compared; of more, each with the next
MOST = 50_000_000  # pairs that a rule may forbid


@dataclass(frozen=True, init=False)
class CertainRule(ABC):
    """Abstract: what values in one field, or in several together, decide.

    normalise   compare texts as comparisons do: lower case, no accents, no punctuation. False: as they are written
    """

    fields: tuple[str, ...]
    normalise: bool

    def __init__(self, field: str | Sequence[str], *, normalise: bool = True) -> None:
        listed = (field,) if isinstance(field, str) else tuple(field)
        if not listed or not all(isinstance(one, str) and one for one in listed):
            raise SettingError.saying(
                f"{type(self).__name__} takes the name of a field or a list of names; got {field!r}"
            )
        object.__setattr__(self, "fields", listed)
        object.__setattr__(self, "normalise", bool(normalise))

    def __str__(self) -> str:
        raw = "" if self.normalise else ", raw"
        return f"{type(self).__name__.lower()}({' + '.join(self.fields)}{raw})"

    @property
    def field(self) -> str:
        return " and ".join(self.fields)

    def values(self, items: Mentions) -> NDArray[np.int32]:
        """A number an item for what it has in the fields, -1 where it lacks one of them; other documents, others."""
        several = next((name for name in self.fields if name in items.columns and holds_lists(items, name)), None)
        if several is not None:
            remedy = "which one decides? Put it into a column of its own"
            raise InputError(f"{self}: the field {several!r} holds lists, several values a record; {remedy}")
        parts = [texts_of(items, [name], self.normalise).codes for name in self.fields]
        lacking = np.any([codes < 0 for codes in parts], axis=0)
        return np.where(lacking, -1, joint_codes([items.groups, *parts]))

    @abstractmethod
    def says(self, a: Any, b: Any) -> Any:
        """Whether it decides a pair of items with these values."""

    @property
    @abstractmethod
    def reason(self) -> str: ...


@dataclass(frozen=True, init=False)
class Always(CertainRule):
    """Items with the same value in a field, or in all of several, belong together: `Always("tax_number")`."""

    def says(self, a: Any, b: Any) -> Any:
        return (a >= 0) & (a == b)

    @property
    def reason(self) -> str:
        return f"same {self.field}"


@dataclass(frozen=True, init=False)
class Never(CertainRule):
    """Items with different values in a field, both known, do not belong together: `Never("country")`; of several
    fields, where all are known and one differs."""

    def says(self, a: Any, b: Any) -> Any:
        return (a >= 0) & (b >= 0) & (a != b)

    @property
    def reason(self) -> str:
        return f"different {self.field}"


def as_certain(given: Any) -> list[CertainRule]:
    """One rule or a list of them, in words or not; None: none."""
    listed = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    rules = [_parsed(one) if isinstance(one, str) else one for one in listed]
    strange = next((one for one in rules if not isinstance(one, CertainRule)), None)
    if strange is not None:
        raise SettingError("rules", strange, f"such as Always('tax_number') or {WRITTEN!r}")
    return rules


def _parsed(text: str) -> CertainRule:
    call = re.fullmatch(r"\s*(always|never)\s*\(([^(),]*)(,\s*raw\s*)?\)\s*", text, re.IGNORECASE)
    fields = [one.strip() for one in call[2].split("+")] if call else []
    if call is None or not all(fields):
        raise SettingError.saying(f"cannot read the rule {text!r}; write it as {WRITTEN}")
    return (Always if call[1].lower() == "always" else Never)(fields, normalise=call[3] is None)


# -- the pairs they decide ------------------------------------------------------------------------------


class Decided:
    """The pairs of items that rules decide."""

    def __init__(self, rules: Iterable[CertainRule], items: Mentions) -> None:
        self.items = items
        self.rules = [(rule, rule.values(items)) for rule in rules]

    def reasons(self, low: int, high: int) -> list[tuple[CertainRule, str]]:
        """The rules that decide a pair, each with its words: "same tax_number"."""
        return [(rule, rule.reason) for rule, values in self.rules if rule.says(values[low], values[high])]

    def forbidden_between(self, some: Array, others: Array) -> tuple[int, int, str] | None:
        """Two items of two clusters that must be apart, and the rule's words."""
        for rule, values in self.rules:
            if isinstance(rule, Never):
                apart = np.argwhere(rule.says(values[some][:, None], values[others][None, :]))
                if len(apart):
                    return int(some[apart[0, 0]]), int(others[apart[0, 1]]), rule.reason
        return None

    def with_pairs(self) -> Mentions:
        """The items, whose candidates now hold the pairs that are together for certain."""
        items, pairs = self.items, self._same(COMPARED)
        keys = np.setdiff1d(pair_keys(pairs[:, 0], pairs[:, 1]), pair_keys(items.left, items.right))
        if not len(keys):
            return items
        more = np.isin(pair_keys(pairs[:, 0], pairs[:, 1]), keys)
        left, right = (np.concatenate([own, pairs[more, k]]) for k, own in enumerate((items.left, items.right)))
        return items.with_pairs(left, right)

    def links(
        self, value: Array, threshold: float, must: Array | None, cannot: Array | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Must-links and cannot-links, with those given; `value` of the candidate pairs, which are joined, directly or
        by way of others, only where it exceeds the threshold."""
        given = [np.empty((0, 2), np.int64) if one is None else np.asarray(one, np.int64) for one in (must, cannot)]
        bound = np.concatenate([given[0], self._same(2)])
        barred = np.unique(np.concatenate([given[1], self.apart(value, threshold, bound)]), axis=0)
        self.check(bound, barred)
        return bound, barred

    def apart(self, value: Array, threshold: float, must: Array) -> NDArray[np.int64]:
        """Pairs (m, 2) that rules forbid, as far as a clustering with these must-links could join them."""
        rules = ((rule, codes) for rule, codes in self.rules if isinstance(rule, Never))
        found = [self._apart(rule, codes, value, threshold, must) for rule, codes in rules]
        return np.concatenate([np.empty((0, 2), np.int64), *found])

    def _same(self, most: int) -> NDArray[np.int64]:
        """Pairs (m, 2), left < right, that connect the items of each value: all of them where no more than `most` have
        it, else each with the next; of two tables, those that cross them."""
        pairs = [np.empty((0, 2), np.int64)]
        for rule, values in self.rules:
            if not isinstance(rule, Always):
                continue
            several = np.append(np.bincount(values[values >= 0]) > 1, False)  # the last is for a missing value
            known = np.flatnonzero(several[values])
            known = known[np.argsort(values[known], kind="stable")]
            pairs += [_connecting(own, most, self.items.first_table) for own in _runs(known, values[known])]
        return np.unique(np.concatenate(pairs), axis=0)

    def _apart(self, rule: CertainRule, codes: Array, value: Array, threshold: float, must: Array) -> NDArray[np.int64]:
        """Pairs that a `Never` forbids, as far as a clustering could join them: likely candidates, and pairs of what
        hangs together by likely candidates that no rule forbids."""
        left, right = self.items.left, self.items.right
        likely, barred = value > threshold, rule.says(codes[left], codes[right])
        free = likely & ~barred
        first, second = (np.concatenate([side[free], must[:, k]]) for k, side in enumerate((left, right)))
        part = connected(first, second, self.items.n_items)
        direct = np.stack([left[likely & barred], right[likely & barred]], axis=1).astype(np.int64)
        return np.concatenate([direct, *self._within(rule, codes, part)])

    def _within(self, rule: CertainRule, codes: Array, part: Array) -> list[NDArray[np.int64]]:
        known = np.flatnonzero(codes >= 0)
        known = known[np.argsort(part[known], kind="stable")]
        found, total = [], 0
        for own in _runs(known, part[known]):
            if len(own) < 2 or (codes[own] == codes[own[0]]).all():
                continue
            total += len(own) * (len(own) - 1) // 2
            if total > MOST:
                hang = f"over {MOST:,} pairs of items hang together by likely pairs of items without a {rule.field}"
                raise SettingError.saying(f"{rule}: {hang}; raise the clusterer's `threshold`, or leave the rule out")
            a, b = np.triu_indices(len(own), 1)
            differ = codes[own[a]] != codes[own[b]]
            found.append(np.stack([own[a[differ]], own[b[differ]]], axis=1))
        return found

    def check(self, must: Array, cannot: Array) -> None:
        """No two items may have to be both together and apart."""
        found = contradiction(must, cannot, self.items.n_items)
        if found is not None:
            (a, b), name = found.pair, self.items.name
            links = [(name(i), name(j), self._why(i, j, Always, "`must_link`")) for i, j in pairwise(found.chain)]
            raise RulesError(name(a), name(b), self._why(a, b, Never, "`cannot_link`"), links)

    def _why(self, a: int, b: int, kind: type[CertainRule], else_: str) -> str:
        return next((reason for rule, reason in self.reasons(a, b) if isinstance(rule, kind)), f"given by {else_}")


def with_room(clusterer: Clusterer, n: int, must: Array) -> Clusterer:
    """The clusterer, whose largest size gives way to what is together for certain among n items."""
    if clusterer.max_size is None or not len(must):
        return clusterer
    largest = int(np.bincount(connected(must[:, 0], must[:, 1], n)).max())
    if largest <= clusterer.max_size:
        return clusterer
    log.info("rules put %d items together, where clusters have %d at most: the rules win", largest, clusterer.max_size)
    return type(clusterer)(**{**clusterer.get_params(), "max_size": largest})


class RulesError(SettingError):
    """Two items that must be apart, and a chain of others that puts them together."""

    def __init__(self, a: str, b: str, apart: str, chain: Sequence[tuple[str, str, str]]) -> None:
        self.items, self.chain = (a, b), tuple(chain)
        steps = ", ".join(f"{one!r} - {other!r} ({why})" for one, other, why in chain)
        against = f"{a!r} and {b!r} must be apart ({apart}) and together: {steps}"
        ValueError.__init__(self, f"the rules contradict each other: {against}; correct a value, or drop a rule")


def _runs(items: Array, values: Array) -> list[Array]:
    """Items in runs of one value."""
    return np.split(items, np.flatnonzero(np.diff(values)) + 1) if len(items) else []


def _connecting(own: Array, most: int, first_table: int | None) -> NDArray[np.int64]:
    """Pairs of some items, which rise, that connect them; nothing where all are of one of two tables."""
    if first_table is None:
        a, b = np.triu_indices(len(own), 1) if len(own) <= most else (np.arange(len(own) - 1), np.arange(1, len(own)))
        return np.stack([own[a], own[b]], axis=1).astype(np.int64)
    ours, theirs = own[own < first_table], own[own >= first_table]
    if not len(ours) or not len(theirs):
        return np.empty((0, 2), np.int64)
    if len(own) <= most:
        return np.stack([np.repeat(ours, len(theirs)), np.tile(theirs, len(ours))], axis=1).astype(np.int64)
    star = [(i, theirs[0]) for i in ours] + [(ours[0], j) for j in theirs[1:]]
    return np.array(star, np.int64).reshape(-1, 2)
