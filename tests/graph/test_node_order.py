"""What comes out of a model of nodes stands in the order its nodes came in, whatever groups they belong to.

Inference goes group by group. A graph whose groups are interleaved has to give each node what the same graph, sorted by
group, gives it: to the last bit, as the sorted graph is what is worked on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import kinfolk as kf
from kinfolk.errors import InputError

NAMES = ["ash", "birch", "cedar"]
MODELS: dict[str, Callable[[], Any]] = {
    "stacked": lambda: kf.StackedNodes(GaussianNB(), depth=1, folds=3, split="instance", n_jobs=1),
    "stacked by group": lambda: kf.StackedNodes(GaussianNB(), depth=1, folds=3, known="crossfit", n_jobs=1),
    "dependency network": lambda: kf.DependencyNetwork(LogisticRegression(), burn_in=2, sweeps=4, n_jobs=1),
    "mixture": lambda: kf.MixtureNodes(l2=1.0, orders=2, predict_orders=3, max_iterations=4, n_jobs=1),
    "link": lambda: kf.LinkModel(l2=3.0, max_iterations=4, max_rounds=20, n_jobs=1),
}


class World(NamedTuple):
    """The parts of a graph, with groups in any order; `train` are the nodes whose labels may be used."""

    features: Any
    labels: list[str]
    pairs: Any
    ids: list[str]
    groups: list[str]
    train: Any

    def graph(self) -> kf.Graph:
        links = {"cites": self.pairs, "cited_by": self.pairs[:, ::-1]}
        return kf.Graph(self.features, self.labels, links, self.ids, self.groups)

    def moved(self, order: Any) -> World:
        """The same with its rows in another order."""
        rank = np.argsort(order)
        return World(
            self.features[order], [self.labels[i] for i in order], rank[self.pairs], [self.ids[i] for i in order],
            [self.groups[i] for i in order], self.train[order],
        )  # fmt: skip

    def sorted(self) -> World:
        """Group after group, groups and nodes within them as they first come."""
        number = {name: i for i, name in enumerate(dict.fromkeys(self.groups))}
        return self.moved(np.argsort([number[name] for name in self.groups], kind="stable"))


def world(seed: int, n: int = 24, n_groups: int = 3) -> World:
    """Links stay within a group; nodes of the same class are linked more often."""
    rng = np.random.default_rng(seed)
    groups, labels = rng.integers(n_groups, size=n), rng.integers(len(NAMES), size=n)
    groups[:6], labels[: 2 * len(NAMES)] = [0, 1, 2, 0, 1, 2], [*range(len(NAMES))] * 2
    alike = (groups[:, None] == groups) & (rng.random((n, n)) < np.where(labels[:, None] == labels, 0.5, 0.1))
    np.fill_diagonal(alike, False)
    train = rng.random(n) < 0.6
    train[: 2 * len(NAMES)] = True
    features = np.eye(len(NAMES))[labels] + rng.normal(size=(n, len(NAMES)))
    ids = [f"n{i}" for i in rng.permutation(n)]
    return World(features, [NAMES[c] for c in labels], np.argwhere(alike), ids, [f"g{g}" for g in groups], train)


@pytest.mark.filterwarnings("ignore")  # a handful of iterations is no training
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_interleaved_groups_give_each_node_the_same_answer(name: str, seed: int):
    mixed = world(seed)
    apart = mixed.sorted()
    here, there = mixed.graph(), apart.graph()
    assert here.ids == tuple(mixed.ids) and here.labels == mixed.labels
    rows = [there.ids.index(key) for key in here.ids]
    weight = {key: 1.0 + i % 3 for i, key in enumerate(here.ids)}
    one, other = MODELS[name](), MODELS[name]()
    one.fit(here, train=mixed.train, sample_weight=[weight[key] for key in here.ids])
    other.fit(there, train=np.flatnonzero(apart.train), sample_weight=[weight[key] for key in there.ids])
    for known in ("train", "none"):
        tables = one.predict_proba(here, known=known), other.predict_proba(there, known=known)
        np.testing.assert_array_equal(tables[0], tables[1][rows])
    some = np.arange(len(here.ids)) % 3 == 0
    its = [rows[i] for i in np.flatnonzero(some)]
    tables = one.predict_proba(here, known=some), other.predict_proba(there, known=its)
    np.testing.assert_array_equal(tables[0], tables[1][rows])
    np.testing.assert_array_equal(one.predict(here), other.predict(there)[rows])
    np.testing.assert_array_equal(one.known_nodes(here), mixed.train)
    forced = [graph.with_labels([y if i % 2 else None for i, y in enumerate(graph.labels)]) for graph in (here, there)]
    forced[1] = there.with_labels([forced[0].labels[here.ids.index(key)] for key in there.ids])
    np.testing.assert_array_equal(
        one.predict_proba(forced[0], forced=True), other.predict_proba(forced[1], forced=True)[rows]
    )
    assert one.evaluate(here) == other.evaluate(there)
    for at in (0, len(here.ids) - 1):
        its = other.explain(there, node=here.ids[at])
        assert _plain(one.explain(here, node=at), here.ids) == _plain(its, there.ids)


def _plain(answer: Any, ids: Any) -> Any:
    """An explanation with its numbers of nodes as ids: they are numbers of the graph that was given."""
    if hasattr(answer, "contributions"):
        assert ids[answer.instance] == answer.name
        around = [(c.parent, c.name, c.relation, c.weight, c.share) for c in answer.contributions]
        assert all(parent is None or ids[parent] == name for parent, name, *_ in around)
        return answer.name, answer.label, answer.probability, [rest for _, *rest in around]
    assert ids[answer.node] == answer.name and all(ids[one.node] == one.name for one in answer.neighbours)
    told = sorted((one.name, one.relation, one.votes.tolist(), one.source) for one in answer.neighbours)
    return answer.name, answer.label, answer.probability, told


@pytest.mark.parametrize("name", ["stacked", "stacked by group"])
def test_levels_folds_and_cross_fitting_are_in_the_order_of_the_nodes(name: str):
    mixed = world(5)
    apart = mixed.sorted()
    here, there = mixed.graph(), apart.graph()
    rows = [there.ids.index(key) for key in here.ids]
    one, other = MODELS[name]().fit(here, train=mixed.train), MODELS[name]().fit(there, train=apart.train)
    for mine, its in zip(one.predict_levels(here), other.predict_levels(there), strict=True):
        np.testing.assert_array_equal(mine, its[rows])
    np.testing.assert_array_equal(one.folds_, other.folds_[rows])
    estimates = one.cross_fit(here, train=mixed.train), other.cross_fit(there, train=apart.train)
    np.testing.assert_array_equal(estimates[0], estimates[1][rows])
    given_folds = np.where(mixed.train, one.folds_, 0)
    one.set_params(folds=given_folds)
    np.testing.assert_array_equal(one.fit(here, train=mixed.train).folds_, other.folds_[rows])


def test_each_step_of_gibbs_sampling_is_in_the_order_of_the_nodes():
    mixed = world(6)
    here, there = mixed.graph(), mixed.sorted().graph()
    rows = [there.ids.index(key) for key in here.ids]
    one, other = (MODELS["dependency network"]().fit(graph) for graph in (here, there))
    for mine, its in zip(one.trace(here, 3, known="none"), other.trace(there, 3, known="none"), strict=True):
        np.testing.assert_array_equal(mine, its[rows])


def test_a_function_of_neighbours_sees_the_nodes_as_they_came():
    """It may hold something of each node beside, as here its id."""
    mixed = world(7)
    here = mixed.graph()
    seen = []

    def trusted(votes: Any, relations: Any) -> Any:
        seen.append({name: links.toarray() for name, links in relations.items()})
        known = np.array([key in ("n1", "n2", "n3") for key in here.ids])
        return relations["cites"] @ (votes * known[:, None])

    model = kf.StackedNodes(LogisticRegression(), trusted, folds=3, split="instance", n_jobs=1).fit(here)
    apart = mixed.sorted().graph()
    for links in seen:
        np.testing.assert_array_equal(links["cites"], here.relations["cites"].toarray())
    rows = [apart.ids.index(key) for key in here.ids]
    names = {"n1", "n2", "n3"}
    sorted_trust = np.array([key in names for key in apart.ids])
    other = kf.StackedNodes(
        LogisticRegression(), lambda votes, links: links["cites"] @ (votes * sorted_trust[:, None]), folds=3,
        split="instance", n_jobs=1,
    ).fit(apart)  # fmt: skip
    found = [one.predict_proba(graph, known="none") for one, graph in ((model, here), (other, apart))]
    np.testing.assert_array_equal(found[0], found[1][rows])


def test_a_mask_in_the_order_of_the_table_trains_on_those_rows():
    """The mask, the labels and the answers of a grouped table all go by its rows."""
    mixed = world(8, n=60)
    nodes = pd.DataFrame(mixed.features, columns=["x", "y", "z"]).assign(id=mixed.ids, of=mixed.groups, y_=mixed.labels)
    ids = np.array(mixed.ids)
    edges = pd.DataFrame({"source": ids[mixed.pairs[:, 0]], "target": ids[mixed.pairs[:, 1]]})
    graph = kf.Graph.from_frames(nodes, edges, label="y_", group="of")
    assert list(graph.ids) == nodes["id"].tolist() and graph.labels == nodes["y_"].tolist()
    assert [graph.group_names[g] for g in graph.group_codes] == mixed.groups
    np.testing.assert_array_equal(graph.features, mixed.features)
    model = kf.StackedNodes(LogisticRegression(), depth=0, n_jobs=1).fit(graph, train=mixed.train)
    alone = LogisticRegression().fit(mixed.features[mixed.train], np.array(mixed.labels)[mixed.train])
    assert (model.predict(graph, known="none") == alone.predict(mixed.features)).all()
    known = np.where(mixed.train, np.array(mixed.labels, object), alone.predict(mixed.features))
    assert (model.predict(graph) == known).all() and (model.known_nodes(graph) == mixed.train).all()


def test_links_across_interleaved_groups_name_their_nodes():
    graph = kf.Graph(np.eye(4), ["p", "q", "p", "q"], {"cites": [(1, 2)]}, ["a", "b", "c", "d"], ["n", "s", "n", "s"])
    for model in (kf.MixtureNodes(n_jobs=1), kf.LinkModel(n_jobs=1)):
        with pytest.raises(InputError, match="'cites' leads from 'b' in group 's' to 'c' in group 'n'"):
            model.fit(graph)
