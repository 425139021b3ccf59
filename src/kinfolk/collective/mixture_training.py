"""Training of a mixture of parents, stage by stage: relations, gate, all together.

The gate is learned on instances that the relations' models have not seen: on its own training data a log-linear model
with many features is right about nearly everything, parents included, so a gate trained there trusts far-away parents
too much. Each fold's models are trained without the fold's labels, and the gate maximises the marginal log-likelihood
L_M of those labels, with the models held fixed:

    γ = argmax Σ_f L_M(labels of fold f; models without f, γ) - gate_l2 / 2 · |γ|²
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.joint import Examples, train_relations, train_together
from kinfolk.collective.separate import EdgeData
from kinfolk.core.history import Stage
from kinfolk.core.training import Convergence, TrainingPlan, UntilStopped, combined
from kinfolk.inference.mixture import residuals
from kinfolk.learning.lbfgs import Iteration, minimise
from kinfolk.learning.tables import TableWeights

Array = NDArray[Any]


@dataclass(frozen=True)
class MixtureSettings:
    """training: "separate", "conditional" or "joint"; ridge of the gate; folds of its training, 0: none of its own."""

    training: str
    gate_l2: float
    gate_folds: int


def untrained_relations(names: Sequence[str], edges: Sequence[EdgeData], labels: NDArray[np.int32]) -> tuple[str, ...]:
    """Relations without an edge whose ends both have a label: their models know nothing, and should not be asked."""
    known = [(labels[data.edges] >= 0).all(axis=1).any() for data in edges]
    return tuple(name for name, trained in zip(names, known, strict=True) if not trained)


def folds_by_group(groups: Array, n_folds: int, seed: int | None) -> NDArray[np.int64]:
    """(n,), the fold of each instance: whole groups, or single instances where there are fewer groups than folds."""
    unit = groups if len(np.unique(groups)) >= n_folds else np.arange(len(groups))
    order = np.random.default_rng(seed).permutation(int(unit.max(initial=-1)) + 1)
    return np.asarray(order[unit] % n_folds, np.int64)


def train_gate(
    examples: Examples, fold: NDArray[np.int64], gate_l2: float, plan: TrainingPlan, callback: UntilStopped | None
) -> tuple[Array, tuple[Stage, ...]]:
    """γ (D,), and how it was found; nothing is told of the models of folds."""
    sample, n_gates = examples.sample, examples.sample.n_gate_features
    parts = []
    for number in np.unique(fold):
        held = fold == number
        seen, unseen = (np.where(mask, -1, examples.labels).astype(np.int32) for mask in (held, ~held))
        if (seen >= 0).any() and (unseen >= 0).any():
            weights, _ = train_relations(replace(examples, labels=seen), plan, callback)
            parts.append((sample.scores(weights, plan.n_jobs), unseen))

    def objective(gate: Array, gradient: Array) -> float:
        loss = 0.5 * gate_l2 * float(gate @ gate)
        gradient[:] = gate_l2 * gate
        alphas = sample.alphas(gate)
        for scores, labels in parts:
            found = residuals(sample.wired.wirings, scores, alphas, labels, examples.weights, False, plan.n_jobs)
            for one, features in zip(found, sample.gates, strict=True):
                loss += one.loss / len(found)
                gradient += one.gate @ features / len(found)
        return loss

    if not parts or (callback is not None and callback.stopped):
        return np.zeros(n_gates), ()
    began, curve = time.perf_counter(), []

    def keep(iteration: Iteration) -> None:
        curve.append((iteration.number, iteration.objective))

    found = minimise(objective, np.zeros(n_gates), tolerance=1e-4, max_iterations=100, memory=6, callback=keep)
    return found.weights, (Stage.of("gate", found.status, time.perf_counter() - began, curve),)


def train_mixture(
    examples: Examples, settings: MixtureSettings, fold: NDArray[np.int64] | None, start: TableWeights | None,
    plan: TrainingPlan, score_dev: Callable[[TableWeights], float] | None, callback: UntilStopped | None,
) -> tuple[TableWeights, Convergence]:  # fmt: skip
    """The relations one by one, or from `start`; then the gate; then all together, as the settings say."""
    outcome, plan = combined([]), replace(plan, warns=False)  # one warning at the end, not one a stage
    if start is None or settings.training == "separate":
        start, outcomes = train_relations(examples, plan, callback)
        outcome = combined(outcomes, "separate {}")
    crossed = fold is not None and settings.gate_folds > 0
    if fold is not None and crossed:
        gate, told = train_gate(examples, fold, settings.gate_l2, plan, callback)
        outcome = replace(outcome, stages=(*outcome.stages, *told))
        start = start._replace(gate=gate.astype(np.float32))
    if settings.training == "separate":
        return start, outcome
    clamp, staged = settings.training == "conditional", replace(plan, stage=settings.training)
    found, last = train_together(examples, start, clamp, not crossed, settings.gate_l2, staged, score_dev, callback)
    return found, last.after(outcome.stages)
