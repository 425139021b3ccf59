"""Brute force for a pairwise conditional random field over typed relations, and Hypothesis strategies for small ones.

Every answer lists the labellings y of all n nodes and adds up or compares their scores,

    score(y) = sum_i node[i, y_i] + sum_e table_e[y_a, y_b],   table_e = pair[relation_e] + edge_scores_e,

e = (a, b): no messages, no shared code with the library. P(y) is proportional to exp(score(y)). An entry of -inf
forbids; nothing may be nan or +inf. Where labellings tie, the first in lexicographic order is the best one. A question
without an answer (anything about P when no labelling is possible) raises ValueError.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from oracles import BoolArray, FloatArray, IntArray, Labelling, enumerate_labellings, known_labels_mask, log_sum_exp
from strategies import SEEDS


@dataclass
class PairwiseWorld:
    """A graph over n nodes with L labels and R relations, its scores and its labels."""

    node: FloatArray  # (n, L)
    edges: IntArray  # (E, 2): a, b; within a relation no two edges join the same nodes
    relation: IntArray  # (E,), in 0 .. R - 1
    pair: FloatArray  # (R, L, L): label of a, label of b
    edge_scores: FloatArray | None  # (E, L, L), added to those of the relation
    groups: IntArray  # (n,), ascending; no edge leaves its group
    labels: IntArray  # (n,), -1 is unknown

    def __post_init__(self) -> None:
        (n, L), E, R = self.node.shape, len(self.edges), len(self.pair)
        shapes = [self.edges.shape, self.relation.shape, self.pair.shape, self.groups.shape, self.labels.shape]
        if shapes != [(E, 2), (E,), (R, L, L), (n,), (n,)]:
            raise ValueError(f"shapes {shapes} do not fit {n} nodes, {L} labels")
        if self.edge_scores is not None and self.edge_scores.shape != (E, L, L):
            raise ValueError(f"edge_scores has shape {self.edge_scores.shape}, expected {(E, L, L)}")
        within = (self.edges >= 0) & (self.edges < n)
        if not within.all() or (self.relation < 0).any() or (self.relation >= R).any():
            raise ValueError("an edge without its nodes or its relation")
        joined = {(int(r), *sorted(edge)) for r, edge in zip(self.relation, self.edges.tolist(), strict=True)}
        if len(joined) < E or (self.edges[:, 0] == self.edges[:, 1]).any():
            raise ValueError("a repeated edge or a loop")
        if (np.diff(self.groups) < 0).any() or (np.diff(self.groups[self.edges]) != 0).any():
            raise ValueError("groups descend, or an edge leaves its group")


def tables(world: PairwiseWorld) -> FloatArray:
    """(E, L, L): the score of (y_a, y_b), by edge."""
    shared = world.pair[world.relation]
    return shared if world.edge_scores is None else shared + world.edge_scores


# ------------------------------------------------------------------------------------------------ enumeration


def scores(world: PairwiseWorld, labellings: IntArray) -> FloatArray:
    """score(y) of each row of ``labellings`` (N, n)."""
    result = np.zeros(len(labellings))
    for i, row in enumerate(world.node):
        result += row[labellings[:, i]]
    for (a, b), table in zip(world.edges, tables(world), strict=True):
        result += table[labellings[:, a], labellings[:, b]]
    return result


def _listed(world: PairwiseWorld, labels: IntArray | None = None) -> tuple[IntArray, FloatArray]:
    """The labellings that agree with the known ``labels`` (None: all of them) and their scores."""
    n, L = world.node.shape
    labellings = enumerate_labellings(n, L, None if labels is None else known_labels_mask(labels, L))
    return labellings, scores(world, labellings)


def log_partition(world: PairwiseWorld, labels: IntArray | None = None) -> float:
    """log Z = log sum_y exp(score(y)), over the labellings that agree with ``labels`` if given; -inf for none."""
    return log_sum_exp(_listed(world, labels)[1])


def _marginals(world: PairwiseWorld, labels: IntArray | None = None) -> tuple[FloatArray, FloatArray]:
    """P(y_i = x | labels) (n, L) and P(y_a = x, y_b = z | labels) (E, L, L)."""
    labellings, values = _listed(world, labels)
    total = log_sum_exp(values)
    if total == -np.inf:
        raise ValueError("no possible labelling")
    node, edge = np.zeros(world.node.shape), np.zeros((len(world.edges), *world.pair.shape[1:]))
    for y, p in zip(labellings, np.exp(values - total), strict=True):
        node[np.arange(len(y)), y] += p
        edge[np.arange(len(edge)), y[world.edges[:, 0]], y[world.edges[:, 1]]] += p
    return node, edge


def node_marginals(world: PairwiseWorld) -> FloatArray:
    """(n, L): P(y_i = x)."""
    return _marginals(world)[0]


def edge_marginals(world: PairwiseWorld) -> FloatArray:
    """(E, L, L): P(y_a = x, y_b = z)."""
    return _marginals(world)[1]


def best(world: PairwiseWorld) -> tuple[Labelling, float]:
    """argmax_y score(y), and its score."""
    labellings, values = _listed(world)
    top = int(values.argmax())
    if values[top] == -np.inf:
        raise ValueError("no possible labelling")
    return tuple(labellings[top].tolist()), float(values[top])


def max_marginals(world: PairwiseWorld) -> FloatArray:
    """(n, L): max of score(y) over the y with y_i = x; -inf when none is possible."""
    labellings, values = _listed(world)
    result = np.full(world.node.shape, -np.inf)
    for y, value in zip(labellings, values, strict=True):
        own = np.arange(len(y)), y
        result[own] = np.maximum(result[own], value)
    return result


# ------------------------------------------------------------------------------------------------- objectives


def log_probability(world: PairwiseWorld, labels: IntArray) -> float:
    """log P(y agrees with ``labels`` wherever they are known), so log P(labels) when they all are."""
    total = log_partition(world)
    if total == -np.inf:
        raise ValueError("no possible labelling")
    return log_partition(world, labels) - total


def loss(world: PairwiseWorld) -> float:
    """log Z - log sum of exp(score(y)) over the y that agree with the known labels; 0 when none is known."""
    return -log_probability(world, world.labels)


def loss_gradient(world: PairwiseWorld) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The gradient of ``loss`` by node (n, L), pair (R, L, L) and edge scores (E, L, L, even if there are none)."""
    free, agreeing = _marginals(world), _marginals(world, world.labels)
    edge = free[1] - agreeing[1]
    pair = np.zeros(world.pair.shape)
    for r, gradient in zip(world.relation, edge, strict=True):
        pair[r] += gradient
    return free[0] - agreeing[0], pair, edge


def _all_known(world: PairwiseWorld) -> IntArray:
    if (world.labels < 0).any():
        raise ValueError("an unknown label")
    return world.labels


def pseudo_log_likelihood(world: PairwiseWorld) -> float:
    """sum_i log P(y_i = labels_i | all other labels); ValueError where the other labels leave y_i no possibility."""
    labels, total = _all_known(world), 0.0
    for i in range(len(labels)):
        others = labels.copy()
        others[i] = -1
        free = log_partition(world, others)
        if free == -np.inf:
            raise ValueError(f"no possible label for node {i}")
        total += log_partition(world, labels) - free
    return total


def piecewise_log_likelihood(world: PairwiseWorld) -> float:
    """sum_i log softmax(node_i)[y_i] + sum_e log softmax(table_e)[y_a, y_b], each factor normalised on its own."""
    labels = _all_known(world)
    total = sum(row[y] - log_sum_exp(row) for row, y in zip(world.node, labels, strict=True))
    for (a, b), table in zip(world.edges, tables(world), strict=True):
        total += table[labels[a], labels[b]] - log_sum_exp(table)
    return float(total)


# --------------------------------------------------------------------------------------------- message passing


def _energy_and_entropy(belief: FloatArray, score: FloatArray) -> float:
    """E_b[score] + H(b), with 0 log 0 = 0 and 0 * -inf = 0."""
    p = belief[belief > 0]
    return float((p * (score[belief > 0] - np.log(p))).sum())


def bethe_log_partition(world: PairwiseWorld, node_beliefs: FloatArray, edge_beliefs: FloatArray) -> float:
    """sum_e (E[table_e + node_a + node_b] + H(b_e)) - sum_i (deg_i - 1) (E[node_i] + H(b_i))."""
    total = 0.0
    for (a, b), table, belief in zip(world.edges, tables(world), edge_beliefs, strict=True):
        total += _energy_and_entropy(belief, table + world.node[a][:, np.newaxis] + world.node[b])
    for i, belief in enumerate(node_beliefs):
        degree = int((world.edges == i).sum())
        if degree != 1:
            total -= (degree - 1) * _energy_and_entropy(belief, world.node[i])
    return total


def is_tree(world: PairwiseWorld) -> bool:
    """Has no cycle (so a forest will do); two edges between the same nodes are one."""
    component = list(range(len(world.node)))
    for a, b in world.edges.tolist():
        if component[a] == component[b]:
            return False
        component = [component[a] if c == component[b] else c for c in component]
    return True


def message_update(world: PairwiseWorld, messages: FloatArray) -> FloatArray:
    """One parallel sum-product step on messages (2E, L): row e goes a -> b, row E + e goes b -> a; rows sum to 1.

    m_{a->b}(y) ∝ sum_x exp(node_a[x] + table_e[x, y]) prod m_{f->a}(x), over the other edges f at a (those
    parallel to e included).
    """
    E = len(world.edges)
    if messages.shape != (2 * E, world.node.shape[1]):
        raise ValueError(f"messages have shape {messages.shape} for {E} edges")
    source, target = np.vstack([world.edges, world.edges[:, ::-1]]).T
    by_message = [*tables(world), *(table.T for table in tables(world))]
    with np.errstate(divide="ignore"):
        logs = np.log(messages)
    updated = np.zeros(messages.shape)
    for d, table in enumerate(by_message):
        own = world.node[source[d]].copy()
        for f in range(2 * E):
            if target[f] == source[d] and f % E != d % E:
                own += logs[f]
        out = np.array([log_sum_exp(own + column) for column in table.T])
        if out.max() == -np.inf:
            raise ValueError(f"message {d} has no possible label")
        updated[d] = np.exp(out - log_sum_exp(out))
    return updated


def check_fixed_point(world: PairwiseWorld, messages: FloatArray, tolerance: float = np.inf) -> float:
    """The largest |messages - message_update(messages)|, 0 without edges; AssertionError when over ``tolerance``."""
    difference = float(np.abs(messages - message_update(world, messages)).max(initial=0.0))
    if not difference <= tolerance:
        raise AssertionError(f"messages are {difference} away from their update")
    return difference


# ------------------------------------------------------------------------------------------------- strategies


def _sizes(low: int, high: int) -> st.SearchStrategy[int]:
    """low .. high, the larger the more often."""
    return st.sampled_from([size for size in range(low, high + 1) for _ in range(size + 1)])


def _draw_forest(rng: np.random.Generator, may_link: BoolArray, density: float, R: int) -> list[list[int]]:
    """(relation, a, b): in a hidden order of the nodes, each but the first of its tree joins an earlier one."""
    order, found = rng.permutation(len(may_link)), []
    for k, node in enumerate(order):
        earlier = [other for other in order[:k] if may_link[node, other]]
        if earlier and rng.random() < density:
            found.append([int(rng.integers(R)), int(node), int(rng.choice(earlier))])
    return found


@st.composite
def pairwise_worlds(
    draw: st.DrawFn,
    max_nodes: int = 6,
    max_labels: int = 3,
    max_relations: int = 2,
    tree: bool = False,
    unknown: bool = False,
    edge_scores: bool = False,
    forbidden: bool = False,
    scale: float = 1.0,
) -> PairwiseWorld:
    """A world of n >= 0 nodes with at least one relation, from no edges to all; ``tree`` draws forests.

    Edges stand in any order and direction. Labels are all known, unless ``unknown``: then sometimes partly or all
    unknown. ``forbidden`` puts some -inf into ``node``; pair and edge scores are finite, and known labels stay
    possible. ``edge_scores`` is None unless asked for. Numbers of groups may skip values.
    """
    n = draw(_sizes(0, max_nodes))
    L = draw(_sizes(1, max_labels))
    R = draw(st.integers(1, max_relations))
    n_groups = draw(st.sampled_from([1, 1, 2, 3]))
    density = draw(st.sampled_from([0.8, 0.8, 1.0, 1.0, 0.0] if tree else [0.4, 0.7, 0.7, 1.0, 0.0]))
    unknown_rate = draw(st.sampled_from([0.4, 0.0, 1.0])) if unknown else 0.0
    forbidden_rate = draw(st.sampled_from([0.3, 0.0, 0.7])) if forbidden else 0.0
    rng = np.random.default_rng(draw(SEEDS))

    groups = np.sort(rng.integers(n_groups, size=n))
    may_link = groups[:, np.newaxis] == groups
    if tree:
        found = _draw_forest(rng, may_link, density, R)
    else:
        found = np.argwhere(np.triu(may_link, 1) & (rng.random((R, n, n)) < density)).tolist()
    joined = rng.permutation(np.array(found, dtype=np.int64).reshape(-1, 3))
    turned = rng.random(len(joined)) < 0.5
    joined[turned] = joined[turned][:, [0, 2, 1]]

    labels = rng.integers(L, size=n)
    node = scale * rng.standard_normal((n, L))
    off = rng.random((n, L)) < forbidden_rate
    off[np.arange(n), labels] = False
    node[off] = -np.inf
    labels[rng.random(n) < unknown_rate] = -1
    pair = scale * rng.standard_normal((R, L, L))
    extra = scale * rng.standard_normal((len(joined), L, L)) if edge_scores else None
    edges, relation = joined[:, 1:].copy(), joined[:, 0].copy()  # as models hand them over: the same kernels serve
    return PairwiseWorld(node, edges, relation, pair, extra, groups, labels)
