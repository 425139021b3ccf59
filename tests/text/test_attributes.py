"""What attributes say of words, a user's own functions, and gazetteers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk import Corpus
from kinfolk.core.modelfile import ModelFile
from kinfolk.errors import InputError, ModelFileError, SettingError
from kinfolk.text.attributes import (
    Derived,
    capitalised,
    column,
    gazetteer,
    lower,
    matches,
    per_word,
    prefix,
    shape,
    short_shape,
    suffix,
    word,
)
from kinfolk.text.extraction import TokenFeatures, for_corpus, restored_features
from kinfolk.text.templates import per_token


def said(attribute: Any, *words: str) -> list[str | None]:
    return attribute.column(Corpus.from_sentences([list(words)])).strings()


def rows_of(own: TokenFeatures, corpus: Corpus) -> list[set[str]]:
    names, table = own.names(), own.rows(corpus)
    return [{names[j] for j in table.indices[a:b]} for a, b in zip(table.indptr, table.indptr[1:], strict=False)]


def test_built_in_attributes():
    words = ("McCall-9", "the", "U.S.", "IBM", "2,500", "é", "Łódź")
    assert said(lower, *words) == ["mccall-9", "the", "u.s.", "ibm", "2,500", "é", "łódź"]
    assert said(shape, *words) == ["XxXxxx-d", "xxx", "X.X.", "XXX", "d,ddd", "x", "Xxxx"]
    assert said(short_shape, *words) == ["XxXx-d", "x", "X.X.", "X", "d,d", "x", "Xx"]
    assert said(prefix(3), *words) == ["McC", "the", "U.S", "IBM", "2,5", None, "Łód"]
    assert said(suffix(4), *words) == ["ll-9", None, "U.S.", None, ",500", None, "Łódź"]
    assert said(capitalised, *words) == ["yes", None, "yes", "yes", None, None, "yes"]
    assert said(matches("number", r"^[\d,]+$"), *words) == [None, None, None, None, "number", None, None]


def test_an_attribute_of_an_attribute():
    assert said(suffix(2, of=lower), "USA", "é") == ["sa", None]
    assert str(suffix(2, of=lower)) == "suffix(2, lower)"


def test_nothing_said_of_nothing():
    """Where the inner attribute is silent, so is the outer one."""
    assert said(prefix(1, of=suffix(3)), "ab", "xyz", "q", "uvw") == [None, "x", None, "u"]
    assert said(lower.__class__("lower", of=matches("N", r"\d")), "a", "1") == [None, "n"]
    assert said(prefix(9), "a", "b") == [None, None]


def test_a_column_of_the_file():
    corpus = Corpus.from_sentences([["a", "b"]], lemma=[["A", "B"]])
    assert column("lemma").column(corpus).strings() == ["A", "B"]
    assert prefix(1, of=column("lemma")).needs() == ("lemma",)


def test_unknown_attributes_and_patterns_are_refused():
    with pytest.raises(SettingError, match="unknown attribute 'sound'; known: capitalised"):
        Derived("sound")
    with pytest.raises(SettingError, match=r"matches\('x', ...\): not a regular expression"):
        matches("x", "(")


def test_a_function_of_a_word_is_called_once_a_distinct_word():
    asked = []

    def stem(text: str) -> str | None:
        asked.append(text)
        return text[:2] if len(text) > 2 else None

    own = TokenFeatures([per_word("stem", stem)[0], per_word("stem", stem)[1]])
    corpus = Corpus.from_sentences([["walks", "walked", "so", "walks"], ["walks"]])
    own.learn(corpus)
    assert sorted(asked) == ["so", "walked", "walks"]
    assert rows_of(own, corpus)[1:3] == [{"stem[0]=wa"}, {"stem[1]=wa"}]
    assert "stem[1]=<outside>" in own.names()


@pytest.mark.parametrize("answer", [3, ["a"], True, b"a"])
def test_a_function_of_a_word_returns_a_string_or_none(answer: Any):
    with pytest.raises(SettingError, match=r"'mine' must return a string or None; for 'Kim' it returned"):
        TokenFeatures([per_word("mine", lambda w: answer)[0]]).learn(Corpus.from_sentences([["Kim"]]))


def neighbours(sentence: list[dict[str, str]], at: int) -> list[str]:
    near = sentence[max(0, at - 1) : at] + sentence[at + 1 : at + 2]
    return [f"{token['word']}/{token['pos']}" for token in near]


def test_a_function_of_a_sentence_and_a_place():
    own = TokenFeatures([per_token("near", neighbours)])
    corpus = Corpus.from_sentences([["a", "b", "a"], ["c"]], pos=[["X", "Y", "X"], ["Z"]])
    own.learn(corpus)
    assert own.names() == ["near=b/Y", "near=a/X"]
    assert rows_of(own, corpus) == [{"near=b/Y"}, {"near=a/X"}, {"near=b/Y"}, set()]
    other = Corpus.from_sentences([["b", "q", "a"]], pos=[["Y", "Y", "X"]])
    assert rows_of(own, other) == [set(), {"near=b/Y", "near=a/X"}, set()], "new values are left out"


@pytest.mark.parametrize("answer", ["word", None, 3, [3], [None], [["a"]]])
def test_a_function_of_a_place_returns_a_list_of_strings(answer: Any):
    with pytest.raises(SettingError, match="'mine' must return a list of strings; got"):
        TokenFeatures([per_token("mine", lambda s, i: answer)]).learn(Corpus.from_sentences([["Kim"]]))


def test_functions_are_passed_in_again():
    own = TokenFeatures([per_word("up", str.upper)[0], per_token("near", neighbours)])
    corpus = Corpus.from_sentences([["a", "b"]], pos=[["X", "Y"]])
    rows = own.learn(corpus)
    arrays, strings = own.state()
    with pytest.raises(ModelFileError, match=r"named 'up'.*functions=\{'up': ...\}\)`\. Given: none"):
        restored_features(ModelFile(own.spec(), arrays, strings), {})
    with pytest.raises(ModelFileError, match=r"named 'near'.*Given: up"):
        restored_features(ModelFile(own.spec(), arrays, strings), {"up": str.upper})
    twin = restored_features(ModelFile(own.spec(), arrays, strings), {"up": str.upper, "near": neighbours})
    assert (twin.rows(corpus) != rows).nnz == 0


def test_a_template_of_a_later_version_is_refused():
    for spec in ({"trigram": 1}, {"conjunction": [[{"sound": 1}, 0]]}):
        with pytest.raises(ModelFileError, match="does not know"):
            restored_features(ModelFile({"templates": [spec], "min_count": 1}), {})


# -- gazetteers


def test_the_longest_entry_wins():
    cities = gazetteer("cities", ["New York", "York", "New York City Hall", "Rome"])
    assert said(cities, "New", "York", "City", "Hall", "in", "Rome") == ["B", "I", "I", "E", None, "S"]
    assert said(cities, "New", "York", "City", "York", "New") == ["B", "E", None, "S", None]
    assert said(cities, "in", "New") == [None, None]


def test_entries_do_not_cross_sentences():
    corpus = Corpus.from_sentences([["New"], ["York"]])
    assert gazetteer("g", ["New York", "York"]).column(corpus).strings() == [None, "S"]


def test_case_matters_unless_told_otherwise():
    assert said(gazetteer("g", ["New York"]), "NEW", "YORK") == [None, None]
    assert said(gazetteer("g", ["New York"], ignore_case=True), "NEW", "york") == ["B", "E"]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=8), st.lists(st.text("abc ", max_size=6), max_size=5))
def test_marks_spell_entries_and_none_was_missed(words: list[str], entries: list[str]):
    marks = said(gazetteer("g", entries), *words)
    phrases = {tuple(entry.split()) for entry in entries if entry.split()}
    at = 0
    while at < len(words):
        longest = max((n for n in range(1, len(words) - at + 1) if tuple(words[at : at + n]) in phrases), default=0)
        wanted = {0: [None], 1: ["S"]}.get(longest, ["B", *["I"] * (longest - 2), "E"])
        assert marks[at : at + len(wanted)] == wanted
        at += len(wanted)


def test_blanks_in_entries_do_not_matter_and_a_string_is_no_list():
    assert said(gazetteer("g", ["  New \t York ", "", "  "]), "New", "York") == ["B", "E"]
    with pytest.raises(InputError, match="read_gazetteer"):
        gazetteer("g", "cities.txt")


@pytest.mark.parametrize("attribute", [lambda g: g, lambda g: prefix(1, of=g)], ids=["plain", "inside another"])
def test_entries_are_kept_with_the_feature_set(attribute: Any):
    own = TokenFeatures([attribute(gazetteer("cities", ["Rome", "New York"], ignore_case=True))[0], word[0]])
    corpus = Corpus.from_sentences([["NEW", "York", "rome", "x"]])
    rows = own.learn(corpus)
    arrays, strings = own.state()
    assert strings["gazetteer.cities"] == ["New York", "Rome"]
    twin = restored_features(ModelFile(own.spec(), arrays, strings), {})
    assert twin.names() == own.names() and (twin.rows(corpus) != rows).nnz == 0


# -- sets by name


def test_a_named_set_leaves_out_what_the_corpus_lacks():
    bare, full = Corpus.from_sentences([["a"]]), Corpus.from_sentences([["a"]], pos=[["X"]])
    for name in ("sentence", "document", "letters"):
        without, with_pos = (list(map(str, for_corpus(name, c))) for c in (bare, full))
        assert set(without) < set(with_pos)
        assert {t for t in with_pos if "pos" not in t} == set(without)
    assert set(map(str, for_corpus("sentence", full))) < set(map(str, for_corpus("document", full)))


def test_an_unknown_set_is_refused():
    with pytest.raises(SettingError, match="'sentence', 'document' or 'letters', or a list; got 'page'"):
        for_corpus("page", Corpus.from_sentences([["a"]]))
