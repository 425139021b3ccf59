"""How good a model is, as numbers and as a page: what is taken for what, whether probabilities come true."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.errors import InputError
from kinfolk.report.page import Part, PathLike, write_report
from kinfolk.report.training import training_part

Array = NDArray[Any]
MOST_MISTAKES = 10  # that a page shows
MOST_LABELS = 20  # rows of a matrix that can still be read
UNSEEN = "(never seen in training)"

# -- What is taken for what: counts of true against predicted labels -----------------------------------


@dataclass(frozen=True, eq=False)
class Confusion:
    """`counts` (L, L): true labels down, predicted ones across. Rates run from 0 to 1; without a count they are 0."""

    labels: tuple[str, ...]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.counts) / max(self.total, 1))

    @property
    def precision(self) -> NDArray[np.float64]:
        return np.asarray(np.diag(self.counts) / np.maximum(self.counts.sum(axis=0), 1))

    @property
    def recall(self) -> NDArray[np.float64]:
        return np.asarray(np.diag(self.counts) / np.maximum(self.counts.sum(axis=1), 1))

    @property
    def f1(self) -> NDArray[np.float64]:
        """2 · right / (true + predicted)."""
        both = self.counts.sum(axis=0) + self.counts.sum(axis=1)
        return np.asarray(2 * np.diag(self.counts) / np.maximum(both, 1))

    def merged(self, names: Sequence[str]) -> Confusion:
        """Labels of the same name taken together, in the order they first appear; `names` has one a label."""
        if len(names) != len(self.labels):
            raise InputError(f"expected a name for each of {len(self.labels)} labels; got {len(names)}")
        kept = {name: i for i, name in enumerate(dict.fromkeys(names))}
        to = np.array([kept[name] for name in names], np.int64)
        counts = np.zeros((len(kept), len(kept)), np.int64)
        np.add.at(counts, (to[:, None], to[None, :]), self.counts)
        return Confusion(tuple(kept), counts)

    def largest(self, most: int, rest: str = "(rest)") -> Confusion:
        """The `most` labels that occur most often, true or predicted, in their order; the others as one."""
        if len(self.labels) <= most:
            return self
        size = self.counts.sum(axis=0) + self.counts.sum(axis=1)
        kept = set(np.argsort(-size, kind="stable")[: most - 1].tolist())
        order = sorted(range(len(self.labels)), key=lambda i: i not in kept)  # stable: the rest comes last
        moved = Confusion(tuple(self.labels[i] for i in order), self.counts[np.ix_(order, order)])
        return moved.merged([name if i in kept else rest for i, name in zip(order, moved.labels, strict=True)])

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain numbers, ready for JSON."""
        return {"labels": list(self.labels), "counts": self.counts.tolist()}


def confusion(truth: ArrayLike, predicted: ArrayLike, labels: Sequence[str]) -> Confusion:
    """From label numbers, one an instance; those whose truth is -1 (not known) are left out."""
    true, guess, n = np.asarray(truth), np.asarray(predicted), len(labels)
    if true.shape != guess.shape or true.ndim != 1:
        raise InputError(f"expected one predicted label a true one, {true.shape}; got {guess.shape}")
    known = true != -1
    true, guess = true[known].astype(np.int64), guess[known].astype(np.int64)
    for codes in (true, guess):
        if len(codes) and not 0 <= codes.min() <= codes.max() < n:
            raise InputError(f"expected labels numbered 0 to {n - 1}; got {codes.min()} to {codes.max()}")
    return Confusion(tuple(labels), np.bincount(true * n + guess, minlength=n * n).reshape(n, n))


# -- Whether probabilities can be believed: of the answers given with 80 %, are 80 % right? ------------
#
# Answers are sorted by probability and put into bins of equal counts. With n_b answers in bin b, their mean probability
# p̄_b and the share ȳ_b of them that came true:
#
#     expected calibration error   Σ_b n_b / n · |ȳ_b - p̄_b|
#     Brier score                  1/n Σ_i (p_i - y_i)²
#
# scikit-learn's calibration_curve has neither the counts nor the ends of its bins, and cuts between equal values; its
# confusion_matrix takes 6.6 times as long as `confusion`, its brier_score_loss 2.8 times (200,000 answers, 9 classes).

BINS = 10
SLACK = 1e-4  # rounding may carry a probability this far beyond 0 or 1


@dataclass(frozen=True, eq=False)
class Calibration:
    """Bins from the least probable answers to the most, (B,) each; and two numbers for the whole, 0 being best."""

    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]
    predicted: NDArray[np.float64]  # the mean probability of a bin
    observed: NDArray[np.float64]  # the share that came true
    counts: NDArray[np.int64]
    error: float
    """Expected calibration error: by how much a probability is off, on average."""
    brier: float
    """Mean squared distance between probability and outcome."""

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain numbers, ready for JSON."""
        return {name: np.asarray(value).tolist() for name, value in vars(self).items()}


def calibration(probability: ArrayLike, came_true: ArrayLike, bins: int = BINS) -> Calibration:
    """Of n answers: the probability each was given, and whether it was right.

    Equal probabilities stay in one bin, so there may be fewer bins.
    """
    p, y = np.asarray(probability, np.float64), np.asarray(came_true, np.float64)
    if p.shape != y.shape or p.ndim != 1:
        raise InputError(f"expected a truth value for each probability, {p.shape}; got {y.shape}")
    if bins < 1:
        raise InputError(f"expected 1 bin or more; got {bins}")
    if len(p) and not (p.min() >= -SLACK and p.max() <= 1 + SLACK):  # also what is not a number
        raise InputError(f"expected probabilities from 0 to 1; they go from {p.min()} to {p.max()}")
    p = p.clip(0.0, 1.0)
    if not len(p):
        nothing = np.empty(0)
        return Calibration(nothing, nothing, nothing, nothing, np.empty(0, np.int64), 0.0, 0.0)
    order = np.argsort(p, kind="stable")
    p, y = p[order], y[order]
    starts = _bin_starts(p, bins)
    counts = np.diff(np.append(starts, len(p)))
    predicted, observed = (np.add.reduceat(values, starts) / counts for values in (p, y))
    error = float(counts @ np.abs(observed - predicted) / len(p))
    return Calibration(
        p[starts], p[starts + counts - 1], predicted, observed, counts, error, float(((p - y) ** 2).mean())
    )


def _bin_starts(ordered: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """Where the bins begin: after every n/B values, moved back to the first of those that are equal."""
    wanted = np.arange(bins) * len(ordered) // bins
    return np.unique(np.searchsorted(ordered, ordered[wanted], side="left")).astype(np.int64)


def brier_score(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Over several classes: mean over labelled instances of Σ_l (p_l - [l is the label])²; from 0 to 2.

    probabilities (n, L); labels (n,), -1 where not known, L for a class without a column
    """
    table, codes = np.asarray(probabilities, np.float64), np.asarray(labels)
    if table.ndim != 2 or codes.shape != (len(table),):
        raise InputError(f"expected a label for each row of probabilities, {table.shape}; got {codes.shape}")
    known = codes >= 0
    if not known.any():
        return 0.0
    table, codes = table[known], codes[known]
    among = codes < table.shape[1]
    of_label = table[np.flatnonzero(among), codes[among]]
    return float(((table**2).sum() - 2 * of_label.sum() + len(codes)) / len(codes))


# -- rates --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counts:
    """How many (entities, nodes of a class) there are, were predicted, and were predicted rightly; and the rates."""

    gold: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        return percent(self.correct, self.predicted)

    @property
    def recall(self) -> float:
        return percent(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall: 2 · correct / (gold + predicted)."""
        return percent(2 * self.correct, self.gold + self.predicted)

    @property
    def fp(self) -> float:
        """Share of the predicted entities that are wrong: 100 - precision."""
        return 100.0 - self.precision

    @property
    def fn(self) -> float:
        """Share of the gold entities that were missed: 100 - recall."""
        return 100.0 - self.recall

    def as_dict(self) -> dict[str, Any]:
        rates = {name: getattr(self, name) for name in ("precision", "recall", "f1", "fp", "fn")}
        return {**rates, "gold": self.gold, "predicted": self.predicted, "correct": self.correct}


def percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


# -- parts of a page --------------------------------------------------------------------------------


def score_part(headline: Any, classes: Any, charts: Any, matrices: Any, kind: str, mistakes: Any, **more: Any) -> Part:
    data = {"headline": headline, "classes": classes, "calibration": charts, "confusion": matrices}
    return Part("scores", "Scores", {**data, "mistakes": {"of": kind, "rows": mistakes, **more}})


def chart(title: str, what: str, found: Calibration, brier: float | None = None) -> dict[str, Any]:
    """`brier`: that of several classes, in the place of right or wrong."""
    return {**found.as_dict(), "title": title, "what": what, "brier": found.brier if brier is None else brier}


def matrix_part(title: str, what: str, found: Confusion) -> dict[str, Any]:
    return {**found.largest(MOST_LABELS).as_dict(), "title": title, "what": what}


def class_rows(matrix: Confusion) -> dict[str, Any]:
    counts = matrix.counts
    columns: Iterable[Any] = zip(
        matrix.labels, matrix.precision, matrix.recall, matrix.f1, counts.sum(axis=1), counts.sum(axis=0), strict=True
    )
    headings = ["label", "precision", "recall", "F1", "true", "predicted"]
    return {"title": "By label", "headings": headings, "rows": list(columns), "share": [1, 2, 3]}


def write_scores(path: PathLike, model: Any, scores: Part, about: str) -> None:
    parts = [part for part in (scores, training_part(model)) if part is not None]
    write_report(path, f"Scores of {type(model).__name__}", parts, about)


def write_training(path: PathLike, model: Any) -> None:
    """A page about training alone; it says so where nothing is known."""
    unknown = Part("text", "Training", {"paragraphs": ["The base of this model does not say how it was trained."]})
    write_report(path, f"Training of {type(model).__name__}", [training_part(model) or unknown])
