"""Explanations of the clusters a linker finds, as answers and as pages to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.errors import SettingError
from kinfolk.linking.explain import ClusterExplanation, verdict
from kinfolk.linking.kept_apart import kept_apart
from kinfolk.linking.link_choice import shown_clusters, strengths
from kinfolk.linking.link_explanations import Split, explain_cluster, one_item, split_of, two_items
from kinfolk.linking.linker_checks import item_pairs
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.page import link_payload
from kinfolk.report.page import Part
from kinfolk.report.report_files import PathLike, write_report

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Linked:
    """What a linker made of items. `clusters` are numbered from 0; `must`, `cannot` are the links given (m, 2)."""

    linker: Any  # a fitted Linker, which imports this module
    items: Mentions
    probability: Array
    clusters: Array
    must: Array
    cannot: Array

    @classmethod
    def of(
        cls, linker: Any, items: Mentions, probability: Any = None, clusters: Any = None, must: Any = None,
        cannot: Any = None,
    ) -> Linked:  # fmt: skip
        """With the probabilities and clusters given, or as the linker finds them."""
        if probability is None:
            paired, p = linker.compared(items)
        else:
            paired, p = linker.candidates(items), np.asarray(probability)
        found = linker.cluster(paired, p, must, cannot) if clusters is None else clusters
        numbered = np.unique(found, return_inverse=True)[1]
        given = (item_pairs(paired, () if links is None else links) for links in (must, cannot))
        return cls(linker, paired, p, numbered, *given)

    @property
    def threshold(self) -> float:
        return float(self.linker.clusterer_.threshold)

    def split(self, cluster: int) -> Split:
        return split_of(self.items, cluster, self.probability, self.clusters, self.threshold)

    def candidate(self, low: int, high: int) -> int:
        """The number of a candidate pair; -1: it is none."""
        found = np.flatnonzero((self.items.left == low) & (self.items.right == high))
        return int(found[0]) if len(found) else -1

    def verdict(self, low: int, high: int, candidate: int) -> str:
        """What became of two items, low < high, in words, and why where the clustering had the last one."""
        p = float(self.probability[candidate]) if candidate >= 0 else 0.0
        together = bool(self.clusters[low] == self.clusters[high])
        reason = ""
        if p > self.threshold and not together:
            clusterer = self.linker.clusterer_
            reason = kept_apart(clusterer, self.items, self.probability, self.clusters, low, high, self.cannot)
        return verdict(p, self.threshold, candidate >= 0, together, reason)

    def explain(self, item: int | str, report: PathLike | None = None) -> ClusterExplanation:
        """The cluster of an item."""
        number = one_item(self.items, item)
        split = self.split(int(self.clusters[number]))
        if report is not None:
            _write(report, f"The cluster of {self.items.title(number)}", self, [split])
        return explain_cluster(self.items, split, self.probability)

    def explain_many(self, most: int, report: PathLike | None = None) -> list[ClusterExplanation]:
        """The most doubtful, the largest and the most nearly joined clusters, at most `most` in all."""
        if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1:
            raise SettingError(f"most must be a number of clusters, 1 or more; got {most!r}")
        splits = self.splits(int(most))
        if report is not None:
            kind = "records" if self.items.corpus is None else "mentions"
            _write(report, f"Clusters of {self.items.n_items:,} {kind}", self, splits)
        return [explain_cluster(self.items, split, self.probability) for split in splits]

    def splits(self, most: int) -> list[Split]:
        """Of the clusters most worth looking at."""
        weakest, nearest = strengths(self.items, self.probability, self.clusters)
        sizes = np.bincount(self.clusters)
        return [self.split(cluster) for cluster in shown_clusters(weakest, nearest, sizes, most)]

    def payload(self, most: int) -> dict[str, Any]:
        """What a report shows of them."""
        return link_payload(self, self.splits(most))

    def write_pair(self, left: int | str, right: int | str, report: PathLike) -> None:
        """A page about two items: the cluster or clusters they are in, opened at the pair."""
        low, high = two_items(self.items, left, right)
        splits = [self.split(int(c)) for c in dict.fromkeys([self.clusters[low], self.clusters[high]])]
        title = f"{self.items.title(low)} and {self.items.title(high)}"
        _write(report, title, self, splits, (low, high))


def _write(path: PathLike, title: str, linked: Linked, splits: Sequence[Split], pair: tuple[int, ...] = ()) -> None:
    items, linker = linked.items, linked.linker
    documents = f"{items.n_groups:,} document{'s' * (items.n_groups != 1)}"
    kind = "records" if items.corpus is None else f"mentions in {documents}"
    count = int(linked.clusters.max()) + 1 if items.n_items else 0
    about = f"{items.n_items:,} {kind}, {items.n_pairs:,} candidate pairs, {count:,} clusters by {linker.clusterer_!r}."
    heading = "Clusters" if len(splits) > 1 else "The cluster"
    write_report(path, title, [Part("links", heading, link_payload(linked, splits, pair))], about)
