"""A small graph of papers as tables: numbers and venues that tell little, links that tell more."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

TABLES = ["--id", "paper", "--source", "citing", "--target", "cited", "--link", "cites", "--inverse", "cited_by"]
COLUMNS = dict(id="paper", source="citing", target="cited", link="cites", inverse="cited_by")  # the same in Python
TOPICS = np.array(["DB", "IR", "ML"])
Rows = list[dict[str, Any]]


def papers(n: int, seed: int) -> tuple[Rows, Rows]:
    """Nodes (paper, length, age, venue, title, topic) and links (citing, cited); p0, ... with seed 0, else q0, ..."""
    rng = np.random.default_rng(seed)
    topic, name = np.arange(n) % 3, "q" if seed else "p"
    venues, words = np.array(["VLDB", "SIGIR", "ICML", "other"]), np.array(["index", "query", "kernel", "on", "the"])
    nodes = [
        {
            "paper": f"{name}{i}",
            "length": round(float(rng.normal(topic[i])), 3),
            "age": int(rng.integers(9)),
            "venue": str(venues[topic[i] if rng.random() < 0.5 else 3]),
            "title": " ".join(words[rng.integers(5, size=3)]),
            "topic": str(TOPICS[topic[i]]),
        }
        for i in range(n)
    ]
    near = rng.random((n, n)) < np.where(topic[:, None] == topic, 9 / n, 1 / n)
    links = np.argwhere(near & ~np.eye(n, dtype=bool))
    return nodes, [{"citing": f"{name}{i}", "cited": f"{name}{j}"} for i, j in links]


def write(file: Path, rows: Rows, delimiter: str = ",") -> Path:
    """A table, CSV or by its name Parquet."""
    if file.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), file)
        return file
    with open(file, "w", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return file


def without(rows: Rows, *columns: str) -> Rows:
    return [{name: value for name, value in row.items() if name not in columns} for row in rows]


def write_papers(folder: Path, prefix: str, n: int, seed: int) -> None:
    """<prefix>.csv with numbers alone, <prefix>_words.csv with venues and titles too, <prefix>_links.csv."""
    nodes, links = papers(n, seed)
    write(folder / f"{prefix}.csv", without(nodes, "venue", "title"))
    write(folder / f"{prefix}_words.csv", nodes)
    write(folder / f"{prefix}_links.csv", links)


def assert_refused(answer: Any, *parts: object) -> None:
    """One line on standard error that holds all the parts, status 2, nothing on standard output."""
    assert answer.status == 2 and answer.out == "", answer
    last = answer.err.splitlines()[-1]
    assert last.startswith("error: ") and answer.err.count("error: ") == 1 and "Traceback" not in answer.err, answer.err
    for part in parts:
        assert str(part) in last
