"""Features smoothed along links, so that a node carries the words of its whole surroundings.

Personalised PageRank, cut off after K steps (Gasteiger and others' APPNP, without the network):

    S = D^-½ (A + I) D^-½        A the links of the relation, each in both directions, D the row sums of A + I
    Z = Σ_{k<K} α (1 - α)^k S^k X + (1 - α)^K S^K X

The smaller α, the further words travel. No label has a part in it.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from kinfolk.data.graph import Graph
from kinfolk.errors import InputError, SettingError
from kinfolk.features.paths import Relation


def diffused(
    graph: Graph, relation: str | Relation, alpha: float = 0.15, steps: int = 10, *, scale: bool = True
) -> Graph:
    """The graph with smoothed features, dense and of single precision.

    relation  the links to smooth along, as templates name them: "cites | cited_by"
    alpha     how much of a step stays at home, above 0 and up to 1 (1: nothing moves)
    steps     how far words may travel
    scale     rows of unit length, as distances between texts are best compared
    """
    if not 0 < alpha <= 1:
        raise SettingError(f"alpha must be above 0 and at most 1; got {alpha!r}")
    if not isinstance(steps, Integral) or isinstance(steps, bool) or steps < 0:
        raise SettingError(f"steps must be a whole number of 0 or more; got {steps!r}")
    links = Relation.parse(relation).links(graph.relations)
    if (links.data < 0).any():
        raise InputError("features are smoothed along links whose weights are not negative; this relation has others")
    step = _step(links)
    own = graph.features.toarray() if sparse.issparse(graph.features) else np.asarray(graph.features)
    own = own.astype(np.float32)
    smooth = own
    for _ in range(steps):  # Z_{k+1} = (1 - α) S Z_k + α X, from Z_0 = X: the sum above, inside out
        smooth = (1 - alpha) * (step @ smooth) + alpha * own
    if scale:
        lengths = np.sqrt((smooth**2).sum(axis=1, keepdims=True))
        smooth = np.divide(smooth, lengths, out=np.zeros_like(smooth), where=lengths > 0)
    return graph.with_features(smooth, graph.feature_names)


def _step(links: Any) -> sparse.csr_array:
    """S, from links in one direction or both."""
    n = links.shape[0]
    both = (links.maximum(links.T) + sparse.eye_array(n)).tocsr().astype(np.float32)
    scale = 1 / np.sqrt(np.asarray(both.sum(axis=1)).ravel())
    half = sparse.dia_array((scale[None].astype(np.float32), [0]), shape=(n, n))
    return sparse.csr_array(half @ both @ half)
