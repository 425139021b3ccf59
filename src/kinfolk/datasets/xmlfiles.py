"""XML as a stream of starts, texts and ends, each element with its line; nothing is fetched, nothing expanded.

This is the parser beneath xml.etree, used directly because it tells the line of every element and lets entity
declarations be refused the moment they appear. A DOCTYPE is allowed, and the DTD it points to is never opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from xml.parsers import expat

from kinfolk.errors import InputError

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
