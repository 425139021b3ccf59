"""Documents of one sentence: a token there has no company beyond its sentence.

Where nearly all of the training data are such documents, links across sentences have nothing to teach, which is told.
Where few are, a level of a stack that learned to count on company misses it in one: it takes a word for one that its
document has but once. In generated newswire F1 on lone sentences falls by 5.5 below the base's where none of the
training documents was one, by 3.2 where a fifth of the sentences were; where half were, it is the base's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import DataWarning, warn
from kinfolk.text.corpus import Corpus

NEARLY_ALL, FEW = 0.9, 0.5  # of the sentences


def alone(corpus: Corpus) -> NDArray[np.bool_]:
    """bool (D,), the documents without a second sentence."""
    return np.diff(corpus.document_starts) <= 1


def alone_share(corpus: Corpus) -> float:
    """The share of sentences that are documents of their own."""
    return float((np.diff(corpus.document_starts) == 1).sum() / max(1, corpus.n_sentences))


def without_company(corpus: Corpus) -> bool:
    return corpus.n_sentences > 1 and alone_share(corpus) >= NEARLY_ALL


def warn_without_company(corpus: Corpus, consequence: str, *, dicts: bool = False, otherwise: str = "") -> None:
    """Of training data where nearly every sentence is a document; `otherwise`: what else could be done."""
    count = round(alone_share(corpus) * corpus.n_sentences)
    how = "in a Corpus: feature dicts have none" if dicts else (
        "-DOCSTART- or two blank lines in files, documents=... in Corpus.from_sentences"
    )  # fmt: skip
    warn(
        f"{count:,} of {corpus.n_sentences:,} sentences of the training data are documents of their own: "
        f"{consequence}. Mark documents ({how}){otherwise}",
        DataWarning,
    )


def warn_without_edges(names: Sequence[str], edges: Sequence[NDArray[Any]], corpus: Corpus, dicts: bool) -> None:
    """Skip edges that join nothing are most often a misunderstanding, and so are documents of one sentence."""
    if not names or not corpus.n_tokens:
        return
    unused = ", ".join(repr(name) for name, pairs in zip(names, edges, strict=True) if not len(pairs))
    nothing = f"skip edges {unused} join no two tokens of the training data, so they are not used"
    if without_company(corpus):
        told = nothing if unused else "skip edges stay within a document"
        warn_without_company(corpus, told, dicts=dicts)
    elif unused:
        warn(nothing, DataWarning)
