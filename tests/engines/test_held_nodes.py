"""Ids and links of tables that an engine has in this process, where they are small: which they are, and what of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.core.engine import ROW
from kinfolk.engines.duckdb import DuckDB
from kinfolk.engines.spark_labelled import AnsweredRuns, Files, LabelledFiles, even_parts
from kinfolk.graph.engine_graph import EngineGraph
from kinfolk.graph.held_in_engine import may_be_held
from kinfolk.graph.in_engine import predict_in
from kinfolk.graph.table_graphs import TableParts

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

N, VOTES = 40, 3 * 8  # nodes; bytes of what a level says of one


def world(n: int = N) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=n)
    nodes = {"id": rng.permutation(n), "label": np.where(rng.random(n) < 0.6, truth.astype(str), None).tolist()}
    source, target = rng.integers(n, size=(2, 3 * n))
    edges = {"source": source, "target": target, "other": [f"{i}" * 100 for i in source]}
    return pyarrow.table(nodes | {"x": truth + rng.normal(size=n)}), pyarrow.table(edges)


def model(*templates: Any, **given: Any) -> kf.StackedNodes:
    made = kf.StackedNodes(LogisticRegression(), list(templates), n_jobs=1, folds=4, random_state=0, **given)
    return made.fit(kf.Graph.from_frames(*world(), label="label"))


@pytest.mark.parametrize(("bytes_more", "held"), [(0, True), (-1, False)])
def test_what_is_larger_than_an_engine_holds_is_joined(
    small_duckdb: DuckDB, monkeypatch: pytest.MonkeyPatch, bytes_more: int, held: bool
):
    ids, links = 8 * N, 2 * 8 * 3 * N
    monkeypatch.setattr(DuckDB, "holds", VOTES * N + ids + links + bytes_more)
    graph = EngineGraph.of(small_duckdb, *world(), TableParts.of({"label": "label"}), hold=VOTES)
    assert (graph.held is not None) == held
    assert list(graph.relations) == ["links_to", "linked_from"]
    assert graph.weighs() == {"links_to": False, "linked_from": False}
    assert graph.id_of(3) == str(world()[0].column("id")[3])
    graph.drop_links()
    small_duckdb.drop("kf_nodes")


def test_texts_count_by_their_letters(small_duckdb: DuckDB):
    table = pyarrow.table({"name": ["one", "three", None], "n": [1, 2, 3]})
    small_duckdb.view(table, "kf_test_texts", ROW)
    size = 3 * 2 * 8 + len("one" + "three")
    assert small_duckdb.held("kf_test_texts", ["name", "n"], size).equals(table)
    assert small_duckdb.held("kf_test_texts", ["name", "n"], size - 1) is None
    assert small_duckdb.held("kf_test_texts", [ROW], 24).column(ROW).to_pylist() == [0, 1, 2]
    small_duckdb.drop("kf_test_texts")


def test_paths_and_features_of_neighbours_are_joined():
    assert may_be_held(model(kf.Count("links_to | linked_from"), kf.Max("~links_to")))
    assert not may_be_held(model(kf.Count("links_to"), kf.Mean("links_to @ links_to")))
    assert not may_be_held(model(kf.Count("links_to"), kf.Mean("links_to", of="features")))


@pytest.mark.parametrize("size", [1, 7, 39, 40])
def test_pieces_of_links_give_what_all_of_them_give(small_duckdb: DuckDB, monkeypatch: pytest.MonkeyPatch, size: int):
    monkeypatch.setattr(DuckDB, "holds", 100_000)
    monkeypatch.setattr("kinfolk.graph.held_in_engine.LEAST_PIECE", size)
    monkeypatch.setattr("kinfolk.graph.held_in_engine.MOST_PIECES", N)
    made = model(kf.Count("links_to"), kf.Mean("linked_from"), kf.Max("links_to"), kf.Concat("links_to"), depth=2)
    expected = made.predict_proba(kf.Graph.from_frames(*world(), label="label"), forced=True)
    predict_in(small_duckdb, made, *world(), label="label", forced=True)
    found = small_duckdb.arrow(f"SELECT * FROM kf_labels ORDER BY {ROW}")
    for c in range(3):
        np.testing.assert_allclose(found.column(f"p{c}"), expected[:, c], atol=1e-12)


def test_files_are_held_up_to_a_size(tmp_path: Path):
    nodes, _ = world()
    for k in range(2):
        parquet.write_table(nodes.slice(20 * k, 20), tmp_path / f"{k}.parquet")
    files = Files.of([str(tmp_path / f"{k}.parquet") for k in range(2)])
    assert files.held(["x", "id"], 17 * N).equals(nodes.select(["x", "id"]))
    assert files.held(["x", "id"], 16 * N - 1) is None
    assert files.held([ROW], 9 * N).column(ROW).to_pylist() == list(range(N))
    parquet.write_table(nodes.slice(0, 0), tmp_path / "none.parquet")
    nothing = Files.of([str(tmp_path / "none.parquet")]).held(["id"], 0)
    assert nothing.num_rows == 0 and nothing.schema.names == ["id"]


@pytest.mark.parametrize("n_parts", [1, 3, 7, 100])
def test_parts_have_every_row_once(n_parts: int):
    for n in (0, 1, 6, 50):
        parts = even_parts(n, n_parts)
        assert [row for low, high in parts for row in range(low, high)] == list(range(n))
        assert 1 <= len(parts) <= n_parts


def test_runs_are_answered_so_many_rows_at_a_time():
    sizes = []

    def kernel(run: Any) -> Any:
        sizes.append(run.num_rows)
        return pyarrow.table({ROW: run.column(ROW), "twice": pyarrow.compute.multiply(run.column("x"), 2)})

    schema = pyarrow.schema([(ROW, "int64"), ("twice", "float64")])
    runs = AnsweredRuns((ROW, "name", "x"), 2, {"new": "twice"}, kernel, schema, 3)
    batch = pyarrow.record_batch({ROW: [4, 5, 6, 7], "name": list("abcd"), "x": [1, 2, 3, 4]})
    found = pyarrow.Table.from_batches(runs([batch]))
    assert found.to_pydict() == {ROW: [4, 5, 6, 7], "name": list("abcd"), "new": [2.0, 4.0, 6.0, 8.0]}
    assert sizes == [3, 1] and runs.schema.names == ["new"]


@pytest.mark.spark
@pytest.mark.parametrize("known", ["true", "crossfit"])
def test_workers_read_and_write_files_and_let_go_of_what_they_saw(
    spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str
):
    written: list[LabelledFiles] = []
    handed: list[Any] = []
    monkeypatch.setattr("kinfolk.graph.held_in_engine.LEAST_PIECE", 15)
    write = LabelledFiles.write
    monkeypatch.setattr(LabelledFiles, "write", lambda self, *given: (written.append(self), write(self, *given)))
    nodes, edges = world()
    made = model(kf.Count("links_to"), kf.Mean("linked_from"), depth=2, own=True, known=known)
    expected = made.predict_tables(nodes, edges, label="label", proba=True)
    for k, part in enumerate((nodes.slice(0, 25), nodes.slice(25))):
        parquet.write_table(part, tmp_path / f"nodes-{k}.parquet")
    parquet.write_table(edges, tmp_path / "edges.parquet")
    files = (str(tmp_path / "nodes-*.parquet"), str(tmp_path / "edges.parquet"))
    with kf.Spark(spark_session) as engine:
        hand_out = engine.handed_out
        monkeypatch.setattr(engine, "handed_out", lambda value: handed.append(hand_out(value)) or handed[-1])
        out = made.set_params(engine=engine).predict_tables(
            *files, label="label", proba=True, into=tmp_path / "out.parquet"
        )
        made.set_params(engine=None)
    found = parquet.read_table(out)
    assert len(written) == 1 and len(handed) == 3 + 3  # three levels see something beside their nodes; pieces of links
    assert found.drop_columns(found.column_names[4:]).equals(nodes.append_column("predicted", expected["predicted"]))
    for name in expected.column_names[4:]:
        np.testing.assert_allclose(found.column(name), expected.column(name), atol=1e-9)
    with pytest.raises(Exception, match="destroyed"):
        handed[0].unpersist()
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.spark
def test_an_error_of_a_worker_is_told_and_leaves_nothing(spark_session: Any, tmp_path: Path):
    nodes, edges = world()
    made = model(kf.Count("links_to"))
    parquet.write_table(nodes.set_column(2, "x", [[None, *range(1, N)]]), tmp_path / "nodes.parquet")
    parquet.write_table(edges, tmp_path / "edges.parquet")
    files = (tmp_path / "nodes.parquet", tmp_path / "edges.parquet")
    with kf.Spark(spark_session) as engine, pytest.raises(RuntimeError, match="'x'"):
        predict_in(engine, made, *files, label="label")
    with kf.Spark(spark_session) as engine, pytest.raises(RuntimeError, match="'x'"):
        made.set_params(engine=engine).predict_tables(*files, label="label", into=tmp_path / "out.parquet")
    made.set_params(engine=None)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["edges.parquet", "nodes.parquet"]
