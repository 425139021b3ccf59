"""Hand-worked checks of the brute-force clustering and structured-local-training oracles."""

import itertools
import math
import random

import numpy as np
import pytest

import linkage_oracle as oracle
from linkage_oracle import partition


def groups(*members):
    return frozenset(frozenset(group) for group in members)


def complete(n):
    """All pairs of n items as (left, right)."""
    pairs = list(itertools.combinations(range(n), 2))
    return [i for i, _ in pairs], [j for _, j in pairs]


def split_pairs(scored):
    """(left, right, values) of a dict pair -> value."""
    return [i for i, _ in scored], [j for _, j in scored], list(scored.values())


# Clusterings ---------------------------------------------------------------------------------------------------------


def test_partition_forgets_names_and_takes_arrays():
    assert partition([7, 7, 3]) == partition(np.array([0, 0, 1])) == groups([0, 1], [2])
    assert partition([]) == frozenset()


def test_all_partitions_counts_bell_numbers_without_repeats():
    for n, bell in enumerate([1, 1, 2, 5, 15, 52, 203, 877]):
        found = [partition(ids) for ids in oracle.all_partitions(n)]
        assert len(found) == len(set(found)) == bell


def test_single_link_chains():
    left, right = [0, 1, 3], [1, 2, 4]
    assert oracle.single_link(6, left, right, [1, 1, 0]) == [0, 0, 0, 1, 2, 3]
    assert partition(oracle.single_link(6, left, right, np.array([1, 0, 1]))) == groups([0, 1], [2], [3, 4], [5])
    # A late pair joins two groups that were already built.
    assert partition(oracle.single_link(4, [0, 2, 1], [1, 3, 2], [1, 1, 1])) == groups([0, 1, 2, 3])


def test_closed_decisions_and_transitivity():
    left, right = complete(3)  # (0,1) (0,2) (1,2)
    assert oracle.closed_decisions(3, left, right, [1, 0, 1]) == (1, 1, 1)
    assert not oracle.is_transitive(3, left, right, [1, 0, 1])
    assert oracle.is_transitive(3, left, right, [0, 1, 0])
    assert oracle.is_transitive(3, [0, 1], [1, 2], [1, 1])  # (0, 2) is no candidate


def test_pairs_are_checked():
    for left, right in ([1], [0]), ([0, 0], [1, 1]), ([2], [2]):
        with pytest.raises(ValueError, match="left < right"):
            oracle.single_link(3, left, right, [1] * len(left))


# Agglomeration -------------------------------------------------------------------------------------------------------

CHAIN = {(0, 1): 0.9, (1, 2): 0.8, (0, 2): 0.3}


def test_average_and_complete_link_on_a_chain():
    left, right, p = split_pairs(CHAIN)
    # After {0,1}: mean to 2 is (0.8 + 0.3) / 2 = 0.55, minimum 0.3.
    assert partition(oracle.average_link(3, left, right, p, 0.5)) == groups([0, 1, 2])
    assert partition(oracle.average_link(3, left, right, p, 0.55)) == groups([0, 1], [2])
    assert partition(oracle.complete_link(3, left, right, p, 0.5)) == groups([0, 1], [2])
    assert partition(oracle.complete_link(3, left, right, p, 0.25)) == groups([0, 1, 2])
    assert partition(oracle.constrained_single_link(3, left, right, p, 0.5)) == groups([0, 1, 2])


def test_missing_pairs_count_as_probability_zero():
    left, right, p = split_pairs({(0, 1): 0.9, (1, 2): 0.8})
    assert oracle.linkage(3, left, right, p, {0, 1}, {2}, "average") == 0.4
    assert oracle.linkage(3, left, right, p, {2}, {1, 0}, "complete") == 0.0
    assert partition(oracle.average_link(3, left, right, p, 0.5)) == groups([0, 1], [2])
    assert partition(oracle.average_link(3, left, right, p, 0.375)) == groups([0, 1, 2])
    assert partition(oracle.complete_link(3, left, right, p, 0.0)) == groups([0, 1], [2])


def test_threshold_is_strict():
    for cluster in (oracle.average_link, oracle.complete_link, oracle.constrained_single_link, oracle.best_link):
        assert partition(cluster(2, [0], [1], [0.5], 0.5)) == groups([0], [1])
        assert partition(cluster(2, [0], [1], [0.5], 0.4375)) == groups([0, 1])


def test_ties_go_to_the_smallest_members():
    # 0-1 and 1-2 tie at 0.75: (0, 1) comes first, then 2 has mean 0.375 to {0, 1}.
    left, right, p = split_pairs({(1, 2): 0.75, (0, 1): 0.75})
    assert partition(oracle.average_link(3, left, right, p)) == groups([0, 1], [2])
    assert partition(oracle.complete_link(3, left, right, p)) == groups([0, 1], [2])
    # Order is by the smallest MEMBER of a cluster: after 0-3 (0.875), {0,3}-2 and 1-2 tie at 0.75, {0,3} comes first.
    left, right, p = split_pairs({(0, 3): 0.875, (0, 2): 0.75, (2, 3): 0.75, (1, 2): 0.75})
    assert partition(oracle.average_link(4, left, right, p)) == groups([0, 2, 3], [1])


def test_constraints_on_agglomeration():
    left, right, p = split_pairs(CHAIN)
    for cluster in (oracle.average_link, oracle.complete_link, oracle.constrained_single_link):
        assert partition(cluster(3, left, right, p, cannot_link=[(0, 1)])) == groups([0], [1, 2])
        # must-link pairs are merged whatever their probability; then {0,2}-1 has mean 0.85, minimum 0.8.
        assert partition(cluster(3, left, right, p, must_link=[(0, 2)])) == groups([0, 1, 2])
        assert partition(cluster(3, left, right, p, must_link=[(0, 2)], max_size=2)) == groups([0, 2], [1])
        assert partition(cluster(3, left, right, p, max_size=2)) == groups([0, 1], [2])
        assert partition(cluster(3, left, right, p, max_size=1)) == groups([0], [1], [2])
        # Constraints need not be candidate pairs.
        assert partition(cluster(4, left, right, p, must_link=[(2, 3)], cannot_link=[(1, 3)])) == groups([0, 1], [2, 3])
        with pytest.raises(ValueError, match="contradictory"):
            cluster(3, left, right, p, must_link=[(0, 1), (1, 2)], cannot_link=[(0, 2)])
        with pytest.raises(ValueError, match="contradictory"):
            cluster(3, left, right, p, must_link=[(0, 1), (1, 2)], max_size=2)


def test_constrained_single_link_goes_by_descending_probability_then_pair_order():
    left, right, p = split_pairs({(2, 3): 0.75, (1, 2): 0.75, (0, 1): 0.75})
    assert partition(oracle.constrained_single_link(4, left, right, p, max_size=2)) == groups([0, 1], [2, 3])
    left, right, p = split_pairs({(2, 3): 0.75, (1, 2): 0.875, (0, 1): 0.75})
    assert partition(oracle.constrained_single_link(4, left, right, p, max_size=2)) == groups([0], [1, 2], [3])
    # A refused union does not stop later ones: 0-2 forbidden, so 0-1 then 1-2 refused, 2-3 still joins.
    left, right, p = split_pairs({(0, 1): 0.9, (1, 2): 0.8, (2, 3): 0.7})
    found = oracle.constrained_single_link(4, left, right, p, cannot_link=[(0, 2)])
    assert partition(found) == groups([0, 1], [2, 3])


def test_unconstrained_single_link_is_the_closure():
    rng = random.Random(0)
    left, right = complete(5)
    for _ in range(50):
        p = [rng.random() for _ in left]
        expected = oracle.single_link(5, left, right, [v > 0.7 for v in p])
        assert partition(oracle.constrained_single_link(5, left, right, p, 0.7)) == partition(expected)


def test_average_link_recomputes_after_each_merge():
    # 0-1 (first of the tie at 0.9), then {0,1}-3 at (0.6 + 0.8) / 2 = 0.7, before 2-3 at 0.5 and {0,1}-2 at 0.45;
    # 2 has (0.9 + 0 + 0.5) / 3 = 0.467 to {0,1,3}.
    left, right, p = split_pairs({(0, 1): 0.9, (0, 2): 0.9, (1, 3): 0.8, (2, 3): 0.5, (0, 3): 0.6})
    assert partition(oracle.average_link(4, left, right, p, 0.4)) == groups([0, 1, 2, 3])
    assert partition(oracle.average_link(4, left, right, p, 0.5)) == groups([0, 1, 3], [2])


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="linkage"):
        oracle.agglomerate(2, [0], [1], [0.9], kind="ward")
    with pytest.raises(ValueError, match="kind"):
        oracle.best_link(2, [0], [1], [0.9], kind="first")
    with pytest.raises(ValueError, match="form"):
        oracle.biased_nll(0.0, 1, True, 2.0, "other")


# Best link -----------------------------------------------------------------------------------------------------------


def test_best_link_and_closest_link():
    left, right, p = split_pairs({(0, 2): 0.9, (1, 2): 0.6, (0, 3): 0.7, (2, 3): 0.7, (1, 3): 0.4})
    assert oracle.antecedents(4, left, right, p, kind="closest") == [None, None, 1, 2]
    assert oracle.antecedents(4, left, right, p, kind="best") == [None, None, 0, 2]  # tie 0.7: the closest
    assert partition(oracle.best_link(4, left, right, p, kind="closest")) == groups([0], [1, 2, 3])
    assert partition(oracle.best_link(4, left, right, p, kind="best")) == groups([0, 2, 3], [1])
    # Single link would join all four.
    assert partition(oracle.constrained_single_link(4, left, right, p)) == groups([0, 1, 2, 3])
    assert oracle.antecedents(4, left, right, p, 0.8, "closest") == [None, None, 0, None]


# Correlation clustering ----------------------------------------------------------------------------------------------


def test_correlation_clustering_by_hand():
    # logit 0.9 = log 9, logit 0.8 = log 4, logit 0.2 = -log 4.
    left, right, p = split_pairs({(0, 1): 0.9, (1, 2): 0.8, (0, 2): 0.2})
    value, best = oracle.correlation_clustering(3, left, right, p)
    # All together: log 9 + log 4 - log 4 = log 9, the same as {0,1}{2}: a tie.
    assert value == pytest.approx(math.log(9))
    assert best == {groups([0, 1, 2]), groups([0, 1], [2])}
    value, best = oracle.correlation_clustering(3, left, right, p, threshold=0.6)  # each pair loses log 1.5
    assert value == pytest.approx(math.log(6))
    assert best == {groups([0, 1], [2])}
    value, best = oracle.correlation_clustering(3, left, right, p, threshold=0.4)  # each pair gains log 1.5
    assert value == pytest.approx(math.log(9 * 1.5**3))
    assert best == {groups([0, 1, 2])}


def test_correlation_clustering_penalty_for_missing_pairs():
    left, right, p = split_pairs({(0, 1): 0.9, (1, 2): 0.8})
    assert oracle.correlation_clustering(3, left, right, p)[1] == {groups([0, 1, 2])}
    assert oracle.correlation_objective([0, 0, 0], left, right, p, penalty=1.0) == pytest.approx(math.log(36) - 1.0)
    assert oracle.correlation_clustering(3, left, right, p, penalty=1.3)[1] == {groups([0, 1, 2])}  # log 4 = 1.386
    assert oracle.correlation_clustering(3, left, right, p, penalty=1.5)[1] == {groups([0, 1], [2])}
    # Without a penalty an item that no pair touches may go anywhere.
    assert len(oracle.correlation_clustering(3, [0], [1], [0.9])[1]) == 2


def test_correlation_clustering_constraints():
    left, right, p = split_pairs({(0, 1): 0.9, (1, 2): 0.8, (0, 2): 0.3})
    assert oracle.correlation_clustering(3, left, right, p)[1] == {groups([0, 1, 2])}
    assert oracle.correlation_clustering(3, left, right, p, cannot_link=[(0, 2)])[1] == {groups([0, 1], [2])}
    assert oracle.correlation_clustering(3, left, right, p, max_size=2)[1] == {groups([0, 1], [2])}
    found = oracle.correlation_clustering(3, left, right, p, must_link=[(0, 2)], max_size=2)
    assert found[1] == {groups([0, 2], [1])}
    assert found[0] == pytest.approx(math.log(3 / 7))
    with pytest.raises(ValueError, match="contradictory"):
        oracle.correlation_clustering(3, left, right, p, must_link=[(0, 2)], cannot_link=[(0, 2)])


# One to one ----------------------------------------------------------------------------------------------------------


def test_one_to_one_prefers_two_good_pairs_over_the_single_best():
    # Greedy would take (0, 2) at log 9 and leave nothing for 1 and 3; the two others give 2 log 4 = log 16.
    left, right, p = split_pairs({(0, 2): 0.9, (0, 3): 0.8, (1, 2): 0.8})
    value, best = oracle.one_to_one(4, 2, left, right, p)
    assert best == {frozenset({(0, 3), (1, 2)})}
    assert value == pytest.approx(math.log(16))
    # At threshold 0.7 each pair loses log(7/3): log(16 * 9/49) = log 2.94 < log(9 * 3/7) = log 3.86.
    value, best = oracle.one_to_one(4, 2, left, right, p, 0.7)
    assert best == {frozenset({(0, 2)})}
    assert value == pytest.approx(math.log(27 / 7))


def test_one_to_one_excludes_weak_and_inner_pairs_and_keeps_ties():
    left, right, p = split_pairs({(0, 1): 0.99, (0, 2): 0.5, (1, 3): 0.4})
    assert oracle.one_to_one(4, 2, left, right, p) == (0.0, {frozenset()})
    left, right, p = split_pairs({(0, 2): 0.75, (1, 2): 0.75})
    assert oracle.one_to_one(3, 2, left, right, p)[1] == {frozenset({(0, 2)}), frozenset({(1, 2)})}


# Weakest link --------------------------------------------------------------------------------------------------------


def test_weakest_link_by_hand():
    left, right, p = split_pairs({(0, 1): 0.9, (1, 2): 0.6, (0, 2): 0.55, (2, 3): 0.8, (3, 4): 0.1})
    strength, splits = oracle.weakest_link(left, right, p, [0, 1, 2, 3])
    assert strength == 0.6
    assert splits == {((1, 2), groups([0, 1], [2, 3]))}
    assert oracle.weakest_link(left, right, p, {1, 0}) == (0.9, {((0, 1), groups([0], [1]))})
    for members in ([4], [0, 4], []):
        with pytest.raises(ValueError, match="split needs"):
            oracle.weakest_link(left, right, p, members)


def test_weakest_link_lists_every_answer_of_a_tie():
    left, right, p = split_pairs({(0, 1): 0.75, (1, 2): 0.75, (0, 2): 0.75})
    strength, splits = oracle.weakest_link(left, right, p, [0, 1, 2])
    assert strength == 0.75
    # Three trees of two edges; either edge may go.
    assert splits == {
        (link, groups([one], [i for i in range(3) if i != one])) for link in ((0, 1), (0, 2), (1, 2)) for one in link
    }


def test_weakest_link_agrees_with_rising_thresholds():
    rng = random.Random(1)
    left, right = complete(5)
    pairs = list(zip(left, right, strict=True))
    for _ in range(30):
        chosen = sorted(rng.sample(range(10), 7))
        lefts, rights = [left[k] for k in chosen], [right[k] for k in chosen]
        p = [rng.random() for _ in chosen]
        for members in partition(oracle.single_link(5, lefts, rights, [v > 0.3 for v in p])):
            if len(members) < 2:
                continue
            strength, splits = oracle.weakest_link(lefts, rights, p, members)
            assert strength > 0.3
            ((link, sides),) = splits
            assert p[[pairs[k] for k in chosen].index(link)] == strength
            after = partition(oracle.single_link(5, lefts, rights, [v > strength for v in p]))
            assert {group for group in after if group <= members} == sides
            assert len(sides) == 2


# E-steps -------------------------------------------------------------------------------------------------------------


def test_nearest_by_hand():
    # Columns: missed pair -> truth; false pair -> truth; right -> h*, also where only the closure was right.
    truth, h_star, h_prime = (1, 0, 1, 0, 1), (0, 1, 1, 0, 0), (0, 1, 1, 0, 1)
    assert oracle.nearest(truth, h_star, h_prime) == (1, 0, 1, 0, 0)


def test_spanning_forests_of_a_triangle_and_an_edge():
    found = set(oracle.spanning_forests(6, [(0, 1), (0, 2), (1, 2), (3, 4)]))
    assert found == {frozenset({one, two, (3, 4)}) for one, two in itertools.combinations([(0, 1), (0, 2), (1, 2)], 2)}
    assert list(oracle.spanning_forests(3, [])) == [frozenset()]


def test_spanning_by_hand():
    left, right = complete(3)  # (0,1) (0,2) (1,2)
    truth = (1, 1, 1)
    # Nothing found: the two cheapest edges. phi0 = 0.9, 0.6, 0.7.
    assert oracle.spanning(3, left, right, truth, (0, 0, 0), (0, 0, 0), (0.9, 0.6, 0.7)) == {(0, 1, 1)}
    # Ties: all of them.
    assert oracle.spanning(3, left, right, truth, (0, 0, 0), (0, 0, 0), (0.5, 0.6, 0.6)) == {(1, 1, 0), (1, 0, 1)}
    # (0,1) found already, even at a high cost: free; one more edge.
    assert oracle.spanning(3, left, right, truth, (1, 0, 0), (1, 0, 0), (0.9, 0.6, 0.7)) == {(1, 1, 0)}
    # The closure is right: y' = h*, with (1,2) left as "not coreferent".
    assert oracle.spanning(3, left, right, truth, (1, 1, 0), (1, 1, 1), (0.9, 0.6, 0.7)) == {(1, 1, 0)}
    assert oracle.nearest(truth, (1, 0, 0), (1, 0, 0)) == (1, 1, 1)


def test_a_false_pair_is_unlearned():
    left, right = complete(3)
    truth, h_star = (1, 0, 0), (1, 1, 0)
    h_prime = oracle.closed_decisions(3, left, right, h_star)
    assert oracle.spanning(3, left, right, truth, h_star, h_prime, (0.3, 0.3, 0.3)) == {(1, 0, 0)}
    assert oracle.nearest(truth, h_star, h_prime) == (1, 0, 0)


def test_neither_algorithm_always_recovers_the_truth():
    """Counterexample to single-link(y') = y*: 0 and 1 belong together, but h* links them only through 2.

    h* = {02, 12} closes to h' = {01, 02, 12}. Pair 01 has h' = y* = 1, so y' = h* = 0 there; 02 and 12 are false and
    become 0. y' is empty, and its closure leaves 0 and 1 apart. Both algorithms do the same here.
    """
    left, right = complete(3)
    truth, h_star, h_prime = (1, 0, 0), (0, 1, 1), (1, 1, 1)
    assert oracle.closed_decisions(3, left, right, h_star) == h_prime
    assert oracle.spanning(3, left, right, truth, h_star, h_prime, (0.6, 0.3, 0.3)) == {(0, 0, 0)}
    assert oracle.nearest(truth, h_star, h_prime) == (0, 0, 0)
    assert not oracle.recovers_truth(3, left, right, truth, (0, 0, 0))
    # The exact E-step labels 01 as coreferent; the labelling of Algorithm 1 is "more probable", but not admissible.
    probability = (0.4, 0.7, 0.7)
    value, best = oracle.exact_viterbi(3, left, right, truth, probability)
    assert best == {(1, 0, 0)}
    assert value == pytest.approx(math.log(0.4 * 0.3 * 0.3))
    assert oracle.labelling_log_probability(probability, (0, 0, 0)) > value


def test_algorithm_2_can_recover_what_algorithm_1_does_not():
    """Truth {0,1,2},{3}; h* links 0 and 1 only through 3. The closure of h* is {0,1,3},{2}.

    Algorithm 1 takes 01 for free (h' = y* = 1) and adds one of 02, 12; y' then holds only that pair. Algorithm 2 adds
    both 02 and 12 and so connects 0, 1, 2.
    """
    left, right = complete(4)  # 01 02 03 12 13 23
    truth, h_star = (1, 1, 0, 1, 0, 0), (0, 0, 1, 0, 1, 0)
    h_prime = oracle.closed_decisions(4, left, right, h_star)
    assert h_prime == (1, 0, 1, 0, 1, 0)
    assert oracle.spanning(4, left, right, truth, h_star, h_prime, (0.6, 0.7, 0.4, 0.8, 0.4, 0.9)) == {
        (0, 1, 0, 0, 0, 0)
    }
    assert not oracle.recovers_truth(4, left, right, truth, (0, 1, 0, 0, 0, 0))
    assert oracle.nearest(truth, h_star, h_prime) == (0, 1, 0, 1, 0, 0)
    assert oracle.recovers_truth(4, left, right, truth, (0, 1, 0, 1, 0, 0))


def test_algorithm_1_with_unnormalised_potentials_is_not_the_exact_e_step():
    """Even where it recovers the truth: phi(0) alone need not order the pairs as the log-odds do.

    Truth {0,1,2}, h* = {01}. Pair 02 has phi(0) = 1, phi(1) = 0.9, p = 9/19; pair 12 has phi(0) = 0.5, phi(1) = 0.1,
    p = 1/6. Algorithm 1 adds the cheaper 12; the most probable labelling adds 02.
    """
    left, right = complete(3)
    truth, h_star = (1, 1, 1), (1, 0, 0)
    phi0, phi1 = (1.0, 1.0, 0.5), (2.0, 0.9, 0.1)
    probability = [b / (a + b) for a, b in zip(phi0, phi1, strict=True)]
    assert oracle.spanning(3, left, right, truth, h_star, h_star, phi0) == {(1, 0, 1)}
    assert oracle.exact_viterbi(3, left, right, truth, probability)[1] == {(1, 1, 0)}
    # With phi(0) = 1 - p, or phi(0) = e^(-s/2), both decreasing in the score s, the two agree.
    normal = [1.0 - p for p in probability]
    symmetric = [math.exp(-oracle.logit(p) / 2) for p in probability]
    for costs in (normal, symmetric):
        assert oracle.spanning(3, left, right, truth, h_star, h_star, costs) == {(1, 1, 0)}


def clear_probability(rng, h_star):
    """Distinct probabilities, well apart, above 1/2 exactly where h* is 1."""
    offsets = rng.sample(range(1, 40), len(h_star))
    return [0.5 + 0.012 * k if h else 0.5 - 0.012 * k for h, k in zip(h_star, offsets, strict=True)]


def components(n, left, right, decided):
    return partition(oracle.single_link(n, left, right, decided))


def check_e_steps(n, left, right, truth, h_star, probability):
    """What holds of the two algorithms, for h* = (p > 1/2), h' its closure and phi(0) = 1 - p; returns (1 ok, 2 ok).

    Write A = h* and y*, the found true pairs; Z = h' and y*, the zero-cost edges; B = y* and not h', the missed pairs.

    Neither algorithm ever joins items of two true clusters: y' is 1 only on true pairs (a false pair has y' = 0 if
    h' = 1, and else y' = h* <= h' = 0).

    Algorithm 1 recovers the truth iff A and Z have the same components. The 1s of y' are A and the edges of M in B.
    As B costs more than 0 and Z nothing, M has a spanning forest of Z and exactly c(Z) - c(G) edges in B (c counts
    components). If A and Z have the same components, y' connects what M connects. Otherwise c(A) > c(Z), and y' has at
    least c(A) - (c(Z) - c(G)) > c(G) components. In particular it recovers the truth whenever h' makes no false pair:
    then A = h* and Z = h'.

    Where Algorithm 1 recovers the truth, it is the exact E-step, given that phi(0) falls with the score. Exact: false
    pairs must be 0; a found pair is 1 at no loss; a missed or unfound true pair set to 1 loses the odds (1 - p) / p,
    so the best set is a minimum spanning forest over the components of A by that loss. The true pairs between
    components of A = components of Z are pairs of B, and minimum spanning forests depend on the order of the costs
    only.
    """
    h_prime = oracle.closed_decisions(n, left, right, h_star)
    phi0 = [1.0 - p for p in probability]
    first = oracle.spanning(n, left, right, truth, h_star, h_prime, phi0)
    second = oracle.nearest(truth, h_star, h_prime)
    value, exact = oracle.exact_viterbi(n, left, right, truth, probability)
    found = tuple(h * y for h, y in zip(h_star, truth, strict=True))
    free = tuple(c * y for c, y in zip(h_prime, truth, strict=True))
    for labels in first | {second}:
        assert all(a <= b for a, b in zip(labels, truth, strict=True))
    holds = components(n, left, right, found) == components(n, left, right, free)
    for labels in first:
        assert oracle.recovers_truth(n, left, right, truth, labels) == holds
    assert (first == exact) == holds
    if all(c <= y for c, y in zip(h_prime, truth, strict=True)):
        assert holds
    second_holds = oracle.recovers_truth(n, left, right, truth, second)
    if holds:
        assert second_holds
        assert oracle.labelling_log_probability(probability, second) <= value + oracle.TOLERANCE
        (chosen,) = first
        assert all(a <= b for a, b in zip(chosen, second, strict=True))
    # The repaired Algorithm 1: only FOUND true pairs are free, and every unfound one may be bought.
    repaired = oracle.spanning(n, left, right, truth, found, oracle.closed_decisions(n, left, right, found), phi0)
    assert repaired == exact
    return holds, second_holds


def test_e_steps_on_every_case_of_four_items():
    """All 15 truths and 64 decisions of the 6 pairs of 4 items; counts of the cases that recover the truth."""
    rng = random.Random(2)
    left, right = complete(4)
    counts = [0, 0]
    for ids in oracle.all_partitions(4):
        truth = tuple(int(ids[i] == ids[j]) for i, j in zip(left, right, strict=True))
        for h_star in itertools.product((0, 1), repeat=6):
            holds = check_e_steps(4, left, right, truth, h_star, clear_probability(rng, h_star))
            counts = [total + ok for total, ok in zip(counts, holds, strict=True)]
            # With all pairs as candidates, Algorithm 2 fails iff some true cluster lies within one cluster of h' and
            # the found pairs do not connect it: across clusters of h' it adds every missed pair.
            closed = components(4, left, right, h_star)
            found = components(4, left, right, [h * y for h, y in zip(h_star, truth, strict=True)])
            broken = any(any(group <= cluster for cluster in closed) and group not in found for group in partition(ids))
            assert holds[1] == (not broken)
    assert counts == [731, 743]  # of 960: Algorithm 1, Algorithm 2


def test_e_steps_on_random_candidate_sets():
    rng = random.Random(3)
    left, right = complete(6)
    seen = set()
    for _ in range(60):
        chosen = sorted(rng.sample(range(15), 8))
        lefts, rights = [left[k] for k in chosen], [right[k] for k in chosen]
        ids = rng.choice([[0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1]])
        # Labels closed within the candidate pairs, so that they are the components of their own graph.
        truth = [int(ids[i] == ids[j]) for i, j in zip(lefts, rights, strict=True)]
        h_star = [rng.randrange(2) for _ in chosen]
        seen.add(check_e_steps(6, lefts, rights, truth, h_star, clear_probability(rng, h_star)))
    assert seen >= {(True, True), (False, False)}


def test_pairs_at_one_half_leave_the_exact_e_step_more_ties():
    """At p = 1/2 a pair is free either way: Algorithm 1 (h* = 0 there) returns some of the exact answers only."""
    left, right = complete(3)
    truth, probability = (1, 1, 1), (0.8, 0.5, 0.5)
    first = oracle.spanning(3, left, right, truth, (1, 0, 0), (1, 0, 0), (0.2, 0.5, 0.5))
    assert first == {(1, 1, 0), (1, 0, 1)}
    assert oracle.exact_viterbi(3, left, right, truth, probability)[1] == first | {(1, 1, 1)}


def test_exact_viterbi_by_hand():
    left, right = complete(3)
    # All true, p = 0.9, 0.3, 0.2: keep 01, buy 02 at 0.3 rather than 12 at 0.2.
    value, best = oracle.exact_viterbi(3, left, right, (1, 1, 1), (0.9, 0.3, 0.2))
    assert best == {(1, 1, 0)}
    assert value == pytest.approx(math.log(0.9 * 0.3 * 0.8))
    # Nothing true: all 0 is the only labelling.
    assert oracle.exact_viterbi(3, left, right, (0, 0, 0), (0.9, 0.9, 0.9))[1] == {(0, 0, 0)}


# Biased potentials ---------------------------------------------------------------------------------------------------


def test_closest_coreferent_by_hand():
    left, right = complete(4)  # 01 02 03 12 13 23
    assert oracle.closest_coreferent(left, right, (1, 1, 1, 1, 1, 1)) == (1, 0, 0, 1, 0, 1)
    assert oracle.closest_coreferent(left, right, (1, 0, 1, 0, 1, 0)) == (1, 0, 0, 0, 1, 0)
    # Only candidate pairs count: without (1, 3) the closest for 3 is 0.
    assert oracle.closest_coreferent([0, 0, 0], [1, 3, 2], (1, 1, 0)) == (1, 1, 0)


def test_biased_nll_closed_forms():
    beta = 3.0
    for s in (-2.0, 0.0, 0.7):
        e = math.exp(s)
        plain = {1: -math.log(e / (e + 1)), 0: -math.log(1 / (e + 1))}
        for label in (0, 1):
            for form in oracle.BIAS_FORMS:
                assert oracle.biased_nll(s, label, False, beta, form) == pytest.approx(plain[label])
                assert oracle.biased_nll(s, label, True, 1.0, form) == pytest.approx(plain[label])
            assert oracle.biased_nll(s, label, True, beta, "both") == pytest.approx(plain[label])
            assert oracle.biased_nll(s, label, True, beta, "weight") == pytest.approx(beta * plain[label])
        assert oracle.biased_nll(s, 1, True, beta, "factor") == pytest.approx(-math.log(beta * e / (beta * e + 1)))
        assert oracle.biased_nll(s, 0, True, beta, "factor") == pytest.approx(-math.log(beta / (e + beta)))
        assert oracle.biased_nll(s, 1, True, beta, "margin") == pytest.approx(-math.log(e / (e + beta)))
        assert oracle.biased_nll(s, 0, True, beta, "margin") == pytest.approx(-math.log(1 / (beta * e + 1)))
        power = math.exp(beta * s)
        assert oracle.biased_nll(s, 1, True, beta, "exponent") == pytest.approx(-math.log(power / (power + 1)))


def test_which_forms_pull_a_coreferent_pair_harder():
    """Slope of the loss in s at s = 0 for a biased coreferent pair, beta = 3: plain -1/2; "factor" -1/(1 + beta) =
    -1/4, so it pulls LESS, while "margin" -beta/(1 + beta) = -3/4, "weight" and "exponent" -beta/2 pull more."""
    step = 1e-5
    slopes = {
        form: (oracle.biased_nll(step, 1, True, 3.0, form) - oracle.biased_nll(-step, 1, True, 3.0, form)) / (2 * step)
        for form in oracle.BIAS_FORMS
    }
    assert slopes == pytest.approx({"both": -0.5, "factor": -0.25, "margin": -0.75, "weight": -1.5, "exponent": -1.5})


def test_one_parameter_optima_of_the_forms():
    """One feature that is always on, a coreferent pairs (all biased) and b others, no prior: the best weight is
    log(a/b) plain, log(beta a/b) under "weight", and under "factor" the score that trades a/(1 + beta e^s) for
    b e^s/(1 + e^s): below log(a/b); above it under "margin"."""
    a, b, beta = 2, 6, 3.0
    labels = [1] * a + [0] * b

    def best(form):
        grid = [k / 1000 for k in range(-4000, 2001)]
        return min(grid, key=lambda w: oracle.biased_objective([w], [[1]] * (a + b), labels, labels, beta, form, 0.0))

    plain = math.log(a / b)
    assert best("both") == pytest.approx(plain, abs=1e-3)
    assert best("weight") == pytest.approx(plain + math.log(beta), abs=1e-3)
    assert best("factor") < plain - 0.1
    assert best("margin") > plain + 0.1


def test_biased_objective_by_hand():
    weights = np.array([1.0, -2.0])
    features = np.array([[1, 0], [1, 1], [0, 0]])
    # Scores 1, -1, 0; labels 1, 0, 1; the first is biased.
    expected = -2.0 * math.log(1 / (1 + math.exp(-1))) - math.log(1 / (1 + math.exp(-1))) + math.log(2)
    found = oracle.biased_objective(weights, features, [1, 0, 1], [1, 0, 0], 2.0, "weight", l2=0.5)
    assert found == pytest.approx(expected + 0.25 * 5.0)
    assert oracle.biased_objective(weights, features, [1, 0, 1], [1, 0, 0], 2.0, "weight", l2=0.0) == pytest.approx(
        expected
    )
