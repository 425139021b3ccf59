"""Table 1, Genia: protein names in 2,000 abstracts, five folds.

Tokens are words as blanks and marks divide them, as is usual for this corpus (IL-2 is one): a name that ends within a
word (IL-2-induced) is widened to all of it.
"""

from __future__ import annotations

from pathlib import Path

from kinfolk.datasets.corpora import read_genia
from kinfolk.papers.harness import Report, Tell
from kinfolk.papers.stacked_names import PAPER_ROWS, run_folds

PAPER = dict(zip(PAPER_ROWS, (72.0, 77.1, 77.9, 78.0, 80.3), strict=True))


def run(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """All rows; `data` has the layout of the data folder (tokens/genia)."""
    corpus = read_genia(data / "tokens" / "genia" / "GENIAcorpus3.02.tgz", tokenise="words")
    return run_folds("stacked-genia", "genia", corpus, PAPER, tell, n_jobs)
