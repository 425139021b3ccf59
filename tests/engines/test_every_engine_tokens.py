"""Every engine labels the tokens of a table as memory does, documents whole; and memory as `predict` does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.core.engine import Engine
from kinfolk.engines.duckdb import DuckDB
from kinfolk.engines.spark_labelled import runs_begin, with_units
from kinfolk.errors import InputError, SettingError
from small_world import with_sizes

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
from pyarrow import csv, parquet  # noqa: E402

WORDS = np.array(["Ann", "Bob", "saw", "the", "river", "Thames", "in", "York", "today", "."])
TAGS = {"Ann": "I-PER", "Bob": "I-PER", "Thames": "I-LOC", "York": "I-LOC"}  # IOB1: the model works in another scheme
FEW = settings(
    deadline=None, max_examples=8, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True
)


def corpus(n_documents: int, seed: int, sentences: int | None = None, tokens: int | None = None) -> kf.Corpus:
    """Documents of up to three sentences of up to eight tokens, or of so many."""
    rng = np.random.default_rng(seed)
    sizes = [sentences or int(n) for n in rng.integers(1, 4, n_documents)]
    texts = [rng.choice(WORDS, tokens or rng.integers(1, 9)).tolist() for _ in range(sum(sizes))]
    tags = [[TAGS.get(word, "O") for word in sentence] for sentence in texts]
    sizes = None if sentences == 1 else sizes
    return kf.Corpus.from_sentences(texts, tags, sizes, pos=[[word[:1] for word in one] for one in texts])


def table_of(tokens: kf.Corpus) -> Any:
    columns = {
        "document": [f"d{k}" for k in tokens.token_documents],
        "sentence": tokens.token_sentences,
        "text": tokens.columns["word"].strings(),
        "pos": tokens.columns["pos"].strings(),
        "page": [None if k % 3 else k for k in range(tokens.n_tokens)],
    }
    kinds = {"document": "string", "sentence": "int32", "text": "string", "pos": "string", "page": "int64"}
    return pyarrow.table({name: pyarrow.array(columns[name], kinds[name]) for name in columns})


@pytest.fixture(scope="module")
def tagger() -> Any:
    return kf.MixtureTagger(n_jobs=1).fit(corpus(40, 0))


@pytest.fixture(scope="module", params=["threads", "duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def place(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Memory, then each engine."""
    if request.param != "spark":
        yield kf.Threads() if request.param == "threads" else request.getfixturevalue("small_duckdb")
        return
    with pytest.MonkeyPatch.context() as patch, kf.Spark(request.getfixturevalue("spark_session")) as engine:
        patch.setattr("kinfolk.engines.spark.BEGINNINGS", 5)  # so that small tables are cut too
        yield engine


def predicted(tagger: Any, tokens: kf.Corpus) -> list[str]:
    return [label for row in tagger.predict(tokens) for label in row]


@pytest.fixture
def short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of DuckDB that would cut documents."""
    whole = DuckDB.batches

    def cut(self: DuckDB, query: str, n_rows: int) -> Iterator[Any]:
        for batch in whole(self, query, n_rows):
            yield from (batch.slice(start, 7) for start in range(0, batch.num_rows, 7))

    monkeypatch.setattr(DuckDB, "batches", cut)


SHAPES = {
    "empty": corpus(0, 1),
    "one token": corpus(1, 1, 1, 1),
    "one giant document": corpus(1, 2, 300),
    "2,000 documents of one sentence": corpus(2000, 3, 1, 2),
    "documents": corpus(60, 4),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_tokens_get_the_labels_that_predict_gives(place: Any, tagger: Any, shape: str):
    tokens = SHAPES[shape]
    given = table_of(tokens)
    answer = tagger.tag(given, word="text", probability="surely", engine=place)
    assert answer.column_names == [*given.column_names, "label", "surely"]
    assert answer.drop_columns(["label", "surely"]).equals(given)
    assert answer.column("label").to_pylist() == predicted(tagger, tokens)
    chances = [row for table in tagger.predict_proba(tokens) for row in table]
    inner = {"I-PER", "I-LOC", "B-PER", "B-LOC", "O"}
    assert {*tagger.classes_} == inner
    for found, row, label in zip(
        answer.column("surely").to_pylist(), chances, answer.column("label").to_pylist(), strict=True
    ):
        likely = [row[k] for k, name in enumerate(tagger.classes_) if name[2:] == label[2:]]
        assert min(abs(found - one) for one in likely) < 1e-9


@pytest.mark.usefixtures("short_batches")
def test_a_document_is_labelled_whole_wherever_runs_end(engine: Engine, tagger: Any):
    tokens = corpus(30, 5)
    assert tagger.tag(table_of(tokens), word="text", engine=engine).column("label").to_pylist() == predicted(
        tagger, tokens
    )


@FEW
@given(st.lists(st.integers(1, 4), max_size=6), st.integers(0, 5), st.integers(1, 40))
def test_documents_in_any_pieces_and_interleaved_get_the_same_labels(
    small_duckdb: Any, tagger: Any, sizes: list[int], seed: int, rows: int
):
    rng = np.random.default_rng(seed)
    texts = [rng.choice(WORDS, rng.integers(1, 9)).tolist() for _ in range(sum(sizes))]
    plain = kf.Corpus.from_sentences(texts, pos=[[word[:1] for word in one] for one in texts])
    tokens = with_sizes(plain, map(range, sizes))
    table = table_of(tokens)
    turns = rng.permutation(tokens.token_documents.astype(np.int64)) if tokens.n_tokens else np.empty(0, np.int64)
    order = np.empty(len(turns), np.int64)  # tokens of a document in order, documents by turns
    for k in range(tokens.n_documents):
        order[turns == k] = np.flatnonzero(tokens.token_documents == k)
    known = np.array(predicted(tagger, tokens), object)[order].tolist() if len(order) else []
    mixed = table.take(pyarrow.array(order, "int64"))
    with pytest.MonkeyPatch.context() as patch:
        whole = DuckDB.batches
        patch.setattr(DuckDB, "batches", lambda self, query, n_rows: whole(self, query, rows))
        for place in (None, small_duckdb):
            assert tagger.tag(mixed, word="text", engine=place).column("label").to_pylist() == known


def test_documents_spread_over_files_are_whole(place: Any, tagger: Any, tmp_path: Path):
    tokens = corpus(9, 6)
    table = table_of(tokens)
    cuts = np.linspace(0, table.num_rows, 5).astype(int)
    for k, (a, b) in enumerate(pairwise(cuts)):
        parquet.write_table(table.slice(a, b - a), tmp_path / f"part-{k}.parquet")
    out = tmp_path / "out" / "tagged.parquet"
    out.parent.mkdir()
    assert tagger.tag(str(tmp_path / "part-*.parquet"), word="text", engine=place, into=out) == out
    answer = parquet.read_table(out)
    assert answer.drop_columns(["label"]).equals(table)
    assert answer.column("label").to_pylist() == predicted(tagger, tokens)
    assert [one.name for one in out.parent.iterdir()] == ["tagged.parquet"]


def test_columns_that_spark_noted_in_a_file_do_not_hide_the_labels(tagger: Any, tmp_path: Path):
    note = '{"type":"struct","fields":[{"name":"text","type":"string","nullable":true,"metadata":{}}]}'
    given = table_of(corpus(2, 7)).replace_schema_metadata(
        {"org.apache.spark.sql.parquet.row.metadata": note, "ours": "kept"}
    )
    parquet.write_table(given, tmp_path / "in.parquet")
    tagger.tag(str(tmp_path / "in.parquet"), word="text", into=tmp_path / "out.parquet")
    assert parquet.read_schema(tmp_path / "out.parquet").metadata == {b"ours": b"kept"}


def test_no_tokens_are_written_with_the_types_of_some(place: Any, tmp_path: Path):
    tagger = kf.LinearChainCRF(n_jobs=1).fit([["a", "b"]], [[1, 2]])
    none = pyarrow.table({"sentence": pyarrow.array([], "int64"), "word": pyarrow.array([], "string")})
    parquet.write_table(none, tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    tagger.tag(str(tmp_path / "in.parquet"), document=None, probability="surely", engine=place, into=out)
    assert [str(one.type) for one in parquet.read_table(out).schema] == ["int64", "string", "int64", "double"]


def test_csv_files_are_texts_everywhere(place: Any, tagger: Any, tmp_path: Path):
    tokens = corpus(5, 7)
    csv.write_csv(table_of(tokens), tmp_path / "tokens.csv")
    tagger.tag(str(tmp_path / "tokens.csv"), word="text", engine=place, into=tmp_path / "out.parquet")
    answer = parquet.read_table(tmp_path / "out.parquet")
    assert {str(one.type) for one in answer.schema} == {"string"}
    assert answer.column("label").to_pylist() == predicted(tagger, tokens)
    assert answer.column("page").to_pylist()[:4] == ["0", None, None, "3"]


def test_without_documents_each_sentence_is_one(place: Any, tagger: Any):
    tokens = corpus(20, 2)
    starts = tokens.sentence_starts
    alone = kf.Corpus(tokens.columns, starts, np.arange(len(starts)))
    table = table_of(tokens).drop_columns(["document"])
    answer = tagger.tag(table, word="text", document=None, engine=place)
    assert answer.column("label").to_pylist() == predicted(tagger, alone)


@pytest.mark.parametrize("kind", ["pandas", "polars", "dict", "relation"])
def test_what_comes_back_is_what_came(small_duckdb: Any, tagger: Any, kind: str):
    tokens = corpus(6, 8)
    table, known = table_of(tokens), predicted(tagger, tokens)
    if kind == "pandas":
        came: Any = table.to_pandas().set_index(np.arange(100, 100 + table.num_rows))
    elif kind == "polars":
        came = pytest.importorskip("polars").from_arrow(table)
    else:
        came = table.to_pydict() if kind == "dict" else pytest.importorskip("duckdb").connect().from_arrow(table)
    for place in (None, small_duckdb):
        answer = tagger.tag(came, word="text", engine=place)
        assert isinstance(answer, type(came))
        if kind == "pandas":
            assert answer.index.equals(came.index)
        column = answer.select("label").fetchall() if kind == "relation" else answer["label"]
        assert [one[0] if kind == "relation" else one for one in column] == known


@pytest.mark.spark
def test_a_frame_of_spark_stays_one(spark_session: Any, tagger: Any):
    tokens = corpus(6, 8)
    frame = spark_session.createDataFrame(table_of(tokens))
    with kf.Spark(spark_session) as engine:
        answer = tagger.tag(frame, word="text", engine=engine)
        assert answer.columns == [*frame.columns, "label"]
        assert [row.label for row in answer.collect()] == predicted(tagger, tokens)
    with pytest.raises(InputError, match=r"engine=kf\.Spark\(session\)"):
        tagger.tag(frame, word="text")


def test_labels_have_the_type_they_were_trained_with(place: Any):
    words = [["a", "b", "a"], ["b", "b"]]
    tagger = kf.LinearChainCRF(n_jobs=1).fit(words, [[1, 2, 1], [2, 2]])
    table = pyarrow.table({"sentence": [0, 0, 0, 1, 1], "word": [w for one in words for w in one]})
    answer = tagger.tag(table, document=None, engine=place)
    assert str(answer.schema.field("label").type) == "int64"
    assert answer.column("label").to_pylist() == [label for row in tagger.predict(words) for label in row]


def test_stacked_taggers_tag_tables(place: Any):
    tokens = corpus(12, 9)
    tagger = kf.StackedTagger(kf.LinearChainCRF(n_jobs=1), n_jobs=1).fit(tokens)
    assert tagger.tag(table_of(tokens), word="text", engine=place).column("label").to_pylist() == predicted(
        tagger, tokens
    )


# -- what is refused ----------------------------------------------------------------------------------


def test_columns_that_are_not_there_and_gaps_are_named(place: Any, tagger: Any):
    table = table_of(corpus(3, 3))
    with pytest.raises(InputError, match=r"no column 'word' \(word\); there are 'document'"):
        tagger.tag(table, engine=place)
    with pytest.raises(InputError, match="no column 'pos', which the model's feature 'pos"):
        tagger.tag(table.drop_columns(["pos"]), word="text", engine=place)
    with pytest.raises(InputError, match="leave nothing to divide the tokens by"):
        tagger.tag(table, word="text", sentence=None, document=None, engine=place)
    for name in ("document", "text", "pos"):
        holes = pyarrow.array([*table.column(name).to_pylist()[:-1], None], "string")
        gap = table.set_column(table.column_names.index(name), name, holes)
        with pytest.raises(InputError, match=f"row {table.num_rows - 1} has no '{name}'"):
            tagger.tag(gap, word="text", engine=place)
    holes = pyarrow.array([*table.column("sentence").to_pylist()[:-1], None], "int32")
    gap = table.set_column(1, "sentence", holes)
    for document in ("document", None):
        with pytest.raises(InputError, match=f"row {table.num_rows - 1} has no 'sentence'; give every token that of"):
            tagger.tag(gap, word="text", document=document, engine=place)
    assert tagger.tag(gap, word="text", sentence=None, engine=place).num_rows == table.num_rows


def test_nothing_is_overwritten(place: Any, tagger: Any, tmp_path: Path):
    table = table_of(corpus(3, 3))
    with pytest.raises(InputError, match="there is a column 'pos' already"):
        tagger.tag(table, word="text", label="pos", engine=place)
    with pytest.raises(SettingError, match="different names; got label, label"):
        tagger.tag(table, word="text", probability="label", engine=place)
    parquet.write_table(table, tmp_path / "tokens.parquet")
    with pytest.raises(SettingError, match="into must be the Parquet file to write"):
        tagger.tag(tmp_path / "tokens.parquet", word="text", engine=place)
    with pytest.raises(SettingError, match=r"ends in \.parquet"):
        tagger.tag(table, word="text", engine=place, into=tmp_path / "tokens.csv")
    for into, read in (("tokens.parquet", "tokens.parquet"), ("more.parquet", "*.parquet")):
        with pytest.raises(InputError, match="would be written over what is read"):
            tagger.tag(tmp_path / read, word="text", engine=place, into=tmp_path / into)
    with pytest.raises(InputError, match="there is no folder"):
        tagger.tag(table, word="text", engine=place, into=tmp_path / "none" / "out.parquet")


def test_files_of_a_glob_that_differ_are_named_and_leave_nothing(place: Any, tagger: Any, tmp_path: Path):
    table = table_of(corpus(3, 3))
    parquet.write_table(table, tmp_path / "a.parquet")
    other = table.set_column(1, "sentence", table.column("sentence").cast("string"))
    parquet.write_table(other, tmp_path / "b.parquet")
    out = tmp_path / "out.parquet"
    with pytest.raises(InputError, match=r"b\.parquet: the column 'sentence' is .*write both alike"):
        tagger.tag(str(tmp_path / "[ab].parquet"), word="text", engine=place, into=out)
    with pytest.raises(InputError, match="there is no file"):
        tagger.tag(str(tmp_path / "no*.parquet"), word="text", engine=place, into=out)
    assert not out.exists()


def test_models_of_dicts_and_strange_engines_are_refused(tagger: Any):
    of_dicts = kf.LinearChainCRF(n_jobs=1).fit([[{"a": 1.0}, {"b": 1.0}]], [["x", "y"]])
    with pytest.raises(InputError, match="trained on feature dicts"):
        of_dicts.tag(table_of(corpus(2, 1)), word="text")
    with pytest.raises(SettingError, match="engine must be an engine"):
        tagger.tag(table_of(corpus(2, 1)), word="text", engine="duckdb")


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    sizes=st.lists(st.integers(1, 12), max_size=20),
    n_runs=st.integers(1, 5),
    known=st.integers(1, 9),
    cut=st.integers(1, 9),
)
def test_rows_find_their_run_and_unit(sizes: list[int], n_runs: int, known: int, cut: int) -> None:
    """Spark: no run cuts a unit, runs follow each other, and each begins in its stretch or later."""
    document = np.repeat(np.arange(len(sizes)), sizes)
    first = (np.cumsum(sizes) - sizes)[document] if sizes else document
    n_rows, rows = len(document), np.arange(len(document))
    stretch = -(-n_rows // n_runs) or 1
    starts = [min(these) for _, these in groupby(sorted({*first.tolist()}), lambda row: row // known)]
    begins, before = map(np.array, runs_begin(starts, n_runs, stretch))
    at = rows // stretch
    run = np.where(rows < begins[at], before[at], at)
    assert (run == run[first]).all() and (np.diff(run, prepend=0) >= 0).all() and (run <= at).all()
    batches = pyarrow.table({"row": rows, "document": [f"d{k}" for k in document]}).to_batches(cut)
    units = [
        unit
        for batch in with_units((one for one in batches if one.num_rows), 1)
        for unit in batch.column("unit").to_pylist()
    ]
    assert units == first.tolist()
