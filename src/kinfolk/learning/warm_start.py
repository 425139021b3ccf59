"""Stochastic passes: a warm start that brings weights near the optimum cheaply, or, with squared gradients kept,
weights that answer well by themselves.

The sequences are dealt into a fixed number of shards; each pass runs over every shard from the same weights
and the results are averaged (iterative parameter mixing: McDonald, Hall and Mann, 2010). The shards do
not depend on `n_jobs`, so neither does the answer. The step size falls as η₀ / (1 + η₀ λ t) (Bottou, 2010). With
squared gradients the answer is the mean of the weights after the passes of the last half (Polyak and Juditsky, 1992).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.checkpoint import ALONE, Step
from kinfolk.core.threads import run_chunks

Array = NDArray[Any]
# epoch(weights and squared gradients in place, order of sequences, step sizes) -> loss met
Epoch = Callable[[Array, Array, NDArray[np.int64], NDArray[Any]], float]

SHARDS = 2


def warm_start(
    epoch: Epoch,
    weights: Array,
    n_sequences: int,
    *,
    shrink: float,
    rate: float = 0.1,
    passes: int = 8,
    squares: Array | None = None,
    rng: np.random.Generator,
    n_jobs: int = 1,
    callback: Callable[[int, float], bool | None] | None = None,
    step: Step = ALONE,
) -> Array:
    """Weights after `passes` passes; `shrink` is l2 / n_sequences. `callback(pass, loss met)` may stop it. `step`: that
    of a checkpoint, whose passes are not done again.

    squares   what squared gradients begin with, left untouched; those of the shards are added up. None: not kept

    A strong ridge lowers the rate, so that no step shrinks the weights by more than half.
    """
    if step.finished:
        return np.asarray(step.kept)
    weights = weights.copy()
    if n_sequences == 0:
        return weights
    rate = min(rate, 0.5 / shrink) if shrink > 0 else rate
    shards = np.array_split(rng.permutation(n_sequences), min(SHARDS, n_sequences))
    visits, done, averaged, kept = 0, 0, 0, step.kept
    met = np.empty(0, weights.dtype) if squares is None else squares
    total = np.zeros_like(weights if squares is not None else met)
    if kept is not None:
        weights, visits, done, met, total, averaged = (
            kept[name] for name in ("weights", "visits", "passes", "squares", "total", "averaged")
        )
        rng.bit_generator.state = kept["rng"]
    for number in range(done + 1, passes + 1):
        orders = [rng.permutation(shard) for shard in shards]

        def run(shard: int) -> tuple[Array, Array, float]:
            mine, own = weights.copy(), met.copy()  # noqa: B023 (run is done before the next pass)
            order = orders[shard]  # noqa: B023
            steps = rate / (1 + rate * shrink * (visits + np.arange(len(order))))  # noqa: B023
            loss = epoch(mine, own, order, steps)
            return mine, own, loss

        results = run_chunks(run, len(shards), n_jobs)
        visits += max(len(order) for order in orders)
        share = weights.dtype.type(1 / len(shards))
        weights = results[0][0]
        for other, _, _ in results[1:]:
            weights += other
        weights *= share
        met = sum((own - met for _, own, _ in results), met)
        if squares is not None and number > passes // 2:
            total += weights
            averaged += 1
        if callback and callback(number, sum(loss for _, _, loss in results)):
            break
        step.keep(_standing, weights, visits, number, rng, met, total, averaged)
    return step.finish(total / weights.dtype.type(averaged) if averaged else weights)


def _standing(
    weights: Array, visits: int, passes: int, rng: np.random.Generator, squares: Array, total: Array, averaged: int
) -> dict[str, Any]:
    """After a pass, as a checkpoint keeps it."""
    mean = {"squares": squares, "total": total, "averaged": averaged}
    return {"weights": weights, "visits": visits, "passes": passes, "rng": rng.bit_generator.state, **mean}
