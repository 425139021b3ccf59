"""What candidates of a pool look at, beside plain loops (`pool_oracle`), and that none of it owes anything to a node's
own label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.naive_bayes import GaussianNB

import kinfolk as kf
import pool_oracle as oracle
from kinfolk.graph import candidates as pool
from kinfolk.graph import surroundings
from kinfolk.graph.candidates import candidates
from kinfolk.graph.pool import PoolTraining
from kinfolk.graph.pool_features import Columns
from kinfolk.graph.surroundings import Shown, Surroundings, View

QUICK = settings(max_examples=25)
WEIGHTS = st.sampled_from([1.0, 1.0, 0.5, 2.0, 3.0])


def matrix(links: oracle.Links) -> sparse.csr_array:
    table = np.zeros((len(links), len(links)))
    for i, one in enumerate(links):
        for j, w in one.items():
            table[i, j] = w
    return sparse.csr_array(table)


@st.composite
def relations_of(draw: st.DrawFn, n: int) -> list[oracle.Links]:
    """Up to three: of any weights, loops among them, of links both ways, or the reverse of one before."""
    found: list[oracle.Links] = []
    node = st.integers(0, n - 1)
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["any", "both ways", "reverse", "none"]))
        if kind == "reverse" and found:
            found.append(oracle.reversed_links(found[-1]))
            continue
        size = 0 if kind == "none" else n
        links = [draw(st.dictionaries(node, WEIGHTS, max_size=size)) for _ in range(n)]
        found.append(oracle.undirected([links]) if kind == "both ways" else links)
    return found


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[oracle.Links], oracle.Table]:
    n, width = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    share = st.floats(0, 1, width=32)
    return draw(relations_of(n)), [draw(st.lists(share, min_size=width, max_size=width)) for _ in range(n)]


def around(relations: list[oracle.Links], n: int, n_labels: int = 2) -> Surroundings:
    return Surroundings.of({str(i): matrix(links) for i, links in enumerate(relations)}, n, n_labels)


# -- links


@QUICK
@given(worlds())
def test_votes_beside_loops(world: Any):
    relations, values = world
    found = around(relations, len(values)).votes(np.array(values))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, oracle.all_votes(relations, values), atol=2e-5)


@QUICK
@given(worlds())
def test_a_view_beside_loops(world: Any):
    for links in oracle.ways(world[0]):
        view = View.of(matrix(links[0]))
        np.testing.assert_allclose(view.means @ np.array(world[1]), oracle.row_means(links[0], world[1]), atol=1e-6)
        assert view.degree.tolist() == [len(one) for one in links[0]]


@QUICK
@given(worlds())
def test_the_chance_to_be_led_back_beside_loops(world: Any):
    for one in oracle.ways(world[0]):
        views = [View.of(matrix(links)) for links in one]
        for a, first in zip(one, views, strict=True):
            for b in one:
                found = surroundings._back(first, sparse.csr_array(matrix(b).T))
                np.testing.assert_allclose(found, oracle.two_hop_return(a, b), atol=1e-6)


@QUICK
@given(worlds(), st.sampled_from([0.8, 0.9]))
def test_diffusion_beside_loops(world: Any, alpha: float):
    """Rows nearer to 0 than single precision tells have no direction."""
    relations, values = world
    table = np.round(np.array(values) * 8 - 4)
    found = around(relations, len(values)).diffused(table.astype(np.float32), alpha)
    links = oracle.joined(relations, len(values))
    spread = np.array(oracle.spread(oracle.smoothing(links), table.tolist(), alpha))
    clear = np.sqrt((spread**2).sum(axis=1)) > 1e-3
    np.testing.assert_allclose(found[clear], np.array(oracle.diffused(links, table.tolist(), alpha))[clear], atol=1e-3)


@QUICK
@given(worlds(), st.data())
def test_correct_and_smooth_beside_loops(world: Any, data: st.DataObject):
    relations, values = world
    n = len(values)
    said = np.array(values) + 0.1
    said /= said.sum(axis=1, keepdims=True)
    known = data.draw(st.lists(st.integers(-1, said.shape[1] - 1), min_size=n, max_size=n))
    there = np.flatnonzero(np.array(known) >= 0)
    found = around(relations, n).corrected(said, Shown(there, np.eye(said.shape[1])[np.array(known)[there]]))
    if max(known) < 0:
        assert found is said
        return
    labels = [None if label < 0 else label for label in known]
    expected = oracle.correct_and_smooth(
        oracle.joined(relations, n), labels, said.tolist(), 0.8, 0.8, faint=1e-3, bounded=True
    )
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_no_links_at_all():
    alone = around([], 3)
    assert alone.n_links == 0
    np.testing.assert_array_equal(alone.votes(np.full((3, 2), 0.5)), np.zeros((3, 6)))
    np.testing.assert_allclose(alone.diffused(np.array([[3.0, 4.0]] * 3, np.float32), 0.9), [[0.6, 0.8]] * 3, atol=1e-6)


@pytest.mark.parametrize("more", [0, 1])
def test_the_hub_of_a_large_star_has_nobody_two_steps_away(more: int):
    """Or almost nobody: shares of very many neighbours add up to 1 but for what rounding leaves, which is not to be
    divided by."""
    n = 100_001
    ends = np.stack([np.zeros(n - 1, int), np.arange(1, n)])
    links = sparse.csr_array((np.ones(n - 1), ends), (n, n))
    links = links + sparse.csr_array((np.ones(more), (np.full(more, 7), np.full(more, 8))), (n, n))
    given = np.random.default_rng(0).dirichlet([1, 1], n)
    found = Surroundings.of({"r": links + links.T}, n, 2).votes(given)
    assert (found[0, 4:] == 0).all()
    assert 0 <= found[1:, 4:].min() and found[1:, 4:].max() <= 1
    np.testing.assert_allclose(found[9:, 4:].mean(axis=0), given[1:].mean(axis=0), atol=1e-3)


def test_many_kinds_of_links_count_together():
    """40 relations of 3 labels would be some thousand columns."""
    rng = np.random.default_rng(0)
    relations = {str(r): sparse.csr_array((rng.random((12, 12)) < 0.2).astype(float)) for r in range(40)}
    found = Surroundings.of(relations, 12, 3).votes(rng.dirichlet([1, 1, 1], 12))
    assert found.shape[1] <= surroundings.MOST_VOTES and np.isfinite(found).all()


# -- features


def test_few_columns_are_standardised():
    table = np.array([[1.0, 5.0, 1e30], [3.0, 5.0, -1e30], [5.0, 5.0, 0.0]])
    columns = Columns.learn(table, 0)
    found = columns.compact(columns.wide(table))
    np.testing.assert_allclose(found[:, 0], [-1.2247449, 0, 1.2247449], rtol=1e-6)
    assert (found[:, 1] == 0).all() and np.isfinite(found).all() and columns.components is None
    thin = sparse.csr_array(table)
    np.testing.assert_allclose(columns.wide(thin), columns.wide(table), rtol=1e-6)


def test_many_columns_become_components_of_unit_rows():
    rng = np.random.default_rng(0)
    words = sparse.csr_array((rng.random((30, 100)) < 0.1).astype(float))
    words = sparse.csr_array(sparse.vstack([words, sparse.csr_array((1, 100))]))
    columns = Columns.learn(words, 0)
    wide = columns.wide(words)
    assert sparse.issparse(wide)
    lengths = np.sqrt(np.asarray(wide.multiply(wide).sum(axis=1)).ravel())
    np.testing.assert_allclose(lengths, [1] * 30 + [0], atol=1e-6)
    compact = columns.compact(wide)
    assert compact.shape == (31, 30) and (compact[-1] == 0).all()
    there = np.asarray((words != 0).sum(axis=0)).ravel()
    rare, frequent = np.argmin(np.where(there > 0, there, 99)), np.argmax(there)
    assert columns.rarity[rare] > columns.rarity[frequent] >= 1


# -- which candidates


@pytest.mark.parametrize("own_base", [False, True])
@pytest.mark.parametrize("effort", ["best", "fast"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("features", "links"), [(True, True), (True, False), (False, True), (False, False)])
def test_every_candidate_is_made_of_those_before_it(
    own_base: bool, effort: str, known: bool, wide: bool, features: bool, links: bool
):
    found = candidates(own_base, effort, known, wide, features, links)
    names = [one.name for one in found]
    assert names[0] == pool.LOCAL and len({*names}) == len(names)
    for place, one in enumerate(found):
        assert {*one.after} <= {*names[:place]}
        assert links or (one.columns in (pool.PLAIN, pool.OWN) and one.kind != "corrected")
        assert features or one.columns not in (pool.SMOOTH, pool.SMOOTHER)
        assert known or one.kind != "corrected"
        assert not own_base or one.kind != "trees"
    assert any(one.pooled for one in found)


# -- no leak


def scene(flip: int | None = None, n: int = 36) -> kf.Graph:
    """Two kinds, links of two relations, many columns; one label may be another. A third of the nodes has none."""
    rng = np.random.default_rng(5)
    kinds = rng.integers(2, size=n)
    table = rng.normal(size=(n, 70)) + kinds[:, None]
    pairs = [rng.integers(n, size=(3 * n, 2)), rng.integers(n, size=(2 * n, 2))]
    if flip is not None:
        kinds[flip] = 1 - kinds[flip]
    labels = [None if i % 3 == 2 else "ab"[kind] for i, kind in enumerate(kinds)]
    return kf.Graph(table, labels, {"cites": pairs[0], "near": pairs[1]})


FOLDS = [i // 3 % 3 if i % 3 < 2 else 0 for i in range(36)]


def traced(
    monkeypatch: pytest.MonkeyPatch, graph: kf.Graph, **changed: Any
) -> tuple[PoolTraining, dict[tuple[str, int], Any]]:
    """The training, and the votes that the rows of each fold received."""
    received, given = {}, PoolTraining.votes

    def votes(self: PoolTraining, name: str, hidden: int) -> Any:
        received[name, hidden] = given(self, name, hidden)[self.fold == hidden] if hidden < self.n_folds else None
        return given(self, name, hidden)

    monkeypatch.setattr(PoolTraining, "votes", votes)
    model = kf.StackedNodes(**{"folds": FOLDS, "effort": "fast", "n_jobs": 1, **changed})
    _, training, _ = model._pool_training(graph, None, None, None)
    monkeypatch.undo()
    return training, received


@pytest.mark.parametrize("node", [0, 4, 16])
@pytest.mark.parametrize("changed", [{}, {"base": GaussianNB(), "effort": "best"}], ids=["own", "base"])
def test_a_fold_never_sees_its_own_labels(node: int, changed: Any, monkeypatch: pytest.MonkeyPatch):
    """With the labels of the others known: neither what the rows of its fold receive of local predictions and labels
    nor what models of features say of them changes with a label; what others receive does."""
    fold = FOLDS[node]
    first, before = traced(monkeypatch, scene(), **changed)
    second, after = traced(monkeypatch, scene(flip=node), **changed)
    assert first.known and (first.fold == second.fold).all() and (first.labels != second.labels).sum() == 1
    np.testing.assert_array_equal(before[pool.LOCAL, fold], after[pool.LOCAL, fold])
    mine = first.fold[first.train] == fold
    for name in (pool.LOCAL, "smooth features", f"{pool.LOCAL}, corrected", "smooth features, corrected"):
        if name in first.unseen:
            np.testing.assert_array_equal(first.unseen[name][mine], second.unseen[name][mine])
    others = [k for k in range(3) if k != fold]
    assert any(not np.array_equal(before[pool.LOCAL, k], after[pool.LOCAL, k]) for k in others)
    assert not np.array_equal(first.unseen[pool.LOCAL][~mine], second.unseen[pool.LOCAL][~mine])


def test_labels_shown_are_those_of_the_other_folds(monkeypatch: pytest.MonkeyPatch):
    """The votes that a fold receives, put together as the oracle does."""
    training, received = traced(monkeypatch, scene(), base=GaussianNB())
    tables = training._learned(training.models[pool.LOCAL].what)[1]
    labels = [None if label < 0 else int(label) for label in training.labels]
    folds = [None if k < 0 else int(k) for k in training.fold]
    for k in range(3):
        given = oracle.votes_in_training(labels, folds, k, tables[k].tolist())
        votes = training.ground.surroundings.votes(np.array(given))
        np.testing.assert_allclose(received[pool.LOCAL, k], votes[training.fold == k], atol=1e-6)


def test_predictions_given_are_those_of_models_that_have_not_seen_the_giver(monkeypatch: pytest.MonkeyPatch):
    """With known="crossfit" no label is ever given, and that of a node has no part in what it gives."""
    first, _ = traced(monkeypatch, scene(), known="crossfit")
    second, _ = traced(monkeypatch, scene(flip=4), known="crossfit")
    mine = first.fold[first.train] == FOLDS[4]
    assert not first.known
    np.testing.assert_array_equal(first.unseen[pool.LOCAL][mine], second.unseen[pool.LOCAL][mine])


def test_whole_graphs_are_hidden_where_graphs_are_to_be_predicted(monkeypatch: pytest.MonkeyPatch):
    """Several graphs, all labelled: nothing that a graph receives has seen its labels."""
    rng, n = np.random.default_rng(0), 48
    groups, kinds = np.arange(n) // 8, rng.integers(2, size=n)
    near = (groups[:, None] == groups) & (rng.random((n, n)) < 0.4) & ~np.eye(n, dtype=bool)
    table = rng.normal(size=(n, 3)) + kinds[:, None]
    other = np.where(np.arange(n) == 9, 1 - kinds, kinds)
    graphs = [kf.Graph(table, one.tolist(), {"near": np.argwhere(near)}, groups=groups) for one in (kinds, other)]
    (first, before), (second, after) = (traced(monkeypatch, one, base=GaussianNB(), folds=3) for one in graphs)
    assert not first.known and (first.fold == second.fold).all()
    assert all(len({*first.fold[groups == g].tolist()}) == 1 for g in range(6))
    fold = int(first.fold[9])
    np.testing.assert_array_equal(before[pool.LOCAL, fold], after[pool.LOCAL, fold])
    for name in (pool.LOCAL, "smooth features"):
        np.testing.assert_array_equal(first.unseen[name][first.fold == fold], second.unseen[name][first.fold == fold])
