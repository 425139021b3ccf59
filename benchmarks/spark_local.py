"""Spark in local mode beside threads, in one process: the same Parquet files in, the same answers out.

    python spark_local.py '{"what": "records", "records": 200000, "cores": 2, "times": 3}'    clusters of customers
    python spark_local.py '{"what": "nodes", "nodes": 300000, "cores": 2, "times": 3}'        labels of nodes, written
    python spark_local.py '{"what": "nodes", "nodes": 300000, "holds": 0}'    the same, with all links joined by queries
    python spark_local.py '{"what": "tokens", "tokens": 300000, "cores": 2, "times": 3}'      labels of tokens, written

Needs PySpark and Java 17 (make test-spark installs the first). The last line it prints is its answer, as JSON: seconds
of the first run on Spark, which starts workers and loads their kernels, and of later ones beside threads, by turns, and
those of processors (of Java's compiler too); by step of the engine, those of the last one. Linux only: it reads
/proc.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from linkage_scale import PEOPLE, TRAINED_ON
from scale import newswire_table, processor_seconds

Answer = dict[str, Any]
Steps = dict[str, list[tuple[str, float]]]
STEPS = (
    "read",
    "map",
    "make",
    "add",
    "number",
    "fill",
    "rows",
    "arrow",
    "units",
    "map_with",
    "labelled",
    "answered",
    "write",
)


@contextmanager
def started(cores: int, folder: str) -> Iterator[Any]:
    """A session of Spark in local mode, in whose workers this Python runs."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    settings = {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    session = SparkSession.builder.config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def watched(engine: Any) -> Steps:
    """Seconds of every call of an engine's methods, with what it was about."""
    found: Steps = defaultdict(list)

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **settings: Any) -> Any:
            began = time.perf_counter()
            answer = function(*given, **settings)
            found[name].append((str(given[0])[:70], round(time.perf_counter() - began, 3)))
            return answer

        return call

    for name in STEPS:
        setattr(engine, name, timed(name, getattr(engine, name)))
    return found


def records(records: int, cores: int = 2, times: int = 3, seed: int = 0) -> Answer:
    """Cluster generated customers with the four rules of the benchmark of linkage."""
    import pyarrow
    from pyarrow import parquet

    from kinfolk.core.engine import ROW
    from kinfolk.datasets.customers import generate_customers
    from kinfolk.engines.spark import Spark
    from kinfolk.linking.clusterers import AverageLink
    from kinfolk.linking.in_engine import cluster_in
    from kinfolk.linking.linker import Linker

    items = generate_customers(records, seed=seed)
    assert items.clusters is not None
    chosen = np.random.default_rng(seed).random(int(items.clusters.max()) + 1) < TRAINED_ON
    linker = Linker(blocking=list(PEOPLE), clusterer=AverageLink(), n_jobs=cores)
    linker.fit(items.take(chosen[items.clusters]))
    columns: dict[str, Any] = {"id": [items.name(k) for k in range(items.n_items)]}
    columns |= {name: list(column.strings()) for name, column in items.columns.items()}
    with tempfile.TemporaryDirectory() as folder, started(cores, folder) as session:
        path = f"{folder}/people.parquet"
        parquet.write_table(pyarrow.table(columns), path)
        del items, columns

        def on_spark() -> tuple[Any, Steps]:
            with Spark(session) as engine:
                steps = watched(engine)
                cluster_in(engine, linker, path)
                return engine.arrow(f"SELECT cluster, probability FROM kf_clusters ORDER BY {ROW}"), steps

        ours, known, seconds, steps = by_turns(on_spark, lambda: linker.cluster_frame(parquet.read_table(path)), times)
    probability = np.abs(np.subtract(ours.column("probability"), known.column("probability")))
    return {
        "records": records, "cores": cores, **seconds,
        "same_clusters": ours.column("cluster").equals(known.column("cluster")),
        "probabilities_apart": float(probability.max()), "steps": steps,
    }  # fmt: skip


def nodes(nodes: int, cores: int = 2, times: int = 3, seed: int = 0, holds: int | None = None) -> Answer:
    """Label the nodes of the benchmark of engines, ten links each, from files to a file. `holds`: bytes of ids and
    links that the driver puts in order; more are joined by queries."""
    from pathlib import Path

    from pyarrow import parquet

    from engines import graph
    from kinfolk import load_model
    from kinfolk.engines.spark import Spark

    asked: dict[str, Any] = {"label": "label", "forced": True, "proba": True}
    Spark.holds = Spark.holds if holds is None else holds
    with tempfile.TemporaryDirectory() as folder, started(cores, folder) as session:
        graph(nodes, Path(folder), seed)
        files = [f"{folder}/{name}.parquet" for name in ("nodes", "edges")]
        model = load_model(f"{folder}/model.kinfolk").set_params(n_jobs=cores)

        def on_spark() -> tuple[Any, Steps]:
            with Spark(session) as engine:
                steps = watched(engine)
                model.set_params(engine=engine).predict_tables(*files, into=f"{folder}/spark.parquet", **asked)
                return f"{folder}/spark.parquet", steps

        def in_threads() -> Any:
            found = model.set_params(engine=None).predict_tables(*map(parquet.read_table, files), **asked)
            parquet.write_table(found, f"{folder}/threads.parquet")
            return found

        path, known, seconds, steps = by_turns(on_spark, in_threads, times)
        ours = parquet.read_table(path)
    names = [name for name in known.column_names if name.startswith("probability")]
    apart = max(float(np.abs(np.subtract(ours.column(name), known.column(name))).max()) for name in names)
    return {
        "nodes": nodes, "cores": cores, **seconds, "same_order": ours.column("id").equals(known.column("id")),
        "other_labels": int(np.sum(ours.column("predicted").to_numpy() != known.column("predicted").to_numpy())),
        "probabilities_apart": apart, "steps": steps,
    }  # fmt: skip


def tokens(tokens: int, cores: int = 2, times: int = 3, seed: int = 0) -> Answer:
    """Label generated newswire with a linear-chain CRF, from one Parquet file to another."""
    from pyarrow import parquet

    from kinfolk.datasets.newswire import generate_newswire
    from kinfolk.engines.spark import Spark
    from kinfolk.text.chain import LinearChainCRF

    tagger = LinearChainCRF(n_jobs=cores).fit(generate_newswire(100, seed=seed + 1))
    with tempfile.TemporaryDirectory() as folder, started(cores, folder) as session:
        path = f"{folder}/tokens.parquet"
        parquet.write_table(newswire_table(tokens, seed), path)

        def on_spark() -> tuple[Any, Steps]:
            with Spark(session) as engine:
                steps = watched(engine)
                return tagger.tag(path, engine=engine, into=f"{folder}/spark.parquet"), steps

        def in_threads() -> Any:
            return tagger.tag(path, into=f"{folder}/threads.parquet")

        ours, known, seconds, steps = by_turns(on_spark, in_threads, times)
        ours, known = (parquet.read_table(one) for one in (ours, known))
    return {"tokens": known.num_rows, "cores": cores, **seconds, "same": ours.equals(known), "steps": steps}


def by_turns(
    on_spark: Callable[[], tuple[Any, Steps]], in_threads: Callable[[], Any], times: int
) -> tuple[Any, Any, Answer, Steps]:
    """What both answer; seconds, and those of processors, of the first turn and of the others; how many times as long
    Spark takes once warm, by the medians; and the steps of the last turn."""
    found: dict[str, list[float]] = {"spark": [], "threads": [], "spark_cpu": [], "threads_cpu": []}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        busy, began = processor_seconds(), time.perf_counter()
        answer = call()
        found[name].append(time.perf_counter() - began)
        found[f"{name}_cpu"].append(processor_seconds() - busy)
        return answer

    for _ in range(times + 1):
        ours, steps = timed("spark", on_spark)
        known = timed("threads", in_threads)
        print({name: round(seconds[-1], 1) for name, seconds in found.items()}, file=sys.stderr, flush=True)
    first = {name: seconds.pop(0) for name, seconds in found.items()}
    middle = {name: statistics.median(seconds) for name, seconds in found.items()}
    ratios = {"ratio": middle["spark"] / middle["threads"], "cpu_ratio": middle["spark_cpu"] / middle["threads_cpu"]}
    return ours, known, {"first": first, **found, **ratios}, steps


# A part for each task: its name, and what answers for so many of it.
PARTS: dict[str, Callable[..., Answer]] = {"records": records, "nodes": nodes, "tokens": tokens}


def main(what: str, **settings: Any) -> Answer:
    busy = os.getloadavg()[0]
    return {"load_average": busy, **PARTS[what](**settings)}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
