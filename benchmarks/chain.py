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
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from report import CUT, EARLY, L2SGD, LBFGS, ONE, TWO, print_compiling, print_world

HERE = Path(__file__).resolve().parent
OPTIMA = HERE / "results" / "optima.json"
WORLDS = {"conll": "CoNLL-2003, eng.train / eng.testa", "newswire": "generated newswire"}
QUICK_DOCUMENTS = 30
CLOSE, NEAR = 1e-2, 1e-3  # within 1 % and within 0.1 % of the optimum
SLACK = 1e-4  # what a run may end below an optimum, which is itself found to a tolerance
OPTIMUM = {LBFGS: "crfsuite", L2SGD: "crfsuite", ONE: "kinfolk", TWO: "kinfolk", EARLY: "kinfolk", CUT: "kinfolk_cut"}

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
            rows = compare(folder, facts["fingerprint"], options.optimum, remember=not options.quick)
            figures["worlds"][world] = {**facts, **rows}
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
    where = {"system": platform.platform(), "python": platform.python_version()}
    return {**where, "cores": os.cpu_count(), **packages}


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
        kinfolk(folder, n_jobs=n_jobs, **settings(folder))
    if quick:
        return {}
    seconds = []
    with tempfile.TemporaryDirectory() as empty:
        for _ in range(2):
            began = time.perf_counter()
            ask("run_kinfolk.py", folder, settings=settings(folder), tag=True, NUMBA_CACHE_DIR=empty)
            seconds.append(time.perf_counter() - began)
    return {"first_use": seconds[0], "later": seconds[1]}


def ask(script: str, folder: Path, *, NUMBA_CACHE_DIR: str = "", **wanted: Any) -> Answer:
    environment = {"NUMBA_CACHE_DIR": NUMBA_CACHE_DIR} if NUMBA_CACHE_DIR else {}
    busy = {"load_average": os.getloadavg()[0]}
    return busy | run(script, json.dumps({"folder": str(folder), **wanted}), **environment)


def kinfolk(folder: Path, tag: bool = True, **chosen: Any) -> Answer:
    return ask("run_kinfolk.py", folder, settings=chosen, tag=tag)


def crfsuite(folder: Path, algorithm: str, tag: bool = True, **params: Any) -> Answer:
    return ask("run_crfsuite.py", folder, algorithm=algorithm, params=params, tag=tag)


def compare(folder: Path, fingerprint: str, again: bool, remember: bool) -> Answer:
    """All rows of one world, each with its gap to the optimum of its own objective and the time to come near."""
    known = json.loads(OPTIMA.read_text()) if OPTIMA.exists() else {}
    optima = known.get(fingerprint)
    if optima is None or again:
        optima = known[fingerprint] = find_optima(folder)
        if remember:
            OPTIMA.parent.mkdir(exist_ok=True)
            OPTIMA.write_text(json.dumps(known, indent=1) + "\n")
    same = settings(folder)
    rows = {
        LBFGS: crfsuite(folder, "lbfgs"),
        L2SGD: crfsuite(folder, "l2sgd"),
        ONE: kinfolk(folder, n_jobs=1, **same),
        TWO: kinfolk(folder, n_jobs=2, **same),
        EARLY: kinfolk(folder, n_jobs=2, **same | {"tolerance": "auto"}),
        CUT: kinfolk(folder, n_jobs=2, **same | {"min_count": "auto"}),
    }
    for name, row in rows.items():
        best = optima[OPTIMUM[name]]
        row["gap"] = row["objective"] / best - 1
        search = partial(time_to_exactly, folder) if name == L2SGD else time_to
        row["close"], row["near"] = (search(best * (1 + share), row) for share in (CLOSE, NEAR))
    check_rows(rows)
    return {"optima": optima, "rows": rows}


def time_to(objective: float, row: Answer) -> float | None:
    """Seconds of training after which the objective was first as low as this."""
    return next((seconds for seconds, reached in row["history"] if reached <= objective), None)


def time_to_exactly(folder: Path, objective: float, row: Answer) -> float | None:
    """The same for l2sgd, which logs the loss of weights that move during the pass, above or below the exact one.

    So it is trained anew for fewer epochs, halving, down to an eighth of the run; never, if its end is too high.
    """
    low, high = 0, row["iterations"]
    if row["objective"] > objective:
        return None
    for _ in range(3):
        middle = (low + high) // 2
        if middle > low and crfsuite(folder, "l2sgd", False, max_iterations=middle)["objective"] <= objective:
            high = middle
        else:
            low = middle
    return float(row["history"][high - 1][0])


def settings(folder: Path) -> Answer:
    """What kinfolk is told, so that both sides have the same features and the same ridge, and go for its optimum.

    kinfolk's own frequency cut-off is off: CRFsuite's counts pairs of feature and label, so it has no equal. So is its
    habit of stopping early (`stopping.py`), which minimises nothing and has a column of its own.
    """
    ridge = json.loads((folder / "plan.json").read_text())["l2"]
    return {"l2": ridge, "min_count": 1, "templates": "sentence", "tolerance": 1.5e-4}


def check_rows(rows: dict[str, Answer]) -> None:
    """Stop where the comparison would not be one: other features, or an optimum of another objective."""
    counts = {name: row["features"] for name, row in rows.items() if name != CUT}
    if len(set(counts.values())) > 1:
        raise SystemExit(f"the two sides were not given the same features: {counts}")
    for name, row in rows.items():
        if row["gap"] < -SLACK:
            raise SystemExit(
                f"{name} ended {-row['gap']:.2%} below its optimum, which is not of this objective: "
                "run again with --optimum, and leave the source alone while it runs"
            )


def find_optima(folder: Path) -> Answer:
    """The lowest objective of each side, run to a tight tolerance. Nothing here is timed."""
    tight: Answer = settings(folder) | {"tolerance": 1e-7, "max_iterations": 2000, "n_jobs": 1}
    with ThreadPoolExecutor(2) as pool:
        peer = pool.submit(crfsuite, folder, "lbfgs", False, epsilon=1e-6, delta=1e-6, max_iterations=1000)
        own = pool.submit(kinfolk, folder, False, **tight)
        cut = pool.submit(kinfolk, folder, False, **tight | {"min_count": "auto"})
    ends = {"crfsuite": peer.result(), "kinfolk": own.result(), "kinfolk_cut": cut.result()}
    steps = {name: {key: end[key] for key in ("iterations", "status")} for name, end in ends.items()}
    return {name: end["objective"] for name, end in ends.items()} | {"reached": steps}


if __name__ == "__main__":
    main()
