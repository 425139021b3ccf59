"""Clusterings compared: by pairs, by whole clusters, and what blocking keeps. Rates are fractions from 0 to 1.

Two clusterings come as `key` (the truth) and `response`: integer arrays with a cell for every mention, or record,
of either side. A number >= 0 is a cluster; -1 says that the mention does not exist on that side. `groups` gives
every mention its document: clusters never cross documents, and two documents may use the same numbers. All
counts are added over documents before a rate is taken. A mention that exists on neither side is left out.

Everything is read off the contingency table, which lists only clusters that share a mention: a million mentions
cost some sorting, never a pass over pairs. A rate with a zero denominator is 0, as in the official CoNLL scorer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.errors import InputError, SettingError
from kinfolk.linking.chains import connected
from kinfolk.linking.mentions import Mentions, pair_keys
from kinfolk.linking.pair_labels import PairLabels

ABSENT = -1

Array = NDArray[Any]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Score:
    """Recall, precision and F1; with (numerator, denominator) of the first two where they are plain ratios."""

    recall: float
    precision: float
    f1: float
    recall_ratio: tuple[float, float] | None = None
    precision_ratio: tuple[float, float] | None = None

    @classmethod
    def from_ratios(cls, recall: tuple[float, float], precision: tuple[float, float]) -> Score:
        """The rates of two ratios; F1 = 2 P R / (P + R)."""
        r, p = ratio(*recall), ratio(*precision)
        return cls(r, p, ratio(2 * r * p, r + p), recall, precision)

    def as_dict(self) -> dict[str, float]:
        return {"recall": self.recall, "precision": self.precision, "f1": self.f1}


@dataclass(frozen=True)
class PairScores:
    """How many pairs there are, and how many were linked rightly, linked wrongly and missed; and the rates."""

    pairs: int
    true_positives: int
    false_positives: int
    false_negatives: int

    @property
    def error(self) -> float:
        """Share of all pairs that are linked wrongly or missed."""
        return ratio(self.false_positives + self.false_negatives, self.pairs)

    @property
    def precision(self) -> float:
        return ratio(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float:
        return ratio(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def f1(self) -> float:
        """2 TP / (2 TP + FP + FN)."""
        right = 2 * self.true_positives
        return ratio(right, right + self.false_positives + self.false_negatives)

    def as_dict(self) -> dict[str, Any]:
        rates = {name: getattr(self, name) for name in ("error", "recall", "precision", "f1")}
        counts = ("pairs", "true_positives", "false_positives", "false_negatives")
        return {**rates, **{name: getattr(self, name) for name in counts}}


@dataclass(frozen=True)
class Contingency:
    """Sizes of the clusters of both sides and of their overlaps, and mentions in each document.

    Clusters are numbered over all documents. Overlap i is that of key cluster `overlap_key[i]` with response cluster
    `overlap_response[i]`: `overlaps[i]` mentions, never none.
    """

    key_sizes: Ints
    response_sizes: Ints
    overlap_key: Ints
    overlap_response: Ints
    overlaps: Ints
    key_in_group: Ints
    response_in_group: Ints
    shared_in_group: Ints
    """Mentions of each document that exist on both sides."""
    all_in_group: Ints
    """Mentions of each document that exist on either side."""

    @property
    def key_of_overlap(self) -> Ints:
        """Sizes of the key clusters of the overlaps."""
        return self.key_sizes[self.overlap_key]

    @property
    def response_of_overlap(self) -> Ints:
        return self.response_sizes[self.overlap_response]

    @property
    def mentions(self) -> tuple[int, int, int]:
        """Mentions of both sides, of the key, of the response."""
        return int(self.overlaps.sum()), int(self.key_sizes.sum()), int(self.response_sizes.sum())


def compare(key: ArrayLike, response: ArrayLike, groups: ArrayLike | None = None) -> Contingency:
    """The contingency table of two clusterings of the same mentions."""
    first, second = (_whole_numbers(ids, name) for ids, name in ((key, "key"), (response, "response")))
    group = np.zeros(len(first), np.int64) if groups is None else _whole_numbers(groups, "groups")
    if not len(first) == len(second) == len(group):
        lengths = f"{len(first)}, {len(second)} and {len(group)}"
        raise InputError(f"key, response and groups must have a cell for every mention of either side; got {lengths}")
    for ids, name in ((first, "key"), (second, "response")):
        if len(ids) and ids.min() < ABSENT:
            raise InputError(f"{name} must hold clusters from 0 on, or {ABSENT} for no such mention; got {ids.min()}")
    names, group = np.unique(group, return_inverse=True)
    in_key, in_response = first != ABSENT, second != ABSENT
    both = in_key & in_response
    key_cluster, key_sizes = _numbered(group, first, in_key)
    response_cluster, response_sizes = _numbered(group, second, in_response)
    cells, overlaps = np.unique(key_cluster[both] * len(response_sizes) + response_cluster[both], return_counts=True)
    key_in, response_in, shared_in, all_in = (
        np.bincount(group[kept], minlength=len(names)) for kept in (in_key, in_response, both, in_key | in_response)
    )
    overlap_key, overlap_response = np.divmod(cells, max(len(response_sizes), 1))
    return Contingency(
        key_sizes, response_sizes, overlap_key, overlap_response, overlaps, key_in, response_in, shared_in, all_in
    )


def pair_scores(table: Contingency) -> PairScores:
    """Pairs in one cluster of the response against pairs in one cluster of the key; both sides link those in overlaps.

    `error` is over all pairs of mentions within documents. A mention that one side lacks is linked to nobody there.
    """
    right = pairs_within(table.overlaps)
    wrong, missed = (pairs_within(sizes) - right for sizes in (table.response_sizes, table.key_sizes))
    return PairScores(pairs_within(table.all_in_group), right, wrong, missed)


def decision_scores(truth: ArrayLike, decided: ArrayLike, missed: int = 0) -> PairScores:
    """Decisions on candidate pairs, before any clustering: `truth` and `decided` hold a boolean a candidate.

    missed   true pairs that are not candidates: false negatives; `error` is over candidates and missed pairs
    """
    true, linked = np.asarray(truth), np.asarray(decided)
    if true.shape != linked.shape or true.ndim != 1:
        raise InputError(f"expected one decision a candidate pair, {true.shape}; got {linked.shape}")
    if any(len(flags) and flags.dtype != np.bool_ for flags in (true, linked)):
        raise InputError(f"truth and decided must hold booleans; got {true.dtype} and {linked.dtype}")
    true, linked = true.astype(np.bool_), linked.astype(np.bool_)
    right, n_true, n_linked = (int(np.count_nonzero(flags)) for flags in (true & linked, true, linked))
    return PairScores(len(true) + missed, right, n_linked - right, n_true - right + missed)


def cluster_scores(table: Contingency, smallest: int = 1) -> Score:
    """Whole clusters of `smallest` mentions or more: one is right when the other side has exactly the same, that is
    when an overlap is all of either."""
    whole = (table.overlaps == table.key_of_overlap) & (table.overlaps == table.response_of_overlap)
    right = int(np.count_nonzero(whole & (table.overlaps >= smallest)))
    in_key, in_response = (int(np.count_nonzero(s >= smallest)) for s in (table.key_sizes, table.response_sizes))
    return Score.from_ratios((right, in_key), (right, in_response))


def pairs_within(sizes: Ints) -> int:
    """Pairs of mentions within parts of these sizes: Σ n (n - 1) / 2."""
    return int((sizes * (sizes - 1) // 2).sum())


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _whole_numbers(values: ArrayLike, name: str) -> Ints:
    array = np.asarray(values)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        raise InputError(f"{name} must be a row of whole numbers; got {array.dtype} of shape {array.shape}")
    return array.astype(np.int64)


def _numbered(group: Ints, ids: Ints, present: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Clusters numbered over all documents, -1 for mentions that are absent; and their sizes."""
    names, local = np.unique(ids[present], return_inverse=True)
    _, cluster, sizes = np.unique(group[present] * len(names) + local, return_inverse=True, return_counts=True)
    numbers = np.full(len(ids), ABSENT, np.int64)
    numbers[present] = cluster
    return numbers, sizes


# -- The metrics of coreference: MUC, B³, CEAF, BLANC, LEA and the CoNLL average. Rates are fractions from 0 to 1 ---
#
# They are those of the official CoNLL scorer, v8.01 (Pradhan et al. 2014), which takes predicted mentions as they are:
# a mention that one side lacks is not added there. A rate with a zero denominator is 0, so MUC of two clusterings
# without any link is 0, and so is BLANC of a single mention. Formulas give the recall, with K and R clusters of key and
# response and |K ∩ R| the mentions they share; the precision swaps key and response.

# A component with more pairs of clusters than this is matched as a sparse graph, which is quicker from there on and
# needs no matrix: 8 MB here, 13 GB for 40 thousand clusters a side.
LARGEST_MATRIX = 2**20


@dataclass(frozen=True)
class CoreferenceScores:
    """Every metric of one comparison."""

    mentions: Score
    """Mentions of one side that the other has too, whatever their clusters."""
    muc: Score
    b_cubed: Score
    ceaf_m: Score
    ceaf_e: Score
    blanc: Score
    lea: Score
    clusters: Score
    """Clusters that are the same on both sides, singletons among them."""
    pairs: PairScores

    @property
    def conll(self) -> float:
        """The CoNLL average: the mean F1 of MUC, B³ and CEAF-e."""
        return (self.muc.f1 + self.b_cubed.f1 + self.ceaf_e.f1) / 3

    def rows(self) -> Iterator[tuple[str, float, float, float]]:
        """Name, recall, precision and F1 of each metric."""
        for name in ("mentions", "muc", "b_cubed", "ceaf_m", "ceaf_e", "blanc", "lea", "clusters", "pairs"):
            score: Score | PairScores = getattr(self, name)
            yield name, score.recall, score.precision, score.f1

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain numbers, ready for JSON."""
        return {"conll": self.conll, **{name: getattr(self, name).as_dict() for name, *_ in self.rows()}}

    def table(self) -> str:
        """The metrics in percent, one a line, the CoNLL average last."""
        lines = [f"{'':>9}  recall  precision      F1"]
        lines += [f"{name:>9}  {100 * r:6.2f}  {100 * p:9.2f}  {100 * f:6.2f}" for name, r, p, f in self.rows()]
        return "\n".join([*lines, f"{'conll':>9}  {100 * self.conll:25.2f}"])


def coreference_scores(key: ArrayLike, response: ArrayLike, groups: ArrayLike | None = None) -> CoreferenceScores:
    """All metrics of a response against the key."""
    table = compare(key, response, groups)
    shared, in_key, in_response = table.mentions
    mentions = Score.from_ratios((shared, in_key), (shared, in_response))
    of_links = muc(table), b_cubed(table), ceaf_m(table), ceaf_e(table), blanc(table), lea(table)
    return CoreferenceScores(mentions, *of_links, cluster_scores(table), pair_scores(table))


def muc(table: Contingency) -> Score:
    """Σ_K (|K| - parts of K) / Σ_K (|K| - 1), where the response cuts K into parts and a mention it lacks is a part of
    its own (Vilain et al. 1995). Singletons do not count.

    Parts of K are its overlaps and its absent mentions: |K| - parts = Σ_R (|K ∩ R| - 1), alike from either side.
    """
    shared, in_key, in_response = table.mentions
    links = shared - len(table.overlaps)
    return Score.from_ratios((links, in_key - len(table.key_sizes)), (links, in_response - len(table.response_sizes)))


def b_cubed(table: Contingency) -> Score:
    """Σ_K Σ_R (|K ∩ R|² / |K|) / Σ_K |K| (Bagga and Baldwin 1998)."""
    squares = table.overlaps.astype(np.float64) ** 2
    recalled, precise = (float((squares / s).sum()) for s in (table.key_of_overlap, table.response_of_overlap))
    return Score.from_ratios((recalled, table.mentions[1]), (precise, table.mentions[2]))


def ceaf_m(table: Contingency) -> Score:
    """Σ |K ∩ R| of the best one-to-one matching of clusters, divided by the mentions of the key (Luo 2005, φ₃)."""
    matched = _best_matching(table, table.overlaps.astype(np.float64))
    return Score.from_ratios((matched, table.mentions[1]), (matched, table.mentions[2]))


def ceaf_e(table: Contingency) -> Score:
    """Σ 2 |K ∩ R| / (|K| + |R|) of the best one-to-one matching, divided by the clusters of the key (Luo 2005, φ₄)."""
    matched = _best_matching(table, 2 * table.overlaps / (table.key_of_overlap + table.response_of_overlap))
    return Score.from_ratios((matched, len(table.key_sizes)), (matched, len(table.response_sizes)))


def blanc(table: Contingency) -> Score:
    """The mean over two kinds of links, coreferent and not, of recall, precision and F1 (Luo et al. 2014).

    A link is a pair of mentions that both exist on a side. Where the key has links of one kind only, that kind alone
    counts, whatever the response has; where it has none, all is 0. So swapping the sides swaps recall and
    precision only where both have links of both kinds.
    """
    shared_by_key = np.bincount(table.overlap_key, table.overlaps).astype(np.int64)
    shared_by_response = np.bincount(table.overlap_response, table.overlaps).astype(np.int64)
    # Pairs of shared mentions that neither side links: all, less those of one side, less those of the other, and
    # those of both once more, as they were taken away twice.
    linked_by_both = pairs_within(table.overlaps)
    linked_by_one = pairs_within(shared_by_key) + pairs_within(shared_by_response)
    apart_in_both = pairs_within(table.shared_in_group) - linked_by_one + linked_by_both
    linked_in_key, linked_in_response = pairs_within(table.key_sizes), pairs_within(table.response_sizes)
    apart_in_key = pairs_within(table.key_in_group) - linked_in_key
    apart_in_response = pairs_within(table.response_in_group) - linked_in_response
    linked = Score.from_ratios((linked_by_both, linked_in_key), (linked_by_both, linked_in_response))
    apart = Score.from_ratios((apart_in_both, apart_in_key), (apart_in_both, apart_in_response))
    kinds = [kind for kind, in_key in ((linked, linked_in_key), (apart, apart_in_key)) if in_key]
    if not kinds:
        return Score(0.0, 0.0, 0.0)
    return Score(*np.mean([(kind.recall, kind.precision, kind.f1) for kind in kinds], axis=0).tolist())


def lea(table: Contingency) -> Score:
    """Σ_K |K| · (links of K that the response has / links of K) / Σ_K |K| (Moosavi and Strube 2016).

    A singleton has one link, to itself; the response has it when the mention is a singleton there too.
    """
    sides = table.key_of_overlap, table.response_of_overlap
    links = np.where((sides[0] == 1) & (sides[1] == 1), 1, table.overlaps * (table.overlaps - 1) // 2)
    # |K| links / (|K| (|K| - 1) / 2) = 2 links / (|K| - 1) for two mentions or more; for one, |K| links / 1 = links
    recalled, precise = (
        float(np.where(sizes == 1, links, 2 * links / np.maximum(sizes - 1, 1)).sum()) for sizes in sides
    )
    return Score.from_ratios((recalled, table.mentions[1]), (precise, table.mentions[2]))


def _best_matching(table: Contingency, similarity: Array) -> float:
    """The largest total similarity of a one-to-one matching of key clusters to response clusters.

    Clusters without common mentions add nothing, so each connected component of the overlaps, which lies within one
    document, is matched for itself (SciPy's sparse matching of the whole takes 1.7 s where this takes 0.1, with 100,000
    mentions in 20,000 clusters and one in ten astray). Where one side has a single cluster the best overlap wins.
    """
    if not len(similarity):
        return 0.0
    n_key, n_all = len(table.key_sizes), len(table.key_sizes) + len(table.response_sizes)
    component = connected(table.overlap_key, n_key + table.overlap_response, n_all)
    n_components = int(component.max()) + 1
    key_place, keys_in = _places(component[:n_key], n_components)
    response_place, responses_in = _places(component[n_key:], n_components)
    of_overlap = component[table.overlap_key]
    order = np.argsort(of_overlap, kind="stable")
    filled, starts = np.unique(of_overlap[order], return_index=True)
    best = np.maximum.reduceat(similarity[order], starts)
    for i in np.flatnonzero((keys_in[filled] > 1) & (responses_in[filled] > 1)):
        cells = order[starts[i] : starts[i + 1] if i + 1 < len(starts) else None]
        rows, columns = key_place[table.overlap_key[cells]], response_place[table.overlap_response[cells]]
        best[i] = _matched(rows, columns, similarity[cells], int(keys_in[filled[i]]), int(responses_in[filled[i]]))
    return float(best.sum())


def _places(component: Array, n_components: int) -> tuple[Ints, Ints]:
    """The place of each cluster among those of its component, and how many each component has."""
    counts = np.bincount(component, minlength=n_components)
    order = np.argsort(component, kind="stable")
    place = np.empty(len(component), np.int64)
    place[order] = np.arange(len(component)) - np.repeat(np.cumsum(counts) - counts, counts)
    return place, counts


def _matched(rows: Ints, columns: Ints, similarity: Array, n_rows: int, n_columns: int) -> float:
    """The best matching of one component."""
    from scipy.optimize import linear_sum_assignment
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    if n_rows * n_columns <= LARGEST_MATRIX:
        matrix = np.zeros((n_rows, n_columns))
        matrix[rows, columns] = similarity
        return float(matrix[linear_sum_assignment(matrix, maximize=True)].sum())
    # Every row must be matched, so each gets a column of its own that is worth nothing. An edge of weight 0 would be
    # no edge: 1 is added to all, and taken away again from the one edge of each row.
    every = np.arange(n_rows)
    weights = np.concatenate([1 + similarity, np.ones(n_rows)])
    places = np.concatenate([rows, every]), np.concatenate([columns, n_columns + every])
    where = tuple(place.astype(np.int32) for place in places)  # older versions of SciPy match no other
    padded = csr_array((weights, where), shape=(n_rows, n_columns + n_rows))
    chosen = min_weight_full_bipartite_matching(padded, maximize=True)
    return float((padded[chosen] - 1).sum())


# -- How good clusters of mentions or records are: the metrics by name, and all of them at once --------


class Metric(Protocol):
    """How good clusters of the training items are; `kept` (n,): by these items alone."""

    def __call__(self, clusters: Array, kept: Array | None = None) -> float: ...


def pairs_after(items: Mentions, clusters: Array) -> PairScores:
    """Pairs put together, among all pairs of a group (candidates or not) with known truth; with two tables, only
    pairs across them."""
    truth, known = _truth(items)
    groups = items.groups[known]
    whole = pair_scores(compare(truth[known], clusters[known], groups))
    if items.first_table is None:
        return whole
    first = np.arange(items.n_items)[known] < items.first_table
    parts = [pair_scores(compare(truth[known][side], clusters[known][side])) for side in (first, ~first)]
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
    return decision_scores(labels.match == 1, clusters[labels.left] == clusters[labels.right])


def _truth(items: Mentions) -> tuple[Array, NDArray[np.bool_]]:
    if not items.n_items:
        raise InputError("there are no items to score; is the table empty?")
    if items.clusters is None or not (items.clusters >= 0).any():
        remedy = "read them with `cluster=...` or `truth=...`, or give labelled pairs to evaluate, `pairs=...`"
        raise InputError(f"the items have no true clusters to compare with; {remedy}")
    return items.clusters, items.clusters >= 0


def _compared(items: Mentions, clusters: Array) -> Contingency:
    truth, known = _truth(items)
    return compare(truth[known], clusters[known], items.groups[known])


def _mean_f1(*measures: Callable[[Contingency], Score]) -> Callable[[Mentions, Array], float]:
    def value(items: Mentions, clusters: Array) -> float:
        table = _compared(items, clusters)
        return float(np.mean([measure(table).f1 for measure in measures]))

    return value


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
    "muc_f1": _mean_f1(muc),
    "b_cubed_f1": _mean_f1(b_cubed),
    "ceaf_e_f1": _mean_f1(ceaf_e),
    "lea_f1": _mean_f1(lea),
    "cluster_f1": _mean_f1(cluster_scores),
    "conll_f1": _mean_f1(muc, b_cubed, ceaf_e),
}


def metric(name: str) -> Callable[[Mentions, Array], float]:
    if name not in METRICS:
        raise SettingError.saying(f"no metric {name!r}; there are {', '.join(METRICS)}")
    return METRICS[name]


def all_scores(items: Mentions, clusters: Array, decided: Array | None = None) -> dict[str, dict[str, float]]:
    """Every metric as recall, precision and F1; `decided` (P,) are the decisions before clustering."""
    truth, known = _truth(items)
    found = {} if decided is None else {"pairs before": pairs_before(items, decided).as_dict()}
    found["pairs"] = pairs_after(items, clusters).as_dict()
    found["clusters"] = cluster_scores(_compared(items, clusters)).as_dict()
    if items.first_table is None:
        found.update(coreference_scores(truth[known], clusters[known], items.groups[known]).as_dict())
    return found


def labelled_scores(
    labels: PairLabels, items: Mentions, clusters: Array, decided: Array
) -> dict[str, dict[str, float]]:
    """Recall, precision and F1 of labelled pairs, decided one by one and after clustering."""
    # what is no candidate is not linked
    linked = np.isin(pair_keys(labels.left, labels.right), pair_keys(items.left[decided], items.right[decided]))
    before, after = decision_scores(labels.match == 1, linked), labelled_pairs_after(labels, clusters)
    return {"pairs before": before.as_dict(), "pairs": after.as_dict()}
