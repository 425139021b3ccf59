"""Training a mixture of parents: separately, then, if asked, all relations together by L_C or L_M, gate included."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.mixture import Layout, Wired
from kinfolk.collective.separate import EdgeData, EdgeModel, train_separately
from kinfolk.collective.templates import set_known
from kinfolk.core.memory import release_free_memory
from kinfolk.core.sound_answers import sound
from kinfolk.core.training import Callback, Convergence, TrainingPlan, Watch, optimise
from kinfolk.inference.mixture import Beliefs, Scores, beliefs, gated_weights, residuals, uniform_weights
from kinfolk.learning.sparse import SparseRows
from kinfolk.learning.tables import Answer, Tables, TableShape, TableWeights
from kinfolk.text.parents import Voice

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Sample:
    """Instances ready for a mixture of parents.

    rows    CSR (n, F)
    wired   one wiring for each order of the instances
    gates   for each wiring the gate features (C, D) of its components; D = 0: mixing weights do not depend on weights
    given   for each wiring fixed mixing weights (C,), or None: by the gate, which is uniform where γ = 0
    """

    layout: Layout
    rows: sparse.csr_array
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
            sound(one.marginals, "the mixture of parents")
        return found

    def voices(
        self, weights: TableWeights, names: Sequence[str], instances: Sequence[int], n_jobs: int,
        labels: NDArray[np.int32] | None = None,
    ) -> list[list[Voice]]:  # fmt: skip
        """Who speaks for each instance, in every order; weights of all sum to 1. `names` are those of the relations,
        `labels` (n,) those that are known, -1 for none."""
        known = (*names, "start")
        spoken: list[list[Voice]] = [[] for _ in instances]
        found, alphas = self.beliefs(weights, labels, n_jobs), self.alphas(weights.gate)
        for wiring, alpha, (marginals, predicted) in zip(self.wired.wirings, alphas, found, strict=True):
            dag = wiring.dag
            if labels is not None:
                set_known(marginals, labels)
            for voices, instance in zip(spoken, instances, strict=True):
                for c in range(dag.indptr[instance], dag.indptr[instance + 1]):
                    j = int(dag.parent[c])
                    own = None if j < 0 else marginals[j]
                    voices.append(Voice(j, known[dag.relation[c]], float(alpha[c]) / len(found), own, predicted[c]))
        return spoken

    def scores(self, weights: TableWeights, n_jobs: int) -> Scores:
        """What the tables say of the instances that they are asked about."""
        ends = np.concatenate(
            [np.empty((0, len(weights.start)), weights.start.dtype)]
            + [
                SparseRows(_taken(self.rows, instances)).scores(table, n_jobs)
                for instances, table in zip(self.wired.rows, weights.tables, strict=True)
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
    weights = shape.split(np.zeros(shape.size, np.float32))
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
    blocks, used = [], []
    for instances in sample.wired.rows:
        rows = _taken(sample.rows, instances)
        columns = np.unique(rows.indices)
        used.append(columns)
        small = np.searchsorted(columns, rows.indices).astype(np.int32)
        blocks.append(
            SparseRows(sparse.csr_array((rows.data, small, rows.indptr), shape=(len(instances), len(columns))))
        )
    shape = replace(full, features=tuple(map(len, used)))
    tables = [table[columns] for table, columns in zip(start.tables, used, strict=True)]
    loss = _loss(examples, clamp, plan.n_jobs)
    objective = Tables(blocks, shape, loss, plan.l2, gate_l2, plan.n_jobs)

    def spread(weights: TableWeights) -> TableWeights:
        wide = full.split(np.zeros(full.size, np.float32))
        for table, columns, found in zip(wide.tables, used, weights.tables, strict=True):
            table[columns] = found
        return TableWeights(wide.tables, *weights[1:-1], weights.gate if with_gate else gate)

    score = None if score_dev is None else lambda weights: score_dev(spread(weights))
    watch = Watch(shape, plan, score, callback, began)
    flat, convergence = optimise(objective, shape.join(start._replace(tables=tables)), plan, watch, began)
    return spread(shape.split(flat)), convergence


def _loss(examples: Examples, clamp: bool, n_jobs: int) -> Callable[[Array, TableWeights], Answer]:
    """The mean over wirings (orders) of the loss, and its derivatives."""
    sample = examples.sample
    wirings = sample.wired.wirings
    share = 1.0 / max(1, len(wirings))

    def evaluate(ends: Array, weights: TableWeights) -> Answer:
        scores = Scores(ends, weights.pair, weights.start, weights.rows)
        alphas = sample.alphas(weights.gate)
        parts = residuals(wirings, scores, alphas, examples.labels, examples.weights, clamp, n_jobs)
        gate = np.zeros(len(weights.gate))
        for part, features in zip(parts, sample.gates, strict=True):
            if len(gate):
                gate += share * (part.gate @ features)
        total = parts[0].scores if len(parts) == 1 else Scores(
            *(share * sum(columns[1:], columns[0]) for columns in zip(*(part.scores for part in parts), strict=True))
        )  # fmt: skip
        return Answer(share * sum(part.loss for part in parts), *total[:1], total.pair, total.start, total.rows, gate)

    return evaluate


def _taken(rows: sparse.csr_array, instances: NDArray[np.int64]) -> sparse.csr_array:
    """Some rows of a table, or the table itself when they are all."""
    return rows if len(instances) == rows.shape[0] else rows[instances]
