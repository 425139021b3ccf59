"""One-to-one: every record of two clean tables has at most one partner, and the log-odds of all partners are
largest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.inference.clustering import Constraints, numbered, single_link
from kinfolk.inference.correlation import log_odds

Array = NDArray[Any]


def one_to_one(
    n: int,
    left: Array,
    right: Array,
    probability: Array,
    threshold: float = 0.5,
    constraints: Constraints | None = None,
) -> NDArray[np.int32]:
    """The matching of largest Σ (log-odds - log-odds of the threshold) over pairs above the threshold.

    Exact, by the shortest-path algorithm for sparse assignment. Each left item may also take a partner of its own that
    stands for none, at gain 0, so a full assignment always exists. `must_link` pairs are partners whatever the others
    say. No item may be left in one pair and right in another.
    """
    rules = constraints or Constraints()
    must = np.asarray(rules.must_link, np.int64).reshape(-1, 2)
    barred = {tuple(sorted(map(int, pair))) for pair in np.asarray(rules.cannot_link).reshape(-1, 2)}
    taken = np.zeros(n, bool)
    taken[must.ravel()] = True
    gain = log_odds(probability) - log_odds(np.array([threshold]))[0]
    usable = (gain > 0) & ~taken[left] & ~taken[right]
    if barred:
        usable &= np.fromiter(
            ((int(a), int(b)) not in barred for a, b in zip(left, right, strict=True)), bool, len(left)
        )
    roots = single_link(n, must.min(axis=1), must.max(axis=1), np.ones(len(must)))
    a, b = left[usable], right[usable]
    if len(a) and rules.max_size != 1:
        partner = _assigned(a, b, gain[usable])
        roots[partner[:, 1]] = roots[partner[:, 0]]
    return numbered(roots)


def _assigned(left: Array, right: Array, gain: Array) -> Array:
    """Pairs (m, 2) of the best matching. Costs are (largest gain + 1) - gain, since a sparse matrix holds no zeros."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    rows, a = np.unique(left, return_inverse=True)
    columns, b = np.unique(right, return_inverse=True)
    dear = float(gain.max()) + 1.0
    alone = np.arange(len(rows))
    cost = np.concatenate([dear - gain, np.full(len(rows), dear)])
    where = (np.concatenate([a, alone]), np.concatenate([b, len(columns) + alone]))
    table = csr_array((cost, where), shape=(len(rows), len(columns) + len(rows)))
    row, column = min_weight_full_bipartite_matching(table)
    real = column < len(columns)
    return np.stack([rows[row[real]], columns[column[real]]], axis=1)
