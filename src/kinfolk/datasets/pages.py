"""Web pages taken apart: words of the title, of headings and of the text, and links with the words that lead to them.

Made for pages as they are: tags and quotes left open, bytes of any encoding. Nothing is fetched or run, and the time
is linear in the length of the page.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import numpy as np
from scipy import sparse

Words = tuple[str, ...]

WORD = re.compile(r"[^\W_]+")
DIGIT = re.compile(r"\d")
HEADER_LINE = re.compile(rb"([A-Za-z][A-Za-z0-9 -]*):[ \t]*([^\n]*?)\r?\n|HTTP/[^\n]*\n")
TAG = re.compile(r"(/?)([a-zA-Z][a-zA-Z0-9]*)")
ATTRIBUTE = re.compile(r"""([a-zA-Z-]+)\s*=\s*(?:"([^"]*)"?|'([^']*)'?|([^\s"']+))""")
INDEX = re.compile(r"/(?:index|home|welcome|default)\.html?$", re.IGNORECASE)
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
BREAKS = frozenset("address body blockquote dd dl dt form hr li ol p pre table ul".split())
LINKING = frozenset({"a", "area", "base", "frame", "img"})
UNSEEN = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style")}


@dataclass(frozen=True)
class Link:
    """Where a link leads, as an absolute address; its own words, and those of the last heading before it."""

    target: str
    words: Words
    heading: Words


@dataclass(frozen=True)
class Page:
    """The words of a page by the place they stand in; `text` holds headings and links too, not the title."""

    title: Words
    headings: Words
    text: Words
    links: tuple[Link, ...]


def split_header(data: bytes) -> tuple[dict[str, str], bytes]:
    """The HTTP header at the start of a file, names in lower case, and what follows; no header, an empty one."""
    fields: dict[str, str] = {}
    end = 0
    while match := HEADER_LINE.match(data, end):
        if match[1]:
            fields[match[1].decode("latin-1").lower()] = match[2].decode("latin-1")
        end = match.end()
    if not end or not fields.keys() & {"content-type", "server", "date", "mime-version"}:
        return {}, data
    return fields, data[end:].lstrip(b"\r\n")


def words_of(text: str) -> Words:
    """Runs of letters and digits in lower case, each digit written 0: what counts is that there is a number."""
    return tuple(WORD.findall(DIGIT.sub("0", html.unescape(text).lower())))


def parse_page(text: str, address: str) -> Page:
    """Take a page apart; `address` is where it was, for links relative to it."""
    parser = _Parser(address)
    position = 0
    while (start := text.find("<", position)) >= 0:
        parser.write(text[position:start])
        position = parser.tag(text, start)
    parser.write(text[position:])
    return parser.page()


class _Parser:
    """Text collected by the places that are open: title, heading, link."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.title: list[str] = []
        self.text: list[str] = []
        self.headings: list[list[str]] = []
        self.links: list[tuple[str, list[str], int]] = []  # target, what it says, headings so far
        self.in_title = self.in_heading = self.in_link = False
        self.said_heading = self.said_link = False  # whether the open one holds more than blanks
        self.comments_end = True  # whether there may be an end of comment ahead

    def write(self, text: str) -> None:
        if self.in_title:
            self.title.append(text)
            return
        self.text.append(text)
        said = bool(text.strip())
        if self.in_heading:
            self.headings[-1].append(text)
            self.said_heading |= said
        if self.in_link:
            self.links[-1][1].append(text)
            self.said_link |= said

    def tag(self, text: str, start: int) -> int:
        """Read what begins at the "<" and say where it ends."""
        if self.comments_end and text.startswith("<!--", start):
            end = text.find("-->", start + 4)
            if end >= 0:
                return end + 3
            self.comments_end = False
        match = TAG.match(text, start + 1)
        if match is None and not text.startswith(("<!", "<?", "</"), start):
            self.write("<")
            return start + 1
        end = text.find(">", start)
        end = len(text) if end < 0 else end
        if match is not None:
            name = match[2].lower()
            if name in UNSEEN and not match[1]:
                close = UNSEEN[name].search(text, end)
                return close.start() if close else len(text)
            self.place(name, bool(match[1]), text[match.end() : end])
        return end + 1

    def place(self, name: str, closing: bool, rest: str) -> None:
        """Open and close places; one left open ends where the next block begins."""
        if name in HEADINGS or (name in BREAKS and self.said_heading):
            self.in_heading = False
        if name in BREAKS and self.said_link:
            self.in_link = False
        if name == "title" or name in HEADINGS or name in BREAKS:
            self.in_title = name == "title" and not closing
        self.write(" ")
        if name in HEADINGS and not closing:
            self.headings.append([])
            self.in_heading, self.said_heading = True, False
        elif name in LINKING:
            self.link(name, closing, rest)

    def link(self, name: str, closing: bool, rest: str) -> None:
        if name == "a":
            self.in_link = False
        if closing:
            return
        told = {key.lower(): a or b or c for key, a, b, c in reversed(ATTRIBUTE.findall(rest))}  # the first counts
        if name == "img":
            self.write(told.get("alt", "") + " ")
            return
        target = _join(self.address, html.unescape(told.get("src" if name == "frame" else "href", "")))
        if target and name == "base":
            self.address = target
        elif target:
            self.links.append((target, [told.get("alt", "")], len(self.headings)))
            self.in_link, self.said_link = name == "a", False

    def page(self) -> Page:
        headings = [words_of("".join(parts)) for parts in self.headings]
        before: list[Words] = [()]
        for words in headings:
            before.append(words or before[-1])
        links = tuple(Link(target, words_of("".join(parts)), before[h]) for target, parts, h in self.links)
        return Page(words_of("".join(self.title)), tuple(chain(*headings)), words_of("".join(self.text)), links)


def _join(address: str, reference: str) -> str:
    """The absolute address of a reference, without fragment; "" if there is none or it cannot be read."""
    reference = "".join(reference.split())
    if not reference or reference.startswith("#"):
        return ""
    try:
        return urljoin(address, reference).partition("#")[0]
    except ValueError:
        return ""


def plain_address(address: str) -> str:
    """The address as written, but for what no server tells apart: case of the host, :80, %7E for ~, the fragment."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    host = parts.netloc.lower().removesuffix(":80")
    path = parts.path.replace("%7E", "~").replace("%7e", "~")
    return f"{parts.scheme}://{host}{path}" + (f"?{parts.query}" if parts.query else "")


def fold_address(address: str) -> str:
    """One spelling for what are mostly one page: no www., no last slash, no index, home, welcome or default .html."""
    scheme, _, rest = plain_address(unquote(address, "latin-1")).partition("://")
    return f"{scheme}://{INDEX.sub('', rest.removeprefix('www.')).rstrip('/')}"


def bag_rows(bags: Iterable[Iterable[str]], min_count: int = 1) -> tuple[Any, Words]:
    """One row a bag, 1 where a word is in it, and the words, sorted; those in fewer than `min_count` bags left out."""
    sets: Sequence[set[str]] = [set(bag) for bag in bags]
    counts = Counter(chain.from_iterable(sets))
    names = tuple(sorted(word for word, count in counts.items() if count >= min_count))
    number = {word: i for i, word in enumerate(names)}
    columns = [sorted(number[word] for word in bag if word in number) for bag in sets]
    starts = np.concatenate([[0], np.cumsum([len(c) for c in columns])])
    indices = np.fromiter(chain.from_iterable(columns), np.int32, int(starts[-1]))
    arrays = (np.ones(len(indices), np.float32), indices, starts)
    return sparse.csr_array(arrays, shape=(len(sets), len(names))), names
