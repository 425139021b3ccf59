"""The oracles against numbers worked by hand, and against themselves.

The worked example has two tokens and two labels. As factors (exp of the potentials):

    start = [1, 2]   node = [[1, 3], [2, 1]]   pair = [[1, 4], [2, 1]]   end = [1, 3]

    y   start * node0 * pair * node1 * end
    00  1 * 1 * 1 * 2 * 1 =  2
    01  1 * 1 * 4 * 1 * 3 = 12
    10  2 * 3 * 2 * 2 * 1 = 24
    11  2 * 3 * 1 * 1 * 3 = 18     total 56

    As a MEMM: P(y_0) = [1, 6] / 7, P(y_1 | 0) = [2, 4] / 6, P(y_1 | 1) = [4, 1] / 5.
"""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import oracles as o
from strategies import Chain, ChainDataset, allowed_masks, chain_datasets, chains, masked_chains

START = np.log([1.0, 2.0])
NODE = np.log([[1.0, 3.0], [2.0, 1.0]])
PAIR = np.log([[1.0, 4.0], [2.0, 1.0]])
END = np.log([1.0, 3.0])
HAND = Chain(NODE, PAIR, START, END)
FIRST_IS_1 = np.array([[False, True], [True, True]])

quick = settings(max_examples=50, deadline=None, database=None)


def sequence(labels: list[int], weight: float = 1.0, Z: o.FloatArray | None = None) -> o.ChainSequence:
    """The worked example as features: with X the identity, W is NODE."""
    return {"X": np.eye(2), "labels": np.array(labels), "weight": weight, "Z": Z}


# ------------------------------------------------------------------------------------------------- by hand


def test_log_sum_exp_by_hand() -> None:
    assert o.log_sum_exp(np.log([1.0, 2.0, 5.0])) == pytest.approx(log(8))
    assert o.log_sum_exp(np.array([1000.0, 1000.0, -np.inf])) == pytest.approx(1000 + log(2))
    assert o.log_sum_exp(np.array([-np.inf, -np.inf])) == -np.inf
    assert o.log_sum_exp(np.array([])) == -np.inf


def test_enumerates_in_lexicographic_order() -> None:
    assert o.enumerate_labellings(2, 2).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert o.enumerate_labellings(2, 2, FIRST_IS_1).tolist() == [[1, 0], [1, 1]]
    assert o.enumerate_labellings(0, 3).shape == (1, 0)
    assert o.enumerate_labellings(2, 2, np.array([[True, True], [False, False]])).shape == (0, 2)


def test_known_labels_mask_by_hand() -> None:
    assert o.known_labels_mask(np.array([-1, 1]), 2).tolist() == [[True, True], [False, True]]
    with pytest.raises(ValueError):
        o.known_labels_mask(np.array([2]), 2)
    with pytest.raises(ValueError):
        o.known_labels_mask(np.array([-2]), 2)


@pytest.mark.parametrize(("y", "factor"), [((0, 0), 2), ((0, 1), 12), ((1, 0), 24), ((1, 1), 18)])
def test_chain_score_by_hand(y: tuple[int, int], factor: int) -> None:
    assert o.chain_score(*HAND, y) == pytest.approx(log(factor))


def test_chain_partition_and_marginals_by_hand() -> None:
    assert o.chain_log_partition(*HAND) == pytest.approx(log(56))
    assert_allclose(o.chain_node_marginals(*HAND), np.array([[14, 42], [26, 30]]) / 56)
    pairs = o.chain_pair_marginals(*HAND)
    assert_allclose(pairs[0], 0)
    assert_allclose(pairs[1], np.array([[2, 12], [24, 18]]) / 56)


def test_chain_with_a_forced_label_by_hand() -> None:
    assert o.chain_log_partition(*HAND, FIRST_IS_1) == pytest.approx(log(42))
    assert_allclose(o.chain_node_marginals(*HAND, FIRST_IS_1), [[0.0, 1.0], [24 / 42, 18 / 42]])
    assert_allclose(o.chain_pair_marginals(*HAND, FIRST_IS_1)[1], [[0.0, 0.0], [24 / 42, 18 / 42]])
    first_is_0 = np.array([[True, False], [True, True]])
    assert o.chain_best(*HAND, first_is_0)[0] == (0, 1)
    assert [y for y, _ in o.chain_k_best(*HAND, 9, first_is_0)] == [(0, 1), (0, 0)]


def test_chain_with_a_forbidden_pair_by_hand() -> None:
    pair = PAIR.copy()
    pair[1, 0] = -np.inf
    assert o.chain_score(NODE, pair, START, END, (1, 0)) == -np.inf
    assert o.chain_log_partition(NODE, pair, START, END) == pytest.approx(log(32))
    assert_allclose(o.chain_node_marginals(NODE, pair, START, END), np.array([[14, 18], [2, 30]]) / 32)
    assert o.chain_best(NODE, pair, START, END)[0] == (1, 1)
    assert len(o.chain_k_best(NODE, pair, START, END, 4)) == 3


def test_chain_best_by_hand() -> None:
    labelling, score = o.chain_best(*HAND)
    assert labelling == (1, 0)
    assert score == pytest.approx(log(24))
    ranked = o.chain_k_best(*HAND, 3)
    assert [y for y, _ in ranked] == [(1, 0), (1, 1), (0, 1)]
    assert_allclose([exp(s) for _, s in ranked], [24, 18, 12])


def test_chain_best_of_ties_is_the_first() -> None:
    zeros = Chain(np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(2), np.zeros(2))
    assert [y for y, _ in o.chain_k_best(*zeros, 3)] == [(0, 0), (0, 1), (1, 0)]


def test_per_token_pairs_are_read_at_their_own_token() -> None:
    """Three tokens of zeros but for pair[1, 0, 1] = log 3 and pair[2, 1, 0] = log 5.

    Factors: 000 1, 001 1, 010 3 * 5, 011 3, 100 1, 101 1, 110 5, 111 1: total 28.
    """
    pair = np.zeros((3, 2, 2))
    pair[0] = np.nan  # never read
    pair[1, 0, 1] = log(3)
    pair[2, 1, 0] = log(5)
    chain = Chain(np.zeros((3, 2)), pair, np.zeros(2), np.zeros(2))
    assert o.chain_log_partition(*chain) == pytest.approx(log(28))
    assert o.chain_score(*chain, (0, 1, 0)) == pytest.approx(log(15))
    assert_allclose(o.chain_node_marginals(*chain), np.array([[20, 8], [4, 24], [22, 6]]) / 28)
    assert_allclose(o.chain_pair_marginals(*chain)[2], np.array([[2, 2], [20, 4]]) / 28)


@pytest.mark.parametrize(
    ("span_start", "labels", "forbidden_next", "mass"),
    [
        (0, [1], {1}, 24),  # 10
        (0, [1], {0}, 18),  # 11
        (0, [1], set(), 42),  # 10, 11
        (0, [1], {0, 1}, 0),
        (1, [0], {0, 1}, 26),  # 00, 10: the span ends the sequence
        (0, [0, 1], {0, 1}, 12),  # 01
        (0, [], {1}, 14),  # 00, 01
    ],
)
def test_span_probability_by_hand(span_start: int, labels: list[int], forbidden_next: set[int], mass: int) -> None:
    assert o.chain_span_probability(*HAND, span_start, labels, forbidden_next) == pytest.approx(mass / 56)


def test_span_must_lie_within_the_sequence() -> None:
    with pytest.raises(ValueError):
        o.chain_span_probability(*HAND, 1, [0, 0], set())


def test_max_expected_correct_by_hand() -> None:
    """Marginals [[14, 42], [26, 30]] / 56, so sums 00 40, 01 44, 10 68, 11 72."""
    marginals = o.chain_node_marginals(*HAND)
    every_pair, any_label = np.ones((2, 2), dtype=bool), np.ones(2, dtype=bool)
    not_1 = np.array([True, False])

    free = o.chain_max_expected_correct(marginals, every_pair, any_label, any_label)
    assert free[0] == (1, 1) != o.chain_best(*HAND)[0]
    assert free[1] == pytest.approx(72 / 56)

    no_1_1 = np.array([[True, True], [True, False]])
    assert o.chain_max_expected_correct(marginals, no_1_1, any_label, any_label)[0] == (1, 0)
    no_1_0 = np.array([[True, True], [False, True]])
    assert o.chain_max_expected_correct(marginals, no_1_0, any_label, not_1)[0] == (0, 0)
    assert o.chain_max_expected_correct(marginals, every_pair, not_1, any_label)[0] == (0, 1)
    assert o.chain_max_expected_correct(marginals, every_pair, any_label, not_1)[0] == (1, 0)
    assert o.chain_max_expected_correct(np.zeros((0, 2)), every_pair, not_1, not_1) == ((), 0.0)
    with pytest.raises(ValueError):
        o.chain_max_expected_correct(marginals, ~every_pair, any_label, any_label)


def test_crf_loss_by_hand() -> None:
    def loss(*sequences: o.ChainSequence) -> float:
        return o.crf_loss(sequences, NODE, PAIR, START, END)

    assert loss(sequence([1, 1])) == pytest.approx(log(56 / 18))
    assert loss(sequence([1, -1])) == pytest.approx(log(56 / 42))
    assert loss(sequence([-1, 0])) == pytest.approx(log(56 / 26))
    assert loss(sequence([-1, -1])) == 0
    assert loss(sequence([1, 1], 2.0), sequence([0, -1], 0.5), sequence([0, 0], 0.0)) == pytest.approx(
        2 * log(56 / 18) + 0.5 * log(56 / 14)
    )


def test_crf_loss_of_an_impossible_label_is_infinite() -> None:
    start = np.array([0.0, -np.inf])
    assert o.crf_loss([sequence([1, 0])], NODE, PAIR, start, END) == np.inf
    assert o.crf_loss([sequence([1, 0], 0.0)], NODE, PAIR, start, END) == 0


def test_pair_features_add_to_transitions() -> None:
    """Z[1] = [1, 2] with U = [a, b] and T = PAIR - a - 2 b gives pair[1] = PAIR; Z[0] never matters."""
    a, b = np.array([[0.3, -1.0], [2.0, 0.5]]), np.array([[1.0, 0.25], [-0.5, 4.0]])
    T, U = PAIR - a - 2 * b, np.stack([a, b])
    conjoined = sequence([1, -1], 1.0, Z=np.array([[7.0, -7.0], [1.0, 2.0]]))
    assert o.crf_loss([conjoined], NODE, T, START, END, U) == pytest.approx(log(56 / 42))
    assert o.memm_loss([sequence([-1, 0], 1.0, conjoined["Z"])], NODE, T, START, U) == pytest.approx(log(15 / 11))
    plain = sequence([1, -1])  # no Z: U has nothing to act on
    assert o.crf_loss([plain], NODE, PAIR, START, END, U) == pytest.approx(log(56 / 42))


def test_memm_by_hand() -> None:
    joint = o.memm_joint(NODE, PAIR, START)
    assert joint == pytest.approx({(0, 0): 1 / 21, (0, 1): 2 / 21, (1, 0): 24 / 35, (1, 1): 6 / 35})
    assert_allclose(o.memm_marginals(NODE, PAIR, START), [[1 / 7, 6 / 7], [11 / 15, 4 / 15]])
    labelling, score = o.memm_best(NODE, PAIR, START)
    assert labelling == (1, 0)
    assert score == pytest.approx(log(24 / 35))
    ranked = o.memm_k_best(NODE, PAIR, START, 9)
    assert [y for y, _ in ranked] == [(1, 0), (1, 1), (0, 1), (0, 0)]


def test_memm_with_a_forced_label_by_hand() -> None:
    last_is_0 = np.array([[True, True], [True, False]])
    assert o.memm_log_total(NODE, PAIR, START, last_is_0) == pytest.approx(log(11 / 15))
    assert_allclose(o.memm_marginals(NODE, PAIR, START, last_is_0), [[5 / 77, 72 / 77], [1.0, 0.0]])
    last_is_1 = np.array([[True, True], [False, True]])
    assert o.memm_best(NODE, PAIR, START, last_is_1)[0] == (1, 1)


def test_memm_loss_by_hand() -> None:
    def loss(*sequences: o.ChainSequence) -> float:
        return o.memm_loss(sequences, NODE, PAIR, START)

    assert loss(sequence([1, -1])) == pytest.approx(log(7 / 6))
    assert loss(sequence([-1, 0])) == pytest.approx(log(15 / 11))
    assert loss(sequence([0, 1], 3.0), sequence([1, 0])) == pytest.approx(3 * log(21 / 2) + log(35 / 24))
    assert loss(sequence([-1, -1])) == pytest.approx(0)


def test_memm_dead_end() -> None:
    pair = PAIR.copy()
    pair[0] = -np.inf
    with pytest.raises(ValueError, match="no possible label at 1 after label 0"):
        o.memm_joint(NODE, pair, START)
    unreached = np.array([-np.inf, 0.0])  # label 0 is never reached: its dead end does not matter
    joint = o.memm_joint(NODE, pair, unreached)
    assert joint == pytest.approx({(0, 0): 0, (0, 1): 0, (1, 0): 4 / 5, (1, 1): 1 / 5})


def test_maxent_loss_by_hand() -> None:
    X = np.eye(2)
    assert o.maxent_loss(X, np.array([1, 0]), NODE, np.array([2.0, 1.0])) == pytest.approx(2 * log(4 / 3) + log(3 / 2))
    assert o.maxent_loss(X, np.array([-1, 0]), NODE, np.array([2.0, 1.0])) == pytest.approx(log(3 / 2))
    assert o.maxent_loss(X, np.array([0, 1]), NODE) == pytest.approx(log(4) + log(3))
    assert o.maxent_loss(X, np.array([-1, -1]), NODE) == 0


def test_penalties_by_hand() -> None:
    w = np.array([1.0, -2.0, 0.0])
    assert o.ridge(w, 3.0) == pytest.approx(7.5)
    assert o.lasso(w, 3.0) == pytest.approx(9.0)


def test_finite_differences_by_hand() -> None:
    def f(x: o.FloatArray) -> float:
        return float(x[0] ** 3 * x[1] + np.exp(x[1]))

    x = np.array([2.0, 1.0])
    assert_allclose(o.finite_difference_gradient(f, x), [12.0, 8.0 + exp(1)], rtol=1e-9)
    assert_allclose(o.finite_difference_gradient(f, x, step=1e-3), [12.0, 8.0 + exp(1)], rtol=1e-11)
    assert_allclose(x, [2.0, 1.0])
    assert o.finite_difference_gradient(lambda _: 1.0, np.zeros(0)).shape == (0,)


def test_flatten_and_unflatten_are_inverse() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.array([9.0])
    x = o.flatten(a, b)
    assert x.tolist() == [0, 1, 2, 3, 4, 5, 9]
    back = o.unflatten(x, (2, 3), (1,))
    assert_allclose(back[0], a)
    assert_allclose(back[1], b)
    with pytest.raises(ValueError):
        o.unflatten(x, (2, 3))


def test_empty_sequence() -> None:
    """The one labelling is empty, with score 0 and probability 1, whatever start and end say."""
    for pair in (np.zeros((2, 2)), np.zeros((0, 2, 2))):
        empty = Chain(np.zeros((0, 2)), pair, START, np.full(2, -np.inf))
        assert o.chain_score(*empty, ()) == 0
        assert o.chain_log_partition(*empty) == 0
        assert o.chain_best(*empty) == ((), 0.0)
        assert o.chain_k_best(*empty, 5) == [((), 0.0)]
        assert o.chain_node_marginals(*empty).shape == (0, 2)
        assert o.chain_pair_marginals(*empty).shape == (0, 2, 2)
        assert o.memm_joint(empty.node, pair, START) == {(): 1.0}
        assert o.memm_marginals(empty.node, pair, START).shape == (0, 2)


def test_no_possible_labelling() -> None:
    never = Chain(NODE, np.full((2, 2), -np.inf), START, END)
    assert o.chain_log_partition(*never) == -np.inf
    assert o.chain_k_best(*never, 3) == []
    for question in (o.chain_best, o.chain_node_marginals, o.chain_pair_marginals):
        with pytest.raises(ValueError):
            question(*never)


def test_shapes_that_would_broadcast_are_refused() -> None:
    with pytest.raises(ValueError):
        o.chain_log_partition(NODE, np.zeros((1, 2, 2)), START, END)
    with pytest.raises(ValueError):
        o.chain_log_partition(NODE, PAIR, np.zeros(1), END)
    with pytest.raises(ValueError):
        o.chain_log_partition(NODE, PAIR, START, END, np.ones((1, 2), dtype=bool))
    with pytest.raises(ValueError):
        o.chain_score(*HAND, (0,))


# -------------------------------------------------------------------------------------------- consistency


@pytest.mark.parametrize(("T", "L"), [(0, 3), (1, 1), (1, 4), (3, 2), (4, 3)])
def test_zero_potentials_count_labellings(T: int, L: int) -> None:
    zeros = Chain(np.zeros((T, L)), np.zeros((L, L)), np.zeros(L), np.zeros(L))
    assert o.chain_log_partition(*zeros) == pytest.approx(T * log(L))
    assert_allclose(o.chain_node_marginals(*zeros), np.full((T, L), 1 / L))
    assert len(o.chain_k_best(*zeros, L**T)) == len(o.chain_k_best(*zeros, L**T + 1)) == L**T
    assert o.memm_best(*zeros[:3])[1] == pytest.approx(-T * log(L))


@quick
@given(masked_chains(max_tokens=4, max_labels=3, min_tokens=0))
def test_scores_agree_with_the_vectorised_scores(chain_and_mask: tuple[Chain, o.BoolArray]) -> None:
    chain, allowed = chain_and_mask
    T, L = chain.node.shape
    labellings = o.enumerate_labellings(T, L, allowed)
    one_by_one = [o.chain_score(*chain, y) for y in labellings.tolist()]
    assert_allclose(o.chain_scores(*chain, labellings), one_by_one)


@quick
@given(masked_chains(max_tokens=4, max_labels=3, min_tokens=0))
def test_marginals_add_up(chain_and_mask: tuple[Chain, o.BoolArray]) -> None:
    chain, allowed = chain_and_mask
    nodes = o.chain_node_marginals(*chain, allowed)
    pairs = o.chain_pair_marginals(*chain, allowed)
    assert_allclose(nodes.sum(axis=1), 1)
    assert (nodes[~allowed] == 0).all()
    assert (pairs[:1] == 0).all()
    assert_allclose(pairs[1:].sum(axis=1), nodes[1:], atol=1e-12)
    assert_allclose(pairs[1:].sum(axis=2), nodes[:-1], atol=1e-12)


@quick
@given(chains(max_tokens=4, max_labels=3))
def test_forcing_a_label_splits_the_partition(chain: Chain) -> None:
    """P(y_t = j) = Z(y_t forced to j) / Z."""
    T, L = chain.node.shape
    marginals = o.chain_node_marginals(*chain)
    total = o.chain_log_partition(*chain)
    for t in range(T):
        for j in range(L):
            labels = np.full(T, -1)
            labels[t] = j
            part = o.chain_log_partition(*chain, o.known_labels_mask(labels, L))
            assert marginals[t, j] == pytest.approx(exp(part - total), abs=1e-12)


@quick
@given(masked_chains(max_tokens=4, max_labels=3, min_tokens=0))
def test_k_best_lists_every_possible_labelling(chain_and_mask: tuple[Chain, o.BoolArray]) -> None:
    chain, allowed = chain_and_mask
    T, L = chain.node.shape
    ranked = o.chain_k_best(*chain, L**T, allowed)
    scores = np.array([score for _, score in ranked])
    assert len({y for y, _ in ranked}) == len(ranked) >= 1
    assert (np.diff(scores) <= 0).all()
    assert np.isfinite(scores).all()
    assert o.log_sum_exp(scores) == pytest.approx(o.chain_log_partition(*chain, allowed))
    assert ranked[0] == o.chain_best(*chain, allowed)
    assert ranked[:2] == o.chain_k_best(*chain, 2, allowed)
    assert all(allowed[t, label] for y, _ in ranked for t, label in enumerate(y))


@quick
@given(chains(max_tokens=4, max_labels=3))
def test_span_probabilities_agree_with_marginals(chain: Chain) -> None:
    T, L = chain.node.shape
    nodes, pairs = o.chain_node_marginals(*chain), o.chain_pair_marginals(*chain)
    for t in range(T):
        for i in range(L):
            open_ended = o.chain_span_probability(*chain, t, [i], set())
            assert open_ended == pytest.approx(nodes[t, i], abs=1e-12)
            closed = o.chain_span_probability(*chain, t, [i], {0})
            followed_by_0 = pairs[t + 1, i, 0] if t + 1 < T else 0.0
            assert closed == pytest.approx(nodes[t, i] - followed_by_0, abs=1e-12)


@quick
@given(chains(max_tokens=4, max_labels=3))
def test_unconstrained_expected_correct_picks_the_best_label_of_each_token(chain: Chain) -> None:
    marginals = o.chain_node_marginals(*chain)
    L = marginals.shape[1]
    anything = np.ones((L, L), dtype=bool)
    _, total = o.chain_max_expected_correct(marginals, anything, anything[0], anything[0])
    assert total == pytest.approx(marginals.max(axis=1).sum())


@quick
@given(chains(max_tokens=4, max_labels=3, min_tokens=0, no_dead_ends=True))
def test_memm_joint_is_a_distribution(chain: Chain) -> None:
    T, L = chain.node.shape
    potentials = chain[:3]
    joint = o.memm_joint(*potentials)
    assert len(joint) == L**T
    assert sum(joint.values()) == pytest.approx(1)
    assert o.memm_log_total(*potentials) == pytest.approx(0, abs=1e-12)
    marginals = o.memm_marginals(*potentials)
    for t in range(T):
        for j in range(L):
            mass = sum(p for y, p in joint.items() if y[t] == j)
            assert marginals[t, j] == pytest.approx(mass, abs=1e-12)
    ranked = o.memm_k_best(*potentials, L**T)
    assert ranked[0] == o.memm_best(*potentials)
    assert exp(ranked[0][1]) == pytest.approx(max(joint.values()))
    assert (np.diff([score for _, score in ranked]) <= 0).all()


@quick
@given(masked_chains(max_tokens=4, max_labels=3, min_tokens=0, no_dead_ends=True))
def test_memm_masks_condition_the_joint(chain_and_mask: tuple[Chain, o.BoolArray]) -> None:
    chain, allowed = chain_and_mask
    T, L = chain.node.shape
    kept = {y: p for y, p in o.memm_joint(*chain[:3]).items() if all(allowed[t, label] for t, label in enumerate(y))}
    log_total = o.memm_log_total(*chain[:3], allowed)
    assert exp(log_total) == pytest.approx(sum(kept.values()))
    ranked = o.memm_k_best(*chain[:3], L**T, allowed)
    assert {y for y, _ in ranked} <= set(kept)
    assert_allclose([exp(score) for _, score in ranked], [kept[y] for y, _ in ranked])
    marginals = o.memm_marginals(*chain[:3], allowed)
    by_rank = np.zeros((T, L))
    for y, score in ranked:
        by_rank[range(T), y] += exp(score - log_total)
    assert_allclose(marginals, by_rank, atol=1e-12)


@quick
@given(chains(max_tokens=4, max_labels=3, no_dead_ends=True))
def test_the_future_does_not_move_a_memm(chain: Chain) -> None:
    """Marginals of a prefix are the marginals of the whole: later evidence cannot reach back."""
    whole = o.memm_marginals(*chain[:3])
    short = len(chain.node) - 1
    pair = chain.pair if chain.pair.ndim == 2 else chain.pair[:short]
    assert_allclose(o.memm_marginals(chain.node[:short], pair, chain.start), whole[:short], atol=1e-12)


@quick
@given(chains(max_tokens=4, max_labels=3, allow_forbidden=False))
def test_without_pairs_crf_memm_and_maxent_agree(chain: Chain) -> None:
    T, L = chain.node.shape
    none = np.zeros((L, L)), np.zeros(L)
    crf = o.chain_node_marginals(chain.node, *none, none[1])
    assert_allclose(o.memm_marginals(chain.node, *none), crf, atol=1e-12)
    labels = chain.node.argmin(axis=1)
    one: o.ChainSequence = {"X": np.eye(T), "labels": labels, "weight": 1.0, "Z": None}
    loss = o.maxent_loss(np.eye(T), labels, chain.node)
    assert o.crf_loss([one], chain.node, *none, none[1]) == pytest.approx(loss)
    assert o.memm_loss([one], chain.node, *none) == pytest.approx(loss)


@settings(quick, max_examples=15)
@given(chain_datasets(max_sequences=2, max_tokens=3))
def test_crf_gradient_is_expected_minus_observed_counts(dataset: ChainDataset) -> None:
    """d loss / d W[f, j] = sum weight * sum_t X[t, f] (P(y_t = j) - P(y_t = j | known)); likewise T."""
    sequences, W, T, start, end, U = dataset

    def loss(x: o.FloatArray) -> float:
        W_x, T_x = o.unflatten(x, W.shape, T.shape)
        return o.crf_loss(sequences, W_x, T_x, start, end, U)

    W_grad, T_grad = np.zeros_like(W), np.zeros_like(T)
    for seq in sequences:
        potentials = (*o.linear_potentials(seq, W, T, U), start, end)
        known = o.known_labels_mask(seq["labels"], len(T))
        nodes = o.chain_node_marginals(*potentials) - o.chain_node_marginals(*potentials, known)
        pairs = o.chain_pair_marginals(*potentials) - o.chain_pair_marginals(*potentials, known)
        W_grad += seq["weight"] * seq["X"].T @ nodes
        T_grad += seq["weight"] * pairs.sum(axis=0)
    measured = o.finite_difference_gradient(loss, o.flatten(W, T), step=1e-3)
    assert_allclose(measured, o.flatten(W_grad, T_grad), rtol=1e-6, atol=1e-8)


@quick
@given(chain_datasets())
def test_losses_are_not_negative_and_knowing_less_costs_less(dataset: ChainDataset) -> None:
    sequences, W, T, start, end, U = dataset
    vaguer: list[o.ChainSequence] = []
    for seq in sequences:
        labels = seq["labels"].copy()
        labels[0] = -1
        vaguer.append({**seq, "labels": labels})
    crf, crf_vague = (o.crf_loss(s, W, T, start, end, U) for s in (sequences, vaguer))
    memm, memm_vague = (o.memm_loss(s, W, T, start, U) for s in (sequences, vaguer))
    assert crf >= crf_vague - 1e-9 >= -2e-9
    assert memm >= memm_vague - 1e-9 >= -2e-9
    assert o.crf_loss(*dataset) == crf


# --------------------------------------------------------------------------------------------- strategies


@quick
@given(chains(min_tokens=0))
def test_chains_have_a_possible_labelling(chain: Chain) -> None:
    assert np.isfinite(o.chain_log_partition(*chain))


@quick
@given(st.data())
def test_masks_leave_a_label_everywhere_and_keep_what_they_must(data: st.DataObject) -> None:
    assert data.draw(allowed_masks(3, 2)).any(axis=1).all()
    kept = data.draw(allowed_masks(3, 2, keep=(1, 0, 1)))
    assert kept[[0, 1, 2], [1, 0, 1]].all()
    assert data.draw(allowed_masks(0, 2)).shape == (0, 2)


@quick
@given(masked_chains(min_tokens=0))
def test_masked_chains_have_a_possible_labelling(chain_and_mask: tuple[Chain, o.BoolArray]) -> None:
    chain, allowed = chain_and_mask
    assert np.isfinite(o.chain_log_partition(*chain, allowed))
