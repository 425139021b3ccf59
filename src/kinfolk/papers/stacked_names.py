"""Table 1 of the stacked graphical learning paper, for names in text: what every corpus's experiment shares.

Five folds of documents. The local model is a CRF; the competitor a stacked sequential CRF, told the predictions of the
three tokens on each side; the stacked graphical CRF is told these and how the other tokens of the document with the
same word were labelled (also those with the same word in another case, and with the same word before or after), and how
the words around it are labelled elsewhere. The ridge is chosen for each fold on a fifth of its training documents; the
templates were chosen on held-out abstracts of GENIA, among the training documents of the first fold; these are test
documents of the other folds, so of GENIA only the first fold had no part in that choice.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from kinfolk.collective.templates import Count, Max, Mean, Window
from kinfolk.errors import ConvergenceWarning
from kinfolk.papers.harness import Report, Row, Tell
from kinfolk.papers.stacking import table
from kinfolk.text.chain import LinearChainCRF, MaxEnt
from kinfolk.text.corpus import Corpus
from kinfolk.text.skip_edges import SameWord
from kinfolk.text.stacked import StackedTagger

FOLDS = 5
RIDGES = (1.0, 3.0, 10.0)
EVERY_WORD = SameWord(capitalised=False, max_document_frequency=None, most_recent=None)
ANY_CASE = replace(EVERY_WORD, ignore_case=True)
PHRASES = (replace(EVERY_WORD, before=1), replace(EVERY_WORD, after=1))
SEQUENTIAL = (Window(3),)
GRAPHICAL = (
    Window(3),
    *(make(rule) for rule in (EVERY_WORD, ANY_CASE, *PHRASES) for make in (Count, Max)),
    Window(3, Mean(EVERY_WORD)),
    Window(3, Max(EVERY_WORD)),
)
TOLERANCE = 1e-3
PAPER_ROWS = ("local", "stacked sequential CRF", "stacked k=1", "stacked k=2", "ceiling")


def crf(l2: float, n_jobs: int, **settings: Any) -> LinearChainCRF:
    return LinearChainCRF(l2=l2, tolerance=TOLERANCE, n_jobs=n_jobs, **settings)


def document_folds(n_documents: int, n_folds: int = FOLDS) -> np.ndarray:
    """The fold of each document, drawn with a fixed seed."""
    return np.random.default_rng(0).permutation(n_documents) % n_folds


def chosen_ridge(train: Corpus, ridges: tuple[float, ...], tell: Tell, n_jobs: int) -> float:
    """The ridge whose CRF does best on a fifth of the training documents."""
    parts = document_folds(train.n_documents)
    fit, held = train.select(np.flatnonzero(parts != 0)), train.select(np.flatnonzero(parts == 0))
    scores = [crf(l2, n_jobs).fit(fit).score(held) for l2 in ridges]
    tell("  held-out F1 by ridge: " + ", ".join(f"{r:g} {100 * s:.2f}" for r, s in zip(ridges, scores, strict=True)))
    return ridges[int(np.argmax(scores))]


def one_fold(train: Corpus, test: Corpus, l2: float, n_jobs: int) -> dict[str, float]:
    """Entity F1 of the five models."""
    base = crf(l2, n_jobs)
    stacked = StackedTagger(base, list(GRAPHICAL), depth=2, cross_fitting="paper", n_jobs=n_jobs).fit(train)
    rival = StackedTagger(base, list(SEQUENTIAL), n_jobs=n_jobs).fit(train)
    bases = [MaxEnt(max_iterations=1, n_jobs=n_jobs), base]  # the ceiling never asks its first level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        top = StackedTagger(bases, list(GRAPHICAL), known="ceiling", n_jobs=n_jobs).fit(train)
    models = (stacked.at_depth(0), rival, stacked.at_depth(1), stacked, top)
    return {name: 100 * model.score(test) for name, model in zip(PAPER_ROWS, models, strict=True)}


def run_folds(
    experiment: str, dataset: str, corpus: Corpus, paper: dict[str, float], tell: Tell, n_jobs: int,
    ridges: tuple[float, ...] = RIDGES,
) -> Report:  # fmt: skip
    """All rows of one corpus."""
    began = time.perf_counter()
    folds = document_folds(corpus.n_documents)
    found: dict[str, list[float]] = {}
    chosen: dict[str, float] = {}
    tell(f"{corpus}")
    for number in range(FOLDS):
        train, test = (corpus.select(np.flatnonzero(part)) for part in (folds != number, folds == number))
        chosen[f"fold {number}"] = l2 = chosen_ridge(train, ridges, tell, n_jobs)
        for name, f1 in one_fold(train, test, l2, n_jobs).items():
            found.setdefault(name, []).append(f1)
        tell(f"fold {number}: " + ", ".join(f"{name} {scores[-1]:.2f}" for name, scores in found.items()))
    rows: list[Row] = table(dataset, [f"fold {n}" for n in range(FOLDS)], found, "stacked k=1", "f1")
    settings = {
        "ridge chosen on a fifth of the training documents": chosen,
        "templates": [repr(template) for template in GRAPHICAL],
    }
    printed = {(dataset, name, "mean"): {"f1": value} for name, value in paper.items()}
    return Report(experiment, rows, time.perf_counter() - began, settings, ("f1", "p_value"), printed)
