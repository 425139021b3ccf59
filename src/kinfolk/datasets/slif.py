"""Text regions in figures of journal articles (SLIF), as MinorThird gives them out to show stacked graphical learning.

    all.localmodel   <id> k NUL <POS|NEG> feature=1 ..., one candidate region a line
    ngb.lsf          <id> <id> <left|right|up|down>, blanks or tabs between: neighbours in adjacent panels

An id has the place of a region, paper-figure-panel-region: regions of one panel compete, one panel having one label.
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Sequence
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.files import read_utf8
from kinfolk.datasets.webkb import bag_rows
from kinfolk.errors import InputError
from kinfolk.graph.graph import Graph

SIDES = ("left", "right", "up", "down")
_PLACE = re.compile(r"(?P<figure>.+-figure_\w+?)-(?P<panel>panel_panel_\d+)_textreg_\d+(\.\w+)?$")
Pairs = NDArray[np.int64]


def read_slif(folder: str | os.PathLike[str]) -> Graph:
    """A node a region, labels POS (a text region) and NEG, a group a figure.

    Relations left, right, up, down: row i lists the first region of a link line whose second is i. Which end is meant
    to be the neighbour is not said with the data; all four together hold both directions of nearly every link.
    Relations competitor and figure: the other regions of the panel, and of the figure.
    """
    regions = sorted(_regions(Path(folder) / "all.localmodel"), key=lambda region: region.figure)  # each one's together
    ids, figures = [region.id for region in regions], [region.figure for region in regions]
    rows, names = bag_rows(region.features for region in regions)
    relations = _links(Path(folder) / "ngb.lsf", {key: i for i, key in enumerate(ids)})
    relations["competitor"] = _together([(region.figure, region.panel) for region in regions])
    relations["figure"] = _together(figures)
    return Graph(rows, [region.label for region in regions], relations, ids, figures, names)


class _Region(NamedTuple):
    id: str
    figure: str
    panel: str
    label: str
    features: list[str]


def _regions(path: Path) -> list[_Region]:
    data, name = read_utf8(path)
    lines: dict[str, int] = {}  # by id
    found = []
    for line, text in enumerate(data.decode().splitlines(), 1):
        cells = text.split()
        if not cells:
            continue
        if len(cells) < 4 or cells[3] not in ("POS", "NEG"):
            raise InputError("expected <id> k NUL <POS|NEG> feature=1 ...; correct the line", name, line)
        strange = next((cell for cell in cells[4:] if not re.fullmatch(r"[^=]+=1", cell)), None)
        if strange is not None:
            raise InputError(f"expected features as name=1, got {strange!r}; leave out those that are 0", name, line)
        key, first = cells[0], lines.setdefault(cells[0], line)
        if first != line:
            raise InputError(f"ids must be distinct; {key!r} was in line {first} already", name, line)
        place = _PLACE.match(key)
        if place is None:
            raise InputError(f"expected an id <paper>-<figure>-panel_panel_N_textreg_N, got {key!r}", name, line)
        features = [cell.removesuffix("=1") for cell in cells[4:]]
        found.append(_Region(key, place["figure"], place["panel"], cells[3], features))
    if not found:
        raise InputError("no regions: expected one a line, found none", name)
    return found


def _links(path: Path, number: dict[str, int]) -> dict[str, Pairs]:
    data, name = read_utf8(path)
    found: dict[str, list[tuple[int, int]]] = {side: [] for side in SIDES}
    for line, text in enumerate(data.decode().splitlines(), 1):
        cells = text.split()
        if not cells:
            continue
        if len(cells) != 3 or cells[2] not in SIDES:
            raise InputError(f"expected two ids and one of {', '.join(SIDES)}, got {text!r}", name, line)
        strange = next((key for key in cells[:2] if key not in number), None)
        if strange is not None:
            raise InputError(f"{strange!r} is not among the regions; do the files belong together?", name, line)
        found[cells[2]].append((number[cells[1]], number[cells[0]]))
    return {side: np.array(pairs, np.int64).reshape(-1, 2) for side, pairs in found.items()}


def _together(places: Sequence[Hashable]) -> Pairs:
    """Everybody linked to everybody else in the same place."""
    members: dict[Hashable, list[int]] = {}
    for i, place in enumerate(places):
        members.setdefault(place, []).append(i)
    pairs = [pair for one in members.values() for pair in permutations(one, 2)]
    return np.array(pairs, np.int64).reshape(-1, 2)
