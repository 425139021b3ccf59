"""Labels of pairs of records: yes, no, a probability or not known, each pair for itself.

What nobody said of a pair stays unknown. A probability p, of a person who is not sure or of another model, teaches as p
of a match and 1 - p of none: its loss is the cross-entropy p log(1 + e^-s) + (1 - p) log(1 + e^s), least where the
log-odds are log p / (1 - p). Only yes and no put records together or apart for certain, and can contradict each other.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.frames import from_stream
from kinfolk.core.table import Table, frame_table, id_column, written
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.chains import connected, contradiction
from kinfolk.linking.mentions import Mentions, pair_keys, pairs_of

log = logging.getLogger("kinfolk")
COLUMNS = ("left", "right", "match")
YES, NO, UNKNOWN = 1, 0, -1
WORDS = {
    **dict.fromkeys("1 true t yes y match matched matching same link linked".split(), YES),
    **dict.fromkeys("0 false f no n nonmatch non-match non_match distinct different unlinked".split(), NO),
    **dict.fromkeys(["no match", "not a match", "no link"], NO),
    **dict.fromkeys(["unknown", "unsure", "uncertain", "?"], UNKNOWN),
}  # in small letters; an empty cell is unknown too
NO_LABEL = (
    "a score beyond 0 and 1 is no label: make it a probability, or choose a threshold yourself, such as score >= 5",
    "write one of these",
)


@dataclass(frozen=True, eq=False)
class PairLabels:
    """Items left[k] < right[k] and whether they match, int8 1 or 0; in order of right and then left, each pair once.

    probability   float64, of a match, where some are given as one; `match` is 1 from 0.5 on. None: all are certain
    """

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    match: NDArray[np.int8]
    probability: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.match)

    def take(self, chosen: NDArray[Any]) -> PairLabels:
        own = None if self.probability is None else self.probability[chosen]
        return PairLabels(self.left[chosen], self.right[chosen], self.match[chosen], own)

    @property
    def n_yes(self) -> int:
        return int((self.match == YES).sum())

    @property
    def certainty(self) -> NDArray[np.float64]:
        """How certain each answer is: 1 for yes and no, the greater one of p and 1 - p for a probability."""
        if self.probability is None:
            return np.ones(len(self))
        return np.maximum(self.probability, 1.0 - self.probability)

    @property
    def together(self) -> NDArray[np.int64]:
        """The pairs (m, 2) that match for certain."""
        return self._certain(YES)

    @property
    def apart(self) -> NDArray[np.int64]:
        """Those that do not."""
        return self._certain(NO)

    def _certain(self, match: int) -> NDArray[np.int64]:
        chosen = (self.match == match) & (self.certainty == 1.0)
        return np.stack([self.left[chosen], self.right[chosen]], axis=1).astype(np.int64)

    def joined(self, n: int) -> NDArray[np.int32]:
        """A number for each of n items, the same for those that certain matches join."""
        pairs = self.together
        return connected(pairs[:, 0], pairs[:, 1], n)

    def without_contradictions(self, n: int) -> PairLabels:
        """Without each no about two of n items that are joined."""
        return self.without(self.joined(n))

    def without(self, joined: NDArray[np.int32]) -> PairLabels:
        """Without each no about two items that have the same number here."""
        no = (self.match == NO) & (self.certainty == 1.0)
        return self.take(~(no & (joined[self.left] == joined[self.right])))

    def looked_up(self, values: NDArray[Any], left: NDArray[Any], right: NDArray[Any], others: float) -> NDArray[Any]:
        """What each label has, for these pairs; `others` for those without a label."""
        own, keys = pair_keys(self.left, self.right), pair_keys(left, right)
        at = np.minimum(np.searchsorted(own, keys), len(own) - 1)
        return np.where(own[at] == keys, values[at], others) if len(own) else np.full(len(keys), others)


def pair_labels(
    items: Mentions, pairs: Any, left: str | None = None, right: str | None = None, match: str | None = None
) -> PairLabels:
    """The labels in a table of pandas, polars or Arrow, or in a list of (id, id, match).

    left, right   the columns of ids; with two tables, of the first and the second
    match         the column that says yes or no: truth values, 1 and 0, or words such as yes and no; or how probable a
                  match is, a number between 0 and 1; missing: not known. A score beyond these is no label

    Without names they are the columns left, right and match or, if there are others, the three there are.
    """
    if isinstance(pairs, PairLabels):
        return pairs
    if items.corpus is not None:
        raise SettingError.saying(
            "pairs are labels of records; mentions of a text are learned from their clusters: leave it out"
        )
    table = _as_table(pairs)
    names = _columns(table, (left, right, match))
    probability = probabilities_in(table, names[2])
    a, b = (_items(items, table, names[side], side) for side in (0, 1))
    return _labels(items, a, b, probability, table)


def _as_table(pairs: Any) -> Table:
    if isinstance(pairs, Table):
        return pairs
    if not isinstance(pairs, list | tuple):
        return frame_table(from_stream(pairs, "pairs"), "pairs")
    wrong = next((row for row, one in enumerate(pairs) if not isinstance(one, list | tuple) or len(one) != 3), None)
    if wrong is not None:
        raise InputError(f"pairs, row {wrong}: expected (left id, right id, match), got {pairs[wrong]!r}")
    return frame_table({name: [one[k] for one in pairs] for k, name in enumerate(COLUMNS)}, "pairs")


def _columns(table: Table, given: Sequence[str | None]) -> list[str]:
    """The names of the three columns."""
    there = list(table.columns)
    usual = COLUMNS if all(name in there for name in COLUMNS) else there if len(there) == 3 else (None,) * 3
    chosen = [name or default for name, default in zip(given, usual, strict=True)]
    lacking = next((role for role, name in zip(COLUMNS, chosen, strict=True) if name is None), None)
    if lacking is not None:
        listed = ", ".join(map(repr, there)) or "none at all"
        wanted = "expected the columns 'left', 'right' and 'match' (yes or no)"
        raise table.fault(f"{wanted}, the columns are {listed}: name one with `{lacking}=...`")
    if len(set(chosen)) < 3:
        raise SettingError.saying(f"left, right and match must be three columns; got {', '.join(map(repr, chosen))}")
    return [str(name) for name in chosen]


def probabilities_in(table: Table, name: str) -> NDArray[np.float64]:
    """1, 0, a probability between them or NaN = not known, from a column of truth values, of numbers, or of words."""
    cells = written(table.column(name, "match"))
    if cells is None:
        raise table.fault(f"column {name!r} (match): expected yes or no, got {table.column(name, 'match').dtype}")
    known: dict[str | None, float] = {None: np.nan}
    for row, cell in enumerate(cells):
        if cell not in known:
            found = label_of(str(cell))
            if found is None or (isinstance(found, float) and not 0 < found < 1):
                wanted = "expected yes or no (1 or 0, true or false, empty for not known) or a probability between"
                raise table.fault(f"column {name!r} (match): {wanted}, got {cell!r}; {NO_LABEL[found is None]}", row)
            known[cell] = np.nan if found == UNKNOWN else float(found)
    return np.array([known[cell] for cell in cells], np.float64)


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


# -- ids ----------------------------------------------------------------------------------------------


def _items(items: Mentions, table: Table, column: str, side: int) -> NDArray[np.int64]:
    """The item of each id: its name or, where two tables share ids and names are "first:id", the id alone."""
    ids = written(id_column(table, column, COLUMNS[side])) if table.n_rows else None
    numbers = {items.name(i): i for i in range(items.n_items)}
    first = items.first_table
    own: dict[str, int] = {}
    if first is not None and (first if side == 0 else items.n_items - first):
        here = range(first) if side == 0 else range(first, items.n_items)
        begin = items.name(here[0]).partition(":")[0] + ":"
        if all(items.name(i).startswith(begin) for i in here):
            own = {items.name(i).removeprefix(begin): i for i in here}
    found = []
    for row, key in enumerate(ids or ()):
        item = numbers.get(str(key), own.get(str(key)))
        if item is None:
            raise table.fault(f"no record has the id {key!r}; correct it or take the row out", row)
        if first is not None and (item < first) != (side == 0):
            wrong = f"{key!r} is no record of the {('first', 'second')[side]} table"
            raise table.fault(f"{wrong}; the ids of the first table belong into the left column", row)
        found.append(item)
    return np.array(found, np.int64)


def _labels(items: Mentions, a: Any, b: Any, probability: NDArray[np.float64], table: Table) -> PairLabels:
    """One label a pair: of probabilities their mean."""
    alone = int((a == b).sum())
    if alone:
        log.warning("%s: %d rows pair a record with itself and are left out", table.name, alone)
    rows = np.flatnonzero((a != b) & ~np.isnan(probability))
    keys, said = pair_keys(np.minimum(a, b), np.maximum(a, b))[rows], probability[rows]
    certain = (said == YES) | (said == NO)
    _check_one_answer(items, a, b, rows[certain], keys[certain], said[certain], table)
    distinct, inverse = np.unique(keys, return_inverse=True)
    mean = np.bincount(inverse, said, minlength=len(distinct)) / np.bincount(inverse, minlength=len(distinct))
    uncertain = (mean > NO) & (mean < YES)
    if uncertain.any():
        log.info("%s: %d of %d labels are probabilities", table.name, int(uncertain.sum()), len(mean))
    match = (mean >= 0.5).astype(np.int8)
    found = PairLabels(*pairs_of(distinct), match, mean if uncertain.any() else None)
    _warn_of_contradictions(items, found, table)
    return found


def _check_one_answer(items: Mentions, a: Any, b: Any, rows: Any, keys: Any, said: Any, table: Table) -> None:
    """Nobody may say yes and no of one pair."""
    _, at, inverse = np.unique(keys, return_index=True, return_inverse=True)
    against = np.flatnonzero(said != said[at][inverse])
    if len(against):
        row, before = int(rows[against[0]]), int(rows[at[inverse[against[0]]]])
        pair = f"{items.name(int(a[row]))!r} and {items.name(int(b[row]))!r}"
        raise table.fault(f"{pair} are a match and none: {table.place(before)} says otherwise; keep one of them", row)


def _warn_of_contradictions(items: Mentions, found: PairLabels, table: Table) -> None:
    """Where a = b and b = c, a and c cannot differ."""
    clash = contradiction(found.together, found.apart, items.n_items)
    if clash is not None:
        more = int(clash.against.sum()) - 1
        others = f", and {more} more such pair{'s' * (more != 1)}" if more else ""
        remedy = "no clusters fit these labels: correct them; until then training leaves out that they differ"
        log.warning("%s: labels contradict each other: %s%s; %s", table.name, clash.named(items.name), others, remedy)
