"""The mistakes a model was most sure of, with what stands around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.linking.link_explanations import field_values
from kinfolk.linking.mentions import Mentions
from kinfolk.text.corpus import Corpus
from kinfolk.text.quoted import quoted

Array = NDArray[Any]
MOST = 10  # mistakes shown
AROUND = 12  # words of context on each side


def token_mistakes(
    corpus: Corpus, truth: Array, path: Array, marginals: Array, names: Sequence[str]
) -> list[dict[str, Any]]:
    """Runs of wrong tokens within a sentence, those first whose wrong labels are most probable; one a run.

    truth, path   (n,) true and predicted label, -1 for a truth that is not known
    marginals     (n, L)
    """
    wrong = (truth >= 0) & (truth != path)
    begins = wrong & np.append(True, ~wrong[:-1])
    begins |= wrong & np.isin(np.arange(len(wrong)), corpus.sentence_starts)
    run = np.cumsum(begins) - 1
    sure = marginals[np.arange(len(path)), path]
    confidence = np.zeros(int(begins.sum()))
    np.maximum.at(confidence, run[wrong], sure[wrong])
    words = corpus.columns["word"].strings()
    found = []
    for number in np.argsort(-confidence, kind="stable")[:MOST].tolist():
        tokens = np.flatnonzero(wrong & (run == number))
        found.append(
            {
                **_sentence(corpus, int(tokens[0]), int(tokens[-1]) + 1),
                "labels": [[words[t], names[truth[t]], names[path[t]], sure[t]] for t in tokens[:AROUND].tolist()],
                "where": _where(corpus, int(tokens[0])),
            }
        )
    return found


def _sentence(corpus: Corpus, start: int, end: int) -> dict[str, Any]:
    return dict(zip(("before", "words", "after"), quoted(corpus, start, end, AROUND), strict=True))


def _where(corpus: Corpus, token: int) -> str:
    """As `explain` counts: the document, and the token within it."""
    document = int(corpus.token_documents[token])
    first = int(corpus.sentence_starts[corpus.document_starts[document]])
    line = "" if corpus.lines is None else f", line {int(corpus.lines[token])}"
    return f"document {document}, token {token - first}{line}"


def node_mistakes(ids: Sequence[str], truth: Array, beliefs: Array, names: Sequence[str]) -> list[dict[str, Any]]:
    """Nodes whose most probable label is wrong. `names` has one more than the beliefs where a label was never seen."""
    path = beliefs.argmax(axis=1)
    sure = beliefs[np.arange(len(path)), path]
    wrong = np.flatnonzero((truth >= 0) & (truth != path))
    return [
        {
            "node": str(ids[i]),
            "truth": names[truth[i]],
            "predicted": names[path[i]],
            "sure": sure[i],
            "of_truth": beliefs[i, truth[i]] if truth[i] < beliefs.shape[1] else 0.0,
        }
        for i in wrong[np.argsort(-sure[wrong], kind="stable")][:MOST].tolist()
    ]


def both_items(items: Mentions, low: int, high: int) -> dict[str, Any]:
    """Two mentions in their sentences, or the fields of two records."""
    if items.corpus is not None and items.spans is not None:
        texts = [_sentence(items.corpus, *map(int, items.spans[i])) for i in (low, high)]
        return {"texts": texts, "where": items.group_name(int(items.groups[low]))}
    return {"fields": [[name, *values] for name, *values in field_values(items, low, high)]}
