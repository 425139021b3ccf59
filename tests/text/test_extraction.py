"""Token features equal those of a plain loop over strings, token by token and name by name."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_features import build, features

from kinfolk import Corpus
from kinfolk.core.modelfile import ModelFile
from kinfolk.errors import InputError, SettingError
from kinfolk.text.attributes import chunk, lower, per_word, pos, prefix, suffix, word
from kinfolk.text.extraction import DOCUMENT, LETTERS, SENTENCE, TokenFeatures, flatten, restored_features
from kinfolk.text.templates import bag, elsewhere, ngrams, per_token
from small_world import with_sizes

# Few words, so that documents repeat them; capitals, digits, letters beyond ASCII, one-letter words.
VOCABULARY = ["the", "The", "Kim", "KIM", "of", "I", "x", "A-9", "1999", "Łódź", "é", "Kim's", "..", "_"]
SENTENCE_WORDS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=6)
DOCUMENTS = st.lists(st.lists(SENTENCE_WORDS, max_size=3), min_size=1, max_size=3)

ATTRIBUTES = st.sampled_from(
    [("word",), ("lower",), ("shape",), ("short_shape",), ("capitalised",), ("column", "pos")]
    + [(kind, n) for kind in ("prefix", "suffix") for n in (1, 2, 4)]
    + [("matches", "digit", r"\d"), ("matches", "dash", "-")]
)
TERMS = st.lists(st.tuples(ATTRIBUTES, st.integers(-2, 2)), min_size=1, max_size=3).map(tuple)
TEMPLATES = st.lists(
    st.tuples(st.just("at"), TERMS)
    | st.tuples(st.just("elsewhere"), TERMS)
    | st.tuples(st.just("bag"), ATTRIBUTES, st.integers(-3, -1), st.integers(0, 3))
    | st.tuples(st.just("ngrams"), ATTRIBUTES, st.integers(1, 2), st.integers(2, 4)),
    min_size=1,
    max_size=5,
)


def tokens_of(documents: list[list[list[str]]]) -> list[list[list[dict[str, str]]]]:
    return [[[{"word": w, "pos": str(len(w) % 3)} for w in s] for s in d] for d in documents]


def corpus_of(documents: list[list[list[str]]]) -> Corpus:
    tokens = [sentence for document in tokens_of(documents) for sentence in document]
    words, pos = ([[t[name] for t in s] for s in tokens] for name in ("word", "pos"))
    return with_sizes(Corpus.from_sentences(words, pos=pos), documents)


def expected(plain: list[tuple[Any, ...]], documents: list[list[list[str]]]) -> list[set[str]]:
    """The names of the features of each token."""
    return [
        set().union(*(features(template, document, s, i) for template in plain))
        for document in tokens_of(documents)
        for s, sentence in enumerate(document)
        for i in range(len(sentence))
    ]


def named(rows: Any, names: list[str]) -> list[list[str]]:
    assert rows.data.tolist() == [1.0] * rows.nnz
    found = [rows.indices[a:b].tolist() for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)]
    assert all(row == sorted(set(row)) for row in found), "each feature once, in order"
    return [[names[i] for i in row] for row in found]


@settings(max_examples=150)
@given(TEMPLATES, DOCUMENTS, DOCUMENTS)
def test_features_are_those_of_the_plain_loop(plain: Any, train: Any, test: Any):
    """In training and on another corpus, where what training never saw is left out."""
    own = TokenFeatures([build(template) for template in plain])
    learned = own.learn(corpus_of(train))
    wanted = expected(plain, train)
    assert [set(row) for row in named(learned, own.names())] == wanted
    known = set().union(*wanted) if wanted else set()
    assert set(own.names()) == known and own.n_features == len(known)
    found = named(own.rows(corpus_of(test)), own.names())
    assert [set(row) for row in found] == [row & known for row in expected(plain, test)]


@settings(max_examples=30)
@given(TEMPLATES, DOCUMENTS)
def test_learning_and_reading_give_the_same_rows(plain: Any, train: Any):
    own = TokenFeatures([build(template) for template in plain])
    corpus = corpus_of(train)
    learned, names = own.learn(corpus), own.names()
    again = own.rows(corpus)
    assert learned.shape == again.shape
    assert learned.indices.tolist() == again.indices.tolist() and learned.indptr.tolist() == again.indptr.tolist()
    assert own.names() == names, "the vocabulary is frozen"


@settings(max_examples=30)
@given(st.lists(TERMS, min_size=1, max_size=4), DOCUMENTS, st.integers(1, 4))
def test_min_count_leaves_out_what_is_seen_less_often(terms: Any, train: Any, least: int):
    plain = [("at", t) for t in terms]
    own = TokenFeatures([build(template) for template in plain], min_count=least)
    learned = own.learn(corpus_of(train))
    wanted = expected(plain, train)
    counts = Counter(feature for row in wanted for feature in row)
    kept = {feature for feature, count in counts.items() if count >= least}
    assert set(own.names()) == kept
    assert [set(row) for row in named(learned, own.names())] == [row & kept for row in wanted]


@settings(max_examples=15)
@given(TEMPLATES, DOCUMENTS, st.integers(2, 3))
def test_threads_make_no_difference(plain: Any, train: Any, n_jobs: int):
    one, many = (TokenFeatures([build(template) for template in plain]) for _ in range(2))
    a, b = one.learn(corpus_of(train), n_jobs=1), many.learn(corpus_of(train), n_jobs=n_jobs)
    assert one.names() == many.names()
    assert (a != b).nnz == 0 and a.indices.tolist() == b.indices.tolist()
    assert (one.rows(corpus_of(train), n_jobs) != b).nnz == 0


@settings(max_examples=30)
@given(TEMPLATES, DOCUMENTS, DOCUMENTS)
def test_a_rebuilt_feature_set_gives_the_same_rows(plain: Any, train: Any, test: Any):
    own = TokenFeatures([build(template) for template in plain], min_count=1)
    own.learn(corpus_of(train))
    arrays, strings = own.state()
    spec = json.loads(json.dumps(own.spec()))
    twin = restored_features(ModelFile(spec, arrays, strings), {})
    assert twin.names() == own.names() and twin.spec() == own.spec()
    assert (twin.rows(corpus_of(test)) != own.rows(corpus_of(test))).nnz == 0


@pytest.mark.parametrize("templates", [SENTENCE, DOCUMENT, LETTERS], ids=["sentence", "document", "letters"])
def test_the_default_sets_survive_a_file_and_name_each_feature_once(templates: Any):
    own = TokenFeatures(templates)
    corpus = corpus_of([[["The", "Kim", "A-9"], ["Kim", "of", "1999"]], [["x"]]])
    rows = own.learn(corpus)
    assert len(set(own.names())) == own.n_features > 50
    arrays, strings = own.state()
    twin = restored_features(ModelFile(json.loads(json.dumps(own.spec())), arrays, strings), {})
    assert (twin.rows(corpus) != rows).nnz == 0


def test_at_most_twenty_other_occurrences_the_nearest_ones():
    n = 50
    corpus = Corpus.from_sentences([["Kim", f"w{i}"] for i in range(n)], documents=[n])
    own = TokenFeatures([elsewhere(word[1])])
    rows = named(own.learn(corpus), own.names())
    for i in range(n):
        others = sorted(int(name.split("=w")[1].rstrip(")")) for name in rows[2 * i])
        first = min(max(0, i - 10), n - 21)
        assert others == [j for j in range(first, first + 21) if j != i]
        assert rows[2 * i + 1] == []


def test_documents_do_not_look_into_each_other():
    sentences = [["Kim", "left"], ["Kim", "won"]]
    own = TokenFeatures([elsewhere(word[1])])
    own.learn(Corpus.from_sentences(sentences, documents=[2]))
    apart = own.rows(Corpus.from_sentences(sentences))
    assert own.n_features == 2 and apart.nnz == 0


def test_no_tokens_no_rows():
    own = TokenFeatures([word[0], bag(lower, -1, 1), elsewhere(word[1]), ngrams(word, 2, 3)])
    assert own.learn(Corpus.from_sentences([])).shape == (0, 0)
    own.learn(corpus_of([[["Kim"]]]))
    assert own.rows(Corpus.from_sentences([])).shape == (0, own.n_features)


def test_a_word_that_training_never_met_has_the_letters_it_shares():
    own = TokenFeatures([ngrams(lower, 2, 3)])
    own.learn(Corpus.from_sentences([["kinase"]]))
    rows = own.rows(Corpus.from_sentences([["Lipase", "of"]]))
    prefix = "ngrams(lower, 2, 3)="
    assert named(rows, own.names()) == [[prefix + run for run in ("as", "se", "e$", "ase", "se$")], []]


def test_a_lone_template_and_nested_lists_are_one_list():
    assert list(map(str, flatten(lower))) == list(map(str, flatten(lower[0]))) == ["lower[0]"]
    nested = [word, [word.window(-1, 1), [word[1], pos[0] & lower]], word[0]]
    assert list(map(str, flatten(nested))) == ["word[0]", "word[-1]", "word[1]", "pos[0] & lower[0]"]


def test_an_attribute_is_no_endless_list():
    with pytest.raises(TypeError):
        list(word)


def test_a_missing_column_is_named():
    with pytest.raises(InputError, match=r"reads column 'chunk'.*it has: word, pos"):
        TokenFeatures([chunk[0]]).learn(corpus_of([[["Kim"]]]))
    own = TokenFeatures([pos[0]])
    own.learn(corpus_of([[["Kim"]]]))
    with pytest.raises(InputError, match="reads column 'pos'"):
        own.rows(Corpus.from_sentences([["Kim"]]))


def test_more_combinations_than_numbers_are_refused():
    corpus = Corpus.from_sentences([[f"w{i}" for i in range(300)]])
    seven, eight = (word.window(0, n)[0] for n in (6, 7))
    for offset in range(1, 8):
        eight = eight & word[offset]
        seven = eight if offset == 6 else seven
    assert TokenFeatures([seven]).learn(corpus).shape == (300, 300)
    with pytest.raises(SettingError, match=r"word\[0\] & word\[1\].*conjoin fewer"):
        TokenFeatures([eight]).learn(corpus)


WRONG = {
    "no templates": (lambda: TokenFeatures([]), "at least one"),
    "a string": (lambda: TokenFeatures(["word[0]"]), r"template was expected.*got 'word\[0\]'"),
    "a number": (lambda: TokenFeatures([word[0], 3]), "got 3"),
    "min_count 0": (lambda: TokenFeatures([word[0]], min_count=0), "min_count must be 1 or more"),
    "a slice": (lambda: word[0:2], r"for several use .window\(-2, 2\)"),
    "an empty window": (lambda: word.window(1, -1), r"word.window\(1, -1\) is empty"),
    "an empty bag": (lambda: bag(lower, 2, 1), "is empty"),
    "a bag of nothing": (lambda: bag(lower, 0, 0), "is empty"),
    "a bag of a template": (lambda: bag(lower[0], -1, 1), "bag takes an attribute"),
    "elsewhere of a bag": (lambda: elsewhere(bag(lower, -1, 1)), "elsewhere takes an attribute or a conjunction"),
    "elsewhere twice": (lambda: elsewhere(elsewhere(lower)), "elsewhere takes an attribute"),
    "no letters": (lambda: ngrams(lower, 0, 3), "is empty: give a least and a greatest length"),
    "fewer letters than the least": (lambda: ngrams(lower, 3, 2), "is empty"),
    "letters of a template": (lambda: ngrams(lower[0], 2, 4), "ngrams takes an attribute"),
    "no prefix": (lambda: prefix(0), "1 or more; got 0"),
    "half a suffix": (lambda: suffix(1.5), "1 or more; got 1.5"),
    "one name, two functions": (
        lambda: TokenFeatures([per_word("f", str.lower)[0], per_word("f", str.upper)[1]]),
        "two different features are named 'f'",
    ),
    "one name, two templates": (
        lambda: TokenFeatures([per_token("f", lambda s, i: []), [per_token("f", lambda s, i: ["x"])]]),
        "two different features are named 'f'",
    ),
    "the name of a column": (lambda: TokenFeatures([word[0], per_word("word", str.upper)[-1]]), "named 'word'"),
}


@pytest.mark.parametrize(("make", "message"), WRONG.values(), ids=WRONG.keys())
def test_templates_that_make_no_sense(make: Any, message: str):
    with pytest.raises(SettingError, match=message):
        make()


def test_only_attributes_and_conjunctions_conjoin():
    for make in (lambda: word[0] & bag(lower, -1, 1), lambda: word & elsewhere(lower), lambda: word[0] & 3):
        with pytest.raises(TypeError, match="unsupported operand"):
            make()


def test_keys_beyond_32_bits_are_told_apart():
    """Conjunctions of three attributes with thousands of values have keys far beyond 2**32."""
    words = [[f"w{i}" for i in np.random.default_rng(0).permutation(3000)]]
    own = TokenFeatures([word[-1] & word[0] & word[1]])
    rows = own.learn(Corpus.from_sentences(words))
    assert own.n_features == 3000 and rows.indices.tolist() == list(range(3000))
    assert own.names()[0] == f"word[-1]=<outside> & word[0]={words[0][0]} & word[1]={words[0][1]}"
