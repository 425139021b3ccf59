"""Probabilities of instances by models that have not seen their labels, which is what a layer is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.given import Given, name_of
from kinfolk.core.settings import whole
from kinfolk.errors import InputError

Array = NDArray[Any]


class OutOfFold(NamedTuple):
    """Probabilities (n, C) of all tokens or rows in order, the labels that their columns stand for, and the model
    trained on all, which is to be asked about new ones."""

    probabilities: Array
    classes: tuple[Any, ...]
    model: Any


def out_of_fold(
    estimator: Any, X: Any, y: Any = None, *, groups: Any = None, folds: int = 5, random_state: int | None = 0
) -> OutOfFold:
    """Train a model on all folds but one and ask it about that one, for every fold; then train it on all.

    estimator   anything with `fit` and `predict_proba`, or `predict_marginals` as sklearn-crfsuite has it
    X, y        a labelled Corpus, or a list of such; a list of sentences and their labels; or rows and labels, as
                scikit-learn takes them
    groups      the document of each sentence, or the group of each row; these stay together. Of a Corpus its documents
    """
    whole(2).check("folds", folds)
    parts = _parts(X, y, groups)
    if parts.n_groups < 2:
        raise InputError("out_of_fold holds out whole documents or groups, and there is only one; give two or more")
    dealt = np.random.default_rng(random_state).permutation(parts.n_groups) % min(folds, parts.n_groups)
    found: list[tuple[Array, Given]] = []
    labels: dict[str, Any] = {}  # by their names
    for k in range(int(dealt.max()) + 1):
        model = _fresh(estimator)
        model.fit(*parts.taken(np.flatnonzero(dealt != k)))
        asked, *_ = parts.taken(np.flatnonzero(dealt == k))
        rows = parts.rows(np.flatnonzero(dealt == k))
        labels |= {name_of(label): label for label in _classes(model) or ()}
        found.append((rows, Given.of(_said(model, asked), len(rows), _classes(model))))
    model = _fresh(estimator)
    model.fit(*parts.everything())
    order = list(map(name_of, _classes(model) or ()))  # columns as those of the model, which is asked about new ones
    labels |= dict(zip(order, _classes(model) or (), strict=True))
    names = dict.fromkeys([*order, *sorted({name for _, given in found for name in given.names})])
    place = {name: c for c, name in enumerate(names)}
    table = np.zeros((parts.n, len(place)))
    for rows, given in found:
        table[rows[:, None], np.array([place[name] for name in given.names])] = given.table
    return OutOfFold(table, tuple(labels.get(name, name) for name in place), model)


def _parts(X: Any, y: Any, groups: Any) -> _Corpus | _Rows:
    several = isinstance(X, list | tuple | np.ndarray) and len(X) > 0 and all(map(_is_corpus, X))
    if not several and not _is_corpus(X):
        return _Rows(X, y, groups)
    if y is not None or groups is not None:
        raise InputError("a Corpus has its own labels and documents: leave `y` and `groups` out, or give sentences")
    return _Corpus(type(X[0]).joined(list(X)) if several else X)


def _is_corpus(X: Any) -> bool:
    return hasattr(X, "n_documents") and hasattr(X, "select")


class _Corpus:
    """Documents of a corpus, whole."""

    def __init__(self, corpus: Any) -> None:
        self.corpus, self.n, self.n_groups = corpus, corpus.n_tokens, corpus.n_documents

    def taken(self, groups: Array) -> tuple[Any, ...]:
        return (self.corpus.select(groups),)

    def rows(self, groups: Array) -> Array:
        return np.flatnonzero(np.isin(self.corpus.token_documents, groups))

    def everything(self) -> tuple[Any, ...]:
        return (self.corpus,)


class _Rows:
    """Sentences with their labels, or rows of a table with theirs."""

    def __init__(self, X: Any, y: Any, groups: Any) -> None:
        if y is None:
            raise InputError("labels are missing: give `y`, or a labelled Corpus")
        self.X, self.y = X, y
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if len(y) != n:
            raise InputError(f"X has {n} sentences or rows, y has {len(y)}")
        self.lengths = np.array([len(one) for one in X]) if isinstance(X, list | tuple) else np.ones(n, int)
        if isinstance(X, list | tuple) and n and not isinstance(y[0], list | tuple | np.ndarray):
            self.lengths = np.ones(n, int)
        given = np.arange(n) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
        if len(given) != n:
            raise InputError(f"expected a group for each of {n} sentences or rows; got {len(given)}")
        self.group, self.n, self.n_groups = given, int(self.lengths.sum()), len(np.unique(given))

    def taken(self, groups: Array) -> tuple[Any, ...]:
        index = np.flatnonzero(np.isin(self.group, groups))
        return _at(self.X, index), _at(self.y, index)

    def rows(self, groups: Array) -> Array:
        return np.flatnonzero(np.repeat(np.isin(self.group, groups), self.lengths))

    def everything(self) -> tuple[Any, ...]:
        return self.X, self.y


def _at(values: Any, index: Array) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[index]
    if hasattr(values, "shape"):
        return values[index]
    return [values[k] for k in index.tolist()]


def _fresh(estimator: Any) -> Any:
    """An untrained one of the same settings."""
    if hasattr(estimator, "get_params"):
        from sklearn.base import clone

        return clone(estimator)
    return deepcopy(estimator)


def _said(model: Any, asked: Any) -> Any:
    if hasattr(model, "predict_marginals"):
        return model.predict_marginals(asked)
    if hasattr(model, "predict_proba"):
        return model.predict_proba(asked)
    raise InputError(f"{type(model).__name__} gives no probabilities: it has no predict_proba")


def _classes(model: Any) -> Sequence[Any] | None:
    found = getattr(model, "classes_", None)
    return None if found is None else found.tolist() if hasattr(found, "tolist") else list(found)
