"""Stacking over the nodes of a graph, with scikit-learn classifiers as bases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.errors import InputError
from kinfolk.features.aggregates import padded
from kinfolk.features.company import Company, as_templates
from kinfolk.features.neighbourhood import Neighbourhood
from kinfolk.features.neighbours import Count, NeighbourTemplate
from kinfolk.features.paths import Relation
from kinfolk.features.rows import side_by_side
from kinfolk.learning.crossfit import NOTHING
from kinfolk.models.learners import Learner, one_table, predict_in_blocks, takes_sparse
from kinfolk.models.nodes import Nodes, told_relations
from kinfolk.models.stacking import Ask, Training, as_votes

Array = NDArray[Any]


class Memory(NamedTuple):
    """The graph a model was trained on, to know it again: its fingerprint, the nodes trained on, their labels, and
    their cross-fitted votes at each level but the last (none where true labels are told)."""

    fingerprint: str
    nodes: NDArray[np.int64]
    labels: NDArray[np.int32]
    votes: list[Array]


@dataclass(eq=False)
class NodeInstances:
    """Nodes as `stacking` learns from them. `alone` are the features of a node, `wide` those with its neighbours'
    features beside them; bases may want them dense."""

    labels: NDArray[np.int32]
    told: NDArray[np.int32]
    fold: NDArray[np.int32]
    weights: Array | None
    n_votes: int
    n_jobs: int
    alone: Any
    wide: Any
    hood: Neighbourhood
    templates: Company
    bases: Sequence[Any]
    names: Sequence[str]

    def learn(self, level: int, index: Array, company: Array | None) -> NodeLevel:
        table = self.alone if company is None else self.wide
        learner = Learner(self.bases[level], self.names)
        weights = None if self.weights is None else self.weights[index]
        return NodeLevel(learner.fit(side_by_side(table, index, company), self.labels[index], weights), table)

    def company(self, votes: Array, own: Array | None, index: Array) -> Array:
        return self.templates.rows(self.hood, votes, index, own)


@dataclass(frozen=True, eq=False)
class NodeLevel:
    learner: Learner
    table: Any

    def proba(self, index: Array, company: Array | None) -> Array:
        return predict_in_blocks(self.learner, self.table, index, None if company is None else company.__getitem__, 1)


def tables(
    nodes: Nodes, hood: Neighbourhood, templates: Company, dense: bool, features: bool = True
) -> tuple[Any, Any]:
    """(alone, wide): the features of nodes, and what stands before the votes at levels above: these, unless only what
    is told counts, and what templates tell of the neighbours' features."""
    alone = nodes.table.toarray() if dense and sparse.issparse(nodes.table) else nodes.table
    fixed = [part.toarray() if dense and sparse.issparse(part) else part for part in templates.fixed(hood)]
    parts = [alone, *fixed] if features else fixed
    return alone, one_table(parts) if parts else np.zeros((len(nodes.labels), 0))


def wants_dense(bases: Sequence[Any], table: Any) -> bool:
    """Whether a base cannot take sparse features, which this graph has or another may have."""
    return not all(map(takes_sparse, bases))


def default_templates(given: Any, nodes: Nodes) -> list[NeighbourTemplate]:
    """The templates given, or how many neighbours have each label, by every relation."""
    if given is not None:
        return as_templates(given)
    if not nodes.relations:
        raise InputError("this graph has no relation, so no node has a neighbour. Give it links")
    return [Count(Relation(name)) for name in nodes.relations]


def neighbourhood(nodes: Nodes, used: Sequence[str], unused: Sequence[str], n_votes: int, n_jobs: int) -> Neighbourhood:
    """The links of a graph; relations that templates name and the graph lacks are empty, with a warning."""
    relations = told_relations(nodes, used, unused)
    kept = nodes.data.paths if len(relations) == len(nodes.relations) else {}
    return Neighbourhood(len(nodes.labels), n_votes, relations, nodes.table, None, n_jobs, kept)


def remembered(training: Training, nodes: Nodes, depth: int, told: bool) -> Memory:
    index = np.flatnonzero(training.instances.labels >= 0)
    votes = [] if told else [training.votes(level, NOTHING)[index].astype(np.float32) for level in range(depth)]
    return Memory(nodes.fingerprint, index, training.instances.labels[index], votes)


class NodePredictor(NamedTuple):
    """Trained levels, applied to one graph. `known` (n,) are labels told to neighbours, -1 for none; `given` votes of
    some nodes by level, in the place of what the models say of them."""

    learners: Sequence[Learner]
    alone: Any
    wide: Any
    hood: Neighbourhood
    templates: Company
    ask: Ask
    known: NDArray[np.int32]
    given: tuple[NDArray[np.int64], list[Array]] | None

    def levels(self, draw: int = 0, whole: bool = True) -> list[Array]:
        """(n, L) probabilities by each level; `draw` numbers the draws of sampled votes. Unless the `whole` of it is
        wanted, levels below the last are not asked about those whose word on themselves nobody hears."""
        known = np.flatnonzero(self.known >= 0)
        asked = everyone = np.arange(self.hood.n)
        if not whole and not self.ask.own and len(self.learners) > 1:
            heard = self.known < 0
            if self.given is not None:
                heard[self.given[0]] = False
            asked = np.flatnonzero(heard)
        found = []
        votes = own = np.zeros((0, 0))
        for level in range(len(self.learners)):
            last = level == len(self.learners) - 1
            found.append(self.at_level(level, everyone if last else asked, votes, own))
            if last:
                break
            own = votes = as_votes(found[-1], self.ask, level, draw, 1)
            if self.given is not None or len(known):
                votes = votes.copy()
            if self.given is not None:
                votes[self.given[0]] = self.given[1][level]
                own = votes.copy() if self.ask.own else own
            votes[known] = 0.0
            votes[known, self.known[known]] = 1.0
        return found

    def at_level(self, level: int, index: Array, votes: Array, own: Array) -> Array:
        """(n, L) by a level for the nodes `index`, 0 for others; above the first they are told the votes (n, L) of
        neighbours, and their own where that is asked for."""
        learner, jobs = self.learners[level], self.hood.n_jobs
        if level == 0:
            found = predict_in_blocks(learner, self.alone, index, None, jobs)
        else:
            templates = self.templates
            templates.prepare(self.hood)
            votes = padded(votes)
            alone = replace(self.hood, n_jobs=1)  # each of the threads has a block

            def told(span: slice) -> Array:
                return templates.rows(alone, votes, index[span], own if self.ask.own else None)

            found = predict_in_blocks(learner, self.wide, index, told, jobs)
        if len(index) == self.hood.n:
            return found
        table = np.zeros((self.hood.n, learner.n_labels))
        table[index] = found
        return table
