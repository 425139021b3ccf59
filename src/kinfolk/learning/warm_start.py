"""Stochastic passes: weights that answer well after a few visits to every sequence, long before the optimum.

The sequences are dealt into a fixed number of shards; each pass runs over every shard from the same weights, and the
results are averaged (iterative parameter mixing: McDonald, Hall and Mann, 2010). The answer is the mean of the weights
after the passes of the last half (Polyak and Juditsky, 1992). The shards do not depend on `n_jobs`, so neither does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.threads import run_chunks

Array = NDArray[Any]
# epoch(weights and squared gradients, both changed in place, order of sequences) -> loss met
Epoch = Callable[[Array, Array, NDArray[np.int64]], float]

SHARDS = 2


def warm_start(
    epoch: Epoch,
    weights: Array,
    squares: Array,
    n_sequences: int,
    *,
    passes: int,
    rng: np.random.Generator,
    n_jobs: int = 1,
    callback: Callable[[int, float], bool | None] | None = None,
) -> Array:
    """The mean of the weights after the passes of the last half; `weights` and `squares`, what their gradients have
    added up to, are where they begin, and are left untouched. `callback(pass, loss met)` may stop it."""
    weights, averaged = weights.copy(), 0
    if n_sequences == 0:
        return weights
    shards = np.array_split(rng.permutation(n_sequences), min(SHARDS, n_sequences))
    total = np.zeros_like(weights)
    for number in range(1, passes + 1):
        orders = [rng.permutation(shard) for shard in shards]

        def run(shard: int) -> tuple[Array, Array, float]:
            mine, met = weights.copy(), squares.copy()  # noqa: B023 (run is done before the next pass)
            loss = epoch(mine, met, orders[shard])  # noqa: B023
            return mine, met, loss

        results = run_chunks(run, len(shards), n_jobs)
        squares = sum((met - squares for _, met, _ in results), squares)
        share = weights.dtype.type(1 / len(shards))
        weights = results[0][0]
        for other, _, _ in results[1:]:
            weights += other
        weights *= share
        stop = callback is not None and callback(number, sum(loss for _, _, loss in results))
        if number > passes // 2:
            total += weights
            averaged += 1
        if stop:
            break
    return weights if averaged == 0 else total / weights.dtype.type(averaged)
