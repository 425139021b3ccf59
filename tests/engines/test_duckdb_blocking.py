"""Blocking in DuckDB makes the pairs that blocking in memory makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.core.engine import ROW
from kinfolk.engines.duckdb import DuckDB
from kinfolk.errors import InputError
from kinfolk.linking.blocking_sql import BlockingTables

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
pytest.importorskip("duckdb", reason="the engine DuckDB needs duckdb")

VALUES = st.one_of(
    st.none(),
    st.sampled_from(
        ["", " ", "Ann", "ann", "O'Neill", "oneill", "Zoë", "zoe", "A-b  c", "b c", "12 a", "—", "x\ty", "ß"]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=0x17F), max_size=6),
)
RULES = [
    "key(name)",
    "key(name[:2] + city)",
    "key(city[-2:])",
    "key(name[1:3])",
    "key(soundex(name))",
    "key(digits(name) + first(city))",
    "key(last(city)[:1])",
    "key(name[:-1])",
    "key(name, raw)",
    "key(lower(city), raw)",
    "key(number)",
    "sorted(name, 3)",
    "sorted(city + name, 4)",
    "rare(name + city, 4)",
    "rare(city, 5, 2)",
]


@pytest.fixture(scope="module")
def engine(small_duckdb: DuckDB) -> DuckDB:
    return small_duckdb


def pairs_in(engine: DuckDB, table: Any, rules: list[str], first: int | None = None) -> np.ndarray:
    engine.read(table, "kf_records", ROW)
    blocking = BlockingTables.of(engine, "kf_records", rules, "id", first)
    blocking.make_keys()
    blocking.make_pairs(10**9)
    return np.array(engine.rows("SELECT low, high FROM kf_pairs ORDER BY high, low"), np.int64).reshape(-1, 2)


@given(
    st.lists(st.tuples(VALUES, VALUES, st.one_of(st.none(), st.sampled_from([1.0, 2.5, 1e20]))), max_size=14),
    st.lists(st.sampled_from(RULES), min_size=1, max_size=3, unique=True),
    st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_the_same_pairs_as_in_memory(engine: DuckDB, rows: list[Any], rules: list[str], random: Any):
    ids = [f"r{k}" for k in range(len(rows))]
    random.shuffle(ids)
    columns = {"id": ids, **{name: [row[k] for row in rows] for k, name in enumerate(("name", "city", "number"))}}
    types = {"id": "string", "name": "string", "city": "string", "number": "float64"}
    table = pyarrow.table({name: pyarrow.array(columns[name], types[name]) for name in columns})
    for first in (None, len(rows) // 2):
        if first is None:
            items = kf.records_from_frames(table, id="id")
        else:
            items = kf.records_from_frames(table.slice(0, first), table.slice(first), id="id")
        known = kf.block(items, rules)
        found = pairs_in(engine, table, rules, first)
        np.testing.assert_array_equal(found, np.stack([known.left, known.right], axis=1))


def test_what_a_rule_would_make_is_told_before_it_does(engine: DuckDB):
    table = pyarrow.table({"id": [str(k) for k in range(100)], "town": ["x"] * 90 + ["y"] * 10})
    engine.read(table, "kf_records", ROW)
    blocking = BlockingTables.of(engine, "kf_records", ["key(town)"], "id")
    blocking.make_keys()
    (one,) = blocking.blocks()
    assert one.n_pairs == 90 * 89 // 2 + 45 and one.largest == (("x", 90), ("y", 10))
    with pytest.raises(InputError, match=r"up to 4,050 pairs, where `limit` allows 100; key\(town\): .*'x' 90"):
        blocking.make_pairs(100)


def test_a_rule_that_reads_no_column_there_is_says_so(engine: DuckDB):
    engine.read(pyarrow.table({"id": ["a"]}), "kf_records", ROW)
    with pytest.raises(InputError, match="reads the column 'town'; the records have 'id'"):
        BlockingTables.of(engine, "kf_records", ["key(town)"], "id")
