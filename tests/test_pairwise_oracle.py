"""The brute force of the pairwise field against numbers worked by hand, and against other routes."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose

import oracles as o
import pairwise_oracle as p
from strategies import Chain, chains

quick = settings(max_examples=50, deadline=None, database=None)

# Factors: node 0 [1, 3], node 1 [2, 1], the edge [[1, 4], [2, 1]]. So 00: 2, 01: 4, 10: 12, 11: 3, total 21.
HAND = p.PairwiseWorld(
    node=np.log([[1.0, 3.0], [2.0, 1.0]]),
    edges=np.array([[0, 1]]),
    relation=np.array([0]),
    pair=np.log([[[1.0, 4.0], [2.0, 1.0]]]),
    edge_scores=None,
    groups=np.array([0, 0]),
    labels=np.array([1, 0]),
)
# A second relation, the other way round, multiplies 01 (y_a = 1, y_b = 0) by 5: total 37.
TWICE = replace(
    HAND,
    edges=np.array([[0, 1], [1, 0]]),
    relation=np.array([0, 1]),
    pair=np.concatenate([HAND.pair, np.zeros((1, 2, 2))]),
    edge_scores=np.log([[[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [5.0, 1.0]]]),
)


def as_world(chain: Chain) -> p.PairwiseWorld:
    """The chain with every other edge turned around; start and end go into the first and last node."""
    T, L = chain.node.shape
    node = chain.node.copy()
    if T > 0:
        node[0] += chain.start
        node[-1] += chain.end
    edges = [(t - 1, t) if t % 2 else (t, t - 1) for t in range(1, T)]
    own = [o.pair_at(chain.pair, t) if t % 2 else o.pair_at(chain.pair, t).T for t in range(1, T)]
    E = len(edges)
    return p.PairwiseWorld(
        node,
        np.array(edges, dtype=np.int64).reshape(E, 2),
        np.zeros(E, dtype=np.int64),
        np.zeros((1, L, L)),
        np.array(own).reshape(E, L, L),
        np.zeros(T, dtype=np.int64),
        np.full(T, -1),
    )


def test_two_nodes_by_hand() -> None:
    assert p.log_partition(HAND) == pytest.approx(log(21))
    assert_allclose(p.node_marginals(HAND), [[6 / 21, 15 / 21], [14 / 21, 7 / 21]])
    assert_allclose(p.edge_marginals(HAND)[0], np.array([[2, 4], [12, 3]]) / 21)
    assert p.best(HAND) == ((1, 0), pytest.approx(log(12)))
    assert_allclose(np.exp(p.max_marginals(HAND)), [[4, 12], [12, 4]])
    assert p.log_probability(HAND, np.array([0, 1])) == pytest.approx(log(4 / 21))
    assert p.loss(HAND) == pytest.approx(log(21 / 12))
    assert p.loss(replace(HAND, labels=np.array([-1, 0]))) == pytest.approx(log(21 / 14))
    assert p.loss(replace(HAND, labels=np.array([-1, -1]))) == 0
    assert p.pseudo_log_likelihood(HAND) == pytest.approx(log(12 / 14 * 12 / 15))
    assert p.piecewise_log_likelihood(HAND) == pytest.approx(log(3 / 4 * 2 / 3 * 2 / 8))
    assert p.is_tree(HAND)


def test_parallel_edges_by_hand() -> None:
    assert p.log_partition(TWICE) == pytest.approx(log(37))
    assert_allclose(p.edge_marginals(TWICE)[1], np.array([[2, 12], [20, 3]]) / 37)
    assert p.pseudo_log_likelihood(TWICE) == pytest.approx(log(12 / 14 * 12 / 15))
    assert p.piecewise_log_likelihood(TWICE) == pytest.approx(log(3 / 4 * 2 / 3 * 2 / 8 * 1 / 8))
    assert not p.is_tree(TWICE)
    # Uniform before: 0 -> 1 by the first edge is [1 + 6, 4 + 3], by the second (row 3, its b -> a) [1 + 3, 5 + 3].
    step = p.message_update(TWICE, np.full((4, 2), 0.5))
    assert_allclose(step, [[7 / 14, 7 / 14], [7 / 10, 3 / 10], [6 / 11, 5 / 11], [4 / 12, 8 / 12]])
    # The product over the first edge takes in the second: [1 * .7 + 6 * .3, 4 * .7 + 3 * .3] = [2.5, 3.7].
    assert_allclose(p.message_update(TWICE, step)[0], [2.5 / 6.2, 3.7 / 6.2])


@quick
@given(p.pairwise_worlds(forbidden=True))
def test_independent_nodes(world: p.PairwiseWorld) -> None:
    world = replace(world, edges=world.edges[:0], relation=world.relation[:0])
    Z = np.exp(world.node).sum(axis=1)
    assert_allclose(p.log_partition(world), np.log(Z).sum(), atol=1e-12)
    assert_allclose(p.node_marginals(world), np.exp(world.node) / Z[:, np.newaxis], atol=1e-12)
    assert_allclose(p.pseudo_log_likelihood(world), p.piecewise_log_likelihood(world), atol=1e-12)
    assert_allclose(p.loss(world), -p.pseudo_log_likelihood(world), atol=1e-12)
    assert p.is_tree(world)


@quick
@given(chains(min_tokens=0))
def test_a_chain(chain: Chain) -> None:
    world = as_world(chain)
    assert_allclose(p.log_partition(world), o.chain_log_partition(*chain), rtol=1e-12, atol=1e-12)
    assert_allclose(p.node_marginals(world), o.chain_node_marginals(*chain), atol=1e-9)
    pairs = [m if t % 2 else m.T for t, m in enumerate(o.chain_pair_marginals(*chain))][1:]
    assert_allclose(p.edge_marginals(world), np.reshape(pairs, p.tables(world).shape), atol=1e-9)
    labelling, score = p.best(world)
    assert_allclose(score, o.chain_best(*chain)[1], rtol=1e-12, atol=1e-12)
    assert_allclose(score, o.chain_score(*chain, labelling), rtol=1e-12, atol=1e-12)
    assert_allclose(p.max_marginals(world).max(axis=1), score, rtol=1e-12, atol=1e-12)


@quick
@given(p.pairwise_worlds(tree=True, edge_scores=True, forbidden=True, scale=2.0))
def test_forests(world: p.PairwiseWorld) -> None:
    """Bethe is exact, and messages settle after n steps on beliefs that are the marginals."""
    assert p.is_tree(world)
    node, edge = p.node_marginals(world), p.edge_marginals(world)
    assert_allclose(p.bethe_log_partition(world, node, edge), p.log_partition(world), rtol=1e-9, atol=1e-9)
    (n, L), E = world.node.shape, len(world.edges)
    messages = np.full((2 * E, L), 1 / L)
    for _ in range(n):
        messages = p.message_update(world, messages)
    assert p.check_fixed_point(world, messages, 1e-12) <= 1e-12
    beliefs = np.exp(world.node)
    for target, message in zip([*world.edges[:, 1], *world.edges[:, 0]], messages, strict=True):
        beliefs[target] *= message
    assert_allclose(beliefs / beliefs.sum(axis=1, keepdims=True), node, atol=1e-9)


def test_check_fixed_point_refuses() -> None:
    uniform = np.full((2, 2), 0.5)  # becomes [7, 7] / 14 and [6, 5] / 11
    assert p.check_fixed_point(HAND, uniform) == pytest.approx(6 / 11 - 1 / 2)
    with pytest.raises(AssertionError):
        p.check_fixed_point(HAND, uniform, 1e-3)


@quick
@given(p.pairwise_worlds(max_nodes=4, unknown=True, edge_scores=True))
def test_loss_gradient(world: p.PairwiseWorld) -> None:
    parts = [world.node, world.pair, p.tables(world) - world.pair[world.relation]]

    def loss(x: o.FloatArray) -> float:
        node, pair, edge = o.unflatten(x, *(part.shape for part in parts))
        return p.loss(replace(world, node=node, pair=pair, edge_scores=edge))

    expected = o.finite_difference_gradient(loss, o.flatten(*parts))
    assert_allclose(o.flatten(*p.loss_gradient(world)), expected, atol=1e-7)
