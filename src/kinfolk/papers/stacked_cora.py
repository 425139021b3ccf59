"""Table 1, Cora: 2,708 papers of seven subjects, five folds."""

from __future__ import annotations

from pathlib import Path

from kinfolk.papers.harness import Report, Tell
from kinfolk.papers.stacked_citations import run_citations

PRINTED = (63.9, 72.9, 73.8, 73.9, 76.9)


def run(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """All rows; `data` has the layout of the data folder (nodes/cora_linqs)."""
    return run_citations("cora", PRINTED, data, tell, n_jobs)
