"""Who the parents of a node are: its neighbours that come before it in an order of the nodes.

Links may run in circles, so the nodes are put in random orders, and in each order a link leads from the earlier node to
the later one. Two models serve one kind of link (section 5.2 of the paper): the child has the link to its parent
("outgoing"), or the parent has it to the child ("incoming"). Marginals are the mean over many orders.

Relations that are a DAG already (a `Relational`) are taken as they are: row i lists the parents of i.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.gate import gate_rows, shared_weights
from kinfolk.collective.joint import Sample
from kinfolk.collective.mixture import Layout, RelationLayout, wire
from kinfolk.collective.separate import EdgeData
from kinfolk.errors import InputError
from kinfolk.inference.dag import Dag, build_dag
from kinfolk.inference.mixture import check_weights

Array = NDArray[Any]
Pairs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NodeParents:
    """The rule after training.

    links            names of the relations used
    ordered          True: links put in random orders, two models a relation; False: each relation is a DAG
    parent_features  features of the parent: "none", with weights of their "own", or "shared" ones
    everybody_starts whether nodes with parents have a start component too
    gated, shares, given   mixing weights: by a gate; by fixed shares (R + 1,); by the entries of the relations
    not_used         relations of the training data that were left aside on purpose
    untrained        of `names`, those without a labelled edge in training: they have nothing to say
    """

    links: tuple[str, ...]
    ordered: bool
    parent_features: str
    everybody_starts: bool
    gated: bool = False
    shares: Array | None = None
    given: bool = False
    not_used: tuple[str, ...] = ()
    untrained: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        if not self.ordered:
            return self.links
        return tuple(f"{name} ({side})" for name in self.links for side in ("outgoing", "incoming"))

    @property
    def layout(self) -> Layout:
        return Layout(tuple(RelationLayout(name, self.parent_features) for name in self.names))

    def edges(self, relations: Mapping[str, Any]) -> list[Pairs]:
        """All (child, parent) pairs of each of `names`, whatever the order."""
        found = []
        for name in self.links:
            links = relations[name].tocoo()
            told = slice(None) if self.given else links.data != 0  # an entry of 0 is no link, unless it is a weight
            rows, columns = links.coords[0][told], links.coords[1][told]
            pairs = np.stack([rows, columns], axis=1).astype(np.int64)
            found += [pairs, pairs[:, ::-1]] if self.ordered else [pairs]
        found = [p[:0] if name in self.untrained else p for name, p in zip(self.names, found, strict=True)]
        return [pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))] for pairs in found]

    def compile(
        self, rows: sparse.csr_array, relations: Mapping[str, Any], groups: Array, doubt: Array | None,
        n_orders: int, rng: np.random.Generator, first: NDArray[np.bool_] | None = None,
    ) -> tuple[Sample, list[EdgeData]]:  # fmt: skip
        """A sample with one wiring an order; and for separate training all edges, in both directions.

        first   bool (n,): nodes that come before all others in every order
        """
        edges, n = self.edges(relations), rows.shape[0]
        start = np.full(n, self.everybody_starts)
        dags = []
        for _ in range(n_orders if self.ordered else 1):
            kept = edges
            if self.ordered:
                rank = rng.permutation(n)
                rank = rank if first is None else rank + np.where(first, 0, n)
                kept = [pairs[rank[pairs[:, 1]] < rank[pairs[:, 0]]] for pairs in edges]
            dags.append(build_dag(kept, groups, start, self.names))
        layout = self.layout
        uncertain = np.zeros(n) if doubt is None else doubt
        no_edge_features = [None] * len(edges)
        width = len(edges)
        gates = [
            gate_rows(dag, width, uncertain, no_edge_features) if self.gated else np.zeros((dag.n_components, 0))
            for dag in dags
        ]
        sample = Sample(layout, rows, wire(layout, dags), gates, self._given(dags, relations))
        return sample, [EdgeData(pairs, self.parent_features) for pairs in edges]

    def _given(self, dags: list[Dag], relations: Mapping[str, Any]) -> list[Array] | None:
        if self.shares is not None:
            return [shared_weights(dag, self.shares) for dag in dags]
        if not self.given:
            return None
        dag = dags[0]
        alpha = np.ones(dag.n_components)  # a start component stands alone
        for r, name in enumerate(self.links):
            here = np.flatnonzero(dag.relation == r)
            alpha[here] = relations[name][dag.child[here], dag.parent[here]]
        return [check_weights(dag, alpha)]


def used_links(wanted: Sequence[str] | None, relations: Mapping[str, Any], ordered: bool) -> tuple[str, ...]:
    """The relations to use: those named, or all. Of two that are each other's reverse (cites, cited_by) one will do
    where both directions of a link are used anyway.
    """
    names = tuple(relations) if wanted is None else tuple(wanted)
    if wanted is None and ordered:
        kept: list[str] = []
        for name in names:
            if not any(_same_links(relations[name], relations[other].T) for other in kept):
                kept.append(name)
        names = tuple(kept)
    missing = [name for name in names if name not in relations]
    if missing:
        known = ", ".join(map(repr, relations)) or "none"
        raise InputError(f"there is no relation {missing[0]!r} here; there are: {known}")
    if not names and wanted is None:
        raise InputError(
            "this graph has no relation, so no node has a neighbour. Give it links; or set relations=[] for a model of "
            "the nodes alone"
        )
    return names


def _same_links(a: Any, b: Any) -> bool:
    return bool(a.nnz == b.nnz and (a.astype(bool) != sparse.csr_array(b).astype(bool)).nnz == 0)
