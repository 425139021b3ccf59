"""What models of nodes cost: on a million nodes with ten million links, and beside one logistic regression on Cora.

    python benchmarks/nodes_scale.py                           both parts
    python benchmarks/nodes_scale.py --quick                   a smoke test: 5,000 nodes, no Cora
    python benchmarks/nodes_scale.py --nodes 100000 --contestants level pool sage --jobs 2
    python benchmarks/nodes_scale.py --json FILE               write all figures

Growth  the generated graph of stacked.py: 10 links a node, 7 of 10 between like nodes, 7 classes, 32 features, 2 % of
        the labels known. Each contestant has a process of its own; peak memory is that of the process, the graph (and
        PyTorch, for sage) in it, and "given" what it held before. Seconds are of fit and prediction of all nodes.
Cora    CPU seconds of fit and prediction on the first of five folds, over those of one fit of
        LogisticRegression(max_iter=1000) on the same words; the median of several rounds taken in turn

    local     logistic regression alone            pool      StackedNodes()
    level     one level of stacking on top         fast      StackedNodes(effort="fast")
    levels    two levels                           sage      GraphSAGE on the CPU, whole batches, two layers of 64
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from measure import peak_megabytes
from node_graphs import cells, data_folder
from node_peers import CONTESTANTS as PEERS
from nodes import problem_of
from scipy import sparse

NODES, QUICK_NODES, ROUNDS, EPOCHS = 1_000_000, 5_000, 3, 60
ON_CORA = ("local", "sgc", "stacked", "pool", "fast", "sage", "gcn")
Row = dict[str, Any]


# -- Growth: contestants (data, jobs) -> labels (n,) --------------------------------------------------


def stacking(data: Any, jobs: int, depth: int) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    from kinfolk import Count, StackedNodes

    templates = [Count("links"), Count("linked_from")]
    model = StackedNodes(LogisticRegression(max_iter=200), templates, depth, known="true", n_jobs=jobs)
    return model.fit(data).predict_proba(data).argmax(axis=1)


def pool(data: Any, jobs: int, **settings: Any) -> np.ndarray:
    from kinfolk import StackedNodes

    model = StackedNodes(n_jobs=jobs, random_state=0, **settings)
    return model.fit(data).predict_proba(data).argmax(axis=1)


def sage(data: Any, jobs: int) -> np.ndarray:
    """Two layers of 64 with means over all links, both ways; dropout of a half, Adam with rate 0.01, so many epochs.

    Sparse products with M and its transpose, as a list of messages would take 5 GB a layer for a million nodes.
    """
    import torch
    from torch.nn import Linear
    from torch.nn.functional import cross_entropy, dropout, relu

    torch.manual_seed(0)
    torch.set_num_threads(jobs)
    links = sparse.csr_array(sum(data.relations.values()), dtype=np.float32)
    degree = np.maximum(np.asarray(links.sum(axis=1)).ravel(), 1)
    means = sparse.csr_array(sparse.dia_array((1 / degree[None], [0]), shape=links.shape) @ links, dtype=np.float32)

    def as_tensor(table: Any) -> Any:
        parts = (torch.from_numpy(part) for part in (table.indptr, table.indices, table.data))
        return torch.sparse_csr_tensor(*parts, size=table.shape)

    forward, backward = as_tensor(means), as_tensor(sparse.csr_array(means.T))

    class Means(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, table: Any) -> Any:
            return forward @ table

        @staticmethod
        def backward(ctx: Any, slope: Any) -> Any:
            return backward @ slope

    rows = torch.from_numpy(np.asarray(data.features, np.float32))
    around = forward @ rows  # no weights before it, so once is enough
    known = torch.from_numpy(np.flatnonzero(data.labels >= 0))
    truth = torch.from_numpy(data.labels.astype(np.int64))[known]
    n_classes = int(data.labels.max()) + 1
    first = [Linear(rows.shape[1], 64), Linear(rows.shape[1], 64, bias=False)]
    second = [Linear(64, n_classes), Linear(64, n_classes, bias=False)]

    def scores(training: bool) -> Any:
        hidden = dropout(relu(first[0](around) + first[1](rows)), 0.5, training)
        return Means.apply(second[0](hidden)) + second[1](hidden)  # by linearity means of what is left of 64

    optimiser = torch.optim.Adam([p for layer in first + second for p in layer.parameters()], lr=0.01)
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        cross_entropy(scores(training=True)[known], truth).backward()
        optimiser.step()
    with torch.no_grad():
        return scores(training=False).argmax(dim=1).numpy()


GROWTH: dict[str, Callable[[Any, int], np.ndarray]] = {
    "local": lambda data, jobs: stacking(data, jobs, 0),
    "level": lambda data, jobs: stacking(data, jobs, 1),
    "levels": lambda data, jobs: stacking(data, jobs, 2),
    "pool": pool,
    "fast": lambda data, jobs: pool(data, jobs, effort="fast"),
    "sage": sage,
}


def one(name: str, nodes: int, jobs: int) -> Row:
    """In a process of its own: accuracy, seconds, memory."""
    from stacked import world

    data, truth, known = world(nodes)
    hidden = np.setdiff1d(np.arange(nodes), known)
    given = peak_megabytes()
    began, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = GROWTH[name](data, jobs)
    return {
        "contestant": name, "nodes": nodes, "links": int(data.relations["links"].nnz), "jobs": jobs,
        "accuracy": 100 * float((found[hidden] == truth[hidden]).mean()), "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu, "peak_mb": peak_megabytes(), "given_mb": given,
    }  # fmt: skip


def apart(name: str, nodes: int, jobs: int) -> Row:
    command = [sys.executable, __file__, "--one", name, "--nodes", str(nodes), "--jobs", str(jobs)]
    threads = {name: str(jobs) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    done = subprocess.run(command, env={**os.environ, **threads}, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return {"contestant": name, "nodes": nodes, "failed": f"exit status {done.returncode}"}
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


# -- Cora ---------------------------------------------------------------------------------------------


def cpu(task: Callable[[], Any]) -> float:
    began = time.process_time()
    task()
    return time.process_time() - began


def cost_on_cora(names: Sequence[str], rounds: int) -> list[Row]:
    """CPU seconds over those of one fit, both medians over rounds; the first round, which may compile, is left out."""
    from sklearn.linear_model import LogisticRegression

    cell = next(cells("cora", "folds", 1))
    rows, labels = cell.world.features[cell.train], cell.world.labels[cell.train]
    tasks: dict[str, Callable[[], Any]] = {"one fit": lambda: LogisticRegression(max_iter=1000).fit(rows, labels)}
    tasks |= {name: lambda name=name: PEERS[name](problem_of(cell)) for name in names}  # type: ignore[misc]
    took: dict[str, list[float]] = {name: [] for name in tasks}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(rounds + 1):
            for name, task in tasks.items():
                took[name].append(cpu(task))
    middle = {name: median(all_[1:]) for name, all_ in took.items()}
    return [
        {"contestant": name, "cpu_seconds": spent, "over_one_fit": spent / middle["one fit"]}
        | ({"over_sage": spent / middle["sage"]} if "sage" in middle else {})
        for name, spent in middle.items()
    ]


# -- The command --------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--contestants", nargs="+", choices=sorted({*GROWTH, *ON_CORA}))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--skip-growth", action="store_true")
    parser.add_argument("--skip-cora", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", choices=GROWTH, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one, given.nodes, given.jobs)))
        return
    absent = () if find_spec("torch_geometric") else ("sage", "gcn")
    asked = [name for name in given.contestants or (*GROWTH, *ON_CORA) if name not in absent]
    figures: dict[str, list[Row]] = {"growth": [], "cora": []}
    for name in [] if given.skip_growth else [name for name in GROWTH if name in asked]:
        row = apart(name, QUICK_NODES if given.quick else given.nodes, given.jobs)
        figures["growth"].append(row)
        print(told(row), flush=True)
    if not (given.quick or given.skip_cora) and (data_folder() / "nodes").exists():
        figures["cora"] = cost_on_cora([name for name in ON_CORA if name in asked], given.rounds)
        for row in figures["cora"]:
            beside = f", {row['over_sage']:.3f} of GraphSAGE's" if "over_sage" in row else ""
            times = f"{row['over_one_fit']:.1f} times one fit of logistic regression{beside}"
            print(f"cora, {row['contestant']:<8} {row['cpu_seconds']:.2f} CPU s: {times}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


def told(row: Row) -> str:
    if "failed" in row:
        return f"{row['nodes']:>9,} nodes, {row['contestant']:<7} failed: {row['failed']}"
    return (
        f"{row['nodes']:>9,} nodes, {row['contestant']:<7} accuracy {row['accuracy']:.2f}, {row['seconds']:.1f} s, "
        f"{row['cpu_seconds']:.1f} CPU s, peak {row['peak_mb'] / 1000:.2f} GB ({row['given_mb'] / 1000:.2f} before)"
    )


if __name__ == "__main__":
    main()
