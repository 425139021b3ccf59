"""The mistakes a model was most sure of, with what stands around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.data.column import Column
from kinfolk.data.corpus import Corpus
from kinfolk.data.mentions import Mentions

Array = NDArray[Any]
MOST = 10  # mistakes shown
AROUND = 12  # words of context on each side
LONGEST = 60  # characters of a field


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
                **_sentence(corpus, words, int(tokens[0]), int(tokens[-1]) + 1),
                "labels": [[words[t], names[truth[t]], names[path[t]], sure[t]] for t in tokens[:AROUND].tolist()],
                "where": _where(corpus, int(tokens[0])),
            }
        )
    return found


def _sentence(corpus: Corpus, words: Sequence[Any], start: int, end: int) -> dict[str, Any]:
    """Words before, of and behind a run of tokens, as far as its sentence goes."""
    sentence = int(np.searchsorted(corpus.sentence_starts, start, side="right")) - 1
    first, last = (int(corpus.sentence_starts[sentence + k]) for k in (0, 1))
    low, high = max(first, start - AROUND), min(last, end + AROUND)
    cut = ["…"] if low > first else [], ["…"] if high < last else []
    parts = cut[0] + list(words[low:start]), list(words[start:end]), list(words[end:high]) + cut[1]
    return dict(zip(("before", "words", "after"), (" ".join(map(str, part)) for part in parts), strict=True))


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
        words = items.corpus.columns["word"].strings()
        texts = [_sentence(items.corpus, words, *map(int, items.spans[i])) for i in (low, high)]
        return {"texts": texts, "where": items.group_name(int(items.groups[low]))}
    fields = []
    for name, column in items.columns.items():
        values = [_value(column, i) for i in (low, high)]
        if any(values):
            fields.append([name, *values])
    return {"fields": fields}


def _value(column: Any, item: int) -> str:
    """A value as text; "" where there is none."""
    if isinstance(column, Column):
        text = "" if column.codes[item] < 0 else str(column.values[column.codes[item]])
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return "" if np.isnan(column[item]) else f"{column[item]:g}"
