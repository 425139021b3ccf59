"""The quick way for a few tokens gives what the general way gives, to the last bit."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import InputError, SettingError
from kinfolk.text import extraction, quick
from kinfolk.text.attributes import (
    capitalised,
    folded,
    gazetteer,
    lookup,
    lower,
    matches,
    per_word,
    pos,
    prefix,
    seen_capitalised,
    sentence_length,
    shape,
    suffix,
    word,
)
from kinfolk.text.extraction import LETTERS, TokenFeatures, for_corpus
from kinfolk.text.templates import TokenView, bag, elsewhere, ngrams, per_token

WORDS = st.sampled_from(["Kim", "kim", "left", "Rome", "IL-2", ".", "3.5", "ROME", "the", "of"])
ODD = st.text(min_size=1, max_size=6) | st.sampled_from(["\ud800", "", "\x00", "ß", "İ", "ǅ", "e\u0301", "x" * 300])
SENTENCES = st.lists(st.lists(WORDS | ODD, max_size=8), max_size=5)
TRAIN = [
    "Kim left Rome .".split(), "the IL-2 of Kim left".split(), "ROME 3.5".split(), "kim saw the ROME of Kim .".split(),
]  # fmt: skip
LABELS = [
    ["B-PER", "O", "B-LOC", "O"],
    ["O", "B-X", "O", "B-PER", "O"],
    ["B-LOC", "O"],
    ["O"] * 3 + ["B-LOC"] + ["O"] * 3,
]
SETS = {
    "letters": LETTERS,
    "own": [
        word.window(-9, 9),
        bag(lower, -4, 4),
        bag(suffix(2), 2, 3),
        bag(pos, -1, 0),
        elsewhere(lower[1]),
        ngrams(lower, 1, 3),
        ngrams(lookup("stem", {"left": "leave", "Kim": "k"}), 1, 2),
        lookup("stem2", {"left": "leave", "kim": "k"}, lower)[0] & shape[1],
        suffix(2, lower)[-1] & prefix(1)[0] & capitalised[1],
        prefix(2, pos)[0],
        matches("digit", r"\d")[0] & folded[0],
        gazetteer("places", ["Rome", "the IL-2"])[0],
        per_word("length", lambda w: str(len(w)) if w else None)[0],
        per_token("near", lambda sentence, i: [token["word"] for token in sentence[max(0, i - 1) : i]]),
        sentence_length[0],
        seen_capitalised[0] & lower[0],
    ],
}


def tagged(sentences, documents=None):
    tags = [["N" if i % 2 else "V" for i, _ in enumerate(sentence)] for sentence in sentences]
    return kf.Corpus.from_sentences(sentences, documents=documents, pos=tags)


@pytest.fixture(scope="module")
def features():
    made = {}
    for name, templates in SETS.items():
        corpus = tagged(TRAIN, [2, 2])
        made[name] = TokenFeatures(for_corpus(templates, corpus))
        made[name].learn(corpus)
    return made


def general_rows(features, corpus):
    """Template by template over whole columns, as features are learned."""
    view = TokenView(corpus, features.vocabularies, learning=False)
    blocks = features.numbered(view, range(len(features.templates)), 1)
    return features._assemble(blocks, corpus.n_tokens, 1)


def same_rows(features, corpus):
    general = general_rows(features, corpus)
    ways = [features.rows(corpus)]
    if corpus.n_tokens:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(extraction, "FEW_TOKENS", -1)
            for size in (3, 1000):
                patch.setattr(extraction, "RUN", size)
                ways += [features.rows(corpus, n_jobs) for n_jobs in (1, 2)]
    for rows in ways:
        assert rows.shape == general.shape and (rows.data == 1).all() and rows.data.dtype == general.data.dtype
        np.testing.assert_array_equal(rows.indptr, general.indptr)
        np.testing.assert_array_equal(rows.indices, general.indices)


@pytest.mark.parametrize("name", SETS)
@given(sentences=SENTENCES, together=st.booleans())
def test_rows_of_any_words_are_those_of_the_general_way(features, name, sentences, together):
    corpus = tagged(sentences, [len(sentences)] if together else None)
    for _ in range(2):  # words that were met before, too
        same_rows(features[name], corpus)


def test_rows_of_the_training_words_and_of_parts_of_a_corpus(features):
    corpus = tagged(TRAIN, [2, 2])
    for one in features.values():
        same_rows(one, corpus)
        for document in corpus:  # its column of words has words of others
            same_rows(one, document)


def test_beyond_a_few_tokens_the_general_way_is_taken(features, monkeypatch):
    corpus, one = tagged(TRAIN), features["own"]
    expected = one.rows(corpus)
    monkeypatch.setattr(extraction, "FEW_TOKENS", 3)
    assert one.few_rows(corpus) is None
    np.testing.assert_array_equal(one.rows(corpus).indices, expected.indices)


def test_a_missing_column_and_too_many_combinations_are_refused_as_ever(features):
    with pytest.raises(InputError, match="reads column 'pos'"):
        features["own"].rows(kf.Corpus.from_sentences([["Kim"]]))
    wide = TokenFeatures([word[0]])
    wide.learn(tagged([[str(i) for i in range(2000)]]))
    wide.templates = [word[0] & word[1] & word[2] & word[3] & word[4] & word[5]]
    with pytest.raises(SettingError, match="62 bits"):
        wide.rows(tagged([["1"]]))


# -- what is remembered of words -----------------------------------------------------------------------


def test_words_are_remembered_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(quick, "MOST_WORDS", 8)
    corpus = tagged(TRAIN, [2, 2])
    features = TokenFeatures([word[0], lower[1], suffix(2)[0]])
    features.learn(corpus)
    for start in range(0, 40, 3):
        same_rows(features, tagged([[f"w{start + i}" for i in range(5)], ["Kim", "left"]]))
        assert len(features._quick._words._known.numbers) <= 8


def test_threads_share_what_is_remembered(monkeypatch):
    monkeypatch.setattr(quick, "MOST_WORDS", 16)
    features = TokenFeatures([word[0], lower[1], suffix(2)[0], bag(lower, -2, 2)])
    features.learn(tagged(TRAIN, [2, 2]))
    asked = [tagged([[f"w{(7 * i + j) % 50}" for j in range(6)], TRAIN[i % 4]]) for i in range(60)]
    expected = [general_rows(features, corpus).indices.tolist() for corpus in asked]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda corpus: features.rows(corpus).indices.tolist(), asked))
    assert found == expected


def test_a_model_that_has_answered_can_be_copied_and_trained_again():
    crf = kf.LinearChainCRF(n_jobs=1, tolerance=0.1).fit(TRAIN, LABELS)
    answers = crf.predict(TRAIN)
    assert copy.deepcopy(crf).predict(TRAIN) == answers
    assert pickle.loads(pickle.dumps(crf.features_)).n_features == crf.features_.n_features
    crf.fit([["Rome", "saw"]], [["B-LOC", "O"]])
    assert crf.predict([["Rome", "saw"], []]) == [["B-LOC", "O"], []]


# -- answers -------------------------------------------------------------------------------------------

MODELS = [
    kf.LinearChainCRF(n_jobs=1, tolerance=0.1),
    kf.LinearChainCRF(n_jobs=1, tolerance=0.1, transition_templates=[lower[0]], encoding="IOBES", outside_penalty=1.0),
    kf.MEMM(n_jobs=1, tolerance=0.1, decode="posterior"),
    kf.MaxEnt(n_jobs=1, tolerance=0.1, templates="document", constrain=False),
]


@pytest.fixture(scope="module")
def models():
    corpus = kf.Corpus.from_sentences(TRAIN, LABELS, documents=[2, 2])
    return [model.fit(corpus) for model in MODELS]


@given(sentences=SENTENCES)
def test_sentence_by_sentence_is_the_whole_by_the_general_way(models, sentences):
    for model in models:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(extraction, "FEW_TOKENS", -1)
            general = model.predict(sentences), model.predict_proba(sentences), model.predict_entities(sentences)
        assert model.predict(sentences) == general[0]
        assert model.predict_entities(sentences) == general[2]
        for i, sentence in enumerate(sentences):
            assert model.predict([sentence]) == [general[0][i]]
            np.testing.assert_array_equal(model.predict_proba([sentence])[0], general[1][i])
            own = [vars(e) | {"sentence": i} for e in model.predict_entities([sentence])]
            assert own == [vars(e) for e in general[2] if e.sentence == i]


@given(st.lists(st.text(st.sampled_from("Kim left Rome. Ş-'\n"), max_size=60), max_size=3))
def test_entities_of_texts_are_those_of_the_general_way(models, texts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extraction, "FEW_TOKENS", -1)
        general = [model.entities(texts) for model in models]
    assert [model.entities(texts) for model in models] == general


@pytest.mark.parametrize("longest", [5, 600])
def test_rows_of_more_tokens_than_a_block_of_the_kernel(features, longest):
    rng, words = (
        np.random.default_rng(longest),
        ["Kim", "kim", "left", "Rome", "IL-2", ".", "3.5", "ROME", "the", "of", "new"],
    )
    sentences = [rng.choice(words, size).tolist() for size in rng.integers(1, longest, 4 * quick.BLOCK // longest + 3)]
    for one in features.values():
        same_rows(one, tagged(sentences, [1, len(sentences) - 1]))
