"""Folds, and who may speak to whom: whose labels have a part in a row, followed back through every model."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.learning.crossfit import NOTHING, CrossFitting, Hidden, assign_folds
from strategies import SEEDS

LABELS = st.lists(st.integers(-1, 3), max_size=40).map(lambda given_: np.array(given_, np.int32))
UNLABELLED = -1


def dealt(labels: Any, n_folds: int, seed: int, groups: Any = None) -> Any:
    return assign_folds(labels, groups, n_folds, np.random.default_rng(seed))


# -- folds


@given(LABELS, st.integers(2, 6), SEEDS)
def test_every_fold_has_its_share_of_every_class(labels: np.ndarray, n_folds: int, seed: int):
    fold = dealt(labels, n_folds, seed)
    assert fold.dtype == np.int32 and fold.shape == labels.shape
    assert ((fold == UNLABELLED) == (labels < 0)).all() and (fold[labels >= 0] < n_folds).all()
    for chosen in (labels >= 0, *(labels == y for y in range(4))):
        sizes = np.bincount(fold[chosen], minlength=n_folds)
        assert sizes.max() - sizes.min() <= 1, "of every class, and of all"
    np.testing.assert_array_equal(dealt(labels, n_folds, seed), fold)


@given(LABELS, st.integers(2, 6), st.integers(1, 8), SEEDS)
def test_a_group_is_never_divided(labels: np.ndarray, n_folds: int, n_groups: int, seed: int):
    groups = np.random.default_rng(seed).integers(n_groups, size=len(labels)) * 10
    fold = dealt(labels, n_folds, seed, groups)
    assert fold.dtype == np.int32 and ((fold == UNLABELLED) == (labels < 0)).all()
    sizes = {}
    for g in np.unique(groups[labels >= 0]):
        members = (groups == g) & (labels >= 0)
        assert len(set(fold[members])) == 1
        sizes[g] = int(members.sum())
    loads = np.bincount(fold[labels >= 0], minlength=n_folds)
    assert len(loads) == n_folds
    if sizes:  # dealt to the emptiest, no fold is fuller than another by more than one group
        assert loads.max() - loads.min() <= max(sizes.values())
        assert (loads > 0).sum() == min(n_folds, len(sizes))
    np.testing.assert_array_equal(dealt(labels, n_folds, seed, groups), fold)


def test_the_largest_group_is_dealt_first():
    groups = np.repeat([0, 1, 2, 3], [1, 5, 3, 2])
    fold = dealt(np.zeros(11, np.int32), 2, 0, groups)
    loads = np.bincount(fold)
    assert sorted(loads.tolist()) == [5, 6] and len(set(fold[groups == 1])) == 1


def test_another_seed_deals_otherwise():
    labels = np.zeros(30, np.int32)
    assert (dealt(labels, 3, 0) != dealt(labels, 3, 1)).any()
    groups = np.arange(30) // 2
    assert (dealt(labels, 3, 0, groups) != dealt(labels, 3, 1, groups)).any()


# -- whose labels have a part in what


class Traced:
    """The folds whose labels have a part in models, votes and rows, by recursion on the definitions.

    ``crossing``: instances look at those of any fold; otherwise at their own fold's and at unlabelled ones, which
    look at anybody.
    """

    def __init__(self, scheme: CrossFitting, depth: int, own: bool = True) -> None:
        self.scheme, self.depth, self.own = scheme, depth, own
        self.folds = frozenset(range(scheme.n_folds))
        self.model, self.vote = cache(self.model), cache(self.vote)  # type: ignore[method-assign]

    def model(self, level: int, hidden: Hidden) -> frozenset[int]:
        """M(level, hidden): the labels it is trained on, and those behind its rows."""
        assert hidden in self.scheme.hidden_sets(level, self.depth), f"M({level}, {set(hidden)}) is never trained"
        seen = self.folds - hidden
        return seen.union(*(self.training_row(level, fold, hidden) for fold in seen))

    def training_row(self, level: int, fold: int, hidden: Hidden) -> frozenset[int]:
        return self.row(level, fold, self.scheme.votes_for(fold, hidden))

    def row(self, level: int, fold: int, votes: Hidden) -> frozenset[int]:
        if level == 0:
            return NOTHING
        everybody = self.scheme.crossing or fold == UNLABELLED
        looked_at = range(UNLABELLED, self.scheme.n_folds) if everybody else (UNLABELLED, fold)
        found = NOTHING.union(*(self.vote(level - 1, other, votes) for other in looked_at))
        return found | self.prediction(level - 1, fold, votes) if self.own else found

    def vote(self, level: int, fold: int, votes: Hidden) -> frozenset[int]:
        """What an instance of `fold` gives in V(level, votes)."""
        if self.scheme.revealed and fold != UNLABELLED and fold not in votes:
            return frozenset({fold})
        return self.prediction(level, fold, votes)

    def prediction(self, level: int, fold: int, votes: Hidden) -> frozenset[int]:
        voter = self.scheme.voter(fold, votes)
        read = NOTHING if self.scheme.kind == "paper" else voter
        return self.model(level, voter) | self.row(level, fold, read)


DEPTHS = range(1, 4)
SCHEMES = pytest.mark.parametrize(("revealed", "crossing"), [(a, b) for a in (False, True) for b in (False, True)])


def most_needed(depth: int) -> int:
    return depth + 3


@SCHEMES
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("depth", DEPTHS)
def test_strict_rows_owe_nothing_to_their_own_fold(revealed: bool, crossing: bool, own: bool, depth: int):
    scheme = CrossFitting("strict", most_needed(depth), revealed, crossing)
    traced = Traced(scheme, depth, own)
    for level in range(1, depth + 1):
        for fold in range(scheme.n_folds):
            behind = traced.training_row(level, fold, NOTHING)
            assert fold not in behind, f"level {level}, fold {fold}"
            assert behind, "and yet something is told"
        assert traced.model(level, NOTHING) == traced.folds


@pytest.mark.parametrize("depth", DEPTHS)
def test_where_labels_are_told_the_rows_of_helpers_are_strict_too(depth: int):
    scheme = CrossFitting("strict", most_needed(depth), True, True)
    traced = Traced(scheme, depth)
    for level in range(1, depth + 1):
        for hidden in scheme.hidden_sets(level, depth):
            for fold in traced.folds - hidden:
                assert traced.training_row(level, fold, hidden).isdisjoint(hidden | {fold})


@SCHEMES
@pytest.mark.parametrize("depth", [0, *DEPTHS])
def test_a_hidden_fold_has_no_part_in_its_models_or_votes(revealed: bool, crossing: bool, depth: int):
    """So predictions for training instances are as honest as those for new ones."""
    scheme = CrossFitting("strict", most_needed(depth), revealed, crossing, estimate=True)
    traced = Traced(scheme, depth)
    for level in range(depth + 1):
        for hidden in scheme.hidden_sets(level, depth):
            assert traced.model(level, hidden).isdisjoint(hidden), f"M({level}, {set(hidden)})"
    for fold in traced.folds:
        assert fold not in traced.prediction(depth, fold, NOTHING)


def test_the_paper_tells_a_row_of_its_own_label_where_links_cross_folds():
    for own in (False, True):
        scheme = CrossFitting("paper", 4, False, True)
        assert all(fold in Traced(scheme, 1, own).training_row(1, fold, NOTHING) for fold in range(4))
        assert 0 not in Traced(scheme, 1, own).prediction(0, 0, NOTHING), "though no vote is about its own label"


def test_within_folds_the_paper_is_right_at_depth_one_only():
    """Documents, with nobody unlabelled among them: the rows that train a helper are made by models that saw me."""

    class Documents(Traced):
        def row(self, level: int, fold: int, votes: Hidden) -> frozenset[int]:
            return self.prediction(level - 1, fold, votes) if level else NOTHING

    def behind(kind: str, level: int) -> frozenset[int]:
        return Documents(CrossFitting(kind, 5, False, False), 2).training_row(level, 0, NOTHING)

    assert 0 not in behind("paper", 1) and 0 in behind("paper", 2)
    assert 0 not in behind("strict", 1) and 0 not in behind("strict", 2)


def test_without_cross_fitting_every_row_knows_its_label():
    scheme = CrossFitting("none", 3, False, False)
    traced = Traced(scheme, 2)
    assert all(fold in traced.training_row(level, fold, NOTHING) for level in (1, 2) for fold in range(3))
    assert scheme.hidden_sets(0, 2) == scheme.hidden_sets(2, 2) == [NOTHING]


# -- how many models


@SCHEMES
@pytest.mark.parametrize("kind", ["strict", "paper", "none"])
@pytest.mark.parametrize("estimate", [False, True])
def test_hidden_sets_are_all_of_a_size_and_smaller(revealed: bool, crossing: bool, kind: str, estimate: bool):
    n_folds, depth = 5, 2
    scheme = CrossFitting(kind, n_folds, revealed, crossing, estimate)
    sizes = []
    for level in range(depth + 1):
        sets = scheme.hidden_sets(level, depth)
        assert sets[0] == NOTHING and len(set(sets)) == len(sets)
        sizes.append(max(map(len, sets)))
        assert set(sets) == {frozenset(h) for size in range(sizes[-1] + 1) for h in combinations(range(n_folds), size)}
    assert scheme.most_hidden(depth) == max(sizes)
    if kind == "none":
        assert sizes == [0, 0, 0]
    if kind == "paper":
        assert sizes == [1, 1, int(estimate)]
    if kind == "strict":
        more = estimate or (crossing and not revealed)
        assert sizes == [2 + more, 1 + more, int(estimate)]


@SCHEMES
@pytest.mark.parametrize("estimate", [False, True])
@pytest.mark.parametrize("depth", DEPTHS)
def test_no_model_is_trained_for_nothing(revealed: bool, crossing: bool, estimate: bool, depth: int):
    """Every set of the largest size is asked for by somebody."""
    scheme = CrossFitting("strict", most_needed(depth), revealed, crossing, estimate)
    asked: set[tuple[int, Hidden]] = set()

    class Watched(Traced):
        def model(self, level: int, hidden: Hidden) -> frozenset[int]:
            asked.add((level, hidden))
            return super().model(level, hidden)

    traced = Watched(scheme, depth)
    traced.model(depth, NOTHING)
    for level in range(depth):
        traced.model(level, NOTHING)
    if estimate:
        for fold in range(scheme.n_folds):
            traced.prediction(depth, fold, NOTHING)
    assert asked == {(level, hidden) for level in range(depth + 1) for hidden in scheme.hidden_sets(level, depth)}
