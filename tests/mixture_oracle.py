"""Brute force for the mixture-of-parents model, and Hypothesis strategies for small worlds of it.

Every probability is a sum over the listed labellings of all n nodes: no recursion over the graph, no shared code
with the library.

The components of a world stand in canonical order: node by node; within a node the start component if it has one,
then relation by relation the edges into the node, by parent. With X_k the features of node k,

    start component of k: p(y) = softmax_y(a[y] + X_k W_0[:, y])
    edge e = (k, j) of r: p(y | i) = softmax_y(T_r[i, y] + X_k W_r[:, y] + X_j P_r[:, y] + sum_g Z_e[g] U_r[g, i, y])
    p(y_k | parents of k) = sum_c alpha_c p_c(y_k | label of the parent of c), c over the components of k

and P(y) is the product of the last line over k. The X_j term is there only if the relation has parent features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from oracles import BoolArray, FloatArray, IntArray, enumerate_labellings, finite_difference_gradient, ridge
from oracles import flatten as flatten_arrays
from oracles import unflatten as unflatten_arrays
from strategies import SEEDS


@dataclass
class Relation:
    """One kind of edge."""

    edges: IntArray  # (E, 2): child, parent; sorted, no duplicates
    parent_features: bool
    edge_features: FloatArray  # (E, G), G >= 0


@dataclass
class World:
    """An acyclic graph over n nodes, in any order, with features, labels and what fixes the mixing weights."""

    X: FloatArray  # (n, F)
    n_labels: int
    relations: list[Relation]
    start: BoolArray  # (n,): has a start component; True for every node without a parent
    labels: IntArray  # (n,), -1 is unknown
    weights: FloatArray  # (n,), of the loss, >= 0
    gate_features: FloatArray  # (C, D), by component
    given: FloatArray | None  # (C,) mixing weights, which sum to 1 within a node; None asks the gate
    groups: IntArray  # (n,), ascending; no edge leaves its group


@dataclass
class Parameters:
    """One entry a relation in each list."""

    child: list[FloatArray]  # W_r (F, L)
    parent: list[FloatArray]  # P_r (F, L), or (0, L) for a relation without parent features
    pair: list[FloatArray]  # T_r (L, L): label of the parent, label of the child
    edge: list[FloatArray]  # U_r (G, L, L)
    start_child: FloatArray  # W_0 (F, L)
    start: FloatArray  # a (L,)
    gate: FloatArray  # gamma (D,)


# -------------------------------------------------------------------------------------------- the local parts


def components(world: World) -> list[tuple[int, int, int, int]]:
    """(node, relation, parent, row of the relation's edges) in canonical order; -1, -1, -1 for a start component."""
    found = []
    for k in range(len(world.X)):
        before = len(found)
        if world.start[k]:
            found.append((k, -1, -1, -1))
        for r, relation in enumerate(world.relations):
            found += [(k, r, int(j), e) for e, (child, j) in enumerate(relation.edges) if child == k]
        if len(found) == before:
            raise ValueError(f"node {k} has neither a parent nor a start component")
    return found


def _softmax(scores: FloatArray) -> FloatArray:
    """exp(scores) / sum exp(scores) along the last axis."""
    positive = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return positive / positive.sum(axis=-1, keepdims=True)


def mixing_weights(world: World, params: Parameters) -> FloatArray:
    """alpha (C,): the given ones, else within each node softmax(gate_features gamma)."""
    if world.given is not None:
        return world.given
    nodes = np.array([c[0] for c in components(world)], dtype=np.int64)
    scores = world.gate_features @ params.gate
    alpha = np.zeros(len(nodes))
    for k in range(len(world.X)):
        alpha[nodes == k] = _softmax(scores[nodes == k])
    return alpha


def conditionals(world: World, params: Parameters) -> list[FloatArray]:
    """By component p(y | i) as a table [i, y]: (L, L), or (1, L) for a start component."""
    tables = []
    for k, r, j, e in components(world):
        if r < 0:
            tables.append(_softmax(params.start + world.X[k] @ params.start_child)[np.newaxis])
            continue
        relation = world.relations[r]
        scores = params.pair[r] + world.X[k] @ params.child[r]
        if relation.parent_features:
            scores = scores + world.X[j] @ params.parent[r]
        elif params.parent[r].size > 0:
            raise ValueError(f"relation {r} has no parent features, but weights for them")
        for g, value in enumerate(relation.edge_features[e]):
            scores = scores + value * params.edge[r][g]
        tables.append(_softmax(scores))
    return tables


def _node_probabilities(world: World, params: Parameters, labellings: IntArray) -> FloatArray:
    """(N, n): p(y_k | labels of the parents of k) for each row of ``labellings`` (N, n)."""
    probabilities = np.zeros(labellings.shape)
    parts = zip(components(world), mixing_weights(world, params), conditionals(world, params), strict=True)
    for (k, _, j, _), alpha, table in parts:
        row = labellings[:, j] if j >= 0 else 0
        probabilities[:, k] += alpha * table[row, labellings[:, k]]
    return probabilities


# ------------------------------------------------------------------------------------------------ enumeration


def joint(world: World, params: Parameters) -> tuple[IntArray, FloatArray]:
    """All labellings (N, n), in lexicographic order, and P(y) of each (N,)."""
    labellings = enumerate_labellings(len(world.X), world.n_labels)
    return labellings, _node_probabilities(world, params, labellings).prod(axis=1)


def probability_of(world: World, params: Parameters, allowed: BoolArray, known: IntArray | None = None) -> float:
    """P(allowed[k, y_k] for every k), ``allowed`` (n, L); nodes with a label in ``known`` (-1: none) have just that."""
    known = np.full(len(world.X), -1) if known is None else known
    labellings = enumerate_labellings(len(world.X), world.n_labels)
    labellings = labellings[((labellings == known) | (known < 0)).all(axis=1)]
    probabilities = _node_probabilities(world, params, labellings)[:, known < 0].prod(axis=1)
    inside = allowed[np.arange(len(world.X)), labellings].all(axis=1)
    return float(probabilities[inside].sum())


def marginals(world: World, params: Parameters) -> FloatArray:
    """(n, L): P(y_k = y)."""
    labellings, probabilities = joint(world, params)
    result = np.zeros((len(world.X), world.n_labels))
    for k in range(len(world.X)):
        for y in range(world.n_labels):
            result[k, y] = probabilities[labellings[:, k] == y].sum()
    return result


def predictive(world: World, params: Parameters) -> FloatArray:
    """(C, L): what each component predicts for its node, sum_i P(y_parent = i) p(y | i)."""
    node = marginals(world, params)
    result = np.zeros((len(components(world)), world.n_labels))
    for c, ((_, _, j, _), table) in enumerate(zip(components(world), conditionals(world, params), strict=True)):
        result[c] = node[j] @ table if j >= 0 else table[0]
    return result


# ------------------------------------------------------------------------------------------------- objectives


def marginal_log_likelihood(world: World, params: Parameters) -> float:
    """L_M = sum of weights_k log P(y_k = labels_k) over the labelled k."""
    node = marginals(world, params)
    counted = [k for k, y in enumerate(world.labels) if y >= 0 and world.weights[k] > 0]
    return float(sum(world.weights[k] * np.log(node[k, world.labels[k]]) for k in counted))


def conditional_log_likelihood(world: World, params: Parameters) -> float:
    """L_C = sum_k weights_k log p(labels_k | labels of the parents of k); every label must be known."""
    if (world.labels < 0).any():
        raise ValueError("an unknown label")
    node = _node_probabilities(world, params, world.labels[np.newaxis])[0]
    return float(sum(w * np.log(p) for w, p in zip(world.weights, node, strict=True) if w > 0))


def separate_log_likelihood(world: World, params: Parameters, relation: int) -> float:
    """Sum of weights_k log p(labels_k | labels_j) over the relation's edges (k, j) with both labels known.

    Relation -1: the sum of weights_k log p(labels_k) over the start components with a known label.
    """
    total = 0.0
    for (k, r, j, _), table in zip(components(world), conditionals(world, params), strict=True):
        if r != relation or world.labels[k] < 0 or (j >= 0 and world.labels[j] < 0):
            continue
        row = world.labels[j] if j >= 0 else 0
        total += float(world.weights[k] * np.log(table[row, world.labels[k]]))
    return total


def objective(world: World, params: Parameters, which: str, l2: float = 0.0, gate_l2: float = 0.0) -> float:
    """-L + l2 / 2 |all weights but the gate's|^2 + gate_l2 / 2 |gamma|^2.

    L is L_M ("marginal"), L_C ("conditional"), or the sum of all separate ones, start included ("separate").
    """
    if which == "marginal":
        value = marginal_log_likelihood(world, params)
    elif which == "conditional":
        value = conditional_log_likelihood(world, params)
    elif which == "separate":
        value = sum(separate_log_likelihood(world, params, r) for r in range(-1, len(world.relations)))
    else:
        raise ValueError(f"no objective {which!r}")
    flat = flatten(params)
    return -value + ridge(flat[: len(flat) - len(params.gate)], l2) + ridge(params.gate, gate_l2)


def objective_gradient(
    world: World, params: Parameters, which: str, l2: float = 0.0, gate_l2: float = 0.0
) -> FloatArray:
    """The gradient of ``objective`` in the flat parameters, by finite differences."""
    return finite_difference_gradient(
        lambda flat: objective(world, unflatten(flat, world), which, l2, gate_l2), flatten(params)
    )


def flatten(params: Parameters) -> FloatArray:
    """One vector: by relation child, parent, pair, edge; then start_child, start, gate."""
    by_relation = zip(params.child, params.parent, params.pair, params.edge, strict=True)
    arrays = [array for relation in by_relation for array in relation]
    return flatten_arrays(*arrays, params.start_child, params.start, params.gate)


def unflatten(flat: FloatArray, world: World) -> Parameters:
    """The inverse of ``flatten`` for the parameters of this world."""
    F, L = world.X.shape[1], world.n_labels
    shapes: list[tuple[int, ...]] = []
    for relation in world.relations:
        G = relation.edge_features.shape[1]
        shapes += [(F, L), (F if relation.parent_features else 0, L), (L, L), (G, L, L)]
    arrays = unflatten_arrays(flat, *shapes, (F, L), (L,), (world.gate_features.shape[1],))
    of = arrays[:-3]
    return Parameters(of[0::4], of[1::4], of[2::4], of[3::4], *arrays[-3:])


# ------------------------------------------------------------------------------------------------- strategies


def _sizes(low: int, high: int) -> st.SearchStrategy[int]:
    """low .. high, the larger the more often: the smallest worlds have little to say."""
    return st.sampled_from([size for size in range(low, high + 1) for _ in range(size + 1)])


def _shares(rng: np.random.Generator, nodes: IntArray) -> FloatArray:
    """Numbers >= 0, some of them 0, that sum to 1 over the equal entries of ``nodes``."""
    raw = rng.random(len(nodes)) * (rng.random(len(nodes)) < 0.8)
    first = np.unique(nodes, return_index=True)[1]
    raw[first] += 0.1
    return np.array([raw[c] / raw[nodes == k].sum() for c, k in enumerate(nodes)])


def few_digits(values: FloatArray, parts: int) -> FloatArray:
    """Rounded to such parts of one that scores, sums of a few products, are the same in the float32 of models."""
    return np.asarray(np.round(values * parts) / parts)


@st.composite
def worlds(
    draw: st.DrawFn,
    max_nodes: int = 7,
    max_labels: int = 3,
    max_relations: int = 3,
    unknown: bool = False,
    with_gate: bool = False,
    with_edge_features: bool = False,
    min_nodes: int = 0,
    min_relations: int = 0,
) -> tuple[World, Parameters]:
    """A world and parameters for it. Edges follow a hidden order of the nodes, from none to all that it permits.

    Labels are all known, unless ``unknown``: then sometimes partly or all unknown. ``with_gate`` draws one or two
    gate features; without it there are none, and mixing weights are uniform or given (some 0). Edge features are
    zero to two a relation, drawn only when asked for. Numbers of groups may skip values.
    """
    n = draw(_sizes(min_nodes, max_nodes))
    L = draw(_sizes(1, max_labels))
    F = draw(st.integers(1, 3))
    n_groups = draw(st.integers(1, 3))
    R = draw(_sizes(min_relations, max_relations))
    densities = [draw(st.sampled_from([0.3, 0.0, 0.7, 1.0])) for _ in range(R)]
    pair_widths = [draw(st.integers(0, 2)) if with_edge_features else 0 for _ in densities]
    parent_features = [draw(st.booleans()) for _ in densities]
    D = draw(st.integers(1, 2)) if with_gate else 0
    is_given = not with_gate and draw(st.booleans())
    start_rate = draw(st.sampled_from([0.0, 0.5, 1.0]))
    unknown_rate = draw(st.sampled_from([0.4, 0.0, 1.0])) if unknown else 0.0
    binary = draw(st.booleans())
    rng = np.random.default_rng(draw(SEEDS))

    def features(rows: int, width: int) -> FloatArray:
        values = np.ones((rows, width)) if binary else rng.standard_normal((rows, width))
        return few_digits(values, 16) * (rng.random((rows, width)) < 0.6)

    groups = np.sort(rng.integers(n_groups, size=n))
    rank = rng.permutation(n)
    may_link = (rank[:, None] > rank) & (groups[:, None] == groups)  # [child, parent]
    start = rng.random(n) < start_rate
    has_parent = np.zeros(n, dtype=bool)
    relations = []
    for density, G, own in zip(densities, pair_widths, parent_features, strict=True):
        edges = np.argwhere(may_link & (rng.random((n, n)) < density))
        has_parent[edges[:, 0]] = True
        relations.append(Relation(edges, own, features(len(edges), G)))
    labels = rng.integers(L, size=n)
    labels[rng.random(n) < unknown_rate] = -1
    weights = rng.choice([0.0, 1.0, 1.0, 0.3, 2.5], size=n)
    world = World(features(n, F), L, relations, start | ~has_parent, labels, weights, np.zeros((0, D)), None, groups)
    nodes = np.array([c[0] for c in components(world)], dtype=np.int64)
    world.gate_features = features(len(nodes), D)
    world.given = _shares(rng, nodes) if is_given else None

    size = sum(L * (F + F * own + L + G * L) for own, G in zip(parent_features, pair_widths, strict=True))
    return world, unflatten(few_digits(1.5 * rng.standard_normal(size + F * L + L + D), 256), world)
