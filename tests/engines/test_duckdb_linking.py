"""Records clustered in DuckDB are clustered as in memory."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.core.arrow_files import read_files
from kinfolk.core.components import components
from kinfolk.engines import duckdb as engines
from kinfolk.engines.duckdb import DuckDB
from kinfolk.errors import InputError, KinfolkError, SettingError
from kinfolk.linking.in_engine import cluster_in

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
pytest.importorskip("duckdb", reason="the engine DuckDB needs duckdb")

RULES = ["key(id_number)", "key(postcode + surname[:2])", "sorted(surname + given_name, 4)"]


@pytest.fixture(scope="module")
def engine(small_duckdb: DuckDB) -> DuckDB:
    return small_duckdb


@pytest.fixture(scope="module")
def linker() -> kf.Linker:
    return kf.Linker(blocking=RULES, training="local", n_jobs=1).fit(kf.generate_customers(400, seed=1))


def table_of(items: kf.Mentions, rows: Any = None) -> Any:
    columns = {"id": [items.name(k) for k in range(items.n_items)]}
    columns |= {name: list(column.strings()) for name, column in items.columns.items()}
    table = pyarrow.table({name: pyarrow.array(values, "string") for name, values in columns.items()})
    return table if rows is None else table.take(rows)


def check_same(engine: DuckDB, linker: kf.Linker, table: Any) -> None:
    known = linker.cluster_frame(table)
    cluster_in(engine, linker, table)
    found = engine.arrow("SELECT cluster, probability FROM kf_clusters ORDER BY kf_row")
    np.testing.assert_array_equal(found.column("cluster").to_numpy(), known.column("cluster").to_numpy())
    np.testing.assert_allclose(
        found.column("probability").to_numpy(), known.column("probability").to_numpy(), atol=1e-9
    )


@pytest.mark.parametrize(
    "clusterer",
    [kf.AverageLink(), kf.AverageLink(0.2), kf.SingleLink(), kf.SingleLink(0.0), kf.SingleLink(0.9), kf.CompleteLink(),
     kf.BestLink(), kf.Correlation(),
     kf.AverageLink(max_size=2)],
    ids=str,
)  # fmt: skip
def test_every_clusterer_makes_the_clusters_it_makes_in_memory(
    engine: DuckDB, linker: kf.Linker, clusterer: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(linker, "clusterer_", clusterer)
    monkeypatch.setattr(engines, "PAIRS_AT_A_TIME", 100)  # so that there are many runs of pairs
    check_same(engine, linker, table_of(kf.generate_customers(300, seed=2)))


SHAPES = {"nobody": [], "one": [0], "the same record, often": [3] * 40, "two alike": [5, 5]}


@pytest.mark.parametrize("rows", SHAPES.values(), ids=SHAPES)
def test_small_and_strange_tables(engine: DuckDB, linker: kf.Linker, rows: list[int]):
    table = table_of(kf.generate_customers(300, seed=2), pyarrow.array(rows, "int64"))
    table = table.set_column(0, "id", pyarrow.array([str(k) for k in range(len(rows))], "string"))
    check_same(engine, linker, table)


def test_files_of_a_glob_are_one_table(engine: DuckDB, linker: kf.Linker, tmp_path: Any):
    from pyarrow import parquet

    table = table_of(kf.generate_customers(120, seed=3))
    for k, start in enumerate(range(0, 120, 50)):
        parquet.write_table(table.slice(start, 50), tmp_path / f"part-{k}.parquet")
    cluster_in(engine, linker, str(tmp_path / "*.parquet"))
    found = engine.arrow("SELECT cluster FROM kf_clusters ORDER BY kf_row").column(0).to_numpy()
    np.testing.assert_array_equal(found, linker.cluster_frame(table).column("cluster").to_numpy())


def test_what_looks_beyond_a_pair_is_refused(engine: DuckDB):
    items = kf.generate_customers(200, seed=1)
    model = kf.Linker(blocking=RULES, n_jobs=1, training="ranking").fit(items)
    with pytest.raises(KinfolkError, match="training must be 'local' or 'structured' in an engine"):
        cluster_in(engine, model, table_of(items))


@pytest.mark.parametrize("rules", [None, ["always(id_number)"]])
def test_closure_is_told_once_of_all_candidates_as_in_memory(
    engine: DuckDB, rules: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(engines, "PAIRS_AT_A_TIME", 50)
    model = kf.Linker(blocking=["key(postcode)", "key(date_of_birth)"], training="local", rules=rules, n_jobs=1)
    model.fit(kf.generate_customers(400, seed=1))
    told = []
    for where in (None, engine):
        with caplog.at_level("INFO", "kinfolk"):
            model.set_params(engine=where).cluster_frame(table_of(kf.generate_customers(300, seed=2)))
        told.append([line for one in caplog.records if "that blocking left out" in (line := one.getMessage())])
        caplog.clear()
    assert told[0] == told[1] and len(told[0]) == 1 and "% more" in told[0][0]


def test_the_best_of_all_candidates_is_known_to_every_run(engine: DuckDB, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engines, "PAIRS_AT_A_TIME", 100)
    features = ["best_of(tfidf_cosine(surname + given_name))", "best_of(tfidf_cosine(address))", "exact(postcode)"]
    model = kf.Linker(features, blocking=RULES, n_jobs=1, clusterer=kf.AverageLink())
    check_same(engine, model.fit(kf.generate_customers(200, seed=1)), table_of(kf.generate_customers(300, seed=2)))


def test_a_file_without_a_byte_is_told_as_in_memory(engine: DuckDB, linker: kf.Linker, tmp_path: Any):
    (tmp_path / "none.csv").touch()
    said = "none.csv: no columns: expected a line with their names, found nothing"
    with pytest.raises(InputError, match=said):
        cluster_in(engine, linker, str(tmp_path / "none.csv"))
    for read in (kf.read_records, read_files):
        with pytest.raises(InputError, match=said):
            read(str(tmp_path / "none.csv"))


@pytest.mark.parametrize("size", ["lots", "12", "5 apples", "", 7])
def test_a_limit_of_memory_that_is_no_size_is_refused_at_once(size: Any):
    with pytest.raises(SettingError, match="memory_limit must be such as '500MB'"):
        DuckDB(memory_limit=size)


@pytest.mark.parametrize("size", [None, "500MB", "1.5 GiB", "2gb", "1 gigabyte", "1000000 bytes"])
def test_sizes_are_those_that_duckdb_reads(size: Any):
    with DuckDB(memory_limit=size, threads=1) as made:
        assert made.rows("SELECT 1") == [(1,)]


def test_an_engine_that_nobody_closes_ends_without_a_word(tmp_path: Any):
    code = (
        "from kinfolk.engines.duckdb import DuckDB\n"
        f"one, two = DuckDB(temp_directory={str(tmp_path)!r}), DuckDB(temp_directory={str(tmp_path)!r})\n"
        "for each in (one, two): each.make('t', 'SELECT 1 AS a')\n"
        "del one\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "") and not list(tmp_path.iterdir())


def test_a_file_that_is_not_there_is_named(engine: DuckDB, linker: kf.Linker, tmp_path: Any):
    with pytest.raises(KinfolkError, match="there is no file"):
        cluster_in(engine, linker, str(tmp_path / "none.parquet"))


# -- components ---------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=20))
@settings(deadline=None, max_examples=40)
def test_components_are_those_of_a_walk(engine: DuckDB, links: list[tuple[int, int]]):
    table = pyarrow.table({"low": pyarrow.array([a for a, _ in links], "int64"),
                           "high": pyarrow.array([b for _, b in links], "int64")})  # fmt: skip
    engine.fill("links", table.schema, [table])
    components(engine, "SELECT low, high FROM links", "found")
    known = {}
    nodes = {node for a, b in links if a != b for node in (a, b)}
    for node in sorted(nodes):
        reached, edge = {node}, [node]
        while edge:
            one = edge.pop()
            more = {b for a, b in links if a == one} | {a for a, b in links if b == one}
            edge += more - reached
            reached |= more
        known[node] = min(reached)
    assert dict(engine.rows("SELECT node, component FROM found")) == known


@pytest.mark.parametrize("seed", [None, 0])
def test_a_chain_of_two_thousand_is_one_component(engine: DuckDB, seed: int | None):
    order = np.arange(2000) if seed is None else np.random.default_rng(seed).permutation(2000)
    table = pyarrow.table({"low": order[:-1], "high": order[1:]})
    engine.fill("links", table.schema, [table])
    components(engine, "SELECT low, high FROM links", "found")
    assert engine.rows("SELECT count(*), max(component) FROM found") == [(2000, 0)]
