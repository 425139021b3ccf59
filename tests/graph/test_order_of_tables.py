"""What is learned of nodes goes by their ids: a table in another order gives the same model and the same answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import kinfolk as kf
from kinfolk.collective.stacking import folds_of
from kinfolk.graph.nodes import Nodes, training_labels

Table = dict[str, list[Any]]
CLASSES = ["a", "b", "c"]


def world(n: int, seed: int, numbered: bool = False, groups: int = 1) -> tuple[Table, Table]:
    rng = np.random.default_rng(seed)
    truth = np.concatenate([np.arange(min(n, 9)) % 3, rng.integers(3, size=max(n - 9, 0))])
    ids: list[Any] = list(range(n)) if numbered else [f"n{i}" for i in rng.permutation(n)]
    known = (rng.random(n) < 0.6) | (np.arange(n) < 9)
    nodes = {
        "id": ids, "label": [CLASSES[c] if here else None for c, here in zip(truth, known, strict=True)],
        "x": (truth + rng.normal(size=n)).tolist(), "school": [f"school {i}" for i in rng.integers(groups, size=n)],
    }  # fmt: skip
    source, target = rng.integers(n, size=(2, 3 * n))
    return nodes, {"source": [ids[i] for i in source], "target": [ids[i] for i in target]}


def taken(table: Table, order: Any) -> Table:
    return {name: [column[i] for i in order] for name, column in table.items()}


def model(base: Any, **given: Any) -> kf.StackedNodes:
    options = {"folds": 3, "n_jobs": 1, "random_state": 0} | given
    return kf.StackedNodes(base, [kf.Count("links_to"), kf.Mean("linked_from")], **options)


def answers(made: kf.StackedNodes, nodes: Table, edges: Table, **asked: Any) -> dict[Any, list[float]]:
    table = made.predict_tables(nodes, edges, label="label", proba=True, **asked)
    return {
        key: list(row)
        for key, *row in zip(table["id"], *(table[f"probability_{name}"] for name in CLASSES), strict=True)
    }


def check_same(first: dict[Any, list[float]], second: dict[Any, list[float]], within: float = 1e-12) -> None:
    assert first.keys() == second.keys()
    for key, row in first.items():
        np.testing.assert_allclose(second[key], row, rtol=0, atol=within)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(20, 60),
    st.integers(0, 1000),
    st.sampled_from([0, None]),
    st.sampled_from(["true", "crossfit"]),
    st.booleans(),
)
def test_a_shuffled_table_gives_every_id_the_same_answer(n: int, seed: int, same: Any, known: str, numbered: bool):
    """Fitted on one order and asked in another, and fitted on each; with labels known again or hidden."""
    nodes, edges = world(n, seed, numbered)
    rng = np.random.default_rng([seed, 1])
    other, links = taken(nodes, rng.permutation(n)), taken(edges, rng.permutation(3 * n))
    made = model(GaussianNB(), known=known).fit_tables(nodes, edges, features="x")
    again = model(GaussianNB(), known=known).fit_tables(other, links, features="x")
    asked = {"known": "none"} if same is None else {}
    for one in (made, again):
        check_same(answers(made, nodes, edges, **asked), answers(one, other, links, **asked))


@pytest.mark.parametrize("base", [LogisticRegression(), RandomForestClassifier(5, random_state=0)], ids=str)
@pytest.mark.parametrize("groups", [1, 5])
def test_whatever_the_base_draws_by_rows(base: Any, groups: int):
    nodes, edges = world(80, 3, groups=groups)
    order = np.random.default_rng(4).permutation(80)
    other, asked = taken(nodes, order), {"features": "x", "group": "school"}
    made = model(base, depth=2, split="group" if groups > 1 else "auto", folds=4).fit_tables(nodes, edges, **asked)
    again = model(base, depth=2, split="group" if groups > 1 else "auto", folds=4).fit_tables(other, edges, **asked)
    assert made.folds_[order].tolist() == again.folds_.tolist()
    check_same(answers(made, nodes, edges, **asked), answers(again, other, edges, **asked))


def test_of_a_part_of_the_table_known_nodes_are_known_again():
    nodes, edges = world(60, 5)
    made = model(GaussianNB(), known="crossfit").fit_tables(nodes, edges, features="x")
    part = taken(nodes, range(20, 60))
    table = made.predict_tables(part, edges, label="label")
    assert all(label in (None, found) for label, found in zip(part["label"], table["predicted"], strict=True))
    chance = zip(part["label"], table["probability"], strict=True)
    assert all(one == 1.0 for label, one in chance if label is not None)


def test_where_no_ids_are_given_folds_go_by_rows():
    """As they always did, so that figures found by them stay."""
    rng = np.random.default_rng(6)
    labels = rng.choice(CLASSES, 40).tolist()
    links = {"cites": rng.integers(40, size=(90, 2))}
    graph = kf.Graph(rng.normal(size=(40, 2)), labels, links)
    made = kf.StackedNodes(GaussianNB(), [kf.Count("cites")], folds=4, n_jobs=1)
    nodes = Nodes.of(graph)
    codes, _ = training_labels(nodes, None)
    assert made.fit(graph).folds_.tolist() == folds_of(made, codes, nodes.groups, "auto").tolist()


def test_folds_that_are_given_are_taken_as_they_are():
    nodes, edges = world(40, 7)
    graph = kf.Graph.from_frames(nodes, edges, label="label", features="x")
    given = np.arange(40) % 4
    made = model(GaussianNB(), folds=given).fit(graph)
    expected = np.where(graph.label_codes >= 0, given, -1)
    assert made.folds_.tolist() == expected.tolist()


def test_every_fold_has_its_share_of_each_class():
    nodes, edges = world(60, 8)
    graph = kf.Graph.from_frames(nodes, edges, label="label", features="x")
    made = model(GaussianNB(), folds=3).fit(graph)
    counts = np.array([[((made.folds_ == f) & (graph.label_codes == c)).sum() for c in range(3)] for f in range(3)])
    assert (counts.max(axis=0) - counts.min(axis=0) <= 1).all()
