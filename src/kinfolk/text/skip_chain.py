"""The skip-chain conditional random field (Sutton and McCallum, 2004).

A linear chain with further edges between tokens that should agree, such as two occurrences of the same word. The graph
has loops, so inference is loopy belief propagation: approximate, and not sure to settle; what did not is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective import pairwise
from kinfolk.collective.pairwise import (
    REMEDY,
    InferenceReport,
    PairSample,
    Propagates,
)
from kinfolk.collective.sequences import TrainingData, train
from kinfolk.core.modelfile import Functions, ModelFile
from kinfolk.core.settings import one_of, setting
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import Stage, TrainingPlan
from kinfolk.errors import SettingError
from kinfolk.inference.loopy import Propagation, edge_beliefs
from kinfolk.learning.loglinear import Shape, TableWeights, inherit_mixture
from kinfolk.learning.sparse import SparseRows
from kinfolk.text.batch import Batch, Confidence
from kinfolk.text.chain import FittedDecoder, LinearChainCRF
from kinfolk.text.gain import GuardedTagger
from kinfolk.text.schemes import Span
from kinfolk.text.skip_edges import (
    EDGE_FEATURES,
    SAME_WORD,
    SKIP_EDGES,
    EdgeFeatures,
    LearnedSkips,
    as_builders,
    edge_feature_set,
    edge_features,
    put_skips,
    restored_skips,
    skip_settings,
    warn_without_edges,
)
from kinfolk.text.tagger import Tagger, TrainingSet

Array = NDArray[Any]


@final
@dataclass(kw_only=True, eq=False, repr=False)
class SkipChainCRF(Propagates, GuardedTagger):
    """A linear-chain CRF with skip edges. In training a document counts with the mean weight of its tokens; a weight of
    0 is no label.

    `inference_report(X)` tells in which documents it settled; so does `training_report_` for the training data.
    """

    LOCAL: ClassVar[str] = "LinearChainCRF with the same settings"

    skip_edges: Any = setting(SAME_WORD, SKIP_EDGES, in_file=False)
    edge_features: Any = setting(None, EDGE_FEATURES, in_file=False)
    decode: str = setting(
        "posterior",
        '"posterior": the valid labelling with most expected right labels; "map": by max-product',
        one_of("posterior", "map"),
    )

    weights_: TableWeights = field(init=False)
    skips_: tuple[LearnedSkips, ...] = field(init=False)
    edge_features_: EdgeFeatures | None = field(init=False)
    training_report_: InferenceReport | None = field(init=False)

    def _propagation(self) -> Propagation:
        return Propagation(self.schedule, float(self.damping), float(self.message_tolerance), self.max_rounds)

    # -- learning -------------------------------------------------------------------------------------

    def _local(self) -> Tagger:
        settings = self._anew().get_params(deep=False)
        shared = {name: value for name, value in settings.items() if name in LinearChainCRF.DECLARED}
        return LinearChainCRF(**shared)

    def _train(self, training_set: TrainingSet) -> None:
        if training_set.pair_rows is not None:
            raise SettingError.saying(
                "SkipChainCRF takes no transition_templates; features of skip edges are edge_features"
            )
        self.skips_ = tuple(builder.learn(training_set.corpus) for builder in as_builders(self.skip_edges))
        self.edge_features_, data = edge_feature_set(self.edge_features), training_set.data
        sample, n_labels = self._sample(training_set.corpus, data.features, training_set), len(data.classes)
        shape, start = sample.shape(n_labels), None
        if training_set.before is not None:
            before = training_set.before._replace(weights=(training_set.before.weights,))
            start = inherit_mixture(before, 0, self.features_.names(), data.classes, shape)
        first: tuple[Stage, ...] = ()
        if start is None:
            start, first = self._chain_start(training_set, shape, n_labels)
        plan = replace(training_set.plan, stage=self.training)
        score = self._dev_scorer(training_set.held_out)
        how = pairwise.PairTraining(self.training, self._propagation())
        self.weights_, self.convergence_, self.training_report_ = pairwise.train_pairwise(
            sample, data.labels, training_set.weights, n_labels, how, start, plan, score, training_set.callback
        )
        self.convergence_ = self.convergence_.after(first)
        if self.training_report_ is not None:
            self.training_report_.warn(REMEDY)

    def _chain_start(
        self, training_set: TrainingSet, shape: Any, n_labels: int
    ) -> tuple[TableWeights, tuple[Stage, ...]]:
        """Weights of a linear-chain CRF, and no opinion on skip edges; and how it was trained."""
        rows, labels = SparseRows(training_set.data.features), training_set.data.labels
        data = TrainingData(rows, None, labels, training_set.weights, training_set.corpus.sentence_starts, n_labels)
        plan: TrainingPlan = replace(training_set.plan, stage="linear chain", warns=False)
        flat, outcome = train("crf", data, plan, None, None, training_set.callback)
        linear = Shape(rows.n_columns, n_labels).split(flat)
        weights: TableWeights = shape.split(np.zeros(shape.size, np.float32))
        weights.tables[0][:] = linear.node
        weights.start[:] = linear.start
        weights.pair[0] = linear.pair
        return weights, outcome.stages

    def _sample(self, corpus: Any, rows: Any, learning: TrainingSet | None = None) -> PairSample:
        first = corpus.sentence_starts[:-1]
        later = np.delete(np.arange(corpus.n_tokens), first)
        edges = [np.stack([later - 1, later], axis=1)]
        features: list[Any] = [None]
        for skip in self.skips_:
            pairs = skip.edges(corpus)  # (later, earlier)
            edges.append(pairs[:, ::-1])
            own = self.edge_features_
            features.append(None if own is None else own.rows(corpus, pairs[:, 0], pairs[:, 1]))
        if learning is not None:
            warn_without_edges([skip.name for skip in self.skips_], edges[1:], corpus, learning.dicts)
        return pairwise.pair_sample(rows, edges, features, corpus.token_documents, first, self.beliefs)

    # -- prediction -----------------------------------------------------------------------------------

    def inference_report(self, X: Any) -> InferenceReport:
        """In which documents of X belief propagation settles."""
        self._require_fitted()
        return self._decoder().run(Batch.of(X), False)[1]

    def _score_parts(self) -> tuple[Array, Array | None, Array | None]:
        return self.weights_.tables[0], self.weights_.pair[0], self.weights_.pair[0].T

    def _long_edges(self, batch: Batch) -> list[tuple[int, int, str]]:
        return [(child, parent, s.name) for s in self.skips_ for child, parent in s.edges(batch.corpus).tolist()]

    def _decoder(self, weights: Any = None) -> SkipChainDecoder:
        return SkipChainDecoder(self, resolve_jobs(self.n_jobs), self.weights_ if weights is None else weights)

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state, edge = super().to_state(), self.edge_features_
        skips = [skip.spec() for skip in self.skips_]
        state.header["pairwise"] = {"skips": skips, "edge_features": None if edge is None else edge.spec()}
        put_skips(state, "pairwise", self.skips_)
        pairwise.put_pairwise(state, self.weights_)
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        spec = file.header["pairwise"]
        self.skips_ = restored_skips(file.part("pairwise"), spec["skips"], functions)
        self.edge_features_ = edge = edge_features(spec["edge_features"], functions)
        self.skip_edges, self.edge_features = skip_settings(self.skips_, edge)
        n_edge = 0 if edge is None or not self.skips_ else len(edge.names())
        sizes = (self.features_.n_features, len(self.coding_.classes), 1 + len(self.skips_), n_edge)
        self.weights_, self.training_report_ = pairwise.taken_pairwise(file, *sizes), None


@dataclass(frozen=True, eq=False)
class SkipChainDecoder(FittedDecoder):
    """The model from the side of prediction."""

    weights: TableWeights

    def run(self, batch: Batch, forced: bool, maximise: bool = False) -> tuple[Any, InferenceReport, Any, PairSample]:
        """Beliefs, given that the tag sequence is valid and that forced labels are as they are."""
        model, corpus = self.model, batch.corpus
        sample = model._sample(corpus, batch.rows(model.features_, self.n_jobs))
        pair, start, end = (np.where(mask, 0.0, -np.inf) for mask in self.allowed())
        node = np.zeros((corpus.n_tokens, len(start)))
        if corpus.n_tokens:
            node[corpus.sentence_starts[:-1]] += start
            node[corpus.sentence_starts[1:] - 1] += end
        if (labels := self.forced_labels(batch, forced)) is not None:
            node[(labels[:, None] >= 0) & (labels[:, None] != np.arange(len(start)))] = -np.inf
        found, report, scores = pairwise.infer(
            sample, self.weights, model._propagation(), self.n_jobs, maximise, (node, pair)
        )
        report = report.by_document(np.bincount(corpus.token_documents, minlength=corpus.n_documents) > 0)
        if batch.filled is not None:  # sentences of a list are documents, also those without tokens
            report = report.by_document(batch.filled)
        report.warn(REMEDY)
        return found, report, scores, sample

    def marginals(self, batch: Batch, forced: bool) -> Array:
        if forced:  # an error where no valid labelling keeps the labels
            self.best_valid(batch, np.zeros((batch.corpus.n_tokens, len(self.coding.classes))), forced)
        return np.asarray(np.exp(self.run(batch, forced)[0]))

    def paths(self, batch: Batch, forced: bool) -> NDArray[np.int32]:
        """The valid labelling that the beliefs speak for most."""
        decode = self.model.decode
        beliefs = self.run(batch, forced, maximise=decode == "map")[0]
        # of max-product they are best scores with a label fixed, and stay logarithms
        return self.best_valid(batch, np.exp(beliefs) if decode == "posterior" else beliefs, forced)

    def span_probabilities(
        self, batch: Batch, path: NDArray[np.int32], found: Sequence[Span], continues: Array, forced: bool
    ) -> Confidence:
        """The probability along the chain, Π b(y_t, y_t+1) / Π b(y_t): exact in documents without skip edges."""
        beliefs, _, (_, tables, fixed), sample = self.run(batch, forced)
        last = set((batch.corpus.sentence_starts[1:] - 1).tolist())
        confidence = np.empty(len(found))
        for i, span in enumerate(found):
            stop = span.end if span.end - 1 not in last else span.end - 1  # one step beyond, unless the sentence ends
            second = np.arange(span.start + 1, stop + 1)
            steps = sample.find_edges(second - 1, second)
            joint = edge_beliefs(sample.graph, tables, beliefs, fixed.messages, steps)
            labels = path[span.start : span.end]
            value = float(np.exp(beliefs[span.start, labels[0]]))
            for t in range(len(labels) - 1):
                value *= _share(joint[t][labels[t], labels[t + 1]], joint[t][labels[t]].sum())
            if stop == span.end:
                after = joint[-1][labels[-1]]
                value *= _share(after[~continues[labels[-1]]].sum(), after.sum())
            confidence[i] = value
        documents = batch.corpus.token_documents
        joined = documents[[child for child, _, _ in self.model._long_edges(batch)]]
        return Confidence(confidence, ~np.isin(documents[[span.start for span in found]], joined))


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0
