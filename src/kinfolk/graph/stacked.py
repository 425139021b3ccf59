"""Stacked graphical learning (Kou and Cohen, 2007): any classifier, told what its neighbours are thought to be.

f⁰ is the base on an instance's own features x. fᵏ is a base on (x, C(ŷᵏ⁻¹)), where C gathers the neighbours'
predictions of the level before by relational templates; in training these are cross-fitted. Inference is K + 1 passes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.stacking import PREDICTIONS, Ask
from kinfolk.collective.templates import set_known
from kinfolk.core.checks import check_settings
from kinfolk.core.data import Relational
from kinfolk.core.threads import resolve_jobs
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.explain import explain_stacked
from kinfolk.graph.graph import Graph
from kinfolk.graph.known_nodes import TRAIN, only_for_nodes
from kinfolk.graph.learners import Learner
from kinfolk.graph.levels import NodePredictor
from kinfolk.graph.node_company import NodeCompany
from kinfolk.graph.nodes import Nodes, no_labels_beside
from kinfolk.report.report_files import PathLike, check_report
from kinfolk.report.scores import evaluate_nodes, evaluate_tokens
from kinfolk.text.batch import Batch
from kinfolk.text.entities import Entity
from kinfolk.text.explain import explain_document, one_document
from kinfolk.text.scores import EntityScores
from kinfolk.text.stacked import StackedDecoder, TokenPredictor
from kinfolk.text.tagger import Tagger

log = logging.getLogger("kinfolk")
Array = NDArray[Any]


@final
@dataclass(eq=False, repr=False)
class StackedGraphical(NodeCompany):
    """Nodes of a Graph, or tokens of a Corpus, labelled with an eye to their neighbours by a base of your own.

    Settings
    --------
    base           nodes: any scikit-learn classifier or pipeline; tokens: a kinfolk model such as LinearChainCRF(). A
                   list of depth + 1 gives each level its own.
    templates      what an instance is told of its neighbours: Count("cites"), Mean("cites @ cites"), Window(3),
                   SameWord(), a function, or a list of these. None: Count over every relation; tokens: a window
                   of 3 and the other tokens of the document with the same word
    depth          levels above the base's own; 0 is the base alone
    folds          number of folds of cross-fitting, or the fold of each instance (a document, for tokens)
    predictions    what neighbours give: "proba" their probabilities, "label" the most probable label, "sample" one
                   drawn (the idealised learner of the paper; prediction averages over `samples` runs)
    own            whether an instance is told its own prediction of the level before too
    features       nodes: whether levels above the base see a node's own features too, or only what they are told
    known          what a neighbour trained on gives: "true" its label, or "crossfit" the prediction of a model that has
                   not seen it, as new instances do. "auto": "true" if the training graph has nodes without label, which
                   are then to be predicted, else "crossfit". "ceiling": true labels always, even those to be predicted:
                   the most that could be gained, no model
    cross_fitting  "strict": no label, nor a model trained on it, has a part in its own instance's features; "paper":
                   Figure 2 of the paper, fewer models; "none": in-sample votes, to see what goes wrong. See
                   docs/stacked.md
    split          folds by "group" (document, graph) or "instance"; "auto": by group where there are two or more
    samples        runs that "sample" averages over; tokens have one run
    random_state   seed of folds and draws
    n_jobs         threads: bases are trained in parallel (joblib; another backend with joblib.parallel_config)
    verbose        1 = a line for each level, on a terminal or in a notebook

    A document of one sentence has no company beyond it. Where less than half of the training sentences are such
    documents, the base answers for those (a level above would take their words for rare ones); where nine tenths are,
    and templates are the default, the base is all there is, and a warning says so.

    Learned by `fit`: `classes_`, `levels_` (the trained bases), `company_` (the templates), `folds_`; tokens: `alone_`,
    who answers for documents of one sentence, the "base" or the "last" level.
    """

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "predictions": PREDICTIONS,
        "known": ("auto", "true", "crossfit", "ceiling"),
        "cross_fitting": ("strict", "paper", "none"),
        "split": ("auto", "group", "instance"),
    }

    base: Any = None
    templates: Any = None
    depth: int = 1
    folds: int | Sequence[int] = 5
    predictions: str = "proba"
    own: bool = False
    features: bool = True
    known: str = "auto"
    cross_fitting: str = "strict"
    split: str = "auto"
    samples: int = 20
    random_state: int | None = 0
    n_jobs: int | None = -1
    verbose: int = 0

    task_: str = field(init=False)
    levels_: list[Any] = field(init=False)
    alone_: str = field(init=False)
    folds_: NDArray[np.int32] = field(init=False)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "levels_")

    @property
    def _learners(self) -> list[Learner]:
        return self.levels_

    # -- learning -------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, train: Any = None) -> Self:
        """Train on a Graph (or a Relational), or for tokens on a Corpus or sentences `X` with labels `y`.

        sample_weight  one number a node, or a sentence; the base has to take it
        train          nodes: a mask or numbers of those whose labels may be used; None: all labelled ones
        """
        from kinfolk.graph.stacked_training import fit_stacked

        self._check()
        with self._all_or_nothing():
            fit_stacked(self, X, y, sample_weight, train)
        return self

    def cross_fit(self, X: Any, y: Any = None, sample_weight: Any = None, train: Any = None) -> Any:
        """Predictions of the last level for the training instances themselves, by models that never saw their labels:
        an honest score without a held-out part. (n, L), columns in the order `classes_` would have; rows of unlabelled
        nodes are predictions too. Nothing is learned.
        """
        from kinfolk.graph.stacked_training import cross_fitted

        self._check()
        return cross_fitted(self, X, y, sample_weight, train)

    def _check(self) -> None:
        check_settings(self)
        if self.base is None:
            raise SettingError("base is missing: StackedGraphical(LogisticRegression(), templates=[...])")
        if isinstance(self.base, list | tuple) and len(self.base) != self.depth + 1:
            raise SettingError(f"base must be one, or a list of depth + 1 = {self.depth + 1}; got {len(self.base)}")

    @property
    def bases(self) -> list[Any]:
        """The base of each level."""
        return list(self.base) if isinstance(self.base, list | tuple) else [self.base] * (self.depth + 1)

    @property
    def _ask(self) -> Ask:
        return Ask(self.predictions, bool(self.own), self.random_state)

    # -- prediction -----------------------------------------------------------------------------------

    def predict(self, X: Any, forced: bool = False, known: Any = TRAIN) -> Any:
        """One label a node; for tokens one list of labels a sentence.

        forced   labels that X has are kept and told to the neighbours
        known    nodes: whose labels are known, kept and told to neighbours. "train": nodes trained on, found by their
                 ids; they give what the setting `known` says. "none": nobody's. Truth values or numbers of nodes:
                 those, with the labels X has.
        """
        self._require_fitted()
        if self.task_ == "tokens":
            only_for_nodes(known)
            return self._tagger().predict(X, forced)
        return self.classes_[self.predict_proba(X, forced, known).argmax(axis=1)]

    def predict_proba(self, X: Any, forced: bool = False, known: Any = TRAIN) -> Any:
        """(n, L), columns as `classes_`; for tokens one array a sentence. `forced` and `known` as in `predict`."""
        self._require_fitted()
        if self.task_ == "tokens":
            only_for_nodes(known)
            return self._tagger().predict_proba(X, forced)
        predictor = self._predictor(X, known, forced)
        return predictor.world.nodes.to_nodes(self._proba(predictor, whole=False)[-1])

    def predict_levels(self, X: Any, forced: bool = False, known: Any = TRAIN) -> list[Array]:
        """Nodes: (n, L) by each level, from the base alone to the last."""
        self._require_fitted()
        if self.task_ == "tokens":
            raise InputError("predict_levels is for nodes")
        predictor = self._predictor(X, known, forced)
        return [predictor.world.nodes.to_nodes(table) for table in self._proba(predictor)]

    def at_depth(self, depth: int) -> StackedGraphical:
        """The model with its first levels alone, up to `depth`: 0 is the base."""
        self._require_fitted()
        if not 0 <= depth < len(self.levels_):
            raise SettingError(f"depth must be from 0 to {len(self.levels_) - 1}, the levels there are; got {depth!r}")
        shallow = copy(self)
        shallow.depth, shallow.levels_ = depth, self.levels_[: depth + 1]
        memory = getattr(self, "memory_", None)
        if memory is not None:
            shallow.memory_ = replace(memory, votes=memory.votes[:depth])
        shallow.base = list(self.base)[: depth + 1] if isinstance(self.base, list | tuple) else self.base
        return shallow

    def predict_entities(self, X: Any, forced: bool = False) -> list[Entity]:
        """Tokens: the predicted entities with their probabilities."""
        self._require_fitted()
        if self.task_ == "nodes":
            raise InputError("predict_entities is for tokens; nodes have predict and predict_proba")
        return self._tagger().predict_entities(X, forced)

    def evaluate(
        self, X: Any, y: Any = None, report: PathLike | None = None, known: Any = TRAIN
    ) -> tuple[EntityScores | None, float]:
        """Entity scores (None for nodes, and when labels are not spans) and accuracy, in percent; `report`: a page.

        known    as in `predict`. Nodes whose labels are known do not count.
        """
        self._require_fitted()
        check_report(report)
        if self.task_ == "tokens":
            only_for_nodes(known)
            batch = Batch.of(X, y, self._last().scheme)
            return evaluate_tokens(self._tagger(), batch, report, self)
        no_labels_beside(y)
        predictor = self._predictor(X, known, scored=True)
        table = self._proba(predictor, whole=False)[-1]
        return evaluate_nodes(self, predictor.world.nodes, table, report, predictor.kept)

    def score(self, X: Any, y: Any = None, known: Any = TRAIN) -> float:
        """Accuracy over labelled nodes that are not known, or entity F1 of tokens, from 0 to 1."""
        entities, accuracy = self.evaluate(X, y, known=known)
        return (accuracy if entities is None else entities.f1) / 100

    def _last(self) -> Tagger:
        last: Tagger = self.levels_[-1]
        return last

    def _tagger(self) -> Tagger:
        """The last level, with all levels behind its answers."""
        decoder, tagger = StackedDecoder(self._token_predictor()), copy(self._last())
        vars(tagger)["_decoder"] = lambda weights=None: decoder
        return tagger

    def _token_predictor(self) -> TokenPredictor:
        ceiling, jobs = self.known_ == "ceiling", resolve_jobs(self.n_jobs)
        return TokenPredictor(
            self.levels_, self.company_, self.coding_, self._ask, ceiling, self.alone_ == "base", jobs
        )

    def _proba(self, predictor: NodePredictor, whole: bool = True) -> list[Array]:
        """(n, L) by each level, by row; sampled votes are averaged over runs."""
        found = predictor.levels(0, whole)
        if self.predictions == "sample":
            runs = [found, *(predictor.levels(draw, whole) for draw in range(1, self.samples))]
            found = [np.asarray(sum(level) / len(runs)) for level in zip(*runs, strict=True)]
        set_known(found[-1], predictor.kept)
        return found

    def _predictor(
        self, X: Any, known: Any = TRAIN, forced: bool = False, scored: bool = False, told: bool = True
    ) -> NodePredictor:
        """`scored`: the answers are compared with labels; `told`: a word is said of what is known."""
        if not isinstance(X, Graph | Relational):
            raise InputError(f"this model was trained on a graph; got {type(X).__name__}")
        world = self._world(X, self.features)
        nodes, nothing = world.nodes, np.full(world.hood.n, -1, np.int32)
        if self.known_ == "ceiling":
            labels = nodes.codes(self.coding_.classes, lenient=not forced)
            return NodePredictor(self._learners, world, self._ask, labels, None, labels if forced else nothing)
        kept = self._known_when_scored(nodes, known) if scored else self._known(nodes, known, forced, told)
        by_training = isinstance(known, str) and known == TRAIN and not forced
        if by_training and self.known_ == "true" and len(self.levels_) > 1 and not (kept >= 0).any():
            log.warning(
                "no node trained on is in this graph, so no neighbour's label is known, which the model was trained "
                "for; give known labels by forced=True (--known-ids on the command line), or train with "
                "known='crossfit'"
            )
        if not by_training or self.known_ == "true":
            return NodePredictor(self._learners, world, self._ask, kept, None, kept)
        given = self._remembered_votes(nodes) if (kept >= 0).any() else None
        return NodePredictor(self._learners, world, self._ask, nothing, given, kept)

    def _remembered_votes(self, nodes: Nodes) -> tuple[Array, list[Array]]:
        """The rows of nodes trained on, and what is told of them at each level: votes of models that never saw them."""
        assert self.memory_ is not None
        rows, which = self.memory_.with_the_same_id(nodes.ids)
        return rows, [votes[which] for votes in self.memory_.votes]

    # -- explanation ----------------------------------------------------------------------------------

    def explain(
        self, X: Any, document: int | None = None, token: int | None = None, node: Any = None,
        report: PathLike | None = None, forced: bool = False, known: Any = TRAIN,
    ) -> Any:  # fmt: skip
        """Why a node has its label: what each level says, what neighbours told it, and what each aggregate changed;
        a `NodeExplanation`. Of tokens what the features of the last level add, as `Tagger.explain`.

        node      an id, or a number from 0
        report    also write a page about the node, or the document, to look at and click through
        forced, known   nodes: as in `predict`. The label of the node itself is set aside.
        document, token   of tokens: numbers from 0
        """
        self._require_fitted()
        if self.task_ == "tokens":
            only_for_nodes(known)
            ((tagger, batch, _),) = self._token_predictor().parts(one_document(Batch.of(X), document, token), False)
            batch = replace(batch, extra_names=() if batch.extra is None else self._told_names())
            return explain_document(tagger, batch, document, token, report, type(self).__name__)
        return explain_stacked(self, self._predictor(X, known, forced, told=False), node, report)

    def _told_names(self) -> list[str]:
        """Of what a token is told beside its features."""
        names = self.coding_.classes.names
        return self.company_.names(names, ()) + [f"own prediction={name}" for name in names if self.own]
