"""How a pair compares with the other candidates of its items, beside a reference that looks at them one by one."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.core.data import Column
from kinfolk.errors import SettingError
from kinfolk.linking import comparisons as best_of
from kinfolk.linking.comparisons import (
    BestOf,
    Exact,
    JaroWinkler,
    PairFunction,
    TfidfCosine,
    as_comparisons,
    default_comparisons,
    parse_comparison,
    rebuilt_comparison,
)
from kinfolk.linking.coreference import CoreferencePairs
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import Answer, PairColumn, PairFeature

NAN = math.nan


class Told(PairFeature):
    """A comparison whose answers are a table."""

    columns = (PairColumn("told"),)

    def __init__(self, table: Any) -> None:
        self.table = np.asarray(table, np.float64)

    def of(self, items: Mentions) -> Answer:
        return lambda left, right: self.table[left, right][:, None]

    def spec(self) -> dict[str, Any]:
        return {"comparison": "Told"}


def bare(n: int, pairs: list[tuple[int, int]]) -> Mentions:
    none = Mentions({}, np.zeros(n, np.int32), [], [])
    return none.with_pairs([a for a, _ in pairs], [b for _, b in pairs])


def symmetric(n: int, values: dict[tuple[int, int], float]) -> Any:
    table = np.full((n, n), NAN)
    for (a, b), value in values.items():
        table[a, b] = table[b, a] = value
    return table


def slow(table: Any, pairs: list[tuple[int, int]], a: int, b: int) -> tuple[float, float]:
    """The gaps below the best candidate of a and of b: the smaller, then the larger; NaN for a pair without value."""
    value = float(table[a, b])
    if math.isnan(value):
        return NAN, NAN
    gaps = []
    for item in (a, b):
        others = [float(table[pair]) for pair in pairs if item in pair]
        known = [other for other in others if not math.isnan(other)]
        gaps.append(min(0.0, value - max(known)) if known else 0.0)
    return max(gaps), min(gaps)


def all_gaps(feature: PairFeature, items: Mentions) -> Any:
    n = items.n_items
    left, right = (side.reshape(-1).astype(np.int32) for side in np.indices((n, n)))
    apart = left != right
    found = feature.of(items)(left[apart], right[apart])
    assert found.shape == (n * (n - 1), 2) and found.dtype == np.float64
    return left[apart], right[apart], found


@st.composite
def tables(draw: Any) -> tuple[int, Any, list[tuple[int, int]]]:
    n = draw(st.integers(0, 6))
    every = [(a, b) for b in range(n) for a in range(b)]
    values = st.sampled_from([NAN, 0.0, 0.25, 0.5, 1.0, -2.0])
    table = symmetric(n, {pair: draw(values) for pair in every})
    return n, table, [pair for pair in every if draw(st.booleans())]


@given(tables())
def test_beside_the_reference(drawn: tuple[int, Any, list[tuple[int, int]]]):
    """Candidates and others, either way round, with missing values and items without candidates."""
    n, table, pairs = drawn
    left, right, found = all_gaps(BestOf(Told(table)), bare(n, pairs))
    expected = [slow(table, pairs, int(a), int(b)) for a, b in zip(left, right, strict=True)]
    np.testing.assert_array_equal(found, np.array(expected).reshape(-1, 2))


def test_by_hand():
    """0-1 is the best match of both; 0-2 of 2 alone; 1-2 of neither, so it is the worst in both columns."""
    table = symmetric(3, {(0, 1): 0.9, (0, 2): 0.6, (1, 2): 0.1})
    items = bare(3, [(0, 1), (0, 2), (1, 2)])
    found = BestOf(Told(table)).of(items)(items.left, items.right)
    np.testing.assert_allclose(found, [[0, 0], [0, 0.6 - 0.9], [0.1 - 0.6, 0.1 - 0.9]])


def test_missing_values():
    table = symmetric(4, {(0, 1): NAN, (0, 2): 0.5, (1, 2): NAN, (1, 3): NAN})
    items = bare(4, [(0, 1), (0, 2), (1, 2), (1, 3)])
    found = BestOf(Told(table)).of(items)(items.left, items.right)
    np.testing.assert_array_equal(found, [[NAN, NAN], [0, 0], [NAN, NAN], [NAN, NAN]])


def test_a_pair_that_is_no_candidate():
    """It has no part in what is the best, and cannot be better than that; without candidates an item has no best."""
    table = symmetric(4, {(0, 1): 0.4, (0, 2): 0.9, (1, 2): 0.3, (2, 3): 0.2, (0, 3): 0.7})
    items = bare(4, [(0, 1), (1, 2)])
    gaps = BestOf(Told(table)).of(items)
    asked = np.array([(0, 1), (0, 2), (2, 3), (0, 3)], np.int32)
    found = gaps(asked[:, 0], asked[:, 1])
    np.testing.assert_allclose(found, [[0, 0], [0, 0], [0, 0.2 - 0.3], [0, 0]], atol=1e-15)
    np.testing.assert_array_equal(gaps(asked[:, 1], asked[:, 0]), found)
    alone = BestOf(Told(table)).of(bare(4, []))
    np.testing.assert_array_equal(alone(asked[:, 0], asked[:, 1]), np.zeros((4, 2)))
    assert alone(asked[:0, 0], asked[:0, 1]).shape == (0, 2)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    table = np.round(rng.random((12, 12)), 1)
    table = np.maximum(table, table.T)
    table[3] = table[:, 3] = NAN
    items = bare(12, [(a, b) for b in range(12) for a in range(b) if rng.random() < 0.5])
    *_, whole = all_gaps(BestOf(Told(table)), items)
    monkeypatch.setattr(best_of, "CHUNK", 7)
    np.testing.assert_array_equal(all_gaps(BestOf(Told(table)), items)[2], whole)


def test_of_a_real_comparison():
    names = Column.from_strings(["anna bell", "anna bell", "anna ball", None, "carl"])
    items = Mentions({"name": names}, np.zeros(5, np.int32), [], []).with_pairs([0, 0, 1, 0, 3], [1, 2, 2, 3, 4])
    inner = TfidfCosine("name")
    table = inner.of(items)(*(side.reshape(-1) for side in np.indices((5, 5), dtype=np.int32))).reshape(5, 5)
    pairs = list(zip(items.left.tolist(), items.right.tolist(), strict=True))
    left, right, found = all_gaps(BestOf(inner), items)
    expected = [slow(table, pairs, int(a), int(b)) for a, b in zip(left, right, strict=True)]
    np.testing.assert_allclose(found, expected)


# -- how it is written --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("best_of(tfidf_cosine(name))", TfidfCosine("name")),
        (" Best-Of ( tfidf_cosine(name + city, 3) ) ", TfidfCosine(["name", "city"], 3)),
        ("best_of(jaro_winkler(name, raw))", JaroWinkler("name", normalise=False)),
        ("best_of(exact:name)", Exact("name")),
    ],
)
def test_round_trips(text: str, inner: Any):
    feature = parse_comparison(text)
    assert feature == BestOf(inner) and hash(feature) == hash(BestOf(inner))
    assert [column.name for column in feature.columns] == [f"best_of({inner.name})", f"best_of({inner.name}), both"]
    assert parse_comparison(feature.columns[0].name) == feature
    again = rebuilt_comparison(json.loads(json.dumps(feature.spec())), {})
    assert again == feature and again.columns == feature.columns and again.spec() == feature.spec()
    assert eval(repr(feature), {kind.__name__: kind for kind in (BestOf, TfidfCosine, JaroWinkler, Exact)}) == feature


def test_it_is_not_what_it_stands_around():
    assert BestOf(Exact("a")) != Exact("a") and BestOf(Exact("a")) != BestOf(Exact("b"))
    both = as_comparisons(["tfidf_cosine(name)", "best_of(tfidf_cosine(name))"])
    assert len({column.name for feature in both for column in feature.columns}) == 3
    with pytest.raises(SettingError, match=r"two comparisons are named 'best_of\(exact\(a\)\)'"):
        as_comparisons(["best_of(exact(a))", BestOf(Exact("a"))])


def test_a_function_is_given_again():
    feature = BestOf(PairFunction(max, "age", "larger"))
    assert rebuilt_comparison(json.loads(json.dumps(feature.spec())), {"larger": max}) == feature


@pytest.mark.parametrize("wrong", ["tfidf_cosine(name)", None, BestOf(Exact("a")), CoreferencePairs()])
def test_what_it_cannot_stand_around(wrong: Any):
    with pytest.raises(SettingError, match="BestOf takes a comparison of one number"):
        BestOf(wrong)


@pytest.mark.parametrize("text", ["best_of()", "best_of(name)", "best_of(best_of(exact(a)))", "best_of"])
def test_what_cannot_be_read(text: str):
    with pytest.raises(SettingError):
        parse_comparison(text)


# -- where it is used ---------------------------------------------------------------------------------


def two_tables() -> Mentions:
    names = ["anna bell", "bert cole", "carl dean", "dora eck", "emil fox"]
    typos = ["anna bel", "bert cole jr", "carl deen", "dora eck", "emil fax"]
    items = Mentions(
        {"name": Column.from_strings([*names, *typos])}, np.zeros(10, np.int32), [], [],
        clusters=[*range(5), *range(5)], first_table=5,
    )  # fmt: skip
    return kf.block(items)


def test_two_tables_have_it_by_default():
    items = two_tables()
    chosen = default_comparisons(items)
    assert BestOf(TfidfCosine(["name"])) in chosen and BestOf(TfidfCosine(["name"], 3)) in chosen
    one = Mentions(items.columns, items.groups, [], [])
    assert not any(isinstance(feature, BestOf) for feature in default_comparisons(one))


def test_a_linker_keeps_it(tmp_path: Any):
    items = two_tables()
    told = kf.Linker(["best_of(tfidf_cosine(name, 3))"], training="local", n_jobs=1).fit(items)
    told.save(tmp_path / "m.kinfolk")
    loaded = kf.load_model(tmp_path / "m.kinfolk")
    np.testing.assert_array_equal(loaded.predict_proba(items), told.predict_proba(items))
    assert [column.name for column in loaded.pair_set_.columns] == [
        "best_of(tfidf_cosine(name, 3))",
        "best_of(tfidf_cosine(name, 3)), both",
    ]
    p, true = told.predict_proba(items), items.pair_labels == 1
    assert (p[true] == p.max()).all() and p[~true].mean() < p.max() / 2, "true pairs are the best of both items"
