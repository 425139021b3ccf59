"""The brute force of pooled node models against numbers worked by hand, and against other routes."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pool_oracle as p

quick = settings(max_examples=25, deadline=None, database=None)

# 0 - 1 - 2 in a row, 3 alone. From 1, half the walks of two steps go 1 0 1, half 1 2 1; from 0 half are back at 0.
LINE: p.Links = [{1: 1.0}, {0: 1.0, 2: 1.0}, {1: 1.0}, {}]
VALUES: p.Table = [[1.0, 0.0], [0.0, 1.0], [0.25, 0.75], [0.5, 0.5]]


def close(found: object, expected: object) -> bool:
    return bool(np.allclose(found, expected, rtol=0, atol=1e-12))


def test_means_over_neighbours_by_hand() -> None:
    means = p.row_means(LINE, VALUES)
    assert close(means[0], [0, 1]) and close(means[1], [0.625, 0.375]) and close(means[3], [0, 0])


def test_means_have_weights_and_no_loops() -> None:
    assert close(p.row_means([{0: 9.0, 1: 3.0, 2: 1.0}, {}, {}], [[5.0], [1.0], [0.0]]), [[0.75], [0], [0]])


def test_walks_that_return_by_hand() -> None:
    assert close(p.two_hop_return(LINE), [0.5, 1, 0.5, 0])
    one_way: p.Links = [{1: 1.0}, {2: 1.0}, {}]
    assert close(p.two_hop_return(one_way), [0, 0, 0])
    assert close(p.two_hop_return([{1: 3.0, 2: 1.0}, {0: 1.0, 2: 1.0}, {}]), [0.75 * 0.5, 0.5 * 0.75, 0])


def test_votes_by_hand() -> None:
    found = p.votes(LINE, VALUES)
    assert close(found[0], [0, 1, 0, log(2), 0.25, 0.75])  # two steps away from 0 there is only 2, but for 0 itself
    assert close(found[1], [0.625, 0.375, log(2.25), log(1.75), 0, 0])  # every walk is back
    assert close(found[3], [0] * 6)


def test_votes_in_training_by_hand() -> None:
    without = [[0.9, 0.1]] * 4
    found = p.votes_in_training([0, 1, 1, None], [0, 0, 1, None], 0, without)
    assert found == [[0.9, 0.1], [0.9, 0.1], [0.0, 1.0], [0.9, 0.1]]
    assert p.votes_in_prediction([None, 1, None, 0], without) == [[0.9, 0.1], [0.0, 1.0], [0.9, 0.1], [1.0, 0.0]]


def test_smoothing_by_hand() -> None:
    one_way: p.Links = [{1: 1.0}, {2: 1.0, 1: 7.0}, {}]
    root = 1 / sqrt(6)
    assert close(p.smoothing(one_way), [[1 / 2, root, 0], [root, 1 / 3, root], [0, root, 1 / 2]])


def test_weights_of_both_directions_are_the_larger() -> None:
    assert close(p.smoothing([{1: 2.0}, {0: 3.0}]), [[0.25, 0.75], [0.75, 0.25]])


def test_diffused_by_hand() -> None:
    # Two nodes that are linked: S is all 1/2, so S Z is the mean m of X at every step: Z = .9 m + .1 X
    (a, b), (c, d) = p.diffused([{1: 1.0}, {}], [[1.0, 0.0], [0.0, 1.0]])
    length = sqrt(0.55**2 + 0.45**2)
    assert close([a, b, c, d], [0.55 / length, 0.45 / length, 0.45 / length, 0.55 / length])
    assert p.diffused([{}, {}], [[3.0, 4.0], [0.0, 0.0]]) == [pytest.approx([0.6, 0.8]), [0.0, 0.0]]


def test_correct_and_smooth_by_hand() -> None:
    # 0 has the label 0 and was given (.6, .4): the error is (.4, -.4), which S halves: E = (1-a) E0 + a/2 E0 for 0, and
    # a/2 E0 for 1; scaled to .8 it is E0 in both. So node 1 is (.9, .1), and smoothing with a = 1 takes means.
    found = p.correct_and_smooth([{1: 1.0}, {}], [0, None], [[0.6, 0.4], [0.5, 0.5]], 0.5, 1.0)
    assert close(found[0], [0.95, 0.05]) and close(found[1], [0.95, 0.05])
    alone = p.correct_and_smooth([{}, {}], [0, None], [[0.6, 0.4], [0.5, 0.5]], 0.5, 0.5)
    assert close(alone, [[1, 0], [0.5, 0.5]])  # nothing travels


def test_nothing_at_all() -> None:
    assert p.row_means([], []) == p.votes([], []) == p.diffused([], []) == p.undirected([]) == []
    assert p.correct_and_smooth([], [], [], 0.5, 0.5) == []


def test_mixture_by_hand() -> None:
    # The first says .8 and .2 of the truth, the second 1/2 both times: π maximises (.5 + .3 π)(.5 - .3 π), so π = 0.
    first, second = [[0.8, 0.2], [0.8, 0.2]], [[0.5, 0.5], [0.5, 0.5]]
    assert p.em_mixture([first, second], [0, 1]) == pytest.approx([0, 1], abs=1e-3)
    # Right once each and sure: equal weights by symmetry.
    assert close(p.em_mixture([[[0.9, 0.1], [0.9, 0.1]], [[0.1, 0.9], [0.1, 0.9]]], [0, 1]), [0.5, 0.5])


def test_pool_by_hand() -> None:
    tables = [[[0.8, 0.2]], [[0.5, 0.5]]]
    assert close(p.pool_probabilities(tables, [1.0, 5.0])[0], [0.8, 0.2])  # who says nothing changes nothing
    assert close(p.pool_probabilities(tables, [2.0, 0.0])[0], [16 / 17, 1 / 17])
    assert close(p.pool_probabilities(tables, [0.0, 0.0])[0], [0.5, 0.5])
    assert close(p.pool_loss(tables, [1], [2.0, 0.0]), log(17))
    assert close(p.pool_loss(tables, [1], [2.0, 0.0], p.squared([1.0, 1.0], 0.5)), log(17) + 1)


def test_best_weight_of_one_candidate_by_hand() -> None:
    # (.8, .2) is right three times of five: the best power w has .8^w / (.8^w + .2^w) = 3/5, so 4^w = 3/2.
    table, labels = [[0.8, 0.2]] * 5, [0, 0, 0, 1, 1]
    best = log(1.5) / log(4)
    p.check_optimum([table], labels, [best])
    (found,), loss = p.best_on_grid([table], labels, highest=1.0, steps=1000)
    assert found == pytest.approx(best, abs=1e-3)
    assert loss == pytest.approx(-(0.6 * log(0.6) + 0.4 * log(0.4)), abs=1e-6)
    with pytest.raises(AssertionError):
        p.check_optimum([table], labels, [best + 0.2])


def test_a_strong_penalty_keeps_the_weights() -> None:
    tables = [[[0.8, 0.2]] * 3, [[0.3, 0.7]] * 3]
    found, _ = p.best_on_grid(tables, [0, 0, 1], p.squared([0.4, 0.6], 1e6), highest=1.0, steps=10)
    assert found == pytest.approx([0.4, 0.6])


# -- Other routes -------------------------------------------------------------------------------------

weights = st.floats(0.25, 4)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[p.Links, p.Table]:
    n = draw(st.integers(1, 5))
    node = st.integers(0, n - 1)
    links = [draw(st.dictionaries(node, weights, max_size=n)) for _ in range(n)]
    return links, [draw(st.lists(st.floats(0, 1), min_size=2, max_size=2)) for _ in range(n)]


@st.composite
def candidates(draw: st.DrawFn) -> tuple[list[p.Table], list[int]]:
    n = draw(st.integers(1, 6))
    first = st.floats(0.05, 0.95)
    tables = [[[q, 1 - q] for q in draw(st.lists(first, min_size=n, max_size=n))] for _ in range(2)]
    return tables, draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))


@quick
@given(graphs())
def test_two_steps_away_is_a_mean_over_walks(world: tuple[p.Links, p.Table]) -> None:
    """All walks of two steps listed with their probabilities: those that end elsewhere, and those that are lost where
    a node looks at nobody and says 0."""
    links, values = world
    plain = p.without_loops(links)
    for i, found in enumerate(p.votes(links, values)):
        home, sums = 0.0, [0.0, 0.0]
        for j, w in plain[i].items():
            for k, v in plain[j].items():
                chance = w / sum(plain[i].values()) * v / sum(plain[j].values())
                home += chance * (k == i)
                sums = [s + chance * (k != i) * value for s, value in zip(sums, values[k], strict=True)]
        expected = [s / (1 - home) if home < 1 - 1e-12 else 0.0 for s in sums]
        assert found[4:] == pytest.approx(expected, abs=1e-9)


@quick
@given(graphs())
def test_smoothing_is_symmetric_with_1_the_largest_eigenvalue(world: tuple[p.Links, p.Table]) -> None:
    links, _ = world
    matrix, both = p.smoothing(links), p.undirected([links])
    roots = [[sqrt(1 + sum(one.values()))] for one in both]  # S √d = √d
    assert all(close(matrix[i][j], matrix[j][i]) for i in range(len(links)) for j in range(len(links)))
    assert all(close(a, b) for a, b in zip(p.times(matrix, roots), roots, strict=True))


@quick
@given(graphs())
def test_looking_back_twice_is_looking_ahead(world: tuple[p.Links, p.Table]) -> None:
    links, values = world
    assert p.reversed_links(p.reversed_links(links)) == links
    assert p.undirected([links]) == p.undirected([p.reversed_links(links)]) == p.undirected([links, links])
    assert p.diffused(links, values) == p.diffused(p.reversed_links(links), values)


@quick
@given(candidates())
def test_no_mixture_on_a_grid_is_likelier(world: tuple[list[p.Table], list[int]]) -> None:
    tables, labels = world
    found = p.mixture_likelihood(tables, labels, p.em_mixture(tables, labels, 2_000))
    assert all(p.mixture_likelihood(tables, labels, one) <= found + 1e-3 for one in p.simplex(2, 20))


@quick
@given(candidates(), weights, weights)
def test_the_loss_rises_with_the_excess_of_what_the_pool_expects(
    world: tuple[list[p.Table], list[int]], first: float, second: float
) -> None:
    """d loss / d w_c = mean_i (Σ_y p[i, y] log p_c[i, y] - log p_c[i, y_i]), beside the difference of two losses."""
    tables, labels = world
    pooled, step = p.pool_probabilities(tables, [first, second]), 1e-5
    for c, (table, (a, b)) in enumerate(zip(tables, [(step, 0), (0, step)], strict=True)):
        logs = [[log(x) for x in row] for row in table]
        slope = sum(
            sum(q * x for q, x in zip(pooled[i], logs[i], strict=True)) - logs[i][y] for i, y in enumerate(labels)
        ) / len(labels)
        ahead, behind = (p.pool_loss(tables, labels, [first + s * a, second + s * b]) for s in (1, -1))
        assert (ahead - behind) / (2 * step) == pytest.approx(slope, abs=1e-6), c


def test_no_step_from_the_best_on_a_grid_gains_much() -> None:
    tables = [[[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]], [[0.4, 0.6], [0.7, 0.3], [0.2, 0.8]]]
    for labels in ([0, 0, 1], [0, 1, 0], [1, 0, 1]):
        penalty = p.squared(p.em_mixture(tables, labels), 0.1)
        found, loss = p.best_on_grid(tables, labels, penalty, highest=3.0, steps=60)
        assert loss == p.pool_loss(tables, labels, found, penalty)
        p.check_optimum(tables, labels, found, penalty, within=1e-3)


def test_degrees_count_links() -> None:
    """Whatever their weight: 4 and 2 of two neighbours, the mean .75 of which is 1.5 of two."""
    found = p.votes([{1: 4.0, 2: 2.0}, {}, {}], [[0.0], [1.0], [0.25]])
    assert close(found[0], [0.75, log(2.5), 0.0])


def test_ways_by_hand() -> None:
    there: p.Links = [{1: 2.0}, {2: 2.0}, {}]
    back: p.Links = [{}, {0: 5.0}, {1: 5.0}]
    assert p.ways([there, back]) == [[[{1: 1.0}, {2: 1.0}, {}], [{}, {0: 1.0}, {1: 1.0}]]]
    assert p.ways([[{}, {}], [{1: 3.0}, {0: 3.0}]]) == [[[{1: 1.0}, {0: 1.0}]]]
    assert p.joined([there, back], 3) == [{1: 1.0}, {0: 1.0, 2: 1.0}, {1: 1.0}]
    mutual: p.Links = [{1: 1.0}, {0: 1.0, 2: 1.0}, {}]  # 0 and 1 look at each other
    assert p.joined([mutual], 3) == [{1: 2.0}, {0: 2.0, 2: 1.0}, {1: 1.0}]


def test_two_steps_by_two_kinds_by_hand() -> None:
    """0 cites 1, which 2 cites too: from 0 by cites and then back there is 2, and 0 itself half the time."""
    cites: p.Links = [{1: 1.0}, {}, {1: 1.0}]
    cited = p.reversed_links(cites)
    assert close(p.two_hop_return(cites, cited), [0.5, 0, 0.5])
    assert close(p.beyond(cites, cited, [[1.0], [0.0], [0.25]])[0], [0.25])


def test_bounded_corrections_by_hand() -> None:
    found = p.correct_and_smooth([{}, {}], [0, None], [[0.6, 0.4], [0.0, 2.0]], 0.5, 0.5, bounded=True)
    assert close(found, [[1 / (1 + 1e-6), 1e-6 / (1 + 1e-6)], [1e-6 / (1 + 1e-6), 1 / (1 + 1e-6)]])
