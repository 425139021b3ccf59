"""A layer over the probabilities of a classifier of words, on Cora and CiteSeer: accuracy of what was given, and of the
layer; on the same nodes with links between anybody too, which say nothing.

    python benchmarks/node_layer.py                    both graphs, a tenth and half of the labels, three seeds
    python benchmarks/node_layer.py --graphs cora --seeds 1

Given: scikit-learn's logistic regression on words, out of fold for the nodes trained on (`kf.out_of_fold`, five folds).
All settings are defaults. Data are read from the folder named by KINFOLK_DATA, or ../shared/data beside the checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import kinfolk as kf


def graph_of(name: str) -> kf.Graph:
    folder = Path(os.environ.get("KINFOLK_DATA", "../shared/data")) / "nodes" / f"{name}_linqs"
    return kf.read_linqs(folder / f"{name}.content.gz", folder / f"{name}.cites")


def measured(graph: kf.Graph, share: float, seed: int, anybody: bool) -> dict[str, Any]:
    rng, n = np.random.default_rng(seed), graph.n_nodes
    labels, train = graph.classes.array()[graph.label_codes], rng.permutation(n) < share * n
    if anybody:
        n_links = next(iter(graph.relations.values())).nnz
        graph = kf.Graph(graph.features, labels, {"anybody": rng.integers(n, size=(n_links, 2))}, ids=graph.ids)
    rows = np.flatnonzero(train)
    found = kf.out_of_fold(LogisticRegression(max_iter=300), graph.features[rows], labels[rows], random_state=seed)
    table = found.model.predict_proba(graph.features)
    table[rows] = found.probabilities
    row = {"given": float((np.array(found.classes)[table.argmax(axis=1)] == labels)[~train].mean())}
    for name, features in (("layer", True), ("without features", False)):
        began = time.process_time()
        layer = kf.NodeLayer(features=features, random_state=seed).fit(graph, table, train=train, classes=found.classes)
        row[name] = layer.score(graph, table)
        row[f"seconds, {name}"] = time.process_time() - began
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", choices=("cora", "citeseer"), default=["cora", "citeseer"])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.1, 0.5])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for name in options.graphs:
        graph = graph_of(name)
        for share in options.shares:
            for anybody in (False, True):
                rows = [measured(graph, share, seed, anybody) for seed in range(options.seeds)]
                means = {key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0]}
                print(json.dumps({"graph": name, "share": share, "links": "anybody" if anybody else "own", **means}))


if __name__ == "__main__":
    main()
