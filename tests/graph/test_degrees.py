"""Numbers of links as features: beside links counted one by one, and what they are for."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import kinfolk as kf
from kinfolk.errors import InputError, SettingError

LINKS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] != pair[1]), max_size=20)


def filled(table: Any) -> Any:
    return table.toarray() if sparse.issparse(table) else table


@given(cites=LINKS, knows=LINKS, thin=st.booleans(), named=st.booleans())
def test_each_relation_adds_logarithms_of_links_out_and_in(cites: Any, knows: Any, thin: bool, named: bool) -> None:
    own = np.arange(12, dtype=np.float32).reshape(6, 2)
    names = ["a", "b"] if named else None
    relations = {"cites": cites, "knows": knows}
    graph = kf.Graph(sparse.csr_array(own) if thin else own, ["x"] * 6, relations, feature_names=names)
    found = kf.with_degrees(graph)
    expected = [
        [log(1 + len({pair for pair in links if pair[end] == node})) for links in (cites, knows) for end in (0, 1)]
        for node in range(6)
    ]
    assert sparse.issparse(found.features) == thin and found.features.dtype == graph.features.dtype
    np.testing.assert_array_equal(filled(found.features)[:, :2], own)
    np.testing.assert_allclose(filled(found.features)[:, 2:], expected, rtol=1e-6)
    added = ("log links out: cites", "log links in: cites", "log links out: knows", "log links in: knows")
    assert found.feature_names == (("a", "b", *added) if named else None)
    assert found.labels == graph.labels and found.ids == graph.ids and list(found.relations) == list(relations)


def test_weights_of_links_do_not_count_and_a_weight_of_0_is_no_link() -> None:
    links = sparse.csr_array(([2.5, 0.0, 7.0], ([0, 0, 1], [1, 2, 2])), shape=(3, 3))
    found = kf.with_degrees(kf.Graph(np.zeros((3, 0)), list("abc"), {"r": links})).features
    np.testing.assert_allclose(filled(found), np.log([[2, 1], [2, 2], [1, 2]]))


def test_only_the_relations_asked_for_are_counted() -> None:
    graph = kf.Graph(np.ones((3, 1)), list("abc"), {"r": [(0, 1)], "s": [(1, 2), (0, 2)]})
    np.testing.assert_allclose(kf.with_degrees(graph, ["s"]).features[:, 1:], np.log([[2, 1], [2, 1], [1, 3]]))
    assert kf.with_degrees(graph, []).n_features == 1


def test_a_graph_of_no_nodes_has_degrees_too() -> None:
    assert kf.with_degrees(kf.Graph(np.zeros((0, 2)), [], {"r": []})).features.shape == (0, 4)


def test_what_cannot_be_counted_is_refused() -> None:
    graph = kf.Graph(np.ones((2, 1)), list("ab"), {"r": [(0, 1)]})
    with pytest.raises(InputError, match="there is no relation 's' here; there are: 'r'"):
        kf.with_degrees(graph, ["s"])
    with pytest.raises(SettingError, match="relations must be a list of names"):
        kf.with_degrees(graph, "r")  # type: ignore[arg-type]


def test_a_model_without_links_tells_hubs_from_others_by_degrees() -> None:
    hub = np.arange(60) % 6 == 0
    links = [(i, (i + step) % 60) for i in range(60) for step in range(1, 8 if hub[i] else 2)]
    graph = kf.Graph(np.ones((60, 1)), np.where(hub, "hub", "page"), {"links": links})
    known = np.arange(30)
    alone, counted = (
        kf.LinkModel(relations=[], l2=0.1, n_jobs=1).fit(g, train=known).score(g)
        for g in (graph, kf.with_degrees(graph))
    )
    assert alone < 0.9 and counted == 1.0
