"""Features extracted once for models of parts of a corpus: each is as if its part were all there is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk import Corpus
from kinfolk.text.attributes import lower, word
from kinfolk.text.extraction import SharedRows, TokenFeatures
from kinfolk.text.templates import bag, ngrams

WORDS = ["a", "B", "b", "ab", "Ab", "abc"]
DOCUMENTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=5)


def corpus_of(documents):
    return Corpus.from_sentences(documents, documents=list(range(len(documents))))


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
