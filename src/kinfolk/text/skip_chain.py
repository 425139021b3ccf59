"""The skip-chain conditional random field (Sutton and McCallum, 2004).

A linear chain with further edges between tokens that should agree, such as two occurrences of the same word. The graph
has loops, so inference is loopy belief propagation: approximate, and not sure to settle; what did not is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective import pairwise
from kinfolk.collective.pairwise import (
    REMEDY,
    InferenceReport,
    KeptBack,
    PairSample,
    PairTraining,
    Propagates,
    best_steps,
    kept_back_plan,
)
from kinfolk.collective.sequences import TrainingData, train
from kinfolk.core.data import Relational
from kinfolk.core.modelfile import Functions, ModelFile
from kinfolk.core.settings import one_of, setting
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import Convergence, Stage, TrainingPlan
from kinfolk.errors import SettingError
from kinfolk.inference.loopy import Propagation, edge_beliefs
from kinfolk.learning.gain import in_silence
from kinfolk.learning.loglinear import Shape, TableWeights, Weights, inherit_mixture, no_weights
from kinfolk.learning.sparse import SparseRows
from kinfolk.text.batch import Batch, Confidence
from kinfolk.text.chain import FittedDecoder
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
from kinfolk.text.tagger import Tagger, TrainingSet, extra_columns

Array = NDArray[Any]


@final
@dataclass(kw_only=True, eq=False, repr=False)
class SkipChainCRF(Propagates, GuardedTagger):
    """A linear-chain CRF with skip edges. In training a document counts with the mean weight of its tokens; a weight of
    0 is no label.

    `inference_report(X)` tells in which documents it settled; so does `training_report_` for the training data.
    """

    LOCAL: ClassVar[str] = "that of `skip_edges=None`"
    EARLY: ClassVar[bool] = False  # over a chain that is not at its optimum, a few steps of links learn less

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
        return self._anew(skip_edges=None, edge_features=None)  # not LinearChainCRF, which decodes otherwise

    def _train(self, training_set: TrainingSet) -> None:
        if training_set.pair_rows is not None:
            raise SettingError.saying(
                "SkipChainCRF takes no transition_templates; features of skip edges are edge_features"
            )
        self.skips_ = tuple(builder.learn(training_set.corpus) for builder in as_builders(self.skip_edges))
        self.edge_features_, data = edge_feature_set(self.edge_features), training_set.data
        sample = self._sample(training_set.corpus, data.features, training_set)
        shape, before = sample.shape(len(data.classes)), None
        if training_set.before is not None:
            old = training_set.before._replace(weights=(training_set.before.weights,))
            before = inherit_mixture(old, 0, self.features_.names(), data.classes, shape)
        score = None if training_set.held_out is None else self._scorer(training_set.held_out)
        how, start = self._how(), before
        first: tuple[Stage, ...] = ()
        if start is None or how.links is not None:
            plan = replace(training_set.plan, stage="linear chain")
            start, first = self._chain(training_set, shape, plan, before, score)
            how, tried = self._chosen(training_set, how, start, shape)
            first = (*first, *tried)
        plan = replace(training_set.plan, stage=self.training)
        self.weights_, self.convergence_, self.training_report_ = pairwise.train_pairwise(
            sample, data.labels, training_set.weights, shape.labels, how, start, plan, score, training_set.callback
        )
        self.convergence_ = self.convergence_.after(first)
        if self.training_report_ is not None:
            self.training_report_.warn(REMEDY)

    def _how(self) -> PairTraining:
        """The first relation is the chain itself."""
        return PairTraining(self.training, self._propagation(), 1 if self.update == "links" else None)

    def _chain(
        self, training_set: TrainingSet, shape: Any, plan: TrainingPlan, before: TableWeights | None = None,
        score: Callable[[TableWeights], float] | None = None,
    ) -> tuple[TableWeights, tuple[Stage, ...]]:  # fmt: skip
        """Weights of a linear-chain CRF, trained as one is, and no opinion on skip edges; and how it went."""
        rows, labels, n_labels = SparseRows(training_set.data.features), training_set.data.labels, shape.labels
        data = TrainingData(rows, None, labels, training_set.weights, training_set.corpus.sentence_starts, n_labels)
        linear = Shape(rows.n_columns, n_labels)

        def whole(chain: Weights) -> TableWeights:
            none = shape.split(no_weights(shape))
            none.pair[0] = chain.pair
            return TableWeights([chain.node], chain.start, none.pair, none.rows, none.gate)

        initial = None
        if before is not None:
            chain = TableWeights(before.tables, before.start, before.pair[:1], before.rows[:0], before.gate)
            initial = linear.tables.join(chain)
        dev = None if score is None else lambda chain: score(whole(chain))
        flat, outcome = train("crf", data, replace(plan, warns=False), initial, dev, training_set.callback)
        return whole(linear.split(flat)), outcome.stages

    def _chosen(
        self, training_set: TrainingSet, how: PairTraining, start: TableWeights, shape: Any
    ) -> tuple[PairTraining, tuple[Stage, ...]]:
        """The scores that skip edges are learned on, and for how many iterations, by documents that are kept back; and
        how that went. Held-out data that are given say how many without that."""
        corpus, labels = training_set.corpus, training_set.data.labels
        if not any(len(skip.edges(corpus)) for skip in self.skips_):
            return how, ()
        labelled = np.unique(corpus.token_documents[(labels >= 0) & (training_set.weights > 0)])
        crossed = how.links is not None and self.scores == "cross-fitted"
        back = KeptBack.of(labelled, self.held_out, corpus.n_tokens, training_set.plan.seed)
        scored = back.scored if training_set.held_out is None else []
        parts = back.parts if crossed else scored
        chains = [self._chain_without(training_set, part, shape) for part in parts]
        if crossed and chains:
            how = replace(how, scores=self._crossed(training_set, start, parts, chains))
        pairs = zip(scored, chains, strict=False)  # the parts that are scored come first
        found = [self._kept_back(training_set, part, chain, how) for part, chain in pairs]
        if found:
            how = replace(how, steps=best_steps([outcome.dev_scores for outcome in found]))
        return how, tuple(stage for outcome in found for stage in outcome.stages)

    def _chain_without(self, training_set: TrainingSet, part: Array, shape: Any) -> TableWeights:
        plan = replace(training_set.plan, stage="kept back: linear chain")
        return self._chain(_documents(training_set, _without(training_set, part)), shape, plan)[0]

    def _crossed(
        self, training_set: TrainingSet, start: TableWeights, parts: list[Array], chains: list[TableWeights]
    ) -> Array:
        """Scores (n, L): of the documents of a part by the chain of the others, of those without labels by `start`."""
        rows, documents = training_set.data.features, training_set.corpus.token_documents
        scores = SparseRows(rows).scores(start.tables[0], training_set.plan.n_jobs)
        for part, chain in zip(parts, chains, strict=True):
            tokens = np.flatnonzero(np.isin(documents, part))
            scores[tokens] = SparseRows(rows[tokens]).scores(chain.tables[0], training_set.plan.n_jobs)
        return scores

    def _kept_back(self, training_set: TrainingSet, part: Array, chain: TableWeights, how: PairTraining) -> Convergence:
        """How the scores of a part change while links are learned on the others."""
        others = _without(training_set, part)
        learned, kept = (_documents(training_set, which) for which in (others, part))
        if how.scores is not None:
            how = replace(how, scores=how.scores[np.isin(training_set.corpus.token_documents, others)])
        sample = self._sample(learned.corpus, learned.data.features)
        score = self._scorer(Batch(kept.corpus), kept.data.features)
        plan, callback = kept_back_plan(training_set.plan, self.training), training_set.callback
        n_labels = len(learned.data.classes)
        return pairwise.train_pairwise(
            sample, learned.data.labels, learned.weights, n_labels, how, chain, plan, score, callback
        )[1]

    def _scorer(self, batch: Batch, rows: Any = None) -> Callable[[TableWeights], float]:
        """From weights to the score of a batch, whose edges are drawn once."""
        jobs = resolve_jobs(self.n_jobs)
        sample = self._sample(batch.corpus, batch.rows(self.features_, jobs) if rows is None else rows)

        def score(weights: TableWeights) -> float:
            return self._score_path(batch, SkipChainDecoder(self, jobs, weights, sample).paths(batch, forced=False))

        return score

    def _sample(self, corpus: Any, rows: Any, learning: TrainingSet | None = None, linked: bool = True) -> PairSample:
        """`linked`: with skip edges."""
        first = corpus.sentence_starts[:-1]
        later = np.delete(np.arange(corpus.n_tokens), first)
        edges = [np.stack([later - 1, later], axis=1)]
        features: list[Any] = [None]
        for skip in self.skips_:
            pairs = skip.edges(corpus) if linked else np.empty((0, 2), np.int64)  # (later, earlier)
            edges.append(pairs[:, ::-1])
            own = self.edge_features_
            features.append(None if own is None else own.rows(corpus, pairs[:, 0], pairs[:, 1]))
        if learning is not None:
            warn_without_edges([skip.name for skip in self.skips_], edges[1:], corpus, learning.dicts)
        return pairwise.pair_sample(rows, edges, features, corpus.token_documents, first, self.beliefs)

    # -- prediction -----------------------------------------------------------------------------------

    def inference_report(self, X: Any, vectors: Any = None) -> InferenceReport:
        """In which documents of X belief propagation settles."""
        self._require_fitted()
        with in_silence():  # the report says it
            return self._decoder().run(Batch.of(X, vectors=vectors), False)[1]

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
        state.header["extra"] = self.n_extra
        state.header["pairwise"] = {"skips": skips, "edge_features": None if edge is None else edge.spec()}
        put_skips(state, "pairwise", self.skips_)
        pairwise.put_pairwise(state, self.weights_)
        return state

    @property
    def n_extra(self) -> int:
        return len(self.weights_.tables[0]) - self.features_.n_features

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        spec = file.header["pairwise"]
        self.skips_ = restored_skips(file.part("pairwise"), spec["skips"], functions)
        self.edge_features_ = edge = edge_features(spec["edge_features"], functions)
        self.skip_edges, self.edge_features = skip_settings(self.skips_, edge)
        n_edge = 0 if edge is None or not self.skips_ else len(edge.names())
        sizes = (
            self.features_.n_features + extra_columns(file),
            len(self.coding_.classes),
            1 + len(self.skips_),
            n_edge,
        )
        self.weights_, self.training_report_ = pairwise.taken_pairwise(file, *sizes), None
        pairwise.as_trained(self, file)


@dataclass(frozen=True, eq=False)
class SkipChainDecoder(FittedDecoder):
    """The model from the side of prediction; `sample`: the batch with its edges, where it is asked often."""

    weights: TableWeights
    sample: PairSample | None = None
    told: list[InferenceReport] = field(default_factory=list)  # of one answer, which may run messages several times

    def run(self, batch: Batch, forced: bool, maximise: bool = False) -> tuple[Any, InferenceReport, Any, PairSample]:
        """Beliefs, given that the tag sequence is valid and that forced labels are as they are."""
        model, corpus = self.model, batch.corpus
        sample = self.sample
        if sample is None:  # edges without weights change nothing but the shares of others
            linked = bool(self.weights.pair[1:].any() or self.weights.rows.any())
            sample = model._sample(corpus, batch.rows(model.features_, self.n_jobs), linked=linked)
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
        if self.sample is None and len(report.not_converged):
            if not self.told:
                report.warn(REMEDY)
            self.told.append(report)
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


def _without(training_set: TrainingSet, part: Array) -> Array:
    return np.delete(np.arange(training_set.corpus.n_documents), part)


def _documents(training_set: TrainingSet, documents: Array) -> TrainingSet:
    """Some documents of what is learned from, in their order."""
    corpus, data = training_set.corpus.select(documents), training_set.data
    tokens = np.flatnonzero(np.isin(training_set.corpus.token_documents, documents))
    own = Relational(data.features[tokens], data.labels[tokens], data.classes, {}, corpus.token_documents)
    return replace(training_set, corpus=corpus, data=own, weights=training_set.weights[tokens], held_out=None)


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0
