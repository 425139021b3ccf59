"""What more cores bring: every stage's seconds with 1, 2, 4, 8, ... threads, and how much of it is serial.

    python benchmarks/cores.py                      everything, with 1, 2, 4, ... threads up to the cores there are
    python benchmarks/cores.py --threads 1,16       these numbers of threads
    python benchmarks/cores.py --only tagging --only chain
    python benchmarks/cores.py --scale 0.1          smaller: a tenth of the tokens, nodes and records
    python benchmarks/cores.py --data DIR --json FILE

chain     CoNLL-2003 (eng.train) from the file to a saved CRF; then some iterations of the optimiser, as for the optimum
tagging   a million tokens (eng.testa, twenty times) by that CRF, from the file to labels
mixture   training a mixture of parents on two fifths of eng.train
nodes     a million nodes, ten million links: a stack of one level, learned from 2 % labels, and its predictions; graphs
          from tables and from links
records   300,000 generated customers: blocking, a linker learned from 5 % of the entities, all compared and clustered

A part and a number of threads have a process of their own, which runs the part on little data first; kernels are
compiled before (`kinfolk warm`). What a stage is told by functions of the library put under a stopwatch, each without
what others of them take inside it, so that the stages of a part add up to it. Columns:

1, 2, ...    seconds by the clock; below "CPU" those of all threads together, with the first and the last number
times        first / last number of threads
serial       share s of the stage with n threads that seems serial: 1 / times = s + (1 - s) / n (Amdahl)
outside      with one thread: the share of the stage's CPU time that is not in chunks of work handed to threads
at best      CPU seconds of one thread that would be left with the last number of them (16 if there is no other), if
             every chunk took as long as it did and the rest stayed as it is; what lies above is lost by waiting for
             memory and for each other. Scikit-learn's and joblib's own threads count as outside

Without data of CoNLL-2003 in DIR, KINFOLK_DATA or ../shared/data beside the checkout, a generated newswire is taken.
"""

from __future__ import annotations

import argparse
import heapq
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TOKENS, NODES, TABLE_NODES, RECORDS = 1_000_000, 1_000_000, 100_000, 300_000
ITERATIONS, MIXTURE_ITERATIONS = 15, 10
MIXTURE_SHARE = 0.4  # of eng.train
TRAINED_ON = 0.05  # of the entities of the records
SMALL = 0.004  # of everything, before it counts
AT_BEST = 16  # threads, of a single number
WHOLE, REST = "in all", "the rest"

# where a stage is done: module, function or method, name of the stage
STAGES = {
    "chain": (
        ("kinfolk.text.extraction", "TokenFeatures.learn", "features"),
        ("kinfolk.text.schemes", "LabelCoding.learn", "labels"),
        ("kinfolk.text.schemes", "LabelCoding.encode", "labels"),
        ("kinfolk.learning.sparse", "SparseRows.__init__", "tables for products"),
        ("kinfolk.learning.sparse", "SparseRows.scores", "optimiser: products"),
        ("kinfolk.learning.sparse", "SparseRows.gradient", "optimiser: products"),
        ("kinfolk.collective.sequences", "warm_start", "stochastic passes"),
        ("kinfolk.learning.loglinear", "Tables.inverse_curvature", "optimiser: curvature"),
        ("kinfolk.learning.loglinear", "Tables.__call__", "optimiser: evaluations but products"),
        ("kinfolk.collective.sequences", "optimise", "optimiser: vectors"),
    ),
    "tagging": (
        ("kinfolk.text.batch", "Batch.rows_of_runs", "word types"),
        ("kinfolk.text.chain", "Decoder.paths", "words to labels"),
        ("kinfolk.text.schemes", "LabelCoding.decode", "labels in the scheme asked for"),
        ("kinfolk.text.corpus", "Corpus.label_rows", "labels as lists"),
    ),
    "mixture": (
        ("kinfolk.text.extraction", "TokenFeatures.learn", "features"),
        ("kinfolk.text.mixture", "TokenParents.compile", "edges"),
        ("kinfolk.learning.sparse", "SparseRows.__init__", "tables for products"),
        ("kinfolk.learning.sparse", "SparseRows.scores", "products"),
        ("kinfolk.learning.sparse", "SparseRows.gradient", "products"),
        ("kinfolk.collective.sequences", "warm_start", "stochastic passes"),
        ("kinfolk.inference.mixture", "residuals", "inference"),
        ("kinfolk.learning.loglinear", "Tables.inverse_curvature", "curvature"),
        ("kinfolk.learning.loglinear", "Tables.__call__", "evaluations but products"),
        ("kinfolk.collective.sequences", "optimise", "optimiser's vectors"),
        ("kinfolk.collective.mixture", "optimise", "optimiser's vectors"),
    ),
    "nodes": (
        ("kinfolk.graph.stacked", "ReadyGraph.of", "tables made ready"),
        ("kinfolk.collective.templates", "TemplateSet.prepare", "tables made ready"),
        ("kinfolk.collective.stacking", "Training.run", "bases learned"),
        ("kinfolk.graph.stacked", "stacked_gain", "gain"),
        ("kinfolk.graph.stacked", "remembered", "votes remembered"),
        ("kinfolk.graph.stacked", "NodePredictor.at_level", "levels asked"),
    ),
    "records": (
        ("kinfolk.linking.blocking", "Key.candidates", "blocking: keys and blocks"),
        ("kinfolk.linking.blocking", "SortedNeighbourhood.candidates", "blocking: keys and blocks"),
        ("kinfolk.linking.blocking", "blocked", "blocking: pairs"),
        ("kinfolk.linking.linker", "PairSet.learn", "bins"),
        ("kinfolk.linking.linker", "PairSet.coder", "once an item"),
        ("kinfolk.linking.pair_table", "pair_scores", "comparing and scoring pairs"),
        ("kinfolk.linking.pair_table", "distinct_rows", "comparing pairs, distinct rows"),
        ("kinfolk.linking.linker", "PairSet.weights_on", "scoring"),
        ("kinfolk.linking.training", "GroupedRows.of", "grouping rows"),
        ("kinfolk.linking.training", "PairTrainer.fit", "training"),
        ("kinfolk.linking.linker", "closed", "pairs that blocking left out"),
        ("kinfolk.linking.clusterers", "Clusterer.cluster", "clustering"),
    ),
}  # fmt: skip

Answer = dict[str, Any]


# -- A stopwatch for stages: by the clock, of all threads, and what of it lies in chunks ----------------------


class Stages:
    """Of each stage "seconds", "cpu", "chunked": what is in chunks, and "best": how long chunks would take at best.

    Only the main thread counts: what others do is done within a stage of its.
    """

    def __init__(self, part: str, at_best: int) -> None:
        self.found: dict[str, dict[str, float]] = {}
        self._phase, self._at_best = "", at_best
        self._open: list[dict[str, float]] = []
        self._within = False
        for module, name, stage in STAGES[part]:
            owner = importlib.import_module(module)
            *holder, last = name.split(".")
            for one in holder:
                owner = getattr(owner, one)
            found = vars(owner)[last]
            if isinstance(found, classmethod):
                setattr(owner, last, classmethod(self._watched(found.__func__, stage)))
            else:
                setattr(owner, last, self._watched(found, stage))

    @contextmanager
    def phase(self, name: str, stage: str = REST) -> Iterator[None]:
        """What stages are part of from here on; what no function of theirs does is a stage, too."""
        self._phase = name
        with self._stage(stage):
            yield
        self._phase = ""

    @contextmanager
    def _stage(self, stage: str) -> Iterator[None]:
        own = dict.fromkeys(("seconds", "cpu", "chunked", "best"), 0.0)
        inner: dict[str, float] = defaultdict(float)
        began, busy = time.perf_counter(), time.process_time()
        self._open.append(inner)
        yield
        self._open.pop()
        took = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - busy}
        total = self.found.setdefault(f"{self._phase}: {stage}", own)
        for key in own:
            total[key] += took[key] - inner[key] if key in took else inner[f"own {key}"]
        if self._open:
            for key, value in took.items():
                self._open[-1][key] += value

    def _watched(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        def watched(*given: Any, **settings: Any) -> Any:
            if not self._phase or threading.current_thread() is not threading.main_thread():
                return function(*given, **settings)
            with self._stage(stage):
                return function(*given, **settings)

        return watched

    def watch_chunks(self) -> None:
        """Of one thread, which takes them one after the other; in all modules that are loaded by now."""
        from kinfolk.core import threads

        run_chunks = threads.run_chunks

        def watched(task: Callable[[int], Any], n_chunks: int, n_jobs: int) -> list[Any]:
            if not self._open or threading.current_thread() is not threading.main_thread():
                return run_chunks(task, n_chunks, n_jobs)
            if self._within:  # a chunk of its own within one
                return run_chunks(task, n_chunks, n_jobs)
            ends, found, total, self._within = [0.0] * self._at_best, [], 0.0, True
            for chunk in range(n_chunks):
                began = time.thread_time()
                found.append(task(chunk))
                took = time.thread_time() - began
                total += took
                heapq.heapreplace(ends, ends[0] + took)  # the thread that is free first takes the next chunk
            self._within = False
            self._open[-1]["own chunked"] += total
            self._open[-1]["own best"] += max(ends)
            return found

        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("kinfolk") and vars(module).get("run_chunks") is run_chunks:
                vars(module)["run_chunks"] = watched


# -- The parts: each runs on a share of its data, with what stages it has under the stopwatch --------------------


def conll(name: str, scale: float) -> Any:
    """A file of CoNLL-2003, its first documents; or as much of a generated newswire, whose files are written anew."""
    import kinfolk as kf

    path = Path(os.environ["KINFOLK_DATA"]) / "tokens" / "conll2003" / name
    if path.exists():
        corpus = kf.read_conll(path)
        return corpus if scale >= 1 else corpus.documents(0, max(12, int(scale * corpus.n_documents)))
    train, test = kf.newswire_split(max(12, int(950 * scale)), max(12, int(220 * scale)))
    return train if name == "eng.train" else test


def chain(stages: Stages, threads: int, scale: float, folder: Path) -> None:
    import kinfolk as kf

    train, model = folder / f"train-{scale}.txt", folder / f"chain-{threads}.kinfolk"
    if not train.exists():
        kf.write_conll(conll("eng.train", scale), train)
    with stages.phase("file to model", "reading"):
        corpus = kf.read_conll(train, n_jobs=threads)
    with stages.phase("file to model"):
        crf = kf.LinearChainCRF(n_jobs=threads).fit(corpus)
    with stages.phase("file to model", "saving"):
        crf.save(model)
    with warnings.catch_warnings(), stages.phase(f"{ITERATIONS} iterations for the optimum"):
        warnings.simplefilter("ignore")
        kf.LinearChainCRF(n_jobs=threads, tolerance=1e-9, max_iterations=ITERATIONS).fit(corpus)


def tagging(stages: Stages, threads: int, scale: float, folder: Path) -> None:
    import kinfolk as kf

    model, text = folder / "tagger.kinfolk", folder / f"text-{scale}.txt"
    if not model.exists():
        kf.LinearChainCRF(n_jobs=-1).fit(conll("eng.train", 1)).save(model)
    if not text.exists():
        once = folder / "once.txt"
        corpus = conll("eng.testa", min(1, 20 * scale))
        kf.write_conll(corpus, once)
        text.write_bytes(once.read_bytes() * max(1, round(scale * TOKENS / corpus.n_tokens)))
    tagger = kf.load_model(model).set_params(n_jobs=threads)
    with stages.phase("tagging", "reading"):
        corpus = kf.read_conll(text, n_jobs=threads)
    with stages.phase("tagging"):
        tagger.predict(corpus)
    with stages.phase("file to file", "by pieces"):
        tagger.tag_file(text, folder / f"tagged-{threads}.txt")


def mixture(stages: Stages, threads: int, scale: float, folder: Path) -> None:
    import kinfolk as kf

    corpus = conll("eng.train", MIXTURE_SHARE * scale)
    with warnings.catch_warnings(), stages.phase("training"):
        warnings.simplefilter("ignore")
        kf.MixtureTagger(n_jobs=threads, max_iterations=MIXTURE_ITERATIONS).fit(corpus)


def nodes(stages: Stages, threads: int, scale: float, folder: Path) -> None:
    import numpy as np
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    import kinfolk as kf

    data = world(int(scale * NODES))
    counts = [kf.Count("links"), kf.Count("linked_from")]
    model = kf.StackedNodes(LogisticRegression(max_iter=200), counts, known="true", n_jobs=threads)
    with stages.phase("fit"):
        model.fit(data)
    with stages.phase("predict"):
        model.predict_proba(data)
    links = data.relations["links"]
    with stages.phase("graphs", "of links in a matrix"):
        kf.Graph.from_scipy(sparse.csr_array(links), data.features)
    n = max(100, int(scale * TABLE_NODES))
    some = links[:n, :n].tocoo()
    names = np.array([f"node {i}" for i in range(n)])
    papers = {"id": names.tolist(), "x": np.arange(n, dtype=float)}
    more = np.random.default_rng(0).integers(n, size=(2, 10 * n))
    ends = [np.concatenate([names[own], names[other]]) for own, other in zip(some.coords, more, strict=True)]
    cites = {"source": ends[0].tolist(), "target": ends[1].tolist()}
    with stages.phase("graphs", "of tables with names"):
        kf.Graph.from_frames(papers, cites)


def world(n: int, seed: int = 0) -> Any:
    """That of stacked.py, which needs more than is at hand everywhere."""
    import numpy as np
    from scipy import sparse

    from kinfolk import Relational

    rng, classes, links = np.random.default_rng(seed), 7, 10
    truth = rng.integers(classes, size=n).astype(np.int32)
    order = np.argsort(truth, kind="stable")
    starts = np.searchsorted(truth[order], np.arange(classes + 1))
    source = np.repeat(np.arange(n), links)
    target = rng.integers(n, size=len(source))
    alike = rng.random(len(source)) < 0.7
    own = truth[source[alike]]
    target[alike] = order[starts[own] + (rng.random(len(own)) * (starts[own + 1] - starts[own])).astype(np.int64)]
    kept = source != target
    ones = np.ones(int(kept.sum()), np.float32)
    table = sparse.csr_array((ones, (source[kept], target[kept])), shape=(n, n))
    centres = rng.normal(size=(classes, 32)).astype(np.float32)
    features = 0.25 * centres[truth] + rng.standard_normal((n, 32), dtype=np.float32)
    known = rng.choice(n, max(200, n // 50), replace=False)
    labels = np.full(n, -1, np.int32)
    labels[known] = truth[known]
    relations = {"links": table, "linked_from": sparse.csr_array(table.T)}
    return Relational(features, labels, [f"class {c}" for c in range(classes)], relations)


def records(stages: Stages, threads: int, scale: float, folder: Path) -> None:
    import numpy as np
    from linkage_scale import PEOPLE

    import kinfolk as kf
    from kinfolk.linking import blocking

    people = kf.generate_customers(int(scale * RECORDS), seed=0)
    assert people.clusters is not None
    rules = list(PEOPLE)
    with stages.phase("linking"):
        items = blocking.blocked(people, rules, n_jobs=threads)[0]
    chosen = np.random.default_rng(0).random(int(people.clusters.max()) + 1) < max(TRAINED_ON, 100 / len(people))
    train = blocking.blocked(people.take(chosen[people.clusters]), rules, n_jobs=threads)[0]
    linker = kf.Linker(n_jobs=threads)
    with stages.phase("learning from a sample", "all of it"):
        linker.fit(train)
    with stages.phase("linking"):
        linker.linked(items)


PARTS: dict[str, Callable[[Stages, int, float, Path], None]] = {
    "chain": chain,
    "tagging": tagging,
    "mixture": mixture,
    "nodes": nodes,
    "records": records,
}


def measured(part: str, threads: int, at_best: int, scale: float, folder: Path) -> Answer:
    """The stages of a part in this process."""
    import kinfolk as kf

    stages = Stages(part, at_best)
    PARTS[part](stages, threads, min(scale, SMALL), folder)  # loads what there is to load
    stages.found.clear()
    if threads == 1:
        stages.watch_chunks()
    began, busy = time.perf_counter(), time.process_time()
    PARTS[part](stages, threads, scale, folder)
    took = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - busy}
    return {"part": part, "threads": threads, **took, "version": kf.__version__, "stages": stages.found}


# -- A process for each part and number of threads, and the table of all -----------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--threads", type=lambda text: [int(one) for one in text.split(",")])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measured(**{**(asked := json.loads(given.child)), "folder": Path(asked["folder"])})))
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = given.threads or sorted({n for n in (1, 2, 4, 8, 16, 32, 64) if n < cores} | {cores})
    data = given.data or Path(os.environ.get("KINFOLK_DATA") or HERE.parents[1] / "shared" / "data")
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "kinfolk", "warm"], check=True, stdout=subprocess.DEVNULL)
    print(f"{cores} cores, {os.getloadavg()[0]:.1f} busy; kernels ready in {time.perf_counter() - began:.0f} s")
    figures: list[Answer] = []
    with tempfile.TemporaryDirectory() as folder:
        for part in given.only or PARTS:
            rows = [
                run(part, n, max(threads) if max(threads) > 1 else AT_BEST, given.scale, folder, data) for n in threads
            ]
            figures += rows
            print(table(part, threads, rows), flush=True)
            if given.json:
                given.json.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"\n{time.perf_counter() - began:.0f} s in all")


def run(part: str, threads: int, at_best: int, scale: float, folder: str, data: Path) -> Answer:
    limits = {f"{name}_NUM_THREADS": str(threads) for name in ("NUMBA", "OMP", "OPENBLAS", "MKL")}
    asked = {"part": part, "threads": threads, "at_best": at_best, "scale": scale, "folder": folder}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--child", json.dumps(asked)],
        capture_output=True, text=True, env={**os.environ, **limits, "KINFOLK_DATA": str(data)},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{part} with {threads} threads\n{done.stderr}")
    answer: Answer = json.loads(done.stdout.splitlines()[-1])
    return answer


def table(part: str, threads: Sequence[int], rows: Sequence[Answer]) -> str:
    """A line a stage, and one for each phase in all."""
    by_stage = [dict(row["stages"]) for row in rows]
    phases: dict[str, list[str]] = {}
    for name in by_stage[0]:
        phases.setdefault(name.partition(": ")[0], []).append(name)
    columns = [f"{n:>8}" for n in threads] + [f"{f'CPU {n}':>8}" for n in dict.fromkeys((threads[0], threads[-1]))]
    lines = [f"\n{part:<50}{''.join(columns)}   times  serial  outside  at best"]
    for phase, names in phases.items():
        whole = [{key: sum(one[name][key] for name in names if name in one) for key in KEYS} for one in by_stage]
        lines.append(line(f"{phase}, {WHOLE}", threads, whole))
        for name in names if len(names) > 1 else []:
            nothing = dict.fromkeys(KEYS, 0.0)
            lines.append(line(f"  {name.partition(': ')[2]}", threads, [one.get(name, nothing) for one in by_stage]))
    return "\n".join(lines)


KEYS = ("seconds", "cpu", "chunked", "best")


def line(name: str, threads: Sequence[int], found: Sequence[Answer]) -> str:
    first, last = found[0], found[-1]
    cells = [f"{one['seconds']:8.3f}" for one in found]
    cells += [f"{one['cpu']:8.3f}" for one in ((first,) if len(found) == 1 else (first, last))]
    times, n = first["seconds"] / max(last["seconds"], 1e-9), threads[-1] / threads[0]
    cells.append(f"{times:8.2f}" if len(found) > 1 else " " * 8)
    serial = (1 / max(times, 1e-9) - 1 / n) / (1 - 1 / n) if n > 1 else 0.0
    cells.append(f"{min(1, max(0, serial)):8.0%}" if len(found) > 1 else " " * 8)
    if threads[0] == 1:
        outside = max(0.0, first["cpu"] - first["chunked"])
        cells.append(f"{outside / max(first['cpu'], 1e-9):9.0%}{outside + first['best']:9.3f}")
    return f"{name:<50}{''.join(cells)}"


if __name__ == "__main__":
    main()
