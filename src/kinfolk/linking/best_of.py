"""How a pair compares with the other candidates of its two items: whether it is the best match of either, or of both.

A similarity of 0.6 means little by itself: it is a match if all other candidates are at 0.1, and none if one is at 0.9.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import SettingError
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import Answer, Items, PairColumn, PairFeature, Statistics

CHUNK = 1 << 18


class BestOf(PairFeature):
    """How far the value of a comparison lies below the best among the candidates of either item.

    Two columns: the smaller of the two gaps (0: the best match of at least one item) and the larger (0: of both). The
    comparison must give more for what is more alike. Depends on the candidate pairs of the items: block them as in
    training, and ask about a part of a table only with all candidates of its items.
    """

    def __init__(self, comparison: PairFeature) -> None:
        if not isinstance(comparison, PairFeature) or len(comparison.columns) != 1:
            raise SettingError(
                f"BestOf takes a comparison of one column, such as TfidfCosine('name'); got {comparison!r}"
            )
        self.comparison = comparison
        name = comparison.columns[0].name
        self.columns = (PairColumn(f"best_of({name})"), PairColumn(f"best_of({name}), both"))

    def of(self, items: Mentions) -> Answer:
        answer = self.comparison.of(items)
        best = np.full(items.n_items, -np.inf)
        for start in range(0, items.n_pairs, CHUNK):
            part = slice(start, start + CHUNK)
            value = _known(answer(items.left[part], items.right[part]))
            np.maximum.at(best, items.left[part], value)
            np.maximum.at(best, items.right[part], value)

        def gaps(left: Items, right: Items) -> NDArray[np.float64]:
            value = answer(left, right)[:, 0].astype(np.float64)
            below = np.stack([np.minimum(value - best[left], 0.0), np.minimum(value - best[right], 0.0)])
            return np.stack([below.max(axis=0), below.min(axis=0)], axis=1)

        return gaps

    def spec(self) -> dict[str, Any]:
        return {"comparison": "BestOf", "of": self.comparison.spec()}

    def learn(self, items: Mentions) -> Self:
        return type(self)(self.comparison.learn(items))

    def statistics(self) -> Statistics | None:
        return self.comparison.statistics()

    def with_statistics(self, kept: Statistics) -> Self:
        return type(self)(self.comparison.with_statistics(kept))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BestOf) and self.comparison == other.comparison

    def __hash__(self) -> int:
        return hash(("BestOf", self.comparison))

    def __repr__(self) -> str:
        return f"BestOf({self.comparison!r})"


def _known(answers: NDArray[Any]) -> NDArray[np.float64]:
    return np.nan_to_num(answers[:, 0].astype(np.float64), nan=-np.inf)
