"""Which pairs to ask about: those whose answers tell a model most.

With p the probability of a pair and t the threshold of the clusterer, a pair

    contradicts its cluster     apart though p > t, or together though p < t; the more, the larger |p - t|
    is unsure                   |log-odds(p) - log-odds(t)| is at most 2.2; the more, the smaller it is

Both kinds come by turns, in each those together and those apart, and in each the blocking rules that brought the pairs
together, so that no rule has all the questions. The turns of together and apart matter: clusters know more than p, so
of pairs with one p those apart are rarely a match, and labels of them alone teach that p was too high (Abt-Buy's first
half, F1 after 0, 10, 20 and 50 answers: 96.0, 72.0, 79.4, 89.5 without such turns, 96.0, 97.4, 96.9, 97.6 with them).
Of two tables nothing counts as a contradiction, for matching keeps a pair apart when a better one is there.

Until the model is trained again a distinct row of codes is asked about once, and so is a cluster, or two clusters with
each other: alike pairs teach alike things. Pairs that are neither come last, the least sure first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.inference.clustering import log_odds

Array = NDArray[Any]
UNSURE = 2.2  # log-odds of 0.9: probabilities from 0.1 to 0.9 where the threshold is 0.5
MOST = 1_000  # pairs of each kind that are put in order
CONTRADICTS, CLOSE, OTHER, DRAWN = range(4)


class Scored(NamedTuple):
    """All pairs compared: probability, the clusters of their items, and the number of the rule of each."""

    probability: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    block: NDArray[np.int64]
    threshold: float
    matched: bool = False  # whether records of two tables are matched, so that a probable pair may well be apart

    @property
    def together(self) -> NDArray[np.bool_]:
        return np.asarray(self.left == self.right)


class Queue(NamedTuple):
    """Numbers of pairs in the order of asking, and what kind each is."""

    pairs: NDArray[np.int64]
    kinds: NDArray[np.int8]


def questions(scored: Scored, rows: Callable[[Array], Array], answered: Array, rng: np.random.Generator) -> Queue:
    """The order of asking; `rows` gives a number a distinct row of codes, of some pairs, `answered` pairs that have an
    answer."""
    kinds, value = _kinds(scored)
    tie = rng.random(len(value))
    together = scored.together
    sides = [
        _best(np.flatnonzero((kinds == kind) & (together == side)), value, tie)
        for kind in (CONTRADICTS, CLOSE)
        for side in (True, False)
    ]
    turns = [side[scored.block[side] == block] for block in np.unique(scored.block) for side in sides]
    rest = _best(np.flatnonzero(kinds == OTHER), value, tie)
    order = np.array([*_by_turns(turns), *rest.tolist()], np.int64)
    pairs = _diverse(scored, order, rows(np.concatenate([answered, order])), answered)
    return Queue(pairs, kinds[pairs])


def _kinds(scored: Scored) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """The kind of each pair, and a value that is the smaller the sooner it is asked."""
    away = np.abs(log_odds(scored.probability) - log_odds(np.array(scored.threshold)))
    excess = scored.probability - scored.threshold
    against = np.where(scored.together, -excess, excess) * (not scored.matched)
    kinds = np.where(against > 0, CONTRADICTS, np.where(away <= UNSURE, CLOSE, OTHER)).astype(np.int8)
    return kinds, np.where(kinds == CONTRADICTS, -against, away)


def _best(pairs: Array, value: Array, tie: Array) -> Array:
    """The MOST pairs of least value, in order; equal ones in the order of `tie`."""
    if len(pairs) > MOST:
        limit = np.partition(value[pairs], MOST - 1)[MOST - 1]
        pairs = pairs[value[pairs] <= limit]
    return pairs[np.lexsort((tie[pairs], value[pairs]))][:MOST]


def _by_turns(lists: Sequence[Array]) -> Iterator[int]:
    for turn in zip_longest(*(one.tolist() for one in lists)):
        yield from (pair for pair in turn if pair is not None)


def _diverse(scored: Scored, order: Array, rows: Array, answered: Array) -> NDArray[np.int64]:
    """The same pairs, those last whose row or whose clusters came before; `rows`: of the answered and the ordered."""
    seen = set(rows[: len(answered)].tolist())
    clusters: set[tuple[int, int]] = set()
    first: list[int] = []
    later: list[int] = []
    for pair, row in zip(order.tolist(), rows[len(answered) :].tolist(), strict=True):
        ends = sorted((int(scored.left[pair]), int(scored.right[pair])))
        both = ends[0], ends[1]
        (later if row in seen or both in clusters else first).append(pair)
        seen.add(row)
        clusters.add(both)
    return np.array([*first, *later], np.int64)


def drawn(scored: Scored, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Pairs at random, to see what a model that is sure gets wrong: by turns of those together, each as likely, and of
    those apart, the more likely the higher their probability."""
    together = np.flatnonzero(scored.together)
    apart = np.flatnonzero(~scored.together)
    found = [_draw(together, None, count, rng), _draw(apart, scored.probability[apart], count, rng)]
    return np.array(list(_by_turns(found)), np.int64)


def _draw(pairs: Array, weight: Array | None, count: int, rng: np.random.Generator) -> Array:
    """Without the same pair twice, by the largest of u^(1/w) (Efraimidis and Spirakis)."""
    w = np.ones(len(pairs)) if weight is None else np.maximum(weight, 1e-12)
    key = np.log(rng.random(len(pairs))) / w
    return pairs[np.argsort(-key, kind="stable")[:count]]
