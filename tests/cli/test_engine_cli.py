"""`kinfolk records cluster --engine duckdb`, and what options of engines are."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import kinfolk as kf

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet files need pyarrow")
pytest.importorskip("duckdb", reason="the engine DuckDB needs duckdb")

RULES = ["key(id_number)", "key(postcode + surname[:2])"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and records in two files."""
    folder = tmp_path_factory.mktemp("desk")
    kf.Linker(blocking=RULES, training="local", n_jobs=1).fit(kf.generate_customers(300, seed=1)).save(folder / "m")
    items = kf.generate_customers(200, seed=2)
    columns: dict[str, Any] = {"id": [f"r{k}" for k in range(items.n_items)]}
    columns |= {name: list(column.strings()) for name, column in items.columns.items()}
    table = pyarrow.table(columns)
    for k in range(2):
        parquet.write_table(table.slice(100 * k, 100), folder / f"part-{k}.parquet")
    return folder


def test_clusters_of_files_with_what_rules_do_told_before(kinfolk: Any, desk: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(desk)
    answer = kinfolk(
        "records", "cluster", "m", "--records", "part-*.parquet", "--engine", "duckdb", "-o", "out.parquet"
    )
    assert answer.status == 0, answer.err
    assert re.search(r"key\(id_number\): \d+ pairs; largest blocks: ", answer.err)
    assert re.search(r"200 records are \d+ clusters", answer.err)
    table = pyarrow.concat_tables([parquet.read_table(f"part-{k}.parquet") for k in range(2)])
    known = kf.load_model("m").cluster_frame(table)
    assert parquet.read_table("out.parquet").column("cluster").to_pylist() == known.column("cluster").to_pylist()
    quiet = ("--engine", "duckdb", "-o", "again.parquet", "--quiet", "--block", "key(postcode)", "--threshold", "0.9")
    answer = kinfolk("records", "cluster", "m", "--records", "part-0.parquet", *quiet)
    assert (answer.status, answer.err) == (0, "") and Path("again.parquet").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine", "duckdb"], "--output must name a Parquet file"),
        (["--engine", "duckdb", "-o", "o.csv"], "--output must name a Parquet file"),
        (["--engine", "duckdb", "-o", "o.parquet", "--json"], "--json cannot be had from an engine"),
        (["--engine", "duckdb", "-o", "o.parquet", "--fields", "surname"], "--fields cannot be had from an engine"),
        (["--engine", "duckdb", "-o", "o.parquet", "--limit", "2"], "where --limit allows 2"),
        (["--engine", "duckdb", "-o", "o.parquet", "--memory-limit", "much"], "--memory-limit must be such as '500MB'"),
        (["--engine", "sparc", "-o", "o.parquet"], "--engine must be memory, duckdb or spark"),
        (["--memory-limit", "1GB"], "--memory-limit needs --engine duckdb"),
        (["--limit", "10"], "--limit needs --engine duckdb or spark"),
        (["--engine", "spark", "-o", "o.parquet", "--memory-limit", "1GB"], "--memory-limit needs --engine duckdb"),
        (["--engine", "duckdb", "-o", "o.parquet", "--records", "none-*.parquet"], "there is no file"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_what_cannot_be_is_said_in_words_of_the_shell(
    kinfolk: Any, desk: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
):
    monkeypatch.chdir(desk)
    given = [] if "--records" in words else ["--records", "part-0.parquet"]
    answer = kinfolk("records", "cluster", "m", *given, *words)
    assert answer.status == 2 and message in answer.err and not Path("o.parquet").exists()


@pytest.mark.parametrize("name", ["duckdb", "spark"])
def test_an_engine_that_is_not_installed_comes_with_the_line_that_installs_it(
    kinfolk: Any, desk: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    for module in ("duckdb", "pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(desk)
    answer = kinfolk("records", "cluster", "m", "--records", "part-0.parquet", "--engine", name, "-o", "o.parquet")
    assert answer.status == 2 and f"pip install 'kinfolk[{name}]'" in answer.err and not Path("o.parquet").exists()
