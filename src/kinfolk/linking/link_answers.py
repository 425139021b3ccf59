"""What a fitted linker can be asked: why two items are linked, and what holds a cluster together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from numpy.typing import ArrayLike, NDArray

from kinfolk.core.labeller import Saved
from kinfolk.linking.explain import ClusterExplanation, LinkExplanation
from kinfolk.linking.link_explanations import explain_link
from kinfolk.linking.link_report import Linked
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.pair_table import PairSet
from kinfolk.report.report_files import PathLike, check_report

Array = NDArray[Any]


class LinkAnswers(Saved, ABC):
    """Abstract; Linker is its final class.

    pair_set_   the columns of a pair, as learned
    weights_    a weight for each value of each column
    shares_     for which share of the training pairs each weight is on
    """

    pair_set_: PairSet
    weights_: Array
    shares_: Array

    @abstractmethod
    def candidates(self, items: Mentions) -> Mentions:
        """The items with candidate pairs."""

    def explain(
        self,
        items: Mentions,
        left: int | str,
        right: int | str,
        probability: Array | None = None,
        clusters: Array | None = None,
        report: PathLike | None = None,
    ) -> LinkExplanation:
        """Why two items, by number or name, are linked or not, candidates or not; `report`: also write a page.

        `probability` and `clusters` save the page working them out again.
        """
        self._require_fitted()
        check_report(report)
        paired = self.candidates(items)
        told = explain_link(self.pair_set_, self.weights_, self.shares_, paired, left, right)
        if report is not None:
            Linked.of(self, paired, probability, clusters).write_pair(left, right, report)
        return told

    def explain_cluster(
        self,
        items: Mentions,
        item: int | str,
        probability: Array | None = None,
        clusters: Array | None = None,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
        report: PathLike | None = None,
    ) -> ClusterExplanation:
        """The weakest link of the cluster an item is in, and what would split it; `report`: also write a page.

        `probability` and `clusters` save working them out again.
        """
        self._require_fitted()
        check_report(report)
        return Linked.of(self, items, probability, clusters, must_link, cannot_link).explain(item, report)

    def explain_clusters(
        self,
        items: Mentions,
        most: int = 50,
        probability: Array | None = None,
        clusters: Array | None = None,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
        report: PathLike | None = None,
    ) -> list[ClusterExplanation]:
        """The same of many: by turns the most doubtful cluster, the largest, the most nearly joined to another."""
        self._require_fitted()
        check_report(report)
        return Linked.of(self, items, probability, clusters, must_link, cannot_link).explain_many(most, report)
