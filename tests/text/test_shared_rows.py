"""Features extracted once for models of parts of a corpus: each is as if its part were all there is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk import Corpus
from kinfolk.text import extraction
from kinfolk.text.attributes import lower, word
from kinfolk.text.extraction import SharedRows, TokenFeatures
from kinfolk.text.templates import bag, ngrams

WORDS = ["a", "B", "b", "ab", "Ab", "abc"]
DOCUMENTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=5)


def corpus_of(documents):
    return Corpus.from_sentences(documents, documents=list(map(str, range(len(documents)))))


@pytest.mark.parametrize("min_count", [1, 2])
@given(documents=DOCUMENTS, data=st.data())
def test_a_part_has_the_features_and_rows_of_its_documents_alone(min_count, documents, data):
    corpus = corpus_of(documents)
    chosen = sorted(data.draw(st.sets(st.integers(0, len(documents) - 1), min_size=1)))
    templates = [word[0], word[-1], bag(lower, -2, 2), ngrams(word, 1, 2)]
    tokens = np.flatnonzero(np.isin(corpus.token_documents, chosen))

    alone, shared = (TokenFeatures(templates, min_count) for _ in range(2))
    rows = SharedRows(corpus)
    expected, found = alone.learn(corpus.select(chosen)), rows.learn(shared, tokens, 1)
    assert shared.names() == alone.names()
    assert_same(found, expected)
    others = np.flatnonzero(~np.isin(corpus.token_documents, chosen))
    if len(others):
        rest = corpus.select(np.unique(corpus.token_documents[others]))
        assert_same(rows.rows(shared, others), alone.rows(rest))


def assert_same(found, expected):
    assert found.shape == expected.shape
    assert found.indptr.tolist() == expected.indptr.tolist()
    assert found.indices.tolist() == expected.indices.tolist()


def test_extra_columns_stand_after_the_features_of_a_part():
    corpus = corpus_of([["a", "B", "ab"], ["b", "a"], ["Ab", "a", "B"]])
    features, rows, tokens = TokenFeatures([word[0], word[-1]]), SharedRows(corpus), np.array([0, 1, 2, 5, 6, 7])
    extra = np.array([[0, 0.5], [0, 0], [1, 0.25], [0, 0], [2, 0], [0, 3]], np.float32)
    alone = rows.learn(features, tokens, 1)
    for found in (rows.learn(features, tokens, 1, extra), rows.rows(features, tokens, extra)):
        assert found.has_sorted_indices and found.dtype == np.float32
        np.testing.assert_array_equal(found.toarray(), np.hstack([alone.toarray(), extra]))


@pytest.mark.parametrize("min_count", [1, 2])
def test_features_of_the_same_tokens_are_learned_once(min_count, monkeypatch):
    """Those of a level of a stack, after the one below: with other tokens or another least count they are others."""
    corpus = corpus_of([["a", "B", "ab"], ["b", "a"], ["Ab", "a", "B"]])
    rows, tokens, counted = SharedRows(corpus), np.arange(5), []
    count = extraction._count_part
    monkeypatch.setattr(extraction, "_count_part", lambda *given: (counted.append(1), count(*given)))
    below, above, other = (TokenFeatures([word[0], word[-1]], n) for n in (min_count, min_count, 3 - min_count))
    assert_same(rows.learn(above, tokens, 1), rows.learn(below, tokens, 1))
    assert len(counted) == 1 and above.names() == below.names()
    rows.learn(other, tokens, 1)
    rows.learn(TokenFeatures([word[0], word[-1]], min_count), np.arange(5, 8), 1)
    assert len(counted) == 3
