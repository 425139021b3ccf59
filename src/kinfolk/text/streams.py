"""Files of any length, in pieces of whole documents: read, labelled and written as they come.

A tagger looks no further than a document, so pieces that end where a document ends get the labels that the file gets. A
piece has about `PIECE` bytes; a document of more is a piece by itself. Where the file has to be looked at as a whole
first (how it tells documents apart, in which tag scheme its labels are), it is read twice; a pipe, which cannot be, is
then copied to a temporary file.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from kinfolk.core.checkpoint import learned
from kinfolk.core.files import BYTE_ORDER_MARK, Blocks, Source, most_unpacked, too_large
from kinfolk.core.piecewise import write_pieces
from kinfolk.errors import InputError
from kinfolk.text.conll import MARKER, UNKNOWN, ColumnReader, TextReader, check_scheme, conll_lines, is_marker
from kinfolk.text.corpus import Corpus, warn_slips
from kinfolk.text.dicts import DictFeatures
from kinfolk.text.schemes import Evidence, Slips

PIECE = 1 << 20  # bytes: about 65,000 tokens, which take some 90 MB to be labelled; more are no faster

_BLANK = re.compile(rb"\n[^\S\n]*\n")
_TWO_BLANKS = re.compile(rb"\n[^\S\n]*\n[^\S\n]*\n")
_GAP = re.compile(rb"\n[^\S\n]*\n[^\S\n]*\n\s*\S")
_MARKER = b"\n" + MARKER.encode()
_OVERLAP = 256  # bytes that are looked at again, as a blank line may lie across two blocks


class Piece(NamedTuple):
    """Whole documents, and how many sentences and documents came before them."""

    corpus: Corpus
    sentence: int
    document: int


def stream_conll(
    path: Source,
    *,
    columns: Sequence[str] | None = None,
    label: str | None = "auto",
    scheme: str | None = "auto",
    documents: str = "auto",
    separator: str | None = None,
    unknown: str | None = UNKNOWN,
    piece: int = PIECE,
) -> Iterator[Corpus]:
    """A column file of any length as corpora of whole documents, one after the other; settings as of `read_conll`.

    piece   bytes of the file in a corpus, about; a document of more is a corpus by itself
    """
    stream = ColumnStream(path, ColumnReader(columns, label, documents, separator, unknown), scheme, piece)
    return (one.corpus for one in stream)


def stream_text(path: Source, *, tokenise: bool | str = True, piece: int = PIECE) -> Iterator[Corpus]:
    """A plain text of any length as corpora of whole documents, one after the other; settings as of `read_text`.

    piece   bytes of the file in a corpus, about; a document of more is a corpus by itself
    """
    return (one.corpus for one in TextStream(path, TextReader(tokenise), piece))


class Stream:
    """Abstract: the pieces of a file.

    writes   whether it will be written again, for which is known before the first piece whether documents are `marked`:
             they are unless each is one sentence, as `write_conll` has it
    """

    def __init__(self, source: Source, reader: Any, piece: int, writes: bool = False) -> None:
        self.source, self.reader, self.piece, self.writes = source, reader, max(1, piece), writes
        self.marked = False

    def __iter__(self) -> Iterator[Piece]:
        with Blocks(self.source) as blocks:
            self.reader.name = blocks.name
            first = blocks.read(self.piece)
            blocks.unread(first)
            if not self._settled(lambda: io.BytesIO(first), len(first) < self.piece):
                blocks.keep()
                self._settled(lambda: _from_the_start(blocks), True)
                blocks.rewind()
            sentence = document = 0
            for corpus in self._corpora(blocks, self.reader):
                yield Piece(self._ready(corpus), sentence, document)
                sentence, document = sentence + corpus.n_sentences, document + corpus.n_documents
            if not sentence:
                raise self.reader.without_tokens()
        self._end()

    def _settled(self, opened: Callable[[], Readable], whole: bool) -> bool:
        """Find out what has to be known before the first piece; whether it is known. `opened` gives the file from its
        first byte on, or, if not `whole`, as much of it as a piece holds."""
        if not self.writes:
            return True
        reader = replace(self.reader)
        self.marked = any((np.diff(one.document_starts) != 1).any() for one in self._corpora(opened(), reader, whole))
        return self.marked or whole

    def _corpora(self, stream: Readable, reader: Any, whole: bool = True) -> Iterator[Corpus]:
        for data in cut(stream, self.piece, self._last_document, whole, reader.name):
            corpus = reader.corpus(data)
            if corpus is not None:
                yield corpus

    def _last_document(self, data: bytearray, start: int) -> int:
        """Where in the data, from `start` on, the last document begins that is known to, -1: none."""
        raise NotImplementedError

    def _ready(self, corpus: Corpus) -> Corpus:
        """A corpus as the caller gets it."""
        return corpus

    def _end(self) -> None:
        """After the last piece."""


class TextStream(Stream):
    """Of a text, with a `TextReader`."""

    def _last_document(self, data: bytearray, start: int) -> int:
        return _behind(_BLANK, data, start)


class ColumnStream(Stream):
    """Of a column file, with a `ColumnReader`, whose labels are in a tag scheme as `read_conll` takes it."""

    def __init__(
        self, source: Source, reader: ColumnReader, scheme: str | None, piece: int = PIECE, writes: bool = False
    ) -> None:
        super().__init__(source, reader, piece, writes)
        check_scheme(scheme)
        self.scheme = scheme
        self.evidence: Evidence | None = None
        self._slips: tuple[Slips, InputError] | None = None

    def _settled(self, opened: Callable[[], Readable], whole: bool) -> bool:
        reader = self.reader
        if reader.documents == "auto":
            found = documents_of(opened(), reader.separator, self.piece, whole)
            if found is None:
                return False
            reader.documents = found
        writes = self.writes and reader.documents != "none"
        if not writes and (self.scheme != "auto" or reader.label is None):
            return True
        evidence, marked, asks = Evidence(), False, self.scheme == "auto"
        for corpus in self._corpora(opened(), replace(reader), whole):
            marked |= bool((np.diff(corpus.document_starts) != 1).any())
            asks &= corpus.labels is not None
            if asks and corpus.labels is not None:
                evidence.add(Evidence.of(corpus.labels, corpus.sentence_starts))
            elif marked or not writes:
                self.marked = marked
                return True
        self.marked, self.evidence = writes and marked, evidence
        return whole

    def _last_document(self, data: bytearray, start: int) -> int:
        if self.reader.documents != "docstart":  # a blank line is the end of a sentence, two that of a document
            return _behind(_BLANK if self.reader.documents == "none" else _TWO_BLANKS, data, start)
        end = len(data)
        while (at := data.rfind(_MARKER, start, end)) >= 0:
            line_end = data.find(b"\n", at + 1)
            if line_end >= 0 and is_marker(bytes(data[at + 1 : line_end]), self.reader.separator):
                return at + 1
            end = at + len(_MARKER) - 1
        return -1

    def _ready(self, corpus: Corpus) -> Corpus:
        taken, slips = corpus.in_scheme(self.scheme, self.evidence)
        if slips is not None:
            self._slips = slips if self._slips is None else (self._slips[0].and_then(slips[0]), self._slips[1])
        return taken

    def _end(self) -> None:
        if self._slips is not None:
            warn_slips(*self._slips)


# -- Where a file may be cut ---------------------------------------------------------------------------------


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def cut(
    stream: Readable, size: int, last: Callable[[bytearray, int], int], whole: bool = True, name: str = "<file>"
) -> Iterator[bytes]:
    """Pieces of about `size` bytes that end where documents end. `last(data, start)`: where the last document behind
    `start` begins, or -1. If the stream is not `whole`, what stands behind the last end is left out. A document that
    does not end is refused at the limit of what is unpacked."""
    data, most = bytearray(), most_unpacked()
    while block := stream.read(size):
        seen = max(0, len(data) - _OVERLAP)
        data += block
        at = last(data, seen)
        if at > 0:
            yield bytes(data[:at])
            del data[:at]
        if len(data) > most:
            raise too_large("a document has", name)
    if data and whole:
        yield bytes(data)


def _behind(pattern: re.Pattern[bytes], data: bytearray, start: int) -> int:
    """Where the last match of a pattern ends; of a large piece the last part is looked at first."""
    for begin in (max(start, len(data) - 16 * _OVERLAP), start):
        ends = [match.end() for match in pattern.finditer(data, begin)]
        if ends:
            return ends[-1]
    return -1


def documents_of(stream: Readable, separator: str | None, size: int, whole: bool) -> str | None:
    """How a column file tells documents apart: "docstart" if a line is a marker, else "blank" if two blank lines stand
    between tokens, else "none". None: what there is of the stream does not tell."""
    rest, tail, gap = b"", b"", False
    while block := stream.read(size):
        lines = rest + block
        if not (rest or tail):
            lines = lines.removeprefix(BYTE_ORDER_MARK)
        at = lines.rfind(b"\n") + 1
        lines, rest = lines[:at], lines[at:]
        if _has_marker(lines, separator):
            return "docstart"
        joined = tail + lines if tail else lines.lstrip()
        gap = gap or _GAP.search(joined) is not None
        if joined:
            tail = b"x" + b"\n" * min(3, joined[len(joined.rstrip()) :].count(b"\n"))
    if not whole:
        return None
    if _has_marker(rest, separator):
        return "docstart"
    return "blank" if gap or _GAP.search((tail + rest) if tail else b"") else "none"


def _has_marker(lines: bytes, separator: str | None) -> bool:
    lines = b"\n" + lines
    at = lines.find(_MARKER)
    while at >= 0:
        end = lines.find(b"\n", at + 1)
        if is_marker(lines[at + 1 : end if end >= 0 else len(lines)], separator):
            return True
        at = lines.find(_MARKER, at + 1)
    return False


def _from_the_start(blocks: Blocks) -> Blocks:
    blocks.rewind()
    return blocks


# -- Files labelled --------------------------------------------------------------------------------------------


def opened_stream(
    model: Any, path: Source, *, text: bool, forced: bool, scheme: str | None, separator: str | None,
    documents: str, piece: int = PIECE,
) -> Stream:  # fmt: skip
    """A file for a model: the columns it was trained on, perhaps with one of labels behind them; or a text. Labels that
    are not `forced` are only written again, so their scheme is of no matter unless it is named."""
    if text:
        return TextStream(path, TextReader(True), piece, writes=True)
    reader = ColumnReader(columns_of(model), "optional", documents, separator, UNKNOWN)
    return ColumnStream(path, reader, scheme if forced or scheme != "auto" else None, piece, writes=True)


def columns_of(model: Any) -> tuple[str, ...]:
    """The columns that a model was trained on; an error where it was on feature dicts, which no file holds."""
    first = model.levels_[0] if hasattr(model, "levels_") else getattr(model, "chain_", model)
    if isinstance(first.features_, DictFeatures):
        raise InputError(
            "the model was trained on feature dicts, but was given words: make the dicts in Python and give them to "
            "`predict`"
        )
    columns: tuple[str, ...] = first.columns_
    return columns


def labelled_lines(model: Any, stream: Stream, forced: bool) -> Iterator[str]:
    """The columns of a file with predicted labels behind them, as `write_conll` writes them with what stands between
    cells of the file, a piece at a time."""
    between = getattr(stream.reader, "separator", None) or " "  # which a text has not
    for corpus, _, _ in stream:
        yield "".join(conll_lines(corpus, model.predict(corpus, forced=forced), between, stream.marked))


def tag_file(
    model: Any, path: Source, into: str | os.PathLike[str], *, text: bool, forced: bool, scheme: str | None,
    separator: str | None, documents: str, piece: int = PIECE, checkpoint: str | os.PathLike[str] | None = None,
) -> None:  # fmt: skip
    """What `tag_file` of a model does."""
    model._require_fitted()
    settings: dict[str, Any] = {"scheme": scheme, "separator": separator, "documents": documents, "piece": piece}
    stream = opened_stream(model, path, text=text, forced=forced, **settings)
    write_tagged(model, stream, into, labelled_lines, checkpoint, forced, text, settings)


def write_tagged(
    model: Any, stream: Any, into: str | os.PathLike[str], lines: Callable[..., Iterator[str]],
    checkpoint: str | os.PathLike[str] | None, forced: bool, *how: Any,
) -> None:  # fmt: skip
    """`lines(model, pieces, forced)` of all pieces of a stream. `how`: what else they depend on, for a checkpoint."""
    given = () if checkpoint is None else (learned(model), forced, *how)
    write_pieces(into, lambda pieces: lines(model, pieces, forced), stream, checkpoint, model, *given)
