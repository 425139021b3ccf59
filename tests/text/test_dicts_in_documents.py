"""Feature dicts with their words and documents: what looks beyond the sentence sees the same word elsewhere."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold, cross_val_predict, cross_val_score

import kinfolk as kf
from kinfolk.errors import DataWarning, InputError
from kinfolk.text.crfsuite import CRF

TRAIN, TEST = kf.newswire_split(6, 3)
LOOSE: dict[str, Any] = {"n_jobs": 1, "tolerance": 0.01}
BEYOND = {
    "SkipChainCRF": lambda: kf.SkipChainCRF(n_jobs=1, tolerance=0.3),
    "MixtureTagger": lambda: kf.MixtureTagger(**LOOSE),
    "StackedTagger": lambda: kf.StackedTagger(kf.LinearChainCRF(**LOOSE), depth=1, folds=2, n_jobs=1),
}
EVERY_ONE = pytest.mark.parametrize("new", BEYOND.values(), ids=BEYOND)


def dicts(corpus: kf.Corpus) -> list[list[dict[str, Any]]]:
    return [
        [{"lower": word.lower(), "title": word.istitle(), "before": sentence[t - 1] if t else "<"}
         for t, word in enumerate(sentence)]
        for sentence in corpus.rows()
    ]  # fmt: skip


def sizes(corpus: kf.Corpus) -> list[int]:
    return np.diff(corpus.document_starts).tolist()


def with_dicts(corpus: kf.Corpus) -> kf.Corpus:
    return kf.Corpus.from_sentences(corpus.rows(), corpus.label_rows(), sizes(corpus), features=dicts(corpus))


@EVERY_ONE
def test_dicts_with_words_and_documents_are_a_corpus_with_dicts(new: Any, tmp_path: Path):
    X, y, beside = dicts(TRAIN), TRAIN.label_rows(), {"words": TEST.rows(), "documents": sizes(TEST)}
    model = new().fit(X, y, words=TRAIN.rows(), documents=sizes(TRAIN))
    other = new().fit(with_dicts(TRAIN))
    found = model.predict(dicts(TEST), **beside)
    assert found == other.predict(with_dicts(TEST)) and model.score(dicts(TEST), TEST.label_rows(), **beside) > 0.3
    alone = model.predict(dicts(TEST), words=TEST.rows())
    assert alone != found, "the rest of the document has a say"
    entities = model.predict_entities(dicts(TEST), **beside)
    assert entities[0].text in " ".join(TEST.rows()[entities[0].sentence])
    tables = model.predict_proba(dicts(TEST), **beside)
    assert all((a == b).all() for a, b in zip(tables, other.predict_proba(with_dicts(TEST)), strict=True))
    assert model.evaluate(dicts(TEST), TEST.label_rows(), **beside)[1] == other.evaluate(with_dicts(TEST))[1]
    model.save(tmp_path / "m")
    assert kf.load_model(tmp_path / "m").predict(dicts(TEST), **beside) == found


@EVERY_ONE
def test_dicts_alone_are_told_what_is_missing(new: Any):
    remedy = r"Mark documents \(`words=...` and `documents=...` beside the feature dicts\)"
    with pytest.warns(DataWarning, match=remedy):
        new().set_params(**({"depth": None} if "depth" in new().get_params() else {})).fit(
            dicts(TRAIN[:4]), TRAIN[:4].label_rows()
        )


def test_a_chain_learns_the_same_with_and_without_words():
    X, y = dicts(TRAIN), TRAIN.label_rows()
    for new in (kf.LinearChainCRF(**LOOSE), kf.MaxEnt(**LOOSE)):
        alone = new.fit(X, y).predict(X)
        assert new.fit(X, y, words=TRAIN.rows(), documents=sizes(TRAIN)).predict(X) == alone
        assert new.fit(with_dicts(TRAIN)).predict(with_dicts(TRAIN)) == alone


def test_folds_are_of_whole_documents():
    corpus = with_dicts(TRAIN)
    for model in (BEYOND["StackedTagger"](), CRF(delta=0.01, n_jobs=1)):
        scores = cross_val_score(model, corpus, cv=2, error_score="raise")
        by_hand = type(model)(**model.get_params(deep=False)).fit(corpus[3:]).score(corpus[:3])
        assert scores[0] == by_hand > 0.3
    found = cross_val_predict(kf.LinearChainCRF(**LOOSE), corpus, cv=KFold(2))
    assert [len(document) for document in found] == sizes(TRAIN)


def test_words_with_documents_are_taken_as_lists():
    y = TRAIN.label_rows()
    model = BEYOND["StackedTagger"]()
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        found = model.fit(TRAIN.rows(), y, documents=sizes(TRAIN)).predict(TEST.rows(), documents=sizes(TEST))
    words = kf.Corpus.from_sentences(TRAIN.rows(), y, sizes(TRAIN))
    asked = kf.Corpus.from_sentences(TEST.rows(), documents=sizes(TEST))
    assert found == BEYOND["StackedTagger"]().fit(words).predict(asked)


X, Y, WORDS = [[{"a": 1}, {"b": 1}], [{"a": 1}]], [["x", "y"], ["x"]], [["Kim", "left"], ["Kim"]]


@pytest.mark.parametrize(("given", "message"), [
    ({"documents": [2]}, "give both beside feature dicts"),
    ({"words": WORDS[:1]}, "X has 2 sentences, `words` have 1"),
    ({"words": [["Kim"], ["Kim"]]}, "sentence 0 has 2 tokens in X but 1 `words`"),
    ({"words": ["Kim left", "Kim"]}, "a list of words for each sentence"),
    ({"words": WORDS, "documents": [3]}, "add up to 2 sentences"),
    ({"words": [[1, 2], [3]]}, "expected strings; got 1"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(given: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        kf.MaxEnt().fit(X, Y, **given)


def test_a_corpus_and_words_have_their_own():
    for one in ({"words": WORDS}, {"documents": [2]}):
        with pytest.raises(InputError, match="a Corpus has its own words and documents"):
            kf.MaxEnt().fit(kf.Corpus.from_sentences(WORDS, Y), **one)
    with pytest.raises(InputError, match="X holds words itself"):
        kf.MaxEnt().fit(WORDS, Y, words=WORDS)


@pytest.mark.parametrize(("features", "message"), [
    (X[:1], "same sentence lengths"), ([[{"a": 1}], [{"a": 1}]], "same sentence lengths"),
    ([["a", "b"], [{}]], "sentence 0, token 0"), (["ab", "c"], "a list of feature dicts for each sentence"),
    ([[{"a": None}, {}], [{}]], "sentence 0, token 0.*None"),
])  # fmt: skip
def test_features_of_a_corpus_are_looked_over(features: Any, message: str):
    with pytest.raises(InputError, match=message):
        kf.Corpus.from_sentences(WORDS, Y, features=features)


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=3), max_size=6), st.randoms(use_true_random=False))
def test_dicts_stay_with_their_tokens(sentences: list[list[str]], r: Any):
    """Through choosing documents, joining and sending; sentences without tokens are left out."""
    features = [[{f"{s}.{t}": 1.0} for t in range(len(words))] for s, words in enumerate(sentences)]
    names = [str(s // 2) for s in range(len(sentences))]
    corpus = kf.Corpus.from_sentences(sentences, documents=names, features=features)
    assert corpus.features == [row for row in features if row]
    of_document = [[row for row in features[i : i + 2] if row] for i in range(0, len(features), 2)]
    order = r.sample(range(len(corpus)), len(corpus))
    chosen = corpus[order]
    assert chosen.features == [row for d in order for row in of_document[d]]
    if len(corpus):
        assert kf.Corpus.joined([corpus[d] for d in order]).features == chosen.features
        assert corpus.documents(0, 1).features == of_document[0]
    assert pickle.loads(pickle.dumps(corpus)).features == corpus.features
    assert corpus.with_labels(None, None).features == corpus.features


def test_a_corpus_with_dicts_and_one_without_do_not_go_together():
    one, other = kf.Corpus.from_sentences(WORDS, Y, features=X), kf.Corpus.from_sentences(WORDS, Y)
    assert "feature dicts" in repr(one) and "feature dicts" not in repr(other)
    with pytest.raises(InputError, match="feature dicts, all or none"):
        kf.Corpus.joined([one, other])
    model = kf.MaxEnt(n_jobs=1).fit(one)
    with pytest.raises(InputError, match="trained on feature dicts, but was given words"):
        model.predict(other)
