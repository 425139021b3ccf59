"""Graphs that grow: new nodes behind the others, which stay known; and parts of a split, as masks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.errors import DataWarning, InputError

N = 40


def frames(n: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=n)
    colour = np.where(rng.random(n) < 0.8, kind, 1 - kind)
    nodes = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(n)],
            "age": rng.normal(size=n) + kind,
            "colour": np.array(["r", "b"])[colour],
            "title": [f"word{k} paper" for k in colour],
            "topic": np.array(["x", "y"])[kind],
        }
    )
    ends = rng.integers(n, size=(4 * n, 2))
    ends = np.unique(ends[(kind[ends[:, 0]] == kind[ends[:, 1]]) & (ends[:, 0] != ends[:, 1])], axis=0)
    return nodes, pd.DataFrame(
        {"source": nodes["id"].to_numpy()[ends[:, 0]], "target": nodes["id"].to_numpy()[ends[:, 1]]}
    )


NODES, EDGES = frames(N + 10)
HOW: dict[str, Any] = {"label": "topic", "text": "title", "link": "cites", "inverse": "cited_by"}
OLD = EDGES["source"].isin(NODES["id"][:N]) & EDGES["target"].isin(NODES["id"][:N])


def same(one: kf.Graph, other: kf.Graph) -> None:
    assert (one.ids, one.labels, one.classes, one.feature_names) == (
        other.ids, other.labels, other.classes, other.feature_names
    )  # fmt: skip
    assert one.titles == other.titles and one.group_names == other.group_names
    assert list(one.relations) == list(other.relations)
    for a, b in ((one.features, other.features), *((one.relations[r], other.relations[r]) for r in one.relations)):
        assert abs(sparse.csr_array(a) - sparse.csr_array(b)).sum() == 0


def test_tables_in_two_parts_are_the_whole():
    """The oracle: the graph of both tables at once."""
    before = kf.Graph.from_frames(NODES[:N], EDGES[OLD], **HOW)
    grown = before.with_frames(NODES[N:], EDGES[~OLD], **HOW)
    same(grown, kf.Graph.from_frames(NODES, EDGES, **HOW))
    assert len(before) == N, "the graph itself stays as it was"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 5), st.integers(0, 4), st.booleans(), st.data())
def test_arrays_in_two_parts_are_the_whole(n: int, m: int, by_id: bool, data: Any):
    ends = st.tuples(*[st.integers(0, max(n + m - 1, 0))] * 2)
    drawn = data.draw(st.lists(ends, max_size=12)) if n + m else []
    pairs = sorted({pair for pair in drawn if pair[0] != pair[1]})
    labels = data.draw(st.lists(st.sampled_from(["x", "y", None]), min_size=n + m, max_size=n + m))
    features = np.arange(2.0 * (n + m)).reshape(n + m, 2)
    ids = [f"n{i}" for i in range(n + m)] if by_id else None
    old, new = ([p for p in pairs if (max(p) < n) is inside] for inside in (True, False))
    whole = kf.Graph(features, labels, {"r": pairs, "s": pairs}, ids, classes=["x", "y"])
    before = kf.Graph(
        features[:n], labels[:n], {"r": old, "s": old}, None if ids is None else ids[:n], classes=["x", "y"]
    )
    names = [(ids[a], ids[b]) for a, b in new] if ids else new
    added = {
        "r": names,
        "s": sparse.coo_array((np.ones(len(new)), np.array(new, int).reshape(-1, 2).T), (n + m, n + m)),
    }
    if n == 0 and ids is not None:
        return  # a graph without nodes has no ids of its own
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kinfolk.graph.growing._warn_of_one_way", lambda *_: None)
        grown = before.with_nodes(features[n:], added, None if ids is None else ids[n:], labels[n:])
    same(grown, whole)


def test_known_nodes_stay_known():
    before = kf.Graph.from_frames(NODES[:N], EDGES[OLD], **HOW)
    model = kf.StackedNodes(LogisticRegression(), depth=1, folds=2, known="true", n_jobs=1).fit(before)
    grown = before.with_frames(NODES[N:].drop(columns="topic"), EDGES[~OLD], **{**HOW, "label": None})
    known = model.known_nodes(grown)
    assert known[:N].all() and not known[N:].any()
    answers = model.predict(grown, nodes=grown.ids[N:])
    assert (answers == model.predict(kf.Graph.from_frames(NODES, EDGES, **HOW))[N:]).all()
    assert (answers == NODES["topic"][N:]).mean() > 0.6


def test_groups_titles_labels_and_masks_of_new_nodes():
    graph = kf.Graph([[1.0], [2.0]], ["b", "c"], {"r": []}, ["u", "v"], ["g", "h"], titles=["one", None])
    graph = graph.with_masks({"train": [0]})
    grown = graph.with_nodes([[3.0], [4.0]], {"r": [("w", "u")]}, ["w", "z"], ["a", None], ["h", "k"])
    assert grown.labels == ["b", "c", "a", None] and list(grown.classes) == ["a", "b", "c"]
    assert grown.group_names == ("g", "h", "k") and grown.group_codes.tolist() == [0, 1, 1, 2]
    assert grown.titles == ("one", "", "", "") and grown.masks["train"].tolist() == [True, False, False, False]
    assert grown.relations["r"].toarray()[2].tolist() == [1, 0, 0, 0]


def test_links_that_were_there_stay_as_they_were(caplog: pytest.LogCaptureFixture):
    links = sparse.csr_array(np.array([[0, 2.5], [0, 0]]))
    graph = kf.Graph([[1.0], [2.0]], None, {"r": links}, ["u", "v"])
    grown = graph.with_nodes([[3.0]], {"r": [("u", "v"), ("w", "u")]}, ["w"])
    assert grown.relations["r"].toarray().tolist() == [[0, 2.5, 0], [0, 0, 0], [1, 0, 0]]
    assert "relation 'r': 1 links were there already, and stay as they were" in caplog.text


def test_links_given_one_way_are_spoken_of():
    pairs = [(0, 1)]
    graph = kf.Graph(np.zeros((2, 1)), None, {"r": pairs, "s": [(1, 0)]})
    with pytest.warns(DataWarning, match="relations 'r' and 's' were each other's inverse, and with the new links"):
        graph.with_nodes([[0.0]], {"r": [(2, 0)]})
    both = kf.Graph(np.zeros((2, 1)), None, {"r": [(0, 1), (1, 0)]})
    with pytest.warns(DataWarning, match="relation 'r' had every link both ways"):
        both.with_nodes([[0.0]], {"r": [(2, 0)]})
    assert both.with_nodes([[0.0]], {"r": [(2, 0), (0, 2)]}).ids == ("0", "1", "2")


def test_new_nodes_that_cannot_be_had():
    graph = kf.Graph([[1.0], [2.0]], ["b", "c"], {"r": []}, ["u", "v"], feature_names=["age"])
    row = [[3.0]]
    for arguments, message in (
        ({}, "new nodes need `ids=.*such as 'u'"),
        ({"ids": ["v"]}, "ids must be distinct; 'v', new node 0, is node 1 of the graph already: give new nodes alone"),
        ({"ids": ["w"], "relations": {"q": []}}, "there is no relation 'q' in this graph; there are: 'r'"),
        ({"ids": ["w"], "relations": {"r": [("w", "x")]}}, "relation 'r': there is no node 'x' in this graph"),
        ({"ids": ["w"], "relations": {"r": [(0, 9)]}}, "relation 'r': 9 is no number of a node, from 0 to 2"),
        ({"ids": ["w"], "relations": {"r": [0, 1]}}, "relation 'r' must be pairs"),
        (
            {"ids": ["w"], "labels": [3]},
            "labels must be of one type; those of the graph are str, those of new nodes int",
        ),
    ):
        with pytest.raises(InputError, match=message):
            graph.with_nodes(row, **arguments)
    with pytest.raises(InputError, match="new nodes must have the 1 features of the graph; got 2"):
        graph.with_nodes([[1.0, 2.0]], ids=["w"])
    with pytest.raises(InputError, match=r"the graph has 2 groups .* say whose new nodes are"):
        kf.Graph([[1.0], [2.0]], None, {}, None, ["g", "h"]).with_nodes(row)
    before = kf.Graph.from_frames(NODES[:N], EDGES[OLD], **HOW)
    with pytest.raises(InputError, match="nodes, row 0: 'p39' is node 39 of the graph already; leave out the rows"):
        before.with_frames(NODES[N - 1 :], EDGES[~OLD], **HOW)
    with pytest.raises(InputError, match=r"no relation 'links_to' .* there are: 'cites', 'cited_by'. Name links as"):
        before.with_frames(NODES[N:], EDGES[~OLD], label="topic")


# -- masks --------------------------------------------------------------------------------------------


class Tensor:
    """What a tensor of torch can be asked for here."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        return self.values


def test_masks_of_a_split():
    graph = kf.Graph(np.zeros((4, 1)), ids=["a", "b", "c", "d"])
    split = {"train": np.array([0, 1]), "valid": Tensor([2]), "test": ["d"]}
    found = kf.masks(graph, split)
    assert {name: np.flatnonzero(mask).tolist() for name, mask in found.items()} == {
        "train": [0, 1], "valid": [2], "test": [3]
    }  # fmt: skip
    kept = graph.with_masks(split)
    assert list(kept.masks) == ["train", "valid", "test"] and kept.with_labels([1, 2, 1, 2]).masks["test"][3]
    assert kept.subset([3, 0]).masks["train"].tolist() == [False, True]
    with pytest.raises(ValueError, match="read-only"):
        kept.masks["train"][0] = False
    for wrong, message in (
        ({"train": [True, False]}, r"masks\['train'\] must be 4 truth values, .* got a mask of 2: build it for this"),
        ({"train": np.array([0, 4])}, r"masks\['train'\]: nodes are numbered from 0 to 3; got 4: is the split of this"),
        ({"train": np.array([0, 1, 0, 1])}, r"masks\['train'\] looks like a mask of 0 and 1"),
        ([0, 1], "a split must be a dict, name -> truth values, numbers or ids of nodes; got list"),
    ):
        with pytest.raises(InputError, match=message):
            kf.masks(graph, wrong)  # type: ignore[arg-type]


def test_masks_of_pytorch_geometric():
    several = np.eye(4, 2, dtype=bool)
    data = SimpleNamespace(
        x=np.zeros((4, 1)), y=Tensor([0, 1, 0, 1]), edge_index=np.array([[0, 1], [1, 2]]),
        train_mask=Tensor([True, True, False, False]), val_mask=several, test_mask=np.array([0, 0, 0, 1], np.uint8),
    )  # fmt: skip
    graph = kf.Graph.from_pyg(data)
    assert (
        graph.masks["train"].tolist() == [True, True, False, False] and graph.masks["val"].tolist() == several.tolist()
    )
    assert graph.masks["test"].tolist() == [False, False, False, True] and graph.masks["test"].dtype == bool
    model = kf.StackedNodes(LogisticRegression(), depth=0, n_jobs=1).fit(graph, train=graph.masks["train"])
    assert model.known_nodes(graph).tolist() == graph.masks["train"].tolist()
    with pytest.raises(InputError, match="train must be 4 truth values"):
        kf.StackedNodes(LogisticRegression(), depth=0).fit(graph, train=graph.masks["val"])
    data.train_mask = np.array([0.5, 1, 0, 0])
    with pytest.raises(InputError, match="train_mask must hold truth values; got float64"):
        kf.Graph.from_pyg(data)


class Dgl:
    """The face of a graph of DGL."""

    canonical_etypes = (("_N", "_E", "_N"),)
    ntypes = ("_N",)
    batch_size = 1

    def __init__(self, n: int, edges: Any, ndata: dict[str, Any], edata: dict[str, Any] | None = None) -> None:
        self._n, self._edges, self.ndata, self.edata = n, edges, ndata, edata or {}

    def num_nodes(self) -> int:
        return self._n

    def edges(self) -> tuple[Tensor, Tensor]:
        source, target = np.array(self._edges).reshape(-1, 2).T
        return Tensor(source), Tensor(target)

    def batch_num_nodes(self) -> Tensor:
        return Tensor([2, 1])


def test_graphs_of_dgl():
    nodes = {
        "feat": Tensor([[1.0], [2.0], [3.0]]),
        "label": Tensor([1, -1, 0]),
        "train_mask": Tensor([True, False, False]),
    }
    graph = kf.Graph.from_dgl(Dgl(3, [(0, 1), (1, 2)], nodes))
    like = kf.Graph.from_pyg(SimpleNamespace(x=nodes["feat"], y=nodes["label"], edge_index=np.array([[0, 1], [1, 2]])))
    same(graph, like)
    assert graph.labels == [1, None, 0] and graph.masks["train"].tolist() == [True, False, False]
    kinds = Dgl(3, [(0, 1), (1, 2)], nodes, {"_TYPE": Tensor([0, 1]), "w": Tensor([0.5, 2.0])})
    named = kf.Graph.from_dgl(kinds, relation="_TYPE", weight="w")
    assert [*named.relations] == ["0", "0_inverse", "1", "1_inverse"] and named.relations["1"].toarray()[1, 2] == 2
    kinds.batch_size = 2
    assert kf.Graph.from_dgl(kinds).group_codes.tolist() == [0, 0, 1]
    bare = kf.Graph.from_dgl(Dgl(2, [], {}))
    assert bare.features.shape == (2, 0) and bare.labels == [None, None]


def test_graphs_of_dgl_that_cannot_be_used():
    hetero = Dgl(2, [(0, 1)], {})
    hetero.canonical_etypes = (("user", "buys", "item"), ("user", "knows", "user"))
    with pytest.raises(InputError, match=r"got 2 kinds of links \(user:buys:item, .*dgl.to_homogeneous.*'_TYPE'"):
        kf.Graph.from_dgl(hetero)
    with pytest.raises(InputError, match=r"expected a graph of DGL, got builtins.dict"):
        kf.Graph.from_dgl({})
    with pytest.raises(InputError, match=r"no 'x' among the nodes' data \(features\); there is 'feat': name one with"):
        kf.Graph.from_dgl(Dgl(1, [], {"feat": Tensor([[1.0]])}), features="x")
    with pytest.raises(InputError, match="no attribute 'w'"):
        kf.Graph.from_dgl(Dgl(2, [(0, 1)], {}), weight="w")
