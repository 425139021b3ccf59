"""A mixture of parents given known labels, and orders weighed by them, against enumeration of orders and labellings."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from test_mixture import alphas, wired

import mixture_oracle as oracle
from kinfolk.inference.evidence import Conditioned, conditioned, weighed
from kinfolk.inference.mixture import beliefs
from mixture_oracle import Parameters, Relation, World, few_digits, worlds


def asked(world, params, labellings: int = 1 << 16):
    wiring, scores = wired(world, params)
    labels = world.labels.astype(np.int32)
    return conditioned(wiring, scores, alphas(world, params, wiring.dag), labels, labellings)


def given_labels(world, params):
    """(n, L) of P(y_k = y, e), by enumeration; the sum of a row is P(e)."""
    labellings, probabilities = oracle.joint(world, params)
    fits = ((world.labels < 0) | (labellings == world.labels)).all(axis=1)
    found = np.zeros((len(world.X), world.n_labels))
    for k in range(len(world.X)):
        np.add.at(found[k], labellings[fits, k], probabilities[fits])
    return found, float(probabilities[fits].sum())


@given(worlds(unknown=True, with_gate=True, with_edge_features=True))
def test_marginals_and_evidence_equal_enumeration(drawn):
    world, params = drawn
    joint, evidence = given_labels(world, params)
    found = asked(world, params)
    assert found.exact and found.evidence.sum() == pytest.approx(np.log(evidence), abs=1e-9)
    np.testing.assert_allclose(found.marginals, joint / evidence, atol=1e-9)


@given(worlds(unknown=True))
def test_where_a_block_is_too_large_it_is_filtered_and_that_is_said(drawn):
    """Then marginals of the unknown are those of the forward sweep, in which a known label is seen by its children."""
    world, params = drawn
    found = asked(world, params, labellings=1)
    wiring, scores = wired(world, params)
    labels = world.labels.astype(np.int32)
    (forward,) = beliefs([wiring], scores, [alphas(world, params, wiring.dag)], labels)
    unknown = labels < 0
    np.testing.assert_allclose(found.marginals[unknown], forward.marginals[unknown], atol=1e-9)
    seen = np.log(forward.marginals[~unknown, labels[~unknown]])
    assert found.evidence.sum() == pytest.approx(seen.sum(), abs=1e-9)
    looked_at = {int(j) for k, _, j, _ in oracle.components(world) if j >= 0 and labels[k] >= 0 and labels[j] < 0}
    assert found.exact == (not looked_at)


def in_order(links: list[tuple[int, int]], n: int, order: tuple[int, ...], labels: np.ndarray, X: np.ndarray) -> World:
    """A link leads from the earlier node to the later one: relation 0 where the child has it, 1 where the parent."""
    rank = np.argsort(order)
    edges = [
        sorted((a, b) for a, b in links if rank[b] < rank[a]),
        sorted((b, a) for a, b in links if rank[a] < rank[b]),
    ]
    relations = [Relation(np.array(e, np.int64).reshape(-1, 2), True, np.zeros((len(e), 0))) for e in edges]
    children = {k for e in edges for k, _ in e}
    start = np.array([k not in children for k in range(n)])
    return World(X, 2, relations, start, labels, np.ones(n), np.zeros((0, 0)), None, np.zeros(n, np.int64))


@st.composite
def graphs(draw: st.DrawFn):
    n = draw(st.integers(1, 4))
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    links = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=5)) if pairs else []
    labels = np.array(draw(st.lists(st.integers(-1, 1), min_size=n, max_size=n)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    X = few_digits(rng.standard_normal((n, 2)), 16)
    weights = [[few_digits(1.5 * rng.standard_normal((2, 2)), 256) for _ in range(2)] for _ in range(3)]
    start_child, start = few_digits(rng.standard_normal((2, 2)), 256), rng.standard_normal(2)
    params = Parameters(*weights, [np.zeros((0, 2, 2))] * 2, start_child, start, np.zeros(0))
    return n, links, labels, X, params


def with_uniform_gate(world: World) -> World:
    world.gate_features = np.zeros((len(oracle.components(world)), 0))
    return world


@settings(deadline=None)
@given(graphs())
def test_orders_weighed_by_evidence_equal_enumeration_of_orders_and_labels(drawn):
    n, links, labels, X, params = drawn
    orders = [with_uniform_gate(in_order(links, n, order, labels, X)) for order in permutations(range(n))]
    sums = [given_labels(world, params) for world in orders]
    expected = sum(joint for joint, _ in sums) / sum(evidence for _, evidence in sums)
    adjacent = sparse.csr_array((np.ones(len(links)), tuple(np.array(links).reshape(-1, 2).T)), shape=(n, n))
    _, component = sparse.csgraph.connected_components(adjacent, directed=False)
    found = weighed([asked(world, params) for world in orders], component)
    np.testing.assert_allclose(found.marginals, expected, atol=1e-9)
    assert found.exact and (found.effective >= 1 - 1e-9).all() and (found.effective <= len(orders) + 1e-9).all()


@settings(deadline=None)
@given(graphs())
def test_with_known_labels_first_the_weights_change_nothing(drawn):
    """How the known are ordered says how likely they are, and nothing of the others, who come behind them all."""
    n, links, labels, X, params = drawn
    first = [order for order in permutations(range(n)) if [*order] == sorted(order, key=lambda k: bool(labels[k] < 0))]
    found = [asked(with_uniform_gate(in_order(links, n, order, labels, X)), params) for order in first]
    component = np.zeros(n, np.int64)
    plain = np.mean([one.marginals for one in found], axis=0)
    np.testing.assert_allclose(weighed(found, component).marginals, plain, atol=1e-9)


def test_the_effective_number_of_orders_falls_where_one_explains_the_labels():
    one, other = np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]])
    alike = weighed([Conditioned(one, np.zeros(1), True), Conditioned(other, np.zeros(1), True)], np.zeros(1, int))
    assert alike.effective.tolist() == [2.0] and alike.marginals[0, 0] == pytest.approx(0.7)
    apart = weighed(
        [Conditioned(one, np.zeros(1), True), Conditioned(other, np.full(1, -99.0), False)], np.zeros(1, int)
    )
    assert apart.effective[0] == pytest.approx(1) and apart.marginals[0, 0] == pytest.approx(0.5) and not apart.exact
