"""Graphs to measure models of nodes on: those of the papers, and generated ones whose links help, or mislead, or not.

A `World` is a graph with all its labels; a `Cell` one run on it: which labels are known, which nodes are scored. The
seed of a generated world draws the graph and the known labels; that of a world read from files only the labels.

Splits:  10%, 50%   of the nodes of each class are known (one at the least), all others are scored
         folds      five, stratified: four known, the fifth scored
         schools    each group in turn is scored, labels of the others are known
         public     the one that graph networks report (20 labels a class, 1,000 nodes scored)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from kinfolk.graph.graph import Graph

Array = np.ndarray
Random = np.random.Generator
SPLITS = ("10%", "50%", "folds", "schools", "public")


class World(NamedTuple):
    """Features (n, F) dense or CSR, relations name -> CSR (n, n) whose row i lists whom i looks at, labels (n,) from 0,
    -1 = unknown; groups (n,); `public` (train, test) where the data come with a split."""

    features: Any
    relations: dict[str, Any]
    labels: Array
    groups: Array | None = None
    public: tuple[Array, Array] | None = None

    @property
    def n_classes(self) -> int:
        return int(self.labels.max()) + 1


class Cell(NamedTuple):
    """One run: the labels of `train` are known, the nodes of `test` are scored; both masks (n,)."""

    graph: str
    split: str
    seed: int
    world: World
    train: Array
    test: Array


# -- Generated worlds ---------------------------------------------------------------------------------
#
# About 2,000 nodes of five classes. What the features say alone is meant to be middling (50 to 75 percent), so that
# links have something to add.

N, CLASSES = 2_000, 5


def numbers(rng: Random, labels: Array, width: int = 16, apart: float = 0.35) -> Array:
    """Normal deviates around a centre for each class."""
    centres = rng.normal(size=(labels.max() + 1, width))
    return (apart * centres[labels] + rng.normal(size=(len(labels), width))).astype(np.float32)


def words(rng: Random, labels: Array, width: int = 300, length: int = 12, telling: float = 0.25) -> Any:
    """A bag of words, 1 where a word is there: some are of the thirty that are the class's own, the rest of all."""
    own = np.array([rng.choice(width, 30, replace=False) for _ in range(labels.max() + 1)])
    shape = (len(labels), length)
    drawn = np.where(
        rng.random(shape) < telling, own[labels[:, None], rng.integers(30, size=shape)], rng.integers(width, size=shape)
    )
    rows = np.repeat(np.arange(len(labels)), length)
    places = rows.astype(np.int32), drawn.ravel().astype(np.int32)
    table = sparse.csr_array((np.ones(drawn.size, np.float32), places), shape=(len(labels), width))
    table.data[:] = 1
    return table


def drawn_labels(rng: Random, n: int = N, shares: Any = None) -> Array:
    return rng.choice(CLASSES, n, p=shares)


def matrix(source: Array, target: Array, n: int, weights: Array | None = None) -> Any:
    """CSR of links, no loops; a link drawn twice is one."""
    values = np.ones(len(source)) if weights is None else weights
    kept = source != target
    links = sparse.csr_array((values[kept], (source[kept], target[kept])), shape=(n, n))
    if weights is None:
        links.data[:] = 1
    return links


def members(rng: Random, labels: Array, wanted: Array) -> Array:
    """For each class wanted, a node of it."""
    by_class = [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]
    return np.array([rng.choice(by_class[c]) for c in wanted])


def links_of(rng: Random, labels: Array, each: int, share: float, shift: int = 0) -> Any:
    """So many links from each node: a share of them to its class plus `shift`, the others to anybody."""
    n, n_classes = len(labels), labels.max() + 1
    source = np.repeat(np.arange(n), each)
    target = rng.integers(n, size=len(source))
    telling = rng.random(len(source)) < share
    target[telling] = members(rng, labels, (labels[source[telling]] + shift) % n_classes)
    return matrix(source, target, n)


def homophilous(rng: Random) -> World:
    """Two links a node, six of ten to the same class."""
    labels = drawn_labels(rng)
    return World(words(rng, labels), {"links": links_of(rng, labels, 2, 0.6)}, labels)


def heterophilous(rng: Random) -> World:
    """Three links a node, seven of ten to the next class: neighbours are unlike, and which way a link goes matters."""
    labels = drawn_labels(rng)
    return World(words(rng, labels), {"links": links_of(rng, labels, 3, 0.7, shift=1)}, labels)


def cliques(rng: Random) -> World:
    """Groups of eight, everybody linked to everybody, one label a group."""
    group = np.repeat(np.arange(N // 8), 8)
    labels = drawn_labels(rng, N // 8)[group]
    i, j = np.nonzero(group[:, None] == group)
    return World(numbers(rng, labels, apart=0.25), {"together": matrix(i, j, N)}, labels)


def random_links(rng: Random) -> World:
    """Four links a node, to anybody: they say nothing."""
    labels = drawn_labels(rng)
    return World(words(rng, labels), {"links": links_of(rng, labels, 4, 0)}, labels)


def no_links(rng: Random) -> World:
    """A relation without a link."""
    labels = drawn_labels(rng)
    return World(words(rng, labels), {"links": sparse.csr_array((N, N))}, labels)


def in_links(rng: Random) -> World:
    """For eight nodes of ten only links towards them tell: three come from sources of their class (one node in ten),
    and six go to sinks (one in ten) of any class."""
    labels = drawn_labels(rng)
    role = rng.permutation(N)
    sources, sinks, plain = role[: N // 10], role[N // 10 : N // 5], role[N // 5 :]
    receiving = np.repeat(plain, 3)
    giving = sources[members(rng, labels[sources], labels[receiving])]
    sending = np.repeat(plain, 6)
    links = matrix(np.r_[giving, sending], np.r_[receiving, rng.choice(sinks, len(sending))], N)
    return World(words(rng, labels), {"links": links}, labels)


def one_of_two(rng: Random) -> World:
    """Two relations: three telling links a node, and eight to anybody."""
    labels = drawn_labels(rng)
    relations = {"friends": links_of(rng, labels, 3, 0.75), "noise": links_of(rng, labels, 8, 0)}
    return World(words(rng, labels), relations, labels)


def numeric(rng: Random) -> World:
    """Twenty columns of numbers of which five tell, by products and squares (trees do best of those without links);
    three links a node, half of them to the same class."""
    table = rng.normal(size=(N, 20)).astype(np.float32)
    first = table[:, 0] * table[:, 1] > 0
    second = table[:, 2] ** 2 + table[:, 3] ** 2 + 0.5 * table[:, 4] > 1.4
    labels = np.where(rng.random(N) < 0.1, rng.integers(4, size=N), 2 * first + second)
    table *= np.exp(rng.normal(size=20))  # columns of different scale
    return World(table, {"links": links_of(rng, labels, 3, 0.5)}, labels)


def bag_of_words(rng: Random) -> World:
    """Many words, a node has thirty; two links a node, half of them to the same class."""
    labels = drawn_labels(rng)
    features = words(rng, labels, width=1_500, length=30, telling=0.09)
    return World(features, {"links": links_of(rng, labels, 2, 0.5)}, labels)


def imbalanced(rng: Random) -> World:
    """Seven of ten nodes have one class, three of a hundred the rarest; three links a node, as in homophilous."""
    labels = drawn_labels(rng, shares=(0.7, 0.15, 0.07, 0.05, 0.03))
    return World(words(rng, labels), {"links": links_of(rng, labels, 3, 0.6)}, labels)


def chain(rng: Random) -> World:
    """A line of nodes; a label is that of the node before nine times of ten."""
    starts = np.r_[True, rng.random(N - 1) > 0.9]
    labels = drawn_labels(rng, int(starts.sum()))[np.cumsum(starts) - 1]
    nodes = np.arange(N - 1)
    return World(numbers(rng, labels), {"next": matrix(nodes, nodes + 1, N)}, labels)


def weighted(rng: Random) -> World:
    """Two relations with weights. Of "near" four of ten links go to the same class, with three times the weight of the
    others; the weights of "far" and its links say nothing."""
    labels, relations = drawn_labels(rng), {}
    for name, each, share in (("near", 6, 0.25), ("far", 4, 0.0)):
        source, target = links_of(rng, labels, each, share).nonzero()
        alike = (labels[source] == labels[target]) & (name == "near")
        relations[name] = matrix(source, target, N, rng.gamma(4, np.where(alike, 0.75, 0.25)))
    return World(words(rng, labels), relations, labels)


def hubs(rng: Random) -> World:
    """Two telling links a node, and two to one of ten hubs, of any class, that a fifth of all nodes link to."""
    labels = drawn_labels(rng)
    source = np.repeat(np.arange(N), 2)
    everywhere = matrix(source, rng.integers(10, size=len(source)), N)
    links = sparse.csr_array(links_of(rng, labels, 2, 0.8) + everywhere)
    links.data[:] = 1
    return World(words(rng, labels), {"links": links}, labels)


GENERATED: dict[str, Callable[[Random], World]] = {
    "homophilous": homophilous,
    "heterophilous": heterophilous,
    "cliques": cliques,
    "random links": random_links,
    "no links": no_links,
    "in-links": in_links,
    "one of two": one_of_two,
    "numeric": numeric,
    "bag of words": bag_of_words,
    "imbalanced": imbalanced,
    "chain": chain,
    "weighted": weighted,
    "hubs": hubs,
}

# -- Worlds read from files ---------------------------------------------------------------------------


def data_folder() -> Path:
    """The folder named by KINFOLK_DATA, else ../shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("KINFOLK_DATA") or beside)


def of_graph(graph: Graph) -> World:
    present, codes = np.unique(graph.label_codes, return_inverse=True)
    labels = codes - int(present[0] == -1)
    return World(graph.features, dict(graph.relations), labels, graph.group_codes)


def planetoid(data: Path, name: str) -> World:
    stored = np.load(data / "nodes" / "planetoid" / f"{name}.npz", allow_pickle=False)
    features = sparse.csr_array((stored["data"], stored["indices"], stored["indptr"]), shape=tuple(stored["shape"]))
    (i, j), n = stored["edges"].T, features.shape[0]
    links = matrix(np.r_[i, j], np.r_[j, i], n)
    return World(features, {"links": links}, stored["labels"].astype(np.int64), None, (stored["train"], stored["test"]))


def experiment(data: Path, name: str) -> World:
    """A graph as the experiments of the stacking paper read it."""
    from kinfolk.papers.data import PROBLEMS
    from kinfolk.papers.stacking import linqs_pages

    return of_graph(linqs_pages(data) if name == "webkb-linqs" else PROBLEMS[name](data).graph)


READ: dict[str, tuple[Callable[[Path], World], tuple[str, ...]]] = {
    "cora": (partial(experiment, name="cora"), ("10%", "50%", "folds")),
    "citeseer": (partial(experiment, name="citeseer"), ("10%", "50%", "folds")),
    "slif": (partial(experiment, name="slif"), ("10%", "50%", "folds")),
    "webkb-linqs": (partial(experiment, name="webkb-linqs"), ("10%", "50%", "schools")),
    "webkb": (partial(experiment, name="webkb"), ("schools",)),
    "planetoid cora": (partial(planetoid, name="cora"), ("public",)),
    "planetoid citeseer": (partial(planetoid, name="citeseer"), ("public",)),
}
NAMES = (*READ, *GENERATED)


# -- Cells --------------------------------------------------------------------------------------------


@cache
def world(graph: str, seed: int) -> World:
    if graph in GENERATED:
        return GENERATED[graph](np.random.default_rng([seed, *graph.encode()]))
    return READ[graph][0](data_folder())


def splits_of(graph: str) -> tuple[str, ...]:
    return ("10%", "50%") if graph in GENERATED else READ[graph][1]


def some_of_each(labels: Array, share: float, seed: int) -> Array:
    """A mask: this share of each class, drawn, and one node of it at the least."""
    rng, known = np.random.default_rng(seed), np.zeros(len(labels), bool)
    for c in range(labels.max() + 1):
        inside = rng.permutation(np.flatnonzero(labels == c))
        known[inside[: max(1, round(share * len(inside)))]] = True
    return known


def masks(one: World, split: str, seed: int) -> Iterator[tuple[int, Array, Array]]:
    """(number of the run, train, test): one for the seed, or a fold's or a school's."""
    from sklearn.model_selection import StratifiedKFold

    labelled = one.labels >= 0
    if split.endswith("%"):
        train = some_of_each(one.labels, float(split[:-1]) / 100, seed)
        yield seed, train, labelled & ~train
    elif split == "folds":
        folds = StratifiedKFold(5, shuffle=True, random_state=0).split(one.labels, one.labels)
        train, test = list(folds)[seed]
        yield seed, *(np.isin(np.arange(len(labelled)), part) for part in (train, test))
    elif split == "schools":
        assert one.groups is not None
        yield seed, labelled & (one.groups != seed), labelled & (one.groups == seed)
    else:
        assert one.public is not None
        yield seed, *(labelled & np.isin(np.arange(len(labelled)), part) for part in one.public)


def cells(graph: str, split: str, seeds: int) -> Iterator[Cell]:
    """All runs of a split: five folds, four schools, else as many as seeds."""
    for seed in range({"folds": 5, "schools": 4}.get(split, seeds)):
        one = world(graph, seed if graph in GENERATED else 0)
        for number, train, test in masks(one, split, seed):
            yield Cell(graph, split, number, one, train, test)
