"""A pairwise conditional random field over typed relations: what the skip-chain CRF and the link model share.

    score(y) = Σ_i x_i · W[:, y_i] + Σ_{i starts} a[y_i] + Σ_e ( T_r[y_a, y_b] + z_e · U[:, y_a, y_b] )

T_r is a table of label pairs for each relation, z_e are features of an edge, where its relation has any.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.pair_sample import PairSample
from kinfolk.core.sound_answers import sound
from kinfolk.core.training import Callback, Convergence, TrainingPlan, Watch, optimise
from kinfolk.inference.loopy import Fixed, Propagation, node_beliefs, propagate
from kinfolk.inference.loopy_losses import BetheLoss, PairResiduals, piecewise_loss, pseudo_loss
from kinfolk.learning.lbfgs import Iteration
from kinfolk.learning.sparse import SparseRows
from kinfolk.learning.tables import Answer, Tables, TableWeights

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
TRAINING_TOLERANCE = 1e-8  # messages half at rest would make the objective rough; from a warm start it costs little
TRAININGS = ("bethe", "pseudo", "piecewise")


@dataclass(frozen=True, eq=False)
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

    def by_document(self, has_tokens: NDArray[np.bool_]) -> InferenceReport:
        """With an entry for documents without tokens too: there is nothing to settle in them."""
        if len(has_tokens) == len(self.converged):
            return self
        converged, rounds, change = (
            np.ones(len(has_tokens), bool),
            *(np.zeros(len(has_tokens), t) for t in (int, float)),
        )
        converged[has_tokens], rounds[has_tokens], change[has_tokens] = self.converged, self.rounds, self.change
        return InferenceReport(converged, rounds, change)

    def warn(self, remedy: str) -> None:
        """Never silent: what did not settle is told."""
        bad = self.not_converged
        if len(bad):
            shown = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
            log.warning(
                "belief propagation did not settle in %d of %d groups (%s; largest change %.2g): %s",
                len(bad), len(self.converged), shown, float(self.change[bad].max()), remedy,
            )  # fmt: skip


JUMPED = "Belief propagation did not settle, or went to another fixed point: raise damping, max_rounds or l2."
REMEDY = "their probabilities are not a fixed point. Raise damping (0.5) or max_rounds"


@dataclass(frozen=True)
class PairTraining:
    """training: "bethe", "pseudo" or "piecewise"; how belief propagation runs."""

    training: str
    settings: Propagation


def train_pairwise(
    sample: PairSample, labels: NDArray[np.int32], weights: Array, n_labels: int, how: PairTraining,
    start: TableWeights, plan: TrainingPlan, score_dev: Callable[[TableWeights], float] | None,
    callback: Callback | None,
) -> tuple[TableWeights, Convergence, InferenceReport | None]:  # fmt: skip
    """From given weights; with "bethe", also how belief propagation goes with the weights found."""
    began, shape = time.perf_counter(), sample.shape(n_labels)
    evaluate = _losses(sample, labels, weights, how, plan.n_jobs)

    def loss(ends: Array, found: TableWeights) -> Answer:
        answer = evaluate(sample.node_scores(ends, found.start), sample.tables(found.pair, found.rows))
        pair, rows = sample.pair_gradient(answer.pair)
        curvature = None
        if answer.curvature is not None:
            by_pair, by_row = sample.pair_gradient(answer.curvature, squared=True)
            curvature = by_pair, by_row * sample.overlap  # features that fire together step together
        start = answer.node[sample.starts].sum(axis=0)
        return Answer(answer.loss, answer.node.astype(ends.dtype), pair, start, rows, np.zeros(0), curvature)

    if how.training == "bethe":
        plan = replace(plan, stall=JUMPED)
    objective = Tables([SparseRows(sample.rows)], shape, loss, plan.l2, 0.0, plan.n_jobs)
    watch = _AcceptingWatch(shape, plan, score_dev, callback, began)
    watch.accept = evaluate.accept if isinstance(evaluate, BetheLoss) else None
    flat, convergence = optimise(objective, shape.join(start), plan, watch, began)
    found = shape.split(flat)
    report = None if how.training != "bethe" else infer(sample, found, how.settings, plan.n_jobs)[1]
    return found, convergence, report


class _AcceptingWatch(Watch):
    """Tells a loss which of the points it was tried at is the one to go on from."""

    accept: Callable[[], None] | None = None

    def after_iteration(self, iteration: Iteration) -> bool:
        if self.accept is not None:
            self.accept()
        return super().after_iteration(iteration)


def _losses(
    sample: PairSample, labels: NDArray[np.int32], weights: Array, how: PairTraining, n_jobs: int
) -> Callable[[Array, Array], PairResiduals]:
    graph = sample.graph
    if how.training == "pseudo":
        return lambda node, tables: pseudo_loss(graph, labels, weights, node, tables, n_jobs)
    if how.training == "piecewise":
        return lambda node, tables: piecewise_loss(graph, labels, weights, node, tables, n_jobs)
    # a group counts with the mean weight of its labelled instances; a weight of 0 is no label
    labels = np.where(weights > 0, labels, -1).astype(np.int32)
    known = labels >= 0
    group_of = np.repeat(np.arange(len(graph.group_starts) - 1), np.diff(graph.group_starts))
    counts = np.bincount(group_of[known], minlength=len(graph.group_starts) - 1)
    sums = np.bincount(group_of[known], weights=weights[known], minlength=len(counts))
    settled = how.settings._replace(tolerance=min(how.settings.tolerance, TRAINING_TOLERANCE))
    return BetheLoss(graph, labels, sums / np.maximum(counts, 1), settled, n_jobs)


def infer(
    sample: PairSample, weights: TableWeights, settings: Propagation, n_jobs: int, maximise: bool = False,
    forbid: tuple[Array, Array] | None = None,
) -> tuple[Array, InferenceReport, tuple[Array, Array, Fixed]]:  # fmt: skip
    """Logarithms (n, L) of the beliefs of new instances; and the scores and messages they come from.

    forbid   (n, L) and (L, L) added to node scores and to the tables of the first relation: 0 or -inf
    """
    ends = SparseRows(sample.rows).scores(weights.tables[0], n_jobs)
    node, tables = sample.node_scores(ends, weights.start), sample.tables(weights.pair, weights.rows)
    for scores in (node, tables):
        sound(scores, "the model")
    if forbid is not None:
        node, tables = node + forbid[0], sample.with_forbidden(tables, forbid[1])
    fixed = propagate(sample.graph, node, tables, settings, maximise, None, n_jobs)
    found = sound(node_beliefs(sample.graph, node, fixed.messages, n_jobs), "belief propagation")
    return found, InferenceReport.of(fixed, settings.tolerance), (node, tables, fixed)
