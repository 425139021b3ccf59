"""Stacking over the nodes of a graph, with scikit-learn classifiers as bases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.aggregate import padded, side_by_side
from kinfolk.collective.stacking import Ask, Instances, Training, as_votes
from kinfolk.collective.templates import set_known
from kinfolk.core.data import Classes
from kinfolk.graph.learners import Learner, predict_in_blocks
from kinfolk.graph.nodes import Memory, World
from kinfolk.learning.crossfit import NOTHING

Array = NDArray[Any]


@dataclass(eq=False)
class NodeInstances(Instances):
    """Nodes as `stacking` learns from them."""

    world: World
    classes: Classes

    def learn(self, level: int, index: Array, company: Array | None) -> NodeLevel:
        table = self.world.alone if company is None else self.world.wide
        learner = Learner(self.bases[level], self.classes)
        weights = None if self.weights is None else self.weights[index]
        return NodeLevel(learner.fit(side_by_side(table, index, company), self.labels[index], weights), table)


@dataclass(frozen=True, eq=False)
class NodeLevel:
    learner: Learner
    table: Any

    def proba(self, index: Array, company: Array | None) -> Array:
        return predict_in_blocks(self.learner, self.table, index, None if company is None else company.__getitem__, 1)


def remembered(training: Training, instances: NodeInstances, told: bool) -> Memory:
    index = np.flatnonzero(instances.labels >= 0)
    levels = [] if told else range(training.depth)
    votes = [training.votes(level, NOTHING)[index].astype(np.float32) for level in levels]
    return Memory.of(instances.world.nodes, instances.labels, instances.templates.relation_names(), votes)


class NodePredictor(NamedTuple):
    """Trained levels, applied to one graph. `known` (n,) are labels told to neighbours, -1 for none; `given` votes of
    some nodes by level, in the place of what the models say of them; `kept` (n,) labels that are the last word on their
    nodes, -1 for none."""

    learners: Sequence[Learner]
    world: World
    ask: Ask
    known: NDArray[np.int32]
    given: tuple[NDArray[np.int64], list[Array]] | None
    kept: NDArray[np.int32]

    def levels(self, draw: int = 0, whole: bool = True) -> list[Array]:
        """(n, L) probabilities by each level; `draw` numbers the draws of sampled votes. Unless the `whole` of it is
        wanted, levels below the last are not asked about those whose word on themselves nobody hears."""
        asked = None
        if not whole and not self.ask.own and len(self.learners) > 1:
            heard = self.known < 0
            if self.given is not None:
                heard[self.given[0]] = False
            asked = np.flatnonzero(heard)
        return [found for found, _, _ in self.steps(draw, asked)]

    def steps(self, draw: int = 0, asked: Array | None = None) -> Iterator[tuple[Array, Array, Array]]:
        """Level by level its probabilities (n, L), of the nodes `asked` (None: all; the last is asked of all); and the
        votes they make for the level after it, to neighbours and to oneself."""
        everyone = np.arange(self.world.hood.n)
        votes = own = np.zeros((0, 0))
        for level in range(len(self.learners)):
            last = level == len(self.learners) - 1
            found = self.at_level(level, everyone if last or asked is None else asked, votes, own)
            votes, own = (votes[:0], own[:0]) if last else self._votes(level, found, draw)
            yield found, votes, own

    def _votes(self, level: int, found: Array, draw: int) -> tuple[Array, Array]:
        own = votes = as_votes(found, self.ask, level, draw, 1)
        if self.given is not None or (self.known >= 0).any():
            votes = votes.copy()
        if self.given is not None:
            votes[self.given[0]] = self.given[1][level]
            own = votes.copy() if self.ask.own else own
        set_known(votes, self.known)
        return votes, own

    def at_level(self, level: int, index: Array, votes: Array, own: Array) -> Array:
        """(n, L) by a level for the nodes `index`, 0 for others; above the first they are told the votes (n, L) of
        neighbours, and their own where that is asked for."""
        learner, hood, company = self.learners[level], self.world.hood, self.world.company
        if level == 0:
            found = predict_in_blocks(learner, self.world.alone, index, None, hood.n_jobs)
        else:
            company.prepare(hood)
            votes, mine = padded(votes), own if self.ask.own else None
            alone = replace(hood, n_jobs=1)  # each of the threads has a block

            whole = None if company.by_rows else company.rows(hood, votes, index, mine)

            def told(span: slice) -> Array:
                return company.rows(alone, votes, index[span], mine) if whole is None else whole[span]

            found = predict_in_blocks(learner, self.world.wide, index, told, hood.n_jobs)
        if len(index) == hood.n:
            return found
        table = np.zeros((hood.n, learner.n_labels))
        table[index] = found
        return table
