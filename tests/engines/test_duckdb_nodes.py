"""Nodes labelled in DuckDB are labelled as in memory."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import kinfolk as kf
from kinfolk.core import engine as core
from kinfolk.engines.duckdb import DuckDB
from kinfolk.errors import DataWarning, InputError, SettingError
from kinfolk.graph.in_engine import predict_in

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb", reason="the engine DuckDB needs duckdb")
pytestmark = pytest.mark.usefixtures("holds")

LABELS = np.array(["low", "middle", "high"])
TEMPLATES = [
    [kf.Count("links_to"), kf.Count("linked_from")],
    [kf.LogCount("links_to"), kf.Mean("linked_from"), kf.Proportion("links_to")],
    [kf.Max("links_to"), kf.Exists("linked_from")],
    [kf.Count("links_to", hard=True), kf.Max("links_to", hard=True), kf.Exists("links_to", hard=True)],
    [kf.Mean("links_to @ links_to"), kf.Count("~links_to"), kf.Mean("links_to | linked_from")],
    [kf.Mean("(links_to | linked_from) @ linked_from"), kf.Count("links_to @ linked_from")],
    [kf.Count("~links_to"), kf.Mean("links_to | linked_from")],
    [kf.Mean("links_to", of="features"), kf.Count("linked_from", of="features"), kf.Mean("links_to")],
    [kf.Concat("links_to", slots=3), kf.Concat("linked_from", hard=True, slots=2)],
]


@pytest.fixture(scope="module")
def engine(small_duckdb: DuckDB) -> DuckDB:
    return small_duckdb


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a few nodes, so that there are many of them."""
    whole = DuckDB.batches

    def cut(self: DuckDB, query: str, n_rows: int) -> Any:
        for batch in whole(self, query, n_rows):
            yield from (batch.slice(start, 97) for start in range(0, batch.num_rows, 97))

    monkeypatch.setattr(DuckDB, "batches", cut)


def world(n: int, seed: int = 0, links: int = 3, prefix: str = "n") -> tuple[dict[str, Any], dict[str, Any]]:
    """Tables of nodes and of links, most of them within a class; with repeated ones and some from a node to itself."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n)
    ids = [f"{prefix}{i}" for i in rng.permutation(n)]
    source = rng.integers(n, size=n * links)
    target = rng.integers(n, size=n * links)
    near = np.flatnonzero(rng.random(len(source)) < 0.6)
    for i in near.tolist():
        alike = np.flatnonzero(truth == truth[source[i]])
        target[i] = alike[rng.integers(len(alike))]
    known = np.where(rng.random(n) < 0.4, LABELS[truth], None)
    nodes = {
        "id": ids, "label": known.tolist(), "size": (truth + rng.normal(size=n)).tolist(),
        "count": rng.integers(5, size=n).tolist(), "flag": (rng.random(n) < 0.5).tolist(),
    }  # fmt: skip
    edges = {"source": [ids[i] for i in source], "target": [ids[i] for i in target]}
    edges["strength"] = rng.integers(-1, 4, size=len(source)).astype(float).tolist()
    return nodes, edges


def trained(templates: Any, graph: Any = None, base: Any = None, **given: Any) -> kf.StackedNodes:
    options = {"known": "true", "n_jobs": 1, "folds": 3, "random_state": 0} | given
    model = kf.StackedNodes(base or LogisticRegression(max_iter=300), templates, **options)
    return model.fit(kf.Graph.from_frames(*world(150, 5), label="label", weight=None) if graph is None else graph)


def found(engine: DuckDB, model: kf.StackedNodes, nodes: Any, edges: Any, **given: Any) -> tuple[list[Any], np.ndarray]:
    predict_in(engine, model, nodes, edges, **given)
    table = engine.arrow("SELECT * FROM kf_labels ORDER BY kf_row")
    assert table.column("kf_row").to_pylist() == list(range(table.num_rows))
    probabilities = [table.column(f"p{c}").to_numpy() for c in range(len(model.classes_))]
    return table.column("label").to_pylist(), np.stack(probabilities, axis=1)


def check_same(engine: DuckDB, model: kf.StackedNodes, nodes: Any, edges: Any, **given: Any) -> None:
    asked = {name: given.pop(name) for name in ("forced", "known") if name in given}
    graph = kf.Graph.from_frames(nodes, edges, **given)
    expected = model.predict_proba(graph, **asked)
    labels, probabilities = found(engine, model, arrow(nodes), arrow(edges), **given, **asked)
    np.testing.assert_allclose(probabilities, expected, atol=1e-9)
    assert labels == model.classes_[expected.argmax(axis=1)].tolist()


def arrow(table: Any) -> Any:
    if isinstance(table, list):
        return [arrow(one) for one in table]
    if not isinstance(table, dict):
        return table
    several = any(isinstance(one, dict) for one in table.values())
    return {name: arrow(one) for name, one in table.items()} if several else pyarrow.table(table)


@pytest.mark.parametrize("templates", TEMPLATES, ids=str)
@pytest.mark.parametrize("depth", [1, 2])
def test_every_aggregate_is_what_it_is_in_memory(engine: DuckDB, templates: Any, depth: int):
    nodes, edges = world(400, 1)
    model = trained(templates, depth=depth, folds=4)
    check_same(engine, model, nodes, {name: edges[name] for name in ("source", "target")}, label="label", forced=True)


@pytest.mark.parametrize(
    "given",
    [{"own": True}, {"predictions": "label"}, {"features": False}, {"depth": 0}, {"known": "crossfit"},
     {"known": "ceiling"}, {"own": True, "known": "crossfit", "depth": 2, "folds": 4},
     {"base": DecisionTreeClassifier(max_depth=4, random_state=0)}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("asked", [{"forced": True}, {"known": "none"}], ids=str)
def test_every_setting_of_a_model_that_can_be_kept_is_kept(engine: DuckDB, given: Any, asked: Any):
    nodes, edges = world(300, 2)
    model = trained([kf.Count("links_to"), kf.Mean("linked_from")], **given)
    check_same(engine, model, nodes, edges, label="label", features=["size", "count", "flag"], **asked)


@pytest.mark.parametrize("known", ["true", "crossfit"])
@pytest.mark.filterwarnings("ignore::kinfolk.errors.DataWarning")
def test_nodes_trained_on_are_known_again_by_their_ids(engine: DuckDB, known: str, caplog: pytest.LogCaptureFixture):
    nodes, edges = world(250, 3)
    model = trained([kf.Count("links_to")], kf.Graph.from_frames(nodes, edges, label="label"), known=known)
    with caplog.at_level(logging.INFO, "kinfolk"):
        check_same(engine, model, nodes, edges, label="label")
    said = [record.getMessage() for record in caplog.records if "known labels of" in record.getMessage()]
    assert len(said) == 2 and said[0] == said[1]
    again, moved = {name: values[::-1] for name, values in nodes.items()}, dict(nodes)
    check_same(engine, model, again, edges, label="label")  # sorted anew
    moved["size"] = [*np.asarray(nodes["size"])[:180], *np.ones(70)]
    check_same(engine, model, moved, edges, label="label")  # some look otherwise, and some of these have other links
    check_same(engine, model, *world(250, 77), label="label")  # another graph with the same ids


def test_of_a_graph_that_is_no_longer_the_one_trained_on_the_same_is_said(engine: DuckDB):
    nodes, edges = world(250, 3)
    model = trained([kf.Count("links_to")], kf.Graph.from_frames(nodes, edges, label="label"), known="crossfit")
    others = world(250, 77)
    with pytest.warns(DataWarning) as before:
        model.predict(kf.Graph.from_frames(*others, label="label"))
    with pytest.warns(DataWarning) as now:
        predict_in(engine, model, *map(arrow, others), label="label")
    assert [str(one.message) for one in now] == [str(one.message) for one in before]


WAYS = [{"directed": False}, {"directed": None}, {"inverse": None}, {"weight": "strength"},
        {"weight": "strength", "directed": False}]  # fmt: skip


@pytest.mark.filterwarnings("ignore:weights of links are below 0")
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_links_become_the_relations_that_they_become_in_memory(
    engine: DuckDB, way: Any, caplog: pytest.LogCaptureFixture
):
    nodes, edges = world(200, 4)
    given = {"label": "label", "features": ["size"], "link": "knows", **way}
    graph = kf.Graph.from_frames(nodes, edges, **given)
    model = trained([kf.Count("knows"), kf.Mean("knows @ knows")], graph)
    caplog.clear()
    check_same(engine, model, nodes, edges, forced=True, **given)
    said = [record.getMessage() for record in caplog.records if "links" in record.getMessage()]
    assert len(said) == 2 and said[0] == said[1]


def test_links_that_are_there_from_both_ends_are_one_relation(engine: DuckDB):
    nodes, edges = world(100, 6)
    both = {"source": edges["source"] + edges["target"], "target": edges["target"] + edges["source"]}
    given: Any = {"label": "label", "directed": None}
    model = trained([kf.Count("links_to")], kf.Graph.from_frames(nodes, both, **given))
    assert model.unused_ == ()
    check_same(engine, model, nodes, both, forced=True, **given)


def test_several_relations_come_from_a_column_from_names_or_from_several_tables(engine: DuckDB):
    nodes, edges = world(150, 7)
    kinds = [("likes", "knows", "likes")[i % 3] for i in range(len(edges["source"]))]
    named = edges | {"kind": kinds}
    given: Any = {"label": "label", "relation": "kind"}
    templates = [kf.Count("likes"), kf.Mean("knows_inverse"), kf.Mean("likes @ knows")]
    model = trained(templates, kf.Graph.from_frames(nodes, named, **given))
    check_same(engine, model, nodes, named, forced=True, **given)
    parts = {
        kind: {
            end: [one for one, k in zip(edges[end], kinds, strict=True) if k == kind] for end in ("source", "target")
        }
        for kind in ("likes", "knows")
    }
    check_same(engine, model, nodes, parts, forced=True, label="label")
    plain = trained([kf.Count("links_to")])
    check_same(engine, plain, nodes, [parts["likes"], parts["knows"]], forced=True, label="label")


def test_features_of_categories_words_and_gaps_are_those_of_memory(engine: DuckDB):
    rng = np.random.default_rng(8)
    nodes, edges = world(300, 8)
    nodes["colour"] = rng.choice(["red", "green", "it's", ""], 300).tolist()
    nodes["title"] = [" ".join(rng.choice(["Alpha", "beta", "gamma", "delta"], 2)) for _ in range(300)]
    nodes["size"] = [None if rng.random() < 0.2 else one for one in nodes["size"]]
    given: Any = {"label": "label", "missing": "flag"}
    train, ends = kf.Graph.from_frames(nodes, edges, text="title", **given), {"source": [], "target": []}
    model = trained([kf.Count("links_to")], train)
    part = {name: values[100:160] for name, values in nodes.items()}
    inside = {*part["id"]}
    for one, other in zip(edges["source"], edges["target"], strict=True):
        if {one, other} <= inside:
            ends["source"].append(one)
            ends["target"].append(other)
    check_same(engine, model, part, ends, text="title", forced=True, **given)
    without = {name: values for name, values in part.items() if name != "title"}
    of_features = trained([kf.Mean("links_to", of="features")], kf.Graph.from_frames(without, ends, **given), folds=2)
    check_same(engine, of_features, without, ends, forced=True, **given)
    refused = trained([kf.Mean("links_to", of="features")], train, folds=2)
    with pytest.raises(SettingError, match=r"numbers or categories.*features of 'title'"):
        predict_in(engine, refused, arrow(nodes), arrow(edges), text="title", **given)


def test_ids_are_strings_or_whole_numbers_and_the_same_as_either(engine: DuckDB):
    nodes, edges = world(60, 9, prefix="")
    model = trained([kf.Count("links_to")])
    as_numbers = {"source": list(map(int, edges["source"])), "target": list(map(int, edges["target"]))}
    check_same(engine, model, nodes, as_numbers, label="label", forced=True)
    check_same(engine, model, nodes | {"id": list(map(int, nodes["id"]))}, edges, label="label", forced=True)
    rows = {"source": [0, 1, 2], "target": [1, 2, 59]}
    del nodes["id"]
    check_same(engine, model, nodes, rows, id=None, label="label", forced=True)


SHAPES: dict[str, Any] = {
    "one node": (1, []),
    "no links": (5, []),
    "only a link to itself": (3, [(1, 1), (0, 1)]),
    "repeated": (4, [(0, 1), (0, 1), (0, 1), (1, 0), (2, 3)]),
    "a hub": (3000, [(0, i) for i in range(1, 3000)] + [(i, 0) for i in range(1, 3000)]),
    "a chain": (2000, [(i, i + 1) for i in range(1999)]),
    "isolated nodes": (50, [(7, 8), (8, 9)]),
}


@pytest.fixture(scope="module")
def plain(holds: int) -> kf.StackedNodes:
    path = "~linked_from" if holds else "links_to @ links_to"  # paths of several links are joined whatever their size
    templates = [kf.Count("links_to"), kf.Mean("linked_from"), kf.Exists("links_to"), kf.Max(path)]
    return trained(templates, depth=2, folds=4)


@pytest.mark.parametrize("shape", SHAPES)
def test_graphs_of_every_shape(engine: DuckDB, plain: kf.StackedNodes, shape: str):
    n, links = SHAPES[shape]
    nodes, _ = world(n, 10)
    ends = {"source": [nodes["id"][a] for a, _ in links], "target": [nodes["id"][b] for _, b in links]}
    model = plain if shape != "a hub" else trained([kf.Count("links_to"), kf.LogCount("linked_from")])
    table = pyarrow.table({name: pyarrow.array(values, "string") for name, values in ends.items()})
    check_same(engine, model, nodes, table, label="label", forced=True)


@given(st.data())
@settings(max_examples=15)
def test_small_graphs_of_any_links(engine: DuckDB, plain: kf.StackedNodes, data: st.DataObject):
    n = data.draw(st.integers(1, 6))
    ends = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=12))
    nodes, _ = world(n, data.draw(st.integers(0, 3)))
    table = pyarrow.table(
        {
            name: pyarrow.array([nodes["id"][one[k]] for one in ends], "string")
            for k, name in enumerate(("source", "target"))
        }
    )
    check_same(engine, plain, nodes, table, label="label", forced=True)


def test_files_of_parquet_are_read_where_they_are(engine: DuckDB, plain: kf.StackedNodes, tmp_path: Path):
    nodes, edges = map(arrow, world(500, 11))
    for i, part in enumerate((nodes.slice(0, 200), nodes.slice(200))):
        parquet.write_table(part, tmp_path / f"nodes-{i}.parquet", row_group_size=64)
    parquet.write_table(edges, tmp_path / "edges.parquet")
    parquet.write_table(nodes, tmp_path / "all.parquet")
    graph = kf.read_tables(tmp_path / "all.parquet", tmp_path / "edges.parquet", label="label")
    expected = plain.predict_proba(graph, forced=True)
    _, probabilities = found(
        engine, plain, str(tmp_path / "nodes-*.parquet"), tmp_path / "edges.parquet", label="label", forced=True
    )
    np.testing.assert_allclose(probabilities, expected, atol=1e-9)


# -- what cannot be done ------------------------------------------------------------------------------


def raised(task: Any) -> str:
    with pytest.raises(InputError) as error:
        task()
    return str(error.value)


def wrong_tables() -> dict[str, Any]:
    nodes, edges = world(30, 12)
    unknown = {"source": [*edges["source"][:40], "nobody"], "target": edges["target"][:41]}
    strangers = {"source": ["x", "y"], "target": ["y", "z"]}
    gone = {"source": [*edges["source"][:3], ""], "target": edges["target"][:4]}
    again = nodes | {"id": [*nodes["id"][:20], *nodes["id"][:10]]}
    loop = {"source": [nodes["id"][0], nodes["id"][4]], "target": [nodes["id"][1], nodes["id"][4]]}
    strange = nodes | {"label": [None, "other", *nodes["label"][2:]]}
    part = nodes | {"size": [*nodes["size"][:7], None, *nodes["size"][8:]]}
    return {
        "an end that is no node": (nodes, unknown, {"dangling": "refuse"}),
        "no end that is a node": (nodes, strangers, {}),
        "an end that is missing": (nodes, gone, {}),
        "ids that repeat": (again, edges, {}),
        "a link to itself": (nodes, loop, {"self_loops": "refuse"}),
        "a label that is not known": (strange, edges, {"forced": True}),
        "a feature that is missing": (part, edges, {}),
        "a feature that is endless": (
            nodes | {"size": [*nodes["size"][:9], np.inf, *nodes["size"][10:]]},
            edges,
            {"forced": True},
        ),
        "no column of ids": (nodes, edges, {"id": "key"}),
        "ids that are fractions": (nodes | {"id": np.arange(30) / 2}, edges, {}),
        "no column of features": (nodes, edges, {"features": ["weight"]}),
        "no column of weights": (nodes, edges, {"weight": "heavy"}),
        "weights that are words": (nodes, edges, {"weight": "source"}),
        "a weight that is endless": (nodes, edges | {"strength": [1.0, np.nan] * 45}, {"weight": "strength"}),
        "other links than in training": (nodes, edges, {"link": "cites"}),
        "no nodes": ({name: [] for name in nodes}, edges, {}),
    }


@pytest.mark.parametrize("what", wrong_tables())
def test_tables_that_are_wrong_are_refused_as_in_memory(engine: DuckDB, plain: kf.StackedNodes, what: str):
    nodes, edges, given = wrong_tables()[what]
    asked = {"forced": given.pop("forced")} if "forced" in given else {}
    tables = [arrow(nodes), arrow(edges)]
    expected = raised(lambda: plain.predict(kf.Graph.from_frames(*tables, label="label", **given), **asked))
    assert raised(lambda: predict_in(engine, plain, *tables, label="label", **given, **asked)) == expected


def test_an_end_that_is_no_node_is_left_out_and_the_first_is_named(
    engine: DuckDB, plain: kf.StackedNodes, caplog: pytest.LogCaptureFixture
):
    nodes, edges, _ = wrong_tables()["an end that is no node"]
    check_same(engine, plain, nodes, edges, label="label", forced=True)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and said[0] == said[1] and "the first: 'nobody'" in said[0]


def test_repeated_links_can_be_refused(engine: DuckDB, plain: kf.StackedNodes, holds: int):
    nodes, edges = map(arrow, world(30, 12))
    which = "edges, row 28: a link that was" if holds else "'links_to'.*"
    with pytest.raises(InputError, match=rf"{which} ?there before.*duplicates='merge'"):
        predict_in(engine, plain, nodes, edges, label="label", duplicates="refuse")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"templates": [lambda votes, relations: votes], "settings": {}},
            "templates.*leave it out, or predict in memory",
        ),
        ({"templates": [kf.Count("component(links_to)")], "settings": {}}, "templates.*paths and unions"),
        (
            {"templates": [kf.Count("links_to")], "settings": {"predictions": "sample"}},
            "predictions.*'proba' or 'label'",
        ),
    ],
)
def test_what_cannot_be_done_in_pieces_is_refused_by_name(engine: DuckDB, given: Any, message: str):
    model = trained(given["templates"], base=DecisionTreeClassifier(max_depth=3), **given["settings"])
    with pytest.raises(SettingError, match=message):
        predict_in(engine, model, *map(arrow, world(20)))
    with pytest.raises(SettingError, match=r"known.*'train' or 'none'"):
        predict_in(engine, trained([kf.Count("links_to")]), *map(arrow, world(20)), known=[1, 2])  # type: ignore[arg-type]


def test_the_default_of_an_engine_is_a_join(engine: DuckDB, plain: kf.StackedNodes, monkeypatch: pytest.MonkeyPatch):
    """What an engine does that has no faster way."""
    for name in ("view", "arrange", "map", "map_with"):
        monkeypatch.setattr(DuckDB, name, getattr(core.Engine, name))
    nodes, edges = world(120, 13)
    check_same(engine, plain, nodes, edges, label="label", forced=True)
