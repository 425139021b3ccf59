"""Clusters from probabilities of pairs beside brute force: closure, antecedents, joins, correlation, matching."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.cluster import hierarchy
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform

import linkage_oracle as oracle
from kinfolk.errors import SettingError
from kinfolk.inference import clustering
from kinfolk.inference.clustering import (
    Constraints,
    _move,
    _neighbours,
    agglomerate,
    best_link,
    correlation,
    correlation_gain,
    forest,
    log_odds,
    missing_pairs,
    numbered,
    one_to_one,
    single_link,
)
from kinfolk.linking.clusterers import AverageLink, BestLink, Correlation, OneToMany, OneToOne, SingleLink

EXAMPLES = settings(max_examples=150, deadline=None)
THRESHOLDS = st.sampled_from([0.5, 0.25, 0.0, 0.8125])


class World(NamedTuple):
    n: int
    left: np.ndarray
    right: np.ndarray
    p: np.ndarray
    must: tuple[tuple[int, int], ...] = ()
    cannot: tuple[tuple[int, int], ...] = ()
    max_size: int | None = None

    @property
    def pairs(self):
        return self.n, self.left, self.right

    @property
    def rules(self):
        must, cannot = (np.array(pairs, np.int32).reshape(-1, 2) for pairs in (self.must, self.cannot))
        return Constraints(must, cannot, self.max_size or 0)

    @property
    def limits(self):
        return {"must_link": self.must, "cannot_link": self.cannot, "max_size": self.max_size}


def arrays(pairs):
    """Pairs (i, j), i < j, in the order of the library: by j and then i."""
    ordered = sorted(pairs, key=lambda pair: pair[::-1])
    return np.array(ordered, np.int32).reshape(-1, 2).T.copy()


@st.composite
def worlds(draw, max_items=6, constrained=False, distinct=False, tables=False):
    """Small worlds; `tables`: pairs only from items below n_left to the others, and n_left comes too."""
    n = draw(st.integers(0, max_items))
    n_left = draw(st.integers(0, n))
    every = [(i, j) for i, j in itertools.combinations(range(n), 2) if not tables or i < n_left <= j]
    left, right = arrays([pair for pair in every if draw(st.booleans())])
    if distinct:
        p = np.array(draw(st.permutations(range(1, len(left) + 1))), float) / (len(left) + 1)
    else:
        p = np.array([draw(st.integers(1, 15)) / 16 for _ in left], float)
    world = World(n, left, right, p)
    if constrained and every:
        chosen = st.lists(st.sampled_from(every), max_size=2, unique=True)
        must, cannot, size = draw(chosen), draw(chosen), draw(st.sampled_from([None, 1, 2, 3]))
        if tables:  # a record has one partner
            must = must[:1]
        flipped = tuple((j, i) if draw(st.booleans()) else (i, j) for i, j in cannot)
        if soluble(n, must, cannot, size):
            world = world._replace(must=tuple(must), cannot=flipped, max_size=size)
    return (world, n_left) if tables else world


def soluble(n, must, cannot, size):
    try:
        oracle.constrained_single_link(n, [], [], [], 0.5, must, cannot, size)
    except ValueError:
        return False
    return True


def assert_feasible(world, ids):
    assert all(ids[i] == ids[j] for i, j in world.must)
    assert all(ids[i] != ids[j] for i, j in world.cannot)
    assert world.max_size is None or np.bincount(ids, minlength=1).max() <= world.max_size


# -- closure ------------------------------------------------------------------------------------------


@EXAMPLES
@given(world=worlds(max_items=8), threshold=THRESHOLDS)
def test_single_link_is_the_closure(world, threshold):
    found = single_link(*world.pairs, world.p, threshold)
    assert found.dtype == np.int32
    assert found.tolist() == oracle.single_link(*world.pairs, world.p > threshold)
    on = world.p > threshold
    graph = sparse.csr_array((np.ones(on.sum()), (world.left[on], world.right[on])), shape=(world.n, world.n))
    if world.n:
        assert oracle.partition(found) == oracle.partition(connected_components(graph, directed=False)[1])


@EXAMPLES
@given(world=worlds(max_items=7, constrained=True, distinct=True), threshold=THRESHOLDS)
def test_single_link_under_constraints(world, threshold):
    found = single_link(*world.pairs, world.p, threshold, world.rules)
    assert_feasible(world, found)
    assert found.tolist() == oracle.constrained_single_link(*world.pairs, world.p, threshold, **world.limits)


def test_a_large_world_is_joined_as_scipy_joins_it():
    rng = np.random.default_rng(0)
    n = 3000
    pairs = {(min(a, b), max(a, b)) for a, b in rng.integers(n, size=(4000, 2)).tolist() if a != b}
    left, right = arrays(pairs)
    p = rng.random(len(left))
    graph = sparse.csr_array((np.ones(len(left)), (left, right)), shape=(n, n))
    every = connected_components(graph, directed=False)[1]
    np.testing.assert_array_equal(single_link(n, left, right, np.ones(len(left))), numbered(every))
    cut = single_link(n, left, right, p, 0.5, Constraints(max_size=5))
    assert np.bincount(cut).max() == 5
    found = single_link(n, left, right, p)
    assert len(set(zip(found.tolist(), cut.tolist(), strict=True))) == cut.max() + 1, "a limit only divides"


def test_clusters_are_numbered_by_their_first_items():
    assert numbered(np.array([7, 3, 7, 9, 3])).tolist() == [0, 1, 0, 2, 1]
    assert numbered(np.empty(0, np.int32)).tolist() == []


@EXAMPLES
@given(world=worlds())
def test_a_forest_joins_what_all_pairs_join(world):
    kept = forest(*world.pairs)
    assert kept.dtype == bool
    chosen = frozenset(zip(world.left[kept].tolist(), world.right[kept].tolist(), strict=True))
    assert chosen in set(oracle.spanning_forests(world.n, oracle.pairs_of(world.left, world.right)))


@EXAMPLES
@given(world=worlds(distinct=True))
def test_a_forest_of_pairs_by_rising_cost_is_minimal(world):
    order = np.argsort(-world.p)
    kept = order[forest(world.n, world.left[order], world.right[order])]
    value = dict(zip(oracle.pairs_of(world.left, world.right), world.p.tolist(), strict=True))
    totals = [sum(map(value.get, trees)) for trees in oracle.spanning_forests(world.n, list(value))]
    assert world.p[kept].sum() == pytest.approx(max(totals))


# -- antecedents --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["best", "closest"])
@EXAMPLES
@given(world=worlds(max_items=7), threshold=THRESHOLDS)
def test_best_link(world, threshold, kind):
    found = best_link(*world.pairs, world.p, kind, threshold)
    assert found.tolist() == oracle.best_link(*world.pairs, world.p, threshold, kind)


@pytest.mark.parametrize("kind", ["best", "closest"])
@EXAMPLES
@given(world=worlds(max_items=7, constrained=True), threshold=THRESHOLDS)
def test_best_link_under_constraints(world, threshold, kind):
    """Items in order, each with the first of its antecedents that the constraints allow."""
    clusters = [{i} for i in range(world.n)]

    def together(i):
        return next(cluster for cluster in clusters if i in cluster)

    def join(i, j, forced=False):
        a, b = together(i), together(j)
        if a is b:
            return True
        both = a | b
        apart = any(i in both and j in both for i, j in world.cannot)
        if not forced and (apart or len(both) > (world.max_size or world.n)):
            return False
        clusters.remove(a)
        clusters.remove(b)
        clusters.append(both)
        return True

    for i, j in world.must:
        join(i, j, forced=True)
    for j in range(world.n):
        told = [(p, i) for i, k, p in zip(world.left, world.right, world.p, strict=True) if k == j and p > threshold]
        told.sort(key=lambda one: -one[1] if kind == "closest" else (-one[0], -one[1]))
        any(join(int(i), j) for _, i in told)
    found = best_link(*world.pairs, world.p, kind, threshold, world.rules)
    assert_feasible(world, found)
    assert oracle.partition(found) == frozenset(map(frozenset, clusters))


# -- agglomeration ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["average", "complete", "compared"])
@EXAMPLES
@given(world=worlds(max_items=7), threshold=THRESHOLDS)
def test_agglomerate(world, threshold, kind):
    found = agglomerate(*world.pairs, world.p, kind, threshold)
    assert found.dtype == np.int32
    assert found.tolist() == oracle.agglomerate(*world.pairs, world.p, threshold, kind)


@pytest.mark.parametrize("kind", ["average", "complete"])
@EXAMPLES
@given(world=worlds(max_items=7, constrained=True), threshold=THRESHOLDS)
def test_agglomerate_under_constraints(world, threshold, kind):
    found = agglomerate(*world.pairs, world.p, kind, threshold, world.rules)
    assert_feasible(world, found)
    assert found.tolist() == oracle.agglomerate(*world.pairs, world.p, threshold, kind, **world.limits)


@pytest.mark.parametrize("kind", ["average", "complete", "compared"])
@EXAMPLES
@given(world=worlds(max_items=7, tables=True), threshold=THRESHOLDS)
def test_agglomerate_two_tables_by_the_pairs_that_can_be_compared(world, threshold, kind):
    """Two records of one table are never compared, so they do not count as a "no"."""
    world, n_left = world
    found = agglomerate(*world.pairs, world.p, kind, threshold, Constraints(first_table=n_left))
    expected = oracle.agglomerate(*world.pairs, world.p, threshold, kind, n_left=n_left or None)
    assert found.tolist() == expected


@pytest.mark.parametrize("kind", ["average", "complete", "compared", "gain"])
def test_clusters_are_the_same_in_chunks_of_components_and_threads(kind, monkeypatch):
    rng = np.random.default_rng(0)
    n, n_pairs = 2_000, 3_000
    keys = np.unique(rng.integers(n, size=(n_pairs, 2)) @ [1, n])
    right, left = keys // n, keys % n
    left, right, p = left[left < right], right[left < right], rng.random(len(keys))[left < right].round(1)
    apart = rng.integers(n, size=(40, 2)).astype(np.int32)
    rules = Constraints(np.array([[0, 1], [5, 1900]], np.int32), apart[apart[:, 0] != apart[:, 1]], 30)
    value, threshold = (p - 0.6, 0.0) if kind == "gain" else (p, 0.5)
    for held in (None, rules):
        whole = agglomerate(n, left, right, value, kind, threshold, held)
        assert whole.max() < n - 100
        for at_once in (1, 7):
            monkeypatch.setattr(clustering, "AT_ONCE", at_once)
            threads = (held or Constraints())._replace(n_jobs=3)
            np.testing.assert_array_equal(agglomerate(n, left, right, value, kind, threshold, threads), whole)
            monkeypatch.undo()


def test_many_records_of_one_table_belong_to_one_of_the_other():
    """Three orders of one customer: average link over all pairs would keep two of them away."""
    left, right, p = np.zeros(3, np.int32), np.array([1, 2, 3], np.int32), np.array([0.9, 0.9, 0.9])
    assert AverageLink().cluster(4, left, right, p, first_table=1).tolist() == [0, 0, 0, 0]
    assert AverageLink().cluster(4, left, right, p).tolist() == [0, 0, 1, 2]


# -- best match ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", ["first", "second", "both"])
@EXAMPLES
@given(world=worlds(max_items=7, tables=True), threshold=THRESHOLDS)
def test_best_match_of_each_record(world, threshold, each):
    world, _ = world
    found = OneToMany(threshold, each=each).cluster(*world.pairs, world.p)
    assert found.tolist() == oracle.best_match(*world.pairs, world.p, each, threshold)


@EXAMPLES
@given(world=worlds(max_items=7, constrained=True, tables=True), each=st.sampled_from(["first", "second", "both"]))
def test_best_match_keeps_constraints(world, each):
    world, _ = world
    must, cannot = (np.array(pairs, np.int32).reshape(-1, 2) for pairs in (world.must, world.cannot))
    found = OneToMany(each=each, max_size=world.max_size).cluster(*world.pairs, world.p, must, cannot)
    assert_feasible(world, found)


def test_best_match_needs_two_tables():
    left, right = np.array([0, 1], np.int32), np.array([1, 2], np.int32)
    with pytest.raises(SettingError, match="OneToMany is for pairs across two tables, but item 1"):
        OneToMany().cluster(3, left, right, np.array([0.9, 0.9]))
    with pytest.raises(SettingError, match=r"each=...\) must be 'first', 'second' or 'both'"):
        OneToMany(each="third").cluster(3, left[:1], right[:1], np.array([0.9]))


# -- closure of candidate pairs -----------------------------------------------------------------------


@EXAMPLES
@given(world=worlds(max_items=7), threshold=THRESHOLDS, largest=st.integers(1, 7))
def test_pairs_missing_inside_likely_clusters(world, threshold, largest):
    left, right, too_large = missing_pairs(*world.pairs, world.p, threshold, largest=largest)
    expected, larger = oracle.missing_pairs(*world.pairs, world.p, threshold, largest)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == expected
    assert too_large == larger
    assert left.dtype == right.dtype == np.int32


@EXAMPLES
@given(world=worlds(max_items=7, tables=True), threshold=THRESHOLDS)
def test_pairs_missing_across_two_tables(world, threshold):
    world, n_left = world
    left, right, _ = missing_pairs(*world.pairs, world.p, threshold, n_left)
    expected, _ = oracle.missing_pairs(*world.pairs, world.p, threshold, n_left=n_left or None)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == expected


@pytest.mark.parametrize("kind", ["average", "complete"])
@pytest.mark.parametrize("seed", range(4))
def test_agglomerate_as_scipy_does_where_every_pair_is_a_candidate(kind, seed):
    rng = np.random.default_rng(seed)
    n = [2, 12, 40, 70][seed]
    left, right = arrays(itertools.combinations(range(n), 2))
    p = rng.permutation(len(left)) / len(left)
    table = np.zeros((n, n))
    table[left, right] = table[right, left] = 1 - p
    tree = hierarchy.linkage(squareform(table), kind)
    for threshold in (0.3, 0.5, 0.7):
        expected = hierarchy.fcluster(tree, 1 - threshold - 1e-12, "distance")
        np.testing.assert_array_equal(agglomerate(n, left, right, p, kind, threshold), numbered(expected))


@pytest.mark.parametrize("kind", ["average", "complete"])
@pytest.mark.parametrize("seed", range(6))
def test_agglomerate_larger_sparse_worlds(kind, seed):
    """Lists grow and are joined many times over."""
    rng = np.random.default_rng(seed)
    n = 24
    left, right = arrays([pair for pair in itertools.combinations(range(n), 2) if rng.random() < 0.6])
    p = np.where(rng.random(len(left)) < 0.7, 0.75, 0.25) + rng.integers(0, 4, len(left)) / 16
    for threshold in (0.125, 0.375):
        expected = oracle.agglomerate(n, left, right, p, threshold, kind)
        assert agglomerate(n, left, right, p, kind, threshold).tolist() == expected


@pytest.mark.parametrize("seed", range(20))
def test_average_link_of_log_odds(seed):
    """Log-odds between -8 and 8, and -8 for pairs that are no candidates: all 8 higher, so that those are 0."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 8))
    left, right = arrays([pair for pair in itertools.combinations(range(n), 2) if rng.random() < 0.8])
    gain = 5 * rng.normal(size=len(left))
    for threshold in (0.5, 0.2, 0.0):
        value = [min(max(g, -8.0), 8.0) + 8 for g in gain]
        least = 8 + oracle.logit(threshold) if threshold else 0.0
        found = AverageLink(threshold, of="log-odds").cluster(n, left, right, 1 / (1 + np.exp(-gain)))
        assert found.tolist() == oracle.average_link(n, left, right, value, least)


# -- correlation --------------------------------------------------------------------------------------


def objective(world, ids, threshold):
    return oracle.correlation_objective(list(ids), world.left, world.right, world.p, threshold)


def neighbours(world, ids):
    """Every clustering that one move of an item without must-links, or one join of two clusters, leads to."""
    ids = list(ids)
    held = {i for pair in world.must for i in pair}
    for i in range(world.n):
        if i not in held:
            for c in {*ids, world.n}:
                yield [*ids[:i], c, *ids[i + 1 :]]
    for a, b in itertools.combinations(sorted(set(ids)), 2):
        yield [a if c == b else c for c in ids]


def permitted(world, ids):
    sizes = [ids.count(c) for c in set(ids)]
    return all(ids[i] != ids[j] for i, j in world.cannot) and (not world.max_size or max(sizes) <= world.max_size)


@pytest.mark.parametrize("constrained", [False, True])
@EXAMPLES
@given(data=st.data(), threshold=st.sampled_from([0.5, 0.25, 0.8125]))
def test_correlation_is_a_local_optimum(data, threshold, constrained):
    world = data.draw(worlds(constrained=constrained))
    found = correlation(*world.pairs, world.p, threshold, world.rules)
    assert found.dtype == np.int32 and numbered(found).tolist() == found.tolist()
    assert_feasible(world, found)
    value = objective(world, found, threshold)
    best, _ = oracle.correlation_clustering(*world.pairs, world.p, threshold, **world.limits)
    assert value <= best + 1e-9
    for other in neighbours(world, found.tolist()):
        if permitted(world, other):
            assert objective(world, other, threshold) <= value + 1e-9
    gains = log_odds(world.p) - log_odds(np.array([threshold]))[0]
    assert correlation_gain(found, world.left, world.right, gains) == pytest.approx(value)


def test_correlation_mostly_finds_the_optimum():
    rng = np.random.default_rng(0)
    hits, trials = 0, 150
    for _ in range(trials):
        n = int(rng.integers(2, 7))
        left, right = arrays([pair for pair in itertools.combinations(range(n), 2) if rng.random() < 0.8])
        world = World(n, left, right, rng.uniform(0.05, 0.95, len(left)))
        best, _ = oracle.correlation_clustering(*world.pairs, world.p)
        hits += objective(world, correlation(*world.pairs, world.p), 0.5) >= best - 1e-9
    assert hits / trials >= 0.9


@pytest.mark.parametrize("max_size", (0, 2, 3, 4))
def test_items_move_into_clusters_as_long_as_there_is_room(max_size):
    n, (left, right) = 4, arrays(list(itertools.combinations(range(4), 2)))
    cluster, rules = np.arange(n), Constraints(max_size=max_size)
    _move(cluster, np.zeros(n, bool), _neighbours(n, left, right, np.ones(6)), rules.partners(n), max_size, 10)
    assert np.bincount(cluster).max() == (max_size or n)


def test_moves_mend_what_greedy_joins_did():
    """No join undoes a join; a move does."""
    rng = np.random.default_rng(3)
    better = 0
    for _ in range(200):
        n = 8
        left, right = arrays(itertools.combinations(range(n), 2))
        gain = rng.normal(size=len(left))
        p = 1 / (1 + np.exp(-gain))
        greedy = correlation_gain(agglomerate(n, left, right, gain, "gain", 0.0), left, right, gain)
        mended = correlation_gain(correlation(n, left, right, p), left, right, gain)
        assert mended >= greedy - 1e-9
        better += mended > greedy + 1e-9
    assert better > 10


def test_what_held_two_items_together_moves_away():
    """Item 2 is joined to 0 and 1, then moves to 3, 4 and 5, who are more; 0 and 1, who are unlike, part."""
    gains = {(0, 2): 3, (1, 2): 3, (0, 1): -2, **dict.fromkeys([(2, 3), (2, 4), (2, 5)], 2.5)}
    gains |= dict.fromkeys([(3, 4), (3, 5), (4, 5)], 2.9) | {(i, j): -5 for i in (0, 1) for j in (3, 4, 5)}
    left, right = arrays(gains)
    p = 1 / (1 + np.exp([-gains[pair] for pair in zip(left.tolist(), right.tolist(), strict=True)]))
    assert correlation(6, left, right, p).tolist() == [0, 1, 2, 2, 2, 2]


def test_correlation_of_certain_pairs_is_finite():
    left, right = arrays([(0, 1), (1, 2)])
    assert correlation(3, left, right, np.array([1.0, 0.0])).tolist() == [0, 0, 1]
    assert np.isfinite(log_odds(np.array([0.0, 1.0]))).all()


# -- matching -----------------------------------------------------------------------------------------


def matched(world, found):
    """Pairs of one cluster."""
    return {(i, j) for i, j in itertools.combinations(range(world.n), 2) if found[i] == found[j]}


@EXAMPLES
@given(drawn=worlds(max_items=7, tables=True), threshold=st.sampled_from([0.5, 0.25, 0.8125]))
def test_one_to_one_is_the_best_matching(drawn, threshold):
    world, n_left = drawn
    found = one_to_one(*world.pairs, world.p, threshold)
    assert found.dtype == np.int32 and numbered(found).tolist() == found.tolist()
    pairs = matched(world, found)
    best, matchings = oracle.one_to_one(world.n, n_left, world.left, world.right, world.p, threshold)
    assert frozenset(pairs) in matchings
    value = oracle.matching_value(pairs, world.left, world.right, world.p, threshold)
    assert value == pytest.approx(best, abs=1e-9)


@EXAMPLES
@given(drawn=worlds(max_items=7, tables=True, constrained=True), threshold=st.sampled_from([0.5, 0.25]))
def test_one_to_one_under_constraints(drawn, threshold):
    world, n_left = drawn
    found = one_to_one(*world.pairs, world.p, threshold, world.rules)
    assert_feasible(world, found)
    pairs = matched(world, found)
    items = list(itertools.chain.from_iterable(pairs))
    assert len(set(items)) == len(items) and set(world.must) <= pairs
    used = {i for pair in world.must for i in pair}
    barred = {tuple(sorted(pair)) for pair in world.cannot}
    free = [
        k
        for k, (i, j) in enumerate(oracle.pairs_of(world.left, world.right))
        if not {i, j} & used and (i, j) not in barred and world.max_size != 1
    ]
    best, _ = oracle.one_to_one(world.n, n_left, world.left[free], world.right[free], world.p[free], threshold)
    own = oracle.matching_value(pairs - set(world.must), world.left, world.right, world.p, threshold)
    assert own == pytest.approx(best, abs=1e-9)


def test_one_to_one_keeps_chains_of_must_links_together():
    left, right = arrays([(0, 2), (1, 2), (1, 3)])
    rules = Constraints(np.array([[0, 2], [1, 2]], np.int32))
    assert one_to_one(4, left, right, np.full(3, 0.9), 0.5, rules).tolist() == [0, 0, 0, 1]


def test_one_to_one_wants_two_tables():
    left, right = arrays([(0, 1), (1, 2)])
    with pytest.raises(SettingError, match=r"OneToOne is for pairs across two tables.*item 1"):
        OneToOne().cluster(3, left, right, np.array([0.9, 0.9]))


# -- nobody, and wrong settings -----------------------------------------------------------------------


ALL = {
    "single": lambda n, a, b, p, r: single_link(n, a, b, p, 0.5, r),
    "best": lambda n, a, b, p, r: best_link(n, a, b, p, "best", 0.5, r),
    "closest": lambda n, a, b, p, r: best_link(n, a, b, p, "closest", 0.5, r),
    "average": lambda n, a, b, p, r: agglomerate(n, a, b, p, "average", 0.5, r),
    "complete": lambda n, a, b, p, r: agglomerate(n, a, b, p, "complete", 0.5, r),
    "correlation": lambda n, a, b, p, r: correlation(n, a, b, p, 0.5, r),
    "one to one": lambda n, a, b, p, r: one_to_one(n, a, b, p, 0.5, r),
}


@pytest.mark.parametrize("method", ALL.values(), ids=ALL.keys())
def test_nobody_and_nothing(method):
    none, p = np.empty(0, np.int32), np.empty(0)
    for rules in (None, Constraints(max_size=2)):
        empty = method(0, none, none, p, rules)
        assert empty.shape == (0,) and empty.dtype == np.int32
        assert method(1, none, none, p, rules).tolist() == [0]
        assert method(3, none, none, p, rules).tolist() == [0, 1, 2]
    rules = Constraints(np.array([[2, 0]], np.int32), np.array([[1, 3]], np.int32), 2)
    assert method(4, none, none, p, rules).tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("method", ALL.values(), ids=ALL.keys())
def test_a_pair_at_the_threshold_is_refused(method):
    left, right = arrays([(0, 1)])
    assert method(2, left, right, np.array([0.5]), None).tolist() == [0, 1]
    assert method(2, left, right, np.array([0.5625]), None).tolist() == [0, 0]


def test_clusterers_say_what_is_wrong():
    left, right = arrays([(0, 1), (0, 2), (1, 2)])
    p = np.full(3, 0.9)
    wrong = [
        (SingleLink(threshold=1.0), {}, r"\(threshold=...\) must be a number from 0 to below 1"),
        (SingleLink(threshold=-0.1), {}, r"\(threshold=...\) must be a number from 0 to below 1"),
        (SingleLink(threshold=float("nan")), {}, r"\(threshold=...\) must be a number from 0 to below 1"),
        (SingleLink(max_size=0), {}, r"\(max_size=...\) must be a whole number of 1 or more"),
        (BestLink(kind="last"), {}, r"BestLink\(kind=...\) must be 'best' or 'closest'"),
        (AverageLink(of="odds"), {}, r"\(of=...\) must be 'probability' or 'log-odds'"),
        (Correlation(threshold=0), {}, "Correlation needs a threshold above 0"),
        (OneToOne(threshold=0), {}, "OneToOne needs a threshold above 0"),
        (SingleLink(), {"must_link": [[0, 3]]}, "`must_link` must hold pairs of .*different items among 3"),
        (SingleLink(), {"cannot_link": [[1, 1]]}, "`cannot_link` must hold pairs"),
        (
            SingleLink(),
            {"must_link": [[0, 1], [1, 2]], "cannot_link": [[2, 0]]},
            r"cannot_link must be free of items that `must_link` puts together; got \(2, 0\)",
        ),
        (SingleLink(max_size=2), {"must_link": [[0, 1], [1, 2]]}, "`must_link` makes a cluster of 3 items"),
    ]
    for clusterer, given_rules, message in wrong:
        with pytest.raises(SettingError, match=message):
            clusterer.cluster(3, left, right, p, **given_rules)
    assert SingleLink().cluster(3, left, right, p, cannot_link=[[0, 1]]).tolist() == [0, 1, 0]


def test_clusterers_keep_constraints_given_as_lists():
    left, right = arrays([(0, 1)])
    assert BestLink().cluster(3, left, right, np.array([0.9]), must_link=[(2, 0)]).tolist() == [0, 0, 0]
    assert SingleLink().cluster(3, left, right, np.array([0.9]), must_link=[], cannot_link=[]).tolist() == [0, 0, 1]
