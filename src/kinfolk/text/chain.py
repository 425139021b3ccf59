"""What the chain models share beyond the face of a tagger: training on chains, decoding, k best labellings."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinfolk.core.threads import resolve_jobs
from kinfolk.errors import InputError
from kinfolk.learning.inheritance import inherit
from kinfolk.learning.loglinear import Shape, Weights
from kinfolk.learning.sparse import SparseRows
from kinfolk.learning.training import TrainingData, train
from kinfolk.text.batch import Batch, chain_starts
from kinfolk.text.decoder import ChainMethod, Decoder
from kinfolk.text.lesson import Lesson
from kinfolk.text.tagger import Tagger


@dataclass(kw_only=True, eq=False, repr=False)
class ChainTagger(Tagger):
    """Abstract; MaxEnt, MEMM and LinearChainCRF are its final classes."""

    weights_: Weights = field(init=False)

    @abstractmethod
    def _method(self) -> ChainMethod:
        """What sets a chain model apart: its loss, its chain and its way of decoding."""

    def _train(self, lesson: Lesson) -> None:
        rows = SparseRows(lesson.data.features)
        pair_rows = None if lesson.pair_rows is None else SparseRows(lesson.pair_rows)
        labels, n_labels = lesson.data.labels, len(lesson.data.classes)
        data = TrainingData(rows, pair_rows, labels, lesson.weights, chain_starts(lesson.data), n_labels)
        shape = Shape(rows.n_columns, n_labels, pair_rows.n_columns if pair_rows else 0)
        start = None if lesson.before is None else inherit(lesson.before, self, shape)
        score = self._dev_scorer(lesson.held_out)
        flat, self.convergence_ = train(self._method().kind, data, lesson.plan, start, score, lesson.callback)
        self.weights_ = shape.split(flat)

    def _decoder(self, weights: Any = None) -> Decoder:
        return Decoder(
            self._method(), self.features_, self.transition_features_, self.coding_,
            self.weights_ if weights is None else weights, self.constrain, resolve_jobs(self.n_jobs),
        )  # fmt: skip

    def _own_weights(self) -> Any:
        return self.weights_.node

    def _steps(self) -> tuple[Any, Any]:
        """A MEMM asks the label before alone; in a CRF the label behind has the same say."""
        kind, pair = self._method().kind, self.weights_.pair
        return (None if kind == "maxent" else pair), (pair.T if kind == "crf" else None)

    def _k_best(self, X: Any, k: int, forced: bool) -> list[list[tuple[list[str], float]]]:
        self._require_fitted()
        if not isinstance(k, int | np.integer) or k < 1:
            raise InputError(f"k must be a whole number of 1 or more; got {k!r}")
        answers, batch = [], Batch.of(X)
        for labellings in self._decoder().k_best(batch, int(k), forced):
            ends = np.array([0, len(labellings[0][0])], np.int64)
            answers.append([(self.coding_.decode(p, ends).labels(), log_p) for p, log_p in labellings])
        return batch.for_each(answers, lambda: [([], 0.0)])  # type: ignore[arg-type]
