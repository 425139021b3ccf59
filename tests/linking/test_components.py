"""Components beside networkx's, how large they may be, and logarithms of counts."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import kinfolk as kf
import stacked_oracle as oracle
from kinfolk.collective import relations as paths
from kinfolk.collective.relations import Neighbourhood
from kinfolk.errors import InputError
from strategies import SEEDS


def some_links(seed: int, n: int, density: float) -> Any:
    rng = np.random.default_rng(seed)
    links = np.where(rng.random((n, n)) < density, rng.integers(-2, 6, (n, n)) / 2, 0.0)
    np.fill_diagonal(links, rng.integers(0, 2, n))  # some look at themselves
    return links


def everybody_in_reach(links: Any) -> Any:
    """By networkx, links taken both ways."""
    graph = nx.from_numpy_array((links != 0) | (links.T != 0))
    table = np.zeros(links.shape)
    for members in nx.connected_components(graph):
        for i in members:
            for j in members:
                table[i, j] = i != j
    return table


@given(seed=SEEDS, n=st.integers(0, 9), density=st.sampled_from([0.0, 0.05, 0.15, 0.5]))
def test_components_are_those_of_networkx(seed: int, n: int, density: float):
    links = some_links(seed, n, density)
    found = kf.Relation("r").component().links({"r": sparse.csr_array(links)})
    np.testing.assert_array_equal(found.toarray(), everybody_in_reach(links))
    assert found.has_sorted_indices
    turned = kf.Relation.parse("component(~r)").links({"r": sparse.csr_array(links)})
    np.testing.assert_array_equal(turned.toarray(), found.toarray())


@given(seed=SEEDS, n=st.integers(0, 6))
def test_components_of_two_relations(seed: int, n: int):
    tables = [np.abs(some_links(seed + k, n, 0.2)) for k in range(2)]
    given_ = {"r": sparse.csr_array(tables[0]), "s": sparse.csr_array(tables[1])}
    found = kf.Relation.parse("component(r | s)").links(given_)
    np.testing.assert_array_equal(found.toarray(), everybody_in_reach(tables[0] + tables[1]))


def test_an_entry_of_weight_0_is_no_link():
    table = sparse.csr_array((np.array([0.0, 1.0]), np.array([1, 2]), np.array([0, 1, 2, 2])), shape=(3, 3))
    assert table.nnz == 2
    found = kf.Relation.parse("component(r)").links({"r": table})
    assert found.toarray().tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_components_may_be_too_large(monkeypatch: pytest.MonkeyPatch):
    ring = {"r": sparse.csr_array(np.roll(np.eye(4), 1, axis=1)), "s": sparse.csr_array((4, 4))}
    monkeypatch.setattr(paths, "MOST_PAIRS", 16)
    assert kf.Relation.parse("component(r)").links(ring).nnz == 12
    monkeypatch.setattr(paths, "MOST_PAIRS", 15)
    told = r"too large to link everybody in them \(the largest has 4 instances\): use a path of a few steps"
    with pytest.raises(InputError, match=told):
        kf.Relation.parse("component(r)").links(ring)
    assert kf.Relation.parse("component(s)").links(ring).nnz == 0, "nobody linked is nobody to link"
    graph = kf.Graph(np.zeros((4, 1)), list("abab"), {"r": ring["r"]})
    with pytest.raises(InputError, match="too large"):
        kf.diffused(graph, "component(r)")


# -- logarithms of counts


@given(seed=SEEDS, n=st.integers(0, 6), L=st.integers(1, 3), one_hot=st.booleans())
def test_a_logarithm_of_a_count(seed: int, n: int, L: int, one_hot: bool):
    rng = np.random.default_rng(seed)
    links = np.abs(some_links(seed, n, 0.5))
    np.fill_diagonal(links, 0)
    votes = np.eye(L)[rng.integers(L, size=n)] if one_hot else rng.dirichlet(np.ones(L), size=n)
    neighbourhood = Neighbourhood(n, L, {"r": sparse.csr_array(links)})
    template, out = kf.LogCount("r").learn(neighbourhood), np.empty((n, L))
    template.write(neighbourhood, votes, np.arange(n), out)
    np.testing.assert_allclose(out, np.log1p(oracle.count(links, votes)), atol=1e-9)
    assert template.width(L) == L and template.name == "logcount(r)" and repr(template) == "LogCount('r')"


def test_a_logarithm_over_a_component_counts_everybody_once():
    links = {"r": sparse.csr_array((np.array([5.0, 7.0]), ([0, 2], [1, 1])), shape=(4, 4))}
    neighbourhood, out = Neighbourhood(4, 2, links), np.empty((4, 2))
    kf.LogCount("component(r)").write(neighbourhood, np.eye(2)[[0, 0, 1, 1]], np.arange(4), out)
    np.testing.assert_allclose(np.expm1(out), [[1, 1], [1, 1], [2, 0], [0, 0]], atol=1e-9)


def test_a_logarithm_needs_weights_that_are_not_negative():
    links = {"r": sparse.csr_array(np.array([[0, -0.5], [1.0, 0]]))}
    with pytest.raises(InputError, match=r"logcount\(r\) needs weights that are not negative; use Count"):
        kf.LogCount("r").learn(Neighbourhood(2, 2, links))
    kf.Count("r").learn(Neighbourhood(2, 2, links))
    squares = kf.LogCount("r @ r").learn(Neighbourhood(2, 2, links))
    assert squares.rule == kf.Relation("r") @ "r", "two steps lead back only, so nothing negative is left"
