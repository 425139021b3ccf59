"""Closure of candidate pairs: what blocking left out inside likely clusters is compared too."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.inference.closure import LARGEST, missing_pairs
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.training import sigmoid

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
ROUNDS = 5  # pairs added may join clusters, whose pairs are missing then; nearly all come in the first round


def closed(
    items: Mentions, score: Array, decide: Callable[[Mentions], Array], threshold: float = 0.5
) -> tuple[Mentions, NDArray[np.float64]]:
    """The items with more pairs, and the log-odds of all; `decide` gives those of the pairs of items."""
    before, too_large = items.n_pairs, 0
    for _ in range(ROUNDS):
        if items.n_pairs >= items.n_possible_pairs:
            break
        pairs = items.n_items, items.left, items.right, sigmoid(score)
        left, right, too_large = missing_pairs(*pairs, threshold, items.first_table or 0)
        if not len(left):
            break
        more = items.with_pairs(left, right)
        a, b = np.concatenate([items.left, left]), np.concatenate([items.right, right])
        order = np.lexsort((a, b))
        score = np.concatenate([score, decide(more)])[order]
        items = items.with_pairs(a[order], b[order])
    if items.n_pairs > before:
        log.info("%s", closure_line(before, items.n_pairs))
    if too_large:
        told = "%d likely clusters have over %d records; pairs in them that blocking left out count as no"
        log.warning(told, too_large, LARGEST)
    return items, score


def closure_line(candidates: int, compared: int) -> str:
    """What closure did, in a line."""
    more = compared - candidates
    told = f"{more:,} pair{'s' * (more != 1)} inside likely clusters that blocking left out"
    return f"{told} {'are' if more != 1 else 'is'} compared too ({100 * more / candidates:.1f} % more)"
