"""A mixture of parents on nodes: pages with links, or any instances whose relations form a DAG."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.mixture import (
    EdgeData,
    Examples,
    Layout,
    LocalModel,
    MixtureSettings,
    RelationLayout,
    Sample,
    checked_shares,
    folds_by_group,
    gate_rows,
    shape_of,
    shared_weights,
    train_local,
    train_mixture,
    untrained_relations,
    wire,
)
from kinfolk.collective.templates import set_known
from kinfolk.core.data import Classes, Relational
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import Convergence, TrainingPlan, UntilStopped
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.graph import Graph
from kinfolk.graph.nodes import (
    Memory,
    Nodes,
    check_relations,
    check_within_groups,
    node_accuracy,
    node_number,
    node_weights,
    tell_unused_weights,
    training_labels,
)
from kinfolk.graph.page import mixture_node_part, write_node_report
from kinfolk.inference.mixture import Dag, build_dag, check_weights
from kinfolk.learning.loglinear import NamedWeights, TableWeights, inherit_mixture
from kinfolk.report.page import PathLike
from kinfolk.text.explain import Explanation, explanation

# -- Who the parents of a node are: its neighbours that come before it in an order of the nodes --------
#
# Links may run in circles, so the nodes are put in random orders, and in each order a link leads from the earlier
# node to
# the later one. Two models serve one kind of link (section 5.2 of the paper): the child has the link to its parent
# ("outgoing"), or the parent has it to the child ("incoming"). Marginals are the mean over many orders.
#
# Relations that are a DAG already (a `Relational`) are taken as they are: row i lists the parents of i.

Array = NDArray[Any]
Pairs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NodeParents:
    """The rule after training.

    links            names of the relations used
    ordered          True: links put in random orders, two models a relation; False: each relation is a DAG
    parent_features  features of the parent: "none", with weights of their "own", or "shared" ones
    everybody_starts whether nodes with parents have a start component too
    gated, shares, given   mixing weights: by a gate; by fixed shares (R + 1,); by the entries of the relations
    not_used         relations of the training data that were left aside on purpose
    untrained        of `names`, those without a labelled edge in training: they have nothing to say
    """

    links: tuple[str, ...]
    ordered: bool
    parent_features: str
    everybody_starts: bool
    gated: bool = False
    shares: Array | None = None
    given: bool = False
    not_used: tuple[str, ...] = ()
    untrained: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        if not self.ordered:
            return self.links
        return tuple(f"{name} ({side})" for name in self.links for side in ("outgoing", "incoming"))

    @property
    def layout(self) -> Layout:
        return Layout(tuple(RelationLayout(name, self.parent_features) for name in self.names))

    def edges(self, relations: Mapping[str, Any]) -> list[Pairs]:
        """All (child, parent) pairs of each of `names`, whatever the order."""
        found = []
        for name in self.links:
            links = relations[name].tocoo()
            told = slice(None) if self.given else links.data != 0  # an entry of 0 is no link, unless it is a weight
            rows, columns = links.coords[0][told], links.coords[1][told]
            pairs = np.stack([rows, columns], axis=1).astype(np.int64)
            found += [pairs, pairs[:, ::-1]] if self.ordered else [pairs]
        found = [p[:0] if name in self.untrained else p for name, p in zip(self.names, found, strict=True)]
        return [pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))] for pairs in found]

    def compile(
        self, rows: sparse.csr_array, relations: Mapping[str, Any], groups: Array, doubt: Array | None,
        n_orders: int, rng: np.random.Generator, first: NDArray[np.bool_] | None = None,
    ) -> tuple[Sample, list[EdgeData]]:  # fmt: skip
        """A sample with one wiring an order; and for separate training all edges, in both directions.

        first   bool (n,): nodes that come before all others in every order
        """
        edges, n = self.edges(relations), rows.shape[0]
        start = np.full(n, self.everybody_starts)
        dags = []
        for _ in range(n_orders if self.ordered else 1):
            kept = edges
            if self.ordered:
                rank = rng.permutation(n)
                rank = rank if first is None else rank + np.where(first, 0, n)
                kept = [pairs[rank[pairs[:, 1]] < rank[pairs[:, 0]]] for pairs in edges]
            dags.append(build_dag(kept, groups, start, self.names))
        layout = self.layout
        uncertain = np.zeros(n) if doubt is None else doubt
        no_edge_features = [None] * len(edges)
        width = len(edges)
        gates = [
            gate_rows(dag, width, uncertain, no_edge_features) if self.gated else np.zeros((dag.n_components, 0))
            for dag in dags
        ]
        sample = Sample(layout, rows, wire(layout, dags), gates, self._given(dags, relations))
        return sample, [EdgeData(pairs, self.parent_features) for pairs in edges]

    def _given(self, dags: list[Dag], relations: Mapping[str, Any]) -> list[Array] | None:
        if self.shares is not None:
            return [shared_weights(dag, self.shares) for dag in dags]
        if not self.given:
            return None
        dag = dags[0]
        alpha = np.ones(dag.n_components)  # a start component stands alone
        for r, name in enumerate(self.links):
            here = np.flatnonzero(dag.relation == r)
            alpha[here] = relations[name][dag.child[here], dag.parent[here]]
        return [check_weights(dag, alpha)]


def used_links(wanted: Sequence[str] | None, relations: Mapping[str, Any], ordered: bool) -> tuple[str, ...]:
    """The relations to use: those named, or all. Of two that are each other's reverse (cites, cited_by) one will do
    where both directions of a link are used anyway.
    """
    names = tuple(relations) if wanted is None else tuple(wanted)
    if wanted is None and ordered:
        kept: list[str] = []
        for name in names:
            if not any(_same_links(relations[name], relations[other].T) for other in kept):
                kept.append(name)
        names = tuple(kept)
    missing = [name for name in names if name not in relations]
    if missing:
        known = ", ".join(map(repr, relations)) or "none"
        raise InputError(f"there is no relation {missing[0]!r} here; there are: {known}")
    if not names and wanted is None:
        raise InputError(
            "this graph has no relation, so no node has a neighbour. Give it links; or set relations=[] for a model of "
            "the nodes alone"
        )
    return names


def _same_links(a: Any, b: Any) -> bool:
    return bool(a.nnz == b.nnz and (a.astype(bool) != sparse.csr_array(b).astype(bool)).nnz == 0)


# -- A mixture of parents on nodes: pages with links, or any instances whose relations form a DAG ------

log = logging.getLogger("kinfolk")


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


# -- Training a mixture of parents on nodes, over several random orders of them ------------------------

class FittedNodes(NamedTuple):
    """What training on nodes learns; `memory` are the nodes trained on."""

    parents: NodeParents
    weights: TableWeights
    local: LocalModel | None
    classes: Classes
    convergence: Convergence
    memory: Memory


def node_parents(model: Any, nodes: Nodes) -> NodeParents:
    """The rule for parents that the settings of a model ask for."""
    links = used_links(model.relations, nodes.relations, nodes.is_graph)
    mixing = model.mixing
    if mixing == "given" and nodes.is_graph:
        raise InputError(
            "mixing='given' needs relations that are a DAG, given as a Relational; a Graph is put in random orders, "
            "and each has other parents"
        )
    if mixing == "given" and model.everybody_starts:
        raise SettingError(
            "mixing='given' has no weight for the start components of everybody_starts=True: leave one of them out"
        )
    rule = NodeParents(
        links,
        nodes.is_graph,
        model.parent_features,
        model.everybody_starts,
        mixing == "learned",
        None,
        mixing == "given",
        tuple(name for name in nodes.relations if name not in links),
    )
    if not isinstance(mixing, Mapping):
        return rule
    given: dict[str, float] = {}
    for name, share in mixing.items():  # a share for a kind of link serves both of its models
        both = [f"{name} (outgoing)", f"{name} (incoming)"] if name in links and nodes.is_graph else [name]
        given.update(dict.fromkeys(both, share))
    shares = checked_shares(given, rule.names, None)
    return replace(rule, shares=shares)


def fit_nodes(
    model: Any, nodes: Nodes, settings: MixtureSettings, plan: TrainingPlan, sample_weight: Any, train: Any,
    scorer: Callable[[NodeParents, LocalModel | None, Classes, Memory], Callable[[TableWeights], float] | None],
    callback: UntilStopped | None, before: NamedWeights | None,
) -> FittedNodes:  # fmt: skip
    """Separate training uses every link in both directions; the rest works on `model.orders` random orders."""
    labels, classes = training_labels(nodes, train)
    if settings.training == "joint" and not nodes.table.shape[1]:
        # Without features all nodes have the same marginals, which then say nothing of links, not even their sign.
        log.warning("nodes have no features, so links are learned from labels: training='conditional', not 'joint'")
        settings = replace(settings, training="conditional")
    weights = node_weights(nodes, labels, classes, model.class_weight, sample_weight)
    parents = node_parents(model, nodes)
    check_within_groups(nodes, parents.links)
    if not parents.given:
        tell_unused_weights(nodes, parents.links, "MixtureOfParents")
    local, doubt, fold = None, None, None
    if parents.gated:
        fold = folds_by_group(nodes.groups, max(2, settings.gate_folds), plan.seed)
        local, doubt = train_local(nodes.rows, labels, weights, fold, len(classes), plan, callback)
    rng = np.random.default_rng(None if plan.seed is None else [plan.seed, 0])
    sample, edges = parents.compile(nodes.rows, nodes.relations, nodes.groups, doubt, model.orders, rng)
    examples = Examples(sample, labels, weights, len(classes), edges, np.arange(len(labels)))
    memory = Memory.of(nodes, labels, parents.links)
    score = scorer(parents, local, classes, memory)
    start = None if before is None else inherit_mixture(before, 0, nodes.names, classes, shape_of(sample, len(classes)))
    found, convergence = train_mixture(examples, settings, fold, start, plan, score, callback)
    parents = replace(parents, untrained=untrained_relations(parents.names, edges, labels))
    return FittedNodes(parents, found, local, classes, convergence, memory)


def node_scorer(
    X_dev: Any, nodes: Nodes, model: Any, parents: NodeParents, local: LocalModel | None, classes: Classes,
    memory: Memory,
) -> Callable[[TableWeights], float] | None:
    """Accuracy on a held-out graph for given weights; None without one. The orders are drawn once. Nodes of the graph
    that are trained on are known, as they will be later, and do not count."""
    if X_dev is None:
        return None
    if not isinstance(X_dev, Graph | Relational):
        raise InputError(f"X_dev must be a graph, as the training data is; got {type(X_dev).__name__}")
    dev, jobs = Nodes.of(X_dev, nodes.columns), resolve_jobs(model.n_jobs)
    check_relations(dev, parents.links, parents.not_used)
    known = memory.scored(dev)
    labels = known if (known >= 0).any() else None
    gold = np.where(known >= 0, -1, dev.gold(classes))
    first = None if labels is None else labels >= 0
    sample = node_sample(parents, dev, local, model.predict_orders, model.random_state, jobs, first)

    def score(weights: TableWeights) -> float:
        return node_accuracy(gold, mean_marginals(sample, weights, labels, jobs)) / 100

    return score
