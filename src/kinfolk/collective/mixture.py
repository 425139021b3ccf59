"""Which tables of weights a mixture of parents has, and which rows of features each of them scores.

A relation has a table for the features of the child and, where those of the parent speak too, one for them ("own"),
or the same one ("shared"). Start components have a table of their own, or that of a relation's children.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.inference.dag import START, Dag
from kinfolk.inference.mixture import NO_ROWS, Wiring

Array = NDArray[Any]
PARENT_FEATURES = ("none", "own", "shared")


@dataclass(frozen=True)
class RelationLayout:
    """name, whether the features of the parent count ("none", "own", "shared"), features of label pairs."""

    name: str
    parent_features: str = "none"
    pair_features: int = 0


@dataclass(frozen=True)
class Layout:
    """The relations of a model; `start_table` is the relation whose child table serves starts too, None: its own."""

    relations: tuple[RelationLayout, ...]
    start_table: int | None = None

    def child_table(self, relation: int) -> int:
        return sum(1 + (r.parent_features == "own") for r in self.relations[:relation])

    def parent_table(self, relation: int) -> int | None:
        how = self.relations[relation].parent_features
        return None if how == "none" else self.child_table(relation) + (how == "own")

    @property
    def own_start_table(self) -> int:
        """Number of the table of start components."""
        return self.child_table(len(self.relations) if self.start_table is None else self.start_table)

    @property
    def n_tables(self) -> int:
        return self.child_table(len(self.relations)) + (self.start_table is None)

    @property
    def n_pair_features(self) -> int:
        return sum(r.pair_features for r in self.relations)

    def pair_columns(self, relation: int) -> slice:
        """Which of all features of label pairs are those of one relation."""
        first = sum(r.pair_features for r in self.relations[:relation])
        return slice(first, first + self.relations[relation].pair_features)


@dataclass(frozen=True)
class Wired:
    """Wirings of one or more orders of the same instances; `rows[t]`: the instances that table t scores."""

    rows: list[NDArray[np.int64]]
    wirings: list[Wiring]


def wire(layout: Layout, dags: Sequence[Dag], pair_rows: Sequence[Sequence[Any]] | None = None) -> Wired:
    """Give every component the slots of its scores.

    pair_rows   for each dag, for each relation: CSR (its edges, its features of label pairs), or None
    """
    wanted: list[list[Array]] = [[np.empty(0, np.int64)] for _ in range(layout.n_tables)]
    ends = [_ends(layout, dag) for dag in dags]
    for tables, instances in (pair for per_dag in ends for pair in per_dag):
        for t in range(layout.n_tables):
            wanted[t].append(np.unique(instances[tables == t]))
    rows = [np.unique(np.concatenate(parts)) for parts in wanted]
    firsts = np.cumsum([0, *map(len, rows)])
    wirings = []
    for d, (dag, (child, parent)) in enumerate(zip(dags, ends, strict=True)):
        child_slot, parent_slot = (_slots(rows, firsts, *end) for end in (child, parent))
        pairs = _component_rows(layout, dag, pair_rows[d] if pair_rows else ())
        wirings.append(Wiring(dag, child_slot, parent_slot, pairs))
    return Wired(rows, wirings)


End = tuple[NDArray[np.int64], NDArray[np.int64]]


def _ends(layout: Layout, dag: Dag) -> tuple[End, End]:
    """For the child and for the parent of each component: its table (-1: none) and its instance."""
    numbers = range(len(layout.relations))
    child_tables = np.array([*map(layout.child_table, numbers), layout.own_start_table], np.int64)
    parents = [layout.parent_table(r) for r in numbers]
    parent_tables = np.array([*(-1 if t is None else t for t in parents), -1], np.int64)
    assert START == -1  # the last entry of both lists is that of start components
    return (child_tables[dag.relation], dag.child), (parent_tables[dag.relation], dag.parent)


def _slots(rows: list[Array], firsts: Array, tables: Array, instances: Array) -> NDArray[np.int64]:
    slots = np.full(len(tables), -1, np.int64)
    for t, known in enumerate(rows):
        here = tables == t
        slots[here] = firsts[t] + np.searchsorted(known, instances[here])
    return slots


def _component_rows(layout: Layout, dag: Dag, by_relation: Sequence[Any]) -> tuple[Array, Array, Array]:
    """Features of label pairs by component, from those by edge."""
    if not layout.n_pair_features:
        return NO_ROWS
    blocks, places = [], [np.empty(0, np.int64)]
    for r, rows in enumerate(by_relation):
        if rows is None or not rows.shape[1]:
            continue
        here = np.flatnonzero(dag.relation == r)
        columns = layout.pair_columns(r)
        wide = sparse.csr_array(rows)[dag.edge[here]]
        shifted = (wide.data, wide.indices + columns.start, wide.indptr)
        blocks.append(sparse.csr_array(shifted, shape=(len(here), layout.n_pair_features)))
        places.append(here)
    place = np.concatenate(places)
    stacked = sparse.vstack([*blocks, sparse.csr_array((1, layout.n_pair_features))], format="csr")
    where = np.full(dag.n_components, stacked.shape[0] - 1)  # components without features: the empty row
    where[place] = np.arange(len(place))
    table = stacked[where]
    return table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data.astype(np.float64)
