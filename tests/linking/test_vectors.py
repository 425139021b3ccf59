"""Vectors that a user brings, and fields with several values, beside plain loops; from lists, arrays, frames, files."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.comparisons import default_comparisons, parse_comparison, rebuilt_comparison
from kinfolk.linking.nested import SEPARATOR

NUMBER = st.floats(-3, 3, width=32)
VECTORS = st.integers(1, 4).flatmap(
    lambda d: st.lists(st.none() | st.lists(NUMBER, min_size=d, max_size=d), max_size=6)
)
LISTS = st.lists(
    st.none() | st.lists(st.sampled_from(["ann", "Ann", "anna", "bob", "b o b", ""]), max_size=3), max_size=6
)


def table(**columns: Any) -> kf.Mentions:
    n, none = len(next(iter(columns.values()))), np.empty(0, np.int32)
    return kf.Mentions(columns, np.zeros(n, np.int32), none, none, names=[f"r{k}" for k in range(n)])


def every_answer(feature: Any, items: kf.Mentions) -> Any:
    n = items.n_items
    left, right = (side.reshape(-1).astype(np.int32) for side in np.indices((n, n)))
    return feature.of(items)(left, right).reshape(n, n)


# -- vectors ------------------------------------------------------------------------------------------


def cosine(a: Any, b: Any) -> float:
    if a is None or b is None or not any(a) or not any(b):
        return math.nan
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(x * x for x in b))


@given(VECTORS)
def test_cosines_are_those_of_a_loop_whatever_the_vectors_came_as(vectors: list[Any]):
    wanted = [[cosine(a, b) for b in vectors] for a in vectors]
    texts = [None if one is None else " ".join(map(repr, one)) for one in vectors]
    d = next((len(one) for one in vectors if one), 1)
    array = np.array([[math.nan] * d if one is None else one for one in vectors]).reshape(len(vectors), d)
    for column in (vectors, texts, array):
        found = every_answer(kf.Cosine("v"), table(v=column))
        np.testing.assert_allclose(found, np.array(wanted).reshape(found.shape), atol=1e-6)


def test_vectors_of_different_lengths_are_told_with_the_record():
    with pytest.raises(InputError, match=r"'r0' has 2 of them, record 'r2' has 3; vectors must be of one length"):
        table(v=[[1.0, 2.0], None, [1.0, 2.0, 3.0]])
    with pytest.raises(InputError, match=r"'r1' has 1"):
        kf.Cosine("v").of(table(v=["[1, 2]", "(3)"]))
    with pytest.raises(InputError, match=r"'v' of 'r1' is no vector: expected numbers"):
        kf.Cosine("v").of(table(v=["1 2", "1 zwei"]))
    with pytest.raises(InputError, match="one number a record"):
        kf.Cosine("v").of(table(v=[1.0, 2.0]))
    with pytest.raises(InputError, match="shape"):
        table(v=np.zeros((2, 2, 2)))


def test_a_model_knows_how_long_its_vectors_are():
    feature = kf.Cosine("v").learn(table(v=[[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(InputError, match=r"vectors of training have 2 numbers; these have 3"):
        feature.of(table(v=[[1.0, 2.0, 3.0]]))


def test_other_comparisons_of_vectors_are_refused_with_the_one_there_is():
    for text in ("exact(v)", "number_difference(v)", "tfidf_cosine(v, 3)", "rarity(v)"):
        with pytest.raises(InputError, match=r"holds vectors, which only cosine\(v\) compares"):
            parse_comparison(text).of(table(v=[[1.0, 2.0], [2.0, 1.0]]))


def shop() -> dict[str, Any]:
    """Two records a thing: its vector with noise, and a list of codes of which they share one."""
    rng = np.random.default_rng(0)
    things = rng.normal(size=(40, 8))
    rows = np.repeat(things, 2, axis=0) + 0.1 * rng.normal(size=(80, 8))
    codes = [[f"code {k // 2}", f"other {k}"][:: 1 - 2 * (k % 2)] for k in range(80)]
    return {"id": [f"x{k}" for k in range(80)], "thing": [k // 2 for k in range(80)],
            "v": rows.astype(np.float32), "code": codes}  # fmt: skip


@pytest.mark.parametrize("library", ["lists", "pandas", "polars", "polars arrays", "arrow"])
def test_frames_with_vectors_and_lists(library: str, tmp_path: Path):
    given = shop()
    lists = {**given, "v": given["v"].tolist()}
    frame: Any = given
    if library == "pandas":
        frame = pytest.importorskip("pandas").DataFrame(lists)
    elif library.startswith("polars"):
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame(lists)
        if library == "polars arrays":
            frame = frame.with_columns(polars.col("v").cast(polars.Array(polars.Float32, 8)))
    elif library == "arrow":
        frame = pytest.importorskip("pyarrow").table(lists)
    items = kf.records_from_frames(frame, cluster="thing")
    assert np.asarray(items.columns["v"]).shape == (80, 8)
    np.testing.assert_allclose(np.asarray(items.columns["v"]), given["v"], rtol=1e-6)
    linker = kf.Linker(training="local", n_jobs=1).fit(items)
    names = {feature.columns[0].name for feature in linker.pair_set_.features}
    assert {"cosine(v)", "any_of(exact(code))"} <= names
    assert linker.score(items) == 1.0
    assert "v: [" in str(linker.explain(items, 0, 1)) and "code 0; other 0" in str(linker.explain(items, 0, 1))
    linker.save(tmp_path / "m")
    again = kf.load_model(tmp_path / "m")
    part = items.take(np.arange(30))
    np.testing.assert_array_equal(again.predict_proba(part), linker.predict_proba(part))


def test_two_tables_of_which_one_has_lists():
    first = {"id": ["a"], "phone": [["1", "2"]]}
    items = kf.records_from_frames(first, {"id": ["b", "c"], "phone": ["2", None]})
    assert items.columns["phone"].strings() == [f"1{SEPARATOR}2", "2", None]  # type: ignore[union-attr]
    assert every_answer(kf.AnyOf(kf.Exact("phone")), items)[0, 1] == 1.0


# -- several values -------------------------------------------------------------------------------------


@given(LISTS)
@pytest.mark.parametrize("text", ["exact(f)", "exact(f, raw)", "jaro_winkler(f)", "edit(f)", "tfidf_cosine(f, 2)"])
def test_the_best_over_all_pairs_of_values(text: str, lists: list[Any]):
    values = [[one for one in row or [] if one] for row in lists]
    distinct = sorted({one for row in values for one in row})
    items = table(f=[SEPARATOR.join(row) or None for row in values]) if not any(lists) else table(f=lists)
    feature = kf.AnyOf(parse_comparison(text).learn(table(f=distinct)))
    alone = every_answer(feature.comparison, table(f=distinct))
    found = every_answer(feature, items)
    for i, j in itertools.product(range(len(values)), repeat=2):
        pairs = [alone[distinct.index(a), distinct.index(b)] for a in values[i] for b in values[j]]
        known = [one for one in pairs if not math.isnan(one)]
        assert (found[i, j] == max(known)) if known else math.isnan(found[i, j])


def test_of_differences_the_smallest_and_of_rarities_the_rarest():
    years = table(f=["1990; 2000", "1999;1950"])
    assert every_answer(parse_comparison("any_of(number_difference(f), ;)"), years)[0, 1] == 1.0
    common = [["common"]] * 8
    names = table(f=[["common", "rare"], ["rare", "common"], *common])
    levels = every_answer(kf.AnyOf(kf.Rarity("f")).learn(names), names)
    assert levels[0, 1] > levels[0, 2] > 1 and levels.dtype == np.uint8
    assert every_answer(kf.AnyOf(kf.Rarity("f")), table(f=[["a"], ["b"], None]))[0].tolist() == [2, 1, 0]


FORMS = ["any_of(exact(f))", "any_of(exact(f), ;)", "any_of(token_overlap(f, containment), |)", "cosine(f)",
         "any_of(tfidf_cosine(f, 3))", "best_of(any_of(edit(f)))", "any_of(rarity(f, raw))"]  # fmt: skip


@pytest.mark.parametrize("text", FORMS)
def test_written_forms_and_model_files(text: str):
    feature = parse_comparison(text)
    assert parse_comparison(feature.columns[0].name) == feature
    again = rebuilt_comparison(json.loads(json.dumps(feature.spec())), {})
    assert again == feature and again.columns == feature.columns


@pytest.mark.parametrize(
    "text", ["any_of()", "any_of(f)", "any_of(best_of(exact(f)))", "any_of(tfidf_cosine(f + g))", "any_of(cosine(f))"]
)
def test_what_cannot_be_read(text: str):
    with pytest.raises(SettingError):
        parse_comparison(text)


def test_lists_are_compared_by_the_best_value_by_default():
    items = table(alias=[["Ann Lee", "A. Lee"], ["Bob"], ["Cy", "Dee Doe"], None], town=["a", "b", "c", "d"])
    names = [feature.columns[0].name for feature in default_comparisons(items)]
    assert {"any_of(exact(alias))", "any_of(jaro_winkler(alias))", "exact(town)"} <= {*names}
    with pytest.raises(InputError, match="lists of texts"):
        table(f=[["a"], [{"b": 1}]])
