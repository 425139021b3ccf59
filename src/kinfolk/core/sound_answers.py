"""The last wall: no label is read off probabilities, or scores, that are not numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import InputError

Array = NDArray[Any]


def sound(table: Array, whose: str) -> Array:
    """A table with a row an instance, of probabilities, of scores or of logarithms (-inf: impossible); an error where
    an entry is NaN, or a score so large that its probability would be. `whose`: who gave it."""
    wrong = ~(table < np.inf)
    if wrong.any():
        rows = int(wrong.reshape(len(table), -1).any(axis=1).sum())
        raise InputError(
            f"{whose} gave NaN for probabilities of {rows} row{'s' * (rows > 1)}; no label can be read off them. Look "
            "for very large features and, in a model, for weights that are not finite"
        )
    return table
