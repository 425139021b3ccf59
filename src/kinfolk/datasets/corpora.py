"""Abstracts with protein names marked: GENIA, AIMed and Yapex."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

import numpy as np

from kinfolk.core.archives import File, Place, files_in
from kinfolk.datasets.inline import InlineText, Tags, inline_texts
from kinfolk.datasets.xmlfiles import Start, attribute, xml_events
from kinfolk.errors import InputError, SettingError
from kinfolk.text.corpus import Corpus
from kinfolk.text.standoff import Mark, Marked, checked_mark, standoff_corpus
from kinfolk.text.tokenise import sentence_spans

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
        raise SettingError(f'types must be a list of classes such as ["protein", "DNA"]; got {types!r}')
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
    """The type of a term, from G#class or (AND G#class G#class); None if it is none of those asked for."""
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
