"""Running text into sentences and tokens."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.errors import InputError, SettingError
from kinfolk.text.conll import read_text


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
    for corpus in (whole, apart):
        places = corpus.offsets.tolist()
        assert [text.removeprefix("\ufeff")[a:b] for a, b in places] == corpus.columns["word"].strings()
        assert places == sorted(places)


def test_offsets_count_the_characters_of_the_file(tmp_path: Path) -> None:
    text = "Zoë left.\r\n\r\n\tKim (née Lee).\n"
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + text.encode())
    corpus = read_text(tmp_path / "a.txt")
    assert corpus.n_documents == 2 and corpus.lines.tolist() == [1, 1, 1, 3, 3, 3, 3, 3, 3]
    assert [text[a:b] for a, b in corpus.offsets.tolist()] == ["Zoë", "left", ".", "Kim", "(", "née", "Lee", ")", "."]
    assert text[slice(*corpus.documents(1, 2).offsets[0])] == "Kim"


def test_the_way_to_cut_may_be_named() -> None:
    ways = {True: "IL-2-induced .", False: "IL-2-induced.", "fine": "IL - 2 - induced ."}
    for way, words in (ways | {"words": ways[True], "blanks": ways[False]}).items():
        assert read_text(io.StringIO("IL-2-induced."), tokenise=way).rows() == [words.split()]
    with pytest.raises(SettingError, match="must be one of blanks, words, penn, fine; got 'letters'"):
        read_text(io.StringIO("a"), tokenise="letters")
