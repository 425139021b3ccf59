"""Stacked graphical learning (Kou and Cohen, 2007): any classifier of nodes, given what neighbours are predicted to be.

Where nothing is chosen, several such models and others are pooled (`graph.pool`). With templates or a depth, as the
paper has it: f⁰ is the base on a node's own features x. fᵏ is a base on (x, C(ŷᵏ⁻¹)), where C gathers the neighbours'
predictions of the level before by relational templates; in training these are cross-fitted. Inference is K + 1 passes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple, Self, Unpack, cast, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.aggregate import padded, side_by_side
from kinfolk.collective.stacking import FOLDS, Ask, Instances, StackedModel, Training, as_votes, folds_of
from kinfolk.collective.templates import Count, TemplateSet, as_templates, set_known
from kinfolk.core.checkpoint import check_checkpoint, going_on
from kinfolk.core.data import Classes
from kinfolk.core.engine import ENGINE
from kinfolk.core.modelfile import Functions, ModelFile, Saved, fits
from kinfolk.core.settings import FLAG, MANY, NONE, one_of, setting, whole
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import speaker
from kinfolk.errors import DataWarning, SettingError, warn
from kinfolk.graph.candidates import BASE, LOCAL
from kinfolk.graph.explain import ALONE, EACH_ALONE, Ablation, ExplainedNode, explained_node, finished, neighbours
from kinfolk.graph.gain import count_nodes, node_unit
from kinfolk.graph.learners import Learner, check_base, check_enough, predict_in_blocks, takes_missing, warn_of_fallback
from kinfolk.graph.model import NeighbourModel
from kinfolk.graph.nodes import (
    TRAIN,
    Known,
    Memory,
    Nodes,
    ReadyGraph,
    default_templates,
    node_weights,
    warn_of_negative,
)
from kinfolk.graph.page import (
    LABEL,
    PREDICTION,
    Aggregate,
    NodeExplanation,
    level_answer,
    node_explanation,
)
from kinfolk.graph.page import Surroundings as Around
from kinfolk.graph.pool import Pool, PoolTraining, pool_folds
from kinfolk.graph.pool_features import has_missing
from kinfolk.graph.surroundings import Shown
from kinfolk.graph.table_graphs import GraphColumns
from kinfolk.graph.targets import ClassTarget, Target
from kinfolk.learning.crossfit import NOTHING
from kinfolk.learning.gain import Counted, Gain
from kinfolk.learning.pooling import pooled
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

    def packed(self, model: Learner) -> Any:
        return ClassTarget(self.classes).packed(model, BASE)

    def unpacked(self, kept: Any) -> Learner:
        learner: Learner = ClassTarget(self.classes).unpacked(kept, BASE)
        return learner

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


def pool_gain(training: PoolTraining, nodes: Nodes, counts: NDArray[np.bool_] | None = None) -> Gain:
    """Of the pool over its local candidate, alike; `counts` (n,): for whom the pool answers, None: for all."""
    fold, labels, counted = training.fold, training.labels, Counted()
    answers: list[Array] = []
    for table in (training.unseen[training.local], training.estimate()):
        found = np.full(len(labels), -1)
        found[training.train] = table.argmax(axis=1)
        answers.append(found if counts is None or not answers else np.where(counts, found, answers[0]))
    count_nodes(counted, nodes, fold, fold >= 0, labels, *answers)
    return counted.gain("accuracy", node_unit(nodes, fold), training.n_folds)


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


def explained_pool(
    pool: Pool,
    tables: Mapping[str, Array],
    nodes: Nodes,
    node: int,
    known: NDArray[np.int32],
    classes: Sequence[str],
    source: str = PREDICTION,
    alone: tuple[str, str] = (LOCAL, ALONE),
) -> ExplainedNode:
    """Of a pool: what features say alone, then what every candidate says and what would be said without it. `alone`:
    the candidate that says the first, and its name for readers."""
    carrying = {name: weight for name, weight in pool.weights.items() if weight > 0}
    together, local = pool.said(tables), np.asarray(tables[alone[0]], np.float64)
    answer, said = int(together[node].argmax()), []
    for name, weight in carrying.items():
        others = [one for one in carrying if one != name]
        without = np.full((1, len(classes)), 1 / len(classes))
        if others:
            without = pooled([tables[one][[node]] for one in others], [carrying[one] for one in others])
        said.append(
            Aggregate(f"{name} (weight {weight:.2f})", "predictions", tuple(classes), tables[name][node], without[0])
        )
    levels = [level_answer(alone[1], local[node], answer), level_answer("the pool", together[node], answer, said)]
    votes = local.copy()
    set_known(votes, known)
    links = {name: sparse.csr_array(table) for name, table in nodes.relations.items()}
    around = neighbours(nodes, node, links, [votes], len(classes), lambda j: LABEL if known[j] >= 0 else PREDICTION)
    explained = node_explanation(node, nodes.ids[node], classes, answer, levels, around, source)
    notes = [EACH_ALONE, "Every candidate of the pool, and what the others would say without it."]
    return ExplainedNode(explained, Around(nodes, classes, [local, together], known, links), notes)


def shown(target: Target, labels: NDArray[np.int32]) -> Shown:
    """Of labels (n,), -1 for none, those that are there."""
    return target.shown(labels, np.flatnonzero(labels >= 0))


def warn_of_few(labelled: int, n_classes: int) -> None:
    """Of a pool whose candidates cannot be told apart: each is asked about a third of a handful of labels."""
    needed = max(LEAST_LABELS, LEAST_OF_EACH * n_classes)
    if labelled < needed:
        warn(
            f"{labelled} labelled nodes are too few to weigh the candidates of a pool by: with {n_classes} classes it "
            f"takes {needed} at the least, and some of every class. Its weights say next to nothing; give more labels, "
            "or choose a model yourself, as by `depth=0` or `depth=1`",
            DataWarning,
        )


def _check_node_base(base: Any) -> None:
    if isinstance(base, Saved):
        remedy = "for the tokens of a corpus there is StackedTagger"
        raise SettingError("base", base, "a scikit-learn classifier", remedy)
    check_base(base)


def clone_of(estimator: Any) -> Any:
    from sklearn.base import clone

    return clone(estimator)


# -- the model ----------------------------------------------------------------------------------------

log = logging.getLogger("kinfolk")
OF_LEVELS = ("features", "predictions", "own", "cross_fitting")  # settings that a pool has no use for
LEAST_LABELS, LEAST_OF_EACH = 10, 3  # labels from which on candidates can be weighed: in all, and for each class
NO_POOL = (
    "a pool of candidates looks at the whole graph in memory, which an engine does not hold: train the levels of one "
    "base, by `depth=1`"
)


@final
@dataclass(eq=False, repr=False)
class StackedNodes(StackedModel, NeighbourModel):
    """Nodes of a Graph, labelled with an eye to their neighbours by a classifier of your own.

    Without `templates` and `depth` it is a pool of candidates (docs/nodes.md): logistic regressions and trees, or
    `base` in their place, on own features, on those of neighbours, and on what neighbours are known or predicted to be,
    weighed by what they say of labels that they have not seen. With either it is the stack of the paper, whose levels
    are all `base`: any scikit-learn classifier or pipeline. With a depth alone: Count over every relation.

    Learned by `fit`: `classes_`, `folds_`, `known_` (what "auto" came to); of a pool `pool_` and `weights_`, of a stack
    `levels_` (trained bases) and `template_set_`.
    """

    depth: int | None = setting(
        None,
        "levels above the base's own; 0 is the base alone. None: 1, or where no templates are given either, a pool",
        whole(0) | NONE,
    )
    folds: int | Sequence[int] | None = setting(
        None,
        "number of folds of cross-fitting, or the fold of each node. None: 5, of a pool 3, of a large one 2",
        FOLDS,
    )

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
    samples: int = setting(20, 'runs that predictions="sample" averages over', MANY)
    _: KW_ONLY
    effort: str = setting(
        "best",
        'of a pool: "best" has all candidates; "fast" four of them, at a fraction of the cost',
        one_of("best", "fast"),
    )
    class_weight: Any = setting(
        None, '"balanced", or a weight for each label: how much mistakes about its nodes count in training'
    )
    engine: Any = setting(
        None,
        "where `fit_tables` and `predict_tables` keep tables: None or Threads(), memory and threads; "
        "DuckDB(memory_limit='2GB'), a database on disk; Spark(session), a cluster (docs/engines.md)",
        ENGINE,
        in_file=False,
    )

    levels_: list[Learner] = field(init=False)
    folds_: NDArray[np.int32] = field(init=False)
    known_: str = field(init=False)
    pool_: Pool | None = field(init=False)

    @property
    def _learners(self) -> list[Learner]:
        return self.levels_

    def all_learners(self) -> list[Learner]:
        of_pool = [] if self.pool_ is None else self.pool_.learners
        return super().all_learners() + [one for one in of_pool if one.estimator is not None]

    @property
    def pools(self) -> bool:
        """Whether nothing is chosen, so that candidates are pooled."""
        return self.templates is None and self.depth is None

    @property
    def dealt(self) -> Any:
        return (3 if self.pools else 5) if self.folds is None else self.folds

    @property
    def weights_(self) -> dict[str, float]:
        """Of a pool: its candidates and what they weigh; those of weight 0 have no part in the answers."""
        self._require_fitted()
        if self.pool_ is None:
            raise AttributeError("levels of one base have no weights; a pool has, without `templates` and `depth`")
        return dict(self.pool_.weights)

    def _local_model(self) -> str:
        return f"its candidate {LOCAL!r}, as in `predict_candidates`" if self.pools else self.LOCAL

    def _pool(self) -> Pool:
        self._require_fitted()
        if self.pool_ is None:
            raise SettingError.saying("these are levels of one base, not a pool: leave out `templates` and `depth`")
        return self.pool_

    # -- learning -------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        train: Any = None,
        *,
        checkpoint: PathLike | None = None,
    ) -> Self:
        """Train on a Graph (or a Relational).

        sample_weight  one number a node; the base has to take it
        train          a mask or numbers of the nodes whose labels may be used; None: all labelled ones
        checkpoint     a file that what was done so far is written to: `fit` with the same one goes on where it was
                       stopped, to the same model. It stays there when `fit` is done; delete it once the model is saved
        """
        check_checkpoint(checkpoint)
        if self.pools:
            return self._fit_pool(X, y, sample_weight, train, checkpoint)
        instances, known = self._prepared(X, y, sample_weight, train)
        given = instances.ready.nodes, instances.labels, instances.revealed, instances.fold, instances.weights
        with going_on(checkpoint, self, *given), self._all_or_nothing():
            guards, nodes = self._guards(known, self.n_levels), instances.ready.nodes
            training = self._trained(instances, known, self.n_levels, guards)
            self.gain_, self.pool_ = stacked_gain(training, instances) if guards else None, None
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
        if self.pools:
            nodes, training, _ = self._pool_training(X, y, sample_weight, train)
            pool, nobody = training.finished(), np.full(len(nodes.labels), -1, np.int32)
            seen = shown(training.target, training.labels if training.known else nobody)
            given = None if training.known else (training.train, pool.votes)
            table = pool.said(pool.tables(training.ground, seen, given))
            table[training.train] = training.estimate()
            return nodes.to_nodes(table)
        instances, known = self._prepared(X, y, sample_weight, train)
        found = self._trained(instances, known, self.n_levels, estimate=True).estimate()
        return instances.ready.nodes.to_nodes(found)

    # -- a pool ---------------------------------------------------------------------------------------

    def _fit_pool(self, X: Any, y: Any, sample_weight: Any, train: Any, checkpoint: PathLike | None) -> Self:
        nodes, training, known = self._pool_training(X, y, sample_weight, train, checkpoint)
        classes = cast(ClassTarget, training.target).classes
        with self._all_or_nothing():
            self.gain_ = pool_gain(training, nodes) if self._guards(known, 1) else None
            self.pool_, self.known_, self.levels_ = training.finished(), known, []
            self.folds_ = nodes.to_nodes(training.fold)
            self._keep(nodes, TemplateSet((), training.target.width), classes, None)
            self.links_, self.not_used_, self.unused_ = tuple(nodes.relations), (), ()
            votes = list(self.pool_.votes.values())
            self.memory_ = Memory.of(nodes, training.labels, self.links_, votes)
        self._tell_gain()
        return self

    def _pool_training(
        self, X: Any, y: Any, sample_weight: Any, train: Any, checkpoint: PathLike | None = None
    ) -> tuple[Nodes, PoolTraining, str]:
        """The candidates, trained; and what labelled neighbours give."""
        nodes, labels, classes = self._begin(X, y, train)
        check_enough(classes)
        if isinstance(self.base, list | tuple):
            raise SettingError("base", len(self.base), "one, of a pool", "set `depth=...` for a base by level")
        for name in OF_LEVELS:
            if (value := getattr(self, name)) != self.DECLARED[name].default:
                raise SettingError.saying(
                    f"`{name}={value!r}` is about levels, and without `templates` and `depth` there is a pool of "
                    "candidates instead: set `depth=1` too, or leave it out"
                )
        if self.base is not None:
            _check_node_base(self.base)
        known = self._known_in_training(labels)
        if known == "ceiling":
            raise SettingError.saying("a pool has no ceiling: set `depth=1` too, or templates")
        warn_of_few(int((labels >= 0).sum()), len(classes))
        warn_of_negative(nodes, tuple(nodes.relations))
        weights = None
        if sample_weight is not None or self.class_weight is not None:
            weights = node_weights(nodes, labels, classes, self.class_weight, sample_weight)
        fold = pool_folds(self, nodes, labels)
        with going_on(checkpoint, self, nodes, labels, weights, fold):
            training = PoolTraining.of(
                nodes, ClassTarget(classes), labels, fold, weights, known == "true", self.base, self.effort,
                self.random_state, resolve_jobs(self.n_jobs), speaker(self.verbose),
            )  # fmt: skip
        return nodes, training, known

    def predict_candidates(self, X: Any, forced: bool = False, known: Any = TRAIN) -> dict[str, Array]:
        """Of a pool: (n, L) by each candidate that has weight, and the local one; `forced` and `known` as in
        `predict`."""
        pool, nodes = self._pool(), self._nodes(X)
        tables = self._candidates(nodes, self._known(nodes, known, forced), [LOCAL])
        wanted = [LOCAL, *(name for name, weight in pool.weights.items() if weight > 0 and name != LOCAL)]
        return {name: nodes.to_nodes(np.asarray(tables[name], np.float64)) for name in wanted}

    def _candidates(self, nodes: Nodes, known: Known, also: Sequence[str] = ()) -> dict[str, Array]:
        """(n, L) by row, of those that have weight and `also` others."""
        pool, nothing = self._pool(), np.full(len(nodes.labels), -1, np.int32)
        self._warn_of_nobody(known)
        relations = {name: nodes.relations[name] for name in self.links_}
        pool.warn_of_weights(relations)
        ground = pool.ground(nodes.table, relations, resolve_jobs(self.n_jobs))
        labels, given = known.labels, None
        if known.trained and self.known_ != "true":
            rows, votes = self._remembered_votes(nodes, known)
            labels, given = nothing, (rows, dict(zip(pool.votes, votes, strict=True)))
        return pool.tables(ground, shown(pool.target, labels), given, also)

    def _warn_of_nobody(self, known: Known) -> None:
        if known.trained and self.known_ == "true" and not known.any:
            log.warning(
                "no node trained on is in this graph, so no neighbour's label is known, which the model was trained "
                "for; give known labels by `forced=True`, or train with `known='crossfit'`"
            )

    def _check_missing(self, nodes: Nodes) -> None:
        """A pool fills in for its own models; bases have to take NaN, and templates of features know none."""
        if not has_missing(nodes.table):
            return
        bases = [self.base] if self.pools or self.base is None else self._bases()
        others = [type(base).__name__ for base in bases if base is not None and not takes_missing(base)]
        if others:
            nodes.refuse_missing(others[0])
        elif self.templates is not None and any(one.of == "features" for one in as_templates(self.templates)):
            nodes.refuse_missing("templates of neighbours' features")

    def _training_nodes(self, X: Any) -> Nodes:
        """Folds are dealt by ids, and so are the same however a table is sorted, unless they are given."""
        return Nodes.by_ids(X) if isinstance(self.dealt, int | np.integer) else Nodes.of(X)

    def _prepared(self, X: Any, y: Any, sample_weight: Any, train: Any) -> tuple[NodeInstances, str]:
        """The nodes to learn from, and what labelled neighbours give."""
        nodes, labels, classes = self._begin(X, y, train)
        if self.base is None:
            raise SettingError.saying("base is missing: `StackedNodes(LogisticRegression(), templates=[...])`")
        bases, jobs = self._bases(), resolve_jobs(self.n_jobs)
        for base in bases:
            _check_node_base(base)
        weights = None
        if sample_weight is not None or self.class_weight is not None:
            weights = node_weights(nodes, labels, classes, self.class_weight, sample_weight)
        fold = folds_of(self, labels, nodes.groups, self.split, nodes.order)
        templates = (
            default_templates(self.templates, nodes, Count) if self.n_levels or self.templates is not None else []
        )
        ready = ReadyGraph.of(nodes, templates, len(classes), self.features, jobs)
        warn_of_negative(nodes, ready.template_set.relation_names())
        known = self._known_in_training(labels)
        revealed = labels if known == "true" else np.full(len(labels), -1, np.int32)
        if known == "ceiling":
            revealed = nodes.codes(classes, lenient=True)
        check_enough(classes)
        if self.n_levels:
            warn_of_fallback(bases[0])
        return NodeInstances(
            labels, revealed, fold, weights, jobs, ready.neighbourhood, ready.template_set, bases, ready, classes
        ), known

    def _known_in_training(self, labels: Array) -> str:
        return self.known if self.known != "auto" else "true" if (labels < 0).any() else "crossfit"

    # -- tables, in memory or in an engine --------------------------------------------------------------

    def fit_tables(
        self,
        nodes: Any,
        edges: Any,
        *,
        sample: int | None = None,
        most_links: int | None = None,
        **columns: Unpack[GraphColumns],
    ) -> Self:
        """Train on the graph in a table of nodes and one of links, where the `engine` has them.

        nodes, edges   tables as `Graph.from_frames` takes them; with an engine also files and globs, relations of
                       DuckDB, DataFrames of Spark. What the levels look at is brought into memory: labelled nodes, and
                       the neighbours they receive anything from
        sample         at most so many labelled nodes, by a hash of their ids and `random_state`; the labels of others
                       are as good as unknown. None: all
        most_links     at most so many links of a relation from each node, by a hash of the ids, so that a hub does not
                       bring everybody along; give `predict_tables` the same number. None: all
        columns        everything else, as in `Graph.from_frames`: id=, label= ("label" unless it is named), features=,
                       text=, source=, target=, relation=, weight=, ...
        """
        from kinfolk.graph.tables import fit_tables

        return cast(Self, fit_tables(self, nodes, edges, sample, most_links, columns))

    def predict_tables(
        self,
        nodes: Any,
        edges: Any,
        *,
        proba: bool = False,
        forced: bool = False,
        known: Any = TRAIN,
        most_links: int | None = None,
        predicted: str = "predicted",
        probability: str = "probability",
        into: Any = None,
        **columns: Unpack[GraphColumns],
    ) -> Any:
        """The table of nodes as it came, its rows in order and its columns kept, with a label for each.

        nodes, edges            as in `fit_tables`
        proba                   the probability of every class, in a column each, "probability_<class>"; otherwise one
                                column has that of the label
        forced, known           as in `predict`; with an engine `known` is "train" or "none"
        most_links              as in `fit_tables`
        predicted, probability  names of the new columns, which must be free
        into                    with an `engine`: a Parquet file to write, in the place of an answer; needed where
                                `nodes` are files
        columns                 everything else, as in `Graph.from_frames`, and as in training; features, weight= and
                                directed= are those of training unless others are named
        """
        from kinfolk.graph.tables import Asked, NewColumns, predict_tables

        self._require_fitted()
        new = NewColumns(predicted, probability, proba)
        return predict_tables(self, nodes, edges, Asked(forced, known, most_links, new, into), columns)

    # -- prediction -----------------------------------------------------------------------------------

    def predict_levels(self, X: Any, forced: bool = False, known: Any = TRAIN) -> list[Array]:
        """(n, L) by each level, from the base alone to the last; `forced` and `known` as in `predict`. Of a pool: the
        local model, then the pool."""
        nodes = self._nodes(X)
        if self.pool_ is not None:
            labels = self._known(nodes, known, forced)
            tables = self._candidates(nodes, labels, [LOCAL])
            found = [np.asarray(tables[LOCAL], np.float64), self.pool_.said(tables)]
            set_known(found[-1], labels.labels)
            return [nodes.to_nodes(table) for table in found]
        found = self._levels(self._predictor(nodes, self._known(nodes, known, forced), forced))
        return [nodes.to_nodes(table) for table in found]

    def at_depth(self, depth: int) -> Self:
        self._require_fitted()
        if self.pool_ is not None:
            raise SettingError.saying("a pool has no levels to leave out; `predict_candidates` has its parts")
        shallow = super().at_depth(depth)
        if self.memory_ is not None:
            shallow.memory_ = replace(self.memory_, votes=self.memory_.votes[:depth])
        return shallow

    def _probabilities(self, nodes: Nodes, known: Known) -> Array:
        if self.pool_ is not None:
            found = self.pool_.said(self._candidates(nodes, known))
            set_known(found, known.labels)
            return found
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
        if len(self.levels_) > 1:
            self._warn_of_nobody(known)
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
        """What each level says, what it received of neighbours, and what each aggregate changed; of a pool what each
        candidate adds."""
        if self.pool_ is not None:
            certain = known.without(node)
            tables = self._candidates(nodes, certain, [LOCAL])
            source = LABEL if known.labels[node] >= 0 else PREDICTION
            explained = explained_pool(self.pool_, tables, nodes, node, certain.labels, self.labels_.names, source)
            return finished(explained, report, type(self).__name__, self.labels_)
        predictor, runs = self._predictor(nodes, known), self.samples if self.predictions == "sample" else 1
        explained = explained_levels(predictor, runs, node, self.labels_.names, self._feature_names())
        return finished(explained, report, type(self).__name__, self.labels_)

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["stacked"]["known"] = self.known_
        if self.pool_ is not None:
            self.pool_.put(state)
        return state

    def relations_used(self) -> tuple[Sequence[str], Sequence[str]]:
        return (self.links_, ()) if self.pool_ is not None else super().relations_used()

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        self.known_ = file.header["stacked"]["known"]
        fits(self.known_ in ("true", "crossfit", "ceiling"))
        self.pool_ = None
        if "pool" in file.header:
            self.pool_ = pool = Pool.restored(file, ClassTarget(self.labels_), self._n_features, self.links_, trusted)
            self.levels_, self.unused_ = [], ()
            local = pool.models[LOCAL].model
            self.base = (
                clone_of(local.estimator) if isinstance(local, Learner) and local.estimator is not None else None
            )
            fits(self.memory_ is not None and len(self.memory_.votes) == len(pool.votes))
            return
        self.levels_ = self._restored_learners(file, trusted, bool(self.own), self.features)
        fits(self.memory_ is None or len(self.memory_.votes) in (0, len(self.levels_) - 1))
        fits(self.known_ != "crossfit" or self.memory_ is None or len(self.memory_.votes) == len(self.levels_) - 1)
