"""Text regions of figures: a sample by hand, every fault with its line, and the counts of the real files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinfolk.datasets.slif import read_slif
from kinfolk.errors import InputError
from kinfolk.graph.graph import Graph


def region(figure: int, panel: int, number: int, end: str = ".jpg") -> str:
    return f"data_paper0049-figure_figure{figure:04d}-panel_panel_{panel}_textreg_{number}{end}"


A, B, C, D = region(2, 1, 1), region(2, 1, 2), region(2, 2, 1), region(1, 1, 1, "")
REGIONS = (
    f"{A} k NUL POS  ocr_C=1  other_1=1 \n"
    f"{B} k NUL NEG  other_1=1\n"
    "\n"
    f"{C}\tk\tNUL\tPOS\tocr_R=1\tocr_C=1\n"
    f"{D} k NUL NEG\n"
)  # fmt: skip
LINKS = f"{C} \t{A}  left\n{A}\t{C}\tright\n\n{D} {A} up\r\n{C} {A} left\n"


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read a graph of two texts, written to all.localmodel and ngb.lsf."""

    def reader(regions: str = REGIONS, links: str = LINKS) -> Graph:
        (tmp_path / "all.localmodel").write_text(regions)
        (tmp_path / "ngb.lsf").write_text(links)
        return read_slif(tmp_path)

    return reader


def links(graph: Graph, relation: str) -> set[tuple[str, str]]:
    rows, columns = graph.relations[relation].tocoo().coords
    return {(graph.ids[i], graph.ids[j]) for i, j in zip(rows, columns, strict=True)}


def test_regions_with_their_features(read: Any, tmp_path: Path):
    graph = read()
    assert graph.ids == (D, A, B, C), "regions of a figure stand together, figures by name"
    assert graph.labels == ["NEG", "POS", "NEG", "POS"] and list(graph.classes) == ["NEG", "POS"]
    assert graph.feature_names == ("ocr_C", "ocr_R", "other_1") and graph.features.dtype == np.float32
    assert graph.features.toarray().tolist() == [[0, 0, 0], [1, 0, 1], [0, 0, 1], [1, 1, 0]]
    assert graph.group_names == ("data_paper0049-figure_figure0001", "data_paper0049-figure_figure0002")
    assert graph.group_codes.tolist() == [0, 1, 1, 1]
    assert read_slif(str(tmp_path)).ids == graph.ids


def test_links_are_read_from_right_to_left(read: Any):
    """Row i lists the first region of a line whose second is i; a line told twice is one link."""
    graph = read()
    assert list(graph.relations) == ["left", "right", "up", "down", "competitor", "figure"]
    assert links(graph, "left") == {(A, C)} and links(graph, "right") == {(C, A)} and links(graph, "up") == {(A, D)}
    assert links(graph, "down") == set() and set(graph.relations["left"].data) == {1.0}


def test_regions_of_a_panel_compete_and_those_of_a_figure_stand_together(read: Any):
    graph = read()
    assert links(graph, "competitor") == {(A, B), (B, A)}
    assert links(graph, "figure") == {(x, y) for x in (A, B, C) for y in (A, B, C) if x != y}


def test_panels_of_other_figures_and_papers_do_not_compete(read: Any):
    other = A.replace("paper0049", "paper0050")
    graph = read(f"{A} k NUL POS\n{other} k NUL NEG\n{region(3, 1, 1)} k NUL NEG\n", "")
    assert not links(graph, "competitor") and not links(graph, "figure") and graph.n_groups == 3
    assert graph.n_features == 0 and graph.features.shape == (3, 0)


def test_a_feature_told_twice_is_one(read: Any):
    graph = read(f"{A} k NUL POS x=1 x=1 y=1\n{B} k NUL NEG y=1\n", "")
    assert graph.features.toarray().tolist() == [[1, 1], [0, 1]]


BAD_REGIONS = {
    "nothing": ("", "all.localmodel: no regions: expected one a line"),
    "blank lines": ("\n \n", "all.localmodel: no regions"),
    "too few words": (f"{REGIONS}{region(4, 1, 1)} k NUL\n", "line 6: expected <id> k NUL <POS|NEG> feature=1"),
    "an id alone": (f"{A}\n", "line 1: expected <id> k NUL"),
    "another label": (f"{REGIONS}{region(4, 1, 1)} k NUL MAYBE x=1\n", "line 6: expected <id> k NUL"),
    "a label too early": (f"{region(4, 1, 1)} k POS x=1\n", "line 1: expected <id> k NUL"),
    "an id without panel": (f"{REGIONS}paper1-figure_1-textreg_1 k NUL POS\n", "line 6: expected an id"),
    "an id without figure": ("panel_panel_1_textreg_1 k NUL POS\n", "line 1: expected an id .* got 'panel_panel_1"),
    "a number that is none": (f"{A.replace('textreg_1', 'textreg_x')} k NUL POS\n", "line 1: expected an id"),
}  # fmt: skip


@pytest.mark.parametrize(("regions", "message"), BAD_REGIONS.values(), ids=BAD_REGIONS.keys())
def test_regions_that_cannot_be_read(read: Any, regions: str, message: str):
    with pytest.raises(InputError, match=message.replace("|", r"\|")) as error:
        read(regions, "")
    assert str(error.value.path).endswith("all.localmodel")


def test_a_region_told_twice_is_refused_by_its_line(read: Any):
    with pytest.raises(InputError, match="distinct"):
        read(f"{REGIONS}{A} k NUL NEG\n")
    with pytest.raises(InputError, match=r"all\.localmodel, line 6"):
        read(f"{REGIONS}{A} k NUL NEG\n")


@pytest.mark.parametrize("cell", ["x=0", "x", "x=0.5", "=1"])
def test_features_are_1_or_left_out(read: Any, cell: str):
    with pytest.raises(InputError, match=r"all\.localmodel, line 1"):
        read(f"{A} k NUL POS {cell}\n", "")


BAD_LINKS = {
    "two words": (f"{A} {C}\n", r"ngb\.lsf, line 1: expected two ids and one of left, right, up, down, got"),
    "four words": (f"{LINKS}{A} {C} left right\n", "line 6: expected two ids"),
    "another side": (f"{LINKS}{A} {C} above\n", "line 6: expected two ids and one of .*above"),
    "a stranger first": (f"{LINKS}x {C} left\n", "line 6: 'x' is not among the regions; do the files belong together"),
    "a stranger second": (f"{C} x down\n", "line 1: 'x' is not among the regions"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD_LINKS.values(), ids=BAD_LINKS.keys())
def test_links_that_cannot_be_read(read: Any, text: str, message: str):
    with pytest.raises(InputError, match=message) as error:
        read(links=text)
    assert str(error.value.path).endswith("ngb.lsf")


def test_files_that_are_not_there(tmp_path: Path):
    with pytest.raises(InputError, match=r"all\.localmodel: no such file"):
        read_slif(tmp_path)
    (tmp_path / "all.localmodel").write_text(REGIONS)
    with pytest.raises(InputError, match=r"ngb\.lsf: no such file"):
        read_slif(tmp_path)
    (tmp_path / "ngb.lsf").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"ngb\.lsf, line 1"):
        read_slif(tmp_path)


@pytest.mark.data
def test_the_real_sample(data_folder: Path):
    folder = data_folder / "nodes" / "slif_sgm_minorthird"
    if not (folder / "all.localmodel").is_file():
        pytest.skip(f"no SLIF files in {folder}; set KINFOLK_DATA")
    graph = read_slif(folder)
    assert (graph.n_nodes, graph.n_features, graph.n_groups) == (2546, 11, 206)
    assert Counter(graph.labels) == {"NEG": 1600, "POS": 946}
    counts = {side: graph.relations[side].nnz for side in ("left", "right", "up", "down")}
    assert counts == {"left": 1267, "right": 1265, "up": 1347, "down": 1345}
    for side in counts:
        rows, columns = graph.relations[side].tocoo().coords
        assert (graph.group_codes[rows] == graph.group_codes[columns]).all(), "no link leads out of a figure"
    together = graph.relations["competitor"]
    assert (together != together.T).nnz == 0 and graph.relations["figure"].nnz >= together.nnz
