"""Records in DuckDB beside threads: the same Parquet file, the same clusters; each contestant a process of its own.

    python linkage_engines.py '{"what": "make", "records": 1000000, "folder": ...}'   writes the file, and a model
    python linkage_engines.py '{"what": "threads", "folder": ..., "jobs": 2}'         clusters in memory
    python linkage_engines.py '{"what": "duckdb", "folder": ..., "jobs": 2, "memory_limit": "500MB"}'
    python linkage_engines.py '{"what": "compare", "folder": ...}'                    are they the same?
    python linkage_engines.py '{"what": "blocking", "folder": ..., "jobs": 2}'        three keys, memory and DuckDB
                                                                                      ("many": true: more pairs)

The last line it prints is its answer, as JSON. Seconds are from the file to a file of answers, reading included; peaks
are of the whole process, libraries and all.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from linkage_scale import PEOPLE
from measure import Stopwatch, peak_megabytes, request

TRAINED_ON = 20_000
PIECE = 1_000_000  # records made at a time


def make(records: int, folder: Path) -> dict[str, Any]:
    """Generated customers, and a model trained on others."""
    import kinfolk as kf

    write_customers(records, folder)
    kf.Linker(blocking=list(PEOPLE)).fit(kf.generate_customers(TRAINED_ON, seed=1000)).save(folder / "model.kinfolk")
    return {"bytes": (folder / "records.parquet").stat().st_size}


def write_customers(records: int, folder: Path) -> None:
    """Generated customers with their true entities, a million at a time, in records.parquet."""
    import pyarrow
    from pyarrow import parquet

    import kinfolk as kf

    folder.mkdir(parents=True, exist_ok=True)
    writer = None
    for seed, start in enumerate(range(0, records, PIECE)):
        items = kf.generate_customers(min(PIECE, records - start), seed=seed)
        columns: dict[str, Any] = {"id": [f"{seed}-{items.name(k)}" for k in range(items.n_items)]}
        columns |= {name: column.strings() for name, column in items.columns.items()}
        columns["entity"] = np.asarray(items.clusters, np.int64) + start
        table = pyarrow.table(columns)
        writer = writer or parquet.ParquetWriter(folder / "records.parquet", table.schema)
        writer.write_table(table, row_group_size=100_000)
    if writer is not None:
        writer.close()


def threads(folder: Path, jobs: int) -> dict[str, Any]:
    from pyarrow import parquet

    import kinfolk as kf

    watch, linker = Stopwatch(), kf.load_model(folder / "model.kinfolk").set_params(n_jobs=jobs)
    with watch.stage("all"):
        found = linker.cluster_frame(parquet.read_table(folder / "records.parquet"))
        parquet.write_table(found, folder / "threads.parquet")
    return dict(watch.seconds)


def duckdb(folder: Path, jobs: int, memory_limit: str) -> dict[str, Any]:
    import kinfolk as kf

    watch = Stopwatch()
    with kf.DuckDB(memory_limit=memory_limit, temp_directory=folder, threads=jobs) as engine:
        linker = kf.load_model(folder / "model.kinfolk").set_params(n_jobs=jobs, engine=engine)
        with watch.stage("all"):
            linker.cluster_frame(str(folder / "records.parquet"), into=folder / "duckdb.parquet")
    return dict(watch.seconds)


def compare(folder: Path) -> dict[str, Any]:
    """How many records are in another cluster, how far probabilities are apart, and pair F1."""
    from pyarrow import parquet

    one, other = (
        parquet.read_table(folder / f"{name}.parquet", columns=["cluster", "probability", "entity"])
        for name in ("threads", "duckdb")
    )
    clusters = [table.column("cluster").to_numpy() for table in (one, other)]
    apart = np.abs(np.subtract(*(table.column("probability").to_numpy() for table in (one, other))))
    return {
        "records": one.num_rows,
        "other_clusters": int((clusters[0] != clusters[1]).sum()),
        "most_apart": float(apart.max()),
        "pair_f1": pair_f1(clusters[1], other.column("entity").to_numpy()),
    }


def pair_f1(clusters: Any, entity: Any) -> float:
    both = clusters * (int(entity.max()) + 1) + entity
    found, true, right = (
        int((n * (n - 1)).sum()) for of in (clusters, entity, both) for n in [np.unique(of, return_counts=True)[1]]
    )
    return 2 * right / (found + true)


MANY_PAIRS = ("key(id_number)", "key(date_of_birth)", "key(surname + given_name)")  # of a million, twelve million


def blocking(folder: Path, jobs: int, memory_limit: str = "2GB", many: bool = False) -> dict[str, Any]:
    """Three keys by kinfolk's own blocking and in DuckDB, by turns; records are read before the clock starts.

    many   other keys, that make more pairs of the same records
    """
    import kinfolk as kf
    from kinfolk.core.engine import ROW
    from kinfolk.linking.blocking_sql import BlockingTables

    keys = list(MANY_PAIRS if many else PEOPLE[:3])
    fields = ["given_name", "surname", "date_of_birth", "postcode", "id_number"]
    items = kf.read_records(folder / "records.parquet", fields=fields)
    watch, counts, busy = Stopwatch(), {}, {"memory": 0.0, "duckdb": 0.0}
    with kf.DuckDB(memory_limit=memory_limit, temp_directory=folder, threads=jobs) as engine:
        engine.read(str(folder / "records.parquet"), "kf_records", ROW)
        for turn in range(3):
            before = time.process_time()
            with watch.stage(f"memory {turn}"):
                counts["memory"] = kf.block(items, keys, n_jobs=jobs).n_pairs
            between = time.process_time()
            with watch.stage(f"duckdb {turn}"):
                rules = BlockingTables.of(engine, "kf_records", keys, "id")
                rules.make_keys()
                rules.make_pairs(10**9)
            busy["memory"] += between - before
            busy["duckdb"] += time.process_time() - between
            counts["duckdb"] = engine.rows("SELECT count(*) FROM kf_pairs")[0][0]
    return {**watch.seconds, "cpu_seconds": busy, "pairs": counts}


def main() -> None:
    asked = request()
    what = {"make": make, "threads": threads, "duckdb": duckdb, "compare": compare, "blocking": blocking}
    began = time.perf_counter()
    found = what[asked.pop("what")](**asked)
    print(json.dumps({**found, "all_seconds": time.perf_counter() - began, "peak_mb": peak_megabytes()}))


if __name__ == "__main__":
    main()
