"""Columns that links have (amount, kind), to what models of nodes look at.

strings, truth values   a relation for each value, "pays[kind=card]", beside the whole, "pays"; its inverse likewise
numbers v               a relation for each third of them, "pays[amount=low]", "middle" and "high"; and features of
                        nodes, over the rows of links that leave a node (out) and lead to it (in), in a relation without
                        direction over both; 0 where there are none:

                            sign(m) log(1 + |m|),  m the mean of v;      log(1 + Σ |v|)

Where thirds end is all there is to learn: a graph keeps it (`Graph.link_features`), and another can be cut alike. On
generated graphs whose labels travel over large amounts alone the thirds gave a pool 24 points of accuracy, links
weighed by the amount 20; where accounts of one class pay more, features gave 12, without the logarithm of the mean 9,
thirds 6. Amounts that say nothing cost it 3 points (240 labels of 600, three features; benchmarks/link_features.py).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.data import Vocabulary
from kinfolk.core.table import Table, TableColumn, listed, without_value, written
from kinfolk.errors import InputError, SettingError

if TYPE_CHECKING:
    from kinfolk.graph.links import Part

log = logging.getLogger("kinfolk")
MOST_VALUES = 12  # of a column that names relations: each is looked at by itself, out and in
THIRDS = {2: ("low", "high"), 3: ("low", "middle", "high")}  # names, by how many there are
Cuts = tuple[float, ...] | None  # where parts of a column of numbers end; None: of strings and truth values
Wanted = str | Iterable[str] | Mapping[str, Sequence[float] | None] | None
PART = re.compile(r"(.+)\[([^\[\]=]+)=.*\]", re.DOTALL)


class LinkColumn(NamedTuple):
    """One column of a table of links: numbers, or with `names` whole numbers that stand for these."""

    values: NDArray[Any]
    names: tuple[str, ...] | None = None


def given_cuts(wanted: Wanted) -> dict[str, Sequence[float]]:
    """Where numbers are to be cut, by column, of those for which it is said."""
    if not isinstance(wanted, Mapping):
        return {}
    found = {name: cuts for name, cuts in wanted.items() if cuts is not None}
    for name, cuts in found.items():
        numbers = np.asarray(cuts, np.float64) if np.ndim(cuts) == 1 else np.array([np.nan])
        if not np.isfinite(numbers).all() or (np.diff(numbers) <= 0).any() or len(numbers) >= MOST_VALUES:
            rising = f"rising numbers, fewer than {MOST_VALUES}, or None"
            raise SettingError(f"link_features[{name!r}]", cuts, rising)
    return found


def remembered_cuts(link_features: Mapping[str, Cuts]) -> dict[str, Any]:
    """What a model keeps of how the links of its tables were read, as JSON has it."""
    cuts = [[name, list(cuts)] for name, cuts in link_features.items() if cuts is not None]
    return {"link_cuts": cuts} if cuts else {}


def cut_as_before(wanted: Wanted, reading: Mapping[str, Any]) -> Wanted:
    """Columns of links with the cuts that a model remembers, where no others are given."""
    if wanted is None:
        return None
    cuts = {**dict(reading.get("link_cuts", ())), **given_cuts(wanted)}
    return {name: cuts.get(name) for name in listed(wanted)}


def link_columns(table: Table, wanted: Wanted, several: bool = False) -> dict[str, LinkColumn]:
    """The columns of a table of links that are named; of `several` tables each has those that it has."""
    names = listed(wanted)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SettingError.saying(f"column {twice!r} is listed twice in link_features; list it once")
    if not table.n_rows:
        return {}
    return {
        name: _column(table, name, table.column(name, "link_features"))
        for name in names
        if not several or name in table.columns
    }


def check_named(wanted: Wanted, tables: Sequence[Table]) -> None:
    """Of several tables with names of their own one at the least has to have each column."""
    for name in listed(wanted):
        if tables and not any(name in table.columns for table in tables):
            tables[0].column(name, "link_features")  # says so


def _column(table: Table, name: str, column: TableColumn) -> LinkColumn:
    what = f"column {name!r} (link_features)"
    if column.kind in ("other", "mixed", "lists"):
        remedy = "turn it into one of these (dates into days or years), or leave it out"
        raise table.fault(f"{what}: expected numbers, strings or truth values, got {column.dtype}; {remedy}")
    gaps = without_value(column)
    if gaps.any():
        remedy = "fill them in, leave these rows out, or leave the column out"
        count = f"{int(gaps.sum()):,} of {len(gaps):,} rows have no value"
        raise table.fault(f"{what}: {count}, the first of them here; {remedy}", int(gaps.argmax()))
    if column.kind not in ("text", "truth"):
        values = column.values.astype(np.float64)
        if not np.isfinite(values).all():
            row = int((~np.isfinite(values)).argmax())
            raise table.fault(f"{what}: numbers must be finite, got {values[row]}; replace it", row)
        return LinkColumn(values)
    return _coded([str(one) for one in written(column) or ()], lambda text: table.fault(f"{what}: {text}"))


def array_columns(name: str, values: NDArray[Any], n_edges: int) -> dict[str, LinkColumn]:
    """Of an array (E,), or (E, d), which makes a column of each place: truth values name relations."""
    if values.ndim not in (1, 2) or len(values) != n_edges or values.dtype.kind not in "fiub":
        raise InputError(
            f"{name} (link_features) must be numbers or truth values, ({n_edges},) or ({n_edges}, d), a row an edge; "
            f"got {values.dtype} {values.shape}"
        )
    if values.ndim == 2 and values.shape[1] != 1:
        return {f"{name}[{i}]": _array_column(f"{name}[{i}]", one) for i, one in enumerate(values.T)}
    return {name: _array_column(name, values.ravel())}


def _array_column(name: str, values: NDArray[Any]) -> LinkColumn:
    if values.dtype.kind == "b":
        return _coded([str(one) for one in values.tolist()], InputError)
    strange = np.flatnonzero(~np.isfinite(values.astype(np.float64)))
    if len(strange):
        count = f"{len(strange):,} of {len(values):,} edges have no finite number"
        raise InputError(f"{name} (link_features): {count}, the first is edge {strange[0]}; replace them")
    return LinkColumn(values.astype(np.float64))


def _coded(values: Sequence[str], fault: Any) -> LinkColumn:
    """Values by number, sorted by name."""
    names = sorted({*values})
    if len(names) > MOST_VALUES:
        some = ", ".join(map(repr, names[:3]))
        raise fault(
            f"each value is a kind of link, and {len(names)} values ({some}, ...) are more than {MOST_VALUES}; put "
            "rare ones together, or leave the column out"
        )
    return LinkColumn(Vocabulary(names).encode(values), tuple(names))


# -- relations ----------------------------------------------------------------------------------------


def cuts_of(parts: Iterable[Part], given: Mapping[str, Sequence[float]]) -> dict[str, Cuts]:
    """By column, where its numbers are cut: as given, else into thirds of them all; None of strings."""
    by_column: dict[str, list[NDArray[np.float64]]] = {}
    found: dict[str, Cuts] = {}
    for rows, at in parts:
        for name, column in rows.columns.items():
            found[name] = None
            if column.names is None:
                by_column.setdefault(name, []).append(column.values[at])
    for name, pieces in by_column.items():
        found[name] = tuple(float(cut) for cut in given[name]) if name in given else _thirds(np.concatenate(pieces))
    return found


def _thirds(values: NDArray[np.float64]) -> tuple[float, ...]:
    """Where thirds end; fewer where many numbers are the same, and none where all are."""
    below = values[values < values.max(initial=-np.inf)]
    if not len(below):
        return ()
    ends = np.unique(np.quantile(values, [1 / 3, 2 / 3], method="inverted_cdf"))
    return tuple(float(end) for end in ends if end < values.max()) or (float(below.max()),)


def _binned(column: LinkColumn, cuts: Cuts) -> LinkColumn:
    """Numbers by the part they are in, up to its end and with it."""
    if column.names is not None or not cuts:
        return column
    n = len(cuts) + 1
    return LinkColumn(np.searchsorted(cuts, column.values), THIRDS.get(n, tuple(f"{i + 1} of {n}" for i in range(n))))


def split_by_value(parts: Sequence[Part], cuts: Mapping[str, Cuts]) -> Iterator[tuple[str, list[Part]]]:
    """What is put behind the name of a relation, "[kind=card]", and its links of that value."""
    for column in dict.fromkeys(name for rows, _ in parts for name in rows.columns):
        own = [(rows, at, _binned(rows.columns[column], cuts[column])) for rows, at in parts if column in rows.columns]
        for value in dict.fromkeys(name for *_, one in own for name in one.names or ()):
            chosen = [(rows, at[_is(one, value)[at]]) for rows, at, one in own]
            if any(len(at) for _, at in chosen):
                yield f"[{column}={value}]", chosen


def _is(column: LinkColumn, value: str) -> NDArray[np.bool_]:
    names = column.names or ()
    return np.asarray(column.values == (names.index(value) if value in names else -1))


def part_of(relation: str) -> tuple[str, str] | None:
    """Of "pays[kind=card]" the whole, "pays", and the column, "kind"; None of a relation that is no such part."""
    found = PART.fullmatch(relation)
    return None if found is None else (found[1], found[2])


def with_empty_parts(relations: Mapping[str, Any], used: Iterable[str]) -> dict[str, Any]:
    """The relations of a graph and, without links, those parts that a model uses of which this graph has only others: a
    value that nobody has here. Where a column is not there at all, the parts stay missing."""
    lacking = [name for name in used if name not in relations and part_of(name) is not None]
    split = {part for name in relations if (part := part_of(name)) is not None}
    found = dict(relations)
    for name in lacking:
        whole, column = part_of(name) or ("", "")
        if whole in relations and ((whole, column) in split or not getattr(relations[whole], "nnz", 1)):
            found[name] = sparse.csr_array(relations[whole].shape, dtype=np.float64)
    return found


# -- features of nodes --------------------------------------------------------------------------------


def aggregated(parts: Sequence[Part], n: int, name: str, ways: Sequence[str]) -> tuple[list[str], NDArray[np.float64]]:
    """Features of n nodes by the numbers of their links, (n, f), and the names of these. `ways`: "out" and "in"; or
    "both", each link at both its ends; or "", each at its source."""
    found: list[str] = []
    made: list[NDArray[np.float64]] = []
    for column in dict.fromkeys(one for rows, _ in parts for one in rows.columns):
        own = [(rows, at, one) for rows, at in parts if (one := rows.columns.get(column)) is not None]
        if any(one.names is not None for *_, one in own):
            continue
        source, target, values = (
            np.concatenate(pieces)
            for pieces in zip(
                *((rows.source[at], rows.target[at], one.values[at]) for rows, at, one in own), strict=True
            )
        )
        for way in ways:
            ends = {"in": [target], "both": [source, target]}.get(way, [source])
            at, weight = np.concatenate(ends), np.tile(values, len(ends))
            shown = f" of {name}, {way}" if way in ("in", "out") else f" of {name}"
            count, total, size = (np.bincount(at, one, n) for one in (None, weight, np.abs(weight)))
            mean = total / np.maximum(count, 1)
            made += [np.sign(mean) * np.log1p(np.abs(mean)), np.log1p(size)]
            found += [f"log mean {column}{shown}", f"log total {column}{shown}"]
    return found, np.stack(made, axis=1) if made else np.zeros((n, 0))


def is_aggregate(feature: str, columns: Iterable[str]) -> bool:
    """Whether a feature is one that `aggregated` makes of these columns of links."""
    return any(feature.startswith((f"log mean {column} of ", f"log total {column} of ")) for column in columns)


def with_columns(parts: Mapping[str, Any], names: Sequence[str], rows: NDArray[np.float64]) -> dict[str, Any]:
    """Arguments of `Graph`, with more columns of features behind those that are there."""
    if not names:
        return dict(parts)
    own = parts["features"]
    if sparse.issparse(own):
        table = sparse.csr_array(sparse.hstack([sparse.csr_array(own), sparse.csr_array(rows)], format="csr"))
    else:
        table = np.hstack([np.asarray(own), rows])
    given = parts.get("feature_names")
    if given is None:
        return {**parts, "features": table}
    again = next((name for name in names if name in {*given}), None)
    if again is not None:
        raise InputError(
            f"two features would be named {again!r}: one is made of link_features; rename the other column"
        )
    return {**parts, "features": table, "feature_names": [*given, *names]}
