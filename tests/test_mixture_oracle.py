"""The brute force of the mixture of parents against numbers worked by hand, and against other routes."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose

import mixture_oracle as m
from oracles import FloatArray, memm_loss, memm_marginals

Drawn = tuple[m.World, m.Parameters]
quick = settings(max_examples=50, deadline=None, database=None)
any_world = m.worlds(max_nodes=6, unknown=True, with_edge_features=True)
gated_world = m.worlds(max_nodes=6, with_gate=True, with_edge_features=True)

# Node 0 is the child of node 1 and has a start component too: p(y_1) = p_start = [1, 3] / 4, and
# p(y_0 | y_1 = 0) = [1, 1] / 2, p(y_0 | y_1 = 1) = [4, 1] / 5. The edge weighs three times the start component.
HAND = m.World(
    X=np.zeros((2, 1)),
    n_labels=2,
    relations=[m.Relation(np.array([[0, 1]]), False, np.zeros((1, 0)))],
    start=np.array([True, True]),
    labels=np.array([0, 1]),
    weights=np.array([1.0, 2.0]),
    gate_features=np.array([[0.0], [1.0], [5.0]]),
    given=None,
    groups=np.array([0, 0]),
)
HAND_PARAMETERS = m.Parameters(
    child=[np.zeros((1, 2))],
    parent=[np.zeros((0, 2))],
    pair=[np.log([[1.0, 1.0], [4.0, 1.0]])],
    edge=[np.zeros((0, 2, 2))],
    start_child=np.zeros((1, 2)),
    start=np.log([1.0, 3.0]),
    gate=np.log([3.0]),
)


def by_recursion(world: m.World, params: m.Parameters) -> FloatArray:
    """Section 2.3: p(y_k) = sum_c alpha_c sum_i p(y_k | i) p(y_parent = i), n times over from anything."""
    p = np.full((len(world.X), world.n_labels), 1 / world.n_labels)
    for _ in range(len(p)):
        old, p = p, np.zeros_like(p)
        parts = zip(m.components(world), m.mixing_weights(world, params), m.conditionals(world, params), strict=True)
        for (k, _, j, _), alpha, table in parts:
            p[k] += alpha * (old[j] @ table if j >= 0 else table[0])
    return p


def test_two_nodes_by_hand() -> None:
    assert m.components(HAND) == [(0, -1, -1, -1), (0, 0, 1, 0), (1, -1, -1, -1)]
    assert_allclose(m.mixing_weights(HAND, HAND_PARAMETERS), [1 / 4, 3 / 4, 1])
    # p(y_0 = 0 | y_1 = 0) = 1/16 + 3/8 = 7/16, p(y_0 = 0 | y_1 = 1) = 1/16 + 3/5 = 53/80
    labellings, probabilities = m.joint(HAND, HAND_PARAMETERS)
    assert labellings.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert_allclose(probabilities, [7 / 64, 159 / 320, 9 / 64, 81 / 320])
    assert_allclose(m.marginals(HAND, HAND_PARAMETERS), [[97 / 160, 63 / 160], [1 / 4, 3 / 4]])
    assert_allclose(m.predictive(HAND, HAND_PARAMETERS), [[1 / 4, 3 / 4], [29 / 40, 11 / 40], [1 / 4, 3 / 4]])
    node_0_is_0 = m.probability_of(HAND, HAND_PARAMETERS, np.array([[True, False], [True, True]]))
    assert node_0_is_0 == pytest.approx(97 / 160)
    assert m.marginal_log_likelihood(HAND, HAND_PARAMETERS) == pytest.approx(log(97 / 160) + 2 * log(3 / 4))
    assert m.conditional_log_likelihood(HAND, HAND_PARAMETERS) == pytest.approx(log(53 / 80) + 2 * log(3 / 4))
    assert m.separate_log_likelihood(HAND, HAND_PARAMETERS, 0) == pytest.approx(log(4 / 5))
    assert m.separate_log_likelihood(HAND, HAND_PARAMETERS, -1) == pytest.approx(log(1 / 4) + 2 * log(3 / 4))
    penalty = 5 * (log(4) ** 2 + log(3) ** 2) + 3.5 * log(3) ** 2
    separate = log(4 / 5) + log(1 / 4) + 2 * log(3 / 4)
    assert m.objective(HAND, HAND_PARAMETERS, "separate", 10, 7) == pytest.approx(penalty - separate)
    uniform = replace(HAND, given=np.array([0.5, 0.5, 1.0]))
    assert_allclose(m.marginals(uniform, HAND_PARAMETERS)[0], [39 / 80, 41 / 80])
    unlabelled = replace(HAND, labels=np.array([0, -1]))
    assert m.marginal_log_likelihood(unlabelled, HAND_PARAMETERS) == pytest.approx(log(97 / 160))
    assert m.separate_log_likelihood(unlabelled, HAND_PARAMETERS, 0) == 0
    with pytest.raises(ValueError):
        m.conditional_log_likelihood(unlabelled, HAND_PARAMETERS)


@quick
@given(any_world)
def test_joint_is_a_distribution_and_marginals_follow_the_recursion(drawn: Drawn) -> None:
    world, params = drawn
    labellings, probabilities = m.joint(world, params)
    assert labellings.shape == (world.n_labels ** len(world.X), len(world.X))
    assert probabilities.sum() == pytest.approx(1)
    found = m.marginals(world, params)
    assert_allclose(found, by_recursion(world, params), atol=1e-12)
    mixed = np.zeros_like(found)
    shares = m.mixing_weights(world, params)[:, None] * m.predictive(world, params)
    np.add.at(mixed, [c[0] for c in m.components(world)], shares)
    assert_allclose(mixed, found, atol=1e-12)
    assert m.probability_of(world, params, np.ones(found.shape, dtype=bool)) == pytest.approx(1)
    for k in range(len(found)):
        only_0 = np.ones(found.shape, dtype=bool)
        only_0[k, 1:] = False
        assert m.probability_of(world, params, only_0) == pytest.approx(found[k, 0])


@quick
@given(m.worlds(max_nodes=6))
def test_groups_are_independent(drawn: Drawn) -> None:
    world, params = drawn
    first = world.groups == world.groups.min(initial=9)
    known = np.arange(world.n_labels) == world.labels[:, None]
    parts = [m.probability_of(world, params, known | ~rows[:, None]) for rows in (first, ~first)]
    assert m.probability_of(world, params, known) == pytest.approx(parts[0] * parts[1])
    plain = replace(world, weights=np.ones(len(world.X)))
    assert m.conditional_log_likelihood(plain, params) == pytest.approx(log(parts[0]) + log(parts[1]))


@quick
@given(gated_world)
def test_a_gate_of_zeros_is_uniform(drawn: Drawn) -> None:
    world, params = drawn
    nodes = [c[0] for c in m.components(world)]
    uniform = np.array([1 / nodes.count(k) for k in nodes])
    zero = replace(params, gate=np.zeros_like(params.gate))
    assert_allclose(m.mixing_weights(world, zero), uniform)
    assert_allclose(m.marginals(world, zero), m.marginals(replace(world, given=uniform), params))
    sums = np.bincount(nodes, m.mixing_weights(world, params), minlength=len(world.X))
    assert_allclose(sums, np.ones(len(world.X)))


@quick
@given(m.worlds(max_nodes=5, min_nodes=1, max_relations=1, min_relations=1, with_edge_features=True))
def test_a_chain_is_a_memm(drawn: Drawn) -> None:
    world, params = drawn
    n, G = len(world.X), world.relations[0].edge_features.shape[1]
    rng = np.random.default_rng(n)
    Z = rng.standard_normal((n, G))
    edges = np.column_stack([np.arange(1, n), np.arange(n - 1)])
    relation = m.Relation(edges, world.relations[0].parent_features, Z[1:])
    chain = replace(world, relations=[relation], start=np.arange(n) == 0, groups=np.zeros(n, dtype=np.int64))
    chain = replace(chain, gate_features=np.zeros((n, 0)), given=None, weights=np.ones(n))
    node = world.X @ params.child[0]
    node[0] = world.X[0] @ params.start_child
    if relation.parent_features:
        node[1:] += world.X[:-1] @ params.parent[0]
    pair = params.pair[0] + np.einsum("tg,gij->tij", Z, params.edge[0])
    assert_allclose(m.marginals(chain, params), memm_marginals(node, pair, params.start), atol=1e-12)
    if G == 0:  # the features of a token choose its row of scores
        sequence = {"X": np.eye(n), "labels": world.labels, "weight": 1.0, "Z": None}
        loss = memm_loss([sequence], node, params.pair[0], params.start)
        assert m.objective(chain, params, "conditional") == pytest.approx(loss)
        assert m.objective(chain, params, "separate") == pytest.approx(loss)


@settings(quick, max_examples=20)
@given(m.worlds(max_nodes=4, max_labels=2, max_relations=2, with_gate=True, with_edge_features=True))
def test_flat_parameters_and_their_penalty(drawn: Drawn) -> None:
    world, params = drawn
    flat = m.flatten(params)
    assert_allclose(m.flatten(m.unflatten(flat, world)), flat)
    silent = replace(world, weights=np.zeros(len(world.X)))
    scale = np.where(np.arange(len(flat)) < len(flat) - len(params.gate), 2.0, 3.0)
    for which in ("marginal", "conditional", "separate"):
        assert_allclose(m.objective_gradient(silent, params, which, 2, 3), scale * flat, atol=1e-6)
