"""Figure 2 of the mixture-of-parents paper: named entities of CoNLL-2003 English.

All settings are chosen on the last fifth of the training documents: for the chain models as in chain-conll, for the
others one after the other (ridge and when to stop; which words skip edges join; features of edges, mixing weights or
decoding; for the best configuration of the library also the order and the feature set). The chosen models are trained
on all of eng.train and scored once on each test file. "As in the paper": identical words, uniform weights, no features
of edges. The improvement columns are the paper's: how many percent of the false positives and false negatives of the
posterior MEMM are gone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kinfolk.papers import chain_conll
from kinfolk.papers.conll import Conll, choose, read, rows
from kinfolk.papers.harness import Report, Row, Tell
from kinfolk.text.chain import MEMM, LinearChainCRF
from kinfolk.text.mixture import MixtureTagger
from kinfolk.text.skip_chain import SkipChainCRF
from kinfolk.text.skip_edges import SameWord
from kinfolk.text.tagger import Tagger

FEATURES = "sentence"
TRAINING = ({"l2": 0.01, "tolerance": 0.3}, {"l2": 0.1, "tolerance": 0.3}, {"l2": 0.1, "tolerance": 1.5e-4})
SKIPS: tuple[dict[str, Any], ...] = ({}, {"skip_edges": SameWord(ignore_case=True)})
EDGES: tuple[dict[str, Any], ...] = (
    {},
    {"edge_features": "default"},
    {"mixing": "learned"},
    {"mixing": "learned", "edge_features": "default"},
)
SKIP_CHAIN: tuple[dict[str, Any], ...] = (
    {},
    {"decode": "map"},
    {"edge_features": "default"},
    {"edge_features": "default", "decode": "map"},
)
BEYOND = ({"order": "both"}, {"templates": "document"}, {"templates": "document", "order": "both"})
PAPER = {
    **chain_conll.PAPER,
    ("conll2003", "mixture separate", "testa"): {"f1": 90.5, "fp": 8.7, "fn": 10.3},
    ("conll2003", "mixture joint", "testa"): {"f1": 90.9, "fp": 8.5, "fn": 9.8},
    ("conll2003", "skip-chain CRF", "testa"): {"f1": 91.2},
}
BASELINE = "MEMM posterior"


def run(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """All rows; `data` has the layout of the data folder (tokens/conll2003/eng.train, ...)."""
    began = time.perf_counter()
    corpora = read(data)
    found: list[Row] = []
    chosen: dict[str, Any] = {}
    trials: list[dict[str, Any]] = []
    for method, templates, variants in chain_conll.METHODS:
        if method in (MEMM, LinearChainCRF) and templates == FEATURES:
            settings = chain_conll.best_settings(method, templates, corpora, tell, n_jobs)
            chosen[method.__name__] = settings
            found += chain_conll.chain_rows(method, settings, variants, corpora, tell, n_jobs)
    best: tuple[dict[str, Any], float] = ({}, -1.0)
    for training in ("separate", "joint"):
        plain, _ = search(corpora, {"training": training}, (TRAINING,), tell, n_jobs, trials)
        settings, score = search(corpora, plain, (SKIPS, EDGES), tell, n_jobs, trials)
        for name, chosen_settings in (
            (f"mixture {training}", settings),
            (f"mixture {training}, as in the paper", plain),
        ):
            chosen[name] = chosen_settings
            found += mixture_rows(name, chosen_settings, corpora, tell, n_jobs)
        if score > best[1]:
            best = settings, score
    settings, _ = search(corpora, {}, (TRAINING, SKIPS, SKIP_CHAIN), tell, n_jobs, trials, SkipChainCRF)
    chosen["skip-chain CRF"] = settings
    found += _skip_chain_rows(settings, corpora, tell, n_jobs)
    settings, _ = search(corpora, best[0], (({}, *BEYOND),), tell, n_jobs, trials)
    chosen["mixture, best configuration"] = settings
    found += mixture_rows("mixture, best configuration", settings, corpora, tell, n_jobs)
    used = {"chosen on the last fifth of eng.train": chosen, "held-out F1 of all that was tried": trials}
    shown = ("f1", "fp", "fn", "fp_improvement", "fn_improvement")
    return Report("mop-conll", _with_improvement(found), time.perf_counter() - began, used, shown, PAPER)


def search(
    data: Conll,
    settings: dict[str, Any],
    stages: Iterable[Iterable[dict[str, Any]]],
    tell: Tell,
    n_jobs: int,
    trials: list[dict[str, Any]],
    method: type[Tagger] = MixtureTagger,
) -> tuple[dict[str, Any], float]:
    """Stage after stage, the best choice of each is kept for the next."""
    score = -1.0
    for stage in stages:
        grid = [{**settings, **choice} for choice in stage]
        settings, score = choose(method, data, grid, tell, n_jobs, trials)
    return settings, score


def mixture_rows(name: str, settings: dict[str, Any], data: Conll, tell: Tell, n_jobs: int) -> list[Row]:
    return rows(MixtureTagger(n_jobs=n_jobs, **settings).fit(data.train), name, data, tell)


def _skip_chain_rows(settings: dict[str, Any], data: Conll, tell: Tell, n_jobs: int) -> list[Row]:
    """With the number of documents in which belief propagation did not settle."""
    model = SkipChainCRF(n_jobs=n_jobs, **settings).fit(data.train)
    found = rows(model, "skip-chain CRF", data, tell)
    for row, test in zip(found, (data.testa, data.testb), strict=True):
        report = model.inference_report(test)
        row["not_converged"], row["documents"] = len(report.not_converged), len(report.converged)
        tell(f"skip-chain CRF, {row['split']}: {report}")
    return found


def _with_improvement(found: list[Row]) -> list[Row]:
    """Percent of the baseline's false positives and false negatives that are gone."""
    base = {row["split"]: row for row in found if row["model"] == BASELINE}
    for row in found:
        for error in ("fp", "fn"):
            row[f"{error}_improvement"] = 100 * (1 - row[error] / base[row["split"]][error])
    return found
