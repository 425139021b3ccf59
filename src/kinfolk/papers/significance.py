"""Whether one model is better than another, by its scores on the same folds."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


def paired_t_test(first: ArrayLike, second: ArrayLike) -> float:
    """The two-sided p-value of Student's t-test on the differences; 1 where all are zero, nan for a single pair.

    Folds share training data, so the test is a rough guide, as in the paper it is taken from.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"expected two rows of scores of the same folds; got shapes {a.shape} and {b.shape}")
    difference = a - b
    if len(a) < 2:
        return float("nan")
    spread = difference.std(ddof=1)
    if spread == 0:
        return 1.0 if difference[0] == 0 else 0.0
    t = difference.mean() / (spread / np.sqrt(len(a)))
    return float(2 * stats.t.sf(abs(t), len(a) - 1))
