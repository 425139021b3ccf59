"""Clusters that are known for a few of the records: labels of the pairs among these, beside others that are given."""

from __future__ import annotations

import logging

import numpy as np

from kinfolk.linking.calibration import FEWEST
from kinfolk.linking.chains import contradiction
from kinfolk.linking.mentions import Mentions, pair_keys, pairs_of
from kinfolk.linking.pair_labels import PairLabels

log = logging.getLogger("kinfolk")
HALF = 0.5


def few_known(items: Mentions) -> bool:
    """Whether clusters are known for less than HALF of the records, and with them fewer than FEWEST candidate pairs
    that match: then what fields say of all records is the better start."""
    if items.clusters is None or items.corpus is not None:
        return False
    known, labels = items.clusters >= 0, items.pair_labels
    return bool((labels >= 0).any() and known.mean() < HALF and (labels == 1).sum() < FEWEST)


def labels_of_clusters(items: Mentions, pairs: PairLabels | None = None) -> PairLabels:
    """Labels of the candidate pairs of two records with known clusters, and `pairs` beside them, against which clusters
    are right."""
    known = items.pair_labels >= 0
    own = PairLabels(items.left[known], items.right[known], items.pair_labels[known])
    n_known = int((np.asarray(items.clusters) >= 0).sum())
    log.info("clusters of %d records are known: %d of their pairs are labels", n_known, len(own))
    if pairs is None:
        return own
    clash = contradiction(
        np.concatenate([own.together, pairs.together]), np.concatenate([own.apart, pairs.apart]), items.n_items
    )
    if clash is not None:
        named, n = clash.named(items.name), int(clash.against.sum())
        log.warning("clusters and labelled pairs contradict each other: %s; %d pairs in all. Correct them", named, n)
    keys = [pair_keys(one.left, one.right) for one in (own, pairs)]
    distinct, at = np.unique(np.concatenate(keys), return_index=True)  # of a pair in both, that of the clusters
    match = np.concatenate([own.match, pairs.match])[at]
    said = pairs.match.astype(np.float64) if pairs.probability is None else pairs.probability
    probability = np.concatenate([own.match.astype(np.float64), said])[at]
    return PairLabels(*pairs_of(distinct), match, None if pairs.probability is None else probability)
