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

from kinfolk.collective.mixture import EdgeData, train_separately
from kinfolk.collective.pairwise import (
    DAMPING,
    HELD_OUT,
    REMEDY,
    UPDATE,
    InferenceReport,
    KeptBack,
    PairSample,
    PairTraining,
    Propagates,
    as_trained,
    best_steps,
    infer,
    kept_back_plan,
    pair_sample,
    put_pairwise,
    taken_pairwise,
    train_pairwise,
)
from kinfolk.core.checkpoint import check_checkpoint, going_on
from kinfolk.core.modelfile import Functions, ModelFile
from kinfolk.core.settings import MANY, NAMES, NONE, NOT_NEGATIVE, number, one_of, setting
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import Callback, Convergence, Optimised, Stage, TrainingPlan, observed
from kinfolk.errors import InputError
from kinfolk.graph.explain import Cut, explained_by_cuts, finished
from kinfolk.graph.gain import GuardedNodes
from kinfolk.graph.model import RELATIONS
from kinfolk.graph.nodes import (
    TRAIN,
    Known,
    Nodes,
    check_within_groups,
    node_accuracy,
    node_weights,
    used_links,
    warn_unused_weights,
)
from kinfolk.graph.page import NodeExplanation
from kinfolk.graph.some_nodes import whole_graph
from kinfolk.inference.loopy import Propagation
from kinfolk.learning.loglinear import TableWeights, no_weights
from kinfolk.learning.sparse import SparseRows
from kinfolk.report.page import PathLike

Array = NDArray[Any]
LENGTHENING = 2.0  # of steps: beyond some weights messages go to another fixed point, and every try costs rounds

# -- link model ------------------------------------------------------------------------------------


@final
@dataclass(kw_only=True, eq=False, repr=False)
class LinkModel(Propagates, GuardedNodes, Optimised):
    """Nodes of a Graph, labelled together with those they are linked to.

    Learned by `fit`: `classes_`, `weights_`, `convergence_`, `training_report_` (where belief propagation settled),
    `gain_`.
    """

    WEIGHS: ClassVar[bool] = False
    LOCAL: ClassVar[str] = "that of `relations=[]`"

    l2: float = setting(1.0, "strength of the ridge, l2/2 · |w|²", NOT_NEGATIVE)
    relations: Sequence[str] | None = setting(None, RELATIONS, NAMES | NONE)
    update: str = setting("all", UPDATE, one_of("links", "all"))
    held_out: float = setting(0.0, HELD_OUT, number(0, 1, below=True))
    damping: float = setting(0.3, DAMPING, number(0, 1, below=True))
    max_rounds: int = setting(200, "limit of rounds of belief propagation", MANY)

    weights_: TableWeights = field(init=False)
    convergence_: Convergence = field(init=False)
    training_report_: InferenceReport | None = field(init=False)

    def fit(
        self, X: Any, y: Any = None, X_dev: Any = None, sample_weight: Any = None,
        callback: Callback | None = None, train: Any = None, *, checkpoint: PathLike | None = None,
    ) -> Self:  # fmt: skip
        """Train on a Graph (or a Relational). Nodes without a label take part as neighbours.

        X_dev           a held-out graph: scored every `dev_every` iterations; the best weights are kept
        sample_weight   one number a node; a graph counts with the mean of its labelled nodes
        train           a mask or numbers of the nodes whose labels may be used; None: all labelled ones
        checkpoint      a file that `fit` goes on from if it was stopped, as in `StackedNodes.fit`
        """
        check_checkpoint(checkpoint)
        X, y = whole_graph(X, y)
        nodes, labels, classes = self._begin(X, y, train)
        jobs = resolve_jobs(self.n_jobs)
        weights = node_weights(nodes, labels, classes, self.class_weight, sample_weight)
        plan = replace(TrainingPlan.of(self, jobs, self.training), lengthening=LENGTHENING)
        dev = None if X_dev is None else Nodes.of(X_dev)
        with (
            going_on(checkpoint, self, nodes, labels, weights, dev),
            self._all_or_nothing(),
            observed(callback, self.verbose, self.tolerance) as watcher,
        ):
            self._trained_on(nodes, labels, classes, used_links(self.relations, nodes.relations, ordered=True))
            warn_unused_weights(nodes, self.links_, type(self).__name__)
            sample, n_labels = self._sample(nodes), len(classes)
            score = None if X_dev is None else self._scorer(X_dev)
            start, first = self._node_start(sample, labels, weights, n_labels, plan, watcher)
            how = PairTraining(self.training, self._propagation(), 0 if self.update == "links" else None)
            how, tried = self._chosen(sample, labels, weights, how, start, plan, watcher, dev is not None)
            first = (*first, *tried)
            self.weights_, self.convergence_, self.training_report_ = train_pairwise(
                sample, labels, weights, n_labels, how, start, plan, score, watcher
            )
            self.convergence_ = self.convergence_.after(first)
            self.gain_ = self._measured(X, train, X_dev=X_dev, sample_weight=sample_weight)
        if self.training_report_ is not None:
            self.training_report_.warn(REMEDY)
        self._tell_gain()
        return self

    def _alone(self, fitted: Self, X: Any, how: Mapping[str, Any]) -> Array:
        return self._anew(relations=[]).fit(X, **how).predict(X)

    def _node_start(
        self, sample: PairSample, labels: Any, weights: Array, n_labels: int, plan: TrainingPlan, watcher: Any
    ) -> tuple[TableWeights, tuple[Stage, ...]]:
        """Weights of the node model, and no opinion on links; and how it was trained."""
        alone = np.stack([np.arange(len(labels)), np.full(len(labels), -1)], axis=1)
        named = replace(plan, stage=plan.stage.replace(self.training, "node model"), warns=False, lengthening=np.inf)
        data = EdgeData(alone, "none")
        model, outcome = train_separately(sample.rows, labels, weights, n_labels, data, named, watcher)
        shape = sample.shape(n_labels)
        found = shape.split(no_weights(shape))
        found.tables[0][:] = model.child
        found.start[:] = model.start
        return found, () if outcome is None else outcome.stages

    def _chosen(
        self, sample: PairSample, labels: Array, weights: Array, how: PairTraining, start: TableWeights,
        plan: TrainingPlan, watcher: Any, dev: bool,
    ) -> tuple[PairTraining, tuple[Stage, ...]]:  # fmt: skip
        """The scores that links are learned on, and for how many iterations, by graphs (of one graph, by nodes) whose
        labels are kept back; and how that went. Held-out data that are given (`dev`) say how many without that."""
        unit, n_labels = sample.graph.group_of, len(self.labels_)
        labelled = np.unique(unit[labels >= 0])
        if len(labelled) < 2:
            unit, labelled = np.arange(len(labels)), np.flatnonzero(labels >= 0)
        crossed = how.links is not None and self.scores == "cross-fitted"
        back = KeptBack.of(labelled, self.held_out, len(labels), plan.seed)
        scored = [] if dev else back.scored
        inside = [np.isin(unit, part) for part in (back.parts if crossed else scored) if len(sample.graph.edges)]
        hidden = [np.where(part, -1, labels).astype(np.int32) for part in inside]
        named = kept_back_plan(plan, self.training)
        models = [self._node_start(sample, known, weights, n_labels, named, watcher)[0] for known in hidden]
        if crossed and models:
            scores = SparseRows(sample.rows).scores(start.tables[0], plan.n_jobs)
            for part, model in zip(inside, models, strict=True):
                rows = SparseRows(sample.rows[np.flatnonzero(part)])
                scores[part] = rows.scores(model.tables[0], plan.n_jobs) + model.start - start.start
            how = replace(how, scores=scores)
        found = []
        for known, model in list(zip(hidden, models, strict=True))[: len(scored)]:
            score = self._kept_back_scorer(sample, known, labels)
            found.append(train_pairwise(sample, known, weights, n_labels, how, model, named, score, watcher)[1])
        if found:
            how = replace(how, steps=best_steps([outcome.dev_scores for outcome in found]))
        return how, tuple(stage for outcome in found for stage in outcome.stages)

    def _kept_back_scorer(self, sample: PairSample, known: Array, labels: Array) -> Callable[[TableWeights], float]:
        """Accuracy on the nodes whose labels are not `known`, given those that are."""
        given, settings, jobs = self._certain(known), self._propagation(), resolve_jobs(self.n_jobs)
        gold = np.where(known >= 0, -1, labels)
        return lambda weights: node_accuracy(gold, infer(sample, weights, settings, jobs, False, given)[0]) / 100

    def _propagation(self) -> Propagation:
        return Propagation(self.schedule, float(self.damping), float(self.message_tolerance), self.max_rounds)

    def _sample(self, nodes: Nodes, edges: list[Array] | None = None) -> PairSample:
        """`edges`: pairs of each relation, if others than all."""
        found = self._edges(nodes) if edges is None else edges
        every = np.arange(len(nodes.labels))
        return pair_sample(nodes.rows, found, [None] * len(found), nodes.groups, every, self.beliefs)

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

        def beliefs(cut: Cut | None) -> Array:
            left = [e if cut is None else e[~cut(name, e)] for name, e in zip(self.links_, edges, strict=True)]
            found, settled = self._beliefs(self._sample(nodes, left), certain)
            if cut is None:
                settled.warn(REMEDY)
            return found

        explained = explained_by_cuts(
            nodes, node, self.links_, beliefs, certain, self.labels_.names, "belief propagation"
        )
        return finished(explained, report, type(self).__name__, self.labels_)

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["convergence"] = self.convergence_.for_file()
        put_pairwise(state, self.weights_)
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        self.weights_ = taken_pairwise(file, self._n_features, len(self.labels_), len(self.links_), 0)
        self.convergence_, self.training_report_ = Convergence.from_file(file.header["convergence"]), None
        as_trained(self, file)
