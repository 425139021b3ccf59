"""Training a mixture of parents on nodes, over several random orders of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.gate import LocalModel, checked_shares, train_local
from kinfolk.collective.joint import Examples, shape_of
from kinfolk.collective.mixture_training import MixtureSettings, folds_by_group, train_mixture, untrained_relations
from kinfolk.core.data import Relational
from kinfolk.core.labels import Classes
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import Convergence, TrainingPlan, UntilStopped
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.graph import Graph
from kinfolk.graph.known_nodes import Memory
from kinfolk.graph.mixture import mean_marginals, node_sample
from kinfolk.graph.node_parents import NodeParents, used_links
from kinfolk.graph.nodes import (
    Nodes,
    check_relations,
    check_within_groups,
    node_accuracy,
    node_weights,
    training_labels,
)
from kinfolk.learning.inheritance import NamedWeights, inherit_mixture
from kinfolk.learning.tables import TableWeights

log = logging.getLogger("kinfolk")
Array = NDArray[Any]


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
