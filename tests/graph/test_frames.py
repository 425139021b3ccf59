"""Graphs from data frames: one graph whatever library holds the tables, features by name, every fault by its row."""

from __future__ import annotations

import datetime
import decimal
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from kinfolk.errors import InputError, SettingError
from kinfolk.graph.graph import Graph

NODES: dict[str, list[Any]] = {
    "id": ["a", "b", "ç 3", "d"],
    "kind": ["X", "Y", None, "X"],
    "age": [1.5, 2.0, -3.0, 0.0],
    "count": [3, 0, 7, 1],
    "new": [True, False, True, True],
    "colour of it": ["red", "blue", "red", "grün"],
    "title": ["A red Fox", None, "red, RED fox_1", "Été 42"],
}
EDGES: dict[str, list[Any]] = {"source": ["a", "b", "ç 3"], "target": ["b", "ç 3", "d"]}

Maker = Callable[[dict[str, list[Any]]], Any]
MAKERS: dict[str, Maker] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table, "lists": dict}


@pytest.fixture(params=list(MAKERS))
def frame(request: pytest.FixtureRequest) -> Maker:
    """Makes a data frame of each library in turn."""
    return MAKERS[request.param]


def small(frame: Maker = pd.DataFrame, nodes: Any = None, edges: Any = None, **options: Any) -> Graph:
    nodes = {"id": ["a", "b", "c"], "x": [1.0, 2.0, 3.0], **(nodes or {})}
    edges = {"source": ["a", "b"], "target": ["b", "c"], **(edges or {})}
    return Graph.from_frames(frame(nodes), frame(edges), **options)


def dense(graph: Graph) -> list[list[float]]:
    return (graph.features.toarray() if sparse.issparse(graph.features) else graph.features).tolist()


def columns(graph: Graph) -> dict[str, list[float]]:
    assert graph.feature_names is not None
    return dict(zip(graph.feature_names, np.array(dense(graph)).T.tolist(), strict=True))


def links(graph: Graph, relation: str = "links_to") -> dict[tuple[str, str], float]:
    pairs = graph.relations[relation].tocoo()
    ends = zip(*pairs.coords, pairs.data, strict=True)
    return {(graph.ids[i], graph.ids[j]): float(weight) for i, j, weight in ends}


def test_one_graph_whoever_holds_the_tables(frame: Maker, caplog: pytest.LogCaptureFixture):
    graph = Graph.from_frames(frame(NODES), frame(EDGES), label="kind", text="title")
    assert graph.ids == ("a", "b", "ç 3", "d") and graph.labels == ["X", "Y", None, "X"]
    assert graph.classes.names == ("X", "Y")
    assert sparse.issparse(graph.features) and graph.features.format == "csr" and graph.features.dtype == np.float64
    assert columns(graph) == {
        "age": [1.5, 2, -3, 0], "count": [3, 0, 7, 1], "new": [1, 0, 1, 1],
        "colour of it=blue": [0, 1, 0, 0], "colour of it=grün": [0, 0, 0, 1], "colour of it=red": [1, 0, 1, 0],
        "title:42": [0, 0, 0, 1], "title:a": [1, 0, 0, 0], "title:fox": [1, 0, 0, 0], "title:fox_1": [0, 0, 1, 0],
        "title:red": [1, 0, 1, 0], "title:été": [0, 0, 0, 1],
    }  # fmt: skip
    assert links(graph) == {("a", "b"): 1, ("b", "ç 3"): 1, ("ç 3", "d"): 1}
    assert links(graph, "linked_from") == {("b", "a"): 1, ("ç 3", "b"): 1, ("d", "ç 3"): 1}
    assert list(graph.relations) == ["links_to", "linked_from"] and not caplog.records
    assert graph.features.has_canonical_format and graph.features.nnz == graph.features.count_nonzero()


def test_texts_are_the_titles(frame: Maker):
    nodes = {"t": ["A  red Fox", "", "x" * 600], "by": ["Ann, B.", "C.", None], "g": ["p", "q", "p"], "no": [None] * 3}
    assert small(frame, nodes, features="x").titles is None
    assert small(frame, nodes, features="x", text="t").titles == ("A  red Fox", "", "x" * 500)
    both = small(frame, nodes, features="x", text=["by", "t", "no"], group="g")
    assert both.ids == ("a", "b", "c") and both.titles == ("Ann, B., A  red Fox", "C.", "x" * 500)


def test_the_tables_may_be_of_two_libraries():
    graph = Graph.from_frames(pl.DataFrame({"id": [1, 2]}), pd.DataFrame({"source": ["1"], "target": ["2"]}))
    assert links(graph) == {("1", "2"): 1} and graph.feature_names == () and graph.features.shape == (2, 0)


def test_numbers_alone_are_dense(frame: Maker):
    graph = small(frame, {"n": [1, 2, 3], "t": [True, False, True]})
    assert isinstance(graph.features, np.ndarray) and graph.features.dtype == np.float64
    assert graph.feature_names == ("x", "n", "t") and dense(graph) == [[1, 1, 1], [2, 2, 0], [3, 3, 1]]


def test_chosen_features_stand_in_the_order_they_were_asked_for(frame: Maker):
    nodes = {"z": [9, 8, 7], "g": ["p", "p", "q"]}
    assert small(frame, nodes, features=["z", "x"]).feature_names == ("z", "x")
    assert small(frame, nodes, features="z").feature_names == ("z",)
    assert small(frame, nodes, features=[]).feature_names == ()
    assert small(frame, nodes, group="g").feature_names == ("x", "z")
    assert small(frame, nodes, group="g", features=["g"]).feature_names == ("g=p", "g=q")


@pytest.mark.parametrize("category", [pd.Categorical, lambda v: pl.Series(v, dtype=pl.Categorical),
                                      lambda v: pl.Series(v, dtype=pl.Enum(["q", "p", "never"])),
                                      lambda v: pa.array(v).dictionary_encode()])  # fmt: skip
def test_categories_are_strings(category: Any):
    values = category(["p", "q", "p"])
    frame = next(m for m, kind in ((pd.DataFrame, pd.Categorical), (pl.DataFrame, pl.Series), (pa.table, object))
                 if isinstance(values, kind))  # fmt: skip
    assert columns(small(frame, {"c": values}, features="c")) == {"c=p": [1, 0, 1], "c=q": [0, 1, 0]}
    assert small(frame, {"c": values}, label="c").labels == ["p", "q", "p"]


def test_categories_of_numbers():
    assert small(nodes={"c": pd.Categorical([10, 9, 10])}, features="c").feature_names == ("c=10", "c=9")


@pytest.mark.parametrize("dtype", ["Int64", "uint8", "object", "float32", "int64[pyarrow]", "Float64", "category"])
def test_numbers_of_any_kind(dtype: str):
    numbers = pd.Series([1, 2, 3], dtype=dtype)
    names = ["n=1", "n=2", "n=3"] if dtype == "category" else ["n"]
    graph = small(nodes={"n": numbers}, features="n")
    assert graph.feature_names == tuple(names) and graph.features.sum() == (3 if dtype == "category" else 6)


def test_decimals():
    values = [decimal.Decimal("1.5"), decimal.Decimal("2.5"), decimal.Decimal("3.0")]
    for frame in MAKERS.values():
        assert columns(small(frame, {"n": values}, features="n")) == {"n": [1.5, 2.5, 3]}


# -- labels -------------------------------------------------------------------------------------------

LABELS = {
    "whole": ([10, 9, 10], [10, 9, 10], ["9", "10"]),
    "whole with a gap": ([10, None, 9], [10, None, 9], ["9", "10"]),
    "fractions": ([0.5, 10.0, None], [0.5, 10.0, None], ["0.5", "10"]),
    "truth": ([True, False, True], [True, False, True], ["False", "True"]),
    "truth with a gap": ([True, None, False], [True, None, False], ["False", "True"]),
    "strings with gaps": (["é", None, ""], ["é", None, None], ["é"]),
    "strings of numbers": (["10", "9", None], ["10", "9", None], ["9", "10"]),
    "nothing": ([None, None, None], [None] * 3, []),
}


@pytest.mark.parametrize(("given", "labels", "classes"), LABELS.values(), ids=list(LABELS))
def test_labels_keep_their_type(frame: Maker, given: list[Any], labels: list[Any], classes: list[str]):
    """But for whole numbers in which pandas wrote NaN, and so made them fractional."""
    graph = small(frame, {"y": given}, label="y")
    assert graph.labels == labels and list(graph.classes.names) == classes and graph.feature_names == ("x",)
    fractional = frame is pd.DataFrame and given == [10, None, 9]
    kinds = [float if fractional else type(label) for label in labels if label is not None]
    assert [type(label) for label in graph.labels if label is not None] == kinds


# -- missing features ---------------------------------------------------------------------------------

GAPS = {
    "number": ([1.5, None, 2.0], {"v": [1.5, 0, 2], "v is missing": [0, 1, 0]}),
    "whole": ([1, 2, None], {"v": [1, 2, 0], "v is missing": [0, 0, 1]}),
    "truth": ([None, True, False], {"v": [0, 1, 0], "v is missing": [1, 0, 0]}),
    "string": (["p", None, "q"], {"v=p": [1, 0, 0], "v=q": [0, 0, 1], "v is missing": [0, 1, 0]}),
    "empty string": (["p", "", "q"], {"v=p": [1, 0, 0], "v=q": [0, 0, 1], "v is missing": [0, 1, 0]}),
    "nothing": ([None, None, None], {"v": [0, 0, 0], "v is missing": [1, 1, 1]}),
    "constant": ([4, 4, 4], {"v": [4, 4, 4]}),
    "constant string": (["p", "p", "p"], {"v=p": [1, 1, 1]}),
}


@pytest.mark.parametrize(("given", "expected"), GAPS.values(), ids=list(GAPS))
def test_missing_features(frame: Maker, given: list[Any], expected: dict[str, list[float]]):
    assert columns(small(frame, {"v": given}, features="v", missing="flag")) == expected
    if len(expected) == 1:
        assert columns(small(frame, {"v": given}, features="v")) == expected
        return
    with pytest.raises(InputError, match=r"nodes, row \d: 'v' of node '.' is missing, as it is of . nodes; fill it in"):
        small(frame, {"v": given})


def test_nan_is_missing_in_polars_too():
    graph = small(pl.DataFrame, {"v": [1.0, float("nan"), None]}, features="v", missing="flag")
    assert columns(graph) == {"v": [1, 0, 0], "v is missing": [0, 1, 1]}


def test_texts_may_be_missing(frame: Maker):
    assert small(frame, {"t": [None, None, None]}, text=["t"]).feature_names == ("x",)
    assert columns(small(frame, {"t": ["b B", None, "a"]}, text="t", features=[])) == {
        "t:a": [0, 0, 1],
        "t:b": [1, 0, 0],
    }


# -- ids, groups --------------------------------------------------------------------------------------


def test_whole_numbers_and_strings_are_the_same_ids(frame: Maker):
    far = [5, -(2**62), 2**62]
    for ids, ends in (([3, 1, 2], [3, 1]), (far, far[:2]), (["3", "1", "2"], [3, 1]), ([3, 1, 2], ["3", "1"])):
        graph = small(frame, {"id": ids}, {"source": ends, "target": ends[::-1]})
        assert graph.ids == tuple(map(str, ids))
        assert links(graph) == {(str(ends[0]), str(ends[1])): 1, (str(ends[1]), str(ends[0])): 1}


def test_whole_numbers_that_are_nowhere(caplog: pytest.LogCaptureFixture):
    for ids in ([3, 1, 2], [3, 1, 2**60]):
        edges = {"source": [1, 0, 9, -(2**63), 2**63 - 1, 2**60 + 1], "target": [3, 1, 1, 1, 1, 1]}
        assert links(small(nodes={"id": ids}, edges=edges)) == {("1", "3"): 1}
    assert "5 with an end that is not in nodes (the first: '0' in edges, row 1)" in caplog.text


def test_ids_beyond_a_signed_number():
    ids = np.array([2**64 - 1, 2**63, 1], np.uint64)
    graph = small(nodes={"id": ids}, edges={"source": ids[:2], "target": ids[1:]})
    assert graph.ids == (str(2**64 - 1), str(2**63), "1") and len(links(graph)) == 2
    graph = small(nodes={"id": ids}, edges={"source": ["1", "1"], "target": [str(2**63), "2"]})
    assert links(graph) == {("1", str(2**63)): 1}
    graph = small(nodes={"id": [2**70, 2, 3]}, edges={"source": [2**70, 2], "target": [2, 3]})
    assert links(graph) == {(str(2**70), "2"): 1, ("2", "3"): 1}


def test_mixed_ids():
    mixed = pd.Series([1, "b", 3], dtype=object)
    assert links(small(nodes={"id": mixed}, edges={"source": [1, "b"], "target": ["b", 3]})) == {
        ("1", "b"): 1, ("b", "3"): 1,
    }  # fmt: skip


def test_rows_may_be_the_ids(frame: Maker):
    graph = Graph.from_frames(frame({"x": [1, 2]}), frame({"source": [0], "target": [1]}), id=None)
    assert graph.ids == ("0", "1") and links(graph) == {("0", "1"): 1} and graph.feature_names == ("x",)


def test_rows_stay_in_order_whatever_their_groups(frame: Maker):
    nodes = {"g": [7, 3, 7], "y": ["p", "q", None], "t": ["one", "two", "three"]}
    graph = small(frame, nodes, label="y", group="g", text="t", features="x")
    assert graph.ids == ("a", "b", "c") and graph.group_names == ("7", "3") and graph.group_codes.tolist() == [0, 1, 0]
    assert graph.labels == ["p", "q", None] and graph.titles == ("one", "two", "three")
    assert [row[0] for row in dense(graph)] == [1, 2, 3]
    assert links(graph) == {("a", "b"): 1, ("b", "c"): 1}


def test_columns_named_by_numbers():
    graph = Graph.from_frames(
        pd.DataFrame([["a", 1], ["b", 2]]), pd.DataFrame([["a", "b"]]), id="0", source="0", target="1"
    )
    assert graph.ids == ("a", "b") and graph.feature_names == ("1",) and links(graph) == {("a", "b"): 1}


# -- what cannot be -----------------------------------------------------------------------------------

NAN = float("nan")
WRONG_NODES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no nodes": ({"id": [], "x": []}, {}, "^nodes: no nodes: expected a row for each, found none"),
    "an id twice": ({"id": ["a", "b", "a"]}, {}, "^nodes, row 2: ids must be distinct; 'a' was in nodes, row 0"),
    "no id": ({"id": ["a", None, ""]}, {}, r"^nodes, row 1: column 'id' \(id\): the id is missing here and in 1 other"),
    "nan as id": ({"id": [1, NAN, 3]}, {},
                  r"got fractional numbers like 1.0, as pandas makes .* \(the first: nodes, row 1\); leave out"),
    "fractions as ids": ({"id": [1.0, 2.0, 3.0]}, {}, "got fractional numbers like 1.0; turn it into int64 or strings"),
    "truth as ids": ({"id": [True, False, True]}, {}, "ids must be strings or whole numbers, got Boolean"),
    "dates as ids": ({"id": pd.to_datetime(["2020", "2021", "2022"])}, {}, "ids must be .* got Datetime"),
    "a fraction among ids": ({"id": pd.Series(["a", 0.5, 3], dtype=object)}, {}, "^nodes, row 1: .* got 0.5"),
    "no such column": ({}, {"label": "y"}, r"^nodes: no column 'y' \(label\); the columns are 'id', 'x': name"),
    "no such feature": ({}, {"features": ["x", "q"]}, r"^nodes: no column 'q' \(features\)"),
    "no such text": ({}, {"text": ["q"]}, r"^nodes: no column 'q' \(text\)"),
    "no column of ids": ({}, {"id": "key"}, r"no column 'key' \(id\).* a pandas index becomes a column by reset_index"),
    "dates": ({"when": pd.to_datetime(["2020", "2021", "2022"])}, {},
              "column 'when': expected numbers, strings, truth values or lists of numbers, got"),
    "dates as objects": ({"when": [datetime.date(2020, 1, 1)] * 3}, {}, "column 'when': .* got date; turn it into one"),
    "lists of strings": ({"v": [[1], ["p"], [3]]}, {},
                         r"'v' of node 'b' must be a list of numbers; got \['p'\]: .* leave the column out with"),
    "mixed": ({"v": [1, "a", 2.5]}, {}, "column 'v': expected .* got float and int and str"),
    "truth and numbers": ({"v": pd.Series([1, True, 2], dtype=object)}, {}, "got bool and int"),
    "endless": ({"v": [1, np.inf, 3]}, {}, "^nodes, row 1: 'v' of node 'b' is inf; features must be finite"),
    "a number as text": ({}, {"text": "x", "features": []}, r"column 'x' \(text\): expected strings, got Float64"),
    "a date as label": ({"y": pd.to_datetime(["2020"] * 3)}, {"label": "y"}, r"column 'y' \(label\): expected strings"),
    "no group": ({"g": ["p", None, "q"]}, {"group": "g"}, "^nodes, row 1: no group in column 'g'; fill it in"),
    "one name for two": ({"v": ["p", "q", "p"], "v=p": [1, 2, 3]}, {}, "^nodes: two features would be named 'v=p'"),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "options", "message"), WRONG_NODES.values(), ids=list(WRONG_NODES))
def test_nodes_that_cannot_be_used(nodes: dict[str, Any], options: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message) as error:
        small(nodes=nodes, **options)
    assert error.value.path is None


def test_structs_of_other_libraries():
    for frame in (pl.DataFrame, pa.table):
        for values in ([{"a": 1}] * 3, [b"x"] * 3):
            with pytest.raises(InputError, match=r"column 'v': expected .* got (Struct|Binary)"):
                small(frame, {"v": values})


WRONG_SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "the label as a feature": ({"label": "x", "features": ["x"]}, "column 'x' is the label and cannot be a feature"),
    "the id as text": ({"text": "id"}, "column 'id' is the id and cannot be a feature"),
    "a feature twice": ({"features": ["x", "x"]}, "column 'x' is listed twice among features and text"),
    "a feature as text too": ({"features": ["x"], "text": ["x"]}, "column 'x' is listed twice"),
    "one column for two parts": ({"label": "id"}, "id, label and group must be three columns; got 'id', 'id', None"),
    "missing": ({"missing": "drop"}, "missing must be one of refuse, flag; got 'drop'"),
    "dangling": ({"dangling": "keep"}, "dangling must be one of drop, refuse; got 'keep'"),
    "self_loops": ({"self_loops": "keep"}, "self_loops must be one of drop, refuse; got 'keep'"),
    "duplicates": ({"duplicates": "drop"}, "duplicates must be one of merge, refuse; got 'drop'"),
    "directed": ({"directed": "yes"}, "directed must be one of True, False, None; got 'yes'"),
    "one name": ({"link": "r", "inverse": "r"}, "link and inverse must have two names; both are 'r'"),
    "one name in a map": ({"inverse": {"r": "r"}}, "must have two names; both are 'r'"),
}


@pytest.mark.parametrize(("options", "message"), WRONG_SETTINGS.values(), ids=list(WRONG_SETTINGS))
def test_settings_that_cannot_be(options: dict[str, Any], message: str):
    with pytest.raises(SettingError, match=message):
        small(**options)


def test_what_is_no_table():
    edges = pd.DataFrame(EDGES)
    with pytest.raises(
        InputError, match=r"nodes: expected a table of pandas, polars, Arrow or DuckDB, got builtins.dict; a dict"
    ):
        Graph.from_frames({"id": "abc"}, edges)
    with pytest.raises(InputError, match=r"edges\[1\]: expected a table .* got builtins.int"):
        Graph.from_frames(pd.DataFrame(NODES), [edges, 3])
    with pytest.raises(InputError, match=r"nodes: two columns have the same name .*'id' 2 times.*; rename one"):
        Graph.from_frames(pd.DataFrame([["a", "b"]], columns=["id", "id"]), edges)


def test_lists_of_different_lengths_are_no_table():
    with pytest.raises(InputError, match=r"nodes: every column must have a value for each row; 'id' has 2, 'x' has 1"):
        Graph.from_frames({"id": ["a", "b"], "x": [1.0]}, EDGES)
    with pytest.raises(InputError, match=r"nodes: column 'x' must have one value or .* shape \(2, 3, 1\)"):
        Graph.from_frames({"id": ["a", "b"], "x": np.zeros((2, 3, 1))}, EDGES)
    named = Graph.from_frames(NODES, {"cites": EDGES, "likes": EDGES}, label="kind", features=["age"])
    assert "likes" in named.relations and "cites" in named.relations, "a dict of tables is one of relations"


def test_a_feature_for_every_node_is_spoken_of(caplog: pytest.LogCaptureFixture):
    n = 300
    nodes = pd.DataFrame(
        {"id": range(n), "name": [f"n{i}" for i in range(n)], "half": [f"h{i // 2}" for i in range(n)]}
    )
    with caplog.at_level(logging.WARNING, "kinfolk"):
        graph = Graph.from_frames(nodes, pd.DataFrame({"source": [0], "target": [1]}))
    (record,) = caplog.records
    assert (
        "nodes: column 'name' has 300 different values among 300 nodes and makes a feature of each"
        in record.getMessage()
    )
    assert graph.n_features == 450
