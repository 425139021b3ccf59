"""Losses of a pairwise model and their derivatives by node scores and pair scores.

    bethe       log Z_Bethe - score(y): belief propagation stands for the sums that cannot be done; exact on trees
    pseudo      -Σ_i log p(y_i | labels of the neighbours)
    piecewise   each factor normalised on its own: -Σ_i log softmax(node_i)[y_i] - Σ_e log softmax(ψ_e)[y_a, y_b]

A label of -1 is unknown. Bethe: the loss is log Z less the log Z of what agrees with the known labels. The other two
leave out factors that an unknown label has a part in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kinfolk.inference.chain_losses import chain_residuals
from kinfolk.inference.loopy import Fixed, PairBeliefs, PairGraph, Propagation, pair_beliefs, propagate

Array = NDArray[Any]
RUN = 64  # nodes that a thread takes together at the least


class PairResiduals(NamedTuple):
    """Loss, derivatives by node scores (n, L) and by tables of pair scores (tables, L, L); where messages ended, and
    an estimate of the second derivatives by the tables."""

    loss: float
    node: Array
    pair: Array
    fixed: Fixed | None = None
    curvature: Array | None = None


class BetheLoss:
    """A function of (node scores, tables) for one data set.

    A call starts from the messages of the last point that was accepted, not from those of points that a line search
    tried and gave up: they may have led to another fixed point, and the objective would seem to jump. Where messages
    take long, and the loss by what they are by then is above all that a search would accept, they are given up.
    """

    def __init__(
        self, graph: PairGraph, labels: NDArray[np.int32], weights: Array, settings: Propagation, n_jobs: int
    ) -> None:
        """`weights` (groups,): how often a group counts."""
        self.graph, self.labels, self.weights = graph, labels, np.asarray(weights, np.float64)
        self.settings, self.n_jobs = settings, n_jobs
        self._messages: dict[str, Array] = {}  # of the last call
        self._accepted: dict[str, Array] = {}
        self._most = np.inf
        self._change = np.zeros(graph.n_groups)

    def accept(self, most: float = np.inf) -> None:
        """The next calls start where the last one ended. `most`: the objective there, which the loss is a part of."""
        self._accepted, self._most = dict(self._messages), most

    def restless(self, tolerance: float) -> bool:
        """Whether in the last call messages of most of what counts had not settled by the tolerance."""
        return bool(self.weights[self._change > tolerance].sum() > self.weights.sum() / 2)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"messages": self._accepted, "most": self._most}

    def restore(self, kept: dict[str, Any]) -> None:
        self._accepted, self._most = kept["messages"], kept["most"]

    def __call__(self, node: Array, tables: Array) -> PairResiduals:
        scores = np.asarray(node, np.float64)
        shown = self._shown(scores, tables)
        excess = lambda beliefs: float(self.weights @ (beliefs.log_partition - shown.log_partition))  # noqa: E731
        hopeless = lambda messages: excess(self._beliefs(scores, tables, messages)) > self._most  # noqa: E731
        found, fixed = self._run("all", scores, tables, self._accepted, hopeless if np.isfinite(self._most) else None)
        # All labellings weigh at least as much as those that agree. Where belief propagation says otherwise, its warm
        # start led it to a fixed point far from the truth: that group starts anew from nothing.
        lost = found.log_partition < shown.log_partition - 1e-6 * (1 + np.abs(shown.log_partition))
        if lost.any():
            self._forget(lost)
            found, fixed = self._run("all", scores, tables, self._messages)
        self._change = fixed.change
        per_group = np.diff(self.graph.group_starts)
        loss = excess(found)
        loss = loss if np.isfinite(loss) else np.inf  # no step leads there
        residual = (found.node - shown.node) * np.repeat(self.weights, per_group)[:, None]
        return PairResiduals(loss, residual.astype(node.dtype), found.pair - shown.pair, fixed, found.spread)

    def _shown(self, scores: Array, tables: Array) -> PairBeliefs:
        """What the labels show: their score and counts, or where some are unknown, beliefs given the known ones."""
        if (self.labels >= 0).all():
            return self._gold(scores, tables)
        known = self.labels[:, None]
        agree = (known < 0) | (known == np.arange(scores.shape[1]))
        return self._run("agreeing", np.where(agree, scores, -np.inf), tables, self._accepted)[0]

    def _forget(self, groups: NDArray[np.bool_]) -> None:
        of_node = np.repeat(groups, np.diff(self.graph.group_starts))
        self._messages["all"][np.tile(of_node[self.graph.edges[:, 0]], 2)] = 0.0

    def _run(
        self, name: str, scores: Array, tables: Array, start: dict[str, Array],
        hopeless: Callable[[Array], bool] | None = None,
    ) -> tuple[PairBeliefs, Fixed]:  # fmt: skip
        messages = start[name].copy() if name in start else None
        fixed = propagate(self.graph, scores, tables, self.settings, False, messages, self.n_jobs, hopeless)
        self._messages[name] = fixed.messages
        return self._beliefs(scores, tables, fixed.messages), fixed

    def _beliefs(self, scores: Array, tables: Array, messages: Array) -> PairBeliefs:
        return pair_beliefs(self.graph, scores, tables, messages, self.weights, self.n_jobs)

    def _gold(self, scores: Array, tables: Array) -> PairBeliefs:
        """Score of the labels by group, and what they show: nodes, pairs by table."""
        graph, labels = self.graph, self.labels
        n_groups, group_of = graph.n_groups, graph.group_of
        at = np.arange(len(labels))
        value = np.bincount(group_of, weights=scores[at, labels], minlength=n_groups)
        shown = np.zeros(scores.shape)
        shown[at, labels] = 1
        pair = np.zeros(tables.shape)
        if len(graph.edges):
            a, b = labels[graph.edges].T
            of_edge = group_of[graph.edges[:, 0]]
            value += np.bincount(of_edge, weights=tables[graph.table, a, b], minlength=n_groups)
            np.add.at(pair, (graph.table, a, b), self.weights[of_edge])
        return PairBeliefs(shown, pair, value, pair)


def pseudo_loss(
    graph: PairGraph, labels: NDArray[np.int32], weights: Array, node: Array, tables: Array, n_jobs: int = 1
) -> PairResiduals:
    """`weights` (n,), how often a node counts."""
    known = (labels[graph.edges] >= 0).all(axis=1)
    (a, b), table = graph.edges[known].T, graph.table[known]
    scores = np.asarray(node, np.float64).copy()
    np.add.at(scores, a, tables[table, :, labels[b]])
    np.add.at(scores, b, tables[table, labels[a], :])
    loss, residual = _softmax_loss(scores, labels, weights, n_jobs)
    pair, every = np.zeros(tables.shape), np.arange(scores.shape[1])[None]
    np.add.at(pair, (table[:, None], every, labels[b][:, None]), residual[a])
    np.add.at(pair, (table[:, None], labels[a][:, None], every), residual[b])
    return PairResiduals(loss, residual.astype(node.dtype), pair)


def piecewise_loss(
    graph: PairGraph, labels: NDArray[np.int32], weights: Array, node: Array, tables: Array, n_jobs: int = 1
) -> PairResiduals:
    """`weights` (n,); an edge counts as often as its ends on average."""
    loss, residual = _softmax_loss(np.asarray(node, np.float64), labels, weights, n_jobs)
    known = (labels[graph.edges] >= 0).all(axis=1)
    (a, b), table = graph.edges[known].T, graph.table[known]
    counts = np.zeros(tables.shape)
    np.add.at(counts, (table, labels[a], labels[b]), (weights[a] + weights[b]) / 2)
    total, scores = counts.sum(axis=(1, 2)), np.asarray(tables, np.float64)
    log_z = special.logsumexp(scores, axis=(1, 2), keepdims=True) if scores.size else np.zeros((0, 1, 1))
    loss += float(total @ log_z[:, 0, 0] - (counts * tables).sum())
    pair = total[:, None, None] * np.exp(scores - log_z) - counts
    return PairResiduals(loss, residual.astype(node.dtype), pair)


def _softmax_loss(scores: Array, labels: NDArray[np.int32], weights: Array, n_jobs: int) -> tuple[float, Array]:
    """-Σ w_i log softmax(scores_i)[y_i] over known labels, and its derivative by the scores."""
    n, n_labels = scores.shape
    if not n:
        return 0.0, np.zeros(scores.shape)
    runs = np.append(np.arange(0, n, RUN), n).astype(np.int64)
    no_pairs = np.zeros((1, n_labels, n_labels)), np.zeros(n_labels)
    loss, residual, _, _ = chain_residuals("maxent", labels, weights, runs, n_jobs)(scores, *no_pairs)
    return loss, residual
