"""Graph: names in, codes out, every mistake told by its node; the same nodes when cut, copied and realigned."""

from __future__ import annotations

import copy
import logging
import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from kinfolk.core.data import Vocabulary
from kinfolk.errors import DataWarning, InputError, SettingError
from kinfolk.graph.graph import Graph
from kinfolk.graph.nodes import Nodes

X = np.arange(12.0).reshape(4, 3)
EDGES = [(0, 1), (2, 3), (3, 2), (1, 0)]


def small(**changed: Any) -> Graph:
    parts: dict[str, Any] = {
        "features": X,
        "labels": ["yes", None, "no", "yes"],
        "relations": {"cites": EDGES},
        "ids": ["a", "b", "c", "d"],
        "groups": ["north", "north", "south", "south"],
        "feature_names": ["red", "green", "blue"],
    }
    return Graph(**{**parts, **changed})


def test_names_become_codes():
    graph = small()
    assert graph.classes == Vocabulary(["no", "yes"])
    assert graph.label_codes.tolist() == [1, -1, 0, 1] and graph.label_codes.dtype == np.int32
    assert graph.labels == ["yes", None, "no", "yes"]
    assert graph.group_codes.tolist() == [0, 0, 1, 1] and graph.group_names == ("north", "south")
    assert len(graph) == graph.n_nodes == 4 and graph.n_features == 3 and graph.n_groups == 2
    assert repr(graph) == "Graph(4 nodes, 3 features, 2 classes, relations: cites 4, 2 groups)"


def test_the_source_of_a_link_is_its_row():
    links = small(relations={"cites": [(0, 1), (2, 3)]}).relations["cites"]
    assert links.nonzero()[0].tolist() == [0, 2] and links.nonzero()[1].tolist() == [1, 3]
    assert links.data.tolist() == [1.0, 1.0]


def test_relational_is_the_same_nodes():
    graph = small()
    core = graph.relational()
    assert core.features.tolist() == X.tolist() and core.classes == graph.classes
    assert core.labels.tolist() == graph.label_codes.tolist() and core.groups.tolist() == [0, 0, 1, 1]
    assert (core.relations["cites"] != graph.relations["cites"]).nnz == 0


def test_nodes_of_one_group_need_not_stand_together():
    """The graph keeps the caller's order; what models work on goes group by group."""
    graph = small(groups=["north", "south", "north", "south"], titles=["A", "B", "C", "D"])
    assert graph.ids == ("a", "b", "c", "d") and graph.labels == ["yes", None, "no", "yes"]
    assert graph.group_codes.tolist() == [0, 1, 0, 1] and graph.features.tolist() == X.tolist()
    core, order = graph.relational(), [0, 2, 1, 3]
    assert graph.group_order.tolist() == order and core.groups.tolist() == [0, 0, 1, 1]
    assert core.features.tolist() == X[order].tolist() and core.labels.tolist() == graph.label_codes[order].tolist()
    links = graph.relations["cites"].toarray()
    assert core.relations["cites"].toarray().tolist() == links[np.ix_(order, order)].tolist()
    assert graph.relational() is core and small().group_order is None
    for other in (pickle.loads(pickle.dumps(graph)), graph.with_labels(graph.labels), graph.with_features(X)):
        assert other.ids == graph.ids and other.group_codes.tolist() == [0, 1, 0, 1] and other.titles == graph.titles
        assert other.features.tolist() == X.tolist() and (other.relations["cites"].toarray() == links).all()


def test_a_subset_may_tear_groups_apart():
    part = small().subset([0, 2, 1])
    assert part.ids == ("a", "c", "b") and part.group_codes.tolist() == [0, 1, 0]


def test_defaults():
    graph = Graph(sparse.csr_array(X))
    assert graph.ids == ("0", "1", "2", "3") and graph.labels == [None] * 4 and not len(graph.classes)
    assert graph.group_codes.tolist() == [0] * 4 and graph.group_names == ("0",) and not graph.relations


def test_an_empty_graph():
    graph = Graph(np.zeros((0, 2)), [], {"cites": []}, groups=[])
    assert len(graph) == 0 and graph.n_groups == 0 and graph.relational().n_instances == 0
    assert len(graph.subset([])) == 0


def test_codes_with_classes_are_the_same_as_names():
    graph = small(labels=np.array([1, -1, 0, 1]), classes=["no", "yes"], groups=[0, 0, 1, 1], group_names=["n", "s"])
    assert graph.labels == small().labels and graph.group_names == ("n", "s")


COLUMN = {
    "array": np.array([["a"], ["b"], ["a"]]),
    "objects": np.array([["a"], ["b"], ["a"]], object),
    "lists": [["a"], ["b"], ["a"]],
    "frame": pd.DataFrame({"topic": ["a", "b", "a"]}),
}
SEVERAL = {
    "indicators": (np.eye(3), (3, 3)),
    "indicator lists": ([[1, 0], [0, 1], [1, 0]], (3, 2)),
    "sparse indicators": (sparse.csr_array(np.eye(3)), (3, 3)),
    "dummies": (pd.get_dummies(pd.Series(["a", "b", "a"])), (3, 2)),
    "a row": (np.array([["a", "b", "a"]]), (1, 3)),
    "three dimensions": (np.zeros((3, 1, 1)), (3, 1, 1)),
}


@pytest.mark.parametrize("labels", COLUMN.values(), ids=COLUMN)
def test_labels_may_stand_in_a_column_of_their_own(labels: Any, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "kinfolk"):
        graph = Graph(np.zeros((3, 1)), labels)
    assert graph.labels == ["a", "b", "a"] and caplog.messages == ["labels of shape (3, 1) are taken as one column"]
    assert graph.with_labels(labels).labels == graph.labels
    numbers = Graph(np.zeros((3, 1)), np.array([[3], [7], [-1]]))
    assert numbers.labels == [3, 7, None]


@pytest.mark.parametrize(("labels", "shape"), SEVERAL.values(), ids=SEVERAL)
def test_labels_in_several_columns_are_refused_with_their_shape(labels: Any, shape: tuple[int, ...]):
    told = rf"labels must be one a node \(3,\); got shape {re.escape(str(shape))}: choose one column.*argmax"
    with pytest.raises(InputError, match=told):
        Graph(np.zeros((3, 1)), labels)
    with pytest.raises(InputError, match=told):
        Graph(np.zeros((3, 1)), ["a", "b", None]).with_labels(labels)
    with pytest.raises(InputError, match=told):
        Graph.from_scipy(sparse.csr_array((3, 3)), None, labels)


def test_ids_and_groups_may_be_numbers():
    graph = small(ids=[31, 7, np.int64(5), 2], groups=[9, 9, 4, 4])
    assert graph.ids == ("31", "7", "5", "2") and graph.group_names == ("9", "4")
    assert graph.group_codes.tolist() == [0, 0, 1, 1]


WRONG = {
    "features in a row": ({"features": np.zeros(4)}, r"one row a node; got shape \(4,\)"),
    "features not finite": ({"features": np.where(X == 5, np.inf, X)}, "instance 1 has inf in feature 2"),
    "too few labels": ({"labels": ["yes"]}, r"labels must have one entry a node \(4\); got 1"),
    "one string as labels": ({"labels": "yes?"}, "labels must have one entry a node"),
    "a label beyond the classes": ({"labels": [0, 1, 2, 1], "classes": ["no", "yes"]}, "instance 2 has 2"),
    "a name not among the classes": ({"classes": ["yes"]}, "node 2 has the label 'no', not one of the classes"),
    "an id twice": ({"ids": ["a", "b", "a", "d"]}, "'a' is node 0 and node 2"),
    "an id twice, as number and string": ({"ids": [1, "b", "1", "d"]}, "'1' is node 0 and node 2"),
    "an id that is a fraction": ({"ids": ["a", 0.5, "c", "d"]}, "node 1 has 0.5"),
    "too many ids": ({"ids": list("abcde")}, r"ids must have one entry a node \(4\); got 5"),
    "groups that are lists": ({"groups": ["n", "n", ["s"], "s"]}, r"node 2 has \['s'\]"),
    "group names for names": ({"group_names": ["north"]}, "numbers from 0 to 0; node 0 has 'north'"),
    "a group without a name": ({"groups": [0, 0, 1, 1], "group_names": ["n"]}, "node 2 has 1"),
    "too few feature names": ({"feature_names": ["red"]}, "must be 3 strings.*got 1 names"),
    "a feature name twice": ({"feature_names": ["red", "red", "blue"]}, "'red' stands in it twice"),
    "feature names as numbers": ({"feature_names": [1, 2, 3]}, "must be 3 strings.*got 1"),
    "too few titles": ({"titles": ["One"]}, r"titles must have one entry a node \(4\); got 1"),
    "one string as titles": ({"titles": "four"}, "titles must have one entry a node"),
    "a title that is no string": ({"titles": ["One", None, 3, "Four"]}, "None where there is none; node 2 has 3"),
    "a dangling link": ({"relations": {"cites": [(0, 1), (1, 4), (9, 0)]}}, "row 1: link from 1 to 4.*the 2 links"),
    "a link below 0": ({"relations": {"cites": [(-1, 1)]}}, "row 0: link from -1 to 1"),
    "links by three": ({"relations": {"cites": [(0, 1, 2)]}}, r"\(E, 2\).*got int64 \(1, 3\)"),
    "links as fractions": ({"relations": {"cites": [(0.0, 1.0)]}}, "whole numbers.*float64"),
    "a matrix of another size": ({"relations": {"cites": sparse.eye_array(3)}}, r"numbers \(4, 4\); got"),
}


@pytest.mark.parametrize(("changed", "message"), WRONG.values(), ids=list(WRONG))
def test_a_mistake_is_told_by_its_place(changed: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        small(**changed)


def test_repeated_links_count_once_and_self_loops_go(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "kinfolk"):
        graph = small(relations={"cites": [(0, 1), (0, 1), (2, 2), (0, 1)]})
    assert graph.relations["cites"].toarray().sum() == 1
    assert "'cites': 1 self loops dropped, 2 repeated links counted once" in caplog.text


def test_clean_links_are_not_spoken_of(caplog: pytest.LogCaptureFixture):
    small().subset([0, 1])
    assert not caplog.records


def test_self_loops_can_be_refused():
    with pytest.raises(InputError, match="links node 2 to itself"):
        small(relations={"cites": [(2, 2)]}, self_loops="refuse")
    with pytest.raises(SettingError, match="self_loops must be one of drop, refuse"):
        small(self_loops="keep")


def test_weights_stay_and_zeros_are_no_links(caplog: pytest.LogCaptureFixture):
    given_links = sparse.coo_array(([0.5, 2, 0, 1], ([0, 0, 1, 3], [1, 1, 2, 3])), shape=(4, 4))
    links = small(relations={"near": given_links}).relations["near"]
    assert links.nnz == 1 and links[0, 1] == 2.5
    assert given_links.nnz == 4, "the caller's matrix was changed"
    assert "1 self loops dropped" in caplog.text


def test_frozen():
    graph = small()
    with pytest.raises(AttributeError, match="frozen"):
        graph.ids = ()
    with pytest.raises(AttributeError, match="frozen"):
        del graph.ids
    with pytest.raises(ValueError, match="read-only"):
        graph.label_codes[0] = 0


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_are_equal_and_frozen(copied: Any):
    graph, other = small(), copied(small())
    assert other.ids == graph.ids and other.labels == graph.labels and other.feature_names == graph.feature_names
    assert other.group_names == graph.group_names and (other.features == X).all()
    assert (other.relations["cites"] != graph.relations["cites"]).nnz == 0
    assert not other.label_codes.flags.writeable


TITLES = ["On foxes", None, "", "<b>Of</b> owls"]


def test_titles_go_with_their_nodes():
    graph = small(titles=iter(TITLES))
    shown = ("On foxes", "", "", "<b>Of</b> owls")
    kept = [graph, graph.with_labels(None), graph.with_features(X[:, :1]), copy.deepcopy(graph)]
    assert [one.titles for one in [*kept, pickle.loads(pickle.dumps(graph))]] == [shown] * 5
    assert graph.subset([3, 0]).titles == ("<b>Of</b> owls", "On foxes") and graph.subset([]).titles == ()
    assert small().titles is None and small().subset([0]).titles is None and small().with_labels(None).titles is None


def test_titles_are_not_learned_from():
    plain, titled = small(), small(titles=TITLES)
    assert titled.feature_names == plain.feature_names and (titled.features == plain.features).all()


@pytest.mark.parametrize("nodes", [[2, 3, 0], np.array([2, 3, 0])])
def test_subset_keeps_the_links_among_its_nodes(nodes: Any):
    part = small().subset(nodes)
    assert part.ids == ("c", "d", "a") and part.labels == ["no", "yes", "yes"]
    assert part.group_names == ("south", "north") and part.group_codes.tolist() == [0, 0, 1]
    assert part.relations["cites"].toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert part.features.tolist() == X[[2, 3, 0]].tolist() and part.feature_names == ("red", "green", "blue")


def test_subset_by_mask_keeps_the_classes():
    part = small(features=sparse.csr_array(X)).subset([False, True, True, False])
    assert part.ids == ("b", "c") and part.classes.names == ("no", "yes") and part.relations["cites"].nnz == 0


SUBSET_WRONG = {
    "a short mask": ([True, False], "a mask .4,. or a list of indices; got bool"),
    "beyond": ([0, 4], "from 0 to 3; asked for 0 to 4"),
    "from the end": ([-1], "from 0 to 3"),
    "twice": ([0, 0], "'a' is node 0 and node 1"),
    "a table": ([[0], [1]], "a mask"),
}


@pytest.mark.parametrize(("nodes", "message"), SUBSET_WRONG.values(), ids=list(SUBSET_WRONG))
def test_a_subset_that_cannot_be(nodes: Any, message: str):
    with pytest.raises(InputError, match=message):
        small().subset(nodes)


def test_with_labels():
    graph = small()
    other = graph.with_labels(["no", "no", None, "yes"])
    assert other.label_codes.tolist() == [0, 0, -1, 1] and other.ids == graph.ids
    assert graph.with_labels(None).classes == graph.classes and set(graph.with_labels(None).labels) == {None}
    assert graph.with_labels([1, 1, -1, 0]).labels == ["yes", "yes", None, "no"]
    assert graph.with_labels(["x"] * 4, ["x", "y"]).classes.names == ("x", "y")
    assert Graph(X).with_labels(["p", "q", None, "p"]).classes.names == ("p", "q")
    with pytest.raises(InputError, match="'maybe', not one of the classes"):
        graph.with_labels(["maybe"] * 4)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_columns_are_found_by_name(kind: Any):
    rows = small(features=kind(X)).feature_rows(["blue", "colour=unseen", "red"])
    assert rows.shape == (4, 3) and sparse.issparse(rows) == (kind is sparse.csr_array)
    dense = rows.toarray() if sparse.issparse(rows) else rows
    assert dense.tolist() == np.column_stack([X[:, 2], np.zeros(4), X[:, 0]]).tolist()


def test_columns_without_names_are_matched_by_place():
    assert (small().feature_rows(3) == X).all() and (small().feature_rows(np.int64(3)) == X).all()
    with pytest.warns(DataWarning, match="columns are taken by position"):
        assert (small(feature_names=None).feature_rows(["x", "y", "z"]) == X).all()
    for graph, columns in ((small(), 2), (small(feature_names=None), ["red", "green"])):
        with pytest.raises(InputError, match=r"expected 2 features, got 3.*feature_names=\.\.\."):
            graph.feature_rows(columns)


@given(st.data())
def test_subset_is_indexing(data: st.DataObject):
    """Any subset of any graph in one group: rows, labels and links are those of the matrices indexed plainly."""
    n = data.draw(st.integers(0, 6))
    pair = st.tuples(st.integers(0, max(n - 1, 0)), st.integers(0, max(n - 1, 0)))
    edges = data.draw(st.lists(pair, max_size=12 if n else 0))
    labels = data.draw(st.lists(st.sampled_from(["p", "q", None]), min_size=n, max_size=n))
    rows = data.draw(st.permutations(range(n)).flatmap(lambda p: st.integers(0, n).map(lambda k: p[:k])))
    table = np.zeros((n, n))
    for i, j in edges:
        table[i, j] = i != j
    graph = Graph(np.eye(n), labels, {"r": edges})
    part = graph.subset(rows)
    assert (graph.relations["r"].toarray() == table).all()
    assert (part.relations["r"].toarray() == table[np.ix_(rows, rows)]).all()
    assert part.labels == [labels[i] for i in rows] and part.ids == tuple(str(i) for i in rows)


def test_features_without_names_for_a_model_of_names_are_taken_by_position():
    told = r"trained on named features \('year', 'pages'\) and these have no names: columns are taken by position"
    with pytest.warns(DataWarning, match=told):
        assert Graph([[1.0, 2.0]]).feature_rows(["year", "pages"]).tolist() == [[1.0, 2.0]]
    with pytest.warns(DataWarning, match=told):
        Nodes.of(Graph([[1.0, 2.0]]).relational(), ["year", "pages"])
    assert Graph([[1.0, 2.0]]).feature_rows(2).tolist() == [[1.0, 2.0]]
    Nodes.of(Graph([[1.0, 2.0]]).relational(), 2)


def test_features_that_a_model_knows_and_the_graph_lacks(caplog: pytest.LogCaptureFixture):
    graph = Graph([[1.0, 2.0]], feature_names=["year", "title:graphs"])
    assert graph.feature_rows(["year", "title:trees"]).tolist() == [[1.0, 0.0]] and not caplog.text
    assert graph.feature_rows(["year", "year is missing"]).tolist() == [[1.0, 0.0]], "nothing is missing"
    with pytest.warns(DataWarning, match="are not here and count as 0 in every node: 'pages'; add these columns"):
        assert graph.feature_rows(["pages", "title:graphs"]).tolist() == [[0.0, 2.0]]
    with pytest.raises(
        InputError, match="none of the model's 1 features is here: it knows 'pages', this graph has 'year'"
    ):
        graph.feature_rows(["pages"])
