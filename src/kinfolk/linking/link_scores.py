"""How good clusters of mentions or records are: the metrics by name, and all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import InputError, SettingError
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.metrics_coreference import b_cubed, ceaf_e, coreference_scores, lea, muc
from kinfolk.linking.pair_labels import PairLabels
from kinfolk.linking.scores import PairScores, cluster_scores, decision_scores, pair_scores

Array = NDArray[Any]


class Metric(Protocol):
    """How good clusters of the training items are; `kept` (n,): by these items alone."""

    def __call__(self, clusters: Array, kept: Array | None = None) -> float: ...


def pairs_after(items: Mentions, clusters: Array) -> PairScores:
    """Pairs put together, among all pairs of a group (candidates or not) with known truth; with two tables, only
    pairs across them."""
    truth, known = _truth(items)
    groups = items.groups[known]
    whole = pair_scores(truth[known], clusters[known], groups)
    if items.first_table is None:
        return whole
    first = np.arange(items.n_items)[known] < items.first_table
    parts = [pair_scores(truth[known][side], clusters[known][side]) for side in (first, ~first)]
    names = ("pairs", "true_positives", "false_positives", "false_negatives")
    return PairScores(*(getattr(whole, name) - sum(getattr(part, name) for part in parts) for name in names))


def pairs_before(items: Mentions, decided: Array) -> PairScores:
    """Decisions about the candidates; true pairs that are no candidates are missed."""
    labels = items.pair_labels
    known = labels >= 0
    missed = items.n_true_pairs - int((labels == 1).sum())
    return decision_scores(labels[known] == 1, decided[known], missed)


def labelled_pairs_after(labels: PairLabels, clusters: Array) -> PairScores:
    """Pairs put together, among those with a label."""
    return decision_scores(labels.match == 1, clusters[labels.left] == clusters[labels.right], 0)


def labelled_pairs_before(labels: PairLabels, items: Mentions, decided: Array) -> PairScores:
    """Decisions about pairs with a label; what is no candidate is not linked."""
    keys = items.right[decided].astype(np.int64) << 32 | items.left[decided]
    linked = np.isin(labels.right.astype(np.int64) << 32 | labels.left, keys)
    return decision_scores(labels.match == 1, linked, 0)


def _truth(items: Mentions) -> tuple[Array, NDArray[np.bool_]]:
    if not items.n_items:
        raise InputError("there are no items to score; is the table empty?")
    if items.clusters is None or not (items.clusters >= 0).any():
        remedy = "read them with cluster=... or truth=..., or give labelled pairs to evaluate, pairs=..."
        raise InputError(f"the items have no true clusters to compare with; {remedy}")
    return items.clusters, items.clusters >= 0


def _on_known(measure: Callable[..., Any]) -> Callable[[Mentions, Array], float]:
    def value(items: Mentions, clusters: Array) -> float:
        truth, known = _truth(items)
        return float(measure(truth[known], clusters[known], items.groups[known]).f1)

    return value


def _conll(items: Mentions, clusters: Array) -> float:
    return float(np.mean([METRICS[name](items, clusters) for name in ("muc_f1", "b_cubed_f1", "ceaf_e_f1")]))


# those that need the labels of pairs alone
METRICS_OF_PAIRS: dict[str, Callable[[PairScores], float]] = {
    "pair_f1": lambda scores: scores.f1,
    "pair_accuracy": lambda scores: 1.0 - scores.error,
}
# name -> (items, clusters) -> a number, the higher the better
METRICS: dict[str, Callable[[Mentions, Array], float]] = {
    **{
        name: lambda items, clusters, value=value: value(pairs_after(items, clusters))  # type: ignore[misc]
        for name, value in METRICS_OF_PAIRS.items()
    },
    "muc_f1": _on_known(muc),
    "b_cubed_f1": _on_known(b_cubed),
    "ceaf_e_f1": _on_known(ceaf_e),
    "lea_f1": _on_known(lea),
    "cluster_f1": _on_known(cluster_scores),
    "conll_f1": _conll,
}


def metric(name: str) -> Callable[[Mentions, Array], float]:
    if name not in METRICS:
        raise SettingError(f"no metric {name!r}; there are {', '.join(METRICS)}")
    return METRICS[name]


def all_scores(items: Mentions, clusters: Array, decided: Array | None = None) -> dict[str, dict[str, float]]:
    """Every metric as recall, precision and F1; `decided` (P,) are the decisions before clustering."""
    truth, known = _truth(items)
    found = {} if decided is None else {"pairs before": pairs_before(items, decided).as_dict()}
    found["pairs"] = pairs_after(items, clusters).as_dict()
    key, response, groups = truth[known], clusters[known], items.groups[known]
    found["clusters"] = cluster_scores(key, response, groups).as_dict()
    if items.first_table is None:
        found.update(coreference_scores(key, response, groups).as_dict())
    return found


def labelled_scores(
    labels: PairLabels, items: Mentions, clusters: Array, decided: Array
) -> dict[str, dict[str, float]]:
    """Recall, precision and F1 of labelled pairs, decided one by one and after clustering."""
    before, after = labelled_pairs_before(labels, items, decided), labelled_pairs_after(labels, clusters)
    return {"pairs before": before.as_dict(), "pairs": after.as_dict()}
