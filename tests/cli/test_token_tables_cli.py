"""`kinfolk tokens tag` of tables: Parquet in, Parquet out, in memory and in DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kinfolk as kf

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet files need pyarrow")
pytest.importorskip("duckdb", reason="the engine DuckDB needs duckdb")

TEXT = [["Ann", "saw", "York"], ["Bob", "left"], ["York", "rests"]]
TAGS = [["B-PER", "O", "B-LOC"], ["B-PER", "O"], ["B-LOC", "O"]]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and tokens in two files: the second document is in both."""
    folder = tmp_path_factory.mktemp("desk")
    kf.MaxEnt(n_jobs=1).fit(TEXT, TAGS).save(folder / "m")
    place = [(s, word) for s, words in enumerate(TEXT) for word in words]
    table = pyarrow.table(
        {"doc": [s // 2 for s, _ in place], "sent": [s for s, _ in place], "text": [word for _, word in place]}
    )
    parquet.write_table(table.slice(0, 4), folder / "part-0.parquet")
    parquet.write_table(table.slice(4), folder / "part-1.parquet")
    parquet.write_table(table.rename_columns(["document", "sentence", "word"]), folder / "plain.parquet")
    return folder


NAMES = ("--word", "text", "--sentence", "sent", "--document", "doc")


def test_a_glob_in_duckdb(kinfolk: Any, desk: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(desk)
    more = ("--engine", "duckdb", "--memory-limit", "100MB", "-o", "out.parquet", "--probability", "surely")
    answer = kinfolk("tokens", "tag", "m", "part-*.parquet", *NAMES, *more)
    assert answer.status == 0, answer.err
    table = parquet.read_table("out.parquet")
    assert table.column_names == ["doc", "sent", "text", "label", "surely"]
    assert table.column("label").to_pylist() == [tag for row in kf.load_model("m").predict(TEXT) for tag in row]


def test_a_parquet_file_needs_no_engine(kinfolk: Any, desk: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(desk)
    answer = kinfolk("tokens", "tag", "m", "plain.parquet", "-o", "here.parquet", "--label", "tag")
    assert answer.status == 0, answer.err
    table = parquet.read_table("here.parquet")
    assert table.column("tag").to_pylist() == [tag for row in kf.load_model("m").predict(TEXT) for tag in row]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plain.parquet"], "--output must name a Parquet file"),
        (["plain.parquet", "--word", "text", "-o", "o.parquet"], "no column 'text' (word); there are 'document'"),
        (["part-0.parquet", "--engine", "duckdb", "-o", "o.parquet"], "name one with --word"),
        (["plain.parquet", "--json", "-o", "o.parquet"], "--json is for a file of columns or of text"),
        (["-", "--engine", "duckdb", "-o", "o.parquet"], "not standard input"),
        (["no-*.parquet", "--engine", "duckdb", "-o", "o.parquet"], "there is no file 'no-*.parquet'"),
        (["plain.parquet", "-o", "none/o.parquet"], "there is no folder 'none'"),
        (["plain.parquet", "-o", "plain.parquet"], "would overwrite"),
        (["plain.parquet", "-o", "o.parquet", "--label", "word"], "nothing is overwritten"),
        (["new.conll", "--word", "text"], "--word needs a table of tokens"),
        (["p*.parquet", "--engine", "duckdb", "-o", "o.parquet"], "files of a glob are one table"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_what_cannot_be_is_said_in_words_of_the_shell(
    kinfolk: Any, desk: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
):
    monkeypatch.chdir(desk)
    answer = kinfolk("tokens", "tag", "m", *words)
    assert answer.status == 2 and message in answer.err and not Path("o.parquet").exists()
    assert "`" not in answer.err
