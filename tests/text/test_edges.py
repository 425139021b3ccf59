"""Features of edges: each built-in one against its definition in words, and a user's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk import Corpus
from kinfolk.errors import InputError, ModelFileError, SettingError
from kinfolk.text.skip_edges import DEFAULT, EdgeFeatures, SameWord, edge_feature, edge_features
from small_world import with_sizes

Documents = list[list[list[str]]]

WORDS = ["Kim", "kim", "KIM", "Rome", "left", "Élan", "9", "."]
DOCUMENTS = st.lists(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), max_size=12), min_size=1, max_size=3
)


def corpus_of(documents: Documents) -> Corpus:
    sentences = [sentence for d in documents for sentence in d]
    return with_sizes(Corpus.from_sentences(sentences), documents)


def text(*documents: str) -> Corpus:
    """One string a document, sentences between bars."""
    return corpus_of([[s.split() for s in d.split("|") if s.split()] for d in documents])


class Place:
    """A token, its sentence and where it stands, in plain strings."""

    def __init__(self, document: list[list[str]], sentence: int, at: int) -> None:
        words = document[sentence]
        self.sentence, self.words, self.at, self.word = sentence, words, at, words[at]
        self.before = words[at - 1] if at else None
        self.after = words[at + 1] if at + 1 < len(words) else None


def lower(word: str | None) -> str | None:
    return None if word is None else word.lower()


def capital(word: str | None) -> bool:
    return word is not None and word[0].isupper()


def slow_features(c: Place, p: Place, nearest: bool) -> dict[str, bool]:
    apart = abs(c.sentence - p.sentence)
    joined = "".join(p.words)
    return {
        "same previous word": lower(c.before) == lower(p.before),
        "same next word": lower(c.after) == lower(p.after),
        "same sentence": apart == 0,
        "1 sentence apart": apart == 1,
        "2-3 sentences apart": apart in (2, 3),
        "4-7 sentences apart": apart in (4, 5, 6, 7),
        "8 or more sentences apart": apart > 7,
        "parent in first sentence": p.sentence == 0,
        "parent in upper-case sentence": joined.isupper(),
        "child starts sentence": c.at == 0,
        "parent starts sentence": p.at == 0,
        "child or parent upper case": c.word.isupper() or p.word.isupper(),
        "capital beside child": capital(c.before) or capital(c.after),
        "capital beside parent": capital(p.before) or capital(p.after),
        "capital before both": capital(c.before) and capital(p.before),
        "capital after both": capital(c.after) and capital(p.after),
        "capital before one only": capital(c.before) != capital(p.before),
        "capital after one only": capital(c.after) != capital(p.after),
        "nearest parent": nearest,
    }


def slow_table(documents: Documents, edges: list[list[int]]) -> list[list[float]]:
    places = [Place(d, s, at) for d in documents for s, words in enumerate(d) for at in range(len(words))]
    rows = []
    for child, parent in edges:
        nearest = abs(child - parent) == min(abs(c - p) for c, p in edges if c == child)
        told = slow_features(places[child], places[parent], nearest)
        rows.append([float(told[name]) for name in DEFAULT])
    return rows


def table(documents: Documents, edges: Any, features: EdgeFeatures | None = None) -> Any:
    child, parent = np.array(edges, np.int64).reshape(-1, 2).T
    return (features or EdgeFeatures()).rows(corpus_of(documents), child, parent)


@given(DOCUMENTS, st.booleans(), st.data())
def test_built_in_features_are_what_they_say(documents: Documents, backward: bool, data: st.DataObject):
    corpus = corpus_of(documents)
    edges = SameWord(False, None, 2).learn(corpus).edges(corpus, backward).tolist()
    edges = data.draw(st.permutations(edges)) if len(edges) < 30 else edges
    made = table(documents, edges)
    assert made.dtype == np.float32 and made.shape == (len(edges), len(DEFAULT)) and made.has_canonical_format
    assert made.toarray().tolist() == slow_table(documents, edges)


@given(DOCUMENTS)
def test_edges_of_different_words_have_features_too(documents: Documents):
    starts = np.cumsum([0, *(sum(map(len, d)) for d in documents)]).tolist()
    edges = [[k, j] for a, b in pairwise(starts) for k in range(a, min(b, a + 12)) for j in range(a, k)]
    assert table(documents, edges).toarray().tolist() == slow_table(documents, edges)


@given(DOCUMENTS)
def test_features_do_not_depend_on_the_file_a_document_stands_in(documents: Documents):
    rule = SameWord(False, None, 3).learn(corpus_of(documents))
    corpora = [corpus_of([d]) for d in documents]
    apart = [EdgeFeatures().rows(c, *rule.edges(c).T).toarray() for c in corpora]
    together = table(documents, rule.edges(corpus_of(documents)))
    assert together.toarray().tolist() == np.concatenate(apart).tolist()


def told(corpus: Corpus, child: int, parent: int) -> set[str]:
    row = EdgeFeatures().rows(corpus, [child], [parent])
    return {DEFAULT[g] for g in row.indices}


def test_beyond_the_sentence_is_a_word_of_its_own():
    corpus = text("Kim left | Kim stayed | saw Kim")
    assert "same previous word" in told(corpus, 2, 0), "both begin a sentence"
    assert "same previous word" not in told(corpus, 5, 0), "one of them does"
    assert "same next word" not in told(corpus, 5, 0)
    ends = text("saw Kim | met Kim")
    assert "same next word" in told(ends, 3, 1) and "same previous word" not in told(ends, 3, 1)


def test_case_does_not_part_neighbours():
    assert "same previous word" in told(text("In Rome | was in Rome"), 4, 1)


def test_the_headline():
    corpus = text("x", "ROME WINS | Rome won | ROME")
    assert {"parent in first sentence", "parent in upper-case sentence"} <= told(corpus, 5, 1)
    assert not {"parent in first sentence", "parent in upper-case sentence"} & told(corpus, 5, 3)


def test_no_edges_no_tokens_no_features():
    for corpus in (corpus_of([]), corpus_of([[], []]), text("Kim left")):
        assert EdgeFeatures().rows(corpus, [], []).shape == (0, len(DEFAULT))
    assert EdgeFeatures([]).rows(text("Kim Kim"), [1], [0]).shape == (1, 0)


@pytest.mark.parametrize(
    ("child", "parent", "message"),
    [
        ([1], [2], "offsets from 0 to 1; got 2 to 2"), ([-1], [0], "got -1 to -1"), ([1.0], [0], "whole numbers"),
        ([True], [False], "whole numbers"), ([[1]], [[0]], "one row"), ([1, 1], [0], "got 2 and 1"),
    ],
)  # fmt: skip
def test_wrong_ends_are_told(child: Any, parent: Any, message: str):
    with pytest.raises(InputError, match=message):
        EdgeFeatures().rows(text("Kim Kim"), child, parent)


def distance(corpus: Corpus, child: Any, parent: Any) -> Any:
    return (child - parent) / corpus.n_tokens


def test_features_are_chosen_and_added():
    features = EdgeFeatures(["same sentence", edge_feature("distance", distance)])
    assert features.names() == ["same sentence", "distance"]
    assert table([[["a", "b"], ["c", "d"]]], [[1, 0], [3, 0]], features).toarray().tolist() == [[1, 0.25], [0, 0.75]]
    assert EdgeFeatures("same sentence").names() == ["same sentence"]
    assert EdgeFeatures([*DEFAULT, edge_feature("distance", distance)]).names() == [*DEFAULT, "distance"]
    assert EdgeFeatures().names() == list(DEFAULT)
    assert deepcopy(features) == features, "settings are cloned"


@pytest.mark.parametrize("answer", [[True, False], [1, 0], np.array([1.0, 0.0]), (np.int8(1), 0)], ids=repr)
def test_a_function_may_return_truths_or_numbers_and_zeros_are_not_kept(answer: Any):
    made = table([[["a", "b", "c"]]], [[1, 0], [2, 0]], EdgeFeatures([edge_feature("mine", lambda *_: answer)]))
    assert made.toarray().tolist() == [[1], [0]] and made.nnz == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "2 in one row; got a NoneType"), (1.0, "got float64 of shape ()"), ([1], "got int64 of shape (1,)"),
        ([[1], [0]], "got int64 of shape (2, 1)"), ([[1], [0, 1]], "got a list"),
        (["a", "b"], "must return one number"), ([1j, 0], "got complex128"), ([None, 1], "got a list"),
        ([0, np.nan], "for the edge from token 2 to token 0 it returned nan"), ([np.inf, 0], "from token 1 to token 0"),
        ([1e300, 0], "fit 32 bits"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_wrong_answer_of_a_function_is_told(answer: Any, message: str):
    features = EdgeFeatures([edge_feature("mine", lambda *_: answer)])
    with pytest.raises(SettingError, match="edge feature 'mine' must return") as caught:
        table([[["a", "b", "c"]]], [[1, 0], [2, 0]], features)
    assert message in str(caught.value)


def test_a_function_sees_no_labels_and_cannot_change_the_edges():
    def writes(corpus: Corpus, child: Any, parent: Any) -> Any:
        assert corpus.labels is None
        child[0] = 0
        return child

    corpus = Corpus.from_sentences([["Kim", "Kim"]], labels=[["B-PER", "B-PER"]])
    with pytest.raises(ValueError, match="read-only"):
        EdgeFeatures([edge_feature("mine", writes)]).rows(corpus, np.array([1]), np.array([0]))


def test_a_function_is_not_asked_about_no_edges():
    def first(corpus: Corpus, child: Any, parent: Any) -> Any:
        return child == child[0]

    assert EdgeFeatures([edge_feature("first", first)]).rows(text("a"), [], []).shape == (0, 1)


@pytest.mark.parametrize("wrong", [["same word"], [distance], [None], 3, None, [("distance", distance)]], ids=range(6))
def test_what_is_no_feature_is_told(wrong: Any):
    with pytest.raises(SettingError, match=r"edge_feature\("):
        EdgeFeatures(wrong)


def test_names_are_distinct():
    for twice in (["same sentence"] * 2, [edge_feature("same sentence", distance), "same sentence"]):
        with pytest.raises(SettingError, match="two edge features are named 'same sentence'"):
            EdgeFeatures(twice)


@pytest.mark.parametrize(("name", "function"), [("", distance), (3, distance), ("mine", "distance")])
def test_a_feature_has_a_name_and_a_function(name: Any, function: Any):
    with pytest.raises(SettingError, match="takes a name and a function"):
        edge_feature(name, function)


def test_features_come_back_from_their_description():
    features = EdgeFeatures(["nearest parent", edge_feature("far", distance), "same sentence"])
    spec = json.loads(json.dumps(features.spec()))
    given_functions: dict[str, Callable[..., Any]] = {"far": distance}
    assert edge_features(spec, given_functions) == features
    assert edge_features(json.loads(json.dumps(EdgeFeatures().spec())), {}) == EdgeFeatures()
    with pytest.raises(ModelFileError, match=r"an edge feature named 'far'.*functions=\{'far': .*Given: none"):
        edge_features(spec, {})
    with pytest.raises(ModelFileError, match="edge feature this version does not know"):
        edge_features({"edge_features": [{"built_in": "same colour"}]}, {})
