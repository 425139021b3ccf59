"""Pair features after training: numbers in bins, conjunctions of columns, and a weight for every value.

Code 0 of a binned column is "missing", code b > 0 the b-th bin. A conjunction of two columns has a weight for every
pair of their values. Rows of codes turn into rows of weight numbers, one a column and one a conjunction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import InputError, SettingError
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import Answer, Items, PairFeature

MISSING = "missing"
SAMPLE = 200_000  # pairs from which bins are learned
MAX_BINS = 200


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """A column as the model sees it; `edges` (rising) divide the numbers of a binned one."""

    name: str
    values: tuple[str, ...]
    edges: NDArray[np.float64] | None = None

    @classmethod
    def binned(cls, name: str, edges: NDArray[np.float64], words: tuple[str, str] | None = None) -> CodedColumn:
        if words is not None and len(edges) == 1:
            return cls(name, (MISSING, *words), edges)
        marks = [f"{edge:.3g}" for edge in edges]
        inner = [f"{a} to {b}" for a, b in pairwise(marks)]
        ranges = [f"below {marks[0]}", *inner, f"{marks[-1]} or more"] if marks else ["known"]
        return cls(name, (MISSING, *ranges), edges)


class PairSet:
    """Which features, how their numbers are binned, which columns are joined."""

    def __init__(
        self, features: Sequence[PairFeature], columns: Sequence[CodedColumn], joined: Sequence[tuple[int, int]]
    ) -> None:
        self.features, self.columns, self.joined = tuple(features), tuple(columns), tuple(joined)
        sizes = np.array([len(column.values) for column in self.columns], np.int64)
        widths = [*sizes, *(sizes[a] * sizes[b] for a, b in self.joined)]
        self.sizes, self.offsets = sizes, np.concatenate([[0], np.cumsum(widths)]).astype(np.int32)

    @classmethod
    def learn(
        cls,
        features: Sequence[PairFeature],
        items: Mentions,
        labels: NDArray[np.int8] | None = None,
        *,
        bins: int | str = 8,
        binning: str = "learned",
        conjunctions: Any = None,
        seed: int = 0,
    ) -> PairSet:
        """Bins from (a sample of) the pairs of `items`, whose labels "learned" bins follow; None: those of clusters."""
        columns: list[CodedColumn] = []
        left, right, labels = _sample(items, items.pair_labels if labels is None else labels, seed)
        for feature in features:
            if feature.columns[0].values is not None:
                columns += [CodedColumn(column.name, column.values or ()) for column in feature.columns]
                continue
            numbers = feature.of(items)(left, right)
            for k, column in enumerate(feature.columns):
                edges = _edges(numbers[:, k], labels, int(bins), binning)
                columns.append(CodedColumn.binned(column.name, edges, column.words))
        _check_names([column.name for column in columns])
        return cls(features, columns, joined_columns(conjunctions, [column.name for column in columns]))

    @property
    def n_weights(self) -> int:
        return int(self.offsets[-1])

    def coder(self, items: Mentions) -> Callable[[Items, Items], NDArray[np.uint8]]:
        """A function from pairs to codes, uint8 (m, columns)."""
        answers: list[tuple[PairFeature, Answer]] = [(feature, feature.of(items)) for feature in self.features]

        def coded(left: Items, right: Items) -> NDArray[np.uint8]:
            codes = np.empty((len(left), len(self.columns)), np.uint8)
            at = 0
            for feature, answer in answers:
                found = answer(left, right)
                for k in range(len(feature.columns)):
                    codes[:, at] = _codes(found[:, k], self.columns[at])
                    at += 1
            return codes

        return coded

    def weights_on(self, codes: NDArray[np.uint8]) -> NDArray[np.int32]:
        """int32 (R, columns + conjunctions): the number of the weight that is on for each."""
        index = np.empty((len(codes), len(self.columns) + len(self.joined)), np.int32)
        n = len(self.columns)
        index[:, :n] = codes + self.offsets[:n]
        for k, (a, b) in enumerate(self.joined, n):
            index[:, k] = codes[:, a].astype(np.int32) * self.sizes[b] + codes[:, b] + self.offsets[k]
        return index

    def column_means(self, weighted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over the values of each column and conjunction of something given a weight."""
        bounds = self.offsets
        return np.array([weighted[a:b].sum() for a, b in pairwise(bounds.tolist())])

    def weight_names(self) -> list[str]:
        """`same text: names` or `forms: name, name & words: equal`."""
        names = [[f"{column.name}: {value}" for value in column.values] for column in self.columns]
        names += [[f"{x} & {y}" for x in names[a] for y in names[b]] for a, b in self.joined]
        return [name for column in names for name in column]


def joined_columns(given: Any, names: Sequence[str]) -> list[tuple[int, int]]:
    """None: no conjunctions; "all": every two columns; or pairs of column names."""
    if given is None:
        return []
    if isinstance(given, str):
        if given != "all":
            raise SettingError(f'conjunctions must be None, "all" or a list of pairs of column names; got {given!r}')
        return [(a, b) for a in range(len(names)) for b in range(a + 1, len(names))]
    number = {name: k for k, name in enumerate(names)}
    unknown = [name for pair in given for name in pair if name not in number]
    if unknown:
        raise SettingError(f"no column {unknown[0]!r} for a conjunction; the columns are {', '.join(names)}")
    return [(number[a], number[b]) for a, b in given]


def _check_names(names: Sequence[str]) -> None:
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise SettingError(f"two pair features are named {twice!r}; leave one out or name it otherwise")


def _codes(found: NDArray[Any], column: CodedColumn) -> NDArray[Any]:
    if column.edges is None:
        return found
    codes = 1 + np.searchsorted(column.edges, found, side="right")
    codes[np.isnan(found)] = 0
    return codes


def _sample(items: Mentions, labels: NDArray[np.int8], seed: int) -> tuple[Items, Items, NDArray[np.int8]]:
    """At most SAMPLE pairs; of the pairs of one cluster, which are few, up to half of them."""
    known = np.flatnonzero(labels >= 0) if items.clusters is not None else np.arange(items.n_pairs)
    if not len(known):
        raise InputError("there is no candidate pair with a known answer to learn from; look at the blocking and truth")
    rng = np.random.default_rng(seed)
    chosen = known
    if len(known) > SAMPLE:
        positive = known[labels[known] == 1]
        if len(positive) > SAMPLE // 2:
            positive = rng.choice(positive, SAMPLE // 2, replace=False)
        rest = rng.choice(known, SAMPLE - len(positive), replace=False)
        chosen = np.unique(np.concatenate([positive, rest]))
    return items.left[chosen], items.right[chosen], labels[chosen]


def _edges(values: NDArray[Any], labels: NDArray[np.int8], bins: int, binning: str) -> NDArray[np.float64]:
    """Where bins end: between the leaves of a small tree that tells the labels apart, or at quantiles."""
    if not 1 <= bins <= MAX_BINS:
        raise SettingError(f"bins must lie between 1 and {MAX_BINS}; got {bins}")
    known = np.abs(values) <= np.finfo(np.float32).max  # what a tree cannot hold goes into the first and last bin
    there, answers = values[known].astype(np.float64), labels[known]
    if bins == 1 or not len(there) or there.min() == there.max():
        return np.empty(0)
    if binning == "quantile":
        middle = np.quantile(there, np.linspace(0, 1, bins + 1)[1:-1])
        return np.unique(middle[middle > there.min()])
    if binning != "learned":
        raise SettingError(f'binning must be "learned" or "quantile"; got {binning!r}')
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_leaf_nodes=bins, min_samples_leaf=10, class_weight="balanced", random_state=0)
    tree.fit(there[:, None], answers)
    inner = tree.tree_.children_left >= 0
    return np.unique(tree.tree_.threshold[inner])
