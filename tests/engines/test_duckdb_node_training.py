"""Nodes in DuckDB are trained on as in memory, on samples that do not depend on the order of tables."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.engines.duckdb import DuckDB
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.in_engine import predict_in
from kinfolk.graph.table_graphs import TableParts
from kinfolk.graph.training_in_engine import fit_in, sampled_graph

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
pytest.importorskip("duckdb", reason="the engine DuckDB needs duckdb")


@pytest.fixture(scope="module")
def engine(small_duckdb: DuckDB) -> DuckDB:
    return small_duckdb


def world(n: int, labelled: float, seed: int = 0) -> tuple[Any, Any]:
    """Arrow tables of nodes and of links, two thirds of them within a class."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    ids = np.array([f"n{i}" for i in rng.permutation(n)])
    source, target = rng.integers(n, size=(2, 2 * n))
    target = np.where((rng.random(2 * n) < 0.6) & (truth[source] != truth[target]), (target + 1) % n, target)
    label = np.where(rng.random(n) < labelled, np.array(["no", "yes"])[truth], None)
    nodes = {"id": ids, "label": label.tolist(), "x": truth + rng.normal(size=n), "y": rng.normal(size=n)}
    return pyarrow.table(nodes), pyarrow.table({"source": ids[source], "target": ids[target]})


def model(templates: Any, **given: Any) -> kf.StackedNodes:
    options = {"n_jobs": 1, "folds": 4, "random_state": 0} | given
    return kf.StackedNodes(LogisticRegression(max_iter=500), templates, **options)


@pytest.mark.parametrize(
    ("templates", "given"),
    [
        ([kf.Count("links_to")], {}),
        ([kf.Count("links_to"), kf.Mean("linked_from")], {"depth": 2}),
        ([kf.Mean("links_to @ linked_from"), kf.Count("~links_to")], {"known": "crossfit"}),
        ([kf.Mean("links_to", of="features")], {"depth": 2}),
        (None, {"depth": 1}),
        (None, {"depth": 0}),
    ],
)
def test_without_limits_the_model_is_that_of_the_whole_graph(engine: DuckDB, templates: Any, given: Any):
    nodes, edges = world(600, 0.05)
    graph = kf.Graph.from_frames(nodes, edges, label="label")
    whole = model(templates, **given).fit(graph)
    found = fit_in(engine, model(templates, **given), nodes, edges)
    assert found.relations_used() == whole.relations_used()
    assert found.known_ == whole.known_ and found.memory_.ids == whole.memory_.ids
    np.testing.assert_allclose(found.predict_proba(graph), whole.predict_proba(graph), atol=1e-6)


def test_only_what_the_levels_look_at_is_brought_into_memory(engine: DuckDB):
    ids = [f"n{i}" for i in range(100)]
    nodes = pyarrow.table({"id": ids, "x": np.arange(100.0), "label": ["a", "b", *[None] * 98]})
    chain = pyarrow.table({"source": ids[:-1], "target": ids[1:]})
    parts = (TableParts.of({"label": "label"}), None, None, 0)
    for depth, path, most in ((1, "links_to", 2), (2, "links_to", 3), (2, "links_to @ links_to", 5)):
        graph, chosen = sampled_graph(engine, model([kf.Count(path)], depth=depth), nodes, chain, *parts)
        assert graph.ids == tuple(ids[: most + 1]) and chosen.tolist() == [True, True, *[False] * (most - 1)]


def test_a_sample_is_chosen_by_the_ids_whatever_the_order(engine: DuckDB, caplog: pytest.LogCaptureFixture):
    nodes, edges = world(300, 0.5)
    parts = (TableParts.of({"label": "label"}), 40, None)
    asked = model([kf.Count("links_to")])
    with caplog.at_level(logging.INFO, "kinfolk"):
        graph, chosen = sampled_graph(engine, asked, nodes, edges, *parts, 0)
    assert "training on 40 of" in caplog.text
    backwards, others = nodes.take(np.arange(300)[::-1]), edges.take(np.arange(600)[::-1])
    again, taken = sampled_graph(engine, asked, backwards, others, *parts, 0)
    other, these = sampled_graph(engine, asked, nodes, edges, *parts, 1)
    names = [{g.ids[i] for i in np.flatnonzero(m)} for g, m in ((graph, chosen), (again, taken), (other, these))]
    assert names[0] == names[1] != names[2] and len(names[0]) == len(names[2]) == 40
    known = {
        one
        for one, label in zip(nodes.column("id").to_pylist(), nodes.column("label").to_pylist(), strict=True)
        if label
    }
    expected = sorted(known, key=lambda one: hashlib.md5(f"0:{one}".encode(), usedforsecurity=False).hexdigest())
    assert names[0] == {*expected[:40]}
    assert len(fit_in(engine, model([kf.Count("links_to")]), nodes, edges, sample=40).memory_.ids) == 40


def test_of_hubs_at_most_so_many_links_count_by_a_hash_and_it_is_said(engine: DuckDB, caplog: pytest.LogCaptureFixture):
    nodes, edges = world(200, 0.5)
    ids = nodes.column("id").to_pylist()
    hub = pyarrow.table({"source": [ids[7]] * 150, "target": ids[20:170]})
    edges = pyarrow.concat_tables([edges, hub])
    pairs = {pair for pair in zip(*edges.to_pydict().values(), strict=True) if pair[0] != pair[1]}
    kept: list[tuple[str, str]] = []
    for one in ids:
        own = [pair for pair in pairs if pair[0] == one]
        kept += sorted(own, key=lambda pair: hashlib.md5(">".join(pair).encode(), usedforsecurity=False).hexdigest())[
            :5
        ]
    fewer = pyarrow.table({"source": [a for a, _ in kept], "target": [b for _, b in kept]})
    given: Any = {"label": "label", "inverse": None}
    whole = model([kf.Count("links_to")], known="true").fit(kf.Graph.from_frames(nodes, fewer, **given))
    with caplog.at_level(logging.INFO, "kinfolk"):
        found = fit_in(engine, model([kf.Count("links_to")], known="true"), nodes, edges, most_links=5, **given)
    assert "links 'links_to': of" in caplog.text and "nodes with more than 5, up to 15" in caplog.text
    expected = whole.predict_proba(kf.Graph.from_frames(nodes, fewer, **given), forced=True)
    predict_in(engine, found, nodes, edges, forced=True, most_links=5, **given)
    table = engine.arrow("SELECT * FROM kf_labels ORDER BY kf_row")
    np.testing.assert_allclose(table.column("p1").to_numpy(), expected[:, 1], atol=1e-6)


def test_what_cannot_be_trained_on_is_said(engine: DuckDB):
    nodes, edges = world(30, 0.0)
    with pytest.raises(InputError, match="training needs labels"):
        fit_in(engine, model([kf.Count("links_to")]), nodes, edges)
    for setting in ("sample", "most_links"):
        with pytest.raises(SettingError, match=setting):
            fit_in(engine, model([kf.Count("links_to")]), nodes, edges, **{setting: 0})
    with pytest.raises(SettingError, match="templates"):
        fit_in(engine, model([kf.Count("component(links_to)")]), nodes, edges)
    with pytest.raises(SettingError, match="StackedNodes"):
        fit_in(engine, kf.LinkModel(), nodes, edges)  # type: ignore[arg-type]
