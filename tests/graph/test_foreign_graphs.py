"""Graphs of networkx, SciPy and PyTorch Geometric: the same graph as that of tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from kinfolk.errors import InputError, SettingError
from kinfolk.graph.graph import Graph


def links(graph: Graph, relation: str = "links_to") -> dict[tuple[str, str], float]:
    pairs = graph.relations[relation].tocoo()
    return {(graph.ids[i], graph.ids[j]): float(w) for i, j, w in zip(*pairs.coords, pairs.data, strict=True)}


def same(one: Graph, other: Graph) -> bool:
    assert one.ids == other.ids and one.labels == other.labels and one.classes == other.classes
    assert list(one.relations) == list(other.relations)
    assert all(links(one, name) == links(other, name) for name in one.relations)
    rows = [g.features.toarray() if sparse.issparse(g.features) else g.features for g in (one, other)]
    return bool((rows[0] == rows[1]).all()) and one.group_names == other.group_names


@pytest.mark.parametrize("directed", [True, False])
def test_one_graph_from_everywhere(directed: bool):
    """The nodes 0, 1, 2 with one feature, labels 1, unknown, 0 and the links 0-1, 1-2."""
    x, pairs = np.array([[0.5], [1.0], [2.0]]), [(0, 1), (1, 2)]
    nodes = pd.DataFrame({"id": [0, 1, 2], "x": x[:, 0], "y": pd.Series([1, None, 0], dtype="Int64")})
    frames = Graph.from_frames(nodes, pd.DataFrame(pairs, columns=["source", "target"]), label="y", directed=directed)

    net = nx.DiGraph() if directed else nx.Graph()
    for i, label in enumerate([1, None, 0]):
        net.add_node(i, x=float(x[i, 0]), **({} if label is None else {"label": label}))
    net.add_edges_from(pairs)

    both = pairs if directed else [*pairs, *((b, a) for a, b in pairs)]
    adjacency = sparse.coo_array((np.ones(len(both)), tuple(zip(*both, strict=True))), shape=(3, 3))
    data = SimpleNamespace(x=x, edge_index=np.array(both).T, y=np.array([1, -1, 0]))
    assert same(frames, Graph.from_networkx(net))
    assert same(frames, Graph.from_scipy(adjacency, x, [1, -1, 0]))
    assert same(frames, Graph.from_scipy(adjacency.toarray(), x, [1, np.nan, 0]))
    assert same(frames, Graph.from_pyg(data))


# -- networkx -----------------------------------------------------------------------------------------


def test_attributes_of_nodes_are_columns():
    net = nx.Graph()
    net.add_node("a", age=3, colour="red", new=True, topic="X", bio="Likes foxes")
    net.add_node("b", age=4, colour="blue", new=False, bio="")
    net.add_edge("a", "b")
    graph = Graph.from_networkx(net, label="topic", text="bio")
    assert graph.feature_names == ("age", "colour=blue", "colour=red", "new", "bio:foxes", "bio:likes")
    assert graph.features.toarray().tolist() == [[3, 0, 1, 1, 1, 1], [4, 1, 0, 0, 0, 0]]
    assert graph.labels == ["X", None] and list(graph.relations) == ["links_to"]
    assert Graph.from_networkx(net, label="topic", features=["age"]).features.tolist() == [[3], [4]]
    with pytest.raises(InputError, match="graph, node 'b': 'topic' of node 'b' is missing, as it is of 1 nodes"):
        Graph.from_networkx(net)
    assert "topic is missing" in (Graph.from_networkx(net, missing="flag").feature_names or ())


def test_attributes_of_edges_name_and_weigh_them(caplog: pytest.LogCaptureFixture):
    net = nx.MultiDiGraph()
    net.add_edge("a", "b", kind="cites", weight=0.5)
    net.add_edge("a", "b", kind="cites", weight=2)
    net.add_edge("b", "a", kind="likes")
    net.add_edge("b", "b", kind="likes")
    graph = Graph.from_networkx(net, relation="kind", weight="weight", inverse={"cites": "cited_by"})
    assert list(graph.relations) == ["cites", "cited_by", "likes", "likes_inverse"]
    assert links(graph, "cites") == {("a", "b"): 2.5} and links(graph, "likes") == {("b", "a"): 1}
    told = "links dropped: 1 from a node to itself; links merged: 1 repeated, their weights added"
    assert [record.getMessage() for record in caplog.records] == [told]
    assert links(Graph.from_networkx(net)) == {("a", "b"): 1, ("b", "a"): 1}
    with pytest.raises(InputError, match="graph, edge 'a' to 'b': a link that was there before"):
        Graph.from_networkx(net, duplicates="refuse")
    with pytest.raises(InputError, match="graph, edge 'b' to 'b': a link from 'b' to itself"):
        Graph.from_networkx(net, self_loops="refuse")
    with pytest.raises(InputError, match=r"graph: no column 'wieght' \(weight\); the columns are 'kind', 'weight'"):
        Graph.from_networkx(net, weight="wieght")


def test_an_edge_without_a_name():
    net = nx.Graph([("a", "b", {"kind": "r"}), ("b", "c", {})])
    with pytest.raises(InputError, match="graph, edge 'b' to 'c': no relation in column 'kind'"):
        Graph.from_networkx(net, relation="kind")


def test_groups_of_networkx():
    net = nx.Graph([("a", "b"), ("b", "c")])
    nx.set_node_attributes(net, {"a": "p", "b": "q", "c": "p"}, "place")
    graph = Graph.from_networkx(net, group="place")
    assert graph.ids == ("a", "b", "c") and graph.group_names == ("p", "q") and graph.group_codes.tolist() == [0, 1, 0]
    assert links(graph)["c", "b"] == 1 and ("a", "c") not in links(graph)


def test_nodes_of_any_name():
    graph = Graph.from_networkx(nx.grid_2d_graph(2, 2))
    assert graph.ids == ("(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)") and len(links(graph)) == 8
    assert graph.labels == [None] * 4 and graph.feature_names == ()
    with pytest.raises(InputError, match="graph, node '1': ids must be distinct; '1' was in graph, node 1 already"):
        Graph.from_networkx(nx.Graph([(1, "1")]))


def test_networkx_that_cannot_be_used():
    with pytest.raises(InputError, match=r"expected a graph of networkx, got builtins.dict"):
        Graph.from_networkx({})
    with pytest.raises(InputError, match="no nodes"):
        Graph.from_networkx(nx.Graph())
    with pytest.raises(InputError, match=r"no column 'topic' \(label\); the columns are none at all"):
        Graph.from_networkx(nx.path_graph(2), label="topic")
    net = nx.path_graph(2)
    nx.set_node_attributes(net, {1, 2}, "v")
    with pytest.raises(InputError, match=r"column 'v': .* got set"):
        Graph.from_networkx(net)
    assert Graph.from_networkx(nx.empty_graph(2)).relations["links_to"].nnz == 0


# -- SciPy --------------------------------------------------------------------------------------------


def test_matrices_of_several_relations(caplog: pytest.LogCaptureFixture):
    cites = sparse.csr_array(np.array([[1.0, 2, 0], [0, 0, 3], [0, 0, 0]]))
    likes = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
    graph = Graph.from_scipy({"cites": cites, "likes": likes}, labels=["x", None, "y"], ids=["a", "b", "c"])
    assert list(graph.relations) == ["cites", "cites_inverse", "likes"], "what is symmetric has no direction"
    assert links(graph, "cites") == {("a", "b"): 2, ("b", "c"): 3} and links(graph, "likes") == {
        ("a", "b"): 1,
        ("b", "a"): 1,
    }
    assert graph.labels == ["x", None, "y"] and graph.features.shape == (3, 0) and graph.feature_names == ()
    assert [r.getMessage() for r in caplog.records] == ["links dropped: 1 from a node to itself"]


def test_direction_of_a_matrix():
    upper = sparse.csr_array(np.triu(np.ones((3, 3)), 1))
    assert list(Graph.from_scipy(upper).relations) == ["links_to", "linked_from"]
    one = Graph.from_scipy(upper, directed=False).relations
    assert list(one) == ["links_to"] and (one["links_to"].toarray() == 1 - np.eye(3)).all()
    assert list(Graph.from_scipy(one["links_to"], directed=True).relations) == ["links_to", "linked_from"]
    assert list(Graph.from_scipy(upper, link="cites", inverse=None).relations) == ["cites"]


def test_labels_beside_a_matrix():
    x, none = np.zeros((3, 1)), sparse.csr_array((3, 3))
    graph = Graph.from_scipy(none, x, [10, 9, -1], feature_names=["f"], groups=["p", "q", "p"])
    assert graph.labels == [10, 9, None] and graph.classes.names == ("9", "10")
    assert Graph.from_scipy(none, x, [[0.5], [2], [-1]]).labels == [0.5, 2.0, None]
    assert graph.feature_names == ("f",) and graph.group_names == ("p", "q") and graph.group_codes.tolist() == [0, 1, 0]
    assert Graph.from_scipy(none, x, [1, 0, -1], classes=["no", "yes"]).labels == ["yes", "no", None]


SCIPY_WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "another size": (
        (np.ones((2, 2)), np.zeros((3, 1))),
        {},
        r"relation 'links_to' must have shape \(3, 3\).* got \(2, 2\)",
    ),
    "not square": ((np.ones((2, 3)),), {}, r"must have shape \(2, 2\), a row a node; got \(2, 3\)"),
    "a list of links": (([0, 1],), {}, r"must be a matrix of numbers \(n, n\); got int64 \(2,\)"),
    "words": ((np.array([["a"]]),), {}, "must be a matrix of numbers"),
    "nothing": (({},), {}, "expected a matrix of links or features, to know how many nodes there are"),
    "not finite": ((np.array([[0, np.nan], [0, 0]]),), {}, r"relation 'links_to', entry \(0, 1\): .* got nan"),
    "to itself": (
        (np.eye(2),),
        {"self_loops": "refuse"},
        r"relation 'links_to', entry \(0, 0\): a link from '0' to itself",
    ),
    "several labels": ((np.ones((2, 2)), None, [[0, 1], [1, 1]]), {}, r"one a node \(2,\); got shape \(2, 2\)"),
}


@pytest.mark.parametrize(("given", "options", "message"), SCIPY_WRONG.values(), ids=list(SCIPY_WRONG))
def test_matrices_that_cannot_be_used(given: tuple[Any, ...], options: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        Graph.from_scipy(*given, **options)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from([1.0, 2.0])), max_size=15))
def test_a_matrix_is_the_table_of_its_entries(entries: list[tuple[int, int, float]]):
    table = np.zeros((5, 5))
    for i, j, weight in entries:
        table[i, j] += weight
    rows = pd.DataFrame(entries, columns=["source", "target", "w"])
    for directed in (True, False, None):
        frames = Graph.from_frames(pd.DataFrame({"id": range(5)}), rows, weight="w", directed=directed)
        assert same(frames, Graph.from_scipy(sparse.coo_array(table), directed=directed))


# -- PyTorch Geometric --------------------------------------------------------------------------------


class Tensor:
    """What is asked of a tensor of torch, and no array: it must be fetched from its device."""

    def __init__(self, values: Any, where: str = "gpu", grad: bool = True, is_sparse: bool = False) -> None:
        self.values, self.where, self.grad, self.is_sparse = np.asarray(values), where, grad, is_sparse

    def detach(self) -> Tensor:
        return Tensor(self.values, self.where, False)

    def cpu(self) -> Tensor:
        return Tensor(self.values, "cpu", self.grad)

    def to_dense(self) -> Tensor:
        return Tensor(self.values, self.where, self.grad)

    def numpy(self) -> Any:
        assert self.where == "cpu" and not self.grad and not self.is_sparse
        return self.values

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a tensor on a device")


def data(**changed: Any) -> Any:
    parts = {"x": Tensor([[1.0, 0], [0, 1], [1, 1]]), "edge_index": Tensor([[0, 1], [1, 2]]), "y": Tensor([1, 0, 1])}
    return SimpleNamespace(**{name: value for name, value in {**parts, **changed}.items() if value is not None})


def test_tensors_are_fetched():
    graph = Graph.from_pyg(data(x=Tensor(np.eye(3), is_sparse=True), train_mask=Tensor([True, False, True])))
    assert graph.features.tolist() == np.eye(3).tolist() and graph.labels == [1, 0, 1]
    assert list(graph.relations) == ["links_to", "linked_from"] and links(graph) == {("0", "1"): 1, ("1", "2"): 1}
    assert Graph.from_pyg(data(), feature_names=["f", "g"]).feature_names == ("f", "g")


def test_links_from_both_ends_are_one_relation(caplog: pytest.LogCaptureFixture):
    edges = Tensor([[0, 1, 1, 2, 0], [1, 0, 2, 1, 0]])
    graph = Graph.from_pyg(data(edge_index=edges))
    assert list(graph.relations) == ["links_to"] and len(links(graph)) == 4
    assert caplog.messages[-1].endswith("links dropped: 1 from a node to itself")
    assert list(Graph.from_pyg(data(edge_index=edges), directed=True).relations) == ["links_to", "linked_from"]


def test_labels_that_are_not_known():
    assert Graph.from_pyg(data(y=Tensor([-1, 10, 9]))).labels == [None, 10, 9]
    assert Graph.from_pyg(data(y=Tensor([[np.nan], [10.0], [9.0]]))).classes.names == ("9", "10")
    assert Graph.from_pyg(data(y=None)).labels == [None] * 3


def test_kinds_weights_and_several_graphs():
    given = data(edge_type=Tensor([3, 5]), edge_weight=Tensor([[0.5], [2.0]]), batch=Tensor([0, 1, 0]))
    graph = Graph.from_pyg(given, relation="edge_type", weight="edge_weight")
    assert list(graph.relations) == ["3", "3_inverse", "5", "5_inverse"] and links(graph, "5") == {("1", "2"): 2}
    assert graph.group_names == ("0", "1") and graph.group_codes.tolist() == [0, 1, 0]


def test_data_without_features():
    graph = Graph.from_pyg(data(x=None, num_nodes=4, y=None))
    assert graph.n_nodes == 4 and graph.feature_names == ()


PYG_WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no links": (data(edge_index=None), {}, r"expected an object with edge_index \(2, E\), got SimpleNamespace"),
    "several kinds": (SimpleNamespace(node_types=["a"]), {}, r"into one with to_homogeneous\(\)"),
    "how many": (data(x=None, y=None), {}, r"expected x \(n, F\), y or num_nodes, to know how many nodes there are"),
    "links in rows": (data(edge_index=[[0, 1], [1, 2], [2, 0]]), {}, r"whole numbers \(2, E\); got int64 \(3, 2\)"),
    "fractions": (data(edge_index=[[0.0], [1.0]]), {}, "whole numbers"),
    "beyond": (
        data(edge_index=[[0, 1, 7], [1, 3, 0]]),
        {},
        "edge_index, column 1: link from 1 to 3, but there are 3 nodes",
    ),
    "no weights": (data(), {"weight": "edge_weight"}, "no attribute 'edge_weight'"),
    "too many weights": (data(w=[1, 2, 3]), {"weight": "w"}, r"w must be a number an edge \(2,\); got int64 \(3,\)"),
    "several labels": (data(y=np.ones((3, 4))), {}, r"labels must be one a node \(3,\); got shape \(3, 4\)"),
    "to itself": (data(edge_index=[[0, 1], [1, 1]]), {"self_loops": "refuse"}, "edge_index, column 1: a link from '1'"),
}


@pytest.mark.parametrize(("given", "options", "message"), PYG_WRONG.values(), ids=list(PYG_WRONG))
def test_data_that_cannot_be_used(given: Any, options: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        Graph.from_pyg(given, **options)


def test_settings_are_checked_everywhere():
    with pytest.raises(SettingError, match="self_loops must be one of drop, refuse"):
        Graph.from_networkx(nx.path_graph(2), self_loops="keep")
    with pytest.raises(SettingError, match="link and inverse must have two names"):
        Graph.from_pyg(data(), link="r", inverse="r")
    with pytest.raises(SettingError, match="directed must be one of True, False, None"):
        Graph.from_scipy(np.eye(2), directed="no")  # type: ignore[arg-type]
