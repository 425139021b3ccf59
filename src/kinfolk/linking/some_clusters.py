"""Clusters that are known, of all, some or a few of the records, and labelled pairs beside them.

Clusters are right. A label of two records with known clusters says nothing new; of others, yes puts a record into the
cluster of another, and what it joins outside known clusters belongs together, but whether it is apart from the rest
nobody knows; no and probabilities are labels of their pairs alone.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.linking.chains import connected, contradiction
from kinfolk.linking.mentions import Mentions, pair_keys, pairs_of
from kinfolk.linking.pair_labels import PairLabels

log = logging.getLogger("kinfolk")
HALF = 0.5

# Matches, and others, among the candidate pairs of known records, below which labels move what fields say of all
# records. What that gains in F1 over clusters alone: up to 0.5 below 50 matches (generated customers: of 20 entities
# known in 2,000, 37 to 47 candidate pairs match and 1 to 12 do not, so others are the rarer ones), 0.006 to 0.08 for 52
# to 241 (Abt-Buy), -0.002 to 0.005 for 53 to 222 (DBLP-ACM). Beyond, a threshold and calibration of their own are safe.
FEW = 250


def few_known(items: Mentions, pairs: PairLabels | None = None) -> bool:
    """Whether clusters are known for less than HALF of the records, and with them fewer than FEW candidate pairs
    that match, or that do not: then what fields say of all records is the better start."""
    if items.clusters is None or items.corpus is not None:
        return False
    known, labels = items.clusters >= 0, items.pair_labels
    yes, no = int((labels == 1).sum()), int((labels == 0).sum())
    told = pairs is not None or yes + no > 0
    return bool(told and known.mean() < HALF and min(yes, no) < FEW)


def labels_of_clusters(items: Mentions, pairs: PairLabels | None = None) -> PairLabels:
    """Labels of the candidate pairs of two records with known clusters, and `pairs` beside them, against which clusters
    are right."""
    known = items.pair_labels >= 0
    own = PairLabels(items.left[known], items.right[known], items.pair_labels[known])
    n_known = int((np.asarray(items.clusters) >= 0).sum())
    log.info("clusters of %d records are known: %d of their pairs are labels", n_known, len(own))
    if pairs is None:
        return own
    pairs = corrected(items, pairs)
    keys = [pair_keys(one.left, one.right) for one in (own, pairs)]
    distinct, at = np.unique(np.concatenate(keys), return_index=True)
    match = np.concatenate([own.match, pairs.match])[at]
    said = pairs.match.astype(np.float64) if pairs.probability is None else pairs.probability
    probability = np.concatenate([own.match.astype(np.float64), said])[at]
    return PairLabels(*pairs_of(distinct), match, None if pairs.probability is None else probability)


# -- Where both say something ---------------------------------------------------------------------------


def corrected(items: Mentions, pairs: PairLabels) -> PairLabels:
    """The pairs as known clusters have them: those of two known records say what their clusters do; left out are a yes
    that would join two clusters through other records, and a no about records that are joined. A warning names one."""
    n, clusters = items.n_items, np.asarray(items.clusters)
    right, wrong = _by_clusters(clusters, pairs)
    right = right.without_contradictions(n)  # those of pairs alone were named when they were read
    joined = _joined(clusters, right)
    between = _first_of_two(clusters, joined)
    yes = (right.match == 1) & (right.certainty == 1.0) & ~_both_known(clusters, right)
    kept = right.take(~(yes & np.isin(joined[right.left], joined[between[:, 0]])))
    rest = kept.without(_joined(clusters, kept))
    against = int(wrong.sum()) + len(right) - len(rest)
    if against:
        ends = np.stack([pairs.left, pairs.right], axis=1)[wrong].astype(np.int64)
        together = np.concatenate([ends, _together(clusters, right)])
        clash = contradiction(together, np.concatenate([ends, between, kept.apart]), n)
        assert clash is not None
        what, count = clash.named(items.name), f"{against} labelled pair{'s' * (against != 1)}"
        log.warning("clusters and labelled pairs contradict each other: %s; clusters win against %s", what, count)
    return rest


def _both_known(clusters: NDArray[np.int32], pairs: PairLabels) -> NDArray[np.bool_]:
    return (clusters[pairs.left] >= 0) & (clusters[pairs.right] >= 0)


def _by_clusters(clusters: NDArray[np.int32], pairs: PairLabels) -> tuple[PairLabels, NDArray[np.bool_]]:
    """The pairs, of which those of two known records say what clusters do; and which of them said otherwise."""
    known, same = _both_known(clusters, pairs), clusters[pairs.left] == clusters[pairs.right]
    match = np.where(known, same, pairs.match).astype(np.int8)
    probability = None if pairs.probability is None else np.where(known, same, pairs.probability)
    wrong = known & (pairs.certainty == 1.0) & (pairs.match != match)
    return replace(pairs, match=match, probability=probability), wrong


def _together(clusters: NDArray[np.int32], pairs: PairLabels) -> NDArray[np.int64]:
    """Pairs (m, 2) that put together what pairs and clusters do: an item with the first one of its cluster."""
    known = np.flatnonzero(clusters >= 0)
    _, at, number = np.unique(clusters[known], return_index=True, return_inverse=True)
    return np.concatenate([np.stack([known[at][number], known], axis=1), pairs.together]).astype(np.int64)


def _joined(clusters: NDArray[np.int32], pairs: PairLabels) -> NDArray[np.int32]:
    """A number for each item, the same for those that clusters and certain matches put together."""
    ends = _together(clusters, pairs)
    return connected(ends[:, 0], ends[:, 1], len(clusters))


def _first_of_two(clusters: NDArray[np.int32], joined: NDArray[np.int32]) -> NDArray[np.int64]:
    """For everything joined that has two known clusters, a pair (m, 2) of items of two of them."""
    known = np.flatnonzero(clusters >= 0)
    both, at = np.unique(np.stack([joined[known], clusters[known]], axis=1), axis=0, return_index=True)
    again = np.flatnonzero(both[1:, 0] == both[:-1, 0])
    return np.stack([known[at[again]], known[at[again + 1]]], axis=1).astype(np.int64)


class Both(NamedTuple):
    """Records with clusters, as far as clusters and labelled pairs tell.

    items     with every labelled pair of records whose clusters were not known among the candidates; clusters are those
              known and, beside them, what pairs join; -1 where neither says anything
    known     of which items it is known that others are apart: their clusters were known, or are by a yes
    extra     the labels of pairs of which clusters do not tell
    n_labels  how many labelled pairs have told more than the clusters that were known
    """

    items: Mentions
    known: NDArray[np.bool_]
    extra: PairLabels
    n_labels: int

    def labels(self, items: Mentions) -> NDArray[np.int8]:
        """Of the pairs of these items: 1, 0, and -1 where nothing is known."""
        assert items.clusters is not None
        a, b = items.left, items.right
        same, apart = items.clusters[a] == items.clusters[b], self.known[a] & self.known[b]
        said = self.extra.looked_up(self.extra.match, a, b, -1)
        return np.where(same & (items.clusters[a] >= 0), 1, np.where(apart, 0, said)).astype(np.int8)

    def taught(self) -> Both:
        """Those of which something is known, alone."""
        assert self.items.clusters is not None
        kept = self.items.clusters >= 0
        number = (np.cumsum(kept) - 1).astype(np.int32)
        extra = replace(self.extra, left=number[self.extra.left], right=number[self.extra.right])
        return Both(self.items.take(kept), self.known[kept], extra, self.n_labels)


def clusters_and_pairs(items: Mentions, pairs: PairLabels) -> Both:
    """What clusters, which are right, and labelled pairs say together."""
    before = np.asarray(items.clusters)
    pairs = corrected(items, pairs)
    pairs = pairs.take(~_both_known(before, pairs))
    joined = _joined(before, pairs)
    known = np.isin(joined, joined[before >= 0])
    left, right = pairs_of(np.union1d(pair_keys(items.left, items.right), pair_keys(pairs.left, pairs.right)))
    clusters = _numbered(before, joined, ~known & np.isin(np.arange(items.n_items), [pairs.left, pairs.right]))
    found = replace(items, left=left, right=right, blocked=True, clusters=clusters)
    decided = (known[pairs.left] & known[pairs.right]) | (joined[pairs.left] == joined[pairs.right])
    return Both(found, known, pairs.take(~decided), len(pairs))


def _numbered(clusters: NDArray[np.int32], joined: NDArray[np.int32], more: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The known cluster of everything joined with it; new numbers for what else is joined with one of `more`; or -1."""
    number = np.full(int(joined.max(initial=-1)) + 1, -1, np.int32)
    others = np.unique(joined[more])
    number[others] = clusters.max(initial=-1) + 1 + np.arange(len(others))
    number[joined[clusters >= 0]] = clusters[clusters >= 0]
    return number[joined]
