"""What LinkModel and MixtureNodes cost beyond a few thousand nodes: CPU seconds of fit and prediction, and memory.

    python benchmarks/slow_models.py                       all cases, each in a process of its own
    python benchmarks/slow_models.py --cases link mixture  some of them
    python benchmarks/slow_models.py --against DIR         the same with the sources of another checkout, side by side
    python benchmarks/slow_models.py --quick               a smoke test, a twentieth of the size
    python benchmarks/slow_models.py --growth              the link model on 1,000 to 8,000 nodes

    link, link half    2,000 nodes, 6,500 links, 7 of 10 between like nodes, 7 classes, 32 dense columns that tell most
                       of the class; all labels known, or half of them
    link hard (half)   the same with 4 of 10 links between like nodes and columns that tell little of it: near the
                       weights wanted, messages have several fixed points and take hundreds of rounds
    mixture            10,000 nodes, 128 dense columns, 3 links a node, half of the labels known

Memory is the peak of the process: what it is before fit is told beside it. A model is fitted to a small graph first,
so that no kernel is compiled or loaded within the time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from measure import peak_megabytes

CLASSES = 7
HARD = {"alike": 0.4, "signal": 1.0}
CASES: dict[str, dict[str, Any]] = {
    "link": {"known": 1.0},
    "link half": {"known": 0.5},
    "link hard": {"known": 1.0, **HARD},
    "link hard half": {"known": 0.5, **HARD},
    "mixture": {"known": 0.5, "nodes": 10_000, "links": 30_000, "columns": 128},
}
BARS = {"link": "5 s", "mixture": "3 s, 300 MB"}
GROWTH = (1_000, 2_000, 4_000, 8_000)
Row = dict[str, Any]


def world(
    nodes: int = 2_000, links: int = 6_500, columns: int = 32, alike: float = 0.7, signal: float = 2.0, seed: int = 0
) -> Any:
    from kinfolk import Graph

    rng = np.random.default_rng(seed)
    truth = rng.integers(CLASSES, size=nodes)
    rows = rng.normal(size=(nodes, columns))
    rows[np.arange(nodes), truth] += signal
    source, target = rng.integers(nodes, size=(2, 3 * links))
    order = np.argsort(truth, kind="stable")
    counts = np.bincount(truth, minlength=CLASSES)
    starts = np.cumsum(counts) - counts
    same = rng.random(len(source)) < alike
    own = truth[source[same]]
    target[same] = order[starts[own] + (rng.random(len(own)) * counts[own]).astype(np.int64)]
    ends = np.sort(np.stack([source, target], axis=1)[source != target], axis=1)
    ends = rng.permutation(np.unique(ends, axis=0))[:links]
    return Graph(rows.astype(np.float32), [f"class {k}" for k in truth], {"links": ends})


def one(case: str, scale: float, jobs: int) -> Row:
    """In a process of its own."""
    from kinfolk import LinkModel, MixtureNodes

    settings = dict(CASES[case])
    known = settings.pop("known")
    settings["nodes"], settings["links"] = (
        int(scale * settings.get(name, default)) for name, default in (("nodes", 2_000), ("links", 6_500))
    )
    new = (lambda: MixtureNodes(n_jobs=jobs)) if case == "mixture" else (lambda: LinkModel(n_jobs=jobs))
    graph = world(**settings)
    train = np.random.default_rng(1).random(settings["nodes"]) < known
    asked = train if known == 1 else ~train
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = world(60, 120, settings.get("columns", 32))
        new().fit(small, train=np.arange(30)).predict(small, known="none")
        given, began, cpu = peak_megabytes(), time.perf_counter(), time.process_time()
        model = new().fit(graph, train=train)
        fit = time.process_time() - cpu
        found = [model.predict(graph, known="none")] + ([model.predict(graph)] if known < 1 else [])
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    right = [100 * float((labels == graph.labels)[asked].mean()) for labels in found]
    return {
        "case": case, "nodes": settings["nodes"], "links": settings["links"], "jobs": jobs, "fit_cpu": fit, "cpu": cpu,
        "seconds": seconds, "peak_mb": peak_megabytes(), "given_mb": given, "accuracy": right[0],
        "accuracy_known": right[-1] if known < 1 else None, "status": getattr(model.convergence_, "status", None),
    }  # fmt: skip


def apart(case: str, scale: float, jobs: int, sources: Path | None) -> Row:
    command = [sys.executable, __file__, "--one", case, "--scale", str(scale), "--jobs", str(jobs)]
    threads = {name: str(jobs) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    place = {} if sources is None else {"PYTHONPATH": str(sources / "src")}
    done = subprocess.run(
        command, env={**os.environ, **threads, **place}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        return {"case": case, "failed": f"exit status {done.returncode}"}
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def told(row: Row, where: str) -> str:
    if "failed" in row:
        return f"{row['case']:<15} {where:<7} failed: {row['failed']}"
    known = "" if row["accuracy_known"] is None else f", {row['accuracy_known']:.1f} given the known labels"
    return (
        f"{row['case']:<15} {where:<7} {row['nodes']:>6,} nodes, {row['links']:>6,} links: {row['cpu']:.2f} CPU s, "
        f"{row['seconds']:.2f} s, peak {row['peak_mb']:.0f} MB ({row['given_mb']:.0f} before), accuracy "
        f"{row['accuracy']:.1f}{known}; {row['status']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--against", type=Path, metavar="DIR", help="a checkout whose sources are measured too")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--scale", type=float, default=1.0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one, given.scale, given.jobs)))
        return
    scales = [n / 2_000 for n in GROWTH] if given.growth else [0.05 if given.quick else 1.0]
    cases = [case for case in given.cases if not given.growth or case != "mixture"]
    places = {"here": None} | ({"against": given.against.resolve()} if given.against else {})
    figures: list[Row] = []
    for case in cases:
        for scale in scales:
            for where, sources in places.items():
                row = apart(case, scale, given.jobs, sources)
                figures.append(row | {"where": where})
                print(told(row, where), flush=True)
    print("\n" + "\n".join(f"{what}: wanted at most {bar}" for what, bar in BARS.items()))
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
