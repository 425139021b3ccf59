"""Table 1, SLIF: which candidate regions of a figure are text.

The public sample's own features already hold what OCR read in the neighbours, so the local model knows most of what one
step along the links could tell it. Five folds, by instance and by figure; by instance in two settings: neighbours give
predictions, or those trained on give true labels (", known labels"; no link leads out of a figure, so by figure there
is nothing to know). "stacked wide" is told more: of competitors, of all four sides together, of everybody linked by
any number of steps, of the figure, and its own prediction, two levels.
"stacked order" adds how many regions of the panel come before this one in the ids: in this sample the first is text
in 87 of 100 cases, which may be an artefact of how ids were given; it is shown for what it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from kinfolk.graph.graph import Graph
from kinfolk.graph.stacked import StackedNodes
from kinfolk.papers.graphs import SLIF_WIDE, slif
from kinfolk.papers.harness import Report, Row, Tell
from kinfolk.papers.stacking import PAPER_ROWS, Split, compared, maxent, table

PAPER = dict(zip(PAPER_ROWS, (77.2, 86.7, 90.1, 90.1, 96.3), strict=True))


def run(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """All rows; `data` has the layout of the data folder (nodes/slif_sgm_minorthird)."""
    began = time.perf_counter()
    problem = slif(data)
    rows: list[Row] = []
    ordered = with_order(problem.graph)
    for dataset, splits, same in (
        ("slif", problem.splits, lambda graph: [_on(graph, split) for split in problem.splits]),
        ("slif by figure", list(by_figure(problem.graph)), lambda graph: list(by_figure(graph))),
    ):
        rows += compared(dataset, splits, maxent(), problem.templates, "crossfit", tell, n_jobs)
        if dataset == "slif":
            rows += compared(
                dataset, splits, maxent(), problem.templates, "true", tell, n_jobs, suffix=", known labels"
            )
            rows += wide_rows(dataset, "stacked wide", splits, "true", tell, n_jobs, ", known labels")
        for name, graph in (("stacked wide", problem.graph), ("stacked order", ordered)):
            rows += wide_rows(dataset, name, same(graph), "crossfit", tell, n_jobs)
    paper = {("slif", model, "mean"): {"accuracy": figure} for model, figure in PAPER.items()}
    settings = {"base": repr(maxent()), "wide templates": [repr(template) for template in SLIF_WIDE]}
    return Report("stacked-slif", rows, time.perf_counter() - began, settings, ("accuracy", "p_value"), paper)


def wide_rows(
    dataset: str, name: str, splits: list[Split], known: str, tell: Tell, n_jobs: int, suffix: str = ""
) -> list[Row]:
    """More templates and the own prediction, by depth."""
    found: dict[str, list[float]] = {}
    for split in splits:
        model = StackedNodes(maxent(), SLIF_WIDE, 2, own=True, known=known, n_jobs=n_jobs)
        model.fit(split.fit, train=split.train)
        for depth, proba in enumerate(model.predict_levels(split.target)):
            label = f"{name} k={depth}" if depth else name.replace("stacked", "local")
            found.setdefault(label + suffix, []).append(split.accuracy(proba, model.classes_))
    means = ", ".join(f"{label} {np.mean(scores):.2f}" for label, scores in found.items())
    tell(f"{dataset}: {means}")
    return table(dataset, [split.name for split in splits], found, f"{name} k=2{suffix}")


def _on(graph: Graph, split: Split) -> Split:
    """The same fold of a graph with other features."""
    return split._replace(fit=graph, target=graph)


def by_figure(graph: Graph, n_folds: int = 5) -> Iterator[Split]:
    """Folds that never divide a figure: trained on some figures, scored on others."""
    from sklearn.model_selection import GroupKFold

    for number, (train, test) in enumerate(GroupKFold(n_folds).split(graph.ids, groups=graph.group_codes)):
        fit, target = graph.subset(train), graph.subset(test)
        yield Split(f"fold {number}", fit, np.arange(fit.n_nodes), target, np.arange(target.n_nodes))


def with_order(graph: Graph) -> Graph:
    """One more feature: log(1 + regions of the panel that come before this one)."""
    rivals = graph.relations["competitor"]
    numbers = np.array([int(key.rpartition("_")[2].partition(".")[0]) for key in graph.ids])
    here = np.repeat(np.arange(graph.n_nodes), np.diff(rivals.indptr))
    before = np.bincount(here[numbers[rivals.indices] < numbers[here]], minlength=graph.n_nodes)
    column = sparse.csr_array(np.log1p(before)[:, None])
    assert graph.feature_names is not None
    table_ = sparse.csr_array(sparse.hstack([graph.features, column], format="csr"))
    return graph.with_features(table_, [*graph.feature_names, "regions before"])
