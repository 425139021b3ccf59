"""Mixing weights: uniform, by relation, or learned by a gate over features of x alone, so that inference stays exact.

    α_c = exp(φ_c · γ) / Σ_c' exp(φ_c' · γ)      over the components c' of the instance

γ = 0 is uniform, and a ridge on γ draws towards it. The features φ of a component:

    its relation; log of how many components of that relation the instance has (γ = -1 makes them weigh like one);
    how much a local model doubts the child and the parent (1 - its best probability), each by relation;
    features of the edge, where the relation has them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.separate import train_maxent
from kinfolk.core.training import Callback, TrainingPlan
from kinfolk.errors import SettingError
from kinfolk.inference.dag import START, Dag
from kinfolk.learning.sparse import SparseRows

Array = NDArray[Any]


def gate_names(relations: Sequence[str], edge_names: Sequence[Sequence[str]]) -> list[str]:
    """Names of the gate features, in the order of the columns of `gate_rows`."""
    kinds = [*relations, "start"]
    names = [f"relation: {name}" for name in kinds]
    names += [f"log number: {name}" for name in relations]
    names += [f"child doubted: {name}" for name in kinds] + [f"parent doubted: {name}" for name in relations]
    return names + [f"{name}: {edge}" for name, edges in zip(relations, edge_names, strict=True) for edge in edges]


def gate_rows(dag: Dag, n_relations: int, doubt: Array, edge_rows: Sequence[Any]) -> Array:
    """(C, D). `edge_rows` holds for each relation a CSR (E, G), or None."""
    n = dag.n_components
    kind = np.where(dag.relation == START, n_relations, dag.relation)
    hot = np.zeros((n, n_relations + 1))
    hot[np.arange(n), kind] = 1
    counts = np.zeros((dag.n_instances, n_relations + 1))
    np.add.at(counts, (dag.child, kind), 1)
    number = np.log(counts[dag.child, kind])[:, None] * hot[:, :-1]
    child = doubt[dag.child][:, None] * hot
    parent = np.where(dag.parent >= 0, doubt[dag.parent], 0)[:, None] * hot[:, :-1]
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
            raise SettingError(f"mixing names relation {name!r}; there are {', '.join(map(repr, known))}")
        if not isinstance(share, Real) or isinstance(share, bool) or not 0 < float(share) < np.inf:
            raise SettingError(f"mixing[{name!r}] must be a positive number; got {share!r}")
    missing = [name for name in names if name not in given]
    if missing:
        raise SettingError(f"mixing gives no weight for relation {missing[0]!r}; name all of {', '.join(names)}")
    start = given.get("start", given.get(start_like, 1.0) if start_like else 1.0)
    return np.array([*(float(given[name]) for name in names), float(start)])


@dataclass(frozen=True, eq=False)
class LocalModel:
    """A plain maxent model of the instances, asked only how sure it is."""

    table: Array  # (F, L)

    def doubt(self, rows: sparse.csr_array, n_jobs: int) -> Array:
        """(n,), 1 - the best probability."""
        scores = SparseRows(rows).scores(self.table, n_jobs).astype(np.float64)
        if not scores.size:
            return np.zeros(len(scores))
        return np.asarray(1 - 1 / np.exp(scores - scores.max(axis=1, keepdims=True)).sum(axis=1))


def train_local(
    rows: sparse.csr_array, labels: NDArray[np.int32], weights: Array, fold: Array, n_labels: int, plan: TrainingPlan,
    callback: Callback | None,
) -> tuple[LocalModel, Array]:  # fmt: skip
    """The model trained on everything, and the doubts (n,) of models that have not seen the fold of an instance:
    one that has seen it never doubts it.
    """
    doubt = np.zeros(len(labels))
    for number in np.unique(fold):
        held = fold == number
        if held.any() and (labels[~held] >= 0).any():
            model = _fit(rows[np.flatnonzero(~held)], labels[~held], weights[~held], n_labels, plan, callback)
            doubt[held] = model.doubt(rows[np.flatnonzero(held)], plan.n_jobs)
    return _fit(rows, labels, weights, n_labels, plan, callback), doubt


def _fit(
    rows: sparse.csr_array, labels: Array, weights: Array, n_labels: int, plan: TrainingPlan, callback: Callback | None
) -> LocalModel:
    plan = replace(plan, stage="local", warns=False)
    return LocalModel(train_maxent(rows, labels, weights, n_labels, plan, callback)[0])
