"""Entity scores as conlleval counts them, and token accuracy. Percentages run from 0 to 100.

An entity is right when start, end and type all are. A ratio with a zero denominator is 0, as in conlleval,
so precision is 0 when nothing was predicted, and F1 is 0 when nothing is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinfolk.errors import InputError
from kinfolk.report.scores import Counts, percent

EntitySpan = tuple[int, int, str]


@dataclass(frozen=True)
class EntityScores(Counts):
    """Counts and rates over all entities, and `types`: the same for each type, in alphabetical order."""

    types: Mapping[str, Counts] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain numbers, ready for JSON."""
        return {**super().as_dict(), "types": {name: c.as_dict() for name, c in self.types.items()}}

    def table(self) -> str:
        """The scores laid out as conlleval prints them; the last number is entities predicted."""
        head = f"{self.gold} phrases; found: {self.predicted} phrases; correct: {self.correct}."
        rows = [_row(name, counts) for name, counts in self.types.items()]
        return "\n".join([head, _row("overall", self), *rows])


def span_scores(gold: Iterable[EntitySpan], predicted: Iterable[EntitySpan]) -> EntityScores:
    """Compare two sets of (start, end, type), with offsets into the same tokens.

    A span given twice counts once.
    """
    truth, guess = ({(start, end, name) for start, end, name in spans} for spans in (gold, predicted))
    n_gold, n_predicted, n_correct = (Counter(name for _, _, name in spans) for spans in (truth, guess, truth & guess))
    types = {name: Counts(n_gold[name], n_predicted[name], n_correct[name]) for name in sorted(n_gold | n_predicted)}
    return EntityScores(len(truth), len(guess), len(truth & guess), types)


def token_accuracy(gold_codes: ArrayLike, predicted_codes: ArrayLike) -> float:
    """Percentage of tokens with the right label among those whose gold label is known (not -1)."""
    gold, predicted = np.asarray(gold_codes), np.asarray(predicted_codes)
    if gold.shape != predicted.shape:
        raise InputError(f"expected one predicted label a gold one, {gold.shape}; got {predicted.shape}")
    known = gold != -1
    return percent(int(np.count_nonzero(known & (gold == predicted))), int(np.count_nonzero(known)))


def _row(name: str, counts: Counts) -> str:
    rates = f"precision: {counts.precision:6.2f}%; recall: {counts.recall:6.2f}%; FB1: {counts.f1:6.2f}"
    return f"{name:>17}: {rates}  {counts.predicted}"
