"""Table 1, CSpace: person names in e-mail, five folds. 652 Enron messages stand in for the 216 of the paper."""

from __future__ import annotations

from pathlib import Path

from kinfolk.datasets.corpora import read_mail
from kinfolk.papers.harness import Report, Tell
from kinfolk.papers.stacked_names import PAPER_ROWS, run_folds
from kinfolk.text.corpus import Corpus

PAPER = dict(zip(PAPER_ROWS, (80.3, 81.2, 82.5, 82.4, 84.6), strict=True))


def run(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """All rows; `data` has the layout of the data folder (tokens/enron_person)."""
    archive = data / "tokens" / "enron_person" / "enron_person.tar.gz"
    corpus = Corpus.joined([read_mail(archive, split) for split in ("training", "test")])
    return run_folds("stacked-enron", "enron", corpus, PAPER, tell, n_jobs, (0.3, 1.0, 3.0))
