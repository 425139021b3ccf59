"""How far features are to be smoothed along links, if at all: what cross-fitting says."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.relations import Relation
from kinfolk.core.threads import resolve_jobs
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.diffusion import diffused
from kinfolk.graph.graph import Graph
from kinfolk.graph.learners import Learner, check_base, check_enough, predict_in_blocks
from kinfolk.graph.nodes import Nodes, training_labels
from kinfolk.learning.crossfit import assign_folds

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
    chosen, most, told = 1.0, 0.0, [f"as given {100 * alone.mean():.1f} %"]
    for alpha in sorted({*alphas} - {1.0}, reverse=True):
        more = right(alpha).astype(np.float64) - alone
        gain, error = more.mean(), more.std(ddof=1) / np.sqrt(len(more))
        told.append(f"alpha {alpha:g} {100 * gain:+.1f} ± {100 * error:.1f}")
        if gain > max(error, most):
            chosen, most = alpha, gain
    verdict = "features are left as given" if chosen == 1 else f"alpha {chosen:g} is chosen"
    found = ", ".join(told)
    log.info("smoothing along %s, %d folds of %d nodes: %s: %s", relation, n_folds, len(alone), found, verdict)
    return chosen


def _folds(labels: Array, groups: Array, folds: int, random_state: int | None) -> NDArray[np.int32]:
    """The fold of each node with a label, -1 for the others."""
    if not isinstance(folds, int | np.integer) or isinstance(folds, bool) or folds < 2:
        raise SettingError(f"folds must be a whole number of 2 or more; got {folds!r}")
    n_groups, n_labels = len(np.unique(groups[labels >= 0])), int((labels >= 0).sum())
    n_folds = min(int(folds), n_groups if n_groups > 1 else n_labels)
    if n_labels < 2:
        raise InputError("two labelled nodes are needed to compare; label more, or leave the features as they are")
    return assign_folds(labels, groups if n_groups > 1 else None, n_folds, np.random.default_rng(random_state))
