"""The report of a node: the neighbourhood to look at, and who or what moved the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.graph.node_words import lead, meaning, mixture_lead, percent, title_of
from kinfolk.graph.nodes import Nodes
from kinfolk.graph.page import SOURCES, LevelAnswer, Neighbour, NodeExplanation
from kinfolk.report.page import Part
from kinfolk.report.report_files import PathLike, write_report
from kinfolk.text.parents import Contribution, Explanation

Array = NDArray[Any]
MOST_DRAWN = 40  # neighbours in the drawing
MOST_LISTED = 300  # of the others
MOST_AROUND = 12  # neighbours of a neighbour
MOST_FEATURES = 12  # of a node, the largest first
MOST_COLUMNS = 12  # of an aggregate
MOST_SHARES = 60


def write_node_report(path: PathLike, part: Part, method: str) -> None:
    """One page about a node, its title in a line under the heading; `method` is the name of the model."""
    node = part.data["nodes"][0]
    about = f"{method}. Touch a node to see what is thought of it."
    if node["title"]:
        about = f"“{node['title']}”\n{about}"
    write_report(path, f"Why {node['name']} is {part.data['label']}", [part], about)


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
            "title": title_of(nodes, node),
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
        "lead": lead(answer),
        "levels": [level.name for level in answer.levels],
        "notes": list(notes),
        "aggregates": [_aggregates(level) for level in answer.levels],
        "shares": None,
    }
    return Part("nodes", f"{answer.name} and its neighbours", data)


def mixture_node_part(
    nodes: Nodes, answer: Explanation, marginals: Array, known: NDArray[np.int32] | None = None
) -> Part:
    """Of a mixture of parents: `marginals` (n, L) of all nodes, labels that were `known`."""
    parents = [one for one in answer.contributions if one.parent is not None]
    around = Surroundings(nodes, answer.classes, [marginals], known, nodes.relations)
    relations = list(dict.fromkeys(one.relation for one in parents))
    order = list(dict.fromkeys(int(one.parent) for one in parents if one.parent is not None))
    data = _drawing(answer.instance, order, around, relations)
    largest = max((one.share for one in parents), default=0.0) or 1.0
    for node, shown in zip(order, data["nodes"][1:], strict=False):
        shown["links"] = [
            {"relation": relations.index(one.relation), "weight": one.weight, "width": one.share / largest,
             "told": [np.round(one.predicted, 4)], "source": f"{percent(one.share)} of the answer"}
            for one in parents
            if one.parent == node
        ]  # fmt: skip
    place = {node: i + 1 for i, node in enumerate(order[:MOST_DRAWN])}
    label = answer.classes.index(answer.label)
    data |= {
        "label": answer.label,
        "lead": mixture_lead(answer),
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
            {"name": one.name, "meaning": meaning(one), "n_columns": len(one.values), "effect": one.effect,
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
