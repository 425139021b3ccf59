"""Corpora one after the other, columns too, and a graph with other features."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import kinfolk as kf
from kinfolk.errors import InputError
from small_world import with_sizes

WORDS = st.sampled_from(["Rome", "Kim", "left", "é", "."])
TAGS = st.sampled_from(["O", "B-PER", "B-LOC"])
STRINGS = st.lists(st.none() | WORDS, max_size=6)


@given(parts=st.lists(STRINGS, min_size=1, max_size=4))
def test_joined_columns_hold_the_same_strings(parts: list[list[str | None]]):
    joined = kf.Column.joined([kf.Column.from_strings(part) for part in parts])
    assert joined.strings() == [string for part in parts for string in part]
    assert len(set(joined.values)) == len(joined.values)
    known = [string for part in parts for string in part if string is not None]
    assert list(joined.values) == list(dict.fromkeys(known))
    assert joined.codes.dtype == np.int32 and not joined.codes.flags.writeable


def test_values_nobody_has_and_values_told_twice():
    one = kf.Column(np.array([2, -1, 0], np.int32), ("a", "unused", "b"))
    two = kf.Column(np.array([1, 0, 1], np.int32), ("b", "b"))
    joined = kf.Column.joined([one, two])
    assert joined.strings() == ["b", None, "a", "b", "b", "b"] and joined.values == ("a", "unused", "b")


@st.composite
def documents(draw: st.DrawFn, labelled: bool) -> kf.Corpus:
    """A corpus with words, another column, and documents that may be empty."""
    sentences = draw(st.lists(st.lists(WORDS, min_size=1, max_size=3), max_size=4))
    labels = [[draw(st.none() | TAGS) for _ in sentence] for sentence in sentences] if labelled else None
    shape = [[word[:1] for word in sentence] for sentence in sentences]
    cut = draw(st.integers(0, len(sentences)))
    corpus = kf.Corpus.from_sentences(sentences, labels, scheme="BIO" if labelled else None, first=shape)
    return with_sizes(corpus, [sentences[:cut], [], sentences[cut:]])


@given(data=st.data(), labelled=st.booleans(), number=st.integers(1, 3))
def test_joined_corpora_stand_one_after_the_other(data: Any, labelled: bool, number: int):
    corpora = [data.draw(documents(labelled)) for _ in range(number)]
    joined = kf.Corpus.joined(corpora)
    for count in ("n_documents", "n_sentences", "n_tokens"):
        assert getattr(joined, count) == sum(getattr(corpus, count) for corpus in corpora)
    for column in ("word", "first"):
        assert joined.rows(column) == [row for corpus in corpora for row in corpus.rows(column)]
    assert joined.label_rows() == [row for corpus in corpora for row in corpus.label_rows()]
    assert (joined.labels is not None) == labelled and joined.scheme == corpora[0].scheme
    first = 0
    for corpus in corpora:  # and come apart again
        part = joined.documents(first, first + corpus.n_documents)
        first += corpus.n_documents
        assert part.rows() == corpus.rows() and part.label_rows() == corpus.label_rows()
        np.testing.assert_array_equal(part.document_starts, corpus.document_starts)
        np.testing.assert_array_equal(part.sentence_starts, corpus.sentence_starts)


def placed(words: list[str], source: str | None, first: int, offsets: bool = True) -> kf.Corpus:
    n = len(words)
    return kf.Corpus(
        {"word": kf.Column.from_strings(words)},
        np.array([0, n]),
        np.array([0, 1]),
        source=source,
        lines=np.arange(first, first + n, dtype=np.int32),
        offsets=np.array([[i, i + 1] for i in range(n)]) if offsets else None,
    )


def test_places_are_kept_where_all_have_them():
    joined = kf.Corpus.joined([placed(["a", "b"], "x.txt", 1), placed(["c"], "x.txt", 9)])
    assert joined.source == "x.txt" and joined.lines.tolist() == [1, 2, 9]
    assert joined.offsets.tolist() == [[0, 1], [1, 2], [0, 1]]
    apart = kf.Corpus.joined([placed(["a"], "x.txt", 1), placed(["c"], "y.txt", 9, offsets=False)])
    assert apart.source is None and apart.offsets is None and apart.lines.tolist() == [1, 9]
    bare = kf.Corpus.from_sentences([["d"]])
    assert kf.Corpus.joined([placed(["a"], "x.txt", 1), bare]).lines is None


def test_a_joined_corpus_is_a_corpus():
    train, test = kf.newswire_split(3, 2)
    joined = kf.Corpus.joined([train, test])
    assert joined.n_documents == 5 and pickle.loads(pickle.dumps(joined)).rows() == joined.rows()
    one, two = (kf.MaxEnt(n_jobs=1, tolerance=1.0) for _ in range(2))
    again = kf.Corpus.joined([joined.documents(i, i + 1) for i in range(5)])
    assert one.fit(joined).predict(test) == two.fit(again).predict(test)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (kf.Corpus.from_sentences([["a"]]), "the same columns, and all or none of them labels"),
        (kf.Corpus.from_sentences([["a"]], [["O"]], scheme="BIO", pos=[["N"]]), "the same columns"),
        (kf.Corpus.from_sentences([["a"]], [["O"]], scheme="IOBES"), "the same tag scheme; got BIO, IOBES"),
        (kf.Corpus.from_sentences([["a"]], [["O"]], scheme=None), "the same tag scheme; got BIO, None"),
    ],
)
def test_corpora_that_do_not_go_together(other: kf.Corpus, message: str):
    with pytest.raises(InputError, match=message):
        kf.Corpus.joined([kf.Corpus.from_sentences([["a"]], [["B-PER"]]), other])


def test_nothing_to_join():
    with pytest.raises(InputError, match="there is nothing to join: give at least one corpus"):
        kf.Corpus.joined([])


# -- graphs with other features


def a_graph() -> kf.Graph:
    return kf.Graph(
        np.arange(6.0).reshape(3, 2), ["x", None, "y"], {"r": [(0, 1)], "s": sparse.csr_array(np.eye(3, k=1) * 2)},
        ids=["a", "b", "c"], groups=["g", "h", "h"], feature_names=["u", "v"], classes=["x", "y", "z"],
    )  # fmt: skip


@pytest.mark.parametrize("thin", [False, True])
def test_other_features_leave_all_else_as_it_was(thin: bool):
    graph, table = a_graph(), np.array([[0, 1.0, 0], [2, 0, 0], [0, 0, 0]])
    changed = graph.with_features(sparse.csr_array(table) if thin else table, ["p", "q", "r"])
    np.testing.assert_array_equal(changed.features.toarray() if thin else changed.features, table)
    assert changed.feature_names == ("p", "q", "r") and changed.n_features == 3
    assert changed.labels == graph.labels and list(changed.classes) == ["x", "y", "z"]
    assert changed.ids == graph.ids and changed.group_names == ("g", "h")
    np.testing.assert_array_equal(changed.group_codes, graph.group_codes)
    for name, links in graph.relations.items():
        np.testing.assert_array_equal(changed.relations[name].toarray(), links.toarray())
    np.testing.assert_array_equal(graph.features, a_graph().features)


def test_other_features_have_their_own_names_or_none():
    graph = a_graph()
    assert graph.with_features(np.zeros((3, 4))).feature_names is None
    assert graph.with_features(np.zeros((3, 0)), []).n_features == 0
    same = graph.with_features(graph.features, graph.feature_names)
    assert same.feature_names == ("u", "v")
    empty = kf.Graph(np.zeros((0, 2)))
    assert empty.with_features(np.zeros((0, 5))).n_features == 5


@pytest.mark.parametrize(
    ("features", "names"),
    [(np.zeros((2, 2)), None), (np.zeros(3), None), (np.full((3, 1), np.inf), None), (np.zeros((3, 2)), ["u"])],
)
def test_features_that_do_not_fit(features: Any, names: Any):
    with pytest.raises(InputError):
        a_graph().with_features(features, names)
