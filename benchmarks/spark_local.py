"""Spark in local mode beside threads, in one process: the same records from one Parquet file, the same clusters.

    python spark_local.py '{"what": "records", "records": 200000, "cores": 2, "times": 3}'

Needs PySpark and Java 17 (make test-spark installs the first). The last line it prints is its answer, as JSON: seconds
of the first run on Spark, which starts workers and loads their kernels, and of later ones beside threads, by turns; by
step of the engine, those of the last one.
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

Answer = dict[str, Any]
STEPS = ("read", "map", "make", "add", "number", "fill", "rows", "arrow", "units")


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


def watched(engine: Any) -> dict[str, list[tuple[str, float]]]:
    """Seconds of every call of an engine's methods, with what it was about."""
    found: dict[str, list[tuple[str, float]]] = defaultdict(list)

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

        def on_spark() -> tuple[Any, dict[str, list[tuple[str, float]]]]:
            with Spark(session) as engine:
                steps = watched(engine)
                cluster_in(engine, linker, path)
                return engine.arrow(f"SELECT cluster, probability FROM kf_clusters ORDER BY {ROW}"), steps

        found: dict[str, list[float]] = {"spark": [], "threads": []}
        for _ in range(times + 1):
            began = time.perf_counter()
            ours, steps = on_spark()
            found["spark"].append(time.perf_counter() - began)
            began = time.perf_counter()
            known = linker.cluster_frame(parquet.read_table(path))
            found["threads"].append(time.perf_counter() - began)
            print({name: round(seconds[-1], 1) for name, seconds in found.items()}, file=sys.stderr, flush=True)
    first = {name: seconds.pop(0) for name, seconds in found.items()}
    middle = {name: statistics.median(seconds) for name, seconds in found.items()}
    probability = np.abs(np.subtract(ours.column("probability"), known.column("probability")))
    return {
        "records": records, "cores": cores, "first": first, **found, "ratio": middle["spark"] / middle["threads"],
        "same_clusters": ours.column("cluster").equals(known.column("cluster")),
        "probabilities_apart": float(probability.max()), "steps": steps,
    }  # fmt: skip


PARTS: dict[str, Callable[..., Answer]] = {"records": records}


def main(what: str, **settings: Any) -> Answer:
    busy = os.getloadavg()[0]
    return {"load_average": busy, **PARTS[what](**settings)}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
