"""Running text into sentences and tokens."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.errors import InputError
from kinfolk.io.plaintext import read_text


def test_plain_text() -> None:
    text = "He said: \"I'm in the U.S., (really)...\"\nJ. paid $5.30 (10%).\n\n\n-- it's co-op.\n"
    corpus = read_text(io.StringIO(text))
    assert [" ".join(row) for row in corpus.rows()] == [
        'He said : " I\'m in the U.S. , ( really ) ... "',
        "J. paid $5.30 ( 10 % ) .",
        "-- it's co-op .",
    ]
    assert corpus.document_starts.tolist() == [0, 2, 3] and corpus.labels is None
    assert corpus.lines is not None and corpus.lines[-1] == 5
    assert read_text(io.StringIO(text), tokenise=False).rows()[2] == ["--", "it's", "co-op."]
    with pytest.raises(InputError, match="no tokens: expected one sentence a line"):
        read_text(io.StringIO(" \n\n"))


@given(st.text())
def test_tokenising_text_only_adds_blanks(text: str) -> None:
    try:
        whole, apart = (read_text(io.BytesIO(text.encode()), tokenise=t) for t in (False, True))
    except InputError:
        assert not text.removeprefix("\ufeff").split()
        return
    assert ["".join(row) for row in apart.rows()] == ["".join(row) for row in whole.rows()]
    assert all(word and not word.split()[1:] for row in apart.rows() for word in row)
