"""Text regions in figures of journal articles (SLIF), as MinorThird gives them out to show stacked graphical learning.

    all.localmodel   <id> k NUL <POS|NEG> feature=1 ..., one candidate region a line
    ngb.lsf          <id> <id> <left|right|up|down>, blanks or tabs between: neighbours in adjacent panels

An id tells the place of a region, paper-figure-panel-region: regions of one panel compete, one panel having one label.
"""

from __future__ import annotations

import os
import re
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.files import read_utf8
from kinfolk.errors import InputError
from kinfolk.graph.graph import Graph

SIDES = ("left", "right", "up", "down")
_PLACE = re.compile(r"(?P<figure>.+-figure_\w+?)-(?P<panel>panel_panel_\d+)_textreg_\d+(\.\w+)?$")
Pairs = NDArray[np.int64]


def read_slif(folder: str | os.PathLike[str]) -> Graph:
    """A node a region, labels POS (a text region) and NEG, a group a figure.

    Relations left, right, up, down: row i lists the first region of a link line whose second is i. Which end is meant
    to be the neighbour is not told with the data; all four together hold both directions of nearly every link.
    Relations competitor and figure: the other regions of the panel, and of the figure.
    """
    regions = Path(folder) / "all.localmodel"
    ids, labels, features, lines = _regions(regions)
    places = [_place(key, regions, line) for key, line in zip(ids, lines, strict=True)]
    order = np.argsort([figure for figure, _ in places], kind="stable")  # regions of a figure stand together
    ids, labels, features, places = ([part[i] for i in order] for part in (ids, labels, features, places))
    number = {key: i for i, key in enumerate(ids)}
    names = sorted({name for row in features for name in row})
    column = {name: i for i, name in enumerate(names)}
    starts = np.cumsum([0, *map(len, features)])
    columns = np.array([column[name] for row in features for name in sorted(row)], np.int64)
    rows = sparse.csr_array((np.ones(len(columns), np.float32), columns, starts), shape=(len(ids), len(names)))
    relations = _links(Path(folder) / "ngb.lsf", number)
    relations["competitor"] = _together(places)
    relations["figure"] = _together([(figure, "") for figure, _ in places])
    return Graph(rows, labels, relations, ids, [figure for figure, _ in places], names)


def _regions(path: Path) -> tuple[list[str], list[str], list[set[str]], list[int]]:
    data, name = read_utf8(path)
    ids: list[str] = []
    labels: list[str] = []
    features: list[set[str]] = []
    lines: list[int] = []
    for line, text in enumerate(data.decode().splitlines(), 1):
        cells = text.split()
        if not cells:
            continue
        if len(cells) < 4 or cells[3] not in ("POS", "NEG"):
            raise InputError("expected <id> k NUL <POS|NEG> feature=1 ...; correct the line", name, line)
        strange = next((cell for cell in cells[4:] if not re.fullmatch(r"[^=]+=1", cell)), None)
        if strange is not None:
            raise InputError(f"expected features as name=1, got {strange!r}; leave out those that are 0", name, line)
        if cells[0] in ids:
            first = lines[ids.index(cells[0])]
            raise InputError(f"ids must be distinct; {cells[0]!r} was in line {first} already", name, line)
        ids.append(cells[0])
        labels.append(cells[3])
        features.append({cell.removesuffix("=1") for cell in cells[4:]})
        lines.append(line)
    if not ids:
        raise InputError("no regions: expected one a line, found none", name)
    return ids, labels, features, lines


def _place(key: str, path: Path, line: int) -> tuple[str, str]:
    match = _PLACE.match(key)
    if match is None:
        raise InputError(f"expected an id <paper>-<figure>-panel_panel_N_textreg_N, got {key!r}", str(path), line)
    return match["figure"], match["panel"]


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


def _together(places: list[tuple[str, str]]) -> Pairs:
    """Everybody linked to everybody else in the same place."""
    members: dict[tuple[str, str], list[int]] = {}
    for i, place in enumerate(places):
        members.setdefault(place, []).append(i)
    pairs = [pair for one in members.values() for pair in permutations(one, 2)]
    return np.array(pairs, np.int64).reshape(-1, 2)
