"""Columns of a table of nodes to features, each with a name.

numbers         "age"             as they are; truth values are 0 and 1
lists           "vector[0]"       a feature for each place, of embeddings; all lists are of one width
strings         "colour=red"      1 where the node has that value, a feature for each value
texts           "title:word"      1 where the word is in the text; words are runs of letters, digits and _, in
                                  lower case
what is missing "age is missing"  1 where it is, and 0 in the column itself, if that was asked for
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.data import Vocabulary
from kinfolk.core.table import Table, TableColumn, listed, strings, without_value
from kinfolk.errors import SettingError

log = logging.getLogger("kinfolk")
MISSING = ("refuse", "flag")
FEW_VALUES = 100  # so many features of one column are never spoken of
WORD = re.compile(r"\w+")


class NodeColumns(NamedTuple):
    """The parts that columns of the table of nodes play; `features` None: all but those with another part to play."""

    id: str | None = "id"
    label: str | None = None
    features: str | Sequence[str] | None = None
    text: str | Sequence[str] | None = None
    group: str | None = None
    missing: str = "refuse"

    def chosen(self, table: Table) -> list[str]:
        """The columns that become features as they are, text apart."""
        parts = {"id": self.id, "label": self.label, "group": self.group}
        taken = {column: part for part, column in parts.items() if column is not None}
        if len(taken) < sum(column is not None for column in parts.values()):
            raise SettingError.saying(
                f"id, label and group must be three columns; got {', '.join(map(repr, parts.values()))}"
            )
        if self.missing not in MISSING:
            raise SettingError("missing", self.missing, f"one of {', '.join(MISSING)}")
        named = [*listed(self.features), *listed(self.text)]
        for name in named:
            if taken.get(name) in ("id", "label"):
                raise SettingError.saying(f"column {name!r} is the {taken[name]} and cannot be a feature; leave it out")
            if named.count(name) > 1:
                raise SettingError.saying(f"column {name!r} is listed twice among features and text; list it once")
        if self.features is not None:
            return list(listed(self.features))
        return [name for name in table.columns if name not in taken and name not in named]


class _Block(NamedTuple):
    names: list[str]
    rows: Any  # dense or CSR (n, len(names))


def feature_table(table: Table, ids: Sequence[str], which: NodeColumns) -> tuple[Any, list[str]]:
    """Features of the rows, dense float64 if all columns are numbers and else CSR, and their names."""
    blocks: list[_Block] = []
    for name in which.chosen(table):
        blocks += _blocks(table, name, ids, which.missing == "flag")
    blocks += [_words(table, name) for name in listed(which.text)]
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
        wanted = "expected numbers, strings, truth values or lists of numbers"
        remedy = "turn it into one of these, or leave it out with `features=[...]`"
        raise table.fault(f"column {name!r}: {wanted}, got {column.dtype}; {remedy}")
    gaps = without_value(column)
    _check_gaps(table, name, gaps, ids, flag)
    if column.kind == "lists":
        return _places(table, name, column, ids, gaps, flag)
    # A column of strings without a single one is no different from a column of numbers without a single one.
    if column.kind == "text" and not gaps.all():
        blocks = [_one_hot(table, name, column, gaps)]
    else:
        blocks = [_Block([name], _numbers(table, name, column, ids, gaps)[:, None])]
    if gaps.any():
        blocks.append(_Block([f"{name} is missing"], gaps.astype(np.float64)[:, None]))
    return blocks


def _check_gaps(table: Table, name: str, gaps: NDArray[np.bool_], ids: Sequence[str], flag: bool) -> None:
    """Refuse a feature that some nodes lack, unless there is to be another that says so."""
    if gaps.any() and not flag:
        row = int(gaps.argmax())
        what = f"{name!r} of node {ids[row]!r} is missing, as it is of {int(gaps.sum())} nodes"
        remedy = f"fill it in, leave the column out, or have 0 and a feature '{name} is missing' by `missing='flag'`"
        raise table.fault(f"{what}; {remedy}", row)


def _places(
    table: Table, name: str, column: TableColumn, ids: Sequence[str], gaps: NDArray[np.bool_], flag: bool
) -> list[_Block]:
    """Lists of numbers, as embeddings come: a feature for each place, and one for each in which anything is missing."""
    there = np.flatnonzero(~gaps)
    rows = _equally_wide(table, name, column, ids, there)
    values = np.zeros((len(gaps), rows.shape[1]))
    values[there] = rows
    names, flags = [f"{name}[{i}]" for i in range(rows.shape[1])], []
    for place in np.flatnonzero(~np.isfinite(values).all(axis=0)).tolist():
        lacking = np.isnan(values[:, place])
        _check_gaps(table, names[place], lacking, ids, flag)
        number = TableColumn("number", values[:, place], column.dtype)
        values[:, place] = _numbers(table, names[place], number, ids, lacking)
        flags += [_Block([f"{names[place]} is missing"], lacking.astype(np.float64)[:, None])]
    whole = [_Block([f"{name} is missing"], gaps.astype(np.float64)[:, None])] if gaps.any() else []
    return [_Block(names, values), *flags, *whole]


def _equally_wide(
    table: Table, name: str, column: TableColumn, ids: Sequence[str], there: NDArray[np.int64]
) -> NDArray[np.float64]:
    """float64 (m, w), the lists of the rows that are there; NaN where one has None."""
    first = int(there[0])
    width, made = 0, []
    for row in there.tolist():
        one = _list_of_numbers(table, name, column.values[row], ids[row], row)
        width = len(one) if row == first else width
        if len(one) != width:
            what = f"{name!r} of node {ids[row]!r} has {len(one)} numbers, and of node {ids[first]!r} {width}"
            remedy = "make lists of one width of them, or leave the column out with `features=[...]`"
            raise table.fault(f"{what}; {remedy}", row)
        made.append(one)
    return np.stack(made)


def _list_of_numbers(table: Table, name: str, value: Any, key: str, row: int) -> NDArray[np.float64]:
    found = np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
    if found.dtype.kind == "O" and all(one is None or isinstance(one, Real) for one in found.ravel().tolist()):
        found = found.astype(np.float64)  # None becomes NaN
    if found.ndim != 1 or found.dtype.kind not in "fiub":
        got = f"an array of shape {found.shape}" if found.ndim != 1 else f"{value!r:.60}"
        what = f"{name!r} of node {key!r} must be a list of numbers; got {got}"
        raise table.fault(f"{what}: make one of it, or leave the column out with `features=[...]`", row)
    return found.astype(np.float64)


def _numbers(
    table: Table, name: str, column: TableColumn, ids: Sequence[str], gaps: NDArray[np.bool_]
) -> NDArray[np.float64]:
    if column.kind == "text":
        return np.zeros(len(gaps))
    values = np.where(gaps, 0.0, column.values.astype(np.float64))
    endless = np.flatnonzero(~np.isfinite(values))
    if len(endless):
        row = int(endless[0])
        raise table.fault(f"{name!r} of node {ids[row]!r} is {values[row]}; features must be finite: replace it", row)
    return values


def _one_hot(table: Table, name: str, column: TableColumn, gaps: NDArray[np.bool_]) -> _Block:
    values = [value for piece in strings(column) for value in piece if value is not None]
    distinct = sorted(set(values))
    if len(distinct) > max(FEW_VALUES, len(gaps) // 2):
        log.warning(
            "%s: column %r has %d different values among %d nodes and makes a feature of each; `text=[%r]` makes "
            "features of its words, and `features=[...]` without it leaves it out",
            table.name, name, len(distinct), len(gaps), name,
        )  # fmt: skip
    codes = Vocabulary(distinct).encode(values)
    starts = np.concatenate([[0], np.cumsum(~gaps)])
    rows = sparse.csr_array((np.ones(len(codes)), codes, starts), shape=(len(gaps), len(distinct)))
    return _Block([f"{name}={value}" for value in distinct], rows)


def _words(table: Table, name: str) -> _Block:
    """A bag of words: whether a word is there, not how often. No text is a text without words."""
    # scikit-learn's CountVectorizer gives the same, and takes 1.6 times as long for 100,000 titles, its import apart.
    column = table.column(name, "text")
    if column.kind != "text" and (column.kind in ("other", "lists", "mixed") or not without_value(column).all()):
        raise table.fault(f"column {name!r} (text): expected strings, got {column.dtype}; list it in features instead")
    number: dict[str, int] = {}
    found: list[int] = []
    starts = [0]
    for text in (text for piece in strings(column) for text in piece) if column.kind == "text" else [""] * table.n_rows:
        found += [number.setdefault(word, len(number)) for word in set(WORD.findall((text or "").lower()))]
        starts.append(len(found))
    order = sorted(number)  # the words of any two tables with the same texts stand in the same order
    place = np.argsort([number[word] for word in order])
    columns = place[np.array(found, np.int64)]
    rows = sparse.csr_array((np.ones(len(columns)), columns, starts), shape=(table.n_rows, len(order)))
    rows.sort_indices()
    return _Block([f"{name}:{word}" for word in order], rows)
