"""Rules that decide for certain, beside links listed pair by pair; how they are written, told and kept."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.certain import Decided, RulesError, as_certain

CLUSTERERS = [kf.SingleLink(), kf.AverageLink(), kf.AverageLink(0.3, of="log-odds"), kf.CompleteLink(0.2),
              kf.BestLink(), kf.Correlation(), kf.SingleLink(max_size=9)]  # fmt: skip
TAX, COUNTRY = st.sampled_from([None, "1", "2"]), st.sampled_from([None, "nl", "NL", "be", "fr"])


def table(first_table: int | None = None, **columns: Any) -> kf.Mentions:
    n, none = len(next(iter(columns.values()))), np.empty(0, np.int32)
    return kf.Mentions(columns, np.zeros(n, np.int32), none, none, first_table=first_table)


def same(a: str | None, b: str | None) -> bool:
    return a is not None and b is not None and a.lower() == b.lower()


def different(a: str | None, b: str | None) -> bool:
    return a is not None and b is not None and a.lower() != b.lower()


def together_by_hand(n: int, pairs: list[tuple[int, int]]) -> list[set[int]]:
    parts = [{i} for i in range(n)]
    for a, b in pairs:
        one, other = (next(part for part in parts if i in part) for i in (a, b))
        if one is not other:
            parts.remove(other)
            one |= other
    return parts


@given(st.lists(st.tuples(TAX, COUNTRY), max_size=9), st.data())
@pytest.mark.parametrize("clusterer", CLUSTERERS, ids=str)
def test_clusters_are_those_with_every_pair_listed(clusterer: Any, rows: list[tuple[Any, Any]], data: st.DataObject):
    n = len(rows)
    items = table(tax=[row[0] for row in rows], country=[row[1] for row in rows]) if rows else None
    if items is None:
        return
    pairs = [pair for pair in itertools.combinations(range(n), 2) if data.draw(st.booleans())]
    items = items.with_pairs(*(np.array([pair[k] for pair in pairs], np.int32) for k in (0, 1)))
    p = np.array(data.draw(st.lists(st.sampled_from([0.1, 0.4, 0.6, 0.9]), min_size=len(pairs), max_size=len(pairs))))
    every = list(itertools.combinations(range(n), 2))
    must = [(a, b) for a, b in every if same(rows[a][0], rows[b][0])]
    cannot = [(a, b) for a, b in every if different(rows[a][1], rows[b][1])]
    parts = together_by_hand(n, must)
    decided = Decided(as_certain(["always(tax)", "never(country)"]), items)
    if any({a, b} <= part for a, b in cannot for part in parts):
        with pytest.raises(RulesError, match="contradict"):
            decided.links(p, clusterer.threshold, None, None)
        return
    few = decided.links(p, clusterer.threshold, None, None)
    arguments = n, items.left, items.right, p
    found = clusterer.cluster(*arguments, *few)
    if not isinstance(
        clusterer, kf.Correlation
    ):  # its single moves depend on what is listed; the rules hold all the same
        np.testing.assert_array_equal(
            found, clusterer.cluster(*arguments, np.array(must).reshape(-1, 2), np.array(cannot))
        )
    assert all(found[a] == found[b] for a, b in must) and all(found[a] != found[b] for a, b in cannot)


def test_items_that_hang_together_by_one_without_a_country_are_kept_apart():
    items = table(country=["nl", None, "be"]).with_pairs([0, 1], [1, 2])
    links = Decided(as_certain("never(country)"), items).links(np.array([0.9, 0.8]), 0.5, None, None)
    assert links[1].tolist() == [[0, 2]]
    assert kf.SingleLink().cluster(3, items.left, items.right, np.array([0.9, 0.8]), *links).tolist() == [0, 0, 1]


def test_of_two_tables_only_pairs_that_cross_them_are_linked():
    items = table(2, tax=["1", "1", "1", "1", "2"])
    must, _ = Decided([kf.Always("tax")], items).links(np.empty(0), 0.5, None, None)
    assert sorted(map(tuple, must.tolist())) == [(0, 2), (0, 3), (1, 2)]
    alone = table(3, tax=["1", "1", "2", "3"])
    assert len(Decided([kf.Always("tax")], alone).links(np.empty(0), 0.5, None, None)[0]) == 0


def test_several_fields_decide_together_and_a_missing_one_decides_nothing():
    items = table(a=["x", "x", "X", None], b=["1", "2", "1", "1"])
    assert Decided([kf.Always(["a", "b"])], items).with_pairs().left.tolist() == [0]
    assert Decided([kf.Never(["a", "b"])], items).reasons(0, 1)[0][1] == "different a and b"
    assert not Decided([kf.Never(["a", "b"])], items).reasons(0, 3)
    assert not Decided([kf.Always("a", normalise=False)], items).reasons(0, 2)


def test_lists_are_no_values_of_rules():
    with pytest.raises(InputError, match=r"always\(a\): the field 'a' holds lists"):
        Decided([kf.Always("a")], table(a=[["x", "y"], ["x"]]))


def test_a_value_of_very_many_is_compared_by_neighbours_alone():
    assert Decided([kf.Always("a")], table(a=["x"] * 300)).with_pairs().n_pairs == 299
    assert Decided([kf.Always("a")], table(a=["x"] * 30)).with_pairs().n_pairs == 30 * 29 // 2


@pytest.mark.parametrize("text", ["always", "always()", "maybe(a)", "always(a + )", "never(a, b)"])
def test_what_cannot_be_read(text: str):
    with pytest.raises(SettingError, match=r"write it as always\(tax_number\)"):
        as_certain(text)


def test_words_and_objects_are_the_same():
    assert as_certain(["always(a + b)", "Never(c, raw)"]) == [kf.Always(["a", "b"]), kf.Never("c", normalise=False)]
    assert [str(one) for one in as_certain([kf.Always(["a", "b"]), kf.Never("c", normalise=False)])] == [
        "always(a + b)", "never(c, raw)"]  # fmt: skip
    with pytest.raises(SettingError, match="rules"):
        kf.Linker(rules=[3]).check()
    with pytest.raises(SettingError, match="name of a field"):
        kf.Always([])


# -- in a linker --------------------------------------------------------------------------------------


def customers(n: int = 60) -> kf.Mentions:
    rng = np.random.default_rng(0)
    name = [f"{rng.choice(['ann', 'bob', 'cy', 'dee'])} {''.join(rng.choice(list('abcdefgh'), 6))}" for _ in range(n)]
    columns = {"name": [x for x in name for _ in range(2)], "tax": [None] * (2 * n), "country": ["nl"] * (2 * n)}
    none = np.empty(0, np.int32)
    return kf.Mentions(columns, np.zeros(2 * n, np.int32), none, none, np.repeat(np.arange(n), 2))


def few(tax: list[Any], country: list[Any], name: list[str]) -> kf.Mentions:
    none = np.empty(0, np.int32)
    columns = {"name": name, "tax": tax, "country": country}
    return kf.Mentions(columns, np.zeros(len(name), np.int32), none, none, names=[f"r{k}" for k in range(len(name))])


RULES = ["always(tax)", "never(country)"]


def trained() -> kf.Linker:
    return kf.Linker(["jaro_winkler(name)"], "key(name[:1])", rules=RULES, training="local", n_jobs=1).fit(customers())


def test_predict_keeps_to_the_rules_explains_them_and_the_file_keeps_them(tmp_path: Path):
    linker = trained()
    asked = few(["7", "7", None, None], ["nl", None, "nl", "be"], ["ann abc", "zoe xyz", "bob fgh", "bob fgh"])
    assert linker.predict(asked).tolist() == [
        0,
        0,
        1,
        2,
    ]  # 0 and 1 are no candidates of blocking, 2 and 3 the same name
    paired, probability, clusters = linker.linked(asked)
    assert (0, 1) in zip(paired.left.tolist(), paired.right.tolist(), strict=True)
    assert "rule: same tax" in str(linker.explain(asked, "r0", "r1"))
    assert linker.explain(asked, "r2", "r3").rules == ("different country",)
    from kinfolk.linking.page import Linked

    linked = Linked.of(linker, paired, probability, clusters)
    assert linked.verdict(0, 1, linked.candidate(0, 1)) == "linked by a rule: same tax"
    assert linked.verdict(2, 3, linked.candidate(2, 3)) == "kept apart by a rule: different country"
    linker.save(tmp_path / "m")
    again = kf.load_model(tmp_path / "m")
    assert [str(rule) for rule in again.rules] == RULES
    assert again.predict(asked).tolist() == [0, 0, 1, 2]


def test_a_cluster_kept_apart_by_way_of_another_record_says_which():
    linker = trained()
    asked = few([None, "1", "1"], ["nl", None, "be"], ["bob fgh", "bob fgh", "quentin"])
    from kinfolk.linking.page import Linked

    linked = Linked.of(linker, asked)
    assert linked.clusters.tolist() == [0, 1, 1]
    assert "kept apart by a rule, as r0 and r2 in their clusters have different country" in linked.verdict(0, 1, 0)


def test_a_largest_size_gives_way_to_a_rule():
    linker = kf.Linker(
        ["jaro_winkler(name)"], rules=RULES, training="local", clusterer=kf.AverageLink(max_size=2), n_jobs=1
    )
    asked = few(["7", "7", "7", None, None], [None] * 5, ["ann a", "bob b", "cy c", "dee d", "dee d"])
    assert linker.fit(customers()).predict(asked).tolist() == [0, 0, 0, 1, 1]
    base = {
        "id": ["b0", "b1"],
        "name": ["ann a", "ann b"],
        "tax": ["7", None],
        "country": [None] * 2,
        "cluster": [5, 5],
    }
    new = {"id": ["n0"], "name": ["zoe"], "tax": ["7"], "country": [None]}
    assert list(linker.link(new, {**base, "cluster": [5, 5]})["cluster"]) == [5]


def test_a_contradiction_is_told_with_the_chain_that_makes_it():
    asked = few(["1", "1", "2", "2"], ["nl", None, None, "be"], ["ann a", "ann b", "ann c", "ann d"])
    with pytest.raises(RulesError) as told:
        trained().predict(asked, must_link=[["r1", "r2"]])
    chain = "'r0' - 'r1' (same tax), 'r1' - 'r2' (given by `must_link`), 'r2' - 'r3' (same tax)"
    assert f"'r0' and 'r3' must be apart (different country) and together: {chain}" in str(told.value)


def test_rules_of_a_field_that_is_not_there():
    with pytest.raises(InputError, match="no column 'vat'"):
        kf.Linker(["jaro_winkler(name)"], rules="always(vat)", training="local", n_jobs=1).fit(customers())
