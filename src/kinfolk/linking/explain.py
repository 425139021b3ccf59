"""Why two items are linked, and what holds a cluster together. Arrays in, plain answers out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.errors import InputError
from kinfolk.inference.antecedents import Shares, together
from kinfolk.linking.calibration import Calibration
from kinfolk.linking.chains import connected
from kinfolk.linking.mentions import Mentions, pair_keys
from kinfolk.linking.nested import SEPARATOR
from kinfolk.linking.pair_table import PairSet
from kinfolk.linking.probabilities import Probabilities
from kinfolk.linking.training import sigmoid

Array = NDArray[Any]
SHOWN = 15  # contributions that are printed


@dataclass(frozen=True)
class Contribution:
    """What one column (or conjunction) adds to the log-odds of a pair, compared with the pairs trained on."""

    feature: str  # "same text: names"
    share: float


@dataclass(frozen=True)
class LinkExplanation:
    """Log-odds of a pair = base + Σ shares; `base` is the mean over the training pairs. Calibration is one of them.

    After ranking the probability is that of being together in any way, not the sigmoid of the score, which is that of
    `left` as the antecedent of `right` where a new cluster has 0; `share` is how probably it is followed.
    """

    left: str
    right: str
    probability: float
    score: float
    base: float
    contributions: tuple[Contribution, ...]  # the largest first, by absolute value
    values: tuple[tuple[str, str, str], ...] = ()  # what both items have in a field: name, left, right
    share: float | None = None
    rules: tuple[str, ...] = ()  # what decides the pair for certain: "same tax_number"
    notes: tuple[str, ...] = ()  # how values are read, where there are two ways

    def __str__(self) -> str:
        head = f"{self.left} - {self.right}: probability {self.probability:.3f}, "
        if self.share is None:
            head += f"log-odds {self.score:+.2f}"
        else:  # of being followed, or of the local decision: being together may come by way of others
            head += f"followed with {self.share:.3f}; score of this pair alone {self.score:+.2f}"
        lines = [f"  rule: {one}" for one in self.rules]
        lines += [f"  {name}: {left} | {right}" for name, left, right in self.values]
        lines += [f"  note: {one}" for one in self.notes]
        lines.append(f"  {self.base:+7.2f}  a pair in training, on average; from there")
        lines += [f"  {one.share:+7.2f}  {one.feature}" for one in self.contributions[:SHOWN]]
        rest = self.contributions[SHOWN:]
        if rest:
            lines.append(f"  {sum(one.share for one in rest):+7.2f}  {len(rest)} others together")
        return "\n".join([head, *lines])


@dataclass(frozen=True)
class AntecedentExplanation:
    """Which earlier items one follows, and how probably, the largest share first; shares and `new` sum to 1."""

    item: str
    new: float  # the share of starting a cluster
    antecedents: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        lines = [f"{self.item} follows", f"  {self.new:.3f}  none: a new cluster"]
        lines += [f"  {share:.3f}  {name}" for name, share in self.antecedents[:SHOWN]]
        rest = self.antecedents[SHOWN:]
        if rest:
            lines.append(f"  {sum(share for _, share in rest):.3f}  {len(rest)} others together")
        return "\n".join(lines)


def antecedents_of(paired: Mentions, item: int | str) -> Mentions:
    """With the candidate pairs of an item and earlier ones alone: its shares ask for no others."""
    mine = paired.right == paired.number(item)
    return replace(paired, left=paired.left[mine], right=paired.right[mine], blocked=True)


def with_exact(
    answer: LinkExplanation,
    paired: Mentions,
    pair: tuple[int, int],
    known: Array | None,
    shares: Callable[[Mentions], Shares],
    by: Probabilities,
) -> LinkExplanation:
    """With the probability of ranking, which may be `known`; a pair that is no candidate may be together by way of
    others. `shares`: those of the antecedents of items."""
    low, high = pair
    left, right = paired.left, paired.right
    keys, key = pair_keys(left, right), pair_keys(np.array([low]), np.array([high]))[0]
    at = int(np.searchsorted(keys, key))  # pairs stand in the order of their keys
    candidate = at < len(keys) and keys[at] == key
    if candidate and known is not None:
        own = antecedents_of(paired, high)
        share_ = float(shares(own).antecedent[own.left == low][0])
        return replace(answer, probability=float(known[at]), share=share_)
    share = shares(paired).antecedent
    if not candidate:
        share, left, right = np.insert(share, at, 0.0), np.insert(left, at, low), np.insert(right, at, high)
    probability = float(together(paired.n_items, left, right, share, by.n_jobs)[at])
    if by.training == "combined":
        probability = (probability + answer.probability) / 2
    return replace(answer, probability=float(by.believed(np.array(probability))), share=float(share[at]))


def explain_antecedents(items: Mentions, shares: Shares, item: int | str) -> AntecedentExplanation:
    """The shares of one item, in names."""
    number = items.number(item)
    if not 0 <= number < items.n_items:
        raise InputError(f"expected an item among {items.n_items}, counted from 0; got {item!r}")
    own = np.flatnonzero(items.right == number)
    own = own[np.argsort(-shares.antecedent[own], kind="stable")]
    named = tuple((items.title(int(items.left[p])), float(shares.antecedent[p])) for p in own)
    return AntecedentExplanation(items.title(number), float(shares.new[number]), named)


@dataclass(frozen=True)
class ClusterExplanation:
    """The weakest link of a cluster, and the two parts it would fall into without it.

    `holding` are the candidate pairs between the parts that were accepted, the strongest first: all of them would have
    to go for a single-link cluster to split. A cluster of one item, or one held together by no candidate pair (by
    must-links), has no weakest link.
    """

    items: tuple[str, ...]
    weakest: tuple[str, str] | None
    probability: float | None
    parts: tuple[tuple[str, ...], ...]
    holding: tuple[tuple[str, str, float], ...]

    def __str__(self) -> str:
        lines = [f"{len(self.items)} item{'s' * (len(self.items) != 1)}: {_few(self.items)}"]
        if self.weakest is None:
            return lines[0]
        lines.append(f"  weakest link: {self.weakest[0]} - {self.weakest[1]}, probability {self.probability:.3f}")
        lines += [f"  part of {len(part)}: {_few(part)}" for part in self.parts]
        lines.append(f"  it splits if {len(self.holding)} of the pairs between the parts were refused:")
        lines += [f"    {a} - {b}  {p:.3f}" for a, b, p in self.holding[:10]]
        return "\n".join([*lines, *(["    ..."] if len(self.holding) > 10 else [])])


def verdict(probability: float, threshold: float, candidate: bool, together: bool, reason: str = "") -> str:
    """What became of a pair, in words. `reason`: why the clustering did not join it, where it is likely."""
    if not candidate:
        why = "no candidate pair: no blocking rule brings them together"
        return f"{why}; {'in one cluster by way of others' if together else 'in different clusters'}"
    if together:
        return "linked" if probability > threshold else "in one cluster by way of others"
    if probability <= threshold:
        return "not linked"
    return "not joined by the clustering" + (f": {reason}" if reason else "")


def weakest_link(members: Array, left: Array, right: Array, probability: Array) -> tuple[int, NDArray[np.bool_]] | None:
    """The least probable pair of a cluster's maximum spanning tree, and which members are on one side of it.

    Pairs are those among `members`, which rise. None if they do not connect the members.
    """
    n, a, b = len(members), np.searchsorted(members, left), np.searchsorted(members, right)
    tree = spanning_pairs(n, a, b, probability)
    if n < 2 or len(tree) < n - 1:
        return None
    weakest, rest = int(tree[0]), tree[1:]
    part = connected(a[rest], b[rest], n)
    return weakest, part == part[a[weakest]]


def _few(names: tuple[str, ...], limit: int = 8) -> str:
    return ", ".join(names[:limit]) + (f", ... ({len(names) - limit} more)" if len(names) > limit else "")


# -- Explanations of links and clusters, in the names of items and features ----------------------------


@dataclass(frozen=True, eq=False)
class PairShares:
    """score[k] = base + Σ shares[k], of pairs; `on` (m, K) are the weights the shares (m, K) come from."""

    base: float
    shares: NDArray[np.float64]
    on: NDArray[np.int32]
    score: NDArray[np.float64]


CALIBRATED = "calibration on unseen pairs"  # what a map of log-odds adds; its number is that after all weights


def pair_shares(
    learned: PairSet,
    weights: Array,
    shares: Array,
    items: Mentions,
    left: Array,
    right: Array,
    calibration: Calibration,
) -> PairShares:
    """Where the log-odds of pairs come from; `shares` is the share of training pairs for which each weight is on."""
    first, second = np.asarray(left, np.int32), np.asarray(right, np.int32)
    order = np.lexsort((first, second))  # features may count on the order of `Mentions`
    codes = learned.coder(items)(first[order], second[order])
    on = learned.weights_on(codes[np.argsort(order)])
    means = learned.column_means(shares * weights)
    base, parts, score = float(means.sum()), weights[on] - means, weights[on].sum(axis=1)
    if not len(calibration.knots):
        return PairShares(base, parts, on, score)
    final = calibration(score)
    numbers = np.append(on, np.full((len(on), 1), len(weights), np.int32), axis=1)
    return PairShares(base, np.append(parts, (final - score)[:, None], axis=1), numbers, final)


def explain_link(
    learned: PairSet,
    weights: Array,
    shares: Array,
    items: Mentions,
    left: int | str,
    right: int | str,
    calibration: Calibration,
) -> LinkExplanation:
    """`shares` is the share of training pairs for which each weight is on."""
    low, high = two_items(items, left, right)
    found = pair_shares(learned, weights, shares, items, np.array([low]), np.array([high]), calibration)
    names, score = [*learned.weight_names(), CALIBRATED], float(found.score[0])
    order = np.argsort(-np.abs(found.shares[0]), kind="stable")
    largest = tuple(Contribution(names[found.on[0, m]], float(found.shares[0, m])) for m in order)
    values = () if items.corpus is not None else field_values(items, low, high, "-")
    notes = tuple(dict.fromkeys(note for one in learned.features for note in one.notes(items, low, high)))
    names_ = items.title(low), items.title(high)
    return LinkExplanation(*names_, float(sigmoid(np.array(score))), score, found.base, largest, values, notes=notes)


def field_values(items: Mentions, low: int, high: int, nothing: str = "") -> tuple[tuple[str, str, str], ...]:
    """What two records have in each field that both or either has; `nothing` stands for a missing value."""
    found = []
    for name in items.columns:
        values = [field_value(items, name, item) for item in (low, high)]
        if any(values):
            left, right = (short(value or nothing) for value in values)
            found.append((name, left, right))
    return tuple(found)


def field_value(items: Mentions, name: str, item: int) -> str | None:
    """What an item has in a field, as text."""
    column = items.columns[name]
    if isinstance(column, Column):
        return column.values[column.codes[item]].replace(SEPARATOR, "; ") if column.codes[item] >= 0 else None
    if column.ndim > 1:
        start = ", ".join(f"{number:.2g}" for number in column[item, :3])
        return None if np.isnan(column[item, 0]) else f"[{start}, ...], {column.shape[1]} numbers"
    return None if np.isnan(column[item]) else f"{column[item]:g}"


def short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


@dataclass(frozen=True, eq=False)
class Split:
    """A cluster, and where it would break first. Pairs are numbers of candidate pairs."""

    members: Array
    inside: Array  # pairs among the members
    weakest: int | None = None
    side: Array | None = None  # bool, one a member: on which side of the weakest link it is
    holding: Array = field(default_factory=lambda: np.empty(0, np.int64))  # accepted pairs between the sides


def two_items(items: Mentions, left: int | str, right: int | str) -> tuple[int, int]:
    """Numbers of two different items, the smaller first."""
    low, high = sorted((items.number(left), items.number(right)))
    if not 0 <= low < high < items.n_items:
        raise InputError(f"expected two different items among {items.n_items}, counted from 0; got {left} and {right}")
    return low, high


# -- Which clusters a report has room for --------------------------------------------------------------


def spanning_pairs(n: int, left: Array, right: Array, probability: Array) -> NDArray[np.int64]:
    """The pairs of a maximum spanning forest, the least probable first; of equals the earlier is the stronger."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    order = np.argsort(-probability, kind="stable")
    rank = np.empty(len(order))
    rank[order] = np.arange(1, len(order) + 1)  # by rank no two pairs are equal, and none is 0, which means no pair
    where = left.astype(np.int32), right.astype(np.int32)  # older versions of SciPy take no other
    tree = minimum_spanning_tree(csr_array((rank, where), shape=(n, n)))
    return np.asarray(order[np.sort(tree.data.astype(np.int64) - 1)[::-1]], np.int64)


def strengths(items: Mentions, probability: Array, clusters: Array) -> tuple[Array, Array]:
    """(weakest, nearest) of each cluster, numbered from 0: the probability of its weakest link (nan: it has none), and
    of the most probable candidate pair with an item of another cluster (nan: there is none)."""
    a, b = clusters[items.left], clusters[items.right]
    sizes = np.bincount(clusters)
    inside, across = np.flatnonzero(a == b), np.flatnonzero(a != b)
    tree = inside[spanning_pairs(items.n_items, items.left[inside], items.right[inside], probability[inside])]
    weakest, nearest = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
    np.minimum.at(weakest, a[tree], probability[tree])
    connected = np.bincount(a[tree], minlength=len(sizes)) == sizes - 1
    for side in (a, b):
        np.maximum.at(nearest, side[across], probability[across])
    return np.where(connected & (sizes > 1), weakest, np.nan), np.where(nearest >= 0, nearest, np.nan)


def shown_clusters(weakest: Array, nearest: Array, sizes: Array, most: int) -> list[int]:
    """By turns the most uncertain cluster, the largest, and the one that was most nearly joined to another."""
    rankings = [_rising(weakest), _rising(np.where(sizes > 1, -sizes, np.nan)), _rising(-nearest)]
    chosen: dict[int, None] = {}
    for turn in range(max(map(len, rankings), default=0)):
        chosen |= dict.fromkeys(ranking[turn] for ranking in rankings if turn < len(ranking))
        if len(chosen) >= most:
            break
    return [*dict.fromkeys([*chosen, *range(len(sizes) if len(chosen) < most else 0)])][:most]


def _rising(values: Array) -> list[int]:
    """Numbers of the values that are there, the smallest first."""
    there = np.flatnonzero(~np.isnan(values))
    return [int(k) for k in there[np.argsort(values[there], kind="stable")]]
