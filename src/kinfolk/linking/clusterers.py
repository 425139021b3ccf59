"""Ways from probabilities of pairs to clusters, as settings: what `Linker(clusterer=...)` takes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.settings import NONE, Settings, check_settings, number, one_of, setting, whole
from kinfolk.errors import InputError, KinfolkError, SettingError
from kinfolk.inference.clustering import (
    Constraints,
    agglomerate,
    best_link,
    best_match,
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
class Clusterer(Settings):
    """Abstract: a rule that makes clusters of the probabilities of pairs."""

    every_pair: ClassVar[bool] = False  # whether all pairs of a cluster count, also those blocking left out

    threshold: float = setting(0.5, "the probability a pair (or what stands for it) has to exceed", PROBABILITY)
    max_size: int | None = setting(None, "the most items of a cluster; None: no limit", whole(1) | NONE)

    def check(self) -> None:
        """Raise a SettingError for a setting outside its range."""
        check_settings(self)

    @abstractmethod
    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array: ...

    def cluster(
        self,
        n: int,
        left: Array,
        right: Array,
        probability: Array,
        must_link: Array | None = None,
        cannot_link: Array | None = None,
        first_table: int | None = None,
    ) -> NDArray[np.int32]:
        """Clusters int32 (n,), numbered by their first items; pairs in order of right and then left.

        first_table   items of the first of two tables, all pairs crossing them; None: one table
        """
        self.check()
        unknown = int(np.isnan(probability).sum())
        if unknown:
            some = f"{unknown} of the {len(left)} pairs {'has' if unknown == 1 else 'have'}"
            raise InputError(f"{some} NaN for a probability; give a number from 0 to 1")
        must, cannot = (
            _pairs(given, n, name) for given, name in ((must_link, "must_link"), (cannot_link, "cannot_link"))
        )
        _check_harmony(n, must, cannot, self.max_size)
        rules = Constraints(must, cannot, self.max_size or 0, first_table or 0)
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


@dataclass(eq=False, repr=False)
class CompleteLink(Clusterer):
    """Joins the clusters with the highest smallest probability, as long as it exceeds the threshold."""

    every_pair: ClassVar[bool] = True

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        return agglomerate(n, left, right, probability, "complete", self.threshold, rules)


@dataclass(eq=False, repr=False)
class BestLink(Clusterer):
    """Joins every item to one earlier item above the threshold."""

    kind: str = setting(
        "best", '"best": the most probable; "closest": the nearest before it', one_of("best", "closest")
    )

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        return best_link(n, left, right, probability, self.kind, self.threshold, rules)


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


@dataclass(eq=False, repr=False)
class BestMatch(Clusterer):
    """For two tables: joins every record to its most probable match in the other table, if above the threshold."""

    each: str = setting(
        "both",
        '"first": every record of the first table, so that many of them may belong to one of the second; "second": the '
        'other way round; "both": every record of both tables',
        one_of("first", "second", "both"),
    )

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        _check_two_tables(self, left, right)
        return best_match(n, left, right, probability, self.each, self.threshold, rules)


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


def _check_two_tables(clusterer: Clusterer, left: Array, right: Array) -> None:
    both = np.intersect1d(left, right)
    if len(both):
        raise SettingError.saying(
            f"{type(clusterer).__name__} is for pairs across two tables, but item {both[0]} is left in one pair, right "
            "in another; read two tables, or take another clusterer"
        )


_ALL = (SingleLink, AverageLink, CompleteLink, BestLink, BestMatch, Correlation, OneToOne)
CLUSTERERS = {cls.__name__: cls for cls in _ALL}


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
        expected = f"free of items that `must_link` puts together, and holds {a!r} and {b!r}"
        KinfolkError.__init__(self, f"`cannot_link` must be {expected}; drop one of the two")


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


# -- Why a clustering kept two items apart that the model would link: what each clusterer asks for, and what it met ---


@dataclass(frozen=True, eq=False)
class Between:
    """A candidate pair of two clusters, and all pairs between these."""

    clusterer: Clusterer
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


def cannot_link_pairs(
    clusterer: Clusterer, items: Mentions, probability: Array, clusters: Array, low: int, high: int, cannot: Array
) -> str:
    """The reason in words; "" where it cannot be told. `cannot` (m, 2): pairs that must not be together."""
    mine, other = clusters == clusters[low], clusters == clusters[high]
    sizes = int(mine.sum()), int(other.sum())
    left, right = items.left, items.right
    crossing = (mine[left] & other[right]) | (other[left] & mine[right])
    one = Between(clusterer, items, low, high, sizes, probability[crossing], probability, clusters)
    a, b = cannot[:, 0], cannot[:, 1]
    barred = cannot[(mine[a] & other[b]) | (other[a] & mine[b])].tolist()
    if isinstance(clusterer, OneToOne):  # it asks for the pair alone, not for the clusters around it
        barred = [pair for pair in barred if sorted(pair) == [low, high]]
    if barred:
        return "it was given that {} and {} must not be linked".format(*map(items.title, barred[0]))
    if clusterer.max_size is not None and sum(sizes) > clusterer.max_size and not isinstance(clusterer, OneToOne):
        return f"together they would be {sum(sizes)} items, where max_size allows {clusterer.max_size}"
    reason = next((tell for kind, tell in REASONS.items() if isinstance(clusterer, kind)), None)
    return "" if reason is None else reason(one)


def _average(one: Between) -> str:
    threshold, logits = one.clusterer.threshold, getattr(one.clusterer, "of", "") == "log-odds"
    if logits:
        value, least = (np.clip(log_odds(p), -SURE, SURE) for p in (one.probability, np.array([threshold])))
        mean, asked = float(value.sum() - SURE * one.missing) / one.wanted, float(least[0])
        what, told = "mean of log-odds", f"{asked:+.1f}, and it is {mean:+.1f}"
    else:
        mean, asked = float(one.probability.sum()) / one.wanted, threshold
        close = _percent(mean, 1) == _percent(asked, 1)
        what, told = "mean", f"{_percent(asked)}, and it is {'just below' if close else _percent(mean, 1)}"
    if mean > asked:  # clusters of another hand
        return ""
    told = f"average link joins only where the {what} over all pairs between the two clusters is above {told}"
    return f"{told}, as {_no_candidates(one)}" if one.missing else f"{told} over {one.wanted} pairs"


def _complete(one: Between) -> str:
    below = int((one.probability <= one.clusterer.threshold).sum())
    if not one.missing and not below:
        return ""
    asked = _percent(one.clusterer.threshold)
    told = f"complete link joins only where every pair between the two clusters is above {asked}"
    refused = f"{below} of {one.wanted} {'are' if below > 1 else 'is'} not"
    if not one.missing:
        return f"{told}, and {refused}"
    return f"{told}; {refused + ', and ' if below else ''}{_no_candidates(one)}"


def _no_candidates(one: Between) -> str:
    """How many pairs are no candidates, and what to do about it."""
    told = "are no candidates and count as no" if one.missing > 1 else "is no candidate and counts as no"
    told = f"{one.missing} of {one.wanted} {told}"
    return f"{told}. Add a blocking rule, or take another clusterer, such as single link"


def _one_to_one(one: Between) -> str:
    partners = []
    for item in (one.low, one.high):
        same = np.flatnonzero(one.clusters == one.clusters[item])
        partners += [f"{one.items.title(item)} has {one.items.title(int(i))}" for i in same if i != item][:1]
    return f"one-to-one gives every record one partner at most: {' and '.join(partners)}" if partners else ""


def _best_match(one: Between) -> str:
    """Each record that takes its best has a better one, in its own cluster."""
    each = getattr(one.clusterer, "each", "both")
    told = []
    for item, side in ((one.low, "first"), (one.high, "second")):
        own = np.flatnonzero((one.items.left == item) | (one.items.right == item))
        if each in (side, "both") and len(own):
            best = int(own[np.argmax(one.of_all[own])])
            partner = int(one.items.right[best] if one.items.left[best] == item else one.items.left[best])
            if one.clusters[partner] == one.clusters[item]:
                told.append(f"{one.items.title(item)} has {one.items.title(partner)}")
    return f"best match joins a record to its most probable partner alone: {' and '.join(told)}" if told else ""


def _best(one: Between) -> str:
    items, clusters = one.items, one.clusters
    own = np.flatnonzero((items.right == one.high) & (clusters[items.left] == clusters[one.high]))
    own = own[one.of_all[own] > one.clusterer.threshold]
    closest = getattr(one.clusterer, "kind", "") == "closest"
    if not len(own):
        return ""
    chosen = int(items.left[own[np.argmax(items.left[own] if closest else one.of_all[own])]])
    told = f"best link joins every item to one earlier item only, the {'closest' if closest else 'most probable'}"
    asked = _percent(one.clusterer.threshold)
    return f"{told} above {asked}: {items.title(one.high)} goes with {items.title(chosen)}"


def _correlation(one: Between) -> str:
    gain = float((log_odds(one.probability) - log_odds(np.array([one.clusterer.threshold]))).sum())
    if gain > 0:
        return ""
    told = f"the log-odds of the {len(one.probability)} candidate pairs between the two clusters"
    return f"{told} sum to {gain:+.1f}, so joining them would lose"


def _percent(p: float, digits: int = 0) -> str:
    return f"{100 * p:.{digits}f} %"


REASONS: dict[type[Clusterer], Callable[[Between], str]] = {
    AverageLink: _average,
    CompleteLink: _complete,
    OneToOne: _one_to_one,
    BestLink: _best,
    BestMatch: _best_match,
    Correlation: _correlation,
}
