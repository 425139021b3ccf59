"""What models of nodes gain by their neighbours, cross-fitted on the training graph.

Several graphs (groups) are dealt to folds whole, and nothing is known of those held out. In one graph nodes are dealt;
those trained on are then known when the others are predicted, as when the rest of that graph is wanted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.checkpoint import running
from kinfolk.graph.model import NodeModel
from kinfolk.graph.nodes import Nodes, training_labels
from kinfolk.learning.gain import Counted, Gain, Guarded, check_units, folds_by_name, in_silence

Array = NDArray[Any]


@dataclass(kw_only=True, eq=False, repr=False)
class GuardedNodes(Guarded, NodeModel):
    """Abstract: a model of nodes that is trained anew for every fold."""

    NOTHING: ClassVar[str] = "no links are used"

    @abstractmethod
    def _alone(self, fitted: Self, X: Any, how: Mapping[str, Any]) -> Array:
        """The labels that the local model gives all nodes of X, trained as `fitted` was: `fit(X, **how)`."""

    def _measured(self, X: Any, train: Any, **how: Any) -> Gain | None:
        """By `fit(X, train=..., **how)` without each fold; None where no links are used."""
        if self.guard is None or not self.relations_used()[0]:
            return None
        nodes = Nodes.of(X)
        labels, classes = training_labels(nodes, train)
        fold, gold, counted = self._node_folds(nodes, labels), classes.array()[labels], Counted()
        with in_silence():
            for number in range(self.guard):
                given = {**how, "train": nodes.to_nodes((labels >= 0) & (fold != number))}

                def count() -> list[Any]:
                    fitted: Any = self._anew()
                    fitted.fit(X, **given)  # noqa: B023
                    said = self._alone(fitted, X, given), fitted.predict(X)  # noqa: B023
                    part = Counted()
                    count_nodes(part, nodes, fold, fold == number, gold, *map(nodes.to_rows, said))  # noqa: B023
                    return part.parts()

                counted.add(*running().step("guard").once(count))
        return counted.gain("accuracy", node_unit(nodes, fold), self.guard)

    def _node_folds(self, nodes: Nodes, labels: Array) -> NDArray[np.int32]:
        assert self.guard is not None
        groups, labelled = nodes.groups, labels >= 0
        n_groups = len(np.unique(groups[labelled]))
        if n_groups == 1:
            check_units(self.guard, int(labelled.sum()), "nodes")
            return folds_by_name(nodes.ids, labels, None, self.guard, self.random_state)
        check_units(self.guard, n_groups, "graphs")
        size = int(groups.max()) + 1
        names = [f"{i:09}" for i in range(size)] if nodes.group_names is None else list(nodes.group_names)
        return folds_by_name(names, labels, groups, self.guard, self.random_state)


def node_unit(nodes: Nodes, fold: Array) -> str:
    """Graphs that no fold divides are the units, where there are several; else nodes."""
    labelled = fold >= 0
    pairs = np.unique(np.stack([nodes.groups[labelled], fold[labelled]]), axis=1)
    n_groups = len(np.unique(pairs[0]))
    return "graphs" if n_groups > 1 and n_groups == pairs.shape[1] else "nodes"


def count_nodes(
    counted: Counted, nodes: Nodes, fold: Array, asked: Array, gold: Array, alone: Array, together: Array
) -> None:
    """Add the nodes `asked`: whether the answers of the local and of the collective model are right about each."""
    rows = np.flatnonzero(asked)
    unit = nodes.groups[rows] if node_unit(nodes, fold) == "graphs" else rows
    _, unit, sizes = np.unique(unit, return_inverse=True, return_counts=True)
    local, collective = (
        np.stack([np.bincount(unit, (found == gold)[rows]), sizes], axis=1) for found in (alone, together)
    )
    counted.add(local, collective, (alone != together)[rows].sum())
