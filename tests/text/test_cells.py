"""Cells found and numbered by kernels are those that Python finds line by line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kinfolk.text import cells
from kinfolk.text.cells import MARKED, Cells

MARKER = b"-DOCSTART-"
EVERY = ["Kim NNP", " ", "", "\t", "a\tb\tc", "-DOCSTART- x", " -DOCSTART-", "-DOCSTART-x", "ß ü", "a··b", "·", "x\r",
         "x\r\r", "\r", "Kim\x0bNNP", "-DOCSTART-", "a b c d"]  # fmt: skip
LINES = st.lists(st.sampled_from(EVERY))
SEPARATORS = st.sampled_from(["", " ", "\t", "·"])


def split(data: bytes, separator: bytes) -> tuple[list[int], list[bytes]]:
    """How many cells each line has, and all cells, as Python's own functions have them."""
    widths, found = [], []
    for line in data.split(b"\n"):
        if separator:
            row = line.rstrip(b"\r").split(separator) if line.strip() else []
        else:
            row = line.split()
        if row[:1] == [MARKER] and line.startswith(MARKER):
            widths.append(MARKED)
        else:
            widths.append(len(row))
            found += row
    return widths, found


@given(lines=LINES, separator=SEPARATORS, end=st.sampled_from(["", "\n"]), size=st.integers(1, 30))
@example(lines=EVERY, separator="", end="", size=1)
@example(lines=EVERY, separator="\t", end="\n", size=20)
@example(lines=EVERY, separator="·", end="", size=1)
def test_cells_are_where_python_finds_them(lines, separator, end, size):
    data, between = ("\n".join(lines) + end).encode(), separator.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "PIECE", size)
        for n_jobs in (1, 2):
            made = Cells.of(data, between, MARKER, n_jobs)
            wanted, found = split(data, between)
            assert made.widths.tolist() == wanted
            places = [place for piece in made.pieces for place in zip(piece.starts, piece.ends, strict=True)]
            assert [data[a:b] for a, b in places] == found


WORDS = st.lists(st.tuples(*[st.sampled_from(["a", "b", "ab", "ba", "Kim", "kim", "x" * 40, "ß"])] * 2), max_size=30)


@given(rows=WORDS, size=st.integers(1, 60))
def test_distinct_cells_are_numbered_as_they_appear(rows, size):
    data = "".join(f"{a} {b}\n" for a, b in rows).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "PIECE", size)
        for n_jobs in (1, 2):
            made = Cells.of(data, b"", MARKER, n_jobs)
            for column in (0, 1) if rows else ():
                codes, values = made.column(column, 2)
                words = [row[column].encode() for row in rows]
                assert values == list(dict.fromkeys(words))
                assert np.array(values, object)[codes].tolist() == words


def test_a_word_is_not_one_that_it_begins():
    """Slots are few for so many: each is looked for behind others, longer and shorter ones."""
    words = [b"ab"[k % 2 : k % 2 + 1] * (1 + k // 2) for k in range(400)]
    for order in (words, words[::-1]):
        codes, values = Cells.of(b"\n".join(order), b"", MARKER, 1).column(0, 1)
        assert values == order and codes.tolist() == [*range(400)]
