"""Table 1, CiteSeer: 3,312 papers of six subjects, five folds."""

from __future__ import annotations

from pathlib import Path

from kinfolk.papers.harness import Report, Tell
from kinfolk.papers.stacked_citations import run_citations

PRINTED = (55.3, 58.7, 59.8, 59.8, 62.3)


def run(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """All rows; `data` has the layout of the data folder (nodes/citeseer_linqs)."""
    return run_citations("citeseer", PRINTED, data, tell, n_jobs)
