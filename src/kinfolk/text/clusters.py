"""Clusters of words from text without labels: words that stand between the same words.

A word is a row of how often each frequent word stands one or two places before or behind it, as positive pointwise
mutual information; its singular vectors, of length 1, are clustered by k-means, once for each number of clusters. A
word that labelled training data never showed then shares a feature with words they did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.settings import whole
from kinfolk.errors import InputError
from kinfolk.text.attributes import Lookup, folded, lookup
from kinfolk.text.batch import Batch
from kinfolk.text.corpus import Corpus, shifted
from kinfolk.text.templates import Attribute, Template

PLACES = (-2, -1, 1, 2)
CONTEXTS = 2000  # the most frequent words are what others are known by
DIMENSIONS = 50
SMOOTHING = 0.75  # power of a context's frequency: rare contexts prove less than they seem to


def word_clusters(
    corpus: Any, sizes: int | Sequence[int] = (50, 300, 1000), min_count: int = 3, random_state: int = 0
) -> list[Lookup]:
    """An attribute for each number of clusters, coarse and fine, learned from words alone.

    corpus     any text: a Corpus, a list of such, or sentences as lists of words; labels are not looked at
    sizes      numbers of clusters, or one; fewer where there are fewer words
    min_count  words seen less often, in lower case and with every digit as 0, are in no cluster
    """
    numbers = list(sizes) if isinstance(sizes, Iterable) and not isinstance(sizes, str) else [sizes]
    for size in numbers:
        whole(1).check("sizes", size)
    whole(1).check("min_count", min_count)
    batch = Batch.of(corpus)
    if batch.items is not None:
        raise InputError("clusters are of words; got features: give sentences as lists of words, or a Corpus")
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # sums in another order would be other clusters
        words, vectors = word_vectors(batch.corpus, min_count, random_state)
        return [lookup(f"clusters {size}", _clustered(words, vectors, size, random_state), folded) for size in numbers]


def cluster_templates(clusters: Sequence[Attribute]) -> list[Template]:
    """The clusters of the words from two before to two behind, and those of neighbours together."""
    return [
        template
        for cluster in clusters
        for template in (*cluster.window(-2, 2), cluster[-1] & cluster[0], cluster[0] & cluster[1])
    ]


def word_vectors(corpus: Corpus, min_count: int = 3, random_state: int = 0) -> tuple[list[str], NDArray[np.float64]]:
    """Words, and their vectors of length 1 (0 where a word stands beside no frequent one)."""
    from sklearn.decomposition import TruncatedSVD

    table, words = context_counts(corpus, min_count)
    if len(words) < 2:
        what = f"clusters need words that occur {min_count} times or more; the text has {len(words)} of them"
        raise InputError(f"{what}: give more text, or lower `min_count`")
    dimensions = min(DIMENSIONS, min(table.shape) - 1)
    vectors = TruncatedSVD(dimensions, random_state=random_state).fit_transform(positive_information(table))
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return words, vectors / np.where(lengths > 0, lengths, 1.0)


def context_counts(corpus: Corpus, min_count: int) -> tuple[sparse.csr_array, list[str]]:
    """(words, places times contexts): how often a context stands at a place beside a word."""
    column = folded.column(corpus)
    counts = np.bincount(column.codes, minlength=len(column.values))
    order = np.argsort(-counts, kind="stable")
    kept = order[counts[order] >= max(1, min_count)]
    number = np.full(len(counts) + 1, -1)  # one more: beyond the sentence
    number[kept] = np.arange(len(kept))
    n_contexts = min(CONTEXTS, len(kept))
    rows, columns = [], []
    for place, offset in enumerate(PLACES):
        beside = number[shifted(column.codes + 1, corpus, offset) - 1]
        both = (number[column.codes] >= 0) & (beside >= 0) & (beside < n_contexts)
        rows.append(number[column.codes][both])
        columns.append(beside[both] + place * n_contexts)
    at = np.concatenate(rows), np.concatenate(columns)
    shape = len(kept), len(PLACES) * n_contexts
    table: Any = sparse.coo_array((np.ones(len(at[0])), at), shape=shape).tocsr()
    return table, [column.values[i] for i in kept]


def positive_information(table: sparse.csr_array) -> sparse.csr_array:
    """max(0, log p(word, context) / p(word) q(context)), with q proportional to a power of the context's count."""
    found = sparse.coo_array(table)
    rows, columns = found.coords
    of_word, of_context = table.sum(axis=1), table.sum(axis=0) ** SMOOTHING
    ratio = found.data * of_context.sum() / (of_word[rows] * of_context[columns])
    return sparse.csr_array((np.maximum(np.log(ratio), 0.0), (rows, columns)), shape=table.shape)


def _clustered(words: list[str], vectors: NDArray[np.float64], size: int, random_state: int) -> dict[str, str]:
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(min(size, len(words)), random_state=random_state, n_init=1)
    return dict(zip(words, map(str, model.fit(vectors).labels_.tolist()), strict=True))
