"""Why an instance has its label: the answer, and for a mixture of parents who said what, and how much of it was theirs.

The marginal of an instance is exactly the sum over its parents of weight · (what the parent predicts), so

    share of a parent = weight · predicted[label] / marginal[label]

and the shares sum to 1. Where several orders are averaged, the parts of one parent in all orders are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Answer:
    """The answer for one instance; `marginal` (L,) by class."""

    instance: int
    name: str
    label: Any
    probability: float
    classes: tuple[Any, ...]
    marginal: NDArray[Any]

    def head(self) -> str:
        return f"{self.name}: {self.label} with probability {self.probability:.3f}"


@dataclass(frozen=True)
class Contribution:
    """What one parent contributes.

    parent     number of the parent, None for a start component, which looks at nobody
    name       the parent for people: a word with its place, the id of a page
    relation   through which it is seen
    weight     its mixing weight
    marginal   the parent's own label distribution (L,), None for a start component
    predicted  the distribution it predicts for the instance (L,)
    share      the part of the probability of the answer that comes from it; all shares sum to 1
    """

    parent: int | None
    name: str
    relation: str
    weight: float
    marginal: Array | None
    predicted: Array
    share: float


@dataclass(frozen=True)
class Explanation(Answer):
    """The answer for one instance, and its contributions, the greatest share first."""

    contributions: tuple[Contribution, ...]

    def __str__(self) -> str:
        lines = [self.head()]
        width = max((len(c.name) for c in self.contributions), default=0)
        for c in self.contributions:
            best = int(c.predicted.argmax())
            says = f"predicts {self.classes[best]} {c.predicted[best]:.3f}"
            own = "" if c.marginal is None else f", is {self.classes[int(c.marginal.argmax())]} {c.marginal.max():.3f}"
            lines.append(
                f"  {100 * c.share:5.1f} %  {c.name:<{width}}  {c.relation}, weight {c.weight:.3f}{own}, {says}"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class Component:
    """One component in one order: parent (-1: nobody), relation, weight, marginal of the parent, prediction."""

    parent: int
    relation: str
    weight: float
    marginal: Array | None
    predicted: Array


def explanation(
    instance: int,
    components: Iterable[Component],
    classes: tuple[str, ...],
    name_of: Callable[[int], str],
    label: int | None = None,
) -> Explanation:
    """Add up the components of one parent through one relation. The weights of all sum to 1.

    label   the label to explain; None: the most probable one
    """
    together: dict[tuple[int, str], list[Component]] = {}
    for component in components:
        together.setdefault((component.parent, component.relation), []).append(component)
    marginal = sum((v.weight * v.predicted for same in together.values() for v in same), np.zeros(len(classes)))
    answer = int(marginal.argmax()) if label is None else label
    contributions = []
    for (parent, relation), same in together.items():
        weight = sum(v.weight for v in same)
        predicted = _mean([v.predicted for v in same], same)
        marginals = [v.marginal for v in same if v.marginal is not None]
        own = _mean(marginals, same) if marginals else None
        share = float(weight * predicted[answer] / marginal[answer]) if marginal[answer] > 0 else 0.0
        name = "(start)" if parent < 0 else name_of(parent)
        contributions.append(
            Contribution(None if parent < 0 else parent, name, relation, float(weight), own, predicted, share)
        )
    contributions.sort(key=lambda c: -c.share)
    probability = float(marginal[answer])
    return Explanation(
        instance, name_of(instance), classes[answer], probability, classes, marginal, tuple(contributions)
    )


def _mean(distributions: list[Array], components: list[Component]) -> Array:
    """The mean by weight; by number, if no component has any."""
    weights = np.array([v.weight for v in components])
    return np.asarray(np.average(np.array(distributions), axis=0, weights=weights if weights.sum() > 0 else None))
