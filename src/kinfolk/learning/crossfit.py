"""Cross-fitting: folds, and which model may vote for whom.

A vote of instance j about itself must come from a model that has not seen j's label (Figure 2 of the paper), or
votes are better in training than they will ever be again. In one graph that is not enough: i receives the vote of its
neighbour j, and the model behind that vote was trained on i. So models and votes carry a set H of hidden folds, whose
labels had no part in them:

    M(k, H)     the model of level k, trained on labelled instances outside H
    V(k, H)     the votes of level k: of j in H or without label by M(k, H); of j in another fold b by M(k, H + b),
                or j's true label where labels are revealed
    row of i    at level k, to train the model itself (H empty): from V(k - 1, {fold of i})

so nothing in i's row depends on i's label. The helpers that are only there to vote (H not empty) are trained on rows
from V(k - 1, H), cross-fitted among themselves as in the paper; where true labels are revealed, on rows from V(k - 1,
H + fold of the row), for there a neighbour's vote may rest on the row's own label.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Hidden = frozenset[int]
NOTHING: Hidden = frozenset()


def assign_folds(labels: Array, groups: Array | None, n_folds: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """int32 (n,), the fold of each labelled instance (label >= 0), -1 for the others.

    With `groups` a group is never divided: the largest first, each to the fold with the fewest instances. Without,
    instances are dealt out class by class, so that every fold has its share of each.
    """
    # scikit-learn's StratifiedKFold and GroupKFold do the same by other draws: folds, and figures, would change.
    fold = np.full(len(labels), -1, np.int32)
    labelled = np.flatnonzero(labels >= 0)
    if groups is None:
        shuffled = rng.permutation(labelled)
        dealt = shuffled[np.argsort(labels[shuffled], kind="stable")]
        fold[dealt] = np.arange(len(dealt)) % n_folds
        return fold
    names, sizes = np.unique(groups[labelled], return_counts=True)
    order = rng.permutation(len(names))
    order = order[np.argsort(-sizes[order], kind="stable")]
    load, home = np.zeros(n_folds, np.int64), np.empty(len(names), np.int32)
    for g in order:
        home[g] = load.argmin()
        load[home[g]] += sizes[g]
    fold[labelled] = home[np.searchsorted(names, groups[labelled])]
    return fold


class CrossFitting(NamedTuple):
    """Which model may vote for whom.

    kind      "strict" as above; "paper": one table of votes a level, whoever reads it; "none": every vote by the
              model trained on everything, to show what cross-fitting is for
    n_folds   how many
    revealed  whether labelled instances give their neighbours the true label
    crossing  whether instances look at others of another fold
    estimate  whether predictions for the training instances themselves are wanted (models of the last level too)
    """

    kind: str
    n_folds: int
    revealed: bool
    crossing: bool
    estimate: bool = False

    def hidden_sets(self, level: int, depth: int) -> list[Hidden]:
        """The H of the models of a level, the empty one first."""
        sizes = range(self._most(level, depth) + 1)
        return [frozenset(h) for size in sizes for h in combinations(range(self.n_folds), size)]

    def _most(self, level: int, depth: int) -> int:
        """How many folds a model of the level does without at most."""
        if self.kind == "none":
            return 0
        if self.kind == "paper":
            return int(level < depth or self.estimate)
        if self.revealed:
            return depth - level + self.estimate
        return depth - level + int(self.estimate or (self.crossing and level < depth))

    def most_hidden(self, depth: int) -> int:
        """How many folds the poorest model does without."""
        return max(self._most(level, depth) for level in range(depth + 1))

    @property
    def same_for_all(self) -> bool:
        """Whether the rows of all folds may be made of V(k, nothing): where every instance has a label and looks at its
        own fold b alone, whom M(k, b) votes for in V(k, b) as there."""
        return not self.revealed and not self.crossing

    def votes_for(self, fold: int, hidden: Hidden) -> Hidden:
        """The H of the votes that make the row of a training instance of `fold`, for a model with `hidden` folds."""
        if self.kind != "strict":
            return NOTHING
        if hidden and not self.revealed:  # helpers, cross-fitted among themselves
            return hidden
        return hidden | {fold}

    def voter(self, fold: int, hidden: Hidden) -> Hidden:
        """The H of the model that votes for an instance of `fold` (-1 without label) among votes with `hidden`."""
        if self.kind == "none":
            return NOTHING
        return hidden if fold < 0 or fold in hidden else hidden | {fold}
