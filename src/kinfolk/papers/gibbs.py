"""Figure 4 and Table 2 of the stacked graphical learning paper: stacking beside Gibbs sampling."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import SettingError
from kinfolk.graph.stacked import StackedNodes
from kinfolk.papers.data import PROBLEMS, Problem, Split, slif, webkb
from kinfolk.papers.harness import Log, Row, Run, experiment, paired_t_test
from kinfolk.papers.stacking import NOTHING, REFERENCE, chosen, folds_by_rows, level_accuracies, maxent, paper_network

# -- Figure 4 -------------------------------------------------------------------------------------------

LEVELS, SWEEPS, STARTS = 10, 150, 5
NAMES = ("stacked", "Gibbs from random labels", "Gibbs from the local model")
Curves = dict[str, NDArray[np.float64]]  # name -> (starts, iterations), means over folds


@experiment("gibbs-convergence", ("accuracy", "spread"))
def gibbs_convergence(run: Run) -> list[Row]:
    """Figure 4 of the stacked graphical learning paper: accuracy by iteration, stacking beside Gibbs sampling.

    On SLIF and WebKB: ten levels of stacking (cross-fitted as in the paper), and 150 sweeps of Gibbs sampling in the
    dependency network, from random labels (five starts a fold, error bars over them) and from the local model's.
    Predictions after a sweep are the mean of the conditionals so far.
    """
    _matplotlib()  # or say at once that there is none
    found = {problem.name: curves(run, problem) for problem in (slif(run.data), webkb(run.data))}
    rows: list[Row] = []
    for dataset, drawn in found.items():
        for name, table in drawn.items():
            first = 0 if name == NAMES[0] else 1
            for i in range(table.shape[1]):
                row: Row = {"model": name, "dataset": dataset, "split": f"iteration {i + first}"}
                rows.append({**row, "accuracy": float(table[:, i].mean()), "spread": float(table[:, i].std())})
    rows = chosen(rows, NOTHING)
    run.settings |= {"levels": LEVELS, "sweeps": SWEEPS, "starts": STARTS}
    run.draw = partial(draw, found)
    return rows


def curves(run: Run, problem: Problem) -> Curves:
    """Accuracy after each iteration, means over the folds; iteration 0 of stacking is the local model."""
    total: Curves = {}
    for split in problem.splits:
        for name, table in one_fold(split, problem.templates, run.n_jobs).items():
            total[name] = total.get(name, np.zeros(table.shape)) + table / len(problem.splits)
        run.log(f"{problem.name}, {split.name} done")
    return total


def one_fold(split: Split, templates: list[Any], n_jobs: int) -> Curves:
    stacked = StackedNodes(maxent(), templates, LEVELS, cross_fitting="paper", known="crossfit", n_jobs=n_jobs)
    levels = level_accuracies(split, stacked)
    gibbs = paper_network(split, templates, n_jobs=n_jobs)

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
        raise SettingError.saying("drawing needs matplotlib: pip install 'kinfolk[plots]'") from None
    return Figure


# -- Table 2 --------------------------------------------------------------------------------------------

SPEED_SWEEPS = (50, 100)
ROUNDS, REPEATS = 3, 11  # the ways take turns; stacking, which is quick, several times a turn
SPEEDUPS = {"slif": (39.6, 79.3), "webkb": (43.4, 87.0), "cora": (42.7, 85.4), "citeseer": (43.6, 87.3),
            "all four": (42.3, 84.8)}  # fmt: skip
PAPER = {
    (dataset, REFERENCE, "mean"): {"speedup_50": after_50, "speedup_100": after_100}
    for dataset, (after_50, after_100) in SPEEDUPS.items()
}


@experiment("gibbs-speed", ("accuracy", "milliseconds", "p_value"), PAPER)
def gibbs_speed(run: Run) -> list[Row]:
    """Table 2 of the stacked graphical learning paper: inference by stacking (one level) beside Gibbs sampling.

    Both label the same graph with the same base and templates, in one thread: what is compared is work. "plain" Gibbs
    evaluates the conditional model anew at every sweep, through the same code that stacking uses, as the paper's did;
    "fast" is this library's kernel, which keeps the part of the scores that never changes. On
    one graph (SLIF, Cora, CiteSeer) nodes trained on give their true labels, and every pass of either goes over all
    nodes; WebKB's schools are new graphs. speedup_100 is the time of 100 sweeps over the time of stacking; the p-value
    compares accuracies over the folds. Templates are the paper's.
    """
    rows = [row for make in PROBLEMS.values() for row in speed_rows(run.log, make(run.data))]
    stacked = [row for row in rows if row["model"] == REFERENCE]
    metrics = [name for name in stacked[0] if "speedup" in name]
    means = {name: float(np.mean([row[name] for row in stacked])) for name in metrics}
    run.settings |= {"sweeps": SPEED_SWEEPS, "base": repr(maxent()), "threads": 1}
    run.shown += tuple(metrics)
    return chosen([*rows, {"model": REFERENCE, "dataset": "all four", "split": "mean", **means}], NOTHING)


def speed_rows(log: Log, problem: Problem) -> list[Row]:
    """Accuracy and time of each way of inference, means over the folds."""
    found: dict[str, list[tuple[float, float]]] = {}
    for split in problem.splits:
        for name, pair in timed(split, problem.templates).items():
            found.setdefault(name, []).append(pair)
        last = ", ".join(f"{name} {pairs[-1][0]:.2f} {1000 * pairs[-1][1]:.1f} ms" for name, pairs in found.items())
        log(f"{problem.name}, {split.name}: {last}")
    own = found[REFERENCE]
    rows: list[Row] = []
    for name, pairs in found.items():
        accuracy, seconds = (float(np.mean(column)) for column in zip(*pairs, strict=True))
        row: Row = {"model": name, "dataset": problem.name, "split": "mean", "accuracy": accuracy}
        row["milliseconds"] = 1000 * seconds
        if name != REFERENCE:
            row |= {"p_value": paired_t_test([a for a, _ in own], [a for a, _ in pairs]), "p_against": REFERENCE}
        rows.append(row)
    for sweeps in SPEED_SWEEPS:
        for kind, label in (("plain", "speedup"), ("fast", "fast_speedup")):
            ratio = [g[1] / s[1] for g, s in zip(found[f"Gibbs {sweeps} {kind}"], own, strict=True)]
            rows[0][f"{label}_{sweeps}"] = float(np.mean(ratio))
    return rows


def timed(split: Split, templates: list[Any]) -> dict[str, tuple[float, float]]:
    """(accuracy, seconds of inference) of each way on a fold; the ways take turns, and the median counts."""
    known = "true" if split.fit is split.target else "crossfit"
    stacked = folds_by_rows(StackedNodes(maxent(), templates, known=known, n_jobs=1), split)
    stacked.fit(split.fit, train=split.train)
    given = "train" if known == "true" else "none"
    gibbs = paper_network(split, templates, burn_in=0, n_jobs=1)
    ways: dict[str, Callable[[], Any]] = {REFERENCE: partial(stacked.predict_proba, split.target)}
    for mode, sweeps in product(("plain", "fast"), SPEED_SWEEPS):
        chain = copy(gibbs).set_params(mode=mode, sweeps=sweeps)  # the same trained model
        ways[f"Gibbs {sweeps} {mode}"] = partial(chain.predict_proba, split.target, known=given)
    found = {name: split.accuracy(way(), stacked.classes_) for name, way in ways.items()}  # what is built once is built
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            took[name].append(median(_seconds(way) for _ in range(REPEATS if name == REFERENCE else 1)))
    return {name: (found[name], median(took[name])) for name in ways}


def _seconds(way: Callable[[], Any]) -> float:
    began = time.perf_counter()
    way()
    return time.perf_counter() - began
