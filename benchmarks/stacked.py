"""What stacked inference costs: beside Gibbs sampling on four data sets, and as graphs grow, beside scikit-network.

    python benchmarks/stacked.py               everything: four data sets, then 10,000 to 1,000,000 nodes
    python benchmarks/stacked.py --quick       a smoke test: no data sets, 2,000 nodes
    python benchmarks/stacked.py --skip-data   growth alone
    python benchmarks/stacked.py --json FILE   write all figures

Gibbs     time of 50 and 100 sweeps over that of stacking with one level, both asking the conditional model through the
          same code ("plain"), and with the kernel that keeps what does not change ("fast"); see gibbs-speed
Growth    a generated graph: 10 links a node, 7 classes, 32 features a node, links between like nodes 7 times of 10; 2 %
          of the nodes have labels. "level" is the whole second pass, "needs" the sparse products (SciPy) and the base's
          predictions on rows that lie ready, taken in turn; memory is the peak while predicting over the input arrays
Peers     scikit-network's propagation and diffusion classifiers on the same links and labels (they see no features)
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from node_graphs import data_folder
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from kinfolk import Count, Relational, StackedNodes
from kinfolk.graph.stacked import NodePredictor
from kinfolk.papers.data import PROBLEMS
from kinfolk.papers.gibbs import speed_rows

SIZES = (10_000, 100_000, 1_000_000)
LINKS, CLASSES, FEATURES, LABELLED = 10, 7, 32, 0.02
MOST_TIME, MOST_MEMORY, LEAST_SPEEDUP = 1.5, 3.0, 85.0
ROUNDS = 5


def world(n: int, seed: int = 0) -> tuple[Relational, np.ndarray, np.ndarray]:
    """A graph, its true labels, and the nodes whose label is known."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(CLASSES, size=n).astype(np.int32)
    order = np.argsort(truth, kind="stable")
    starts = np.searchsorted(truth[order], np.arange(CLASSES + 1))
    source = np.repeat(np.arange(n), LINKS)
    target = rng.integers(n, size=len(source))
    alike = rng.random(len(source)) < 0.7
    own = truth[source[alike]]
    target[alike] = order[starts[own] + (rng.random(len(own)) * (starts[own + 1] - starts[own])).astype(np.int64)]
    kept = source != target
    ones = np.ones(int(kept.sum()), np.float32)
    links = sparse.csr_array((ones, (source[kept], target[kept])), shape=(n, n))
    centres = rng.normal(size=(CLASSES, FEATURES)).astype(np.float32)
    features = 0.25 * centres[truth] + rng.standard_normal((n, FEATURES), dtype=np.float32)
    known = rng.choice(n, int(LABELLED * n), replace=False)
    labels = np.full(n, -1, np.int32)
    labels[known] = truth[known]
    relations = {"links": links, "linked_from": sparse.csr_array(links.T)}
    return Relational(features, labels, [f"class {c}" for c in range(CLASSES)], relations), truth, known


def seconds(task: Callable[[], Any]) -> float:
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


def growth(n: int, jobs: int, rounds: int) -> dict[str, Any]:
    """Time and memory of inference on a graph of n nodes."""
    data, truth, known = world(n)
    hidden = np.setdiff1d(np.arange(n), known)
    model = StackedNodes(
        LogisticRegression(max_iter=200), [Count("links"), Count("linked_from")], known="true", n_jobs=jobs
    )
    fit = seconds(lambda: model.fit(data))
    table = model.predict_proba(data)
    accuracy = [100 * float((t.argmax(1)[hidden] == truth[hidden]).mean()) for t in model.predict_levels(data)]
    whole = median(seconds(lambda: model.predict_proba(data)) for _ in range(rounds))
    given = sum(part.nbytes for r in data.relations.values() for part in (r.data, r.indices, r.indptr))
    given += data.features.nbytes
    tracemalloc.start()
    model.predict_proba(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    level, products, base = second_level(model, data, table, rounds)
    return {
        "nodes": n, "links": data.relations["links"].nnz, "fit_seconds": fit, "predict_seconds": whole,
        "level_seconds": level, "product_seconds": products, "base_seconds": base,
        "level_over_needs": level / (products + base), "peak_over_input": peak / given,
        "local_accuracy": accuracy[0], "accuracy": accuracy[1], "peers": peers(data, truth, known, hidden),
    }  # fmt: skip


def second_level(model: StackedNodes, data: Relational, votes: Any, rounds: int) -> tuple[float, float, float]:
    """Seconds of the second pass, of the sparse products in it, and of the base on rows that lie ready; in turn."""
    nobody = np.full(len(data), -1, np.int32)
    last = NodePredictor(model.levels_, model._ready(model._nodes(data)), model._ask, nobody, None, nobody)
    relations = list(data.relations.values())
    aggregates = np.concatenate([r @ votes for r in relations], axis=1)
    ready = np.concatenate([data.features, aggregates.astype(np.float32)], axis=1)
    estimator = model.levels_[1].estimator
    took: list[tuple[float, float, float]] = []
    for _ in range(rounds):
        took.append(
            (
                seconds(lambda: last.at_level(1, np.arange(len(votes)), votes, votes)),
                seconds(lambda: [r @ votes for r in relations]),
                seconds(lambda: estimator.predict_proba(ready)),
            )
        )
    level, products, base = (median(column) for column in zip(*took, strict=True))
    return level, products, base


def peers(data: Relational, truth: Any, known: Any, hidden: Any) -> dict[str, dict[str, float]]:
    """Time and accuracy of scikit-network's classifiers of links."""
    from sknetwork.classification import DiffusionClassifier, Propagation

    links = sparse.csr_matrix(data.relations["links"] + data.relations["linked_from"])
    labels = np.full(len(truth), -1)
    labels[known] = truth[known]
    found = {}
    for name, peer in (("propagation", Propagation()), ("diffusion", DiffusionClassifier())):
        began = time.perf_counter()
        answer = peer.fit_predict(links, labels=labels)
        took = time.perf_counter() - began
        found[name] = {"seconds": took, "accuracy": 100 * float((answer[hidden] == truth[hidden]).mean())}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--skip-data", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    figures: dict[str, Any] = {"gibbs": [], "growth": []}
    folder = None if given.quick or given.skip_data else data_folder()
    if folder is not None:
        for problem in PROBLEMS.values():
            figures["gibbs"] += speed_rows(print, problem(folder))
        stacked = [row for row in figures["gibbs"] if row["model"] == "stacked k=1"]
        for name in ("speedup_50", "speedup_100", "fast_speedup_50", "fast_speedup_100"):
            print(f"{name:>16}", *(f"{row['dataset']} {row[name]:.1f}" for row in stacked), end="  ")
            print(f"mean {np.mean([row[name] for row in stacked]):.1f}")
        print(f"asked for: speedup_100 of {LEAST_SPEEDUP:g} on average")
    for n in (2_000,) if given.quick else SIZES:
        row = growth(n, given.jobs, 2 if given.quick else ROUNDS)
        figures["growth"].append(row)
        print(
            f"{n:>9,} nodes: fit {row['fit_seconds']:.2f} s, predict {row['predict_seconds']:.3f} s; level "
            f"{row['level_seconds']:.3f} s over needs {row['product_seconds']:.3f} + {row['base_seconds']:.3f} s: "
            f"{row['level_over_needs']:.2f} (at most {MOST_TIME}); peak memory {row['peak_over_input']:.2f} of the "
            f"input (at most {MOST_MEMORY:g}); accuracy {row['local_accuracy']:.1f} alone, {row['accuracy']:.1f} "
            "stacked"
        )
        for name, peer in row["peers"].items():
            print(f"{'':>9}  scikit-network {name}: {peer['seconds']:.3f} s, accuracy {peer['accuracy']:.1f}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
