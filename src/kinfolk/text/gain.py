"""What models of tokens gain by looking beyond the sentence, cross-fitted on the training documents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.checkpoint import running
from kinfolk.core.data import Column
from kinfolk.learning.gain import Counted, Gain, Guarded, check_units, folds_by_name, in_silence
from kinfolk.text import schemes
from kinfolk.text.batch import Batch, token_weights
from kinfolk.text.corpus import Corpus
from kinfolk.text.schemes import LabelCoding
from kinfolk.text.scores import spans_to_judge
from kinfolk.text.tagger import Tagger

Array = NDArray[Any]


@dataclass(kw_only=True, eq=False, repr=False)
class GuardedTagger(Guarded, Tagger):
    """Abstract: a tagger that is trained anew for every fold of documents."""

    NOTHING: ClassVar[str] = "there are no skip edges"

    @abstractmethod
    def _local(self) -> Tagger:
        """An untrained tagger of the same settings that looks at nothing beyond the sentence."""

    def _after_training(self, batch: Batch, sample_weight: Any, held_out: Batch | None) -> None:
        looks_beyond = bool(getattr(self, "skips_", None))
        self.gain_ = None
        if self.guard is not None and looks_beyond:
            self.gain_ = self._measured(batch, sample_weight, held_out)
        self._tell_gain()

    def _measured(self, batch: Batch, sample_weight: Any, held_out: Batch | None) -> Gain:
        assert self.guard is not None
        corpus, coding, counted = batch.corpus, self.coding_, Counted()
        fold = document_folds(corpus, coding, self.guard, self.random_state)
        settings = {} if coding.inner is None else {"encoding": coding.inner}  # a part must not choose another
        weights = None
        if sample_weight is not None:
            every = token_weights(batch, coding.encode(corpus), coding.classes, None, sample_weight)
            weights = every[corpus.sentence_starts[:-1]]
        with in_silence():
            for number in range(self.guard):
                held, rest = (np.flatnonzero(of) for of in (fold == number, fold != number))
                part, asked = batch.part(rest), batch.part(held)
                own = None if weights is None else weights[np.unique(corpus.token_sentences[rest])]
                models = [model.set_params(**settings) for model in (self._local(), self._anew())]

                def both() -> tuple[Array, Array, int]:
                    for model in models:  # noqa: B023
                        model.fit(part, sample_weight=own, X_dev=held_out)  # noqa: B023
                    return _counts_of(models, asked)  # noqa: B023

                counted.add(*running().step("guard").once(both))
        return counted.gain(metric_of(coding), "documents", self.guard)


def _counts_of(models: list[Tagger], asked: Batch) -> tuple[Array, Array, int]:
    """Of a local and a collective model, by document, and how many labels of the two differ."""
    paths = [model._decoder().paths(asked, forced=False) for model in models]
    codings = [model.coding_ for model in models]
    local, collective = map(document_counts, codings, [asked.corpus] * 2, paths)
    alone, together = (of.classes.array()[path] for of, path in zip(codings, paths, strict=True))
    return local, collective, int((alone != together).sum())


def document_folds(corpus: Corpus, coding: LabelCoding, folds: int, seed: int | None) -> NDArray[np.int32]:
    """The fold of every token: that of its document, -1 in documents without any label."""
    labels, documents = coding.encode(corpus), corpus.token_documents
    check_units(folds, len(np.unique(documents[labels >= 0])), "documents")
    words = [word or "" for word in corpus.columns["word"].strings()]
    starts = np.searchsorted(documents, np.arange(corpus.n_documents + 1))
    names = [" ".join(words[a:b]) for a, b in pairwise(starts.tolist())]
    by_token = folds_by_name(names, labels, documents, folds, seed)
    of_document = np.full(corpus.n_documents, -1, np.int32)
    np.maximum.at(of_document, documents, by_token)
    return of_document[documents]


def metric_of(coding: LabelCoding) -> str:
    return "accuracy" if coding.inner is None else "entity F1"


def document_counts(coding: LabelCoding, corpus: Corpus, path: NDArray[np.int32]) -> Array:
    """(documents, 2): twice the right entities, and those that are true or predicted; where labels are no spans, right
    tokens, and those that have a label."""
    gold, n = coding.gold(corpus), corpus.n_documents
    documents = corpus.token_documents
    if coding.inner is None:
        known = gold.codes >= 0
        right = np.bincount(documents[known & (gold.codes == path)], minlength=n)
        return np.stack([right, np.bincount(documents[known], minlength=n)], axis=1).astype(np.float64)
    guess = Column(path, coding.classes.names)
    true, guessed = (schemes.spans(c, corpus.sentence_starts, coding.inner) for c in (gold, guess))
    truth, found = map(set, spans_to_judge(true, guessed, gold.codes >= 0))

    def counts(spans: Iterable[schemes.Span]) -> Array:
        starts = np.fromiter((span.start for span in spans), np.int64)
        return np.bincount(documents[starts], minlength=n)

    return np.stack([2 * counts(truth & found), counts(truth) + counts(found)], axis=1).astype(np.float64)
