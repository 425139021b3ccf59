"""Training a mixture of parents on nodes, over several random orders of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.data.vocabulary import Vocabulary
from kinfolk.errors import InputError
from kinfolk.learning.tables import MixtureWeights
from kinfolk.models.gate import LocalModel, checked_shares, train_local
from kinfolk.models.joint import Examples
from kinfolk.models.mixture_training import MixtureSettings, folds_by_group, train_mixture
from kinfolk.models.node_mixture import Nodes
from kinfolk.models.node_parents import NodeParents, used_links
from kinfolk.models.optimise import Callback, Convergence, TrainingPlan
from kinfolk.models.weighting import class_weights

Array = NDArray[Any]


class FittedNodes(NamedTuple):
    """What training on nodes learns."""

    parents: NodeParents
    weights: MixtureWeights
    local: LocalModel | None
    classes: Vocabulary
    convergence: Convergence


def node_parents(model: Any, nodes: Nodes) -> NodeParents:
    """The rule for parents that the settings of a model ask for."""
    links = used_links(model.relations, nodes.relations, nodes.is_graph)
    mixing = model.mixing
    if mixing == "given" and nodes.is_graph:
        raise InputError(
            "mixing='given' needs relations that are a DAG, given as a Relational; a Graph is put in random orders, "
            "and each has other parents"
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
        both = [n for n in rule.names if n.startswith(f"{name} (")] if name in links and nodes.is_graph else [name]
        given.update(dict.fromkeys(both, share))
    shares = checked_shares(given, rule.names, None)
    return replace(rule, shares=shares)


def fit_nodes(
    model: Any, nodes: Nodes, settings: MixtureSettings, plan: TrainingPlan, sample_weight: Any, train: Any,
    scorer: Callable[[NodeParents, LocalModel | None, Vocabulary], Callable[[MixtureWeights], float] | None],
    callback: Callback | None,
) -> FittedNodes:  # fmt: skip
    """Separate training uses every link in both directions; the rest works on `model.orders` random orders."""
    labels = nodes.only(train)
    used = np.unique(labels[labels >= 0])
    if not len(used):
        raise InputError("training needs labels, and none of the nodes to train on has one")
    classes = Vocabulary([nodes.classes.names[i] for i in used])
    codes = np.full(len(nodes.classes) + 1, -1, np.int32)
    codes[used] = np.arange(len(used))
    labels = codes[labels]
    weights = _weights(labels, classes, model.class_weight, sample_weight)
    parents = node_parents(model, nodes)
    local, doubt, fold = None, None, None
    if parents.gated:
        fold = folds_by_group(nodes.groups, max(2, settings.gate_folds), plan.seed)
        local, doubt = train_local(nodes.rows, labels, weights, fold, len(classes), plan)
    rng = np.random.default_rng(None if plan.seed is None else [plan.seed, 0])
    sample, edges = parents.compile(nodes.rows, nodes.relations, nodes.groups, doubt, model.orders, rng)
    examples = Examples(sample, labels, weights, len(classes), edges, np.arange(len(labels)))
    score = scorer(parents, local, classes)
    found, convergence = train_mixture(examples, settings, fold, None, plan, score, callback)
    return FittedNodes(parents, found, local, classes, convergence)


def _weights(labels: Array, classes: Vocabulary, class_weight: Any, sample_weight: Any) -> Array:
    """(n,), the weight of the class of a node times its own."""
    by_class = np.append(class_weights(labels, classes, class_weight), 1.0)[labels]
    if sample_weight is None:
        return by_class
    own = np.asarray(sample_weight, np.float64)
    if own.shape != labels.shape or not np.isfinite(own).all() or (own < 0).any():
        raise InputError(f"sample_weight must be {len(labels)} finite numbers, none negative; got shape {own.shape}")
    return np.asarray(by_class * own)
