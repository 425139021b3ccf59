"""A mixture of parents (Rosenberg, Klein and Taskar, 2007) whose own component is a model that was given.

An instance t follows what was given of it, g_t, or one of its parents, the instances that a relation r leads to, whose
labels i are as they were given:

    p(y | t) = α_t0 g_t(y)  +  Σ_r α_tr Σ_i s_tr(i) p_r(y | i, t),     p_r(y | i, t) ∝ g_t(y)^a_r exp( T_r[i, y] )
    α_t = softmax of  0,  b_r + c_r (1 - max g_t) + d_r (1 - max s_tr)      over those that t has

with s_tr the mean of g over its parents. Labels of parents are those of the model given, not those told here, so there
is no order to keep: the probabilities are exact in one step, and parents may stand before and behind. T, a and the gate
minimise the log-loss of labels that the model given has not seen, by L-BFGS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kinfolk.core.modelfile import ModelFile, fits

Array = NDArray[Any]
FAINT = 1e-4  # the least probability given that is told from none
RIDGE = 1.0  # of T, and of how far a is from 1
ITERATIONS = 100
MOST_ROWS = 60_000  # instances to learn from; there are few weights


@dataclass(frozen=True, eq=False)
class GivenMixture:
    """What was learned: pair (R, L, L) is T, power (R,) is a, gate (R, 3) has b, c and d."""

    pair: Array
    power: Array
    gate: Array

    @classmethod
    def fit(cls, given: Array, parents: Sequence[Array], labels: Array, seed: int | None) -> GivenMixture:
        """Of instances with labels (n,): what was given (n, L) of each, and s of each relation; rows of zeros where it
        has no such parent."""
        from scipy.optimize import minimize

        if len(labels) > MOST_ROWS:
            rows = np.sort(np.random.default_rng(seed).choice(len(labels), MOST_ROWS, replace=False))
            given, parents, labels = given[rows], [table[rows] for table in parents], labels[rows]
        n_relations, n_labels = len(parents), given.shape[1]
        start = cls(
            np.zeros((n_relations, n_labels, n_labels)),
            np.ones(n_relations),
            np.tile([-1.0, 0.0, 0.0], (n_relations, 1)),
        )
        found = minimize(
            lambda flat: loss(cls.split(flat, n_relations, n_labels), given, parents, labels), start.flat, jac=True,
            method="L-BFGS-B", options={"maxiter": ITERATIONS, "ftol": 1e-7},
        )  # fmt: skip
        return cls.split(found.x, n_relations, n_labels)

    @property
    def flat(self) -> Array:
        return np.concatenate([self.pair.ravel(), self.power, self.gate.ravel()])

    @classmethod
    def split(cls, flat: Array, n_relations: int, n_labels: int) -> GivenMixture:
        pair, power, gate = np.split(flat, [n_relations * n_labels**2, n_relations * (n_labels**2 + 1)])
        return cls(pair.reshape(n_relations, n_labels, n_labels), power, gate.reshape(n_relations, 3))

    def proba(self, given: Array, parents: Sequence[Array]) -> Array:
        """(n, L), each row adding up to 1."""
        weights, logs = self.weights(given, parents), np.log(np.maximum(given, FAINT))
        found = weights[:, :1] * given
        for r, table in enumerate(parents):
            _, h, e, below = self._parts(r, logs)
            found += weights[:, r + 1, None] * h * ((table / below) @ e)
        return np.asarray(found)

    def weights(self, given: Array, parents: Sequence[Array]) -> Array:
        """(n, R + 1), α; that of what was given first."""
        unsure = 1 - given.max(axis=1, initial=0)
        scores = np.zeros((len(given), len(parents) + 1))
        for r, table in enumerate(parents):
            b, c, d = self.gate[r]
            most = table.max(axis=1, initial=0)
            scores[:, r + 1] = np.where(most > 0, b + c * unsure + d * (1 - most), -np.inf)
        return np.asarray(special.softmax(scores, axis=1))

    def _parts(self, r: int, logs: Array) -> tuple[Array, Array, Array, Array]:
        """log g and h = g^a (n, L), e = exp T (L, L), and (n, L) of each label of the parent Σ_y h(y) e(i, y)."""
        h, e = np.exp(self.power[r] * logs), np.exp(self.pair[r])
        return logs, h, e, h @ e.T

    # -- model files ----------------------------------------------------------------------------------

    def put(self, state: ModelFile) -> None:
        for name in ("pair", "power", "gate"):
            state.arrays[f"mixture.{name}"] = getattr(self, name)

    @classmethod
    def restored(cls, file: ModelFile, n_relations: int, n_labels: int) -> GivenMixture:
        shapes = {"pair": (n_relations, n_labels, n_labels), "power": (n_relations,), "gate": (n_relations, 3)}
        found = {name: file.arrays[f"mixture.{name}"] for name in shapes}
        for name, shape in shapes.items():
            fits(
                found[name].shape == shape and found[name].dtype == np.float64 and bool(np.isfinite(found[name]).all())
            )
        return cls(**found)


def loss(model: GivenMixture, given: Array, parents: Sequence[Array], labels: Array) -> tuple[float, Array]:
    """Log-loss of labels with the ridge, and its derivatives in the order of `flat`. With ρ the chance that the label
    came by relation r, w_i that it came from label i of a parent there:

        ∂/∂T[i, y] = -Σ_t w_i ([y = y_t] - p_r(y | i)),    ∂/∂a likewise of log g,    ∂/∂ gate scores = α - ρ
    """
    n, rows = len(labels), np.arange(len(labels))
    weights, logs = model.weights(given, parents), np.log(np.maximum(given, FAINT))
    truth = np.zeros_like(given)
    truth[rows, labels] = 1.0
    said, kept = np.empty((n, len(parents) + 1)), []
    said[:, 0] = given[rows, labels]
    for r, table in enumerate(parents):
        _, h, e, below = model._parts(r, logs)
        came = table * (h[rows, labels][:, None] * e[:, labels].T / below)  # (n, L), s(i) p(label | i)
        said[:, r + 1] = came.sum(axis=1)
        kept.append((h, e, below, came))
    total = np.maximum((weights * said).sum(axis=1), 1e-12)
    share = weights * said / total[:, None]
    slope = weights - share  # of gate scores
    unsure = 1 - given.max(axis=1, initial=0)
    pair, power, gate = np.empty_like(model.pair), np.empty_like(model.power), np.empty_like(model.gate)
    for r, (h, e, below, came) in enumerate(kept):
        w = came * (weights[:, r + 1] / total)[:, None]
        scaled = w / below
        pair[r] = -(w.T @ truth) + e * (scaled.T @ h) + RIDGE * model.pair[r]
        own = (share[:, r + 1] * logs[rows, labels]).sum() - (logs * h * (scaled @ e)).sum()
        power[r] = -own + RIDGE * (model.power[r] - 1)
        here = slope[:, r + 1]
        gate[r] = here.sum(), here @ unsure, here @ (1 - parents[r].max(axis=1, initial=0))
    gate += 1e-2 * model.gate
    ridge = (
        RIDGE * (np.square(model.pair).sum() + np.square(model.power - 1).sum()) + 1e-2 * np.square(model.gate).sum()
    )
    return float(-np.log(total).sum() + 0.5 * ridge), np.concatenate([pair.ravel(), power, gate.ravel()])
