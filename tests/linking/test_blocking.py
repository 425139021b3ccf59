"""Blocking beside nested loops over all pairs, key expressions, giant blocks, and what the report says."""

from __future__ import annotations

import logging
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.core.data import Column
from kinfolk.errors import InputError, SettingError
from kinfolk.linking import blocking
from kinfolk.linking.blocking import (
    WRITTEN,
    Blocking,
    Key,
    RareTokens,
    SortedNeighbourhood,
    as_rules,
    block,
    blocked,
    parse_rule,
    wide_rules,
)
from kinfolk.linking.keys import keys_of, soundex
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import normalised

Pair = tuple[int, int]


def records(
    columns: dict[str, list[str | None]],
    groups: list[int] | None = None,
    first_table: int | None = None,
    clusters: list[int] | None = None,
) -> Mentions:
    n = len(next(iter(columns.values())))
    made = {name: Column.from_strings(values) for name, values in columns.items()}
    none = np.empty(0, np.int32)
    truth = None if clusters is None else np.array(clusters, np.int32)
    return Mentions(made, np.array(groups or [0] * n, np.int32), none, none, truth, first_table=first_table)


def pairs(items: Mentions) -> list[Pair]:
    return list(zip(items.left.tolist(), items.right.tolist(), strict=True))


# -- the oracle ---------------------------------------------------------------------------------------


def allowed(items: Mentions, i: int, j: int) -> bool:
    crosses = items.first_table is None or i < items.first_table <= j
    return bool(items.groups[i] == items.groups[j]) and crosses


def by_hand(items: Mentions, rule: Blocking) -> set[Pair]:
    """Every pair of items, looked at on its own."""
    n = items.n_items
    texts = {name: [normalised(v or "") for v in column.strings()] for name, column in items.columns.items()}  # type: ignore[union-attr]
    if isinstance(rule, RareTokens):
        bags = [set(" ".join(texts[name][i] for name in rule.fields).split()) for i in range(n)]
        frequency = Counter(token for bag in bags for token in bag)
        rare = [{token for token in bag if frequency[token] <= rule.max_frequency} for bag in bags]
        together = {(i, j) for j in range(n) for i in range(j) if len(rare[i] & rare[j]) >= rule.min_shared}
    elif isinstance(rule, SortedNeighbourhood):
        own = texts[rule.expression]
        order = sorted((i for i in range(n) if own[i]), key=lambda i: (items.groups[i], own[i], i))
        near = [(order[p], order[q]) for q in range(len(order)) for p in range(q) if q - p < rule.window]
        if items.n_groups > 1:  # a window ends with its group: places are counted within it
            near = [(a, b) for a, b in near if items.groups[a] == items.groups[b]]
        together = {(min(pair), max(pair)) for pair in near}
    else:
        assert isinstance(rule, Key)
        keys = [tuple(texts[name.strip()][i] for name in rule.expression.split("+")) for i in range(n)]
        together = {(i, j) for j in range(n) for i in range(j) if keys[i] == keys[j] and all(keys[i])}
    return {(i, j) for i, j in together if allowed(items, i, j)}


VALUES = st.none() | st.sampled_from(["a", "b", "c d", "a b", "e, A", "É", "", "-", "d c b", "f"])


@st.composite
def worlds(draw: st.DrawFn) -> Mentions:
    n = draw(st.integers(0, 12))
    columns = {name: draw(st.lists(VALUES, min_size=n, max_size=n)) for name in ("x", "y")}
    groups = sorted(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))) if draw(st.booleans()) else [0] * n
    first = draw(st.integers(0, n)) if draw(st.booleans()) else None
    clusters = [7 * group + draw(st.integers(-1, 3)) if group else draw(st.integers(-1, 3)) for group in groups]
    return records(columns, groups, first, [max(c, -1) if g == 0 else c for c, g in zip(clusters, groups, strict=True)])


RULES: st.SearchStrategy[Blocking] = st.one_of(
    st.builds(Key, st.sampled_from(["x", "y", "x + y"])),
    st.builds(SortedNeighbourhood, st.sampled_from(["x", "y"]), st.integers(2, 5)),
    st.builds(RareTokens, st.sampled_from(["x", "y", ["x", "y"]]), st.sampled_from([2, 3, 50]), st.integers(1, 3)),
)


@pytest.mark.parametrize(("least", "expected"), [(1, [(0, 1), (0, 2), (1, 2)]), (2, [(0, 1), (0, 2)]), (3, [])])
def test_so_many_rare_words_must_be_shared(least: int, expected: list[tuple[int, int]]):
    items = records({"x": ["a b c", "a b d", "a c e", "f"]}, [0] * 4, None, [-1] * 4)
    assert pairs(block(items, [RareTokens("x", 50, least)])) == expected


@given(items=worlds(), rules=st.lists(RULES, min_size=1, max_size=3), at_a_time=st.sampled_from([1, 5, 1 << 22]))
def test_blocking_by_nested_loops(items: Mentions, rules: list[Blocking], at_a_time: int):
    whole, blocking.AT_A_TIME = blocking.AT_A_TIME, at_a_time  # pieces of any size give the same
    try:
        found, report = blocked(items, rules)
        again = block(items, rules, n_jobs=2)
    finally:
        blocking.AT_A_TIME = whole
    expected = [by_hand(items, rule) for rule in rules]
    union = set().union(*expected)
    assert pairs(found) == sorted(union, key=lambda pair: pair[::-1]) == pairs(again)
    assert [rule.n_pairs for rule in report.rules] == list(map(len, expected))
    assert report.n_pairs == len(union) and report.n_possible == items.n_possible_pairs
    labels = found.pair_labels
    assert report.union.n_true == int((labels == 1).sum()) and report.n_matches == items.n_true_pairs
    assert str(report)


def test_what_else_the_items_hold_stays():
    items = records({"x": ["a", "a", "b"]}, clusters=[0, 0, 1])
    found = block(items, "key(x)")
    assert pairs(found) == [(0, 1)] and found.columns == items.columns and found.clusters is not None


# -- keys ---------------------------------------------------------------------------------------------


def keys(values: list[str | None], expression: str, normalise: bool = True) -> list[str | None]:
    made = keys_of(records({"f": values, "given name": values}), expression, normalise)
    return [None if code < 0 else made.shown(int(code)) for code in made.codes]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("f", ["o neill ann 42", "bo", None, None]),
        ("f[:2]", ["o", "bo", None, None]),
        ("f[1:2] + f[:1]", [None, "o + b", None, None]),
        ("f[-2:]", ["42", "bo", None, None]),
        ("f[1:][:1]", [None, "o", None, None]),
        ("first(f)", ["o", "bo", None, None]),
        ("last(f)", ["42", "bo", None, None]),
        ("digits(f)", ["42", None, None, None]),
        ("soundex(first(f))", ["o000", "b000", None, None]),
        ("lower(f)[:1] + 'given name'[:1]", ["o + o", "b + b", None, None]),
        ('"given name" [ : 2 ]', ["o", "bo", None, None]),
    ],
)
def test_key_expressions(expression: str, expected: list[str | None]):
    assert keys(["O-Neill, Ann 42", "BO", "--", None], expression) == expected


def test_raw_keys():
    assert keys(["A-b", "a b", " A-b "], "f", normalise=False) == ["A-b", "a b", "A-b"]
    assert keys(["A-b"], "lower(f)", normalise=False) == ["a-b"]


def test_parts_are_not_run_together():
    items = records({"x": ["ab", "a"], "y": ["c", "bc"]})
    assert pairs(block(items, Key("x + y"))) == []


def test_sorted_neighbourhoods_do_not_depend_on_the_order_of_rows():
    """Records of one key are in the order of their ids."""
    rng = np.random.default_rng(0)
    people = [(f"r{i}", "abc"[i % 3]) for i in range(60)]
    found = []
    for order in (np.arange(60), *(rng.permutation(60) for _ in range(3))):
        ids, names = zip(*(people[i] for i in order), strict=True)
        items = block(replace(records({"name": list(names)}), names=ids), "sorted(name, 4)")
        found.append({frozenset((ids[a], ids[b])) for a, b in pairs(items)})
    assert len(found[0]) == 59 + 58 + 57 and all(one == found[0] for one in found)


def test_codes_follow_the_order_of_keys():
    made = keys_of(records({"x": ["b", "a", "b", "a"], "y": ["1", "2", "0", None]}), "x + y")
    assert made.codes.tolist()[3] == -1 and made.codes[1] < made.codes[2] < made.codes[0]


@pytest.mark.parametrize(
    ("name", "code"),
    [("Robert", "r163"), ("Rupert", "r163"), ("Rubin", "r150"), ("Ashcraft", "a261"), ("Ashcroft", "a261"),
     ("Tymczak", "t522"), ("Pfister", "p236"), ("Honeyman", "h555"), ("Lee", "l000"), ("", ""), ("42", "")],
)  # fmt: skip
def test_soundex(name: str, code: str):
    assert soundex(name) == code


@pytest.mark.parametrize(
    "expression",
    ["", "+", "f +", "f g", "f[", "f[1]", "f[a:b]", "f[::2]", "first(f", "first()", "exec(f)", "f.lower()", "1f", "f]",
     "__import__('os')", "first(f + g)", "'f", None, 3],
)  # fmt: skip
def test_keys_that_cannot_be_read(expression: Any):
    with pytest.raises(SettingError):
        Key(expression)


def test_a_key_of_a_field_that_is_not_there():
    """The message names the rule, what it reads, what there is, and what to do."""
    for rule in ("key(x + suburb[:2])", "sorted(soundex(suburb), 5)", "rare(x + suburb, 50)"):
        wanted = f"the blocking rule {rule} reads the column 'suburb'; the items have 'x': name columns of theirs"
        with pytest.raises(InputError, match=re.escape(wanted)):
            block(records({"x": ["a"]}), ["key(x)", rule])
    with pytest.raises(InputError, match="the items have none"):
        block(replace(records({"x": ["a"]}), columns={}), "key(x)")


def test_rules_are_suggested_of_a_column_that_is_there():
    """Of text before numbers, with the most different values; of none, the ways to write a rule."""
    items = records({"town": ["u", "u", "v"], "person": ["a", "b", "c"], "odd name": ["d", "e", "f"]})
    assert wide_rules(items) == "'sorted(person, 10)' or 'rare(person, 50)'"
    assert block(items, re.findall("'(.*?)'", wide_rules(items))).n_pairs > 0, "they can be read"
    numbers = replace(items, columns={"age": np.array([1.0, 2.0, 2.0])})
    assert wide_rules(numbers) == "'sorted(age, 10)' or 'rare(age, 50)'"
    assert wide_rules(replace(numbers, columns={})) == WRITTEN


# -- text form and settings ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("key(postcode)", Key("postcode")),
        ("KEY( surname[:3] + soundex(suburb) )", Key("surname[:3] + soundex(suburb)")),
        ("key(code, raw)", Key("code", normalise=False)),
        ("sorted(surname)", SortedNeighbourhood("surname")),
        ("sorted(surname[:2] + suburb, 7)", SortedNeighbourhood("surname[:2] + suburb", 7)),
        ("rare(name)", RareTokens("name")),
        ("rare(name + description, 20)", RareTokens(["name", "description"], 20)),
        ("rare(name, 20, 2, raw)", RareTokens("name", 20, 2, normalise=False)),
    ],
)
def test_rules_are_read_as_they_are_written(text: str, rule: Blocking):
    assert parse_rule(text) == rule and parse_rule(str(rule)) == rule


@pytest.mark.parametrize(
    "text",
    ["", "postcode", "key", "key()", "key(a, 3)", "sorted(a, 1)", "sorted(a, b)", "sorted(a, 3, 4)", "rare()",
     "rare(a, 1)", "rare(a, 5, 0)", "rare(a, 5, 1, 1)", "near(a)", "key(a, raw, raw)", "key(a, raw, 3)"],
)  # fmt: skip
def test_rules_that_cannot_be_read(text: str):
    with pytest.raises(SettingError):
        parse_rule(text)


@pytest.mark.parametrize(
    "settings", [{"giant": "drop"}, {"max_block": 0}, {"max_block": True}, {"n_jobs": 0}, {"rules": []}, {"rules": [3]}]
)
def test_settings_are_checked(settings: dict[str, Any]):
    with pytest.raises(SettingError):
        blocked(records({"x": ["a", "a"]}), **{"rules": Key("x"), **settings})
    assert as_rules(["key(x)"]) == [Key("x")]


# -- giant and empty blocks, report -------------------------------------------------------------------


def test_giant_blocks_are_told_of_before_any_work(caplog: pytest.LogCaptureFixture):
    items = records({"x": ["a"] * 6 + ["b"] * 5 + ["c"] * 3})
    with caplog.at_level(logging.WARNING, "kinfolk"):
        found = block(items, "key(x)", max_block=5)
    assert found.n_pairs == 15 + 10 + 3
    first, second = (record.getMessage() for record in caplog.records)
    assert "'a' has 6 items and makes 15 pairs" in first and "'b' has 5 items and makes 10 pairs" in second
    caplog.clear()
    assert pairs(block(items, "key(x)", max_block=5, giant="skip")) == [(11, 12), (11, 13), (12, 13)]
    assert "left out" in caplog.text
    caplog.clear()
    block(items, "key(x)", max_block=15)
    assert not caplog.records


def test_giant_blocks_of_two_tables(caplog: pytest.LogCaptureFixture):
    items = records({"x": ["a", "a", "b", "a", "a", "b"]}, first_table=3)
    found = block(items, "key(x)", max_block=3, giant="skip")
    assert pairs(found) == [(2, 5)] and "'a' has 4 items and makes 4 pairs" in caplog.text


def test_too_many_giant_blocks_are_summed_up(caplog: pytest.LogCaptureFixture):
    block(records({"x": list("aabbccddee")}), RareTokens("x"), max_block=1)
    assert not caplog.records
    block(records({"x": list("aaabbbcccdddeee")}), RareTokens("x"), max_block=1)
    assert len(caplog.records) == 4 and "2 more blocks have over 1 pairs each, together 6" in caplog.text


def test_more_pairs_than_allowed():
    with pytest.raises(InputError, match=r"up to 10 pairs \(key\(x\): 10\), where `max_pairs` allows 9"):
        block(records({"x": ["a"] * 5}), "key(x)", max_pairs=9)


@pytest.mark.parametrize("values", [[], ["a"], ["a", "b"], [None, None]])
def test_no_pairs_at_all(values: list[str | None], caplog: pytest.LogCaptureFixture):
    found, report = blocked(records({"x": values}), ["key(x)", "rare(x)"])
    assert found.n_pairs == 0 and report.reduction_ratio == 1.0 and report.pair_completeness is None
    assert "key(x) brings no two items together" in caplog.text and "no candidate pairs" in caplog.text


def test_the_report():
    items = records({"x": ["a", "a", "b", "c"], "y": ["1", "2", "2", "3"]}, clusters=[0, 0, 0, -1])
    _, report = blocked(items, ["key(x)", "key(y)"])
    assert report.reduction_ratio == pytest.approx(1 - 2 / 6) and report.pair_completeness == pytest.approx(2 / 3)
    told = str(report)
    assert told.startswith("2 of 6 pairs are candidates (66.6667% left out), with 2 of 3 true pairs (66.67%)")
    assert re.search(r"key\(x\) +1 +83.3333% +1 +33.33%", told) and re.search(r"all rules +2 ", told)
    unknown = str(blocked(records({"x": ["a", "a"]}), "key(x)")[1])
    assert "true" not in unknown and "key(x)" in unknown


@pytest.mark.parametrize("rule", ["key(street (main))", "key(street main)", "sorted(street (main), 5)"])
def test_a_name_with_signs_in_it_is_told_to_need_quotes(rule: str):
    items = kf.records_from_frames({"id": ["a", "b", "c"], "street (main)": ["Elm", "Elm", "Oak"]})
    with pytest.raises(SettingError, match=r'goes in quotes, as in key\("street \(main\)"\)'):
        kf.Linker(blocking=[rule]).candidates(items)
    assert kf.Linker(blocking=['key("street (main)")']).candidates(items).n_pairs == 1
