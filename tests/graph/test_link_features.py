"""Columns of links: values name relations, numbers become features of nodes, whatever library holds them."""

from __future__ import annotations

import copy
import logging
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import DataWarning, InputError, SettingError
from kinfolk.graph.graph import Graph

NODES: dict[str, list[Any]] = {"id": [5, 6, 7, 8], "x": [1.0, 2.0, 3.0, 4.0], "topic": ["a", "b", "a", "b"]}
EDGES: dict[str, list[Any]] = {
    "source": [5, 5, 6, 7],
    "target": [6, 7, 7, 5],
    "amount": [1.0, 3.0, -2.0, 10.0],
    "kind": ["card", "cash", "card", "card"],
    "big": [True, False, True, True],
}
PAYS: dict[str, Any] = {"label": "topic", "link": "pays", "inverse": "paid_by"}


def pairs(graph: Graph, relation: str) -> set[tuple[str, str]]:
    rows, columns = graph.relations[relation].nonzero()
    return {(graph.ids[i], graph.ids[j]) for i, j in zip(rows.tolist(), columns.tolist(), strict=True)}


def columns(graph: Graph) -> dict[str, list[float]]:
    assert graph.feature_names is not None
    return dict(zip(graph.feature_names, graph.features.T.tolist(), strict=True))


@pytest.mark.parametrize(
    "made", [dict, pd.DataFrame, pl.DataFrame, pa.table], ids=["lists", "pandas", "polars", "arrow"]
)
def test_values_name_relations_and_numbers_are_features(made: Any):
    graph = Graph.from_frames(made(NODES), made(EDGES), link_features=["amount", "kind", "big"], **PAYS)
    values = [f"[amount={one}]" for one in ("low", "middle", "high")]
    values += ["[kind=card]", "[kind=cash]", "[big=False]", "[big=True]"]
    assert list(graph.relations) == ["pays", "paid_by", *(f"{way}{v}" for v in values for way in ("pays", "paid_by"))]
    assert pairs(graph, "pays[kind=card]") == {("5", "6"), ("6", "7"), ("7", "5")}
    assert pairs(graph, "paid_by[kind=cash]") == {("7", "5")} and pairs(graph, "pays[big=False]") == {("5", "7")}
    found = columns(graph)
    assert next(iter(found)) == "x" and len(found) == 5
    log = math.log
    assert found["log mean amount of pays, out"] == pytest.approx([log(3), -log(3), log(11), 0])
    assert found["log mean amount of pays, in"] == pytest.approx([log(11), log(2), log(1.5), 0])
    assert found["log total amount of pays, in"] == pytest.approx([log(v) for v in (11, 2, 6, 1)])
    assert graph.link_features == {"amount": (1.0, 3.0), "kind": None, "big": None}
    assert pairs(graph, "pays[amount=low]") == {("5", "6"), ("6", "7")} and pairs(graph, "pays[amount=high]") == {
        ("7", "5")
    }
    for same in (graph.subset(range(4)), graph.with_masks({}), graph.with_labels(["a"] * 4), copy.copy(graph)):
        assert same.link_features == graph.link_features


def test_where_numbers_are_cut():
    def kinds(amounts: list[float], given: Any = "amount") -> list[str]:
        graph = Graph.from_frames(NODES, {**EDGES, "amount": amounts}, link_features=given, inverse=None)
        assert sum(graph.relations[name].nnz for name in graph.relations) in (4, 8), "each link in one part"
        return [name for name in graph.relations if "[" in name]

    low, middle, high = (f"links_to[amount={one}]" for one in ("low", "middle", "high"))
    assert kinds([1, 2, 3, 4]) == [low, middle, high]
    assert kinds([0, 0, 0, 9]) == kinds([0, 1, 1, 1]) == [low, high], "of many that are the same"
    assert kinds([7, 7, 7, 7]) == []
    assert kinds([1, 2, 30, 400], {"amount": [10, 100]}) == [low, middle, high]
    assert kinds([1, 2, 3, 4], {"amount": [10, 100]}) == [low]
    assert kinds([1, 20, 30, 400], {"amount": [0, 10, 100]}) == [f"links_to[amount={i} of 4]" for i in (2, 3, 4)]
    for wrong in ([2, 1], [1, 1], [math.nan], 3, list(range(12))):
        with pytest.raises(
            SettingError, match=r"link_features\['amount'\] must be rising numbers, fewer than 12, or None"
        ):
            kinds([1, 2, 3, 4], {"amount": wrong})


LINKS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(-3, 3).map(float), st.sampled_from("pq")), max_size=12
)


@given(LINKS, st.sampled_from([True, False]))
def test_by_a_walk_over_the_rows(links: list[tuple[int, int, float, str]], directed: bool):
    """The oracle: every row by itself, repeated ones too; those from a node to itself count for nothing."""
    edges = {name: [link[i] for link in links] for i, name in enumerate(("source", "target", "v", "k"))}
    graph = Graph.from_frames({"id": list(range(5))}, edges, link_features=["k", "v"], directed=directed)
    kept = [link for link in links if link[0] != link[1]]
    ends = {(a, b) for a, b, *_ in kept}
    both = not directed and ends == {(b, a) for a, b in ends}
    for value in {k for *_, k in kept}:
        there = {(str(a), str(b)) for a, b, _, k in kept if k == value}
        there |= set() if directed else {(b, a) for a, b in there}
        assert pairs(graph, f"links_to[k={value}]") == there
    cuts = graph.link_features["v"] if links else ()
    assert cuts is not None
    size, parts = len(kept), [*cuts, math.inf]
    assert len(cuts) < 2 or all(sum(v <= cut for _, _, v, _ in kept) >= size / 3 for cut in cuts)
    for i, end in enumerate(parts if cuts else ()):
        value = {2: ["low", "high"], 3: ["low", "middle", "high"]}[len(parts)][i]
        there = {(str(a), str(b)) for a, b, v, _ in kept if (i == 0 or v > parts[i - 1]) and v <= end}
        assert pairs(graph, f"links_to[v={value}]") == there | (set() if directed else {(b, a) for a, b in there})
    if not kept:
        return
    ways = {", out": (0,), ", in": (1,)} if directed else {"": (0,) if both else (0, 1)}
    for way, at in ways.items():
        for node in range(5):
            own = [link[2] for link in kept for end in at if link[end] == node]
            mean = columns(graph)[f"log mean v of links_to{way}"][node]
            total = columns(graph)[f"log total v of links_to{way}"][node]
            wanted = sum(own) / len(own) if own else 0
            assert mean == pytest.approx(math.copysign(math.log(1 + abs(wanted)), wanted))
            assert total == pytest.approx(math.log(1 + sum(map(abs, own))))


def test_relations_with_names_and_tables_with_names():
    edges = {**EDGES, "how": ["pays", "owes", "pays", "owes"]}
    graph = Graph.from_frames(NODES, edges, relation="how", link_features="kind", label="topic", inverse=None)
    assert list(graph.relations) == ["pays", "owes", "pays[kind=card]", "owes[kind=card]", "owes[kind=cash]"]
    tables = {"pays": EDGES, "knows": {"source": [5], "target": [8]}}
    graph = Graph.from_frames(NODES, tables, link_features=["amount", "kind"], label="topic", inverse=None)
    assert [name for name in graph.relations if "[" not in name] == ["pays", "knows"]
    assert [name for name in columns(graph) if name.endswith("out")] == [
        "log mean amount of pays, out",
        "log total amount of pays, out",
    ]
    with pytest.raises(InputError, match=r"no column 'kin' \(link_features\)"):
        Graph.from_frames(NODES, tables, link_features=["kin"])


WRONG: dict[str, tuple[dict[str, Any], Any, str]] = {
    "numbers missing": ({"v": [1, None, 2, None]}, "v", r"row 1: column 'v' \(link_features\): 2 of 4 rows have no"),
    "a word missing": ({"v": ["a", "", "b", "c"]}, "v", "row 1: .* 1 of 4 rows have no value, .*; fill them in, leave"),
    "infinite": ({"v": [1.0, math.inf, 2, 3]}, "v", "row 1: .* must be finite, got inf; replace it"),
    "not there": ({}, ["v"], r"no column 'v' \(link_features\); the columns are 'source', 'target', 'amount'"),
    "lists": ({"v": [[1], [2], [3], [4]]}, "v", "expected numbers, strings or truth values, got list"),
}


@pytest.mark.parametrize(("more", "named", "message"), WRONG.values(), ids=list(WRONG))
def test_columns_that_cannot_be_used(more: dict[str, Any], named: Any, message: str):
    with pytest.raises(InputError, match=message):
        Graph.from_frames(NODES, {**EDGES, **more}, link_features=named)


def test_too_many_values():
    n = 13
    edges = {"source": list(range(n)), "target": [(i + 1) % n for i in range(n)], "v": [f"v{i:02}" for i in range(n)]}
    with pytest.raises(InputError, match=r"13 values \('v00', 'v01', 'v02', ...\) are more than 12; put rare ones"):
        Graph.from_frames({"id": list(range(n))}, edges, link_features="v")
    edges["v"][-1] = "v00"
    assert len(Graph.from_frames({"id": list(range(n))}, edges, link_features="v").relations) == 2 + 2 * 12


def test_names_that_are_taken():
    with pytest.raises(InputError, match="two features would be named 'log mean amount of pays, out'"):
        taken = {**NODES, "log mean amount of pays, out": [1, 2, 3, 4]}
        Graph.from_frames(taken, EDGES, link_features="amount", **PAYS)
    with pytest.raises(SettingError, match="'kind' is listed twice"):
        Graph.from_frames(NODES, EDGES, link_features=["kind", "kind"])


# -- other libraries ----------------------------------------------------------------------------------


def test_edges_of_networkx():
    net = nx.DiGraph()
    for source, target, amount, kind, _ in zip(*EDGES.values(), strict=True):
        net.add_edge(source, target, amount=amount, kind=kind)
    graph = Graph.from_networkx(net, link_features=["amount", "kind"])
    assert pairs(graph, "links_to[kind=cash]") == {("5", "7")}
    assert columns(graph)["log mean amount of links_to, out"] == pytest.approx(
        [math.log(3), -math.log(3), math.log(11)]
    )
    net.add_edge(5, 8)
    with pytest.raises(InputError, match=r"edge 5 to 8: column 'amount' \(link_features\): 1 of 5 rows"):
        Graph.from_networkx(net, link_features="amount")


def test_edges_in_arrays():
    ends = np.array([[0, 0, 1, 2], [1, 2, 2, 0]])
    attributes = np.array([[1.0, 2.0], [3.0, 0.0], [-2.0, 0.0], [10.0, 0.0]])
    given = {"edge_attr": attributes, "fresh": np.array([True, False, False, False])}
    data = SimpleNamespace(x=np.eye(3), edge_index=ends, y=np.array([0, 1, 0]), **given)
    wanted = ["log mean edge_attr[0] of links_to, out", "log total edge_attr[0] of links_to, out"]
    graph = Graph.from_pyg(data, link_features=["edge_attr", "fresh"], feature_names=["f", "g", "h"])
    assert graph.n_features == 3 + 8 and list(columns(graph))[3:5] == wanted
    assert columns(graph)[wanted[0]] == pytest.approx([math.log(3), -math.log(3), math.log(11)])
    assert pairs(graph, "links_to[edge_attr[0]=high]") == {("2", "0")} and pairs(graph, "links_to[fresh=True]") == {
        ("0", "1")
    }
    bare = Graph.from_pyg(data, link_features="edge_attr")
    assert bare.feature_names is None and (bare.features == graph.features).all()
    dgl = SimpleNamespace(
        ndata={"feat": np.eye(3)}, edata=given, edges=lambda: tuple(ends), num_nodes=lambda: 3, batch_size=1
    )
    assert (Graph.from_dgl(dgl, link_features=["edge_attr", "fresh"]).features == graph.features).all()
    with pytest.raises(InputError, match="no attribute 'amount'"):
        Graph.from_pyg(data, link_features="amount")
    with pytest.raises(InputError, match=r"x \(link_features\) must be numbers or truth values, \(4,\) or \(4, d\)"):
        Graph.from_pyg(data, link_features="x")
    data.edge_attr = np.array([1.0, np.nan, np.nan, 0])
    with pytest.raises(InputError, match="2 of 4 edges have no finite number, the first is edge 1"):
        Graph.from_pyg(data, link_features="edge_attr")


# -- models -------------------------------------------------------------------------------------------


def planted(what: str, seed: int, n: int = 240) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Accounts of two kinds, whose own feature says little. "kind": links by card join the alike, by cash the unlike.
    "amount": accounts of one kind pay more. "large": large amounts go to the alike, others to anybody."""
    rng = np.random.default_rng(seed)
    label = rng.integers(2, size=n)
    nodes = pd.DataFrame({"id": range(1000, 1000 + n), "x": label / 4 + rng.normal(size=n), "kind": label})
    source, card = np.repeat(np.arange(n), 4), rng.random(4 * n) < 0.5
    target = rng.integers(n, size=4 * n)
    if what == "kind":
        wanted = np.where(card, label[source], 1 - label[source])
        target = np.array([rng.choice(np.flatnonzero(label == one)) for one in wanted])
    amount = np.exp(rng.normal(size=4 * n) + (1.5 * label[source] if what == "amount" else 0))
    for i in np.flatnonzero(amount > 1.5) if what == "large" else ():
        target[i] = rng.choice(np.flatnonzero(label == label[source[i]]))
    edges = {"source": source + 1000, "target": target + 1000, "amount": amount, "by": np.where(card, "card", "cash")}
    return nodes, pd.DataFrame(edges)


def accuracy(graph: Graph) -> float:
    train = np.arange(len(graph)) % 2 == 0
    return kf.StackedNodes(effort="fast", n_jobs=1).fit(graph, train=train).score(graph)


@pytest.mark.parametrize(
    ("what", "named", "least"), [("kind", "by", 0.2), ("amount", "amount", 0.05), ("large", "amount", 0.1)]
)
def test_a_pool_gains_by_what_links_tell(what: str, named: str, least: float):
    nodes, edges = planted(what, 0)
    without, told = (
        accuracy(Graph.from_frames(nodes, edges, label="kind", link_features=one)) for one in (None, named)
    )
    assert told > without + least


def test_another_graph_is_read_alike(caplog: pytest.LogCaptureFixture, tmp_path: Path):
    nodes, edges = planted("kind", 1, 80)
    how: dict[str, Any] = {"label": "kind", "link_features": ["by", "amount"]}
    model = kf.StackedNodes(effort="fast", n_jobs=1).fit(Graph.from_frames(nodes, edges, **how))
    others, links = planted("kind", 2, 60)
    others["id"] += 5000
    links[["source", "target"]] += 5000
    wanted = model.predict_proba(Graph.from_frames(others, links, **how))
    model.save(tmp_path / "m")
    assert (kf.load_model(tmp_path / "m").predict_proba(Graph.from_frames(others, links, **how)) == wanted).all()

    lone = Graph.from_frames(others, links[links["by"] == "card"], **how)
    assert model.predict_proba(lone).shape == (60, 2), "nobody pays cash here, which is no mistake"
    model.explain(lone, node=0)
    with caplog.at_level(logging.WARNING, "kinfolk"):
        by = np.where(np.arange(len(links)) % 5, links["by"], "coin")
        model.predict(Graph.from_frames(others, links.assign(by=by), **how))
    assert "relation 'links_to[by=coin]' was not there in training, and is left out" in caplog.text
    told = pytest.warns(DataWarning, match="features that the model was trained on are not here")
    with told, pytest.raises(InputError, match=r"build the graph with `link_features=\['(by|amount)'\]`"):
        model.predict(Graph.from_frames(others, links, label="kind"))
    lacking = Graph.from_frames(others, links, **how).with_features(others[["x"]].to_numpy(), ["x"])
    with pytest.warns(DataWarning, match="count as 0 in every node: 'log mean amount of links_to, out'"):
        model.predict(lacking)


def test_a_graph_that_grows(caplog: pytest.LogCaptureFixture):
    how: dict[str, Any] = {**PAYS, "link_features": ["amount", "kind"]}
    graph = Graph.from_frames(NODES, EDGES, **how)
    late = {"source": [9, 9, 5], "target": [5, 6, 9], "amount": [2.0, 4.0, 7.0], "kind": ["cash", "coin", "card"]}
    grown = graph.with_frames({"id": [9], "x": [0.0]}, late, **{**how, "label": None})
    assert pairs(grown, "pays[kind=cash]") == {("5", "7"), ("9", "5")} and list(grown.relations) == [*graph.relations]
    assert "relation 'pays[kind=coin]' is not in the graph, and is left out; 'pays' has its links too" in caplog.text
    assert grown.features[:-1].tolist() == graph.features.tolist(), "those of nodes that were there stay"
    assert columns(grown)["log mean amount of pays, out"][-1] == pytest.approx(math.log(4))
    assert columns(grown)["log mean amount of pays, in"][-1] == pytest.approx(math.log(8))
    assert pairs(grown, "pays[amount=low]") == pairs(graph, "pays[amount=low]"), "cut as the graph is"
    assert pairs(grown, "pays[amount=middle]") == {("5", "7"), ("9", "5")}


def test_no_engine_has_them():
    model = kf.StackedNodes(_base(), depth=1, engine=kf.DuckDB())
    with pytest.raises(SettingError, match="link_features must be None with an engine"):
        model.fit_tables(pd.DataFrame(NODES), pd.DataFrame(EDGES), label="topic", link_features="kind")


def _base() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


def test_tables_are_cut_as_those_of_training():
    nodes, edges = planted("large", 4, 80)
    how: dict[str, Any] = {"label": "kind", "link_features": "amount"}
    model = kf.StackedNodes(_base(), depth=1, n_jobs=1).fit_tables(nodes, edges, **how)
    graph = Graph.from_frames(nodes, edges, **how)
    few = edges[edges["amount"] < 1]
    alike = Graph.from_frames(nodes, few, label="kind", link_features=graph.link_features)
    found = model.predict_tables(nodes, few, known="none", proba=True, **how)
    assert np.allclose(found["probability_1"], model.predict_proba(alike, known="none")[:, 1])
    assert not np.allclose(
        found["probability_1"], model.predict_proba(Graph.from_frames(nodes, few, **how), known="none")[:, 1]
    )
