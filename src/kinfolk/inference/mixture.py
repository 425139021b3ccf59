"""Mixture of parents for a whole data set: marginals, what each component predicts, loss and residuals, on threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.core.threads import even_bounds, run_chunks
from kinfolk.errors import InputError
from kinfolk.inference.dag import Dag
from kinfolk.inference.sweeps import sweep_back, sweep_forward

Array = NDArray[Any]
CHUNKS = 32
NO_ROWS = (np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0))


class Scores(NamedTuple):
    """What the log-linear models say, before it is normalised.

    ends   (S, L), scores of the ends of components: `Wiring` tells which row is whose
    pair   (R, L, L), T of each relation: [label of the parent, label of the child]
    start  (L,)
    rows   (G, L²), weights of features of label pairs
    """

    ends: Array
    pair: Array
    start: Array
    rows: Array


@dataclass(frozen=True, eq=False)
class Wiring:
    """A Dag, and where in the scores its components find theirs.

    child_slot, parent_slot   int64 (C,), rows of `Scores.ends`; a parent_slot of -1: the parent's features are no part
    pair_rows                 CSR parts (indptr (C + 1,), indices, values) of features of label pairs, a row a component
    """

    dag: Dag
    child_slot: NDArray[np.int64]
    parent_slot: NDArray[np.int64]
    pair_rows: tuple[Array, Array, Array] = NO_ROWS
    _bounds: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        cost = self.dag.indptr[self.dag.group_starts]  # components before each group
        object.__setattr__(self, "_bounds", even_bounds(cost, CHUNKS) if len(cost) > 1 else np.zeros(1, np.int64))

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """Runs of whole groups, of about equal cost."""
        return list(pairwise(self._bounds.tolist()))

    def kernel_arrays(self) -> tuple[Array, ...]:
        dag = self.dag
        return dag.indptr, dag.parent, dag.relation, dag.order, self.child_slot, self.parent_slot


class Beliefs(NamedTuple):
    """marginals (n, L), and predicted (C, L): the distribution each component gives its instance."""

    marginals: Array
    predicted: Array


class MixtureResiduals(NamedTuple):
    """Loss, and its derivatives by the scores and by the logits of the mixing weights (C,)."""

    loss: float
    scores: Scores
    gate: Array


def uniform_weights(dag: Dag) -> Array:
    """(C,), 1 / (number of components of the instance)."""
    counts = np.diff(dag.indptr)
    return np.repeat(1.0 / np.maximum(counts, 1), counts)


def gated_weights(dag: Dag, logits: Array) -> Array:
    """(C,), the softmax of the logits among the components of each instance."""
    if not dag.n_components:
        return np.empty(0)
    counts, firsts = np.diff(dag.indptr), dag.indptr[:-1]  # every instance has a component
    weights = np.exp(logits - np.repeat(np.maximum.reduceat(logits, firsts), counts))
    return np.asarray(weights / np.repeat(np.add.reduceat(weights, firsts), counts))


def check_weights(dag: Dag, weights: Array) -> Array:
    """Mixing weights from outside: one a component, none negative, those of an instance sum to 1."""
    weights = np.asarray(weights, np.float64)
    if weights.shape != (dag.n_components,):
        raise InputError(f"expected {dag.n_components} mixing weights, one a component; got shape {weights.shape}")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise InputError(
            f"mixing weights must be finite and not negative; that of instance {dag.child[wrong[0]]} for parent "
            f"{dag.parent[wrong[0]]} is {weights[wrong[0]]:g}"
        )
    sums = np.add.reduceat(weights, dag.indptr[:-1]) if len(weights) else weights
    wrong = np.flatnonzero(np.abs(sums - 1) > 1e-6)
    if len(wrong):
        raise InputError(
            f"the mixing weights of an instance must sum to 1; those of instance {wrong[0]} sum to "
            f"{sums[wrong[0]]:.6g}. Divide them by their sum."
        )
    return weights


def _kernel_model(wiring: Wiring, scores: Scores) -> tuple[Array, ...]:
    """The scores as the kernels take them: T less the best of its row, which changes no conditional."""
    pair = scores.pair.astype(np.float64)
    pair = pair - pair.max(axis=2, keepdims=True) if pair.size else pair
    rows = np.ascontiguousarray(scores.rows, np.float64)
    return scores.ends, pair, np.exp(pair), scores.start.astype(np.float64), *wiring.pair_rows, rows


@njit(nogil=True, cache=True)
def _forward_chunk(dag, model, first, last, labels, clamp, alpha, marginals, predicted):
    base, n_labels = dag[0][first], marginals.shape[1]
    size = dag[0][last] - base
    local, share = np.empty((size, n_labels)), np.empty((size, n_labels))
    sweep_forward(dag, model, first, last, labels, clamp, alpha, marginals, predicted[base : base + size], local, share)


@njit(nogil=True, cache=True)
def _both_ways(
    dag, model, group_starts, first_group, last_group, labels, clamp, weights, alpha, marginals, slope, residual,
    pair_residual, start_residual, row_residual, gate_residual,
):  # fmt: skip
    """Forward and back, group by group. A group without labels that count has no loss, and is passed over."""
    indptr, n_labels = dag[0], marginals.shape[1]
    largest = 0
    for g in range(first_group, last_group):
        largest = max(largest, indptr[group_starts[g + 1]] - indptr[group_starts[g]])
    local, share, predicted = (
        np.empty((largest, n_labels)),
        np.empty((largest, n_labels)),
        np.empty((largest, n_labels)),
    )
    outer = np.zeros(pair_residual.shape)
    loss = 0.0
    for g in range(first_group, last_group):
        first, last = group_starts[g], group_starts[g + 1]
        counts = False
        for k in range(first, last):
            counts = counts or (labels[k] >= 0 and weights[k] > 0)
        if not counts:
            continue
        sweep_forward(dag, model, first, last, labels, clamp, alpha, marginals, predicted, local, share)
        loss += sweep_back(
            dag, model, first, last, labels, clamp, weights, alpha, marginals, predicted, local, share,
            slope, residual, outer, pair_residual, start_residual, row_residual, gate_residual,
        )  # fmt: skip
    exp_pair = model[2]
    for r in range(outer.shape[0]):
        for i in range(n_labels):
            for y in range(n_labels):
                pair_residual[r, i, y] += outer[r, i, y] * exp_pair[r, i, y]
    return loss


def beliefs(
    wirings: Sequence[Wiring],
    scores: Scores,
    alphas: Sequence[Array],
    labels: NDArray[np.int32] | None = None,
    n_jobs: int = 1,
) -> list[Beliefs]:
    """Exact marginals for each wiring (each order of the same instances), orders and groups in parallel.

    With `labels` (-1 unknown), whoever looks at a labelled instance sees its label.
    """
    models = [_kernel_model(wiring, scores) for wiring in wirings]
    shapes = [(wiring.dag.n_instances, wiring.dag.n_components) for wiring in wirings]
    found = [Beliefs(*(np.empty((size, len(scores.start))) for size in shape)) for shape in shapes]
    tasks = [(w, first, last) for w, wiring in enumerate(wirings) for first, last in wiring.chunks]

    def run(task: int) -> None:
        w, *groups = tasks[task]
        wiring, (marginals, predicted) = wirings[w], found[w]
        known = np.full(len(marginals), -1, np.int32) if labels is None else labels
        first, last = wiring.dag.group_starts[groups]
        arrays, clamp = wiring.kernel_arrays(), labels is not None
        _forward_chunk(arrays, models[w], first, last, known, clamp, alphas[w], marginals, predicted)

    run_chunks(run, len(tasks), n_jobs)
    return found


def residuals(
    wirings: Sequence[Wiring],
    scores: Scores,
    alphas: Sequence[Array],
    labels: NDArray[np.int32],
    weights: Array,
    clamp: bool,
    n_jobs: int = 1,
) -> list[MixtureResiduals]:
    """For each wiring (each order of the same instances) the loss and its derivatives.

    clamp   False: marginal log-likelihood L_M; True: conditional log-likelihood L_C
    """
    models = [_kernel_model(wiring, scores) for wiring in wirings]
    answers = [_empty(wiring, scores) for wiring in wirings]
    tasks = [(w, first, last) for w, wiring in enumerate(wirings) for first, last in wiring.chunks]
    shape = len(labels), len(scores.start)
    marginals, slopes = ([make(shape) for _ in wirings] for make in (np.empty, np.zeros))

    def run(task: int) -> tuple[float, Array, Array, Array]:
        w, first, last = tasks[task]
        wiring, (_, out, gate) = wirings[w], answers[w]
        pair, start, rows = np.zeros(out.pair.shape), np.zeros(out.start.shape), np.zeros(out.rows.shape)
        loss = _both_ways(
            wiring.kernel_arrays(), models[w], wiring.dag.group_starts, first, last,
            labels, clamp, weights, alphas[w], marginals[w], slopes[w], out.ends, pair, start, rows, gate,
        )  # fmt: skip
        return loss, pair, start, rows

    for (w, _, _), (loss, pair, start, rows) in zip(tasks, run_chunks(run, len(tasks), n_jobs), strict=True):
        _, out, gate = answers[w]
        for total, part in ((out.pair, pair), (out.start, start), (out.rows, rows)):
            total += part
        answers[w] = MixtureResiduals(answers[w].loss + loss, out, gate)
    return answers


def _empty(wiring: Wiring, scores: Scores) -> MixtureResiduals:
    zeros = Scores(np.zeros_like(scores.ends), *(np.zeros(part.shape) for part in scores[1:]))
    return MixtureResiduals(0.0, zeros, np.zeros(wiring.dag.n_components))
