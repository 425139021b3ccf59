"""Tables 1 to 3 of the paper on LitBank: the first 80 documents by file name train, the last 20 test."""

from __future__ import annotations

from pathlib import Path

from kinfolk.linking.coref import read_coref
from kinfolk.papers.harness import Report, Tell
from kinfolk.papers.slt import tables

TRAINING = 80


def run(data: Path, tell: Tell, jobs: int) -> Report:
    """`data` has the layout of the data folder."""
    everything = read_coref(data / "mentions" / "litbank" / "litbank.tar.gz")
    train = everything.take_groups(range(TRAINING))
    test = everything.take_groups(range(TRAINING, everything.n_groups))
    return tables("slt-litbank", [("LitBank", train, test)], tell, jobs)
