"""Ways from probabilities of pairs to clusters, as settings: what `Linker(clusterer=...)` takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.settings import NONE, Settings, check_settings, number, one_of, setting, whole
from kinfolk.errors import InputError, SettingError
from kinfolk.inference.clustering import (
    Constraints,
    agglomerate,
    best_link,
    best_match,
    cluster_sum,
    correlation,
    log_odds,
    one_to_one,
    single_link,
)
from kinfolk.linking.mentions import Mentions

Array = NDArray[Any]


PROBABILITY = number(0, 1, below=True)
SURE = 8.0  # log-odds beyond which a pair is no surer for AverageLink


@dataclass(eq=False, repr=False)
class Clusterer(Settings, ABC):
    """Abstract: a rule that makes clusters of the probabilities of pairs."""

    every_pair: ClassVar[bool] = False  # whether all pairs of a cluster count, also those blocking left out
    of_shares: ClassVar[bool] = False  # whether it takes shares of antecedents in the place of probabilities

    threshold: float = setting(0.5, "the probability a pair (or what stands for it) has to exceed", PROBABILITY)
    max_size: int | None = setting(None, "the most items of a cluster; None: no limit", whole(1) | NONE)

    def check(self) -> None:
        """Raise a SettingError for a setting outside its range."""
        check_settings(self)

    @abstractmethod
    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array: ...

    def why_not(self, one: Between) -> str:
        """Why it did not join two clusters with a pair above the threshold, in words; "": it cannot say."""
        return ""

    def cluster(
        self,
        n: int,
        left: Array,
        right: Array,
        probability: Array,
        must_link: Array | None = None,
        cannot_link: Array | None = None,
        first_table: int | None = None,
        n_jobs: int = 1,
    ) -> NDArray[np.int32]:
        """Clusters int32 (n,), numbered by their first items; pairs in order of right and then left.

        first_table   items of the first of two tables, all pairs crossing them; None: one table
        n_jobs        threads, as a resolved number
        """
        self.check()
        left, right, probability = _checked_pairs(n, left, right, probability)
        unknown = int(np.isnan(probability).sum())
        if unknown:
            some = f"{unknown} of the {len(left)} pairs {'has' if unknown == 1 else 'have'}"
            raise InputError(f"{some} NaN for a probability; give a number from 0 to 1")
        must, cannot = (
            _pairs(given, n, name) for given, name in ((must_link, "must_link"), (cannot_link, "cannot_link"))
        )
        _check_harmony(n, must, cannot, self.max_size)
        rules = Constraints(must, cannot, self.max_size or 0, first_table or 0, n_jobs)
        return np.asarray(self._cluster(n, left, right, probability, rules), np.int32)


@dataclass(eq=False, repr=False)
class SingleLink(Clusterer):
    """The transitive closure of the pairs above the threshold."""

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        return single_link(n, left, right, probability, self.threshold, rules)


@dataclass(eq=False, repr=False)
class AverageLink(Clusterer):
    """Joins the clusters with the highest mean over their pairs, as long as it exceeds the threshold.

    Pairs are those that can be compared: all of one table, of two tables those that cross them.

    """

    every_pair: ClassVar[bool] = True

    of: str = setting(
        "probability",
        '"probability": pairs that are no candidates count as 0; "log-odds": the mean of log-odds between -8 and 8, -8 '
        "for pairs that are no candidates, so that a pair the model is sure of counts for more",
        one_of("probability", "log-odds"),
    )

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        if self.of == "probability":
            return agglomerate(n, left, right, probability, "average", self.threshold, rules)
        value, least = (np.clip(log_odds(p), -SURE, SURE) + SURE for p in (probability, np.array([self.threshold])))
        return agglomerate(n, left, right, value, "average", float(least[0]), rules)

    def why_not(self, one: Between) -> str:
        if self.of == "log-odds":
            value, least = (np.clip(log_odds(p), -SURE, SURE) for p in (one.probability, np.array([self.threshold])))
            mean, needed = float(value.sum() - SURE * one.missing) / one.wanted, float(least[0])
            what, shown = "mean of log-odds", f"{needed:+.1f}, and it is {mean:+.1f}"
        else:
            mean, needed = float(one.probability.sum()) / one.wanted, self.threshold
            close = _percent(mean, 1) == _percent(needed, 1)
            what, shown = "mean", f"{_percent(needed)}, and it is {'just below' if close else _percent(mean, 1)}"
        if mean > needed:  # clusters of another hand
            return ""
        rule = f"average link joins only where the {what} over all pairs between the two clusters is above {shown}"
        return f"{rule}, as {one.no_candidates}" if one.missing else f"{rule} over {one.wanted} pairs"


@dataclass(eq=False, repr=False)
class CompleteLink(Clusterer):
    """Joins the clusters with the highest smallest probability, as long as it exceeds the threshold."""

    every_pair: ClassVar[bool] = True

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        return agglomerate(n, left, right, probability, "complete", self.threshold, rules)

    def why_not(self, one: Between) -> str:
        below = int((one.probability <= self.threshold).sum())
        if not one.missing and not below:
            return ""
        rule = f"complete link joins only where every pair between the two clusters is above {_percent(self.threshold)}"
        refused = f"{below} of {one.wanted} {'are' if below > 1 else 'is'} not"
        if not one.missing:
            return f"{rule}, and {refused}"
        return f"{rule}; {refused + ', and ' if below else ''}{one.no_candidates}"


@dataclass(eq=False, repr=False)
class BestLink(Clusterer):
    """Joins every item to one earlier item above the threshold."""

    kind: str = setting(
        "best", '"best": the most probable; "closest": the nearest before it', one_of("best", "closest")
    )

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        return best_link(n, left, right, probability, self.kind, self.threshold, rules)

    def why_not(self, one: Between) -> str:
        items, clusters = one.items, one.clusters
        own = np.flatnonzero((items.right == one.high) & (clusters[items.left] == clusters[one.high]))
        own = own[one.of_all[own] > self.threshold]
        if not len(own):
            return ""
        closest = self.kind == "closest"
        chosen = int(items.left[own[np.argmax(items.left[own] if closest else one.of_all[own])]])
        rule = f"best link joins every item to one earlier item only, the {'closest' if closest else 'most probable'}"
        return f"{rule} above {_percent(self.threshold)}: {items.title(one.high)} goes with {items.title(chosen)}"


@dataclass(eq=False, repr=False)
class ClusterSum(Clusterer):
    """In order, joins every item to the earlier cluster it most probably follows: whose members have the largest sum of
    shares, if that exceeds the share of a new cluster (see `threshold`). For `training="ranking"` alone.
    """

    of_shares: ClassVar[bool] = True

    threshold: float = setting(
        0.5, "the share a cluster has to exceed, of what it and a new cluster have together", PROBABILITY
    )

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        total = np.bincount(right, probability, minlength=n)
        over = np.flatnonzero(total > 1 + 1e-6)
        if len(over):
            got = f"those of item {over[0]} sum to {total[over[0]]:.3g}"
            raise InputError(f"ClusterSum takes shares of antecedents, which sum to 1 at most; {got}")
        return cluster_sum(n, left, right, probability, self.threshold, rules)


@dataclass(eq=False, repr=False)
class Correlation(Clusterer):
    """Clusters with a large sum of log-odds within them: greedy joins, then single moves, to a local optimum."""

    every_pair: ClassVar[bool] = True

    def check(self) -> None:
        super().check()
        if self.threshold == 0:
            raise SettingError.saying("Correlation needs a threshold above 0: at 0 its log-odds are infinite")

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        return correlation(n, left, right, probability, self.threshold, rules)

    def why_not(self, one: Between) -> str:
        gain = float((log_odds(one.probability) - log_odds(np.array([self.threshold]))).sum())
        if gain > 0:
            return ""
        pairs = f"the log-odds of the {len(one.probability)} candidate pairs between the two clusters"
        return f"{pairs} sum to {gain:+.1f}, so joining them would lose"


@dataclass(eq=False, repr=False)
class OneToMany(Clusterer):
    """For two tables: joins every record to its most probable match in the other table, if above the threshold.

    Where each record of one table has one match at most, that is the exact maximum of the total log-odds.
    """

    each: str = setting(
        "both",
        '"first": every record of the first table has one match at most, and many of them may have the same of the '
        'second; "second": the other way round; "both": every record of both tables takes its best',
        one_of("first", "second", "both"),
    )

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        _check_two_tables(self, left, right)
        return best_match(n, left, right, probability, self.each, self.threshold, rules)

    def why_not(self, one: Between) -> str:
        """Each record that takes its best has a better one, in its own cluster."""
        taken = []
        for item, side in ((one.low, "first"), (one.high, "second")):
            own = np.flatnonzero((one.items.left == item) | (one.items.right == item))
            if self.each in (side, "both") and len(own):
                best = int(own[np.argmax(one.of_all[own])])
                partner = int(one.items.right[best] if one.items.left[best] == item else one.items.left[best])
                if one.clusters[partner] == one.clusters[item]:
                    taken.append(f"{one.items.title(item)} has {one.items.title(partner)}")
        return f"one-to-many joins a record to its most probable partner alone: {' and '.join(taken)}" if taken else ""


@dataclass(eq=False, repr=False)
class OneToOne(Clusterer):
    """For two tables without duplicates of their own: the exact matching of largest total log-odds."""

    def check(self) -> None:
        super().check()
        if self.threshold == 0:
            raise SettingError.saying("OneToOne needs a threshold above 0: at 0 its log-odds are infinite")

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        _check_two_tables(self, left, right)
        return one_to_one(n, left, right, probability, self.threshold, rules)

    def why_not(self, one: Between) -> str:
        partners = []
        for item in (one.low, one.high):
            same = np.flatnonzero(one.clusters == one.clusters[item])
            partners += [f"{one.items.title(item)} has {one.items.title(int(i))}" for i in same if i != item][:1]
        return f"one-to-one gives every record one partner at most: {' and '.join(partners)}" if partners else ""


def _check_two_tables(clusterer: Clusterer, left: Array, right: Array) -> None:
    both = np.intersect1d(left, right)
    if len(both):
        raise SettingError.saying(
            f"{type(clusterer).__name__} is for pairs across two tables, but item {both[0]} is left in one pair, right "
            "in another; read two tables, or take another clusterer"
        )


_ALL = (SingleLink, AverageLink, CompleteLink, BestLink, ClusterSum, Correlation, OneToOne, OneToMany)
CLUSTERERS = {cls.__name__: cls for cls in _ALL}
FORMER_NAMES = {"BestMatch": "OneToMany"}  # in files of before


def usual_clusterer(training: str, of_text: bool, two_tables: bool) -> Clusterer:
    """What suits the items and the way of training, where nothing more is known of the clusters."""
    if two_tables:
        return OneToMany()
    if not of_text:
        return AverageLink()
    return {"ranking": ClusterSum(), "combined": AverageLink()}.get(training, SingleLink())


def _checked_pairs(n: int, left: Any, right: Any, probability: Any) -> tuple[Array, Array, Array]:
    """Candidate pairs with a number each, as arrays: kernels follow them without looking."""
    left, right = (np.asarray(ends if np.size(ends) else np.empty(0, np.int64)) for ends in (left, right))
    try:
        probability = np.asarray(probability, np.float64)
    except (TypeError, ValueError):
        raise InputError("probabilities of pairs must be numbers from 0 to 1") from None
    if not left.shape == right.shape == probability.shape == (left.size,):
        raise InputError(
            f"left, right and probability must have one entry a pair; got shapes {left.shape}, {right.shape} and "
            f"{probability.shape}"
        )
    for name, ends in (("left", left), ("right", right)):
        if ends.dtype.kind not in "iu" or (len(ends) and not 0 <= int(ends.min()) <= int(ends.max()) < n):
            got = f"{ends.min()} to {ends.max()}" if ends.dtype.kind in "iu" else f"an array of {ends.dtype}"
            raise InputError(f"{name} must be numbers of items, from 0 to {n - 1}; got {got}")
    return left, right, probability


def _pairs(given: Array | None, n: int, name: str) -> NDArray[np.int32]:
    pairs = np.asarray([] if given is None else given, np.int64).reshape(-1, 2)
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= n or (pairs[:, 0] == pairs[:, 1]).any()):
        raise SettingError.saying(
            f"`{name}` must hold pairs of different items among {n}, counted from 0; got {pairs[:3].tolist()}"
        )
    return pairs.astype(np.int32)


class ConstraintsError(SettingError):
    """Two items that must be together, by `must_link`, and apart, by `cannot_link`."""

    def __init__(self, a: int | str, b: int | str) -> None:
        self.items = (a, b)
        super().__init__("cannot_link", (a, b), "free of items that `must_link` puts together", "drop one of the two")


def _check_harmony(n: int, must: Array, cannot: Array, max_size: int | None) -> None:
    """Must-links, closed, may not put together what must not be, nor too many."""
    if not len(must):
        return
    together = single_link(n, must.min(axis=1), must.max(axis=1), np.ones(len(must)))
    clash = np.flatnonzero(together[cannot[:, 0]] == together[cannot[:, 1]])
    if len(clash):
        a, b = cannot[clash[0]]
        raise ConstraintsError(int(a), int(b))
    largest = int(np.bincount(together).max())
    if max_size is not None and largest > max_size:
        raise SettingError.saying(
            f"`must_link` makes a cluster of {largest} items, where `max_size` is {max_size}; raise it"
        )


# -- Why a clustering did not join two items that the model would link -----------------------------------


@dataclass(frozen=True, eq=False)
class Between:
    """A candidate pair of two clusters, and all pairs between these."""

    items: Mentions
    low: int
    high: int
    sizes: tuple[int, int]
    probability: Array  # of the candidate pairs between the clusters
    of_all: Array  # of all candidate pairs
    clusters: Array

    @property
    def wanted(self) -> int:
        """Pairs of the two clusters that can be compared: of two tables those that cross them."""
        first = self.items.first_table
        if first is None:
            return self.sizes[0] * self.sizes[1]
        ours = [int((self.clusters[:first] == self.clusters[item]).sum()) for item in (self.low, self.high)]
        return ours[0] * (self.sizes[1] - ours[1]) + ours[1] * (self.sizes[0] - ours[0])

    @property
    def missing(self) -> int:
        return self.wanted - len(self.probability)

    @property
    def no_candidates(self) -> str:
        """How many pairs are no candidates, and what to do about it."""
        count = "are no candidates and count as no" if self.missing > 1 else "is no candidate and counts as no"
        remedy = "Add a blocking rule, or take another clusterer, such as single link"
        return f"{self.missing} of {self.wanted} {count}. {remedy}"


def why_not_joined(
    clusterer: Clusterer, items: Mentions, probability: Array, clusters: Array, low: int, high: int, cannot: Array
) -> str:
    """Why they are not joined, in words; "" where none is known. `cannot` (m, 2): pairs that must not be together."""
    mine, other = clusters == clusters[low], clusters == clusters[high]
    sizes = int(mine.sum()), int(other.sum())
    left, right = items.left, items.right
    crossing = (mine[left] & other[right]) | (other[left] & mine[right])
    one = Between(items, low, high, sizes, probability[crossing], probability, clusters)
    a, b = cannot[:, 0], cannot[:, 1]
    barred = cannot[(mine[a] & other[b]) | (other[a] & mine[b])].tolist()
    if isinstance(clusterer, OneToOne):  # it asks for the pair alone, not for the clusters around it
        barred = [pair for pair in barred if sorted(pair) == [low, high]]
    if barred:
        return "it was given that {} and {} must not be linked".format(*map(items.title, barred[0]))
    if clusterer.max_size is not None and sum(sizes) > clusterer.max_size and not isinstance(clusterer, OneToOne):
        return f"together they would be {sum(sizes)} items, where max_size allows {clusterer.max_size}"
    return clusterer.why_not(one)


def _percent(p: float, digits: int = 0) -> str:
    return f"{100 * p:.{digits}f} %"
