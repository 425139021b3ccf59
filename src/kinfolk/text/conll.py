"""Column files, one token a line, as the CoNLL shared tasks have them.

Blank lines end sentences. Cells are split, counted and numbered by kernels, as bytes (`cells`); only distinct cells are
decoded, and a line is looked for only once something is known to be wrong.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.core.files import Source, checked_utf8, read_bytes, read_utf8, write_utf8
from kinfolk.core.settings import SCHEMES
from kinfolk.core.threads import resolve_jobs
from kinfolk.errors import InputError, SettingError
from kinfolk.text.cells import MARKED, Cells
from kinfolk.text.corpus import Corpus
from kinfolk.text.tokenise import pieces, token_spans

MARKER = "-DOCSTART-"
DOCUMENTS = ("auto", "docstart", "blank", "none")
UNKNOWN = "?"

Ints = NDArray[np.int64]


def read_conll(
    path: Source,
    *,
    columns: Sequence[str] | None = None,
    label: str | None = "auto",
    scheme: str | None = "auto",
    documents: str = "auto",
    separator: str | None = None,
    unknown: str | None = UNKNOWN,
    n_jobs: int | None = -1,
) -> Corpus:
    """Read a column file; `path` may be "-" or an open file, and gzip is unpacked.

    columns    names of the columns; by default word, label / word, pos, label / word, pos, chunk, label /
               word, c2, c3, ..., label for two, three, four, more
    label      the column that holds the labels; "auto" is that named "label", else the last of two or more; None is
               none; "optional" is one more than the `columns`, which the file may have or lack
    scheme     "auto" finds the tag scheme (None for labels that are not spans); a named one is obeyed. Tags that
               break it are read as conlleval reads them, and counted in a warning
    documents  "docstart": a line starting with -DOCSTART- starts one, unless it is the last; "blank": two blank lines
               end one; "none": every sentence is one; "auto": the first of these that the file shows
    separator  what stands between cells; by default any run of spaces and tabs
    unknown    how the file writes a label that is not known; None if it knows all
    n_jobs     threads; -1: every core
    """
    reader = ColumnReader(columns, label, documents, separator, unknown, n_jobs=n_jobs)
    check_scheme(scheme)
    data, reader.name = read_bytes(path)
    corpus = reader.corpus(data)
    if corpus is None:
        raise reader.without_tokens()
    return corpus.with_scheme(scheme)


def check_scheme(scheme: str | None) -> None:
    if scheme not in (None, "auto", *SCHEMES):
        raise SettingError("scheme", scheme, f"auto, None or one of {', '.join(SCHEMES)}")


@dataclass
class ColumnReader:
    """How a column file is read, whole or in pieces of whole documents one after the other; settings as `read_conll`.

    lines_before, ...   how many there were in pieces before
    waiting             markers behind the last token: documents without a sentence, if a token follows
    first               line and width of the first token
    """

    columns: Sequence[str] | None
    label: str | None
    documents: str
    separator: str | None
    unknown: str | None
    name: str = "<file>"
    lines_before: int = 0
    bytes_before: int = 0
    waiting: int = 0
    first: tuple[int, int] | None = None
    n_jobs: int | None = -1

    def __post_init__(self) -> None:
        if self.documents not in DOCUMENTS:
            raise SettingError("documents", self.documents, f"one of {', '.join(DOCUMENTS)}")
        if self.columns is not None and ("word" not in self.columns or len(set(self.columns)) < len(self.columns)):
            raise SettingError("columns", list(self.columns), "distinct names with 'word' among them")
        _check_separator(self.separator)

    def without_tokens(self) -> InputError:
        return InputError("no tokens: expected one token a line, found none", self.name)

    def corpus(self, data: bytes) -> Corpus | None:
        """The next documents, with labels whose scheme is not yet known; None where there is no token."""
        text = checked_utf8(data, self.name, self.bytes_before, self.lines_before)
        separator = b"" if self.separator is None else self.separator.encode()
        cells = Cells.of(text, separator, MARKER.encode(), resolve_jobs(self.n_jobs))
        before = self.lines_before
        self.lines_before += len(cells.widths) - 1  # behind the last line end begins no line
        self.bytes_before += len(data)
        widths, markers = cells.widths, np.flatnonzero(cells.widths == MARKED)
        lines = np.flatnonzero(widths > 0)
        if not len(lines):
            self.waiting += len(markers)
            return None
        names = self._names(int(widths[lines[0]]), int(lines[0]), before, text)
        assert self.first is not None
        line, width = self.first
        ragged = lines[widths[lines] != width]
        if len(ragged):
            doubtful = [int(ragged[0]), *([line - before - 1] if line > before else [])]
            raise InputError(
                f"expected {width} columns ({', '.join(names)}) as in line {line}, got {widths[ragged[0]]}; "
                f"complete the line, or pass `separator=...` if cells hold blanks{_comments(text, doubtful, before)}",
                self.name,
                before + int(ragged[0]) + 1,
            )
        numbers = before + lines + 1
        table = {key: _coded(cells, i, len(names), self.name, numbers) for i, key in enumerate(names)}
        labels = _labels(table, self.label, self.unknown)
        sentences = np.concatenate([[0], np.flatnonzero(np.diff(lines) > 1) + 1, [len(lines)]])
        documents = _document_starts(lines, sentences, markers, self.documents)
        if self.documents == "docstart":
            documents = np.concatenate([np.zeros(self.waiting, np.int64), documents])
        self.waiting = int((markers > lines[-1]).sum())
        kind = np.int32 if numbers[-1] < 2**31 else np.int64
        return Corpus(table, sentences, documents, labels, source=self.name, lines=numbers.astype(kind))

    def _names(self, width: int, number: int, before: int, text: bytes) -> list[str]:
        """Of the columns, which the first token decides; the number of its line in this text, behind so
        many lines before."""
        if self.first is None:
            line, comment = before + number + 1, _comments(text, [number], before)
            self.first = line, width
            if self.label == "optional" and self.columns is not None:  # it is one column more than the names
                labelled = width == len(self.columns) + 1
                if not labelled and width != len(self.columns):
                    raise _other_width([*self.columns], True, width, self.name, line, comment)
                self.columns, self.label = ([*self.columns, "label"], "label") if labelled else (self.columns, None)
            self.columns = _column_names(self.columns, width, self.name, line, comment)
        return list(self.columns or ())


def write_conll(
    corpus: Corpus,
    path: str | os.PathLike[str],
    *,
    labels: Sequence[Sequence[Any]] | None = None,
    separator: str = " ",
    document_marker: bool = True,
    unknown: str = UNKNOWN,
) -> None:
    """Write the columns, the labels if there are any, and predicted `labels`, one list a sentence, last.

    Documents are marked with -DOCSTART- lines unless each is one sentence, which a reader assumes anyway.
    The file appears whole or not at all; "-" is standard output; a name in .gz is compressed.
    """
    marked = document_marker and not (np.diff(corpus.document_starts) == 1).all()
    write_utf8(path, conll_lines(corpus, labels, separator, marked, unknown))


def conll_lines(
    corpus: Corpus,
    labels: Sequence[Sequence[Any]] | None = None,
    separator: str = " ",
    marked: bool = True,
    unknown: str = UNKNOWN,
) -> Iterator[str]:
    """What `write_conll` writes, a sentence at a time; `marked`: with -DOCSTART- lines."""
    _check_separator(separator)
    table = [_strings(column, separator, name) for name, column in corpus.columns.items()]
    if MARKER in next(iter(corpus.columns.values())).values:
        raise InputError(f"the word {MARKER} would read as the start of a document; replace it")
    if corpus.labels is not None:
        if unknown in corpus.labels.values:
            raise InputError(f"the label {unknown!r} would read as an unknown one; pass another `unknown=...`")
        known = _strings(corpus.labels, separator, "label")
        table.append([unknown if text is None else text for text in known])
    if labels is not None:
        if list(map(len, labels)) != np.diff(corpus.sentence_starts).tolist():
            raise InputError("labels must hold one list a sentence, one label a token of the corpus")
        table.append(_strings(Column.from_labels(chain.from_iterable(labels)), separator, "predicted label"))
    tokens = list(map(separator.join, zip(*table, strict=True)))  # type: ignore[arg-type]
    marker = separator.join([MARKER, *["-X-"] * (len(table) - 2), *["O"] * (len(table) > 1)])
    yield from _blocks(corpus, tokens, marker if marked else None)


def _check_separator(separator: str | None) -> None:
    if separator is not None and (len(separator) != 1 or separator in "\r\n"):
        raise SettingError("separator", separator, "one character, not a line end")


def is_marker(line: bytes, separator: str | None) -> bool:
    """Whether the first cell of a line is the marker, and nothing stands before it."""
    cells = line.split() if separator is None else line.rstrip(b"\r").split(separator.encode())
    return bool(cells) and line.startswith(MARKER.encode()) and cells[0] == MARKER.encode()


def _other_width(
    columns: Sequence[str], labelled: bool, width: int, name: str, line: int, comment: str
) -> InputError:  # fmt: skip
    """Of a first line with other cells than columns are named; `labelled`: one of labels may follow them."""
    wanted = f"expected {len(columns)} column{'s' * (len(columns) != 1)} ({', '.join(columns)})"
    more = f", or {len(columns) + 1} with labels ({', '.join([*columns, 'label'])})" if labelled else ""
    return InputError(f"{wanted}{more}, got {width}; correct `columns=...` or `separator=...`{comment}", name, line)


def _comments(text: bytes, lines: Sequence[int], before: int) -> str:
    """What to say of the first of these lines of a piece that begins with #; nothing where none does."""
    for line, found in ((line, islice(re.finditer(rb"[^\n]*\n?", text), line, None)) for line in lines):
        if next(found)[0].lstrip().startswith(b"#"):
            return f". Line {before + line + 1} begins with #: if it is a comment, remove it, as such files have none"
    return ""


def _column_names(columns: Sequence[str] | None, width: int, name: str, line: int, comment: str = "") -> list[str]:
    if columns is not None:
        if len(columns) != width:
            raise _other_width(columns, False, width, name, line, comment)
        return list(columns)
    if width == 1:
        return ["word"]
    middle = {3: ["pos"], 4: ["pos", "chunk"]}.get(width, [f"c{i}" for i in range(2, width)])
    return ["word", *middle, "label"]


def _coded(cells: Cells, column: int, width: int, name: str, lines: Ints) -> Column:
    """A column of a file; `lines`: the number of each in it."""
    codes, values = cells.column(column, width)
    if b"" in values:
        line = int(lines[(codes == values.index(b"")).argmax()])
        raise InputError("expected text in every column, a cell is empty; fill it", name, line)
    return Column(codes, tuple(cell.decode() for cell in values))


def _labels(table: dict[str, Column], label: str | None, unknown: str | None) -> Column | None:
    """Take the labels out of the table, with the sign for an unknown one as -1."""
    if label is None or (label == "auto" and len(table) == 1):
        return None
    key = ("label" if "label" in table else list(table)[-1]) if label == "auto" else label
    if key not in table or key == "word":
        raise SettingError.saying(f"label must name one of the columns {', '.join(table)}; got {label!r}")
    column = table.pop(key)
    if unknown not in column.values:
        return column
    gone = column.values.index(unknown)
    codes = np.where(column.codes == gone, -1, column.codes - (column.codes > gone))
    return Column(codes, column.values[:gone] + column.values[gone + 1 :])


def _document_starts(lines: Ints, sentences: Ints, markers: Ints, documents: str) -> Ints:
    """Sentence offsets of the documents, from the line numbers of tokens and markers."""
    first, last = lines[sentences[:-1]], lines[sentences[1:] - 1]
    ended = np.flatnonzero(first[1:] - last[:-1] > 2) + 1  # two blank lines or more before these sentences
    if documents == "auto":
        documents = "docstart" if len(markers) else "blank" if len(ended) else "none"
    if documents == "none":
        return np.arange(len(sentences))
    inner = np.searchsorted(first, markers) if documents == "docstart" else ended
    inner = inner[inner < len(first)]  # a marker at the end starts nothing
    before = [0] if documents == "blank" or not len(inner) or inner[0] > 0 else []
    return np.concatenate([before, inner, [len(first)]]).astype(np.int64)


def _strings(column: Column, separator: str, name: str) -> list[str | None]:
    """The cells, once none of them would fall apart when read back."""
    for value in column.values:
        cell = value.encode()
        kept = cell.split() == [cell] if separator == " " else cell.strip() and separator not in value
        if not kept or "\n" in value or "\r" in value:
            raise InputError(f"{name} {value!r} would not read back as one cell; change it or the separator")
    return column.strings()


def _blocks(corpus: Corpus, tokens: list[str], marker: str | None) -> Iterable[str]:
    sentences = ["\n".join(tokens[a:b]) + "\n\n" for a, b in pairwise(corpus.sentence_starts.tolist())]
    for first, last in pairwise(corpus.document_starts.tolist()):
        yield from [] if marker is None else [f"{marker}\n\n"]
        yield from sentences[first:last]


# -- Running text: one sentence a line, a blank line ends a document -----------------------------------


def read_text(path: Source, *, tokenise: bool | str = True) -> Corpus:
    """Read plain text as a corpus without labels; `path` may be "-" or an open file, gzip is unpacked.

    `tokenise` is a way of `kinfolk.text.tokenise`: "blanks" (False) cuts at blanks; "words" (True) cuts quotes,
    brackets and .,;:!?% off the ends of words too; "penn" cuts English as CoNLL's files do (Kim 's); "fine" is how the
    readers of protein names and e-mail cut, and so what text for models trained on those needs. `offsets` count the
    characters of the whole file, line ends included, a byte order mark not.
    """
    reader = TextReader(tokenise)
    data, reader.name = read_bytes(path)
    corpus = reader.corpus(data)
    if corpus is None:
        raise reader.without_tokens()
    return corpus


@dataclass
class TextReader:
    """How a text is read, whole or in pieces of whole documents one after the other.

    lines_before, ...   how many there were in pieces before
    """

    tokenise: bool | str
    name: str = "<file>"
    lines_before: int = 0
    bytes_before: int = 0
    characters_before: int = 0

    def without_tokens(self) -> InputError:
        return InputError("no tokens: expected one sentence a line, found none", self.name)

    def corpus(self, data: bytes) -> Corpus | None:
        """The next documents; None where there is no token."""
        way = self.tokenise if isinstance(self.tokenise, str) else "words" if self.tokenise else "blanks"
        text = checked_utf8(data, self.name, self.bytes_before, self.lines_before).decode("utf-8")
        offsets = token_spans(text, way)
        line_ends = np.fromiter((match.start() for match in re.finditer("\n", text)), np.int64)
        lines = np.searchsorted(line_ends, offsets[:, 0])  # of the tokens; no token holds a line end
        before, characters = self.lines_before, self.characters_before
        self.lines_before, self.characters_before = before + len(line_ends), characters + len(text)
        self.bytes_before += len(data)
        if not len(offsets):
            return None
        sentences = np.flatnonzero(np.diff(lines, prepend=-1))
        documents = np.flatnonzero(np.diff(lines[sentences]) > 1) + 1
        words, numbers = {"word": Column.from_strings(pieces(text, offsets))}, before + lines + 1
        starts = np.append(sentences, len(offsets)), np.concatenate([[0], documents, [len(sentences)]])
        kind = np.int32 if numbers[-1] < 2**31 else np.int64
        return Corpus(words, *starts, source=self.name, lines=numbers.astype(kind), offsets=offsets + characters)


# -- Lists of names in text files, one entry a line ----------------------------------------------------


def read_gazetteer(path: Source) -> list[str]:
    """The entries of a file: one a line, blank lines and lines that start with # left out."""
    data, name = read_utf8(path)
    lines = (" ".join(line.split()) for line in data.decode("utf-8").splitlines())
    entries = [line for line in lines if line and not line.startswith("#")]
    if not entries:
        raise InputError("no entries: expected one name a line", PurePath(name).as_posix())
    return entries
