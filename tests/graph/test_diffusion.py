"""Features smoothed along links: beside the formula worked out with dense matrices, and what may be asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.errors import InputError, SettingError
from strategies import SEEDS


def dense_formula(links: Any, X: Any, alpha: float, steps: int) -> Any:
    """S = D^-½ (A + I) D^-½ and Z = Σ_{k<K} α (1 - α)^k S^k X + (1 - α)^K S^K X, term by term."""
    n = len(links)
    both = np.maximum(links, links.T) + np.eye(n)
    root = np.diag(1 / np.sqrt(both.sum(axis=1)))
    S = root @ both @ root
    Z = (1 - alpha) ** steps * np.linalg.matrix_power(S, steps) @ X
    for k in range(steps):
        Z = Z + alpha * (1 - alpha) ** k * np.linalg.matrix_power(S, k) @ X
    return Z


def scaled(links: Any, X: Any, alpha: float, steps: int) -> Any:
    """Weighted means of rows, times a number: they are as far from their mean as those of the features."""
    ones = dense_formula(links, np.ones((len(X), 1)), alpha, steps)
    table = dense_formula(links, X, alpha, steps) / ones
    return table * (spread(X) / spread(table) if spread(table) > 1e-9 else 1)


def spread(table: Any) -> float:
    return float(np.sqrt(((table - table.mean(axis=0)) ** 2).sum())) if len(table) else 0.0


def filled(table: Any) -> Any:
    return table.toarray() if sparse.issparse(table) else table


def a_world(seed: int, n: int, width: int, density: float, thin: bool = False) -> tuple[Any, Any, kf.Graph]:
    """(links, features, graph); some nodes have no word, some no link."""
    rng = np.random.default_rng(seed)
    links = np.where(rng.random((n, n)) < density, rng.integers(1, 5, (n, n)) / 2, 0.0)
    np.fill_diagonal(links, 0)
    X = np.where(rng.random((n, width)) < 0.5, rng.integers(0, 4, (n, width)), 0).astype(float)
    names = [f"w{i}" for i in range(width)]
    labels = [("a", "b", None)[i % 3] for i in range(n)]
    relations = {"r": sparse.csr_array(links)}
    return links, X, kf.Graph(sparse.csr_array(X) if thin else X, labels, relations, feature_names=names)


@settings(max_examples=80)
@given(
    seed=SEEDS,
    n=st.integers(0, 6),
    width=st.integers(0, 3),
    density=st.sampled_from([0.0, 0.3, 1.0]),
    alpha=st.sampled_from([0.05, 0.15, 0.5, 1.0]),
    steps=st.integers(0, 12),
    thin=st.booleans(),
    scale=st.booleans(),
)
def test_it_is_the_formula(
    seed: int, n: int, width: int, density: float, alpha: float, steps: int, thin: bool, scale: bool
):
    links, X, graph = a_world(seed, n, width, density, thin)
    smooth = kf.diffused(graph, "r", alpha, steps, scale=scale)
    expected = (scaled if scale else dense_formula)(links, X, alpha, steps)
    assert thin or isinstance(smooth.features, np.ndarray)
    np.testing.assert_allclose(filled(smooth.features), expected, atol=5e-5)
    assert smooth.feature_names == graph.feature_names and smooth.labels == graph.labels and smooth.ids == graph.ids
    assert (smooth.relations["r"] != graph.relations["r"]).nnz == 0


@given(seed=SEEDS, alpha=st.sampled_from([0.1, 0.6]), steps=st.integers(0, 5))
def test_the_direction_of_links_does_not_matter(seed: int, alpha: float, steps: int):
    _, _, graph = a_world(seed, 5, 2, 0.4)
    one, other, both = (kf.diffused(graph, r, alpha, steps).features for r in ("r", "~r", "r | ~r"))
    np.testing.assert_allclose(one, other, atol=1e-6)
    np.testing.assert_allclose(one, both, atol=1e-6)


@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize("scale", [False, True])
def test_nothing_moves_with_alpha_1_or_without_steps_or_links(thin: bool, scale: bool):
    _, X, graph = a_world(3, 6, 4, 0.5, thin)
    assert not X.any(axis=1).all(), "somebody has no word, and keeps none"
    for alpha, steps in ((1.0, 7), (0.1, 0)):
        same = kf.diffused(graph, "r", alpha, steps, scale=scale).features
        assert sparse.issparse(same) == thin and same.dtype == graph.features.dtype, "the features as they were given"
        np.testing.assert_array_equal(filled(same), X)
    lone = kf.Graph(graph.features, None, {"r": []})
    np.testing.assert_allclose(filled(kf.diffused(lone, "r", scale=scale).features), X, atol=1e-5)


@given(seed=SEEDS, factor=st.sampled_from([1e-6, 0.01, 3.0, 1e6]), thin=st.booleans(), scale=st.booleans())
def test_features_in_other_units_are_smoothed_alike(seed: int, factor: float, thin: bool, scale: bool):
    """Twice the features, twice the smoothed ones: what a base makes of its ridge is what it made of it before."""
    _, X, graph = a_world(seed, 6, 3, 0.4, thin)
    larger = graph.with_features(graph.features * factor)
    one, other = (filled(kf.diffused(g, "r", scale=scale).features) for g in (graph, larger))
    np.testing.assert_allclose(other, factor * one, rtol=1e-4, atol=1e-5 * factor)
    if scale:
        assert spread(one.astype(float)) == pytest.approx(spread(X), rel=1e-4)


def test_the_usual_ridge_fits_smoothed_features():
    """Few labels: logistic regression with C=1 does as well as with any other C, within two points."""
    graph = kf.generate_citations(1_500, seed=2)
    rows, codes = kf.diffused(graph, "cites | cited_by", alpha=0.1).features, graph.label_codes
    train = np.random.default_rng(0).random(1_500) < 0.1
    right = {c: LogisticRegression(C=c, max_iter=1000).fit(rows[train], codes[train]).score(rows[~train], codes[~train])
             for c in (0.01, 0.1, 1.0, 10.0, 100.0)}  # fmt: skip
    assert right[1.0] > max(right.values()) - 0.02


def test_a_column_that_is_the_same_everywhere_stays_the_same():
    """Whether a node has many links or none."""
    _, _, graph = a_world(8, 6, 2, 0.4)
    smooth = kf.diffused(graph.with_features(np.column_stack([np.ones(6), np.arange(6.0)])), "r").features
    np.testing.assert_allclose(smooth[:, 0], smooth[0, 0], rtol=1e-5)


def test_what_stays_sparse_is_kept_sparse():
    """Many small parts of a graph, each with few words; in one large part every node comes to have most words."""
    rng = np.random.default_rng(0)
    n, width = 200, 400
    X = sparse.csr_array((np.ones(2 * n), (np.repeat(np.arange(n), 2), rng.integers(0, width, 2 * n))), (n, width))
    pairs = kf.Graph(X, None, {"r": [(i, i + 1) for i in range(0, n, 2)]})
    thin = kf.diffused(pairs, "r").features
    assert sparse.issparse(thin) and thin.dtype == np.float32 and thin.nnz < 5 * n
    np.testing.assert_allclose(thin.toarray(), kf.diffused(pairs.with_features(X.toarray()), "r").features, atol=1e-5)
    whole = kf.Graph(X, None, {"r": rng.integers(0, n, (6 * n, 2))}, self_loops="drop")
    assert isinstance(kf.diffused(whole, "r").features, np.ndarray)
    assert sparse.issparse(kf.diffused(whole, "r", steps=1).features), "a step leads to few words"


def test_a_table_too_large_for_memory_is_refused_with_its_size():
    """100,000 nodes with 100,000 words would take 37 GiB as a dense table."""
    n = 100_000
    others, X = np.arange(1, n), sparse.eye_array(n, format="csr")
    ring = kf.Graph(X, None, {"r": np.stack([others - 1, others], axis=1)})
    assert kf.diffused(ring, "r", steps=1).features.nnz == 3 * n - 2, "three words a node"
    star = kf.Graph(X, None, {"r": np.stack([np.zeros(n - 1, int), others], axis=1)})
    with pytest.raises(InputError, match=r"100,000 nodes with 100,000 features take 37\.3 GiB .* 2 GiB.*TruncatedSVD"):
        kf.diffused(star, "r")


def test_words_travel_as_far_as_there_are_steps():
    line = kf.Graph(np.eye(5)[:, :1], None, {"r": [(i, i + 1) for i in range(4)]})
    for steps in range(5):
        smooth = kf.diffused(line, "r", 0.2, steps).features
        assert (smooth[:, 0] > 0).tolist() == [i <= steps for i in range(5)]
    near, far = (kf.diffused(line, "r", alpha, 8, scale=False).features[:, 0] for alpha in (0.8, 0.05))
    assert near[0] > far[0] and near[3] < far[3]


def test_labels_have_no_part_in_it():
    _, _, graph = a_world(4, 6, 3, 0.5)
    bare = kf.diffused(graph.with_labels(None), "r").features
    np.testing.assert_array_equal(kf.diffused(graph, "r").features, bare)


def test_groups_and_relations_stay():
    _, X, graph = a_world(5, 4, 2, 0.5)
    parts = {"r": graph.relations["r"], "s": [(0, 1)]}
    grouped = kf.Graph(X, graph.labels, parts, groups=["x", "x", "y", "y"])
    smooth = kf.diffused(grouped, "r | s")
    assert smooth.group_names == ("x", "y") and list(smooth.relations) == ["r", "s"]
    np.testing.assert_array_equal(smooth.group_codes, grouped.group_codes)
    np.testing.assert_array_equal(grouped.features, X)


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.01, float("nan"), float("inf")])
def test_alpha_is_a_share(alpha: float):
    _, _, graph = a_world(6, 3, 1, 0.5)
    with pytest.raises(SettingError, match="alpha must be above 0 and at most 1; got"):
        kf.diffused(graph, "r", alpha)


def test_what_cannot_be_smoothed_along():
    _, _, graph = a_world(7, 3, 1, 0.5)
    with pytest.raises(SettingError, match="steps must be a whole number of 0 or more; got -1"):
        kf.diffused(graph, "r", steps=-1)
    with pytest.raises(InputError, match="there is no relation 'cites' here; there are: 'r'"):
        kf.diffused(graph, "cites")
    with pytest.raises(SettingError, match="cannot read the relation"):
        kf.diffused(graph, "r |")
