"""Explanations: shares sum to 1, contributions add up to the marginal, names are those people use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import kinfolk as kf
from kinfolk.collective.explain import Component, Explanation, explanation
from kinfolk.errors import InputError

DOCUMENTS = [
    [["Kim", "Lee", "left", "Rome"], ["Rome", "said", "Kim", "left"]],
    [["he", "left"], ["Kim", "said", "so"], ["Kim", "left", "Rome"]],
]
LABELS = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "O", "B-PER", "O"], ["O", "O"], ["B-PER", "O", "O"],
          ["B-PER", "O", "B-LOC"]]  # fmt: skip
CORPUS = kf.Corpus.from_sentences([s for d in DOCUMENTS for s in d], LABELS, [len(d) for d in DOCUMENTS])
GRAPH = kf.Graph(
    np.eye(6)[:, :4], ["a", "b", "a", "b", "a", "b"], {"cites": [(0, 1), (1, 2), (2, 0), (3, 0), (4, 3), (2, 3)]},
    ids=["home", "about", "news", "staff", "jobs", "lost"],
)  # fmt: skip


def assert_adds_up(found: Explanation, marginal: Any) -> None:
    """What `predict_proba` says, from the contributions alone."""
    np.testing.assert_allclose(found.marginal, marginal, atol=1e-9)
    parts = found.contributions
    np.testing.assert_allclose(sum(c.weight * c.predicted for c in parts), marginal, atol=1e-9)
    assert sum(c.share for c in parts) == pytest.approx(1)
    assert sum(c.weight for c in parts) == pytest.approx(1)
    assert [c.share for c in parts] == sorted((c.share for c in parts), reverse=True)
    best = int(np.argmax(marginal))
    assert found.label == found.classes[best] and found.probability == pytest.approx(marginal[best])
    for c in parts:
        assert c.share == pytest.approx(c.weight * c.predicted[best] / marginal[best])
        assert c.predicted.sum() == pytest.approx(1) and (c.parent is None) == (c.marginal is None)
    assert len({(c.parent, c.relation) for c in parts}) == len(parts), "each parent once a relation"


SETTINGS: list[dict[str, Any]] = [
    {},
    {"order": "backward"},
    {"order": "both"},
    {"mixing": "learned", "gate_folds": 0, "edge_features": "default"},
    {"mixing": {"previous": 1, "same word": 3}},
    {"skip_edges": None},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_every_token_is_explained(settings: Any):
    model = kf.MixtureTagger(n_jobs=1, **settings).fit(CORPUS)
    tables = model.predict_proba(CORPUS)
    per_document = [np.concatenate(tables[:2]), np.concatenate(tables[2:])]
    for d, table in enumerate(per_document):
        words = [w for sentence in DOCUMENTS[d] for w in sentence]
        for t, row in enumerate(table):
            found = model.explain(CORPUS, document=d, token=t)
            assert_adds_up(found, row)
            assert found.instance == t and found.name == f"{words[t]} ({t})"
            assert found.classes == tuple(model.classes_)
            for c in found.contributions:
                assert c.name == ("(start)" if c.parent is None else f"{words[c.parent]} ({c.parent})")
                if c.marginal is not None and settings.get("order") != "both":
                    np.testing.assert_allclose(c.marginal, table[c.parent], atol=1e-9)
                assert c.relation in {"previous", "next", "same word", "start"}


def test_parents_are_the_neighbour_and_the_same_word():
    model = kf.MixtureTagger(n_jobs=1, order="both").fit(CORPUS)
    found = model.explain(CORPUS, 0, 6)
    told = sorted((c.relation, c.name) for c in found.contributions)
    assert told == [("next", "left (7)"), ("previous", "said (5)"), ("same word", "Kim (0)")]
    first = model.explain(CORPUS, 0, 0)
    assert sorted((c.relation, c.name) for c in first.contributions) == [
        ("next", "Lee (1)"), ("same word", "Kim (6)"), ("start", "(start)"),
    ]  # fmt: skip


def test_an_explanation_reads_well():
    model = kf.MixtureTagger(n_jobs=1).fit(CORPUS)
    lines = str(model.explain(CORPUS, 0, 6)).split("\n")
    assert lines[0].startswith("Kim (6): B-PER with probability 0.") and len(lines) == 3
    for line in lines[1:]:
        assert " %  " in line and "weight 0.500" in line and ", is " in line and "predicts " in line
    assert "start, weight 1.000, predicts" in str(model.explain(CORPUS, 0, 0)), "nobody to say what he is"


def test_words_in_lists_and_feature_dicts_are_explained():
    words = [sentence for document in DOCUMENTS for sentence in document]
    model = kf.MixtureTagger(n_jobs=1).fit(words, LABELS)
    assert_adds_up(model.explain(words, 1, 2), model.predict_proba(words)[1][2])
    items = [[{"w": w} for w in sentence] for sentence in words]
    model = kf.MixtureTagger(n_jobs=1).fit(items, LABELS)
    assert_adds_up(model.explain(items, 3, 1), model.predict_proba(items)[3][1])
    gap = [items[0], [], items[1]]
    assert_adds_up(model.explain(gap, 2, 1), model.predict_proba(gap)[2][1])


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ((), "give a document from 0 to 1 and a token; got `document=None`, `token=None`"),
        ((2, 0), "give a document from 0 to 1 and a token; got `document=2`"),
        ((-1, 0), "give a document from 0 to 1"),
        ((0, 8), "document 0 has no token 8: it has 8, numbered from 0"),
        ((0, -1), "document 0 has no token -1"),
        (("0", 1), "got `document='0'`, `token=1`"),
        ((0, 1.0), "got `document=0`, `token=1.0`"),
    ],
)
def test_tokens_that_are_not_there(place: Any, message: str):
    with pytest.raises(InputError, match=message):
        TOKENS.explain(CORPUS, *place)


def test_without_a_token_all_of_the_document_are_explained():
    every = TOKENS.explain(CORPUS, 1)
    assert [str(one) for one in every] == [str(TOKENS.explain(CORPUS, 1, t)) for t in range(len(every))]
    assert len(every) == CORPUS.documents(1, 2).n_tokens


TOKENS = kf.MixtureTagger(n_jobs=1, training="separate", skip_edges=None)


@pytest.fixture(autouse=True, scope="module")
def _trained() -> None:
    TOKENS.fit(CORPUS)


@pytest.mark.parametrize(
    "settings",
    [{}, {"everybody_starts": True}, {"mixing": "learned"}, {"mixing": {"cites": 2, "start": 1}}, {"orders": 1}],
    ids=repr,
)
def test_every_node_is_explained(settings: Any):
    model = kf.MixtureNodes(**{"n_jobs": 1, "orders": 2, "predict_orders": 7, **settings}).fit(GRAPH)
    table = model.predict_proba(GRAPH, known="none")
    linked = GRAPH.relations["cites"].toarray() + GRAPH.relations["cites"].T.toarray()
    for k, name in enumerate(GRAPH.ids):
        found = model.explain(GRAPH, node=name, known="none")
        assert_adds_up(found, table[k])
        assert found.instance == k and found.name == name
        assert {c.name for c in found.contributions} <= {*GRAPH.ids, "(start)"}
        assert all(c.parent is None or linked[k, c.parent] for c in found.contributions)
        again = model.explain(GRAPH, node=np.int64(k), known="none")
        assert [(c.name, c.share) for c in again.contributions] == [(c.name, c.share) for c in found.contributions]
    assert [c.name for c in model.explain(GRAPH, node="lost").contributions] == ["(start)"]


def test_a_dag_is_explained():
    links = sparse.csr_array((np.array([1.0, 0.0, 1.0]), ([1, 2, 2], [0, 0, 1])), shape=(3, 3))
    data = kf.Relational(np.eye(3), [0, 1, 0], ["a", "b"], {"cites": links})
    model = kf.MixtureNodes(n_jobs=1, mixing="given").fit(data)
    found = model.explain(data, node=2, known="none")
    assert_adds_up(found, model.predict_proba(data, known="none")[2])
    assert [(c.name, c.weight) for c in found.contributions] == [("1", 1.0), ("0", 0.0)]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("nowhere", "no node 'nowhere' in this graph"),
        (6, "a number from 0, below the 6 nodes there are; got 6"),
        (-1, "a number from 0, below the 6 nodes there are; got -1"),
        (None, "node must be an id or a number from 0, below the 6 nodes there are; got None"),
        (1.5, "got 1.5"),
    ],
)
def test_nodes_that_are_not_there(node: Any, message: str):
    model = kf.MixtureNodes(n_jobs=1, orders=1, predict_orders=1, training="separate").fit(GRAPH)
    with pytest.raises(InputError, match=message):
        model.explain(GRAPH, node=node)


# -- voices


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 4), st.booleans())
def test_voices_of_one_parent_are_added_up(seed: int, n: int, n_labels: int, muted: bool):
    rng = np.random.default_rng(seed)
    draw = lambda: rng.dirichlet(np.ones(n_labels))  # noqa: E731
    weights = rng.dirichlet(np.ones(n))
    if muted:
        weights = np.eye(n)[0]  # all but one have no weight
    components = []
    for w in weights:
        parent = int(rng.integers(-1, 3))
        components.append(Component(parent, f"r{rng.integers(2)}", float(w), None if parent < 0 else draw(), draw()))
    marginal = sum(v.weight * v.predicted for v in components)
    classes = tuple("abcd"[:n_labels])
    assert_adds_up(explanation(9, components, classes, lambda i: f"n{i}"), marginal)
    other = n_labels - 1
    found = explanation(9, components, classes, lambda i: f"n{i}", label=other)
    assert found.label == classes[other] and found.probability == pytest.approx(marginal[other])
    assert sum(c.share for c in found.contributions) == pytest.approx(1)


def test_a_label_that_nobody_gives_any_probability():
    voice = Component(0, "r", 1.0, np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    found = explanation(1, [voice], ("a", "b"), str, label=1)
    assert found.probability == 0 and found.contributions[0].share == 0 and "b with probability 0.000" in str(found)
