"""What features of links give a pool of nodes, on generated graphs: python benchmarks/link_features.py --seeds 5

kind     links of one kind join the alike, those of the other the unlike
amount   accounts of a class pay more, whomever they pay
large    large amounts go to the alike, others to anybody; small: the other way round
nothing  neither amounts nor kinds mean anything

Accuracy in percent on the six tenths of the nodes that are not trained on, means over seeds, and the difference to the
graph without features of links with its standard error.
"""

from __future__ import annotations

import argparse
import logging
from typing import Any

import numpy as np

import kinfolk as kf

WORLDS = ("kind", "amount", "large", "small", "nothing")
WAYS: dict[str, dict[str, Any]] = {
    "without": {},
    "weight=amount": {"weight": "amount"},
    "amount": {"link_features": ["amount"]},
    "kind": {"link_features": ["kind"]},
    "both": {"link_features": ["amount", "kind"]},
}
THIRD = 0.43  # of a normal variable: a third of the draws lie above


def world(
    what: str, seed: int, n: int = 600, classes: int = 3, links: int = 5
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tables of nodes, with features that say little, and of links."""
    rng = np.random.default_rng(seed)
    label, source = rng.integers(classes, size=n), rng.integers(n, size=n * links)
    size, kind = rng.normal(size=n * links), rng.integers(2, size=n * links)
    target = rng.integers(n, size=n * links)
    features = 0.7 * np.eye(classes)[label] + rng.normal(size=(n, classes))
    carries = {"kind": size == size, "large": size > THIRD, "small": size < -THIRD}.get(what, size != size)
    for i in np.flatnonzero(carries & ((what == "kind") | (rng.random(n * links) < 0.85))):
        alike = label == label[source[i]]
        target[i] = rng.choice(np.flatnonzero(~alike if what == "kind" and kind[i] else alike))
    amount = np.exp(3 + size + (0.5 * (label[source] - 1) if what == "amount" else 0))
    nodes = {"id": list(range(n)), "label": label.tolist()} | {f"x{i}": features[:, i] for i in range(classes)}
    ends = {"source": source.tolist(), "target": target.tolist()}
    return nodes, ends | {"amount": amount, "kind": np.where(kind == 0, "a", "b").tolist()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--effort", default="fast", choices=["fast", "best"])
    given = options.parse_args()
    logging.getLogger("kinfolk").setLevel(logging.ERROR)
    for what in WORLDS:
        found: dict[str, list[float]] = {way: [] for way in WAYS}
        for seed in range(given.seeds):
            nodes, edges = world(what, seed)
            train = np.random.default_rng([seed, 1]).random(len(nodes["id"])) < 0.4
            for way, columns in WAYS.items():
                graph = kf.Graph.from_frames(nodes, edges, label="label", **columns)
                model = kf.StackedNodes(effort=given.effort, n_jobs=1, random_state=seed).fit(graph, train=train)
                found[way].append(100 * model.score(graph))
        for way, scores in found.items():
            gain = np.subtract(scores, found["without"])
            error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else float("nan")
            print(f"{what:8} {way:14} {np.mean(scores):5.1f}  {gain.mean():+5.1f} ± {error:.1f}", flush=True)


if __name__ == "__main__":
    main()
