"""Who is measured by nodes.py: each takes a `Problem` and answers with probabilities (n, L), or an `Answer`.

    local         logistic regression on the node's own features, C of five by three folds of the training nodes
    forest        300 random trees on the features
    boosting      scikit-learn's gradient boosting on the features, where there are at most a hundred
    propagation   labels travel along links, fifty steps, features are not looked at (Zhou and others, 2004)
    sgc           logistic regression on features smoothed by two steps, C as for local (Wu and others, 2019)
    correct       Correct and Smooth (Huang and others, 2021) on top of local
    sage, gcn     two layers in PyTorch Geometric on the CPU (GraphSAGE with means, GCN): see `network`
    stacked       StackedNodes(LogisticRegression(max_iter=1000)) with counts over all relations, both ways: the paper's
    pool, fast    StackedNodes() and StackedNodes(effort="fast")

Links of all relations are one undirected graph to all but the last three. Labels outside the training nodes are not in
a `Problem` at all. Every choice is made on training nodes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

Array = np.ndarray
CS = (0.01, 0.1, 1.0, 10.0, 100.0)


@dataclass
class Problem:
    """What a contestant may know: `labels` (n,) are -1 for nodes outside `train`."""

    features: Any
    relations: dict[str, Any]
    labels: Array
    train: Array
    n_classes: int
    seed: int = 0
    groups: Array | None = None
    kept: dict[str, Array] = field(default_factory=dict)
    """Answers that others build upon, so that they are worked out once."""

    @cached_property
    def links(self) -> Any:
        """All relations together, both directions, each link of weight 1 (their weights, the larger of both
        directions, where relations have weights)."""
        total = sparse.csr_array(self.features.shape[:1] * 2)
        for one in self.relations.values():
            total = total.maximum(abs(one)).maximum(abs(one).T)
        return sparse.csr_array(total)

    @property
    def known(self) -> Array:
        """(n, L) of 1 where a label is known."""
        table = np.zeros((len(self.labels), self.n_classes))
        rows = np.flatnonzero(self.train)
        table[rows, self.labels[rows]] = 1
        return table


class Answer(NamedTuple):
    """Probabilities (n, L); those of the candidates a pool was made of, asked for once its time is taken; and what was
    chosen."""

    table: Array
    candidates: Callable[[], dict[str, Array]]
    chosen: Any = None


# -- The node alone -----------------------------------------------------------------------------------


def full_table(found: Array, classes: Array, problem: Problem) -> Array:
    table = np.zeros((len(found), problem.n_classes))
    table[:, classes] = found
    return table


def tuned_regression(rows: Any, problem: Problem) -> Array:
    """Logistic regression with the C of the least log-loss over three folds of the training nodes."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.model_selection import KFold, StratifiedKFold

    inside, labels = rows[problem.train], problem.labels[problem.train]
    enough = np.bincount(labels)[np.unique(labels)].min() >= 3
    folds = (StratifiedKFold if enough else KFold)(3, shuffle=True, random_state=problem.seed)
    losses = []
    for c in CS:
        total = 0.0
        for fit, held in folds.split(labels, labels):
            one = LogisticRegression(C=c, max_iter=1000).fit(inside[fit], labels[fit])
            there = np.isin(labels[held], one.classes_)
            table = one.predict_proba(inside[held][there])
            total += log_loss(labels[held][there], table, labels=one.classes_) * there.sum()
        losses.append(total)
    best = LogisticRegression(C=CS[int(np.argmin(losses))], max_iter=1000).fit(inside, labels)
    return full_table(best.predict_proba(rows), best.classes_, problem)


def scaled(rows: Any) -> Any:
    """Dense columns with mean 0 and deviation 1; sparse rows as they are."""
    if sparse.issparse(rows):
        return rows
    deviation = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(deviation > 0, deviation, 1)


def local(problem: Problem) -> Array:
    if "local" not in problem.kept:
        problem.kept["local"] = tuned_regression(scaled(problem.features), problem)
    return problem.kept["local"]


def forest(problem: Problem) -> Array:
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(300, random_state=problem.seed)
    model.fit(problem.features[problem.train], problem.labels[problem.train])
    return full_table(model.predict_proba(problem.features), model.classes_, problem)


def boosting(problem: Problem) -> Array | None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    if problem.features.shape[1] > 100:
        return None
    rows = problem.features.toarray() if sparse.issparse(problem.features) else problem.features
    model = HistGradientBoostingClassifier(random_state=problem.seed)
    model.fit(rows[problem.train], problem.labels[problem.train])
    return full_table(model.predict_proba(rows), model.classes_, problem)


# -- Links, without a network -------------------------------------------------------------------------


def normalised(links: Any, loops: bool) -> Any:
    """D^-½ A D^-½, with A + I for A where loops are asked for; rows of nobody's neighbours stay 0."""
    if loops:
        links = sparse.csr_array(links + sparse.eye_array(links.shape[0]))
    degree = np.asarray(links.sum(axis=1)).ravel()
    root = sparse.dia_array((np.where(degree > 0, degree, np.inf)[None] ** -0.5, [0]), shape=links.shape)
    return sparse.csr_array(root @ links @ root)


def as_probabilities(table: Array, otherwise: Array) -> Array:
    """Rows that sum to 1; `otherwise` where there is nothing above 0."""
    table = np.maximum(table, 0)
    total = table.sum(axis=1, keepdims=True)
    return np.where(total > 0, table / np.where(total > 0, total, 1), otherwise)


def propagation(problem: Problem, alpha: float = 0.9, steps: int = 50) -> Array:
    """G <- α S G + (1 - α) Y, and the shares of classes where no label arrives."""
    step, known = normalised(problem.links, loops=False), problem.known
    table = known
    for _ in range(steps):
        table = alpha * (step @ table) + (1 - alpha) * known
    return as_probabilities(table, known.sum(axis=0) / known.sum())


def unit_rows(rows: Any) -> Any:
    from sklearn.preprocessing import normalize

    return normalize(rows) if sparse.issparse(rows) else scaled(rows)


def sgc(problem: Problem) -> Array:
    step, rows = normalised(problem.links, loops=True), unit_rows(problem.features)
    return tuned_regression(unit_rows(step @ (step @ rows)), problem)


def correct(problem: Problem, alpha: float = 0.8, steps: int = 50) -> Array:
    """Correct: errors on training nodes travel, E <- (1 - α) E₀ + α S E, and are scaled so that a row adds up to the
    mean error of a training node (autoscale). Smooth: known labels in, G <- (1 - α) G₀ + α S G."""
    step, known, table = normalised(problem.links, loops=False), problem.known, local(problem)
    error = np.where(problem.train[:, None], known - table, 0)
    travelled = error
    for _ in range(steps):
        travelled = np.clip((1 - alpha) * error + alpha * (step @ travelled), -1, 1)
    size = np.abs(travelled).sum(axis=1, keepdims=True)
    mean = np.abs(error[problem.train]).sum(axis=1).mean()
    factor = np.divide(mean, size, out=np.ones_like(size), where=size > 0)
    factor[factor > 1000] = 1
    corrected = table + factor * travelled
    start = smooth = np.where(problem.train[:, None], known, corrected)
    for _ in range(steps):
        smooth = np.clip((1 - alpha) * start + alpha * (step @ smooth), 0, 1)
    return as_probabilities(smooth, table)


# -- Networks -----------------------------------------------------------------------------------------

WIDTHS, RATE, DECAY, DROPOUT = (64, 256), 0.01, 5e-4, 0.5
MOST_EPOCHS, PATIENCE = 200, 20


def network(problem: Problem, kind: str) -> Array:
    """Two layers, dropout of a half before each, Adam with rate 0.01 and decay 5e-4.

    A fifth of the training nodes (stratified) validates: of 64 and 256 hidden units those with the least log-loss, and
    how many epochs that took. With these the network is trained again, on all training nodes.
    """
    import torch
    from sklearn.model_selection import train_test_split

    torch.manual_seed(problem.seed)
    torch.set_num_threads(1)
    inside = np.flatnonzero(problem.train)
    labels = problem.labels[inside]
    enough = np.bincount(labels)[np.unique(labels)].min() >= 2 and len(inside) >= 5 * problem.n_classes
    fit, held = train_test_split(inside, test_size=0.2, stratify=labels if enough else None, random_state=problem.seed)
    listed = sparse.coo_array(problem.links)
    edges = torch.from_numpy(np.array(listed.coords, np.int64))
    given = (as_tensor(unit_rows(problem.features)), edges, torch.from_numpy(listed.data.astype(np.float32)))
    truth = torch.from_numpy(problem.labels.astype(np.int64))
    shape = (problem.features.shape[1], problem.n_classes)
    tried = []
    for width in WIDTHS:
        loss, epochs = trained(two_layers(kind, shape, width), given, truth, fit, held, MOST_EPOCHS)
        tried.append((loss, width, epochs))
    _, width, epochs = min(tried)
    model = two_layers(kind, shape, width)
    trained(model, given, truth, inside, None, epochs)
    model.eval()
    with torch.no_grad():
        return model(*given).softmax(dim=1).double().numpy()


def as_tensor(rows: Any) -> Any:
    import torch

    if not sparse.issparse(rows):
        return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))
    listed = sparse.coo_array(rows)
    where = torch.from_numpy(np.array(listed.coords, np.int64))
    return torch.sparse_coo_tensor(where, torch.from_numpy(listed.data.astype(np.float32)), listed.shape).coalesce()


def two_layers(kind: str, shape: tuple[int, int], width: int) -> Any:
    """PyG's layers. The first multiplies features by weights before it takes means over neighbours, which is the same
    by linearity, and quick where features are sparse."""
    import torch
    from torch.nn import Linear, Module, Parameter
    from torch.nn.functional import dropout, relu
    from torch_geometric.nn import GCNConv, SAGEConv, SimpleConv

    class First(Module):
        def __init__(self, columns: int) -> None:
            super().__init__()
            made = Linear(shape[0], columns, bias=False)
            self.weight = Parameter(made.weight.detach().t().contiguous())

        def forward(self, rows: Any) -> Any:
            if not rows.is_sparse:
                return dropout(rows, DROPOUT, self.training) @ self.weight
            values = dropout(rows.values(), DROPOUT, self.training)
            return torch.sparse.mm(torch.sparse_coo_tensor(rows.indices(), values, rows.shape), self.weight)

    class Sage(Module):
        def __init__(self) -> None:
            super().__init__()
            self.near, self.own, self.mean = First(width), First(width), SimpleConv("mean")
            self.bias = Parameter(torch.zeros(width))
            self.second = SAGEConv(width, shape[1])

        def forward(self, rows: Any, edges: Any, weights: Any) -> Any:  # its means have no weights
            hidden = relu(self.mean(self.near(rows), edges) + self.own(rows) + self.bias)
            return self.second(dropout(hidden, DROPOUT, self.training), edges)

    class Gcn(Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GCNConv(width, width, cached=True), GCNConv(width, shape[1], cached=True)
            self.first.lin = First(width)

        def forward(self, rows: Any, edges: Any, weights: Any) -> Any:
            hidden = relu(self.first(rows, edges, weights))
            return self.second(dropout(hidden, DROPOUT, self.training), edges, weights)

    return Sage() if kind == "sage" else Gcn()


def trained(
    model: Any, given: tuple[Any, ...], truth: Any, fit: Array, held: Array | None, epochs: int
) -> tuple[float, int]:
    """Least log-loss on the held-out nodes and the epochs it took; without them all epochs are run."""
    import torch
    from torch.nn.functional import cross_entropy

    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=RATE, weight_decay=DECAY)
    best, at = np.inf, 0
    for epoch in range(1, epochs + 1):
        model.train()
        optimiser.zero_grad()
        cross_entropy(model(*given)[fit], truth[fit]).backward()
        optimiser.step()
        if held is None:
            continue
        model.eval()
        with torch.no_grad():
            loss = float(cross_entropy(model(*given)[held], truth[held]))
        if loss < best:
            best, at = loss, epoch
        if epoch - at >= PATIENCE:
            break
    return best, at


# -- kinfolk ------------------------------------------------------------------------------------------


def as_graph(problem: Problem) -> Any:
    import kinfolk as kf

    return kf.Graph(
        problem.features,
        problem.labels,
        problem.relations,
        classes=[f"class {c}" for c in range(problem.n_classes)],
        groups=problem.groups,
    )


def both_ways(relations: dict[str, Any]) -> list[str]:
    """The relations, and the inverse of each that is not there under another name."""
    named = list(relations)
    for name, links in relations.items():
        there = (other.shape == links.shape and (other != links.T).nnz == 0 for other in relations.values())
        if not any(there):
            named.append(f"~{name}")
    return named


def fitted(model: Any, problem: Problem) -> tuple[Any, Any, Array]:
    """The model, its graph, and its probabilities in our order of classes."""
    graph = as_graph(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(graph, train=problem.train)
        found = model.predict_proba(graph)
    return model, graph, ordered(found, model, problem)


def ordered(found: Array, model: Any, problem: Problem) -> Array:
    return full_table(found, [int(str(name).removeprefix("class ")) for name in model.classes_], problem)


def stacked(problem: Problem) -> Array:
    from sklearn.linear_model import LogisticRegression

    import kinfolk as kf

    templates = [kf.Count(name) for name in both_ways(problem.relations)]
    model = kf.StackedNodes(LogisticRegression(max_iter=1000), templates, n_jobs=1, random_state=problem.seed)
    return fitted(model, problem)[2]


def pool(problem: Problem, **settings: Any) -> Answer:
    """The default of StackedNodes; with `predict_candidates`, also what it was made of."""
    import kinfolk as kf

    model, graph, table = fitted(kf.StackedNodes(n_jobs=1, random_state=problem.seed, **settings), problem)
    if not hasattr(model, "predict_candidates"):
        return Answer(table, dict)

    def candidates() -> dict[str, Array]:
        return {name: ordered(one, model, problem) for name, one in model.predict_candidates(graph).items()}

    return Answer(table, candidates, getattr(model, "candidates_", None))


CONTESTANTS: dict[str, Callable[[Problem], Array | Answer | None]] = {
    "local": local,
    "forest": forest,
    "boosting": boosting,
    "propagation": propagation,
    "sgc": sgc,
    "correct": correct,
    "sage": lambda problem: network(problem, "sage"),
    "gcn": lambda problem: network(problem, "gcn"),
    "stacked": stacked,
    "pool": pool,
    "fast": lambda problem: pool(problem, effort="fast"),
}
STANDS_ON = {"correct": "local"}  # whose answer is taken over if it is there, and whose time counts then
