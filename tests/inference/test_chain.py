"""Sums, maxima and spans over batches of chains, against lists of all labellings."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles as o
from kinfolk.inference import chain
from kinfolk.inference.chain import Potentials, conditional_potentials, expected_correct, span_probabilities
from strategies import SEEDS, Chain, chains, masked_chains

quick = settings(max_examples=150, database=None)
few = settings(max_examples=40, database=None)

HUGE = [1e3, 1e5]
INF = np.inf


class Batch(NamedTuple):
    """Potentials for the library, and the chains in them, one by one, for the oracles."""

    potentials: Potentials
    chains: list[Chain]

    @property
    def tolerance(self) -> float:
        """Rounding of a sum of scores; scores of float32 are also exponentiated in float32."""
        finite = [np.abs(part[np.isfinite(part)]).max(initial=1.0) for part in self.potentials[:4]]
        return (2e-6 if self.potentials.node.dtype == np.float32 else 1e-10) + 1e-14 * float(max(finite))


@st.composite
def batches(
    draw: st.DrawFn,
    max_sequences: int = 4,
    scales: tuple[float, ...] = (1.0, 0.0, 3.0, 50.0, 400.0, *HUGE),
    forbidden_rates: tuple[float, ...] = (0.0, 0.1, 0.4, 0.8),
) -> Batch:
    """Several sequences with common pair, start and end scores; some may allow nothing at all."""
    L = draw(st.sampled_from([3, 2, 1]))
    per_token, whole, edges = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    scale, rate = draw(st.sampled_from(scales)), draw(st.sampled_from(forbidden_rates))
    rng = np.random.default_rng(draw(SEEDS))
    starts = np.cumsum([0, *rng.integers(1, 4, size=rng.integers(max_sequences, endpoint=True), endpoint=True)])
    n = int(starts[-1])

    def scores(*shape: int) -> o.FloatArray:
        table = scale * rng.standard_normal(shape)
        table = np.round(table) if whole else table
        table[rng.random(shape) < rate] = -INF
        return table

    node = scores(n, L).astype(dtype)
    pair = scores(n, L, L) if per_token else scores(L, L)
    start, end = (scores(L), scores(L)) if edges else (None, None)
    zeros = np.zeros(L)
    parts = [
        Chain(
            node[a:b].astype(np.float64),
            pair[a:b] if per_token else pair,
            zeros if start is None else start,
            zeros if end is None else end,
        )
        for a, b in itertools.pairwise(starts)
    ]
    return Batch(Potentials.of(node, pair, starts, start, end), parts)


def single(one: Chain) -> Potentials:
    return Potentials.of(one.node, one.pair, np.array([0, len(one.node)]), one.start, one.end)


def pieces(batch: Batch, table: np.ndarray) -> list[np.ndarray]:
    """The rows of each sequence."""
    return np.split(table, batch.potentials.starts[1:-1]) if batch.chains else []


def possible(one: Chain) -> bool:
    return o.chain_log_partition(*one) > -INF


# ------------------------------------------------------------------------------------------------------ sums


@quick
@given(batches())
def test_marginals_equal_enumeration(batch: Batch) -> None:
    found = chain.marginals(batch.potentials)
    assert found.node.shape == batch.potentials.node.shape
    assert found.log_partition.shape == (len(batch.chains),)
    for one, node, log_z in zip(batch.chains, pieces(batch, found.node), found.log_partition, strict=True):
        assert_allclose(log_z, o.chain_log_partition(*one), rtol=1e-12, atol=batch.tolerance)
        if possible(one):
            assert_allclose(node, o.chain_node_marginals(*one), rtol=0, atol=batch.tolerance)
            assert_allclose(node.sum(axis=1), 1, rtol=0, atol=batch.tolerance)
        else:
            assert np.isnan(node).all()


@quick
@given(chains(max_tokens=6, max_labels=3))
def test_marginals_of_one_chain_equal_enumeration(one: Chain) -> None:
    found = chain.marginals(single(one))
    assert_allclose(found.node, o.chain_node_marginals(*one), rtol=0, atol=1e-9)
    assert_allclose(found.log_partition, [o.chain_log_partition(*one)], rtol=1e-12, atol=1e-9)


@quick
@given(chains(), st.sampled_from(HUGE), st.sampled_from(HUGE))
def test_marginals_of_huge_scores_equal_enumeration(one: Chain, by_node: float, by_pair: float) -> None:
    """Scores of either sign and of very different sizes in one chain."""
    huge = Chain(one.node * by_node, one.pair * by_pair, one.start * by_node, one.end)
    found = chain.marginals(single(huge))
    assert_allclose(found.log_partition, [o.chain_log_partition(*huge)], rtol=1e-12, atol=1e-9)
    size = max(np.abs(part[np.isfinite(part)]).max(initial=1.0) for part in huge)
    assert_allclose(found.node, o.chain_node_marginals(*huge), rtol=0, atol=1e-10 + 1e-14 * size)


@quick
@given(st.data(), SEEDS)
def test_one_sided_scores_between_the_ends_of_the_float_range(data: st.DataObject, seed: int) -> None:
    """Scores whose exponentials nearly or just leave float64: products may vanish though both factors exist."""
    T, L = data.draw(st.integers(2, 6)), data.draw(st.integers(2, 3))
    top = data.draw(st.sampled_from([150.0, 350.0, 700.0, 760.0]))
    rng = np.random.default_rng(seed)
    one = Chain(*(rng.choice([-top, 0.0, top, -INF], p=[0.4, 0.3, 0.2, 0.1], size=s) + rng.random(s)
                  for s in ((T, L), (L, L), (L,), (L,))))  # fmt: skip
    found = chain.marginals(single(one))
    assert_allclose(found.log_partition, [o.chain_log_partition(*one)], rtol=1e-12, atol=1e-9)
    if possible(one):
        assert_allclose(found.node, o.chain_node_marginals(*one), rtol=0, atol=1e-9)


@quick
@given(masked_chains())
def test_forced_labels_are_forbidden_others(masked: tuple[Chain, o.BoolArray]) -> None:
    one, allowed = masked
    forced = one._replace(node=np.where(allowed, one.node, -INF))
    found = chain.marginals(single(forced))
    assert_allclose(found.node, o.chain_node_marginals(*one, allowed), rtol=0, atol=1e-9)
    assert_allclose(found.log_partition, [o.chain_log_partition(*one, allowed)], rtol=1e-12, atol=1e-9)
    assert not found.node[~allowed].any()
    path, score = chain.viterbi(single(forced))
    assert_allclose(score, [o.chain_best(*one, allowed)[1]], rtol=1e-12, atol=1e-9)
    assert allowed[np.arange(len(path)), path].all()


def test_a_label_out_of_favour_early_is_remembered_when_it_returns() -> None:
    """Two labels that never mix: each is far ahead in one half, so at the end they are even."""
    m = 200
    node = np.zeros((m, 2))
    node[: m // 2, 0] = node[m // 2 :, 1] = 10
    found = chain.marginals(Potentials.of(node, np.where(np.eye(2, dtype=bool), 0.0, -INF), [0, m]))
    assert_allclose(found.node, 0.5)
    assert_allclose(found.log_partition, [5 * m + np.log(2)])


def test_a_step_too_dear_for_float64_is_taken_when_it_pays() -> None:
    """exp(-800) is 0, and yet the step into label 1 is the best of all: six tokens ask for it by 200 each."""
    node = np.array([[0.0, -INF], *[[0.0, 200.0]] * 6])
    one = Chain(node, np.array([[0.0, -800.0], [0.0, 0.0]]), np.zeros(2), np.zeros(2))
    found = chain.marginals(single(one))
    assert_allclose(found.log_partition, [o.chain_log_partition(*one)], rtol=1e-12)
    assert_allclose(found.node, o.chain_node_marginals(*one), atol=1e-10)


def test_an_excluded_label_that_fits_far_better_does_no_harm() -> None:
    m = 300
    node = np.column_stack([np.zeros(m), np.full(m, 10.0)])
    node[0, 1] = -INF
    found = chain.marginals(Potentials.of(node, np.where(np.eye(2, dtype=bool), 0.0, -INF), [0, m]))
    assert_array_equal(found.node, np.column_stack([np.ones(m), np.zeros(m)]))
    assert_allclose(found.log_partition, [0], atol=1e-12)


@few
@given(st.integers(1, 80), st.integers(1, 5), st.booleans(), SEEDS)
def test_logarithmic_and_scaled_recursions_agree_on_long_chains(m: int, L: int, per_token: bool, seed: int) -> None:
    """A constant on all pair scores changes no probability; 1000 is beyond the scaled recursion."""
    rng = np.random.default_rng(seed)
    starts, n = [0, m, 2 * m + 1], 2 * m + 1
    node, pair = 3 * rng.standard_normal((n, L)), 3 * rng.standard_normal((n, L, L) if per_token else (L, L))
    pair[rng.random(pair.shape) < 0.1] = -INF
    edges = rng.standard_normal((2, L))
    scaled = chain.marginals(Potentials.of(node, pair, starts, *edges))
    logs = chain.marginals(Potentials.of(node, pair + 1000, starts, *edges))
    assert_allclose(logs.node, scaled.node, rtol=0, atol=1e-9)
    assert_allclose(logs.log_partition, scaled.log_partition + 1000 * np.array([m - 1, m]), rtol=1e-12, atol=1e-9)


# --------------------------------------------------------------------------------------------------- maxima


@quick
@given(batches())
def test_viterbi_equals_enumeration(batch: Batch) -> None:
    path, scores = chain.viterbi(batch.potentials)
    assert path.shape == (len(batch.potentials.node),)
    for one, labels, score in zip(batch.chains, pieces(batch, path), scores, strict=True):
        if possible(one):
            assert_allclose(score, o.chain_best(*one)[1], rtol=1e-12, atol=1e-12)
            assert_allclose(o.chain_score(*one, labels), score, rtol=1e-12, atol=1e-12)
        else:
            assert score == -INF
            assert (labels == -1).all()


@quick
@given(batches(max_sequences=3), st.integers(1, 12))
def test_k_best_equals_enumeration(batch: Batch, k: int) -> None:
    answers = chain.k_best(batch.potentials, k)
    assert len(answers) == len(batch.chains)
    for one, (paths, scores) in zip(batch.chains, answers, strict=True):
        best = o.chain_k_best(*one, k)
        assert paths.shape == (len(best), len(one.node))
        assert_allclose(scores, [score for _, score in best], rtol=1e-12, atol=1e-12)
        assert_allclose([o.chain_score(*one, y) for y in paths], scores, rtol=1e-12, atol=1e-12)
        assert len({tuple(y) for y in paths.tolist()}) == len(paths)


@few
@given(batches())
def test_the_first_of_k_best_is_the_best(batch: Batch) -> None:
    _, scores = chain.viterbi(batch.potentials)
    first = [answer[1][0] if len(answer[1]) else -INF for answer in chain.k_best(batch.potentials, 1)]
    assert_array_equal(first, scores)


@quick
@given(batches(scales=(1.0, 3.0), forbidden_rates=(0.0, 0.1)), SEEDS, st.sampled_from([0.3, 0.7, 1.0]))
def test_expected_correct_equals_enumeration(batch: Batch, seed: int, rate: float) -> None:
    p, L = batch.potentials, batch.potentials.node.shape[1]
    rng = np.random.default_rng(seed)
    allowed, start, end = (rng.random(shape) < rate for shape in ((L, L), L, L))
    known = chain.marginals(p)
    path, scores = chain.viterbi(expected_correct(known.node, p.starts, allowed, start, end))
    parts = zip(pieces(batch, known.node), pieces(batch, path), scores, strict=True)
    for node, labels, score in parts:
        try:
            best = o.chain_max_expected_correct(node, allowed, start, end)[1]
        except ValueError:
            best = -INF
        if np.isnan(node).any() or best == -INF:
            assert score == -INF
            assert (labels == -1).all()
            continue
        assert_allclose(score, best, rtol=1e-12)
        assert_allclose(node[np.arange(len(labels)), labels].sum(), best, rtol=1e-12)
        assert start[labels[0]] and end[labels[-1]]
        assert all(allowed[i, j] for i, j in itertools.pairwise(labels))


# ---------------------------------------------------------------------------------------------------- spans


@quick
@given(batches(), SEEDS)
def test_span_probabilities_equal_enumeration(batch: Batch, seed: int) -> None:
    p, L = batch.potentials, batch.potentials.node.shape[1]
    rng = np.random.default_rng(seed)
    continues = rng.random((L, L)) < 0.4
    sequence, first, last, labels, expected = [], [], [], [], []
    for s, one in enumerate(batch.chains):
        for _ in range(rng.integers(0, 4)):
            a = int(rng.integers(len(one.node)))
            b = int(rng.integers(a, len(one.node)))
            y = rng.integers(L, size=b - a + 1).tolist()
            sequence.append(s)
            first.append(p.starts[s] + a)
            last.append(p.starts[s] + b)
            labels += y
            after = {k for k in range(L) if continues[y[-1], k]}
            expected.append(o.chain_span_probability(*one, a, y, after) if possible(one) else np.nan)
    found = span_probabilities(p, *(np.array(x, np.int32) for x in (sequence, first, last, labels)), continues)
    assert_allclose(found, expected, rtol=0, atol=batch.tolerance)


@few
@given(chains(max_tokens=4, max_labels=3))
def test_spans_of_all_labellings_add_up_to_one(one: Chain) -> None:
    T, L = one.node.shape
    labellings = o.enumerate_labellings(T, L)
    n = len(labellings)
    found = span_probabilities(
        single(one), np.zeros(n), np.zeros(n), np.full(n, T - 1), labellings.ravel(), np.ones((L, L), bool)
    )
    assert_allclose(found.sum(), 1, rtol=0, atol=1e-9)


# ----------------------------------------------------------------------------------------------------- memm


@quick
@given(masked_chains(no_dead_ends=True))
def test_conditionals_as_potentials_answer_as_a_memm(masked: tuple[Chain, o.BoolArray]) -> None:
    one, allowed = masked
    starts = np.array([0, len(one.node)])
    p = conditional_potentials(one.node, np.atleast_3d(one.pair) if one.pair.ndim == 3 else one.pair[None],
                               one.start, starts)  # fmt: skip
    free = chain.marginals(p)
    assert_allclose(free.log_partition, [0], rtol=0, atol=1e-9)
    assert_allclose(free.node, o.memm_marginals(*one[:3]), rtol=0, atol=1e-9)
    assert_allclose(chain.viterbi(p)[1], [o.memm_best(*one[:3])[1]], rtol=1e-12, atol=1e-9)
    total = o.memm_log_total(*one[:3], allowed)
    if total > -INF:
        forced = chain.marginals(p._replace(node=np.where(allowed, p.node, -INF)))
        assert_allclose(forced.log_partition, [total], rtol=1e-12, atol=1e-9)
        assert_allclose(forced.node, o.memm_marginals(*one[:3], allowed), rtol=0, atol=1e-8)


def test_a_label_that_nothing_may_follow_leaves_the_others_alone() -> None:
    pair = np.array([[[0.0, -INF], [-INF, -INF]]])
    p = conditional_potentials(np.zeros((3, 2)), pair, np.array([0.0, -INF]), np.array([0, 3]))
    found = chain.marginals(p)
    assert_allclose(found.node, [[1, 0]] * 3)
    assert_allclose(found.log_partition, [0], atol=1e-12)


# -------------------------------------------------------------------------------------------- threads, edges


def assert_same(a: object, b: object) -> None:
    """Bit for bit, in nested tuples and lists of arrays; NaN equals NaN."""
    if isinstance(a, tuple | list):
        assert len(a) == len(b)  # type: ignore[arg-type]
        for x, y in zip(a, b, strict=True):  # type: ignore[call-overload]
            assert_same(x, y)
    else:
        assert_array_equal(a, b)


@few
@given(st.integers(1, 120), st.integers(1, 4), st.booleans(), st.sampled_from([np.float32, np.float64]), SEEDS)
def test_threads_change_nothing(sequences: int, L: int, per_token: bool, dtype: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *rng.integers(1, 12, size=sequences)])
    n = int(starts[-1])
    node = (rng.choice([1.0, 500.0]) * rng.standard_normal((n, L))).astype(dtype)
    pair = rng.standard_normal((n, L, L) if per_token else (L, L))
    p = Potentials.of(node, pair, starts, rng.standard_normal(L), rng.standard_normal(L))
    assert_same(chain.marginals(p, 1), chain.marginals(p, 2))
    assert_same(chain.viterbi(p, 1), chain.viterbi(p, 2))
    assert_same(chain.k_best(p, 3, 1), chain.k_best(p, 3, 2))
    one_by_one = [
        chain.marginals(Potentials.of(node[a:b], pair[a:b] if per_token else pair, [0, b - a], p.start, p.end))
        for a, b in itertools.pairwise(starts)
    ]
    assert_same(chain.marginals(p).node, np.concatenate([part.node for part in one_by_one]))


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("per_token", [False, True])
def test_no_sequences(n_jobs: int, dtype: type, per_token: bool) -> None:
    p = Potentials.of(np.zeros((0, 3), dtype), np.zeros((0, 3, 3) if per_token else (3, 3)), [0])
    found = chain.marginals(p, n_jobs)
    assert found.node.shape == (0, 3)
    assert found.log_partition.shape == (0,)
    path, scores = chain.viterbi(p, n_jobs)
    assert path.shape == scores.shape == (0,)
    assert chain.k_best(p, 2, n_jobs) == []
    assert span_probabilities(p, [], [], [], [], np.zeros((3, 3), bool)).shape == (0,)  # type: ignore[arg-type]
    none = np.ones(3, bool)
    path, scores = chain.viterbi(expected_correct(found.node, p.starts, np.ones((3, 3), bool), none, none))
    assert path.shape == scores.shape == (0,)


def test_one_label() -> None:
    node = np.array([[1.0], [2.0], [-3.0]])
    p = Potentials.of(node, np.array([[0.5]]), [0, 1, 3], [0.25], [0.125])
    found = chain.marginals(p)
    assert_array_equal(found.node, np.ones((3, 1)))
    assert_allclose(found.log_partition, [1.375, -0.125])
    path, scores = chain.viterbi(p)
    assert_array_equal(path, [0, 0, 0])
    assert_allclose(scores, [1.375, -0.125])
    assert [len(paths) for paths, _ in chain.k_best(p, 5)] == [1, 1]


def test_one_token_ignores_pairs() -> None:
    node, table = np.array([[0.0, 1.0]]), np.full((1, 2, 2), -INF)
    for pair in (table, table[0]):
        found = chain.marginals(Potentials.of(node, pair, [0, 1]))
        assert_allclose(found.node, np.exp(node) / np.exp(node).sum())


@pytest.mark.parametrize("where", ["node", "pair", "start", "end"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nothing_allowed(where: str, dtype: type) -> None:
    """One of three sequences allows nothing; its neighbours do not notice."""
    node, pair = np.zeros((6, 2), dtype), np.zeros((6, 2, 2))
    start, end = np.zeros(2), np.zeros(2)
    if where == "node":
        node[3] = -INF
    elif where == "pair":
        pair[3] = -INF
    elif where == "start":
        start[1] = node[2, 0] = -INF
    else:
        end[0] = node[3, 1] = -INF
    p = Potentials.of(node, pair, [0, 2, 4, 6], start, end)
    found = chain.marginals(p)
    assert np.isnan(found.node[2:4]).all()
    assert_allclose(found.node[[0, 1, 4, 5]].sum(axis=1), 1)
    assert found.log_partition[1] == -INF
    assert np.isfinite(found.log_partition[[0, 2]]).all()
    path, scores = chain.viterbi(p)
    assert_array_equal(path[2:4], [-1, -1])
    assert scores[1] == -INF
    assert (path[[0, 1, 4, 5]] >= 0).all()
    assert [len(paths) > 0 for paths, _ in chain.k_best(p, 3)] == [True, False, True]


def test_scores_are_left_untouched() -> None:
    rng = np.random.default_rng(0)
    node, pair, start, end = (rng.standard_normal(shape) for shape in ((4, 2), (2, 2), 2, 2))
    copies = [array.copy() for array in (node, pair, start, end)]
    p = Potentials.of(node, pair, [0, 3, 4], start, end)
    chain.marginals(p)
    chain.viterbi(p)
    chain.k_best(p, 2)
    for array, copy in zip((node, pair, start, end), copies, strict=True):
        assert_array_equal(array, copy)


def test_scores_may_be_transposed() -> None:
    rng = np.random.default_rng(1)
    node, pair = rng.standard_normal((5, 3)), rng.standard_normal((3, 3))
    expected = chain.marginals(Potentials.of(node, pair, [0, 2, 5]))
    turned = Potentials.of(np.asfortranarray(node), np.asfortranarray(pair), [0, 2, 5])
    assert_same(chain.marginals(turned), expected)


@few
@given(st.integers(1, 6), st.integers(1, 4), SEEDS)
def test_scores_of_ordinary_size_need_no_logarithms(m: int, L: int, seed: int) -> None:
    """The scaled recursion, which is many times as fast, does not give up on them."""
    rng = np.random.default_rng(seed)
    scores = chain.Chain(
        rng.standard_normal((m, L)), rng.standard_normal((1, L, L)), rng.standard_normal(L), rng.standard_normal(L)
    )
    alpha, local = np.empty((m, L)), np.empty((m, L))
    factors = chain.Factors(*map(chain.exp_table, scores[1:]))
    found = chain.forward_scaled(scores.node, np.int64(0), m, factors, alpha, local)
    assert_allclose(alpha.sum(axis=1), 1)
    assert_allclose(found, chain.log_forward(scores, np.int64(0), m, np.empty((m, L))), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_labellings_as_good_the_first_labels_are_taken(dtype: type) -> None:
    path, _ = chain.viterbi(Potentials.of(np.zeros((7, 3), dtype), np.zeros((3, 3)), [0, 4, 7]))
    assert_array_equal(path, np.zeros(7))
