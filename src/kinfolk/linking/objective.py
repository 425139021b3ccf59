"""Logistic regression over distinct rows with counts: yes-or-no decisions about pairs, some of them biased.

A row lists the weights that are on for it, one a column, so its score is s = Σ_m w[index[r, m]], the logarithm of
φ(1) / φ(0). With n₀, n₁ pairs of a row decided no and yes, and n_b yes under a bias,

    loss = Σ_r n₀ log(1 + eˢ) + n₁ log(1 + e⁻ˢ) + n_b · weight · log(1 + e^-(scale · s + shift)) + ½ l2 |w - c|²

where c, 0 unless given, are the weights that few labels leave as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.kernels import njit
from kinfolk.core.threads import run_chunks
from kinfolk.errors import SettingError
from kinfolk.linking.pair_table import GroupedRows

ROWS = 1 << 17  # rows a chunk; chunks depend on the rows alone, so sums are the same for every number of threads
BLOCK = 4096  # rows of which a pass does one group after the other
Array = NDArray[Any]


class Tilt(NamedTuple):
    """What a bias does to the likelihood of a biased pair: its weight, and scale and shift of its score."""

    weight: float = 1.0
    scale: float = 1.0
    shift: float = 0.0


class PairObjective:
    """The loss above with its gradient.

    rows      the weights that are on in each row
    refused, accepted, biased   float64 (R,): n₀, n₁ and n_b
    centre    float64 (W,): c
    """

    def __init__(
        self,
        rows: GroupedRows,
        refused: Array,
        accepted: Array,
        biased: Array,
        tilt: Tilt,
        l2: float,
        n_jobs: int = 1,
        centre: Array | None = None,
    ) -> None:
        self.rows = rows
        self.centre = np.zeros(rows.n_weights) if centre is None else centre
        self.counts = np.ascontiguousarray(np.stack([refused, accepted, biased], axis=1), np.float64)
        self.tilt = np.array(tilt, np.float64)
        self.l2, self.n_jobs = l2, n_jobs
        self._last = np.zeros(rows.n_weights)

    def __call__(self, flat: Array, gradient: Array) -> float:
        self._last[:] = flat
        loss, slope = self._pass(flat, False)
        away = flat - self.centre
        gradient[:] = self.l2 * away + self.rows.spread(slope)
        return loss + 0.5 * self.l2 * float(away @ away)

    def inverse_curvature(self) -> Array:
        """1 / the second derivative by each weight, at the weights of the last call."""
        bend = self.rows.spread(self._pass(self._last, True)[1])
        return np.asarray(1.0 / np.maximum(self.l2 + bend, 1e-8))

    def _pass(self, weights: Array, second: bool) -> tuple[float, Array]:
        """The loss, and its first or second derivatives by the scores, added up by entry."""
        rows, sums = self.rows, self.rows.sums(weights)

        def chunk(c: int) -> tuple[float, Array]:
            part = slice(c * ROWS, (c + 1) * ROWS)
            found = np.zeros(len(sums))
            loss = _pass(sums, rows.starts, rows.ids[:, part], self.counts[part], self.tilt, second, found)
            return loss, found

        loss, total = 0.0, np.zeros(len(sums))
        for part, found in run_chunks(chunk, -(-rows.n_rows // ROWS), self.n_jobs):
            loss += part
            total += found
        return loss, total


def row_scores(weights: Array, index: NDArray[np.int32], n_jobs: int = 1) -> NDArray[np.float64]:
    """s of each row."""
    scores = np.empty(len(index))

    def chunk(c: int) -> None:
        rows = slice(c * ROWS, (c + 1) * ROWS)
        _score(weights, index[rows], scores[rows])

    run_chunks(chunk, -(-len(index) // ROWS), n_jobs)
    return scores


def grouped_scores(weights: Array, rows: GroupedRows, n_jobs: int = 1) -> NDArray[np.float64]:
    """The same for rows that are stored by groups."""
    scores, sums = np.zeros(rows.n_rows), rows.sums(weights)

    def chunk(c: int) -> None:
        part = slice(c * ROWS, (c + 1) * ROWS)
        for ids, start in zip(rows.ids, rows.starts, strict=False):
            scores[part] += sums[start + ids[part]]

    run_chunks(chunk, -(-rows.n_rows // ROWS), n_jobs)
    return scores


@njit(nogil=True, cache=True)
def _score(weights, index, scores):
    for r in range(index.shape[0]):
        total = 0.0
        for m in range(index.shape[1]):
            total += weights[index[r, m]]
        scores[r] = total


@njit(nogil=True, cache=True)
def _log1p_exp(x):
    """log(1 + eˣ) without overflow."""
    return x + np.log1p(np.exp(-x)) if x > 0 else np.log1p(np.exp(x))


@njit(nogil=True, cache=True)
def _sigmoid(x):
    if x >= 0:
        return 1.0 / (1.0 + np.exp(-x))
    e = np.exp(x)
    return e / (1.0 + e)


@njit(nogil=True, cache=True)
def _pass(sums, starts, ids, counts, tilt, second, found):
    """The loss of some rows; adds its first or second derivatives by their scores to the entries, `found`.

    Rows are taken in blocks, and within a block group by group, so that what is looked up stays near.
    """
    weight, scale, shift = tilt[0], tilt[1], tilt[2]
    score, derivative = np.empty(BLOCK), np.empty(BLOCK)
    loss = 0.0
    for block in range(0, ids.shape[1], BLOCK):
        m = min(BLOCK, ids.shape[1] - block)
        score[:m] = 0.0
        for g in range(ids.shape[0]):
            for r in range(m):
                score[r] += sums[starts[g] + ids[g, block + r]]
        for r in range(m):
            s = score[r]
            refused, accepted, biased = counts[block + r, 0], counts[block + r, 1], counts[block + r, 2]
            e = np.exp(-abs(s))  # p = 1 / (1 + e^-s), log(1 + e^-|s|), without overflow
            p = 1.0 / (1.0 + e) if s >= 0 else e / (1.0 + e)
            rest = np.log1p(e)
            loss += refused * (max(s, 0.0) + rest) + accepted * (max(-s, 0.0) + rest)
            if second:
                derivative[r] = (refused + accepted) * p * (1.0 - p)
            else:
                derivative[r] = refused * p - accepted * (1.0 - p)
            if biased > 0:
                q = _sigmoid(scale * s + shift)
                loss += biased * weight * _log1p_exp(-(scale * s + shift))
                if second:
                    derivative[r] += biased * weight * scale * scale * q * (1.0 - q)
                else:
                    derivative[r] -= biased * weight * scale * (1.0 - q)
        for g in range(ids.shape[0]):
            for r in range(m):
                found[starts[g] + ids[g, block + r]] += derivative[r]
    return loss


# -- Biased potentials: training that leans towards linking, for all true pairs or for the closest ones ---
#
# The paper multiplies the potential of a biased pair by β. On both labels that cancels, and on the true label alone it
# does the opposite of what it is for: with ψ(1) = β φ(1) in training, p(1) = β eˢ / (β eˢ + 1), so a biased pair is
# satisfied with a *lower* score, and at test time, where nothing is biased, fewer pairs are linked. Forms that raise
# recall:
#
#     weight     p(1)^β: the pair counts β times (in a log-linear model the potentials of both labels and their sum, to
#                the β)
#     margin     ψ(0) = β φ(0): the wrong label is made stronger, so the score has to exceed it by log β more
#     exponent   ψ = φ^β: the score counts β times
#     factor     the reading above, kept for comparison
#
# So the M-step learns by one of these forms (recall rises most, and for both kinds, with "weight"). The E-step decides
# with ψ(1) = β φ(1) as the paper writes it: a biased pair counts as linked, and is learned so, if β φ(1) > φ(0).

KINDS = ("all", "closest")
FORMS = ("weight", "margin", "exponent", "factor")


@dataclass(frozen=True)
class Bias:
    """kind    "all" true pairs (the paper's Pa), or of each item the "closest" antecedent of its cluster (P1)
    factor  β; above 1 for more recall, 1 for none
    form    what β does, as above
    """

    kind: str = "all"
    factor: float = 1.5
    form: str = "weight"

    def check(self) -> None:
        if self.kind not in KINDS:
            raise SettingError.saying(f"the kind of a bias must be one of {', '.join(KINDS)}; got {self.kind!r}")
        if self.form not in FORMS:
            raise SettingError.saying(f"the form of a bias must be one of {', '.join(FORMS)}; got {self.form!r}")
        if not (isinstance(self.factor, int | float) and math.isfinite(self.factor) and self.factor > 0):
            raise SettingError.saying(f"the factor of a bias must be a number above 0; got {self.factor!r}")

    @property
    def tilt(self) -> Tilt:
        if self.form == "weight":
            return Tilt(weight=self.factor)
        if self.form == "exponent":
            return Tilt(scale=self.factor)
        return Tilt(shift=math.log(self.factor) * (1 if self.form == "factor" else -1))

    @property
    def lean(self) -> float:
        """What a biased pair's log-odds gain when the E-step decides: log β."""
        return math.log(self.factor)

    def biased(self, right: NDArray[Any], truth: NDArray[Any]) -> NDArray[np.bool_]:
        """The pairs that the bias is for; pairs come in order of right and then left."""
        true = np.asarray(truth == 1)
        if self.kind == "all":
            return true
        at = np.flatnonzero(true)
        last = np.append(np.diff(right[at]) != 0, True)[: len(at)]  # the last true pair of an item is the closest
        chosen = np.zeros(len(truth), bool)
        chosen[at[last]] = True
        return chosen
