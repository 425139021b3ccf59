"""E-mail with marked names: small folders of every kind, and the counts of the real ones."""

from __future__ import annotations

import logging
import tarfile
from pathlib import Path

import pytest

from kinfolk import read_mail
from kinfolk.errors import InputError
from kinfolk.text import schemes

MAILS = {
    "9": "Hi Zoë,\r\n\r\nsee Kim & Lee.\r\n",
    "10": "From: Kim Park/Corp@ENRON\n\n-----Original Message-----\n",
}
MARKS = {"9": [(3, 6), (15, 18), (21, 24)], "10": [(6, 14)]}


def label_file(text: str, marks: list[tuple[int, int]]) -> str:
    told = "".join(
        f"<Person>\n<start>{a}</start><end>{b}</end><annotation>{text[a:b]}</annotation></Person>\n" for a, b in marks
    )
    return f'<?xml version="1.0" encoding="iso-8859-1"?>\n<annotations>\n<text>\n{told}</text>\n</annotations>\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, keys in (("people-training", MAILS), ("people-test", ["9"])):
        for part in ("data", "label"):
            (tmp_path / "mail" / split / part).mkdir(parents=True)
        for key in keys:
            (tmp_path / "mail" / split / "data" / key).write_bytes(MAILS[key].encode("latin-1"))
            label = label_file(MAILS[key], MARKS[key]).encode("latin-1")
            (tmp_path / "mail" / split / "label" / f"{key}.xml").write_bytes(label)
    return tmp_path / "mail"


def test_mails_by_hand(folder: Path):
    corpus = read_mail(folder / "people-training")
    assert corpus.n_documents == 2, "a document a mail, 9 before 10"
    assert corpus.rows() == [
        ["Hi", "Zoë", ","],
        ["see", "Kim", "&", "Lee", "."],
        ["From", ":", "Kim", "Park", "/", "Corp", "@", "ENRON"],
        ["-----", "Original", "Message", "-----"],
    ]
    for d, key in enumerate(MAILS):
        mail = corpus.documents(d, d + 1)
        text = MAILS[key]
        assert mail.offsets is not None and mail.labels is not None
        assert [text[a:b] for a, b in mail.offsets.tolist()] == mail.columns["word"].strings()
        spans = schemes.spans(mail.labels, mail.sentence_starts, "BIO")
        assert [(mail.offsets[s.start, 0], mail.offsets[s.end - 1, 1]) for s in spans] == MARKS[key]
        assert {s.type for s in spans} == {"Person"}


def test_splits_are_named(folder: Path, tmp_path: Path):
    with tarfile.open(tmp_path / "mail.tar.gz", "w:gz") as archive:
        archive.add(folder, ".")
    for place in (folder, tmp_path / "mail.tar.gz"):
        for split, documents in (("training", 2), ("people-training", 2), ("test", 1)):
            corpus = read_mail(place, split)
            assert corpus.n_documents == documents
            assert corpus.source == f"{place}/people-{split.removeprefix('people-')}"
        with pytest.raises(InputError, match="several splits: pass split= one of people-test, people-training"):
            read_mail(place)
        with pytest.raises(InputError, match="0 splits fit 'dev': pass split= one of people-test"):
            read_mail(place, "dev")


def test_mails_without_labels(folder: Path):
    for file in (folder / "people-test" / "label").iterdir():
        file.unlink()
    corpus = read_mail(folder / "people-test")
    assert corpus.labels is None and corpus.n_sentences == 2 and corpus.offsets is not None


def test_a_mail_or_a_label_file_that_is_missing(folder: Path):
    (folder / "people-training" / "label" / "9.xml").unlink()
    with pytest.raises(InputError, match=r"data/9: has no label file: expected <split>/data/ID and"):
        read_mail(folder, "training")
    (folder / "people-training" / "data" / "9").unlink()
    (folder / "people-training" / "data" / "10").rename(folder / "people-training" / "data" / "11")
    with pytest.raises(InputError, match=r"label/10.xml: has no mail file"):
        read_mail(folder, "training")
    for nothing in (folder / "people-training" / "label", folder / "people-training" / "data" / "11"):
        with pytest.raises(InputError, match="no mails: expected <split>/data/ID"):
            read_mail(nothing)
    with pytest.raises(InputError, match="no such file"):
        read_mail(folder / "nowhere")


BROKEN = {
    "beyond the text": ("<start>9</start><end>99</end>", "line 4: expected 0 <= start < end <= 27; got 9 to 99"),
    "not the name": ("<start>0</start><end>2</end><annotation>Kim</annotation>", "are 'Hi', but the file says 'Kim'"),
    "no number": (
        "<start>0</start><end>two</end>",
        r"whole numbers in <start> and <end> of <Person>; got '0' and 'two'",
    ),
    "no end": ("<start>0</start>", "got '0' and ''"),
    "negative": ("<start>-1</start><end>2</end>", "got '-1' and '2'"),
    "a very long number": (f"<start>0</start><end>{'9' * 5000}</end>", "whole numbers"),
    "broken": ("<start>0</start><end>2", "broken XML"),
}


@pytest.mark.parametrize(("fields", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_labels_that_cannot_be_used(fields: str, message: str, folder: Path):
    path = folder / "people-test" / "label" / "9.xml"
    path.write_text(f"<annotations>\n<text>\n\n<Person>{fields}</Person></text></annotations>")
    with pytest.raises(InputError, match=message) as caught:
        read_mail(folder / "people-test")
    assert caught.value.path == str(path)


def test_blanks_within_the_fields_are_no_matter(folder: Path):
    path = folder / "people-test" / "label" / "9.xml"
    path.write_text("<text><Person>\n<start> 15\n</start>\n<end>18</end>\n</Person></text>")
    corpus = read_mail(folder / "people-test")
    assert corpus.label_rows() == [["O"] * 3, ["O", "B-Person", "O", "O", "O"]]


@pytest.mark.data
def test_enron_has_its_counts(data_folder: Path, caplog: pytest.LogCaptureFixture):
    """Training has 3666 marked persons: the folder's README says 3665, as its count missed the one written over several
    lines in 10000.xml. Three are lost as they overlap longer ones (Carol Ann|Ann Brown). None is widened or divided."""
    path = data_folder / "tokens" / "enron_person" / "enron_person.tar.gz"
    if not path.is_file():
        pytest.skip(f"no Enron mails at {path}; set KINFOLK_DATA")
    with caplog.at_level(logging.WARNING, "kinfolk"):
        training, test = read_mail(path, "training"), read_mail(path, "test")
    found = [len(schemes.spans(c.labels, c.sentence_starts, "BIO")) for c in (training, test)]
    assert found == [3666 - 3, 1823]
    assert (training.n_documents, test.n_documents) == (435, 217)
    assert caplog.messages == [f"{path}/personSelfLabel-training: 3663 of 3666 names are labelled (3 overlapping)"]
