"""Which records are the same: from a column of clusters, from their ids, or from a table of matches or of clusters."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.columns import written
from kinfolk.core.ids import id_column
from kinfolk.core.table import Table
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.pair_labels import connected, label_of

Array = NDArray[Any]
log = logging.getLogger("kinfolk")
CLOSURES = ("close", "refuse")
PATTERNS = {"febrl": r"rec-(\d+)-"}  # rec-12-org, rec-12-dup-0
NOT_KNOWN = -1
FEW = 0.25  # of the records: a list of matches that names fewer may be a sample, not all there are
OF_SCORES = re.compile("match|score|prob|label|weight|same|link|similar|confidence", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class RecordIds:
    """The ids of one table, or of two whose records are numbered one after the other."""

    tables: Sequence[Table]
    ids: Sequence[Sequence[str]]
    numbers: Sequence[Mapping[str, int]]  # one a table: id -> record

    @classmethod
    def of(cls, tables: Sequence[Table], ids: Sequence[Sequence[str]]) -> RecordIds:
        firsts = np.cumsum([0, *map(len, ids)]).tolist()
        found = [{key: first + i for i, key in enumerate(own)} for own, first in zip(ids, firsts, strict=False)]
        return cls(tables, ids, found)

    def __contains__(self, key: object) -> bool:
        return any(key in own for own in self.numbers)

    @property
    def n_records(self) -> int:
        return sum(map(len, self.ids))

    def in_table(self, side: int, key: str, truth: Table, row: int) -> int:
        """The record of an id that belongs to one of the tables."""
        found = self.numbers[side].get(key)
        if found is not None:
            return found
        other = any(key in own for own in self.numbers)
        remedy = (
            "the ids of the first table belong into the first column" if other else "correct it or take the row out"
        )
        raise truth.fault(f"no record of {self.tables[side].name} has the id {key!r}; {remedy}", row)

    def anywhere(self, key: str, truth: Table, row: int) -> int:
        """The record of an id, whichever table has it."""
        found = [own[key] for own in self.numbers if key in own]
        if len(found) == 1:
            return found[0]
        if found:
            told = f"both tables have a record with the id {key!r}"
            raise truth.fault(f"{told}; make ids distinct, or give the truth as matches, a column a table", row)
        raise truth.fault(f"no record has the id {key!r}; correct it or take the row out", row)

    def name(self, record: int) -> str:
        return [key for own in self.ids for key in own][record]


def numbered(names: Sequence[str | None]) -> NDArray[np.int32]:
    """Clusters by name as numbers, missing = not known."""
    numbers: dict[str | None, int] = {None: NOT_KNOWN}
    return np.array([numbers.setdefault(name, len(numbers) - 1) for name in names], np.int32)


def clusters_in_ids(ids: RecordIds, pattern: str) -> NDArray[np.int32]:
    """The part of each id that a pattern captures."""
    try:
        compiled = re.compile(PATTERNS.get(pattern, pattern))
    except (re.error, TypeError) as error:
        raise SettingError(f"cluster_from_id must be a regular expression; got {pattern!r} ({error})") from None
    if compiled.groups != 1:
        wanted = "must have one group in brackets, which is the cluster, such as r'rec-(\\d+)-'"
        raise SettingError(f"cluster_from_id {wanted}; {pattern!r} has {compiled.groups}")
    names: list[str | None] = []
    for table, own in zip(ids.tables, ids.ids, strict=True):
        for row, key in enumerate(own):
            found = compiled.match(key)
            if found is None or not found[1]:
                raise table.fault(f"cluster_from_id={compiled.pattern!r} finds no cluster in the id {key!r}", row)
            names.append(found[1])
    return numbered(names)


def clusters_in_table(ids: RecordIds, truth: Table, id: str | None, cluster: str) -> NDArray[np.int32]:
    """A table of ids and clusters; records it does not name are not known."""
    others = [name for name in truth.columns if name != cluster]
    column = id if id in truth.columns or len(others) != 1 else others[0]
    keys = truth.full_names(column or "id", "id")
    names: list[str | None] = [None] * ids.n_records
    placed: dict[int, int] = {}
    for row, (key, name) in enumerate(zip(keys, truth.names(cluster, "cluster"), strict=True)):
        record = ids.anywhere(key, truth, row)
        if placed.setdefault(record, row) != row:
            before = truth.place(placed[record])
            raise truth.fault(f"the record {key!r} was in {before} already; keep one of the rows", row)
        names[record] = name
    return numbered(names)


# -- matches ------------------------------------------------------------------------------------------


def clusters_of_matches(ids: RecordIds, truth: Table, columns: Sequence[str] | None, closure: str) -> NDArray[np.int32]:
    """A table of all pairs of ids that are the same: any other pair is none, and a record without any is by itself."""
    if closure not in CLOSURES:
        raise SettingError(f"truth_closure must be 'close' or 'refuse'; got {closure!r}")
    named = list(truth.columns) if columns is None else list(columns)
    if len(named) != 2:
        listed = ", ".join(map(repr, truth.columns))
        told = f"expected two columns with the ids of matches, got {listed}; name two with match_columns=..."
        labels = "; if a column says yes or no, it is a table of labels, for fit: pairs=..." if len(named) > 2 else ""
        raise truth.fault(told + labels)
    for name in truth.columns:
        if name not in named:
            _check_says_yes(truth, name)
    for name in named:
        if truth.n_rows:
            id_column(truth, name, "match_columns")
    sides = [truth.full_names(name, "match_columns") for name in named]
    last = len(ids.tables) - 1
    pairs = np.array(
        [
            (ids.in_table(0, a, truth, row), ids.in_table(last, b, truth, row))
            for row, (a, b) in enumerate(zip(*sides, strict=True))
        ],
        np.int64,
    ).reshape(-1, 2)
    alone = int(np.count_nonzero(pairs[:, 0] == pairs[:, 1]))
    if alone:
        log.warning("%s: %d rows match a record with itself and are left out", truth.name, alone)
    if len(pairs) == alone:
        log.warning("%s has no matches: every record is taken for a cluster of its own", truth.name)
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    _warn_of_few(pairs, ids, truth)
    clusters = connected(pairs[:, 0], pairs[:, 1], ids.n_records)
    _check_closed(pairs, clusters, ids, truth, closure)
    return clusters


def _check_says_yes(truth: Table, name: str) -> None:
    """Refuse a column beside the ids that says of some rows that they are no matches, or gives them a score."""
    cells = written(truth.column(name, "truth")) or []
    labels = {cell: NOT_KNOWN if cell is None else label_of(cell) for cell in set(cells)}
    rows = [str(row) for row in range(len(cells) + 1)]
    if None in labels.values() or cells in (rows[:-1], rows[1:]) or not any(cells):
        return  # words, numbers of rows, or nothing at all
    scores = any(isinstance(label, float) for label in labels.values())
    others = [row for row, cell in enumerate(cells) if labels[cell] != 1]
    if not others or (scores and not OF_SCORES.search(name)):
        return
    told = (
        f"the column {name!r} says {cells[others[0]] or ''!r}, so this is no match, like {len(others) - 1:,} other rows"
    )
    remedy = "make it yes or no and give" if scores else "give"
    as_labels = f"{remedy} the table to fit as labels of pairs, pairs=..."
    raise truth.fault(f"{told}; leave out such rows and the column, or {as_labels}", others[0])


def _warn_of_few(pairs: Array, ids: RecordIds, truth: Table) -> None:
    """A list of some matches makes all others non-matches: say so where it names few records."""
    sizes = np.array([len(own) for own in ids.ids])
    named = np.unique(pairs)
    side = (named >= sizes[0]).astype(np.int64) if len(sizes) == 2 else np.zeros(len(named), np.int64)
    shares = np.bincount(side, minlength=len(sizes)) / np.maximum(sizes, 1)
    if len(pairs) and shares.max() < FEW:
        told = "%s: %s matches name %s of %s records, and every other pair is taken for none"
        remedy = "if there are more matches, label some pairs yes and some no and give them to fit, pairs=..."
        log.warning(f"{told}; {remedy}", truth.name, f"{len(pairs):,}", f"{len(named):,}", f"{ids.n_records:,}")


def _check_closed(pairs: Array, clusters: Array, ids: RecordIds, truth: Table, closure: str) -> None:
    """Say, or refuse, that matches imply others: if a = b and b = c, then a = c."""
    n_first = len(ids.ids[0])
    across = len(ids.tables) == 2
    sizes = np.bincount(clusters)
    ours = np.bincount(clusters[:n_first], minlength=len(sizes))
    implied = ours * (sizes - ours) if across else sizes * (sizes - 1) // 2
    lacking = implied - np.bincount(clusters[pairs[:, 0]], minlength=len(sizes))
    added = int(lacking.sum())
    if not added:
        return
    cluster = int(np.flatnonzero(lacking)[0])
    members = np.flatnonzero(clusters == cluster).tolist()
    given = set(map(tuple, pairs[clusters[pairs[:, 0]] == cluster].tolist()))
    possible = (pair for pair in combinations(members, 2) if not across or pair[0] < n_first <= pair[1])
    a, b = next(pair for pair in possible if pair not in given)
    told = f"{ids.name(a)!r} and {ids.name(b)!r} match by way of others but are not listed, and so with {added:,} pairs"
    if closure == "refuse":
        raise InputError(f'{truth.name}: {told}; list them, or take them for matches with truth_closure="close"')
    log.warning("%s: %s; they are taken for matches", truth.name, told)
