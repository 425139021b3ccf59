"""Cells of a column file: where they are, and distinct ones as numbers, by kernels over its bytes.

The file is cut into pieces of whole lines, which threads work on: each finds its cells, then numbers the distinct ones
of a column as they appear. Numbers of the whole file follow from those of the pieces in their order, so they do not
depend on where it was cut. A word is made of bytes only once it is known to be a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.core.data import read_only
from kinfolk.core.kernels import njit, scrambled
from kinfolk.core.threads import run_chunks

PIECE = 1 << 18  # bytes that are a piece of work, about
MARKED = -1  # the width of a line that is a marker of documents

Ints = NDArray[np.int64]
Array = NDArray[Any]


# -- kernels -----------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _is_blank(byte):
    """Space, tab, and what stands between tab and carriage return."""
    return byte == 32 or 9 <= byte <= 13


@njit(nogil=True, cache=True)
def _same(text, a, b, n):
    for i in range(n):
        if text[a + i] != text[b + i]:
            return False
    return True


@njit(nogil=True, cache=True)
def _stands_at(text, at, end, wanted):
    if at + len(wanted) > end:
        return False
    for i in range(len(wanted)):
        if text[at + i] != wanted[i]:
            return False
    return True


@njit(nogil=True, cache=True)
def _split(text, first, last, between, marker, widths, starts, ends):
    """Cells of the lines in text[first:last], which ends where a line does: how many a line has, and where they begin
    and end. `between`: what stands between cells; empty: blanks. Returns how many lines and cells there are."""
    at, n_lines, n_cells = first, 0, 0
    while at < last:
        begin, before = at, n_cells
        while at < last and text[at] != 10:
            at += 1
        end = at
        at += 1
        place = begin
        if len(between) == 0:
            while True:
                while place < end and _is_blank(text[place]):
                    place += 1
                if place == end:
                    break
                starts[n_cells] = place
                while place < end and not _is_blank(text[place]):
                    place += 1
                ends[n_cells] = place
                n_cells += 1
        else:
            while end > begin and text[end - 1] == 13:
                end -= 1
            while place < end and _is_blank(text[place]):
                place += 1
            if place < end:  # else nothing stands in it
                place = begin
                starts[n_cells] = begin
                while place < end:
                    if _stands_at(text, place, end, between):
                        ends[n_cells] = place
                        n_cells += 1
                        place += len(between)
                        starts[n_cells] = place
                    else:
                        place += 1
                ends[n_cells] = end
                n_cells += 1
        widths[n_lines] = n_cells - before
        if n_cells > before and starts[before] == begin and ends[before] - begin == len(marker):
            if _stands_at(text, begin, end, marker):
                widths[n_lines] = MARKED
                n_cells = before
        n_lines += 1
    return n_lines, n_cells


@njit(nogil=True, cache=True)
def _number(text, starts, ends, column, width, codes, new):
    """Number the distinct cells of a column in the order in which they appear: `codes` of all, and in `new` which cell
    was the first of each; returns how many there are."""
    size = 16
    while size < 2 * len(codes):
        size *= 2
    slots, mask, n = np.full(size, -1, np.int32), np.uint64(size - 1), 0
    for token in range(len(codes)):
        cell = token * width + column
        begin, length = starts[cell], ends[cell] - starts[cell]
        key = np.uint64(length)
        for i in range(length):
            key = (key ^ np.uint64(text[begin + i])) * np.uint64(1099511628211)
        at = scrambled(np.int64(key)) & mask
        while slots[at] >= 0:
            known = new[slots[at]]
            if ends[known] - starts[known] == length and _same(text, starts[known], begin, length):
                break
            at = (at + np.uint64(1)) & mask
        if slots[at] < 0:
            slots[at] = n
            new[n] = cell
            n += 1
        codes[token] = slots[at]
    return n


# -- a file ------------------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """Cells of a run of lines: where they begin and end in the file."""

    starts: Ints
    ends: Ints


@dataclass(frozen=True, eq=False)
class Cells:
    """Of each line how many cells it has (a marker MARKED), and the cells of each piece, one line behind the other."""

    text: NDArray[np.uint8]
    widths: Ints
    pieces: list[Piece]
    n_jobs: int

    @classmethod
    def of(cls, data: bytes, separator: bytes, marker: bytes, n_jobs: int) -> Cells:
        """Of the bytes of a file; without a separator cells stand between blanks. Behind a last line end stands one
        more line."""
        text, bounds = np.frombuffer(data, np.uint8), [0]
        while bounds[-1] < len(data):
            end = data.find(b"\n", min(bounds[-1] + PIECE, len(data)) - 1)
            bounds.append(len(data) if end < 0 else end + 1)
        given = [read_only(np.frombuffer(part, np.uint8)) for part in (separator, marker)]

        def split(k: int) -> tuple[Ints, Piece]:
            first, last = bounds[k], bounds[k + 1]
            lines = data.count(b"\n", first, last) + 1
            room = (last - first) + lines if separator else (last - first) // 2 + 1
            widths, starts, ends = np.empty(lines, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
            n_lines, n = _split(read_only(text), first, last, *given, widths, starts, ends)
            return widths[:n_lines], Piece(starts[:n].copy(), ends[:n].copy())

        found = run_chunks(split, len(bounds) - 1, n_jobs)
        one_more = np.zeros(int(not data or data.endswith(b"\n")), np.int64)
        widths = np.concatenate([*(widths for widths, _ in found), one_more])
        return cls(read_only(text), widths, [piece for _, piece in found if len(piece.starts)], n_jobs)

    def column(self, column: int, width: int) -> tuple[NDArray[np.int32], list[bytes]]:
        """Of lines that all have as many cells, the number of each cell of a column, and the distinct ones, in the
        order in which they appear."""

        def number(k: int) -> tuple[Array, Ints]:
            starts, ends = self.pieces[k]
            codes, new = np.empty(len(starts) // width, np.int32), np.empty(len(starts) // width, np.int64)
            n = _number(self.text, starts, ends, column, width, codes, new)
            return codes, new[:n].copy()

        found = run_chunks(number, len(self.pieces), self.n_jobs)
        starts, ends = (
            np.concatenate([piece[side][new] for piece, (_, new) in zip(self.pieces, found, strict=True)])
            for side in (0, 1)
        )
        numbers, new = np.empty(len(starts), np.int32), np.empty(len(starts), np.int64)
        n = _number(self.text, starts, ends, 0, 1, numbers, new)
        distinct = np.split(numbers, np.cumsum([len(new) for _, new in found])[:-1])
        lengths = np.cumsum([0, *(len(codes) for codes, _ in found)])
        codes = np.empty(lengths[-1], np.int32)

        def renumber(k: int) -> None:
            np.take(distinct[k], found[k][0], out=codes[lengths[k] : lengths[k + 1]], mode="clip")

        run_chunks(renumber, len(found), self.n_jobs)
        cells = zip(starts[new[:n]].tolist(), ends[new[:n]].tolist(), strict=True)
        return codes, [self.text[a:b].tobytes() for a, b in cells]
