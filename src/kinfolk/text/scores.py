"""Entity scores as conlleval counts them, token accuracy, and the page about them. Percentages run from 0 to 100.

An entity is right when start, end and type all are. A ratio with a zero denominator is 0, as in conlleval,
so precision is 0 when nothing was predicted, and F1 is 0 when nothing is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.core.data import Column
from kinfolk.errors import InputError
from kinfolk.report import scores as pages
from kinfolk.report.page import Part, PathLike
from kinfolk.report.scores import Counts, percent
from kinfolk.text import schemes
from kinfolk.text.batch import Batch, found_spans
from kinfolk.text.corpus import AROUND, Corpus, starts_of, words_in_context

Array = NDArray[Any]
EntitySpan = tuple[int, int, str]


@dataclass(frozen=True)
class EntityScores(Counts):
    """Counts and rates over all entities, and `types`: the same for each type, in alphabetical order."""

    types: Mapping[str, Counts] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain numbers, ready for JSON."""
        return {**super().as_dict(), "types": {name: c.as_dict() for name, c in self.types.items()}}

    def table(self) -> str:
        """The scores laid out as conlleval prints them; the last number is entities predicted."""
        head = f"{self.gold} phrases; found: {self.predicted} phrases; correct: {self.correct}."
        rows = [_row(name, counts) for name, counts in self.types.items()]
        return "\n".join([head, _row("overall", self), *rows])


def span_scores(gold: Iterable[EntitySpan], predicted: Iterable[EntitySpan]) -> EntityScores:
    """Compare two sets of (start, end, type), with offsets into the same tokens.

    A span given twice counts once.
    """
    truth, guess = ({(start, end, name) for start, end, name in spans} for spans in (gold, predicted))
    n_gold, n_predicted, n_correct = (Counter(name for _, _, name in spans) for spans in (truth, guess, truth & guess))
    types = {name: Counts(n_gold[name], n_predicted[name], n_correct[name]) for name in sorted(n_gold | n_predicted)}
    return EntityScores(len(truth), len(guess), len(truth & guess), types)


def spans_to_judge(
    gold: Iterable[schemes.Span], predicted: Iterable[schemes.Span], known: NDArray[np.bool_]
) -> tuple[list[schemes.Span], list[schemes.Span]]:
    """Those of which it can be said whether they are right, where labels of some tokens are not `known`: no predicted
    one that holds such a token, nor a true one in its place."""
    truth, guess = list(gold), list(predicted)
    if known.all():
        return truth, guess
    doubtful = ~known
    before = np.concatenate([[0], np.cumsum(doubtful)])
    for start, end, _ in guess:
        if before[start] < before[end]:
            doubtful[start:end] = True
    before = np.concatenate([[0], np.cumsum(doubtful)])
    return tuple([one for one in spans if before[one.start] == before[one.end]] for spans in (truth, guess))  # type: ignore[return-value]


def token_accuracy(gold_codes: ArrayLike, predicted_codes: ArrayLike) -> float:
    """Percentage of tokens with the right label among those whose gold label is known (not -1)."""
    gold, predicted = np.asarray(gold_codes), np.asarray(predicted_codes)
    if gold.shape != predicted.shape:
        raise InputError(f"expected one predicted label a gold one, {gold.shape}; got {predicted.shape}")
    known = gold != -1
    return percent(int(np.count_nonzero(known & (gold == predicted))), int(np.count_nonzero(known)))


def _row(name: str, counts: Counts) -> str:
    rates = f"precision: {counts.precision:6.2f}%; recall: {counts.recall:6.2f}%; FB1: {counts.f1:6.2f}"
    return f"{name:>17}: {rates}  {counts.predicted}"


def entity_scores(gold: Any, predicted: Any) -> EntityScores:
    """Precision, recall and F1 over whole entities, in percent, as conlleval counts them; `types` has those of each.

    gold, predicted   a list of labels for each sentence, as `predict` gives them, or a Corpus; in any tag scheme, which
                      need not be the same: an entity is what conlleval reads as one. A predicted entity that holds a
                      token whose gold label is unknown (None) is not counted, nor a gold one in its place.
                      Lists of such for each document, as `cross_val_predict` gives them for a Corpus, are taken too. Or
                      entities as (start, end, type), with offsets into the same tokens.
    """
    both = [_listed(name, given) for name, given in (("gold", gold), ("predicted", predicted))]
    if any(_is_span(things) for things in both):
        strange = next((one for things in both for one in things if not _is_span([one])), None)
        if strange is not None:
            raise InputError(f"expected entities (start, end, type) on both sides; got {strange!r}")
        return span_scores(*both)
    rows = [_sentences(name, things) for name, things in zip(("gold", "predicted"), both, strict=True)]
    if len(rows[0]) != len(rows[1]):
        raise InputError(f"gold has {len(rows[0])} sentences, predicted has {len(rows[1])}: give the same ones")
    for number, (true, guess) in enumerate(zip(*rows, strict=True)):
        if len(true) != len(guess):
            raise InputError(f"sentence {number} has {len(true)} labels in gold, {len(guess)} in predicted")
    starts = starts_of([len(row) for row in rows[0] if len(row)])
    tags = [_tags(row) for row in rows]
    truth, guess = (schemes.spans(column, starts, "BIO") for column in tags)
    return span_scores(*spans_to_judge(truth, guess, tags[0].codes >= 0))


def _listed(name: str, given: Any) -> list[Any]:
    if isinstance(given, Corpus):
        return given.label_rows()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"{name}: expected a list of labels for each sentence, or a Corpus; got {given!r}")
    return list(given)


def _is_span(things: Sequence[Any]) -> bool:
    first = things[0] if things else None
    return isinstance(first, tuple) and len(first) == 3 and isinstance(first[0], Integral)


def _sentences(name: str, things: list[Any]) -> list[Any]:
    """The labels of each sentence; those of documents one after the other."""
    flat = next((one for one in things if isinstance(one, str) or not isinstance(one, Sequence | np.ndarray)), None)
    if flat is not None:
        expected = f"{name}: expected a list of labels for each sentence; got {flat!r} in the place of a sentence"
        raise InputError(f"{expected}. One sentence is a list of one: [labels]")
    nested = any(isinstance(label, list | np.ndarray) for row in things for label in row)
    return [sentence for document in things for sentence in document] if nested else things


def _tags(rows: list[Any]) -> Column:
    column = Column.from_labels(label for row in rows for label in row)
    strange = next((value for value in column.values if not schemes.TAG.fullmatch(value)), None)
    if strange is not None:
        remedy = "labels that are no spans are compared one by one, as by sklearn.metrics.accuracy_score"
        raise InputError(f"label {strange!r} is no entity tag, such as B-PER or O; {remedy}")
    return column


# -- The page: how good a tagger is on some documents, whether it knows that, and where it errs --------


def write_scores(
    report: PathLike, model: Any, batch: Batch, decoder: Any, path: Array, answer: tuple[EntityScores | None, float]
) -> None:
    """`path` (n,) are the labels that were predicted, `answer` their scores."""
    corpus, confidence = batch.corpus, np.array([one.confidence for one in decoder.entities(batch, path, False)])
    part = token_part(model.coding_, batch, path, decoder.marginals(batch, False), confidence, answer)
    size = f"{corpus.n_documents} documents, {corpus.n_sentences} sentences, {corpus.n_tokens} tokens"
    pages.write_scores(report, model, part, size if corpus.source is None else f"{corpus.source}: {size}")


def token_part(
    coding: Any, batch: Batch, path: Array, marginals: Array, confidence: Array, answer: tuple[Any, float]
) -> Part:
    """`confidence` has a probability for each predicted entity, in order."""
    true, (found, accuracy) = coding.gold(batch.corpus), answer
    names, gold = list(true.values), true.codes
    known, sure = gold >= 0, marginals[np.arange(len(path)), path]
    tokens = pages.calibration(sure[known], (gold == path)[known])
    charts = [pages.chart("Tokens", "each token's label", tokens, brier=pages.brier_score(marginals, gold))]
    matrix = pages.confusion(gold, path, names)
    if found is None:
        classes = pages.class_rows(matrix)
        headline = [["accuracy", accuracy / 100, f"of {int(known.sum())} tokens"]]
    else:
        whole, right = _entities(coding, batch, true, path)
        entities = pages.calibration(confidence[whole], right)
        charts.insert(0, pages.chart("Entities", "each predicted entity", entities))
        matrix = matrix.merged([_type_of(name) for name in names])
        classes = _entity_rows(found)
        headline = [
            ["entity F1", found.f1 / 100, f"{found.correct} of {found.gold} found"],
            ["precision", found.precision / 100, f"of {found.predicted} predicted entities"],
            ["recall", found.recall / 100, f"of {found.gold} true entities"],
            ["token accuracy", accuracy / 100, f"of {int(known.sum())} tokens"],
            ["calibration error", entities.error, "by which the probability of an entity is off, on average"],
        ]
    what = "Tokens by label." if found is None else "Tokens by type of entity; O is none."
    mistakes = token_mistakes(batch.corpus, gold, path, marginals, names)
    matrices = [pages.matrix_part("Confusion", what, matrix)]
    return pages.score_part(headline, classes, charts, matrices, "tokens", mistakes)


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
    for number in np.argsort(-confidence, kind="stable")[: pages.MOST_MISTAKES].tolist():
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
