"""The link model: a relational Markov network over linked nodes (Taskar, Abbeel and Koller, 2002).

p(y | x) ∝ exp( Σ_i ( a + x_i · W )[y_i] + Σ_links T_r[y_source, y_target] ), by loopy belief propagation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.mixture import EdgeData, train_separately
from kinfolk.collective.pairwise import (
    DAMPING,
    REMEDY,
    InferenceReport,
    PairSample,
    PairTraining,
    Propagates,
    infer,
    pair_sample,
    put_pairwise,
    taken_pairwise,
    train_pairwise,
)
from kinfolk.core.modelfile import Functions, ModelFile
from kinfolk.core.settings import NAMES, NONE, NOT_NEGATIVE, number, setting, whole
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import Callback, Convergence, Optimised, Stage, TrainingPlan, observed
from kinfolk.errors import InputError
from kinfolk.graph.explain import ALONE, EACH_ALONE, ExplainedNode, finished, neighbours
from kinfolk.graph.model import RELATIONS, NodeModel
from kinfolk.graph.nodes import (
    TRAIN,
    Known,
    Memory,
    Nodes,
    check_within_groups,
    node_accuracy,
    node_weights,
    used_links,
    warn_unused_weights,
)
from kinfolk.graph.page import (
    LABEL,
    PREDICTION,
    Aggregate,
    NodeExplanation,
    Surroundings,
    level_answer,
    node_explanation,
)
from kinfolk.inference.loopy import Propagation
from kinfolk.learning.loglinear import TableWeights
from kinfolk.report.page import PathLike

# -- Why a link model gives a node its label: what it believes with links cut --------------------------
#
# Belief propagation has no levels and no aggregates, but the same questions can be asked: what the features say without
# any link, what neighbours are predicted to be when the links of the node are cut (so that nothing comes back to it),
# and what is believed of the node without its links of one relation. Each is inference on the graph so changed.

Array = NDArray[Any]
Cut = Callable[[str, Array], Array]  # name of a relation and its pairs (E, 2) to which of them are cut (E,)
Beliefs = Callable[[Cut | None], Array]  # (n, L), with links cut or as they are


def explained_beliefs(
    nodes: Nodes, node: int, relations: Sequence[str], beliefs: Beliefs, known: NDArray[np.int32],
    classes: Sequence[str],
) -> ExplainedNode:  # fmt: skip
    """`known` (n,): labels that are certain, -1 for none; not that of the node."""
    links = {name: _both_ways(nodes.relations[name]) for name in relations if name in nodes.relations}
    together, alone = beliefs(None), beliefs(lambda _, pairs: np.ones(len(pairs), bool))
    apart = beliefs(lambda _, pairs: (pairs == node).any(axis=1))
    answer = int(together[node].argmax())
    each = (_aggregate(name, table, node, apart, beliefs, classes) for name, table in links.items())
    found = [one for one in each if one is not None]
    levels = [
        level_answer(ALONE, alone[node], answer),
        level_answer("belief propagation", together[node], answer, found, apart[node] if found else None),
    ]
    notes = [
        EACH_ALONE,
        f"All nodes and links together. The vote of a neighbour is what is believed of it with the links of "
        f"{nodes.ids[node]} cut.",
    ]
    around = neighbours(nodes, node, links, [apart], len(classes), lambda j: LABEL if known[j] >= 0 else PREDICTION)
    explained = node_explanation(node, nodes.ids[node], classes, answer, levels, around)
    return ExplainedNode(explained, Surroundings(nodes, classes, [alone, together], known, links), notes)


def _aggregate(
    name: str, links: Any, node: int, apart: Array, beliefs: Beliefs, classes: Sequence[str]
) -> Aggregate | None:
    """What neighbours by one relation are believed to be, added up by the number of links; None without any."""
    at = slice(links.indptr[node], links.indptr[node + 1])
    if at.start == at.stop:
        return None
    values = links.data[at] @ apart[links.indices[at]]
    without = beliefs(lambda other, pairs: (pairs == node).any(axis=1) & (other == name))
    return Aggregate(f"links({name})", "predictions", tuple(classes), values, without[node])


def _both_ways(links: Any) -> sparse.csr_array:
    """How many links there are between two nodes, whichever way: they count at both ends."""
    there = sparse.csr_array(links != 0).astype(np.float64)
    return sparse.csr_array(there + there.T)


# -- link model ------------------------------------------------------------------------------------


@final
@dataclass(kw_only=True, eq=False, repr=False)
class LinkModel(Propagates, NodeModel, Optimised):
    """Nodes of a Graph, labelled together with those they are linked to.

    Learned by `fit`: `classes_`, `weights_`, `convergence_`, `training_report_` (where belief propagation settled).
    """

    l2: float = setting(1.0, "strength of the ridge, l2/2 · |w|²", NOT_NEGATIVE)
    relations: Sequence[str] | None = setting(None, RELATIONS, NAMES | NONE)
    damping: float = setting(0.3, DAMPING, number(0, 1, below=True))
    max_rounds: int = setting(200, "limit of rounds of belief propagation", whole(1))

    links_: tuple[str, ...] = field(init=False)
    not_used_: tuple[str, ...] = field(init=False)
    node_columns_: Sequence[str] | int = field(init=False)
    weights_: TableWeights = field(init=False)
    convergence_: Convergence = field(init=False)
    training_report_: InferenceReport | None = field(init=False)

    def fit(
        self, X: Any, y: Any = None, X_dev: Any = None, sample_weight: Any = None,
        callback: Callback | None = None, train: Any = None,
    ) -> Self:  # fmt: skip
        """Train on a Graph (or a Relational). Nodes without a label take part as neighbours.

        X_dev           a held-out graph: scored every `dev_every` iterations; the best weights are kept
        sample_weight   one number a node; a graph counts with the mean of its labelled nodes
        train           a mask or numbers of the nodes whose labels may be used; None: all labelled ones
        """
        nodes, labels, classes = self._begin(X, y, train)
        jobs = resolve_jobs(self.n_jobs)
        weights = node_weights(nodes, labels, classes, self.class_weight, sample_weight)
        plan = TrainingPlan.of(self, jobs, self.training)
        with self._all_or_nothing(), observed(callback, self.verbose, self.tolerance) as watcher:
            self.links_ = used_links(self.relations, nodes.relations, ordered=True)
            self.not_used_ = tuple(name for name in nodes.relations if name not in self.links_)
            warn_unused_weights(nodes, self.links_, type(self).__name__)
            self.node_columns_, self.labels_ = nodes.columns, classes
            sample, n_labels = self._sample(nodes), len(classes)
            self.memory_ = Memory.of(nodes, labels, self.links_)
            score = None if X_dev is None else self._scorer(X_dev)
            start, first = self._node_start(sample, labels, weights, n_labels, plan, watcher)
            how = PairTraining(self.training, self._propagation())
            self.weights_, self.convergence_, self.training_report_ = train_pairwise(
                sample, labels, weights, n_labels, how, start, plan, score, watcher
            )
            self.convergence_ = self.convergence_.after(first)
        if self.training_report_ is not None:
            self.training_report_.warn(REMEDY)
        return self

    def _node_start(
        self, sample: PairSample, labels: Any, weights: Array, n_labels: int, plan: TrainingPlan, watcher: Any
    ) -> tuple[TableWeights, tuple[Stage, ...]]:
        """Weights of the node model, and no opinion on links; and how it was trained."""
        alone = np.stack([np.arange(len(labels)), np.full(len(labels), -1)], axis=1)
        named = replace(plan, stage="node model", warns=False)
        data = EdgeData(alone, "none")
        model, outcome = train_separately(sample.rows, labels, weights, n_labels, data, named, watcher)
        shape = sample.shape(n_labels)
        found = shape.split(np.zeros(shape.size, np.float32))
        found.tables[0][:] = model.child
        found.start[:] = model.start
        return found, () if outcome is None else outcome.stages

    def _propagation(self) -> Propagation:
        return Propagation(self.schedule, float(self.damping), float(self.message_tolerance), self.max_rounds)

    def _sample(self, nodes: Nodes, edges: list[Array] | None = None) -> PairSample:
        """`edges`: pairs of each relation, if others than all."""
        found = self._edges(nodes) if edges is None else edges
        return pair_sample(nodes.rows, found, [None] * len(found), nodes.groups, np.arange(len(nodes.labels)))

    def _edges(self, nodes: Nodes) -> list[Array]:
        """Links of each relation as pairs (source, target), each once."""
        edges = []
        for name in self.links_:
            links = sparse.coo_array(nodes.relations[name])
            there = links.data != 0
            if (links.coords[0][there] == links.coords[1][there]).any():
                raise InputError(f"relation {name!r} links a node to itself. Take self loops out.")
            edges.append(np.stack([c[there] for c in links.coords], axis=1).astype(np.int64))
        check_within_groups(nodes, self.links_)
        return edges

    def _scorer(self, X_dev: Any) -> Callable[[TableWeights], float]:
        """Accuracy on a held-out graph for given weights."""
        dev, known, gold = self._held_out(X_dev)
        sample, given, settings = self._sample(dev), self._certain(known.labels), self._propagation()
        jobs = resolve_jobs(self.n_jobs)
        return lambda weights: node_accuracy(gold, infer(sample, weights, settings, jobs, False, given)[0]) / 100

    # -- prediction -----------------------------------------------------------------------------------

    def relations_used(self) -> tuple[Sequence[str], Sequence[str]]:
        return self.links_, self.not_used_

    def _beliefs(self, sample: PairSample, known: Array) -> tuple[Array, InferenceReport]:
        """(n, L) by row; labels that are `known` (n,), -1 for none, are certain."""
        given, jobs = self._certain(known), resolve_jobs(self.n_jobs)
        found, report, _ = infer(sample, self.weights_, self._propagation(), jobs, False, given)
        return np.exp(found), report

    def _certain(self, known: Array) -> tuple[Array, Array] | None:
        """What is added to the scores of nodes and of pairs of labels: -inf for all but a label that is known."""
        if not (known >= 0).any():
            return None
        n_labels = len(self.labels_)
        forbid = np.zeros((len(known), n_labels))
        forbid[(known[:, None] >= 0) & (known[:, None] != np.arange(n_labels))] = -np.inf
        return forbid, np.zeros((n_labels, n_labels))

    def _probabilities(self, nodes: Nodes, known: Known) -> Array:
        """(n, L), beliefs at the fixed point. Known labels are certain, and all others are given them: information
        flows both ways along a link. Exact where links form no circle among the nodes that are not known."""
        beliefs, report = self._beliefs(self._sample(nodes), known.labels)
        report.warn(REMEDY)
        return beliefs

    def inference_report(self, X: Any, forced: bool = False, known: Any = TRAIN) -> InferenceReport:
        """In which groups of X belief propagation settles."""
        nodes = self._nodes(X)
        return self._beliefs(self._sample(nodes), self._known(nodes, known, forced, tell=False).labels)[1]

    def _explanation(self, nodes: Nodes, node: int, known: Known, report: PathLike | None) -> NodeExplanation:
        """What its own features say, and what is believed with links and with those of each relation cut."""
        certain = known.without(node).labels
        edges = self._edges(nodes)

        def beliefs(cut: Callable[[str, Array], Array] | None) -> Array:
            left = [e if cut is None else e[~cut(name, e)] for name, e in zip(self.links_, edges, strict=True)]
            found, settled = self._beliefs(self._sample(nodes, left), certain)
            if cut is None:
                settled.warn(REMEDY)
            return found

        explained = explained_beliefs(nodes, node, self.links_, beliefs, certain, self.labels_.names)
        return finished(explained, report, type(self).__name__, self.labels_)

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["convergence"] = self.convergence_.for_file()
        state.header["pairwise"] = {"links": list(self.links_), "not_used": list(self.not_used_)}
        put_pairwise(state, self.weights_)
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        spec = file.header["pairwise"]
        self.links_, self.not_used_ = tuple(spec["links"]), tuple(spec["not_used"])
        self.weights_ = taken_pairwise(file, self._n_features, len(self.labels_), len(self.links_), 0)
        self.convergence_, self.training_report_ = Convergence.from_file(file.header["convergence"]), None
