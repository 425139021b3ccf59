"""Clusters of words from text without labels, and tables of words as an attribute."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import InputError, SettingError
from kinfolk.text import clusters
from kinfolk.text.attributes import folded, lookup, lower, word
from kinfolk.text.clusters import cluster_templates, context_counts, positive_information, word_clusters
from kinfolk.text.templates import ngrams

WORDS = st.lists(st.lists(st.sampled_from(["a", "B", "b", "C2", "c3", "."]), min_size=1, max_size=6), max_size=5)


def plain_counts(sentences: list[list[str]], min_count: int, n_contexts: int) -> dict[tuple[str, int, str], int]:
    """(word, place, context) -> how often, by a loop; words in lower case, digits as 0."""
    texts = [["".join("0" if c.isdigit() else c for c in w.lower()) for w in sentence] for sentence in sentences]
    counts = Counter(w for sentence in texts for w in sentence)
    first = {w: i for i, w in reversed(list(enumerate(w for sentence in texts for w in sentence)))}
    kept = sorted((w for w in counts if counts[w] >= min_count), key=lambda w: (-counts[w], first[w]))
    found: Counter[tuple[str, int, str]] = Counter()
    for sentence in texts:
        for i, w in enumerate(sentence):
            for place in (-2, -1, 1, 2):
                if 0 <= i + place < len(sentence) and w in kept and sentence[i + place] in kept[:n_contexts]:
                    found[w, place, sentence[i + place]] += 1
    return dict(found)


@given(WORDS, st.integers(1, 3), st.integers(1, 4))
def test_contexts_are_counted_as_a_plain_loop_does(sentences: list[list[str]], min_count: int, n_contexts: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "CONTEXTS", n_contexts)
        table, words = context_counts(kf.Corpus.from_sentences(sentences), min_count)
    n = min(n_contexts, len(words))
    found = {}
    for row, column in zip(*table.nonzero(), strict=True):
        place = (-2, -1, 1, 2)[column // n]
        found[words[row], place, words[column % n]] = int(table[row, column])
    assert found == plain_counts(sentences, min_count, n_contexts)


def test_information_is_the_formula():
    table = np.array([[3.0, 0, 1], [1, 2, 0]])
    from scipy import sparse

    found = positive_information(sparse.csr_array(table)).toarray()
    weight = table.sum(axis=0) ** 0.75
    for i, j in np.ndindex(table.shape):
        share = table[i, j] / table.sum()
        expected = math.log(share / (table[i].sum() / table.sum() * weight[j] / weight.sum())) if share else 0.0
        assert found[i, j] == pytest.approx(max(0.0, expected))


SENTENCES = [["the", animal, verb] for animal in ("cat", "dog", "cow") for verb in ("ate", "slept", "ran")] * 3


def test_words_of_the_same_contexts_are_together():
    corpus = kf.Corpus.from_sentences(SENTENCES)
    (attribute,) = word_clusters(corpus, sizes=[3])
    groups = {name: {attribute.table[w] for w in group} for name, group in
              {"animals": ("cat", "dog", "cow"), "verbs": ("ate", "slept", "ran")}.items()}  # fmt: skip
    assert all(len(group) == 1 for group in groups.values()) and groups["animals"] != groups["verbs"]
    again = word_clusters(corpus.with_labels(None, None), sizes=[3])
    assert [one.table for one in again] == [attribute.table], "same text, same clusters"


def test_text_is_a_corpus_several_or_lists_of_words_and_sizes_may_be_one():
    corpus = kf.Corpus.from_sentences(SENTENCES)
    (expected,) = word_clusters(corpus, sizes=[3])
    for text in (SENTENCES, tuple(map(tuple, SENTENCES)), [corpus.documents(0, 9), corpus.documents(9, 27)]):
        (found,) = word_clusters(text, sizes=3)
        assert found.table == expected.table


def test_a_named_set_stands_in_a_list_beside_templates_of_clusters(tmp_path: Path):
    """Of plain words: templates of the set that read other columns are left out, as where it stands alone."""
    labels = [["O", "B-PER", "O"] for _ in SENTENCES]
    own = cluster_templates(word_clusters(SENTENCES, sizes=3))
    alone = kf.LinearChainCRF(tolerance=0.1).fit(SENTENCES, labels)
    model = kf.LinearChainCRF(templates=["sentence", own], tolerance=0.1).fit(SENTENCES, labels)
    assert {*alone.features_.names()} < {*model.features_.names()}
    assert any(name.startswith("clusters 3[0]=") for name in model.features_.names())
    model.save(tmp_path / "m")
    assert (
        kf.load_model(tmp_path / "m").predict_proba(SENTENCES)[0].tolist() == model.predict_proba(SENTENCES)[0].tolist()
    )
    with pytest.raises(SettingError, match=r"templates must be 'sentence', .* or a list; got 'sentences'"):
        kf.LinearChainCRF(templates=["sentences", own]).fit(SENTENCES, labels)


def test_few_words_are_few_clusters_and_rare_words_are_in_none():
    corpus = kf.Corpus.from_sentences([*SENTENCES, ["a", "Cat2", "ate"]])
    coarse, fine = word_clusters(corpus, sizes=[2, 1000])
    assert len(set(coarse.table.values())) <= 2 and len(set(fine.table.values())) <= 7
    assert "cat0" not in fine.table and coarse.column(corpus).strings()[-2] is None


def test_clusters_that_cannot_be():
    with pytest.raises(InputError, match="occur 3 times or more; the text has 0"):
        word_clusters(kf.Corpus.from_sentences([["one", "two"]]))
    with pytest.raises(InputError, match="the text has 0"):
        word_clusters(kf.Corpus.from_sentences([]))
    for sizes in ([0], 0, "many", None, 2.5):
        with pytest.raises(SettingError, match="sizes must be a whole number of 1 or more"):
            word_clusters(kf.Corpus.from_sentences(SENTENCES), sizes=sizes)
    with pytest.raises(SettingError, match="min_count must be"):
        word_clusters(SENTENCES, min_count=0)
    with pytest.raises(InputError, match="a Corpus or a list of sentences; got str"):
        word_clusters("one two")
    with pytest.raises(InputError, match="clusters are of words; got features"):
        word_clusters([[{"word": "one"}]])


def test_a_table_says_what_it_knows_of_a_word():
    stems = lookup("stem", {"genes": "gene", "il-0": "interleukin"}, folded)
    corpus = kf.Corpus.from_sentences([["Genes", "of", "IL-2"]])
    assert stems.column(corpus).strings() == ["gene", None, "interleukin"]
    assert str(stems) == "stem" and stems.needs() == ("word",)
    with pytest.raises(InputError, match="strings to strings; got 3"):
        lookup("stem", {"genes": 3})  # type: ignore[dict-item]


def test_a_model_file_keeps_the_tables(tmp_path: Path):
    train, test = kf.newswire_split(4, 2)
    tables = word_clusters(train, sizes=[5, 20])
    letters = ngrams(lookup("first letter", {w: w[0] for w in ("the", "of", "in")}, lower), 1, 2)
    templates = [word[0], cluster_templates(tables), letters]
    model = kf.LinearChainCRF(templates=templates, tolerance=1.0).fit(train)
    assert any(name.startswith("clusters 5[-1]=") for name in model.features_.names())
    model.save(tmp_path / "m.kinfolk")
    twin = kf.load_model(tmp_path / "m.kinfolk")
    assert twin.predict(test) == model.predict(test)
    assert twin.features_.names() == model.features_.names()
