"""Instances and edges of a pairwise model, and which table of label pairs scores which edge.

Two nodes may be joined more than once: a link there and one back, a skip edge beside the chain. Belief propagation
would count parallel edges twice, so they are merged into one; its table is the sum of theirs, each the right way round:

    table_k = Σ_r ( there_kr T_r + back_kr T_rᵀ ),      and for an edge with features of its own  + z_e · U

Edges with the same combination k share a table; an edge with features has one of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.inference.loopy import PairGraph, pair_graph
from kinfolk.learning.tables import TableShape

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class PairSample:
    """rows CSR (n, F); the graph; combinations there, back (K, R); instances that get the start score; for edges with a
    table of their own the combination of each, and rows of features CSR (own, G), or None."""

    rows: sparse.csr_array
    graph: PairGraph
    there: Array
    back: Array
    starts: NDArray[np.int64]
    owners: NDArray[np.int64]
    edge_rows: Any = None
    turned_rows: Any = None  # of the edges among them that lead from the higher to the lower instance

    @property
    def n_relations(self) -> int:
        return int(self.there.shape[1])

    @property
    def n_edge_features(self) -> int:
        return 0 if self.edge_rows is None else int(self.edge_rows.shape[1])

    @property
    def overlap(self) -> float:
        """How many features an edge has on average, the table of its relation included."""
        return 1.0 if self.edge_rows is None else 1.0 + self.edge_rows.nnz / max(1, self.edge_rows.shape[0])

    def shape(self, n_labels: int) -> TableShape:
        return TableShape((self.rows.shape[1],), n_labels, self.n_relations, self.n_edge_features)

    def node_scores(self, ends: Array, start: Array) -> Array:
        scores = np.array(ends, np.float64)
        scores[self.starts] += start
        return scores

    def tables(self, pair: Array, rows: Array) -> Array:
        """(K + edges with features, L, L)."""
        scores = np.asarray(pair, np.float64)
        n_labels = scores.shape[1] if scores.ndim == 3 else 0
        shared = np.einsum("kr,rxy->kxy", self.there, scores) + np.einsum("kr,ryx->kxy", self.back, scores)
        if self.edge_rows is None:
            return np.asarray(shared)
        size, weights = (len(self.owners), n_labels, n_labels), np.asarray(rows, np.float64)
        own = np.asarray(self.edge_rows @ weights).reshape(size)
        own = own + np.asarray(self.turned_rows @ weights).reshape(size).transpose(0, 2, 1)
        return np.concatenate([shared, shared[self.owners] + own])

    def with_forbidden(self, tables: Array, forbidden: Array) -> Array:
        """Tables with (L, L) added wherever the first relation has a part: 0 or -inf."""
        chained = self.there[:, 0] > 0 if self.n_relations else np.zeros(len(self.there), bool)
        parts = np.concatenate([chained, chained[self.owners]]) if len(tables) > len(chained) else chained
        return np.where(parts[:, None, None], tables + forbidden, tables)

    def pair_gradient(self, by_table: Array, squared: bool = False) -> tuple[Array, Array]:
        """Derivatives by T and by U, from those by table; with `squared`, of second derivatives."""
        n_labels = by_table.shape[1]
        shared = by_table[: len(self.there)].copy()
        own = by_table[len(self.there) :]
        np.add.at(shared, self.owners, own)
        there, back = (self.there**2, self.back**2) if squared else (self.there, self.back)
        pair = np.einsum("kr,kxy->rxy", there, shared) + np.einsum("kr,kyx->rxy", back, shared)
        if self.edge_rows is None:
            return pair, np.zeros((0, n_labels * n_labels))
        total = np.zeros((self.n_edge_features, n_labels * n_labels))
        for features, by_edge in ((self.edge_rows, own), (self.turned_rows, own.transpose(0, 2, 1))):
            used = features.power(2) if squared else features
            total += used.T @ by_edge.reshape(len(own), n_labels * n_labels)
        return pair, total

    def find_edges(self, first: Array, second: Array) -> NDArray[np.int64]:
        """Numbers of the edges between given pairs of instances, first < second."""
        n = max(1, self.graph.n_nodes)
        keys = self.graph.edges[:, 0] * n + self.graph.edges[:, 1]  # edges stand in this order
        found: NDArray[np.int64] = np.searchsorted(keys, np.asarray(first) * n + np.asarray(second))
        return found


def pair_sample(
    rows: sparse.csr_array, edges: list[Array], edge_rows: list[Any], groups: Array, starts: Array
) -> PairSample:
    """`edges` (E, 2) of each relation; `edge_rows`: CSR (E, G) or None, the same G for all."""
    n, n_relations = len(groups), len(edges)
    joined = np.concatenate([np.empty((0, 2), np.int64), *(np.asarray(e, np.int64).reshape(-1, 2) for e in edges)])
    relation = np.repeat(np.arange(n_relations), [len(e) for e in edges]).astype(np.int64)
    turned = (joined[:, 0] > joined[:, 1]).astype(np.int64)
    low, high = joined.min(axis=1, initial=n), joined.max(axis=1, initial=-1)
    keys, edge = np.unique(low * max(1, n) + high, return_inverse=True)
    counts = np.zeros((len(keys), 2 * n_relations))
    np.add.at(counts, (edge, relation + n_relations * turned), 1)
    combinations, table = np.unique(counts, axis=0, return_inverse=True)
    table = table.reshape(-1)
    owners, features, turned_features = np.empty(0, np.int64), None, None
    featured = [r for r, own in enumerate(edge_rows) if own is not None]
    if featured:
        has = np.isin(relation, featured)
        stacked = sparse.vstack([edge_rows[r] for r in featured], format="csr")
        mine, place = np.unique(edge[has], return_inverse=True)  # an edge may have features of two relations
        at = place.reshape(-1), np.arange(len(place))
        straight, around = (
            sparse.csr_array((use.astype(np.float64), at), shape=(len(mine), len(place)))
            for use in (turned[has] == 0, turned[has] == 1)
        )
        features, turned_features, owners = straight @ stacked, around @ stacked, table[mine]
        table = table.copy()
        table[mine] = len(combinations) + np.arange(len(mine))
    pairs = np.stack(np.divmod(keys, max(1, n)), axis=1) if len(keys) else np.empty((0, 2), np.int64)
    graph = pair_graph(pairs, table, groups, n_shared=len(combinations))
    there, back = combinations[:, :n_relations], combinations[:, n_relations:]
    own = owners.astype(np.int64), features, turned_features
    return PairSample(rows, graph, there, back, np.asarray(starts, np.int64), *own)
