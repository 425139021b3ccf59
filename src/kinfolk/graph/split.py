"""Folds of the nodes of a graph, for scikit-learn's `cross_val_score` and `GridSearchCV`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.core.settings import whole
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.graph import Graph, checked_rows, coded_groups
from kinfolk.graph.some_nodes import SomeNodes
from kinfolk.learning.gain import folds_by_name

Array = NDArray[Any]


class GraphSplit:
    """Folds of labelled nodes: `cross_val_score(model, graph.nodes_at(), cv=kf.GraphSplit(graph))`.

    graph         whose nodes are dealt out
    folds         how many
    stratify      whether every fold has its share of each class; groups are never divided for it
    groups        nodes that belong together stand in one fold: None, by the graph's own groups where it has two or
                  more; False, whatever the groups; or one name or number a node
    random_state  seed of the deal

    Nodes are dealt in the order of their ids (groups in that of their names), so the folds are the same however the
    rows are sorted. A node without label stands in no fold. What is trained on a fold sees the whole graph with the
    labels of the other folds alone.
    """

    def __init__(
        self,
        graph: Graph,
        folds: int = 5,
        stratify: bool = True,
        groups: ArrayLike | bool | None = None,
        random_state: int | None = 0,
    ) -> None:
        if not isinstance(graph, Graph):
            raise InputError(f"expected a Graph; got {type(graph).__name__}")
        whole(2).check("folds", folds)
        if groups is True:
            raise SettingError("groups", groups, "None (the graph's own), False (none), or a name or number a node")
        self.graph, self.folds, self.stratify, self.random_state = graph, int(folds), bool(stratify), random_state
        self.groups = groups
        if groups is None:
            self._codes, self._names = graph.group_codes, graph.group_names
        else:
            self._codes, self._names = coded_groups(None if groups is False else groups, graph.n_nodes, None)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return self.folds

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[tuple[Array, Array]]:
        """For each fold the places in X of the nodes to train on, and of those to test on.

        X   `graph.nodes_at(...)`, or numbers of nodes; None: all labelled nodes, as `graph.nodes_at()` has them
        y   their labels, by which folds are stratified; None: those of the graph
        """
        numbers = self._numbers(X)
        fold = self._dealt(numbers, y, groups)
        for number in range(self.folds):
            yield np.flatnonzero((fold >= 0) & (fold != number)), np.flatnonzero(fold == number)

    def _numbers(self, X: Any) -> NDArray[np.int64]:
        if X is None:
            return self.graph.nodes_at().numbers
        if not isinstance(X, SomeNodes):
            return checked_rows(X, self.graph.n_nodes)
        if X.graph is not self.graph and X.graph.ids != self.graph.ids:
            raise InputError("these nodes are of another graph than the one to split; give both the same graph")
        return X.numbers

    def _dealt(self, numbers: NDArray[np.int64], y: Any, groups: Any) -> NDArray[np.int32]:
        """The fold of each, -1 where there is no label."""
        n = len(numbers)
        labels = SomeNodes(self.graph, numbers).labelled(y).label_codes[numbers]  # by classes in order
        kinds = labels if self.stratify else np.minimum(labels, 0)
        codes, names = (self._codes[numbers], self._names) if groups is None else coded_groups(groups, n, None)
        n_groups = len(np.unique(codes[labels >= 0]))
        if n_groups < 2:
            self._check(int((labels >= 0).sum()), "labelled nodes")
            return folds_by_name(
                [self.graph.ids[i] for i in numbers.tolist()], kinds, None, self.folds, self.random_state
            )
        self._check(n_groups, "groups with labels")
        return folds_by_name(names, kinds, codes, self.folds, self.random_state)

    def _check(self, units: int, unit: str) -> None:
        if units < self.folds:
            remedy = f"set `folds={units}` or fewer" if units >= 2 else "there is nothing to divide"
            if unit.startswith("groups"):
                remedy += ", or `groups=False` to divide groups"
            raise InputError(f"`folds={self.folds}` needs as many {unit}; there are {units}: {remedy}")

    def __repr__(self) -> str:
        return f"GraphSplit({self.graph!r}, folds={self.folds}, stratify={self.stratify})"
