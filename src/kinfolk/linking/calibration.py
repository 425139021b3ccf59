"""Calibration: a rising map of log-odds, learned on pairs that the model has not seen, so that of the pairs with a
probability of 0.8 about 80 % are matches.

Structured rounds learn what the clustering needs, not how sure a pair is, and any model is surest of the pairs it was
trained on. The map is learned from the log-odds s that models gave to pairs they had not seen (cross-validation over
entities); which one is chosen by their log-loss on entities that had no part in it:

    identity   s
    Platt      a s + b, a > 0
    beta       a ln p - b ln(1 - p) + c, where p = sigmoid(s), a, b > 0 (Kull et al. 2017)
    isotonic   the rising steps nearest to the truth, joined by straight lines, the last of which go on
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.modelfile import fits
from kinfolk.inference.clustering import log_odds
from kinfolk.linking.training import by_blocks, sigmoid

Array = NDArray[Any]
FEWEST = 30  # matches, and others, below which nothing is learned
WIDTH = 1.28  # what a gain in log-loss has to exceed, in standard errors: it is above 0 with 90 % confidence
GROUPS = 40  # of the isotonic map, at most
ITERATIONS = 60  # of Newton's method, at most
RIDGE = 1.0  # draws Platt's and beta's weights to those of the identity
LEAST_SLOPE = 0.02  # a map rises, so that the order of pairs stays
FARTHEST, STEPS_OF_SCORE = 40.0, 16  # log-odds beyond which pairs are alike, and how finely they are told apart


@dataclass(frozen=True, eq=False)
class Calibration:
    """A rising map of log-odds, straight between its knots and beyond them; without knots it changes nothing.

    `kind` says how it was learned; `gain` by how much it lowers the log-loss of a pair that was not seen.
    """

    kind: str = "identity"
    knots: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2)))
    gain: float = 0.0

    def __call__(self, score: Array, out: Array | None = None) -> NDArray[np.float64]:
        """Of log-odds, calibrated ones; `out`: an array that these may be put into, such as `score` itself."""
        s = np.asarray(score, np.float64)
        if not len(self.knots):
            return s
        x, y = self.knots.T

        def mapped(s: Array) -> Array:
            k = np.clip(np.searchsorted(x, s) - 1, 0, len(x) - 2)
            slope = (y[k + 1] - y[k]) / (x[k + 1] - x[k])
            return np.asarray(y[k] + slope * (s - x[k]))

        return by_blocks(mapped, s, out)

    def __str__(self) -> str:
        if not len(self.knots):
            return "probabilities are left as they are: no map of them is better on unseen training pairs"
        shown = ", ".join(
            f"{p:.2f} becomes {q:.2f}" for p, q in zip(SHOWN, sigmoid(self(log_odds(SHOWN))), strict=True)
        )
        return f"probabilities are calibrated on unseen training pairs ({self.kind}): {shown}"

    def for_file(self) -> dict[str, Any]:
        return {"kind": self.kind, "gain": self.gain}

    @classmethod
    def from_file(cls, said: dict[str, Any] | None, knots: Array | None) -> Calibration:
        """That of a file; those of before have none."""
        if said is None or knots is None:
            return cls()
        fits(knots.ndim == 2 and knots.shape[1] == 2 and len(knots) != 1 and bool(np.isfinite(knots).all()))
        fits(bool((np.diff(knots, axis=0) > 0).all()))
        return cls(str(said["kind"]), knots.astype(np.float64), float(said["gain"]))


SHOWN = np.array([0.1, 0.5, 0.9])
# Where a smooth map is read off: close enough for straight lines between, and so far that it is straight beyond them.
GRID = np.concatenate([np.arange(-40, -8, 4.0), np.arange(-8, 8, 0.25), np.arange(8, 41, 4.0)])


def calibrated(score: Array, match: Array, part: Array) -> Calibration:
    """The map that does best on pairs of parts it was not learned from; the identity unless one is surely better.

    score   (m,) log-odds of pairs by models that have not seen them
    match   (m,) whether they are matches
    part    (m,) the part of each pair, whole numbers; pairs of an entity are in one part
    """
    y = np.asarray(match, bool)
    parts, number = np.unique(part, return_inverse=True)
    if min(y.sum(), (~y).sum()) < FEWEST or len(parts) < 2:
        return Calibration()
    s, place = np.unique(np.round(np.clip(score, -FARTHEST, FARTHEST) * STEPS_OF_SCORE), return_inverse=True)
    s /= STEPS_OF_SCORE  # millions of pairs have few different log-odds, as far as it matters
    cell, shape = number * len(s) + place, (len(parts), len(s))
    yes, no = (np.bincount(cell[chosen], minlength=shape[0] * shape[1]).reshape(shape) for chosen in (y, ~y))
    losses = {"identity": _losses(s, yes, no).sum(axis=1)}
    for kind, learn in KINDS.items():
        maps = [Calibration(kind, learn(s, yes.sum(axis=0) - own, no.sum(axis=0) - other))
                for own, other in zip(yes, no, strict=True)]  # fmt: skip
        losses[kind] = np.array([_losses(one(s), *own).sum() for one, *own in zip(maps, yes, no, strict=True)])
    best = min(losses, key=lambda kind: float(losses[kind].sum()))
    # Pairs of a part hang together: the error of the total is that of a sum over parts.
    gain = losses["identity"] - losses[best]
    if best == "identity" or gain.sum() <= WIDTH * float(np.sqrt(len(parts) * gain.var(ddof=1))):
        return Calibration()
    return Calibration(best, KINDS[best](s, yes.sum(axis=0), no.sum(axis=0)), float(gain.sum() / len(y)))


def _losses(s: Array, yes: Array, no: Array) -> NDArray[np.float64]:
    """The log-loss at each score: Σ ln(1 + e^-s) over matches + Σ ln(1 + e^s) over others."""
    return yes * np.logaddexp(0.0, -s) + no * np.logaddexp(0.0, s)  # type: ignore[no-any-return]


def platt(s: Array, yes: Array, no: Array) -> NDArray[np.float64]:
    """Knots of a s + b: of least log-loss, drawn a little to a = 1, b = 0."""
    a, b = _logistic(np.stack([s, np.ones(len(s))], axis=1), yes, no, np.array([1.0, 0.0]))
    x = GRID[[0, -1]]
    return np.stack([x, a * x + b], axis=1)


def beta(s: Array, yes: Array, no: Array) -> NDArray[np.float64]:
    """Knots of a ln p - b ln(1 - p) + c, p = sigmoid(s): of slope b far above 0, of slope a far below."""
    weights = _logistic(_beta_columns(s), yes, no, np.array([1.0, 1.0, 0.0]))
    return np.stack([GRID, _beta_columns(GRID) @ weights], axis=1)


def _beta_columns(s: Array) -> NDArray[np.float64]:
    return np.stack([-np.logaddexp(0.0, -s), np.logaddexp(0.0, s), np.ones(len(s))], axis=1)


def _logistic(x: Array, yes: Array, no: Array, start: Array) -> NDArray[np.float64]:
    """Weights w of least Σ log-loss(x w) + RIDGE / 2 |w - start|², all but the last above LEAST_SLOPE.

    By Newton's method with halved steps; a weight that would go below is held there.
    """
    least = np.append(np.full(len(start) - 1, LEAST_SLOPE), -np.inf)

    def value(w: Array) -> float:
        return float(_losses(x @ w, yes, no).sum() + RIDGE / 2 * ((w - start) ** 2).sum())

    w = start
    for _ in range(ITERATIONS):
        p = sigmoid(x @ w)
        slope = x.T @ ((yes + no) * p - yes) + RIDGE * (w - start)
        bend = (x * ((yes + no) * p * (1 - p))[:, None]).T @ x + RIDGE * np.eye(len(w))
        free = ~((w <= least) & (slope > 0))
        step = np.zeros(len(w))
        step[free] = np.linalg.solve(bend[np.ix_(free, free)], slope[free])
        tried = [np.maximum(w - size * step, least) for size in 0.5 ** np.arange(20)]
        then = next((one for one in tried if value(one) < value(w) - 1e-10 * value(w)), None)
        if then is None:
            break
        w = then
    return w


def isotonic(s: Array, yes: Array, no: Array) -> NDArray[np.float64]:
    """Knots at the mean log-odds of groups of pairs: the share of matches in each, made to rise by pooling neighbours.

    Groups hold about as many uncertain pairs, by the deviation of p; each has one pair more, of the probability it has.
    """
    n, p = (yes + no).astype(np.float64), sigmoid(s)
    weight = np.cumsum(n * (np.sqrt(p * (1 - p)) + 0.05))
    group = np.minimum((weight / weight[-1] * GROUPS).astype(np.int64), GROUPS - 1)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    n, total, matches = (np.add.reduceat(values, starts) for values in (n, n * s, yes.astype(np.float64)))
    there = n > 0
    n, x, matches = n[there], total[there] / n[there], matches[there]
    x, share = _pooled(x, (matches + sigmoid(x)) / (n + 1), n)
    knots = np.stack([x, log_odds(share)], axis=1)
    slope = np.ones(1) if len(x) == 1 else (np.diff(knots[:, 1]) / np.diff(x)).clip(LEAST_SLOPE, 1.0)
    return np.concatenate([knots[:1] - [[1.0, slope[0]]], knots, knots[-1:] + [[1.0, slope[-1]]]])


def _pooled(x: Array, share: Array, n: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Neighbours whose shares do not rise become one, of weighted means, until all rise."""
    blocks: list[tuple[float, float, float]] = []
    for x1, y1, n1 in zip(x.tolist(), share.tolist(), n.tolist(), strict=True):
        while blocks and y1 <= blocks[-1][1] + 1e-12:
            x0, y0, n0 = blocks.pop()
            x1, y1, n1 = (x0 * n0 + x1 * n1) / (n0 + n1), (y0 * n0 + y1 * n1) / (n0 + n1), n0 + n1
        blocks.append((x1, y1, n1))
    found = np.array(blocks)
    return found[:, 0], found[:, 1]


KINDS: dict[str, Callable[[Array, Array, Array], NDArray[np.float64]]] = {
    "Platt": platt,
    "beta": beta,
    "isotonic": isotonic,
}
