"""The linear-chain conditional random field (Lafferty, McCallum and Pereira, 2001).

p(y | x) ∝ exp( a[y_1] + Σ_t x_t · W[:, y_t] + Σ_t T[y_{t-1}, y_t] )
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from kinfolk.inference.chain import Potentials
from kinfolk.text.chain import ChainTagger
from kinfolk.text.decoder import Block, ChainMethod, from_the_top


@final
@dataclass(kw_only=True, eq=False, repr=False)
class LinearChainCRF(ChainTagger):
    """Sequences of labels, with exact inference over the whole sentence. Settings: see `Tagger`.

    In training a sentence counts with the mean weight of its labelled tokens (`class_weight`,
    `sample_weight`). Probabilities are given that the tag sequence is valid, unless `constrain` is False.
    """

    def _method(self) -> ChainMethod:
        return ChainMethod("crf", _potentials, "viterbi", conditions=True)

    def predict_k_best(self, X: Any, k: int, forced: bool = False) -> list[list[tuple[list[str], float]]]:
        """For each sentence its k most probable labellings, (labels, log-probability), best first."""
        return self._k_best(X, k, forced)


def _potentials(block: Block, n_jobs: int) -> Potentials:
    return Potentials.of(from_the_top(block.node), block.pair, block.starts, block.start)
