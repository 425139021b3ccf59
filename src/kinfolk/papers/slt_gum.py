"""Tables 1 to 3 of the paper on GUM, by its own split, without reddit, whose words are not given; news alone too."""

from __future__ import annotations

import re
from pathlib import Path

from kinfolk.core.files import read_utf8
from kinfolk.errors import InputError
from kinfolk.linking.coref import read_coref
from kinfolk.linking.mentions import Mentions
from kinfolk.papers.harness import Report, Tell
from kinfolk.papers.slt import tables


def run(data: Path, tell: Tell, jobs: int) -> Report:
    """`data` has the layout of the data folder."""
    folder = data / "mentions" / "gum"
    everything = read_coref(folder / "gum.tar.gz")
    split = read_split(folder / "splits.md")

    def part(name: str, genre: str = "") -> Mentions:
        wanted = [d for d in split[name] if "_reddit_" not in d and f"_{genre}" in d]
        names = [str(n) for n in everything.group_names or ()]
        missing = next((document for document in wanted if document not in names), None)
        if missing is not None:
            raise InputError(f"no document {missing!r}, which splits.md asks for", str(folder / "gum.tar.gz"))
        return everything.take_groups(names.index(document) for document in wanted)

    parts = [("GUM", part("train"), part("test")), ("GUM news", part("train", "news"), part("test", "news"))]
    return tables("slt-gum", parts, tell, jobs)


def read_split(path: Path) -> dict[str, list[str]]:
    """The documents under each heading of GUM's splits.md."""
    text = read_utf8(path)[0].decode()
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if heading := re.match(r"##\s+(\w+)", line):
            found[heading[1]] = []
        elif (document := re.match(r"\s*\*\s+(\S+)", line)) and found:
            found[next(reversed(found))].append(document[1])
    if not {"train", "test"} <= set(found):
        raise InputError(f"expected headings train and test; got {', '.join(found) or 'none'}", str(path))
    return found
