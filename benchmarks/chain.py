"""kinfolk and python-crfsuite side by side: a linear-chain CRF with the same features on the same files.

    python benchmarks/chain.py               everything; optima are worked out unless known for the same settings
    python benchmarks/chain.py --optimum     work the optima out again
    python benchmarks/chain.py --quick       a smoke test on a few documents
    python benchmarks/chain.py --check       only compare the features of both sides on a sample
    python benchmarks/chain.py --json FILE   write all figures, with the loss after every iteration

Each system runs in a fresh process of its own, one at a time, and stage by stage: read the file, extract
features, load (append to the trainer, build tables), train, save, tag with features included. Peak memory is of
that process. kinfolk finds its compiled kernels on disk, as it does from the second use on; what compiling them
costs is measured apart. Worlds: CoNLL-2003 (eng.train, eng.testa) where the data folder named by KINFOLK_DATA,
or ../shared/data beside the checkout, has it, and a generated newswire.

This process stays small on purpose: on Linux a child's peak memory counts from its parent's.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

from report import print_compiling, print_world

HERE = Path(__file__).resolve().parent
OPTIMA = HERE / "results" / "optima.json"
WORLDS = {"conll": "CoNLL-2003, eng.train / eng.testa", "newswire": "generated newswire"}
QUICK_DOCUMENTS = 30
EARLY = 30  # epochs of l2sgd after which its exact objective is taken
NEAR = 1e-3  # within 0.1 % of the optimum

Answer = dict[str, Any]


def main() -> None:
    options = _options()
    figures: Answer = {"machine": _machine(), "worlds": {}}
    with tempfile.TemporaryDirectory() as scratch:
        if not options.check:
            figures["compiling"] = compile_kernels(Path(scratch), options.quick)
            print_compiling(figures["compiling"])
        for world, title in WORLDS.items():
            folder = Path(scratch) / world
            folder.mkdir()
            facts = prepare(folder, world, QUICK_DOCUMENTS if options.quick else 0)
            if facts is None:
                print(f"{title}: skipped, no such data; name its folder with KINFOLK_DATA")
                continue
            print(f"{title}: features of both sides agree on {facts['checked_sentences']} sentences", flush=True)
            if options.check:
                continue
            figures["worlds"][world] = {**facts, **compare(folder, facts["fingerprint"], options.optimum)}
            print_world(title, figures["worlds"][world])
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="kinfolk and python-crfsuite side by side")
    parser.add_argument("--optimum", action="store_true", help="work the optima out again")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_DOCUMENTS} documents of each world")
    parser.add_argument("--check", action="store_true", help="only compare the features of both sides")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    return parser.parse_args()


def _machine() -> Answer:
    packages = {name: version(name) for name in ("kinfolk", "python-crfsuite", "numpy", "numba")}
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    where = {"system": platform.platform(), "python": platform.python_version()}
    return {**where, "cores": os.cpu_count(), "load_before": load, **packages}


def run(script: str, *arguments: str, **environment: str) -> Answer:
    """The answer of one of the scripts beside this one, in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{script} {' '.join(arguments)}\n{done.stderr}")
    answer: Answer = json.loads(done.stdout.splitlines()[-1])
    return answer


def prepare(folder: Path, world: str, documents: int) -> Answer | None:
    """Files and plan in the folder; None where the data is absent."""
    return run("prepare.py", str(folder), world, str(documents)) or None


def compile_kernels(scratch: Path, quick: bool) -> Answer:
    """Make sure kinfolk's kernels are compiled on disk; how long that takes, unless in a hurry."""
    folder = scratch / "tiny"
    folder.mkdir()
    prepare(folder, "newswire", 10)
    for n_jobs in (1, 2):
        kinfolk(folder, n_jobs=n_jobs)
    if quick:
        return {}
    seconds = []
    with tempfile.TemporaryDirectory() as empty:
        for _ in range(2):
            began = time.perf_counter()
            ask("run_kinfolk.py", folder, settings={"n_jobs": 1}, tag=True, NUMBA_CACHE_DIR=empty)
            seconds.append(time.perf_counter() - began)
    return {"first_use": seconds[0], "later": seconds[1]}


def ask(script: str, folder: Path, *, NUMBA_CACHE_DIR: str = "", **wanted: Any) -> Answer:
    environment = {"NUMBA_CACHE_DIR": NUMBA_CACHE_DIR} if NUMBA_CACHE_DIR else {}
    return run(script, json.dumps({"folder": str(folder), **wanted}), **environment)


def kinfolk(folder: Path, tag: bool = True, **settings: Any) -> Answer:
    return ask("run_kinfolk.py", folder, settings=settings, tag=tag)


def crfsuite(folder: Path, algorithm: str, tag: bool = True, **params: Any) -> Answer:
    return ask("run_crfsuite.py", folder, algorithm=algorithm, params=params, tag=tag)


def compare(folder: Path, fingerprint: str, again: bool) -> Answer:
    """All rows of one world, each with its gap to the optimum of its own objective and the time to come near."""
    known = json.loads(OPTIMA.read_text()) if OPTIMA.exists() else {}
    optima = known.get(fingerprint)
    if optima is None or again:
        optima = known[fingerprint] = find_optima(folder)
        OPTIMA.parent.mkdir(exist_ok=True)
        OPTIMA.write_text(json.dumps(known, indent=1) + "\n")
    rows = {
        "python-crfsuite lbfgs": crfsuite(folder, "lbfgs"),
        "python-crfsuite l2sgd": crfsuite(folder, "l2sgd"),
        "kinfolk, 1 thread": kinfolk(folder, n_jobs=1),
        "kinfolk, 2 threads": kinfolk(folder, n_jobs=2),
    }
    for name, row in rows.items():
        best = optima["kinfolk" if name.startswith("kinfolk") else "crfsuite"]
        if name.endswith("l2sgd"):
            row["history"] = exact_history(row, optima["l2sgd"])
        row["gap"] = row["objective"] / best - 1
        row["near"] = next((seconds for seconds, loss in row["history"] if loss <= best * (1 + NEAR)), None)
    return {"optima": optima, "rows": rows}


def find_optima(folder: Path) -> Answer:
    """The lowest objective of each side, and one exact objective on l2sgd's way. Nothing here is timed."""
    with ThreadPoolExecutor(2) as pool:
        peer = pool.submit(crfsuite, folder, "lbfgs", tag=False, epsilon=1e-6, delta=1e-6, max_iterations=1000)
        own = pool.submit(kinfolk, folder, tag=False, tolerance=1e-7, max_iterations=2000, n_jobs=1)
        early = pool.submit(crfsuite, folder, "l2sgd", tag=False, max_iterations=EARLY)
    steps = {"kinfolk_iterations": own.result()["iterations"], "crfsuite_iterations": peer.result()["iterations"]}
    passed = {"epochs": early.result()["iterations"], "excess": _excess(early.result())}
    return {"kinfolk": own.result()["objective"], "crfsuite": peer.result()["objective"], "l2sgd": passed, **steps}


def _excess(row: Answer) -> float:
    """How far the loss that l2sgd logs, of weights that move during the pass, is above the exact objective."""
    return float(min(loss for _, loss in row["history"]) - row["objective"])


def exact_history(row: Answer, early: Answer) -> list[tuple[float, float]]:
    """l2sgd's log without the excess, a power of the epoch through the exact points: early, and at the end."""
    last, excess = row["iterations"], max(_excess(row), 1e-9)
    power = 0.0
    if early["epochs"] < last and early["excess"] > 0:
        power = math.log(excess / early["excess"]) / math.log(last / early["epochs"])
    return [(t, loss - excess * (k / last) ** power) for k, (t, loss) in enumerate(row["history"], 1)]


if __name__ == "__main__":
    main()
