"""Columns of lists and arrays, as embeddings come: a feature for each place, whatever library holds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.errors import InputError

IDS = ["a", "b", "c"]
EDGES = {"source": ["a", "b"], "target": ["b", "c"]}
VECTORS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def fixed_size(rows: Any) -> pa.Table:
    flat = pa.array(np.ravel(rows), pa.float64())
    return pa.table({"id": IDS, "v": pa.FixedSizeListArray.from_arrays(flat, len(rows[0]))})


def net_of(rows: Any) -> nx.Graph:
    net = nx.Graph()
    for key, row in zip(IDS, rows, strict=True):
        net.add_node(key, v=np.asarray(row))
    return net


MAKERS: dict[str, Callable[[Any], Any]] = {
    "pandas, lists": lambda rows: pd.DataFrame({"id": IDS, "v": rows}),
    "pandas, arrays": lambda rows: pd.DataFrame({"id": IDS, "v": [np.array(row, np.float32) for row in rows]}),
    "pandas, Arrow": lambda rows: pa.table({"id": IDS, "v": rows}).to_pandas(types_mapper=pd.ArrowDtype),
    "polars, List": lambda rows: pl.DataFrame({"id": IDS, "v": rows}),
    "polars, Array": lambda rows: pl.DataFrame({"id": IDS, "v": rows}, schema_overrides={"v": pl.Array(float, 2)}),
    "Arrow, list": lambda rows: pa.table({"id": IDS, "v": rows}),
    "Arrow, fixed size": fixed_size,
    "lists": lambda rows: {"id": IDS, "v": rows},
    "one array": lambda rows: {"id": IDS, "v": np.array(rows)},
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))
def test_a_feature_for_each_place(make: Callable[[Any], Any]):
    graph = kf.Graph.from_frames(make(VECTORS), EDGES)
    assert graph.feature_names == ("v[0]", "v[1]") and np.asarray(graph.features).tolist() == VECTORS


def test_attributes_of_networkx():
    graph = kf.Graph.from_networkx(net_of(VECTORS))
    assert graph.feature_names == ("v[0]", "v[1]") and np.asarray(graph.features).tolist() == VECTORS
    with pytest.raises(InputError, match="graph, node 'b': 'v' of node 'b' has 1 numbers, and of node 'a' 2"):
        kf.Graph.from_networkx(net_of([[1.0, 2.0], [3.0], [5.0, 6.0]]))


@settings(max_examples=25, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(0, 4)), elements=st.floats(-1e6, 1e6)))
def test_any_table_of_lists_is_that_table(values: Any):
    ids = [f"n{i}" for i in range(len(values))]
    nodes = {"id": ids, "age": list(range(len(values))), "v": values.tolist()}
    graph = kf.Graph.from_frames(nodes, {"source": [], "target": []})
    assert graph.feature_names == ("age", *(f"v[{i}]" for i in range(values.shape[1])))
    assert (np.asarray(graph.features)[:, 1:] == values).all()


WRONG: dict[str, tuple[list[Any], str]] = {
    "widths": ([[1.0, 2.0], [3.0], [5.0, 6.0]],
               "row 1: 'v' of node 'b' has 1 numbers, and of node 'a' 2; make lists of one width .* or leave"),
    "None inside": ([[1.0, 2.0], [3.0, None], [5.0, 6.0]],
                    r"row 1: 'v\[1\]' of node 'b' is missing, as it is of 1 nodes; fill it in, .* `missing='flag'`"),
    "NaN inside": ([[1.0, 2.0], [3.0, 4.0], [float("nan"), 6.0]], r"row 2: 'v\[0\]' of node 'c' is missing"),
    "no list": ([[1.0, 2.0], None, [5.0, 6.0]], "row 1: 'v' of node 'b' is missing, as it is of 1 nodes"),
    "inf": ([[1.0, 2.0], [3.0, float("inf")], [5.0, 6.0]], r"row 1: 'v\[1\]' of node 'b' is inf; features must be"),
    "strings": ([["p", "q"], ["p", "q"], ["p", "q"]], "row 0: 'v' of node 'a' must be a list of numbers; got"),
    "deep": ([[[1.0]], [[1.0]], [[1.0]]], r"'v' of node 'a' must be a list of numbers; got an array of shape \(1, 1\)"),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "message"), WRONG.values(), ids=list(WRONG))
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, dict], ids=["pandas", "polars", "lists"])
def test_lists_that_cannot_be_used(frame: Any, rows: list[Any], message: str):
    with pytest.raises(InputError, match=message):
        kf.Graph.from_frames(frame({"id": IDS, "v": rows}), EDGES)


def test_what_is_missing_may_be_a_feature():
    rows = [[1.0, 2.0], None, [5.0, float("nan")]]
    graph = kf.Graph.from_frames(pd.DataFrame({"id": IDS, "v": rows}), EDGES, missing="flag")
    assert graph.feature_names == ("v[0]", "v[1]", "v[1] is missing", "v is missing")
    assert np.asarray(graph.features).tolist() == [[1, 2, 0, 0], [0, 0, 0, 1], [5, 0, 1, 0]]


def test_lists_are_no_ids_no_labels_and_no_text():
    nodes = {"id": IDS, "v": VECTORS}
    for how, message in (
        ({"id": "v"}, "ids must be strings or whole numbers, got list"),
        ({"label": "v"}, r"column 'v' \(label\): expected strings, numbers or truth values, got list"),
        ({"text": "v"}, r"column 'v' \(text\): expected strings, got list"),
    ):
        with pytest.raises(InputError, match=message):
            kf.Graph.from_frames(nodes, EDGES, **how)


def frame(n: int, width: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(n)
    kind = np.arange(n) % 2
    vectors = rng.normal(size=(n, width)) + kind[:, None]
    return pd.DataFrame({"id": range(n), "v": list(vectors), "topic": np.array(["p", "q"])[kind]})


def test_a_model_finds_its_embeddings_again():
    links = {"source": [0, 1, 2, 3], "target": [2, 3, 4, 5]}
    model = kf.StackedNodes(LogisticRegression(), depth=0, n_jobs=1)
    model.fit_tables(frame(20), links, label="topic")
    assert model.node_columns_ == ("v[0]", "v[1]", "v[2]")
    more = frame(30).assign(other="x")
    found = model.predict_tables(more, links, known="none")
    graph = kf.Graph.from_frames(frame(30), links, label="topic")
    assert found["predicted"].tolist() == model.predict(graph, known="none").tolist()
    for width in (2, 4):
        with pytest.raises(InputError, match=f"the lists of 'v' have {width} numbers, and had 3 in training"):
            model.predict(kf.Graph.from_frames(frame(30, width), links, label="topic"))
