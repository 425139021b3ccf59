"""A number for every node of a graph: a pool of regressions that look at own features and at neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.modelfile import Functions, ModelFile, fits
from kinfolk.errors import DataWarning, InputError, warn
from kinfolk.graph.nodes import TRAIN, Nodes
from kinfolk.graph.number_learner import check_regressor
from kinfolk.graph.pooled import Given, PooledNodes, Seen
from kinfolk.graph.targets import NumberTarget, Target

Array = NDArray[Any]
LARGEST = 1e100  # squares of numbers beyond it are none


@final
@dataclass(eq=False, repr=False)
class NodeRegressor(PooledNodes):
    """Numbers of the nodes of a Graph, told with an eye to their neighbours.

    A pool of candidates, as `StackedNodes()` is for labels (docs/nodes.md): ridge regressions and trees, or `base` in
    their place, any scikit-learn regressor, on own features, on those of neighbours, and on what neighbours are known
    or predicted to be; a weighted sum, by what they say of numbers that they have not seen. Where that is not
    shown to be better than the local candidate, which sees own features alone, this one answers.

    Learned by `fit`: `weights_`, `folds_`, `known_` (what "auto" came to), with a guard `gain_`, in R².
    """

    METRIC: ClassVar[str] = "R²"
    WANTED: ClassVar[str] = "numbers"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags

    def _check_base(self) -> None:
        check_regressor(self.base)

    # -- what is told ---------------------------------------------------------------------------------

    def _own(self, labels: Array, nodes: Nodes) -> Any:
        if nodes.classes.type not in ("int", "float") or not len(nodes.classes):
            names = ", ".join(map(repr, nodes.classes.names[:3])) or "none"
            raise InputError(f"expected numbers, one a node, and the labels of this graph are {names}; give them as y")
        return labels.tolist()

    def _read(self, y: Any, ids: Sequence[str], trained: bool) -> Given:
        values = _numbers(y, ids)
        there = ~np.isnan(values)
        wrong = np.flatnonzero(there & ~(np.abs(values) <= LARGEST))
        if len(wrong):
            remedy = "give NaN or None where it is not known" if np.isinf(values[wrong[0]]) else "scale them down"
            raise InputError(
                f"numbers must be finite and lie within ±{LARGEST:g}; node {ids[wrong[0]]!r} has {values[wrong[0]]}: "
                f"{remedy}"
            )
        return Given(np.where(there, values, 0.0), there, np.zeros(len(ids), np.int64))

    def _begin(self, given: Given, mine: NDArray[np.bool_]) -> tuple[Target, Array, Array]:
        values = given.values[mine]
        if (values == values[0]).all():
            warn(f"all numbers trained on are {values[0]:g}, and so will be every answer; give others", DataWarning)
        return NumberTarget.of(values), given.values, np.zeros(len(given.values), np.int32)

    def _votes_of(self, targets: Array) -> Array:
        return targets

    @property
    def _number(self) -> NumberTarget:
        target = self.pool_.target
        assert isinstance(target, NumberTarget)
        return target

    def _answers(self, said: Array, seen: Seen | None) -> Array:
        found = self._number.as_given(said[:, 0])
        if seen is not None:
            found[seen.rows] = seen.targets
        return found

    # -- prediction and scores ------------------------------------------------------------------------

    def predict(self, X: Any, nodes: Any = None, known: Any = TRAIN) -> NDArray[np.float64]:
        """One number a node.

        X        a graph, or some nodes of one (`graph.nodes_at(...)`): answers are for these alone
        nodes    truth values, numbers or ids: answers for these nodes alone, in the order they are named in; the whole
                 graph is looked at. None: all
        known    whose numbers are known, kept and seen by the neighbours. "train": nodes trained on, found by their
                 ids; "none": nobody's; one a node, NaN for none, or id -> number: these
        """
        return self._predicted(X, nodes, known)

    def score(self, X: Any, y: Any = None, nodes: Any = None, known: Any = TRAIN) -> float:
        """R², the share of the variance that is told, over nodes with a number in y that are not known; `nodes` and
        `known` as in `predict`."""
        return super().score(X, y, nodes, known)

    def _score(self, answers: Array, given: Given, rows: Array) -> float:
        truth = given.values[rows]
        size = float(np.abs(truth).max()) or 1.0
        total = float(np.square((truth - truth.mean()) / size).sum())
        missed = float(np.square((truth - answers) / size).sum())
        return 1 - missed / total if total > 0 else float(missed == 0)

    def _right(self, said: Array, targets: Array) -> tuple[Array, Array]:
        truth = self._number.centred(targets)
        whole, missed = np.square(truth - truth.mean()), np.square(truth - said[:, 0])
        return np.stack([whole - missed, whole], axis=1), said

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["number"] = {"centre": self._number.centre, "scale": self._number.scale}
        return state

    def _target(self, file: ModelFile) -> NumberTarget:
        kept = file.header["number"]
        centre, scale = float(kept["centre"]), float(kept["scale"])
        fits(bool(np.isfinite(centre) and 0 < scale < np.inf))
        return NumberTarget(centre, scale)

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        fits(self.targets_.ndim == 1 and self.targets_.dtype.kind == "f")


def _numbers(y: Any, ids: Sequence[str]) -> NDArray[np.float64]:
    """(n,), NaN where there is none."""
    if hasattr(y, "detach"):
        y = y.detach().cpu().numpy()
    if isinstance(y, str) or not (hasattr(y, "__len__") or hasattr(y, "__iter__")):
        raise InputError(f"y must be numbers, one a node ({len(ids)}), or id -> number; got {y!r}")
    shape = np.shape(y) if hasattr(y, "shape") else None
    if shape is not None and len(shape) == 2 and shape[1] == 1:
        y = np.asarray(y)[:, 0]
    elif shape is not None and len(shape) != 1:
        raise InputError(
            f"y must be numbers, one a node ({len(ids)},); got shape {shape}: choose one column, or train a model each"
        )
    listed = y if isinstance(y, np.ndarray) and y.dtype.kind in "fiub" else list(y)
    if len(listed) != len(ids):
        raise InputError(f"y must have one number a node ({len(ids)}); got {len(listed)}")
    if isinstance(listed, np.ndarray):
        return np.asarray(listed, np.float64)
    found = np.empty(len(ids))
    for i, value in enumerate(listed):
        found[i] = _number(value, ids[i])
    return found


def _number(value: Any, node: str) -> float:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return float("nan")
    if isinstance(value, str | bytes):
        raise InputError(
            f"y must be numbers; node {node!r} has {value!r}: for labels there are StackedNodes and MultiLabelNodes"
        )
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"y must be numbers, None or NaN where there is none; node {node!r} has {value!r}") from None
