"""Table 1 of the stacked graphical learning paper, for graphs: what every data set's experiment shares.

Five models on the same folds: the base alone (local), the dependency network, stacking with one and two levels, and the
ceiling, which is told true labels of neighbours. p_value is of a paired t-test against stacked k=1 over the folds.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import DataWarning
from kinfolk.graph.dependency import DependencyNetwork
from kinfolk.graph.graph import Graph
from kinfolk.graph.stacked import StackedNodes
from kinfolk.papers.harness import Row, Tell, paired_t_test

REFERENCE = "stacked k=1"
PAPER_ROWS = ("local", "dependency network", REFERENCE, "stacked k=2", "ceiling")


class Split(NamedTuple):
    """One fold: a graph to train on, with the nodes whose labels may be used; a graph to label, with those scored."""

    name: str
    fit: Graph
    train: NDArray[np.int64]
    target: Graph
    test: NDArray[np.int64]

    def accuracy(self, table: NDArray[Any], classes: NDArray[Any]) -> float:
        """Percent of the scored nodes that have their label, from (n, L) probabilities."""
        gold = np.array(self.target.labels, object)[self.test]
        return 100 * float((classes[table[self.test].argmax(axis=1)] == gold).mean())


def by_instance(graph: Graph, n_folds: int = 5) -> Iterator[Split]:
    """Folds of one graph: the nodes to be scored are there, without their labels."""
    from sklearn.model_selection import StratifiedKFold

    codes = graph.label_codes
    for number, (train, test) in enumerate(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(codes, codes)):
        yield Split(f"fold {number}", graph, train, graph, test)


def by_group(graph: Graph) -> Iterator[Split]:
    """Each group in turn: trained on the others, which are other graphs."""
    for number, name in enumerate(graph.group_names):
        inside = graph.group_codes == number
        others, own = graph.subset(~inside), graph.subset(inside)
        yield Split(name, others, np.arange(others.n_nodes), own, np.flatnonzero(own.label_codes >= 0))


def maxent(c: float = 1.0) -> Any:
    """The paper's base: maximum entropy with a ridge."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=c, max_iter=2000)


def paper_network(split: Split, base: Any, templates: Any, **settings: Any) -> DependencyNetwork:
    """The dependency network of the paper, trained on a fold; it counts, also neighbours without a label."""
    network = DependencyNetwork(base, templates, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return network.fit(split.fit, train=split.train)


def five_models(split: Split, base: Any, templates: Any, known: str, folds: int, n_jobs: int) -> dict[str, float]:
    """Accuracies of the models of Table 1 on a fold; `known`: "crossfit" or "true"."""
    stacked = StackedNodes(base, templates, depth=2, folds=folds, known=known, n_jobs=n_jobs)
    stacked.fit(split.fit, train=split.train)
    levels = [split.accuracy(table, stacked.classes_) for table in stacked.predict_levels(split.target)]
    told = "train" if known == "true" else "none"
    rival = paper_network(split, base, templates, burn_in=100, sweeps=200, n_jobs=n_jobs)
    top = StackedNodes(base, templates, known="ceiling", n_jobs=n_jobs).fit(split.fit, train=split.train)
    return {
        "local": levels[0],
        "dependency network": split.accuracy(rival.predict_proba(split.target, known=told), rival.classes_),
        "stacked k=1": levels[1],
        "stacked k=2": levels[2],
        "ceiling": split.accuracy(top.predict_proba(split.target), top.classes_),
    }


def compared(
    dataset: str, splits: Sequence[Split], base: Any, templates: Any, known: str, tell: Tell, n_jobs: int,
    folds: int = 5, suffix: str = "",
) -> list[Row]:  # fmt: skip
    """The models of Table 1 on every fold, with means and p-values; `suffix` sets their names apart from others'."""
    found: dict[str, list[float]] = {}
    for split in splits:
        for name, accuracy in five_models(split, base, templates, known, folds, n_jobs).items():
            found.setdefault(name + suffix, []).append(accuracy)
        last = ", ".join(f"{name} {scores[-1]:.2f}" for name, scores in found.items())
        tell(f"{dataset}, {split.name}: {last}")
    return table(dataset, [split.name for split in splits], found, REFERENCE + suffix)


def table(
    dataset: str, splits: Sequence[str], found: dict[str, list[float]], reference: str, metric: str = "accuracy"
) -> list[Row]:
    """Rows of scores by fold, then their means, with p-values of a paired t-test against `reference`."""
    rows: list[Row] = []
    for name, scores in found.items():
        for split, score in zip(splits, scores, strict=True):
            rows.append({"model": name, "dataset": dataset, "split": split, metric: score})
    for name, scores in found.items():
        mean: Row = {"model": name, "dataset": dataset, "split": "mean", metric: float(np.mean(scores))}
        if name != reference:
            mean["p_value"] = paired_t_test(scores, found[reference])
        rows.append(mean)
    return rows
