"""Documents of spaCy as a corpus, with the way back from its tokens to theirs.

sentences   as the Doc has them; a Doc that has none is one sentence. An entity that crosses a border shows that the
            border is wrong: sentences that an entity crosses are one
tokens      without those that are blank (line breaks, a second space), which stand between the words of a name
entities    `doc.ents`, or a group of `doc.spans`; a token of which a Doc does not know whether it is in an entity
            has no known label
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.errors import DataWarning, InputError, warn
from kinfolk.text import schemes
from kinfolk.text.corpus import Corpus, starts_of

Array = NDArray[Any]
Ints = NDArray[np.int64]
NOT_KNOWN, INSIDE, OUTSIDE, FIRST = range(4)  # what spaCy's ENT_IOB says of a token
ATTRIBUTES = ("TAG", "POS", "LEMMA", "DEP", "MORPH", "NORM", "LOWER", "SHAPE")  # that are strings


class Entities(NamedTuple):
    """Those of one Doc, by its tokens: what ENT_IOB says, and the numbers that its vocabulary has for types."""

    iob: Array
    types: Array

    @property
    def inside(self) -> Array:
        """Whether a token is in an entity; a first one without a type is where spaCy is told that there is none."""
        return np.asarray(((self.iob == INSIDE) | (self.iob == FIRST)) & (self.types > 0))


@dataclass(frozen=True, eq=False)
class DocTokens:
    """The corpus that Docs are.

    places      int64 (n,), of each token its number in its Doc
    entities    those of each Doc that labels were made of
    unbounded   how many Docs of several words have no sentence boundaries
    crossing    how many borders of sentences an entity crosses
    """

    docs: Sequence[Any]
    corpus: Corpus
    places: Ints
    entities: Sequence[Entities]
    unbounded: int
    crossing: int

    def labels(self, entities: Sequence[Entities], scheme: str) -> Column:
        """The entities as tags of the tokens; -1 where a Doc does not know."""
        kept = self.by_document(self.places)
        iob = _flat([one.iob[k] for one, k in zip(entities, kept, strict=True)])
        types = _flat([np.where(one.inside, one.types, 0)[k] for one, k in zip(entities, kept, strict=True)])
        number = _flat([np.cumsum(one.iob == FIRST)[k] for one, k in zip(entities, kept, strict=True)])
        inside = types > 0
        begins = inside & schemes.sentence_edges(self.corpus.sentence_starts, len(inside))[:-1]
        begins[1:] |= inside[1:] & (number[1:] != number[:-1])  # not by FIRST, whose token may be blank and left out
        distinct, where = np.unique(types[inside], return_index=True)
        first = np.flatnonzero(inside)[where]
        names = [str(self._doc_of(int(k)).vocab.strings[int(one)]) for one, k in zip(distinct, first, strict=True)]
        codes = np.where(iob == NOT_KNOWN, -1, 0)
        codes[inside] = 1 + 2 * np.searchsorted(distinct, types[inside]) + ~begins[inside]
        values = ("O", *(f"{letter}-{name}" for name in names for letter in "BI"))
        return schemes.convert(Column(codes, values), self.corpus.sentence_starts, "BIO", scheme)

    def by_document(self, values: Array) -> list[Array]:
        """What there is a value a token of, in parts, one a Doc."""
        starts = self.corpus.sentence_starts[self.corpus.document_starts].tolist()
        return [values[a:b] for a, b in pairwise(starts)]

    def _doc_of(self, token: int) -> Any:
        return self.docs[int(self.corpus.token_documents[token])]


def _flat(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.empty(0, np.uint64), *(part.astype(np.uint64) for part in parts)])


def corpus_from_docs(
    docs: Any, spans: str | None = None, scheme: str = "BILOU", columns: Mapping[str, str] | None = None
) -> Corpus:
    """What `Corpus.from_docs` gives."""
    schemes.checked(scheme)
    given = checked_docs(docs)
    tokens = doc_tokens(given, entities_of(given, spans), columns)
    if tokens.unbounded:
        warn(without_sentences(tokens.unbounded, len(given)), DataWarning)
    if tokens.crossing:
        many = tokens.crossing > 1
        what = f"{tokens.crossing} borders of sentences lie" if many else "1 border of sentences lies"
        warn(f"{what} within an entity; the sentences on both sides are taken as one", DataWarning)
    if not any((one.iob != NOT_KNOWN).any() for one in tokens.entities):
        return tokens.corpus
    labels = tokens.labels(tokens.entities, scheme)
    lost = sum(int(((one.iob == FIRST) & (one.types > 0)).sum()) for one in tokens.entities)
    lost -= len(schemes.spans(labels, tokens.corpus.sentence_starts, scheme))
    if lost:
        warn(
            f"{lost} entit{'ies hold' if lost > 1 else 'y holds'} nothing but blanks, which no label says", DataWarning
        )
    return tokens.corpus.with_labels(labels, scheme)


def without_sentences(unbounded: int, all_docs: int) -> str:
    count = f"{unbounded} of {all_docs} documents {'have' if unbounded > 1 else 'has'} no sentence boundaries"
    remedy = 'to have them, `nlp.add_pipe("sentencizer")` before'
    return f"{count}: each such document is taken as one sentence; {remedy}"


def checked_docs(docs: Any) -> list[Any]:
    """Docs; of Examples those that have the truth."""
    if hasattr(docs, "to_array"):
        docs = [docs]
    if hasattr(docs, "get_docs"):
        raise InputError("expected Docs; got a DocBin: give `docs.get_docs(nlp.vocab)`")
    if isinstance(docs, str) or not isinstance(docs, Iterable):
        raise InputError(f"expected a list of spaCy's Docs; got a {type(docs).__name__}: `nlp.pipe(texts)` gives some")
    given = [getattr(one, "reference", one) for one in docs]
    strange = next((k for k, one in enumerate(given) if not hasattr(one, "to_array")), None)
    if strange is not None:
        got = type(given[strange]).__name__
        raise InputError(f"expected a Doc or an Example as number {strange}; got a {got}: `nlp.pipe(texts)` gives Docs")
    return given


# -- entities ---------------------------------------------------------------------------------------------


def entities_of(docs: Sequence[Any], spans: str | None = None) -> list[Entities]:
    """`doc.ents` of each, or the spans of a group, which must not overlap."""
    if spans is None:
        return [Entities(*doc.to_array(["ENT_IOB", "ENT_TYPE"]).reshape(len(doc), 2).T) for doc in docs]
    if docs and not any(spans in doc.spans for doc in docs):
        there = ", ".join(map(repr, dict.fromkeys(key for doc in docs for key in doc.spans))) or "none at all"
        raise InputError(f"no document has spans named {spans!r}; there are {there}")
    return [_of_group(doc, number, spans) for number, doc in enumerate(docs)]


def _of_group(doc: Any, number: int, key: str) -> Entities:
    iob, types = np.full(len(doc), OUTSIDE, np.uint64), np.zeros(len(doc), np.uint64)
    last = None
    for span in sorted(doc.spans.get(key, []), key=lambda one: (one.start, -one.end)):
        if last is not None and span.start < last.end:
            both = f"{last.text!r} ({last.label_}) and {span.text!r} ({span.label_}) at token {span.start}"
            remedy = "a token has one label here; keep some with `spacy.util.filter_spans(doc.spans[key])`"
            raise InputError(f"document {number}: spans of {key!r} overlap, {both}; {remedy}")
        if not span.label:
            raise InputError(f"document {number}: the span {span.text!r} of {key!r} has no label")
        iob[span.start : span.end], types[span.start : span.end], iob[span.start] = INSIDE, span.label, FIRST
        last = span
    return Entities(iob, types)


def gold_entities(example: Any) -> Entities:
    """Those of the truth, by the tokens of the prediction; unknown where the two cannot be brought together."""
    predicted, reference = example.predicted, example.reference
    if [token.text for token in predicted] == [token.text for token in reference]:
        (found,) = entities_of([reference])
        for label in {*found.types.tolist()} - {0}:
            predicted.vocab.strings.add(reference.vocab.strings[label])
        return found
    iob, types = np.zeros(len(predicted), np.uint64), np.zeros(len(predicted), np.uint64)
    for k, tag in enumerate(example.get_aligned_ner()):
        if tag and tag != "-":
            iob[k] = OUTSIDE if tag == "O" else FIRST if tag[0] in "BU" else INSIDE
            types[k] = 0 if tag == "O" else predicted.vocab.strings.add(tag[2:])
    return Entities(iob, types)


# -- tokens -----------------------------------------------------------------------------------------------


def doc_tokens(
    docs: Sequence[Any],
    entities: Sequence[Entities],
    columns: Mapping[str, str] | None = None,
    also: Sequence[Entities] = (),
) -> DocTokens:
    """The Docs as a corpus without labels.

    columns   name in the corpus -> attribute of spaCy's tokens: {"pos": "TAG"}
    also      other entities of the same Docs, whose sentences have to be whole too
    """
    attributes = ["ORTH", *(columns or {}).values()]
    found: dict[str, list[Array]] = {name: [] for name in attributes}
    places, offsets, starts, per_document = [], [], [], []
    unbounded = crossing = begun = 0
    for number, doc in enumerate(docs):
        for name in attributes[1:]:
            _require(doc, number, name)
        table = doc.to_array(["IDX", "LENGTH", "IS_SPACE", *attributes]).reshape(len(doc), 3 + len(attributes))
        kept = np.flatnonzero(table[:, 2] == 0)
        begins, is_bounded = _sentence_begins(doc)
        unbounded += not is_bounded and len(kept) > 1
        held = [one[number] for one in (entities, also) if len(one)]
        within = np.any([one.inside & (one.iob == INSIDE) for one in held], axis=0) & begins
        crossing += int(within.sum())
        sentence = np.cumsum(begins & ~within)[kept]
        own = np.flatnonzero(np.diff(sentence, prepend=-1))
        places.append(kept)
        starts.append(own + begun)
        per_document.append(len(own))
        begun += len(kept)
        place = table[kept, :2].astype(np.int64)
        offsets.append(np.stack([place[:, 0], place.sum(axis=1)], axis=1))
        for name, values in zip(attributes, table[kept, 3:].T, strict=True):
            found[name].append(values)
    owner = np.repeat(np.arange(len(docs)), [len(kept) for kept in places])
    made = {name: _strings(parts, owner, docs) for name, parts in found.items()}
    corpus = Corpus(
        {"word": made["ORTH"], **{own: made[name] for own, name in (columns or {}).items()}},
        np.append(np.concatenate([np.empty(0, np.int64), *starts]), begun),
        starts_of(np.array(per_document, np.int64)),
        offsets=np.concatenate([np.empty((0, 2), np.int64), *offsets]),
    )
    flat = np.concatenate([np.empty(0, np.int64), *places])
    return DocTokens(docs, corpus, flat, entities, unbounded, crossing)


def _require(doc: Any, number: int, attribute: str) -> None:
    if attribute not in ATTRIBUTES:
        raise InputError(f"expected an attribute of spaCy's tokens, {', '.join(ATTRIBUTES)}; got {attribute!r}")
    if not doc.has_annotation(attribute):
        raise InputError(
            f"document {number} has no {attribute}; add the component that sets it to the pipeline, before"
        )


def _sentence_begins(doc: Any) -> tuple[Array, bool]:
    """Which tokens begin a sentence, and whether the Doc says so."""
    begins = np.zeros(len(doc), bool)
    begins[:1] = True
    if not doc.has_annotation("SENT_START"):
        return begins, False
    if "sents" in doc.user_hooks:
        begins[[sentence.start for sentence in doc.sents]] = True
    else:
        begins |= doc.to_array(["SENT_START"]).reshape(-1) == 1
    return begins, True


def _strings(parts: Sequence[Array], owner: Ints, docs: Sequence[Any]) -> Column:
    """Numbers of strings, which are the same in every vocabulary, as a column: each string is looked up once."""
    numbers = _flat(parts)
    distinct, first, codes = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)  # strings in order of appearance
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    values = tuple(str(docs[owner[first[k]]].vocab.strings[int(distinct[k])]) for k in order)
    return Column(rank[codes.reshape(-1)], values)
