"""What a tagger and its method say to each other: the lesson it learns from, and what it is asked once it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Relational
from kinfolk.core.training import TrainingPlan, UntilStopped
from kinfolk.learning.inheritance import NamedWeights
from kinfolk.text.batch import Batch
from kinfolk.text.corpus import Corpus
from kinfolk.text.entities import Entity

Array = NDArray[Any]


class TokenDecoder(Protocol):
    """What a tagger asks of its method once it is trained; labels known beforehand are kept if `forced`."""

    def paths(self, batch: Batch, forced: bool) -> NDArray[np.int32]: ...

    def marginals(self, batch: Batch, forced: bool) -> Array: ...

    def entities(self, batch: Batch, path: NDArray[np.int32], forced: bool) -> list[Entity]: ...


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a method learns from: tokens as instances, rows of label-pair features, weights of tokens; how; with what
    to start from, what to be scored on, and whom to tell."""

    corpus: Corpus
    data: Relational
    pair_rows: Any
    weights: Array
    plan: TrainingPlan
    before: NamedWeights | None
    held_out: Batch | None
    callback: UntilStopped | None
    dicts: bool = False  # whether features came as dicts, without words
