"""Files in pieces of whole documents: the same tokens, labels, numbers and messages as of the file at once."""

from __future__ import annotations

import gzip
import io
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinfolk as kf
from kinfolk.errors import InputError, KinfolkError
from kinfolk.text.conll import ColumnReader, conll_lines
from kinfolk.text.corpus import Corpus
from kinfolk.text.streams import ColumnStream, labelled_lines, opened_stream

LINES = ["a B-X", "b I-X", "c O", "d B-Y", "e ?", "", "", "", " ", "\t", "-DOCSTART- O", "-DOCSTART-", "-DOCSTART-x O"]


@st.composite
def column_files(draw: Any) -> bytes:
    """Lines of tokens, blank ones and markers, as they come; with either line end, the last one may lack it."""
    lines = draw(st.lists(st.sampled_from(LINES), max_size=30))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return (mark + end.join(lines) + draw(st.sampled_from(["", end]))).encode()


def joined(pieces: list[Corpus]) -> Corpus:
    return Corpus.joined(pieces)


def told(corpus: Corpus) -> list[Any]:
    """All that a corpus says."""
    columns = {name: column.strings() for name, column in corpus.columns.items()}
    labels = None if corpus.labels is None else corpus.labels.strings()
    lines = None if corpus.lines is None else corpus.lines.tolist()
    offsets = None if corpus.offsets is None else corpus.offsets.tolist()
    starts = [corpus.sentence_starts.tolist(), corpus.document_starts.tolist()]
    return [columns, labels, corpus.scheme, lines, offsets, *starts, corpus.source]


def answer(make: Any) -> Any:
    """What comes out, what is warned of, or the fault."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = make()
        except KinfolkError as error:
            return str(error)
    return found, [str(one.message) for one in caught]


@given(
    column_files(),
    st.integers(1, 60),
    st.sampled_from(["auto", "docstart", "blank", "none"]),
    st.sampled_from(["auto", "BIO", None]),
)
def test_pieces_of_columns_are_the_whole(data: bytes, piece: int, documents: str, scheme: Any) -> None:
    settings: dict[str, Any] = {"documents": documents, "scheme": scheme}
    whole = answer(lambda: told(kf.read_conll(io.BytesIO(data), **settings)))
    assert answer(lambda: told(joined(list(kf.stream_conll(io.BytesIO(data), piece=piece, **settings))))) == whole


@given(st.text(st.sampled_from("ab .,\n\n\n\r\té \u2028"), max_size=60), st.integers(1, 40))
def test_pieces_of_text_are_the_whole(text: str, piece: int) -> None:
    data = text.encode()
    whole = answer(lambda: told(kf.read_text(io.BytesIO(data))))
    assert answer(lambda: told(joined(list(kf.stream_text(io.BytesIO(data), piece=piece))))) == whole


@given(column_files(), st.integers(1, 60), st.sampled_from(["auto", "docstart", "blank", "none"]))
def test_what_is_written_again_is_what_is_written_at_once(data: bytes, piece: int, documents: str) -> None:
    def whole() -> str:
        corpus = kf.read_conll(io.BytesIO(data), documents=documents, scheme=None)
        marked = not (np.diff(corpus.document_starts) == 1).all()
        return "".join(conll_lines(corpus, marked=marked))

    def in_pieces() -> str:
        reader = ColumnReader(None, "auto", documents, None, "?")
        stream = ColumnStream(io.BytesIO(data), reader, None, piece, writes=True)
        return "".join("".join(conll_lines(one.corpus, marked=stream.marked)) for one in stream)

    assert answer(in_pieces) == answer(whole)


@pytest.fixture(scope="module")
def tagger() -> Any:
    return kf.LinearChainCRF(templates="document", tolerance=0.1, n_jobs=1).fit(kf.newswire_split(12, 4, seed=1)[0])


@pytest.fixture(scope="module")
def news(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("news") / "news.conll"
    kf.write_conll(kf.newswire_split(4, 8, seed=2)[1], file)
    return file


def tagged(tagger: Any, source: Any, piece: int, forced: bool = False, **settings: Any) -> str:
    asked = {"text": False, "scheme": "auto", "separator": None, "documents": "auto"} | settings
    return "".join(labelled_lines(tagger, opened_stream(tagger, source, forced=forced, piece=piece, **asked), forced))


@pytest.mark.parametrize("piece", [1, 500, 4000])
@pytest.mark.parametrize("model", ["chain", "stacked", "mixture"])
def test_labels_of_pieces_are_those_of_the_file(
    tagger: Any, news: Path, tmp_path: Path, model: str, piece: int
) -> None:
    train = kf.newswire_split(12, 4, seed=1)[0]
    base = kf.LinearChainCRF(tolerance=0.1, n_jobs=1)
    made = {
        "chain": lambda: tagger,
        "stacked": lambda: kf.StackedTagger(base, depth=1, n_jobs=1).fit(train),
        "mixture": lambda: kf.MixtureTagger(tolerance=0.1, n_jobs=1).fit(train),
    }[model]()
    corpus = kf.read_conll(news)
    kf.write_conll(corpus, tmp_path / "whole", labels=made.predict(corpus))
    assert tagged(made, news, piece) == (tmp_path / "whole").read_text()


def test_labels_that_are_known_are_kept_in_the_scheme_of_the_whole_file(tagger: Any, tmp_path: Path) -> None:
    """The last document alone would be taken for IOB1, the file is BIO."""
    first = "-DOCSTART- O\n\nAnn NNP B-PER\nRoe NNP I-PER\nsaid VBD ?\n\n"
    rest = "-DOCSTART- O\n\nBob NNP ?\nRoe NNP I-PER\nsaid VBD ?\n\n"
    file = tmp_path / "known"
    file.write_text(first + rest)
    corpus = kf.read_conll(file)
    assert corpus.scheme == "BIO"
    kf.write_conll(corpus, tmp_path / "whole", labels=tagger.predict(corpus, forced=True))
    assert tagged(tagger, file, 8, forced=True) == (tmp_path / "whole").read_text()


def test_gzip_pipes_and_open_files(tagger: Any, news: Path, tmp_path: Path) -> None:
    whole, data = tagged(tagger, news, 1 << 22), news.read_bytes()
    packed = tmp_path / "news.gz"
    packed.write_bytes(gzip.compress(data[:5000]) + gzip.compress(data[5000:]))  # two members are one file
    assert tagged(tagger, packed, 300) == whole
    with gzip.open(packed) as unpacked:
        for source in (io.BytesIO(data), io.StringIO(data.decode()), unpacked):
            assert tagged(tagger, source, 300) == whole
    with open(news, "rb") as file:
        assert tagged(tagger, file, 300) == whole
        assert not file.closed
    for sent in (data, packed.read_bytes()):
        with piped(sent) as file:
            assert tagged(tagger, file, 300) == whole


def test_a_pipe_that_does_not_show_its_documents_at_first(tagger: Any) -> None:
    """Until the first marker comes all could be one document: what has come is kept until that is known."""
    late = b"Ann\nsaid\n\n" * 200 + b"-DOCSTART-\n\nBob\nsaid\n\nso\n\n"
    for data in (late, b"Ann\nsaid\n\n" * 200, b"Ann\nsaid\n\n" * 200 + b"\nBob\n"):
        model = kf.LinearChainCRF(tolerance=0.1, n_jobs=1).fit([["Ann", "said"]], [["B-PER", "O"]])
        with piped(data) as file:
            assert tagged(model, file, 64) == tagged(model, io.BytesIO(data), 1 << 22)


@contextmanager
def piped(data: bytes) -> Iterator[Any]:
    """An open file that can be read once, from its start to its end."""
    read, write = os.pipe()

    def send() -> None:
        with open(write, "wb") as into:
            into.write(data)

    sender = threading.Thread(target=send)
    sender.start()
    with open(read, "rb") as file:
        yield file
    sender.join()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"lone\n", "columns"),
        (b"\xff\xfe O O\n", "not UTF-8 at byte {byte} "),
    ],
)
def test_mistakes_are_told_by_the_lines_of_the_whole_file(tagger: Any, news: Path, bad: bytes, message: str) -> None:
    data = news.read_bytes()
    at = data.index(b"\n\n", len(data) // 2) + 1
    broken = data[:at] + bad + data[at:]
    with pytest.raises(InputError) as whole:
        kf.read_conll(io.BytesIO(broken))
    with pytest.raises(InputError) as found:
        tagged(tagger, io.BytesIO(broken), 400)
    assert found.value.line == whole.value.line == data[:at].count(b"\n") + 1
    assert message.format(byte=at) in str(found.value)


def test_a_fault_leaves_the_file_as_it_was(tagger: Any, news: Path, tmp_path: Path) -> None:
    into, source = tmp_path / "out", tmp_path / "in"
    into.write_text("before")
    source.write_bytes(news.read_bytes() + b"\nlone\n")
    with pytest.raises(InputError):
        tagger.tag_file(source, into)
    assert into.read_text() == "before" and sorted(os.listdir(tmp_path)) == ["in", "out"]
    source.write_bytes(news.read_bytes())
    tagger.tag_file(source, source)  # in its own place
    assert len(kf.read_conll(source, columns=["word", "pos", "gold", "label"]).columns) == 3


@pytest.mark.parametrize("damage", [slice(0, -30), slice(0, 30)])
def test_gzip_that_is_cut_off(tagger: Any, news: Path, damage: slice) -> None:
    with pytest.raises(InputError, match="truncated or damaged"):
        tagged(tagger, io.BytesIO(gzip.compress(news.read_bytes())[damage]), 300)


def test_a_file_without_tokens(tagger: Any) -> None:
    for data in (b"", b"\n\n", b"-DOCSTART- O\n\n"):
        with pytest.raises(InputError, match="no tokens"):
            tagged(tagger, io.BytesIO(data), 4)


def test_memory_is_that_of_a_piece(tagger: Any, news: Path) -> None:
    """No piece holds more than two documents' worth of what is asked for."""
    sizes = [one.n_tokens for one in kf.stream_conll(io.BytesIO(news.read_bytes() * 20), piece=4000)]
    assert len(sizes) > 20 and max(sizes) < 3 * sorted(sizes)[len(sizes) // 2]


@pytest.mark.parametrize("separator", ["\t", "|", None])
def test_what_stands_between_cells_of_a_file_does_so_in_what_is_written(tmp_path: Path, separator: str | None) -> None:
    between = separator or " "
    model = kf.LinearChainCRF(tolerance=0.1, n_jobs=1).fit([["New York", "said"]] * 2, [["B-L", "O"]] * 2)
    (tmp_path / "in").write_text(f"New{' ' if separator else '-'}York{between}B-L\nsaid{between}O\n\n")
    model.tag_file(tmp_path / "in", tmp_path / "out", separator=separator)
    written = (tmp_path / "out").read_text()
    assert [line.count(between) for line in written.splitlines() if line] == [2, 2]
    again = kf.read_conll(tmp_path / "out", separator=separator, columns=["word", "gold", "label"])
    assert (
        again.columns["word"].strings() == kf.read_conll(tmp_path / "in", separator=separator).columns["word"].strings()
    )
    (tmp_path / "text").write_text("He said\n")
    model.tag_file(tmp_path / "text", tmp_path / "out", text=True)
    assert (tmp_path / "out").read_text().splitlines()[1] == "said O"
