"""A stacked CRF on CoNLL-2003 English, beside the linear-chain CRF it stands on and the mixture of parents.

For sentence features and for document features. Settings of the chain are chosen on the last fifth of the training
documents, as in chain-conll, and every level of the stack has them; those of the mixture as in mop-conll, separate
training. The templates are those of the protein names (stacked-genia).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from kinfolk.papers import chain_conll, mop_conll
from kinfolk.papers.conll import Conll, read, rows
from kinfolk.papers.harness import Report, Row, Tell
from kinfolk.papers.stacked_names import GRAPHICAL
from kinfolk.text.chain import LinearChainCRF
from kinfolk.text.stacked import StackedTagger

DEPTH = 2


def run(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """All rows; `data` has the layout of the data folder (tokens/conll2003/eng.train, ...)."""
    began = time.perf_counter()
    corpora = read(data)
    chosen: dict[str, Any] = {}
    found: list[Row] = []
    for templates, suffix in (("sentence", ""), ("document", ", document features")):
        settings = chain_conll.best_settings(LinearChainCRF, templates, corpora, tell, n_jobs)
        chosen[f"linear-chain CRF{suffix}"] = settings
        found += stacked_rows(settings, suffix, corpora, tell, n_jobs)
    stages = (mop_conll.TRAINING, mop_conll.SKIPS, mop_conll.EDGES)
    mixture, _ = mop_conll.search(corpora, {"training": "separate"}, stages, tell, n_jobs, [])
    chosen["mixture separate"] = mixture
    found += mop_conll.mixture_rows("mixture separate", mixture, corpora, tell, n_jobs)
    used = {"chosen on the last fifth of eng.train": chosen, "templates": [repr(t) for t in GRAPHICAL]}
    return Report("stacked-conll", found, time.perf_counter() - began, used, ("f1", "fp", "fn"), mop_conll.PAPER)


def stacked_rows(settings: dict[str, Any], suffix: str, data: Conll, tell: Tell, n_jobs: int) -> list[Row]:
    """The CRF alone and with one and two levels above it, from one training."""
    base = LinearChainCRF(n_jobs=n_jobs, **settings)
    model = StackedTagger(base, list(GRAPHICAL), DEPTH, cross_fitting="paper", n_jobs=n_jobs).fit(data.train)
    found: list[Row] = []
    for depth in range(DEPTH + 1):
        name = f"stacked k={depth}" if depth else "linear-chain CRF"
        found += rows(model.at_depth(depth), name + suffix, data, tell)
    return found
