"""Chain models on CoNLL-2003 English: the chain rows of Figure 2 of the mixture-of-parents paper.

Ridge, tag encoding and when to stop are chosen on the last fifth of the training documents, by a model trained on the
first four fifths; the chosen model is then trained on all of eng.train and scored once on each test file.
"""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
from typing import Any

from kinfolk.papers.conll import Conll, choose, read, rows
from kinfolk.papers.harness import Report, Row, Tell
from kinfolk.text.chain import MEMM, LinearChainCRF, MaxEnt
from kinfolk.text.tagger import Tagger

# A loose tolerance stops early, which regularises too: how long to train is chosen like the ridge.
GRID: dict[str, tuple[Any, ...]] = {"l2": (0.01, 0.1), "encoding": ("BIO", "IOBES"), "tolerance": (0.3, 1.5e-4)}
Variants = dict[str, dict[str, Any]]  # model of the table -> how it decodes
METHODS: list[tuple[type[Tagger], str, Variants]] = [
    (MaxEnt, "sentence", {"MaxEnt": {}}),
    (MEMM, "sentence", {"MEMM Viterbi": {"decode": "viterbi"}, "MEMM posterior": {"decode": "posterior"}}),
    (LinearChainCRF, "sentence", {"linear-chain CRF": {}}),
    (LinearChainCRF, "document", {"linear-chain CRF, document features": {}}),
]
PAPER = {
    ("conll2003", "MEMM Viterbi", "testa"): {"f1": 89.8, "fp": 9.0, "fn": 11.4},
    ("conll2003", "MEMM posterior", "testa"): {"f1": 89.9, "fp": 9.2, "fn": 10.9},
    ("conll2003", "linear-chain CRF", "testa"): {"f1": 90.6, "fp": 8.5, "fn": 10.3},
}


def run(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """All rows; `data` has the layout of the data folder (tokens/conll2003/eng.train, ...)."""
    began = time.perf_counter()
    found: list[Row] = []
    chosen: dict[str, Any] = {}
    corpora = read(data)
    for method, templates, variants in METHODS:
        chosen[f"{method.__name__}, {templates}"] = settings = best_settings(method, templates, corpora, tell, n_jobs)
        found += chain_rows(method, settings, variants, corpora, tell, n_jobs)
    used = {"chosen on the last fifth of eng.train": chosen, "grid": {k: list(v) for k, v in GRID.items()}}
    return Report("chain-conll", found, time.perf_counter() - began, used, ("f1", "fp", "fn"), PAPER)


def best_settings(method: type[Tagger], templates: str, data: Conll, tell: Tell, n_jobs: int) -> dict[str, Any]:
    grid = ({"templates": templates, **dict(zip(GRID, values, strict=True))} for values in product(*GRID.values()))
    return choose(method, data, grid, tell, n_jobs)[0]


def chain_rows(
    method: type[Tagger], settings: dict[str, Any], variants: Variants, data: Conll, tell: Tell, n_jobs: int
) -> list[Row]:
    """Train on all of eng.train; a row for each variant and test file."""
    model = method(n_jobs=n_jobs, **settings).fit(data.train)
    return [row for name, decoding in variants.items() for row in rows(model.set_params(**decoding), name, data, tell)]
