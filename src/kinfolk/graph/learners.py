"""A base for nodes: any scikit-learn classifier, asked for probabilities in one order of classes.

Labels go in as the numbers of the classes. What comes back has a column for every class, also for those a fold lacks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.aggregate import SUM, aggregate, padded
from kinfolk.collective.rows import run_of, side_by_side
from kinfolk.core.labels import Classes
from kinfolk.core.memory import dense
from kinfolk.core.sound_answers import sound
from kinfolk.core.threads import run_chunks
from kinfolk.errors import InputError, SettingError

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
BLOCK_ROWS = 1 << 15  # rows that are put together and predicted at a time
DENSE_BLOCK = 1 << 27  # bytes of them where they have to be filled in
# Steps of a pipeline that make few dense columns of many sparse ones.
FILL_IN = ("TruncatedSVD", "PCA", "NMF", "LatentDirichletAllocation", "GaussianRandomProjection", "Nystroem")
Told = Callable[[slice], Array]  # a run of rows to what they are told of their neighbours


def check_base(base: Any) -> None:
    """Raise unless it is a classifier, not yet fitted or not."""
    if isinstance(base, type) or not (hasattr(base, "fit") and hasattr(base, "predict")):
        got = f"the class {base.__name__}: call it, as in {base.__name__}()" if isinstance(base, type) else repr(base)
        raise SettingError(f"base must be a scikit-learn classifier, such as LogisticRegression(); got {got}")
    from sklearn.base import is_classifier

    if hasattr(base, "__sklearn_tags__") and not is_classifier(base):
        raise SettingError(f"base must be a classifier, such as LogisticRegression(); {type(base).__name__} is none")


def speaks_by(base: Any) -> str:
    """How a base says what it thinks: "predict_proba", "decision_function" or "predict"."""
    return next((way for way in ("predict_proba", "decision_function") if hasattr(base, way)), "predict")


def tell_fallback(base: Any) -> None:
    """A word about a base without probabilities."""
    way = speaks_by(base)
    if way != "predict_proba":
        instead = {"decision_function": "its decision values, squashed to sum to 1", "predict": "its labels alone"}[way]
        log.warning("%s gives no probabilities; %s are used instead", type(base).__name__, instead)


def takes_sparse(base: Any) -> bool:
    """Whether it can be given sparse rows. A pipeline can if its steps can, up to one that makes dense rows of them."""
    from sklearn.utils import get_tags

    steps = [step for _, step in getattr(base, "steps", ()) if hasattr(step, "fit")]
    if steps:
        first = next((i + 1 for i, step in enumerate(steps) if type(step).__name__ in FILL_IN), len(steps))
        return all(map(takes_sparse, steps[:first]))
    return not hasattr(base, "__sklearn_tags__") or bool(get_tags(base).input_tags.sparse)


class Learner:
    """A clone of `base`, trained on codes that need not have every class. Weights of classes that the base has by label
    are given to it by code."""

    def __init__(self, base: Any, classes: Classes) -> None:
        from sklearn.base import clone

        self.n_labels = len(classes)
        self.estimator: Any = clone(base)
        self._by_code(classes)
        self.columns: Array = np.empty(0, np.int64)  # class numbers the estimator knows

    @classmethod
    def restored(cls, estimator: Any, columns: Array, n_labels: int) -> Learner:
        """One that was trained before; without an estimator it knows a single class."""
        learner = cls.__new__(cls)
        learner.estimator, learner.columns, learner.n_labels = estimator, columns, n_labels
        return learner

    def _by_code(self, classes: Classes) -> None:
        """Numbers are codes where labels are strings, else labels."""
        code = {label: i for i, label in enumerate(classes)}
        codes = range(len(classes)) if classes.type == "str" else ()
        settings = self.estimator.get_params() if hasattr(self.estimator, "get_params") else {}
        for key, value in settings.items():
            if key.rpartition("__")[2] == "class_weight" and isinstance(value, Mapping):
                strange = next((label for label in value if label not in code and label not in codes), None)
                if strange is not None:
                    raise SettingError(
                        f"class_weight names {strange!r}, which is no label; there are: {', '.join(classes.names)}"
                    )
                self.estimator.set_params(**{key: {code.get(label, label): weight for label, weight in value.items()}})

    def fit(self, rows: Any, codes: Array, weights: Array | None) -> Learner:
        present = np.unique(codes)
        if len(present) < 2:  # a fold may lack all classes but one; most classifiers refuse that
            self.estimator, self.columns = None, present.astype(np.int64)
            return self
        if not rows.shape[1]:  # nothing to go by but how many there are of each class
            from sklearn.dummy import DummyClassifier

            self.estimator = DummyClassifier(strategy="prior")
        self.estimator.fit(self._taken(rows), codes, **_weight_argument(self.estimator, weights))
        self.columns = np.asarray(getattr(self.estimator, "classes_", present), np.int64)
        return self

    @cached_property
    def fills_in(self) -> bool:
        """Whether sparse rows have to be made dense for it."""
        return self.estimator is not None and not takes_sparse(self.estimator)

    def _taken(self, rows: Any) -> Any:
        if not (sparse.issparse(rows) and self.fills_in):
            return rows
        name = type(self.estimator).__name__
        what = f"{name} takes no sparse rows, and {rows.shape[0]:,} of them with {rows.shape[1]:,} columns take"
        return dense(
            rows, rows.dtype, what,
            f"take fewer columns, as by make_pipeline(TruncatedSVD(200), {name}(...)), fewer rows to train on, or a "
            "base that takes sparse rows, such as LogisticRegression or RandomForestClassifier",
        )  # fmt: skip

    @cached_property
    def softmax(self) -> tuple[Array, Array] | None:
        """(F, L) and (L,): of a logistic regression the scores whose softmax it gives, which asks for none of the
        checks that scikit-learn makes at every call; a class it never saw has none. None for any other base."""
        from sklearn.linear_model import LogisticRegression

        estimator = self.estimator
        if type(estimator) is not LogisticRegression or estimator.coef_.shape[0] not in (1, len(self.columns)):
            return None
        weights = np.zeros((estimator.coef_.shape[1], self.n_labels), estimator.coef_.dtype)
        bias = np.full(self.n_labels, -np.inf)
        bias[self.columns] = 0.0
        known = self.columns if len(estimator.coef_) > 1 else self.columns[1:]
        weights[:, known] = estimator.coef_.T
        bias[known] = estimator.intercept_
        return padded(weights), bias

    def log_linear(self, table: Any, index: Array) -> Array:
        """(m, L) for rows `index` of a table, where the base is a logistic regression; no row is copied."""
        assert self.softmax is not None
        weights, bias = self.softmax
        if table.shape[1] != len(weights):
            raise InputError(f"the base was trained on {len(weights)} columns; got {table.shape[1]}")
        if not (sparse.issparse(table) and table.dtype.kind == "f"):
            return _shares(np.asarray(run_of(table, index) @ weights, np.float64) + bias)
        scores = np.empty((len(index), self.n_labels))
        aggregate(SUM, table, weights, index, scores, 1)
        return _shares(scores + bias)

    def proba(self, rows: Any) -> Array:
        """(m, L), each row summing to 1."""
        table = np.zeros((rows.shape[0], self.n_labels))
        if not rows.shape[0]:
            return table
        if self.estimator is None:
            table[:, self.columns] = 1.0
            return table
        if self.softmax is not None:
            return self.log_linear(rows, np.arange(rows.shape[0]))
        way = speaks_by(self.estimator)
        rows = self._taken(rows)
        said = getattr(self.estimator, way)(rows)
        if way == "decision_function" and said.ndim == 2 and said.shape[1] != len(self.columns):
            way, said = "predict", self.estimator.predict(rows)  # of pairs of classes, say: no score of its own each
        if way == "predict":
            table[np.arange(len(table)), said] = 1.0
        elif way == "predict_proba":
            table[:, self.columns] = said
        else:
            from scipy.special import expit

            shares = _shares(said) if said.ndim == 2 else np.stack([expit(-said), expit(said)], axis=1)
            table[:, self.columns] = shares
        return table


def _shares(scores: Array) -> Array:
    """exp s / Σ exp s along each row, from the top so that nothing overflows; in place where it can be."""
    scores = scores - scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def _weight_argument(estimator: Any, weights: Array | None) -> dict[str, Any]:
    """sample_weight under the name the estimator takes it: a pipeline by that of its last step."""
    if weights is None:
        return {}
    from sklearn.utils.validation import has_fit_parameter

    steps = getattr(estimator, "steps", None)
    last = steps[-1][1] if steps else estimator
    if not has_fit_parameter(last, "sample_weight"):
        raise SettingError(f"{type(last).__name__} takes no sample_weight; choose another base, or leave weights out")
    return {f"{steps[-1][0]}__sample_weight" if steps else "sample_weight": weights}


def predict_in_blocks(learner: Learner, table: Any, index: Array, company: Told | None, n_jobs: int) -> Array:
    """(m, L) for rows `index` of a table, with what `company` says of each run of them beside them. Put together a
    block at a time, in threads, so a large graph is never copied whole, nor a sparse table filled in."""
    out = np.empty((len(index), learner.n_labels))
    size = BLOCK_ROWS
    if sparse.issparse(table) and learner.fills_in:
        size = int(np.clip(DENSE_BLOCK // (8 * max(1, table.shape[1])), 1, BLOCK_ROWS))

    def run(block: int) -> None:
        span = slice(block * size, (block + 1) * size)
        if company is None and learner.estimator is not None and learner.softmax is not None:
            out[span] = learner.log_linear(table, index[span])
        else:
            out[span] = learner.proba(side_by_side(table, index[span], None if company is None else company(span)))

    run_chunks(run, -(-len(index) // size), n_jobs)
    return sound(out, type(learner.estimator).__name__)


def one_table(parts: list[Any]) -> Any:
    """Tables side by side: CSR if any is, else dense."""
    if len(parts) == 1:
        return parts[0]
    if any(sparse.issparse(part) for part in parts):
        return sparse.csr_array(sparse.hstack([sparse.csr_array(part) for part in parts], format="csr"))
    return np.concatenate(parts, axis=1)


def check_enough(classes: Any) -> None:
    """There have to be two classes to tell apart."""
    if len(classes) < 2:
        raise InputError(
            f"all training labels are {classes.names[0]!r}: there is nothing to tell apart. Give labels of two classes"
        )
