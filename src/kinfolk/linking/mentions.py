"""Mentions in documents, or records in tables: items, candidate pairs of them, and the clusters they belong to."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.core.data import Column, read_only
from kinfolk.core.kernels import njit
from kinfolk.errors import InputError
from kinfolk.linking.nested import is_nested, nested_column
from kinfolk.text.corpus import Corpus

# -- What the parts of `Mentions` have to be -----------------------------------------------------------

Array = NDArray[Any]
# strings (code -1 = missing), numbers (n,) (NaN = missing) or vectors (n, d) (NaN in a row = missing)
Attribute = Column | NDArray[np.float64] | NDArray[np.float32]


def checked_pairs(
    left: ArrayLike, right: ArrayLike, groups: NDArray[np.int32], first_table: int | None
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    a, b = np.asarray(left, np.int32), np.asarray(right, np.int32)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"left and right must be rows of one length; got {a.shape} and {b.shape}")
    if _sound(read_only(a), read_only(b), read_only(groups), -1 if first_table is None else int(first_table)):
        return a, b
    if a.min() < 0 or b.max() >= len(groups) or (a >= b).any():
        wanted = f"expected left < right among {len(groups)} items"
        at = int(np.flatnonzero((a < 0) | (b >= len(groups)) | (a >= b))[0])
        raise InputError(f"pair {at} is ({a[at]}, {b[at]}): {wanted}; with_pairs() puts pairs in order")
    steps = np.diff(b)
    if (steps < 0).any() or ((steps == 0) & (np.diff(a) <= 0)).any():
        raise InputError("pairs must be in order of right and then left, each once; with_pairs() puts them in order")
    if (groups[a] != groups[b]).any():
        at = int(np.flatnonzero(groups[a] != groups[b])[0])
        raise InputError(f"pair ({a[at]}, {b[at]}) joins two groups; items of different documents are never compared")
    if first_table is not None and ((a >= first_table) | (b < first_table)).any():
        at = int(np.flatnonzero((a >= first_table) | (b < first_table))[0])
        raise InputError(f"pair ({a[at]}, {b[at]}) lies within one of the two tables; expected one item from each")
    return a, b


@njit(nogil=True, cache=True)
def _sound(a: Array, b: Array, groups: Array, first_table: int) -> bool:
    """Whether all is as it has to be, in one look at each pair; what is wrong is found out afterwards."""
    low, high = -1, -1
    for k in range(len(a)):
        left, right = a[k], b[k]
        if left < 0 or right >= len(groups) or left >= right or right < high or (right == high and left <= low):
            return False
        if groups[left] != groups[right] or (first_table >= 0 and (left >= first_table or right < first_table)):
            return False
        low, high = left, right
    return True


def checked_clusters(clusters: ArrayLike, groups: NDArray[np.int32]) -> NDArray[np.int32]:
    numbers = np.asarray(clusters, np.int32)
    if numbers.shape != groups.shape:
        raise InputError(f"expected a cluster for each of {len(groups)} items, -1 if not known; got {numbers.shape}")
    known = np.flatnonzero(numbers >= 0)
    first = np.full(int(numbers.max(initial=-1)) + 1, -1, np.int64)
    first[numbers[known[::-1]]] = known[::-1]
    astray = known[groups[first[numbers[known]]] != groups[known]]
    if len(astray):
        a, b = int(first[numbers[astray[0]]]), int(astray[0])
        raise InputError(f"items {a} and {b} share cluster {numbers[b]} but not the group; number clusters apart")
    return read_only(numbers)


def as_attribute(name: str, given: Any, ids: Sequence[str] | None = None) -> Attribute:
    """A column of strings, of numbers or of vectors, whatever it came as; `ids` are for messages."""
    if isinstance(given, Column):
        return given
    if is_nested(given):
        return nested_column(name, given, ids)
    values = np.asarray(given)
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    listed = list(given)
    if all(value is None or isinstance(value, str) for value in listed):
        return Column.from_strings(value or None for value in listed)
    if all(value is None or isinstance(value, int | float | np.number) for value in listed):
        return np.array([np.nan if value is None else float(value) for value in listed])
    raise InputError(f"column {name!r} must hold strings or numbers, None for missing; got {listed[:3]!r}")


# -- mentions --------------------------------------------------------------------------------------

log = logging.getLogger("kinfolk")
GIANT = 20_000_000  # pairs of one group above which a word of warning is due


@dataclass(frozen=True, eq=False, repr=False)
class Mentions:
    """Items, what is known of each, which pairs of them are in question, and (in training) the true clusters.

    columns      name -> Column of strings, float64 array, one value an item, or float32 (n, d), a vector an item
    groups       int32 (n,), never falling: the document of a mention; pairs never cross groups. Records have one group
    left, right  int32 (P,), candidate pairs, left < right, in order of right and then left: a mention with its
    antecedents
    clusters     int32 (n,), the true cluster, -1 = not known; None: no truth
    names        one name an item, unique within its group; by default its number
    group_names  one name a group
    blocked      whether the pairs are all that are to be looked at, though there be none; False: none were chosen yet
    first_table  number of items from the first of two tables, whose pairs then cross tables; None: one table
    corpus       the text mentions were read from, spans their tokens: int64 (n, 2), start and end (exclusive)
    bests        of comparisons within `BestOf`, by name: float64 (n,), the best value among the candidates of an item,
                 where `left` and `right` are some of them, or more; None: they are all, and it is worked out
    """

    columns: Mapping[str, Attribute]
    groups: NDArray[np.int32]
    left: NDArray[np.int32] = field(repr=False)
    right: NDArray[np.int32] = field(repr=False)
    clusters: NDArray[np.int32] | None = field(default=None, repr=False)
    names: Sequence[str] | None = field(default=None, repr=False)
    group_names: Sequence[str] | None = field(default=None, repr=False)
    first_table: int | None = None
    blocked: bool = False
    corpus: Corpus | None = field(default=None, repr=False)
    spans: NDArray[np.int64] | None = field(default=None, repr=False)
    bests: Mapping[str, NDArray[np.float64]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        groups = np.asarray(self.groups, np.int32)
        n = len(groups)
        if n and (groups[0] < 0 or (np.diff(groups) < 0).any()):
            raise InputError("groups must be numbers from 0 that never fall: put the items of a document side by side")
        columns = {name: as_attribute(name, column, self.names) for name, column in self.columns.items()}
        for name, column in columns.items():
            if len(column) != n:
                raise InputError(f"column {name!r} has {len(column)} values for {n} items")
        left, right = checked_pairs(self.left, self.right, groups, self.first_table)
        clusters = None if self.clusters is None else checked_clusters(self.clusters, groups)
        if self.names is not None and len(self.names) != n:
            raise InputError(f"{len(self.names)} names for {n} items")
        arrays = {"groups": read_only(groups), "left": read_only(left), "right": read_only(right), "clusters": clusters}
        others = {"columns": MappingProxyType(columns), "blocked": bool(self.blocked or len(left))}
        for name, value in (arrays | others).items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_groups(cls, groups: ArrayLike, columns: Mapping[str, Attribute], **rest: Any) -> Mentions:
        """Every pair of items within a group is a candidate, as in coreference."""
        numbers = np.asarray(groups, np.int32)
        largest = int(np.bincount(numbers).max()) if len(numbers) else 0
        if largest * (largest - 1) // 2 > GIANT:
            message = "a group of %d items makes %d pairs, which takes time and memory; block() them, or cut the group"
            log.warning(message, largest, largest * (largest - 1) // 2)
        left, right = pairs_within(numbers)
        return cls(columns, numbers, left, right, blocked=True, **rest)

    def __len__(self) -> int:
        return len(self.groups)

    def __reduce__(self) -> tuple[Any, ...]:
        return Mentions, (dict(self.columns), *(getattr(self, one.name) for one in fields(self)[1:]))

    def __repr__(self) -> str:
        kind = "records" if self.corpus is None else f"mentions in {self.n_groups:,} documents"
        tables = "" if self.first_table is None else f" ({self.first_table:,} and {self.n_items - self.first_table:,})"
        pairs = f"{self.n_pairs:,} candidate pairs" if self.blocked else "no candidate pairs yet"
        truth = "" if self.clusters is None else f", {self.n_true_pairs:,} true pairs"
        return f"<{self.n_items:,} {kind}{tables}; columns {', '.join(self.columns) or 'none'}; {pairs}{truth}>"

    @property
    def n_items(self) -> int:
        return len(self.groups)

    @property
    def n_pairs(self) -> int:
        return len(self.left)

    @property
    def n_groups(self) -> int:
        return int(self.groups[-1]) + 1 if len(self.groups) else 0

    @property
    def pair_labels(self) -> NDArray[np.int8]:
        """int8 (P,): 1 the same cluster, 0 different ones, -1 not known."""
        if self.clusters is None:
            return np.full(self.n_pairs, -1, np.int8)
        a, b = self.clusters[self.left], self.clusters[self.right]
        return np.where((a < 0) | (b < 0), -1, a == b).astype(np.int8)

    @property
    def in_pairs(self) -> bool:
        """Whether no true cluster has more than two items, among so many that with 90 % confidence fewer than 5 % of
        others would: 0.95^n <= 0.1 for n = 45."""
        if self.clusters is None:
            return False
        sizes = np.bincount(self.clusters[self.clusters >= 0], minlength=1)
        return int((sizes == 2).sum()) >= 45 and int(sizes.max()) == 2

    @property
    def n_true_pairs(self) -> int:
        """Pairs of items of one cluster, candidates or not; with two tables those that cross them."""
        if self.clusters is None:
            return 0
        known = self.clusters >= 0
        sizes = np.bincount(self.clusters[known]).astype(np.int64)
        if self.first_table is None:
            return int((sizes * (sizes - 1) // 2).sum())
        first = np.arange(self.n_items) < self.first_table
        ours = np.bincount(self.clusters[known & first], minlength=len(sizes)).astype(np.int64)
        return int((ours * (sizes - ours)).sum())

    @property
    def n_possible_pairs(self) -> int:
        """Pairs there would be without blocking."""
        if self.first_table is not None:
            return self.first_table * (self.n_items - self.first_table)
        sizes = np.bincount(self.groups).astype(np.int64)
        return int((sizes * (sizes - 1) // 2).sum())

    def name(self, item: int) -> str:
        return str(item) if self.names is None else str(self.names[item])

    def number(self, item: int | str) -> int:
        """The number of an item given by number or, as a string, by name, which no two documents may have."""
        if not isinstance(item, str):
            if not 0 <= int(item) < self.n_items and str(item) in self._numbers():
                remedy = f"ids are strings: write '{item}'; a number counts from 0"
                raise InputError(f"no item {item} among {self.n_items}; {remedy}")
            return int(item)
        if self.names is None:
            raise InputError(f"the items have no names, so {item!r} names none; give its number")
        found = self._numbers().get(item, [])
        if len(found) != 1:
            which = f"{len(found)} items, in several documents, named" if found else "no item named"
            raise InputError(
                f"{which} {item!r}; names look like {self.names[0]!r}" if self.names else f"no item {item!r}"
            )
        return found[0]

    def _numbers(self) -> dict[str, list[int]]:
        known: dict[str, list[int]] | None = self.__dict__.get("_by_name")
        if known is None:
            known = {}
            for i, name in enumerate(self.names or ()):
                known.setdefault(str(name), []).append(i)
            object.__setattr__(self, "_by_name", known)
        return known

    def title(self, item: int) -> str:
        """The name of an item with its text, where it has one."""
        text = self.columns.get("text")
        if not isinstance(text, Column) or text.codes[item] < 0:
            return self.name(item)
        return f"{text.values[text.codes[item]]!r} ({self.name(item)})"

    def group_name(self, group: int) -> str:
        return str(group) if self.group_names is None else str(self.group_names[group])

    def with_pairs(self, left: ArrayLike, right: ArrayLike) -> Mentions:
        """The same items with other candidate pairs, in any order; a pair given twice counts once."""
        first, second = ordered_pairs(left, right)
        return replace(self, left=first, right=second, blocked=True)

    def with_columns(self, **columns: Any) -> Mentions:
        """The same items with more columns: arrays, Columns, or lists of strings, of numbers, of lists of strings or of
        vectors, None for missing."""
        return replace(self, columns={**self.columns, **columns}, bests=None)

    def take_groups(self, groups: Iterable[int]) -> Mentions:
        """Some of the groups, in their own order; a document without mentions is a group without items."""
        chosen, count = list(groups), max(self.n_groups, len(self.group_names or ()))
        strange = next((g for g in chosen if not 0 <= g < count), None)
        if strange is not None:
            raise InputError(f"no group {strange}; there are {count}, counted from 0")
        return self.take(np.isin(self.groups, chosen))

    def take(self, items: ArrayLike) -> Mentions:
        """Some of the items (a mask, or numbers in rising order) with the pairs among them.

        Groups are numbered anew; clusters keep their numbers. The corpus stays whole.
        """
        chosen = np.asarray(items)
        if len(chosen) != self.n_items if chosen.dtype == bool else ((chosen < 0) | (chosen >= self.n_items)).any():
            raise InputError(f"expected a mask of {self.n_items} items, or their numbers from 0; got {chosen!r}")
        if chosen.dtype != bool and (np.diff(chosen) <= 0).any():
            raise InputError("numbers of items must rise, each once: items keep their order; sort them, or give a mask")
        mask = chosen if chosen.dtype == bool else np.isin(np.arange(self.n_items), chosen)
        kept = np.flatnonzero(mask)
        number = np.cumsum(mask, dtype=np.int32) - 1
        pairs = mask[self.left] & mask[self.right]
        present, groups = np.unique(self.groups[kept], return_inverse=True)
        columns = {
            name: column.take(kept) if isinstance(column, Column) else column[kept]
            for name, column in self.columns.items()
        }
        return Mentions(
            columns,
            groups.astype(np.int32),
            number[self.left[pairs]],
            number[self.right[pairs]],
            None if self.clusters is None else self.clusters[kept],
            None if self.names is None else [self.names[int(i)] for i in kept],
            None if self.group_names is None else [self.group_names[int(g)] for g in present],
            None if self.first_table is None else int(mask[: self.first_table].sum()),
            self.blocked,
            self.corpus,
            None if self.spans is None else self.spans[kept],
        )


def pairs_within(groups: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Every pair of items of a group, ordered by the second item and then the first."""
    starts = np.searchsorted(groups, groups, side="left").astype(np.int64)  # the first item of each item's group
    before = np.arange(len(groups)) - starts  # antecedents of each item
    right = np.repeat(np.arange(len(groups), dtype=np.int32), before)
    ends = np.cumsum(before)
    left = np.arange(len(right)) - np.repeat(ends - before, before) + np.repeat(starts, before)
    return left.astype(np.int32), right


def ordered_pairs(left: ArrayLike, right: ArrayLike) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Pairs in the order of `Mentions`, the smaller item to the left, each once."""
    a, b = (np.asarray(side, None if getattr(side, "dtype", None) == np.int32 else np.int64) for side in (left, right))
    low, high = np.minimum(a, b), np.maximum(a, b)
    later = high[1:] > high[:-1]
    later |= (high[1:] == high[:-1]) & (low[1:] > low[:-1])
    if later.all():  # as they are, which is seen much sooner than they are sorted
        return low.astype(np.int32), high.astype(np.int32)
    return pairs_of(np.unique(pair_keys(low, high)))


def pair_keys(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each pair; they rise in the order of `Mentions`."""
    return np.asarray(right.astype(np.int64) << 32 | left)


def pairs_of(keys: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Left and right of pairs with these numbers."""
    return (keys & 0xFFFFFFFF).astype(np.int32), (keys >> 32).astype(np.int32)
