"""What the features of a token (and the labels beside it) say for its label, in a log-linear model.

The score of a label y is a sum over features, Σ_f x_f · w_f,y. Only differences between labels mean anything, so a
feature's share is what it adds for the answer beyond what it adds on average over all labels:

    share = x_f · (w_f,y − mean over labels of w_f)

A label beside the token speaks through its distribution m: share = Σ_y' m(y') · (T_y',y − mean over labels of T_y',·).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.text.answer import Answer

Array = NDArray[Any]


@dataclass(frozen=True)
class FeatureShare:
    """What one feature adds to the score of the answer, beyond the mean over labels."""

    feature: str
    share: float


@dataclass(frozen=True)
class FeatureExplanation(Answer):
    """The answer for one instance, and what its features add to it, the greatest first by absolute value.

    Shares are parts of a score, not of a probability: in a chain the labels around decide too.
    """

    contributions: tuple[FeatureShare, ...]

    def __str__(self) -> str:
        lines = [self.head()]
        lines += [f"  {one.share:+7.2f}  {one.feature}" for one in self.contributions[:SHOWN]]
        rest = self.contributions[SHOWN:]
        if rest:
            lines.append(f"  {sum(one.share for one in rest):+7.2f}  {len(rest)} others together")
        return "\n".join(lines)


SHOWN = 12  # contributions that are printed


def feature_shares(
    columns: Array, values: Array, weights: Array, label: int, names: Sequence[str]
) -> list[FeatureShare]:
    """Shares of the features that are on; `weights` (F, L), `columns` and `values` their numbers and values."""
    on = weights[columns].astype(np.float64)
    shares = values * (on[:, label] - on.mean(axis=1))
    return [FeatureShare(names[f], float(share)) for f, share in zip(columns, shares, strict=True) if share]


def step_share(name: str, beside: Array, step: Array, label: int) -> FeatureShare:
    """The share of a label beside, with distribution `beside` (L,); `step` (L, L) scores it (rows) and the answer."""
    return FeatureShare(name, float(beside @ (step[:, label] - step.mean(axis=1))))


def largest_first(shares: list[FeatureShare]) -> tuple[FeatureShare, ...]:
    return tuple(sorted(shares, key=lambda one: -abs(one.share)))
