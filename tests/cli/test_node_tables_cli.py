"""`kinfolk nodes train` and `predict` with --engine, --sample and --most-links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinfolk as kf

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet files need pyarrow")
pytest.importorskip("duckdb", reason="the engine DuckDB needs duckdb")

LIMITS = ["--engine", "duckdb", "--memory-limit", "300MB", "--jobs", "1"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Papers in two files, their links, and the same papers as CSV."""
    folder = tmp_path_factory.mktemp("desk")
    rng = np.random.default_rng(0)
    n = 80
    truth = rng.integers(2, size=n)
    label = [["art", "law"][c] if i % 2 else None for i, c in enumerate(truth)]
    words = np.array(["paint colour", "court judge"])[np.where(rng.random(n) < 0.8, truth, 1 - truth)]
    nodes = pyarrow.table(
        {"id": [f"p{i}" for i in range(n)], "topic": label, "title": words, "year": rng.normal(size=n)}
    )
    source, target = rng.integers(n, size=(2, 3 * n))
    edges = pyarrow.table({"source": [f"p{i}" for i in source], "target": [f"p{i}" for i in target]})
    for k in range(2):
        parquet.write_table(nodes.slice(40 * k, 40), folder / f"papers-{k}.parquet")
    parquet.write_table(nodes, folder / "papers.parquet")
    parquet.write_table(edges, folder / "cites.parquet")
    return folder


def files(nodes: str = "papers-*.parquet", edges: str = "cites.parquet") -> list[str]:
    return ["--nodes", nodes, "--edges", edges, "--link", "cites", "--inverse", "cited_by"]


def train(kinfolk: Any, out: str, *words: str, nodes: str = "papers-*.parquet") -> Any:
    given = ["--label", "topic", "--text", "title", "--model", "stacked", "--depth", "1", "--out", out, "--folds", "3"]
    return kinfolk("nodes", "train", *files(nodes), *given, *words)


def test_training_and_prediction_in_duckdb_are_those_of_memory(
    kinfolk: Any, desk: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(desk)
    answer = train(kinfolk, "m", *LIMITS)
    assert answer.status == 0 and "trained on 40 nodes with labels" in answer.err, answer.err
    assert train(kinfolk, "m2", "--jobs", "1", "--quiet", nodes="papers.parquet").status == 0
    for proba in ([], ["--proba"]):
        answer = kinfolk("nodes", "predict", "m", *files(), *LIMITS, "-o", "out.parquet", *proba)
        assert answer.status == 0, answer.err
        found = parquet.read_table("out.parquet")
        known = kf.load_model("m2").predict_tables(
            parquet.read_table("papers.parquet"), parquet.read_table("cites.parquet"), proba=bool(proba),
            text="title", link="cites", inverse="cited_by",
        )  # fmt: skip
        assert found.column_names == known.column_names
        assert found.column("predicted").equals(known.column("predicted"))
        for name in known.column_names[5:]:
            np.testing.assert_allclose(found.column(name), known.column(name), atol=1e-6)


def test_samples_and_limits_of_links_are_the_same_in_memory(kinfolk: Any, desk: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(desk)
    limits = ["--sample", "20", "--most-links", "2", "--quiet"]
    for out, words, nodes in (("a", LIMITS, "papers-*.parquet"), ("b", ["--jobs", "1"], "papers.parquet")):
        assert train(kinfolk, out, *limits, *words, nodes=nodes).status == 0
    first, second = (kf.load_model(one).memory_.ids for one in "ab")
    assert first == second and len(first) == 20
    answers = []
    for model in "ab":
        told = kinfolk("nodes", "predict", model, *files("papers.parquet"), "--most-links", "2", "--proba")
        answers.append(told.out)
    assert answers[0] == answers[1] != ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine", "duckdb"], "--output must name a Parquet file"),
        (["--engine", "duckdb", "-o", "o.csv"], "--output must name a Parquet file"),
        (["--engine", "duckdb", "-o", "o.parquet", "--json"], "--json cannot be had from an engine"),
        (["--engine", "duckdb", "-o", "o.parquet", "--known-ids", "x"], "--known-ids cannot be had from an engine"),
        (["--engine", "duckdb", "-o", "o.parquet", "--format", "linqs"], "--engine reads tables"),
        (["--engine", "duckdb", "-o", "o.parquet", "--memory-limit", "much"], "--memory-limit must be such as '500MB'"),
        (["--engine", "flink", "-o", "o.parquet"], "--engine must be memory, duckdb or spark"),
        (["--temp-directory", "x"], "--temp-directory needs --engine duckdb"),
        (["--engine", "duckdb", "-o", "o.parquet", "--most-links", "0"], "--most-links must be a whole number"),
        (["--engine", "duckdb", "-o", "papers.parquet"], "--output papers.parquet would overwrite"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_what_cannot_be_is_said_in_words_of_the_shell(
    kinfolk: Any, desk: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
):
    monkeypatch.chdir(desk)
    if not Path("model").exists():
        assert train(kinfolk, "model", "--jobs", "1", "--quiet", nodes="papers.parquet").status == 0
    answer = kinfolk("nodes", "predict", "model", *files("papers.parquet"), *words)
    assert answer.status == 2 and message in answer.err and not Path("o.parquet").exists()


def test_other_models_and_lists_of_ids_are_not_for_engines(kinfolk: Any, desk: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(desk)
    given = ["--label", "topic", "--out", "x", "--engine", "duckdb"]
    answer = kinfolk("nodes", "train", *files(), *given, "--model", "link")
    assert answer.status == 2 and "--engine is for --model stacked" in answer.err
    Path("ids.txt").write_text("p1\n")
    answer = train(kinfolk, "x", "--engine", "duckdb", "--train-ids", "ids.txt")
    assert answer.status == 2 and "--train-ids cannot be had from an engine" in answer.err
    answer = train(kinfolk, "x", "--sample", "3", "--train-ids", "ids.txt", nodes="papers.parquet")
    assert answer.status == 2 and "give one of them" in answer.err and not Path("x").exists()


@pytest.mark.spark
def test_on_spark(kinfolk: Any, desk: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """With the session that Spark's own settings make."""
    sql = pytest.importorskip("pyspark.sql", reason="the engine Spark needs pyspark")
    monkeypatch.chdir(desk)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    assert train(kinfolk, "s", "--jobs", "1", "--quiet", nodes="papers.parquet").status == 0
    out = tmp_path / "out.parquet"
    try:
        answer = kinfolk("nodes", "predict", "s", *files(), "--engine", "spark", "-o", out)
        assert answer.status == 0, answer.err
    finally:
        session = sql.SparkSession.getActiveSession()
        if session is not None:
            session.stop()
    tables = [parquet.read_table(desk / f"{name}.parquet") for name in ("papers", "cites")]
    known = kf.load_model(desk / "s").predict_tables(*tables, text="title", link="cites", inverse="cited_by")
    found = parquet.read_table(out)
    assert found.column("id").equals(known.column("id")) and found.column("predicted").equals(known.column("predicted"))
