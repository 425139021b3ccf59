"""Table 1 of the stacked graphical learning paper, Cora and CiteSeer: papers, their words, and who cites whom.

Three parts, all on the same five folds:

- the paper's models, with binary words and counts of citing and cited papers by class; neighbours give predictions only
- the same where neighbours that were trained on give their true labels (model names end in ", known labels")
- "stacked best, known labels": words weighted by how rare they are and smoothed along citations (`diffused`), and above
  that model one level that is told its own prediction and the labels of neighbours, one and two steps away. How far
  words travel is chosen for each fold on its training papers, by three folds of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from kinfolk.collective.templates import Mean
from kinfolk.graph.diffusion import diffused
from kinfolk.graph.graph import Graph
from kinfolk.graph.stacked import StackedNodes
from kinfolk.papers.graphs import citations
from kinfolk.papers.harness import Report, Row, Tell
from kinfolk.papers.stacking import PAPER_ROWS, Split, compared, maxent, table

NEAR = "cites | cited_by"
FAR = f"({NEAR}) @ ({NEAR})"
ALPHAS = (0.1, 0.15, 0.2, 0.3)
BEST = "stacked best, known labels"


def run_citations(name: str, printed: Sequence[float], data: Path, tell: Tell, n_jobs: int) -> Report:
    """All rows of one data set; `printed` are the paper's figures."""
    began = time.perf_counter()
    problem = citations(data, name)
    tell(f"{problem.graph}")
    rows = compared(name, problem.splits, maxent(), problem.templates, "crossfit", tell, n_jobs)
    rows += compared(name, problem.splits, maxent(), problem.templates, "true", tell, n_jobs, suffix=", known labels")
    best, chosen = best_rows(name, problem.splits, tell, n_jobs)
    paper = {(name, model, "mean"): {"accuracy": figure} for model, figure in zip(PAPER_ROWS, printed, strict=True)}
    settings = {"base": repr(maxent()), "alpha chosen on training papers": chosen}
    seconds = time.perf_counter() - began
    return Report(f"stacked-{name}", rows + best, seconds, settings, ("accuracy", "p_value"), paper)


def best_rows(name: str, splits: Sequence[Split], tell: Tell, n_jobs: int) -> tuple[list[Row], dict[str, float]]:
    """The best model, beside the model of smoothed words that it stands on and that of the words alone."""
    found: dict[str, list[float]] = {}
    chosen: dict[str, float] = {}
    words = weighted(splits[0].fit)
    smooth = {alpha: unit_rows(diffused(words, NEAR, alpha, scale=False)) for alpha in ALPHAS}
    for split in splits:
        alpha = chosen[split.name] = _chosen_alpha(smooth, split.train)
        graph = smooth[alpha]
        model = best_model(n_jobs).fit(graph, train=split.train)
        levels = [split.accuracy(p, model.classes_) for p in model.predict_levels(graph)]
        for label, accuracy in zip(("smoothed words", BEST), levels, strict=True):
            found.setdefault(label, []).append(accuracy)
        tell(f"{name}, {split.name}: alpha {alpha}, smoothed words {levels[0]:.2f}, best {levels[1]:.2f}")
    return table(name, [split.name for split in splits], found, BEST), chosen


def best_model(n_jobs: int) -> StackedNodes:
    templates = [Mean(NEAR), Mean(FAR)]
    return StackedNodes(
        [maxent(3.0), maxent(1.0)], templates, own=True, features=False, known="true", n_jobs=n_jobs
    )


def weighted(graph: Graph) -> Graph:
    """Words times log((1 + n) / (1 + pages with the word)) + 1, rows of unit length."""
    from sklearn.feature_extraction.text import TfidfTransformer

    words = sparse.csr_array(graph.features, dtype=np.float64)
    return graph.with_features(sparse.csr_array(TfidfTransformer().fit_transform(words)), graph.feature_names)


def unit_rows(graph: Graph) -> Graph:
    """Rows of length 1, for which the ridge of the best model was chosen."""
    from sklearn.preprocessing import normalize

    return graph.with_features(normalize(graph.features), graph.feature_names)


def _chosen_alpha(smooth: dict[float, Graph], train: Any) -> float:
    """How far words travel: what classifies held-out training papers best, by three folds."""
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scores = []
    for graph in smooth.values():
        rows, codes = graph.features[train], graph.label_codes[train]
        scores.append(cross_val_score(maxent(3.0), rows, codes, cv=folds).mean())
    return list(smooth)[int(np.argmax(scores))]
