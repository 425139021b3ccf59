"""Clusterings compared: by pairs, by whole clusters, and what blocking keeps. Rates are fractions from 0 to 1.

Two clusterings come as `key` (the truth) and `response`: integer arrays with a cell for every mention, or record,
of either side. A number >= 0 is a cluster; -1 says that the mention does not exist on that side. `groups` gives
every mention its document: clusters never cross documents, and two documents may use the same numbers. All
counts are added over documents before a rate is taken. A mention that exists on neither side is left out.

Everything is read off the contingency table, which lists only clusters that share a mention: a million mentions
cost some sorting, never a pass over pairs. A rate with a zero denominator is 0, as in the official CoNLL scorer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.errors import InputError

ABSENT = -1

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Score:
    """Recall, precision and F1; with (numerator, denominator) of the first two where they are plain ratios."""

    recall: float
    precision: float
    f1: float
    recall_ratio: tuple[float, float] | None = None
    precision_ratio: tuple[float, float] | None = None

    @classmethod
    def from_ratios(cls, recall: tuple[float, float], precision: tuple[float, float]) -> Score:
        """The rates of two ratios; F1 = 2 P R / (P + R)."""
        r, p = ratio(*recall), ratio(*precision)
        return cls(r, p, harmonic_mean(r, p), recall, precision)

    def as_dict(self) -> dict[str, float]:
        return {"recall": self.recall, "precision": self.precision, "f1": self.f1}


@dataclass(frozen=True)
class PairScores:
    """How many pairs there are, and how many were linked rightly, linked wrongly and missed; and the rates."""

    pairs: int
    true_positives: int
    false_positives: int
    false_negatives: int

    @property
    def error(self) -> float:
        """Share of all pairs that are linked wrongly or missed."""
        return ratio(self.false_positives + self.false_negatives, self.pairs)

    @property
    def precision(self) -> float:
        return ratio(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float:
        return ratio(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def f1(self) -> float:
        """2 TP / (2 TP + FP + FN)."""
        right = 2 * self.true_positives
        return ratio(right, right + self.false_positives + self.false_negatives)

    def as_dict(self) -> dict[str, Any]:
        rates = {name: getattr(self, name) for name in ("error", "recall", "precision", "f1")}
        counts = ("pairs", "true_positives", "false_positives", "false_negatives")
        return {**rates, **{name: getattr(self, name) for name in counts}}


@dataclass(frozen=True)
class BlockingScores:
    """What a choice of candidate pairs keeps of the true ones, and what it saves."""

    pair_completeness: float
    """Share of the true pairs that are candidates: the recall no later step can exceed."""
    pair_quality: float
    """Share of the candidates that are true pairs."""
    reduction_ratio: float
    """Share of all possible pairs that need not be looked at: 1 - candidates / possible."""

    def as_dict(self) -> dict[str, float]:
        return dict(vars(self))


@dataclass(frozen=True)
class Contingency:
    """Sizes of the clusters of both sides and of their overlaps, and mentions in each document.

    Clusters are numbered over all documents. Overlap i is that of key cluster `overlap_key[i]` with response cluster
    `overlap_response[i]`: `overlaps[i]` mentions, never none.
    """

    key_sizes: Ints
    response_sizes: Ints
    overlap_key: Ints
    overlap_response: Ints
    overlaps: Ints
    key_in_group: Ints
    response_in_group: Ints
    shared_in_group: Ints
    """Mentions of each document that exist on both sides."""
    all_in_group: Ints
    """Mentions of each document that exist on either side."""


def compare(key: ArrayLike, response: ArrayLike, groups: ArrayLike | None = None) -> Contingency:
    """The contingency table of two clusterings of the same mentions."""
    first, second = (_whole_numbers(ids, name) for ids, name in ((key, "key"), (response, "response")))
    group = np.zeros(len(first), np.int64) if groups is None else _whole_numbers(groups, "groups")
    if not len(first) == len(second) == len(group):
        lengths = f"{len(first)}, {len(second)} and {len(group)}"
        raise InputError(f"key, response and groups must have a cell for every mention of either side; got {lengths}")
    for ids, name in ((first, "key"), (second, "response")):
        if len(ids) and ids.min() < ABSENT:
            raise InputError(f"{name} must hold clusters from 0 on, or {ABSENT} for no such mention; got {ids.min()}")
    names, group = np.unique(group, return_inverse=True)
    in_key, in_response = first != ABSENT, second != ABSENT
    both = in_key & in_response
    key_cluster, key_sizes = _numbered(group, first, in_key)
    response_cluster, response_sizes = _numbered(group, second, in_response)
    cells, overlaps = np.unique(key_cluster[both] * len(response_sizes) + response_cluster[both], return_counts=True)
    key_in, response_in, shared_in, all_in = (
        np.bincount(group[kept], minlength=len(names)) for kept in (in_key, in_response, both, in_key | in_response)
    )
    overlap_key, overlap_response = np.divmod(cells, max(len(response_sizes), 1))
    return Contingency(
        key_sizes, response_sizes, overlap_key, overlap_response, overlaps, key_in, response_in, shared_in, all_in
    )


def pair_scores(key: ArrayLike, response: ArrayLike, groups: ArrayLike | None = None) -> PairScores:
    """Pairs in one cluster of the response against pairs in one cluster of the key.

    `error` is over all pairs of mentions within documents. A mention that one side lacks is linked to nobody there.
    """
    return linked_pairs(compare(key, response, groups))


def linked_pairs(table: Contingency) -> PairScores:
    """Pairs linked by both sides lie within overlaps."""
    right = pairs_within(table.overlaps)
    return PairScores(
        pairs_within(table.all_in_group),
        right,
        pairs_within(table.response_sizes) - right,
        pairs_within(table.key_sizes) - right,
    )


def decision_scores(truth: ArrayLike, decided: ArrayLike, missed: int = 0, n_possible: int | None = None) -> PairScores:
    """Decisions on candidate pairs, before any clustering: `truth` and `decided` hold a boolean a candidate.

    missed      true pairs that are not candidates: false negatives
    n_possible  what `error` is over; by default the candidates and the missed pairs
    """
    true, linked = np.asarray(truth), np.asarray(decided)
    if true.shape != linked.shape or true.ndim != 1:
        raise InputError(f"expected one decision a candidate pair, {true.shape}; got {linked.shape}")
    if any(len(flags) and flags.dtype != np.bool_ for flags in (true, linked)):
        raise InputError(f"truth and decided must hold booleans; got {true.dtype} and {linked.dtype}")
    true, linked = true.astype(np.bool_), linked.astype(np.bool_)
    pairs = len(true) + missed if n_possible is None else n_possible
    if missed < 0 or pairs < len(true) + missed:
        raise InputError(f"expected missed >= 0 and n_possible >= {len(true) + missed}; got {missed} and {n_possible}")
    right, n_true, n_linked = (int(np.count_nonzero(flags)) for flags in (true & linked, true, linked))
    return PairScores(pairs, right, n_linked - right, n_true - right + missed)


def cluster_scores(
    key: ArrayLike, response: ArrayLike, groups: ArrayLike | None = None, *, singletons: bool = True
) -> Score:
    """Whole clusters: one is right when the other side has exactly the same. `singletons=False` leaves out those of one
    mention, on both sides."""
    return exact_clusters(compare(key, response, groups), 1 if singletons else 2)


def exact_clusters(table: Contingency, smallest: int = 1) -> Score:
    """Clusters of `smallest` mentions or more that both sides have: the overlap is all of either."""
    key_sizes, response_sizes = table.key_sizes[table.overlap_key], table.response_sizes[table.overlap_response]
    same = (table.overlaps == key_sizes) & (table.overlaps == response_sizes) & (table.overlaps >= smallest)
    right = int(np.count_nonzero(same))
    in_key, in_response = (int(np.count_nonzero(s >= smallest)) for s in (table.key_sizes, table.response_sizes))
    return Score.from_ratios((right, in_key), (right, in_response))


def blocking_scores(n_true_pairs: int, n_true_candidates: int, n_candidates: int, n_possible: int) -> BlockingScores:
    """Blocking by its counts: true pairs, those of them that are candidates, candidates, and all possible pairs."""
    if not 0 <= n_true_candidates <= min(n_true_pairs, n_candidates) or max(n_true_pairs, n_candidates) > n_possible:
        counts = f"{n_true_candidates}, {n_true_pairs}, {n_candidates} and {n_possible}"
        raise InputError(f"expected true candidates <= true pairs, candidates <= possible pairs; got {counts}")
    saved = ratio(n_possible - n_candidates, n_possible)
    return BlockingScores(ratio(n_true_candidates, n_true_pairs), ratio(n_true_candidates, n_candidates), saved)


def pairs_within(sizes: Ints) -> int:
    """Pairs of mentions within parts of these sizes: Σ n (n - 1) / 2."""
    return int((sizes * (sizes - 1) // 2).sum())


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def harmonic_mean(first: float, second: float) -> float:
    return ratio(2 * first * second, first + second)


def _whole_numbers(values: ArrayLike, name: str) -> Ints:
    array = np.asarray(values)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        raise InputError(f"{name} must be a row of whole numbers; got {array.dtype} of shape {array.shape}")
    return array.astype(np.int64)


def _numbered(group: Ints, ids: Ints, present: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Clusters numbered over all documents, -1 for mentions that are absent; and their sizes."""
    names, local = np.unique(ids[present], return_inverse=True)
    _, cluster, sizes = np.unique(group[present] * len(names) + local, return_inverse=True, return_counts=True)
    numbers = np.full(len(ids), ABSENT, np.int64)
    numbers[present] = cluster
    return numbers, sizes
