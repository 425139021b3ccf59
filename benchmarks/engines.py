"""Engines beside threads: graphs in Parquet files, labelled by a stacked model; each contestant a process of its own.

    python engines.py '{"what": "graph", "nodes": 1000000, "folder": ...}'    writes the files, and a model
    python engines.py '{"what": "threads", "folder": ..., "jobs": 2}'         labels in memory
    python engines.py '{"what": "duckdb", "folder": ..., "jobs": 2, "memory_limit": "250MB"}'
    python engines.py '{"what": "compare", "folder": ...}'                    are they the same?

The last line it prints is its answer, as JSON. Seconds are from the files to a file of answers, reading included; peaks
are of the whole process, libraries and all.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measure import Stopwatch, peak_megabytes, request

CLASSES, FEATURES, LINKS, LABELLED = 7, 32, 10, 0.02
ALIKE, SIGNAL = 0.7, 0.25  # the share of links within a class; how far apart the classes are
TRAINED_ON = 20_000
PIECE = 500_000  # nodes made at a time
STEP = 7919  # a prime: ids are the rows times this, modulo their number, so that they are in no order


def graph(nodes: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Files of nodes and of links, written piece by piece, and a model trained on a small graph of the same kind."""
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    written = {"nodes": None, "edges": None}
    for piece in pieces(nodes, seed):
        for name, columns in piece.items():
            table = pyarrow.table(columns)
            if written[name] is None:
                written[name] = parquet.ParquetWriter(folder / f"{name}.parquet", table.schema)
            written[name].write_table(table)
    for writer in written.values():
        writer.close()
    train(folder / "model.kinfolk", seed)
    return {name: (folder / f"{name}.parquet").stat().st_size for name in written}


def pieces(n: int, seed: int) -> Iterator[dict[str, dict[str, Any]]]:
    """Nodes of class row % 7 with features around its centre, each with 10 links, most of them within its class."""
    centres = np.random.default_rng(99).normal(size=(CLASSES, FEATURES)).astype(np.float32)
    assert n % STEP
    for start in range(0, n, PIECE):
        rng = np.random.default_rng([seed, start])
        row = np.arange(start, min(n, start + PIECE))
        truth = row % CLASSES
        features = SIGNAL * centres[truth] + rng.standard_normal((len(row), FEATURES), dtype=np.float32)
        label = np.where(rng.random(len(row)) < LABELLED, np.array([f"class {c}" for c in range(CLASSES)])[truth], None)
        source = np.repeat(row, LINKS)
        target = rng.integers(n - CLASSES, size=len(source))
        alike = rng.random(len(source)) < ALIKE
        target[alike] += (source[alike] - target[alike]) % CLASSES
        columns = {"id": row * STEP % n, "label": label.astype(object)}
        columns |= {f"f{i}": features[:, i] for i in range(FEATURES)}
        yield {"nodes": columns, "edges": {"source": source * STEP % n, "target": target * STEP % n}}


def train(path: Path, seed: int) -> None:
    from sklearn.linear_model import LogisticRegression

    from kinfolk import Count, Graph, StackedNodes

    piece = next(pieces(TRAINED_ON, seed + 1))
    known = Graph.from_frames(piece["nodes"], piece["edges"], label="label")
    templates = [Count("links_to"), Count("linked_from")]
    StackedNodes(LogisticRegression(max_iter=300), templates, known="true").fit(known).save(path)


def threads(folder: Path, jobs: int) -> dict[str, Any]:
    """From the files to a file of answers, in memory."""
    import pyarrow
    from pyarrow import parquet

    from kinfolk import load_model, read_tables

    model = load_model(folder / "model.kinfolk").set_params(n_jobs=jobs)
    watch = Stopwatch()
    with watch.stage("read"):
        read = read_tables(folder / "nodes.parquet", folder / "edges.parquet", label="label")
    with watch.stage("predict"):
        table = model.predict_proba(read, forced=True)
    with watch.stage("write"):
        columns = {"kf_row": np.arange(len(table)), "label": model.classes_[table.argmax(axis=1)]}
        columns |= {f"p{c}": table[:, c] for c in range(CLASSES)}
        parquet.write_table(pyarrow.table(columns), folder / "threads.parquet")
    return dict(watch.seconds)


def duckdb(folder: Path, jobs: int, memory_limit: str) -> dict[str, Any]:
    """The same in DuckDB."""
    from kinfolk import load_model
    from kinfolk.engines.duckdb import DuckDB
    from kinfolk.graph.in_engine import predict_in

    model = load_model(folder / "model.kinfolk")
    watch = Stopwatch()
    with DuckDB(memory_limit=memory_limit, threads=jobs, temp_directory=folder) as engine:
        with watch.stage("predict"):
            predict_in(engine, model, folder / "nodes.parquet", folder / "edges.parquet", label="label", forced=True)
        with watch.stage("write"):
            engine.run(f"COPY (SELECT * FROM kf_labels) TO '{folder / 'duckdb.parquet'}'")
    return dict(watch.seconds)


def compare(folder: Path, first: str = "threads", second: str = "duckdb") -> dict[str, Any]:
    """How many labels differ, and by how much probabilities do at most."""
    import duckdb as database

    files = [f"'{folder / name}.parquet'" for name in (first, second)]
    columns = [name for name, *_ in database.sql(f"DESCRIBE SELECT * FROM {files[1]}").fetchall()][2:]
    pairs = zip((f"p{c}" for c in range(CLASSES)), columns, strict=True)
    most = ", ".join(f'abs(a.{one} - b."{other}")' for one, other in pairs)
    both = f"{files[0]} a JOIN {files[1]} b ON a.kf_row = b.kf_row"
    query = f"SELECT count(*), count(*) FILTER (a.label <> b.label), max(greatest({most})) FROM {both}"
    nodes, labels, probability = database.sql(query).fetchall()[0]
    return {"nodes": nodes, "other_labels": labels, "most_apart": probability}


def main() -> None:
    asked = request()
    what = {"graph": graph, "threads": threads, "duckdb": duckdb, "compare": compare}[asked.pop("what")]
    if asked.pop("verbose", False):
        logging.basicConfig(level=logging.DEBUG, format="%(relativeCreated)d %(message)s", stream=sys.stderr)
    began = time.perf_counter()
    found = what(**asked)
    print(
        json.dumps(
            {
                **found,
                "all_seconds": time.perf_counter() - began,
                "cpu_seconds": time.process_time(),
                "peak_mb": peak_megabytes(),
            }
        )
    )


if __name__ == "__main__":
    main()
