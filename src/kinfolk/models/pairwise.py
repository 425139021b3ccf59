"""A pairwise conditional random field over typed relations: what the skip-chain CRF and the link model share.

    score(y) = Σ_i x_i · W[:, y_i] + Σ_{i starts} a[y_i] + Σ_e ( T_r[y_a, y_b] + z_e · U[:, y_a, y_b] )

T_r is a table of label pairs for each relation, z_e are features of an edge, where its relation has any.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.inference.loopy import Fixed, PairGraph, Settings, node_beliefs, pair_graph, propagate
from kinfolk.inference.pair_losses import BetheLoss, PairResiduals, piecewise_loss, pseudo_loss
from kinfolk.learning.products import SparseRows
from kinfolk.learning.tables import Answer, MixtureShape, MixtureWeights, Tables
from kinfolk.models.optimise import Callback, Convergence, TrainingPlan, Watch, optimise

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
TRAINING_TOLERANCE = 1e-8  # messages half at rest would make the objective rough; from a warm start it costs little
TRAININGS = ("bethe", "pseudo", "piecewise")


@dataclass(frozen=True)
class InferenceReport:
    """How belief propagation went: by group whether it settled, after how many rounds, the last change."""

    converged: NDArray[np.bool_]
    rounds: NDArray[np.int64]
    change: NDArray[np.float64]

    @property
    def not_converged(self) -> NDArray[np.int64]:
        """Numbers of the groups (documents, graphs) whose messages did not settle."""
        return np.flatnonzero(~self.converged)

    def __str__(self) -> str:
        n, bad = len(self.converged), len(self.not_converged)
        rounds = f"{self.rounds.mean():.1f} rounds on average, {self.rounds.max()} at most" if n else "nothing to do"
        return f"belief propagation settled in {n - bad} of {n} groups; {rounds}"

    @classmethod
    def of(cls, fixed: Fixed, tolerance: float) -> InferenceReport:
        return cls(fixed.converged(tolerance), fixed.rounds, fixed.change)

    def warn(self, remedy: str) -> None:
        """Never silent: what did not settle is told."""
        bad = self.not_converged
        if len(bad):
            shown = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
            log.warning(
                "belief propagation did not settle in %d of %d groups (%s; largest change %.2g): %s",
                len(bad), len(self.converged), shown, float(self.change[bad].max()), remedy,
            )  # fmt: skip


REMEDY = "their probabilities are not a fixed point. Raise damping (0.5) or max_rounds"


@dataclass(frozen=True, eq=False)
class PairSample:
    """Instances, edges and what scores them.

    rows       CSR (n, F)
    graph      tables 0, ..., R - 1 are those of the relations; an edge with features has a table of its own behind them
    relation   int (E,)
    starts     instances that get the start score
    edge_rows  CSR (edges with a table of their own, G), in the order of those tables; None: no features of edges
    """

    rows: sparse.csr_array
    graph: PairGraph
    relation: NDArray[np.int64]
    starts: NDArray[np.int64]
    n_relations: int
    edge_rows: Any = None

    @property
    def owners(self) -> NDArray[np.int64]:
        """The relation of each edge that has a table of its own."""
        own = self.graph.table >= self.n_relations
        order = np.argsort(self.graph.table[own], kind="stable")
        return self.relation[own][order]

    @property
    def n_edge_features(self) -> int:
        return 0 if self.edge_rows is None else int(self.edge_rows.shape[1])

    @property
    def overlap(self) -> float:
        """How many features an edge has on average, the table of its relation included."""
        return 1.0 if self.edge_rows is None else 1.0 + self.edge_rows.nnz / max(1, self.edge_rows.shape[0])

    def shape(self, n_labels: int) -> MixtureShape:
        return MixtureShape((self.rows.shape[1],), n_labels, self.n_relations, self.n_edge_features)

    def node_scores(self, ends: Array, start: Array) -> Array:
        scores = np.asarray(ends, np.float64)
        if len(self.starts):
            scores = scores.copy() if scores is ends else scores
            scores[self.starts] += start
        return scores

    def tables(self, pair: Array, rows: Array) -> Array:
        """(R + edges with features, L, L)."""
        shared = np.asarray(pair, np.float64)
        if self.edge_rows is None:
            return shared
        own = (self.edge_rows @ np.asarray(rows, np.float64)).reshape(-1, *shared.shape[1:])
        return np.concatenate([shared, shared[self.owners] + own])

    def pair_gradient(self, by_table: Array) -> tuple[Array, Array]:
        """Derivatives by T and by U, from those by table."""
        pair = by_table[: self.n_relations].copy()
        if self.edge_rows is None:
            return pair, np.zeros((0, pair.shape[1] ** 2))
        own = by_table[self.n_relations :]
        np.add.at(pair, self.owners, own)
        return pair, self.edge_rows.T @ own.reshape(len(own), -1)


def pair_sample(
    rows: sparse.csr_array, edges: list[Array], edge_rows: list[Any], groups: Array, starts: Array
) -> PairSample:
    """`edges` and `edge_rows` (CSR or None, all with the same features) of each relation."""
    n_relations = len(edges)
    relation = np.repeat(np.arange(n_relations), [len(e) for e in edges])
    table, parts, at = [], [], n_relations
    for r, (pairs, features) in enumerate(zip(edges, edge_rows, strict=True)):
        if features is None:
            table.append(np.full(len(pairs), r))
        else:
            table.append(at + np.arange(len(pairs)))
            parts.append(features)
            at += len(pairs)
    joined = np.concatenate([np.empty((0, 2), np.int64), *edges])
    numbers = np.concatenate([np.empty(0, np.int64), *table]).astype(np.int64)
    graph = pair_graph(joined, numbers, groups, n_shared=n_relations)
    stacked = sparse.vstack(parts, format="csr") if parts else None
    return PairSample(rows, graph, relation, np.asarray(starts, np.int64), n_relations, stacked)


@dataclass(frozen=True)
class PairTraining:
    """training: "bethe", "pseudo" or "piecewise"; how belief propagation runs."""

    training: str
    settings: Settings


def train_pairwise(
    sample: PairSample, labels: NDArray[np.int32], weights: Array, n_labels: int, how: PairTraining,
    start: MixtureWeights, plan: TrainingPlan, score_dev: Callable[[MixtureWeights], float] | None,
    callback: Callback | None,
) -> tuple[MixtureWeights, Convergence, InferenceReport | None]:  # fmt: skip
    """From given weights; the report is of the last belief propagation, if there was any."""
    began, shape = time.perf_counter(), sample.shape(n_labels)
    evaluate = _losses(sample, labels, weights, how, plan.n_jobs)
    last: dict[str, Fixed | None] = {}

    def loss(ends: Array, found: MixtureWeights) -> Answer:
        tables = sample.tables(found.pair, found.rows)
        answer = evaluate(sample.node_scores(ends, found.start), tables)
        last["fixed"] = answer.fixed
        pair, rows = sample.pair_gradient(answer.pair)
        own = answer.node.astype(ends.dtype)
        curvature = None
        if answer.curvature is not None:
            pair_curvature, row_curvature = sample.pair_gradient(answer.curvature)
            curvature = pair_curvature, row_curvature * sample.overlap  # features that fire together step together
        start = answer.node[sample.starts].sum(axis=0)
        return Answer(answer.loss, own, pair, start, rows, np.zeros(0), curvature)

    objective = Tables([SparseRows(sample.rows)], shape, loss, plan.l2, 0.0, plan.n_jobs)
    watch = Watch(shape, plan, score_dev, callback, began)
    flat, convergence = optimise(objective, shape.join(start), plan, watch, began)
    fixed = last.get("fixed")
    report = None if fixed is None else InferenceReport.of(fixed, how.settings.tolerance)
    return shape.split(flat), convergence, report


def _losses(
    sample: PairSample, labels: NDArray[np.int32], weights: Array, how: PairTraining, n_jobs: int
) -> Callable[[Array, Array], PairResiduals]:
    graph = sample.graph
    if how.training == "pseudo":
        return lambda node, tables: pseudo_loss(graph, labels, weights, node, tables)
    if how.training == "piecewise":
        return lambda node, tables: piecewise_loss(graph, labels, weights, node, tables)
    # a group counts with the mean weight of its labelled instances
    known = labels >= 0
    group_of = np.repeat(np.arange(len(graph.group_starts) - 1), np.diff(graph.group_starts))
    counts = np.bincount(group_of[known], minlength=len(graph.group_starts) - 1)
    sums = np.bincount(group_of[known], weights=weights[known], minlength=len(counts))
    settled = how.settings._replace(tolerance=min(how.settings.tolerance, TRAINING_TOLERANCE))
    return BetheLoss(graph, labels, sums / np.maximum(counts, 1), settled, n_jobs)


def infer(
    sample: PairSample, weights: MixtureWeights, settings: Settings, n_jobs: int, maximise: bool = False,
    forbid: tuple[Array, Array] | None = None,
) -> tuple[Array, InferenceReport, tuple[Array, Fixed]]:  # fmt: skip
    """Logarithms (n, L) of the beliefs of new instances; and the pair scores and messages they come from.

    forbid   (n, L) and (L, L) added to node scores and to the table of the first relation: 0 or -inf
    """
    ends = SparseRows(sample.rows).scores(weights.tables[0], n_jobs)
    node, tables = sample.node_scores(ends, weights.start), sample.tables(weights.pair, weights.rows)
    if forbid is not None:
        node = node + forbid[0]
        tables = tables.copy()
        tables[0] += forbid[1]
    fixed = propagate(sample.graph, node, tables, settings, maximise, None, n_jobs)
    found = node_beliefs(sample.graph, node, fixed.messages, n_jobs)
    return found, InferenceReport.of(fixed, settings.tolerance), (tables, fixed)
