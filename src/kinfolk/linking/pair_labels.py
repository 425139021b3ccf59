"""Labels of pairs of records: yes, no or not known, each pair for itself. What nobody said of a pair stays unknown."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.columns import Column, object_column, written
from kinfolk.core.ids import id_column
from kinfolk.core.table import Table, frame_table
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.mentions import Mentions

log = logging.getLogger("kinfolk")
COLUMNS = ("left", "right", "match")
YES, NO, UNKNOWN = 1, 0, -1
WORDS = {
    **dict.fromkeys("1 true t yes y match matched matching same link linked".split(), YES),
    **dict.fromkeys("0 false f no n nonmatch non-match non_match distinct different unlinked".split(), NO),
    **dict.fromkeys(["no match", "not a match", "no link"], NO),
    **dict.fromkeys(["unknown", "unsure", "uncertain", "?"], UNKNOWN),
}  # in small letters; an empty cell is unknown too


@dataclass(frozen=True, eq=False)
class PairLabels:
    """Items left[k] < right[k] and whether they match, int8 1 or 0; in order of right and then left, each pair once."""

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    match: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.match)

    def take(self, chosen: NDArray[np.bool_]) -> PairLabels:
        return PairLabels(self.left[chosen], self.right[chosen], self.match[chosen])

    @property
    def n_yes(self) -> int:
        return int((self.match == YES).sum())

    def joined(self, n: int) -> NDArray[np.int32]:
        """A number for each of n items, the same for those that matches join."""
        yes = self.match == YES
        return connected(self.left[yes], self.right[yes], n)


def connected(left: NDArray[Any], right: NDArray[Any], n: int) -> NDArray[np.int32]:
    """A number for each of n items, the same for those that pairs connect."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(left), np.int8), (left, right)), shape=(n, n))
    return np.asarray(connected_components(links, directed=False)[1], np.int32)


def pair_labels(
    items: Mentions, pairs: Any, left: str | None = None, right: str | None = None, match: str | None = None
) -> PairLabels:
    """The labels in a table of pandas, polars or Arrow, or in a list of (id, id, match).

    left, right   the columns of ids; with two tables, of the first and the second
    match         the column that says yes or no: truth values, 1 and 0, or words such as yes and no; missing: not
                  known. A score is no label and is refused

    Without names they are the columns left, right and match or, if there are others, the three there are.
    """
    if isinstance(pairs, PairLabels):
        return pairs
    if items.corpus is not None:
        raise SettingError(
            "pairs are labels of records; mentions of a text are learned from their clusters: leave it out"
        )
    table = _as_table(pairs)
    names = _columns(table, (left, right, match))
    told = yes_or_no(table, names[2])
    sides = [
        id_column(table, name, role) if table.n_rows else None for name, role in zip(names, COLUMNS[:2], strict=False)
    ]
    a, b = (np.empty(0, np.int64) if side is None else _items(items, side, table, k) for k, side in enumerate(sides))
    return _labels(items, a, b, told, table)


def _as_table(pairs: Any) -> Table:
    if isinstance(pairs, Table):
        return pairs
    if not isinstance(pairs, list | tuple):
        return frame_table(pairs, "pairs")
    wrong = next((row for row, one in enumerate(pairs) if not isinstance(one, list | tuple) or len(one) != 3), None)
    if wrong is not None:
        raise InputError(f"pairs, row {wrong}: expected (left id, right id, match), got {pairs[wrong]!r}")
    made = [object_column([one[k] for one in pairs]) for k in range(3)]
    return Table("pairs", {name: lambda k=k: made[k] for k, name in enumerate(COLUMNS)}, len(pairs))  # type: ignore[misc]


def _columns(table: Table, given: Sequence[str | None]) -> list[str]:
    """The names of the three columns."""
    there = list(table.columns)
    usual = COLUMNS if all(name in there for name in COLUMNS) else there if len(there) == 3 else (None,) * 3
    chosen = [name or default for name, default in zip(given, usual, strict=True)]
    lacking = next((role for role, name in zip(COLUMNS, chosen, strict=True) if name is None), None)
    if lacking is not None:
        listed = ", ".join(map(repr, there)) or "none at all"
        wanted = "expected the columns 'left', 'right' and 'match' (yes or no)"
        raise table.fault(f"{wanted}, the columns are {listed}: name one with {lacking}=...")
    if len(set(chosen)) < 3:
        raise SettingError(f"left, right and match must be three columns; got {', '.join(map(repr, chosen))}")
    return [str(name) for name in chosen]


def yes_or_no(table: Table, name: str) -> NDArray[np.int8]:
    """int8 1, 0 or -1 = not known, from a column of truth values, of 0 and 1, or of words."""
    cells = written(table.column(name, "match"))
    if cells is None:
        raise table.fault(f"column {name!r} (match): expected yes or no, got {table.column(name, 'match').told}")
    known: dict[str | None, int] = {None: UNKNOWN}
    for row, cell in enumerate(cells):
        if cell not in known:
            known[cell] = _label(str(cell), table, name, row)
    return np.array([known[cell] for cell in cells], np.int8)


def label_of(cell: str) -> int | float | None:
    """1, 0 or -1 as a cell says; another number as it is; None for what is neither."""
    word = " ".join(cell.casefold().split())
    if word in WORDS or not word:
        return WORDS.get(word, UNKNOWN)
    try:
        number = float(word)
    except ValueError:
        return None
    return int(number) if number in (0.0, 1.0) else UNKNOWN if np.isnan(number) else number


def _label(cell: str, table: Table, name: str, row: int) -> int:
    found = label_of(cell)
    if isinstance(found, int):
        return found
    got = f"column {name!r} (match): expected yes or no (1 or 0, true or false, empty for not known), got {cell!r}"
    if found is None:
        raise table.fault(f"{got}; write one of these", row)
    remedy = (
        "a score is no label: choose a threshold yourself, such as match = score >= 0.5, and leave out what is in doubt"
    )
    raise table.fault(f"{got}; {remedy}", row)


# -- ids ----------------------------------------------------------------------------------------------


def _items(items: Mentions, ids: Column, table: Table, side: int) -> NDArray[np.int64]:
    """The item of each id: its name or, where two tables share ids and names are "first:id", the id alone."""
    numbers = {items.name(i): i for i in range(items.n_items)}
    first = items.first_table
    own: dict[str, int] = {}
    if first is not None and (first if side == 0 else items.n_items - first):
        here = range(first) if side == 0 else range(first, items.n_items)
        begin = items.name(here[0]).partition(":")[0] + ":"
        if all(items.name(i).startswith(begin) for i in here):
            own = {items.name(i).removeprefix(begin): i for i in here}
    found = []
    for row, key in enumerate(written(ids) or ()):
        item = numbers.get(str(key), own.get(str(key)))
        if item is None:
            raise table.fault(f"no record has the id {key!r}; correct it or take the row out", row)
        if first is not None and (item < first) != (side == 0):
            told = f"{key!r} is no record of the {('first', 'second')[side]} table"
            raise table.fault(f"{told}; the ids of the first table belong into the left column", row)
        found.append(item)
    return np.array(found, np.int64)


def _labels(items: Mentions, a: Any, b: Any, told: NDArray[np.int8], table: Table) -> PairLabels:
    alone = int((a == b).sum())
    if alone:
        log.warning("%s: %d rows pair a record with itself and are left out", table.name, alone)
    rows = np.flatnonzero((a != b) & (told != UNKNOWN))
    keys = (np.maximum(a, b) << 32 | np.minimum(a, b))[rows]
    distinct, at, inverse = np.unique(keys, return_index=True, return_inverse=True)
    against = np.flatnonzero(told[rows] != told[rows][at][inverse])
    if len(against):
        row, before = int(rows[against[0]]), int(rows[at[inverse[against[0]]]])
        pair = f"{items.name(int(a[row]))!r} and {items.name(int(b[row]))!r}"
        raise table.fault(f"{pair} are a match and none: {table.place(before)} says otherwise; keep one of them", row)
    found = PairLabels(
        (distinct & 0xFFFFFFFF).astype(np.int32), (distinct >> 32).astype(np.int32), told[rows][at].astype(np.int8)
    )
    _warn_of_chains(items, found, table)
    return found


def _warn_of_chains(items: Mentions, labels: PairLabels, table: Table) -> None:
    """a = b and b = c, but a and c are said to differ: no clusters can be so."""
    joined = labels.joined(items.n_items)
    odd = np.flatnonzero((labels.match == NO) & (joined[labels.left] == joined[labels.right]))
    if len(odd):
        a, b = (items.name(int(side[odd[0]])) for side in (labels.left, labels.right))
        told = "%s: %r and %r are no match, but others join them, and so with %d pairs: no clusters fit these labels"
        log.warning(told, table.name, a, b, len(odd))
