"""XML texts whose names are elements in the text: the text without its tags, and where the names are in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kinfolk.core.archives import File
from kinfolk.datasets.xmlfiles import Start, xml_events
from kinfolk.errors import InputError
from kinfolk.text.standoff import Mark


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
    """The documents of a file, blocks joined by line ends; `kind` tells the type of a name, None for no name."""
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
