"""Graphs in CSV and Parquet files: those of the data frames they were written from; every fault with its line."""

from __future__ import annotations

import builtins
import csv
import gzip
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import kinfolk as kf
from kinfolk.core.table import csv_table
from kinfolk.errors import DataWarning, InputError, SettingError
from kinfolk.graph.files import read_tables
from kinfolk.graph.graph import Graph

NODES = """id,kind,age,new,colour,title
a,X,1.5,true,red,A red Fox
b,Y,2,false,blue,
ç 3,,-3e0,true,red,"red, ""RED""
fox"
04,X,0,true,grün,Été 42
"""
EDGES = "source,target,how,w\na,b,cites,1\nb,ç 3,cites,0.5\nç 3,04,likes,2\n"


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read a graph of two texts, written to nodes.csv and edges.csv."""

    def reader(nodes: str | bytes = NODES, edges: str | bytes = EDGES, **options: Any) -> Graph:
        for name, text in (("nodes.csv", nodes), ("edges.csv", edges)):
            (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", **options)

    return reader


def links(graph: Graph, relation: str = "links_to") -> dict[tuple[str, str], float]:
    pairs = graph.relations[relation].tocoo()
    return {(graph.ids[i], graph.ids[j]): float(w) for i, j, w in zip(*pairs.coords, pairs.data, strict=True)}


def columns(graph: Graph) -> dict[str, list[float]]:
    rows = graph.features.toarray() if sparse.issparse(graph.features) else graph.features
    return dict(zip(graph.feature_names or (), rows.T.tolist(), strict=True))


def same(one: Graph, other: Graph) -> bool:
    assert (one.ids, one.labels, one.classes) == (other.ids, other.labels, other.classes)
    assert list(one.relations) == list(other.relations) and one.group_names == other.group_names
    return columns(one) == columns(other) and all(links(one, name) == links(other, name) for name in one.relations)


def test_nodes_and_links(read: Any, caplog: pytest.LogCaptureFixture):
    graph = read(label="kind", text="title")
    assert graph.ids == ("a", "b", "ç 3", "04") and graph.labels == ["X", "Y", None, "X"]
    assert graph.titles == ("A red Fox", "", 'red, "RED"\nfox', "Été 42")
    assert columns(graph) == {
        "age": [1.5, 2, -3, 0], "new": [1, 0, 1, 1],
        "colour=blue": [0, 1, 0, 0], "colour=grün": [0, 0, 0, 1], "colour=red": [1, 0, 1, 0],
        "title:42": [0, 0, 0, 1], "title:a": [1, 0, 0, 0], "title:fox": [1, 0, 1, 0], "title:red": [1, 0, 1, 0],
        "title:été": [0, 0, 0, 1],
    }  # fmt: skip
    assert links(graph) == {("a", "b"): 1, ("b", "ç 3"): 1, ("ç 3", "04"): 1} and not caplog.records
    weighed = read(label="kind", text="title", relation="how", weight="w", inverse={"cites": "cited_by"})
    assert list(weighed.relations) == ["cites", "cited_by", "likes", "likes_inverse"]
    assert links(weighed, "cites") == {("a", "b"): 1, ("b", "ç 3"): 0.5}


def test_the_public_name():
    assert kf.read_tables is read_tables


def test_one_graph_from_files_and_frames(tmp_path: Path):
    """Frames, the CSV files that pandas and polars write of them, and their Parquet files."""
    nodes = {"id": [3, 1, 20], "y": ["p", None, "q"], "n": [1, 2, 3], "v": [0.5, None, 1e-3], "t": [True, False, True]}
    edges = {"source": [3, 1], "target": [1, 20], "w": [1.0, 2.5]}
    options: dict[str, Any] = {"label": "y", "weight": "w", "missing": "flag"}
    expected = Graph.from_frames(pd.DataFrame(nodes), pd.DataFrame(edges), **options)
    pd.DataFrame(nodes).to_csv(tmp_path / "n1.csv", index=False)
    pd.DataFrame(edges).to_csv(tmp_path / "e1.csv.gz", index=False)
    pl.DataFrame(nodes).write_csv(tmp_path / "n2.tsv", separator="\t")
    pl.DataFrame(edges).write_csv(tmp_path / "e2.csv", separator=";")
    pd.DataFrame(nodes).to_parquet(tmp_path / "n3.parquet")
    pl.DataFrame(edges).write_parquet(tmp_path / "e3.pq")
    for n, e in (("n1.csv", "e1.csv.gz"), ("n2.tsv", "e2.csv"), ("n3.parquet", "e3.pq"), ("n3.parquet", "e2.csv")):
        assert same(expected, read_tables(str(tmp_path / n), tmp_path / e, **options)), (n, e)


def test_several_files_of_links(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "n.csv").write_text("id\na\nb\nc\n")
    (tmp_path / "one.csv").write_text("source,target\na,b\n\nz,a\n")
    (tmp_path / "two.tsv").write_text("source\ttarget\nb\tc\na\tb\n")
    files = [tmp_path / "one.csv", tmp_path / "two.tsv"]
    assert links(read_tables(tmp_path / "n.csv", files)) == {("a", "b"): 1, ("b", "c"): 1}
    (record,) = caplog.records
    assert "n.csv (the first: 'z' in " in record.getMessage()
    assert record.getMessage().endswith("one.csv, line 4), 1 repeated")
    graph = read_tables(tmp_path / "n.csv", {"cites": files[0], "likes": files[1]}, inverse=None)
    assert links(graph, "cites") == {("a", "b"): 1} and links(graph, "likes") == {("b", "c"): 1, ("a", "b"): 1}


def test_open_files_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"id,x\na,1\nb,2\n"))))
    graph = read_tables("-", io.StringIO("source,target\na,b\n"))
    assert links(graph) == {("a", "b"): 1} and columns(graph) == {"x": [1, 2]}
    with pytest.raises(SettingError, match="only one of the files can be standard input"):
        read_tables("-", ["-"])


def test_line_ends_marks_and_blank_lines(read: Any):
    nodes = b"\xef\xbb\xbf\r\nid;x\r\n\r\na;1\r\nb;2\r\n\r\n"
    graph = read(nodes, "source\ttarget\r\na\tb\r\n")
    assert columns(graph) == {"x": [1, 2]} and links(graph) == {("a", "b"): 1}


def test_the_divider_may_be_told(read: Any):
    graph = read("id|x, y\na|1\nb|2\n", "source|target\na|b\n", delimiter="|")
    assert columns(graph) == {"x, y": [1, 2]} and graph.ids == ("a", "b")
    for wrong in ("", "ab", '"', "\n"):
        with pytest.raises(SettingError, match="delimiter must be one character"):
            read(delimiter=wrong)


def test_what_a_column_holds(read: Any):
    cells = {
        "n": ["1", "-2.5e3", " 3 "],
        "t": ["True", "FALSE", "true"],
        "s": ["1_0", "x", "y"],
        "one": ["7", "7", "7"],
    }
    rows = zip("abc", *cells.values(), strict=True)
    graph = read("\n".join(map(",".join, [["id", *cells], *rows])), "source,target\na,b\n")
    assert columns(graph) == {
        "n": [1, -2500, 3], "t": [1, 0, 1], "s=1_0": [1, 0, 0], "s=x": [0, 1, 0], "s=y": [0, 0, 1], "one": [7, 7, 7],
    }  # fmt: skip


def test_empty_cells_are_missing(read: Any):
    nodes, edges = "id,n,s,t,e\na,1,p,true,\nb,nan,,,\n", "source,target\na,b\n"
    with pytest.raises(InputError, match=r"nodes.csv, line 3: 'n' of node 'b' is missing") as error:
        read(nodes, edges)
    assert error.value.line == 3 and str(error.value.path).endswith("nodes.csv")
    assert columns(read(nodes, edges, missing="flag")) == {
        "n": [1, 0], "n is missing": [0, 1], "s=p": [1, 0], "s is missing": [0, 1], "t": [1, 0], "t is missing": [0, 1],
        "e": [0, 0], "e is missing": [1, 1],
    }  # fmt: skip


def test_a_word_among_numbers_is_spoken_of(read: Any, caplog: pytest.LogCaptureFixture):
    nodes = "id,age,colour\na,1,red\nb,NA,blue\nc,3,1\n"
    graph = read(nodes, "source,target\na,b\n")
    assert "age=NA" in columns(graph)
    (record,) = caplog.records
    assert "nodes.csv, line 3: 'NA' is no number, so column 'age' is taken for names" in record.getMessage()


def test_words_for_missing_among_labels_are_told(read: Any):
    """They stay labels, for NA may be a name."""
    rows = ["a,X", "b,NA", "c,NA", "d,null", "e,", 'f," "']
    told = r"nodes.csv: column 'kind' \(label\): 'NA' in 2 rows and 'null' in 1 row are taken for names; leave such"
    with pytest.warns(DataWarning, match=told + " cells empty if nothing is known there"):
        graph = read("id,kind\n" + "\n".join(rows) + "\n", "source,target\na,b\n", label="kind")
    assert graph.labels == ["X", "NA", "NA", "null", None, None]


def test_an_index_without_a_name_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    pd.DataFrame({"id": ["a", "b"], "x": [1, 2]}).to_csv(tmp_path / "n.csv")
    pd.DataFrame({"source": ["a"], "target": ["b"]}).to_csv(tmp_path / "e.csv")
    graph = read_tables(tmp_path / "n.csv", tmp_path / "e.csv")
    assert columns(graph) == {"x": [1, 2]} and "n.csv: column 1 has no name and is left out" in caplog.text


def test_long_texts(read: Any):
    before = csv.field_size_limit()
    graph = read(f"id,t\na,{'word ' * 40_000}\nb,\n", "source,target\na,b\n", text="t")
    assert columns(graph) == {"t:word": [1, 0]} and csv.field_size_limit() == before


BAD: dict[str, tuple[str | bytes, str | bytes, dict[str, Any], str]] = {
    "nothing": ("", EDGES, {}, "nodes.csv: no columns: expected a line with their names, found nothing"),
    "no rows": ("id,x\n", EDGES, {}, "nodes.csv: no nodes: expected a row for each, found none"),
    "a cell less": (NODES + "\ne,X\n", EDGES, {}, "nodes.csv, line 8: expected 6 cells, as many as columns .* got 2"),
    "a cell more": ("id,x\na,1,2\n", EDGES, {}, "nodes.csv, line 2: expected 2 cells, .* got 3; .* hold ','"),
    "not UTF-8": ("id,x\na,é\n".encode("latin-1"), EDGES, {}, "nodes.csv, line 2: not UTF-8 at byte 7"),
    "an open quote": ('id,x\na,"1\nb,2\n', EDGES, {}, "nodes.csv, line 3: not a table: unexpected end of data"),
    "text after a quote": ('id,x\na,"1"2\n', EDGES, {}, "nodes.csv, line 2: not a table: ',' expected after '\"'"),
    "a name twice": ("\nid,x,x\na,1,2\n", EDGES, {}, "nodes.csv, line 2: two columns are named 'x'; rename one"),
    "an id twice": (NODES + "b,X,1,true,red,\n", EDGES, {"text": "title"},
                    "nodes.csv, line 7: ids must be distinct; 'b' was in .*nodes.csv, line 3 already"),
    "no id": (NODES + ",X,1,true,red,\n", EDGES, {}, r"nodes.csv, line 7: column 'id' \(id\): the id is missing here"),
    "no such column": (NODES, EDGES, {"label": "topic"}, r"nodes.csv: no column 'topic' \(label\); the columns"),
    "no such end": (NODES, "from,to\na,b\n", {"label": "kind", "text": "title"}, "edges.csv: no column 'source'"),
    "endless": ("id,x\na,inf\n", EDGES, {}, "nodes.csv, line 2: 'x' of node 'a' is inf"),
    "dangling": ("id\na\nb\n", EDGES, {"dangling": "refuse"}, "edges.csv, line 3: 'ç 3' is not in .*nodes.csv, and 2"),
    "none joins": ("id\n1\n2\n", "source,target\n1.0,2.0\n", {}, "edges.csv: none of the 1 links joins two nodes of "
                   ".*nodes.csv; a node is '1', a link goes from '1.0'.*whole numbers were written as fractions"),
    "no weight": ("id\na\nb\n", "source,target,w\na,b,1\na,b,\n", {"weight": "w"}, "edges.csv, line 3: .* got nothing"),
    "no name": ("id\na\nb\n", "source,target,r\na,b,\n", {"relation": "r"}, "edges.csv, line 2: no relation in"),
    "no group": ("id,g\na,1\nb,\n", EDGES, {"group": "g"}, "nodes.csv, line 3: no group in column 'g'"),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "edges", "options", "message"), BAD.values(), ids=list(BAD))
def test_files_that_cannot_be_read(read: Any, nodes: Any, edges: Any, options: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message) as error:
        read(nodes, edges, **options)
    assert str(error.value.path).endswith(".csv")


def test_lines_are_counted_through_quoted_line_ends(read: Any):
    with pytest.raises(InputError, match=r"nodes.csv, line 6: 'age' of node '04' is missing"):
        read(NODES.replace("04,X,0", "04,X,"), label="kind", text="title")


def test_files_that_are_not_there(tmp_path: Path):
    with pytest.raises(InputError, match="no such file"):
        read_tables(tmp_path / "n.csv", tmp_path / "e.csv")


# -- Parquet ------------------------------------------------------------------------------------------


@pytest.fixture
def parquet(tmp_path: Path) -> tuple[Path, Path]:
    pl.DataFrame({"id": ["a", "b", "c"], "x": [1, None, 3]}).write_parquet(tmp_path / "n.parquet")
    pl.DataFrame({"source": ["a", "b"], "target": ["b", "z"]}).write_parquet(tmp_path / "e.parquet")
    return tmp_path / "n.parquet", tmp_path / "e.parquet"


def test_faults_in_parquet_have_a_row(parquet: tuple[Path, Path]):
    with pytest.raises(InputError, match=r"n.parquet, row 1: 'x' of node 'b' is missing") as error:
        read_tables(*parquet)
    assert str(error.value.path).endswith("n.parquet")
    with pytest.raises(InputError, match=r"e.parquet, row 1: 'z' is not in .*n.parquet"):
        read_tables(*parquet, features=[], dangling="refuse")


def test_parquet_that_is_damaged(parquet: tuple[Path, Path]):
    parquet[0].write_bytes(parquet[0].read_bytes()[:-20])
    with pytest.raises(InputError, match=r"n.parquet: Parquet data is truncated or damaged \(.*; fetch it again"):
        read_tables(*parquet)


def test_parquet_without_pyarrow(parquet: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.split(".")[0] == "pyarrow":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"needs pyarrow, and that is not installed: pip install 'kinfolk\[tables\]'"):
        read_tables(*parquet)


# -- anything that can be written can be read ---------------------------------------------------------

CELLS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=6)


@given(st.data())
def test_cells_come_back_as_they_were_written(data: st.DataObject):
    width = data.draw(st.integers(1, 3))
    rows = data.draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=6))
    rows = [row for row in rows if width > 1 or row[0]]
    divider = data.draw(st.sampled_from([",", ";", "\t"]))
    text = io.StringIO(newline="")
    names = [f"c{i}" for i in range(width)]
    csv.writer(text, delimiter=divider, quoting=csv.QUOTE_ALL).writerows([names, *rows])
    table = csv_table(text.getvalue().encode(), "f", names, divider)
    for i, name in enumerate(names):
        assert table.names(name, "label") == [row[i] or None for row in rows]


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False)), min_size=1, max_size=8))
def test_numbers_come_back_as_they_were_written(values: list[float | None]):
    text = "a,b\n" + "".join(f"{'' if value is None else repr(value)},x\n" for value in values)
    column = csv_table(text.encode(), "f", ()).column("a", "features")
    assert column.kind == "number"
    np.testing.assert_array_equal(column.values, [np.nan if value is None else value for value in values])
