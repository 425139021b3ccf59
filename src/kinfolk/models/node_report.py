"""The report of a node: the neighbourhood to look at, and who or what moved the answer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.explain.levels import CROSS_FITTED, LABEL, SOURCES, Aggregate, LevelAnswer, Neighbour, NodeExplanation
from kinfolk.explain.parents import Contribution, Explanation
from kinfolk.explain.report import Part, report_html
from kinfolk.io.textfiles import write_utf8
from kinfolk.models.nodes import Nodes

Array = NDArray[Any]
MOST_DRAWN = 40  # neighbours in the drawing
MOST_LISTED = 300  # of the others
MOST_AROUND = 12  # neighbours of a neighbour
MOST_FEATURES = 12  # of a node, the largest first
MOST_COLUMNS = 12  # of an aggregate
MOST_SHARES = 60
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


def write_node_report(path: str | os.PathLike[str], part: Part, method: str) -> None:
    """One page about a node; `method` is the name of the model."""
    about = f"{method}. Touch a node to see what is thought of it."
    title = f"Why {part.data['nodes'][0]['name']} is {part.data['label']}"
    write_utf8(path, [report_html(title, [part], about)])


@dataclass(frozen=True)
class Surroundings:
    """A graph around a node, as a report shows it.

    classes  names of the classes a model knows
    tables   (n, L) predictions by level
    known    (n,) labels that were known to the model, -1 for none; None: none was
    links    name -> CSR (n, n), whom nodes look at
    """

    nodes: Nodes
    classes: Sequence[str]
    tables: Sequence[Array]
    known: NDArray[np.int32] | None
    links: Mapping[str, Any]

    def seen(self, node: int, drawn: Mapping[int, int]) -> dict[str, Any]:
        """One node with its own neighbours; `drawn` are the places of the nodes in the drawing."""
        nodes, label = self.nodes, int(self.nodes.labels[node])
        around = list(self._around(node))
        features = _features_on(nodes, node)
        return {
            "name": nodes.ids[node],
            "proba": [np.round(table[node], 4) for table in self.tables],
            "known": self.is_known(node),
            "truth": None if label < 0 else nodes.classes.names[label],
            "features": features[:MOST_FEATURES],
            "n_features": len(features),
            "around": [[nodes.ids[j], name, drawn.get(j), *self.brief(j)] for j, name in around[:MOST_AROUND]],
            "n_around": len(around),
            "ties": sorted({drawn[j] for j, _ in around if drawn.get(j, 0)}),
        }

    def is_known(self, node: int) -> bool:
        return self.known is not None and bool(self.known[node] >= 0)

    def brief(self, node: int) -> list[Any]:
        """Whether the label is known, and by level the most probable class and its probability."""
        says = [[int(table[node].argmax()), round(float(table[node].max()), 4)] for table in self.tables]
        return [self.is_known(node), says]

    def _around(self, node: int) -> Iterator[tuple[int, str]]:
        for name, links in self.links.items():
            for j in links.indices[links.indptr[node] : links.indptr[node + 1]].tolist():
                yield j, name


def level_part(answer: NodeExplanation, around: Surroundings, notes: Sequence[str] = ()) -> Part:
    """Of a model that goes level by level; `notes` say what each level listens to."""
    by_node: dict[int, list[Neighbour]] = {}
    for one in answer.neighbours:
        by_node.setdefault(one.node, []).append(one)
    relations = list(dict.fromkeys(one.relation for one in answer.neighbours))
    order = _by_turns([[n.node for n in answer.neighbours if n.relation == name] for name in relations])
    data = _drawing(answer.node, order, around, relations)
    largest = max((abs(one.weight) for one in answer.neighbours), default=0.0) or 1.0
    for node, shown in zip(order, data["nodes"][1:], strict=False):
        shown["links"] = [
            {"relation": relations.index(one.relation), "weight": one.weight, "width": abs(one.weight) / largest,
             "told": np.round(one.told, 4), "source": SOURCES[one.source]}
            for one in by_node[node]
        ]  # fmt: skip
    data |= {
        "label": answer.label,
        "lead": _lead(answer),
        "levels": [level.name for level in answer.levels],
        "notes": list(notes),
        "aggregates": [_aggregates(level) for level in answer.levels],
        "shares": None,
    }
    return Part("nodes", f"{answer.name} and its neighbours", data)


def mixture_node_part(nodes: Nodes, answer: Explanation, marginals: Array) -> Part:
    """Of a mixture of parents: `marginals` (n, L) of all nodes."""
    parents = [one for one in answer.contributions if one.parent is not None]
    around = Surroundings(nodes, answer.classes, [marginals], None, nodes.relations)
    relations = list(dict.fromkeys(one.relation for one in parents))
    order = list(dict.fromkeys(int(one.parent) for one in parents if one.parent is not None))
    data = _drawing(answer.instance, order, around, relations)
    largest = max((one.share for one in parents), default=0.0) or 1.0
    for node, shown in zip(order, data["nodes"][1:], strict=False):
        shown["links"] = [
            {"relation": relations.index(one.relation), "weight": one.weight, "width": one.share / largest,
             "told": [np.round(one.predicted, 4)], "source": f"{_percent(one.share)} of the answer"}
            for one in parents
            if one.parent == node
        ]  # fmt: skip
    place = {node: i + 1 for i, node in enumerate(order[:MOST_DRAWN])}
    label = answer.classes.index(answer.label)
    data |= {
        "label": answer.label,
        "lead": _mixture_lead(answer),
        "levels": ["mixture of parents"],
        "notes": [],
        "aggregates": [None],
        "shares": [_share(one, place, label) for one in answer.contributions[:MOST_SHARES]],
        "rest_share": sum(one.share for one in answer.contributions[MOST_SHARES:]),
    }
    return Part("nodes", f"{answer.name} and its neighbours", data)


def _drawing(node: int, order: list[int], around: Surroundings, relations: list[str]) -> dict[str, Any]:
    """The node itself, the neighbours that are drawn, and the others in brief."""
    places = {j: i for i, j in enumerate([node, *order[:MOST_DRAWN]])}
    rest = order[MOST_DRAWN:]
    return {
        "classes": list(around.classes),
        "relations": relations,
        "nodes": [around.seen(j, places) for j in places],
        "rest": [[around.nodes.ids[j], *around.brief(j)] for j in rest[:MOST_LISTED]],
        "n_rest": len(rest),
    }


def _by_turns(groups: list[list[int]]) -> list[int]:
    """One of each group in turn, each node once: no relation is crowded out of the drawing by another."""
    longest = max(map(len, groups), default=0)
    return list(dict.fromkeys(group[i] for i in range(longest) for group in groups if i < len(group)))


def _features_on(nodes: Nodes, node: int) -> list[list[Any]]:
    """[name, value] of what is not 0, the largest first."""
    row = nodes.data.features[[node]]
    values = (row.toarray() if sparse.issparse(row) else np.asarray(row))[0]
    on = np.flatnonzero(values)
    on = on[np.argsort(-np.abs(values[on].astype(float)), kind="stable")]
    names = nodes.feature_names
    return [[f"feature {i}" if names is None else names[i], float(values[i])] for i in on.tolist()]


def _aggregates(level: LevelAnswer) -> dict[str, Any] | None:
    if not level.aggregates:
        return None
    found = []
    for one in level.aggregates:
        order = np.argsort(-np.abs(one.values), kind="stable")[:MOST_COLUMNS].tolist()
        found.append(
            {"name": one.name, "meaning": _meaning(one), "n_columns": len(one.values), "effect": one.effect,
             "told": [[one.columns[i], float(one.values[i])] for i in order], "without": one.without}
        )  # fmt: skip
    return {"all": found, "together": level.together, "without_all": level.without_all}


def _share(one: Contribution, place: Mapping[int, int], label: int) -> dict[str, Any]:
    own = None if one.marginal is None else [int(one.marginal.argmax()), float(one.marginal.max())]
    return {
        "name": one.name,
        "drawn": None if one.parent is None else place.get(one.parent),
        "relation": None if one.parent is None else one.relation,
        "weight": one.weight,
        "share": one.share,
        "is": own,
        "says": [int(one.predicted.argmax()), float(one.predicted.max())],
        "answer": float(one.predicted[label]),
    }


def _meaning(one: Aggregate) -> str:
    """What an aggregate tells, in words; templates over a relation are named "kind(relation)"."""
    if one.of == "own":
        return "what the level before says of the node itself"
    kind, bracket, relation = one.name.removesuffix(" of features").removesuffix(")").partition("(")
    if not bracket or kind not in MEANINGS:
        return "tells"
    return f"{'features of ' * (one.of == 'features')}neighbours by {relation.removesuffix(', hard')}, {MEANINGS[kind]}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def _most(classes: Sequence[str], distribution: Array) -> str:
    best = int(distribution.argmax())
    return f"{classes[best]} ({_percent(distribution[best])})"


def _lead(answer: NodeExplanation) -> list[str]:
    """The story in a few sentences."""
    first, last = answer.levels[0], answer.levels[-1]
    lines = [f"The model says {answer.label} ({_percent(answer.probability)})."]
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
        return f"No aggregate alone moves the answer; without all of them it would be {_most(answer.classes, without_all)}."
    still = "still " if answer.classes[int(one.without.argmax())] == answer.label else ""
    without = f"without it {last.name} would {still}say {_most(answer.classes, one.without)}"
    return f"What moved the answer most is {one.name}: {without}."


def _mixture_lead(answer: Explanation) -> list[str]:
    lines = [f"The model says {answer.label} ({_percent(answer.probability)})."]
    if answer.contributions:
        one = answer.contributions[0]
        through = "its own features, looking at nobody" if one.parent is None else f"{one.name}, by {one.relation}"
        lines.append(f"The greatest part of this, {_percent(one.share)}, comes from {through}.")
    return lines
