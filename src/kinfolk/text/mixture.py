"""The mixture-of-parents maximum entropy Markov model (Rosenberg, Klein and Taskar, 2007).

p(y_k | parents) = Σ_j α_kj p(y_k | y_j, x): each instance follows one of its parents, so labels far apart, of the same
word in a document or of linked pages, reach each other, and marginals stay exact.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.gate import LocalModel
from kinfolk.collective.mixture import PARENT_FEATURES
from kinfolk.collective.mixture_training import MixtureSettings
from kinfolk.core.checks import check_settings
from kinfolk.core.data import Relational
from kinfolk.core.progress import observed
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import Callback, warn_unless_converged
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.graph import Graph
from kinfolk.graph.known_nodes import TRAIN, KnownNodes, only_for_nodes
from kinfolk.graph.mixture import NodeModel
from kinfolk.graph.node_training import fit_nodes, node_scorer
from kinfolk.graph.nodes import Nodes, check_relations, no_labels_beside
from kinfolk.learning.inheritance import named_node_weights
from kinfolk.learning.tables import TableWeights
from kinfolk.report.report_files import PathLike, check_report
from kinfolk.report.scores import evaluate_nodes
from kinfolk.text.batch import Batch
from kinfolk.text.edges import EdgeFeature
from kinfolk.text.entities import Entity
from kinfolk.text.labels import LabelCoding
from kinfolk.text.lesson import Lesson
from kinfolk.text.mixture_decoder import Direction, MixtureDecoder
from kinfolk.text.parents import Explanation, explanation
from kinfolk.text.scores import EntityScores
from kinfolk.text.skip_edges import SAME_WORD
from kinfolk.text.tagger import Tagger
from kinfolk.text.token_parents import TokenParents
from kinfolk.text.token_training import BACKWARD, fit_tokens

log = logging.getLogger("kinfolk")
FOR_NODES = ("relations", "orders", "predict_orders", "everybody_starts")
FOR_TOKENS = ("templates", "scheme", "encoding", "transition_templates", "skip_edges", "edge_features", "order")
EdgeFeatureList = list[str | EdgeFeature] | tuple[str | EdgeFeature, ...] | str | None


@final
@dataclass(kw_only=True, eq=False, repr=False)
class MixtureOfParents(KnownNodes, Tagger):
    """Labels by the company they keep, with exact marginals. Settings: see `Tagger`, and

    training         "separate": each relation's model on its own edges; "conditional": then all together by the
                     conditional log-likelihood L_C; "joint": then all together by the marginal log-likelihood L_M
    skip_edges       which earlier tokens a token looks at besides its neighbour: `SameWord(...)`, a function of a
                     one-document Corpus that returns (later, earlier) pairs, a list of these, or None
    parent_features  on skip edges the features of the parent count with weights of their "own", with those of the
                     child ("shared"), or not at all ("none")
    edge_features    features of skip edges that speak of label pairs: "default", a list, or None
    mixing           weights of parents: "uniform"; "learned" by a gate; a share for each relation, e.g.
                     {"previous": 2, "same word": 1}; "given": the entries of a Relational
    gate_l2          strength of the ridge that draws a learned gate towards uniform weights
    gate_folds       the gate is learned on documents that the models of the relations have not seen, in so many folds;
                     0: on the training data itself, together with them
    order            tokens: parents are earlier ("forward") or later ones ("backward"); "both": the mean of two models
    relations        nodes: the links to use; None: all
    orders, predict_orders   nodes: how many random orders to train on, and to average marginals over
    everybody_starts nodes: whether a node with parents also keeps a component that looks at its own features alone

    `predict` gives the valid labelling with the greatest expected number of right labels; with constrain=False the
    arg-max of each marginal. With forced labels, whoever looks at a labelled token sees its label; tokens before it
    are not revised. On a graph known labels come first in every order, so the others are exactly conditioned on them.
    """

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "training": ("separate", "conditional", "joint"),
        "parent_features": PARENT_FEATURES,
        "order": tuple(BACKWARD),
    }

    training: str = "joint"
    skip_edges: Any = SAME_WORD
    parent_features: str = "own"
    edge_features: EdgeFeatureList = None
    mixing: str | Mapping[str, float] = "uniform"
    gate_l2: float = 1.0
    gate_folds: int = 3
    order: str = "forward"
    relations: Sequence[str] | None = None
    orders: int = 10
    predict_orders: int = 50
    everybody_starts: bool = False

    task_: str = field(init=False)
    parents_: tuple[Any, ...] = field(init=False)
    node_columns_: Sequence[str] | int = field(init=False)
    local_: LocalModel | None = field(init=False)
    weights_: tuple[TableWeights, ...] = field(init=False)

    # -- learning -------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, X_dev: Any = None, y_dev: Any = None, sample_weight: Any = None,
            callback: Callback | None = None, train: Any = None) -> Self:  # fmt: skip
        """Train on tokens (a Corpus, or sentences `X` with labels `y`) or on nodes (a Graph, or a Relational whose
        relations form a DAG). The arguments of `Tagger.fit`, and

        train   nodes only: a mask or numbers of the nodes whose labels may be used; None: all labelled ones
        """
        if not isinstance(X, Graph | Relational):
            if train is not None:
                raise InputError("train=... chooses nodes of a graph; for tokens give the documents to train on")
            return super().fit(X, y, X_dev, y_dev, sample_weight, callback)
        no_labels_beside(y)
        no_labels_beside(y_dev)
        check_settings(self)
        self._check_held_out(X_dev)
        self._warn_of_other_settings(FOR_TOKENS, "nodes")
        nodes, plan = Nodes.of(X), self._plan(resolve_jobs(self.n_jobs))
        before = named_node_weights(self) if self.warm_start and self._knows("nodes") else None
        with self._all_or_nothing(), observed(callback, self.verbose, self.tolerance) as watcher:
            fitted = fit_nodes(
                self,
                nodes,
                self._stages(),
                plan,
                sample_weight,
                train,
                partial(node_scorer, X_dev, nodes, self),
                watcher,
                before,
            )
            self.task_, self.node_columns_, self.memory_ = "nodes", nodes.columns, fitted.memory
            self.coding_ = LabelCoding(None, None, fitted.classes)
            self.parents_, self.weights_, self.local_ = (fitted.parents,), (fitted.weights,), fitted.local
            self.convergence_ = fitted.convergence
        warn_unless_converged(self.convergence_)
        return self

    def _check_held_out(self, X_dev: Any) -> None:
        if X_dev is not None and self.training == "separate":
            raise InputError(
                "separate training fits each relation on its own, so held-out data cannot stop it: leave X_dev out, or "
                "set training='joint' or 'conditional'"
            )

    def _knows_tokens(self) -> bool:
        return self._knows("tokens")

    def _knows(self, task: str) -> bool:
        return self.__sklearn_is_fitted__() and self.task_ == task

    def _warn_of_other_settings(self, names: tuple[str, ...], task: str) -> None:
        defaults = inspect.signature(type(self)).parameters
        changed = [name for name in names if repr(getattr(self, name)) != repr(defaults[name].default)]
        if changed:
            log.warning("%s: no meaning for %s, and ignored", ", ".join(changed), task)

    def _train(self, lesson: Lesson) -> None:
        """On tokens."""
        self._warn_of_other_settings(FOR_NODES, "tokens")
        held_out = lesson.held_out
        self._check_held_out(held_out)
        fitted = fit_tokens(self, lesson, self._stages(), partial(self._token_scorer, held_out))
        self.task_, self.parents_, self.weights_, self.local_, self.convergence_ = "tokens", *fitted
        if held_out is not None and len(self.weights_) > 1:  # each direction was stopped by its own score
            score = self._score_path(held_out, self._decoder().paths(held_out, forced=False))
            last = self.convergence_.iterations
            self.convergence_ = replace(self.convergence_, dev_scores={last: score}, best_iteration=last)
        warn_unless_converged(self.convergence_)

    def _token_scorer(self, held_out: Batch | None, parents: TokenParents, local: LocalModel | None) -> Any:
        """F1 on held-out data of one direction for given weights; None without such data."""
        if held_out is None:
            return None

        def score(weights: TableWeights) -> float:
            decoder = self._mixture_decoder((Direction(parents, weights),), local)
            return self._score_path(held_out, decoder.paths(held_out, forced=False))

        return score

    def _stages(self) -> MixtureSettings:
        if self.mixing == "learned" and self.training == "separate" and not self.gate_folds:
            raise SettingError("mixing='learned' with training='separate' needs gate_folds of 2 or more")
        return MixtureSettings(self.training, float(self.gate_l2), self.gate_folds)

    # -- prediction -----------------------------------------------------------------------------------

    def predict(self, X: Any, forced: bool = False, known: Any = TRAIN) -> Any:
        """Tokens: one list of labels a sentence, in the tag scheme of the training data. Nodes: an array of labels.

        forced   instances that have a label keep it, and those that look at them see it
        known    nodes: whose labels are known, kept and seen. "train": nodes trained on, found by their ids; "none":
                 nobody's; truth values or numbers of nodes: those, with the labels X has
        """
        if not isinstance(X, Graph | Relational):
            self._require_task("tokens")
            only_for_nodes(known)
            return super().predict(X, forced)
        return self.classes_[self.predict_proba(X, forced, known).argmax(axis=1)]

    def predict_proba(self, X: Any, forced: bool = False, known: Any = TRAIN) -> Any:
        """Exact marginals; tokens: one array (tokens, classes) a sentence; nodes: one array (nodes, classes), given the
        labels that are known: see `predict`. In a DAG (a `Relational`) a known label is seen by those that look at it
        and says nothing of its own parents.
        """
        if not isinstance(X, Graph | Relational):
            self._require_task("tokens")
            only_for_nodes(known)
            return super().predict_proba(X, forced)
        nodes = self._nodes(X)
        return nodes.to_nodes(self._marginals(nodes, self._known(nodes, known, forced)))

    def _marginals(self, nodes: Nodes, known: NDArray[np.int32]) -> NDArray[Any]:
        """(n, L) by row, given labels that are `known` (n,), -1 for none."""
        return self._node_model().marginals(nodes, known if (known >= 0).any() else None)

    def predict_entities(self, X: Any, forced: bool = False) -> list[Entity]:
        """The predicted entities of tokens, each with the probability that this very entity is there."""
        self._require_task("tokens")
        return super().predict_entities(X, forced)

    def evaluate(
        self, X: Any, y: Any = None, report: PathLike | None = None, known: Any = TRAIN
    ) -> tuple[EntityScores | None, float]:
        """Entity scores (None for nodes, or when labels are not spans) and accuracy, in percent; `report`: a page.

        known    as in `predict`. Nodes whose labels are known do not count.
        """
        if not isinstance(X, Graph | Relational):
            self._require_task("tokens")
            only_for_nodes(known)
            return super().evaluate(X, y, report)
        no_labels_beside(y)
        check_report(report)
        nodes = self._nodes(X)
        kept = self._known_when_scored(nodes, known)
        return evaluate_nodes(self, nodes, self._marginals(nodes, kept), report, kept)

    def score(self, X: Any, y: Any = None, known: Any = TRAIN) -> float:
        """Tokens: entity F1, or accuracy when labels are not spans; nodes: accuracy. From 0 to 1."""
        if not isinstance(X, Graph | Relational):
            self._require_task("tokens")
            only_for_nodes(known)
            return super().score(X, y)
        return self.evaluate(X, y, known=known)[1] / 100

    def _require_task(self, task: str) -> None:
        self._require_fitted()
        if self.task_ != task:
            raise InputError(f"this model was trained on {self.task_}, and is given {task}")

    def _nodes(self, X: Any) -> Nodes:
        self._require_task("nodes")
        nodes = Nodes.of(X, self.node_columns_)
        check_relations(nodes, self.parents_[0].links, self.parents_[0].not_used)
        return nodes

    def _node_model(self) -> NodeModel:
        (parents,), (weights,), jobs = self.parents_, self.weights_, resolve_jobs(self.n_jobs)
        return NodeModel(parents, weights, self.local_, self.predict_orders, self.random_state, jobs)

    def _decoder(self, weights: Any = None) -> MixtureDecoder:
        found = self.weights_ if weights is None else weights
        directions = tuple(Direction(p, w) for p, w in zip(self.parents_, found, strict=True))
        return self._mixture_decoder(directions, self.local_)

    def _mixture_decoder(self, directions: tuple[Direction, ...], local: LocalModel | None) -> MixtureDecoder:
        return MixtureDecoder(
            directions, local, self.features_, self.transition_features_, self.coding_, self.constrain,
            resolve_jobs(self.n_jobs),
        )  # fmt: skip

    def explain(
        self, X: Any, document: int | None = None, token: int | None = None, node: Any = None,
        report: PathLike | None = None, forced: bool = False, known: Any = TRAIN,
    ) -> Any:  # fmt: skip
        """Why an instance has its label: each parent, its weight, what it predicts, its exact share of the answer.

        document, token   numbers from 0, the token within its document (None: all of them, as a list); parents are
                          numbered the same way
        node              of a graph: an id, or a number from 0
        report            also write a page, to look at and click through, about the document or the node
        forced, known     nodes: as in `predict`; the label of the node itself is set aside
        """
        if isinstance(X, Graph | Relational):
            check_report(report)
            nodes = self._nodes(X)
            kept, names = self._known(nodes, known, forced, told=False), self.coding_.classes.names
            return self.coding_.as_written(self._node_model().explain(nodes, node, names, report, kept))
        self._require_task("tokens")
        only_for_nodes(known)
        return super().explain(X, document, token, report=report)

    def _explanations(self, batch: Batch, path: Any, marginals: Any, tokens: Sequence[int]) -> list[Explanation]:
        words, names = batch.corpus.columns["word"].strings(), self.coding_.classes.names
        return [
            explanation(t, voices, names, lambda i: f"{words[i]} ({i})", int(path[t]))
            for t, voices in zip(tokens, self._decoder().voices(batch, tokens), strict=True)
        ]

    def _long_edges(self, batch: Batch) -> list[tuple[int, int, str]]:
        return self._decoder().long_edges(batch)
