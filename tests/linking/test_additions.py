"""New records beside a clustered base: the base stays as it is, whatever comes."""

from __future__ import annotations

import functools
import itertools
import logging
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
import linkage_oracle as oracle
from kinfolk.errors import InputError, SettingError
from kinfolk.linking import additions
from kinfolk.linking.additions import ROUNDS, Base, _closed, also_near, closeness, joined
from kinfolk.linking.blocking import blocked

Case = tuple[list[int], int, list[tuple[int, int]], list[float]]


@st.composite
def cases(draw: st.DrawFn, distinct: bool = False) -> Case:
    """Clusters of a base, items in all, pairs with a new one, probabilities."""
    base = draw(st.lists(st.integers(0, 2), max_size=4))
    n = len(base) + draw(st.integers(0, 4))
    pairs = [(a, b) for b in range(len(base), n) for a in range(b) if draw(st.booleans())]
    grid = st.integers(1, 99).map(lambda k: k / 100)
    values = draw(st.lists(grid, min_size=len(pairs), max_size=len(pairs), unique=distinct))
    return base, n, pairs, values


def numbered(base: list[int]) -> Base:
    return Base(np.array([list(dict.fromkeys(base)).index(c) for c in base], np.int32))


def arrays(pairs: list[tuple[int, int]], values: list[float]) -> Any:
    left, right = np.array(pairs, np.int32).reshape(-1, 2).T
    return left, right, np.array(values)


ORACLES = {
    kf.AverageLink: oracle.average_link,
    kf.CompleteLink: oracle.complete_link,
    kf.SingleLink: oracle.constrained_single_link,
}


def parts(ids: Any) -> set[frozenset[int]]:
    listed = list(map(int, ids))
    return {frozenset(i for i, c in enumerate(listed) if c == one) for one in listed}


@pytest.mark.parametrize("kind", ORACLES)
@given(case=cases(), threshold=st.sampled_from([0.0, 0.3, 0.5, 0.8]))
def test_joins_are_those_of_the_clusterer_that_may_not_touch_the_base(kind: Any, case: Case, threshold: float):
    base, n, pairs, values = case
    old = range(len(base))
    must = [(a, b) for a, b in itertools.combinations(old, 2) if base[a] == base[b]]
    cannot = [(a, b) for a, b in itertools.combinations(old, 2) if base[a] != base[b]]
    left, right, p = arrays(pairs, values)
    found = joined(numbered(base), n, left, right, p, kind(threshold))
    expected = ORACLES[kind](n, left.tolist(), right.tolist(), values, threshold, must, cannot)
    assert parts(found) == parts(expected)


@pytest.mark.parametrize("kind", [*ORACLES, kf.BestLink, kf.Correlation])
@given(case=cases())
def test_the_base_never_moves(kind: Any, case: Case):
    base, n, pairs, values = case
    found = joined(numbered(base), n, *arrays(pairs, values), kind())
    assert found[: len(base)].tolist() == numbered(base).clusters.tolist()
    fresh = [c for c in found[len(base) :].tolist() if c >= numbered(base).n_clusters]
    assert list(dict.fromkeys(fresh)) == list(
        range(numbered(base).n_clusters, numbered(base).n_clusters + len({*fresh}))
    )


@given(case=cases(distinct=True), random=st.randoms(use_true_random=False))
def test_the_order_of_records_says_nothing(case: Case, random: Any):
    base, n, pairs, values = case
    old, new = list(range(len(base))), list(range(len(base), n))
    random.shuffle(old)
    random.shuffle(new)
    place = {item: k for k, item in enumerate([*old, *new])}  # where each item stands now
    moved = sorted((tuple(sorted((place[a], place[b])))[::-1], p) for (a, b), p in zip(pairs, values, strict=True))
    before = joined(numbered(base), n, *arrays(pairs, values), kf.SingleLink())
    after = joined(
        numbered([base[i] for i in old]), n, *arrays([key[::-1] for key, _ in moved], [p for _, p in moved]),
        kf.SingleLink(),
    )  # fmt: skip
    assert parts(before) == {frozenset([*old, *new][k] for k in part) for part in parts(after)}


@given(case=cases())
def test_a_record_says_which_cluster_it_would_have_joined_too(case: Case):
    base, n, pairs, values = case
    own, left, right, p = numbered(base), *arrays(pairs, values)
    clusters = joined(own, n, left, right, p, kf.AverageLink())
    found = also_near(closeness(own, n, left, right, p, kf.AverageLink()), clusters, 0.5, n)
    known = dict(zip(pairs, values, strict=True))
    for item in range(n):
        means = {}
        for c in {*own.clusters.tolist()} if item >= len(base) else ():
            members = [k for k in range(len(base)) if own.clusters[k] == c]
            means[c] = sum(known.get((m, item), 0.0) for m in members) / len(members)
        near = {c: mean for c, mean in means.items() if mean > 0.5 + 1e-12 and c != clusters[item]}
        if not any(abs(mean - 0.5) < 1e-9 for mean in means.values()):
            assert (found[item] >= 0) == bool(near)
            assert not near or near[int(found[item])] == pytest.approx(max(near.values()))


def test_the_nearer_of_two_clusters_is_taken():
    left, right, p = arrays([(0, 2), (1, 2)], [0.7, 0.9])
    own = numbered([0, 1])
    found = joined(own, 3, left, right, p, kf.AverageLink())
    assert found.tolist() == [0, 1, 1]
    assert also_near(closeness(own, 3, left, right, p, kf.AverageLink()), found, 0.5, 3).tolist() == [-1, -1, 0]


def test_a_base_that_new_records_hold_together_as_a_whole_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(additions, "MOST_APART", 2)
    left, right, p = arrays([(0, 3), (1, 3), (2, 3)], [0.9, 0.9, 0.9])
    with pytest.raises(SettingError, match=r"over 2 pairs of clusters.*raise the clusterer's `threshold`"):
        joined(numbered([0, 1, 2]), 4, left, right, p, kf.AverageLink())


# -- pairs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rules", [None, "key(name[:1])", "sorted(name, 3)", "rare(name, 5)", ["key(town)", "rare(name)"]]
)
@pytest.mark.parametrize("after", [0, 1, 4, 8])
def test_pairs_after_a_number_are_those_whose_later_item_has_it(rules: Any, after: int):
    items = kf.records_from_frames({"name": FIELDS["name"], "town": FIELDS["town"]}, id=None)
    whole, some = blocked(items, rules)[0], blocked(items, rules, after=after)
    kept = whole.right >= after
    assert some[0].left.tolist() == whole.left[kept].tolist() and some[0].right.tolist() == whole.right[kept].tolist()
    assert some[1].n_pairs == int(kept.sum()) and some[1].n_possible == 28 - after * (after - 1) // 2


class Known:
    """In the place of a linker: probabilities of all pairs, which it gives for those it is asked about."""

    def __init__(self, values: dict[tuple[int, int], float]) -> None:
        self.values, self.asked = values, set[tuple[int, int]]()

    def predict_proba(self, items: kf.Mentions) -> np.ndarray:
        pairs = [*zip(items.left.tolist(), items.right.tolist(), strict=True)]
        assert not self.asked & {*pairs}  # none is compared twice
        self.asked |= {*pairs}
        return np.array([self.values[pair] for pair in pairs])


@given(case=cases(), rest=st.lists(st.integers(1, 99), min_size=36, max_size=36))
def test_closure_compares_new_records_with_all_of_a_likely_cluster(case: Case, rest: list[int]):
    base, n, pairs, values = case
    known = dict(zip(itertools.combinations(range(9), 2), (k / 100 for k in rest), strict=True))
    known |= dict(zip(pairs, values, strict=True))
    old = range(len(base))
    must = [(a, b) for a, b in itertools.combinations(old, 2) if base[a] == base[b]]
    cannot = [(a, b) for a, b in itertools.combinations(old, 2) if base[a] != base[b]]
    there = [*pairs]
    for _ in range(ROUNDS):
        left, right = [a for a, _ in there], [b for _, b in there]
        p = [known[pair] for pair in there]
        ids = oracle.agglomerate(n, left, right, p, 0.5, "compared", must, cannot)
        more = [(a, b) for b in range(len(base), n) for a in range(b) if ids[a] == ids[b] and (a, b) not in there]
        there = sorted([*there, *more], key=lambda pair: pair[::-1])
    items = kf.Mentions({}, np.zeros(n, np.int32), *arrays(pairs, values)[:2], blocked=True)
    linker = Known(known)
    found, p = _closed(linker, items, np.array(values), numbered(base), 0.5)
    assert [*zip(found.left.tolist(), found.right.tolist(), strict=True)] == there
    assert p.tolist() == [known[pair] for pair in there] and linker.asked == {*there} - {*pairs}


# -- tables -------------------------------------------------------------------------------------------

FIELDS = {
    "id": [f"r{i}" for i in range(8)],
    "name": ["Ann Lee", "Bob Roy", "Anne Lee", "Cora May", "Rob Roy", "Cora Mai", "Ben Fox", "Ann Poe"],
    "town": ["York", "Bath", "York", "Hull", "Bath", "Hull", "York", "Bath"],
}
WHO = [0, 1, 0, 2, 1, 2, 3, 4]
TOWNS = [0, 1, 0, 2, 1, 2, 0, 1]


@functools.cache
def linker() -> kf.Linker:
    truth = kf.records_from_frames({**FIELDS, "who": WHO}, cluster="who")
    return kf.Linker(["jaro_winkler(name)", "exact(town)"], l2=0.01, n_jobs=1).fit(truth)


def rows(*chosen: int) -> dict[str, list[Any]]:
    return {name: [values[i] for i in chosen] for name, values in FIELDS.items()}


def test_new_records_join_the_base_or_make_clusters_of_their_own():
    base = {**rows(0, 1), "cluster": [7, 3]}
    answer = linker().link(rows(5, 2, 4, 3, 6), base)
    assert answer["id"] == ["r5", "r2", "r4", "r3", "r6"]
    assert answer["cluster"] == [8, 7, 3, 8, 9]
    assert answer["also"] == [None] * 5
    assert all(0.5 < p <= 1 for p in answer["probability"])
    assert base == {**rows(0, 1), "cluster": [7, 3]}


@pytest.mark.parametrize(
    ("named", "expected"),
    [(["7", "3"], ["8", "7", "3", "8", "9"]), (["a", "r5"], ["r5_1", "a", "r5", "r5_1", "r6"])],
)
def test_new_clusters_are_named_as_those_of_the_base_are(named: list[str], expected: list[str]):
    answer = linker().link(rows(5, 2, 4, 3, 6), {**rows(0, 1), "cluster": named})
    assert answer["cluster"] == expected


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, dict])
def test_floats_that_are_whole_are_the_numbers_they_are(kind: Any):
    """As pandas makes of whole numbers in a left join."""
    base = kind({**rows(0, 1), "cluster": [7.0, 3.0]})
    answer = linker().link(rows(5, 2, 4, 3, 6), base)
    assert answer["cluster"] == [8, 7, 3, 8, 9] and all(type(one) is int for one in map(_plain, answer["cluster"]))
    for odd in ([7.0, 3.5], [7.0, 1e300], [7.0, float("inf")]):
        with pytest.raises(InputError, match=r"base, row 1: .* floats must be whole, .* turn clusters into"):
            linker().link(rows(2), kind({**rows(0, 1), "cluster": odd}))
    with pytest.raises(InputError, match="base, row 1: no cluster in column 'cluster'"):
        linker().link(rows(2), kind({**rows(0, 1), "cluster": [7.0, float("nan")]}))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_the_new_table_goes_out_as_it_came(kind: Any):
    base = pl.DataFrame({**rows(0, 1), "group": [7, 3]})
    answer, pairs = linker().link(kind(rows(2, 6)), base, cluster="group", pairs=True)
    assert isinstance(answer, kind) and list(answer.columns) == ["id", "name", "town", "group", "probability", "also"]
    assert list(answer["group"]) == [7, 8] and isinstance(pairs, kind)
    compared = {*zip(pairs["id_left"], pairs["id_right"], strict=True)}
    assert ("r0", "r1") not in compared and compared == {
        ("r0", "r2"), ("r1", "r2"), ("r0", "r6"), ("r1", "r6"), ("r2", "r6"),
    }  # fmt: skip


def test_no_base_or_nothing_new():
    nothing = pd.DataFrame({**rows(), "cluster": []})
    assert linker().link(rows(0, 2, 6), nothing)["cluster"] == [0, 0, 1]
    empty = linker().link(pd.DataFrame(rows()), {**rows(0, 1), "cluster": [0, 1]})
    assert len(empty) == 0 and list(empty.columns)[-3:] == ["cluster", "probability", "also"]


def test_a_record_between_two_clusters_takes_the_better_and_is_told_of(caplog: pytest.LogCaptureFixture):
    base = {**rows(0, 2), "cluster": ["one", "two"]}  # one person, whom the base has in two clusters
    with caplog.at_level(logging.WARNING, "kinfolk"):
        answer = linker().link({"id": ["n"], "name": ["Anne Lee"], "town": ["York"]}, base)
    assert answer["cluster"] == ["one"] and answer["also"] == ["two"]  # of equals the earlier
    assert "1 new record would have joined two clusters" in caplog.text and "'n'" in caplog.text


def test_what_cannot_be_added_is_refused():
    base = {**rows(0, 1), "cluster": [0, 1]}
    with pytest.raises(InputError, match="'r1' is in the base already"):
        linker().link(rows(1, 2), base)
    with pytest.raises(InputError, match="no column 'cluster'"):
        linker().link(rows(2), rows(0))
    with pytest.raises(InputError, match=r"row 1: no cluster in column 'cluster'"):
        linker().link(rows(2), {**rows(0, 1), "cluster": ["a", None]})
    with pytest.raises(InputError, match="column 'also' already"):
        linker().link({**rows(2), "also": [1]}, base)


def test_more_pairs_than_the_limit_are_refused():
    base = {**rows(0, 1), "cluster": [7, 3]}
    assert linker().link(rows(5, 2), base, limit=5)["cluster"]  # 2 with 2, and 1 between
    with pytest.raises(InputError, match="5 pairs are possible, where `limit` allows 4; narrow the rules or raise"):
        linker().link(rows(5, 2), base, limit=4)


def test_ranking_has_no_base():
    docs = kf.records_from_frames({**FIELDS, "who": WHO}, cluster="who")
    ranked = kf.Linker(["jaro_winkler(name)"], training="ranking", n_jobs=1).fit(docs)
    with pytest.raises(SettingError, match="a base cannot stay as it is"):
        ranked.link(rows(2), {**rows(0, 1), "cluster": [0, 1]})


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_largest_size_holds_unless_the_base_has_larger_clusters(size: int, caplog: pytest.LogCaptureFixture):
    model = kf.Linker(["exact(town)"], clusterer=kf.AverageLink(max_size=2), n_jobs=1).fit(
        kf.records_from_frames({**FIELDS, "who": TOWNS}, cluster="who")
    )
    base = {"id": list("abc"), "name": ["Ann"] * 3, "town": ["York"] * 3, "cluster": [0] * 3}
    new = {"id": ["n"], "name": ["Ann"], "town": ["York"]}
    answer = model.link(new, {name: values[:size] for name, values in base.items()})
    assert answer["cluster"] == [1 if size == 2 else 0]
    assert ("no limit is kept to" in caplog.text) == (size == 3)


def test_pairs_that_blocking_left_out_are_compared_inside_likely_clusters():
    people = kf.generate_customers(300, seed=4)
    model = kf.Linker(blocking=["key(postcode)", "key(date_of_birth)"], n_jobs=1).fit(people)
    half = np.arange(300) % 2 == 0
    tables = [
        {"id": list(part.names or ()), **{k: v.strings() for k, v in part.columns.items()}}  # type: ignore[union-attr]
        for part in (people.take(half), people.take(~half))
    ]
    truth = [people.clusters[half].tolist(), people.clusters[~half].tolist()]  # type: ignore[index]
    answer, pairs = model.link(tables[1], {**tables[0], "cluster": truth[0]}, pairs=True)
    old = {*tables[0]["id"]}
    assert not any(a in old and b in old for a, b in zip(pairs["id_left"], pairs["id_right"], strict=True))
    known = [(found, true) for found, true in zip(answer["cluster"], truth[1], strict=True) if true in truth[0]]
    assert sum(found == true for found, true in known) >= 0.9 * len(known)
    wholly = model.link(tables[1], {**tables[0], "cluster": truth[0]})
    assert wholly["cluster"] == answer["cluster"]


# -- rules that are certain ---------------------------------------------------------------------------


def ruled(*rules: str) -> kf.Linker:
    truth = kf.records_from_frames({**FIELDS, "tax": list("abacbcde"), "land": ["x"] * 8, "who": WHO}, cluster="who")
    return kf.Linker(["jaro_winkler(name)", "exact(town)"], l2=0.01, n_jobs=1, rules=list(rules)).fit(truth)


def table(*records: tuple[str, str, str, str | None, str | None]) -> dict[str, list[Any]]:
    return dict(zip(["id", "name", "town", "tax", "land"], map(list, zip(*records, strict=True)), strict=True))


BASE = table(
    ("b0", "Ann Lee", "York", "1", "x"), ("b1", "Bob Roy", "Bath", "2", "x"), ("b2", "Cy Orr", "Hull", "2", "x"),
    ("b3", "Anne Lee", "York", None, "x"),
)  # fmt: skip
CLUSTERS = {"cluster": ["A", "B", "B", "A"]}


def test_the_same_certain_value_joins_whatever_the_model_says():
    new = table(("n0", "Zoe Zimm", "Kent", "1", None), ("n1", "Uma Unger", "Deal", "9", None),
                ("n2", "Kit Kerr", "Ryde", "9", None), ("n3", "Ann Lee", "York", None, None))  # fmt: skip
    assert ruled("always(tax)").link(new, {**BASE, **CLUSTERS})["cluster"] == ["A", "n1", "n1", "A"]


def test_different_certain_values_stay_apart_whatever_the_model_says():
    new = table(("n0", "Ann Lee", "York", None, "y"), ("n1", "Ann Lee", "York", None, "x"))
    assert ruled("never(land)").link(new, {**BASE, **CLUSTERS})["cluster"] == ["n0", "A"]


def test_certain_values_decide_nothing_about_the_base():
    """A base in which one number is in two clusters, and one cluster is in two countries, stays as it is."""
    odd = {**BASE, "tax": ["1", "1", "1", None], "land": ["x", "x", "y", "x"], "cluster": ["A", "B", "B", "A"]}
    new = table(("n0", "Zoe Zimm", "Kent", "1", None), ("n1", "Ann Lee", "York", None, "x"))
    assert ruled("always(tax)", "never(land)").link(new, odd)["cluster"] == ["B", "A"]  # B has most records with it


def test_two_certain_values_never_join_two_clusters_of_the_base():
    new = table(("n0", "Zoe Zimm", "Kent", "1", "k"), ("n1", "Uma Unger", "Deal", "2", "k"))
    answer = ruled("always(tax)", "always(land)").link(new, {**BASE, **CLUSTERS})
    assert answer["cluster"] == ["A", "B"]
