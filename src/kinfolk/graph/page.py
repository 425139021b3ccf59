"""Why a node has its label, level by level: what each level says, what neighbours told it, and what that changed.

A level is a classifier on a node's own features and on aggregates: columns that say what its neighbours are thought to
be. What an aggregate did is found by asking the level once more, with the columns of this aggregate as a node without
neighbours has them, and all else as it is:

    effect = P(answer | all columns) - P(answer | this aggregate as without neighbours)

So an effect is a difference of two predictions of the model itself, whatever the model is. "Without neighbours" is a
row that nodes do have; a mean over the training nodes may be one that no node can have (0.3 of a citation). Effects
need not add up: where two aggregates say the same, the answer may stand without either and fall without both. For this
there is the effect of all together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LABEL, CROSS_FITTED, PREDICTION = "label", "cross-fitted", "prediction"
SOURCES = {
    LABEL: "its label is known",
    CROSS_FITTED: "by a model that had not seen its label",
    PREDICTION: "predicted",
}
ASIDE = {LABEL: " (its label is known, and set aside here)", CROSS_FITTED: " (trained on its label)", PREDICTION: ""}
SHOWN = 12  # neighbours that are printed


@dataclass(frozen=True)
class Aggregate:
    """What one aggregate told a level, and what that changed.

    name      as templates are named: "count(cites)"
    of        of what it tells: "predictions" of the neighbours, their "features", or the node's "own" prediction
    columns   what the values are of: class names; of features only those that are not 0
    values    what was told
    without   (L,), what the level says without it
    effect    what it adds to the probability of the answer
    """

    name: str
    of: str
    columns: tuple[str, ...]
    values: Array
    without: Array
    effect: float


@dataclass(frozen=True)
class LevelAnswer:
    """What one level says of the node.

    name          "own features alone", "level 1", ...
    distribution  (L,)
    aggregates    the greatest effect first, whatever its sign; none at the level of own features
    together      what all aggregates together add to the probability of the answer; None if there are none
    without_all   (L,), what the level says without any of them, or None
    """

    name: str
    distribution: Array
    aggregates: tuple[Aggregate, ...] = ()
    together: float | None = None
    without_all: Array | None = None


@dataclass(frozen=True)
class Neighbour:
    """One neighbour, by one relation.

    node      its number, `name` its id
    relation  as the template names it: "cites", "cites @ cites"
    weight    of the link
    told      (K, L): row k is what it told level k + 1, the word of level k on it unless `source` says other
    source    where that comes from: "label" (it is known), "cross-fitted" (a model that had not seen its label), or
              "prediction"
    """

    node: int
    name: str
    relation: str
    weight: float
    told: Array
    source: str

    @property
    def known(self) -> bool:
        """Whether its label is known, and told as it is."""
        return self.source == LABEL


@dataclass(frozen=True)
class NodeExplanation:
    """The answer for one node: its levels, from own features alone to the last, which gives the answer.

    source   what is known of its own label: "label" (it is known, and set aside here), "cross-fitted" (the model was
             trained on it), or "prediction" (nothing)
    """

    node: int
    name: str
    label: Any
    probability: float
    classes: tuple[Any, ...]
    levels: tuple[LevelAnswer, ...]
    neighbours: tuple[Neighbour, ...]
    source: str = PREDICTION

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.label} with probability {self.probability:.3f}{ASIDE[self.source]}"]
        for level in self.levels:
            lines.append(f"  {level.name}: {self._says(level.distribution)}")
            lines += [f"    {one.effect:+.3f}  {self._aggregate(one)}" for one in level.aggregates]
            if level.together is not None and level.without_all is not None and len(level.aggregates) > 1:
                alone = f"without any of them {self._says(level.without_all, 1)}"
                lines.append(f"    {level.together:+.3f}  all of these together; {alone}")
        lines += self._neighbour_lines()
        return "\n".join(lines)

    def _says(self, distribution: Array, most: int = 3) -> str:
        order = np.argsort(-distribution, kind="stable")[:most]
        return ", ".join(f"{self.classes[i]} {distribution[i]:.3f}" for i in order)

    def _aggregate(self, one: Aggregate) -> str:
        order = [i for i in np.argsort(-np.abs(one.values), kind="stable")[:3] if one.values[i]]
        told = ", ".join(f"{one.columns[i]} {one.values[i]:.3g}" for i in order) or "nothing"
        return f"{one.name} told {told}; without it {self._says(one.without, 1)}"

    def _neighbour_lines(self) -> list[str]:
        if not self.neighbours:
            return ["  no neighbours"]
        shown = self.neighbours[:SHOWN]
        width = max(len(one.name) for one in shown)
        lines = [f"  {len(self.neighbours)} neighbour{'s' * (len(self.neighbours) != 1)}, and what they told last"]
        for one in shown:
            said = f"{self._says(one.told[-1], 1)}, {SOURCES[one.source]}" if len(one.told) else "nothing"
            lines.append(f"    {one.name:<{width}}  {one.relation}: {said}")
        return lines + ["    ..."] * (len(self.neighbours) > SHOWN)


@dataclass(frozen=True)
class Told:
    """An aggregate before its effect is known: see `Aggregate`."""

    name: str
    of: str
    columns: tuple[str, ...]
    values: Array
    without: Array


def level_answer(
    name: str, distribution: Array, answer: int, told: Iterable[Told] = (), without_all: Array | None = None
) -> LevelAnswer:
    """What a level says, with effects on the probability of the class number `answer`."""
    found = [
        Aggregate(t.name, t.of, t.columns, t.values, t.without, float(distribution[answer] - t.without[answer]))
        for t in told
    ]
    found.sort(key=lambda one: -abs(one.effect))
    together = None if without_all is None else float(distribution[answer] - without_all[answer])
    return LevelAnswer(name, distribution, tuple(found), together, without_all)


def node_explanation(
    node: int, name: str, classes: Sequence[str], answer: int, levels: Iterable[LevelAnswer],
    neighbours: Iterable[Neighbour], source: str = PREDICTION,
) -> NodeExplanation:  # fmt: skip
    """The last of the levels gives the probability of the class number `answer`. Neighbours go by relation,
    within it those first whose label is known, then those who were the most sure."""
    found, around = tuple(levels), list(neighbours)
    place = {relation: i for i, relation in enumerate(dict.fromkeys(one.relation for one in around))}

    def order(one: Neighbour) -> tuple[int, bool, float, int]:
        sure = float(one.told[-1].max(initial=0.0)) if len(one.told) else 0.0
        return place[one.relation], not one.known, -sure, one.node

    probability = float(found[-1].distribution[answer])
    around.sort(key=order)
    return NodeExplanation(node, name, classes[answer], probability, tuple(classes), found, tuple(around), source)
