"""Running text: one sentence a line, a blank line ends a document."""

from __future__ import annotations

import re
from itertools import chain

import numpy as np

from kinfolk.data.corpus import Column, Corpus
from kinfolk.errors import InputError
from kinfolk.io.textfiles import Source, read_utf8

_OPENING = "\"'`([{<«“‘„‚¿¡"
_CLOSING = "\"'`)]}>»”’,;:!?…%"
# Opening marks one by one, the core, closing marks one by one. A final full stop goes with the closing
# marks unless another stands inside the word (U.S., e.g.) or the word is one capital letter (J.).
_WORD = re.compile(
    rf"(?P<open>[{re.escape(_OPENING)}]*)"
    rf"(?P<core>(?:\w(?:\.\w)+\.|[A-Z]\.|.*?[^.{re.escape(_CLOSING)}]))"
    rf"(?P<close>[.{re.escape(_CLOSING)}]*)"
)
_CLOSE = re.compile(r"\.+|.")


def read_text(path: Source, *, tokenise: bool = True) -> Corpus:
    """Read plain text as a corpus without labels; `path` may be "-" or an open file, gzip is unpacked.

    Words are what stands between blanks. With `tokenise`, quotes, brackets and .,;:!?% at the ends of a
    word become tokens of their own; a full stop stays with U.S., e.g. and J., a row of stops (...) and a
    word of nothing but marks stay whole. Nothing inside a word is touched.
    """
    data, name = read_utf8(path)
    rows = [line.split() for line in data.decode("utf-8").split("\n")]
    if tokenise:
        known = {word: _parts(word) for word in set(chain.from_iterable(rows))}
        rows = [list(chain.from_iterable(map(known.__getitem__, row))) for row in rows]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    lines = np.flatnonzero(lengths)  # of the sentences
    if not len(lines):
        raise InputError("no tokens: expected one sentence a line, found none", name)
    return Corpus(
        {"word": Column.from_strings(chain.from_iterable(rows))},
        np.concatenate([[0], np.cumsum(lengths[lines])]),
        np.concatenate([[0], np.flatnonzero(np.diff(lines) > 1) + 1, [len(lines)]]),
        source=name,
        lines=np.repeat(lines + 1, lengths[lines]).astype(np.int32),
    )


def _parts(word: str) -> list[str]:
    """The word with the marks at its ends apart."""
    match = _WORD.fullmatch(word)
    if match is None:  # marks only
        return [word]
    return [*match["open"], match["core"], *_CLOSE.findall(match["close"])]
