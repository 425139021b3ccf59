"""What the chain models share beyond the face of a tagger: training on chains, decoding, k best labellings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain as chained
from typing import Any, ClassVar, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kinfolk.collective.sequences import TrainingData, train
from kinfolk.core.data import check_labels, finite
from kinfolk.core.modelfile import Functions, ModelFile
from kinfolk.core.settings import number, one_of, setting
from kinfolk.core.threads import even_bounds, resolve_jobs, run_chunks
from kinfolk.core.training import Convergence
from kinfolk.errors import InputError, SettingError
from kinfolk.inference import chain
from kinfolk.inference.chain import Potentials, conditional_potentials, expected_correct, span_probabilities
from kinfolk.learning.loglinear import Shape, Weights, inherit
from kinfolk.learning.sparse import SparseRows
from kinfolk.text import schemes
from kinfolk.text.batch import Batch, Confidence, Entity, FeatureSet, entity_list, found_spans
from kinfolk.text.corpus import Corpus
from kinfolk.text.k_best import KBest, k_best_answers
from kinfolk.text.quick import FEW_TOKENS
from kinfolk.text.schemes import LabelCoding
from kinfolk.text.tagger import Tagger, TrainingSet, extra_columns

# -- From fitted weights to answers: labels, probabilities, k-best lists, entities with confidence -----
#
# Works block by block through a corpus, each from words to labels as one piece of work for a thread: what is known of
# its tokens stays near the processor, and a label-pair table a token never exists for the whole corpus.

Array = NDArray[Any]
T = TypeVar("T")
BLOCK_TOKENS = 4_000
OUTSIDE = "O"


@dataclass(frozen=True)
class Block:
    """Scores of a run of whole sentences: node (n, L), pair (1 or n, L, L), start (L,); first token; starts."""

    node: Array
    pair: Array
    start: Array
    first: int
    starts: NDArray[np.int64]

    @property
    def span(self) -> slice:
        """Where its tokens are."""
        return slice(self.first, self.first + len(self.node))


def from_the_top(node: Array) -> Array:
    """Scores less the best one of their token: the same probabilities, however large the scores are."""
    return np.subtract(node, node.max(axis=1, keepdims=True), dtype=np.float64) if node.size else node


@dataclass(frozen=True, eq=False)
class FittedDecoder:
    """What decoders share: labels that are forced, the tag scheme, entities by the probabilities of spans."""

    model: Any  # the tagger
    n_jobs: int

    @property
    def coding(self) -> LabelCoding:
        return self.model.coding_  # type: ignore[no-any-return]

    def forced_labels(self, batch: Batch, forced: bool) -> NDArray[np.int32] | None:
        """Class numbers (n,), -1 where the label is not known; None where none is forced."""
        return self.coding.encode(batch.corpus, repair=False) if forced else None

    def allowed(self) -> tuple[Array, Array, Array]:
        """Which label may follow which, begin and end a sentence: by the tag scheme, or all."""
        return schemes.transitions(self.coding.classes.names, self.coding.inner if self.model.constrain else None)

    def best_valid(self, batch: Batch, beliefs: Array, forced: bool) -> NDArray[np.int32]:
        """The valid labelling, forced labels kept, whose beliefs (n, L) add up to most; an error if there is none."""
        labels, starts = self.forced_labels(batch, forced), batch.corpus.sentence_starts
        potentials = expected_correct(beliefs, starts, *self.allowed())
        path, scores = chain.viterbi(only_known(potentials, labels), self.n_jobs)
        check_possible(scores, 0, starts, batch.corpus)
        return path

    def entities(self, batch: Batch, path: NDArray[np.int32], forced: bool) -> list[Entity]:
        """The entities of a labelling, each with the probability that exactly it is there."""
        found = found_spans(batch, self.coding, path)
        if not found:
            return []
        continues = schemes.continuations(self.coding.classes.names)
        return entity_list(batch, found, self.span_probabilities(batch, path, found, continues, forced))

    def span_probabilities(
        self, batch: Batch, path: NDArray[np.int32], found: Sequence[schemes.Span], continues: Array, forced: bool
    ) -> Confidence:
        """Of the spans `found`, whose labels are those of the path; `continues`: see `schemes.continuations`."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Decoder(FittedDecoder):
    """A chain from the side of prediction."""

    weights: Weights

    def blocks(self, batch: Batch, task: Callable[[Block], T]) -> list[T]:
        """What the task makes of each block, in their order; blocks are worked on by threads."""
        model, weights, n_labels, starts = (
            self.model, self.weights, len(self.coding.classes), batch.corpus.sentence_starts
        )  # fmt: skip
        scores, pair_scores = self._scores(batch, model.features_, weights.node), None
        if model.pair_features_ is not None:
            pair_scores = self._scores(batch, model.pair_features_, weights.pair_features, pairs=True)
        bounds = _bounds(starts)

        def run(k: int) -> T:
            first, last = int(bounds[k]), int(bounds[k + 1])
            pair = weights.pair[None]
            if pair_scores is not None:
                pair = pair_scores(first, last).reshape(-1, n_labels, n_labels) + pair
            node, pair = finite(scores(first, last), "the model"), finite(pair, "the model")
            return task(Block(node, pair, weights.start, int(starts[first]), starts[first : last + 1] - starts[first]))

        return run_chunks(run, len(bounds) - 1, self.n_jobs)

    def _scores(
        self, batch: Batch, features: FeatureSet, weights: Array, pairs: bool = False
    ) -> Callable[[int, int], Array]:
        """What gives the scores of the tokens of a run of sentences."""
        rows, n_columns = batch.rows_of_runs(features, self.n_jobs, pairs)
        if n_columns != len(weights):
            raise InputError(f"the model has weights for {len(weights)} features; got {n_columns}")
        return lambda first, last: rows(first, last).scores(weights)

    def chains(
        self, batch: Batch, forced: bool, constrained: bool, task: Callable[[Block, slice, Potentials], T]
    ) -> list[T]:
        """The same with where the tokens of a block are, and its chain given the labels that are forced. Of a few
        tokens chains are kept where rows are, as labels and then entities are asked for."""
        if batch.kept_rows is None or batch.corpus.n_tokens > FEW_TOKENS:
            return self._chains(batch, forced, constrained, task)
        asked, known = (self, forced, constrained), batch.kept_rows.get("chains")
        if known is None or known[0] != asked:
            made = self._chains(batch, forced, constrained, lambda *made: made)
            known = batch.kept_rows["chains"] = asked, made
        return [task(*made) for made in known[1]]

    def _chains(
        self, batch: Batch, forced: bool, constrained: bool, task: Callable[[Block, slice, Potentials], T]
    ) -> list[T]:
        labels = self.forced_labels(batch, forced)

        def of_block(block: Block) -> T:
            span = block.span
            own = only_known(self.model._potentials(block, 1), None if labels is None else labels[span])
            return task(block, span, self._constrained(own) if constrained else own)

        return self.blocks(batch, of_block)

    @property
    def bound(self) -> bool:
        """Whether a tag scheme says which labels may follow each other."""
        return self.model.constrain and self.coding.inner is not None

    def alone(self, batch: Batch, forced: bool, task: Callable[[Array], Array]) -> list[Array]:
        """What the task makes of the scores (n, L) of each block's tokens by themselves, less the best of each, given
        the labels that are forced."""
        labels = self.forced_labels(batch, forced)

        def of_block(block: Block) -> Array:
            known = None if labels is None else labels[block.span]
            return task(from_the_top(known_alone(block.node.astype(np.float64), known)))

        return self.blocks(batch, of_block)

    def paths(self, batch: Batch, forced: bool) -> NDArray[np.int32]:
        """Class numbers (n,) of the predicted labels."""
        if self.model._by_posterior():
            return self.best_valid(batch, self.marginals(batch, forced), forced)
        path = np.empty(batch.corpus.n_tokens, np.int32)
        if not self.model.PAIRS and not self.bound:
            found = self.alone(batch, forced, lambda node: node.argmax(axis=1))
            return np.concatenate([path[:0], *found]).astype(np.int32)

        def best(block: Block, span: slice, potentials: Potentials) -> None:
            path[span], scores = chain.viterbi(self.model._for_labels(potentials))
            check_possible(scores, block.first, block.starts, batch.corpus)

        self.chains(batch, forced, True, best)
        return path

    def marginals(self, batch: Batch, forced: bool) -> Array:
        """(n, L) probability of each class at each token."""
        if not self.model.PAIRS:
            found = self.alone(batch, forced, lambda node: special.softmax(node, axis=1))
            return np.concatenate([np.empty((0, len(self.coding.classes))), *found])
        out = np.empty((batch.corpus.n_tokens, len(self.coding.classes)))

        def write(block: Block, span: slice, potentials: Potentials) -> None:
            out[span], log_z = chain.marginals(potentials)
            check_possible(log_z, block.first, block.starts, batch.corpus)

        self.chains(batch, forced, self.model.CONDITIONS, write)
        return out

    def k_best(self, batch: Batch, k: int, forced: bool) -> list[list[tuple[Array, float]]]:
        """For each sentence up to k labellings and their log-probabilities, best first."""

        def best(block: Block, span: slice, own: Potentials) -> list[list[tuple[Array, float]]]:
            allowed = self._constrained(own)
            log_z = chain.marginals(allowed if self.model.CONDITIONS else own).log_partition
            found = chain.k_best(allowed, k)
            top = np.array([max(scores, default=-np.inf) for _, scores in found])
            check_possible(top, block.first, block.starts, batch.corpus)
            return [
                [(path, float(score - z)) for path, score in zip(paths, scores, strict=True)]
                for (paths, scores), z in zip(found, log_z, strict=True)
            ]

        return list(chained.from_iterable(self.chains(batch, forced, False, best)))

    def span_probabilities(
        self, batch: Batch, path: NDArray[np.int32], found: Sequence[schemes.Span], continues: Array, forced: bool
    ) -> Confidence:
        confidence, (firsts, ends) = np.empty(len(found)), np.array([span[:2] for span in found]).T

        def write(block: Block, span: slice, potentials: Potentials) -> None:
            own = np.flatnonzero((firsts >= span.start) & (firsts < span.stop))
            if len(own):
                first, last = firsts[own] - block.first, ends[own] - 1 - block.first
                sentence = np.searchsorted(block.starts, first, side="right") - 1
                labels = np.concatenate([path[found[i].start : found[i].end] for i in own.tolist()])
                confidence[own] = span_probabilities(potentials, sentence, first, last, labels, continues)

        self.chains(batch, forced, self.model.CONDITIONS, write)
        return Confidence(confidence, np.ones(len(found), bool))

    def _constrained(self, potentials: Potentials) -> Potentials:
        """Forbid what the tag scheme forbids."""
        names, scheme = self.coding.classes.names, self.coding.inner if self.model.constrain else None
        pair, start, end = schemes.barriers(names, scheme)
        return potentials._replace(
            pair=potentials.pair + pair, start=potentials.start + start, end=potentials.end + end
        )


def only_known(potentials: Potentials, labels: NDArray[np.int32] | None) -> Potentials:
    """Forbid all labels but the known one where one is known."""
    return potentials._replace(node=known_alone(potentials.node, labels))


def known_alone(node: Array, labels: NDArray[np.int32] | None) -> Array:
    """Scores (n, L) with -inf for all labels but the known one where one is known."""
    if labels is None:
        return node
    known = labels[:, None]
    return np.where((known < 0) | (known == np.arange(node.shape[1])), node, -np.inf)


def check_possible(scores: Array, first: int, starts: NDArray[np.int64], corpus: Corpus) -> None:
    """Labels that are forced may leave no valid labelling of their sentence."""
    if not (scores == -np.inf).any():
        return
    token = first + int(starts[int((scores == -np.inf).argmax())])
    sentence = int(np.searchsorted(corpus.sentence_starts, token))
    which = f"sentence {sentence}" if corpus.lines is None else "the sentence that begins here"
    raise InputError(
        f"the labels given in {which} break the tag scheme, so no valid labelling keeps them. "
        "Correct them, or set `constrain=False`",
        *corpus.line_of(token),
    )


def _bounds(starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of runs of sequences of about BLOCK_TOKENS tokens."""
    return even_bounds(starts, max(1, round(int(starts[-1]) / BLOCK_TOKENS))) if len(starts) > 1 else starts


# -- chain -----------------------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False, repr=False)
class ChainTagger(Tagger):
    """Abstract; MaxEnt, MEMM and LinearChainCRF are its final classes.

    LOSS        what it is trained with: "maxent", "memm" or "crf"
    CONDITIONS  whether probabilities are given that the tag sequence is valid (a globally normalised model can say so;
                a directed one keeps its forward marginals and is constrained when decoding)
    PAIRS       whether it has weights for features of label pairs, those of `transition_templates`
    """

    LOSS: ClassVar[str]
    CONDITIONS: ClassVar[bool] = False
    PAIRS: ClassVar[bool] = True

    weights_: Weights = field(init=False)

    @abstractmethod
    def _potentials(self, block: Block, n_jobs: int) -> Potentials:
        """Scores of a block to the chain whose labellings have the model's probabilities."""

    def _by_posterior(self) -> bool:
        """Whether the labelling with most expected right labels is predicted, in the place of the best one."""
        return False

    def _for_labels(self, potentials: Potentials) -> Potentials:
        """The scores whose best labelling is predicted; probabilities are of the potentials as they are."""
        return potentials

    def _train(self, training_set: TrainingSet) -> None:
        if self.transition_templates is not None and not self.PAIRS:
            name = type(self).__name__
            raise SettingError.saying(f"{name} has no features of label pairs: `transition_templates` must be None")
        data, pair_rows = training_set.data, training_set.pair_rows
        shape = Shape(data.features.shape[1], len(data.classes), 0 if pair_rows is None else pair_rows.shape[1])
        start = None if training_set.before is None else inherit(training_set.before, self, shape)
        score = self._dev_scorer(training_set.held_out)
        flat, self.convergence_ = self._learned(training_set, shape, start, score)
        self.weights_ = shape.split(flat)

    def _learned(
        self, training_set: TrainingSet, shape: Shape, start: Array | None, score: Callable[[Any], float] | None
    ) -> tuple[Array, Convergence]:
        """Weights as a flat vector, and how it went; here those with the least loss.

        start   weights to begin with, None: none
        score   of weights on held-out data, None: there are none
        """
        rows, pairs = SparseRows(training_set.data.features), training_set.pair_rows
        pair_rows, starts = None if pairs is None else SparseRows(pairs), training_set.corpus.sentence_starts
        data = TrainingData(rows, pair_rows, training_set.data.labels, training_set.weights, starts, shape.labels)
        at_zero = self._at_zero(training_set, shape)
        return train(self.LOSS, data, training_set.plan, start, score, training_set.callback, at_zero)

    def _at_zero(self, training_set: TrainingSet, shape: Shape) -> NDArray[np.bool_] | None:
        """Which weights of the flat vector are not learned and stay 0; None: all are learned."""
        return None

    @property
    def n_extra(self) -> int:
        return int(self.weights_.node.shape[0]) - self.features_.n_features

    def _decoder(self, weights: Any = None) -> Decoder:
        return Decoder(self, resolve_jobs(self.n_jobs), self.weights_ if weights is None else weights)

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["extra"] = self.n_extra
        state.arrays.update({f"weights.{name}": array for name, array in self.weights_._asdict().items()})
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        n, pairs = len(self.coding_.classes), self.pair_features_
        width, g = self.features_.n_features + extra_columns(file), 0 if pairs is None else pairs.n_features
        shapes = Weights((width, n), (n,), (n, n), (g, n * n))._asdict()  # type: ignore[arg-type]
        self.weights_ = Weights(**{name: file.array(f"weights.{name}", shape) for name, shape in shapes.items()})

    @property
    def state_features_(self) -> dict[tuple[str, Any], float]:
        """(feature, label) -> weight of those that are not 0, as sklearn-crfsuite has them; labels as in `classes_`."""
        self._require_fitted()
        names = self.features_.names()  # columns beyond them, of a stacked level, have no name of their own
        return _by_name(names, self.coding_.classes.labels, self.weights_.node[: len(names)])

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """(label, next label) -> weight of those that are not 0, as sklearn-crfsuite has them; none of a MaxEnt. How
        sentences begin, and weights of `transition_templates`, are in `weights_` alone."""
        self._require_fitted()
        labels = self.coding_.classes.labels
        return {} if self.LOSS == "maxent" else _by_name(labels, labels, self.weights_.pair)

    def _score_parts(self) -> tuple[Array, Array | None, Array | None]:
        """A MEMM asks the label before alone; in a CRF the label behind has the same say."""
        pair = self.weights_.pair
        return self.weights_.node, (None if self.LOSS == "maxent" else pair), (pair.T if self.LOSS == "crf" else None)


def _by_name(rows: Sequence[Any], columns: Sequence[Any], weights: Array) -> dict[tuple[Any, Any], float]:
    """The weights (rows, columns) that are not 0."""
    i, j = np.nonzero(weights)
    return {
        (rows[a], columns[b]): weight
        for a, b, weight in zip(i.tolist(), j.tolist(), weights[i, j].tolist(), strict=True)
    }


# -- The linear-chain conditional random field (Lafferty, McCallum and Pereira, 2001) ------------------
#
# p(y | x) ∝ exp( a[y_1] + Σ_t x_t · W[:, y_t] + Σ_t T[y_{t-1}, y_t] )


@final
@dataclass(kw_only=True, eq=False, repr=False)
class LinearChainCRF(ChainTagger):
    """Sequences of labels, with exact inference over the whole sentence.

    In training a sentence counts with the mean weight of its labelled tokens (`class_weight`,
    `sample_weight`). Probabilities are given that the tag sequence is valid, unless `constrain` is False.
    """

    LOSS: ClassVar[str] = "crf"
    CONDITIONS: ClassVar[bool] = True

    outside_penalty: float = setting(
        0.0,
        "taken off the score of O at every token when labels are predicted: more entities are found, and more that are "
        "wrong. Where fewer are found than there are, a little of it raises F1; choose it on held-out documents. "
        "Probabilities stay as they are",
        number(-100, 100),
    )

    def _for_labels(self, potentials: Potentials) -> Potentials:
        """argmax of log p(y | x) - penalty times the number of O in y"""
        names = self.coding_.classes.names
        if not self.outside_penalty or OUTSIDE not in names:
            return potentials
        node = potentials.node.copy()
        node[:, names.index(OUTSIDE)] -= self.outside_penalty / self.temperature_
        return potentials._replace(node=node)

    def _potentials(self, block: Block, n_jobs: int) -> Potentials:
        return Potentials.of(from_the_top(block.node), block.pair, block.starts, block.start)

    def predict_k_best(self, X: Any, k: int, forced: bool = False, *, vectors: Any = None) -> KBest:
        """For each sentence its k most probable labellings, (labels, log-probability), best first."""
        return k_best_answers(self, X, k, forced, vectors)


# -- The maximum entropy Markov model (McCallum, Freitag and Pereira, 2000) ----------------------------
#
# p(y | x) = p(y_1 | x) Π_t p(y_t | y_{t-1}, x),     p(k | i, x) ∝ exp( x_t · W[:, k] + T[i, k] )


@final
@dataclass(kw_only=True, eq=False, repr=False)
class MEMM(ChainTagger):
    """Each label given the one before it, trained on the gold one.

    `predict_proba` gives the forward marginals of the model; with forced labels, given those.
    """

    decode: str = setting(
        "viterbi",
        '"viterbi": the most probable valid labelling; "posterior": from the exact marginals p(y_t | x) the valid '
        "labelling with the greatest expected number of right labels",
        one_of("viterbi", "posterior"),
    )

    LOSS: ClassVar[str] = "memm"

    def _potentials(self, block: Block, n_jobs: int) -> Potentials:
        return conditional_potentials(from_the_top(block.node), block.pair, block.start, block.starts, n_jobs)

    def _by_posterior(self) -> bool:
        return self.decode == "posterior"

    def predict_k_best(self, X: Any, k: int, forced: bool = False, *, vectors: Any = None) -> KBest:
        """For each sentence its k most probable valid labellings, (labels, log-probability), best first."""
        return k_best_answers(self, X, k, forced, vectors)


# -- The maximum entropy classifier: each token by itself ----------------------------------------------
#
# p(y_t = k | x) ∝ exp( x_t · W[:, k] )


@final
@dataclass(kw_only=True, eq=False, repr=False)
class MaxEnt(ChainTagger):
    """Labels that know nothing of each other, but for the tag scheme when decoding.

    With `constrain`, the labels are the most probable valid sequence under independent tokens.
    """

    LOSS: ClassVar[str] = "maxent"
    PAIRS: ClassVar[bool] = False

    def _check_labels(self, coding: LabelCoding) -> None:
        if self.constrain and coding.inner is not None:
            check_labels(len(coding.classes), "set `constrain=False`, so that no tag asks for the one before it")

    def _potentials(self, block: Block, n_jobs: int) -> Potentials:
        n_labels = block.node.shape[1]
        return Potentials.of(from_the_top(block.node), np.zeros((n_labels, n_labels)), block.starts)
