"""Why two items are linked, and what holds a cluster together. Arrays in, plain answers out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
SHOWN = 15  # contributions that are printed


@dataclass(frozen=True)
class Contribution:
    """What one column (or conjunction) adds to the log-odds of a pair, compared with the pairs trained on."""

    feature: str  # "same text: names"
    share: float


@dataclass(frozen=True)
class LinkExplanation:
    """Log-odds of a pair = base + Σ shares; `base` is the mean over the training pairs."""

    left: str
    right: str
    probability: float
    score: float
    base: float
    contributions: tuple[Contribution, ...]  # the largest first, by absolute value
    values: tuple[tuple[str, str, str], ...] = ()  # what both items have in a field: name, left, right

    def __str__(self) -> str:
        head = f"{self.left} - {self.right}: probability {self.probability:.3f}, log-odds {self.score:+.2f}"
        lines = [f"  {name}: {left} | {right}" for name, left, right in self.values]
        lines.append(f"  {self.base:+7.2f}  a pair in training, on average; from there")
        lines += [f"  {one.share:+7.2f}  {one.feature}" for one in self.contributions[:SHOWN]]
        rest = self.contributions[SHOWN:]
        if rest:
            lines.append(f"  {sum(one.share for one in rest):+7.2f}  {len(rest)} others together")
        return "\n".join([head, *lines])


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


def contributions(shares: Array, weights_on: Array, names: list[str]) -> tuple[Contribution, ...]:
    """Shares (M,) of the weights that are on for one pair, the largest first."""
    order = np.argsort(-np.abs(shares), kind="stable")
    return tuple(Contribution(names[weights_on[m]], float(shares[m])) for m in order)


def verdict(probability: float, threshold: float, candidate: bool, together: bool, reason: str = "") -> str:
    """What became of a pair, in words. `reason`: why the clustering kept it apart, where it did."""
    if not candidate:
        why = "no candidate pair: no blocking rule brings them together"
        return f"{why}; {'in one cluster by way of others' if together else 'in different clusters'}"
    if together:
        return "linked" if probability > threshold else "in one cluster by way of others"
    if probability <= threshold:
        return "not linked"
    return "kept apart by the clustering" + (f": {reason}" if reason else "")


def weakest_link(members: Array, left: Array, right: Array, probability: Array) -> tuple[int, NDArray[np.bool_]] | None:
    """The least probable pair of a cluster's maximum spanning tree, and which members are on one side of it.

    Pairs are those among `members`. None if they do not connect the members. Joining pairs from the most probable on,
    the pair that makes the last join is the one: whatever is dropped below it leaves two parts.
    """
    place = {int(item): k for k, item in enumerate(members)}
    part = np.arange(len(members))
    last = None
    before = part
    for pair in np.argsort(-probability, kind="stable"):
        a, b = part[place[int(left[pair])]], part[place[int(right[pair])]]
        if a != b:
            last, before = int(pair), part.copy()
            part[part == max(a, b)] = min(a, b)
    if last is None or (part != part[0]).any():
        return None
    return last, before == before[place[int(left[last])]]


def _few(names: tuple[str, ...], limit: int = 8) -> str:
    return ", ".join(names[:limit]) + (f", ... ({len(names) - limit} more)" if len(names) > limit else "")
