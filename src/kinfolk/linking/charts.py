"""Parts of a page about a linker and the items it is asked about, with or without truth: what the columns hold, what
blocking keeps, what each level of each comparison weighs, what a threshold would do, how large clusters are.

Everything is counted into tables of bounded size, so that the page of a million records opens as fast as that of ten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.linking.blocking import BlockingReport
from kinfolk.linking.description import comparisons, source_in_words
from kinfolk.linking.explain import short
from kinfolk.linking.mentions import Attribute, Mentions, pair_keys
from kinfolk.linking.page import Linked
from kinfolk.linking.pair_labels import PairLabels
from kinfolk.linking.scores import pairs_after
from kinfolk.linking.training import at_threshold
from kinfolk.report.page import Part, PathLike, write_report
from kinfolk.report.training import training_part

Array = NDArray[Any]
MOST_COMPARISONS, MOST_LEVELS = 80, 40
MOST_COLUMNS, TOP_VALUES, LETTERS = 60, 6, 60
BINS = 20
SIZES = (1, 2, 3, 4, 5, 10, 20, 50, 100)  # where groups of sizes of clusters begin
TRIED = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # thresholds that clusters are made at
MOST_CLUSTERED = 2_000_000  # pairs up to which they are
GRID = np.arange(100) / 100


def write_linker_report(
    linker: Any,
    linked: Linked,
    blocking: BlockingReport | None,
    path: PathLike,
    most: int = 20,
    labels: PairLabels | None = None,
) -> None:
    """What `Linker.report` writes; rates are measured by `labels`, or by true clusters."""
    items = linked.items
    kind = "records" if items.corpus is None else f"mentions in {items.n_groups:,} documents"
    about = f"{items.n_items:,} {kind}, {items.n_pairs:,} pairs compared, {linked.n_clusters:,} clusters."
    about += f" The model was learned from {source_in_words(linker.learned_from_)}."
    parts = [records_part(linked)]
    if blocking is not None:
        parts.append(blocking_part(blocking))
    parts += [weights_part(linker), thresholds_part(linked, labels)]
    if linked.n_clusters and most:
        parts.append(Part("links", "Clusters", linked.payload(most)))
    trained = training_part(linker)
    write_report(
        path, f"{type(linker).__name__} on {items.n_items:,} {kind}", [*parts, *([trained] if trained else [])], about
    )


# -- what the items hold ------------------------------------------------------------------------------


def records_part(linked: Linked) -> Part:
    """Columns, candidate pairs by probability, clusters by size."""
    items, p = linked.items, linked.probability
    sizes = np.bincount(linked.clusters) if items.n_items else np.zeros(0, np.int64)
    expected = float(p.sum())
    tiles = [
        ["items", items.n_items, "in one table" if items.first_table is None else _sides(items)],
        ["pairs compared", items.n_pairs, f"of {items.n_possible_pairs:,} there are"],
        ["expected matches", round(expected, 1), "the sum of the probabilities of these pairs"],
        ["clusters", len(sizes), f"{int((sizes > 1).sum()):,} of two or more, the largest of {sizes.max(initial=0):,}"],
    ]
    columns = [column_facts(name, column) for name, column in list(items.columns.items())[:MOST_COLUMNS]]
    data = {
        "tiles": tiles,
        "columns": columns,
        "more_columns": max(len(items.columns) - MOST_COLUMNS, 0),
        "probabilities": probability_bins(p),
        "sizes": size_groups(sizes),
        "threshold": linked.threshold,
    }
    return Part("records", "Records" if items.corpus is None else "Mentions", data)


def _sides(items: Mentions) -> str:
    first = items.first_table or 0
    return f"{first:,} in the first table, {items.n_items - first:,} in the second"


def column_facts(name: str, column: Attribute) -> dict[str, Any]:
    """Completeness, distinct values, and the values most items have, or of numbers the least, the median, the most."""
    n = len(column)
    if isinstance(column, Column):
        counts = np.bincount(column.codes[column.codes >= 0], minlength=len(column.values))
        known, distinct = int(counts.sum()), int((counts > 0).sum())
        order = np.lexsort((np.arange(len(counts)), -counts))[:TOP_VALUES]
        top = [[short(str(column.values[k]), LETTERS), int(counts[k])] for k in order.tolist() if counts[k]]
        return {"name": name, "known": known, "n": n, "distinct": distinct, "top": top, "range": None}
    there = column[~np.isnan(column)]
    distinct = len(np.unique(there))
    spread = [float(np.min(there)), float(np.median(there)), float(np.max(there))] if len(there) else None
    return {"name": name, "known": len(there), "n": n, "distinct": distinct, "top": [], "range": spread}


def probability_bins(probability: Array) -> list[list[float]]:
    """[from, to, pairs, their expected matches] of bins of equal width."""
    place = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    totals = np.bincount(place, probability, minlength=BINS)
    return [[k / BINS, (k + 1) / BINS, int(counts[k]), float(totals[k])] for k in range(BINS)]


def size_groups(sizes: Array) -> list[list[Any]]:
    """[sizes in words, clusters, items in them], those that are there and all smaller ones."""
    group = np.searchsorted(SIZES, sizes, side="right") - 1
    clusters = np.bincount(group, minlength=len(SIZES))
    items = np.bincount(group, sizes, minlength=len(SIZES))
    ends = [end - 1 for end in SIZES[1:]]
    words = [f"{a}" if a == b else f"{a} to {b}" for a, b in zip(SIZES, ends, strict=False)] + [f"{SIZES[-1]} or more"]
    last = int(np.flatnonzero(clusters)[-1]) + 1 if clusters.any() else 0
    return [[words[k], int(clusters[k]), int(items[k])] for k in range(last)]


# -- blocking -----------------------------------------------------------------------------------------


def blocking_part(report: BlockingReport) -> Part:
    """Each rule, and all of them: the pairs it brings together, and how many of the true ones, where they are known."""
    rules = [*report.rules, report.union]
    rows = [{"rule": one.rule, "pairs": one.n_pairs, "true": one.n_true} for one in rules]
    data = {"rules": rows, "possible": report.n_possible, "matches": report.n_matches}
    return Part("blocking", "Blocking", data)


# -- weights ------------------------------------------------------------------------------------------


def weights_part(linker: Any) -> Part:
    """Every level of every comparison; those that can move a pair most come first."""
    told = comparisons(linker)

    def reach(one: dict[str, Any]) -> float:
        moved = [level["difference"] for level in one["levels"] if level["share"] > 0]
        return max(moved, default=0.0) - min(moved, default=0.0)

    order = sorted(range(len(told)), key=lambda k: -reach(told[k]))
    shown = [
        {
            "name": told[k]["name"],
            "levels": [[v["level"], v["difference"], v["weight"], v["share"]] for v in told[k]["levels"][:MOST_LEVELS]],
            "more": max(len(told[k]["levels"]) - MOST_LEVELS, 0),
        }
        for k in order[:MOST_COMPARISONS]
    ]
    base = float((linker.weights_ * linker.shares_).sum())
    data = {"comparisons": shown, "base": base, "more": max(len(told) - MOST_COMPARISONS, 0)}
    return Part("weights", "Match weights", {**data, "conjunctions": len(linker.pair_set_.joined)})


# -- thresholds ---------------------------------------------------------------------------------------


class Rates(NamedTuple):
    """At each threshold, pairs above it being linked: precision (NaN: none is), recall (NaN: nothing to find)."""

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    linked: NDArray[np.int64]


def rates(probability: Array, true: Array, missed: float, thresholds: Array) -> Rates:
    """`true`: how true each pair is: 1 or 0 where it is known, its probability where it is expected. `missed`: how many
    true ones are not among the pairs."""
    order = np.argsort(probability, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(np.asarray(true, np.float64)[order])])
    below = np.searchsorted(probability[order], thresholds, side="right")
    found, linked = sums[-1] - sums[below], len(order) - below
    whole = sums[-1] + missed
    with np.errstate(invalid="ignore", divide="ignore"):
        precision = np.where(linked > 0, found / linked, np.nan)
        recall = np.full(len(below), np.nan) if whole == 0 else found / whole
    return Rates(precision, recall, linked)


def thresholds_part(linked: Linked, labels: PairLabels | None = None) -> Part:
    """What pairs would be linked, expected and, with truth or labels, measured; and clusters by size at thresholds."""
    expected = rates(linked.probability, linked.probability, 0.0, GRID)
    curves = {"expected": _curve(expected)}
    truth = _of_clusters(linked) if labels is None else _of_labels(linked, labels)
    if truth is not None:
        curves["measured"] = _curve(rates(*truth, GRID))
    data = {
        "thresholds": GRID,
        "pairs": expected.linked,
        "curves": curves,
        "labelled": None if labels is None else len(labels),
        "chosen": linked.threshold,
        "clusterer": type(linked.linker.clusterer_).__name__,
        "clusters": clusters_by_threshold(linked),
    }
    return Part("thresholds", "Thresholds", data)


def _of_clusters(linked: Linked) -> tuple[Array, Array, int] | None:
    """Probabilities of the pairs whose truth is known, that truth, and how many true pairs were not compared."""
    items = linked.items
    labels = items.pair_labels
    known = labels >= 0
    if items.clusters is None or not known.any():
        return None
    return linked.probability[known], labels[known], items.n_true_pairs - int((labels == 1).sum())


def _of_labels(linked: Linked, labels: PairLabels) -> tuple[Array, Array, int]:
    """The same of labelled pairs; one that was not compared is not linked."""
    keys, wanted = pair_keys(linked.items.left, linked.items.right), pair_keys(labels.left, labels.right)
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    there = keys[at] == wanted if len(keys) else np.zeros(len(wanted), bool)
    return linked.probability[at[there]], labels.match[there], int((labels.match[~there] == 1).sum())


def _curve(found: Rates) -> dict[str, Any]:
    return {"precision": found.precision, "recall": found.recall}


def clusters_by_threshold(linked: Linked) -> list[dict[str, Any]]:
    """[{threshold, clusters, sizes, largest, precision, recall, f1}]: the same probabilities clustered at other
    thresholds; of very many pairs, or of shares of antecedents, at the model's own alone."""
    items, clusterer = linked.items, linked.linker.clusterer_
    many = items.n_pairs > MOST_CLUSTERED or clusterer.of_shares
    tried = sorted({linked.threshold, *(() if many else TRIED)})
    found = []
    for threshold in tried:
        if threshold == linked.threshold:
            clusters = linked.clusters
        else:
            other = at_threshold(clusterer, threshold)
            given = linked.must, linked.cannot, items.first_table
            clusters = other.cluster(items.n_items, items.left, items.right, linked.probability, *given)
        found.append({"threshold": threshold, **_sized(items, clusters)})
    return found


def _sized(items: Mentions, clusters: Array) -> dict[str, Any]:
    sizes = np.bincount(clusters) if len(clusters) else np.zeros(0, np.int64)
    told = {"clusters": len(sizes), "largest": int(sizes.max(initial=0)), "sizes": [g[1] for g in size_groups(sizes)]}
    if items.clusters is None or not (items.clusters >= 0).any():
        return told
    scores = pairs_after(items, clusters)
    return {**told, "precision": scores.precision, "recall": scores.recall, "f1": scores.f1}
