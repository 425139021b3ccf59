"""Which tables of weights a mixture of parents has, and which rows of features each of them scores.

A relation has a table for the features of the child and, where those of the parent count too, one for them ("own"),
or the same one ("shared"). Start components have a table of their own, or that of a relation's children.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from kinfolk.collective.explain import Component
from kinfolk.collective.sequences import TrainingData, train
from kinfolk.collective.templates import set_known
from kinfolk.core.beside import Table, apart, beside
from kinfolk.core.checkpoint import running
from kinfolk.core.data import finite
from kinfolk.core.kernels import Csr
from kinfolk.core.modelfile import ModelFile, check_size, fits
from kinfolk.core.settings import NOT_NEGATIVE, ZERO, Settings, an_object, one_of, setting, whole
from kinfolk.core.threads import release_free_memory
from kinfolk.core.training import Callback, Convergence, Stage, TrainingPlan, UntilStopped, combined
from kinfolk.errors import InputError, ModelFileError, SettingError
from kinfolk.inference.dag import START, Dag
from kinfolk.inference.mixture import (
    NO_ROWS,
    Beliefs,
    Scores,
    Sweeps,
    Wiring,
    beliefs,
    gated_weights,
    uniform_weights,
)
from kinfolk.learning.lbfgs import Iteration, Watch, minimise, optimise
from kinfolk.learning.loglinear import Answer, Tables, TableShape, TableWeights, no_weights
from kinfolk.learning.sparse import SparseRows

Array = NDArray[Any]
T = TypeVar("T")
PARENT_FEATURES = ("none", "own", "shared")
STAY_SEPARATE = ("separate", "crossfit")  # trainings that leave the weights of features as each relation found them


@dataclass(kw_only=True, eq=False, repr=False)
class Mixes(Settings):
    """Abstract: a model whose conditionals are mixtures over parents."""

    training: str = setting(
        "joint",
        '"separate": each relation\'s model on its own edges; "conditional": then all together by the conditional '
        'log-likelihood L_C; "joint": then all together by the marginal log-likelihood L_M; "crossfit": then the '
        "weights of label pairs, and how much features count, by L_M of folds (`gate_folds`) that the weights of "
        "features have not seen",
        one_of("separate", "conditional", "joint", "crossfit"),
    )
    parent_features: str = setting(
        "own",
        'features of the parent count with weights of their "own", with those of the child ("shared"), or not at all '
        '("none"); of tokens, on skip edges',
        one_of(*PARENT_FEATURES),
    )
    mixing: str | Mapping[str, float] = setting(
        "uniform",
        'weights of parents: "uniform"; "learned" by a gate; or a share for each relation, {"cites": 2, "start": 1}',
        one_of("uniform", "learned", "given") | an_object("a dict of shares by relation", Mapping),
    )
    gate_l2: float = setting(
        1.0,
        'strength of the ridge that draws a learned gate to uniform weights, and what `training="crossfit"` changes to '
        "separate training",
        NOT_NEGATIVE,
    )
    gate_folds: int = setting(
        3,
        "a gate is learned on groups (documents) that the models of the relations have not seen, in so many folds; 0: "
        "on the training data itself, together with them",
        whole(2) | ZERO,
    )


@dataclass(frozen=True)
class RelationLayout:
    """name, whether the features of the parent count ("none", "own", "shared"), features of label pairs."""

    name: str
    parent_features: str = "none"
    pair_features: int = 0


@dataclass(frozen=True)
class Layout:
    """The relations of a model; `start_table` is the relation whose child table serves starts too, None: its own."""

    relations: tuple[RelationLayout, ...]
    start_table: int | None = None

    def child_table(self, relation: int) -> int:
        return sum(1 + (r.parent_features == "own") for r in self.relations[:relation])

    def parent_table(self, relation: int) -> int | None:
        how = self.relations[relation].parent_features
        return None if how == "none" else self.child_table(relation) + (how == "own")

    @property
    def own_start_table(self) -> int:
        """Number of the table of start components."""
        return self.child_table(len(self.relations) if self.start_table is None else self.start_table)

    @property
    def n_tables(self) -> int:
        return self.child_table(len(self.relations)) + (self.start_table is None)

    @property
    def n_pair_features(self) -> int:
        return sum(r.pair_features for r in self.relations)

    def pair_columns(self, relation: int) -> slice:
        """Which of all features of label pairs are those of one relation."""
        first = sum(r.pair_features for r in self.relations[:relation])
        return slice(first, first + self.relations[relation].pair_features)


@dataclass(frozen=True)
class Wired:
    """Wirings of one or more orders of the same instances; `rows[t]`: the instances that table t scores."""

    rows: list[NDArray[np.int64]]
    wirings: Sequence[Wiring]


NEARLY = 7 / 8


def wire(layout: Layout, dags: Sequence[Dag], pair_rows: Sequence[Sequence[Any]] | None = None) -> Wired:
    """Give every component the slots of its scores.

    pair_rows   for each dag, for each relation: CSR (its edges, its features of label pairs), or None
    """
    wanted: list[list[Array]] = [[np.empty(0, np.int64)] for _ in range(layout.n_tables)]
    ends = [_ends(layout, dag) for dag in dags]
    for tables, instances in (pair for per_dag in ends for pair in per_dag):
        for t in range(layout.n_tables):
            wanted[t].append(np.unique(instances[tables == t]))
    rows = [np.unique(np.concatenate(parts)) for parts in wanted]
    everybody = np.arange(dags[0].n_instances if dags else 0)  # in the place of nearly all: rows need no copy then
    rows = [everybody if NEARLY * len(everybody) <= len(found) else found for found in rows]
    firsts = np.cumsum([0, *map(len, rows)])
    wirings = []
    for d, (dag, (child, parent)) in enumerate(zip(dags, ends, strict=True)):
        child_slot, parent_slot = (_slots(rows, firsts, *end) for end in (child, parent))
        pairs = _component_rows(layout, dag, pair_rows[d] if pair_rows else ())
        wirings.append(Wiring(dag, child_slot, parent_slot, pairs))
    return Wired(rows, wirings)


End = tuple[NDArray[np.int64], NDArray[np.int64]]


def _ends(layout: Layout, dag: Dag) -> tuple[End, End]:
    """For the child and for the parent of each component: its table (-1: none) and its instance."""
    numbers = range(len(layout.relations))
    child_tables = np.array([*map(layout.child_table, numbers), layout.own_start_table], np.int64)
    parents = [layout.parent_table(r) for r in numbers]
    parent_tables = np.array([*(-1 if t is None else t for t in parents), -1], np.int64)
    assert START == -1  # the last entry of both lists is that of start components
    return (child_tables[dag.relation], dag.child), (parent_tables[dag.relation], dag.parent)


def _slots(rows: list[Array], firsts: Array, tables: Array, instances: Array) -> NDArray[np.int64]:
    slots = np.full(len(tables), -1, np.int64)
    for t, known in enumerate(rows):
        here = tables == t
        slots[here] = firsts[t] + np.searchsorted(known, instances[here])
    return slots


def _component_rows(layout: Layout, dag: Dag, by_relation: Sequence[Any]) -> Csr:
    """Features of label pairs by component, from those by edge."""
    if not layout.n_pair_features:
        return NO_ROWS
    blocks, places = [], [np.empty(0, np.int64)]
    for r, rows in enumerate(by_relation):
        if rows is None or not rows.shape[1]:
            continue
        here = np.flatnonzero(dag.relation == r)
        columns = layout.pair_columns(r)
        wide = sparse.csr_array(rows)[dag.edge[here]]
        shifted = (wide.data, wide.indices + columns.start, wide.indptr)
        blocks.append(sparse.csr_array(shifted, shape=(len(here), layout.n_pair_features)))
        places.append(here)
    place = np.concatenate(places)
    stacked = sparse.vstack([*blocks, sparse.csr_array((1, layout.n_pair_features))], format="csr")
    where = np.full(dag.n_components, stacked.shape[0] - 1)  # components without features: the empty row
    where[place] = np.arange(len(place))
    table = stacked[where]
    return Csr(table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data.astype(np.float64))


# -- Separate training: each relation's model on its own edges, given the true label of the parent -----
#
# An edge is a row of a plain maxent problem: the features of the child, those of the parent, and the label of the
# parent as a feature of its own, whose weights are the label-pair table T. The weights are then taken apart.

RUN = 16  # rows that a stochastic step takes together


class EdgeModel(NamedTuple):
    """Weights of one relation: child (F, L), parent (F, L) or None, pair (L, L), rows (G, L²), start (L,)."""

    child: Array
    parent: Array | None
    pair: Array
    rows: Array
    start: Array


class EdgeData(NamedTuple):
    """What one relation is trained on.

    edges            int (E, 2), (child, parent); a parent of -1: a start component
    parent_features  "none", "own" or "shared"
    pair_rows        CSR (E, G), or None
    """

    edges: NDArray[np.int64]
    parent_features: str
    pair_rows: Any = None


def train_separately(
    rows: Table, labels: NDArray[np.int32], weights: Array, n_labels: int, data: EdgeData,
    plan: TrainingPlan, callback: Callback | None = None,
) -> tuple[EdgeModel, Convergence | None]:  # fmt: skip
    """The model of one relation; all zeros where none of its edges has a known label at both ends."""
    child, parent = data.edges.T
    known = np.flatnonzero((labels[child] >= 0) & ((parent < 0) | (labels[parent] >= 0)) & (weights[child] > 0))
    child, parent = child[known], parent[known]
    table, dense = apart(rows)
    n_features, n_pairs = table.shape[1], 0 if data.pair_rows is None else data.pair_rows.shape[1]
    # the label of the parent; a start component has one of its own
    before = np.where(parent < 0, n_labels, labels[parent]).astype(np.int32)
    parts = [_both_ends(table, child, parent, data.parent_features), _one_hot(before, n_labels + 1)]
    if n_pairs:
        parts.append(_by_label(data.pair_rows[known], before, n_labels))
    columns = _dense_ends(dense, child, parent, data.parent_features)
    wide = beside(sparse.hstack(parts, format="csr", dtype=np.float32), columns)
    flat, convergence = np.zeros((wide.shape[1], n_labels), np.float32), None
    if len(known):
        flat, convergence = train_maxent(wide, labels[child], weights[child], n_labels, plan, callback)
    own = data.parent_features == "own"
    cuts = np.cumsum([n_features, n_features * own, n_labels, 1, n_pairs * n_labels, dense.shape[1]])
    first, second, pair, start, paired, first_dense, second_dense = np.split(flat, cuts)
    paired = paired.reshape(n_pairs, n_labels * n_labels)
    of_child, of_parent = np.concatenate([first, first_dense]), np.concatenate([second, second_dense])
    return EdgeModel(of_child, of_parent if own else None, pair, paired, start[0]), convergence


def train_maxent(
    rows: Table, labels: NDArray[np.int32], weights: Array, n_labels: int, plan: TrainingPlan,
    callback: Callback | None,
) -> tuple[Array, Convergence]:  # fmt: skip
    """Weights (F, L) of a plain maxent model of rows, each on its own."""
    starts = np.append(np.arange(0, len(labels), RUN), len(labels)).astype(np.int64)
    data = TrainingData(SparseRows(rows), None, labels, weights, starts, n_labels)
    flat, convergence = train("maxent", data, plan, None, None, callback)
    return flat[: rows.shape[1] * n_labels].reshape(-1, n_labels), convergence


def _both_ends(rows: sparse.csr_array, child: Array, parent: Array, how: str) -> sparse.csr_array:
    own = rows[child]
    if how == "none":
        return own
    nobody = sparse.csr_array((1, rows.shape[1]), dtype=rows.dtype)
    other = sparse.vstack([rows, nobody], format="csr")[np.where(parent < 0, rows.shape[0], parent)]
    return sparse.hstack([own, other], format="csr") if how == "own" else own + other


def _dense_ends(dense: Array, child: Array, parent: Array, how: str) -> Array:
    """The same for dense columns."""
    own = dense[child]
    if how == "none" or not dense.shape[1]:
        return own
    other = dense[parent]
    other[parent < 0] = 0
    return np.concatenate([own, other], axis=1) if how == "own" else own + other


def _one_hot(codes: Array, width: int) -> sparse.csr_array:
    ones, starts = np.ones(len(codes), np.float32), np.arange(len(codes) + 1)
    return sparse.csr_array((ones, codes, starts), shape=(len(codes), width))


def _by_label(pair_rows: Any, before: Array, n_labels: int) -> sparse.csr_array:
    """Feature g of an edge whose parent has label i becomes feature (g, i); a start component has none."""
    table = sparse.csr_array(pair_rows, copy=True)
    repeated = np.repeat(before, np.diff(table.indptr))
    data = np.where(repeated < n_labels, table.data, 0)
    indices = table.indices * n_labels + np.minimum(repeated, n_labels - 1)
    return sparse.csr_array((data, indices, table.indptr), shape=(table.shape[0], table.shape[1] * n_labels))


# -- Training a mixture of parents: separately, then, if wanted, all relations together by L_C or L_M, gate included ---


HELD = 8  # wirings that are swept at once where only the mean over all is wanted


@dataclass(frozen=True, eq=False)
class Sample:
    """Instances ready for a mixture of parents.

    rows    CSR (n, F), or one with dense columns beside it
    wired   one wiring for each order of the instances
    gates   for each wiring the gate features (C, D) of its components, or (0, 0): mixing weights are not learned
    given   for each wiring fixed mixing weights (C,), or None: by the gate, which is uniform where γ = 0
    """

    layout: Layout
    rows: Table
    wired: Wired
    gates: Sequence[Array]
    given: Sequence[Array] | None = None

    @property
    def n_gate_features(self) -> int:
        return self.gates[0].shape[1] if self.gates else 0

    def alphas(self, gate: Array) -> list[Array]:
        """Mixing weights of each wiring."""
        if self.given is not None:
            return list(self.given)
        dags = [wiring.dag for wiring in self.wired.wirings]
        if not len(gate):
            return [uniform_weights(dag) for dag in dags]
        return [gated_weights(dag, rows @ gate.astype(np.float64)) for dag, rows in zip(dags, self.gates, strict=True)]

    def beliefs(self, weights: TableWeights, labels: NDArray[np.int32] | None = None, n_jobs: int = 1) -> list[Beliefs]:
        """Marginals of each wiring."""
        found = beliefs(self.wired.wirings, self.scores(weights, n_jobs), self.alphas(weights.gate), labels, n_jobs)
        for one in found:
            finite(one.marginals, "the mixture of parents")
        return found

    def mean_marginals(self, weights: TableWeights, labels: NDArray[np.int32] | None, n_jobs: int) -> Array:
        """(n, L), the mean over the wirings, of which a few at a time are held in memory."""
        scores, n = self.scores(weights, n_jobs), len(self.wired.wirings)
        total = np.zeros((self.rows.shape[0], len(weights.start)))
        for first in range(0, n, HELD):
            part = self.some(range(first, min(first + HELD, n)))
            alphas = part.alphas(weights.gate)
            for one in beliefs(part.wired.wirings, scores, alphas, labels, n_jobs, predictions=False):
                total += one.marginals
        total /= n
        finite(total, "the mixture of parents")
        return total

    def each_once(self, made: Callable[[Table], T]) -> list[T]:
        """What is made of the rows that each table scores, once for all tables that score every instance."""
        found: dict[int, T] = {}
        return [
            found[key] if (key := id(instances)) in found else found.setdefault(key, made(_taken(self.rows, instances)))
            for instances in self.wired.rows
        ]

    def some(self, wirings: Sequence[int]) -> Sample:
        """The same with some of its wirings."""
        wired = replace(self.wired, wirings=[self.wired.wirings[w] for w in wirings])
        gates = [self.gates[w] for w in wirings]
        given = None if self.given is None else [self.given[w] for w in wirings]
        return replace(self, wired=wired, gates=gates, given=given)

    def components(
        self, weights: TableWeights, names: Sequence[str], instances: Sequence[int], n_jobs: int,
        labels: NDArray[np.int32] | None = None,
    ) -> list[list[Component]]:  # fmt: skip
        """The components of each instance, in every order; weights of all sum to 1. `names` are those of the relations,
        `labels` (n,) those that are known, -1 for none."""
        known = (*names, "start")
        answer: list[list[Component]] = [[] for _ in instances]
        found, alphas = self.beliefs(weights, labels, n_jobs), self.alphas(weights.gate)
        for wiring, alpha, (marginals, predicted) in zip(self.wired.wirings, alphas, found, strict=True):
            dag = wiring.dag
            if labels is not None:
                set_known(marginals, labels)
            for components, instance in zip(answer, instances, strict=True):
                for c in range(dag.indptr[instance], dag.indptr[instance + 1]):
                    j = int(dag.parent[c])
                    own = None if j < 0 else marginals[j]
                    components.append(
                        Component(j, known[dag.relation[c]], float(alpha[c]) / len(found), own, predicted[c])
                    )
        return answer

    def scores(self, weights: TableWeights, n_jobs: int) -> Scores:
        """Scores of the instances that each table has a part in."""
        ends = np.concatenate(
            [np.empty((0, len(weights.start)), weights.start.dtype)]
            + [
                rows.scores(table, n_jobs)
                for rows, table in zip(self.each_once(SparseRows), weights.tables, strict=True)
            ]
        )
        return Scores(ends, weights.pair, weights.start, weights.rows)


@dataclass(frozen=True, eq=False)
class Examples:
    """What a mixture learns from: a sample, labels (-1 unknown) and weights, and for separate training the edges of
    each relation and the start components."""

    sample: Sample
    labels: NDArray[np.int32]
    weights: Array
    n_labels: int
    edges: Sequence[EdgeData]
    starts: NDArray[np.int64]  # instances that the start model is trained on


def shape_of(sample: Sample, n_labels: int) -> TableShape:
    layout, n_features = sample.layout, sample.rows.shape[1]
    return TableShape(
        (n_features,) * layout.n_tables, n_labels, len(layout.relations), layout.n_pair_features, sample.n_gate_features
    )


def train_relations(
    examples: Examples, plan: TrainingPlan, callback: Callback | None
) -> tuple[TableWeights, list[Convergence]]:
    """Separate training of every relation, and of the start components; the gate is left uniform."""
    sample, n_labels = examples.sample, examples.n_labels
    layout, shape = sample.layout, shape_of(sample, n_labels)
    weights = shape.split(no_weights(shape))
    outcomes: list[Convergence] = []

    def fit(data: EdgeData, name: str) -> EdgeModel:
        named = replace(plan, stage=name)
        model, outcome = train_separately(
            sample.rows, examples.labels, examples.weights, n_labels, data, named, callback
        )
        outcomes.extend([] if outcome is None else [outcome])
        release_free_memory()
        return model

    nobody = np.full(len(examples.starts), -1)
    starts = np.stack([examples.starts, nobody], axis=1)
    for r, (relation, data) in enumerate(zip(layout.relations, examples.edges, strict=True)):
        if layout.start_table == r:  # starts are rows of this relation, with a parent label of their own
            data = _with_starts(data, starts)
        model = fit(data, relation.name)
        weights.tables[layout.child_table(r)][:] = model.child
        if model.parent is not None:
            weights.tables[layout.child_table(r) + 1][:] = model.parent
        weights.pair[r] = model.pair
        weights.rows[layout.pair_columns(r)] = model.rows
        if layout.start_table == r:
            weights.start[:] = model.start
    if layout.start_table is None:
        model = fit(EdgeData(starts, "none"), "start")
        weights.tables[layout.own_start_table][:] = model.child
        weights.start[:] = model.start
    return weights, outcomes


def _with_starts(data: EdgeData, starts: NDArray[np.int64]) -> EdgeData:
    edges = np.concatenate([data.edges, starts])
    rows = data.pair_rows
    if rows is not None:
        rows = sparse.vstack([rows, sparse.csr_array((len(starts), rows.shape[1]))], format="csr")
    order = np.argsort(edges[:, 0], kind="stable")
    return data._replace(edges=edges[order], pair_rows=None if rows is None else rows[order])


def train_together(
    examples: Examples, start: TableWeights, clamp: bool, with_gate: bool, gate_l2: float, plan: TrainingPlan,
    score_dev: Callable[[TableWeights], float] | None, callback: Callback | None,
) -> tuple[TableWeights, Convergence]:  # fmt: skip
    """All relations at once, from given weights: L_C with `clamp`, else L_M. The gate is learned along, or left.

    A table has weights only for the features that occur among its rows: the others have no gradient.
    """
    began = time.perf_counter()
    gate = start.gate
    if not with_gate:  # it stays as it is: its weights are given
        fixed = replace(
            examples.sample, gates=[g[:, :0] for g in examples.sample.gates], given=examples.sample.alphas(gate)
        )
        examples, start = replace(examples, sample=fixed), start._replace(gate=gate[:0])
    sample = examples.sample
    full = shape_of(sample, examples.n_labels)
    blocks, used = zip(*sample.each_once(_lean), strict=True)
    shape = replace(full, features=tuple(map(len, used)))
    tables = [table[columns] for table, columns in zip(start.tables, used, strict=True)]
    loss = _loss(examples, clamp, plan.n_jobs)
    objective = Tables(blocks, shape, loss, plan.l2, gate_l2, plan.n_jobs, plan.dense_l2)

    def spread(weights: TableWeights) -> TableWeights:
        wide = full.split(no_weights(full))
        for table, columns, found in zip(wide.tables, used, weights.tables, strict=True):
            table[columns] = found
        return TableWeights(wide.tables, *weights[1:-1], weights.gate if with_gate else gate)

    score = None if score_dev is None else lambda weights: score_dev(spread(weights))
    watch = Watch(shape, plan, score, callback, began)
    flat, convergence = optimise(objective, shape.join(start._replace(tables=tables)), plan, watch, began)
    return spread(shape.split(flat)), convergence


def _lean(table: Table) -> tuple[SparseRows, NDArray[np.int64]]:
    """Rows without the features that do not occur, and which are left."""
    rows, dense = apart(table)
    columns = np.unique(rows.indices)
    small = np.searchsorted(columns, rows.indices).astype(np.int32)
    few = sparse.csr_array((rows.data, small, rows.indptr), shape=(rows.shape[0], len(columns)))
    return SparseRows(beside(few, dense)), np.append(columns, rows.shape[1] + np.arange(dense.shape[1]))


def _loss(examples: Examples, clamp: bool, n_jobs: int) -> Callable[[Array, TableWeights], Answer]:
    """The mean over wirings (orders) of the loss, and its derivatives."""
    sample = examples.sample
    sweeps = Sweeps(sample.wired.wirings, len(sample.layout.relations), examples.labels, examples.weights, clamp)
    share = 1.0 / max(1, len(sample.wired.wirings))

    def evaluate(ends: Array, weights: TableWeights) -> Answer:
        scores = Scores(ends, weights.pair, weights.start, weights.rows)
        alphas = sample.alphas(weights.gate)
        parts = sweeps(scores, alphas, n_jobs)
        gate = np.zeros(len(weights.gate))
        for part, features in zip(parts, sample.gates, strict=True):
            if len(gate):
                gate += share * (part.gate @ features)
        total = parts[0].scores
        for part in parts[1:]:
            for own, other in zip(total, part.scores, strict=True):
                own += other
        for own in total if len(parts) > 1 else ():
            own *= share
        return Answer(share * sum(part.loss for part in parts), *total, gate=gate)

    return evaluate


def _taken(rows: Table, instances: NDArray[np.int64]) -> Table:
    """Some rows of a table, or the table itself when they are all."""
    return rows if len(instances) == rows.shape[0] else rows[instances]


# -----------------------------------------------------------------------------------------------------
# Mixing weights: uniform, by relation, or learned by a gate over features of x alone, so that inference stays exact.
#
#     α_c = exp(φ_c · γ) / Σ_c' exp(φ_c' · γ)      over the components c' of the instance
#
# γ = 0 is uniform, and a ridge on γ draws towards it. The features φ of a component:
#
#     its relation; log of how many components of that relation the instance has (γ = -1 makes them weigh like one);
#     how uncertain a local model is of the child and of the parent (1 - its best probability), each by relation;
#     features of the edge, where the relation has them


def gate_names(relations: Sequence[str], edge_names: Sequence[Sequence[str]]) -> list[str]:
    """Names of the gate features, in the order of the columns of `gate_rows`."""
    kinds = [*relations, "start"]
    names = [f"relation: {name}" for name in kinds]
    names += [f"log number: {name}" for name in relations]
    names += [f"child doubted: {name}" for name in kinds] + [f"parent doubted: {name}" for name in relations]
    return names + [f"{name}: {edge}" for name, edges in zip(relations, edge_names, strict=True) for edge in edges]


def gate_rows(dag: Dag, n_relations: int, uncertainty: Array, edge_rows: Sequence[Any]) -> Array:
    """(C, D). `edge_rows` holds for each relation a CSR (E, G), or None."""
    n = dag.n_components
    kind = np.where(dag.relation == START, n_relations, dag.relation)
    hot = np.zeros((n, n_relations + 1))
    hot[np.arange(n), kind] = 1
    counts = np.zeros((dag.n_instances, n_relations + 1))
    np.add.at(counts, (dag.child, kind), 1)
    number = np.log(counts[dag.child, kind])[:, None] * hot[:, :-1]
    child = uncertainty[dag.child][:, None] * hot
    parent = np.where(dag.parent >= 0, uncertainty[dag.parent], 0)[:, None] * hot[:, :-1]
    blocks = [hot, number, child, parent]
    for r, rows in enumerate(edge_rows):
        if rows is not None:
            here = np.flatnonzero(dag.relation == r)
            block = np.zeros((n, rows.shape[1]))
            block[here] = rows[dag.edge[here]].toarray()
            blocks.append(block)
    return np.concatenate(blocks, axis=1)


def shared_weights(dag: Dag, shares: Array) -> Array:
    """(C,), a share for each relation (the last: start), split evenly among its components of an instance.

    Relations an instance has nothing of leave their share to the others.
    """
    kind = np.where(dag.relation == START, len(shares) - 1, dag.relation)
    counts = np.zeros((dag.n_instances, len(shares)))
    np.add.at(counts, (dag.child, kind), 1)
    weights = shares[kind] / counts[dag.child, kind]
    totals = np.add.reduceat(weights, dag.indptr[:-1]) if len(weights) else weights
    return np.asarray(weights / totals[dag.child])


def checked_shares(given: Mapping[str, float], names: Sequence[str], start_like: str | None) -> Array:
    """(R + 1,) from a mapping of relation names; start components weigh like `start_like` unless named."""
    known = [*names, "start"]
    for name, share in given.items():
        if name not in known:
            raise SettingError.saying(f"mixing names relation {name!r}; there are {', '.join(map(repr, known))}")
        if not isinstance(share, Real) or isinstance(share, bool) or not 0 < float(share) < np.inf:
            raise SettingError.saying(f"mixing[{name!r}] must be a positive number; got {share!r}")
    missing = [name for name in names if name not in given]
    if missing:
        raise SettingError.saying(f"mixing gives no weight for relation {missing[0]!r}; name all of {', '.join(names)}")
    start = given.get("start", given.get(start_like, 1.0) if start_like else 1.0)
    return np.array([*(float(given[name]) for name in names), float(start)])


@dataclass(frozen=True, eq=False)
class LocalModel:
    """A plain maxent model of the instances, for its uncertainty alone."""

    table: Array  # (F, L)

    def uncertainty(self, rows: Table, n_jobs: int) -> Array:
        """(n,), 1 - the best probability."""
        scores = SparseRows(rows).scores(self.table, n_jobs).astype(np.float64)
        return np.asarray(1 - special.softmax(scores, axis=1).max(axis=1))


def train_local(
    rows: Table, labels: NDArray[np.int32], weights: Array, fold: Array, n_labels: int, plan: TrainingPlan,
    callback: Callback | None,
) -> tuple[LocalModel, Array]:  # fmt: skip
    """The model trained on everything, and the uncertainty (n,) of models that have not seen the fold of an instance:
    one that has seen it is always certain.
    """
    uncertainty = np.zeros(len(labels))
    for number in np.unique(fold):
        held = fold == number
        if held.any() and (labels[~held] >= 0).any():
            model = _fit(rows[np.flatnonzero(~held)], labels[~held], weights[~held], n_labels, plan, callback)
            uncertainty[held] = model.uncertainty(rows[np.flatnonzero(held)], plan.n_jobs)
    return _fit(rows, labels, weights, n_labels, plan, callback), uncertainty


def _fit(
    rows: Table, labels: Array, weights: Array, n_labels: int, plan: TrainingPlan, callback: Callback | None
) -> LocalModel:
    plan = replace(plan, stage="local", warns=False)
    return LocalModel(train_maxent(rows, labels, weights, n_labels, plan, callback)[0])


# -- Training of a mixture of parents, stage by stage: relations, gate, all together -------------------
#
# The gate is learned on instances that the relations' models have not seen: on its own training data a log-linear model
# with many features is right about nearly everything, parents included, so a gate trained there trusts far-away parents
# too much. Each fold's models are trained without the fold's labels, and the gate maximises the marginal log-likelihood
# L_M of those labels, with the models held fixed:
#
#     γ = argmax Σ_f L_M(labels of fold f; models without f, γ) - gate_l2 / 2 · |γ|²


@dataclass(frozen=True)
class MixtureSettings:
    """training: see `Mixes`; ridge of the gate; folds of what is cross-fitted, 0: nothing is."""

    training: str
    gate_l2: float
    gate_folds: int

    @classmethod
    def of(cls, model: Any, held_out: Any) -> MixtureSettings:
        """Those of a model; what does not go together is an error."""
        if held_out is not None and model.training in STAY_SEPARATE:
            raise InputError(
                f"{model.training} training fits each relation on its own, so held-out data cannot stop it: leave "
                "X_dev out, or set `training='joint'` or 'conditional'"
            )
        if model.mixing == "learned" and model.training == "separate" and not model.gate_folds:
            raise SettingError.saying("`mixing='learned'` with `training='separate'` needs gate_folds of 2 or more")
        if model.training == "crossfit" and not model.gate_folds:
            raise SettingError.saying("`training='crossfit'` needs gate_folds of 2 or more")
        return cls(model.training, float(model.gate_l2), model.gate_folds)


def untrained_relations(names: Sequence[str], edges: Sequence[EdgeData], labels: NDArray[np.int32]) -> tuple[str, ...]:
    """Relations without an edge whose ends both have a label: their models know nothing, and should not be used."""
    known = [(labels[data.edges] >= 0).all(axis=1).any() for data in edges]
    return tuple(name for name, trained in zip(names, known, strict=True) if not trained)


def folds_by_group(groups: Array, n_folds: int, seed: int | None) -> NDArray[np.int64]:
    """(n,), the fold of each instance: whole groups, or single instances where there are fewer groups than folds."""
    unit = groups if len(np.unique(groups)) >= n_folds else np.arange(len(groups))
    order = np.random.default_rng(seed).permutation(int(unit.max(initial=-1)) + 1)
    return np.asarray(order[unit] % n_folds, np.int64)


class FoldModel(NamedTuple):
    """Models of relations that have not seen the instances `held` (n,): their weights, and the scores they give all."""

    held: NDArray[np.bool_]
    weights: TableWeights
    scores: Scores


def fold_models(
    examples: Examples, fold: NDArray[np.int64], plan: TrainingPlan, callback: UntilStopped | None
) -> list[FoldModel]:
    """One a fold that has labels, if the others have too. Nothing is reported of them."""
    found = []
    for number in np.unique(fold):
        held = fold == number
        seen = np.where(held, -1, examples.labels).astype(np.int32)
        if (seen >= 0).any() and (examples.labels[held] >= 0).any():
            weights, _ = train_relations(replace(examples, labels=seen), plan, callback)
            found.append(FoldModel(held, weights, examples.sample.scores(weights, plan.n_jobs)))
    return found


def fold_parts(examples: Examples, models: Sequence[FoldModel]) -> list[tuple[Scores, Sweeps]]:
    """For each fold the scores of its model, and the sweeps for the labels it has not seen."""
    sample, found = examples.sample, []
    for one in models:
        labels = np.where(one.held, examples.labels, -1).astype(np.int32)
        inside = (sample.wired.wirings, len(sample.layout.relations), labels, examples.weights)
        found.append((one.scores, Sweeps(*inside, clamp=False)))
    return found


def train_gate(
    examples: Examples, models: Sequence[FoldModel], gate_l2: float, plan: TrainingPlan, callback: UntilStopped | None
) -> tuple[Array, tuple[Stage, ...]]:
    """γ (D,), and how it was found."""
    sample, n_gates = examples.sample, examples.sample.n_gate_features
    parts = fold_parts(examples, models)

    def objective(gate: Array, gradient: Array) -> float:
        loss = 0.5 * gate_l2 * float(gate @ gate)
        gradient[:] = gate_l2 * gate
        alphas = sample.alphas(gate)
        for scores, sweeps in parts:
            found = sweeps(scores, alphas, plan.n_jobs)
            for one, features in zip(found, sample.gates, strict=True):
                loss += one.loss / len(found)
                gradient += one.gate @ features / len(found)
        return loss

    if not parts or (callback is not None and callback.stopped):
        return np.zeros(n_gates), ()
    return _cross_fitted("gate", objective, np.zeros(n_gates))


def _cross_fitted(
    stage: str, objective: Callable[[Array, Array], float], start: Array
) -> tuple[Array, tuple[Stage, ...]]:
    """Where the objective is least, and how it was found."""
    began, curve = time.perf_counter(), []

    def keep(iteration: Iteration) -> None:
        curve.append((iteration.number, iteration.objective))

    step = running().step(stage, start)
    step.beside("curve", lambda: curve, lambda kept: curve.extend((number, value) for number, value in kept))
    found = minimise(objective, start, tolerance=1e-4, max_iterations=100, memory=6, callback=keep, step=step)
    return found.weights, (Stage.of(stage, found.status, time.perf_counter() - began, curve),)


# Cross-fitted joint training. On their own training data parents are near-certain, so L_M there says little of how far
# to trust them. The weights of features are left as separate training found them; what relations make of labels (T, U
# and a, by changes ΔT, ΔU, Δa), how much the features of each table count (a factor exp σ) and the gate γ maximise L_M
# of each fold under the models that have not seen it, parents and children alike:
#
#     Σ_f L_M(labels of f; exp σ · W₋f, T₋f + ΔT, U₋f + ΔU, a₋f + Δa, γ) - gate_l2 / 2 · |σ, ΔT, ΔU, Δa, γ|²
#
# The same changes are then made to the model that has seen everything.


def train_couplings(
    examples: Examples, models: Sequence[FoldModel], start: TableWeights, gate_l2: float, plan: TrainingPlan
) -> tuple[TableWeights, tuple[Stage, ...]]:
    """`start` with these changes, and how they were found."""
    objective = Couplings(examples, models, start, gate_l2, plan.n_jobs)
    first = np.zeros(objective.size)
    objective.split(first).gate[:] = start.gate
    found, stages = _cross_fitted("crossfit", objective, first)
    return objective.changed(start, found), stages


class Coupling(NamedTuple):
    """σ (tables,), ΔT (R, L, L), Δa (L,), ΔU (G, L²), γ (D,)."""

    scale: Array
    pair: Array
    start: Array
    rows: Array
    gate: Array


class Couplings:
    """The objective of cross-fitted joint training, and its gradient, as a function of a flat `Coupling`."""

    def __init__(
        self, examples: Examples, models: Sequence[FoldModel], like: TableWeights, gate_l2: float, n_jobs: int
    ) -> None:
        self.examples, self.gate_l2, self.n_jobs = examples, gate_l2, n_jobs
        self.parts = fold_parts(examples, models)
        self.table = np.repeat(np.arange(len(like.tables)), [len(rows) for rows in examples.sample.wired.rows])
        self.shapes = [(len(like.tables),), *(getattr(like, name).shape for name in Coupling._fields[1:])]
        self.size = sum(map(math.prod, self.shapes))

    def split(self, flat: Array) -> Coupling:
        """Views of a flat vector."""
        parts = np.split(flat, np.cumsum([math.prod(shape) for shape in self.shapes])[:-1])
        return Coupling(*(part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)))

    def __call__(self, flat: Array, gradient: Array) -> float:
        change, slope, examples = self.split(flat), self.split(gradient), self.examples
        wirings, alphas = examples.sample.wired.wirings, examples.sample.alphas(change.gate)
        loss = 0.5 * self.gate_l2 * float(flat @ flat)
        gradient[:] = self.gate_l2 * flat
        share = 1.0 / max(1, len(wirings))
        for fold, sweeps in self.parts:
            ends = fold.ends * np.exp(change.scale)[self.table][:, None]
            scores = Scores(ends, fold.pair + change.pair, fold.start + change.start, fold.rows + change.rows)
            found = sweeps(scores, alphas, self.n_jobs)
            for one, features in zip(found, examples.sample.gates, strict=True):
                loss += share * one.loss
                by_row = (one.scores.ends * ends).sum(axis=1)
                slope.scale[:] += share * np.bincount(self.table, by_row, minlength=len(slope.scale))
                for name in ("pair", "start", "rows"):
                    getattr(slope, name)[:] += share * getattr(one.scores, name)
                if len(slope.gate):
                    slope.gate[:] += share * (one.gate @ features)
        return loss

    def changed(self, weights: TableWeights, flat: Array) -> TableWeights:
        """The weights of a model with these changes."""
        change = self.split(flat.astype(np.float32))
        tables = [table * factor for table, factor in zip(weights.tables, np.exp(change.scale), strict=True)]
        start, pair, rows = weights.start + change.start, weights.pair + change.pair, weights.rows + change.rows
        return TableWeights(tables, start, pair, rows, change.gate)


def train_mixture(
    examples: Examples, settings: MixtureSettings, fold: NDArray[np.int64] | None, start: TableWeights | None,
    plan: TrainingPlan, score_dev: Callable[[TableWeights], float] | None, callback: UntilStopped | None,
) -> tuple[TableWeights, Convergence]:  # fmt: skip
    """The relations one by one, or from `start`; then the gate; then all together, as the settings say.

    fold   of each instance (n,), where something is cross-fitted
    """
    outcome, plan = combined([]), replace(plan, warns=False)  # one warning at the end, not one a stage
    if start is None or settings.training in STAY_SEPARATE:
        start, outcomes = train_relations(examples, plan, callback)
        outcome = combined(outcomes, "separate {}")
    crossed = fold is not None and settings.gate_folds > 0
    models = fold_models(examples, fold, plan, callback) if fold is not None and crossed else []
    gated = crossed and examples.sample.n_gate_features > 0
    if gated:
        gate, stages = train_gate(examples, models, settings.gate_l2, plan, callback)
        outcome = replace(outcome, stages=(*outcome.stages, *stages))
        start = start._replace(gate=gate.astype(np.float32))
    if settings.training == "crossfit" and models and not (callback is not None and callback.stopped):
        start, stages = train_couplings(examples, models, start, settings.gate_l2, plan)
        outcome = replace(outcome, stages=(*outcome.stages, *stages))
    if settings.training in STAY_SEPARATE:
        return start, outcome
    clamp, staged = settings.training == "conditional", replace(plan, stage=settings.training)
    found, last = train_together(examples, start, clamp, not gated, settings.gate_l2, staged, score_dev, callback)
    return found, last.after(outcome.stages)


# -- model files --------------------------------------------------------------------------------------


def put_mixture(
    state: ModelFile, rules: Sequence[Any], weights: Sequence[TableWeights], local: LocalModel | None
) -> None:
    """Add the weights for each rule of parents, and the local model of a gate. Rows of a table that are all zero are
    left out."""
    for d, (rule, own) in enumerate(zip(rules, weights, strict=True)):
        for t, table in enumerate(own.tables):
            rows = np.flatnonzero(table.any(axis=1))
            state.arrays[f"mixture.{d}.table.{t}.rows"] = rows
            state.arrays[f"mixture.{d}.table.{t}.values"] = table[rows]
        for name in ("start", "pair", "rows", "gate"):
            state.arrays[f"mixture.{d}.{name}"] = getattr(own, name)
        if rule.shares is not None:
            state.arrays[f"mixture.{d}.shares"] = rule.shares
    if local is not None:
        state.arrays["mixture.local"] = local.table


def taken_shares(file: ModelFile, d: int, spec: Mapping[str, Any]) -> NDArray[Any] | None:
    """Fixed mixing weights of the rule for parents that `spec` describes."""
    if spec["parent_features"] not in PARENT_FEATURES:
        raise ModelFileError(f"parent features {spec['parent_features']!r} are not known: upgrade kinfolk")
    if not spec["shares"]:
        return None
    shares = file.arrays[f"mixture.{d}.shares"]
    fits(shares.dtype.kind == "f" and bool((shares >= 0).all()))
    return shares


def taken_weights(file: ModelFile, d: int, rule: Any, n_features: int, n_labels: int) -> TableWeights:
    """What `put_mixture` kept for one rule of parents; tables are for rows of n_features."""
    layout, n = rule.layout, n_labels
    check_size(4 * layout.n_tables * n_features * n, "tables of weights")
    tables = []
    for t in range(layout.n_tables):
        rows = file.arrays[f"mixture.{d}.table.{t}.rows"]
        fits(rows.ndim == 1 and rows.dtype.kind == "i" and bool((np.diff(rows) > 0).all()))
        fits(not len(rows) or (rows[0] >= 0 and rows[-1] < n_features))
        table = np.zeros((n_features, n), np.float32)
        table[rows] = file.array(f"mixture.{d}.table.{t}.values", (len(rows), n))
        tables.append(table)
    if rule.shares is not None and rule.shares.shape != (len(layout.relations) + 1,):
        raise ModelFileError(f"'mixture.{d}.shares' has shape {rule.shares.shape}; the relations ask for another")
    shapes = {
        "start": (n,),
        "pair": (len(layout.relations), n, n),
        "rows": (layout.n_pair_features, n * n),
        "gate": (rule.n_gates,),
    }
    return TableWeights(tables, *(file.array(f"mixture.{d}.{name}", shape) for name, shape in shapes.items()))


def taken_local(file: ModelFile, n_features: int, n_labels: int) -> LocalModel | None:
    held = file.header["mixture"]["local"]
    return LocalModel(file.array("mixture.local", (n_features, n_labels))) if held else None
