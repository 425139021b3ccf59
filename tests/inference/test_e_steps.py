"""The labels that structured training asks for, beside enumeration: Algorithms 1 and 2 and the exact E-step."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linkage_oracle as oracle
from kinfolk.inference.clustering import E_STEPS, e_step

EXAMPLES = settings(max_examples=150, deadline=None)


@st.composite
def decisions(draw, max_items=6, max_pairs=10):
    """(n, left, right, truth, h*, h', score): decisions of a local model, generic scores, and single-link closure."""
    n = draw(st.integers(0, max_items))
    every = sorted(itertools.combinations(range(n), 2), key=lambda pair: pair[::-1])
    pairs = [pair for pair in every if draw(st.booleans())][:max_pairs]
    entity = [draw(st.integers(0, 2)) for _ in range(n)]
    left, right = np.array(pairs, np.int32).reshape(-1, 2).T.copy()
    truth = np.array([entity[i] == entity[j] for i, j in pairs], np.int8)
    score = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).normal(size=len(pairs))
    decided = (score > 0).astype(np.int8)
    clustered = np.array(oracle.closed_decisions(n, left, right, decided), np.int8)
    return n, left, right, truth, decided, clustered, score


@EXAMPLES
@given(world=decisions())
def test_nearest(world):
    _, _, _, truth, decided, clustered, _ = world
    found = e_step("nearest", *world)
    assert found.dtype == np.int8
    assert tuple(found) == oracle.nearest(truth, decided, clustered)


@EXAMPLES
@given(world=decisions())
def test_spanning(world):
    n, left, right, truth, decided, clustered, score = world
    found = e_step("spanning", *world)
    assert found.dtype == np.int8
    assert tuple(found) in oracle.spanning(n, left, right, truth, decided, clustered, np.exp(-score / 2))


@EXAMPLES
@given(world=decisions())
def test_exact(world):
    n, left, right, truth, _, _, score = world
    found = e_step("exact", *world)
    assert found.dtype == np.int8
    _, best = oracle.exact_viterbi(n, left, right, truth, 1 / (1 + np.exp(-score)))
    assert tuple(found) in best
    assert oracle.recovers_truth(n, left, right, truth, found)


@EXAMPLES
@given(world=decisions(), clusters=st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_whatever_the_clustering_is(world, clusters):
    """h' may come from any clusterer, not closure alone."""
    n, left, right, truth, decided, _, score = world
    clustered = np.array([clusters[i] == clusters[j] for i, j in zip(left, right, strict=True)], np.int8)
    told = n, left, right, truth, decided, clustered, score
    assert tuple(e_step("nearest", *told)) == oracle.nearest(truth, decided, clustered)
    assert oracle.recovers_truth(n, left, right, truth, e_step("exact", *told))
    np.testing.assert_array_equal(e_step("exact", *told), e_step("exact", *world))
    # of missed pairs, those of some minimum spanning forest, whatever the scores of the pairs that are free
    if not (clustered > truth).any():
        assert tuple(e_step("spanning", *told)) in oracle.spanning(
            n, left, right, truth, decided, clustered, np.exp(-score / 2)
        )


@EXAMPLES
@given(world=decisions())
def test_a_model_that_is_right_is_asked_for_what_it_does(world):
    n, left, right, truth, _, _, score = world
    right_score = np.where(truth == 1, np.abs(score), -np.abs(score))
    told = n, left, right, truth, truth, truth, right_score
    for kind in E_STEPS:
        np.testing.assert_array_equal(e_step(kind, *told), truth)


def test_two_false_links_hide_a_true_one():
    """h* joins 0-2 and 1-2 falsely, so h' = y* on the true pair 0-1: nothing asks for it but the exact E-step."""
    left, right = np.array([0, 0, 1], np.int32), np.array([1, 2, 2], np.int32)
    truth, decided, clustered = (np.array(row, np.int8) for row in ([1, 0, 0], [0, 1, 1], [1, 1, 1]))
    assert oracle.closed_decisions(3, left, right, decided) == tuple(clustered)
    told = 3, left, right, truth, decided, clustered, np.array([-1.0, 1.0, 1.0])
    assert e_step("nearest", *told).tolist() == [0, 0, 0]
    assert e_step("spanning", *told).tolist() == [0, 0, 0]
    assert e_step("exact", *told).tolist() == [1, 0, 0]
    assert not oracle.recovers_truth(3, left, right, truth, [0, 0, 0])


def test_links_that_others_stand_in_for_are_not_asked_for():
    """A chain 0-1-2-3 of sure links: the pairs it implies may stay refused; cut at 1-2, one link mends it."""
    pairs = sorted(itertools.combinations(range(4), 2), key=lambda pair: pair[::-1])
    left, right = np.array(pairs, np.int32).T.copy()
    chain = {(0, 1), (1, 2), (2, 3)}
    truth = np.ones(6, np.int8)
    decided = np.array([pair in chain for pair in pairs], np.int8)
    score = np.where(decided, 2.0, -2.0)
    for kind in E_STEPS:
        assert e_step(kind, 4, left, right, truth, decided, truth, score).tolist() == decided.tolist()
    cut = np.array([pair in chain - {(1, 2)} for pair in pairs], np.int8)
    clustered = np.array(oracle.closed_decisions(4, left, right, cut), np.int8)
    score = np.array([{(0, 1): 2.0, (2, 3): 2.0, (0, 3): -0.5}.get(pair, -2.0) for pair in pairs])
    mended = [int(pair in {(0, 1), (2, 3), (0, 3)}) for pair in pairs]
    for kind in ("spanning", "exact"):
        assert e_step(kind, 4, left, right, truth, cut, clustered, score).tolist() == mended
    assert e_step("nearest", 4, left, right, truth, cut, clustered, score).tolist() == [1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("kind", E_STEPS)
def test_nothing_to_decide(kind):
    none, bits = np.empty(0, np.int32), np.empty(0, np.int8)
    assert e_step(kind, 3, none, none, bits, bits, bits, np.empty(0)).shape == (0,)
    false = np.zeros(1, np.int8)
    pair = np.zeros(1, np.int32), np.ones(1, np.int32)
    assert e_step(kind, 2, *pair, false, false, false, np.array([-1.0])).tolist() == [0]


def test_of_all_cases_of_four_items_the_paper_s_algorithms_miss_the_truth_in_many():
    """15 truths beside 64 sets of decisions; the guide has these counts."""
    left, right = np.array(list(itertools.combinations(range(4), 2)), np.int32).T.copy()
    truths = {tuple(oracle.closed_decisions(4, left, right, bits)) for bits in itertools.product((0, 1), repeat=6)}
    fails = dict.fromkeys(E_STEPS, 0)
    for truth, bits in itertools.product(truths, itertools.product((0, 1), repeat=6)):
        decided, clustered = np.array(bits, np.int8), np.array(oracle.closed_decisions(4, left, right, bits), np.int8)
        score = np.where(decided == 1, 1.0, -1.0) * np.linspace(1, 2, 6)
        for kind in E_STEPS:
            asked = e_step(kind, 4, left, right, np.array(truth, np.int8), decided, clustered, score)
            fails[kind] += not oracle.recovers_truth(4, left, right, truth, asked)
    assert len(truths) == 15 and fails == {"nearest": 217, "spanning": 229, "exact": 0}
