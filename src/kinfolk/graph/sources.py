"""Where users keep their graphs: the ways to a `Graph` from data frames, networkx, SciPy and PyTorch Geometric."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.data import Classes, Coded, Vocabulary
from kinfolk.core.table import (
    NodeIds,
    Table,
    TableColumn,
    check_distinct,
    frame_table,
    id_column,
    is_lists,
    listed,
    object_column,
    strings,
    without_value,
)
from kinfolk.errors import InputError, SettingError

# -- Links of tables, files or other libraries, to relations: one warning counts what is left out ------

log = logging.getLogger("kinfolk")

LINK, INVERSE = "links_to", "linked_from"
CHOICES = {
    "dangling": ("drop", "refuse"),
    "self_loops": ("drop", "refuse"),
    "duplicates": ("merge", "refuse"),
    "directed": (True, False, None),
}


@dataclass(frozen=True)
class LinkRules:
    """What links become.

    dangling    links with an end that is no node: "drop" or "refuse"
    self_loops  links from a node to itself: "drop" or "refuse"
    duplicates  a link that comes twice: "merge" (one link; weights, where there are any, are added) or "refuse"
    directed    True: a relation and its inverse; False: one relation, both ways; None: as the links themselves are,
                one relation if every link is there from both ends with the same weight
    link        name of the relation, of links that have no names of their own
    inverse     name of its inverse, or name -> name of the inverse; None: no inverses. Links with names of their own
                have inverses "<name>_inverse" unless these are given.
    """

    dangling: str = "drop"
    self_loops: str = "drop"
    duplicates: str = "merge"
    directed: bool | None = True
    link: str = LINK
    inverse: str | Mapping[str, str] | None = INVERSE

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                listed = ", ".join(map(str, allowed))
                raise SettingError(name, getattr(self, name), f"one of {listed}")
        pairs = self.inverse.items() if isinstance(self.inverse, Mapping) else [(self.link, self.inverse)]
        for name, inverse in pairs:
            if name == inverse:
                raise SettingError.saying(f"link and inverse must have two names; both are {name!r}")

    def inverse_of(self, name: str) -> str | None:
        if self.inverse is None or isinstance(self.inverse, str):
            own = name == self.link
            if not own and self.inverse not in (None, INVERSE):
                needed = f"`inverse={{{name!r}: ...}}`"
                raise SettingError.saying(
                    f"links with names need {needed}, a name for each; got `inverse={self.inverse!r}`"
                )
            return self.inverse if own or self.inverse is None else f"{name}_inverse"
        return self.inverse.get(name, f"{name}_inverse")


@dataclass
class LeftOut:
    """Links that came and are left out, counted; and the first that leads nowhere."""

    dangling: int = 0
    loops: int = 0
    repeated: int = 0
    added: int = 0  # repeated too, but their weights count
    first: str = ""

    def log(self, nodes: str) -> None:
        """One warning if there are any; `nodes` is where the nodes come from."""
        first = f" (the first: {self.first})" if self.first else ""
        kinds = ((self.dangling, f"with an end that is not in {nodes}{first}"), (self.loops, "from a node to itself"))
        dropped = [f"{n} {what}" for n, what in (*kinds, (self.repeated, "repeated")) if n]
        parts = [f"links dropped: {', '.join(dropped)}"] * bool(dropped)
        parts += [f"links merged: {self.added} repeated, their weights added"] * bool(self.added)
        if parts:
            log.warning("%s", "; ".join(parts))


class LinkRows(NamedTuple):
    """Links as one table or file has them, none left out yet.

    source, target  numbers of the nodes, -1 where there is no such node
    weights         None: all 1
    fault           message, row or None -> the error with the place of that row
    place           row -> its place, in words
    end             row -> the id at the end of a link that leads nowhere, or at the source of another
    remedy          what to do if no link joins two nodes
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    fault: Callable[[str, int | None], InputError]
    place: Callable[[int], str]
    end: Callable[[int], str]
    remedy: Callable[[], str]
    weights: NDArray[np.float64] | None = None


Part = tuple[LinkRows, NDArray[np.int64]]  # and which of its rows


class LinkCollector:
    """Links from as many tables as there are, put together into relations of n nodes."""

    def __init__(self, n: int, rules: LinkRules) -> None:
        self.n, self.rules, self.left_out = n, rules, LeftOut()
        self._parts: dict[str, list[Part]] = {}

    def add(self, rows: LinkRows, nodes: str, names: str | Sequence[str] | None = None) -> None:
        """Links whose ends should be in `nodes`; with the name of all, with one for each, or without any."""
        kept = self._kept(rows, nodes)
        if names is None or isinstance(names, str):
            self._parts.setdefault(names or self.rules.link, []).append((rows, kept))
            return
        known = Vocabulary(dict.fromkeys(names))
        codes = known.encode(names)[kept]
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(1, len(known)))
        for name, own in zip(known, np.split(kept[order], ends), strict=False):
            self._parts.setdefault(name, []).append((rows, own))

    def _kept(self, rows: LinkRows, nodes: str) -> NDArray[np.int64]:
        """The rows that join two different nodes; the others are refused or counted."""
        lost = (rows.source < 0) | (rows.target < 0)
        if lost.any():
            row, count = int(lost.argmax()), int(lost.sum())
            if lost.all():
                raise rows.fault(f"none of the {count} links joins two nodes of {nodes}; {rows.remedy()}", None)
            if self.rules.dangling == "refuse":
                what = f"{rows.end(row)!r} is not in {nodes}, and {count} links have such an end"
                raise rows.fault(f"{what}; add the nodes, or drop the links with `dangling='drop'`", row)
            self.left_out.dangling += count
            self.left_out.first = self.left_out.first or f"{rows.end(row)!r} in {rows.place(row)}"
        loops = ~lost & (rows.source == rows.target)
        if loops.any():
            row, count = int(loops.argmax()), int(loops.sum())
            if self.rules.self_loops == "refuse":
                what = f"a link from {rows.end(row)!r} to itself, one of {count}"
                raise rows.fault(f"{what}; take them out, or drop them with `self_loops='drop'`", row)
            self.left_out.loops += count
        return np.flatnonzero(~(lost | loops))

    def relations(self, nodes: str) -> dict[str, Any]:
        """Name -> CSR (n, n) for the links of each name and their inverses. One warning counts what is left out."""
        found: dict[str, Any] = {}
        for name, parts in self._parts.items():
            links = self._merged(parts)
            both_ways = not self.rules.directed and (links != links.T.tocsr()).nnz == 0
            if self.rules.directed is False and not both_ways:
                links, both_ways = self._from_both_ends(links, parts), True
            inverse = None if both_ways else self.rules.inverse_of(name)
            if inverse in self._parts or inverse in found:
                raise SettingError.saying(
                    f"two relations would be named {inverse!r}; name the inverses by `inverse={{...}}`"
                )
            found[name] = links
            if inverse is not None:
                found[inverse] = links.T.tocsr()
        self.left_out.log(nodes)
        return found

    def _merged(self, parts: Sequence[Part]) -> Any:
        source, target = _ends(parts)
        weights = [np.ones(len(at)) if rows.weights is None else rows.weights[at] for rows, at in parts]
        ends = (np.concatenate([np.empty(0), *weights]), (source, target))
        links = sparse.csr_array(ends, shape=(self.n, self.n))  # repeated entries are added up
        if links.nnz < len(source):
            self._repeated(parts, source * self.n + target, len(source) - links.nnz)
        return self._weighed(links, parts)

    def _from_both_ends(self, links: Any, parts: Sequence[Part]) -> Any:
        """Links without a direction: from a to b and from b to a are the same link."""
        back = links.T.tocsr()
        twice = links.astype(bool).multiply(back.astype(bool)).nnz // 2
        if twice:
            source, target = _ends(parts)
            self._repeated(parts, np.minimum(source, target) * self.n + np.maximum(source, target), twice)
        return self._weighed(sparse.csr_array(links + back), parts)

    def _repeated(self, parts: Sequence[Part], links: NDArray[np.int64], count: int) -> None:
        """Count links that come again, or refuse the first of them, if that is the rule."""
        if self.rules.duplicates == "merge":
            self.left_out.added += count * _weighted(parts)
            self.left_out.repeated += count * (not _weighted(parts))
            return
        order = np.argsort(links, kind="stable")
        again = order[1:][links[order[1:]] == links[order[:-1]]]
        row = int(again.min())
        for rows, at in parts:
            if row < len(at):
                what = f"a link that was there before, one of {len(again)}"
                raise rows.fault(f"{what}; take them out, or merge them with `duplicates='merge'`", int(at[row]))
            row -= len(at)

    def _weighed(self, links: Any, parts: Sequence[Part]) -> Any:
        """All links weigh 1, unless weights were given; a weight of 0 is no link."""
        if not _weighted(parts):
            links.data[:] = 1.0
        links.eliminate_zeros()
        return links


def _weighted(parts: Sequence[Part]) -> bool:
    return any(rows.weights is not None for rows, _ in parts)


def _ends(parts: Sequence[Part]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    none = np.empty(0, np.int64)
    source = np.concatenate([none, *(rows.source[at] for rows, at in parts)])
    return source, np.concatenate([none, *(rows.target[at] for rows, at in parts)])


# -- Columns of a table of nodes to features, each with a name -----------------------------------------
#
# numbers         "age"             as they are; truth values are 0 and 1
# strings         "colour=red"      1 where the node has that value, a feature for each value
# texts           "title:word"      1 where the word is in the text; words are runs of letters, digits and _, in
#                                   lower case
# what is missing "age is missing"  1 where it is, and 0 in the column itself, if that was asked for


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
        wanted = "expected numbers, strings or truth values"
        remedy = "turn it into one of these, or leave it out with `features=[...]`"
        raise table.fault(f"column {name!r}: {wanted}, got {column.dtype}; {remedy}")
    gaps = without_value(column)
    if gaps.any() and not flag:
        row = int(gaps.argmax())
        what = f"{name!r} of node {ids[row]!r} is missing, as it is of {int(gaps.sum())} nodes"
        remedy = f"fill it in, leave the column out, or have 0 and a feature '{name} is missing' by `missing='flag'`"
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
    if column.kind != "text" and (column.kind in ("other", "mixed") or not without_value(column).all()):
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


# -- A table of nodes and tables of links to what `Graph` is built of: ids are matched, rows stay in order ---

FLOAT = re.compile(r"-?\d+\.0+")
LONGEST_TITLE = 500  # characters; a text may be a whole page, and a title is only looked at


class LinkColumns(NamedTuple):
    """The parts that columns of a table of links play."""

    source: str = "source"
    target: str = "target"
    relation: str | None = None
    weight: str | None = None


# -- nodes --------------------------------------------------------------------------------------------


def graph_parts(
    nodes: Table, edges: Iterable[tuple[str | None, Table]], columns: NodeColumns, ends: LinkColumns, rules: LinkRules
) -> dict[str, Any]:
    """Arguments of `Graph` for one table of nodes and tables of links, each with the name of its links or None."""
    if not nodes.n_rows:
        raise nodes.fault("no nodes: expected a row for each, found none")
    ids = NodeIds(nodes, columns.id)
    parts = node_parts(nodes, ids.names, columns)
    links = LinkCollector(nodes.n_rows, rules)
    for name, table in edges:
        if name is not None and ends.relation is not None:
            raise SettingError.saying(f"the links of {table.name} are named {name!r} already; relation must be None")
        names = name if ends.relation is None else table.full_names(ends.relation, "relation")
        links.add(_link_rows(table, ids, ends), nodes.name, names)
        if not table.n_rows:
            log.warning("%s has no links", table.name)
    return {**parts, "relations": links.relations(nodes.name)}


def node_parts(nodes: Table, ids: Sequence[str], columns: NodeColumns) -> dict[str, Any]:
    """Arguments of `Graph` but its links."""
    columns.chosen(nodes)  # mistakes in what columns are come first
    labels = _labels(nodes, columns.label)
    groups = None if columns.group is None else nodes.full_names(columns.group, "group")
    features, names = feature_table(nodes, ids, columns)
    parts = {"features": features, "labels": labels, "ids": ids, "groups": groups, "feature_names": names}
    return {**parts, "titles": _titles(nodes, listed(columns.text))}


def _labels(table: Table, column: str | None) -> Coded:
    """Labels, -1 = unknown, and the classes: sorted, as numbers if all of them are numbers."""
    if column is None:
        return Coded(np.full(table.n_rows, -1, np.int32), Classes(()))
    names, kind = table.labels(column)
    found = {name for name in names if name is not None}
    classes = Classes(_in_order(found)) if kind == "str" else Classes.sorted(found, kind)
    return Coded.of(names, classes)


def _in_order(names: Iterable[str]) -> list[str]:
    """Strings that all hold numbers go by their size."""
    plain = sorted(names)
    try:
        numbers = [float(name) for name in plain]
    except ValueError:
        return plain
    return [plain[i] for i in np.argsort(numbers, kind="stable")]


def _titles(table: Table, text: Sequence[str]) -> list[str] | None:
    """The texts of each node as they are written, for people to read; None without columns of text."""
    if not text:
        return None
    written = (table.names(name, "text") for name in text)
    return [", ".join(filter(None, texts))[:LONGEST_TITLE] for texts in zip(*written, strict=True)]


# -- links --------------------------------------------------------------------------------------------


def _link_rows(table: Table, ids: NodeIds, ends: LinkColumns) -> LinkRows:
    given = [id_column(table, name, role) for name, role in ((ends.source, "source"), (ends.target, "target"))]
    source, target = (ids.find(column) for column in given)

    def end(row: int) -> str:
        column = given[0] if source[row] < 0 or target[row] >= 0 else given[1]
        return str(column.values[row])

    def remedy() -> str:
        return _mismatch(ids.names[0], [str(column.values[0]) for column in given], ends)

    return LinkRows(source, target, table.fault, table.place, end, remedy, link_weights(table, ends.weight))


def link_weights(table: Table, name: str | None) -> NDArray[np.float64] | None:
    if name is None:
        return None
    column = table.column(name, "weight")
    if column.kind not in ("whole", "number", "truth"):
        raise table.fault(f"column {name!r} (weight): expected numbers, got {column.dtype}; correct it or name another")
    weights: NDArray[np.float64] = column.values.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(weights))
    if len(wrong):
        got = "nothing" if np.isnan(weights[wrong[0]]) else weights[wrong[0]]
        remedy = "fill it in or leave the row out"
        raise table.fault(f"column {name!r} (weight): expected a finite number, got {got}; {remedy}", int(wrong[0]))
    return weights


def _mismatch(node: str, ends: Sequence[str], names: LinkColumns) -> str:
    """What to do where no id of one table is in the other."""
    seen = f"a node is {node!r}, a link goes from {ends[0]!r} ({names.source!r}) to {ends[1]!r} ({names.target!r})"
    if bool(FLOAT.fullmatch(node)) != bool(FLOAT.fullmatch(ends[0])):
        return f"{seen}: whole numbers were written as fractions in one of the tables; make them whole in both"
    if any(key != key.strip() for key in (node, *ends)):
        return f"{seen}: take the blanks away from the ids"
    return f"{seen}; do the tables belong together, and are these the columns with the ids?"


# -- Graphs held in arrays, to what `Graph` is built of: SciPy's matrices, and the data objects of PyTorch Geometric ---
#
# Nodes are numbered by their rows. Neither torch nor PyTorch Geometric is imported: data are known by their attributes.


def scipy_parts(adjacency: Any, features: Any, rules: LinkRules) -> dict[str, Any]:
    """Features and relations of `Graph`: entry (i, j) of a matrix is the weight with which i looks at j."""
    given = dict(adjacency) if isinstance(adjacency, Mapping) else {rules.link: adjacency}
    matrices = {str(name): _checked_matrix(name, matrix) for name, matrix in given.items()}
    if not matrices and features is None:
        raise InputError("expected a matrix of links or features, to know how many nodes there are; got neither")
    table = features if features is None or sparse.issparse(features) else np.asarray(features)
    n = int(next(iter(matrices.values())).shape[0] if table is None else table.shape[0])
    links = LinkCollector(n, rules)
    for name, matrix in matrices.items():
        if matrix.shape != (n, n):
            raise InputError(f"relation {name!r} must have shape ({n}, {n}), a row a node; got {matrix.shape}")
        links.add(_matrix_rows(name, matrix), "the matrix", name)
    return {**_features(table, n), "relations": links.relations("the matrix")}


def _features(table: Any, n: int) -> dict[str, Any]:
    return {"features": np.zeros((n, 0)), "feature_names": ()} if table is None else {"features": table}


def _checked_matrix(name: str, given: Any) -> Any:
    matrix = given if sparse.issparse(given) else np.asarray(given)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise InputError(f"relation {name!r} must be a matrix of numbers (n, n); got {matrix.dtype} {matrix.shape}")
    return sparse.coo_array(sparse.csr_array(matrix))  # repeated entries are added up


def _matrix_rows(name: str, matrix: Any) -> LinkRows:
    source, target = (ends.astype(np.int64) for ends in matrix.coords)
    weights = None if matrix.dtype.kind == "b" else matrix.data.astype(np.float64)
    place = lambda row: f"relation {name!r}, entry ({source[row]}, {target[row]})"  # noqa: E731
    return _array_link_rows(source, target, place, weights)


def _array_link_rows(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    place: Callable[[int], str],
    weights: NDArray[np.float64] | None,
) -> LinkRows:
    fault = lambda message, row: InputError(message if row is None else f"{place(row)}: {message}")  # noqa: E731
    if weights is not None and not np.isfinite(weights).all():
        row = int((~np.isfinite(weights)).argmax())
        raise fault(f"expected a finite number as weight, got {weights[row]}; replace it", row)
    return LinkRows(source, target, fault, place, lambda row: str(source[row]), str, weights)


def pyg_parts(data: Any, relation: str | None, weight: str | None, rules: LinkRules) -> dict[str, Any]:
    """Arguments of `Graph` for a `Data` object: x, edge_index, y, and batch where several graphs were put together."""
    edges, x, y, batch = (_array(data, name) for name in ("edge_index", "x", "y", "batch"))
    if edges is None:
        several = "; turn several kinds of nodes into one with to_homogeneous()" if hasattr(data, "node_types") else ""
        raise InputError(f"expected an object with edge_index (2, E), got {type(data).__name__} without it{several}")
    if edges.ndim != 2 or len(edges) != 2 or edges.dtype.kind not in "iu":
        raise InputError(f"edge_index must be whole numbers (2, E); got {edges.dtype} {edges.shape}")
    known = len(x) if x is not None else getattr(data, "num_nodes", None if y is None else len(y))
    if known is None:
        raise InputError("expected x (n, F), y or num_nodes, to know how many nodes there are; got none of them")
    n = int(known)
    outside = np.flatnonzero(((edges < 0) | (edges >= n)).any(axis=0))
    if len(outside):
        source, target = edges[:, outside[0]].tolist()
        got = f"link from {source} to {target}, but there are {n} nodes"
        raise InputError(f"edge_index, column {outside[0]}: {got}; add them or leave out {len(outside)} such links")
    weights = None if weight is None else _per_edge(data, weight, edges.shape[1]).astype(np.float64)
    names = None if relation is None else [str(kind) for kind in _per_edge(data, relation, edges.shape[1]).tolist()]
    source, target = edges.astype(np.int64)
    links = LinkCollector(n, rules)
    links.add(_array_link_rows(source, target, lambda row: f"edge_index, column {row}", weights), "x", names)
    groups = None if batch is None else batch.tolist()
    return {**_features(x, n), "labels": y, "relations": links.relations("x"), "groups": groups}


def _array(data: Any, name: str) -> NDArray[Any] | None:
    """An attribute as an array, None if it is not there; tensors are taken off their device."""
    value: Any = getattr(data, name, None)
    if getattr(value, "is_sparse", False):
        value = value.to_dense()
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return None if value is None else np.asarray(value)


def _per_edge(data: Any, name: str, n_edges: int) -> NDArray[Any]:
    values = _array(data, name)
    if values is None:
        raise InputError(f"no attribute {name!r}; name one that the edges have, or None")
    flat = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if flat.shape != (n_edges,) or flat.dtype.kind not in "fiub":
        raise InputError(f"{name} must be a number an edge ({n_edges},); got {flat.dtype} {values.shape}")
    return flat


# -----------------------------------------------------------------------------------------------------
# Graphs of networkx to what `Graph` is built of. It is not imported: a graph is known by what it can be asked for.

NAME = "graph"  # in messages
USUAL_LABEL = "label"


def networkx_parts(
    graph: Any, columns: NodeColumns, relation: str | None, weight: str | None, rules: LinkRules
) -> dict[str, Any]:
    """Arguments of `Graph`: attributes of nodes are columns, attributes of edges name and weigh them."""
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise InputError(f"expected a graph of networkx, got {type(graph).__module__}.{type(graph).__name__}")
    keys = list(graph.nodes)
    if not keys:
        raise InputError("no nodes: expected a graph with at least one, found none")
    nodes = _table([graph.nodes[key] for key in keys], lambda row: f"node {keys[row]!r}")
    ids = list(map(str, keys))
    check_distinct(nodes, ids)
    if columns.label == USUAL_LABEL and USUAL_LABEL not in nodes.columns:
        columns = columns._replace(label=None)  # nothing is labelled yet
    number = {key: i for i, key in enumerate(keys)}
    return {**node_parts(nodes, ids, columns), "relations": _relations(graph, number, relation, weight, rules)}


def _relations(
    graph: Any, number: Mapping[Any, int], relation: str | None, weight: str | None, rules: LinkRules
) -> dict[str, Any]:
    ends = list(graph.edges(data=True))
    # An edge without a weight weighs 1 where others have one, as networkx itself has it.
    edges = _table([data for _, _, data in ends], lambda row: f"edge {ends[row][0]!r} to {ends[row][1]!r}", {weight: 1})
    source, target = (np.fromiter((number[edge[i]] for edge in ends), np.int64, len(ends)) for i in (0, 1))
    weights = link_weights(edges, weight) if ends else None
    names = edges.full_names(relation, "relation") if ends and relation is not None else None
    links = LinkCollector(len(number), rules)
    rows = LinkRows(source, target, edges.fault, edges.place, lambda row: str(ends[row][0]), str, weights)
    links.add(rows, NAME, names)
    return links.relations(NAME)


def _table(
    given: Sequence[Mapping[Any, Any]], place: Callable[[int], str], usual: Mapping[Any, Any] | None = None
) -> Table:
    """A column for each attribute that anybody has, in order of appearance; `usual`, or None, where one has it not."""
    known = dict.fromkeys(key for attributes in given for key in attributes)
    columns = {str(key): partial(_column, given, key, (usual or {}).get(key)) for key in known}
    return Table(NAME, columns, len(given), place=place)


def _column(given: Sequence[Mapping[Any, Any]], key: Any, usual: Any) -> TableColumn:
    return object_column([attributes.get(key, usual) for attributes in given])


# -- sources ---------------------------------------------------------------------------------------


class GraphSources:
    """What `Graph` can be made of; every way ends in the same checks."""

    __slots__ = ()

    @classmethod
    def _made(cls, parts: Mapping[str, Any]) -> Self:
        build: Any = cls
        return build(**parts)  # type: ignore[no-any-return]

    @classmethod
    def from_frames(
        cls,
        nodes: Any,
        edges: Any,
        *,
        id: str | None = "id",
        label: str | None = None,
        features: str | Sequence[str] | None = None,
        text: str | Sequence[str] | None = None,
        group: str | None = None,
        missing: str = "refuse",
        source: str = "source",
        target: str = "target",
        relation: str | None = None,
        weight: str | None = None,
        directed: bool | None = True,
        link: str = LINK,
        inverse: str | Mapping[str, str] | None = INVERSE,
        dangling: str = "drop",
        self_loops: str = "drop",
        duplicates: str = "merge",
    ) -> Self:
        """The graph in a table of nodes and one of links: pandas, polars, Arrow or another that narwhals knows, or a
        dict of lists, {"id": [...], ...}.

        nodes      one row a node; the graph has them in that order
        edges      one row a link: its source looks at its target; or a list of such tables; or name -> table, each
                   with the links of one name

        Of `nodes` these are columns; an empty string counts as missing everywhere:

        id         strings or whole numbers, kept as strings, so 1 and "1" are the same; None: the numbers of the rows
        label      missing = unknown; strings, numbers or truth values, and predictions are of the same type
        features   default: all columns that nothing else is said of. Numbers stay, truth values are 0 and 1, strings
                   make a feature "column=value" of every value. Dense, or CSR as soon as there are strings.
        text       features "column:word" for the words of a text, in lower case. The texts themselves, joined by ", ",
                   are the titles of the nodes that reports show, up to 500 characters.
        group      the graph a node belongs to, in any order
        missing    of features: "refuse", or "flag": 0 and, where any is missing, a feature "column is missing"

        Of `edges` these are columns:

        source, target   ids of nodes
        relation         names the link, so that there are several relations; None: all are named `link`
        weight           None: all 1; a weight of 0 is no link

        directed   True: every relation has an inverse. Its name is `inverse`, and "<name>_inverse" for links with names
                   of their own, unless inverse={name: name} gives another; inverse=None: no inverses. False: one
                   relation, both ways; links that are all there from both ends are taken as they are, otherwise each
                   counts both ways. None: False if all links are there from both ends, else True.
        dangling   links with an end that is not in `nodes`: "drop" or "refuse"
        self_loops links from a node to itself: "drop" or "refuse"
        duplicates the same link again: "merge", which adds weights if there are any, or "refuse"

        What is dropped or merged is counted in one warning of the logger "kinfolk".
        """
        rules = LinkRules(dangling, self_loops, duplicates, directed, link, inverse)
        columns = NodeColumns(id, label, features, text, group, missing)
        ends = LinkColumns(source, target, relation, weight)
        return cls._made(graph_parts(frame_table(nodes, "nodes"), edge_tables(edges), columns, ends, rules))

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        label: str | None = "label",
        features: str | Sequence[str] | None = None,
        text: str | Sequence[str] | None = None,
        group: str | None = None,
        missing: str = "refuse",
        relation: str | None = None,
        weight: str | None = None,
        link: str = LINK,
        inverse: str | Mapping[str, str] | None = INVERSE,
        self_loops: str = "drop",
        duplicates: str = "merge",
    ) -> Self:
        """A graph of networkx, directed as it is; the nodes are known by their names as strings.

        label, features, text, group   attributes of nodes, as the columns of `from_frames`; by default every attribute
                                       but `label` is a feature
        relation, weight               attributes of edges; an edge without a weight weighs 1 where others have one

        The rest is as in `from_frames`; edges of a multigraph between the same nodes are duplicates.
        """
        directed = bool(graph.is_directed()) if hasattr(graph, "is_directed") else True
        rules = LinkRules("drop", self_loops, duplicates, directed, link, inverse)
        columns = NodeColumns(None, label, features, text, group, missing)
        return cls._made(networkx_parts(graph, columns, relation, weight, rules))

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        features: Any = None,
        labels: Any = None,
        ids: Iterable[str | int] | None = None,
        *,
        groups: Any = None,
        feature_names: Iterable[str] | None = None,
        classes: Iterable[Any] | None = None,
        directed: bool | None = None,
        link: str = LINK,
        inverse: str | Mapping[str, str] | None = INVERSE,
        self_loops: str = "drop",
    ) -> Self:
        """A matrix (n, n), sparse or dense, or name -> matrix; entry (i, j) is the weight with which i looks at j.

        features   (n, F), sparse or dense; None: no features
        labels     as in `Graph`: strings, numbers or truth values; None, NaN and -1 = unknown
        directed   None: a symmetric matrix is one relation, any other has an inverse; else as in `from_frames`

        The rest is as in `Graph` and `from_frames`.
        """
        rules = LinkRules("drop", self_loops, "merge", directed, link, inverse)
        parts = scipy_parts(adjacency, features, rules)
        if feature_names is not None:
            parts["feature_names"] = feature_names
        return cls._made({**parts, "labels": labels, "ids": ids, "groups": groups, "classes": classes})

    @classmethod
    def from_pyg(
        cls,
        data: Any,
        *,
        feature_names: Iterable[str] | None = None,
        relation: str | None = None,
        weight: str | None = None,
        directed: bool | None = None,
        link: str = LINK,
        inverse: str | Mapping[str, str] | None = INVERSE,
        self_loops: str = "drop",
    ) -> Self:
        """A `Data` object of PyTorch Geometric: x, edge_index, y, and batch if it holds several graphs.

        y                  labels, -1 and NaN = unknown; predictions are of the same type
        edge_index         row 0 looks at row 1. PyTorch Geometric keeps a link without direction from both ends: if all
                           are there from both ends, they make one relation (directed=None)
        relation, weight   names of attributes (E,) of the data, e.g. "edge_type" and "edge_weight"

        Masks stay with the data: fit(graph, train=data.train_mask.numpy()).
        """
        rules = LinkRules("drop", self_loops, "merge", directed, link, inverse)
        parts = pyg_parts(data, relation, weight, rules)
        return cls._made(parts if feature_names is None else {**parts, "feature_names": feature_names})


def edge_tables(edges: Any) -> list[tuple[str | None, Table]]:
    """One data frame, a list of them, or name -> frame."""
    if isinstance(edges, Mapping) and not is_lists(edges):
        return [(name, frame_table(frame, f"edges[{name!r}]")) for name, frame in edges.items()]
    if isinstance(edges, list | tuple):
        return [(None, frame_table(frame, f"edges[{i}]")) for i, frame in enumerate(edges)]
    return [(None, frame_table(edges, "edges"))]
