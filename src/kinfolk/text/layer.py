"""Tokens labelled by the probabilities of some other model, and by the company they keep.

Candidates, pooled by their log-loss on documents that they have not seen (`learning.pooling`):

    given                  the probabilities as they came
    company                a linear-chain CRF that sees of a token: what was given of it, of those around it, and of the
                           others with the same word in the document
    company and features   the same, with features of its own
    mixture                where asked for, a mixture of parents (`collective.given_mixture`): a token follows what was
                           given of it, or the label of the one before it, behind it, or of others with its word
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from kinfolk.collective.given import Given, doubt, warn_of_in_sample, warn_of_less_sure
from kinfolk.collective.given_mixture import GivenMixture
from kinfolk.collective.layer import GIVEN, CollectiveLayer, LayerExplanation, explained
from kinfolk.collective.relations import Neighbourhood
from kinfolk.collective.stacking import put_templates, restored_templates
from kinfolk.collective.templates import Count, TemplateSet, Window, set_known
from kinfolk.core.checkpoint import check_checkpoint, going_on, running
from kinfolk.core.data import check_labels, read_only
from kinfolk.core.modelfile import Functions, ModelFile, fits, restored
from kinfolk.core.row_index import refuse_other_order
from kinfolk.core.settings import FLAG, NONE, check_settings, setting, whole
from kinfolk.core.threads import resolve_jobs
from kinfolk.core.training import speaker
from kinfolk.errors import InputError
from kinfolk.inference.chain import Potentials, span_probabilities
from kinfolk.learning.gain import Counted, Gain
from kinfolk.learning.pooling import log_probabilities, pool_weights, pooled
from kinfolk.report.page import PathLike
from kinfolk.text import schemes
from kinfolk.text.attributes import short_shape
from kinfolk.text.batch import Batch, Confidence, Entity
from kinfolk.text.chain import FittedDecoder, LinearChainCRF, only_known
from kinfolk.text.corpus import Corpus
from kinfolk.text.doubtful_labels import warn_of_labels
from kinfolk.text.gain import document_counts, metric_of
from kinfolk.text.schemes import LabelCoding
from kinfolk.text.scores import EntityScores
from kinfolk.text.skip_edges import SameWord, learned_skips
from kinfolk.text.stacked import token_aggregates, token_votes
from kinfolk.text.tagger import TokenModel

Array = NDArray[Any]
COMPANY, FEATURES, MIXTURE = "company", "company and features", "mixture"
PARENTS = 3  # relations of the mixture: before, behind, same word
MANY = 100_000  # tokens from which on two folds will do
SLIGHT = 0.01  # the least probability whose logarithm counts
WITHIN = (Window(3),)
BEYOND = (Window(3), Count(SameWord(capitalised=False, max_document_frequency=None, most_recent=None)))
BY_LETTERS = {"E": ("IOBES",), "S": ("IOBES",), "L": ("BILOU",), "U": ("BILOU",)}


def coding_of(corpus: Corpus, given: Given) -> LabelCoding:
    """Labels in the tag scheme of the classes given; where letters leave two, in the one by which they are likelier.
    Labels with gaps stay as they are: a gap hides whether an entity goes on."""
    if corpus.scheme is None or corpus.labels is None:
        return LabelCoding.learn(corpus, "auto")
    letters = {name[0] for name in given.names if name[1:2] in ("-", "")}
    either = ("IOB1",) if "I" in letters and "B" not in letters else ("BIO", "IOB1")
    encodings = next((BY_LETTERS[one] for one in sorted(letters) if one in BY_LETTERS), either)
    if (corpus.labels.codes < 0).any():
        if corpus.scheme not in encodings:
            remedy = f"give probabilities of {corpus.scheme} tags"
            if corpus.scheme == "BIO":
                remedy += " (those of S- and U- added to B-, of E- and L- to I-)"
            raise InputError(
                f"some tokens have no label, and labels with gaps cannot be rewritten from {corpus.scheme} to "
                f"{' or '.join(encodings)}, the scheme of the classes given: {remedy}",
                *corpus.line_of(int(corpus.labels.codes.argmin())),
            )
        encodings = (corpus.scheme,)
    found = [LabelCoding.learn(corpus, encoding) for encoding in encodings]
    return found[0] if len(found) == 1 else found[int(np.argmax(_likelihoods(corpus, given, found)))]


def _likelihoods(corpus: Corpus, given: Given, codings: Sequence[LabelCoding]) -> list[float]:
    """Of labels that the model given knows, whichever way they are written."""
    labels = [coding.encode(corpus) for coding in codings]
    known = np.ones(corpus.n_tokens, bool)
    for coding, codes in zip(codings, labels, strict=True):
        known &= np.array([*(name in given.names for name in coding.classes.names), False])[codes]
    tables = [given.aligned(coding.classes, tells=False)[known] for coding in codings]
    chosen = [table[np.arange(len(table)), codes[known]] for table, codes in zip(tables, labels, strict=True)]
    return [float(np.log(np.maximum(one, 1e-6)).sum()) for one in chosen]


@dataclass(frozen=True, eq=False)
class LayerDecoder(FittedDecoder):
    """The pool from the side of prediction; `extra` of a batch is what was given."""

    def marginals(self, batch: Batch, forced: bool) -> Array:
        model: PooledTagger = self.model
        tables = [table for name, table in model.tables(batch).items() if model.weights_[name] > 0]
        found = pooled(tables, [weight for weight in model.weights_.values() if weight > 0])
        labels = self.forced_labels(batch, forced)
        if labels is not None:
            set_known(found, labels)
        return found

    def paths(self, batch: Batch, forced: bool) -> NDArray[np.int32]:
        return self.best_valid(batch, self.marginals(batch, forced), forced)

    def span_probabilities(
        self, batch: Batch, path: NDArray[np.int32], found: Sequence[schemes.Span], continues: Array, forced: bool
    ) -> Confidence:
        """Of a chain of tokens by themselves, of which labels follow each other as their scheme has it."""
        starts, n_labels = batch.corpus.sentence_starts, len(self.coding.classes)
        pair, start, end = (np.where(mask, 0.0, -np.inf) for mask in self.allowed())
        node = log_probabilities(self.marginals(batch, forced))
        chain = Potentials(node, pair.reshape(1, n_labels, n_labels), start, end, read_only(starts))
        chain = only_known(chain, self.forced_labels(batch, forced))
        first, last = (np.array([span[k] for span in found], np.int64) - k for k in (0, 1))
        sentence = np.searchsorted(starts, first, side="right") - 1
        labels = np.concatenate([path[span.start : span.end] for span in found])
        values = span_probabilities(chain, sentence, first, last, labels, continues)
        return Confidence(values, np.zeros(len(found), bool))


@final
@dataclass(eq=False, repr=False)
class PooledTagger(TokenModel):
    """A trained layer as other taggers are; `extra` of a batch is what was given of its tokens."""

    features: Any = setting(True, "as in TokenLayer", in_file=False)
    folds: int | None = setting(None, "as in TokenLayer", whole(2) | NONE)
    mixture: bool = setting(False, "as in TokenLayer", FLAG)

    weights_: dict[str, float] = field(init=False)
    taggers_: dict[str, LinearChainCRF] = field(init=False)
    mixture_: GivenMixture | None = field(init=False, default=None)
    template_set_: TemplateSet = field(init=False)
    gain_: Gain | None = field(init=False, default=None)
    doubt_: float = field(init=False)

    constrain: ClassVar[bool] = True  # labels follow each other as their scheme has it

    @property
    def _scheme(self) -> str | None:
        return "auto"

    def _decoder(self, weights: Any = None) -> LayerDecoder:
        return LayerDecoder(self, resolve_jobs(self.n_jobs))

    # -- learning -------------------------------------------------------------------------------------

    def fit(self, batch: Batch, given: Given) -> Self:
        """Train on tokens with labels, and what was given of them."""
        corpus = batch.corpus
        if not corpus.is_labelled:
            raise InputError("training needs labels: give a labelled Corpus, or `y`")
        if len(documents_with_labels(corpus)) < 2:
            raise InputError(
                "one document is too little: what company adds is learned by documents held out; give two with labels"
            )
        coding = coding_of(corpus, given)
        check_labels(len(coding.classes), "keep the probabilities as they are")
        labels = coding.encode(corpus)
        table = given.aligned(coding.classes, seen=[coding.classes.names[k] for k in np.unique(labels[labels >= 0])])
        warn_of_in_sample(table, labels)
        warn_of_labels(corpus)
        self.coding_, self.doubt_ = coding, doubt(table)
        self._learn(replace(batch, extra=None), labels, table)
        return self

    def given(self, batch: Batch, given: Given) -> Batch:
        """The batch with what was given of it, to be asked about."""
        table = given.aligned(self.coding_.classes, tells=False)
        warn_of_less_sure(self.doubt_, table)
        return replace(batch, extra=table.astype(np.float32))

    def _learn(self, batch: Batch, labels: Array, table: Array) -> None:
        corpus, tell = batch.corpus, speaker(self.verbose)
        has_words = any(map(str, corpus.columns["word"].values))
        self.template_set_ = TemplateSet.learn(BEYOND if has_words else WITHIN, self._neighbourhood(corpus))
        fold = self._folds(corpus)
        n_folds, columns = int(fold.max(initial=-1)) + 1, self._columns(corpus, table)
        unseen, self.taggers_ = {GIVEN: table}, {}
        for name in [COMPANY, *([FEATURES] if self.features is not False else [])]:
            found = np.zeros_like(table)
            for hidden in range(n_folds):
                mine = np.flatnonzero(fold == hidden)

                def said() -> Array:
                    tagger = self._tagger(name).fit(_seen(name, batch, np.flatnonzero(fold != hidden), columns))  # noqa: B023
                    return token_votes(tagger, _seen(name, batch, mine, columns), self.coding_, False)  # noqa: B023

                found[mine] = running().step(f"{name}, fold").once(said)
                tell(f"{name}: fold {hidden + 1} of {n_folds}")
            unseen[name] = found
            whole_batch = np.arange(corpus.n_tokens)
            self.taggers_[name] = self._tagger(name).fit(_seen(name, batch, whole_batch, columns))
        self.mixture_ = None
        if self.mixture:
            unseen[MIXTURE] = self._mixed(corpus, labels, table, fold)
            tell(f"{MIXTURE}: {n_folds} folds")
        self._weigh(corpus, labels, fold, unseen)

    def _weigh(self, corpus: Corpus, labels: Array, fold: Array, unseen: dict[str, Array]) -> None:
        """Weights by all folds; those of the model given alone, where the pool of the others' folds is no better."""
        known = labels >= 0
        tables = list(unseen.values())

        def weights(rows: Array) -> Array:
            return pool_weights([table[rows] for table in tables], labels[rows])

        together = np.empty_like(tables[0])
        for hidden in range(int(fold.max(initial=-1)) + 1):
            mine = fold == hidden
            together[mine] = pooled([table[mine] for table in tables], weights(np.flatnonzero(known & ~mine)))
        decoder, asked = self._decoder(), Batch(corpus)
        paths = [decoder.best_valid(asked, table, False) for table in (tables[0], together)]
        documents = np.unique(corpus.token_documents[known])
        alone, pool = (document_counts(self.coding_, corpus, path)[documents] for path in paths)
        counted = Counted()
        counted.add(alone, pool, (paths[0] != paths[1])[known].sum())
        self.gain_ = counted.gain(metric_of(self.coding_), "documents", int(fold.max(initial=0)) + 1)
        if pool[:, 0].sum() / max(pool[:, 1].sum(), 1) < alone[:, 0].sum() / max(alone[:, 1].sum(), 1):
            self.weights_ = {name: float(name == GIVEN) for name in unseen}
        else:
            self.weights_ = dict(zip(unseen, map(float, weights(np.flatnonzero(known))), strict=True))

    def _mixed(self, corpus: Corpus, labels: Array, table: Array, fold: Array) -> Array:
        """(n, L), what mixtures say of folds that they have not seen; that of all is kept."""
        parents, found = said_of_parents(corpus, table), np.zeros_like(table)

        def learned(rows: Array) -> GivenMixture:
            own = [one[rows] for one in parents]
            return GivenMixture.fit(table[rows], own, labels[rows], self.random_state)

        for hidden in range(int(fold.max(initial=-1)) + 1):
            mine, others = np.flatnonzero(fold == hidden), np.flatnonzero((fold != hidden) & (labels >= 0))
            found[mine] = learned(others).proba(table[mine], [one[mine] for one in parents])
        self.mixture_ = learned(np.flatnonzero(labels >= 0))
        return found

    def _folds(self, corpus: Corpus) -> NDArray[np.int32]:
        """(n,), of every token that of its document."""
        wanted, rng = self.folds or (3 if corpus.n_tokens < MANY else 2), np.random.default_rng(self.random_state)
        with_labels, dealt = documents_with_labels(corpus), np.zeros(corpus.n_documents, np.int32)
        without = np.setdiff1d(np.arange(corpus.n_documents), with_labels)
        for some in (with_labels, without):  # each fold has its share of labels
            dealt[some] = rng.permutation(len(some)) % min(len(with_labels), wanted)
        return dealt[corpus.token_documents]

    def _tagger(self, name: str) -> LinearChainCRF:
        templates: Any = [short_shape[0]]
        if name == FEATURES:
            templates = "document" if self.features is True else self.features
        return LinearChainCRF(
            templates=templates, encoding=self.coding_.inner or "auto", random_state=self.random_state,
            n_jobs=self.n_jobs,
        )  # fmt: skip

    # -- what candidates see and say --------------------------------------------------------------------

    def _neighbourhood(self, corpus: Corpus) -> Neighbourhood:
        jobs, n_labels = resolve_jobs(self.n_jobs), len(self.coding_.classes)
        return Neighbourhood(corpus.n_tokens, n_labels, {}, corpus=corpus.with_labels(None, None), n_jobs=jobs)

    def _columns(self, corpus: Corpus, table: Array) -> NDArray[np.float32]:
        """(n, q): what was given of a token, as probabilities and as logarithms, and of its company."""
        surely = np.log(np.maximum(table, SLIGHT) / SLIGHT) / -np.log(SLIGHT)
        everyone = np.arange(corpus.n_tokens)
        around = token_aggregates(self.template_set_, self._neighbourhood(corpus), table, table, everyone)
        return np.concatenate([surely, around], axis=1).astype(np.float32)

    def tables(self, batch: Batch) -> dict[str, Array]:
        """(n, L) by each candidate that has weight; of the one given what was given."""
        if batch.extra is None:
            raise InputError("a layer answers by the probabilities given to it: `predict(X, probabilities)`")
        given = np.asarray(batch.extra, np.float64)
        found = {GIVEN: given}
        asked = [name for name in self.taggers_ if self.weights_[name] > 0]
        if asked:
            plain, columns = replace(batch, extra=None, kept_rows=None), self._columns(batch.corpus, given)
            everyone = np.arange(batch.corpus.n_tokens)
            for name in asked:
                seen = _seen(name, plain, everyone, columns)
                found[name] = token_votes(self.taggers_[name], seen, self.coding_, False)
        if self.mixture_ is not None and self.weights_[MIXTURE] > 0:
            found[MIXTURE] = self.mixture_.proba(given, said_of_parents(batch.corpus, given))
        return {name: found[name] for name in self.weights_ if name in found}

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = ModelFile({**self.head(), "labels": self.coding_.to_state()})
        taggers = {name: tagger for name, tagger in self.taggers_.items() if self.weights_[name] > 0}
        levels = [state.add(f"level.{i}", tagger.to_state()) for i, tagger in enumerate(taggers.values())]
        put_templates(state, self.template_set_, levels=levels, names=list(taggers))
        state.header["layer"] = {"weights": self.weights_, "doubt": self.doubt_}
        if self.mixture_ is not None:
            self.mixture_.put(state)
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        self.coding_, spec = LabelCoding.from_state(file.header["labels"]), file.header["stacked"]
        taggers = [
            restored(file.part(f"level.{i}", level), functions, trusted) for i, level in enumerate(spec["levels"])
        ]
        self.taggers_ = dict(zip(map(str, spec["names"]), taggers, strict=True))
        self.template_set_ = restored_templates(file, functions, learned_skips)
        layer = file.header["layer"]
        self.weights_ = {str(name): float(weight) for name, weight in layer["weights"].items()}
        self.doubt_ = float(layer["doubt"])
        carrying = {name for name, weight in self.weights_.items() if weight > 0}
        fits(GIVEN in self.weights_ and {*self.taggers_} == carrying - {GIVEN, MIXTURE} and bool(carrying))
        fits(all(np.isfinite(weight) and weight >= 0 for weight in self.weights_.values()))
        n_labels = len(self.coding_.classes)
        self.mixture_ = GivenMixture.restored(file, PARENTS, n_labels) if MIXTURE in self.weights_ else None
        fits(self.template_set_.n_votes == n_labels and 0 <= self.doubt_ <= 1)
        width = 2 * n_labels + self.template_set_.width
        for tagger in self.taggers_.values():
            fits(
                isinstance(tagger, LinearChainCRF) and {*tagger.coding_.classes.names} <= {*self.coding_.classes.names}
            )
            fits(tagger.weights_.node.shape[0] == tagger.features_.n_features + width)
        self.features = FEATURES in self.weights_


def documents_with_labels(corpus: Corpus) -> NDArray[np.int32]:
    """Their numbers."""
    assert corpus.labels is not None
    return np.unique(corpus.token_documents[corpus.labels.codes >= 0])


def given_of(batch: Batch, probabilities: Any, classes: Any) -> Given:
    """Probabilities of the tokens of a batch; those of sentences, or of documents, have as many rows as these."""
    corpus = batch.corpus
    refuse_other_order(probabilities, "probabilities")
    if batch.sizes is not None and _by_corpus(probabilities):
        if [*map(len, probabilities)] != [*batch.sizes]:
            got = f"expected one list a corpus, of {[*batch.sizes][:8]} sentences; got {[*map(len, probabilities)][:8]}"
            raise InputError(f"{got}: give the probabilities of the same corpora")
        probabilities = [sentence for part in probabilities for sentence in part]
    sentences = np.diff(corpus.sentence_starts)
    if batch.filled is not None:  # sentences as they were given, those without tokens too
        sentences, found = np.zeros(len(batch.filled), np.int64), sentences
        sentences[batch.filled] = found
    documents = np.bincount(corpus.token_documents, minlength=corpus.n_documents)
    lengths = {"sentence": sentences.tolist(), "document": documents.tolist()}
    return Given.of(probabilities, corpus.n_tokens, classes, lengths=lengths)


def _by_corpus(probabilities: Any) -> bool:
    """Whether they are lists of those of sentences, as taggers answer a list of corpora."""
    if not isinstance(probabilities, list | tuple) or not all(isinstance(part, list | tuple) for part in probabilities):
        return False
    token = next((token for part in probabilities for sentence in part for token in sentence), None)
    return isinstance(token, Mapping) or np.ndim(token) == 1  # type: ignore[arg-type]


def said_of_parents(corpus: Corpus, table: Array) -> list[Array]:
    """(n, L) each: what was given of the token before, of the one behind, and the mean of the others of the document
    with the same word; zeros where there is none."""
    starts, nothing = corpus.sentence_starts, np.zeros((1, table.shape[1]))
    before, behind = (np.concatenate(part) for part in ([nothing, table[:-1]], [table[1:], nothing]))
    before, behind = before[: len(table)], behind[: len(table)]
    before[starts[:-1]], behind[starts[1:] - 1] = 0.0, 0.0
    words = corpus.columns["word"]
    has_word = np.array([bool(str(word)) for word in words.values], bool)[words.codes]
    key = corpus.token_documents * max(len(words.values), 1) + words.codes
    _, group, size = np.unique(key, return_inverse=True, return_counts=True)
    total = np.stack([np.bincount(group, column) for column in table.T], axis=1)
    others = np.where(has_word, size[group] - 1, 0)[:, None]
    mean = (total[group] - table) / np.maximum(others, 1)
    return [before, behind, np.where(others > 0, mean.clip(min=0), 0.0)]


def _seen(name: str, batch: Batch, tokens: Array, columns: Array) -> Batch:
    """The documents of tokens as a candidate sees them."""
    part = batch.part(tokens, columns[tokens])
    return part if name == FEATURES else replace(part, items=None, corpus=part.corpus.with_vectors(None))


# -- the model ----------------------------------------------------------------------------------------


@final
@dataclass(eq=False, repr=False)
class TokenLayer(CollectiveLayer):
    """The labels of tokens, made consistent: a layer over the probabilities that any model gave (a transformer, spaCy,
    a tagger of another library), which learns from labelled documents what neighbours and equal words add.

    Learned by `fit`: `classes_`, `weights_` (of what was given, and of the candidates above it), and `gain_`, what the
    pool adds to what was given, with an interval over documents.
    """

    mixture: bool = setting(
        False,
        "whether a mixture of parents is a candidate too: a token follows what was given of it, or the label of one "
        "beside it or with the same word. It seldom adds to the others",
        FLAG,
    )

    pool_: PooledTagger = field(init=False)

    def fit(
        self, X: Any, probabilities: Any, y: Any = None, *, classes: Any = None, checkpoint: PathLike | None = None
    ) -> Self:
        """Train on tokens with labels.

        X               a Corpus, sentences of words, or of feature dicts
        probabilities   of every token, by a model that has not seen its label (`out_of_fold`): an array (tokens,
                        classes), one a sentence, dicts {label: probability}, or a data frame in the order of tokens
        y               labels, where X has none
        classes         the labels that columns stand for, in the tag scheme of the model that gave them
        checkpoint      a file that `fit` goes on from if it was stopped, as in `Tagger.fit`
        """
        check_settings(self)
        check_checkpoint(checkpoint)
        batch = Batch.of(X, y)
        given = given_of(batch, probabilities, classes)
        names = ("features", "folds", "mixture", "random_state", "n_jobs", "verbose")
        settings = {name: getattr(self, name) for name in names}
        with going_on(checkpoint, self, batch, given), self._all_or_nothing():
            self.names_ = given.names
            self.pool_ = PooledTagger(**settings).fit(batch, given)
            self.weights_, self.gain_ = self.pool_.weights_, self.pool_.gain_
        self._tell()
        return self

    @property
    def classes_(self) -> Array:
        """The labels that columns of `predict_proba` stand for."""
        self._require_fitted()
        return self.pool_.classes_

    def _batch(self, X: Any, probabilities: Any, y: Any, classes: Any) -> Batch:
        self._require_fitted()
        batch = Batch.of(X, y)
        given = given_of(batch, probabilities, self.names_ if classes is None else classes)
        return self.pool_.given(batch, given)

    @property
    def _tagger(self) -> PooledTagger:
        self._require_fitted()
        return self.pool_

    def predict(self, X: Any, probabilities: Any, *, classes: Any = None) -> list[list[Any]]:
        """One list of labels a sentence, in the type and the tag scheme of the training data."""
        return self._tagger.predict(self._batch(X, probabilities, None, classes))

    def predict_proba(self, X: Any, probabilities: Any, *, classes: Any = None) -> list[Array]:
        """One array (tokens, classes) a sentence, columns as `classes_`."""
        return self._tagger.predict_proba(self._batch(X, probabilities, None, classes))

    def predict_candidates(self, X: Any, probabilities: Any, *, classes: Any = None) -> dict[str, Array]:
        """(tokens, classes) by each candidate that has weight, what was given among them."""
        return self._tagger.tables(self._batch(X, probabilities, None, classes))

    def predict_entities(self, X: Any, probabilities: Any, *, classes: Any = None) -> list[Entity]:
        """The predicted entities, each with the probability that this very entity is there: an approximation, as if
        tokens were independent but for the tag scheme."""
        return self._tagger.predict_entities(self._batch(X, probabilities, None, classes))

    def score(self, X: Any, probabilities: Any, y: Any = None, *, classes: Any = None) -> float:
        """Entity F1 as conlleval counts it, from 0 to 1; token accuracy when the labels are not spans."""
        return self._tagger.score(self._batch(X, probabilities, y, classes))

    def evaluate(
        self, X: Any, probabilities: Any, y: Any = None, *, classes: Any = None, report: PathLike | None = None
    ) -> tuple[EntityScores | None, float]:
        """Entity scores (None when labels are not spans) and token accuracy, in percent; `report`: also as a page."""
        return self._tagger.evaluate(self._batch(X, probabilities, y, classes), report=report)

    def explain(self, X: Any, probabilities: Any, token: int, *, classes: Any = None) -> LayerExplanation:
        """Why the token of this number has its label: what every candidate says of it, and what the others say."""
        batch = self._batch(X, probabilities, None, classes)
        n, tables = batch.corpus.n_tokens, self.pool_.tables(batch)
        if not 0 <= token < n:
            raise InputError(f"tokens are numbered from 0 to {n - 1}; got {token}")
        path = self.pool_._decoder().paths(batch, False)
        return explained(tables, self.weights_, int(path[token]), token, self.pool_.coding_.classes.names)

    # -- model files ----------------------------------------------------------------------------------

    def to_state(self) -> ModelFile:
        state = super().to_state()
        state.header["pool"] = state.add("pool", self.pool_.to_state())
        return state

    def _restore(self, file: ModelFile, functions: Functions, trusted: Sequence[str]) -> None:
        super()._restore(file, functions, trusted)
        self.pool_ = restored(file.part("pool", file.header["pool"]), functions, trusted)
        fits(isinstance(self.pool_, PooledTagger))
        self.weights_, self.features = self.pool_.weights_, self.pool_.features
