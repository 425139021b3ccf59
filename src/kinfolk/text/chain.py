"""What the chain models share beyond the face of a tagger: training on chains, decoding, k best labellings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.sequences import TrainingData, train
from kinfolk.core.data import finite
from kinfolk.core.modelfile import Functions, ModelFile
from kinfolk.core.threads import resolve_jobs
from kinfolk.errors import InputError, SettingError
from kinfolk.inference import chain
from kinfolk.inference.chain import Potentials, conditional_potentials, expected_correct, span_probabilities
from kinfolk.learning.loglinear import Shape, Weights, inherit
from kinfolk.learning.sparse import SparseRows
from kinfolk.text import schemes
from kinfolk.text.batch import Batch, Entity, FeatureSet, chain_starts, entity_list, found_spans
from kinfolk.text.corpus import Corpus
from kinfolk.text.schemes import LabelCoding
from kinfolk.text.tagger import Tagger, TrainingSet

# -- From fitted weights to answers: labels, probabilities, k-best lists, entities with confidence -----
#
# Works block by block through a corpus, so a label-pair table a token never exists for the whole of it.

Array = NDArray[Any]
BLOCK_TOKENS = 20_000


@dataclass(frozen=True)
class Block:
    """Scores of a run of whole sentences: node (n, L), pair (1 or n, L, L), start (L,); first token; starts."""

    node: Array
    pair: Array
    start: Array
    first: int
    starts: NDArray[np.int64]


def from_the_top(node: Array) -> Array:
    """Scores less the best one of their token: the same probabilities, however large the scores are."""
    return np.asarray(node - node.max(axis=1, keepdims=True)) if node.size else node


@dataclass(frozen=True)
class ChainMethod:
    """What sets one chain model apart from another.

    kind        the loss it is trained with: "maxent", "memm" or "crf"
    potentials  scores of a block to the chain whose labellings have the model's probabilities
    decode      "viterbi": the best labelling; "posterior": the one with most expected right labels
    conditions  whether probabilities are given that the tag sequence is valid (a globally normalised model
                can say so; a directed one keeps its forward marginals and is constrained when decoding)
    """

    kind: str
    potentials: Callable[[Block, int], Potentials]
    decode: str
    conditions: bool


@dataclass(frozen=True)
class Decoder:
    """A fitted model seen from the side of prediction."""

    method: ChainMethod
    features: FeatureSet
    pair_features: FeatureSet | None
    coding: LabelCoding
    weights: Weights
    constrain: bool
    n_jobs: int

    def blocks(self, batch: Batch) -> Iterator[Block]:
        rows = SparseRows(batch.rows(self.features, self.n_jobs))
        if rows.n_columns != len(self.weights.node):
            raise InputError(f"the model has weights for {len(self.weights.node)} features; got {rows.n_columns}")
        node = finite(rows.scores(self.weights.node, self.n_jobs), "the model")
        n_labels = len(self.coding.classes)
        pair_rows = (
            None if self.pair_features is None else SparseRows(batch.rows(self.pair_features, self.n_jobs, pairs=True))
        )
        for first_seq, last_seq in _runs(batch.corpus.sentence_starts):
            starts = batch.corpus.sentence_starts[first_seq : last_seq + 1]
            a, b = int(starts[0]), int(starts[-1])
            pair = self.weights.pair[None]
            if pair_rows is not None:
                scores = pair_rows.scores(self.weights.pair_features, self.n_jobs, rows=(a, b))
                pair = scores.reshape(-1, n_labels, n_labels) + pair
            yield Block(node[a:b], finite(pair, "the model"), self.weights.start, a, starts - a)

    def paths(self, batch: Batch, forced: bool) -> NDArray[np.int32]:
        """Class numbers (n,) of the predicted labels."""
        labels = self.coding.encode(batch.corpus, repair=False) if forced else None
        path = np.empty(batch.corpus.n_tokens, np.int32)
        for block in self.blocks(batch):
            span = slice(block.first, block.first + len(block.node))
            potentials = self._forced(self.method.potentials(block, self.n_jobs), labels, span)
            if self.method.decode == "posterior":
                known = chain.marginals(potentials, self.n_jobs).node
                allowed = allowed_steps(self.coding, self.constrain)
                potentials = self._forced(expected_correct(known, block.starts, *allowed), labels, span)
            else:
                potentials = self._constrained(potentials)
            path[span], scores = chain.viterbi(potentials, self.n_jobs)
            check_possible(scores, block.first, block.starts, batch.corpus)
        return path

    def marginals(self, batch: Batch, forced: bool) -> Array:
        """(n, L) probability of each class at each token."""
        labels = self.coding.encode(batch.corpus, repair=False) if forced else None
        out = np.empty((batch.corpus.n_tokens, len(self.coding.classes)))
        for block in self.blocks(batch):
            span = slice(block.first, block.first + len(block.node))
            potentials = self._forced(self.method.potentials(block, self.n_jobs), labels, span)
            if self.method.conditions:
                potentials = self._constrained(potentials)
            out[span], log_z = chain.marginals(potentials, self.n_jobs)
            check_possible(log_z, block.first, block.starts, batch.corpus)
        return out

    def k_best(self, batch: Batch, k: int, forced: bool) -> list[list[tuple[Array, float]]]:
        """For each sentence up to k labellings and their log-probabilities, best first."""
        labels = self.coding.encode(batch.corpus, repair=False) if forced else None
        answers = []
        for block in self.blocks(batch):
            span = slice(block.first, block.first + len(block.node))
            own = self._forced(self.method.potentials(block, self.n_jobs), labels, span)
            allowed = self._constrained(own)
            log_z = chain.marginals(allowed if self.method.conditions else own, self.n_jobs).log_partition
            found = chain.k_best(allowed, k, self.n_jobs)
            check_possible(
                np.array([max(scores, default=-np.inf) for _, scores in found]), block.first, block.starts, batch.corpus
            )
            for (paths, scores), z in zip(found, log_z, strict=True):
                answers.append([(path, float(score - z)) for path, score in zip(paths, scores, strict=True)])
        return answers

    def entities(self, batch: Batch, path: NDArray[np.int32], forced: bool) -> list[Entity]:
        """The entities of a labelling, each with the probability that exactly it is there."""
        labels = self.coding.encode(batch.corpus, repair=False) if forced else None
        found = found_spans(batch, self.coding, path)
        if not found:
            return []
        continues = schemes.continuations(self.coding.classes.names)
        confidence = np.empty(len(found))
        firsts = np.array([s.start for s in found], np.int64)
        for block in self.blocks(batch):
            own = np.flatnonzero((firsts >= block.first) & (firsts < block.first + len(block.node)))
            if not len(own):
                continue
            span = slice(block.first, block.first + len(block.node))
            potentials = self._forced(self.method.potentials(block, self.n_jobs), labels, span)
            potentials = self._constrained(potentials) if self.method.conditions else potentials
            spans = [found[i] for i in own]
            local = np.searchsorted(block.starts, firsts[own] - block.first, side="right") - 1
            confidence[own] = span_probabilities(
                potentials, local, firsts[own] - block.first, np.array([s.end for s in spans]) - 1 - block.first,
                np.concatenate([path[s.start : s.end] for s in spans]), continues,
            )  # fmt: skip
        return entity_list(batch, found, confidence)

    def _constrained(self, potentials: Potentials) -> Potentials:
        """Forbid what the tag scheme forbids."""
        if not self.constrain or self.coding.inner is None:
            return potentials
        pair, start, end = (np.where(mask, 0.0, -np.inf) for mask in allowed_steps(self.coding, self.constrain))
        return potentials._replace(
            pair=potentials.pair + pair, start=potentials.start + start, end=potentials.end + end
        )

    def _forced(self, potentials: Potentials, labels: NDArray[np.int32] | None, span: slice) -> Potentials:
        """Forbid all labels but the known one where a token's label is known."""
        return potentials if labels is None else only_known(potentials, labels[span])


def allowed_steps(coding: LabelCoding, constrain: bool) -> tuple[Array, Array, Array]:
    """Which label may follow which, begin and end a sentence: by the tag scheme, or all."""
    return schemes.transitions(coding.classes.names, coding.inner if constrain else None)


def only_known(potentials: Potentials, labels: NDArray[np.int32]) -> Potentials:
    """Forbid all labels but the known one where one is known."""
    known = labels[:, None]
    kept = (known < 0) | (known == np.arange(potentials.node.shape[1]))
    return potentials._replace(node=np.where(kept, potentials.node, -np.inf))


def most_expected(
    corpus: Corpus, beliefs: Array, allowed: tuple[Array, Array, Array], labels: NDArray[np.int32] | None, n_jobs: int
) -> NDArray[np.int32]:
    """The valid labelling whose beliefs (n, L) add up to most; known labels are kept. An error if there is none."""
    potentials = expected_correct(beliefs, corpus.sentence_starts, *allowed)
    path, scores = chain.viterbi(potentials if labels is None else only_known(potentials, labels), n_jobs)
    check_possible(scores, 0, corpus.sentence_starts, corpus)
    return path


def check_possible(scores: Array, first: int, starts: NDArray[np.int64], corpus: Corpus) -> None:
    """Labels that are forced may leave no valid labelling of their sentence."""
    if not (scores == -np.inf).any():
        return
    token = first + int(starts[int((scores == -np.inf).argmax())])
    sentence = int(np.searchsorted(corpus.sentence_starts, token))
    raise InputError(
        f"the labels given in sentence {sentence} break the tag scheme, so no valid labelling keeps them. "
        "Correct them, or set `constrain=False`",
        corpus.source, None if corpus.lines is None else int(corpus.lines[token]),
    )  # fmt: skip


def _runs(starts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Runs of sequences of about BLOCK_TOKENS tokens."""
    first, n = 0, len(starts) - 1
    while first < n:
        last = int(np.searchsorted(starts, starts[first] + BLOCK_TOKENS, side="left"))
        last = min(max(last, first + 1), n)
        yield first, last
        first = last


# -- chain -----------------------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False, repr=False)
class ChainTagger(Tagger):
    """Abstract; MaxEnt, MEMM and LinearChainCRF are its final classes."""

    weights_: Weights = field(init=False)

    @abstractmethod
    def _method(self) -> ChainMethod:
        """What sets a chain model apart: its loss, its chain and its way of decoding."""

    def _train(self, training_set: TrainingSet) -> None:
        rows = SparseRows(training_set.data.features)
        pair_rows = None if training_set.pair_rows is None else SparseRows(training_set.pair_rows)
        labels, n_labels = training_set.data.labels, len(training_set.data.classes)
        data = TrainingData(rows, pair_rows, labels, training_set.weights, chain_starts(training_set.data), n_labels)
        shape = Shape(rows.n_columns, n_labels, pair_rows.n_columns if pair_rows else 0)
        start = None if training_set.before is None else inherit(training_set.before, self, shape)
        score = self._dev_scorer(training_set.held_out)
        flat, self.convergence_ = train(
            self._method().kind, data, training_set.plan, start, score, training_set.callback
        )
        self.weights_ = shape.split(flat)

    def _decoder(self, weights: Any = None) -> Decoder:
        return Decoder(
            self._method(), self.features_, self.transition_features_, self.coding_,
            self.weights_ if weights is None else weights, self.constrain, resolve_jobs(self.n_jobs),
        )  # fmt: skip

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["extra"] = self.weights_.node.shape[0] - self.features_.n_features
        state.arrays.update({f"weights.{name}": array for name, array in self.weights_._asdict().items()})
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        n, pairs = len(self.coding_.classes), self.transition_features_
        width, g = self.features_.n_features + int(file.header["extra"]), 0 if pairs is None else pairs.n_features
        shapes = Weights((width, n), (n,), (n, n), (g, n * n))._asdict()  # type: ignore[arg-type]
        self.weights_ = Weights(**{name: file.array(f"weights.{name}", shape) for name, shape in shapes.items()})

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


# -- The linear-chain conditional random field (Lafferty, McCallum and Pereira, 2001) ------------------
#
# p(y | x) ∝ exp( a[y_1] + Σ_t x_t · W[:, y_t] + Σ_t T[y_{t-1}, y_t] )


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


# -- The maximum entropy Markov model (McCallum, Freitag and Pereira, 2000) ----------------------------
#
# p(y | x) = p(y_1 | x) Π_t p(y_t | y_{t-1}, x),     p(k | i, x) ∝ exp( x_t · W[:, k] + T[i, k] )


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
        return ChainMethod("memm", _memm_potentials, self.decode, conditions=False)

    def predict_k_best(self, X: Any, k: int, forced: bool = False) -> list[list[tuple[list[str], float]]]:
        """For each sentence its k most probable valid labellings, (labels, log-probability), best first."""
        return self._k_best(X, k, forced)


def _memm_potentials(block: Block, n_jobs: int) -> Potentials:
    return conditional_potentials(block.node, block.pair, block.start, block.starts, n_jobs)


# -- The maximum entropy classifier: each token by itself ----------------------------------------------
#
# p(y_t = k | x) ∝ exp( x_t · W[:, k] )


@final
@dataclass(kw_only=True, eq=False, repr=False)
class MaxEnt(ChainTagger):
    """Labels that know nothing of each other, but for the tag scheme when decoding. Settings: see `Tagger`.

    With `constrain`, the labels are the most probable valid sequence under independent tokens.
    """

    def _method(self) -> ChainMethod:
        if self.transition_templates is not None:
            raise SettingError.saying("MaxEnt has no transitions: transition_templates must be None")
        return ChainMethod("maxent", _maxent_potentials, "viterbi", conditions=False)


def _maxent_potentials(block: Block, n_jobs: int) -> Potentials:
    n_labels = block.node.shape[1]
    return Potentials.of(from_the_top(block.node), np.zeros((n_labels, n_labels)), block.starts)
