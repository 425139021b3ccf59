"""What a pair of records, an edge and a token cost in each engine, and what a billion would: docs/scale.md.

    python scale.py '{"what": "measure", "folder": ...}'    measures, and writes scale_measured.json beside this file
    python scale.py '{"what": "table"}'                     makes the tables of docs/scale.md again, from that file
    python scale.py '{"what": "table", "price": 0.04}'      the same at another price of a core-hour, to standard output

Each engine labels or clusters two sizes of the same data, each in a process of its own, from Parquet to Parquet, after
a tiny table that starts its workers and loads kernels: what a unit costs is the slope between the two, and what is left
is fixed. Processor time is that of the process and all it started (the Java machine and Python workers of Spark too),
so a busy machine changes it little; memory is the most they held together, tables the most in the engine's folder,
shuffle the most in that of Spark's own files. Linux only: it reads /proc.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MEASURED, PAGE = HERE / "scale_measured.json", HERE.parent / "docs" / "scale.md"
BEGIN, END = "<!-- figures: benchmarks/scale.py writes what is between these lines -->", "<!-- end of figures -->"
ENGINES = ("threads", "duckdb", "spark")
SIZES = {"records": (5_000, 25_000), "edges": (100_000, 500_000), "tokens": (300_000, 1_200_000)}
CORES, DUCKDB_LIMIT, LIMIT_BYTES = 2, "200MB", 2e8
Answer = dict[str, Any]


# -- What is measured ---------------------------------------------------------------------------------


def newswire_table(tokens: int, seed: int = 0) -> Any:
    """Generated newswire, a row a token, about so many."""
    import numpy as np
    import pyarrow

    from kinfolk.datasets.newswire import generate_newswire

    corpus = generate_newswire(max(1, tokens // 178), seed=seed)
    document = np.char.add("d", corpus.token_documents.astype(str))
    words, pos = (corpus.columns[name].strings() for name in ("word", "pos"))
    return pyarrow.table({"document": document, "sentence": corpus.token_sentences, "word": words, "pos": pos})


def make(kind: str, size: int, folder: Path) -> int:
    """Files of this size and a model; how many units they are."""
    import kinfolk as kf

    folder.mkdir(parents=True, exist_ok=True)
    if kind == "tokens":
        from pyarrow import parquet

        table = newswire_table(size)
        parquet.write_table(table, folder / "tokens.parquet")
        kf.LinearChainCRF(n_jobs=CORES).fit(kf.generate_newswire(100, seed=1)).save(folder / "model.kinfolk")
        return int(table.num_rows)
    if kind == "edges":
        from engines import LINKS, graph

        graph(size // LINKS, folder)
        return size // LINKS * LINKS
    from linkage_engines import write_customers
    from linkage_scale import PEOPLE

    write_customers(size, folder)
    kf.Linker(blocking=list(PEOPLE)).fit(kf.generate_customers(5_000, seed=1000)).save(folder / "model.kinfolk")
    return kf.block(kf.read_records(folder / "records.parquet", cluster="entity"), list(PEOPLE)).n_pairs


def work(kind: str, folder: Path, engine: Any, out: Path) -> None:
    """From Parquet to Parquet, in an engine; None: threads."""
    import kinfolk as kf

    model = kf.load_model(folder / "model.kinfolk").set_params(n_jobs=CORES)
    if kind == "tokens":
        model.tag(str(folder / "tokens.parquet"), engine=engine, into=out)
    elif kind == "records" and engine is not None:
        model.set_params(engine=engine).cluster_frame(str(folder / "records.parquet"), into=out)
    elif kind == "records":
        from pyarrow import parquet

        parquet.write_table(model.cluster_frame(parquet.read_table(folder / "records.parquet")), out)
    elif engine is not None:
        from kinfolk.graph.in_engine import predict_in

        predict_in(engine, model, folder / "nodes.parquet", folder / "edges.parquet", label="label", forced=True)
        engine.write("SELECT * FROM kf_labels", out)
    else:
        from engines import threads

        threads(folder, CORES)


@contextmanager
def opened(engine: str, folder: Path) -> Iterator[Any]:
    """An engine whose tables are in tables/, and the files of Spark itself in shuffle/."""
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    if engine == "threads":
        yield None
    elif engine == "duckdb":
        from kinfolk.engines.duckdb import DuckDB

        with DuckDB(memory_limit=DUCKDB_LIMIT, temp_directory=folder / "tables", threads=CORES) as made:
            yield made
    else:
        from spark_local import started

        from kinfolk.engines.spark import Spark

        os.environ["SPARK_LOCAL_DIRS"] = str(folder / "shuffle")
        Spark.holds = 0  # what is measured stands for tables larger than a process holds
        with started(CORES, str(folder)) as session, Spark(session, folder=folder / "tables") as made:
            yield made


def one(kind: str, engine: str, folder: Path) -> Answer:
    """One measurement, of files made before."""
    with tempfile.TemporaryDirectory(dir=folder) as room, opened(engine, Path(room)) as made:
        work(kind, folder / "tiny", made, Path(room) / "tiny.parquet")
        with Watch(Path(room)) as watch:
            work(kind, folder / "data", made, Path(room) / "out.parquet")
        return {**watch.found, "units": json.loads((folder / "units.json").read_text())}


def measure(folder: Path, kinds: tuple[str, ...] = tuple(SIZES), engines: tuple[str, ...] = ENGINES) -> Answer:
    """All of them; those of kinds and engines that are not asked for stay what they were."""
    known: Answer = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    for kind in kinds:
        for size in SIZES[kind]:
            place = folder / f"{kind}-{size}"
            units = make(kind, size, place / "data")
            (place / "units.json").write_text(json.dumps(units))
            make(kind, SIZES[kind][0] // 20, place / "tiny")
            for engine in engines:
                asked = {"what": "one", "kind": kind, "engine": engine, "folder": str(place)}
                done = subprocess.run([sys.executable, __file__, json.dumps(asked)], capture_output=True, text=True)
                if done.returncode:
                    raise SystemExit(f"{asked}: {done.stderr}")
                found = {"size": size, **json.loads(done.stdout.splitlines()[-1])}
                print(kind, engine, found, file=sys.stderr, flush=True)
                kept = [row for row in known.get(kind, {}).get(engine, []) if row["size"] != size]
                known.setdefault(kind, {})[engine] = sorted([*kept, found], key=lambda row: row["size"])
                MEASURED.write_text(json.dumps(known, indent=1) + "\n")
    return known


class Watch:
    """Processor seconds, and the most memory and files, of this process and all it started."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.found = folder, {"cpu_seconds": 0.0, "seconds": 0.0, "memory": 0, "tables": 0, "shuffle": 0}
        self._ended = threading.Event()

    def __enter__(self) -> Watch:
        self._before, self._began = processor_seconds(), time.perf_counter()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.found |= {
            "cpu_seconds": processor_seconds() - self._before,
            "seconds": time.perf_counter() - self._began,
        }

    def _look(self) -> None:
        while True:
            self._most("memory", sum(resident(pid) for pid in tree()))
            for name in ("tables", "shuffle"):
                self._most(name, size_of(self.folder / name))
            if self._ended.wait(0.2):
                return

    def _most(self, name: str, value: int) -> None:
        self.found[name] = max(self.found[name], value)


def tree() -> list[int]:
    """This process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [os.getpid()]
    for pid in found:
        found += parents.get(pid, [])
    return found


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none: the process is gone."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def processor_seconds() -> float:
    """Of the tree, with the processes that ended in it."""
    ticks = sum(int(one) for pid in tree() for one in _stat(pid)[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


def size_of(folder: Path) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_size
            except OSError:
                continue  # removed in the meantime
    return total


# -- What follows from it -----------------------------------------------------------------------------

PRICE = 0.05  # of a core-hour, in dollars, with 4 GB of memory: about what clouds ask for machines on demand
EXECUTOR = 4  # cores, with 16 GB
HOURS = 1.0  # in which it is to be done
UNIT = {"records": "a pair", "edges": "an edge", "tokens": "a token"}
COSTS = ("cpu_seconds", "memory", "tables", "shuffle")


def fitted(rows: list[Answer]) -> dict[str, tuple[float, float]]:
    """Of each cost what is fixed, and the slope: cost = fixed + slope units, through both sizes; none is below 0."""
    small, large = rows[0], rows[-1]
    found = {}
    for cost in COSTS:
        slope = max(0.0, (large[cost] - small[cost]) / (large["units"] - small["units"]))
        found[cost] = (max(0.0, large[cost] - slope * large["units"]), slope)
    return found


def constants(known: Answer) -> str:
    """The first table: what a unit costs."""
    lines = [
        "| | engine | µs of a core | bytes of memory | bytes of tables | bytes of shuffle | fixed |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, by_engine in known.items():
        for engine in ENGINES:
            if engine not in by_engine:
                continue
            costs = fitted(by_engine[engine])
            per = [f"{1e6 * costs['cpu_seconds'][1]:.1f}", *(f"{costs[one][1]:.0f}" for one in COSTS[1:])]
            fixed = f"{costs['cpu_seconds'][0]:.1f} s, {costs['memory'][0] / 1e9:.1f} GB"
            lines.append(f"| {UNIT[kind]} | {engine} | {' | '.join(per)} | {fixed} |")
    return "\n".join(lines)


def needs(known: Answer, n: float, price: float) -> str:
    """A table of what so many records, edges or tokens need."""
    lines = [
        f"| {_short(n)} | engine | core-hours | dollars | memory | tables | shuffle | executors | breaks first |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, by_engine in known.items():
        for engine in ENGINES:
            if engine not in by_engine:
                continue
            rows = by_engine[engine]
            units = n * rows[-1]["units"] / rows[-1]["size"]
            costs = {name: fixed + slope * units for name, (fixed, slope) in fitted(rows).items()}
            hours = costs["cpu_seconds"] / 3600
            spread = engine == "spark"
            executors = f"{max(1, -(-hours // (EXECUTOR * HOURS))):.0f}" if spread else "1 machine"
            memory = f"{EXECUTOR * 4} GB each" if spread else _bytes(_memory(kind, engine, costs, rows))
            lines.append(
                f"| {kind} | {engine} | {_few(hours)} | {_few(hours * price)} | {memory} | {_bytes(costs['tables'])} | "
                f"{_bytes(costs['shuffle'])} | {executors} | {_breaks(kind, engine, costs, units, hours)} |"
            )
    return "\n".join(lines)


RUN = {"records": 2e5, "edges": 1e6, "tokens": 1e5}  # units that a process computes on at a time


def _memory(kind: str, engine: str, costs: Answer, rows: list[Answer]) -> float:
    """DuckDB keeps to its limit, and the process beside it to a run. Threads hold everything."""
    fixed, slope = fitted(rows)["memory"]
    return LIMIT_BYTES + fixed + slope * RUN[kind] if engine == "duckdb" else float(costs["memory"])


LARGE_MACHINE, LARGE_DISK, PATIENCE = 256e9, 4e12, 24.0  # bytes of memory, of disk; hours on 8 cores
PAIR_LIMIT = 2e9


def _breaks(kind: str, engine: str, costs: Answer, units: float, hours: float) -> str:
    """The first of the things that would stop it."""
    if engine == "threads":
        within = costs["memory"] <= LARGE_MACHINE
        return f"nothing on a machine of {_bytes(LARGE_MACHINE)}" if within else f"memory, of {_bytes(LARGE_MACHINE)}"
    if kind == "records" and units > PAIR_LIMIT:
        return "`limit=` of two billion pairs, which has to be raised; then " + (
            "the cores of one machine" if engine == "duckdb" else "the sort of all keys"
        )
    if engine == "duckdb":
        if hours / 8 > PATIENCE:
            return "time: more than a day on 8 cores"
        return "disk" if costs["tables"] > LARGE_DISK else f"nothing: {_few(hours / 8)} hours on 8 cores"
    return "disks for the shuffle" if costs["shuffle"] > LARGE_DISK else "nothing that was measured"


def _few(value: float) -> str:
    """Two digits that count."""
    return f"{value:.0f}" if value >= 9.5 else f"{value:.2g}"


def _short(n: float) -> str:
    return f"{n / 1e9:.0f} G" if n >= 1e9 else f"{n / 1e6:.0f} M"


def _bytes(n: float) -> str:
    for size, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if n >= size:
            return f"{n / size:.0f} {name}" if n >= 10 * size else f"{n / size:.1f} {name}"
    return f"{n / 1e3:.0f} kB"


def growth(known: Answer) -> str:
    """How pairs grow with records."""
    small, large = known["records"]["threads"][0], known["records"]["threads"][-1]
    each = [row["units"] / row["size"] for row in (small, large)]
    return (
        f"Pairs a record: {each[0]:.1f} of {small['size']:,} customers, {each[1]:.1f} of {large['size']:,}, by the "
        "same four rules; the tables below take the latter."
    )


def figures(known: Answer, price: float) -> str:
    parts = [constants(known), growth(known), needs(known, 1e8, price), needs(known, 1e9, price)]
    return "\n\n".join(parts)


def table(price: float | None = None) -> Answer:
    """The figures of the page again; at another price they are printed, and the page stays."""
    made = figures(json.loads(MEASURED.read_text()), PRICE if price is None else price)
    if price is not None:
        print(made)
        return {}
    text = PAGE.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{after}")
    return {}


def main() -> None:
    asked = json.loads(sys.argv[1])
    if "folder" in asked:
        asked["folder"] = Path(asked["folder"])
    what: dict[str, Callable[..., Answer]] = {"measure": measure, "one": one, "table": table}
    print(json.dumps(what[asked.pop("what")](**asked)))


if __name__ == "__main__":
    main()
