"""Figure 3 of the mixture-of-parents paper: pages of four computer science departments, one left out at a time.

For each school the models are trained on the other three. Settings are chosen among those three alone, again leaving
one out at a time; the school that is scored has no say. The node model is the same library's log-linear model
without any relation. The improvement is the paper's: percent of the node model's error that is gone.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from kinfolk.datasets.webkb import read_webkb
from kinfolk.graph.graph import Graph
from kinfolk.graph.link_model import LinkModel
from kinfolk.graph.mixture import MixtureNodes
from kinfolk.papers.harness import Report, Row, Tell
from kinfolk.papers.stacking import Split, by_group

Stages = tuple[tuple[dict[str, Any], ...], ...]
RIDGE = ({"l2": 0.3}, {"l2": 1.0}, {"l2": 3.0}, {"l2": 10.0})
MIXING = ({"mixing": "uniform"}, {"mixing": "learned"})
MODELS: dict[str, tuple[Any, dict[str, Any], Stages]] = {
    "node": (MixtureNodes, {"relations": [], "training": "separate"}, (RIDGE,)),
    "link": (LinkModel, {}, (RIDGE,)),
    "mixture separate": (MixtureNodes, {"training": "separate"}, (RIDGE, MIXING)),
    "mixture joint": (MixtureNodes, {"training": "joint"}, (RIDGE, MIXING)),
}
PAPER = {
    ("webkb", "node", "mean"): {"error": 16.9},
    ("webkb", "link", "mean"): {"error": 13.6},
    ("webkb", "mixture separate", "mean"): {"error": 13.1},
    ("webkb", "mixture joint", "mean"): {"error": 13.3},
}


def run(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """All rows; `data` has the layout of the data folder (nodes/webkb_raw_cmu/webkb.tar.gz)."""
    began = time.perf_counter()
    graph = read_webkb(data / "nodes" / "webkb_raw_cmu" / "webkb.tar.gz")
    tell(f"{graph}")
    rows: list[Row] = []
    chosen: dict[str, Any] = {}
    for name, (method, base, stages) in MODELS.items():
        for school, train, _, test, _ in by_group(graph):
            settings = _choose(method, train, base, stages, tell, n_jobs)
            chosen[f"{name}, {school}"] = settings
            model = method(n_jobs=n_jobs, **settings).fit(train)
            error = 100 * (1 - model.score(test))
            row: Row = {"model": name, "dataset": "webkb", "split": school, "error": error}
            if method is LinkModel:  # belief propagation may not settle
                row["not_converged"] = len(model.inference_report(test).not_converged)
            rows.append(row)
            tell(f"{name}, {school}, {settings}: error {error:.2f}")
        mean = float(np.mean([row["error"] for row in rows if row["model"] == name]))
        unsettled = [row["not_converged"] for row in rows if row["model"] == name and "not_converged" in row]
        total = {"not_converged": sum(unsettled)} if unsettled else {}
        rows.append({"model": name, "dataset": "webkb", "split": "mean", "error": mean, **total})
        tell(f"{name}, mean: error {mean:.2f}")
    node = {row["split"]: row["error"] for row in rows if row["model"] == "node"}
    for row in rows:
        row["improvement"] = 100 * (1 - row["error"] / node[row["split"]])
    used = {"chosen by leaving out each of the three training schools": chosen, "pages": graph.n_nodes}
    return Report("mop-webkb", rows, time.perf_counter() - began, used, ("error", "improvement"), PAPER)


def _error(method: Any, split: Split, settings: dict[str, Any], n_jobs: int) -> float:
    return 100 * (1 - float(method(n_jobs=n_jobs, **settings).fit(split.fit).score(split.target)))


def _choose(
    method: Any, train: Graph, settings: dict[str, Any], stages: Stages, tell: Tell, n_jobs: int
) -> dict[str, Any]:
    """Stage after stage, the choice with the least mean error is kept for the next."""
    for stage in stages:
        errors = []
        for choice in stage:
            tried = {**settings, **choice}
            errors.append(np.mean([_error(method, split, tried, n_jobs) for split in by_group(train)]))
            tell(f"  {tried}: error {errors[-1]:.2f} on held-out schools")
        settings = {**settings, **stage[int(np.argmin(errors))]}
    return settings
