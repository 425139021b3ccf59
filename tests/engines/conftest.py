"""The engines that are tested: DuckDB, and Spark in local mode where PySpark and Java are installed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for all tests: starting it takes longer than most of them."""
    sql = pytest.importorskip("pyspark.sql", reason="the engine Spark needs pyspark: make test-spark")
    if not shutil.which("java") and not os.environ.get("JAVA_HOME"):
        pytest.skip("the engine Spark needs Java 17")
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            # Many small queries: what takes time is compiling them.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.shuffle.partitions": "4",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
        }
        session = sql.SparkSession.builder.config(map=settings).getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each engine in turn; tables of one test may be there in the next."""
    if request.param == "duckdb":
        yield request.getfixturevalue("small_duckdb")
    else:
        session = request.getfixturevalue("spark_session")
        from kinfolk.engines.spark import Spark

        with Spark(session) as made:
            yield made


@pytest.fixture(scope="module", params=[0, 100_000_000], ids=["joined", "held"])
def holds(request: pytest.FixtureRequest) -> Iterator[int]:
    """Engines that join and group all links by queries, and such as bring small ones into this process."""
    from kinfolk.engines.duckdb import DuckDB
    from kinfolk.engines.spark import Spark

    with pytest.MonkeyPatch.context() as patch:
        for kind in (DuckDB, Spark):
            patch.setattr(kind, "holds", request.param)
        yield request.param


@pytest.fixture(scope="session")
def small_duckdb() -> Iterator[Any]:
    """DuckDB with little memory and a single thread; tables of one test may be there in the next."""
    pytest.importorskip("duckdb", reason="the engine DuckDB needs duckdb")
    from kinfolk.engines.duckdb import DuckDB

    with DuckDB(memory_limit="200MB", threads=1) as made:
        yield made
