"""`Linker` with the engine Spark: DataFrames and files in and out, new records beside a base, samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf
from kinfolk.engines.spark import Spark
from kinfolk.errors import InputError
from kinfolk.linking.engine_sample import sample_records

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet files need pyarrow")
pytestmark = pytest.mark.spark
N_BASE = 150


@pytest.fixture(scope="module")
def engine(spark_session: Any) -> Any:
    with Spark(spark_session) as made:
        yield made


@pytest.fixture(scope="module")
def linker() -> kf.Linker:
    rules = ["key(postcode)", "key(surname)"]
    return kf.Linker(blocking=rules, training="local", n_jobs=1).fit(kf.generate_customers(400, seed=1))


@pytest.fixture(scope="module")
def table() -> Any:
    items = kf.generate_customers(200, seed=2)
    columns: dict[str, Any] = {"id": list(range(items.n_items))}
    columns |= {name: list(column.strings()) for name, column in items.columns.items()}
    return pyarrow.table(columns)


def check_same(known: Any, found: Any) -> None:
    assert found.column_names == known.column_names
    for name in known.column_names:
        if name == "probability":
            np.testing.assert_allclose(*(one.column(name).to_numpy() for one in (found, known)), atol=1e-6)
        else:
            assert found.column(name).to_pylist() == known.column(name).to_pylist(), name


def test_data_frames_come_back_as_data_frames_of_their_session(
    linker: kf.Linker, engine: Spark, table: Any, spark_session: Any
):
    known = linker.set_params(engine=None).cluster_frame(table, named_by="id")
    frame = spark_session.createDataFrame(table)
    found = linker.set_params(engine=engine).cluster_frame(frame, named_by="id")
    assert isinstance(found, type(frame)) and found.sparkSession is spark_session
    check_same(known, found.toArrow().sort_by("id"))


def test_files_of_a_glob_become_parquet_in_their_order(linker: kf.Linker, engine: Spark, table: Any, tmp_path: Path):
    for k, start in enumerate(range(0, 200, 90)):
        parquet.write_table(table.slice(start, 90), tmp_path / f"{k}.parquet")
    target = tmp_path / "out.parquet"
    assert linker.set_params(engine=engine).cluster_frame(str(tmp_path / "?.parquet"), into=target) == target
    check_same(linker.set_params(engine=None).cluster_frame(table), parquet.read_table(target))


def test_ids_that_repeat_across_files_are_named(linker: kf.Linker, engine: Spark, table: Any, tmp_path: Path):
    for name, rows in (("a", [0, 1]), ("b", [2, 1])):
        parquet.write_table(table.take(rows), tmp_path / f"{name}.parquet")
    with pytest.raises(InputError, match="row 3: ids must be distinct; '1' was in records, row 1"):
        linker.set_params(engine=engine).cluster_frame(str(tmp_path / "?.parquet"), into=tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_new_records_join_the_clusters_they_join_in_memory(linker: kf.Linker, engine: Spark, table: Any):
    plain = linker.set_params(engine=None)
    base = plain.cluster_frame(table.slice(0, N_BASE)).drop_columns(["probability"])
    known = plain.link(table.slice(N_BASE), base)
    check_same(known, linker.set_params(engine=engine).link(table.slice(N_BASE), base))


def test_a_sample_is_that_of_another_engine(engine: Spark, table: Any):
    pytest.importorskip("duckdb", reason="the engine DuckDB needs duckdb")
    from kinfolk.engines.duckdb import DuckDB

    with DuckDB(threads=1) as other:
        known, found = (sample_records(table, engine=one, most=60, cluster="surname") for one in (other, engine))
    assert 20 < known.n_items < 120
    assert [known.name(k) for k in range(known.n_items)] == [found.name(k) for k in range(found.n_items)]
