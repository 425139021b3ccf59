"""A stochastic warm start: a few passes that bring the weights near the optimum cheaply.

The sequences are dealt into a fixed number of shards; each pass runs over every shard from the same weights
and the results are averaged (iterative parameter mixing: McDonald, Hall and Mann, 2010). The shards do
not depend on `n_jobs`, so neither does the answer. The step size falls as η₀ / (1 + η₀ λ t) (Bottou, 2010).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.checkpoint import ALONE, Step
from kinfolk.core.threads import run_chunks

Array = NDArray[Any]
# epoch(weights in place, order of sequences, step sizes) -> loss met
Epoch = Callable[[Array, NDArray[np.int64], NDArray[Any]], float]

SHARDS = 2


def warm_start(
    epoch: Epoch,
    weights: Array,
    n_sequences: int,
    *,
    shrink: float,
    rate: float = 0.1,
    passes: int = 8,
    rng: np.random.Generator,
    n_jobs: int = 1,
    callback: Callable[[int, float], bool | None] | None = None,
    step: Step = ALONE,
) -> Array:
    """Weights after `passes` passes; `shrink` is l2 / n_sequences. `callback(pass, loss met)` may stop it. `step`: that
    of a checkpoint, whose passes are not done again.

    A strong ridge lowers the rate, so that no step shrinks the weights by more than half.
    """
    if step.finished:
        return np.asarray(step.kept)
    weights = weights.copy()
    if n_sequences == 0:
        return weights
    rate = min(rate, 0.5 / shrink) if shrink > 0 else rate
    shards = np.array_split(rng.permutation(n_sequences), min(SHARDS, n_sequences))
    visits, done, kept = 0, 0, step.kept
    if kept is not None:
        weights, visits, done, rng.bit_generator.state = (kept[name] for name in ("weights", "visits", "passes", "rng"))
    for number in range(done + 1, passes + 1):
        orders = [rng.permutation(shard) for shard in shards]

        def run(shard: int) -> tuple[Array, float]:
            mine = weights.copy()  # noqa: B023 (run is done before the next pass)
            order = orders[shard]  # noqa: B023
            steps = rate / (1 + rate * shrink * (visits + np.arange(len(order))))  # noqa: B023
            return mine, epoch(mine, order, steps)

        results = run_chunks(run, len(shards), n_jobs)
        visits += max(len(order) for order in orders)
        share = weights.dtype.type(1 / len(shards))
        weights = results[0][0]
        for other, _ in results[1:]:
            weights += other
        weights *= share
        if callback and callback(number, sum(loss for _, loss in results)):
            break
        step.keep(_standing, weights, visits, number, rng)
    return step.finish(weights)


def _standing(weights: Array, visits: int, passes: int, rng: np.random.Generator) -> dict[str, Any]:
    """After a pass, as a checkpoint keeps it."""
    return {"weights": weights, "visits": visits, "passes": passes, "rng": rng.bit_generator.state}
