"""Why a clustering kept two items apart that the model would link: what each clusterer asks for, and what it met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.inference.correlation import log_odds
from kinfolk.linking.clusterers import (
    SURE,
    AverageLink,
    BestLink,
    BestMatch,
    Clusterer,
    CompleteLink,
    Correlation,
    OneToOne,
)
from kinfolk.linking.mentions import Mentions

Array = NDArray[Any]


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


def kept_apart(
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
    return f"{told}. Add a blocking rule, or take another clusterer (--clusterer single-link)"


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
