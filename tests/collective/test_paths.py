"""Paths of relations: read, printed, composed, joined, turned round and closed, beside dense loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import kinfolk as kf
import stacked_oracle as oracle
from kinfolk.collective.relations import Relation
from kinfolk.errors import InputError, SettingError
from strategies import SEEDS

NAMES = ("cites", "is in", "links.to")
LEAVES = st.sampled_from(NAMES).map(Relation)


def grown(parts: st.SearchStrategy[Relation]) -> st.SearchStrategy[Relation]:
    pairs = st.tuples(parts, parts)
    return (
        parts.map(lambda r: ~r)
        | parts.map(lambda r: r.component())
        | pairs.map(lambda p: p[0] @ p[1])
        | pairs.map(lambda p: p[0] | p[1])
    )


PATHS = st.recursive(LEAVES, grown, max_leaves=6)


def weights(n: int, seed: int, density: float = 0.5) -> np.ndarray:
    """(n, n), weights in steps of 1/4, so that sums and products of a few are exact."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, n)) < density, rng.integers(1, 9, (n, n)) / 4, 0.0)


@st.composite
def relations(draw: st.DrawFn, loops: bool = True) -> dict[str, np.ndarray]:
    n, seed = draw(st.integers(0, 5)), draw(SEEDS)
    found = {name: weights(n, seed + i, draw(st.sampled_from([0.0, 0.3, 0.8]))) for i, name in enumerate(NAMES)}
    return {name: table if loops else table - np.diag(np.diag(table)) for name, table in found.items()}


def as_csr(tables: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: sparse.csr_array(table) for name, table in tables.items()}


def walked(path: Relation, tables: dict[str, np.ndarray]) -> np.ndarray:
    """Every way there, loops on the way included."""
    parts = [walked(part, tables) for part in path.parts]
    if not parts:
        return tables[path.name]
    n = len(parts[0])
    if path.name == "component":
        reach = (parts[0] != 0) | (parts[0].T != 0) | np.eye(n, dtype=bool)
        for _ in range(n):
            reach = reach | (reach.astype(int) @ reach.astype(int) > 0)
        return reach.astype(float)
    result = np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            if path.name == "~":
                result[i, k] = parts[0][k, i]
            elif path.name == "|":
                result[i, k] = max(part[i, k] for part in parts)
            else:
                result[i, k] = sum(parts[0][i, j] * parts[1][j, k] for j in range(n))
    return result


def apart(table: np.ndarray) -> np.ndarray:
    """Without a diagonal: nobody looks at himself."""
    return table - np.diag(np.diag(table))


@given(PATHS, relations())
def test_links_are_all_the_ways_there_but_none_back(path: Relation, tables: dict[str, np.ndarray]):
    links = path.links(as_csr(tables))
    np.testing.assert_allclose(links.toarray(), apart(walked(path, tables)), rtol=1e-12)
    assert isinstance(links, sparse.csr_array) and links.has_canonical_format and (links.data != 0).all()


@given(relations())
def test_two_steps_are_the_neighbours_of_neighbours(tables: dict[str, np.ndarray]):
    a, b = tables["cites"], tables["is in"]
    given_ = as_csr(tables)
    np.testing.assert_array_equal(Relation.parse("cites @ is in").links(given_).toarray(), oracle.compose(a, b))
    np.testing.assert_array_equal(Relation.parse("cites @ cites").links(given_).toarray(), oracle.compose(a, a))
    np.testing.assert_array_equal(Relation.parse("~cites").links(given_).toarray(), apart(a.T))
    np.testing.assert_array_equal(Relation.parse("~cites @ cites").links(given_).toarray(), oracle.compose(a.T, a))
    turned = Relation.parse("~(cites @ is in)").links(given_).toarray()
    np.testing.assert_array_equal(turned, oracle.compose(a, b).T)
    np.testing.assert_array_equal(turned, Relation.parse("~is in @ ~cites").links(given_).toarray())
    np.testing.assert_array_equal(Relation.parse("cites | is in").links(given_).toarray(), apart(np.maximum(a, b)))


@given(PATHS, relations())
def test_what_is_printed_can_be_read_again(path: Relation, tables: dict[str, np.ndarray]):
    again = Relation.parse(str(path))
    assert str(again) == str(path) and again.names() == path.names()
    data = as_csr(tables)
    np.testing.assert_allclose(again.links(data).toarray(), path.links(data).toarray(), rtol=1e-12)


@given(PATHS)
def test_names_are_those_of_the_data_each_once(path: Relation):
    def leaves(part: Relation) -> list[str]:
        return [name for inner in part.parts for name in leaves(inner)] if part.parts else [part.name]

    assert path.names() == list(dict.fromkeys(leaves(path)))


CITES, IN, TO = map(Relation, NAMES)


@pytest.mark.parametrize(
    ("text", "meant", "printed"),
    [
        ("cites", CITES, "cites"),
        ("  is in ", IN, "is in"),
        ("~cites", ~CITES, "~cites"),
        ("~ ~cites", ~~CITES, "~~cites"),
        ("cites@is in", CITES @ IN, "cites @ is in"),
        ("cites @ is in @ links.to", CITES @ IN @ TO, "cites @ is in @ links.to"),
        ("cites | is in | links.to", CITES | IN | TO, "cites | is in | links.to"),
        ("cites @ is in | links.to", (CITES @ IN) | TO, "cites @ is in | links.to"),
        ("cites | is in @ links.to", CITES | (IN @ TO), "cites | is in @ links.to"),
        ("(cites | is in) @ links.to", (CITES | IN) @ TO, "(cites | is in) @ links.to"),
        ("cites @ (is in | links.to)", CITES @ (IN | TO), "cites @ (is in | links.to)"),
        ("~cites @ is in", ~CITES @ IN, "~cites @ is in"),
        ("~(cites @ is in)", ~(CITES @ IN), "~(cites @ is in)"),
        ("~(cites | is in)", ~(CITES | IN), "~(cites | is in)"),
        ("~~(cites | ~is in)", ~~(CITES | ~IN), "~~(cites | ~is in)"),
        ("((cites))", CITES, "cites"),
        ("component(cites)", CITES.component(), "component(cites)"),
        ("component (cites | is in) @ cites", (CITES | IN).component() @ CITES, "component(cites | is in) @ cites"),
        ("~component(~cites)", ~(~CITES).component(), "~component(~cites)"),
        ("component @ cites", Relation("component") @ CITES, "component @ cites"),
    ],
)  # fmt: skip
def test_how_paths_are_written(text: str, meant: Relation, printed: str):
    found = Relation.parse(text)
    assert found == meant and str(found) == printed


def test_a_path_of_strings_and_relations():
    assert "cites" @ IN == CITES @ "is in" == CITES @ IN
    assert "cites" | IN == CITES | "is in" == CITES | IN
    assert CITES @ "is in | links.to" == CITES @ (IN | TO)
    assert Relation.parse(CITES) is CITES and kf.Relation is Relation
    assert len({CITES, Relation("cites"), CITES @ IN, Relation.parse("cites @ is in")}) == 2, "they are hashable"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected the name of a relation"), ("   ", "expected the name"), ("@", "expected the name"),
        ("cites @", "expected the name"), ("@ cites", "expected the name"), ("cites |", "expected the name"),
        ("cites | | is in", "expected the name"), ("~", "expected the name"), ("()", "expected the name"),
        ("(cites", "closing bracket is missing"), ("(cites @ (is in)", "closing bracket is missing"),
        ("cites)", r"'\)' was not expected"), ("(cites) is in", "'is in' was not expected"),
        ("cites ~is in", "'~' was not expected"), ("cites (is in)", r"'\(' was not expected"),
        ("component(cites", "closing bracket is missing"), ("component()", "expected the name"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(text: str, told: str):
    with pytest.raises(SettingError, match=f"cannot read the relation .*{told}"):
        Relation.parse(text)


@pytest.mark.parametrize("wrong", [3, None, ["cites"], b"cites"], ids=repr)
def test_a_relation_is_a_string(wrong: Any):
    with pytest.raises(SettingError, match="a relation is named by a string such as 'cites'"):
        Relation.parse(wrong)


def test_a_relation_that_is_not_there_is_told():
    data = {"cites": sparse.csr_array((2, 2)), "by": sparse.csr_array((2, 2))}
    with pytest.raises(InputError, match="there is no relation 'site' here; there are: 'cites', 'by'"):
        Relation.parse("cites @ ~site").links(data)
    with pytest.raises(InputError, match="there are: none"):
        CITES.links({})


def test_links_without_weight_are_no_links():
    table = sparse.csr_array((np.array([0.0, 2.0, 1.0]), np.array([1, 2, 1]), np.array([0, 2, 3, 3])), shape=(3, 3))
    links = CITES.links({"cites": table})
    assert links.indices.tolist() == [2] and links.indptr.tolist() == [0, 1, 1, 1]
    assert table.nnz == 3, "the data are left as they are"
    there = {"cites": sparse.csr_array([[0, 1.0, 1], [0, 0, 0], [0, 0, 0]])}
    back = {"is in": sparse.csr_array([[0, 0.0, 0], [0, 0, 1], [0, -1, 0]])}
    assert Relation.parse("cites @ is in").links({**there, **back}).toarray().tolist() == [[0, -1, 1], [0] * 3, [0] * 3]
    gone = Relation.parse("cites @ (is in | links.to)").links({**there, **back, "links.to": sparse.csr_array((3, 3))})
    assert gone.toarray().tolist() == [[0, 0, 1], [0] * 3, [0] * 3], "of -1 and none, none is the larger"


def test_a_component_is_everybody_in_reach():
    chain = sparse.csr_array(([2.0, 3.0, 5.0], ([0, 2, 3], [1, 1, 4])), shape=(6, 6))
    links = Relation.parse("component(r)").links({"r": chain}).toarray()
    assert links.tolist() == [
        [0, 1, 1, 0, 0, 0], [1, 0, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, 0, 1, 0, 0], [0] * 6,
    ]  # fmt: skip
    line = sparse.csr_array((np.ones(10_000), (np.arange(10_000), np.arange(1, 10_001))), shape=(10_001, 10_001))
    with pytest.raises(InputError, match=r"too large to link everybody in them \(the largest has 10001 instances"):
        Relation.parse("component(r)").links({"r": line})


def test_numbers_of_any_kind_count_the_ways():
    for kind in (np.float32, np.float64, np.int64, np.int8, np.bool_):
        both = sparse.csr_array(np.array([[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]], kind))
        assert Relation.parse("r @ r").links({"r": both}).toarray()[0].tolist() == [0, 0, 0, 2]
