"""Features smoothed along links, so that a node carries the words of its whole surroundings.

Personalised PageRank, cut off after K steps (Gasteiger and others' APPNP, without the network):

    S = D^-½ (A + I) D^-½        A the links of the relation, each in both directions, D the row sums of A + I
    Z = P X                      P = Σ_{k<K} α (1 - α)^k S^k + (1 - α)^K S^K

The smaller α, the further words travel. No label has a part in it. To scale, rows are divided by those of P 1, which
makes them weighted means of the features around, and all by one number, so that they lie as far apart as before.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from kinfolk.collective.relations import Relation
from kinfolk.core.settings import whole
from kinfolk.core.threads import dense, resolve_jobs
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.graph import Graph
from kinfolk.graph.learners import Learner, check_base, check_enough, predict_in_blocks
from kinfolk.graph.nodes import Nodes, training_labels
from kinfolk.learning.crossfit import assign_folds

SINGLE = np.dtype(np.float32)
BLOCK_ROWS = 1 << 12


def diffused(
    graph: Graph, relation: str | Relation, alpha: float = 0.15, steps: int = 10, *, scale: bool = True
) -> Graph:
    """The graph with smoothed features of single precision: sparse where most entries stay 0, else dense.

    relation  the links to smooth along, as templates name them: "cites | cited_by"
    alpha     how much of a step stays at home, above 0 and up to 1 (1: nothing moves, and features are as given)
    steps     how far words may travel
    scale     a node has weighted means over its surroundings, times a number so that rows lie as far apart as those of
              the features (root mean square about the means of their columns): means are more alike than what they are
              means of, and a base with a ridge, such as LogisticRegression(C=1), would make less of them

    Smoothing helps where neighbours are alike and loses where they are not; `choose_alpha` finds out.
    """
    if not 0 < alpha <= 1:
        raise SettingError("alpha", alpha, "above 0 and at most 1")
    whole(0).check("steps", steps)
    links = Relation.parse(relation).links(graph.relations)
    if (links.data < 0).any():
        raise InputError("features are smoothed along links whose weights are not negative; this relation has others")
    if alpha == 1 or steps == 0:
        return graph
    Nodes.of(graph).refuse_missing("smoothing along links")
    step, own = _step(links), graph.features
    if sparse.issparse(own) and 4 * _most_words(step, own, steps) > graph.n_nodes * graph.n_features:
        size = f"smoothed, {graph.n_nodes:,} nodes with {graph.n_features:,} features take"
        remedy = "take fewer columns, as by graph.with_features(TruncatedSVD(200).fit_transform(graph.features))"
        own = dense(own, SINGLE, size, remedy)
    own = own.astype(SINGLE, copy=False)
    smooth = _smoothed(step, own, alpha, steps)
    if scale:
        shares = _smoothed(step, np.ones(graph.n_nodes, SINGLE), alpha, steps)
        smooth = sparse.dia_array((1 / shares[None], [0]), shape=step.shape) @ smooth
        before, after = _spread(own), _spread(smooth)
        smooth *= SINGLE.type(before / after if after else 1)
    return graph.with_features(smooth, graph.feature_names)


def _smoothed(step: Any, own: Any, alpha: float, steps: int) -> Any:
    """Z_{k+1} = (1 - α) S Z_k + α X, from Z_0 = X: the sum above, inside out."""
    smooth = own
    for _ in range(steps):
        smooth = (1 - alpha) * (step @ smooth) + alpha * own
    return smooth


def _most_words(step: Any, rows: Any, steps: int) -> int:
    """How many entries smoothed rows have at most: a node has the words of those within reach, and no other than occur
    in its part of the graph."""
    n_parts, part = connected_components(step, directed=False)
    nodes = np.arange(len(part))
    members = sparse.csr_array((np.ones(len(part), np.float32), (part, nodes)), shape=(n_parts, len(part)))
    occurring = np.diff((members @ abs(rows)).indptr)[part]
    looks_at = sparse.csr_array((np.ones(step.nnz), step.indices, step.indptr), shape=step.shape)
    words = np.diff(rows.indptr).astype(np.float64)
    for _ in range(steps):
        words = np.minimum(occurring, looks_at @ words)
    return int(words.sum())


def _spread(table: Any) -> float:
    """√ Σ (z - mean of its column)² over all entries, in double precision."""
    n, width = table.shape
    if not n:
        return 0.0
    if sparse.issparse(table):
        sums = np.bincount(table.indices, table.data, width)  # of columns, and of those entries that are not 0
        apart = (
            np.square(table.data - (sums / n)[table.indices]).sum()
            + ((n - np.bincount(table.indices, minlength=width)) * (sums / n) ** 2).sum()
        )
    else:
        means = table.mean(axis=0, dtype=np.float64)
        apart = sum(np.square(rows - means).sum() for rows in np.array_split(table, -(-n // BLOCK_ROWS)))
    return float(np.sqrt(apart))


def _step(links: Any) -> sparse.csr_array:
    """S, from links in one direction or both."""
    n = links.shape[0]
    both = (links.maximum(links.T) + sparse.eye_array(n)).tocsr().astype(np.float32)
    scale = 1 / np.sqrt(np.asarray(both.sum(axis=1)).ravel())
    half = sparse.dia_array((scale[None].astype(np.float32), [0]), shape=(n, n))
    return sparse.csr_array(half @ both @ half)


# -- How far features are to be smoothed along links, if at all: what cross-fitting says ---------------

log = logging.getLogger("kinfolk")
Array = NDArray[Any]


def choose_alpha(
    graph: Graph,
    relation: str | Relation,
    base: Any,
    train: Any = None,
    *,
    alphas: Sequence[float] = (0.1, 0.2, 0.5),
    steps: int = 10,
    folds: int = 5,
    random_state: int | None = 0,
    n_jobs: int | None = -1,
) -> float:
    """The `alpha` for `diffused`: of those given the one with which `base` labels training nodes best that it has not
    seen, if it is better than with the features as they are by more than the standard error of the difference; else
    1.0, with which nothing is smoothed. What was found is logged in a line.

    relation, steps   as in `diffused`
    base              any scikit-learn classifier, with the settings it will have
    train             a mask or numbers of the nodes whose labels may be used; None: all labelled ones
    folds             how many; by group where there are several groups, else each class evenly
    random_state      seed of the folds
    n_jobs            threads: bases are trained in parallel
    """
    check_base(base)
    nodes = Nodes.of(graph)
    labels, classes = training_labels(nodes, train)
    check_enough(classes)
    fold = _folds(labels, nodes.groups, folds, random_state)
    n_folds = int(fold.max()) + 1

    def right(alpha: float) -> Array:
        """(m,) whether each training node gets its label from a base that has not seen it."""
        from joblib import Parallel, delayed

        table = Nodes.of(diffused(graph, relation, alpha, steps)).table

        def one(number: int) -> Array:
            seen, unseen = (fold >= 0) & (fold != number), np.flatnonzero(fold == number)
            learner = Learner(base, classes).fit(table[seen], labels[seen], None)
            said: Array = predict_in_blocks(learner, table, unseen, None, 1).argmax(axis=1)
            return np.asarray(said == labels[unseen])

        found = np.zeros(len(labels), bool)
        tasks = (delayed(one)(number) for number in range(n_folds))
        for number, part in enumerate(Parallel(n_jobs=resolve_jobs(n_jobs), prefer="threads")(tasks)):
            found[fold == number] = part
        return found[fold >= 0]

    alone = right(1.0)
    chosen, most, gains = 1.0, 0.0, [f"as given {100 * alone.mean():.1f} %"]
    for alpha in sorted({*alphas} - {1.0}, reverse=True):
        more = right(alpha).astype(np.float64) - alone
        gain, error = more.mean(), more.std(ddof=1) / np.sqrt(len(more))
        gains.append(f"alpha {alpha:g} {100 * gain:+.1f} ± {100 * error:.1f}")
        if gain > max(error, most):
            chosen, most = alpha, gain
    verdict = "features are left as given" if chosen == 1 else f"alpha {chosen:g} is chosen"
    found = ", ".join(gains)
    log.info("smoothing along %s, %d folds of %d nodes: %s: %s", relation, n_folds, len(alone), found, verdict)
    return chosen


def _folds(labels: Array, groups: Array, folds: int, random_state: int | None) -> NDArray[np.int32]:
    """The fold of each node with a label, -1 for the others."""
    whole(2).check("folds", folds)
    n_groups, n_labels = len(np.unique(groups[labels >= 0])), int((labels >= 0).sum())
    n_folds = min(int(folds), n_groups if n_groups > 1 else n_labels)
    if n_labels < 2:
        raise InputError("two labelled nodes are needed to compare; label more, or leave the features as they are")
    return assign_folds(labels, groups if n_groups > 1 else None, n_folds, np.random.default_rng(random_state))
