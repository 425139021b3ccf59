"""A warm start from an earlier fit: weights found again by the names of features and labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.labels import Classes
from kinfolk.learning.loglinear import Shape
from kinfolk.learning.tables import TableShape, TableWeights


class NamedWeights(NamedTuple):
    weights: Any  # Weights of a chain model, or one TableWeights a direction
    features: dict[str, int]
    pair_features: dict[str, int]
    classes: Classes


def named_weights(model: Any) -> NamedWeights:
    """The weights of a fitted model with the names that give them meaning."""
    pairs = model.transition_features_
    return NamedWeights(
        model.weights_,
        _numbered(model.features_.names()),
        _numbered([] if pairs is None else pairs.names()),
        model.coding_.classes,
    )


def named_node_weights(model: Any) -> NamedWeights:
    """The same of a mixture of parents on nodes."""
    columns = model.node_columns_
    names = list(map(str, range(columns))) if isinstance(columns, int) else list(columns)
    return NamedWeights(model.weights_, _numbered(names), {}, model.coding_.classes)


def _numbered(names: list[str]) -> dict[str, int]:
    """Names are made for people: two features may share one (a word "<outside>"), and the last then counts."""
    return {name: i for i, name in enumerate(names)}


def _rows(before: dict[str, int], names: list[str]) -> NDArray[np.int64]:
    return np.array([before.get(name, -1) for name in names], np.int64)


def inherit(before: NamedWeights, model: Any, shape: Shape) -> NDArray[Any]:
    """A flat start for `model` (features and labels learned anew): old weights where names agree, else 0."""
    flat = np.zeros(shape.size, np.float32)
    new = shape.split(flat)
    old_class = before.classes.encode(model.coding_.classes.names)
    here, there = np.flatnonzero(old_class >= 0), old_class[old_class >= 0]
    rows = _rows(before.features, model.features_.names())
    known = np.flatnonzero(rows >= 0)
    new.node[np.ix_(known, here)] = before.weights.node[np.ix_(rows[known], there)]
    new.start[here] = before.weights.start[there]
    new.pair[np.ix_(here, here)] = before.weights.pair[np.ix_(there, there)]
    if model.transition_features_ is not None:
        rows = _rows(before.pair_features, model.transition_features_.names())
        known = np.flatnonzero(rows >= 0)
        n_new, n_old = shape.labels, len(before.classes)
        target = new.pair_features.reshape(-1, n_new, n_new)
        source = before.weights.pair_features.reshape(-1, n_old, n_old)
        target[np.ix_(known, here, here)] = source[np.ix_(rows[known], there, there)]
    return flat


def inherit_mixture(
    before: NamedWeights, direction: int, names: list[str], classes: Classes, shape: TableShape
) -> TableWeights | None:
    """The same for a mixture of parents; None if its old weights are of another make (other relations)."""
    if direction >= len(before.weights):
        return None
    old, new = before.weights[direction], shape.split(np.zeros(shape.size, np.float32))
    sizes = [[len(w.tables), len(w.pair), len(w.rows), len(w.gate)] for w in (old, new)]
    if sizes[0] != sizes[1]:
        return None
    old_class = before.classes.encode(classes.names)
    here, there = np.flatnonzero(old_class >= 0), old_class[old_class >= 0]
    rows = _rows(before.features, names)
    known = np.flatnonzero(rows >= 0)
    for table, old_table in zip(new.tables, old.tables, strict=True):
        table[np.ix_(known, here)] = old_table[np.ix_(rows[known], there)]
    new.start[here] = old.start[there]
    relations = np.arange(len(new.pair))
    new.pair[np.ix_(relations, here, here)] = old.pair[np.ix_(relations, there, there)]
    n_new, n_old, n_rows = shape.labels, len(before.classes), np.arange(len(new.rows))
    paired, old_paired = new.rows.reshape(-1, n_new, n_new), old.rows.reshape(-1, n_old, n_old)
    paired[np.ix_(n_rows, here, here)] = old_paired[np.ix_(n_rows, there, there)]
    new.gate[:] = old.gate
    return new
