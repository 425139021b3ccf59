"""The metrics of coreference: MUC, B³, CEAF, BLANC, LEA and the CoNLL average. Rates are fractions from 0 to 1.

They are those of the official CoNLL scorer, v8.01 (Pradhan et al. 2014), which takes predicted mentions as they are:
a mention that one side lacks is not added there. Arrays are those of `kinfolk.linking.scores`, and numerators and
denominators are added over documents. A rate with a zero denominator is 0, so MUC of two clusterings without any
link is 0, and so is BLANC of a single mention. Formulas give the recall; the precision swaps key and response.
Below, K and R are clusters of key and response, and |K ∩ R| counts mentions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.linking.scores import (
    Contingency,
    Ints,
    PairScores,
    Score,
    compare,
    exact_clusters,
    linked_pairs,
    pairs_within,
)

Floats = NDArray[np.float64]

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
    shared, in_key, in_response = _mention_counts(table)
    return CoreferenceScores(
        mentions=Score.from_ratios((shared, in_key), (shared, in_response)),
        muc=_muc(table),
        b_cubed=_b_cubed(table),
        ceaf_m=_ceaf_m(table),
        ceaf_e=_ceaf_e(table),
        blanc=_blanc(table),
        lea=_lea(table),
        clusters=exact_clusters(table),
        pairs=linked_pairs(table),
    )


def muc(key: ArrayLike, response: ArrayLike, groups: ArrayLike | None = None) -> Score:
    """Σ_K (|K| - parts of K) / Σ_K (|K| - 1), where the response cuts K into parts and a mention it lacks is a part of
    its own (Vilain et al. 1995). Singletons do not count."""
    return _muc(compare(key, response, groups))


def b_cubed(key: ArrayLike, response: ArrayLike, groups: ArrayLike | None = None) -> Score:
    """Σ_K Σ_R (|K ∩ R|² / |K|) / Σ_K |K| (Bagga and Baldwin 1998)."""
    return _b_cubed(compare(key, response, groups))


def ceaf_m(key: ArrayLike, response: ArrayLike, groups: ArrayLike | None = None) -> Score:
    """Σ |K ∩ R| of the best one-to-one matching of clusters, divided by the mentions of the key (Luo 2005, φ₃)."""
    return _ceaf_m(compare(key, response, groups))


def ceaf_e(key: ArrayLike, response: ArrayLike, groups: ArrayLike | None = None) -> Score:
    """Σ 2 |K ∩ R| / (|K| + |R|) of the best one-to-one matching, divided by the clusters of the key (Luo 2005, φ₄)."""
    return _ceaf_e(compare(key, response, groups))


def blanc(key: ArrayLike, response: ArrayLike, groups: ArrayLike | None = None) -> Score:
    """The mean over two kinds of links, coreferent and not, of recall, precision and F1 (Luo et al. 2014).

    A link is a pair of mentions that both exist on a side. Where the key has links of one kind only, that kind alone
    counts, whatever the response has; where it has none, all is 0. So swapping the sides swaps recall and
    precision only where both have links of both kinds.
    """
    return _blanc(compare(key, response, groups))


def lea(key: ArrayLike, response: ArrayLike, groups: ArrayLike | None = None) -> Score:
    """Σ_K |K| · (links of K that the response has / links of K) / Σ_K |K| (Moosavi and Strube 2016).

    A singleton has one link, to itself; the response has it when the mention is a singleton there too.
    """
    return _lea(compare(key, response, groups))


def _mention_counts(table: Contingency) -> tuple[int, int, int]:
    """Mentions of both sides, of the key, of the response."""
    return int(table.overlaps.sum()), int(table.key_sizes.sum()), int(table.response_sizes.sum())


def _muc(table: Contingency) -> Score:
    """Parts of K are its overlaps and its absent mentions: |K| - parts = Σ_R (|K ∩ R| - 1), alike from either side."""
    shared, in_key, in_response = _mention_counts(table)
    links = shared - len(table.overlaps)
    return Score.from_ratios((links, in_key - len(table.key_sizes)), (links, in_response - len(table.response_sizes)))


def _b_cubed(table: Contingency) -> Score:
    _, in_key, in_response = _mention_counts(table)
    squares = table.overlaps.astype(np.float64) ** 2
    recalled = float((squares / table.key_sizes[table.overlap_key]).sum())
    precise = float((squares / table.response_sizes[table.overlap_response]).sum())
    return Score.from_ratios((recalled, in_key), (precise, in_response))


def _ceaf_m(table: Contingency) -> Score:
    _, in_key, in_response = _mention_counts(table)
    matched = _best_matching(table, table.overlaps.astype(np.float64))
    return Score.from_ratios((matched, in_key), (matched, in_response))


def _ceaf_e(table: Contingency) -> Score:
    sizes = table.key_sizes[table.overlap_key] + table.response_sizes[table.overlap_response]
    matched = _best_matching(table, 2 * table.overlaps / sizes)
    return Score.from_ratios((matched, len(table.key_sizes)), (matched, len(table.response_sizes)))


def _blanc(table: Contingency) -> Score:
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


def _lea(table: Contingency) -> Score:
    _, in_key, in_response = _mention_counts(table)
    key_sizes, response_sizes = table.key_sizes[table.overlap_key], table.response_sizes[table.overlap_response]
    links = np.where((key_sizes == 1) & (response_sizes == 1), 1, table.overlaps * (table.overlaps - 1) // 2)
    # |K| links / (|K| (|K| - 1) / 2) = 2 links / (|K| - 1) for two mentions or more; for one, |K| links / 1 = links
    recalled, precise = (
        float(np.where(sizes == 1, links, 2 * links / np.maximum(sizes - 1, 1)).sum())
        for sizes in (key_sizes, response_sizes)
    )
    return Score.from_ratios((recalled, in_key), (precise, in_response))


def _best_matching(table: Contingency, similarity: Floats) -> float:
    """The largest total similarity of a one-to-one matching of key clusters to response clusters.

    Clusters without common mentions add nothing, so each connected component of the overlaps, which lies within one
    document, is matched for itself. In a component with a single cluster on one side the best overlap wins.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not len(similarity):
        return 0.0
    n_key, n_all = len(table.key_sizes), len(table.key_sizes) + len(table.response_sizes)
    graph = coo_array((similarity, (table.overlap_key, n_key + table.overlap_response)), shape=(n_all, n_all))
    n_components, component = connected_components(graph, directed=False)
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


def _places(component: Ints, n_components: int) -> tuple[Ints, Ints]:
    """The place of each cluster among those of its component, and how many each component has."""
    counts = np.bincount(component, minlength=n_components)
    order = np.argsort(component, kind="stable")
    place = np.empty(len(component), np.int64)
    place[order] = np.arange(len(component)) - np.repeat(np.cumsum(counts) - counts, counts)
    return place, counts


def _matched(rows: Ints, columns: Ints, similarity: Floats, n_rows: int, n_columns: int) -> float:
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
    padded = csr_array((weights, places), shape=(n_rows, n_columns + n_rows))
    chosen = min_weight_full_bipartite_matching(padded, maximize=True)
    return float((padded[chosen] - 1).sum())
