"""The table that came goes out: same kind, same rows, same columns, and the cluster of each record."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.clustered import membership

NAMES = ["Ann Lee", "Bob Roy", "Anne Lee", "Cora May", "Rob Roy", "Cora Mai", "Ben Fox", "Ann Poe"]
TOWNS = ["York", "Bath", "York", "Hull", "Bath", "Hull", "York", "Bath"]
WHO = [0, 1, 0, 2, 1, 2, 3, 4]
FOUND = [0, 1, 0, 2, 1, 2, 3, 4]


def rows(n: int = 8) -> dict[str, list[Any]]:
    return {
        "id": [f"r{i}" for i in range(n)], "name": NAMES[:n], "town": TOWNS[:n], "seen": list(range(n)),
        "tags": [[i, i + 1] for i in range(n)],
    }  # fmt: skip


@functools.cache
def linker() -> kf.Linker:
    truth = kf.records_from_frames({**{k: v for k, v in rows().items() if k != "tags"}, "who": WHO}, cluster="who")
    return kf.Linker(["jaro_winkler(name)", "exact(town)"], l2=0.01, n_jobs=1).fit(truth)


class Stream:
    """Any object that hands out a stream of Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def relation(n: int) -> Any:
    connection = duckdb.connect()
    connection.register("given", pa.table(rows(n), schema=SCHEMA))
    return connection.table("given").filter("true")


SCHEMA = pa.schema(
    {"id": pa.string(), "name": pa.string(), "town": pa.string(), "seen": pa.int64(), "tags": pa.list_(pa.int64())}
)
KINDS: dict[str, Callable[[int], Any]] = {
    "pandas": lambda n: pd.DataFrame(rows(n)),
    "polars": lambda n: pl.DataFrame(pa.table(rows(n), schema=SCHEMA)),
    "lazy polars": lambda n: pl.DataFrame(pa.table(rows(n), schema=SCHEMA)).lazy(),
    "arrow": lambda n: pa.table(rows(n), schema=SCHEMA),
    "batches": lambda n: pa.table(rows(n), schema=SCHEMA).to_reader(max_chunksize=3),
    "batch": lambda n: pa.RecordBatch.from_pydict(rows(n), schema=SCHEMA),
    "stream": lambda n: Stream(pa.table(rows(n), schema=SCHEMA)),
    "duckdb": relation,
    "lists": rows,
    "arrays": lambda n: {k: np.array(v, object) for k, v in rows(n).items() if k != "tags"},
}
OUT = {"stream": pa.Table}  # the only kind that cannot go out as it came


def plain(table: Any) -> dict[str, list[Any]]:
    """Any of these as a dict of lists."""
    if isinstance(table, dict):
        return {name: list(values) for name, values in table.items()}
    if isinstance(table, pd.DataFrame):
        return {str(name): table[name].tolist() for name in table.columns}
    if isinstance(table, pl.LazyFrame):
        table = table.collect()
    if isinstance(table, duckdb.DuckDBPyRelation):
        names = table.columns
        found = table.fetchall()
        return {name: [row[k] for row in found] for k, name in enumerate(names)}
    return dict(pa.table(table).to_pydict())


@pytest.mark.parametrize("n", [8, 1, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_table_that_came_goes_out_with_two_more_columns(kind: str, n: int):
    answer = linker().cluster_frame(KINDS[kind](n))
    assert isinstance(answer, OUT.get(kind, type(KINDS[kind](n))))
    before, after = plain(KINDS[kind](n)), plain(answer)
    assert list(after) == [*before, "cluster", "probability"]
    assert {name: after[name] for name in before} == before
    assert after["cluster"] == FOUND[:n]
    assert len(after["probability"]) == n and all(0 <= p <= 1 for p in after["probability"])


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_come_as_the_same_kind_of_table(kind: str):
    frame, pairs = linker().cluster_frame(KINDS[kind](8), pairs=True, least=0.5)
    assert isinstance(pairs, type(frame))
    found = plain(pairs)
    assert list(found) == ["id_left", "id_right", "probability", "together"]
    assert {("r0", "r2"), ("r1", "r4"), ("r3", "r5")} <= {*zip(found["id_left"], found["id_right"], strict=True)}
    assert all(p >= 0.5 for p in found["probability"]) and {*found["together"]} <= {True, False}


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "duckdb"])
def test_a_table_without_pairs_has_typed_columns(kind: str):
    frame, pairs = linker().cluster_frame(KINDS[kind](0), pairs=True)
    assert plain(pairs) == {"id_left": [], "id_right": [], "probability": [], "together": []}
    assert str(pa.table(plain_arrow(frame))["cluster"].type) == "int64"


def plain_arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pd.DataFrame):
        return pa.Table.from_pandas(frame)
    return frame.to_arrow_table() if isinstance(frame, duckdb.DuckDBPyRelation) else pa.table(frame)


def test_the_index_of_pandas_is_kept_even_with_repeats():
    index = pd.Index(["x", "y", "x", "z", "x", "a", "b", "c"], name="old")
    frame = pd.DataFrame(rows(), index=index)
    answer = linker().cluster_frame(frame)
    assert answer.index.equals(index) and answer["cluster"].tolist() == FOUND
    assert "cluster" not in frame.columns  # what came is as it was
    assert answer["cluster"].dtype == np.int64 and answer["probability"].dtype == np.float64


def test_a_relation_goes_out_on_its_own_connection():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE more AS SELECT 'r0' AS id, 7 AS points")
    table = pa.table(rows(), schema=SCHEMA)
    connection.register("people", table)
    answer = linker().cluster_frame(connection.table("people"))
    assert connection.sql("SELECT cluster, points FROM answer JOIN more USING (id)").fetchall() == [(0, 7)]
    assert answer.count("*").fetchall() == [(8,)]


def test_clusters_may_be_named_by_their_first_record():
    answer = linker().cluster_frame(rows(), named_by="id")
    assert answer["cluster"] == ["r0", "r1", "r0", "r3", "r1", "r3", "r6", "r7"]
    with pytest.raises(SettingError, match="named_by"):
        linker().cluster_frame(rows(), named_by="name")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_clusters_named_by_whole_numbers_are_whole_numbers(make: Any):
    """So that they can be joined with the ids; those of two tables that share ids are not."""
    numbered = {**rows(), "id": list(range(100, 108))}
    found = plain(linker().cluster_frame(make(numbered), named_by="id"))["cluster"]
    assert found == [100, 101, 100, 103, 101, 103, 106, 107]
    first, _ = linker().cluster_frame(make(numbered), make(numbered), named_by="id")
    assert plain(first)["cluster"][0] == "first:100"


@pytest.mark.parametrize("more", [{"named_by": "id"}, {}])
def test_two_columns_of_one_name_are_refused(more: dict[str, str]):
    frame = pd.DataFrame(rows())
    twice = frame.set_axis(["id", "town", *frame.columns[2:]], axis=1)
    for wrong in (twice, pa.table(list(rows().values()), names=list(twice.columns))):
        with pytest.raises(InputError, match="records: two columns have the same name, 'town'; rename one of them"):
            linker().cluster_frame(wrong, **more)
        with pytest.raises(InputError, match="two columns have the same name, 'town'; rename one of them"):
            kf.records_from_frames(wrong)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "lists"])
@pytest.mark.parametrize("name", ["cluster", "probability"])
def test_no_column_is_overwritten(kind: str, name: str):
    there = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table, "lists": dict}[kind](
        {**rows(), name: list("abcdefgh")}
    )
    with pytest.raises(InputError, match=f"column '{name}' already.*`{name}='{name}_1'`"):
        linker().cluster_frame(there)
    answer = plain(linker().cluster_frame(there, **{name: f"{name}_1"}))
    assert answer[name] == list("abcdefgh") and f"{name}_1" in answer
    with pytest.raises(SettingError, match="different names"):
        linker().cluster_frame(rows(), cluster="x", probability="x")


def test_without_ids_rows_are_numbered():
    frame = pd.DataFrame(rows()).drop(columns="id")
    answer, pairs = linker().cluster_frame(frame, id=None, pairs=True, least=0.5, named_by="id")
    assert answer["cluster"].tolist() == ["0", "1", "0", "3", "1", "3", "6", "7"]
    assert ("0", "2") in {*zip(pairs["id_left"], pairs["id_right"], strict=True)}


def test_a_column_that_the_model_needs_is_named():
    with pytest.raises(InputError, match=r"no column 'town'.*the model compares by it"):
        linker().cluster_frame(pd.DataFrame(rows()).drop(columns="town"))


def test_links_that_are_given_hold():
    answer = linker().cluster_frame(rows(), must_link=[("r6", "r7")], cannot_link=[("r0", "r2")])
    assert answer["cluster"] == [0, 1, 2, 3, 1, 3, 4, 4]
    with pytest.raises(SettingError, match=r"'r0', 'r2'"):
        linker().cluster_frame(rows(), must_link=[("r0", "r2")], cannot_link=[("r0", "r2")])


@pytest.mark.parametrize("sizes", [(2, 2), (2, 0), (0, 2), (0, 0)])
def test_two_tables_go_out_as_two(sizes: tuple[int, int]):
    left = pd.DataFrame({"id": ["a1", "a2"], "name": ["Ann Lee", "Bob Roy"], "town": ["York", "Bath"], "x": [1, 2]})
    right = pl.DataFrame({"id": ["b1", "b2"], "name": ["Rob Roy", "Anne Lee"], "town": ["Bath", "York"], "y": [3, 4]})
    same = {"left": ["a1", "a2"], "right": ["b2", "b1"]}
    both = kf.records_from_frames(left[["id", "name", "town"]], right.drop("y"), truth=same)
    model = kf.Linker(["jaro_winkler(name)", "exact(town)"], l2=0.01, n_jobs=1).fit(both)
    first, second = model.cluster_frame(left.iloc[: sizes[0]], right.head(sizes[1]))
    assert isinstance(first, pd.DataFrame) and isinstance(second, pl.DataFrame)
    assert list(first.columns) == ["id", "name", "town", "x", "cluster", "probability"]
    assert second.columns == ["id", "name", "town", "y", "cluster", "probability"]
    assert (len(first), len(second)) == sizes
    if sizes == (2, 2):
        assert first["cluster"].tolist() == [0, 1] and second["cluster"].to_list() == [1, 0]


def test_a_stream_that_breaks_off_is_refused():
    class Broken:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            raise ValueError("the stream was released")

    with pytest.raises(InputError, match=r"cannot be read .*released.*make it anew"):
        linker().cluster_frame(Broken())


def test_records_are_read_from_a_stream():
    table = pa.table({"id": ["a", "b"], "name": ["x", "y"]})
    for stream in (table.to_reader(), Stream(table), table.to_batches()[0]):
        items = kf.records_from_frames(stream)
        assert list(items.names) == ["a", "b"] and list(items.columns) == ["name"]


def test_labels_of_pairs_come_in_a_stream_or_a_relation():
    items = kf.records_from_frames({name: values for name, values in rows().items() if name != "tags"})
    labels = pa.table({"left": ["r0", "r1", "r0"], "right": ["r2", "r4", "r1"], "match": [1, 1, 0]})
    connection = duckdb.connect()
    connection.register("labels", labels)
    for given_as in (labels, labels.to_reader(), Stream(labels), connection.table("labels")):
        taught = kf.Linker(["jaro_winkler(name)"], n_jobs=1).fit(items, pairs=given_as)
        assert taught.predict(items)[0] == taught.predict(items)[2]


# -- how surely ---------------------------------------------------------------------------------------


@st.composite
def clustered(draw: st.DrawFn) -> tuple[kf.Mentions, np.ndarray, np.ndarray]:
    n = draw(st.integers(0, 7))
    pairs = [(a, b) for b in range(n) for a in range(b) if draw(st.booleans())]
    left, right = np.array(pairs, np.int32).reshape(-1, 2).T
    items = kf.Mentions({}, np.zeros(n, np.int32), left, right, blocked=True)
    p = np.array([draw(st.floats(0, 1)) for _ in pairs])
    return items, p, np.array([draw(st.integers(0, 3)) for _ in range(n)], np.int32)


@given(clustered())
def test_membership_is_the_mean_of_pairs_inside_or_one_minus_the_best_outside(case: Any):
    items, p, clusters = case
    found = membership(items, p, clusters)
    pairs = {(int(a), int(b)): q for a, b, q in zip(items.left, items.right, p, strict=True)}
    for i in range(items.n_items):
        own = {b if a == i else a: q for (a, b), q in pairs.items() if i in (a, b)}
        others = [j for j in range(items.n_items) if j != i and clusters[j] == clusters[i]]
        inside = [own[j] for j in others if j in own]
        expected = 1.0 - max(own.values(), default=0.0) if not others else float(np.mean(inside)) if inside else 1.0
        assert found[i] == pytest.approx(expected)
