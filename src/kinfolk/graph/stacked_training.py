"""What `StackedGraphical.fit` does: folds, who may speak to whom, and the levels of nodes or of tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.company import Company, as_templates
from kinfolk.collective.neighbourhood import Neighbourhood
from kinfolk.collective.stacking import Instances, Training
from kinfolk.collective.templates import Count, Over
from kinfolk.collective.window import Window
from kinfolk.core.data import Relational
from kinfolk.core.progress import speaker
from kinfolk.core.threads import resolve_jobs
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.graph import Graph
from kinfolk.graph.learners import check_base, check_enough, tell_fallback
from kinfolk.graph.levels import NodeInstances, remembered
from kinfolk.graph.node_company import World, default_templates
from kinfolk.graph.nodes import Nodes, no_labels_beside, node_weights, training_labels
from kinfolk.learning.crossfit import NOTHING, CrossFitting, assign_folds
from kinfolk.text.batch import Batch
from kinfolk.text.documents import FEW, alone, alone_share, warn_without_company, without_company
from kinfolk.text.labels import LabelCoding
from kinfolk.text.skip_edges import SameWord
from kinfolk.text.stacked import TokenInstances
from kinfolk.text.tagger import Tagger
from kinfolk.text.weighting import token_weights

Array = NDArray[Any]
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
