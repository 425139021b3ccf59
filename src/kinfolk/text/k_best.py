"""The k best labellings of each sentence, of any tagger whose decoder lists them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinfolk.errors import InputError
from kinfolk.text.batch import Answers, Batch

KBest = list[list[tuple[list[Any], float]]]  # of each sentence (labels, log-probability), best first


def k_best_answers(model: Any, X: Any, k: int, forced: bool, vectors: Any = None) -> KBest:
    """What `predict_k_best` answers, from what the model's decoder lists: class numbers and log-probabilities."""
    model._require_fitted()
    if not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k must be a whole number of 1 or more; got {k!r}")
    answers, batch = [], Batch.of(X, vectors=vectors)
    for labellings in model._decoder().k_best(batch, int(k), forced):
        ends = np.array([0, len(labellings[0][0])], np.int64)
        answers.append([(model.coding_.decode(path, ends).labels(), log_p) for path, log_p in labellings])
    found: Answers[Any] = batch.for_each(answers, lambda: [([], 0.0)])
    return found
