"""The face that all models of nodes share: probabilities, labels, scores, explanations, files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.stacking import put_templates, restored_templates
from kinfolk.collective.templates import TemplateSet
from kinfolk.core.data import Classes, check_labels, class_weights, label_name
from kinfolk.core.modelfile import Functions, ModelFile, Saved, fits, names_in
from kinfolk.core.settings import check_settings
from kinfolk.core.threads import resolve_jobs
from kinfolk.errors import InputError
from kinfolk.graph.asked import asked_rows
from kinfolk.graph.explain import Cut, explained_by_cuts, finished, without_links
from kinfolk.graph.graph import Graph
from kinfolk.graph.learners import Learner, put_learner, restored_learner
from kinfolk.graph.nodes import (
    TRAIN,
    Known,
    Memory,
    Nodes,
    ReadyGraph,
    check_relations,
    known_labels,
    known_when_scored,
    no_labels_beside,
    node_accuracy,
    node_number,
    put_memory,
    restored_memory,
    training_labels,
    warn_of_other_weights,
    warn_of_untrained,
    weighted_links,
)
from kinfolk.graph.page import node_part
from kinfolk.graph.some_nodes import SomeNodes, whole_graph
from kinfolk.learning.gain import in_silence
from kinfolk.report.page import PathLike, check_report
from kinfolk.report.scores import UNSEEN, Confusion, Counts, confusion, write_scores

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class NodeScores:
    """How many labels are right.

    accuracy   in percent
    nodes      that were scored: those with a label that was not known
    confusion  of true and predicted labels
    """

    accuracy: float
    nodes: int
    confusion: Confusion

    @property
    def classes(self) -> dict[str, Counts]:
        """How well each label is found; those that occur, sorted by name."""
        counts = self.confusion.counts
        found = zip(self.confusion.labels, counts.sum(axis=1), counts.sum(axis=0), np.diag(counts), strict=True)
        rows = {name: Counts(int(gold), int(guess), int(right)) for name, gold, guess, right in found if gold + guess}
        return dict(sorted(rows.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeScores) and self.classes == other.classes and self.nodes == other.nodes

    def __hash__(self) -> int:
        return hash((self.accuracy, self.nodes))

    def __str__(self) -> str:
        return f"accuracy {self.accuracy:.2f} % of {self.nodes} nodes"


RELATIONS = "the links to use; None: all (of two that are each other's reverse, one)"


class NodeModel(Saved):
    """Abstract: a model of the nodes of a graph.

    Learned by `fit`, beside what each model learns: `labels_` (the classes, with their type), `node_columns_` (the
    features of a node, by name or their number), `links_` and `not_used_` (relations of training), `memory_` (the nodes
    trained on; None: nothing is kept of them). `_trained_on` sets them.
    """

    KIND: ClassVar[str] = "nodes"
    WEIGHS: ClassVar[bool] = True  # whether it looks at the weights of links

    labels_: Classes
    node_columns_: Sequence[str] | int
    links_: tuple[str, ...]
    not_used_: tuple[str, ...]
    memory_: Memory | None
    reading_: dict[str, Any]  # how the shell read the tables of training

    @abstractmethod
    def _probabilities(self, nodes: Nodes, known: Known) -> Array:
        """(n, L) by row, given labels that are known."""

    def relations_used(self) -> tuple[Sequence[str], Sequence[str]]:
        """The relations the model uses, and those of training that it does not."""
        return self.links_, self.not_used_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "labels_")

    def __sklearn_tags__(self) -> Any:
        """A classifier, of nodes with one label each: scorers may ask for probabilities."""
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags

    # -- learning -------------------------------------------------------------------------------------

    def _begin(self, X: Any, y: Any, train: Any) -> tuple[Nodes, NDArray[np.int32], Classes]:
        """A graph to train on, the labels that may be used (-1: none), and the classes among them."""
        X, y = whole_graph(X, y)
        no_labels_beside(y)
        check_settings(self)
        nodes = self._training_nodes(X)
        self._check_missing(nodes)
        labels, classes = training_labels(nodes, train)
        check_labels(len(classes), "take a model that looks at every node by itself")
        warn_of_untrained(nodes, classes)
        return nodes, labels, classes

    def _training_nodes(self, X: Any) -> Nodes:
        return Nodes.of(X)

    def _trained_on(self, nodes: Nodes, labels: Array, classes: Classes, links: Sequence[str]) -> None:
        """Set what is to be known of the training graph later, with the relations that the model uses."""
        self.labels_, self.node_columns_, self.links_ = classes, nodes.columns, tuple(links)
        self.not_used_ = tuple(name for name in nodes.relations if name not in links)
        self.memory_ = Memory.of(nodes, labels, links)

    def _held_out(self, X_dev: Any) -> tuple[Nodes, Known, Array]:
        """A held-out graph and the labels to score by, -1 for none. Nodes trained on are known, as they will be later,
        and do not count."""
        dev = Nodes.of(X_dev, self.node_columns_)
        self._check_missing(dev)
        dev = check_relations(dev, *self.relations_used())
        assert self.memory_ is not None
        known = self.memory_.scored(dev)
        gold = np.where(known.labels >= 0, -1, dev.gold(self.labels_))
        if not (gold >= 0).any():
            raise InputError("scoring needs labels, and X_dev has none")
        return dev, known, gold

    # -- prediction -----------------------------------------------------------------------------------

    @property
    def classes_(self) -> Array:
        """The labels that columns of `predict_proba` stand for, of the type of the labels trained on and sorted."""
        self._require_fitted()
        return self.labels_.array()

    def predict(self, X: Any, forced: bool = False, known: Any = TRAIN, nodes: Any = None) -> Array:
        """One label a node.

        X        a graph, or some nodes of one (`graph.nodes_at(...)`): answers are for these alone

        forced   labels that X has are kept, and seen by the neighbours
        known    whose labels are known, kept and seen by the neighbours. "train": nodes trained on, found by their ids;
                 "none": nobody's; truth values, numbers or ids of nodes: those, with the labels X has
        nodes    truth values, numbers or ids: answers for these nodes alone, in the order they are named in; the whole
                 graph is looked at. None: all
        """
        found: Array = self.classes_[self.predict_proba(X, forced, known, nodes).argmax(axis=1)]
        return found

    def predict_proba(self, X: Any, forced: bool = False, known: Any = TRAIN, nodes: Any = None) -> Array:
        """(n, L), columns as `classes_`; `forced`, `known` and `nodes` as in `predict`."""
        X, asked = asked_nodes(X, nodes)
        seen = self._nodes(X)
        found = seen.to_nodes(self._probabilities(seen, self._known(seen, known, forced)))
        return found if asked is None else found[asked]

    def known_nodes(self, X: Any, known: Any = TRAIN, forced: bool = False) -> NDArray[np.bool_]:
        """(n,), the nodes of a graph whose labels are known when it is predicted: with known="train" those that were
        trained on. They are not scored."""
        nodes = self._nodes(X)
        return nodes.to_nodes(self._known(nodes, known, forced, tell=False).labels >= 0)

    def _nodes(self, X: Any) -> Nodes:
        self._require_fitted()
        X = X.graph if isinstance(X, SomeNodes) else X
        nodes = Nodes.of(X, self.node_columns_)
        self._check_missing(nodes)
        nodes = check_relations(nodes, *self.relations_used())
        if self.WEIGHS and self.memory_ is not None:
            warn_of_other_weights(weighted_links(nodes.relations, self.memory_.relations), self.memory_.weighted)
        return nodes

    def _check_missing(self, nodes: Nodes) -> None:
        """Refuse features that are missing, which most models take for none."""
        nodes.refuse_missing(type(self).__name__)

    def _known(self, nodes: Nodes, known: Any, forced: bool, tell: bool = True) -> Known:
        return known_labels(nodes, self.labels_, self.memory_, known, forced, tell)

    # -- scores ---------------------------------------------------------------------------------------

    def evaluate(
        self, X: Any, y: Any = None, report: PathLike | None = None, known: Any = TRAIN, nodes: Any = None
    ) -> NodeScores:
        """Over the labelled nodes whose labels are not known.

        y        true labels, where X is some nodes of a graph; a graph brings its own
        report   also write a page: scores, calibration, confusion, the worst mistakes, and how training went
        known    as in `predict`
        nodes    truth values, numbers or ids: only these nodes count. None: all
        """
        X, y, asked = _to_score(X, y, nodes)
        no_labels_beside(y)
        check_report(report)
        seen = self._nodes(X)
        counts = np.ones(len(seen.labels), bool)
        if asked is not None:
            counts = np.isin(np.arange(len(counts)), asked)
        counts = seen.to_rows(counts)
        if asked is not None and not (counts & (seen.labels >= 0)).any():
            raise InputError(
                "scoring needs labels, and none of the nodes asked for has one; name others in `nodes=...`"
            )
        kept = known_when_scored(seen, self.labels_, self.memory_, known, counts)
        gold = np.where((kept.labels >= 0) | ~counts, -1, seen.gold(self.labels_, counts))
        return self.scores_of(seen, self._probabilities(seen, kept), gold, report)

    def scores_of(self, nodes: Nodes, beliefs: Array, gold: Array, report: PathLike | None = None) -> NodeScores:
        """Of predictions (n, L) by row, beside true labels (n,), -1 for nodes that do not count."""
        accuracy, scored, names = node_accuracy(gold, beliefs), int((gold >= 0).sum()), list(self.labels_.names)
        if report is not None:
            links = ", ".join(nodes.relations) or "no relations"
            size = f"{len(nodes.labels)} nodes, {scored} of them scored; {links}"
            write_scores(report, self, node_part(names, nodes.ids, gold, beliefs, accuracy), size)
        unseen = [UNSEEN] * bool((gold == len(names)).any())
        return NodeScores(accuracy, scored, confusion(gold, beliefs.argmax(axis=1), [*names, *unseen]))

    def score(self, X: Any, y: Any = None, known: Any = TRAIN, nodes: Any = None) -> float:
        """Accuracy over labelled nodes that are not known, from 0 to 1; `nodes` as in `evaluate`."""
        return self.evaluate(X, y, known=known, nodes=nodes).accuracy / 100

    # -- explanation ----------------------------------------------------------------------------------

    def explain(
        self, X: Any, node: Any = None, report: PathLike | None = None, forced: bool = False, known: Any = TRAIN
    ) -> Any:
        """Why a node has its label.

        node      an id (a string, a whole number, a member of an Enum), or a number from 0; a whole number that is the
                  one of a node and the other of another is refused
        report    also write a page about the node, to look at and click through
        forced, known   as in `predict`, but for the label of the node itself: it is what the model says of it
        """
        nodes = self._nodes(X)
        check_report(report)
        at = node_number(nodes, node)
        return self._explanation(nodes, at, self._known(nodes, known, forced, tell=False), report)

    def _explanation(self, nodes: Nodes, node: int, known: Known, report: PathLike | None) -> Any:
        """Why the node in a row has its label; known labels as they are, with that of the node itself. Of any model:
        what is predicted as it is, without links, and without those of each relation."""
        certain, (links, _) = known.without(node), self.relations_used()

        def predicted(cut: Cut | None) -> Array:
            if cut is None:
                return self._probabilities(nodes, certain)
            with in_silence():  # what there is to warn of was said of the graph as it is
                return self._probabilities(without_links(nodes, cut), certain)

        level = type(self).__name__
        explained = explained_by_cuts(nodes, node, links, predicted, certain.labels, self.labels_.names, level)
        return finished(explained, report, level, self.labels_)

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        named = not isinstance(self.node_columns_, int)
        labels = {"outer": None, "inner": None, **self.labels_.to_state()}
        state = ModelFile({**self.head(), "labels": labels, "columns": None if named else self.node_columns_})
        weights = state.header["settings"].get("class_weight")
        if isinstance(weights, dict):
            state.header["settings"]["class_weight"] = {label_name(label): w for label, w in weights.items()}
        if named:
            state.strings["columns"] = list(self.node_columns_)  # type: ignore[arg-type]
        if getattr(self, "reading_", None):
            state.header["reading"] = dict(self.reading_)
        if hasattr(self, "links_"):
            state.header["relations"] = {"links": list(self.links_), "not_used": list(self.not_used_)}
        put_memory(state, self.memory_)
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        self.labels_ = classes = Classes.from_state(file.header["labels"])
        weights = file.header["settings"].get("class_weight")
        if isinstance(weights, dict) and classes.type != "str":
            self.set_params(class_weight={classes[classes.get(name)]: weight for name, weight in weights.items()})
        self.memory_ = restored_memory(file, len(classes))
        relations = file.header.get("relations", file.header.get("pairwise"))  # the second of earlier link models
        if relations is not None:
            self.links_, self.not_used_ = names_in(relations["links"]), names_in(relations["not_used"])
        width = file.header["columns"]
        self.node_columns_ = tuple(file.strings["columns"]) if width is None else int(width)
        self.reading_ = reading = file.header.get("reading", {})
        fits(isinstance(reading, dict) and all(isinstance(value, str | bool | list) for value in reading.values()))

    @property
    def _n_features(self) -> int:
        return self.node_columns_ if isinstance(self.node_columns_, int) else len(self.node_columns_)

    def _check_settings(self) -> None:
        super()._check_settings()
        if hasattr(self, "class_weight"):
            class_weights(np.arange(len(self.labels_), dtype=np.int32), self.labels_, self.class_weight)


def asked_nodes(X: Any, nodes: Any) -> tuple[Any, Array | None]:
    """The whole graph, and the numbers of the nodes that answers are wanted for; None: all of them."""
    if isinstance(X, SomeNodes):
        if nodes is not None:
            raise InputError("X names the nodes already; leave out `nodes=...`, or give the graph itself")
        return X.graph, X.numbers
    if nodes is None:
        return X, None
    ids = X.ids if isinstance(X, Graph) else [str(i) for i in range(len(X))]
    return X, asked_rows(nodes, ids)


def _to_score(X: Any, y: Any, nodes: Any) -> tuple[Any, Any, Array | None]:
    """The same with y: some nodes take in the labels that are given beside them."""
    graph, asked = asked_nodes(X, nodes)
    if isinstance(X, SomeNodes):
        return *whole_graph(X, y), asked
    return graph, y, asked


class NeighbourModel(NodeModel):
    """Abstract: a model of nodes over scikit-learn classifiers that receive aggregates of neighbours.

    Learned by `fit`, besides: `template_set_` (templates), `unused_` (relations that no template names).
    """

    base: Any
    templates: Any
    template_set_: TemplateSet
    unused_: tuple[str, ...]

    @property
    @abstractmethod
    def _learners(self) -> list[Learner]:
        """The trained bases, that of a node's own features first."""

    def all_learners(self) -> list[Learner]:
        """Every trained base of scikit-learn that a file keeps."""
        return [one for one in self._learners if one.estimator is not None]

    def _keep(self, nodes: Nodes, template_set: TemplateSet, classes: Classes, memory: Memory | None) -> None:
        """Set what is learned apart from the bases."""
        used = template_set.relation_names()
        self.unused_ = tuple(name for name in nodes.relations if name not in used)
        self.labels_, self.node_columns_ = classes, nodes.columns
        self.template_set_, self.memory_ = template_set, memory

    def relations_used(self) -> tuple[Sequence[str], Sequence[str]]:
        return self.template_set_.relation_names(), self.unused_

    def _ready(self, nodes: Nodes, features: bool = True) -> ReadyGraph:
        return ReadyGraph.of(nodes, self.template_set_, len(self.labels_), features, resolve_jobs(self.n_jobs))

    def _feature_names(self) -> Sequence[str]:
        columns = self.node_columns_
        return [f"feature {i}" for i in range(columns)] if isinstance(columns, int | np.integer) else columns

    def to_state(self) -> ModelFile:
        """scikit-learn estimators go through skops, which runs no code on load."""
        state, several = super().to_state(), isinstance(self.base, list | tuple)
        levels, unused = len(self._learners), list(self.unused_)
        put_templates(state, self.template_set_, levels=levels, unused=unused, bases=several)
        for i, learner in enumerate(self._learners):
            put_learner(state, i, learner)
        return state

    def _restored_learners(self, file: ModelFile, trusted: Sequence[str], own: bool, features: bool) -> list[Learner]:
        """Templates, classes and bases have to be about the same columns: kernels follow them without a look. `own`:
        whether a node receives its own prediction, `features`: whether levels above the base see its features."""
        from sklearn.base import clone

        spec, n_labels, n_features = file.header["stacked"], len(self.labels_), self._n_features
        self.templates, self.unused_ = list(self.template_set_.templates), names_in(spec["unused"])
        learners = [restored_learner(file, i, n_labels, trusted) for i in range(int(spec["levels"]))]
        template_set = self.template_set_
        fits(template_set.n_votes == n_labels)
        received = template_set.width + (n_labels if own else 0)
        above = n_features * (features + len(template_set.of_features)) + received
        for level, learner in enumerate(learners):
            width = getattr(learner.estimator, "n_features_in_", None)
            fits(width is None or width == (above if level else n_features))
        bases = [None if learner.estimator is None else clone(learner.estimator) for learner in learners]
        self.base = bases if spec["bases"] else bases[-1]
        return learners

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        self.template_set_ = restored_templates(file, functions)
