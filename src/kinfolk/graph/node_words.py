"""The words of a report about a node: its title, the story in a few sentences, and what an aggregate tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from kinfolk.graph.nodes import Nodes
from kinfolk.graph.page import CROSS_FITTED, LABEL, Aggregate, LevelAnswer, NodeExplanation
from kinfolk.text.parents import Explanation

Array = NDArray[Any]
LONGEST_TITLE = 120  # characters of the title of a node
LEAST_EFFECT = 0.005  # on the probability of the answer, to be worth a sentence
OWN_LABEL = {
    LABEL: "The label of this node is known; it is set aside here.",
    CROSS_FITTED: "The model was trained on the label of this node.",
}
MEANINGS = {
    "count": "added up",
    "logcount": "the logarithm of 1 + their sum",
    "mean": "the mean",
    "proportion": "the share of each class",
    "max": "the largest",
    "exists": "whether any is",
    "concat": "one after the other",
    "links": "added up",
}


def meaning(one: Aggregate) -> str:
    """What an aggregate tells, in words; templates over a relation are named "kind(relation)"."""
    if one.of == "own":
        return "what the level before says of the node itself"
    kind, bracket, relation = one.name.removesuffix(" of features").removesuffix(")").partition("(")
    if not bracket or kind not in MEANINGS:
        return "tells"
    return f"{'features of ' * (one.of == 'features')}neighbours by {relation.removesuffix(', hard')}, {MEANINGS[kind]}"


def percent(value: float) -> str:
    return f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def _most(classes: Sequence[str], distribution: Array) -> str:
    best = int(distribution.argmax())
    return f"{classes[best]} ({percent(distribution[best])})"


def title_of(nodes: Nodes, node: int) -> str:
    """In one line and not too long to be shown; empty where there is none."""
    title = "" if nodes.titles is None else " ".join(nodes.titles[node].split())
    return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1].rstrip() + "…"


def lead(answer: NodeExplanation) -> list[str]:
    """The story in a few sentences."""
    first, last = answer.levels[0], answer.levels[-1]
    lines = [f"The model says {answer.label} ({percent(answer.probability)})."]
    if len(answer.levels) > 1:
        own = answer.classes[int(first.distribution.argmax())]
        differs = "With what its neighbours told, the answer is another." if own != answer.label else ""
        lines.append(f"{first.name.capitalize()} say {_most(answer.classes, first.distribution)}. {differs}".strip())
    if not answer.neighbours:
        lines.append("It has no neighbours.")
    elif last.aggregates:
        lines.append(_mover(answer, last))
    return lines + [sentence for source, sentence in OWN_LABEL.items() if source == answer.source]


def _mover(answer: NodeExplanation, last: LevelAnswer) -> str:
    """The aggregate that moved the answer most, or all of them where none alone did."""
    one, without_all = last.aggregates[0], last.without_all
    if abs(one.effect) < LEAST_EFFECT and without_all is not None:
        without = f"without all of them it would be {_most(answer.classes, without_all)}"
        return f"No aggregate alone moves the answer; {without}."
    same = answer.classes[int(one.without.argmax())] == answer.label
    without = f"without it {last.name} would {'still ' * same}say {_most(answer.classes, one.without)}"
    if not same:
        without += f", and {answer.label} with {percent(float(one.without[answer.classes.index(answer.label)]))}"
    return f"What moved the answer most is {one.name}: {without}."


def mixture_lead(answer: Explanation) -> list[str]:
    """Who contributed most."""
    lines = [f"The model says {answer.label} ({percent(answer.probability)})."]
    if answer.contributions:
        one = answer.contributions[0]
        through = "its own features, looking at nobody" if one.parent is None else f"{one.name}, by {one.relation}"
        lines.append(f"The greatest part of this, {percent(one.share)}, comes from {through}.")
    return lines
