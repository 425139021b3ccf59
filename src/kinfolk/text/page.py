"""The page about a tagger's scores: how good it is on some documents, whether it knows that, and where it errs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.report import scores
from kinfolk.report.page import Part, PathLike
from kinfolk.text import schemes
from kinfolk.text.batch import Batch, found_spans
from kinfolk.text.corpus import AROUND, Corpus, words_in_context
from kinfolk.text.scores import EntityScores

Array = NDArray[Any]


def write_scores(
    report: PathLike, model: Any, batch: Batch, decoder: Any, path: Array, answer: tuple[EntityScores | None, float]
) -> None:
    """`path` (n,) are the labels that were predicted, `answer` their scores."""
    corpus, confidence = batch.corpus, np.array([one.confidence for one in decoder.entities(batch, path, False)])
    part = token_part(model.coding_, batch, path, decoder.marginals(batch, False), confidence, answer)
    size = f"{corpus.n_documents} documents, {corpus.n_sentences} sentences, {corpus.n_tokens} tokens"
    scores.write_scores(report, model, part, size if corpus.source is None else f"{corpus.source}: {size}")


def token_part(
    coding: Any, batch: Batch, path: Array, marginals: Array, confidence: Array, answer: tuple[Any, float]
) -> Part:
    """`confidence` has a probability for each predicted entity, in order."""
    true, (found, accuracy) = coding.gold(batch.corpus), answer
    names, gold = list(true.values), true.codes
    known, sure = gold >= 0, marginals[np.arange(len(path)), path]
    tokens = scores.calibration(sure[known], (gold == path)[known])
    charts = [scores.chart("Tokens", "each token's label", tokens, brier=scores.brier_score(marginals, gold))]
    matrix = scores.confusion(gold, path, names)
    if found is None:
        classes = scores.class_rows(matrix)
        headline = [["accuracy", accuracy / 100, f"of {int(known.sum())} tokens"]]
    else:
        whole, right = _entities(coding, batch, true, path)
        entities = scores.calibration(confidence[whole], right)
        charts.insert(0, scores.chart("Entities", "each predicted entity", entities))
        matrix = matrix.merged([_type_of(name) for name in names])
        classes = _entity_rows(found)
        headline = [
            ["entity F1", found.f1 / 100, f"{found.correct} of {found.gold} found"],
            ["precision", found.precision / 100, f"of {found.predicted} predicted entities"],
            ["recall", found.recall / 100, f"of {found.gold} true entities"],
            ["token accuracy", accuracy / 100, f"of {int(known.sum())} tokens"],
        ]
    what = "Tokens by label." if found is None else "Tokens by type of entity; O is none."
    mistakes = token_mistakes(batch.corpus, gold, path, marginals, names)
    matrices = [scores.matrix_part("Confusion", what, matrix)]
    return scores.score_part(headline, classes, charts, matrices, "tokens", mistakes)


def _entities(coding: Any, batch: Batch, gold: Column, path: Array) -> tuple[Array, Array]:
    """Which predicted entities stand where all labels are known, and which of these are right."""
    spans = found_spans(batch, coding, path)
    true = set(schemes.spans(gold, batch.corpus.sentence_starts, coding.inner))
    known = np.array([bool((gold.codes[s.start : s.end] >= 0).all()) for s in spans], bool)
    return known, np.array([s in true for s in spans], bool)[known]


def _type_of(tag: str) -> str:
    return "O" if tag == "O" else tag.partition("-")[2] or "entity"


def _entity_rows(found: EntityScores) -> dict[str, Any]:
    rows = [
        [name, *(getattr(one, rate) / 100 for rate in ("precision", "recall", "f1")), one.gold, one.predicted]
        for name, one in {**found.types, "all": found}.items()
    ]
    headings = ["type", "precision", "recall", "F1", "true", "predicted"]
    return {"title": "By type of entity", "headings": headings, "rows": rows, "share": [1, 2, 3]}


# -- mistakes -----------------------------------------------------------------------------------------


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
    for number in np.argsort(-confidence, kind="stable")[: scores.MOST_MISTAKES].tolist():
        tokens = np.flatnonzero(wrong & (run == number))
        found.append(
            {
                **words_in_context(corpus, int(tokens[0]), int(tokens[-1]) + 1),
                "labels": [[words[t], names[truth[t]], names[path[t]], sure[t]] for t in tokens[:AROUND].tolist()],
                "where": _where(corpus, int(tokens[0])),
            }
        )
    return found


def _where(corpus: Corpus, token: int) -> str:
    """As `explain` counts: the document, and the token within it."""
    document = int(corpus.token_documents[token])
    first = int(corpus.sentence_starts[corpus.document_starts[document]])
    line = "" if corpus.lines is None else f", line {int(corpus.lines[token])}"
    return f"document {document}, token {token - first}{line}"
