"""Answers on disk: nothing that was answered is lost, whenever the program dies."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kinfolk as kf
from kinfolk.errors import InputError
from kinfolk.linking.answers import HEAD_LINE, Answer, AnswerFile
from kinfolk.linking.records import read_pair_labels

IDS = ["a1", "b,2", 'c"3', "dé4", "e\n5", "f6"]
GIVEN = [
    Answer(0, 1, True, 0.25, True), Answer(2, 3, False, 0.5, False), Answer(1, 4, None, None, None),
    Answer(0, 5, False, 0.125, False),
]  # fmt: skip


def table(ids: list[str] = IDS) -> kf.Mentions:
    return kf.records_from_frames({"id": ids, "name": list("uvwxyz")[: len(ids)]})


def written(path: Path, answers: list[Answer]) -> bytes:
    file = AnswerFile(path, table())
    for one in answers:
        file.add(one)
    file.close()
    return path.read_bytes()


def read(path: Path, items: kf.Mentions | None = None) -> list[Answer]:
    file = AnswerFile(path, items or table())
    file.close()
    return file.answers


def test_answers_come_back_as_they_were_given(tmp_path: Path) -> None:
    written(tmp_path / "labels.csv", GIVEN)
    assert read(tmp_path / "labels.csv") == GIVEN


def test_the_file_is_what_training_reads(tmp_path: Path) -> None:
    written(tmp_path / "labels.csv", GIVEN)
    labels = read_pair_labels(tmp_path / "labels.csv", table())
    found = zip(labels.left.tolist(), labels.right.tolist(), labels.match.tolist(), strict=True)
    assert {*found} == {(0, 1, 1), (2, 3, 0), (0, 5, 0)}


def test_a_file_that_ends_anywhere_is_read_and_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Cut after every byte, as a kill in the middle of a write would leave it."""
    path = tmp_path / "labels.csv"
    whole = written(path, GIVEN)
    ends, size = [], len(HEAD_LINE)
    for one in GIVEN:
        other = tmp_path / "one.csv"
        other.unlink(missing_ok=True)
        size += len(written(other, [one])) - len(HEAD_LINE)
        ends.append(size)
    assert ends[-1] == len(whole)
    more = Answer(3, 5, True, 0.75, True)
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        caplog.clear()
        with caplog.at_level(logging.WARNING, "kinfolk"):
            found = read(path)
        complete = sum(end <= cut for end in ends)
        assert [(*one.pair, one.match) for one in found] == [(*one.pair, one.match) for one in GIVEN[: len(found)]]
        assert complete <= len(found) <= complete + 1  # one more where all but the end of its line is there
        assert found[:complete] == GIVEN[:complete]
        dropped = len(found) == complete and cut not in (*ends, len(HEAD_LINE)) and cut > len(HEAD_LINE)
        assert bool(caplog.records) == dropped, cut
        file = AnswerFile(path, table())
        file.add(more)
        file.close()
        assert read(path)[-1] == more and len(read(path)) == len(found) + 1
        assert len(read_pair_labels(path, table())) == sum(one.match is not None for one in found) + 1


def test_an_answer_taken_back_is_gone_and_one_changed_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    file = AnswerFile(path, table())
    for one in GIVEN:
        file.add(one)
    assert file.take_back() == GIVEN[-1] and path.read_bytes().count(b"\n") == len(GIVEN) + 1  # an id has one more
    changed = GIVEN[0]._replace(match=False)
    file.add(changed)
    assert file.answers == [GIVEN[1], GIVEN[2], changed]
    assert file.take_back() == changed
    file.add(GIVEN[3])
    file.close()
    assert read(path) == [GIVEN[1], GIVEN[2], GIVEN[3]]


CHILD = """
import sys
import kinfolk as kf
from kinfolk.linking.answers import Answer, AnswerFile
items = kf.records_from_frames({"id": [str(i) for i in range(2000)], "name": ["x"] * 2000})
file = AnswerFile(sys.argv[1], items)
for i in range(1999):
    file.add(Answer(i, i + 1, i % 2 == 0, 0.5, True))
    print(i, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 40])
def test_what_was_answered_before_a_kill_is_there(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "labels.csv"
    command = [sys.executable, "-c", CHILD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ}) as child:
        assert child.stdout is not None
        told = [int(child.stdout.readline()) for _ in range(lines)]
        os.kill(child.pid, signal.SIGKILL)
        told += [int(line) for line in child.stdout.read().splitlines()]
    items = kf.records_from_frames({"id": [str(i) for i in range(2000)], "name": ["x"] * 2000})
    assert [one.left for one in read(path, items)][: len(told)] == told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("left,right,match\na1,nobody,yes\n", "line 2: no record has the id 'nobody'"),
        ("match,left,right\nyes,a1\n", "line 2: expected a cell in each of left, right, match, got none in right"),
        ("left,right,match\na1,f6,yes\nf6,a1,no\n", "line 3: 'a1' and 'f6' are a match and none: line 2"),
        ("left,right,match\na1,f6,0.7\n", "line 2: expected yes, no or unsure, got '0.7'"),
        ("left,right,match\na1,a1,yes\n", "line 2: expected two different records"),
        ("a1,f6,yes\n", "line 1: expected the columns left, right and match"),
        ('left,right,match\n"a1,f6,yes\n\n\nf6,"dé4,no', "line 2: a quotation mark is opened and never closed"),
    ],
)
def test_a_file_that_is_wrong_says_where_and_what_to_do(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"labels\.csv") as error:
        AnswerFile(path, table())
    assert message in str(error.value)
    assert path.read_text(encoding="utf-8") == text  # as it was


def test_a_file_of_ones_own_is_taken_with_its_columns(tmp_path: Path) -> None:
    """Other columns stay empty, the same answer twice counts once, a last line may lack its end."""
    path = tmp_path / "labels.csv"
    path.write_text("\ufeffwho,left,right,match\r\nme,f6,a1,TRUE\r\n,a1,f6,yes", encoding="utf-8")
    assert [one[:3] for one in read(path)] == [(0, 5, True), (0, 5, True)]
    file = AnswerFile(path, table())
    file.add(Answer(0, 3, None, 0.5, False))
    file.close()
    assert path.read_text(encoding="utf-8").splitlines()[-1] == ",a1,dé4,unsure"


def test_pairs_of_two_tables_cross_them(tmp_path: Path) -> None:
    both = kf.records_from_frames({"id": ["1", "2"], "name": ["u", "v"]}, {"id": ["1", "2"], "name": ["u", "w"]})
    path = tmp_path / "labels.csv"
    file = AnswerFile(path, both)
    file.add(Answer(0, 2, True))
    file.close()
    assert read(path, both) == [Answer(0, 2, True)] and len(read_pair_labels(path, both)) == 1
    path.write_text("left,right,match\nfirst:1,first:2,no\n")
    with pytest.raises(InputError, match="expected a record of each table"):
        AnswerFile(path, both)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be written.*name another file"):
        AnswerFile(tmp_path / "no" / "labels.csv", table())
