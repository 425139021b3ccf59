"""Whether probabilities can be believed: of the answers given with 80 %, are 80 % right?

Answers are sorted by probability and put into bins of equal counts. With n_b answers in bin b, their mean probability
p̄_b and the share ȳ_b of them that came true:

    expected calibration error   Σ_b n_b / n · |ȳ_b - p̄_b|
    Brier score                  1/n Σ_i (p_i - y_i)²
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.errors import InputError

BINS = 10
SLACK = 1e-4  # rounding may carry a probability this far beyond 0 or 1


@dataclass(frozen=True, eq=False)
class Calibration:
    """Bins from the least probable answers to the most, (B,) each; and two numbers for the whole, 0 being best."""

    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]
    predicted: NDArray[np.float64]  # the mean probability of a bin
    observed: NDArray[np.float64]  # the share that came true
    counts: NDArray[np.int64]
    error: float
    """Expected calibration error: by how much a probability is off, on average."""
    brier: float
    """Mean squared distance between probability and outcome."""

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain numbers, ready for JSON."""
        return {name: np.asarray(value).tolist() for name, value in vars(self).items()}


def calibration(probability: ArrayLike, came_true: ArrayLike, bins: int = BINS) -> Calibration:
    """Of n answers: the probability each was given, and whether it was right.

    Equal probabilities stay in one bin, so there may be fewer bins than asked for.
    """
    p, y = np.asarray(probability, np.float64), np.asarray(came_true, np.float64)
    if p.shape != y.shape or p.ndim != 1:
        raise InputError(f"expected a truth value for each probability, {p.shape}; got {y.shape}")
    if bins < 1:
        raise InputError(f"expected 1 bin or more; got {bins}")
    if len(p) and not (p.min() >= -SLACK and p.max() <= 1 + SLACK):  # also what is not a number
        raise InputError(f"expected probabilities from 0 to 1; they go from {p.min()} to {p.max()}")
    p = p.clip(0.0, 1.0)
    if not len(p):
        nothing = np.empty(0)
        return Calibration(nothing, nothing, nothing, nothing, np.empty(0, np.int64), 0.0, 0.0)
    order = np.argsort(p, kind="stable")
    p, y = p[order], y[order]
    starts = _bin_starts(p, bins)
    counts = np.diff(np.append(starts, len(p)))
    predicted, observed = (np.add.reduceat(values, starts) / counts for values in (p, y))
    error = float(counts @ np.abs(observed - predicted) / len(p))
    return Calibration(
        p[starts], p[starts + counts - 1], predicted, observed, counts, error, float(((p - y) ** 2).mean())
    )


def _bin_starts(ordered: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """Where the bins begin: after every n/B values, moved back to the first of those that are equal."""
    wanted = np.arange(bins) * len(ordered) // bins
    return np.unique(np.searchsorted(ordered, ordered[wanted], side="left")).astype(np.int64)


def brier_score(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Over several classes: mean over labelled instances of Σ_l (p_l - [l is the label])²; from 0 to 2.

    probabilities (n, L); labels (n,), -1 where not known, L for a class without a column
    """
    table, codes = np.asarray(probabilities, np.float64), np.asarray(labels)
    if table.ndim != 2 or codes.shape != (len(table),):
        raise InputError(f"expected a label for each row of probabilities, {table.shape}; got {codes.shape}")
    known = codes >= 0
    if not known.any():
        return 0.0
    table, codes = table[known], codes[known]
    among = codes < table.shape[1]
    of_label = table[np.flatnonzero(among), codes[among]]
    return float(((table**2).sum() - 2 * of_label.sum() + len(codes)) / len(codes))
