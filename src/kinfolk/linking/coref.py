"""Documents with mentions and their clusters, in the columns of CoNLL-2012 and what LitBank and GUM make of them.

A file holds documents between "#begin document" and "#end document"; a line is a token, a blank line ends a sentence,
and the last column has the brackets of mentions. Files of the same name add more, wherever they lie
in the folder or archive:

    .conllu   sentences and gold POS, features, heads and relations of the tokens (GUM; its own files have no sentences)
    .ann      the type and form (PROP, NOM or PRON) of each mention (LitBank)

A label may be a cluster alone ("12") or, as in GUM, type-cluster[-link] ("person-10-Charles_Bolden").
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np

from kinfolk.core.data import Column
from kinfolk.core.files import File, Place, checked_utf8, files_in
from kinfolk.errors import InputError, SettingError
from kinfolk.linking.mentions import Mentions
from kinfolk.text.corpus import Corpus

# -- Spans written as brackets in a column, as CoNLL-2012 writes coreference ---------------------------
#
# A cell holds the brackets of one token: "(7" opens a span labelled 7, "7)" closes one, "(7)" is a span of one token.
# Several stand in a row, with "|" between them or without; "-", "_" and an empty cell hold none. A label is any text
# without parentheses, "|" and blanks: a number, or "person-10-Charles_Bolden"; GUM writes parentheses of a label as %28
# and %29, and they are left so. Spans may cross, so a closing bracket goes with the latest open one of its label.
# Brackets of a cell are taken from left to right. Without a bar "(a" before "b)" looks like "(ab)", a span
# of one token, and is read as one.

NO_BRACKETS = frozenset(("", "-", "_"))
UNMATCHED = ("raise", "drop")
DUPLICATES = ("keep", "drop")

# An opening bracket, closed at once or not, or a closing one; with what may stand between brackets before it.
_BRACKET = re.compile(r"\|*(?:\((?P<opened>[^()|\s]+)(?P<at_once>\)?)|(?P<closed>[^()|\s]+)\))")


class LabelledSpan(NamedTuple):
    """Tokens start to end - 1, counted over the document from 0: the end is exclusive."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class BracketSpans:
    """The spans of a document in the order in which they were opened, and what was wrong with its brackets."""

    spans: tuple[LabelledSpan, ...]
    duplicates: tuple[LabelledSpan, ...]
    """Spans whose tokens an earlier span has too, with whatever label; they are among `spans` unless dropped."""
    n_unmatched: int
    """Brackets that were dropped since they had no counterpart."""


def parse_brackets(
    cells: Sequence[str],
    *,
    unmatched: str = "raise",
    duplicates: str = "keep",
    path: str | None = None,
    lines: Sequence[int] | None = None,
) -> BracketSpans:
    """The spans of one document, from the cells of its tokens.

    unmatched   "raise": a bracket without counterpart is an error; "drop": it is left out and counted
    duplicates  "keep" all spans; "drop" those that have the tokens of one opened earlier
    path        the file, and
    lines       the line of each token in it, for messages
    """
    if unmatched not in UNMATCHED or duplicates not in DUPLICATES:
        raise SettingError(
            "unmatched",
            unmatched,
            f"one of {', '.join(UNMATCHED)} and duplicates one of {', '.join(DUPLICATES)}",
            f"and {duplicates!r}",
        )
    if lines is not None and len(lines) != len(cells):
        raise InputError(f"expected a line number a cell, {len(cells)}; got {len(lines)}", path)
    line_of = dict(enumerate(map(int, () if lines is None else lines)))
    starts: list[tuple[int, str]] = []  # token and label of every opening bracket
    ends: dict[int, int] = {}  # which opening bracket ends where
    pending: defaultdict[str, list[int]] = defaultdict(list)  # opening brackets by label, the latest last
    unopened: list[tuple[int, str]] = []
    for token, cell in enumerate(cells):
        if cell in NO_BRACKETS:
            continue
        for opened, at_once, closed in _brackets(cell, path, line_of.get(token)):
            if opened:
                pending[opened].append(len(starts))
                starts.append((token, opened))
            if at_once or closed:
                label = opened or closed
                if pending[label]:
                    ends[pending[label].pop()] = token + 1
                else:
                    unopened.append((token, label))
    unclosed = [start for i, start in enumerate(starts) if i not in ends]
    if unmatched == "raise" and (unopened or unclosed):
        token, label = min(unopened + unclosed)
        closing = (token, label) in unopened
        bracket, lack = (f"{label})", "is never opened before") if closing else (f"({label}", "is never closed")
        others = len(unopened) + len(unclosed) - 1
        more = f" (and {others} more)" if others else ""
        place = "" if lines is not None else f", token {token}"
        remedy = "correct it, or pass `unmatched='drop'`"
        raise InputError(
            f"the bracket {bracket}{place} {lack} in its document{more}; {remedy}", path, line_of.get(token)
        )
    spans = [LabelledSpan(start, ends[i], label) for i, (start, label) in enumerate(starts) if i in ends]
    first: dict[tuple[int, int], LabelledSpan] = {}
    repeated = [span for span in spans if first.setdefault(span[:2], span) is not span]
    kept = spans if duplicates == "keep" else first.values()
    return BracketSpans(tuple(kept), tuple(repeated), len(unopened) + len(unclosed))


def _brackets(cell: str, path: str | None, line: int | None) -> list[tuple[str, str, str]]:
    """Of each bracket: the label it opens, ")" if it closes at once, the label it closes; "" for what it is not."""
    found = list(_BRACKET.finditer(cell))
    if not found or sum(len(match[0]) for match in found) != len(cell.rstrip("|")):
        raise InputError(
            f"expected brackets such as (7, 7) or (7|(8), or one of - _ for none; got {cell!r}; "
            "correct the cell, or name another column",
            path,
            line,
        )
    return [(match["opened"] or "", match["at_once"] or "", match["closed"] or "") for match in found]


# -- Documents ---------------------------------------------------------------------------------------

log = logging.getLogger("kinfolk")

SUFFIXES = (".conll", ".gold_conll", ".auto_conll", ".v4_gold_conll", ".key", ".response")
_BEGIN = re.compile(r"#\s*begin document\s*\(?(?P<name>[^);]*)\)?(?:;\s*part\s+(?P<part>\S+))?")
_TYPED = re.compile(r"(?P<type>[^\W\d_]+)-(?P<cluster>\d+)(?:-.*)?$")
PARSED = {"upos": 3, "feats": 5, "head": 6, "deprel": 7}  # where a CoNLL-U file has them


@dataclass
class _Document:
    name: str
    path: str
    words: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    sentences: list[int] = field(default_factory=lambda: [0])  # where sentences end, so far
    parsed: dict[str, list[str]] = field(default_factory=dict)


def read_coref(path: Place, *, unmatched: str = "raise", duplicates: str = "drop") -> Mentions:
    """All documents of a file, a folder or a tar archive, ordered by file name; every pair within one is a candidate.

    unmatched   "raise": a bracket without counterpart is an error; "drop": it is left out, with a warning
    duplicates  "drop": of mentions of the same tokens the first stays, with a warning; "keep" all

    The items have columns `text`, `type` (entity type) and `form` where the data has them.
    """
    wanted = (*SUFFIXES, ".conllu", ".ann")
    files = files_in(path, lambda inner: inner.name.endswith(wanted))
    beside = {(f.inner.suffix, f.inner.stem): f for f in files if f.inner.suffix in (".conllu", ".ann")}
    texts = [f for f in files if f.inner.suffix not in (".conllu", ".ann")]
    if not texts:
        raise InputError(f"no coreference file here; expected names that end in {', '.join(SUFFIXES)}", str(path))
    documents, mentions, extra = [], [], []
    for file in sorted(texts, key=lambda f: str(f.inner)):
        stem = _stem(file.inner)
        parse, notes = beside.get((".conllu", stem)), beside.get((".ann", stem))
        for document in _documents(file):
            if parse is not None:
                _add_parse(document, parse)
            found = parse_brackets(
                document.cells, unmatched=unmatched, duplicates=duplicates, path=document.path, lines=document.lines
            )
            _warn_of(document, found, duplicates)
            documents.append(document)
            mentions.append(sorted(found.spans, key=lambda s: (s.start, -s.end)))
            extra.append({} if notes is None else _notes(notes, document))
    return _mentions(documents, mentions, extra)


def _stem(inner: PurePosixPath) -> str:
    suffix = next((s for s in SUFFIXES if inner.name.endswith(s)), "")
    return inner.name[: len(inner.name) - len(suffix)]


def lines_of(file: File) -> list[str]:
    return checked_utf8(file.data, file.name).decode().split("\n")


def _documents(file: File) -> Iterator[_Document]:
    document: _Document | None = None
    for number, written in enumerate(lines_of(file), 1):
        line = written.rstrip("\r")
        if line.startswith("#"):
            begins = _BEGIN.match(line)
            if begins:
                if document is not None:
                    yield document
                name, part = begins["name"].strip() or _stem(file.inner), begins["part"]
                document = _Document(f"{name} part {part}" if part and part.strip("0") else name, file.name)
            elif document is not None and re.match(r"#\s*end document", line):
                yield document
                document = None
            continue
        if not line.strip():
            if document is not None and len(document.words) > document.sentences[-1]:
                document.sentences.append(len(document.words))
            continue
        if document is None:
            raise InputError(
                'a token outside a document; expected a line "#begin document (name)" first', file.name, number
            )
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) < 2:
            raise InputError(f"expected at least a word and a coreference column; got {line!r}", file.name, number)
        document.words.append(cells[3] if len(cells) > 4 else cells[1] if len(cells) > 2 else cells[0])
        document.cells.append(cells[-1])
        document.lines.append(number)
    if document is not None:
        yield document


def _add_parse(document: _Document, file: File) -> None:
    """Sentences and columns from a CoNLL-U file with the same tokens."""
    columns: dict[str, list[str]] = {name: [] for name in PARSED}
    ends, words = [0], []
    for line in lines_of(file):
        cells = line.rstrip("\r").split("\t")
        if len(cells) >= 8 and cells[0].isdigit():  # multiword tokens (3-4) and empty nodes (3.1) have other numbers
            words.append(cells[1])
            for name, at in PARSED.items():
                columns[name].append(cells[at])
        elif not line.strip() and len(words) > ends[-1]:
            ends.append(len(words))
    if len(words) != len(document.words):
        got = f"{len(words)} tokens, where {document.path} has {len(document.words)}"
        raise InputError(f"expected the same tokens; got {got}", file.name)
    document.sentences, document.parsed = ends, columns


def _notes(file: File, document: _Document) -> dict[tuple[int, int], tuple[str, str]]:
    """(start, end) -> type and form, from LitBank's lines MENTION id sentence start sentence end text type form."""
    found = {}
    for number, line in enumerate(lines_of(file), 1):
        cells = line.rstrip("\r").split("\t")
        if cells[0] != "MENTION":
            continue
        try:
            first, start, last, end = map(int, cells[2:6])
            span = (document.sentences[first] + start, document.sentences[last] + end + 1)
            found[span] = (cells[7], cells[8])
        except (ValueError, IndexError):
            wanted = "MENTION, id, sentence, start, sentence, end, text, type, form"
            raise InputError(f"expected {wanted}, of the document; got {line!r}", file.name, number) from None
    return found


def _warn_of(document: _Document, found: BracketSpans, duplicates: str) -> None:
    if found.n_unmatched:
        log.warning("%s: %d brackets without counterpart are left out", document.path, found.n_unmatched)
    if found.duplicates and duplicates == "drop":
        one = found.duplicates[0]
        log.warning(
            "%s, line %d: %d mentions repeat the tokens of another (%r) and are left out",
            *(document.path, document.lines[one.start], len(found.duplicates)),
            " ".join(document.words[one.start : one.end]),
        )


def _mentions(
    documents: list[_Document], mentions: list[list[LabelledSpan]], extra: list[dict[tuple[int, int], tuple[str, str]]]
) -> Mentions:
    corpus = _corpus(documents)
    first = corpus.sentence_starts[corpus.document_starts].tolist()
    rows = []
    numbers: dict[tuple[int, str], int] = {}
    for g, (document, found, notes) in enumerate(zip(documents, mentions, extra, strict=True)):
        for start, end, label in found:
            typed = _TYPED.match(label)
            kind, form = notes.get((start, end), (typed["type"] if typed else None, None))
            cluster = numbers.setdefault((g, typed["cluster"] if typed else label), len(numbers))
            text = " ".join(document.words[start:end])
            rows.append((g, first[g] + start, first[g] + end, cluster, f"{start}-{end - 1}", text, kind, form))
    groups, starts, ends, clusters, names, *texts = zip(*rows, strict=True) if rows else [()] * 8
    columns = dict(zip(("text", "type", "form"), texts, strict=True))
    return Mentions.from_groups(
        np.array(groups, np.int32),
        {name: Column.from_strings(c) for name, c in columns.items() if name == "text" or any(c)},
        clusters=np.array(clusters, np.int32),
        names=list(names),
        group_names=[document.name for document in documents],
        corpus=corpus,
        spans=np.array([starts, ends], np.int64).T,
    )


def _corpus(documents: list[_Document]) -> Corpus:
    columns = {"word": Column.from_strings(w for d in documents for w in d.words)}
    if documents and all(d.parsed for d in documents):
        columns |= {name: Column.from_strings(v for d in documents for v in d.parsed[name]) for name in PARSED}
    starts, sentences = [0], [0]
    for document in documents:
        ends = [*document.sentences[1:], len(document.words)]
        base = starts[-1]
        starts += [base + end for end in dict.fromkeys(ends) if end]
        sentences.append(len(starts) - 1)
    return Corpus(columns, np.array(starts, np.int64), np.array(sentences, np.int64))
