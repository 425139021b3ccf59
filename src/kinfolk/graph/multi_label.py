"""Any number of labels for every node of a graph, each with a probability of its own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.data import Classes, check_labels, label_names, warn_unseen
from kinfolk.core.modelfile import Functions, ModelFile, fits
from kinfolk.core.settings import number, setting
from kinfolk.errors import DataWarning, InputError, warn
from kinfolk.graph.learners import check_base
from kinfolk.graph.nodes import TRAIN, Nodes
from kinfolk.graph.pool import PoolTraining
from kinfolk.graph.pooled import Given, PooledNodes, Seen
from kinfolk.graph.targets import MarkTarget, Target

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
EXPECTED = "y must be 0 and 1 (n, L), an array, sparse or a table of named columns, or a list of sets of labels"


class Marks(NamedTuple):
    """Labels of nodes (n, L) 0 or 1, -1 where nothing is known; which labels; whether they came as sets; and (n,) how
    many others a node has."""

    table: NDArray[np.int8]
    classes: Classes
    sets: bool
    beyond: Array


class Varied(NamedTuple):
    """(L,), whether nodes trained on differ in a label, how many have it, and their share with half a node more of
    either kind."""

    varied: NDArray[np.bool_]
    number: NDArray[np.int64]
    share: NDArray[np.float64]

    @classmethod
    def of(cls, table: Array) -> Varied:
        count = table.sum(axis=0, dtype=np.int64)
        return cls((count > 0) & (count < len(table)), count, (count + 0.5) / (len(table) + 1))


@final
@dataclass(eq=False, repr=False)
class MultiLabelNodes(PooledNodes):
    """Labels of the nodes of a Graph of which each may have several, told with an eye to their neighbours.

    A pool of candidates, as `StackedNodes()` is where a node has one label (docs/nodes.md): logistic regressions and
    trees, or `base` in their place, any scikit-learn classifier, one for each label, on own features, on those of
    neighbours, and on what neighbours are known or predicted to have, weighed by what they say of labels that they have
    not seen, all labels together. Where that is not shown to be better than the local candidate, which sees features of
    its own alone, this one answers. A label that no node trained on has, or every one, gets one probability everywhere.

    Learned by `fit`: `classes_`, `weights_`, `folds_`, `known_` (what "auto" came to), with a guard `gain_`, in
    micro-F1.
    """

    METRIC: ClassVar[str] = "micro-F1"
    WANTED: ClassVar[str] = "labels"

    _: KW_ONLY
    threshold: float = setting(0.5, "probability from which on a node is told to have a label", number(0, 1))

    labels_: Classes = field(init=False)
    varied_: NDArray[np.bool_] = field(init=False)
    shares_: NDArray[np.float64] = field(init=False)
    sets_: bool = field(init=False)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_label=True)
        tags.target_tags.multi_output = True
        return tags

    def _check_base(self) -> None:
        check_base(self.base)

    @property
    def classes_(self) -> Array:
        """The labels that columns stand for: as they were named, numbers from 0 of an array; those of sets sorted."""
        self._require_fitted()
        return self.labels_.array()

    # -- what is told ---------------------------------------------------------------------------------

    def _own(self, labels: Array, nodes: Nodes) -> Any:
        if not len(nodes.classes):
            raise InputError("training needs labels, and this graph has none; give them as y")
        return [None if label is None else {label} for label in labels.tolist()]

    def _read(self, y: Any, ids: Sequence[str], trained: bool) -> Given:
        marks = _marks(y, ids, self.labels_ if trained else None)
        there = np.asarray((marks.table >= 0).all(axis=1))
        half = np.flatnonzero(~there & (marks.table >= 0).any(axis=1))
        if len(half):
            raise InputError(
                f"of a node all labels are known, or none; node {ids[half[0]]!r} has some that are missing: fill them "
                "in, or make the whole row missing"
            )
        return Given(np.maximum(marks.table, 0), there, marks.beyond, marks.classes, marks.sets)

    def _begin(self, given: Given, mine: NDArray[np.bool_]) -> tuple[Target, Array, Array]:
        """Folds have an even share of the nodes that have a label, the rarest first."""
        check_labels(given.values.shape[1], "leave out those of few nodes")
        varied, count, _ = Varied.of(given.values[mine])
        if not varied.any():
            have = "none of them has any" if not count.any() else "all have the same"
            raise InputError(f"the nodes to train on do not differ in their labels: {have}. Give labels of two kinds")
        if not varied.all():
            assert given.classes is not None
            named = ", ".join(repr(given.classes.names[k]) for k in np.flatnonzero(~varied)[:5])
            warn(
                f"labels that no node trained on has, or every one ({named}), get the same probability everywhere; "
                "name nodes in `train=...` that differ in them, or leave them out",
                DataWarning,
            )
        labels = given.values[:, varied]
        rank = np.argsort(np.argsort(count[varied], kind="stable"), kind="stable")
        return MarkTarget(labels.shape[1]), labels, np.where(labels > 0, rank, len(rank)).min(axis=1)

    def _keep(self, training: PoolTraining, nodes: Nodes, known: str, given: Given, mine: NDArray[np.bool_]) -> None:
        super()._keep(training, nodes, known, given, mine)
        assert given.classes is not None
        self.labels_, self.sets_ = given.classes, given.sets
        self.varied_, _, self.shares_ = Varied.of(given.values[mine])

    def _votes_of(self, targets: Array) -> Array:
        return targets[:, self.varied_]

    def _target(self, file: ModelFile) -> MarkTarget:
        return MarkTarget(int(self.varied_.sum()))

    def _answers(self, said: Array, seen: Seen | None) -> Array:
        found = np.tile(self.shares_, (len(said), 1))
        found[:, self.varied_] = said
        if seen is not None:
            found[seen.rows] = seen.targets
        return found

    # -- prediction and scores ------------------------------------------------------------------------

    def predict(self, X: Any, nodes: Any = None, known: Any = TRAIN) -> Any:
        """The labels of each node: those of a probability of `threshold` or more. Where they came as sets a list of
        sets, else 0 and 1 (n, L), columns as `classes_`.

        X        a graph, or some nodes of one (`graph.nodes_at(...)`): answers are for these alone
        nodes    truth values, numbers or ids: answers for these nodes alone, in the order they are named in; the whole
                 graph is looked at. None: all
        known    whose labels are known, kept and seen by the neighbours. "train": nodes trained on, found by their ids;
                 "none": nobody's; labels as `fit` takes them: these
        """
        marks = self.predict_proba(X, nodes, known) >= self.threshold
        if not self.sets_:
            return marks.astype(np.int64)
        labels = list(self.labels_)
        return [{labels[k] for k in np.flatnonzero(row)} for row in marks]

    def predict_proba(self, X: Any, nodes: Any = None, known: Any = TRAIN) -> NDArray[np.float64]:
        """(n, L), a probability of its own for every label, columns as `classes_`; `nodes` and `known` as in
        `predict`."""
        return self._predicted(X, nodes, known)

    def score(self, X: Any, y: Any = None, nodes: Any = None, known: Any = TRAIN) -> float:
        """Micro-F1: of all pairs of a node and a label, 2 · right / (true + predicted), over nodes with labels in y
        that are not known; `nodes` and `known` as in `predict`."""
        return super().score(X, y, nodes, known)

    def _score(self, answers: Array, given: Given, rows: Array) -> float:
        counts = _counted(answers >= self.threshold, given.values[rows]).sum(axis=0)
        every = counts[1] + given.beyond[rows].sum()
        return float(counts[0] / every) if every else 1.0

    def _right(self, said: Array, targets: Array) -> tuple[Array, Array]:
        marks = said >= self.threshold
        return _counted(marks, targets), marks

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["labels"], state.header["sets"] = self.labels_.to_state(), self.sets_
        state.arrays.update({"varied": self.varied_, "shares": self.shares_})
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        self.labels_, self.sets_ = Classes.from_state(file.header["labels"]), bool(file.header["sets"])
        self.varied_, self.shares_ = file.arrays["varied"], file.arrays["shares"]
        size = (len(self.labels_),)
        fits(self.varied_.dtype == bool and self.varied_.shape == self.shares_.shape == size and self.varied_.any())
        fits(bool(((self.shares_ > 0) & (self.shares_ < 1)).all()))
        super()._restore(file, functions, trusted)
        fits(self.targets_.shape[1:] == size and bool(np.isin(self.targets_, (0, 1)).all()))


def _counted(marks: Array, truth: Array) -> Array:
    """(m, 2) of each node: twice how many labels are right, and how many are true and how many told."""
    right = ((truth > 0) & marks).sum(axis=1)
    return np.stack([2 * right, (truth > 0).sum(axis=1) + marks.sum(axis=1)], axis=1).astype(np.float64)


# -- labels as they come --------------------------------------------------------------------------------


def _marks(y: Any, ids: Sequence[str], known: Classes | None) -> Marks:
    """`known`: the labels of a trained model, which columns are then brought to; None: whatever there is."""
    if hasattr(y, "detach"):
        y = y.detach().cpu().numpy()
    if isinstance(y, str) or not (hasattr(y, "__len__") or hasattr(y, "__iter__")):
        raise InputError(f"{EXPECTED}; got {y!r}")
    shape = getattr(y, "shape", None)
    if shape is not None and len(shape) == 2:
        return _of_table(y, ids, known)
    listed = list(y)
    if len(listed) != len(ids):
        raise InputError(f"y must have labels for each node ({len(ids)}); got {len(listed)}")
    return _of_sets(listed, ids, known) if _are_sets(listed, ids) else _of_table(_stacked(listed, ids), ids, known)


def _are_sets(listed: list[Any], ids: Sequence[str]) -> bool:
    """Whether rows name labels: all sets, and lists of strings; lists of numbers are rows of 0 and 1."""
    for i, row in enumerate(listed):
        if _is_missing(row):
            continue
        if isinstance(row, str) or not hasattr(row, "__iter__"):
            remedy = f"write {{{row!r}}}; where every node has one label there is StackedNodes"
            raise InputError(f"{EXPECTED}; node {ids[i]!r} has {row!r}: {remedy}")
    rows = [row for row in listed if not _is_missing(row)]
    if all(isinstance(row, set | frozenset) for row in rows):
        return True
    return not any(isinstance(label, int | float | np.number | np.bool_) for row in rows for label in row)


def _is_missing(row: Any) -> bool:
    return row is None or (isinstance(row, float) and np.isnan(row)) or type(row).__name__ == "NAType"


def _stacked(listed: list[Any], ids: Sequence[str]) -> Array:
    rows = [None if _is_missing(row) else list(row) for row in listed]
    width = next(len(row) for row in rows if row is not None)
    for i, row in enumerate(rows):
        if row is not None and len(row) != width:
            raise InputError(
                f"rows of 0 and 1 must be of one length; node {ids[i]!r} has {len(row)} and the first {width}: name "
                "labels that are numbers in sets"
            )
    return np.array([[np.nan] * width if row is None else row for row in rows], np.float64)


def _of_sets(listed: list[Any], ids: Sequence[str], known: Classes | None) -> Marks:
    each = [None if _is_missing(row) else [*dict.fromkeys(row)] for row in listed]
    flat = [label for row in each if row is not None for label in row]
    names, kind = label_names(flat)
    if None in names:
        raise InputError("a label of a node is None or NaN; leave it out, or make the whole row None")
    classes = Classes.sorted({name for name in names if name is not None}, kind) if known is None else known
    if not len(classes):
        raise InputError("training needs labels, and none of the nodes has any; give y for two nodes or more")
    place = {name: k for k, name in enumerate(classes.names)}
    table, beyond = np.zeros((len(ids), len(classes)), np.int8), np.zeros(len(ids), np.int64)
    table[[i for i, row in enumerate(each) if row is None]] = -1
    owner = np.repeat(np.arange(len(each)), [0 if row is None else len(row) for row in each])
    codes = np.array([place.get(name, -1) for name in names], np.int64)  # type: ignore[arg-type]
    inside = codes >= 0
    table[owner[inside], codes[inside]] = 1
    np.add.at(beyond, owner[~inside], 1)
    warn_unseen(sorted({name for name, code in zip(names, codes, strict=True) if code < 0 and name is not None}))
    return Marks(table, classes, True, beyond)


def _of_table(y: Any, ids: Sequence[str], known: Classes | None) -> Marks:
    columns = None if sparse.issparse(y) or not hasattr(y, "columns") else list(y.columns)
    if sparse.issparse(y):
        y = y.toarray()
    elif hasattr(y, "to_numpy"):
        y = y.to_numpy()
    try:
        values = np.asarray(y, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{EXPECTED}; got a table of {np.asarray(y).dtype}") from None
    if len(values) != len(ids):
        raise InputError(f"y must have a row a node ({len(ids)}); got {len(values)}")
    wrong = np.argwhere(~(np.isnan(values) | (values == 0) | (values == 1)))
    if len(wrong):
        i, k = (int(at) for at in wrong[0])
        raise InputError(f"{EXPECTED}; node {ids[i]!r} has {values[i, k]:g} in column {k}")
    table = np.where(np.isnan(values), -1, values).astype(np.int8)
    classes = Classes.of(range(values.shape[1]) if columns is None else [_plain(name) for name in columns])
    beyond = np.zeros(len(ids), np.int64)
    if known is None:
        return Marks(table, classes, False, beyond)
    if columns is None:
        if values.shape[1] != len(known):
            raise InputError(f"the model was trained on {len(known)} labels; got {values.shape[1]} columns")
        return Marks(table, known, False, beyond)
    lacking = [name for name in known.names if name not in classes]
    if lacking:
        raise InputError(f"the model was trained on a label {lacking[0]!r}, and y has no such column; add it")
    at = [classes.get(name) for name in known.names]
    others = [k for k in range(len(classes)) if k not in at]
    warn_unseen([classes.names[k] for k in others if (table[:, k] > 0).any()])
    return Marks(table[:, at], known, False, (table[:, others] > 0).sum(axis=1))


def _plain(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name
