"""Table 1, WebKB: pages of four departments, each left out in turn, and the 877 pages of LINQS's form.

On the raw pages (six classes, as in the paper) the models of Table 1. On LINQS's form, beside them, "stacked best": log
counts over links, and over pages that are linked together; words as they are or weighted by how rare they are,
relations and depth chosen for each school by leaving out the other three in turn.
"""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinfolk.collective.templates import Count, LogCount
from kinfolk.datasets.linqs import read_linqs
from kinfolk.datasets.webkb import SCHOOLS
from kinfolk.graph.graph import Graph
from kinfolk.graph.stacked import StackedNodes
from kinfolk.papers.graphs import webkb
from kinfolk.papers.harness import Report, Row, Tell
from kinfolk.papers.stacked_citations import weighted
from kinfolk.papers.stacking import PAPER_ROWS, Split, by_group, compared, maxent, table

PAPER = dict(zip(PAPER_ROWS, (58.3, 74.2, 73.2, 72.1, 73.6), strict=True))
TOGETHER = ("cited_by @ cites", "cites @ cited_by")  # linked from one page; linking to one page
RELATIONS = (("cites", "cited_by"), ("cites", "cited_by", TOGETHER[0]), ("cites", "cited_by", *TOGETHER))
WORDS = {"binary": 0.01, "weighted": 10.0}  # and the C of their maximum entropy model
DEPTH = 2


class Choice(NamedTuple):
    words: str
    relations: tuple[str, ...]
    depth: int


def run(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """All rows; `data` has the layout of the data folder (nodes/webkb_raw_cmu, nodes/webkb_linqs)."""
    began = time.perf_counter()
    problem = webkb(data)
    tell(f"{problem.graph}")
    rows = compared("webkb", problem.splits, maxent(), problem.templates, "crossfit", tell, n_jobs)
    _add_error_reduction(rows)
    graph = linqs_pages(data)
    counts = [Count("cites"), Count("cited_by")]
    rows += compared("webkb-linqs", list(by_group(graph)), maxent(), counts, "crossfit", tell, n_jobs)
    best, chosen = best_rows(graph, tell, n_jobs)
    paper = {("webkb", model, "mean"): {"accuracy": figure} for model, figure in PAPER.items()}
    settings = {"base": repr(maxent()), "chosen by leaving out each of the three training schools": chosen}
    shown = ("accuracy", "p_value", "fewer_errors")
    return Report("stacked-webkb", rows + best, time.perf_counter() - began, settings, shown, paper)


def linqs_pages(data: Path) -> Graph:
    folder = data / "nodes" / "webkb_linqs"
    return read_linqs([folder / f"{s}.content" for s in SCHOOLS], [folder / f"{s}.cites" for s in SCHOOLS])


def _add_error_reduction(rows: list[Row]) -> None:
    """To the mean rows: percent of the local model's errors that are gone."""
    means = {row["model"]: row for row in rows if row["split"] == "mean"}
    for row in means.values():
        errors = 100 - means["local"]["accuracy"]
        row["fewer_errors"] = 100 * (1 - (100 - row["accuracy"]) / errors) if errors else 0.0


def best_rows(graph: Graph, tell: Tell, n_jobs: int) -> tuple[list[Row], dict[str, Any]]:
    """The choice that does best when each of the three training schools is left out in turn, on the fourth."""
    kinds = {"binary": graph, "weighted": weighted(graph)}
    found: list[float] = []
    chosen: dict[str, Any] = {}
    right = 0.0
    for number, school in enumerate(graph.group_names):
        inside = graph.group_codes == number
        scores: dict[Choice, float] = {}
        for words, relations in product(WORDS, RELATIONS):
            others = kinds[words].subset(~inside)
            tried = np.mean([_levels(split, words, relations, n_jobs) for split in by_group(others)], axis=0)
            scores.update({Choice(words, relations, depth): float(a) for depth, a in enumerate(tried)})
        best = max(scores, key=lambda choice: scores[choice])
        split = list(by_group(kinds[best.words]))[number]
        found.append(_levels(split, best.words, best.relations, n_jobs)[best.depth])
        right += found[-1] * inside.sum()
        chosen[school] = best._asdict()
        tell(f"webkb-linqs, {school}: {best}, held-out {scores[best]:.2f}, stacked best {found[-1]:.2f}")
    rows = table("webkb-linqs", list(graph.group_names), {"stacked best": found}, "stacked best")
    pooled: Row = {"model": "stacked best", "dataset": "webkb-linqs", "split": "all pages"}
    return [*rows, {**pooled, "accuracy": right / graph.n_nodes}], chosen


def _levels(split: Split, words: str, relations: tuple[str, ...], n_jobs: int) -> list[float]:
    """Accuracies by depth, from the words alone."""
    templates = [LogCount(relation) for relation in relations]
    base = maxent(WORDS[words])
    model = StackedNodes(base, templates, DEPTH, own=True, cross_fitting="paper", known="crossfit", n_jobs=n_jobs)
    model.fit(split.fit)
    return [split.accuracy(p, model.classes_) for p in model.predict_levels(split.target)]
