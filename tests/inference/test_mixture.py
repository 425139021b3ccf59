"""Marginals, predictions, losses and residuals of a mixture of parents against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings

import mixture_oracle as oracle
from kinfolk.core.kernels import Csr
from kinfolk.errors import InputError
from kinfolk.inference import mixture
from kinfolk.inference.dag import START, Dag, build_dag, either_way, in_order
from kinfolk.inference.evidence import conditional_tables
from kinfolk.inference.mixture import (
    NO_ROWS,
    Scores,
    Wiring,
    beliefs,
    check_weights,
    gated_weights,
    residuals,
    uniform_weights,
)
from kinfolk.inference.mixture_spans import LabelledSpan, mixture_span_probabilities
from mixture_oracle import worlds
from strategies import SEEDS


def wired(world, params):
    """The world as arrays: for each relation scores of all nodes as children and as parents, then as starts."""
    n, n_labels = len(world.X), world.n_labels
    dag = build_dag([r.edges for r in world.relations], world.groups, world.start)
    ends = [np.zeros((0, n_labels))]
    for r, relation in enumerate(world.relations):
        parent = world.X @ params.parent[r] if relation.parent_features else np.zeros((n, n_labels))
        ends += [world.X @ params.child[r], parent]
    ends.append(world.X @ params.start_child)
    child, is_start = dag.child, dag.relation == START
    child_slot = np.where(is_start, 2 * len(world.relations), 2 * dag.relation) * n + child
    has_parent = np.array([*(r.parent_features for r in world.relations), False])[dag.relation]
    parent_slot = np.where(has_parent & ~is_start, (2 * dag.relation + 1) * n + dag.parent, -1)
    pair = np.array(params.pair).reshape(-1, n_labels, n_labels)
    rows = np.concatenate([np.zeros((0, n_labels**2)), *(u.reshape(-1, n_labels**2) for u in params.edge)])
    scores = Scores(np.concatenate(ends).astype(np.float32), pair, params.start, rows)
    assert (scores.ends == np.concatenate(ends)).all()
    return Wiring(dag, child_slot, parent_slot, pair_rows(world, dag)), scores


def precise(scores):
    """For derivatives, which come in the precision of the scores."""
    return scores._replace(ends=scores.ends.astype(np.float64))


def pair_rows(world, dag: Dag):
    sizes = [r.edge_features.shape[1] for r in world.relations]
    if not sum(sizes):
        return NO_ROWS
    offsets = np.cumsum([0, *sizes])
    dense = np.zeros((dag.n_components, offsets[-1]))
    for c, (r, e) in enumerate(zip(dag.relation, dag.edge, strict=True)):
        if r != START:
            dense[c, offsets[r] : offsets[r + 1]] = world.relations[r].edge_features[e]
    at, columns = np.nonzero(dense)
    starts = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=len(dense)))]).astype(np.int64)
    return Csr(starts, columns.astype(np.int32), dense[at, columns])


def alphas(world, params, dag):
    if world.given is not None:
        return check_weights(dag, world.given)
    return gated_weights(dag, world.gate_features @ params.gate)


def evaluate(world, params, clamp, n_jobs=1):
    wiring, scores = wired(world, params)
    alpha = alphas(world, params, wiring.dag)
    labels = world.labels.astype(np.int32)
    return residuals([wiring], precise(scores), [alpha], labels, world.weights, clamp, n_jobs)[0]


def gradient(world, params, clamp):
    """∂loss by the parameters in the order of the oracle, from the residuals."""
    found = evaluate(world, params, clamp)
    n, n_relations = len(world.X), len(world.relations)
    slots = found.scores.ends.reshape(2 * n_relations + 1, n, world.n_labels) if n else None
    parts, at = [], 0
    for r, relation in enumerate(world.relations):
        parts.append(params.child[r] * 0 if slots is None else world.X.T @ slots[2 * r])
        if relation.parent_features:
            parts.append(params.parent[r] * 0 if slots is None else world.X.T @ slots[2 * r + 1])
        size = relation.edge_features.shape[1]
        parts += [found.scores.pair[r], found.scores.rows[at : at + size]]
        at += size
    parts.append(params.start_child * 0 if slots is None else world.X.T @ slots[-1])
    parts += [found.scores.start, world.gate_features.T @ found.gate]
    return np.concatenate([part.reshape(-1) for part in parts])


@settings(max_examples=60, deadline=None)
@given(worlds(with_edge_features=True, with_gate=True))
def test_marginals_and_predictions_equal_enumeration(drawn):
    world, params = drawn
    wiring, scores = wired(world, params)
    (found,) = beliefs([wiring], scores, [alphas(world, params, wiring.dag)])
    np.testing.assert_allclose(found.marginals, oracle.marginals(world, params), atol=1e-10)
    np.testing.assert_allclose(found.predicted, oracle.predictive(world, params), atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(worlds())
def test_marginals_with_uniform_and_given_weights(drawn):
    world, params = drawn
    wiring, scores = wired(world, params)
    alpha = alphas(world, params, wiring.dag)
    if world.given is None:
        np.testing.assert_allclose(alpha, uniform_weights(wiring.dag))
    np.testing.assert_allclose(alpha, oracle.mixing_weights(world, params), atol=1e-12)
    (found,) = beliefs([wiring], scores, [alpha], n_jobs=2)
    np.testing.assert_allclose(found.marginals, oracle.marginals(world, params), atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(worlds(max_nodes=5, unknown=True, with_edge_features=True, with_gate=True))
def test_marginal_loss_and_gradient(drawn):
    world, params = drawn
    assert evaluate(world, params, clamp=False).loss == pytest.approx(-oracle.marginal_log_likelihood(world, params))
    expected = oracle.objective_gradient(world, params, "marginal")
    np.testing.assert_allclose(gradient(world, params, clamp=False), expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(worlds(max_nodes=5, with_edge_features=True, with_gate=True))
def test_conditional_loss_and_gradient(drawn):
    world, params = drawn
    assert evaluate(world, params, clamp=True).loss == pytest.approx(-oracle.conditional_log_likelihood(world, params))
    expected = oracle.objective_gradient(world, params, "conditional")
    np.testing.assert_allclose(gradient(world, params, clamp=True), expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(worlds(min_nodes=1, min_relations=1))
def test_huge_scores_take_the_slow_way_and_stay_exact(drawn):
    world, params = drawn
    params.pair = [pair * 1000 for pair in params.pair]
    wiring, scores = wired(world, params)
    found = beliefs([wiring], scores, [alphas(world, params, wiring.dag)])[0].marginals
    np.testing.assert_allclose(found, oracle.marginals(world, params), atol=1e-10)
    assert np.isfinite(evaluate(world, params, clamp=False).scores.ends).all()


@settings(max_examples=20, deadline=None)
@given(worlds(unknown=True, with_gate=True))
def test_threads_do_not_change_the_answer(drawn):
    world, params = drawn
    one, two = (evaluate(world, params, False, n_jobs) for n_jobs in (1, 2))
    assert one.loss == two.loss
    np.testing.assert_array_equal(one.scores.ends, two.scores.ends)
    np.testing.assert_array_equal(one.scores.pair, two.scores.pair)


def test_a_known_label_is_passed_on():
    """0 -> 1 with a known label at 0: its child sees the label, itself keeps its own marginal."""
    dag = build_dag([np.array([[1, 0]])], np.zeros(2, int))
    pair = np.log(np.array([[[0.9, 0.1], [0.2, 0.8]]]))
    scores = Scores(np.zeros((2, 2), np.float32), pair, np.zeros(2), np.zeros((0, 4)))
    wiring = Wiring(dag, dag.child, np.full(2, -1))
    found = beliefs([wiring], scores, [np.ones(2)], np.array([1, -1], np.int32))[0].marginals
    np.testing.assert_allclose(found, [[0.5, 0.5], [0.2, 0.8]])


def many(rng, groups, n_labels=5, scale=1.0):
    """As many instances as `groups` has, with edges to earlier ones of two relations, more than go side by side."""
    n = len(groups)
    pairs = rng.integers(n, size=(2, 6 * n, 2))
    edges = [
        np.unique(one[(one[:, 0] > one[:, 1]) & (groups[one[:, 0]] == groups[one[:, 1]])], axis=0) for one in pairs
    ]
    dag = build_dag(edges, groups, rng.random(n) < 0.5)
    ends = rng.normal(scale=scale, size=(4 * n, n_labels)).astype(np.float32)
    scores = Scores(
        ends, rng.normal(size=(2, n_labels, n_labels)), rng.normal(size=n_labels), np.zeros((0, n_labels**2))
    )
    parent_slot = np.where(dag.relation == 0, 3 * n + dag.parent, -1)
    return Wiring(dag, np.where(dag.relation == START, 2, dag.relation) * n + dag.child, parent_slot), scores


@pytest.mark.parametrize("scale", [1.0, 600.0])  # of the latter many components are done the slow way
@pytest.mark.parametrize("sizes", [[400], [150] * 3, [3] * 100])
def test_blocks_and_runs_of_many_components_equal_one_after_the_other(sizes, scale, monkeypatch):
    monkeypatch.setattr(mixture, "RUN", 500)
    monkeypatch.setattr(mixture, "LEAST_CHUNK", 700)
    rng = np.random.default_rng(len(sizes))
    wiring, scores = many(rng, np.repeat(np.arange(len(sizes)), sizes), scale=scale)
    dag, n = wiring.dag, sum(sizes)
    alpha, tables = uniform_weights(dag), conditional_tables(wiring, scores)
    labels = rng.integers(-1, 5, size=n).astype(np.int32)
    for known in (None, labels):
        (found,) = beliefs([wiring], scores, [alpha], known)
        expected = np.zeros((n, 5))
        for k in dag.order:
            for c in range(dag.indptr[k], dag.indptr[k + 1]):
                j = dag.parent[c]
                seen = expected[max(j, 0)] if known is None or j < 0 or known[j] < 0 else np.eye(5)[known[j]]
                own = tables[c, 0] if j < 0 else seen @ tables[c]
                np.testing.assert_allclose(found.predicted[c], own, atol=1e-10)
                expected[k] += alpha[c] * own
        np.testing.assert_allclose(found.marginals, expected, atol=1e-10)


@pytest.mark.parametrize("clamp", [False, True])
def test_derivatives_of_many_components_are_those_of_the_loss(clamp):
    rng = np.random.default_rng(0)
    wiring, scores = many(rng, np.repeat([0, 1], 200))
    scores = precise(scores)
    labels, weights = rng.integers(-1, 5, size=400).astype(np.int32), rng.random(400)
    labels[200:] = -1  # a group that counts for nothing
    alpha = [uniform_weights(wiring.dag)]
    sweeps = mixture.Sweeps([wiring], 2, labels, weights, clamp)
    for _ in range(2):  # what was written to is used again
        (found,) = sweeps(scores, alpha)
        slopes = [part.copy() for part in found.scores]
    step = [1e-5 * rng.normal(size=part.shape) for part in scores]
    up, down = (
        residuals([wiring], Scores(*(part + sign * s for part, s in zip(scores, step, strict=True))), alpha, labels,
                  weights, clamp)[0].loss for sign in (1, -1)
    )  # fmt: skip
    promised = sum(float((slope * s).sum()) for slope, s in zip(slopes, step, strict=True))
    assert (up - down) / 2 == pytest.approx(promised, rel=1e-5)


# -- the shape ----------------------------------------------------------------------------------------


def test_orders_put_parents_first():
    groups = np.array([0, 0, 0, 1, 1])
    backward = build_dag([np.array([[0, 1], [1, 2], [3, 4]])], groups)
    assert backward.order.tolist() == [2, 1, 0, 4, 3]
    mixed = build_dag([np.array([[0, 2], [1, 0], [3, 4]])], groups)
    assert mixed.order.tolist() == [2, 0, 1, 4, 3]
    assert mixed.rank[mixed.order].tolist() == [0, 1, 2, 3, 4]


@settings(max_examples=40, deadline=None)
@given(worlds(), SEEDS)
def test_the_components_of_an_order_are_those_of_its_dag(drawn, seed):
    world, rng = drawn[0], np.random.default_rng(seed)
    n, rank = len(world.groups), rng.permutation(len(world.groups))
    edges = [np.concatenate([r.edges, r.edges[:, ::-1]]) for r in world.relations]
    kept = [pairs[rank[pairs[:, 1]] < rank[pairs[:, 0]]] for pairs in edges]
    start = rng.random(n) < 0.5
    every = either_way(edges, world.groups)
    dag, wanted = in_order(every, rank, start)[0], build_dag(kept, world.groups, start)
    for name in ("indptr", "parent", "relation", "group_starts"):
        np.testing.assert_array_equal(getattr(dag, name), getattr(wanted, name))
    at, child = dag.rank, dag.child
    assert (at[dag.parent[dag.parent >= 0]] < at[child[dag.parent >= 0]]).all()
    np.testing.assert_array_equal(world.groups[dag.order], world.groups)
    for c in np.flatnonzero(dag.relation >= 0):
        np.testing.assert_array_equal(edges[dag.relation[c]][dag.edge[c]], [child[c], dag.parent[c]])


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0, 1], [1, 2], [2, 0]], "cycle: 0 -> 1 -> 2 -> 0"),
        ([[0, 1], [1, 0], [0, 3], [1, 2]], "cycle: 0 -> 1 -> 0"),
        ([[1, 1]], "relation 'cites': instance 1 is its own parent"),
        ([[4, 0]], r"'cites': instance 4 \(group 1\) looks at instance 0 \(group 0\)"),
        ([[0, 9]], r"'cites': edge 0 is \(0, 9\), but there are 5 instances"),
    ],
)
def test_edges_that_cannot_be(edges, message):
    with pytest.raises(InputError, match=message):
        build_dag([np.array(edges)], np.array([0, 0, 0, 0, 1]), names=["cites"])


def test_mixing_weights_that_cannot_be():
    dag = build_dag([np.array([[1, 0], [2, 0], [2, 1]])], np.zeros(3, int))
    assert check_weights(dag, [1, 1, 0.25, 0.75]).tolist() == [1, 1, 0.25, 0.75]
    with pytest.raises(InputError, match="that of instance 2 for parent 0 is -1"):
        check_weights(dag, [1, 1, -1, 2])
    with pytest.raises(InputError, match=r"those of instance 2 sum to 0.75"):
        check_weights(dag, [1, 1, 0.5, 0.25])
    with pytest.raises(InputError, match="expected 4 mixing weights"):
        check_weights(dag, [1, 1])


def test_nobody():
    dag = build_dag([], np.zeros(0, int))
    scores = Scores(np.zeros((0, 2), np.float32), np.zeros((0, 2, 2)), np.zeros(2), np.zeros((0, 4)))
    wiring = Wiring(dag, np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert beliefs([wiring], scores, [uniform_weights(dag)])[0].marginals.shape == (0, 2)
    assert residuals([wiring], scores, [np.empty(0)], np.empty(0, np.int32), np.empty(0), False)[0].loss == 0


def test_the_conditional_likelihood_of_a_mixture_is_not_concave():
    """A child of label 1 with two parents of label 0: L_C = log(σ(w_1) / 2 + σ(w_2) / 2), w_r being the weight of
    the pair (0, 1) in relation r. Halfway between two points it is less than their mean."""
    dag = build_dag([[(2, 0)], [(2, 1)]], np.zeros(3, int))
    wiring = Wiring(dag, np.zeros(4, np.int64), np.full(4, -1))

    def likelihood(*weights: float) -> float:
        pair = np.zeros((2, 2, 2))
        pair[:, 0, 1] = weights
        scores = Scores(np.zeros((1, 2)), pair, np.zeros(2), np.zeros((0, 4)))
        labels, counted = np.array([0, 0, 1], np.int32), np.array([0.0, 0.0, 1.0])
        return -residuals([wiring], scores, [uniform_weights(dag)], labels, counted, clamp=True)[0].loss

    one, other, halfway = likelihood(1, -5), likelihood(-5, 1), likelihood(-2, -2)
    assert one == pytest.approx(np.log(0.5 / (1 + np.exp(-1)) + 0.5 / (1 + np.exp(5)))) == pytest.approx(other)
    assert halfway < (one + other) / 2 - 1


# -- spans of labels


def some_span(world, rng):
    """A span within a group, with or without a follower; which labels carry one on; and the labels it allows."""
    n, n_labels = len(world.X), world.n_labels
    first = int(rng.integers(n))
    end = int(np.searchsorted(world.groups, world.groups[first], side="right"))
    size = int(rng.integers(1, end - first + 1))
    follower = first + size < end and rng.random() < 0.7
    labels, continues = rng.integers(n_labels, size=size), rng.random((n_labels, n_labels)) < 0.5
    allowed = np.ones((n, n_labels), bool)
    allowed[first : first + size] = np.eye(n_labels, dtype=bool)[labels]
    if follower:
        allowed[first + size] = ~continues[labels[-1]]
    return LabelledSpan(first, labels, follower), continues, allowed


@settings(max_examples=100, deadline=None)
@given(worlds(min_nodes=1, unknown=True, with_edge_features=True, with_gate=True), SEEDS)
def test_spans_equal_enumeration_whatever_their_members_look_at(drawn, seed):
    world, params = drawn
    wiring, scores = wired(world, params)
    span, continues, allowed = some_span(world, np.random.default_rng(seed))
    alpha, known = alphas(world, params, wiring.dag), world.labels.astype(np.int32)
    for labels in (None, known):
        (found,) = beliefs([wiring], scores, [alpha], labels)
        values, exact, logs = mixture_span_probabilities(wiring, scores, alpha, found, [span] * 2, continues, labels)
        assert exact.all()
        wanted = oracle.probability_of(world, params, allowed, labels)
        np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-9)
        np.testing.assert_allclose(np.exp(logs), values, rtol=1e-12)


def test_branches_that_reach_the_same_instances_are_one():
    """Each instance follows one of the three before it, so there are 3^n ways back from a span, but few sets of
    instances on them. Beside it a pass forward, over the labels of the last three."""
    rng, n, n_labels, size = np.random.default_rng(0), 60, 2, 4
    edges = np.array([(k, k - step) for k in range(n) for step in (1, 2, 3) if step <= k])
    dag = build_dag([edges], np.zeros(n, int))
    wiring = Wiring(dag, np.zeros(dag.n_components, np.int64), np.full(dag.n_components, -1))
    start, pair = rng.normal(size=n_labels), rng.normal(size=(n_labels, n_labels))
    scores = Scores(np.zeros((1, n_labels), np.float32), pair[None], start, np.zeros((0, n_labels**2)))
    alpha, labels = uniform_weights(dag), np.array([0, 1, 1, 0])
    (found,) = beliefs([wiring], scores, [alpha])
    span, continues = LabelledSpan(n - 1 - size, labels, True), np.array([[True, False], [True, False]])
    values, exact, _ = mixture_span_probabilities(wiring, scores, alpha, found, [span], continues)
    allowed = [{0, 1}] * (n - 1 - size) + [{label} for label in labels.tolist()] + [{1}]
    ways = {(): 1.0}
    for k in range(n):
        further = {}
        for last, p in ways.items():
            follows = np.mean([np.exp(row) / np.exp(row).sum() for row in (pair[[*last]] if last else [start])], axis=0)
            for y in allowed[k]:
                further[(*last, y)[-3:]] = further.get((*last, y)[-3:], 0.0) + p * follows[y]
        ways = further
    assert exact.all()
    np.testing.assert_allclose(values, sum(ways.values()), rtol=1e-9)


def as_if_independent(wiring, scores, alpha, predicted, span, continues, known):
    """Π_v Σ_c α_c ( p_c(l_v | l_j) if the parent j is in the span, else π_c(l_v) ), over the labels that may follow."""
    dag, total = wiring.dag, 0.0
    after = [y for y in range(len(continues)) if not continues[span.labels[-1], y]] if span.follower else [None]
    for y in after:
        labels = {span.first + v: int(label) for v, label in enumerate(span.labels)}
        if y is not None:
            labels[span.first + len(span.labels)] = y
        product = 1.0
        for k, own in labels.items():
            if known is not None and known[k] >= 0:
                product *= own == known[k]
                continue
            factor = 0.0
            for c in range(dag.indptr[k], dag.indptr[k + 1]):
                if dag.parent[c] not in labels:
                    factor += alpha[c] * predicted[c, own]
                    continue
                table = scores.pair[dag.relation[c]] + scores.ends[wiring.child_slot[c]]
                if wiring.parent_slot[c] >= 0:
                    table = table + scores.ends[wiring.parent_slot[c]]
                if len(wiring.pair_rows.indptr):
                    here = slice(*wiring.pair_rows.indptr[c : c + 2])
                    weights = scores.rows[wiring.pair_rows.indices[here]]
                    table = table + (wiring.pair_rows.values[here] @ weights).reshape(table.shape)
                row = table[labels[dag.parent[c]]]
                factor += alpha[c] * np.exp(row - np.logaddexp.reduce(row))[own]
            product *= factor
        total += product
    return total


@pytest.mark.parametrize("n", [2_000, 20_000])
def test_a_span_less_likely_than_any_float_has_a_logarithm(n):
    """A chain of so many instances, each as likely to go on as not: 2^-n; beyond some thousands it is approximated, by
    what here is exact, too."""
    edges = np.stack([np.arange(1, n), np.arange(n - 1)], axis=1)
    dag = build_dag([edges], np.zeros(n, int))
    wiring = Wiring(dag, np.zeros(dag.n_components, np.int64), np.full(dag.n_components, -1))
    scores = Scores(np.zeros((1, 2), np.float32), np.zeros((1, 2, 2)), np.zeros(2), np.zeros((0, 4)))
    alpha = np.ones(dag.n_components)
    (found,) = beliefs([wiring], scores, [alpha])
    span = LabelledSpan(0, np.arange(n) % 2, False)
    values, exact, logs = mixture_span_probabilities(wiring, scores, alpha, found, [span], np.zeros((2, 2), bool))
    assert exact.tolist() == [n == 2_000] and values.tolist() == [0.0]
    np.testing.assert_allclose(logs, -n * np.log(2), rtol=1e-12)


@settings(max_examples=20, deadline=None)
@given(worlds(min_nodes=2, min_relations=1, unknown=True, with_edge_features=True, with_gate=True), SEEDS)
def test_a_span_that_takes_too_much_work_is_said_to_be_approximate(drawn, seed):
    world, params = drawn
    wiring, scores = wired(world, params)
    rng = np.random.default_rng(seed)
    span, continues, _ = some_span(world, rng)
    alpha = alphas(world, params, wiring.dag)
    (found,) = beliefs([wiring], scores, [alpha])
    for labels in (None, world.labels.astype(np.int32)):
        rest = (wiring, scores, alpha, found, [span, span], continues, labels)
        values, exact, logs = mixture_span_probabilities(*rest, work=-1)
        wanted = as_if_independent(wiring, scores, alpha, found.predicted, span, continues, labels)
        np.testing.assert_allclose(values, wanted, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(np.exp(logs), values, rtol=1e-12)
        assert not exact.any() or labels is not None  # nothing is left to do where the labels given rule a span out
    values, _, _ = mixture_span_probabilities(*rest[:-1], work=0)
    assume(len(span.labels) == 1 and not span.follower)  # a single instance has its marginal
    np.testing.assert_allclose(values, found.marginals[span.first, span.labels[0]], atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(worlds(min_nodes=1, min_relations=1), SEEDS)
def test_neither_threads_nor_other_spans_change_the_probability_of_a_span(drawn, seed):
    world, params = drawn
    wiring, scores = wired(world, params)
    rng, alpha = np.random.default_rng(seed), alphas(world, params, wiring.dag)
    (found,) = beliefs([wiring], scores, [alpha])
    spans, (_, continues, _) = [some_span(world, rng)[0] for _ in range(5)], some_span(world, rng)
    several = mixture_span_probabilities(wiring, scores, alpha, found, spans, continues, n_jobs=3)
    alone = [mixture_span_probabilities(wiring, scores, alpha, found, [one], continues).values[0] for one in spans]
    np.testing.assert_array_equal(several.values, alone)


def test_no_span_has_no_probability():
    dag = build_dag([], np.zeros(1, int))
    wiring = Wiring(dag, np.zeros(1, np.int64), np.full(1, -1))
    scores = Scores(np.zeros((1, 2), np.float32), np.zeros((0, 2, 2)), np.zeros(2), np.zeros((0, 4)))
    (found,) = beliefs([wiring], scores, [np.ones(1)])
    none = mixture_span_probabilities(wiring, scores, np.ones(1), found, [], np.zeros((2, 2), bool))
    assert none.values.shape == none.exact.shape == (0,)
