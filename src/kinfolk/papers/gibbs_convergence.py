"""Figure 4 of the stacked graphical learning paper: accuracy by iteration, stacking beside Gibbs sampling.

On SLIF and WebKB: ten levels of stacking (cross-fitted as in the paper), and 150 sweeps of Gibbs sampling in the
dependency network, from random labels (five starts a fold, error bars over them) and from the local model's.
Predictions after a sweep are the mean of the conditionals so far.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import SettingError
from kinfolk.graph.stacked import StackedNodes
from kinfolk.papers.graphs import Problem, slif, webkb
from kinfolk.papers.harness import Report, Row, Tell
from kinfolk.papers.stacking import Split, maxent, paper_network

LEVELS, SWEEPS, STARTS = 10, 150, 5
NAMES = ("stacked", "Gibbs from random labels", "Gibbs from the local model")
Curves = dict[str, NDArray[np.float64]]  # name -> (starts, iterations), means over folds


def run(data: Path, tell: Tell, n_jobs: int = -1) -> Report:
    """Curves and figure; `data` has the layout of the data folder."""
    _matplotlib()
    began = time.perf_counter()
    found = {problem.name: curves(problem, tell, n_jobs) for problem in (slif(data), webkb(data))}
    rows: list[Row] = []
    for dataset, drawn in found.items():
        for name, table in drawn.items():
            first = 0 if name == NAMES[0] else 1
            for i in range(table.shape[1]):
                row: Row = {"model": name, "dataset": dataset, "split": f"iteration {i + first}"}
                rows.append({**row, "accuracy": float(table[:, i].mean()), "spread": float(table[:, i].std())})
    settings = {"levels": LEVELS, "sweeps": SWEEPS, "starts": STARTS}
    shown = ("accuracy", "spread")
    return Report(
        "gibbs-convergence", rows, time.perf_counter() - began, settings, shown, draw=lambda p: draw(found, p)
    )


def curves(problem: Problem, tell: Tell, n_jobs: int) -> Curves:
    """Accuracy after each iteration, means over the folds; iteration 0 of stacking is the local model."""
    total: Curves = {}
    for split in problem.splits:
        for name, table in one_fold(split, problem.templates, n_jobs).items():
            total[name] = total.get(name, np.zeros(table.shape)) + table / len(problem.splits)
        tell(f"{problem.name}, {split.name} done")
    return total


def one_fold(split: Split, templates: list[Any], n_jobs: int) -> Curves:
    stacked = StackedNodes(maxent(), templates, LEVELS, cross_fitting="paper", known="crossfit", n_jobs=n_jobs)
    stacked.fit(split.fit, train=split.train)
    levels = [split.accuracy(table, stacked.classes_) for table in stacked.predict_levels(split.target)]
    gibbs = paper_network(split, maxent(), templates, n_jobs=n_jobs)

    def chain(start: str, number: int) -> list[float]:
        gibbs.set_params(start=start)
        steps = gibbs.trace(split.target, SWEEPS, chain=number, known="none")
        return [split.accuracy(table, gibbs.classes_) for table in steps]

    random = [chain("random", number) for number in range(STARTS)]
    found = ([levels], random, [chain("local", 0)])
    return {name: np.array(table) for name, table in zip(NAMES, found, strict=True)}


def draw(found: dict[str, Curves], path: Path) -> None:
    """The figure, one panel a data set, the natural logarithm of the iteration along the bottom as in the paper."""
    figure = _matplotlib()(figsize=(5.2 * len(found), 4.2), layout="constrained")
    for place, (dataset, drawn) in enumerate(found.items(), 1):
        axes = figure.add_subplot(1, len(found), place)
        for name, table in drawn.items():
            first = 1 if name != NAMES[0] else 0
            kept = table[:, 1 - first :]  # the logarithm of iteration 0 is nowhere
            steps = np.log(np.arange(1, kept.shape[1] + 1))
            bars = kept.std(axis=0) if len(kept) > 1 else None
            axes.errorbar(steps, kept.mean(axis=0), bars, label=name, capsize=2, errorevery=(2, 7), linewidth=1.3)
        axes.set(title=dataset, xlabel="ln k, the iteration", ylabel="accuracy, %")
        axes.legend(fontsize="small", loc="lower right")
    figure.savefig(path, dpi=120, format="png")


def _matplotlib() -> Any:
    """matplotlib's Figure, which needs no screen."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingError("drawing needs matplotlib: pip install 'kinfolk[plots]'") from None
    return Figure
