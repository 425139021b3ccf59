"""Whether a collective model beats its local model, by cross-fitting on the training data, with an interval.

The labels of a fold are hidden, both models are trained on the rest, and both answer for the fold. Scores are ratios of
sums over units u (documents, graphs, nodes, true clusters): accuracy is right / counted, F1 is 2 · right / (true +
predicted). So

    s = Σ_u a_u / Σ_u b_u,        gain = s of the collective model - s of the local one

and the interval is that of the infinitesimal jackknife, by what each unit adds to the gain:

    z_u = (a_u - s b_u) / Σ b of the collective model, less the same of the local one
    gain ± t · √( U / (U - 1) · Σ_u z_u² ),     t the 0.975 quantile of Student's t with U - 1 degrees of freedom

It takes the units for independent and the trained models for given. It draws nothing: the order of units is all one.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.modelfile import Functions, ModelFile, Saved, fits
from kinfolk.core.settings import NONE, setting, whole
from kinfolk.errors import GainWarning, SettingError, warn
from kinfolk.learning.crossfit import assign_folds

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
CONFIDENCE = 0.95
FEW = 100  # nodes below which the folds matter as much as the nodes


@dataclass(frozen=True)
class Gain:
    """What a collective model gains over its local model on cross-fitted training data.

    metric             "accuracy", "entity F1", "pair F1"
    local, collective  their scores, in percent
    gain               the difference
    lower, upper       95 % bounds of it, over the units
    n, unit            how many units, and of what: "documents", "nodes", "graphs", "clusters"
    folds              of cross-fitting
    differing          how many held-out answers (labels, or items with others beside them) of the two differ; None: of
                       files written before it was counted
    """

    metric: str
    local: float
    collective: float
    gain: float
    lower: float
    upper: float
    n: int
    unit: str
    folds: int
    differing: int | None = None

    @property
    def few(self) -> bool:
        """Whether there are fewer than a hundred nodes, so that the interval, which takes the trained models for given,
        is too narrow."""
        return self.unit == "nodes" and self.n < FEW

    @property
    def beats(self) -> bool:
        """Whether all of the interval lies above 0."""
        return self.lower > 0

    def __str__(self) -> str:
        how = f"cross-fitted, {self.folds} folds of {self.n} {self.unit}"
        how += "; no held-out answer differs" if self.differing == 0 else ""
        if self.few:
            how += f"; {self.unit} are few: other folds may give another figure, beyond the interval too"
        return (
            f"{self.metric} {self.gain:+.2f} [{self.lower:.2f}, {self.upper:.2f}] over the local model "
            f"({self.local:.2f} to {self.collective:.2f}; {how})"
        )

    def verdict(self, name: str) -> str | None:
        """Of a model of this name, as the begin of a sentence: worse, the same or not shown to be better; None: better.
        Scores are the same too where answers differ, and none of them is righter."""
        if self.beats:
            return None
        if self.upper < 0:
            return f"{name} is worse than its local model"
        if self.differing == 0:
            return f"{name} answers as its local model does"
        return f"{name} is not shown to beat its local model"

    @classmethod
    def from_file(cls, kept: Mapping[str, Any]) -> Gain:
        """From what a model file keeps: the fields, by name."""
        gain = cls(**{"differing": None, **{one.name: kept[one.name] for one in fields(cls) if one.name in kept}})
        numbers = (gain.local, gain.collective, gain.gain, gain.lower, gain.upper)
        fits(all(isinstance(x, float | int) for x in numbers) and gain.lower <= gain.gain <= gain.upper)
        fits(isinstance(gain.metric, str) and isinstance(gain.unit, str))
        fits(isinstance(gain.n, int) and isinstance(gain.folds, int) and gain.n >= 1 and gain.folds >= 2)
        fits(gain.differing is None or (isinstance(gain.differing, int) and gain.differing >= 0))
        return gain


class Counted(list[Array]):
    """What folds add up to: a table (units, 4) each, a and b of the local model, then of the collective one; and how
    many answers of the two differ."""

    differing = 0

    def add(self, local: Array, collective: Array, differing: int) -> None:
        """(units, 2) of each: a and b."""
        self.append(np.concatenate([local, collective], axis=1))
        self.differing += int(differing)

    def parts(self) -> list[Any]:
        """What `add` was given, of all that was added."""
        whole = np.concatenate([np.empty((0, 4)), *self])
        return [whole[:, :2], whole[:, 2:], self.differing]

    def gain(self, metric: str, unit: str, folds: int) -> Gain:
        """Of all units."""
        found = gain_of(np.concatenate([np.empty((0, 4)), *self]), metric, unit, folds)
        return replace(found, differing=self.differing)


def gain_of(table: Array, metric: str, unit: str, folds: int) -> Gain:
    """`table` (units, 4) has a and b of the local model, then those of the collective one."""
    from scipy import stats

    # Sorted, so that sums do not depend on the order of the units even in the last digit.
    table = np.asarray(table, np.float64)
    table = table[np.lexsort(table.T)]
    n = len(table)
    (local, before), (collective, after) = (_score(*table[:, side : side + 2].T) for side in (0, 2))
    gain, half = collective - local, float("inf")
    if n > 1:
        deviation = np.sqrt(n / (n - 1) * np.square(after - before).sum())
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) * deviation)
    least, most = min(gain, -1.0), max(gain, 1.0)  # a score lies between 0 and 1, but for R² below 0
    low, high = max(gain - half, least), min(gain + half, most)
    scores = [float(100 * value) for value in (local, collective, gain, low, high)]
    return Gain(metric, scores[0], scores[1], scores[2], scores[3], scores[4], n, unit, folds)


def _score(a: Array, b: Array) -> tuple[float, Array]:
    """The ratio of the sums, and what each unit adds to its error; 0 where nothing is counted."""
    total = b.sum()
    if total <= 0:
        return 0.0, np.zeros(len(a))
    score = a.sum() / total
    return float(score), (a - score * b) / total


# -- the setting, and what a model says of it -------------------------------------------------------------


@dataclass(kw_only=True, eq=False, repr=False)
class Guarded(Saved):
    """Abstract: a collective model that can say whether it beats its local model.

    Learned by `fit`: `gain_`, a Gain; None without `guard`, where there is nothing to compare, and of files written
    before there was one.
    """

    LOCAL: ClassVar[str] = "its local model"  # which model that is, and how it is had, for the warning
    NOTHING: ClassVar[str] = "it is its local model"  # when there is nothing to compare

    guard: int | None = setting(
        None,
        "so many folds of cross-fitting tell whether the model beats its local model (`gain_`, with an interval; a "
        "warning where it is not shown to), at the cost of as many trainings of both. None: not measured",
        whole(2) | NONE,
    )
    gain_: Gain | None = field(init=False, default=None)

    def _local_model(self) -> str:
        return self.LOCAL

    def _tell_gain(self) -> None:
        """Say what was measured, and warn where the model is not shown to be better, or nothing could be compared."""
        gain, name = self.gain_, type(self).__name__
        if gain is None:
            if self.guard:
                warn(f"`guard={self.guard}` has nothing to compare: {self.NOTHING}", GainWarning)
            return
        log.info("%s: %s", name, gain)
        if (verdict := gain.verdict(name)) is not None:
            warn(f"{verdict}: {gain}. The local model is {self._local_model()}", GainWarning)

    def _anew(self, **changed: Any) -> Self:
        """An untrained model of the same settings, which measures nothing and is silent."""
        settings = {**self.get_params(deep=False), "guard": None, "verbose": 0, **changed}
        if "warm_start" in settings:
            settings["warm_start"] = False
        return type(self)(**settings)

    def head(self) -> dict[str, Any]:
        return super().head() | ({} if self.gain_ is None else {"gain": asdict(self.gain_)})

    @classmethod
    def from_state(cls, file: ModelFile, functions: Functions, trusted: Sequence[str] = ()) -> Self:
        model = super().from_state(file, functions, trusted)
        kept = file.header.get("gain")
        model.gain_ = None if kept is None else Gain.from_file(kept)
        return model


@contextmanager
def in_silence() -> Iterator[None]:
    """Of trainings that serve a measurement: what they would warn of, the training of the model itself does."""
    level = log.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            log.setLevel(level)


def folds_by_name(
    names: Sequence[str], labels: Array, groups: Array | None, n_folds: int, seed: int | None
) -> NDArray[np.int32]:
    """The fold of each labelled instance, -1 for the others, whatever the order they stand in: instances, or with
    `groups` these, are dealt in the order of names. `names` are those of the instances, or of the groups."""
    rng = np.random.default_rng(None if seed is None else [seed, 3])
    if groups is not None:
        rank = np.argsort(np.argsort(np.asarray(names, object), kind="stable"), kind="stable")
        return assign_folds(labels, rank[groups], n_folds, rng)
    order = np.argsort(np.asarray(names, object), kind="stable")
    fold = np.empty(len(labels), np.int32)
    fold[order] = assign_folds(labels[order], None, n_folds, rng)
    return fold


def check_units(guard: int, units: int, unit: str) -> None:
    """Refuse more folds than there is to deal."""
    if units < guard:
        remedy = f"set `guard={units}` or fewer" if units >= 2 else "leave it out"
        raise SettingError("guard", guard, f"at most the number of labelled {unit}, {units}", remedy)
