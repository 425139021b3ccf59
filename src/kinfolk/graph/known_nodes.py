"""Labels that are known when nodes are predicted, the same for every model of nodes.

Those of the nodes trained on are, wherever these nodes stand: a model keeps their ids and knows them again by these, in
a graph that was sorted anew, that has grown, or that came from another file. Ids may coincide by accident (0, 1, 2, ...
where none were given; p0, p1, p2, ... in two generated graphs). So the labels count only where the nodes look like
those trained on: by features or by neighbours more of them are what they were than chance explains,

    (a - c) / (1 - c) ≥ ½        a  share of the nodes found again whose features (neighbours) are the same
                                 c  the same share, had the nodes been paired at random

Either is enough: features are brought up to date, and links are added. But where ids are the numbers of rows, features
have to be the same: grids and chains of one size have the same neighbours by number, whatever they are of.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.modelfile import ModelFile, fits
from kinfolk.errors import DataWarning, InputError, SettingError, warn
from kinfolk.graph.nodes import Nodes
from kinfolk.text.labels import LabelCoding

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
TRAIN, NONE = "train", "none"
LEAST_LIKENESS = 0.5
MOST_COMPARED = 1000  # nodes, evenly spread over those found again
BLOCK_ROWS = 1 << 16  # rows of dense features that are looked at together


@dataclass(frozen=True, eq=False)
class Memory:
    """The nodes a model was trained on.

    ids        of these nodes
    nodes      the rows where they stood
    labels     numbers of their classes
    looks      uint64 (m, 2): numbers that stand for the features, and for the ids of the neighbours, of each
    relations  by which neighbours are meant
    votes      (m, L) for each level but the last of stacking, cross-fitted; none where true labels are told
    """

    ids: tuple[str, ...]
    nodes: NDArray[np.int64]
    labels: NDArray[np.int32]
    looks: NDArray[np.uint64]
    relations: tuple[str, ...]
    votes: list[Array]

    @classmethod
    def of(
        cls, nodes: Nodes, labels: NDArray[np.int32], relations: Sequence[str], votes: Sequence[Array] = ()
    ) -> Memory:
        """`labels` (n,) by row, -1 for those not trained on; `votes` have the rows of the others."""
        rows = np.flatnonzero(labels >= 0)
        ids = tuple(nodes.ids[i] for i in rows.tolist())
        return cls(ids, rows, labels[rows], looks(nodes, rows, relations), tuple(relations), list(votes))

    def known(self, nodes: Nodes) -> NDArray[np.int32]:
        """(n,) by row, the labels of nodes trained on, -1 for the others."""
        found = np.full(len(nodes.labels), -1, np.int32)
        rows, which = self.again(nodes)
        found[rows] = self.labels[which]
        return found

    def scored(self, nodes: Nodes) -> NDArray[np.int32]:
        """The same where answers are scored, and nodes that are known do not count. If no others have a label, those
        trained on are scored, but then their labels are not known."""
        found, labelled = self.known(nodes), nodes.labels >= 0
        if not labelled.any() or (labelled & (found < 0)).any():
            return found
        warn(
            "every node with a label was trained on: they are scored without their labels being known, and far too "
            "well; keep some back with fit(graph, train=...)",
            DataWarning,
        )
        return np.full(len(labelled), -1, np.int32)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {key: i for i, key in enumerate(self.ids)}

    def again(self, nodes: Nodes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of a graph in which nodes trained on stand, and which of them; none where it is another graph."""
        rows, which = self.with_the_same_id(nodes.ids)
        if len(rows) and not self._look_alike(nodes, rows, which):
            told = (
                f"{len(rows):,} nodes have ids of nodes trained on, but neither their features nor their neighbours: "
                "they are taken for others, and no label is known; give known labels by forced=True (--known-ids on "
                "the command line)"
            )
            if _numbered(nodes.ids):  # nobody's ids
                log.info("%s", told)
            else:
                warn(told, DataWarning)
            return rows[:0], which[:0]
        return rows, which

    def with_the_same_id(self, ids: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows, and which of those trained on they are."""
        stood = self.nodes.tolist()
        if stood and stood[-1] < len(ids) and all(ids[i] == key for i, key in zip(stood, self.ids, strict=True)):
            return self.nodes, np.arange(len(stood))
        found = np.fromiter(map(self._number.get, ids, repeat(-1)), np.int64, len(ids))  # type: ignore[arg-type]
        rows = np.flatnonzero(found >= 0)
        return rows, found[rows]

    def _look_alike(self, nodes: Nodes, rows: NDArray[np.int64], which: NDArray[np.int64]) -> bool:
        some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_COMPARED)).astype(np.int64))
        now = looks(nodes, rows[some], self.relations)
        found = [_likeness(self.looks[:, i], which[some], now[:, i]) for i in range(2)]
        told = [likeness for likeness in found if likeness is not None]
        if _numbered(nodes.ids):
            told = told[:1]
        return not told or max(told) >= LEAST_LIKENESS


def _numbered(ids: Sequence[str]) -> bool:
    """Whether ids are the numbers of rows, as where none were given."""
    return all(map(str.__eq__, ids, map(str, range(len(ids)))))


def _likeness(before: NDArray[np.uint64], which: NDArray[np.int64], now: NDArray[np.uint64]) -> float | None:
    """(a - c) / (1 - c), see above; None where all look the same, which says nothing. `which` (m,) of those `before`
    the nodes that look so `now` (m,) should be."""
    values, codes = np.unique(np.concatenate([before, now]), return_inverse=True)
    parts = codes[: len(before)], codes[len(before) :]
    shares = (np.bincount(part, minlength=len(values)) / len(part) for part in parts)
    chance = float(np.multiply(*shares).sum())
    return None if chance == 1 else (float((before[which] == now).mean()) - chance) / (1 - chance)


# -- looks --------------------------------------------------------------------------------------------


def looks(nodes: Nodes, rows: NDArray[np.int64], relations: Sequence[str]) -> NDArray[np.uint64]:
    """uint64 (m, 2) of nodes by row; equal for equal features in single precision, and for the same neighbours."""
    found = np.zeros((len(rows), 2), np.uint64)
    for start in range(0, len(rows), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        found[block, 0] = _of_features(nodes.table[rows[block]])
    found[:, 1] = _of_neighbours(nodes, rows, relations)
    return found


def _of_features(table: Any) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        cells = sparse.csr_array(table).astype(np.float32)
    numbers = _mixed(cells.data.view(np.uint32).astype(np.uint64) | (cells.indices.astype(np.uint64) << np.uint64(32)))
    return _row_sums(np.where(cells.data == 0, np.uint64(0), numbers), cells.indptr)


def _of_neighbours(nodes: Nodes, rows: NDArray[np.int64], relations: Sequence[str]) -> NDArray[np.uint64]:
    found = np.zeros(len(rows), np.uint64)
    for name in relations:
        links = nodes.relations[name][rows]
        around, place = np.unique(links.indices, return_inverse=True)
        ids = np.fromiter((crc32(nodes.ids[i].encode()) for i in around.tolist()), np.uint64, len(around))
        found += _row_sums(_mixed(ids | (np.uint64(crc32(name.encode())) << np.uint64(32)))[place], links.indptr)
    return found


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers that stand close become numbers far apart (splitmix64), so that sums of them tell rows apart."""
    x = numbers + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _row_sums(cells: NDArray[np.uint64], indptr: Array) -> NDArray[np.uint64]:
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(cells, dtype=np.uint64)])
    found: NDArray[np.uint64] = sums[indptr[1:]] - sums[indptr[:-1]]
    return found


# -- what is known ------------------------------------------------------------------------------------


def only_for_nodes(known: Any) -> None:
    """Of the argument, where a model of two tasks labels tokens."""
    if not (isinstance(known, str) and known == TRAIN):
        raise InputError("known=... is for the nodes of a graph; forced=True keeps the labels that tokens have")


class KnownNodes:
    """Mixin of the models of nodes. Learned by `fit`: `memory_`, the nodes trained on; None: nothing is kept of
    them."""

    coding_: LabelCoding
    memory_: Memory | None

    def known_nodes(self, X: Any, known: Any = TRAIN, forced: bool = False) -> NDArray[np.bool_]:
        """(n,), the nodes of a graph whose labels are known when it is predicted: with known="train" those that were
        trained on. They are not scored."""
        nodes = self._nodes(X)
        return nodes.to_nodes(self._known(nodes, known, forced, told=False) >= 0)

    def _nodes(self, X: Any) -> Nodes:
        raise NotImplementedError

    def _known(self, nodes: Nodes, known: Any, forced: bool, told: bool = True) -> NDArray[np.int32]:
        """(n,) by row: labels known beforehand, -1 for none."""
        classes = self.coding_.classes
        if forced and not (isinstance(known, str) and known == TRAIN):
            raise SettingError("forced=True says that the labels of the graph are known: leave one of the two out")
        if forced:
            return nodes.codes(classes)
        if not isinstance(known, str):
            found = nodes.codes(classes, nodes.mask(known, "known"))
            if not (found >= 0).any():
                raise InputError("known=... names nodes whose labels the graph has, and none of these has one")
            return found
        if known not in (TRAIN, NONE):
            raise SettingError(f"known must be 'train', 'none', or truth values or numbers of nodes; got {known!r}")
        if known == NONE or self.memory_ is None:
            return np.full(len(nodes.labels), -1, np.int32)
        found = self.memory_.known(nodes)
        if told:
            _tell(nodes, found, classes.names)
        return found

    def _known_when_scored(self, nodes: Nodes, known: Any) -> NDArray[np.int32]:
        """The same where answers are scored: nodes that are known do not count."""
        if isinstance(known, str) and known == TRAIN and self.memory_ is not None:
            found = self.memory_.scored(nodes)
            _tell_changed(nodes, found, self.coding_.classes.names)
            return found
        found, labelled = self._known(nodes, known, False), nodes.labels >= 0
        if labelled.any() and not (labelled & (found < 0)).any():
            raise InputError("every node with a label is known, so none is left to score: name fewer in known=...")
        return found


def _tell(nodes: Nodes, known: NDArray[np.int32], classes: Sequence[str]) -> None:
    """In one line how many labels are known; a warning where that is odd."""
    number, n = int((known >= 0).sum()), len(known)
    if not number:
        return
    log.info("known labels of %s of %s nodes are used; known='none' to predict without", f"{number:,}", f"{n:,}")
    if number == n:
        warn(
            "every node of this graph was trained on: what comes out are the labels that went in; known='none' tells "
            "what the model says of them",
            DataWarning,
        )
    _tell_changed(nodes, known, classes)


def _tell_changed(nodes: Nodes, known: NDArray[np.int32], classes: Sequence[str]) -> None:
    here = np.array([*nodes.classes.names, None], object)[nodes.labels]
    before = np.array([*classes, None], object)[known]
    changed = int(((known >= 0) & (nodes.labels >= 0) & (here != before)).sum())
    if changed:
        warn(
            f"{changed:,} nodes that were trained on have another label here; that of training is used. Train again, "
            "or have the labels of the graph with forced=True",
            DataWarning,
        )


# -- model files --------------------------------------------------------------------------------------


def memory_parts(memory: Memory | None) -> tuple[dict[str, Any] | None, dict[str, Array], dict[str, Any]]:
    """(header, arrays, strings) of what a model file keeps of the nodes trained on."""
    if memory is None:
        return None, {}, {}
    arrays = {f"memory.{name}": getattr(memory, name) for name in ("nodes", "labels", "looks")}
    arrays |= {f"memory.votes.{k}": votes for k, votes in enumerate(memory.votes)}
    return {"relations": list(memory.relations), "votes": len(memory.votes)}, arrays, {"memory.ids": list(memory.ids)}


def restored_memory(file: ModelFile, n_labels: int) -> Memory | None:
    header = file.header.get("memory")
    if header is None:
        if "memory" not in file.header:
            warn(
                f"{file.path} was written when models did not keep the ids of the nodes trained on: no label is known "
                "by itself. Train again, or give known labels by forced=True (--known-ids on the command line)",
                DataWarning,
            )
        return None
    ids = tuple(file.strings["memory.ids"])
    nodes, labels, looks = (file.arrays[f"memory.{name}"] for name in ("nodes", "labels", "looks"))
    votes = [file.arrays[f"memory.votes.{k}"] for k in range(header["votes"])]
    fits(nodes.ndim == 1 and nodes.dtype.kind == "i" and (np.diff(nodes) > 0).all() and (nodes >= 0).all())
    fits(len(ids) == len(set(ids)) == len(nodes) and looks.dtype == np.uint64 and looks.shape == (len(nodes), 2))
    fits(labels.shape == nodes.shape and labels.dtype.kind == "i" and ((labels >= 0) & (labels < n_labels)).all())
    fits(all(table.shape == (len(nodes), n_labels) and np.isfinite(table).all() for table in votes))
    return Memory(ids, nodes, labels, looks, tuple(header["relations"]), votes)
