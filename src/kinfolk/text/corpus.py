"""Documents of sentences of tokens, column by column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from numbers import Integral
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.core.data import Column, read_only
from kinfolk.errors import DataWarning, InputError, warn
from kinfolk.text.vectors import as_vectors, checked_names, checked_vectors, column_names


@dataclass(frozen=True, eq=False)
class Corpus:
    """Tokens in sentences in documents; the front of the token task.

    It is a sequence of documents: len(corpus) counts them, corpus[2] and what it is iterated over are corpora of one
    document, corpus[[0, 2]], a slice or a mask give those of several. So scikit-learn's splitters cut it by document.

    columns          name -> Column; "word" is always there, others ("pos", "chunk", ...) as read
    sentence_starts  int64 (S + 1,), token offsets; every sentence has at least one token
    document_starts  int64 (D + 1,), sentence offsets; a document may be empty
    labels           Column or None; code -1 = token without a known label
    scheme           "IOB1", "BIO", "IOBES" or "BILOU"; None when labels are not spans (e.g. POS tags)
    source, lines    where the tokens were read from: file name, and line number of each token
    offsets          int64 (n, 2), where each token begins and ends (exclusive), in characters of the text its document
                     was read from; what that text is, the reader says. None where there was no such text
    features         for each sentence the features of its tokens, dicts or lists of strings, as sklearn-crfsuite takes
                     them: models that have them look at nothing else of a token itself. None: templates make features
    vectors          float32 (n, d), dense columns of tokens such as embeddings, or None; see `with_vectors`
    vector_names     one string for each of these columns, or None
    """

    columns: Mapping[str, Column]
    sentence_starts: NDArray[np.int64]
    document_starts: NDArray[np.int64]
    labels: Column | None = None
    scheme: str | None = None
    source: str | None = None
    lines: NDArray[np.int32] | None = field(default=None, repr=False)
    offsets: NDArray[np.int64] | None = field(default=None, repr=False)
    features: Sequence[Sequence[Any]] | None = field(default=None, repr=False)
    vectors: NDArray[np.float32] | None = field(default=None, repr=False)
    vector_names: tuple[str, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if "word" not in self.columns:
            raise InputError(f"a corpus needs a column named 'word'; got {', '.join(self.columns) or 'none'}")
        n = len(self.columns["word"])
        named = dict(self.columns) if self.labels is None else {**self.columns, "(labels)": self.labels}
        for name, column in named.items():
            if len(column) != n:
                raise InputError(f"column {name!r} has {len(column)} tokens, column 'word' has {n}")
            if name != "(labels)" and len(column) and column.codes.min() < 0:
                raise InputError(f"column {name!r} lacks a value at token {int(column.codes.argmin())}")
        sentences = _checked_starts(self.sentence_starts, n, "sentence_starts")
        if (np.diff(sentences) == 0).any():
            raise InputError("a sentence must have at least one token; drop empty sentences")
        documents = _checked_starts(self.document_starts, len(sentences) - 1, "document_starts")
        if self.lines is not None and len(self.lines) != n:
            raise InputError(f"lines must give one line number a token ({n}); got {len(self.lines)}")
        if self.offsets is not None:
            object.__setattr__(self, "offsets", _checked_offsets(self.offsets, n))
        if self.features is not None and [*map(len, self.features)] != np.diff(sentences).tolist():
            raise InputError("features must be given for each token of each sentence")
        if self.vectors is not None:
            given = np.asarray(self.vectors)
            looked_over = not given.flags.writeable and given.dtype == np.float32 and given.shape[:1] == (n,)
            found = (
                given if looked_over and given.ndim == 2 else checked_vectors(given, n)
            )  # those of a corpus have been
            object.__setattr__(self, "vectors", found)
            object.__setattr__(self, "vector_names", checked_names(self.vector_names, found.shape[1]))
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        object.__setattr__(self, "sentence_starts", sentences)
        object.__setattr__(self, "document_starts", documents)

    def told(self) -> tuple[Any, ...]:
        """All that models look at, for a digest: not the place it came from."""
        tokens = dict(self.columns), self.sentence_starts, self.document_starts, self.labels, self.scheme
        return *tokens, self.offsets, self.features, self.vectors, self.vector_names

    @classmethod
    def from_sentences(
        cls,
        sentences: Sequence[Sequence[str]],
        labels: Sequence[Sequence[Any]] | None = None,
        documents: Sequence[int] | Sequence[str] | None = None,
        scheme: str | None = "auto",
        features: Sequence[Sequence[Any]] | None = None,
        offsets: Sequence[Sequence[Sequence[int]]] | None = None,
        **columns: Sequence[Sequence[str]],
    ) -> Corpus:
        """A corpus from lists of words; `documents` gives the number of sentences of each document, or for each
        sentence the name or number of the document it is of, those of one document together. Numbers that could be
        either are an error: strings are always names.

        Without `documents` each sentence is a document of its own. Empty sentences are dropped. The tag scheme
        of the labels is found unless given; None: they are not spans. Labels are strings, numbers or truth values, all
        of one type; None and NaN are unknown. `features` are feature dicts of the tokens, for models to look at in the
        place of what templates make of words and columns. `offsets` says where tokens stand in the text of their
        document: for each sentence a list of (start, end), the end exclusive; predicted entities then have their
        characters.
        """
        sentences, features = as_list(sentences), as_list(features)
        if any(isinstance(s, str) for s in sentences):
            raise InputError("a sentence is a list of words; got a string: split it, or use read_text")
        if too_deep(sentences):
            raise InputError(TOO_DEEP)
        if (bare := next((i for i, s in enumerate(sentences) if s is None), None)) is not None:
            raise InputError(f"sentence {bare} is None; give a list of its words")
        lengths = [len(s) for s in sentences]
        given: dict[str, Sequence[Sequence[Any]]] = {"word": sentences, **columns}
        if labels is not None:
            given["(labels)"] = as_list(labels)
        built: dict[str, Column] = {}
        for name, rows in given.items():
            if not isinstance(rows, Sequence | np.ndarray) or any(isinstance(row, str | int) for row in rows):
                raise InputError(f"{name!r} is taken as a column: expected a list of strings for each sentence")
            if (bare := next((i for i, row in enumerate(rows) if row is None), None)) is not None:
                what = f"sentence {bare} has None in the place of {name.strip('()')!r}"
                raise InputError(f"{what}; give a list, of labels that are not known a list of None, one a token")
            if [len(row) for row in rows] != lengths:
                raise InputError(f"{name.strip('()')!r} must have the same sentence lengths as the words")
            made = Column.from_labels if name == "(labels)" else Column.from_strings
            built[name] = made(token for row in rows for token in row)
        if features is not None:
            features = _checked_features(features, lengths)
        per_document = [1] * len(sentences) if documents is None else _sizes(list(documents), len(sentences))
        kept = starts_of([length > 0 for length in lengths])
        label_column = built.pop("(labels)", None)
        starts = starts_of([length for length in lengths if length])
        placed = None if offsets is None else _placed(offsets, lengths)
        place = kept[starts_of(per_document)]
        corpus = cls(built, starts, place, label_column, offsets=placed, features=features)
        return corpus.with_scheme(scheme, np.flatnonzero(lengths))

    @classmethod
    def from_rows(
        cls,
        rows: Any,
        tokens: str = "tokens",
        tags: str | None = "ner_tags",
        names: Sequence[str] | Mapping[Any, str] | None = None,
        document: str | None = None,
        scheme: str | None = "auto",
        **columns: str,
    ) -> Corpus:
        """A corpus from rows of sentences, a list of tokens and one of tags in each, as `datasets` has them.

        rows       a `datasets.Dataset`, a table of Arrow, polars, pandas or DuckDB, what gives an Arrow stream, a path
                   or glob of Parquet files, a list of dicts, or a dict of lists
        tokens     the column of lists of words
        tags       the column of lists of labels: strings, or numbers of `names`, -1 and -100 for unknown; None: none
        names      what numbers stand for, in order, or as a dict number -> name (`id2label`); None: as the features of
                   the dataset, or the schema of its table, have it
        document   the column that names the document of a row, those of one together; None: each row is one
        scheme     of the labels, as in `from_sentences`
        columns    other columns of lists: `pos="pos_tags"`
        """
        from kinfolk.text.rows import corpus_from_rows  # here, as rows are made into a corpus

        return corpus_from_rows(rows, tokens, tags, names, document, scheme, columns)

    @classmethod
    def from_docs(
        cls,
        docs: Any,
        spans: str | None = None,
        scheme: str = "BILOU",
        columns: Mapping[str, str] | None = None,
    ) -> Corpus:
        """A corpus from documents of spaCy, without tokens that are blank; offsets are those of each document's text.

        docs      Docs, or Examples, whose reference is taken; sentences are theirs, or a whole document where it has
                  none
        spans     entities are those of `doc.spans[spans]`, which must not overlap; None: `doc.ents`. Tokens of which
                  a Doc does not know whether they are in an entity have unknown labels
        scheme    the tag scheme of the labels
        columns   other columns, each an attribute of tokens: {"pos": "TAG"}
        """
        from kinfolk.text.spacy_docs import corpus_from_docs  # here, as Docs are made into a corpus

        return corpus_from_docs(docs, spans, scheme, columns)

    @property
    def n_tokens(self) -> int:
        return len(self.columns["word"])

    @property
    def n_sentences(self) -> int:
        return len(self.sentence_starts) - 1

    @property
    def n_documents(self) -> int:
        return len(self.document_starts) - 1

    @property
    def token_documents(self) -> NDArray[np.int32]:
        """int32 (n,), the document of each token."""
        token_starts = self.sentence_starts[self.document_starts]
        return np.repeat(np.arange(self.n_documents, dtype=np.int32), np.diff(token_starts))

    @property
    def token_sentences(self) -> NDArray[np.int32]:
        """int32 (n,), the sentence of each token."""
        return np.repeat(np.arange(self.n_sentences, dtype=np.int32), np.diff(self.sentence_starts))

    @property
    def is_labelled(self) -> bool:
        """Whether any token has a known label."""
        return self.labels is not None and bool((self.labels.codes >= 0).any())

    def line_of(self, token: int) -> tuple[str | None, int | None]:
        """The file and the line that a token was read from, as errors take them."""
        return self.source, None if self.lines is None else int(self.lines[token])

    def rows(self, column: str = "word") -> list[list[str]]:
        """One list of strings a sentence."""
        return self._by_sentence(self.columns[column].strings())

    def label_rows(self) -> list[list[Any]]:
        """One list of labels a sentence, of the type they came in; None where a token has none."""
        return self._by_sentence([None] * self.n_tokens if self.labels is None else self.labels.labels())

    def _by_sentence(self, values: list[Any]) -> list[list[Any]]:
        return [values[a:b] for a, b in pairwise(self.sentence_starts.tolist())]

    def with_labels(self, labels: Column | None, scheme: str | None) -> Corpus:
        return replace(self, labels=labels, scheme=scheme)

    def with_vectors(self, vectors: Any, names: Sequence[str] | None = None) -> Corpus:
        """The corpus with dense columns beside its words, such as embeddings; all taggers learn from them.

        vectors   an array (tokens, columns) of numbers, or one such array a sentence; None takes them away
        names     one string a column, for explanations, in which columns of one name are one; a model that was trained
                  with names refuses others. None: those of a data frame
        """
        if vectors is None:
            return replace(self, vectors=None, vector_names=None)
        found = as_vectors(vectors, np.diff(self.sentence_starts))
        known = column_names(vectors) if names is None else names
        return replace(self, vectors=found, vector_names=checked_names(known, found.shape[1]))

    def with_scheme(self, scheme: str | None = "auto", sentences: ArrayLike | None = None) -> Corpus:
        """The labels taken in a tag scheme: "auto" finds it, None takes labels that are no spans as they are.

        Tags that break the scheme are counted in a warning: entities are read as conlleval reads them, so that I-PER
        with no PER before it starts one. A label that is no tag of the scheme at all is an error. `sentences` are the
        numbers to call sentences by, where some were left out.
        """
        taken, slips = self.in_scheme(scheme, None, sentences)
        if slips is not None:
            warn_slips(*slips)
        return taken

    def in_scheme(
        self, scheme: str | None, all_labels: Any = None, sentences: ArrayLike | None = None
    ) -> tuple[Corpus, tuple[Any, InputError] | None]:
        """The same without a warning: the `schemes.Slips` and where the first of them is, where there are any.
        `all_labels`: the `schemes.Evidence` of a corpus that this one is a part of, by which the scheme is found."""
        from kinfolk.text import schemes  # here, as schemes are about columns

        if self.labels is None or scheme is None:
            return replace(self, scheme=None), None
        found: str | None = scheme
        try:
            if scheme == "auto":
                known = all_labels or schemes.Evidence.of(self.labels, self.sentence_starts)
                found = known.scheme(self.labels)
            elif (fault := schemes.not_tags(self.labels, scheme)) is not None:
                raise schemes.TagError(fault)
        except schemes.TagError as error:
            path, line, place = self._place(error.fault.token, sentences)
            raise InputError(place + error.fault.reason, path, line) from None
        taken = replace(self, scheme=found)
        if found is None:
            return taken, None
        slips = schemes.slips(self.labels, self.sentence_starts, found, scheme == "auto", all_labels)
        if slips is None:
            return taken, None
        path, line, place = self._place(slips.first.token, sentences)
        return taken, (slips, InputError(place + slips.first.reason, path, line))

    def _place(self, token: int, sentences: ArrayLike | None) -> tuple[str | None, int | None, str]:
        """File and line of a token; where it came from no file, its sentence and place in it."""
        if self.lines is not None:
            return *self.line_of(token), ""
        sentence = int(self.token_sentences[token])
        number = sentence if sentences is None else np.asarray(sentences)[sentence]
        return self.source, None, f"sentence {number}, token {token - self.sentence_starts[sentence]}: "

    def documents(self, start: int, stop: int) -> Corpus:
        """The documents start, ..., stop - 1 as a corpus of their own."""
        if not 0 <= start <= stop <= self.n_documents:
            raise InputError(f"documents go from 0 to {self.n_documents}; asked for {start} to {stop}")
        first, last = self.document_starts[start], self.document_starts[stop]
        sentences, documents = self.sentence_starts[first : last + 1], self.document_starts[start : stop + 1]
        chosen = range(int(first), int(last))
        return self._part(slice(sentences[0], sentences[-1]), sentences - sentences[0], documents - first, chosen)

    def select(self, documents: ArrayLike) -> Corpus:
        """The documents of a list of numbers, in that order, as a corpus of their own."""
        chosen = np.asarray(documents, np.int64).reshape(-1)
        if len(chosen) and not 0 <= chosen.min() <= chosen.max() < self.n_documents:
            raise InputError(
                f"documents are numbered 0 to {self.n_documents - 1}; got {chosen.min()} to {chosen.max()}"
            )
        sentences = _runs(self.document_starts, chosen)
        per_sentence, per_document = np.diff(self.sentence_starts)[sentences], np.diff(self.document_starts)[chosen]
        starts = starts_of(per_sentence), starts_of(per_document)
        return self._part(_runs(self.sentence_starts, sentences), *starts, sentences.tolist())

    def _part(
        self,
        tokens: Any,
        sentence_starts: NDArray[np.int64],
        document_starts: NDArray[np.int64],
        sentences: Sequence[int],
    ) -> Corpus:
        """Some tokens, by a slice or by their numbers; `sentences`: theirs."""
        parts = {name: replace(column, codes=column.codes[tokens]) for name, column in self.columns.items()}
        return Corpus(
            parts,
            sentence_starts,
            document_starts,
            None if self.labels is None else replace(self.labels, codes=self.labels.codes[tokens]),
            self.scheme,
            self.source,
            None if self.lines is None else self.lines[tokens],
            None if self.offsets is None else self.offsets[tokens],
            None if self.features is None else [self.features[s] for s in sentences],
            None if self.vectors is None else read_only(self.vectors[tokens]),
            self.vector_names,
        )

    @classmethod
    def joined(cls, corpora: Sequence[Corpus]) -> Corpus:
        """Corpora one after the other; they need the same columns and tag scheme."""
        if not corpora:
            raise InputError("there is nothing to join: give at least one corpus")
        first = corpora[0]
        for other in corpora[1:]:
            if {*other.columns} != {*first.columns} or (other.labels is None) != (first.labels is None):
                raise InputError("corpora to be joined need the same columns, and all or none of them labels")
            if other.scheme != first.scheme:
                raise InputError(f"corpora to be joined need the same tag scheme; got {first.scheme}, {other.scheme}")
            if (other.features is None) != (first.features is None):
                raise InputError("corpora to be joined need feature dicts, all or none of them")
        vectors = [corpus.vectors for corpus in corpora if corpus.vectors is not None]
        if len(vectors) not in (0, len(corpora)) or len({array.shape[1] for array in vectors}) > 1:
            widths = ", ".join("none" if c.vectors is None else str(c.vectors.shape[1]) for c in corpora[:10])
            raise InputError(f"corpora to be joined need vectors of the same number of columns, or none; got {widths}")
        if len({corpus.vector_names for corpus in corpora}) > 1:
            raise InputError("corpora to be joined need vectors with the same names of columns, or all without names")
        apart = {name: [corpus.columns[name] for corpus in corpora] for name in first.columns}
        together: dict[str, Any] = {}
        for part in ("lines", "offsets"):
            arrays = [getattr(corpus, part) for corpus in corpora]
            together[part] = None if any(array is None for array in arrays) else np.concatenate(arrays)
        if first.features is not None:
            together["features"] = [items for corpus in corpora for items in corpus.features or ()]
        sources = {corpus.source for corpus in corpora}
        return cls(
            {name: Column.joined(columns) for name, columns in apart.items()},
            starts_of(np.concatenate([np.diff(corpus.sentence_starts) for corpus in corpora])),
            starts_of(np.concatenate([np.diff(corpus.document_starts) for corpus in corpora])),
            None if first.labels is None else Column.joined([c.labels for c in corpora if c.labels is not None]),
            first.scheme,
            first.source if len(sources) == 1 else None,
            **together,
            vectors=read_only(np.concatenate(vectors)) if vectors else None,
            vector_names=first.vector_names,
        )

    def __len__(self) -> int:
        return self.n_documents

    def __getitem__(self, documents: Any) -> Corpus:
        if isinstance(documents, int | np.integer):
            number = int(documents) + (self.n_documents if documents < 0 else 0)
            if not 0 <= number < self.n_documents:
                raise IndexError(f"there are {self.n_documents} documents; asked for number {documents}")
            return self.documents(number, number + 1)
        if isinstance(documents, slice):
            return self.select(np.arange(self.n_documents)[documents])
        chosen = np.asarray(documents if np.size(documents) else np.empty(0, np.int64))
        if chosen.dtype == bool and chosen.shape == (self.n_documents,):
            chosen = np.flatnonzero(chosen)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            wanted = f"numbers of documents, or a truth value for each of the {self.n_documents}"
            raise InputError(f"expected {wanted}; got an array of {chosen.dtype} of shape {chosen.shape}")
        return self.select(np.where(chosen < 0, chosen + self.n_documents, chosen))

    def __iter__(self) -> Iterator[Corpus]:
        return (self.documents(number, number + 1) for number in range(self.n_documents))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """One object a document."""
        return one_row(self)

    def __reduce__(self) -> tuple[Any, ...]:
        starts = (self.sentence_starts, self.document_starts)
        places = (self.source, self.lines, self.offsets)
        given = (self.features, self.vectors, self.vector_names)
        return Corpus, (dict(self.columns), *starts, self.labels, self.scheme, *places, *given)

    def __repr__(self) -> str:
        return (
            f"Corpus({self.n_documents} documents, {self.n_sentences} sentences, {self.n_tokens} tokens, "
            f"columns {', '.join(self.columns)}, scheme {self.scheme}{', feature dicts' * (self.features is not None)}"
            f"{'' if self.vectors is None else f', vectors of {self.vectors.shape[1]} columns'})"
        )


TOO_DEEP = (
    "nested one level too deep: expected a list of sentences, each a list of words, and got a list of documents, each "
    "a list of sentences. Flatten them, [sentence for document in documents for sentence in document]; to keep "
    "documents together, Corpus.from_sentences(flat, documents=[str(k) for k, document in enumerate(documents) for "
    "sentence in document])"
)


def warn_slips(slips: Any, first: InputError) -> None:
    """Of tags that break their scheme, `schemes.Slips`, and where the first of them is."""
    count = "1 tag breaks" if slips.total == 1 else f"{slips.total:,} tags break"
    warn(
        f"{first}. {count} the scheme; training and scores repair such tags as conlleval does: what carries on "
        f"no entity starts one. Repaired: {slips.in_words()}. If the labels are in another scheme, name it",
        DataWarning,
    )


def too_deep(sentences: Iterable[Any], words: tuple[type, ...] = (str,)) -> bool:
    """Whether what should be tokens of sentences are themselves lists of `words`."""
    first = next((token for sentence in sentences if isinstance(sentence, list | tuple) for token in sentence), None)
    return isinstance(first, list | tuple) and len(first) > 0 and isinstance(first[0], words)


def as_list(given: Any) -> Any:
    """A column of pandas or polars as the list it holds; everything else as it is."""
    return given.to_list() if hasattr(given, "to_list") and getattr(given, "ndim", 1) == 1 else given


def _checked_features(features: Any, lengths: Sequence[int]) -> list[Sequence[Any]]:
    """Those of sentences that have tokens."""
    from kinfolk.text.dicts import check_items  # here, as a corpus of words has none

    if not isinstance(features, Sequence | np.ndarray) or any(isinstance(row, str | Mapping) for row in features):
        raise InputError("features must be a list of feature dicts for each sentence")
    if [len(row) for row in features] != list(lengths):
        raise InputError("'features' must have the same sentence lengths as the words")
    check_items(features)
    return [row for row in features if len(row)]


def _sizes(documents: list[Any], n_sentences: int) -> list[int]:
    """How many sentences each document has, from these numbers or from the document each sentence is of."""
    whole = all(isinstance(one, Integral) and not isinstance(one, bool) for one in documents)
    sizes = whole and sum(documents) == n_sentences and min(documents, default=0) >= 0
    if sizes and len(documents) != n_sentences:
        return documents
    if len(documents) != n_sentences or not (whole or all(isinstance(one, str) for one in documents)):
        raise InputError(
            f"documents must be sizes that add up to {n_sentences} sentences, or a name or number of its document for "
            f"each of the {n_sentences}; got {len(documents)}: {str(documents[:10])[1:-1]}. Leave it out if each "
            "sentence is a document"
        )
    runs = [(name, len(list(run))) for name, run in groupby(documents)]
    again = next((name for name, count in Counter(name for name, _ in runs).items() if count > 1), None)
    if sizes and (again is not None or [size for _, size in runs] == documents):  # no names, or the same by either
        return documents
    if sizes:
        raise _could_be_both(documents, n_sentences)
    if again is not None:
        raise InputError(
            f"the sentences of a document must stand together; those of {again!r} come in several places: sort them"
        )
    return [size for _, size in runs]


def _could_be_both(documents: list[int], n_sentences: int) -> InputError:
    """Whole numbers, one a sentence, that add up to the number of sentences."""
    each = {*documents} == {1}
    sizes = "leave `documents` out if each sentence is a document" if each else (
        "as sizes give those of documents that have sentences alone"
    )  # fmt: skip
    return InputError(
        f"documents may be sizes that add up to {n_sentences} sentences, or numbers of the document of each; got "
        f"{str(documents[:10])[1:-1]}{', ...' * (len(documents) > 10)}, which could be both: as names give strings, "
        f"`list(map(str, documents))`{', which are one document' * each}; {sizes}"
    )


def one_row(things: Iterable[Any]) -> NDArray[Any]:
    """An array of objects: lists of one length do not become a table, and lists of several are no error."""
    return np.fromiter(things, object)


def _runs(starts: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers starts[i], ..., starts[i + 1] - 1 for each chosen i, one run after the other."""
    lengths = np.diff(starts)[chosen]
    before = starts_of(lengths)
    return np.asarray(np.arange(before[-1]) + np.repeat(starts[chosen] - before[:-1], lengths))


def starts_of(lengths: ArrayLike) -> NDArray[np.int64]:
    """(n + 1,), where runs of these lengths begin, one behind the other, and where the last one ends."""
    return np.append(0, np.cumsum(lengths)).astype(np.int64)


def of_words(corpus: Corpus, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """(n,), where a test of the word holds, called once a distinct word."""
    words = corpus.columns["word"]
    return np.array([test(v) for v in words.values], bool)[words.codes]


def shifted(values: NDArray[Any], corpus: Corpus, offset: int) -> NDArray[Any]:
    """(n,), for each token the value `offset` tokens on; 0 beyond its sentence."""
    if not offset:
        return values
    sentence, out = corpus.token_sentences, np.zeros_like(values)
    here, there = slice(None, -abs(offset)), slice(abs(offset), None)
    if offset < 0:
        here, there = there, here
    out[here] = values[there] * (sentence[here] == sentence[there])
    return out


def _checked_starts(starts: ArrayLike, total: int, name: str) -> NDArray[np.int64]:
    array = np.asarray(starts, np.int64)
    if array.ndim != 1 or not len(array) or array[0] != 0 or array[-1] != total or (np.diff(array) < 0).any():
        raise InputError(f"{name} must rise from 0 to {total}")
    return read_only(array)


def _placed(offsets: Sequence[Sequence[Sequence[int]]], lengths: list[int]) -> NDArray[Any]:
    """(n, 2), from a list of (start, end) for each sentence."""
    try:
        given = [len(row) for row in offsets]
        flat = np.array([place for row in offsets for place in row])
    except (TypeError, ValueError):
        given, flat = [], np.empty(0)
    n = int(np.sum(lengths))
    if given != lengths or (n and flat.shape != (n, 2)):
        raise InputError("'offsets' must have for each sentence a list of (start, end), one for each of its words")
    return flat if n else np.empty((0, 2), np.int64)


def _checked_offsets(offsets: ArrayLike, total: int) -> NDArray[np.int64]:
    array = np.asarray(offsets)
    if array.shape != (total, 2) or (total and array.dtype.kind not in "iu"):
        got = f"{array.dtype} of shape {array.shape}"
        raise InputError(f"offsets must be whole numbers, start and end of each token ({total}, 2); got {got}")
    wrong = np.flatnonzero((array[:, 0] < 0) | (array[:, 0] > array[:, 1]))
    if len(wrong):
        start, end = array[wrong[0]].tolist()
        raise InputError(f"offsets must have 0 <= start <= end; token {wrong[0]} goes from {start} to {end}")
    return read_only(array.astype(np.int64, copy=False))


def in_context(corpus: Corpus, start: int, end: int, around: int) -> tuple[str, str, str]:
    """Words before, of and behind tokens start, ..., end - 1: at most `around` on a side, as far as their sentence
    goes; "…" where it goes on."""
    sentences = np.searchsorted(corpus.sentence_starts, [start, end - 1], side="right") - 1
    first, last = int(corpus.sentence_starts[sentences[0]]), int(corpus.sentence_starts[sentences[1] + 1])
    low, high = max(first, start - around), min(last, end + around)
    word = corpus.columns["word"]

    def words(a: int, b: int) -> list[str]:
        return [str(word.values[code]) for code in word.codes[a:b]]

    before, after = ["…"] * (low > first) + words(low, start), words(end, high) + ["…"] * (high < last)
    return " ".join(before), " ".join(words(start, end)), " ".join(after)


AROUND = 12  # words of context on each side that a page shows


def words_in_context(corpus: Corpus, start: int, end: int) -> dict[str, Any]:
    return dict(zip(("before", "words", "after"), in_context(corpus, start, end, AROUND), strict=True))
