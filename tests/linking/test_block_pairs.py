"""Pairs of whole blocks beside all pairs, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kinfolk.core.engine import ROW
from kinfolk.linking import block_pairs
from kinfolk.linking.block_pairs import PairsOfBlocks

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")

KEYS = st.one_of(st.none(), st.integers(1, 3), st.just(2**64 - 1))
Record = tuple[int, int | None, int | None]  # unit, keys of two rules before


def one_by_one(rows: Sequence[int], records: Sequence[Record], first: int | None, base: int) -> list[tuple[int, int]]:
    found = []
    for (a, one), (b, other) in combinations(sorted(zip(rows, records, strict=True)), 2):
        crossing = a < first <= b if first is not None else b >= base
        known = any(x is not None and x == y for x, y in zip(one[1:], other[1:], strict=True))
        if one[0] == other[0] and crossing and not known:
            found.append((a, b))
    return found


@given(
    st.lists(st.tuples(st.sampled_from([5, 7, 2**63 + 1]), KEYS, KEYS), max_size=30),
    st.one_of(st.none(), st.integers(0, 12)),
    st.integers(0, 12),
    st.sampled_from([1, 3, 1000]),
    st.randoms(use_true_random=False),
)
@example([(5, None, None)] * 4, None, 4, 1000, Random(0))  # the second record is the first that is not of the base
@example([(5, None, None)] * 4, 4, 0, 1000, Random(0))  # or of the first table
@settings(deadline=None, max_examples=50)
def test_pairs_are_those_found_one_by_one(
    records: list[Record], first: int | None, base: int, at_once: int, random: object
) -> None:
    rows = [3 * k + 1 for k in range(len(records))]
    random.shuffle(rows)  # type: ignore[attr-defined]
    columns = {name: [one[k] for one in records] for k, name in enumerate(("unit", "k0", "k1"))}
    table = pyarrow.table({ROW: pyarrow.array(rows, "int64")}
                          | {name: pyarrow.array(values, "uint64") for name, values in columns.items()})  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_pairs, "AT_ONCE", at_once)
        pieces = list(PairsOfBlocks(("k0", "k1"), first, 0 if first is not None else base)(table))
    found = [(a, b) for one in pieces for a, b in zip(*(column.to_pylist() for column in one.columns), strict=True)]
    assert sorted(found) == one_by_one(rows, records, first, base)
    assert all(one.num_rows for one in pieces)


def test_a_block_larger_than_what_is_looked_at_together_comes_in_pieces() -> None:
    n = 1500
    table = pyarrow.table({ROW: np.arange(n), "unit": np.full(n, 4)})
    pieces = list(PairsOfBlocks(())(table))
    assert len(pieces) == 2 and sum(one.num_rows for one in pieces) == n * (n - 1) // 2
