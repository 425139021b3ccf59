"""How many links a node has, as features.

    log(1 + links that leave it), log(1 + links that lead to it)      for each relation

Twice as many links add the same whether there are few or many, so a page with 144 links does not outweigh all its
words. No label has a part in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from kinfolk.core.settings import NAMES, NONE
from kinfolk.graph.graph import Graph
from kinfolk.graph.nodes import used_links


def with_degrees(graph: Graph, relations: Sequence[str] | None = None) -> Graph:
    """The graph with two more features for each relation: logarithms of 1 + the number of links out, and in.

    relations  those whose links are counted; None: all. Weights of links do not count

    A link model (`kf.LinkModel`) tells classes apart by how many links they have, too: each link adds to the score of a
    class. With degrees as features that is left to them, and tables of label pairs learn who is linked to whom. And a
    model without links that has them is what a model with links is to be compared with. A graph with degrees for
    training has to have them for prediction.
    """
    (NAMES | NONE).check("relations", relations)
    names = used_links(tuple(graph.relations) if relations is None else relations, graph.relations, ordered=False)
    counts = [np.zeros((graph.n_nodes, 0), np.int64)]
    for name in names:
        source, target = sparse.coo_array(graph.relations[name]).nonzero()
        counts += [np.bincount(end, minlength=graph.n_nodes)[:, None] for end in (source, target)]
    own = graph.features
    degrees = np.log1p(np.hstack(counts)).astype(own.dtype)
    if sparse.issparse(own):
        table = sparse.csr_array(sparse.hstack([own, sparse.csr_array(degrees)], format="csr"))
    else:
        table = np.hstack([own, degrees])
    given = graph.feature_names
    both = [f"{way} {name}" for name in names for way in ("log links out:", "log links in:")]
    return graph.with_features(table, None if given is None else [*given, *both])
