"""What models share that are a pool of candidates and nothing else, of targets that are given beside the graph.

A graph has one label a node; numbers, and several labels a node, come as y, in the order of its nodes. What is known of
nodes when a graph is predicted is as for every model of nodes: what those trained on had, found again by their ids.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.stacking import FOLDS
from kinfolk.core.checkpoint import check_checkpoint, going_on
from kinfolk.core.data import Classes
from kinfolk.core.modelfile import Functions, ModelFile, fits, names_in
from kinfolk.core.settings import FLAG, NONE, check_settings, one_of, setting, whole
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import speaker
from kinfolk.errors import DataWarning, InputError, SettingError, warn
from kinfolk.graph.asked import rows_named
from kinfolk.graph.candidates import LOCAL
from kinfolk.graph.gain import node_unit
from kinfolk.graph.learners import takes_missing
from kinfolk.graph.model import asked_nodes
from kinfolk.graph.nodes import (
    TRAIN,
    Memory,
    Nodes,
    check_relations,
    node_weights,
    put_memory,
    restored_memory,
    warn_of_other_weights,
    weighted_links,
)
from kinfolk.graph.pool import Pool, PoolTraining, pool_folds
from kinfolk.graph.some_nodes import SomeNodes
from kinfolk.graph.surroundings import Shown
from kinfolk.graph.targets import Target
from kinfolk.learning.gain import Counted, Gain, Guarded
from kinfolk.report.page import PathLike

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
ONE = Classes.of(["known"])  # in the place of classes, where only who was trained on counts
NOBODY = "none"


class Given(NamedTuple):
    """Targets as they came.

    values    (n,) or (n, L), one a node
    there     (n,), whether there is any
    beyond    (n,), how many labels a node has that the model does not know
    classes   of several labels: what columns stand for
    sets      whether they came as sets
    """

    values: Array
    there: NDArray[np.bool_]
    beyond: Array
    classes: Classes | None = None
    sets: bool = False

    def among(self, numbers: Array | None, n: int) -> Given:
        """These as those of some nodes among n, by number."""
        if numbers is None:
            return self
        values = np.zeros((n, *self.values.shape[1:]), self.values.dtype)
        there, beyond = np.zeros(n, bool), np.zeros(n, np.int64)
        values[numbers], there[numbers], beyond[numbers] = self[:3]
        return self._replace(values=values, there=there, beyond=beyond)

    def rows(self, nodes: Nodes) -> Given:
        """From the order of the nodes to that of rows."""
        values, there, beyond = (nodes.to_rows(part) for part in self[:3])
        return self._replace(values=values, there=there, beyond=beyond)


class Seen(NamedTuple):
    """What is known of nodes when a graph is predicted: their rows, which of those trained on they are (None: others),
    and their targets."""

    rows: NDArray[np.int64]
    which: NDArray[np.int64] | None
    targets: Array


@dataclass(eq=False, repr=False)
class PooledNodes(Guarded):
    """Abstract: a pool of candidates for the nodes of a Graph, whatever is told of them.

    Learned by `fit`: `pool_`, `weights_`, `folds_`, `known_` (what "auto" came to), `gain_` with a guard.
    """

    KIND: ClassVar[str] = "nodes"
    LOCAL: ClassVar[str] = f"its candidate {LOCAL!r}, as in `predict_candidates`"
    NOTHING: ClassVar[str] = "there is one candidate"
    METRIC: ClassVar[str]

    base: Any = setting(None, "in the place of the pool's own linear models and trees", in_file=False)
    effort: str = setting(
        "best", '"best" has all candidates; "fast" four of them, at a fraction of the cost', one_of("best", "fast")
    )
    folds: int | Sequence[int] | None = setting(
        None, "number of folds of cross-fitting, or the fold of each node. None: 3, of a large graph 2", FOLDS
    )
    _: KW_ONLY
    known: str = setting(
        "auto",
        'what a neighbour trained on gives: "true" what is known of it, or "crossfit" the prediction of a model that '
        'has not seen it, as new nodes do. "auto": "true" if the training graph has nodes to be predicted, else '
        '"crossfit"',
        one_of("auto", "true", "crossfit"),
    )
    split: str = setting(
        "auto",
        'folds by "group" (graph) or "instance"; "auto": by group where there are two or more',
        one_of("auto", "group", "instance"),
    )
    guard: int | bool | None = setting(
        None,
        "True: the cross-fitting by `folds` also tells whether the pool beats its local candidate (`gain_`, with an "
        "interval; a warning where it is not shown to). A number has to be that of `folds`. None or False: not "
        "measured",
        whole(2) | FLAG | NONE,
    )

    pool_: Pool = field(init=False)
    folds_: NDArray[np.int32] = field(init=False)
    known_: str = field(init=False)
    targets_: Array = field(init=False)
    memory_: Memory = field(init=False)
    links_: tuple[str, ...] = field(init=False)
    node_columns_: Sequence[str] | int = field(init=False)

    # -- what each is to say ----------------------------------------------------------------------------

    @abstractmethod
    def _check_base(self) -> None:
        """Refuse a base that tells something else."""

    @abstractmethod
    def _read(self, y: Any, ids: Sequence[str], trained: bool) -> Given:
        """Targets as they came, one for each of these nodes; of a model that is `trained` the same ones as then."""

    @abstractmethod
    def _begin(self, given: Given, mine: NDArray[np.bool_]) -> tuple[Target, Array, Array]:
        """Of targets by row, those `mine` to be trained on: what is told, (n, ...) what that is learned from, and (n,)
        codes that folds have an even share of."""

    @abstractmethod
    def _answers(self, said: Array, seen: Seen | None) -> Array:
        """(n, ...) by row: what the pool says as it is told, with what is known."""

    @abstractmethod
    def _votes_of(self, targets: Array) -> Array:
        """(k, ...), known targets as the pool has learned them."""

    @abstractmethod
    def _right(self, said: Array, targets: Array) -> tuple[Array, Array]:
        """(m, 2) a and b of each node, whose sums' ratio is the score; and (m, ...) answers that may differ."""

    # -- learning -------------------------------------------------------------------------------------

    @property
    def dealt(self) -> Any:
        """`folds`, also where they are not set."""
        return 3 if self.folds is None else self.folds

    @property
    def n_levels(self) -> int:
        return 1

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "pool_")

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        train: Any = None,
        *,
        checkpoint: PathLike | None = None,
    ) -> Self:
        """Train on a Graph, with y beside it.

        y              one target a node, in the order of the nodes, or id -> target; None: the labels of the graph
        sample_weight  one number a node; a base has to take it
        train          truth values, numbers or ids of the nodes whose targets may be used; None: all that have one
        checkpoint     a file that `fit` goes on from if it was stopped, as in `StackedNodes.fit`
        """
        check_settings(self)
        check_checkpoint(checkpoint)
        graph = X.graph if isinstance(X, SomeNodes) else X
        nodes = Nodes.by_ids(graph) if isinstance(self.dealt, int | np.integer) else Nodes.of(graph)
        if self.base is not None:
            self._check_base()
        self._check_missing(nodes)
        given = self._given(X, y, nodes, False)
        mine = given.there if train is None else given.there & nodes.mask(train, "train")
        if mine.sum() < 2:
            what = "none of the nodes to train on has one" if not mine.any() else "only one node to train on has one"
            raise InputError(f"training needs {self.WANTED}, and {what}; give y for two nodes or more")
        target, labels, codes = self._begin(given, mine)
        codes = np.where(mine, codes, np.int32(-1)).astype(np.int32)
        known = self.known if self.known != "auto" else "crossfit" if mine.all() else "true"
        counts = None if sample_weight is None else node_weights(nodes, np.where(mine, 0, -1), ONE, None, sample_weight)
        guards, fold = self._guards(), pool_folds(self, nodes, codes)
        with going_on(checkpoint, self, nodes, labels, counts, fold), self._all_or_nothing():
            training = PoolTraining.of(
                nodes, target, labels, fold, counts, known == "true", self.base, self.effort, self.random_state,
                resolve_jobs(self.n_jobs), speaker(self.verbose),
            )  # fmt: skip
            self._keep(training, nodes, known, given, mine)
            self.gain_ = self._measured(training, nodes) if guards and len(training.names()) > 1 else None
        self._tell_gain()
        return self

    WANTED: ClassVar[str] = "targets"

    def _given(self, X: Any, y: Any, nodes: Nodes, trained: bool) -> Given:
        """Targets by row, of a graph or of some nodes of one."""
        n, numbers = len(nodes.labels), X.numbers if isinstance(X, SomeNodes) else None
        ids = list(nodes.ids) if nodes.order is None else nodes.to_nodes(np.array(nodes.ids, object)).tolist()
        if numbers is not None:
            ids = [ids[i] for i in numbers.tolist()]
            if len({*ids}) < len(ids):
                raise InputError("a node is among these twice, and y may have two targets for it; name each once")
        if y is None:
            own = nodes.to_nodes(np.array([*nodes.classes, None], object)[nodes.labels])
            y = self._own(own if numbers is None else own[numbers], nodes)
        if isinstance(y, Mapping):
            at, found = rows_named(list(y), ids, "y"), np.full(len(ids), None, object)
            for i, value in zip(at.tolist(), y.values(), strict=True):
                found[i] = value
            y = found.tolist()
        return self._read(y, ids, trained).among(numbers, n).rows(nodes)

    @abstractmethod
    def _own(self, labels: Array, nodes: Nodes) -> Any:
        """The labels of a graph, None where there is none, as y."""

    def _guards(self) -> bool:
        if not self.guard:
            return False
        dealt = self.dealt
        folds = int(dealt) if isinstance(dealt, int | np.integer) else len(np.unique(np.asarray(dealt)))
        if not isinstance(self.guard, bool) and self.guard != folds:
            what = f"True or {folds}, the number of `folds`, by which a pool is measured"
            raise SettingError("guard", self.guard, what, f"set `guard={folds}`, or `folds={self.guard}` too")
        return True

    def _keep(self, training: PoolTraining, nodes: Nodes, known: str, given: Given, mine: NDArray[np.bool_]) -> None:
        """Set what is learned."""
        self.pool_, self.known_ = training.finished(), known
        self.folds_, self.node_columns_ = nodes.to_nodes(training.fold), nodes.columns
        self.links_, self.targets_ = tuple(nodes.relations), given.values[mine]
        trained_on = np.where(training.fold >= 0, 0, -1).astype(np.int32)
        self.memory_ = Memory.of(nodes, trained_on, self.links_, list(self.pool_.votes.values()))

    def _measured(self, training: PoolTraining, nodes: Nodes) -> Gain:
        """What the pool gains over its local candidate, by models and weights that have not seen a node."""
        rows, counted = training.train, Counted()
        unit = nodes.groups[rows] if node_unit(nodes, training.fold) == "graphs" else rows
        _, unit = np.unique(unit, return_inverse=True)
        parts, answers = [], []
        alone = [name for name, weight in self.pool_.weights.items() if weight > 0] == [LOCAL]
        local = training.unseen[LOCAL]
        for said in (local, local if alone else training.estimate()):
            table, answer = self._right(said, training.labels[rows])
            parts.append(np.stack([np.bincount(unit, table[:, i]) for i in range(2)], axis=1))
            answers.append(answer.reshape(len(rows), -1))
        counted.add(parts[0], parts[1], int((answers[0] != answers[1]).any(axis=1).sum()))
        return counted.gain(self.METRIC, node_unit(nodes, training.fold), training.n_folds)

    @property
    def weights_(self) -> dict[str, float]:
        """The candidates and what they weigh; those of weight 0 have no part in the answers."""
        self._require_fitted()
        return dict(self.pool_.weights)

    # -- prediction -----------------------------------------------------------------------------------

    def _predicted(self, X: Any, nodes: Any, known: Any) -> Array:
        """Answers by node, of those asked for."""
        self._require_fitted()
        graph, asked = asked_nodes(X, nodes)
        seen_nodes = self._nodes(graph)
        seen = self._seen(graph, seen_nodes, known)
        found = seen_nodes.to_nodes(self._answers(self._pooled(seen_nodes, seen, known), seen))
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise InputError(
                "the answers have no finite numbers: look for very large features and, in the model, very large weights"
            )
        return found if asked is None else found[asked]

    def predict_candidates(self, X: Any, known: Any = TRAIN) -> dict[str, Array]:
        """What each candidate says that has weight, and the local one; `known` as in `predict`."""
        self._require_fitted()
        X, _ = asked_nodes(X, None)
        nodes = self._nodes(X)
        tables = self._tables(nodes, self._seen(X, nodes, known), known, [LOCAL])
        names = [LOCAL, *(name for name, weight in self.pool_.weights.items() if weight > 0 and name != LOCAL)]
        return {name: nodes.to_nodes(self._answers(np.asarray(tables[name], np.float64), None)) for name in names}

    def known_nodes(self, X: Any, known: Any = TRAIN) -> NDArray[np.bool_]:
        """(n,), the nodes of a graph that are known when it is predicted. They are not scored."""
        self._require_fitted()
        X, _ = asked_nodes(X, None)
        nodes = self._nodes(X)
        found = np.zeros(len(nodes.labels), bool)
        found[self._seen(X, nodes, known, tell=False).rows] = True
        return nodes.to_nodes(found)

    def _nodes(self, X: Any) -> Nodes:
        nodes = Nodes.of(X, self.node_columns_)
        self._check_missing(nodes)
        check_relations(nodes, self.links_, ())
        warn_of_other_weights(weighted_links(nodes.relations, self.links_), self.memory_.weighted)
        return nodes

    def _check_missing(self, nodes: Nodes) -> None:
        """The pool fills in for its own models; a base has to take NaN."""
        if self.base is not None and not takes_missing(self.base):
            nodes.refuse_missing(type(self.base).__name__)

    def _seen(self, graph: Any, nodes: Nodes, known: Any, tell: bool = True) -> Seen:
        """What the argument `known` of `predict` means for a graph."""
        nothing = np.empty(0, np.int64)
        if isinstance(known, str):
            if known not in (TRAIN, NOBODY):
                raise SettingError("known", known, "'train', 'none', or what is known: one a node, or by id")
            if known == NOBODY:
                return Seen(nothing, None, self.targets_[:0])
            rows, which = self.memory_.again(nodes)
            if tell:
                self._tell_known(len(rows), len(nodes.labels))
            return Seen(rows, which, self.targets_[which])
        given = self._given(graph, known, nodes, True)
        if not given.there.any():
            raise InputError("`known=...` says what is known of nodes, and nothing is known of any; leave it out")
        if given.beyond.any():
            raise InputError("`known=...` has labels that were never seen in training; leave these out")
        rows = np.flatnonzero(given.there)
        return Seen(rows, None, given.values[rows])

    def _tell_known(self, number: int, n: int) -> None:
        if number:
            log.info("%s of %s nodes are known; `known='none'` to predict without", f"{number:,}", f"{n:,}")
        elif self.known_ == "true":
            log.warning(
                "no node trained on is in this graph, so nothing is known of any neighbour, which the model was "
                "trained for; say what is known by `known=...`, or train with `known='crossfit'`"
            )
        if number == n > 0:
            warn(
                "every node of this graph was trained on: what comes out is what went in; `known='none'` gives what "
                "the model predicts for them",
                DataWarning,
            )

    def _pooled(self, nodes: Nodes, seen: Seen, known: Any) -> Array:
        return self.pool_.said(self._tables(nodes, seen, known))

    def _tables(self, nodes: Nodes, seen: Seen, known: Any, also: Sequence[str] = ()) -> dict[str, Array]:
        """(n, width) by row, of candidates that have weight and `also` others."""
        pool = self.pool_
        relations = {name: nodes.relations[name] for name in self.links_}
        pool.warn_of_weights(relations)
        ground = pool.ground(nodes.table, relations, resolve_jobs(self.n_jobs))
        given, rows = None, seen.rows
        if seen.which is not None and self.known_ != "true":
            votes = {name: votes[seen.which] for name, votes in zip(pool.votes, self.memory_.votes, strict=True)}
            given, rows = (seen.rows, votes), rows[:0]
        shown = Shown(rows, pool.target.certain(self._votes_of(seen.targets[: len(rows)])))
        return pool.tables(ground, shown, given, also)

    # -- scores ---------------------------------------------------------------------------------------

    def score(self, X: Any, y: Any = None, nodes: Any = None, known: Any = TRAIN) -> float:
        self._require_fitted()
        graph, asked = asked_nodes(X, nodes)
        seen_nodes = self._nodes(graph)
        given = self._given(X, y, seen_nodes, True)
        counts = given.there
        if asked is not None:
            counts = counts & seen_nodes.to_rows(np.isin(np.arange(len(counts)), asked))
        if not counts.any():
            raise InputError(f"scoring needs {self.WANTED}, and none of the nodes asked for has one; give them as y")
        seen = self._seen(graph, seen_nodes, known, tell=False)
        rest = counts.copy()
        rest[seen.rows] = False
        if not rest.any():
            if not (isinstance(known, str) and known == TRAIN):
                raise InputError("every node with a target is known, so none is left to score: name fewer as known")
            warn(
                "every node with a target was trained on: they are scored without being known, and far too well; keep "
                "some back with `fit(graph, y, train=...)`",
                DataWarning,
            )
            rest, known, seen = counts, NOBODY, Seen(seen.rows[:0], None, self.targets_[:0])
        rows = np.flatnonzero(rest)
        return self._score(self._answers(self._pooled(seen_nodes, seen, known), seen)[rows], given, rows)

    @abstractmethod
    def _score(self, answers: Array, given: Given, rows: Array) -> float:
        """Of answers for these rows."""

    # -- model files ----------------------------------------------------------------------------------

    @abstractmethod
    def _target(self, file: ModelFile) -> Target:
        """What is told, by what a file kept."""

    def head(self) -> dict[str, Any]:
        """A file keeps the number of folds, also of those given by node."""
        head = super().head()
        if not isinstance(self.dealt, int | np.integer):
            head["settings"]["folds"] = int(self.folds_.max()) + 1
        return head

    def to_state(self) -> ModelFile:
        named = not isinstance(self.node_columns_, int)
        state = ModelFile({**self.head(), "columns": None if named else self.node_columns_, "known": self.known_})
        if named:
            state.strings["columns"] = list(self.node_columns_)  # type: ignore[arg-type]
        state.header["relations"] = list(self.links_)
        state.arrays["targets"] = self.targets_
        put_memory(state, self.memory_)
        self.pool_.put(state)
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        from sklearn.base import clone

        target, header = self._target(file), file.header
        width = header["columns"]
        self.node_columns_ = tuple(file.strings["columns"]) if width is None else int(width)
        self.links_, self.known_ = names_in(header["relations"]), header["known"]
        fits(self.known_ in ("true", "crossfit"))
        n_features = self.node_columns_ if isinstance(self.node_columns_, int) else len(self.node_columns_)
        self.pool_ = pool = Pool.restored(file, target, n_features, self.links_, trusted)
        memory = restored_memory(file, target.width)
        fits(memory is not None and len(memory.votes) == len(pool.votes))
        assert memory is not None
        self.memory_, self.targets_ = memory, file.arrays["targets"]
        fits(len(self.targets_) == len(memory.nodes))
        local = pool.models[LOCAL]
        learners = [one for one in pool.learners if one.estimator is not None] if local.what.kind == "base" else []
        self.base = clone(learners[0].estimator) if learners else None

    def all_learners(self) -> list[Any]:
        """Every trained base of scikit-learn that a file keeps."""
        return [one for one in self.pool_.learners if one.estimator is not None]
