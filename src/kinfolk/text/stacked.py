"""Stacked graphical learning (Kou and Cohen, 2007): a tagger, given what other tokens are predicted to be.

f⁰ is the base on a token's own features x. fᵏ is a base on (x, C(ŷᵏ⁻¹)), where C gathers the predictions of the level
before by templates: a window of the sentence, the other tokens with the same word. In training these are cross-fitted
by document. Inference is K + 1 passes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.aggregate import padded
from kinfolk.collective.relations import Neighbourhood
from kinfolk.collective.sequences import ABOVE, FEWER
from kinfolk.collective.stacking import (
    FOLDS,
    Instances,
    StackedModel,
    Training,
    as_votes,
    folds_of,
    looks_across,
    put_templates,
    restored_templates,
)
from kinfolk.collective.templates import Count, TemplateSet, Window, as_templates, set_known
from kinfolk.core.checkpoint import check_checkpoint, going_on, running
from kinfolk.core.data import check_labels
from kinfolk.core.modelfile import Functions, ModelFile, fits, restored
from kinfolk.core.settings import FLAG, NONE, check_settings, one_of, setting, whole
from kinfolk.core.threads import resolve_jobs
from kinfolk.errors import SettingError
from kinfolk.inference.chain import expected_correct, viterbi
from kinfolk.learning.crossfit import NOTHING, assign_folds
from kinfolk.learning.gain import Counted, Gain
from kinfolk.report.page import PathLike
from kinfolk.text import schemes
from kinfolk.text.batch import Batch, Confidence, Entity, entity_list, found_spans, token_weights
from kinfolk.text.calibration import loosened, temperature
from kinfolk.text.corpus import Corpus
from kinfolk.text.doubtful_labels import warn_of_labels
from kinfolk.text.explain import explain_document, one_document
from kinfolk.text.gain import document_counts, metric_of
from kinfolk.text.k_best import KBest, k_best_answers
from kinfolk.text.schemes import LabelCoding
from kinfolk.text.skip_edges import (
    FEW,
    SameWord,
    alone,
    alone_share,
    learned_skips,
    warn_without_neighbours,
    without_neighbours,
)
from kinfolk.text.tagger import LARGE_CORPUS, Tagger, TokenModel

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
USUAL_FOLDS, FEW_FOLDS = 3, 2
FAINT = 0.02  # a probability below it counts as 0


@dataclass(eq=False)
class TokenInstances(Instances):
    """Tokens as `stacking` learns from them, whole documents at a time."""

    batch: Batch
    coding: LabelCoding
    base_alone: bool  # whether the base answers for documents of one sentence
    held_out: HeldOut | None = None
    passed: set[int] = field(default_factory=set)  # levels for which passes alone were all of the training

    def learn(self, level: int, index: Array, aggregates: Array | None) -> Tagger:
        part, weights = self.batch.part(index, aggregates), None
        if self.weights is not None:
            first = np.unique(self.batch.corpus.token_sentences[index], return_index=True)[1]
            weights = self.weights[index][first]
        base: Tagger = self.bases[level]
        settings = base.get_params()
        if self.coding.inner is not None:
            settings["encoding"] = self.coding.inner  # a part of the documents must not choose another
        usual = settings["tolerance"]
        of_fold, early = len(index) < (self.fold >= 0).sum(), base.stops_early(len(self.labels))
        if of_fold:
            settings["tolerance"] = loosened(usual, early)
        stopped_by = None if of_fold or self.held_out is None or self.held_out.level != level else self.held_out
        held_out: dict[str, Any] = {} if stopped_by is None else {"X_dev": stopped_by.batch}
        model = type(base)(**settings)
        model._passes = self.enough_passes(level, of_fold)
        model.fit(part, sample_weight=weights, **held_out)
        if early and not of_fold and stopped_by is None and model.convergence_.status == "stopped":
            self.passed.add(level)
        model.tolerance = usual  # a model of a file is trained anew as this one was
        if stopped_by is not None:
            stopped_by.rise(model, self)
        return model

    def enough_passes(self, level: int, of_fold: bool) -> int | None:
        """Of a model whose like was trained by passes alone: on all folds, or one level below with fewer features."""
        if level in self.passed:
            return FEWER if of_fold else None
        above = level > 0 and level - 1 in self.passed and self.bases[level] is self.bases[level - 1]
        return ABOVE if above else None

    def proba(self, model: Tagger, index: Array, aggregates: Array | None) -> Array:
        return token_votes(model, self.batch.part(index, aggregates), self.coding, False)

    def aggregates(self, votes: Array, own: Array | None, index: Array) -> Array:
        return token_aggregates(self.templates, self.neighbourhood, votes, own, index)


@dataclass(eq=False)
class HeldOut:
    """Documents to score the levels on as they are trained: the batch as the level to be trained sees it."""

    batch: Batch
    model: StackedTagger
    level: int = 0

    def rise(self, tagger: Tagger, instances: TokenInstances) -> None:
        """To the level above the one that is trained now."""
        around = neighbourhood_of(self.batch.corpus, instances.coding, self.model)
        self.batch = received(
            self.model, instances.coding, instances.templates, around, self.batch, self.level, tagger, False
        )
        self.level += 1


def neighbourhood_of(corpus: Corpus, coding: LabelCoding, model: StackedTagger) -> Neighbourhood:
    unlabelled, jobs = corpus.with_labels(None, None), resolve_jobs(model.n_jobs)
    return Neighbourhood(corpus.n_tokens, len(coding.classes), {}, corpus=unlabelled, n_jobs=jobs)


def received(
    model: StackedTagger, coding: LabelCoding, templates: TemplateSet, around: Neighbourhood, batch: Batch, level: int,
    tagger: Tagger, forced: bool,
) -> Batch:  # fmt: skip
    """The batch that a trained level has seen, as the next one sees it."""
    table = token_votes(tagger, batch, coding, forced)
    votes = own = as_votes(table, model._ask, level, 0, 1)
    if model.known == "ceiling":
        votes = own.copy()
        set_known(votes, coding.known(batch.corpus))
    everyone, mine = np.arange(batch.corpus.n_tokens), own if model.own else None
    return replace(batch, extra=token_aggregates(templates, around, votes, mine, everyone))


def token_aggregates(
    templates: TemplateSet, neighbourhood: Neighbourhood, votes: Array, own: Array | None, index: Array
) -> Array:
    """float32 (m, q). Probabilities too small to matter count as 0, so that rows stay short."""
    mine = None if own is None else without_faint(own)
    return templates.rows(neighbourhood, without_faint(votes), index, mine).astype(np.float32, copy=False)


def without_faint(votes: Array) -> Array:
    """float32: half the memory to be filled, which is most of what aggregates take."""
    clear = padded(votes.astype(np.float32))
    clear[clear < FAINT] = 0
    return clear


def token_votes(tagger: Tagger, batch: Batch, coding: LabelCoding, forced: bool) -> Array:
    """(n, L) marginals, in the order of `coding`'s classes: a fold may lack some of them."""
    table = np.zeros((batch.corpus.n_tokens, len(coding.classes)))
    if batch.corpus.n_tokens:
        found = tagger._decoder().marginals(batch, forced)
        table[:, coding.classes.encode(tagger.coding_.classes.names)] = found
    return table


def estimate(training: Training, instances: TokenInstances) -> Array:
    """(n, L), cross-fitted predictions of who answers for each token: the last level, or the base."""
    found = training.estimate()
    if instances.base_alone:
        single = alone(instances.batch.corpus)[instances.batch.corpus.token_documents]
        found[single] = training.estimate_alone()[single]
    return found


def stacked_gain(
    training: Training, instances: TokenInstances, tables: tuple[Array, Array], n_folds: int | None = None
) -> Gain:
    """Of the last level over the base, by what both say of documents whose labels their models never saw; of both the
    valid labelling with most expected right labels. Of the first folds alone, where their number is given."""
    whole, coding, counted = instances.batch.corpus, instances.coding, Counted()
    last = training.scheme.n_folds if n_folds is None else n_folds
    asked = np.flatnonzero((instances.fold >= 0) & (instances.fold < last))
    corpus = whole.select(np.unique(whole.token_documents[asked]))
    allowed = schemes.transitions(coding.classes.names, coding.inner)
    chains = [expected_correct(table[asked], corpus.sentence_starts, *allowed) for table in tables]
    paths = [viterbi(potentials, resolve_jobs(instances.bases[0].n_jobs))[0] for potentials in chains]
    alone, together = (document_counts(coding, corpus, path) for path in paths)
    counted.add(alone, together, (paths[0] != paths[1]).sum())
    return counted.gain(metric_of(coding), "documents", training.scheme.n_folds)


def folds_to_choose_by(training: Training, instances: TokenInstances) -> int:
    """As many folds as it takes to ask about 50,000 tokens: three more models are trained for each."""
    asked = np.cumsum(np.bincount(instances.fold[instances.fold >= 0], minlength=training.scheme.n_folds))
    return min(int(np.searchsorted(asked, LARGE_CORPUS)) + 1, training.scheme.n_folds)


def cross_fitted(training: Training, instances: TokenInstances, n_folds: int) -> tuple[Array, Array]:
    """(n, L) by the base and by a level above it, of documents of the first folds, which have no part in either answer.

    The votes that the level is trained on are by models of two halves of the other documents, about each other. Those
    at hand are by models that have seen the hidden fold: a level that learns to trust them meets worse ones there. On
    held-out fifths of GENIA, where the level gains 0.8 points of F1, it seemed to lose 0.5 to 1.3 by two folds.
    """
    base = training.votes(0, NOTHING, true_labels=False)
    found, labelled = base.copy(), np.flatnonzero(instances.fold >= 0)
    for hidden in range(n_folds):
        mine = instances.fold[labelled] == hidden
        step = running().step("to choose by")
        found[labelled[mine]] = step.once(lambda: _hidden_by_level(training, instances, labelled, mine))  # noqa: B023
    if instances.base_alone:
        single = alone(instances.batch.corpus)[instances.batch.corpus.token_documents]
        found[single] = base[single]
    return base, found


def _hidden_by_level(training: Training, instances: TokenInstances, labelled: Array, mine: Array) -> Array:
    """What a level above the base says of tokens that are `mine`, trained on the other labelled ones as if these were
    all there are."""
    rest, documents = labelled[~mine], instances.batch.corpus.token_documents
    rng = np.random.default_rng(training.ask.seed)
    half = assign_folds(np.zeros(len(rest), np.int32), documents[rest], 2, rng)
    votes = np.zeros((len(documents), instances.n_votes))
    for asked in range(2):
        model = instances.learn(0, rest[half != asked], None)
        votes[rest[half == asked]] = instances.proba(model, rest[half == asked], None)
    level = instances.learn(1, rest, instances.aggregates(votes, votes if training.ask.own else None, rest))
    return instances.proba(level, labelled[mine], training.training_rows(1, labelled[mine]))


class Part(NamedTuple):
    """Documents of a batch, by the numbers of their tokens, and the tagger that labels them."""

    tagger: Tagger
    batch: Batch
    tokens: Array


class StackedDecoder:
    """Trained levels as one tagger asks its method. In a ceiling neighbours give their true labels; the base may answer
    for documents of one sentence, which have no neighbours beyond it."""

    def __init__(self, model: StackedTagger) -> None:
        self.model, self.coding = model, model.coding_
        self._made: tuple[Batch, bool, list[Part]] | None = None

    def parts(self, batch: Batch, forced: bool) -> list[Part]:
        """The batch as those see it who answer, together all of its tokens."""
        corpus, (base, last) = batch.corpus, (self.model.levels_[0], self.model.levels_[-1])
        by_base = alone(corpus) & (self.model.alone_ == "base" and last is not base)
        tokens = np.arange(corpus.n_tokens)
        if not by_base.any():
            return [Part(last, self.extended(batch, forced), tokens)]
        if by_base.all():
            return [Part(self.model._base_alone(), replace(batch, extra=None), tokens)]
        single = by_base[corpus.token_documents]
        few, most = np.flatnonzero(single), np.flatnonzero(~single)
        return [
            Part(self.model._base_alone(), batch.part(few), few),
            Part(last, self.extended(batch.part(most), forced), most),
        ]

    def extended(self, batch: Batch, forced: bool) -> Batch:
        """The batch as the last level sees it."""
        model, current = self.model, replace(batch, kept_rows=None, extra=None)
        around = neighbourhood_of(batch.corpus, self.coding, model)
        for level, tagger in enumerate(model.levels_[:-1]):
            current = received(model, self.coding, model.template_set_, around, current, level, tagger, forced)
        return current

    def paths(self, batch: Batch, forced: bool) -> NDArray[np.int32]:
        found = np.empty(batch.corpus.n_tokens, np.int32)
        for part in self._parts(batch, forced):
            found[part.tokens] = self._classes(part)[part.tagger._decoder().paths(part.batch, forced)]
        return found

    def marginals(self, batch: Batch, forced: bool) -> Array:
        table = np.zeros((batch.corpus.n_tokens, len(self.coding.classes)))
        for part in self._parts(batch, forced):
            table[part.tokens] = token_votes(part.tagger, part.batch, self.coding, forced)
        return table

    def entities(self, batch: Batch, path: NDArray[np.int32], forced: bool) -> list[Entity]:
        spans = found_spans(batch, self.coding, path)
        starts = np.array([span.start for span in spans], np.int64)
        confidence = Confidence(np.empty(len(spans)), np.empty(len(spans), bool))
        for part in self._parts(batch, forced):
            own = np.argsort(self._classes(part))[np.searchsorted(np.sort(self._classes(part)), path[part.tokens])]
            entities = part.tagger._decoder().entities(part.batch, own.astype(np.int32), forced)
            here = np.isin(starts, part.tokens)
            confidence.values[here] = [entity.confidence for entity in entities]
            confidence.exact[here] = [entity.exact for entity in entities]
        return entity_list(batch, spans, confidence)

    def k_best(self, batch: Batch, k: int, forced: bool) -> list[list[tuple[Array, float]]]:
        """For each sentence up to k labellings and their log-probabilities, as who answers for it lists them."""
        answers: list[list[tuple[Array, float]]] = [[] for _ in range(batch.corpus.n_sentences)]
        for part in self._parts(batch, forced):
            decoder, classes = part.tagger._decoder(), self._classes(part)
            if not hasattr(decoder, "k_best"):
                able = "LinearChainCRF, MEMM, MaxEnt or MixtureTagger, for k best labellings"
                raise SettingError("base", type(part.tagger).__name__, able)
            sentences = np.unique(batch.corpus.token_sentences[part.tokens]).tolist()
            for sentence, found in zip(sentences, decoder.k_best(part.batch, k, forced), strict=True):
                answers[sentence] = [(classes[path], log_p) for path, log_p in found]
        return answers

    def _classes(self, part: Part) -> NDArray[np.int32]:
        """The numbers of a tagger's classes among those of the model."""
        return self.coding.classes.encode(part.tagger.coding_.classes.names)

    def _parts(self, batch: Batch, forced: bool) -> list[Part]:
        """Made once for a batch, which is asked for labels and then for more."""
        if self._made is None or self._made[0] is not batch or self._made[1] != forced:
            made = self.parts(batch, forced)
            kept = [part._replace(batch=replace(part.batch, kept_rows={})) for part in made]
            self._made = batch, forced, kept
        return self._made[2]


# -- the model ----------------------------------------------------------------------------------------

TEMPLATES = (Window(3), Count(SameWord(capitalised=False, max_document_frequency=None, most_recent=None)))


@final
@dataclass(eq=False, repr=False)
class StackedTagger(StackedModel, TokenModel):
    """Tokens labelled with an eye to others of their document, by a tagger of your choice.

    `base` is a kinfolk tagger such as LinearChainCRF(). Without `templates`: a window of 3, and the other tokens of the
    document with the same word.

    A document of one sentence has no neighbours beyond it. Where less than half of the training sentences are such
    documents, the base answers for those (a level above would take their words for rare ones); where nine tenths are,
    and templates are the default, the base is all there is, and a warning says so.

    Learned by `fit`: `classes_`, `levels_` (the trained taggers), `template_set_`, `folds_`, and `alone_`, who
    answers for documents of one sentence, the "base" or the "last" level.
    """

    GONE: ClassVar[tuple[str, ...]] = ("features", "split", "samples")

    depth: int | None = setting(
        None,
        "levels above the base's own; 0 is the base alone. None: 1, unless documents that neither has seen say that "
        "the base alone is better, which the log tells",
        whole(0) | NONE,
    )
    folds: int | Sequence[int] | None = setting(
        None,
        "number of folds of cross-fitting, or the fold of each token. None: 3, or 2 where training stops early, as on "
        "more than 50,000 tokens, and `guard` or `depth=2` do not ask for more",
        FOLDS,
    )
    known: str = setting(
        "crossfit",
        'what others give in training and prediction: "crossfit" predictions, in training of models that have not seen '
        'them; "ceiling": true labels, even those to be predicted: the most that could be gained, no model',
        one_of("crossfit", "ceiling"),
    )

    calibrate: bool = setting(
        False,
        "whether probabilities are made as sure as they are right, by a temperature learned on folds of documents, at "
        "the cost of three short trainings",
        FLAG,
    )

    levels_: list[Tagger] = field(init=False)
    template_set_: TemplateSet = field(init=False)
    alone_: str = field(init=False)
    alone_temperature_: float = field(init=False, default=1.0)
    folds_: NDArray[np.int32] = field(init=False)

    @property
    def _scheme(self) -> str | None:
        return self.levels_[-1].scheme

    # -- learning -------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        X_dev: Any = None,
        y_dev: Any = None,
        words: Any = None,
        documents: Any = None,
        vectors: Any = None,
        vectors_dev: Any = None,
        checkpoint: PathLike | None = None,
    ) -> Self:
        """Train on a Corpus, on a list of such, or on sentences `X` with labels `y`.

        sample_weight     one number a sentence
        X_dev, y_dev      held-out data: each level is stopped by its own score on them, as by `fit` of the base, and
                          keeps its best weights; what it receives there are the predictions of the levels below. Models
                          of folds are trained without them
        words, documents  of feature dicts, as in `Tagger.fit`
        vectors           dense columns of tokens, as `Tagger.fit` takes them; every level sees them
        vectors_dev       the same for X_dev
        checkpoint        a file that `fit` goes on from if it was stopped, as in `Tagger.fit`
        """
        check_checkpoint(checkpoint)
        instances, depth = self._prepared(X, y, sample_weight, words, documents, vectors, bool(self.guard))
        held_out = Batch.held_out(X_dev, y_dev, instances.bases[0].scheme, vectors_dev)
        if held_out is not None:
            instances.held_out = HeldOut(held_out, self)
        given = instances.batch, held_out, instances.weights, instances.fold
        with going_on(checkpoint, self, *given), self._all_or_nothing():
            guards = self._guards(self.known, depth)
            training = self._trained(instances, self.known, depth, guards)
            chosen = self._gain_to_choose_by(training, instances)
            self.gain_ = self._strict_gain(training, instances) if guards else chosen
            self.alone_ = "base" if instances.base_alone else "last"
            self.folds_, self.coding_, self.template_set_ = instances.fold, instances.coding, instances.templates
            self.levels_ = training.models
            if chosen is not None and chosen.gain < 0:
                depth, self.levels_ = 0, self.levels_[:1]
                log.warning("StackedTagger: the base alone is kept, which is better on folds not seen: %s", chosen)
            self.alone_temperature_ = 1.0
            if self.calibrate:
                self._calibrate(training, instances, depth)
        if self.guard:
            self._tell_gain()
        elif self.gain_ is not None:
            log.info("StackedTagger: %s", self.gain_)
        return self

    @property
    def dealt(self) -> Any:
        return USUAL_FOLDS if self.folds is None else self.folds

    def _strict_gain(self, training: Training, instances: TokenInstances) -> Gain:
        """What a guard tells: of documents whose labels no model that had a part in the answer has seen."""
        return stacked_gain(training, instances, (training.estimate_alone(), estimate(training, instances)))

    def _gain_to_choose_by(self, training: Training, instances: TokenInstances) -> Gain | None:
        """At the cost of three more models for each fold asked; None where there is nothing to choose from, or too few
        documents to choose by."""
        chooses = self.depth is None and training.depth and self.known != "ceiling" and self.predictions == "proba"
        if not chooses or self.cross_fitting == "none" or training.scheme.n_folds < 2:
            return None
        n_folds, documents = folds_to_choose_by(training, instances), instances.batch.corpus.token_documents
        for hidden in range(n_folds):
            if len(np.unique(documents[(instances.fold >= 0) & (instances.fold != hidden)])) < 2:
                return None
        return stacked_gain(training, instances, cross_fitted(training, instances, n_folds), n_folds)

    def _calibrate(self, training: Training, instances: TokenInstances, depth: int) -> None:
        """Those who answer: the last level, over votes that are cross-fitted, and the base where it answers alone. What
        the base says to the level above stays as that level learned to read it."""
        batch, tokens = instances.batch, np.flatnonzero(instances.fold >= 0)

        def learned(level: int) -> float:
            return temperature(self.levels_[level], batch.part(tokens, training.training_rows(level, tokens)))

        if self.alone_ == "base" and depth:
            self.alone_temperature_ = learned(0)
        self.levels_[-1].make_milder(learned(depth))

    def cross_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        words: Any = None,
        documents: Any = None,
        vectors: Any = None,
    ) -> Array:
        """Predictions of the last level for the training tokens themselves, by models that never saw their labels: an
        honest score without a held-out part. (n, L), columns in the order `classes_` would have. Nothing is learned.
        """
        instances, depth = self._prepared(X, y, sample_weight, words, documents, vectors, estimate=True)
        training = self._trained(instances, self.known, depth, estimate=True)
        return estimate(training, instances)

    def _prepared(
        self, X: Any, y: Any, sample_weight: Any, words: Any, documents: Any, vectors: Any, estimate: bool
    ) -> tuple[TokenInstances, int]:
        """The tokens to learn from, and how deep. `estimate`: whether it is asked what models say of these very tokens
        that have not seen their labels."""
        check_settings(self)
        if self.base is None:
            raise SettingError.saying("base is missing: `StackedTagger(LinearChainCRF(), templates=[...])`")
        bases = self._bases()
        for base in bases:
            if not isinstance(base, Tagger):
                remedy = "for a scikit-learn classifier over the nodes of a graph there is StackedNodes"
                if hasattr(base, "linear_chain"):
                    remedy = "give its `linear_chain()`"
                raise SettingError("base", base, "a kinfolk tagger such as LinearChainCRF()", remedy)
        batch = Batch.of(X, y, bases[0].scheme, words, documents, vectors)
        corpus, encodings = batch.corpus, {base.encoding for base in bases}
        if len(encodings) > 1:
            raise SettingError.saying(
                f"the bases must work in one tag scheme; their encodings are {', '.join(sorted(encodings))}"
            )
        coding = LabelCoding.learn(corpus, bases[0].encoding)
        warn_of_labels(corpus)
        check_labels(len(coding.classes), "train MaxEnt, which looks at every token by itself")
        labels, n, ceiling = coding.encode(corpus), corpus.n_tokens, self.known == "ceiling"
        templates = TEMPLATES if self.templates is None else as_templates(self.templates)
        beyond = any(not isinstance(template, Window) or template.template is not None for template in templates)
        depth = _depth(self, batch) if beyond and not ceiling else self.n_levels
        few = self.folds is None and depth == 1 and not estimate and bases[0].stops_early(n)
        fold = self._document_folds(labels, corpus, FEW_FOLDS if few else None)
        unlabelled, jobs = corpus.with_labels(None, None), resolve_jobs(self.n_jobs)
        neighbourhood = Neighbourhood(n, len(coding.classes), {}, corpus=unlabelled, n_jobs=jobs)
        labelled = replace(neighbourhood, corpus=corpus)  # what is learned of words may look at labels
        template_set = TemplateSet.learn(templates, labelled)
        if len(template_set.of_predictions) < len(template_set.templates):
            raise SettingError.saying(
                "`of='features'` is for nodes: tokens have features of their neighbours by their own templates"
            )
        weights = None
        if sample_weight is not None:
            weights = token_weights(batch, labels, coding.classes, None, sample_weight)
        revealed = labels if ceiling else np.full(n, -1, np.int32)
        base_alone = beyond and not ceiling and alone_share(corpus) < FEW
        instances = TokenInstances(
            labels, revealed, fold, weights, 1, neighbourhood, template_set, bases, batch.sharing(), coding, base_alone
        )
        if few and looks_across(instances):  # then more than one fold has to be hidden at a time
            instances.fold = self._document_folds(labels, corpus, None)
        return instances, depth

    def _document_folds(self, labels: Array, corpus: Corpus, dealt: int | None) -> NDArray[np.int32]:
        """The fold of every token: that of its document, -1 in documents without any label. `dealt`: how many folds, in
        the place of those set."""
        documents, has_label = corpus.token_documents, np.zeros(corpus.n_documents, bool)
        has_label[documents[labels >= 0]] = True
        by_document = np.where(has_label, 0, -1).astype(np.int32)
        groups = np.arange(corpus.n_documents)
        return folds_of(self, by_document, groups, "auto", unit="documents", dealt=dealt)[documents]

    # -- prediction -----------------------------------------------------------------------------------

    def _decoder(self, weights: Any = None) -> StackedDecoder:
        return StackedDecoder(self)

    def predict_k_best(self, X: Any, k: int, forced: bool = False, *, vectors: Any = None) -> KBest:
        """For each sentence the k best labellings of the last level, (labels, log-probability), best first: of a chain
        over what the levels below say, exactly those that are most probable in it. Where the base answers for documents
        of one sentence, they are its own; over MixtureTagger see its `predict_k_best`."""
        return k_best_answers(self, X, k, forced, vectors)

    def _base_alone(self) -> Tagger:
        """The base as it answers for documents of one sentence."""
        base = self.levels_[0]
        if self.alone_temperature_ != 1.0:
            base = copy(base)
            base.make_milder(self.alone_temperature_)
        return base

    def explain(
        self, X: Any, document: int | None = None, token: int | None = None, *, report: PathLike | None = None,
        vectors: Any = None,
    ) -> Any:  # fmt: skip
        """Why a token has its label: what its features, what it received of others, and the labels beside it add to the
        score of the answer, as `Tagger.explain`, in the last level."""
        self._require_fitted()
        one = one_document(Batch.of(X, vectors=vectors), document, token)
        ((tagger, batch, _),) = StackedDecoder(self).parts(one, False)
        batch = replace(batch, extra_names=() if batch.extra is None else self._aggregate_names())
        return explain_document(tagger, batch, document, token, report, type(self).__name__)

    def _aggregate_names(self) -> list[str]:
        """Of what a token receives beside its features."""
        names = self.coding_.classes.names
        return self.template_set_.names(names, ()) + [f"own prediction={name}" for name in names if self.own]

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        """The taggers are models within the model."""
        state = ModelFile({**self.head(), "labels": self.coding_.to_state()})
        levels = [state.add(f"level.{i}", level.to_state()) for i, level in enumerate(self.levels_)]
        several = isinstance(self.base, list | tuple)
        alone = {"alone": self.alone_, "alone_temperature": self.alone_temperature_}
        put_templates(state, self.template_set_, known=self.known, levels=levels, bases=several, **alone)
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        self.coding_, spec = LabelCoding.from_state(file.header["labels"]), file.header["stacked"]
        self.levels_ = [
            restored(file.part(f"level.{i}", level), functions, trusted) for i, level in enumerate(spec["levels"])
        ]
        self.template_set_ = restored_templates(file, functions, learned_skips)
        self.templates, self.known = list(self.template_set_.templates), spec["known"]
        self.alone_ = spec.get("alone", "last")  # files of an earlier make do not say
        self.alone_temperature_ = float(spec.get("alone_temperature", 1.0))
        fits(0 < self.alone_temperature_ < np.inf)
        n_labels = len(self.coding_.classes)
        fits(self.template_set_.n_votes == n_labels and len(self.levels_) >= 1 and self.alone_ in ("base", "last"))
        received = self.template_set_.width + (n_labels if self.own else 0)
        for number, level in enumerate(self.levels_):
            fits(isinstance(level, Tagger) and {*level.coding_.classes.names} <= {*self.coding_.classes.names})
            fits(level.n_extra == (received if number else 0))  # levels above the first have weights for aggregates
        bases = [type(level)(**level.get_params()) for level in self.levels_]
        self.base = bases if spec["bases"] else bases[-1]


def _depth(model: StackedTagger, batch: Batch) -> int:
    """0 where there is nothing to aggregate: votes of the same sentence alone say little that its features did not."""
    if not model.n_levels or not without_neighbours(batch.corpus):
        return model.n_levels
    reason = "a token has no neighbours beyond its sentence"
    dicts = batch.items is not None
    if model.templates is None:
        warn_without_neighbours(
            batch.corpus, f"{reason}, and the base alone is trained", dicts=dicts,
            otherwise=", or name templates, such as Window(3), to stack within sentences",
        )  # fmt: skip
        return 0
    warn_without_neighbours(batch.corpus, reason, dicts=dicts)
    return model.n_levels
