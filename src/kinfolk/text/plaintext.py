"""Running text: one sentence a line, a blank line ends a document."""

from __future__ import annotations

import re

import numpy as np

from kinfolk.core.column import Column
from kinfolk.core.files import Source, read_utf8
from kinfolk.errors import InputError
from kinfolk.text.corpus import Corpus
from kinfolk.text.tokenise import pieces, token_spans


def read_text(path: Source, *, tokenise: bool | str = True) -> Corpus:
    """Read plain text as a corpus without labels; `path` may be "-" or an open file, gzip is unpacked.

    Words are what stands between blanks. With `tokenise`, quotes, brackets and .,;:!?% at the ends of a
    word become tokens of their own; a full stop stays with U.S., e.g. and J., a row of stops (...) and a
    word of nothing but marks stay whole. Nothing inside a word is touched. `tokenise` may also name a way
    of `kinfolk.text.tokenise`: "words" is True, "blanks" is False, "fine" is how the readers of protein names
    and e-mail cut, and so what text for models trained on those needs.

    `offsets` count the characters of the whole file, line ends included, a byte order mark not.
    """
    way = tokenise if isinstance(tokenise, str) else "words" if tokenise else "blanks"
    data, name = read_utf8(path)
    text = data.decode("utf-8")
    offsets = token_spans(text, way)
    if not len(offsets):
        raise InputError("no tokens: expected one sentence a line, found none", name)
    line_ends = np.fromiter((match.start() for match in re.finditer("\n", text)), np.int64)
    lines = np.searchsorted(line_ends, offsets[:, 0])  # of the tokens; no token holds a line end
    sentences = np.flatnonzero(np.diff(lines, prepend=-1))
    documents = np.flatnonzero(np.diff(lines[sentences]) > 1) + 1
    return Corpus(
        {"word": Column.from_strings(pieces(text, offsets))},
        np.append(sentences, len(offsets)),
        np.concatenate([[0], documents, [len(sentences)]]),
        source=name,
        lines=(lines + 1).astype(np.int32),
        offsets=offsets,
    )
