"""Losses of chains and their derivatives by every score, against lists of all labellings and differences."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles as o
from kinfolk.inference.chain_losses import Residuals, chain_residuals
from strategies import SEEDS

quick = settings(max_examples=150, database=None)
few = settings(max_examples=40, database=None)

INF = np.inf
KINDS = ["maxent", "memm", "crf"]
SCALES = (1.0, 0.0, 3.0, 30.0)


class Corpus(NamedTuple):
    """Scores and labels of several sequences; `pair` is (1, L, L) or (n, L, L)."""

    node: np.ndarray
    pair: o.FloatArray
    start: o.FloatArray
    labels: np.ndarray
    weights: o.FloatArray
    starts: o.IntArray

    def residuals(self, kind: str, n_jobs: int = 1) -> Residuals:
        function = chain_residuals(kind, self.labels, self.weights, self.starts, n_jobs)
        return function(self.node, self.pair, self.start)


@st.composite
def corpora(
    draw: st.DrawFn,
    max_sequences: int = 4,
    max_tokens: int = 4,
    scales: tuple[float, ...] = SCALES,
    unknown_rates: tuple[float, ...] = (0.0, 0.4, 1.0),
    even_weights: bool = True,
    forbidden_rate: float = 0.0,
    max_labels: int = 3,
) -> Corpus:
    """`even_weights`: all tokens of a sequence weigh the same. What is forbidden leaves the labels possible."""
    L = draw(st.sampled_from(range(max_labels, 0, -1)))
    per_token = draw(st.booleans())
    scale = draw(st.sampled_from(scales))
    rng = np.random.default_rng(draw(SEEDS))
    lengths = rng.integers(1, max_tokens, size=rng.integers(1, max_sequences, endpoint=True), endpoint=True)
    starts = np.cumsum([0, *lengths])
    n = int(starts[-1])
    shapes = [(n, L), (n if per_token else 1, L, L), (L,)]
    node, pair, start = (scale * rng.standard_normal(shape) for shape in shapes)
    node_off, pair_off, start_off = (rng.random(shape) < forbidden_rate for shape in shapes)

    labels = rng.integers(L, size=n)
    node_off[np.arange(n), labels] = False
    for t in range(n):
        if t in starts:
            start_off[labels[t]] = False
        else:
            pair_off[t if per_token else 0, labels[t - 1], labels[t]] = False
    for table, off in ((node, node_off), (pair, pair_off), (start, start_off)):
        table[off] = -INF

    weights = rng.choice([0.0, 1.0, 0.3, 2.5], size=n, p=[0.1, 0.4, 0.25, 0.25])
    for a, b in itertools.pairwise(starts):
        unknown = rng.random(b - a) < rng.choice(unknown_rates)
        labels[a:b][unknown] = -1
        if even_weights:
            weights[a:b] = weights[a]
    return Corpus(node, pair, start, labels.astype(np.int32), weights, starts)


def pair_of(corpus: Corpus, a: int, b: int) -> o.FloatArray:
    return corpus.pair[0] if len(corpus.pair) == 1 else corpus.pair[a:b]


def mean_weight(labels: np.ndarray, weights: np.ndarray) -> float:
    """Of the labelled tokens; 0 when there is none."""
    return float(weights[labels >= 0].mean()) if (labels >= 0).any() else 0.0


def enumerated_loss(kind: str, corpus: Corpus) -> float:
    """The loss as documented, sequence by sequence."""
    L = corpus.node.shape[1]
    if kind == "maxent":
        return o.maxent_loss(corpus.node.astype(np.float64), corpus.labels, np.eye(L), corpus.weights)
    loss = 0.0
    for a, b in itertools.pairwise(corpus.starts):
        node, labels, weights = corpus.node[a:b].astype(np.float64), corpus.labels[a:b], corpus.weights[a:b]
        pair, weight = pair_of(corpus, a, b), mean_weight(labels, weights)
        if weight == 0:
            continue
        mask = o.known_labels_mask(labels, L)
        if kind == "crf":
            edges = (corpus.start, np.zeros(L))
            free = o.chain_log_partition(node, pair, *edges)
            loss += weight * (free - o.chain_log_partition(node, pair, *edges, mask))
        elif (labels >= 0).all():  # each token with its own weight
            for t in range(b - a):
                scores = node[t] + (corpus.start if t == 0 else o.pair_at(pair, t)[labels[t - 1]])
                loss += weights[t] * (o.log_sum_exp(scores) - scores[labels[t]])
        else:
            loss -= weight * o.memm_log_total(node, pair, corpus.start, mask)
    return loss


def differences(kind: str, corpus: Corpus) -> list[o.FloatArray]:
    """Derivatives of the enumerated loss by node, pair and start scores."""
    shapes = [corpus.node.shape, corpus.pair.shape, corpus.start.shape]

    def loss(x: o.FloatArray) -> float:
        node, pair, start = o.unflatten(x, *shapes)
        return enumerated_loss(kind, corpus._replace(node=node, pair=pair, start=start))

    flat = o.flatten(corpus.node, corpus.pair, corpus.start)
    return o.unflatten(o.finite_difference_gradient(loss, flat, step=1e-3), *shapes)


def assert_close(found: Residuals, loss: float, parts: list[o.FloatArray], tolerance: float) -> None:
    assert_allclose(found.loss, loss, rtol=tolerance, atol=tolerance)
    size = max(1.0, *(np.abs(part).max(initial=0) for part in parts))
    for mine, expected in zip(found[1:], parts, strict=True):
        assert mine.shape == expected.shape
        assert_allclose(mine, expected, rtol=0, atol=tolerance * size)


# ----------------------------------------------------------------------------------------------------- loss


@quick
@given(st.sampled_from(KINDS), corpora(scales=(*SCALES, 400.0, 1e3, 1e5)))
def test_loss_equals_enumeration(kind: str, corpus: Corpus) -> None:
    size = np.abs(corpus.node).max(initial=1.0)
    assert_allclose(corpus.residuals(kind).loss, enumerated_loss(kind, corpus), rtol=1e-9, atol=1e-12 * size)


@quick
@given(st.sampled_from(KINDS), corpora(even_weights=False))
def test_loss_with_uneven_token_weights(kind: str, corpus: Corpus) -> None:
    assert_allclose(corpus.residuals(kind).loss, enumerated_loss(kind, corpus), rtol=1e-9, atol=1e-10)


@few
@given(st.sampled_from(KINDS), corpora(unknown_rates=(0.0,)), SEEDS)
def test_fully_labelled_maxent_and_memm_add_up_over_tokens(kind: str, corpus: Corpus, seed: int) -> None:
    """Loss and residuals are linear in the weights."""
    rng = np.random.default_rng(seed)
    a, b = rng.random((2, len(corpus.labels)))
    if kind == "crf":  # linear in the mean over a sequence
        lengths = np.diff(corpus.starts)
        a, b = (np.repeat(rng.random(len(lengths)), lengths) for _ in range(2))
    one, two, sum_ = (corpus._replace(weights=w).residuals(kind) for w in (a, b, a + b))
    for x, y, z in zip(one, two, sum_, strict=True):
        assert_allclose(np.asarray(x) + y, z, rtol=1e-9, atol=1e-10)


# ------------------------------------------------------------------------------------------------ residuals


@few
@given(st.sampled_from(KINDS), corpora(max_sequences=2, max_tokens=3, scales=(1.0, 3.0), even_weights=False))
def test_residuals_equal_finite_differences(kind: str, corpus: Corpus) -> None:
    assert_close(corpus.residuals(kind), enumerated_loss(kind, corpus), differences(kind, corpus), 1e-6)


@quick
@given(corpora(scales=(*SCALES, 400.0, 1e3, 1e5), even_weights=False, forbidden_rate=0.3))
def test_crf_residuals_equal_enumerated_expectations(corpus: Corpus) -> None:
    """Free minus agreeing expectations; scores may forbid, and may be far beyond exp."""
    L = corpus.node.shape[1]
    node, pair, start = (np.zeros(part.shape) for part in corpus[:3])
    for a, b in itertools.pairwise(corpus.starts):
        labels = corpus.labels[a:b]
        weight, mask = mean_weight(labels, corpus.weights[a:b]), o.known_labels_mask(labels, L)
        if weight == 0:
            continue
        chain = (corpus.node[a:b], pair_of(corpus, a, b), corpus.start, np.zeros(L))
        by_node = o.chain_node_marginals(*chain) - o.chain_node_marginals(*chain, mask)
        by_pair = o.chain_pair_marginals(*chain) - o.chain_pair_marginals(*chain, mask)
        node[a:b] += weight * by_node
        start += weight * by_node[0]
        if len(pair) == 1:
            pair[0] += weight * by_pair.sum(axis=0)
        else:
            pair[a:b] += weight * by_pair
    assert_close(corpus.residuals("crf"), enumerated_loss("crf", corpus), [node, pair, start], 1e-8)


@few
@given(corpora(max_sequences=2, max_tokens=3, scales=(1.0, 3.0), forbidden_rate=0.3, even_weights=False))
def test_memm_residuals_with_forbidden_steps(corpus: Corpus) -> None:
    """Dead ends that no labelling reaches do not matter; -inf scores have residual 0."""
    try:
        loss = enumerated_loss("memm", corpus)
    except ValueError:  # a label that can be reached has no successor
        return
    found = corpus.residuals("memm")
    assert_allclose(found.loss, loss, rtol=1e-9, atol=1e-10)
    for scores, residual in zip(corpus[:3], found[1:], strict=True):
        assert np.isfinite(residual).all()
        assert not residual[scores == -INF].any()


@few
@given(st.sampled_from(KINDS), corpora(scales=(1.0, 30.0), even_weights=False))
def test_residuals_of_a_token_add_up_to_zero(kind: str, corpus: Corpus) -> None:
    """Raising all labels of a token, or all first labels, or all steps, changes no probability."""
    found = corpus.residuals(kind)
    assert_allclose(found.node.sum(axis=1), 0, atol=1e-10)
    assert_allclose(found.pair.sum(), 0, atol=1e-9)
    assert_allclose(found.start.sum(), 0, atol=1e-10)


# -------------------------------------------------------------------------------------------- the slow twin


@quick
@given(st.sampled_from(KINDS), corpora(max_tokens=30, even_weights=False), st.sampled_from([800.0, -800.0, 1e4]))
def test_the_slow_twin_equals_the_scaled_recursion(kind: str, corpus: Corpus, constant: float) -> None:
    """The same number on all steps changes no probability, but its exponential is beyond float64."""
    shifted = corpus._replace(pair=corpus.pair + constant)
    found = corpus.residuals(kind)
    assert_close(shifted.residuals(kind), found.loss, list(found[1:]), 1e-8)


@few
@given(st.sampled_from(KINDS), corpora(max_tokens=10), SEEDS)
def test_constants_on_rows_change_nothing(kind: str, corpus: Corpus, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.choice([0.0, 1e3, -1e3], size=(len(corpus.node), 1))
    found = corpus.residuals(kind)
    shifted = corpus._replace(node=corpus.node + rows, start=corpus.start + rng.choice([0.0, 900.0, -900.0]))
    assert_close(shifted.residuals(kind), found.loss, list(found[1:]), 1e-8)


@pytest.mark.parametrize("known", ["all", "first", "half"])
def test_labels_that_never_mix(known: str) -> None:
    """Long chains of two labels that exclude each other: the sums of each are known in closed form."""
    m, ahead = 200, 10.0
    node = np.zeros((m, 2))
    node[: m // 2, 0] = node[m // 2 :, 1] = ahead  # even in all
    labels = np.full(m, -1, np.int32)
    labels[{"all": slice(None), "first": slice(1), "half": slice(m // 2)}[known]] = 0
    pair = np.where(np.eye(2, dtype=bool), 0.0, -INF)[None]
    found = Corpus(node, pair, np.zeros(2), labels, np.ones(m), np.array([0, m])).residuals("crf")
    assert_allclose(found.loss, np.log(2), rtol=1e-9)
    assert_allclose(found.node, np.tile([-0.5, 0.5], (m, 1)), atol=1e-9)
    assert_allclose(found.pair[0], (m - 1) * np.array([[-0.5, 0], [0, 0.5]]), atol=1e-7)
    assert_allclose(found.start, [-0.5, 0.5], atol=1e-9)


# -------------------------------------------------------------------------------------------- threads, edges


@few
@given(
    st.sampled_from(KINDS), corpora(max_sequences=80, max_tokens=6, even_weights=False),
    st.sampled_from([np.float32, np.float64]),
)  # fmt: skip
def test_threads_change_nothing(kind: str, corpus: Corpus, dtype: type) -> None:
    corpus = corpus._replace(node=corpus.node.astype(dtype))
    for one, two in zip(corpus.residuals(kind, 1), corpus.residuals(kind, 2), strict=True):
        assert_array_equal(one, two)


@quick
@given(st.sampled_from(KINDS), corpora(max_tokens=8))
def test_float32_scores(kind: str, corpus: Corpus) -> None:
    rounded = corpus._replace(node=corpus.node.astype(np.float32))
    found = rounded.residuals(kind)
    exact = rounded._replace(node=rounded.node.astype(np.float64)).residuals(kind)
    assert found.node.dtype == np.float32
    assert found.pair.dtype == found.start.dtype == np.float64
    assert_allclose(found.loss, exact.loss, rtol=1e-5, atol=1e-5)
    for one, two in zip(found[1:], exact[1:], strict=True):
        assert_allclose(one, two, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_no_sequences(kind: str, rows: int, n_jobs: int) -> None:
    none = Corpus(np.zeros((0, 2)), np.zeros((rows, 2, 2)), np.zeros(2), np.zeros(0, np.int32), np.zeros(0),
                  np.array([0]))  # fmt: skip
    found = none.residuals(kind, n_jobs)
    assert found.loss == 0
    assert [part.shape for part in found[1:]] == [(0, 2), (rows, 2, 2), (2,)]
    assert not found.pair.any()
    assert not found.start.any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 5])
def test_nothing_known_or_nothing_weighed_is_no_loss(kind: str, rows: int) -> None:
    rng = np.random.default_rng(0)
    scores = [rng.standard_normal(shape) for shape in ((5, 3), (rows, 3, 3), 3)]
    known, unknown = np.array([0, 1, 2, 1, 0], np.int32), np.full(5, -1, np.int32)
    for labels, weights in ((unknown, np.ones(5)), (known, np.zeros(5))):
        found = Corpus(*scores, labels, weights, np.array([0, 2, 5])).residuals(kind)
        assert found.loss == 0
        assert not any(part.any() for part in found[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_one_label_leaves_nothing_to_learn(kind: str) -> None:
    corpus = Corpus(np.ones((3, 1)), np.ones((1, 1, 1)), np.ones(1), np.array([0, -1, 0], np.int32), np.ones(3),
                    np.array([0, 1, 3]))  # fmt: skip
    found = corpus.residuals(kind)
    assert_allclose(found.loss, 0, atol=1e-12)
    assert all(np.abs(part).max() < 1e-12 for part in found[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_call_starts_afresh(kind: str) -> None:
    rng = np.random.default_rng(3)
    labels, starts = np.array([0, -1, 1, 2, 2], np.int32), np.array([0, 3, 5])
    function = chain_residuals(kind, labels, np.ones(5), starts)
    scores = [rng.standard_normal(shape) for shape in ((5, 3), (1, 3, 3), 3)]
    first = [np.copy(part) for part in function(*scores)]
    function(*(part + rng.standard_normal(part.shape) for part in scores))
    for one, two in zip(first, function(*scores), strict=True):
        assert_array_equal(one, two)


@pytest.mark.parametrize("kind", ["memm", "crf"])
def test_impossible_labels_cost_infinitely_much(kind: str) -> None:
    pair = np.zeros((1, 2, 2))
    pair[0, 0, 1] = -INF
    for labels in ([0, 1], [0, 1, -1]):
        m = len(labels)
        corpus = Corpus(np.zeros((m, 2)), pair, np.zeros(2), np.array(labels, np.int32), np.ones(m), np.array([0, m]))
        assert corpus.residuals(kind).loss == INF
