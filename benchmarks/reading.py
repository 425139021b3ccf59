"""Seconds of reading, beside the plainest loop that looks at every line once: ratios within one run.

python benchmarks/reading.py [--data DIR]
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Callable
from pathlib import Path

from measure import table_of_seconds

from kinfolk import read_conll, read_linqs
from kinfolk.datasets.webkb import parse_page
from kinfolk.text.schemes import convert, spans

RUNS = 3
NONSENSE = ("<!-- ", "<a href=", "<h1><p>", "<a href=x><p>", "<", "<script>", "<title>", "&#")


def best(run: Callable[[], object]) -> float:
    """CPU seconds of the best of a few runs."""
    seconds = []
    for _ in range(RUNS):
        began = time.process_time()
        run()
        seconds.append(time.process_time() - began)
    return min(seconds)


def split_lines(path: Path) -> int:
    """What no reader can do without: every line read and split."""
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8")
    with opened as lines:
        return sum(len(line.split()) for line in lines)


def seconds_of_page(piece: str, times: int) -> float:
    text = piece * times
    return best(lambda: parse_page(text, "http://school.edu/"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of data sets")
    data = parser.parse_args().data
    train = data / "tokens" / "conll2003" / "eng.train"
    cora = data / "nodes" / "cora_linqs"
    corpus = read_conll(train)
    labels = corpus.labels
    assert labels is not None
    starts, loop = corpus.sentence_starts, best(lambda: split_lines(train))
    rows = {
        "read eng.train": (best(lambda: read_conll(train)), loop),
        "spans of eng.train": (best(lambda: spans(labels, starts, "IOB1")), loop),
        "eng.train to BIO": (best(lambda: convert(labels, starts, "IOB1", "BIO")), loop),
        "read Cora": (
            best(lambda: read_linqs(cora / "cora.content.gz", cora / "cora.cites")),
            best(lambda: split_lines(cora / "cora.content.gz")),
        ),
    }
    for piece in NONSENSE:  # linear: twice the length, twice the time
        rows[f"page of {piece!r}, twice as long"] = (seconds_of_page(piece, 60_000), seconds_of_page(piece, 30_000))
    table_of_seconds(("", "seconds", "line by line, or half the page", "ratio"), rows)


if __name__ == "__main__":
    main()
