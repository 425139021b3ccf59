"""What a token model is given, in its several forms, brought to one: a corpus and rows of features.

Corpus                                 read from files or built with Corpus.from_sentences
sentences of words                     [["Kim", "left"], ...], labels apart
sentences of feature dicts or lists    as sklearn-crfsuite takes them, labels apart; words and documents beside them,
                                       or in a Corpus that has them
documents                              a list of corpora, which is what scikit-learn cuts a Corpus into
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.collective.aggregate import side_by_side
from kinfolk.core.beside import Table, beside
from kinfolk.core.data import NO_WEIGHT, Classes, Column, class_weights, sample_weights
from kinfolk.errors import InputError
from kinfolk.learning.sparse import SparseRows
from kinfolk.text import schemes
from kinfolk.text.corpus import TOO_DEEP, Corpus, as_list, one_row, too_deep
from kinfolk.text.dicts import DictFeatures, check_items
from kinfolk.text.extraction import SharedRows, TokenFeatures
from kinfolk.text.quick import FEW_TOKENS
from kinfolk.text.schemes import LabelCoding
from kinfolk.text.vectors import APART, VectorColumns, as_vectors, column_names

FeatureSet = TokenFeatures | DictFeatures
T = TypeVar("T")


class Answers(list[T]):
    """One answer for each thing given: a list, which numpy takes as one row of objects, whatever the lengths are. So
    scikit-learn can put answers of several folds together."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return one_row(self) if dtype is None or np.dtype(dtype) == object else np.array(list(self), dtype)


@dataclass(frozen=True)
class Batch:
    """Tokens with labels, and where features come as dicts, those dicts.

    A corpus has no sentence without tokens. Lists may: `filled` then says which of the sentences given have any.
    Where a list of corpora was given, `sizes` says how many sentences each of them has.
    """

    corpus: Corpus
    items: Sequence[Sequence[Any]] | None = None
    filled: NDArray[np.bool_] | None = None
    kept_rows: dict[Any, Any] | None = None  # rows by feature set, where they are needed twice
    extra: NDArray[np.float32] | None = (
        None  # (n, q) beside the features of a token: aggregates of its neighbours, in stacking
    )
    extra_names: Sequence[str] = ()  # of its columns, where they are to be explained
    sizes: Sequence[int] | None = None
    shared: tuple[SharedRows, NDArray[np.integer]] | None = None  # rows of all documents, and which tokens these are

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any = None,
        scheme: str | None = "auto",
        words: Any = None,
        documents: Any = None,
        vectors: Any = None,
    ) -> Batch:
        """`scheme` is that of the labels `y`; `words` are those of feature dicts, `documents` as in
        Corpus.from_sentences, `vectors` dense columns of tokens. A Corpus knows its own."""
        batch = cls._of(X, y, scheme, words, documents)
        if vectors is None:
            return batch
        corpus, filled = batch.corpus, batch.filled
        if corpus.vectors is not None:
            raise InputError("vectors are given twice, by the corpus and by `vectors`: give them once")
        vectors, lengths = as_list(vectors), np.diff(corpus.sentence_starts)
        if filled is not None:  # sentences as they were given, those without tokens too
            lengths, found = np.zeros(len(filled), np.int64), lengths
            lengths[filled] = found
        return replace(batch, corpus=corpus.with_vectors(as_vectors(vectors, lengths), column_names(vectors)))

    def told(self) -> tuple[Any, ...]:
        """All that models look at, for a digest."""
        return self.corpus, self.items, self.extra

    @classmethod
    def held_out(cls, X_dev: Any, y_dev: Any, scheme: str | None, vectors_dev: Any = None) -> Batch | None:
        """What `fit` is given to be scored on; None: nothing. An error where labels are missing."""
        if X_dev is None:
            for name, one in (("y_dev", y_dev), ("vectors_dev", vectors_dev)):
                if one is not None:
                    raise InputError(f"`{name}` is given without `X_dev`: give both or none")
            return None
        batch = cls.of(X_dev, y_dev, scheme, vectors=vectors_dev)
        if not batch.corpus.is_labelled and not isinstance(X_dev, Corpus):
            missing = "X_dev has none" if y_dev is None else "y_dev has none that is known"
            raise InputError(f"scoring needs labels, and {missing}: give them as `y_dev`")
        return batch

    @classmethod
    def _of(cls, X: Any, y: Any, scheme: str | None, words: Any, documents: Any) -> Batch:
        if isinstance(X, Batch):
            return X
        X, y, words = as_list(X), as_list(y), as_list(words)
        of_corpora = isinstance(X, Sequence | np.ndarray) and len(X) and all(isinstance(one, Corpus) for one in X)
        if (words is not None or documents is not None) and (isinstance(X, Corpus) or of_corpora):
            raise InputError("a Corpus has its own words and documents: leave `words` and `documents` out")
        if isinstance(X, Corpus):
            return cls(X if y is None else _with_labels(X, y, scheme), X.features)
        if isinstance(X, str) or not isinstance(X, Sequence | np.ndarray):
            remedy = f" of vectors. {APART}" if getattr(X, "ndim", 0) > 1 else ""
            raise InputError(f"expected a Corpus or a list of sentences; got {type(X).__name__}{remedy}")
        if of_corpora:
            joined, sizes = Corpus.joined(list(X)), [one.n_sentences for one in X]
            return cls(joined if y is None else _with_labels(joined, y, scheme), joined.features, sizes=sizes)
        _check_sentences(X)
        filled = np.array([len(sentence) > 0 for sentence in X], bool)
        first = next((token for sentence in X for token in sentence), "")
        if isinstance(first, str):
            _check_words(X)
            if words is not None and filled.any():
                raise InputError("`words` go beside feature dicts; X holds words itself: leave them out")
            corpus = Corpus.from_sentences([list(s) for s in X], documents=documents)
            return cls(_with_labels(corpus, y, scheme, X), None, filled)
        if too_deep(X, (list, tuple, Mapping)) or (y is not None and too_deep(X) and too_deep(y, (object,))):
            raise InputError(TOO_DEEP)
        if first is None or isinstance(first, Integral):  # numbers with a fraction are vectors in the wrong place
            what = f"sentence {int(filled.argmax())}, token 0 is {first!r}, a {type(first).__name__}"
            raise InputError(f"words must be strings (or dicts of features); {what}: turn words into strings, str(...)")
        check_items(X)
        corpus = Corpus.from_sentences(*_words_beside(X, words, documents))
        return cls(_with_labels(corpus, y, scheme, X), [sentence for sentence in X if len(sentence)], filled)

    def part(self, tokens: NDArray[np.integer], extra: NDArray[Any] | None = None) -> Batch:
        """The documents that these tokens are all of, with other extra columns."""
        corpus = self.corpus
        items = None
        if self.items is not None:
            items = [self.items[s] for s in np.unique(corpus.token_sentences[tokens])]
        chosen = corpus.select(np.unique(corpus.token_documents[tokens]))
        shared = None if self.shared is None else (self.shared[0], self.shared[1][tokens])
        return Batch(
            chosen, items, extra=None if extra is None else extra.astype(np.float32, copy=False), shared=shared
        )

    def sharing(self) -> Batch:
        """The same, whose parts have their features extracted once, together."""
        return replace(self, shared=(SharedRows(self.corpus), np.arange(self.corpus.n_tokens)))

    def learn(self, features: FeatureSet, n_jobs: int, pairs: bool = False) -> Table:
        """Rows of the features, which learn from them; `pairs`: the features speak of pairs of labels."""
        vectors, names = self.corpus.vectors, self.corpus.vector_names
        features.vectors = None if vectors is None or pairs else VectorColumns.learn(vectors, names)
        source = self._source(features)
        if self.shared is not None and isinstance(features, TokenFeatures):
            rows, tokens = self.shared
            known = rows.learn(features, tokens, n_jobs, None if pairs else self.extra)
            return known if pairs else self._beside_vectors(known, features)
        return self._beside(features.learn(source, n_jobs), features, pairs)

    def rows(self, features: FeatureSet, n_jobs: int, pairs: bool = False) -> Table:
        kept = {} if self.kept_rows is None else self.kept_rows
        if id(features) not in kept:
            width = 0 if features.vectors is None else features.vectors.width
            rows = sparse.csr_array((0, features.n_features - width), dtype=np.float32)
            if self.shared is not None and self._shares(features):
                shared, tokens = self.shared
                rows = shared.rows(features, tokens, None if pairs else self.extra)  # type: ignore[arg-type]
                kept[id(features)] = rows if pairs else self._beside_vectors(rows, features)
                return kept[id(features)]
            if self.corpus.n_tokens:  # else nothing, whether of words or of dicts
                rows = features.rows(self._source(features), n_jobs)
            kept[id(features)] = self._beside(rows, features, pairs)
        return kept[id(features)]

    def sparse_rows(self, features: FeatureSet, n_jobs: int, pairs: bool = False) -> SparseRows:
        """The same, ready for products; of a few tokens without the detour by scipy."""
        if isinstance(features, TokenFeatures) and self._of_words_alone(features, pairs) and not self._shares(features):
            key = ("few", id(features))
            if self.kept_rows is not None and key in self.kept_rows:
                return self.kept_rows[key]  # type: ignore[no-any-return]
            if (few := features.few_rows(self.corpus)) is not None:
                made = SparseRows.of_ones(*few, features.n_features)
                if self.kept_rows is not None:
                    self.kept_rows[key] = made
                return made
        return SparseRows(self.rows(features, n_jobs, pairs))

    def rows_of_runs(
        self, features: FeatureSet, n_jobs: int, pairs: bool = False
    ) -> tuple[Callable[[int, int], SparseRows], int]:
        """What gives the same for a run of sentences, and how many columns there are; threads may share it. Rows that
        are not kept are made when they are asked for."""
        made_once = self.kept_rows is None and self.corpus.n_tokens > FEW_TOKENS
        if made_once and isinstance(features, TokenFeatures) and self._of_words_alone(features, pairs):
            n_columns = features.n_features
            if self._shares(features):
                return partial(self._shared_run, features), n_columns
            made = features.rows_by_runs(self.corpus, n_jobs)
            return lambda first, last: SparseRows.of_ones(*made(first, last), n_columns), n_columns
        rows, starts = self.sparse_rows(features, n_jobs, pairs), self.corpus.sentence_starts
        return lambda first, last: rows.run(int(starts[first]), int(starts[last])), rows.n_columns

    def _of_words_alone(self, features: FeatureSet, pairs: bool) -> bool:
        """Whether rows are those of templates, with nothing beside them."""
        alone = pairs or (self.extra is None and self.corpus.vectors is None and features.vectors is None)
        return alone and self.items is None and self.corpus.n_tokens > 0

    def _shares(self, features: FeatureSet) -> bool:
        """Whether rows of other documents have these features too, and were made with theirs."""
        return self.shared is not None and self.shared[0].knows(features)

    def _shared_run(self, features: TokenFeatures, first: int, last: int) -> SparseRows:
        assert self.shared is not None
        rows, tokens = self.shared
        starts = self.corpus.sentence_starts
        found = rows.rows(features, tokens[starts[first] : starts[last]])
        return SparseRows.of_ones(found.indptr.astype(np.int64), found.indices, features.n_features)

    def _beside(self, rows: sparse.csr_array, features: FeatureSet, pairs: bool) -> Table:
        """The rows of the features of tokens with the extra columns after them, and vectors after these."""
        if pairs:
            return rows
        if self.extra is not None:
            rows = side_by_side(rows, np.arange(self.corpus.n_tokens), self.extra)
        return self._beside_vectors(rows, features)

    def _beside_vectors(self, rows: sparse.csr_array, features: FeatureSet) -> Table:
        corpus = self.corpus
        if features.vectors is None:
            if corpus.vectors is not None:
                raise InputError(
                    "the model was trained without vectors, and was given some: train it with vectors, or leave them "
                    "out (`corpus.with_vectors(None)`)"
                )
            return rows
        none = corpus.vectors is None and not corpus.n_tokens
        vectors = np.empty((0, features.vectors.width), np.float32) if none else corpus.vectors
        return beside(rows, features.vectors.rows(vectors, corpus.vector_names))

    def for_each(self, answers: Sequence[T], without_tokens: Callable[[], T]) -> Answers[Any]:
        """One answer for each sentence given, from one for each sentence of the corpus; a list of them for each of
        several corpora."""
        known = iter(answers)
        if self.sizes is not None:
            return Answers([next(known) for _ in range(size)] for size in self.sizes)
        if self.filled is None:
            return Answers(answers)
        return Answers(next(known) if has_tokens else without_tokens() for has_tokens in self.filled)

    def _source(self, features: FeatureSet) -> Any:
        if isinstance(features, DictFeatures) != (self.items is not None):
            if self.items is not None and too_deep(self.items):
                raise InputError(TOO_DEEP)
            trained, given = ("feature dicts", "words") if self.items is None else ("words", "feature dicts")
            raise InputError(f"the model was trained on {trained}, but was given {given}")
        return self.corpus if self.items is None else self.items


def _words_beside(X: Any, words: Any, documents: Any) -> tuple[list[list[str]], None, Any]:
    """What a corpus is made of: words of feature dicts, empty ones where there are none, no labels, documents."""
    if words is None:
        if documents is not None:
            raise InputError(
                "`documents` say which sentences belong together, and `words` which of their tokens are one word: give "
                "both beside feature dicts"
            )
        return [["" for _ in sentence] for sentence in X], None, None
    if not isinstance(words, Sequence | np.ndarray) or any(isinstance(row, str) for row in words):
        raise InputError("`words` must be a list of words for each sentence")
    if len(words) != len(X):
        raise InputError(f"X has {len(X)} sentences, `words` have {len(words)}")
    for s, (sentence, row) in enumerate(zip(X, words, strict=True)):
        if len(row) != len(sentence):
            raise InputError(f"sentence {s} has {len(sentence)} tokens in X but {len(row)} `words`")
    return [list(row) for row in words], None, documents


def _check_sentences(X: Any) -> None:
    """Every sentence is a list of tokens, or an array of them."""
    for s, sentence in enumerate(X):
        if isinstance(sentence, list | tuple):
            continue
        got = type(sentence).__name__
        if s == 0 and isinstance(sentence, str | Mapping):
            got = "a list of strings" if isinstance(sentence, str) else "a list of dicts"
            raise InputError(f"expected a list of sentences, each a list of tokens; got {got}")
        expected = f"expected a list of tokens as sentence {s}; got {got}"
        if isinstance(sentence, str | bytes | Mapping):
            raise InputError(expected)
        if hasattr(sentence, "columns"):
            raise InputError(f"{expected}. Give its rows as dicts, such as frame.to_dict('records')")
        try:
            len(sentence), iter(sentence)
        except TypeError:  # generators, sparse matrices, numbers
            remedy = f". {APART}" if getattr(sentence, "ndim", 0) > 1 else "; make it a list"
            raise InputError(f"{expected}{remedy}") from None


def _check_words(X: Any) -> None:
    """Sentences whose first token is a word hold words only."""
    for s, sentence in enumerate(X):
        for t, token in enumerate(sentence):
            if not isinstance(token, str):
                what = f"sentence {s}, token {t} is a {type(token).__name__}"
                raise InputError(f"expected words or feature dicts throughout; the first token is a word, {what}")


def _with_labels(corpus: Corpus, y: Any, scheme: str | None, X: Any = None) -> Corpus:
    if y is None:
        return corpus
    if isinstance(y, str) or not isinstance(y, Sequence | np.ndarray):
        raise InputError(f"y must be a list with a list of labels for each sentence; got {type(y).__name__}")
    if len(y) != (corpus.n_sentences if X is None else len(X)):
        raise InputError(f"X has {corpus.n_sentences if X is None else len(X)} sentences, y has {len(y)}")
    if any(isinstance(labels, str) for labels in y):
        raise InputError("y must hold a list of labels for each sentence; got a string")
    if (bare := next((i for i, labels in enumerate(y) if labels is None), None)) is not None:
        raise InputError(f"sentence {bare} has None in the place of labels; give a list of None, one a token")
    lengths = np.diff(corpus.sentence_starts).tolist() if X is None else [len(sentence) for sentence in X]
    for i, (row, length) in enumerate(zip(y, lengths, strict=True)):
        if len(row) != length:
            raise InputError(f"sentence {i} has {length} tokens in X but {len(row)} labels in y")
    labels = Column.from_labels(label for row in y for label in row)
    return corpus.with_labels(labels, None).with_scheme(scheme, np.flatnonzero(lengths))


# -- Weights of tokens in training: of their class, of their sentence, or both -------------------------


def token_weights(
    batch: Batch,
    labels: NDArray[np.int32],
    classes: Classes,
    class_weight: Mapping[Any, float] | str | None,
    sample_weight: Any,
) -> NDArray[np.float64]:
    """(n,) weight of the class of a token times the weight of its sentence."""
    by_class = np.append(class_weights(labels, classes, class_weight), 1.0)[labels]
    if sample_weight is None:
        return by_class
    corpus = batch.corpus
    sizes, unit = batch.sizes, "document"  # how many sentences of the corpus each thing given has
    if sizes is None:
        unit = "sentence"
        sizes = [1] * corpus.n_sentences if batch.filled is None else batch.filled.astype(int).tolist()
    weights = np.repeat(sample_weights(sample_weight, len(sizes), unit), sizes)
    if not (weights > 0).any():
        raise InputError(NO_WEIGHT)
    by_sentence: NDArray[np.float64] = np.repeat(weights, np.diff(corpus.sentence_starts))
    return by_class * by_sentence


# -- Entities, for people: those predicted, where, what, and how sure --------------------------------


@dataclass(frozen=True)
class Entity:
    """A predicted entity: tokens start, ..., end - 1 of one sentence; `confidence` is its probability, `exact` whether
    that is exact: always along a chain; of a mixture unless its skip edges would take too much work; of a skip-chain
    CRF in documents without skip edges."""

    sentence: int
    start: int
    end: int
    type: str
    confidence: float
    text: str
    exact: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class PlacedEntity(Entity):
    """An entity of a corpus with offsets: characters start_char, ..., end_char - 1 of the text of a document.

    Its `text` has blanks only where that text has some ("IL-2", not "IL - 2"), each run of them as one. A class of its
    own, so that entities of words without a text stay as they are, in files of JSON too.
    """

    document: int
    start_char: int
    end_char: int


def found_spans(batch: Batch, coding: LabelCoding, path: NDArray[np.int32]) -> list[schemes.Span]:
    """The entities of a labelling, by token offsets; none when labels are not spans."""
    if coding.inner is None:
        return []
    return schemes.spans(Column(path, coding.classes.names), batch.corpus.sentence_starts, coding.inner)


class Confidence(NamedTuple):
    """Of entities: their probabilities (m,), and whether each of them is exact (m,)."""

    values: NDArray[np.float64]
    exact: NDArray[np.bool_]


def entity_list(batch: Batch, found: Sequence[schemes.Span], confidence: Confidence) -> list[Entity]:
    """Entities with sentence numbers as the caller counts them (sentences without tokens included).

    Where the corpus has offsets, they are PlacedEntity: predictions led back to characters.
    """
    if not found:
        return []
    corpus, column = batch.corpus, batch.corpus.columns["word"]
    words = [[column.values[code] for code in column.codes[s.start : s.end].tolist()] for s in found]
    sentence = np.searchsorted(corpus.sentence_starts, [s.start for s in found], side="right") - 1
    offset = corpus.sentence_starts[sentence].tolist()
    given = sentence if batch.filled is None else np.flatnonzero(batch.filled)[sentence]
    entities = [
        Entity(i, s.start - o, s.end - o, s.type, c, " ".join(map(str, own)), exact=exact)
        for i, o, s, own, c, exact in zip(
            given.tolist(), offset, found, words, *(part.tolist() for part in confidence), strict=True
        )
    ]
    if corpus.offsets is None:
        return entities
    document = (np.searchsorted(corpus.document_starts, sentence, side="right") - 1).tolist()
    return [
        _placed(e, d, [*map(str, own)], corpus.offsets[s.start : s.end].tolist())
        for e, d, own, s in zip(entities, document, words, found, strict=True)
    ]


def _placed(entity: Entity, document: int, words: Sequence[str], place: Sequence[Sequence[int]]) -> PlacedEntity:
    """The entity with the characters of its tokens; no blank between words that touch."""
    gaps = ["", *("" if start == end else " " for (_, end), (start, _) in pairwise(place))]
    text = "".join(gap + word for gap, word in zip(gaps, words, strict=True))
    return PlacedEntity(
        **{**vars(entity), "text": text}, document=document, start_char=place[0][0], end_char=place[-1][1]
    )
