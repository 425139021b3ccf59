"""Blocking: which of all pairs of records are compared at all; how many that leaves, and how many true ones."""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.core.settings import whole
from kinfolk.core.threads import even_bounds, release_free_memory, resolve_jobs, run_chunks
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.keys import keys_of, parse_key
from kinfolk.linking.mentions import Mentions, pair_keys, pairs_of, pairs_within
from kinfolk.linking.pairs import joint_codes, one_of, texts_of
from kinfolk.linking.tokens import bags_in

# -- Pairs that one blocking rule makes, as ranges that are spread out a piece at a time ---------------
#
# Items lie in a pool so that the partners of an item are a run of it. What a rule holds is one entry an item and run,
# never the pairs themselves, so ten million pairs cost no more memory than the piece in work.

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
NAMED = 3  # giant blocks that are warned of one by one


class Limits(NamedTuple):
    max_block: int  # pairs of a block that is warned of
    skip: bool  # and left out


@dataclass(frozen=True, eq=False)
class Candidates:
    """Entry e pairs the item right[e] with pool[low[e]:high[e]]; entries are in order of `right`.

    Pairs with right < left, and with two tables those within one of them, are left out when they come up; so are those
    that come up fewer than `min_shared` times.
    """

    pool: Array = field(repr=False)
    right: Array
    low: Array
    high: Array
    first_table: int | None
    min_shared: int = 1

    @property
    def total(self) -> int:
        """Pairs there are at most."""
        return int((self.high - self.low).sum())

    def costs(self, n_items: int) -> Array:
        """Pairs with each item to the right, at most."""
        return np.bincount(self.right, self.high - self.low, minlength=n_items)

    def later(self, first: int) -> Candidates:
        """The entries whose right item is number `first` or later."""
        kept = slice(int(np.searchsorted(self.right, first)), None)
        return replace(self, right=self.right[kept], low=self.low[kept], high=self.high[kept])

    def pairs(self, first: int, last: int) -> Array:
        """int64 right << 32 | left of the pairs with first <= right < last, rising, each once."""
        here = slice(*np.searchsorted(self.right, (first, last)))
        low, count = self.low[here], (self.high - self.low)[here]
        ends = np.cumsum(count)
        left = self.pool[np.repeat(low - ends + count, count) + np.arange(ends[-1] if len(ends) else 0)]
        right = np.repeat(self.right[here], count)
        kept = left < right
        if self.first_table is not None:
            kept &= (left < self.first_table) & (right >= self.first_table)
        return distinct(pair_keys(left[kept], right[kept]), self.min_shared)


def distinct(keys: Array, least: int = 1) -> Array:
    """Those that come up so often, rising, each once; `keys` is sorted in place."""
    steps = np.diff(keys, prepend=-1)
    if (steps <= 0).any():  # a single key makes its pairs in order
        keys.sort()
        steps = np.diff(keys, prepend=-1)
    starts = np.flatnonzero(steps)
    if least > 1:
        starts = starts[np.diff(starts, append=len(keys)) >= least]
    return keys[starts] if len(starts) < len(keys) else keys


def within_blocks(
    items: Mentions, codes: Array, members: Array, shown: Callable[[int], str], rule: str, limits: Limits
) -> Candidates:
    """Pairs of items of one block: item members[e] is in block codes[e]. Blocks do not reach across groups."""
    blocks = codes if items.n_groups <= 1 else joint_codes([items.groups[members], codes])
    order = np.lexsort((members, blocks))
    pool, blocks = members[order], blocks[order]
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    sizes = np.diff(starts, append=len(blocks))
    first = np.repeat(starts, sizes)
    if items.first_table is None:
        high = np.arange(len(pool))  # those before it
        pairs = sizes * (sizes - 1) // 2
    else:
        from_first = pool < items.first_table
        ours = np.add.reduceat(from_first.astype(np.int64), starts) if len(starts) else starts
        high = np.where(from_first, first, first + np.repeat(ours, sizes))
        pairs = ours * (sizes - ours)
    giant = np.flatnonzero(pairs > limits.max_block)
    if len(giant):
        named = codes[order]
        _warn(rule, [(shown(int(named[starts[b]])), int(sizes[b]), int(pairs[b])) for b in giant], limits)
        if limits.skip:
            high = np.where(np.repeat(pairs > limits.max_block, sizes), first, high)
    return _in_order(pool, pool, first, high, items.first_table)


def _warn(rule: str, blocks: list[tuple[str, int, int]], limits: Limits) -> None:
    blocks.sort(key=lambda block: -block[2])
    what = "it is left out" if limits.skip else "narrow the rule, or leave such blocks out with `giant='skip'`"
    for key, size, pairs in blocks[:NAMED]:
        log.warning("%s: the block %r has %s items and makes %s pairs; %s", rule, key, f"{size:,}", f"{pairs:,}", what)
    if len(blocks) > NAMED:
        rest = f"{sum(pairs for _, _, pairs in blocks[NAMED:]):,}"
        sizes = f"{len(blocks) - NAMED:,}", f"{limits.max_block:,}", rest, what.replace("it is", "they are")
        log.warning("%s: %s more blocks have over %s pairs each, together %s; %s", rule, *sizes)


def within_windows(items: Mentions, codes: Array, window: int) -> Candidates:
    """Pairs of items less than `window` places apart in the order of their codes, each group for itself."""
    known = np.flatnonzero(codes >= 0)
    pool = known[np.lexsort((_in_names(items, known), codes[known], items.groups[known]))]
    groups = items.groups[pool]
    place = np.arange(len(pool))
    begins, ends = np.searchsorted(groups, groups, "left"), np.searchsorted(groups, groups, "right")
    # an item is to the right of some on either side: both are looked at, and half of them dropped
    low = np.concatenate([np.maximum(place - window + 1, begins), place + 1])
    high = np.concatenate([place, np.minimum(place + window, ends)])
    return _in_order(pool, np.concatenate([pool, pool]), low, high, items.first_table)


def _in_names(items: Mentions, chosen: Array) -> Array:
    """The rank of each item by its name, so that the order of the data says nothing; by number without names."""
    if items.names is None:
        return chosen
    rank = np.empty(len(chosen), np.int64)
    rank[sorted(range(len(chosen)), key=[items.names[i] for i in chosen.tolist()].__getitem__)] = np.arange(len(chosen))
    return rank


def _in_order(pool: Array, right: Array, low: Array, high: Array, first_table: int | None) -> Candidates:
    kept = np.flatnonzero(high > low)
    order = kept[np.argsort(right[kept], kind="stable")]
    return Candidates(pool.astype(np.int32), right[order].astype(np.int32), low[order], high[order], first_table)


# -- Rules that bring pairs of records together: by keys, sorted neighbourhoods and rare tokens --------

WRITTEN = "key(surname[:3] + suburb), sorted(surname, 5) or rare(name + description, 50)"


class Blocking(ABC):
    """A rule that brings pairs of items together. `str(rule)` is how `parse_rule` reads it."""

    normalise: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """What it reads, as far as it says so."""
        return ()

    @abstractmethod
    def candidates(self, items: Mentions, limits: Limits) -> Candidates: ...

    @abstractmethod
    def _written(self) -> str: ...

    def __str__(self) -> str:
        return self._written() if self.normalise else f"{self._written()[:-1]}, raw)"


@dataclass(frozen=True)
class Key(Blocking):
    """Items with the same key: a field, or an expression such as "surname[:3] + suburb" (see `key_expressions`).

    normalise   take fields in lower case, without accents and punctuation, as comparisons do
    """

    expression: str
    normalise: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        parse_key(self.expression)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(part.field for part in parse_key(self.expression))

    def candidates(self, items: Mentions, limits: Limits) -> Candidates:
        keys = keys_of(items, self.expression, self.normalise)
        known = np.flatnonzero(keys.codes >= 0)
        return within_blocks(items, keys.codes[known], known, keys.shown, str(self), limits)

    def _written(self) -> str:
        return f"key({self.expression})"


@dataclass(frozen=True)
class SortedNeighbourhood(Blocking):
    """Items less than `window` places apart when sorted by their keys, so that a typo late in a key does no harm.

    Items of the same key are in the order of their names (ids), whatever that of the data is; should there be more of
    them than the window holds, not all come together: add a Key of the same expression.
    """

    expression: str
    window: int = 5
    normalise: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        parse_key(self.expression)
        at_least("SortedNeighbourhood: window", self.window, 2)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(part.field for part in parse_key(self.expression))

    def candidates(self, items: Mentions, limits: Limits) -> Candidates:
        codes = keys_of(items, self.expression, self.normalise).codes
        return within_windows(items, codes, int(self.window))

    def _written(self) -> str:
        return f"sorted({self.expression}, {self.window})"


@dataclass(frozen=True)
class RareTokens(Blocking):
    """Items that share words few others have.

    fields          one or several; a word is the same in each of them
    max_frequency   words found in more items than this bring nobody together
    min_shared      so many such words must be shared
    """

    fields: str | Sequence[str]
    max_frequency: int = 50
    min_shared: int = 1
    normalise: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        fields = (self.fields,) if isinstance(self.fields, str) else tuple(self.fields)
        if not fields or not all(isinstance(one, str) and one for one in fields):
            raise SettingError.saying(f"RareTokens takes the name of a field or a list of names; got {self.fields!r}")
        at_least("RareTokens: max_frequency", self.max_frequency, 2)
        at_least("RareTokens: min_shared", self.min_shared, 1)
        object.__setattr__(self, "fields", fields)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.fields)

    def candidates(self, items: Mentions, limits: Limits) -> Candidates:
        texts = texts_of(items, self.fields, self.normalise)
        (starts, tokens, _), words = bags_in(texts, str.split)
        rows = np.repeat(np.arange(len(texts.values)), np.diff(starts))
        frequency = np.bincount(tokens, texts.counts()[rows], minlength=len(words))
        rare = (frequency >= 2) & (frequency <= self.max_frequency)
        kept = rare[tokens]
        tokens, starts = tokens[kept], np.concatenate([[0], np.cumsum(kept)])[starts]
        known = np.flatnonzero(texts.codes >= 0)
        first, count = starts[texts.codes[known]], np.diff(starts)[texts.codes[known]]
        members = np.repeat(known, count)
        codes = tokens[np.repeat(first - np.cumsum(count) + count, count) + np.arange(len(members))]
        found = within_blocks(items, codes, members, words.__getitem__, str(self), limits)
        return replace(found, min_shared=int(self.min_shared))

    def _written(self) -> str:
        shared = "" if self.min_shared == 1 else f", {self.min_shared}"
        return f"rare({' + '.join(self.fields)}, {self.max_frequency}{shared})"


def at_least(what: str, value: Any, least: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise SettingError(what, value, f"a whole number from {least} on")


def parse_rule(text: str) -> Blocking:
    """key(EXPRESSION), sorted(EXPRESSION[, WINDOW]) or rare(FIELD + ...[, FREQUENCY[, SHARED]]), each with ", raw"."""
    call = re.fullmatch(r"\s*(\w+)\s*\((.*)\)\s*", text)
    kind, rest = (call[1].lower(), call[2]) if call else ("", "")
    rest, *words = re.split(r",(?=\s*(?:\d+|raw)\s*(?:,|$))", rest)
    settings = [word.strip() for word in words]
    normalise = settings[-1:] != ["raw"]
    numbers = [int(word) for word in settings if word != "raw"]
    most = {"key": 0, "sorted": 1, "rare": 2}
    if len(numbers) > most.get(kind, -1) or len(settings) - len(numbers) != (not normalise):
        raise SettingError.saying(f"cannot read the rule {text!r}; write it as {WRITTEN}")
    if kind == "rare":
        return RareTokens([field.strip() for field in rest.split("+")], *numbers, normalise=normalise)
    if kind == "sorted":
        return SortedNeighbourhood(rest.strip(), *numbers, normalise=normalise)
    return Key(rest.strip(), normalise=normalise)


def as_rules(given: Any) -> list[Blocking]:
    """One rule or a list of them; a string is read by `parse_rule`."""
    rules = []
    for item in given if isinstance(given, list | tuple) else [given]:
        rule = parse_rule(item) if isinstance(item, str) else item
        if not isinstance(rule, Blocking):
            raise SettingError.saying(
                f"a blocking rule was expected, such as Key('postcode') or {WRITTEN!r}; got {item!r}"
            )
        rules.append(rule)
    if not rules:
        raise SettingError.saying("expected at least one blocking rule, such as Key('postcode')")
    return rules


# -- Candidates of all rules together, and how far each rule goes --------------------------------------

AT_A_TIME = 1 << 19  # candidates worked on together: some tens of megabytes whatever the whole is
WAVE = 4  # pieces a thread that wait to be put into their places
GIANT = ("keep", "skip")
MOST_PAIRS = 200_000_000
ALL_PAIRS = 2_000_000  # without rules so many pairs are compared, at most


@dataclass(frozen=True)
class RuleReport:
    """One rule: the pairs it brings together, and how many of them are true (None: no truth)."""

    rule: str
    n_pairs: int
    n_true: int | None = None


@dataclass(frozen=True)
class BlockingReport:
    """Each rule for itself, and all together.

    n_possible   pairs without blocking
    n_matches    true pairs, found or not; None: no truth
    """

    rules: tuple[RuleReport, ...]
    union: RuleReport
    n_possible: int
    n_matches: int | None = None

    @property
    def n_pairs(self) -> int:
        return self.union.n_pairs

    @property
    def reduction_ratio(self) -> float:
        """1 - pairs / possible pairs; 1 where none are possible."""
        return self._reduction(self.union)

    @property
    def pair_completeness(self) -> float | None:
        """True pairs among the candidates / all true pairs: the most that candidates allow. None: no truth."""
        return self._completeness(self.union)

    def _reduction(self, rule: RuleReport) -> float:
        return 1.0 - rule.n_pairs / self.n_possible if self.n_possible else 1.0

    def _completeness(self, rule: RuleReport) -> float | None:
        if self.n_matches is None or rule.n_true is None:
            return None
        return rule.n_true / self.n_matches if self.n_matches else 1.0

    def __str__(self) -> str:
        head = f"{self.n_pairs:,} of {self.n_possible:,} pairs are candidates ({self.reduction_ratio:.4%} left out)"
        if self.n_matches is not None:
            head += f", with {self.union.n_true:,} of {self.n_matches:,} true pairs ({self.pair_completeness:.2%})"
        rows = [("rule", "pairs", "left out", "true pairs", "completeness")]
        for rule in (*self.rules, self.union):
            share = self._completeness(rule)
            true = ("", "") if share is None else (f"{rule.n_true:,}", f"{share:.2%}")
            rows.append((rule.rule, f"{rule.n_pairs:,}", f"{self._reduction(rule):.4%}", *true))
        shown = rows if self.n_matches is not None else [row[:3] for row in rows]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in shown]
        return "\n".join([head, *lines])


class TooManyPairs(InputError):
    """Rules would make more pairs than a setting allows."""

    def __init__(self, found: str, allowed: int, setting: str = "max_pairs") -> None:
        skipped = ", leave out giant blocks with `giant='skip'`," if setting == "max_pairs" else ""
        remedy = f"narrow the rules{skipped} or raise `{setting}`"
        super().__init__(f"{found}, where `{setting}` allows {allowed:,}; {remedy}")
        self.found = found


def within(limit: int | None, items: Mentions, rules: Any, n_jobs: int | None, after: int = 0) -> Mentions:
    """The items with the pairs of rules, as `blocked` gives them, of which there may be so many by the setting `limit`;
    None: as many as there may be anyway."""
    most = MOST_PAIRS if limit is None else limit
    whole(0).check("limit", most)
    try:
        found, report = blocked(items, rules, max_pairs=most, n_jobs=n_jobs, after=after)
    except TooManyPairs as error:
        raise TooManyPairs(error.found, most, "limit") from None
    log.info("%s", report)
    return found


def block(items: Mentions, rules: Any = None, **settings: Any) -> Mentions:
    """The items with every pair that at least one of the rules brings together; settings as in `blocked`."""
    return blocked(items, rules, **settings)[0]


def blocked(
    items: Mentions,
    rules: Any = None,
    *,
    max_block: int = 1_000_000,
    giant: str = "keep",
    max_pairs: int = MOST_PAIRS,
    n_jobs: int | None = None,
    after: int = 0,
) -> tuple[Mentions, BlockingReport]:
    """The items with the pairs that at least one of the rules brings together, and how far each rule goes.

    rules       Key, SortedNeighbourhood, RareTokens, or strings: "key(postcode)"; one or a list; None: all pairs, an
                error where they are more than two million
    max_block   pairs of a block that is warned of, before any work is done
    giant       what to do with such blocks: "keep" or "skip"
    max_pairs   an error, before any work is done, if the rules could make more pairs than this
    after       only pairs in which the later item has this number or a higher one: new items after old ones
    """
    if rules is None:
        return _every_pair(items, after, max_pairs)
    one_of("giant", giant, GIANT)
    at_least("max_block", max_block, 1)
    listed, jobs = as_rules(rules), resolve_jobs(n_jobs)
    limits = Limits(int(max_block), giant == "skip")
    _check_columns(items, listed)
    found = [rule.candidates(items, limits).later(after) for rule in listed]
    total = sum(one.total for one in found)
    if total > max_pairs:
        shares = ", ".join(f"{rule}: {one.total:,}" for rule, one in zip(listed, found, strict=True))
        raise TooManyPairs(f"up to {total:,} pairs ({shares})", max_pairs)
    cost = np.concatenate([[0], np.cumsum(sum((one.costs(items.n_items) for one in found), np.zeros(items.n_items)))])
    bounds = even_bounds(cost.astype(np.int64), -(-total // AT_A_TIME)) if total else np.zeros(1, np.int64)

    def work(chunk: int) -> tuple[Array, Array, Array]:
        return _merged(found, int(bounds[chunk]), int(bounds[chunk + 1]), items)

    # Room for all that may come, of which only what is written to is taken from the system: the rest goes back.
    left, right, at = np.empty(total, np.int32), np.empty(total, np.int32), 0
    counts, n_chunks, wave = np.zeros((len(found) + 1, 2), np.int64), len(bounds) - 1, WAVE * jobs
    for first in range(0, n_chunks, wave):
        parts = run_chunks(lambda i, first=first: work(first + i), min(wave, n_chunks - first), jobs)  # type: ignore[misc]
        for a, b, count in parts:
            left[at : at + len(a)], right[at : at + len(a)] = a, b
            at += len(a)
            counts += count
        del parts, a, b
    left.resize(at, refcheck=False)
    right.resize(at, refcheck=False)
    release_free_memory()
    return replace(items, left=left, right=right, blocked=True), _report(items, listed, counts, after)


def _check_columns(items: Mentions, rules: Sequence[Blocking]) -> None:
    for rule in rules:
        lacking = next((name for name in rule.columns if name not in items.columns), None)
        if lacking is not None:
            there = ", ".join(map(repr, items.columns)) or "none"
            remedy = "name columns of theirs in the rule, or give them this one"
            raise InputError(f"the blocking rule {rule} reads the column {lacking!r}; the items have {there}: {remedy}")


def wide_rules(items: Mentions) -> str:
    """Two rules that bring many true pairs together, to suggest: of the column of text with most different values."""
    texts = {name: column for name, column in items.columns.items() if isinstance(column, Column)}
    named = [name for name in texts or items.columns if re.fullmatch(r"[^\W\d]\w*", name)]
    if not named:
        return WRITTEN
    best = max(named, key=lambda name: len(texts[name].values) if name in texts else 0)
    return f"'sorted({best}, 10)' or 'rare({best}, 50)'"


def _every_pair(items: Mentions, after: int, max_pairs: int) -> tuple[Mentions, BlockingReport]:
    possible, first = items.n_possible_pairs - after * (after - 1) // 2, items.first_table
    if possible > max_pairs:
        raise TooManyPairs(f"{possible:,} pairs are possible", max_pairs)
    if possible > ALL_PAIRS:
        remedy = f"give blocking rules, such as {wide_rules(items)}"
        raise InputError(f"{possible:,} pairs are possible, too many to compare all of them; {remedy}")
    if after:
        earlier = np.arange(after, items.n_items)
        right = np.repeat(earlier, earlier).astype(np.int32)
        left = (np.arange(len(right)) - np.repeat(np.cumsum(earlier) - earlier, earlier)).astype(np.int32)
    elif first is None:
        left, right = pairs_within(items.groups)
    else:
        left = np.tile(np.arange(first, dtype=np.int32), items.n_items - first)
        right = np.repeat(np.arange(first, items.n_items, dtype=np.int32), first)
    matches = None if items.clusters is None else items.n_true_pairs
    whole = RuleReport("all pairs", possible, matches)
    return replace(items, left=left, right=right, blocked=True), BlockingReport((), whole, possible, matches)


def _merged(found: Sequence[Candidates], first: int, last: int, items: Mentions) -> tuple[Array, Array, Array]:
    """Pairs whose right item is in a range, in order; and pairs and true pairs, by rule and of all of them."""
    counts = np.zeros((len(found) + 1, 2), np.int64)
    merged: Array = np.empty(0, np.int64)
    for row, one in enumerate(found):
        keys = one.pairs(first, last)
        counts[row] = len(keys), _n_true(keys, items)
        merged = distinct(np.concatenate([merged, keys])) if len(merged) else keys
    counts[-1] = counts[0] if len(found) == 1 else (len(merged), _n_true(merged, items))
    return *pairs_of(merged), counts


def _n_true(keys: Array, items: Mentions) -> int:
    if items.clusters is None:
        return 0
    a, b = items.clusters[keys & 0xFFFFFFFF], items.clusters[keys >> 32]
    return int(np.count_nonzero((a == b) & (a >= 0)))


def _report(items: Mentions, rules: Sequence[Blocking], counts: Array, after: int) -> BlockingReport:
    truth, possible = items.clusters is not None, items.n_possible_pairs - after * (after - 1) // 2
    lines = [
        RuleReport(name, int(pairs), int(true) if truth else None)
        for name, (pairs, true) in zip([*map(str, rules), "all rules"], counts, strict=True)
    ]
    for line in lines[:-1]:
        if not line.n_pairs:
            log.warning("%s brings no two items together; are its fields the right ones?", line.rule)
    if not lines[-1].n_pairs:
        log.warning("no candidate pairs among %d items: nothing can be linked; choose wider rules", items.n_items)
    return BlockingReport(tuple(lines[:-1]), lines[-1], possible, items.n_true_pairs if truth else None)
