"""Components for pipelines of spaCy.

    kinfolk_ner           a tagger: `nlp.add_pipe("kinfolk_ner", config={"model": "names.kinfolk"})` sets `doc.ents`
    kinfolk_consistency   a `TokenLayer`: the entities that components before it found, made consistent

Both work on batches of whole documents, and are kept within a pipeline as the bytes of a model file. spaCy finds them
by the entry points of the package. It reads the annotations of what it calls, which are no strings here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.core.modelfile import load_model
from kinfolk.core.sending import Sent, packed, unpacked
from kinfolk.errors import DataWarning, InputError, KinfolkError, SettingError, warn
from kinfolk.text import schemes
from kinfolk.text.batch import Entity
from kinfolk.text.chain import LinearChainCRF
from kinfolk.text.corpus import Corpus
from kinfolk.text.in_engine import TokenTable, corpus_columns
from kinfolk.text.layer import TokenLayer
from kinfolk.text.spacy_docs import (
    FIRST,
    DocTokens,
    corpus_from_docs,
    doc_tokens,
    entities_of,
    gold_entities,
    without_sentences,
)
from kinfolk.text.tagger import TokenModel

try:
    from spacy.language import Language
    from spacy.pipeline import Pipe
    from spacy.scorer import get_ner_prf
    from spacy.tokens import Span
    from spacy.util import minibatch
except ImportError:
    raise ImportError("components for spaCy need it, and it is not installed: pip install 'kinfolk[spacy]'") from None

Array = NDArray[Any]
FILE = "model.kinfolk"  # in the folder of a component
SCORES = {"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None}
ASSIGNS = ["doc.ents", "token.ent_iob", "token.ent_type"]


# -- what both share -----------------------------------------------------------------------------------


class KinfolkPipe(Pipe):  # type: ignore[misc]
    """Abstract: a component with a kinfolk model in it.

    name          of the component in its pipeline
    path          the model file; a pipeline that is loaded has its own, so what is wrong with this one is said when the
                  component is used without any
    columns       columns of the model -> attributes of tokens: {"pos": "TAG"}
    probability   the extension of spans that has the probability of an entity, `span._.probability`; None: none has
    """

    WANTS: ClassVar[str] = ""

    def __init__(
        self,
        name: str,
        path: str | None = None,
        columns: Mapping[str, str] | None = None,
        probability: str | None = "probability",
    ) -> None:
        self.name, self.columns, self.probability = name, dict(columns or {}), probability
        self._model: Any = None
        self._fault: KinfolkError | None = None
        self._has_told = False
        if probability is not None and not Span.has_extension(probability):
            Span.set_extension(probability, default=None)
        if path is not None:
            try:
                self.model = load_model(path)
            except KinfolkError as fault:
                self._fault = fault

    # -- the model ------------------------------------------------------------------------------------

    @property
    def model(self) -> Any:
        """The kinfolk model; another one can be set."""
        if self._model is None:
            if self._fault is not None:
                raise self._fault
            raise InputError(f"{self.name} has no model: {self.WANTS}")
        return self._model

    @model.setter
    def model(self, model: Any) -> None:
        self._check(model)
        self._model = model

    @property
    def has_model(self) -> bool:
        return self._model is not None

    def _check(self, model: Any) -> None:
        raise NotImplementedError

    @property
    def labels(self) -> tuple[str, ...]:
        """The types of entities, where there is a model."""
        classes = self._model.classes_.tolist() if self.has_model else []
        return tuple(sorted({name[2:] for name in classes if name != "O"}))

    # -- documents ------------------------------------------------------------------------------------

    def __call__(self, doc: Any) -> Any:
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Any], *, batch_size: int = 128) -> Iterator[Any]:
        """Documents in batches, with the answers that each of them gets alone."""
        handler = self.get_error_handler()
        for batch in minibatch(stream, batch_size):
            docs = list(batch)
            try:
                self._annotate(docs)
            except Exception:  # which of them it is: the others keep their answers
                docs = [doc for doc in docs if self._is_annotated(doc, handler)]
            yield from docs

    def _is_annotated(self, doc: Any, handler: Callable[..., None]) -> bool:
        try:
            self._annotate([doc])
        except Exception as fault:
            handler(self.name, self, [doc], fault)
            return False
        return True

    def _annotate(self, docs: Sequence[Any]) -> None:
        raise NotImplementedError

    def _tokens(self, docs: Sequence[Any]) -> DocTokens:
        tokens = doc_tokens(docs, entities_of(docs), self.columns)
        if tokens.unbounded and not self._has_told:
            warn(f"{self.name}: {without_sentences(tokens.unbounded, len(docs))}", DataWarning)
            self._has_told = True
        return tokens

    def _set(self, tokens: DocTokens, found: Sequence[Entity], kept: Sequence[Sequence[Any]]) -> None:
        """Entities of the model in the documents, beside those that are kept, which nothing may overlap."""
        corpus, spans = tokens.corpus, [list(one) for one in kept]
        taken = [{k for span in one for k in range(span.start, span.end)} for one in kept]
        before = [{(span.start, span.end, span.label_): span for span in doc.ents} for doc in tokens.docs]
        document = np.searchsorted(corpus.document_starts, [one.sentence for one in found], side="right") - 1
        for entity, number in zip(found, document.tolist(), strict=True):
            start = int(corpus.sentence_starts[entity.sentence])
            first = int(tokens.places[start + entity.start])
            last = int(tokens.places[start + entity.end - 1])
            if not taken[number].isdisjoint(range(first, last + 1)):
                continue
            span = before[number].get((first, last + 1, entity.type))
            span = Span(tokens.docs[number], first, last + 1, label=entity.type) if span is None else span
            if self.probability is not None:
                span._.set(self.probability, entity.confidence)
            spans[number].append(span)
        for doc, own in zip(tokens.docs, spans, strict=True):
            doc.set_ents(own)

    def score(self, examples: Iterable[Any], **settings: Any) -> dict[str, Any]:
        """Precision, recall and F1 of `doc.ents`, as spaCy counts them."""
        return dict(get_ner_prf(examples, **settings))

    # -- keeping it -----------------------------------------------------------------------------------

    def to_bytes(self, *, exclude: Sequence[str] = ()) -> bytes:
        return packed(self._model)[0] if self.has_model else b""

    def from_bytes(self, data: bytes, *, exclude: Sequence[str] = ()) -> Self:
        if data:
            self.model = unpacked(data)
        return self

    def to_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> None:
        if self.has_model:
            Path(path).mkdir(parents=True, exist_ok=True)
            self._model.save(Path(path) / FILE)

    def from_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> Self:
        if (Path(path) / FILE).exists():
            self.model = load_model(Path(path) / FILE)
        return self

    def _settings(self) -> dict[str, Any]:
        return {"columns": self.columns, "probability": self.probability}

    def __reduce__(self) -> tuple[Any, ...]:
        """To the processes of `nlp.pipe(n_process=2)`: the bytes of its model file travel."""
        return _received, (type(self), self.name, self._settings(), Sent(self._model) if self.has_model else None)


def _received(kind: type[KinfolkPipe], name: str, settings: dict[str, Any], sent: Sent | None) -> KinfolkPipe:
    made = kind(name, **settings)
    if sent is not None:
        made.model = sent.model
    return made


# -- a tagger ------------------------------------------------------------------------------------------


class KinfolkNER(KinfolkPipe):
    """The entities that a tagger of kinfolk finds.

    overwrite_ents   whether entities that are there already are dropped. Otherwise they stay as they are, and the
                     others are found given them: as labels that are known where the model has their type
    """

    WANTS = (
        '`config={"model": "names.kinfolk"}` names a file, `nlp.get_pipe(...).fit(docs)` and `nlp.initialize(lambda: '
        "examples)` train one"
    )

    def __init__(
        self,
        name: str = "kinfolk_ner",
        path: str | None = None,
        columns: Mapping[str, str] | None = None,
        probability: str | None = "probability",
        overwrite_ents: bool = False,
    ) -> None:
        self.overwrite_ents = overwrite_ents
        super().__init__(name, path, columns, probability)

    def fit(self, docs: Any, tagger: TokenModel | None = None) -> Self:
        """Train on the entities of Docs, or of the references of Examples.

        tagger   the model to train; None: LinearChainCRF(templates="document")
        """
        corpus = corpus_from_docs(docs, columns=self.columns)
        if not corpus.is_labelled:
            raise InputError(
                f"{self.name}: no document says what its entities are; set `doc.ents` of those to train on"
            )
        model: Any = LinearChainCRF(templates="document") if tagger is None else tagger
        self.model = model.fit(corpus)
        return self

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Any]],
        *,
        nlp: Any = None,
        tagger: str = "LinearChainCRF",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Train on examples, unless there is a model: `nlp.initialize(lambda: examples)`.

        tagger, settings   the class of the model and its settings, in a config `[initialize.components.kinfolk_ner]`
        """
        if self.has_model:
            return
        import kinfolk

        found = getattr(kinfolk, tagger, None)
        if not (isinstance(found, type) and issubclass(found, TokenModel)):
            raise SettingError("tagger", tagger, "the name of a tagger of kinfolk, such as LinearChainCRF")
        chosen = {"templates": "document"} if settings is None and found is LinearChainCRF else dict(settings or {})
        self.fit(list(get_examples()), found().set_params(**chosen))

    def _check(self, model: Any) -> None:
        if isinstance(model, TokenLayer):
            raise InputError(
                f"{self.name}: a TokenLayer needs the entities of another component: add kinfolk_consistency"
            )
        if not isinstance(model, TokenModel):
            raise InputError(f"{self.name}: expected a tagger of kinfolk; got a {type(model).__name__}")
        model._require_fitted()
        if model.coding_.inner is None:
            there = ", ".join(model.coding_.classes.names[:5])
            raise InputError(f"{self.name}: the labels of the model are no entities ({there}, ...)")
        if {"B", "I"} & {*model.coding_.classes.names}:
            raise InputError(
                f"{self.name}: entities of the model have no type, and those of spaCy need one: B-NAME, I-NAME"
            )
        try:
            corpus_columns(model, ["word", *self.columns], TokenTable("word", None, None))
        except InputError as fault:
            hint = '`config={"columns": {"pos": "TAG"}}` makes a column of an attribute of tokens'
            raise InputError(f"{self.name}: {fault}. {hint}") from None

    def _annotate(self, docs: Sequence[Any]) -> None:
        """Documents in which something is known apart from the others, so that each gets what it would get alone."""
        known = [not self.overwrite_ents and bool((one.iob == FIRST).any()) for one in entities_of(docs)]
        for forced in {*known}:
            self._find([doc for doc, own in zip(docs, known, strict=True) if own == forced], forced)

    def _find(self, docs: Sequence[Any], forced: bool) -> None:
        model, tokens = self.model, self._tokens(docs)
        corpus = self._known(tokens) if forced else tokens.corpus
        found = model.predict_entities(corpus, forced=forced) if corpus.n_tokens else []
        self._set(tokens, found, [doc.ents if forced else () for doc in docs])

    def _known(self, tokens: DocTokens) -> Corpus:
        """Labels that are known: those of entities that are there, O where their type is none of the model's and where
        spaCy is told that there is no entity."""
        coding = self.model.coding_
        labels = tokens.labels(tokens.entities, coding.inner)
        said = [one.iob == FIRST for one in tokens.entities]  # with or without a type
        inside = [one.inside | first for one, first in zip(tokens.entities, said, strict=True)]
        places = tokens.by_document(tokens.places)
        is_said = np.concatenate([own[k] for own, k in zip(inside, places, strict=True)])
        names = [name if name in coding.classes else "O" for name in labels.values]
        distinct = list(dict.fromkeys(names))
        number = np.array([*map(distinct.index, names), -1], np.int32)
        known = Column(np.where(is_said, number[labels.codes], -1), tuple(distinct))
        return tokens.corpus.with_labels(known, coding.inner)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "overwrite_ents": self.overwrite_ents}


# -- a layer -------------------------------------------------------------------------------------------


class KinfolkConsistency(KinfolkPipe):
    """The entities that components before it found, made consistent by a `TokenLayer`.

    A component of spaCy says what it found and not how sure it is. So the tag that it gave a token has the probability
    1 - smoothing, and the others share the rest, alike in training and in use; what tags are worth, alone and beside
    others, the layer learns. A component that has probabilities gives them to `doc.user_data[probabilities]`, an array
    (tokens of the Doc, classes), with `classes` in their order.
    """

    WANTS = '`config={"model": "layer.kinfolk"}` names a file, `nlp.get_pipe(...).fit(examples)` trains one'

    def __init__(
        self,
        name: str = "kinfolk_consistency",
        path: str | None = None,
        columns: Mapping[str, str] | None = None,
        probability: str | None = "probability",
        smoothing: float = 0.1,
        probabilities: str | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        if not 0 < smoothing < 0.5:
            raise SettingError("smoothing", smoothing, "a number between 0 and 0.5")
        if (probabilities is None) != (classes is None):
            raise SettingError.saying("`probabilities` and `classes` go together: where they are, and what columns are")
        self.smoothing, self.probabilities = smoothing, probabilities
        self.classes = None if classes is None else list(classes)
        self._strange: set[str] = set()
        self._has_told_of_none = False
        super().__init__(name, path, columns, probability)

    def fit(self, examples: Iterable[Any], layer: TokenLayer | None = None) -> Self:
        """Train on Examples: what components before this one predicted for documents that they were not trained on, and
        the truth, `Example(predicted, reference)`. Tokens of the truth that are cut otherwise are aligned.

        layer   the layer to train; None: TokenLayer()
        """
        given = list(examples)
        strange = next((one for one in given if not hasattr(one, "predicted")), None)
        if strange is not None:
            got, remedy = type(strange).__name__, "`Example(predicted, reference)` of spacy.training pairs two Docs"
            raise InputError(f"{self.name}: expected Examples, with a predicted Doc each; got a {got}: {remedy}")
        docs, gold = [one.predicted for one in given], [gold_entities(one) for one in given]
        if not any(one.iob.any() for one in gold):
            raise InputError(
                f"{self.name}: no reference says what its entities are; set `doc.ents` of those to train on"
            )
        entities = entities_of(docs)
        if self.probabilities is None and not any(one.iob.any() for one in entities):
            remedy = "run the pipeline before this component on them: `list(nlp.pipe(texts))`"
            raise InputError(f"{self.name}: nothing was predicted for the examples; {remedy}")
        tokens = doc_tokens(docs, entities, self.columns, gold)
        if tokens.unbounded:
            warn(f"{self.name}: {without_sentences(tokens.unbounded, len(docs))}", DataWarning)
        labels, said = tokens.labels(gold, "BILOU"), tokens.labels(entities, "BILOU")
        types = sorted({name[2:] for column in (labels, said) for name in column.values if name != "O"})
        classes = self.classes or ["O", *(f"{letter}-{name}" for name in types for letter in "BILU")]
        table = self._table(tokens, said, classes)
        model = TokenLayer() if layer is None else layer
        self.model = model.fit(tokens.corpus.with_labels(labels, "BILOU"), table, classes=classes)
        return self

    def _check(self, model: Any) -> None:
        if not isinstance(model, TokenLayer):
            got = type(model).__name__
            raise InputError(f"{self.name}: expected a TokenLayer; got a {got}, which kinfolk_ner may take")
        model._require_fitted()
        scheme = model.pool_.coding_.inner
        if scheme is None:
            raise InputError(f"{self.name}: the labels of the layer are no entities")
        is_tags = "O" in model.names_ and all(schemes.is_tag(name, scheme) for name in model.names_)
        if self.probabilities is None and not is_tags:
            there = ", ".join(model.names_[:5])
            raise InputError(
                f"{self.name}: the layer was trained on classes that are no tags of {scheme}: {there}, ..."
            )

    def _annotate(self, docs: Sequence[Any]) -> None:
        layer, tokens = self.model, self._tokens(docs)
        types = {*self.labels}
        kept = [[span for span in doc.ents if span.label_ not in types] for doc in docs]
        self._tell(tokens, {span.label_ for spans in kept for span in spans})
        found: list[Entity] = []
        if tokens.corpus.n_tokens:
            classes = self.classes or list(layer.names_)
            said = tokens.labels(tokens.entities, layer.pool_.coding_.inner)
            found = layer.predict_entities(tokens.corpus, self._table(tokens, said, classes), classes=classes)
        self._set(tokens, found, kept)

    def _tell(self, tokens: DocTokens, strange: set[str]) -> None:
        """Once, of types that the layer does not know, and of documents in which nobody has looked for entities."""
        if strange - self._strange:
            named = ", ".join(sorted(strange - self._strange))
            warn(f"{self.name}: the layer knows no entities of type {named}; they stay as they are", DataWarning)
            self._strange |= strange
        if self.probabilities is None and not self._has_told_of_none:
            words = map(len, tokens.by_document(tokens.places))
            bare = sum(n > 0 and not one.iob.any() for n, one in zip(words, tokens.entities, strict=True))
            if bare:
                self._has_told_of_none = True
                what = f"no component before has set the entities of {bare} of {len(tokens.docs)} documents"
                warn(f"{self.name}: {what}; they count as having none. It belongs behind one that does", DataWarning)

    def _table(self, tokens: DocTokens, labels: Column, classes: Sequence[str]) -> Array:
        """(n, classes): what is given of every token."""
        if self.probabilities is not None:
            return self._given(tokens, len(classes))
        place = {name: k for k, name in enumerate(classes)}
        hard = np.array([*(place.get(name, place["O"]) for name in labels.values), place["O"]])[labels.codes]
        table = np.full((len(hard), len(classes)), self.smoothing / max(len(classes) - 1, 1))
        table[np.arange(len(hard)), hard] = 1 - self.smoothing if len(classes) > 1 else 1.0
        return table

    def _given(self, tokens: DocTokens, width: int) -> Array:
        parts = [np.empty((0, width))]
        for number, (doc, places) in enumerate(zip(tokens.docs, tokens.by_document(tokens.places), strict=True)):
            table = np.asarray(doc.user_data.get(self.probabilities, np.empty((0, 0))))
            if table.shape != (len(doc), width):
                wanted = f"an array ({len(doc)}, {width}), a row a token and a column a class"
                where = f"document {number}: doc.user_data[{self.probabilities!r}]"
                raise InputError(f"{self.name}: {where} must be {wanted}; got {table.shape if table.size else 'none'}")
            parts.append(table[places])
        return np.concatenate(parts)

    def _settings(self) -> dict[str, Any]:
        own = {"smoothing": self.smoothing, "probabilities": self.probabilities, "classes": self.classes}
        return {**super()._settings(), **own}


# -- what spaCy calls ----------------------------------------------------------------------------------


@Language.factory(
    "kinfolk_ner",
    assigns=ASSIGNS,
    default_config={"model": None, "overwrite_ents": False, "columns": {}, "probability": "probability"},
    default_score_weights=SCORES,
)
def kinfolk_ner(
    nlp: Language,
    name: str,
    model: str | None,
    overwrite_ents: bool,
    columns: dict[str, str],
    probability: str | None,
) -> KinfolkNER:
    return KinfolkNER(name, model, columns, probability, overwrite_ents)


@Language.factory(
    "kinfolk_consistency",
    requires=["doc.ents"],
    assigns=ASSIGNS,
    default_config={
        "model": None, "smoothing": 0.1, "probabilities": None, "classes": None, "columns": {},
        "probability": "probability",
    },
    default_score_weights=SCORES,
)  # fmt: skip
def kinfolk_consistency(
    nlp: Language,
    name: str,
    model: str | None,
    smoothing: float,
    probabilities: str | None,
    classes: list[str] | None,
    columns: dict[str, str],
    probability: str | None,
) -> KinfolkConsistency:
    return KinfolkConsistency(name, model, columns, probability, smoothing, probabilities, classes)
