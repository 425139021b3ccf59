"""What models of nodes say of labels that are few, of weights below 0, of nodes that were all trained on."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import kinfolk as kf
from kinfolk.errors import DataWarning
from kinfolk.graph.learners import BINS, in_few_values
from kinfolk.graph.targets import boosted_trees
from kinfolk.learning.gain import Gain


def graph(n: int = 40, sign: float = 1.0) -> kf.Graph:
    """Two classes that the one feature tells apart; `sign` is the weight of a third of the links, the others 1."""
    rng = np.random.default_rng(0)
    label = np.arange(n) % 2
    ends = np.stack([np.arange(n), (np.arange(n) + 2) % n])
    links = sparse.csr_array((np.where(np.arange(n) % 3 == 0, sign, 1.0), tuple(ends)), shape=(n, n))
    x = (rng.normal(size=n) + 2 * label)[:, None]
    return kf.Graph(x, label.tolist(), {"pays": links}, ids=[f"a{i}" for i in range(n)])


def pool(**settings: Any) -> kf.StackedNodes:
    return kf.StackedNodes(effort="fast", n_jobs=1, **settings)


# -- weights below 0 ----------------------------------------------------------------------------------

TOLD = r"weights of links are below 0 \(14 of 40 of 'pays'\): what such a neighbour says counts against its label"
WEIGHING = {
    "pool": pool(),
    "stack": kf.StackedNodes(LogisticRegression(), depth=1, n_jobs=1),
    "network": kf.DependencyNetwork(LogisticRegression(), n_jobs=1),
}


@pytest.mark.parametrize("model", WEIGHING.values(), ids=list(WEIGHING))
def test_weights_below_0(model: Any):
    with pytest.warns(DataWarning, match=TOLD):
        model.fit(graph(sign=-1.0), train=range(30))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(graph(sign=2.0), train=range(30))


def test_weights_that_no_template_looks_at():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kf.StackedNodes(LogisticRegression(), depth=0, n_jobs=1).fit(graph(sign=-1.0))


# -- few labels ---------------------------------------------------------------------------------------


def test_too_few_labels_to_weigh_by():
    told = "2 labelled nodes are too few to weigh the candidates of a pool by: with 2 classes it takes 10 at the least"
    with pytest.warns(DataWarning, match=told):
        pool().fit(graph(), train=[0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pool().fit(graph(), train=range(10))
    six = kf.generate_citations(60, seed=0)
    with pytest.warns(DataWarning, match=r"1\d labelled nodes are too few .* with \d classes it takes 1[58] at the"):
        pool().fit(six, train=range(14))


def test_a_gain_says_how_sure_it_is():
    few, many = (Gain("accuracy", 60.0, 70.0, 10.0, 1.0, 19.0, n, "nodes", 3) for n in (99, 100))
    assert "+10.00 [1.00, 19.00]" in str(few) and "nodes are few: other folds may give another figure" in str(few)
    assert "+10.00 [1.00, 19.00]" in str(many) and "few" not in str(many)
    assert "few" not in str(Gain("entity F1", 60.0, 70.0, 10.0, 1.0, 19.0, 5, "documents", 3))


# -- nodes that were all trained on -------------------------------------------------------------------


@pytest.mark.parametrize("known", ["true", "crossfit"])
def test_scores_of_nodes_that_were_all_trained_on(known: str, caplog: pytest.LogCaptureFixture):
    """One warning, and it is true: the nodes are there, but what is known of them is set aside."""
    model = pool(known=known).fit(graph())
    with caplog.at_level(logging.INFO, "kinfolk"), pytest.warns(DataWarning) as found:
        score = model.score(graph())
    assert [str(one.message)[:41] for one in found] == ["every node with a label was trained on: t"]
    assert "no node trained on is in this graph" not in caplog.text
    assert score == (model.predict(graph(), known="none") == graph().labels).mean()


def test_another_graph_is_still_told_of(caplog: pytest.LogCaptureFixture):
    model = pool(known="true").fit(graph())
    other = kf.Graph(graph().features, graph().labels, dict(graph().relations), ids=[f"b{i}" for i in range(40)])
    model.score(other)
    assert "no node trained on is in this graph" in caplog.text


# -- trees with weights -------------------------------------------------------------------------------


@given(st.lists(st.integers(-5, 5), max_size=30))
def test_few_values_stay(values: list[int]):
    rows = np.array(values, np.float32)[:, None]
    assert (in_few_values(rows) == rows).all()
    rare = np.zeros((2000, 1))
    rare[7] = 1.0
    assert (in_few_values(rare) == rare).all()


def test_many_values_become_few_and_trees_the_same():
    rng = np.random.default_rng(0)
    rows = np.exp(rng.normal(size=(600, 3))).astype(np.float32)
    few = in_few_values(rows)
    assert max(len(np.unique(column)) for column in few.T) <= BINS and not np.shares_memory(few, rows)
    assert (np.diff(few[np.argsort(rows[:, 0]), 0]) >= 0).all(), "in the same order"
    assert np.median(np.abs(few - rows)) < 0.01
    y = (rows[:, 0] > rows[:, 1]).astype(int)
    weights = np.where(y == 1, 3.0, 0.5)
    slow, fast = (boosted_trees([rows], 0).fit(table, y, weights) for table in (rows, few))
    assert np.abs(slow.predict_proba(rows) - fast.predict_proba(rows)).mean() < 0.02
    assert (fast.predict(rows) == fast.predict(few)).all(), "whether rows are rounded or not"
