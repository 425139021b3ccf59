"""The same linkage by Splink and by kinfolk, both on DuckDB: one Parquet file of customers to clusters, end to end.

    python splink_engine.py '{"what": "run", "records": 100000, "folder": ..., "jobs": 2, "times": 2}'

Both get the same file, the same four rules, as much memory for DuckDB and as many threads, and a process of their own,
by turns. Nobody has labels, but in the row that says so.

splink     u from a million random pairs, the prior by rules that matches hardly break (recall 0.7, as in its tutorial),
           m by EM in two passes, comparisons of its library as its guides advise; predictions above 0.5 and their
           connected components above 0.5, 0.8 or 0.95, whichever is best by the truth, in hindsight (the clock runs for
           one of the three)
kinfolk    a sample of records with their candidates, comparisons and a mixture learned from it, all pairs scored,
           clusters by its own threshold
labels     kinfolk, with the true clusters of a sample of records

The last line it prints is its answer, as JSON: seconds from the file to clusters (imports and compiled kernels, which
are kept after the first use, apart), those of all cores, peak memory of the process, candidate pairs, pair F1.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from linkage_engines import pair_f1, write_customers
from measure import Stopwatch, peak_megabytes, request

Answer = dict[str, Any]
RULES = (
    "key(id_number)",
    "key(date_of_birth + given_name[:1])",
    "key(postcode + surname[:2])",
    "key(surname + given_name)",
)
THRESHOLDS = (0.5, 0.8, 0.95)
SAMPLE, LABELLED = 30_000, 20_000  # records


def splink(folder: Path, jobs: int, memory_limit: str) -> Answer:
    import duckdb
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on
    from splink import comparison_library as cl

    logging.disable(logging.WARNING)
    rules = [
        block_on("id_number"),
        block_on("date_of_birth", "substr(given_name, 1, 1)"),
        block_on("postcode", "substr(surname, 1, 2)"),
        block_on("surname", "given_name"),
    ]
    texts = [cl.JaroWinklerAtThresholds(name, [0.95, 0.9, 0.8, 0.7]) for name in ("address", "suburb")]
    codes = ("street_number", "postcode", "state", "id_number")
    settings: Any = SettingsCreator(
        link_type="dedupe_only",
        comparisons=[
            cl.NameComparison("given_name"),
            cl.NameComparison("surname"),
            cl.DateOfBirthComparison("date_of_birth", input_is_string=True, datetime_format="%Y%m%d"),
            *texts,
            *(cl.DamerauLevenshteinAtThresholds(name, [1, 2]) for name in codes),
        ],
        blocking_rules_to_generate_predictions=rules,
        retain_matching_columns=False,
        unique_id_column_name="id",
    )
    watch, busy = Stopwatch(), time.process_time()
    with watch.stage("all"):
        with watch.stage("read"):
            config = {"memory_limit": memory_limit, "threads": jobs, "temp_directory": str(folder / "spilled")}
            connection = duckdb.connect(str(folder / "splink.duckdb"), config=config)
            path = str(folder / "records.parquet")
            connection.execute(f"CREATE TABLE people AS SELECT * EXCLUDE entity FROM read_parquet('{path}')")
            api = DuckDBAPI(connection=connection)
            linker = Linker(api.register("people", dataset_display_name="records"), settings, log_level=logging.ERROR)
        with watch.stage("train"):
            sure = [block_on("given_name", "surname", "date_of_birth"), block_on("id_number")]
            linker.training.estimate_probability_two_random_records_match(sure, recall=0.7)
            linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=1)
            for rule in (block_on("given_name", "surname"), block_on("date_of_birth")):
                linker.training.estimate_parameters_using_expectation_maximisation(rule)
        with watch.stage("predict"):
            predictions = linker.inference.predict(threshold_match_probability=THRESHOLDS[0])
        with watch.stage("cluster"):
            found = [_splink_clusters(linker, predictions, THRESHOLDS[0])]
    cpu = time.process_time() - busy
    found += [_splink_clusters(linker, predictions, cut) for cut in THRESHOLDS[1:]]
    peak = peak_megabytes()
    return {**watch.seconds, "cpu_seconds": cpu, "peak_mb": peak, **_best(connection, folder, found)}


def _splink_clusters(linker: Any, predictions: Any, cut: float) -> Any:
    return linker.clustering.cluster_pairwise_predictions_at_threshold(predictions, threshold_match_probability=cut)


def _best(connection: Any, folder: Path, found: list[Any]) -> Answer:
    """Pair F1 of the best threshold."""
    scores = {}
    for cut, table in zip(THRESHOLDS, found, strict=True):
        query = (
            f"SELECT dense_rank() OVER (ORDER BY coalesce(c.cluster_id, r.id)) AS cluster, r.entity AS entity "
            f"FROM read_parquet('{folder / 'records.parquet'}') r LEFT JOIN {table.physical_name} c ON c.id = r.id"
        )
        rows = connection.sql(query).to_arrow_table()
        scores[cut] = pair_f1(rows.column("cluster").to_numpy(), rows.column("entity").to_numpy())
    cut = max(scores, key=lambda one: scores[one])
    return {"pair_f1": scores[cut], "threshold": cut, "all_f1": scores}


def kinfolk(folder: Path, jobs: int, memory_limit: str, labels: bool = False) -> Answer:
    from pyarrow import parquet

    import kinfolk as kf

    _warm_up(kf, jobs)
    watch, busy, path = Stopwatch(), time.process_time(), str(folder / "records.parquet")
    with watch.stage("all"), kf.DuckDB(memory_limit=memory_limit, temp_directory=folder, threads=jobs) as engine:
        with watch.stage("sample"):
            known = {"cluster": "entity", "most": LABELLED} if labels else {"blocking": list(RULES), "most": SAMPLE}
            sample = kf.sample_records(path, engine=engine, **known)
        if not labels:  # the file has the truth in a column, which nobody looks at
            sample = _without(sample, "entity")
        with watch.stage("train"):
            linker = kf.Linker(blocking=list(RULES), engine=engine, n_jobs=jobs).fit(sample)
        with watch.stage("cluster"):
            linker.cluster_frame(path, into=folder / "kinfolk.parquet")
    cpu, peak = time.process_time() - busy, peak_megabytes()
    rows = parquet.read_table(folder / "kinfolk.parquet", columns=["cluster", "entity"])
    f1 = pair_f1(rows.column("cluster").to_numpy(), rows.column("entity").to_numpy())
    return {**watch.seconds, "cpu_seconds": cpu, "peak_mb": peak, "trained_on": sample.n_items, "pair_f1": f1}


def _without(items: Any, name: str) -> Any:
    from dataclasses import replace

    return replace(items, columns={key: column for key, column in items.columns.items() if key != name})


def _warm_up(kf: Any, jobs: int) -> None:
    """Load the compiled kernels."""
    from dataclasses import replace

    items = kf.block(kf.generate_customers(300, seed=1), list(RULES))
    for one in (items, replace(items, clusters=None)):
        kf.Linker(n_jobs=jobs).fit(one).predict(one)


CONTESTANTS: dict[str, dict[str, Any]] = {
    "splink": {"what": "splink"},
    "kinfolk": {"what": "kinfolk"},
    "kinfolk, labels of a sample": {"what": "kinfolk", "labels": True},
}


def run(folder: Path, records: int, jobs: int = 2, memory_limit: str = "4GB", times: int = 2) -> Answer:
    """All contestants by turns."""
    write_customers(records, folder)
    found: dict[str, list[Answer]] = {name: [] for name in CONTESTANTS}
    for _ in range(times):
        for name, asked in CONTESTANTS.items():
            (folder / "splink.duckdb").unlink(missing_ok=True)
            given = {**asked, "folder": str(folder), "jobs": jobs, "memory_limit": memory_limit}
            done = subprocess.run([sys.executable, __file__, json.dumps(given)], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
            print(name, found[name][-1], file=sys.stderr, flush=True)
    lines = {
        name: {
            key: float(np.median([one[key] for one in rows])) for key in ("all", "cpu_seconds", "peak_mb", "pair_f1")
        }
        for name, rows in found.items()
    }
    return {"records": records, "median": lines, "runs": found}


def main() -> None:
    asked = request()
    what = {"splink": splink, "kinfolk": kinfolk, "run": run}[asked.pop("what")]
    print(json.dumps(what(**asked)))


if __name__ == "__main__":
    main()
