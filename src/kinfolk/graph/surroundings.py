"""The links around nodes as candidates of a pool use them: what neighbours say, how many of them, and what spreads.

Of links A and votes V (n, L), the targets or predictions of nodes:

    M = row means over links, one for every direction of every relation and one for all of them; B, C: any two of these
    D = unit rows of ten steps  Z <- α S Z + (1 - α) R,   S = D^-½ (A + I) D^-½ over all links both ways
    votes(V) = [ M V, log(1 + degree · M V), (B C V - b V) / (1 - b) ],   b the chance that two steps lead back:
               what neighbours say, how many of them, and what theirs say without oneself
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.aggregate import SUM, aggregate, padded
from kinfolk.core.data import LARGEST_VALUE, LEAST_WEIGHT
from kinfolk.graph.pool_features import unit_rows

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
LARGE = 200_000  # nodes from which on folds are worked on one after the other, and there are two of them
MOST_VOTES = 600  # columns of votes
STEPS, OF_LARGE = 10, 5  # of diffusion; where there are many nodes, they are many within a few steps
FAINT = 1e-4  # how much of a known node has to reach another for its error to count there
ROUNDING = 1e-3  # the least chance that two steps lead elsewhere, below which single precision cannot tell where


class View(NamedTuple):
    """Row means over the links of one kind, CSR (n, n), and how many links a node has (n,)."""

    means: Any
    degree: Array

    @classmethod
    def of(cls, links: Any) -> View:
        degree = np.diff(links.indptr)
        total = np.asarray(abs(links).sum(axis=1), np.float64).ravel()
        scale = (1 / np.where(total > 0, total, 1)).astype(np.float32)
        means = sparse.csr_array((links.data * np.repeat(scale, degree), links.indices, links.indptr), links.shape)
        return cls(means, degree.astype(np.float32))


class Path(NamedTuple):
    """Two steps by views of these numbers, and the chance that they lead back (n,)."""

    first: int
    second: int
    back: Array


class Shown(NamedTuple):
    """Nodes whose targets are known, by row, and what these are (k, width)."""

    rows: Array
    values: Array

    def put(self, table: Array) -> None:
        """In a table (n, width) of what is said of nodes they say what they are; in place."""
        table[self.rows] = self.values


class Kind(NamedTuple):
    """A relation as it was in training, so that another graph is looked at alike: whether its reverse is another, and
    the usual weight of its links."""

    relation: str
    turned: bool
    usual: float


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The links of a graph as candidates use them; `step` is S."""

    kinds: tuple[Kind, ...]
    views: tuple[View, ...]
    paths: tuple[Path, ...]
    step: Any
    n_jobs: int = 1

    @classmethod
    def of(
        cls, relations: Mapping[str, Any], n: int, n_labels: int, kinds: Sequence[Kind] | None = None, n_jobs: int = 1
    ) -> Surroundings:
        """All links together first, then every relation and direction that is another than these; `kinds` as in
        training, where these are to be the same."""
        kinds = tuple(_kinds(relations) if kinds is None else kinds)
        ways = [_ways(relations[kind.relation], kind) for kind in kinds]
        both = _all_links([way for one in ways for way in one], n)
        views = [View.of(both)]
        paths = [Path(0, 0, _back(views[0], both))]
        alone = len(ways) == 1 and len(ways[0]) == 1
        for one in [] if alone else ways:
            if (len(views) + len(one)) * 5 * n_labels > MOST_VOTES:
                log.info("links of %s kinds are too many to look at one by one; they count together", len(ways))
                break
            first = len(views)
            views += [View.of(way) for way in one]
            for i, j in product(range(len(one)), repeat=2) if n < LARGE else ():
                back = _back(views[first + i], one[-1 - j])  # of two ways each is the other turned
                paths.append(Path(first + i, first + j, back))
        return cls(kinds, tuple(views), tuple(paths), _step(both), n_jobs)

    @property
    def n_links(self) -> int:
        return int(self.views[0].means.nnz)

    @property
    def steps(self) -> int:
        return STEPS if self.step.shape[0] < LARGE else OF_LARGE

    @property
    def degrees(self) -> Array:
        """(n, views), log(1 + degree)."""
        return np.asarray(np.log1p(np.stack([view.degree for view in self.views], axis=1)))

    def votes(self, given: Array) -> Array:
        """votes(V), (n, q), of V (n, L)."""
        given = np.asarray(given, np.float32)
        n, width = given.shape
        once = [self.added(view.means, given) for view in self.views]
        found = np.empty((n, (2 * len(self.views) + len(self.paths)) * width), np.float32)
        places = iter(np.split(found, found.shape[1] // max(width, 1), axis=1) if width else ())
        for view, mean in zip(self.views, once, strict=True):
            next(places)[:] = mean
            many = np.abs(mean)
            many *= view.degree[:, None]
            np.multiply(np.sign(mean), np.log1p(many, out=many), out=next(places))
        for first, second, back in self.paths:
            left = np.where(back < 1 - ROUNDING, 1 - back, np.inf)[:, None]
            place = next(places)
            np.subtract(self.added(self.views[first].means, once[second]), back[:, None] * given, out=place)
            place /= left
        return found

    def diffused(self, table: Array, alpha: float, unit: bool = True) -> Array:
        """D, (n, r); unless rows are to be of unit length, in the place of their length that of a column of ones, so
        that they are means."""
        found = table
        for _ in range(self.steps):
            found = np.float32(alpha) * self.added(self.step, found) + np.float32(1 - alpha) * table
        if not unit:
            return np.asarray(found / self.spread(np.ones((len(table), 1)), alpha), np.float32)
        return np.asarray(unit_rows(found), np.float32)

    def corrected(self, said: Array, known: Shown, alpha: float = 0.8) -> Array:
        """Correct and Smooth (Huang and others, 2021): what a model says of nodes whose classes are known is in error
        there; errors spread along links, as large as they usually are, unless they are a thousandth of that; then
        labels and what is corrected, within 0 and 1, spread. Rows add up to 1, and are nowhere 0."""
        there = known.rows
        if not len(there):
            return said
        error = np.zeros_like(said)
        error[there] = known.values - said[there]
        spread = self.spread(error, alpha)
        usual, size = np.abs(error[there]).sum() / len(there), np.abs(spread).sum(axis=1, keepdims=True)
        spread *= np.where(size > usual / 1000, usual / np.where(size > 0, size, 1), 0)  # as large as errors are
        better = np.clip(said + spread, 0, 1)
        known.put(better)
        found = np.clip(self.spread(better, alpha), 1e-6, None)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def with_mean_errors(self, said: Array, known: Shown, bounded: bool = False, alpha: float = 0.8) -> Array:
        """The same of targets that do not add up to 1: what is said, and the mean of the errors at known nodes around,
        by how much of each spreads here. `bounded` ones, within 0 and 1, are then spread too, as means."""
        if not len(known.rows):
            return said
        error, there = np.zeros_like(said), np.zeros((len(said), 1), said.dtype)
        error[known.rows], there[known.rows] = known.values - said[known.rows], 1.0
        reached = self.spread(there, alpha)
        near = reached > FAINT
        better = said + np.where(near, self.spread(error, alpha) / np.where(near, reached, 1), 0)
        if not bounded:
            return np.asarray(better)
        better = np.clip(better, 0, 1)
        known.put(better)
        whole = self.spread(np.ones((len(said), 1), said.dtype), alpha)
        return np.asarray(np.clip(self.spread(better, alpha) / whole, 1e-6, 1 - 1e-6))

    def spread(self, table: Array, alpha: float) -> Array:
        """(n, c), steps of  Z <- α S Z + (1 - α) table."""
        found = table
        for _ in range(self.steps):
            found = (1 - alpha) * table + alpha * self.added(self.step, found)
        return np.asarray(found)

    def added(self, links: Any, table: Array) -> Array:
        """The product with a table (n, c), in threads."""
        out = np.empty(table.shape, table.dtype)
        if out.size:
            aggregate(SUM, links, padded(table), np.arange(len(table)), out, self.n_jobs)
        return out


def _without_loops(links: Any) -> Any:
    """CSR with columns in order and weights of single precision, without links from a node to itself and those that
    weigh next to nothing."""
    links = sparse.csr_array(links)
    source = np.repeat(np.arange(links.shape[0], dtype=links.indices.dtype), np.diff(links.indptr))
    odd = (links.indices == source) | (np.abs(links.data) < LEAST_WEIGHT)
    if odd.any() or not links.has_canonical_format:
        links = links.copy()
        links.data[odd] = 0
        links.sum_duplicates()
        links.eliminate_zeros()
    return sparse.csr_array((links.data.astype(np.float32), links.indices, links.indptr), shape=links.shape)


def _kinds(relations: Mapping[str, Any]) -> list[Kind]:
    """Of relations that have links; of two that are each other's reverse the first."""
    found: list[Kind] = []
    left = {name: plain for name, links in relations.items() if (plain := _without_loops(links)).nnz}
    while left:
        name = next(iter(left))
        links = left.pop(name)
        turned = sparse.csr_array(links.T)
        itself = _same(links, turned)
        if not itself:
            left = {key: other for key, other in left.items() if not _same(other, turned)}
        found.append(Kind(name, not itself, float(np.abs(links.data).mean(dtype=np.float64))))
    return found


def _ways(links: Any, kind: Kind) -> list[Any]:
    """Links of weights of about 1, and their reverse where that is another."""
    links = _without_loops(links)
    if kind.usual != 1.0:
        with np.errstate(over="ignore"):  # of weights that are far from those of training
            links = links / np.float32(kind.usual)
        np.clip(links.data, -LARGEST_VALUE, LARGEST_VALUE, out=links.data)
    return [links, sparse.csr_array(links.T)] if kind.turned else [links]


def _same(one: Any, other: Any) -> bool:
    """Whether the links are the same, and their weights but for their unit."""
    if one.nnz != other.nnz or not np.array_equal(one.indptr, other.indptr):
        return False
    if not np.array_equal(one.indices, other.indices):
        return False
    sizes = [np.abs(links.data).mean() if links.nnz else 1 for links in (one, other)]
    return bool(np.allclose(one.data / sizes[0], other.data / sizes[1], rtol=0, atol=1e-6))


def _all_links(ways: Sequence[Any], n: int) -> Any:
    """All links of all relations; both ways, as each has its reverse beside it."""
    total = sparse.csr_array((n, n), dtype=np.float32)
    for links in ways:
        total = total + links
    return sparse.csr_array(total)


def _back(first: View, turned: Any) -> Array:
    """Σ_j B_ij C_ji, of the row means B of a view and C over links that are given `turned`."""
    total = np.bincount(turned.indices, np.abs(turned.data), minlength=turned.shape[0])  # of C, by row
    scaled = turned.data / np.where(total > 0, total, 1)[turned.indices].astype(np.float32)
    other = sparse.csr_array((scaled, turned.indices, turned.indptr), shape=turned.shape)
    return np.asarray(first.means.multiply(other).sum(axis=1), np.float32).ravel()


def _step(both: Any) -> Any:
    """S, of links both ways."""
    links = abs(both) + sparse.eye_array(both.shape[0], dtype=np.float32, format="csr")
    links = sparse.csr_array(links)
    size = (1 / np.sqrt(np.asarray(links.sum(axis=1), np.float64).ravel())).astype(np.float32)
    links.data *= np.repeat(size, np.diff(links.indptr)) * size[links.indices]
    return links
