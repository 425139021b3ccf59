"""Blocking: which of all pairs of records are compared at all; how many that leaves, and how many true ones."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.threads import even_bounds, resolve_jobs, run_chunks
from kinfolk.errors import InputError
from kinfolk.linking.blocking_rules import (
    Blocking,
    Key,
    RareTokens,
    SortedNeighbourhood,
    as_rules,
    at_least,
    parse_rule,
)
from kinfolk.linking.candidates import Candidates, Limits, distinct
from kinfolk.linking.compared import one_of
from kinfolk.linking.mentions import Mentions, pairs_within

__all__ = [
    "Blocking",
    "BlockingReport",
    "Key",
    "RareTokens",
    "RuleReport",
    "SortedNeighbourhood",
    "as_rules",
    "block",
    "blocked",
    "parse_rule",
]

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
AT_A_TIME = 1 << 22  # candidates worked on together: some hundred megabytes whatever the whole is
GIANT = ("keep", "skip")
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
        """True pairs among the candidates / all true pairs: what no later step can exceed. None: no truth."""
        return self._completeness(self.union)

    def _reduction(self, rule: RuleReport) -> float:
        return 1.0 - rule.n_pairs / self.n_possible if self.n_possible else 1.0

    def _completeness(self, rule: RuleReport) -> float | None:
        if self.n_matches is None or rule.n_true is None:
            return None
        return rule.n_true / self.n_matches if self.n_matches else 1.0

    def __str__(self) -> str:
        told = f"{self.n_pairs:,} of {self.n_possible:,} pairs are candidates ({self.reduction_ratio:.4%} left out)"
        if self.n_matches is not None:
            told += f", with {self.union.n_true:,} of {self.n_matches:,} true pairs ({self.pair_completeness:.2%})"
        rows = [("rule", "pairs", "left out", "true pairs", "completeness")]
        for rule in (*self.rules, self.union):
            share = self._completeness(rule)
            true = ("", "") if share is None else (f"{rule.n_true:,}", f"{share:.2%}")
            rows.append((rule.rule, f"{rule.n_pairs:,}", f"{self._reduction(rule):.4%}", *true))
        shown = rows if self.n_matches is not None else [row[:3] for row in rows]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in shown]
        return "\n".join([told, *lines])


def block(items: Mentions, rules: Any = None, **settings: Any) -> Mentions:
    """The items with every pair that at least one of the rules brings together; settings as in `blocked`."""
    return blocked(items, rules, **settings)[0]


def blocked(
    items: Mentions,
    rules: Any = None,
    *,
    max_block: int = 1_000_000,
    giant: str = "keep",
    max_pairs: int = 200_000_000,
    n_jobs: int | None = None,
) -> tuple[Mentions, BlockingReport]:
    """The items with the pairs that at least one of the rules brings together, and how far each rule goes.

    rules       Key, SortedNeighbourhood, RareTokens, or strings: "key(postcode)"; one or a list; None: all pairs, an
                error where they are more than two million
    max_block   pairs of a block that is warned of, before any work is done
    giant       what to do with such blocks: "keep" or "skip"
    max_pairs   an error, before any work is done, if the rules could make more pairs than this
    """
    if rules is None:
        return _every_pair(items)
    one_of("giant", giant, GIANT)
    at_least("max_block", max_block, 1)
    listed, jobs = as_rules(rules), resolve_jobs(n_jobs)
    limits = Limits(int(max_block), giant == "skip")
    found = [rule.candidates(items, limits) for rule in listed]
    total = sum(one.total for one in found)
    if total > max_pairs:
        shares = ", ".join(f"{rule}: {one.total:,}" for rule, one in zip(listed, found, strict=True))
        remedy = 'narrow the rules, leave out giant blocks with giant="skip", or raise max_pairs'
        raise InputError(f"up to {total:,} pairs ({shares}), where max_pairs allows {max_pairs:,}; {remedy}")
    cost = np.concatenate([[0], np.cumsum(sum((one.costs(items.n_items) for one in found), np.zeros(items.n_items)))])
    bounds = even_bounds(cost.astype(np.int64), -(-total // AT_A_TIME)) if total else np.zeros(1, np.int64)

    def work(chunk: int) -> tuple[Array, Array, Array]:
        return _merged(found, int(bounds[chunk]), int(bounds[chunk + 1]), items)

    parts = run_chunks(work, len(bounds) - 1, jobs)
    left, right = (np.concatenate([np.empty(0, np.int32), *(part[side] for part in parts)]) for side in (0, 1))
    counts = sum((part[2] for part in parts), np.zeros((len(found) + 1, 2), np.int64))
    del parts
    return replace(items, left=left, right=right, blocked=True), _report(items, listed, counts)


def _every_pair(items: Mentions) -> tuple[Mentions, BlockingReport]:
    possible, first = items.n_possible_pairs, items.first_table
    if possible > ALL_PAIRS:
        told = f"{possible:,} pairs are possible, too many to compare all of them"
        raise InputError(f"{told}; give blocking rules, such as 'key(surname[:3])' or 'rare(name, 50)'")
    if first is None:
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
    merged = np.empty(0, np.int64)
    for row, one in enumerate(found):
        keys = one.pairs(first, last)
        counts[row] = len(keys), _n_true(keys, items)
        merged = distinct(np.concatenate([merged, keys])) if len(merged) else keys
    counts[-1] = counts[0] if len(found) == 1 else (len(merged), _n_true(merged, items))
    return (merged & 0xFFFFFFFF).astype(np.int32), (merged >> 32).astype(np.int32), counts


def _n_true(keys: Array, items: Mentions) -> int:
    if items.clusters is None:
        return 0
    a, b = items.clusters[keys & 0xFFFFFFFF], items.clusters[keys >> 32]
    return int(np.count_nonzero((a == b) & (a >= 0)))


def _report(items: Mentions, rules: Sequence[Blocking], counts: Array) -> BlockingReport:
    truth = items.clusters is not None
    lines = [
        RuleReport(name, int(pairs), int(true) if truth else None)
        for name, (pairs, true) in zip([*map(str, rules), "all rules"], counts, strict=True)
    ]
    for line in lines[:-1]:
        if not line.n_pairs:
            log.warning("%s brings no two items together; are its fields the right ones?", line.rule)
    if not lines[-1].n_pairs:
        log.warning("no candidate pairs among %d items: nothing can be linked; choose wider rules", items.n_items)
    return BlockingReport(tuple(lines[:-1]), lines[-1], items.n_possible_pairs, items.n_true_pairs if truth else None)
