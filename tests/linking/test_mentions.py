"""Items with candidate pairs and clusters: what is refused, what is counted, what is left when some are taken."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinfolk.core.data import Column
from kinfolk.errors import InputError
from kinfolk.linking.mentions import Mentions, ordered_pairs, pairs_within

EXAMPLES = settings(max_examples=100, deadline=None)
GROUPS = st.lists(st.integers(0, 3), max_size=8).map(sorted)


def items(n=4, pairs=(), groups=None, **rest):
    left, right = np.array(pairs, np.int32).reshape(-1, 2).T
    return Mentions({}, np.zeros(n, np.int32) if groups is None else groups, left, right, **rest)


@st.composite
def mentions(draw):
    groups = draw(GROUPS)
    n = len(groups)
    every = [(i, j) for j in range(n) for i in range(j) if groups[i] == groups[j]]
    chosen = [pair for pair in every if draw(st.booleans())]
    local = [draw(st.integers(-1, 2)) for _ in range(n)]
    clusters = [-1 if c < 0 else 3 * g + c for c, g in zip(local, groups, strict=True)]
    left, right = np.array(chosen, np.int32).reshape(-1, 2).T
    columns = {"name": Column.from_strings("ab"[i % 2] if i % 3 else None for i in range(n)), "age": np.arange(n) / 2}
    told = {"names": [f"m{i}" for i in range(n)], "group_names": [f"g{g}" for g in range(4)]}
    return Mentions(columns, groups, left, right, clusters=clusters, spans=np.arange(2 * n).reshape(n, 2), **told)


def pairs(found):
    return list(zip(found.left.tolist(), found.right.tolist(), strict=True))


# -- what is refused ----------------------------------------------------------------------------------


WRONG = {
    "groups that fall": ({"groups": [0, 1, 0, 0]}, "groups must be numbers from 0 that never fall"),
    "groups below 0": ({"groups": [-1, 0, 0, 0]}, "groups must be numbers from 0"),
    "a pair the wrong way round": ({"pairs": [(0, 1), (3, 2)]}, r"pair 1 is \(3, 2\): expected left < right among 4"),
    "an item with itself": ({"pairs": [(1, 1)]}, r"pair 0 is \(1, 1\)"),
    "an item beyond the last": ({"pairs": [(0, 1), (0, 4)]}, r"pair 1 is \(0, 4\).*with_pairs\(\) puts pairs in order"),
    "an item below 0": ({"pairs": [(-1, 2)]}, r"pair 0 is \(-1, 2\)"),
    "rights that fall": ({"pairs": [(0, 2), (0, 1)]}, "in order of right and then left, each once"),
    "lefts that fall": ({"pairs": [(1, 2), (0, 2)]}, "in order of right and then left"),
    "a pair twice": ({"pairs": [(0, 2), (0, 2)]}, "in order of right and then left, each once"),
    "a pair across groups": ({"groups": [0, 0, 1, 1], "pairs": [(0, 1), (1, 2)]}, r"pair \(1, 2\) joins two groups"),
    "a pair within the first table": ({"pairs": [(0, 1)], "first_table": 2}, r"pair \(0, 1\) lies within one of the"),
    "a pair within the second": ({"pairs": [(0, 2), (2, 3)], "first_table": 2}, r"pair \(2, 3\) lies within"),
    "clusters too few": ({"clusters": [0, 1]}, r"expected a cluster for each of 4 items, -1 if not known; got \(2,\)"),
    "a cluster in two groups": (
        {"groups": [0, 0, 1, 1], "clusters": [5, 1, -1, 5]},
        "items 0 and 3 share cluster 5 but not the group",
    ),
    "names too many": ({"names": list("abcde")}, "5 names for 4 items"),
}


@pytest.mark.parametrize(("told", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_told(told, message):
    with pytest.raises(InputError, match=message):
        items(**told)


def test_columns_and_pairs_have_to_fit():
    with pytest.raises(InputError, match="column 'age' has 3 values for 2 items"):
        Mentions({"age": np.zeros(3)}, [0, 0], [], [])
    with pytest.raises(InputError, match=r"rows of one length; got \(2,\) and \(1,\)"):
        Mentions({}, [0, 0, 0], [0, 1], [2])


def test_arrays_are_read_only():
    one = items(3, [(0, 1)], clusters=[0, 0, 1])
    for array in (one.left, one.right, one.groups, one.clusters):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(TypeError):
        one.columns["new"] = np.zeros(3)


# -- pairs --------------------------------------------------------------------------------------------


@EXAMPLES
@given(groups=GROUPS)
def test_pairs_within(groups):
    left, right = pairs_within(np.array(groups, np.int32))
    assert left.dtype == right.dtype == np.int32
    every = [(i, j) for i, j in itertools.combinations(range(len(groups)), 2) if groups[i] == groups[j]]
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == sorted(every, key=lambda pair: pair[::-1])
    found = Mentions.from_groups(groups, {})
    assert found.n_pairs == found.n_possible_pairs == len(every)
    assert found.n_groups == max(groups, default=-1) + 1


@EXAMPLES
@given(told=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] != pair[1])))
def test_with_pairs_puts_them_in_order(told):
    given_pairs = np.array(told, int).reshape(-1, 2)
    found = items(6, [(0, 1)]).with_pairs(given_pairs[:, 0], given_pairs[:, 1])
    expected = {(min(pair), max(pair)) for pair in told}
    assert pairs(found) == sorted(expected, key=lambda pair: pair[::-1])
    left, right = ordered_pairs(*given_pairs.T)
    assert left.dtype == right.dtype == np.int32


def test_with_pairs_keeps_the_checks_and_the_rest():
    one = items(4, [(0, 1)], clusters=[0, 0, 1, 1], names=list("abcd"))
    other = one.with_pairs([3, 0], [2, 3])
    assert pairs(other) == [(0, 3), (2, 3)] and other.name(3) == "d" and other.clusters.tolist() == [0, 0, 1, 1]
    for left, right in (([0], [0]), ([-1], [2]), ([0], [4])):
        with pytest.raises(InputError, match="expected left < right among 4 items"):
            one.with_pairs(left, right)


@EXAMPLES
@given(told=mentions())
def test_labels_and_counts(told):
    c, g = told.clusters.tolist(), told.groups.tolist()
    labels = [-1 if c[i] < 0 or c[j] < 0 else int(c[i] == c[j]) for i, j in pairs(told)]
    assert told.pair_labels.dtype == np.int8 and told.pair_labels.tolist() == labels
    every = list(itertools.combinations(range(told.n_items), 2))
    assert told.n_true_pairs == sum(c[i] == c[j] >= 0 for i, j in every)
    assert told.n_possible_pairs == sum(g[i] == g[j] for i, j in every)


@EXAMPLES
@given(clusters=st.lists(st.integers(-1, 3), max_size=8), first=st.integers(0, 8))
def test_two_tables(clusters, first):
    first = min(first, len(clusters))
    told = items(len(clusters), clusters=clusters, first_table=first)
    across = list(itertools.product(range(first), range(first, len(clusters))))
    assert told.n_true_pairs == sum(clusters[i] == clusters[j] >= 0 for i, j in across)
    assert told.n_possible_pairs == len(across)


def test_without_truth():
    told = items(3, [(0, 1), (0, 2)])
    assert told.pair_labels.tolist() == [-1, -1] and told.n_true_pairs == 0


# -- some of them -------------------------------------------------------------------------------------


@EXAMPLES
@given(told=mentions(), seed=st.integers(0, 100), as_mask=st.booleans())
def test_take(told, seed, as_mask):
    mask = np.random.default_rng(seed).random(told.n_items) < 0.6
    kept = np.flatnonzero(mask).tolist()
    found = told.take(mask if as_mask else kept)
    number = {old: new for new, old in enumerate(kept)}
    assert pairs(found) == [(number[i], number[j]) for i, j in pairs(told) if i in number and j in number]
    assert [found.name(k) for k in range(found.n_items)] == [told.name(i) for i in kept]
    assert [found.group_name(g) for g in found.groups] == [told.group_name(told.groups[i]) for i in kept]
    assert len(found.group_names) == found.n_groups, "groups without items are gone"
    assert found.clusters.tolist() == told.clusters[kept].tolist()
    assert found.spans.tolist() == told.spans[kept].tolist()
    assert found.columns["name"].strings() == [told.columns["name"].strings()[i] for i in kept]
    assert found.columns["age"].tolist() == told.columns["age"][kept].tolist()


@EXAMPLES
@given(told=mentions(), wanted=st.sets(st.integers(0, 3)))
def test_take_groups(told, wanted):
    """Groups by number, also those that no item is in."""
    found = told.take_groups(wanted)
    expected = told.take(np.isin(told.groups, list(wanted)))
    assert found.names == expected.names and found.group_names == expected.group_names
    assert pairs(found) == pairs(expected)


def test_groups_that_are_not_there():
    told = items(2, groups=[0, 1], group_names=["a", "b", "empty"])
    assert told.take_groups([2]).n_items == 0
    with pytest.raises(InputError, match="no group 3; there are 3, counted from 0"):
        told.take_groups([0, 3])
    with pytest.raises(InputError, match="no group -1"):
        told.take_groups([-1])


@pytest.mark.parametrize("numbers", [[2, 0], [0, 0, 1]])
def test_numbers_that_do_not_rise_are_refused(numbers: list[int]):
    with pytest.raises(InputError, match="numbers of items must rise, each once"):
        items(3).take(numbers)


def test_take_of_two_tables():
    told = items(5, [(0, 3), (1, 4)], first_table=2, clusters=[0, 1, 2, 0, 1]).take([1, 2, 4])
    assert told.first_table == 1 and pairs(told) == [(0, 2)] and told.clusters.tolist() == [1, 2, 1]


def test_items_that_are_not_there():
    for wrong in ([0, 4], [-1], np.ones(3, bool)):
        with pytest.raises(InputError, match="items"):
            items(4).take(wrong)
    assert items(4).take([]).n_items == 0


def test_with_columns():
    told = items(2).with_columns(age=np.array([1.0, np.nan]))
    assert list(told.columns) == ["age"]
    with pytest.raises(InputError, match="column 'age' has 1 values for 2 items"):
        told.with_columns(age=np.array([1.0]))


def test_names_by_default_are_numbers():
    assert items(2).name(1) == "1" and items(2).group_name(0) == "0"


def test_a_number_that_is_the_name_of_an_item():
    told = Mentions.from_groups([0, 0], {}, names=["1000", "1001"])
    assert told.number("1001") == told.number(1) == 1 and told.number(7) == 7
    with pytest.raises(InputError, match="no item 1000 among 2; ids are strings: write '1000'; a number counts from 0"):
        told.number(1000)


def test_nobody():
    none = Mentions.from_groups([], {"name": Column.from_strings([])}, clusters=[])
    assert (none.n_items, none.n_pairs, none.n_groups, none.n_true_pairs, none.n_possible_pairs) == (0, 0, 0, 0, 0)
    assert none.take([]).n_items == 0 and none.take_groups([]).n_pairs == 0
