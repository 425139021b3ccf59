"""The maximum entropy classifier: each token by itself.

p(y_t = k | x) ∝ exp( x_t · W[:, k] )
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from kinfolk.errors import SettingError
from kinfolk.inference.chain import Potentials
from kinfolk.text.chain import ChainTagger
from kinfolk.text.decoder import Block, ChainMethod, from_the_top


@final
@dataclass(kw_only=True, eq=False, repr=False)
class MaxEnt(ChainTagger):
    """Labels that know nothing of each other, but for the tag scheme when decoding. Settings: see `Tagger`.

    With `constrain`, the labels are the most probable valid sequence under independent tokens.
    """

    def _method(self) -> ChainMethod:
        if self.transition_templates is not None:
            raise SettingError("MaxEnt has no transitions: transition_templates must be None")
        return ChainMethod("maxent", _potentials, "viterbi", conditions=False)


def _potentials(block: Block, n_jobs: int) -> Potentials:
    n_labels = block.node.shape[1]
    return Potentials.of(from_the_top(block.node), np.zeros((n_labels, n_labels)), block.starts)
