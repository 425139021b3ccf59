"""Belief propagation against enumeration: exact on forests, a fixed point elsewhere; losses and their derivatives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pairwise_oracle as oracle
from kinfolk.inference.loopy import (
    Propagation,
    edge_beliefs,
    forest_shares,
    node_beliefs,
    pair_beliefs,
    pair_graph,
    propagate,
)
from kinfolk.inference.loopy_losses import BetheLoss, piecewise_loss, pseudo_loss
from pairwise_oracle import pairwise_worlds

TIGHT = Propagation(tolerance=1e-13, limit=500)


def wired(world, share=None):
    """Graph and tables: one a relation, or one an edge where edges have scores of their own."""
    if world.edge_scores is None:
        return pair_graph(world.edges, world.relation, world.groups, share=share), world.pair
    n_relations, of_edge = len(world.pair), len(world.pair) + np.arange(len(world.edges))
    graph = pair_graph(world.edges, of_edge, world.groups, n_relations, share)
    return graph, np.concatenate([world.pair, world.pair[world.relation] + world.edge_scores])


def beliefs(world, how=TIGHT, n_jobs=1, share=None):
    graph, tables = wired(world, share)
    fixed = propagate(graph, world.node, tables, how, n_jobs=n_jobs)
    return graph, tables, fixed, pair_beliefs(graph, world.node, tables, fixed.messages, n_jobs=n_jobs)


@pytest.mark.parametrize("schedule", ["sequential", "synchronous"])
@settings(max_examples=40, deadline=None)
@given(world=pairwise_worlds(tree=True, edge_scores=True))
def test_forests_are_exact(world, schedule):
    graph, tables, fixed, found = beliefs(world, TIGHT._replace(schedule=schedule))
    assert fixed.converged(1e-13).all()
    np.testing.assert_allclose(found.node, oracle.node_marginals(world), atol=1e-8)
    assert found.log_partition.sum() == pytest.approx(oracle.log_partition(world), abs=1e-8)
    logs = node_beliefs(graph, world.node, fixed.messages)
    own = edge_beliefs(graph, tables, logs, fixed.messages, np.arange(len(world.edges)))
    np.testing.assert_allclose(own, oracle.edge_marginals(world), atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(world=pairwise_worlds(tree=True, forbidden=True))
def test_forbidden_labels_on_forests(world):
    if np.isfinite(oracle.log_partition(world)):
        np.testing.assert_allclose(beliefs(world)[3].node, oracle.node_marginals(world), atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(world=pairwise_worlds(tree=True))
def test_max_product_finds_the_best_on_forests(world):
    graph, tables = wired(world)
    fixed = propagate(graph, world.node, tables, TIGHT, maximise=True)
    path = pair_beliefs(graph, world.node, tables, fixed.messages).node.argmax(axis=1)
    score = world.node[np.arange(len(path)), path].sum() + sum(
        world.pair[r, path[a], path[b]] for (a, b), r in zip(world.edges, world.relation, strict=True)
    )
    assert score == pytest.approx(oracle.best(world)[1], abs=1e-8)


@settings(max_examples=40, deadline=None)
@given(world=pairwise_worlds(scale=0.7))
def test_elsewhere_the_end_is_a_fixed_point(world):
    graph, tables, fixed, found = beliefs(world, TIGHT._replace(damping=0.2))
    if fixed.converged(1e-13).all():
        messages = np.exp(fixed.messages)
        messages = messages / messages.sum(axis=1, keepdims=True)
        assert oracle.check_fixed_point(world, messages) < 1e-8
        logs = node_beliefs(graph, world.node, fixed.messages)
        own = edge_beliefs(graph, tables, logs, fixed.messages, np.arange(len(world.edges)))
        expected = oracle.bethe_log_partition(world, found.node, own)
        assert found.log_partition.sum() == pytest.approx(expected, abs=1e-8)


@settings(max_examples=20, deadline=None)
@given(world=pairwise_worlds())
def test_threads_and_schedules_agree(world):
    one, two = (beliefs(world, TIGHT._replace(damping=0.3), n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one[3].node, two[3].node)
    both = beliefs(world, TIGHT._replace(schedule="synchronous", damping=0.3))
    if one[2].converged(1e-13).all() and both[2].converged(1e-13).all() and oracle.is_tree(world):
        np.testing.assert_allclose(one[3].node, both[3].node, atol=1e-8)


def oscillator():
    """A frustrated complete graph: neighbours want to differ, and there are only two labels."""
    edges = np.array([(a, b) for a in range(4) for b in range(a + 1, 4)])
    return pair_graph(edges, np.zeros(6, int), np.zeros(4, int)), np.array([[[-3.0, 3.0], [3.0, -3.0]]])


def test_a_graph_that_oscillates_without_damping():
    graph, tables = oscillator()
    node = np.array([[0.1, 0.0], [0.0, 0.2], [0.05, 0.0], [0.0, 0.1]])
    wild = propagate(graph, node, tables, Propagation("synchronous", limit=200))
    assert wild.rounds[0] == 200 and not wild.converged(1e-6)[0]
    calm = propagate(graph, node, tables, Propagation("synchronous", damping=0.7, limit=2000))
    assert calm.converged(1e-6)[0]


def test_a_chain_takes_one_round():
    edges = np.array([(i, i + 1) for i in range(9)])
    graph = pair_graph(edges, np.zeros(9, int), np.zeros(10, int))
    rng = np.random.default_rng(0)
    fixed = propagate(graph, rng.normal(size=(10, 3)), rng.normal(size=(1, 3, 3)))
    assert fixed.rounds.tolist() == [1]


def test_messages_at_rest_stay():
    edges = np.array([(0, 1), (1, 2), (0, 2)])
    graph = pair_graph(edges, np.zeros(3, int), np.zeros(3, int))
    rng = np.random.default_rng(1)
    node, tables = rng.normal(size=(3, 2)), rng.normal(size=(1, 2, 2))
    first = propagate(graph, node, tables)
    again = propagate(graph, node, tables, messages=first.messages.copy())
    assert again.rounds[0] <= 2 and first.rounds[0] > again.rounds[0]


@settings(max_examples=30, deadline=None)
@given(world=pairwise_worlds(scale=0.7), seed=st.integers(0, 99))
def test_log_z_is_stationary_in_the_messages(world, seed):
    """Messages that are off by a little put it off by the square of that."""
    graph, tables, fixed, found = beliefs(world, TIGHT._replace(damping=0.2))
    if not fixed.converged(1e-13).all():
        return
    noise = np.random.default_rng(seed).normal(size=fixed.messages.shape)
    off = [
        abs(pair_beliefs(graph, world.node, tables, fixed.messages + e * noise).log_partition - found.log_partition)
        for e in (1e-3, 1e-4)
    ]
    assert (off[0] < 1e-4).all() and (off[1] <= 0.05 * off[0] + 1e-10).all()


@settings(max_examples=30, deadline=None)
@given(world=pairwise_worlds(scale=0.7))
def test_damping_when_needed_ends_in_a_fixed_point_of_damping(world):
    graph, tables, fixed, found = beliefs(world, TIGHT._replace(damping=0.3, when_needed=True))
    if fixed.converged(1e-13).all():
        again = propagate(graph, world.node, tables, TIGHT._replace(damping=0.3), messages=fixed.messages.copy())
        there = pair_beliefs(graph, world.node, tables, again.messages)
        np.testing.assert_allclose(there.node, found.node, atol=1e-9)


def test_messages_are_given_up_where_they_are_hopeless():
    graph, tables = oscillator()
    node = np.array([[0.1, 0.0], [0.0, 0.2], [0.05, 0.0], [0.0, 0.1]])
    wild, asked = Propagation("synchronous", limit=200), []
    fixed = propagate(
        graph, node, tables, wild, hopeless=lambda messages: asked.append(messages.copy()) or len(asked) == 2
    )
    assert fixed.rounds[0] == 20 and len(asked) == 2
    whole = propagate(graph, node, tables, wild, hopeless=lambda messages: False)
    assert whole.rounds[0] == 200
    np.testing.assert_array_equal(whole.messages, propagate(graph, node, tables, wild).messages)


@pytest.mark.parametrize("maximise", [False, True])
@settings(max_examples=20, deadline=None)
@given(world=pairwise_worlds(tree=True))
def test_scores_far_apart_keep_their_digits(world, maximise):
    """Messages of probabilities below the smallest double; a tree of them is still exact."""
    large = replace(world, node=300 * world.node, pair=300 * world.pair)
    graph, tables = wired(large)
    fixed = propagate(graph, large.node, tables, TIGHT, maximise)
    logs = node_beliefs(graph, large.node, fixed.messages)
    assert np.isfinite(fixed.messages).all()
    if maximise:
        path = logs.argmax(axis=1)
        score = large.node[np.arange(len(path)), path].sum() + sum(
            large.pair[r, path[a], path[b]] for (a, b), r in zip(large.edges, large.relation, strict=True)
        )
        assert score == pytest.approx(oracle.best(large)[1], rel=1e-9, abs=1e-6)
    else:
        np.testing.assert_allclose(np.exp(logs), oracle.node_marginals(large), atol=1e-7)


# -- tree-reweighted beliefs ---------------------------------------------------------------------------

DAMPED = TIGHT._replace(damping=0.5, limit=3000)


def components(world, left_out=None):
    """How many, by merging ends until nothing changes."""
    name = list(range(len(world.node)))
    for e, (a, b) in enumerate(world.edges.tolist()):
        if e != left_out:
            name = [name[a] if other == name[b] else other for other in name]
    return len(set(name))


@settings(max_examples=40, deadline=None)
@given(world=pairwise_worlds())
def test_shares_of_edges_come_from_spanning_forests(world):
    """They sum to the size of one, are above 0, and 1 exactly where an edge is the only way across."""
    n, share = len(world.node), forest_shares(world.edges, len(world.node))
    assert share.sum() == pytest.approx(n - components(world)) and (share > 0).all() and (share <= 1).all()
    bridges = [components(world, left_out=e) > components(world) for e in range(len(world.edges))]
    np.testing.assert_array_equal(share == 1, bridges)


@settings(max_examples=30, deadline=None)
@given(world=pairwise_worlds(tree=True, edge_scores=True))
def test_reweighted_forests_are_exact(world):
    share = forest_shares(world.edges, len(world.node))
    found = beliefs(world, share=share)[3]
    np.testing.assert_allclose(found.node, oracle.node_marginals(world), atol=1e-8)
    assert found.log_partition.sum() == pytest.approx(oracle.log_partition(world), abs=1e-8)


@pytest.mark.parametrize("edge_scores", [False, True])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_the_reweighted_log_partition_is_an_upper_bound(data, edge_scores):
    """At the fixed point; there both ends of an edge agree with its belief, and the value is that of the definition

    sum_i (E[node_i] + H_i) + sum_e (E[table_e] - rho_e I_e),   I_e = H_a + H_b - H_e."""
    world = data.draw(pairwise_worlds(edge_scores=edge_scores))
    share = forest_shares(world.edges, len(world.node))
    graph, tables, fixed, found = beliefs(world, DAMPED, share=share)
    if not fixed.converged(1e-13).all():
        return
    assert found.log_partition.sum() >= oracle.log_partition(world) - 1e-8
    logs = node_beliefs(graph, world.node, fixed.messages)
    own = edge_beliefs(graph, tables, logs, fixed.messages, np.arange(len(world.edges)))
    entropy = lambda belief: -(belief * np.log(belief)).sum()  # noqa: E731
    value = (found.node * world.node).sum() + sum(map(entropy, found.node))
    for (a, b), table, rho, belief in zip(world.edges, oracle.tables(world), share, own, strict=True):
        np.testing.assert_allclose(belief.sum(axis=1), found.node[a], atol=1e-7)
        np.testing.assert_allclose(belief.sum(axis=0), found.node[b], atol=1e-7)
        shared = entropy(found.node[a]) + entropy(found.node[b]) - entropy(belief)
        value += (belief * table).sum() - rho * shared
    assert found.log_partition.sum() == pytest.approx(value, abs=1e-7)


@settings(max_examples=15, deadline=None)
@given(world=pairwise_worlds(max_nodes=4))
def test_the_reweighted_gradient_and_one_fixed_point(world):
    """Messages from anywhere end in the same beliefs, however strong the scores."""
    share = forest_shares(world.edges, len(world.node))
    graph, tables = wired(world, share)
    labels, ones = world.labels.astype(np.int32), np.ones(graph.n_groups)
    value = lambda node, pair: BetheLoss(graph, labels, ones, DAMPED, 1)(node, pair)  # noqa: E731
    found = value(world.node, tables)
    if not found.fixed.converged(1e-13).all():
        return
    by_pair = differences(lambda pair: value(world.node, pair).loss, tables)
    np.testing.assert_allclose(found.pair, by_pair, atol=1e-6)
    by_node = differences(lambda node: value(node, tables).loss, world.node)
    np.testing.assert_allclose(found.node, by_node, atol=1e-6)
    elsewhere = np.random.default_rng(0).normal(scale=3, size=(2 * len(world.edges), world.node.shape[1]))
    again = propagate(graph, world.node, tables, DAMPED, messages=elsewhere)
    cold = propagate(graph, world.node, tables, DAMPED)
    if again.converged(1e-13).all():
        ends = [node_beliefs(graph, world.node, fixed.messages) for fixed in (again, cold)]
        np.testing.assert_allclose(np.exp(ends[0]), np.exp(ends[1]), atol=1e-7)


# -- losses -------------------------------------------------------------------------------------------


def table_gradient(world, pair):
    """By relation and by edge, from residuals by table."""
    if world.edge_scores is None:
        return pair, None
    n_relations = len(world.pair)
    by_relation = pair[:n_relations].copy()
    np.add.at(by_relation, world.relation, pair[n_relations:])
    return by_relation, pair[n_relations:]


@settings(max_examples=40, deadline=None)
@given(world=pairwise_worlds(tree=True, unknown=True, edge_scores=True))
def test_bethe_loss_is_the_likelihood_on_forests(world):
    graph, tables = wired(world)
    loss = BetheLoss(graph, world.labels.astype(np.int32), np.ones(len(graph.group_starts) - 1), TIGHT, 1)
    found = loss(world.node, tables)
    expected = oracle.loss(world)
    assert found.loss == pytest.approx(expected, abs=1e-8)
    node, pair, edge = oracle.loss_gradient(world)
    by_relation, by_edge = table_gradient(world, found.pair)
    np.testing.assert_allclose(found.node, node, atol=1e-7)
    np.testing.assert_allclose(by_relation, pair, atol=1e-7)
    if by_edge is not None:
        np.testing.assert_allclose(by_edge, edge, atol=1e-7)


def differences(function, array, step=1e-5):
    slope = np.zeros(array.shape)
    for at in np.ndindex(array.shape):
        ends = []
        for sign in (1, -1):
            moved = array.copy()
            moved[at] += sign * step
            ends.append(function(moved))
        slope[at] = (ends[0] - ends[1]) / (2 * step)
    return slope


@settings(max_examples=15, deadline=None)
@given(world=pairwise_worlds(max_nodes=4, scale=0.5))
def test_bethe_gradient_where_it_converged(world):
    graph, tables = wired(world)
    labels, weights = world.labels.astype(np.int32), np.linspace(0.5, 2, len(graph.group_starts) - 1)
    value = lambda node, pair: BetheLoss(graph, labels, weights, TIGHT, 1)(node, pair)  # noqa: E731
    found = value(world.node, tables)
    if found.fixed.converged(1e-13).all():
        by_node = differences(lambda node: value(node, tables).loss, world.node)
        by_pair = differences(lambda pair: value(world.node, pair).loss, tables)
        np.testing.assert_allclose(found.node, by_node, atol=1e-6)
        np.testing.assert_allclose(found.pair, by_pair, atol=1e-6)


def test_a_loss_above_what_would_be_accepted_is_given_up():
    graph, tables = oscillator()
    node = np.array([[0.1, 0.0], [0.0, 0.2], [0.05, 0.0], [0.0, 0.1]])
    how = Propagation("synchronous", limit=200)
    loss = BetheLoss(graph, np.zeros(4, np.int32), np.ones(1), how, 1)
    assert loss(node, tables).fixed.rounds[0] == 200 and loss.restless(1e-6)
    loss.accept(-1.0)
    assert loss(node, tables).fixed.rounds[0] == 10
    assert loss(node, 0 * tables).fixed.rounds[0] <= 2 and not loss.restless(1e-6)


@pytest.mark.parametrize(
    ("loss", "truth"),
    [(pseudo_loss, oracle.pseudo_log_likelihood), (piecewise_loss, oracle.piecewise_log_likelihood)],
)
@settings(max_examples=25, deadline=None)
@given(world=pairwise_worlds(edge_scores=True))
def test_cheap_losses_and_their_gradients(world, loss, truth):
    graph, tables = wired(world)
    labels, ones = world.labels.astype(np.int32), np.ones(len(world.node))
    found = loss(graph, labels, ones, world.node, tables)
    assert found.loss == pytest.approx(-truth(world), abs=1e-8)
    by_node = differences(lambda node: loss(graph, labels, ones, node, tables).loss, world.node)
    by_pair = differences(lambda pair: loss(graph, labels, ones, world.node, pair).loss, tables)
    np.testing.assert_allclose(found.node, by_node, atol=1e-6)
    np.testing.assert_allclose(found.pair, by_pair, atol=1e-6)


def test_nobody():
    graph = pair_graph(np.zeros((0, 2)), np.zeros(0, int), np.zeros(0, int))
    fixed = propagate(graph, np.zeros((0, 2)), np.zeros((1, 2, 2)))
    assert pair_beliefs(graph, np.zeros((0, 2)), np.zeros((1, 2, 2)), fixed.messages).node.shape == (0, 2)


def test_a_node_that_may_have_no_label_may_have_any():
    graph = pair_graph(np.array([[0, 1]]), np.array([0]), np.array([0, 0]))
    node = np.array([[-np.inf] * 3, [0.5, 0.0, -1.0]])
    logs = node_beliefs(graph, node, np.zeros((2, 3)))
    np.testing.assert_allclose(np.exp(logs[0]), 1 / 3)
    np.testing.assert_allclose(np.exp(logs[1]), np.exp(node[1]) / np.exp(node[1]).sum())
