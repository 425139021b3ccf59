"""E-mail with marked names, as IBM's SystemT keeps it: <split>/data/ID and <split>/label/ID.xml."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from kinfolk.core.archives import File, Place, files_in
from kinfolk.datasets.xmlfiles import Start, xml_events
from kinfolk.errors import InputError
from kinfolk.text.corpus import Corpus
from kinfolk.text.standoff import Mark, Marked, checked_mark, standoff_corpus
from kinfolk.text.tokenise import line_spans

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
        told = "several splits" if split is None else f"{len(fitting)} splits fit {split!r}"
        raise InputError(f"{told}: pass split= one of {', '.join(s.name or '.' for s in splits)}", name)
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
        raise InputError(
            f"expected whole numbers in <start> and <end> of <{element.tag}>; got {got}", name, element.line
        )
    mark = Mark(int(numbers[0]), int(numbers[1]), element.tag)
    return checked_mark(text, mark, fields.get("annotation"), name, element.line)
