"""From log-odds of pairs to probabilities that can be believed, and to what a clusterer takes.

After local and structured training p = 1 / (1 + e^-s), s calibrated. After ranking s scores an antecedent, and p is the
exact probability that the two are in one cluster; "combined" averages both. What comes of ranking is calibrated itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.inference.antecedents import antecedent_shares, together
from kinfolk.inference.clustering import log_odds
from kinfolk.linking.calibration import Calibration
from kinfolk.linking.mentions import Mentions
from kinfolk.linking.training import sigmoid

Array = NDArray[Any]
RANKS = ("ranking", "combined")  # ways of training that learn antecedents


class Probabilities(NamedTuple):
    """Of the pairs of items, by the way of training, the map that was learned and the number of threads."""

    training: str
    calibration: Calibration
    n_jobs: int

    @property
    def of_log_odds(self) -> Calibration:
        """The map of log-odds of pairs; after ranking they are left, as what comes of them is calibrated."""
        return Calibration() if self.training in RANKS else self.calibration

    def of(self, items: Mentions, score: Array, ranked: Array | None = None) -> NDArray[np.float64]:
        """From log-odds, calibrated already, and the scores of antecedents that "combined" averages with."""
        if self.training not in RANKS:
            return sigmoid(score)
        by = score if self.training == "ranking" else ranked
        assert by is not None
        share = antecedent_shares(items.n_items, items.right, by).antecedent
        exact = together(items.n_items, items.left, items.right, share, self.n_jobs)
        return self.believed(exact if self.training == "ranking" else (exact + sigmoid(score)) / 2)

    def believed(self, probability: Array) -> NDArray[np.float64]:
        """Calibrated probabilities of ranking."""
        if not len(self.calibration.knots):
            return probability
        return sigmoid(self.calibration(log_odds(probability)))

    def value(
        self, items: Mentions, score: Array, ranked: Array | None = None, of_shares: bool = False
    ) -> NDArray[np.float64]:
        """What a clusterer takes: probabilities or, if `of_shares`, shares of antecedents."""
        if of_shares:
            return antecedent_shares(items.n_items, items.right, score).antecedent
        return self.of(items, score, ranked)
