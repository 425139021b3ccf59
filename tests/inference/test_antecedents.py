"""Shares of antecedents, probabilities of being together and cluster-sum, beside enumeration of all ways to follow."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinfolk.inference import antecedents
from kinfolk.inference.antecedents import antecedent_shares, together
from kinfolk.inference.clustering import Constraints, cluster_sum

EXAMPLES = settings(max_examples=80, deadline=None)


class Pairs(NamedTuple):
    n: int
    left: np.ndarray
    right: np.ndarray
    score: np.ndarray


@st.composite
def scored_pairs(draw, most: int = 6, size: float = 3.0) -> Pairs:
    """Some of the pairs of up to six items, in order of right and then left."""
    n = draw(st.integers(0, most))
    every = [(i, j) for j in range(n) for i in range(j)]
    kept = [pair for pair in every if draw(st.booleans())]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    left, right = np.ascontiguousarray(np.array(kept, np.int32).reshape(-1, 2).T)
    return Pairs(n, left, right, rng.normal(scale=size, size=len(kept)))


def ways(pairs: Pairs):
    """Every way to give each item an antecedent or none, with its probability and the clusters that it makes."""
    odds = {(int(i), int(j)): np.exp(s) for i, j, s in zip(pairs.left, pairs.right, pairs.score, strict=True)}
    choices = [[-1, *(i for i in range(j) if (i, j) in odds)] for j in range(pairs.n)]
    for way in itertools.product(*choices):
        probability, cluster = 1.0, []
        for j, i in enumerate(way):
            total = 1.0 + sum(odds[k, j] for k in choices[j][1:])
            probability *= (1.0 if i < 0 else odds[i, j]) / total
            cluster.append(j if i < 0 else cluster[i])
        yield probability, cluster


@EXAMPLES
@given(scored_pairs())
def test_being_together_is_what_all_ways_to_follow_sum_to(pairs: Pairs):
    share = antecedent_shares(pairs.n, pairs.right, pairs.score).antecedent
    wanted = np.zeros(len(pairs.left))
    for probability, cluster in ways(pairs):
        wanted += [probability * (cluster[i] == cluster[j]) for i, j in zip(pairs.left, pairs.right, strict=True)]
    for jobs in (1, 2):
        assert together(pairs.n, pairs.left, pairs.right, share, jobs) == pytest.approx(wanted, abs=1e-12)


@EXAMPLES
@given(scored_pairs())
def test_shares_of_an_item_and_of_a_new_cluster_sum_to_one(pairs: Pairs):
    shares = antecedent_shares(pairs.n, pairs.right, pairs.score)
    total = shares.new + np.bincount(pairs.right, shares.antecedent, minlength=pairs.n)
    assert total == pytest.approx(np.ones(pairs.n), abs=1e-12)
    assert (shares.antecedent >= 0).all() and (shares.new >= 0).all()


def test_scores_beyond_what_exponentials_hold():
    right = np.array([1, 2, 2], np.int32)
    shares = antecedent_shares(3, right, np.array([900.0, -900.0, 2000.0]))
    assert shares.antecedent == pytest.approx([1, 0, 1]) and shares.new == pytest.approx([1, 0, 0])


@EXAMPLES
@given(scored_pairs(most=12))
def test_large_parts_leave_out_next_to_nothing(pairs: Pairs):
    share = antecedent_shares(pairs.n, pairs.right, pairs.score).antecedent
    wanted = together(pairs.n, pairs.left, pairs.right, share)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(antecedents, "DENSE", 1)
        found = together(pairs.n, pairs.left, pairs.right, share)
    assert found == pytest.approx(wanted, abs=1e-4)


def test_a_long_chain_of_records_costs_no_full_table():
    """50,000 items, each following the one before: being together falls off along the chain."""
    n = 50_000
    left, right = np.arange(n - 1, dtype=np.int32), np.arange(1, n, dtype=np.int32)
    assert together(n, left, right, np.full(n - 1, 0.5)) == pytest.approx(np.full(n - 1, 0.5))


def greedy(pairs: Pairs, threshold: float) -> list[int]:
    """Cluster-sum by its definition: with odds e^s, a new cluster 1."""
    cluster: list[int] = []
    for j in range(pairs.n):
        total: dict[int, float] = {}
        for i, k, s in zip(pairs.left.tolist(), pairs.right.tolist(), pairs.score, strict=True):
            if k == j:
                total[cluster[i]] = total.get(cluster[i], 0.0) + float(np.exp(s))
        best = max(total, key=lambda c: total[c], default=-1)
        joins = best >= 0 and total[best] > threshold / (1 - threshold)
        cluster.append(best if joins else j)
    return cluster


@EXAMPLES
@given(scored_pairs(), st.sampled_from([0.2, 0.5, 0.8]))
def test_cluster_sum_joins_the_cluster_with_the_largest_sum(pairs: Pairs, threshold: float):
    share = antecedent_shares(pairs.n, pairs.right, pairs.score).antecedent
    found = cluster_sum(pairs.n, pairs.left, pairs.right, share, threshold)
    assert np.unique(found, return_inverse=True)[1].tolist() == numbered(greedy(pairs, threshold))


def numbered(cluster: list[int]) -> list[int]:
    names = list(dict.fromkeys(cluster))
    return [names.index(c) for c in cluster]


@EXAMPLES
@given(scored_pairs(size=2.0), st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_cluster_sum_keeps_to_constraints(pairs: Pairs, seed: int, max_size: int):
    share = antecedent_shares(pairs.n, pairs.right, pairs.score).antecedent
    rng = np.random.default_rng(seed)
    every = np.array(list(itertools.combinations(range(pairs.n), 2)), np.int32).reshape(-1, 2)
    if not len(every):
        return
    order = rng.permutation(len(every))
    must, cannot = every[order[:1]], every[order[1:3]]
    size = max_size + 1 if max_size else 0  # a must-link takes two
    found = cluster_sum(pairs.n, pairs.left, pairs.right, share, 0.5, Constraints(must, cannot, size))
    assert (found[must[:, 0]] == found[must[:, 1]]).all()
    assert (found[cannot[:, 0]] != found[cannot[:, 1]]).all()
    assert not size or np.bincount(found).max() <= size
