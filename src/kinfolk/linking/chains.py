"""What pairs of items connect, and where that contradicts pairs that must be apart: a = b, b = c, but a ≠ c."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def connected(left: NDArray[Any], right: NDArray[Any], n: int) -> NDArray[np.int32]:
    """A number for each of n items, the same for those that pairs connect."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(left), np.int8), (left, right)), shape=(n, n))
    return np.asarray(connected_components(links, directed=False)[1], np.int32)


class Contradiction(NamedTuple):
    """Two items that must be apart, the items of a chain of pairs that puts them together, from the one to the other,
    and which of the pairs (m,) that must be apart are contradicted."""

    pair: tuple[int, int]
    chain: list[int]
    against: NDArray[np.bool_]

    def named(self, name: Callable[[int], str]) -> str:
        """'a' = 'b' = 'c', but 'a' ≠ 'c'."""
        a, b = (repr(name(one)) for one in self.pair)
        return f"{' = '.join(repr(name(one)) for one in self.chain)}, but {a} ≠ {b}"


def contradiction(together: Array, apart: Array, n: int) -> Contradiction | None:
    """The first of the pairs (m, 2) of n items that are apart, but that pairs (k, 2) put together; None: none is."""
    if not len(together) or not len(apart):
        return None
    joined = connected(together[:, 0], together[:, 1], n)
    against = joined[apart[:, 0]] == joined[apart[:, 1]]
    if not against.any():
        return None
    a, b = map(int, apart[against.argmax()])
    return Contradiction((a, b), shortest_chain(together, a, b), against)


def shortest_chain(pairs: Array, start: int, end: int) -> list[int]:
    """The items on the shortest way from one to another by pairs; there is one."""
    near: dict[int, list[int]] = {}
    for a, b in pairs.tolist():
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    came, line = {start: start}, deque([start])
    while end not in came:
        at = line.popleft()
        for other in near[at]:
            if other not in came:
                came[other] = at
                line.append(other)
    way = [end]
    while way[-1] != start:
        way.append(came[way[-1]])
    return way[::-1]
