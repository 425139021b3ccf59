"""What a Linker takes where nothing was chosen: it depends on whether the items are mentions of a text or records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kinfolk.errors import SettingError
from kinfolk.linking.clusterers import AverageLink, BestMatch, Clusterer, OneToOne, SingleLink
from kinfolk.linking.comparisons import as_comparisons, default_comparisons
from kinfolk.linking.coreference import CONJUNCTIONS, CoreferencePairs
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pairs import PairFeature

if TYPE_CHECKING:
    from kinfolk.linking.linker import Linker


def features_for(linker: Linker, items: Mentions) -> Sequence[PairFeature]:
    if linker.features is not None:
        return as_comparisons(linker.features)
    return [CoreferencePairs()] if items.corpus is not None else default_comparisons(items)


def conjunctions_for(linker: Linker, features: Sequence[PairFeature]) -> Any:
    if not (isinstance(linker.conjunctions, str) and linker.conjunctions == "default"):
        return linker.conjunctions
    return CONJUNCTIONS if any(isinstance(f, CoreferencePairs) for f in features) else None


def clusterer_for(linker: Linker, items: Mentions, complete: bool) -> Clusterer:
    """`complete`: whether the clusters of the items are known, not a few pairs alone."""
    if linker.clusterer is None:
        if items.first_table is not None:
            return _across_tables(items) if complete else BestMatch()
        return SingleLink() if items.corpus is not None else AverageLink()
    if not isinstance(linker.clusterer, Clusterer):
        raise SettingError(f"clusterer must be SingleLink(), AverageLink(), ...; got {linker.clusterer!r}")
    return linker.clusterer


ALONE = 0.05  # share of matched records with several matches up to which they are taken to have one at most


def _across_tables(items: Mentions) -> Clusterer:
    """One to one where the true clusters are; else every record of the side that has one match at most takes its best.

    Where only some pairs are labelled, a record's other matches may be unknown: then every record takes its best match.
    """
    assert items.first_table is not None and items.clusters is not None
    ours, theirs = items.clusters[: items.first_table], items.clusters[items.first_table :]
    n = int(items.clusters.max(initial=-1)) + 1
    first, second = np.bincount(ours, minlength=n), np.bincount(theirs, minlength=n)
    matched = (first > 0) & (second > 0)
    several_of_second = first[matched & (second > 1)].sum() / max(first[matched].sum(), 1)
    several_of_first = second[matched & (first > 1)].sum() / max(second[matched].sum(), 1)
    if several_of_second <= ALONE and several_of_first <= ALONE:
        return OneToOne()
    return BestMatch("first" if several_of_second <= ALONE else "second" if several_of_first <= ALONE else "both")
