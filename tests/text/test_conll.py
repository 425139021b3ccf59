"""Column files: the real counts, round trips, and every bad input with its line."""

from __future__ import annotations

import gzip
import io
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinfolk.core.data import Column
from kinfolk.errors import DataWarning, InputError, SettingError
from kinfolk.text.conll import read_conll, read_gazetteer, write_conll
from kinfolk.text.corpus import Corpus
from kinfolk.text.schemes import spans

SMALL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

Peter NNP I-NP I-PER

-DOCSTART- -X- O O

-DOCSTART- -X- O O

Rome NNP I-NP I-LOC
"""


def read(text: str | bytes, **settings: object) -> Corpus:
    return read_conll(io.BytesIO(text.encode() if isinstance(text, str) else text), **settings)  # type: ignore[arg-type]


def content(corpus: Corpus) -> tuple[object, ...]:
    """What must survive a round trip."""
    columns = {name: corpus.rows(name) for name in corpus.columns}
    labels = None if corpus.labels is None else corpus.label_rows()
    return columns, labels, corpus.scheme, corpus.document_starts.tolist()


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "documents", "sentences", "tokens", "types"),
    [
        ("eng.train", 946, 14041, 203621, {"LOC": 7140, "MISC": 3438, "ORG": 6321, "PER": 6600}),
        ("eng.testa", 216, 3250, 51362, {"LOC": 1837, "MISC": 922, "ORG": 1341, "PER": 1842}),
        ("eng.testb", 231, 3453, 46435, {"LOC": 1668, "MISC": 702, "ORG": 1661, "PER": 1617}),
    ],
)
def test_counts_of_conll2003(
    conll2003: Path, file: str, documents: int, sentences: int, tokens: int, types: dict[str, int]
) -> None:
    corpus = read_conll(conll2003 / file)
    assert (corpus.n_documents, corpus.n_sentences, corpus.n_tokens) == (documents, sentences, tokens)
    assert corpus.scheme == "IOB1" and corpus.source == str(conll2003 / file)
    assert corpus.labels is not None
    found = spans(corpus.labels, corpus.sentence_starts, corpus.scheme)
    assert Counter(span.type for span in found) == types


@pytest.mark.data
def test_chunks_are_iob1_too_and_the_file_survives_writing(conll2003: Path, tmp_path: Path) -> None:
    corpus = read_conll(conll2003 / "eng.testa", columns=["word", "pos", "chunk", "ner"], label="chunk")
    assert corpus.scheme == "IOB1" and list(corpus.columns) == ["word", "pos", "ner"]
    original = read_conll(conll2003 / "eng.testa")
    write_conll(original, tmp_path / "copy")
    assert content(read_conll(tmp_path / "copy")) == content(original)


def test_a_small_file_in_full() -> None:
    corpus = read(SMALL)
    assert corpus.rows() == [["EU", "rejects"], ["Peter"], ["Rome"]]
    assert corpus.rows("pos") == [["NNP", "VBZ"], ["NNP"], ["NNP"]]
    assert corpus.label_rows() == [["I-ORG", "O"], ["I-PER"], ["I-LOC"]]
    assert corpus.document_starts.tolist() == [0, 2, 2, 3]  # the second document is empty
    assert corpus.scheme == "IOB1"
    assert corpus.lines is not None and corpus.lines.tolist() == [3, 4, 6, 12]


@pytest.mark.parametrize(
    ("documents", "starts"), [("auto", [0, 2, 2, 3]), ("none", [0, 1, 2, 3]), ("blank", [0, 2, 3])]
)
def test_documents_by_marker_or_not(documents: str, starts: list[int]) -> None:
    assert read(SMALL, documents=documents).document_starts.tolist() == starts


@pytest.mark.parametrize("end", ["-DOCSTART- O\n", "-DOCSTART- O", "\n-DOCSTART-\n\n", "-DOCSTART- O\n" * 2])
def test_a_marker_at_the_end_starts_no_document(end: str) -> None:
    text = "-DOCSTART- O\n\na O\n\nb O\n\n-DOCSTART- O\n\nc O\n\n"
    assert content(read(text + end)) == content(read(text))
    assert read("a O\n\nb O\n" + end).document_starts.tolist() == [0, 2]


def test_documents_by_blank_lines() -> None:
    text = "\n\n\na O\n\nb O\n\n\nc O\n\n\n\n"
    assert read(text).document_starts.tolist() == [0, 2, 3]
    assert read(text, documents="docstart").document_starts.tolist() == [0, 3]
    assert read("a O\n\nb O\n\n\n\n").document_starts.tolist() == [0, 1, 2]  # the end does not count
    assert read("a O\n-DOCSTART-\nb O\n").document_starts.tolist() == [0, 1, 2]  # a narrow marker


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("a", ["word"]),
        ("a b", ["word", "label"]),
        ("a b c", ["word", "pos", "label"]),
        ("a b c d", ["word", "pos", "chunk", "label"]),
        ("a b c d e f", ["word", "c2", "c3", "c4", "c5", "label"]),
    ],
)
def test_default_names_by_number_of_columns(line: str, names: list[str]) -> None:
    assert list(read(line, label=None).columns) == names
    assert list(read(line).columns) == (names[:-1] if len(names) > 1 else names)
    assert (read(line).labels is None) == (len(names) == 1)


def test_unknown_labels() -> None:
    assert read("a B-PER\nb ?\nc O\n").label_rows() == [["B-PER", None, "O"]]
    assert read("a NN\nb ?\n", unknown=None).label_rows() == [["NN", "?"]]
    corpus = read("a ?\n")
    assert corpus.label_rows() == [[None]] and corpus.scheme is None


def test_blanks_separators_and_line_ends() -> None:
    assert read("\ufeffa  \t B-X\r\n\r\nb O\r\n").rows() == [["a"], ["b"]]
    assert read("10\u00a0000 O\n").rows() == [["10\u00a0000"]]  # only spaces and tabs divide
    assert read("New York\tB-LOC\r\n", separator="\t").rows() == [["New York"]]


def test_files_streams_and_gzip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "no-suffix"
    packed.write_bytes(gzip.compress(SMALL.encode()))
    assert content(read_conll(str(packed))) == content(read(SMALL))
    named = read_conll(io.StringIO(SMALL))
    assert content(named) == content(read(SMALL)) and named.source == "<file>"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SMALL.encode())))
    assert read_conll("-").source == "<stdin>"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "no tokens"),
        ("\n \n\n", None, "no tokens"),
        ("-DOCSTART- O\n\n", None, "no tokens"),
        ("a O\nb\n", 2, r"expected 2 columns \(word, label\) as in line 1, got 1"),
        ("a N O\n\nb N\nc N N O\n", 3, "expected 3 columns .* got 2"),
        ("a B-PER\nb I-PER\n\nc OO\n", 4, "'OO' is not a tag"),
        ("a B-PER\nb X-PER\n", 2, "'X-PER' is not a tag"),
        ("a B-PER\n\nb B_PER\n", 3, "'B_PER' is not a tag"),
    ],
)
def test_bad_content_is_told_by_line(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    path = tmp_path / "bad.conll"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        read_conll(path)
    assert caught.value.line == line and caught.value.path == str(path)
    assert str(caught.value).startswith(str(path) + (f", line {line}: " if line else ": "))


SLIPS = {
    "a change of scheme": ("a S-PER\n\nb B-PER\nc I-PER\n", "IOBES", 1, "line 4: I-PER cannot end a sentence in IOBES"),
    "a foreign letter": ("a B-PER\nb L-PER\n\nc S-PER\n", "IOBES", 1, "line 2: 'L-PER' is not a tag of IOBES"),
    "half of the entities": ("a B-PER\n\nb I-PER\n", "BIO", 1, "line 3: I-PER cannot start a sentence in BIO"),
    "B in IOB1": ("a I-LOC\n\nb I-PER\n\nc B-PER\n", "IOB1", 1, "line 5: B-PER cannot start a sentence in IOB1"),
    "another type": ("a B-PER\nb I-LOC\nc O\nd I-LOC\n\ne B-PER\n\nf B-PER\n", "BIO", 2, "line 2: I-LOC cannot follow"),
}


@pytest.mark.parametrize(("text", "scheme", "count", "told"), SLIPS.values(), ids=SLIPS.keys())
def test_slips_of_tags_are_counted_and_told_by_line(
    tmp_path: Path, text: str, scheme: str, count: int, told: str
) -> None:
    path = tmp_path / "slips.conll"
    path.write_text(text, encoding="utf-8")
    counted = "1 tag breaks the scheme" if count == 1 else f"{count} tags break the scheme"
    with pytest.warns(DataWarning, match=f"slips.conll, {told}.*{counted}; .*repair such tags as conlleval") as found:
        corpus = read_conll(path)
    assert len(found) == 1 and corpus.scheme == scheme
    assert [row.split()[1] for row in text.split("\n") if row] == [tag for row in corpus.label_rows() for tag in row]


def test_a_named_scheme_is_obeyed() -> None:
    assert read("a B-PER\n\nb I-PER\n", scheme="IOB1").scheme == "IOB1"
    assert read("a B-PER\nb OO\n", scheme=None).scheme is None
    with pytest.warns(DataWarning, match="line 1: I-PER cannot start a sentence in BIO. 2 tags break"):
        assert read("a I-PER\n\nb I-PER\n", scheme="BIO").scheme == "BIO"
    with pytest.raises(InputError, match="line 3: 'S-PER' is not a tag of BIO"):
        read("a B-PER\n\nb S-PER\n", scheme="BIO")


def test_what_follows_an_unknown_label_is_no_slip() -> None:
    text = "a B-PER\nb ?\nc I-PER\nd O\n\ne ?\nf I-LOC\n"
    for scheme in ("auto", "BIO"):
        corpus = read(text, scheme=scheme)
        assert corpus.scheme == "BIO" and corpus.label_rows() == [["B-PER", None, "I-PER", "O"], [None, "I-LOC"]]


def test_bytes_that_are_not_utf8() -> None:
    with pytest.raises(InputError, match=r"line 2: not UTF-8 at byte 5 \(0xfc.*iconv"):
        read(b"a O\nM\xfcller O\n")
    with pytest.raises(InputError, match="line 1: not UTF-8 at byte 0"):
        read(SMALL.encode("utf-16"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"documents": "pages"}, "documents must be one of auto, docstart, blank, none"),
        ({"scheme": "IOB2"}, "scheme must be auto, None or one of"),
        ({"columns": ["token", "label"]}, "with 'word' among them"),
        ({"columns": ["word", "word"]}, "distinct"),
        ({"separator": ""}, "separator must be one character"),
        ({"separator": "\n"}, "separator must be one character"),
        ({"label": "ner"}, "label must name one of the columns word, label; got 'ner'"),
        ({"label": "word"}, "label must name one of the columns"),
    ],
)
def test_bad_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        read("a O\n", **settings)


def test_columns_that_do_not_fit_and_empty_cells() -> None:
    with pytest.raises(InputError, match=r"line 1: expected 3 columns \(word, pos, ner\), got 2"):
        read("a O\n", columns=["word", "pos", "ner"])
    with pytest.raises(InputError, match=r"line 2: .* a cell is empty"):
        read("a\tO\n\tO\n", separator="\t")


def test_a_file_of_other_columns_than_the_model_is_told_of_all_that_will_do() -> None:
    reading = {"columns": ["word"], "label": "optional"}
    assert content(read("a O\n", **reading)) == content(read("a O\n"))
    expected = r"line 1: expected 1 column \(word\), or 2 with labels \(word, label\), got 3; correct"
    with pytest.raises(InputError, match=expected + ".*`separator=...`$"):
        read("a N O\n", **reading)
    with pytest.raises(InputError, match=expected + ".*Line 1 begins with #: if it is a comment, remove it"):
        read("# a comment\na O\n", **reading)


@pytest.mark.parametrize(("text", "line"), [("a O\n\n# one more word\nb O\n", 3), ("# one more word\n\na O\n", 1)])
def test_lines_that_look_like_comments_are_named(text: str, line: int) -> None:
    with pytest.raises(InputError, match=rf"expected . columns .* Line {line} begins with #: if it is a comment"):
        read(text)
    assert read("# O\n#tag O\n").rows() == [["#", "#tag"]], "words as others are"


# A first word that starts with a byte order mark would be taken for one; nobody writes such words.
cells = st.text(st.characters(codec="utf-8", exclude_characters="\ufeff\n\r"), min_size=1, max_size=4)
tags = st.sampled_from(["O", "B-PER", "I-PER", "?"])


@st.composite
def corpora(draw: st.DrawFn) -> Corpus:
    token = st.tuples(cells, cells, tags)
    sentences = draw(st.lists(st.lists(token, min_size=1, max_size=4), min_size=1, max_size=5))
    labels = [[None if label == "?" else label for _, _, label in row] for row in sentences]
    splits = draw(st.lists(st.integers(0, len(sentences) - 1), max_size=4))  # a file cannot end in an empty document
    bounds = [0, *sorted(splits), len(sentences)]
    corpus = Corpus.from_sentences(
        [[word for word, _, _ in row] for row in sentences],
        draw(st.sampled_from([labels, None])),
        scheme=None,
        pos=[[pos for _, pos, _ in row] for row in sentences],
    )
    return draw(st.sampled_from([replace(corpus, document_starts=np.array(bounds)), corpus]))


@given(corpora(), st.sampled_from([" ", "\t", "|"]))
def test_what_is_written_reads_back_the_same(corpus: Corpus, separator: str) -> None:
    names = ["word", "pos"] + ["label"] * (corpus.labels is not None)
    label = None if corpus.labels is None else "label"
    with_stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", with_stdout)
        try:
            write_conll(corpus, "-", separator=separator)
        except InputError:  # refused, with reason
            values = [value for column in corpus.columns.values() for value in column.values]
            assert any(separator in value or value.encode().split() != [value.encode()] for value in values)
            return
    text = with_stdout.buffer.getvalue()  # type: ignore[attr-defined]
    for split in {separator, None if separator == " " else separator}:
        again = read(text, columns=names, label=label, scheme=None, separator=split)
        assert content(again) == content(corpus)


def test_layout_of_a_written_file(tmp_path: Path) -> None:
    corpus = read("a N B-X\nb V ?\n\nc N O\n\n\nd N O\n")
    write_conll(corpus, tmp_path / "out", labels=[["O", "O"], ["O"], ["B-X"]])
    assert (tmp_path / "out").read_text() == (
        "-DOCSTART- -X- -X- O\n\na N B-X O\nb V ? O\n\nc N O O\n\n-DOCSTART- -X- -X- O\n\nd N O B-X\n\n"
    )
    write_conll(corpus, tmp_path / "out", document_marker=False)
    assert (tmp_path / "out").read_text() == "a N B-X\nb V ?\n\nc N O\n\nd N O\n\n"
    write_conll(read("a\n\nb\n"), tmp_path / "out")
    assert (tmp_path / "out").read_text() == "a\n\nb\n\n"


def test_what_would_not_read_back_is_not_written(tmp_path: Path) -> None:
    one = Column.from_strings(["O"])
    for word in ["New York", "", "a\nb", "a\tb"]:
        with pytest.raises(InputError, match=r"word .* would not read back as one cell"):
            write_conll(Corpus({"word": Column.from_strings([word])}, [0, 1], [0, 1], one), tmp_path / "out")
    with pytest.raises(InputError, match="-DOCSTART- would read as the start of a document"):
        write_conll(Corpus.from_sentences([["-DOCSTART-"]]), tmp_path / "out")
    with pytest.raises(InputError, match=r"the label '\?' would read as an unknown one"):
        write_conll(Corpus.from_sentences([["a"]], [["?"]]), tmp_path / "out")
    with pytest.raises(InputError, match="labels must hold one list a sentence"):
        write_conll(read(SMALL), tmp_path / "out", labels=[["O"]])
    assert not list(tmp_path.iterdir())


def test_a_list_of_names_has_entries(tmp_path: Path):
    file = tmp_path / "names.txt"
    file.write_text("# rivers\n\n Weser \nRio   Grande\n", encoding="utf-8")
    assert read_gazetteer(file) == ["Weser", "Rio Grande"]
    file.write_text("# rivers\n\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"no entries.*names\.txt|names\.txt.*no entries"):
        read_gazetteer(file)
