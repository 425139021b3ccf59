"""A mixture of parents on nodes: pages with links, or any instances whose relations form a DAG."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.gate import LocalModel
from kinfolk.collective.joint import Sample
from kinfolk.collective.templates import set_known
from kinfolk.graph.node_parents import NodeParents
from kinfolk.graph.node_report import mixture_node_part, write_node_report
from kinfolk.graph.nodes import Nodes, check_within_groups, node_number
from kinfolk.learning.tables import TableWeights
from kinfolk.report.report_files import PathLike
from kinfolk.text.parents import Explanation, explanation

log = logging.getLogger("kinfolk")
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class NodeModel:
    """A fitted model seen from the side of prediction."""

    parents: NodeParents
    weights: TableWeights
    local: LocalModel | None
    n_orders: int
    seed: int | None
    n_jobs: int

    def sample(self, nodes: Nodes, labels: NDArray[np.int32] | None = None) -> Sample:
        first = None if labels is None else labels >= 0
        return node_sample(self.parents, nodes, self.local, self.n_orders, self.seed, self.n_jobs, first)

    def marginals(self, nodes: Nodes, labels: NDArray[np.int32] | None = None) -> Array:
        """(n, L) by row, the mean over orders. With `labels` (-1 unknown) the labelled nodes come first in every
        order, so what follows is exactly the distribution of the others given them. A DAG as given keeps its order:
        there a label is known to those that look at it, and nothing flows back from it to its parents.
        """
        table = mean_marginals(self.sample(nodes, labels), self.weights, labels, self.n_jobs)
        if labels is not None:
            set_known(table, labels)
        return table

    def explain(
        self, nodes: Nodes, node: Any, classes: tuple[str, ...], report: PathLike | None, known: NDArray[np.int32]
    ) -> Explanation:
        """Who speaks for a node (an id, or a number from 0), in every order; with `report` a page too. Of the labels
        `known` (n,) by row, -1 for none, that of the node itself is set aside."""
        at = node_number(nodes, node)
        known = known.copy()
        known[at] = -1
        labels = known if (known >= 0).any() else None
        sample = self.sample(nodes, labels)
        (voices,) = sample.voices(self.weights, self.parents.names, [at], self.n_jobs, labels)
        answer = explanation(at, voices, classes, lambda i: nodes.ids[i])
        if report is not None:
            part = mixture_node_part(nodes, answer, self.marginals(nodes, labels), labels)
            write_node_report(report, part, "MixtureOfParents")
        said = tuple(
            one if one.parent is None else replace(one, parent=nodes.node_at(one.parent))
            for one in answer.contributions
        )
        return replace(answer, instance=nodes.node_at(at), contributions=said)


def node_sample(
    parents: NodeParents, nodes: Nodes, local: LocalModel | None, n_orders: int, seed: int | None, n_jobs: int,
    first: NDArray[np.bool_] | None = None,
) -> Sample:  # fmt: skip
    """A new graph ready for inference, in orders of its own; nodes of `first` come before the others."""
    check_within_groups(nodes, parents.links)
    doubt = None if local is None else local.doubt(nodes.rows, n_jobs)
    rng = np.random.default_rng(None if seed is None else [seed, 1])  # not the orders of training
    sample, _ = parents.compile(nodes.rows, nodes.relations, nodes.groups, doubt, n_orders, rng, first)
    return sample


def mean_marginals(sample: Sample, weights: TableWeights, labels: NDArray[np.int32] | None, n_jobs: int) -> Array:
    """(n, L), the mean over the orders of a sample."""
    found = sample.beliefs(weights, labels, n_jobs)
    return np.asarray(sum(one.marginals for one in found) / len(found))
