"""Scores, and the page about them: how good a model is on some data, whether it knows that, and where it errs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.column import Column
from kinfolk.graph.nodes import Nodes, node_accuracy
from kinfolk.linking.link_scores import all_scores, pairs_after, pairs_before
from kinfolk.linking.mentions import Mentions
from kinfolk.report.calibration import Calibration, brier_score, calibration
from kinfolk.report.confusion import Confusion, confusion
from kinfolk.report.mistakes import node_mistakes, token_mistakes
from kinfolk.report.page import Part
from kinfolk.report.pair_mistakes import pair_mistakes
from kinfolk.report.report_files import PathLike, check_report, write_report
from kinfolk.report.training import training_part
from kinfolk.text import schemes
from kinfolk.text.batch import Batch
from kinfolk.text.entities import found_spans
from kinfolk.text.scores import EntityScores

Array = NDArray[Any]
MOST_LABELS = 20  # rows of a matrix that can still be read
UNSEEN = "(never seen in training)"
IN_DOUBT = 0.01  # pairs with a probability from here to 1 minus this are shown by themselves


def evaluate_tokens(
    tagger: Any, batch: Batch, report: PathLike | None, whole: Any = None
) -> tuple[EntityScores | None, float]:
    """What `evaluate` of a token model answers; with `report` also a page. `whole`: the model the tagger is part of."""
    check_report(report)
    batch, decoder = batch if report is None else replace(batch, kept_rows={}), tagger._decoder()
    path = decoder.paths(batch, forced=False)
    answer: tuple[EntityScores | None, float] = tagger._evaluate_path(batch, path, tell=True)
    if report is not None:
        model, corpus = tagger if whole is None else whole, batch.corpus
        entities = np.array([one.confidence for one in decoder.entities(batch, path, False)])
        part = token_part(tagger.coding_, batch, path, decoder.marginals(batch, False), entities, answer)
        size = f"{corpus.n_documents} documents, {corpus.n_sentences} sentences, {corpus.n_tokens} tokens"
        _write(report, model, part, size if corpus.source is None else f"{corpus.source}: {size}")
    return answer


def token_part(
    coding: Any, batch: Batch, path: Array, marginals: Array, confidence: Array, answer: tuple[Any, float]
) -> Part:
    """`confidence` has a probability for each predicted entity, in order."""
    true, (scores, accuracy) = coding.gold(batch.corpus), answer
    names, gold = list(true.values), true.codes
    known, sure = gold >= 0, marginals[np.arange(len(path)), path]
    tokens = calibration(sure[known], (gold == path)[known])
    charts = [_chart("Tokens", "each token's label", tokens, brier=brier_score(marginals, gold))]
    matrix = confusion(gold, path, names)
    if scores is None:
        classes = _class_rows(matrix)
        headline = [["accuracy", accuracy / 100, f"of {int(known.sum())} tokens"]]
    else:
        found, right = _entities(coding, batch, true, path)
        charts.insert(0, _chart("Entities", "each predicted entity", calibration(confidence[found], right)))
        matrix = matrix.merged([_type_of(name) for name in names])
        classes = _entity_rows(scores)
        headline = [
            ["entity F1", scores.f1 / 100, f"{scores.correct} of {scores.gold} found"],
            ["precision", scores.precision / 100, f"of {scores.predicted} predicted entities"],
            ["recall", scores.recall / 100, f"of {scores.gold} true entities"],
            ["token accuracy", accuracy / 100, f"of {int(known.sum())} tokens"],
        ]
    what = "Tokens by label." if scores is None else "Tokens by type of entity; O is none."
    mistakes = token_mistakes(batch.corpus, gold, path, marginals, names)
    return _part(headline, classes, charts, [_matrix("Confusion", what, matrix)], "tokens", mistakes)


def _entities(coding: Any, batch: Batch, gold: Column, path: Array) -> tuple[Array, Array]:
    """Which predicted entities stand where all labels are known, and which of these are right."""
    spans = found_spans(batch, coding, path)
    true = set(schemes.spans(gold, batch.corpus.sentence_starts, coding.inner))
    known = np.array([bool((gold.codes[s.start : s.end] >= 0).all()) for s in spans], bool)
    return known, np.array([s in true for s in spans], bool)[known]


def _type_of(tag: str) -> str:
    return "O" if tag == "O" else tag.partition("-")[2] or "entity"


def evaluate_nodes(
    model: Any, nodes: Nodes, beliefs: Array, report: PathLike | None, known: Array
) -> tuple[None, float]:
    """What `evaluate` of a node model answers; with `report` also a page. Labels that were `known` (n,), -1 for none,
    do not count."""
    check_report(report)
    gold = np.where(known >= 0, -1, nodes.gold(model.coding_.classes))
    accuracy = node_accuracy(gold, beliefs)
    if report is not None:
        links = ", ".join(nodes.relations) or "no relations"
        size = f"{len(nodes.labels)} nodes, {int((gold >= 0).sum())} of them scored; {links}"
        _write(report, model, node_part(list(model.coding_.classes.names), nodes.ids, gold, beliefs, accuracy), size)
    return None, accuracy


def node_part(names: list[str], ids: Sequence[str], gold: Array, beliefs: Array, accuracy: float) -> Part:
    """`gold` (n,) is -1 where not known, and the number of names for a label that training never saw."""
    known, path = gold >= 0, beliefs.argmax(axis=1)
    names = [*names, UNSEEN] if (gold == len(names)).any() else names
    sure = beliefs.max(axis=1)
    chart = _chart(
        "Nodes", "each node's label", calibration(sure[known], (path == gold)[known]), brier=brier_score(beliefs, gold)
    )
    matrix = confusion(gold, path, names)
    headline = [
        ["accuracy", accuracy / 100, f"of {int(known.sum())} labelled nodes"],
        ["mean F1", float(matrix.f1[matrix.counts.sum(axis=1) > 0].mean()), "over classes, each counting the same"],
    ]
    mistakes = node_mistakes(ids, gold, beliefs, names)
    return _part(
        headline, _class_rows(matrix), [chart], [_matrix("Confusion", "Nodes by label.", matrix)], "nodes", mistakes
    )


def evaluate_pairs(
    linker: Any, items: Mentions, probability: Array, clusters: Array, report: PathLike | None
) -> dict[str, Any]:
    """What `Linker.evaluate` answers; with `report` also a page."""
    answer = all_scores(items, clusters, probability > 0.5)
    if report is not None:
        what = "records" if items.corpus is None else f"mentions in {items.n_groups} documents"
        size = f"{items.n_items} {what}, {items.n_pairs} candidate pairs"
        _write(report, linker, pair_part(items, probability, clusters, answer), size)
    return answer


def pair_part(items: Mentions, probability: Array, clusters: Array, scores: dict[str, Any]) -> Part:
    labels = items.pair_labels
    known = labels >= 0
    doubt = known & (probability >= IN_DOUBT) & (probability <= 1 - IN_DOUBT)
    found = [calibration(probability[chosen], labels[chosen] == 1) for chosen in (doubt, known)]
    charts = [
        _chart("Pairs in doubt", "each candidate pair with a probability from 1 % to 99 %", found[0]),
        _chart("All candidate pairs", "each candidate pair", found[1]),
    ][: 1 + (_places(found[1]) > 2)]  # nearly all pairs at 0 tell nothing
    charts = [{**chart, "right": "belong together"} for chart in charts]
    after, before = pairs_after(items, clusters), pairs_before(items, probability > 0.5)
    matrices = [
        _matrix("After clustering", "All pairs of items, candidates or not.", _two_by_two(after)),
        _matrix("Before clustering", "Candidates each on its own, and true pairs that are none.", _two_by_two(before)),
    ]
    headline = [
        ["pair F1", after.f1, "pairs put together, after clustering"],
        ["precision", after.precision, f"of {after.true_positives + after.false_positives} pairs put together"],
        ["recall", after.recall, f"of {after.true_positives + after.false_negatives} true pairs"],
        ["cluster F1", scores["clusters"]["f1"], "clusters that are right as a whole"],
    ]
    told = {name: found if isinstance(found, dict) else {"f1": found} for name, found in scores.items()}  # means of F1
    rows = [[name, *(found.get(key) for key in ("recall", "precision", "f1"))] for name, found in told.items()]
    headings = ["metric", "recall", "precision", "F1"]
    table = {"title": "By metric", "headings": headings, "rows": rows, "share": [1, 2, 3]}
    mistakes = pair_mistakes(items, probability, clusters)
    return _part(headline, table, charts, matrices, "pairs", mistakes.pop("rows"), **mistakes)


def _two_by_two(scores: Any) -> Confusion:
    right, wrong, missed = scores.true_positives, scores.false_positives, scores.false_negatives
    counts = np.array([[scores.pairs - right - wrong - missed, wrong], [missed, right]], np.int64)
    return Confusion(("apart", "together"), counts)


def _places(found: Calibration) -> int:
    """How many points of a chart can be told apart."""
    return len(np.unique(np.round(50 * found.predicted)))


def _part(headline: Any, classes: Any, charts: Any, matrices: Any, kind: str, mistakes: Any, **more: Any) -> Part:
    told = {"headline": headline, "classes": classes, "calibration": charts, "confusion": matrices}
    return Part("scores", "Scores", {**told, "mistakes": {"of": kind, "rows": mistakes, **more}})


def _chart(title: str, what: str, found: Calibration, brier: float | None = None) -> dict[str, Any]:
    """`brier`: that of several classes, in the place of right or wrong."""
    return {**found.as_dict(), "title": title, "what": what, "brier": found.brier if brier is None else brier}


def _matrix(title: str, what: str, found: Confusion) -> dict[str, Any]:
    return {**found.largest(MOST_LABELS).as_dict(), "title": title, "what": what}


def _class_rows(matrix: Confusion) -> dict[str, Any]:
    counts = matrix.counts
    columns: Iterable[Any] = zip(
        matrix.labels, matrix.precision, matrix.recall, matrix.f1, counts.sum(axis=1), counts.sum(axis=0), strict=True
    )
    headings = ["label", "precision", "recall", "F1", "true", "predicted"]
    return {"title": "By label", "headings": headings, "rows": list(columns), "share": [1, 2, 3]}


def _entity_rows(scores: EntityScores) -> dict[str, Any]:
    rows = [
        [name, *(getattr(one, rate) / 100 for rate in ("precision", "recall", "f1")), one.gold, one.predicted]
        for name, one in {**scores.types, "all": scores}.items()
    ]
    headings = ["type", "precision", "recall", "F1", "true", "predicted"]
    return {"title": "By type of entity", "headings": headings, "rows": rows, "share": [1, 2, 3]}


def _write(path: PathLike, model: Any, scores: Part, about: str) -> None:
    training = training_part(model)
    parts = [scores] if training is None else [scores, training]
    write_report(path, f"Scores of {type(model).__name__}", parts, about)


def write_training(path: PathLike, model: Any) -> None:
    """A page about training alone; it says so where nothing is known."""
    part = training_part(model)
    told = Part("text", "Training", {"paragraphs": ["The base of this model does not tell how it was trained."]})
    write_report(path, f"Training of {type(model).__name__}", [told if part is None else part])
