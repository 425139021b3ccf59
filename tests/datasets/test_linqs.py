"""LINQS files: nodes, links from right to left, several graphs, and every fault with its line."""

from __future__ import annotations

import gzip
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinfolk.datasets.linqs import read_linqs
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.graph import Graph

CONTENT = "a\t1\t0\t1\tX\nb\t0\t0\t0\tY\nc\t0\t1\t1\t?\n"
CITES = "a\tb\na c\nb   c\n"


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read a graph of two texts, written to g.content and g.cites."""

    def reader(content: str = CONTENT, cites: str = CITES, **options: Any) -> Graph:
        (tmp_path / "g.content").write_text(content)
        (tmp_path / "g.cites").write_text(cites)
        return read_linqs(tmp_path / "g.content", tmp_path / "g.cites", **options)

    return reader


def links(graph: Graph, relation: str) -> set[tuple[str, str]]:
    rows, columns = graph.relations[relation].tocoo().coords
    return {(graph.ids[i], graph.ids[j]) for i, j in zip(rows, columns, strict=True)}


def test_nodes_and_links_from_right_to_left(read: Any, caplog: pytest.LogCaptureFixture):
    graph = read()
    assert graph.ids == ("a", "b", "c") and graph.labels == ["X", "Y", None]
    assert graph.features.dtype == np.float32 and graph.features.format == "csr"
    assert graph.features.toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 1]]
    assert links(graph, "cites") == {("b", "a"), ("c", "a"), ("c", "b")}
    assert links(graph, "cited_by") == {("a", "b"), ("a", "c"), ("b", "c")}
    assert graph.group_names == ("g",) and graph.feature_names is None and not caplog.records


def test_names_of_relations(read: Any):
    assert list(read(link="out", inverse="in").relations) == ["out", "in"]
    assert list(read(inverse=None).relations) == ["cites"]
    with pytest.raises(SettingError, match="must have two names; both are 'cites'"):
        read(inverse="cites")


def test_any_numbers_line_ends_and_blank_lines(read: Any):
    graph = read("a\t1\t-0.5\t2e1\tX\r\n\r\nb\t0\t0\t1\tY\r\n\n", "a\tb\t\r\n\r\n")
    assert graph.features.toarray().tolist() == [[1, -0.5, 20], [0, 0, 1]]
    assert graph.labels == ["X", "Y"] and links(graph, "cites") == {("b", "a")}


def test_nodes_without_features_have_a_table_without_columns(read: Any):
    graph = read("a\tX\nb\tY\nc\tX\n")
    assert graph.features.shape == (3, 0) and graph.feature_names == () and graph.labels == ["X", "Y", "X"]


def test_ids_may_hold_blanks_where_tabs_divide(read: Any):
    graph = read("a 1\t1\tX\nb 2\t0\tÜ\n", "a 1\tb 2\n")
    assert links(graph, "cites") == {("b 2", "a 1")} and graph.labels == ["X", "Ü"]


def test_packed_files_and_open_files(tmp_path: Path):
    (tmp_path / "cora.content.gz").write_bytes(gzip.compress(CONTENT.encode()))
    (tmp_path / "cora.cites").write_text(CITES)
    with open(tmp_path / "cora.cites") as file:
        graph = read_linqs(str(tmp_path / "cora.content.gz"), file)
    assert graph.group_names == ("cora",) and graph.relations["cites"].nnz == 3


def test_links_that_are_dropped_are_counted_in_one_warning(read: Any, caplog: pytest.LogCaptureFixture):
    graph = read(cites=CITES + "a z\nz z\nb b\na b\na\tb\n")
    assert links(graph, "cites") == {("b", "a"), ("c", "a"), ("c", "b")}
    assert set(graph.relations["cites"].data) == {1.0}
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    told = record.getMessage()
    assert "2 with an end that is not in the content (the first: 'z' in " in told and "g.cites, line 4)" in told
    assert told.endswith(", 1 from a node to itself, 2 repeated")


def test_dangling_links_may_be_refused(read: Any):
    with pytest.raises(
        InputError, match=r"g.cites, line 4: 'z' is not in .*g.content, and 2 links .* `dangling='drop'"
    ):
        read(cites=CITES + "a z\nz z\n", dangling="refuse")
    assert read(cites=CITES + "b b\n", dangling="refuse").relations["cites"].nnz == 3
    with pytest.raises(SettingError, match="dangling must be one of drop, refuse; got 'keep'"):
        read(dangling="keep")


BAD_CONTENT = {
    "nothing": ("", "g.content: no nodes"),
    "blank lines": ("\n \n", "g.content: no nodes"),
    "no tabs": ("a 1 0 X\n", r"line 1: expected columns <id>, features, <class> with tabs between them, got 1"),
    "a column less": (CONTENT + "d\t1\t0\tX\n", r"line 4: expected 5 columns \(id, 3 features, class\) .* got 4"),
    "a column more": (CONTENT + "d\t1\t0\t1\t1\tX\n", "line 4: expected 5 columns .* got 6; complete the line"),
    "one column": (CONTENT + "\nd\n", "line 5: expected 5 columns .* got 1"),
    "a word": (CONTENT + "d\t1\tyes\t1\tX\n", "line 4: expected a number as feature, got 'yes' in column 3"),
    "an empty cell": (CONTENT + "d\t1\t\t1\tX\n", "line 4: expected a number as feature, got '' in column 3"),
    "another digit sign": (CONTENT + "d\t1\tx\t1\tX\n", "line 4: expected a number as feature, got 'x' in column 3"),
    "no number": (CONTENT + "d\t1\tnan\t1\tX\n", "line 4: expected a number as feature, got 'nan' in column 3"),
    "too large a number": (CONTENT + "d\t1\t1e300\t1\tX\n", "line 4: expected a number as feature, got '1e300'"),
    "no id": (CONTENT + "\t1\t0\t1\tX\n", "line 4: expected an id before the first tab"),
    "no class": (CONTENT + "d\t1\t0\t1\t\n", r"line 4: expected a class after the last tab \(\? if it is not known\)"),
    "an id twice": (CONTENT + "a\t1\t0\t1\tX\n", "line 4: ids must be distinct; 'a' was in line 1 already"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BAD_CONTENT.values(), ids=BAD_CONTENT.keys())
def test_content_that_cannot_be_read(read: Any, content: str, message: str):
    with pytest.raises(InputError, match=message) as error:
        read(content)
    assert str(error.value.path).endswith("g.content")


@pytest.mark.parametrize(("cites", "message"), [
    ("x y\n", "g.cites: none of the 1 links joins two nodes of .*g.content; do the files belong together"),
    (CITES + "\na\n", "g.cites, line 5: expected two ids, <cited> <citing>, .* got 1; correct the line"),
    (CITES + "a b c\n", "g.cites, line 4: expected two ids, .* got 3"),
    (CITES + "a\tb\tc\n", "g.cites, line 4: expected two ids, .* got 3"),
])  # fmt: skip
def test_links_that_cannot_be_read(read: Any, cites: str, message: str):
    with pytest.raises(InputError, match=message):
        read(cites=cites)


def test_several_graphs_are_groups_named_by_their_files(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    for name in ("texas", "cornell"):
        prefixed = "\n".join(f"{name[0]}{line}" for line in CONTENT.splitlines())
        (tmp_path / f"{name}.content").write_text(prefixed)
        (tmp_path / f"{name}.cites").write_text(f"{name[0]}a {name[0]}b\nca tb\n")
    files = [[tmp_path / f"{name}.{kind}" for name in ("texas", "cornell")] for kind in ("content", "cites")]
    graph = read_linqs(*files)
    assert graph.group_names == ("texas", "cornell") and graph.group_codes.tolist() == [0, 0, 0, 1, 1, 1]
    assert graph.ids == ("ta", "tb", "tc", "ca", "cb", "cc")
    assert links(graph, "cites") == {("tb", "ta"), ("cb", "ca")}, "a link stays in its graph"
    assert len(caplog.records) == 1 and "dropped: 2 with an end" in caplog.text
    with pytest.raises(InputError, match=r"a file of links for each file of nodes.* got 2 of nodes and 1 of links"):
        read_linqs(files[0], files[1][:1])
    with pytest.raises(InputError, match="got 0 of nodes and 0 of links"):
        read_linqs([], [])


def test_graphs_that_do_not_go_together(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "g.cites").write_text("a a\n")
    for name, text in {"g.content": CONTENT, "sub/g.content": "d\t1\t0\t1\tX\n", "h.content": "e\t1\tX\n",
                       "i.content": "f\t1\t0\t1\tX\nb\t1\t0\t1\tX\n"}.items():  # fmt: skip
        (tmp_path / name).write_text(text)

    def pair(other: str) -> Graph:
        return read_linqs([tmp_path / "g.content", tmp_path / other], [tmp_path / "g.cites"] * 2)

    with pytest.raises(InputError, match=r"sub.g.content: the group would be named as that of .*; rename one"):
        pair("sub/g.content")
    with pytest.raises(InputError, match=r"h.content, line 1: expected 3 features as in .*g.content, got 1"):
        pair("h.content")
    with pytest.raises(InputError, match=r"i.content, line 2: ids must be distinct; 'b' was in .*g.content, line 2"):
        pair("i.content")


def test_files_that_are_not_there(tmp_path: Path):
    with pytest.raises(InputError, match="no such file"):
        read_linqs(tmp_path / "no.content", tmp_path / "no.cites")


@pytest.mark.data
def test_cora(data_folder: Path, caplog: pytest.LogCaptureFixture):
    folder = data_folder / "nodes" / "cora_linqs"
    graph = read_linqs(folder / "cora.content.gz", folder / "cora.cites")
    assert (graph.n_nodes, graph.n_features, graph.features.nnz) == (2708, 1433, 49216)
    assert graph.relations["cites"].nnz == graph.relations["cited_by"].nnz == 5429 and not caplog.records
    assert Counter(graph.labels) == {
        "Neural_Networks": 818, "Probabilistic_Methods": 426, "Genetic_Algorithms": 418, "Theory": 351,
        "Case_Based": 298, "Reinforcement_Learning": 217, "Rule_Learning": 180,
    }  # fmt: skip
    assert set(np.diff(graph.features.tocsc().indptr) == 0) == {True, False}, "one word is nowhere"
    assert (graph.relations["cites"] != graph.relations["cited_by"].T).nnz == 0


@pytest.mark.data
def test_citeseer_has_links_to_papers_that_are_not_there(data_folder: Path, caplog: pytest.LogCaptureFixture):
    folder = data_folder / "nodes" / "citeseer_linqs"
    graph = read_linqs(folder / "citeseer.content.gz", folder / "citeseer.cites")
    assert (graph.n_nodes, graph.n_features, graph.features.nnz) == (3312, 3703, 105165)
    assert graph.relations["cites"].nnz == 4591
    assert "dropped: 17 with" in caplog.text and caplog.text.rstrip().endswith("124 from a node to itself")


@pytest.mark.data
def test_webkb_has_four_schools(data_folder: Path):
    folder, schools = data_folder / "nodes" / "webkb_linqs", ("cornell", "texas", "washington", "wisconsin")
    graph = read_linqs([folder / f"{s}.content" for s in schools], [folder / f"{s}.cites" for s in schools])
    assert (graph.n_nodes, graph.n_features, graph.group_names) == (877, 1703, schools)
    assert np.bincount(graph.group_codes).tolist() == [195, 187, 230, 265]
    assert graph.relations["cites"].nnz == 1608 - 3 - 18 - 51 - 20
    assert Counter(graph.labels) == {"student": 415, "course": 218, "faculty": 125, "project": 80, "staff": 39}
