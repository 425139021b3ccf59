"""Abstracts with protein names marked: GENIA, AIMed and Yapex."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple
from xml.parsers import expat

import numpy as np

from kinfolk.core.files import File, Place, files_in
from kinfolk.errors import InputError, SettingError
from kinfolk.text.corpus import Corpus
from kinfolk.text.standoff import Mark, Marked, checked_mark, standoff_corpus
from kinfolk.text.tokenise import line_spans, sentence_spans

# -- XML as a stream of starts, texts and ends, each element with its line; nothing is fetched, nothing expanded ---
#
# This is the parser beneath xml.etree, used directly because it has the line of every element and lets entity
# declarations be refused the moment they appear. A DOCTYPE is allowed, and the DTD it points to is never opened.

CHUNK = 1 << 16


class Start(NamedTuple):
    """A start tag."""

    tag: str
    attributes: dict[str, str]
    line: int


class End(NamedTuple):
    """An end tag."""

    tag: str
    line: int


Event = Start | End | str


def xml_events(data: bytes, name: str) -> Iterator[Event]:
    """Tags and the text between them, in order; broken XML ends in an InputError with its line."""
    events: list[Event] = []
    parser = expat.ParserCreate()
    parser.buffer_text = True  # text in one piece, not cut at every entity and line end

    def declared(entity: str, *_: object) -> None:
        reason = f"declares the entity {entity!r}, which could grow without bound or read other files"
        raise InputError(f"{reason}; write it out and remove the declaration", name, parser.CurrentLineNumber)

    def skipped(entity: str, *_: object) -> None:
        raise InputError(f"unknown entity &{entity};: write the character itself", name, parser.CurrentLineNumber)

    parser.EntityDeclHandler = declared
    parser.SkippedEntityHandler = skipped
    parser.CharacterDataHandler = events.append
    parser.StartElementHandler = lambda tag, given: events.append(Start(tag, given, parser.CurrentLineNumber))
    parser.EndElementHandler = lambda tag: events.append(End(tag, parser.CurrentLineNumber))
    for start in range(0, len(data) + 1, CHUNK):
        chunk = data[start : start + CHUNK]
        try:
            parser.Parse(chunk, start + CHUNK > len(data))
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise InputError(f"broken XML ({reason}); correct it or fetch the file again", name, error.lineno) from None
        except InputError:  # of the handlers above
            raise
        except (LookupError, ValueError) as error:
            raise InputError(f"unusable encoding ({error}); convert the file to UTF-8", name) from None
        yield from events
        events.clear()


def attribute(element: Start, key: str, name: str) -> str:
    """An attribute that must be there."""
    if key not in element.attributes:
        got = ", ".join(element.attributes) or "none"
        raise InputError(f"<{element.tag}> needs the attribute {key!r}; it has {got}", name, element.line)
    return element.attributes[key]


# -- E-mail with marked names, as IBM's SystemT keeps it: <split>/data/ID and <split>/label/ID.xml -----

NUMBER = re.compile("[0-9]{1,18}")
LAYOUT = "<split>/data/ID and <split>/label/ID.xml"


def read_mail(path: Place, split: str | None = None, *, tokenise: str = "fine") -> Corpus:
    """Read e-mails with the names marked in them: a document a mail, by ID, a sentence a line that is not blank.

    path      a folder or a tar archive (gzip is unpacked) with data/ID and label/ID.xml, or with several such splits
    split     which of several, by name or by what follows the last - of it: "test" for personSelfLabel-test
    tokenise  a way of `kinfolk.text.tokenise`

    Mails are latin-1; `offsets` count the characters of a mail, its line ends as they are. Labels have the name
    of the element that marks them, as in B-Person. Without the folder label the corpus has no labels.
    """
    name = os.fspath(path)
    files = files_in(path, lambda inner: inner.parent.name in ("data", "label") and inner.name[0] != ".")
    chosen = _chosen(files, split, name)
    mails = {file.inner.name: file for file in files if file.inner.parent == chosen / "data"}
    labels = {file.inner.stem: file for file in files if file.inner.parent == chosen / "label"}
    lone = sorted(mails.keys() ^ labels.keys()) if labels else []
    if lone:
        file, lacks = (mails[lone[0]], "label") if lone[0] in mails else (labels[lone[0]], "mail")
        raise InputError(f"has no {lacks} file: expected {LAYOUT} for each ID", file.name)
    documents = (_mail(mail, labels.get(key)) for key, mail in mails.items())
    return standoff_corpus(documents, f"{name}/{chosen}" if str(chosen) != "." else name, tokenise)


def _chosen(files: Iterable[File], split: str | None, name: str) -> PurePosixPath:
    """The folder above data and label."""
    splits = sorted({file.inner.parent.parent for file in files if file.inner.parent.name == "data"})
    if not splits:
        raise InputError(f"no mails: expected {LAYOUT}; found none", name)
    fitting = [s for s in splits if split is None or split in (s.name, s.name.rpartition("-")[2])]
    if len(fitting) != 1:
        found = "several splits" if split is None else f"{len(fitting)} splits fit {split!r}"
        raise InputError(f"{found}: pass split= one of {', '.join(s.name or '.' for s in splits)}", name)
    return fitting[0]


def _mail(mail: File, labels: File | None) -> Marked:
    text = mail.data.decode("latin-1")
    return Marked(text, None if labels is None else _marks(text, labels), line_spans(text))


def _marks(text: str, labels: File) -> list[Mark]:
    """<Person><start>994</start><end>1000</end><annotation>Cheryl</annotation></Person>: three fields to a mark."""
    marks: list[Mark] = []
    path: list[Start] = []
    fields: dict[str, str] = {}
    for event in xml_events(labels.data, labels.name):
        if isinstance(event, str):
            if path and path[-1].tag in ("start", "end", "annotation"):
                fields[path[-1].tag] = fields.get(path[-1].tag, "") + event
        elif isinstance(event, Start):
            path.append(event)
        else:
            element = path.pop()
            if fields and element.tag not in ("start", "end", "annotation"):
                marks.append(_mark(text, element, fields, labels.name))
                fields = {}
    return marks


def _mark(text: str, element: Start, fields: dict[str, str], name: str) -> Mark:
    numbers = [fields.get(key, "").strip() for key in ("start", "end")]
    if not all(NUMBER.fullmatch(number) for number in numbers):
        got = " and ".join(map(repr, numbers))
        wanted = f"expected whole numbers in <start> and <end> of <{element.tag}>"
        raise InputError(f"{wanted}; got {got}", name, element.line)
    mark = Mark(int(numbers[0]), int(numbers[1]), element.tag)
    return checked_mark(text, mark, fields.get("annotation"), name, element.line)


# -- XML texts whose names are elements in the text: the text without its tags, and where the names are in it ---


class Tags(NamedTuple):
    """What the elements are called.

    document  holds all there is of a document
    blocks    hold its text, such as sentences; what else a document holds is not of its text
    mark      is around a name
    whole     elements whose text must all be in blocks, so that none is lost unseen
    """

    document: str
    blocks: tuple[str, ...]
    mark: str
    whole: tuple[str, ...] = ()


class InlineText:
    """A text that is being read, block by block, with marks around parts of it."""

    def __init__(self) -> None:
        self.length = 0
        self.marks: list[Mark] = []
        self.blocks: list[tuple[int, int]] = []
        self._parts: list[str] = []
        self._block = 0
        self._open: list[tuple[int, str | None]] = []

    def add(self, part: str) -> None:
        self._parts.append(part)
        self.length += len(part)

    def begin_block(self, between: str) -> None:
        if self.blocks:
            self.add(between)
        self._block = self.length

    def end_block(self) -> None:
        self.blocks.append((self._block, self.length))

    def begin_mark(self, kind: str | None) -> None:
        """A mark without a kind is forgotten when it ends."""
        self._open.append((self.length, kind))

    def end_mark(self) -> None:
        start, kind = self._open.pop() if self._open else (0, None)  # none: it began before the document did
        if kind is not None and start < self.length:
            self.marks.append(Mark(start, self.length, kind))

    def __str__(self) -> str:
        return "".join(self._parts)


def inline_texts(file: File, tags: Tags, kind: Callable[[Start], str | None]) -> Iterator[InlineText]:
    """The documents of a file, blocks joined by line ends; `kind` gives the type of a name, None for no name."""
    text, inside, whole, line = InlineText(), False, False, 0
    for event in xml_events(file.data, file.name):
        if isinstance(event, str):
            if inside:
                text.add(event)
            elif whole and event.strip():
                reason = f"expected all text in <{tags.blocks[0]}>; got {event.strip()[:40]!r} outside"
                raise InputError(f"{reason}: put it into one", file.name, line)
            continue
        begins, line = isinstance(event, Start), event.line
        if event.tag == tags.mark:
            if isinstance(event, Start):
                text.begin_mark(kind(event))
            else:
                text.end_mark()
        elif event.tag in tags.blocks:
            inside = begins
            if begins:
                text.begin_block("\n")
            else:
                text.end_block()
        elif event.tag in tags.whole:
            whole = begins
        elif event.tag == tags.document:
            if begins:
                text = InlineText()
            else:
                yield text


# -- corpora ---------------------------------------------------------------------------------------

log = logging.getLogger("kinfolk")

GENIA = Tags("article", ("sentence",), "cons", whole=("title", "abstract"))
YAPEX = Tags("PubmedArticle", ("ArticleTitle", "AbstractText"), "Protname")
RANGE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


def read_genia(
    path: Place, types: Sequence[str] = ("protein",), *, coordinated: bool = False, tokenise: str = "fine"
) -> Corpus:
    """Read the GENIA term corpus: its XML (or gzip of it), its official archive, or the folder that unpacks to.

    types        which terms are labelled, each by the beginning of its class: "protein" takes G#protein_molecule,
                 G#protein_complex and so on; where several fit, the longest does. Of nested ones the outermost counts
    coordinated  terms that share words, as in "alpha and beta subunits" with sem="(AND G#.. G#..)", are in pieces that
                 BIO cannot label. False: they are not labelled, but whole terms inside them are. True: such a phrase
                 is labelled as one term if all its parts have one type
    tokenise     a way of `kinfolk.text.tokenise`

    A document is an abstract, title first; sentences are GENIA's. `offsets` count the characters of the document's
    sentences joined by line ends, entities such as &lt; as the one character they stand for. GENIA 3.02 has one
    abstract twice (MEDLINE:97218353), and so has the corpus.
    """
    if isinstance(types, str) or not types:
        raise SettingError("types", types, 'a list of classes such as ["protein", "DNA"]')
    files = files_in(path, _is_xml)
    documents = (document for file in files for document in _genia_articles(file, types, coordinated))
    corpus = _corpus(documents, os.fspath(path), "<article> of <sentence>", tokenise)
    found = () if corpus.labels is None else corpus.labels.values
    for kind in types:
        if f"B-{kind}" not in found:
            log.warning("%s: no term of the type %r is labelled", corpus.source, kind)
    return corpus


def read_aimed(path: Place | Iterable[Place], *, tokenise: str = "fine") -> Corpus:
    """Read AIMed in the XML form of the unified interaction corpora: one file, or several as one corpus.

    A document is an abstract; sentences are the file's. Types are those of the entities ("protein"). `offsets` count
    the characters of the document's sentences joined by blanks, which is how the files count for sentences.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    files = (file for one in paths for file in files_in(one, _is_xml))
    documents = (document for file in files for document in _aimed_documents(file))
    return _corpus(documents, ", ".join(os.fspath(one) for one in paths), "<document> of <sentence>", tokenise)


def read_yapex(path: Place, *, tokenise: str = "fine") -> Corpus:
    """Read Yapex: a file of one or more <PubmedArticle>, or a folder or archive of them, names in <Protname>.

    A document is an abstract, title first; sentences are found by `kinfolk.text.tokenise.sentence_spans`. Names have
    the type protein. `offsets` count the characters of the title, a line end and the abstract, without their tags.
    """
    files = files_in(path, lambda inner: inner.suffix in (".txt", ".xml", ".gz") and inner.stem.upper() != "README")
    documents = (document for file in files for document in _yapex_articles(file))
    return _corpus(documents, os.fspath(path), "<PubmedArticle> with <AbstractText>", tokenise)


def _is_xml(inner: PurePosixPath) -> bool:
    return inner.name.endswith((".xml", ".xml.gz"))


def _corpus(documents: Iterable[Marked], name: str, wanted: str, tokenise: str) -> Corpus:
    corpus = standoff_corpus(documents, name, tokenise)
    if not corpus.n_documents:
        raise InputError(f"no abstracts: expected {wanted}; found none", name or None)
    return corpus


def _genia_articles(file: File, types: Sequence[str], coordinated: bool) -> Iterator[Marked]:
    def kind(term: Start) -> str | None:
        return _genia_type(term.attributes.get("sem", ""), types, coordinated)

    for text in inline_texts(file, GENIA, kind):
        yield Marked(str(text), text.marks, text.blocks)


def _genia_type(sem: str, types: Sequence[str], coordinated: bool) -> str | None:
    """The type of a term, from G#class or (AND G#class G#class); None if it is none of those wanted."""
    if sem.startswith("("):
        parts = {_genia_type(part, types, False) for part in re.findall(r"G#[^\s()]+", sem)}
        return parts.pop() if coordinated and len(parts) == 1 else None
    found = sem.removeprefix("G#")
    return max((kind for kind in types if found == kind or found.startswith(kind + "_")), key=len, default=None)


def _aimed_documents(file: File) -> Iterator[Marked]:
    sentence, text = "", InlineText()
    for event in xml_events(file.data, file.name):
        if isinstance(event, str):
            continue  # all there is stands in attributes
        if not isinstance(event, Start):
            if event.tag == "document":
                yield Marked(str(text), text.marks, text.blocks)
        elif event.tag == "document":
            text = InlineText()
        elif event.tag == "sentence":
            sentence = attribute(event, "text", file.name)
            text.begin_block(" ")
            text.add(sentence)
            text.end_block()
        elif event.tag == "entity":
            mark = _aimed_mark(event, sentence, file.name)
            shift = text.length - len(sentence)
            text.marks.append(Mark(mark.start + shift, mark.end + shift, mark.type))


def _aimed_mark(entity: Start, sentence: str, name: str) -> Mark:
    """Where the entity is in its sentence."""
    given = attribute(entity, "charOffset", name)
    match = RANGE.fullmatch(given)
    if match is None:
        raise InputError(f'expected charOffset="start-end", two whole numbers; got {given!r}', name, entity.line)
    mark = Mark(int(match[1]), int(match[2]), attribute(entity, "type", name))
    return checked_mark(sentence, mark, entity.attributes.get("text"), name, entity.line)


def _yapex_articles(file: File) -> Iterator[Marked]:
    for text in inline_texts(file, YAPEX, lambda name: "protein"):
        whole = str(text)
        sentences = [sentence_spans(whole[start:end]) + start for start, end in text.blocks]
        yield Marked(whole, text.marks, np.concatenate([np.empty((0, 2), np.int64), *sentences]))
