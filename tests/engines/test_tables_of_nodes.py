"""`StackedNodes.fit_tables` and `predict_tables`: every kind of table in and out, in memory and in an engine alike."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import kinfolk as kf
from kinfolk.core.engine import Engine, EngineError
from kinfolk.engines.duckdb import DuckDB
from kinfolk.errors import DataWarning, InputError, SettingError

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
duckdb = pytest.importorskip("duckdb", reason="the engine DuckDB needs duckdb")
pytestmark = pytest.mark.usefixtures("holds")

TEMPLATES: list[Any] = [
    kf.Count("links_to"), kf.LogCount("linked_from"), kf.Mean("links_to"), kf.Proportion("linked_from"),
    kf.Max("links_to"), kf.Exists("linked_from"), kf.Mean("links_to @ links_to"), kf.Count("links_to @ linked_from"),
    kf.Mean("links_to", of="features"),
]  # fmt: skip


def world(n: int, seed: int, labelled: float = 0.5) -> tuple[Any, Any]:
    """Arrow tables of nodes and links."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    ids = [f"n{i}" for i in rng.permutation(n)]
    label = [["no", "yes"][c] if here else None for c, here in zip(truth, rng.random(n) < labelled, strict=True)]
    nodes = {"id": ids, "label": label, "x": truth + rng.normal(size=n), "colour": rng.choice(["red", "blue"], n)}
    source, target = rng.integers(n, size=(2, 2 * n))
    edges = {"source": [ids[i] for i in source], "target": [ids[i] for i in target]}
    return pyarrow.table(nodes), pyarrow.table(edges)


def model(templates: Any = None, **given: Any) -> kf.StackedNodes:
    options = {"base": GaussianNB(), "depth": 1, "n_jobs": 1, "folds": 3, "random_state": 0} | given
    return kf.StackedNodes(templates=templates, **options)


@pytest.fixture(scope="module")
def tables() -> tuple[Any, Any]:
    return world(90, 0)


@pytest.fixture(scope="module")
def made(tables: tuple[Any, Any]) -> kf.StackedNodes:
    return model().fit_tables(*tables)


def lists(table: Any) -> dict[str, list[Any]]:
    if isinstance(table, str | Path):
        table = parquet.read_table(table)
    if hasattr(table, "collect"):  # polars, a lazy one; Spark's rows are no table
        found = table.collect()
        if isinstance(found, list):
            return {name: [row[name] for row in found] for name in table.columns}
        table = found
    if hasattr(table, "to_arrow_table"):  # DuckDB
        table = table.to_arrow_table()
    if hasattr(table, "to_pydict"):
        return dict(table.to_pydict())
    if hasattr(table, "to_dicts"):
        return {name: table[name].to_list() for name in table.columns}
    return {str(name): list(table[name]) for name in table}


def check_answer(found: Any, expected: Any) -> None:
    got, known = lists(found), lists(expected)
    assert list(got) == list(known)
    for name, column in known.items():
        if name.startswith("probability"):
            np.testing.assert_allclose(got[name], column, rtol=0, atol=1e-9)
        else:
            assert [one if one == one else None for one in got[name]] == column, name


# -- kinds of tables ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "lazy", "relation", "lists"])
@pytest.mark.parametrize("inside", [False, True], ids=["memory", "duckdb"])
def test_what_comes_out_is_of_the_kind_that_came(
    small_duckdb: DuckDB, made: kf.StackedNodes, tables: Any, kind: str, inside: bool
):
    if kind in ("polars", "lazy"):
        polars = pytest.importorskip("polars")
    makers: dict[str, Any] = {
        "arrow": lambda one: one, "pandas": lambda one: one.to_pandas(), "lists": lambda one: one.to_pydict(),
        "polars": lambda one: polars.from_arrow(one), "lazy": lambda one: polars.from_arrow(one).lazy(),
        "relation": lambda one: duckdb.connect().from_arrow(one),
    }  # fmt: skip
    nodes, edges = map(makers[kind], tables)
    expected = made.predict_tables(*tables, label="label", proba=True)
    assert expected.column_names[4:] == ["predicted", "probability_no", "probability_yes"]
    with made_with(made, small_duckdb if inside else kf.Threads()) as asked:
        found = asked.predict_tables(nodes, edges, label="label", proba=True)
    assert type(found) is type(nodes)
    if kind == "pandas":
        assert found.index.equals(nodes.index)
    check_answer(found, expected)


@contextmanager
def made_with(model: kf.StackedNodes, engine: Any) -> Iterator[kf.StackedNodes]:
    """A model with an engine, for a while."""
    try:
        yield model.set_params(engine=engine)
    finally:
        model.set_params(engine=None)


def test_every_engine_gives_its_own_kind_and_files(engine: Engine, made: kf.StackedNodes, tables: Any, tmp_path: Path):
    nodes, edges = tables
    for k in range(3):
        parquet.write_table(nodes.slice(30 * k, 30), tmp_path / f"nodes-{k}.parquet")
    parquet.write_table(edges, tmp_path / "edges.parquet")
    files = (str(tmp_path / "nodes-*.parquet"), tmp_path / "edges.parquet")
    out = tmp_path / "out.parquet"
    with made_with(made, engine) as asked:
        assert asked.predict_tables(*files, label="label", into=out) == out
        held = asked.predict_tables(nodes, edges, label="label", into=tmp_path / "too.parquet")
        engine.read(nodes, "kf_test_nodes", "kf_number")
        own = engine.frame("SELECT id, label, x, colour FROM kf_test_nodes ORDER BY kf_number")
        assert engine.is_own(own)
        given_back = asked.predict_tables(own, edges, label="label")
        assert engine.is_own(given_back)
        again = model(engine=engine).fit_tables(*files)
    expected = made.predict_tables(nodes, edges, label="label")
    for found in (out, held):
        check_answer(found, expected)
    assert sorted(lists(given_back)["id"]) == sorted(lists(expected)["id"])
    np.testing.assert_allclose(
        again.set_params(engine=None).predict_tables(nodes, edges, label="label").column("probability"),
        expected.column("probability"),
        atol=1e-9,
    )


def test_csv_files_are_what_they_are_in_memory(small_duckdb: DuckDB, tmp_path: Path):
    """Numbers and truth values are known by their cells, ids and labels are as they are written."""
    cells = (f"0{i},{int(i % 3 > 0)},{i % 3}.5,{['false', 'true'][i % 2]},a {i % 3} b" for i in range(30))
    lines = ["id,label,x,flag,title", *cells]
    (tmp_path / "nodes.csv").write_text("\n".join(lines) + "\n")
    links = ["source,target,weight", *(f"0{i},0{(i * 7) % 30},{1 + i % 2}" for i in range(30))]
    (tmp_path / "edges.csv").write_text("\n".join(links) + "\n")
    files = (tmp_path / "nodes.csv", tmp_path / "edges.csv")
    asked: Any = {"label": "label", "text": "title", "weight": "weight"}
    graph = kf.read_tables(*files, **asked)
    plain = model([kf.Count("links_to")]).fit(graph)
    inside = model([kf.Count("links_to")], engine=small_duckdb).fit_tables(*files, **asked)
    assert tuple(inside.node_columns_) == tuple(plain.node_columns_)  # type: ignore[arg-type]
    expected = plain.predict_proba(graph, known="none")
    del asked["text"]  # the model knows its columns
    inside.predict_tables(*files, known="none", proba=True, into=tmp_path / "o.parquet", **asked)
    found = parquet.read_table(tmp_path / "o.parquet")
    np.testing.assert_allclose(found.column("probability_1"), expected[:, 1], atol=1e-9)
    assert found.column("id").to_pylist()[:2] == ["00", "01"]


@pytest.mark.parametrize("labels", [[0, 1], [True, False], [0.5, 1.5]], ids=str)
def test_labels_have_the_type_they_came_with(small_duckdb: DuckDB, labels: list[Any]):
    nodes, edges = world(40, 1, 1.0)
    typed = [labels[one == "yes"] for one in nodes.column("label").to_pylist()]
    nodes = nodes.set_column(1, "label", [typed])
    made = model().fit_tables(nodes, edges)
    plain = made.predict_tables(nodes, edges, label="label", known="none")
    inside = made.set_params(engine=small_duckdb).predict_tables(nodes, edges, label="label", known="none")
    assert plain.schema == inside.schema and plain.column("predicted").equals(inside.column("predicted"))
    assert plain.schema.field("predicted").type == nodes.schema.field("label").type


def test_samples_and_limits_are_the_same_in_memory(engine: Engine):
    nodes, edges = world(150, 2)
    hub = pyarrow.table({"source": ["n7"] * 60, "target": [f"n{i}" for i in range(20, 80)]})
    edges = pyarrow.concat_tables([edges, hub])
    limits: Any = {"sample": 30, "most_links": 5}
    plain = model(known="true").fit_tables(nodes, edges, **limits)
    inside = model(known="true", engine=engine).fit_tables(nodes, edges, **limits)
    assert plain.memory_ is not None and inside.memory_ is not None
    assert plain.memory_.ids == inside.memory_.ids and len(plain.memory_.ids) == 30
    expected = plain.predict_tables(nodes, edges, label="label", most_links=5)
    check_answer(inside.predict_tables(nodes, edges, label="label", most_links=5), expected)


def test_a_graph_in_memory_is_in_memory_whatever_the_engine(small_duckdb: DuckDB, tables: Any):
    graph = kf.Graph.from_frames(*tables, label="label")
    plain, inside = model().fit(graph), model(engine=small_duckdb).fit(graph)
    assert np.array_equal(plain.predict_proba(graph, known="none"), inside.predict_proba(graph, known="none"))


def test_the_engine_is_no_part_of_a_model_file(small_duckdb: DuckDB, made: kf.StackedNodes, tmp_path: Path):
    with made_with(made, small_duckdb) as asked:
        asked.save(tmp_path / "m.kinfolk")
        assert asked.get_params()["engine"] is small_duckdb
    assert kf.load_model(tmp_path / "m.kinfolk").engine is None


# -- batches and shapes -------------------------------------------------------------------------------


def shape(name: str) -> tuple[Any, Any]:
    """Graphs of one kind or another."""
    n = {"one": 1, "chain": 2000}.get(name, 60)
    nodes = world(n, 3)[0]
    ids = nodes.column("id").to_pylist()
    ends = {
        "one": ([], []), "no links": ([], []), "chain": (ids[:-1], ids[1:]),
        "hub": ([ids[0]] * (n - 1) + ids[1:], ids[1:] + [ids[0]] * (n - 1)),
    }[name]  # fmt: skip
    types = pyarrow.schema([("source", "string"), ("target", "string")])
    return nodes, pyarrow.table({"source": ends[0], "target": ends[1]}, types)


@pytest.fixture(scope="module")
def everything(tables: Any) -> kf.StackedNodes:
    return model(TEMPLATES, base=LogisticRegression(max_iter=200)).fit_tables(*tables)


@pytest.mark.parametrize("name", ["one", "no links", "hub", "chain"])
def test_every_shape_and_template_in_runs_of_any_length(
    small_duckdb: DuckDB, everything: kf.StackedNodes, name: str, monkeypatch: pytest.MonkeyPatch
):
    nodes, edges = shape(name)
    expected = everything.predict_tables(nodes, edges, label="label", proba=True, forced=True)
    whole = DuckDB.batches
    for length in (499,) if name == "chain" else (23,):

        def cut(self: DuckDB, query: str, n_rows: int, length: int = length) -> Any:
            for batch in whole(self, query, n_rows):
                yield from (batch.slice(start, length) for start in range(0, batch.num_rows, length))

        monkeypatch.setattr(DuckDB, "batches", cut)
        with made_with(everything, small_duckdb) as asked:
            check_answer(asked.predict_tables(nodes, edges, label="label", proba=True, forced=True), expected)


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_the_same_nodes_in_other_pieces_get_the_same_answers(small_duckdb: DuckDB, data: st.DataObject):
    """Of tables in another order and of other pieces, in memory and in DuckDB, for each template by itself."""
    template = data.draw(st.sampled_from(TEMPLATES))
    nodes, edges = world(data.draw(st.integers(20, 50)), data.draw(st.integers(0, 99)), 0.8)
    made = model([template]).fit_tables(nodes, edges)
    expected = made.predict_tables(nodes, edges, label="label", known="none")
    rows = dict(zip(lists(expected)["id"], lists(expected)["probability"], strict=True))
    order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(nodes.num_rows)
    cuts = sorted(data.draw(st.lists(st.integers(0, nodes.num_rows), max_size=4)))
    shuffled = nodes.take(order)
    pieces = pyarrow.concat_tables(
        [shuffled.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, nodes.num_rows], strict=True)]
    )
    for engine in (None, small_duckdb):
        found = lists(made.set_params(engine=engine).predict_tables(pieces, edges, label="label", known="none"))
        assert found["id"] == lists(pieces)["id"]
        np.testing.assert_allclose(found["probability"], [rows[one] for one in found["id"]], rtol=0, atol=1e-12)


# -- what cannot be done ------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [False, True], ids=["memory", "duckdb"])
def test_what_is_wrong_with_tables_is_said(small_duckdb: DuckDB, made: kf.StackedNodes, tables: Any, inside: bool):
    nodes, edges = tables
    with made_with(made, small_duckdb if inside else None) as asked:
        with pytest.raises(InputError, match="no nodes"):
            asked.predict_tables(nodes.slice(0, 0), edges)
        with pytest.raises(InputError, match=r"there is a column 'predicted' already.*`predicted=...`"):
            asked.predict_tables(nodes.append_column("predicted", nodes.column("x")), edges, label="label")
        with pytest.raises(SettingError, match="different names"):
            asked.predict_tables(nodes, edges, label="label", predicted="p", probability="p")
        with pytest.raises(InputError, match="no column 'from'"):
            asked.predict_tables(nodes, edges, label="label", source="from")
        with pytest.raises(TypeError, match=r"'ids'.*id, label"):
            asked.predict_tables(nodes, edges, ids="id")  # type: ignore[call-arg]
        with pytest.raises(SettingError, match="most_links"):
            asked.predict_tables(nodes, edges, label="label", most_links=0)
        strange = pyarrow.table({"source": ["n0", "nobody"], "target": ["n1", "n2"]})
        with pytest.raises(InputError, match=r"'nobody' is not in nodes"):
            asked.predict_tables(nodes, strange, label="label", dangling="refuse")
        with pytest.warns(DataWarning, match=r"count as 0 in every node: 'x'"):
            asked.predict_tables(nodes.drop_columns(["x"]), edges, label="label")


def test_files_need_an_engine_and_into(small_duckdb: DuckDB, made: kf.StackedNodes, tables: Any, tmp_path: Path):
    nodes, edges = tables
    parquet.write_table(nodes, tmp_path / "n.parquet")
    with pytest.raises(InputError, match=r"got the path.*kf.DuckDB\(\)"):
        made.predict_tables(tmp_path / "n.parquet", edges)
    with pytest.raises(SettingError, match="into"):
        made.predict_tables(nodes, edges, into=tmp_path / "o.parquet")
    with made_with(made, small_duckdb) as asked:
        for into in (None, tmp_path / "o.csv"):
            with pytest.raises(SettingError, match="into"):
                asked.predict_tables(tmp_path / "n.parquet", edges, into=into)
        parquet.write_table(edges, tmp_path / "e.parquet")
        for into in ("n.parquet", "e.parquet"):
            with pytest.raises(InputError, match="would be written over what is read"):
                files = tmp_path / "n.parquet", {"link": tmp_path / "e.parquet"}
                asked.predict_tables(*files, label="label", into=tmp_path / into)
        with pytest.raises(InputError, match="there is no folder"):
            asked.predict_tables(nodes, edges, label="label", into=tmp_path / "none" / "o.parquet")
    assert sorted(os.listdir(tmp_path)) == ["e.parquet", "n.parquet"]


def test_files_of_a_glob_are_one_table(small_duckdb: DuckDB, made: kf.StackedNodes, tables: Any, tmp_path: Path):
    nodes, edges = tables
    out = tmp_path / "out.parquet"

    def asked(second: Any) -> Any:
        parquet.write_table(nodes.slice(0, 50), tmp_path / "n-0.parquet")
        parquet.write_table(second, tmp_path / "n-1.parquet")
        with made_with(made, small_duckdb) as one:
            return one.predict_tables(str(tmp_path / "n-*.parquet"), edges, label="label", into=out)

    with pytest.raises(InputError, match=r"n-1.parquet: the column 'x' is VARCHAR, and in .*n-0.parquet it is DOUBLE"):
        asked(nodes.slice(50).set_column(2, "x", [["1.5"] * 40]))
    with pytest.raises(InputError, match=rf"ids must be distinct; {nodes.column('id')[49].as_py()!r} was in .*row 49"):
        asked(nodes.slice(49))
    assert not out.exists()


def test_a_disk_that_fills_leaves_nothing_half_written(made: kf.StackedNodes, tables: Any, tmp_path: Path):
    """Files of this process may not grow beyond a few kilobytes while it writes."""
    resource = pytest.importorskip("resource", reason="limits of files are those of Unix")
    out, held = tmp_path / "out.parquet", resource.getrlimit(resource.RLIMIT_FSIZE)
    out.write_bytes(b"before")
    with DuckDB(memory_limit="200MB", threads=1) as engine, made_with(made, engine) as asked:
        whole = engine.write

        def write(query: str, path: Any) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, held[1]))
            try:
                whole(query, path)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, held)

        with pytest.MonkeyPatch.context() as patch, pytest.raises(EngineError, match="DuckDB cannot read or write"):
            patch.setattr(engine, "write", write)
            asked.predict_tables(*tables, label="label", into=out)
    assert out.read_bytes() == b"before" and os.listdir(tmp_path) == ["out.parquet"]


@pytest.mark.parametrize("name", ["duckdb", "spark"])
def test_an_engine_that_is_not_installed(
    made: kf.StackedNodes, tables: Any, name: str, monkeypatch: pytest.MonkeyPatch
):
    for module in ("duckdb", "pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, module, None)
    engine = kf.DuckDB() if name == "duckdb" else kf.Spark()
    with made_with(made, engine) as asked, pytest.raises(InputError, match=rf"pip install 'kinfolk\[{name}\]'"):
        asked.predict_tables(*tables, label="label")


# -- what differs from training is said --------------------------------------------------------------------


def weighted(tables: tuple[Any, Any]) -> tuple[Any, Any]:
    nodes, edges = tables
    return nodes, edges.append_column("w", [np.arange(len(edges)) % 3 + 0.5])


@pytest.mark.parametrize("inside", [False, True])
def test_weights_and_directions_of_links_are_those_of_training(small_duckdb: DuckDB, inside: bool):
    nodes, edges = weighted(world(60, 3))
    engine, links = small_duckdb if inside else None, {"weight": "w", "directed": False}
    made = model(engine=engine).fit_tables(nodes, edges, **links)
    expected = made.predict_tables(nodes, edges, proba=True, **links)
    found = made.predict_tables(nodes, edges, proba=True)
    assert found.equals(expected)
    with pytest.warns(DataWarning, match=r"'links_to' had weights in training, and have none here.*`weight="):
        other = made.predict_tables(nodes, edges, proba=True, weight=None, directed=False)
    assert not other.equals(expected)


def test_the_file_of_a_model_knows_how_links_were_read(made: kf.StackedNodes, tmp_path: Path):
    nodes, edges = weighted(world(60, 3))
    trained = model().fit_tables(nodes, edges, weight="w")
    trained.save(tmp_path / "m.kinfolk")
    loaded = kf.load_model(tmp_path / "m.kinfolk")
    assert loaded.predict_tables(nodes, edges).equals(trained.predict_tables(nodes, edges))
    with pytest.warns(DataWarning, match="'linked_from' had weights in training"):
        loaded.predict(kf.Graph.from_frames(nodes, edges, label="label"), known="none")


def test_weights_that_training_had_not_are_told(made: kf.StackedNodes):
    nodes, edges = weighted(world(60, 3))
    with pytest.warns(DataWarning, match="'linked_from' had no weights in training, and have some here"):
        made.predict_tables(nodes, edges, weight="w", known="none")


@pytest.mark.parametrize("inside", [False, True])
def test_values_that_training_never_saw_are_counted(small_duckdb: DuckDB, made: kf.StackedNodes, inside: bool):
    nodes, edges = world(50, 4)
    colours = ["Red"] * 7 + ["green"] * 3 + ["blue"] * 40
    nodes = nodes.set_column(nodes.column_names.index("colour"), "colour", [colours])
    told = r"10 of 50 nodes have a value of 'colour' that training never saw \('Red', 'green'\)"
    with made_with(made, small_duckdb if inside else None) as asked, pytest.warns(DataWarning, match=told):
        asked.predict_tables(nodes, edges, known="none")


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        ("x", [str(k) for k in range(50)], "column 'x' held numbers in training, and holds strings here"),
        ("colour", list(range(50)), "column 'colour' held strings in training, and holds numbers here"),
    ],
)
def test_columns_of_another_kind_are_refused(
    small_duckdb: DuckDB, made: kf.StackedNodes, inside: bool, column: str, values: list[Any], told: str
):
    nodes, edges = world(50, 4)
    nodes = nodes.set_column(nodes.column_names.index(column), column, [values])
    with made_with(made, small_duckdb if inside else None) as asked, pytest.raises(InputError, match=told):
        asked.predict_tables(nodes, edges, known="none")
