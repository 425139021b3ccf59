"""The values of fields, as they are compared, beside dictionaries and loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.core.data import Column
from kinfolk.linking import pairs
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import distinct_pairs, entities_of, joint_codes, number_codes, texts_of

CODES = st.integers(-1, 3)


def items(n: int, clusters: Sequence[int] | None = None, **columns: Column) -> Mentions:
    none = np.empty(0, np.int32)
    return Mentions(columns, np.zeros(n, np.int32), none, none, clusters=clusters)  # type: ignore[arg-type]


@given(st.lists(CODES, max_size=8))
def test_items_of_a_cluster_are_one_entity_and_others_are_alone(clusters: list[int]) -> None:
    found = entities_of(items(len(clusters), clusters)).tolist()
    for i, one in enumerate(found):
        for j, other in enumerate(found):
            assert (one == other) == (i == j or clusters[i] == clusters[j] >= 0)
    assert entities_of(items(len(clusters))).tolist() == [*range(len(clusters))]


@given(st.lists(st.tuples(CODES, CODES, CODES), max_size=20))
def test_combinations_of_codes_are_numbered_as_they_appear(rows: list[tuple[int, ...]]) -> None:
    numbers: dict[tuple[int, ...], int] = {}
    wanted = [-1 if max(row) < 0 else numbers.setdefault(row, len(numbers)) for row in rows]
    table = np.array(rows, np.int32).reshape(-1, 3)
    assert joint_codes([*table.T]).tolist() == wanted


@given(st.lists(st.sampled_from([np.nan, 0.0, -1.5, 2.0, 1e300]), max_size=8))
def test_numbers_have_the_code_of_their_value_and_missing_ones_none(values: list[float]) -> None:
    codes, distinct = number_codes(np.array(values))
    assert distinct.tolist() == sorted({value for value in values if value == value})
    assert [None if code < 0 else distinct[code] for code in codes] == [v if v == v else None for v in values]


PLACES = st.sampled_from([0, 1, 7, 1 << 16, (1 << 16) + 7, (1 << 31) - 1])


@given(st.lists(st.tuples(PLACES, PLACES), max_size=12))
def test_each_distinct_pair_is_compared_once(asked: list[tuple[int, int]]) -> None:
    a, b = np.array(asked, np.int32).reshape(-1, 2).T
    calls = []

    def compare(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        calls.append([*zip(p.tolist(), q.tolist(), strict=True)])
        return p * 3.0 + q

    assert distinct_pairs(a, b, compare).tolist() == [3.0 * p + q for p, q in asked]
    assert calls == ([sorted(set(asked))] if asked else [])


def test_texts_put_together_are_of_the_columns_that_are_there_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number that tells a column apart may come back, of another, once the column is gone."""
    monkeypatch.setattr(pairs, "id", lambda column: 7, raising=False)
    first, one, other = (Column.from_strings(values) for values in (["a", "b"], ["c", "d"], ["e", None]))
    assert [*texts_of(items(2, f=first, g=one), ["f", "g"]).values] == ["a c", "b d"]
    assert [*texts_of(items(2, f=first, g=other), ["f", "g"]).values] == ["a e", "b"]
