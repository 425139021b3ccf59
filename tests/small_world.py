"""The world the models are tried on, and what it looks like in every tag scheme."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sized
from dataclasses import replace
from typing import Any

import numpy as np

import kinfolk as kf
from kinfolk.text import schemes
from kinfolk.text.batch import Batch

TRAIN, TEST = kf.newswire_split(20, 10)
MODELS: dict[str, Callable[..., Any]] = {
    "MaxEnt": kf.MaxEnt,
    "MEMM": kf.MEMM,
    "MEMM posterior": functools.partial(kf.MEMM, decode="posterior"),
    "LinearChainCRF": kf.LinearChainCRF,
}
QUICK: dict[str, Any] = {"n_jobs": 1, "l2": 0.01}
TAGGERS: dict[str, Callable[[], Any]] = {
    "MaxEnt": lambda: kf.MaxEnt(**QUICK),
    "MEMM": lambda: kf.MEMM(**QUICK),
    "LinearChainCRF": lambda: kf.LinearChainCRF(**QUICK),
    "SkipChainCRF": lambda: kf.SkipChainCRF(held_out=0.5, **QUICK),
    "MixtureTagger": lambda: kf.MixtureTagger(**QUICK),
    "StackedTagger": lambda: kf.StackedTagger(kf.MaxEnt(**QUICK), folds=2, n_jobs=1),
}
TINY, TINY_LABELS = [["Kim", "Lee", "left", "Rome"], ["he", "left"]], [["B-PER", "I-PER", "O", "B-LOC"], ["O", "O"]]


def with_sizes(corpus: kf.Corpus, documents: Iterable[Sized]) -> kf.Corpus:
    """Its sentences in documents of these lengths, none of them too."""
    return replace(corpus, document_starts=np.cumsum([0, *map(len, documents)]))


def in_scheme(corpus: kf.Corpus, scheme: str) -> kf.Corpus:
    """The corpus with its labels written in another scheme."""
    labels = schemes.convert(corpus.labels, corpus.sentence_starts, corpus.scheme, scheme)
    return corpus.with_labels(labels, scheme)


def is_valid(rows: list[list[str]], scheme: str) -> bool:
    """Whether every sentence is strictly valid: a repair of the tags changes nothing."""
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    column = kf.Column.from_strings(label for row in rows for label in row)
    repaired = schemes.convert(column, starts, scheme, scheme)
    return schemes.slips(column, starts, scheme, found=False) is None and repaired.strings() == column.strings()


def randomised(model: Any, seed: int, scale: float = 3.0) -> Any:
    """A copy of a fitted model with weights drawn at random: decoding has nothing sensible to go by."""
    rng = np.random.default_rng(seed)
    twin = type(model)(**model.get_params())
    vars(twin).update(vars(model))
    drawn = (scale * rng.standard_normal(part.shape) for part in model.weights_)
    twin.weights_ = type(model.weights_)(*(part.astype(np.float32) for part in drawn))
    return twin


def chain_of(model: Any, corpus: kf.Corpus) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Node, pair, start and end scores of a one-sentence corpus under the model, without constraints."""
    (block,) = model._decoder().blocks(Batch.of(corpus), lambda block: block)
    node, pair, start, end, _ = model._potentials(block, 1)
    return np.asarray(node, np.float64), pair[0] if len(pair) == 1 else pair[: len(node)], start, end


def constrained(model: Any, chain: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """The same scores with what the tag scheme forbids at -inf."""
    node, pair, start, end = chain
    follows, starts, stops = schemes.transitions(model.coding_.classes.names, model.coding_.inner)
    forbid = lambda mask: np.where(mask, 0.0, -np.inf)  # noqa: E731
    return node, pair + forbid(follows), start + forbid(starts), end + forbid(stops)
