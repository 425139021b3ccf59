"""How probable whole spans of labels are under a mixture of parents.

For a span of labels l and the parents of its instances,

    P(span) = Π_v Σ_c α_c ( p_c(l_v | l_j) if the parent j of c is in the span, else π_c(l_v) )

with instances in order, and one last factor for what follows: any label that does not carry the span on. Parents
outside the span count with their exact marginals and as independent of each other; so this is exact for a chain, where
only one of them is outside, and an approximation (in practice a close one) where skip edges lead elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.inference.mixture import Beliefs, Scores, Wiring

Array = NDArray[Any]


class LabelledSpan(NamedTuple):
    """Instances first, ..., first + len(labels) - 1 with these labels; `follower`: whether one more comes behind."""

    first: int
    labels: NDArray[np.integer]
    follower: bool


def mixture_span_probabilities(
    wiring: Wiring, scores: Scores, alpha: Array, found: Beliefs, spans: Sequence[LabelledSpan], continues: Array,
    known: NDArray[np.int32] | None = None,
) -> NDArray[np.float64]:  # fmt: skip
    """The probability of each span. `continues` (L, L): True where label y behind label i carries a span on.

    known   labels that are certain, -1 for the others
    """
    return np.array([_one(wiring, scores, alpha, found, span, continues, known) for span in spans], np.float64)


def _one(
    wiring: Wiring, scores: Scores, alpha: Array, found: Beliefs, span: LabelledSpan, continues: Array,
    known: NDArray[np.int32] | None,
) -> float:  # fmt: skip
    dag, n_labels = wiring.dag, len(scores.start)
    size = len(span.labels)
    # One labelling of the span for each label that may follow it; a single one where nothing follows.
    after = np.flatnonzero(~continues[span.labels[-1]]) if span.follower else np.zeros(1, np.int64)
    labels = np.tile(np.append(span.labels, 0), (len(after), 1))
    labels[:, -1] = after
    product = np.ones(len(after))
    for offset in range(size + span.follower):
        k = span.first + offset
        own, factor = labels[:, offset], np.zeros(len(after))
        if known is not None and known[k] >= 0:
            product *= own == known[k]
            continue
        for c in range(dag.indptr[k], dag.indptr[k + 1]):
            inside = dag.parent[c] - span.first
            if dag.parent[c] >= 0 and 0 <= inside < size + span.follower:
                factor += alpha[c] * _conditional(wiring, scores, c, n_labels)[labels[:, inside], own]
            else:
                factor += alpha[c] * found.predicted[c, own]
        product *= factor
    return float(product.sum())


def _conditional(wiring: Wiring, scores: Scores, c: int, n_labels: int) -> Array:
    """(L, L), p_c(y | i) of one component."""
    table = scores.pair[wiring.dag.relation[c]].astype(np.float64) + scores.ends[wiring.child_slot[c]]
    if wiring.parent_slot[c] >= 0:
        table = table + scores.ends[wiring.parent_slot[c]]
    starts, rows, values = wiring.pair_rows
    if len(starts):
        here = slice(starts[c], starts[c + 1])
        table = table + (values[here] @ scores.rows[rows[here]].astype(np.float64)).reshape(n_labels, n_labels)
    table = np.exp(table - table.max(axis=1, keepdims=True))
    return np.asarray(table / table.sum(axis=1, keepdims=True))
