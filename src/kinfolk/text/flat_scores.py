"""Scores of single labels over sentences, by the names of `sklearn_crfsuite.metrics`: scikit-learn's own, of the labels
one behind the other. Scores of whole entities are in `kinfolk.text.scores`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from kinfolk.errors import InputError


def _flat(y_true: Any, y_pred: Any) -> tuple[list[Any], list[Any]]:
    """The labels of all sentences; both must have the same sentences."""
    lengths = [[len(row) for row in rows] for rows in (y_true, y_pred)]
    if len(lengths[0]) != len(lengths[1]):
        raise InputError(f"y_true has {len(lengths[0])} sentences, y_pred has {len(lengths[1])}")
    unlike = next((s for s, (a, b) in enumerate(zip(*lengths, strict=True)) if a != b), None)
    if unlike is not None:
        a, b = (one[unlike] for one in lengths)
        raise InputError(f"sentence {unlike} has {a} labels in y_true and {b} in y_pred")
    return list(chain.from_iterable(y_true)), list(chain.from_iterable(y_pred))


def _by_scikit_learn(name: str, y_true: Any, y_pred: Any, settings: dict[str, Any]) -> Any:
    from sklearn import metrics

    score: Callable[..., Any] = getattr(metrics, name)
    return score(*_flat(y_true, y_pred), **settings)


def flat_accuracy_score(y_true: Any, y_pred: Any, **settings: Any) -> float:
    """The share of labels that are right; settings as `sklearn.metrics.accuracy_score` takes them."""
    return float(_by_scikit_learn("accuracy_score", y_true, y_pred, settings))


def flat_precision_score(y_true: Any, y_pred: Any, **settings: Any) -> Any:
    """`sklearn.metrics.precision_score` of single labels."""
    return _by_scikit_learn("precision_score", y_true, y_pred, settings)


def flat_recall_score(y_true: Any, y_pred: Any, **settings: Any) -> Any:
    """`sklearn.metrics.recall_score` of single labels."""
    return _by_scikit_learn("recall_score", y_true, y_pred, settings)


def flat_f1_score(y_true: Any, y_pred: Any, **settings: Any) -> Any:
    """`sklearn.metrics.f1_score` of single labels: average="weighted", labels=[...]."""
    return _by_scikit_learn("f1_score", y_true, y_pred, settings)


def flat_fbeta_score(y_true: Any, y_pred: Any, beta: float, **settings: Any) -> Any:
    """`sklearn.metrics.fbeta_score` of single labels."""
    return _by_scikit_learn("fbeta_score", y_true, y_pred, {"beta": beta, **settings})


def flat_classification_report(y_true: Any, y_pred: Any, labels: Any = None, **settings: Any) -> Any:
    """`sklearn.metrics.classification_report` of single labels."""
    return _by_scikit_learn("classification_report", y_true, y_pred, {"labels": labels, **settings})


def sequence_accuracy_score(y_true: Any, y_pred: Any) -> float:
    """The share of sentences whose labels are all right; 0 where there is none."""
    _flat(y_true, y_pred)
    right = [list(a) == list(b) for a, b in zip(y_true, y_pred, strict=True)]
    return sum(right) / len(right) if right else 0.0
