"""Every engine answers what memory answers: pairs of blocking, components, clusters and their probabilities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.core.components import components
from kinfolk.core.engine import ROW, Engine
from kinfolk.errors import InputError
from kinfolk.linking.blocking_sql import BlockingTables
from kinfolk.linking.in_engine import cluster_in

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")

FEW = settings(
    deadline=None, max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True
)
PEOPLE = ["key(id_number)", "key(postcode + surname[:2])", "sorted(surname + given_name, 4)"]


def table_of(items: kf.Mentions, rows: Any = None) -> Any:
    columns = {"id": [items.name(k) for k in range(items.n_items)]}
    columns |= {name: list(column.strings()) for name, column in items.columns.items()}
    table = pyarrow.table({name: pyarrow.array(values, "string") for name, values in columns.items()})
    if rows is None:
        return table
    taken = table.take(pyarrow.array(rows, "int64"))
    return taken.set_column(0, "id", pyarrow.array([str(k) for k in range(len(rows))], "string"))


# -- blocking -----------------------------------------------------------------------------------------

STRANGE = [None, "", " ", "Ann", "ann", "O'Neill", "oneill", "Zoë", "zoe", "A-b  c", "b c", "12 a", "—", "x\ty", "ß",
           "ab\n", "a\\b", "Ann b c", "b c d e"]  # fmt: skip
RULES = [
    ["key(name)", "key(name[:2] + city)", "key(city[-2:])"],
    ["key(soundex(name))", "key(digits(name) + first(city))", "key(lower(city), raw)", "key(number)"],
    ["sorted(name, 3)", "rare(name + city, 6)", "key(name[1:3])"],
    ["rare(city, 9, 2)", "sorted(city + name, 4)", "key(name, raw)"],
]


@pytest.mark.parametrize("rules", RULES, ids=" ".join)
def test_blocking_makes_the_pairs_it_makes_in_memory(engine: Engine, rules: list[str]):
    random = np.random.default_rng(len(rules[0]))
    name, city = (random.choice(np.array(STRANGE, object), 60).tolist() for _ in range(2))
    number = random.choice(np.array([None, 1.0, 2.5, 1e20], object), 60).tolist()
    columns = {"id": [f"r{k}" for k in random.permutation(60)], "name": name, "city": city, "number": number}
    types = {"id": "string", "name": "string", "city": "string", "number": "float64"}
    table = pyarrow.table({one: pyarrow.array(columns[one], types[one]) for one in columns})
    engine.read(table, "kf_records", ROW)
    BlockingTables.of(engine, "kf_records", rules, "id").make_keys()
    for first in (None, 25):
        tables = [table] if first is None else [table.slice(0, first), table.slice(first)]
        known = kf.block(kf.records_from_frames(*tables, id="id"), rules)
        blocking = BlockingTables.of(engine, "kf_records", rules, "id", first)
        blocking.make_pairs(10**9)
        found = np.array(engine.rows("SELECT low, high FROM kf_pairs ORDER BY high, low"), np.int64).reshape(-1, 2)
        np.testing.assert_array_equal(found, np.stack([known.left, known.right], axis=1))
        assert len(found), "nothing was compared"


def test_a_rule_beyond_the_limit_is_named_before_it_runs(engine: Engine):
    table = pyarrow.table({"id": [str(k) for k in range(100)], "town": ["x"] * 90 + ["y"] * 10})
    engine.read(table, "kf_records", ROW)
    blocking = BlockingTables.of(engine, "kf_records", ["key(town)"], "id")
    blocking.make_keys()
    with pytest.raises(InputError, match=r"up to 4,050 pairs, where `limit` allows 100; key\(town\): .*'x' 90"):
        blocking.make_pairs(100)


# -- components ---------------------------------------------------------------------------------------


def walked(links: list[tuple[int, int]]) -> dict[int, int]:
    """The smallest node that each node reaches."""
    known = {}
    for node in {node for pair in links if pair[0] != pair[1] for node in pair}:
        reached, edge = {node}, [node]
        while edge:
            one = edge.pop()
            more = {b for a, b in links if a == one} | {a for a, b in links if b == one}
            edge += more - reached
            reached |= more
        known[node] = min(reached)
    return known


def check_components(engine: Engine, links: Any, known: dict[int, int], few: int) -> None:
    ends = np.array(links, np.int64).reshape(-1, 2)
    table = pyarrow.table({"low": ends[:, 0], "high": ends[:, 1]})
    engine.fill("links", table.schema, [table])
    components(engine, "SELECT low, high FROM links", "found", few)
    assert dict(engine.rows("SELECT node, component FROM found")) == known


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=20), st.sampled_from([0, 3, 100]))
@FEW
def test_components_are_those_of_a_walk(engine: Engine, links: list[tuple[int, int]], few: int):
    check_components(engine, links, walked(links), few)


def test_a_chain_of_two_thousand_is_one_component(engine: Engine):
    order = np.random.default_rng(0).permutation(2000)
    chain = np.stack([order[:-1], order[1:]], axis=1)
    check_components(engine, chain, dict.fromkeys(range(2000), 0), 100)


def test_a_hub_and_its_spokes_are_one_component(engine: Engine):
    hub = [(3000, k) for k in range(5, 3000)]
    check_components(engine, hub, dict.fromkeys(range(5, 3001), 5), 0)


# -- clusters -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def linker() -> kf.Linker:
    return kf.Linker(blocking=PEOPLE, training="local", n_jobs=1).fit(kf.generate_customers(400, seed=1))


def check_same(engine: Engine, linker: kf.Linker, table: Any, source: Any = None) -> None:
    known = linker.cluster_frame(table)
    cluster_in(engine, linker, table if source is None else source)
    found = engine.arrow(f"SELECT cluster, probability FROM kf_clusters ORDER BY {ROW}")
    np.testing.assert_array_equal(found.column("cluster").to_numpy(), known.column("cluster").to_numpy())
    np.testing.assert_allclose(
        found.column("probability").to_numpy(), known.column("probability").to_numpy(), atol=1e-6
    )


def test_clusters_of_customers_in_many_runs_of_pairs(
    engine: Engine, linker: kf.Linker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(f"{type(engine).__module__}.PAIRS_AT_A_TIME", 100)
    check_same(engine, linker, table_of(kf.generate_customers(300, seed=2)))


SHAPES = {"nobody": [], "one": [0], "one giant block": [3] * 60}


@pytest.mark.parametrize("rows", SHAPES.values(), ids=SHAPES)
def test_small_and_strange_tables(engine: Engine, linker: kf.Linker, rows: list[int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(linker, "blocking", ["key(surname)"])
    check_same(engine, linker, table_of(kf.generate_customers(300, seed=2), rows))


# -- sources ------------------------------------------------------------------------------------------


def written(table: Any, folder: Path, kind: str) -> str:
    """Files of a table, whose names are in order of its rows, and whose sizes are not."""
    from pyarrow import csv, parquet

    for k, (start, stop) in enumerate([(0, 10), (10, 90), (90, table.num_rows)]):
        part, path = table.slice(start, stop - start), folder / f"part-{k}.{kind}"
        parquet.write_table(part, path) if kind == "parquet" else csv.write_csv(part, path)
    return str(folder / f"*.{kind}")


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_rows_of_a_glob_are_numbered_by_file_and_place(engine: Engine, tmp_path: Path, kind: str):
    values = [f'{k}, "{k}"\nand' if k % 7 else None for k in range(130)]
    table = pyarrow.table({"id": [f"n{k}" for k in range(130)], 'a "name", odd': values})
    engine.read(written(table, tmp_path, kind), "read", ROW)
    found = engine.arrow(f"SELECT * FROM read ORDER BY {ROW}")
    assert found.column_names == [ROW, *table.column_names]
    assert found.column(ROW).to_pylist() == list(range(130))
    assert found.drop_columns([ROW]).to_pylist() == table.to_pylist()


def frames(table: Any) -> dict[str, Any]:
    import pandas
    import polars

    return {"arrow": table, "pandas": pandas.DataFrame(table.to_pydict()), "polars": polars.from_arrow(table),
            "lazy": polars.from_arrow(table).lazy(), "dict": table.to_pydict()}  # fmt: skip


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "lazy", "dict"])
def test_frames_are_read_in_their_order(engine: Engine, kind: str):
    table = pyarrow.table({"name": ["b", None, "a", "ü"], "size": [1.5, 2.0, -1.0, 0.0], "n": [1, 2, 3, 4]})
    engine.read(frames(table)[kind], "read", ROW)
    assert engine.rows(f"SELECT * FROM read ORDER BY {ROW}") == [
        (k, *row.values()) for k, row in enumerate(table.to_pylist())
    ]
    kinds = engine.columns("read")
    assert [engine.is_text(kinds[name]) for name in ("name", "size", "n")] == [True, False, False]


NAN = float("nan")
COLUMNS = {
    "strings": ["a", NAN, None, "b"],
    "nothing first": [NAN, "a", "b", "c"],
    "whole": [1, NAN, 3, None],
    "numbers": [1, 2.5, NAN, None],
    "truth": [True, NAN, None, False],
    "several types": [1, "a", NAN, 2.5],
    "nothing": [NAN, None, None, NAN],
}


@pytest.mark.parametrize("kind", ["lists", "arrays", "pandas", "categories"])
def test_tables_of_python_hold_what_memory_sees(engine: Engine, kind: str):
    """Nothing among strings is NaN as pandas has it; categories are their values."""
    from kinfolk.core.table import frame_table, written

    pandas = pytest.importorskip("pandas")
    columns = {name: np.array(values, object) for name, values in COLUMNS.items()} if kind == "arrays" else COLUMNS
    table: Any = columns if kind in ("lists", "arrays") else pandas.DataFrame(columns)
    if kind == "categories":
        table = table.astype({"strings": "category", "nothing first": "category"})
    engine.read(table, "kf_given", ROW)
    found = frame_table(engine.arrow(f"SELECT * FROM kf_given ORDER BY {ROW}"), "found")
    known = frame_table(table, "known")
    for name in COLUMNS:
        assert written(found.columns[name]()) == written(known.columns[name]()), name
    engine.drop("kf_given")
    with pytest.raises(InputError, match="the column 'odd' holds object, which no engine takes"):
        engine.read({"odd": [object()]}, "kf_given", ROW)
    with pytest.raises(InputError, match="every column must have a value for each row; 'a' has 1, 'b' has 2"):
        engine.read({"a": [1], "b": [1, 2]}, "kf_given", ROW)


def test_a_file_that_is_not_there_is_named(engine: Engine, tmp_path: Path):
    with pytest.raises(InputError, match="there is no file"):
        engine.read(str(tmp_path / "none*.parquet"), "read", ROW)


# -- tables -------------------------------------------------------------------------------------------


def test_tables_are_made_added_to_numbered_and_dropped(engine: Engine):
    engine.fill("numbers", pyarrow.schema([("n", "int64")]), [pyarrow.table({"n": [3, 1]}), pyarrow.table({"n": [2]})])
    engine.add("numbers", "SELECT n + 10 FROM numbers")
    engine.make("numbers", "SELECT n, n * 2 AS twice FROM numbers")
    engine.add("numbers", "SELECT 7, 14")
    engine.number("ordered", "SELECT * FROM numbers", "n DESC", "place")
    assert engine.rows("SELECT place, n, twice FROM ordered ORDER BY place") == [
        (k, n, 2 * n) for k, n in enumerate([13, 12, 11, 7, 3, 2, 1])
    ]
    assert list(engine.columns("ordered")) == ["n", "twice", "place"]
    batches = [batch.to_pydict()["n"] for batch in engine.batches("SELECT n FROM ordered ORDER BY n", 3)]
    assert [n for batch in batches for n in batch] == [1, 2, 3, 7, 11, 12, 13] and max(map(len, batches)) <= 3
    engine.drop("numbers", "ordered", "never_there")
    with pytest.raises(kf.KinfolkError, match="numbers"):
        engine.rows("SELECT * FROM numbers")


@pytest.mark.parametrize("text", ["it's", "a\\b", "a\\'", 'say "x"', "\\d", "", "ü\n\x01"], ids=json.dumps)
def test_a_literal_is_the_string_itself(engine: Engine, text: str):
    assert engine.rows(f"SELECT {engine.literal(text)}") == [(text,)]
