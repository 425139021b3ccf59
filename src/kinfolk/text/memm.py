"""The maximum entropy Markov model (McCallum, Freitag and Pereira, 2000).

p(y | x) = p(y_1 | x) Π_t p(y_t | y_{t-1}, x),     p(k | i, x) ∝ exp( x_t · W[:, k] + T[i, k] )
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

from kinfolk.inference.chain import Potentials
from kinfolk.inference.memm import conditional_potentials
from kinfolk.text.chain import ChainTagger
from kinfolk.text.decoder import Block, ChainMethod


@final
@dataclass(kw_only=True, eq=False, repr=False)
class MEMM(ChainTagger):
    """Each label given the one before it, trained on the gold one. Settings: see `Tagger`, and

    decode   "viterbi": the most probable valid labelling; "posterior": from the exact marginals p(y_t | x) the
             valid labelling with the greatest expected number of right labels

    `predict_proba` gives the forward marginals of the model; with forced labels, given those.
    """

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {"decode": ("viterbi", "posterior")}

    decode: str = "viterbi"

    def _method(self) -> ChainMethod:
        return ChainMethod("memm", _potentials, self.decode, conditions=False)

    def predict_k_best(self, X: Any, k: int, forced: bool = False) -> list[list[tuple[list[str], float]]]:
        """For each sentence its k most probable valid labellings, (labels, log-probability), best first."""
        return self._k_best(X, k, forced)


def _potentials(block: Block, n_jobs: int) -> Potentials:
    return conditional_potentials(block.node, block.pair, block.start, block.starts, n_jobs)
