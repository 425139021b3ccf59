"""How good are clusters that nobody has checked as a whole? Pairwise F1 from the model's probabilities, put right by
answers about a few pairs.

A pair with the model's log-odds x, together in the clusters (s = 1) or apart (s = -1), matches with the probability

    r = σ(a + b x + c s),      (a, b, c) ~ N((0, 1, 0), diag(1, 1/16, 1)) before any answer

The answers, each with the x and s it had before the model knew it, make a posterior (Laplace's approximation of
it). That answers were asked where the model was unsure does no harm: r is conditional on x and s. But an old answer is
about a model of before: one that n answers followed counts 1 / (1 + n / 20). Every draw of (a, b, c) gives the
expected numbers of pairs, over all pairs compared and with the answers themselves in their place,

    TP = Σ_together r,  FP = Σ_together (1 - r),  FN = Σ_apart r,      F1 = 2 TP / (2 TP + FP + FN)

and the draws an interval. Matches that were never compared are not in it. Before there are LEAST answers the figure
would be the model's opinion of itself, so none is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.inference.clustering import log_odds
from kinfolk.linking.training import sigmoid

Array = NDArray[Any]
MEAN, PRECISION = np.array([0.0, 1.0, 0.0]), np.array([1.0, 16.0, 1.0])
LARGEST = 12.0  # log-odds beyond which no model can be taken at its word
BINS, DRAWS = 241, 1000
LEAST = 10  # answers before which a user is given no figure
AGE = 20.0  # answers after which one counts half
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """Pairwise F1 as far as the answers tell: its median, 95 % bounds, and from how many answers."""

    f1: float
    lower: float
    upper: float
    answers: int

    def __str__(self) -> str:
        value = f"{100 * self.f1:.1f} ({100 * self.lower:.1f} to {100 * self.upper:.1f})"
        return f"estimated pairwise F1 of the pairs compared {value}, from {self.answers} answers"


class Known(NamedTuple):
    """A pair whose answer is known: the answer, and the clusters and the probability now, None: it is not compared."""

    match: bool
    together: bool
    probability: float | None


class Asked(NamedTuple):
    """Pairs as they were when they were asked, in this order: log-odds, 1 for together and -1 for apart; and the
    answers, 1 or 0, with what each counts."""

    x: NDArray[np.float64]
    s: NDArray[np.float64]
    y: NDArray[np.float64]
    weight: NDArray[np.float64]

    @classmethod
    def of(cls, probability: Sequence[float], together: Sequence[bool], match: Sequence[bool]) -> Asked:
        x = clipped_log_odds(np.array(probability, np.float64))
        weight = 1 / (1 + np.arange(len(x))[::-1] / AGE)
        return cls(x, np.where(np.array(together, bool), 1.0, -1.0), np.array(match, np.float64), weight)


class PairTotals:
    """How many pairs there are of each log-odds, together and apart: all that the estimate needs of them."""

    def __init__(self, probability: Array, together: Array) -> None:
        cell = _cells(probability, together)
        x = clipped_log_odds(probability)
        self.counts = np.bincount(cell, minlength=2 * BINS).astype(np.float64)
        self.x = np.bincount(cell, x, minlength=2 * BINS) / np.maximum(self.counts, 1)
        self.s = np.repeat([-1.0, 1.0], BINS)

    def cells(self, known: Sequence[Known]) -> NDArray[np.float64]:
        """How many of these pairs are counted in each cell."""
        probability = np.array([one.probability for one in known], np.float64)
        together = np.array([one.together for one in known], bool)
        return np.bincount(_cells(probability, together), minlength=2 * BINS).astype(np.float64)


def _cells(probability: Array, together: Array) -> NDArray[np.int64]:
    edges = np.linspace(-LARGEST, LARGEST, BINS + 1)
    place = np.clip(np.searchsorted(edges, clipped_log_odds(probability), side="right") - 1, 0, BINS - 1)
    return np.asarray(place + BINS * together.astype(np.int64), np.int64)


def clipped_log_odds(probability: Array) -> NDArray[np.float64]:
    return np.clip(log_odds(probability), -LARGEST, LARGEST)


def recalibrated(asked: Asked) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mode of (a, b, c) and the covariance there; by Newton's method."""
    y = asked.y
    design = np.column_stack([np.ones(len(y)), asked.x, asked.s])
    mode, curvature = MEAN.copy(), np.diag(PRECISION)
    for _ in range(50):
        r = sigmoid(design @ mode)
        gradient = design.T @ (asked.weight * (r - y)) + PRECISION * (mode - MEAN)
        curvature = design.T @ (design * (asked.weight * r * (1 - r))[:, None]) + np.diag(PRECISION)
        step = np.linalg.solve(curvature, gradient)
        mode -= step / max(1.0, float(np.abs(step).max()))  # steps of at most 1: far steps may overshoot
        if np.abs(step).max() < 1e-9:
            break
    return mode, np.linalg.inv(curvature)


def estimated_f1(
    totals: PairTotals, asked: Asked, known: Sequence[Known] = (), seed: int | None = 0
) -> Estimate | None:
    """From the pairs asked, as they were then, and the answers known, as their pairs are now.

    None where nothing is linked and nothing is likely to match: F1 then has no meaning.
    """
    counts = totals.counts - totals.cells([one for one in known if one.probability is not None])
    mode, covariance = recalibrated(asked)
    draws = np.random.default_rng(seed).multivariate_normal(mode, covariance, DRAWS)
    used = np.flatnonzero(counts > 0)
    design = np.vstack([np.ones(len(used)), totals.x[used], totals.s[used]])
    matches = sigmoid(draws @ design) * counts[used]
    inside = totals.s[used] > 0
    right = matches[:, inside].sum(axis=1) + sum(one.match and one.together for one in known)
    linked = counts[used][inside].sum() + sum(one.together for one in known)
    true = matches.sum(axis=1) + sum(one.match for one in known)
    if not (linked + true > 0).all():
        return None
    tail = (1 - CONFIDENCE) / 2
    low, middle, high = np.quantile(2 * right / (linked + true), [tail, 0.5, 1 - tail])
    return Estimate(float(middle), float(low), float(high), len(asked.y))
