"""The face that all models of tokens share: fit, predict, probabilities, entities, scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.checkpoint import check_checkpoint, going_on
from kinfolk.core.data import Column, Relational, check_labels, class_weights, label_name
from kinfolk.core.modelfile import Functions, ModelFile, Saved, fits, names_in
from kinfolk.core.settings import FLAG, NONE, NOT_NEGATIVE, SCHEMES, check_settings, one_of, setting, whole
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import Callback, Convergence, Optimised, TrainingPlan, UntilStopped, observed
from kinfolk.errors import InputError
from kinfolk.learning.loglinear import NamedWeights, named_weights
from kinfolk.report.page import PathLike, check_report
from kinfolk.text import schemes
from kinfolk.text.batch import Batch, Entity, FeatureSet, token_weights
from kinfolk.text.calibration import scaled, temperature
from kinfolk.text.corpus import Corpus
from kinfolk.text.dicts import DictFeatures
from kinfolk.text.doubtful_labels import warn_of_labels
from kinfolk.text.explain import NamedFeatures, by_features, explain_document, one_document
from kinfolk.text.extraction import Templates, TokenFeatures, for_corpus, restored_features
from kinfolk.text.schemes import LabelCoding, check_encoding
from kinfolk.text.scores import EntityScores, span_scores, spans_to_judge, token_accuracy, write_scores

# -- what a tagger and its method say to each other: what is learned from, and what is asked after training ---

Array = NDArray[Any]


class TokenDecoder(Protocol):
    """What a tagger asks of its method once it is trained; labels known beforehand are kept if `forced`."""

    def paths(self, batch: Batch, forced: bool) -> NDArray[np.int32]: ...

    def marginals(self, batch: Batch, forced: bool) -> Array: ...

    def entities(self, batch: Batch, path: NDArray[np.int32], forced: bool) -> list[Entity]: ...


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """What a method learns from: tokens as instances, rows of label-pair features, weights of tokens; how; with what
    to start from, what to be scored on, and whom to report to."""

    corpus: Corpus
    data: Relational
    pair_rows: Any
    weights: Array
    plan: TrainingPlan
    before: NamedWeights | None
    held_out: Batch | None
    callback: UntilStopped | None
    dicts: bool = False  # whether features came as dicts, without words


# -- the face of every model of tokens --------------------------------------------------------------------


@dataclass(kw_only=True, eq=False, repr=False)
class TokenModel(Saved):
    """Abstract: what every model of tokens answers, once it is trained."""

    KIND: ClassVar[str] = "tokens"

    coding_: LabelCoding = field(init=False)

    @abstractmethod
    def _decoder(self, weights: Any = None) -> TokenDecoder:
        """The model from the side of prediction, with other weights than the learned ones if given."""

    @property
    @abstractmethod
    def _scheme(self) -> str | None:
        """The tag scheme of labels given as lists."""

    @property
    def classes_(self) -> Array:
        """The labels that columns of `predict_proba` stand for, of the type of the labels trained on and sorted; of
        entity tags in the scheme the model works in."""
        self._require_fitted()
        return self.coding_.classes.array()

    def predict(
        self, X: Any, forced: bool = False, *, words: Any = None, documents: Any = None, vectors: Any = None
    ) -> list[list[Any]]:
        """One list of labels a sentence, in the type and the tag scheme of the training data; of a list of corpora a
        list of these for each. To numpy it is one row of objects, so that `cross_val_predict` works.

        With `forced`, tokens of the corpus that have a label keep it, and the others are labelled given it. `words` and
        `documents` of feature dicts, and `vectors`, are given as to `fit`.
        """
        self._require_fitted()
        batch = Batch.of(X, words=words, documents=documents, vectors=vectors)
        path = self._decoder().paths(batch, forced)
        labels = self.coding_.decode(path, batch.corpus.sentence_starts)
        rows = batch.corpus.with_labels(labels, self.coding_.outer).label_rows()
        return batch.for_each(rows, list)

    def predict_proba(
        self, X: Any, forced: bool = False, *, words: Any = None, documents: Any = None, vectors: Any = None
    ) -> list[Array]:
        """One array (tokens, classes) of label probabilities a sentence; columns as `classes_`.

        Exact for MaxEnt, MEMM, the linear-chain CRF and a mixture; a skip-chain CRF approximates them by belief
        propagation, and a stacked tagger gives those of its last level.
        """
        self._require_fitted()
        batch = Batch.of(X, words=words, documents=documents, vectors=vectors)
        table = self._decoder().marginals(batch, forced)
        tables = np.split(table, batch.corpus.sentence_starts[1:-1]) if batch.corpus.n_sentences else []
        return batch.for_each(tables, lambda: np.empty((0, table.shape[1])))

    def predict_entities(
        self, X: Any, forced: bool = False, *, words: Any = None, documents: Any = None, vectors: Any = None
    ) -> list[Entity]:
        """The predicted entities, each with the probability that this very entity is there.

        Exact along a chain, and under a mixture but for the few entities whose skip edges would take too much work: for
        those the tokens outside that its own look at count as independent of each other. A skip-chain CRF approximates
        it by belief propagation. `Entity.exact` says which is which. Of a model of labels that are no spans an error.
        """
        from kinfolk.text.running import check_finds_entities

        self._require_fitted()
        check_finds_entities(self)
        return self._entities(Batch.of(X, words=words, documents=documents, vectors=vectors), forced)

    def _entities(self, given: Batch, forced: bool) -> list[Entity]:
        batch, decoder = replace(given, kept_rows={}), self._decoder()  # asked for twice, extracted once
        return decoder.entities(batch, decoder.paths(batch, forced), forced)

    def entities(self, X: Any, tokenise: str = "auto") -> list[Any]:
        """The entities of a text, one document, with the characters they stand on: a list of PlacedEntity. Of a list of
        texts a list of these for each.

        Sentences and tokens are found in the text; documents are labelled whole. A model that reads more than words
        (parts of speech) cannot answer for text alone, and says so.

        tokenise   "auto": cut as the words of the training data are, full stops of Mr. and the like kept with them; or
                   "words", "penn", "fine", "blanks" (`kinfolk.text.tokenise`)
        """
        from kinfolk.text.running import text_entities

        self._require_fitted()
        return text_entities(self, X, tokenise)

    def tag(
        self,
        tokens: Any,
        *,
        word: str = "word",
        sentence: str | None = "sentence",
        document: str | None = "document",
        label: str = "label",
        probability: str | None = None,
        engine: Any = None,
        into: PathLike | None = None,
    ) -> Any:
        """A table of tokens, a row a token in the order of the text, given back as what it came as (pandas, polars,
        Arrow, DuckDB, Spark, a dict of lists), its columns and order kept, with the label of each.

        tokens        the table; or Parquet and CSV files, by a path or a glob: "corpus/*.parquet"
        word          its column of words; other columns of the training data, such as "pos", go by their names
        sentence      the column in which another value begins another sentence, told of every token; None: a document
                      is one sentence
        document      the column that names the document of a token; None: each sentence is a document of its own
        label         the new column of labels, as `predict` gives them
        probability   the new column of their probabilities, each by itself, as in `predict_proba`; None: no such column
        engine        where the table is held and worked on (docs/engines.md), with the same answers: None or Threads(),
                      memory; DuckDB(memory_limit="2GB"), a database on disk; Spark(session), a cluster
        into          a Parquet file to write in the place of an answer, all of it or nothing; needed for files
        """
        from kinfolk.text.in_engine import NewColumns, TokenTable, tag_tokens

        columns, new = TokenTable(word, sentence, document), NewColumns(label, probability)
        return tag_tokens(self, tokens, columns, new, engine, into)

    def tag_file(
        self,
        path: Any,
        into: PathLike,
        *,
        text: bool = False,
        forced: bool = False,
        scheme: str | None = "auto",
        separator: str | None = None,
        documents: str = "auto",
        checkpoint: PathLike | None = None,
    ) -> None:
        """Label a column file or a text of any length, a few megabytes at a time, documents whole: the columns and the
        predicted label last, as `write_conll` writes them, with the `separator` that is given for the file.

        path        the file; "-" is standard input; gzip is unpacked. The columns are those of the training data; one
                    of labels may follow
        into        the file to write, all of it or nothing; "-" is standard output, to which pieces go as they are done
        text        whether the file is a text, a sentence a line (`read_text`), and not of columns (`read_conll`)
        forced      tokens that have a label keep it
        scheme, separator, documents   as `read_conll` has them. Of a pipe that does not show in its first megabytes how
                    it tells documents apart a temporary copy is made, unless `documents` says it
        checkpoint  a file by which the same call goes on behind the last piece that was written, if it was stopped; it
                    is removed when all is written
        """
        from kinfolk.text.streams import tag_file

        how: dict[str, Any] = {"scheme": scheme, "separator": separator, "documents": documents}
        tag_file(self, path, into, text=text, forced=forced, checkpoint=checkpoint, **how)

    # -- scores ---------------------------------------------------------------------------------------

    def score(self, X: Any, y: Any = None, *, words: Any = None, documents: Any = None, vectors: Any = None) -> float:
        """Entity F1 as conlleval counts it, from 0 to 1; token accuracy when the labels are not spans. Labels that
        training never saw count as misses, with a warning of the logger "kinfolk"."""
        self._require_fitted()
        batch = Batch.of(X, y, self._scheme, words, documents, vectors)
        return self._score_path(batch, self._decoder().paths(batch, forced=False), warns=True)

    def evaluate(
        self,
        X: Any,
        y: Any = None,
        report: PathLike | None = None,
        *,
        words: Any = None,
        documents: Any = None,
        vectors: Any = None,
    ) -> tuple[EntityScores | None, float]:
        """Entity scores (None when labels are not spans) and token accuracy, in percent.

        report   also write a page: scores, calibration, confusion, the worst mistakes, and how training went
        """
        self._require_fitted()
        check_report(report)
        batch, decoder = Batch.of(X, y, self._scheme, words, documents, vectors), self._decoder()
        batch = batch if report is None else replace(batch, kept_rows={})
        path = decoder.paths(batch, forced=False)
        answer = self._evaluate_path(batch, path, warns=True)
        if report is not None:
            write_scores(report, self, batch, decoder, path, answer)
        return answer

    def _score_path(self, batch: Batch, path: NDArray[np.int32], warns: bool = False) -> float:
        entities, accuracy = self._evaluate_path(batch, path, warns)
        return (accuracy if entities is None else entities.f1) / 100

    def _evaluate_path(
        self, batch: Batch, path: NDArray[np.int32], warns: bool = False
    ) -> tuple[EntityScores | None, float]:
        """`warns`: of labels that training never saw."""
        gold = self.coding_.gold(batch.corpus, warns)
        accuracy = token_accuracy(gold.codes, path)
        if self.coding_.inner is None:
            return None, accuracy
        guess = Column(path, self.coding_.classes.names)
        starts, inner = batch.corpus.sentence_starts, self.coding_.inner
        truth, found = (schemes.spans(column, starts, inner) for column in (gold, guess))
        return span_scores(*spans_to_judge(truth, found, gold.codes >= 0)), accuracy


# -- how the log-linear ones learn --------------------------------------------------------------------------

LARGE_CORPUS = 50_000  # tokens; beyond it features seen once are left out, and training stops early


@dataclass(kw_only=True, eq=False, repr=False)
class Tagger(TokenModel, Optimised):
    """Abstract; MaxEnt, MEMM, LinearChainCRF, SkipChainCRF and MixtureTagger are its final classes.

    Learned by `fit`: `classes_`, `weights_`, `convergence_` (status, objective, iterations), `features_`.
    """

    EARLY: ClassVar[bool] = True  # whether it answers as well when large corpora are trained on by a few passes

    tolerance: float | str = setting(  # type: ignore[assignment]  # words beside numbers
        "auto",
        '"early": a few stochastic passes, whose mean weights answer as well as the optimum or better, in a part of '
        "its time. A number: the optimum, by an optimiser that stops when 5 iterations lowered the objective by less, "
        'relative (0.00015 is close). "auto": early for a corpus of more than 50,000 tokens, else 0.00015, as always '
        "for SkipChainCRF. With `l1`, vectors, `transition_templates`, held-out data, or features too few to learn the "
        "training data by heart the optimiser runs in any case",
        NOT_NEGATIVE | one_of("auto", "early"),
    )
    templates: str | Templates = setting(
        "sentence",
        '"sentence", "document" or "letters" (sets of features, each with those of the one before), or a list of '
        'feature templates, in which such a name may stand for its set: ["sentence", word[-3]]',
        in_file=False,
    )
    min_count: int | str = setting(
        "auto",
        'features seen less often in training are left out; "auto": 1, or 2 for a corpus of more than 50,000 tokens, '
        "where it halves the weights at the same accuracy",
        whole(1) | one_of("auto"),
    )
    scheme: str | None = setting(
        "auto",
        'tag scheme of labels given as lists; "auto" finds it; None: they are no spans. A Corpus knows its own',
        one_of("auto", *SCHEMES) | NONE,
    )
    encoding: str = setting(
        "auto",
        'tag scheme to work in; "auto": the data\'s (BIO for IOB1 without unknown labels)',
        one_of("auto", *SCHEMES),
    )
    transition_templates: Templates | None = setting(
        None, "features that speak of a pair of labels instead of one", in_file=False
    )
    constrain: bool = setting(True, "never emit a tag sequence that breaks the scheme", FLAG)
    vector_l2: float = setting(
        1.0,
        "strength of the ridge on the weights of vectors (`Corpus.with_vectors`, `fit(X, y, vectors=array)`), whose "
        "columns are standardised",
        NOT_NEGATIVE,
    )
    warm_start: bool = setting(False, "`fit` starts from the weights of the previous `fit`", FLAG)
    calibrate: bool = setting(
        False,
        "whether probabilities are made as sure as they are right, by a temperature learned on folds of documents "
        "(`temperature_`), at the cost of three short trainings",
        FLAG,
    )

    features_: FeatureSet = field(init=False)
    pair_features_: TokenFeatures | None = field(init=False)
    columns_: tuple[str, ...] = field(init=False)
    weights_: Any = field(init=False)
    convergence_: Convergence = field(init=False)
    temperature_: float = field(init=False, default=1.0)
    _passes: int | None = field(init=False, default=None)  # so many will do, as a stack says of its models

    @abstractmethod
    def _train(self, training_set: TrainingSet) -> None:
        """Learn `weights_`, and say in `convergence_` how it went."""

    @property
    def _scheme(self) -> str | None:
        return self.scheme

    # -- learning -------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        X_dev: Any = None,
        y_dev: Any = None,
        sample_weight: Any = None,
        callback: Callback | None = None,
        *,
        words: Any = None,
        documents: Any = None,
        vectors: Any = None,
        vectors_dev: Any = None,
        checkpoint: PathLike | None = None,
    ) -> Self:
        """Train on a Corpus, on a list of such, or on sentences `X` with labels `y`. None and NaN ("?" in a file) are
        unknown labels.

        X_dev, y_dev    held-out data: scored every `dev_every` iterations; training stops after `patience`
                        scores without a new best, and the best weights are kept. Labels that are not in X count as
                        misses
        sample_weight   one number a sentence; one a corpus, of a list of corpora
        callback        receives a Progress after each pass and iteration; returning True stops
        words           of feature dicts: a list of words for each sentence, by which models that look beyond the
                        sentence know the same word elsewhere
        documents       which sentences are one document: their number in each, or its name for each sentence, as in
                        Corpus.from_sentences. Without, each sentence is a document of its own
        vectors         dense columns of tokens, such as embeddings, beside what is said of them otherwise: an array
                        (tokens, columns), or one such array a sentence. A Corpus may have its own (`with_vectors`)
        vectors_dev     the same for X_dev
        checkpoint      a file that what was done so far is written to every quarter of a minute: `fit` with the same
                        one goes on where it was stopped, and ends with the same weights. It stays there when `fit` is
                        done; delete it once the model is saved
        """
        check_settings(self)
        check_checkpoint(checkpoint)
        jobs = resolve_jobs(self.n_jobs)
        batch = Batch.of(X, y, self.scheme, words, documents, vectors)
        held_out = Batch.held_out(X_dev, y_dev, self.scheme, vectors_dev)
        before = named_weights(self) if self.warm_start and self.__sklearn_is_fitted__() else None
        coding = LabelCoding.learn(batch.corpus, self.encoding)
        self._check_labels(coding)
        if batch is not X:  # which a part of the training data is, of a stack, a pool or a guard
            warn_of_labels(batch.corpus)
        if held_out is not None:
            coding.gold(held_out.corpus, warns=True)  # what cannot be scored is said now, not in the midst of training
        features, pair_features = self._new_features(batch)
        rows = batch.learn(features, jobs)
        pair_rows = None if pair_features is None else batch.learn(pair_features, jobs, pairs=True)
        data = Relational(rows, coding.encode(batch.corpus), coding.classes, {}, batch.corpus.token_documents)
        weights = token_weights(batch, data.labels, coding.classes, self.class_weight, sample_weight)
        plan = TrainingPlan.of(self, jobs)
        early = self.stops_early(batch.corpus.n_tokens)
        plan = replace(plan, dense_l2=float(self.vector_l2), early=early, passes=self._passes)
        given = (data, pair_rows, weights, batch, held_out, before)
        with (
            going_on(checkpoint, self, *given),
            self._all_or_nothing(),
            observed(callback, self.verbose, plan.tolerance) as watcher,
        ):
            self.features_, self.pair_features_, self.coding_ = features, pair_features, coding
            self.columns_ = tuple(batch.corpus.columns)
            kept = None if held_out is None else replace(held_out, kept_rows={})  # its features are extracted once
            dicts = batch.items is not None
            self._train(TrainingSet(batch.corpus, data, pair_rows, weights, plan, before, kept, watcher, dicts))
            self.temperature_ = 1.0
            if self.calibrate:
                self.make_milder(temperature(self, batch, sample_weight))
            self._after_training(batch, sample_weight, held_out)
        return self

    def _check_labels(self, coding: LabelCoding) -> None:
        """An error where labels are too many for the pairs of them that the model looks at."""
        check_labels(len(coding.classes), "train MaxEnt, which looks at every token by itself")

    def _after_training(self, batch: Batch, sample_weight: Any, held_out: Batch | None) -> None:
        """What a model still measures once it is trained, by what `fit` was given."""

    def stops_early(self, n_tokens: int) -> bool:
        """Whether stochastic passes are all of its training on so many tokens."""
        return self.tolerance == "early" or (self.EARLY and self.tolerance == "auto" and n_tokens > LARGE_CORPUS)

    def make_milder(self, by: float) -> None:
        """Divide all scores, as they were learned, by a temperature."""
        self.weights_, self.temperature_ = scaled(self.weights_, by / self.temperature_), by

    def _new_features(self, batch: Batch) -> tuple[FeatureSet, TokenFeatures | None]:
        least = self.min_count
        if isinstance(least, str):  # "auto"
            least = 1 if batch.corpus.n_tokens <= LARGE_CORPUS else 2
        if batch.items is not None:
            if self.transition_templates is not None:
                raise InputError("transition_templates need a Corpus or sentences of words, not feature dicts")
            return DictFeatures(least), None
        templates = for_corpus(self.templates, batch.corpus)
        pairs = self.transition_templates
        return TokenFeatures(templates, least), None if pairs is None else TokenFeatures(pairs, least)

    def _dev_scorer(self, held_out: Batch | None) -> Callable[[Any], float] | None:
        if held_out is None:
            return None
        return lambda weights: self._score_path(held_out, self._decoder(weights).paths(held_out, forced=False))

    # -- explanation ----------------------------------------------------------------------------------

    def explain(
        self, X: Any, document: int | None = None, token: int | None = None, *, report: PathLike | None = None,
        vectors: Any = None,
    ) -> Any:  # fmt: skip
        """Why a token has its label: what its features, and the labels beside it, add to the score of the answer; of a
        mixture each parent, its weight, what it predicts, and its exact share of the answer.

        document, token   numbers from 0, the token within its document (None: all of them, as a list); parents are
                          numbered the same way
        report            also write a page about the document, to look at and click through
        """
        self._require_fitted()
        one = one_document(Batch.of(X, vectors=vectors), document, token)
        return explain_document(self, one, document, token, report, type(self).__name__)

    def _explanations(self, batch: Batch, path: Any, marginals: Array, tokens: Sequence[int]) -> Sequence[Any]:
        rows, names = batch.rows(self.features_, resolve_jobs(self.n_jobs)), self.features_.names()
        columns = self.features_.vectors
        names = names[: len(names) - (0 if columns is None else columns.width)]
        weights = NamedFeatures(rows, [*names, *batch.extra_names], columns, *self._score_parts())
        return by_features(batch, path, marginals, tokens, weights, self.coding_)

    def _score_parts(self) -> tuple[Array, Array | None, Array | None]:
        """Weights (F, L) of the features of a token, and scores (L, L) of the labels before and behind it (rows) with
        its own; None: they have no say."""
        raise NotImplementedError

    def _long_edges(self, batch: Batch) -> list[tuple[int, int, str]]:
        """(token, token it looks at, relation), beyond the chain."""
        return []

    # -- model files ----------------------------------------------------------------------------------

    @property
    def n_extra(self) -> int:
        """Columns behind those of the features that there are weights for: what a stacked level receives."""
        return 0

    def to_state(self) -> ModelFile:
        """Feature sets are kept as what templates became in training."""
        state = ModelFile(
            {**self.head(), "labels": self.coding_.to_state(), "convergence": self.convergence_.for_file()}
        )
        if isinstance(self.class_weight, Mapping):
            named = {label_name(label): weight for label, weight in self.class_weight.items()}
            state.header["settings"]["class_weight"] = named
        pairs = self.pair_features_
        state.header["templates_name"] = self.templates if isinstance(self.templates, str) else None
        state.header["columns"], state.header["temperature"] = list(self.columns_), self.temperature_
        state.header["features"] = state.add("node", ModelFile(self.features_.spec(), *self.features_.state()))
        state.header["transition_features"] = (
            None if pairs is None else state.add("pair", ModelFile(pairs.spec(), *pairs.state()))
        )
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        header = file.header
        self.coding_ = LabelCoding.from_state(header["labels"])
        classes = self.coding_.classes
        if isinstance(self.class_weight, Mapping) and classes.type != "str":
            self.class_weight = {classes[classes.get(name)]: weight for name, weight in self.class_weight.items()}
        node, pair = restored_features(file.part("node", header["features"]), functions, trusted), None
        if header["transition_features"] is not None:
            found = restored_features(file.part("pair", header["transition_features"]), functions, trusted)
            pair = found if isinstance(found, TokenFeatures) else None
            fits(pair is not None)
        self.features_, self.pair_features_, self.columns_ = node, pair, names_in(header["columns"])
        self.templates = header["templates_name"] or (node.templates if isinstance(node, TokenFeatures) else "sentence")
        self.transition_templates = None if pair is None else pair.templates
        self.convergence_ = Convergence.from_file(header["convergence"])
        self.temperature_ = float(header.get("temperature", 1.0))  # files of an earlier make have none
        fits(0 < self.temperature_ < np.inf)

    def _check_settings(self) -> None:
        super()._check_settings()
        check_encoding(self.encoding)
        classes = self.coding_.classes
        class_weights(np.arange(len(classes), dtype=np.int32), classes, self.class_weight)


def extra_columns(file: ModelFile) -> int:
    """How many a file says there are."""
    extra = file.header.get("extra", 0)
    fits(type(extra) is int and extra >= 0)
    return int(extra)
