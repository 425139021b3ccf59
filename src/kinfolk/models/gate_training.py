"""A gate learned on instances that the relations' models have not seen.

On its own training data a log-linear model with many features is right about nearly everything, parents included, so
a gate trained there trusts far-away parents too much. Here each fold's models are trained without the fold's labels, and
the gate maximises the marginal log-likelihood L_M of those labels, with the models held fixed:

    γ = argmax Σ_f L_M(labels of fold f; models without f, γ) - gate_l2 / 2 · |γ|²
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.inference.mixture import residuals
from kinfolk.learning.lbfgs import minimise
from kinfolk.models.joint import Examples, train_relations
from kinfolk.models.optimise import Callback, TrainingPlan

Array = NDArray[Any]


def folds_by_group(groups: Array, n_folds: int, seed: int | None) -> NDArray[np.int64]:
    """(n,), the fold of each instance: whole groups, or single instances where there are fewer groups than folds."""
    unit = groups if len(np.unique(groups)) >= n_folds else np.arange(len(groups))
    order = np.random.default_rng(seed).permutation(int(unit.max(initial=-1)) + 1)
    return np.asarray(order[unit] % n_folds, np.int64)


def train_gate(
    examples: Examples, fold: NDArray[np.int64], gate_l2: float, plan: TrainingPlan, callback: Callback | None
) -> Array:
    """γ (D,)."""
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

    if not parts:
        return np.zeros(n_gates)
    return minimise(objective, np.zeros(n_gates), tolerance=1e-4, max_iterations=100, memory=6).weights
