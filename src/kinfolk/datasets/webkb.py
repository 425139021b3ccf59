"""WebKB: pages of four computer science departments, read from the raw pages as CMU gave them out.

Taskar, Abbeel and Koller (UAI 2002) kept a part of the pages, and later papers use that part, but it is not handed down
as a list. `subset="taskar"` rebuilds it: of the pages of the four schools, leave out

- staff and department pages,
- the 79 pages whose header names another location: all but one say only that the document has moved,
- pages of fewer than 12 words, title and text together,
- pages of the class other that link to fewer than three of the pages not left out so far, of the same school, where a
  link leads to a page only if it spells its address as the page does (see `plain_address`).

What comes out, beside the counts in the papers (whose classes add up to 1341, whose schools to 1340):

             course faculty other research-project student | Cornell Texas Washington Wisconsin | links by school
    papers      237     148   332               82     542 |     280   291        315       454 | 574 574 728 1614
    here        237     148   332               83     542 |     284   296        310       452 | 586 586 731 1638

The moved pages account for the 7 course and 5 faculty pages that the papers lack of the full 244 and 153. That nearly
empty pages are what else is missing (of 558 students 16, of 86 projects 4) is a guess that fits the counts; by the
schools, ten pages or so are not the same. Folding more spellings of an address into one fits neither pages nor links.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.core.files import File, files_in
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.graph import Graph

# -- Web pages taken apart: words of title, headings and text, and links with the words that lead to them ---
#
# Made for pages as they are: tags and quotes left open, bytes of any encoding. Nothing is fetched or run, and the time
# is linear in the length of the page. The standard library's HTMLParser, with handlers that do nothing, takes 1.4 times
# what all of this takes but the words (867 pages of Cornell), and takes a link whose quote is left open for text.

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
        given = {key.lower(): a or b or c for key, a, b, c in reversed(ATTRIBUTE.findall(rest))}  # the first counts
        if name == "img":
            self.write(given.get("alt", "") + " ")
            return
        target = _join(self.address, html.unescape(given.get("src" if name == "frame" else "href", "")))
        if target and name == "base":
            self.address = target
        elif target:
            self.links.append((target, [given.get("alt", "")], len(self.headings)))
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
    """The address as written, but for what no server distinguishes: case of the host, :80, %7E for ~, the fragment."""
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
    from sklearn.feature_extraction.text import CountVectorizer

    listed = list(bags)
    counter = CountVectorizer(analyzer=set, binary=True, min_df=min_count, dtype=np.float32)
    try:
        rows = counter.fit_transform(listed)
    except ValueError:  # no word is left
        return sparse.csr_array((len(listed), 0), dtype=np.float32), ()
    return sparse.csr_array(rows), tuple(counter.get_feature_names_out())


# -- The pages of the four departments -----------------------------------------------------------------

SCHOOLS = ("cornell", "texas", "washington", "wisconsin")
FOLDERS = ("course", "department", "faculty", "other", "project", "staff", "student")  # labels, but for project
FIELDS = ("text", "title", "heading", "anchor", "above", "address")
SUBSETS = ("taskar", None)
ADDRESSES = ("exact", "folded")
FEWEST_WORDS, FEWEST_LINKS = 12, 3
LARGEST_PAGE = 1 << 24  # bytes; the largest of the data has 0.5 MB
LAYOUT = "webkb/<class>/<school>/<address with / written as ^>"


@dataclass(frozen=True)
class _Entry:
    label: str
    school: str
    address: str
    moved: bool
    page: Page


def read_webkb(
    path: str | os.PathLike[str],
    *,
    subset: str | None = "taskar",
    fields: Sequence[str] = FIELDS[:5],
    min_count: int = 3,
    addresses: str = "exact",
) -> Graph:
    """Read webkb.tar.gz, or the folder it unpacks to: a node a page, a group a school, ids are addresses.

    subset     "taskar": see above; None: all pages of the four schools, staff and department too
    fields     where words are taken from; each word carries the field's name, as in "title:home"
               text, title, heading  of the page itself
               anchor                words of links to the page, from any page of the school
               above                 the last heading before a link to the page
               address               of the page; not taken by default
    min_count  words of a field in fewer of the pages are left out; features are 1 where a word is there
    addresses  "exact": a link leads to a page if it spells the address as the page does; "folded": also if they differ
               in www., a last slash, index.html and the like. The subset is the same.

    Relation "links": row i lists the pages that page i links to, each once, itself and other schools left out.
    """
    _check_settings(subset, fields, min_count, addresses)
    name = os.fspath(path)
    files = [file for file in files_in(path, _is_page, LARGEST_PAGE, "page") if _is_page(file.inner)]
    entries = sorted(map(_parsed, files), key=lambda entry: (entry.school, entry.address))
    if not entries:
        raise InputError(f"no pages: expected files {LAYOUT} of {', '.join(SCHOOLS)}; found none", name)
    exact = _resolved(entries, folded=False)
    kept = np.arange(len(entries)) if subset is None else _taskar(entries, exact)
    if not len(kept):
        raise InputError(f"none of the {len(entries)} pages is in the subset; pass subset=None to keep all", name)
    links = _resolved(entries, folded=True) if addresses == "folded" else exact
    rows, names = bag_rows(_bags(entries, kept, links, fields), min_count)
    place = {int(i): row for row, i in enumerate(kept)}
    pairs = {(place[i], place[j]) for i, j, _ in links if i in place and j in place}
    return Graph(
        rows,
        [entries[i].label for i in kept],
        {"links": sorted(pairs)},
        ids=[entries[i].address for i in kept],
        groups=[entries[i].school for i in kept],
        feature_names=names,
    )


def _check_settings(subset: str | None, fields: Sequence[str], min_count: int, addresses: str) -> None:
    if subset not in SUBSETS:
        raise SettingError("subset", subset, "'taskar' or None (all pages)")
    if addresses not in ADDRESSES:
        raise SettingError("addresses", addresses, f"one of {', '.join(ADDRESSES)}")
    if isinstance(fields, str) or not fields or not set(fields) <= set(FIELDS):
        raise SettingError("fields", fields, f"a list of some of {', '.join(FIELDS)}")
    if min_count < 1:
        raise SettingError("min_count", min_count, "1 or more")


def _is_page(inner: PurePosixPath) -> bool:
    folder, school, _ = ("", "", *inner.parts)[-3:]
    return folder in FOLDERS and school in SCHOOLS


def _parsed(file: File) -> _Entry:
    kind, school, name = file.inner.parts[-3:]
    address = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("^", "/")
    header, body = split_header(file.data)
    page = parse_page(body.decode("latin-1"), address)
    return _Entry("research-project" if kind == "project" else kind, school, address, "location" in header, page)


def _resolved(entries: Sequence[_Entry], folded: bool) -> list[tuple[int, int, Link]]:
    """Links between different pages of one school, as (from, to, link)."""
    spellings = [plain_address, fold_address] if folded else [plain_address]
    tables: list[dict[str, int]] = []
    for spell in spellings:
        table: dict[str, int] = {}
        for i in sorted(range(len(entries)), key=lambda i: entries[i].moved):  # a page before a note that it moved
            table.setdefault(spell(entries[i].address), i)
        tables.append(table)
    found = []
    for i, entry in enumerate(entries):
        for link in entry.page.links:
            hits = (table.get(spell(link.target)) for spell, table in zip(spellings, tables, strict=True))
            j = next((hit for hit in hits if hit is not None), i)
            if j != i and entries[j].school == entry.school:
                found.append((i, j, link))
    return found


def _taskar(entries: Sequence[_Entry], links: Sequence[tuple[int, int, Link]]) -> NDArray[np.int64]:
    """Which pages the rule at the top of this module keeps."""
    fit = [
        entry.label not in ("staff", "department")
        and not entry.moved
        and len(entry.page.title) + len(entry.page.text) >= FEWEST_WORDS
        for entry in entries
    ]
    targets: list[set[int]] = [set() for _ in entries]
    for i, j, _ in links:
        if fit[j]:
            targets[i].add(j)
    keep = (
        good and (entry.label != "other" or len(out) >= FEWEST_LINKS)
        for good, entry, out in zip(fit, entries, targets, strict=True)
    )
    return np.flatnonzero(np.fromiter(keep, bool, len(entries)))


def _bags(
    entries: Sequence[_Entry], kept: NDArray[np.int64], links: Sequence[tuple[int, int, Link]], fields: Sequence[str]
) -> Iterator[set[str]]:
    """The words of each kept page, each with the name of its field in front."""
    anchor: list[set[str]] = [set() for _ in entries]
    above: list[set[str]] = [set() for _ in entries]
    for _, j, link in links:
        anchor[j].update(link.words)
        above[j].update(link.heading)
    for i in kept:
        address, page = entries[i].address, entries[i].page
        words: dict[str, Words | set[str]] = {
            "text": page.text,
            "title": page.title,
            "heading": page.headings,
            "anchor": anchor[i],
            "above": above[i],
            "address": words_of(urlsplit(address).path),
        }
        yield {f"{field}:{word}" for field in fields for word in words[field]}
