"""Nodes labelled by the probabilities of some other model, and by the company they keep.

Candidates, pooled by their log-loss on labels that they have not seen (`graph.pool`):

    given                    the probabilities as they came
    given, corrected         the same, with errors at known nodes spread along links
    company, company twice   a linear model, or trees, that see of a node what was given of it and what neighbours are
                             known, or were given, to be; twice: what it says itself of neighbours
    company and features     the same, with features of the node and means of its neighbours'; smooth features alone

A node without any neighbour has no company, and what was given is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.given import Given, doubt, warn_of_in_sample, warn_of_less_sure
from kinfolk.collective.layer import GIVEN, CollectiveLayer
from kinfolk.collective.templates import set_known
from kinfolk.core.checkpoint import check_checkpoint, going_on
from kinfolk.core.data import Classes
from kinfolk.core.modelfile import Functions, ModelFile, fits, restored
from kinfolk.core.row_index import index_of, is_plain
from kinfolk.core.settings import FLAG, NONE, check_settings, one_of, setting, whole
from kinfolk.core.table import id_name
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import speaker
from kinfolk.errors import DataWarning, InputError, SettingError, warn
from kinfolk.graph.candidates import (
    CORRECTED,
    LINEAR,
    SAID,
    SAID_AROUND,
    SAID_TREES,
    SMOOTH,
    TREES_KIND,
    Candidate,
    Ground,
)
from kinfolk.graph.explain import finished
from kinfolk.graph.graph import Graph
from kinfolk.graph.learners import check_enough
from kinfolk.graph.model import NodeModel, NodeScores
from kinfolk.graph.nodes import TRAIN, Known, Memory, Nodes, warn_of_negative
from kinfolk.graph.page import LABEL, PREDICTION, NodeExplanation
from kinfolk.graph.pool import Pool, PoolTraining, pool_folds
from kinfolk.graph.pool_features import Columns
from kinfolk.graph.some_nodes import SomeNodes
from kinfolk.graph.stacked import explained_pool, pool_gain, shown, warn_of_few
from kinfolk.graph.surroundings import Surroundings
from kinfolk.graph.targets import ClassTarget
from kinfolk.learning.gain import Gain
from kinfolk.report.page import PathLike

Array = NDArray[Any]
COMPANY, FEATURES = "company", "company and features"
KNOWN = one_of("auto", "true", "crossfit")
WHAT = "what the model given says"  # the first level of an explanation


def layer_candidates(known: bool, trees: bool, features: bool) -> list[Candidate]:
    """Those above what was given.

    known      whether labels of neighbours will be known, without which nothing is corrected
    trees      whether there are few enough nodes to ask trees about
    features   whether nodes have any, and they are to be looked at
    """
    found = [Candidate(GIVEN, GIVEN, SAID)]
    found += [Candidate(f"{GIVEN}, corrected", CORRECTED, SAID, after=(GIVEN,))] * known
    found += [
        Candidate(COMPANY, LINEAR, SAID, 1.0, (GIVEN,)),
        Candidate(f"{COMPANY} twice", LINEAR, SAID, 1.0, (COMPANY,)),
    ]
    found += [Candidate(f"{COMPANY}, trees", TREES_KIND, SAID, after=(GIVEN,))] * trees
    if features:
        found += [
            Candidate("smooth features", LINEAR, SMOOTH, 2.0),
            Candidate(FEATURES, LINEAR, SAID_AROUND, 0.1, (GIVEN,)),
        ]
        found += [Candidate(f"{FEATURES}, trees", TREES_KIND, SAID_TREES, after=(GIVEN,))] * trees
    return found


class GuardedClasses(ClassTarget):
    """Classes of a pool that is not to lose to what was given."""

    GUARDED: ClassVar[bool] = True


@final
@dataclass(eq=False, repr=False)
class PooledNodes(NodeModel):
    """A trained layer as other models of nodes are; `given_` is what was given of the nodes it is asked about."""

    features: bool = setting(True, "as in NodeLayer", FLAG)
    folds: int | None = setting(None, "as in NodeLayer", whole(2) | NONE)
    known: str = setting("auto", "as in NodeLayer", KNOWN)

    split: ClassVar[str] = "auto"
    n_levels: ClassVar[int] = 1

    pool_: Pool = field(init=False)
    known_: str = field(init=False)
    doubt_: float = field(init=False)
    gain_: Gain | None = field(init=False, default=None)
    given_: Array = field(init=False)

    @property
    def dealt(self) -> int:
        return 3 if self.folds is None else self.folds

    # -- learning -------------------------------------------------------------------------------------

    def fit(self, X: Any, given: Given, train: Any) -> Self:
        """Train on the labelled nodes of a graph, and what was given of all nodes."""
        nodes, labels, classes = self._begin(X, None, train)
        check_enough(classes)
        table, mine = nodes.to_rows(given.aligned(classes)), labels >= 0
        warn_of_in_sample(table, labels)
        self.doubt_ = doubt(table[mine])
        warn_of_less_sure(self.doubt_, table[~mine])
        warn_of_few(int(mine.sum()), len(classes))
        warn_of_negative(nodes, tuple(nodes.relations))
        self.known_ = self.known if self.known != "auto" else "crossfit" if mine.all() else "true"
        self._trained_on(nodes, labels, classes, tuple(nodes.relations))
        training = self._training(nodes, labels, classes, table.astype(np.float32))
        self._weigh(training, nodes)
        votes = list(self.pool_.votes.values())
        self.memory_ = Memory.of(nodes, labels, self.links_, votes)
        return self

    def _training(self, nodes: Nodes, labels: Array, classes: Classes, given: Array) -> PoolTraining:
        """All candidates, trained; of a graph without links the one given alone."""
        jobs, target, n = resolve_jobs(self.n_jobs), GuardedClasses(classes), len(labels)
        around, table = Surroundings.of(nodes.relations, n, target.width, n_jobs=jobs), self._table(nodes)
        ground = Ground(table, Columns.learn(table, self.random_state), around, target.UNIT, given)
        together = ~alone(around)
        known, wanted = self.known_ == "true", [Candidate(GIVEN, GIVEN, SAID)]
        if (together & (labels >= 0)).any():
            wanted = layer_candidates(known, target.asks_trees(n), table.shape[1] > 0)
        else:
            warn(
                "no labelled node has a neighbour, so there is no company to learn from: what was given is the answer",
                DataWarning,
            )
        counts = None if together.all() else together.astype(np.float64)  # who has no company has no say in it
        return PoolTraining(
            ground, target, labels, pool_folds(self, nodes, labels), counts if len(wanted) > 1 else None, known, None,
            self.random_state, jobs, speaker(self.verbose), GIVEN,
        ).run(wanted)  # fmt: skip

    def _weigh(self, training: PoolTraining, nodes: Nodes) -> None:
        """Of a pool that is not surely better than what was given, on folds not seen, or is right less often, that
        alone is left, as it came."""
        self.pool_, self.gain_ = training.finished(), None
        if len(training.names()) > 1:
            self.gain_ = pool_gain(training, nodes, None if training.counts is None else training.counts > 0)
        carrying = [name for name, weight in self.pool_.weights.items() if weight > 0]
        if carrying == [GIVEN] or (self.gain_ is not None and self.gain_.gain < 0):
            self.pool_ = replace(self.pool_, weights={name: float(name == GIVEN) for name in self.pool_.weights})

    def _table(self, nodes: Nodes) -> Any:
        """Features of nodes, none where they are not to be looked at."""
        return nodes.table if self.features else np.zeros((len(nodes.labels), 0))

    def _training_nodes(self, X: Any) -> Nodes:
        return Nodes.by_ids(X)

    def _check_missing(self, nodes: Nodes) -> None:
        """The pool fills in for its models."""

    # -- prediction -----------------------------------------------------------------------------------

    def given(self, X: Any, given: Given) -> PooledNodes:
        """The same model, asked with what was given of the nodes of a graph."""
        asked = copy(self)
        asked.given_ = given.aligned(self.labels_, tells=False)
        return asked

    def _probabilities(self, nodes: Nodes, known: Known) -> Array:
        ground, tables = self.tables(nodes, known)
        found, isolated = self.pool_.said(tables), alone(ground.surroundings)
        found[isolated] = tables[GIVEN][isolated]
        set_known(found, known.labels)
        return found

    def tables(self, nodes: Nodes, known: Known) -> tuple[Ground, dict[str, Array]]:
        """(n, L) by row, of the candidates that have weight and the one given."""
        pool, nothing = self.pool_, np.full(len(nodes.labels), -1, np.int32)
        relations = {name: nodes.relations[name] for name in self.links_}
        table = nodes.to_rows(self.given_)
        warn_of_less_sure(self.doubt_, table[known.labels < 0])
        ground = pool.ground(self._table(nodes), relations, resolve_jobs(self.n_jobs), table.astype(np.float32))
        labels, given = known.labels, None
        if known.trained and self.known_ != "true":
            assert self.memory_ is not None
            rows, which = self.memory_.with_the_same_id(nodes.ids)
            kept = known.labels[rows] >= 0
            votes = {name: one[which[kept]] for name, one in zip(pool.votes, self.memory_.votes, strict=True)}
            labels, given = nothing, (rows[kept], votes)
        found = pool.tables(ground, shown(pool.target, labels), given, [GIVEN])
        return ground, {**found, GIVEN: table}

    def _explanation(self, nodes: Nodes, node: int, known: Known, report: PathLike | None) -> NodeExplanation:
        certain = known.without(node)
        ground, tables = self.tables(nodes, certain)
        pool = self.pool_
        if alone(ground.surroundings)[node]:
            pool = replace(pool, weights={GIVEN: 1.0})
        source = LABEL if known.labels[node] >= 0 else PREDICTION
        explained = explained_pool(
            pool, tables, nodes, node, certain.labels, self.labels_.names, source, (GIVEN, WHAT)
        )  # fmt: skip
        return finished(explained, report, "NodeLayer", self.labels_)

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["layer"] = {"known": self.known_, "doubt": self.doubt_}
        self.pool_.put(state)
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        layer = file.header["layer"]
        self.known_, self.doubt_ = str(layer["known"]), float(layer["doubt"])
        fits(self.known_ in ("true", "crossfit") and 0 <= self.doubt_ <= 1)
        width = self._n_features if self.features else 0
        self.pool_ = Pool.restored(file, GuardedClasses(self.labels_), width, self.links_, trusted)
        fits(GIVEN in self.pool_.models and GIVEN in self.pool_.weights)
        fits(self.memory_ is not None and len(self.memory_.votes) == len(self.pool_.votes))


def alone(around: Surroundings) -> NDArray[np.bool_]:
    """(n,), who has no neighbour at all."""
    return np.asarray(around.views[0].degree == 0)


def graph_of(X: Any) -> Any:
    """The whole graph, of some nodes of it too."""
    found = X.graph if isinstance(X, SomeNodes) else X
    if not isinstance(found, Graph):
        raise InputError(f"expected a Graph, or some nodes of one; got {type(found).__name__}")
    return found


# -- the model ----------------------------------------------------------------------------------------


@final
@dataclass(eq=False, repr=False)
class NodeLayer(CollectiveLayer):
    """The labels of nodes, made consistent: a layer over the probabilities that any model gave (a classifier of texts
    or of tables, a network, a service), which learns from labelled nodes what links add.

    Learned by `fit`: `classes_`, `weights_` (of what was given, and of the candidates above it), and `gain_`, what the
    pool adds to what was given, with an interval over nodes.
    """

    known: str = setting(
        "auto",
        'what a neighbour trained on gives: "true" its label, or "crossfit" a prediction of a model that has not seen '
        'it, as new nodes do. "auto": "true" if the training graph has nodes without label, else "crossfit"',
        KNOWN,
    )

    pool_: PooledNodes = field(init=False)

    def fit(
        self,
        X: Any,
        probabilities: Any,
        *,
        train: Any = None,
        classes: Any = None,
        checkpoint: PathLike | None = None,
    ) -> Self:
        """Train on the labelled nodes of a graph.

        X               a Graph
        probabilities   of every node, in the order of the graph: an array (nodes, classes), or a data frame with a
                        column a class, whose index has the ids, in any order, or only numbers the rows. Those of nodes
                        trained on have to be by a model that has not seen their labels (`out_of_fold`)
        train           a mask, numbers or ids of the nodes whose labels may be used; None: all labelled ones
        classes         the labels that columns stand for
        checkpoint      a file that `fit` goes on from if it was stopped, as in `StackedNodes.fit`
        """
        check_settings(self)
        check_checkpoint(checkpoint)
        if not isinstance(self.features, bool):
            raise SettingError("features", self.features, "True or False, of nodes", "features are those of the graph")
        given = given_of(X, probabilities, classes)
        settings = {
            name: getattr(self, name) for name in ("features", "folds", "known", "random_state", "n_jobs", "verbose")
        }
        nodes = None if checkpoint is None else Nodes.of(X)
        with going_on(checkpoint, self, nodes, given, train), self._all_or_nothing():
            self.names_ = given.names
            self.pool_ = PooledNodes(**settings).fit(X, given, train)
            self.weights_, self.gain_ = self.pool_.pool_.weights, self.pool_.gain_
        self._tell()
        return self

    @property
    def classes_(self) -> Array:
        """The labels that columns of `predict_proba` stand for."""
        self._require_fitted()
        return self.pool_.classes_

    def _asked(self, X: Any, probabilities: Any, classes: Any) -> PooledNodes:
        self._require_fitted()
        return self.pool_.given(X, given_of(X, probabilities, self.names_ if classes is None else classes))

    def predict(
        self, X: Any, probabilities: Any, *, classes: Any = None, known: Any = TRAIN, nodes: Any = None
    ) -> Array:
        """One label a node.

        X               a graph, or some nodes of one (`graph.nodes_at(...)`): answers are for these alone
        probabilities   of every node of the graph, as in `fit`
        classes         the labels that columns stand for; None: as in training
        known, nodes    as in `StackedNodes.predict`
        """
        return self._asked(X, probabilities, classes).predict(X, known=known, nodes=nodes)

    def predict_proba(
        self, X: Any, probabilities: Any, *, classes: Any = None, known: Any = TRAIN, nodes: Any = None
    ) -> Array:
        """(n, L), columns as `classes_`; arguments as in `predict`."""
        return self._asked(X, probabilities, classes).predict_proba(X, known=known, nodes=nodes)

    def predict_candidates(
        self, X: Any, probabilities: Any, *, classes: Any = None, known: Any = TRAIN
    ) -> dict[str, Array]:
        """(n, L) by each candidate that has weight, and what was given."""
        asked = self._asked(X, probabilities, classes)
        seen = asked._nodes(graph_of(X))
        _, tables = asked.tables(seen, asked._known(seen, known, False))
        names = [GIVEN, *(name for name, weight in self.weights_.items() if weight > 0 and name != GIVEN)]
        return {name: seen.to_nodes(np.asarray(tables[name], np.float64)) for name in names}

    def score(
        self, X: Any, probabilities: Any, y: Any = None, *, classes: Any = None, known: Any = TRAIN, nodes: Any = None
    ) -> float:
        """Accuracy over labelled nodes that are not known, from 0 to 1."""
        return self._asked(X, probabilities, classes).score(X, y, known, nodes)

    def evaluate(
        self, X: Any, probabilities: Any, y: Any = None, *, classes: Any = None, known: Any = TRAIN, nodes: Any = None,
        report: PathLike | None = None,
    ) -> NodeScores:  # fmt: skip
        """Over the labelled nodes that are not known; `report`: also as a page."""
        return self._asked(X, probabilities, classes).evaluate(X, y, report, known, nodes)

    def explain(
        self, X: Any, probabilities: Any, node: Any, *, classes: Any = None, known: Any = TRAIN,
        report: PathLike | None = None,
    ) -> NodeExplanation:  # fmt: skip
        """Why a node, by id or number, has its label: what was given of it, what every candidate says, what the others
        would say without it, and its neighbours; `report`: also as a page."""
        found = self._asked(X, probabilities, classes).explain(graph_of(X), node, report, known=known)
        assert isinstance(found, NodeExplanation)
        return found

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["pool"] = state.add("pool", self.pool_.to_state())
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        self.pool_ = restored(file.part("pool", file.header["pool"]), functions, trusted)
        fits(isinstance(self.pool_, PooledNodes))
        self.weights_, self.features = self.pool_.pool_.weights, self.pool_.features

    def all_learners(self) -> list[Any]:
        """Every trained base of scikit-learn that a file keeps."""
        return [one for one in self.pool_.pool_.learners if one.estimator is not None]


def given_of(X: Any, probabilities: Any, classes: Any) -> Given:
    """Probabilities of the nodes of a graph, in its order. A data frame without an index of its own stands in that
    order; the index of any other has to have the ids, each once, by which rows are put in that of the graph."""
    graph = graph_of(X)
    index = index_of(probabilities)
    if index is not None and not is_plain(index):
        probabilities = probabilities.iloc[_rows_by_id(index, graph.ids)]
    return Given.of(probabilities, graph.n_nodes, classes, "node")


def _rows_by_id(index: Any, ids: Sequence[str]) -> list[int]:
    """Of every node the row of the frame."""
    remedy = "put the ids in the index, each once; of rows in the order of the graph give frame.reset_index(drop=True)"
    nodes, place = {*ids}, dict[str, int]()
    for row, key in enumerate(index):
        name = id_name(key)
        if name not in nodes:
            raise InputError(
                f"the index of the data frame has {key!r} (row {row}), which is no node of the graph: {remedy}"
            )
        if name in place:
            raise InputError(f"the index of the data frame has {key!r} twice (rows {place[name]} and {row}): {remedy}")
        place[name] = row
    missing = next((key for key in ids if key not in place), None)
    if missing is not None:
        raise InputError(f"the index of the data frame lacks the node {missing!r}, of {len(ids)} nodes: {remedy}")
    return [place[key] for key in ids]
