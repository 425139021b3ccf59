"""Every engine labels nodes as memory does, and trains on the same samples of them."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.core.engine import Engine
from kinfolk.errors import InputError
from kinfolk.graph.in_engine import predict_in
from kinfolk.graph.training_in_engine import fit_in

pyarrow = pytest.importorskip("pyarrow", reason="tables of Arrow need pyarrow")
pytestmark = pytest.mark.usefixtures("holds")


def world(n: int, seed: int, labelled: float = 0.4) -> tuple[Any, Any]:
    """Tables of nodes and of links, with a hub, repeated links and some from a node to itself."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n)
    ids = np.array([f"n{i}" for i in rng.permutation(n)])
    source, target = rng.integers(n, size=(2, 3 * n))
    source[: n // 3] = min(5, n - 1)
    nodes = {
        "id": ids, "label": np.where(rng.random(n) < labelled, truth.astype(str), None).tolist(),
        "x": truth + rng.normal(size=n), "colour": rng.choice(["red", "it's", ""], n),
    }  # fmt: skip
    edges = {"source": ids[source], "target": ids[target], "kind": rng.choice(["likes", "knows"], 3 * n)}
    edges["weight"] = rng.integers(-1, 3, 3 * n).astype(float)
    return pyarrow.table(nodes), pyarrow.table(edges)


def model(templates: Any, **given: Any) -> kf.StackedNodes:
    return kf.StackedNodes(LogisticRegression(max_iter=500), templates, n_jobs=1, folds=3, random_state=0, **given)


def check_same(engine: Engine, made: kf.StackedNodes, tables: Any, asked: Any, **given: Any) -> None:
    expected = made.predict_proba(kf.Graph.from_frames(*tables, **given), **asked)
    predict_in(engine, made, *tables, **given, **asked)
    found = engine.arrow("SELECT * FROM kf_labels ORDER BY kf_row")
    probabilities = np.stack([found.column(f"p{c}").to_numpy() for c in range(expected.shape[1])], axis=1)
    np.testing.assert_allclose(probabilities, expected, atol=1e-6)
    assert found.column("label").to_pylist() == made.classes_[expected.argmax(axis=1)].tolist()


EVERYTHING: Any = [
    kf.Count("likes"), kf.LogCount("likes_inverse"), kf.Mean("knows"), kf.Proportion("~likes"), kf.Max("knows"),
    kf.Exists("likes"), kf.Mean("likes", hard=True), kf.Concat("knows", slots=2), kf.Mean("likes @ knows"),
    kf.Count("likes | knows"), kf.Mean("knows", of="features"),
]  # fmt: skip


@pytest.mark.parametrize("templates", [EVERYTHING, [*EVERYTHING[:-3], EVERYTHING[-2]]], ids=["all", "of single links"])
def test_every_aggregate_and_known_labels(engine: Engine, templates: Any):
    given: Any = {"label": "label", "missing": "flag", "relation": "kind", "features": ["x", "colour"]}
    made = model(templates).fit(kf.Graph.from_frames(*world(120, 0), **given))
    check_same(engine, made, world(150, 1), {"forced": True}, **given)


@pytest.mark.filterwarnings("ignore:weights of links are below 0:kinfolk.errors.DataWarning")
def test_weights_and_links_without_a_direction(engine: Engine):
    given: Any = {"label": "label", "weight": "weight", "features": ["x"], "directed": False}
    made = model([kf.Count("links_to"), kf.Mean("links_to")], own=True).fit(
        kf.Graph.from_frames(*world(90, 2), **given)
    )
    check_same(engine, made, world(110, 3), {"forced": True}, **given)


@pytest.mark.parametrize("known", ["true", "crossfit"])
def test_nodes_trained_on_are_known_again(engine: Engine, known: str):
    given: Any = {"label": "label", "features": ["x"]}
    tables = world(100, 4)
    made = model([kf.Count("links_to")], known=known).fit(kf.Graph.from_frames(*tables, **given))
    check_same(engine, made, (tables[0].take(np.arange(100)[::-1]), tables[1]), {}, **given)


@pytest.mark.parametrize("n", [1, 3])
def test_few_nodes_and_no_links(engine: Engine, n: int):
    given: Any = {"label": "label", "features": ["x"]}
    made = model([kf.Count("links_to")], known="true").fit(kf.Graph.from_frames(*world(60, 5), **given))
    nodes, edges = world(n, 6, 1.0)
    check_same(engine, made, (nodes, edges.slice(0, 0)), {"forced": True}, **given)


def test_what_is_wrong_is_named(engine: Engine):
    given: Any = {"label": "label", "features": ["x"]}
    nodes, edges = world(40, 7)
    made = model([kf.Count("links_to")], known="true").fit(kf.Graph.from_frames(nodes, edges, **given))
    twice = pyarrow.concat_tables([nodes, nodes.slice(3, 4)])
    with pytest.raises(InputError, match=rf"row 40: ids must be distinct; {nodes.column('id')[3].as_py()!r} was in"):
        predict_in(engine, made, twice, edges, **given)
    strange = pyarrow.concat_tables([edges.slice(0, 9), edges.slice(9, 1).set_column(0, "source", [["nobody"]])])
    with pytest.raises(InputError, match="row 9: 'nobody' is not in nodes, and 1 links"):
        predict_in(engine, made, nodes, strange, dangling="refuse", **given)


def test_training_on_a_sample_with_caps_for_hubs(engine: Engine):
    given: Any = {"label": "label", "features": ["x"]}
    nodes, edges = world(150, 8)
    graph = kf.Graph.from_frames(nodes, edges, **given)
    whole = model([kf.Count("links_to")], known="true").fit(graph)
    same = fit_in(engine, model([kf.Count("links_to")], known="true"), nodes, edges, **given)
    np.testing.assert_allclose(same.predict_proba(graph), whole.predict_proba(graph), atol=1e-6)
    some = fit_in(engine, model([kf.Count("links_to")]), nodes, edges, sample=30, most_links=4, **given)
    labels = dict(zip(*(nodes.column(name).to_pylist() for name in ("id", "label")), strict=True))
    known = [one for one, label in labels.items() if label is not None]
    known.sort(key=lambda one: hashlib.md5(f"0:{one}".encode(), usedforsecurity=False).hexdigest())
    assert {*some.memory_.ids} == {*known[:30]}
