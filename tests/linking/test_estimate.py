"""Estimated F1: against plain sums over pairs, and against the truth where it is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from kinfolk.linking.estimate import DRAWS, Asked, Known, PairTotals, estimated_f1, recalibrated


def log_posterior(theta: np.ndarray, x: np.ndarray, s: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    a, b, c = theta
    total = -(a**2) / 2 - 16 * (b - 1) ** 2 / 2 - c**2 / 2
    for one, side, answer, weight in zip(x, s, y, w, strict=True):
        score = a + b * one + c * side
        total -= weight * np.log1p(np.exp(-score if answer else score))
    return float(total)


@pytest.mark.parametrize("n", [0, 1, 7, 60])
def test_the_mode_is_that_of_the_posterior(n: int) -> None:
    rng = np.random.default_rng(n)
    p = rng.random(n)
    asked = Asked.of(p.tolist(), (rng.random(n) < 0.5).tolist(), (rng.random(n) < p).tolist())
    mode, covariance = recalibrated(asked)
    best = minimize(lambda theta: -log_posterior(theta, *asked), [0.0, 1.0, 0.0], tol=1e-12)
    assert mode == pytest.approx(best.x, abs=1e-4)
    steps = 1e-3 * np.eye(3)
    curvature = [
        [
            -(
                log_posterior(mode + u + v, *asked)
                - log_posterior(mode + u - v, *asked)
                - log_posterior(mode - u + v, *asked)
                + log_posterior(mode - u - v, *asked)
            )
            / 4e-6
            for u in steps
        ]
        for v in steps
    ]
    assert np.linalg.inv(covariance) == pytest.approx(np.array(curvature), abs=1e-3)


def test_f1_is_that_of_plain_sums_over_the_pairs() -> None:
    p = np.array([0.02] * 5 + [0.3] * 3 + [0.6] * 2 + [0.9] * 4 + [0.99] * 3)
    together = np.array([False] * 8 + [True, False] + [True] * 7)
    asked = Asked.of([0.3, 0.9], [False, True], [True, True])
    known = [Known(True, False, 0.3), Known(True, True, 0.9), Known(False, True, None)]
    found = estimated_f1(PairTotals(p, together), asked, known, seed=3)
    mode, covariance = recalibrated(asked)
    draws = np.random.default_rng(3).multivariate_normal(mode, covariance, DRAWS)
    scores = []
    for a, b, c in draws:
        true_positives, linked, true = 1.0, 2.0, 2.0  # the known ones
        left_out = [5, 10]  # a pair of each that is known
        for k, (one, side) in enumerate(zip(p, together, strict=True)):
            if k in left_out:
                continue
            score = a + b * np.log(one / (1 - one)) + c * (1 if side else -1)
            match = 1 / (1 + np.exp(-score))
            true += match
            if side:
                linked += 1
                true_positives += match
        scores.append(2 * true_positives / (linked + true))
    assert found is not None and found.answers == 2
    assert (found.lower, found.f1, found.upper) == pytest.approx(tuple(np.quantile(scores, [0.025, 0.5, 0.975])))


def test_nothing_to_estimate_without_pairs() -> None:
    nothing = PairTotals(np.empty(0), np.empty(0, bool))
    assert estimated_f1(nothing, Asked.of([], [], [])) is None


def test_the_interval_holds_the_truth_and_shrinks_though_unsure_pairs_are_asked() -> None:
    """A model that is far too sure of itself: log-odds twice those that are true."""
    covered, width = 0, {20: 0.0, 200: 0.0}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = np.concatenate([rng.normal(-3, 1.5, 4000), rng.normal(3, 1.5, 1000)])
        truth = rng.random(5000) < 1 / (1 + np.exp(-x / 2))
        p = 1 / (1 + np.exp(-x))
        together = p > 0.5
        f1 = 2 * (truth & together).sum() / (truth.sum() + together.sum())
        totals, order = PairTotals(p, together), np.argsort(np.abs(x) * rng.random(5000))
        for n in width:
            chosen = order[:n]
            asked = Asked.of(p[chosen].tolist(), together[chosen].tolist(), truth[chosen].tolist())
            known = [Known(bool(truth[k]), bool(together[k]), float(p[k])) for k in chosen]
            found = estimated_f1(totals, asked, known)
            assert found is not None
            width[n] += found.upper - found.lower
        covered += found.lower <= f1 <= found.upper
    assert covered >= 17 and width[200] < 0.75 * width[20]
