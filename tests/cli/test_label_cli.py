"""`kinfolk records label`: questions in the terminal, a page for this computer, answers that training reads."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import kinfolk as kf
import label_world

ONE = ["--jobs", "1"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """new.csv with people, model.kinfolk of others."""
    folder = tmp_path_factory.mktemp("label")
    people = label_world.people()
    columns = {name: column.strings() for name, column in people.columns.items()}
    with open(folder / "new.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", *columns])
        for i, values in enumerate(zip(*columns.values(), strict=True)):
            rows.writerow([people.name(i), *(value or "" for value in values)])
    label_world.start().save(folder / "model.kinfolk")
    return folder


def label(kinfolk: Any, desk: Path, output: Path, keys: str, *more: str) -> Any:
    given = ["records", "label", desk / "model.kinfolk", "--records", desk / "new.csv", "-o", output, "--terminal"]
    return kinfolk(*given, *ONE, *more, stdin="".join(f"{key}\n" for key in keys).encode())


def test_keys_in_the_terminal(kinfolk: Any, desk: Path, tmp_path: Path) -> None:
    output = tmp_path / "labels.csv"
    told = label(kinfolk, desk, output, "ynxubq")
    assert told.status == 0, told.err
    assert [line.split(",")[2] for line in output.read_text().splitlines()] == ["match", "yes", "no"]
    assert "expected y, n, u, b or q; got 'x'" in told.out and told.out.count("match? y, n, u") == 6
    assert "2 answers in" in told.err and "1 yes, 1 no, 0 unsure" in told.err
    assert "an estimate needs 10 answers of yes or no; there are 2" in told.err
    asked = re.findall(r"^ +(rec-\S+) +(rec-\S+)$", told.out, re.MULTILINE)
    assert len(asked) == 5 and asked[2] == asked[4], "back asks again"
    again = label(kinfolk, desk, output, "")
    assert again.status == 0 and "2 answers in" in again.err
    assert not {*re.findall(r"^ +(rec-\S+) +(rec-\S+)$", again.out, re.MULTILINE)} & {*asked[:2]}


def test_the_command_that_is_told_can_be_run(kinfolk: Any, desk: Path, tmp_path: Path) -> None:
    output = tmp_path / "our answers.csv"
    told = label(kinfolk, desk, output, "yn", "--block", "key(surname[:3] + 'postcode')", "--id", "id")
    command = told.err.partition("to learn from them: kinfolk ")[2].splitlines()[0]
    words = shlex.split(command)
    assert words[words.index("--block") + 1] == "key(surname[:3] + 'postcode')" and words.count("--block") == 1
    assert words[words.index("--out") + 1] == str(tmp_path / "our answers.kinfolk")
    trained = kinfolk(*words, *ONE)
    assert trained.status == 0 and "learned from 1 matches and 1 others" in trained.err, trained.err
    assert "labelled pairs" in kinfolk("records", "show", tmp_path / "our answers.kinfolk").out


def test_no_answers_are_nothing_to_learn_from(kinfolk: Any, desk: Path, tmp_path: Path) -> None:
    told = label(kinfolk, desk, tmp_path / "labels.csv", "")
    assert told.status == 0 and "there are 0" in told.err
    assert "F1" not in told.err and "to learn from them" not in told.err


def test_the_answers_are_what_training_takes(kinfolk: Any, desk: Path, tmp_path: Path) -> None:
    output, model = tmp_path / "labels.csv", tmp_path / "new.kinfolk"
    with kf.ActiveLinker(label_world.start(), label_world.people(), output) as loop:
        for _ in range(20):
            question = loop.ask()
            assert question is not None
            loop.tell(question, label_world.truth(question.left, question.right))
        counts = loop.counts
    rules = [word for rule in label_world.RULES for word in ("--block", rule)]
    told = kinfolk("records", "train", "--records", desk / "new.csv", "--pairs", output, *rules, "--out", model, *ONE)
    assert told.status == 0, told.err
    assert f"learned from {counts['yes']} matches and {counts['no']} others" in told.err


def test_only_one_kind_of_answer_is_told(kinfolk: Any, desk: Path, tmp_path: Path) -> None:
    told = label(kinfolk, desk, tmp_path / "labels.csv", "yyy")
    assert told.status == 0 and "none of them is no: go on until there are both" in told.err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--records", "-"], "the answers come from standard input; name a file of records"),
        (["-o", "{desk}/new.csv"], "would overwrite a file that this command reads"),
        (["--documents", "x"], "give either --documents PATH or --records FILE"),
        (["-o", "{desk}/nowhere/labels.csv"], "cannot be written"),
    ],
)
def test_mistakes_are_one_line(kinfolk: Any, desk: Path, tmp_path: Path, more: list[str], message: str) -> None:
    told = label(kinfolk, desk, tmp_path / "labels.csv", "", "--quiet", *(one.format(desk=desk) for one in more))
    assert told.status == 2 and message in told.err and "Traceback" not in told.err


def test_answers_about_other_records_are_refused(kinfolk: Any, desk: Path, tmp_path: Path) -> None:
    output = tmp_path / "labels.csv"
    output.write_text("left,right,match\nsomebody,nobody,yes\n")
    told = label(kinfolk, desk, output, "y", "--quiet")
    assert told.status == 2 and "line 2: no record has the id 'somebody'" in told.err
    assert output.read_text().count("\n") == 2


def serve(desk: Path, output: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kinfolk", "records", "label", str(desk / "model.kinfolk")]
    command += ["--records", str(desk / "new.csv"), "-o", str(output), "--no-open", *ONE, *more]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ})


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        found = re.search(r"the page is at (http://127\.0\.0\.1:\d+/\S+/)", line)
        if found:
            return found[1]
    raise AssertionError("".join(lines))


def state(address: str, answer: dict[str, str] | None = None) -> Any:
    body = None if answer is None else json.dumps(answer).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address + ("state" if answer is None else "answer"), body, headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_page_that_ends_keeps_every_answer(desk: Path, tmp_path: Path, end: signal.Signals) -> None:
    """Ctrl-C ends it as it should be; a kill at any moment loses nothing that was answered."""
    output = tmp_path / "labels.csv"
    with serve(desk, output) as process:
        address = address_of(process)
        found = state(address)
        for word in ("yes", "no", "unsure") * 4:  # the model is being trained when the end comes
            found = state(address, {**{side: found["question"][side] for side in ("left", "right")}, "match": word})
        process.send_signal(end)
        told = process.communicate(timeout=60)[1]
    lines = output.read_text().splitlines()[1:]
    assert [line.split(",")[2] for line in lines] == ["yes", "no", "unsure"] * 4
    if end == signal.SIGINT:
        assert process.returncode == 0 and "12 answers in" in told and "Traceback" not in told


def test_a_port_in_use_says_so(desk: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with serve(desk, tmp_path / "labels.csv", "--port", port, "--quiet") as process:
            told = process.communicate(timeout=60)[1]
    assert process.returncode == 2
    assert f"port {port} of 127.0.0.1 is in use by another program; name another one, or leave --port out" in told
