"""Stacked graphical learning (Kou and Cohen, 2007): any classifier, told what its neighbours are thought to be.

f⁰ is the base on an instance's own features x. fᵏ is a base on (x, C(ŷᵏ⁻¹)), where C gathers the neighbours'
predictions of the level before by relational templates; in training these are cross-fitted. Inference is K + 1 passes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.relations import Neighbourhood
from kinfolk.collective.stacking import PREDICTIONS, Ask, Instances, Training
from kinfolk.collective.templates import (
    Company,
    Count,
    Over,
    Window,
    as_templates,
    learned_strings,
    rebuilt_template,
    set_known,
)
from kinfolk.core.data import Relational
from kinfolk.core.modelfile import ModelFile, fits
from kinfolk.core.settings import check_settings
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import speaker
from kinfolk.errors import InputError, ModelFileError, SettingError
from kinfolk.graph.explain import explain_stacked
from kinfolk.graph.graph import Graph
from kinfolk.graph.learners import Learner, built, check_base, check_enough, tell_fallback
from kinfolk.graph.levels import NodeInstances, NodePredictor, remembered
from kinfolk.graph.nodes import (
    TRAIN,
    NodeCompany,
    Nodes,
    World,
    default_templates,
    no_labels_beside,
    node_weights,
    only_for_nodes,
    training_labels,
)
from kinfolk.learning.crossfit import NOTHING, CrossFitting, assign_folds
from kinfolk.report.page import PathLike, check_report
from kinfolk.report.scores import evaluate_nodes, evaluate_tokens
from kinfolk.text.batch import Batch, Entity, token_weights
from kinfolk.text.chain import ChainTagger
from kinfolk.text.explain import explain_document, one_document
from kinfolk.text.schemes import LabelCoding
from kinfolk.text.scores import EntityScores
from kinfolk.text.skip_edges import FEW, SameWord, alone, alone_share, warn_without_company, without_company
from kinfolk.text.stacked import StackedDecoder, TokenInstances, TokenPredictor
from kinfolk.text.tagger import Tagger

# -- Stacked graphical learning (Kou and Cohen, 2007): any classifier, told what its neighbours are thought to be ---

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

        self._check()
        with self._all_or_nothing():
            fit_stacked(self, X, y, sample_weight, train)
        return self

    def cross_fit(self, X: Any, y: Any = None, sample_weight: Any = None, train: Any = None) -> Any:
        """Predictions of the last level for the training instances themselves, by models that never saw their labels:
        an honest score without a held-out part. (n, L), columns in the order `classes_` would have; rows of unlabelled
        nodes are predictions too. Nothing is learned.
        """

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


# -- What `StackedGraphical.fit` does: folds, who may speak to whom, and the levels of nodes or of tokens ---

TOKEN_TEMPLATES = (
    Window(3),
    Count(SameWord(capitalised=False, max_document_frequency=None, most_recent=None)),
)


def fit_stacked(model: Any, X: Any, y: Any, sample_weight: Any, train: Any) -> None:
    """Set what `fit` learns."""
    instances, known, depth = _prepared(model, X, y, sample_weight, train)
    training = _run(model, instances, known, depth, estimate=False)
    if isinstance(instances, TokenInstances):
        model.alone_ = "base" if instances.base_alone else "last"
        model.task_, model.known_, model.folds_ = "tokens", known, instances.fold
        model.coding_, model.company_ = instances.coding, instances.templates
        model.levels_ = [level.tagger for level in training.models]  # type: ignore[attr-defined]
        return
    model.task_, model.folds_ = "nodes", instances.world.nodes.to_nodes(instances.fold)
    model.levels_ = [level.learner for level in training.models]  # type: ignore[attr-defined]
    memory = None if known == "ceiling" else remembered(training, instances, known == "true")
    model._keep(instances.world.nodes, instances.templates, instances.classes, known, memory)


def cross_fitted(model: Any, X: Any, y: Any, sample_weight: Any, train: Any) -> Array:
    """(n, L), predictions for training instances by models that never saw them."""
    instances, known, depth = _prepared(model, X, y, sample_weight, train)
    if known == "ceiling":
        raise SettingError("a ceiling is told the labels it is scored on: cross_fit needs known='true' or 'crossfit'")
    training = _run(model, instances, known, depth, estimate=True)
    found = training.estimate()
    if isinstance(instances, TokenInstances) and instances.base_alone:
        lonely = alone(instances.batch.corpus)[instances.batch.corpus.token_documents]
        found[lonely] = training.votes(0, NOTHING, true_labels=False)[lonely]
    return instances.world.nodes.to_nodes(found) if isinstance(instances, NodeInstances) else found


def _prepared(model: Any, X: Any, y: Any, sample_weight: Any, train: Any) -> tuple[Any, str, int]:
    """The instances, what labelled neighbours give, and the depth."""
    on_graph = isinstance(X, Graph | Relational)
    for base in model.bases:
        if isinstance(base, Tagger) == on_graph:
            what = f"got {type(base).__name__} and a {type(X).__name__}"
            if on_graph:
                raise SettingError(f"base must be a scikit-learn classifier for a graph; {what}")
            raise InputError(
                f"a scikit-learn base needs a Graph, as Graph.from_frames(nodes, edges, ...) makes one, and a corpus a "
                f"kinfolk token model; {what}"
            )
    if on_graph:
        no_labels_beside(y)
        return *_node_instances(model, X, sample_weight, train), model.depth
    if train is not None:
        raise InputError("train is for the nodes of a graph; leave out documents with corpus.select(...)")
    return _token_instances(model, X, y, sample_weight)


def _run(model: Any, instances: Instances, known: str, depth: int, estimate: bool) -> Training:
    told = known in ("true", "ceiling")
    kind = "none" if known == "ceiling" else model.cross_fitting
    n_folds = int(instances.fold.max(initial=0)) + 1
    crossing = _looks_across(instances) if kind == "strict" else True
    scheme = CrossFitting(kind, n_folds, told, crossing, estimate)
    most = scheme.most_hidden(depth)
    if most >= n_folds and kind != "none":
        raise SettingError(
            f"depth={depth} with {kind} cross-fitting hides {most} folds at a time, and there are {n_folds}; set "
            f"folds={most + 1} or more" + (", cross_fitting='paper' or split='instance'" if kind == "strict" else "")
        )
    return Training(instances, scheme, depth, model._ask, speaker(model.verbose)).run()


def _looks_across(instances: Any) -> bool:
    """Whether any template leads from one fold to another."""
    fold = instances.fold
    for template in instances.templates.told:
        template = template.told if isinstance(template, Window) else template
        if template is None:  # the window itself stays in its sentence
            continue
        if not isinstance(template, Over):
            return True  # a function may do anything
        links = instances.hood.links(template.rule)
        here = np.repeat(fold, np.diff(links.indptr))
        there = fold[links.indices]
        if ((here != there) & (here >= 0) & (there >= 0)).any():
            return True
    return False


# -- nodes --------------------------------------------------------------------------------------------


def _node_instances(model: Any, X: Any, sample_weight: Any, train: Any) -> tuple[NodeInstances, str]:
    nodes, jobs = Nodes.of(X), resolve_jobs(model.n_jobs)
    for base in model.bases:
        check_base(base)
    labels, classes = training_labels(nodes, train)
    weights = None if sample_weight is None else node_weights(nodes, labels, classes, None, sample_weight)
    fold = _folds(model, labels, nodes.groups, nodes.order)
    templates = default_templates(model.templates, nodes, Count) if model.depth or model.templates is not None else []
    world = World.learn(nodes, templates, len(classes), model.features, jobs)
    known = model.known
    if known == "auto":
        known = "true" if (labels < 0).any() else "crossfit"
    told = labels if known == "true" else np.full(len(labels), -1, np.int32)
    if known == "ceiling":
        told = np.append(classes.encode(nodes.classes.names), np.int32(-1)).astype(np.int32)[nodes.labels]
    check_enough(classes)
    if model.depth:
        tell_fallback(model.bases[0])
    instances = NodeInstances(labels, told, fold, weights, jobs, world.hood, world.company, model.bases, world, classes)
    return instances, known


def _folds(model: Any, labels: Array, groups: Array, order: Array | None = None) -> NDArray[np.int32]:
    """The fold of each instance; -1 for those without label. `order`: the node of the caller's in each row."""
    labelled = labels >= 0
    if not isinstance(model.folds, int | np.integer):
        return _given_folds(model.folds, labelled, order)
    n_groups = len(np.unique(groups[labelled]))
    by_group = model.split == "group" or (model.split == "auto" and n_groups > 1)
    n_units = n_groups if by_group else int(labelled.sum())
    n_folds = int(model.folds)
    if n_folds < 2:
        raise SettingError(f"folds must be 2 or more; got {n_folds}")
    if by_group and model.split == "auto":
        n_folds = min(n_folds, n_groups)
    if model.depth and n_units < n_folds:
        unit = "groups" if by_group else "instances"
        remedy = f"set folds={n_units} or fewer" if n_units >= 2 else "label more, or set depth=0"
        raise InputError(f"folds={n_folds} needs as many labelled {unit}; there are {n_units}: {remedy}")
    rng = np.random.default_rng(model.random_state)
    return assign_folds(labels, groups if by_group else None, n_folds, rng)


def _given_folds(folds: Any, labelled: Array, order: Array | None) -> NDArray[np.int32]:
    given = np.asarray(folds)
    if given.shape != labelled.shape or given.dtype.kind not in "iu":
        raise SettingError(
            f"folds must be a number, or one fold an instance ({len(labelled)}); got shape {given.shape}"
        )
    given = given if order is None else given[order]
    numbers = np.unique(given[labelled])
    if len(numbers) < 2 or numbers[0] < 0:
        raise SettingError("folds given by instance must be numbered from 0, and two or more must hold labels")
    return np.where(labelled, np.searchsorted(numbers, given), -1).astype(np.int32)


# -- tokens -------------------------------------------------------------------------------------------


def _token_instances(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[TokenInstances, str, int]:
    batch, jobs = Batch.of(X, y, model.bases[0].scheme), resolve_jobs(model.n_jobs)
    corpus = batch.corpus
    encodings = {base.encoding for base in model.bases}
    if len(encodings) > 1:
        raise SettingError(f"the bases must work in one tag scheme; their encodings are {', '.join(sorted(encodings))}")
    coding = LabelCoding.learn(corpus, model.bases[0].encoding)
    labels = coding.encode(corpus)
    n = corpus.n_tokens
    templates = TOKEN_TEMPLATES if model.templates is None else as_templates(model.templates)
    known = "ceiling" if model.known == "ceiling" else "crossfit"
    beyond = any(not isinstance(template, Window) or template.told is not None for template in templates)
    depth = _token_depth(model, batch) if beyond and known != "ceiling" else model.depth
    documents = corpus.token_documents
    fold = _document_folds(model, labels, documents, corpus.n_documents)
    hood = Neighbourhood(n, len(coding.classes), {}, corpus=corpus.with_labels(None, None), n_jobs=jobs)
    company = Company.learn(templates, replace(hood, corpus=corpus))  # what is learned of words may look at labels
    if len(company.told) < len(company.templates):
        raise SettingError(
            "of='features' is for nodes: tokens have features of their neighbours by their own templates"
        )
    weights = None
    if sample_weight is not None:
        weights = token_weights(batch, labels, coding.classes, None, sample_weight)
    if model.known == "true":
        raise SettingError("known='true' is for nodes of one graph; documents are whole: use forced=True in predict")
    told = labels if known == "ceiling" else np.full(n, -1, np.int32)
    base_alone = beyond and known != "ceiling" and alone_share(corpus) < FEW
    instances = TokenInstances(
        labels, told, fold, weights, 1, hood, company, model.bases, batch, coding, base_alone
    )  # fmt: skip
    return instances, known, depth


def _token_depth(model: Any, batch: Batch) -> int:
    """0 where there is nothing to tell: votes of the same sentence alone say little that its features did not."""
    if not model.depth or not without_company(batch.corpus):
        return int(model.depth)
    told = "a token has no company beyond its sentence"
    dicts = batch.items is not None
    if model.templates is None:
        warn_without_company(
            batch.corpus, f"{told}, and the base alone is trained", dicts=dicts,
            otherwise=", or name templates, such as Window(3), to stack within sentences",
        )  # fmt: skip
        return 0
    warn_without_company(batch.corpus, told, dicts=dicts)
    return int(model.depth)


def _document_folds(model: Any, labels: Array, documents: Array, n_documents: int) -> NDArray[np.int32]:
    """The fold of every token: that of its document, -1 in documents without any label."""
    has_label = np.zeros(n_documents, bool)
    has_label[documents[labels >= 0]] = True
    if model.split == "instance":
        raise SettingError("split='instance' is for nodes; tokens are divided by document")
    by_document = np.where(has_label, 0, -1).astype(np.int32)
    fold = _folds(model, by_document, np.arange(n_documents))
    return fold[documents]


# -- What a model file keeps of a stacked model or a dependency network, and the model from it again ---
#
# scikit-learn estimators go through skops, which runs no code on load and refuses types it does not know unless they
# are
# trusted by name.

Functions = Mapping[str, Callable[..., Any]]
Parts = tuple[dict[str, Any], dict[str, Array], dict[str, Any]]


def company_parts(company: Company) -> tuple[dict[str, Any], dict[str, Any]]:
    """(header, strings) of templates."""
    strings = {f"template.{i}": learned_strings(t) for i, t in enumerate(company.templates)}
    return {"templates": [t.spec() for t in company.templates], "votes": company.n_votes}, strings


def restored_company(spec: Mapping[str, Any], file: ModelFile, functions: Functions) -> Company:
    templates = [
        rebuilt_template(t, file.strings.get(f"template.{i}", []), functions) for i, t in enumerate(spec["templates"])
    ]
    return Company(tuple(templates), int(spec["votes"]))


def node_parts(model: NodeCompany) -> Parts:
    """Of a model of nodes over scikit-learn classifiers."""
    arrays: dict[str, Array] = {}
    learners = model._learners
    for i, learner in enumerate(learners):
        arrays[f"level.{i}.columns"] = learner.columns
        if learner.estimator is not None:
            arrays[f"level.{i}.skops"] = np.frombuffer(_dumps(learner.estimator), np.uint8)
    header, strings = company_parts(model.company_)
    header.update(
        levels=len(learners), known=model.known_, unused=list(model.unused_),
    )  # fmt: skip
    return header, arrays, strings


def restore_nodes(
    model: Any, file: ModelFile, n_features: int, functions: Functions, trusted: Sequence[str]
) -> list[Learner]:
    """Set what both models of nodes have; returns the learners."""
    spec = file.header["stacked"]
    n_labels = len(model.coding_.classes)
    model.company_ = restored_company(spec, file, functions)
    model.templates = list(model.company_.templates)
    model.known_, model.unused_ = spec["known"], tuple(spec["unused"])
    fits(model.memory_ is None or len(model.memory_.votes) in (0, int(spec["levels"]) - 1))
    learners = [_restored_learner(file, i, n_labels, trusted) for i in range(int(spec["levels"]))]
    _check_widths(model, learners, n_features)
    return learners


def _check_widths(model: Any, learners: Sequence[Learner], n_features: int) -> None:
    """Templates, classes and bases have to be about the same columns: kernels follow them without a look."""
    company, n_labels = model.company_, len(model.coding_.classes)
    fits(company.n_votes == n_labels)
    own = n_features if getattr(model, "features", True) else 0
    told = company.width + (n_labels if getattr(model, "own", False) else 0)
    above = own + n_features * (len(company.templates) - len(company.told)) + told
    for level, learner in enumerate(learners):
        width = getattr(learner.estimator, "n_features_in_", None)
        fits(width is None or width == (above if level else n_features))


def check_token_levels(model: Any, taggers: Sequence[Any]) -> None:
    """The same for tokens: levels above the first have weights for what they are told."""
    n_labels = len(model.coding_.classes)
    fits(model.company_.n_votes == n_labels and len(taggers) >= 1)
    told = model.company_.width + (n_labels if model.own else 0)
    for level, tagger in enumerate(taggers):
        fits({*tagger.coding_.classes.names} <= {*model.coding_.classes.names})
        if isinstance(tagger, ChainTagger):
            fits(tagger.weights_.node.shape[0] == tagger.features_.n_features + (told if level else 0))


def _restored_learner(file: ModelFile, level: int, n_labels: int, trusted: Sequence[str]) -> Learner:
    columns = np.asarray(file.arrays[f"level.{level}.columns"], np.int64)
    packed = file.arrays.get(f"level.{level}.skops")
    fits(columns.ndim == 1 and len(columns) >= 1 and (np.diff(columns) > 0).all())
    fits(columns[0] >= 0 and columns[-1] < n_labels and (packed is not None or len(columns) == 1))
    estimator = None if packed is None else built(packed.tobytes(), trusted)
    fits(np.array_equal(np.asarray(getattr(estimator, "classes_", columns)), columns))
    return Learner.restored(estimator, columns, n_labels)


def _dumps(estimator: Any) -> bytes:
    from skops.io import dumps

    try:
        return bytes(dumps(estimator))
    except Exception as error:  # skops raises what its parts raise
        raise ModelFileError(
            f"{type(estimator).__name__} cannot be written by skops ({error}); build the base of scikit-learn's parts"
        ) from error
