"""Clusters and links on disk: CSV and JSON lines of items, probabilities of pairs, documents with predicted brackets,
and files of ids that must or must not be linked.

An item is known by its id: of a record its name, of a mention its document and tokens, "report:12-14".
"""

from __future__ import annotations

import csv
import json
import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import Column
from kinfolk.core.files import File, Place, Source, files_in, read_utf8, write_utf8
from kinfolk.core.table import cells_of
from kinfolk.errors import InputError
from kinfolk.linking.coref import _TYPED, SUFFIXES, LabelledSpan, _Document, _documents, lines_of, parse_brackets
from kinfolk.linking.mentions import Mentions

log = logging.getLogger("kinfolk")
Array = NDArray[Any]
Target = str
_LAST_CELL = re.compile(r"\S+\s*$")


def item_ids(items: Mentions) -> list[str]:
    """The ids of all items: names, of mentions with their documents before them."""
    names = [items.name(i) for i in range(items.n_items)]
    if items.group_names is None:
        return names
    return [f"{items.group_name(int(g))}:{name}" for g, name in zip(items.groups, names, strict=True)]


def numbered_clusters(items: Mentions, clusters: Array) -> list[int]:
    """Clusters numbered from 0 by their first items, in every document anew."""
    numbers: dict[int, dict[int, int]] = {}
    found = []
    for group, cluster in zip(items.groups.tolist(), clusters.tolist(), strict=True):
        own = numbers.setdefault(group, {})
        found.append(own.setdefault(cluster, len(own)))
    return found


def write_clusters(
    target: Target, items: Mentions, clusters: Array, *, tables: Sequence[str] | None = None, as_json: bool = False
) -> None:
    """An item a line: id, cluster and, with two tables, which of them, the id as it is there; or JSON lines, with
    documents and texts.

    tables   names of the two tables
    """
    ids, numbers = item_ids(items), numbered_clusters(items, clusters)
    columns: dict[str, Sequence[Any]] = {"id": ids}
    if items.first_table is not None:
        words = tables or ("1", "2")
        columns["table"] = [words[i >= items.first_table] for i in range(items.n_items)]
        columns["id"] = [one.removeprefix(f"{table}:") for one, table in zip(ids, columns["table"], strict=True)]
    if as_json and items.group_names is not None:
        columns["document"] = [items.group_name(int(g)) for g in items.groups]
        text = items.columns.get("text")
        columns |= {"text": text.strings()} if isinstance(text, Column) else {}
    columns["cluster"] = numbers
    rows = zip(*columns.values(), strict=True)
    write_utf8(target, json_lines(list(columns), rows) if as_json else csv_lines(list(columns), rows))


def write_pairs(target: Target, items: Mentions, probability: Array, clusters: Array, least: float = 0.0) -> None:
    """A candidate pair a line, CSV: both ids, the probability, and whether it is in one cluster (1) or not (0).

    least   pairs of a lower probability are left out
    """
    ids = item_ids(items)
    chosen = np.flatnonzero(probability >= least)
    left, right = items.left[chosen], items.right[chosen]
    linked = (clusters[left] == clusters[right]).astype(int)
    rows = zip(left, right, probability[chosen], linked.tolist(), strict=True)
    cells = ((ids[i], ids[j], f"{p:.6f}", together) for i, j, p, together in rows)
    write_utf8(target, csv_lines(["left", "right", "probability", "linked"], cells))


def csv_lines(names: Sequence[str], rows: Iterable[Iterable[Any]], delimiter: str = ",") -> Iterator[str]:
    class Line:
        def write(self, text: str) -> str:
            return text

    writer = csv.writer(Line(), delimiter=delimiter, lineterminator="\n")
    yield writer.writerow(names)  # what `write` returns
    for row in rows:
        yield writer.writerow(row)


def json_lines(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n"


# -- documents ----------------------------------------------------------------------------------------


def write_coref(target: Target, path: Place, items: Mentions, clusters: Array, *, unmatched: str = "raise") -> None:
    """The documents that `read_coref` read from `path`, with other clusters in the last column.

    All else stays as it is written, documents of several files come one after the other, and GUM's types are kept.
    Clusters are numbered from 0 in every document.
    """
    files = sorted(files_in(path, lambda inner: inner.name.endswith(SUFFIXES)), key=lambda f: str(f.inner))
    starts = np.searchsorted(items.groups, np.arange(len(items.group_names or ()) + 1))
    numbers, names = numbered_clusters(items, clusters), [items.name(i) for i in range(items.n_items)]
    pieces: list[str] = []
    group = 0
    for file in files:  # in the order of read_coref
        lines = lines_of(file)
        for document in _documents(file):
            if group + 1 >= len(starts) or items.group_name(group) != document.name:
                raise _changed(file)
            own = slice(starts[group], starts[group + 1])
            cells = _new_cells(document, names[own], numbers[own], unmatched, file)
            for number, cell in zip(document.lines, cells, strict=True):
                lines[number - 1] = _with_last_cell(lines[number - 1], cell)
            group += 1
        text = "\n".join(lines)
        if file is files[-1] and group + 1 < len(starts):
            raise _changed(file)
        pieces.append(text if text.endswith("\n") else text + "\n")
    write_utf8(target, pieces)


def _new_cells(
    document: _Document, names: Sequence[str], numbers: Sequence[int], unmatched: str, file: File
) -> list[str]:
    old = parse_brackets(document.cells, unmatched=unmatched, duplicates="drop", path=file.name, lines=document.lines)
    spans = sorted(old.spans, key=lambda span: (span.start, -span.end))
    if [f"{span.start}-{span.end - 1}" for span in spans] != list(names):
        raise _changed(file)
    new = []
    for span, number in zip(spans, numbers, strict=True):
        typed = _TYPED.match(span.label)
        new.append(LabelledSpan(span.start, span.end, f"{typed['type']}-{number}" if typed else str(number)))
    cells = bracket_cells(new, len(document.words), "_" if "_" in document.cells else "-")
    lost = len({*new} - {*parse_brackets(cells).spans})
    if lost:
        message = "%s, %s: brackets cannot express %d mentions that cross others of their cluster"
        log.warning(message, file.name, document.name, lost)
    return cells


def bracket_cells(spans: Iterable[LabelledSpan], n_tokens: int, none: str = "-") -> list[str]:
    """The cell of each token. Those that end come first, so that a span may begin where one of its label ends."""
    ends, whole, starts = (defaultdict[int, list[str]](list) for _ in range(3))
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.end == span.start + 1:
            whole[span.start].append(f"({span.label})")
        else:
            starts[span.start].append(f"({span.label}")
            ends[span.end - 1].insert(0, f"{span.label})")
    return ["|".join([*ends[t], *whole[t], *starts[t]]) or none for t in range(n_tokens)]


def _with_last_cell(line: str, cell: str) -> str:
    end = "\r" if line.endswith("\r") else ""
    text = line.removesuffix("\r")
    if "\t" in text:
        return f"{text.rpartition(chr(9))[0]}\t{cell}{end}"
    return _LAST_CELL.sub(lambda _: cell, text) + end


def _changed(file: File) -> InputError:
    return InputError("the documents are no longer those that were read; run the command again", file.name)


# -- links that are given -----------------------------------------------------------------------------


def read_id_pairs(source: Source, items: Mentions) -> NDArray[np.int64]:
    """Two ids a line, with a comma, a tab or blanks between them: numbers of items (m, 2)."""
    data, name = read_utf8(source)
    place = item_places(items)
    found = []
    for line, text in enumerate(data.decode().splitlines(), 1):
        if not text.strip():
            continue
        parts = text.split("\t") if "\t" in text else cells_of(text, ",", name) if "," in text else text.split()
        cells = [part.strip() for part in parts]
        if len(cells) != 2:
            wanted = "expected two ids, with a comma, a tab or blanks between them"
            raise InputError(f"{wanted}; got {text!r}", name, line)
        pair = [item_number(cell, place, name, line) for cell in cells]
        if pair[0] == pair[1]:
            raise InputError(f"expected two different items; got {cells[0]!r} twice", name, line)
        if items.groups[pair[0]] != items.groups[pair[1]]:
            wrong = f"{cells[0]!r} and {cells[1]!r} are in different documents, whose mentions are never linked"
            raise InputError(f"{wrong}; leave the line out", name, line)
        found.append(pair)
    return np.array(found, np.int64).reshape(-1, 2)


def item_places(items: Mentions) -> dict[str, int]:
    """Id -> number of the item; of a single document also the tokens alone. -1: several items have the id."""
    place: dict[str, int] = {}
    for i, key in enumerate(item_ids(items)):
        place[key] = -1 if key in place else i
    if items.group_names is not None and len(items.group_names) == 1:
        place |= {items.name(i): i for i in range(items.n_items)}
    return place


def item_number(key: str, place: Mapping[str, int], path: str | None = None, line: int | None = None) -> int:
    """The item of an id, or an error that shows how ids are written."""
    found = place.get(key)
    if found is None:
        example = f"; ids look like {next(iter(place))!r}" if place else ""
        raise InputError(f"no item has the id {key!r}{example}", path, line)
    if found < 0:
        raise InputError(f"several items have the id {key!r}; give their documents different names", path, line)
    return found
