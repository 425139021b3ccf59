"""Skip edges: identical words against a quadratic twin, mirrored, frozen; a user's pairs and what can be wrong."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk import Corpus
from kinfolk.core.data import Column
from kinfolk.datasets.corpora import read_aimed
from kinfolk.errors import ModelFileError, SettingError
from kinfolk.text.conll import read_conll
from kinfolk.text.skip_edges import LearnedSkips, SameWord, SkipBuilder, SkipFunction, as_builders, learned_skips
from small_world import with_sizes

Documents = list[list[list[str]]]

WORDS = ["Kim", "kim", "KIM", "Rome", "rome", "Élan", "9", "."]
DOCUMENTS = st.lists(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), max_size=3), max_size=4)
LIMITS = st.one_of(st.none(), st.integers(1, 4))
RULES = st.builds(SameWord, st.booleans(), LIMITS, LIMITS)


def corpus_of(documents: Documents) -> Corpus:
    sentences = [sentence for d in documents for sentence in d]
    return with_sizes(Corpus.from_sentences(sentences), documents)


def text(*documents: str) -> Corpus:
    """One string a document, sentences between bars."""
    return corpus_of([[s.split() for s in d.split("|") if s.split()] for d in documents])


def slow_edges(rule: SameWord, training: Documents, documents: Documents, backward: bool = False) -> list[list[int]]:
    """Every pair of tokens looked at, as the definition reads."""
    seen_in = {w: sum(any(w in s for s in d) for d in training) for w in WORDS}
    limit = rule.max_document_frequency
    edges, offset = [], 0
    for document in documents:
        tokens = [w for sentence in document for w in sentence]
        for k, w in enumerate(tokens):
            if (rule.capitalised and not w[0].isupper()) or (limit is not None and seen_in[w] > limit):
                continue
            others = range(k + 1, len(tokens)) if backward else range(k - 1, -1, -1)
            nearest = [j for j in others if tokens[j] == w][: rule.most_recent]
            edges += [[offset + k, offset + j] for j in nearest]
        offset += len(tokens)
    return sorted(edges)


def swapped(pairs: Any) -> list[list[int]]:
    return sorted([b, a] for a, b in pairs)


@given(RULES, DOCUMENTS, DOCUMENTS, st.booleans())
def test_edges_are_those_of_the_definition(rule: SameWord, training: Documents, other: Documents, backward: bool):
    learned = rule.learn(corpus_of(training))
    for documents in (training, other):
        edges = learned.edges(corpus_of(documents), backward)
        assert edges.dtype == np.int64 and edges.shape == (len(edges), 2)
        assert edges.tolist() == slow_edges(rule, training, documents, backward)


@given(RULES, DOCUMENTS)
def test_backward_edges_are_those_of_the_text_read_backward(rule: SameWord, documents: Documents):
    corpus = corpus_of(documents)
    reversed_corpus = corpus_of([[s[::-1] for s in d[::-1]] for d in documents[::-1]])
    learned = rule.learn(corpus)
    mirrored = corpus.n_tokens - 1 - learned.edges(reversed_corpus)
    assert learned.edges(corpus, backward=True).tolist() == sorted(mirrored.tolist())


@given(RULES, DOCUMENTS, DOCUMENTS)
def test_edges_of_a_document_do_not_depend_on_the_file_it_stands_in(
    rule: SameWord, training: Documents, documents: Documents
):
    learned, corpus = rule.learn(corpus_of(training)), corpus_of(documents)
    apart, offset = [], 0
    for d in documents:
        apart += (learned.edges(corpus_of([d])) + offset).tolist()
        offset += sum(map(len, d))
    assert learned.edges(corpus).tolist() == apart


def test_links_cross_sentences_but_not_documents():
    edges = SameWord().learn(text("x")).edges(text("Kim left | so did Kim", "Kim stayed"))
    assert edges.tolist() == [[4, 0]]


def test_at_most_the_most_recent_occurrences():
    edges = SameWord(most_recent=2).learn(text("x")).edges(text("Kim Kim Kim Kim"))
    assert edges.tolist() == [[1, 0], [2, 0], [2, 1], [3, 1], [3, 2]]


def test_the_word_must_be_identical_and_capitalised():
    corpus = text("Kim KIM kim 9 9 kim")
    assert SameWord().learn(corpus).edges(corpus).tolist() == []
    assert SameWord(capitalised=False).learn(corpus).edges(corpus).tolist() == [[4, 3], [5, 2]]


def labelled(*documents: str) -> Corpus:
    """As `text`; a word is part of an entity if it begins with a star."""
    corpus = text(*documents)
    rows = [[word.startswith("*") for word in row] for row in corpus.rows()]
    words = [[word.removeprefix("*") for word in row] for row in corpus.rows()]
    labels = [["B-X" if inside else "O" for inside in row] for row in rows]
    return Corpus.from_sentences(words, labels, np.diff(corpus.document_starts).tolist())


def test_auto_follows_the_labels_of_training(caplog: pytest.LogCaptureFixture):
    names = labelled("*Kim saw *Lee | *Rome and *Oslo of *9", "the *asthma")
    plain = labelled("*asthma , *Asthma | *IL-2 and *fever of *9", "the *flu")
    with caplog.at_level("INFO", "kinfolk"):
        assert SameWord().learn(names).capitalised is True, "4 of 5 words with a letter; 9 has none"
        assert SameWord().learn(plain).capitalised is False
    assert "80 % of the words of entities capitalised, so capitalised words are linked" in caplog.text
    assert "40 % of the words of entities capitalised, so words of any case are linked" in caplog.text
    there = text("asthma Asthma 9 asthma 9 , Asthma ,")
    assert SameWord().learn(names).edges(there).tolist() == [[6, 1]]
    assert SameWord().learn(plain).edges(there).tolist() == [[3, 0], [6, 1]], "neither numbers nor marks"
    for rule in (SameWord(capitalised=True), SameWord(capitalised=False)):
        assert rule.learn(plain).capitalised is None


def test_auto_without_entities_looks_at_capitals():
    nouns = Corpus.from_sentences([["the", "dog"]], [["NN", "NN"]])
    for corpus in (text("the dog"), labelled("the dog"), nouns):
        assert SameWord().learn(corpus).capitalised is True


@pytest.mark.parametrize("tags", [(0, 1), ("none", "dis"), (False, True)])
def test_where_labels_are_no_spans_auto_looks_at_those_that_are_not_the_most_frequent(tags: tuple[Any, Any]):
    for words, expected in (("the flu and the asthma of Kim", False), ("the Flu and the Asthma of Kim", True)):
        told = [tags[word.lower() in ("flu", "asthma")] for word in words.split()]
        corpus = Corpus.from_sentences([words.split()] * 2, [told] * 2, [2])
        assert corpus.scheme is None
        learned = SameWord().learn(corpus)
        assert learned.capitalised is expected
        assert len(learned.edges(text("flu flu"))) == (not expected)


def test_auto_leaves_out_words_that_are_mostly_outside_entities():
    uses = ". " * 9 + "*the *the the the the | of of of of | *cell *cell *cell cell cell cell | *factor"
    learned = SameWord().learn(labelled(uses))
    assert learned.capitalised is False and learned.state() == ["the"], "half of the time, or 4 uses, are linked"
    assert learned.edges(text("the the of of cell cell new new")).tolist() == [[3, 2], [5, 4], [7, 6]]
    both = SameWord(max_document_frequency=1, ignore_case=True).learn(labelled(uses, "Factor The", "*il"))
    assert both.state() == ["factor", "the"]


@given(DOCUMENTS, DOCUMENTS, LIMITS, LIMITS)
def test_auto_of_names_is_the_rule_of_capitals(training: Documents, other: Documents, most: Any, recent: Any):
    """To the edge: what was learned and linked before is what is learned and linked now."""
    names = [[["B-X" if word[0].isupper() else "O" for word in s] for s in d] for d in training]
    flat, labels = [s for d in training for s in d], [s for d in names for s in d]
    corpus = with_sizes(Corpus.from_sentences(flat, labels, scheme="BIO"), training)
    rules = (SameWord(max_document_frequency=most, most_recent=recent, capitalised=c) for c in ("auto", True))
    auto, capitals = (rule.learn(corpus) for rule in rules)
    assert auto.state() == capitals.state() and auto.capitalised is True
    assert auto.edges(corpus_of(other)).tolist() == capitals.edges(corpus_of(other)).tolist()


@pytest.mark.parametrize("entities", ["*Kim saw *Rome", "*flu and *asthma"])
def test_what_auto_decided_comes_back(entities: str):
    learned = SameWord().learn(labelled(entities))
    again = learned_skips(json.loads(json.dumps(learned.spec())), learned.state(), {})
    assert again == learned and again.builder == SameWord()
    assert f"capitalised={learned.capitalised}" in repr(again)
    assert str(again) == "same word, " + ("capitalised words" if learned.capitalised else "words of any case")


@pytest.mark.data
def test_auto_on_newswire_links_what_it_always_did(conll2003: Path):
    corpus = read_conll(conll2003 / "eng.train")
    auto, capitals = SameWord().learn(corpus), SameWord(capitalised=True).learn(corpus)
    assert auto.capitalised is True and auto.left_out == capitals.left_out
    assert (auto.edges(corpus) == capitals.edges(corpus)).all()


@pytest.mark.data
def test_auto_on_proteins_links_words_of_any_case(data_folder: Path):
    corpus = read_aimed(data_folder / "tokens" / "aimed_ppi" / "AIMed-test.xml")
    learned = SameWord().learn(corpus)
    assert learned.capitalised is False and {"the", "with", "cells"} <= learned.left_out
    assert not {"p53", "insulin", "eotaxin"} & learned.left_out and len(learned.edges(corpus)) < corpus.n_tokens / 2


def test_rules_of_an_earlier_make_are_what_they_were():
    spec = {"same_word": {"capitalised": True, "ignore_case": False, "max_document_frequency": 100, "most_recent": 5}}
    learned = learned_skips(spec, [], {})
    assert learned.capitalised is None and learned.edges(text("Kim kim Kim kim")).tolist() == [[2, 0]]


def test_document_frequencies_are_those_of_training():
    rule = SameWord(max_document_frequency=2)
    learned = rule.learn(text("Kim Kim Kim", "Rome", "Rome", "Rome"))
    assert learned.state() == ["Rome"], "in documents, not tokens; exactly the limit is still linked"
    crowd = text(*["Kim Kim Rome Rome Lee Lee"] * 5)
    assert learned.edges(crowd).tolist() == [[6 * d + k, 6 * d + k - 1] for d in range(5) for k in (1, 5)]
    assert rule.learn(crowd).state() == ["Kim", "Lee", "Rome"]
    assert SameWord(max_document_frequency=None).learn(crowd).state() == []


def test_words_that_are_never_linked_are_not_kept():
    crowd = text("The the", "The the", "The the")
    assert SameWord(max_document_frequency=2).learn(crowd).state() == ["The"]
    assert SameWord(False, max_document_frequency=2).learn(crowd).state() == ["The", "the"]


def test_one_string_under_two_numbers_is_one_word():
    corpus = Corpus({"word": Column(np.array([0, 1, 2]), ("Kim", "Kim", "left"))}, [0, 3], [0, 1])
    assert SameWord().learn(corpus).edges(corpus).tolist() == [[1, 0]]
    two = Corpus({"word": Column(np.array([0, 1]), ("Kim", "Kim"))}, [0, 1, 2], [0, 1, 2])
    assert SameWord(max_document_frequency=1).learn(two).state() == ["Kim"]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("rule", [SameWord(), SkipFunction(lambda document: [(1, 0)])], ids=["words", "function"])
@pytest.mark.parametrize("corpus", [corpus_of([]), corpus_of([[], []])], ids=["nothing", "empty documents"])
def test_an_empty_corpus_has_no_edges(corpus: Corpus, rule: SkipBuilder, backward: bool):
    edges = rule.learn(corpus).edges(corpus, backward)
    assert edges.shape == (0, 2) and edges.dtype == np.int64


@pytest.mark.parametrize(
    "wrong",
    [{"most_recent": 0}, {"most_recent": 2.5}, {"most_recent": True}, {"max_document_frequency": -1},
     {"max_document_frequency": "100"}, {"capitalised": None}, {"capitalised": 1}],
)  # fmt: skip
def test_a_wrong_setting_is_named(wrong: dict[str, Any]):
    with pytest.raises(SettingError, match=next(iter(wrong))):
        SameWord(**wrong)


@given(RULES, DOCUMENTS, DOCUMENTS)
def test_learned_skips_come_back_from_spec_and_state(rule: SameWord, training: Documents, documents: Documents):
    learned, corpus = rule.learn(corpus_of(training)), corpus_of(documents)
    again = learned_skips(json.loads(json.dumps(learned.spec())), json.loads(json.dumps(learned.state())), {})
    assert again == learned and again.name == "same word"
    assert again.edges(corpus).tolist() == learned.edges(corpus).tolist()


def test_numbers_of_numpy_are_numbers():
    rule = SameWord(np.bool_(True), np.int64(3), np.int32(2))
    assert rule == SameWord(True, 3, 2)
    assert json.loads(json.dumps(rule.spec()))["same_word"]["most_recent"] == 2


def by_first_letter(document: Corpus) -> Iterator[tuple[int, int]]:
    words = document.columns["word"].strings()
    return ((k, j) for k in range(len(words)) for j in range(k) if words[k][0] == words[j][0])


def test_a_function_sees_one_document_and_speaks_of_its_own_offsets():
    corpus = text("ab ac | b", "", "x a ay")
    learned = SkipFunction(by_first_letter).learn(corpus)
    assert learned.name == "by_first_letter" and learned.state() == []
    assert learned.edges(corpus).tolist() == [[1, 0], [5, 4]]
    assert learned.edges(corpus, backward=True).tolist() == [[0, 1], [4, 5]]


def test_a_function_never_sees_labels():
    seen: list[Corpus] = []
    corpus = Corpus.from_sentences([["Kim"]], labels=[["B-PER"]])
    SkipFunction(lambda document: seen.append(document) or []).learn(corpus).edges(corpus)
    assert seen[0].labels is None and seen[0].scheme is None


@given(st.lists(st.sets(st.integers(0, 4), min_size=2, max_size=2)))
def test_any_order_kind_and_repetition_of_pairs_will_do(chosen: list[set[int]]):
    pairs = [(max(p), min(p)) for p in chosen]
    array = np.array(pairs, int).reshape(-1, 2)
    answers = [pairs, iter(pairs), set(pairs), [list(p) for p in pairs], array, array.astype(np.uint8), list(array)]
    expected = sorted([a, b] for a, b in set(pairs))
    for answer in answers:
        learned = LearnedSkips(SkipFunction(lambda document, answer=answer: answer, "pairs"))
        assert learned.edges(text("a b c | d e")).tolist() == expected
    assert LearnedSkips(SkipFunction(lambda d: pairs)).edges(text("a b c d e"), True).tolist() == swapped(expected)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "expected pairs"), ("ab", "expected pairs"), (7, "expected pairs"), ({1: 0}, "expected pairs"),
        (np.array(3), "expected pairs"),
        ([1, 0], "two whole numbers"), ([(1, 0, 0)], "two whole numbers"), ([(1.0, 0)], "two whole numbers"),
        ([(True, False)], "two whole numbers"), (["ab"], "two whole numbers"), ([(1, None)], "two whole numbers"),
        (np.array([1, 0]), "two whole numbers"), (np.array([[1.0, 0.0]]), "two whole numbers"),
        ([(3, 0)], r"numbered 0 to 2 within the document; got \(3, 0\)"), ([(1, -1)], r"got \(1, -1\)"),
        ([(2**70, 0)], "numbered 0 to 2"), (np.array([[2**63 + 1, 0]], np.uint64), "numbered 0 to 2"),
        ([(1, 0), (1, 1)], r"token 1 \('left'\) is linked to itself"),
        ([(1, 0), (0, 2)], r"\(0, 2\) names token 0 \('Kim'\) .* before token 2 \('Rome'\); swap them"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_wrong_answer_of_a_function_is_told_with_its_place(answer: Any, told: str):
    rule = SkipFunction(lambda document: answer if document.n_tokens == 3 else [], "mine")
    with pytest.raises(SettingError, match=rf"skip function 'mine', document 1 \(counted from 0\): .*{told}"):
        rule.learn(text("x")).edges(text("Lee", "Kim left | Rome"))


def test_a_function_is_saved_by_name_and_passed_in_again():
    corpus = text("ab ac")
    learned = SkipFunction(by_first_letter, name="letters").learn(corpus)
    spec = json.loads(json.dumps(learned.spec()))
    again = learned_skips(spec, learned.state(), {"letters": by_first_letter})
    assert again == learned and again.edges(corpus).tolist() == [[1, 0]]
    with pytest.raises(ModelFileError, match=r"'letters'.*functions=\{'letters': \.\.\.\}\)`\. Given: other"):
        learned_skips(spec, [], {"other": by_first_letter})


def test_a_description_of_a_later_version_is_told():
    with pytest.raises(ModelFileError, match="skip edges this version does not know"):
        learned_skips({"similar_word": {}}, [], {})


def test_functions_have_names():
    assert SkipFunction(by_first_letter).name == "by_first_letter"
    assert SkipFunction(functools.partial(by_first_letter), "mine").name == "mine"
    assert SkipFunction(functools.partial(by_first_letter)).name == "partial"
    for name in ("", 3):
        with pytest.raises(SettingError, match="name"):
            SkipFunction(by_first_letter, name)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="takes a function"):
        SkipFunction("by_first_letter")  # type: ignore[arg-type]


def test_what_skip_edges_may_be():
    words, function = SameWord(), SkipFunction(by_first_letter)
    assert as_builders(None) == as_builders([]) == []
    assert as_builders(words) == [words]
    assert as_builders(by_first_letter) == [function]
    assert as_builders([words, by_first_letter]) == as_builders((words, function)) == [words, function]
    assert deepcopy(words) == words and deepcopy(function) == function, "settings are cloned"


@pytest.mark.parametrize(
    "wrong", ["same_word", 5, True, {"a": 1}, SameWord, [SameWord], [None], [[SameWord()]]], ids=repr
)
def test_what_skip_edges_may_not_be(wrong: Any):
    with pytest.raises(SettingError, match=r"skip_edges must be None, a builder such as SameWord\(\)"):
        as_builders(wrong)


def test_names_are_distinct():
    with pytest.raises(SettingError, match="two skip edges are named 'by_first_letter'"):
        as_builders([by_first_letter, SkipFunction(by_first_letter)])
    with pytest.raises(SettingError, match="named 'same word'"):
        as_builders([SameWord(), SameWord(most_recent=3)])


@pytest.mark.data
def test_conll2003_has_as_many_edges_as_counted_word_by_word(conll2003):
    from kinfolk import read_conll

    corpus = read_conll(conll2003 / "eng.train")
    per_document = [Counter(corpus.documents(d, d + 1).columns["word"].strings()) for d in range(corpus.n_documents)]
    seen_in = Counter(w for counts in per_document for w in counts)
    linked = [n for counts in per_document for w, n in counts.items() if w[0].isupper() and seen_in[w] <= 100]
    edges = SameWord().learn(corpus).edges(corpus)
    assert len(edges) == sum(min(k, 5) for n in linked for k in range(n)) == 23191
    assert len(np.unique(edges[:, 0])) == len(np.unique(edges[:, 1])) == sum(n - 1 for n in linked) == 11616
