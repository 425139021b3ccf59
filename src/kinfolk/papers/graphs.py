"""The four graphs of Tables 1 and 2 and Figure 4 of the stacking paper, each with its templates and its folds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinfolk.collective.templates import Concat, Count, Exists, Max, Mean
from kinfolk.datasets.linqs import read_linqs
from kinfolk.datasets.slif import SIDES, read_slif
from kinfolk.datasets.webkb import read_webkb
from kinfolk.graph.graph import Graph
from kinfolk.papers.stacking import Split, by_group, by_instance

ANY_SIDE = " | ".join(SIDES)
SLIF_WIDE = [  # all that a region's surroundings could tell
    *(Concat(side, slots=1) for side in SIDES),
    *(make(relation) for make in (Mean, Max) for relation in ("competitor", ANY_SIDE)),
    Mean(f"component({ANY_SIDE})"),
    Mean("figure"),
]


class Problem(NamedTuple):
    """A graph, what its nodes are told of their neighbours, and its folds."""

    name: str
    graph: Graph
    templates: list[Any]
    splits: list[Split]


def slif(data: Path) -> Problem:
    """Text regions; the neighbour on each side has a slot, competitors of the panel are asked whether any is one."""
    graph = read_slif(data / "nodes" / "slif_sgm_minorthird")
    templates = [*(Concat(side, slots=1) for side in SIDES), Exists("competitor")]
    return Problem("slif", graph, templates, list(by_instance(graph)))


def webkb(data: Path) -> Problem:
    """All pages of the four departments but their four front pages: six classes, words of the page itself."""
    archive = data / "nodes" / "webkb_raw_cmu" / "webkb.tar.gz"
    graph = read_webkb(archive, subset=None, fields=("text", "title"), addresses="folded")
    kept = graph.subset(np.array([label != "department" for label in graph.labels]))
    return Problem("webkb", kept, [Count("links"), Count("~links")], list(by_group(kept)))


def citations(data: Path, name: str) -> Problem:
    """Cora or CiteSeer: papers with words, counts of citing and cited papers by class."""
    folder = data / "nodes" / f"{name}_linqs"
    graph = read_linqs(folder / f"{name}.content.gz", folder / f"{name}.cites")
    return Problem(name, graph, [Count("cites"), Count("cited_by")], list(by_instance(graph)))


def cora(data: Path) -> Problem:
    return citations(data, "cora")


def citeseer(data: Path) -> Problem:
    return citations(data, "citeseer")


PROBLEMS: dict[str, Callable[[Path], Problem]] = {"slif": slif, "webkb": webkb, "cora": cora, "citeseer": citeseer}
