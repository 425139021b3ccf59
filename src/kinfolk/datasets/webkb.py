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

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.archives import members
from kinfolk.datasets.pages import (
    Link,
    Page,
    Words,
    bag_rows,
    fold_address,
    parse_page,
    plain_address,
    split_header,
    words_of,
)
from kinfolk.errors import InputError, SettingError
from kinfolk.graph.graph import Graph

SCHOOLS = ("cornell", "texas", "washington", "wisconsin")
CLASSES = {  # by folder
    "course": "course",
    "department": "department",
    "faculty": "faculty",
    "other": "other",
    "project": "research-project",
    "staff": "staff",
    "student": "student",
}
FIELDS = ("text", "title", "heading", "anchor", "above", "address")
SUBSETS = ("taskar", None)
ADDRESSES = ("exact", "folded")
FEWEST_WORDS, FEWEST_LINKS = 12, 3
LARGEST_PAGE = 1 << 24  # bytes; the largest of the data has 0.5 MB
File = tuple[str, str, str, bytes]  # class folder, school, file name, content
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
    entries = sorted(map(_parsed, _files(Path(path))), key=lambda entry: (entry.school, entry.address))
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
        raise SettingError(f"subset must be 'taskar' or None (all pages); got {subset!r}")
    if addresses not in ADDRESSES:
        raise SettingError(f"addresses must be one of {', '.join(ADDRESSES)}; got {addresses!r}")
    if isinstance(fields, str) or not fields or not set(fields) <= set(FIELDS):
        raise SettingError(f"fields must be a list of some of {', '.join(FIELDS)}; got {fields!r}")
    if min_count < 1:
        raise SettingError(f"min_count must be 1 or more; got {min_count}")


def _files(path: Path) -> Iterator[File]:
    """The pages of the four schools in an archive or a folder; every failure a sentence."""
    try:
        yield from _in_folder(path) if path.is_dir() else _in_archive(path)
    except FileNotFoundError:
        raise InputError(f"no such file or folder (looked in {os.getcwd()}); check the path", str(path)) from None
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = f"not a readable tar archive ({str(error).rstrip('.') or 'bad data'})"
        raise InputError(f"{reason}; fetch webkb.tar.gz again, or name the folder it unpacks to", str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", str(path)) from error


def _in_folder(path: Path) -> Iterator[File]:
    root = path / "webkb" if (path / "webkb").is_dir() else path
    for folder in (root / kind / school for kind in CLASSES for school in SCHOOLS):
        for file in folder.iterdir() if folder.is_dir() else ():
            if file.is_file():
                yield folder.parent.name, folder.name, file.name, file.read_bytes()


def _in_archive(path: Path) -> Iterator[File]:
    def place(member: str) -> tuple[str, ...]:
        return ("", "", *member.split("/"))[-3:]

    def is_page(member: str) -> bool:
        kind, school, _ = place(member)
        return kind in CLASSES and school in SCHOOLS

    with tarfile.open(path) as archive:
        for member, data in members(archive, str(path), is_page, LARGEST_PAGE, "page"):
            kind, school, name = place(member)
            yield kind, school, name, data
        while archive.fileobj and archive.fileobj.read(1 << 20):
            pass  # up to the checksum behind the last member


def _parsed(file: File) -> _Entry:
    kind, school, name, data = file
    address = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("^", "/")
    header, body = split_header(data)
    page = parse_page(body.decode("latin-1"), address)
    return _Entry(CLASSES[kind], school, address, "location" in header, page)


def _resolved(entries: Sequence[_Entry], folded: bool) -> list[tuple[int, int, Link]]:
    """Links between different pages of one school, as (from, to, link)."""
    spellings = [plain_address, fold_address] if folded else [plain_address]
    tables: list[dict[str, int]] = []
    for spell in spellings:
        table: dict[str, int] = {}
        for i in sorted(
            range(len(entries)), key=lambda i: entries[i].moved
        ):  # a page stands before a note that it moved
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
