"""Why a node has its label, level by level: what each level says, what it received of neighbours, what that changed.

A level is a classifier on a node's own features and on aggregates: columns that say what its neighbours are predicted
to be. What an aggregate did is found by one more prediction of the level, with the columns of this aggregate as a node
without neighbours has them, and all else as it is:

    effect = P(answer | all columns) - P(answer | this aggregate as without neighbours)

So an effect is a difference of two predictions of the model itself, whatever the model is. "Without neighbours" is a
row that nodes do have; a mean over the training nodes may be one that no node can have (0.3 of a citation). Effects
need not add up: where two aggregates say the same, the answer may stand without either and fall without both. For this
there is the effect of all together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.explain import Contribution, Explanation
from kinfolk.graph.nodes import Nodes
from kinfolk.report import scores as pages
from kinfolk.report.page import Part, PathLike, write_report

Array = NDArray[Any]
LABEL, CROSS_FITTED, PREDICTION = "label", "cross-fitted", "prediction"
SOURCES = {LABEL: "its label is known", CROSS_FITTED: "by a model that had not seen its label", PREDICTION: "predicted"}
ASIDE = {LABEL: " (its label is known, and set aside here)", CROSS_FITTED: " (trained on its label)", PREDICTION: ""}
SHOWN = 12  # neighbours that are printed


@dataclass(frozen=True)
class Aggregate:
    """What one aggregate gave a level, and what that changed.

    name      as templates are named: "count(cites)"
    of        of what it is: "predictions" of the neighbours, their "features", or the node's "own" prediction
    columns   what the values are of: class names; of features only those that are not 0
    values    what was given
    without   (L,), what the level says without it
    effect    what it adds to the probability of the answer, once that is known
    """

    name: str
    of: str
    columns: tuple[str, ...]
    values: Array
    without: Array
    effect: float = 0.0


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
    votes     (K, L): row k is what level k + 1 received of it, the prediction of level k unless `source` says other
    source    where that comes from: "label" (it is known), "cross-fitted" (a model that had not seen its label), or
              "prediction"
    """

    node: int
    name: str
    relation: str
    weight: float
    votes: Array
    source: str

    @property
    def known(self) -> bool:
        """Whether its label is known, and given as it is."""
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
        values = ", ".join(f"{one.columns[i]} {one.values[i]:.3g}" for i in order) or "nothing"
        return f"{one.name} gave {values}; without it {self._says(one.without, 1)}"

    def _neighbour_lines(self) -> list[str]:
        if not self.neighbours:
            return ["  no neighbours"]
        shown = self.neighbours[:SHOWN]
        width = max(len(one.name) for one in shown)
        lines = [f"  {len(self.neighbours)} neighbour{'s' * (len(self.neighbours) != 1)}, and their last votes"]
        for one in shown:
            said = f"{self._says(one.votes[-1], 1)}, {SOURCES[one.source]}" if len(one.votes) else "nothing"
            lines.append(f"    {one.name:<{width}}  {one.relation}: {said}")
        return lines + ["    ..."] * (len(self.neighbours) > SHOWN)


def level_answer(
    name: str, distribution: Array, answer: int, aggregates: Iterable[Aggregate] = (), without_all: Array | None = None
) -> LevelAnswer:
    """What a level says, with effects on the probability of the class number `answer`."""
    found = [replace(one, effect=float(distribution[answer] - one.without[answer])) for one in aggregates]
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
        sure = float(one.votes[-1].max(initial=0.0)) if len(one.votes) else 0.0
        return place[one.relation], not one.known, -sure, one.node

    probability = float(found[-1].distribution[answer])
    around.sort(key=order)
    return NodeExplanation(node, name, classes[answer], probability, tuple(classes), found, tuple(around), source)


# -- The words of a report about a node: its title, a summary, and what an aggregate is of --------------

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
    """What an aggregate is of, in words; templates over a relation are named "kind(relation)"."""
    if one.of == "own":
        return "what the level before says of the node itself"
    kind, bracket, relation = one.name.removesuffix(" of features").removesuffix(")").partition("(")
    if not bracket or kind not in MEANINGS:
        return "of neighbours"
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
    """A summary in a few sentences."""
    first, last = answer.levels[0], answer.levels[-1]
    lines = [f"The model says {answer.label} ({percent(answer.probability)})."]
    if len(answer.levels) > 1:
        own = answer.classes[int(first.distribution.argmax())]
        differs = "With its neighbours the answer is another." if own != answer.label else ""
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


# -- The report of a node: the neighbourhood to look at, and who or what moved the answer --------------

MOST_DRAWN = 40  # neighbours in the drawing
MOST_LISTED = 300  # of the others
MOST_AROUND = 12  # neighbours of a neighbour
MOST_FEATURES = 12  # of a node, the largest first
MOST_COLUMNS = 12  # of an aggregate
MOST_SHARES = 60


def write_node_report(path: PathLike, part: Part, method: str) -> None:
    """One page about a node, its title in a line under the heading; `method` is the name of the model."""
    node = part.data["nodes"][0]
    about = f"{method}. Touch a node to see what is predicted of it."
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


class Link(NamedTuple):
    """A link of the node in question as it is drawn, `size` giving its width."""

    node: int
    relation: str
    weight: float
    size: float
    votes: Any
    source: str


def level_part(answer: NodeExplanation, around: Surroundings, notes: Sequence[str] = ()) -> Part:
    """Of a model that goes level by level; `notes` say what each level receives."""
    groups: dict[str, list[int]] = {}
    for one in answer.neighbours:
        groups.setdefault(one.relation, []).append(one.node)
    links = [
        Link(one.node, one.relation, one.weight, abs(one.weight), one.votes, SOURCES[one.source])
        for one in answer.neighbours
    ]
    data = {
        "label": answer.label,
        "lead": lead(answer),
        "levels": [level.name for level in answer.levels],
        "notes": list(notes),
        "aggregates": [_aggregates(level) for level in answer.levels],
        "shares": None,
    }
    drawing = _drawing(answer.node, _by_turns([*groups.values()]), around, links)
    return Part("nodes", f"{answer.name} and its neighbours", drawing | data)


def mixture_node_part(
    nodes: Nodes, answer: Explanation, marginals: Array, known: NDArray[np.int32] | None = None
) -> Part:
    """Of a mixture of parents: `marginals` (n, L) of all nodes, labels that were `known`."""
    around = Surroundings(nodes, answer.classes, [marginals], known, nodes.relations)
    links = [
        Link(one.parent, one.relation, one.weight, one.share, [one.predicted], f"{percent(one.share)} of the answer")
        for one in answer.contributions
        if one.parent is not None
    ]
    order = list(dict.fromkeys(one.node for one in links))
    place = {node: i + 1 for i, node in enumerate(order[:MOST_DRAWN])}
    label = answer.classes.index(answer.label)
    data = {
        "label": answer.label,
        "lead": mixture_lead(answer),
        "levels": ["mixture of parents"],
        "notes": [],
        "aggregates": [None],
        "shares": [_share(one, place, label) for one in answer.contributions[:MOST_SHARES]],
        "rest_share": sum(one.share for one in answer.contributions[MOST_SHARES:]),
    }
    drawing = _drawing(answer.instance, order, around, links)
    return Part("nodes", f"{answer.name} and its neighbours", drawing | data)


def _drawing(node: int, order: list[int], around: Surroundings, links: Sequence[Link]) -> dict[str, Any]:
    """The node itself, the neighbours that are drawn with their links to it, and the others in brief."""
    places = {j: i for i, j in enumerate([node, *order[:MOST_DRAWN]])}
    rest, relations = order[MOST_DRAWN:], list(dict.fromkeys(one.relation for one in links))
    nodes = [around.seen(j, places) for j in places]
    largest = max((one.size for one in links), default=0.0) or 1.0
    for one in links:
        if one.node in places:
            nodes[places[one.node]].setdefault("links", []).append(
                {"relation": relations.index(one.relation), "weight": one.weight, "width": one.size / largest,
                 "votes": np.round(one.votes, 4), "source": one.source}
            )  # fmt: skip
    return {
        "classes": list(around.classes),
        "relations": relations,
        "nodes": nodes,
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
             "values": [[one.columns[i], float(one.values[i])] for i in order], "without": one.without}
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


# -- scores -------------------------------------------------------------------------------------------


def node_part(names: list[str], ids: Sequence[str], gold: Array, beliefs: Array, accuracy: float) -> Part:
    """`gold` (n,) is -1 where not known, and the number of names for a label that training never saw."""
    known, path, sure = gold >= 0, beliefs.argmax(axis=1), beliefs.max(axis=1)
    names = [*names, pages.UNSEEN] if (gold == len(names)).any() else names
    points, brier = pages.calibration(sure[known], (path == gold)[known]), pages.brier_score(beliefs, gold)
    curve = pages.chart("Nodes", "each node's label", points, brier=brier)
    matrix = pages.confusion(gold, path, names)
    headline = [
        ["accuracy", accuracy / 100, f"of {int(known.sum())} labelled nodes"],
        ["mean F1", float(matrix.f1[matrix.counts.sum(axis=1) > 0].mean()), "over classes, each counting the same"],
    ]
    shown = [pages.matrix_part("Confusion", "Nodes by label.", matrix)]
    mistakes = node_mistakes(ids, gold, beliefs, names)
    return pages.score_part(headline, pages.class_rows(matrix), [curve], shown, "nodes", mistakes)


def node_mistakes(ids: Sequence[str], truth: Array, beliefs: Array, names: Sequence[str]) -> list[dict[str, Any]]:
    """Nodes whose most probable label is wrong. `names` has one more than the beliefs where a label was never seen."""
    path = beliefs.argmax(axis=1)
    sure = beliefs[np.arange(len(path)), path]
    wrong = np.flatnonzero((truth >= 0) & (truth != path))
    return [
        {
            "node": str(ids[i]),
            "truth": names[truth[i]],
            "predicted": names[path[i]],
            "sure": sure[i],
            "of_truth": beliefs[i, truth[i]] if truth[i] < beliefs.shape[1] else 0.0,
        }
        for i in wrong[np.argsort(-sure[wrong], kind="stable")][: pages.MOST_MISTAKES].tolist()
    ]
