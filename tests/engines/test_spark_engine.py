"""What is Spark's own: its DataFrames, its sessions, the files it writes, and what it says of faults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kinfolk.core.engine import ROW, EngineError
from kinfolk.engines.spark import Spark
from kinfolk.errors import InputError, SettingError

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")


def test_without_pyspark_the_install_line_is_given(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(InputError, match=r"needs pyspark, which is not installed: pip install 'kinfolk\[spark\]'"):
        Spark(None).rows("SELECT 1")


@pytest.mark.spark
class TestDataFrames:
    def test_their_rows_are_numbered_in_the_order_of_their_partitions(self, spark_session: Any):
        frame = spark_session.range(0, 1000, 1, 7).where("id < 300 OR id > 700")  # some partitions are empty
        with Spark(spark_session) as engine:
            engine.read(frame, "read", ROW)
            found = engine.rows(f"SELECT {ROW}, id FROM read ORDER BY {ROW}")
        assert found == list(enumerate([*range(300), *range(701, 1000)]))

    def test_rows_keep_their_numbers_where_the_frame_is_another_one_each_time(self, spark_session: Any):
        from pyspark.sql import functions as f

        with Spark(spark_session) as engine:
            engine.read(spark_session.range(100).withColumn("x", f.rand()), "read", ROW)
            assert engine.rows(f"SELECT {ROW}, x FROM read ORDER BY {ROW}") == engine.rows(
                f"SELECT {ROW}, x FROM read ORDER BY {ROW}"
            )

    def test_answers_are_frames_again(self, spark_session: Any):
        with Spark(spark_session) as engine:
            frame = spark_session.range(3)
            engine.read(frame, "read", ROW)
            found = engine.frame(f"SELECT id + 1 AS more FROM read ORDER BY {ROW}")
            assert engine.is_own(frame) and engine.is_own(found) and not engine.is_own(pyarrow.table({}))
            assert [row.more for row in found.collect()] == [1, 2, 3]

    def test_columns_that_hold_nothing_are_texts(self, spark_session: Any):
        with Spark(spark_session) as engine:
            engine.read(spark_session.sql("SELECT 1 AS `a.b``c`, NULL AS none"), "read", ROW)
            assert engine.rows("SELECT * FROM read") == [(0, 1, None)]
            assert engine.is_text(engine.columns("read")["none"])


@pytest.mark.spark
def test_types_that_only_arrow_has_are_read(spark_session: Any):
    words = pyarrow.array(["a", None, "b"])
    table = pyarrow.table({"kinds": words.dictionary_encode(), "large": words.cast("large_string"),
                           "none": pyarrow.nulls(3), "byte": pyarrow.array([1, 2, 255], "uint8")})  # fmt: skip
    with Spark(spark_session) as engine:
        engine.read(table, "read", ROW)
        assert engine.rows(f"SELECT * FROM read ORDER BY {ROW}") == [
            (0, "a", "a", None, 1), (1, None, None, None, 2), (2, "b", "b", None, 255)
        ]  # fmt: skip


@pytest.mark.spark
def test_names_and_settings_of_the_users_session_stay_what_they_are(spark_session: Any):
    spark_session.range(2).createOrReplaceTempView("kf_mine")
    before = spark_session.conf.get("spark.sql.caseSensitive")
    with Spark(spark_session) as engine, Spark(spark_session) as another:
        engine.make("kf_mine", "SELECT 'theirs' AS x")
        another.make("kf_mine", "SELECT 'others' AS x")
        assert engine.rows("SELECT x FROM kf_mine") == [("theirs",)]
    assert spark_session.table("kf_mine").count() == 2 and spark_session.conf.get("spark.sql.caseSensitive") == before
    spark_session.catalog.dropTempView("kf_mine")


@pytest.mark.spark
class TestFiles:
    def test_files_of_tables_go_with_them_and_the_folder_with_the_engine(self, spark_session: Any, tmp_path: Path):
        with Spark(spark_session, folder=tmp_path) as engine:
            for n in range(3):
                engine.make("numbers", f"SELECT explode(sequence(1, {n + 1})) AS n")
            (own,) = tmp_path.iterdir()
            assert len(list(own.iterdir())) == 1, "files of tables that were replaced are still there"
            assert engine.rows("SELECT count(*) FROM numbers") == [(3,)]
        assert not list(tmp_path.iterdir())

    def test_parquet_is_written_whole_or_not_at_all(self, spark_session: Any, tmp_path: Path):
        from pyarrow import parquet

        with Spark(spark_session) as engine:
            engine.write("SELECT explode(sequence(1, 5)) AS n", tmp_path / "out.parquet")
            assert sorted(parquet.read_table(tmp_path / "out.parquet").column("n").to_pylist()) == [1, 2, 3, 4, 5]
            engine.write("SELECT 7 AS n", tmp_path / "out.parquet")
            assert parquet.read_table(tmp_path / "out.parquet").column("n").to_pylist() == [7]
            with pytest.raises(EngineError, match="DIVIDE_BY_ZERO"):
                engine.write("SELECT n, 1 / (n - n) AS x FROM (SELECT explode(array(1)) AS n)", tmp_path / "bad")
        assert [one.name for one in tmp_path.iterdir()] == ["out.parquet"]

    def test_a_type_that_differs_between_files_is_named_with_both(self, spark_session: Any, tmp_path: Path):
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"id": ["a"], "size": [1]}), tmp_path / "one.parquet")
        parquet.write_table(pyarrow.table({"id": ["b"], "size": ["2"]}), tmp_path / "two.parquet")
        message = r"two\.parquet: the column 'size' is string, and in .*one\.parquet it is int64; write both alike"
        with Spark(spark_session) as engine, pytest.raises(InputError, match=message):
            engine.read(str(tmp_path / "*.parquet"), "read", ROW)

    def test_a_column_that_a_file_lacks_is_named(self, spark_session: Any, tmp_path: Path):
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"id": ["a"], "size": [1]}), tmp_path / "one.parquet")
        parquet.write_table(pyarrow.table({"id": ["b"]}), tmp_path / "two.parquet")
        with (
            Spark(spark_session) as engine,
            pytest.raises(InputError, match=r"two\.parquet: there is no column 'size'"),
        ):
            engine.read(str(tmp_path / "*.parquet"), "read", ROW)

    def test_headers_that_differ_between_files_are_refused(self, spark_session: Any, tmp_path: Path):
        (tmp_path / "one.csv").write_text("id,size\na,1\n")
        (tmp_path / "two.csv").write_text("id,height\nb,2\n")
        with Spark(spark_session) as engine, pytest.raises(InputError, match=r"CSV header .*two\.csv"):
            engine.read(str(tmp_path / "*.csv"), "read", ROW)

    def test_a_file_of_another_kind_is_refused(self, spark_session: Any, tmp_path: Path):
        with Spark(spark_session) as engine, pytest.raises(InputError, match=r"expected \.parquet or \.csv files"):
            engine.read(str(tmp_path / "x.xlsx"), "read", ROW)

    def test_a_folder_that_cannot_be_written_to_is_an_error_of_the_engine(self, spark_session: Any, tmp_path: Path):
        (tmp_path / "file").write_text("")
        with Spark(spark_session, folder=tmp_path / "file") as engine, pytest.raises(EngineError, match="a query"):
            engine.make("numbers", "SELECT 1 AS n")


@pytest.mark.spark
class TestFaults:
    def test_what_a_kernel_raises_in_a_worker_is_told(self, spark_session: Any):
        def broken(batch: Any) -> Any:
            raise ValueError(f"not {batch.num_columns} columns, please")

        with Spark(spark_session) as engine, pytest.raises(EngineError, match=r"ValueError: not 1 columns, please$"):
            engine.map("SELECT 1 AS n", broken, "none", pyarrow.schema([("n", "int64")]))

    def test_what_is_no_session_is_refused(self, spark_session: Any):
        with pytest.raises(SettingError, match=r"Spark\(session=...\) must be a SparkSession; got 'local'"):
            Spark("local").rows("SELECT 1")

    def test_on_a_cluster_the_folder_must_be_given(self, spark_session: Any, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(spark_session.sparkContext, "master", "yarn")
        with pytest.raises(SettingError, match="must be given with the master 'yarn': a place that all executors"):
            Spark(spark_session).rows("SELECT 1")

    def test_sessions_that_are_stopped_or_die_are_told(self, spark_session: Any, tmp_path: Path):
        """In a process of their own, where nothing else needs them."""
        found = subprocess.run([sys.executable, "-c", ENDINGS], capture_output=True, text=True, cwd=tmp_path)
        told = "the Spark session has ended (a query); start another, and give it to a new Spark(session)"
        assert found.stdout.splitlines() == [told, told], found.stderr


ENDINGS = """
from pyspark.sql import SparkSession
from kinfolk.core.engine import EngineError
from kinfolk.engines.spark import Spark

def ended_by(end):
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    engine = Spark(session)
    engine.make("one", "SELECT 1 AS n")
    end(session)
    try:
        engine.rows("SELECT n FROM one")
    except EngineError as error:
        print(error)
    engine.close()

ended_by(lambda session: session.stop())
ended_by(lambda session: session.sparkContext._gateway.proc.kill())
"""
