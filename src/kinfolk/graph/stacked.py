"""Stacked graphical learning (Kou and Cohen, 2007): any classifier of nodes, given what neighbours are predicted to be.

f⁰ is the base on a node's own features x. fᵏ is a base on (x, C(ŷᵏ⁻¹)), where C gathers the neighbours' predictions of
the level before by relational templates; in training these are cross-fitted. Inference is K + 1 passes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.aggregate import padded, side_by_side
from kinfolk.collective.stacking import Ask, Instances, StackedModel, Training, as_votes, folds_of
from kinfolk.collective.templates import Count, set_known
from kinfolk.core.data import Classes
from kinfolk.core.modelfile import Functions, ModelFile, Saved, fits
from kinfolk.core.settings import FLAG, one_of, setting, whole
from kinfolk.core.threads import resolve_jobs
from kinfolk.errors import SettingError
from kinfolk.graph.explain import ALONE, EACH_ALONE, Ablation, ExplainedNode, explained_node, finished
from kinfolk.graph.gain import count_nodes, node_unit
from kinfolk.graph.learners import Learner, check_base, check_enough, predict_in_blocks, warn_of_fallback
from kinfolk.graph.model import NeighbourModel
from kinfolk.graph.nodes import TRAIN, Known, Memory, Nodes, ReadyGraph, default_templates, node_weights
from kinfolk.graph.page import NodeExplanation, level_answer
from kinfolk.learning.crossfit import NOTHING
from kinfolk.learning.gain import Counted, Gain
from kinfolk.report.page import PathLike

# -- Stacking over the nodes of a graph, with scikit-learn classifiers as bases ------------------------

Array = NDArray[Any]


@dataclass(eq=False)
class NodeInstances(Instances):
    """Nodes as `stacking` learns from them."""

    ready: ReadyGraph
    classes: Classes

    def learn(self, level: int, index: Array, aggregates: Array | None) -> Learner:
        table = self.ready.alone if aggregates is None else self.ready.wide
        weights = None if self.weights is None else self.weights[index]
        rows = side_by_side(table, index, aggregates)
        return Learner(self.bases[level], self.classes).fit(rows, self.labels[index], weights)

    def proba(self, model: Learner, index: Array, aggregates: Array | None) -> Array:
        if aggregates is None:
            return predict_in_blocks(model, self.ready.alone, index, None, 1)
        return predict_in_blocks(model, self.ready.wide, index, aggregates.__getitem__, 1)


def remembered(training: Training, instances: NodeInstances, revealed: bool) -> Memory:
    index = np.flatnonzero(instances.labels >= 0)
    levels = [] if revealed else range(training.depth)
    votes = [training.votes(level, NOTHING)[index].astype(np.float32) for level in levels]
    return Memory.of(instances.ready.nodes, instances.labels, instances.templates.relation_names(), votes)


def stacked_gain(training: Training, instances: NodeInstances) -> Gain:
    """Of the last level over the base, by the predictions of models that never saw a node's label."""
    nodes, fold, labels, counted = instances.ready.nodes, instances.fold, instances.labels, Counted()
    found = (table.argmax(axis=1) for table in (training.estimate_alone(), training.estimate()))
    count_nodes(counted, nodes, fold, fold >= 0, labels, *found)
    return counted.gain("accuracy", node_unit(nodes, fold), training.scheme.n_folds)


class NodePredictor(NamedTuple):
    """Trained levels, applied to one graph. `known` (n,) are labels given to neighbours, -1 for none; `given` votes of
    some nodes by level, in the place of what the models say of them; `kept` (n,) labels that are the last word on their
    nodes, -1 for none."""

    learners: Sequence[Learner]
    ready: ReadyGraph
    ask: Ask
    known: NDArray[np.int32]
    given: tuple[NDArray[np.int64], list[Array]] | None
    kept: NDArray[np.int32]

    def levels(self, draw: int = 0, whole: bool = True) -> list[Array]:
        """(n, L) probabilities by each level; `draw` numbers the draws of sampled votes. Unless the `whole` of it is
        wanted, levels below the last leave out nodes whose predictions nobody receives."""
        asked = None
        if not whole and not self.ask.own and len(self.learners) > 1:
            needed = self.known < 0
            if self.given is not None:
                needed[self.given[0]] = False
            asked = np.flatnonzero(needed)
        return [found for found, _, _ in self.steps(draw, asked)]

    def steps(self, draw: int = 0, asked: Array | None = None) -> Iterator[tuple[Array, Array, Array]]:
        """Level by level its probabilities (n, L), of the nodes `asked` (None: all; the last is asked of all); and the
        votes they make for the level after it, to neighbours and to oneself."""
        everyone = np.arange(self.ready.neighbourhood.n)
        votes = own = np.zeros((0, 0))
        for level in range(len(self.learners)):
            last = level == len(self.learners) - 1
            found = self.at_level(level, everyone if last or asked is None else asked, votes, own)
            votes, own = (votes[:0], own[:0]) if last else self._votes(level, found, draw)
            yield found, votes, own

    def _votes(self, level: int, found: Array, draw: int) -> tuple[Array, Array]:
        own = votes = as_votes(found, self.ask, level, draw, 1)
        if self.given is not None or (self.known >= 0).any():
            votes = votes.copy()
        if self.given is not None:
            votes[self.given[0]] = self.given[1][level]
            own = votes.copy() if self.ask.own else own
        set_known(votes, self.known)
        return votes, own

    def at_level(self, level: int, index: Array, votes: Array, own: Array) -> Array:
        """(n, L) by a level for the nodes `index`, 0 for others; above the first they receive the votes (n, L) of
        neighbours, and their own where that is asked for."""
        learner, neighbourhood, template_set = self.learners[level], self.ready.neighbourhood, self.ready.template_set
        if level == 0:
            found = predict_in_blocks(learner, self.ready.alone, index, None, neighbourhood.n_jobs)
        else:
            template_set.prepare(neighbourhood)
            votes, mine = padded(votes), own if self.ask.own else None
            alone = replace(neighbourhood, n_jobs=1)  # each of the threads has a block

            whole = None if template_set.by_rows else template_set.rows(neighbourhood, votes, index, mine)

            def aggregates(span: slice) -> Array:
                return template_set.rows(alone, votes, index[span], mine) if whole is None else whole[span]

            found = predict_in_blocks(learner, self.ready.wide, index, aggregates, neighbourhood.n_jobs)
        if len(index) == neighbourhood.n:
            return found
        table = np.zeros((neighbourhood.n, learner.n_labels))
        table[index] = found
        return table


def explained_levels(
    predictor: NodePredictor, runs: int, node: int, classes: Sequence[str], features: Sequence[str]
) -> ExplainedNode:
    """Of stacked graphical learning. Where votes are sampled, all is the mean over so many runs."""
    ready, depth = predictor.ready, len(predictor.learners) - 1
    ablation = Ablation(ready, node, predictor.ask.own)
    tables: list[Any] = [0.0] * (depth + 1)
    votes: list[Any] = [0.0] * depth
    blocks: list[list[Array]] = [[] for _ in range(depth)]
    for draw in range(runs):
        for level, (found, vote, own) in enumerate(predictor.steps(draw)):
            tables[level] = tables[level] + found / runs
            if level < depth:
                votes[level] = votes[level] + vote / runs
                blocks[level].append(ablation.aggregates(vote, own))
    answer = int(tables[-1][node].argmax())
    levels = [level_answer(ALONE, tables[0][node], answer)]
    for level in range(1, depth + 1):
        said = ablation.answers(predictor.learners[level], blocks[level - 1])
        measured = ablation.measured(blocks[level - 1], said, classes, features)
        levels.append(level_answer(f"level {level}", tables[level][node], answer, measured, said[-1]))
    given = np.zeros(0, np.int64) if predictor.given is None else predictor.given[0]
    inputs = "Own features and" if ready.wide.shape[1] else "Only"
    said_by = ["own features alone say", *(f"level {level} says" for level in range(1, depth))][:depth]
    notes = [EACH_ALONE] + [
        f"{inputs} aggregates of neighbours: what {before} of them, or their label where it is known."
        for before in said_by
    ]
    return explained_node(ready, node, classes, answer, levels, tables, votes, predictor.known, given, notes)


# -- the model ----------------------------------------------------------------------------------------

log = logging.getLogger("kinfolk")


@final
@dataclass(eq=False, repr=False)
class StackedNodes(StackedModel, NeighbourModel):
    """Nodes of a Graph, labelled with an eye to their neighbours by a classifier of your own.

    `base` is any scikit-learn classifier or pipeline. Without `templates`: Count over every relation. Bases are trained
    in parallel (joblib; another backend with joblib.parallel_config).

    Learned by `fit`: `classes_`, `levels_` (trained bases), `template_set_`, `folds_`, `known_` (what "auto" came to).
    """

    features: bool = setting(
        True, "whether levels above the base see a node's own features too, or only what they receive", FLAG
    )
    known: str = setting(
        "auto",
        'what a neighbour trained on gives: "true" its label, or "crossfit" the prediction of a model that has not '
        'seen it, as new nodes do. "auto": "true" if the training graph has nodes without label, which are then to be '
        'predicted, else "crossfit". "ceiling": true labels always, even those to be predicted: the most that could be '
        "gained, no model",
        one_of("auto", "true", "crossfit", "ceiling"),
    )
    split: str = setting(
        "auto",
        'folds by "group" (graph) or "instance"; "auto": by group where there are two or more',
        one_of("auto", "group", "instance"),
    )
    samples: int = setting(20, 'runs that predictions="sample" averages over', whole(1))

    levels_: list[Learner] = field(init=False)
    folds_: NDArray[np.int32] = field(init=False)
    known_: str = field(init=False)

    @property
    def _learners(self) -> list[Learner]:
        return self.levels_

    # -- learning -------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, train: Any = None) -> Self:
        """Train on a Graph (or a Relational).

        sample_weight  one number a node; the base has to take it
        train          a mask or numbers of the nodes whose labels may be used; None: all labelled ones
        """
        instances, known = self._prepared(X, y, sample_weight, train)
        with self._all_or_nothing():
            guards, nodes = self._guards(known, self.depth), instances.ready.nodes
            training = self._trained(instances, known, self.depth, guards)
            self.gain_ = stacked_gain(training, instances) if guards else None
            self.known_, self.folds_ = known, nodes.to_nodes(instances.fold)
            self.levels_ = training.models
            memory = None if known == "ceiling" else remembered(training, instances, known == "true")
            self._keep(nodes, instances.templates, instances.classes, memory)
        self._tell_gain()
        return self

    def cross_fit(self, X: Any, y: Any = None, sample_weight: Any = None, train: Any = None) -> Array:
        """Predictions of the last level for the training nodes themselves, by models that never saw their labels: an
        honest score without a held-out part. (n, L), columns in the order `classes_` would have; rows of unlabelled
        nodes are predictions too. Nothing is learned.
        """
        instances, known = self._prepared(X, y, sample_weight, train)
        found = self._trained(instances, known, self.depth, estimate=True).estimate()
        return instances.ready.nodes.to_nodes(found)

    def _prepared(self, X: Any, y: Any, sample_weight: Any, train: Any) -> tuple[NodeInstances, str]:
        """The nodes to learn from, and what labelled neighbours give."""
        if self.base is None:
            raise SettingError.saying("base is missing: `StackedNodes(LogisticRegression(), templates=[...])`")
        nodes, labels, classes = self._begin(X, y, train)
        bases, jobs = self._bases(), resolve_jobs(self.n_jobs)
        for base in bases:
            if isinstance(base, Saved):
                raise SettingError(
                    "base",
                    base,
                    "a scikit-learn classifier",
                    "for the tokens of a corpus there is StackedTagger",
                )
            check_base(base)
        weights = None if sample_weight is None else node_weights(nodes, labels, classes, None, sample_weight)
        fold = folds_of(self, labels, nodes.groups, self.split, nodes.order)
        templates = default_templates(self.templates, nodes, Count) if self.depth or self.templates is not None else []
        ready = ReadyGraph.of(nodes, templates, len(classes), self.features, jobs)
        known = self.known
        if known == "auto":
            known = "true" if (labels < 0).any() else "crossfit"
        revealed = labels if known == "true" else np.full(len(labels), -1, np.int32)
        if known == "ceiling":
            revealed = nodes.codes(classes, lenient=True)
        check_enough(classes)
        if self.depth:
            warn_of_fallback(bases[0])
        return NodeInstances(
            labels, revealed, fold, weights, jobs, ready.neighbourhood, ready.template_set, bases, ready, classes
        ), known

    # -- prediction -----------------------------------------------------------------------------------

    def predict_levels(self, X: Any, forced: bool = False, known: Any = TRAIN) -> list[Array]:
        """(n, L) by each level, from the base alone to the last; `forced` and `known` as in `predict`."""
        nodes = self._nodes(X)
        found = self._levels(self._predictor(nodes, self._known(nodes, known, forced), forced))
        return [nodes.to_nodes(table) for table in found]

    def at_depth(self, depth: int) -> Self:
        shallow = super().at_depth(depth)
        if self.memory_ is not None:
            shallow.memory_ = replace(self.memory_, votes=self.memory_.votes[:depth])
        return shallow

    def _probabilities(self, nodes: Nodes, known: Known) -> Array:
        return self._levels(self._predictor(nodes, known), whole=False)[-1]

    def _levels(self, predictor: NodePredictor, whole: bool = True) -> list[Array]:
        """(n, L) by each level, by row; sampled votes are averaged over runs."""
        found = predictor.levels(0, whole)
        if self.predictions == "sample":
            runs = [found, *(predictor.levels(draw, whole) for draw in range(1, self.samples))]
            found = [np.asarray(sum(level) / len(runs)) for level in zip(*runs, strict=True)]
        set_known(found[-1], predictor.kept)
        return found

    def _predictor(self, nodes: Nodes, known: Known, forced: bool = False) -> NodePredictor:
        ready, nothing = self._ready(nodes, self.features), np.full(len(nodes.labels), -1, np.int32)
        if self.known_ == "ceiling":
            labels = known.labels if forced else nodes.codes(self.labels_, lenient=True)
            return NodePredictor(self._learners, ready, self._ask, labels, None, known.labels)
        if known.trained and self.known_ == "true" and len(self.levels_) > 1 and not known.any:
            log.warning(
                "no node trained on is in this graph, so no neighbour's label is known, which the model was trained "
                "for; give known labels by `forced=True`, or train with `known='crossfit'`"
            )
        if not known.trained or self.known_ == "true":
            return NodePredictor(self._learners, ready, self._ask, known.labels, None, known.labels)
        given = self._remembered_votes(nodes, known) if known.any else None
        return NodePredictor(self._learners, ready, self._ask, nothing, given, known.labels)

    def _remembered_votes(self, nodes: Nodes, known: Known) -> tuple[Array, list[Array]]:
        """The rows of nodes trained on, and their votes at each level, by models that never saw them."""
        assert self.memory_ is not None
        rows, which = self.memory_.with_the_same_id(nodes.ids)
        kept = known.labels[rows] >= 0
        return rows[kept], [votes[which[kept]] for votes in self.memory_.votes]

    def _explanation(self, nodes: Nodes, node: int, known: Known, report: PathLike | None) -> NodeExplanation:
        """What each level says, what it received of neighbours, and what each aggregate changed."""
        predictor, runs = self._predictor(nodes, known), self.samples if self.predictions == "sample" else 1
        explained = explained_levels(predictor, runs, node, self.labels_.names, self._feature_names())
        return finished(explained, report, type(self).__name__, self.labels_)

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["stacked"]["known"] = self.known_
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        self.known_ = file.header["stacked"]["known"]
        fits(self.known_ in ("true", "crossfit", "ceiling"))
        self.levels_ = self._restored_learners(file, trusted, bool(self.own), self.features)
        fits(self.memory_ is None or len(self.memory_.votes) in (0, len(self.levels_) - 1))
