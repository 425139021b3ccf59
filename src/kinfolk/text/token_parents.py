"""Who the parents of a token are: the token before it and, by skip edges, earlier tokens of its document.

From right to left (`backward`) everything is mirrored: the token behind it, and later tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.gate import gate_rows, shared_weights
from kinfolk.collective.joint import Sample
from kinfolk.collective.mixture import Layout, RelationLayout, wire
from kinfolk.collective.separate import EdgeData
from kinfolk.inference.dag import Dag, build_dag
from kinfolk.text.corpus import Corpus
from kinfolk.text.edges import EdgeFeatures
from kinfolk.text.skip_edges import LearnedSkips

Array = NDArray[Any]
CHAIN = {False: "previous", True: "next"}


@dataclass(frozen=True, eq=False)
class TokenParents:
    """The rule after training, for one direction.

    skips            skip edges, a relation each
    parent_features  features of the parent on skip edges: "none", with weights of their "own", or "shared" ones
    edge_features    features of label pairs on skip edges, or None
    gate_features    edge features that the gate sees, None: no gate
    shares           fixed mixing weights by relation (R + 1,), the last for start; None: uniform or gated
    untrained        relations without a labelled edge in training: they have nothing to say, and are left out
    """

    skips: tuple[LearnedSkips, ...]
    backward: bool
    parent_features: str
    edge_features: EdgeFeatures | None
    gate_features: EdgeFeatures | None
    shares: Array | None
    n_pair_features: int = 0  # features of label pairs on the chain (transition templates)
    untrained: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (CHAIN[self.backward], *(skip.name for skip in self.skips))

    @property
    def layout(self) -> Layout:
        """Sentence starts share the table of the chain: a token's features mean the same there."""
        n_edge = 0 if self.edge_features is None else len(self.edge_features.names())
        chain = RelationLayout(self.names[0], "none", self.n_pair_features)
        rest = (RelationLayout(name, self.parent_features, n_edge) for name in self.names[1:])
        return Layout((chain, *rest), start_table=0)

    def edges(self, corpus: Corpus) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """(child, parent) of each relation, and the tokens that start a sentence (from this side)."""
        first = corpus.sentence_starts[1:] - 1 if self.backward else corpus.sentence_starts[:-1]
        child = np.delete(np.arange(corpus.n_tokens), first)
        chain = np.stack([child, child + (1 if self.backward else -1)], axis=1)
        nothing = np.empty((0, 2), np.int64)
        skips = (nothing if s.name in self.untrained else s.edges(corpus, self.backward) for s in self.skips)
        return [chain, *skips], first

    def compile(
        self, corpus: Corpus, rows: sparse.csr_array, pair_rows: sparse.csr_array | None, doubt: Array | None
    ) -> tuple[Sample, list[EdgeData], NDArray[np.int64]]:
        """A sample; and for separate training the edges of each relation, and the starts."""
        edges, first = self.edges(corpus)
        start = np.zeros(corpus.n_tokens, bool)
        start[first] = True
        dag = build_dag(edges, corpus.token_documents, start, self.names)
        on_chain = None if pair_rows is None else pair_rows[edges[0][:, 0]]
        pairs = [on_chain, *(self._on_edges(self.edge_features, corpus, e) for e in edges[1:])]
        layout = self.layout
        gates = self._gates(corpus, dag, edges, pairs, doubt)
        given = None if self.shares is None else [shared_weights(dag, self.shares)]
        sample = Sample(layout, rows, wire(layout, [dag], [pairs]), [gates], given)
        data = [
            EdgeData(e, relation.parent_features, p)
            for e, relation, p in zip(edges, layout.relations, pairs, strict=True)
        ]
        return sample, data, first

    def _gates(self, corpus: Corpus, dag: Dag, edges: list[Array], pairs: list[Any], doubt: Array | None) -> Array:
        if self.gate_features is None:
            return np.zeros((dag.n_components, 0))
        if self.gate_features == self.edge_features:  # the same rows serve label pairs and the gate
            by_relation = [None, *pairs[1:]]
        else:
            by_relation = [None, *(self._on_edges(self.gate_features, corpus, e) for e in edges[1:])]
        uncertain = np.zeros(corpus.n_tokens) if doubt is None else doubt
        return gate_rows(dag, len(edges), uncertain, by_relation)

    @staticmethod
    def _on_edges(features: EdgeFeatures | None, corpus: Corpus, edges: Array) -> Any:
        return None if features is None else features.rows(corpus, edges[:, 0], edges[:, 1])
