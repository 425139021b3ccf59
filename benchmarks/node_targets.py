"""Numbers, and several labels a node: pools beside models of own features alone, and beside one pool a label.

    python benchmarks/node_targets.py [--seeds 3] [--task numbers] [--data DIR]

Generated maps of 600 places whose targets depend on five features and on where they are, which only links show; the
same with links between anybody; and Cora (with the data), half of whose words are features and the other half targets:
the twelve most frequent of them as labels, the first component of all of them as a number. A third of the nodes is
trained on, all others are scored. The local models choose their ridge by cross-validation on the training nodes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from node_graphs import data_folder, planetoid
from scipy import sparse
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import f1_score, r2_score
from sklearn.preprocessing import StandardScaler

import kinfolk as kf

World = tuple[kf.Graph, Any, Any]  # with numbers (n,), and labels (n, L)


def map_of_places(seed: int, linked: bool, n: int = 600) -> World:
    rng = np.random.default_rng(seed)
    where = rng.random((n, 2))
    near = (((where[:, None] - where) ** 2).sum(axis=2) < 2.0 / n) & ~np.eye(n, dtype=bool)
    if not linked:
        other = rng.permutation(n)
        near = near[other][:, other]
    table = rng.normal(size=(n, 5))
    y = table[:, 0] - 0.5 * table[:, 1] + 1.5 * np.sin(6 * where[:, 0]) + np.cos(5 * where[:, 1])
    score = table @ rng.normal(size=(5, 4)) + 3 * np.sin(where @ rng.normal(0, 6, (2, 4))) - 0.5
    marks = (rng.random((n, 4)) < 1 / (1 + np.exp(-score))).astype(int)
    return kf.Graph(table, None, {"near": np.argwhere(near)}), y + 0.5 * rng.normal(size=n), marks


def cora(data: Path) -> World:
    from sklearn.decomposition import TruncatedSVD

    world = planetoid(data, "cora")
    words = sparse.csr_array(world.features)
    there = np.asarray((words != 0).sum(axis=0)).ravel()
    by_number = np.argsort(-there, kind="stable")
    targets, features = words[:, by_number[::2]], words[:, by_number[1::2]]
    marks = (targets[:, :12].toarray() > 0).astype(int)
    y = TruncatedSVD(2, random_state=0).fit_transform((targets != 0).astype(float))[:, 1]
    return kf.Graph(features, None, dict(world.relations)), y, marks


def dense(graph: kf.Graph) -> Any:
    table = graph.features
    return table.toarray() if sparse.issparse(table) else StandardScaler().fit_transform(table)


def numbers(graph: kf.Graph, y: Any, train: Any, seed: int) -> dict[str, tuple[float, float]]:
    found = {}
    for effort in ("best", "fast"):
        began = time.process_time()
        model = kf.NodeRegressor(effort=effort, n_jobs=1, random_state=seed).fit(graph, y, train=train)
        found[f"pool, {effort}"] = r2_score(y[~train], model.predict(graph)[~train]), time.process_time() - began
        if effort == "best":
            local = model.predict_candidates(graph)["features"]
            found["its local candidate"] = r2_score(y[~train], local[~train]), 0.0
    began, table = time.process_time(), dense(graph)
    ridge = RidgeCV(np.logspace(-1, 4, 11)).fit(table[train], y[train])
    found["own features, tuned ridge"] = r2_score(y[~train], ridge.predict(table[~train])), time.process_time() - began
    return found


def labels(graph: kf.Graph, marks: Any, train: Any, seed: int) -> dict[str, tuple[float, float, float]]:
    found = {}

    def add(name: str, table: Any, began: float) -> None:
        p, truth = np.clip(table[~train], 1e-5, 1 - 1e-5), marks[~train]
        loss = -np.where(truth > 0, np.log(p), np.log(1 - p)).mean()
        found[name] = f1_score(truth, p >= 0.5, average="micro"), loss, time.process_time() - began

    for effort in ("best", "fast"):
        began = time.process_time()
        model = kf.MultiLabelNodes(effort=effort, n_jobs=1, random_state=seed).fit(graph, marks, train=train)
        add(f"pool, {effort}", model.predict_proba(graph), began)
        if effort == "best":
            add("its local candidate", model.predict_candidates(graph)["features"], time.process_time())
    began, each = time.process_time(), []
    for k in range(marks.shape[1]):
        one = kf.StackedNodes(effort="fast", n_jobs=1, random_state=seed)
        each.append(one.fit(graph.with_labels(marks[:, k].tolist()), train=train).predict_proba(graph)[:, 1])
    add("a StackedNodes each, fast", np.stack(each, axis=1), began)
    began, table, alone = time.process_time(), dense(graph), []
    for k in range(marks.shape[1]):
        model = LogisticRegressionCV(Cs=7, cv=3, scoring="neg_log_loss").fit(table[train], marks[train, k])
        alone.append(model.predict_proba(table)[:, 1])
    add("own features, tuned logistic", np.stack(alone, axis=1), began)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--task", choices=("numbers", "labels"), help="one of the two alone")
    parser.add_argument("--data", type=Path, default=data_folder())
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    worlds = {"map": lambda seed: map_of_places(seed, True), "map, any links": lambda seed: map_of_places(seed, False)}
    if (given.data / "nodes" / "planetoid").exists():
        worlds["cora"] = lambda seed: cora(given.data)
    for name, make in worlds.items():
        for task, measure in (("numbers: R², CPU s", numbers), ("labels: micro-F1, log-loss, CPU s", labels)):
            if given.task not in (None, measure.__name__):
                continue
            rows: dict[str, list[Any]] = {}
            for seed in range(given.seeds):
                graph, y, marks = make(seed)
                train = np.zeros(len(y), bool)
                train[np.random.default_rng(seed).permutation(len(y))[: len(y) // 3]] = True
                for model, row in measure(graph, y if measure is numbers else marks, train, seed).items():
                    rows.setdefault(model, []).append(row)
            print(f"{name}, {task}")
            for model, all_rows in rows.items():
                mean, spread = np.mean(all_rows, axis=0), np.std(all_rows, axis=0)
                print(
                    f"  {model:30}",
                    "  ".join(f"{m:.3f} ± {s:.3f}" for m, s in zip(mean, spread, strict=True)),
                    flush=True,
                )


if __name__ == "__main__":
    main()
