"""Links of tables to relations: against a dict of sets, and every rule for what is left out, merged or refused."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.errors import InputError, SettingError
from kinfolk.graph.graph import Graph

Pair = tuple[str, str]


def build(edges: Any, **options: Any) -> Graph:
    """Nodes a, b, c, d and links told as (source, target) or (source, target, ...)."""
    names = ["source", "target", "kind", "w"]
    frames = edges
    if isinstance(edges, list):
        width = max(map(len, edges), default=2)
        frames = pd.DataFrame(edges, columns=names[:width])
    return Graph.from_frames(pd.DataFrame({"id": list("abcd")}), frames, **options)


def links(graph: Graph, relation: str = "links_to") -> dict[Pair, float]:
    pairs = graph.relations[relation].tocoo()
    return {(graph.ids[i], graph.ids[j]): float(w) for i, j, w in zip(*pairs.coords, pairs.data, strict=True)}


# -- against a dict -----------------------------------------------------------------------------------

ENDS = st.sampled_from(["a", "b", "c", "d", "z"])
WEIGHTS = st.sampled_from([0.0, 0.5, 1.0, 2.0, -1.0])
ROWS = st.lists(st.tuples(ENDS, ENDS, st.sampled_from(["r", "s"]), WEIGHTS), max_size=12)


def brute_force(rows: list[tuple[str, str, str, float]], weighted: bool, directed: bool | None) -> dict[str, Any]:
    """Relations by name, as dicts of dicts; and nothing of how it is done."""
    told: dict[str, dict[Pair, float]] = {}
    for a, b, kind, weight in rows:
        own = told.setdefault(kind, defaultdict(float))
        if a != b and "z" not in (a, b):
            own[a, b] = own[a, b] + weight if weighted else 1.0
    relations = {}
    for kind, own in told.items():
        own = {pair: weight for pair, weight in own.items() if weight}
        back = {(b, a): weight for (a, b), weight in own.items()}
        if directed is True or (directed is None and own != back):
            relations |= {kind: own, f"{kind}_inverse": back}
        elif own == back:
            relations[kind] = own
        else:
            both = {pair: own.get(pair, 0) + back.get(pair, 0) for pair in {*own, *back}}
            relations[kind] = {pair: weight if weighted else 1.0 for pair, weight in both.items() if weight}
    return relations


@given(
    rows=ROWS, weighted=st.booleans(), directed=st.sampled_from([True, False, None]), library=st.sampled_from([pd, pl])
)
def test_any_links(rows: list[tuple[str, str, str, float]], weighted: bool, directed: bool | None, library: Any):
    columns = {name: [row[i] for row in rows] for i, name in enumerate(["source", "target", "kind", "w"])}
    nodes = library.DataFrame({"id": list("dcba")})
    options: dict[str, Any] = {"relation": "kind", "directed": directed, "weight": "w" if weighted else None}
    if rows and all("z" in row[:2] for row in rows):
        with pytest.raises(InputError, match=f"none of the {len(rows)} links joins two nodes of nodes"):
            Graph.from_frames(nodes, library.DataFrame(columns), **options)
        return
    graph = Graph.from_frames(nodes, library.DataFrame(columns), **options)
    expected = brute_force(rows, weighted, directed)
    assert {name: links(graph, name) for name in graph.relations} == expected


@given(rows=ROWS, order=st.permutations(range(4)))
def test_groups_move_nodes_and_not_links(rows: list[tuple[str, str, str, float]], order: list[int]):
    rows = [row for row in rows if "z" not in row[:2]]
    nodes = pd.DataFrame({"id": list("abcd"), "g": [order[i] // 2 for i in range(4)]})
    edges = pd.DataFrame([row[:2] for row in rows], columns=["source", "target"])
    plain, moved = Graph.from_frames(nodes, edges, features=[]), Graph.from_frames(nodes, edges, features=[], group="g")
    assert links(plain) == links(moved) and sorted(moved.ids) == list("abcd")


# -- rules --------------------------------------------------------------------------------------------


def test_what_is_dropped_is_told_once(caplog: pytest.LogCaptureFixture):
    graph = build([("a", "b"), ("a", "z"), ("z", "z"), ("b", "b"), ("a", "b"), ("a", "b"), ("y", "a")])
    assert links(graph) == {("a", "b"): 1}
    (record,) = caplog.records
    told = "3 with an end that is not in nodes (the first: 'z' in edges, row 1), 1 from a node to itself, 2 repeated"
    assert record.name == "kinfolk" and record.getMessage() == f"links dropped: {told}"


def test_weights_of_repeated_links_are_added(caplog: pytest.LogCaptureFixture):
    rows = [("a", "b", "r", 0.5), ("a", "b", "r", 2.0), ("b", "c", "r", 0.0), ("c", "d", "r", 1.0)]
    assert links(build(rows, weight="w")) == {("a", "b"): 2.5, ("c", "d"): 1}
    assert [record.getMessage() for record in caplog.records] == ["links merged: 1 repeated, their weights added"]


def test_links_without_direction(caplog: pytest.LogCaptureFixture):
    once = build([("a", "b"), ("c", "b")], directed=False)
    assert list(once.relations) == ["links_to"]
    assert links(once) == {("a", "b"): 1, ("b", "a"): 1, ("b", "c"): 1, ("c", "b"): 1}
    both = build([("a", "b"), ("c", "b"), ("b", "a"), ("b", "c")], directed=False)
    assert links(both) == links(once) and not caplog.records, "told from both ends, each link is told once"
    assert links(build([("a", "b"), ("c", "b"), ("b", "a")], directed=False)) == links(once)
    assert caplog.records[-1].getMessage() == "links dropped: 1 repeated"


def test_weights_without_direction(caplog: pytest.LogCaptureFixture):
    both = [("a", "b", "r", 2.0), ("b", "a", "r", 2.0)]
    assert links(build(both, weight="w", directed=False)) == {("a", "b"): 2, ("b", "a"): 2} and not caplog.records
    assert links(build(both[:1], weight="w", directed=False)) == {("a", "b"): 2, ("b", "a"): 2} and not caplog.records
    apart = [("a", "b", "r", 2.0), ("b", "a", "r", 3.0)]
    assert links(build(apart, weight="w", directed=False)) == {("a", "b"): 5, ("b", "a"): 5}
    assert "links merged: 1 repeated" in caplog.text


def test_direction_by_the_links_themselves():
    rows = [("a", "b", "friend"), ("b", "a", "friend"), ("a", "b", "boss")]
    graph = build(rows, relation="kind", directed=None)
    assert list(graph.relations) == ["friend", "boss", "boss_inverse"]


def test_names_of_relations():
    rows = [("a", "b", "cites"), ("c", "b", "likes")]
    assert list(build(rows, relation="kind").relations) == ["cites", "cites_inverse", "likes", "likes_inverse"]
    named = build(rows, relation="kind", inverse={"cites": "cited by"})
    assert list(named.relations) == ["cites", "cited by", "likes", "likes_inverse"]
    assert links(named, "cited by") == {("b", "a"): 1}
    assert list(build(rows, relation="kind", inverse=None).relations) == ["cites", "likes"]
    assert list(build(rows, link="cites", inverse="cited_by").relations) == ["cites", "cited_by"]
    assert list(build(rows, inverse={"links_to": "back"}).relations) == ["links_to", "back"]
    with pytest.raises(SettingError, match=r"links with names need `inverse={'cites': ...}.* got `inverse='cited_by'"):
        build(rows, relation="kind", inverse="cited_by")
    with pytest.raises(SettingError, match="two relations would be named 'likes'"):
        build(rows, relation="kind", inverse={"cites": "likes"})
    with pytest.raises(SettingError, match="two relations would be named 'back'"):
        build(rows, relation="kind", inverse={"cites": "back", "likes": "back"})


def test_names_may_be_numbers():
    assert list(build([("a", "b", 2), ("a", "c", 1)], relation="kind", inverse=None).relations) == ["2", "1"]


def test_several_tables(caplog: pytest.LogCaptureFixture):
    one = pd.DataFrame({"source": ["a", "z"], "target": ["b", "b"]})
    two = pl.DataFrame({"source": ["a", "c"], "target": ["b", "d"]})
    assert links(build((one, two))) == {("a", "b"): 1, ("c", "d"): 1}
    told = "links dropped: 1 with an end that is not in nodes (the first: 'z' in edges[0], row 1), 1 repeated"
    assert [record.getMessage() for record in caplog.records] == [told]
    graph = build({"cites": one, "likes": two})
    assert links(graph, "cites") == {("a", "b"): 1} and links(graph, "likes_inverse") == {("b", "a"): 1, ("d", "c"): 1}
    with pytest.raises(
        SettingError, match=r"the links of edges\['cites'\] are named 'cites' already; relation must be"
    ):
        build({"cites": one}, relation="source")
    with pytest.raises(
        InputError, match=r"edges\[1\], row 0: a link that was there before, one of 1; .* `duplicates='merge'"
    ):
        build((one, two), duplicates="refuse")
    assert build({}).relations == {}


def test_no_links_are_told(caplog: pytest.LogCaptureFixture):
    graph = build([])
    assert graph.relations["links_to"].nnz == 0 and [r.getMessage() for r in caplog.records] == ["edges has no links"]
    assert links(build([("a", "a")])) == {}, "a link to itself at least knows the node"


REFUSED: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "an end is no node": ([("a", "b"), ("a", "z"), ("y", "z")], {"dangling": "refuse"},
                          "^edges, row 1: 'z' is not in nodes, and 2 links have such an end; add the nodes, or drop"),
    "to itself": ([("a", "b"), ("c", "c")], {"self_loops": "refuse"},
                  "^edges, row 1: a link from 'c' to itself, one of 1; .* drop them with `self_loops='drop'"),
    "again": ([("a", "b"), ("c", "c"), ("b", "a"), ("a", "b")], {"duplicates": "refuse"},
              "^edges, row 3: a link that was there before, one of 1; .* merge them with `duplicates='merge'"),
    "again from the other end": ([("a", "b"), ("b", "c"), ("b", "a")], {"duplicates": "refuse", "directed": False},
                                 "^edges, row 2: a link that was there before"),
    "none joins": ([("x", "y"), ("a", "z")], {}, "^edges: none of the 2 links joins two nodes of nodes; a node is 'a', "
                   r"a link goes from 'x' \('source'\) to 'y' \('target'\); do the tables belong together"),
    "none joins, numbers": ([(1, 2)], {}, "a node is 'a', a link goes from '1'"),
    "none joins, fractions": ([("1.0", "2.0")], {}, "numbers were written as fractions in one of the tables"),
    "none joins, blanks": ([(" a", "b")], {}, "a link goes from ' a' .*: take the blanks away from the ids"),
    "a missing end": ([("a", "b"), ("a", None)], {}, r"^edges, row 1: column 'target' \(target\): the id is missing"),
    "no name": ([("a", "b", "r"), ("a", "c", None)], {"relation": "kind"}, "^edges, row 1: no relation in column 'k"),
    "no weight": ([("a", "b", "r", 1.0), ("a", "c", "r", None)], {"weight": "w"},
                  r"^edges, row 1: column 'w' \(weight\): expected a finite number, got nothing; fill it in"),
    "an endless weight": ([("a", "b", "r", float("inf"))], {"weight": "w"}, "row 0: .* got inf"),
    "a word as weight": ([("a", "b", "r", "much")], {"weight": "w"}, r"'w' \(weight\): expected numbers, got String"),
    "no such column": ([("a", "b")], {"source": "from"}, r"^edges: no column 'from' \(source\); the columns are 'so"),
    "no such weight": ([("a", "b")], {"weight": "w"}, r"^edges: no column 'w' \(weight\)"),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "options", "message"), REFUSED.values(), ids=list(REFUSED))
def test_links_that_are_refused(rows: list[Any], options: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        build(rows, **options)


def test_ends_of_pandas_with_a_gap():
    nodes = pd.DataFrame({"id": [1, 2]})
    with pytest.raises(
        InputError, match=r"column 'target' \(target\): .* fractional numbers like 2.0, as pandas makes"
    ):
        Graph.from_frames(nodes, pd.DataFrame({"source": [1, 1], "target": [2, None]}))
    with pytest.raises(InputError, match=r"fractions in one of the tables; make them whole in both"):
        Graph.from_frames(nodes, pd.DataFrame({"source": ["1.0"], "target": ["2.0"]}))
