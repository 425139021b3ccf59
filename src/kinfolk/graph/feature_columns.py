"""Columns of a table of nodes to features, each with a name.

numbers         "age"             as they are; truth values are 0 and 1
strings         "colour=red"      1 where the node has that value, a feature for each value
texts           "title:word"      1 where the word is in the text; words are runs of letters, digits and _, in
                                  lower case
what is missing "age is missing"  1 where it is, and 0 in the column itself, if that was asked for
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.columns import Column, strings, without_value
from kinfolk.core.table import Table
from kinfolk.errors import SettingError

log = logging.getLogger("kinfolk")

MISSING = ("refuse", "flag")
FEW_VALUES = 100  # so many features of one column are never spoken of
WORD = re.compile(r"\w+")


class FeatureColumns(NamedTuple):
    """Which columns become features: `features` None = all but `text` and those with another part to play."""

    features: Sequence[str] | None
    text: Sequence[str]
    missing: str
    taken: dict[str, str]  # the part that other columns play: id, label, group

    def chosen(self, table: Table) -> list[str]:
        if self.missing not in MISSING:
            raise SettingError(f"missing must be one of {', '.join(MISSING)}; got {self.missing!r}")
        told = [*(self.features or ()), *self.text]
        for name in told:
            if self.taken.get(name) in ("id", "label"):
                raise SettingError(f"column {name!r} is the {self.taken[name]} and cannot be a feature; leave it out")
            if told.count(name) > 1:
                raise SettingError(f"column {name!r} is listed twice among features and text; list it once")
        if self.features is not None:
            return list(self.features)
        return [name for name in table.columns if name not in self.taken and name not in self.text]


class _Block(NamedTuple):
    names: list[str]
    rows: Any  # dense or CSR (n, len(names))


def feature_table(table: Table, ids: Sequence[str], which: FeatureColumns) -> tuple[Any, list[str]]:
    """Features of the rows, dense float64 if all columns are numbers and else CSR, and their names."""
    blocks: list[_Block] = []
    for name in which.chosen(table):
        blocks += _blocks(table, name, ids, which.missing == "flag")
    blocks += [_words(table, name) for name in which.text]
    names = [name for block in blocks for name in block.names]
    if len(set(names)) < len(names):
        seen: set[str] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise table.fault(f"two features would be named {twice!r}; rename one of their columns")
    if not any(sparse.issparse(block.rows) for block in blocks):
        return np.column_stack([np.zeros((table.n_rows, 0)), *(block.rows for block in blocks)]), names
    rows = sparse.hstack([sparse.csr_array(block.rows) for block in blocks], format="csr", dtype=np.float64)
    return rows, names


def _blocks(table: Table, name: str, ids: Sequence[str], flag: bool) -> list[_Block]:
    """The features of one column, and of where it has nothing."""
    column = table.column(name, "features")
    if column.kind in ("other", "mixed"):
        wanted = "expected numbers, strings or truth values"
        remedy = "turn it into one of these, or leave it out with features=[...]"
        raise table.fault(f"column {name!r}: {wanted}, got {column.told}; {remedy}")
    gaps = without_value(column)
    if gaps.any() and not flag:
        row = int(gaps.argmax())
        what = f"{name!r} of node {ids[row]!r} is missing, as it is of {int(gaps.sum())} nodes"
        remedy = f"fill it in, leave the column out, or have 0 and a feature '{name} is missing' by missing='flag'"
        raise table.fault(f"{what}; {remedy}", row)
    # A column of strings without a single one is no different from a column of numbers without a single one.
    if column.kind == "text" and not gaps.all():
        blocks = [_one_hot(table, name, column, gaps)]
    else:
        blocks = [_Block([name], _numbers(table, name, column, ids, gaps)[:, None])]
    if gaps.any():
        blocks.append(_Block([f"{name} is missing"], gaps.astype(np.float64)[:, None]))
    return blocks


def _numbers(
    table: Table, name: str, column: Column, ids: Sequence[str], gaps: NDArray[np.bool_]
) -> NDArray[np.float64]:
    if column.kind == "text":
        return np.zeros(len(gaps))
    values = np.where(gaps, 0.0, column.values.astype(np.float64))
    endless = np.flatnonzero(~np.isfinite(values))
    if len(endless):
        row = int(endless[0])
        raise table.fault(f"{name!r} of node {ids[row]!r} is {values[row]}; features must be finite: replace it", row)
    return values


def _one_hot(table: Table, name: str, column: Column, gaps: NDArray[np.bool_]) -> _Block:
    values = [value for piece in strings(column) for value in piece if value is not None]
    distinct = sorted(set(values))
    if len(distinct) > max(FEW_VALUES, len(gaps) // 2):
        told = "%s: column %r has %d different values among %d nodes and makes a feature of each; text=[%r] makes "
        told += "features of its words, and features=[...] without it leaves it out"
        log.warning(told, table.name, name, len(distinct), len(gaps), name)
    number = {value: i for i, value in enumerate(distinct)}
    codes = np.fromiter(map(number.__getitem__, values), np.int32, len(values))
    starts = np.concatenate([[0], np.cumsum(~gaps)])
    rows = sparse.csr_array((np.ones(len(codes)), codes, starts), shape=(len(gaps), len(distinct)))
    return _Block([f"{name}={value}" for value in distinct], rows)


def _words(table: Table, name: str) -> _Block:
    """A bag of words: whether a word is there, not how often. No text is a text without words."""
    column = table.column(name, "text")
    if column.kind != "text" and (column.kind in ("other", "mixed") or not without_value(column).all()):
        raise table.fault(f"column {name!r} (text): expected strings, got {column.told}; list it in features instead")
    number: dict[str, int] = {}
    found: list[int] = []
    sizes = np.zeros(table.n_rows + 1, np.int64)
    row = 0
    for piece in strings(column) if column.kind == "text" else ():
        for text in piece:
            row += 1
            words = set(WORD.findall(text.lower())) if text else ()
            sizes[row] = len(words)
            found += [number.setdefault(word, len(number)) for word in words]
    order = sorted(number)  # the words of any two tables with the same texts stand in the same order
    place = np.empty(len(order), np.int32)
    place[[number[word] for word in order]] = np.arange(len(order), dtype=np.int32)
    columns = place[np.array(found, np.int64)]
    rows = sparse.csr_array((np.ones(len(columns)), columns, np.cumsum(sizes)), shape=(table.n_rows, len(order)))
    rows.sort_indices()
    return _Block([f"{name}:{word}" for word in order], rows)
