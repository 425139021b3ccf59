"""Probabilities that can be believed: one temperature for all scores, learned on documents that were held out.

    p(y | x) ∝ exp( s(x, y) / T )

A log-linear model is trained to be sure of its training documents, and is too sure of others. T is what makes labels of
held-out documents most probable, token by token (Guo and others, 2017); of a chain it is the weights divided by T, so
that the most probable labelling stays the same and the probabilities of entities are exact in the milder chain. Of a
mixture of parents it is the weights of every conditional, and not those of the gate; of a skip chain those of all
edges. Both read labels off the marginals, so that a few of them may change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.checkpoint import running
from kinfolk.errors import InputError
from kinfolk.learning.gain import in_silence
from kinfolk.learning.loglinear import TableWeights, Weights
from kinfolk.text.batch import Batch, token_weights

Array = NDArray[Any]
FOLDS = 3
LOOSE = 0.02  # tolerance of models of folds: as good on held-out documents as a closer one, in half the time
MILDEST, SHARPEST = 10.0, 0.2  # temperatures
LEAST = 1e-9  # probability of a label that was not expected at all


def loosened(tolerance: float | str, early: bool) -> float | str:
    """That of a model of a fold; `early`: whether a model of all documents stops early."""
    if early:
        return "early"
    return LOOSE if isinstance(tolerance, str) else max(tolerance, LOOSE)


def temperature(tagger: Any, batch: Batch, sample_weight: Array | None = None) -> float:
    """T of a tagger, by models of its settings trained on all folds of documents but one."""
    return running().step("temperature").once(lambda: _temperature(tagger, batch, sample_weight))


def _temperature(tagger: Any, batch: Batch, sample_weight: Array | None) -> float:
    from scipy.optimize import minimize_scalar

    corpus = batch.corpus
    n_folds = min(FOLDS, corpus.n_documents)
    if n_folds < 2:
        raise InputError("`calibrate=True` holds out documents, and there is only one: give two or more")
    fold = np.random.default_rng(tagger.random_state).permutation(corpus.n_documents) % n_folds
    fold = fold[corpus.token_documents]
    settings = tagger.get_params(deep=False) | {"calibrate": False, "warm_start": False, "verbose": 0}
    settings |= {"guard": None} if "guard" in settings else {}
    settings["tolerance"] = loosened(settings["tolerance"], tagger.stops_early(corpus.n_tokens))
    if tagger.coding_.inner is not None:
        settings["encoding"] = tagger.coding_.inner
    asked = []
    for k in range(n_folds):
        mine, others = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        extra = batch.extra
        parts = [batch.part(rows, None if extra is None else extra[rows]) for rows in (others, mine)]
        weights = None
        if sample_weight is not None:
            every = token_weights(batch, tagger.coding_.known(corpus), tagger.coding_.classes, None, sample_weight)
            weights = every[corpus.sentence_starts[np.unique(corpus.token_sentences[others])]]
        if not parts[0].corpus.is_labelled or not parts[1].corpus.is_labelled:
            continue
        with in_silence():
            model = type(tagger)(**settings)
            model._passes = tagger._passes
            model.fit(parts[0], sample_weight=weights)
        held_out = replace(parts[1], kept_rows={})  # features are extracted once
        labels = model.coding_.known(held_out.corpus)
        asked.append((model, held_out, np.flatnonzero(labels >= 0), labels[labels >= 0]))
    if not asked:
        raise InputError("`calibrate=True` needs labels in two documents or more")

    def loss(log_t: float) -> float:
        """Negative log-likelihood of the labels held out, each by itself."""
        total = 0.0
        for model, held_out, rows, labels in asked:
            with in_silence():
                found = model._decoder(scaled(model.weights_, np.exp(log_t))).marginals(held_out, False)
            total -= np.log(np.maximum(found[rows, labels], LEAST)).sum()
        return float(total)

    limits = np.log([SHARPEST, MILDEST])
    return float(np.exp(minimize_scalar(loss, bounds=limits, method="bounded", options={"xatol": 0.01}).x))


def scaled(weights: Any, by: float) -> Any:
    """Weights of a tagger, divided, but for those of a gate, which says whom to follow and not how surely."""
    if isinstance(weights, TableWeights):
        tables = [table / np.asarray(by, table.dtype) for table in weights.tables]
        start, pair, rows = (part / np.asarray(by, part.dtype) for part in weights[1:4])
        return TableWeights(tables, start, pair, rows, weights.gate)
    if isinstance(weights, Weights):
        return Weights(*(part / np.asarray(by, part.dtype) for part in weights))
    return tuple(scaled(one, by) for one in weights)  # of a mixture, one a direction
