"""Weights of tokens in training: of their class, of their sentence, or both."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.labels import Classes
from kinfolk.errors import InputError, SettingError
from kinfolk.text.batch import Batch

LARGEST_WEIGHT = 1e9  # beyond it everything else is rounding


def token_weights(
    batch: Batch,
    labels: NDArray[np.int32],
    classes: Classes,
    class_weight: Mapping[Any, float] | str | None,
    sample_weight: Any,
) -> NDArray[np.float64]:
    """(n,) weight of the class of a token times the weight of its sentence."""
    by_class = np.append(class_weights(labels, classes, class_weight), 1.0)[labels]
    if sample_weight is None:
        return by_class
    corpus = batch.corpus
    sizes, unit = batch.sentences_of_each, "sentence" if batch.sizes is None else "document"
    try:
        weights: NDArray[np.float64] = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"sample_weight must hold numbers, one a {unit}") from None
    if weights.shape != (len(sizes),):
        raise InputError(f"sample_weight must have one number a {unit} ({len(sizes)}); got {weights.shape}")
    weights = np.repeat(weights, sizes)
    if not np.isfinite(weights).all() or (weights < 0).any() or not (weights > 0).any():
        raise InputError("sample_weight must be finite, not negative, and not all zero")
    by_sentence: NDArray[np.float64] = np.repeat(weights, np.diff(corpus.sentence_starts))
    return by_class * by_sentence


def class_weights(
    labels: NDArray[np.int32], classes: Classes, class_weight: Mapping[Any, float] | str | None
) -> NDArray[np.float64]:
    """(L,). "balanced" gives every class that occurs the same total; a key may be a label or an entity type."""
    weights = np.ones(len(classes))
    if class_weight is None:
        return weights
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise SettingError(f"class_weight must be a dict, 'balanced' or None; got {class_weight!r}")
        counts = np.bincount(labels[labels >= 0], minlength=len(classes))
        return np.where(counts > 0, counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1)), 1.0)
    if not isinstance(class_weight, Mapping):
        raise SettingError(f"class_weight must be a dict, 'balanced' or None; got {class_weight!r}")
    for key, weight in class_weight.items():
        hit = [i for i, name in enumerate(classes.names) if i == classes.get(key) or name[1:] == f"-{key}"]
        if not hit:
            there = ", ".join(classes.names)
            raise SettingError(f"class_weight names {key!r}, which is no label or type; there are {there}")
        if not isinstance(weight, Real) or not 0 <= float(weight) <= LARGEST_WEIGHT:
            raise SettingError(f"class_weight[{key!r}] must be a number from 0 to {LARGEST_WEIGHT:g}; got {weight!r}")
        weights[hit] = float(weight)
    return weights
