"""Table 1, UT: protein names in abstracts, five folds. AIMed's 224 abstracts stand in for the 748 of the paper."""

from __future__ import annotations

from pathlib import Path

from kinfolk.datasets.corpora import read_aimed
from kinfolk.papers.harness import Report, Tell
from kinfolk.papers.stacked_names import PAPER_ROWS, run_folds

PAPER = dict(zip(PAPER_ROWS, (73.1, 76.8, 78.3, 78.4, 80.5), strict=True))


def run(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """All rows; `data` has the layout of the data folder (tokens/aimed_ppi)."""
    folder = data / "tokens" / "aimed_ppi"
    corpus = read_aimed([folder / "AIMed-train.xml", folder / "AIMed-test.xml"])
    return run_folds("stacked-aimed", "aimed", corpus, PAPER, tell, n_jobs, (0.3, 1.0, 3.0))
