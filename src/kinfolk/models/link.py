"""The link model: a relational Markov network over linked nodes (Taskar, Abbeel and Koller, 2002).

p(y | x) ∝ exp( Σ_i ( a + x_i · W )[y_i] + Σ_links T_r[y_source, y_target] ), by loopy belief propagation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.data.labels import Classes
from kinfolk.errors import InputError
from kinfolk.explain.levels import NodeExplanation
from kinfolk.inference.loopy import Propagation
from kinfolk.learning.tables import TableWeights
from kinfolk.models.checks import check_settings
from kinfolk.models.cut_links import link_story
from kinfolk.models.history import Stage
from kinfolk.models.labeller import Labeller
from kinfolk.models.labels import LabelCoding
from kinfolk.models.node_explanations import ready, told
from kinfolk.models.node_parents import used_links
from kinfolk.models.nodes import (
    Nodes,
    check_within_groups,
    no_labels_beside,
    node_accuracy,
    node_weights,
    told_relations,
    training_labels,
)
from kinfolk.models.optimise import Callback, Convergence, TrainingPlan
from kinfolk.models.pair_sample import PairSample, pair_sample
from kinfolk.models.pairwise import (
    REMEDY,
    TRAININGS,
    InferenceReport,
    PairTraining,
    infer,
    train_pairwise,
)
from kinfolk.models.progress import observed
from kinfolk.models.report_files import PathLike, check_report
from kinfolk.models.score_report import evaluate_nodes
from kinfolk.models.separate import EdgeData, train_separately
from kinfolk.threads import resolve_jobs

Array = NDArray[Any]


@final
@dataclass(kw_only=True, eq=False, repr=False)
class LinkModel(Labeller):
    """Nodes of a Graph, labelled together with those they are linked to.

    Settings
    --------
    l2, l1            strength of the ridge and of the lasso
    training          "bethe": the likelihood with belief propagation in the place of exact sums; "pseudo": each label
                      given its neighbours'; "piecewise": each factor on its own. All start from the node model.
    relations         the links to use; None: all (of two that are each other's reverse, one)
    class_weight      label -> weight, or "balanced"
    schedule, damping, max_rounds, message_tolerance   of belief propagation: see `SkipChainCRF`
    max_iterations, tolerance, patience, dev_every, random_state, n_jobs, verbose   see `Tagger`

    Learned by `fit`: `classes_`, `weights_`, `convergence_`, `training_report_` (where belief propagation settled).
    """

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {"training": TRAININGS}

    l2: float = 1.0
    l1: float = 0.0
    training: str = "bethe"
    relations: Sequence[str] | None = None
    class_weight: Mapping[Any, float] | str | None = None
    schedule: str = "sequential"
    damping: float = 0.3
    max_rounds: int = 200
    message_tolerance: float = 1e-4
    max_iterations: int = 300
    tolerance: float = 1.5e-4
    patience: int = 5
    dev_every: int = 5
    random_state: int | None = 0
    n_jobs: int | None = -1
    verbose: int = 0

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
        no_labels_beside(y)
        check_settings(self)
        nodes, jobs = Nodes.of(X), resolve_jobs(self.n_jobs)
        labels, classes = training_labels(nodes, train)
        weights = node_weights(nodes, labels, classes, self.class_weight, sample_weight)
        plan = TrainingPlan(
            float(self.l2), float(self.l1), self.max_iterations, float(self.tolerance), self.patience,
            self.dev_every, self.random_state, jobs, self.training,
        )  # fmt: skip
        with self._all_or_nothing(), observed(callback, self.verbose, self.tolerance) as watcher:
            self.links_ = used_links(self.relations, nodes.relations, ordered=True)
            self.not_used_ = tuple(name for name in nodes.relations if name not in self.links_)
            self.node_columns_, self.coding_ = nodes.columns, LabelCoding(None, None, classes)
            sample, n_labels = self._sample(nodes), len(classes)
            score = self._dev_scorer(X_dev, classes)
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
        relations = told_relations(nodes, self.links_, self.not_used_)
        edges = []
        for name in self.links_:
            links = sparse.coo_array(relations[name])
            there = links.data != 0
            if (links.coords[0][there] == links.coords[1][there]).any():
                raise InputError(f"relation {name!r} links a node to itself. Take self loops out.")
            edges.append(np.stack([c[there] for c in links.coords], axis=1).astype(np.int64))
        check_within_groups(nodes, [name for name in self.links_ if name in nodes.relations])
        return edges

    def _dev_scorer(self, X_dev: Any, classes: Classes) -> Any:
        if X_dev is None:
            return None
        dev = Nodes.of(X_dev, self.node_columns_)
        gold, sample, jobs = dev.gold(classes), self._sample(dev), resolve_jobs(self.n_jobs)
        if not (gold >= 0).any():
            raise InputError("scoring needs labels, and X_dev has none")
        return lambda weights: node_accuracy(gold, infer(sample, weights, self._propagation(), jobs)[0]) / 100

    # -- prediction -----------------------------------------------------------------------------------

    def _run(self, X: Any, forced: bool) -> tuple[Array, InferenceReport, Nodes]:
        self._require_fitted()
        nodes = Nodes.of(X, self.node_columns_)
        known = nodes.codes(self.coding_.classes) if forced else None
        return *self._beliefs(self._sample(nodes), known), nodes

    def _beliefs(self, sample: PairSample, known: Array | None) -> tuple[Array, InferenceReport]:
        """(n, L); labels that are `known` (n,), -1 for none, are certain."""
        given = None
        if known is not None:
            n_labels = len(self.coding_.classes)
            forbid = np.zeros((len(known), n_labels))
            forbid[(known[:, None] >= 0) & (known[:, None] != np.arange(n_labels))] = -np.inf
            given = forbid, np.zeros((n_labels, n_labels))
        found, report, _ = infer(sample, self.weights_, self._propagation(), resolve_jobs(self.n_jobs), False, given)
        return np.exp(found), report

    def predict_proba(self, X: Any, forced: bool = False) -> Array:
        """(n, L), beliefs at the fixed point. With `forced`, labels of the graph are certain, and all others are given
        them: information flows both ways along a link."""
        beliefs, report, nodes = self._run(X, forced)
        report.warn(REMEDY)
        return nodes.to_nodes(beliefs)

    def predict(self, X: Any, forced: bool = False) -> Array:
        """One label a node."""
        answer: Array = self.classes_[self.predict_proba(X, forced).argmax(axis=1)]
        return answer

    def inference_report(self, X: Any) -> InferenceReport:
        """In which groups of X belief propagation settles."""
        return self._run(X, False)[1]

    def evaluate(self, X: Any, y: Any = None, report: PathLike | None = None) -> tuple[None, float]:
        """(None, accuracy over labelled nodes in percent), as other models give it; `report`: also write a page."""
        no_labels_beside(y)
        check_report(report)
        beliefs, settled, nodes = self._run(X, False)
        settled.warn(REMEDY)
        return evaluate_nodes(self, nodes, beliefs, report)

    def score(self, X: Any, y: Any = None) -> float:
        """Accuracy, from 0 to 1."""
        return self.evaluate(X, y)[1] / 100

    def explain(
        self, X: Any, node: Any = None, report: PathLike | None = None, forced: bool = False
    ) -> NodeExplanation:
        """Why a node has its label: what its own features say, and what is believed with links and with those of each
        relation cut.

        node      an id, or a number from 0
        report    also write a page about the node, to look at and click through
        forced    labels of the graph are certain, but for that of the node itself: it is what the model says of it
        """
        self._require_fitted()
        nodes, classes = Nodes.of(X, self.node_columns_), self.coding_.classes
        at = ready(nodes, node, report)
        known = nodes.codes(classes).copy() if forced else np.full(len(nodes.labels), -1, np.int32)
        known[at] = -1
        edges = self._edges(nodes)

        def beliefs(cut: Callable[[str, Array], Array] | None) -> Array:
            left = [e if cut is None else e[~cut(name, e)] for name, e in zip(self.links_, edges, strict=True)]
            found, settled = self._beliefs(self._sample(nodes, left), known if forced else None)
            if cut is None:
                settled.warn(REMEDY)
            return found

        return told(link_story(nodes, at, self.links_, beliefs, known, classes.names), report, self)
