"""A mixture of parents in one order, given labels that are known anywhere in it; and orders weighed by these labels.

A known label speaks for whoever looks at it. It also speaks of those it looks at, and to whom else they are parents:

    P(y, e) = Π_k Σ_c α_c p_c(y_k | y_j)         e the known labels, y the others

Instances without a known descendant sum to 1 and fall out. What is left, unknown ancestors of known labels with no
known one between, comes in blocks: two of them are in one where they look at each other, or one known instance looks at
both. A block with few labellings is summed over all of them, so that its share of P(e) and its marginals given e are
exact; whoever comes after it is a forward sweep, as ever. A block with too many keeps its forward marginals, and the
known labels that look at it are predicted from these one by one (filtering): an approximation.

Over several orders o of the same instances, each as likely as another before anything is known,

    p(y_k | e) = Σ_o w_o p_o(y_k | e),      w_o = P_o(e) / Σ_o' P_o'(e)

for each connected component apart: how another one is ordered says nothing of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from kinfolk.core.kernels import njit
from kinfolk.inference.dag import Dag
from kinfolk.inference.mixture import Scores, Wiring

Array = NDArray[Any]
LABELLINGS = 1 << 16  # that a block is summed over
LEAST = 1e-300  # a probability below it counts as this


class Conditioned(NamedTuple):
    """One order given known labels.

    marginals  (n, L)
    evidence   (n,), logarithms whose sum is log P(e); those of a connected component sum to its own
    exact      whether every block was summed over
    """

    marginals: Array
    evidence: Array
    exact: bool


def conditioned(
    wiring: Wiring, scores: Scores, alpha: Array, labels: NDArray[np.int32], labellings: int = LABELLINGS
) -> Conditioned:
    """`labels` (n,) are those that are known, -1 for the others; `labellings`: how many a block may have."""
    dag, tables = wiring.dag, conditional_tables(wiring, scores)
    n, n_labels = dag.n_instances, tables.shape[1]
    marginals, evidence = np.zeros((n, n_labels)), np.zeros(n)
    known = np.flatnonzero(labels >= 0)
    marginals[known, labels[known]] = 1.0
    settled, exact = labels >= 0, True
    largest = int(np.log(labellings) / np.log(max(n_labels, 2)) + 1e-9)
    by_itself = settled.copy()  # known instances that are predicted one by one
    for block, looking in _blocks(dag, labels):
        if len(block) > largest:
            exact = False
            continue
        found, log_sum = _summed(dag, tables, alpha, labels, block, looking)
        marginals[block], evidence[block[0]] = found, log_sum
        settled[block], by_itself[looking] = True, False
    predicted = np.zeros_like(marginals)
    _forward(dag.order, dag.indptr, dag.parent, tables, alpha, settled, marginals, predicted)
    alone = np.flatnonzero(by_itself)
    evidence[alone] = np.log(np.maximum(predicted[alone, labels[alone]], LEAST))
    return Conditioned(marginals, evidence, exact)


def conditional_tables(wiring: Wiring, scores: Scores) -> NDArray[np.float64]:
    """(C, L, L), p_c(y | i) of every component; of a start component the same for every i."""
    dag, n_labels = wiring.dag, len(scores.start)
    ends = np.asarray(scores.ends, np.float64)
    table = np.repeat(ends[wiring.child_slot][:, None, :], n_labels, axis=1)
    start = dag.parent < 0
    table[start] += scores.start
    table[~start] += np.asarray(scores.pair, np.float64)[dag.relation[~start]]
    seen = wiring.parent_slot >= 0
    table[seen] += ends[wiring.parent_slot[seen]][:, None, :]
    indptr, indices, values = wiring.pair_rows
    if len(indptr):
        data = values if len(values) else np.ones(len(indices))
        rows = sparse.csr_array((data, indices, indptr), shape=(len(table), len(scores.rows)))
        table += (rows @ np.asarray(scores.rows, np.float64)).reshape(table.shape)
    return np.asarray(special.softmax(table, axis=2))


def _blocks(dag: Dag, labels: NDArray[np.int32]) -> list[tuple[Array, Array]]:
    """Unknown ancestors of known labels, block by block in rising order, each with the known ones that look at it."""
    child, unknown = dag.child, labels < 0
    edges = np.flatnonzero((dag.parent >= 0) & unknown[dag.parent])
    speaks = ~unknown  # those whose label depends on what is known below
    for k in dag.order[::-1]:
        if speaks[k]:
            parents = dag.parent[dag.indptr[k] : dag.indptr[k + 1]]
            speaks[parents[parents >= 0]] = True
    edges = edges[speaks[child[edges]]]
    n = dag.n_instances
    looks = sparse.csr_array((np.ones(len(edges)), (child[edges], dag.parent[edges])), shape=(n, n))
    _, number = sparse.csgraph.connected_components(looks, directed=False)
    # A known instance that looks at nobody unknown is alone in its component, and in no block.
    inside, looking = np.flatnonzero(speaks & unknown), np.unique(child[edges][~unknown[child[edges]]])
    return [
        (inside[number[inside] == one], looking[number[looking] == one]) for one in np.unique(number[inside]).tolist()
    ]


def _summed(
    dag: Dag, tables: Array, alpha: Array, labels: NDArray[np.int32], block: Array, looking: Array
) -> tuple[Array, float]:
    """(m, L) marginals of a block given what is known, and the logarithm of the sum over its labellings."""
    n_labels, m = tables.shape[1], len(block)
    axis = {int(k): place for place, k in enumerate(block.tolist())}
    joint = np.zeros((n_labels,) * m)

    def along(values: Array, *instances: int) -> Array:
        """A table over labels of instances of the block, as broadcast over all of it."""
        axes = [axis[k] for k in instances]
        shape = [n_labels if place in axes else 1 for place in range(m)]
        return np.transpose(values, np.argsort(axes)).reshape(shape)

    for k in [*block.tolist(), *looking.tolist()]:
        factor: Array = np.zeros((1,) * m)
        for c in range(dag.indptr[k], dag.indptr[k + 1]):
            j = int(dag.parent[c])
            free = j >= 0 and labels[j] < 0
            table = alpha[c] * (tables[c] if free else tables[c, max(labels[j], 0) if j >= 0 else 0])
            if labels[k] >= 0:
                table = table[..., labels[k]]
            among = ((j,) if free else ()) + ((k,) if labels[k] < 0 else ())
            factor = factor + along(np.asarray(table), *among)
        joint = joint + np.log(np.maximum(factor, LEAST))
    log_sum = float(special.logsumexp(joint))
    weight = np.exp(joint - log_sum)
    marginals = [weight.sum(axis=tuple(a for a in range(m) if a != place)) for place in range(m)]
    return np.array(marginals), log_sum


@njit(nogil=True, cache=True)
def _forward(order, indptr, parent, tables, alpha, settled, marginals, predicted):
    """Marginals of those not settled, parents first; `predicted`: of all, whatever is known of themselves."""
    n_labels = marginals.shape[1]
    for place in range(len(order)):
        k = order[place]
        for c in range(indptr[k], indptr[k + 1]):
            j = parent[c]
            for i in range(n_labels):
                belief = marginals[j, i] if j >= 0 else 1.0 / n_labels
                for y in range(n_labels):
                    predicted[k, y] += alpha[c] * belief * tables[c, i, y]
        if not settled[k]:
            for y in range(n_labels):
                marginals[k, y] = predicted[k, y]


# -- orders -----------------------------------------------------------------------------------------------


class WeighedOrders(NamedTuple):
    """marginals (n, L); the effective number of orders of each instance, 1 / Σ_o w_o², (n,); whether all is exact."""

    marginals: Array
    effective: Array
    exact: bool


def weighed(orders: list[Conditioned], component: NDArray[np.integer]) -> WeighedOrders:
    """The mean over orders, each with the probability it gives the known labels of an instance's component (n,)."""
    n_components = int(component.max(initial=-1)) + 1
    logs = np.array([np.bincount(component, one.evidence, n_components) for one in orders]).reshape(len(orders), -1)
    weights = special.softmax(logs, axis=0)[:, component]
    marginals = sum(weight[:, None] * one.marginals for weight, one in zip(weights, orders, strict=True))
    effective = 1.0 / np.square(weights).sum(axis=0)
    return WeighedOrders(np.asarray(marginals), effective, all(one.exact for one in orders))
