"""Why models of nodes that listen to their neighbours give a node its label: levels, aggregates, neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.relations import Relation
from kinfolk.collective.templates import Over, set_known
from kinfolk.graph.asked_again import AskedAgain
from kinfolk.graph.learners import Learner
from kinfolk.graph.levels import NodePredictor
from kinfolk.graph.node_company import World
from kinfolk.graph.node_report import Surroundings, level_part, write_node_report
from kinfolk.graph.nodes import Nodes, node_number
from kinfolk.graph.page import (
    CROSS_FITTED,
    LABEL,
    PREDICTION,
    LevelAnswer,
    Neighbour,
    NodeExplanation,
    level_answer,
    node_explanation,
)
from kinfolk.report.page import Part
from kinfolk.report.report_files import PathLike, check_report

Array = NDArray[Any]
ALONE = "own features alone"
EACH_ALONE = "Each node by its own features alone."


class NodeStory(NamedTuple):
    """An explanation with what a report shows around it: predictions (n, L) of all nodes by level, labels that were
    known beforehand (n,), -1 for none, the links that were looked along, by name, and what each level listens to."""

    nodes: Nodes
    answer: NodeExplanation
    tables: list[Array]
    known: NDArray[np.int32]
    links: dict[str, Any]
    notes: list[str]


def stacked_story(
    predictor: NodePredictor, runs: int, node: int, classes: Sequence[str], features: Sequence[str]
) -> NodeStory:
    """Of stacked graphical learning. Where votes are sampled, all is the mean over so many runs."""
    world, depth = predictor.world, len(predictor.learners) - 1
    again = AskedAgain(world, node, predictor.ask.own)
    tables: list[Any] = [0.0] * (depth + 1)
    votes: list[Any] = [0.0] * depth
    blocks: list[list[Array]] = [[] for _ in range(depth)]
    for draw in range(runs):
        for level, (found, vote, own) in enumerate(predictor.steps(draw)):
            tables[level] = tables[level] + found / runs
            if level < depth:
                votes[level] = votes[level] + vote / runs
                blocks[level].append(again.company(vote, own))
    answer = int(tables[-1][node].argmax())
    levels = [level_answer(ALONE, tables[0][node], answer)]
    for level in range(1, depth + 1):
        said = again.answers(predictor.learners[level], blocks[level - 1])
        heard = again.told(blocks[level - 1], said, classes, features)
        levels.append(level_answer(f"level {level}", tables[level][node], answer, heard, said[-1]))
    given = np.zeros(0, np.int64) if predictor.given is None else predictor.given[0]
    listens = "Own features and" if world.wide.shape[1] else "Only"
    said_by = ["own features alone say", *(f"level {level} says" for level in range(1, depth))][:depth]
    notes = [EACH_ALONE] + [
        f"{listens} what neighbours told: what {before} of them, or their label where it is known."
        for before in said_by
    ]
    return _story(world, node, classes, answer, levels, tables, votes, predictor.known, given, notes)


def gibbs_story(
    world: World, local: Array, conditional: Learner, node: int, known: NDArray[np.int32], states: Iterable[Array],
    sums: Array, classes: Sequence[str], features: Sequence[str],
) -> NodeStory:  # fmt: skip
    """Of a dependency network: what own features say, then the mean over sweeps of what the conditional model says.

    local    (n, L), by own features alone
    states   the labels (n,) of all nodes each time the node was drawn anew; while they come, `sums` (n, L) gathers the
             conditionals of all
    """
    again, eye = AskedAgain(world, node, False), np.eye(len(classes))
    blocks, votes = [], np.zeros_like(local)
    for labels in states:
        blocks.append(again.company(eye[labels], None))
        votes[np.arange(len(labels)), labels] += 1.0
    votes, marginals = votes / len(blocks), sums / len(blocks)
    set_known(marginals, known)
    said = again.answers(conditional, blocks)
    marginals[node] = said[0]
    answer = int(said[0].argmax())
    heard = again.told(blocks, said, classes, features)
    levels = [
        level_answer(ALONE, local[node], answer),
        level_answer("Gibbs sampling", said[0], answer, heard, said[-1]),
    ]
    notes = [
        EACH_ALONE,
        "Each label drawn anew given the newest of the neighbours, sweep after sweep: the mean of the probabilities it "
        "was drawn from.",
    ]
    nobody = np.zeros(0, np.int64)
    return _story(world, node, classes, answer, levels, [local, marginals], [votes], known, nobody, notes)


def _story(
    world: World, node: int, classes: Sequence[str], answer: int, levels: list[LevelAnswer], tables: list[Array],
    votes: list[Array], known: NDArray[np.int32], given: NDArray[np.int64], notes: list[str],
) -> NodeStory:  # fmt: skip
    links = looked_along(world)
    cross_fitted = {*given.tolist()}

    def source(j: int) -> str:
        return LABEL if known[j] >= 0 else CROSS_FITTED if j in cross_fitted else PREDICTION

    around = neighbours(world.nodes, node, links, votes, len(classes), source)
    explained = node_explanation(node, world.nodes.ids[node], classes, answer, levels, around, source(node))
    return NodeStory(world.nodes, explained, tables, known, links, notes)


def looked_along(world: World) -> dict[str, Any]:
    """Name -> CSR (n, n): the links that templates ask for; a function of a user's may ask for any relation."""
    templates, hood = world.company.templates, world.hood
    rules = [t.rule for t in templates if isinstance(t, Over) and isinstance(t.rule, Relation)]
    found = {str(rule): hood.links(rule) for rule in rules}
    if not all(isinstance(template, Over) for template in templates):
        found |= {name: links for name, links in hood.relations.items() if name not in found}
    return found


def neighbours(
    nodes: Nodes, node: int, links: Mapping[str, Any], votes: Sequence[Array], n_labels: int,
    source: Callable[[int], str],
) -> list[Neighbour]:  # fmt: skip
    """Whom a node looks at by each relation, with what they told each level above the first."""
    found = []
    for relation, table in links.items():
        at = slice(table.indptr[node], table.indptr[node + 1])
        for j, weight in zip(table.indices[at].tolist(), table.data[at].tolist(), strict=True):
            told = np.array([level[j] for level in votes]).reshape(len(votes), n_labels)
            found.append(Neighbour(j, nodes.ids[j], relation, float(weight), told, source(j)))
    return found


def explain_stacked(model: Any, predictor: NodePredictor, node: Any, report: PathLike | None) -> NodeExplanation:
    """Of a fitted `StackedGraphical`."""
    at = ready(predictor.world.nodes, node, report)
    runs = model.samples if model.predictions == "sample" else 1
    names = feature_names(model.node_columns_)
    return told(stacked_story(predictor, runs, at, model.coding_.classes.names, names), report, model)


def ready(nodes: Nodes, node: Any, report: PathLike | None) -> int:
    """The number of the node, once it is clear that the report can be written."""
    check_report(report)
    return node_number(nodes, node)


def told(story: NodeStory, report: PathLike | None, model: Any) -> NodeExplanation:
    """The explanation, and the page about it where one is asked for."""
    if report is not None:
        write_node_report(report, story_part(story), type(model).__name__)
    answer, nodes, coding = story.answer, story.nodes, model.coding_
    around = tuple(replace(one, node=nodes.node_at(one.node)) for one in answer.neighbours)
    found: NodeExplanation = coding.as_written(replace(answer, node=nodes.node_at(answer.node), neighbours=around))
    return found


def story_part(story: NodeStory) -> Part:
    around = Surroundings(story.nodes, story.answer.classes, story.tables, story.known, story.links)
    return level_part(story.answer, around, story.notes)


def feature_names(columns: Sequence[str] | int) -> Sequence[str]:
    return [f"feature {i}" for i in range(columns)] if isinstance(columns, int | np.integer) else columns
