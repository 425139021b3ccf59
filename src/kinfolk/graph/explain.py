"""Why models over aggregates of neighbours give a node its label: levels, aggregates, neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.relations import Neighbourhood, Relation
from kinfolk.collective.templates import NeighbourTemplate, Over, set_known
from kinfolk.core.data import Classes, Relational
from kinfolk.graph.learners import Learner, predict_in_blocks
from kinfolk.graph.nodes import Nodes, ReadyGraph
from kinfolk.graph.page import (
    CROSS_FITTED,
    LABEL,
    PREDICTION,
    Aggregate,
    LevelAnswer,
    Neighbour,
    NodeExplanation,
    Surroundings,
    level_answer,
    level_part,
    node_explanation,
    write_node_report,
)
from kinfolk.report.page import Part, PathLike

# -- One row of a level, predicted as it is, without each aggregate, and without all of them ---

Array = NDArray[Any]
OWN = "own prediction"


class Span(NamedTuple):
    """The columns of one aggregate: from `start` to `stop` of what stands before the aggregates of predictions
    ("features"), or of these ("predictions", and "own" for the node's own prediction)."""

    name: str
    of: str
    start: int
    stop: int
    template: NeighbourTemplate | None


@dataclass(frozen=True, eq=False)
class Ablation:
    """Questions about one node. `own`: whether a node receives its own prediction too."""

    ready: ReadyGraph
    node: int
    own: bool

    @cached_property
    def spans(self) -> list[Span]:
        """The aggregates, those of features first."""
        template_set, n_features = self.ready.template_set, self.ready.nodes.table.shape[1]
        fixed = template_set.of_features
        at = self.ready.wide.shape[1] - n_features * len(fixed)
        found = [
            Span(f"{t.name} of features", "features", at + i * n_features, at + (i + 1) * n_features, t)
            for i, t in enumerate(fixed)
        ]
        at = 0
        for template in template_set.of_predictions:
            width = template.width(template_set.n_votes)
            found.append(Span(template.name, "predictions", at, at + width, template))
            at += width
        return found + [Span(OWN, "own", at, at + template_set.n_votes, None)] * self.own

    @cached_property
    def columns_before(self) -> Any:
        """(1 + spans + 1, F), the columns before them: of the node, without each aggregate of features, without all."""
        row, kept = self.ready.wide[[self.node]], np.ones((len(self.spans) + 2, self.ready.wide.shape[1]))
        for i, span in enumerate(self.spans):
            if span.of == "features":
                kept[[i + 1, -1], span.start : span.stop] = 0.0
        if not sparse.issparse(row):
            return (row * kept).astype(row.dtype)
        table = sparse.csr_array(sparse.vstack([row] * len(kept)).multiply(kept)).astype(row.dtype)
        table.eliminate_zeros()
        return table

    def aggregates(self, votes: Array, own: Array | None) -> Array:
        """(1 + spans + 1, q): what the node receives of votes (n, L), question by question."""
        rows, at = self.ready.template_set.rows, np.array([self.node])
        block = rows(self.ready.neighbourhood, votes, at, own if self.own else None)
        out = np.repeat(block, len(self.spans) + 2, axis=0)
        for i, span in enumerate(self.spans):
            if span.of == "features":
                continue
            out[i + 1, span.start : span.stop] = self._nothing(span, votes)
            if span.of == "predictions":
                out[-1, span.start : span.stop] = out[i + 1, span.start : span.stop]
        return out

    def _nothing(self, span: Span, votes: Array) -> Any:
        """What a node without neighbours receives: templates over a relation say 0, others are asked. An own prediction
        without an opinion is the same for all classes."""
        if span.template is None:
            return 1.0 / (span.stop - span.start)
        if isinstance(span.template, Over):
            return 0.0
        out = np.empty((1, span.stop - span.start), votes.dtype)
        span.template.write(self._lonely, votes, np.array([self.node]), out)
        return out[0]

    @cached_property
    def _lonely(self) -> Neighbourhood:
        """The graph with no link from or to the node."""
        kept = np.ones(self.ready.neighbourhood.n)
        kept[self.node] = 0.0
        keep = sparse.diags_array(kept, format="csr")
        relations = {name: _cut(keep, links) for name, links in self.ready.neighbourhood.relations.items()}
        return replace(self.ready.neighbourhood, relations=relations, worked_out={})

    def answers(self, learner: Learner, blocks: Sequence[Array]) -> Array:
        """(1 + spans + 1, L): what a level says to each question, the mean over `blocks` of aggregates."""
        aggregates = np.concatenate(blocks)
        index = np.tile(np.arange(len(self.spans) + 2), len(blocks))
        found = predict_in_blocks(learner, self.columns_before, index, aggregates.__getitem__, 1)
        return np.asarray(found.reshape(len(blocks), len(blocks[0]), -1).mean(axis=0))

    def measured(
        self, blocks: Sequence[Array], answers: Array, classes: Sequence[str], features: Sequence[str]
    ) -> list[Aggregate]:
        """Each aggregate with its values, the mean over `blocks`, and what is said without it."""
        row, first = np.mean([block[0] for block in blocks], axis=0), self.columns_before[[0]]
        fixed = (first.toarray() if sparse.issparse(first) else np.asarray(first))[0]
        found = []
        for span, without in zip(self.spans, answers[1:-1], strict=True):
            values = (fixed if span.of == "features" else row)[span.start : span.stop]
            names = _columns(span, classes, features)
            if span.of == "features":
                on = np.flatnonzero(values)
                values, names = values[on], [names[i] for i in on]
            found.append(Aggregate(span.name, span.of, tuple(names), values, without))
        return found


def _columns(span: Span, classes: Sequence[str], features: Sequence[str]) -> list[str]:
    """Names of the columns, without that of the template before them."""
    if span.template is None:
        return list(classes)
    names = span.template.column_names(list(features if span.of == "features" else classes))
    return [name.removeprefix(span.template.name).strip() for name in names]


def _cut(keep: Any, links: Any) -> sparse.csr_array:
    cut = sparse.csr_array(keep @ links @ keep)
    cut.eliminate_zeros()
    return cut


# -- explain ---------------------------------------------------------------------------------------

ALONE = "own features alone"
EACH_ALONE = "Each node by its own features alone."


class ExplainedNode(NamedTuple):
    """An explanation with what a report shows around it, and what each level receives, in words."""

    answer: NodeExplanation
    around: Surroundings
    notes: list[str]


def explained_sampling(
    ready: ReadyGraph, local: Array, conditional: Learner, node: int, known: NDArray[np.int32], states: Iterable[Array],
    sums: Array, classes: Sequence[str], features: Sequence[str],
) -> ExplainedNode:  # fmt: skip
    """Of a dependency network: what own features say, then the mean over sweeps of what the conditional model says.

    local    (n, L), by own features alone
    states   the labels (n,) of all nodes each time the node was drawn anew; while they come, `sums` (n, L) gathers the
             conditionals of all
    """
    ablation, eye = Ablation(ready, node, False), np.eye(len(classes))
    blocks, votes = [], np.zeros_like(local)
    for labels in states:
        blocks.append(ablation.aggregates(eye[labels], None))
        votes[np.arange(len(labels)), labels] += 1.0
    votes, marginals = votes / len(blocks), sums / len(blocks)
    set_known(marginals, known)
    said = ablation.answers(conditional, blocks)
    marginals[node] = said[0]
    answer = int(said[0].argmax())
    found = ablation.measured(blocks, said, classes, features)
    levels = [
        level_answer(ALONE, local[node], answer),
        level_answer("Gibbs sampling", said[0], answer, found, said[-1]),
    ]
    notes = [
        EACH_ALONE,
        "Each label drawn anew given the newest of the neighbours, sweep after sweep: the mean of the probabilities it "
        "was drawn from.",
    ]
    nobody = np.zeros(0, np.int64)
    return explained_node(ready, node, classes, answer, levels, [local, marginals], [votes], known, nobody, notes)


def explained_node(
    ready: ReadyGraph, node: int, classes: Sequence[str], answer: int, levels: list[LevelAnswer], tables: list[Array],
    votes: list[Array], known: NDArray[np.int32], given: NDArray[np.int64], notes: list[str],
) -> ExplainedNode:  # fmt: skip
    links = looked_along(ready)
    cross_fitted = {*given.tolist()}

    def source(j: int) -> str:
        return LABEL if known[j] >= 0 else CROSS_FITTED if j in cross_fitted else PREDICTION

    around = neighbours(ready.nodes, node, links, votes, len(classes), source)
    explained = node_explanation(node, ready.nodes.ids[node], classes, answer, levels, around, source(node))
    return ExplainedNode(explained, Surroundings(ready.nodes, classes, tables, known, links), notes)


def looked_along(ready: ReadyGraph) -> dict[str, Any]:
    """Name -> CSR (n, n): the links that templates ask for; a function of a user's may ask for any relation."""
    templates, neighbourhood = ready.template_set.templates, ready.neighbourhood
    rules = [t.rule for t in templates if isinstance(t, Over) and isinstance(t.rule, Relation)]
    found = {str(rule): neighbourhood.links(rule) for rule in rules}
    if not all(isinstance(template, Over) for template in templates):
        found |= {name: links for name, links in neighbourhood.relations.items() if name not in found}
    return found


def neighbours(
    nodes: Nodes, node: int, links: Mapping[str, Any], votes: Sequence[Array], n_labels: int,
    source: Callable[[int], str],
) -> list[Neighbour]:  # fmt: skip
    """Whom a node looks at by each relation, with their votes for each level above the first."""
    found = []
    for relation, table in links.items():
        at = slice(table.indptr[node], table.indptr[node + 1])
        for j, weight in zip(table.indices[at].tolist(), table.data[at].tolist(), strict=True):
            given = np.array([level[j] for level in votes]).reshape(len(votes), n_labels)
            found.append(Neighbour(j, nodes.ids[j], relation, float(weight), given, source(j)))
    return found


def finished(explained: ExplainedNode, report: PathLike | None, method: str, classes: Classes) -> NodeExplanation:
    """The explanation as the caller counts nodes and writes labels; and the page about it where one is asked for."""
    if report is not None:
        write_node_report(report, explained_part(explained), method)
    answer, nodes = explained.answer, explained.around.nodes
    around = tuple(replace(one, node=nodes.node_at(one.node)) for one in answer.neighbours)
    return classes.as_written(replace(answer, node=nodes.node_at(answer.node), neighbours=around))


def explained_part(explained: ExplainedNode) -> Part:
    return level_part(*explained)


# -- Models without levels: what is predicted with links cut --------------------------------------------
#
# Where there are no levels and no aggregates, as in belief propagation, the same questions can be asked: what features
# say without any link, what neighbours are predicted to be when the links of the node are cut (so that nothing comes
# back to it), and what is predicted of the node without its links of one relation. Each is a prediction for the graph
# so changed.

Cut = Callable[[str, Array], Array]  # name of a relation and its pairs (E, 2) to which of them are cut (E,)
Predicted = Callable[[Cut | None], Array]  # (n, L), with links cut or as they are


def explained_by_cuts(
    nodes: Nodes, node: int, relations: Sequence[str], predicted: Predicted, known: NDArray[np.int32],
    classes: Sequence[str], level: str,
) -> ExplainedNode:  # fmt: skip
    """`known` (n,): labels that are certain, -1 for none; not that of the node. `level`: what predicting with all links
    is called."""
    links = {name: _both_ways(nodes.relations[name]) for name in relations if name in nodes.relations}
    together, alone = predicted(None), predicted(lambda _, pairs: np.ones(len(pairs), bool))
    apart = predicted(lambda _, pairs: (pairs == node).any(axis=1))
    answer = int(together[node].argmax())
    each = (_by_relation(name, table, node, apart, predicted, classes) for name, table in links.items())
    found = [one for one in each if one is not None]
    levels = [
        level_answer(ALONE, alone[node], answer),
        level_answer(level, together[node], answer, found, apart[node] if found else None),
    ]
    notes = [
        EACH_ALONE,
        f"All nodes and links together. The vote of a neighbour is what is believed of it with the links of "
        f"{nodes.ids[node]} cut.",
    ]
    around = neighbours(nodes, node, links, [apart], len(classes), lambda j: LABEL if known[j] >= 0 else PREDICTION)
    explained = node_explanation(node, nodes.ids[node], classes, answer, levels, around)
    return ExplainedNode(explained, Surroundings(nodes, classes, [alone, together], known, links), notes)


def _by_relation(
    name: str, links: Any, node: int, apart: Array, predicted: Predicted, classes: Sequence[str]
) -> Aggregate | None:
    """What neighbours by one relation are predicted to be, added up by the number of links; None without any."""
    at = slice(links.indptr[node], links.indptr[node + 1])
    if at.start == at.stop:
        return None
    values = links.data[at] @ apart[links.indices[at]]
    without = predicted(lambda other, pairs: (pairs == node).any(axis=1) & (other == name))
    return Aggregate(f"links({name})", "predictions", tuple(classes), values, without[node])


def _both_ways(links: Any) -> sparse.csr_array:
    """How many links there are between two nodes, whichever way: they count at both ends."""
    there = sparse.csr_array(links != 0).astype(np.float64)
    return sparse.csr_array(there + there.T)


def without_links(nodes: Nodes, cut: Cut) -> Nodes:
    """The same nodes with fewer links."""
    left, data = {}, nodes.data
    for name, links in nodes.relations.items():
        table = sparse.coo_array(links)
        kept = ~cut(name, np.stack(table.coords, axis=1))
        left[name] = sparse.csr_array((table.data[kept], [at[kept] for at in table.coords]), shape=table.shape)
    data = Relational(data.features, data.labels, data.classes, left, data.groups, data.missing)
    return replace(nodes, relations=data.relations, data=data)
