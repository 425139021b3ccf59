"""Scores, and the page about them: how good a model is on some data, whether it knows that, and where it errs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.core.data import Column
from kinfolk.errors import InputError
from kinfolk.graph.nodes import Nodes, node_accuracy
from kinfolk.linking.explain import field_values
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.scores import all_scores, pairs_after, pairs_before
from kinfolk.report.page import Part, PathLike, check_report, write_report
from kinfolk.report.training import training_part
from kinfolk.text import schemes
from kinfolk.text.batch import Batch, found_spans
from kinfolk.text.corpus import Corpus
from kinfolk.text.explain import quoted
from kinfolk.text.scores import EntityScores

# -- The mistakes a model was most sure of, with what stands around them -------------------------------

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


# -----------------------------------------------------------------------------------------------------
# Where a linker errs: pairs decided wrongly, never looked at, split by the clustering, or joined by way of others.

FEW = 4  # pairs shown of each kind but the first
LARGEST = 300  # items of a cluster among whose pairs examples are looked for


def pair_mistakes(items: Mentions, probability: Array, clusters: Array) -> dict[str, Any]:
    """{told, rows, others}: the numbers in words, candidates decided wrongly, and a few pairs of each other kind.

    What is missed after clustering was never a candidate, or decided wrongly, or split by the clustering; what is
    wrongly together was decided wrongly, or joined by way of others. The five numbers add up to the two of the table.
    """
    true = np.asarray(items.clusters)
    truth, linked = items.pair_labels, probability > 0.5
    together = clusters[items.left] == clusters[items.right]
    wrong = (truth >= 0) & ((truth == 1) != linked)
    after = pairs_after(items, clusters)
    split = (truth == 1) & linked & ~together
    refused = int(((truth == 1) & ~linked & ~together).sum())
    accepted = int(((truth == 0) & linked & together).sum())
    unseen = after.false_negatives - int(split.sum()) - refused
    joined = after.false_positives - accepted
    sure = np.maximum(probability, 1 - probability)
    keys = items.left.astype(np.int64) * items.n_items + items.right  # of candidates

    def rows(chosen: Array, most: int) -> list[dict[str, Any]]:
        best = np.flatnonzero(chosen)
        best = best[np.argsort(-sure[best], kind="stable")][:most].tolist()
        return [_row(items, clusters, int(items.left[k]), int(items.right[k]), probability[k]) for k in best]

    def found(one: Array, other: Array, but: Array) -> list[dict[str, Any]]:
        pairs = _examples(items, one, other, but)
        given = [probability[keys == a * items.n_items + b] for a, b in pairs]
        return [_row(items, clusters, a, b, p[0] if len(p) else None) for (a, b), p in zip(pairs, given, strict=True)]

    numbers = (unseen, refused, int(split.sum()), accepted, joined)
    right_after = int((wrong & ((truth == 1) == together)).sum())
    others = [
        ("True pairs that were never candidates", unseen and found(true, clusters, keys)),
        ("True pairs that were accepted, and split by the clustering", rows(split, FEW)),
        ("Different ones, joined by way of others", joined and found(clusters, true, keys[linked])),
    ]
    told = [_told(items.n_pairs, int(wrong.sum()), right_after), _after(*numbers)]
    shown = [{"title": title, "rows": pairs} for title, pairs in others if pairs]
    return {"told": " ".join(told), "rows": rows(wrong, MOST), "others": shown}


def _row(items: Mentions, clusters: Array, low: int, high: int, probability: float | None) -> dict[str, Any]:
    return {
        "names": [items.name(low), items.name(high)],
        "together": bool(items.clusters[low] == items.clusters[high]),  # type: ignore[index]
        "probability": probability,
        "clustered": bool(clusters[low] == clusters[high]),
        **both_items(items, low, high),
    }


def _examples(items: Mentions, one: Array, other: Array, but: Array) -> list[tuple[int, int]]:
    """A few pairs that are alike in the one clustering and not in the other, at most one a cluster; none of `but`."""
    n, known = items.n_items, items.clusters >= 0  # type: ignore[operator]
    key = one.astype(np.int64) * (int(other.max(initial=0)) + 2) + other
    of_one = one[np.unique(np.where(known, key, -1), return_index=True)[1]]  # once for each part of each cluster
    mixed, parts = np.unique(of_one, return_counts=True)
    found: list[tuple[int, int]] = []
    for cluster in mixed[parts > 1].tolist():
        members = np.flatnonzero(known & (one == cluster))[:LARGEST]
        a, b = (members[side] for side in np.triu_indices(len(members), 1))
        fits = (other[a] != other[b]) & (items.groups[a] == items.groups[b]) & ~np.isin(a * n + b, but)
        if items.first_table is not None:
            fits &= (a < items.first_table) != (b < items.first_table)
        place = np.flatnonzero(fits)[:1]
        found += zip(a[place].tolist(), b[place].tolist(), strict=True)
        if len(found) >= FEW:
            break
    return found


def _told(pairs: int, wrong: int, right_after: int) -> str:
    if not wrong:
        return f"All {pairs:,} candidate pairs are decided rightly, each on its own."
    told = f"Of {pairs:,} candidate pairs {wrong:,} {'are' if wrong > 1 else 'is'} decided wrongly, each on its own"
    return f"{told}; clustering set {right_after:,} right."


def _after(unseen: int, refused: int, split: int, accepted: int, joined: int) -> str:
    missed = {
        "never candidates, as blocking left them out": unseen,
        "decided wrongly": refused,
        "accepted, but split by the clustering": split,
    }
    wrong = {"decided wrongly": accepted, "joined by way of others": joined}
    return f"After clustering {_sum('true pair', 'missed', missed)}, and {_sum('pair', 'wrongly together', wrong)}."


def _sum(what: str, word: str, parts: dict[str, int]) -> str:
    total = sum(parts.values())
    if not total:
        return f"no {what} is {word}"
    told = "; ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    return f"{total:,} {what}{'s are' if total > 1 else ' is'} {word} ({told})"


# -- What is taken for what: counts of true against predicted labels -----------------------------------

@dataclass(frozen=True, eq=False)
class Confusion:
    """`counts` (L, L): true labels down, predicted ones across. Rates run from 0 to 1; without a count they are 0."""

    labels: tuple[str, ...]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.counts) / max(self.total, 1))

    @property
    def precision(self) -> NDArray[np.float64]:
        return np.asarray(np.diag(self.counts) / np.maximum(self.counts.sum(axis=0), 1))

    @property
    def recall(self) -> NDArray[np.float64]:
        return np.asarray(np.diag(self.counts) / np.maximum(self.counts.sum(axis=1), 1))

    @property
    def f1(self) -> NDArray[np.float64]:
        """2 · right / (true + predicted)."""
        both = self.counts.sum(axis=0) + self.counts.sum(axis=1)
        return np.asarray(2 * np.diag(self.counts) / np.maximum(both, 1))

    def merged(self, names: Sequence[str]) -> Confusion:
        """Labels of the same name taken together, in the order they first appear; `names` has one a label."""
        if len(names) != len(self.labels):
            raise InputError(f"expected a name for each of {len(self.labels)} labels; got {len(names)}")
        kept = {name: i for i, name in enumerate(dict.fromkeys(names))}
        to = np.array([kept[name] for name in names], np.int64)
        counts = np.zeros((len(kept), len(kept)), np.int64)
        np.add.at(counts, (to[:, None], to[None, :]), self.counts)
        return Confusion(tuple(kept), counts)

    def largest(self, most: int, rest: str = "(rest)") -> Confusion:
        """The `most` labels that occur most often, true or predicted, in their order; the others as one."""
        if len(self.labels) <= most:
            return self
        size = self.counts.sum(axis=0) + self.counts.sum(axis=1)
        kept = set(np.argsort(-size, kind="stable")[: most - 1].tolist())
        order = sorted(range(len(self.labels)), key=lambda i: i not in kept)  # stable: the rest comes last
        moved = Confusion(tuple(self.labels[i] for i in order), self.counts[np.ix_(order, order)])
        return moved.merged([name if i in kept else rest for i, name in zip(order, moved.labels, strict=True)])

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain numbers, ready for JSON."""
        return {"labels": list(self.labels), "counts": self.counts.tolist()}


def confusion(truth: ArrayLike, predicted: ArrayLike, labels: Sequence[str]) -> Confusion:
    """From label numbers, one an instance; those whose truth is -1 (not known) are left out."""
    true, guess, n = np.asarray(truth), np.asarray(predicted), len(labels)
    if true.shape != guess.shape or true.ndim != 1:
        raise InputError(f"expected one predicted label a true one, {true.shape}; got {guess.shape}")
    known = true != -1
    true, guess = true[known].astype(np.int64), guess[known].astype(np.int64)
    for codes in (true, guess):
        if len(codes) and not 0 <= codes.min() <= codes.max() < n:
            raise InputError(f"expected labels numbered 0 to {n - 1}; got {codes.min()} to {codes.max()}")
    return Confusion(tuple(labels), np.bincount(true * n + guess, minlength=n * n).reshape(n, n))


# -- Whether probabilities can be believed: of the answers given with 80 %, are 80 % right? ------------
#
# Answers are sorted by probability and put into bins of equal counts. With n_b answers in bin b, their mean probability
# p̄_b and the share ȳ_b of them that came true:
#
#     expected calibration error   Σ_b n_b / n · |ȳ_b - p̄_b|
#     Brier score                  1/n Σ_i (p_i - y_i)²

BINS = 10
SLACK = 1e-4  # rounding may carry a probability this far beyond 0 or 1


@dataclass(frozen=True, eq=False)
class Calibration:
    """Bins from the least probable answers to the most, (B,) each; and two numbers for the whole, 0 being best."""

    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]
    predicted: NDArray[np.float64]  # the mean probability of a bin
    observed: NDArray[np.float64]  # the share that came true
    counts: NDArray[np.int64]
    error: float
    """Expected calibration error: by how much a probability is off, on average."""
    brier: float
    """Mean squared distance between probability and outcome."""

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain numbers, ready for JSON."""
        return {name: np.asarray(value).tolist() for name, value in vars(self).items()}


def calibration(probability: ArrayLike, came_true: ArrayLike, bins: int = BINS) -> Calibration:
    """Of n answers: the probability each was given, and whether it was right.

    Equal probabilities stay in one bin, so there may be fewer bins than asked for.
    """
    p, y = np.asarray(probability, np.float64), np.asarray(came_true, np.float64)
    if p.shape != y.shape or p.ndim != 1:
        raise InputError(f"expected a truth value for each probability, {p.shape}; got {y.shape}")
    if bins < 1:
        raise InputError(f"expected 1 bin or more; got {bins}")
    if len(p) and not (p.min() >= -SLACK and p.max() <= 1 + SLACK):  # also what is not a number
        raise InputError(f"expected probabilities from 0 to 1; they go from {p.min()} to {p.max()}")
    p = p.clip(0.0, 1.0)
    if not len(p):
        nothing = np.empty(0)
        return Calibration(nothing, nothing, nothing, nothing, np.empty(0, np.int64), 0.0, 0.0)
    order = np.argsort(p, kind="stable")
    p, y = p[order], y[order]
    starts = _bin_starts(p, bins)
    counts = np.diff(np.append(starts, len(p)))
    predicted, observed = (np.add.reduceat(values, starts) / counts for values in (p, y))
    error = float(counts @ np.abs(observed - predicted) / len(p))
    return Calibration(
        p[starts], p[starts + counts - 1], predicted, observed, counts, error, float(((p - y) ** 2).mean())
    )


def _bin_starts(ordered: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """Where the bins begin: after every n/B values, moved back to the first of those that are equal."""
    wanted = np.arange(bins) * len(ordered) // bins
    return np.unique(np.searchsorted(ordered, ordered[wanted], side="left")).astype(np.int64)


def brier_score(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Over several classes: mean over labelled instances of Σ_l (p_l - [l is the label])²; from 0 to 2.

    probabilities (n, L); labels (n,), -1 where not known, L for a class without a column
    """
    table, codes = np.asarray(probabilities, np.float64), np.asarray(labels)
    if table.ndim != 2 or codes.shape != (len(table),):
        raise InputError(f"expected a label for each row of probabilities, {table.shape}; got {codes.shape}")
    known = codes >= 0
    if not known.any():
        return 0.0
    table, codes = table[known], codes[known]
    among = codes < table.shape[1]
    of_label = table[np.flatnonzero(among), codes[among]]
    return float(((table**2).sum() - 2 * of_label.sum() + len(codes)) / len(codes))


# -- Scores, and the page about them: how good a model is on some data, whether it knows that, and where it errs ---

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
