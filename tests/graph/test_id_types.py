"""Ids come out in the type they came in, whatever library holds them; inside nodes are known by strings."""

from __future__ import annotations

import enum
import pickle
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.errors import InputError
from kinfolk.graph.graph import Graph


class Account(enum.Enum):
    ann = "a"
    bob = "b"
    cid = "c"
    dot = "d"


class Number(enum.IntEnum):
    one = 1
    two = 2
    three = 3
    four = 4


LETTERS = ["a", "b", "c", "d"]
COLUMNS: dict[str, tuple[Any, list[Any], list[str]]] = {
    "int": (pd.Series([40, 7, 3, 10]), [40, 7, 3, 10], ["40", "7", "3", "10"]),
    "int32": (pd.Series([40, 7, 3, 10], dtype="int32"), [40, 7, 3, 10], ["40", "7", "3", "10"]),
    "Int64": (pd.Series([40, 7, 3, 10], dtype="Int64"), [40, 7, 3, 10], ["40", "7", "3", "10"]),
    "str": (pd.Series(LETTERS), LETTERS, LETTERS),
    "Enum": (pd.Series([*Account]), [*Account], LETTERS),
    "IntEnum": (pd.Series([*Number], dtype=object), [*Number], ["1", "2", "3", "4"]),
    "categorical": (pd.Series(LETTERS, dtype="category"), LETTERS, LETTERS),
    "categorical int": (pd.Series([4, 3, 9, 1], dtype="category"), [4, 3, 9, 1], ["4", "3", "9", "1"]),
    "zeros before": (pd.Series(["007", "07", "7", "70"]), ["007", "07", "7", "70"], ["007", "07", "7", "70"]),
    "polars int": (pl.Series([40, 7, 3, 10]), [40, 7, 3, 10], ["40", "7", "3", "10"]),
    "polars enum": (pl.Series(LETTERS, dtype=pl.Enum(LETTERS)), LETTERS, LETTERS),
    "polars categorical": (pl.Series(LETTERS, dtype=pl.Categorical), LETTERS, LETTERS),
    "arrow uint64": (
        pa.array([2**63 + 5, 7, 3, 10], pa.uint64()),
        [2**63 + 5, 7, 3, 10],
        [str(2**63 + 5), "7", "3", "10"],
    ),
    "lists": ([10**30, 7, 3, 10], [10**30, 7, 3, 10], [str(10**30), "7", "3", "10"]),
}


def tables(ids: Any) -> tuple[Any, Any]:
    """Nodes with these ids, and links from each to the next, of the same kind."""
    made: Any = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame, list: dict}.get(type(ids), pa.table)
    nodes = {"id": ids, "x": [1.0, 2.0, 3.0, 4.0], "label": ["u", "v", "u", "v"]}
    listed = ids if isinstance(ids, pa.Array) else list(ids)
    return made(nodes), made({"source": listed[:3], "target": listed[1:]})


@pytest.mark.parametrize(("ids", "given", "names"), COLUMNS.values(), ids=list(COLUMNS))
def test_ids_of_tables(ids: Any, given: list[Any], names: list[str]):
    nodes, edges = tables(ids)
    graph = Graph.from_frames(nodes, edges, label="label")
    assert graph.ids == tuple(names) and graph.node_ids.tolist() == given
    assert [type(one) for one in graph.node_ids.tolist()] == [type(one) for one in given]
    assert graph.node_ids.dtype.kind == (
        "O" if not all(type(one) is int and one < 2**64 for one in given) else "u" if given[0] >= 2**63 else "i"
    )
    assert graph.relations["links_to"].nnz == 3 and graph.numbers_of(given).tolist() == [0, 1, 2, 3]
    few = graph.nodes_at([True, False, True, False])
    assert few.node_ids.tolist() == [given[0], given[2]] and few.ids == [names[0], names[2]]
    for same in (graph.with_labels(None), graph.with_masks({}), pickle.loads(pickle.dumps(graph))):
        assert same.ids == graph.ids and same.node_ids.tolist() == given
    assert graph.subset([2, 0]).node_ids.tolist() == [given[2], given[0]]
    with pytest.raises(ValueError, match="read-only"):
        graph.node_ids[0] = given[1]


@pytest.mark.parametrize(("ids", "given", "names"), COLUMNS.values(), ids=list(COLUMNS))
def test_tables_keep_their_column(ids: Any, given: list[Any], names: list[str]):
    nodes, edges = tables(ids)
    model = kf.StackedNodes(LogisticRegression(), depth=0, n_jobs=1).fit_tables(nodes, edges)
    found = model.predict_tables(nodes, edges, label="label", known="none")
    assert type(found) is type(nodes)
    column, before = found["id"], nodes["id"]
    assert list(column) == list(before) and getattr(column, "dtype", None) == getattr(before, "dtype", None)
    if isinstance(found, pa.Table):
        assert found.schema.field("id") == nodes.schema.field("id")


def test_ids_of_arrays_and_of_other_libraries():
    x = np.zeros((3, 1))
    assert Graph(x).node_ids.tolist() == [0, 1, 2] and Graph(x, ids=[5, 6, 7]).node_ids.dtype == np.int64
    assert Graph(x, ids=np.array([5, 6, 7], np.int32)).ids == ("5", "6", "7")
    assert Graph(x, ids=["a", 5, Account.bob]).node_ids.tolist() == ["a", 5, Account.bob]
    net = nx.grid_2d_graph(1, 3)
    assert Graph.from_networkx(net).node_ids.tolist() == [(0, 0), (0, 1), (0, 2)]
    assert Graph.from_networkx(nx.path_graph(3)).node_ids.dtype.kind == "i"
    assert Graph(x[:2], ids=[2**63, -1]).node_ids.tolist() == [2**63, -1], "no 64 bits hold both"
    assert len(Graph(np.zeros((0, 1))).node_ids) == 0 and len(Graph(np.zeros((0, 1)), ids=[]).node_ids) == 0
    with pytest.raises(InputError, match="ids must be distinct"):
        Graph(x).subset([1, 1])


def test_ids_of_a_graph_that_grows():
    nodes, edges = tables(pd.Series([40, 7, 3, 10]))
    graph = Graph.from_frames(nodes, edges, label="label")
    late = pd.DataFrame({"id": [8, 9], "x": [0.0, 1.0]}), pd.DataFrame({"source": [8, 9], "target": [40, 8]})
    grown = graph.with_frames(*late)
    assert grown.node_ids.tolist() == [40, 7, 3, 10, 8, 9] and grown.node_ids.dtype == np.int64
    named = graph.with_nodes(np.zeros((1, 1)), ids=["new"], feature_names=["x"])
    assert named.node_ids.tolist() == [40, 7, 3, 10, "new"] and named.ids[-1] == "new"
    assert Graph(np.zeros((2, 1))).with_nodes(np.zeros((1, 1))).node_ids.tolist() == [0, 1, 2]
    one = Graph(np.zeros((1, 1)), ids=[Account.ann]).with_nodes(np.zeros((1, 1)), ids=[Account.bob])
    assert one.node_ids.tolist() == [Account.ann, Account.bob] and one.ids == ("a", "b")


@given(st.lists(st.one_of(st.integers(), st.text(min_size=1)), unique_by=str, max_size=5))
def test_whatever_is_given_comes_back(ids: list[Any]):
    graph = Graph(np.zeros((len(ids), 1)), ids=ids)
    assert graph.node_ids.tolist() == ids and graph.ids == tuple(map(str, ids))
    assert pickle.loads(pickle.dumps(graph)).node_ids.tolist() == ids
