"""Files that Spark's workers read and label themselves: without Spark here, where rows, cuts and files are looked at;
in Spark beside memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.core.engine import ROW, EngineError, Missing
from kinfolk.errors import InputError

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
from pyarrow import parquet  # noqa: E402

from kinfolk.engines.spark_labelled import Files, LabelledFiles, LabelledRuns  # noqa: E402

SCHEMA = pyarrow.schema([("begin", "int64"), ("size", "int64")])


class Here:
    """What is asked of a context of Spark, in this process."""

    def parallelize(self, tasks: Iterable[Any], n: int) -> Here:
        self.tasks = list(tasks)
        assert len(self.tasks) == n
        return self

    def foreach(self, work: Callable[[Any], None]) -> None:
        for task in self.tasks:
            work(task)


def first_and_size(run: Any) -> Any:
    """Of every row where its unit begins, and how many rows of it the run has."""
    unit = run.column("unit").to_numpy()
    assert (np.diff(unit) >= 0).all() and (np.diff(run.column(ROW).to_numpy()) == 1).all()
    size = np.unique(unit, return_inverse=True, return_counts=True)
    return pyarrow.table({"size": size[2][size[1]], "begin": unit})


def written(folder: Path, table: Any, cuts: list[int], in_group: int) -> Files:
    """A table in files."""
    (folder / "in").mkdir(parents=True)
    ends = sorted({0, table.num_rows, *(min(cut, table.num_rows) for cut in cuts)})
    for k, (a, b) in enumerate(pairwise(ends if len(ends) > 1 else [0, 0])):
        parquet.write_table(table.slice(a, b - a), folder / "in" / f"p {k:02}%.parquet", row_group_size=in_group)
    return Files.of(one.as_uri() for one in (folder / "in").iterdir())


@settings(deadline=None, max_examples=30, derandomize=True)
@given(
    sizes=st.lists(st.integers(1, 9), max_size=12),
    cuts=st.lists(st.integers(0, 60), max_size=3),
    in_group=st.integers(1, 20),
    n_runs=st.integers(1, 5),
)
def test_files_are_labelled_in_any_pieces(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], cuts: list[int], in_group: int, n_runs: int
):
    document = np.repeat(np.arange(len(sizes)), sizes)
    table = pyarrow.table({"page": pyarrow.array(range(len(document)), "int16"),
                           "document": pyarrow.array([f"d{k}" for k in document], "string")})  # fmt: skip
    folder = tmp_path_factory.mktemp("files")
    files = written(folder, table, cuts, in_group)
    starts = files.units_begin("document", ["document", "page"])
    begins = (np.cumsum(sizes) - sizes).tolist() if sizes else []
    assert starts.tolist() == begins and files.n_rows == len(document) and files.is_plain()
    labelled = LabelledRuns((ROW, "page", "document"), 3, ("page",), "document", first_and_size, SCHEMA)
    asked = LabelledFiles.of(files, labelled, starts, n_runs, -(-len(document) // n_runs) or 1)
    asked.write(Here(), str(folder / "out"), "zstd")
    answer = parquet.read_table(folder / "out")
    assert answer.schema.equals(pyarrow.schema([*table.schema, *SCHEMA])) and answer.select([0, 1]).equals(table)
    assert answer.column("begin").to_pylist() == [begins[k] for k in document]
    assert answer.column("size").to_pylist() == [sizes[k] for k in document]
    names = {one.name for one in (folder / "out").iterdir()}
    assert names == {"_SUCCESS", *(f"part-{k:05}.parquet" for k in range(len(asked.parts)))}


def test_what_workers_cannot_do_without_spark_is_known(tmp_path: Path):
    mixed = written(tmp_path / "a", pyarrow.table({"id": ["a", "b", "a", "b"]}), [2], 4)
    apart = written(tmp_path / "b", pyarrow.table({"id": ["a", "b", "b", "c", "a"]}), [3], 1)
    fraction = written(tmp_path / "c", pyarrow.table({"id": [1.0, 2.0]}), [], 4)
    assert [one.units_begin("id", ["id"]) for one in (mixed, apart, fraction)] == [None, None, None]
    times = pyarrow.table({"id": ["a"], "at": pyarrow.array([1], pyarrow.timestamp("ns"))})
    assert not written(tmp_path / "d", times, [], 4).is_plain()


def test_gaps_have_the_number_of_their_row(tmp_path: Path):
    table = pyarrow.table({"id": ["a"] * 9, "word": [*"abcdefg", None, None], "tags": [["x"]] * 9})
    for name, groups in (("flat", table.drop_columns(["tags"])), ("nested", table)):
        files = written(tmp_path / name, groups, [4, 6], 2)
        with pytest.raises(Missing, match="row 7 has no 'word'"):
            files.units_begin("id", ["id", "word"])


def test_a_part_that_fails_leaves_nothing_in_its_place(tmp_path: Path):
    def broken(run: Any) -> Any:
        raise ValueError("no")

    files = written(tmp_path, pyarrow.table({"id": ["a", "b"]}), [], 4)
    labelled = LabelledRuns((ROW, "id"), 2, (), "id", broken, SCHEMA)
    with pytest.raises(ValueError, match="no"):
        LabelledFiles(files, labelled, ((0, 2),)).write(Here(), str(tmp_path / "out"), "snappy")
    assert not list((tmp_path / "out").iterdir())


def test_files_that_are_none_or_damaged_are_named(tmp_path: Path):
    (tmp_path / "no.parquet").write_text("no Parquet")
    with pytest.raises(InputError, match=r"no\.parquet: cannot be read"):
        Files.of([(tmp_path / "no.parquet").as_uri()])

    files = written(tmp_path, pyarrow.table({"id": [f"number {k}" for k in range(1000)]}), [], 1000)
    (path,) = map(Path, files.names)
    path.write_bytes(path.read_bytes()[:4] + bytes(1000) + path.read_bytes()[1004:])
    with pytest.raises(InputError, match=r"p 00%\.parquet: cannot be read"):
        files.units_begin("id", ["id"])


# -- In Spark -----------------------------------------------------------------------------------------


def newswire(n_documents: int) -> Any:
    """Documents with columns of types that have to stay."""
    news = kf.generate_newswire(n_documents, seed=3)
    n = news.n_tokens
    return pyarrow.table({
        "document": [f"d{k}" for k in news.token_documents], "sentence": news.token_sentences,
        "word": news.columns["word"].strings(), "pos": news.columns["pos"].strings(),
        "small": pyarrow.array([None if k % 5 else k % 100 for k in range(n)], "int8"),
        "part": pyarrow.array(np.arange(n) / 7, "float32"), "odd": [k % 2 == 1 for k in range(n)],
        "day": pyarrow.array(range(n), "date32"), "some": [[k] * (k % 3) for k in range(n)],
    })  # fmt: skip


@pytest.fixture(scope="module")
def tagger() -> Any:
    return kf.LinearChainCRF(n_jobs=1).fit(kf.generate_newswire(20, seed=1))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Folders that were written without Spark's writer."""
    folders: list[str] = []
    whole = LabelledFiles.write

    def write(self: LabelledFiles, context: Any, folder: str, codec: str) -> None:
        folders.append(folder)
        whole(self, context, folder, codec)

    monkeypatch.setattr(LabelledFiles, "write", write)
    return folders


def tagged(tagger: Any, path: Path, out: Path, engine: Any = None) -> Any:
    tagger.tag(str(path), probability="surely", engine=engine, into=out)
    return parquet.read_table(out)


@pytest.mark.spark
def test_files_and_what_is_mixed_get_the_rows_that_memory_gives(
    spark_session: Any, tagger: Any, tmp_path: Path, asked: list[str]
):
    table = newswire(6)
    written(tmp_path / "lying together", table, [100, 101, 400], 64)
    written(tmp_path / "mixed", table.take(np.argsort(np.arange(len(table)) % 2, kind="stable")), [300], 64)
    times = pyarrow.array([k * 1000 for k in range(len(table))], pyarrow.timestamp("us"))
    written(tmp_path / "times", table.append_column("at", times), [300], 64)
    written(tmp_path / "nobody", table.slice(0, 0), [], 64)
    with kf.Spark(spark_session) as engine:
        for name, n_asked in (("lying together", 1), ("mixed", 1), ("times", 1), ("nobody", 2)):
            source = tmp_path / name / "in" / "*.parquet"
            known = tagged(tagger, source, tmp_path / "known.parquet")
            answer = tagged(tagger, source, tmp_path / "out.parquet", engine)
            assert (
                answer.drop_columns(["surely"])
                .cast(known.drop_columns(["surely"]).schema)
                .equals(known.drop_columns(["surely"]))
            ), name
            np.testing.assert_allclose(answer.column("surely"), known.column("surely"), atol=1e-12)
            assert len(asked) == n_asked, name
    assert {one.name for one in tmp_path.iterdir() if one.suffix} == {"known.parquet", "out.parquet"}


@pytest.mark.spark
def test_answers_are_frames_too_and_folders_that_divide_are_left_to_spark(
    spark_session: Any, tagger: Any, tmp_path: Path, asked: list[str]
):
    table = newswire(3)
    for k in (0, 1):
        (tmp_path / "in.parquet" / f"half={k}").mkdir(parents=True)
        half = table.slice(k * 200, 200 if k == 0 else None)
        parquet.write_table(half, tmp_path / "in.parquet" / f"half={k}" / "rows.parquet")
    known = tagger.tag(table).column("label").to_pylist()
    with kf.Spark(spark_session) as engine:
        answer = tagged(tagger, tmp_path / "in.parquet", tmp_path / "out.parquet", engine)
        assert not asked and answer.column("half").to_pylist() == [0] * 200 + [1] * (len(table) - 200)
        assert answer.column("label").to_pylist() == known


@pytest.mark.spark
def test_a_task_that_fails_leaves_what_was_there(spark_session: Any, tmp_path: Path):
    def begin_twice(run: Any) -> Any:
        return pyarrow.table({"begin": run.column("unit"), "size": run.column("unit")})

    def broken(run: Any) -> Any:
        if run.column(ROW)[0].as_py():
            raise ValueError("not this run, please")
        return begin_twice(run)

    written(tmp_path / "a", pyarrow.table({"id": ["a", "a", "b", "b"]}), [], 4)
    with kf.Spark(spark_session) as engine:
        engine.view(str(tmp_path / "a" / "in" / "*.parquet"), "given", ROW)
        query = engine.labelled("given", ["id"], "id", [], broken, ["id"], "said", SCHEMA)
        engine.write("SELECT 1 AS n", tmp_path / "out.parquet")
        with pytest.raises(EngineError, match="ValueError: not this run, please"):
            engine.write(query, tmp_path / "out.parquet")
        query = engine.labelled("given", ["id"], "id", [], begin_twice, ["id"], "said", SCHEMA)
        rows = [("a", 0, 0), ("a", 0, 0), ("b", 2, 2), ("b", 2, 2)]
        assert [tuple(row) for row in engine.frame(query).sort("id").collect()] == rows
        assert engine.rows(query) == rows
    assert parquet.read_table(tmp_path / "out.parquet").column("n").to_pylist() == [1]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "out.parquet"]
