"""Some nodes of a graph, as scikit-learn cuts rows into folds: the graph stays whole, its other labels are hidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.errors import InputError

if TYPE_CHECKING:
    from kinfolk.graph.graph import Graph


@dataclass(frozen=True, eq=False, repr=False)
class SomeNodes:
    """Nodes of a graph by number, in an order of their own: what `graph.nodes_at()` gives, the X of a search.

    To `fit` it is the whole graph with the labels of these nodes alone; to `predict` and `score` it asks for these
    nodes alone. Indexing gives fewer of them, as scikit-learn does for folds.
    """

    graph: Graph
    numbers: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int]:
        return self.numbers.shape  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, chosen: Any) -> SomeNodes:
        """By a slice, numbers or truth values; scikit-learn writes `nodes[numbers, ...]`."""
        if isinstance(chosen, tuple):
            chosen = chosen[0]
        numbers = self.numbers[chosen]
        return SomeNodes(self.graph, np.atleast_1d(numbers))

    @property
    def ids(self) -> list[str]:
        return [self.graph.ids[i] for i in self.numbers.tolist()]

    @property
    def node_ids(self) -> NDArray[Any]:
        """The ids as they were given to the graph."""
        return self.graph.node_ids[self.numbers]

    @property
    def labels(self) -> NDArray[Any]:
        """The labels that the graph has of these nodes, the y of a search: an array of their type."""
        codes = self.graph.label_codes[self.numbers]
        if (codes < 0).any():
            node = self.ids[int((codes < 0).argmax())]
            raise InputError(f"node {node!r} has no label; ask for nodes that have one, as `graph.nodes_at()` does")
        return self.graph.classes.array()[codes]

    def labelled(self, y: Sequence[Any] | ArrayLike | None = None) -> Graph:
        """The whole graph with the labels of these nodes alone: its own, or `y`, one for each."""
        if len(np.unique(self.numbers)) < len(self.numbers) and y is not None:
            raise InputError("a node is among these twice, and y may have two labels for it; name each of them once")
        if y is None:
            table = [*self.graph.classes, None]
            y = [table[code] for code in self.graph.label_codes[self.numbers].tolist()]
        return self.graph.labels_at(self.numbers, y)

    def __repr__(self) -> str:
        return f"SomeNodes({len(self)} of {self.graph!r})"


def whole_graph(X: Any, y: Any) -> tuple[Any, Any]:
    """What to train on, and y: of some nodes the graph with their labels alone, which has taken y in."""
    return (X.labelled(y), None) if isinstance(X, SomeNodes) else (X, y)
