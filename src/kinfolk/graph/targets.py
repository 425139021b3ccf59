"""What a pool tells of nodes: one of several classes, a number, or several labels that do not exclude each other.

All that differs between them stands here; candidates, folds and what is shown to whom are the same for all three. A
target is given as an array with an entry a node (classes by number, numbers, or 0 and 1 for every label), and said of
nodes in tables (n, width): probabilities of classes; centred numbers of about 1; a probability for every label.

                  classes                      numbers                          labels
    linear model  softmax regression           ridge regression                 a logistic regression each
    trees, base   a classifier                 a regressor                      a classifier each
    pool          log-linear                   linear                           log-linear, of each and its opposite
    corrected     errors as large as usual,    mean errors of those around      mean errors, then means,
                  then spread, adding up to 1                                   within 0 and 1
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.data import Classes, finite
from kinfolk.core.modelfile import ModelFile, fits, moderate
from kinfolk.errors import ModelFileError
from kinfolk.graph.candidates import LINEAR, TREES_KIND, Candidate
from kinfolk.graph.learners import BINS, Learner, in_few_values, one_table, put_learner, restored_learner
from kinfolk.graph.number_learner import NumberLearner, restored_number_learner
from kinfolk.graph.surroundings import Shown, Surroundings
from kinfolk.learning.logistic import Logistic
from kinfolk.learning.pooling import (
    log_probabilities,
    mark_weights,
    number_weights,
    pool_weights,
    pooled,
    pooled_marks,
    pooled_numbers,
)
from kinfolk.learning.ridge import Ridge
from kinfolk.learning.softmax import Softmax

Array = NDArray[Any]
MOST_ASKED = 1_000_000  # nodes times labels up to which trees are asked
MOST_TREES = 20  # labels that do not exclude each other, each of which needs trees of its own
MOST_WEIGHED = 200_000  # rows times labels that weights of labels are chosen by


class Target(ABC):
    """Abstract: what is told of nodes.

    width      of tables of what is said
    UNIT       whether only the direction of smoothed features counts, not their size
    GUARDED    whether the local candidate carries all where the pool, cross-fitted, is not shown to be better
    """

    width: int
    UNIT: ClassVar[bool] = True
    GUARDED: ClassVar[bool] = True

    def asks_trees(self, n: int) -> bool:
        """Whether there are few enough nodes, and labels, to ask trees about."""
        return n * self.width <= MOST_ASKED

    def shown(self, targets: Array, rows: Array) -> Shown:
        """What those nodes are whose targets may be seen."""
        return Shown(rows, self.certain(targets[rows]))

    @abstractmethod
    def certain(self, targets: Array) -> Array:
        """(k, width), the table that says what targets are."""

    @abstractmethod
    def learn(
        self, what: Candidate, blocks: list[Any], targets: Array, counts: Array | None, base: Any, seed: int | None
    ) -> Any:
        """A candidate's model of rows."""

    @abstractmethod
    def ask(self, model: Any, blocks: list[Any]) -> Array:
        """(m, width), what a model says of rows."""

    @abstractmethod
    def pooled(self, tables: Sequence[Array], weights: Sequence[float] | Array) -> Array:
        """(n, width), of what several candidates say."""

    @abstractmethod
    def weights(self, tables: Sequence[Array], targets: Array, counts: Array | None) -> Array:
        """(C,), of candidates by what they say, cross-fitted, of nodes (n,)."""

    @abstractmethod
    def corrected(self, around: Surroundings, said: Array, known: Shown) -> Array:
        """(n, width), with errors at known nodes spread to others."""

    @abstractmethod
    def losses(self, said: Array, targets: Array) -> Array:
        """(n,), of each node that which weights are chosen by."""

    @abstractmethod
    def put(self, state: ModelFile, place: int, model: Any) -> None:
        """Add what a model file keeps of a candidate's model."""

    @abstractmethod
    def restored(self, file: ModelFile, place: int, kind: str, trusted: Sequence[str]) -> Any:
        """The model that `put` kept."""

    def packed(self, model: Any, kind: str) -> dict[str, Array] | None:
        """A model as a checkpoint keeps it; None where it could not be read back without trust in it."""
        state = ModelFile({})
        try:
            self.put(state, 0, model)
            self.unpacked(state.arrays, kind)
        except ModelFileError:
            return None
        return state.arrays

    def unpacked(self, kept: dict[str, Array], kind: str) -> Any:
        return self.restored(ModelFile({}, kept), 0, kind, ())

    def _put_linear(self, state: ModelFile, place: int, model: Any) -> None:
        state.arrays.update({f"pool.{place}.weights": model.weights, f"pool.{place}.bias": model.bias})

    def _restored_linear(self, file: ModelFile, place: int, kind: type[Any]) -> Any:
        model = kind(file.arrays[f"pool.{place}.weights"], file.arrays[f"pool.{place}.bias"])
        fits(model.weights.ndim == 2 and model.weights.shape[1:] == model.bias.shape == (self.width,))
        fits(model.weights.dtype.kind == model.bias.dtype.kind == "f")
        fits(moderate(model.weights, model.bias))
        return model


@dataclass(frozen=True)
class ClassTarget(Target):
    """One of several classes, which probabilities add up over."""

    classes: Classes
    GUARDED: ClassVar[bool] = False

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.classes)

    def certain(self, targets: Array) -> Array:
        found = np.zeros((len(targets), self.width), np.float32)
        found[np.arange(len(targets)), targets] = 1.0
        return found

    def learn(
        self, what: Candidate, blocks: list[Any], targets: Array, counts: Array | None, base: Any, seed: int | None
    ) -> Any:
        if what.kind == LINEAR:
            return Softmax.fit(blocks, targets, self.width, what.c, counts)
        base = boosted_trees(blocks, seed) if what.kind == TREES_KIND else base
        return Learner(base, self.classes).fit(_rows(what, blocks, counts), targets, counts)

    def ask(self, model: Any, blocks: list[Any]) -> Array:
        if isinstance(model, Softmax):
            return model.proba(blocks)
        return finite(model.proba(one_table(blocks)), type(model.estimator).__name__)

    def pooled(self, tables: Sequence[Array], weights: Sequence[float] | Array) -> Array:
        return pooled(tables, weights)

    def weights(self, tables: Sequence[Array], targets: Array, counts: Array | None) -> Array:
        return pool_weights(tables, targets, counts)

    def corrected(self, around: Surroundings, said: Array, known: Shown) -> Array:
        return around.corrected(said, known)

    def losses(self, said: Array, targets: Array) -> Array:
        return -log_probabilities(said[np.arange(len(targets)), targets])

    def put(self, state: ModelFile, place: int, model: Any) -> None:
        if isinstance(model, Softmax):
            self._put_linear(state, place, model)
        else:
            put_learner(state, place, model)

    def restored(self, file: ModelFile, place: int, kind: str, trusted: Sequence[str]) -> Any:
        if kind == LINEAR:
            return self._restored_linear(file, place, Softmax)
        return restored_learner(file, place, self.width, trusted)


@dataclass(frozen=True)
class NumberTarget(Target):
    """A number, told as how far it is from `centre` in units of `scale`. A base of the user's sees it as it came."""

    centre: float
    scale: float
    width = 1
    UNIT: ClassVar[bool] = False

    @classmethod
    def of(cls, values: Array) -> NumberTarget:
        """Of the values trained on: their mean, and their deviation, or 1 where all are the same."""
        size = float(np.abs(values).max(initial=0)) or 1.0
        centre, spread = size * float(np.mean(values / size)), size * float(np.std(values / size))
        return cls(centre, spread if spread > 1e-9 * max(abs(centre), 1e-290) else 1.0)

    def centred(self, values: Array) -> Array:
        return np.asarray((np.asarray(values, np.float64) - self.centre) / self.scale)

    def as_given(self, said: Array) -> Array:
        return np.asarray(self.centre + self.scale * np.asarray(said, np.float64))

    def certain(self, targets: Array) -> Array:
        return np.asarray(self.centred(targets)[:, None], np.float32)

    def learn(
        self, what: Candidate, blocks: list[Any], targets: Array, counts: Array | None, base: Any, seed: int | None
    ) -> Any:
        values = self.centred(targets)
        if what.kind == LINEAR:
            return Ridge.chosen(blocks, values, what.c, counts, seed)
        if what.kind == TREES_KIND:
            learner = NumberLearner(boosted_trees(blocks, seed, regression=True))
        else:
            learner = NumberLearner(base, self.centre, self.scale)
        return learner.fit(_rows(what, blocks, counts), values, counts)

    def ask(self, model: Any, blocks: list[Any]) -> Array:
        if isinstance(model, Ridge):
            return model.predict(blocks)
        return finite(model.proba(one_table(blocks)), type(model.estimator).__name__)

    def pooled(self, tables: Sequence[Array], weights: Sequence[float] | Array) -> Array:
        return pooled_numbers(tables, weights)

    def weights(self, tables: Sequence[Array], targets: Array, counts: Array | None) -> Array:
        return number_weights(tables, self.centred(targets), counts)

    def corrected(self, around: Surroundings, said: Array, known: Shown) -> Array:
        return around.with_mean_errors(said, known)

    def losses(self, said: Array, targets: Array) -> Array:
        return np.asarray(np.square(said[:, 0] - self.centred(targets)))

    def put(self, state: ModelFile, place: int, model: Any) -> None:
        if isinstance(model, Ridge):
            self._put_linear(state, place, model)
        else:
            put_learner(state, place, model)

    def restored(self, file: ModelFile, place: int, kind: str, trusted: Sequence[str]) -> Any:
        if kind == LINEAR:
            return self._restored_linear(file, place, Ridge)
        units = (0.0, 1.0) if kind == TREES_KIND else (self.centre, self.scale)
        return restored_number_learner(file, place, *units, trusted)


@dataclass(frozen=True)
class MarkTarget(Target):
    """0 or 1 for each of several labels, each with a probability of its own."""

    width: int
    OF_ONE: ClassVar[Classes] = Classes.of([0, 1])

    def asks_trees(self, n: int) -> bool:
        return super().asks_trees(n) and self.width <= MOST_TREES

    def certain(self, targets: Array) -> Array:
        return np.asarray(targets, np.float32)

    def learn(
        self, what: Candidate, blocks: list[Any], targets: Array, counts: Array | None, base: Any, seed: int | None
    ) -> Any:
        if what.kind == LINEAR:
            return Logistic.fit(blocks, targets, what.c, counts)
        base, rows = boosted_trees(blocks, seed) if what.kind == TREES_KIND else base, _rows(what, blocks, counts)
        codes = np.asarray(targets, np.int32)
        return [Learner(base, self.OF_ONE).fit(rows, codes[:, k], counts) for k in range(self.width)]

    def ask(self, model: Any, blocks: list[Any]) -> Array:
        if isinstance(model, Logistic):
            return model.proba(blocks)
        rows = one_table(blocks)
        found = np.stack([learner.proba(rows)[:, 1] for learner in model], axis=1)
        return finite(found, next((type(one.estimator).__name__ for one in model if one.estimator is not None), ""))

    def pooled(self, tables: Sequence[Array], weights: Sequence[float] | Array) -> Array:
        return pooled_marks(tables, weights)

    def weights(self, tables: Sequence[Array], targets: Array, counts: Array | None) -> Array:
        step = -(-targets.size // MOST_WEIGHED)  # every so-manieth node, of very many
        counts = None if counts is None else counts[::step]
        return mark_weights([table[::step] for table in tables], targets[::step], counts)

    def corrected(self, around: Surroundings, said: Array, known: Shown) -> Array:
        return around.with_mean_errors(said, known, bounded=True)

    def losses(self, said: Array, targets: Array) -> Array:
        return np.asarray(-log_probabilities(np.where(targets > 0, said, 1 - said)).sum(axis=1))

    def put(self, state: ModelFile, place: int, model: Any) -> None:
        if isinstance(model, Logistic):
            self._put_linear(state, place, model)
            return
        for k, learner in enumerate(model):
            put_learner(state, f"{place}.{k}", learner)

    def restored(self, file: ModelFile, place: int, kind: str, trusted: Sequence[str]) -> Any:
        if kind == LINEAR:
            return self._restored_linear(file, place, Logistic)
        return [restored_learner(file, f"{place}.{k}", 2, trusted) for k in range(self.width)]


def _rows(what: Candidate, blocks: Sequence[Any], counts: Array | None) -> Any:
    """Blocks side by side; for trees without columns that are missing everywhere, for weighted ones in few values."""
    table = one_table(list(blocks))
    if what.kind == TREES_KIND and not sparse.issparse(table) and (empty := np.isnan(table).all(axis=0)).any():
        table = np.where(empty, table.dtype.type(0), table)
    few = what.kind == TREES_KIND and counts is not None and table.shape[0] > BINS
    return in_few_values(table) if few else table


def boosted_trees(blocks: Sequence[Any], seed: int | None, regression: bool = False) -> Any:
    """Small trees, for few labels as for many."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    rows, columns = blocks[0].shape[0], sum(block.shape[1] for block in blocks)
    kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    return kind(
        max_iter=60 if regression else 30, learning_rate=0.1 if regression else 0.2, max_leaf_nodes=8,
        min_samples_leaf=int(np.clip(rows // 20, 2, 20)), l2_regularization=1.0, early_stopping=False,
        max_features=0.3 if columns > 20 else 1.0, random_state=seed,
    )  # fmt: skip
