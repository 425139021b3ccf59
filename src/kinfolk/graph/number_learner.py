"""A base for numbers of nodes: any scikit-learn regressor."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.modelfile import ModelFile, fits
from kinfolk.errors import SettingError
from kinfolk.graph.learners import Learner, built

Array = NDArray[Any]


def check_regressor(base: Any) -> None:
    """Raise unless it is a regressor, not yet fitted or not."""
    if isinstance(base, type) or not (hasattr(base, "fit") and hasattr(base, "predict")):
        remedy = f"it is a class: call it, as in {base.__name__}()" if isinstance(base, type) else ""
        raise SettingError("base", base, "a scikit-learn regressor, such as Ridge()", remedy)
    from sklearn.base import is_regressor

    if hasattr(base, "__sklearn_tags__") and not is_regressor(base):
        remedy = "for labels there are StackedNodes and MultiLabelNodes"
        raise SettingError("base", base, "a regressor, such as Ridge()", remedy)


class NumberLearner(Learner):
    """A clone of `base`, trained on numbers that are told in units: it sees centre + scale · number. Sparse rows are
    filled in for one that takes none."""

    def __init__(self, base: Any, centre: float = 0.0, scale: float = 1.0) -> None:
        from sklearn.base import clone

        self.n_labels, self.estimator, self.columns = 1, clone(base), np.zeros(1, np.int64)
        self.centre, self.scale = centre, scale

    def fit(self, rows: Any, values: Array, weights: Array | None) -> NumberLearner:
        if not rows.shape[1]:  # nothing to go by but their mean
            from sklearn.dummy import DummyRegressor

            self.estimator = DummyRegressor()
        self._train(rows, self.centre + self.scale * values, weights)
        return self

    def _proba(self, rows: Any) -> Array:
        """(m, 1), the numbers."""
        if not rows.shape[0]:
            return np.zeros((0, 1))
        found = np.asarray(self.estimator.predict(self._taken(rows)), np.float64).reshape(rows.shape[0], 1)
        return (found - self.centre) / self.scale


def restored_number_learner(
    file: ModelFile, level: int, centre: float, scale: float, trusted: Collection[str]
) -> NumberLearner:
    learner = NumberLearner.__new__(NumberLearner)
    learner.n_labels, learner.columns, learner.centre, learner.scale = 1, np.zeros(1, np.int64), centre, scale
    learner.from_file = True
    learner.estimator = built(file.arrays[f"level.{level}.skops"].tobytes(), trusted)
    fits(hasattr(learner.estimator, "predict"))
    return learner
