"""Ways from probabilities of pairs to clusters, as settings: what `Linker(clusterer=...)` takes."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.settings import Settings
from kinfolk.errors import InputError, SettingError
from kinfolk.inference.agglomerate import agglomerate
from kinfolk.inference.clustering import Constraints, best_link, best_match, single_link
from kinfolk.inference.correlation import correlation, log_odds
from kinfolk.inference.matching import one_to_one

Array = NDArray[Any]


SURE = 8.0  # log-odds beyond which a pair is no surer for AverageLink


class Clusterer(Settings):
    """threshold  the probability a pair (or what stands for it) has to exceed
    max_size   the most items of a cluster; None: no limit
    """

    every_pair: ClassVar[bool] = False  # whether all pairs of a cluster count, also those blocking left out

    def __init__(self, threshold: float = 0.5, max_size: int | None = None) -> None:
        self.threshold = threshold
        self.max_size = max_size

    def check(self) -> None:
        """Raise a SettingError for a setting outside its range."""
        number = isinstance(self.threshold, Real) and not isinstance(self.threshold, bool)
        if not number or not 0 <= self.threshold < 1:
            raise SettingError(
                f"threshold must be a probability from 0 up to but not including 1; got {self.threshold!r}"
            )
        if self.max_size is not None and not (isinstance(self.max_size, Integral) and self.max_size >= 1):
            raise SettingError(f"max_size must be 1 or more, or None for no limit; got {self.max_size!r}")

    @abstractmethod
    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array: ...

    def cluster(
        self,
        n: int,
        left: Array,
        right: Array,
        probability: Array,
        must_link: Array | None = None,
        cannot_link: Array | None = None,
        first_table: int | None = None,
    ) -> NDArray[np.int32]:
        """Clusters int32 (n,), numbered by their first items; pairs in order of right and then left.

        first_table   items of the first of two tables, all pairs crossing them; None: one table
        """
        self.check()
        unknown = int(np.isnan(probability).sum())
        if unknown:
            some = f"{unknown} of the {len(left)} pairs {'has' if unknown == 1 else 'have'}"
            raise InputError(f"{some} NaN for a probability; give a number from 0 to 1")
        must, cannot = (
            _pairs(given, n, name) for given, name in ((must_link, "must_link"), (cannot_link, "cannot_link"))
        )
        _check_harmony(n, must, cannot, self.max_size)
        rules = Constraints(must, cannot, self.max_size or 0, first_table or 0)
        return np.asarray(self._cluster(n, left, right, probability, rules), np.int32)


class SingleLink(Clusterer):
    """The transitive closure of the pairs above the threshold."""

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        return single_link(n, left, right, probability, self.threshold, rules)


class AverageLink(Clusterer):
    """Joins the clusters with the highest mean over their pairs, as long as it exceeds the threshold.

    Pairs are those that can be compared: all of one table, of two tables those that cross them.

    of   "probability": pairs that are no candidates count as 0; "log-odds": the mean of log-odds between -8 and 8, -8
         for pairs that are no candidates, so that a pair the model is sure of counts for more
    """

    every_pair = True

    def __init__(self, threshold: float = 0.5, max_size: int | None = None, of: str = "probability") -> None:
        super().__init__(threshold, max_size)
        self.of = of

    def check(self) -> None:
        super().check()
        if self.of not in ("probability", "log-odds"):
            raise SettingError(f'of must be "probability" or "log-odds"; got {self.of!r}')

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        if self.of == "probability":
            return agglomerate(n, left, right, probability, "average", self.threshold, rules)
        value, least = (np.clip(log_odds(p), -SURE, SURE) + SURE for p in (probability, np.array([self.threshold])))
        return agglomerate(n, left, right, value, "average", float(least[0]), rules)


class CompleteLink(Clusterer):
    """Joins the clusters with the highest smallest probability, as long as it exceeds the threshold."""

    every_pair = True

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        return agglomerate(n, left, right, probability, "complete", self.threshold, rules)


class BestLink(Clusterer):
    """Joins every item to one earlier item: the most probable ("best") or the closest above the threshold."""

    def __init__(self, kind: str = "best", threshold: float = 0.5, max_size: int | None = None) -> None:
        super().__init__(threshold, max_size)
        self.kind = kind

    def check(self) -> None:
        super().check()
        if self.kind not in ("best", "closest"):
            raise SettingError(f'kind must be "best" or "closest"; got {self.kind!r}')

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        return best_link(n, left, right, probability, self.kind, self.threshold, rules)


class Correlation(Clusterer):
    """Clusters with a large sum of log-odds within them: greedy joins, then single moves, to a local optimum."""

    every_pair = True

    def check(self) -> None:
        super().check()
        if self.threshold == 0:
            raise SettingError("Correlation needs a threshold above 0: at 0 its log-odds are infinite")

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        return correlation(n, left, right, probability, self.threshold, rules)


class BestMatch(Clusterer):
    """For two tables: joins every record to its most probable match in the other table, if above the threshold.

    each   "first": every record of the first table, so that many of them may belong to one of the second; "second":
           the other way round; "both": every record of both tables
    """

    def __init__(self, each: str = "both", threshold: float = 0.5, max_size: int | None = None) -> None:
        super().__init__(threshold, max_size)
        self.each = each

    def check(self) -> None:
        super().check()
        if self.each not in ("first", "second", "both"):
            raise SettingError(f'each must be "first", "second" or "both"; got {self.each!r}')

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        _check_two_tables(self, left, right)
        return best_match(n, left, right, probability, self.each, self.threshold, rules)


class OneToOne(Clusterer):
    """For two tables without duplicates of their own: the exact matching of largest total log-odds."""

    def check(self) -> None:
        super().check()
        if self.threshold == 0:
            raise SettingError("OneToOne needs a threshold above 0: at 0 its log-odds are infinite")

    def _cluster(self, n: int, left: Array, right: Array, probability: Array, rules: Constraints) -> Array:
        _check_two_tables(self, left, right)
        return one_to_one(n, left, right, probability, self.threshold, rules)


def _check_two_tables(clusterer: Clusterer, left: Array, right: Array) -> None:
    both = np.intersect1d(left, right)
    if len(both):
        raise SettingError(
            f"{type(clusterer).__name__} is for pairs across two tables, but item {both[0]} is left in one pair, right "
            "in another; read two tables, or take another clusterer"
        )


_ALL = (SingleLink, AverageLink, CompleteLink, BestLink, BestMatch, Correlation, OneToOne)
CLUSTERERS = {cls.__name__: cls for cls in _ALL}


def _pairs(given: Array | None, n: int, name: str) -> NDArray[np.int32]:
    pairs = np.asarray([] if given is None else given, np.int64).reshape(-1, 2)
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= n or (pairs[:, 0] == pairs[:, 1]).any()):
        raise SettingError(
            f"{name} must hold pairs of different items among {n}, counted from 0; got {pairs[:3].tolist()}"
        )
    return pairs.astype(np.int32)


def _check_harmony(n: int, must: Array, cannot: Array, max_size: int | None) -> None:
    """Must-links, closed, may not put together what must not be, nor too many."""
    if not len(must):
        return
    together = single_link(n, must.min(axis=1), must.max(axis=1), np.ones(len(must)))
    clash = np.flatnonzero(together[cannot[:, 0]] == together[cannot[:, 1]])
    if len(clash):
        a, b = cannot[clash[0]]
        raise SettingError(
            f"items {a} and {b} must not be linked, but must_link puts them together; drop one of the two"
        )
    largest = int(np.bincount(together).max())
    if max_size is not None and largest > max_size:
        raise SettingError(f"must_link makes a cluster of {largest} items, where max_size is {max_size}; raise it")
